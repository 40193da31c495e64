// What passes make of a program against the program itself: no rewrite changes a bit.
//
// Programs of awkward numbers (zeros of both signs, infinities, NaN, denormals, the largest and smallest, neighbours of
// 1), as constants and as inputs, go three ways: as written through the interpreter in single precision, simplified
// through the same, and compiled for every target that this machine can run. Primitives that are rounded once
// (NOT_ROUNDED and ROUNDED_ONCE in ir/ops.def), and what consists of them, have the same bits on all three ways; transcendental ones the same
// before and after simplify, and within their error when compiled. NaN equals NaN; the sign of a zero is open where max
// or min made it.
//
//   test_folds [SEED [ROUNDS]]     the random part, from another seed or longer
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/entry.h"
#include "tests/pointwise.h"
#include "tests/sample.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const float awkward[] = {
    0,
    -0.0f,
    1,
    -1,
    0.5f,
    -0.5f,
    2,
    -2,
    3,
    0.1f,
    16777216,
    1e30f,
    -1e30f,
    1e-30f,
    FLT_MAX,
    -FLT_MAX,
    FLT_MIN,
    -FLT_MIN,
    0x1p-149f,
    -0x1p-149f,
    0x0.fffffep-126f,
    1 + FLT_EPSILON,
    1 - FLT_EPSILON / 2,
    INFINITY,
    -INFINITY,
    NAN,
};
enum { N = sizeof awkward / sizeof *awkward, MAX_IN = 3, MAX_OUT = 1024, N_NAMES = 3, LEAST_TERNARY = 9 };

static RtTeam *team;

// ---- three ways through a program
typedef struct {
  RtArena *mem;
  const char *text;
  Tensor in[MAX_IN];
} Case;

static Prog *parse(const Case *c) {
  RtDiags diags = {.mem = c->mem};
  Prog *p = ir_parse(c->mem, c->text, strlen(c->text), "folds.tir", &diags);
  if (!CHECK(p)) rt_diags_print(&diags, stdout);
  return p;
}

// The program that was written, in a form that the interpreter runs; and what simplify makes of it.
#define AS_WRITTEN "check_scopes,check_rows,functionalize,outline_scans,grad"
#define SIMPLIFIED AS_WRITTEN ",simplify,sparse_updates,fold_grad_scale"

static const Tensor *interpret(const Case *c, const char *passes, bool single) {
  Prog *p = parse(c);
  if (!p || !CHECK(ir_run_passes(p->fns[0], passes, NULL, NULL))) return NULL;
  RtText why = {.mem = c->mem};
  InterpEnv env = {.mem = c->mem, .in = c->in, .single = single};
  env.out = rt_alloc(c->mem, MAX_OUT * sizeof *env.out);
  return CHECK(ir_interpret(p->fns[0], &env, &why)) ? env.out : NULL;
}

static void *encoded(const Case *c, DType type, Tensor t) {
  float *x = (void *)new_block(c->mem, t.n * 8).at;
  for (int64_t i = 0; i < t.n; i++) {
    if (type == DT_I64) ((int64_t *)(void *)x)[i] = (int64_t)t.v[i];
    else x[i] = (float)t.v[i];
  }
  return x;
}

static void bind(const Case *c, const Fn *f, void **in, void **out) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    int64_t at = ir_attr_int(f, (Val){i}, KEY_index, 0);
    if (ins->op == OP_input) in[at] = encoded(c, (DType)ins->dtype, c->in[at]);
    if (ins->op == OP_output) out[at] = new_block(c->mem, ir_type_bytes(f->prog, DT_I64, ins->shape)).at;
  }
}

static const Tensor *collect(const Case *c, const Fn *f, void *const *out) {
  Tensor *all = rt_alloc(c->mem, MAX_OUT * sizeof *all);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    if (ins->op != OP_output) continue;
    int64_t at = ir_attr_int(f, (Val){i}, KEY_index, 0), n = ir_shape_bound(f->prog, ins->shape);
    all[at] = (Tensor){.v = rt_alloc(c->mem, (size_t)n * sizeof(double)), .n = n};
    bool is_int = ir_ins(f, ir_arg(f, (Val){i}, 0))->dtype == DT_I64;
    for (int64_t k = 0; k < n; k++)
      all[at].v[k] = is_int ? (double)((int64_t *)out[at])[k] : (double)((float *)out[at])[k];
  }
  return all;
}

static const Tensor *compiled(const Case *c, const Target *t) {
  Prog *p = parse(c);
  if (!p) return NULL;
  cg_plan_for(p, t);
  RtText why = {.mem = c->mem};
  if (!CHECK(ir_run_passes(p->fns[0], NULL, NULL, NULL) && ir_plan_program_memory(p))) return NULL;
  CgJit *jit = entry_jit(p, t, &why);
  if (!CHECK(jit)) return printf("%s\n", why.text), NULL;
  const Fn *f = p->fns[0];
  void *in[MAX_IN], *out[MAX_OUT];
  bind(c, f, in, out);
  TnKernelStatus status = {0};
  TnFrame frame = {.in = in,
                   .out = out,
                   .status = &status,
                   .team = team,
                   .blocks = worker_blocks(t->worker_bytes, rt_team_size(team))};
  frame.seg[SEG_ARENA] = new_block(c->mem, f->stats.peak_bytes).at;
  frame.seg[SEG_CONST] = new_block(c->mem, p->const_bytes).at;
  if (p->const_bytes) ir_fill_const(p, frame.seg[SEG_CONST]);
  run_entry(entry_find(jit, cg_symbol(c->mem, p, f)), &frame);
  const Tensor *all = collect(c, f, out);
  cg_jit_free(jit);
  return all;
}

// ---- comparing
typedef struct {
  double ulp;      // of the exact result; 0: the same bits as in single precision
  bool open_zero;  // the sign of a zero is not told
  bool finite;     // the expression is no reference for infinite operands
} Rule;

static double units(double got, double want) {
  int e;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (isinf((float)want) || isinf(got)) return (float)want == (float)got ? 0 : INFINITY;
  frexp(want, &e);
  return fabs(got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static bool agrees(double got, double want, Rule r) {
  if (isnan(want)) return isnan(got);
  if (got == 0 && (float)want == 0 && !r.open_zero && signbit(got) != signbit(want)) return false;
  return r.ulp > 0 ? units(got, want) <= r.ulp : got == want;
}

// Element i of a value as an expression of constants and elements of inputs: max(x = -0, 0.5).
static void print_row(const Case *c, const Fn *f, Val v, int64_t i, uint32_t depth) {
  Op op = (Op)ir_ins(f, v)->op;
  uint32_t n = ir_ins(f, v)->n_args;
  if (op == OP_const || op == OP_full) {
    printf("%.9g", ir_attr_num(f, v, KEY_value, 0));
  } else if (op == OP_expand) {
    print_row(c, f, ir_arg(f, v, 0), i, depth);
  } else if (op == OP_input) {
    int64_t at = ir_attr_int(f, v, KEY_index, 0);
    printf("%c", "xyz"[at]);
    if (i < c->in[at].n) printf(" = %.9g", c->in[at].v[i]);
  } else {
    printf("%s(", ir_ops[op].name);
    for (uint32_t k = 0; k < n && depth; k++, printf("%s", k < n ? ", " : ""))
      print_row(c, f, ir_arg(f, v, k), i, depth - 1);
    printf(depth ? ")" : "..)");
  }
}

static void print_failure(const Case *c, uint32_t k, int64_t i) {
  const Prog *p = parse(c);
  for (uint32_t v = 1; p && v < p->fns[0]->n_ins; v++)
    if (ir_ins(p->fns[0], (Val){v})->op == OP_output && ir_attr_int(p->fns[0], (Val){v}, KEY_index, 0) == k)
      print_row(c, p->fns[0], ir_arg(p->fns[0], (Val){v}, 0), i, 4);
}

static bool same(const Case *c, const char *way, const Tensor *got, const Tensor *want, uint32_t n_out, Rule r) {
  for (uint32_t k = 0; got && want && k < n_out; k++)
    for (int64_t i = 0; i < want[k].n; i++) {
      if (CHECK(got[k].n == want[k].n && agrees(got[k].v[i], want[k].v[i], r))) continue;
      printf("  %s, output %u, element %lld: ", way, k, (long long)i);
      print_failure(c, k, i);
      printf(" is %.9g (%a), expected %.9g\n", got[k].v[i], got[k].v[i], want[k].v[i]);
      return false;
    }
  return got && want;
}

// Every target that this machine can run; `check` gets what its code gives.
static void each_target(const Case *c, void (*check)(const Case *c, const char *name, const Tensor *got, void *ctx),
                        void *ctx) {
  static const char *const names[] = {"avx512", "avx2", "neon", "generic"};
  for (uint32_t k = 0; k < sizeof names / sizeof *names; k++) {
    Target t;
    RtText why = {.mem = c->mem};
    if (cg_target_pick(&t, names[k], &why)) check(c, names[k], compiled(c, &t), ctx);
  }
}

static void check_simplified(const Case *c, uint32_t n_out) {
  same(c, "simplified", interpret(c, SIMPLIFIED, true), interpret(c, AS_WRITTEN, true), n_out, (Rule){0});
}

typedef struct {
  const Tensor *want;
  uint32_t n_out;
  Rule r;
} Expected;

static void check_target(const Case *c, const char *name, const Tensor *got, void *ctx) {
  const Expected *e = ctx;
  same(c, name, got, e->want, e->n_out, e->r);
}

static void check_compiled(const Case *c, uint32_t n_out, Rule r) {
  each_target(c, check_target, &(Expected){interpret(c, AS_WRITTEN, r.ulp == 0), n_out, r});
}

// ---- building
typedef struct {
  Case c;
  Prog *p;
  Fn *f;
  uint32_t n_out;
} Builder;

static Builder open_case(void) {
  RtArena *mem = rt_arena_new();
  Prog *p = ir_prog_new(mem, "folds");
  return (Builder){.c = {.mem = mem}, .p = p, .f = ir_fn_new(p, "f", (Loc){0})};
}

static Shape shape_of(Builder *b, int64_t n) { return ir_shape_ints(b->p, &n, 1); }

static Val input(Builder *b, int64_t n, const float *x) {
  static const char *const names[N_NAMES] = {"x", "y", "z"};
  uint32_t at = b->f->n_inputs;
  b->c.in[at] = (Tensor){.v = rt_alloc(b->c.mem, (size_t)n * sizeof(double)), .n = n};
  for (int64_t i = 0; i < n; i++) b->c.in[at].v[i] = (double)x[i];
  return ir_input(b->f, names[at], DT_F32, shape_of(b, n), (Loc){0});
}

static Val constant(Builder *b, float x) { return ir_const(b->f, (double)x, (Loc){0}); }

static void output(Builder *b, Val v) {
  Attr a[] = {ir_a_int(KEY_index, b->n_out++)};
  ir_emit(b->f, OP_output, &v, 1, a, 1, (Loc){0});
}

// The text goes all ways, so that numbers pass through printer and parser as well.
static const Case *close_case(Builder *b) {
  RtText text = {.mem = b->c.mem};
  ir_print(b->p, &text, 0);
  b->c.text = text.text;
  return &b->c;
}

// ---- every pointwise op, every pair of awkward numbers
static Val apply(Builder *b, Op op, Val x, Val y, Val z) {
  Attr attr[MAX_POINTWISE_ATTRS];
  uint32_t n = pointwise_attrs(op, 0, attr);
  return ir_emit(b->f, op, (Val[]){x, y, z}, ir_ops[op].n_min, attr, n, (Loc){0});
}

static Rule rule_of(Op op) {
  switch (op) {
  case OP_max:
  case OP_min:
  case OP_relu: return (Rule){.open_zero = true};
  case OP_silu:
  case OP_gelu: return (Rule){.ulp = 2, .finite = true, .open_zero = true};
  case OP_gelu_tanh: return (Rule){.ulp = 4};
  case OP_softplus: return (Rule){.ulp = 2};
  default: break;
  }
  Expr e = ir_forward(op);
  if (!e.n) return (Rule){.ulp = ir_ops[op].flags & (NOT_ROUNDED | ROUNDED_ONCE) ? 0 : 2};
  Rule all = {0};  // of a composite: the sum of its parts, nothing where each is rounded once
  uint32_t n_ops = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    if (e.nodes[i].kind != EX_OP) continue;
    Rule part = rule_of((Op)e.nodes[i].op);
    all.ulp += part.ulp, all.open_zero |= part.open_zero, n_ops++;
  }
  if (all.ulp > 0) all.ulp += n_ops;
  return all;
}

// Of losses large factors of rounded logarithms cancel: an error of theirs may be any number of units of the difference.
// Literals and random programs, whose bars know that, hold them.
static bool cancels(Op op) { return op == OP_bce || op == OP_bce_with_logits; }
static bool is_tested(Op op) {
  return !cancels(op) && ir_ops[op].is_pointwise && ir_ops[op].n_min > 0 && !(ir_ops[op].flags & RANDOM);
}
static uint32_t count(Rule r) { return r.finite ? N - 3 : N; }  // infinities and NaN stand last

// All operands inputs.
static void check_inputs(Op op, Rule r) {
  uint32_t arity = ir_ops[op].n_min, n = count(r), total = arity == 1 ? n : n * n * (arity == 3 ? LEAST_TERNARY : 1);
  float *x[3];
  Builder b = open_case();
  Val v[3] = {{0}};
  for (uint32_t k = 0; k < arity; k++) {
    x[k] = rt_alloc(b.c.mem, total * sizeof **x);
    for (uint32_t i = 0; i < total; i++) x[k][i] = awkward[(k == 0 ? i : k == 1 ? i / n : i / n / n * 3) % n];
    v[k] = input(&b, total, x[k]);
  }
  output(&b, apply(&b, op, v[0], v[1], v[2]));
  const Case *c = close_case(&b);
  check_simplified(c, b.n_out);
  check_compiled(c, b.n_out, r);
  rt_arena_free(b.c.mem);
}

// Operand k a constant, one of those from `first` to `end`, spread over the shape or not; the others inputs.
static void check_constants_of(Op op, Rule r, uint32_t k, uint32_t first, uint32_t end) {
  uint32_t n = count(r);
  float turned[N];
  for (uint32_t i = 0; i < n; i++) turned[i] = awkward[(i * 7 + 3) % n];
  Builder b = open_case();
  Val x = input(&b, n, awkward), y = input(&b, n, turned);
  for (uint32_t i = first; i < n && i < end; i++) {
    Attr full[] = {ir_a_num(KEY_value, (double)awkward[i]), ir_a_list(KEY_shape, shape_of(&b, n))};
    Val v[] = {x, y, x};
    v[k] = i % 2 ? constant(&b, awkward[i]) : ir_emit(b.f, OP_full, NULL, 0, full, 2, (Loc){0});
    output(&b, apply(&b, op, v[0], v[1], v[2]));
    if (i % 2) v[k] = ir_emit(b.f, OP_expand, &v[k], 1, &full[1], 1, (Loc){0});
    else v[k] = constant(&b, awkward[i]);
    output(&b, apply(&b, op, v[0], v[1], v[2]));
  }
  const Case *c = close_case(&b);
  check_simplified(c, b.n_out);
  check_compiled(c, b.n_out, r);
  rt_arena_free(b.c.mem);
}

// A kernel of a hundred results takes LLVM's register allocation far longer than many of a few; where nothing is an input there is
// none.
static void check_one_constant(Op op, Rule r) {
  uint32_t at_once = ir_ops[op].n_min == 1 ? N : 8;
  for (uint32_t k = 0; k < ir_ops[op].n_min; k++)
    for (uint32_t i = 0; i < count(r); i += at_once)
      if (is_sampled(op * ir_ops[op].n_min + k + i / at_once, 3)) check_constants_of(op, r, k, i, i + at_once);
}

// All operands constants: every pair (triples from a part of the list) simplified, and some compiled; those of one operand were,
// by check_one_constant.
static void check_constants(Op op, Rule r) {
  uint32_t arity = ir_ops[op].n_min, n = count(r), total = arity == 1 ? n : arity == 2 ? n * n : MAX_OUT;
  for (int part = 0; part < (arity > 1 ? 2 : 1); part++) {
    Builder b = open_case();
    for (uint32_t i = 0; i < total; i += part ? (total + n - 1) / n : 1) {
      Val x = constant(&b, awkward[i % n]), y = constant(&b, awkward[(i / n + i % 5 * (arity == 3)) % n]);
      output(&b, apply(&b, op, x, y, constant(&b, awkward[i * 5 / 3 % n])));
    }
    const Case *c = close_case(&b);
    if (part) check_compiled(c, b.n_out, r);
    else check_simplified(c, b.n_out);
    rt_arena_free(b.c.mem);
  }
}

// Output 0 is the op of all inputs, output 1 + i that of constant i.
static void check_same_bits(const Case *c, const char *name, const Tensor *got, void *ctx) {
  Op op = *(Op *)ctx;
  for (uint32_t i = 0; got && i < N; i++)
    if (!CHECK(agrees(got[1 + i].v[0], got[0].v[i], (Rule){.open_zero = rule_of(op).open_zero})))
      printf("  %s: %s of the constant %a is %a, of an input %a\n", name, ir_ops[op].name, (double)awkward[i],
             got[1 + i].v[0], got[0].v[i]);
  (void)c;
}

// A known operand gives the bits that an unknown one gives.
static void check_known(Op op) {
  Builder b = open_case();
  Val x = input(&b, N, awkward);
  output(&b, apply(&b, op, x, x, x));
  for (uint32_t i = 0; i < N; i++) {
    Val k = constant(&b, awkward[i]);
    output(&b, apply(&b, op, k, k, k));
  }
  each_target(close_case(&b), check_same_bits, &op);
  rt_arena_free(b.c.mem);
}

// The gradients of the rows, of every pair. Compiled, where all that they consist of is rounded once.
static void check_gradient(Op op, Rule r) {
  uint32_t arity = ir_ops[op].n_min < 2 ? 1 : 2, n = count(r), total = arity == 1 ? n : n * n;
  Builder b = open_case();
  Val v[3] = {{0}};
  float *x = rt_alloc(b.c.mem, total * sizeof *x);
  for (uint32_t k = 0; k < arity; k++) {
    for (uint32_t i = 0; i < total; i++) x[i] = awkward[(k == 0 ? i : i / n) % n];
    v[k] = input(&b, total, x);
  }
  v[2] = v[1];
  if (op == OP_select) v[2] = v[0], v[0] = v[1];
  Val y = apply(&b, op, v[0], v[1], v[2]);
  int64_t axis = 0;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(b.p, &axis, 1));
  Val loss = ir_emit(b.f, OP_sum, &y, 1, &axes, 1, (Loc){0});
  for (uint32_t k = 0; k < arity; k++)
    if (op == OP_select || ir_gradient(op, k).n) output(&b, ir_op2(b.f, OP_grad_of, loss, v[k], (Loc){0}));
  const Case *c = close_case(&b);
  check_simplified(c, b.n_out);
  if (r.ulp == 0) check_compiled(c, b.n_out, r);
  rt_arena_free(b.c.mem);
}

static bool has_gradient(Op op) {
  for (uint32_t k = 0; k < ir_ops[op].n_min; k++)
    if (ir_gradient(op, k).n) return true;
  return false;
}

static void check_op(Op op) {
  uint32_t failed = check_n_failed;
  Rule r = rule_of(op);
  check_inputs(op, r);
  check_one_constant(op, r);
  check_constants(op, r);
  if (ir_ops[op].n_min == 1) check_known(op);
  if (has_gradient(op)) check_gradient(op, r);
  if (failed != check_n_failed) printf("  in %s\n", ir_ops[op].name);
}

// ---- chains, where folding in doubles would round or overflow elsewhere
static void check_text(const char *text, uint32_t n_out, const float *x, int64_t n) {
  RtArena *mem = rt_arena_new();
  Case c = {.mem = mem, .text = text};
  for (uint32_t k = 0; k < 2; k++) {
    c.in[k] = (Tensor){.v = rt_alloc(mem, (size_t)n * sizeof(double)), .n = n};
    for (int64_t i = 0; i < n; i++) c.in[k].v[i] = (double)x[i];
  }
  check_simplified(&c, n_out);
  check_compiled(&c, n_out, (Rule){0});
  rt_arena_free(mem);
}

#define OUT(v, k) "output " v " {index=" #k "}\n"

// clang-format off: a line of a text is a line here
static void check_chains(void) {
  check_text(
      "program @p\n"
      "func @f(%x: f32[26], %y: f32[26]) {\n"
      "%h = const {value=1e30}\n"
      "%t = const {value=1e-30}\n"
      "%o = mul %h, %h\n"
      "%a = mul %o, %t\n"
      OUT("%a", 0)  // inf
      "%big = const {value=16777216}\n"
      "%one = const {value=1}\n"
      "%s = add %big, %one\n"
      "%d = sub %s, %big\n"
      OUT("%d", 1)  // 0
      "%c = const {value=0.1}\n"
      "%q = const {value=3}\n"
      "%e = mul %c, %q\n"
      "%g = const {value=0.3}\n"
      "%i = sub %e, %g\n"
      OUT("%i", 2)
      "%u = const {value=1e-60}\n"
      "%k = select %u, %x, %y\n"
      OUT("%k", 3)  // 0 in single precision
      "%m = add %x, %u\n"
      OUT("%m", 4)
      "%w = const {value=-1e-60}\n"
      "%r = add %x, %w\n"
      OUT("%r", 5)
      "%n = const {value=1.00000001}\n"
      "%v = mul %x, %n\n"
      OUT("%v", 6)
      "%l = const {value=1e300}\n"
      "%z = div %l, %l\n"
      OUT("%z", 7)  // infinities
      "%b = eq %c, %e\n"
      OUT("%b", 8)
      "}\n",
      9, awkward, N);
}

// Casts saturate, cut toward zero, and take NaN for 0; what is added up, moved or multiplied keeps zeros and
// infinities.
static void check_structure(void) {
  static float x[120], table[128 * 129];
  for (uint32_t i = 0; i < 120; i++) x[i] = i % 11 == 3 ? -0.0f : i % 40 == 17 ? INFINITY : (float)(i % 7) - 3;
  for (uint32_t i = 0; i < 128 * 129; i++)
    table[i] = i % 13 == 3 ? -0.0f : i % 1000 == 17 ? -INFINITY : (float)(i % 7) - 3;
  static const float cut[] = {0,        -0.0f,   1.75f,    -1.75f,         NAN,      INFINITY, -INFINITY, 0x1p63f,
                              -0x1p63f, 9.3e18f, -9.3e18f, 0x1.fffffep62f, 16777216, 0x1p-149f};
  check_text(
      "program @p\n"
      "func @f(%x: f32[14]) {\n"
      "%i = cast %x {dtype=i64}\n"
      OUT("%i", 0)
      "%y = cast %i {dtype=f32}\n"
      OUT("%y", 1)
      "%h = const {value=1e30}\n"
      "%j = cast %h {dtype=i64}\n"
      OUT("%j", 2)
      "%n = full {value=nan, shape=[14]}\n"
      "%k = cast %n {dtype=i64}\n"
      OUT("%k", 3)
      "}\n",
      4, cut, 14);
  check_text(
      "program @p\n"
      "func @f(%x: f32[3,40]) {\n"
      "%a = neg %x\n"
      "%s = sum %a {axes=[0,1]}\n"
      OUT("%s", 0)
      "%t = sum %a {axes=[0]}\n"
      OUT("%t", 1)
      "%u = sum %a {axes=[1]}\n"
      OUT("%u", 2)
      "%r = reshape %a {shape=[120,1]}\n"
      "%v = sum %r {axes=[0]}\n"
      OUT("%v", 3)
      "%m = const {value=-0}\n"
      "%e = expand %m {shape=[3,40]}\n"
      "%w = sum %e {axes=[0,1]}\n"
      OUT("%w", 4)
      "%p = permute %x {perm=[1,0]}\n"
      "%q = permute %p {perm=[1,0]}\n"
      "%g = add %q, %e\n"
      OUT("%g", 5)
      "%sl = slice %e {axis=0, start=1, count=2}\n"
      OUT("%sl", 6)
      "}\n",
      7, x, 120);
  check_text(
      "program @p\n"
      "func @f(%x: f32[129,128], %y: f32[129,128]) {\n"
      "%c = slice %x {axis=0, start=5, count=1}\n"
      "%k = reshape %c {shape=[128,1]}\n"
      "%m = matmul %y, %k\n"
      OUT("%m", 0)
      "%z = full {value=-0, shape=[1]}\n"
      "%l = linear %y, %c, %z\n"
      OUT("%l", 1)
      "}\n",
      2, table, 128 * 129);
}
// clang-format on

// A sum begins with 0, whatever its terms are and however many.
static void check_empty_signs(void) {
  float minus[2560];
  for (uint32_t i = 0; i < 2560; i++) minus[i] = -0.0f;
  // clang-format off
  check_text("program @p\nfunc @f(%x: f32[40,64]) {\n%a = sum %x {axes=[0]}\n" OUT("%a", 0)
             "%b = sum %x {axes=[1]}\n" OUT("%b", 1)
             "%c = sum %x {axes=[0,1]}\n" OUT("%c", 2)
             "%d = neg %a\n%e = sum %d {axes=[0]}\n" OUT("%e", 3)
             "%s = slice %x {axis=0, start=2, count=1}\n%g = sum %s {axes=[0]}\n" OUT("%g", 4)
             "%t = slice %s {axis=1, start=0, count=1}\n%h = sum %t {axes=[0,1]}\n" OUT("%h", 5)
             "%i = slice %x {axis=1, start=3, count=5}\n%j = sum %i {axes=[1]}\n" OUT("%j", 6)
             "%k = const {value=-0}\n%l = sum %k {axes=[]}\n" OUT("%l", 7)
             "%m = reshape %t {shape=[]}\n%n = sum %m {axes=[]}\n" OUT("%n", 8)
             "%o = matmul %x, %x {tb}\n%q = neg %o\n%r = matmul %q, %x\n" OUT("%r", 9)
             "%u = full {value=-0, shape=[40]}\n%v = linear %x, %x, %u\n" OUT("%v", 10)
             "}\n",
             11, minus, 2560);
  // clang-format on
}

// ---- random graphs of the ops that are rounded once
static uint64_t state;
static uint32_t below(uint32_t n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((state >> 33) % n);
}

static float random_number(void) {
  uint32_t bits = below(1u << 16) << 16 | below(1u << 16);
  float x;
  memcpy(&x, &bits, sizeof x);
  return below(3) ? awkward[below(N)] : x;
}

static Val random_leaf(Builder *b) {
  if (below(3)) return constant(b, random_number());
  Attr full[] = {ir_a_num(KEY_value, (double)random_number()), ir_a_list(KEY_shape, shape_of(b, N))};
  return ir_emit(b->f, OP_full, NULL, 0, full, 2, (Loc){0});
}

// The sign of a zero that max or min leave open ends in + 0.
static Val random_op(Builder *b, const Val *v, uint32_t n) {
  Op op;
  do op = (Op)below(N_OPS);
  while (!is_tested(op) || rule_of(op).ulp > 0);
  Val arg[3];
  for (uint32_t k = 0; k < 3; k++) arg[k] = below(3) ? v[below(n)] : random_leaf(b);
  Val y = apply(b, op, arg[0], arg[1], arg[2]);
  return rule_of(op).open_zero ? ir_op2(b->f, OP_add, y, constant(b, 0), (Loc){0}) : y;
}

static void check_random(uint32_t round) {
  float x[N], y[N];
  for (uint32_t i = 0; i < N; i++) x[i] = awkward[(i + round) % N], y[i] = random_number();
  Builder b = open_case();
  Val v[32] = {input(&b, N, x), input(&b, N, y), constant(&b, 0), constant(&b, -0.0f), constant(&b, 1)};
  for (uint32_t n = 5; n < 32; n++) v[n] = random_op(&b, v, n);
  for (uint32_t n = 24; n < 32; n++) output(&b, v[n]);
  const Case *c = close_case(&b);
  check_simplified(c, b.n_out);
  if (round % 32 == 0 && is_sampled(round / 32, 2)) check_compiled(c, b.n_out, (Rule){0});
  rt_arena_free(b.c.mem);
}

int main(int argc, char **argv) {
  state = argc > 1 ? strtoull(argv[1], NULL, 0) : 12;
  uint32_t rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 640;
  rt_team_fix(team = rt_team_new(1));
  for (uint32_t op = 1; op < N_OPS; op++)
    if (is_tested((Op)op)) check_op((Op)op);
  check_chains();
  check_structure();
  check_empty_signs();
  for (uint32_t k = 0; k < rounds; k++) check_random(k);
  rt_team_free(team);
  return check_report();
}
