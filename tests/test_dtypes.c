// Every number dtype of ir/dtypes.def in every kernel that stores or moves elements: values that it holds come back as
// f32 with the bits that they have where f32 is stored instead. Numbers that a dtype does not hold become what
// the interpreter says. A kernel that cannot move a dtype refuses it in words.
#include "frontend/graph/ledger.h"
#include "frontend/tenure.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/interp/interp.h"
#include "ir/passes/planning/verify_plan.h"
#include "runtime/half.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 37, COLUMNS = 6, STEPS = 4, MOST = 40000, MAX_OUTPUTS = 16 };

typedef struct {
  tn_program *p;
  tn_function *f;
  tn_dim n;
  DType t, as;  // values that t holds, stored as this
  int64_t size[MAX_OUTPUTS][3];
  uint32_t rank[MAX_OUTPUTS], n_out;
} Case;

static tn_tensor as(tn_tensor x, DType t) {
  const Attr to = ir_a_int(KEY_dtype, t);
  return fe_made(fe_emit(OP_cast, &x, 1, &to, 1, TN_SITE), TN_SITE);
}

static tn_tensor stored(const Case *c, tn_tensor x) { return as(as(x, c->t), c->as); }

// Hands out x, of the case's dtype, as f32.
static void put(Case *c, tn_tensor x, uint32_t rank, int64_t a, int64_t b, int64_t d) {
  char name[16];
  snprintf(name, sizeof name, "y%u", c->n_out);
  tn_output(c->f, name, as(x, DT_F32));
  int64_t *size = c->size[c->n_out];
  size[0] = a, size[1] = b, size[2] = d;
  c->rank[c->n_out++] = rank;
}

// ---- kernels that move elements
static void move_elements(Case *c, tn_tensor x) {
  tn_tensor a = stored(c, x);
  put(c, tn_permute(a, (int[]){1, 0}, 2), 2, COLUMNS, ROWS, 0);
  put(c, tn_slice(a, 1, 1, 3), 2, ROWS, 3, 0);
  put(c, tn_expand(tn_slice(a, 1, 2, 1), TN_SHAPE(c->n, 9)), 2, ROWS, 9, 0);
  put(c, tn_concat(1, TN_TENSORS(a, tn_slice(a, 1, 0, 5))), 2, ROWS, COLUMNS + 5, 0);  // by runs
  put(c, tn_concat(0, TN_TENSORS(tn_permute(a, (int[]){1, 0}, 2), tn_permute(a, (int[]){1, 0}, 2))), 2, 2 * COLUMNS,
      ROWS, 0);  // by segments
  tn_tensor b = stored(c, tn_mul(x, tn_scalar(c->f, 2)));
  put(c, tn_slice_assign_(b, 1, 2, tn_slice(a, 1, 0, 3)), 2, ROWS, COLUMNS, 0);
  tn_tensor rows = tn_constant_i64(c->f, ((const int64_t[]){2, 0}), TN_SHAPE(2));
  put(c, tn_index_put_(tn_clone(b), rows, tn_slice(a, 0, 3, 2)), 2, ROWS, COLUMNS, 0);
  const Attr pad[] = {ir_a_int(KEY_axis, 1), ir_a_dim(KEY_start, ir_dim(c->f->p->ir, 2)),
                      ir_a_int(KEY_size, COLUMNS + 5)};
  put(c, fe_made(fe_emit(OP_pad_axis, &a, 1, pad, 3, TN_SITE), TN_SITE), 2, ROWS, COLUMNS + 5, 0);
}

// Large enough for the tiles of a transposed access, which read f32 alone, and for shares of several workers.
static void move_many(Case *c, tn_tensor x) {
  tn_tensor wide = stored(c, tn_expand(tn_reshape(x, TN_SHAPE(c->n, COLUMNS, 1)), TN_SHAPE(c->n, COLUMNS, 50)));
  put(c, tn_permute(wide, (int[]){0, 2, 1}, 3), 3, ROWS, 50, COLUMNS);
}

static void through_products(Case *c, tn_tensor x) {
  tn_tensor w = tn_slice(tn_permute(x, (int[]){1, 0}, 2), 0, 0, COLUMNS);
  put(c, stored(c, tn_matmul(x, w)), 2, ROWS, ROWS, 0);                         // an epilogue stores it
  put(c, stored(c, tn_matmul(as(stored(c, x), DT_F32), w)), 2, ROWS, ROWS, 0);  // a prologue reads it
}

static void through_scan(Case *c, tn_tensor x) {
  tn_tensor xs = stored(c, tn_expand(tn_reshape(x, TN_SHAPE(1, c->n, COLUMNS)), TN_SHAPE(STEPS, c->n, COLUMNS)));
  tn_scan *s = tn_scan_begin(c->f, .steps = tn_dim_const(STEPS));
  tn_tensor at = as(tn_scan_input(s, xs), DT_F32), h = tn_scan_carry(s, x), next = tn_add(h, at);
  tn_scan_next(s, h, next);
  tn_tensor ys = tn_scan_output(s, stored(c, next));
  tn_scan_end(s);
  put(c, ys, 3, STEPS, ROWS, COLUMNS);
}

// x as a padded batch of ROWS sequences of COLUMNS steps.
static tn_tensor pack_and_pad(const Case *c, tn_tensor x) {
  int64_t lengths[ROWS];
  for (int k = 0; k < ROWS; k++) lengths[k] = 1 + k % COLUMNS;
  tn_tensor all = tn_slice(stored(c, x), 1, 0, COLUMNS);
  return tn_pad_packed(tn_packed_reverse(tn_pack_constant(all, lengths, ROWS)), 1, true);
}

// ---- running
static Case begin(DType t, DType as, bool is_constant) {
  Case c = {.p = tn_program_create("dtypes"), .t = t, .as = as};
  c.n = is_constant ? tn_dim_const(ROWS) : tn_dim_bounded(c.p, "n", ROWS + 5);
  c.f = tn_function_begin(c.p, "run");
  return c;
}

// What the outputs hold, one behind the other; their number of elements.
static int64_t run(Case *c, const float *x, float *y) {
  tn_function_end(c->f);
  tn_model *m = model_of(c->p, .n_workers = 2);
  if (!m) return tn_report(c->p, stdout), 0;
  tn_array out[MAX_OUTPUTS];
  int64_t n = 0;
  for (uint32_t k = 0; k < c->n_out; k++) {
    out[k] = tn_array_of(y + n, TN_F32, c->size[k], c->rank[k]);
    int64_t elements = 1;
    for (uint32_t d = 0; d < c->rank[k]; d++) elements *= c->size[k][d];
    n += elements;
  }
  if (n > MOST) abort();
  tn_array in = tn_array_of((void *)(uintptr_t)x, TN_F32, (int64_t[]){ROWS, COLUMNS}, 2);
  if (!CHECK(tn_run(m, "run", &in, 1, out, c->n_out) == TN_OK)) printf("%s\n", tn_error_text(m));
  tn_model_free(m);
  return n;
}

static int64_t run_moves(DType t, DType as, const float *x, float *y) {
  Case c = begin(t, as, false);
  tn_tensor in = tn_input(c.f, "x", TN_F32, TN_SHAPE(c.n, COLUMNS));
  move_elements(&c, in);
  move_many(&c, in);
  through_products(&c, in);
  through_scan(&c, in);
  int64_t n = run(&c, x, y);
  tn_program_free(c.p);
  return n;
}

static int64_t run_packed(DType t, DType as, const float *x, float *y) {
  Case c = begin(t, as, true);
  tn_tensor in = tn_input(c.f, "x", TN_F32, TN_SHAPE(c.n, COLUMNS));
  put(&c, pack_and_pad(&c, in), 2, ROWS, COLUMNS, 0);
  int64_t n = run(&c, x, y);
  tn_program_free(c.p);
  return n;
}

static bool is_number(DType t) { return NUMBER >> t & 1; }

static void elements_are_moved_as_they_are(void) {
  static float x[ROWS * COLUMNS], want[MOST], got[MOST];
  for (int k = 0; k < ROWS * COLUMNS; k++) x[k] = (float)(k % 5) - 2;  // sums of products stay below 2^8
  for (DType t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!is_number(t) || t == DT_F32) continue;
    int64_t n = run_moves(t, DT_F32, x, want);
    if (!CHECK(n && run_moves(t, t, x, got) == n && !memcmp(got, want, (size_t)n * sizeof *got)))
      printf("  stored as %s\n", ir_dtype_name[t]);
  }
}

static void packed_rows_are_moved_as_they_are(void) {
  static float x[ROWS * COLUMNS], want[MOST], got[MOST];
  for (int k = 0; k < ROWS * COLUMNS; k++) x[k] = (float)(k % 9) - 4;
  for (DType t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!is_number(t)) continue;
    int64_t n = run_packed(t, DT_F32, x, want);
    CHECK(n && run_packed(t, t, x, got) == n && !memcmp(got, want, (size_t)n * sizeof *got));
  }
}

// ---- conversions
static const float awkward[] = {
    0,      -0.0f,    1.5f,      -2.5f,      257,        258.5f,      65535.5f,    1e-40f,   -1e-40f, 3e38f,
    -3e38f, INFINITY, -INFINITY, NAN,        -7,         16777216,    9.3e18f,     -9.3e18f, 65519,   65520,
    6e-8f,  2.9e-8f,  6.1e-5f,   1.0009766f, 1.0019531f, 1.00390625f, 1.01171875f, 3e9f,     -129};
enum { N_AWKWARD = sizeof awkward / sizeof *awkward };

static void fill_awkward(float *x) {
  for (int k = 0; k < ROWS * COLUMNS; k++) x[k] = awkward[k % N_AWKWARD];
}

static int64_t n_different(DType from, DType to, const float *x, const float *y, int64_t n) {
  int64_t bad = 0;
  for (int64_t k = 0; k < n; k++) {
    float want = (float)run_cast(from, to, run_converted(from, (double)x[k]));
    if (want == y[k] || (isnan(want) && isnan(y[k]))) continue;
    if (!bad++)
      printf("  %.9g as %s as %s is %.9g, not %.9g\n", (double)x[k], ir_dtype_name[from], ir_dtype_name[to],
             (double)y[k], (double)want);
  }
  return bad;
}

static void cast_pair(DType from, DType to) {
  static float x[ROWS * COLUMNS], y[MOST];
  fill_awkward(x);
  Case c = begin(to, to, false);
  put(&c, stored(&c, as(tn_input(c.f, "x", TN_F32, TN_SHAPE(c.n, COLUMNS)), from)), 2, ROWS, COLUMNS, 0);
  int64_t n = run(&c, x, y);
  CHECK(n == ROWS * COLUMNS && n_different(from, to, x, y, n) == 0);
  tn_program_free(c.p);
}

static void casts_are_those_of_the_interpreter(void) {
  for (DType from = DT_NONE + 1; from < N_DTYPES; from++)
    for (DType to = DT_NONE + 1; to < N_DTYPES; to++)
      if (is_number(from) && is_number(to)) cast_pair(from, to);
}

// ---- arrays of the caller
// What an array of t gives as f32, and as it was handed in.
static void feed(DType t, void *elements, float *as_f32, void *back) {
  Case c = begin(t, t, true);
  tn_tensor x = tn_input(c.f, "x", (tn_dtype)t, TN_SHAPE(c.n, COLUMNS));
  tn_output(c.f, "y", tn_cast(x, TN_F32));
  tn_output(c.f, "same", x);
  tn_function_end(c.f);
  tn_model *m = tn_compile(c.p, .n_workers = 2);
  tn_array in = tn_array_of(elements, (tn_dtype)t, (int64_t[]){ROWS, COLUMNS}, 2), same = in, y = in, wrong = in;
  same.data = back, y.data = as_f32, y.dtype = TN_F32;
  wrong.dtype = t == DT_U8 ? TN_BOOL : TN_U8;
  if (CHECK(m && tn_run(m, "run", &in, 1, TN_OUT(y, same)) == TN_OK)) {
    CHECK(tn_run(m, "run", &wrong, 1, TN_OUT(y, same)) == TN_ERR_ARGUMENT);
    CHECK_HAS(tn_error_text(m), ir_dtype_name[t]);
  }
  tn_model_free(m);
  tn_program_free(c.p);
}

// x as an array of t, by a run.
static void fetch(DType t, const float *x, void *out) {
  Case c = begin(t, t, true);
  tn_output(c.f, "y", tn_cast(tn_input(c.f, "x", TN_F32, TN_SHAPE(c.n, COLUMNS)), (tn_dtype)t));
  tn_function_end(c.f);
  tn_model *m = tn_compile(c.p, .n_workers = 2);
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, ROWS, COLUMNS)),
                    TN_OUT(tn_array_of(out, (tn_dtype)t, (int64_t[]){ROWS, COLUMNS}, 2))) == TN_OK);
  tn_model_free(m);
  tn_program_free(c.p);
}

static void arrays_have_every_dtype(void) {
  static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
  static int64_t there[ROWS * COLUMNS], back[ROWS * COLUMNS];
  fill_awkward(x);
  for (DType t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!is_number(t)) continue;
    fetch(t, x, there);
    feed(t, there, y, back);
    CHECK(n_different(t, DT_F32, x, y, ROWS * COLUMNS) == 0);
    CHECK(!memcmp(there, back, (size_t)ROWS * COLUMNS * ir_dtype_bytes[t]));
  }
}

// ---- gradients
// Of sum(w (x as t)) + sum(x): w rounded to t, and 1; integers and bools have none.
static void gradients_go_through_floats(void) {
  static float w[ROWS * COLUMNS], x[ROWS * COLUMNS], dx[ROWS * COLUMNS];
  for (int k = 0; k < ROWS * COLUMNS; k++) w[k] = 1 + (float)k / 7, x[k] = (float)k / 3;
  for (DType t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!is_number(t)) continue;
    Case c = begin(t, t, true);
    tn_tensor in = tn_input(c.f, "x", TN_F32, TN_SHAPE(c.n, COLUMNS)), by = tn_constant(c.f, w, TN_SHAPE(c.n, COLUMNS));
    tn_set_requires_grad(in, true);
    tn_tensor turned = tn_permute(stored(&c, in), (int[]){1, 0}, 2);
    tn_tensor back = as(tn_permute(turned, (int[]){1, 0}, 2), DT_F32);
    put(&c, tn_grad(tn_add(tn_sum(tn_mul(by, back)), tn_sum(in)), in), 2, ROWS, COLUMNS, 0);
    int64_t n = run(&c, x, dx), bad = 0;
    for (int64_t k = 0; k < n; k++) {
      double flows = ir_dtype_kind[t] == DTYPE_FLOAT ? run_converted(t, (double)w[k]) : 0;
      bad += dx[k] != (float)(flows + 1);
    }
    if (!CHECK(n == ROWS * COLUMNS && bad == 0)) printf("  stored as %s\n", ir_dtype_name[t]);
    tn_program_free(c.p);
  }
}

// h += x as t in each of 4 steps, from x on: of sum(h as t at each step) 4 + 4 + 3 + 2 + 1, where t is a float.
static void gradients_go_through_scans(DType t) {
  static float x[ROWS * COLUMNS], dx[ROWS * COLUMNS];
  for (int k = 0; k < ROWS * COLUMNS; k++) x[k] = (float)k / 3;
  Case c = begin(t, t, true);
  tn_tensor in = tn_input(c.f, "x", TN_F32, TN_SHAPE(c.n, COLUMNS));
  tn_set_requires_grad(in, true);
  tn_tensor xs = stored(&c, tn_expand(tn_reshape(in, TN_SHAPE(1, c.n, COLUMNS)), TN_SHAPE(STEPS, c.n, COLUMNS)));
  tn_scan *s = tn_scan_begin(c.f, .steps = tn_dim_const(STEPS));
  tn_tensor at = as(tn_scan_input(s, xs), DT_F32), h = tn_scan_carry(s, in), next = tn_add(h, at);
  tn_scan_next(s, h, next);
  tn_tensor ys = tn_scan_output(s, stored(&c, next));
  tn_scan_end(s);
  put(&c, tn_grad(tn_sum(as(ys, DT_F32)), in), 2, ROWS, COLUMNS, 0);
  int64_t n = run(&c, x, dx), bad = 0;
  for (int64_t k = 0; k < n; k++) bad += dx[k] != 14;
  if (!CHECK(n == ROWS * COLUMNS && bad == 0)) printf("  stored as %s: %g\n", ir_dtype_name[t], (double)dx[0]);
  tn_program_free(c.p);
}

// ---- single elements
// An extreme of one of 16 bits and a number calls no function.
static void one_beside_a_number(DType t, const char *target) {
  char *keep = getenv("TN_TARGET") ? strdup(getenv("TN_TARGET")) : NULL;
  setenv("TN_TARGET", target, 1);
  Case c = begin(t, t, true);
  tn_tensor x = tn_input(c.f, "x", (tn_dtype)t, TN_SCALAR), half = tn_scalar(c.f, 0.5), of = tn_cast(x, TN_F32);
  tn_output(c.f, "angle", tn_atan2(half, of));
  tn_output(c.f, "within", tn_hardtanh(tn_abs(of), 0.25, 0.5));
  tn_function_end(c.f);
  tn_model *m = tn_compile(c.p, .n_workers = 1);
  uint16_t in = t == DT_F16 ? rt_f16_of_f32(-0.5f) : rt_bf16_of_f32(-0.5f);
  float angle = 0, within = 0;
  bool ran = m && tn_run(m, "run", TN_IN(tn_array_of(&in, (tn_dtype)t, NULL, 0)),
                         TN_OUT(tn_f32_scalar(&angle), tn_f32_scalar(&within))) == TN_OK;
  if (!CHECK(ran && angle == 2.35619449f && within == 0.5f)) printf("  %s, %s\n", ir_dtype_name[t], target);
  tn_model_free(m);
  tn_program_free(c.p);
  if (keep) setenv("TN_TARGET", keep, 1);
  else unsetenv("TN_TARGET");
  free(keep);
}

// The bits of dtypes and those of other flags are apart, and the sizes of all tables agree.
static void the_tables_agree(void) {
  CHECK((ANY & (OPTIONAL | REPEATED | WITH_PREVIOUS | SHAPE_ONLY | REPLACED | ELEMENT | ROW_SCALAR)) == 0);
  CHECK((NUMBER & (F32 | I64)) == (F32 | I64) && !(NUMBER & LAYOUT) && (WORDS & ~NUMBER) == 0);
  RtArena *mem = rt_arena_new();
  Prog *p = ir_prog_new(mem, "p");
  Fn *f = ir_fn_new(p, "f", (Loc){0});
  for (DType t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!is_number(t)) continue;
    Shape s = ir_shape_ints(p, (int64_t[]){3, 5}, 2);
    Val v = ir_input(f, ir_dtype_name[t], t, s, (Loc){0});
    CHECK(ir_plan_bytes(f, v) == 15 * ir_dtype_bytes[t] && ir_type_bytes(p, t, s) == 15 * ir_dtype_bytes[t]);
  }
  rt_arena_free(mem);
}

int main(void) {
  the_tables_agree();
  casts_are_those_of_the_interpreter();
  elements_are_moved_as_they_are();
  packed_rows_are_moved_as_they_are();
  arrays_have_every_dtype();
  gradients_go_through_floats();
  gradients_go_through_scans(DT_F32);
  gradients_go_through_scans(DT_F16);
  gradients_go_through_scans(DT_BF16);
  for (DType t = DT_F16; t <= DT_BF16; t++) {
    one_beside_a_number(t, "avx2");
    one_beside_a_number(t, "generic");
  }
  return check_report();
}
