// Reports a wanted gradient that meets an operation without a rule: which operation, the loss it comes from,
// and the value it is wanted for.
//
//   m.c:5: error[E125]: rnn_seq_grad has no gradient rule, but the gradient of %l with respect to %x flows through it
//   m.c:8: note: %l was made here
//   m.c:2: note: %x was made here
//   note: the path: %l (sum), %9 (mul), %7 (rnn_seq_grad), %x (input)
#include "ir/autodiff/autodiff.h"
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/text/text.h"

#include <string.h>

enum { MAX_SHOWN = 6 /* values of one half of a path */ };

// The reader of v through which its gradient came; none: the backward began at v.
static Val reader_of(const Grad *g, Val v, uint32_t last) {
  for (uint32_t i = v.i + 1; i <= last; i++) {
    const Ins *ins = &g->f->ins[i];
    if (ins->op == OP_result || !g->dep[i] || !ir_grad_has_adjoint(g, (Val){i})) continue;
    for (uint32_t k = 0; k < ins->n_args; k++)
      if (ir_head(g->f, ir_arg(g->f, (Val){i}, k)).i == v.i && ir_grad_flows(g->f, (Val){i}, k)) return (Val){i};
  }
  return (Val){0};
}

// The operand of v that leads on to a target; none: v is one itself.
static Val towards_target(const Grad *g, Val v) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++) {
    Val a = ir_arg(g->f, v, k);
    if (g->dep[a.i] && ir_grad_flows(g->f, v, k)) return ir_head(g->f, a);
  }
  return (Val){0};
}

// One public call may make several instructions of the path: it is named once.
static void add_step(const Grad *g, RtText *text, Val v) {
  const char *step = ir_value_text(g->f, v);
  size_t n = strlen(step), before = text->text ? strlen(text->text) : 0;
  if (before >= n && !strcmp(text->text + before - n, step)) return;
  rt_text_add(text, "%s%s", before ? ", " : "", step);
}

// A second gradient stops at an op that the first gradient of a call is made of.
static const char *gradient_of(const Grad *g, Val v) {
  bool is_gradient = g->p->names_calls && strstr(ir_ops[ir_ins(g->f, v)->op].name, "_grad");
  return is_gradient ? "the gradient of " : "";
}

// Appends list[from], list[from + step], .. ; the middle of a long one is left out.
static void add_steps(const Grad *g, RtText *text, const Val *list, uint32_t n, bool from_end) {
  for (uint32_t k = 0; k < n; k++) {
    if (n > MAX_SHOWN && k == MAX_SHOWN / 2) {
      rt_text_add(text, ", ..");
      k = n - MAX_SHOWN / 2;
    }
    add_step(g, text, list[from_end ? n - 1 - k : k]);
  }
}

static void note_made(const Grad *g, Val v, const char *name) {
  Loc at = ir_ins(g->f, v)->loc;
  rt_diag(&g->p->diags, RT_NOTE, 0, ir_loc_file(g->p, at), ir_loc_line(g->p, at), "%s was made here", name);
}

void ir_grad_missing(Grad *g, Val v, const char *what) {
  RtArena *mem = g->p->mem;
  uint32_t n_up = 0, cap_up = 0, n_down = 0, cap_down = 0, last = ir_none(g->loss) ? g->first - 1 : g->loss.i;
  Val *up = NULL, *down = NULL, from = v, to = v;
  for (Val w = reader_of(g, v, last); !ir_none(w); w = reader_of(g, w, last))
    *RT_PUSH(mem, up, n_up, cap_up) = from = w;
  for (Val w = towards_target(g, v); !ir_none(w); w = towards_target(g, w))
    *RT_PUSH(mem, down, n_down, cap_down) = to = w;
  const char *from_name = ir_result_text(g->f, from), *to_name = ir_result_text(g->f, to);
  RtText path = {.mem = mem};
  add_steps(g, &path, up, n_up, true);
  add_step(g, &path, v);
  add_steps(g, &path, down, n_down, false);
  Loc at = ir_ins(g->f, v)->loc;
  g->failed = true;
  rt_diag(&g->p->diags, RT_ERROR, E_NO_GRAD_RULE, ir_loc_file(g->p, at), ir_loc_line(g->p, at),
          "%s%s %s, but the gradient of %s with respect to %s flows through it", gradient_of(g, v),
          ir_value_text(g->f, v), what, from_name, to_name);
  note_made(g, from, from_name);
  note_made(g, to, to_name);
  rt_diag(&g->p->diags, RT_NOTE, 0, NULL, 0, "the path: %s", path.text);
  rt_diag(&g->p->diags, RT_HINT, 0, NULL, 0, "stop_grad makes a value a constant for gradients");
}
