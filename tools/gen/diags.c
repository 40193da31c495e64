// The pages docs/diagnostics/E103.md, one for each row of ir/diag.def: as text for `tenure explain`, and their programs, a wrong and
// a right one, as functions for tests/test_diagnostic_pages.c.
//
//   ```c                          static void wrong(tn_program *p, tn_module *net, tn_function *f, tn_tensor x) {
//   tn_scope_end(s);              tn_scope_end(s);
//   ```                           }
#define _GNU_SOURCE
#include "tools/gen/gen.h"

#include <stdlib.h>
#include <string.h>

void gen_diag_path(char *path, size_t size, const char *source_dir, const DiagRow *d) {
  snprintf(path, size, "%s/docs/diagnostics/%c%03d.md", source_dir, d->severity[0], d->number);
}

static char *read_page(const char *source_dir, const DiagRow *d) {
  char path[4096];
  gen_diag_path(path, sizeof path, source_dir, d);
  return gen_read(path);
}

bool gen_put_diag_page(FILE *out, const DiagRow *d, const char *old) {
  const char *body = old ? strchr(old, '\n') : NULL;
  fprintf(out, "# %c%03d: %s\n%s", d->severity[0], d->number, d->doc, body ? body + 1 : "");
  return !ferror(out);
}

static void put_c_string(FILE *out, const char *s, const char *end) {
  fputs("\n\"", out);
  for (; s < end; s++) {
    if (*s == '\n') fputs(s + 1 < end ? "\\n\"\n\"" : "\\n", out);
    else if (*s == '"' || *s == '\\') fprintf(out, "\\%c", *s);
    else fputc(*s, out);
  }
  fputc('"', out);
}

bool gen_explain_pages(FILE *out, const char *source_dir) {
  fprintf(out, "// Written by tools/gen from docs/diagnostics/*.md, in the order of ir/diag.def.\n"
               "static const char *const diag_pages[] = {\n");
  for (const DiagRow *d = gen_diags; d->name; d++) {
    char *text = read_page(source_dir, d);
    const char *body = text ? strchr(text, '\n') : NULL;
    if (!body) return false;
    put_c_string(out, body + 1, body + strlen(body));
    fputs(",\n", out);
    free(text);
  }
  fprintf(out, "};\n");
  return !ferror(out);
}

// ---- programs
typedef struct {
  const char *at, *end;  // NULL: the page has none
  bool is_text;          // .tir
} Block;

// The n-th fenced block of the page.
static Block block_of(const char *page, int n) {
  const char *open = strstr(page, "\n```");
  while (open && n-- > 0) {
    const char *close = strstr(open + 4, "\n```");
    open = close ? strstr(close + 4, "\n```") : NULL;
  }
  const char *at = open ? strchr(open + 4, '\n') : NULL, *end = at ? strstr(at, "\n```") : NULL;
  return end ? (Block){at + 1, end + 1, !strncmp(open + 4, "tir", 3)} : (Block){0};
}

static int line_of(const char *page, const char *at) {
  int line = 1;
  for (const char *s = page; s < at; s++) line += *s == '\n';
  return line;
}

static void put_program(FILE *out, const DiagRow *d, const char *what, const char *page, Block b) {
  if (!b.at) return;
  if (b.is_text) {
    fprintf(out, "static const char %s_%d[] =", what, d->number);
    put_c_string(out, b.at, b.end);
    fprintf(out, ";\n");
    return;
  }
  fprintf(out, "static void %s_%d(tn_program *p, tn_module *net, tn_function *f, tn_tensor x) {\n", what, d->number);
  fprintf(out, "(void)p, (void)net, (void)f, (void)x;\n#line %d \"docs/diagnostics/%c%03d.md\"\n", line_of(page, b.at),
          d->severity[0], d->number);
  fwrite(b.at, 1, (size_t)(b.end - b.at), out);
  fprintf(out, "}\n");
}

bool gen_diag_programs(FILE *out, const char *source_dir) {
  char *rows = NULL;
  size_t n = 0;
  FILE *list = open_memstream(&rows, &n);
  fprintf(out, "// Written by tools/gen from docs/diagnostics/*.md: the programs of the pages.\n");
  for (const DiagRow *d = gen_diags; d->name && list; d++) {
    char *page = read_page(source_dir, d);
    if (!page) return fclose(list), free(rows), false;
    Block wrong = block_of(page, 0), right = block_of(page, 1);
    put_program(out, d, "wrong", page, wrong);
    put_program(out, d, "right", page, right);
    const char *field = wrong.is_text ? "text" : "build";
    if (wrong.at && right.at)
      fprintf(list, "    {.id = \"%c%03d\", .wrong_%s = wrong_%d, .right_%s = right_%d},\n", d->severity[0], d->number,
              field, d->number, field, d->number);
    else fprintf(list, "    {.id = \"%c%03d\"},\n", d->severity[0], d->number);
    free(page);
  }
  if (!list) return false;
  fclose(list);
  fprintf(out, "static const DiagProgram diag_programs[] = {\n%s};\n", rows);
  free(rows);
  return !ferror(out);
}
