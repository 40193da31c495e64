// Random programs of views, clones and writes in place, against a direct execution of what handles mean: storage is an
// array, a view a list of places in it, a write changes the array. Weights are written before and behind their optimizer, and
// averaged there. Every program runs twice, so that buffers, weights and states last.
// Gradients through writes are compared with differences of the direct execution.
//   test_inplace_random [programs] [first seed]
#include "frontend/module/tree.h"
#include "frontend/tenure.h"
#include "ir/fn.h"
#include "ir/interp/interpret.h"
#include "ir/passes/passes.h"
#include "tests/check.h"
#include <math.h>
#include <stdlib.h>

enum {
  MAX_STEPS = 48,
  MAX_N = 24,
  MAX_OUT = 12,
  N_BUFFERS = 2,
  N_WEIGHTS = 2,
  N_INPUTS = 3,
  ROWS = 4,
  COLS = 6,
  N_INDEX = 2
};

// ---- a program as a list of steps
typedef enum {
  INPUT,
  BUFFER,
  WEIGHT,
  NEG,
  SIN,
  ADD,
  CLONE,
  DETACH,
  SLICE,
  PERMUTE,
  RESHAPE,
  NEG_,
  SIN_,
  ADD_,
  COPY_,
  FILL_,
  SLICE_ASSIGN_,
  INDEX_PUT_,
  TRAIN,    // a backward and an optimizer step of one weight
  AVERAGE,  // tn_ema of one
  OUTPUT,
  N_KINDS
} Kind;
static const char *const kind_name[N_KINDS] = {"input", "buffer",  "weight", "neg",     "sin",           "add",
                                               "clone", "detach",  "slice",  "permute", "reshape",       "neg_",
                                               "sin_",  "add_",    "copy_",  "fill_",   "slice_assign_", "index_put_",
                                               "train", "average", "output"};
typedef struct {
  Kind kind;
  int a, b;  // operands: steps
  int axis, start, size;
  int rank, dim[3];  // of the result
} Step;
typedef struct {
  Step step[MAX_STEPS];
  int n, n_out;
  bool trained[N_WEIGHTS], averaged[N_WEIGHTS];
} Tape;

// What is kept from run to run. The first weight has plain SGD, the second one momentum.
enum {
  FIRST_WEIGHT = N_BUFFERS,
  MOMENTUM = FIRST_WEIGHT + N_WEIGHTS,
  FIRST_AVERAGE,
  N_KEPT = FIRST_AVERAGE + N_WEIGHTS
};
static const char *const kept_name[N_KEPT] = {
    "a", "b", "p.w", "q.w", "optimizer.momentum_buffer.q.w", "optimizer.ema.p.w", "optimizer.ema.q.w"};
static const double initial_weight = 0.5;

static uint64_t state;
static int below(int n) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((state >> 33) % (uint64_t)n);
}

static int numel(const Step *s) {
  int n = 1;
  for (int k = 0; k < s->rank; k++) n *= s->dim[k];
  return n;
}
static bool is_value(const Step *s) { return s->kind < NEG_; }
static bool same_shape(const Step *a, const Step *b) {
  return a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->rank);
}

static int pick(const Tape *t) {
  for (;;) {
    int k = below(t->n);
    if (is_value(&t->step[k])) return k;
  }
}

// A value that broadcasts to the shape of step a; -1: none was found
static int pick_fitting(const Tape *t, const Step *want, bool exact) {
  for (int tries = 0; tries < 30; tries++) {
    int k = pick(t);
    const Step *s = &t->step[k];
    bool fits = exact ? same_shape(s, want) : s->rank <= want->rank;
    for (int d = 0; fits && !exact && d < s->rank; d++) {
      int have = s->dim[d], need = want->dim[d + want->rank - s->rank];
      fits = have == need || have == 1;
    }
    if (fits) return k;
  }
  return -1;
}

static Step source(Kind kind, int index) {
  Step s = {.kind = kind, .a = index, .rank = 2, .dim = {ROWS, COLS}};
  if (kind == INPUT && index == 1) s.rank = 1, s.dim[0] = COLS;
  if (kind == INPUT && index == 2) s.dim[0] = N_INDEX;
  return s;
}

static Step reshaped(Step s, int a) {
  int n = numel(&s);
  Step r = {.kind = RESHAPE, .a = a, .rank = 1, .dim = {n}};
  for (int d = 2; d < n && below(3); d++)
    if (n % d == 0) r.rank = 2, r.dim[0] = d, r.dim[1] = n / d;
  return r;
}

// False: nothing fits, try again
static bool make_step(const Tape *t, Step *s) {
  static const Kind kinds[] = {NEG,   SIN,           ADD,           CLONE,      CLONE,  DETACH, SLICE, SLICE,
                               SLICE, PERMUTE,       RESHAPE,       NEG_,       SIN_,   ADD_,   COPY_, COPY_,
                               FILL_, SLICE_ASSIGN_, SLICE_ASSIGN_, INDEX_PUT_, OUTPUT, TRAIN,  TRAIN, AVERAGE};
  int a = pick(t);
  *s = t->step[a];
  s->kind = kinds[below((int)(sizeof kinds / sizeof *kinds))];
  s->a = a;
  switch (s->kind) {
  case ADD:
  case ADD_: return (s->b = pick_fitting(t, s, true)) >= 0;
  case COPY_: return (s->b = pick_fitting(t, s, false)) >= 0;
  case SLICE:
    if (!s->rank) return false;
    s->axis = below(s->rank);
    s->size = 1 + below(s->dim[s->axis]);
    s->start = below(s->dim[s->axis] - s->size + 1);
    s->dim[s->axis] = s->size;
    return true;
  case PERMUTE:
    if (s->rank != 2) return false;
    s->dim[0] = t->step[a].dim[1], s->dim[1] = t->step[a].dim[0];
    return true;
  case RESHAPE: *s = reshaped(t->step[a], a); return true;
  case SLICE_ASSIGN_: {
    if (!s->rank) return false;
    s->axis = below(s->rank);
    Step part = *s;
    part.dim[s->axis] = 1 + below(s->dim[s->axis]);
    s->start = below(s->dim[s->axis] - part.dim[s->axis] + 1);
    return (s->b = pick_fitting(t, &part, true)) >= 0;
  }
  case INDEX_PUT_: {
    Step part = *s;
    part.dim[0] = N_INDEX;
    return s->rank == 2 && s->dim[0] == ROWS && (s->b = pick_fitting(t, &part, true)) >= 0;
  }
  case TRAIN: s->a = below(N_WEIGHTS); return !t->trained[s->a] && !t->averaged[s->a];
  case AVERAGE: s->a = below(N_WEIGHTS); return !t->averaged[s->a];
  case OUTPUT: return t->n_out < MAX_OUT;
  default: return true;
  }
}

static void add_step(Tape *t, Step s) {
  t->n_out += s.kind == OUTPUT;
  if (s.kind == TRAIN) t->trained[s.a] = true;
  if (s.kind == AVERAGE) t->averaged[s.a] = true;
  t->step[t->n++] = s;
}

static Tape random_tape(uint64_t seed) {
  Tape t = {.n = 0};
  state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int k = 0; k < N_INPUTS; k++) add_step(&t, source(INPUT, k));
  for (int k = 0; k < N_BUFFERS; k++) add_step(&t, source(BUFFER, k));
  for (int k = 0; k < N_WEIGHTS; k++) add_step(&t, source(WEIGHT, k));
  int n = 12 + below(MAX_STEPS - 20);
  while (t.n < n) {
    Step s;
    if (make_step(&t, &s)) add_step(&t, s);
  }
  for (int k = 0; k < 3; k++) {
    Step s = t.step[pick(&t)];
    s.a = pick(&t), s.kind = OUTPUT, s.rank = t.step[s.a].rank;
    memcpy(s.dim, t.step[s.a].dim, sizeof s.dim);
    if (t.n_out < MAX_OUT + 3) add_step(&t, s);
  }
  return t;
}

static void print_tape(const Tape *t) {
  for (int k = 0; k < t->n; k++) {
    const Step *s = &t->step[k];
    printf("  %d: %s %d %d axis %d start %d size %d : [", k, kind_name[s->kind], s->a, s->b, s->axis, s->start,
           s->size);
    for (int d = 0; d < s->rank; d++) printf(d ? ",%d" : "%d", s->dim[d]);
    printf("]\n");
  }
}

// ---- direct execution
typedef struct {
  double *at[MAX_N];  // where each element lies
} View;
typedef struct {
  double in[N_INPUTS][MAX_N], kept[N_KEPT][MAX_N];
  int n_averaged[N_WEIGHTS];
  int64_t index[N_INDEX];
} Data;

static double weight_of(int output, int element);

static void train(Data *d, int k) {
  for (int i = 0; i < ROWS * COLS; i++) {
    double g = weight_of(MAX_OUT + k, i);
    if (k == 1) g = d->kept[MOMENTUM][i] = 0.5 * d->kept[MOMENTUM][i] + g;
    d->kept[FIRST_WEIGHT + k][i] -= 0.25 * g;
  }
}

static void average(Data *d, int k) {
  for (int i = 0; i < ROWS * COLS; i++) {
    double w = d->kept[FIRST_WEIGHT + k][i], *a = &d->kept[FIRST_AVERAGE + k][i];
    *a = d->n_averaged[k] ? *a + (w - *a) * 0.5 : w;
  }
  d->n_averaged[k]++;
}

static double apply(Kind k, double a, double b) {
  switch (k) {
  case NEG:
  case NEG_: return -a;
  case SIN:
  case SIN_: return sin(a);
  case ADD:
  case ADD_: return a + b;
  default: return a;
  }
}

static int inner_of(const Step *s, int axis) {
  int n = 1;
  for (int k = axis + 1; k < s->rank; k++) n *= s->dim[k];
  return n;
}

// The place in `from` of element i of a part of it, `part` long along the axis
static int place(const Step *from, const Step *part, int axis, int start, int i) {
  int inner = inner_of(from, axis), size = part->dim[axis];
  int outer = i / (inner * size), along = i / inner % size;
  return (outer * from->dim[axis] + start + along) * inner + i % inner;
}

static int broadcast(const Step *from, const Step *to, int i) {
  int at = 0, step = 1;
  for (int d = to->rank - 1; d >= 0; d--) {
    int k = i % to->dim[d], e = d - (to->rank - from->rank);
    i /= to->dim[d];
    if (e < 0) continue;
    if (from->dim[e] != 1) at += k * step;
    step *= from->dim[e];
  }
  return at;
}

static void execute(const Tape *t, Data *d, double out[][MAX_N]) {
  static double store[MAX_STEPS + 3][MAX_N];
  static View view[MAX_STEPS + 3];
  int n_out = 0;
  for (int k = 0; k < t->n; k++) {
    const Step *s = &t->step[k], *of = &t->step[s->a], *b = &t->step[s->b];
    if (s->kind == TRAIN) train(d, s->a);
    if (s->kind == AVERAGE) average(d, s->a);
    if (s->kind == TRAIN || s->kind == AVERAGE) continue;
    View *v = &view[k], *va = &view[s->a], *vb = &view[s->b];
    double old[MAX_N] = {0}, other[MAX_N] = {0};
    if (s->kind > WEIGHT)
      for (int i = 0; i < numel(of); i++) old[i] = *va->at[i];
    if (s->kind > WEIGHT && s->b >= 0)
      for (int i = 0; i < numel(b); i++) other[i] = *vb->at[i];
    for (int i = 0; i < numel(s); i++) switch (s->kind) {
      case INPUT: v->at[i] = &store[k][i], store[k][i] = d->in[s->a][i]; break;
      case BUFFER: v->at[i] = &d->kept[s->a][i]; break;
      case WEIGHT: v->at[i] = &d->kept[FIRST_WEIGHT + s->a][i]; break;
      case NEG:
      case SIN:
      case ADD:
      case CLONE: v->at[i] = &store[k][i], store[k][i] = apply(s->kind, old[i], other[i]); break;
      case DETACH:
      case RESHAPE: v->at[i] = va->at[i]; break;
      case SLICE: v->at[i] = va->at[place(of, s, s->axis, s->start, i)]; break;
      case PERMUTE: v->at[i] = va->at[i % s->dim[1] * s->dim[0] + i / s->dim[1]]; break;
      case NEG_:
      case SIN_:
      case ADD_: *va->at[i] = apply(s->kind, old[i], other[i]); break;
      case COPY_: *va->at[i] = other[broadcast(b, s, i)]; break;
      case FILL_: *va->at[i] = 0.25; break;
      case OUTPUT: out[n_out][i] = old[i]; break;
      default: break;
      }
    if (s->kind == SLICE_ASSIGN_)
      for (int i = 0; i < numel(b); i++) *va->at[place(of, b, s->axis, s->start, i)] = other[i];
    if (s->kind == INDEX_PUT_)
      for (int i = 0; i < numel(b); i++) *va->at[d->index[i / s->dim[1]] * s->dim[1] + i % s->dim[1]] = other[i];
    n_out += s->kind == OUTPUT;
  }
}

// ---- the same through the library
static tn_shape shape_of(const Step *s, tn_dim dims[3]) {
  for (int k = 0; k < s->rank; k++) dims[k] = tn_dim_const(s->dim[k]);
  return tn_shape_of(dims, (uint32_t)s->rank);
}

static tn_tensor weights(tn_function *f, const Step *s, int output, tn_shape shape);

// The loss is the sum of the weight's elements, each with its own factor.
static void build_train(tn_function *f, tn_module *m, int k) {
  Step s = source(WEIGHT, k);
  tn_dim dims[3];
  tn_backward(tn_sum(tn_mul(tn_param_value(f, m, "w"), weights(f, &s, MAX_OUT + k, shape_of(&s, dims)))));
  if (k) tn_sgd(f, m, .lr = 0.25, .momentum = 0.5);
  else tn_sgd(f, m, .lr = 0.25);
}

static bool is_of_weight(const Tape *t, int k) {
  while (t->step[k].kind > NEG_ || (t->step[k].kind >= DETACH && t->step[k].kind <= RESHAPE)) k = t->step[k].a;
  return t->step[k].kind == WEIGHT;
}

static bool is_write(Kind k) { return k >= NEG_ && k <= INDEX_PUT_; }

// With `loss`: the function is not ended, outputs are summed up in it, and x is -w.
static tn_function *build(tn_program *p, const Tape *t, tn_tensor *loss) {
  static const char *const inputs[] = {"x", "row", "rows"};
  tn_tensor v[MAX_STEPS + 3];
  tn_dim dims[3];
  int n_out = 0;
  for (int k = 0; k < N_BUFFERS; k++)
    tn_buffer(tn_root(p), kept_name[k], TN_SHAPE(ROWS, COLS), ((tn_init){TN_INIT_ZEROS, 0, 0}));
  tn_module *module[N_WEIGHTS] = {tn_module_new(tn_root(p), "p"), tn_module_new(tn_root(p), "q")};
  for (int k = 0; k < N_WEIGHTS; k++)
    tn_parameter(module[k], "w", TN_SHAPE(ROWS, COLS), ((tn_init){TN_INIT_CONSTANT, initial_weight, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor index = tn_input(f, "index", TN_I64, TN_SHAPE(N_INDEX));
  for (int k = 0; k < t->n; k++) {
    const Step *s = &t->step[k];
    bool has_operand = s->kind > WEIGHT && s->kind != TRAIN && s->kind != AVERAGE;
    tn_tensor a = has_operand ? v[s->a] : TN_NONE, b = has_operand && s->b >= 0 ? v[s->b] : a;
    bool writes_weight = is_write(s->kind) && is_of_weight(t, s->a);
    char name[16];
    if (writes_weight) tn_no_grad_begin(f);
    v[k] = a;
    switch (s->kind) {
    case INPUT:
      if (loss && s->a == 0) v[k] = tn_neg(tn_param_value(f, tn_root(p), "w"));
      else v[k] = tn_input(f, inputs[s->a], TN_F32, shape_of(s, dims));
      break;
    case BUFFER: v[k] = tn_param_value(f, tn_root(p), kept_name[s->a]); break;
    case WEIGHT: v[k] = tn_param_value(f, module[s->a], "w"); break;
    case TRAIN: build_train(f, module[s->a], s->a); break;
    case AVERAGE: tn_ema(f, module[s->a], .decay = 0.5); break;
    case NEG: v[k] = tn_neg(a); break;
    case SIN: v[k] = tn_sin(a); break;
    case ADD: v[k] = tn_add(a, b); break;
    case CLONE: v[k] = tn_clone(a); break;
    case DETACH: v[k] = tn_detach(a); break;
    case SLICE: v[k] = tn_slice(a, s->axis, s->start, s->size); break;
    case PERMUTE: v[k] = tn_permute(a, TN_INTS(1, 0)); break;
    case RESHAPE: v[k] = tn_reshape(a, shape_of(s, dims)); break;
    case NEG_: tn_neg_(a); break;
    case SIN_: tn_sin_(a); break;
    case ADD_: tn_add_(a, b); break;
    case COPY_: tn_copy_(a, b); break;
    case FILL_: tn_fill_(a, 0.25); break;
    case SLICE_ASSIGN_: tn_slice_assign_(a, s->axis, s->start, b); break;
    case INDEX_PUT_: tn_index_put_(a, index, b); break;
    case OUTPUT:
      if (loss) {
        tn_tensor part = tn_sum(tn_mul(a, weights(f, s, n_out++, shape_of(s, dims))));
        *loss = loss->fn ? tn_add(*loss, part) : part;
        break;
      }
      snprintf(name, sizeof name, "o%d", n_out++);
      tn_output(f, name, a);
      break;
    default: break;
    }
    if (writes_weight) tn_no_grad_end(f);
  }
  if (!loss) tn_function_end(f);
  return f;
}

static bool near(const double *want, const double *found, int n) {
  for (int i = 0; i < n; i++)
    if (!(fabs(want[i] - found[i]) <= 1e-5 * (1 + fabs(want[i])))) {
      printf("  element %d: found %.9g, expected %.9g\n", i, found[i], want[i]);
      return false;
    }
  return true;
}

// By the interpreter, after the passes that turn writes into values; then the plan is made and checked.
static bool run_oracle(tn_program *p, tn_function *f, int n_out, Data *d, double out[][MAX_N]) {
  fe_params_flush(p);
  if (p->ir->diags.n_errors ||
      !ir_run_passes(f->ir, "check_scopes,check_rows,functionalize,grad,simplify,insert_copies", NULL, NULL))
    return false;
  RtText why = {.mem = p->mem};
  int64_t slots[1] = {0};
  double index[N_INDEX] = {(double)d->index[0], (double)d->index[1]};
  Tensor all[] = {{.v = index, .n = N_INDEX},
                  {.v = d->in[0], .n = ROWS * COLS},
                  {.v = d->in[1], .n = COLS},
                  {.v = d->in[2], .n = N_INDEX * COLS}},
         in[N_INPUTS + 1];
  bool has_w = ir_param_find(p->ir, "w") != UINT32_MAX;
  for (int k = 0, n = 0; k < N_INPUTS + 1; k++)
    if (k != 1 || !has_w) in[n++] = all[k];
  Tensor *params = rt_alloc(p->mem, p->ir->n_params * sizeof *params), res[MAX_OUT + 3];
  for (uint32_t k = 0; k < p->n_params; k++) {  // rates and counters are numbers
    FeParam *q = p->params[k];
    if (ir_rank(p->ir, q->shape) || q->index == FE_NO_PARAM) continue;
    params[q->index] = (Tensor){.v = rt_alloc(p->mem, sizeof(double)), .n = 1};
    params[q->index].v[0] = q->init.kind == TN_INIT_CONSTANT ? q->init.a : 0;
  }
  for (int k = 0; k < N_KEPT; k++) {
    uint32_t at = ir_param_find(p->ir, kept_name[k]);
    if (at != UINT32_MAX) params[at] = (Tensor){.v = d->kept[k], .n = ROWS * COLS};
  }
  if (has_w) params[ir_param_find(p->ir, "w")] = all[1];
  InterpEnv env = {.slots = slots, .params = params, .in = in, .out = res, .mem = p->mem};
  if (!ir_interpret(f->ir, &env, &why)) return printf("  %s\n", why.text), false;
  for (int k = 0; k < n_out; k++) memcpy(out[k], res[k].v, (size_t)res[k].n * sizeof(double));
  return ir_run_passes(f->ir, "fuse,assign_buffers,plan_memory,verify_plan", NULL, NULL);
}

static bool is_kept(const Tape *t, int k) {
  return k < MOMENTUM || (k == MOMENTUM ? t->trained[1] : t->averaged[k - FIRST_AVERAGE]);
}

static bool run_model(tn_model *m, const Tape *t, Data *d, double out[][MAX_N]) {
  float in[N_INPUTS][MAX_N], res[MAX_OUT + 3][MAX_N], kept[MAX_N];
  tn_array a[MAX_OUT + 3];
  for (int k = 0; k < N_INPUTS; k++)
    for (int i = 0; i < MAX_N; i++) in[k][i] = (float)d->in[k][i];
  int n_out = 0;
  for (int k = 0; k < t->n; k++) {
    const Step *s = &t->step[k];
    int64_t dims[3] = {s->dim[0], s->dim[1], s->dim[2]};
    if (s->kind == OUTPUT) a[n_out] = tn_array_of(res[n_out], TN_F32, dims, (uint32_t)s->rank), n_out++;
  }
  if (tn_run(m, "run",
             TN_IN(tn_i64(d->index, N_INDEX), tn_f32(in[0], ROWS, COLS), tn_f32(in[1], COLS),
                   tn_f32(in[2], N_INDEX, COLS)),
             a, (size_t)n_out) != TN_OK)
    return printf("  %s\n", tn_error_text(m)), false;
  for (int k = 0; k < n_out; k++)
    for (int i = 0; i < MAX_N; i++) out[k][i] = res[k][i];
  for (int k = 0; k < N_KEPT; k++) {
    if (!is_kept(t, k)) continue;
    if (tn_get(m, kept_name[k], kept, ROWS * COLS) != TN_OK) return printf("  %s\n", tn_error_text(m)), false;
    for (int i = 0; i < ROWS * COLS; i++) d->kept[k][i] = kept[i];
  }
  return true;
}

static Data random_data(void) {
  Data d;
  for (int k = 0; k < N_INPUTS; k++)
    for (int i = 0; i < MAX_N; i++) d.in[k][i] = below(2000) / 1000.0 - 1;
  memset(d.kept, 0, sizeof d.kept);
  memset(d.n_averaged, 0, sizeof d.n_averaged);
  for (int k = 0; k < N_WEIGHTS; k++)
    for (int i = 0; i < MAX_N; i++) d.kept[FIRST_WEIGHT + k][i] = initial_weight;
  for (int k = 0; k < N_INDEX; k++) d.index[k] = below(ROWS);
  return d;
}

static bool compare(const Tape *t, double want[][MAX_N], double found[][MAX_N], const Data *direct, const Data *d) {
  int n = 0;
  bool good = true;
  for (int k = 0; k < t->n; k++)
    if (t->step[k].kind == OUTPUT) {
      bool same = near(want[n], found[n], numel(&t->step[k]));
      if (!same) printf("  output %d (step %d)\n", n, k);
      good &= same;
      n++;
    }
  for (int k = 0; k < N_KEPT; k++) {
    bool same = !is_kept(t, k) || near(direct->kept[k], d->kept[k], ROWS * COLS);
    if (!same) printf("  %s\n", kept_name[k]);
    good &= same;
  }
  return good;
}

// ---- gradients: input x is -w of a parameter w; the loss is the sum of all outputs, each element with its own weight
static double weight_of(int output, int element) { return sin(1 + 3 * output + element); }

static double direct_loss(const Tape *t, Data d) {
  double out[MAX_OUT + 3][MAX_N], loss = 0;
  execute(t, &d, out);
  for (int k = 0, n = 0; k < t->n; k++) {
    if (t->step[k].kind != OUTPUT) continue;
    for (int i = 0; i < numel(&t->step[k]); i++) loss += weight_of(n, i) * out[n][i];
    n++;
  }
  return loss;
}

static tn_tensor weights(tn_function *f, const Step *s, int output, tn_shape shape) {
  tn_tensor parts[MAX_N];
  for (int i = 0; i < numel(s); i++) parts[i] = tn_reshape(tn_scalar(f, weight_of(output, i)), TN_SHAPE(1));
  return tn_reshape(tn_concat(0, parts, (uint32_t)numel(s)), shape);
}

static bool check_gradient(uint64_t seed) {
  Tape t = random_tape(seed);
  for (int k = 0; k < t.n; k++) {  // differences see through what is detached, and through writes to weights
    Kind *kind = &t.step[k].kind;
    if (*kind == DETACH) *kind = CLONE;
    if (*kind == WEIGHT) *kind = BUFFER;
    if (*kind == TRAIN || *kind == AVERAGE) t.step[k] = source(INPUT, 1), t.step[k].kind = FILL_, t.step[k].a = 1;
  }
  Data d = random_data();
  tn_program *p = tn_program_create("gradients");
  tn_parameter(tn_root(p), "w", TN_SHAPE(ROWS, COLS), ((tn_init){TN_INIT_ZEROS, 0, 0}));
  tn_tensor loss = TN_NONE;
  tn_function *f = build(p, &t, &loss);
  bool tracked = tn_requires_grad(loss), good = true;
  double want[MAX_N], found[MAX_OUT + 3][MAX_N] = {{0}}, step = 1e-5;
  for (int i = 0; i < ROWS * COLS; i++) {
    Data up = d, down = d;
    up.in[0][i] -= step, down.in[0][i] += step;
    want[i] = (direct_loss(&t, up) - direct_loss(&t, down)) / (2 * step);
    good &= tracked || want[i] == 0;
  }
  if (tracked) {
    tn_backward(loss);
    tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  }
  tn_function_end(f);
  p->ir->copy_saved = true;
  for (int i = 0; i < ROWS * COLS; i++) d.in[0][i] = -d.in[0][i];  // w
  good = good && (!tracked || (run_oracle(p, f, 1, &d, found) && near(want, found[0], ROWS * COLS)));
  if (!good) {
    printf("seed %llu, gradient:\n", (unsigned long long)seed);
    print_tape(&t);
    tn_report(p, stdout);
  }
  tn_program_free(p);
  return good;
}

static bool check_seed(uint64_t seed, bool compiled) {
  Tape t = random_tape(seed);
  Data direct = random_data(), d = direct;
  double want[MAX_OUT + 3][MAX_N] = {{0}}, found[MAX_OUT + 3][MAX_N] = {{0}};
  tn_program *p = tn_program_create("writes");
  tn_function *f = build(p, &t, NULL);
  tn_compile_options o = {.n_workers = 2, .cache_dir = ""};
  tn_model *m = compiled ? (tn_compile)(p, o) : NULL;
  bool good = !compiled || m;
  for (int run = 0; run < (compiled ? 2 : 1) && good; run++) {
    execute(&t, &direct, want);
    good = compiled ? run_model(m, &t, &d, found) : run_oracle(p, f, t.n_out, &d, found);
    good = good && compare(&t, want, found, &direct, &d);
  }
  if (!good) {
    printf("seed %llu, %s:\n", (unsigned long long)seed, compiled ? "compiled" : "interpreted");
    print_tape(&t);
    tn_report(p, stdout);
    if (compiled && m) tn_dump_function(p, "run", stdout, TN_DUMP_LIFETIMES);
  }
  tn_model_free(m);
  tn_program_free(p);
  return good;
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 400, first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  for (uint64_t k = 0; k < n && !check_n_failed; k++) {
    CHECK(check_seed(first + k, false));
    CHECK(check_gradient(first + k));
    if (k % 10 == 0) CHECK(check_seed(first + k, true));
  }
  return check_report();
}
