// LLVM in this process; one module: open it for a target, run LLVM's passes, emit an object.
#include "codegen/module/llvm_module.h"
#include "codegen/module/child.h"
#include "codegen/module/emit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Transforms/PassBuilder.h>

// The emitters produce vector code; what remains is constant folding, CSE and LICM. "default<O1>" costs more than all
// the rest of code generation.
#define QUICK_PASSES "function(early-cse,instcombine<no-verify-fixpoint>,loop-mssa(licm))"
const CgPipeline cg_quick_pipeline = {QUICK_PASSES, LLVMCodeGenLevelDefault};

const CgPipeline *cg_process_pipeline(void) {
  static const CgPipeline at_o0 = {QUICK_PASSES, LLVMCodeGenLevelNone};
  const char *level = getenv("TN_LLVM");
  return level && !strcmp(level, "O0") ? &at_o0 : &cg_quick_pipeline;
}

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

static void install_handlers(void) {
  install_new_handler();
  LLVMInstallFatalErrorHandler(on_fatal_error);
}

static void init_all(void) {
  LLVMInitializeAllTargetInfos();
  LLVMInitializeAllTargets();
  LLVMInitializeAllTargetMCs();
  LLVMInitializeAllAsmPrinters();
}

void cg_init_llvm(void) {
  install_handlers();
  init_all();
}

void cg_init_llvm_for(const char *triple) {
  LLVMTargetRef found;
  char *why = NULL;
  install_handlers();
  bool is_here = !LLVMInitializeNativeTarget() && !LLVMInitializeNativeAsmPrinter();
  if (!is_here || (triple && LLVMGetTargetFromTriple(triple, &found, &why))) init_all();
  LLVMDisposeMessage(why);
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

LLVMTargetMachineRef cg_make_machine(const Target *t, const CgPipeline *how, char error[CG_ERROR_SIZE]) {
  char *host = t->triple ? NULL : LLVMGetDefaultTargetTriple(), *text = NULL;
  const char *triple = t->triple ? t->triple : host;
  LLVMTargetRef target;
  bool good = !LLVMGetTargetFromTriple(triple, &target, &text);
  if (!good) snprintf(error, CG_ERROR_SIZE, "%s", text);
  if (!good) LLVMDisposeMessage(text);
  LLVMTargetMachineRef tm = good ? machine_of(target, triple, t, how->level) : NULL;
  if (host) LLVMDisposeMessage(host);
  return tm;
}

void cg_open_module(CgModule *m, LLVMContextRef ctx, LLVMTargetMachineRef tm, const CgPipeline *how) {
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  char *triple = LLVMGetTargetMachineTriple(tm);
  *m = (CgModule){.how = how, .ctx = ctx ? ctx : LLVMContextCreate(), .tm = tm};
  LLVMContextSetDiagnosticHandler(m->ctx, on_diagnostic, m);
  m->mod = LLVMModuleCreateWithNameInContext("tenure", m->ctx);
  LLVMSetTarget(m->mod, triple);
  LLVMSetModuleDataLayout(m->mod, layout);
  LLVMDisposeMessage(triple);
  LLVMDisposeTargetData(layout);
}

void cg_close_module(CgModule *m) {
  LLVMDisposeModule(m->mod);
  LLVMContextDispose(m->ctx);
}

bool cg_build_module(const ModulePlan *plan, CgModule *m) {
  ModulePart all = {.n = plan->n_codes, .has_entries = true};
  RtNames helpers = {.mem = plan->mem};
  return cg_emit_module(plan, &all, &helpers, plan->mem, m->mod);
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

// ---- selects between zeros
static bool is_number_but_zero(V v) {
  LLVMBool loses;
  bool is_vector = LLVMIsConstant(v) && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind, all = true;
  for (unsigned k = 0; is_vector && all && k < LLVMGetVectorSize(LLVMTypeOf(v)); k++)
    all = is_number_but_zero(LLVMGetAggregateElement(v, k));
  return is_vector ? all : LLVMIsAConstantFP(v) && LLVMConstRealGetDouble(v, &loses) != 0;
}

static LLVMRealPredicate inverse_of(LLVMRealPredicate p) {
  switch (p) {
  case LLVMRealOLT: return LLVMRealUGE;
  case LLVMRealOGT: return LLVMRealULE;
  case LLVMRealULT: return LLVMRealOGE;
  case LLVMRealUGT: return LLVMRealOLE;
  default: return LLVMRealPredicateFalse;
  }
}

// The comparison of v = x < y ? x : y and the like; NULL: it is none of them, or the two are never both 0.
static V extreme_by(V v) {
  if (LLVMGetInstructionOpcode(v) != LLVMSelect) return NULL;
  V c = LLVMGetOperand(v, 0), yes = LLVMGetOperand(v, 1), no = LLVMGetOperand(v, 2);
  if (!LLVMIsAInstruction(c) || LLVMGetInstructionOpcode(c) != LLVMFCmp) return NULL;
  V x = LLVMGetOperand(c, 0), y = LLVMGetOperand(c, 1);
  bool is_extreme = (x == yes && y == no) || (x == no && y == yes);
  return is_extreme && !is_number_but_zero(x) && !is_number_but_zero(y) && inverse_of(LLVMGetFCmpPredicate(c)) ? c
                                                                                                               : NULL;
}

// Instruction selection of LLVM 19 makes a minimum or maximum of x < y ? x : y. Of two zeros that gives either, the select one of
// them; only x86 has instructions that give the same. It does not do so where the comparison holds for equal numbers: the
// inverse one, with the operands of the select exchanged.
static void keep_zeros(CgModule *m) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->ctx);
  for (V fn = LLVMGetFirstFunction(m->mod); fn; fn = LLVMGetNextFunction(fn))
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(fn); block; block = LLVMGetNextBasicBlock(block))
      for (V v = LLVMGetFirstInstruction(block), next; v; v = next) {
        next = LLVMGetNextInstruction(v);
        V c = extreme_by(v);
        if (!c) continue;
        LLVMPositionBuilderBefore(b, v);
        V turned =
            LLVMBuildFCmp(b, inverse_of(LLVMGetFCmpPredicate(c)), LLVMGetOperand(c, 0), LLVMGetOperand(c, 1), "");
        LLVMReplaceAllUsesWith(v, LLVMBuildSelect(b, turned, LLVMGetOperand(v, 2), LLVMGetOperand(v, 1), ""));
        LLVMInstructionEraseFromParent(v);
      }
  LLVMDisposeBuilder(b);
}

static bool is_x86(const CgModule *m) {
  const char *triple = LLVMGetTarget(m->mod);
  return !strncmp(triple, "x86", 3) || !strncmp(triple, "i686", 4);
}

bool cg_optimise_module(CgModule *m) {
  if (verify(m)) run_passes(m);
  if (!m->error[0] && !is_x86(m)) keep_zeros(m);
  return !m->error[0];
}

bool cg_finish_module(CgModule *m) {
  char *error = NULL;
  if (!cg_optimise_module(m)) return false;
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
  if (!cg_optimise_module(m)) return false;
  if (as_assembly) return emit_assembly(m, out);
  char *text = LLVMPrintModuleToString(m->mod);
  *out = (CgObject){text, strlen(text)};
  return true;
}
