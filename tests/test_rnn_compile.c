// Compiling a recurrent network costs the same whatever the length of its sequences: a training step of a 6-layer LSTM
// of 256 units, bounded at 64 and at 65,536 steps. Only what is compiled is made, no instance: its arena would hold the
// longest batch. For one target: with AMX another algorithm may compute the products of long sequences.
#include "codegen/kernels.h"
#include "codegen/module/compile.h"
#include "frontend/module/tree.h"
#include "frontend/tenure.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "tests/check.h"
#include "tests/cpu_time.h"

enum { LAYERS = 6, HIDDEN = 256, BATCH = 4 };

typedef struct {
  uint32_t n_instructions;
  CgInfo info;
  size_t object;
  double cpu_ms;
} Cost;

static tn_program *build(int64_t steps) {
  tn_program *p = tn_program_create("long");
  tn_dim batch = tn_dim_bounded(p, "batch", BATCH), time = tn_dim_bounded(p, "time", steps);
  tn_module *rnn = tn_lstm(tn_root(p), "rnn", HIDDEN, HIDDEN, .n_layers = LAYERS);
  tn_function *f = tn_function_begin(p, "train_step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, HIDDEN));
  tn_tensor lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(batch));
  tn_rnn_output r = tn_rnn_call(rnn, tn_pack_padded(x, lengths));
  tn_tensor loss = tn_mean(tn_square(tn_last_hidden(r)));
  tn_backward(loss);
  tn_adam(f, rnn);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  fe_params_flush(p);
  return p;
}

static Cost cost_of(int64_t steps) {
  Cost cost = {0};
  double start = cpu_ms();
  tn_program *p = build(steps);
  Target target;
  RtText why = {.mem = p->mem};
  CgObject object = {0};
  CHECK(tn_n_errors(p) == 0 && cg_target_pick(&target, "generic", &why));
  cg_plan_for(p->ir, &target);
  for (uint32_t k = 0; k < p->ir->n_fns; k++) {
    CHECK(ir_run_passes(p->ir->fns[k], NULL, NULL, NULL));
    cost.n_instructions += p->ir->fns[k]->n_ins;
  }
  bool good = ir_plan_program_memory(p->ir) && cg_compile(p->ir, &target, NULL, &object, &cost.info, &why);
  if (!CHECK(good)) printf("  %s\n", why.text ? why.text : "");
  cost.object = object.size;
  rt_free(object.bytes);
  tn_program_free(p);
  cost.cpu_ms = cpu_ms() - start;
  return cost;
}

int main(void) {
  Cost lo = cost_of(64), hi = cost_of(65536), again = cost_of(64);
  printf(
      "steps <= 64: %.0f ms (once more %.0f), %zu bytes; <= 65,536: %.0f ms, %zu bytes; %u instructions, %u kernels, "
      "%u distinct\n",
      lo.cpu_ms, again.cpu_ms, lo.object, hi.cpu_ms, hi.object, lo.n_instructions, lo.info.n_kernels,
      lo.info.n_distinct);
  CHECK(lo.n_instructions == hi.n_instructions);
  CHECK(lo.info.n_kernels == hi.info.n_kernels && lo.info.n_distinct == hi.info.n_distinct);
  // Operands that outgrow L2 have tiles that prefetch.
  CHECK(lo.object < hi.object + hi.object / 16 && hi.object < lo.object + lo.object / 16);
  double few = lo.cpu_ms < again.cpu_ms ? lo.cpu_ms : again.cpu_ms, many = hi.cpu_ms;
  // About 500 ms on an idle machine. What other programs add is not in the least of several.
  for (int k = 0; k < 4 && (many >= 3 * few || many >= 4000); k++) {
    hi = cost_of(65536);
    if (hi.cpu_ms < many) many = hi.cpu_ms;
  }
  CHECK(many < 3 * few);
  CHECK(many < 4000);
  return check_report();
}
