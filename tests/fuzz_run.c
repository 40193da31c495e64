// Any text that the verifier accepts goes through the passes and runs, in a guarded arena: refused with a sentence, or
// computed without a word from a checker, a guard or a sanitizer. Every program that is small enough is interpreted; of
// a share, chosen by the text, code is generated and run by one worker and by two, which must agree in every bit.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/tir_mutate.h"
#include "tests/trial.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_TEXT = 1 << 14,
  MAX_VALUE = 1 << 16,  // elements
  MAX_WORK = 1 << 23,   // elements times the longest axis that an op may walk for each
  MAX_KERNELS = 24,
  MAX_BYTES = 1 << 24
};
#ifndef COMPILED_OF
#define COMPILED_OF 4  // where the corpus is a test: 1
#endif
uint32_t fuzz_run_compiled_of = COMPILED_OF;  // one program of so many is compiled; 0: none

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t room, unsigned seed);

static void need(bool holds, const char *what, const char *more, const Prog *p) {
  if (holds) return;
  RtText text = {.mem = p->mem};
  ir_print(p, &text, 0);
  fprintf(stderr, "%s: %s\n%s", what, more ? more : "", text.text);
  abort();
}

// ---- how much a function asks for
static int64_t add_sat(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }
static int64_t mul_sat(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static int64_t longest_axis(const Prog *p, Shape s) {
  int64_t most = 1;
  for (uint32_t k = 0; k < ir_rank(p, s); k++)
    if (ir_dim_bound(p, ir_dim_at(p, s, k)) > most) most = ir_dim_bound(p, ir_dim_at(p, s, k));
  return most;
}

static int64_t elements(const Prog *p, const Ins *v) {
  if (v->dtype == DT_LAYOUT) return ir_type_bytes(p, DT_LAYOUT, v->shape) / 4;
  return ir_shape_bound(p, v->shape);
}

static int64_t work_of(const Fn *f);

static int64_t work_at(const Fn *f, uint32_t i) {
  const Prog *p = f->prog;
  const Ins *ins = &f->ins[i];
  int64_t sum = elements(p, ins), axis = longest_axis(p, ins->shape);
  for (uint32_t k = 0; k < ins->n_args; k++) {
    const Ins *a = ir_ins(f, ir_arg(f, (Val){i}, k));
    sum = add_sat(sum, elements(p, a));
    if (longest_axis(p, a->shape) > axis) axis = longest_axis(p, a->shape);
  }
  if (ins->op != OP_scan) return mul_sat(sum, ir_class_has(ins->op, BY_ELEMENT) ? 1 : axis);
  Scan s = ir_scan_at(f, (Val){i});
  Dim steps = s.live.i ? ir_dim_at(p, ir_ins(f, ir_arg(f, (Val){i}, 0))->shape, 1) : s.steps;
  return add_sat(sum, mul_sat(work_of(s.body), ir_dim_bound(p, steps)));
}

static int64_t work_of(const Fn *f) {
  int64_t sum = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (elements(f->prog, &f->ins[i]) > MAX_VALUE) return INT64_MAX;
    sum = add_sat(sum, work_at(f, i));
  }
  return sum;
}

static bool is_small(const Prog *p) {
  int64_t work = 0;
  for (uint32_t k = 0; k < p->n_fns; k++) work = add_sat(work, work_of(p->fns[k]));
  for (uint32_t k = 0; k < p->n_params; k++) work = add_sat(work, ir_shape_bound(p, p->params[k].shape));
  return work <= MAX_WORK;
}

// ---- passes
// A rule of the IR that is broken behind the first passes, or a plan that its checker refuses.
static const char *broken_by_passes(const Prog *p) {
  for (uint32_t k = 0; k < p->diags.n; k++) {
    const RtDiag *d = &p->diags.list[k];
    bool own =
        d->id == E_VERIFY && (d->text[0] == '@' || !strncmp(d->text, "pass ", 5) || !strncmp(d->text, "plan ", 5));
    if (own) return d->text;
  }
  return NULL;
}

// Functions that are refused are left out.
static void run_passes(Prog *p, const Target *t) {
  uint32_t n = 0;
  cg_plan_for(p, t), p->guarded_arena = true;
  for (uint32_t k = 0; k < p->n_fns; k++)
    if (ir_run_passes(p->fns[k], NULL, NULL, NULL)) p->fns[n++] = p->fns[k];
  p->n_fns = n;
  const char *broken = broken_by_passes(p);
  need(!broken, "passes", broken, p);
}

// ---- runs
static bool is_compiled(const uint8_t *bytes, size_t n) {
  return fuzz_run_compiled_of && rt_hash((const char *)bytes, n, 1) % fuzz_run_compiled_of == 0;
}

static void interpret(const Fn *f, const TrialData *d, RtArena *mem) {
  const Prog *p = f->prog;
  RtText why = {.mem = mem};
  InterpEnv env = {.in = d->in, .seed = TRIAL_SEED, .counter = TRIAL_COUNTER, .mem = mem};
  env.out = rt_alloc(mem, (f->n_outputs + 1) * sizeof(Tensor));
  env.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof(int64_t));
  env.params = rt_alloc(mem, (p->n_params + 1) * sizeof(Tensor));
  if (p->n_syms) memcpy(env.slots, d->slots, p->n_syms * sizeof(int64_t));
  for (uint32_t k = 0; k < p->n_params; k++) {
    env.params[k] = (Tensor){.v = rt_alloc(mem, (size_t)d->params[k].n * sizeof(double)), .n = d->params[k].n};
    if (d->params[k].n) memcpy(env.params[k].v, d->params[k].v, (size_t)d->params[k].n * sizeof(double));
  }
  ir_interpret(f, &env, &why);
}

static bool same_bits(const TrialResults *a, const TrialResults *b) {
  for (uint32_t k = 0; k < a->n; k++)
    for (int64_t i = 0; i < a->t[k].n; i++)
      if (memcmp(&a->t[k].v[i], &b->t[k].v[i], sizeof(double)) && a->t[k].v[i] == a->t[k].v[i]) return false;
  return true;
}

static void run_code(const TrialCode *code, const Fn *f, const TrialData *d, RtArena *mem) {
  static RtTeam *teams[2];
  TrialResults out[2];
  TrialEnd end[2];
  for (uint32_t k = 0; k < 2; k++) {
    RtText why = {.mem = mem};
    if (!teams[k]) rt_team_fix(teams[k] = rt_team_new(k + 1));
    end[k] = trial_run(code, f, d, teams[k], mem, &out[k], &why);
    need(end[k] == TRIAL_FINE || end[k] == TRIAL_REPORTED, "a run", why.text, f->prog);
  }
  need(end[0] == end[1], "a run", "the number of workers decides whether it reports", f->prog);
  if (end[0] == TRIAL_FINE) need(same_bits(&out[0], &out[1]), "a run", "the number of workers matters", f->prog);
}

static bool is_quick_to_compile(const Prog *p) {
  uint32_t n = 0;
  int64_t bytes = p->param_bytes + p->const_bytes;
  for (uint32_t k = 0; k < p->n_fns; k++) n += p->fns[k]->n_kernels, bytes += p->fns[k]->stats.peak_bytes;
  for (uint32_t k = 0; k < p->n_bodies; k++) n += p->bodies[k]->n_kernels;
  return n <= MAX_KERNELS && bytes <= MAX_BYTES;
}

static void compile_and_run(Prog *p, TrialData *data, const Target *t) {
  TrialCode code;
  RtText why = {.mem = p->mem};
  need(trial_compile(p, t, p->mem, &code, &why), "no code", why.text, p);
  for (uint32_t k = 0; k < p->n_fns; k++) run_code(&code, p->fns[k], &data[k], p->mem);
  trial_free(&code);
}

static const Target *target(void) {
  static Target t;
  static RtArena *mem;
  if (!mem && !cg_target_host(&t, &(RtText){.mem = mem = rt_arena_new()})) abort();
  return &t;
}

// Data are made of what was written: passes drop the readers that say what an index may be.
static void test_program(Prog *written, Prog *p, bool compiled) {
  run_passes(p, target());
  if (!ir_plan_program_memory(p) || !is_small(p)) return;
  TrialData *data = rt_alloc(p->mem, (p->n_fns + 1) * sizeof *data);
  for (uint32_t k = 0; k < p->n_fns; k++) {
    data[k] = trial_data(ir_fn_find(written, ir_text(p, p->fns[k]->name)), 0, p->mem);
    if (!data[k].runs) return;
    interpret(p->fns[k], &data[k], p->mem);
  }
  if (compiled && p->n_fns && is_quick_to_compile(p)) compile_and_run(p, data, target());
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n > MAX_TEXT) return 0;
  RtArena *mem = rt_arena_new();
  RtDiags d = {.mem = mem};
  Prog *p = ir_parse(mem, (const char *)bytes, n, "f.tir", &d),
       *written = ir_parse(mem, (const char *)bytes, n, "", &d);
  bool sound = p && written;
  for (uint32_t k = 0; sound && k < p->n_fns; k++) sound = ir_verify(p->fns[k], &d);
  if (sound && is_small(written)) test_program(written, p, is_compiled(bytes, n));
  rt_arena_free(mem);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t room, unsigned seed) {
  RtArena *mem = rt_arena_new();
  Rng r = {seed};
  RtText text = tir_mutate(mem, (const char *)bytes, n, &r);
  if (text.text && text.len <= room) memcpy(bytes, text.text, n = text.len);
  rt_arena_free(mem);
  return n;
}
