// Mutants of the programs in tests/corpus/run through the target of fuzz_run, without a fuzzer: they are refused or run.
// Enough of them must be accepted, or the mutations are too wild to find anything.
//
//   test_mutants [--interpret] [N [SEED [FOLDER]]]     N mutants, each of up to N_DEEP generations, from a seed;
//                                                      --interpret: no code is generated, so that many more are tried
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"
#include "tests/tir_mutate.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_MUTANTS = 150, N_DEEP = 3, MAX_FILES = 256, LEAST_SHARE = 15 /* percent */, MAX_SECONDS = 60 };

extern uint32_t fuzz_run_compiled_of;
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static char *files[MAX_FILES];
static uint32_t n_files;

static char *read_file(const char *path) {
  static char text[1 << 16];
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  return strdup(text);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void read_folder(const char *folder) {
  struct dirent **e;
  int n = scandir(folder, &e, NULL, by_name);
  for (int k = 0; k < n; k++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, e[k]->d_name);
    if (e[k]->d_name[0] != '.' && n_files < MAX_FILES) files[n_files++] = read_file(path);
    free(e[k]);
  }
  if (n >= 0) free(e);
}

static bool is_accepted(RtArena *mem, RtText text) {
  RtDiags d = {.mem = mem};
  Prog *p = ir_parse(mem, text.text, text.len, "", &d);
  bool ok = p != NULL;
  for (uint32_t k = 0; ok && k < p->n_fns; k++) ok = ir_verify(p->fns[k], &d);
  return ok;
}

// A mutant that is refused is dropped: the next generation begins with the one before it.
static uint32_t try_mutants(const char *text, Rng *r) {
  RtArena *mem = rt_arena_new();
  RtText from = {.mem = mem};
  uint32_t n_accepted = 0;
  rt_text_add(&from, "%s", text);
  for (uint32_t k = 0; k < N_DEEP; k++) {
    RtText next = tir_mutate(mem, from.text, from.len, r);
    if (!is_accepted(mem, next)) continue;
    n_accepted++;
    from = next;
    if (getenv("TENURE_MUTANT")) {  // where the text is left for whoever looks into a crash
      FILE *f = fopen(getenv("TENURE_MUTANT"), "wb");
      if (f) fwrite(next.text, 1, next.len, f), fclose(f);
    }
    alarm(MAX_SECONDS);
    LLVMFuzzerTestOneInput((const uint8_t *)next.text, next.len);
    alarm(0);
  }
  rt_arena_free(mem);
  return n_accepted;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--interpret")) fuzz_run_compiled_of = 0, argc--, argv++;
  uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : N_MUTANTS, n_accepted = 0;
  Rng r = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
  read_folder(argc > 3 ? argv[3] : "tests/corpus/run");
  if (!CHECK(n_files > 0)) return check_report();
  for (uint32_t k = 0; k < n; k++) n_accepted += try_mutants(files[rng_below(&r, n_files)], &r);
  printf("%u of %u mutants are accepted\n", n_accepted, n * N_DEEP);
  CHECK(n_accepted * 100 >= n * N_DEEP * LEAST_SHARE);
  for (uint32_t k = 0; k < n_files; k++) free(files[k]);
  return check_report();
}
