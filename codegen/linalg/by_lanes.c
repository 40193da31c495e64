// Values alone of many small matrices: a lane each, which is reduced as in tridiagonal.c and bidiagonal.c, element by element.
//
// Element (i, j) of vl matrices is a vector at (i n + j) vl of the worker's block. Lanes without a matrix have zeros.
#include "codegen/linalg/values.h"
#include "codegen/math/primitives.h"

#include <math.h>

enum { MOST_ELEMENTS = 256, LEAST_MATRICES = 8 };

typedef struct {
  V at, n_rows, n;
  V u, q;  // blocks of n vectors
  V diagonal, beside, values;
  V first, mask;  // of the lanes' matrices
} Lanes;

bool cg_by_lanes(const Fn *f, Val a) {
  const Prog *p = f->prog;
  Shape s = ir_ins(f, a)->shape;
  uint32_t r = ir_rank(p, s);
  return cg_axis_bound(p, s, r - 2, r) <= MOST_ELEMENTS && cg_axis_bound(p, s, 0, r - 2) >= LEAST_MATRICES;
}

// ---- vectors of lanes
static V at(Cg *c, V block, V i) { return f32_at(c, block, cg_mul(c, i, cg_vl(c))); }
static V get(Cg *c, V block, V i) { return cg_load(c, c->vf, at(c, block, i)); }
static void put(Cg *c, V x, V block, V i) { cg_store(c, x, at(c, block, i)); }
static V place(Cg *c, const Lanes *m, V i, V j) { return cg_index(c, i, m->n, j); }
static V element(Cg *c, const Lanes *m, V i, V j) { return get(c, m->at, place(c, m, i, j)); }
static void set(Cg *c, const Lanes *m, V x, V i, V j) { put(c, x, m->at, place(c, m, i, j)); }
static V splat(Cg *c, double x) { return cg_splat(c, cg_f32(c, x)); }

// ---- filling
static V power_of_two(Cg *c, V bits) {
  return cg_bitcast(c, cg_and(c, bits, cg_splat(c, cg_i32(c, 0x7f800000))), c->vf);
}

static V scale_of(Cg *c, V bits) {
  V is_small = cg_icmp(c, LLVMIntULT, bits, cg_splat(c, cg_i32(c, 0x00800000)));
  V is_zero = cg_eq(c, bits, cg_splat(c, cg_i32(c, 0)));
  V is_wild = cg_icmp(c, LLVMIntUGE, bits, cg_splat(c, cg_i32(c, 0x7f800000)));
  V scale = cg_select(c, is_small, splat(c, 0x1p-126), power_of_two(c, bits));
  return cg_select(c, is_zero, splat(c, 1), cg_select(c, is_wild, splat(c, NAN), scale));
}

static void fill(Cg *c, const Lanes *m, V from, bool is_symmetric, V scales[2]) {
  V lanes = cg_lane_offsets(c, m->first, cg_mul(c, m->n_rows, m->n)), most = cg_splat(c, cg_i32(c, 0)),
    one = cg_i64(c, 1);
  for (Loop i = cg_carry(c, cg_i64(c, 0), m->n_rows, one, &most, 1); cg_next(&i);)
    for (Loop j = cg_carry(c, cg_i64(c, 0), m->n, one, &most, 1); cg_next(&j);) {
      V k = is_symmetric ? place(c, m, cg_max(c, i.i, j.i), cg_min(c, i.i, j.i)) : place(c, m, i.i, j.i);
      V x = cg_gather(c, c->f32, from, cg_iadd(c, lanes, cg_splat(c, k)), m->mask);
      V bits = cg_and(c, cg_bitcast(c, x, c->vi32), cg_splat(c, cg_i32(c, 0x7fffffff)));
      set(c, m, x, i.i, j.i);
      most = cg_select(c, cg_icmp(c, LLVMIntUGT, bits, most), bits, most);
    }
  scales[0] = scale_of(c, most), scales[1] = cg_splat(c, cg_norm_above(c, m->n_rows, m->n));
  V down = cg_fdiv(c, splat(c, 1), scales[1]);
  for (Loop k = cg_count(c, cg_mul(c, m->n_rows, m->n)); cg_next(&k);)
    put(c, cg_fmul(c, cg_fdiv(c, get(c, m->at, k.i), scales[0]), down), m->at, k.i);
}

// ---- reflections: of the elements [from, to) of a block, to the one at `first`
static V dot(Cg *c, V a, V b, V from, V to) {
  V sum = cg_zeros(c);
  for (Loop l = cg_carry(c, from, to, cg_i64(c, 1), &sum, 1); cg_next(&l);)
    sum = cg_fma(c, get(c, a, l.i), get(c, b, l.i), sum);
  return sum;
}

static CgReflection reflection(Cg *c, V u, V from, V to, V first) {
  return cg_reflection_of(c, at(c, u, first), get(c, u, first), dot(c, u, u, from, to));
}

static void tridiagonal(Cg *c, const Lanes *m) {
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), last = cg_sub(c, m->n, one);
  for (Loop l = cg_each(c, zero, last); cg_next(&l);) {
    V i = cg_sub(c, last, l.i), u = at(c, m->at, cg_mul(c, i, m->n));
    put(c, get(c, u, i), m->diagonal, i);
    CgReflection h = reflection(c, u, zero, i, cg_sub(c, i, one));
    put(c, h.norm2, m->beside, cg_sub(c, i, one));
    for (Loop j = cg_count(c, i); cg_next(&j);)
      put(c, cg_fmul(c, h.inverse, dot(c, u, at(c, m->at, cg_mul(c, j.i, m->n)), zero, i)), m->q, j.i);
    V minus = cg_fmul(c, cg_fmul(c, splat(c, -0.5), h.inverse), dot(c, u, m->q, zero, i));
    for (Loop j = cg_count(c, i); cg_next(&j);) put(c, cg_fma(c, minus, get(c, u, j.i), get(c, m->q, j.i)), m->q, j.i);
    for (Loop j = cg_count(c, i); cg_next(&j);) {
      V minus_u = cg_fneg(c, get(c, u, j.i)), minus_q = cg_fneg(c, get(c, m->q, j.i));
      for (Loop k = cg_count(c, i); cg_next(&k);) {
        V x = cg_fma(c, minus_q, get(c, u, k.i), element(c, m, j.i, k.i));
        set(c, m, cg_fma(c, minus_u, get(c, m->q, k.i), x), j.i, k.i);
      }
    }
  }
  for (If some = cg_when(c, cg_lt(c, zero, m->n)); cg_then(&some);) {
    put(c, element(c, m, zero, zero), m->diagonal, zero);
    put(c, cg_zeros(c), m->beside, last);
  }
}

// Rows below row k lose (A v) v^T / h.
static void reflect_columns(Cg *c, const Lanes *m, V k, V v, V inverse) {
  for (Loop i = cg_each(c, next_to(c, k), m->n_rows); cg_next(&i);) {
    V row = at(c, m->at, cg_mul(c, i.i, m->n)), minus = cg_fneg(c, cg_fmul(c, inverse, dot(c, v, row, k, m->n)));
    for (Loop j = cg_each(c, k, m->n); cg_next(&j);)
      put(c, cg_fma(c, minus, get(c, v, j.i), get(c, row, j.i)), row, j.i);
  }
}

// Column k below its diagonal to its first element; the columns behind lose what the reflection takes.
static void reflect_rows(Cg *c, const Lanes *m, V k) {
  V below = next_to(c, k), one = cg_i64(c, 1);
  for (Loop i = cg_each(c, below, m->n_rows); cg_next(&i);) put(c, element(c, m, i.i, k), m->u, i.i);
  CgReflection h = reflection(c, m->u, below, m->n_rows, below);
  put(c, h.norm2, m->beside, k);
  for (Loop j = cg_each(c, below, m->n); cg_next(&j);) {
    V sum = cg_zeros(c);
    for (Loop i = cg_carry(c, below, m->n_rows, one, &sum, 1); cg_next(&i);)
      sum = cg_fma(c, get(c, m->u, i.i), element(c, m, i.i, j.i), sum);
    V minus = cg_fneg(c, cg_fmul(c, h.inverse, sum));
    for (Loop i = cg_each(c, below, m->n_rows); cg_next(&i);)
      set(c, m, cg_fma(c, minus, get(c, m->u, i.i), element(c, m, i.i, j.i)), i.i, j.i);
  }
}

static void bidiagonal(Cg *c, const Lanes *m) {
  for (Loop l = cg_count(c, m->n_rows); cg_next(&l);) {
    V k = l.i, v = at(c, m->at, cg_mul(c, k, m->n));
    CgReflection h = reflection(c, v, k, m->n, k);
    put(c, h.norm2, m->diagonal, k);
    put(c, cg_zeros(c), m->beside, k);
    reflect_columns(c, m, k, v, h.inverse);
    for (If more = cg_when(c, cg_lt(c, next_to(c, k), m->n_rows)); cg_then(&more);) reflect_rows(c, m, k);
  }
}

// ---- the op
static Lanes lanes_of(Cg *c, Val a, V rows, V n) {
  const Prog *p = c->f->prog;
  Shape s = ir_ins(c->f, a)->shape;
  uint32_t r = ir_rank(p, s);
  int64_t vl = c->t->vl, most = cg_larger(1, ir_dim_bound(p, ir_dim_at(p, s, r - 1)));
  V block[6];
  for (int k = 0; k < 6; k++) block[k] = cg_block(c, c->f32, (k ? most : cg_axis_bound(p, s, r - 2, r)) * vl);
  return (Lanes){block[0], rows, n, block[1], block[2], block[3], block[4], block[5], NULL, NULL};
}

void cg_emit_values_by_lanes(Cg *c, const CgValuesOp *op) {
  Lanes m = lanes_of(c, op->a, op->rows, op->n);
  V vl = cg_vl(c), zero = cg_i64(c, 0);
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, op->n_matrices, c->t->vl), 1); cg_next(&l);) {
    V scales[2];
    m.first = cg_mul(c, l.i, vl), m.mask = cg_mask(c, cg_sub(c, op->n_matrices, m.first));
    fill(c, &m, op->from, !op->is_singular, scales);
    if (op->is_singular) bidiagonal(c, &m);
    else tridiagonal(c, &m);
    CgBisect values = {m.diagonal, m.beside, m.values, op->rows, op->is_singular, .by_lanes = true};
    cg_bisect(c, &values);
    V lanes = cg_lane_offsets(c, m.first, op->rows);
    for (Loop k = cg_each(c, zero, op->rows); cg_next(&k);) {
      V x = cg_fmul(c, cg_fmul(c, get(c, m.values, k.i), scales[1]), scales[0]);
      cg_scatter(c, x, op->out, cg_iadd(c, lanes, cg_splat(c, k.i)), m.mask);
    }
  }
}
