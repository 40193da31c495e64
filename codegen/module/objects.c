// Modules become objects, and objects the image.
//
// Building LLVM IR interns dims and allocates in the program's arena, so one thread builds, module after module. LLVM's
// passes and code emission take ten times as long: each module has a context of its own, and threads finish the modules
// that are built. The builder finishes one too where more wait than there are threads, so that few modules are in memory
// at a time however large the program is:
//
//   builder   build 0 | build 1 | build 2 | build 3 | finish 2 | build 4 ..
//   thread              finish 0          | finish 1           | finish 3 ..
//
// Costly modules come first, for the end to be even. Objects are linked in the order of the program.
#include "codegen/kernels.h"
#include "codegen/module/child.h"
#include "codegen/module/emit.h"
#include "codegen/module/link.h"
#include "codegen/module/llvm_module.h"
#include "runtime/exec/thread_team.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
  const ModulePart *part;
  const char *costliest;  // name of a kernel
  CgModule m;
} Module;

typedef struct {
  const ModulePlan *plan;
  Module *modules, **order;  // in the order of the program; of building
  uint32_t n;
  jmp_buf *on_oom;  // of the builder
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint32_t n_built, n_taken;  // of `order`
  bool is_over;               // no more will be built
  uint32_t n_threads;
  pthread_t threads[CG_CHILD_LANES];
} Pipeline;

// ---- one module
static const char *costliest_kernel(const ModulePlan *plan, const ModulePart *part) {
  if (!part->n) return "none";
  const KernelCall *most = plan->codes[part->first];
  for (uint32_t k = part->first; k < part->first + part->n; k++)
    if (cg_kernel_compile_cost(plan->codes[k]->k) > cg_kernel_compile_cost(most->k)) most = plan->codes[k];
  return cg_kernel_name(plan, most);
}

static void finish(Module *m, LLVMTargetMachineRef machine) {
  cg_child_doing("LLVM compiled kernels: %u, of which the largest is %s", m->part->n, m->costliest);
  m->m.tm = machine;
  cg_finish_module(&m->m);
  cg_close_module(&m->m);
  cg_child_done();
}

// ---- threads
// Pops the next pending module, if more than n_left of them wait. NULL: none is pending, and if `waits`, none
// will come.
static Module *take(Pipeline *p, uint32_t n_left, bool waits) {
  pthread_mutex_lock(&p->lock);
  while (waits && p->n_taken == p->n_built && !p->is_over) pthread_cond_wait(&p->changed, &p->lock);
  Module *m = p->n_built - p->n_taken > n_left ? p->order[p->n_taken++] : NULL;
  pthread_mutex_unlock(&p->lock);
  return m;
}

static void tell(Pipeline *p, uint32_t n_more, bool is_over) {
  pthread_mutex_lock(&p->lock);
  p->n_built += n_more, p->is_over = is_over;
  pthread_cond_broadcast(&p->changed);
  pthread_mutex_unlock(&p->lock);
}

static void *finish_modules(void *ctx) {
  Pipeline *p = ctx;
  LLVMTargetMachineRef machine = cg_make_machine(p->plan->t, cg_process_pipeline(), (char[CG_ERROR_SIZE]){0});
  cg_child_lane();
  for (Module *m; (m = take(p, 0, true));) finish(m, machine);
  return NULL;
}

// Beside the builder: one for each further CPU.
static void start_threads(Pipeline *p) {
  uint32_t most = rt_n_cpus() < CG_CHILD_LANES ? rt_n_cpus() : CG_CHILD_LANES;
  if (!cg_child_may_have_threads()) return;
  while (p->n_threads + 1 < most && p->n_threads + 1 < p->n)
    if (pthread_create(&p->threads[p->n_threads++], NULL, finish_modules, p)) {
      p->n_threads--;
      return;
    }
}

// ---- the builder
static bool build(Pipeline *p, Module *m, LLVMTargetMachineRef machine, RtNames *helpers) {
  RtArena *mem = rt_arena_new();
  if (!mem) return rt_text_add(p->plan->why, "out of memory"), false;
  rt_arena_on_oom(mem, p->on_oom);
  cg_open_module(&m->m, NULL, machine, cg_process_pipeline());
  m->costliest = costliest_kernel(p->plan, m->part);
  bool good = cg_emit_module(p->plan, m->part, helpers, mem, m->m.mod);
  rt_arena_free(mem);
  return good;
}

static bool run(Pipeline *p) {
  RtNames helpers = {.mem = p->plan->mem};
  char error[CG_ERROR_SIZE];
  LLVMTargetMachineRef machine = cg_make_machine(p->plan->t, cg_process_pipeline(), error);
  if (!machine) return rt_text_add(p->plan->why, "LLVM: %s", error), false;
  start_threads(p);
  for (uint32_t k = 0; k < p->n; k++) {
    if (!build(p, p->order[k], machine, &helpers)) return false;
    tell(p, 1, false);
    for (Module *m; (m = take(p, p->n_threads, false));) finish(m, machine);
  }
  tell(p, 0, true);
  for (Module *m; (m = take(p, 0, false));) finish(m, machine);
  for (uint32_t k = 0; k < p->n_threads; k++) pthread_join(p->threads[k], NULL);
  return true;
}

static int by_cost(const void *a, const void *b) {
  const ModulePart *x = (*(Module *const *)a)->part, *y = (*(Module *const *)b)->part;
  if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
  return x < y ? -1 : 1;
}

static bool link(const Pipeline *p, CgObject *out) {
  CgObject *file = rt_alloc(p->plan->mem, p->n * sizeof *file);
  cg_child_doing("linking");
  for (uint32_t k = 0; k < p->n; k++) {
    const Module *m = &p->modules[k];
    if (m->m.error[0]) return rt_text_add(p->plan->why, "LLVM: %s", m->m.error), false;
    file[k] = cg_module_object(&m->m);
  }
  return cg_link(p->plan->mem, file, p->n, out, p->plan->why);
}

bool cg_make_image(const ModulePlan *plan, jmp_buf *on_oom, CgObject *out) {
  Partition parts = cg_partition(plan);
  Pipeline p = {.plan = plan,
                .n = parts.n,
                .on_oom = on_oom,
                .modules = rt_alloc(plan->mem, parts.n * sizeof *p.modules),
                .order = rt_alloc(plan->mem, parts.n * sizeof *p.order),
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .changed = PTHREAD_COND_INITIALIZER};
  for (uint32_t k = 0; k < p.n; k++) {
    p.modules[k].part = &parts.list[k];
    p.order[k] = &p.modules[k];
  }
  qsort(p.order, p.n, sizeof *p.order, by_cost);
  return run(&p) && link(&p, out);
}

// A constant of the object: NAME.block_bytes, the size of TnFrame.blocks that all of its functions need.
static void say_block_bytes(const ModulePlan *plan, const CgModule *m) {
  int64_t most = 0;
  for (uint32_t k = 0; k < plan->n_codes; k++) most = cg_larger(most, plan->block_bytes[k]);
  LLVMTypeRef i64 = LLVMInt64TypeInContext(m->ctx);
  V number = LLVMAddGlobal(m->mod, i64, rt_printf(plan->mem, "%s.block_bytes", plan->symbol));
  LLVMSetInitializer(number, LLVMConstInt(i64, (uint64_t)most, true));
  LLVMSetGlobalConstant(number, true);
}

// Builds everything in one module; its object is the program's.
bool cg_make_object(const ModulePlan *plan, jmp_buf *on_oom, CgObject *out) {
  CgModule *m = rt_alloc(plan->mem, sizeof *m);
  ModulePart all = {.n = plan->n_codes};
  (void)on_oom;  // the plan's memory has it
  LLVMTargetMachineRef machine = cg_make_machine(plan->t, plan->how, m->error);
  if (!machine) return rt_text_add(plan->why, "LLVM: %s", m->error), false;
  cg_open_module(m, NULL, machine, plan->how);
  if (!cg_build_module(plan, m)) return false;
  say_block_bytes(plan, m);
  cg_child_doing("LLVM compiled kernels: %u, of which the largest is %s", plan->n_codes, costliest_kernel(plan, &all));
  if (!cg_finish_module(m)) return rt_text_add(plan->why, "LLVM: %s", m->error), false;
  *out = cg_module_object(m);
  return true;
}
