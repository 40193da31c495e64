// Losses of logits and their gradients in one pass: whatever the gradient is multiplied by, when that does not follow
// from the loss itself, the logits are read once and their gradient takes their place. Rows of any width.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 24, CLASSES = 500, WIDE = 16, LOGITS = ROWS * CLASSES * 4, SMALL = 8192 };

typedef struct {
  tn_function *f;
  tn_tensor label, other, weight, scale, soft;  // soft: targets as probabilities
} In;

#define LOSS(name) static tn_tensor name(const In *in, tn_tensor x)
#define WITH(...) tn_cross_entropy(x, in->label, __VA_ARGS__)

static tn_tensor number(const In *in, double v) { return tn_scalar(in->f, v); }

LOSS(plain) {
  (void)in;
  return tn_cross_entropy(x, in->label);
}
LOSS(scaled) { return tn_mul(tn_cross_entropy(x, in->label), number(in, 128)); }
LOSS(scaled_at_run_time) { return tn_mul(in->scale, tn_cross_entropy(x, in->label)); }
LOSS(summed) { return WITH(.reduction = TN_REDUCE_SUM); }
LOSS(ignoring) { return WITH(.has_ignore = true, .ignore_index = -100); }
LOSS(ignoring_scaled) { return tn_mul(in->scale, WITH(.has_ignore = true, .ignore_index = -100)); }
LOSS(weighed) { return WITH(.weight = in->weight); }
LOSS(smoothed) { return WITH(.label_smoothing = 0.1); }
LOSS(all_options) {
  return WITH(.has_ignore = true, .ignore_index = -100, .label_smoothing = 0.1, .weight = in->weight);
}
LOSS(two_labels) { return tn_add(tn_cross_entropy(x, in->label), tn_cross_entropy(x, in->other)); }
LOSS(by_confidence) {
  tn_tensor nll = WITH(.reduction = TN_REDUCE_NONE), rest = tn_sub(number(in, 1), tn_exp(tn_neg(nll)));
  return tn_mean(tn_mul(tn_square(rest), nll));
}
LOSS(soft_targets) { return tn_neg(tn_mean(tn_mul(tn_log_softmax(x, -1), in->soft))); }
LOSS(tempered) { return tn_cross_entropy(tn_mul(x, in->scale), in->label); }

typedef struct {
  const char *name;
  tn_tensor (*loss)(const In *in, tn_tensor x);
} Case;
static const Case cases[] = {
    {"plain", plain},
    {"scaled by a constant", scaled},
    {"scaled at run time", scaled_at_run_time},
    {"summed", summed},
    {"ignoring a label", ignoring},
    {"ignoring, scaled at run time", ignoring_scaled},
    {"class weights", weighed},
    {"smoothing", smoothed},
    {"all options", all_options},
    {"two losses", two_labels},
    {"weighed by its confidence", by_confidence},
    {"soft targets", soft_targets},
    {"temperature", tempered},
};

static In inputs(tn_function *f) {
  tn_dim rows = tn_dim_const(ROWS), classes = tn_dim_const(CLASSES);
  return (In){.f = f,
              .label = tn_input(f, "label", TN_I64, TN_SHAPE(rows)),
              .other = tn_input(f, "other", TN_I64, TN_SHAPE(rows)),
              .weight = tn_input(f, "weight", TN_F32, TN_SHAPE(classes)),
              .scale = tn_input(f, "scale", TN_F32, TN_SCALAR),
              .soft = tn_input(f, "soft", TN_F32, TN_SHAPE(rows, classes))};
}

// Logits that the caller owns: read once, and their gradient is all of their size that is written.
static void reads_once(const Case *c) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, CLASSES));
  In in = inputs(f);
  tn_set_requires_grad(x, true);
  tn_tensor loss = c->loss(&in, x);
  tn_output(f, "loss", loss);
  tn_output(f, "d", tn_grad(loss, x));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  int64_t read = tn_plan_bytes_read(m, "run", "x"), written = tn_plan_bytes_written(m, "run", NULL);
  if (!CHECK(read == LOGITS && written < LOGITS + SMALL))
    printf("  %s: logits of %d bytes: %lld read, %lld written\n", c->name, LOGITS, (long long)read, (long long)written);
  CHECK(tn_plan_bytes_read(m, "none", NULL) == -1);
  tn_model_free(m);
}

// Logits in the arena: the gradient lies where they lay.
static void has_no_second_copy(const Case *c) {
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor h = tn_input(f, "h", TN_F32, TN_SHAPE(ROWS, WIDE));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(CLASSES, WIDE));
  In in = inputs(f);
  tn_set_requires_grad(h, true);
  tn_tensor loss = c->loss(&in, tn_matmul(h, tn_transpose(w, 0, 1)));
  tn_output(f, "loss", loss);
  tn_output(f, "d", tn_grad(loss, h));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK);
  int64_t written = tn_plan_bytes_written(m, "run", NULL);
  bool small = plan.lower_bound < LOGITS + SMALL && written < 2 * LOGITS + SMALL;
  if (!CHECK(small))
    printf("  %s: logits of %d bytes: %lld at the peak, %lld written\n", c->name, LOGITS, (long long)plan.lower_bound,
           (long long)written);
  tn_model_free(m);
}

// A scale that follows from the loss: two passes, and the right gradient, e^loss / rows (p - onehot).
static void waits_for_the_loss(void) {
  enum { R = 9, C = 33 };
  float x[R * C], d[R * C], loss = 0;
  int64_t y[R];
  for (int k = 0; k < R * C; k++) x[k] = (float)(k * 37 % 101) / 25 - 2;
  for (int k = 0; k < R; k++) y[k] = k * 5 % C;
  tn_program *p = tn_program_create("loss");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(R, C));
  tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(R));
  tn_set_requires_grad(in, true);
  tn_tensor perplexity = tn_exp(tn_cross_entropy(in, label));
  tn_output(f, "loss", perplexity);
  tn_output(f, "d", tn_grad(perplexity, in));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 2);
  CHECK(tn_plan_bytes_read(m, "run", "x") == 2 * R * C * 4);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, R, C), tn_i64(y, R)), TN_OUT(tn_f32_scalar(&loss), tn_f32(d, R, C))) == TN_OK);
  double mean = 0, worst = 0, sum[R];
  for (int i = 0; i < R; i++) {
    sum[i] = 0;
    for (int k = 0; k < C; k++) sum[i] += exp(x[i * C + k]);
    mean += (log(sum[i]) - x[i * C + y[i]]) / R;
  }
  for (int k = 0; k < R * C; k++) {
    double want = exp(mean) / R * (exp(x[k]) / sum[k / C] - (k % C == y[k / C]));
    worst = fmax(worst, fabs(d[k] - want));
  }
  CHECK(fabs(loss - exp(mean)) < 1e-4 * exp(mean) && worst < 1e-5 * exp(mean));
  tn_model_free(m);
}

// ---- rows wider than any buffer on the stack
static void is_right(int64_t rows, int64_t classes, bool one_pass) {
  size_t n = (size_t)(rows * classes);
  float *x = malloc(n * sizeof *x), *d[2] = {malloc(n * sizeof *x), malloc(n * sizeof *x)}, loss[2] = {0};
  int64_t *y = malloc((size_t)rows * sizeof *y);
  if (!x || !d[0] || !d[1] || !y) abort();
  uint32_t seed = 7;
  for (size_t k = 0; k < n; k++) x[k] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-21f - 4;
  for (int64_t k = 0; k < rows; k++) y[k] = k ? (classes - 1) / k : 0;
  for (uint32_t run = 0; run < 2; run++) {
    tn_program *p = tn_program_create("wide");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "rows", rows + 1), classes));
    tn_tensor label = tn_input(f, "label", TN_I64, TN_SHAPE(tn_dim_bounded(p, "rows", rows + 1)));
    tn_set_requires_grad(in, true);
    tn_tensor out = tn_cross_entropy(in, label, .has_ignore = true, .ignore_index = -1);
    tn_output(f, "loss", out);
    tn_output(f, "d", tn_grad(out, in));
    tn_function_end(f);
    tn_model *m = model_alone(p, .n_workers = run ? 3 : 1);
    CHECK(!one_pass || tn_plan_bytes_read(m, "run", "x") == (rows + 1) * classes * 4);
    CHECK(tn_run(m, "run", TN_IN(tn_f32(x, rows, classes), tn_i64(y, rows)),
                 TN_OUT(tn_f32_scalar(&loss[run]), tn_f32(d[run], rows, classes))) == TN_OK);
    tn_model_free(m);
  }
  double mean = 0, worst = 0;
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    const float *row = x + i * classes, *got = d[0] + i * classes;
    for (int64_t k = 0; k < classes; k++) sum += exp(row[k]);
    mean += (log(sum) - row[y[i]]) / (double)rows;
    for (int64_t k = 0; k < classes; k++)
      worst = fmax(worst, fabs(got[k] - (exp(row[k]) / sum - (k == y[i])) / (double)rows));
  }
  CHECK(!memcmp(d[0], d[1], n * sizeof *x) && loss[0] == loss[1]);
  if (!CHECK(fabs(loss[0] - mean) < 1e-5 * mean && worst < 1e-6))
    printf("  %lld x %lld: loss %g, expected %g; gradient off by %g\n", (long long)rows, (long long)classes,
           (double)loss[0], mean, worst);
  free(x), free(y), free(d[0]), free(d[1]);
}

int main(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) reads_once(&cases[k]), has_no_second_copy(&cases[k]);
  waits_for_the_loss();
  is_right(9, 50000, true);
  is_right(8, 1000003, true);
  is_right(2, 1000000, false);
  is_right(70, 17, true);
  return check_report();
}
