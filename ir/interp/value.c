// Values at run time, as every op of the interpreter reads and makes them: sizes, strides, results, rounding.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"
#include "runtime/format.h"
#include "runtime/half.h"

#include <math.h>
#include <string.h>

bool run_fail(Run *r, Val v, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  rt_vformat(text, sizeof text, fmt, ap);
  va_end(ap);
  rt_text_add(r->why, "%s: %s", ir_ops[ir_ins(r->f, v)->op].name, text);
  return false;
}

Tensor run_result(Run *r, Val v, uint32_t k) {
  Val res = ir_result(v, k);
  int64_t n = ir_shape_eval(r->f->prog, ir_ins(r->f, res)->shape, r->env->slots);
  r->val[res.i] = (Tensor){.v = rt_alloc(r->env->mem, (size_t)n * sizeof(double)), .n = n};
  return r->val[res.i];
}

Sizes run_sizes(const Run *r, Val v) {
  const Prog *p = r->f->prog;
  Shape shape = ir_ins(r->f, v)->shape;
  Sizes s = {ir_rank(p, shape), {0}};
  for (uint32_t k = 0; k < s.rank; k++) s.dim[k] = ir_dim_eval(p, ir_dim_at(p, shape, k), r->env->slots);
  return s;
}

Sizes run_arg_sizes(const Run *r, Val v, uint32_t k) { return run_sizes(r, ir_arg(r->f, v, k)); }

int64_t run_cols(const Sizes *s) { return s->rank ? s->dim[s->rank - 1] : 1; }

int64_t run_offset(const Sizes *s, const int64_t *stride, int64_t flat) {
  int64_t off = 0;
  for (uint32_t k = s->rank; k-- > 0; flat /= s->dim[k]) off += flat % s->dim[k] * stride[k];
  return off;
}

void run_strides(const Sizes *s, int64_t *stride) {
  int64_t step = 1;
  for (uint32_t k = s->rank; k-- > 0; step *= s->dim[k]) stride[k] = step;
}

void run_broadcast(const Sizes *from, const Sizes *to, int64_t *stride) {
  int64_t own[MAX_RANK];
  run_strides(from, own);
  for (uint32_t k = 0; k < to->rank; k++) stride[k] = 0;
  uint32_t lead = to->rank - from->rank;
  for (uint32_t k = 0; k < from->rank; k++)
    if (from->dim[k] != 1) stride[lead + k] = own[k];
}

RunOperands run_operands(const Run *r, Val v) {
  RunOperands o = {.to = run_sizes(r, v)};
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) {
    Sizes from = run_arg_sizes(r, v, k);
    o.arg[k] = run_arg(r, v, k);
    run_broadcast(&from, &o.to, o.stride[k]);
  }
  return o;
}

// ---- what a number becomes when it is stored
typedef double Convert(double x);
static double to_f32(double x) { return x; }  // kept in doubles: interp.c
static double to_i64(double x) { return (double)ir_to_i64(x); }
static double to_i32(double x) { return isnan(x) ? 0 : trunc(fmin(fmax(x, INT32_MIN), INT32_MAX)); }
static double to_u8(double x) { return isnan(x) ? 0 : trunc(fmin(fmax(x, 0), UINT8_MAX)); }
static double to_bool(double x) { return x != 0; }
static double to_f16(double x) { return (double)rt_f32_of_f16(rt_f16_of_f32((float)x)); }
static double to_bf16(double x) { return (double)rt_f32_of_bf16(rt_bf16_of_f32((float)x)); }

_Static_assert(N_DTYPES == 9, "a new dtype needs a row here");
static Convert *const converts[N_DTYPES] = {[DT_F32] = to_f32,   [DT_I64] = to_i64, [DT_I32] = to_i32,  [DT_U8] = to_u8,
                                            [DT_BOOL] = to_bool, [DT_F16] = to_f16, [DT_BF16] = to_bf16};

double run_converted(DType t, double x) { return converts[t](x); }

double run_wrapped(DType t, int64_t x) { return (double)ir_modulo(t, x); }

double run_cast(DType from, DType to, double x) {
  bool is_whole = ir_dtype_kind[from] != DTYPE_FLOAT && ir_dtype_kind[to] == DTYPE_INT;
  return is_whole ? run_wrapped(to, ir_to_i64(x)) : run_converted(to, x);
}

// ---- error bars
static double random_sign(InterpEnv *e) {  // [-1, 1)
  uint64_t z = e->noise_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (double)((z ^ z >> 31) >> 11) * 0x1p-52 - 1;
}

double run_any_sign(Run *r, double x) { return copysign(x, random_sign(r->env)); }

double run_rounded(Run *r, double x, double scale) {
  const double tiny = 1.2e-38;  // below it numbers may be flushed to zero
  double y = x + r->env->noise * random_sign(r->env) * scale;
  bool is_flushed = y != 0 && fabs(y) < tiny && random_sign(r->env) > 0;
  return is_flushed ? 0 : (double)(float)y;
}

int64_t run_whole(const Tensor *t, int64_t i) {
  double low = t->low ? t->low[i] : 0;
  if (t->v[i] >= 0x1p63) return low < 0 ? INT64_MAX + (int64_t)(low + 1) : INT64_MAX;  // rounded up, or saturated
  return ir_to_i64(t->v[i]) + (int64_t)low;
}

void run_set_whole(Run *r, Tensor *t, int64_t i, int64_t x) {
  t->v[i] = (double)x;
  double low = t->v[i] >= 0x1p63 ? (double)(x - INT64_MAX) - 1 : (double)(x - (int64_t)t->v[i]);
  if (low != 0 && !t->low) t->low = rt_alloc(r->env->mem, (size_t)t->n * sizeof(double));
  if (t->low) t->low[i] = low;
}
