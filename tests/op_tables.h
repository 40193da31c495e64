// All cases of ops, read from tests/op_tables/*.txt and .bin: README.md there has the form. Whoever can run a program can
// run all of them.
#ifndef TN_TESTS_OP_TABLES_H
#define TN_TESTS_OP_TABLES_H

#include "tests/case_numbers.h"
#include "tests/golden_file.h"
#include "tests/op_cases.h"
#include "tests/sample.h"

typedef struct {
  const char *name;
  OpCase *cases;
  uint32_t n;
} OpTable;

// ---- reading
static inline CaseArray op_read_stored(GoldenFile *r, uint32_t n) {
  return (CaseArray){golden_take(r, n, sizeof(double)), n};
}

// "draw N SEED LO HI", "is N NUMBER ..", "stored N"
static inline CaseArray op_read_given(GoldenFile *r, char *words) {
  char kind = *words;
  words += strcspn(words, " ");
  uint32_t n = golden_count(r, &words);
  if (kind == 's') return op_read_stored(r, n);
  double *v = rt_alloc(r->mem, (n + 1) * sizeof *v);
  uint32_t seed = kind == 'd' ? golden_count(r, &words) : 0;
  double lo = kind == 'd' ? golden_number(r, &words) : 0, hi = kind == 'd' ? golden_number(r, &words) : 0;
  for (uint32_t k = 0; k < n; k++)
    v[k] = kind == 'd' ? (double)(float)(lo + (hi - lo) * case_unit(k, seed)) : golden_number(r, &words);
  return (CaseArray){v, n};
}

static inline CaseArray *op_read_wanted(GoldenFile *r, char *words, uint32_t *n_arrays) {
  CaseArray *out = NULL;
  uint32_t n = 0, cap = 0;
  while (*words) {
    RT_PUSH(r->mem, out, n, cap);
    out[n - 1] = op_read_stored(r, golden_count(r, &words));
  }
  *n_arrays = n;
  return out;
}

static inline void op_add_given(GoldenFile *r, const CaseArray **list, uint32_t *n, char *words) {
  CaseArray *more = rt_alloc(r->mem, (*n + 1) * sizeof *more);
  if (*n) memcpy(more, *list, *n * sizeof *more);
  more[(*n)++] = op_read_given(r, words);
  *list = more;
}

static inline void op_read_counts(GoldenFile *r, OpCase *c, bool of_dims, char *words) {
  int64_t *dims = rt_alloc(r->mem, (strlen(words) + 1) * sizeof *dims);
  uint32_t *grads = rt_alloc(r->mem, (strlen(words) + 1) * sizeof *grads), n = 0;
  for (; *words && strcmp(words, " differences"); n++)
    dims[n] = (int64_t)golden_number(r, &words), grads[n] = (uint32_t)dims[n];
  if (of_dims) c->dims = dims, c->n_dims = n;
  else c->grad_of = grads, c->n_grads = n, c->differences = *words != 0;
}

// From `line` to the one that names the outputs: "-> y d_x"
static inline const char *op_read_text(GoldenFile *r, char *line) {
  RtText text = {.mem = r->mem};
  rt_text_add(&text, "program @case\n");
  for (; line && strncmp(line, "-> ", 3); line = golden_line(r)) rt_text_add(&text, "%s\n", line);
  if (!line) golden_fail(r, "a program without outputs");
  uint32_t index = 0;
  for (char *name = strtok(line + 3, " "); name; name = strtok(NULL, " "))
    rt_text_add(&text, "  output %%%s {name=\"%s\", index=%u}\n", name, name, index++);
  rt_text_add(&text, "}\n");
  return text.text;
}

static inline bool op_begins_text(const char *line) {
  return !strncmp(line, "dim ", 4) || !strncmp(line, "param @", 7) || !strncmp(line, "func ", 5);
}

static inline void op_read_case(GoldenFile *r, OpCase *c) {
  uint32_t n_after = 0;
  for (char *line = golden_line(r); line; line = golden_line(r)) {
    if (op_begins_text(line)) {
      c->tir = op_read_text(r, line);
      if (n_after != c->n_params) golden_fail(r, "as many parameters before as after");
      return;
    }
    char *words;
    if (golden_is(line, "in", &words)) op_add_given(r, &c->in, &c->n_in, words);
    else if (golden_is(line, "param", &words)) op_add_given(r, &c->param, &c->n_params, words);
    else if (golden_is(line, "out", &words)) c->out = op_read_wanted(r, words, &c->n_out);
    else if (golden_is(line, "after", &words)) c->after = op_read_wanted(r, words, &n_after);
    else if (golden_is(line, "dims", &words) || golden_is(line, "grads", &words))
      op_read_counts(r, c, *line == 'd', words);
    else if (golden_is(line, "stream", &words))
      c->seed = strtoull(words, &words, 10), c->counter = strtoull(words, NULL, 10);
    else golden_fail(r, "an unknown line");
  }
  golden_fail(r, "a case without its text");
}

static inline OpTable op_read_table(RtArena *mem, const char *name) {
  OpTable t = {.name = name};
  char path[64], *words;
  snprintf(path, sizeof path, "tests/op_tables/%s", name);
  GoldenFile r = golden_open(mem, path);
  uint32_t cap = 0;
  for (char *line = golden_line(&r); line; line = golden_line(&r)) {
    if (!golden_is(line, "case", &words)) golden_fail(&r, "no case begins");
    RT_PUSH(mem, t.cases, t.n, cap);
    t.cases[t.n - 1] = (OpCase){.name = words};
    op_read_case(&r, &t.cases[t.n - 1]);
  }
  golden_end(&r);
  return t;
}

// ---- all of them. A new table is a file made by a script of its own, and a name here.
enum { N_OP_TABLES = 7 };
static inline const OpTable *op_tables(void) {
  static const char *const names[N_OP_TABLES] = {"ops",    "attention", "linear_scan", "order",
                                                 "packed", "shape",     "sparse"};
  static OpTable tables[N_OP_TABLES];
  static RtArena *mem;  // to the end of the program
  if (mem) return tables;
  mem = rt_arena_new();
  for (uint32_t k = 0; k < N_OP_TABLES; k++) tables[k] = op_read_table(mem, names[k]);
  return tables;
}

// By its name's first word, the op as a rule; gradients are a class of their own. Each is asked for once.
static inline bool op_begins_class(const OpCase *c) {
  enum { MAX_SEEN = 512 };
  static struct {
    const char *word;
    size_t length;
    bool is_gradient;
  } seen[MAX_SEEN];
  static uint32_t n_seen;
  size_t length = strcspn(c->name, " ");
  bool is_gradient = strstr(c->name, " gradient") != NULL;
  for (uint32_t k = 0; k < n_seen; k++)
    if (seen[k].length == length && seen[k].is_gradient == is_gradient && !strncmp(seen[k].word, c->name, length))
      return false;
  if (n_seen == MAX_SEEN) return true;
  seen[n_seen].word = c->name, seen[n_seen].length = length, seen[n_seen++].is_gradient = is_gradient;
  return true;
}

// Every case whose name contains `part`; NULL: every case, or of a sample the first of each class and one of `every`.
static inline void case_check_all(const char *part, CaseRunner *run, double tolerance, uint32_t every) {
  for (uint32_t t = 0; t < N_OP_TABLES; t++)
    for (uint32_t k = 0; k < op_tables()[t].n; k++) {
      const OpCase *c = &op_tables()[t].cases[k];
      if (part ? strstr(c->name, part) != NULL : op_begins_class(c) || is_sampled(k, every))
        case_check(c, run, tolerance);
    }
}

#endif
