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
#include "ir/autodiff/autodiff.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/text/text.h"
#include <stdlib.h>
#include <string.h>

// ---- one loss
static void reach(Grad *g, Val v, uint32_t least) {
  if (v.i < least || g->is_reached[v.i]) return;
  g->is_reached[v.i] = true;
  *RT_PUSH(g->p->mem, g->reached, g->n_reached, g->cap_reached) = v;
}

static int by_index(const void *a, const void *b) {
  const Val *x = a, *y = b;
  return x->i < y->i ? -1 : x->i > y->i;
}

// Lists the values that gradients of the roots flow to, from the first target (`least`) on, in order, and
// marks those that depend on a target. It looks at nothing else, so that a function with many losses is not
// walked through for each of them.
void ir_grad_find(Grad *g, const Val *root, uint32_t n, uint32_t least) {
  const Fn *f = g->f;
  for (uint32_t k = 0; k < n; k++) reach(g, root[k], least);
  for (uint32_t at = 0; at < g->n_reached; at++, g->p->n_visits++) {
    Val v = g->reached[at];
    for (uint32_t k = 0; k < f->ins[v.i].n_args; k++)
      if (ir_grad_reaches(f, v, k)) reach(g, ir_arg(f, v, k), least);
  }
  if (g->n_reached) qsort(g->reached, g->n_reached, sizeof *g->reached, by_index);
  for (uint32_t at = 0; at < g->n_reached; at++) {
    Val v = g->reached[at];
    for (uint32_t k = 0; k < f->ins[v.i].n_args && !g->dep[v.i]; k++)
      if (ir_grad_flows(f, v, k) && g->dep[ir_arg(f, v, k).i]) g->dep[v.i] = true;
  }
}

Val ir_grad_seed(Fn *f, Loc loc) {
  Val one = ir_const(f, 1, loc);
  f->ins[one.i].is_adjoint = true;
  return one;
}

// A gradient of a gradient, of W138
static void note_second(const Fn *f, Loc loc) {
  for (uint32_t c = ir_loc_checkpoint(f->prog, loc); c; c = f->prog->checkpoints[c - 1].around)
    f->prog->checkpoints[c - 1].has_second = true;
}

void ir_grad_step(Grad *g, Val v) {
  Fn *f = g->f;
  Ins ins = f->ins[v.i];  // a copy: the array grows
  if (!g->dep[v.i] || ins.op == OP_result || ir_attr(f, v, KEY_no_grad) || !ir_grad_has_adjoint(g, v)) return;
  if (ins.is_adjoint) note_second(f, ins.loc);
  g->loc = ins.loc;
  f->cur_scope = ins.scope;
  ir_grad_through(g, v, g->adj[v.i]);
  for (; g->first + g->n_of < f->n_ins; *RT_PUSH(g->p->mem, g->of, g->n_of, g->cap_of) = v) {
    Val made = {g->first + g->n_of};
    f->ins[made.i].backward_of = ins.op & 0x7fff;
    for (uint32_t k = 0; k < f->ins[made.i].n_args; k++)
      if (f->ins[ir_arg(f, made, k).i].is_adjoint) f->ins[made.i].is_adjoint = true;
  }
}

static void walk_back(Grad *g) {
  for (uint32_t at = g->n_reached; at-- > 0;) ir_grad_step(g, g->reached[at]);
}

// The instructions up to `loss` exist already; targets are marked in g->dep, the first one is `least`.
static void backward(Grad *g, uint32_t least) {
  ir_grad_find(g, &g->loss, 1, least);
  if (!g->dep[g->loss.i]) return;
  g->loc = ir_ins(g->f, g->loss)->loc;
  g->adj[g->loss.i] = ir_grad_seed(g->f, g->loc);
  *RT_PUSH(g->p->mem, g->of, g->n_of, g->cap_of) = g->loss;
  walk_back(g);
}

Val *ir_grad_values(Fn *f, const Val *of, const Val *seed, uint32_t n, const bool *want, bool is_nested) {
  uint32_t size = f->n_ins;
  Grad g = {.f = f, .p = f->prog, .first = size, .loc = f->loc, .is_nested = is_nested};
  g.adj = rt_alloc(f->prog->mem, size * sizeof *g.adj);
  g.dep = rt_alloc(f->prog->mem, size * sizeof *g.dep);
  g.is_reached = rt_alloc(f->prog->mem, size * sizeof *g.is_reached);
  memcpy(g.dep, want, size * sizeof *g.dep);
  ir_grad_find(&g, of, n, 1);
  for (uint32_t k = 0; k < n; k++) ir_grad_give(&g, of[k], seed[k]);
  while (g.first + g.n_of < f->n_ins) *RT_PUSH(g.p->mem, g.of, g.n_of, g.cap_of) = (Val){0};
  walk_back(&g);
  return g.adj;
}

// ---- writes in place that destroyed what the backward reads (E112), from the records that pass functionalize left
// The forward instruction whose gradient instruction i is part of; none: i is no part of a backward.
static Val forward_of(const GradDone *done, uint32_t n, uint32_t i) {
  uint32_t lo = 0, hi = n;  // in the order of their instructions
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (done[mid].end <= i) lo = mid + 1;
    else hi = mid;
  }
  return lo < n && i >= done[lo].first ? done[lo].of[i - done[lo].first] : (Val){0};
}

// The value whose bytes v shows, as the user sees it: a clone has its own bytes.
static Val storage_of(const Fn *f, Val v) {
  while (ir_ops[f->ins[v.i].op].cls == CLASS_VIEW && f->ins[v.i].op != OP_clone) v = ir_arg(f, v, 0);
  return v;
}

// What the user calls a value, and where it was made.
static Loc describe(const Fn *f, Val v, RtText *name) {
  const Prog *p = f->prog;
  if (f->ins[v.i].op != OP_param) {
    rt_text_add(name, "%s", ir_result_text(f, v));
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
  rt_diag(&p->diags, RT_NOTE, 0, ir_loc_file(p, at), ir_loc_line(p, at), "the gradient of %s reads it",
          p->names_calls ? ir_call_text(f, reader) : ir_value_text(f, reader));
  if (!p->copy_saved)
    rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "write to tn_clone(..) instead, or compile with copy_saved");
}

// The operation that a write took its content from: its own gradient may read what it replaced, as relu_(x) does.
static Val content_of(const Fn *f, Val mark) {
  Val x = storage_of(f, ir_arg(f, mark, 1));
  return f->ins[x.i].op == OP_assign ? storage_of(f, ir_arg(f, x, 1)) : x;
}

static bool is_read(const Fn *f, Val v, uint32_t k) { return !(ir_operand_flags(f, v, k) & (SHAPE_ONLY | REPLACED)); }

static void check_overwritten(Fn *f, const GradDone *done, uint32_t n) {
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

// Removes records that only gradients and their checks read: writes, clones, cuts.
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
// "%g (grad_of)": the number that it had when the program was built.
static const char *text_of_old(const Rewrite *e, Val old) {
  const Prog *p = e->f->prog;
  const Ins *ins = ir_rewrite_old(e, old);
  if (p->names_calls) return *ir_loc_call(p, ins->loc) ? ir_loc_call(p, ins->loc) : "a gradient";
  const char *name = ir_text(p, ins->name), *op = ir_ops[ins->op].name;
  return *name ? rt_printf(p->mem, "%%%s (%s)", name, op) : rt_printf(p->mem, "%%%u (%s)", old.i, op);
}

static void report_unreached(const Rewrite *e, Val old, Val loss, Val x) {
  Fn *f = e->f;
  Prog *p = f->prog;
  bool *reach = rt_alloc(p->mem, f->n_ins);
  reach[loss.i] = true;
  for (uint32_t i = loss.i; i > 0; i--)
    for (uint32_t k = 0; reach[i] && k < f->ins[i].n_args; k++) reach[ir_arg(f, (Val){i}, k).i] = true;
  Loc at = e->old[old.i].loc, made = ir_ins(f, x)->loc;
  const char *name = ir_result_text(f, x);
  bool cut = reach[x.i];
  rt_diag(&p->diags, RT_ERROR, cut ? E_GRAD_OF_DETACHED : E_NO_GRAD_PATH, ir_loc_file(p, at), ir_loc_line(p, at),
          cut ? "the gradient of %s is asked for by %s, but every path from the loss to it is cut"
              : "%s cannot be reached from the loss of %s",
          name, text_of_old(e, old));
  rt_diag(&p->diags, RT_NOTE, 0, ir_loc_file(p, made), ir_loc_line(p, made), "%s was made here", name);
  rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "%s",
          cut ? "stop_grad, detach, integers and comparisons cut gradients" : "the loss must be computed from it");
}

// Which losses have gradients that a later loss depends on, by value; a loss whose gradients are replaced on the way is one where
// what goes on from it is. *any: there is one.
static bool *find_nested(const Fn *f, bool *any) {
  bool *nested = rt_alloc(f->prog->mem, f->n_ins), *of_loss = rt_alloc(f->prog->mem, f->n_ins);
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    const Ins *ins = &f->ins[i];
    if (ins->op == OP_grad_of) {
      Val loss = ir_arg(f, (Val){i}, 0);
      nested[loss.i] |= of_loss[i], of_loss[loss.i] = true;
      *any |= of_loss[i];
      continue;
    }
    bool is_replaced = ins->op == OP_grad_replace;  // the replacement is no part of the loss, but of its gradients
    for (uint32_t k = 0; k < ins->n_args; k++)
      of_loss[ir_arg(f, (Val){i}, k).i] |= is_replaced && k ? nested[i] : of_loss[i];
    if (is_replaced) nested[ir_arg(f, (Val){i}, 0).i] |= nested[i];
  }
  return nested;
}

// The loss may depend on a value that no path of its backward reaches: it reads gradients that do not depend
// on that value, as the gradient of w x + b with respect to x does not depend on b.
static bool is_constant_for(const Rewrite *e, Val loss, Val x) {
  Fn as_built = *e->f;
  GradReach reach = {0};
  as_built.ins = e->old, as_built.n_ins = e->n_old;
  ir_grad_reach(&as_built, loss, &reach);
  return reach.has[x.i];
}

static Val zeros_like(Fn *f, Val x, Loc loc) {
  Attr a[2] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_ins(f, x)->shape)};
  return ir_emit(f, OP_full, NULL, 0, a, 2, loc);
}

// The lists of grad_of by loss, in order.
static void list_targets(Gradients *s) {
  RtArena *mem = s->f->prog->mem;
  uint32_t n = s->e.n_old;
  s->done_of = rt_alloc(mem, n * sizeof *s->done_of), s->value = rt_alloc(mem, n * sizeof *s->value);
  s->is_reached = rt_alloc(mem, n);
  s->first_of = rt_alloc(mem, n * sizeof *s->first_of), s->others = rt_alloc(mem, n * sizeof *s->others);
  s->replaced_by = rt_alloc(mem, n * sizeof *s->replaced_by), s->walk_of = rt_alloc(mem, n * sizeof(GradWalk *));
  for (uint32_t i = n - 1; i > 0; i--) {
    if (s->e.old[i].op == OP_grad_replace) s->replaced_by[ir_rewrite_old_arg(&s->e, (Val){i}, 0).i] = i;
    if (s->e.old[i].op != OP_grad_of) continue;
    uint32_t loss = ir_rewrite_old_arg(&s->e, (Val){i}, 0).i;
    s->others[i] = s->first_of[loss];
    s->first_of[loss] = i;
  }
}

static void reserve_tables(Gradients *s, uint32_t n) {
  RtArena *mem = s->f->prog->mem;
  if (n <= s->n_tables) return;
  s->n_tables = 2 * n;
  s->work.adj = rt_alloc(mem, s->n_tables * sizeof *s->work.adj);
  s->work.dep = rt_alloc(mem, s->n_tables), s->work.is_reached = rt_alloc(mem, s->n_tables);
}

// The value that grad_of i differentiates with respect to; none: it comes behind the loss.
Val ir_grad_target(const Gradients *s, uint32_t i, Val loss) {
  Val x = ir_rewrite_arg(&s->e, (Val){i}, 1);
  return x.i <= loss.i ? x : (Val){0};
}

static void clear_tables(Grad *g) {
  for (uint32_t k = 0; k < g->n_reached; k++) {
    uint32_t i = g->reached[k].i;
    g->adj[i] = (Val){0}, g->dep[i] = g->is_reached[i] = false;
  }
}

// Does the gradient flow to x itself, not only to another result of its instruction?
bool ir_grad_is_reached(const Grad *g, Val x) {
  if (ir_none(x) || !g->is_reached[x.i]) return false;
  if (x.i == g->loss.i || ir_ins(g->f, x)->op == OP_result || ir_ins(g->f, x)->n_res <= 1) return true;
  for (uint32_t at = 0; at < g->n_reached; at++) {
    Val v = g->reached[at];
    if (ir_ins(g->f, v)->op == OP_result) continue;
    for (uint32_t k = 0; k < ir_ins(g->f, v)->n_args; k++)
      if (ir_arg(g->f, v, k).i == x.i && ir_grad_reaches(g->f, v, k)) return true;
  }
  return false;
}

// The backward of a loss and the gradients of all its targets.
static void take_gradients(Gradients *s, Val old_loss) {
  Fn *f = s->f;
  reserve_tables(s, f->n_ins);
  Grad g = s->work;
  g.f = f, g.p = f->prog, g.loss = s->e.map[old_loss.i], g.first = f->n_ins, g.is_nested = s->nested[old_loss.i];
  uint32_t least = g.loss.i, errors = f->prog->diags.n_errors, first = f->n_ins;
  for (uint32_t i = s->first_of[old_loss.i]; i; i = s->others[i]) {
    Val x = ir_grad_target(s, i, g.loss);
    if (ir_none(x)) continue;
    g.dep[x.i] = true;
    if (x.i < least) least = x.i;
  }
  backward(&g, least);
  for (uint32_t i = s->first_of[old_loss.i]; i; i = s->others[i]) {
    Val x = ir_grad_target(s, i, g.loss);
    s->value[i] = g.adj[x.i], s->is_reached[i] = ir_grad_is_reached(&g, x);
    g.dep[x.i] = false;
  }
  clear_tables(&g);
  s->work.reached = g.reached, s->work.cap_reached = g.cap_reached;
  *RT_PUSH(f->prog->mem, s->done, s->n_done, s->cap_done) =
      (GradDone){first, f->n_ins, g.of, g.loss, f->prog->diags.n_errors != errors};
  s->done_of[old_loss.i] = s->n_done;
}

static Val plain_gradient(Gradients *s, uint32_t i, Val *loss, bool *failed, bool *reached) {
  Val old_loss = ir_rewrite_old_arg(&s->e, (Val){i}, 0);
  if (!s->done_of[old_loss.i]) take_gradients(s, old_loss);
  const GradDone *d = &s->done[s->done_of[old_loss.i] - 1];
  *loss = d->loss, *failed = d->failed, *reached = s->is_reached[i];
  return s->value[i];
}

// The value that replaces grad_of i.
static Val gradient_of(Gradients *s, uint32_t i) {
  Val old_loss = ir_rewrite_old_arg(&s->e, (Val){i}, 0), old_x = ir_rewrite_old_arg(&s->e, (Val){i}, 1), loss;
  Val x = s->e.map[old_x.i];
  bool failed, reached;
  Val found = (ir_grad_is_hooked(s, old_loss) ? ir_grad_hooked : plain_gradient)(s, i, &loss, &failed, &reached);
  if (!ir_none(found)) return found;
  bool zero = reached || (s->any_nested && is_constant_for(&s->e, old_loss, old_x));
  if (zero && !failed) return zeros_like(s->f, x, s->e.old[i].loc);
  if (!failed) report_unreached(&s->e, (Val){i}, loss, x);
  return x;
}

bool ir_pass_grad(Fn *f) {
  Gradients s = {.f = f};
  s.nested = find_nested(f, &s.any_nested);
  uint32_t scope = f->cur_scope, errors = f->prog->diags.n_errors;
  ir_rewrite_begin(&s.e, f);
  list_targets(&s);
  for (uint32_t i = 1; i < s.e.n_old; i++) {
    if (s.e.old[i].op == OP_result) continue;
    if (s.e.old[i].op == OP_grad_of) s.e.map[i] = gradient_of(&s, i);
    else if (s.e.old[i].op == OP_grad_replace) s.e.map[i] = ir_rewrite_arg(&s.e, (Val){i}, 0);
    else ir_rewrite_copy(&s.e, (Val){i});
  }
  f->cur_scope = scope;
  ir_rewrite_end(&s.e);
  check_overwritten(f, s.done, s.n_done);
  drop_records(f);
  return f->prog->diags.n_errors == errors;
}
