// How messages name a value: as the text does where the program is text, else by the call that made it.
//
//   %h = sigmoid %y              "%h (sigmoid)"
//   tn_sigmoid(y), m.c:12        "tn_sigmoid (m.c:12)"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/text/text.h"

// "input 'x'", "parameter 'fc.weight'"; NULL: a call made it
static const char *own_name(const Fn *f, Val v) {
  const Prog *p = f->prog;
  const Ins *ins = ir_ins(f, v);
  if (ins->op == OP_input) return rt_printf(p->mem, "input '%s'", ir_text(p, ins->name));
  if (ins->op != OP_param) return NULL;
  return rt_printf(p->mem, "parameter '%s'", ir_text(p, p->params[ir_attr_int(f, v, KEY_param, 0)].path));
}

// "tn_call of module 'fc'". A call that is just one operation is named by it: tn_add.
const char *ir_call_text(const Fn *f, Val v) {
  const Prog *p = f->prog;
  Loc at = ir_ins(f, v)->loc;
  const char *call = ir_loc_call(p, at), *module = ir_loc_module(p, at);
  if (!*call) call = rt_printf(p->mem, "tn_%s", ir_ops[ir_ins(f, ir_head(f, v))->op].name);
  return *module ? rt_printf(p->mem, "%s of module '%s'", call, module) : call;
}

const char *ir_result_text(const Fn *f, Val v) {
  RtText text = {.mem = f->prog->mem};
  const char *own = f->prog->names_calls ? own_name(f, v) : NULL;
  if (own) return own;
  if (f->prog->names_calls) rt_text_add(&text, "the result of %s", ir_call_text(f, v));
  else ir_print_name(f, v, &text);
  return text.text;
}

const char *ir_value_text(const Fn *f, Val v) {
  const Prog *p = f->prog;
  RtText text = {.mem = p->mem};
  const char *own = p->names_calls ? own_name(f, v) : NULL;
  if (own) return own;
  if (p->names_calls) rt_text_add(&text, "%s", ir_call_text(f, v));
  else ir_print_name(f, v, &text);
  Loc at = ir_ins(f, v)->loc;
  if (!p->names_calls) rt_text_add(&text, " (%s)", ir_ops[ir_ins(f, v)->op].name);
  else if (at.i) rt_text_add(&text, " (%s:%u)", ir_loc_file(p, at), ir_loc_line(p, at));
  return text.text;
}
