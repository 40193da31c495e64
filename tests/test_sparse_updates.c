// Sparse updates of tables: the same bits as with a dense gradient, for any number of workers, and memory for the
// gathered rows only.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <stdlib.h>

enum { WORDS = 300, WIDE = 19, BATCH = 4, TIME = 11, N = BATCH * TIME, STEPS = 4, CLASSES = 5 };

// shows_gradient: the caller sees the gradient's size, so that it is made.
static tn_program *build(bool shows_gradient, bool tied) {
  tn_program *p = tn_program_create("touched");
  tn_module *net = tn_root(p), *words = tn_embedding(net, "words", WORDS, WIDE);
  tn_module *head = tn_linear(net, "head", WIDE, tied ? WORDS : CLASSES, .no_bias = true);
  if (tied) tn_share(head, "weight", words, "weight");
  tn_function *f = tn_function_begin(p, "f");
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH);
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(batch, TIME));
  tn_tensor y = tn_input(f, "y", TN_I64, TN_SHAPE(batch, TIME));
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_tanh(tn_call(words, x))), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  if (shows_gradient) tn_output(f, "gradient", tn_abs(tn_param_grad(f, words, "weight")));
  tn_adamw(f, net, .lr = 1e-2, .weight_decay = 0.1);
  tn_function_end(f);
  return p;
}

typedef struct {
  float words[WORDS * WIDE], exp_avg[WORDS * WIDE], exp_avg_sq[WORDS * WIDE], loss[STEPS];
} Trained;

static void train(bool shows_gradient, bool tied, uint32_t n_workers, Trained *t, tn_plan *plan) {
  static float gradient[WORDS * WIDE];
  tn_program *p = build(shows_gradient, tied);
  tn_model *m = model_of(p, .n_workers = n_workers, .seed = 3);
  int64_t x[N], y[N];
  for (int step = 0; m && step < STEPS; step++) {
    int64_t batch = step == 2 ? 1 : BATCH;  // the first two steps repeat most words
    for (int i = 0; i < N; i++)
      x[i] = step < 2 ? i * i % 7 : (i * 37 + step) % WORDS, y[i] = (i * 3 + step) % (tied ? WORDS : CLASSES);
    const tn_array out[2] = {tn_f32_scalar(&t->loss[step]), tn_f32(gradient, WORDS, WIDE)};
    CHECK(tn_run(m, "f", TN_IN(tn_i64(x, batch, TIME), tn_i64(y, batch, TIME)), out, shows_gradient ? 2 : 1) == TN_OK);
  }
  CHECK(m && tn_get(m, "words.weight", t->words, WORDS * WIDE) == TN_OK);
  CHECK(m && tn_get(m, "optimizer.exp_avg.words.weight", t->exp_avg, WORDS * WIDE) == TN_OK);
  CHECK(m && tn_get(m, "optimizer.exp_avg_sq.words.weight", t->exp_avg_sq, WORDS * WIDE) == TN_OK);
  CHECK(m && tn_plan_of(m, "f", plan) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  static Trained dense, rows;
  for (int tied = 0; tied < 2; tied++) {
    tn_plan with = {0}, without = {0};
    train(true, tied, 1, &dense, &with);
    for (uint32_t n = 1; n <= 3; n++) {
      train(false, tied, n, &rows, &without);
      CHECK(!memcmp(&dense, &rows, sizeof dense));
    }
    CHECK(dense.loss[STEPS - 1] > 0 && dense.words[0] != 0);
    int64_t table = WORDS * WIDE * 4;
    CHECK(with.peak_bytes >= table && without.peak_bytes <= with.peak_bytes);
    if (!tied) CHECK(without.peak_bytes < table);  // no second table
  }
  return check_report();
}
