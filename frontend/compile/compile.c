// tn_compile: passes over every function, placement of the program, code, loading, and the first instance.
//
// The program is sealed by it, failed or not: passes rewrite functions in place.
#include "codegen/module/compile.h"
#include "codegen/kernels.h"
#include "frontend/compile/compile.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/scope.h"
#include "frontend/module/hook.h"
#include "frontend/module/optimizer.h"
#include "frontend/module/probe.h"
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "ir/fn.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "runtime/clock.h"
#include "runtime/format.h"
#include <stdlib.h>
#include <string.h>

// ---- shared code
static void free_code(FeCode *code) {
  FeJitCode *c = (FeJitCode *)code;
  cg_jit_free(c->jit);
  rt_free(c->object.bytes);
  rt_block_free(c->consts, c->const_bytes);
  rt_arena_free(c->mem);
  rt_free(c);
}

static FeJitCode *code_new(void) {
  RtArena *mem = rt_arena_new();
  FeJitCode *c = mem ? rt_malloc(sizeof *c) : NULL;
  if (!c) rt_arena_free(mem);
  if (!c) return NULL;
  *c = (FeJitCode){.code = {.free = free_code}, .mem = mem};
  c->code.plan = &c->plan;
  atomic_init(&c->code.n_refs, 1);
  return c;
}

void tn_program_free(tn_program *p) {
  if (!p) return;
  if (p->code) fe_code_release(&p->code->code);
  rt_arena_free(p->mem);
}

// ---- before
static bool check_ready(tn_program *p, tn_site at) {
  if (p->oom || p->ir->diags.n_errors) return false;
  for (tn_function *f = p->first; f; f = f->next) {
    if (f->ended) continue;
    fe_error(p, E_STATE, at, "function '%s' was not ended", f->name);
    fe_note(p, f->loc, "it began here");
    fe_hint(p, "tn_function_end ends it");
  }
  if (p->init_fn) {
    fe_scopes_end(p->init_fn, "the building of initial values", at);
    fe_never_disposed(p->init_fn);
  }
  return p->ir->diags.n_errors == 0;
}

// What an instruction was when the program was built, for those who ask by the handles of that time.
static void keep_origins(tn_program *p) {
  for (uint32_t k = 0; k < p->ir->n_fns; k++)
    for (uint32_t v = 1; v < p->ir->fns[k]->n_ins; v++) p->ir->fns[k]->ins[v].origin = v;
}

static const char *text_of(tn_program *p, const Fn *f) {
  RtText t = {.mem = p->mem};
  if (f) ir_print_fn(f, &t, PRINT_LOCS | PRINT_BY_NUMBER);
  else ir_print(p->ir, &t, PRINT_LOCS | PRINT_BY_NUMBER);
  return t.text ? t.text : "";
}

static void keep_text(tn_program *p) {
  p->built_fn = rt_alloc(p->mem, p->ir->n_fns * sizeof *p->built_fn);
  for (uint32_t k = 0; k < p->ir->n_fns; k++) p->built_fn[k] = text_of(p, p->ir->fns[k]);
  p->built = text_of(p, NULL);
  p->n_built = p->ir->n_fns;
}

// No building from now on: what was built is kept as text, before passes rewrite it. False: the program has errors.
bool fe_seal(tn_program *p, tn_site at) {
  if (p->sealed) return !p->oom && !p->ir->diags.n_errors;
  if (!check_ready(p, at)) return false;
  fe_unused_hooks(p);
  fe_warn_no_effect(p);
  fe_params_flush(p);
  keep_origins(p);
  fe_merge_counters(p);
  keep_text(p);
  p->sealed = true;
  p->sealed_at = fe_loc(p, at);
  return true;
}

// ---- passes
static bool in_list(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
    if (strcspn(at, ",") == n && !strncmp(at, name, n)) return true;
  return false;
}

// TN_DUMP=grad,plan_memory: prints the text after these passes. TN_DUMP=rule:fold_copy: each application of that rule.
static void dump_after(Fn *f, const PassInfo *pass, void *ctx) {
  if (!in_list(ctx, pass->name)) return;
  RtText t = {.mem = f->prog->mem};
  ir_print_fn(f, &t, PRINT_FACTS | PRINT_LOCS);
  fprintf(stderr, "// after %s\n%s", pass->name, t.text ? t.text : "");
}

static void print_rule(const char *text) { fputs(text, stderr); }

static bool run_passes(tn_program *p, const Target *target, const tn_compile_options *o) {
  bool good = fe_check_shards(p, o) && fe_buckets(p, o);
  char *list = getenv("TN_DUMP");
  good &= ir_select_rules(p->ir, getenv("TN_RULES")) && ir_trace_rules(p->ir, list, print_rule);
  p->ir->watches_nan = !p->is_for_object && in_list(getenv("TN_CHECK"), "nan");
  p->ir->guarded_arena = p->ir->watches_nan || (!p->is_for_object && in_list(getenv("TN_CHECK"), "arena"));
  cg_plan_for(p->ir, target);
  const PlanWatch watch = {.after = list ? dump_after : NULL, .ctx = list};
  good = ir_plan_program(p->ir, p->ir->n_fns - p->n_built, !good, &watch) && good;
  fe_name_shards(p);
  return good;
}

// ---- code
// Who started a privileged process does not choose where its code comes from: there these variables do not exist.
static const char *cache_dir(tn_program *p, const tn_compile_options *o) {
  const char *root = secure_getenv("TN_CACHE");
  if (o->cache_dir) return o->cache_dir;
  if (root) return root;
  if ((root = secure_getenv("XDG_CACHE_HOME")) && *root) return rt_printf(p->mem, "%s/tenure", root);
  if ((root = secure_getenv("HOME")) && *root) return rt_printf(p->mem, "%s/.cache/tenure", root);
  return "";
}

// Once in a process: every program would say the same.
static void warn_of_cache(tn_program *p, const char *why, tn_site at) {
  static atomic_flag is_told = ATOMIC_FLAG_INIT;
  if (!*why || atomic_flag_test_and_set(&is_told)) return;
  Loc loc = fe_loc(p, at);
  rt_diag(&p->ir->diags, RT_WARNING, E_NO_CACHE, ir_loc_file(p->ir, loc), ir_loc_line(p->ir, loc),
          "compiled without the object cache: %s", why);
  fe_hint(p, "take a folder that only you can write (chmod go-w, TN_CACHE, cache_dir); an empty TN_CACHE is no cache");
}

static bool fill_consts(tn_program *p, FeJitCode *c) {
  if (!p->ir->const_bytes) return true;
  c->const_bytes = p->ir->const_bytes;
  c->consts = rt_block_new(c->const_bytes);
  if (!c->consts) return false;
  ir_fill_const(p->ir, c->consts);
  c->plan.consts = c->consts;
  return true;
}

static bool find_symbol(FeJitCode *c, const char *symbol, const TnEntry *out, RtText *why) {
  void *entry = cg_jit_find(c->jit, symbol);
  if (!entry) return rt_text_add(why, "the loaded code has no function %s", symbol), false;
  memcpy((void *)(uintptr_t)out, &entry, sizeof entry);
  return true;
}

static bool find_entry(tn_program *p, FeJitCode *c, const Fn *f, const TnEntry *out, RtText *why) {
  return find_symbol(c, cg_symbol(p->mem, p->ir, f), out, why);
}

static bool find_entries(tn_program *p, FeJitCode *c, RtText *why) {
  uint32_t v = 0;
  if (p->ir->n_packed_weights && !find_symbol(c, cg_packed_weights_symbol(p->mem, p->ir), &c->plan.pack, why))
    return false;
  for (uint32_t k = 0; k < p->n_built; k++) {
    const RtFunction *f = &c->plan.functions[k];
    if (!find_entry(p, c, p->ir->fns[k], &f->entry, why)) return false;
    for (uint32_t n = 0; n < f->n_variants; n++, v++)
      if (!find_entry(p, c, p->variants[v].ir, &f->variants[n].entry, why)) return false;
  }
  return true;
}

static int diag_of(CgFailure f) {
  switch (f) {
  case CG_NO_MEMORY: return E_NOMEM;
  case CG_NO_PROCESS: return E_NO_PROCESS;
  case CG_CRASHED:
  case CG_TOO_LONG: return E_COMPILER;
  case CG_NO_FAILURE:
  case CG_NO_CODE: break;
  }
  return E_CODEGEN;
}

static void report_failure(tn_program *p, const tn_compile_options *o, CgFailure f, const RtText *why) {
  fe_error(p, diag_of(f), o->at, "%s", why->text ? why->text : "code could not be generated");
  if (f == CG_NO_MEMORY && o->memory_limit)
    fe_hint(p, "its option memory_limit is %zu bytes; 0 sets no limit", o->memory_limit);
  if (f == CG_NO_PROCESS)
    fe_hint(p, "a user or container may have so many processes and files (ulimit -u, ulimit -n, pids.max); what the "
               "object cache holds needs none");
  if (f == CG_TOO_LONG) fe_hint(p, "its option time_limit may be longer; 0 sets no limit");
  if (f == CG_CRASHED) fe_hint(p, "the program itself goes on; TN_DUMP=fuse shows what is in each kernel");
}

static bool make_code(tn_program *p, const Target *target, const tn_compile_options *o, FeJitCode *c) {
  RtText why = {.mem = p->mem};
  CgInfo info = {0};
  CgOptions options = {cache_dir(p, o), {o->time_limit, o->memory_limit}};
  bool good = cg_compile(p->ir, target, &options, &c->object, &info, &why);
  warn_of_cache(p, info.no_cache, o->at);
  c->code.info.codegen_ms = info.codegen_ms;
  c->code.info.from_cache = info.from_cache;
  c->code.info.n_kernels = info.n_kernels;
  c->code.info.n_distinct_kernels = info.n_distinct;
  double start = rt_now_ms();
  good = good && (c->jit = cg_jit_load(&c->object, &info.failure, &why)) && find_entries(p, c, &why);
  c->code.info.load_ms = rt_now_ms() - start;
  rt_free(c->object.bytes);
  c->object = (CgObject){0};
  if (!good) report_failure(p, o, info.failure, &why);
  return good;
}

// What takes most: the largest arena, and the largest value in it.
static void report_no_instance(tn_program *p, tn_site at) {
  const Fn *most = p->ir->fns[0];
  uint32_t largest = 0;
  char arena[RT_BYTES_SIZE], params[RT_BYTES_SIZE], bytes[RT_BYTES_SIZE];
  for (uint32_t k = 1; k < p->ir->n_fns; k++)
    if (p->ir->fns[k]->stats.peak_bytes > most->stats.peak_bytes) most = p->ir->fns[k];
  for (uint32_t b = 1; b < most->n_bufs; b++)
    if (most->bufs[b].seg == SEG_ARENA && (!largest || most->bufs[b].bytes > most->bufs[largest].bytes)) largest = b;
  fe_error(p, E_NOMEM, at, "there is no memory or thread for an instance: parameters take %s, the arena of '%s' %s",
           rt_bytes_text(params, p->ir->param_bytes), ir_text(p->ir, most->name),
           rt_bytes_text(arena, most->stats.peak_bytes));
  if (!largest) return;
  const Buf *b = &most->bufs[largest];
  fe_note(p, most->ins[b->head.i].loc, "the largest value, %s, takes %s", ir_size_text(most, b->head),
          rt_bytes_text(bytes, b->bytes));
}

bool fe_place(tn_program *p, Target *target, const tn_compile_options *o) {
  double start = rt_now_ms();
  target->fast_math = o->fast_math, target->convolution = cg_convolution(o->exact_convolution);
  p->ir->copy_saved = o->copy_saved;
  p->ir->arena_limit = o->arena_limit < INT64_MAX ? (int64_t)o->arena_limit : INT64_MAX;
  p->ir->recomputes = o->recompute == TN_RECOMPUTE_AUTO;
  p->ir->packs_weights = !o->no_packed_weights;
  p->ir->sums_exactly = target->convolution == CONVOLUTION_EXACT;
  if (!run_passes(p, target, o)) return false;
  cg_place_packed_weights(p->ir, target);
  p->code->code.info.passes_ms = rt_now_ms() - start;
  fe_plan(p, p->code);
  return true;
}

static tn_model *compile(tn_program *p, Target *target, const tn_compile_options *o) {
  FeJitCode *c = p->code;
  if (!fe_place(p, target, o) || !make_code(p, target, o, c)) return NULL;
  p->compiled = true;
  c->code.n_workers = o->n_workers > 64 ? 64 : o->n_workers;
  double begin = rt_now_ms();
  tn_model *m = fill_consts(p, c) ? fe_model_new(&c->code, o->seed, !o->no_init) : NULL;
  c->code.info.init_ms = rt_now_ms() - begin;
  if (!m) report_no_instance(p, o->at);
  return m;
}

static bool is_compiled(tn_program *p, tn_site at) {
  if (!p->code) return false;
  fe_error(p, E_STATE, at, "the program was compiled already");
  fe_hint(p, "tn_instance(model, seed) makes a second set of parameters over the same code");
  return true;
}

bool fe_begin_code(tn_program *p, tn_site at) {
  if (is_compiled(p, at) || !fe_seal(p, at)) return false;
  fe_check_environment(p, fe_loc(p, at));
  double built = rt_now_ms();
  if (!(p->code = code_new())) return p->oom = true, false;
  rt_arena_on_oom(p->code->mem, &p->guard->jmp);
  p->code->code.info.build_ms = built - p->created_ms;
  return true;
}

void fe_end_code(tn_program *p) { rt_arena_on_oom(p->code->mem, NULL); }

static Target *pick_target(tn_program *p, const tn_compile_options *o) {
  Target *target = rt_alloc(p->mem, sizeof *target);
  RtText why = {.mem = p->mem};
  if (cg_target_pick(target, getenv("TN_TARGET"), &why)) return target;
  fe_error(p, E_CODEGEN, o->at, "%s", why.text);
  return NULL;
}

tn_model *fe_compile_for(tn_program *p, Target *target, const tn_compile_options *o) {
  if (!fe_begin_code(p, o->at)) return NULL;
  if (!target) target = pick_target(p, o);
  fe_probe_twins(p);
  tn_model *m = target ? compile(p, target, o) : NULL;
  fe_end_code(p);
  return m;
}

static tn_model *compile_guarded(tn_program *p, const tn_compile_options *o) {
  FE_GUARD_AS(p, NULL, "tn_compile");
  return fe_compile_for(p, NULL, o);
}

static void show_no_program(tn_site at) {
  fprintf(stderr,
          "%s:%d: error[E%03d]: tn_compile: there is no program (tn_program_create gives NULL without memory)\n",
          at.file ? at.file : "?", at.line, E_ARGUMENT);
}

// A model that is NULL has said why, whoever asks: like a C compiler, tn_compile shows errors and warnings by itself.
tn_model *tn_compile(tn_program *p, tn_compile_options o) {
  tn_model *m = p ? compile_guarded(p, &o) : NULL;
  if (o.quiet) return m;
  if (p) fe_show(p, RT_WARNING);
  else show_no_program(o.at);
  return m;
}
