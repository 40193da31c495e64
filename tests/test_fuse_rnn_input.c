// Recurrences that make the product with a narrow input themselves (pass fuse_rnn_input): the bits of one that reads a product
// over all rows, forward and in training, by every team; and what plans say of it: a kernel and the product's memory
// less. Batches that are bounded below six sequences keep the product.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIME = 11, FEW = 5, MANY = 30, PROJ = 9, MOST_IN = 33, MOST_OUT = 2 * 64 };
typedef enum { LSTM, PROJECTED, TANH, RELU, GRU, N_KINDS } Kind;
static const char *const kind_name[N_KINDS] = {"lstm", "projected", "tanh", "relu", "gru"};

typedef struct {
  Kind kind;
  int64_t in, hidden;
  bool both_ways, no_bias;
} Layer;

static tn_module *make_module(tn_module *net, const Layer *l) {
  tn_rnn_options o = {
      .bidirectional = l->both_ways, .no_bias = l->no_bias, .proj_size = l->kind == PROJECTED ? PROJ : 0};
  switch (l->kind) {
  case GRU: return (tn_gru)(net, "r", l->in, l->hidden, o);
  case TANH:
  case RELU: return (tn_rnn)(net, "r", l->in, l->hidden, l->kind == RELU, o);
  default: return (tn_lstm)(net, "r", l->in, l->hidden, o);
  }
}

// `look` gives all rows, `step` trains.
static tn_model *compile(const Layer *l, int64_t most, uint32_t workers, bool trains) {
  tn_program *p = tn_program_create("narrow");
  tn_dim batch = tn_dim_bounded(p, "batch", most), time = tn_dim_bounded(p, "time", TIME);
  tn_module *m = make_module(tn_root(p), l);
  for (uint32_t train = 0; train <= trains; train++) {
    tn_function *f = tn_function_begin(p, train ? "step" : "look");
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, l->in));
    tn_tensor len = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
    tn_rnn_output r = tn_rnn_call(m, tn_pack_padded(x, len));
    if (train) {
      tn_tensor loss = tn_mean(tn_square(r.out.data));
      tn_backward(loss);
      tn_sgd(f, m, .lr = 0.5);
      tn_output(f, "loss", loss);
    } else tn_output(f, "y", tn_pad_packed(r.out, 0, true));
    tn_function_end(f);
  }
  return model_alone(p, .n_workers = workers, .seed = 5);
}

// ---- the same bits
typedef struct {
  float loss[3], y[FEW * TIME * MOST_OUT];
} Result;

static void run(const Layer *l, tn_model *m, Result *r) {
  static const int64_t lengths[FEW] = {3, 11, 1, 7, 7};
  static float x[FEW * TIME * MOST_IN];
  for (int64_t k = 0; k < FEW * TIME * l->in; k++) x[k] = (float)((k * 7919) % 1000) / 500 - 1;
  tn_array in[] = {tn_f32(x, FEW, TIME, l->in), tn_i64(lengths, FEW)};
  int64_t width = (l->kind == PROJECTED ? PROJ : l->hidden) * (1 + l->both_ways);
  for (uint32_t k = 0; k < 3; k++)
    if (!CHECK(tn_run(m, "step", in, 2, TN_OUT(tn_f32_scalar(&r->loss[k]))) == TN_OK))
      printf("  %s\n", tn_error_text(m));
  CHECK(tn_run(m, "look", in, 2, TN_OUT(tn_f32(r->y, FEW, TIME, width))) == TN_OK);
}

static void compare(const Layer *l) {
  static Result with_product, own;
  memset(&with_product, 0, sizeof with_product);
  tn_model *m = compile(l, FEW, 1, true);
  if (m) run(l, m, &with_product);
  tn_model_free(m);
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    memset(&own, 0, sizeof own);
    m = compile(l, MANY, workers, true);
    if (m) run(l, m, &own);
    tn_model_free(m);
    if (!CHECK(!memcmp(&own, &with_product, sizeof own)))
      printf("  %s %d to %d%s, %u workers: other bits than with a product\n", kind_name[l->kind], (int)l->in,
             (int)l->hidden, l->both_ways ? ", both ways" : "", workers);
  }
}

// ---- what plans say
static tn_plan plan_of(const Layer *l, int64_t most) {
  tn_plan plan = {0};
  tn_model *m = compile(l, most, 1, false);
  if (m) CHECK(tn_plan_of(m, "look", &plan) == TN_OK);
  tn_model_free(m);
  return plan;
}

// Kernels of `look` without products: the layout, sums of biases, packing, the recurrence, padding.
static void expect(Layer l, int64_t most, uint32_t products) {
  tn_plan plan = plan_of(&l, most);
  uint32_t others = 4 + (l.kind != GRU && !l.no_bias);
  if (!CHECK(plan.n_kernels == others + products))
    printf("  %s %d to %d, %d sequences: %u kernels, expected %u products and %u others\n", kind_name[l.kind],
           (int)l.in, (int)l.hidden, (int)most, plan.n_kernels, products, others);
}

static void check_plans(void) {
  expect((Layer){.kind = LSTM, .in = 12, .hidden = 64}, MANY, 0);
  expect((Layer){.kind = LSTM, .in = 32, .hidden = 64}, MANY, 0);
  expect((Layer){.kind = PROJECTED, .in = 12, .hidden = 64}, MANY, 0);
  expect((Layer){.kind = TANH, .in = 12, .hidden = 64, .no_bias = true}, MANY, 0);
  expect((Layer){.kind = LSTM, .in = 33, .hidden = 64}, MANY, 1);
  expect((Layer){.kind = LSTM, .in = 12, .hidden = 64}, FEW, 1);
  expect((Layer){.kind = LSTM, .in = 12, .hidden = 20}, MANY, 1);  // 12 of 32 lanes would be empty
  expect((Layer){.kind = GRU, .in = 12, .hidden = 64}, MANY, 1);
  int64_t rows = MANY * TIME, product = rows * 4 * 64 * 4;
  tn_plan own = plan_of(&(Layer){.kind = LSTM, .in = 32, .hidden = 64}, MANY),
          other = plan_of(&(Layer){.kind = LSTM, .in = 33, .hidden = 64}, MANY);
  CHECK(own.lower_bound + product / 2 < other.lower_bound);
}

int main(void) {
  static const Layer layers[] = {
      {.kind = LSTM, .in = 12, .hidden = 64, .both_ways = true}, {.kind = LSTM, .in = 1, .hidden = 16},
      {.kind = LSTM, .in = 24, .hidden = 40, .no_bias = true},   {.kind = PROJECTED, .in = 7, .hidden = 32},
      {.kind = TANH, .in = 17, .hidden = 31, .both_ways = true}, {.kind = RELU, .in = 12, .hidden = 64},
  };
  setenv("TN_GEMM", "own", 1);  // the library, which portable code may call, is chosen by bounds: they differ here
  for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) compare(&layers[k]);
  check_plans();
  return check_report();
}
