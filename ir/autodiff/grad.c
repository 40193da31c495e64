// Pass grad: replaces `grad_of %loss, %x` by the backward computation, reverse mode, on pure SSA.
//
//   %y = mul %x, %x                      %y = mul %x, %x
//   %l = sum %y {axes=[0]}               %l = sum %y {axes=[0]}
//   %g = grad_of %l, %x          ->      %1 = const {value=1}
//                                        ... expand, mul, add ...
//
// The backward of a loss is made once, where its first gradient is asked for, and only along paths that lead to a value
// whose gradient some grad_of asks for. Pointwise rows carry their gradients as expressions; other ops have a rule
// (grad_rules.c). Saved values are ordinary operands: their lives are extended by being read, nothing else.
//
// Gradients of gradients: a grad_of is expanded where it stands, so that a later loss which reads it goes back through
// its backward as through any other instructions.
#include "ir/autodiff/grad.h"
#include "ir/rewrite.h"
#include <string.h>

// ---- one loss
static bool has_adjoint(const Grad *g, Val v) {
  for (uint32_t k = 0; k < ir_ins(g->f, v)->n_res; k++)
    if (!ir_none(g->adj[v.i + k])) return true;
  return false;
}

// Marks what depends on a target, up to `last`.
static void find_dependent(Grad *g, uint32_t last) {
  const Fn *f = g->f;
  for (uint32_t i = 1; i <= last; i++)
    for (uint32_t k = 0; k < f->ins[i].n_args && !g->dep[i]; k++)
      if (ir_grad_flows(f, (Val){i}, k) && g->dep[ir_arg(f, (Val){i}, k).i]) g->dep[i] = true;
}

static void walk_back(Grad *g, uint32_t last) {
  Fn *f = g->f;
  for (uint32_t i = last; i > 0; i--) {
    Val v = {i};
    Ins ins = f->ins[i];  // a copy: the array grows
    if (!g->dep[i] || ins.op == OP_result || ir_attr(f, v, KEY_no_grad) || !has_adjoint(g, v)) continue;
    g->loc = ins.loc;
    f->cur_scope = ins.scope;
    ir_grad_through(g, v, g->adj[i]);
    while (g->first + g->n_of < f->n_ins) *RT_PUSH(g->p->mem, g->of, g->n_of, g->cap_of) = v;
  }
}

// Everything up to `loss` is in place; targets are marked in g->dep.
static void backward(Grad *g) {
  find_dependent(g, g->loss.i);
  if (!g->dep[g->loss.i]) return;
  g->loc = ir_ins(g->f, g->loss)->loc;
  g->adj[g->loss.i] = ir_const(g->f, 1, g->loc);
  *RT_PUSH(g->p->mem, g->of, g->n_of, g->cap_of) = g->loss;
  walk_back(g, g->loss.i);
}

Val *ir_grad_values(Fn *f, const Val *of, const Val *seed, uint32_t n, const bool *want) {
  uint32_t size = f->n_ins;
  Grad g = {.f = f, .p = f->prog, .first = size, .loc = f->loc};
  g.adj = rt_alloc(f->prog->mem, size * sizeof *g.adj);
  g.dep = rt_alloc(f->prog->mem, size * sizeof *g.dep);
  memcpy(g.dep, want, size * sizeof *g.dep);
  find_dependent(&g, size - 1);
  for (uint32_t k = 0; k < n; k++) ir_grad_give(&g, of[k], seed[k]);
  while (g.first + g.n_of < f->n_ins) *RT_PUSH(g.p->mem, g.of, g.n_of, g.cap_of) = (Val){0};
  walk_back(&g, size - 1);
  return g.adj;
}

typedef struct {
  Val loss;             // in old numbering
  uint32_t first, end;  // the instructions of its backward
  Grad g;
} Done;

// ---- writes in place that destroyed what the backward reads (E112), from the records that pass functionalize left
// The forward instruction whose gradient instruction i is part of; none: i is no part of a backward.
static Val forward_of(const Done *done, uint32_t n, uint32_t i) {
  for (uint32_t k = 0; k < n; k++)
    if (i >= done[k].first && i < done[k].end) return done[k].g.of[i - done[k].first];
  return (Val){0};
}

// The value whose bytes v shows, as the user sees it: a clone has bytes of its own.
static Val storage_of(const Fn *f, Val v) {
  while (ir_ops[f->ins[v.i].op].cls == CLASS_VIEW && f->ins[v.i].op != OP_clone) v = ir_arg(f, v, 0);
  return v;
}

// What the user calls a value, and where it was made.
static Loc describe(const Fn *f, Val v, RtText *name) {
  const Prog *p = f->prog;
  if (f->ins[v.i].op != OP_param) {
    ir_print_name(f, v, name);
    return f->ins[v.i].loc;
  }
  const Param *q = &p->params[ir_attr_int(f, v, KEY_param, 0)];
  rt_text_add(name, "parameter '%s'", ir_text(p, q->path));
  return q->loc.i ? q->loc : f->ins[v.i].loc;
}

static void report_destroyed(Fn *f, Val old, Loc write, Val reader) {
  Prog *p = f->prog;
  RtText name = {.mem = p->mem};
  Loc made = describe(f, old, &name), at = f->ins[reader.i].loc;
  RtSeverity severity = p->copy_saved ? RT_WARNING : RT_ERROR;
  rt_diag(&p->diags, severity, E_WRITE_SAVED, ir_loc_file(p, write), ir_loc_line(p, write),
          "%s is overwritten in place here, but a backward needs its old value%s", name.text,
          p->copy_saved ? "; it is kept" : "");
  rt_diag(&p->diags, RT_NOTE, 0, ir_loc_file(p, made), ir_loc_line(p, made), "it was made here");
  rt_diag(&p->diags, RT_NOTE, 0, ir_loc_file(p, at), ir_loc_line(p, at), "the gradient of this %s reads it",
          ir_ops[f->ins[reader.i].op].name);
  if (!p->copy_saved)
    rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "write to tn_clone(..) instead, or compile with copy_saved");
}

// The operation that a write took its content from: its own gradient may read what it replaced, as relu_(x) does.
static Val content_of(const Fn *f, Val mark) {
  Val x = storage_of(f, ir_arg(f, mark, 1));
  return f->ins[x.i].op == OP_assign ? storage_of(f, ir_arg(f, x, 1)) : x;
}

static bool is_read(const Fn *f, Val v, uint32_t k) { return !(ir_operand_flags(f, v, k) & (SHAPE_ONLY | REPLACED)); }

static void check_overwritten(Fn *f, const Done *done, uint32_t n) {
  Val *write_of = NULL;  // by storage: its `overwritten` record
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op == OP_overwritten) {
      if (!write_of) write_of = rt_alloc(f->prog->mem, f->n_ins * sizeof *write_of);
      write_of[storage_of(f, ir_arg(f, (Val){i}, 0)).i] = (Val){i};
    }
    Val reader = write_of && f->ins[i].op != OP_result ? forward_of(done, n, i) : (Val){0};
    for (uint32_t k = 0; !ir_none(reader) && k < f->ins[i].n_args; k++) {
      Val old = storage_of(f, ir_arg(f, (Val){i}, k)), mark = write_of[old.i];
      if (ir_none(mark) || !is_read(f, (Val){i}, k) || content_of(f, mark).i == reader.i) continue;
      report_destroyed(f, old, ir_ins(f, mark)->loc, reader);
      write_of[old.i] = (Val){0};
    }
  }
}

static bool is_marker(Op op) { return op == OP_clone || op == OP_stop_grad; }

static void drop_flag(Fn *f, Val v, Key k) {
  if (ir_attr(f, v, k)) ir_unset_attr(f, v, k);
}

// What only gradients and their checks wanted: records of writes, clones, cuts.
static void drop_records(Fn *f) {
  Rewrite e;
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++)
    any |= f->ins[i].op == OP_overwritten || is_marker(f->ins[i].op) || ir_attr(f, (Val){i}, KEY_no_grad);
  if (!any) return;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    const Ins *ins = &e.old[i];
    if (ins->op == OP_result || ins->op == OP_overwritten) continue;
    if (is_marker(ins->op)) ir_rewrite_replace(&e, (Val){i}, ir_rewrite_arg(&e, (Val){i}, 0));
    else drop_flag(f, ir_rewrite_copy(&e, (Val){i}), KEY_no_grad);
  }
  ir_rewrite_end(&e);
}

// ---- the pass
static void report_unreached(const Rewrite *e, Val old, Val loss, Val x) {
  Fn *f = e->f;
  Prog *p = f->prog;
  bool *reach = rt_alloc(p->mem, f->n_ins);
  reach[loss.i] = true;
  for (uint32_t i = loss.i; i > 0; i--)
    for (uint32_t k = 0; reach[i] && k < f->ins[i].n_args; k++) reach[ir_arg(f, (Val){i}, k).i] = true;
  Loc at = e->old[old.i].loc, made = ir_ins(f, x)->loc;
  RtText name = {.mem = p->mem};
  ir_print_name(f, x, &name);
  bool cut = reach[x.i];
  rt_diag(&p->diags, RT_ERROR, cut ? E_GRAD_OF_DETACHED : E_NO_GRAD_PATH, ir_loc_file(p, at), ir_loc_line(p, at),
          cut ? "the gradient of %s is asked for, but every path from the loss to it is cut"
              : "%s cannot be reached from the loss",
          name.text);
  rt_diag(&p->diags, RT_NOTE, 0, ir_loc_file(p, made), ir_loc_line(p, made), "%s was made here", name.text);
  rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "%s",
          cut ? "stop_grad, detach, integers and comparisons cut gradients" : "the loss must be computed from it");
}

// Does a loss depend on a gradient?
static bool is_nested(const Fn *f) {
  bool *after = rt_alloc(f->prog->mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) after[i] |= after[ir_arg(f, (Val){i}, k).i];
    if (f->ins[i].op != OP_grad_of) continue;
    if (after[ir_arg(f, (Val){i}, 0).i]) return true;
    after[i] = true;
  }
  return false;
}

// What no path of a backward reached although the loss depends on it: the loss reads gradients that are the same
// whatever this value is, as the gradient of w x + b with respect to x is for b.
static bool is_constant_for(const Rewrite *e, Val loss, Val x) {
  Fn as_built = *e->f;
  as_built.ins = e->old, as_built.n_ins = e->n_old;
  bool *reach = rt_alloc(e->f->prog->mem, e->n_old);
  ir_grad_reach(&as_built, loss, reach);
  return reach[x.i];
}

static Val zeros_like(Fn *f, Val x, Loc loc) {
  Attr a[2] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_ins(f, x)->shape)};
  return ir_emit(f, OP_full, NULL, 0, a, 2, loc);
}

static Grad *grad_for(Rewrite *e, Done **done, uint32_t *n, uint32_t *cap, Val old_loss, bool nested) {
  Fn *f = e->f;
  RtArena *mem = f->prog->mem;
  for (uint32_t k = 0; k < *n; k++)
    if ((*done)[k].loss.i == old_loss.i) return &(*done)[k].g;
  Grad g = {.f = f, .p = f->prog, .loss = e->map[old_loss.i], .first = f->n_ins, .is_nested = nested};
  uint32_t size = f->n_ins;
  g.adj = rt_alloc(mem, size * sizeof *g.adj);
  g.dep = rt_alloc(mem, size * sizeof *g.dep);
  for (uint32_t i = 1; i < e->n_old; i++) {
    const Ins *ins = &e->old[i];
    if (ins->op != OP_grad_of || f->args[ins->args].i != old_loss.i) continue;
    Val target = e->map[f->args[ins->args + 1].i];
    if (!ir_none(target) && target.i < size) g.dep[target.i] = true;
  }
  uint32_t errors = f->prog->diags.n_errors;
  backward(&g);
  g.failed = f->prog->diags.n_errors != errors;
  *RT_PUSH(mem, *done, *n, *cap) = (Done){old_loss, size, f->n_ins, g};
  return &(*done)[*n - 1].g;
}

bool ir_pass_grad(Fn *f) {
  Rewrite e;
  Done *done = NULL;
  uint32_t n = 0, cap = 0, scope = f->cur_scope;
  uint32_t errors = f->prog->diags.n_errors;
  bool nested = is_nested(f);
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    const Ins *ins = &e.old[i];
    if (ins->op == OP_result) continue;
    if (ins->op != OP_grad_of) {
      ir_rewrite_copy(&e, (Val){i});
      continue;
    }
    Val loss = f->args[ins->args], of = f->args[ins->args + 1], x = e.map[of.i];
    Grad *g = grad_for(&e, &done, &n, &cap, loss, nested);
    e.map[i] = x.i <= g->loss.i ? g->adj[x.i] : (Val){0};
    if (!ir_none(e.map[i])) continue;
    bool zero = nested && !g->failed && is_constant_for(&e, loss, of);
    if (!zero && !g->failed) report_unreached(&e, (Val){i}, g->loss, x);
    e.map[i] = zero ? zeros_like(f, x, ins->loc) : x;
  }
  f->cur_scope = scope;
  ir_rewrite_end(&e);
  check_overwritten(f, done, n);
  drop_records(f);
  return f->prog->diags.n_errors == errors;
}
