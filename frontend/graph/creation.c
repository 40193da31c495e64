// Values that a program makes itself: filled, drawn, or given as numbers.
//
//   tn_constant(f, (float[]){1, 2, 3}, TN_SHAPE(tn_dim_const(3)))   ->   %v = concat of three constants : f32[3]
//   tn_constant(f, cosines, TN_SHAPE(tn_dim_const(1024)))           ->   %v = table {..} : f32[1024], ir/table.c
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/scan.h"
#include "frontend/tenure/ops.h"
#include "ir/build.h"

#include <string.h>

enum {
  MOST_SINGLE = 64,  // so many are instructions, which fold; more are a table (ir/table.c)
  MOST_NUMBERS = 1 << 26,
  MOST_WHOLE = 1 << 24,  // in size: up to here an f32 is exact
};

static tn_tensor generate(tn_function *f, Op op, tn_shape s, Attr a, Attr b, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  Shape shape;
  if (!fe_fn_open(f, at) || !fe_shape(f->p, s, &shape, at)) return fe_poison(f);
  Attr attrs[4] = {a, ir_a_list(KEY_shape, shape), b, {0}};
  if (op != OP_full) attrs[3] = ir_a_int(KEY_id, fe_stream(f, at));
  return fe_made(fe_emit_in(f, op, attrs, op == OP_full ? 2 : 4, at), at);
}

tn_tensor tn_full(tn_function *f, double v, tn_shape s, tn_site at) {
  return generate(f, OP_full, s, ir_a_num(KEY_value, v), (Attr){0}, at);
}

tn_tensor tn_zeros(tn_function *f, tn_shape s, tn_site at) { return tn_full(f, 0, s, at); }
tn_tensor tn_ones(tn_function *f, tn_shape s, tn_site at) { return tn_full(f, 1, s, at); }

tn_tensor tn_rand(tn_function *f, tn_shape s, tn_site at) {
  return generate(f, OP_uniform, s, ir_a_num(KEY_lo, 0), ir_a_num(KEY_hi, 1), at);
}

tn_tensor tn_randn(tn_function *f, tn_shape s, tn_site at) {
  return generate(f, OP_normal, s, ir_a_num(KEY_mean, 0), ir_a_num(KEY_std, 1), at);
}

static tn_tensor table(tn_function *f, DType t, const void *v, Shape s, tn_site at) {
  return (tn_tensor){f, ir_table(f->ir, t, s, v, fe_loc(f->p, at)).i};
}

static tn_tensor numbers(tn_function *f, const float *v, uint32_t n, Shape s, tn_site at) {
  Dim one = ir_dim(f->p->ir, 1);
  bool equal = true;  // in bits: 0 is not -0
  for (uint32_t k = 1; k < n; k++) equal &= !memcmp(&v[k], &v[0], sizeof *v);
  if (equal) {
    Attr attrs[] = {ir_a_num(KEY_value, n ? (double)v[0] : 0), ir_a_list(KEY_shape, s)};
    return fe_emit_in(f, OP_full, attrs, 2, at);
  }
  if (n > MOST_SINGLE) return table(f, DT_F32, v, s, at);
  tn_tensor *parts = rt_alloc(f->p->mem, (n + 1) * sizeof *parts);
  for (uint32_t k = 0; k < n; k++) parts[k] = fe_reshape(fe_const(f, (double)v[k], at), &one, 1, at);
  tn_tensor t = fe_concat(parts, n, 0, at);
  Attr shape = ir_a_list(KEY_shape, s);
  return fe_shape_of(t).i == s.i ? t : fe_emit(OP_reshape, &t, 1, &shape, 1, at);
}

static bool check_numbers(tn_function *f, const void *v, tn_shape s, Shape *shape, uint32_t *n, tn_site at) {
  if (!fe_fn_open(f, at) || !fe_shape(f->p, s, shape, at)) return false;
  int64_t count = ir_shape_bound(f->p->ir, *shape);
  *n = (uint32_t)count;
  if (ir_shape_is_const(f->p->ir, *shape) && count <= MOST_NUMBERS && (v || !count)) return true;
  if (!v && count) fe_error(f->p, E_ARGUMENT, at, "no numbers are given");
  else
    fe_error(f->p, E_ARGUMENT, at, "numbers of a program have a constant shape of at most %d elements", MOST_NUMBERS);
  fe_hint(f->p, "larger or variable ones are inputs (tn_input) or buffers of a module (tn_buffer, tn_set)");
  return false;
}

static int64_t whole_at(DType t, const void *v, uint32_t k) {
  if (t == DT_I64) return ((const int64_t *)v)[k];
  if (t == DT_I32) return ((const int32_t *)v)[k];
  return ((const uint8_t *)v)[k];
}

static const uint8_t *as_bools(RtArena *mem, const uint8_t *v, uint32_t n) {
  uint8_t *is_set = rt_alloc(mem, n + 1);
  for (uint32_t k = 0; k < n; k++) is_set[k] = v[k] != 0;
  return is_set;
}

// Few whole numbers are f32 that are cast, which folds.
static tn_tensor whole_numbers(tn_function *f, DType t, const void *v, uint32_t n, Shape s, tn_site at) {
  float *exact = rt_alloc(f->p->mem, (n + 1) * sizeof *exact);
  for (uint32_t k = 0; k < n; k++) {
    int64_t x = n > MOST_SINGLE ? MOST_WHOLE + 1 : whole_at(t, v, k);
    if (x > MOST_WHOLE || x < -MOST_WHOLE) return table(f, t, v, s, at);
    exact[k] = (float)x;
  }
  return fe_cast(numbers(f, exact, n, s, at), t, at);
}

static tn_tensor constant(tn_function *f, DType t, const void *v, tn_shape s, tn_site at) {
  Shape shape;
  uint32_t n;
  if (!check_numbers(f, v, s, &shape, &n, at)) return fe_poison(f);
  if (t == DT_BOOL) v = as_bools(f->p->mem, v, n);
  if (t == DT_F32) return fe_made(numbers(f, v, n, shape, at), at);
  return fe_made(COUNTABLE >> t & 1 ? whole_numbers(f, t, v, n, shape, at) : table(f, t, v, shape, at), at);
}

tn_tensor tn_constant(tn_function *f, const float *v, tn_shape s, tn_site at) {
  return tn_constant_of(f, TN_F32, v, s, at);
}

tn_tensor tn_constant_i64(tn_function *f, const int64_t *v, tn_shape s, tn_site at) {
  return tn_constant_of(f, TN_I64, v, s, at);
}

tn_tensor tn_constant_of(tn_function *f, tn_dtype t, const void *v, tn_shape s, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_dtype(t)) return constant(f, fe_dtype(t), v, s, at);
  fe_error(f->p, E_DTYPE, at, "a constant needs a dtype: TN_F32, TN_I64, ..");
  return fe_poison(f);
}
