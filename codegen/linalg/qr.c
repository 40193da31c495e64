// qr: each matrix becomes R above its diagonal and, below, the vectors of reflections, then Q in place, as LAPACK's dgeqr2 and dorg2r.
//
//   step j:   v = 1 in row j, x / (alpha - beta) below, where alpha and x are column j from row j on and beta is R's element;
//             the columns behind lose tau v v^T times themselves. A column that is 0 below row j stays: tau is 0
//   Q:        from the last reflection to the first, each of the columns from its own on
//
// The factors tau lie in row 0 of R until Q's column k is made, which is when R's element (0, k) takes the place. Columns are lanes of
// a vector; an element sums in the order of rows, whatever the worker: results are the same bits for any number of workers.
#include "codegen/linalg/linalg.h"
#include "codegen/math/primitives.h"

typedef LLVMValueRef V;

typedef struct {
  V w, r, m, n;  // w [m, n], r [n, n]
} Qr;

static V next_to(Cg *c, V i) { return cg_add(c, i, cg_i64(c, 1)); }
static V f32_at(Cg *c, V base, V at) { return cg_at(c, c->f32, base, at); }
static V w_at(Cg *c, const Qr *q, V i, V j) { return f32_at(c, q->w, cg_add(c, cg_mul(c, i, q->n), j)); }
static V r_at(Cg *c, const Qr *q, V i, V j) { return f32_at(c, q->r, cg_add(c, cg_mul(c, i, q->n), j)); }
static V either(Cg *c, V when, V a, V b) { return LLVMBuildSelect(c->b, when, a, b, ""); }

// ---- a reflection, of the columns behind it
typedef struct {
  const Qr *q;
  V j, tau;
} Reflection;

static void reflect_vectors(Cg *c, V k, V mask, void *ctx) {
  const Reflection *h = ctx;
  V top = w_at(c, h->q, h->j, k), first = cg_load_masked(c, c->vf, top, mask);
  Loop l;
  cg_loop_begin(c, &l, next_to(c, h->j), h->q->m, cg_i64(c, 1), &first, 1);
  V v = cg_splat(c, cg_load(c, c->f32, w_at(c, h->q, l.i, h->j)));
  V sum = cg_fma(c, v, cg_load_masked(c, c->vf, w_at(c, h->q, l.i, k), mask), l.carry[0]);
  cg_loop_end(c, &l, &sum);
  V minus = LLVMBuildFMul(c->b, cg_splat(c, LLVMBuildFNeg(c->b, h->tau, "")), l.out[0], "");
  cg_store_masked(c, LLVMBuildFAdd(c->b, first, minus, ""), top, mask);
  cg_loop_begin(c, &l, next_to(c, h->j), h->q->m, cg_i64(c, 1), NULL, 0);
  v = cg_splat(c, cg_load(c, c->f32, w_at(c, h->q, l.i, h->j)));
  V at = w_at(c, h->q, l.i, k);
  cg_store_masked(c, cg_fma(c, v, minus, cg_load_masked(c, c->vf, at, mask)), at, mask);
  cg_loop_end(c, &l, NULL);
}

static void reflect(Cg *c, const Qr *q, V j, V tau) {
  Reflection h = {q, j, tau};
  cg_each_vector(c, next_to(c, j), q->n, reflect_vectors, &h);
}

// ---- R
static V largest_below(Cg *c, const Qr *q, V j) {
  V none = cg_i32(c, 0);
  Loop l;
  cg_loop_begin(c, &l, next_to(c, j), q->m, cg_i64(c, 1), &none, 1);
  V size = cg_magnitude(c, w_at(c, q, l.i, j));
  V larger = either(c, LLVMBuildICmp(c->b, LLVMIntUGT, size, l.carry[0], ""), size, l.carry[0]);
  cg_loop_end(c, &l, &larger);
  return l.out[0];
}

// The length of column j from row j on, by elements that are divided by the largest one: no square overflows.
static V length(Cg *c, const Qr *q, V j, V largest) {
  V zero = cg_f32(c, 0);
  Loop l;
  cg_loop_begin(c, &l, j, q->m, cg_i64(c, 1), &zero, 1);
  V x = LLVMBuildFDiv(c->b, cg_load(c, c->f32, w_at(c, q, l.i, j)), largest, "");
  V sum = cg_fma(c, x, x, l.carry[0]);
  cg_loop_end(c, &l, &sum);
  return LLVMBuildFMul(c->b, largest, cg_primitive(c, OP_sqrt, &l.out[0]), "");
}

static void make_reflection(Cg *c, const Qr *q, V j) {
  V at = w_at(c, q, j, j), alpha = cg_load(c, c->f32, at), size = cg_magnitude(c, at), below = largest_below(c, q, j);
  V is_plain = LLVMBuildICmp(c->b, LLVMIntEQ, below, cg_i32(c, 0), "");
  V largest = either(c, LLVMBuildICmp(c->b, LLVMIntUGT, below, size, ""), below, size), one = cg_f32(c, 1);
  largest = either(c, is_plain, one, LLVMBuildBitCast(c->b, largest, c->f32, ""));
  V minus = LLVMBuildFNeg(c->b, alpha, ""), signs[] = {length(c, q, j, largest), minus};
  V beta = either(c, is_plain, alpha, cg_primitive(c, OP_copysign, signs));
  V tau = LLVMBuildFDiv(c->b, LLVMBuildFSub(c->b, beta, alpha, ""), either(c, is_plain, one, beta), "");
  V by = either(c, is_plain, one, LLVMBuildFSub(c->b, alpha, beta, ""));
  Loop l;
  cg_loop_begin(c, &l, next_to(c, j), q->m, cg_i64(c, 1), NULL, 0);
  V x = w_at(c, q, l.i, j);
  cg_store(c, LLVMBuildFDiv(c->b, cg_load(c, c->f32, x), by, ""), x);
  cg_loop_end(c, &l, NULL);
  tau = either(c, is_plain, cg_f32(c, 0), tau);
  cg_store(c, beta, at);
  cg_store(c, tau, r_at(c, q, cg_i64(c, 0), j));
  reflect(c, q, j, tau);
}

// Rows of R but the first
static void store_rows(Cg *c, const Qr *q) {
  V one = cg_i64(c, 1);
  Loop rows, l;
  cg_loop_begin(c, &rows, one, q->n, one, NULL, 0);
  cg_loop_begin(c, &l, cg_i64(c, 0), q->n, one, NULL, 0);
  V is_above = LLVMBuildICmp(c->b, LLVMIntSGE, l.i, rows.i, "");
  V x = either(c, is_above, cg_load(c, c->f32, w_at(c, q, rows.i, l.i)), cg_f32(c, 0));
  cg_store(c, x, r_at(c, q, rows.i, l.i));
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &rows, NULL);
}

// ---- Q
static void make_column(Cg *c, const Qr *q, V j) {
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), first = r_at(c, q, zero, j), tau = cg_load(c, c->f32, first);
  V minus = LLVMBuildFNeg(c->b, tau, "");
  Loop l;
  cg_store(c, cg_load(c, c->f32, w_at(c, q, zero, j)), first);
  reflect(c, q, j, tau);
  cg_loop_begin(c, &l, next_to(c, j), q->m, one, NULL, 0);
  V at = w_at(c, q, l.i, j);
  cg_store(c, LLVMBuildFMul(c->b, minus, cg_load(c, c->f32, at), ""), at);
  cg_loop_end(c, &l, NULL);
  cg_store(c, LLVMBuildFAdd(c->b, cg_f32(c, 1), minus, ""), w_at(c, q, j, j));
  cg_loop_begin(c, &l, zero, j, one, NULL, 0);
  cg_store(c, cg_f32(c, 0), w_at(c, q, l.i, j));
  cg_loop_end(c, &l, NULL);
}

// void(ptr w, ptr r, i64 m, i64 n): in place
static void make_qr(Cg *c, V fn, void *ctx) {
  (void)ctx;
  Qr q = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3)};
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), last = cg_sub(c, q.n, one);
  Loop l;
  cg_loop_begin(c, &l, zero, q.n, one, NULL, 0);
  make_reflection(c, &q, l.i);
  cg_loop_end(c, &l, NULL);
  store_rows(c, &q);
  cg_loop_begin(c, &l, zero, q.n, one, NULL, 0);
  make_column(c, &q, cg_sub(c, last, l.i));
  cg_loop_end(c, &l, NULL);
  LLVMBuildRetVoid(c->b);
}

int64_t cg_qr_scratch_bytes(const Fn *f, Val v) { return cg_unread_bytes(f, v) + cg_unread_bytes(f, ir_result(v, 1)); }

void cg_emit_qr(Cg *c, Val v) {
  Shape s = ir_ins(c->f, v)->shape;
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), m = cg_matrix_size(c, s, 2), n = cg_matrix_size(c, s, 1), lo, hi;
  bool has_q = cg_stored(c, v), has_r = cg_stored(c, ir_result(v, 1));
  V of_q = has_q ? cg_ptr(c, v) : c->scratch, of_r = has_r ? cg_ptr(c, ir_result(v, 1)) : c->scratch;
  if (!has_q && !has_r) of_r = f32_at(c, c->scratch, cg_i64(c, cg_unread_bytes(c->f, v) / 4));
  V rows = cg_mul(c, m, n), square = cg_mul(c, n, n);
  Loop l;
  cg_share(c, cg_n_matrices(c, s), 1, &lo, &hi);
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  V at = cg_mul(c, l.i, rows), q = f32_at(c, of_q, at);
  cg_copy_run(c, DT_F32, q, f32_at(c, a, at), rows);
  V arg[] = {q, f32_at(c, of_r, cg_mul(c, l.i, square)), m, n};
  cg_call_helper(c, "qr", arg, 4, make_qr, NULL);
  cg_loop_end(c, &l, NULL);
}
