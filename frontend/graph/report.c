// What is said about a call that cannot be: whose it is, in which module, and where each operand was made.
//
//   model.c:14: error[E004]: tn_call of module 'fc': the last size of x differs from the weight's second; operands are ..
//   model.c:12: note: x is input 'x', f32[4,3], made here
//   model.c:5: note: weight is parameter 'fc.weight', f32[8,4], made here
//   hint: x of shape [4,4] would fit
//
// The call is the outermost one of the user's: guards on the stack know their functions' names, up to a hook, which is the
// user's code again.
#include "frontend/graph/report.h"
#include "frontend/graph/module.h"
#include "ir/fn.h"
#include "ir/text/text.h"
#include <string.h>

static bool is_public(const char *call) { return !strncmp(call, "tn_", 3); }

const char *fe_outermost_call(const tn_program *p) {
  const char *name = NULL;
  for (const FeGuard *g = p->guard; g && !g->runs_hook; g = g->outer)
    if (is_public(g->call)) name = g->call;
  return name;
}

const char *fe_public_call(const tn_program *p, const char *function) {
  const char *name = fe_outermost_call(p);
  return name ? name : is_public(function) ? function : NULL;
}

const char *fe_call_text(tn_program *p, Op op) {
  const char *name = fe_outermost_call(p);
  if (!name) name = rt_printf(p->mem, "tn_%s", ir_ops[op].name);
  return p->inside ? rt_printf(p->mem, "%s of module '%s'", name, p->inside->path) : name;
}

// "tn_add: ", or "" where only the name of a helper is known
static const char *call_prefix(tn_program *p, const char *call) {
  const char *name = fe_public_call(p, call);
  if (!name && ir_op_find(call)) name = rt_printf(p->mem, "tn_%s", call);
  return name ? rt_printf(p->mem, "%s: ", name) : "";
}

// ---- values
// "input 'x', " or ""
static const char *own_name(tn_tensor t) {
  Fn *f = t.fn->ir;
  Prog *p = f->prog;
  const Ins *ins = fe_ins(t);
  if (ins->op == OP_input) return rt_printf(p->mem, "input '%s', ", ir_text(p, ins->name));
  if (ins->op != OP_param) return "";
  const Param *q = &p->params[ir_attr_int(f, fe_val(t), KEY_param, 0)];
  return rt_printf(p->mem, "parameter '%s', ", ir_text(p, q->path));
}

static Loc made_at(tn_tensor t) {
  const Fn *f = t.fn->ir;
  if (fe_ins(t)->op != OP_param) return fe_ins(t)->loc;
  return f->prog->params[ir_attr_int(f, fe_val(t), KEY_param, 0)].loc;
}

const char *fe_type_text(tn_tensor t) {
  RtText type = {.mem = t.fn->p->mem};
  ir_print_type(t.fn->ir, fe_val(t), &type);
  return type.text;
}

// `of`: the program whose place it is, which may be another one
static void note_in(tn_program *p, const tn_program *of, Loc at, const char *text) {
  rt_diag(&p->ir->diags, RT_NOTE, 0, ir_loc_file(of->ir, at), ir_loc_line(of->ir, at), "%s", text);
}

void fe_note_value(tn_tensor t, const char *what) {
  if (!fe_ok(t) || fe_ins(t)->op == OP_const) return;
  fe_note(t.fn->p, made_at(t), "%s is %s%s, made here", what, own_name(t), fe_type_text(t));
}

// ---- faults that a row's rule finds
void fe_report_fault(Op op, const tn_tensor *a, uint32_t n, const EmitFault *fault, tn_site at) {
  tn_program *p = a[0].fn->p;
  const uint32_t most = sizeof fault->operands / sizeof *fault->operands;
  fe_error(p, fault->id, at, "%s: %s", fe_call_text(p, op), fault->why);
  for (uint32_t k = 0; k < n && k < most; k++)
    if (fault->operands[k]) fe_note_value(a[k], fault->operands[k]);
  if (fault->fits) fe_hint(p, "%s", fault->fits);
}

// ---- what belongs elsewhere
void fe_report_foreign(tn_function *f, tn_tensor mine, tn_tensor other, const char *call, tn_site at) {
  tn_program *p = f->p;
  const char *prefix = call_prefix(p, call);
  if (p != other.fn->p) fe_error(p, E_FOREIGN, at, "%svalues of two programs are mixed", prefix);
  else
    fe_error(p, E_FOREIGN, at, "%sa value of function '%s' is mixed with one of function '%s'", prefix, other.fn->name,
             f->name);
  if (fe_ok(other))
    note_in(
        p, other.fn->p, made_at(other),
        rt_printf(p->mem, "%s%s of function '%s' was made here", own_name(other), fe_type_text(other), other.fn->name));
  if (fe_ok(mine))
    fe_note(p, made_at(mine), "%s%s of function '%s' was made here", own_name(mine), fe_type_text(mine), f->name);
  fe_hint(p, "functions share parameters alone: what one makes, another takes as an input");
}

// The value of a function that was ended, in one that is built.
void fe_report_ended(tn_function *f, tn_tensor t, const char *call, tn_site at) {
  tn_program *p = f->p;
  fe_error(p, E_FOREIGN, at, "%sa value of function '%s', which was ended, is used while function '%s' is built",
           call_prefix(p, call), t.fn->name, f->name);
  if (fe_ok(t)) fe_note_value(t, "the value");
  fe_hint(p, "functions share parameters alone: what one makes, another takes as an input");
}

void fe_note_module(tn_program *p, const tn_module *m) {
  if (m->poisoned) return;
  note_in(p, m->p, m->loc,
          rt_printf(p->mem, "module '%s' of program '%s' was made here", m->path, ir_text(m->p->ir, m->p->ir->name)));
}

bool fe_own_module(tn_program *p, const tn_module *m, const char *what, tn_site at) {
  if (m && m->p == p) return true;
  fe_error(p, m ? E_FOREIGN : E_ARGUMENT, at, m ? "a module of another program is %s" : "no module is %s", what);
  if (m) fe_note_module(p, m);
  return false;
}
