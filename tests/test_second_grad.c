// Gradients of gradients in compiled code against PyTorch's (second_grad_goldens.txt, by make_second_grad_goldens.py), by
// one worker or two; what has no rule is refused and not silently a constant.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"
#include "tests/report.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_ELEMENTS = 64 };

typedef struct {
  const char *name;
  tn_tensor (*build)(tn_tensor x, tn_tensor w);
  int n_x, n_w;
  int64_t x[3], w[3];
  const double *m, *dx, *dw;
} Case;

static const Case *now;  // whose ops are built: the sizes

// ---- ops
static tn_tensor number(tn_tensor like, double v) { return tn_scalar(like.fn, v); }
static tn_tensor add3(tn_tensor a, tn_tensor b, tn_tensor c) { return tn_add(tn_add(a, b), c); }
static tn_tensor one_plus(tn_tensor a, double by) { return tn_add(tn_square(a), number(a, by)); }
static tn_tensor row(tn_tensor w, int64_t k) { return tn_reshape(tn_slice(w, 0, k, 1), TN_SHAPE(tn_dim_of(w, 1))); }
static tn_tensor softmax(tn_tensor x, tn_tensor w) { return tn_mul(tn_softmax(x, -1), w); }
static tn_tensor softmax_first(tn_tensor x, tn_tensor w) { return tn_softmax(tn_mul(x, w), 0); }
static tn_tensor log_softmax(tn_tensor x, tn_tensor w) { return tn_log_softmax(tn_mul(x, w), -1); }
static tn_tensor layer_norm(tn_tensor x, tn_tensor w) { return tn_layer_norm_of(x, 1, row(w, 0), row(w, 1), 1e-2); }
static tn_tensor layer_norm_plain(tn_tensor x, tn_tensor w) {
  return tn_layer_norm_of(tn_mul(x, w), 1, TN_NONE, TN_NONE, 1e-2);
}
static tn_tensor rms_norm(tn_tensor x, tn_tensor w) { return tn_rms_norm_of(x, 1, w, 1e-2); }
static tn_tensor rms_norm_plain(tn_tensor x, tn_tensor w) {
  return tn_rms_norm_of(tn_add(x, tn_square(w)), 1, TN_NONE, 1e-2);
}

static tn_tensor entropy(tn_tensor x, tn_tensor w, bool ignores, double smoothing) {
  int64_t n = now->x[0], classes = now->x[1], label[MAX_ELEMENTS];
  for (int64_t k = 0; k < n; k++) label[k] = ignores && k + 1 == n ? -100 : (k * 2 + 1) % classes;
  tn_loss_options o = {
      .reduction = TN_REDUCE_NONE, .has_ignore = true, .ignore_index = -100, .label_smoothing = smoothing};
  return (tn_cross_entropy)(tn_mul(x, w), tn_constant_i64(x.fn, label, TN_SHAPE(n)), o);
}
static tn_tensor cross_entropy(tn_tensor x, tn_tensor w) { return entropy(x, w, false, 0); }
static tn_tensor cross_entropy_ignored(tn_tensor x, tn_tensor w) { return entropy(x, w, true, 0); }
static tn_tensor cross_entropy_smoothed(tn_tensor x, tn_tensor w) { return entropy(x, w, false, 0.25); }

// x [B, T, H D]: queries of 2 heads, keys of 2 or 1, values made of both
static tn_tensor heads(tn_tensor x, int64_t n) {
  int64_t dims[] = {now->x[0], now->x[1], n, now->x[2] / 2};
  tn_tensor part = n == 2 ? x : tn_slice(x, 2, 0, dims[3]);
  return tn_transpose(tn_reshape(part, TN_SHAPE(dims[0], dims[1], dims[2], dims[3])), 1, 2);
}
static tn_tensor attention(tn_tensor x, tn_tensor w) {
  return tn_scaled_dot_product_attention(heads(x, 2), heads(w, 2), heads(tn_mul(x, w), 2), .causal = true);
}
static tn_tensor attention_grouped(tn_tensor x, tn_tensor w) {
  tn_tensor bias = tn_reshape(tn_slice(tn_slice(w, 2, 0, 1), 1, 0, 1), TN_SHAPE(now->x[0], 1, 1, 1));
  return tn_scaled_dot_product_attention(heads(x, 2), heads(w, 1), heads(tn_mul(x, w), 1), .window = 2, .bias = bias);
}

// A step each of x [B, T, H D]: a gradient of the body's backward
static tn_tensor attention_in_scan(tn_tensor x, tn_tensor w) {
  tn_scan *s = tn_scan_begin(x.fn, .steps = tn_dim_const(now->x[0]));
  int64_t dims[] = {1, now->x[1], 1, now->x[2]};
  tn_tensor q = tn_reshape(tn_scan_input(s, x), TN_SHAPE(dims[0], dims[1], dims[2], dims[3]));
  tn_tensor k = tn_reshape(tn_scan_input(s, w), TN_SHAPE(dims[0], dims[1], dims[2], dims[3]));
  tn_tensor out = tn_scan_output(s, tn_scaled_dot_product_attention(q, k, tn_mul(q, k), .heads_inside = true));
  tn_scan_end(s);
  return out;
}

static tn_tensor matmul(tn_tensor x, tn_tensor w) { return tn_matmul(x, tn_transpose(w, 0, 1)); }
static tn_tensor matmul_batch(tn_tensor x, tn_tensor w) { return tn_tanh(tn_matmul(x, w)); }
static tn_tensor mean(tn_tensor x, tn_tensor w) {
  return tn_mean_axis(tn_mul(tn_sub(x, tn_mean_axis(x, -1, true)), w), 0, false);
}
static tn_tensor amax(tn_tensor x, tn_tensor w) {
  return tn_mul(tn_amax_axis(tn_mul(tn_square(x), x), -1, false), tn_sum_axis(w, -1, false));
}
static tn_tensor pow_of(tn_tensor x, tn_tensor w) { return tn_pow(one_plus(x, 0.5), w); }
static tn_tensor roots(tn_tensor x, tn_tensor w) {
  return add3(tn_sqrt(one_plus(x, 1)), tn_rsqrt(one_plus(w, 1)), tn_log(tn_add(tn_square(x), one_plus(w, 1))));
}
static tn_tensor gates(tn_tensor x, tn_tensor w) {
  tn_tensor xw = tn_mul(x, w);
  return add3(tn_mul(tn_sigmoid(xw), tn_tanh(x)), tn_softplus(x), tn_silu(xw));
}
static tn_tensor gelu(tn_tensor x, tn_tensor w) {
  return add3(tn_gelu(tn_mul(x, w)), tn_gelu_tanh(tn_add(x, w)), tn_erf(x));
}
static tn_tensor quotient(tn_tensor x, tn_tensor w) {
  return tn_add(tn_div(x, one_plus(w, 1)), tn_mul(tn_exp(x), tn_cos(w)));
}
static tn_tensor kinks(tn_tensor x, tn_tensor w) {
  tn_tensor leaky = tn_leaky_relu(tn_mul(tn_square(x), w), 0.125), relu = tn_relu(tn_mul(x, tn_square(w)));
  return add3(leaky, relu, tn_add(tn_max(tn_square(x), w), tn_abs(tn_mul(x, w))));
}
static tn_tensor shapes(tn_tensor x, tn_tensor w) {
  int64_t cols = now->x[1];
  tn_tensor part = tn_mul(tn_slice(x, 1, 1, cols - 1), tn_slice(w, 1, 1, cols - 1));
  tn_tensor turned = tn_reshape(tn_transpose(tn_square(x), 0, 1), TN_SHAPE(tn_dim_of(x, 0), tn_dim_of(x, 1)));
  return tn_concat(1, TN_TENSORS(part, turned));
}

// A norm of gradients in a loss: three orders with the test's own.
static tn_tensor global_norm(tn_tensor x, tn_tensor w) {
  tn_tensor g = tn_grad(tn_sum(tn_sin(tn_mul(x, w))), x);
  return tn_add(tn_sqrt(tn_sum(tn_square(g))), tn_mul(number(x, 0), tn_sum(w)));
}

static tn_tensor scan(tn_tensor x, tn_tensor w) {
  tn_dim steps = tn_dim_of(x, 0), rows = tn_dim_of(x, 1), cols = tn_dim_of(x, 2);
  tn_tensor h0 = tn_expand(number(x, 0), TN_SHAPE(rows, cols));
  tn_scan *s = tn_scan_begin(x.fn, .steps = steps);
  tn_tensor in = tn_scan_input(s, x), h = tn_scan_carry(s, h0), next = tn_tanh(tn_add(tn_matmul(h, w), in));
  tn_scan_next(s, h, next);
  tn_tensor out = tn_scan_output(s, next);
  tn_scan_end(s);
  return out;
}

static const int64_t lengths[] = {2, 4, 1};
static tn_packed packed(tn_tensor x) { return tn_pack_constant(x, lengths, 3); }
static tn_tensor packed_softmax(tn_tensor x, tn_tensor w) { return tn_packed_softmax(packed(tn_mul(x, w))).data; }
static tn_tensor packed_max(tn_tensor x, tn_tensor w) { return tn_packed_max(packed(tn_mul(tn_square(x), w))); }
static tn_tensor packed_last(tn_tensor x, tn_tensor w) {
  tn_tensor ends = tn_mul(tn_packed_last(packed(tn_sin(tn_mul(x, w)))), tn_packed_first(packed(tn_square(x))));
  return tn_add(ends, tn_packed_sum(packed(tn_mul(x, w))));
}
static const struct {
  const char *name;
  tn_tensor (*build)(tn_tensor x, tn_tensor w);
} ops[] = {{"softmax", softmax},
           {"softmax_first", softmax_first},
           {"log_softmax", log_softmax},
           {"layer_norm", layer_norm},
           {"layer_norm_plain", layer_norm_plain},
           {"rms_norm", rms_norm},
           {"rms_norm_plain", rms_norm_plain},
           {"cross_entropy", cross_entropy},
           {"cross_entropy_ignored", cross_entropy_ignored},
           {"cross_entropy_smoothed", cross_entropy_smoothed},
           {"matmul", matmul},
           {"matmul_batch", matmul_batch},
           {"attention", attention},
           {"attention_grouped", attention_grouped},
           {"attention_in_scan", attention_in_scan},
           {"mean", mean},
           {"amax", amax},
           {"pow", pow_of},
           {"roots", roots},
           {"gates", gates},
           {"gelu", gelu},
           {"quotient", quotient},
           {"kinks", kinks},
           {"shapes", shapes},
           {"global_norm", global_norm},
           {"scan", scan},
           {"packed_softmax", packed_softmax},
           {"packed_max", packed_max},
           {"packed_last", packed_last}};
enum { N_OPS_HERE = sizeof ops / sizeof *ops };

// ---- a case
static int64_t fill(float *to, const int64_t *dims, int rank, int64_t by, int64_t from, int64_t period, float shift) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k];
  for (int64_t k = 0; k < n; k++) to[k] = (float)((k * by + from) % period) / 8 - shift;
  return n;
}

static tn_tensor input(tn_function *f, const char *name, const int64_t *dims, int rank) {
  tn_dim d[3];
  for (int k = 0; k < rank; k++) d[k] = tn_dim_const(dims[k]);
  return tn_input(f, name, TN_F32, tn_shape_of(d, (uint32_t)rank));
}

static int read_dims(const char *text, int64_t *dims, int64_t *size) {
  int n = 0;
  for (*size = 1;; text++) {
    *size *= dims[n++] = strtol(text, (char **)&text, 10);
    if (*text != 'x') return n;
  }
}

// A name such as softmax 3x5 3x5 with _ between: the op, the sizes of x and of w. Numbers: m, dm/dx and dm/dw
static bool read_case(const GoldenArray *g, Case *c) {
  const char *w = strrchr(g->name, '_'), *x = w;
  if (!w || w[1] < '0' || w[1] > '9') return false;
  while (*--x != '_') {}
  int64_t size_x, size_w;
  *c = (Case){.name = g->name, .m = g->v, .dx = g->v + 1};
  c->n_x = read_dims(x + 1, c->x, &size_x), c->n_w = read_dims(w + 1, c->w, &size_w);
  c->dw = c->dx + size_x;
  for (int k = 0; k < N_OPS_HERE; k++)
    if (strlen(ops[k].name) == (size_t)(x - g->name) && !memcmp(ops[k].name, g->name, (size_t)(x - g->name)))
      c->build = ops[k].build;
  return CHECK(c->build && 1 + size_x + size_w == g->n && size_x <= MAX_ELEMENTS && size_w <= MAX_ELEMENTS);
}

static void check_near(const Case *c, const char *what, const float *found, const double *expected, int64_t n) {
  double scale = 1;
  for (int64_t k = 0; k < n; k++) scale = fmax(scale, fabs(expected[k]));
  for (int64_t k = 0; k < n; k++)
    if (!CHECK(fabs(found[k] - expected[k]) <= 2e-5 * scale))
      printf("  %s, %s [%lld]: %g, not %g\n", c->name, what, (long long)k, found[k], expected[k]);
}

static void test_case(const Case *c, uint32_t workers) {
  now = c;
  tn_program *p = tn_program_create(c->name);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = input(f, "x", c->x, c->n_x), w = input(f, "w", c->w, c->n_w);
  tn_tensor zero = tn_mul(tn_scalar(f, 0), tn_sum(w));  // a gradient for w where the op has none
  tn_tensor l = tn_add(tn_sum(tn_sin(c->build(x, w))), zero);
  tn_tensor m = tn_add(tn_mul(tn_scalar(f, 0.5), tn_sum(tn_square(tn_grad(l, x)))), tn_sum(tn_mul(tn_grad(l, w), w)));
  tn_output(f, "m", m), tn_output(f, "dx", tn_grad(m, x)), tn_output(f, "dw", tn_grad(m, w));
  tn_function_end(f);
  tn_model *model = model_of(p, .n_workers = workers);
  float xs[MAX_ELEMENTS], ws[MAX_ELEMENTS], dx[MAX_ELEMENTS], dw[MAX_ELEMENTS], at = 0;
  int64_t n_x = fill(xs, c->x, c->n_x, 7, 3, 11, 0.6875f), n_w = fill(ws, c->w, c->n_w, 5, 2, 9, 0.4375f);
  tn_array in[] = {tn_array_of(xs, TN_F32, c->x, (uint32_t)c->n_x), tn_array_of(ws, TN_F32, c->w, (uint32_t)c->n_w)};
  tn_array out[] = {tn_f32_scalar(&at), tn_array_of(dx, TN_F32, c->x, (uint32_t)c->n_x),
                    tn_array_of(dw, TN_F32, c->w, (uint32_t)c->n_w)};
  if (model && CHECK(!tn_run(model, "f", in, 2, out, 3))) {
    check_near(c, "m", &at, c->m, 1);
    check_near(c, "dm/dx", dx, c->dx, n_x), check_near(c, "dm/dw", dw, c->dw, n_w);
  }
  tn_model_free(model), tn_program_free(p);
}

// ---- single points
static void test_cubic(void) {  // x^3 + x + x^2: 3 x^2 + 1 + 2 x, then 6 x + 2, then 6
  tn_program *p = tn_program_create("cubic");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SCALAR);
  tn_tensor y = add3(tn_pow(x, tn_scalar(f, 3)), x, tn_square(x));
  tn_tensor once = tn_grad(y, x), twice = tn_grad(once, x);
  tn_output(f, "once", once), tn_output(f, "twice", twice), tn_output(f, "thrice", tn_grad(twice, x));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float at = 42, d[3] = {0};
  if (m)
    CHECK(!tn_run(m, "f", TN_IN(tn_f32_scalar(&at)),
                  TN_OUT(tn_f32_scalar(d), tn_f32_scalar(d + 1), tn_f32_scalar(d + 2))));
  CHECK(d[0] == 5377 && d[1] == 254 && d[2] == 6);
  tn_model_free(m), tn_program_free(p);
}

static void test_softmax_and_penalty(const double *want_again, const double *want_dw) {
  tn_program *p = tn_program_create("penalty");
  tn_parameter(tn_root(p), "w", TN_SHAPE(4), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4)), w = tn_param_value(f, tn_root(p), "w");
  tn_tensor g = tn_grad(tn_sum(tn_mul(tn_softmax(x, -1), w)), x);
  tn_output(f, "again", tn_grad(tn_sum(tn_mul(g, x)), x));
  tn_tensor l = tn_sum(tn_mul(tn_log_softmax(tn_mul(x, w), -1), tn_square(x)));
  g = tn_grad(l, x);
  tn_backward(tn_add(l, tn_square(tn_sub(tn_sqrt(tn_sum(tn_square(g))), tn_scalar(f, 1)))));
  tn_output(f, "dw", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  float xs[] = {0.1f, -0.5f, 0.7f, 1.2f}, ws[] = {1, 2, -1, 0.5f}, again[4], dw[4];
  if (m && CHECK(!tn_set(m, "w", ws, 4)) &&
      CHECK(!tn_run(m, "f", TN_IN(tn_f32(xs, 4)), TN_OUT(tn_f32(again, 4), tn_f32(dw, 4)))))
    for (int k = 0; k < 4; k++) CHECK(fabs(again[k] - want_again[k]) < 1e-6 && fabs(dw[k] - want_dw[k]) < 1e-5);
  tn_model_free(m), tn_program_free(p);
}

// A parameter that a loss reads only through a gradient, and another of which that gradient is no function.
static void test_reached_through_gradient(void) {
  tn_program *p = tn_program_create("through");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), (tn_init){.kind = TN_INIT_CONSTANT, .a = 1});
  tn_parameter(tn_root(p), "b", TN_SHAPE(3), (tn_init){.kind = TN_INIT_CONSTANT, .a = 1});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3));
  tn_tensor y = tn_add(tn_mul(tn_param_value(f, tn_root(p), "w"), tn_square(x)), tn_param_value(f, tn_root(p), "b"));
  tn_backward(tn_sum(tn_square(tn_grad(tn_sum(y), x))));  // sum (2 w x)^2
  tn_output(f, "dw", tn_param_grad(f, tn_root(p), "w")), tn_output(f, "db", tn_param_grad(f, tn_root(p), "b"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float xs[] = {1, 2, 3}, dw[3], db[3] = {7, 7, 7};
  if (m && CHECK(!tn_run(m, "f", TN_IN(tn_f32(xs, 3)), TN_OUT(tn_f32(dw, 3), tn_f32(db, 3)))))
    for (int k = 0; k < 3; k++) CHECK(dw[k] == 8 * xs[k] * xs[k] && db[k] == 0);
  tn_model_free(m), tn_program_free(p);
}

// sum(y^3) of y = k x, k = 0 or 2 by the mask: g = 3 k^3 x^2, and sum(g^2) / 2 has 18 k^6 x^3: the mask is the same.
static void test_dropout(void) {
  enum { N = 40 };
  tn_program *p = tn_program_create("dropout");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N)), y = tn_dropout(x, 0.5);
  tn_tensor g = tn_grad(tn_sum(tn_mul(tn_square(y), y)), x);
  tn_output(f, "y", y), tn_output(f, "d", tn_grad(tn_mul(tn_scalar(f, 0.5), tn_sum(tn_square(g))), x));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float xs[N], ys[N], d[N];
  int kept = 0;
  for (int k = 0; k < N; k++) xs[k] = 0.5f + 0.0625f * (float)k;
  if (m && CHECK(!tn_run(m, "f", TN_IN(tn_f32(xs, N)), TN_OUT(tn_f32(ys, N), tn_f32(d, N)))))
    for (int k = 0; k < N; k++) {
      float x3 = xs[k] * xs[k] * xs[k];
      kept += ys[k] != 0;
      CHECK(fabsf(d[k] - (ys[k] != 0 ? 18 * 64 * x3 : 0)) <= 1e-4f * 18 * 64 * x3);
    }
  CHECK(kept > 8 && kept < 32);
  tn_model_free(m), tn_program_free(p);
}

// The norm that clipping found, in a loss: of g = x cos(x w) it moves with x by g / |g| (cos(x w) - x w sin(x w)). At
// a norm of 0 it does not move.
static void test_clipped_norm(float at) {
  tn_program *p = tn_program_create("norm");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), (tn_init){.kind = TN_INIT_CONSTANT, .a = 1});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3));
  tn_backward(tn_sum(tn_sin(tn_mul(x, tn_param_value(f, tn_root(p), "w")))));
  tn_tensor norm = tn_clip_grad_norm(f, tn_root(p), 1e9);
  tn_output(f, "norm", norm), tn_output(f, "d", tn_grad(norm, x));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float xs[] = {at, -at / 2, 2 * at}, n = 0, d[3];
  if (m && CHECK(!tn_run(m, "f", TN_IN(tn_f32(xs, 3)), TN_OUT(tn_f32_scalar(&n), tn_f32(d, 3)))))
    for (int k = 0; k < 3; k++) {
      float slope = cosf(xs[k]) - xs[k] * sinf(xs[k]);
      CHECK(fabsf(d[k] - (n > 0 ? xs[k] * cosf(xs[k]) / n * slope : 0)) < 1e-5f);
    }
  tn_model_free(m), tn_program_free(p);
}

// ---- no rule: an error that names the op. A carry of 8 axes has none left for the steps.
static void test_refused(void) {
  tn_program *p = tn_program_create("refused");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(5, 3));
  tn_scan *s = tn_scan_begin(f, .steps = tn_dim_const(5));
  tn_tensor in = tn_scan_input(s, x);
  tn_tensor h = tn_scan_carry(s, tn_expand(tn_scalar(f, 0), TN_SHAPE(1, 1, 1, 1, 1, 1, 1, 3)));
  tn_scan_next(s, h, tn_tanh(tn_add(h, in)));
  tn_tensor last = tn_scan_final(s, h);
  tn_scan_end(s);
  tn_output(f, "d", tn_grad(tn_sum(last), x));
  tn_function_end(f);
  CHECK(!tn_compile(p, .cache_dir = ""));
  const char *text = report_of(p);
  CHECK_HAS(text, "error[E125]: ");
  CHECK_HAS(text, " has no gradient rule where its carries are not put out at each step");
  CHECK_HAS(text, "test_second_grad.c:");
  CHECK_HAS(text, "the path: ");
  tn_program_free(p);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  const GoldenArrays goldens = golden_arrays(mem, "tests/second_grad_goldens");
  test_cubic();
  test_softmax_and_penalty(golden_array(&goldens, "softmax_again", 4), golden_array(&goldens, "penalty", 4));
  test_reached_through_gradient();
  test_dropout();
  test_clipped_norm(0.75f), test_clipped_norm(0);
  test_refused();
  Case c = {0};
  CHECK(goldens.n == 96);  // 94 cases, softmax_again, penalty
  for (uint32_t k = 0; k < goldens.n; k++) {
    tn_tensor (*before)(tn_tensor, tn_tensor) = c.build;
    if (read_case(&goldens.at[k], &c) && (c.build != before || is_sampled(k, 3))) test_case(&c, 1 + k % 2);
  }
  rt_arena_free(mem);
  return check_report();
}
