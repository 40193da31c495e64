// Gradients of gradients where formulas change: operands that are equal, zeros, the ends of ranges, and scans of 1,000
// steps. Each must lie between the slopes of the first gradient on both sides, and be finite where these are.
#include "ir/passes/passes.h"
#include "ir/text/text.h"
#include "tests/check.h"
#include "tests/pointwise.h"

static const double points[] = {0, 1,  -1, 0.5, -0.5, 0.125, 0.75, 2,     -2,  3,
                                6, -3, 20, -20, 60,   -60,   88.8, -88.8, 110, -110};
enum { N_POINTS = sizeof points / sizeof *points };
static const double STEP = 1e-5;

static const Tensor *interpret(RtArena *mem, const char *text, Tensor *in, uint32_t n_out) {
  RtDiags d = {.mem = mem};
  RtText why = {.mem = mem};
  InterpEnv env = {.mem = mem, .in = in, .out = rt_alloc(mem, n_out * sizeof(Tensor))};
  Prog *p = ir_parse(mem, text, strlen(text), "second.tir", &d);
  bool good = p && ir_run_passes(p->fns[0], "check_scopes,check_rows,functionalize,grad", NULL, NULL) &&
              ir_interpret(p->fns[0], &env, &why);
  rt_diags_print(&d, stdout);
  if (!CHECK(good)) printf("%s%s\n", why.text ? why.text : "", text);
  return good ? env.out : NULL;
}

static void check_slope(const char *what, double at, double left, double first, double right, double second) {
  double below = (first - left) / STEP, above = (right - first) / STEP, lo = fmin(below, above),
         hi = fmax(below, above);
  double slack = 1e-3 * (1 + fmax(fabs(lo), fabs(hi))) + 1e-9 * (fabs(left) + fabs(right)) / STEP;
  if (!isfinite(lo) || !isfinite(hi) || hi > 1e3 || lo < -1e3) return;  // a jump of the first gradient, or an end
  if (!CHECK(second >= lo - slack && second <= hi + slack))
    printf("  %s at %g: the second gradient is %g, slopes of the first are %g and %g\n", what, at, second, below,
           above);
}

// ---- pointwise rows: every operand by itself, all operands being equal
static void check_row(Op op, uint32_t k) {
  static const char *const names[] = {"%a", "%b", "%c"};
  RtArena *mem = rt_arena_new();
  RtText t = {.mem = mem}, line = {.mem = mem};
  uint32_t n = ir_ops[op].n_min;
  rt_text_add(&t, "program @second\nfunc @f(%%a: f32[%u], %%b: f32[%u], %%c: f32[%u]) {\n", 3 * N_POINTS, 3 * N_POINTS,
              3 * N_POINTS);
  pointwise_line(op, names, 0, &line);
  rt_text_add(&t, "%s%%sum = sum %%p_%s {axes=[0]}\n%%g = grad_of %%sum, %s\n%%gs = sum %%g {axes=[0]}\n", line.text,
              ir_ops[op].name, names[k]);
  rt_text_add(&t, "%%s = mul %s, %s\n%%ss = sum %%s {axes=[0]}\n%%all = add %%gs, %%ss\n", names[k], names[k]);
  rt_text_add(&t, "%%h = grad_of %%all, %s\n", names[k]);
  rt_text_add(&t, "output %%g {index=0, name=\"g\"}\noutput %%h {index=1, name=\"h\"}\n}\n");
  Tensor in[3];
  for (uint32_t j = 0; j < 3; j++) {
    in[j] = (Tensor){.v = rt_alloc(mem, 3 * N_POINTS * sizeof(double)), .n = 3 * N_POINTS};
    for (uint32_t i = 0; i < 3 * N_POINTS; i++) in[j].v[i] = points[i / 3] + (j == k ? ((int)(i % 3) - 1) * STEP : 0);
  }
  const Tensor *out = n ? interpret(mem, t.text, in, 2) : NULL;
  for (uint32_t i = 0; out && i < N_POINTS; i++) {
    const double *g = &out[0].v[3 * i];
    if (points[i] == 0 && (op == OP_pow || op == OP_atan2)) continue;  // 0^0, and the angle of the origin
    check_slope(ir_ops[op].name, points[i], g[0], g[1], g[2], out[1].v[3 * i + 1] - 2 * points[i]);
  }
  rt_arena_free(mem);
}

static void check_rows(void) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    for (uint32_t k = 0; ir_ops[op].is_pointwise && !(ir_ops[op].flags & RANDOM) && k < ir_ops[op].n_min; k++)
      if (ir_gradient((Op)op, k).n) check_row((Op)op, k);
}

// ---- scans: 1,000 steps, whose values rise or lie far out
static void check_scan(const char *line, double from, double rise) {
  enum { STEPS = 1000 };
  RtArena *mem = rt_arena_new();
  const char *text = rt_printf(mem,
                               "program @second\nfunc @f(%%a: f32[%d], %%w: f32[%d]) {\n%s\n%%q = mul %%y, %%w\n"
                               "%%sum = sum %%q {axes=[0]}\n%%g = grad_of %%sum, %%a\n%%r = mul %%g, %%w\n"
                               "%%gs = sum %%r {axes=[0]}\n%%s = mul %%a, %%a\n%%ss = sum %%s {axes=[0]}\n"
                               "%%all = add %%gs, %%ss\n%%h = grad_of %%all, %%a\n"
                               "output %%r {index=0, name=\"r\"}\noutput %%h {index=1, name=\"h\"}\n}\n",
                               STEPS, STEPS, line);
  double a[STEPS], w[STEPS], sum[3] = {0};
  Tensor in[] = {{.v = a, .n = STEPS}, {.v = w, .n = STEPS}};
  static const int places[] = {0, 1, STEPS / 2, STEPS - 1};
  for (int k = 0; k < STEPS; k++) w[k] = 0.01 + 0.001 * (k % 7);
  for (uint32_t j = 0; j < 4; j++) {
    double second = 0;
    for (int side = -1; side <= 1; side++) {
      for (int k = 0; k < STEPS; k++) a[k] = from + rise * k + (k == places[j] ? side * STEP : 0);
      const Tensor *out = interpret(mem, text, in, 2);
      if (!out) continue;
      sum[side + 1] = 0;
      for (int k = 0; k < STEPS; k++) sum[side + 1] += out[0].v[k];
      if (side == 0) second = out[1].v[places[j]] - 2 * a[places[j]];
    }
    check_slope(line, places[j], sum[0], sum[1], sum[2], second);
  }
  rt_arena_free(mem);
}

// Sums that begin with -infinity, in either direction: from the first finite element on as if it was not there, and finite before
static void check_infinite_start(const char *line, const char *finite) {
  RtArena *mem = rt_arena_new();
  static double a[4] = {-INFINITY, -INFINITY, 0.5, -0.25}, b[4] = {-0.25, 0.5, -INFINITY, -INFINITY};
  const char *text =
      rt_printf(mem,
                "program @second\nfunc @f(%%a: f32[4]) {\n%s\n%s\n%%sum = sum %%t {axes=[0]}\n"
                "%%g = grad_of %%sum, %%a\n%%r = mul %%g, %%g\n%%gs = sum %%r {axes=[0]}\n"
                "%%h = grad_of %%gs, %%a\noutput %%g {index=0, name=\"g\"}\noutput %%h {index=1, name=\"h\"}\n}\n",
                line, finite);
  bool reverse = strstr(line, "reverse") != NULL;
  const Tensor *out = interpret(mem, text, &(Tensor){.v = reverse ? b : a, .n = 4}, 1);
  for (int k = 0; out && k < 4; k++) CHECK(isfinite(out[0].v[k]) && isfinite(out[1].v[k]));
  int first = reverse ? 1 : 2, second = reverse ? 0 : 3;
  // y = (x, log(e^x + e^z)): with s = sigmoid(z - x) their sum has the slopes 2 - s and s
  double s = 1 / (1 + exp(0.75)), h = 2 * (2 - s) * s * (1 - s) - 2 * s * s * (1 - s);
  bool good = out && fabs(out[0].v[first] - (2 - s)) < 1e-6 && fabs(out[0].v[second] - s) < 1e-6 &&
              fabs(out[1].v[first] - h) < 1e-6 && fabs(out[1].v[second] + h) < 1e-6;
  if (!CHECK(good)) printf("%s behind -infinity\n", line);
  rt_arena_free(mem);
}

int main(void) {
  check_infinite_start("%y = logcumsumexp %a {axis=0}", "%t = slice %y {axis=0, start=2, count=2}");
  check_infinite_start("%y = logcumsumexp %a {axis=0, reverse}", "%t = slice %y {axis=0, start=0, count=2}");
  static const char *const scans[] = {"%y = logcumsumexp %a {axis=0}", "%y = logcumsumexp %a {axis=0, reverse}",
                                      "%y = cumsum %a {axis=0}",
                                      "%b = mul %a, %w\n%e = cos %b\n%y = cumprod %e {axis=0}",
                                      "%e = sigmoid %a\n%y, %l = linear_scan %e, %w {axis=0}"};
  check_rows();
  for (size_t k = 0; k < sizeof scans / sizeof *scans; k++) {
    check_scan(scans[k], 0, 0);
    check_scan(scans[k], 800, 0);
    check_scan(scans[k], -800, 0.5);
  }
  return check_report();
}
