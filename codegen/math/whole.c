// Pointwise ops on whole numbers and bool, on scalars and vectors: the numbers of ir/interp/whole.c. Nothing traps, and
// nothing is undefined: quotients and shifts are taken of operands that are made harmless first.
#include "codegen/math/math.h"
#include "ir/expr.h"
#include "ir/interp/interpret.h"

typedef struct {
  Cg *c;
  Val v;  // whose attributes stand in the row
  DType t;
} Row;

static bool is_signed(DType t) { return t == DT_I64 || t == DT_I32; }

static V zero_of(V x) { return LLVMConstNull(LLVMTypeOf(x)); }
static V whole(Cg *c, V like, int64_t x) { return bits(c, LLVMTypeOf(like), (uint64_t)x); }
static V is_equal(Cg *c, V a, V b) { return LLVMBuildICmp(c->b, LLVMIntEQ, a, b, ""); }
static V negated(Cg *c, V a) { return LLVMBuildSub(c->b, zero_of(a), a, ""); }
static V is_negative(Cg *c, V a) { return LLVMBuildICmp(c->b, LLVMIntSLT, a, zero_of(a), ""); }

// ---- quotients: b is replaced by 1 where it is 0, or -1 of a signed dtype
static V is_minus_one(const Row *r, V b) {
  if (!is_signed(r->t)) return LLVMConstNull(lanes_like(LLVMTypeOf(b), LLVMInt1TypeInContext(r->c->ctx)));
  return is_equal(r->c, b, whole(r->c, b, -1));
}

static V divisor(const Row *r, V b) {
  Cg *c = r->c;
  V is_zero = is_equal(c, b, zero_of(b));
  return cg_select(c, LLVMBuildOr(c->b, is_zero, is_minus_one(r, b), ""), whole(c, b, 1), b);
}

static V trunc_quotient(const Row *r, V a, V b) {
  Cg *c = r->c;
  V by = divisor(r, b), q = is_signed(r->t) ? LLVMBuildSDiv(c->b, a, by, "") : LLVMBuildUDiv(c->b, a, by, "");
  if (is_signed(r->t)) q = cg_select(c, is_minus_one(r, b), negated(c, a), q);
  return cg_select(c, is_equal(c, b, zero_of(b)), zero_of(b), q);
}

// Of 1 and -1 it is 0, of 0 the dividend.
static V trunc_rest(const Row *r, V a, V b) {
  Cg *c = r->c;
  V by = divisor(r, b), rest = is_signed(r->t) ? LLVMBuildSRem(c->b, a, by, "") : LLVMBuildURem(c->b, a, by, "");
  return cg_select(c, is_equal(c, b, zero_of(b)), a, rest);
}

static V floor_quotient(const Row *r, V a, V b) {
  Cg *c = r->c;
  V q = trunc_quotient(r, a, b), rest = trunc_rest(r, a, b);
  if (!is_signed(r->t)) return q;
  V apart = is_negative(c, LLVMBuildXor(c->b, a, b, "")), is_cut = LLVMBuildICmp(c->b, LLVMIntNE, rest, zero_of(a), "");
  V is_whole_zero = is_equal(c, b, zero_of(b)), below = LLVMBuildAnd(c->b, apart, is_cut, "");
  below = LLVMBuildAnd(c->b, below, LLVMBuildNot(c->b, is_whole_zero, ""), "");
  return LLVMBuildAdd(c->b, q, LLVMBuildSExt(c->b, below, LLVMTypeOf(a), ""), "");
}

// ---- shifts
static V shifted(const Row *r, Op op, V a, V b) {
  Cg *c = r->c;
  int64_t n = 8 * ir_dtype_bytes[r->t];
  V fits = LLVMBuildICmp(c->b, LLVMIntULT, b, whole(c, b, n), ""), by = cg_select(c, fits, b, zero_of(b));
  if (op == OP_bitwise_left_shift) return cg_select(c, fits, LLVMBuildShl(c->b, a, by, ""), zero_of(a));
  if (!is_signed(r->t)) return cg_select(c, fits, LLVMBuildLShr(c->b, a, by, ""), zero_of(a));
  V most = whole(c, a, n - 1);
  return LLVMBuildAShr(c->b, a, cg_select(c, fits, b, most), "");
}

// ---- powers: by squaring. 1 / a^|b| is cut to 0, but of 1 and -1.
static V is_odd(Cg *c, V b) {
  return LLVMBuildTrunc(c->b, b, lanes_like(LLVMTypeOf(b), LLVMInt1TypeInContext(c->ctx)), "");
}

static V inverse_power(Cg *c, V a, V b) {
  V one = whole(c, a, 1), of_minus_one = cg_select(c, is_odd(c, b), a, one);
  V of_others = cg_select(c, is_equal(c, a, whole(c, a, -1)), of_minus_one, zero_of(a));
  return cg_select(c, is_equal(c, a, one), one, of_others);
}

static V power(const Row *r, V a, V b) {
  Cg *c = r->c;
  uint32_t n = 8u * ir_dtype_bytes[r->t] - is_signed(r->t);
  V y = whole(c, a, 1), square = a;
  for (uint32_t k = 0; k < n; k++) {
    V has = is_odd(c, LLVMBuildLShr(c->b, b, whole(c, b, k), ""));
    y = cg_select(c, has, LLVMBuildMul(c->b, y, square, ""), y);
    square = LLVMBuildMul(c->b, square, square, "");
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

static V compared(const Row *r, Op op, V a, V b) {
  return LLVMBuildICmp(r->c->b, predicate(op, is_signed(r->t)), a, b, "");
}

// ---- primitives
static V primitive(const Row *r, Op op, V *arg) {
  Cg *c = r->c;
  V a = arg[0], b = arg[1];
  bool is_bool = r->t == DT_BOOL;
  switch (op) {
  case OP_neg: return negated(c, a);
  case OP_abs: return is_signed(r->t) ? cg_select(c, is_negative(c, a), negated(c, a), a) : a;
  case OP_add: return is_bool ? LLVMBuildOr(c->b, a, b, "") : LLVMBuildAdd(c->b, a, b, "");
  case OP_sub: return LLVMBuildSub(c->b, a, b, "");
  case OP_mul: return is_bool ? LLVMBuildAnd(c->b, a, b, "") : LLVMBuildMul(c->b, a, b, "");
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
  case OP_ne: return LLVMBuildZExt(c->b, compared(r, op, a, b), LLVMTypeOf(a), "");
  case OP_select: return cg_select(c, compared(r, OP_ne, a, zero_of(a)), b, arg[2]);
  case OP_bitwise_and: return LLVMBuildAnd(c->b, a, b, "");
  case OP_bitwise_or: return LLVMBuildOr(c->b, a, b, "");
  case OP_bitwise_xor: return LLVMBuildXor(c->b, a, b, "");
  case OP_bitwise_not: return is_bool ? LLVMBuildXor(c->b, a, whole(c, a, 1), "") : LLVMBuildNot(c->b, a, "");
  case OP_bitwise_left_shift:
  case OP_bitwise_right_shift: return shifted(r, op, a, b);
  default: break;
  }
  if (c->why) rt_text_add(c->why, "%s has no code for %s; ", ir_ops[op].name, ir_dtype_name[r->t]);
  return LLVMGetPoison(LLVMTypeOf(a));
}

// By the row's expression, but for quotients, whose rows are of f32.
static bool is_by_hand(Op op) { return op == OP_trunc_divide || op == OP_floor_divide; }

static V expand(const Row *r, Op op, V *arg) {
  Expr e = ir_forward(op);
  V stack[64];
  uint32_t top = 0;
  if (!e.nodes || is_by_hand(op)) return primitive(r, op, arg);
  for (uint32_t i = 0; i < e.n; i++) {
    const ExNode *n = &e.nodes[i];
    if (n->kind == EX_ARG) stack[top++] = arg[n->arg];
    else if (n->kind == EX_NUM) stack[top++] = whole(r->c, arg[0], ir_to_whole(r->t, n->num));
    else if (n->kind == EX_ATTR)
      stack[top++] = whole(r->c, arg[0], ir_to_whole(r->t, ir_attr_num(r->c->f, r->v, (Key)n->arg, 0)));
    else {
      top -= ir_ops[n->op].n_min;
      stack[top] = expand(r, (Op)n->op, &stack[top]);
      top++;
    }
  }
  return stack[0];
}

// A byte other than 0 and 1 counts as 1.
static V as_truth(Cg *c, V x) {
  V is_set = LLVMBuildICmp(c->b, LLVMIntNE, x, zero_of(x), "");
  return LLVMBuildZExt(c->b, is_set, LLVMTypeOf(x), "");
}

V cg_whole_op(Cg *c, Val v, DType t, V *arg) {
  const Row r = {.c = c, .v = v, .t = t};
  Op op = (Op)ir_ins(c->f, v)->op;
  V x[3] = {NULL};
  for (uint32_t k = 0; k < ir_ins(c->f, v)->n_args; k++) x[k] = t == DT_BOOL ? as_truth(c, arg[k]) : arg[k];
  V y = expand(&r, op, x);
  if (!(ir_ops[op].flags & MASK)) return y;
  V is_set = LLVMBuildICmp(c->b, LLVMIntNE, y, zero_of(y), "");
  LLVMTypeRef f32 = lanes_like(LLVMTypeOf(y), c->f32);
  return cg_select(c, is_set, num(c, f32, 1), num(c, f32, 0));
}
