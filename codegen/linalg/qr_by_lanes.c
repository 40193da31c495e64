// qr of many small matrices: a lane each; by the steps of qr.c element by element, so the same bits. Q is made where it is read.
//
// Element (i, j) of vl matrices is a vector at (i n + j) vl of the worker's block. Matrices come and go by transposes; lanes without one
// have zeros.
#include "codegen/linalg/linalg.h"
#include "codegen/math/primitives.h"

enum { MOST_ELEMENTS = 1024, LEAST_MATRICES = 8, GROUP = 4 };  // GROUP: columns that a reflection changes together

typedef struct {
  V at, tau, m, n;  // tau: n vectors
} Lanes;

static int64_t block_vectors(const Target *t, int64_t elements) { return cg_round_up(cg_larger(elements, 1), t->vl); }

bool cg_qr_takes_lanes(const Fn *f, Val v, const Target *t) {
  const Prog *p = f->prog;
  Shape s = ir_ins(f, v)->shape;
  uint32_t r = ir_rank(p, s);
  int64_t elements = cg_axis_bound(p, s, r - 2, r);
  bool fits = elements <= MOST_ELEMENTS && block_vectors(t, elements) * t->vl * 4 <= t->stack_bytes / 4;
  return fits && cg_axis_bound(p, s, 0, r - 2) >= LEAST_MATRICES;
}

static V vector_at(Cg *c, V block, V i) { return f32_at(c, block, cg_mul(c, i, cg_vl(c))); }
static V place(Cg *c, const Lanes *m, V i, V j) { return vector_at(c, m->at, cg_index(c, i, m->n, j)); }
static V element(Cg *c, const Lanes *m, V i, V j) { return cg_load(c, c->vf, place(c, m, i, j)); }
static V splat(Cg *c, double x) { return cg_splat(c, cg_f32(c, x)); }
static V magnitude(Cg *c, V x) { return cg_and(c, cg_bitcast(c, x, c->vi32), cg_splat(c, cg_i32(c, 0x7fffffff))); }

// ---- a reflection, of the columns behind it
static void reflect(Cg *c, const Lanes *m, V j, V tau, V k, uint32_t width) {
  V first[GROUP], sum[GROUP], minus[GROUP], column[GROUP], one = cg_i64(c, 1);
  for (uint32_t q = 0; q < width; q++) {
    column[q] = cg_add(c, k, cg_i64(c, q));
    first[q] = sum[q] = element(c, m, j, column[q]);
  }
  for (Loop i = cg_carry(c, next_to(c, j), m->m, one, sum, width); cg_next(&i);) {
    V v = element(c, m, i.i, j);
    for (uint32_t q = 0; q < width; q++) sum[q] = cg_fma(c, v, element(c, m, i.i, column[q]), sum[q]);
  }
  for (uint32_t q = 0; q < width; q++) {
    minus[q] = cg_fmul(c, cg_fneg(c, tau), sum[q]);
    cg_store(c, cg_fadd(c, first[q], minus[q]), place(c, m, j, column[q]));
  }
  for (Loop i = cg_each(c, next_to(c, j), m->m); cg_next(&i);) {
    V v = element(c, m, i.i, j);
    for (uint32_t q = 0; q < width; q++) {
      V at = place(c, m, i.i, column[q]);
      cg_store(c, cg_fma(c, v, minus[q], cg_load(c, c->vf, at)), at);
    }
  }
}

static void reflect_behind(Cg *c, const Lanes *m, V j, V tau) {
  V whole;
  for (Loop k = cg_each_whole(c, next_to(c, j), m->n, GROUP, &whole); cg_next(&k);) reflect(c, m, j, tau, k.i, GROUP);
  for (Loop k = cg_each(c, whole, m->n); cg_next(&k);) reflect(c, m, j, tau, k.i, 1);
}

// ---- R
static V largest_below(Cg *c, const Lanes *m, V j) {
  V most = cg_splat(c, cg_i32(c, 0));
  for (Loop i = cg_carry(c, next_to(c, j), m->m, cg_i64(c, 1), &most, 1); cg_next(&i);) {
    V size = magnitude(c, element(c, m, i.i, j));
    most = cg_select(c, cg_icmp(c, LLVMIntUGT, size, most), size, most);
  }
  return most;
}

static V length(Cg *c, const Lanes *m, V j, V largest) {
  V sum = cg_zeros(c);
  for (Loop i = cg_carry(c, j, m->m, cg_i64(c, 1), &sum, 1); cg_next(&i);) {
    V x = cg_fdiv(c, element(c, m, i.i, j), largest);
    sum = cg_fma(c, x, x, sum);
  }
  return cg_fmul(c, largest, cg_primitive(c, OP_sqrt, &sum));
}

static void make_reflection(Cg *c, const Lanes *m, V j) {
  V alpha = element(c, m, j, j), size = magnitude(c, alpha), below = largest_below(c, m, j), one = splat(c, 1);
  V is_plain = cg_eq(c, below, cg_splat(c, cg_i32(c, 0)));
  V largest = cg_select(c, cg_icmp(c, LLVMIntUGT, below, size), below, size);
  largest = cg_select(c, is_plain, one, cg_bitcast(c, largest, c->vf));
  V signs[] = {length(c, m, j, largest), cg_fneg(c, alpha)};
  V beta = cg_select(c, is_plain, alpha, cg_primitive(c, OP_copysign, signs));
  V tau = cg_fdiv(c, cg_fsub(c, beta, alpha), cg_select(c, is_plain, one, beta));
  V by = cg_select(c, is_plain, one, cg_fsub(c, alpha, beta));
  for (Loop i = cg_each(c, next_to(c, j), m->m); cg_next(&i);)
    cg_store(c, cg_fdiv(c, element(c, m, i.i, j), by), place(c, m, i.i, j));
  tau = cg_select(c, is_plain, cg_zeros(c), tau);
  cg_store(c, beta, place(c, m, j, j));
  cg_store(c, tau, vector_at(c, m->tau, j));
  reflect_behind(c, m, j, tau);
}

static void copy_upper(Cg *c, const Lanes *m, V to) {
  for (Loop i = cg_count(c, m->n); cg_next(&i);)
    for (Loop j = cg_count(c, m->n); cg_next(&j);) {
      V is_above = cg_splat(c, cg_ge(c, j.i, i.i));
      V x = cg_select(c, is_above, element(c, m, i.i, j.i), cg_zeros(c));
      cg_store(c, x, vector_at(c, to, cg_index(c, i.i, m->n, j.i)));
    }
}

// ---- Q
static void make_column(Cg *c, const Lanes *m, V j) {
  V tau = cg_load(c, c->vf, vector_at(c, m->tau, j)), minus = cg_fneg(c, tau);
  reflect_behind(c, m, j, tau);
  for (Loop i = cg_each(c, next_to(c, j), m->m); cg_next(&i);)
    cg_store(c, cg_fmul(c, minus, element(c, m, i.i, j)), place(c, m, i.i, j));
  cg_store(c, cg_fadd(c, splat(c, 1), minus), place(c, m, j, j));
  for (Loop i = cg_count(c, j); cg_next(&i);) cg_store(c, cg_zeros(c), place(c, m, i.i, j));
}

// ---- the op
static void load(Cg *c, V from, V each, V n_lanes, V block) {
  V vl = cg_vl(c);
  for (Loop k = cg_count_by(c, each, vl); cg_next(&k);) {
    V left = cg_min(c, cg_sub(c, each, k.i), vl);
    cg_transpose_block(c, f32_at(c, from, k.i), each, n_lanes, left, vector_at(c, block, k.i), vl);
  }
}

static void store(Cg *c, V block, V each, V first, V n_lanes, Val to) {
  V at = f32_at(c, cg_ptr(c, to), cg_mul(c, first, each));
  cg_store_transposed(c, block, cg_vl(c), each, n_lanes, at, each);
}

void cg_emit_qr_by_lanes(Cg *c, Val v) {
  Shape s = ir_ins(c->f, v)->shape, square = ir_ins(c->f, ir_result(v, 1))->shape;
  const Prog *p = c->f->prog;
  uint32_t rank = ir_rank(p, s);
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), m = cg_matrix_size(c, s, 2), n = cg_matrix_size(c, s, 1);
  V matrices = cg_n_matrices(c, s), vl = cg_vl(c), of_a = cg_mul(c, m, n), of_r = cg_mul(c, n, n);
  bool has_q = cg_stored(c, v), has_r = cg_stored(c, ir_result(v, 1));
  int64_t lanes = c->t->vl;
  V block = cg_block(c, c->f32, block_vectors(c->t, cg_axis_bound(p, s, rank - 2, rank)) * lanes), r = NULL;
  V tau = cg_block(c, c->f32, cg_larger(1, cg_axis_bound(p, s, rank - 1, rank)) * lanes);
  if (has_r) r = cg_block(c, c->f32, block_vectors(c->t, cg_axis_bound(p, square, rank - 2, rank)) * lanes);
  Lanes x = {block, tau, m, n};
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, matrices, lanes), 1); cg_next(&l);) {
    V first = cg_mul(c, l.i, vl), n_lanes = cg_min(c, cg_sub(c, matrices, first), vl);
    load(c, f32_at(c, a, cg_mul(c, first, of_a)), of_a, n_lanes, block);
    for (Loop j = cg_count(c, n); cg_next(&j);) make_reflection(c, &x, j.i);
    if (has_r) copy_upper(c, &x, r), store(c, r, of_r, first, n_lanes, ir_result(v, 1));
    if (!has_q) continue;
    V last = cg_sub(c, n, cg_i64(c, 1));
    for (Loop j = cg_count(c, n); cg_next(&j);) make_column(c, &x, cg_sub(c, last, j.i));
    store(c, block, of_a, first, n_lanes, v);
  }
}
