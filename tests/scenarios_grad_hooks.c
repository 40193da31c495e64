// Hooks on gradients, of modules of several values, of trees. They run where tn_backward or tn_grad is called.
#include "runtime/base.h"
#include "tests/hook_log.h"
#include "tests/ledger.h"
#include <math.h>

static tn_program *p;
static tn_function *f;

static void start(void) {
  p = tn_program_create("h");
  f = tn_function_begin(p, "run");
}

static tn_tensor tracked(const char *name, int64_t rows, int64_t cols, int line) {
  tn_tensor x = (tn_input)(f, name, TN_F32, TN_SHAPE(rows, cols), at(line));
  tn_set_requires_grad(x, true);
  return x;
}

static tn_model *compile(void) {
  (tn_function_end)(f, at(90));
  tn_model *m = (tn_compile)(p, (tn_compile_options){.n_workers = 1, .seed = 3, .at = at(91)});
  if (!m) tn_report(p, stdout);
  return m;
}

static void end(tn_model *m) {
  tn_model_free(m);
  tn_program_free(p);
}

// ---- hooks that write down that they ran
static tn_values note_backward(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m, (void)in, (void)out;
  note(ctx);
  return TN_KEEP;
}

static tn_values note_backward_pre(tn_module *m, tn_values out, void *ctx) {
  (void)m, (void)out;
  note(ctx);
  return TN_KEEP;
}

static tn_tensor note_grad(tn_tensor g, void *ctx) {
  (void)g;
  note(ctx);
  return TN_NONE;
}

static tn_module *nested(void) {
  tn_module *net = tn_sequential(tn_root(p), "net"), *inner = tn_sequential(net, "inner");
  tn_linear(inner, "a", 4, 4);
  tn_activation(inner, "act", "tanh");
  tn_linear(net, "b", 4, 2);
  return net;
}

// Ids 0, 1, 2, 3 (front), 4 (front)
static void in_order(bool pre) {
  Log log = {0};
  Entry e[5] = {{&log, 0}, {&log, 1}, {&log, 2}, {&log, 3}, {&log, 4}};
  start();
  tn_module *net = nested();
  for (int k = 0; k < 5; k++) {
    if (pre) tn_hook_backward_pre(net, note_backward_pre, &e[k], .prepend = k > 2);
    else tn_hook_backward(net, note_backward, &e[k], .prepend = k > 2);
  }
  tn_tensor y = tn_call(net, tracked("x", 2, 4, 11));
  CHECK(log.n == 0);
  tn_backward(tn_sum(y));
  LOGGED(&log, 4, 3, 0, 1, 2);
  tn_sgd(f, net);
  tn_model *m = compile();
  CHECK(m != NULL);
  CHECK_REPORT(p, "");
  end(m);
}

SCENARIO(H06) {
  in_order(false);
  in_order(true);
}

SCENARIO(H08) {
  Log log = {0};
  Entry e[4] = {{&log, 0}, {&log, 1}, {&log, 2}, {&log, 3}};
  start();
  tn_module *net = nested();
  tn_hook_pre(net, note_pre, &e[0]);
  tn_hook_post(net, note_post, &e[1]);
  tn_hook_backward_pre(net, note_backward_pre, &e[2]);
  tn_hook_backward(net, note_backward, &e[3]);
  tn_tensor x = tracked("x", 2, 4, 11), y = tn_call(net, x);
  LOGGED(&log, 0, 1);
  tn_backward(tn_sum(y));
  LOGGED(&log, 0, 1, 2, 3);
  tn_backward(tn_sum(tn_call(net, x)));
  LOGGED(&log, 0, 1, 2, 3, 0, 1, 2, 3);
  tn_sgd(f, net);
  tn_model *m = compile();
  CHECK(m != NULL);
  CHECK_REPORT(p, "");
  end(m);
}

// ---- replacing
static tn_values times_zero(tn_module *m, tn_values out, void *ctx) {
  (void)m, (void)ctx;
  out.v[0] = tn_mul_scalar(out.v[0], 0);
  return out;
}

SCENARIO(H09) {
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 2, 2);
  tn_hook_backward_pre(fc, times_zero, NULL);
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(2));
  tn_set_requires_grad(a, true);
  tn_tensor y = tn_call(fc, a);
  tn_output(f, "g", tn_grad(tn_sum(y), a));
  tn_model *m = compile();
  float in[2] = {1, 1}, g[2] = {7, 7};
  if (CHECK(m)) CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 2)), TN_OUT(tn_f32(g, 2))) == TN_OK);
  CHECK(g[0] == 0 && g[1] == 0);
  CHECK_REPORT(p, "");
  end(m);
}

// ---- named inputs: y = x + bias
static tn_values add_bias(tn_module *m, tn_values in, void *self) {
  (void)m, (void)self;
  tn_tensor *x = tn_value_named(&in, "x"), *bias = tn_value_named(&in, "bias");
  return TN_VALUES(tn_add(*x, *bias));
}

static tn_values double_bias(tn_module *m, tn_values in, void *ctx) {
  (void)m, (void)ctx;
  tn_tensor *bias = tn_value_named(&in, "bias");
  CHECK(bias && !tn_value_named(&in, "nobody"));
  *bias = tn_mul_scalar(*bias, 2);
  return in;
}

static tn_values post_bias(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m, (void)ctx;
  out.v[0] = tn_add(out.v[0], *tn_value_named(&in, "bias"));  // as the pre-hook left it
  return out;
}

// The post-hook as a method: it works on what the module was made with.
static tn_values own_post(tn_module *m, tn_values in, tn_values out, void *ctx) {
  int *n_calls = tn_module_self(m);
  ++*n_calls;
  return post_bias(m, in, out, ctx);
}

static const char *const add_inputs[] = {"x", "bias"};
static tn_module *adder(int *n_calls) {
  return (tn_module_define)(tn_root(p), "add",
                            &(tn_module_class){.name = "AddBias", .forward = add_bias, .n_in = 2, .in = add_inputs},
                            n_calls, at(10));
}

// Pre alone, pre and post, a method as post; then two of these
SCENARIO(H10) {
  static const float want[] = {3, 5, 3, 4};
  for (int with = 0; with < 4; with++) {
    int n_calls = 0;
    start();
    tn_module *add = adder(&n_calls);
    if (with < 2) tn_hook_values_pre(add, double_bias, NULL);
    if (with == 1) tn_hook_values_post(add, post_bias, NULL);
    if (with >= 2) tn_hook_values_post(add, own_post, NULL);
    if (with == 3) tn_hook_values_post(add, own_post, NULL, .prepend = true);
    tn_tensor x = tracked("x", 10, 10, 11), bias = tracked("bias", 10, 10, 12);
    static const char *const swapped[] = {"bias", "x"};
    tn_values in = {.v = {bias, x}, .n = 2, .names = swapped}, out = tn_call_n(add, in);
    CHECK(out.n == 1 && tn_value_named(&out, "output") == &out.v[0]);
    tn_output(f, "y", out.v[0]);
    tn_model *m = compile();
    float one[100], y[100];
    for (int k = 0; k < 100; k++) one[k] = 1;
    if (CHECK(m))
      CHECK(tn_run(m, "run", TN_IN(tn_f32(one, 10, 10), tn_f32(one, 10, 10)), TN_OUT(tn_f32(y, 10, 10))) == TN_OK);
    for (int k = 0; k < 100; k++) CHECK(y[k] == want[with]);
    CHECK(n_calls == (with < 2 ? 0 : with - 1));
    CHECK_REPORT(p, "");
    end(m);
  }
}

// ---- modules of one's own that are wrong: what they give is found by name all the same, so that the report is reached
static tn_values fails(tn_module *m, tn_values in, void *how) {
  if (*(int *)how == 0) return TN_VALUES(in.v[0]);
  if (*(int *)how == 1) return (tn_call_n)(m, in, at(40));
  return TN_VALUES(in.v[0], in.v[0]);
}

SCENARIO(H_own_fails) {
  static const char *const out[] = {"u", "v"}, *const too_few[1] = {"x"};
  static const char *const want[] = {
      "user.c:30: error[E003]: the forward function of module 'two' gives 1 value, its class says 2\n"
      "user.c:10: note: the module was made here\n",
      "user.c:40: error[E003]: the forward function of module 'two' calls this module again and again, 100 times "
      "within each "
      "other\n"
      "user.c:10: note: the module was made here\n"
      "hint: it calls the modules below it; its own values are made by operations\n",
      "user.c:30: error[E003]: module 'two' takes 1 value, found 2\n"
      "user.c:10: note: it was made here\n",
      "user.c:10: error[E003]: module 'two' has 17 inputs and 2 outputs: at most 16 of each\n",
      "user.c:10: error[E003]: module 'two' has no forward function\n"};
  for (int k = 0; k < 5; k++) {
    start();
    tn_module_class class = {.name = "Two", .forward = k == 4 ? NULL : fails, .n_out = 2, .out = out};
    if (k == 3) class.n_in = TN_MAX_VALUES + 1, class.in = too_few;
    tn_module *two = (tn_module_define)(tn_root(p), "two", &class, &k, at(10));
    tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(2, 3), at(20));
    tn_values y = (tn_call_n)(two, (tn_values){.v = {x, x}, .n = k == 2 ? 2 : 1}, at(30));
    tn_tensor *v = tn_value_named(&y, "v");
    if (CHECK(v != NULL)) (tn_output)(f, "y", (tn_relu)(*v, at(50)), at(60));
    (tn_function_end)(f, at(90));
    CHECK_REPORT(p, want[k]);
    end(NULL);
  }
}

// ---- counts: Sigmoid, as many gradients as the hook's context says
static tn_values some(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m, (void)out;
  tn_values r = {.v = {in.v[0], in.v[0]}, .n = *(uint32_t *)ctx};
  return r;
}

SCENARIO(H20) {
  static const char *const want[] = {
      "user.c:30: error[E118]: a hook of module 'act' returns 0 values for its 1 gradient of the input\n"
      "user.c:20: note: the hook was registered here\n"
      "hint: a hook returns what it was given, with values replaced, or TN_KEEP\n",
      "user.c:30: error[E118]: a hook of module 'act' returns 2 values for its 1 gradient of the input\n"
      "user.c:20: note: the hook was registered here\n"
      "hint: a hook returns what it was given, with values replaced, or TN_KEEP\n"};
  for (uint32_t k = 0; k < 2; k++) {
    uint32_t n = 2 * k;
    start();
    tn_module *act = tn_activation(tn_root(p), "act", "sigmoid");
    (tn_hook_backward)(act, some, &n, (tn_hook_options){.at = at(20)});
    tn_tensor x = tracked("x", 5, 5, 11);
    (tn_grad)(tn_sum(tn_call(act, x)), x, at(30));
    CHECK_REPORT(p, want[k]);
    tn_program_free(p);
  }
}

// ---- global hooks: of all modules, before those of one
SCENARIO(H22) {
  Log log = {0};
  Entry e[8];
  for (int k = 0; k < 8; k++) e[k] = (Entry){&log, k};
  start();
  tn_module *act = tn_activation(tn_root(p), "act", "sigmoid");
  tn_hook_pre(act, note_pre, &e[1]);
  tn_hook_post(act, note_post, &e[3]);
  tn_hook_backward_pre(act, note_backward_pre, &e[5]);
  tn_hook_backward(act, note_backward, &e[7]);
  tn_module *root = tn_root(p);
  tn_hook_pre(root, note_pre, &e[0], .pattern = "**");
  tn_hook_post(root, note_post, &e[2], .pattern = "**");
  tn_hook_backward_pre(root, note_backward_pre, &e[4], .pattern = "**");
  tn_hook_backward(root, note_backward, &e[6], .pattern = "**");
  tn_tensor x = tracked("x", 5, 5, 11), y = tn_call(act, x);
  LOGGED(&log, 0, 1, 2, 3);
  tn_output(f, "g", tn_grad(tn_sum(y), x));
  LOGGED(&log, 0, 1, 2, 3, 4, 5, 6, 7);
  tn_model *m = compile();
  CHECK(m != NULL);
  CHECK_REPORT(p, "");
  end(m);
}

typedef struct {
  int forward, backward;
} Counter;

static tn_tensor count_forward(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)out;
  ((Counter *)ctx)->forward++;
  return TN_NONE;
}

static tn_values count_backward(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m;
  CHECK(in.n == 1 && out.n == 1 && in.v[0].fn && out.v[0].fn);
  ((Counter *)ctx)->backward++;
  return TN_KEEP;
}

SCENARIO(H23) {
  Counter c = {0};
  start();
  tn_module *root = tn_root(p), *act[3];
  for (int k = 0; k < 3; k++) act[k] = tn_activation(root, ((const char *[]){"a", "b", "c"})[k], "sigmoid");
  tn_hook *fwd = tn_hook_post(root, count_forward, &c, .pattern = "**");
  tn_tensor x = tracked("x", 5, 5, 11), loss[6];
  for (int k = 0; k < 3; k++) loss[k] = tn_sum(tn_call(act[k], x));
  CHECK(c.forward == 3 && c.backward == 0);
  tn_hook *bwd = tn_hook_backward(root, count_backward, &c, .pattern = "**");
  for (int k = 0; k < 3; k++) loss[3 + k] = tn_sum(tn_call(act[k], x));
  CHECK(c.forward == 6 && c.backward == 0);
  static const char *const name[] = {"g0", "g1", "g2", "g3", "g4", "g5"};
  for (int k = 0; k < 6; k++) tn_output(f, name[k], tn_grad(loss[k], x));
  CHECK(c.forward == 6 && c.backward == 3);
  tn_output(f, "again", tn_grad(loss[3], x));
  CHECK(c.forward == 6 && c.backward == 4);
  tn_hook_remove(fwd), tn_hook_remove(bwd);
  tn_grad(loss[4], x);
  CHECK(c.backward == 5);  // the call took it
  tn_grad(tn_sum(tn_call(act[0], x)), x);
  CHECK(c.backward == 5);  // of a call behind its removal
  tn_model *m = compile();
  CHECK(m != NULL);
  CHECK_REPORT(p, "");
  end(m);
}

// ---- trees: below "enc", by name
SCENARIO(H_tree) {
  Log log = {0};
  Entry e[4] = {{&log, 0}, {&log, 1}, {&log, 2}, {&log, 3}};
  start();
  tn_module *root = tn_root(p);
  tn_hook_pre(root, note_pre, &e[0], .pattern = "net/inner");
  tn_hook_pre(root, note_pre, &e[1], .pattern = "**/b");
  tn_module *net = nested();  // made later
  tn_hook_pre(net, note_pre, &e[2], .pattern = "**", .prepend = true);
  (tn_hook_pre)(root, note_pre, &e[3], (tn_hook_options){.pattern = "net/none", .at = at(20)});
  tn_output(f, "y", tn_call(net, tracked("x", 2, 4, 11)));
  LOGGED(&log, 2, 2, 0, 2, 0, 2, 0, 2, 1);
  tn_model *m = compile();
  CHECK(m != NULL);
  CHECK_REPORT(p, "user.c:20: warning[W119]: a hook of the modules 'net/none' never fires: none of them is called, or "
                  "none by a call that runs it\n"
                  "hint: the pattern is one of paths below the module that the hook was given to\n");
  end(m);
}

// ---- of one value: in order, each seeing what the one before left; of a parameter; with tn_backward and tn_grad
static tn_tensor times(tn_tensor g, void *ctx) { return tn_mul_scalar(g, *(double *)ctx); }
static tn_tensor plus(tn_tensor g, void *ctx) { return tn_add_scalar(g, *(double *)ctx); }

SCENARIO(H_value) {
  double two = 2, three = 3, ten = 10;
  Log log = {0};
  Entry one = {&log, 1};
  start();
  tn_parameter(tn_root(p), "w", TN_SHAPE(2, 2), (tn_init){TN_INIT_CONSTANT, 5, 0});
  tn_tensor x = tracked("x", 2, 2, 11), w = tn_param_value(f, tn_root(p), "w");
  tn_tensor h = tn_mul(x, w), y = tn_square(h), loss = tn_sum(y);
  tn_output(f, "plain", tn_grad(loss, x));  // before the hooks: 2 h w
  tn_on_grad(h, plus, &three);
  tn_on_grad(h, times, &two, .prepend = true);
  tn_on_grad(w, plus, &ten);
  tn_hook *gone = tn_on_grad(y, times, &ten);
  tn_hook_remove(gone);
  tn_on_grad(x, note_grad, &one);
  tn_backward(loss);                                      // dh = 2 (2 h) + 3
  tn_output(f, "dw", tn_param_grad(f, tn_root(p), "w"));  // dh x + 10
  LOGGED(&log, 1);
  tn_output(f, "dh", tn_grad(loss, h));
  tn_output(f, "dx", tn_grad(loss, x));  // dh w
  LOGGED(&log, 1, 1);
  tn_output(f, "dy", tn_grad(loss, y));
  tn_model *m = compile();
  CHECK_REPORT(p, "");
  float in[4] = {1, -2, 0.5f, 3}, plain[4], dw[4], dh[4], dx[4], dy[4];
  if (CHECK(m) && CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 2, 2)),
                               TN_OUT(tn_f32(plain, 2, 2), tn_f32(dw, 2, 2), tn_f32(dh, 2, 2), tn_f32(dx, 2, 2),
                                      tn_f32(dy, 2, 2))) == TN_OK))
    for (int k = 0; k < 4; k++) {
      float hk = 5 * in[k], d = 2 * (2 * hk) + 3;
      CHECK(plain[k] == 2 * hk * 5 && dh[k] == d && dx[k] == d * 5 && dw[k] == d * in[k] + 10 && dy[k] == 1);
    }
  end(m);
}

// Gradients of gradients know what a hook did: g = 2 . 3 x^2, and dg/dx = 12 x
SCENARIO(H_second) {
  double two = 2;
  start();
  tn_tensor x = tracked("x", 2, 2, 11), y = tn_mul(tn_square(x), x);
  tn_on_grad(y, times, &two);
  tn_tensor g = tn_grad(tn_sum(y), x);
  tn_output(f, "g", g);
  tn_output(f, "gg", tn_grad(tn_sum(g), x));
  tn_model *m = compile();
  float in[4] = {1, -2, 0.5f, 3}, first[4], second[4];
  if (CHECK(m) &&
      CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 2, 2)), TN_OUT(tn_f32(first, 2, 2), tn_f32(second, 2, 2))) == TN_OK))
    for (int k = 0; k < 4; k++)
      CHECK(fabsf(first[k] - 6 * in[k] * in[k]) < 1e-4f && fabsf(second[k] - 12 * in[k]) < 1e-4f);
  CHECK_REPORT(p, "");
  end(m);
}

// tn_grad asks for what requires no gradient: hooks between see it, and what they give goes on. tn_backward passes over it.
static tn_values half_in(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m, (void)out;
  note(ctx);
  if (in.v[0].fn) in.v[0] = tn_mul_scalar(in.v[0], 0.5);
  return in;
}

SCENARIO(H_asked_for) {
  Log log = {0};
  Entry e[3] = {{&log, 0}, {&log, 1}, {&log, 2}};
  start();
  tn_module *act = tn_activation(tn_root(p), "act", "relu"), *frozen = tn_linear(tn_root(p), "frozen", 2, 2);
  tn_module *fc = tn_linear(tn_root(p), "fc", 2, 1, .no_bias = true);
  tn_freeze(frozen, true);
  tn_hook_backward(act, half_in, &e[0]);
  tn_hook_backward(frozen, half_in, &e[1]);
  tn_hook_backward(fc, half_in, &e[2]);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 2));
  tn_tensor loss = tn_sum(tn_call(fc, tn_call(frozen, tn_call(act, x))));
  tn_output(f, "g", tn_grad(loss, x));
  LOGGED(&log, 2, 1, 0);
  tn_backward(loss);
  LOGGED(&log, 2, 1, 0, 2);
  tn_sgd(f, fc);
  tn_model *m = compile();
  float w[2], v[4], in[6] = {1, 2, -1, 3, 4, -5}, g[6];
  if (CHECK(m) && CHECK(!tn_get(m, "fc.weight", w, 2)) && CHECK(!tn_get(m, "frozen.weight", v, 4)) &&
      CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 3, 2)), TN_OUT(tn_f32(g, 3, 2))) == TN_OK))
    for (int k = 0; k < 6; k++) CHECK(fabsf(g[k] - (in[k] > 0) * (w[0] * v[k % 2] + w[1] * v[2 + k % 2]) / 8) < 1e-6f);
  CHECK_REPORT(p, "");
  end(m);
}

// ---- inputs that require no gradient; a module whose output requires none
static tn_values none_in(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m;
  CHECK(in.n == 1 && !in.v[0].fn && out.v[0].fn);
  note(ctx);
  return TN_KEEP;
}

SCENARIO(H_none) {
  Log log = {0};
  Entry one = {&log, 1}, two = {&log, 2};
  start();
  tn_module *fc = (tn_linear)(tn_root(p), "fc", 4, 2, (tn_linear_options){.at = at(9)}),
            *act = (tn_activation)(tn_root(p), "act", "relu", (tn_activation_options){.at = at(10)});
  tn_hook_backward_pre(fc, note_backward_pre, &one);
  tn_hook_backward(fc, none_in, &two);
  (tn_hook_backward)(act, note_backward, &one, (tn_hook_options){.at = at(20)});
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(3, 4), at(11));
  tn_backward(tn_sum(tn_call(fc, (tn_call)(act, x, at(30)))));
  LOGGED(&log, 1, 2);
  tn_sgd(f, fc);
  tn_model *m = compile();
  CHECK(m != NULL);
  CHECK_REPORT(p, "user.c:20: warning[W119]: a backward hook of module 'act' never fires: no gradient goes through the "
                  "module\n"
                  "user.c:30: note: the output of this call requires no gradient\n"
                  "hint: tn_set_requires_grad(x, true) makes an input require one, and all that is made of it\n");
  end(m);
}

static tn_values made_up(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)m, (void)ctx;
  in.v[0] = (tn_mul_scalar)(out.v[0], 2, at(50));
  return in;
}

static tn_tensor to_scalar(tn_tensor g, void *ctx) {
  (void)ctx;
  return (tn_sum)(g, at(51));
}

SCENARIO(H_grad_mistakes) {
  start();
  tn_module *fc = tn_linear(tn_root(p), "fc", 4, 4);
  (tn_hook_backward)(fc, made_up, NULL, (tn_hook_options){.at = at(20)});
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(3, 4), at(11));
  (tn_backward)(tn_sum(tn_call(fc, x)), at(30));
  CHECK_REPORT(p, "user.c:30: error[E118]: a hook of module 'fc' returns a value for its gradient of the input, where "
                  "there is none\n"
                  "user.c:20: note: the hook was registered here\n"
                  "hint: a hook returns TN_NONE where it was given none, and there alone\n");
  tn_program_free(p);

  start();
  x = tracked("x", 3, 4, 11);
  tn_tensor h = tn_relu(x);
  (tn_on_grad)(h, to_scalar, NULL, (tn_hook_options){.at = at(20)});
  (tn_grad)(tn_sum(h), x, at(30));
  CHECK_REPORT(p, "user.c:30: error[E118]: a hook on a gradient replaces its gradient, f32[3,4], by a value of f32[]\n"
                  "user.c:20: note: the hook was registered here\n"
                  "user.c:51: note: the replacement was made here\n"
                  "hint: a gradient has the shape of its value\n");
  tn_program_free(p);

  start();
  x = tracked("x", 3, 4, 11);
  (tn_on_grad)(tn_relu(x), times, NULL, (tn_hook_options){.at = at(20)});
  tn_output(f, "y", x);
  tn_model *m = compile();
  CHECK_REPORT(p, "user.c:20: warning[W119]: a hook on a gradient never fires: no loss sends the value a gradient\n"
                  "hint: tn_backward and tn_grad run hooks, those that are registered before them\n");
  CHECK(!(tn_on_grad)(x, times, NULL, (tn_hook_options){.at = at(92)}));
  CHECK_HAS(report_of(p), "user.c:92: error[E009]: a hook on a gradient is registered after the program was compiled");
  end(m);
}

// Hooks that replace nothing leave the program as it is, to the byte.
SCENARIO(H_grad_observed) {
  char *text[2];
  for (int with = 0; with < 2; with++) {
    Log log = {0};
    Entry one = {&log, 1};
    start();
    tn_module *net = nested();
    if (with) tn_hook_backward(net, note_backward, &one, .pattern = "**");
    tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(2, 4), at(11));
    (tn_backward)((tn_sum)((tn_call)(net, x, at(12)), at(13)), at(14));
    (tn_sgd)(f, net, (tn_sgd_options){.lr = 0.1, .at = at(15)});
    tn_model *m = compile();
    size_t size;
    FILE *out = open_memstream(&text[with], &size);
    tn_dump(p, out, TN_DUMP_LIFETIMES);
    fclose(out);
    CHECK(m && log.n == (with ? 5 : 0));
    end(m);
  }
  CHECK(!strcmp(text[0], text[1]));
  free(text[0]), free(text[1]);
}

// ---- hooks that ask for gradients
typedef struct {
  tn_tensor of, by;  // of the sum of squares of `of`, by `by`
  int runs;
} Asked;

static tn_tensor ask(tn_tensor g, void *ctx) {
  Asked *a = ctx;
  a->runs++;
  return tn_add(g, (tn_grad)(tn_sum(tn_square(a->of)), a->by, at(41)));
}

static tn_tensor ask_by_backward(tn_tensor g, void *ctx) {
  Asked *a = ctx;
  a->runs++;
  (tn_backward)(tn_sum(tn_square(a->of)), at(41));
  return g;
}

static tn_values ask_of_module(tn_module *m, tn_values grads, void *ctx) {
  (void)m;
  ask(grads.v[0], ctx);
  return TN_KEEP;
}

static tn_values ask_of_inputs(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)out;
  return ask_of_module(m, in, ctx);
}

// Through the hooked value itself it would not end; through what is detached from it, or stands before it, it does.
SCENARIO(H_asks_for_itself) {
  for (int k = 0; k < 4; k++) {
    start();
    tn_module *a = tn_identity(tn_root(p), "a");
    tn_parameter(tn_root(p), "w", TN_SHAPE(2), ((tn_init){TN_INIT_CONSTANT, 1, 0}));
    tn_tensor w = tn_param_value(f, tn_root(p), "w"), h = tn_mul_scalar(w, 2);
    tn_hook_options there = {.at = at(31)};
    Asked asked = {.by = w};
    if (k == 2) (tn_hook_backward)(a, ask_of_inputs, &asked, there);
    if (k == 3) (tn_hook_backward_pre)(a, ask_of_module, &asked, there);
    if (k > 1) h = tn_call(a, h);
    else (tn_on_grad)(h, k ? ask_by_backward : ask, &asked, there);
    asked.of = h;
    tn_backward(tn_sum(h));
    CHECK(asked.runs == 1);
    CHECK_REPORT(
        p, k < 2 ? "user.c:41: error[E009]: a hook on a gradient asks for a gradient that it is itself a part of\n"
                   "user.c:31: note: the hook was registered here\n"
                   "hint: a hook takes gradients of what does not depend on the hooked value, or of its "
                   "tn_detach(..)\n"
                 : "user.c:41: error[E009]: a hook of module 'a' asks for a gradient that it is itself a part of\n"
                   "user.c:31: note: the hook was registered here\n"
                   "hint: a hook takes gradients of what does not depend on the hooked value, or of its "
                   "tn_detach(..)\n");
    end(NULL);
  }
}

SCENARIO(H_asks_before_itself) {
  start();
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), ((tn_init){TN_INIT_CONSTANT, 3, 0}));
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), x = tn_mul_scalar(w, 1), h = tn_mul_scalar(x, 2);
  Asked asked = {.of = x, .by = x}, outer = {.of = h, .by = x};
  tn_on_grad(h, ask, &asked);
  tn_on_grad(tn_mul_scalar(w, 5), ask, &outer);  // not on the way
  tn_backward(tn_sum(h));
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_model *m = compile();
  float g[2];
  CHECK(m && tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(g, 2))) == TN_OK);
  CHECK(asked.runs == 1 && outer.runs == 0 && g[0] == 2 * (1 + 2 * 3) && g[1] == g[0]);
  end(m);
}

// A call takes a module's hooks: one that is removed behind it still sees the gradient of that call, as in PyTorch
static tn_values doubled(tn_module *m, tn_values out, void *ctx) {
  (void)m, (void)ctx;
  out.v[0] = tn_mul_scalar(out.v[0], 2);
  return out;
}

SCENARIO(H_removed_behind_call) {
  start();
  tn_module *a = tn_identity(tn_root(p), "a");
  tn_parameter(tn_root(p), "w", TN_SHAPE(1), ((tn_init){TN_INIT_CONSTANT, 1, 0}));
  tn_hook *h = tn_hook_backward_pre(a, doubled, NULL);
  tn_tensor y = tn_call(a, tn_param_value(f, tn_root(p), "w"));
  tn_hook_remove(h);
  tn_backward(tn_sum(tn_add(y, tn_call(a, tn_param_value(f, tn_root(p), "w")))));
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_model *m = compile();
  float g;
  CHECK(m && tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(&g, 1))) == TN_OK && g == 3);
  CHECK_REPORT(p, "");
  end(m);
}
