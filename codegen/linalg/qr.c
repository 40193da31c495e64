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

typedef struct {
  V w, r, m, n;  // w [m, n], r [n, n]
} Qr;

static V w_at(Cg *c, const Qr *q, V i, V j) { return f32_at(c, q->w, cg_index(c, i, q->n, j)); }
static V r_at(Cg *c, const Qr *q, V i, V j) { return f32_at(c, q->r, cg_index(c, i, q->n, j)); }

// ---- a reflection, of the columns behind it
typedef struct {
  const Qr *q;
  V j, tau;
} Reflection;

static void reflect_vectors(Cg *c, V k, V mask, void *ctx) {
  const Reflection *h = ctx;
  V top = w_at(c, h->q, h->j, k), first = cg_load_masked(c, c->vf, top, mask);
  V sum = first;
  for (Loop l = cg_carry(c, next_to(c, h->j), h->q->m, cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V v = cg_splat(c, cg_load(c, c->f32, w_at(c, h->q, l.i, h->j)));
    sum = cg_fma(c, v, cg_load_masked(c, c->vf, w_at(c, h->q, l.i, k), mask), sum);
  }
  V minus = cg_fmul(c, cg_splat(c, cg_fneg(c, h->tau)), sum);
  cg_store_masked(c, cg_fadd(c, first, minus), top, mask);
  for (Loop l = cg_each(c, next_to(c, h->j), h->q->m); cg_next(&l);) {
    V v = cg_splat(c, cg_load(c, c->f32, w_at(c, h->q, l.i, h->j)));
    V at = w_at(c, h->q, l.i, k);
    cg_store_masked(c, cg_fma(c, v, minus, cg_load_masked(c, c->vf, at, mask)), at, mask);
  }
}

static void reflect(Cg *c, const Qr *q, V j, V tau) {
  Reflection h = {q, j, tau};
  cg_each_vector(c, next_to(c, j), q->n, reflect_vectors, &h);
}

// ---- R
static V largest_below(Cg *c, const Qr *q, V j) {
  V most = cg_i32(c, 0);
  for (Loop l = cg_carry(c, next_to(c, j), q->m, cg_i64(c, 1), &most, 1); cg_next(&l);) {
    V size = cg_magnitude(c, w_at(c, q, l.i, j));
    most = cg_select(c, cg_icmp(c, LLVMIntUGT, size, most), size, most);
  }
  return most;
}

// The length of column j from row j on, by elements that are divided by the largest one: no square overflows.
static V length(Cg *c, const Qr *q, V j, V largest) {
  V sum = cg_f32(c, 0);
  for (Loop l = cg_carry(c, j, q->m, cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V x = cg_fdiv(c, cg_load(c, c->f32, w_at(c, q, l.i, j)), largest);
    sum = cg_fma(c, x, x, sum);
  }
  return cg_fmul(c, largest, cg_primitive(c, OP_sqrt, &sum));
}

static void make_reflection(Cg *c, const Qr *q, V j) {
  V at = w_at(c, q, j, j), alpha = cg_load(c, c->f32, at), size = cg_magnitude(c, at), below = largest_below(c, q, j);
  V is_plain = cg_eq(c, below, cg_i32(c, 0));
  V largest = cg_select(c, cg_icmp(c, LLVMIntUGT, below, size), below, size), one = cg_f32(c, 1);
  largest = cg_select(c, is_plain, one, cg_bitcast(c, largest, c->f32));
  V minus = cg_fneg(c, alpha), signs[] = {length(c, q, j, largest), minus};
  V beta = cg_select(c, is_plain, alpha, cg_primitive(c, OP_copysign, signs));
  V tau = cg_fdiv(c, cg_fsub(c, beta, alpha), cg_select(c, is_plain, one, beta));
  V by = cg_select(c, is_plain, one, cg_fsub(c, alpha, beta));
  for (Loop l = cg_each(c, next_to(c, j), q->m); cg_next(&l);) {
    V x = w_at(c, q, l.i, j);
    cg_store(c, cg_fdiv(c, cg_load(c, c->f32, x), by), x);
  }
  tau = cg_select(c, is_plain, cg_f32(c, 0), tau);
  cg_store(c, beta, at);
  cg_store(c, tau, r_at(c, q, cg_i64(c, 0), j));
  reflect(c, q, j, tau);
}

// Rows of R but the first
static void store_rows(Cg *c, const Qr *q) {
  V one = cg_i64(c, 1);
  for (Loop rows = cg_each(c, one, q->n); cg_next(&rows);) {
    for (Loop l = cg_count(c, q->n); cg_next(&l);) {
      V is_above = cg_ge(c, l.i, rows.i);
      V x = cg_select(c, is_above, cg_load(c, c->f32, w_at(c, q, rows.i, l.i)), cg_f32(c, 0));
      cg_store(c, x, r_at(c, q, rows.i, l.i));
    }
  }
}

// ---- Q
static void make_column(Cg *c, const Qr *q, V j) {
  V zero = cg_i64(c, 0), first = r_at(c, q, zero, j), tau = cg_load(c, c->f32, first);
  V minus = cg_fneg(c, tau);
  cg_store(c, cg_load(c, c->f32, w_at(c, q, zero, j)), first);
  reflect(c, q, j, tau);
  for (Loop l = cg_each(c, next_to(c, j), q->m); cg_next(&l);) {
    V at = w_at(c, q, l.i, j);
    cg_store(c, cg_fmul(c, minus, cg_load(c, c->f32, at)), at);
  }
  cg_store(c, cg_fadd(c, cg_f32(c, 1), minus), w_at(c, q, j, j));
  for (Loop l = cg_count(c, j); cg_next(&l);) cg_store(c, cg_f32(c, 0), w_at(c, q, l.i, j));
}

// void(ptr w, ptr r, i64 m, i64 n): in place
static void make_qr(Cg *c, V fn, void *ctx) {
  (void)ctx;
  Qr q = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3)};
  V one = cg_i64(c, 1), last = cg_sub(c, q.n, one);
  for (Loop l = cg_count(c, q.n); cg_next(&l);) make_reflection(c, &q, l.i);
  store_rows(c, &q);
  for (Loop l = cg_count(c, q.n); cg_next(&l);) make_column(c, &q, cg_sub(c, last, l.i));
  LLVMBuildRetVoid(c->b);
}

int64_t cg_qr_scratch_bytes(const Fn *f, Val v, const Target *t) {
  if (cg_qr_takes_lanes(f, v, t)) return 0;
  return cg_unread_bytes(f, v) + cg_unread_bytes(f, ir_result(v, 1));
}

void cg_emit_qr(Cg *c, Val v) {
  if (cg_qr_takes_lanes(c->f, v, c->t)) {
    cg_emit_qr_by_lanes(c, v);
    return;
  }
  Shape s = ir_ins(c->f, v)->shape;
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), m = cg_matrix_size(c, s, 2), n = cg_matrix_size(c, s, 1);
  bool has_q = cg_stored(c, v), has_r = cg_stored(c, ir_result(v, 1));
  V of_q = has_q ? cg_ptr(c, v) : c->scratch, of_r = has_r ? cg_ptr(c, ir_result(v, 1)) : c->scratch;
  if (!has_q && !has_r) of_r = f32_at(c, c->scratch, cg_i64(c, cg_unread_bytes(c->f, v) / 4));
  V rows = cg_mul(c, m, n), square = cg_mul(c, n, n);
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, s), 1); cg_next(&l);) {
    V at = cg_mul(c, l.i, rows), q = f32_at(c, of_q, at);
    cg_copy_run(c, DT_F32, q, f32_at(c, a, at), rows);
    V arg[] = {q, f32_at(c, of_r, cg_mul(c, l.i, square)), m, n};
    cg_call_helper(c, "qr", arg, 4, make_qr, NULL);
  }
}
