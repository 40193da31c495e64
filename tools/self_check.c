#include "tools/self_check.h"
#include "codegen/kernels.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "ir/verify.h"

#include "ir/interp/interp.h"
#include "tools/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_BARS = 3, N_MORE_BARS = 60, MOST_SECONDS = 300 };
static const double noise = 1e-6;  // 8 roundings' worth

// Outputs, then parameters.
typedef struct {
  Tensor *t;
  uint32_t n_out, n;
} Results;

// Inputs, parameters and sizes of one function.
typedef struct {
  const Fn *f;
  tn_array *in;
  Tensor *in_values, *params;
  int64_t *slots;  // bounds
} Data;

// What a function gives, and how far noise moves it.
typedef struct {
  Results exact;
  double **dev;    // by result and element; infinite where noisy runs disagree about what is finite
  int64_t *slots;  // sizes that the run found, of layouts too
  uint32_t n_runs;
} Bars;

typedef struct {
  const SelfCheck *c;
  Finding *found;  // shared with the parent
  RtArena *mem;
  Data data;
  Bars bars;
  Fn *reference;  // a copy of the function that the bars are of; NULL: none is interpretable so far
  bool differs;
} Check;

static Finding *shared;

static bool fail(Check *k, CheckVerdict v, const char *fmt, ...) RT_PRINTF(3, 4);
static bool fail(Check *k, CheckVerdict v, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(k->found->why, sizeof k->found->why, fmt, ap);
  va_end(ap);
  k->found->verdict = v;
  return false;
}

static void note_pass(Check *k, const char *name) { snprintf(k->found->pass, sizeof k->found->pass, "%s", name); }

static bool fail_diags(Check *k, CheckVerdict v, const RtDiags *d) {
  const RtDiag *first = NULL;
  for (uint32_t i = 0; i < d->n && !first; i++)
    if (d->list[i].severity == RT_ERROR) first = &d->list[i];
  k->found->id = first ? first->id : 0;
  return fail(k, v, "%s", first ? first->text : "an error without a diagnostic");
}

// ---- data
// Compiled, `init` gives parameters their first values, and is no function that is called.
static bool is_init(const Fn *f) { return !strcmp(ir_text(f->prog, f->name), "init") && !f->n_inputs && !f->n_outputs; }

static void make_input(Check *k, Val v, int64_t spread) {
  const Fn *f = k->data.f;
  const Ins *ins = ir_ins(f, v);
  uint32_t at = (uint32_t)ir_attr_int(f, v, KEY_index, 0);
  tn_array *a = &k->data.in[at];
  *a = (tn_array){.dtype = (tn_dtype)ins->dtype, .rank = ir_rank(f->prog, ins->shape)};
  for (uint32_t d = 0; d < a->rank; d++)
    a->dims[d] = ir_dim_eval(f->prog, ir_dim_at(f->prog, ins->shape, d), k->data.slots);
  a->data = rt_alloc(k->mem, (size_t)array_elements(a) * 8 + 8);
  Drawn d = {.spread = spread, .seed = k->c->seed};
  d.n_ranges = ir_draw_ranges(k->mem, f, k->data.slots, at, &d.ranges);
  array_fill_random(a, &d, at);
  k->data.in_values[at] = array_tensor(k->mem, a);
}

static void make_inputs(Check *k, int64_t spread) {
  for (uint32_t i = 1; i < k->data.f->n_ins; i++)
    if (k->data.f->ins[i].op == OP_input) make_input(k, (Val){i}, spread);
}

// Weights of both signs; state and buffers, such as second moments, are not negative; counters and rates are 1.
static Tensor make_param(Check *k, const Fn *f, uint32_t at) {
  const Param *q = &f->prog->params[at];
  Tensor t = {.n = ir_shape_bound(f->prog, q->shape)};
  t.v = rt_alloc(k->mem, (size_t)t.n * sizeof *t.v + 8);
  for (int64_t i = 0; i < t.n; i++) {
    double x = (float)(0.1 * ir_philox_normal(k->c->seed, 0, f->n_inputs + at, (uint64_t)i));
    bool is_one = q->dtype == DT_I64 || (q->kind != PARAM_WEIGHT && t.n == 1);
    t.v[i] = is_one ? 1 : q->kind == PARAM_WEIGHT ? x : fabs(x);
  }
  return t;
}

static bool interpret(const Check *k, const Fn *f, double with_noise, uint64_t key, RtArena *mem, Results *out,
                      int64_t **slots, RtText *why);

// First values as the program's function `init` gives them, where it has one: learning rates and counters are what they
// should be then. Weights that it leaves 0 stay as they were made up.
static void run_init(Check *k, Prog *p) {
  Fn *f = ir_fn_find(p, "init");
  RtText why = {.mem = k->mem};
  Results r;
  if (!f || !is_init(f) || !ir_run_passes(f, ir_pass_list(k->mem, 0, PASS_grad), NULL, NULL)) return;
  for (uint32_t q = 0; q < p->n_params; q++)
    if (p->params[q].kind != PARAM_WEIGHT) memset(k->data.params[q].v, 0, (size_t)k->data.params[q].n * sizeof(double));
  if (!interpret(k, f, 0, 0, k->mem, &r, NULL, &why)) return;
  for (uint32_t q = 0; q < p->n_params; q++) k->data.params[q] = r.t[r.n_out + q];
}

// false: the bounds are no sizes of a run.
static bool make_data(Check *k, Fn *f) {
  const Prog *p = f->prog;
  k->data = (Data){.f = f,
                   .in = rt_alloc(k->mem, (f->n_inputs + 1) * sizeof *k->data.in),
                   .in_values = rt_alloc(k->mem, (f->n_inputs + 1) * sizeof(Tensor)),
                   .params = rt_alloc(k->mem, (p->n_params + 1) * sizeof(Tensor)),
                   .slots = rt_alloc(k->mem, (p->n_syms + 1) * sizeof(int64_t))};
  for (uint32_t s = 0; s < p->n_syms; s++) k->data.slots[s] = ir_dim_bound(p, p->syms[s]);
  const SizeCheck *negative = ir_find_size_checks(f) ? ir_negative_size(f, k->data.slots) : NULL;
  if (negative) return fail(k, CHECK_REFUSED, "by the bounds %s is below 0", negative->what);
  make_inputs(k, ir_draw_spreads[0]);
  for (uint32_t q = 0; q < p->n_params; q++) k->data.params[q] = make_param(k, f, q);
  if (!is_init(f)) run_init(k, f->prog);
  return true;
}

// ---- interpreting
static bool is_interpretable(const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    EvalOp *eval = ir_eval_of[f->ins[i].op];
    if (eval == eval_grad_of || eval == eval_write || eval == eval_scan_mark) return false;
  }
  return true;
}

static bool interpret(const Check *k, const Fn *f, double with_noise, uint64_t key, RtArena *mem, Results *out,
                      int64_t **slots, RtText *why) {
  const Prog *p = f->prog;
  *out = (Results){rt_alloc(mem, (f->n_outputs + p->n_params + 1) * sizeof(Tensor)), f->n_outputs,
                   f->n_outputs + p->n_params};
  InterpEnv env = {.in = k->data.in_values,
                   .out = out->t,
                   .params = out->t + f->n_outputs,
                   .seed = k->c->seed,
                   .counter = 1,
                   .mem = mem,
                   .noise = with_noise,
                   .noise_state = key};
  env.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof(int64_t));
  memcpy(env.slots, k->data.slots, p->n_syms * sizeof(int64_t));
  for (uint32_t q = 0; q < p->n_params; q++) {
    env.params[q] =
        (Tensor){.v = rt_alloc(mem, (size_t)k->data.params[q].n * sizeof(double) + 8), .n = k->data.params[q].n};
    memcpy(env.params[q].v, k->data.params[q].v, (size_t)env.params[q].n * sizeof(double));
  }
  if (slots) *slots = env.slots;
  return ir_interpret(f, &env, why);
}

// ---- error bars
static void widen(Bars *b, const Results *r) {
  for (uint32_t k = 0; k < r->n; k++)
    for (int64_t i = 0; i < r->t[k].n && i < b->exact.t[k].n; i++) {
      double x = b->exact.t[k].v[i], y = r->t[k].v[i];
      if (isfinite(x) && isfinite(y)) b->dev[k][i] = fmax(b->dev[k][i], fabs(x - y));
      else if (!(isnan(x) && isnan(y)) && x != y) b->dev[k][i] = INFINITY;
    }
}

static bool add_bars(Check *k, uint32_t n) {
  for (uint32_t end = k->bars.n_runs + n; k->bars.n_runs < end; k->bars.n_runs++) {
    RtArena *mem = rt_arena_new();
    RtText why = {.mem = mem};
    Results r;
    bool ok = interpret(k, k->reference, noise, 1 + k->bars.n_runs, mem, &r, NULL, &why);
    if (ok) widen(&k->bars, &r);
    else fail(k, CHECK_PASS_FAILS, "the interpreter: %s", why.text ? why.text : "");
    rt_arena_free(mem);
    if (!ok) return false;
  }
  return true;
}

// The function as it is now, in a program of its own: later passes rewrite this one.
static Fn *copy_of(Check *k, const Fn *f) {
  RtText text = {.mem = k->mem};
  RtDiags diags = {.mem = k->mem};
  ir_print(f->prog, &text, 0);
  Prog *p = ir_parse(k->mem, text.text, text.len, k->c->path, &diags);
  return p ? ir_fn_find(p, ir_text(f->prog, f->name)) : NULL;
}

// What the function takes, as the interpreter sees it: the inputs with the widest spread that it does not refuse.
static bool find_inputs(Check *k, RtText *why) {
  for (uint32_t s = 0; s < DRAW_N_SPREADS; s++) {
    if (s) make_inputs(k, ir_draw_spreads[s]);
    if (k->found->n_draws <= s) k->found->n_draws = s + 1;
    if (interpret(k, k->reference, 0, 0, k->mem, &k->bars.exact, &k->bars.slots, s ? &(RtText){.mem = k->mem} : why))
      return true;
  }
  note_pass(k, "");
  return fail(k, CHECK_NO_INPUTS, "the interpreter: %s", why->text ? why->text : "");
}

static bool take_reference(Check *k, const Fn *f) {
  RtText why = {.mem = k->mem};
  if (!is_interpretable(f)) return true;
  k->reference = copy_of(k, f);
  if (!k->reference) return fail(k, CHECK_PASS_FAILS, "the text of the function does not read back");
  k->bars = (Bars){0};
  if (!find_inputs(k, &why)) return false;
  k->bars.dev = rt_alloc(k->mem, (k->bars.exact.n + 1) * sizeof *k->bars.dev);
  for (uint32_t r = 0; r < k->bars.exact.n; r++)
    k->bars.dev[r] = rt_alloc(k->mem, ((size_t)k->bars.exact.t[r].n + 1) * sizeof(double));
  return add_bars(k, N_BARS);
}

static bool find_difference(const Bars *b, const Results *r, double strict, uint32_t *at, int64_t *element) {
  for (uint32_t k = 0; k < r->n; k++)
    for (int64_t i = 0; i < r->t[k].n && i < b->exact.t[k].n; i++) {
      double x = b->exact.t[k].v[i], y = r->t[k].v[i], dev = b->dev[k][i];
      if (isinf(dev) || (isnan(x) && isnan(y)) || x == y) continue;
      if (isfinite(x) && isfinite(y) && fabs(x - y) <= strict * (4 * dev + 1e-6 * fabs(x) + 1e-37)) continue;
      *at = k, *element = i;
      return true;
    }
  return false;
}

// strict: 1 for single precision, far less for doubles. Bars are widened before a difference counts.
static bool agree(Check *k, const Results *r, double strict, CheckVerdict v) {
  uint32_t at;
  int64_t element;
  const Prog *p = k->reference->prog;
  if (!find_difference(&k->bars, r, strict, &at, &element)) return true;
  if (k->bars.n_runs == N_BARS && !add_bars(k, N_MORE_BARS)) return false;
  if (!find_difference(&k->bars, r, strict, &at, &element)) return true;
  bool is_output = at < r->n_out;
  return fail(k, v, "%s %s, element %lld: expected %.9g (+- %.3g), found %.9g", is_output ? "output" : "parameter",
              is_output ? rt_printf(k->mem, "%u", at) : ir_text(p, p->params[at - r->n_out].path), (long long)element,
              k->bars.exact.t[at].v[element], k->bars.dev[at][element], r->t[at].v[element]);
}

// ---- passes
// The name of the pass behind `pass`, in the list or of all.
static const char *next_pass(const Check *k, const char *pass) {
  if (!k->c->passes) {
    for (uint32_t i = 0; i + 1 < ir_n_passes; i++)
      if (!strcmp(ir_passes[i].name, pass)) return ir_passes[i + 1].name;
    return "";
  }
  for (const char *at = k->c->passes; *at; at += strcspn(at, ","), at += *at == ',') {
    size_t n = strcspn(at, ",");
    if (strlen(pass) == n && !memcmp(at, pass, n) && at[n])
      return rt_strndup(k->mem, at + n + 1, strcspn(at + n + 1, ","));
  }
  return "";
}

static void after_pass(Fn *f, const PassInfo *pass, void *ctx) {
  Check *k = ctx;
  if (k->differs) return;
  if (k->c->damage) k->c->damage(f, pass);
  k->found->n_rules = f->prog->n_rule_applications;
  if (!k->reference) {
    k->differs = !take_reference(k, f);
  } else {
    const double of_doubles = 1e-3;
    RtArena *mem = rt_arena_new();
    RtText why = {.mem = mem};
    Results r;
    if (!interpret(k, f, 0, 0, mem, &r, NULL, &why))
      k->differs = !fail(k, CHECK_PASS_FAILS, "the interpreter: %s", why.text ? why.text : "");
    else k->differs = !agree(k, &r, of_doubles, CHECK_PASS_DIFFERS);
    rt_arena_free(mem);
  }
  if (k->differs) return;
  k->found->n_passes++;
  note_pass(k, next_pass(k, pass->name));
}

static void note_rule(const char *text) { snprintf(shared->rule, sizeof shared->rule, "%s", text); }

static Prog *parse(Check *k) {
  RtDiags diags = {.mem = k->mem};
  Prog *p = ir_parse(k->mem, k->c->text, k->c->n, k->c->path, &diags);
  bool ok = p != NULL;
  for (uint32_t i = 0; ok && i < p->n_fns; i++) ok = ir_verify(p->fns[i], &diags);
  if (!ok) fail_diags(k, CHECK_REFUSED, &diags);
  return ok ? p : NULL;
}

static bool check_passes(Check *k, uint32_t function) {
  Prog *p = parse(k), *for_data = parse(k);
  Target target;
  if (!p || !cg_target_host(&target, &(RtText){.mem = k->mem})) return false;
  cg_plan_for(p, &target);
  p->packs_weights = true;
  p->rule_limit = k->c->rule_limit;
  if (k->c->no_rules) p->rules_off = ~UINT64_C(0);
  ir_trace_rules(p, "rule:all", note_rule);
  Fn *f = p->fns[function];
  k->reference = NULL, k->differs = false;
  if (!make_data(k, for_data->fns[function])) return false;
  const char *first = k->c->passes ? rt_strndup(k->mem, k->c->passes, strcspn(k->c->passes, ",")) : ir_passes[0].name;
  note_pass(k, "");
  if (!take_reference(k, f)) return false;
  note_pass(k, first);
  bool ok = ir_run_passes(f, k->c->passes, after_pass, k);
  if (!ok && !k->differs) return fail_diags(k, CHECK_PASS_FAILS, &p->diags);
  return !k->differs;
}

// ---- compiled code
static bool run_code(Check *k, tn_model *m) {
  const Fn *f = k->data.f;
  const Prog *p = f->prog;
  tn_array *out = rt_alloc(k->mem, (f->n_outputs + 1) * sizeof *out);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_output) continue;
    const Ins *from = ir_ins(f, ir_arg(f, (Val){i}, 0));
    tn_array *a = &out[ir_attr_int(f, (Val){i}, KEY_index, 0)];
    *a = (tn_array){.dtype = (tn_dtype)from->dtype, .rank = ir_rank(p, from->shape)};
    for (uint32_t d = 0; d < a->rank; d++) a->dims[d] = ir_dim_eval(p, ir_dim_at(p, from->shape, d), k->data.slots);
    a->data = rt_alloc(k->mem, (size_t)array_elements(a) * 8 + 8);
  }
  for (uint32_t q = 0; q < p->n_params; q++) {
    tn_array a = tn_param_at(m, q);
    for (int64_t i = 0; i < k->data.params[q].n; i++) array_set(&a, i, k->data.params[q].v[i]);
    tn_param_end_write(m, q);
  }
  if (tn_run(m, ir_text(p, f->name), k->data.in, f->n_inputs, out, f->n_outputs))
    return fail(k, CHECK_CODE_FAILS, "%s", tn_error_text(m));
  Results r = {rt_alloc(k->mem, (f->n_outputs + p->n_params + 1) * sizeof(Tensor)), f->n_outputs,
               f->n_outputs + p->n_params};
  for (uint32_t i = 0; i < r.n_out; i++) r.t[i] = array_tensor(k->mem, &out[i]);
  for (uint32_t q = 0; q < p->n_params; q++) {
    tn_array a = tn_param_at(m, q);
    r.t[r.n_out + q] = array_tensor(k->mem, &a);
  }
  return agree(k, &r, 1, CHECK_CODE_DIFFERS);
}

static bool check_code(Check *k) {
  tn_program *p = tn_program_parse(k->c->text, k->c->n, k->c->path);
  tn_model *m = p ? (tn_compile)(p, (tn_compile_options){.cache_dir = "", .seed = k->c->seed, .no_init = true}) : NULL;
  bool ok = m != NULL;
  char report[512] = "";
  FILE *out = ok ? NULL : fmemopen(report, sizeof report - 1, "w");
  if (p && out) tn_report(p, out);
  if (out) fclose(out);
  if (!ok) fail(k, CHECK_CODE_FAILS, "%s", report);
  tn_program_free(p);
  ok = ok && run_code(k, m);
  tn_model_free(m);
  return ok;
}

// ---- a child for all of it
static bool check_all(Check *k) {
  Prog *p = parse(k);
  for (uint32_t f = 0; p && f < p->n_fns; f++) {
    const char *name = ir_text(p, p->fns[f]->name);
    if (k->c->function && strcmp(k->c->function, name)) continue;
    snprintf(k->found->function, sizeof k->found->function, "%s", name);
    if (!check_passes(k, f)) return false;
    note_pass(k, "");
    if (!k->c->passes && k->reference && !is_init(k->data.f) && !check_code(k)) return false;
    k->found->n_functions++;
  }
  return p != NULL;
}

static void run_child(const SelfCheck *c) {
  Check k = {.c = c, .found = shared, .mem = rt_arena_new()};
  jmp_buf no_memory;
  alarm(MOST_SECONDS);
  if (!k.mem || setjmp(no_memory)) _exit(1);
  rt_arena_on_oom(k.mem, &no_memory);
  if (check_all(&k)) k.found->verdict = CHECK_SAME;
  _exit(0);
}

Finding self_check(const SelfCheck *c) {
  int status = 0;
  if (!shared) shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return shared = NULL, (Finding){.verdict = CHECK_CRASH, .why = "no memory"};
  *shared = (Finding){.verdict = CHECK_CRASH};
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) run_child(c);
  if (child < 0 || waitpid(child, &status, 0) != child) snprintf(shared->why, sizeof shared->why, "no child process");
  else if (WIFSIGNALED(status)) {
    shared->verdict = CHECK_CRASH;
    snprintf(shared->why, sizeof shared->why, "signal %d%s", WTERMSIG(status),
             WTERMSIG(status) == SIGALRM ? ": it takes too long" : "");
  } else if (WEXITSTATUS(status)) {
    shared->verdict = CHECK_CRASH;
    snprintf(shared->why, sizeof shared->why, "status %d", WEXITSTATUS(status));
  }
  return *shared;
}
