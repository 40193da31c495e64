// One LLVM module: open it for a target, build kernels and entries in it, run LLVM's passes, emit an object.
#include "codegen/module/llvm_module.h"
#include "codegen/module/child.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>

// The emitters produce vector code; what remains is constant folding, CSE and LICM. "default<O1>" costs more than all
// the rest of code generation.
const CgPipeline cg_quick_pipeline = {"function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm))",
                                      LLVMCodeGenLevelDefault};

// ---- LLVM in this process
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

void cg_init_llvm(void) {
  install_new_handler();
  LLVMInstallFatalErrorHandler(on_fatal_error);
  LLVMInitializeAllTargetInfos();
  LLVMInitializeAllTargets();
  LLVMInitializeAllTargetMCs();
  LLVMInitializeAllAsmPrinters();
}

// ---- errors
static void keep_error(CgModule *m, const char *text) {
  if (!m->error[0]) snprintf(m->error, sizeof m->error, "%s", text ? text : "unknown LLVM error");
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx) {
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char *text = LLVMGetDiagInfoDescription(info);
  keep_error(ctx, text);
  LLVMDisposeMessage(text);
}

// ---- the target
static LLVMTargetMachineRef machine_of(LLVMTargetRef target, const char *triple, const Target *t,
                                       LLVMCodeGenOptLevel level) {
  LLVMTargetMachineOptionsRef o = LLVMCreateTargetMachineOptions();
  LLVMTargetMachineOptionsSetCPU(o, t->cpu);
  LLVMTargetMachineOptionsSetFeatures(o, t->features);
  if (t->abi) LLVMTargetMachineOptionsSetABI(o, t->abi);
  LLVMTargetMachineOptionsSetCodeGenOptLevel(o, level);
  LLVMTargetMachineOptionsSetRelocMode(o, t->fixed_place ? LLVMRelocStatic : LLVMRelocPIC);
  LLVMTargetMachineOptionsSetCodeModel(o, LLVMCodeModelDefault);
  LLVMTargetMachineRef tm = LLVMCreateTargetMachineWithOptions(target, triple, o);
  LLVMDisposeTargetMachineOptions(o);
  return tm;
}

static void set_target(CgModule *m, const Target *t, LLVMCodeGenOptLevel level, const char *triple) {
  char *error = NULL;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &error)) {
    keep_error(m, error);
    LLVMDisposeMessage(error);
    return;
  }
  m->tm = machine_of(target, triple, t, level);
  LLVMSetTarget(m->mod, triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m->tm);
  LLVMSetModuleDataLayout(m->mod, layout);
  LLVMDisposeTargetData(layout);
}

bool cg_open_module(CgModule *m, const Target *t, const CgPipeline *how) {
  *m = (CgModule){.how = how, .ctx = LLVMContextCreate()};
  LLVMContextSetDiagnosticHandler(m->ctx, on_diagnostic, m);
  m->mod = LLVMModuleCreateWithNameInContext("tenure", m->ctx);
  char *host = t->triple ? NULL : LLVMGetDefaultTargetTriple();
  set_target(m, t, how->level, t->triple ? t->triple : host);
  if (host) LLVMDisposeMessage(host);
  return !m->error[0];
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
  if (call->n_fills) {
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

// All entries are in the first module.
static void emit_entries(Cg *c, const ModulePlan *plan) {
  for (uint32_t k = 0; k < plan->n_entries; k++) cg_emit_entry(c, plan, &plan->entries[k]);
  if (plan->p->n_packed_weights) cg_emit_packed_weights(c, plan);
  if (plan->profile) cg_profile_emit(c, plan);
}

bool cg_build_module(const ModulePlan *plan, CgModule *m, const uint8_t *part_of, uint32_t number) {
  Cg c = {.ctx = m->ctx, .mod = m->mod, .t = plan->t, .mem = plan->mem, .why = plan->why};
  set_types(&c);
  c.b = LLVMCreateBuilderInContext(c.ctx);
  for (uint32_t k = 0; k < plan->n_codes; k++) {
    if (part_of && part_of[k] != number) continue;
    cg_child_doing("building kernel %s", cg_kernel_name(plan, plan->codes[k]));
    if (!emit_kernel(&c, plan, k)) return false;
  }
  if (number == 0) emit_entries(&c, plan);
  set_attributes(&c);
  return true;
}

// ---- passes and code
static bool verify(CgModule *m) {
#ifndef NDEBUG
  char *text = NULL;
  if (LLVMVerifyModule(m->mod, LLVMReturnStatusAction, &text)) keep_error(m, text);
  LLVMDisposeMessage(text);
#endif
  return !m->error[0];
}

static void run_passes(CgModule *m) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef e = LLVMRunPasses(m->mod, m->how->passes, m->tm, options);
  LLVMDisposePassBuilderOptions(options);
  if (e) {
    char *text = LLVMGetErrorMessage(e);
    keep_error(m, text);
    LLVMDisposeErrorMessage(text);
  }
}

bool cg_finish_module(CgModule *m) {
  char *error = NULL;
  if (!verify(m)) return false;
  run_passes(m);
  if (m->error[0]) return false;
  if (LLVMTargetMachineEmitToMemoryBuffer(m->tm, m->mod, LLVMObjectFile, &error, &m->object)) {
    keep_error(m, error);
    LLVMDisposeMessage(error);
  }
  return !m->error[0];
}

CgObject cg_module_object(const CgModule *m) {
  return (CgObject){(void *)(uintptr_t)LLVMGetBufferStart(m->object), LLVMGetBufferSize(m->object)};
}

static bool emit_assembly(CgModule *m, CgObject *out) {
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(m->tm, m->mod, LLVMAssemblyFile, &error, &m->object)) {
    keep_error(m, error);
    LLVMDisposeMessage(error);
    return false;
  }
  *out = cg_module_object(m);
  return !m->error[0];
}

bool cg_module_text(CgModule *m, bool as_assembly, CgObject *out) {
  if (!verify(m)) return false;
  run_passes(m);
  if (m->error[0]) return false;
  if (as_assembly) return emit_assembly(m, out);
  char *text = LLVMPrintModuleToString(m->mod);
  *out = (CgObject){text, strlen(text)};
  return true;
}
