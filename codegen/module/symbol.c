// Symbols of a program's functions.
#include "codegen/module/module.h"
#include "ir/intern.h"
#include "runtime/format.h"

// Text may name functions in any way: two names are two symbols, or one's code would run for the other. A dot is kept:
// variants for smaller bounds have one (step.time16). C calls give no name with one, and text no bounds.
static void put_identifier(RtText *out, const char *s) {
  if (rt_is_digit(*s) && !out->len) rt_text_add(out, "_");
  for (; *s; s++) rt_text_add(out, rt_is_alnum(*s) || *s == '.' || *s == '_' ? "%c" : "$%02x", (unsigned char)*s);
}

char *cg_program_symbol(RtArena *mem, const Prog *p) {
  RtText t = {mem, NULL, 0, 0};
  put_identifier(&t, ir_text(p, p->name));
  return t.text ? t.text : rt_strdup(mem, "");
}

char *cg_symbol(RtArena *mem, const Prog *p, const Fn *f) {
  RtText t = {mem, NULL, 0, 0};
  put_identifier(&t, ir_text(p, p->name));
  rt_text_add(&t, "_");
  put_identifier(&t, ir_text(p, f->name));
  return t.text;
}
