// Names of the program as identifiers of C and C++.
#include "codegen/bundle/facts.h"
#include "runtime/format.h"

#include <string.h>

// Keywords of C23, C++20 and GNU C; types that the header names; macros of small letters that systems have.
static const char *const reserved[] = {"alignas",
                                       "alignof",
                                       "and",
                                       "and_eq",
                                       "asm",
                                       "auto",
                                       "bitand",
                                       "bitor",
                                       "bool",
                                       "break",
                                       "case",
                                       "catch",
                                       "char",
                                       "char16_t",
                                       "char32_t",
                                       "char8_t",
                                       "class",
                                       "co_await",
                                       "co_return",
                                       "co_yield",
                                       "compl",
                                       "concept",
                                       "const",
                                       "const_cast",
                                       "consteval",
                                       "constexpr",
                                       "constinit",
                                       "continue",
                                       "decltype",
                                       "default",
                                       "delete",
                                       "do",
                                       "double",
                                       "dynamic_cast",
                                       "else",
                                       "enum",
                                       "explicit",
                                       "export",
                                       "extern",
                                       "false",
                                       "float",
                                       "for",
                                       "friend",
                                       "goto",
                                       "if",
                                       "inline",
                                       "int",
                                       "long",
                                       "mutable",
                                       "namespace",
                                       "new",
                                       "noexcept",
                                       "not",
                                       "not_eq",
                                       "nullptr",
                                       "operator",
                                       "or",
                                       "or_eq",
                                       "private",
                                       "protected",
                                       "public",
                                       "register",
                                       "reinterpret_cast",
                                       "requires",
                                       "restrict",
                                       "return",
                                       "short",
                                       "signed",
                                       "sizeof",
                                       "static",
                                       "static_assert",
                                       "static_cast",
                                       "struct",
                                       "switch",
                                       "template",
                                       "this",
                                       "thread_local",
                                       "throw",
                                       "true",
                                       "try",
                                       "typedef",
                                       "typeid",
                                       "typename",
                                       "typeof",
                                       "typeof_unqual",
                                       "union",
                                       "unsigned",
                                       "using",
                                       "virtual",
                                       "void",
                                       "volatile",
                                       "wchar_t",
                                       "while",
                                       "xor",
                                       "xor_eq",
                                       "int32_t",
                                       "int64_t",
                                       "uint8_t",
                                       "uint16_t",
                                       "uint32_t",
                                       "uint64_t",
                                       "size_t",
                                       "complex",
                                       "imaginary",
                                       "noreturn",
                                       "errno",
                                       "stdin",
                                       "stdout",
                                       "stderr",
                                       "environ",
                                       "linux",
                                       "unix",
                                       "i386",
                                       "near",
                                       "far",
                                       "small",
                                       "interface"};

static bool is_reserved(const char *s) {
  for (size_t k = 0; k < sizeof reserved / sizeof *reserved; k++)
    if (!strcmp(s, reserved[k])) return true;
  return false;
}

static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// EOF, BUFSIZ, M_PI, and I of complex numbers: who includes the header may have included any other before.
static bool looks_like_macro(const char *s) {
  uint32_t n = 0;
  if (!strcmp(s, "I")) return true;
  for (; *s; s++) {
    if (*s >= 'a' && *s <= 'z') return false;
    n += is_upper(*s);
  }
  return n > 1;
}

char *cg_c_part(RtArena *mem, const char *name) {
  RtText t = {.mem = mem};
  for (; *name; name++) rt_text_add(&t, "%c", rt_is_alnum(*name) ? *name : '_');
  return t.text ? t.text : rt_strdup(mem, "_");
}

char *cg_c_name(RtArena *mem, const char *name) {
  char *s = cg_c_part(mem, name);
  while (*s == '_' && (s[1] == '_' || is_upper(s[1]))) s++;  // _X and __x are the compiler's
  return rt_printf(mem, "%s%s%s", rt_is_digit(*s) ? "_" : "", s, is_reserved(s) || looks_like_macro(s) ? "_" : "");
}

char *cg_c_upper_name(RtArena *mem, const char *name) {
  char *s = cg_c_part(mem, name);
  for (char *c = s; *c; c++)
    if (*c >= 'a' && *c <= 'z') *c = (char)(*c - 'a' + 'A');
  return s;
}

static bool is_taken(const CgNames *names, const char *name) {
  for (uint32_t k = 0; k < names->n; k++)
    if (!strcmp(names->list[k], name)) return true;
  return false;
}

const char *cg_new_name(CgNames *names, const char *name) {
  const char *free_name = name;
  for (uint32_t k = 2; is_taken(names, free_name); k++) free_name = rt_printf(names->mem, "%s_%u", name, k);
  return *RT_PUSH(names->mem, names->list, names->n, names->cap) = free_name;
}

// What the header declares for a function, and for all of them. Macros are of capitals, as functions may be.
static const char *const of_function[] = {"", "_in", "_out", "_worker"};
static const char *const of_header[] = {"cpu",
                                        "init",
                                        "load",
                                        "save",
                                        "error",
                                        "about",
                                        "info",
                                        "state",
                                        "dim",
                                        "array",
                                        "function",
                                        "tensor",
                                        "ABI",
                                        "PLAN",
                                        "STATE_BYTES",
                                        "ARENA_BYTES",
                                        "ALIGN",
                                        "FILE_BYTES",
                                        "INIT_ARENA_BYTES",
                                        "ALIGNED",
                                        "H",
                                        "CHECK_SIZE"};

static bool is_free_symbol(const CgNames *names, const char *stem) {
  size_t n = strlen(stem);
  if (n > 4 && !strcmp(stem + n - 4, "_MAX")) return false;
  if (n > 12 && !strcmp(stem + n - 12, "_ARENA_BYTES")) return false;
  for (size_t k = 0; k < sizeof of_function / sizeof *of_function; k++)
    if (is_taken(names, rt_printf(names->mem, "%s%s", stem, of_function[k]))) return false;
  return strncmp(stem, "ALIAS_", 6) != 0;
}

static const char *new_symbol(CgNames *names, const char *function) {
  const char *name = cg_c_part(names->mem, function), *stem = name;
  for (uint32_t k = 2; !is_free_symbol(names, stem); k++) stem = rt_printf(names->mem, "%s_%u", name, k);
  for (size_t k = 0; k < sizeof of_function / sizeof *of_function; k++)
    cg_new_name(names, rt_printf(names->mem, "%s%s", stem, of_function[k]));
  return stem;
}

char *cg_bundle_symbol(RtArena *mem, const TnBundleAbout *about, uint32_t k) {
  CgNames names = {.mem = mem};
  for (size_t i = 0; i < sizeof of_header / sizeof *of_header; i++) cg_new_name(&names, of_header[i]);
  for (uint32_t i = 0; i < k; i++) new_symbol(&names, about->functions[i].name);
  return (char *)(uintptr_t)new_symbol(&names, about->functions[k].name);
}

static void put_dim(const RtPlan *p, uint32_t row, bool is_factor, RtText *out) {
  const RtDim *d = &p->dims[row];
  switch ((RtDimKind)d->kind) {
  case RT_DIM_CONST: rt_text_add(out, "%lld", (long long)d->value); return;
  case RT_DIM_SLOT: rt_text_add(out, "%s", p->slots[d->value].name); return;
  case RT_DIM_MUL:
    put_dim(p, d->a, true, out);
    rt_text_add(out, " * ");
    put_dim(p, d->b, true, out);
    return;
  case RT_DIM_ADD:
    rt_text_add(out, is_factor ? "(" : "");
    put_dim(p, d->a, false, out);
    rt_text_add(out, " + ");
    put_dim(p, d->b, false, out);
    rt_text_add(out, is_factor ? ")" : "");
    return;
  case RT_DIM_DIV:
    put_dim(p, d->a, true, out);
    rt_text_add(out, " / ");
    put_dim(p, d->b, true, out);
    return;
  case RT_DIM_MAX:
  case RT_DIM_MIN:
    rt_text_add(out, d->kind == RT_DIM_MAX ? "max(" : "min(");
    put_dim(p, d->a, false, out);
    rt_text_add(out, ", ");
    put_dim(p, d->b, false, out);
    rt_text_add(out, ")");
    return;
  }
}

char *cg_shape_text(RtArena *mem, const RtPlan *p, const RtPort *port) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "[");
  for (uint32_t d = 0; d < port->rank; d++) {
    rt_text_add(&t, d ? ", " : "");
    put_dim(p, port->dims[d], false, &t);
  }
  rt_text_add(&t, "]");
  return t.text;
}
