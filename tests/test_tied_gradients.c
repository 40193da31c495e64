// Gradients of a parameter that is used several times: memory holds one tensor of its size, not one for each use. The
// rows of a look-up go into the gradient of a product, and a product adds to what the one before it left.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <stdlib.h>

enum { WORDS = 1500, WIDE = 64, N = 5, STEPS = 3, TABLE = WORDS * WIDE * 4, SQUARE = 300, LAYER = SQUARE * SQUARE * 4 };

typedef struct {
  bool two_lookups, clips;
} Net;

static tn_program *build_tied(Net net) {
  tn_program *p = tn_program_create("tied");
  tn_module *root = tn_root(p), *words = tn_embedding(root, "words", WORDS, WIDE);
  tn_module *head = tn_linear(root, "head", WIDE, WORDS, .no_bias = true);
  tn_share(head, "weight", words, "weight");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(N)), y = tn_input(f, "y", TN_I64, TN_SHAPE(N));
  tn_tensor h = tn_tanh(tn_call(words, x));
  if (net.two_lookups) h = tn_sigmoid(tn_add(h, tn_call(words, y)));
  tn_tensor loss = tn_cross_entropy(tn_call(head, h), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  if (net.clips) tn_clip_grad_norm(f, root, 0.5);
  tn_adamw(f, root, .lr = 1e-2, .weight_decay = 0.1);
  tn_function_end(f);
  return p;
}

static tn_program *build_shared(Net net) {
  tn_program *p = tn_program_create("shared");
  tn_module *root = tn_root(p), *layer = tn_linear(root, "layer", SQUARE, SQUARE, .no_bias = true);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(N, SQUARE));
  for (int k = 0; k < 3; k++) x = tn_tanh(tn_call(layer, x));
  tn_tensor loss = tn_sum(x);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  if (net.clips) tn_clip_grad_norm(f, root, 0.5);
  tn_adamw(f, root, .lr = 1e-2, .weight_decay = 0.1);
  tn_function_end(f);
  return p;
}

typedef struct {
  float words[WORDS * WIDE], loss[STEPS];
} Trained;

static tn_model *compile(tn_program *p, uint32_t n_workers) {
  tn_model *m = tn_compile(p, .n_workers = n_workers, .seed = 3);
  if (!CHECK(m != NULL)) printf("%s\n", report_of(p)), exit(1);
  return m;
}

static tn_plan train(Net net, uint32_t n_workers, Trained *t) {
  tn_program *p = build_tied(net);
  tn_model *m = compile(p, n_workers);
  for (int step = 0; step < STEPS; step++) {
    int64_t x[N] = {7, 7, WORDS - 1, step, 7}, y[N] = {step, 3, WORDS - 1, 7, 700};
    CHECK(tn_run(m, "f", TN_IN(tn_i64(x, N), tn_i64(y, N)), TN_OUT(tn_f32_scalar(&t->loss[step]))) == TN_OK);
  }
  CHECK(tn_get(m, "words.weight", t->words, WORDS * WIDE) == TN_OK);
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "f", &plan) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
  return plan;
}

static void test_tied(Net net) {
  static Trained one, many;
  tn_plan plan = train(net, 1, &one);
  if (!CHECK(plan.peak_bytes >= TABLE && plan.peak_bytes < TABLE + TABLE / 4))
    printf("%lld bytes at the peak, %d of one gradient\n", (long long)plan.peak_bytes, TABLE);
  for (uint32_t n = 2; n <= 3; n++) {
    train(net, n, &many);
    CHECK(!memcmp(&one, &many, sizeof one));
  }
  CHECK(one.loss[STEPS - 1] < one.loss[0]);
}

static void test_shared(Net net) {
  tn_program *p = build_shared(net);
  tn_model *m = compile(p, 1);
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "f", &plan) == TN_OK);
  if (!CHECK(plan.peak_bytes < LAYER + LAYER / 4))
    printf("%lld bytes at the peak, %d of one gradient\n", (long long)plan.peak_bytes, LAYER);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  for (int k = 0; k < 4; k++) test_tied((Net){.two_lookups = k & 1, .clips = k & 2});
  for (int k = 0; k < 2; k++) test_shared((Net){.clips = k});
  return check_report();
}
