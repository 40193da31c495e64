// Support code of bundles as LLVM bitcode, by architecture (cmake/bundle.cmake makes it).
#include "codegen/bundle/support_code.h"

#include <string.h>

#define ROW(arch)                                                                                             \
  __asm__(".section .rodata\n  .balign 16\nsupport_" #arch ":\n  .incbin \"" SUPPORT_CODE "/" #arch ".bc\"\n" \
          "support_" #arch "_end:\n  .previous\n");                                                           \
  extern const char support_##arch[] __attribute__((visibility("hidden")));                                   \
  extern const char support_##arch##_end[] __attribute__((visibility("hidden")));
#include "architectures.def"
#undef ROW

typedef struct {
  const char *arch, *bytes, *end;
} SupportCode;
static const SupportCode codes[] = {
#define ROW(arch) {#arch, support_##arch, support_##arch##_end},
#include "architectures.def"
#undef ROW
};

// "thumbv8.1m.main-none-eabihf" begins with thumbv8_1m
static bool begins_with(const char *triple, const char *arch) {
  for (; *arch; arch++, triple++)
    if (*triple != *arch && !(*arch == '_' && *triple == '.')) return false;
  return true;
}

bool cg_support_code(const char *triple, const void **bytes, size_t *n, RtText *why) {
  for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
    if (!begins_with(triple, codes[k].arch)) continue;
    *bytes = codes[k].bytes;
    *n = (size_t)(codes[k].end - codes[k].bytes);
    return true;
  }
  rt_text_add(why, "there are no bundles for '%s': the architectures are", triple);
  for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) rt_text_add(why, "%s %s", k ? "," : "", codes[k].arch);
  return false;
}
