// What a program needs at least with kernels that run again (pass recompute) is one number, whatever the limit that was asked for: all limits below
// it name it, it is met, and a byte less is refused. Programs are planned, not compiled.
#include "codegen/kernels.h"
#include "codegen/target.h"
#include "frontend/module/tree.h"
#include "frontend/tenure.h"
#include "ir/passes/passes.h"
#include "tests/check.h"
#include "tests/report.h"
#include "tests/sample.h"

#include <inttypes.h>

// ---- programs
static void train(tn_program *p, tn_function *f, tn_tensor loss) {
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adamw(f, tn_root(p), .lr = 1e-3);
}

static void dropped(tn_program *p, tn_function *f) {
  enum { LAYERS = 9, ROWS = 50, WIDE = 96 };
  tn_module *net = tn_module_list(tn_root(p), "net");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(ROWS, WIDE));
  for (int k = 0; k < LAYERS; k++) x = tn_dropout(tn_gelu(tn_call(tn_linear(net, NULL, WIDE, WIDE), x)), 0.1);
  train(p, f, tn_mean(tn_square(x)));
}

static tn_tensor block(tn_module *net, tn_tensor x, int64_t B, int64_t T, int64_t wide) {
  enum { HEADS = 4 };
  tn_tensor qkv = tn_call(tn_linear(net, NULL, wide, 3 * wide), tn_call(tn_layer_norm(net, NULL, TN_SHAPE(wide)), x));
  tn_tensor a = tn_attention_packed(tn_reshape(qkv, TN_SHAPE(B, T, 3, HEADS, wide / HEADS)), .causal = true);
  x = tn_add(x, tn_call(tn_linear(net, NULL, wide, wide), tn_reshape(a, TN_SHAPE(B, T, wide))));
  tn_tensor h = tn_call(tn_linear(net, NULL, wide, 4 * wide), tn_call(tn_layer_norm(net, NULL, TN_SHAPE(wide)), x));
  return tn_add(x, tn_call(tn_linear(net, NULL, 4 * wide, wide), tn_gelu(h)));
}

static void transformer(tn_program *p, tn_function *f) {
  enum { LAYERS = 5, B = 3, T = 64, WIDE = 64, VOCABULARY = 300 };
  tn_module *net = tn_module_list(tn_root(p), "net");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, T)), y = tn_input(f, "y", TN_I64, TN_SHAPE(B, T));
  tn_tensor h = tn_call(tn_embedding(net, NULL, VOCABULARY, WIDE), x);
  for (int k = 0; k < LAYERS; k++) h = block(net, h, B, T, WIDE);
  train(p, f, tn_cross_entropy(tn_call(tn_linear(net, NULL, WIDE, VOCABULARY), h), y));
}

static void residual(tn_program *p, tn_function *f) {
  enum { BLOCKS = 7, B = 5, SIDE = 18, CHANNELS = 12, CLASSES = 10 };
  tn_module *net = tn_module_list(tn_root(p), "net");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, 3, SIDE, SIDE)), y = tn_input(f, "y", TN_I64, TN_SHAPE(B));
  x = tn_call(tn_conv2d_module(net, NULL, 3, CHANNELS, 3, .same = true), x);
  for (int k = 0; k < BLOCKS; k++) {
    tn_tensor h = x;
    for (int j = 0; j < 2; j++) {
      h = tn_call(tn_conv2d_module(net, NULL, CHANNELS, CHANNELS, 3, .same = true), h);
      h = tn_call(tn_batch_norm(net, NULL, CHANNELS), h);
      if (j == 0) h = tn_relu(h);
    }
    x = tn_relu(tn_add(x, h));
  }
  tn_tensor mean = tn_mean_axes(x, false, (const int[]){2, 3}, 2);
  train(p, f, tn_cross_entropy(tn_call(tn_linear(net, NULL, CHANNELS, CLASSES), mean), y));
}

static void recurrent(tn_program *p, tn_function *f) {
  enum { LAYERS = 3, B = 6, T = 20, WIDE = 40 };
  tn_module *net = tn_module_list(tn_root(p), "net");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, WIDE));
  for (int k = 0; k < LAYERS; k++)
    x = tn_tanh(tn_rnn_call_dense(tn_lstm(net, NULL, WIDE, WIDE, .batch_first = true), x).dense);
  train(p, f, tn_mean(tn_square(x)));
}

static const struct {
  const char *name;
  void (*build)(tn_program *p, tn_function *f);
} nets[] = {{"dropped", dropped}, {"transformer", transformer}, {"residual", residual}, {"recurrent", recurrent}};

// ---- plans
typedef struct {
  bool is_met;
  int64_t peak, least;  // least: what E137 names, if it is refused
} Planned;

static int64_t bytes_named(const char *report) {
  static const struct {
    const char *unit;
    int64_t bytes;
  } units[] = {{"B ", 1}, {"KiB ", 1 << 10}, {"MiB ", 1 << 20}};
  const char *note = strstr(report, "with kernels that run again ");
  char *end;
  double number = note ? strtod(note + strlen("with kernels that run again "), &end) : 0;
  for (size_t k = 0; note && k < sizeof units / sizeof *units; k++)
    if (!strncmp(end + 1, units[k].unit, strlen(units[k].unit))) return (int64_t)(number * (double)units[k].bytes);
  return -1;
}

static Planned plan(size_t net, int64_t limit) {
  tn_program *p = tn_program_create(nets[net].name);
  tn_function *f = tn_function_begin(p, "step");
  nets[net].build(p, f);
  tn_function_end(f);
  fe_params_flush(p);
  cg_plan_for(p->ir, cg_target_find("avx2"));
  p->ir->arena_limit = limit, p->ir->recomputes = limit > 0;
  Planned out = {.is_met = tn_n_errors(p) == 0 && ir_run_passes(p->ir->fns[p->ir->n_fns - 1], NULL, NULL, NULL)};
  out.peak = p->ir->fns[p->ir->n_fns - 1]->stats.peak_bytes;
  if (!out.is_met) out.least = bytes_named(report_of(p));
  tn_program_free(p);
  return out;
}

// The least in bytes, from the sentence in KiB or MiB: a limit that is a little higher gives a plan of the least.
static int64_t find_least(size_t net, int64_t named) {
  int64_t unit = named < 1 << 20 ? 1 << 10 : 1 << 20;
  Planned at = plan(net, named + unit / 10);
  CHECK(at.is_met);
  return at.peak;
}

static void test_net(size_t net) {
  const int percents[] = {3, 10, 17, 24, 31};
  Planned all = plan(net, 0);
  int64_t named = 0;
  CHECK(all.is_met && all.peak > 0);
  for (size_t k = 0; k < sizeof percents / sizeof *percents; k++) {
    Planned low = plan(net, all.peak * percents[k] / 100);
    if (low.is_met) continue;
    CHECK(low.least > all.peak * percents[k] / 100 && low.least < all.peak);
    if (named && !CHECK(low.least == named))
      printf("%s: %d %% names %" PRId64 ", not %" PRId64 "\n", nets[net].name, percents[k], low.least, named);
    named = low.least;
  }
  int64_t least = find_least(net, named);
  Planned met = plan(net, least), less = plan(net, least - 1), unit_less = plan(net, least - TN_ALIGN);
  printf("%s: %" PRId64 " bytes, least %" PRId64 ", of some %" PRId64 "\n", nets[net].name, all.peak, least, named);
  CHECK(named > 0 && met.is_met && met.peak == least);
  CHECK(!less.is_met && less.least == least);
  CHECK(!unit_less.is_met && unit_less.least == least);
  for (int64_t limit = least; limit < all.peak; limit += (all.peak - least) / 7 + 1) {
    Planned p = plan(net, limit);
    CHECK(p.is_met && p.peak <= limit && p.peak >= least);
  }
}

int main(void) {
  for (size_t k = 0; k < sizeof nets / sizeof *nets; k++)
    if (!IS_SANITIZED || is_sampled(k, 4)) test_net(k);
  return check_report();
}
