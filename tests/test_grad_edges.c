// Gradients where a formula alone gives NaN, against PyTorch's numbers (2.13, float32, sum as the loss), and gradients
// that reach their reader through a view of what a product makes.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>

enum { N = 6 };

static bool same(float a, float b) { return (isnan(a) && isnan(b)) || fabsf(a - b) <= 1e-5f * fabsf(b) || a == b; }

static void check_all(const float *got, const float *expected, const char *what) {
  for (int k = 0; k < N; k++)
    if (!CHECK(same(got[k], expected[k]))) printf("  %s, element %d: %g, not %g\n", what, k, got[k], expected[k]);
}

// ---- points where factors are infinite
static tn_tensor power(tn_tensor a, tn_tensor b) { return tn_pow(a, b); }
static tn_tensor root_of_max(tn_tensor a, tn_tensor b) { return tn_sqrt(tn_max(a, b)); }
static tn_tensor root_of_min(tn_tensor a, tn_tensor b) { return tn_sqrt(tn_neg(tn_min(a, b))); }
static tn_tensor root_of_relu(tn_tensor a, tn_tensor b) { return tn_mul(tn_sqrt(tn_relu(a)), tn_abs(b)); }
static tn_tensor to_zero(tn_tensor a, tn_tensor b) { return tn_add(tn_pow(a, tn_scalar(a.fn, 0)), b); }

typedef struct {
  const char *name;
  tn_tensor (*build)(tn_tensor a, tn_tensor b);
  float a[N], b[N], of_a[N], of_b[N];
} Edge;

static const Edge edges[] = {
    {"pow", power, {0, 0, 2, 0, -1, 3}, {0, 2, 0, 1, 0, 2}, {0, 0, 0, 1, 0, 6}, {0, 0, 0.6931472f, 0, NAN, 9.887511f}},
    {"pow by 0", to_zero, {0, -1, 2, INFINITY, 1, 3}, {1, 2, 3, 4, 5, 6}, {0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}},
    {"max",
     root_of_max,
     {-1, -2, 4, 0, -3, 1},
     {0, 0, 1, -1, 4, -1},
     {0, 0, 0.25f, INFINITY, 0, 0.5f},
     {INFINITY, INFINITY, 0, 0, 0.25f, 0}},
    {"min",
     root_of_min,
     {1, 2, -4, 0, 3, -1},
     {0, 0, -1, 1, -4, 1},
     {0, 0, -0.25f, INFINITY, 0, -0.5f},
     {INFINITY, INFINITY, 0, 0, -0.25f, 0}},
    {"relu",
     root_of_relu,
     {-1, 0, 4, -2, 1, 16},
     {1, 1, 2, 1, 3, -4},
     {0, 0, 0.5f, 0, 1.5f, 0.5f},
     {0, 0, 2, 0, 1, -4}},
};

static void test_edges(uint32_t workers) {
  for (size_t k = 0; k < sizeof edges / sizeof *edges; k++) {
    const Edge *t = &edges[k];
    float y[N], of_a[N], of_b[N];
    tn_program *p = tn_program_create("edges");
    tn_function *f = tn_function_begin(p, "step");
    tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(N)), b = tn_input(f, "b", TN_F32, TN_SHAPE(N));
    tn_set_requires_grad(a, true), tn_set_requires_grad(b, true);
    tn_tensor out = t->build(a, b), loss = tn_sum(out);
    tn_output(f, "y", out), tn_output(f, "da", tn_grad(loss, a)), tn_output(f, "db", tn_grad(loss, b));
    tn_function_end(f);
    tn_model *m = model_of(p, .n_workers = workers);
    if (m)
      CHECK(!tn_run(m, "step", TN_IN(tn_f32(t->a, N), tn_f32(t->b, N)),
                    TN_OUT(tn_f32(y, N), tn_f32(of_a, N), tn_f32(of_b, N))));
    check_all(of_a, t->of_a, t->name), check_all(of_b, t->of_b, t->name);
    tn_model_free(m), tn_program_free(p);
  }
}

// A step of a recurrent layer with relu that is NaN has a gradient, as relu itself.
static void test_recurrent_relu(void) {
  tn_program *p = tn_program_create("recurrent");
  tn_module *rnn = tn_rnn(tn_root(p), "rnn", 1, 2, true);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, 2, 1));
  tn_tensor loss = tn_sum(tn_rnn_call_dense(rnn, x).dense), bias = tn_param_value(f, rnn, "bias_ih_l0");
  tn_output(f, "db", tn_grad(loss, bias));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float got[2] = {0};
  CHECK(m && !tn_run(m, "step", TN_IN(tn_f32(((float[]){NAN, NAN}), 1, 2, 1)), TN_OUT(tn_f32(got, 2))));
  CHECK(got[0] == 2 && got[1] == 2);  // PyTorch's: 1 of each sequence
  tn_model_free(m), tn_program_free(p);
}

// Attention of no sequences, or of heads without elements: the gradient of a bias that is broadcast is zeros.
static void test_bias_of_nothing(int64_t batch, int64_t size) {
  tn_program *p = tn_program_create("nothing");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor q = tn_input(f, "q", TN_F32, TN_SHAPE(batch, 2, 3, size)),
            bias = tn_input(f, "bias", TN_F32, TN_SHAPE(3, 3));
  tn_set_requires_grad(bias, true);
  tn_tensor y = tn_scaled_dot_product_attention(q, q, q, .bias = bias, .scale = 1);
  tn_output(f, "db", tn_grad(tn_sum(y), bias));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float b[9] = {0}, got[9];
  for (int k = 0; k < 9; k++) got[k] = 7;
  CHECK(m && !tn_run(m, "step", TN_IN(tn_f32(b, batch, 2, 3, size), tn_f32(b, 3, 3)), TN_OUT(tn_f32(got, 3, 3))));
  for (int k = 0; k < 9; k++) CHECK(got[k] == 0);
  tn_model_free(m), tn_program_free(p);
}

// ---- derivatives that are 0: gradients of 0, for hooks and optimizers too
static tn_tensor add_one(tn_tensor gradient, void *ctx) {
  ++*(int *)ctx;
  return tn_add(gradient, tn_scalar(gradient.fn, 1));
}

// w stands behind round alone: its gradient is 0, and decay shrinks it. h is as round leaves it, and its hook makes of 0 1.
static void test_zero_gradients(void) {
  tn_program *p = tn_program_create("zeros");
  int n_hooks = 0;
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), (tn_init){TN_INIT_CONSTANT, 1.5, 0});
  tn_parameter(tn_root(p), "v", TN_SHAPE(3), (tn_init){TN_INIT_CONSTANT, 2.5, 0});
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), v = tn_param_value(f, tn_root(p), "v"), h = tn_mul(v, v);
  tn_on_grad(h, add_one, &n_hooks);
  tn_backward(tn_sum(tn_exp(tn_add(tn_round(w), tn_floor(h)))));
  tn_output(f, "dw", tn_param_grad(f, tn_root(p), "w")), tn_output(f, "dv", tn_param_grad(f, tn_root(p), "v"));
  tn_sgd(f, tn_root(p), .lr = 0.5, .weight_decay = 1);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float dw[3] = {7, 7, 7}, dv[3], now[3] = {0};
  CHECK(m && !tn_run(m, "step", TN_NO_IN, TN_OUT(tn_f32(dw, 3), tn_f32(dv, 3))) && !tn_get(m, "w", now, 3));
  for (int k = 0; k < 3; k++) CHECK(dw[k] == 0 && dv[k] == 5 && now[k] == 0.75f);
  CHECK(n_hooks == 1);
  tn_model_free(m), tn_program_free(p);
}

// What has no gradient at all is an error still.
static void test_no_gradient(void) {
  tn_program *p = tn_program_create("none");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3));
  tn_grad(tn_sum(tn_cast(tn_round(x), TN_I64)), x);
  tn_grad(tn_sum(tn_cast(tn_argmax(tn_round(x)), TN_F32)), x);
  tn_grad(tn_sum(tn_cast(tn_gt(tn_floor(x), tn_scalar(f, 0)), TN_F32)), x);
  CHECK(tn_n_errors(p) == 3 && !tn_requires_grad(tn_gt(x, x)));
  tn_program_free(p);
}

// Of several results the first one has a gradient only where the loss reads it: none, and no hook, where it reads another.
static void test_result_that_no_loss_reads(void) {
  tn_program *p = tn_program_create("results");
  int n_hooks = 0;
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 3));
  tn_qr_value qr = tn_qr(x);
  tn_on_grad(qr.q, add_one, &n_hooks);
  tn_output(f, "g", tn_grad(tn_sum(tn_square(qr.r)), x));
  tn_eigh_value e = tn_eigh(x);
  CHECK(tn_n_errors(p) == 0 && n_hooks == 0);
  tn_grad(tn_sum(e.vectors), e.values);
  CHECK(tn_n_errors(p) == 1);
  tn_grad(tn_sum(e.values), e.vectors);
  CHECK(tn_n_errors(p) == 2);
  tn_grad(tn_sum(tn_slogdet(x).sign), x);
  CHECK(tn_n_errors(p) == 3);
  tn_program_free(p);
}

// ---- views between kernels of one level
enum { ROWS = 3, WIDE = 6, IN = 200, OUT = 170 };  // IN x OUT: large enough for an update in the product's kernel

// Two products of one level: the epilogue of the second one reads what the first one makes, in another shape.
static void test_view_between_products(void) {
  tn_program *p = tn_program_create("between");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, WIDE));
  tn_tensor u = tn_input(f, "u", TN_F32, TN_SHAPE(3, 1));
  tn_tensor v = tn_input(f, "v", TN_F32, TN_SHAPE(WIDE, 2));
  tn_set_requires_grad(x, true);
  tn_tensor h = tn_sin(x), by_three = tn_tanh(tn_reshape(h, TN_SHAPE(ROWS, 2, 3)));
  tn_tensor first = tn_sum(tn_sin(tn_softmax(tn_matmul(tn_tanh(h), v), -1)));
  tn_tensor loss = tn_add(first, tn_sum(tn_sin(tn_matmul(by_three, u))));
  tn_output(f, "loss", loss), tn_output(f, "g", tn_grad(loss, x));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  static const float expected[ROWS * WIDE] = {0.4546982f, -0.9682112f, 0.2543946f, 0.4958104f, -0.9664114f, 0.2263119f,
                                              0.3864667f, -0.8540848f, 0.2422939f, 0.4934111f, -0.9999095f, 0.2373464f,
                                              0.4330606f, -0.8127654f, 0.2456014f, 0.4766236f, -1.003248f,  0.2419902f};
  float xs[ROWS * WIDE], us[3] = {0.5f, -1, 0.25f}, vs[WIDE * 2], g[ROWS * WIDE], l = 0;
  for (int k = 0; k < ROWS * WIDE; k++) xs[k] = 0.1f * (float)(k % 7) - 0.25f;
  for (int k = 0; k < WIDE * 2; k++) vs[k] = 0.3f * (float)(k % 5) - 0.5f;
  if (m)
    CHECK(!tn_run(m, "step", TN_IN(tn_f32(xs, ROWS, WIDE), tn_f32(us, 3, 1), tn_f32(vs, WIDE, 2)),
                  TN_OUT(tn_f32_scalar(&l), tn_f32(g, ROWS, WIDE))));
  CHECK(fabsf(l - 2.867626f) < 1e-5f);
  for (int k = 0; k < ROWS * WIDE; k++) CHECK(fabsf(g[k] - expected[k]) < 1e-5f);
  tn_model_free(m), tn_program_free(p);
}

// A gradient whose update stands in its kernel is handed out in another shape.
static void test_view_of_led_gradient(void) {
  tn_program *p = tn_program_create("led");
  tn_parameter(tn_root(p), "w", TN_SHAPE(IN, OUT), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, IN));
  tn_backward(tn_sum(tn_matmul(x, tn_param_value(f, tn_root(p), "w"))));
  tn_output(f, "g", tn_reshape(tn_param_grad(f, tn_root(p), "w"), TN_SHAPE(IN * OUT)));
  tn_sgd(f, tn_root(p), .lr = 1);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  static float xs[ROWS * IN], g[IN * OUT], w[IN * OUT];
  for (int k = 0; k < ROWS * IN; k++) xs[k] = (float)(k % 13);
  if (m) CHECK(!tn_run(m, "step", TN_IN(tn_f32(xs, ROWS, IN)), TN_OUT(tn_f32(g, IN * OUT))));
  if (m) CHECK(!tn_get(m, "w", w, IN * OUT));
  bool equal = true;
  for (int k = 0; k < IN * OUT; k++) {
    float expected = 0;
    for (int r = 0; r < ROWS; r++) expected += xs[r * IN + k / OUT];
    equal = equal && g[k] == expected && w[k] == -expected;
  }
  CHECK(equal);
  tn_model_free(m), tn_program_free(p);
}

int main(void) {
  for (uint32_t workers = 1; workers <= 3; workers++) test_edges(workers);
  test_recurrent_relu();
  test_bias_of_nothing(0, 4), test_bias_of_nothing(2, 0);
  test_zero_gradients();
  test_no_gradient();
  test_result_that_no_loss_reads();
  test_view_between_products();
  test_view_of_led_gradient();
  return check_report();
}
