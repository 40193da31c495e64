// What different lengths cost: a training step of an LSTM 256 on sequences of 1 to 100 steps, two of each, against one
// on a dense batch with as many rows and steps: 101 sequences of 100. Bursts of both alternate.
#include "bench/bench.h"
#include "runtime/clock.h"
#include <stdlib.h>
#include <string.h>

enum { IN = 256, HIDDEN = 256, STEPS = 100, RAGGED = 2 * STEPS, DENSE = STEPS + 1, ROWS = STEPS * DENSE, BURST = 4 };

typedef struct {
  tn_model *model;
  bool ragged;
  float *x, loss;
  int64_t lengths[RAGGED];
  double min;
} Side;

static tn_program *build(bool ragged) {
  tn_program *p = tn_program_create(ragged ? "ragged" : "dense");
  tn_dim batch = tn_dim_bounded(p, "batch", ragged ? RAGGED : DENSE), time = tn_dim_bounded(p, "time", STEPS);
  tn_module *rnn = tn_lstm(tn_root(p), "rnn", IN, HIDDEN);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(time, batch, IN));
  tn_rnn_output r;
  if (ragged) {
    tn_tensor lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
    r = tn_rnn_call(rnn, tn_pack_padded(x, lengths, .time_major = true));
  } else r = tn_rnn_call_dense(rnn, x);
  tn_tensor loss = tn_mean(tn_square(ragged ? r.out.data : r.dense));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adam(f, rnn);
  tn_function_end(f);
  return p;
}

static bool open_side(Side *s, bool ragged, uint32_t n_workers) {
  char why[512] = "";
  Opening o = {.n_workers = n_workers, .why = why, .why_size = sizeof why};
  size_t n = (size_t)STEPS * (ragged ? RAGGED : DENSE) * IN;
  *s = (Side){.ragged = ragged, .x = malloc(n * sizeof *s->x), .min = 1e30};
  if (!s->x) return false;
  bench_floats(s->x, n, -1, 1, 1);
  for (int64_t k = 0; k < RAGGED; k++) s->lengths[k] = k * 37 % STEPS + 1;  // in no order
  s->model = bench_compile(build(ragged), &o);
  if (!s->model) fprintf(stderr, "bench: %s\n", why);
  return s->model != NULL;
}

static bool step(Side *s) {
  tn_array x = tn_f32(s->x, STEPS, s->ragged ? RAGGED : DENSE, IN), lengths = tn_i64(s->lengths, RAGGED);
  const tn_array in[] = {x, lengths};
  return tn_run(s->model, "train_step", in, s->ragged ? 2 : 1, TN_OUT(tn_f32_scalar(&s->loss))) == TN_OK;
}

static bool burst(Side *s) {
  for (int k = 0; k < BURST; k++) {
    double start = rt_now_ms();
    if (!step(s)) return false;
    double ms = rt_now_ms() - start;
    if (ms < s->min) s->min = ms;
  }
  return true;
}

int bench_lengths(uint32_t n_workers, long rounds) {
  Side side[2] = {{0}};
  bool ok = open_side(&side[0], true, n_workers) && open_side(&side[1], false, n_workers);
  for (long k = 0; ok && k <= rounds; k++) {
    ok = burst(&side[0]) && burst(&side[1]);
    if (k == 0) side[0].min = side[1].min = 1e30;  // warm now
  }
  if (ok) {
    printf("lengths 1 to %d, %d rows: min %.2f ms; dense %d x %d: min %.2f ms\n", STEPS, ROWS, side[0].min, DENSE,
           STEPS, side[1].min);
    printf("lengths ratio-min %.3f\n", side[0].min / side[1].min);
  }
  for (int k = 0; k < 2; k++) {
    if (side[k].model) tn_model_free(side[k].model);
    free(side[k].x);
  }
  return ok ? 0 : 2;
}
