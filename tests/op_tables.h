// All cases of ops, read from tests/op_tables/*.txt and .bin: README.md there has the form. Whoever can run a program can
// run all of them.
#ifndef TN_TESTS_OP_TABLES_H
#define TN_TESTS_OP_TABLES_H

#include "runtime/store/file.h"
#include "tests/case_numbers.h"
#include "tests/op_cases.h"

#include <stdlib.h>

typedef struct {
  const char *name;
  OpCase *cases;
  uint32_t n;
} OpTable;

// ---- reading. A file that is not as make_goldens.py writes it ends the program.
typedef struct {
  RtArena *mem;
  const char *table;
  char *at;         // the next line
  uint32_t line;    // its number
  const double *v;  // the next stored number
  const double *v_end;
} OpReader;

static inline void op_reader_fail(const OpReader *r, const char *what) {
  printf("tests/op_tables/%s.txt:%u: %s\n", r->table, r->line, what);
  exit(1);
}

static inline char *op_reader_line(OpReader *r) {
  char *line = r->at, *end = line ? strchr(line, '\n') : NULL;
  if (!end) return NULL;
  *end = 0;
  r->at = end + 1, r->line++;
  return line;
}

static inline char *op_read_file(RtArena *mem, const char *table, const char *ending, size_t *size) {
  char path[128];
  snprintf(path, sizeof path, "tests/op_tables/%s.%s", table, ending);
  FILE *in = fopen(path, "rb");
  if (!in || fseek(in, 0, SEEK_END)) printf("%s cannot be read\n", path), exit(1);
  long n = ftell(in);
  rewind(in);
  char *bytes = rt_alloc(mem, (size_t)n + 1);
  if (fread(bytes, 1, (size_t)n, in) != (size_t)n) printf("%s cannot be read\n", path), exit(1);
  fclose(in);
  *size = (size_t)n;
  return bytes;
}

static inline double op_read_number(OpReader *r, char **words) {
  char *end;
  double x = strtod(*words, &end);
  if (end == *words) op_reader_fail(r, "a number is missing");
  *words = end;
  return x;
}

static inline CaseArray op_read_stored(OpReader *r, uint32_t n) {
  if (n > r->v_end - r->v) op_reader_fail(r, "more numbers than are stored");
  r->v += n;
  return (CaseArray){r->v - n, n};
}

// "draw N SEED LO HI", "is N NUMBER ..", "stored N"
static inline CaseArray op_read_given(OpReader *r, char *words) {
  char kind = *words;
  words += strcspn(words, " ");
  uint32_t n = (uint32_t)op_read_number(r, &words);
  if (kind == 's') return op_read_stored(r, n);
  double *v = rt_alloc(r->mem, (n + 1) * sizeof *v);
  uint32_t seed = kind == 'd' ? (uint32_t)op_read_number(r, &words) : 0;
  double lo = kind == 'd' ? op_read_number(r, &words) : 0, hi = kind == 'd' ? op_read_number(r, &words) : 0;
  for (uint32_t k = 0; k < n; k++)
    v[k] = kind == 'd' ? (double)(float)(lo + (hi - lo) * case_unit(k, seed)) : op_read_number(r, &words);
  return (CaseArray){v, n};
}

static inline CaseArray *op_read_wanted(OpReader *r, char *words, uint32_t *n_arrays) {
  CaseArray *out = NULL;
  uint32_t n = 0, cap = 0;
  while (*words) {
    RT_PUSH(r->mem, out, n, cap);
    out[n - 1] = op_read_stored(r, (uint32_t)op_read_number(r, &words));
  }
  *n_arrays = n;
  return out;
}

static inline void op_add_given(OpReader *r, const CaseArray **list, uint32_t *n, char *words) {
  CaseArray *more = rt_alloc(r->mem, (*n + 1) * sizeof *more);
  if (*n) memcpy(more, *list, *n * sizeof *more);
  more[(*n)++] = op_read_given(r, words);
  *list = more;
}

static inline void op_read_counts(OpReader *r, OpCase *c, bool of_dims, char *words) {
  int64_t *dims = rt_alloc(r->mem, (strlen(words) + 1) * sizeof *dims);
  uint32_t *grads = rt_alloc(r->mem, (strlen(words) + 1) * sizeof *grads), n = 0;
  for (; *words && strcmp(words, " differences"); n++)
    dims[n] = (int64_t)op_read_number(r, &words), grads[n] = (uint32_t)dims[n];
  if (of_dims) c->dims = dims, c->n_dims = n;
  else c->grad_of = grads, c->n_grads = n, c->differences = *words != 0;
}

// From `line` to the one that names the outputs: "-> y d_x"
static inline const char *op_read_text(OpReader *r, char *line) {
  RtText text = {.mem = r->mem};
  rt_text_add(&text, "program @case\n");
  for (; line && strncmp(line, "-> ", 3); line = op_reader_line(r)) rt_text_add(&text, "%s\n", line);
  if (!line) op_reader_fail(r, "a program without outputs");
  uint32_t index = 0;
  for (char *name = strtok(line + 3, " "); name; name = strtok(NULL, " "))
    rt_text_add(&text, "  output %%%s {name=\"%s\", index=%u}\n", name, name, index++);
  rt_text_add(&text, "}\n");
  return text.text;
}

static inline bool op_begins_text(const char *line) {
  return !strncmp(line, "dim ", 4) || !strncmp(line, "param @", 7) || !strncmp(line, "func ", 5);
}

static inline void op_read_case(OpReader *r, OpCase *c) {
  uint32_t n_after = 0;
  for (char *line = op_reader_line(r); line; line = op_reader_line(r)) {
    if (op_begins_text(line)) {
      c->tir = op_read_text(r, line);
      if (n_after != c->n_params) op_reader_fail(r, "as many parameters before as after");
      return;
    }
    size_t n = strcspn(line, " ");
    char *words = line + n + (line[n] == ' ');
    line[n] = 0;
    if (!strcmp(line, "in")) op_add_given(r, &c->in, &c->n_in, words);
    else if (!strcmp(line, "param")) op_add_given(r, &c->param, &c->n_params, words);
    else if (!strcmp(line, "out")) c->out = op_read_wanted(r, words, &c->n_out);
    else if (!strcmp(line, "after")) c->after = op_read_wanted(r, words, &n_after);
    else if (!strcmp(line, "dims") || !strcmp(line, "grads")) op_read_counts(r, c, *line == 'd', words);
    else if (!strcmp(line, "stream")) c->seed = strtoull(words, &words, 10), c->counter = strtoull(words, NULL, 10);
    else op_reader_fail(r, "an unknown line");
  }
  op_reader_fail(r, "a case without its text");
}

static inline OpTable op_read_table(RtArena *mem, const char *name) {
  OpTable t = {.name = name};
  uint32_t cap = 0;
  size_t size;
  OpReader r = {.mem = mem, .table = name};
  r.at = op_read_file(mem, name, "txt", &size);
  r.at[size] = 0;
  r.v = (const double *)(const void *)op_read_file(mem, name, "bin", &size);
  r.v_end = r.v + size / sizeof *r.v;
  for (char *line = op_reader_line(&r); line; line = op_reader_line(&r)) {
    if (*line == '#') continue;
    if (strncmp(line, "case ", 5)) op_reader_fail(&r, "no case begins");
    RT_PUSH(mem, t.cases, t.n, cap);
    t.cases[t.n - 1] = (OpCase){.name = line + 5};
    op_read_case(&r, &t.cases[t.n - 1]);
  }
  if (r.v != r.v_end) op_reader_fail(&r, "numbers that no case has");
  return t;
}

// ---- all of them. A new table is a file made by a script of its own, and a name here.
enum { N_OP_TABLES = 6 };
static inline const OpTable *op_tables(void) {
  static const char *const names[N_OP_TABLES] = {"ops", "attention", "order", "packed", "shape", "sparse"};
  static OpTable tables[N_OP_TABLES];
  static RtArena *mem;  // to the end of the program
  if (mem) return tables;
  mem = rt_arena_new();
  for (uint32_t k = 0; k < N_OP_TABLES; k++) tables[k] = op_read_table(mem, names[k]);
  return tables;
}

// Every case whose name contains `part`; NULL: every case
static inline void case_check_all(const char *part, CaseRunner *run, double tolerance) {
  for (uint32_t t = 0; t < N_OP_TABLES; t++)
    for (uint32_t k = 0; k < op_tables()[t].n; k++)
      if (!part || strstr(op_tables()[t].cases[k].name, part)) case_check(&op_tables()[t].cases[k], run, tolerance);
}

#endif
