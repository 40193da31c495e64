// One LLVM module: some of the program's kernels, and in module 0 what there is once: entries, tables, packed weights.
//
// Functions that kernels share (cg_helper) stand in the module that needed them first; later ones declare them.
#include "codegen/module/emit.h"
#include "codegen/emitters.h"
#include "codegen/module/child.h"

#include <string.h>

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
  c->kernel_args = call->kernel_args, c->n_kernel_args = call->n_kernel_args;
  const KernelCall *w = call->whole;
  c->whole = w ? (CgWhole){w->f, w->k, w->kernel_args, w->n_kernel_args} : (CgWhole){0};
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
  cg_begin_blocks(c);
  c->frame = LLVMGetParam(c->fn, 0);
  c->worker = LLVMBuildSExt(c->b, LLVMGetParam(c->fn, 1), c->i64, "worker");
  c->n_workers = LLVMBuildSExt(c->b, LLVMGetParam(c->fn, 2), c->i64, "n_workers");
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

static void add_attribute(Cg *c, V fn, const char *key, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(c->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
}

static bool is_fabs(V v) {
  return LLVMIsACallInst(v) && LLVMGetIntrinsicID(LLVMGetCalledValue(v)) == LLVMLookupIntrinsicID("llvm.fabs", 9);
}

static bool may_be_zero(V v) {
  LLVMBool loses;
  bool is_vector = LLVMIsConstant(v) && LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind, any = false;
  for (unsigned k = 0; is_vector && !any && k < LLVMGetVectorSize(LLVMTypeOf(v)); k++)
    any = may_be_zero(LLVMGetAggregateElement(v, k));
  return is_vector ? any : !LLVMIsAConstantFP(v) || LLVMConstRealGetDouble(v, &loses) == 0;
}

static bool compares_size_with_zero(V fn) {
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (V i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
      if (LLVMGetInstructionOpcode(i) != LLVMFCmp) continue;
      V x = LLVMGetOperand(i, 0), y = LLVMGetOperand(i, 1);
      if ((is_fabs(x) && may_be_zero(y)) || (is_fabs(y) && may_be_zero(x))) return true;
    }
  return false;
}

// LLVM 19 takes the sign bit of x to be clear where |x| > 0 (its fcmpImpliesClass looks through the fabs and
// forgets it), so that it drops |x|, sign and the like behind a select. It concludes nothing from a comparison with 0 where
// denormals may count as 0, as "dynamic" says: a function that could be misread has that attribute. The others do not,
// since LLVM then keeps some sums with 0.
static void guard_comparisons(Cg *c, V fn) {
  if (compares_size_with_zero(fn)) add_attribute(c, fn, "denormal-fp-math", "dynamic,dynamic");
}

// Not where vectors are passed whole: to another function, or to an instruction of the CPU by its name.
static bool is_halved(V fn) {
  static const char own[] = "llvm.x86.";
  if (!cg_may_halve_vectors(fn)) return false;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (V i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
      size_t n = 0;
      V callee = LLVMGetInstructionOpcode(i) == LLVMCall ? LLVMGetCalledValue(i) : NULL;
      if (callee && (!LLVMIsAFunction(callee) || !LLVMGetIntrinsicID(callee))) return false;
      if (callee && !strncmp(LLVMGetValueName2(callee, &n), own, sizeof own - 1)) return false;
    }
  return true;
}

// Without these LLVM splits 512-bit vectors in two. Functions of other modules have them too: what LLVM does around a call
// does not depend on where the function stands.
static void set_attributes(Cg *c) {
  const char *bits = c->t->vl == 16 ? "512" : c->t->vl == 8 ? "256" : "128", *half = c->t->vl == 16 ? "256" : "128";
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  for (V fn = LLVMGetFirstFunction(c->mod); fn; fn = LLVMGetNextFunction(fn)) {
    if (LLVMGetIntrinsicID(fn)) continue;
    const char *own = is_halved(fn) ? half : bits;
    add_attribute(c, fn, "prefer-vector-width", own);
    add_attribute(c, fn, "min-legal-vector-width", own);
    guard_comparisons(c, fn);
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(c->ctx, nounwind, 0));
  }
}

// ---- one module
static bool emit_kernels(Cg *c, const ModulePlan *plan, const ModulePart *part) {
  for (uint32_t k = part->first; k < part->first + part->n; k++) {
    cg_child_doing("building kernel %s", cg_kernel_name(plan, plan->codes[k]));
    if (!emit_kernel(c, plan, k)) return false;
    plan->block_bytes[k] = c->frame_used;
  }
  return true;
}

static void emit_entries(Cg *c, const ModulePlan *plan) {
  cg_child_doing("building entries");
  for (uint32_t k = 0; k < plan->n_entries; k++) cg_emit_entry(c, plan, &plan->entries[k]);
  if (plan->p->n_packed_weights) cg_emit_packed_weights(c, plan);
  if (plan->profile) cg_profile_emit(c, plan);
}

static bool emit(Cg *c, const ModulePlan *plan, const ModulePart *part) {
  if (!emit_kernels(c, plan, part)) return false;
  if (part->has_entries) emit_entries(c, plan);
  set_attributes(c);
  return true;
}

bool cg_emit_module(const ModulePlan *plan, const ModulePart *part, RtNames *helpers, RtArena *mem, LLVMModuleRef mod) {
  Cg c = {.ctx = LLVMGetModuleContext(mod),
          .mod = mod,
          .t = plan->t,
          .program = plan->symbol,
          .helpers = helpers,
          .mem = mem,
          .why = plan->why};
  set_types(&c);
  c.b = LLVMCreateBuilderInContext(c.ctx);
  bool good = emit(&c, plan, part);
  LLVMDisposeBuilder(c.b);
  return good;
}
