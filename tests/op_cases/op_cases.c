// Public calls against PyTorch: the cases of one tests/op_cases/SUBJECT.def (CASES), with the results that
// tests/make_op_cases.py wrote beside it (RESULTS: .txt and .bin). README.md in this folder says what a case is.
#include "frontend/tenure.h"
#include "tests/case_numbers.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum { MAX_INPUTS = 4 };
typedef enum {
  NORMAL_,
  POSITIVE_,
  UNIT_,
  TIES_,
  AWKWARD_,
  INTS_,
  BOOLS_,
  EXTREMES_,
  SCALAR_,
  RUN_SIZED_,
  RUN_IMAGES_,
  RUN_INTS_
} InputKind;
typedef struct {
  InputKind kind;
  tn_dtype dtype;
  double lo, hi;  // of INTS; lo is the number of a scalar
  uint32_t rank;
  int64_t dims[TN_MAX_RANK];
} CaseInput;
typedef struct {
  const char *op, *key;
  int line;
  bool has_grad;
  tn_tensor (*call)(tn_function *f, tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d);
  uint32_t n_inputs;
  CaseInput inputs[MAX_INPUTS];
} Case;
typedef struct {
  const char *key;
  tn_array value;
  const float *grad[MAX_INPUTS];  // NULL: none
} Result;

#define DIMS_OF(...) \
  sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ }
#define NORMAL(...) {NORMAL_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define POSITIVE(...) {POSITIVE_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define UNIT(...) {UNIT_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define TIES(...) {TIES_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define AWKWARD(...) {AWKWARD_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define INTS(lo, hi, ...) {INTS_, TN_I64, lo, hi, DIMS_OF(__VA_ARGS__)}
#define RUN_SIZED(...) {RUN_SIZED_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define RUN_IMAGES(...) {RUN_IMAGES_, TN_F32, 0, 0, DIMS_OF(__VA_ARGS__)}
#define INTS_OF(dtype, lo, hi, ...) {INTS_, dtype, lo, hi, DIMS_OF(__VA_ARGS__)}
#define RUN_INTS(dtype, lo, hi, ...) {RUN_INTS_, dtype, lo, hi, DIMS_OF(__VA_ARGS__)}
#define BOOLS(...) {BOOLS_, TN_BOOL, 0, 0, DIMS_OF(__VA_ARGS__)}
#define EXTREMES(dtype, ...) {EXTREMES_, dtype, 0, 0, DIMS_OF(__VA_ARGS__)}
#define SCALAR(x) {SCALAR_, TN_F32, x, 0, 0, {0}}
#define INT_SCALAR(n) {SCALAR_, TN_I64, n, 0, 0, {0}}

#define PASTE_(a, b) a##b
#define CALL_OF(line) PASTE_(call_, line)
#define UNUSED __attribute__((unused))

// Part k of what calls of several results give.
UNUSED static tn_tensor chunk_of(tn_tensor a, int axis, uint32_t n, uint32_t k) {
  tn_tensor part[8] = {{0}};
  CHECK(tn_chunk(a, n, axis, part, 8) == n);
  return part[k];
}
UNUSED static tn_tensor split_of(tn_tensor a, int axis, const int64_t *sizes, uint32_t n, uint32_t k) {
  tn_tensor part[8] = {{0}};
  CHECK(tn_split_sizes(a, sizes, n, axis, part) == n);
  return part[k];
}
// Attention's result and, behind it along the last axis, its weights
UNUSED static tn_tensor weighed_by(tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o) {
  tn_tensor weights;
  o.weights = &weights, o.at = TN_SITE;
  tn_tensor y = k.fn ? (tn_scaled_dot_product_attention)(q, k, v, o) : (tn_attention_packed)(q, o);
  if (o.heads_inside) weights = tn_transpose(weights, 1, 2);
  return tn_concat(-1, TN_TENSORS(y, weights));
}
UNUSED static tn_tensor averaged(tn_tensor q, tn_tensor k, tn_tensor v) {
  tn_tensor weights;
  tn_scaled_dot_product_attention(q, k, v, .weights = &weights, .average_weights = true);
  return weights;
}
// Which part of packed sequences, cut at positions
UNUSED static tn_packed part_of(tn_packed s, tn_tensor steps, int k) {
  tn_packed part[2];
  CHECK(tn_packed_split(s, steps, part));
  return part[k];
}
// Attention of rows [rows, D] as one head, which w makes of features and `out` takes back
UNUSED static tn_packed one_head(tn_packed s) { return tn_packed_with_data(s, tn_unsqueeze(s.data, 1)); }
UNUSED static tn_packed attended(tn_packed q, tn_packed k, tn_attention_options o) {
  q = one_head(q), k = one_head(k), o.at = TN_SITE;
  tn_packed y = (tn_packed_attention)(q, k, k, o);
  return tn_packed_with_data(y, tn_squeeze(y.data, 1));
}
UNUSED static tn_packed mapped(tn_packed s, tn_tensor w) { return tn_packed_with_data(s, tn_matmul(s.data, w)); }
#define attend(q, k, ...) attended(q, k, (tn_attention_options){__VA_ARGS__})
#define weighed(q, k, v, ...) weighed_by(q, k, v, (tn_attention_options){__VA_ARGS__})

#define OP_CASE(op, torch, call, ...)                                                                \
  static tn_tensor CALL_OF(__LINE__)(UNUSED tn_function * f, UNUSED tn_tensor a, UNUSED tn_tensor b, \
                                     UNUSED tn_tensor c, UNUSED tn_tensor d) {                       \
    return call;                                                                                     \
  }
#define OP_VALUES OP_CASE
#include CASES
#undef OP_CASE
#undef OP_VALUES

#define ROW(op, key, with_grad, ...)                             \
  {op,                                                           \
   key,                                                          \
   __LINE__,                                                     \
   with_grad,                                                    \
   CALL_OF(__LINE__),                                            \
   sizeof((const CaseInput[]){__VA_ARGS__}) / sizeof(CaseInput), \
   {__VA_ARGS__}},
#define OP_CASE(op, torch, call, ...) ROW(#op, torch " | " #__VA_ARGS__, true, __VA_ARGS__)
#define OP_VALUES(op, torch, call, ...) ROW(#op, torch " | " #__VA_ARGS__, false, __VA_ARGS__)
static const Case cases[] = {
#include CASES
};
enum { N_CASES = sizeof cases / sizeof *cases };
#ifndef OF_LARGEST
#define OF_LARGEST 0
#endif

// ---- results
static Result *results;
static uint32_t n_results;

static const struct {
  const char *name;
  tn_dtype dtype;
  size_t bytes;
} stored[] = {{"f32", TN_F32, 4}, {"i64", TN_I64, 8}, {"i32", TN_I32, 4}, {"u8", TN_U8, 1}, {"bool", TN_BOOL, 1}};
enum { N_STORED = sizeof stored / sizeof *stored };

static size_t bytes_of(tn_dtype t) {
  uint32_t k = 0;
  while (stored[k].dtype != t) k++;
  return stored[k].bytes;
}

static size_t count_of(uint32_t rank, const int64_t *dims) {
  size_t n = 1;
  for (uint32_t d = 0; d < rank; d++) n *= (size_t)dims[d];
  return n;
}

// "f32 3 7": dtype and dims
static tn_array read_value(GoldenFile *g, char *words) {
  uint32_t t = 0;
  char *dims;
  while (t < N_STORED && !golden_is(words, stored[t].name, &dims)) t++;
  if (t == N_STORED) golden_fail(g, "an unknown dtype");
  tn_array a = {.dtype = stored[t].dtype};
  while (*dims && a.rank < TN_MAX_RANK) a.dims[a.rank++] = golden_count(g, &dims);
  a.data = (void *)golden_take(g, count_of(a.rank, a.dims), stored[t].bytes);
  return a;
}

// "21 -": the elements of each input's gradient; -: it has none
static void read_grads(GoldenFile *g, Result *r, char *words) {
  for (uint32_t k = 0; k < MAX_INPUTS && *words; k++) {
    if (*words == '-') words++;
    else r->grad[k] = golden_take(g, golden_count(g, &words), sizeof(float));
    words += *words == ' ';
  }
}

static void read_results(RtArena *mem) {
  GoldenFile g = golden_open(mem, RESULTS);
  uint32_t cap = 0;
  char *words;
  for (char *line = golden_line(&g); line; line = golden_line(&g)) {
    if (golden_is(line, "case", &words)) {
      RT_PUSH(mem, results, n_results, cap);
      results[n_results - 1] = (Result){.key = words};
    } else if (!n_results) golden_fail(&g, "no case begins");
    else if (golden_is(line, "value", &words)) results[n_results - 1].value = read_value(&g, words);
    else if (golden_is(line, "grads", &words)) read_grads(&g, &results[n_results - 1], words);
    else golden_fail(&g, "an unknown line");
  }
  golden_end(&g);
}

static const Result *result_of(const Case *c) { return golden_find(results, n_results, sizeof *results, c->key); }

// ---- inputs: tests/make_op_cases.py makes the same, of the same bits
static double element(const CaseInput *in, uint32_t k, uint32_t seed) {
  static const double awkward[] = {
      0,    -0.0, 1,    -1,   NAN, INFINITY, -INFINITY, (double)FLT_MAX, -(double)FLT_MAX, (double)FLT_MIN, 1e-40, 0.5,
      -0.5, 1.5,  -2.5, 1e10, -3,  100,      -100};
  uint32_t u = case_bits(k, seed);
  switch (in->kind) {
  case NORMAL_:
  case RUN_SIZED_:
  case RUN_IMAGES_: return case_normal(k, seed);
  case POSITIVE_: return 0.25 + (double)u / 32768;
  case UNIT_: return ((double)u + 0.5) / 65536;
  case TIES_: return (double)(u % 7) - 3;
  case AWKWARD_: return awkward[(k + 5 * seed) % 19];
  default: return in->lo;
  }
}

static int64_t whole_element(const CaseInput *in, uint32_t k, uint32_t seed) {
  static const int64_t extremes[] = {0,         1,         -1,
                                     2,         -2,        3,
                                     7,         -7,        8,
                                     31,        32,        63,
                                     64,        100,       127,
                                     128,       255,       (1 << 24) + 1,
                                     INT32_MAX, INT32_MIN, INT64_C(1) << 62,
                                     INT64_MAX, INT64_MIN};
  uint32_t u = case_bits(k, seed);
  switch (in->kind) {
  case INTS_:
  case RUN_INTS_: return (int64_t)in->lo + (int64_t)(u % (uint32_t)(in->hi - in->lo));
  case BOOLS_: return u % 2;
  case EXTREMES_: return extremes[(k + 5 * seed) % 23];
  default: return (int64_t)in->lo;
  }
}

static void store(const CaseInput *in, void *data, uint32_t k, uint32_t seed) {
  int64_t x = in->dtype == TN_F32 ? 0 : whole_element(in, k, seed);
  switch (in->dtype) {
  case TN_I64: ((int64_t *)data)[k] = x; return;
  case TN_I32: ((int32_t *)data)[k] = (int32_t)(uint32_t)(uint64_t)x; return;
  case TN_U8:
  case TN_BOOL: ((uint8_t *)data)[k] = (uint8_t)(uint64_t)x; return;
  default: ((float *)data)[k] = (float)element(in, k, seed);
  }
}

static double load(tn_dtype t, const void *data, size_t k) {
  switch (t) {
  case TN_I64: return (double)((const int64_t *)data)[k];
  case TN_I32: return ((const int32_t *)data)[k];
  case TN_U8:
  case TN_BOOL: return ((const uint8_t *)data)[k];
  default: return (double)((const float *)data)[k];
  }
}

static tn_array array_of(tn_dtype t, uint32_t rank, const int64_t *dims) {
  return tn_array_of(calloc(count_of(rank, dims) + 1, 8), t, dims, rank);
}

// ---- a function for each case
static tn_shape shape_of(uint32_t rank, const int64_t *dims) {
  tn_dim d[TN_MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) d[k] = tn_dim_const(dims[k]);
  return tn_shape_of(d, rank);
}

// Sizes that the run gives: axes of one size share a dim.
static tn_shape run_shape_of(tn_program *p, const CaseInput *in) {
  tn_dim d[TN_MAX_RANK];
  for (uint32_t k = 0; k < in->rank; k++) {
    char name[24];
    snprintf(name, sizeof name, "n%d", (int)in->dims[k]);
    bool is_const = in->kind == RUN_IMAGES_ && k == 1;
    d[k] = is_const ? tn_dim_const(in->dims[k]) : tn_dim_bounded(p, name, in->dims[k] + 3);
  }
  return tn_shape_of(d, in->rank);
}

static tn_tensor run_weighted_sum(tn_program *p, tn_function *f, tn_tensor y) {
  tn_dim n = tn_dim_const(1);
  for (uint32_t k = 0; k < tn_rank(y); k++) n = tn_dim_mul(p, n, tn_dim_of(y, (int)k));
  tn_tensor w = tn_remainder(tn_arange(f, 0, 1, n, TN_F32), tn_full(f, 5, TN_SCALAR));
  w = tn_add_scalar(tn_mul_scalar(w, 0.25), 1);
  return tn_sum(tn_mul(tn_reshape(y, TN_SHAPE(n)), w));
}

static tn_tensor weighted_sum(tn_function *f, tn_tensor y, const tn_array *like) {
  enum { MOST = 4096 };
  float w[MOST];
  size_t n = count_of(like->rank, like->dims);
  if (!CHECK(n <= MOST)) return y;
  for (size_t k = 0; k < n; k++) w[k] = 1 + 0.25f * (float)(k % 5);
  return tn_sum(tn_mul(y, tn_constant(f, w, shape_of(like->rank, like->dims))));
}

static void build(tn_program *p, const Case *c, const Result *want, const char *name) {
  static const char *const names[MAX_INPUTS] = {"a", "b", "c", "d"};
  tn_function *f = tn_function_begin(p, name);
  tn_tensor in[MAX_INPUTS] = {{0}};
  bool is_run_sized = false;
  for (uint32_t k = 0; k < c->n_inputs; k++) {
    const CaseInput *i = &c->inputs[k];
    bool by_run = i->kind == RUN_SIZED_ || i->kind == RUN_IMAGES_ || i->kind == RUN_INTS_;
    is_run_sized |= by_run;
    in[k] = tn_input(f, names[k], i->dtype, by_run ? run_shape_of(p, i) : shape_of(i->rank, i->dims));
    if (c->has_grad && want->grad[k]) tn_set_requires_grad(in[k], true);
  }
  tn_tensor y = c->call(f, in[0], in[1], in[2], in[3]);
  tn_output(f, "y", y);
  for (uint32_t k = 0; k < c->n_inputs && c->has_grad; k++) {
    if (!want->grad[k]) continue;
    tn_tensor loss = is_run_sized ? run_weighted_sum(p, f, y) : weighted_sum(f, y, &want->value);
    tn_output(f, (const char *[]){"da", "db", "dc", "dd"}[k], tn_grad(loss, in[k]));
  }
  tn_function_end(f);
}

// ---- comparing
static bool near(double got, double want, double largest) {
  if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
  return fabs(got - want) <= (OF_LARGEST > 0 ? OF_LARGEST * largest : 1e-5 * fmax(1, fabs(want)));
}

// Whole numbers are equal to the last bit.
static bool agrees(tn_dtype t, const void *got, const void *want, size_t k, double largest) {
  size_t each = bytes_of(t);
  if (t != TN_F32) return !memcmp((const char *)got + k * each, (const char *)want + k * each, each);
  return near(load(t, got, k), load(t, want, k), largest);
}

static void compare(const Case *c, const char *what, const tn_array *got, const void *want) {
  size_t n = count_of(got->rank, got->dims);
  double largest = 0;
  for (size_t k = 0; k < n; k++) largest = fmax(largest, fabs(load(got->dtype, want, k)));
  for (size_t k = 0; k < n; k++) {
    if (CHECK(agrees(got->dtype, got->data, want, k, largest))) continue;
    printf("  %s:%d: %s (%s): %s[%zu] is %.9g, PyTorch's %.9g\n", CASES, c->line, c->op, c->key, what, k,
           load(got->dtype, got->data, k), load(got->dtype, want, k));
    return;
  }
}

static void run(tn_model *m, const Case *c, const Result *r, const char *name) {
  static const char *const gradients[MAX_INPUTS] = {"da", "db", "dc", "dd"};
  tn_array in[MAX_INPUTS], out[1 + MAX_INPUTS];
  uint32_t n_out = 1;
  const char *names[1 + MAX_INPUTS] = {"y"};
  const void *want[1 + MAX_INPUTS] = {r->value.data};
  out[0] = array_of(r->value.dtype, r->value.rank, r->value.dims);
  for (uint32_t k = 0; k < c->n_inputs; k++) {
    const CaseInput *i = &c->inputs[k];
    in[k] = array_of(i->dtype, i->rank, i->dims);
    for (size_t e = 0; e < count_of(i->rank, i->dims); e++) store(i, in[k].data, (uint32_t)e, k);
    if (!c->has_grad || !r->grad[k]) continue;
    want[n_out] = r->grad[k];
    names[n_out] = gradients[k];
    out[n_out++] = array_of(TN_F32, i->rank, i->dims);
  }
  if (!CHECK(tn_run(m, name, in, c->n_inputs, out, n_out) == TN_OK))
    printf("  %s:%d: %s: %s\n", CASES, c->line, c->op, tn_error_text(m));
  else
    for (uint32_t k = 0; k < n_out; k++) compare(c, names[k], &out[k], want[k]);
  for (uint32_t k = 0; k < c->n_inputs; k++) free(in[k].data);
  for (uint32_t k = 0; k < n_out; k++) free(out[k].data);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  read_results(mem);
  tn_program *p = tn_program_create("op_cases");
  char name[16];
  for (int k = 0; k < N_CASES; k++) {
    const Result *want = result_of(&cases[k]);
    snprintf(name, sizeof name, "case_%d", k);
    if (CHECK(want)) build(p, &cases[k], want, name);
    else printf("  %s:%d: no result: tests/make_op_cases.py makes them\n", CASES, cases[k].line);
  }
  tn_model *m = tn_compile(p, .n_workers = 2, .cache_dir = "");
  for (int k = 0; k < N_CASES && CHECK(m); k++) {
    const Result *want = result_of(&cases[k]);
    snprintf(name, sizeof name, "case_%d", k);
    if (want) run(m, &cases[k], want, name);
  }
  if (m) tn_model_free(m);
  tn_program_free(p);
  rt_arena_free(mem);
  return check_report();
}
