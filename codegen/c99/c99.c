// A file of C: the prelude, types, constants, functions of vectors, functions.
#include "codegen/c99/writer.h"

#include <string.h>

__asm__(".section .rodata\nc99_prelude:\n  .incbin \"" PRELUDE "\"\n  .byte 0\n  .previous\n");
extern const char c99_prelude[] __attribute__((visibility("hidden")));

bool c99_is_of_c(Text name) { return !strcmp(name, "memcpy") || !strcmp(name, "memset") || !strcmp(name, "memmove"); }

// "tn_bundle_call" is f7tnbundlecall
static void rename_static(C99 *c, LLVMValueRef v, char kind, uint32_t number) {
  size_t n;
  RtText name = {.mem = c->mem};
  if (LLVMGetLinkage(v) == LLVMExternalLinkage) return;
  rt_text_add(&name, "%c%u", kind, number);
  for (const char *s = LLVMGetValueName2(v, &n); *s; s++)
    if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9')) rt_text_put(&name, s, 1);
  LLVMSetValueName2(v, name.text, name.len);
}

// What compilers call by themselves, the compiler of the C has too.
static void take_names(C99 *c) {
  uint32_t n = 0;
  size_t length;
  for (LLVMValueRef f = LLVMGetFirstFunction(c->mod); f; f = LLVMGetNextFunction(f)) {
    Text name = LLVMGetValueName2(f, &length);
    bool is_known = !strncmp(name, "llvm.", 5) || c99_is_of_c(name);
    if (LLVMIsDeclaration(f) && !is_known) c99_fail(c, "a function of another file:", name);
    if (!LLVMIsDeclaration(f) && !c99_is_of_c(name)) rename_static(c, f, 'f', n++);
  }
  for (LLVMValueRef g = LLVMGetFirstGlobal(c->mod); g; g = LLVMGetNextGlobal(g))
    if (strncmp(LLVMGetValueName2(g, &length), "llvm.", 5)) rename_static(c, g, 'g', n++);
}

bool cg_c99_text(RtArena *mem, LLVMModuleRef mod, RtText *out, RtText *why) {
  C99 *c = &(C99){.mem = mem, .mod = mod, .layout = LLVMGetModuleDataLayout(mod), .why = why};
  RtText *part[] = {&c->types, &c->prototypes, &c->globals, &c->helpers, &c->functions};
  for (size_t k = 0; k < sizeof part / sizeof *part; k++) part[k]->mem = mem;
  c->pointer_bits = 8 * LLVMPointerSize(c->layout);
  take_names(c);
  c99_globals(c);
  c99_functions(c);
  rt_text_add(out, "%sCHECK(pointers, sizeof(Ptr) == %u);\n", c99_prelude, c->pointer_bits / 8);
  for (size_t k = 0; k < sizeof part / sizeof *part; k++)
    if (part[k]->len) rt_text_put(out, part[k]->text, part[k]->len);
  return !why->len;
}
