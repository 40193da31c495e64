// Optimizers: one updating instruction per parameter that has a gradient. Their state is entries of the parameter
// table, so that it is saved with the parameters, and the numbers that steer it can be set between runs (param_groups.c):
//   optimizer.exp_avg.PATH, ..                     of a parameter: the operands of the update that are states
//   optimizer.step.PATH, optimizer.momentum_step.PATH, optimizer.mu_product.PATH    likewise (counters.c)
//   optimizer.lr, optimizer.weight_decay, optimizer.momentum
//       `.path` follows for an optimizer of another module than the root, then `.group` but for group 0
//
// What an update is made of, its row in ir/optimizers.def says; the numbers of a call, optimizers.def.
#include "frontend/module/optimizer.h"
#include "frontend/graph/inplace.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/row_gradient.h"
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "frontend/run/finite.h"
#include "ir/fn.h"
#include "ir/optimizers.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

// ---- numbers
#define NUMBERS(X)  \
  X(lr)             \
  X(weight_decay)   \
  X(momentum)       \
  X(beta1)          \
  X(beta2)          \
  X(eps)            \
  X(dampening)      \
  X(alpha)          \
  X(rho)            \
  X(lr_decay)       \
  X(momentum_decay) \
  X(initial_accumulator_value)
#define ENUM(n) NUM_##n,
typedef enum { NUMBERS(ENUM) N_NUMBERS } Number;
#define NAME(n) #n,
static const char *const number_name[] = {NUMBERS(NAME)};
#define OF_GROUP(n) offsetof(tn_group_options, n),
static const size_t in_group[] = {NUMBERS(OF_GROUP)};

typedef enum { STEP, RATE, BETA, UNIT } Range;
static const char *const range_text[] = {"above 0 that f32 holds", "of 0 or more that f32 holds",
                                         "above 0 and below 1, as f32", "from 0 to 1"};

typedef struct {
  Number number;
  size_t at;  // in the options of the call
  double absent;
  Range range;
} NumberRow;
#define NUMBER(options, n, absent, range) {NUM_##n, offsetof(options, n), absent, range},
#define OPTIMIZER(n, ...) static const NumberRow n##_numbers[] = {__VA_ARGS__{N_NUMBERS, 0, 0, STEP}};
#include "frontend/module/optimizers.def"

typedef struct Optimizer Optimizer;

// What is one for all parameters of a group.
typedef struct {
  uint32_t group;
  bool failed;
  double value[N_NUMBERS];
  tn_tensor lr, weight_decay, momentum;
  tn_tensor beta1;  // where a schedule cycles it
} Rates;

// by_rows: all absent but the gradient, where whole parameters change
typedef void Update(Optimizer *o, const Rates *r, const FeParam *q, tn_tensor w, const FeRowGradient *by_rows);
struct Optimizer {
  tn_function *f;
  tn_module *m;
  tn_site at;
  const NumberRow *numbers;
  double value[N_NUMBERS];  // of groups that do not say otherwise
  bool require_gradients, maximize, sparse, decoupled, nesterov, centered, amsgrad;
  tn_schedule *schedule;
  Op (*op)(const Optimizer *o, const Rates *r);
  Update *update;
  Rates *rates;
  uint32_t n_rates, cap_rates;
};

static const NumberRow *row_of(const Optimizer *o, Number n) {
  for (const NumberRow *row = o->numbers; row->number != N_NUMBERS; row++)
    if (row->number == n) return row;
  return NULL;
}

static bool is_in(Range range, double x) {
  switch (range) {
  case STEP: return (float)x > 0 && fe_is_finite(x);
  case RATE: return x >= 0 && fe_is_finite(x);
  case BETA: return x > 0 && (float)x < 1;
  default: return x >= 0 && x <= 1;
  }
}

static bool check_number(const Optimizer *o, const NumberRow *row, double x, const char *whose) {
  if (is_in(row->range, x)) return true;
  fe_error(o->f->p, E_ARGUMENT, o->at, "%s of the %s is %g, expected a number %s", number_name[row->number], whose, x,
           range_text[row->range]);
  return false;
}

static bool check_option(const Optimizer *o, Number n, bool good, const char *expected) {
  if (!good)
    fe_error(o->f->p, E_ARGUMENT, o->at, "%s of the optimizer is %g, expected a number %s", number_name[n], o->value[n],
             expected);
  return good;
}

static bool read_numbers(Optimizer *o, const void *options) {
  for (const NumberRow *row = o->numbers; row->number != N_NUMBERS; row++) {
    double x;
    memcpy(&x, (const char *)options + row->at, sizeof x);
    o->value[row->number] = x == 0 ? row->absent : x;
    if (!check_number(o, row, o->value[row->number], "optimizer")) return false;
  }
  return true;
}

// ---- groups
// A group's own numbers over those of the optimizer.
static bool group_numbers(const Optimizer *o, const tn_group_options *g, uint32_t group, double *value) {
  memcpy(value, o->value, sizeof o->value);
  for (uint32_t n = 0; n < N_NUMBERS; n++) {
    double x;
    memcpy(&x, (const char *)g + in_group[n], sizeof x);
    const NumberRow *row = row_of(o, (Number)n);
    if (x == 0 || (!row && n <= NUM_momentum)) continue;
    if (!row) {
      fe_error(o->f->p, E_ARGUMENT, o->at, "group %u has %s, which this optimizer has not", group, number_name[n]);
      return false;
    }
    if (!check_number(o, row, x, rt_printf(o->f->p->mem, "group %u", group))) return false;
    value[n] = x;
  }
  if (g->no_weight_decay) value[NUM_weight_decay] = 0;
  return true;
}

static bool open_rate(const Optimizer *o, Rates *r, RtHyperKind kind, double value, tn_tensor *out) {
  FeParam *q = fe_hyper(o->m, r->group, kind, value, o->at);
  r->failed = !q;
  if (q) *out = fe_use(o->f, q, o->at);
  return q != NULL;
}

// Momentum, or beta1, as the schedule has it: PyTorch moves it of every optimizer that has either.
static void cycle_momentum(const Optimizer *o, Rates *r, tn_schedule *s) {
  if (r->momentum.fn) r->momentum = fe_scheduled_momentum(o->f, o->m, r->group, s, "last_momentum", r->momentum, o->at);
  else if (row_of(o, NUM_beta1)) {
    tn_tensor own = fe_const(o->f, r->value[NUM_beta1], o->at);
    r->beta1 = fe_scheduled_momentum(o->f, o->m, r->group, s, "last_beta1", own, o->at);
  } else {
    r->failed = true;
    fe_error(o->f->p, E_ARGUMENT, o->at,
             "the schedule cycles momentum, and this optimizer has neither momentum nor beta1");
    fe_hint(o->f->p, ".no_cycle_momentum cycles the rate alone");
  }
}

static Rates open_rates(const Optimizer *o, uint32_t group) {
  const tn_group_options *g = fe_group_options(o->f->p, group);
  Rates r = {.group = group};
  r.failed = !group_numbers(o, g, group, r.value);
  if (r.failed || !open_rate(o, &r, RT_LR, r.value[NUM_lr], &r.lr) ||
      !open_rate(o, &r, RT_WEIGHT_DECAY, r.value[NUM_weight_decay], &r.weight_decay))
    return r;
  tn_schedule *s = g->schedule ? g->schedule : o->schedule;
  bool cycles = fe_cycles_momentum(s), has_momentum = row_of(o, NUM_momentum);
  if (r.value[NUM_momentum] > 0 || (cycles && has_momentum))
    open_rate(o, &r, RT_MOMENTUM, r.value[NUM_momentum], &r.momentum);
  if (cycles && !r.failed) cycle_momentum(o, &r, s);
  r.lr = fe_scheduled(o->f, o->m, group, s, r.lr, o->at);
  return r;
}

static Rates rates_of(Optimizer *o, uint32_t group) {
  for (uint32_t k = 0; k < o->n_rates; k++)
    if (o->rates[k].group == group) return o->rates[k];
  Rates r = open_rates(o, group);
  *RT_PUSH(o->f->p->mem, o->rates, o->n_rates, o->cap_rates) = r;
  return r;
}

// ---- one update
// The handles of the parameter show v from here on. One of 16 bits is updated as f32, which is rounded when it is stored.
static void set_version(const Optimizer *o, const FeParam *q, tn_tensor v) {
  if (!fe_ok(v)) return;
  tn_tensor now = {o->f, fe_use_of(o->f, q->index)->now.i};
  if (q->dtype != DT_F32) v = fe_keep(fe_emit2(OP_assign, now, fe_cast(v, q->dtype, o->at), o->at), o->at);
  if (fe_ok(v)) fe_write(now, v, true, o->at);
}

static tn_tensor slot(const Optimizer *o, const char *key, const FeParam *q, double init, FeParam **made) {
  uint32_t n = o->f->p->n_params;
  *made = fe_state(o->f->p, rt_printf(o->f->p->mem, "optimizer.%s.%s", key, q->path), q->shape, init, o->at);
  if (o->f->p->n_params != n) fe_state_made(o->f);
  return fe_use(o->f, *made, o->at);
}

// Of momentum it matters only where it is dampened which step it is, by any function with momentum.
static tn_tensor next_step(const Optimizer *o, const Rates *r, const FeParam *q) {
  bool is_momentum = o->numbers == sgd_numbers;
  return fe_next_step(o->f, q, is_momentum ? "momentum_step" : "step", !is_momentum || r->value[NUM_dampening] > 0,
                      o->at);
}

static tn_tensor number_operand(const Optimizer *o, const Rates *r, const FeParam *q, ArgName name, tn_tensor step) {
  switch (name) {
  case ARG_step: return step;
  case ARG_lr: return r->lr;
  case ARG_weight_decay: return r->weight_decay;
  case ARG_momentum: return r->momentum;
  case ARG_beta1: return r->beta1;
  case ARG_mu_product:
    return fe_next_mu_product(o->f, q, r->value[NUM_beta1], r->beta1, r->value[NUM_momentum_decay], step, o->at);
  case ARG_when: return o->f->uses[q->index].when;
  default: return (tn_tensor){0};
  }
}

static uint32_t attributes(const Optimizer *o, const Rates *r, Op op, Attr *a) {
  const IrUpdate *row = ir_update_of(op, r->beta1.fn != NULL);
  uint32_t n = 0;
  for (uint32_t k = 0; k < row->n_keys; k++) {
    Key key = (Key)row->keys[k];
    if (ir_key_kind[key] == KIND_FLAG) {
      if (key == KEY_nesterov ? o->nesterov : o->decoupled) a[n++] = ir_a_int(key, 1);
      continue;
    }
    for (uint32_t i = 0; i < N_NUMBERS; i++)
      if (!strcmp(ir_key_name[key], number_name[i])) a[n++] = ir_a_num(key, r->value[i]);
  }
  return n;
}

static tn_tensor row_operand(const FeRowGradient *by_rows, ArgName name) {
  switch (name) {
  case ARG_grad: return by_rows->grad;
  case ARG_index: return by_rows->index;
  case ARG_offsets: return by_rows->offsets;
  case ARG_factor: return by_rows->factor;
  case ARG_best: return by_rows->best;
  default: return (tn_tensor){0};
  }
}

static void update_by_row(Optimizer *o, const Rates *r, const FeParam *q, tn_tensor w, const FeRowGradient *by_rows) {
  Op op = o->op(o, r);
  const OpInfo *row = &ir_ops[op];
  tn_tensor in[MAX_OPERANDS], step = {0};
  FeParam *state[MAX_OPERANDS] = {NULL};
  uint32_t n = row->n_operands, n_res = row->n_res;
  if (ir_op_operand(op, ARG_step) != UINT32_MAX) step = next_step(o, r, q);
  for (uint32_t k = 0; k < n; k++) {
    ArgName name = (ArgName)row->operands[k].name;
    if (k == 0) in[k] = w;
    else if (k < n_res) in[k] = slot(o, ir_arg_name[name], q, r->value[NUM_initial_accumulator_value], &state[k]);
    else in[k] = row_operand(by_rows, name).fn ? row_operand(by_rows, name) : number_operand(o, r, q, name, step);
  }
  while (!in[n - 1].fn) n--;
  Attr a[IR_UPDATE_KEYS + 1];
  uint32_t n_attrs = attributes(o, r, op, a);
  if (by_rows->padding) a[n_attrs++] = *by_rows->padding;
  tn_tensor new = fe_emit(op, in, n, a, n_attrs, o->at);
  if (!fe_ok(new)) return;
  set_version(o, q, new);
  for (uint32_t k = 1; k < n_res; k++) set_version(o, state[k], (tn_tensor){new.fn, new.v + k});
}

static bool is_free(const Optimizer *o, const FeParam *q, FeUse *u) {
  tn_function *f = o->f;
  const char *twice = u->updated.i ? "is updated twice" : u->averaged.i ? "is updated after it was averaged" : NULL;
  if (!twice) return true;
  fe_error(f->p, u->updated.i ? E_PARAM_TWICE : E_STATE, o->at, "parameter '%s' %s in function '%s'", q->path, twice,
           f->name);
  fe_note(f->p, u->updated.i ? u->updated : u->averaged, u->updated.i ? "it was updated here first" : "it was here");
  fe_hint(f->p, u->updated.i ? "two optimizers in one function train modules that have no parameter in common"
                             : "average after the optimizer");
  return false;
}

// By value: is it a table of which rows are looked up? Others are updated as a whole.
static const bool *find_tables(const tn_function *f) {
  const Fn *ir = f->ir;
  bool *is_table = rt_alloc(f->p->mem, ir->n_ins);
  for (uint32_t i = 1; i < ir->n_ins; i++) {
    Op op = (Op)ir->ins[i].op;
    if (op != OP_embedding && op != OP_embedding_bag && op != OP_index_select) continue;
    Val table = ir_arg(ir, (Val){i}, 0);
    bool is_narrow = ir_ins(ir, table)->dtype != DT_F32;  // its rows are selected before they become f32
    bool by_rows = is_narrow && ir_attr_int(ir, (Val){i}, KEY_axis, 0) == 0;
    if (op != OP_index_select || by_rows) is_table[table.i] = true;
  }
  return is_table;
}

// The gradient of a parameter, before any update: rows may be weighted by what the optimizer changes. is_table NULL: as a whole
static bool gradient_of(const Optimizer *o, uint32_t index, const bool *is_table, FeRowGradient *g) {
  tn_function *f = o->f;
  const FeUse *u = &f->uses[index];
  *g = (FeRowGradient){.grad = u->grad};
  return !is_table || !is_table[u->first.i] || fe_row_gradient(f, fe_param_of(f->p, index), g->grad, o->at, g);
}

static bool update_one(Optimizer *o, uint32_t index, FeRowGradient *g) {
  tn_function *f = o->f;
  FeParam *q = fe_param_of(f->p, index);
  if (!is_free(o, q, &f->uses[index])) return false;
  f->uses[index].updated = fe_loc(f->p, o->at);
  if (!q->updated.i) q->updated = fe_loc(f->p, o->at);
  Rates r = rates_of(o, q->group);
  if (r.failed) return false;
  if (o->maximize) g->grad = fe_keep(fe_emit2(OP_mul, g->grad, fe_const(f, -1, o->at), o->at), o->at);
  o->update(o, &r, q, fe_read(f, q, o->at), g);
  return true;
}

static void update_all(Optimizer *o) {
  uint32_t n, *index = fe_with_gradient(o->f, o->m, &n);
  if (fe_check_gradients(o->f, o->m, n, o->at)) fe_all_trained(o->f, o->m, o->require_gradients, o->at);
  FeRowGradient *g = rt_alloc(o->f->p->mem, n * sizeof *g);
  const bool *is_table = o->sparse ? find_tables(o->f) : NULL;
  bool good = true;
  for (uint32_t k = 0; k < n && good; k++) good = gradient_of(o, index[k], is_table, &g[k]);
  for (uint32_t k = 0; k < n && good; k++) good = update_one(o, index[k], &g[k]);
  if (!o->m->trained.i) o->m->trained = fe_loc(o->f->p, o->at);
}

// ---- calls
static bool check_place(const Optimizer *o) {
  return fe_fn_open(o->f, o->at) && !(o->m && o->m->poisoned) && fe_own_module(o->f->p, o->m, "trained", o->at) &&
         fe_outside_scan(o->f, "an optimizer", "parameters are updated when the scan has ended", o->at);
}

// By the call's options, which begin alike for none of them.
#define OPEN(call)                                         \
  if (!f) return;                                          \
  FE_GUARD(f->p, );                                        \
  Optimizer g = {.f = f,                                   \
                 .m = m,                                   \
                 .at = o.at,                               \
                 .numbers = call##_numbers,                \
                 .op = op_of_##call,                       \
                 .update = update_by_row,                  \
                 .require_gradients = o.require_gradients, \
                 .maximize = o.maximize,                   \
                 .sparse = o.sparse,                       \
                 .schedule = o.schedule};                  \
  if (!check_place(&g) || !read_numbers(&g, &o)) return

#define ONE_OP(call)                                           \
  static Op op_of_##call(const Optimizer *o, const Rates *r) { \
    (void)o, (void)r;                                          \
    return OP_##call;                                          \
  }
ONE_OP(nadam)
ONE_OP(radam)

static Op op_of_adamw(const Optimizer *o, const Rates *r) {
  (void)r;
  return o->amsgrad ? OP_amsgrad : OP_adamw;
}
static Op op_of_sgd(const Optimizer *o, const Rates *r) {
  (void)o;
  return r->momentum.fn ? OP_sgd_momentum : OP_sgd;
}
static Op op_of_rmsprop(const Optimizer *o, const Rates *r) {
  if (r->momentum.fn) return o->centered ? OP_rmsprop_centered_momentum : OP_rmsprop_momentum;
  return o->centered ? OP_rmsprop_centered : OP_rmsprop;
}

static void adam(tn_function *f, tn_module *m, tn_adamw_options o, bool decoupled) {
  OPEN(adamw);
  g.decoupled = decoupled, g.amsgrad = o.amsgrad;
  update_all(&g);
}
void tn_adamw(tn_function *f, tn_module *m, tn_adamw_options o) { adam(f, m, o, true); }
void tn_adam(tn_function *f, tn_module *m, tn_adamw_options o) { adam(f, m, o, false); }

void tn_sgd(tn_function *f, tn_module *m, tn_sgd_options o) {
  OPEN(sgd);
  g.nesterov = o.nesterov;
  if (o.nesterov && (!check_option(&g, NUM_momentum, o.momentum > 0, "above 0 with nesterov") ||
                     !check_option(&g, NUM_dampening, o.dampening == 0, "of 0 with nesterov")))
    return;
  update_all(&g);
}

void tn_rmsprop(tn_function *f, tn_module *m, tn_rmsprop_options o) {
  OPEN(rmsprop);
  g.centered = o.centered;
  update_all(&g);
}

void tn_nadam(tn_function *f, tn_module *m, tn_nadam_options o) {
  OPEN(nadam);
  g.decoupled = o.decoupled_weight_decay;
  update_all(&g);
}

void tn_radam(tn_function *f, tn_module *m, tn_radam_options o) {
  OPEN(radam);
  g.decoupled = o.decoupled_weight_decay;
  update_all(&g);
}

#define OPTIMIZER(...)
#define PLAIN_OPTIMIZER(call, ...)                                      \
  ONE_OP(call)                                                          \
  void tn_##call(tn_function *f, tn_module *m, tn_##call##_options o) { \
    OPEN(call);                                                         \
    update_all(&g);                                                     \
  }
#include "frontend/module/optimizers.def"

// ---- LAMB: the ratio of two norms multiplies the rate, so that it is no update by elements
static tn_tensor emit2(const Optimizer *o, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, o->at); }
static tn_tensor number(const Optimizer *o, double x) { return fe_const(o->f, x, o->at); }

// from + (to - from) w
static tn_tensor moved(const Optimizer *o, tn_tensor from, tn_tensor to, tn_tensor w) {
  return emit2(o, OP_add, from, emit2(o, OP_mul, emit2(o, OP_sub, to, from), w));
}

// 1 / (1 - beta^step), by expm1: beta^step is near 1 for long
static tn_tensor correction(const Optimizer *o, tn_tensor log_beta, tn_tensor step) {
  tn_tensor less = fe_emit1(OP_expm1, emit2(o, OP_mul, step, log_beta), o->at);
  return emit2(o, OP_div, number(o, -1), less);
}

// What the state becomes, where the run updates: its new value.
static tn_tensor stored(const Optimizer *o, const FeParam *q, const FeParam *of, tn_tensor old, tn_tensor new) {
  tn_tensor when = o->f->uses[of->index].when;
  if (when.fn) {
    const tn_tensor either[] = {when, new, old};
    new = fe_emit(OP_select, either, 3, NULL, 0, o->at);
  }
  tn_tensor now = fe_keep(emit2(o, OP_assign, old, new), o->at);
  set_version(o, q, now);
  return now;
}

// |w| / |change|, 1 where either is 0
static tn_tensor trust_ratio(const Optimizer *o, tn_tensor w, tn_tensor change) {
  tn_tensor length[] = {fe_emit1(OP_global_norm, w, o->at), fe_emit1(OP_global_norm, change, o->at)};
  tn_tensor some[] = {emit2(o, OP_gt, length[0], number(o, 0)), emit2(o, OP_gt, length[1], number(o, 0))};
  const tn_tensor either[] = {emit2(o, OP_mul, some[0], some[1]), emit2(o, OP_div, length[0], length[1]), number(o, 1)};
  return fe_emit(OP_select, either, 3, NULL, 0, o->at);
}

static void update_lamb(Optimizer *o, const Rates *r, const FeParam *q, tn_tensor w, const FeRowGradient *by_rows) {
  tn_tensor grad = by_rows->grad;
  FeParam *avg, *avg_sq;
  double beta1 = r->value[NUM_beta1], beta2 = r->value[NUM_beta2];
  bool cycles = r->beta1.fn;
  tn_tensor part = cycles ? emit2(o, OP_sub, number(o, 1), r->beta1) : number(o, 1 - beta1);
  tn_tensor log_beta1 = cycles ? fe_emit1(OP_log, r->beta1, o->at) : number(o, log(beta1));
  tn_tensor m = slot(o, "exp_avg", q, 0, &avg), v = slot(o, "exp_avg_sq", q, 0, &avg_sq), step = next_step(o, r, q);
  m = stored(o, avg, q, m, moved(o, m, grad, part));
  v = stored(o, avg_sq, q, v, moved(o, v, emit2(o, OP_mul, grad, grad), number(o, 1 - beta2)));
  tn_tensor mean = emit2(o, OP_mul, m, correction(o, log_beta1, step));
  tn_tensor root = fe_emit1(OP_sqrt, emit2(o, OP_mul, v, correction(o, number(o, log(beta2)), step)), o->at);
  tn_tensor change = emit2(o, OP_div, mean, emit2(o, OP_add, root, number(o, r->value[NUM_eps])));
  change = emit2(o, OP_add, change, emit2(o, OP_mul, r->weight_decay, w));
  tn_tensor rate = emit2(o, OP_mul, r->lr, trust_ratio(o, w, change));
  stored(o, q, q, w, emit2(o, OP_sub, w, emit2(o, OP_mul, change, rate)));
}

#define op_of_lamb NULL
void tn_lamb(tn_function *f, tn_module *m, tn_lamb_options o) {
  OPEN(lamb);
  if (o.sparse) {
    fe_error(f->p, E_ARGUMENT, o.at, "tn_lamb takes norms of whole parameters, and updates no rows of them (.sparse)");
    return;
  }
  g.update = update_lamb;
  update_all(&g);
}
