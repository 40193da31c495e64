// Primitives of integers and bool, on scalars and vectors, with the results of ir/interp/whole.c. Nothing traps and
// nothing is undefined: operands of quotients and shifts are made harmless first.
#include "codegen/math/math.h"
#include "codegen/math/primitives.h"

typedef struct {
  Cg *c;
  DType t;
} Row;

static bool is_signed(DType t) { return SIGNED >> t & 1; }

static V zero_of(V x) { return LLVMConstNull(LLVMTypeOf(x)); }
static V whole(Cg *c, V like, int64_t x) { return bits(c, LLVMTypeOf(like), (uint64_t)x); }
static V negated(Cg *c, V a) { return cg_isub(c, zero_of(a), a); }
static V is_negative(Cg *c, V a) { return cg_lt(c, a, zero_of(a)); }

// ---- quotients: b is replaced by 1 where it is 0, or -1 of a signed dtype
static V is_minus_one(const Row *r, V b) {
  if (!is_signed(r->t)) return LLVMConstNull(lanes_like(LLVMTypeOf(b), LLVMInt1TypeInContext(r->c->ctx)));
  return cg_eq(r->c, b, whole(r->c, b, -1));
}

static V divisor(const Row *r, V b) {
  Cg *c = r->c;
  V is_zero = cg_eq(c, b, zero_of(b));
  return cg_select(c, cg_or(c, is_zero, is_minus_one(r, b)), whole(c, b, 1), b);
}

static V trunc_quotient(const Row *r, V a, V b) {
  Cg *c = r->c;
  V by = divisor(r, b), q = is_signed(r->t) ? LLVMBuildSDiv(c->b, a, by, "") : LLVMBuildUDiv(c->b, a, by, "");
  if (is_signed(r->t)) q = cg_select(c, is_minus_one(r, b), negated(c, a), q);
  return cg_select(c, cg_eq(c, b, zero_of(b)), zero_of(b), q);
}

// Of 1 and -1 it is 0, of 0 the dividend.
static V trunc_rest(const Row *r, V a, V b) {
  Cg *c = r->c;
  V by = divisor(r, b), rest = is_signed(r->t) ? LLVMBuildSRem(c->b, a, by, "") : LLVMBuildURem(c->b, a, by, "");
  return cg_select(c, cg_eq(c, b, zero_of(b)), a, rest);
}

static V floor_quotient(const Row *r, V a, V b) {
  Cg *c = r->c;
  V q = trunc_quotient(r, a, b), rest = trunc_rest(r, a, b);
  if (!is_signed(r->t)) return q;
  V apart = is_negative(c, cg_xor(c, a, b)), is_cut = cg_ne(c, rest, zero_of(a));
  V is_whole_zero = cg_eq(c, b, zero_of(b)), below = cg_and(c, apart, is_cut);
  below = cg_and(c, below, cg_not(c, is_whole_zero));
  return cg_iadd(c, q, cg_sext(c, below, LLVMTypeOf(a)));
}

// ---- shifts
static V shifted(const Row *r, Op op, V a, V b) {
  Cg *c = r->c;
  int64_t n = 8 * ir_dtype_bytes[r->t];
  V fits = cg_below(c, b, whole(c, b, n)), by = cg_select(c, fits, b, zero_of(b));
  if (op == OP_bitwise_left_shift) return cg_select(c, fits, cg_shl(c, a, by), zero_of(a));
  if (!is_signed(r->t)) return cg_select(c, fits, cg_lshr(c, a, by), zero_of(a));
  V most = whole(c, a, n - 1);
  return cg_ashr(c, a, cg_select(c, fits, b, most));
}

// ---- powers: by squaring. 1 / a^|b| is cut to 0, but of 1 and -1.
static V is_odd(Cg *c, V b) { return cg_trunc(c, b, lanes_like(LLVMTypeOf(b), LLVMInt1TypeInContext(c->ctx))); }

static V inverse_power(Cg *c, V a, V b) {
  V one = whole(c, a, 1), of_minus_one = cg_select(c, is_odd(c, b), a, one);
  V of_others = cg_select(c, cg_eq(c, a, whole(c, a, -1)), of_minus_one, zero_of(a));
  return cg_select(c, cg_eq(c, a, one), one, of_others);
}

static V power(const Row *r, V a, V b) {
  Cg *c = r->c;
  uint32_t n = 8u * ir_dtype_bytes[r->t] - is_signed(r->t);
  V y = whole(c, a, 1), square = a;
  for (uint32_t k = 0; k < n; k++) {
    V has = is_odd(c, cg_lshr(c, b, whole(c, b, k)));
    y = cg_select(c, has, cg_imul(c, y, square), y);
    square = cg_imul(c, square, square);
  }
  return is_signed(r->t) ? cg_select(c, is_negative(c, b), inverse_power(c, a, b), y) : y;
}

// ---- comparisons
static LLVMIntPredicate predicate(Op op, bool with_sign) {
  switch (op) {
  case OP_gt: return with_sign ? LLVMIntSGT : LLVMIntUGT;
  case OP_ge: return with_sign ? LLVMIntSGE : LLVMIntUGE;
  case OP_lt: return with_sign ? LLVMIntSLT : LLVMIntULT;
  case OP_le: return with_sign ? LLVMIntSLE : LLVMIntULE;
  case OP_eq: return LLVMIntEQ;
  default: return LLVMIntNE;
  }
}

V cg_compare_integers(Cg *c, DType t, Op op, V a, V b) { return cg_icmp(c, predicate(op, is_signed(t)), a, b); }
static V compared(const Row *r, Op op, V a, V b) { return cg_compare_integers(r->c, r->t, op, a, b); }

// ---- primitives
V cg_integer_op(Cg *c, DType t, Op op, V *arg) {
  const Row row = {c, t}, *r = &row;
  V a = arg[0], b = arg[1];
  bool is_bool = r->t == DT_BOOL;
  switch (op) {
  case OP_neg: return negated(c, a);
  case OP_abs: return is_signed(r->t) ? cg_select(c, is_negative(c, a), negated(c, a), a) : a;
  case OP_add: return is_bool ? cg_or(c, a, b) : cg_iadd(c, a, b);
  case OP_sub: return cg_isub(c, a, b);
  case OP_mul: return is_bool ? cg_and(c, a, b) : cg_imul(c, a, b);
  case OP_max: return cg_select(c, compared(r, OP_gt, a, b), a, b);
  case OP_min: return cg_select(c, compared(r, OP_lt, a, b), a, b);
  case OP_fmod: return trunc_rest(r, a, b);
  case OP_pow: return power(r, a, b);
  case OP_trunc_divide: return trunc_quotient(r, a, b);
  case OP_floor_divide: return floor_quotient(r, a, b);
  case OP_gt:
  case OP_ge:
  case OP_lt:
  case OP_le:
  case OP_eq:
  case OP_ne: return cg_zext(c, compared(r, op, a, b), LLVMTypeOf(a));
  case OP_select: return cg_select(c, compared(r, OP_ne, a, zero_of(a)), b, arg[2]);
  case OP_bitwise_and: return cg_and(c, a, b);
  case OP_bitwise_or: return cg_or(c, a, b);
  case OP_bitwise_xor: return cg_xor(c, a, b);
  case OP_bitwise_not: return is_bool ? cg_xor(c, a, whole(c, a, 1)) : cg_not(c, a);
  case OP_bitwise_left_shift:
  case OP_bitwise_right_shift: return shifted(r, op, a, b);
  default: break;
  }
  if (c->why) rt_text_add(c->why, "%s has no code for %s; ", ir_ops[op].name, ir_dtype_name[r->t]);
  return LLVMGetPoison(LLVMTypeOf(a));
}
