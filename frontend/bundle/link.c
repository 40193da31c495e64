#include "frontend/bundle/link.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- the archive: "!<arch>\n", then members of a header of 60 characters and their bytes, each begun at an even place
static void put_member(RtText *out, const char *name, const void *bytes, size_t n) {
  rt_text_add(out, "%-16s%-12s%-6s%-6s%-8s%-10zu`\n", name, "0", "0", "0", "644", n);
  rt_text_put(out, bytes, n);
  if (n % 2) rt_text_put(out, "\n", 1);
}

static void put_big_endian(RtText *out, uint32_t v) {
  const char byte[] = {(char)(v >> 24), (char)(v >> 16), (char)(v >> 8), (char)v};
  rt_text_put(out, byte, 4);
}

static void put_symbol(RtText *names, uint32_t *n, const char *bundle, const char *name, const char *ending) {
  rt_text_add(names, "%s_%s%s", bundle, name, ending);
  rt_text_put(names, "", 1);
  ++*n;
}

void fe_archive(const char *name, const CgObject *object, const TnBundle *b, bool has_workers, RtText *out) {
  static const char *const fixed[] = {"about", "cpu", "error", "init", "load", "save"};
  RtText names = {.mem = out->mem}, index = {.mem = out->mem};
  uint32_t n = 0;
  for (size_t k = 0; k < sizeof fixed / sizeof *fixed; k++) put_symbol(&names, &n, name, fixed[k], "");
  for (uint32_t f = 0; f < b->about->n_functions; f++) {
    put_symbol(&names, &n, name, b->about->functions[f].name, "");
    if (has_workers) put_symbol(&names, &n, name, b->about->functions[f].name, "_worker");
  }
  enum { MAGIC = 8, HEADER = 60 };
  size_t index_bytes = 4 + 4 * (size_t)n + names.len;
  put_big_endian(&index, n);
  for (uint32_t k = 0; k < n; k++)  // all are in the one member
    put_big_endian(&index, (uint32_t)(MAGIC + HEADER + (index_bytes + 1) / 2 * 2));
  rt_text_put(&index, names.text, names.len);
  rt_text_put(out, "!<arch>\n", MAGIC);
  put_member(out, "/", index.text, index.len);
  put_member(out, strlen(name) > 12 ? "bundle.o/" : rt_printf(out->mem, "%s.o/", name), object->bytes, object->size);
}

// ---- the shared library
extern char **environ;

// "aarch64-unknown-linux-gnu" is aarch64-linux-gnu to Debian's linkers.
static const char *system_linker(RtArena *mem, const char *triple) {
  const char *rest = strstr(triple, "-unknown-");
  if (!rest) return "ld";
  return rt_printf(mem, "%.*s-%s-ld", (int)(rest - triple), triple, rest + strlen("-unknown-"));
}

// True when the program ran; *status: how it ended.
static bool run(const char *const *args, int *status) {
  pid_t pid;
  if (posix_spawnp(&pid, args[0], NULL, NULL, (char *const *)(uintptr_t)args, environ)) return false;
  while (waitpid(pid, status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(*status) && WEXITSTATUS(*status) != 127;
}

bool fe_link_shared(RtArena *mem, const char *path, const char *triple, RtText *why) {
  const char *const linkers[] = {"ld.lld-19", "ld.lld", system_linker(mem, triple)};
  const char *object = rt_printf(mem, "%s.o", path), *library = rt_printf(mem, "%s.so", path);
  for (size_t k = 0; k < sizeof linkers / sizeof *linkers; k++) {
    const char *const args[] = {linkers[k], "-shared", "--no-undefined", "-z", "noexecstack",
                                "-o",       library,   object,           NULL};
    int status = 0;
    if (!run(args, &status)) continue;
    if (status == 0) return true;
    return rt_text_add(why, "%s could not link %s", linkers[k], library), false;
  }
  rt_text_add(why, "a shared library for %s needs a linker: ld.lld-19, ld.lld or %s", triple, linkers[2]);
  return false;
}
