#include "codegen/bundle/stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What an unknown function may be: nothing that counts; the barrier of a call; one of the entries.
typedef enum { CALLS_NOTHING, CALLS_BARRIER, CALLS_ENTRY, N_LEVELS } Level;

struct CgStackNode {
  LLVMValueRef fn;
  size_t frame;
  size_t depth[N_LEVELS];  // with all below; 0: not computed
  bool is_open;            // being computed: a call of itself
  bool is_runtime;         // code generation calls it by name
};

typedef struct {
  CgStack *s;
  const LLVMValueRef *entries;
  uint32_t n_entries;
  size_t runtime;  // what the functions take that code generation calls
  bool recurses;
} Walk;

void cg_stack_ask(LLVMModuleRef mod) {
  static const char key[] = "warn-stack-size";
  LLVMContextRef ctx = LLVMGetModuleContext(mod);
  LLVMAttributeRef a = LLVMCreateStringAttribute(ctx, key, sizeof key - 1, "0", 1);
  for (LLVMValueRef fn = LLVMGetFirstFunction(mod); fn; fn = LLVMGetNextFunction(fn))
    if (!LLVMIsDeclaration(fn)) LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
}

void cg_stack_open(CgStack *s, LLVMModuleRef mod, bool (*is_runtime)(const char *name)) {
  size_t n;
  for (LLVMValueRef fn = LLVMGetFirstFunction(mod); fn; fn = LLVMGetNextFunction(fn))
    if (!LLVMIsDeclaration(fn))
      *RT_PUSH(s->mem, s->nodes, s->n, s->cap) =
          (CgStackNode){.fn = fn, .is_runtime = is_runtime(LLVMGetValueName2(fn, &n))};
  s->barrier = LLVMGetNamedFunction(mod, "tn_bundle_wait");
}

static CgStackNode *node_of(const CgStack *s, LLVMValueRef fn) {
  for (uint32_t k = 0; k < s->n; k++)
    if (s->nodes[k].fn == fn) return &s->nodes[k];
  return NULL;
}

// "stack frame size (112) exceeds limit (0) in function 'net.k0'"
void cg_stack_note(CgStack *s, const char *remark) {
  static const char before[] = "stack frame size (", between[] = "in function '";
  const char *number = strstr(remark, before), *name = number ? strstr(number, between) : NULL;
  if (!name) return;
  name += sizeof between - 1;
  size_t n = strcspn(name, "'"), length;
  for (uint32_t k = 0; k < s->n; k++) {
    const char *own = LLVMGetValueName2(s->nodes[k].fn, &length);
    if (length == n && !memcmp(own, name, n)) s->nodes[k].frame = strtoull(number + sizeof before - 1, NULL, 10);
  }
  s->is_known = true;
}

// ---- one frame
static bool is_arch(const CgStack *s, const char *arch) { return !strncmp(s->targets[0]->triple, arch, strlen(arch)); }
static size_t pointer_of(const CgStack *s) { return s->targets[0]->pointer_bits / 8; }
static size_t slot_of(const CgStack *s) { return is_arch(s, "x86_64") || is_arch(s, "i686") ? pointer_of(s) : 0; }

// What LLVM does not count: the address to return to on x86, and what is left out where a frame is aligned to more than the stack
// is. Such a frame is a multiple of its alignment, at most that of a cache line.
static size_t frame_of(const CgStack *s, const CgStackNode *node) {
  size_t n = node->frame + slot_of(s), aligned = is_arch(s, "i686") ? 4 : 2 * pointer_of(s), align = 64;
  while (align > aligned && n % align) align /= 2;
  return n + (node->frame && align > aligned ? align - aligned : 0);
}

// Arguments lie in the caller's frame, but for those that x86 pushes: all on i686, on x86-64 those without a register (Windows has 4).
static size_t pushed(const CgStack *s, LLVMValueRef call) {
  size_t n = LLVMGetNumArgOperands(call);
  if (is_arch(s, "i686")) return 8 * n + 16;
  return is_arch(s, "x86_64") && n > 4 ? 8 * (n - 4) + 8 : 0;
}

// ---- frames on each other
static size_t depth_of(Walk *w, CgStackNode *node, Level level);

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static size_t depth_of_unknown(Walk *w, Level level) {
  size_t most = 0;
  for (uint32_t k = 0; level == CALLS_ENTRY && k < w->n_entries; k++)
    most = larger(most, depth_of(w, node_of(w->s, w->entries[k]), CALLS_BARRIER));
  CgStackNode *barrier = level == CALLS_BARRIER ? node_of(w->s, w->s->barrier) : NULL;
  return barrier ? depth_of(w, barrier, CALLS_NOTHING) : most;
}

static size_t depth_of_call(Walk *w, LLVMValueRef called, Level level) {
  if (!LLVMIsAFunction(called)) return depth_of_unknown(w, level);
  CgStackNode *node = node_of(w->s, called);
  return node ? depth_of(w, node, level) : 0;  // else an intrinsic
}

static size_t depth_of(Walk *w, CgStackNode *node, Level level) {
  if (node->depth[level]) return node->depth[level];
  size_t below = node->is_runtime ? 0 : w->runtime;
  if (node->is_open) return w->recurses = true, 0;
  node->is_open = true;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(node->fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
      if (LLVMIsACallInst(i)) below = larger(below, pushed(w->s, i) + depth_of_call(w, LLVMGetCalledValue(i), level));
  node->is_open = false;
  return node->depth[level] = frame_of(w->s, node) + below;
}

// Those that code generation calls: they call each other, not deeper than twice.
static size_t depth_of_runtime(Walk *w) {
  size_t most = 0;
  for (uint32_t k = 0; k < w->s->n; k++)
    if (w->s->nodes[k].is_runtime) most = larger(most, depth_of(w, &w->s->nodes[k], CALLS_NOTHING));
  return 2 * most;
}

// ---- where it cannot be told
// Registers of a size that only the CPU knows are spilled to as many bytes.
static bool has_scalable_vectors(const Target *t) {
  static const char *const words[][2] = {{"riscv", "+v,"}, {"riscv", "+zve"}, {"aarch64", "+sve"}, {"aarch64", "+sme"}};
  char f[4096];
  snprintf(f, sizeof f, "%s,", t->cpu_features ? t->cpu_features : t->features);
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (!strncmp(t->triple, words[k][0], strlen(words[k][0])) && strstr(f, words[k][1])) return true;
  return false;
}

size_t cg_stack_bytes(CgStack *s, LLVMValueRef fn, const LLVMValueRef *entries, uint32_t n_entries) {
  enum { RED_ZONE = 128 };  // below the stack pointer, of x86-64 and Apple
  Walk w = {s, entries, n_entries, 0, false};
  CgStackNode *node = node_of(s, fn);
  if (!s->is_known || !node) return 0;
  for (uint32_t t = 0; t < s->n_targets; t++)
    if (has_scalable_vectors(s->targets[t])) return 0;
  for (uint32_t k = 0; k < s->n; k++) memset(s->nodes[k].depth, 0, sizeof s->nodes[k].depth);
  w.runtime = depth_of_runtime(&w);
  size_t n = depth_of(&w, node, CALLS_ENTRY);
  return w.recurses ? 0 : n + (s->targets[0]->pointer_bits == 64 ? RED_ZONE : 0);
}
