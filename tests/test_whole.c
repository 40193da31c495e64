// Arithmetic on whole numbers and bool: each call on each dtype, of every pair of awkward numbers, compiled, against sums
// in 128 bits written down here, and the interpreter against the same.
#include "frontend/graph/function.h"
#include "frontend/tenure.h"
#include "ir/interp/interpret.h"
#include "tests/check.h"
#include "tests/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef __int128 Wide;
typedef Wide Want(DType t, Wide a, Wide b);

// ---- what is right
static int bits_of(DType t) { return t == DT_BOOL ? 1 : 8 * ir_dtype_bytes[t]; }
static bool has_sign(DType t) { return t == DT_I64 || t == DT_I32; }

static Wide wrapped(DType t, Wide x) {
  Wide n = (Wide)1 << bits_of(t), y = ((x % n) + n) % n;
  return has_sign(t) && y >= n / 2 ? y - n : y;
}

static Wide floor_of(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static Wide add(DType t, Wide a, Wide b) { return t == DT_BOOL ? a || b : a + b; }
static Wide sub(DType t, Wide a, Wide b) { return (void)t, a - b; }
static Wide mul(DType t, Wide a, Wide b) { return (void)t, a * b; }
static Wide maximum(DType t, Wide a, Wide b) { return (void)t, a > b ? a : b; }
static Wide minimum(DType t, Wide a, Wide b) { return (void)t, a < b ? a : b; }
static Wide floor_divide(DType t, Wide a, Wide b) { return (void)t, b ? floor_of(a, b) : 0; }
static Wide trunc_divide(DType t, Wide a, Wide b) { return (void)t, b ? a / b : 0; }
static Wide of_remainder(DType t, Wide a, Wide b) { return (void)t, b ? a - b * floor_of(a, b) : a; }
static Wide of_fmod(DType t, Wide a, Wide b) { return (void)t, b ? a % b : a; }
static Wide of_pow(DType t, Wide a, Wide b) {
  Wide y = 1;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  for (Wide square = a; b; b /= 2, square = wrapped(t, square * square))
    if (b % 2) y = wrapped(t, y * square);
  return y;
}
static Wide gt(DType t, Wide a, Wide b) { return (void)t, a > b; }
static Wide ge(DType t, Wide a, Wide b) { return (void)t, a >= b; }
static Wide lt(DType t, Wide a, Wide b) { return (void)t, a < b; }
static Wide le(DType t, Wide a, Wide b) { return (void)t, a <= b; }
static Wide eq(DType t, Wide a, Wide b) { return (void)t, a == b; }
static Wide ne(DType t, Wide a, Wide b) { return (void)t, a != b; }
static Wide both(DType t, Wide a, Wide b) { return (void)t, a & b; }
static Wide either(DType t, Wide a, Wide b) { return (void)t, a | b; }
static Wide one_alone(DType t, Wide a, Wide b) { return (void)t, a ^ b; }
static bool is_shift(DType t, Wide b) { return b >= 0 && b < bits_of(t); }
static Wide left(DType t, Wide a, Wide b) { return is_shift(t, b) ? a * ((Wide)1 << b) : 0; }
static Wide right(DType t, Wide a, Wide b) { return is_shift(t, b) ? floor_of(a, (Wide)1 << b) : -(a < 0); }
static Wide and (DType t, Wide a, Wide b) { return (void)t, a && b; }
static Wide or (DType t, Wide a, Wide b) { return (void)t, a || b; }
static Wide xor (DType t, Wide a, Wide b) { return (void)t, !a != !b; } static Wide neg(DType t, Wide a, Wide b) {
  return (void)t, (void)b, -a;
}
static Wide of_abs(DType t, Wide a, Wide b) { return (void)t, (void)b, a < 0 ? -a : a; }
static Wide square(DType t, Wide a, Wide b) { return (void)t, (void)b, a * a; }
static Wide sign(DType t, Wide a, Wide b) { return (void)t, (void)b, (a > 0) - (a < 0); }
static Wide relu(DType t, Wide a, Wide b) { return (void)t, (void)b, a > 0 ? a : 0; }
static Wide inverted(DType t, Wide a, Wide b) { return (void)b, t == DT_BOOL ? !a : ~a; }
static Wide not(DType t, Wide a, Wide b) { return (void)t, (void)b, !a; }
static Wide clamped(DType t, Wide a, Wide b) { return (void)t, (void)b, a < 3 ? 3 : a > 100 ? 100 : a; }
static Wide at_least_7(DType t, Wide a, Wide b) { return (void)t, (void)b, a < 7 ? 7 : a; }
static Wide itself(DType t, Wide a, Wide b) { return (void)t, (void)b, a; }

// ---- calls: by name, since macros stand before functions
#define CALL1(name, expression) \
  static tn_tensor call_##name(tn_tensor a, tn_tensor b) { return (void)b, expression; }
#define CALL2(name) \
  static tn_tensor call_##name(tn_tensor a, tn_tensor b) { return tn_##name(a, b); }
CALL2(add)
CALL2(sub)
CALL2(mul)
CALL2(max)
CALL2(min)
CALL2(floor_divide)
CALL2(trunc_divide)
CALL2(remainder)
CALL2(fmod)
CALL2(pow)
CALL2(gt)
CALL2(ge)
CALL2(lt)
CALL2(le)
CALL2(eq)
CALL2(ne)
CALL2(bitwise_and)
CALL2(bitwise_or)
CALL2(bitwise_xor)
CALL2(bitwise_left_shift)
CALL2(bitwise_right_shift)
CALL2(logical_and)
CALL2(logical_or)
CALL2(logical_xor)
CALL2(clamp_min)
CALL2(clamp_max)
CALL1(neg, tn_neg(a))
CALL1(abs, tn_abs(a))
CALL1(square, tn_square(a))
CALL1(sign, tn_sign(a))
CALL1(relu, tn_relu(a))
CALL1(floor, tn_floor(a))
CALL1(trunc, tn_trunc(a))
CALL1(bitwise_not, tn_bitwise_not(a))
CALL1(logical_not, tn_logical_not(a))
CALL1(clamp, tn_clamp(a, 3, 100))
CALL1(clamp_low, tn_clamp(a, 7, INFINITY))
CALL1(add_scalar, tn_add_scalar(a, 7))
static tn_tensor call_where(tn_tensor a, tn_tensor b) { return tn_where(tn_gt(a, b), a, b); }
static tn_tensor call_where_itself(tn_tensor a, tn_tensor b) { return tn_where(a, b, a); }
static Wide b_where_a(DType t, Wide a, Wide b) { return (void)t, a ? b : a; }
static Wide plus_7(DType t, Wide a, Wide b) { return (void)t, (void)b, a + 7; }

static const struct {
  const char *name;
  tn_tensor (*call)(tn_tensor a, tn_tensor b);
  Want *want;
  uint32_t dtypes;
  bool gives_bool;
} ops[] = {
    {"add", call_add, add, COUNTABLE, false},
    {"sub", call_sub, sub, WHOLE, false},
    {"mul", call_mul, mul, COUNTABLE, false},
    {"max", call_max, maximum, COUNTABLE, false},
    {"min", call_min, minimum, COUNTABLE, false},
    {"floor_divide", call_floor_divide, floor_divide, WHOLE, false},
    {"trunc_divide", call_trunc_divide, trunc_divide, WHOLE, false},
    {"remainder", call_remainder, of_remainder, WHOLE, false},
    {"fmod", call_fmod, of_fmod, WHOLE, false},
    {"pow", call_pow, of_pow, WHOLE, false},
    {"gt", call_gt, gt, COUNTABLE, true},
    {"ge", call_ge, ge, COUNTABLE, true},
    {"lt", call_lt, lt, COUNTABLE, true},
    {"le", call_le, le, COUNTABLE, true},
    {"eq", call_eq, eq, COUNTABLE, true},
    {"ne", call_ne, ne, COUNTABLE, true},
    {"bitwise_and", call_bitwise_and, both, COUNTABLE, false},
    {"bitwise_or", call_bitwise_or, either, COUNTABLE, false},
    {"bitwise_xor", call_bitwise_xor, one_alone, COUNTABLE, false},
    {"bitwise_left_shift", call_bitwise_left_shift, left, WHOLE, false},
    {"bitwise_right_shift", call_bitwise_right_shift, right, WHOLE, false},
    {"logical_and", call_logical_and, and, COUNTABLE, true},
    {"logical_or", call_logical_or, or, COUNTABLE, true},
    {"logical_xor", call_logical_xor, xor, COUNTABLE, true},
    {"clamp_min", call_clamp_min, maximum, WHOLE, false},
    {"clamp_max", call_clamp_max, minimum, WHOLE, false},
    {"neg", call_neg, neg, WHOLE, false},
    {"abs", call_abs, of_abs, WHOLE, false},
    {"square", call_square, square, WHOLE, false},
    {"sign", call_sign, sign, WHOLE, false},
    {"relu", call_relu, relu, WHOLE, false},
    {"floor", call_floor, itself, WHOLE, false},
    {"trunc", call_trunc, itself, WHOLE, false},
    {"bitwise_not", call_bitwise_not, inverted, COUNTABLE, false},
    {"logical_not", call_logical_not, not, COUNTABLE, true},
    {"clamp", call_clamp, clamped, WHOLE, false},
    {"clamp_low", call_clamp_low, at_least_7, WHOLE, false},
    {"add_scalar", call_add_scalar, plus_7, WHOLE, false},
    {"where", call_where, maximum, COUNTABLE, false},
    {"where_itself", call_where_itself, b_where_a, COUNTABLE, false},
};
enum { N_OPS_HERE = sizeof ops / sizeof *ops, MOST = 32, PAIRS = MOST * MOST };

// ---- numbers
static const int64_t numbers[] = {0,
                                  1,
                                  -1,
                                  2,
                                  -2,
                                  3,
                                  7,
                                  -7,
                                  8,
                                  31,
                                  32,
                                  63,
                                  64,
                                  100,
                                  127,
                                  128,
                                  255,
                                  -128,
                                  INT32_MAX,
                                  INT32_MIN,
                                  (1 << 24) + 1,
                                  1 << 24,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX - 1,
                                  (INT64_C(1) << 53) + 1,
                                  -(INT64_C(1) << 53) - 1,
                                  INT64_C(1) << 53,
                                  INT64_C(0x123456789abcdef)};
enum { N_NUMBERS = sizeof numbers / sizeof *numbers };

// Those that t holds; of bool also a byte that counts as 1.
static uint32_t numbers_of(DType t, int64_t *out) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < N_NUMBERS; k++)
    if (t == DT_BOOL ? numbers[k] == 0 || numbers[k] == 1 || numbers[k] == 7 : wrapped(t, numbers[k]) == numbers[k])
      out[n++] = numbers[k];
  return n;
}

static void put(DType t, void *at, uint32_t k, int64_t x) {
  if (t == DT_I64) ((int64_t *)at)[k] = x;
  else if (t == DT_I32) ((int32_t *)at)[k] = (int32_t)x;
  else ((uint8_t *)at)[k] = (uint8_t)x;
}

static int64_t taken(DType t, const void *at, uint32_t k) {
  if (t == DT_I64) return ((const int64_t *)at)[k];
  return t == DT_I32 ? ((const int32_t *)at)[k] : ((const uint8_t *)at)[k];
}

// ---- one op of one dtype
typedef struct {
  DType t, to;
  uint32_t op, n;  // n x n pairs
  int64_t x[MOST];
} Case;

// A choice leaves a byte as it is.
static bool moves(uint32_t op) { return ops[op].call == call_where || ops[op].call == call_where_itself; }

static bool is_right(const Case *c, uint32_t k, int64_t got, const char *who) {
  Wide a = c->x[k / c->n], b = c->x[k % c->n];
  if (c->t == DT_BOOL) a = a != 0, b = b != 0;
  if (c->t == DT_BOOL && moves(c->op)) got = got != 0;
  Wide want = wrapped(c->to, ops[c->op].want(c->t, a, b));
  if (want == got) return true;
  printf("  %s: %s of %s, %lld and %lld, is %lld, not %lld\n", who, ops[c->op].name, ir_dtype_name[c->t], (long long)a,
         (long long)b, (long long)got, (long long)want);
  return false;
}

// Of f32 and low planes the interpreter has what doubles hold; here both operands come as two planes.
static Tensor planes(RtArena *mem, const int64_t *x, uint32_t n) {
  Tensor t = {.v = rt_alloc(mem, n * sizeof(double)), .n = n, .low = rt_alloc(mem, n * sizeof(double))};
  for (uint32_t k = 0; k < n; k++) {
    t.v[k] = (double)x[k];
    t.low[k] = (double)(int64_t)((Wide)x[k] - (Wide)t.v[k]);
  }
  return t;
}

static int64_t whole_of(Tensor t, uint32_t k) { return (int64_t)((Wide)t.v[k] + (Wide)(t.low ? t.low[k] : 0)); }

static void interpret(const Case *c, const Fn *f) {
  RtArena *mem = rt_arena_new();
  Tensor out = {0}, in[] = {planes(mem, c->x, c->n), planes(mem, c->x, c->n)};
  int64_t slots[8] = {0};
  InterpEnv env = {.slots = slots, .in = in, .out = &out, .mem = mem};
  RtText why = {.mem = mem};
  bool good = CHECK(ir_interpret(f, &env, &why) && out.n == (int64_t)c->n * c->n);
  for (uint32_t k = 0; good && k < c->n * c->n; k++) good = CHECK(is_right(c, k, whole_of(out, k), "interpreter"));
  rt_arena_free(mem);
}

static void check(const Case *c) {
  static int64_t column[MOST], row[MOST], y[PAIRS];
  tn_program *p = tn_program_create("whole");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", (tn_dtype)c->t, TN_SHAPE(c->n, 1)),
            b = tn_input(f, "b", (tn_dtype)c->t, TN_SHAPE(1, c->n));
  tn_tensor wide = tn_expand(a, TN_SHAPE(c->n, c->n));
  tn_output(f, "y", ops[c->op].call(wide, b));
  tn_function_end(f);
  interpret(c, f->ir);
  tn_model *m = tn_compile(p, .n_workers = 2);
  for (uint32_t k = 0; k < c->n; k++) put(c->t, column, k, c->x[k]), put(c->t, row, k, c->x[k]);
  tn_array in[] = {tn_array_of(column, (tn_dtype)c->t, (int64_t[]){c->n, 1}, 2),
                   tn_array_of(row, (tn_dtype)c->t, (int64_t[]){1, c->n}, 2)};
  tn_array out = tn_array_of(y, (tn_dtype)c->to, (int64_t[]){c->n, c->n}, 2);
  bool good = CHECK(m && tn_run(m, "run", in, 2, &out, 1) == TN_OK);
  if (!good) printf("  %s of %s: %s\n", ops[c->op].name, ir_dtype_name[c->t], m ? tn_error_text(m) : "");
  if (!m) tn_report(p, stdout);
  for (uint32_t k = 0; good && k < c->n * c->n; k++) good = CHECK(is_right(c, k, taken(c->to, y, k), "code"));
  tn_model_free(m);
  tn_program_free(p);
}

static void every_op_of_every_dtype(void) {
  for (uint32_t op = 0; op < N_OPS_HERE; op++)
    for (DType t = DT_NONE + 1; t < N_DTYPES; t++) {
      if (!(ops[op].dtypes >> t & 1)) continue;
      Case c = {.t = t, .to = ops[op].gives_bool ? DT_BOOL : t, .op = op};
      c.n = numbers_of(t, c.x);
      check(&c);
    }
}

// ---- reductions: of [ROWS, n] along each axis, and of all
typedef tn_tensor Reducer(tn_tensor x, int axis);
#define REDUCE(name)                                                   \
  static tn_tensor reduce_##name(tn_tensor x, int axis) {              \
    return axis < 0 ? tn_##name(x) : tn_##name##_axis(x, axis, false); \
  }
#define PLACE(name)                                                                                  \
  static tn_tensor reduce_##name(tn_tensor x, int axis) {                                            \
    return tn_##name##_axis(axis < 0 ? tn_reshape(x, TN_SHAPE(-1)) : x, axis < 0 ? 0 : axis, false); \
  }
REDUCE(sum)
REDUCE(prod)
REDUCE(amax)
REDUCE(amin)
REDUCE(any)
REDUCE(all)
REDUCE(count_nonzero)
PLACE(argmax)
PLACE(argmin)
typedef enum { SUM, PROD, MOST_OF, LEAST_OF, ANY_OF, ALL_OF, COUNT, PLACE_OF_MOST, PLACE_OF_LEAST, N_REDUCTIONS } How;
static Reducer *const reducers[] = {reduce_sum, reduce_prod,          reduce_amax,   reduce_amin,  reduce_any,
                                    reduce_all, reduce_count_nonzero, reduce_argmax, reduce_argmin};

static DType result_of(How how, DType t) {
  if (how == ANY_OF || how == ALL_OF) return DT_BOOL;
  return how == MOST_OF || how == LEAST_OF ? t : DT_I64;
}

// Of n elements, `step` apart.
static Wide reduced(How how, const int64_t *x, uint32_t n, uint32_t step) {
  Wide y = how == PROD || how == ALL_OF;
  uint32_t best = 0;
  for (uint32_t k = 0; k < n; k++) {
    Wide e = x[k * step], so_far = x[best * step];
    if (how == PLACE_OF_LEAST || how == LEAST_OF ? e < so_far : e > so_far) best = k;
    switch (how) {
    case SUM: y = wrapped(DT_I64, y + e); break;
    case PROD: y = wrapped(DT_I64, y * e); break;
    case ANY_OF: y |= e != 0; break;
    case ALL_OF: y &= e != 0; break;
    case COUNT: y += e != 0; break;
    default: break;
    }
  }
  if (how == MOST_OF || how == LEAST_OF) return x[best * step];
  return how == PLACE_OF_MOST || how == PLACE_OF_LEAST ? best : y;
}

enum { ROWS = 5, WIDEST = 70 };

static void reduce(DType t, const int64_t *x, uint32_t n, int axis) {
  static int64_t in[ROWS * WIDEST], out[N_REDUCTIONS][WIDEST];
  tn_program *p = tn_program_create("reduce");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", (tn_dtype)t, TN_SHAPE(ROWS, n));
  for (How how = 0; how < N_REDUCTIONS; how++) {
    char name[8] = {'y', (char)('0' + how)};
    tn_output(f, name, reducers[how](a, axis));
  }
  tn_function_end(f);
  RtArena *mem = rt_arena_new();
  Tensor same = planes(mem, x, ROWS * n), found[N_REDUCTIONS];
  InterpEnv env = {.slots = (int64_t[8]){0}, .in = &same, .out = found, .mem = mem};
  RtText why = {.mem = mem};
  CHECK(ir_interpret(f->ir, &env, &why));
  tn_model *m = tn_compile(p, .n_workers = 2);
  for (uint32_t k = 0; k < ROWS * n; k++) put(t, in, k, x[k]);
  uint32_t n_out = axis < 0 ? 1 : axis ? ROWS : n;
  tn_array arg = tn_array_of(in, (tn_dtype)t, (int64_t[]){ROWS, n}, 2), y[N_REDUCTIONS];
  for (How how = 0; how < N_REDUCTIONS; how++)
    y[how] = tn_array_of(out[how], (tn_dtype)result_of(how, t), (int64_t[]){n_out}, axis >= 0);
  bool good = CHECK(m && tn_run(m, "run", &arg, 1, y, N_REDUCTIONS) == TN_OK);
  if (!m) tn_report(p, stdout);
  for (How how = 0; good && how < N_REDUCTIONS; how++)
    for (uint32_t k = 0; good && k < n_out; k++) {
      const int64_t *first = axis < 0 ? x : axis ? x + k * n : x + k;
      Wide want = reduced(how, first, axis < 0 ? ROWS * n : axis ? n : ROWS, axis == 0 ? n : 1);
      int64_t code = taken(result_of(how, t), out[how], k), oracle = whole_of(found[how], k);
      good = CHECK(code == want && oracle == want);
      if (!good)
        printf("  reduction %d of %s[%d,%u] along %d: %lld, interpreter %lld, not %lld\n", (int)how, ir_dtype_name[t],
               ROWS, n, axis, (long long)code, (long long)oracle, (long long)want);
    }
  rt_arena_free(mem);
  tn_model_free(m);
  tn_program_free(p);
}

static void reductions_of_every_dtype(void) {
  static const uint32_t widths[] = {1, 3, 16, 19, WIDEST};
  for (DType t = DT_NONE + 1; t < N_DTYPES; t++)
    for (uint32_t w = 0; w < 5 && COUNTABLE >> t & 1; w++) {
      int64_t of[MOST], x[ROWS * WIDEST];
      uint32_t n = numbers_of(t, of);
      for (uint32_t k = 0; k < ROWS * widths[w]; k++)
        x[k] = t == DT_BOOL ? (k * 7 + k / 3) % 4 == 0 : of[(k * 11 + 5) % n];
      for (int axis = -1; axis < 2; axis++) reduce(t, x, widths[w], axis);
    }
}

static void means_are_of_f32(void) {
  tn_program *p = tn_program_create("mean");
  tn_function *f = tn_function_begin(p, "run");
  CHECK(!tn_mean(tn_input(f, "x", TN_I32, TN_SHAPE(3))).v);
  CHECK_HAS(report_of(p), "tn_mean: x must be f32; the operand is i32[3]");
  CHECK_HAS(report_of(p), "tn_cast(x, TN_F32) makes it f32");
  tn_program_free(p);
}

// ---- dtypes of results
static tn_dtype common(tn_dtype a, uint32_t rank_a, tn_dtype b, uint32_t rank_b) {
  tn_program *p = tn_program_create("common");
  tn_function *f = tn_function_begin(p, "run");
  tn_shape of[] = {{.rank = 0}, TN_SHAPE(3)};
  tn_tensor y = tn_add(tn_input(f, "a", a, of[rank_a]), tn_input(f, "b", b, of[rank_b]));
  tn_dtype t = y.v ? (tn_dtype)fe_ins(y)->dtype : (tn_dtype)0;
  tn_program_free(p);
  return t;
}

// As in PyTorch: tests/op_cases/whole.def has literals of some.
static void operands_are_promoted(void) {
  static const tn_dtype of[] = {TN_BOOL, TN_U8, TN_I32, TN_I64, TN_F32};
  for (uint32_t i = 0; i < 5; i++)
    for (uint32_t j = 0; j < 5; j++) {
      CHECK(common(of[i], 1, of[j], 1) == of[i > j ? i : j]);
      uint32_t kind_i = (i > 0) + (i == 4), kind_j = (j > 0) + (j == 4);  // bool, whole, float
      CHECK(common(of[i], 1, of[j], 0) == of[kind_j > kind_i ? j : i]);
      CHECK(common(of[i], 0, of[j], 1) == of[kind_i > kind_j ? i : j]);
      CHECK(common(of[i], 0, of[j], 0) == of[i > j ? i : j]);
    }
}

static tn_dtype with_number(tn_dtype t, double x) {
  tn_program *p = tn_program_create("number");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor y = tn_mul(tn_input(f, "a", t, TN_SHAPE(3)), tn_scalar(f, x));
  tn_dtype got = y.v ? (tn_dtype)fe_ins(y)->dtype : (tn_dtype)0;
  tn_program_free(p);
  return got;
}

static void numbers_take_the_dtype_of_the_others(void) {
  CHECK(with_number(TN_I32, 2) == TN_I32 && with_number(TN_U8, 255) == TN_U8 && with_number(TN_I64, -1) == TN_I64);
  CHECK(with_number(TN_I32, 0.5) == TN_F32 && with_number(TN_F32, 2) == TN_F32 && with_number(TN_BOOL, 2) == TN_I64);
  CHECK(with_number(TN_U8, 256) == TN_U8 && with_number(TN_I32, 3e9) == TN_I32 && with_number(TN_I64, 1e30) == TN_F32);
}

// ---- misuse
static void what_is_not_defined_is_refused(void) {
  static const struct {
    tn_dtype t;
    const char *why;
  } cases[] = {{TN_BOOL, "a must be f32 or i64 or i32 or u8; operands are bool[3] and bool[3]"},
               {TN_F16, "a must be f32 or i64 or i32 or u8; operands are f16[3] and f16[3]"},
               {TN_BF16, "tn_cast(a, TN_F32) makes it f32"}};
  for (uint32_t k = 0; k < 3; k++) {
    tn_program *p = tn_program_create("misuse");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor x = tn_input(f, "x", cases[k].t, TN_SHAPE(3));
    CHECK(!tn_sub(x, x).v);
    CHECK_HAS(report_of(p), cases[k].why);
    tn_program_free(p);
  }
  tn_program *p = tn_program_create("misuse");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3)), n = tn_input(f, "n", TN_I32, TN_SHAPE(3));
  CHECK(!tn_bitwise_and(x, x).v && !tn_add_(tn_clone(n), x).v);
  CHECK_HAS(report_of(p), "a must be i64 or i32 or u8 or bool");
  CHECK_HAS(report_of(p), "tn_add_ makes f32[3], which does not fit into i32[3]");
  tn_program_free(p);
}

// How many elements are not 0, and whether some or all are, is found without storing which.
static void truth_takes_no_memory(tn_dtype t) {
  enum { HIGH = 3, LENGTH = 40000 };
  static unsigned char bytes[HIGH * LENGTH * 8];
  tn_program *p = tn_program_create("truth");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", t, TN_SHAPE(HIGH, LENGTH));
  tn_output(f, "count", tn_count_nonzero(x));
  tn_output(f, "rows", tn_count_nonzero_axis(x, 0, false));
  tn_output(f, "any", tn_any(x));
  tn_output(f, "all", tn_all_axis(x, 1, false));
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_plan plan;
  if (!CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK)) return;
  if (!CHECK(plan.peak_bytes < 1 << 12)) printf("  peak of %lld bytes\n", (long long)plan.peak_bytes);
  size_t width = t == TN_U8 ? 1 : t == TN_I64 ? 8 : 4;
  memset(bytes, 0, sizeof bytes);
  int64_t count = -1, rows[LENGTH];
  unsigned char any = 0, all[HIGH];
  for (size_t k = 0; k < HIGH * LENGTH; k++)  // one bit alone: the highest, of f32 that of -0, or the lowest
    if (k / LENGTH == 1 || k % 7 == 0)
      bytes[k * width + (k % 2 && t != TN_F32 ? width - 1 : 0)] = k % 2 && t != TN_F32 ? 0x80 : 1;
  if (t == TN_F32) bytes[5 * width + 3] = 0x80;  // -0 is 0
  CHECK(tn_run(m, "run", TN_IN((tn_array){.data = bytes, .dtype = t, .rank = 2, .dims = {HIGH, LENGTH}}),
               TN_OUT((tn_array){.data = &count, .dtype = TN_I64}, tn_i64(rows, LENGTH),
                      (tn_array){.data = &any, .dtype = TN_BOOL}, tn_bool(all, HIGH))) == TN_OK);
  int64_t wanted = 0;
  for (int64_t k = 0; k < HIGH * LENGTH; k++) wanted += k / LENGTH == 1 || k % 7 == 0;
  CHECK(count == wanted && any && !all[0] && all[1] && !all[2]);
  for (int64_t k = 0; k < LENGTH; k++)
    if (!CHECK(rows[k] == 1 + (k % 7 == 0) + ((k + 2 * LENGTH) % 7 == 0))) break;
  tn_model_free(m), tn_program_free(p);
}

int main(void) {
  every_op_of_every_dtype();
  reductions_of_every_dtype();
  static const tn_dtype dtypes[] = {TN_U8, TN_I32, TN_I64, TN_F32};
  for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) truth_takes_no_memory(dtypes[k]);
  means_are_of_f32();
  operands_are_promoted();
  numbers_take_the_dtype_of_the_others();
  what_is_not_defined_is_refused();
  return check_report();
}
