// Compilation of a program: plan (kernels described, equal ones deduplicated, barriers inserted), objects, the image.
//
// LLVM works in a child process only (child.h): where memory runs out or something is wrong it ends the process that it
// is in. What stays until the end, as threads and target machines, is not given back there: the child ends as soon as it
// has answered.
#include "codegen/module/module.h"
#include "codegen/module/child.h"
#include "codegen/module/emit.h"
#include "codegen/module/llvm_module.h"
#include "ir/scan.h"
#include "runtime/clock.h"
#include "runtime/format.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 4 };  // version of the interface between an object and its caller

// ---- plan
static uint32_t code_of(ModulePlan *plan, const KernelCall *c) {
  uint32_t code = rt_names_add(&plan->keys, c->key, c->key_len);
  if (code == plan->n_codes) *RT_PUSH(plan->mem, plan->codes, plan->n_codes, plan->cap_codes) = c;
  return code;
}

static bool plan_calls(ModulePlan *plan, EntryFn *e, const Fn *f);

// The kernels of a scan's body come first: their codes are part of the scan's key.
static bool plan_body(ModulePlan *plan, KernelCall *c) {
  if (c->k->cls != CLASS_SCAN) return true;
  c->body = rt_alloc(plan->mem, sizeof *c->body);
  const Fn *body = ir_scan_at(c->f, (Val){c->k->first}).body;
  *c->body = (EntryFn){.f = body};
  if (!plan_calls(plan, c->body, body)) return false;
  cg_place_barriers(plan, c->body);
  return true;
}

static bool plan_calls(ModulePlan *plan, EntryFn *e, const Fn *f) {
  e->calls = rt_alloc(plan->mem, (f->n_kernels + 1) * sizeof *e->calls);
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (!cg_has_code(f, &f->kernels[k])) continue;
    KernelCall *c = &e->calls[e->n_calls++];
    *c = (KernelCall){.f = f, .k = &f->kernels[k]};
    if (cg_only_fills(f, c->k)) cg_describe_fill(plan, c);
    else if (!plan_body(plan, c) || !cg_describe(plan, c)) return false;
    c->code = code_of(plan, c);
  }
  return true;
}

static bool plan_entry(ModulePlan *plan, EntryFn *e, const Fn *f) {
  *e = (EntryFn){.f = f, .symbol = cg_symbol(plan->mem, plan->p, f)};
  if (!plan_calls(plan, e, f)) return false;
  e->single_threaded = plan->one_worker || cg_max_workers(f) == 1;
  cg_place_barriers(plan, e);
  return true;
}

int64_t cg_block_bytes(const ModulePlan *plan, const EntryFn *e) {
  int64_t most = 0;
  for (uint32_t k = 0; k < e->n_calls; k++) {
    const KernelCall *c = &e->calls[k];
    most = cg_larger(most, plan->block_bytes[c->code]);
    if (c->body) most = cg_larger(most, cg_block_bytes(plan, c->body));
  }
  return most;
}

bool cg_make_plan(ModulePlan *plan) {
  Prog *p = plan->p;
  plan->keys = (RtNames){.mem = plan->mem};
  plan->symbol = cg_program_symbol(plan->mem, p);
  plan->entries = rt_alloc(plan->mem, (p->n_fns + 1) * sizeof *plan->entries);
  for (uint32_t k = 0; k < p->n_fns; k++) {
    const Fn *f = p->fns[k];
    if (!(f->facts & HAS_OFFSETS)) {
      rt_text_add(plan->why, "@%s was not placed", ir_text(p, f->name));
      return false;
    }
    if (!plan_entry(plan, &plan->entries[plan->n_entries++], f)) return false;
  }
  plan->block_bytes = rt_alloc(plan->mem, (plan->n_codes + 1) * sizeof *plan->block_bytes);
  return true;
}

// The cache key: everything that determines the bytes of the object, as text.
static void put_key(const ModulePlan *plan, RtText *out) {
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  rt_text_add(out, "tenure object %d, LLVM %u.%u.%u\n", FORMAT, major, minor, patch);
  cg_target_key(plan->t, out);
  const char *gemm = getenv("TN_GEMM");  // overrides the choice of GEMM strategies
  if (plan->profile) {
    rt_text_add(out, plan->trace ? "profile trace\n" : "profile\n");
    cg_profile_text(plan, out);
  }
  const CgPipeline *how = cg_process_pipeline();
  rt_text_add(out, "%s\n%s O%d\nprogram %s\n", gemm ? gemm : "", how->passes, (int)how->level, plan->symbol);
  for (uint32_t k = 0; k < plan->n_codes; k++) rt_text_add(out, "k%u %s", k, plan->codes[k]->key);
  for (uint32_t k = 0; k < plan->n_entries; k++) cg_entry_text(plan, &plan->entries[k], out);
  for (uint32_t k = 0; k < plan->p->n_packed_weights; k++) {
    const WeightPack *w = &plan->p->packed_weights[k];
    rt_text_add(out, "pack %d of %lld, %lld, %lld: %lld%s %lldx%lld by %lld to %lld\n", (int)w->kind,
                (long long)w->taps, (long long)w->groups, (long long)w->block,
                (long long)plan->p->params[w->param].offset, w->transposed ? " transposed" : "", (long long)w->n,
                (long long)w->k, (long long)w->width, (long long)w->offset);
  }
}

// ---- the compiler's process
typedef struct {
  const ModulePlan *plan;
  bool (*generate)(const ModulePlan *plan, jmp_buf *on_oom, CgObject *out);
} Compilation;

static void compile_in_child(void *ctx) {
  const Compilation *c = ctx;
  CgObject out;
  jmp_buf here;
  if (setjmp(here)) cg_child_fail(CG_NO_MEMORY, "out of memory");
  rt_arena_on_oom(c->plan->mem, &here);
  if (c->generate == cg_make_image) cg_init_llvm_for(c->plan->t->triple);
  else cg_init_llvm();
  if (c->generate(c->plan, &here, &out)) cg_child_answer(&out);
  cg_child_fail(CG_NO_CODE, c->plan->why->text);
}

static bool compile(Compilation c, const CgLimits *limits, CgObject *out, CgInfo *info) {
  ChildAnswer a = cg_run_child(limits, compile_in_child, &c, c.plan->why);
  info->failure = a.failure;
  *out = (CgObject){a.data, a.size};
  return a.failure == CG_NO_FAILURE;
}

static bool begin(ModulePlan *plan, CgInfo *info) {
  *info = (CgInfo){.failure = CG_NO_CODE};
  cg_place_packed_weights(plan->p, plan->t);
  if (!cg_make_plan(plan)) return false;
  for (uint32_t k = 0; k < plan->n_entries; k++) info->n_kernels += plan->entries[k].n_calls;
  info->n_distinct = plan->n_codes;
  return true;
}

bool cg_compile(Prog *p, const Target *t, const CgOptions *o, CgObject *out, CgInfo *info, RtText *why) {
  double start = rt_now_ms();
  CgInfo unused;
  const CgOptions defaults = {0};
  if (!o) o = &defaults;
  if (!info) info = &unused;
  *out = (CgObject){0};
  Target here = *t;
  here.bounded_stack = false;  // kernels run on this machine's stacks
  ModulePlan plan = {.p = p,
                     .t = &here,
                     .mem = p->mem,
                     .profile = cg_profile_wanted() || cg_trace_wanted(),
                     .trace = cg_trace_wanted(),
                     .why = why};
  if (!begin(&plan, info)) return false;
  RtText key = {plan.mem, NULL, 0, 0};
  put_key(&plan, &key);
  info->from_cache = cg_cache_read(o->cache_dir, &key, out, info->no_cache, sizeof info->no_cache);
  bool ok = info->from_cache || compile((Compilation){&plan, cg_make_image}, &o->limits, out, info);
  if (ok && !info->from_cache) cg_cache_write(o->cache_dir, &key, out);
  if (ok) info->failure = CG_NO_FAILURE;
  info->codegen_ms = rt_now_ms() - start;
  return ok;
}

bool cg_compile_object(Prog *p, const Target *t, const CgPipeline *how, CgObject *out, CgInfo *info, RtText *why) {
  double start = rt_now_ms();
  CgInfo unused;
  if (!info) info = &unused;
  *out = (CgObject){0};
  ModulePlan plan = {.p = p, .t = t, .how = how ? how : cg_process_pipeline(), .mem = p->mem, .why = why};
  bool ok = begin(&plan, info) && compile((Compilation){&plan, cg_make_object}, &(CgLimits){0}, out, info);
  info->codegen_ms = rt_now_ms() - start;
  return ok;
}
