#include "codegen/bundle/emit.h"
#include "codegen/bundle/constants.h"
#include "codegen/bundle/hole.h"
#include "codegen/bundle/stack.h"
#include "codegen/bundle/support_code.h"
#include "codegen/c99/c99.h"
#include "codegen/cpu_features.h"
#include "codegen/module/child.h"
#include "codegen/module/llvm_module.h"
#include "codegen/module/undefined.h"
#include "ir/passes/plan.h"

#include <string.h>
#include <sys/mman.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/Linker.h>

// Kernels are called from one place with constant numbers of workers: what that leaves unused goes.
static const CgPipeline bundle_pipeline = {"globaldce,ipsccp,function(early-cse,instcombine<no-verify-fixpoint>,loop-"
                                           "mssa(licm),simplifycfg),constmerge,globaldce",
                                           LLVMCodeGenLevelDefault};

enum { MAX_ENTRIES = 256, MAX_HOLES = 16 };  // entries: of one function, by target and variant

// A large constant of which the module has zeros: the bytes are put into the object.
typedef struct {
  uint64_t offset, size;
  uint64_t source;  // a target, whose constants they are; WEIGHTS
} Hole;
enum { WEIGHTS = 1000 };

typedef struct {
  RtArena *mem;
  const CgBundle *b;
  const TnBundleAbout *about;
  ModulePlan *plans;  // by target
  CgModule *modules;  // by target; the first becomes the object
  LLVMModuleRef mod;
  LLVMContextRef ctx;
  LLVMBuilderRef builder;
  int64_t *block_bytes;  // by target and function of the plan
  CgConstants k;
  Hole holes[MAX_HOLES];
  LLVMValueRef hole_of[MAX_HOLES];
  uint32_t n_holes;
  CgStack stack;
  size_t *stack_bytes;  // by function of the header, NAME_init behind them
  RtText *why;
} Emission;

static bool fail(const Emission *e, const char *what) { return rt_text_add(e->why, "LLVM: %s", what), false; }

// ---- kernels and entries of one target
static const char *entry_symbol(const Emission *e, uint32_t target, uint32_t entry) {
  return rt_printf(e->mem, "%s.t%u.e%u", e->about->name, target, entry);
}

static void set_attribute(LLVMContextRef ctx, LLVMValueRef fn, const char *key, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
}

static unsigned flag_kind(const char *name) { return LLVMGetEnumAttributeKindForName(name, strlen(name)); }

static void set_flag(LLVMContextRef ctx, LLVMValueRef fn, const char *name) {
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(ctx, flag_kind(name), 0));
}

// Entries, which the quick pipeline leaves as they are, are optimised here like all others.
static void set_function(const Emission *e, LLVMValueRef fn, const Target *t) {
  LLVMContextRef ctx = LLVMGetModuleContext(LLVMGetGlobalParent(fn));
  LLVMRemoveEnumAttributeAtIndex(fn, LLVMAttributeFunctionIndex, flag_kind("optnone"));
  if (e->about->n_targets > 1) {
    set_attribute(ctx, fn, "target-cpu", t->cpu);
    set_attribute(ctx, fn, "target-features", t->features);
  }
  if (e->b->small) set_flag(ctx, fn, "optsize");  // not minsize, by which wide shifts become calls of a library
  LLVMSetLinkage(fn, LLVMInternalLinkage);
}

static bool build_target(Emission *e, uint32_t target) {
  ModulePlan *plan = &e->plans[target];
  CgModule *m = &e->modules[target];
  LLVMTargetMachineRef machine = cg_make_machine(plan->t, &bundle_pipeline, m->error);
  if (!machine) return fail(e, m->error);
  cg_open_module(m, e->ctx, machine, &bundle_pipeline);
  if (!cg_build_module(plan, m)) return false;
  for (LLVMValueRef fn = LLVMGetFirstFunction(m->mod); fn; fn = LLVMGetNextFunction(fn))
    if (!LLVMIsDeclaration(fn)) set_function(e, fn, plan->t);
  for (uint32_t k = 0; k < plan->n_entries; k++) {
    LLVMValueRef fn = LLVMGetNamedFunction(m->mod, plan->entries[k].symbol);
    const char *symbol = entry_symbol(e, target, k);
    LLVMSetValueName2(fn, symbol, strlen(symbol));
    LLVMSetLinkage(fn, LLVMExternalLinkage);
  }
  return true;
}

static uint32_t entry_of(const RtPlan *p, uint32_t function, uint32_t variant) {
  if (variant >= p->functions[function].n_variants) return function;
  uint32_t entry = p->n_functions + variant;
  for (uint32_t f = 0; f < function; f++) entry += p->functions[f].n_variants;
  return entry;
}

static void note_blocks(const Emission *e) {
  int64_t *out = e->block_bytes;
  for (uint32_t t = 0; t < e->about->n_targets; t++) {
    const RtPlan *p = e->about->plans[t];
    for (uint32_t f = 0; f < p->n_functions; f++, out++)
      for (uint32_t v = 0; v <= p->functions[f].n_variants; v++)
        *out = cg_larger(*out, cg_block_bytes(&e->plans[t], &e->plans[t].entries[entry_of(p, f, v)]));
  }
  cg_bundle_set_arenas(e->b->facts, e->block_bytes, !e->b->has_workers);
}

static bool link_module(const Emission *e, LLVMModuleRef other) {
  return !LLVMLinkModules2(e->mod, other) || fail(e, "modules could not be linked");
}

// Whether structs lie alike: x86_64-linux-gnux32 has 32-bit pointers where x86_64 has others.
static bool same_layout(LLVMModuleRef a, LLVMModuleRef b) {
  LLVMTargetDataRef x = LLVMGetModuleDataLayout(a), y = LLVMGetModuleDataLayout(b);
  LLVMTypeRef types[] = {LLVMInt64TypeInContext(LLVMGetModuleContext(a)),
                         LLVMDoubleTypeInContext(LLVMGetModuleContext(a))};
  bool same = LLVMPointerSize(x) == LLVMPointerSize(y);
  for (size_t k = 0; k < 2; k++) same &= LLVMABIAlignmentOfType(x, types[k]) == LLVMABIAlignmentOfType(y, types[k]);
  return same;
}

// Support code has the target's own instructions, as all code of a machine that is linked for its CPU. Where a program asks
// for the CPU, that code runs before it is known: then it is compiled for the plainest one of the architecture, less what the
// target is said to lack.
static void set_support_target(const Emission *e, LLVMModuleRef support) {
  const Target *t = e->b->targets[0];
  const CgPlainCpu *plain = cg_plain_cpu(t->triple);
  const char *features = plain ? cg_plain_features(e->mem, plain, t->features) : NULL;
  static const char *const keys[] = {"target-cpu", "target-features", "tune-cpu"};
  for (LLVMValueRef fn = LLVMGetFirstFunction(support); fn; fn = LLVMGetNextFunction(fn)) {
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      LLVMRemoveStringAttributeAtIndex(fn, LLVMAttributeFunctionIndex, keys[k], (unsigned)strlen(keys[k]));
    if (!plain || LLVMIsDeclaration(fn)) continue;
    set_attribute(e->ctx, fn, "target-cpu", plain->cpu);
    set_attribute(e->ctx, fn, "target-features", features);
  }
}

static bool link_support(Emission *e) {
  const void *bytes;
  size_t n;
  LLVMModuleRef support = NULL;
  const char *triple = LLVMGetTarget(e->mod);
  if (!cg_support_code(triple, &bytes, &n, e->why)) return false;
  LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRange(bytes, n, "support", false);
  if (LLVMParseBitcodeInContext2(e->ctx, buffer, &support)) return fail(e, "the support code could not be read");
  if (!same_layout(e->mod, support)) {
    LLVMDisposeModule(support);
    rt_text_add(e->why, "there are no bundles for '%s': its structs have another layout than the architecture's",
                triple);
    return false;
  }
  LLVMSetTarget(support, triple);
  LLVMSetModuleDataLayout(support, LLVMGetModuleDataLayout(e->mod));
  set_support_target(e, support);
  return link_module(e, support);
}

// ---- the functions of the header
typedef struct {
  const char *symbol, *support;  // the function, and that of the support code which it calls
  LLVMTypeRef result;
  LLVMTypeRef type[16];
  LLVMValueRef first[4];  // what the call has before the parameters
  uint32_t n, n_first;
  uint32_t no_in, no_out;  // positions of the call's arguments that are no parameters, and NULL; 0: none
} Stub;

static bool is_narrow(const Emission *e, LLVMTypeRef t) { return t == e->k.i32; }

// As C's calling conventions want narrow integers: sign-extended.
static void extend(const Emission *e, LLVMValueRef fn, LLVMTypeRef result, const LLVMTypeRef *type, uint32_t n,
                   void (*add)(LLVMValueRef, LLVMAttributeIndex, LLVMAttributeRef)) {
  LLVMAttributeRef a = LLVMCreateEnumAttribute(e->ctx, flag_kind("signext"), 0);
  if (is_narrow(e, result)) add(fn, LLVMAttributeReturnIndex, a);
  for (uint32_t k = 0; k < n; k++)
    if (is_narrow(e, type[k])) add(fn, k + 1, a);
}

static LLVMValueRef declare(const Emission *e, const Stub *s, const LLVMTypeRef *type, uint32_t n) {
  LLVMTypeRef fn_type = LLVMFunctionType(s->result, (LLVMTypeRef *)(uintptr_t)type, n, false);
  LLVMValueRef fn = LLVMAddFunction(e->mod, s->symbol, fn_type);
  LLVMValueRef support = LLVMGetNamedFunction(e->mod, s->support);
  static const char *const copied[] = {"target-cpu", "target-features"};  // it runs before anybody asked for the CPU
  for (size_t k = 0; k < 2; k++) {
    LLVMAttributeRef a =
        LLVMGetStringAttributeAtIndex(support, LLVMAttributeFunctionIndex, copied[k], (unsigned)strlen(copied[k]));
    if (a) LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
  }
  set_flag(e->ctx, fn, "nounwind");
  extend(e, fn, s->result, type, n, LLVMAddAttributeAtIndex);
  return fn;
}

// symbol(parameters) { return support(first.., parameters..); }
static LLVMValueRef emit_stub(Emission *e, const Stub *s) {
  LLVMTypeRef own[16], all[20];
  LLVMValueRef arg[20];
  uint32_t n_own = 0, n = 0;
  for (uint32_t k = 0; k < s->n; k++)
    if (s->n_first + k != s->no_in && s->n_first + k != s->no_out) own[n_own++] = s->type[k];
  LLVMValueRef fn = declare(e, s, own, n_own), callee = LLVMGetNamedFunction(e->mod, s->support);
  LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->ctx, fn, "entry"));
  for (; n < s->n_first; n++) arg[n] = s->first[n], all[n] = LLVMTypeOf(arg[n]);
  for (uint32_t k = 0, own_at = 0; k < s->n; k++, n++) {
    bool is_left_out = n == s->no_in || n == s->no_out;
    all[n] = s->type[k];
    arg[n] = is_left_out ? LLVMConstNull(s->type[k]) : LLVMGetParam(fn, own_at++);
  }
  LLVMTypeRef type = LLVMFunctionType(s->result, all, n, false);
  LLVMValueRef call = LLVMBuildCall2(e->builder, type, callee, arg, n, "");
  extend(e, call, s->result, all, n, LLVMAddCallSiteAttribute);
  LLVMSetTailCall(call, true);
  LLVMBuildRet(e->builder, call);
  return fn;
}

static const char *public_symbol(const Emission *e, const char *name) {
  return rt_printf(e->mem, "%s_%s", e->about->name, name);
}

// NAME_f(state, arena, bytes[, in][, out][, worker, n_workers, barrier, ctx])
static LLVMValueRef emit_call(Emission *e, LLVMValueRef bundle, uint32_t listed, bool has_worker, bool is_generic) {
  CgConstants *k = &e->k;
  const TnBundleFunction *f = &e->about->functions[listed];
  uint32_t fn = cg_bundle_function(e->about->plans[0], listed);
  const char *stem = cg_bundle_symbol(e->mem, e->about, listed);
  const char *name = rt_printf(e->mem, "%s%s%s", stem, has_worker ? "_worker" : "", is_generic ? ".call" : "");
  Stub s = {.symbol = public_symbol(e, name),
            .support = has_worker ? "tn_bundle_call_worker" : "tn_bundle_call",
            .result = k->i32,
            .first = {bundle, LLVMConstInt(k->i32, fn, false), LLVMConstInt(k->i32, listed, false)},
            .n_first = 3,
            .type = {k->ptr, k->ptr, k->size, k->ptr, k->ptr, k->i32, k->i32, k->ptr, k->ptr},
            .n = has_worker ? 9 : 5};
  if (!is_generic && !f->n_inputs) s.no_in = 6;
  if (!is_generic && !f->n_outputs) s.no_out = 7;
  return emit_stub(e, &s);
}

static void emit_calls(Emission *e, LLVMValueRef bundle, CgBundleCode *code) {
  code->calls = rt_alloc(e->mem, (e->about->n_functions + 1) * sizeof *code->calls);
  for (uint32_t f = 0; f < e->about->n_functions; f++) {
    const TnBundleFunction *row = &e->about->functions[f];
    LLVMValueRef call = emit_call(e, bundle, f, false, false);
    code->calls[f] = row->n_inputs && row->n_outputs ? call : emit_call(e, bundle, f, false, true);
    if (e->b->has_workers) emit_call(e, bundle, f, true, false);
  }
}

static LLVMValueRef emit_simple(Emission *e, const char *name, const char *support, LLVMTypeRef result,
                                const LLVMTypeRef *type, uint32_t n, LLVMValueRef bundle) {
  Stub s = {
      .symbol = public_symbol(e, name), .support = support, .result = result, .first = {bundle}, .n_first = 1, .n = n};
  if (n) memcpy(s.type, type, n * sizeof *type);
  return emit_stub(e, &s);
}

// NAME_init(state, seed); with an arena where the initial values want one.
static LLVMValueRef emit_init(Emission *e, LLVMValueRef bundle) {
  CgConstants *k = &e->k;
  bool wants_arena = cg_bundle_init_arena(e->b->facts) > 0;
  Stub s = {.symbol = public_symbol(e, "init"),
            .support = "tn_bundle_init",
            .result = k->i32,
            .first = {bundle},
            .n_first = 1,
            .type = {k->ptr, k->ptr, k->size, k->i64},
            .n = 4};
  if (wants_arena) return emit_stub(e, &s);
  Stub typed = s;
  typed.no_in = 2, typed.no_out = 3;
  emit_stub(e, &typed);
  s.symbol = public_symbol(e, "init.call");
  return emit_stub(e, &s);
}

static void emit_others(Emission *e, LLVMValueRef bundle, CgBundleCode *code) {
  CgConstants *k = &e->k;
  code->init = emit_init(e, bundle);
  code->cpu = emit_simple(e, "cpu", "tn_bundle_cpu", k->i32, NULL, 0, bundle);
  code->error = emit_simple(e, "error", "tn_bundle_error", k->ptr, &k->i32, 1, bundle);
  code->load = emit_simple(e, "load", "tn_bundle_load", k->i32, (LLVMTypeRef[]){k->ptr, k->ptr, k->size}, 3, bundle);
  code->save =
      emit_simple(e, "save", "tn_bundle_save", k->i32, (LLVMTypeRef[]){k->ptr, k->ptr, k->size, k->ptr}, 4, bundle);
}

// ---- tables
typedef struct {
  Emission *e;
  uint32_t target;
} EntryPlace;

static LLVMValueRef find_entry(void *ctx, uint32_t function, uint32_t variant) {
  const EntryPlace *at = ctx;
  uint32_t entry = entry_of(at->e->about->plans[at->target], function, variant);
  return LLVMGetNamedFunction(at->e->mod, entry_symbol(at->e, at->target, entry));
}

// Only an object can be filled in afterwards; wasm's symbols tell no place in the file.
static bool has_holes(const Emission *e) {
  const bool *wants = e->b->wants;
  return !wants[CG_ASSEMBLY] && !wants[CG_BITCODE] && !wants[CG_LLVM_TEXT] && !wants[CG_C_TEXT] &&
         strncmp(e->b->targets[0]->triple, "wasm", 4);
}

static LLVMValueRef zeros(Emission *e, size_t n, uint32_t source) {
  LLVMTypeRef type = LLVMArrayType2(e->k.i8, n);
  // A name of more than 8 letters: shorter ones need not end with a 0 in a COFF file.
  LLVMValueRef g = cg_constant_global(&e->k, LLVMConstNull(type), "large_constant");
  LLVMSetExternallyInitialized(g, true);  // no pass concludes anything from the zeros
  LLVMSetAlignment(g, TN_ALIGN);
  e->hole_of[e->n_holes] = g;
  e->holes[e->n_holes++] = (Hole){.size = n, .source = source};
  return g;
}

// Constants and weights lie in the section that the caller names. bytes NULL: zeros, until the object is made
static LLVMValueRef large_constant(Emission *e, const void *bytes, size_t n, uint32_t source) {
  LLVMValueRef g = n && !bytes ? zeros(e, n, source) : cg_constant_bytes(&e->k, bytes, n, TN_ALIGN);
  if (e->b->section && !LLVMIsNull(g)) LLVMSetSection(g, e->b->section);
  return g;
}

// Constants of a target; those of the target before where they are the same.
typedef struct {
  const void *bytes;  // NULL: nobody needs them here
  size_t n;
  LLVMValueRef global;
} Constants;

static Constants constants_of(Emission *e, uint32_t target, const Constants *before) {
  Prog *p = e->b->progs[target];
  Constants c = {.n = (size_t)p->const_bytes};
  bool compares = e->about->n_targets > 1;
  if (!c.n) return c.global = LLVMConstNull(e->k.ptr), c;
  void *bytes = compares || !has_holes(e) ? rt_malloc(c.n) : NULL;
  if (!bytes && (compares || !has_holes(e))) cg_child_fail(CG_NO_MEMORY, "out of memory");
  if (bytes) ir_fill_const(p, bytes);
  bool is_same = before->bytes && before->n == c.n && !memcmp(before->bytes, bytes, c.n);
  c.global = is_same ? before->global : large_constant(e, has_holes(e) ? NULL : bytes, c.n, target);
  if (compares) c.bytes = bytes;
  else rt_free(bytes);
  return c;
}

static LLVMValueRef plan_table(Emission *e) {
  LLVMValueRef *row = rt_alloc(e->mem, (e->about->n_targets + 1) * sizeof *row);
  Constants c = {0};
  for (uint32_t t = 0; t < e->about->n_targets; t++) {
    c = constants_of(e, t, &c);
    row[t] = cg_constant_plan(&e->k, e->about->plans[t], c.global, find_entry, &(EntryPlace){e, t});
  }
  return cg_constant_global(&e->k, LLVMConstArray2(e->k.ptr, row, e->about->n_targets), "plans");
}

// about points to the functions, these to the bundle, that to about: the two exist before they are filled.
static void emit_tables(Emission *e) {
  CgBundleCode code = {.plans = plan_table(e)};
  const TnBundle *facts = e->b->facts;
  LLVMValueRef hole = LLVMAddGlobal(e->mod, e->k.i8, "about.hole");
  size_t weight_bytes = 0;
  for (uint32_t k = 0; k < facts->n_pieces; k++) weight_bytes += facts->pieces[k].bytes;
  bool is_hole = weight_bytes && has_holes(e);
  LLVMValueRef weights =
      large_constant(e, is_hole ? NULL : facts->weights, facts->weights && !weight_bytes ? 1 : weight_bytes, WEIGHTS);
  LLVMValueRef bundle = cg_constant_bundle(&e->k, facts, hole, weights);
  emit_calls(e, bundle, &code);
  emit_others(e, bundle, &code);
  const char *symbol = public_symbol(e, "about");
  LLVMValueRef about = cg_constant_global(&e->k, cg_constant_about(&e->k, e->about, &code), symbol);
  LLVMSetLinkage(about, LLVMExternalLinkage);
  LLVMReplaceAllUsesWith(hole, about);
  LLVMDeleteGlobal(hole);
}

// ---- what others see
static bool is_public(const Emission *e, const char *name) {
  size_t n = strlen(e->about->name);
  return !strncmp(name, e->about->name, n) && name[n] == '_' && !strchr(name, '.');
}

static bool is_runtime_call(const char *name) {
  bool is_of_compiler = !strncmp(name, "__", 2) || !strncmp(name, "tn_bundle_divide", 16);  // the latter: from assembly
  return is_of_compiler || !strcmp(name, "memcpy") || !strcmp(name, "memset") || !strcmp(name, "memmove");
}

static void set_visibility(const Emission *e, LLVMValueRef g) {
  size_t n;
  if (LLVMIsDeclaration(g)) return;
  const char *name = LLVMGetValueName2(g, &n);
  bool shown = is_public(e, name);
  LLVMSetVisibility(g, LLVMDefaultVisibility);
  if (!shown) LLVMSetLinkage(g, LLVMInternalLinkage);
}

// Code generation calls these by name after the passes that drop what nobody calls.
static void keep_runtime_calls(const Emission *e) {
  LLVMValueRef *kept = NULL;
  uint32_t n = 0, cap = 0;
  for (LLVMValueRef fn = LLVMGetFirstFunction(e->mod); fn; fn = LLVMGetNextFunction(fn)) {
    size_t length;
    if (!LLVMIsDeclaration(fn) && is_runtime_call(LLVMGetValueName2(fn, &length))) *RT_PUSH(e->mem, kept, n, cap) = fn;
  }
  if (!n) return;
  LLVMValueRef list = LLVMConstArray2(e->k.ptr, kept, n),
               used = LLVMAddGlobal(e->mod, LLVMTypeOf(list), "llvm.compiler.used");
  LLVMSetInitializer(used, list);
  LLVMSetLinkage(used, LLVMAppendingLinkage);
  LLVMSetSection(used, "llvm.metadata");
}

// Without a system interrupts may come on the stack of what they interrupt, over what lies below the stack pointer.
static void keep_off_red_zone(const Emission *e) {
  const char *triple = e->b->targets[0]->triple;
  if (strncmp(triple, "x86_64", 6) || !strstr(triple, "-none")) return;
  for (LLVMValueRef fn = LLVMGetFirstFunction(e->mod); fn; fn = LLVMGetNextFunction(fn))
    if (!LLVMIsDeclaration(fn)) set_flag(e->ctx, fn, "noredzone");
}

static void set_all_visibilities(const Emission *e) {
  for (LLVMValueRef g = LLVMGetFirstFunction(e->mod); g; g = LLVMGetNextFunction(g)) set_visibility(e, g);
  for (LLVMValueRef g = LLVMGetFirstGlobal(e->mod); g; g = LLVMGetNextGlobal(g)) set_visibility(e, g);
  if (!e->b->wants[CG_C_TEXT]) keep_runtime_calls(e);
}

// ---- files
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx) {
  Emission *e = ctx;
  char *text = LLVMGetDiagInfoDescription(info);
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) cg_stack_note(&e->stack, text);
  else if (!e->why->len) fail(e, text);
  LLVMDisposeMessage(text);
}

// Into a file in memory, which unlike LLVM's own buffer is not copied while it grows.
static bool emit_to_file(Emission *e, LLVMModuleRef mod, LLVMMemoryBufferRef *out, char **error) {
  int file = memfd_create("tenure", 0);  // stays open: the buffer is its memory
  const char *path = rt_printf(e->mem, "/proc/self/fd/%d", file);
  return file >= 0 && !LLVMTargetMachineEmitToFile(e->modules[0].tm, mod, path, LLVMObjectFile, error) &&
         !LLVMCreateMemoryBufferWithContentsOfFile(path, out, error);
}

static bool emit_code(Emission *e, LLVMCodeGenFileType type, LLVMMemoryBufferRef *out) {
  char *error = NULL;
  LLVMModuleRef copy = LLVMCloneModule(e->mod);  // making code changes a module
  cg_stack_ask(copy);
  LLVMContextSetDiagnosticHandler(e->ctx, on_diagnostic, e);
  bool good = type == LLVMObjectFile && e->n_holes
                  ? emit_to_file(e, copy, out, &error)
                  : !LLVMTargetMachineEmitToMemoryBuffer(e->modules[0].tm, copy, type, &error, out);
  return good ? !e->why->len : fail(e, error ? error : "no code was made");
}

static bool find_holes(Emission *e, LLVMMemoryBufferRef object) {
  size_t length;
  for (uint32_t k = 0; k < e->n_holes; k++) {
    size_t at = cg_hole_offset(e->ctx, object, LLVMGetValueName2(e->hole_of[k], &length), (size_t)e->holes[k].size);
    if (at == SIZE_MAX) return fail(e, "the object has no place for its constants");
    e->holes[k].offset = at;
  }
  return true;
}

// Functions that LLVM calls on such a CPU and that the support code does not have.
static bool is_whole(const Emission *e, LLVMMemoryBufferRef object) {
  const char *name = object ? cg_first_undefined(e->ctx, object) : NULL;
  if (!name) return true;
  rt_text_add(e->why,
              "code for '%s' calls '%s', which bundles do not have: features= or cpu= of one that does not need it",
              e->b->targets[0]->name, name);
  return false;
}

static bool make_files(Emission *e, CgObject file[CG_N_FORMS]) {
  LLVMMemoryBufferRef buffer[CG_N_FORMS] = {0};
  const bool *wants = e->b->wants;
  if (wants[CG_OBJECT_FILE] && !emit_code(e, LLVMObjectFile, &buffer[CG_OBJECT_FILE])) return false;
  if (!is_whole(e, buffer[CG_OBJECT_FILE]) || !find_holes(e, buffer[CG_OBJECT_FILE])) return false;
  if (wants[CG_ASSEMBLY] && !emit_code(e, LLVMAssemblyFile, &buffer[CG_ASSEMBLY])) return false;
  if (wants[CG_BITCODE]) buffer[CG_BITCODE] = LLVMWriteBitcodeToMemoryBuffer(e->mod);
  for (int f = 0; f < CG_N_FORMS; f++)
    if (buffer[f]) file[f] = (CgObject){(void *)(uintptr_t)LLVMGetBufferStart(buffer[f]), LLVMGetBufferSize(buffer[f])};
  if (wants[CG_LLVM_TEXT]) {
    char *text = LLVMPrintModuleToString(e->mod);
    file[CG_LLVM_TEXT] = (CgObject){text, strlen(text)};
  }
  RtText c = {.mem = e->mem};
  if (wants[CG_C_TEXT] && !cg_c99_text(e->mem, e->mod, &c, e->why))
    return false;  // last: it gives all values other names
  if (c.len) file[CG_C_TEXT] = (CgObject){c.text, c.len};
  return true;
}

// ---- what calls take of the stack
static size_t stack_of(Emission *e, const char *symbol, uint32_t function) {
  const RtPlan *p = e->about->plans[0];
  LLVMValueRef entry[MAX_ENTRIES];
  uint32_t n = 0;
  for (uint32_t t = 0; t < e->about->n_targets; t++)
    for (uint32_t v = 0; function < p->n_functions && v <= p->functions[function].n_variants && n < MAX_ENTRIES; v++)
      entry[n++] = LLVMGetNamedFunction(e->mod, entry_symbol(e, t, entry_of(e->about->plans[t], function, v)));
  LLVMValueRef fn = LLVMGetNamedFunction(e->mod, public_symbol(e, symbol));
  return n < MAX_ENTRIES && fn ? cg_stack_bytes(&e->stack, fn, entry, n) : 0;
}

static void note_stacks(Emission *e) {
  const RtPlan *p = e->about->plans[0];
  for (uint32_t f = 0; f < e->about->n_functions; f++) {
    const char *stem = cg_bundle_symbol(e->mem, e->about, f);
    size_t *out = &e->stack_bytes[f];
    *out = stack_of(e, stem, cg_bundle_function(p, f));
    if (!e->b->has_workers) continue;
    size_t of_worker = stack_of(e, rt_printf(e->mem, "%s_worker", stem), cg_bundle_function(p, f));
    if (of_worker > *out) *out = of_worker;
  }
  e->stack_bytes[e->about->n_functions] = stack_of(e, "init", p->init);
}

// ---- all, in the compiler's process
static bool emit(Emission *e, CgObject file[CG_N_FORMS]) {
  e->ctx = LLVMContextCreate();
  e->builder = LLVMCreateBuilderInContext(e->ctx);
  for (uint32_t t = 0; t < e->about->n_targets; t++)
    if (!build_target(e, t)) return false;
  note_blocks(e);
  e->mod = e->modules[0].mod;
  for (uint32_t t = 1; t < e->about->n_targets; t++)
    if (!link_module(e, e->modules[t].mod)) return false;
  if (!link_support(e)) return false;
  cg_constants_open(&e->k, e->mod, e->mem);
  emit_tables(e);
  set_all_visibilities(e);
  keep_off_red_zone(e);
  cg_child_doing("LLVM compiled the bundle");
  if (!cg_optimise_module(&e->modules[0])) return fail(e, e->modules[0].error);
  e->stack = (CgStack){.mem = e->mem, .targets = e->b->targets, .n_targets = e->about->n_targets};
  cg_stack_open(&e->stack, e->mod, is_runtime_call);
  if (!make_files(e, file)) return false;
  note_stacks(e);
  return true;
}

static size_t block_table_size(const Emission *e) {
  return (size_t)e->about->n_targets * e->about->plans[0]->n_functions * sizeof *e->block_bytes;
}

static size_t stack_table_size(const Emission *e) { return (e->about->n_functions + 1) * sizeof *e->stack_bytes; }

// One answer: blocks and stacks of functions, holes of the object, sizes of all forms, then their bytes.
_Noreturn static void answer(const Emission *e, const CgObject file[CG_N_FORMS]) {
  size_t sizes[CG_N_FORMS];
  CgObject piece[4 + CG_N_FORMS] = {{e->block_bytes, block_table_size(e)},
                                    {e->stack_bytes, stack_table_size(e)},
                                    {(void *)(uintptr_t)e->holes, sizeof e->holes},
                                    {sizes, sizeof sizes}};
  for (int f = 0; f < CG_N_FORMS; f++) sizes[f] = file[f].size, piece[4 + f] = file[f];
  cg_child_answer_pieces(piece, 4 + CG_N_FORMS);
}

static void emit_in_child(void *ctx) {
  Emission *e = ctx;
  CgObject file[CG_N_FORMS] = {0};
  jmp_buf here;
  if (setjmp(here)) cg_child_fail(CG_NO_MEMORY, "out of memory");
  rt_arena_on_oom(e->mem, &here);
  cg_init_llvm();
  LLVMInitializeAllAsmParsers();  // of the support code's instructions
  if (emit(e, file)) answer(e, file);
  cg_child_fail(CG_NO_CODE, e->why->text);
}

static void fill_holes(const Emission *e, const Hole holes[MAX_HOLES], CgObject *object) {
  for (uint32_t k = 0; k < MAX_HOLES && holes[k].size; k++) {
    unsigned char *at = (unsigned char *)object->bytes + holes[k].offset;
    if (holes[k].source == WEIGHTS) memcpy(at, e->b->facts->weights, (size_t)holes[k].size);
    else ir_fill_const(e->b->progs[holes[k].source], at);
  }
}

static void take_answer(const Emission *e, const ChildAnswer *a, CgObject files[CG_N_FORMS]) {
  Hole holes[MAX_HOLES];
  unsigned char *stacks = (unsigned char *)a->data + block_table_size(e);
  unsigned char *hole_table = stacks + stack_table_size(e), *sizes = hole_table + sizeof holes;
  unsigned char *at = sizes + CG_N_FORMS * sizeof(size_t);
  memcpy(e->block_bytes, a->data, block_table_size(e));
  memcpy(e->stack_bytes, stacks, stack_table_size(e));
  memcpy(holes, hole_table, sizeof holes);
  cg_bundle_set_arenas(e->b->facts, e->block_bytes, !e->b->has_workers);
  for (int f = 0; f < CG_N_FORMS; f++) {
    memcpy(&files[f].size, sizes + (size_t)f * sizeof(size_t), sizeof(size_t));
    files[f].bytes = files[f].size ? at : NULL;
    at += files[f].size;
  }
  fill_holes(e, holes, &files[CG_OBJECT_FILE]);
}

bool cg_bundle(RtArena *mem, const CgBundle *b, CgObject files[CG_N_FORMS], void **block, CgInfo *info, RtText *why) {
  Emission e = {.mem = mem, .b = b, .about = b->facts->about, .why = why};
  uint32_t n = e.about->n_targets;
  e.plans = rt_alloc(mem, n * sizeof *e.plans);
  e.modules = rt_alloc(mem, n * sizeof *e.modules);
  e.block_bytes = rt_alloc(mem, block_table_size(&e));
  e.stack_bytes = b->stack_bytes;
  for (uint32_t t = 0; t < n; t++) {
    e.plans[t] =
        (ModulePlan){.p = b->progs[t], .t = b->targets[t], .one_worker = !b->has_workers, .mem = mem, .why = why};
    if (!cg_make_plan(&e.plans[t])) return false;
    for (uint32_t k = 0; k < e.plans[t].n_entries; k++) info->n_kernels += e.plans[t].entries[k].n_calls;
    info->n_distinct += e.plans[t].n_codes;
  }
  ChildAnswer a = cg_run_child(&(CgLimits){0}, emit_in_child, &e, why);
  info->failure = a.failure;
  if (a.failure) return false;
  take_answer(&e, &a, files);
  *block = a.data;
  return true;
}
