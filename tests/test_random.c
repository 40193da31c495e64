// Random programs three ways: the interpreter on the function as written (gradients expanded), the interpreter after
// all passes, compiled code with one and with more workers. They must agree within what single precision allows, which
// the interpreter's own error bars say (InterpEnv.noise); different numbers of workers must agree in every bit, and so
// must the plan for bounds that this run's sizes just fit (ir/passes/lowering/specialize.c). One program in three is planned
// within a limit, one with checkpoints: kernels that run again keep the bits of a plan with neither.
//
//   test_random [--count N] [--seed S] [--minutes M] [--functions F] [--go-on] [--no-code] [--chains | --calls] [--print]
//               [--on TARGET] [--file X.tir ..]
//
// A count is a number of functions; F of them share a program, and each runs with N_DRAWS draws of sizes and numbers,
// since code is dear and data are cheap. Everything runs in a child process: a crash is a failure like any other.
// TN_CHECK=arena runs compiled code in a guarded arena. A failing program is shrunk and printed with its seed; --file
// runs such texts again, as with that --seed or, without one, planned in each way. --on compiles for another machine, which tests/foreign.h runs.
//
// Where bars are so wide that any number is within them the values are passed over. Their share is printed, and that of
// the values that are held closely; more than MAX_OPEN percent of the one, or less than LEAST_SHARP of the other, fail.
#include "codegen/kernels.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/random_oracle.h"
#include "tests/random_program.h"
#include "tests/trial.h"

#include "ir/rewrite.h"
#include "runtime/clock.h"
#include "runtime/exec/thread_team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORKERS = 3, N_BARS = 3, N_MORE_BARS = 60, N_DRAWS = 3 };
enum {
  LEAST_SHARP = 75,  // percent
  MAX_OPEN = 5,      // percent
  LEAST_FUNCTIONS = 100,
  MOST_NO_RUN =
      5  // qemu's translator fails on one run of twelve on riscv64; on more than one of so many: too little is seen
};

typedef enum {
  FINE,
  REJECTED,
  INTERPRETER,
  WRITTEN,
  GRADIENT,
  OPTIMISED,
  CODEGEN,
  COMPILED,
  WORKERS,
  VARIANT,
  LIMITED,
  SIZES,
  OVERRUN,
  GUARDS,
  EMULATOR,
  CRASH,
  TEXT,
  N_VERDICTS
} Verdict;
static const char *const verdict_text[N_VERDICTS] = {"fine",
                                                     "a valid program is rejected",
                                                     "the interpreter fails",
                                                     "writes in place are not what was written",
                                                     "a gradient is not the slope of its loss",
                                                     "the passes change what is computed",
                                                     "no code can be generated",
                                                     "compiled code differs",
                                                     "the number of workers matters",
                                                     "a plan for smaller bounds differs",
                                                     "kernels that run again change bits",
                                                     "the host sees other sizes that are below 0",
                                                     "memory behind a block is overwritten",
                                                     "a guard of the arena is damaged",
                                                     "the emulator fails",
                                                     "crash",
                                                     "the text does not come back"};

// Between the process that tests and the one that watches.
typedef struct {
  uint64_t seed;
  uint32_t function;  // at hand; UINT32_MAX: none in particular
  struct {
    uint64_t functions, programs, runs /* functions times draws */, skipped, slopes, nested /* slopes of gradients */;
    uint64_t loose;  // bars that were widened
    uint64_t values, sharp,
        open;          // of outputs; held to 1e-4 of themselves; passed over: any number is within their bars
    uint64_t blind;    // runs of which most values are open
    uint64_t no_run;   // on which the emulator failed
    uint64_t refused;  // draws of sizes that make another size negative
    uint64_t again, by_checkpoints;  // kernels that run again, within a limit and by checkpoints
    uint64_t within;                 // functions that keep a limit
    uint64_t compared;  // runs of plans with either whose bits were compared with those of a plan with neither
  } n;
  Verdict verdict;
  uint32_t id;  // of the diagnostic behind REJECTED
  char message[2048];
} Shared;
static Shared *shared;
static bool is_hostile;   // TN_CHECK=arena
static bool no_code;      // --no-code: all but what is compiled, of many more functions in the same time
static RandomKind drawn;  // RANDOM_ALL: of two of three programs RANDOM_NETWORKS where they are odd
static Target target;
static RtTeam *teams[MAX_WORKERS + 1];
static const char *machine;  // --on; NULL: this one
static Foreign *foreign;     // of the process that tests; NULL: this machine

static bool fail(Verdict v, const char *fmt, ...) RT_PRINTF(2, 3);
static bool fail(Verdict v, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(shared->message, sizeof shared->message, fmt, ap);
  va_end(ap);
  shared->verdict = v;
  shared->id = 0;
  return false;
}

// ---- results: outputs, then parameters
static Tensor copy_of(RtArena *mem, Tensor a) {
  Tensor t = {.v = rt_alloc(mem, (size_t)a.n * sizeof(double)), .n = a.n};
  if (a.n) memcpy(t.v, a.v, (size_t)a.n * sizeof(double));
  return t;
}

static bool interpret(const Fn *f, const TrialData *d, double noise, uint64_t key, RtArena *mem, TrialResults *out,
                      RtText *why) {
  const Prog *p = f->prog;
  *out = (TrialResults){rt_alloc(mem, (f->n_outputs + p->n_params + 1) * sizeof(Tensor)), f->n_outputs,
                        f->n_outputs + p->n_params};
  InterpEnv env = {.in = d->in,
                   .out = out->t,
                   .params = out->t + f->n_outputs,
                   .seed = TRIAL_SEED,
                   .counter = TRIAL_COUNTER,
                   .mem = mem,
                   .noise = noise,
                   .noise_state = key};
  env.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof(int64_t));
  if (p->n_syms) memcpy(env.slots, d->slots, p->n_syms * sizeof(int64_t));
  for (uint32_t k = 0; k < p->n_params; k++) env.params[k] = copy_of(mem, d->params[k]);
  return oracle_fits(f) ? oracle_run(f, &env, why) : ir_interpret(f, &env, why);
}

// ---- how exact results can be
static const double NOISE = 1e-6;  // 8 roundings' worth

typedef struct {
  TrialResults exact;
  double **dev;  // by result: how far the noisy runs moved; INFINITY where they disagree about NaN or infinity
  uint32_t n_runs;
} Bars;

// Of the runs that widen bars two in three have less noise: where |x| or a sign makes noise go one way, much of it passes by a jump
// that single precision stops at.
static double noise_of(uint32_t run) { return run < N_BARS ? NOISE : NOISE / (1 << 4 * (run % 3)); }

static bool add_bars(Bars *b, const Fn *f, const TrialData *d, uint32_t n) {
  for (uint32_t end = b->n_runs + n; b->n_runs < end; b->n_runs++) {
    RtArena *mem = rt_arena_new();
    RtText why = {.mem = mem};
    TrialResults r;
    bool ok = interpret(f, d, noise_of(b->n_runs), 1 + b->n_runs, mem, &r, &why);
    for (uint32_t k = 0; ok && k < r.n; k++)
      for (int64_t i = 0; i < r.t[k].n; i++) {
        double x = b->exact.t[k].v[i], y = r.t[k].v[i], move = fabs(x - y);
        if (isfinite(x) && isfinite(y)) b->dev[k][i] = fmax(b->dev[k][i], move);
        else if (!(isnan(x) && isnan(y)) && x != y) b->dev[k][i] = INFINITY;
      }
    if (!ok) fail(INTERPRETER, "with noise: %s", why.text ? why.text : "");
    rt_arena_free(mem);
    if (!ok) return false;
  }
  return true;
}

static bool make_bars(Bars *b, const Fn *f, const TrialData *d, RtArena *mem) {
  RtText why = {.mem = mem};
  if (!interpret(f, d, 0, 0, mem, &b->exact, &why)) return fail(INTERPRETER, "%s", why.text ? why.text : "");
  b->dev = rt_alloc(mem, (b->exact.n + 1) * sizeof *b->dev);
  for (uint32_t k = 0; k < b->exact.n; k++) b->dev[k] = rt_alloc(mem, ((size_t)b->exact.t[k].n + 1) * sizeof(double));
  for (uint32_t k = 0; k < f->n_outputs; k++) {
    DType type;
    trial_output(f, k, &type);
    for (int64_t i = 0; type == DT_I64 && i < b->exact.t[k].n; i++)  // past i64: any number will do
      if (!(fabs(b->exact.t[k].v[i]) < 0x1p63)) b->dev[k][i] = INFINITY;
  }
  return add_bars(b, f, d, N_BARS);
}

static double bar_of(double x, double dev) { return 4 * dev + 1e-6 * fabs(x) + 1e-37; }

// The first element out of its bars; false: none is.
static bool find_difference(const Bars *b, const TrialResults *r, double strict, uint32_t *at, int64_t *element) {
  for (uint32_t k = 0; k < r->n; k++)
    for (int64_t i = 0; i < r->t[k].n; i++) {
      double x = b->exact.t[k].v[i], y = r->t[k].v[i], dev = b->dev[k][i];
      if (isinf(dev) || (isnan(x) && isnan(y)) || x == y) continue;
      if (isfinite(x) && isfinite(y) && fabs(x - y) <= strict * bar_of(x, dev)) continue;
      *at = k, *element = i;
      return true;
    }
  return false;
}

// strict: 1 for single precision, far less for doubles. Bars are widened before a difference counts.
static bool agree(Bars *b, const Fn *f, const TrialData *d, const TrialResults *r, double strict, Verdict v) {
  uint32_t at;
  int64_t element;
  for (uint32_t k = 0; k < r->n; k++)
    if (r->t[k].n != b->exact.t[k].n) return fail(v, "result %u has another size", k);
  if (!find_difference(b, r, strict, &at, &element)) return true;
  if (b->n_runs == N_BARS && !add_bars(b, f, d, N_MORE_BARS)) return false;
  shared->n.loose++;
  if (!find_difference(b, r, strict, &at, &element)) return true;
  const Prog *p = f->prog;
  const char *what = at < r->n_out ? "output" : "parameter";
  return fail(v, "@%s: %s %u%s%s, element %lld: expected %.9g (+- %.3g), found %.9g", ir_text(p, f->name), what,
              at < r->n_out ? at : at - r->n_out, at < r->n_out ? "" : " ",
              at < r->n_out ? "" : ir_text(p, p->params[at - r->n_out].path), (long long)element,
              b->exact.t[at].v[element], b->dev[at][element], r->t[at].v[element]);
}

// A number is held to its bars where these are narrow; what is no number by meaning, everywhere.
static bool is_open(double x, double dev) { return isinf(dev) || (isfinite(x) && !(dev <= 1e-2 * (fabs(x) + 1e-3))); }

// Of a large result some elements count, so that it does not stand for all others.
static void count_open(const Bars *b) {
  enum { MOST_COUNTED = 256 };
  uint64_t values = 0, sharp = 0, open = 0;
  for (uint32_t k = 0; k < b->exact.n_out; k++) {
    int64_t step = 1 + b->exact.t[k].n / MOST_COUNTED;
    for (int64_t i = 0; i < b->exact.t[k].n; i += step, values++) {
      double x = b->exact.t[k].v[i], dev = b->dev[k][i];
      sharp += !isfinite(x) ? !isinf(dev) : bar_of(x, dev) <= 1e-4 * fabs(x) + 1e-37;
      open += is_open(x, dev);
    }
  }
  shared->n.values += values, shared->n.sharp += sharp, shared->n.open += open;
  shared->n.runs++, shared->n.blind += 2 * open > values;
}

// ---- compiled code
static bool run_compiled(const TrialCode *c, const Fn *f, const TrialData *d, uint32_t n_workers, RtArena *mem,
                         TrialResults *out) {
  static const Verdict verdict[] = {FINE, COMPILED, OVERRUN, GUARDS, EMULATOR};
  RtText why = {.mem = mem};
  TrialEnd end = trial_run(c, f, d, teams[n_workers], mem, out, &why);
  return end == TRIAL_FINE || fail(verdict[end], "@%s: %s", ir_text(f->prog, f->name), why.text);
}

// other: whose results b are
static bool same_bits(const Fn *f, const TrialResults *a, const TrialResults *b, Verdict v, const char *other) {
  for (uint32_t k = 0; k < a->n; k++)
    for (int64_t i = 0; i < a->t[k].n; i++)
      if (memcmp(&a->t[k].v[i], &b->t[k].v[i], sizeof(double)) && !(isnan(a->t[k].v[i]) && isnan(b->t[k].v[i])))
        return fail(v, "@%s: result %u, element %lld: one worker finds %.9g, %s %.9g", ir_text(f->prog, f->name), k,
                    (long long)i, a->t[k].v[i], other, b->t[k].v[i]);
  return true;
}

// ---- plans for smaller bounds
static bool is_axis_of_input(const Fn *f, Dim d) {
  for (uint32_t v = 1; v < f->n_ins; v++)
    for (uint32_t k = 0; f->ins[v].op == OP_input && k < ir_rank(f->prog, f->ins[v].shape); k++)
      if (ir_dim_at(f->prog, f->ins[v].shape, k).i == d.i) return true;
  return false;
}

// f as it was written, for the sizes of its run and not one more. NULL: they are its bounds.
static Fn *variant_of(const Fn *f, const int64_t *slots, RtArena *mem) {
  const Prog *p = f->prog;
  DimFit *fits = rt_alloc(mem, (p->n_syms + 1) * sizeof *fits);
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->n_syms; k++) {
    int64_t size = slots[k] > 1 ? slots[k] : 1;
    if (size < ir_dim_bound(p, p->syms[k]) && is_axis_of_input(f, p->syms[k])) fits[n++] = (DimFit){p->syms[k], size};
  }
  return n ? ir_fn_specialize(f, fits, n) : NULL;
}

// ---- one program

static const char *print(RtArena *mem, const Prog *p) {
  RtText t = {.mem = mem};
  ir_print(p, &t, 0);
  return t.text;
}

// Kernels run again where values live long: so it is in every second program within a limit or with checkpoints.
static const char *program_text(RtArena *mem, uint64_t seed, uint32_t n_functions) {
  RandomKind one = drawn == RANDOM_ALL && seed % 3 && seed % 2 ? RANDOM_NETWORKS : drawn;
  return print(mem, random_program(mem, one, seed, n_functions));
}

static Prog *parse(RtArena *mem, const char *text) {
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text, strlen(text), "random.tir", &diags);
  if (!p) fail(TEXT, "%s", diags.n ? diags.list[0].text : "");
  return p;
}

// Whose value moves with its operands: what replaces gradients moves nothing.
static Val plain_loss(const Fn *f, Val loss) {
  while (f->ins[loss.i].op == OP_grad_replace) loss = ir_arg(f, loss, 0);
  return loss;
}

static bool is_mark(const Ins *ins) {
  return ir_ops[ins->op].cls == CLASS_MARK && ins->op != OP_grad_of && ins->op != OP_write;
}

// ---- gradients against differences
// The function without its scopes and with one more output for each grad_of; n: their number. `origin` says which value
// of the written function each one was.
static Fn *with_gradients(RtArena *mem, const Fn *written, uint32_t *n) {
  RtText text = {.mem = mem};
  ir_print(written->prog, &text, 0);
  Prog *p = parse(mem, text.text);
  Fn *f = p ? ir_fn_find(p, ir_text(written->prog, written->name)) : NULL;
  if (!f) return NULL;
  Rewrite e;
  f->cur_scope = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) f->ins[i].origin = i;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++)
    if (e.old[i].op != OP_result && !is_mark(&e.old[i])) ir_rewrite_copy(&e, (Val){i});
  ir_rewrite_end(&e);
  f->n_scopes = 1;
  *n = 0;
  for (uint32_t i = 1, end = f->n_ins; i < end; i++) {
    f->ins[i].scope = 0;
    if (f->ins[i].op != OP_grad_of) continue;
    Attr a[2] = {ir_a_str(KEY_name, ir_str(p, rt_printf(mem, "slope%u", (*n)++))), ir_a_int(KEY_index, f->n_outputs)};
    ir_emit(f, OP_output, &(Val){i}, 1, a, 2, (Loc){0});
  }
  return f;
}

static bool loss_at(const Fn *f, const TrialData *d, Nudge *n, double step, RtArena *mem, double *loss) {
  const Prog *p = f->prog;
  RtText why = {.mem = mem};
  InterpEnv env = {.in = d->in, .params = d->params, .seed = TRIAL_SEED, .counter = TRIAL_COUNTER, .mem = mem};
  env.out = rt_alloc(mem, (f->n_outputs + 1) * sizeof(Tensor));
  env.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof(int64_t));
  if (p->n_syms) memcpy(env.slots, d->slots, p->n_syms * sizeof(int64_t));
  n->step = step;
  return oracle_loss(f, &env, n, loss, &why) || fail(INTERPRETER, "nudged: %s", why.text ? why.text : "");
}

// Central differences of two widths, which a kink at hand moves by up to half of itself; a larger one or a jump says nothing. Where a gradient is nudged it may be one
// by its own rule alone: |x| |x| is smooth at 0, and its second gradient there is that of |x|.
static bool slope_fits(const Fn *f, const TrialData *d, Nudge *n, Tensor grad, RtArena *mem) {
  const double h = 1e-5;
  double l[5], at[] = {0, h, -h, h / 2, -h / 2}, found = 0, size = 0;
  for (int k = 0; k < 5; k++)
    if (!loss_at(f, d, n, at[k], mem, &l[k])) return false;
  if (n->jumped) return true;
  for (int64_t k = 0; k < grad.n; k++) found += grad.v[k] * n->dir[k], size += fabs(grad.v[k]);
  double wide = (l[1] - l[2]) / (2 * h), near = (l[3] - l[4]) / h, kink = fabs(l[1] - 2 * l[0] + l[2]) / h;
  double slack = 1e-4 * (fabs(near) + fabs(found)) + 1e-6 * size + 1e-8 * (1 + fabs(l[0]));
  if (!isfinite(wide + near + found) || !(fabs(wide - near) <= slack) || kink > 2 * slack) return true;
  shared->n.slopes++;
  if (fabs(near - found) <= slack) return true;
  return fail(GRADIENT, "@%s: instruction %u, by %u: the loss rises by %.9g, the gradient says %.9g",
              ir_text(f->prog, f->name), n->loss.i, n->target.i, near, found);
}

// ---- of a loss that depends on gradients: these move with the target, and so the expanded function is nudged
static bool has_gradient_above(const Fn *f, Val v) {
  bool *need = calloc(f->n_ins, 1), found = false;
  need[v.i] = true;
  for (uint32_t i = v.i; i > 0 && !found; i--) {
    found = need[i] && f->ins[i].op == OP_grad_of;
    uint32_t n = f->ins[i].op == OP_grad_replace ? 1 : f->ins[i].n_args;
    for (uint32_t k = 0; need[i] && k < n; k++) need[ir_arg(f, (Val){i}, k).i] = true;
  }
  free(need);
  return found;
}

// What neither the interpreter nor a nudge can hold where it was.
static bool has_cuts(const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_stop_grad || ir_ops[f->ins[i].op].cls == CLASS_OPTIMIZER) return true;
  return false;
}

static Val with_origin(const Fn *expanded, Val v) {
  for (uint32_t i = 1; i < expanded->n_ins; i++)
    if (expanded->ins[i].origin == v.i) return (Val){i};
  return (Val){0};  // dropped, as clones are
}

// The body of a scan stands in line as written; what can be run is the expanded function.
static bool has_scans(const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_scan_begin) return true;
  return false;
}

static bool nested_slope_fits(const Fn *f, const Fn *expanded, const TrialData *d, Nudge n, Tensor grad, RtArena *mem) {
  if (has_cuts(f)) return true;
  n.loss = with_origin(expanded, n.loss), n.target = with_origin(expanded, n.target);
  if (ir_none(n.loss) || ir_none(n.target) || n.target.i > n.loss.i) return true;
  uint64_t before = shared->n.slopes;
  bool ok = slope_fits(expanded, d, &n, grad, mem);
  shared->n.nested += shared->n.slopes - before;
  return ok;
}

enum { MAX_SLOPES = 3 };  // of one function, and as many of gradients

static bool check_gradients(const Fn *f, const TrialData *d, RtArena *mem) {
  uint32_t n = 0, at = 0, tried[2] = {0};
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_write) return true;
    if (f->ins[i].op == OP_index_assign) return true;  // rows that a later equal index overwrites get its gradient too
    n += f->ins[i].op == OP_grad_of;
  }
  if (!n) return true;
  Fn *g = with_gradients(mem, f, &n);
  TrialResults r;
  RtText why = {.mem = mem};
  if (!g || !ir_run_passes(g, ir_pass_list(mem, 0, PASS_grad), NULL, NULL))
    return true;  // refused with the new readers
  if (!interpret(g, d, 0, 0, mem, &r, &why)) return fail(INTERPRETER, "%s", why.text ? why.text : "");
  const Tensor *grads = r.t + f->n_outputs;
  bool scans = has_scans(f);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_grad_of) continue;
    Tensor grad = grads[at++];
    Nudge nudge = {.loss = plain_loss(f, ir_arg(f, (Val){i}, 0)), .target = ir_arg(f, (Val){i}, 1), .grads = grads};
    bool nested = scans || has_gradient_above(f, nudge.loss);
    if (tried[nested]++ >= MAX_SLOPES) continue;
    double *dir = rt_alloc(mem, (size_t)(grad.n + 1) * sizeof *dir);
    Rng random = {i};
    for (int64_t j = 0; j < grad.n; j++) {  // of sizes that differ, so that kinks of several elements do not cancel
      double size = 1 + rng_below(&random, 8) / 8.0;
      dir[j] = rng_below(&random, 2) ? size : -size;
    }
    nudge.dir = dir;
    if (!(nested ? nested_slope_fits(f, g, d, nudge, grad, mem) : slope_fits(f, d, &nudge, grad, mem))) return false;
  }
  return true;
}

typedef struct {
  const Fn *written, *plain, *f;
  const Fn *optimised;  // f but for folded constants, which are rounded to single precision one by one as doubles are
                        // not (test_folds compares folds bit by bit)
  const Fn *variant;    // for the sizes of draw 0; NULL: these are its bounds
  const Fn *free;       // f without a limit and without checkpoints; NULL: f is planned like that
  const TrialCode *code, *free_code;
} Function;

// With one worker, with more, planned for smaller bounds, and without kernels that run again
static bool test_code(const Function *t, Bars *b, const Fn *variant, const TrialData *d, RtArena *mem) {
  const Fn *f = t->f;
  TrialResults one, more;
  if (!run_compiled(t->code, f, d, 1, mem, &one)) {
    if (shared->verdict != EMULATOR) return false;
    shared->n.no_run++;
    return shared->verdict = FINE, true;
  }
  if (!agree(b, t->plain, d, &one, 1, COMPILED)) return false;
  if (foreign) return true;
  uint32_t n_workers = 2 + rt_hash(ir_text(f->prog, f->name), 2, shared->seed) % 2;
  const char *others = rt_printf(mem, "%u find", n_workers);
  if (!run_compiled(t->code, f, d, n_workers, mem, &more) || !same_bits(f, &one, &more, WORKERS, others)) return false;
  if (variant &&
      !(run_compiled(t->code, variant, d, n_workers, mem, &more) && same_bits(variant, &one, &more, VARIANT, others)))
    return false;
  shared->n.compared += t->free != NULL;
  return !t->free || (run_compiled(t->free_code, t->free, d, 1, mem, &more) &&
                      same_bits(f, &one, &more, LIMITED, "without kernels that run again it finds"));
}

// The host refuses the sizes that make another one negative, and no others.
static bool agree_on_sizes(const Function *t, const TrialData *d) {
  if (!d->runs) return fail(SIZES, "@%s: no run has sizes for it", ir_text(t->f->prog, t->f->name));
  const SizeCheck *refused = ir_negative_size(t->f, d->drawn);
  shared->n.refused += refused != NULL;
  if (d->fits == !refused) return true;
  return fail(SIZES, "@%s: %s", ir_text(t->f->prog, t->f->name),
              refused ? refused->what : "a size below 0 is not refused");
}

static bool test_draw(const Function *t, uint32_t draw) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem};
  TrialData d = trial_data(t->written, draw, mem);
  Bars b = {0};
  TrialResults r;
  bool ok = agree_on_sizes(t, &d) && make_bars(&b, t->plain, &d, mem);
  if (ok && oracle_fits(t->written))
    ok = (interpret(t->written, &d, 0, 0, mem, &r, &why) ||
          fail(INTERPRETER, "as written: %s", why.text ? why.text : "")) &&
         agree(&b, t->plain, &d, &r, 1e-2, WRITTEN);
  ok = ok && check_gradients(t->written, &d, mem);
  ok = ok && (interpret(t->optimised, &d, 0, 0, mem, &r, &why) ||
              fail(INTERPRETER, "after passes: %s", why.text ? why.text : ""));
  ok = ok && agree(&b, t->plain, &d, &r, 7e-2, OPTIMISED);  // a rule may round a number to single precision
  ok = ok && (no_code || test_code(t, &b, draw ? NULL : t->variant, &d, mem));
  if (ok) count_open(&b);
  rt_arena_free(mem);
  return ok;
}

static bool test_function(const Function *t) {
  for (uint32_t draw = 0; draw < N_DRAWS; draw++)
    if (!test_draw(t, draw)) return false;
  return true;
}

// Refusals that a generator cannot foresee: an old version that is read after the write.
static bool may_refuse(const RtDiags *d, uint32_t from, bool writes) {
  for (uint32_t k = from; k < d->n; k++) {
    const RtDiag *m = &d->list[k];
    bool by_write = m->id == E_NO_GRAD_PATH || m->id == E_GRAD_OF_DETACHED || m->id == E_WRITE_LEAF ||
                    strstr(m->text, "broadcast view");
    if (writes && by_write) return true;
    if (m->severity == RT_ERROR && m->id != E_WRITE_SAVED) return false;
  }
  return true;
}

// Every third program is planned within limits: the least of them that is met, in parts of what `like`, the same function, takes
// without kernels that run again.
static bool run_passes_with_less(Fn *f, const Fn *like) {
  enum { LEAST = 8, PARTS = 24 };
  Prog *p = f->prog;
  RtDiags before = p->diags;
  const char *list = NULL;
  p->recomputes = true;
  for (int64_t part = LEAST; part <= PARTS; part++) {
    p->arena_limit = part < PARTS ? like->stats.peak_bytes * part / PARTS : 0;
    bool ok = ir_run_passes(f, list, NULL, NULL), is_limit = false;
    for (uint32_t k = before.n; k < p->diags.n; k++) is_limit |= p->diags.list[k].id == E_ARENA_LIMIT;
    p->arena_limit = 0;
    shared->n.within += ok && part < PARTS;
    if (!is_limit) return ok;
    p->diags.n = before.n, p->diags.n_errors = before.n_errors;
    *f = *f->unordered, list = ir_pass_list(p->mem, PASS_fuse, N_PASSES - 1);
  }
  return false;
}

// Runs the passes on every function; keep[k]: it went through. false: one was refused without a reason.
static bool run_all_passes(Prog *p, const char *list, const Prog *like, bool *keep) {
  cg_plan_for(p, &target), p->guarded_arena = is_hostile;
  // else no parameter here is large enough for the kernel of a product, and no arena for another order of kernels
  if (shared->seed % 2) p->target.update_bytes = 64, p->target.step_bytes = 0;
  for (uint32_t k = 0; k < p->n_fns; k++) {
    uint32_t from = p->diags.n;
    bool writes = false;
    for (uint32_t i = 1; i < p->fns[k]->n_ins; i++) writes |= p->fns[k]->ins[i].op == OP_write;
    shared->function = k;
    bool less = like && shared->seed % 3 == 1 && k < like->n_fns;
    keep[k] = less ? run_passes_with_less(p->fns[k], like->fns[k]) : ir_run_passes(p->fns[k], list, NULL, NULL);
    if (keep[k]) continue;
    shared->n.skipped++;
    if (may_refuse(&p->diags, from, writes)) continue;
    fail(REJECTED, "@%s: E%u %s", ir_text(p, p->fns[k]->name), p->diags.list[from].id, p->diags.list[from].text);
    shared->id = p->diags.list[from].id;
    return false;
  }
  return true;
}

static const char *only(RtArena *mem, const char *text, const bool *keep) {
  Prog *p = parse(mem, text);
  if (!p) return NULL;
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (keep[k]) p->fns[n++] = p->fns[k];
  p->n_fns = n;
  return print(mem, p);
}

// Neither a limit nor checkpoints
static bool plans_freely(void) { return no_code || foreign || shared->seed % 3 == 0; }

// Every third program has checkpoints: two stretches, and one within the first.
static void mark_checkpoints(Prog *p) {
  if (shared->seed % 3 != 2) return;
  for (uint32_t k = 0; k < p->n_fns; k++) {
    Fn *f = p->fns[k];
    uint32_t outer = ir_checkpoint_add(p, "outer", 0, f->loc), inner = ir_checkpoint_add(p, "inner", outer, f->loc);
    uint32_t next = ir_checkpoint_add(p, "next", 0, f->loc), n = f->n_ins;
    for (uint32_t i = n / 16; i < n / 2; i++) {
      uint32_t c = i >= n / 4 ? next : i >= n / 8 && i < n / 6 ? inner : outer;
      f->ins[i].loc = ir_loc_within(p, f->ins[i].loc, c);
    }
  }
}

static bool compile(Prog *p, RtArena *mem, TrialCode *c) {
  RtText why = {.mem = mem};
  if (!ir_plan_program_memory(p)) return fail(REJECTED, "placement of the program");
  bool ok =
      no_code || (foreign ? trial_compile_for(foreign, p, mem, c, &why) : trial_compile(p, &target, mem, c, &why));
  return ok || fail(CODEGEN, "%s", why.text ? why.text : "");
}

static bool test_compiled(RtArena *mem, const char *text) {
  Prog *written = parse(mem, text), *plain = parse(mem, text), *p = parse(mem, text);
  Prog *unfolded = parse(mem, text), *free_plan = plans_freely() ? NULL : parse(mem, text);
  if (!written || !plain || !p || !unfolded || !ir_select_rules(unfolded, "-fold_constants")) return false;
  uint32_t n = p->n_fns;
  if (!n) return true;  // all were refused
  mark_checkpoints(p);
  Fn **variants = rt_alloc(mem, (n + 1) * sizeof *variants);
  bool *keep = rt_alloc(mem, 2 * n + 1);
  for (uint32_t k = 0; k < n; k++) variants[k] = variant_of(p->fns[k], trial_data(written->fns[k], 0, mem).slots, mem);
  if (!run_all_passes(plain, ir_pass_list(mem, 0, PASS_grad), NULL, keep) ||
      !run_all_passes(unfolded, NULL, NULL, keep) || !run_all_passes(p, NULL, unfolded, keep))
    return false;
  for (uint32_t k = 0; k < p->n_fns; k++)
    for (uint32_t i = 0; i < p->fns[k]->n_kernels; i++) {
      bool again = p->fns[k]->kernels[i].again;
      *(shared->seed % 3 == 2 ? &shared->n.by_checkpoints : &shared->n.again) += again;
    }
  TrialCode c = {0}, free_code = {0};
  shared->function = UINT32_MAX;
  if (!compile(p, mem, &c)) return false;
  if (free_plan && !(run_all_passes(free_plan, NULL, NULL, keep) && compile(free_plan, mem, &free_code))) return false;
  bool ok = true;
  for (uint32_t k = 0; ok && k < n; k++) {
    shared->function = k;
    ok = test_function(&(Function){.written = written->fns[k],
                                   .plain = plain->fns[k],
                                   .f = p->fns[k],
                                   .optimised = unfolded->fns[k],
                                   .variant = variants[k],
                                   .free = free_plan ? free_plan->fns[k] : NULL,
                                   .code = &c,
                                   .free_code = &free_code});
    shared->n.functions += ok;
  }
  if (!no_code) trial_free(&c);
  if (free_plan) trial_free(&free_code);
  return ok;
}

static bool test_text(const char *text) {
  RtArena *mem = rt_arena_new();
  Prog *p = parse(mem, text);
  bool ok = p != NULL;
  if (ok && strcmp(print(mem, p), text)) ok = fail(TEXT, "printing what was parsed gives another text");
  bool *keep = rt_alloc(mem, ok ? p->n_fns + 1 : 1);
  ok = ok && run_all_passes(p, NULL, NULL, keep);
  const char *rest = ok ? only(mem, text, keep) : NULL;
  ok = ok && rest && test_compiled(mem, rest);
  shared->n.programs += ok;
  rt_arena_free(mem);
  return ok;
}

// ---- child processes
static void start_child(void) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem};
  if (machine) {
    target = *cg_target_find(machine), target.without_blas = true;
    if (!(foreign = foreign_open(&target, &why))) exit(2);
  } else if (!cg_target_host(&target, &(RtText){.mem = mem})) exit(2);
  for (uint32_t n = 1; n <= MAX_WORKERS; n++) rt_team_fix(teams[n] = rt_team_new(n));
}

static Verdict wait_for(pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child) return CRASH;
  if (WIFSIGNALED(status)) {
    snprintf(shared->message, sizeof shared->message, "signal %d%s", WTERMSIG(status),
             WTERMSIG(status) == SIGALRM ? ": too long" : "");
    return shared->verdict = CRASH;
  }
  if (WEXITSTATUS(status) > 1) {  // a sanitizer's report, or no target
    snprintf(shared->message, sizeof shared->message, "status %d", WEXITSTATUS(status));
    return shared->verdict = CRASH;
  }
  return shared->verdict;
}

static Verdict verdict_on(const char *text, bool quiet) {
  shared->verdict = FINE;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (quiet && !freopen("/dev/null", "w", stderr)) _exit(1);
    alarm(60);
    start_child();
    test_text(text);
    foreign_close(foreign);
    _exit(0);
  }
  return wait_for(child);
}

// ---- shrinking: an edit of the text that fails in the same way takes its place
typedef struct {
  RtArena *mem;
  const char *text;
  Verdict verdict;
  uint32_t id, tries;
  const char *said;  // the message's kind; NULL: messages of this verdict are numbers
  double end;        // what takes longer is printed as small as it is
} Shrink;

// What a message says, without names of values and functions and without numbers: an edit changes those.
static const char *kind_of_message(RtArena *mem, Verdict v, const char *message) {
  if (v != REJECTED && v != INTERPRETER && v != CODEGEN && v != SIZES && v != TEXT && v != CRASH) return NULL;
  RtText out = {.mem = mem};
  for (const char *c = message; *c;) {
    size_t name = *c == '%' || *c == '@' ? strcspn(c, " ,:;)") : strspn(c, "-0123456789");
    if (!name) rt_text_put(&out, c, 1);
    c += name ? name : 1;
  }
  return out.text ? out.text : "";
}

enum { MAX_TRIES = 1500, MAX_SECONDS = 60 };

static bool try_text(Shrink *s, const char *text) {
  if (!text || !strcmp(text, s->text) || s->tries++ > MAX_TRIES || rt_now_s() > s->end) return false;
  if (verdict_on(text, true) != s->verdict || shared->id != s->id) return false;
  const char *said = kind_of_message(s->mem, s->verdict, shared->message);
  if (said && strcmp(said, s->said)) return false;
  s->text = text;
  return true;
}

static bool drop_functions(Shrink *s) {
  Prog *p = parse(s->mem, s->text);
  bool any = false, *keep = rt_alloc(s->mem, p->n_fns + 1);
  for (uint32_t only_one = 0; p->n_fns > 1 && only_one < p->n_fns; only_one++) {
    uint32_t k = (shared->function + only_one) % p->n_fns;
    memset(keep, 0, p->n_fns);
    keep[k] = true;
    if (try_text(s, only(s->mem, s->text, keep))) return true;
  }
  memset(keep, 1, p->n_fns);
  for (uint32_t k = 0; p->n_fns > 1 && k < p->n_fns; k++) {  // two of them together
    keep[k] = false;
    if (try_text(s, only(s->mem, s->text, keep))) return true;
    keep[k] = true;
  }
  return any;
}

typedef enum {
  CUT_OUT /* an effect or output goes */,
  BY_OPERAND,
  BY_INPUT,
  CUT_MARKS,
  NO_EDIT /* what nobody needs goes */
} EditKind;

// What outputs and effects need.
static bool *find_live(const Fn *f, RtArena *mem, EditKind kind, uint32_t at) {
  bool *live = rt_alloc(mem, f->n_ins);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    const Ins *ins = &f->ins[i];
    bool effect = (ir_ops[ins->op].flags & EFFECT) && ins->op != OP_input && !is_mark(ins);
    if (effect && !(kind == CUT_OUT && at == i)) live[i] = true;
    if (!live[i] || (kind == BY_INPUT && i == at)) continue;
    if (ins->op == OP_result) live[ir_head(f, (Val){i}).i] = true;
    for (uint32_t k = 0; k < ins->n_args; k++) live[ir_arg(f, (Val){i}, k).i] = true;
  }
  return live;
}

static void renumber(Fn *f) {
  Prog *p = f->prog;
  uint32_t n_in = 0, n_out = 0, n_params = 0, *to = rt_alloc(p->mem, (p->n_params + 1) * sizeof *to);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    for (uint32_t k = 0; k < ins->n_attrs; k++) {
      Attr *a = &f->attrs[ins->attrs + k];
      if (a->key == KEY_index && ins->op == OP_input) a->u.i = n_in++;
      if (a->key == KEY_index && ins->op == OP_output) a->u.i = n_out++;
      if (a->key == KEY_param) to[a->u.i] = 1;
    }
  }
  for (uint32_t k = 0; k < p->n_params; k++) {
    if (!to[k]) continue;
    p->params[n_params] = p->params[k];
    to[k] = n_params++;
  }
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < f->ins[i].n_attrs; k++)
      if (f->attrs[f->ins[i].attrs + k].key == KEY_param)
        f->attrs[f->ins[i].attrs + k].u.i = to[f->attrs[f->ins[i].attrs + k].u.i];
  p->n_params = n_params, f->n_inputs = n_in, f->n_outputs = n_out;
}

static Val same_type_operand(const Fn *f, const Rewrite *e, uint32_t at, uint32_t which) {
  const Ins *ins = &e->old[at];
  if (which >= ins->n_args) return (Val){0};
  Val a = f->args[ins->args + which];
  return e->old[a.i].shape.i == ins->shape.i && e->old[a.i].dtype == ins->dtype ? e->map[a.i] : (Val){0};
}

static const char *edited(RtArena *mem, const char *text, EditKind kind, uint32_t at, uint32_t which) {
  Prog *p = parse(mem, text);
  if (!p || p->n_fns != 1) return NULL;
  Fn *f = p->fns[0];
  bool at_one = kind == CUT_OUT || kind == BY_OPERAND || kind == BY_INPUT;
  if (at >= f->n_ins || (at_one && f->ins[at].op == OP_input) ||
      (at_one && f->ins[at].op == OP_result && kind != BY_INPUT))
    return NULL;
  bool *live = find_live(f, mem, kind, at);
  Rewrite e;
  f->cur_scope = 0;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    const Ins *ins = &e.old[i];
    bool writes = ir_ops[ins->op].flags & WRITES;
    if (kind == BY_INPUT && i == at) {
      if (ins->dtype == DT_LAYOUT || ins->op == OP_output || is_mark(ins)) return NULL;
      uint32_t n = f->n_inputs;
      e.map[i] = ir_input(f, rt_printf(mem, "cut%u_%u", i, n), (DType)ins->dtype, ins->shape, ins->loc);
      continue;
    }
    if (ins->op == OP_result) continue;
    if (kind == BY_OPERAND && i == at) {
      e.map[i] = same_type_operand(f, &e, i, which);
      if (ir_none(e.map[i]) || ins->op == OP_output) return NULL;
      continue;
    }
    if (kind == CUT_OUT && i == at) {
      for (uint32_t k = 0; writes && k < ins->n_res; k++) e.map[i + k] = e.map[f->args[ins->args + k].i];
      continue;
    }
    bool any = live[i];
    for (uint32_t k = 1; k < ins->n_res; k++) any |= live[i + k];
    if (is_mark(ins)) any = kind != CUT_MARKS && (!ins->n_args || live[f->args[ins->args].i]);
    if (!any) continue;
    ir_rewrite_copy(&e, (Val){i});
  }
  ir_rewrite_end(&e);
  if (kind == CUT_MARKS) {
    for (uint32_t i = 1; i < f->n_ins; i++) f->ins[i].scope = 0;
    f->n_scopes = 1;
  }
  renumber(f);
  return print(mem, p);
}

static bool drop_instructions(Shrink *s) {
  bool any = try_text(s, edited(s->mem, s->text, NO_EDIT, 1, 0));
  any |= try_text(s, edited(s->mem, s->text, CUT_MARKS, 1, 0));
  uint32_t n = parse(s->mem, s->text)->fns[0]->n_ins;
  for (uint32_t i = n; i-- > 1;) {
    bool done = try_text(s, edited(s->mem, s->text, CUT_OUT, i, 0));
    for (uint32_t k = 0; !done && k < 3; k++) done = try_text(s, edited(s->mem, s->text, BY_OPERAND, i, k));
    done = done || try_text(s, edited(s->mem, s->text, BY_INPUT, i, 0));
    any |= done;
  }
  return any;
}

// Every number `from` in brackets, or the bound of a dim, becomes `to`.
static const char *resized(RtArena *mem, const char *text, long from, long to, bool bounds) {
  RtText out = {.mem = mem};
  int depth = 0;
  for (const char *c = text; *c;) {
    depth += (*c == '[') - (*c == ']');
    bool starts = *c >= '0' && *c <= '9' && (c == text || !strchr("0123456789abcdefghijklmnopqrstuvwxyz_.%-", c[-1]));
    char *end;
    long v = starts ? strtol(c, &end, 10) : 0;
    bool in_bound = c > text + 3 && !strncmp(c - 3, "<= ", 3);
    if (starts && v == from && !strchr("_.abcdefghijklmnopqrstuvwxyz", *end) && (bounds ? in_bound : depth > 0)) {
      rt_text_add(&out, "%ld", to);
      c = end;
    } else rt_text_put(&out, c++, 1);
  }
  return out.text;
}

static bool shrink_sizes(Shrink *s) {
  bool any = false;
  for (long from = 100; from > 1; from--)
    for (int bounds = 0; bounds < 2; bounds++) {
      long smaller_size[] = {1, 2, 3, from / 2, from - 1};
      for (int k = 0; k < 5; k++) {
        long to = smaller_size[k];
        if (to < 1 || to >= from) continue;
        RtArena *mem = rt_arena_new();
        const char *text = resized(mem, s->text, from, to, bounds);
        RtDiags diags = {.mem = mem};
        bool parses = text && strcmp(text, s->text) && ir_parse(mem, text, strlen(text), "", &diags);
        text = parses ? rt_strdup(s->mem, text) : NULL;
        rt_arena_free(mem);
        if (text && try_text(s, text)) {
          any = true;
          break;
        }
      }
    }
  return any;
}

static void shrink(Shrink *s) {
  drop_functions(s);
  if (parse(s->mem, s->text)->n_fns != 1) return;
  for (int round = 0; round < 6; round++) {
    bool any = drop_instructions(s);
    any |= shrink_sizes(s);
    if (!any) return;
  }
}

// Dims that nothing names any more.
static void drop_dims(Shrink *s) {
  Prog *p = parse(s->mem, s->text);
  for (uint32_t k = 0; k < p->n_syms; k++) {
    const DimInfo *d = ir_dim_info(p, p->syms[k]);
    const char *row = rt_printf(s->mem, "%s <= %lld", ir_text(p, d->name), (long long)d->value),
               *at = strstr(s->text, row);
    if (!at) continue;
    const char *end = at + strlen(row), *from = at;
    if (*end == ',') end += 2;
    else if (from[-2] == ',') from -= 2;
    else from -= 4, end++;
    const char *text = rt_printf(s->mem, "%.*s%s", (int)(from - s->text), s->text, end);
    RtDiags diags = {.mem = s->mem};
    if (ir_parse(s->mem, text, strlen(text), "", &diags)) try_text(s, text);
  }
}

static void report(uint64_t seed, uint32_t n_functions, const char *text) {
  RtArena *mem = rt_arena_new();
  Shrink s = {mem,
              text,
              shared->verdict,
              shared->id,
              0,
              kind_of_message(mem, shared->verdict, shared->message),
              rt_now_s() + MAX_SECONDS};
  if (!text) s.text = program_text(mem, seed, n_functions);
  printf("seed %llu: %s: %s\n", (unsigned long long)seed, verdict_text[s.verdict], shared->message);
  fflush(stdout);
  uint32_t function = shared->function;
  if (verdict_on(s.text, true) != s.verdict) {
    printf("  it does not happen again\n");
  } else {
    if (shared->function == UINT32_MAX) shared->function = function == UINT32_MAX ? 0 : function;
    shrink(&s);
    drop_dims(&s);
    verdict_on(s.text, false);
    printf("// seed %llu: %s: %s (%u attempts)\n%s\n", (unsigned long long)seed, verdict_text[s.verdict],
           shared->message, s.tries, s.text);
  }
  fflush(stdout);
  rt_arena_free(mem);
}

// ---- the loop
// Tests programs of rising seeds until one fails or time is up.
static void run_child(uint64_t last, uint32_t n_functions, double end) {
  start_child();
  for (; shared->seed < last && rt_now_s() < end; shared->seed++) {
    RtArena *mem = rt_arena_new();
    shared->function = UINT32_MAX;
    alarm(120);
    const char *text = program_text(mem, shared->seed, n_functions);
    bool ok = test_text(text);
    rt_arena_free(mem);
    if (!ok) break;
  }
  foreign_close(foreign);
  _exit(shared->verdict != FINE);
}

// seed: how it is planned
static int run_file(const char *path, uint64_t seed) {
  FILE *in = fopen(path, "rb");
  static char text[1 << 20];
  if (!in) return 2;
  text[fread(text, 1, sizeof text - 1, in)] = 0;
  fclose(in);
  RtArena *mem = rt_arena_new();
  Prog *p = parse(mem, text);
  shared->seed = seed;
  if (p) verdict_on(print(mem, p), false);
  printf("seed %llu: %s: %s\n", (unsigned long long)seed, verdict_text[shared->verdict], shared->message);
  rt_arena_free(mem);
  return shared->verdict != FINE;
}

// ---- options
static const char *const with_number[] = {"--count", "--seed", "--minutes", "--functions"};
static const char *const alone[] = {"--go-on", "--no-code", "--chains", "--calls", "--print"};

static bool is_one_of(const char *arg, const char *const *list, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!strcmp(arg, list[k])) return true;
  return false;
}
#define IS_ONE_OF(arg, list) is_one_of(arg, list, sizeof(list) / sizeof *(list))

static bool is_number(const char *text) { return *text && text[strspn(text, "0123456789")] == 0; }

// What the option at hand takes, itself included; 0: nobody knows it, or it has nothing to take.
static int taken_by(int left, char **argv) {
  if (IS_ONE_OF(argv[0], alone)) return 1;
  if (left < 2) return 0;
  if (!strcmp(argv[0], "--file")) return left;
  return !strcmp(argv[0], "--on") || (IS_ONE_OF(argv[0], with_number) && is_number(argv[1])) ? 2 : 0;
}

static bool options_are_known(int argc, char **argv) {
  for (int k = 1, taken; k < argc; k += taken) {
    taken = taken_by(argc - k, argv + k);
    if (taken) continue;
    fprintf(stderr,
            "test_random: '%s' is no option, or has no value\n"
            "usage: test_random [--count N] [--seed S] [--minutes M] [--functions F] [--go-on] [--no-code]\n"
            "                   [--chains | --calls] [--print] [--on TARGET] [--file X.tir ..]\n",
            argv[k]);
    return false;
  }
  return true;
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t absent) {
  for (int k = 1; k + 1 < argc; k++)
    if (!strcmp(argv[k], name)) return strtoull(argv[k + 1], NULL, 10);
  return absent;
}

static bool flag(int argc, char **argv, const char *name) {
  for (int k = 1; k < argc; k++)
    if (!strcmp(argv[k], name)) return true;
  return false;
}

// Is there what runs the programs of another machine?
static int open_machine(const char *name) {
  RtArena *mem = rt_arena_new();
  RtText why = {.mem = mem};
  const Target *row = cg_target_find(name);
  Foreign *m = row ? foreign_open(row, &why) : NULL;
  if (!row) cg_target_unknown(name, &why);
  if (!m) printf("%s%s\n", row ? "skipped: " : "", why.text);
  int status = m ? 0 : row ? FOREIGN_SKIPPED : 2;
  machine = name;
  foreign_close(m);
  rt_arena_free(mem);
  return status;
}

// All that follow the option
static int run_files(int argc, char **argv, int at) {
  enum { N_PLANS = 3 };  // free, within a limit, with checkpoints
  int status = 0;
  uint64_t none = UINT64_MAX, seed = option(argc, argv, "--seed", none);
  for (int k = at; k < argc; k++)
    if (seed != none) status |= run_file(argv[k], seed);
    else
      for (uint64_t plan = 0; plan < N_PLANS; plan++) status |= run_file(argv[k], plan);
  return status;
}

static double percent(uint64_t part, uint64_t whole) { return whole ? 100 * (double)part / (double)whole : 0; }

static bool sees_enough(void) {
  if (MOST_NO_RUN * shared->n.no_run > shared->n.runs) return false;
  if (shared->n.functions < LEAST_FUNCTIONS) return true;
  if (percent(shared->n.sharp, shared->n.values) < LEAST_SHARP) return false;
  return percent(shared->n.open, shared->n.values) <= MAX_OPEN && percent(shared->n.blind, shared->n.runs) <= MAX_OPEN;
}

static void print_counts(uint32_t n_failed, double seconds) {
  printf(
      "%llu functions in %llu programs, %llu values: %.1f %% held to 1e-4 of themselves, %.2f %% passed over, most in "
      "%.2f %% of the runs\n",
      (unsigned long long)shared->n.functions, (unsigned long long)shared->n.programs,
      (unsigned long long)shared->n.values, percent(shared->n.sharp, shared->n.values),
      percent(shared->n.open, shared->n.values), percent(shared->n.blind, shared->n.runs));
  if (shared->n.no_run) printf("%llu runs on which the emulator failed\n", (unsigned long long)shared->n.no_run);
  printf("%llu draws of sizes refused; %llu functions within limits with %llu kernels that run again, %llu by "
         "checkpoints; "
         "bits of %llu runs compared with those of plans with neither\n",
         (unsigned long long)shared->n.refused, (unsigned long long)shared->n.within,
         (unsigned long long)shared->n.again, (unsigned long long)shared->n.by_checkpoints,
         (unsigned long long)shared->n.compared);
  printf("%llu refused for old versions; bars widened %llu times; %llu slopes, %llu of gradients; %u failed; %.0f s, "
         "%.1f a second\n",
         (unsigned long long)shared->n.skipped, (unsigned long long)shared->n.loose,
         (unsigned long long)shared->n.slopes, (unsigned long long)shared->n.nested, n_failed, seconds,
         (double)shared->n.functions / seconds);
  if (!sees_enough())
    printf("too little is seen: at least %d %% are to be held, at most %d %% passed over, the emulator may fail on one "
           "run of %d\n",
           LEAST_SHARP, MAX_OPEN, MOST_NO_RUN);
}

int main(int argc, char **argv) {
  if (!options_are_known(argc, argv)) return 2;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  is_hostile = getenv("TN_CHECK") && !strcmp(getenv("TN_CHECK"), "arena");
  for (int k = 1; k + 1 < argc; k++) {
    int status = strcmp(argv[k], "--on") ? 0 : open_machine(argv[k + 1]);
    if (status) return status;
  }
  no_code = flag(argc, argv, "--no-code");
  drawn = flag(argc, argv, "--chains") ? RANDOM_CHAINS : flag(argc, argv, "--calls") ? RANDOM_CALLS : RANDOM_ALL;
  for (int k = 1; k + 1 < argc; k++)
    if (!strcmp(argv[k], "--file")) return run_files(argc, argv, k + 1);
  uint32_t n_functions = (uint32_t)option(argc, argv, "--functions", 20), n_failed = 0;
  if (flag(argc, argv, "--print")) {
    RtArena *mem = rt_arena_new();
    fputs(program_text(mem, option(argc, argv, "--seed", 1), n_functions), stdout);
    rt_arena_free(mem);
    return 0;
  }
  double start = rt_now_s(), minutes = (double)option(argc, argv, "--minutes", 0);
  uint64_t count = option(argc, argv, "--count", minutes > 0 ? UINT64_MAX / 2 : 200),
           first = option(argc, argv, "--seed", 1);
  uint64_t last = first + (count + n_functions - 1) / n_functions;
  double end = start + (minutes > 0 ? minutes * 60 : 1e9);
  for (shared->seed = first; shared->seed < last && rt_now_s() < end; shared->seed++) {
    shared->verdict = FINE;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) run_child(last, n_functions, end);
    if (wait_for(child) == FINE) break;
    n_failed++;
    Shared before = *shared;  // what shrinking runs is not counted
    report(before.seed, n_functions, NULL);
    *shared = before;
    if (!flag(argc, argv, "--go-on")) break;
  }
  print_counts(n_failed, rt_now_s() - start);
  bool is_fine = n_failed == 0 && sees_enough();
  munmap(shared, sizeof *shared);
  return !is_fine;
}
