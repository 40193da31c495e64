// One dtype for the operands of a pointwise call, as PyTorch chooses it (docs/dtypes.md). Flags of the op's row say what it
// takes; IR ops take operands of one dtype alone.
//
//   tn_add(%i: i32[3], %x: f32[3])     %c = cast %i {dtype=f32}     add %c, %x
//   tn_add(%i: i32[3], tn_scalar(2))   add %i, const {value=2, dtype=i32}
//   tn_gt(%x, %y)                      %m = gt %x, %y               cast %m {dtype=bool}
#include "frontend/graph/promote.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/tenure/ops.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/interp/interpret.h"

#include <inttypes.h>
#include <math.h>

enum { POINTWISE_ATTRS = 8 };  // of a pointwise op, at most

// The order of dtypes in a kind, and kinds by order: bool < whole < float. Of two halves the common dtype is f32.
typedef enum { NO_KIND, OF_BOOL, OF_WHOLE, OF_FLOAT } Kind;
static const struct {
  Kind kind;
  uint32_t order;
} rank_of[N_DTYPES] = {
    [DT_BOOL] = {OF_BOOL, 0}, [DT_U8] = {OF_WHOLE, 1},   [DT_I32] = {OF_WHOLE, 2}, [DT_I64] = {OF_WHOLE, 3},
    [DT_F16] = {OF_FLOAT, 4}, [DT_BF16] = {OF_FLOAT, 4}, [DT_F32] = {OF_FLOAT, 5},
};

static DType promoted(DType a, DType b) {
  if (!a || !b || a == b) return a ? a : b;
  if (rank_of[a].order == rank_of[b].order) return DT_F32;
  return rank_of[a].order > rank_of[b].order ? a : b;
}

// What has fewer axes decides only when its kind is the higher one.
static DType combined(DType first, DType then) {
  return first && rank_of[first].kind >= rank_of[then].kind ? first : promoted(first, then);
}

// ---- numbers: constants, which take the dtype of the others, but where they are of a higher kind
static bool is_number(tn_tensor t) { return fe_ins(t)->op == OP_const && fe_ins(t)->dtype == DT_F32; }
static double number_of(tn_tensor t) { return ir_attr_num(t.fn->ir, fe_val(t), KEY_value, 0); }
static bool is_whole(double x) { return x == trunc(x) && x >= -0x1p63 && x < 0x1p63; }

static bool holds(DType t, double x) {
  if (rank_of[t].kind == OF_FLOAT) return true;
  return is_whole(x) && t != DT_BOOL && (double)ir_to_whole(t, x) == x;
}

DType fe_common_dtype(const tn_tensor *a, uint32_t n) {
  DType with_axes = DT_NONE, scalar = DT_NONE, number = DT_NONE;
  for (uint32_t k = 0; k < n; k++) {
    DType t = (DType)fe_ins(a[k])->dtype;
    if (is_number(a[k])) number = promoted(number, is_whole(number_of(a[k])) ? DT_I64 : DT_F32);
    else if (fe_rank(a[k])) with_axes = promoted(with_axes, t);
    else scalar = promoted(scalar, t);
  }
  if (!with_axes && !scalar) return DT_F32;  // numbers alone are f32
  return combined(with_axes, combined(scalar, number));
}

// As arithmetic takes a whole number that t does not hold: modulo 2^bits.
static double wrapped(DType t, double x) {
  if (!is_whole(x)) return x;
  return t == DT_U8 ? (double)(uint8_t)(int64_t)x : t == DT_I32 ? (double)(int32_t)(uint32_t)(int64_t)x : x;
}

// As a cast makes a number one of t: f32 on the way would round whole numbers above 2^24.
static tn_tensor number(tn_function *f, double x, DType t, tn_site at) {
  const Attr attrs[] = {ir_a_num(KEY_value, t == DT_BOOL ? x != 0 : x), ir_a_int(KEY_dtype, t)};
  bool is_half = !((F32 | COUNTABLE) >> t & 1);
  if (is_half) return fe_cast(fe_const(f, x, at), t, at);
  return fe_emit_in(f, OP_const, attrs, t == DT_F32 ? 1 : 2, at);
}

// ---- numbers that fill whole values, as PyTorch takes them: cut toward zero, negative ones of u8 from its end
static double highest(DType t) { return (double)ir_to_whole(t, 0x1p63); }
static double lowest(DType t) { return (double)ir_to_whole(t, -0x1p63); }

static bool in_range(DType t, double x) {
  bool is_any = t == DT_BOOL || rank_of[t].kind == OF_FLOAT;
  return is_any || (x >= lowest(t) && x <= highest(t) && x < 0x1p63);
}

static void refuse_number(tn_function *f, double x, DType t, tn_site at) {
  fe_error(f->p, E_ARGUMENT, at, "%.17g does not fit into %s, which holds %" PRId64 " to %" PRId64, x, ir_dtype_name[t],
           ir_to_whole(t, -0x1p63), ir_to_whole(t, 0x1p63));
}

bool fe_fits_number(tn_function *f, double *x, DType t, tn_site at) {
  bool is_from_end = t == DT_U8 && is_whole(*x) && *x < 0 && *x >= -highest(t);
  if (is_from_end) *x += 256;
  if (in_range(t, *x)) return true;
  refuse_number(f, *x, t, at);
  fe_hint(f->p, "tn_cast the value to a dtype that holds it first, TN_I64 or TN_F32");
  return false;
}

tn_tensor fe_number(tn_function *f, double x, DType t, tn_site at) {
  return fe_fits_number(f, &x, t, at) ? number(f, x, t, at) : fe_poison(f);
}

tn_tensor fe_full(tn_function *f, double x, Shape s, DType t, tn_site at) {
  if (!fe_fits_number(f, &x, t, at)) return fe_poison(f);
  const Attr attrs[] = {ir_a_num(KEY_value, t == DT_BOOL ? x != 0 : x), ir_a_list(KEY_shape, s),
                        ir_a_int(KEY_dtype, t)};
  return fe_cast(fe_emit_in(f, OP_full, attrs, COUNTABLE >> t & 1 ? 3 : 2, at), t, at);
}

tn_tensor fe_as_dtype(tn_tensor a, DType t, tn_site at) {
  bool is_other = fe_ok(a) && is_number(a) && t != DT_F32;
  return is_other ? number(a.fn, wrapped(t, number_of(a)), t, at) : fe_cast(a, t, at);
}

// ---- by op
static bool takes(Op op, DType t) {
  uint32_t flags = ir_ops[op].flags, dtypes = F32;
  if (!ir_ops[op].is_pointwise) dtypes = ir_ops[op].operands[0].flags;
  else if (flags & NUMBERS) dtypes = NUMBER;
  else if (flags & BOOLS) dtypes |= COUNTABLE;
  else if (flags & INTS) dtypes |= WHOLE;
  return dtypes >> t & 1;
}

// Bounds of whole numbers are whole, or none.
static bool is_bound(double x) { return isinf(x) || is_whole(x); }
static bool bounds_fit(Op op, const Attr *attrs, uint32_t n_attrs) {
  for (uint32_t k = 0; op == OP_clamp && k < n_attrs; k++)
    if (ir_key_kind[attrs[k].key] == KIND_NUM && !is_bound(attrs[k].u.f)) return false;
  return true;
}

// As for PyTorch: a bound that the dtype does not hold is none of its numbers. (PyTorch's negative bounds of u8 count from the end.)
static bool bounds_hold(Op op, const tn_tensor *a, DType t, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  for (uint32_t k = 0; op == OP_clamp && rank_of[t].kind == OF_WHOLE && k < n_attrs; k++) {
    bool is_number = ir_key_kind[attrs[k].key] == KIND_NUM && !isinf(attrs[k].u.f);
    if (!is_number || in_range(t, attrs[k].u.f)) continue;
    refuse_number(a->fn, attrs[k].u.f, t, at);
    fe_hint(a->fn->p,
            "INFINITY and -INFINITY are no bounds; tn_cast the value to TN_I64 to compare it with larger numbers");
    return false;
  }
  return true;
}

// Numbers that are chosen, and exponents, are elements of t: one that it does not hold is refused, as PyTorch does.
static bool is_element(Op op, uint32_t k) {
  switch (op) {
  case OP_select: return k > 0;
  case OP_pow: return k == 1;
  case OP_clamp_min:
  case OP_clamp_max:
  case OP_clamp_tensor: return true;
  default: return false;
  }
}

static bool elements_fit(Op op, const tn_tensor *a, uint32_t n, DType t, tn_site at) {
  for (uint32_t k = 0; k < n; k++) {
    double x = is_number(a[k]) ? number_of(a[k]) : 0;
    if (is_element(op, k) && rank_of[t].kind == OF_WHOLE && !fe_fits_number(a->fn, &x, t, at)) return false;
  }
  return true;
}

// A comparison is with the number itself: no u8 is 256.
static DType as_compared(Op op, const tn_tensor *a, uint32_t n, DType t) {
  for (uint32_t k = 0; k < n && ir_ops[op].flags & MASK; k++)
    if (is_number(a[k]) && !holds(t, number_of(a[k]))) t = promoted(t, DT_I64);
  return t;
}

// The dtype that op computes in; none: it refuses these operands itself.
static DType dtype_for(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs) {
  uint32_t first = op == OP_select;
  if (n <= first) return DT_NONE;
  // a layout
  for (uint32_t k = first; k < n; k++)
    if (!rank_of[fe_ins(a[k])->dtype].kind) return DT_NONE;
  DType t = as_compared(op, a, n, fe_common_dtype(a + first, n - first));
  if (rank_of[t].kind != OF_FLOAT && (ir_ops[op].flags & FROM_INTS || !bounds_fit(op, attrs, n_attrs))) return DT_F32;
  return takes(op, t) ? t : DT_NONE;
}

static double attr_of(const Attr *attrs, uint32_t n_attrs, Key key) {
  for (uint32_t k = 0; k < n_attrs; k++)
    if (attrs[k].key == key) return attrs[k].u.f;
  return 0;
}

static bool bounds_in_order(Op op, const tn_tensor *a, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  double lo = attr_of(attrs, n_attrs, KEY_lo), hi = attr_of(attrs, n_attrs, KEY_hi);
  if (op != OP_hardtanh || !(lo > hi)) return true;
  fe_error(a->fn->p, E_ARGUMENT, at, "hardtanh takes a lower bound and an upper one, not %g and %g", lo, hi);
  fe_hint(a->fn->p, "tn_clamp takes bounds in any order: the upper one holds");
  return false;
}

static void promote(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_tensor *out,
                    tn_site at) {
  DType t = dtype_for(op, a, n, attrs, n_attrs);
  bool is_refused = !bounds_in_order(op, a, attrs, n_attrs, at) || !bounds_hold(op, a, t, attrs, n_attrs, at) ||
                    !elements_fit(op, a, n, t, at);
  for (uint32_t k = 0; k < n; k++)
    if (is_refused) out[k] = fe_poison(a->fn);
    else out[k] = t && !(k == 0 && op == OP_select) ? fe_as_dtype(a[k], t, at) : a[k];
}

const tn_tensor *fe_in_one_dtype(const tn_tensor *a, uint32_t n, tn_site at) {
  uint32_t k = 0;
  while (k < n && fe_ins(a[k])->dtype == fe_ins(a[0])->dtype) k++;
  if (k == n) return a;
  // a layout, which is refused
  for (k = 0; k < n; k++)
    if (!rank_of[fe_ins(a[k])->dtype].kind) return a;
  DType t = fe_common_dtype(a, n);
  tn_tensor *in = rt_alloc(a[0].fn->p->mem, n * sizeof *in);
  for (k = 0; k < n; k++) in[k] = fe_as_dtype(a[k], t, at);
  return in;
}

// Numbers among the attributes that an op computes with, as elements are: those of addcmul.
static bool fit_numbers(Op op, tn_tensor a, const Attr *attrs, uint32_t n_attrs, Attr *own, tn_site at) {
  for (uint32_t k = 0; k < n_attrs; k++) {
    own[k] = attrs[k];
    bool is_element = op == OP_addcmul && ir_key_kind[own[k].key] == KIND_NUM;
    if (is_element && !fe_fits_number(a.fn, &own[k].u.f, (DType)fe_ins(a)->dtype, at)) return false;
  }
  return true;
}

bool fe_is_rounded(Op op, tn_tensor a) {
  bool rounds = op == OP_floor || op == OP_ceil || op == OP_round || op == OP_trunc;
  return rounds && rank_of[fe_ins(a)->dtype].kind == OF_WHOLE;
}

// The value of op, of operands in its dtype; masks are f32 still.
tn_tensor fe_promoted(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  tn_tensor in[3];
  Attr own[POINTWISE_ATTRS];
  promote(op, a, n, attrs, n_attrs, in, at);
  if (!fe_ok(in[0]) || !fit_numbers(op, in[0], attrs, n_attrs, own, at)) return fe_poison(a->fn);
  return fe_emit(op, in, n, own, n_attrs, at);
}

tn_tensor fe_pointwise(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  tn_function *f;
  if (!fe_join_for(ir_ops[op].name, a, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_is_rounded(op, a[0])) return fe_same(a[0], at);
  tn_tensor y = fe_promoted(op, a, n, attrs, n_attrs, at);
  return fe_ok(y) && ir_ops[op].flags & MASK ? fe_cast(y, DT_BOOL, at) : y;
}

tn_tensor fe_widened(Op op, tn_tensor a, tn_site at) {
  bool is_small = fe_ok(a) && (COUNTABLE & ~I64) >> fe_ins(a)->dtype & 1;
  return is_small && !takes(op, (DType)fe_ins(a)->dtype) && takes(op, DT_I64) ? fe_cast(a, DT_I64, at) : a;
}

tn_tensor fe_narrowed(tn_tensor y, tn_tensor like, tn_site at) {
  bool is_wider = fe_ok(y) && COUNTABLE >> fe_ins(like)->dtype & 1 && fe_ins(y)->dtype == DT_I64;
  return is_wider ? fe_cast(y, (DType)fe_ins(like)->dtype, at) : y;
}

bool fe_fits_into(DType from, DType to) { return rank_of[from].kind <= rank_of[to].kind; }

// ---- calls that no row makes
#define BITWISE(name)                                                                       \
  tn_tensor tn_##name(tn_tensor a, tn_tensor b, tn_site at) {                               \
    return fe_made(fe_pointwise(OP_##name, (const tn_tensor[]){a, b}, 2, NULL, 0, at), at); \
  }
BITWISE(bitwise_and)
BITWISE(bitwise_or)
BITWISE(bitwise_xor)
BITWISE(bitwise_left_shift)
BITWISE(bitwise_right_shift)
tn_tensor tn_bitwise_not(tn_tensor a, tn_site at) {
  return fe_made(fe_pointwise(OP_bitwise_not, &a, 1, NULL, 0, at), at);
}

// Of any numbers: whether they are not 0.
static tn_tensor logical(const char *call, Op op, const tn_tensor *a, uint32_t n, tn_site at) {
  tn_function *f;
  tn_tensor in[2];
  if (!fe_join_for(call, a, n, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  for (uint32_t k = 0; k < n; k++) in[k] = fe_cast(a[k], DT_BOOL, at);
  return fe_made(fe_emit(op, in, n, NULL, 0, at), at);
}

tn_tensor tn_logical_and(tn_tensor a, tn_tensor b, tn_site at) {
  return logical(__func__, OP_bitwise_and, (const tn_tensor[]){a, b}, 2, at);
}
tn_tensor tn_logical_or(tn_tensor a, tn_tensor b, tn_site at) {
  return logical(__func__, OP_bitwise_or, (const tn_tensor[]){a, b}, 2, at);
}
tn_tensor tn_logical_xor(tn_tensor a, tn_tensor b, tn_site at) {
  return logical(__func__, OP_bitwise_xor, (const tn_tensor[]){a, b}, 2, at);
}
tn_tensor tn_logical_not(tn_tensor a, tn_site at) { return logical(__func__, OP_bitwise_not, &a, 1, at); }
