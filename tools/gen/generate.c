// Writes what follows from the tables of ir/*.def, so that a row is written once. Runs in the build, before the library.
//
//   generate calls-header OUT            tenure_ops.h: prototypes of the pointwise calls
//   generate calls OUT                   pointwise_calls.h: their definitions
//   generate call-list OUT               pointwise_list.h: a macro call for each of them, for tests
//   generate sites OUT HEADER..          tenure_site.h: call-site macros for all prototypes of these headers
//   generate explain-pages OUT SOURCE_DIR     explain_pages.h: docs/diagnostics/*.md for `tenure explain`
//   generate diag-programs OUT SOURCE_DIR     diagnostic_programs.h: the programs in them, for tests
//   generate pages SOURCE_DIR            docs/ops.md, docs/diagnostics.md, docs/optimizers.md, and parts of other pages between
//                                        `<!-- generated: NAME -->` and `<!-- end -->`
//   generate check-pages SOURCE_DIR      writes nothing; names those that are stale
//
// Exit status: 0; 1 for tables or headers that it cannot read, or stale pages; 2 for a wrong command line.
#include "tools/gen/gen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *gen_read(const char *path) {
  FILE *in = fopen(path, "rb");
  char *text = NULL;
  size_t n = 0, cap = 0, got;
  do {
    if (n + 1 >= cap) text = realloc(text, cap = cap ? 2 * cap : 1 << 16);
    if (!in || !text) break;
    got = fread(text + n, 1, cap - n - 1, in);
    n += got;
  } while (got);
  bool good = in && text && !ferror(in);
  if (good) text[n] = 0;
  else fprintf(stderr, "%s: %s\n", path, strerror(errno));
  if (in) fclose(in);
  if (!good) free(text);
  return good ? text : NULL;
}

static bool write_one(FILE *out, const char *what, char **arg, int n) {
  if (!strcmp(what, "calls-header")) return gen_calls_header(out);
  if (!strcmp(what, "calls")) return gen_calls(out);
  if (!strcmp(what, "call-list")) return gen_call_list(out);
  if (!strcmp(what, "explain-pages")) return n == 1 && gen_explain_pages(out, arg[0]);
  if (!strcmp(what, "diag-programs")) return n == 1 && gen_diag_programs(out, arg[0]);
  return gen_sites(out, arg, n);
}

static int write_file(const char *what, const char *path, char **arg, int n) {
  FILE *out = fopen(path, "w");
  bool good = out && write_one(out, what, arg, n);
  if (out) good = fclose(out) == 0 && good;
  else fprintf(stderr, "%s: %s\n", path, strerror(errno));
  if (!good) remove(path);
  return good ? 0 : 1;
}

static bool is_file(const char *what) {
  static const char *const files[] = {"calls-header", "calls", "call-list", "explain-pages", "diag-programs", "sites"};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++)
    if (!strcmp(what, files[k])) return true;
  return false;
}

int main(int argc, char **argv) {
  if (argc >= 3 && is_file(argv[1])) return write_file(argv[1], argv[2], argv + 3, argc - 3);
  if (argc == 3 && !strcmp(argv[1], "pages")) return gen_pages(argv[2], false) ? 0 : 1;
  if (argc == 3 && !strcmp(argv[1], "check-pages")) return gen_pages(argv[2], true) ? 0 : 1;
  fprintf(stderr,
          "usage: generate calls-header|calls|call-list|sites OUT [HEADER..], generate explain-pages|diag-programs OUT "
          "SOURCE_DIR, generate pages|check-pages SOURCE_DIR\n");
  return 2;
}
