// Instructions that compute a value of their operands, as expressions: those of vectors lane by lane, in a function of their own.
#include "codegen/c99/writer.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  LLVMOpcode op;
  LLVMTypeRef from, to;  // elements of the first operand and of the result
} Op;

static LLVMOpcode opcode_of(LLVMValueRef v) {
  return LLVMIsAConstantExpr(v) ? LLVMGetConstOpcode(v) : LLVMGetInstructionOpcode(v);
}

static LLVMTypeRef operand_type(LLVMValueRef v, uint32_t k) { return LLVMTypeOf(LLVMGetOperand(v, k)); }

// ---- integers
static bool is_whole_width(uint32_t bits) { return bits == 8 || bits == 16 || bits == 32 || bits == 64; }

static uint64_t mask_of(uint32_t bits) { return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1; }

// The result of arithmetic of C in the width of t. C computes narrow integers as int.
Text c99_wrap(C99 *c, LLVMTypeRef t, Text x) {
  uint32_t bits = c99_bits(t);
  if (bits == 32 || bits == 64) return C99_PRINT("(%s)", x);
  if (is_whole_width(bits)) return C99_PRINT("(%s)(%s)", c99_type(c, t), x);
  return C99_PRINT("(%s)((%s) & %" PRIu64 "%s)", c99_type(c, t), x, mask_of(bits), bits > 32 ? "ull" : "u");
}

Text c99_signed(C99 *c, LLVMTypeRef t, Text x) {
  uint32_t bits = c99_bits(t);
  if (is_whole_width(bits)) return C99_PRINT("(int%u_t)%s", bits, x);
  uint64_t sign = 1ull << (bits - 1);
  return C99_PRINT("(int64_t)(((uint64_t)%s ^ %" PRIu64 "ull) - %" PRIu64 "ull)", x, sign, sign);
}

// Wide enough that C does not take it for int
static Text unsigned_text(C99 *c, LLVMTypeRef t, Text x) { return c99_bits(t) < 32 ? C99_PRINT("(uint32_t)%s", x) : x; }

static Text shift_amount(C99 *c, LLVMTypeRef t, Text by) {
  uint32_t held = c99_bits(t) <= 32 ? 32 : 64;
  bool is_constant = *by >= '0' && *by <= '9';
  return is_constant ? by : C99_PRINT("(%s & %u)", by, held - 1);  // what LLVM leaves open is no error here
}

// A signed result of C, or one of 64 bits, in the type of t: as an operand it is not wider than that.
static Text narrow(C99 *c, LLVMTypeRef t, Text x) { return c99_wrap(c, t, C99_PRINT("(%s)(%s)", c99_type(c, t), x)); }

static Text integer_op(C99 *c, const Op *o, const Text *a) {
  LLVMTypeRef t = o->to;
  switch ((int)o->op) {
  case LLVMAdd: return c99_wrap(c, t, C99_PRINT("%s + %s", a[0], a[1]));
  case LLVMSub: return c99_wrap(c, t, C99_PRINT("%s - %s", unsigned_text(c, t, a[0]), a[1]));
  case LLVMMul: return c99_wrap(c, t, C99_PRINT("%s * %s", unsigned_text(c, t, a[0]), a[1]));
  case LLVMUDiv: return C99_PRINT("(%s / %s)", a[0], a[1]);
  case LLVMURem: return C99_PRINT("(%s %% %s)", a[0], a[1]);
  case LLVMSDiv: return narrow(c, t, C99_PRINT("%s / %s", c99_signed(c, t, a[0]), c99_signed(c, t, a[1])));
  case LLVMSRem: return narrow(c, t, C99_PRINT("%s %% %s", c99_signed(c, t, a[0]), c99_signed(c, t, a[1])));
  case LLVMShl: return c99_wrap(c, t, C99_PRINT("%s << %s", unsigned_text(c, t, a[0]), shift_amount(c, t, a[1])));
  case LLVMLShr: return C99_PRINT("(%s >> %s)", a[0], shift_amount(c, t, a[1]));
  case LLVMAShr: return narrow(c, t, C99_PRINT("%s >> %s", c99_signed(c, t, a[0]), shift_amount(c, t, a[1])));
  case LLVMAnd: return C99_PRINT("(%s & %s)", a[0], a[1]);
  case LLVMOr: return C99_PRINT("(%s | %s)", a[0], a[1]);
  default: return C99_PRINT("(%s ^ %s)", a[0], a[1]);
  }
}

static Text compare(C99 *c, LLVMValueRef v, const Text *a) {
  LLVMTypeRef t = c99_scalar(operand_type(v, 0));
  static const char *const unsigned_op[] = {"==", "!=", ">", ">=", "<", "<=", ">", ">=", "<", "<="};
  LLVMIntPredicate p = LLVMGetICmpPredicate(v);
  Text op = unsigned_op[p - LLVMIntEQ];
  bool is_pointer = LLVMGetTypeKind(t) == LLVMPointerTypeKind;
  if (is_pointer && p > LLVMIntNE) return C99_PRINT("((uintptr_t)%s %s (uintptr_t)%s)", a[0], op, a[1]);
  if (is_pointer || p < LLVMIntSGT) return C99_PRINT("(%s %s %s)", a[0], op, a[1]);
  return C99_PRINT("(%s %s %s)", c99_signed(c, t, a[0]), op, c99_signed(c, t, a[1]));
}

// ---- integers of more than 64 bits: functions over words
static Text wide_op(C99 *c, const Op *o, const Text *a) {
  uint32_t from = c99_words(o->from), to = c99_words(o->to);
  Text type = c99_type(c, to ? o->to : o->from), call = NULL;
  if (o->op == LLVMTrunc && !to) return c99_wrap(c, o->to, C99_PRINT("(%s)%s.w[0]", c99_type(c, o->to), a[0]));
  if (o->op == LLVMZExt && !from) return C99_PRINT("(%s){{%s}}", type, a[0]);
  if ((o->op == LLVMTrunc || o->op == LLVMZExt) && c99_bits(o->to) % 64 == 0)
    call = C99_PRINT("for (int k = 0; k < %u && k < %u; k++) r.w[k] = a.w[k]", from, to);
  else if (o->op == LLVMAdd) call = C99_PRINT("wideadd(r.w, a.w, b.w, %u)", to);
  else if (o->op == LLVMAnd || o->op == LLVMOr || o->op == LLVMXor)
    call = C99_PRINT("for (int k = 0; k < %u; k++) r.w[k] = a.w[k] %s b.w[k]", to,
                     o->op == LLVMAnd  ? "&"
                     : o->op == LLVMOr ? "|"
                                       : "^");
  else if (o->op == LLVMMul) call = C99_PRINT("widemul(r.w, a.w, b.w, %u)", to);
  else if (o->op == LLVMShl) call = C99_PRINT("wideshl(r.w, a.w, b.w[0], %u)", to);
  else if (o->op == LLVMLShr) call = C99_PRINT("wideshr(r.w, a.w, b.w[0], %u)", to);
  if (!call || c99_bits(o->from) % 64) return c99_fail(c, "an operation on integers of more than 64 bits", NULL);
  bool has_two = o->op != LLVMTrunc && o->op != LLVMZExt;
  Text parameters = C99_PRINT(has_two ? "%s a, %s b" : "%s a", c99_type(c, o->from), type);
  Text name = c99_helper(c, "wideop", type, parameters, C99_PRINT("  %s r = {{0}};\n  %s;\n  return r;\n", type, call));
  return C99_PRINT(has_two ? "%s(%s, %s)" : "%s(%s)", name, a[0], a[1]);
}

// ---- floats
static Text float_compare(C99 *c, LLVMValueRef v, const Text *a) {
  static const char *const form[] = {
      [LLVMRealPredicateFalse] = "0",
      [LLVMRealOEQ] = "(%1$s == %2$s)",
      [LLVMRealOGT] = "(%1$s > %2$s)",
      [LLVMRealOGE] = "(%1$s >= %2$s)",
      [LLVMRealOLT] = "(%1$s < %2$s)",
      [LLVMRealOLE] = "(%1$s <= %2$s)",
      [LLVMRealONE] = "(%1$s < %2$s || %1$s > %2$s)",
      [LLVMRealORD] = "(%1$s == %1$s && %2$s == %2$s)",
      [LLVMRealUNO] = "(%1$s != %1$s || %2$s != %2$s)",
      [LLVMRealUEQ] = "(!(%1$s < %2$s || %1$s > %2$s))",
      [LLVMRealUGT] = "(!(%1$s <= %2$s))",
      [LLVMRealUGE] = "(!(%1$s < %2$s))",
      [LLVMRealULT] = "(!(%1$s >= %2$s))",
      [LLVMRealULE] = "(!(%1$s > %2$s))",
      [LLVMRealUNE] = "(%1$s != %2$s)",
      [LLVMRealPredicateTrue] = "1",
  };
  return C99_PRINT(form[LLVMGetFCmpPredicate(v)], a[0], a[1]);  // NOLINT: of the table above
}

static Text float_op(C99 *c, const Op *o, const Text *a) {
  bool is_single = LLVMGetTypeKind(o->to) == LLVMFloatTypeKind;
  switch ((int)o->op) {
  case LLVMFNeg: return C99_PRINT("(-%s)", a[0]);
  case LLVMFAdd: return C99_PRINT("(%s + %s)", a[0], a[1]);
  case LLVMFSub: return C99_PRINT("(%s - %s)", a[0], a[1]);
  case LLVMFMul: return C99_PRINT("(%s * %s)", a[0], a[1]);
  case LLVMFDiv: return C99_PRINT("(%s / %s)", a[0], a[1]);
  default: return C99_PRINT("fmod%s(%s, %s)", is_single ? "f" : "", a[0], a[1]);
  }
}

// ---- conversions
static Text bitcast(C99 *c, const Op *o, const Text *a) {
  if (o->from == o->to) return a[0];
  bool is_float = c99_bits(o->to) == 0;
  Text f = c99_memory_name(c, is_float ? o->to : o->from);
  return C99_PRINT(is_float ? "%sofbits(%s)" : "bitsof%s(%s)", f, a[0]);
}

static Text convert(C99 *c, const Op *o, const Text *a) {
  Text to = c99_type(c, o->to);
  switch ((int)o->op) {
  case LLVMTrunc:
    return c99_wrap(c, o->to, C99_PRINT("(%s)%s", is_whole_width(c99_bits(o->to)) ? to : c99_type(c, o->from), a[0]));
  case LLVMZExt: return C99_PRINT("((%s)%s)", to, a[0]);
  case LLVMSExt: return c99_wrap(c, o->to, C99_PRINT("(%s)%s", to, c99_signed(c, o->from, a[0])));
  case LLVMFPToUI: return narrow(c, o->to, C99_PRINT("(uint64_t)%s", a[0]));
  case LLVMFPToSI: return narrow(c, o->to, C99_PRINT("(int64_t)%s", a[0]));
  case LLVMUIToFP: return C99_PRINT("((%s)%s)", to, a[0]);
  case LLVMSIToFP: return C99_PRINT("((%s)%s)", to, c99_signed(c, o->from, a[0]));
  case LLVMFPTrunc:
  case LLVMFPExt: return C99_PRINT("((%s)%s)", to, a[0]);
  case LLVMPtrToInt: return C99_PRINT("((%s)(uintptr_t)%s)", to, a[0]);
  case LLVMIntToPtr: return C99_PRINT("((Ptr)(uintptr_t)%s)", a[0]);
  default: return bitcast(c, o, a);
  }
}

// ---- addresses
typedef struct {
  RtText terms;
  int64_t offset;
} Address;

static void add_index(C99 *c, Address *at, LLVMValueRef index, Text text, uint64_t bytes) {
  LLVMTypeRef t = c99_scalar(LLVMTypeOf(index));
  uint64_t x;
  if (c99_is_constant_int(index, &x)) {
    uint32_t unused = 64 - c99_bits(t);
    at->offset += (int64_t)(x << unused) / (int64_t)(1ull << unused) * (int64_t)bytes;
    return;
  }
  bool is_narrow = c99_bits(t) < c->pointer_bits;
  Text whole = is_narrow ? C99_PRINT("(uintptr_t)(intptr_t)%s", c99_signed(c, t, text)) : text;
  rt_text_add(&at->terms, at->terms.len ? " + " : "");
  if (bytes == 1) rt_text_add(&at->terms, "%s", whole);
  else rt_text_add(&at->terms, "%s * %u", whole, (uint32_t)bytes);
}

static Text address(C99 *c, LLVMValueRef v, const Text *a) {
  Address at = {.terms = {.mem = c->mem}};
  LLVMTypeRef t = LLVMGetGEPSourceElementType(v);
  for (uint32_t k = 1; k < (uint32_t)LLVMGetNumOperands(v); k++) {
    LLVMValueRef index = LLVMGetOperand(v, k);
    uint64_t field;
    if (k > 1 && LLVMGetTypeKind(t) == LLVMStructTypeKind && c99_is_constant_int(index, &field)) {
      at.offset += (int64_t)LLVMOffsetOfElement(c->layout, t, (unsigned)field);
      t = LLVMStructGetTypeAtIndex(t, (unsigned)field);
      continue;
    }
    if (k > 1) t = LLVMGetElementType(t);
    add_index(c, &at, index, a[k], LLVMABISizeOfType(c->layout, t));
  }
  bool is_inside = LLVMIsInBounds(v);
  if (!at.terms.len && !at.offset) return a[0];
  if (!at.terms.len && is_inside)
    return C99_PRINT("(%s %c %" PRId64 ")", a[0], at.offset < 0 ? '-' : '+', at.offset < 0 ? -at.offset : at.offset);
  if (at.offset) rt_text_add(&at.terms, "%s(uintptr_t)%" PRId64, at.terms.len ? " + " : "", at.offset);
  if (is_inside) return C99_PRINT("(%s + (ptrdiff_t)(%s))", a[0], at.terms.text);
  return C99_PRINT("(Ptr)((uintptr_t)%s + (%s))", a[0], at.terms.text);
}

// ---- one lane, or a scalar
static Text lane(C99 *c, LLVMValueRef v, const Text *a) {
  Op o = {opcode_of(v), c99_scalar(operand_type(v, 0)), c99_scalar(LLVMTypeOf(v))};
  if (o.op == LLVMGetElementPtr) return address(c, v, a);
  if (o.op == LLVMSelect) return C99_PRINT("(%s ? %s : %s)", a[0], a[1], a[2]);
  if (o.op == LLVMFreeze) return a[0];
  if (c99_words(o.from) || c99_words(o.to)) return wide_op(c, &o, a);
  if (o.op == LLVMICmp) return compare(c, v, a);
  if (o.op == LLVMFCmp) return float_compare(c, v, a);
  if (LLVMIsACastInst(v) || LLVMIsAConstantExpr(v)) {
    bool is_cast = o.op >= LLVMTrunc && o.op <= LLVMBitCast;
    if (is_cast) return convert(c, &o, a);
  }
  return c99_bits(o.to) ? integer_op(c, &o, a) : float_op(c, &o, a);
}

static Text call_of(C99 *c, Text name, LLVMValueRef v, uint32_t n) {
  RtText out = {.mem = c->mem};
  rt_text_add(&out, "%s(", name);
  for (uint32_t k = 0; k < n; k++) rt_text_add(&out, "%s%s", k ? ", " : "", c99_value(c, LLVMGetOperand(v, k)));
  rt_text_add(&out, ")");
  return out.text;
}

// The operation on whole vectors a and b that C with GNU's extension has; NULL: none
static Text as_a_whole(C99 *c, LLVMValueRef v) {
  if (!c99_is_register(c, LLVMTypeOf(v))) return NULL;
  switch ((int)opcode_of(v)) {
  case LLVMFNeg: return "-a.v";
  case LLVMAdd:
  case LLVMFAdd: return "a.v + b.v";
  case LLVMSub:
  case LLVMFSub: return "a.v - b.v";
  case LLVMMul:
  case LLVMFMul: return "a.v * b.v";
  case LLVMFDiv: return "a.v / b.v";
  case LLVMAnd: return "a.v & b.v";
  case LLVMOr: return "a.v | b.v";
  case LLVMXor: return "a.v ^ b.v";
  default: return NULL;
  }
}

Text c99_by_lanes(C99 *c, LLVMValueRef v, Text stem, uint32_t n, C99Lane *one) {
  LLVMTypeRef t = LLVMTypeOf(v);
  Text a[8];
  if (n > 8) return c99_fail(c, "a vector operation of many operands", NULL);
  if (!c99_lanes(t)) {
    for (uint32_t k = 0; k < n; k++) a[k] = c99_value(c, LLVMGetOperand(v, k));
    return one(c, v, a);
  }
  RtText parameters = {.mem = c->mem}, body = parameters;
  for (uint32_t k = 0; k < n; k++)
    rt_text_add(&parameters, "%s%s %c", k ? ", " : "", c99_type(c, operand_type(v, k)), 'a' + k);
  Text whole = as_a_whole(c, v);
  rt_text_add(&body, whole ? "  BY_LANES(%s, %s,\n" : "  return (%s){{\n", c99_type(c, t), whole);
  for (uint32_t l = 0; l < c99_lanes(t); l++) {
    for (uint32_t k = 0; k < n; k++)
      a[k] = c99_lanes(operand_type(v, k)) ? C99_PRINT("%c.v[%u]", 'a' + k, l) : C99_PRINT("%c", 'a' + k);
    rt_text_add(&body, "    %s%s\n", one(c, v, a), whole && l + 1 == c99_lanes(t) ? "" : ",");
  }
  rt_text_add(&body, whole ? "  );\n" : "  }};\n");
  return call_of(c, c99_helper(c, stem, c99_type(c, t), parameters.text, body.text), v, n);
}

// ---- lanes that move
static Text shuffle(C99 *c, LLVMValueRef v) {
  uint32_t n = c99_lanes(operand_type(v, 0));
  RtText body = {.mem = c->mem};
  Text type = c99_type(c, LLVMTypeOf(v)), from = c99_type(c, operand_type(v, 0));
  bool reads_second = false;
  rt_text_add(&body, "  return (%s){{", type);
  for (uint32_t k = 0; k < LLVMGetNumMaskElements(v); k++) {
    int at = LLVMGetMaskValue(v, k);
    uint32_t lane_at = at < 0 ? 0 : (uint32_t)at;
    reads_second |= lane_at >= n;
    rt_text_add(&body, "%s%c.v[%u]", k ? ", " : "", lane_at < n ? 'a' : 'b', lane_at % n);
  }
  rt_text_add(&body, "}};\n");
  Text parameters = C99_PRINT(reads_second ? "%s a, %s b" : "%s a", from, from);
  return call_of(c, c99_helper(c, "shuffle", type, parameters, body.text), v, reads_second ? 2 : 1);
}

static Text extract_lane(C99 *c, LLVMValueRef v) {
  uint64_t at;
  LLVMValueRef index = LLVMGetOperand(v, 1);
  Text type = c99_type(c, LLVMTypeOf(v)), from = c99_type(c, operand_type(v, 0));
  if (c99_is_constant_int(index, &at))
    return call_of(
        c, c99_helper(c, "lane", type, C99_PRINT("%s a", from), C99_PRINT("  return a.v[%u];\n", (uint32_t)at)), v, 1);
  return call_of(
      c,
      c99_helper(c, "lane", type, C99_PRINT("%s a, %s k", from, c99_type(c, LLVMTypeOf(index))), "  return a.v[k];\n"),
      v, 2);
}

static Text insert_lane(C99 *c, LLVMValueRef v) {
  Text type = c99_type(c, LLVMTypeOf(v));
  Text parameters =
      C99_PRINT("%s a, %s x, %s k", type, c99_type(c, operand_type(v, 1)), c99_type(c, operand_type(v, 2)));
  return call_of(c, c99_helper(c, "insert", type, parameters, "  a.v[k] = x;\n  return a;\n"), v, 3);
}

// Vectors of other lanes: by way of memory, and masks as bits.
static Text recast(C99 *c, LLVMValueRef v) {
  LLVMTypeRef from = operand_type(v, 0), to = LLVMTypeOf(v);
  RtText body = {.mem = c->mem};
  bool from_mask = c99_lanes(from) && c99_bits(c99_scalar(from)) == 1,
       to_mask = c99_lanes(to) && c99_bits(c99_scalar(to)) == 1;
  rt_text_add(&body, "  %s r;\n", c99_type(c, to));
  if (from_mask && !c99_lanes(to)) {
    rt_text_add(&body, "  r = 0;\n");
    for (uint32_t k = 0; k < c99_lanes(from); k++)
      rt_text_add(&body, "  r = (%s)(r | (%s)a.v[%u] << %u);\n", c99_type(c, to), c99_type(c, to), k, k);
  } else if (to_mask && !c99_lanes(from)) {
    for (uint32_t k = 0; k < c99_lanes(to); k++) rt_text_add(&body, "  r.v[%u] = a >> %u & 1;\n", k, k);
  } else if (from_mask || to_mask) {
    return c99_fail(c, "a mask as", LLVMPrintTypeToString(from_mask ? to : from));
  } else {
    rt_text_add(&body, "  memcpy(&r, &a, sizeof r);\n");
  }
  rt_text_add(&body, "  return r;\n");
  return call_of(c, c99_helper(c, "recast", c99_type(c, to), C99_PRINT("%s a", c99_type(c, from)), body.text), v, 1);
}

// ---- structs that are values
static Text field_path(C99 *c, LLVMValueRef v) {
  RtText out = {.mem = c->mem};
  for (uint32_t k = 0; k < LLVMGetNumIndices(v); k++) rt_text_add(&out, ".f%u", LLVMGetIndices(v)[k]);
  return out.text;
}

static Text extract_field(C99 *c, LLVMValueRef v) {
  Text body = C99_PRINT("  return a%s;\n", field_path(c, v));
  return call_of(
      c, c99_helper(c, "field", c99_type(c, LLVMTypeOf(v)), C99_PRINT("%s a", c99_type(c, operand_type(v, 0))), body),
      v, 1);
}

static Text insert_field(C99 *c, LLVMValueRef v) {
  Text type = c99_type(c, LLVMTypeOf(v)), body = C99_PRINT("  a%s = x;\n  return a;\n", field_path(c, v));
  return call_of(c, c99_helper(c, "set", type, C99_PRINT("%s a, %s x", type, c99_type(c, operand_type(v, 1))), body), v,
                 2);
}

static Text select_text(C99 *c, LLVMValueRef v) {
  if (c99_lanes(operand_type(v, 0))) return c99_by_lanes(c, v, "select", 3, lane);
  return C99_PRINT("(%s ? %s : %s)", c99_value(c, LLVMGetOperand(v, 0)), c99_value(c, LLVMGetOperand(v, 1)),
                   c99_value(c, LLVMGetOperand(v, 2)));
}

static Text stem_of(LLVMOpcode op) {
  switch ((int)op) {
  case LLVMAdd:
  case LLVMFAdd: return "add";
  case LLVMSub:
  case LLVMFSub: return "sub";
  case LLVMMul:
  case LLVMFMul: return "mul";
  case LLVMFDiv: return "div";
  case LLVMICmp:
  case LLVMFCmp: return "compare";
  case LLVMGetElementPtr: return "at";
  default: return op >= LLVMTrunc && op <= LLVMBitCast ? "convert" : "op";
  }
}

Text c99_expression(C99 *c, LLVMValueRef v) {
  LLVMOpcode op = opcode_of(v);
  switch ((int)op) {
  case LLVMCall: return c99_call(c, v);
  case LLVMLoad: return c99_load(c, v);
  case LLVMShuffleVector: return shuffle(c, v);
  case LLVMExtractElement: return extract_lane(c, v);
  case LLVMInsertElement: return insert_lane(c, v);
  case LLVMExtractValue: return extract_field(c, v);
  case LLVMInsertValue: return insert_field(c, v);
  case LLVMSelect: return select_text(c, v);
  case LLVMFreeze: return c99_value(c, LLVMGetOperand(v, 0));
  case LLVMGetElementPtr: return c99_by_lanes(c, v, "at", (uint32_t)LLVMGetNumOperands(v), lane);
  case LLVMBitCast:
    if (c99_lanes(operand_type(v, 0)) != c99_lanes(LLVMTypeOf(v))) return recast(c, v);
    break;
  case LLVMAdd:
  case LLVMFAdd:
  case LLVMSub:
  case LLVMFSub:
  case LLVMMul:
  case LLVMFMul:
  case LLVMUDiv:
  case LLVMSDiv:
  case LLVMFDiv:
  case LLVMURem:
  case LLVMSRem:
  case LLVMFRem:
  case LLVMShl:
  case LLVMLShr:
  case LLVMAShr:
  case LLVMAnd:
  case LLVMOr:
  case LLVMXor:
  case LLVMTrunc:
  case LLVMZExt:
  case LLVMSExt:
  case LLVMFPToUI:
  case LLVMFPToSI:
  case LLVMUIToFP:
  case LLVMSIToFP:
  case LLVMFPTrunc:
  case LLVMFPExt:
  case LLVMPtrToInt:
  case LLVMIntToPtr:
  case LLVMICmp:
  case LLVMFCmp:
  case LLVMFNeg: break;
  default: return c99_fail(c, "the instruction", C99_PRINT("of opcode %d", (int)op));
  }
  return c99_by_lanes(c, v, stem_of(op), (uint32_t)LLVMGetNumOperands(v), lane);
}
