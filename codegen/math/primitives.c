// The primitives of pointwise ops in LLVM IR: on scalars and vectors of any number of lanes, with the same bits for both.
//
// No call: every function is a range reduction and a polynomial, right in special cases (NaN, infinities, zeros,
// denormals) and within 2 units in the last place over all floats on every target: tools/ulp.c measures it, and
// docs/vector-math.md has the table. Primitives that work in doubles stand in via_double.c, gelu and erf by table in gelu_table.c and
// erf_table.c, shorter primitives for the option fast_math in fast_math.c. Operands that emit code are built one statement at a time,
// because C leaves the order of arguments open and every compiler must give the same code.
#include "codegen/math/primitives.h"
#include "codegen/math/math.h"
#include "ir/expr.h"
#include "ir/interp/interpret.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// ---- exponentials
static V reduce_exp(Cg *c, V x, V *n) {
  V whole;
  return cg_reduce_exp(c, x, n, &whole);
}

// 2^n for n in [-126, 127], the low 9 bits of an i32: the shift drops the others.
static V two_to(Cg *c, V n) {
  LLVMTypeRef t = LLVMTypeOf(n);
  V e = cg_iadd(c, n, bits(c, t, 127));
  return cast(c, cg_shl(c, e, bits(c, t, 23)), c->f32);
}

// 2^n (1 + p). Scaling takes two steps where no instruction does it, so that infinities and denormals come out of one last
// rounding: the first, 2^half (1 + p), is exact.
static V scaled_exp(Cg *c, V p, V n, V whole) {
  if (cg_has_avx512(c, LLVMTypeOf(p))) return cg_scalef(c, cg_fadd(c, p, k(c, p, 1)), whole);
  V half = cg_lshr(c, n, bits(c, LLVMTypeOf(n), 1)), rest = cg_isub(c, n, half);
  V first = two_to(c, half), second = two_to(c, rest);
  return cg_fmul(c, cg_fma(c, p, first, first), second);
}

static V exp_of(Cg *c, V x) {
  V n, whole, x1 = at_least(c, at_most(c, x, 89), -104), p = cg_reduce_exp(c, x1, &n, &whole);
  return scaled_exp(c, p, n, whole);
}

// x = n + r, |r| <= 1/2, exactly; 2^r - 1 = r ln 2 + r^2 q, of which ln 2 is two floats.
V cg_exp2(Cg *c, V x) {
  const double magic = 12582912;  // 1.5 * 2^23
  V x1 = at_least(c, at_most(c, x, 129), -151), t = cg_fadd(c, x1, k(c, x, magic)),
    whole = cg_fsub(c, t, k(c, x, magic));
  V r = cg_fsub(c, x1, whole);
  V q = POLY(c, r, 0.240226507, 0.055503618, 0.00961802248, 0.00133904372, 0.000154718364);
  V lost = cg_fmul(c, r, k(c, r, -1.90465421e-09));
  q = cg_fma(c, cg_fmul(c, r, r), q, lost);
  V p = cg_fma(c, r, k(c, r, 0.693147182464599609), q);
  return scaled_exp(c, p, cast(c, t, c->i32), whole);
}

// tanh |x| = -m / (2 + m) with m = e^(-2|x|) - 1, which keeps its relative accuracy near 0.
static V tanh_of(Cg *c, V x) {
  V n, a = at_least(c, cg_fmul(c, fabs_of(c, x), k(c, x, -2)), -20), p = reduce_exp(c, a, &n), s = two_to(c, n);
  V less = cg_fsub(c, s, k(c, x, 1)), more = cg_fadd(c, s, k(c, x, 1));
  V m = cg_fma(c, s, p, less), bottom = cg_fma(c, s, p, more);  // 2 + m, rounded once
  return with_sign(c, cg_fdiv(c, cg_fneg(c, m), bottom), x);
}

// t = e^-|x| = s (1 + p) rest: rest is 1 but where t is so small that 1 + t is 1; what is a denormal is rounded once,
// last. From FARTHEST on, which infinities are taken for, rest is 0: a number that rounds to 0 would take as long as a
// denormal. 1 + t is bottom + lost.
#define FARTHEST -132.4  // n is -191: rest would be 2^-127
typedef struct {
  V p, s, rest, bottom, lost;
} Logistic;

static Logistic logistic(Cg *c, V x) {
  V n, low = at_least(c, cg_fneg(c, fabs_of(c, x)), FARTHEST);
  Logistic t = {.p = reduce_exp(c, low, &n)};
  V least = bits(c, LLVMTypeOf(n), EXP_BIAS - 64);
  V whole = cg_select(c, cg_lt(c, n, least), least, n);
  t.s = two_to(c, whole);
  t.rest = two_to(c, cg_isub(c, n, whole));
  V more = cg_fadd(c, t.s, k(c, x, 1));
  t.bottom = cg_fma(c, t.s, t.p, more);
  t.lost = cg_fma(c, t.s, t.p, cg_fsub(c, more, t.bottom));
  return t;
}

// Where an instruction scales by 2^n: e^-x = 2^n (1 + p) for x of either sign, and 1 / (1 + e^-x) = 2^up / (bottom + lost), up
// being -n. From -LOWEST on 2^up times any float is 0, and 1 + p is above 1; from HIGHEST on bottom is 2^up.
#define LOWEST 350.2
#define HIGHEST (-64)
typedef struct {
  V up, bottom, lost;
} Scaled;

static Scaled scaled_logistic(Cg *c, V x) {
  V n, whole, p = cg_reduce_exp(c, at_least(c, at_most(c, cg_fneg(c, x), LOWEST), HIGHEST), &n, &whole);
  Scaled t = {.up = cg_fneg(c, whole)};
  V one = k(c, x, 1), rest = cg_fadd(c, cg_scalef(c, one, t.up), p);
  t.bottom = cg_fadd(c, rest, one);
  t.lost = cg_fsub(c, rest, cg_fsub(c, t.bottom, one));
  return t;
}

static V scaled_sigmoid(Cg *c, V x) {
  Scaled t = scaled_logistic(c, x);
  V inverse = cg_fdiv(c, k(c, x, 1), t.bottom), off = cg_fmul(c, inverse, t.lost);
  return cg_scalef(c, cg_fma(c, cg_fneg(c, off), inverse, inverse), t.up);
}

// What the quotient misses is added to it. -infinity gives NaN.
static V scaled_silu(Cg *c, V x) {
  Scaled t = scaled_logistic(c, x);
  V inverse = cg_fdiv(c, k(c, x, 1), t.bottom), y = cg_fmul(c, x, inverse);
  V off = cg_fma(c, cg_fneg(c, y), t.bottom, x);
  off = cg_fma(c, cg_fneg(c, y), t.lost, off);
  y = cg_scalef(c, cg_fma(c, off, inverse, y), t.up);
  y = cg_select(c, cg_fcmp(c, LLVMRealOGT, x, k(c, x, 128)), x, y);
  return with_sign(c, y, x);  // of -0
}

// 1 / (1 + t), or t / (1 + t) for negative x.
static V sigmoid_of(Cg *c, V x) {
  if (cg_has_avx512(c, LLVMTypeOf(x))) return scaled_sigmoid(c, x);
  Logistic t = logistic(c, x);
  V inverse = cg_fdiv(c, k(c, x, 1), t.bottom), off = cg_fmul(c, inverse, t.lost);
  inverse = cg_fma(c, cg_fneg(c, off), inverse, inverse);
  V below = cg_fmul(c, cg_fmul(c, cg_fma(c, t.p, inverse, inverse), t.rest), t.s);
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0)), below, inverse);
}

// x / (1 + t), or x t / (1 + t): what the quotient misses is added to it.
static V silu_of(Cg *c, V x) {
  if (cg_has_avx512(c, LLVMTypeOf(x))) return scaled_silu(c, x);
  Logistic t = logistic(c, x);
  V is_below = cg_fcmp(c, LLVMRealOLT, x, k(c, x, 0)), low = at_least(c, x, FARTHEST);
  V top = cg_select(c, is_below, cg_fma(c, low, t.p, low), x), inverse = cg_fdiv(c, k(c, x, 1), t.bottom);
  V y = cg_fmul(c, top, inverse), off = cg_fma(c, cg_fneg(c, y), t.bottom, top);
  off = cg_fma(c, cg_fneg(c, y), t.lost, off);
  y = cg_fma(c, off, inverse, y);
  V below = cg_fma(c, x, k(c, x, 0), cg_fmul(c, cg_fmul(c, y, t.rest), t.s));  // -infinity times 0 is NaN
  y = cg_select(c, is_below, below, cg_select(c, cg_fcmp(c, LLVMRealOGT, x, k(c, x, 128)), x, y));
  return with_sign(c, y, x);  // of -0 too
}

// |x| < 0.92
static V erf_near(Cg *c, V x) {
  V z = cg_fmul(c, x, x);
  V y = POLY(c, z, 0.128379166, -0.376126289, 0.112836242, -0.026855588, 0.0051919478, -0.000804383948, 7.96966342e-05);
  return cg_fma(c, x, y, x);
}

// 1 - erf a = s (1 + p) for a in [0.92, 4]: e^-q(a).
static V erfc_far(Cg *c, V a, V *s) {
  V t = at_most(c, a, 4), n;
  V q = POLY(c, t, -0.000175873414, 1.12952077, 0.633334875, 0.108293526, -0.02512821, 0.00417442108, -0.000435157941,
             2.11552106e-05);
  V p = reduce_exp(c, cg_fneg(c, q), &n);
  *s = two_to(c, n);
  return p;
}

// Error 1.55 ulp on targets with a table (erf_table.c).
static V erf_of(Cg *c, V x) {
  if (cg_has_erf_table(c, LLVMTypeOf(x))) return cg_erf_table(c, x);
  V a = fabs_of(c, x), near_0 = erf_near(c, x), s, p = erfc_far(c, a, &s);
  V far = cg_fsub(c, k(c, x, 1), s), sp = cg_fmul(c, s, p);
  far = with_sign(c, cg_fsub(c, far, sp), x);
  return cg_select(c, cg_fcmp(c, LLVMRealOLT, a, k(c, x, 0.92)), near_0, far);
}

// ---- sine and cosine
static V sin_cos(Cg *c, V x, uint64_t quadrant) {
  V n, r;
  if (has_fma(c)) r = cg_reduce_trig_single(c, x, &n);
  else r = cg_narrow(c, at_least(c, at_most(c, cg_reduce_trig(c, x, &n), 0.7854), -0.7854), x);
  V y = cg_sin_quadrant(c, r, cg_iadd(c, n, bits(c, LLVMTypeOf(n), quadrant)));
  y = cg_trig_large(c, x, y, (uint32_t)quadrant);
  return quadrant ? y : cg_select(c, cg_fcmp(c, LLVMRealOEQ, x, k(c, x, 0)), x, y);  // sin -0 = -0
}

// ---- the table
// The larger (smaller) one; NaN wins, the sign of a zero is open. Not stated by comparisons and selects: instcombine of
// LLVM 19.1 turns max(|x|, 0) in that form into x > 0 ? |x| : 0.
static V extreme(Cg *c, const char *name, V a, V b) {
  LLVMTypeRef t = LLVMTypeOf(a);
  V y = cg_call_intrinsic(c, name, &t, 1, (V[]){a, b}, 2);
  if (LLVMIsAInstruction(y)) LLVMSetFastMathFlags(y, LLVMFastMathNoSignedZeros);
  return y;
}

static V truth(Cg *c, LLVMRealPredicate p, V a, V b) {
  return cg_select(c, cg_fcmp(c, p, a, b), k(c, a, 1), k(c, a, 0));
}

V cg_primitive(Cg *c, Op op, V *arg) {
  V a = arg[0], fast = c->t->fast_math ? cg_fast_primitive(c, op, a) : NULL;
  if (fast) return fast;
#define b arg[1]
  switch (op) {
#define NULLARY_PRIM(n, ...)
#define UNARY_PRIM(n, ga, flags, cost, value, code, doc) \
  case OP_##n: return code;
#define BINARY_PRIM(n, ga, gb, flags, cost, value, code, doc) \
  case OP_##n: return code;
#define TERNARY_PRIM(n, ga, gb, gc, flags, cost, value, code, doc) \
  case OP_##n: return code;
#include "ir/primitives.def"
  default: break;
  }
#undef b
  if (c->why) rt_text_add(c->why, "%s has no code as a primitive; ", ir_ops[op].name);
  return LLVMGetPoison(LLVMTypeOf(a));
}

uint32_t cg_primitive_cost(Op op) {
  static const uint16_t cost_of[N_OPS] = {
#define NULLARY_PRIM(n, flags, cost, ...) [OP_##n] = cost,
#define UNARY_PRIM(n, ga, flags, cost, ...) [OP_##n] = cost,
#define BINARY_PRIM(n, ga, gb, flags, cost, ...) [OP_##n] = cost,
#define TERNARY_PRIM(n, ga, gb, gc, flags, cost, ...) [OP_##n] = cost,
#include "ir/primitives.def"
  };
  Expr e = ir_forward(op);
  if (e.n == 0) return cost_of[op] ? cost_of[op] : 1;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < e.n; i++)
    if (e.nodes[i].kind == EX_OP) sum += cg_primitive_cost((Op)e.nodes[i].op);
  return sum;
}

// ---- random numbers: Philox4x32-10, every 32-bit word in the lower half of a 64-bit lane
enum { PHILOX_ROUNDS = 10 };

// Loads a 64-bit field of the frame once, in the entry block, where it dominates every use.
static V frame_u64(Cg *c, size_t off) {
  LLVMBasicBlockRef back = LLVMGetInsertBlock(c->b), entry = LLVMGetEntryBasicBlock(c->fn);
  V first = LLVMGetFirstInstruction(entry);
  if (first) LLVMPositionBuilderBefore(c->b, first);
  V v = cg_load(c, c->i64, cg_frame_at(c, off));
  LLVMPositionBuilderAtEnd(c->b, back);
  return v;
}

static V low32(Cg *c, V v) { return cg_and(c, v, bits(c, LLVMTypeOf(v), 0xffffffffu)); }
static V high32(Cg *c, V v) { return cg_lshr(c, v, bits(c, LLVMTypeOf(v), 32)); }
static V mix(Cg *c, V a, V b, V key) { return cg_xor(c, cg_xor(c, a, b), key); }

// void philox_keys(ptr keys, i64 seed): two for each round. Upper halves hold what no product reads.
static void make_keys(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V keys = LLVMGetParam(fn, 0), seed = LLVMGetParam(fn, 1), first[] = {seed, high32(c, seed)};
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, 2 * PHILOX_ROUNDS), cg_i64(c, 2), first, 2); cg_next(&l);) {
    V at = cg_at(c, c->i64, keys, l.i);
    cg_store(c, first[0], at);
    cg_put(c, first[1], at, cg_i64(c, 1));
    first[0] = cg_iadd(c, first[0], bits(c, c->i64, 0x9E3779B9u));
    first[1] = cg_iadd(c, first[1], bits(c, c->i64, 0xBB67AE85u));
  }
  LLVMBuildRetVoid(c->b);
}

// Keys of the run, on the stack: made once in a kernel, in its entry block.
static V round_keys(Cg *c) {
  if (c->keys_of == c->fn) return c->keys;
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i64}, 2, false);
  V make = cg_helper(c, "philox_keys", type, make_keys, NULL), seed = frame_u64(c, offsetof(TnFrame, seed));
  LLVMBasicBlockRef back = LLVMGetInsertBlock(c->b);
  LLVMPositionBuilderBefore(c->b, LLVMGetNextInstruction(seed));
  c->keys = LLVMBuildAlloca(c->b, LLVMArrayType2(c->i64, 2 * PHILOX_ROUNDS), "keys");
  LLVMBuildCall2(c->b, type, make, (V[]){c->keys, seed}, 2, "");
  LLVMPositionBuilderAtEnd(c->b, back);
  c->keys_of = c->fn;
  return c->keys;
}

// The rounds are a loop: written out, they were four fifths of what such a kernel took to compile.
void cg_random_words(Cg *c, V element, V id, V out[4]) {
  LLVMTypeRef t = LLVMTypeOf(element);
  V keys = round_keys(c), run = frame_u64(c, offsetof(TnFrame, counter)), first[4] = {element}, x[4];
  first[1] = high32(c, element);
  first[2] = spread(c, t, cg_zext(c, id, c->i64));
  first[3] = spread(c, t, run);
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, 2 * PHILOX_ROUNDS), cg_i64(c, 2), first, 4); cg_next(&l);) {
    V at = cg_at(c, c->i64, keys, l.i), key0 = spread(c, t, cg_load(c, c->i64, at));
    V key1 = spread(c, t, cg_get(c, c->i64, at, cg_i64(c, 1)));
    x[3] = cg_imul(c, low32(c, first[0]), bits(c, t, 0xD2511F53u));
    x[1] = cg_imul(c, low32(c, first[2]), bits(c, t, 0xCD9E8D57u));
    x[0] = mix(c, high32(c, x[1]), first[1], key0);
    x[2] = mix(c, high32(c, x[3]), first[3], key1);
    memcpy(first, x, sizeof x);
  }
  for (uint32_t k = 0; k < 4; k++) out[k] = cg_trunc(c, first[k], lanes_like(t, c->i32));
}

V cg_rand_bits(Cg *c, V element, V id, uint32_t word) {
  V x[4];
  cg_random_words(c, element, id, x);
  return x[word];
}

// The upper 24 bits as a float in [0, 2^24).
static V as_count(Cg *c, V x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return cg_sitofp(c, cg_lshr(c, x, bits(c, t, 8)), lanes_like(t, c->f32));
}

// A whole number that is not negative, times a power of two: the same bits as a product. LLVM makes one VCVT of an MVE
// conversion and a product with such a constant, and takes its count of bits from a register where the program has that
// number in one already.
static V scaled(Cg *c, V whole, double by) {
  return c->t->has_fma ? cg_fma(c, whole, k(c, whole, by), k(c, whole, 0)) : cg_fmul(c, whole, k(c, whole, by));
}

// Box-Muller: sqrt(-2 ln u1) cos(2 pi u2), u1 in (0, 1], u2 in [0, 1).
V cg_normal_of(Cg *c, V x[4]) {
  V u1 = as_count(c, x[0]), u2 = as_count(c, x[1]);
  u1 = scaled(c, cg_fadd(c, u1, k(c, u1, 1)), 0x1p-24);
  u2 = scaled(c, u2, 0x1p-24);
  // The nearest quarter turn is taken off exactly: cos(2 pi u2) = sin(2 pi (u2 - q/4) + (q + 1) pi/2).
  LLVMTypeRef it = lanes_like(LLVMTypeOf(u2), c->i32);
  V q = LLVMBuildFPToSI(c->b, cg_fadd(c, cg_fmul(c, u2, k(c, u2, 4)), k(c, u2, 0.5)), it, "");
  V whole = cg_sitofp(c, q, LLVMTypeOf(u2));
  V r = cg_fmul(c, cg_fsub(c, u2, scaled(c, whole, 0.25)), k(c, u2, 6.283185307179586));
  V turn = cg_sin_quadrant(c, r, cg_iadd(c, q, bits(c, it, 1)));
  V far = cg_fmul(c, cg_log(c, u1), k(c, u1, -2));
  return cg_fmul(c, sqrt_of(c, far), turn);
}

V cg_uniform_of(Cg *c, V x[4]) { return scaled(c, as_count(c, x[0]), 0x1p-24); }

static V random_primitive(Cg *c, Op op, V element, V id) {
  V x[4];
  cg_random_words(c, element, id, x);
  return op == OP_randn ? cg_normal_of(c, x) : cg_uniform_of(c, x);
}

// ---- rows
V cg_number(Cg *c, DType t, LLVMTypeRef type, double x) {
  return REAL >> t & 1 ? num(c, type, x) : bits(c, type, (uint64_t)ir_to_whole(t, x));
}

V cg_primitive_of(Cg *c, DType t, Op op, V *arg) {
  return REAL >> t & 1 ? cg_primitive(c, op, arg) : cg_integer_op(c, t, op, arg);
}

typedef struct {
  Cg *c;
  Val v;  // whose attributes stand in the row
  DType t;
  LLVMTypeRef type;
  V element;
} Row;

static V expand(Row *r, Op op, V *arg);
static bool is_real(const Row *r) { return REAL >> r->t & 1; }

static V number(const Row *r, double x) { return cg_number(r->c, r->t, r->type, x); }

static double attr_number(const Fn *f, Val v, Key key) {
  if (ir_key_kind[key] == KIND_NUM) return ir_attr_num(f, v, key, 0);
  return (double)ir_attr_int(f, v, key, 0);
}

static V expand_nodes(Row *r, Expr e, V *arg) {
  V stack[64];
  uint32_t top = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    const ExNode *n = &e.nodes[i];
    switch (n->kind) {
    case EX_ARG: stack[top++] = arg[n->arg]; break;
    case EX_NUM: stack[top++] = number(r, n->num); break;
    case EX_ATTR: stack[top++] = number(r, attr_number(r->c->f, r->v, (Key)n->arg)); break;
    case EX_OP:
      top -= ir_ops[n->op].n_min;
      stack[top] = expand(r, (Op)n->op, &stack[top]);
      top++;
      break;
    default:  // y, g and SAME stand in gradients only
      if (r->c->why) rt_text_add(r->c->why, "a forward row reads y or g; ");
      return LLVMGetPoison(r->type);
    }
  }
  return stack[0];
}

// ln(1 + e^a) = max(a, 0) + log1p(t), t = e^-|a|: what is left of 1 + t for small t would not do.
static V softplus_of(Cg *c, V a) {
  V size = cg_fneg(c, fabs_of(c, a)), t = cg_primitive(c, OP_exp, &size), y = cg_log1p(c, t);
  return cg_fadd(c, y, cg_select(c, cg_fcmp(c, LLVMRealOGT, a, k(c, a, 0)), a, k(c, a, 0)));
}

// Ops that would be longer or less exact by their row's expression; else NULL.
static V op_by_hand(Cg *c, Op op, V *arg) {
  V fast = c->t->fast_math && ir_ops[op].n_min == 1 ? cg_fast_primitive(c, op, arg[0]) : NULL;
  if (fast) return fast;
  switch (op) {
  case OP_gelu: return cg_gelu(c, arg[0]);
  case OP_silu: return has_fma(c) ? silu_of(c, arg[0]) : cg_silu_via_double(c, arg[0]);
  case OP_softplus: return has_fma(c) ? softplus_of(c, arg[0]) : cg_softplus_via_double(c, arg[0]);
  default: return NULL;
  }
}

static V expand(Row *r, Op op, V *arg) {
  if (op == OP_rand || op == OP_randn) return random_primitive(r->c, op, r->element, cg_id(r->c, r->v));
  V y = is_real(r) ? op_by_hand(r->c, op, arg) : NULL;
  if (y) return y;
  Expr e = ir_forward(op);
  if (e.nodes && (is_real(r) || !cg_is_quotient(op))) return expand_nodes(r, e, arg);
  return cg_primitive_of(r->c, r->t, op, arg);
}

V cg_pointwise_op(Cg *c, Val v, V *arg, V element) {
  const Ins *in = ir_ins(c->f, v);
  DType t = (DType)(in->n_args ? ir_ins(c->f, ir_arg(c->f, v, 0)) : in)->dtype;
  Row r = {.c = c, .v = v, .t = t, .type = c->vf, .element = element};
  if (in->n_args > 0) r.type = LLVMTypeOf(arg[0]);
  else if (element) r.type = lanes_like(LLVMTypeOf(element), c->f32);
  return expand(&r, (Op)in->op, arg);
}
