// Reference pages in docs/, checked in: whole ones, and parts of others between `<!-- generated: NAME -->` and
// `<!-- end -->`. A ctest (test_generate) says when they are stale; `cmake --build --preset release --target pages` writes them.
#define _GNU_SOURCE
#include "tools/gen/gen.h"

#include <stdlib.h>
#include <string.h>

// ---- text in tables
static void put_cell(FILE *out, const char *text) {
  for (; *text; text++) fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void put_list(FILE *out, const char *name, bool optional, int *n) {
  fprintf(out, optional ? "%s(`%s`)" : "%s`%s`", (*n)++ ? " " : "", name);
}

static const char *kind_text(const char *kind) {
  static const struct {
    const char *kind, *text;
  } kinds[] = {{"INT", "whole number"}, {"NUM", "number"}, {"STR", "text"}, {"BYTES", "bytes"},
               {"LIST", "list"},        {"FLAG", "flag"},  {"DIM", "dim"},  {"PARAM", "parameter"}};
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    if (!strcmp(kinds[k].kind, kind)) return kinds[k].text;
  return kind;
}

static bool is_optional(const TakesRow *t) { return strcmp(t->presence, "REQUIRED") != 0; }

static void put_attrs(FILE *out, const OpRow *op) {
  int n = 0;
  for (const TakesRow *t = gen_takes; t->op; t++)
    if (!strcmp(t->op, op->name)) put_list(out, t->key, is_optional(t), &n);
}

// ---- docs/ops.md
static void put_call(FILE *out, const OpRow *op) {
  if (gen_has_call(op)) fprintf(out, "`tn_%s`", op->name);
  if (gen_has_in_place(op)) fprintf(out, " `tn_%s_`", op->name);
}

static void put_pointwise_ops(FILE *out) {
  fprintf(out, "| op | operands | attributes | meaning | calls made from the row |\n| --- | --- | --- | --- | --- |\n");
  for (const OpRow *op = gen_ops; op->name; op++) {
    if (!op->is_pointwise) continue;
    fprintf(out, "| `%s` | %.*s | ", op->name, op->n_operands ? 2 * op->n_operands - 1 : 0, "a b c");
    put_attrs(out, op);
    fprintf(out, " | ");
    put_cell(out, op->doc);
    fprintf(out, " | ");
    put_call(out, op);
    fprintf(out, " |\n");
  }
}

static void put_expression(FILE *out, const char *text) {
  if (!strcmp(text, "PRIM")) fprintf(out, "primitive");
  else if (!strcmp(text, "NOGRAD")) fprintf(out, "0");
  else fprintf(out, "`%s`", text);
}

static void put_expressions(FILE *out) {
  fprintf(out, "| op | value | gradient of a | of b | of c |\n| --- | --- | --- | --- | --- |\n");
  for (const OpRow *op = gen_ops; op->name; op++) {
    if (!op->is_pointwise) continue;
    fprintf(out, "| `%s` | ", op->name);
    put_expression(out, op->forward);
    for (int k = 0; k < MAX_OPERANDS; k++) {
      fprintf(out, " | ");
      if (op->grad[k]) put_expression(out, op->grad[k]);
    }
    fprintf(out, " |\n");
  }
}

static void put_other_ops(FILE *out) {
  fprintf(out, "| op | operands | results | class | rows | flags | gradient | attributes | meaning |\n"
               "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const OpRow *op = gen_ops; op->name; op++) {
    if (op->is_pointwise) continue;
    fprintf(out, "| `%s` |%s | %d | %s | %s | ", op->name, op->operands, op->n_results, op->op_class, op->rows);
    put_cell(out, op->flags);
    fprintf(out, " | %s | ", op->grad_rule);
    put_attrs(out, op);
    fprintf(out, " | ");
    put_cell(out, op->doc);
    fprintf(out, " |\n");
  }
}

static bool put_ops_page(FILE *out, const char *source_dir) {
  fprintf(out, "# Operations\n\n"
               "Written by tools/gen from `ir/ops.def` and `ir/op_attrs.def`, which say what the words of a row mean. "
               "Operands in brackets and\n"
               "attributes in parentheses are optional. [How to add an op](how-to-add-an-op.md).\n\n"
               "## Pointwise ops\n\nOperands broadcast as in NumPy; `tn_NAME_` writes its result to operand a.\n\n");
  put_pointwise_ops(out);
  fprintf(out, "\n## Pointwise ops as expressions\n\n"
               "a b c: operands, y: the result, g: the gradient of the result, K: a number, ATTR: an attribute. A "
               "primitive is stated by hand,\n"
               "in doubles (`ir/interp/primitives.c`) and in LLVM IR (`codegen/math/primitives.c`).\n\n");
  put_expressions(out);
  fprintf(out, "\n## Other ops\n\nGradient: the rule in `ir/autodiff`; `zero`: none by meaning, `missing`: E125, "
               "`expanded`: pass grad does not meet it.\n`tests/test_grad_table.c` holds the gradient of every row of "
               "this page, and the "
               "gradient of that, to differences: a second derivative is\nmissing only where the rule leads to an op "
               "that is `missing`; recurrences\nand attention take another way where they are differentiated twice "
               "(`ir/autodiff/grad_rnn.c`, `grad_attention.c`).\n\n");
  put_other_ops(out);
  fprintf(out, "\n## Calls against PyTorch\n\n"
               "What `tests/op_cases` compares with PyTorch's numbers: value, and where the call has them, gradients. "
               "Pointwise ops have points of\ntheir own, `tests/pointwise_literals.def`. Awkward: NaN, infinities, -0, "
               "denormal and the largest numbers.\n\n");
  return gen_put_cases(out, source_dir) && !ferror(out);
}

// ---- docs/diagnostics.md
static void put_diag(FILE *out, const DiagRow *d) {
  char letter = d->severity[0];  // of ERROR, WARNING, NOTE
  fprintf(out, "| [%c%03d](diagnostics/%c%03d.md) | ", letter, d->number, letter, d->number);
  put_cell(out, d->doc);
  fprintf(out, " |\n");
}

static bool put_diags_page(FILE *out, const char *source_dir) {
  (void)source_dir;  // its rows are compiled in
  fprintf(out,
          "# Diagnostics\n\nWritten by tools/gen from `ir/diag.def`. E: an error, W: a warning, N: a note. Each has a "
          "page: what it means,\na wrong and a right program, the usual remedy. `tenure explain E103` prints it.\n\n"
          "| number | meaning |\n| --- | --- |\n");
  for (const DiagRow *d = gen_diags; d->name; d++) put_diag(out, d);
  return !ferror(out);
}

// ---- parts of pages
static void put_attr_region(FILE *out) {
  fprintf(out, "| attribute | kind | of (optional of) |\n| --- | --- | --- |\n");
  for (const AttrRow *a = gen_attrs; a->name; a++) {
    int n = 0;
    fprintf(out, "| `%s` | %s | ", a->name, kind_text(a->kind));
    for (const TakesRow *t = gen_takes; t->op; t++)
      if (!strcmp(t->key, a->name)) put_list(out, t->op, is_optional(t), &n);
    fprintf(out, " |\n");
  }
}

static void put_pass_region(FILE *out) {
  fprintf(out, "| pass | needs | gives | on bodies of scans too | what it does |\n| --- | --- | --- | --- | --- |\n");
  for (const PassRow *p = gen_passes; p->name; p++) {
    fprintf(out, "| `%s` | ", p->name);
    put_cell(out, strcmp(p->needs, "0") ? p->needs : "");
    fprintf(out, " | ");
    put_cell(out, p->gives);
    fprintf(out, strstr(p->on, "ON_BODY") ? " | yes | " : " | | ");
    put_cell(out, p->doc);
    fprintf(out, " |\n");
  }
}

bool gen_region(FILE *out, const char *name) {
  if (!strcmp(name, "attributes")) put_attr_region(out);
  else if (!strcmp(name, "passes")) put_pass_region(out);
  else return false;
  return true;
}

// The page with its regions written again.
static bool put_with_regions(FILE *out, const char *path, const char *text) {
  static const char open[] = "<!-- generated: ", end[] = "<!-- end -->";
  const char *s = text, *at;
  while ((at = strstr(s, open))) {
    char name[64] = "";
    const char *body = strchr(at, '\n'), *close = strstr(at, end);
    sscanf(at + sizeof open - 1, "%63[a-z]", name);
    if (!body || !close || fwrite(s, 1, (size_t)(body + 1 - s), out) == 0 || !gen_region(out, name))
      return fprintf(stderr, "%s: '%s' is no generated part, or `%s` is missing\n", path, name, end), false;
    s = close;
  }
  fputs(s, out);
  return !ferror(out);
}

// ---- files
typedef struct {
  const char *path;
  bool (*put)(FILE *out, const char *source_dir);  // NULL: a page with regions
} Page;

static const Page pages[] = {{"docs/ops.md", put_ops_page},
                             {"docs/diagnostics.md", put_diags_page},
                             {"docs/optimizers.md", gen_put_optimizers},
                             {"docs/ir.md", NULL},
                             {"docs/how-to-add-a-pass.md", NULL}};

static char *render(const Page *page, const char *source_dir, const char *path, const char *old) {
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  bool good = out && (page->put ? page->put(out, source_dir) : old && put_with_regions(out, path, old));
  if (out) good = fclose(out) == 0 && good;
  if (!good) free(text);
  return good ? text : NULL;
}

static bool write_page(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  bool good = out && fputs(text, out) >= 0;
  if (out) good = fclose(out) == 0 && good;
  if (!good) perror(path);
  return good;
}

// Both texts are freed. `name`: what it is called in reports
static bool settle(const char *path, const char *name, char *old, char *text, bool check) {
  bool same = text && old && !strcmp(old, text), good = text && (check ? same : same || write_page(path, text));
  if (text && check && !same) fprintf(stderr, "%s is stale: build the target `pages`\n", name);
  free(old);
  free(text);
  return good;
}

static bool update(const Page *page, const char *source_dir, bool check) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", source_dir, page->path);
  char *old = !page->put || check ? gen_read(path) : NULL, *text = render(page, source_dir, path, old);
  return settle(path, page->path, old, text, check);
}

// Of a page that is written by hand, the first line is the row's.
static bool update_diag(const DiagRow *d, const char *source_dir, bool check) {
  char path[4096], *text = NULL;
  size_t n = 0;
  gen_diag_path(path, sizeof path, source_dir, d);
  char *old = gen_read(path);
  FILE *out = old ? open_memstream(&text, &n) : NULL;
  if (out) gen_put_diag_page(out, d, old), fclose(out);
  return settle(path, path + strlen(source_dir) + 1, old, text, check);
}

bool gen_pages(const char *source_dir, bool check) {
  bool good = true;
  for (size_t k = 0; k < sizeof pages / sizeof *pages; k++) good &= update(&pages[k], source_dir, check);
  for (const DiagRow *d = gen_diags; d->name; d++) good &= update_diag(d, source_dir, check);
  return good;
}
