// Every pointwise row of ir/ops.def, by the table alone: PyTorch's literals through text and interpreter; the public
// calls, also in place, through compiled code at many points, with gradients, for 1 and 3 workers with equal bits. Gradients
// against differences: tests/test_grad_table.c; awkward numbers: tests/test_folds.c.
#include "frontend/tenure.h"
#include "ir/passes/passes.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/pointwise.h"

// ---- literals
typedef struct {
  const char *op, *expression;
  double x[3], y, grad[3];
} Literal;

#define A(...) {__VA_ARGS__}
#define G(...) {__VA_ARGS__}
#define LITERAL(op, expression, ...) {#op, expression, __VA_ARGS__},
static const Literal literals[] = {
#include "tests/pointwise_literals.def"
};
enum { N_LITERALS = sizeof literals / sizeof *literals };

// A program with y and the gradient of each operand as outputs; its text goes through printer and parser.
static RtText literal_text(RtArena *mem, Op op) {
  static const char *const names[] = {"%a", "%b", "%c"};
  RtText t = {.mem = mem};
  uint32_t n = ir_ops[op].n_min, n_out = 0;
  rt_text_add(&t, "program @literal\nfunc @f(");
  for (uint32_t k = 0; k < n; k++) rt_text_add(&t, "%s%s: f32[2]", k ? ", " : "", names[k]);
  rt_text_add(&t, ") {\n");
  pointwise_line(op, names, 0, &t);
  rt_text_add(&t, "output %%p_%s {index=%u, name=\"y\"}\n", ir_ops[op].name, n_out++);
  rt_text_add(&t, "%%sum = sum %%p_%s {axes=[0]}\n", ir_ops[op].name);
  for (uint32_t k = 0; k < n; k++) {
    if (!ir_gradient(op, k).n) continue;
    rt_text_add(&t, "%%g%u = grad_of %%sum, %s\noutput %%g%u {index=%u, name=\"g%u\"}\n", k, names[k], k, n_out++, k);
  }
  rt_text_add(&t, "}\n");
  return t;
}

static Prog *read_twice(RtArena *mem, RtText text) {
  RtDiags d = {.mem = mem};
  RtText once = {.mem = mem}, again = {.mem = mem};
  Prog *p = ir_parse(mem, text.text, text.len, "literal.tir", &d), *q = NULL;
  if (p) ir_print(p, &once, 0), q = ir_parse(mem, once.text, once.len, "again.tir", &d);
  if (q) ir_print(q, &again, 0);
  rt_diags_print(&d, stdout);
  CHECK(q && !strcmp(once.text, again.text));
  return q;
}

static void compare_literal(const Literal *l, Op op, const InterpEnv *env) {
  bool good = is_near(env->out[0].v[0], l->y, 1e-12) && env->out[0].v[1] == env->out[0].v[0];
  if (!CHECK(good)) printf("  %s = %.17g, not %.17g\n", l->expression, env->out[0].v[0], l->y);
  for (uint32_t k = 0, at = 1; k < ir_ops[op].n_min; k++) {
    double found = ir_gradient(op, k).n ? env->out[at++].v[0] : 0;
    if (!CHECK(is_near(found, l->grad[k], 1e-12)))
      printf("  d %s / d %c = %.17g, not %.17g\n", l->expression, 'a' + k, found, l->grad[k]);
  }
}

static void check_literal(const Literal *l) {
  RtArena *mem = rt_arena_new();
  Op op = ir_op_find(l->op);
  double x[3][2] = {{l->x[0], l->x[0]}, {l->x[1], l->x[1]}, {l->x[2], l->x[2]}};
  Tensor in[3] = {{.v = x[0], .n = 2}, {.v = x[1], .n = 2}, {.v = x[2], .n = 2}}, out[4] = {{0}};
  InterpEnv env = {.mem = mem, .in = in, .out = out};
  RtText why = {.mem = mem};
  Prog *p = CHECK(op) ? read_twice(mem, literal_text(mem, op)) : NULL;
  if (p && CHECK(ir_run_passes(p->fns[0], "check_scopes,check_rows,functionalize,grad", NULL, NULL)) &&
      CHECK(ir_interpret(p->fns[0], &env, &why)))
    compare_literal(l, op, &env);
  rt_arena_free(mem);
}

static void test_literals(void) {
  bool has[N_OPS] = {false};
  for (uint32_t k = 0; k < N_LITERALS; k++) check_literal(&literals[k]), has[ir_op_find(literals[k].op)] = true;
  for (uint32_t op = OP_none + 1; op < N_OPS; op++) {
    if (!ir_ops[op].is_pointwise || (ir_ops[op].flags & RANDOM)) continue;
    if (!CHECK(has[op])) printf("  tests/pointwise_literals.def has no line for %s\n", ir_ops[op].name);
  }
}

// ---- public calls, compiled
enum { N_POINTS = 37, N_CALLS = 128 };

typedef struct {
  Op op;
  float x[3][N_POINTS], y[N_POINTS], in_place[N_POINTS], grad[3][N_POINTS];
} Call;

static uint64_t state;
static double random_number(void) {  // of magnitude 0.25 to 4
  state = state * 6364136223846793005u + 1442695040888963407u;
  double unit = (double)(state >> 40) * 0x1p-24;
  return (state >> 39 & 1 ? -1 : 1) * (0.25 + 3.75 * unit);
}

// Where value and gradients are finite.
static void find_point(Op op, double x[3]) {
  for (bool good = false; !good;) {
    for (uint32_t k = 0; k < 3; k++) x[k] = (double)(float)random_number();
    good = isfinite(pointwise_value(op, x));
    for (uint32_t k = 0; k < ir_ops[op].n_min; k++) good &= isfinite(pointwise_gradient(op, k, x));
  }
}

static void fill(Call *c, Op op) {
  c->op = op;
  for (uint32_t i = 0; i < N_POINTS; i++) {
    double x[3];
    find_point(op, x);
    for (uint32_t k = 0; k < 3; k++) c->x[k][i] = (float)x[k];
  }
}

static void build(tn_program *p, Op op, tn_tensor (*apply)(tn_tensor *x, bool in_place)) {
  static const char *const names[] = {"a", "b", "c"}, *const grads[] = {"ga", "gb", "gc"};
  tn_function *f = tn_function_begin(p, ir_ops[op].name);
  tn_tensor x[3], w[3];
  for (uint32_t k = 0; k < 3; k++) x[k] = tn_input(f, names[k], TN_F32, TN_SHAPE(N_POINTS));
  memcpy(w, x, sizeof w);
  w[0] = tn_clone(x[0]);
  tn_tensor y = apply(x, false);
  if (ir_ops[op].flags & MASK) y = tn_cast(y, TN_F32);  // the call gives bool
  tn_tensor loss = tn_sum(y);
  tn_output(f, "y", y);
  tn_output(f, "in_place", apply(w, true));
  for (uint32_t k = 0; k < 3; k++) {
    bool flows = k < ir_ops[op].n_min && ir_gradient(op, k).n;
    tn_output(f, grads[k], flows ? tn_grad(loss, x[k]) : tn_zeros(f, TN_SHAPE(N_POINTS)));
  }
  tn_function_end(f);
}

#define CALL1(n, ...)                                                         \
  static tn_tensor apply_##n(tn_tensor *x, bool in_place) {                   \
    return in_place ? tn_##n##_(x[0] __VA_ARGS__) : tn_##n(x[0] __VA_ARGS__); \
  }
#define CALL2(n, ...)                                                                     \
  static tn_tensor apply_##n(tn_tensor *x, bool in_place) {                               \
    return in_place ? tn_##n##_(x[0], x[1] __VA_ARGS__) : tn_##n(x[0], x[1] __VA_ARGS__); \
  }
#define CALL3(n, ...)                                            \
  static tn_tensor apply_##n(tn_tensor *x, bool in_place) {      \
    return (void)in_place, tn_##n(x[0], x[1], x[2] __VA_ARGS__); \
  }
#include "pointwise_list.h"
#undef CALL1
#undef CALL2
#undef CALL3

static uint32_t build_all(tn_program *p, Call *calls) {
  uint32_t n = 0;
#define CALL(op) build(p, OP_##op, apply_##op), fill(&calls[n++], OP_##op);
#define CALL1(op, ...) CALL(op)
#define CALL2(op, ...) CALL(op)
#define CALL3(op, ...) CALL(op)
#include "pointwise_list.h"
  return n;
}

static void run(tn_model *m, Call *c) {
  const tn_array in[] = {tn_f32(c->x[0], N_POINTS), tn_f32(c->x[1], N_POINTS), tn_f32(c->x[2], N_POINTS)};
  const tn_array out[] = {tn_f32(c->y, N_POINTS), tn_f32(c->in_place, N_POINTS), tn_f32(c->grad[0], N_POINTS),
                          tn_f32(c->grad[1], N_POINTS), tn_f32(c->grad[2], N_POINTS)};
  if (!CHECK(tn_run(m, ir_ops[c->op].name, in, 3, out, 5) == TN_OK))
    printf("  %s: %s\n", ir_ops[c->op].name, tn_error_text(m));
}

static void compare(const Call *c) {
  for (uint32_t i = 0; i < N_POINTS; i++) {
    const double x[3] = {(double)c->x[0][i], (double)c->x[1][i], (double)c->x[2][i]};
    double y = pointwise_value(c->op, x);
    bool good = is_near((double)c->y[i], y, 2e-6) && c->y[i] == c->in_place[i];
    for (uint32_t k = 0; k < ir_ops[c->op].n_min; k++)
      good &= is_near((double)c->grad[k][i], pointwise_gradient(c->op, k, x), 1e-5);
    if (!CHECK(good))
      printf("  %s of %g %g %g: %.9g, in place %.9g, not %.9g; gradients %.9g %.9g %.9g\n", ir_ops[c->op].name, x[0],
             x[1], x[2], (double)c->y[i], (double)c->in_place[i], y, (double)c->grad[0][i], (double)c->grad[1][i],
             (double)c->grad[2][i]);
  }
}

static uint32_t run_all(Call *calls, uint32_t n_workers) {
  tn_program *p = tn_program_create("pointwise");
  state = 7;
  uint32_t n = build_all(p, calls);
  tn_model *m = model_of(p, .n_workers = n_workers);
  for (uint32_t k = 0; m && k < n; k++) run(m, &calls[k]);
  tn_model_free(m);
  tn_program_free(p);
  return n;
}

static void test_calls(void) {
  static Call one[N_CALLS], three[N_CALLS];
  uint32_t n = run_all(one, 1);
  CHECK(run_all(three, 3) == n);
  for (uint32_t k = 0; k < n; k++) compare(&one[k]);
  CHECK(!memcmp(one, three, sizeof one));
}

int main(void) {
  test_literals();
  test_calls();
  return check_report();
}
