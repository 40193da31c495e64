// Operands: variables, what is computed where it is read, and constants.
#include "codegen/c99/writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

bool c99_is_constant_int(LLVMValueRef v, uint64_t *value) {
  if (!LLVMIsAConstantInt(v) || LLVMGetIntTypeWidth(LLVMTypeOf(v)) > 64) return false;
  *value = LLVMConstIntGetZExtValue(v);
  return true;
}

static Text integer_text(C99 *c, LLVMTypeRef t, uint64_t x) {
  if (c99_bits(t) <= 16) return C99_PRINT("%" PRIu64, x);
  return c99_bits(t) <= 32 ? C99_PRINT("%" PRIu64 "u", x) : C99_PRINT("%" PRIu64 "ull", x);
}

static Text float_text(C99 *c, LLVMTypeRef t, double x) {
  bool is_single = LLVMGetTypeKind(t) == LLVMFloatTypeKind;
  if (isfinite(x))
    return x == 0 && !signbit(x) ? (is_single ? "0.0f" : "0.0") : C99_PRINT("%a%s", x, is_single ? "f" : "");
  if (isinf(x)) return x < 0 ? "(-INFINITY)" : "INFINITY";
  return "NAN";
}

// One text per 64 bits of a wide constant, from LLVM's decimal digits: C's interface gives the lowest word alone.
static Text wide_constant(C99 *c, LLVMValueRef v) {
  char *text = LLVMPrintValueToString(v);
  uint32_t n = c99_words(LLVMTypeOf(v));
  uint64_t word[16] = {0};
  const char *digit = strchr(text, ' ') + 1;
  if (n > 16 || *digit == '-') return c99_fail(c, "the constant", text);
  for (; *digit; digit++) {
    uint64_t carry = (uint64_t)(*digit - '0');
    for (uint32_t k = 0; k < 2 * n; k++) {  // halves of words, so that products fit
      uint64_t shift = 32 * (k % 2), half = (word[k / 2] >> shift & UINT32_MAX) * 10 + carry;
      word[k / 2] = (word[k / 2] & ~((uint64_t)UINT32_MAX << shift)) | (half & UINT32_MAX) << shift;
      carry = half >> 32;
    }
  }
  RtText out = {.mem = c->mem};
  rt_text_add(&out, "(%s){{", c99_type(c, LLVMTypeOf(v)));
  for (uint32_t k = 0; k < n; k++) rt_text_add(&out, "%s%" PRIu64 "ull", k ? ", " : "", word[k]);
  rt_text_add(&out, "}}");
  LLVMDisposeMessage(text);
  return out.text;
}

Text c99_zero(C99 *c, LLVMTypeRef t) {
  switch ((int)LLVMGetTypeKind(t)) {
  case LLVMIntegerTypeKind: return c99_words(t) ? C99_PRINT("(%s){{0}}", c99_type(c, t)) : integer_text(c, t, 0);
  case LLVMFloatTypeKind:
  case LLVMDoubleTypeKind: return float_text(c, t, 0);
  case LLVMPointerTypeKind: return "(Ptr)0";
  case LLVMVectorTypeKind: return C99_PRINT("(%s){{0}}", c99_type(c, t));
  default: return C99_PRINT("(%s){0}", c99_type(c, t));
  }
}

static Text vector_constant(C99 *c, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  RtText out = {.mem = c->mem};
  rt_text_add(&out, "(%s){{", c99_type(c, t));
  for (uint32_t k = 0; k < LLVMGetVectorSize(t); k++)
    rt_text_add(&out, "%s%s", k ? ", " : "", c99_value(c, LLVMGetAggregateElement(v, k)));
  rt_text_add(&out, "}}");
  return out.text;
}

static Text constant(C99 *c, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  uint64_t x;
  LLVMBool is_rounded;
  if (LLVMIsUndef(v) || LLVMIsPoison(v) || LLVMIsAConstantAggregateZero(v) || LLVMIsAConstantPointerNull(v))
    return c99_zero(c, t);
  if (c99_is_constant_int(v, &x)) return integer_text(c, t, x);
  if (LLVMIsAConstantInt(v)) return wide_constant(c, v);
  if (LLVMIsAConstantFP(v)) return float_text(c, t, LLVMConstRealGetDouble(v, &is_rounded));
  if (c99_lanes(t) && (LLVMIsAConstantVector(v) || LLVMIsAConstantDataVector(v))) return vector_constant(c, v);
  size_t n;
  if (LLVMIsAFunction(v)) return C99_PRINT("(Ptr)(uintptr_t)%s", LLVMGetValueName2(v, &n));
  if (LLVMIsAGlobalVariable(v)) return C99_PRINT("(Ptr)(uintptr_t)&%s", LLVMGetValueName2(v, &n));
  Text text = LLVMIsAConstantExpr(v) ? c99_expression(c, v) : NULL;
  return text ? text : c99_fail(c, "the constant", LLVMPrintValueToString(v));
}

Text c99_value(C99 *c, LLVMValueRef v) {
  size_t n;
  if (LLVMIsConstant(v)) return constant(c, v);
  Text name = LLVMGetValueName2(v, &n);
  if (!n) return c99_expression(c, v);
  return LLVMIsAArgument(v) && c99_bits(LLVMTypeOf(v)) == 32 ? C99_PRINT("(uint32_t)%s", name)
                                                             : rt_strndup(c->mem, name, n);
}
