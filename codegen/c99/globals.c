// Variables of the module, which are constants: tables, strings, and bytes. A field with the address of a function has a type of
// its own; floats are their bits, since all that reads them goes through memory.
#include "codegen/c99/writer.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  LLVMValueRef *list;
  uint32_t n, cap;
} Values;

static bool is_zero(LLVMValueRef v) { return LLVMIsNull(v) || LLVMIsUndef(v) || LLVMIsPoison(v); }

static uint32_t parts_of(LLVMTypeRef t) {
  if (LLVMGetTypeKind(t) == LLVMArrayTypeKind) return (uint32_t)LLVMGetArrayLength2(t);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : LLVMCountStructElementTypes(t);
}

static bool is_list(LLVMTypeRef t) {
  return LLVMGetTypeKind(t) == LLVMArrayTypeKind || LLVMGetTypeKind(t) == LLVMVectorTypeKind;
}

static bool is_number(LLVMTypeRef t) {
  LLVMTypeKind k = LLVMGetTypeKind(t);
  return k == LLVMIntegerTypeKind || k == LLVMFloatTypeKind || k == LLVMDoubleTypeKind;
}

// ---- declarations: `name` as a variable of type t; all are its contents, or those of all elements of an array that it is in
static Text declaration(C99 *c, LLVMTypeRef t, Text name, const Values *all);

static Values parts(C99 *c, const Values *all, uint32_t from, uint32_t to) {
  Values out = {0};
  for (uint32_t k = 0; k < all->n; k++)
    for (uint32_t e = from; e < to && !is_zero(all->list[k]); e++)
      *RT_PUSH(c->mem, out.list, out.n, out.cap) = LLVMGetAggregateElement(all->list[k], e);
  return out;
}

static Text pointer(C99 *c, Text name, const Values *all) {
  uint32_t n_functions = 0, n_others = 0;
  for (uint32_t k = 0; k < all->n; k++) {
    if (is_zero(all->list[k])) continue;
    if (LLVMIsAFunction(all->list[k])) n_functions++;
    else n_others++;
  }
  if (n_functions && n_others) c99_fail(c, "a table with addresses of functions and of data", NULL);
  return n_functions ? C99_PRINT("void (*%s)(void)", name) : C99_PRINT("const void *%s", name);
}

static Text structure(C99 *c, LLVMTypeRef t, Text name, const Values *all) {
  RtText out = {.mem = c->mem};
  rt_text_add(&out, "struct {");
  for (uint32_t k = 0; k < parts_of(t); k++) {
    Values of_field = parts(c, all, k, k + 1);
    rt_text_add(&out, "%s%s;", k ? " " : "",
                declaration(c, LLVMStructGetTypeAtIndex(t, k), C99_PRINT("f%u", k), &of_field));
  }
  if (!parts_of(t)) rt_text_add(&out, "char none;");
  rt_text_add(&out, "} %s", name);
  return out.text;
}

static Text declaration(C99 *c, LLVMTypeRef t, Text name, const Values *all) {
  if (is_list(t)) {
    LLVMTypeRef e = LLVMGetElementType(t);
    Values of_elements = is_number(e) ? (Values){0} : parts(c, all, 0, parts_of(t));
    return declaration(c, e, C99_PRINT("%s[%u]", name, parts_of(t) ? parts_of(t) : 1), &of_elements);
  }
  switch ((int)LLVMGetTypeKind(t)) {
  case LLVMPointerTypeKind: return pointer(c, name, all);
  case LLVMStructTypeKind: return structure(c, t, name, all);
  case LLVMFloatTypeKind: return C99_PRINT("uint32_t %s", name);
  case LLVMDoubleTypeKind: return C99_PRINT("uint64_t %s", name);
  default: return C99_PRINT("%s %s", c99_type(c, t), name);
  }
}

// ---- contents
static void put(C99 *c, RtText *out, LLVMValueRef v);

// "&g3", "(const char *)&g3 + 16"
static Text address(C99 *c, LLVMValueRef v) {
  size_t n;
  if (LLVMIsAFunction(v)) return C99_PRINT("(void (*)(void))%s", LLVMGetValueName2(v, &n));
  if (LLVMIsAGlobalVariable(v)) return C99_PRINT("&%s", LLVMGetValueName2(v, &n));
  if (!LLVMIsAConstantExpr(v) || LLVMGetConstOpcode(v) != LLVMGetElementPtr)
    return c99_fail(c, "a constant's address", NULL);
  Text moved = c99_expression(c, v);  // "((Ptr)(uintptr_t)&g3 + 16)"
  Text plus = strrchr(moved, '+');
  if (!plus || !LLVMIsAGlobalVariable(LLVMGetOperand(v, 0))) return c99_fail(c, "a constant's address", NULL);
  return C99_PRINT("(const char *)&%s %.*s", LLVMGetValueName2(LLVMGetOperand(v, 0), &n), (int)strlen(plus) - 1, plus);
}

static void put_parts(C99 *c, RtText *out, LLVMValueRef v) {
  uint32_t n = parts_of(LLVMTypeOf(v));
  size_t line = out->len;
  rt_text_add(out, "{");
  for (uint32_t k = 0; k < n; k++) {
    bool is_long = out->len - line > 100;
    if (is_long) line = out->len;
    rt_text_add(out, !k ? "" : is_long ? ",\n  " : ", ");
    put(c, out, LLVMGetAggregateElement(v, k));
  }
  rt_text_add(out, n ? "}" : "0}");
}

static void put_float(RtText *out, LLVMTypeRef t, double x) {
  float single = (float)x;
  uint32_t bits;
  uint64_t long_bits;
  memcpy(&bits, &single, sizeof bits), memcpy(&long_bits, &x, sizeof long_bits);
  if (LLVMGetTypeKind(t) == LLVMFloatTypeKind) rt_text_add(out, "0x%" PRIx32 "u", bits);
  else rt_text_add(out, "0x%" PRIx64 "ull", long_bits);
}

static void put(C99 *c, RtText *out, LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  LLVMBool is_rounded;
  bool is_scalar = is_number(t) || LLVMGetTypeKind(t) == LLVMPointerTypeKind;
  if (is_zero(v)) rt_text_add(out, is_scalar ? "0" : "{0}");
  else if (LLVMIsAConstantFP(v)) put_float(out, t, LLVMConstRealGetDouble(v, &is_rounded));
  else if (LLVMIsAConstantInt(v)) rt_text_add(out, "%s", c99_value(c, v));
  else if (LLVMGetTypeKind(t) == LLVMPointerTypeKind) rt_text_add(out, "%s", address(c, v));
  else put_parts(c, out, v);
}

// ---- bytes: as a string where they are one, else as words
enum { LONGEST_STRING = 4000 };  // C99 promises 4095

static bool is_text(const char *s, size_t n) {
  if (!n || n > LONGEST_STRING || s[n - 1]) return false;
  for (size_t k = 0; k + 1 < n; k++)
    if ((s[k] < ' ' && s[k]) || s[k] == 127 || (s[k] & 0x80)) return false;
  return true;
}

static void put_string(RtText *out, const char *s, size_t n) {
  rt_text_add(out, "\"");
  for (size_t k = 0; k + 1 < n; k++) {
    if (k % 100 == 99) rt_text_add(out, "\"\n  \"");
    if (!s[k]) rt_text_add(out, "\\000");
    else rt_text_add(out, strchr("\"\\?", s[k]) ? "\\%c" : "%c", s[k]);
  }
  rt_text_add(out, "\"");
}

static void put_words(RtText *out, const char *s, size_t n) {
  rt_text_add(out, "{");
  for (size_t k = 0; k < n; k += 8) {
    uint64_t word = 0;
    for (size_t b = 0; b < 8 && k + b < n; b++) word |= (uint64_t)(unsigned char)s[k + b] << 8 * b;
    rt_text_add(out, word < 10 ? "%s%" PRIu64 : "%s0x%" PRIx64 "ull", k % 48 == 0 && k ? ",\n  " : k ? ", " : "", word);
  }
  rt_text_add(out, "}");
}

static void put_bytes(C99 *c, Text name, Text prefix, LLVMValueRef init, RtText *out) {
  size_t n;
  const char *s = LLVMGetAsString(init, &n);
  Text declared = is_text(s, n) ? C99_PRINT("char %s[%zu]", name, n) : C99_PRINT("uint64_t %s[%zu]", name, (n + 7) / 8);
  rt_text_add(out, "%s %s = ", prefix, declared);
  if (is_text(s, n)) put_string(out, s, n);
  else put_words(out, s, n);
  rt_text_add(out, ";\n");
}

// ---- all
static bool is_public(LLVMValueRef g) { return LLVMGetLinkage(g) == LLVMExternalLinkage; }

static bool is_bytes(LLVMValueRef init) { return LLVMIsAConstantDataArray(init) && LLVMIsConstantString(init); }

static Text prefix_of(C99 *c, LLVMValueRef g) {
  uint32_t align = LLVMGetAlignment(g);
  Text shown = is_public(g) ? "" : "static ", unchanged = LLVMIsGlobalConstant(g) ? "const" : "";
  return align > 8 ? C99_PRINT("%sALIGNED(%u) %s", shown, align, unchanged) : C99_PRINT("%s%s", shown, unchanged);
}

// All are declared before they are defined: tables name one another.
static void put_global(C99 *c, LLVMValueRef g, RtText *declared) {
  size_t n;
  Text name = LLVMGetValueName2(g, &n), prefix = prefix_of(c, g);
  LLVMValueRef init = LLVMGetInitializer(g);
  LLVMTypeRef t = LLVMGlobalGetValueType(g);
  if (!init) return (void)c99_fail(c, "a variable of another file:", name);
  if (is_bytes(init)) return put_bytes(c, name, prefix, init, declared);
  uint64_t bytes = LLVMABISizeOfType(c->layout, t);
  rt_text_add(declared, "typedef %s;\n", declaration(c, t, C99_PRINT("T%s", name), &(Values){&init, 1, 1}));
  rt_text_add(declared, "CHECK(C%s, sizeof(T%s) == %" PRIu64 ");\n%s T%s %s;\n", name, name, bytes ? bytes : 1, prefix,
              name, name);
  rt_text_add(&c->globals, "%s T%s %s = ", prefix, name, name);
  if (is_zero(init)) rt_text_add(&c->globals, "{0}");
  else put(c, &c->globals, init);
  rt_text_add(&c->globals, ";\n");
}

void c99_globals(C99 *c) {
  RtText declared = {.mem = c->mem}, defined;
  for (LLVMValueRef g = LLVMGetFirstGlobal(c->mod); g; g = LLVMGetNextGlobal(g)) {
    size_t n;
    if (strncmp(LLVMGetValueName2(g, &n), "llvm.", 5)) put_global(c, g, &declared);
  }
  defined = c->globals;
  c->globals = declared;
  if (defined.len) rt_text_put(&c->globals, defined.text, defined.len);
}
