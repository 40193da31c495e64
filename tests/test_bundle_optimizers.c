// Every update of ir/optimizers.def in a bundle: three steps of each on one state, with the outputs, the parameters and what
// the optimizer keeps those of tn_run, bit for bit.
#include "frontend/graph/function.h"
#include "ir/ops.h"
#include "ir/optimizers.h"
#include "tests/bundle_so.h"
#include "tests/optimizers.h"

enum { BATCH = 5, WIDTH = 7, CLASSES = 3, N_STEPS = 3, SEED = 5 };
enum {
  LION = N_WAYS,
  RMSPROP_MOMENTUM,
  RMSPROP_CENTERED,
  LAMB,
  SCHEDULED,
  CYCLED,
  CYCLED_AMSGRAD,
  CYCLED_OTHERS,
  N_UPDATES = CYCLED_OTHERS + 5
};

// ---- one function for each update, over a layer of its own
// A rate that differs in each of the steps
static void scheduled_update(tn_function *f, tn_module *m) {
  tn_schedule *s = tn_exponential_lr(f->p, "decay", .gamma = 0.5);
  tn_sgd(f, m, .lr = 0.1, .momentum = 0.9, .schedule = s);
  tn_schedule_step(f, s);
}

// A beta1 that differs in each of the steps
static void cycled_update(tn_function *f, tn_module *m, bool amsgrad) {
  tn_schedule *s =
      tn_cyclic_lr(f->p, amsgrad ? "cycle_amsgrad" : "cycle", .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 2);
  tn_adamw(f, m, .lr = 0.01, .amsgrad = amsgrad, .schedule = s);
  tn_schedule_step(f, s);
}

// The same of an update of their own name each
static void other_cycled_update(tn_function *f, tn_module *m, uint32_t which) {
  static const char *const names[] = {"cycle_nadam", "cycle_radam", "cycle_adamax", "cycle_lion", "cycle_lamb"};
  tn_schedule *s = tn_cyclic_lr(f->p, names[which], .base_lr = 0.01, .max_lr = 0.1, .step_size_up = 2);
  switch (which) {
  case 0: tn_nadam(f, m, .lr = 0.01, .schedule = s); break;
  case 1: tn_radam(f, m, .lr = 0.01, .schedule = s); break;
  case 2: tn_adamax(f, m, .lr = 0.01, .schedule = s); break;
  case 3: tn_lion(f, m, .lr = 0.01, .schedule = s); break;
  default: tn_lamb(f, m, .lr = 0.01, .schedule = s);
  }
  tn_schedule_step(f, s);
}

static void any_update(tn_function *f, tn_module *m, uint32_t way) {
  switch (way) {
  case LION: tn_lion(f, m, .weight_decay = 0.1); break;
  case RMSPROP_MOMENTUM: tn_rmsprop(f, m, .momentum = 0.5); break;
  case RMSPROP_CENTERED: tn_rmsprop(f, m, .centered = true, .eps = 1e-3); break;
  case LAMB: tn_lamb(f, m, .weight_decay = 0.1); break;
  case SCHEDULED: scheduled_update(f, m); break;
  case CYCLED:
  case CYCLED_AMSGRAD: cycled_update(f, m, way == CYCLED_AMSGRAD); break;
  default:
    if (way >= CYCLED_OTHERS) other_cycled_update(f, m, way - CYCLED_OTHERS);
    else update(f, m, way);
  }
}

static void add_step(tn_program *p, uint32_t way) {
  char name[16];
  snprintf(name, sizeof name, "step%u", way);
  tn_module *layer = tn_linear(tn_root(p), name, WIDTH, CLASSES);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, WIDTH)), y = tn_input(f, "label", TN_I64, TN_SHAPE(BATCH));
  tn_tensor loss = tn_cross_entropy(tn_call(layer, x), y);
  tn_backward(loss);
  any_update(f, layer, way);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static tn_program *make_program(void) {
  tn_program *p = tn_program_create("optimizers");
  for (uint32_t way = 0; way < N_UPDATES; way++) add_step(p, way);
  return p;
}

// ---- the functions have every row
static bool has_op(const Prog *p, Op op, bool beta1) {
  for (uint32_t f = 0; f < p->n_fns; f++)
    for (uint32_t i = 1; i < p->fns[f]->n_ins; i++)
      if (p->fns[f]->ins[i].op == op && ir_has_operand(p->fns[f], (Val){i}, ARG_beta1) == beta1) return true;
  return false;
}

static void check_row(const Prog *p, Op op) {
  if (!CHECK(has_op(p, op, false))) printf("no function has the update %s\n", ir_ops[op].name);
  if (ir_op_operand(op, ARG_beta1) != UINT32_MAX && !CHECK(has_op(p, op, true)))
    printf("no function has the update %s with a moved beta1\n", ir_ops[op].name);
}

static void check_rows(const Prog *p) {
#define UPDATE(name, ...) check_row(p, OP_##name);
#include "ir/optimizers.def"
}

// ---- both, step by step
static void train(const BundleSo *b, uint32_t function) {
  float x[BATCH * WIDTH], loss = 0, twin = 1;
  int64_t label[BATCH];
  const char *name = b->about->functions[function].name;
  for (int step = 0; step < N_STEPS; step++) {
    for (int k = 0; k < BATCH * WIDTH; k++) x[k] = (float)((k * 37 + step * 11) % 23) / 16 - 0.7f;
    for (int k = 0; k < BATCH; k++) label[k] = (k + step) % CLASSES;
    CHECK(!tn_run(b->model, name, TN_IN(tn_f32(x, BATCH, WIDTH), tn_i64(label, BATCH)), TN_OUT(tn_f32_scalar(&loss))));
    CHECK(bundle_so_call(b, function, (const void *[]){x, label}, (void *[]){&twin}) == 0);
    bool same = CHECK(!memcmp(&loss, &twin, sizeof loss));
    same &= CHECK(bundle_so_same_state(b));
    if (!same) printf("%s, step %d: loss %g, the bundle's %g\n", name, step, (double)loss, (double)twin);
  }
}

int main(void) {
  tn_program *p = make_program();
  check_rows(p->ir);
  tn_program_free(p);
  BundleSo b = bundle_so_open(make_program, SEED);
  if (b.about && CHECK(b.about->n_functions == N_UPDATES && bundle_so_same_state(&b)))
    for (uint32_t f = 0; f < N_UPDATES; f++) train(&b, f);
  bundle_so_close(&b);
  return check_report();
}
