// Calls of functions and of LLVM's intrinsics.
#include "codegen/c99/writer.h"

#include <string.h>

static bool begins(Text s, Text with) { return !strncmp(s, with, strlen(with)); }

static Text callee_name(LLVMValueRef call) {
  size_t n;
  LLVMValueRef f = LLVMGetCalledValue(call);
  return LLVMIsAFunction(f) ? LLVMGetValueName2(f, &n) : "";
}

// What C has a function or the prelude one for: %s is "f" of a float, and of the prelude's the type's name.
typedef enum { OF_MATH, OF_PRELUDE, OF_INTEGERS } Kind;
typedef struct {
  Text intrinsic, name;
  Kind kind;
  uint32_t n;
} Row;
static const Row rows[] = {
    {"llvm.fma.", "fma", OF_MATH, 3},
    {"llvm.sqrt.", "sqrt", OF_MATH, 1},
    {"llvm.floor.", "floor", OF_MATH, 1},
    {"llvm.ceil.", "ceil", OF_MATH, 1},
    {"llvm.trunc.", "trunc", OF_MATH, 1},
    {"llvm.rint.", "rint", OF_MATH, 1},
    {"llvm.nearbyint.", "nearbyint", OF_MATH, 1},
    {"llvm.round.", "round", OF_MATH, 1},
    {"llvm.minnum.", "fmin", OF_MATH, 2},
    {"llvm.maxnum.", "fmax", OF_MATH, 2},
    {"llvm.fabs.", "abs", OF_PRELUDE, 1},
    {"llvm.copysign.", "withsign", OF_PRELUDE, 2},
    {"llvm.roundeven.", "toeven", OF_PRELUDE, 1},
    {"llvm.minimum.", "minimum", OF_PRELUDE, 2},
    {"llvm.maximum.", "maximum", OF_PRELUDE, 2},
    {"llvm.is.fpclass.", "isclass", OF_PRELUDE, 2},
    {"llvm.fptosi.sat.", "tosigned", OF_INTEGERS, 1},
    {"llvm.fptoui.sat.", "tounsigned", OF_INTEGERS, 1},
    {"llvm.smin.", "smin", OF_INTEGERS, 2},
    {"llvm.smax.", "smax", OF_INTEGERS, 2},
    {"llvm.umin.", "umin", OF_INTEGERS, 2},
    {"llvm.umax.", "umax", OF_INTEGERS, 2},
    {"llvm.uadd.sat.", "uaddsat", OF_INTEGERS, 2},
    {"llvm.usub.sat.", "usubsat", OF_INTEGERS, 2},
    {"llvm.abs.", "iabs", OF_INTEGERS, 1},
    {"llvm.fshl.", "fshl", OF_INTEGERS, 3},
    {"llvm.fshr.", "fshr", OF_INTEGERS, 3},
    {"llvm.ctpop.", "ctpop", OF_INTEGERS, 1},
    {"llvm.ctlz.", "ctlz", OF_INTEGERS, 1},
    {"llvm.cttz.", "cttz", OF_INTEGERS, 1},
};

static const Row *row_of(Text name) {
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (begins(name, rows[k].intrinsic)) return &rows[k];
  return NULL;
}

// Integers go through 64 bits and their width.
static Text of_integers(C99 *c, const Row *row, LLVMTypeRef t, const Text *a) {
  RtText out = {.mem = c->mem};
  bool is_signed = !strcmp(row->name, "smin") || !strcmp(row->name, "smax") || !strcmp(row->name, "iabs");
  rt_text_add(&out, "%s(", row->name);
  for (uint32_t k = 0; k < row->n; k++) rt_text_add(&out, "%s, ", is_signed ? c99_signed(c, t, a[k]) : a[k]);
  rt_text_add(&out, "%u)", c99_bits(t));
  return c99_wrap(c, t, C99_PRINT("(%s)%s", c99_type(c, t), out.text));
}

static Text intrinsic_lane(C99 *c, LLVMValueRef v, const Text *a) {
  const Row *row = row_of(callee_name(v));
  LLVMTypeRef t = c99_scalar(LLVMTypeOf(v)), from = c99_scalar(LLVMTypeOf(LLVMGetOperand(v, 0)));
  if (row->kind == OF_INTEGERS) return of_integers(c, row, t, a);
  Text type = row->kind == OF_PRELUDE                      ? c99_memory_name(c, from)
              : LLVMGetTypeKind(from) == LLVMFloatTypeKind ? "f"
                                                           : "";
  RtText out = {.mem = c->mem};
  rt_text_add(&out, "%s%s(", row->name, type);
  for (uint32_t k = 0; k < row->n; k++) rt_text_add(&out, "%s%s", k ? ", " : "", a[k]);
  rt_text_add(&out, ")");
  return out.text;
}

// ---- a vector's lanes to one
static Text join_lanes(C99 *c, LLVMTypeRef t, Text op, Text x, Text y) {
  if (!strcmp(op, "add")) return c99_wrap(c, t, C99_PRINT("%s + %s", x, y));
  if (!strcmp(op, "mul")) return c99_wrap(c, t, C99_PRINT("%s * %s", x, y));
  if (!strcmp(op, "and")) return C99_PRINT("(%s & %s)", x, y);
  if (!strcmp(op, "or")) return C99_PRINT("(%s | %s)", x, y);
  if (!strcmp(op, "xor")) return C99_PRINT("(%s ^ %s)", x, y);
  if (!strcmp(op, "fadd")) return C99_PRINT("(%s + %s)", x, y);
  Row row = {.name = op, .n = 2};
  bool is_known = !strcmp(op, "smin") || !strcmp(op, "smax") || !strcmp(op, "umin") || !strcmp(op, "umax");
  return is_known ? of_integers(c, &row, t, (Text[]){x, y}) : c99_fail(c, "the reduction", op);
}

static Text reduce(C99 *c, LLVMValueRef call, Text name) {
  Text op = name + strlen("llvm.vector.reduce."), ends = strchr(op, '.');
  op = rt_strndup(c->mem, op, (size_t)(ends - op));
  bool has_start = !strcmp(op, "fadd");
  LLVMValueRef x = LLVMGetOperand(call, has_start);
  LLVMTypeRef t = LLVMTypeOf(call);
  RtText body = {.mem = c->mem};
  rt_text_add(&body, "  %s r = %s;\n", c99_type(c, t), has_start ? "start" : "a.v[0]");
  for (uint32_t k = !has_start; k < c99_lanes(LLVMTypeOf(x)); k++)
    rt_text_add(&body, "  r = %s;\n", join_lanes(c, t, op, "r", C99_PRINT("a.v[%u]", k)));
  rt_text_add(&body, "  return r;\n");
  Text type = c99_type(c, LLVMTypeOf(x));
  Text parameters = has_start ? C99_PRINT("%s start, %s a", c99_type(c, t), type) : C99_PRINT("%s a", type);
  Text helper = c99_helper(c, op, c99_type(c, t), parameters, body.text);
  if (!has_start) return C99_PRINT("%s(%s)", helper, c99_value(c, x));
  return C99_PRINT("%s(%s, %s)", helper, c99_value(c, LLVMGetOperand(call, 0)), c99_value(c, x));
}

// ---- all
// Says something to LLVM alone.
bool c99_is_nothing(LLVMValueRef call) {
  Text name = callee_name(call);
  static Text const names[] = {"llvm.lifetime.", "llvm.experimental.noalias", "llvm.assume", "llvm.prefetch.",
                               "llvm.dbg."};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (begins(name, names[k])) return true;
  return false;
}

static Text copy(C99 *c, LLVMValueRef call, Text name) {
  Text fn = begins(name, "llvm.memset") ? "memset" : begins(name, "llvm.memmove") ? "memmove" : "memcpy";
  return C99_PRINT("%s(%s, %s, (size_t)%s)", fn, c99_value(c, LLVMGetOperand(call, 0)),
                   c99_value(c, LLVMGetOperand(call, 1)), c99_value(c, LLVMGetOperand(call, 2)));
}

static Text call_intrinsic(C99 *c, LLVMValueRef call, Text name) {
  const Row *row = row_of(name);
  if (row) return c99_by_lanes(c, call, row->name, row->n, intrinsic_lane);
  if (begins(name, "llvm.masked.")) return c99_masked(c, call, name);
  if (begins(name, "llvm.mem")) return copy(c, call, name);
  if (begins(name, "llvm.vector.reduce.")) return reduce(c, call, name);
  return c99_fail(c, "the intrinsic", name);
}

bool c99_is_pure_call(LLVMValueRef call) {
  return row_of(callee_name(call)) || begins(callee_name(call), "llvm.vector.reduce.");
}

static void check_arguments(C99 *c, LLVMValueRef call) {
  static const char by_value[] = "byval";
  unsigned kind = LLVMGetEnumAttributeKindForName(by_value, sizeof by_value - 1);
  for (uint32_t k = 0; k < LLVMGetNumArgOperands(call); k++)
    if (LLVMGetCallSiteEnumAttribute(call, k + 1, kind)) c99_fail(c, "an argument that is a struct", NULL);
}

static Text call_function(C99 *c, LLVMValueRef call) {
  LLVMValueRef f = LLVMGetCalledValue(call);
  RtText out = {.mem = c->mem};
  check_arguments(c, call);
  if (LLVMIsAFunction(f)) rt_text_add(&out, "%s(", callee_name(call));
  else
    rt_text_add(&out, "((%s)(uintptr_t)%s)(", c99_function_type(c, LLVMGetCalledFunctionType(call), "(*)"),
                c99_value(c, f));
  for (uint32_t k = 0; k < LLVMGetNumArgOperands(call); k++) {
    LLVMValueRef a = LLVMGetOperand(call, k);
    rt_text_add(&out, "%s%s%s", k ? ", " : "", c99_bits(LLVMTypeOf(a)) == 32 ? "(int32_t)" : "", c99_value(c, a));
  }
  rt_text_add(&out, ")");
  return c99_bits(LLVMTypeOf(call)) == 32 ? C99_PRINT("(uint32_t)%s", out.text) : out.text;
}

// cg_opaque: no instruction
static Text call_assembly(C99 *c, LLVMValueRef call) {
  size_t n;
  LLVMGetInlineAsmAsmString(LLVMGetCalledValue(call), &n);
  if (n) return c99_fail(c, "instructions of a CPU", NULL);
  return LLVMGetNumArgOperands(call) == 1 ? c99_value(c, LLVMGetOperand(call, 0)) : NULL;
}

Text c99_call(C99 *c, LLVMValueRef call) {
  Text name = callee_name(call);
  if (LLVMIsAInlineAsm(LLVMGetCalledValue(call))) return call_assembly(c, call);
  return begins(name, "llvm.") ? call_intrinsic(c, call, name) : call_function(c, call);
}
