// Programs for tests/test_tools_agree.sh: each as NAME.tir, its certificate NAME.plan, and in NAME.expected what tn_plan_of says of its functions, as
// `tenure budget --write` records it. In the folder that it runs in.
#include "frontend/tenure.h"
#include <stdio.h>

typedef struct {
  const char *name;
  uint32_t shards;  // 0: not distributed
  bool recurs, clips, accumulates, averages, convolves;
} Kind;

static const Kind kinds[] = {
    {.name = "plain", .clips = true},
    {.name = "plain_in_2", .shards = 2, .clips = true},
    {.name = "shards", .shards = 16},
    {.name = "clipped_shards", .shards = 3, .clips = true, .averages = true},
    {.name = "accumulated_shards", .shards = 5, .accumulates = true},
    {.name = "recurrent_shards", .shards = 4, .recurs = true},
    {.name = "recurrent", .recurs = true},
    {.name = "convolution", .convolves = true},
};

static tn_tensor hidden_of(tn_function *f, tn_module *net, tn_dim B, const Kind *k) {
  if (k->recurs) {
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 7, 24));
    return tn_reshape(tn_rnn_call_dense(tn_lstm(net, "rnn", 24, 32, .batch_first = true), x).hidden, TN_SHAPE(B, 32));
  }
  if (k->convolves) {
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 3, 8, 8));
    tn_tensor y = tn_relu(tn_call(tn_conv2d_module(net, "conv", 3, 32, 3, .padding = 1), x));
    return tn_mean_axes(y, false, (const int[]){2, 3}, 2);
  }
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 64));
  return tn_relu(tn_call(tn_linear(net, "in", 64, 32), x));
}

static bool write_plan(tn_program *p, const tn_model *m, const Kind *k) {
  char path[64];
  snprintf(path, sizeof path, "%s.expected", k->name);
  FILE *out = fopen(path, "w");
  static const char *const functions[] = {"step", "step.update", "step.add"};
  tn_plan plan;
  for (int j = 0; out && j < (k->shards ? 3 : 1); j++)
    if (!tn_plan_of(m, functions[j], &plan))
      fprintf(out, "@%s peak %lld copies %u kernels %u\n", functions[j], (long long)plan.peak_bytes, plan.n_copies,
              plan.n_kernels);
  snprintf(path, sizeof path, "%s.tir", k->name);
  FILE *text = fopen(path, "w");
  snprintf(path, sizeof path, "%s.plan", k->name);
  FILE *certificate = fopen(path, "w");
  bool good = out && text && certificate && tn_dump(p, text, TN_DUMP_IR) == TN_OK;
  good = good && tn_dump(p, certificate, TN_DUMP_CERTIFICATE) == TN_OK;
  return good && !fclose(out) && !fclose(text) && !fclose(certificate);
}

static bool make(const Kind *k) {
  tn_program *p = tn_program_create(k->name);
  tn_dim B = tn_dim_bounded(p, "batch", 512);
  tn_module *net = tn_root(p);
  tn_function *f = tn_function_begin(p, "step");
  if (k->shards) tn_distributed(f, .n = k->shards, .batch = B);
  tn_tensor y = tn_input(f, "y", TN_I64, TN_SHAPE(B)), h = hidden_of(f, net, B, k);
  tn_tensor loss = tn_cross_entropy(tn_call(tn_linear(net, "out", 32, 10), h), y);
  tn_backward(loss);
  if (k->accumulates) tn_accumulate(f, net, 2);
  if (k->clips) tn_clip_grad_norm(f, net, 1);
  tn_adamw(f, net, .lr = 1e-3);
  if (k->averages) tn_ema(f, net, .decay = 0.9);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  bool good = m && write_plan(p, m, k);
  tn_model_free(m), tn_program_free(p);
  return good;
}

int main(void) {
  bool good = true;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    good &= make(&kinds[k]);
    puts(kinds[k].name);
  }
  return !good;
}
