// Types of LLVM as types of C. Integers are unsigned, of 8, 16, 32 or 64 bits; those between have 0 above their width. A
// vector is a struct with an array, an integer of more than 64 bits one of 64-bit words, the lowest first.
#include "codegen/c99/writer.h"

#include <string.h>

Text c99_fail(C99 *c, const char *what, Text which) {
  if (!c->why->len) rt_text_add(c->why, "C99 has no words for %s%s%s", what, which ? " " : "", which ? which : "");
  return "0";
}

// The name of what has this key; NULL: it is new, and *name what is to be given
static Text known(C99 *c, C99Names *names, Text key, Text stem) {
  for (uint32_t k = 0; k < names->n; k++)
    if (!strcmp(names->list[k].key, key)) return names->list[k].name;
  *RT_PUSH(c->mem, names->list, names->n, names->cap) = (C99Named){key, stem};
  return NULL;
}

LLVMTypeRef c99_scalar(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t; }

uint32_t c99_lanes(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 0; }

uint32_t c99_bits(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(t) : 0; }

uint32_t c99_words(LLVMTypeRef t) { return c99_bits(t) > 64 ? (c99_bits(t) + 63) / 64 : 0; }

static uint32_t held_in(uint32_t bits) { return bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64; }

static Text declare_struct(C99 *c, Text name, Text fields) {
  Text known_name = known(c, &c->struct_types, fields, name);
  if (known_name) return known_name;
  rt_text_add(&c->types, "typedef struct {\n%s} %s;\n", fields, name);
  return name;
}

static Text aggregate(C99 *c, LLVMTypeRef t, bool is_array) {
  RtText fields = {.mem = c->mem};
  uint32_t n = is_array ? (uint32_t)LLVMGetArrayLength2(t) : LLVMCountStructElementTypes(t);
  for (uint32_t k = 0; k < n; k++)
    rt_text_add(&fields, "  %s f%u;\n", c99_type(c, is_array ? LLVMGetElementType(t) : LLVMStructGetTypeAtIndex(t, k)),
                k);
  return declare_struct(c, C99_PRINT("fields%u", c->struct_types.n), fields.len ? fields.text : "  char none;\n");
}

// What CPUs have vectors of, whatever they are: four numbers of 32 bits, two of 64.
bool c99_is_register(C99 *c, LLVMTypeRef t) {
  LLVMTypeRef e = c99_scalar(t);
  bool is_number = c99_bits(e) == 32 || c99_bits(e) == 64 || LLVMGetTypeKind(e) == LLVMFloatTypeKind ||
                   LLVMGetTypeKind(e) == LLVMDoubleTypeKind;
  return is_number && LLVMABISizeOfType(c->layout, e) * c99_lanes(t) == 16;
}

static Text vector(C99 *c, LLVMTypeRef t) {
  LLVMTypeRef e = LLVMGetElementType(t);
  uint32_t n = LLVMGetVectorSize(t);
  if (c99_is_register(c, t))
    return declare_struct(c, C99_PRINT("%sx%u", c99_memory_name(c, e), n),
                          C99_PRINT("  LANES(%s, %u);\n", c99_type(c, e), n));
  return declare_struct(c, C99_PRINT("%sx%u", c99_bits(e) == 1 ? "mask" : c99_memory_name(c, e), n),
                        C99_PRINT("  %s v[%u];%s\n", c99_type(c, e), n, c99_bits(e) == 1 ? "  // 0 or 1" : ""));
}

static Text integer(C99 *c, uint32_t bits) {
  uint32_t words = (bits + 63) / 64;
  if (words <= 1) return C99_PRINT("uint%u_t", held_in(bits));
  return declare_struct(c, C99_PRINT("wide%u", words), C99_PRINT("  uint64_t w[%u];\n", words));
}

Text c99_type(C99 *c, LLVMTypeRef t) {
  switch ((int)LLVMGetTypeKind(t)) {
  case LLVMVoidTypeKind: return "void";
  case LLVMFloatTypeKind: return "float";
  case LLVMDoubleTypeKind: return "double";
  case LLVMPointerTypeKind: return "Ptr";
  case LLVMIntegerTypeKind: return integer(c, LLVMGetIntTypeWidth(t));
  case LLVMVectorTypeKind: return vector(c, t);
  case LLVMStructTypeKind: return aggregate(c, t, false);
  case LLVMArrayTypeKind: return aggregate(c, t, true);
  default: return c99_fail(c, "a value of type", LLVMPrintTypeToString(t));
  }
}

Text c99_passed_type(C99 *c, LLVMTypeRef t) { return c99_bits(t) == 32 ? "int32_t" : c99_type(c, t); }

Text c99_memory_name(C99 *c, LLVMTypeRef t) {
  switch ((int)LLVMGetTypeKind(t)) {
  case LLVMFloatTypeKind: return "f32";
  case LLVMDoubleTypeKind: return "f64";
  case LLVMPointerTypeKind: return "ptr";
  case LLVMIntegerTypeKind: return C99_PRINT("u%u", held_in(LLVMGetIntTypeWidth(t)));
  default: return c99_fail(c, "an access to", LLVMPrintTypeToString(t));
  }
}

Text c99_function_type(C99 *c, LLVMTypeRef t, Text name) {
  LLVMTypeRef *type = rt_alloc(c->mem, (LLVMCountParamTypes(t) + 1) * sizeof *type);
  RtText out = {.mem = c->mem};
  LLVMGetParamTypes(t, type);
  rt_text_add(&out, "%s %s(", c99_passed_type(c, LLVMGetReturnType(t)), name);
  for (uint32_t k = 0; k < LLVMCountParamTypes(t); k++)
    rt_text_add(&out, "%s%s", k ? ", " : "", c99_passed_type(c, type[k]));
  rt_text_add(&out, LLVMCountParamTypes(t) ? ")" : "void)");
  return LLVMIsFunctionVarArg(t) ? c99_fail(c, "a function of any number of arguments", NULL) : out.text;
}

static bool is_taken(const C99Names *names, Text name) {
  for (uint32_t k = 0; k < names->n; k++)
    if (!strcmp(names->list[k].name, name)) return true;
  return false;
}

// "addf32x4"; where others are called so, as shuffles of other lanes, with a number behind it
Text c99_helper(C99 *c, Text stem, Text result, Text parameters, Text body) {
  RtText full = {.mem = c->mem};
  rt_text_add(&full, "%s", stem);
  for (Text s = strcmp(result, "void") ? result : ""; *s; s++)
    if (*s != '_') rt_text_put(&full, s, 1);
  Text name = full.text;
  if (is_taken(&c->helper_names, name)) name = C99_PRINT("%sn%u", name, c->helper_names.n);
  Text before = known(c, &c->helper_names, C99_PRINT("%s (%s) {\n%s", result, parameters, body), name);
  if (before) return before;
  rt_text_add(&c->helpers, "INLINE %s %s(%s) {\n%s}\n", result, name, parameters, body);
  return name;
}
