// Functions: a variable for each value that is read in several places, a label for each block that is jumped to. A phi is a
// variable that the blocks before set.
//
//   loop:                                        L1:
//     %i = phi i64 [ 0, %entry ], [ %j, %loop ]    v3 = ldf32((v1 + (ptrdiff_t)(v2 * 4)));
//     %p = getelementptr float, ptr %x, i64 %i     ..
//     %a = load float, ptr %p                      v4 = (v2 + 1ull);
//     ..                                           v2 = v4;
//     br i1 %more, label %loop, label %end         if ((v4 < v5)) goto L1;
#include "codegen/c99/writer.h"

#include <inttypes.h>
#include <string.h>

enum { MOST_FOLDED = 6 };  // operations of one expression

static LLVMOpcode op_of(LLVMValueRef v) { return LLVMGetInstructionOpcode(v); }

static bool has_name(LLVMValueRef v) {
  size_t n;
  LLVMGetValueName2(v, &n);
  return n;
}

static Text name_of(LLVMValueRef v) {
  size_t n;
  return LLVMGetValueName2(v, &n);
}

// ---- what gets a name
static bool is_pure(LLVMValueRef v) {
  switch ((int)op_of(v)) {
  case LLVMPHI:
  case LLVMLoad:
  case LLVMAlloca:
  case LLVMAtomicCmpXchg:
  case LLVMAtomicRMW:
  case LLVMStore:
  case LLVMBr:
  case LLVMSwitch:
  case LLVMRet:
  case LLVMUnreachable:
  case LLVMFence: return false;
  case LLVMCall: return c99_is_pure_call(v);
  default: return true;
  }
}

static uint32_t operations(LLVMValueRef v) {
  uint32_t n = 1;
  if (!LLVMIsAInstruction(v) || has_name(v)) return 0;
  for (uint32_t k = 0; k < (uint32_t)LLVMGetNumOperands(v); k++) n += operations(LLVMGetOperand(v, k));
  return n;
}

// Read in one place, of the same block: computed there.
static bool is_folded(LLVMValueRef v) {
  LLVMUseRef use = LLVMGetFirstUse(v);
  if (!is_pure(v) || !use || LLVMGetNextUse(use) || c99_words(LLVMTypeOf(v))) return false;
  LLVMValueRef user = LLVMGetUser(use);
  if (!LLVMIsAInstruction(user) || op_of(user) == LLVMPHI ||
      LLVMGetInstructionParent(user) != LLVMGetInstructionParent(v))
    return false;
  return operations(v) <= MOST_FOLDED;
}

static void set_name(C99 *c, LLVMValueRef v, char kind, uint32_t number) {
  Text name = C99_PRINT("%c%" PRIu32, kind, number);
  LLVMSetValueName2(v, name, strlen(name));
}

static void drop_names(LLVMValueRef fn) {
  for (LLVMValueRef a = LLVMGetFirstParam(fn); a; a = LLVMGetNextParam(a)) LLVMSetValueName2(a, "", 0);
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
    LLVMSetValueName2(LLVMBasicBlockAsValue(b), "", 0);
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v))
      if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVoidTypeKind) LLVMSetValueName2(v, "", 0);
  }
}

static bool is_jump(LLVMBasicBlockRef from, LLVMBasicBlockRef to) { return LLVMGetNextBasicBlock(from) != to; }

static void name_labels(C99 *c, LLVMValueRef fn) {
  uint32_t n = 0;
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
    LLVMValueRef last = LLVMGetBasicBlockTerminator(b);
    for (uint32_t k = 0; k < LLVMGetNumSuccessors(last); k++) {
      LLVMValueRef to = LLVMBasicBlockAsValue(LLVMGetSuccessor(last, k));
      if ((is_jump(b, LLVMGetSuccessor(last, k)) || op_of(last) == LLVMSwitch) && !has_name(to))
        set_name(c, to, 'L', n++);
    }
  }
}

static bool is_unread(LLVMValueRef v) {
  if (op_of(v) == LLVMCall && c99_is_nothing(v)) return true;
  return !LLVMGetFirstUse(v) && (is_pure(v) || op_of(v) == LLVMLoad || op_of(v) == LLVMPHI);
}

// Hints, and what was computed for them alone
static bool drop_unread(LLVMValueRef fn) {
  bool dropped = false;
  for (LLVMBasicBlockRef b = LLVMGetLastBasicBlock(fn); b; b = LLVMGetPreviousBasicBlock(b))
    for (LLVMValueRef v = LLVMGetLastInstruction(b), before; v; v = before) {
      before = LLVMGetPreviousInstruction(v);
      if (!is_unread(v)) continue;
      LLVMInstructionEraseFromParent(v);
      dropped = true;
    }
  return dropped;
}

static void name_values(C99 *c, LLVMValueRef fn) {
  uint32_t n = 0;
  while (drop_unread(fn)) {}
  drop_names(fn);
  for (LLVMValueRef a = LLVMGetFirstParam(fn); a; a = LLVMGetNextParam(a)) set_name(c, a, 'a', n++);
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v))
      if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVoidTypeKind && LLVMGetFirstUse(v) && !is_folded(v))
        set_name(c, v, 'v', n++);
  name_labels(c, fn);
}

// ---- declarations
typedef struct {
  Text type;
  RtText names;
  size_t line;
} Group;
typedef struct {
  Group *list;
  uint32_t n, cap;
} Groups;

static void declare(C99 *c, Groups *g, Text type, Text name) {
  uint32_t k = 0;
  while (k < g->n && strcmp(g->list[k].type, type)) k++;
  if (k == g->n) *RT_PUSH(c->mem, g->list, g->n, g->cap) = (Group){.type = type, .names = {.mem = c->mem}};
  Group *to = &g->list[k];
  bool is_long = to->names.len - to->line > 90;
  if (is_long) to->line = to->names.len;
  rt_text_add(&to->names, !to->names.len ? "" : is_long ? ",\n    " : ", ");
  rt_text_add(&to->names, "%s", name);
}

// Memory of the stack, as words; more than their alignment is made by hand. A block that takes some has the same each
// time that it runs: no emitter keeps an address for its next time.
static void put_memory(C99 *c, LLVMValueRef v, RtText *start) {
  uint64_t count = 1, bytes = LLVMABISizeOfType(c->layout, LLVMGetAllocatedType(v)), align = LLVMGetAlignment(v);
  if (!c99_is_constant_int(LLVMGetOperand(v, 0), &count))
    return (void)c99_fail(c, "stack of a size that the run knows", NULL);
  bytes = bytes * count + (align > 8 ? align - 8 : 0);
  rt_text_add(&c->functions, "  uint64_t m%s[%" PRIu64 "];\n", name_of(v), bytes ? (bytes + 7) / 8 : 1);
  if (align <= 8) rt_text_add(start, "  %s = (Ptr)m%s;\n", name_of(v), name_of(v));
  else
    rt_text_add(start, "  %s = (Ptr)(((uintptr_t)m%s + %" PRIu64 "u) & ~(uintptr_t)%" PRIu64 "u);\n", name_of(v),
                name_of(v), align - 1, align - 1);
}

static void put_variables(C99 *c, LLVMValueRef fn) {
  Groups g = {0};
  RtText start = {.mem = c->mem};
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v)) {
      if (!has_name(v) || LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVoidTypeKind) continue;
      declare(c, &g, c99_type(c, LLVMTypeOf(v)), name_of(v));
      if (LLVMIsAAllocaInst(v)) put_memory(c, v, &start);
    }
  for (uint32_t k = 0; k < g.n; k++) rt_text_add(&c->functions, "  %s %s;\n", g.list[k].type, g.list[k].names.text);
  if (start.len) rt_text_put(&c->functions, start.text, start.len);
}

// Without the parentheses around all of it
static Text bare(C99 *c, Text x) {
  size_t n = strlen(x), depth = 0;
  if (*x != '(') return x;
  for (size_t k = 0; k < n; k++) {
    depth += x[k] == '(', depth -= x[k] == ')';
    if (!depth && k + 1 < n) return x;
  }
  return rt_strndup(c->mem, x + 1, n - 2);
}

// ---- jumps
static LLVMValueRef incoming(LLVMValueRef phi, LLVMBasicBlockRef from) {
  for (uint32_t k = 0; k < LLVMCountIncoming(phi); k++)
    if (LLVMGetIncomingBlock(phi, k) == from) return LLVMGetIncomingValue(phi, k);
  return NULL;
}

static LLVMValueRef next_phi(LLVMValueRef v) {
  while (v && op_of(v) == LLVMPHI && !has_name(v)) v = LLVMGetNextInstruction(v);
  return v && op_of(v) == LLVMPHI ? v : NULL;
}

static LLVMValueRef first_phi(LLVMBasicBlockRef b) { return next_phi(LLVMGetFirstInstruction(b)); }

// Does one that is set read another that is set?
static bool is_entangled(LLVMBasicBlockRef from, LLVMBasicBlockRef to) {
  for (LLVMValueRef phi = first_phi(to); phi; phi = next_phi(LLVMGetNextInstruction(phi))) {
    LLVMValueRef x = incoming(phi, from);
    if (LLVMIsAPHINode(x) && x != phi && LLVMGetInstructionParent(x) == to) return true;
  }
  return false;
}

static Text indent(uint32_t depth) { return &"        "[8 - 2 * depth]; }

// Sets the phis of `to`, in order: x = ..; entangled ones by way of others.
static void put_copies(C99 *c, LLVMBasicBlockRef from, LLVMBasicBlockRef to, uint32_t depth) {
  bool entangled = is_entangled(from, to);
  RtText *out = &c->functions, later = {.mem = c->mem};
  if (entangled) rt_text_add(out, "%s{\n", indent(depth));
  for (LLVMValueRef phi = first_phi(to); phi; phi = next_phi(LLVMGetNextInstruction(phi))) {
    LLVMValueRef x = incoming(phi, from);
    if (x == phi || LLVMIsUndef(x)) continue;
    Text name = name_of(phi), value = bare(c, c99_value(c, x)), type = c99_type(c, LLVMTypeOf(phi));
    if (entangled) rt_text_add(out, "%s%s n%s = %s;\n", indent(depth), type, name, value);
    else rt_text_add(out, "%s%s = %s;\n", indent(depth), name, value);
    if (entangled) rt_text_add(&later, "%s%s = n%s;\n", indent(depth), name, name);
  }
  if (later.len) rt_text_put(out, later.text, later.len);
  if (entangled) rt_text_add(out, "%s}\n", indent(depth));
}

static bool has_copies(LLVMBasicBlockRef from, LLVMBasicBlockRef to) {
  for (LLVMValueRef phi = first_phi(to); phi; phi = next_phi(LLVMGetNextInstruction(phi)))
    if (incoming(phi, from) != phi && !LLVMIsUndef(incoming(phi, from))) return true;
  return false;
}

static void put_jump(C99 *c, LLVMBasicBlockRef from, LLVMBasicBlockRef to, bool always, uint32_t depth) {
  put_copies(c, from, to, depth);
  if (always || is_jump(from, to))
    rt_text_add(&c->functions, "%sgoto %s;\n", indent(depth), name_of(LLVMBasicBlockAsValue(to)));
}

static void put_branch(C99 *c, LLVMValueRef br, LLVMBasicBlockRef from) {
  if (!LLVMIsConditional(br)) return put_jump(c, from, LLVMGetSuccessor(br, 0), false, 1);
  LLVMBasicBlockRef yes = LLVMGetSuccessor(br, 0), no = LLVMGetSuccessor(br, 1);
  bool turned = !is_jump(from, yes);  // the one that follows comes last
  Text condition = c99_value(c, LLVMGetCondition(br));
  LLVMBasicBlockRef first = turned ? no : yes, last = turned ? yes : no;
  rt_text_add(&c->functions, turned ? "  if (!%s)" : "  if (%s)", turned ? condition : bare(c, condition));
  if (has_copies(from, first)) {
    rt_text_add(&c->functions, " {\n");
    put_jump(c, from, first, is_jump(from, first), 2);
    rt_text_add(&c->functions, "  }\n");
  } else if (is_jump(from, first)) {
    rt_text_add(&c->functions, " goto %s;\n", name_of(LLVMBasicBlockAsValue(first)));
  } else {
    rt_text_add(&c->functions, " {}\n");
  }
  put_jump(c, from, last, false, 1);
}

static void put_switch(C99 *c, LLVMValueRef sw, LLVMBasicBlockRef from) {
  rt_text_add(&c->functions, "  switch (%s) {\n", c99_value(c, LLVMGetOperand(sw, 0)));
  for (uint32_t k = 1; k < LLVMGetNumSuccessors(sw); k++) {
    rt_text_add(&c->functions, "  case %s:\n", c99_value(c, LLVMGetOperand(sw, 2 * k)));
    put_jump(c, from, LLVMGetSuccessor(sw, k), true, 2);
  }
  rt_text_add(&c->functions, "  default:\n");
  put_jump(c, from, LLVMGetSwitchDefaultDest(sw), true, 2);
  rt_text_add(&c->functions, "  }\n");
}

static void put_return(C99 *c, LLVMValueRef v) {
  LLVMTypeRef t = LLVMGetReturnType(LLVMGlobalGetValueType(LLVMGetBasicBlockParent(LLVMGetInstructionParent(v))));
  bool is_value = LLVMGetTypeKind(t) != LLVMVoidTypeKind, returns = op_of(v) == LLVMRet;
  Text cast = c99_bits(t) == 32 ? "(int32_t)" : "";
  if (is_value)
    rt_text_add(&c->functions, "  return %s%s;\n", cast, returns ? c99_value(c, LLVMGetOperand(v, 0)) : c99_zero(c, t));
  else rt_text_add(&c->functions, "  return;\n");
}

// ---- statements
static void put_exchange(C99 *c, LLVMValueRef v) {
  Text p = c99_value(c, LLVMGetOperand(v, 0)), old = c99_value(c, LLVMGetOperand(v, 1)),
       x = c99_value(c, LLVMGetOperand(v, 2));
  if (c99_bits(LLVMTypeOf(LLVMGetOperand(v, 1))) != 32)
    return (void)c99_fail(c, "an exchange of other than 32 bits", NULL);
  if (!has_name(v)) return rt_text_add(&c->functions, "  exchange(%s, %s, %s);\n", p, old, x);
  rt_text_add(&c->functions, "  %s.f0 = exchange(%s, %s, %s);\n  %s.f1 = %s.f0 == %s;\n", name_of(v), p, old, x,
              name_of(v), name_of(v), old);
}

static void put_other(C99 *c, LLVMValueRef v) {
  bool is_void = LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVoidTypeKind, is_call = op_of(v) == LLVMCall;
  if (!is_void && !has_name(v) && !(is_call && !c99_is_pure_call(v))) return;  // folded, or read by nobody
  Text text = c99_expression(c, v);
  if (!text) return;
  if (!is_void && has_name(v)) rt_text_add(&c->functions, "  %s = %s;\n", name_of(v), bare(c, text));
  else rt_text_add(&c->functions, "  %s;\n", text);
}

static void put_statement(C99 *c, LLVMValueRef v, LLVMBasicBlockRef b) {
  switch ((int)op_of(v)) {
  case LLVMPHI:
  case LLVMAlloca: return;
  case LLVMStore: return rt_text_add(&c->functions, "  %s;\n", c99_store(c, v));
  case LLVMAtomicCmpXchg: return put_exchange(c, v);
  case LLVMBr: return put_branch(c, v, b);
  case LLVMSwitch: return put_switch(c, v, b);
  case LLVMRet:
  case LLVMUnreachable: return put_return(c, v);
  default: return put_other(c, v);
  }
}

static Text head(C99 *c, LLVMValueRef fn) {
  LLVMTypeRef t = LLVMGlobalGetValueType(fn);
  RtText out = {.mem = c->mem};
  bool is_public = LLVMGetLinkage(fn) == LLVMExternalLinkage;
  rt_text_add(&out, "%s%s %s(", is_public ? "" : "static ", c99_passed_type(c, LLVMGetReturnType(t)), name_of(fn));
  for (LLVMValueRef a = LLVMGetFirstParam(fn); a; a = LLVMGetNextParam(a))
    rt_text_add(&out, "%s%s %s", a == LLVMGetFirstParam(fn) ? "" : ", ", c99_passed_type(c, LLVMTypeOf(a)), name_of(a));
  rt_text_add(&out, LLVMGetFirstParam(fn) ? ")" : "void)");
  return out.text;
}

static void put_function(C99 *c, LLVMValueRef fn) {
  name_values(c, fn);
  Text first = head(c, fn);
  rt_text_add(&c->prototypes, "%s;\n", first);
  rt_text_add(&c->functions, "\n%s {\n", first);
  put_variables(c, fn);
  for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
    LLVMValueRef label = LLVMBasicBlockAsValue(b);
    if (has_name(label)) rt_text_add(&c->functions, "%s:;\n", name_of(label));
    for (LLVMValueRef v = LLVMGetFirstInstruction(b); v; v = LLVMGetNextInstruction(v)) put_statement(c, v, b);
  }
  rt_text_add(&c->functions, "}\n");
}

void c99_functions(C99 *c) {
  for (LLVMValueRef fn = LLVMGetFirstFunction(c->mod); fn; fn = LLVMGetNextFunction(fn))
    if (!LLVMIsDeclaration(fn) && !c99_is_of_c(name_of(fn))) put_function(c, fn);
}
