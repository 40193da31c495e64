// What tests/op_cases/*.def cover, call by call, for docs/ops.md. The tables are read as text: their words are C of the
// tests and Python of PyTorch, of which only the call's name and the inputs count here.
#define _GNU_SOURCE
#include "tools/gen/gen.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *name;
  unsigned kinds;  // bit k: an input of kinds[k]
  int n_cases, n_with_grad, n_empty;
  bool has_view;
} Covered;
typedef struct {
  Covered *at;
  size_t n;
} CoveredList;

static const struct {
  const char *word, *text;
} kinds[] = {{"NORMAL(", "ordinary"}, {"POSITIVE(", "positive"}, {"UNIT(", "in (0, 1)"},   {"TIES(", "ties"},
             {"AWKWARD(", "awkward"}, {"INTS(", "i64"},          {"SCALAR(", "scalars"},   {"BOOLS(", "bool"},
             {"(TN_I32", "i32"},      {"(TN_U8", "u8"},          {"EXTREMES(", "extremes"}};
static const char *const views[] = {"tn_transpose(", "tn_permute(", "tn_slice("};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static Covered *covered_of(CoveredList *list, const char *name, size_t length) {
  for (size_t k = 0; k < list->n; k++)
    if (strlen(list->at[k].name) == length && !strncmp(list->at[k].name, name, length)) return &list->at[k];
  Covered *more = realloc(list->at, (list->n + 1) * sizeof *more);
  if (!more) return NULL;
  list->at = more;
  more[list->n] = (Covered){.name = strndup(name, length)};
  return &more[list->n++];
}

// The first of `stop` that stands in no parentheses and no string, or the end.
static const char *outside(const char *s, const char *stop) {
  bool quoted = false;
  for (int depth = 0; *s; s++) {
    if (*s == '"') quoted = !quoted;
    if (quoted) continue;
    if (depth == 0 && strchr(stop, *s)) return s;
    depth += (*s == '(') - (*s == ')');
  }
  return s;
}

// Behind the numbers of an input that are no dims, at the comma or parenthesis there; s itself where no input begins.
static const char *behind_bounds(const char *s) {
  static const struct {
    const char *word;
    int n;
  } bounds[] = {{"INTS(", 2}, {"INTS_OF(", 3}, {"SCALAR(", 1}};
  for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++) {
    if (strncmp(s, bounds[k].word, strlen(bounds[k].word)) != 0) continue;
    for (int n = bounds[k].n; n > 0; n--) s += 1 + strcspn(s + 1, ",)");
    break;
  }
  return s;
}

static bool has_empty_dim(const char *inputs) {
  for (const char *s = inputs; *(s = behind_bounds(s)); s++)
    if (s > inputs && *s == '0' && strchr("( ", s[-1]) && strchr("),", s[1])) return true;
  return false;
}

// `body`: name, PyTorch's expression, call, inputs
static bool add_case(CoveredList *list, const char *body, bool has_grad) {
  const char *call = outside(outside(body, ",") + 1, ","), *inputs = outside(call + 1, ",");
  char *text = strndup(inputs, (size_t)(outside(inputs, ")") - inputs));
  Covered *c = text ? covered_of(list, body, strcspn(body, ",")) : NULL;
  if (c) {
    c->n_cases++;
    c->n_with_grad += has_grad;
    c->n_empty += has_empty_dim(text);
    for (int k = 0; k < N_KINDS; k++)
      if (strstr(text, kinds[k].word)) c->kinds |= 1u << k;
    for (size_t k = 0; k < sizeof views / sizeof *views; k++)
      if (memmem(call, (size_t)(inputs - call), views[k], strlen(views[k]))) c->has_view = true;
  }
  free(text);
  return c != NULL;
}

static bool add_table(CoveredList *list, const char *path) {
  char *text = gen_read(path);
  bool good = text != NULL;
  for (const char *s = text; good && (s = strstr(s, "\nOP_")); s++) {
    bool has_grad = !strncmp(s, "\nOP_CASE(", 9);
    if (has_grad || !strncmp(s, "\nOP_VALUES(", 11)) good = add_case(list, strchr(s, '(') + 1, has_grad);
  }
  free(text);
  return good;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const Covered *)a)->name, ((const Covered *)b)->name);
}

static void put_row(FILE *out, const Covered *c) {
  fprintf(out, "| `tn_%s` | %d | %d | ", c->name, c->n_cases, c->n_with_grad);
  int n = 0;
  for (int k = 0; k < N_KINDS; k++)
    if (c->kinds >> k & 1) fprintf(out, "%s%s", n++ ? ", " : "", kinds[k].text);
  if (c->n_empty) fprintf(out, "%sno elements", n++ ? ", " : "");
  if (c->has_view) fprintf(out, "%sviews", n++ ? ", " : "");
  fprintf(out, " |\n");
}

bool gen_put_cases(FILE *out, const char *source_dir) {
  char pattern[4096];
  snprintf(pattern, sizeof pattern, "%s/tests/op_cases/*.def", source_dir);
  glob_t found;
  bool good = glob(pattern, 0, NULL, &found) == 0;
  if (!good) return fprintf(stderr, "%s: no such files\n", pattern), false;
  CoveredList list = {0};
  for (size_t k = 0; k < found.gl_pathc && good; k++) good = add_table(&list, found.gl_pathv[k]);
  globfree(&found);
  if (list.n) qsort(list.at, list.n, sizeof *list.at, by_name);
  fprintf(out, "| call | cases | with gradients | inputs |\n| --- | ---: | ---: | --- |\n");
  for (size_t k = 0; k < list.n; k++) put_row(out, &list.at[k]), free(list.at[k].name);
  free(list.at);
  return good;
}
