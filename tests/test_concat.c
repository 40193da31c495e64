// Concat: every number of operands, axes, sizes of 0, 1 and odd ones, sizes of the run, views, computed operands, one
// operand twice, what follows in the same kernel, gradients, i64, scan bodies, the caller's memory; against plain
// loops and the interpreter, with the same bits for one worker and for three. CPU time of many operands against that of
// an addition. And casts between f32 and i64 at the ends of their ranges.
#include "tests/cpu_time.h"
#include "tests/models.h"
#include "tests/sample.h"
#include "tests/scan_oracle.h"

#include <math.h>
#include <time.h>

#define D(n) tn_dim_const(n)

enum { MOST = 110, GUARD = 16 };

static float *numbers(int64_t n, uint32_t seed) {
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  if (!x) abort();
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    x[k] = (float)(seed >> 8) * 0x1p-22f - 2;
  }
  return x;
}

// ---- joins of inputs: piece k has the case's shape, and its own size along the axis
typedef struct {
  uint32_t n, axis;
  int64_t dim[3], size[MOST];
  int64_t bound;  // of sizes along the axis; 0: they are constants
  bool as_i64, has_grad, has_bias;
  bool alike;  // every operand is twice an input: pass hoist_concat
} Join;

static int64_t outer_of(const Join *j) {
  int64_t n = 1;
  for (uint32_t k = 0; k < j->axis; k++) n *= j->dim[k];
  return n;
}

static int64_t inner_of(const Join *j) {
  int64_t n = 1;
  for (uint32_t k = j->axis + 1; k < 3; k++) n *= j->dim[k];
  return n;
}

static int64_t length_of(const Join *j) {
  int64_t n = 0;
  for (uint32_t k = 0; k < j->n; k++) n += j->size[k];
  return n;
}

// What operand k is of an input.
typedef enum { ITSELF, TWICE_IT, VIEW, PART, AGAIN } Kind;

static Kind kind_of(const Join *j, uint32_t k) {
  if (j->as_i64) return ITSELF;
  if (j->alike) return TWICE_IT;
  return j->bound ? (Kind)(k % 2) : (Kind)(k % 5);
}

typedef struct {
  float *v;  // elements of the operand
  void *in;
  int64_t n, before;  // elements of the operand; of the input in front of them
  tn_array array;
  tn_tensor x, part;
} Piece;

static int64_t plane_of(const Join *j, uint32_t k) {  // elements of one index of axis 0
  int64_t n = 1;
  for (uint32_t i = 1; i < 3; i++) n *= i == j->axis ? j->size[k] : j->dim[i];
  return n;
}

static void make_numbers(const Join *j, uint32_t k, Piece *at) {
  Kind kind = kind_of(j, k);
  at->n = outer_of(j) * j->size[k] * inner_of(j);
  at->before = kind == PART ? plane_of(j, k) : 0;
  if (kind == AGAIN) return;
  float *in = numbers(at->n + at->before, k + 1);
  at->v = numbers(at->n, 0);
  at->in = in;
  for (int64_t i = 0; i < at->n; i++) at->v[i] = in[at->before + i] * (kind == TWICE_IT ? 2 : 1);
  if (!j->as_i64) return;
  int64_t *whole = malloc((size_t)(at->n + 1) * sizeof *whole);
  for (int64_t i = 0; i < at->n; i++) whole[i] = i * 1000003 + k, at->v[i] = (float)whole[i];
  free(in);
  at->in = whole;
}

static void make_piece(tn_program *p, tn_function *f, const Join *j, uint32_t k, Piece *at) {
  char name[16], size[16];
  int64_t n[3] = {j->dim[0], j->dim[1], j->dim[2]}, flat[2] = {outer_of(j), j->size[k] * inner_of(j)};
  Kind kind = kind_of(j, k);
  snprintf(name, sizeof name, "x%u", k);
  snprintf(size, sizeof size, "n%u", k);
  n[j->axis] = j->size[k];
  tn_dim dim[3] = {D(n[0]), D(n[1]), D(n[2])};
  if (j->bound) dim[j->axis] = tn_dim_bounded(p, size, j->bound);
  tn_dtype t = j->as_i64 ? TN_I64 : TN_F32;
  n[0] += kind == PART;
  at->array = kind == VIEW ? tn_array_of(at->in, t, flat, 2) : tn_array_of(at->in, t, n, 3);
  if (kind == VIEW) at->x = tn_input(f, name, t, TN_SHAPE(flat[0], flat[1]));
  else if (kind == PART) at->x = tn_input(f, name, t, TN_SHAPE(n[0], dim[1], dim[2]));
  else at->x = tn_input(f, name, t, tn_shape_of(dim, 3));
  at->part = at->x;
  if (kind == TWICE_IT) at->part = tn_mul(at->x, tn_scalar(f, 2));
  if (kind == VIEW) at->part = tn_reshape(at->x, tn_shape_of(dim, 3));
  if (kind == PART) at->part = tn_slice(at->x, 0, 1, n[0] - 1);
}

typedef struct {
  Piece piece[MOST];
  tn_array in[MOST], out[MOST];
  uint32_t n_in, n_out;
  tn_program *p;
  bool ok;
} Made;

static void add_output(Made *m, tn_function *f, const char *name, tn_tensor y, const int64_t *dim, bool as_i64) {
  int64_t n = dim[0] * dim[1] * dim[2];
  char *room = malloc((size_t)(n + 2 * GUARD) * 8);
  memset(room, 0x55, (size_t)(n + 2 * GUARD) * 8);
  tn_output(f, name, y);
  m->out[m->n_out++] = tn_array_of(room + (as_i64 ? 8 : 4), as_i64 ? TN_I64 : TN_F32, dim, 3);
}

// Outputs: y, and unless it is i64 y / 2 + bias; then the gradient for what each operand is made of.
static void build(const Join *j, Made *m) {
  m->p = tn_program_create("joins");
  tn_function *f = tn_function_begin(m->p, "run");
  tn_tensor part[MOST], bias;
  int64_t whole[3] = {j->dim[0], j->dim[1], j->dim[2]};
  whole[j->axis] = length_of(j);
  for (uint32_t k = 0; k < j->n; k++) {
    Piece *at = &m->piece[k];
    make_numbers(j, k, at);
    if (kind_of(j, k) == AGAIN) {
      at->v = m->piece[k - 1].v;
      part[k] = part[k - 1];
      continue;
    }
    make_piece(m->p, f, j, k, at);
    part[k] = at->part;
    m->in[m->n_in++] = at->array;
  }
  static float ones[64];
  for (int k = 0; k < 64; k++) ones[k] = 1 + (float)k;
  if (j->has_bias) {
    bias = tn_input(f, "bias", TN_F32, TN_SHAPE(j->dim[2]));
    m->in[m->n_in++] = tn_f32(ones, j->dim[2]);
  }
  tn_tensor y = tn_concat((int)j->axis, part, j->n), half;
  add_output(m, f, "y", y, whole, j->as_i64);
  if (!j->as_i64) {
    half = tn_mul(y, tn_scalar(f, 0.5));
    add_output(m, f, "z", j->has_bias ? tn_add(half, bias) : half, whole, false);
  }
  tn_tensor loss = j->has_grad ? tn_sum(tn_mul(tn_square(y), y)) : TN_NONE;
  for (uint32_t k = 0; j->has_grad && k < j->n; k++) {
    char name[16];
    snprintf(name, sizeof name, "d%u", k);
    if (kind_of(j, k) == AGAIN) continue;
    add_output(m, f, name, tn_reshape(tn_grad(loss, m->piece[k].x), TN_SHAPE(1, 1, m->piece[k].n + m->piece[k].before)),
               (const int64_t[]){1, 1, m->piece[k].n + m->piece[k].before}, false);
  }
  tn_function_end(f);
}

static void free_made(const Join *j, Made *m) {
  for (uint32_t k = 0; k < j->n; k++)
    if (kind_of(j, k) != AGAIN) free(m->piece[k].v), free(m->piece[k].in);
  for (uint32_t k = 0; k < m->n_out; k++) free((char *)m->out[k].data - (m->out[k].dtype == TN_I64 ? 8 : 4));
  tn_program_free(m->p);
  free(m);
}

static int64_t count(const tn_array *a) {
  int64_t n = 1;
  for (uint32_t k = 0; k < a->rank; k++) n *= a->dims[k];
  return n;
}

static bool guards_hold(const tn_array *a) {
  size_t each = a->dtype == TN_I64 ? 8 : 4;
  const char *begin = (const char *)a->data - each, *end = (const char *)a->data + (size_t)count(a) * each;
  for (size_t k = 0; k < each; k++)
    if (begin[k] != 0x55) return false;
  for (size_t k = 0; k < GUARD * each; k++)
    if (end[k] != 0x55) return false;
  return true;
}

static bool is_joined(const Join *j, const Made *m) {
  int64_t outer = outer_of(j), inner = inner_of(j), at = 0;
  for (int64_t o = 0; o < outer; o++)
    for (uint32_t k = 0; k < j->n; k++) {
      int64_t run = j->size[k] * inner;
      for (int64_t i = 0; i < run; i++, at++) {
        float y = j->as_i64 ? (float)((int64_t *)m->out[0].data)[at] : ((float *)m->out[0].data)[at];
        if (y == m->piece[k].v[o * run + i]) continue;
        printf("  %u operands, axis %u: element %lld: %g, operand %u has %g\n", j->n, j->axis, (long long)at, (double)y,
               k, (double)m->piece[k].v[o * run + i]);
        return false;
      }
    }
  return true;
}

static void check_oracle(const Join *j, const Made *m) {
  Oracle o;
  if (!oracle_open(&o, m->p, "run")) return;
  for (uint32_t k = 0; j->bound && k < j->n; k++) {
    char size[16];
    snprintf(size, sizeof size, "n%u", k);
    oracle_size(&o, size, j->size[k]);
  }
  oracle_take(&o, NULL, m->in, m->n_in);
  if (oracle_run(&o))
    for (uint32_t k = 0; k < m->n_out; k++)
      if (m->out[k].dtype == TN_F32) CHECK(oracle_agrees(&o, k, m->out[k].data, 1e-6));
  oracle_close(&o);
}

static bool run_made(Made *m, uint32_t n_workers) {
  tn_model *model = model_of(m->p, .n_workers = n_workers);
  for (uint32_t k = 0; k < m->n_out; k++)
    memset(m->out[k].data, 0x33, (size_t)count(&m->out[k]) * (m->out[k].dtype == TN_I64 ? 8 : 4));
  bool ok = CHECK(model && tn_run(model, "run", m->in, m->n_in, m->out, m->n_out) == TN_OK);
  tn_model_free(model);
  for (uint32_t k = 0; k < m->n_out; k++) CHECK(guards_hold(&m->out[k]));
  return ok;
}

static Made *made_with(const Join *j, uint32_t n_workers) {
  Made *m = calloc(1, sizeof *m);
  if (!m) abort();
  build(j, m);
  m->ok = run_made(m, n_workers);
  return m;
}

static void check_join(const Join *j) {
  Made *one = made_with(j, 1), *three = made_with(j, 3);
  if (one->ok && CHECK(is_joined(j, one))) check_oracle(j, one);
  for (uint32_t k = 0; one->ok && three->ok && k < one->n_out; k++) {
    size_t size = (size_t)count(&one->out[k]) * (j->as_i64 ? 8 : 4);
    CHECK(!memcmp(one->out[k].data, three->out[k].data, size));
  }
  free_made(j, one);
  free_made(j, three);
}

static void fill_sizes(Join *j, const int64_t *sizes, uint32_t n) {
  for (uint32_t k = 0; k < j->n; k++) j->size[k] = kind_of(j, k) == AGAIN ? j->size[k - 1] : sizes[(k * 7 + j->n) % n];
  if (!length_of(j)) j->size[0] = 1;
}

static void counts(void) {
  static const int64_t sizes[] = {1, 3, 0, 17, 2, 5, 16, 1, 31, 4}, others[] = {1, 2, 5, 3, 20};
  for (uint32_t n = 1; n <= 100; n++) {
    Join j = {
        .n = n, .axis = n % 3, .has_grad = n % 10 == 3, .has_bias = n % 4 == 1 && n % 3 != 2, .alike = n % 6 == 5};
    for (uint32_t k = 0; k < 3; k++) j.dim[k] = others[(n / 3 + k) % 5];
    fill_sizes(&j, sizes, 10);
    if (is_sampled(n, 2)) check_join(&j);
  }
}

// Beyond a worker's share, and runs of many vectors.
static void large(void) {
  static const int64_t sizes[] = {1, 40, 3, 0, 130, 16};
  static const uint32_t n_of[] = {2, 4, 5, 19};
  for (uint32_t axis = 0; axis < 3; axis++)
    for (uint32_t i = 0; i < 4; i++)
      for (uint32_t bias = 0; bias < 2; bias++) {
        Join j = {
            .n = n_of[i], .axis = axis, .dim = {23, 19, 45}, .has_bias = bias && axis != 2, .has_grad = bias && i == 2};
        fill_sizes(&j, sizes, 6);
        if (is_sampled(8 * axis + 2 * i + bias, 2)) check_join(&j);
      }
}

static void columns(void) {
  for (uint32_t n = 2; n <= 100; n += 14)
    for (uint32_t axis = 1; axis < 3; axis++) {
      Join j = {.n = n, .axis = axis, .dim = {211, 3, axis == 1 ? 1 : 7}};
      for (uint32_t k = 0; k < n; k++) j.size[k] = 1 + (k / 5) % 3;
      check_join(&j);
    }
}

static void run_time_sizes(void) {
  static const int64_t sizes[] = {9, 0, 1, 7, 0, 2};
  for (uint32_t n = 1; n <= 40; n += 6)
    for (uint32_t axis = 0; axis < 3; axis++) {
      Join j = {
          .n = n, .axis = axis, .dim = {5, 6, 21}, .bound = 9, .has_bias = axis < 2 && n > 7, .alike = n % 4 == 1};
      fill_sizes(&j, sizes, 6);
      check_join(&j);
    }
}

static void integers(void) {
  static const int64_t sizes[] = {3, 0, 1, 40, 8};
  for (uint32_t n = 1; n <= 20; n += 4)
    for (uint32_t axis = 0; axis < 3; axis++) {
      Join j = {.n = n, .axis = axis, .dim = {7, 3, 5}, .as_i64 = true};
      fill_sizes(&j, sizes, 5);
      check_join(&j);
    }
}

// ---- more than one instruction takes, two joins in one kernel, joins that are cut in different places
static void very_many(void) {
  enum { N = 2500 };
  tn_program *p = tn_program_create("many");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(5, 2)), *part = calloc(N, sizeof *part);
  for (int k = 0; k < N; k++) part[k] = k % 7 ? x : tn_slice(x, 0, k % 5, 1);
  tn_output(f, "y", tn_concat(0, part, N));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  int64_t rows = 0, at = 0;
  for (int k = 0; k < N; k++) rows += k % 7 ? 5 : 1;
  float in[10], *y = calloc((size_t)rows * 2, sizeof *y);
  for (int k = 0; k < 10; k++) in[k] = (float)k;
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(in, 5, 2)), TN_OUT(tn_f32(y, rows, 2))) == TN_OK);
  bool same = true;
  for (int k = 0; k < N; k++)
    for (int i = 0; i < (k % 7 ? 10 : 2); i++) same &= y[at++] == (float)(k % 7 ? i : 2 * (k % 5) + i);
  CHECK(same);
  tn_model_free(m);
  tn_program_free(p);
  free(y);
  free(part);
}

// A concat of a concat and of parts of values, which it reads where they lie.
static void nested_parts(uint32_t workers) {
  enum { ROWS = 7, X = 6, LINES = 4, A = 5, B = 3, WIDTH = A + B, FIRST = 3, LAST = 2, ALL = FIRST + LINES + LAST };
  tn_program *p = tn_program_create("nested");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, X, WIDTH)),
            a = tn_input(f, "a", TN_F32, TN_SHAPE(ROWS, LINES, A));
  tn_tensor b = tn_input(f, "b", TN_F32, TN_SHAPE(ROWS, LINES, WIDTH));
  tn_tensor inside = tn_concat(2, TN_TENSORS(a, tn_slice(b, 2, 4, B)));
  tn_output(f, "y", tn_concat(1, TN_TENSORS(tn_slice(x, 1, 2, FIRST), inside, tn_slice(x, 1, 1, LAST))));
  tn_function_end(f);
  float *xs = numbers(ROWS * X * WIDTH, 1), *as = numbers(ROWS * LINES * A, 2), *bs = numbers(ROWS * LINES * WIDTH, 3);
  float *y = numbers(ROWS * ALL * WIDTH, 4);
  tn_model *m = model_of(p, .n_workers = workers);
  tn_array in[] = {tn_f32(xs, ROWS, X, WIDTH), tn_f32(as, ROWS, LINES, A), tn_f32(bs, ROWS, LINES, WIDTH)};
  CHECK(m && tn_run(m, "run", in, 3, TN_OUT(tn_f32(y, ROWS, ALL, WIDTH))) == TN_OK);
  bool same = true;
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < ALL; k++)
      for (int w = 0; w < WIDTH; w++) {
        int line = k - FIRST, row = k < FIRST ? 2 + k : 1 + line - LINES;
        bool of_inside = line >= 0 && line < LINES, of_a = of_inside && w < A;
        float want = of_a        ? as[(r * LINES + line) * A + w]
                     : of_inside ? bs[(r * LINES + line) * WIDTH + 4 + w - A]
                                 : xs[(r * X + row) * WIDTH + w];
        same &= y[(r * ALL + k) * WIDTH + w] == want;
      }
  CHECK(same);
  tn_model_free(m);
  tn_program_free(p);
  free(xs), free(as), free(bs), free(y);
}

static void two_joins(uint32_t axis, bool same_cuts, uint32_t workers) {
  enum { A = 37, B = 70, N = 107 };
  int64_t rows = axis ? 53 : N, width = axis ? N : 53;
  tn_program *p = tn_program_create("two");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x[4];
  float *in[4], *y = numbers(N * 53, 9), *z = numbers(N * 53, 9);
  tn_array arrays[4];
  for (int k = 0; k < 4; k++) {
    int64_t n = (k % 2 == 1) == (same_cuts || k < 2) ? B : A, r = axis ? 53 : n, w = axis ? n : 53;
    static const char *const name[] = {"a", "b", "c", "d"};
    x[k] = tn_input(f, name[k], TN_F32, TN_SHAPE(r, w));
    in[k] = numbers(n * 53, (uint32_t)k + 1);
    arrays[k] = tn_f32(in[k], r, w);
  }
  tn_tensor one = tn_concat((int)axis, TN_TENSORS(x[0], x[1])), other = tn_concat((int)axis, TN_TENSORS(x[2], x[3]));
  tn_output(f, "y", tn_add(one, tn_mul(other, tn_scalar(f, 2))));
  tn_output(f, "z", tn_transpose(tn_mul(tn_transpose(one, 0, 1), tn_transpose(other, 0, 1)), 0, 1));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = workers);
  CHECK(m && tn_run(m, "run", arrays, 4, TN_OUT(tn_f32(y, rows, width), tn_f32(z, rows, width))) == TN_OK);
  tn_model_free(m);
  Oracle o;
  if (oracle_open(&o, p, "run")) {
    oracle_take(&o, NULL, arrays, 4);
    if (oracle_run(&o)) CHECK(oracle_agrees(&o, 0, y, 1e-6) && oracle_agrees(&o, 1, z, 1e-6));
    oracle_close(&o);
  }
  tn_program_free(p);
  for (int k = 0; k < 4; k++) free(in[k]);
  free(y), free(z);
}

// ---- in a scan: carry and input joined in every step, and their gradients
static void in_scan(uint32_t workers) {
  enum { STEPS = 9, BATCH = 5, X = 3, H = 18, WIDE = 2 * H + X };
  tn_program *p = tn_program_create("scan");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(STEPS, BATCH, X));
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(BATCH, H));
  tn_scan *s = tn_scan_begin(f, .steps = D(STEPS));
  tn_tensor x = tn_scan_input(s, xs), h = tn_scan_carry(s, h0);
  tn_tensor joined = tn_concat(1, TN_TENSORS(tn_tanh(h), x, tn_mul(h, h)));
  tn_scan_next(s, h, tn_tanh(tn_add(tn_slice(joined, 1, 1, H), tn_slice(joined, 1, WIDE - H, H))));
  tn_tensor ys = tn_scan_output(s, tn_mul(joined, tn_scalar(f, 0.5)));
  tn_scan_end(s);
  tn_tensor loss = tn_sum(tn_square(ys));
  tn_output(f, "ys", ys);
  tn_output(f, "dxs", tn_grad(loss, xs));
  tn_output(f, "dh0", tn_grad(loss, h0));
  tn_function_end(f);
  float *in[] = {numbers(STEPS * BATCH * X, 1), numbers(BATCH * H, 2)};
  float *out[] = {numbers(STEPS * BATCH * WIDE, 3), numbers(STEPS * BATCH * X, 3), numbers(BATCH * H, 3)};
  tn_array arrays[] = {tn_f32(in[0], STEPS, BATCH, X), tn_f32(in[1], BATCH, H)};
  Oracle o;
  if (oracle_open(&o, p, "run")) {
    oracle_take(&o, NULL, arrays, 2);
    CHECK(oracle_run(&o));
  }
  tn_model *m = tn_compile(p, .n_workers = workers);
  if (!m) tn_report(p, stdout);
  tn_array result[] = {tn_f32(out[0], STEPS, BATCH, WIDE), tn_f32(out[1], STEPS, BATCH, X), tn_f32(out[2], BATCH, H)};
  CHECK(m && tn_run(m, "run", arrays, 2, result, 3) == TN_OK);
  for (uint32_t k = 0; k < 3; k++) CHECK(oracle_agrees(&o, k, out[k], 1e-5));
  tn_model_free(m);
  oracle_close(&o);
  tn_program_free(p);
  for (int k = 0; k < 2; k++) free(in[k]);
  for (int k = 0; k < 3; k++) free(out[k]);
}

// ---- time: 64 operands take what one addition of as many numbers takes, and a little
static double least_time(uint32_t n_joined, uint32_t axis, int64_t rows, int64_t width) {
  tn_program *p = tn_program_create("time");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(rows, width)), y, part[64];
  int64_t n = 64 * rows * width, r = axis ? rows : 64 * rows, w = axis ? 64 * width : width;
  for (int k = 0; k < 64; k++) part[k] = x;
  if (n_joined) y = tn_concat((int)axis, part, n_joined);
  else y = tn_add(tn_input(f, "y", TN_F32, TN_SHAPE(r, w)), tn_scalar(f, 1));
  tn_output(f, "out", y);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  float *in = numbers(rows * width, 1), *other = numbers(n, 2), *out = numbers(n, 3);
  double least = INFINITY;
  tn_array arrays[] = {tn_f32(in, rows, width), tn_f32(other, r, w)};
  for (int k = 0; CHECK(m != NULL) && k < 9; k++) {
    double begin = thread_cpu_s();
    CHECK(tn_run(m, "run", arrays, n_joined ? 1 : 2, TN_OUT(tn_f32(out, r, w))) == TN_OK);
    least = fmin(least, thread_cpu_s() - begin);
  }
  tn_model_free(m);
  tn_program_free(p);
  free(in), free(other), free(out);
  return least;
}

static void time_of_many(void) {
  static const int64_t size[][2] = {{100, 320}, {500, 20}, {4000, 1}};
  for (uint32_t axis = 0; axis < 2; axis++)
    for (int k = 0; k < 3; k++) {
      double joined = least_time(64, axis, size[k][0], size[k][1]), plain = least_time(0, axis, size[k][0], size[k][1]);
      if (!CHECK(joined < 6 * plain))
        printf("  axis %u, %lld x %lld: %.1f us against %.1f\n", axis, (long long)size[k][0], (long long)size[k][1],
               1e6 * joined, 1e6 * plain);
    }
}

// ---- casts
static int64_t truncated(float x) {
  if (isnan(x)) return 0;
  return x >= 0x1p63f ? INT64_MAX : x < -0x1p63f ? INT64_MIN : (int64_t)x;
}

static void casts(void) {
  static const float awkward[] = {
      0,       -0.0f,      0.99f,          -0.99f,          1.5f,     -1.5f,          NAN,
      -NAN,    INFINITY,   -INFINITY,      0x1p63f,         -0x1p63f, 0x1.fffffep62f, -0x1.fffffep62f,
      0x1p31f, -0x1p31f,   0x1.fffffep63f, -0x1.fffffep63f, 1e-45f,   3e38f,          -3e38f,
      0x1p64f, 16777217.0f};
  enum { N_AWKWARD = sizeof awkward / sizeof *awkward, MOST_NUMBERS = 9000 };
  static const int64_t counts_of[] = {1, 7, 16, 33, MOST_NUMBERS};
  static float x[MOST_NUMBERS], back[MOST_NUMBERS];
  static int64_t y[MOST_NUMBERS];
  for (int k = 0; k < MOST_NUMBERS; k++) x[k] = awkward[k * 5 % N_AWKWARD];
  for (int i = 0; i < 5; i++) {
    int64_t n = counts_of[i];
    tn_program *p = tn_program_create("casts");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor whole = tn_cast(tn_input(f, "x", TN_F32, TN_SHAPE(n)), TN_I64);
    tn_output(f, "y", whole);
    tn_output(f, "back", tn_cast(whole, TN_F32));
    tn_function_end(f);
    tn_model *m = tn_compile(p, .n_workers = 2);
    CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, n)), TN_OUT(tn_i64(y, n), tn_f32(back, n))) == TN_OK);
    for (int64_t k = 0; k < n; k++)
      if (!CHECK(y[k] == truncated(x[k]) && back[k] == (float)truncated(x[k])))
        printf("  %a: %lld\n", (double)x[k], (long long)y[k]);
    tn_model_free(m);
    tn_program_free(p);
  }
}

int main(void) {
  counts();
  large();
  columns();
  run_time_sizes();
  integers();
  very_many();
  nested_parts(1), nested_parts(3);
  for (uint32_t k = 0; k < 8; k++) two_joins(k & 1, k & 2, k & 4 ? 3 : 1);
  for (uint32_t workers = 1; workers <= 3; workers += 2) in_scan(workers);
  casts();
  time_of_many();
  return check_report();
}
