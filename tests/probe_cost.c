// Training steps of one worker whose instructions tests/test_probe_cost.sh counts:
//
//   probe_cost vowels|transformer plain|off STEPS
//
// plain: no probes; off: of each module's outputs and their gradients, none of them on. Callgrind is told where the steps begin:
// what it need not count, the program and its passes, runs ten times as fast.
#include "frontend/tenure.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION  // the script sees that nothing was counted
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

enum { BATCH = 30, STEPS = 16, FEATURES = 12, WIDTH = 64, CLASSES = 9 };

static tn_tensor vowels(tn_module *net, tn_tensor x) {
  static int64_t lengths[BATCH];
  for (int k = 0; k < BATCH; k++) lengths[k] = 7 + k % 10;
  tn_rnn_output r =
      tn_rnn_call(tn_lstm(net, "rnn", FEATURES, WIDTH, .bidirectional = true), tn_pack_constant(x, lengths, BATCH));
  return tn_call(tn_linear(net, "head", 2 * WIDTH, CLASSES), tn_last_hidden(r));
}

static tn_tensor transformer(tn_module *net, tn_tensor x) {
  tn_tensor h = tn_call(tn_linear(net, "in", FEATURES, WIDTH), x);
  h = tn_call(tn_transformer_encoder(net, "encoder", WIDTH, 4, 2, .feedforward = 4 * WIDTH), h);
  return tn_call(tn_linear(net, "head", WIDTH, CLASSES), tn_mean_axis(h, 1, false));
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  bool is_vowels = !strcmp(argv[1], "vowels");
  tn_program *p = tn_program_create("probe_cost");
  tn_module *net = tn_root(p);
  if (strcmp(argv[2], "plain") != 0) tn_probe_modules(net, "**", .gradients = true, .bins = 8, .lo = -4, .hi = 4);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, STEPS, FEATURES)),
            y = tn_input(f, "y", TN_I64, TN_SHAPE(BATCH));
  tn_tensor loss = tn_cross_entropy(is_vowels ? vowels(net, x) : transformer(net, x), y);
  tn_backward(loss);
  tn_clip_grad_norm(f, net, 1);
  tn_adamw(f, net, .lr = 1e-3);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = 1);
  tn_program_free(p);
  if (!m) return 1;
  static float xs[BATCH * STEPS * FEATURES], value;
  static int64_t ys[BATCH];
  for (int k = 0; k < BATCH * STEPS * FEATURES; k++) xs[k] = (float)(k * 37 % 101) / 50 - 1;
  for (int k = 0; k < BATCH; k++) ys[k] = k % CLASSES;
  CALLGRIND_START_INSTRUMENTATION;
  for (long k = strtol(argv[3], NULL, 10); k > 0; k--)
    if (tn_run(m, "train_step", TN_IN(tn_f32(xs, BATCH, STEPS, FEATURES), tn_i64(ys, BATCH)),
               TN_OUT(tn_f32_scalar(&value))))
      return 1;
  CALLGRIND_STOP_INSTRUMENTATION;
  printf("loss %g\n", (double)value);
  tn_model_free(m);
  return 0;
}
