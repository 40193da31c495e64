// Matrices whose rows are spread to whole vectors, and the reflections that work on them.
#include "codegen/linalg/values.h"
#include "codegen/math/primitives.h"

#include <math.h>

#define LEAST_NORM2 0x1p-120  // vectors shorter than its root count as 0: their squares lose digits

// ---- storage
int64_t cg_spread_bytes(const Fn *f, Val a, const Target *t) {
  const Prog *p = f->prog;
  Shape s = ir_ins(f, a)->shape;
  uint32_t r = ir_rank(p, s);
  int64_t rows = ir_dim_bound(p, ir_dim_at(p, s, r - 2)), n = ir_dim_bound(p, ir_dim_at(p, s, r - 1));
  int64_t matrices = cg_axis_bound(p, s, 0, r - 2);
  return cg_larger(4, 4 * matrices * (rows + ROWS_BEHIND) * cg_round_up(n, t->vl));
}

CgSpread cg_spread_of(Cg *c, V matrix, V n_rows, V n) {
  V ld = cg_mul(c, cg_ceil_div_value(c, n, c->t->vl), cg_vl(c));
  V each = cg_mul(c, cg_add(c, n_rows, cg_i64(c, ROWS_BEHIND)), ld);
  return (CgSpread){f32_at(c, c->scratch, cg_mul(c, matrix, each)), n_rows, n, ld};
}

// ---- filling
static V magnitudes(Cg *c, V at, V mask) {
  V bits = cg_bitcast(c, cg_load_masked(c, c->vf, at, mask), c->vi32);
  return cg_and(c, bits, cg_splat(c, cg_i32(c, 0x7fffffff)));
}

static V larger_bits(Cg *c, V a, V b) { return cg_select(c, cg_icmp(c, LLVMIntUGT, a, b), a, b); }

// Of the n elements at `at`, together with `most`
static V largest_bits(Cg *c, V at, V n, V most) {
  V vl = cg_vl(c), whole = cg_multiple(c, n, vl), all = cg_mask(c, vl);
  for (Loop l = cg_carry(c, cg_i64(c, 0), whole, vl, &most, 1); cg_next(&l);)
    most = larger_bits(c, magnitudes(c, f32_at(c, at, l.i), all), most);
  return larger_bits(c, magnitudes(c, f32_at(c, at, whole), cg_mask(c, cg_sub(c, n, whole))), most);
}

static V power_of_two(Cg *c, V bits) { return cg_bitcast(c, cg_and(c, bits, cg_i32(c, 0x7f800000)), c->f32); }

// The power of two of the largest element: 1 of 0, NaN of what is not finite
static V scale_of(Cg *c, V lanes) {
  V bits = cg_call_intrinsic(c, "llvm.vector.reduce.umax", &c->vi32, 1, &lanes, 1);
  V is_small = cg_icmp(c, LLVMIntULT, bits, cg_i32(c, 0x00800000));
  V is_zero = cg_eq(c, bits, cg_i32(c, 0)), is_wild = cg_icmp(c, LLVMIntUGE, bits, cg_i32(c, 0x7f800000));
  V scale = cg_select(c, is_small, cg_f32(c, 0x1p-126), power_of_two(c, bits));
  return cg_select(c, is_zero, cg_f32(c, 1), cg_select(c, is_wild, cg_f32(c, NAN), scale));
}

V cg_norm_above(Cg *c, V n_rows, V n) {
  V elements = cg_sitofp(c, cg_mul(c, n_rows, n), c->f32);
  V root = cg_primitive(c, OP_sqrt, &elements);
  return power_of_two(c, cg_bitcast(c, cg_fmul(c, root, cg_f32(c, 4)), c->i32));
}

static void fill_row(Cg *c, V to, V from, V n, V ld, V scales[2]) {
  V by = cg_splat(c, scales[0]), down = cg_splat(c, cg_fdiv(c, cg_f32(c, 1), scales[1]));
  for (Loop l = cg_count_by(c, ld, cg_vl(c)); cg_next(&l);) {
    V x = cg_load_masked(c, c->vf, f32_at(c, from, l.i), cg_mask(c, cg_sub(c, n, l.i)));
    cg_store(c, cg_fmul(c, cg_fdiv(c, x, by), down), f32_at(c, to, l.i));
  }
}

static void mirror(Cg *c, const CgSpread *m) {
  for (Loop i = cg_count(c, m->n_rows); cg_next(&i);)
    for (Loop j = cg_count(c, i.i); cg_next(&j);) {
      V x = cg_get(c, c->f32, cg_spread_row(c, m, i.i), j.i);
      cg_put(c, x, cg_spread_row(c, m, j.i), i.i);
    }
}

typedef struct {
  bool is_symmetric;
} Fill;

// void(ptr to, ptr from, ptr scales, i64 rows, i64 n, i64 ld)
static void make_fill(Cg *c, V fn, void *ctx) {
  const Fill *fill = ctx;
  CgSpread m = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 3), LLVMGetParam(fn, 4), LLVMGetParam(fn, 5)};
  V from = LLVMGetParam(fn, 1), to = LLVMGetParam(fn, 2), one = cg_i64(c, 1), most = cg_splat(c, cg_i32(c, 0));
  for (Loop i = cg_carry(c, cg_i64(c, 0), m.n_rows, one, &most, 1); cg_next(&i);)
    most = largest_bits(c, f32_at(c, from, cg_mul(c, i.i, m.n)), fill->is_symmetric ? next_to(c, i.i) : m.n, most);
  V scales[] = {scale_of(c, most), cg_norm_above(c, m.n_rows, m.n)};
  for (Loop i = cg_count(c, m.n_rows); cg_next(&i);) {
    V n = fill->is_symmetric ? next_to(c, i.i) : m.n;
    fill_row(c, cg_spread_row(c, &m, i.i), f32_at(c, from, cg_mul(c, i.i, m.n)), n, m.ld, scales);
  }
  for (Loop l = cg_count_by(c, cg_mul(c, m.ld, cg_i64(c, ROWS_BEHIND)), cg_vl(c)); cg_next(&l);)
    cg_store(c, cg_zeros(c), f32_at(c, cg_spread_behind(c, &m, 0), l.i));
  if (fill->is_symmetric) mirror(c, &m);
  for (int k = 0; k < 2; k++) cg_store(c, scales[k], f32_at(c, to, cg_i64(c, k)));
  LLVMBuildRetVoid(c->b);
}

void cg_spread_fill(Cg *c, const CgSpread *m, V from, bool is_symmetric, V scales[2]) {
  Fill fill = {is_symmetric};
  V to = cg_block(c, c->f32, 2), arg[] = {m->at, from, to, m->n_rows, m->n, m->ld};
  cg_call_helper(c, is_symmetric ? "spread.symmetric" : "spread", arg, 6, make_fill, &fill);
  for (int k = 0; k < 2; k++) scales[k] = cg_get(c, c->f32, to, cg_i64(c, k));
}

// ---- reflections
V cg_whole_dot(Cg *c, V a, V b, V from, V to) {
  V sum = cg_zeros(c);
  for (Loop l = cg_carry(c, from, to, cg_vl(c), &sum, 1); cg_next(&l);) {
    V x = cg_load(c, c->vf, f32_at(c, a, l.i));
    sum = cg_fma(c, x, cg_load(c, c->vf, f32_at(c, b, l.i)), sum);
  }
  return cg_reduce_add(c, sum);
}

CgReflection cg_reflection_of(Cg *c, V pivot, V x, V norm2) {
  LLVMTypeRef type = LLVMTypeOf(x);
  V zero = cg_number(c, DT_F32, type, 0), one = cg_number(c, DT_F32, type, 1),
    least = cg_number(c, DT_F32, type, LEAST_NORM2);
  V is_zero = cg_fcmp(c, LLVMRealOGT, least, norm2), norm = cg_primitive(c, OP_sqrt, &norm2), with_sign[] = {norm, x};
  V h = cg_fma(c, norm, cg_primitive(c, OP_abs, &x), norm2);
  cg_store(c, cg_fadd(c, x, cg_primitive(c, OP_copysign, with_sign)), pivot);
  return (CgReflection){cg_select(c, is_zero, zero, norm2), cg_select(c, is_zero, zero, cg_fdiv(c, one, h))};
}

V cg_root_of(Cg *c, V norm2, V u) {
  V with_sign[] = {cg_primitive(c, OP_sqrt, &norm2), cg_fneg(c, u)};
  return cg_primitive(c, OP_copysign, with_sign);
}

CgReflection cg_reflection(Cg *c, V at, V from, V to, V first) {
  V pivot = f32_at(c, at, first), norm2 = cg_whole_dot(c, at, at, from, to);
  return cg_reflection_of(c, pivot, cg_load(c, c->f32, pivot), norm2);
}
