// The story of hooks. In TorchSharp and PyTorch a hook is a function that a module calls in each run, when it is run by
// call() and not by forward(), which every user forgets once; and a compiler that traced the module before the hook
// came ignores it. Here a hook runs while the graph is built: it sees handles, builds with them, and what it builds is
// compiled with the rest. A hook that never fires, or comes too late, is a report.
#define TN_STORY
#include "tests/scenario.h"
#include <math.h>

enum { ROWS = 3, IN = 4, HIDDEN = 5, OUT = 2 };

typedef struct {
  tn_program *p;
  tn_module *net, *hidden;
  tn_function *f;
  tn_tensor x;
} Net;

static Net network(const char *name) {
  Net n = {.p = tn_program_create(name)};
  n.net = tn_sequential(tn_root(n.p), "net");
  n.hidden = (tn_linear)(n.net, "0", IN, HIDDEN, (tn_linear_options){.at = at(5)});
  tn_activation(n.net, "1", "tanh");
  tn_linear(n.net, "2", HIDDEN, OUT);
  n.f = tn_function_begin(n.p, "run");
  n.x = tn_input(n.f, "x", TN_F32, TN_SHAPE(ROWS, IN));
  return n;
}

static tn_model *compile(const Net *n) {
  tn_function_end(n->f);
  tn_model *m = (tn_compile)(n->p, (tn_compile_options){.seed = 11, .at = at(40)});
  if (!CHECK(m != NULL)) tn_report(n->p, stdout), exit(1);
  return m;
}

static void end(const Net *n, tn_model *m) {
  tn_model_free(m);
  tn_program_free(n->p);
}

static void run(tn_model *m, float *a, float *b) {
  float x[ROWS * IN];
  for (int k = 0; k < ROWS * IN; k++) x[k] = (float)(k % 5) - 2;
  tn_array out[] = {tn_f32(a, ROWS, OUT), tn_f32(b, ROWS, OUT)};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, ROWS, IN)), out, b ? 2 : 1) == TN_OK);
}

// ---- 1. looking inside: the layers of a sequence are called, so that their hooks fire, and their values can be kept
static tn_tensor keep(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in;
  *(tn_tensor *)ctx = out;
  return TN_NONE;
}

static void looking_inside(void) {
  Net n = network("look");
  tn_tensor h = TN_NONE;
  tn_hook_post(n.hidden, keep, &h);
  tn_output(n.f, "y", tn_forward(n.net, n.x));
  tn_output(n.f, "energy", tn_mean(tn_square(h)));  // of a value in the middle, which no call returned
  tn_model *m = compile(&n);
  CHECK_REPORT(n.p, "");
  float x[ROWS * IN] = {1, -1}, y[ROWS * OUT], energy = -1, w[HIDDEN * IN], b[HIDDEN];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, ROWS, IN)), TN_OUT(tn_f32(y, ROWS, OUT), tn_f32_scalar(&energy))) == TN_OK);
  CHECK(tn_get(m, "net.0.weight", w, HIDDEN * IN) == TN_OK && tn_get(m, "net.0.bias", b, HIDDEN) == TN_OK);
  double want = 0;
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < HIDDEN; k++) want += pow((double)(b[k] + (r ? 0 : w[k * IN] - w[k * IN + 1])), 2);
  CHECK(fabs((double)energy - want / (ROWS * HIDDEN)) < 1e-5);
  end(&n, m);
}

// ---- 2. changing what flows: a layer gets noise or a clamp without being rewritten, and it trains through it
static tn_tensor clamp(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in;
  tn_tensor most = tn_scalar(out.fn, *(double *)ctx);
  return tn_max(tn_min(out, most), tn_neg(most));
}

static void changing(void) {
  Net n = network("change");
  double limit = 0.05;
  tn_hook_post(n.hidden, clamp, &limit);
  tn_tensor loss = tn_sum(tn_call(n.net, n.x));
  tn_backward(loss);
  tn_tensor second = tn_sum(tn_call(n.net, n.x));
  tn_output(n.f, "loss", loss);
  tn_output(n.f, "again", second);
  tn_output(n.f, "g", tn_param_grad(n.f, n.hidden, "weight"));
  tn_model *m = compile(&n);
  float x[ROWS * IN], w[HIDDEN * IN] = {0}, b[HIDDEN] = {0, 0.01f, 1, -1, 0.04f}, g[HIDDEN * IN], loss_is = 0;
  float again = 1;
  for (int k = 0; k < ROWS * IN; k++) x[k] = 1;
  CHECK(tn_set(m, "net.0.weight", w, HIDDEN * IN) == TN_OK && tn_set(m, "net.0.bias", b, HIDDEN) == TN_OK);
  tn_array out[] = {tn_f32_scalar(&loss_is), tn_f32_scalar(&again), tn_f32(g, HIDDEN, IN)};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, ROWS, IN)), out, 3) == TN_OK);
  CHECK(loss_is == again);
  for (int k = 0; k < HIDDEN; k++) CHECK((g[k * IN] == 0) == (k == 2 || k == 3));  // clamped: no gradient
  end(&n, m);
}

// ---- 3. the question that users ask: why does my hook not fire?
static tn_tensor negate(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return tn_neg(out);
}

static void why_not(void) {
  Net n = network("why");
  (tn_hook_post)(n.net, negate, NULL, (tn_hook_options){.at = at(10)});
  tn_output(n.f, "y", (tn_forward)(n.net, n.x, at(20)));
  tn_model *m = compile(&n);
  CHECK_REPORT(n.p, "user.c:10: warning[W119]: a hook of module 'net' never fires: the module runs through tn_forward "
                    "only\n"
                    "user.c:20: note: tn_forward runs it here, without hooks\n"
                    "hint: tn_call runs hooks, those that are registered before it; tn_hook_remove takes one away\n");
  end(&n, m);

  n = network("because");
  tn_hook_post(n.net, negate, NULL);
  tn_output(n.f, "y", tn_forward(n.net, n.x));
  tn_output(n.f, "z", tn_call(n.net, n.x));
  m = compile(&n);
  CHECK_REPORT(n.p, "");
  float y[ROWS * OUT], z[ROWS * OUT];
  run(m, y, z);
  for (int k = 0; k < ROWS * OUT; k++) CHECK(y[k] == -z[k] && y[k] != 0);
  end(&n, m);
}

// ---- 4. taken away in time, it costs nothing; too late, it is no silent surprise
static void taken_away(void) {
  float y[2][ROWS * OUT];
  tn_plan plan[2] = {{0}};
  for (int k = 0; k < 2; k++) {
    Net n = network("away");
    if (k) tn_hook_remove(tn_hook_post(n.net, negate, NULL));
    tn_output(n.f, "y", tn_call(n.net, n.x));
    tn_model *m = compile(&n);
    CHECK(tn_plan_of(m, "run", &plan[k]) == TN_OK);
    run(m, y[k], NULL);
    if (k) {
      CHECK(!(tn_hook_post)(n.net, negate, NULL, (tn_hook_options){.at = at(50)}));
      CHECK_REPORT(n.p, "user.c:50: error[E009]: a hook of module 'net' is registered after the program was compiled\n"
                        "user.c:40: note: the program was compiled here\n"
                        "hint: register a hook before the calls that it watches\n");
    }
    end(&n, m);
  }
  CHECK(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(&plan[0], &plan[1], sizeof plan[0]));
}

// ---- 5. what follows was built for the shape that the layer gives: a hook keeps it
static tn_tensor first_row(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  return (tn_slice)(out, 0, 0, 1, at(30));
}

static void keeps_shape(void) {
  Net n = network("shape");
  (tn_hook_post)(n.hidden, first_row, NULL, (tn_hook_options){.at = at(10)});
  tn_output(n.f, "y", (tn_call)(n.net, n.x, at(20)));
  CHECK_REPORT(
      n.p, "user.c:20: error[E118]: a hook of module 'net.0' replaces its output, f32[3,5], by a value of f32[1,5]\n"
           "user.c:10: note: the hook was registered here\n"
           "user.c:30: note: the replacement was made here\n"
           "hint: a hook keeps shape and dtype: change them before the call, or after it\n");
  tn_function_end(n.f);
  CHECK(!tn_compile(n.p));
  tn_program_free(n.p);
}

int main(void) {
  looking_inside();
  changing();
  why_not();
  taken_away();
  keeps_shape();
  return check_report();
}
