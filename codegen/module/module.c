// Compilation of a program: plan (kernels described, equal ones deduplicated, barriers inserted), LLVM modules, objects,
// the image.
//
// LLVM works in a child process only (child.h): where memory runs out or something is wrong it ends the process that it
// is in. So nothing there is given back either: the child ends as soon as it has answered.
//
// Building LLVM IR interns dims and allocates in the program's arena, so it is sequential. LLVM's passes and code
// emission, ten times as long, run in parallel: one thread and one LLVM context per module. The partition of kernels
// into modules depends on the program alone: the same program gives the same bytes on every machine.
#include "codegen/module/module.h"
#include "codegen/module/child.h"
#include "codegen/module/link.h"
#include "runtime/clock.h"
#include "runtime/format.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>

enum { MAX_PARTS = 4, FORMAT = 4 };  // FORMAT: version of the interface between an object and its caller

// The emitters produce vector code; what remains is constant folding, CSE and LICM. "default<O1>" costs more than all
// the rest of code generation.
static const char pass_list[] = "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm))";

// ---- names
// A dot is kept: only variants for smaller bounds have one (step.time16), so no function has the same symbol.
static void put_identifier(RtText *out, const char *s) {
  if (rt_is_digit(*s) && !out->len) rt_text_add(out, "_");
  for (; *s; s++) rt_text_add(out, "%c", rt_is_alnum(*s) || *s == '.' ? *s : '_');
}

char *cg_program_symbol(RtArena *mem, const Prog *p) {
  RtText t = {mem, NULL, 0, 0};
  put_identifier(&t, ir_text(p, p->name));
  return t.text ? t.text : rt_strdup(mem, "");
}

char *cg_symbol(RtArena *mem, const Prog *p, const Fn *f) {
  RtText t = {mem, NULL, 0, 0};
  put_identifier(&t, ir_text(p, p->name));
  rt_text_add(&t, "_");
  put_identifier(&t, ir_text(p, f->name));
  return t.text;
}

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
  e->single_threaded = cg_max_workers(f) == 1;
  cg_place_barriers(plan, e);
  return true;
}

static bool make_plan(ModulePlan *plan) {
  Prog *p = plan->p;
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
  rt_text_add(out, "%s\n%s\nprogram %s\n", gemm ? gemm : "", pass_list, plan->symbol);
  for (uint32_t k = 0; k < plan->n_codes; k++) rt_text_add(out, "k%u %s", k, plan->codes[k]->key);
  for (uint32_t k = 0; k < plan->n_entries; k++) cg_entry_text(plan, &plan->entries[k], out);
  for (uint32_t k = 0; k < plan->p->n_packed_weights; k++) {
    const WeightPack *w = &plan->p->packed_weights[k];
    rt_text_add(out, "pack %lld%s %lldx%lld by %lld to %lld\n", (long long)plan->p->params[w->param].offset,
                w->transposed ? " transposed" : "", (long long)w->n, (long long)w->k, (long long)w->width,
                (long long)w->offset);
  }
}

// ---- one module
typedef struct {
  LLVMModuleRef mod;
  LLVMContextRef ctx;
  LLVMTargetMachineRef tm;
  LLVMMemoryBufferRef object;
  char error[512];  // "": none
  pthread_t thread;
  bool has_thread;
} ModuleShard;

static void keep_error(ModuleShard *part, const char *text) {
  if (!part->error[0]) snprintf(part->error, sizeof part->error, "%s", text ? text : "unknown LLVM error");
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx) {
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char *text = LLVMGetDiagInfoDescription(info);
  keep_error(ctx, text);
  LLVMDisposeMessage(text);
}

static bool open_part(ModuleShard *part, const Target *t) {
  part->ctx = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(part->ctx, on_diagnostic, part);
  part->mod = LLVMModuleCreateWithNameInContext("tenure", part->ctx);
  char *host = t->triple ? NULL : LLVMGetDefaultTargetTriple(), *error = NULL;
  const char *triple = t->triple ? t->triple : host;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &error)) {
    keep_error(part, error);
    LLVMDisposeMessage(error);
  } else {
    part->tm = LLVMCreateTargetMachine(target, triple, t->cpu, t->features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                       LLVMCodeModelDefault);
    LLVMSetTarget(part->mod, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(part->tm);
    LLVMSetModuleDataLayout(part->mod, layout);
    LLVMDisposeTargetData(layout);
  }
  if (host) LLVMDisposeMessage(host);
  return !part->error[0];
}

static void set_types(Cg *c) {
  uint32_t vl = c->t->vl;
  c->i1 = LLVMInt1TypeInContext(c->ctx);
  c->i8 = LLVMInt8TypeInContext(c->ctx);
  c->i32 = LLVMInt32TypeInContext(c->ctx);
  c->i64 = LLVMInt64TypeInContext(c->ctx);
  c->f32 = LLVMFloatTypeInContext(c->ctx);
  c->f64 = LLVMDoubleTypeInContext(c->ctx);
  c->ptr = LLVMPointerTypeInContext(c->ctx, 0);
  c->vf = LLVMVectorType(c->f32, vl);
  c->vi32 = LLVMVectorType(c->i32, vl);
  c->vi64 = LLVMVectorType(c->i64, vl);
  c->vmask = LLVMVectorType(c->i1, vl);
}

// ---- one kernel
static void set_parameters(Cg *c, const KernelCall *call) {
  uint32_t n = 3;
  c->frame = LLVMGetParam(c->fn, 0);
  c->worker = LLVMBuildSExt(c->b, LLVMGetParam(c->fn, 1), c->i64, "worker");
  c->n_workers = LLVMBuildSExt(c->b, LLVMGetParam(c->fn, 2), c->i64, "n_workers");
  c->kernel_args = call->kernel_args, c->n_kernel_args = call->n_kernel_args;
  c->dims = call->dims, c->n_dims = call->n_dims;
  c->ids = call->ids, c->n_ids = call->n_ids;
  c->kernel_arg_ptr = rt_alloc(c->mem, (c->n_kernel_args + 1) * sizeof *c->kernel_arg_ptr);
  c->dim_val = rt_alloc(c->mem, (c->n_dims + 1) * sizeof *c->dim_val);
  c->id_val = rt_alloc(c->mem, (c->n_ids + 1) * sizeof *c->id_val);
  for (uint32_t k = 0; k < c->n_kernel_args; k++) c->kernel_arg_ptr[k] = LLVMGetParam(c->fn, n++);
  c->scratch = call->k->scratch ? LLVMGetParam(c->fn, n++) : NULL;
  c->weight = call->weight ? LLVMGetParam(c->fn, n++) : NULL;
  for (uint32_t k = 0; k < c->n_dims; k++) c->dim_val[k] = LLVMGetParam(c->fn, n++);
  for (uint32_t k = 0; k < c->n_ids; k++) c->id_val[k] = LLVMGetParam(c->fn, n++);
}

static void begin_kernel(Cg *c, const ModulePlan *plan, uint32_t code) {
  c->fn = LLVMAddFunction(c->mod, cg_kernel_symbol(plan, code), cg_kernel_type(c, plan->codes[code]));
  LLVMSetVisibility(c->fn, LLVMHiddenVisibility);
  LLVMPositionBuilderAtEnd(c->b, LLVMAppendBasicBlockInContext(c->ctx, c->fn, "entry"));
}

static bool emit_kernel(Cg *c, const ModulePlan *plan, uint32_t code) {
  const KernelCall *call = plan->codes[code];
  if (call->n_initial) {
    begin_kernel(c, plan, code);
    cg_emit_fill(c, plan);
    LLVMBuildRetVoid(c->b);
    return true;
  }
  EmitFn *emit = cg_kernel_emitter((OpClass)call->k->cls);
  if (!emit && !call->body) {
    rt_text_add(c->why, "no code for kernels of class %s", ir_class_name((OpClass)call->k->cls));
    return false;
  }
  c->f = call->f;
  c->k = call->k;
  begin_kernel(c, plan, code);
  set_parameters(c, call);
  size_t said = c->why->len;
  bool good = call->body ? cg_emit_scan(c, plan, call) : emit(c);
  if (!good || c->why->len != said) {
    if (c->why->len == said) rt_text_add(c->why, "a kernel of class %s failed", ir_class_name((OpClass)call->k->cls));
    return false;
  }
  if (!LLVMGetBasicBlockTerminator(LLVMGetInsertBlock(c->b))) LLVMBuildRetVoid(c->b);
  return true;
}

static void add_attribute(Cg *c, LLVMValueRef fn, const char *key, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(c->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
}

// Without these LLVM splits 512-bit vectors in two.
static void set_attributes(Cg *c) {
  const char *bits = c->t->vl == 16 ? "512" : c->t->vl == 8 ? "256" : "128";
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  for (LLVMValueRef fn = LLVMGetFirstFunction(c->mod); fn; fn = LLVMGetNextFunction(fn)) {
    if (LLVMIsDeclaration(fn)) continue;
    add_attribute(c, fn, "prefer-vector-width", bits);
    add_attribute(c, fn, "min-legal-vector-width", bits);
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(c->ctx, nounwind, 0));
  }
}

static bool build_part(const ModulePlan *plan, ModuleShard *part, const uint8_t *part_of, uint32_t number) {
  Cg c = {.ctx = part->ctx, .mod = part->mod, .t = plan->t, .mem = plan->mem, .why = plan->why};
  set_types(&c);
  c.b = LLVMCreateBuilderInContext(c.ctx);
  bool ok = true;
  for (uint32_t k = 0; ok && k < plan->n_codes; k++) {
    if (part_of[k] != number) continue;
    cg_child_doing("building kernel %s", cg_kernel_name(plan, plan->codes[k]));
    ok = emit_kernel(&c, plan, k);
  }
  for (uint32_t k = 0; ok && number == 0 && k < plan->n_entries; k++) cg_emit_entry(&c, plan, &plan->entries[k]);
  if (ok && number == 0 && plan->p->n_packed_weights) cg_emit_packed_weights(&c, plan);
  if (ok && number == 0 && plan->profile) cg_profile_emit(&c, plan);
  if (ok) set_attributes(&c);
  return ok;
}

// ---- passes and code
static bool verify(ModuleShard *part) {
#ifndef NDEBUG
  char *text = NULL;
  if (LLVMVerifyModule(part->mod, LLVMReturnStatusAction, &text)) keep_error(part, text);
  LLVMDisposeMessage(text);
#endif
  return !part->error[0];
}

static void run_passes(ModuleShard *part) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef e = LLVMRunPasses(part->mod, pass_list, part->tm, options);
  LLVMDisposePassBuilderOptions(options);
  if (e) {
    char *text = LLVMGetErrorMessage(e);
    keep_error(part, text);
    LLVMDisposeErrorMessage(text);
  }
}

static void *finish_part(void *arg) {
  ModuleShard *part = arg;
  if (!verify(part)) return NULL;
  run_passes(part);
  if (part->error[0]) return NULL;
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(part->tm, part->mod, LLVMObjectFile, &error, &part->object)) {
    keep_error(part, error);
    LLVMDisposeMessage(error);
  }
  return NULL;
}

static void finish_all(ModuleShard *part, uint32_t n) {
  for (uint32_t k = 1; k < n; k++)
    part[k].has_thread = cg_child_may_have_threads() && !pthread_create(&part[k].thread, NULL, finish_part, &part[k]);
  finish_part(&part[0]);
  for (uint32_t k = 1; k < n; k++) {
    if (part[k].has_thread) pthread_join(part[k].thread, NULL);
    else finish_part(&part[k]);
  }
}

// ---- kernels to modules: LPT scheduling

typedef struct {
  uint32_t cost, code;
} CompileCost;

static int by_cost(const void *a, const void *b) {
  const CompileCost *x = a, *y = b;
  if (x->cost != y->cost) return x->cost > y->cost ? -1 : 1;
  return x->code < y->code ? -1 : 1;
}

// The most expensive kernel left goes to the module with the least load.
static uint32_t partition_kernels(const ModulePlan *plan, uint8_t *part_of) {
  enum { PART_COST = 8 };
  uint64_t total = 0, load[MAX_PARTS] = {0};
  CompileCost *costs = rt_alloc(plan->mem, (plan->n_codes + 1) * sizeof *costs);
  for (uint32_t k = 0; k < plan->n_codes; k++) {
    costs[k] = (CompileCost){cg_kernel_compile_cost(plan->codes[k]->k), k};
    total += costs[k].cost;
  }
  uint32_t n = total / PART_COST < 1 ? 1 : total / PART_COST < MAX_PARTS ? (uint32_t)(total / PART_COST) : MAX_PARTS;
  qsort(costs, plan->n_codes, sizeof *costs, by_cost);
  for (uint32_t k = 0; k < plan->n_codes; k++) {
    uint32_t to = 0;
    for (uint32_t part = 1; part < n; part++)
      if (load[part] < load[to]) to = part;
    part_of[costs[k].code] = (uint8_t)to;
    load[to] += costs[k].cost;
  }
  return n;
}

static bool link_parts(const ModulePlan *plan, const ModuleShard *part, uint32_t n, CgObject *out) {
  CgObject file[MAX_PARTS];
  for (uint32_t k = 0; k < n; k++) {
    if (part[k].error[0]) return rt_text_add(plan->why, "LLVM: %s", part[k].error), false;
    file[k].bytes = (void *)(uintptr_t)LLVMGetBufferStart(part[k].object);
    file[k].size = LLVMGetBufferSize(part[k].object);
  }
  return cg_link(plan->mem, file, n, out, plan->why);
}

static bool build_parts(const ModulePlan *plan, ModuleShard *part, const uint8_t *part_of, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (!open_part(&part[k], plan->t)) return rt_text_add(plan->why, "LLVM: %s", part[k].error), false;
    if (!build_part(plan, &part[k], part_of, k)) return false;
  }
  return true;
}

static const char *costliest_kernel(const ModulePlan *plan) {
  const KernelCall *most = plan->n_codes ? plan->codes[0] : NULL;
  for (uint32_t k = 0; k < plan->n_codes; k++)
    if (cg_kernel_compile_cost(plan->codes[k]->k) > cg_kernel_compile_cost(most->k)) most = plan->codes[k];
  return most ? cg_kernel_name(plan, most) : "none";
}

static bool generate(const ModulePlan *plan, CgObject *out) {
  ModuleShard part[MAX_PARTS] = {0};
  uint8_t *part_of = rt_alloc(plan->mem, plan->n_codes + 1);
  uint32_t n = partition_kernels(plan, part_of);
  if (!build_parts(plan, part, part_of, n)) return false;
  cg_child_doing("LLVM compiled kernels: %u, of which the largest is %s", plan->n_codes, costliest_kernel(plan));
  finish_all(part, n);
  cg_child_doing("linking");
  return link_parts(plan, part, n, out);
}

// ---- the compiler process
static void on_fatal_error(const char *reason) {
  char text[512];
  snprintf(text, sizeof text, "LLVM: %s", reason);
  cg_child_fail(CG_NO_CODE, text);
}

static void on_no_memory(void) { cg_child_fail(CG_NO_MEMORY, "the compiler ran out of memory"); }

// By its symbol in the C++ library, since LLVM's C interface has no word for it. What LLVM takes by malloc it checks
// itself, and says so on stderr before it aborts.
static void install_new_handler(void) {
  void (*(*set_new_handler)(void (*)(void)))(void) = NULL;
  void *found = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
  memcpy(&set_new_handler, &found, sizeof set_new_handler);
  if (set_new_handler) set_new_handler(on_no_memory);
}

static void init_llvm(void) {
  install_new_handler();
  LLVMInstallFatalErrorHandler(on_fatal_error);
  LLVMInitializeAllTargetInfos();
  LLVMInitializeAllTargets();
  LLVMInitializeAllTargetMCs();
  LLVMInitializeAllAsmPrinters();
}

static void compile_in_child(void *ctx) {
  const ModulePlan *plan = ctx;
  CgObject image;
  jmp_buf here;
  if (setjmp(here)) cg_child_fail(CG_NO_MEMORY, "out of memory");
  rt_arena_on_oom(plan->mem, &here);
  init_llvm();
  if (generate(plan, &image)) cg_child_answer(&image);
  cg_child_fail(CG_NO_CODE, plan->why->text);
}

static bool compile(ModulePlan *plan, const CgLimits *limits, CgObject *out, CgInfo *info) {
  ChildAnswer a = cg_run_child(limits, compile_in_child, plan, plan->why);
  info->failure = a.failure;
  *out = (CgObject){a.data, a.size};
  return a.failure == CG_NO_FAILURE;
}

bool cg_compile(Prog *p, const Target *t, const CgOptions *o, CgObject *out, CgInfo *info, RtText *why) {
  double start = rt_now_ms();
  CgInfo unused;
  const CgOptions defaults = {0};
  if (!o) o = &defaults;
  if (!info) info = &unused;
  *info = (CgInfo){.failure = CG_NO_CODE};
  *out = (CgObject){0};
  ModulePlan plan = {.p = p,
                     .t = t,
                     .mem = p->mem,
                     .keys = {.mem = p->mem},
                     .profile = cg_profile_wanted() || cg_trace_wanted(),
                     .trace = cg_trace_wanted(),
                     .why = why};
  cg_place_packed_weights(p, t);
  if (!make_plan(&plan)) return false;
  for (uint32_t k = 0; k < plan.n_entries; k++) info->n_kernels += plan.entries[k].n_calls;
  info->n_distinct = plan.n_codes;
  RtText key = {plan.mem, NULL, 0, 0};
  put_key(&plan, &key);
  info->from_cache = cg_cache_read(o->cache_dir, &key, out, info->no_cache, sizeof info->no_cache);
  bool ok = info->from_cache || compile(&plan, &o->limits, out, info);
  if (ok && !info->from_cache) cg_cache_write(o->cache_dir, &key, out);
  if (ok) info->failure = CG_NO_FAILURE;
  info->codegen_ms = rt_now_ms() - start;
  return ok;
}
