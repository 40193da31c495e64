// Loads and stores: of elements by the prelude's functions, of vectors lane by lane.
#include "codegen/c99/writer.h"

#include <string.h>

// "ldf32", or where the address may not be a multiple of the element "ldf32any"
static Text access(C99 *c, Text what, LLVMTypeRef element, uint64_t align) {
  bool is_natural = align >= LLVMABISizeOfType(c->layout, element);
  return C99_PRINT("%s%s%s", what, c99_memory_name(c, element), is_natural ? "" : "any");
}

static Text place(C99 *c, LLVMTypeRef element, uint32_t lane) {
  uint64_t at = lane * LLVMABISizeOfType(c->layout, element);
  return at ? C99_PRINT("p + %u", (uint32_t)at) : "p";
}

static bool has_memory_form(C99 *c, LLVMTypeRef element) {
  bool good = c99_bits(element) <= 64 && (c99_bits(element) & (c99_bits(element) - 1)) == 0;
  if (!good) c99_fail(c, "an access to", LLVMPrintTypeToString(element));
  return good;
}

static Text one_load(C99 *c, LLVMTypeRef element, uint64_t align, Text at) {
  Text load = C99_PRINT("%s(%s)", access(c, "ld", element, align), at);
  return c99_bits(element) == 1 ? C99_PRINT("(%s & 1)", load) : load;
}

// ---- integers of more than 64 bits: their words, the lowest first
static LLVMTypeRef word_of(LLVMTypeRef t) {
  return c99_bits(t) > 64 && c99_bits(t) % 64 == 0 ? LLVMInt64TypeInContext(LLVMGetTypeContext(t)) : NULL;
}

static Text wide_load(C99 *c, LLVMTypeRef t, uint64_t align, Text from) {
  RtText body = {.mem = c->mem};
  rt_text_add(&body, "  return (%s){{", c99_type(c, t));
  for (uint32_t k = 0; k < c99_words(t); k++)
    rt_text_add(&body, "%s%s", k ? ", " : "", one_load(c, word_of(t), align, place(c, word_of(t), k)));
  rt_text_add(&body, "}};\n");
  return C99_PRINT("%s(%s)", c99_helper(c, "load", c99_type(c, t), "Ptr p", body.text), from);
}

static Text wide_store(C99 *c, LLVMTypeRef t, uint64_t align, Text to, Text x) {
  RtText body = {.mem = c->mem};
  for (uint32_t k = 0; k < c99_words(t); k++)
    rt_text_add(&body, "  %s(%s, x.w[%u]);\n", access(c, "st", word_of(t), align), place(c, word_of(t), k), k);
  Text name = c99_helper(c, "store", "void", C99_PRINT("Ptr p, %s x", c99_type(c, t)), body.text);
  return C99_PRINT("%s(%s, %s)", name, to, x);
}

static bool is_plain(C99 *c, LLVMValueRef v) {
  bool plain = LLVMGetOrdering(v) == LLVMAtomicOrderingNotAtomic;
  if (!plain) c99_fail(c, "an atomic access", NULL);
  return plain;
}

Text c99_load(C99 *c, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v), e = c99_scalar(t);
  uint64_t align = LLVMGetAlignment(v);
  Text from = c99_value(c, LLVMGetOperand(v, 0));
  if (is_plain(c, v) && !c99_lanes(t) && word_of(t)) return wide_load(c, t, align, from);
  if (!is_plain(c, v) || !has_memory_form(c, e)) return "0";
  if (!c99_lanes(t)) return one_load(c, e, align, from);
  RtText body = {.mem = c->mem};
  rt_text_add(&body, "  return (%s){{", c99_type(c, t));
  for (uint32_t k = 0; k < c99_lanes(t); k++)
    rt_text_add(&body, "%s%s", k ? ", " : "", one_load(c, e, align, place(c, e, k)));
  rt_text_add(&body, "}};\n");
  return C99_PRINT("%s(%s)", c99_helper(c, "load", c99_type(c, t), "Ptr p", body.text), from);
}

Text c99_store(C99 *c, LLVMValueRef v) {
  LLVMValueRef x = LLVMGetOperand(v, 0);
  LLVMTypeRef t = LLVMTypeOf(x), e = c99_scalar(t);
  Text to = c99_value(c, LLVMGetOperand(v, 1));
  if (is_plain(c, v) && !c99_lanes(t) && word_of(t)) return wide_store(c, t, LLVMGetAlignment(v), to, c99_value(c, x));
  if (!is_plain(c, v) || !has_memory_form(c, e)) return "0";
  Text store = access(c, "st", e, LLVMGetAlignment(v));
  if (!c99_lanes(t)) return C99_PRINT("%s(%s, %s)", store, to, c99_value(c, x));
  RtText body = {.mem = c->mem};
  for (uint32_t k = 0; k < c99_lanes(t); k++) rt_text_add(&body, "  %s(%s, x.v[%u]);\n", store, place(c, e, k), k);
  Text name = c99_helper(c, "store", "void", C99_PRINT("Ptr p, %s x", c99_type(c, t)), body.text);
  return C99_PRINT("%s(%s, %s)", name, to, c99_value(c, x));
}

// ---- with a mask. Operands: load p, align, mask, else; store x, p, align, mask; of gather and scatter p is a vector
static Text masked_load(C99 *c, LLVMValueRef call, bool is_gather) {
  LLVMTypeRef t = LLVMTypeOf(call), e = c99_scalar(t);
  uint64_t align = 1;
  RtText body = {.mem = c->mem};
  c99_is_constant_int(LLVMGetOperand(call, 1), &align);
  rt_text_add(&body, "  return (%s){{\n", c99_type(c, t));
  for (uint32_t k = 0; k < c99_lanes(t); k++)
    rt_text_add(&body, "    m.v[%u] ? %s : y.v[%u],\n", k,
                one_load(c, e, align, is_gather ? C99_PRINT("p.v[%u]", k) : place(c, e, k)), k);
  rt_text_add(&body, "  }};\n");
  LLVMValueRef p = LLVMGetOperand(call, 0), mask = LLVMGetOperand(call, 2);
  Text parameters =
      C99_PRINT("%s p, %s m, %s y", c99_type(c, LLVMTypeOf(p)), c99_type(c, LLVMTypeOf(mask)), c99_type(c, t));
  return C99_PRINT("%s(%s, %s, %s)",
                   c99_helper(c, is_gather ? "gather" : "load", c99_type(c, t), parameters, body.text), c99_value(c, p),
                   c99_value(c, mask), c99_value(c, LLVMGetOperand(call, 3)));
}

static Text masked_store(C99 *c, LLVMValueRef call, bool is_scatter) {
  LLVMValueRef x = LLVMGetOperand(call, 0), p = LLVMGetOperand(call, 1), mask = LLVMGetOperand(call, 3);
  LLVMTypeRef t = LLVMTypeOf(x), e = c99_scalar(t);
  uint64_t align = 1;
  RtText body = {.mem = c->mem};
  c99_is_constant_int(LLVMGetOperand(call, 2), &align);
  for (uint32_t k = 0; k < c99_lanes(t); k++)
    rt_text_add(&body, "  if (m.v[%u]) %s(%s, x.v[%u]);\n", k, access(c, "st", e, align),
                is_scatter ? C99_PRINT("p.v[%u]", k) : place(c, e, k), k);
  Text parameters =
      C99_PRINT("%s x, %s p, %s m", c99_type(c, t), c99_type(c, LLVMTypeOf(p)), c99_type(c, LLVMTypeOf(mask)));
  return C99_PRINT("%s(%s, %s, %s)", c99_helper(c, is_scatter ? "scatter" : "store", "void", parameters, body.text),
                   c99_value(c, x), c99_value(c, p), c99_value(c, mask));
}

Text c99_masked(C99 *c, LLVMValueRef call, Text intrinsic) {
  if (!strncmp(intrinsic, "llvm.masked.load", 16)) return masked_load(c, call, false);
  if (!strncmp(intrinsic, "llvm.masked.gather", 18)) return masked_load(c, call, true);
  if (!strncmp(intrinsic, "llvm.masked.store", 17)) return masked_store(c, call, false);
  if (!strncmp(intrinsic, "llvm.masked.scatter", 19)) return masked_store(c, call, true);
  return c99_fail(c, "the intrinsic", intrinsic);
}
