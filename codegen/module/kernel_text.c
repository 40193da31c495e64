// One kernel in a module of its own: without entries, so that nothing else is in the text.
#include "codegen/module/kernel_text.h"

#include "codegen/module/child.h"
#include "codegen/module/emit.h"
#include "codegen/module/llvm_module.h"
#include "codegen/product/product.h"

typedef struct {
  const ModulePlan *plan;
  ModulePart part;  // the kernel's code alone
  CgTextKind kind;
} Wanted;

static void emit(void *ctx) {
  const Wanted *w = ctx;
  CgModule m;
  CgObject out;
  jmp_buf here;
  if (setjmp(here)) cg_child_fail(CG_NO_MEMORY, "out of memory");
  rt_arena_on_oom(w->plan->mem, &here);
  cg_init_llvm();
  LLVMTargetMachineRef machine = cg_make_machine(w->plan->t, cg_process_pipeline(), m.error);
  if (!machine) cg_child_fail(CG_NO_CODE, m.error);
  cg_open_module(&m, NULL, machine, cg_process_pipeline());
  RtNames helpers = {.mem = w->plan->mem};
  if (!cg_emit_module(w->plan, &w->part, &helpers, w->plan->mem, m.mod)) cg_child_fail(CG_NO_CODE, w->plan->why->text);
  if (!cg_module_text(&m, w->kind == CG_TEXT_ASSEMBLY, &out)) cg_child_fail(CG_NO_CODE, m.error);
  cg_child_answer(&out);
}

static const KernelCall *find_call(const ModulePlan *plan, const Fn *f, uint32_t kernel) {
  for (uint32_t e = 0; e < plan->n_entries; e++)
    for (uint32_t k = 0; plan->entries[e].f == f && k < plan->entries[e].n_calls; k++)
      if (plan->entries[e].calls[k].k == &f->kernels[kernel]) return &plan->entries[e].calls[k];
  return NULL;
}

bool cg_kernel_text(Prog *p, const Target *t, const Fn *f, uint32_t kernel, CgTextKind kind, RtText *out, RtText *why) {
  ModulePlan plan = {.p = p, .t = t, .how = cg_process_pipeline(), .mem = p->mem, .why = why};
  if (!cg_make_plan(&plan)) return false;
  const KernelCall *call = find_call(&plan, f, kernel);
  rt_text_put(out, "", 0);
  if (!call) return true;
  Wanted w = {&plan, {.first = call->code, .n = 1}, kind};
  ChildAnswer a = cg_run_child(&(CgLimits){0}, emit, &w, why);
  if (a.failure == CG_NO_FAILURE) rt_text_put(out, a.data, a.size);
  rt_free(a.data);
  return a.failure == CG_NO_FAILURE;
}

const char *cg_kernel_reason(const Fn *f, const Kernel *k, RtArena *mem) {
  RtText out = {.mem = mem};
  rt_text_put(&out, "", 0);
  cg_gemm_reason(f, k, f->prog->scratch_ctx, &out);
  return out.text;
}
