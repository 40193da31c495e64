// Writes in place, clones, detaching, regions without gradients.
//
//   tn_tensor c = tn_clone(t);        %c = clone %t
//   tn_add_(tn_slice(c, 0, 0, 1), u)  %s = slice %c ..   %r = add %s, %u   write %s, %r
//
// A handle names storage. A write changes what the handle shows from then on, and with it everything that shares the
// storage; pass functionalize turns that into values, and pass insert_copies decides whether anything must be copied. What can be
// judged at the call is reported here: the write of a trainable parameter (E113), of a broadcast view, of another
// shape.
#include "frontend/graph/inplace.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "ir/fn.h"
#include "ir/storage.h"
#include "ir/text/text.h"
#include <string.h>

// ---- regions without gradients
void tn_no_grad_begin(tn_function *f, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (!fe_fn_open(f, at)) return;
  *RT_PUSH(f->p->mem, f->no_grad, f->n_no_grad, f->cap_no_grad) = fe_loc(f->p, at);
}

void tn_no_grad_end(tn_function *f, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (!fe_fn_open(f, at)) return;
  if (f->n_no_grad) f->no_grad_ended = fe_loc(f->p, at), f->n_no_grad--;
  else {
    fe_error(f->p, E_STATE, at, "tn_no_grad_end without a tn_no_grad_begin before it");
    if (f->no_grad_ended.i) fe_note(f->p, f->no_grad_ended, "the last region was ended here");
  }
}

// ---- the same storage, or the same content
static tn_tensor emit_plain(Op op, tn_tensor t, const char *what, tn_site at) {
  tn_function *f;
  if (!fe_join_for(what, &t, 1, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), what);
  if (fe_ins(t)->dtype != DT_LAYOUT) return fe_made(fe_emit1(op, t, at), at);
  fe_error(f->p, E_DTYPE, at, "%s takes numbers, not a packed layout", what);
  fe_note_value(t, "the value");
  return fe_poison(f);
}

tn_tensor tn_clone(tn_tensor t, tn_site at) { return emit_plain(OP_clone, t, "tn_clone", at); }
tn_tensor tn_detach(tn_tensor t, tn_site at) { return emit_plain(OP_stop_grad, t, "tn_detach", at); }

// ---- requires_grad
static bool *flag_of_input(tn_function *f, Val input) {
  while (f->n_wants_grad <= input.i) *RT_PUSH(f->p->mem, f->wants_grad, f->n_wants_grad, f->cap_wants_grad) = false;
  return &f->wants_grad[input.i];
}

static bool is_tracked_leaf(const tn_function *f, Val v) {
  if (f->ir->ins[v.i].op == OP_input) return v.i < f->n_wants_grad && f->wants_grad[v.i];
  if (f->ir->ins[v.i].op != OP_param) return false;
  uint32_t index = (uint32_t)ir_attr_int(f->ir, v, KEY_param, 0);
  return f->p->ir->params[index].trainable && index < f->n_uses && !f->uses[index].frozen;
}

// A leaf whose gradient tn_grad may be asked for, though tn_backward has none for it
static bool is_free_leaf(const tn_function *f, Val v) {
  if (f->ir->ins[v.i].op == OP_input) return true;
  return f->ir->ins[v.i].op == OP_param && f->p->ir->params[ir_attr_int(f->ir, v, KEY_param, 0)].trainable;
}

static bool reaches_leaf(tn_tensor t, bool (*is_such)(const tn_function *f, Val v)) {
  tn_function *f = t.fn;
  if (!fe_has_gradient(t)) return false;
  f->reach.least = 0;
  ir_grad_reach(f->ir, fe_val(t), &f->reach);
  for (uint32_t k = 0; k < f->reach.n; k++)
    if (is_such(f, f->reach.list[k])) return true;
  return false;
}

bool fe_is_tracked(tn_tensor t) { return reaches_leaf(t, is_tracked_leaf); }
bool fe_may_have_gradient(tn_tensor t) { return reaches_leaf(t, is_free_leaf); }

bool tn_requires_grad(tn_tensor t) {
  if (!fe_ok(t) || !t.fn->ir || t.fn->p->sealed || t.fn->p->oom) return false;
  FE_GUARD(t.fn->p, false);
  return fe_is_tracked(t);
}

void tn_set_requires_grad(tn_tensor t, bool on, tn_site at) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, at)) return;
  FE_GUARD(f->p, );
  Op op = fe_ins(t)->op;
  if (!fe_has_gradient(t)) {
    fe_error(f->p, E_DTYPE, at, "only floats have gradients");
    fe_note_value(t, "the value");
  } else if (op == OP_input) {
    *flag_of_input(f, fe_val(t)) = on;
  } else if (op == OP_param) {
    FeUse *u = fe_use_of(f, (uint32_t)ir_attr_int(f->ir, fe_val(t), KEY_param, 0));
    bool weight = f->p->ir->params[u - f->uses].trainable;
    if (weight || !on) u->frozen = !on;
    else fe_error(f->p, E_ARGUMENT, at, "a buffer has no gradient: tn_parameter makes a trainable one");
  } else {
    fe_error(f->p, E_GRAD_OF_DETACHED, at, "requires_grad belongs to inputs and parameters: this value is computed");
    fe_note(f->p, fe_ins(t)->loc, "it was made here by tn_%s", ir_ops[op].name);
    fe_hint(f->p,
            on ? "tn_grad(loss, t) gives the gradient of any value" : "tn_detach(t) is the value without its gradient");
  }
}

// ---- may t be written?
static bool check_leaf(tn_tensor t, Val root, const char *what, tn_site at) {
  tn_function *f = t.fn;
  if (f->n_no_grad || ir_is_cut(f->ir, fe_val(t)) || !is_tracked_leaf(f, root) || f->ir->ins[root.i].op != OP_param)
    return true;
  const Param *q = &f->p->ir->params[ir_attr_int(f->ir, root, KEY_param, 0)];
  fe_error(f->p, E_WRITE_LEAF, at, "parameter '%s' is written in place by %s outside a no-grad region",
           ir_text(f->p->ir, q->path), what);
  fe_note(f->p, q->loc, "'%s' was made here", ir_text(f->p->ir, q->path));
  fe_hint(f->p, "write it between tn_no_grad_begin and tn_no_grad_end");
  return false;
}

static bool check_broadcast(tn_tensor t, const char *what, tn_site at) {
  const Fn *f = t.fn->ir;
  for (Val v = fe_val(t); ir_is_alias(f->ins[v.i].op); v = ir_arg(f, v, 0)) {
    if (f->ins[v.i].op != OP_expand || f->ins[v.i].shape.i == f->ins[ir_arg(f, v, 0).i].shape.i) continue;
    fe_error(t.fn->p, E_SHAPE, at, "%s writes to a broadcast view: one element would take several values", what);
    fe_note(t.fn->p, f->ins[v.i].loc, "it was broadcast here");
    return false;
  }
  return true;
}

// Legal, and often not what was meant: said once for each input.
static void warn_input(tn_tensor t, Val root, const char *what, tn_site at) {
  tn_function *f = t.fn;
  const Ins *ins = &f->ir->ins[root.i];
  if (ins->op != OP_input) return;
  while (f->n_reported_input <= root.i)
    *RT_PUSH(f->p->mem, f->reported_input, f->n_reported_input, f->cap_reported_input) = false;
  if (f->reported_input[root.i]) return;
  f->reported_input[root.i] = true;
  Loc loc = fe_loc(f->p, at);
  rt_diag(&f->p->ir->diags, RT_WARNING, E_INPUT_WRITTEN, ir_loc_file(f->p->ir, loc), ir_loc_line(f->p->ir, loc),
          "input '%s' is modified by %s: handles of it show the new content, the caller's memory keeps the old",
          ir_text(f->p->ir, ins->name), what);
  fe_note(f->p, ins->loc, "input '%s' was made here", ir_text(f->p->ir, ins->name));
  fe_hint(f->p, "tn_clone(%s) leaves it as it is", ir_text(f->p->ir, ins->name));
}

static bool may_write(tn_tensor t, const char *what, tn_site at) {
  Val root = ir_written_storage(t.fn->ir, fe_val(t));
  if (fe_ins(t)->dtype == DT_LAYOUT) {
    fe_error(t.fn->p, E_DTYPE, at, "%s cannot write a packed layout", what);
    fe_note_value(t, "what it writes to");
    return false;
  }
  if (!check_leaf(t, root, what, at) || !check_broadcast(t, what, at)) return false;
  if (t.fn->scan && !fe_scan_may_write(t, root, at)) return false;
  warn_input(t, root, what, at);
  return true;
}

// ---- writing
tn_tensor fe_write(tn_tensor t, tn_tensor content, bool no_grad, tn_site at) {
  if (!fe_ok(t) || !fe_ok(content)) return fe_poison(t.fn);
  Val args[2] = {fe_val(t), fe_val(content)};
  Attr flag = ir_a_int(KEY_no_grad, 1);
  ir_emit(t.fn->ir, OP_write, args, 2, &flag, no_grad || t.fn->n_no_grad ? 1 : 0, fe_loc(t.fn->p, at));
  return t;
}

// A frozen parameter is written like a buffer, but the pass that judges writes knows it as trainable.
static tn_tensor write_checked(tn_tensor t, tn_tensor content, const char *what, tn_site at) {
  tn_function *f = t.fn;
  if (!fe_ok(content)) return fe_poison(f);
  Val root = ir_written_storage(f->ir, fe_val(t));
  bool weight = f->ir->ins[root.i].op == OP_param && f->p->ir->params[ir_attr_int(f->ir, root, KEY_param, 0)].trainable;
  bool frozen = weight && !f->n_no_grad && !ir_is_cut(f->ir, fe_val(t));
  if (frozen && fe_is_tracked(content)) {
    fe_error(f->p, E_WRITE_LEAF, at, "%s would make a frozen parameter depend on trainable ones", what);
    fe_note(f->p, f->ir->ins[root.i].loc, "the parameter is used here");
    fe_hint(f->p, "tn_detach(..) the new content, or write it between tn_no_grad_begin and tn_no_grad_end");
    return fe_poison(f);
  }
  if (!fe_rows_written(t, content, what + strlen("tn_"), at)) return fe_poison(f);
  return fe_write(t, content, frozen, at);
}

static bool same_type(tn_tensor t, tn_tensor made, const char *what, tn_site at) {
  if (fe_shape_of(t).i == fe_shape_of(made).i && fe_ins(t)->dtype == fe_ins(made)->dtype) return true;
  tn_program *p = t.fn->p;
  RtText has = {.mem = p->mem}, gives = {.mem = p->mem};
  ir_print_type(t.fn->ir, fe_val(t), &has);
  ir_print_type(t.fn->ir, fe_val(made), &gives);
  fe_error(p, E_SHAPE, at, "%s makes %s, which does not fit into %s", what, gives.text, has.text);
  fe_note(p, fe_ins(t)->loc, "what it writes to was made here");
  if (fe_ins(t)->dtype != fe_ins(made)->dtype)
    fe_hint(p, "without _ at its end the call gives a value of its own; tn_copy_ casts that to what it writes to");
  else fe_hint(p, "without _ at its end the call gives a value of its own, of that shape");
  return false;
}

tn_tensor fe_in_place(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, const char *what,
                      tn_site at) {
  tn_function *f;
  if (!fe_join_for(what, a, n, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), what);
  if (!may_write(a[0], what, at)) return fe_poison(f);
  if (fe_is_rounded(op, a[0])) return a[0];
  tn_tensor made = (ir_ops[op].is_pointwise ? fe_promoted : fe_emit)(op, a, n, attrs, n_attrs, at);
  if (!fe_ok(made)) return fe_poison(f);
  DType to = (DType)fe_ins(a[0])->dtype;
  if (ir_ops[op].flags & MASK || fe_fits_into((DType)fe_ins(made)->dtype, to)) made = fe_cast(made, to, at);
  if (!fe_ok(made) || !same_type(a[0], made, what, at)) return fe_poison(f);
  return write_checked(a[0], made, what, at);
}

// Content for t: cast and broadcast as t wants it. What is t's type already is cloned, so that both stay separate.
static tn_tensor fit(tn_tensor t, tn_tensor src, tn_site at) {
  tn_tensor x = fe_as_dtype(src, (DType)fe_ins(t)->dtype, at);
  if (fe_ok(x) && fe_shape_of(x).i != fe_shape_of(t).i)
    x = fe_emit(OP_expand, &x, 1, (const Attr[]){ir_a_list(KEY_shape, fe_shape_of(t))}, 1, at);
  return x.v == src.v && fe_ok(x) ? fe_emit1(OP_clone, x, at) : x;
}

tn_tensor fe_copy_in(tn_tensor dst, tn_tensor src, const char *what, tn_site at) {
  if (!may_write(dst, what, at)) return fe_poison(dst.fn);
  if (fe_ins(src)->dtype == DT_LAYOUT) {
    fe_error(dst.fn->p, E_DTYPE, at, "%s cannot read a packed layout", what);
    fe_note_value(src, "the source");
    return fe_poison(dst.fn);
  }
  if (fe_rank(src) == fe_rank(dst) && !fe_same_rows(what + strlen("tn_"), dst, src, at)) return fe_poison(dst.fn);
  return write_checked(dst, fit(dst, src, at), what, at);
}

tn_tensor tn_copy_(tn_tensor dst, tn_tensor src, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){dst, src}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_copy_in(dst, src, "tn_copy_", at);
}

tn_tensor tn_fill_(tn_tensor t, double v, tn_site at) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor number = fe_number(f, v, (DType)fe_ins(t)->dtype, at);
  return fe_ok(number) ? fe_copy_in(t, number, "tn_fill_", at) : number;
}

tn_tensor tn_slice_assign_(tn_tensor t, int axis, int64_t start, tn_tensor src, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){t, src}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  if (!fe_axis(t, axis, &k, at)) return fe_poison(f);
  if (fe_rank(src) != fe_rank(t)) {
    fe_error(f->p, E_SHAPE, at, "tn_slice_assign_ takes a source with %u axes", fe_rank(t));
    fe_note_value(t, "the target");
    fe_note_value(src, "the source");
    return fe_poison(f);
  }
  if (!may_write(t, "tn_slice_assign_", at)) return fe_poison(f);
  tn_tensor part = fe_part(t, k, ir_dim(f->p->ir, start), fe_axis_dim(src, k), at);
  if (!fe_ok(part)) return fe_poison(f);
  return fe_ok(fe_copy_in(part, src, "tn_slice_assign_", at)) ? t : fe_poison(f);
}

tn_tensor tn_slice_assign_at_(tn_tensor t, int axis, tn_tensor start, tn_tensor src, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){t, start, src}, 3, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t k;
  if (!fe_axis(t, axis, &k, at)) return fe_poison(f);
  if (fe_rank(src) != fe_rank(t)) {
    fe_error(f->p, E_SHAPE, at, "tn_slice_assign_at_ takes a source with %u axes", fe_rank(t));
    fe_note_value(t, "the target");
    fe_note_value(src, "the source");
    return fe_poison(f);
  }
  if (!may_write(t, "tn_slice_assign_at_", at)) return fe_poison(f);
  tn_tensor part = fe_slice_at(t, k, start, fe_axis_dim(src, k), at);
  if (!fe_ok(part)) return fe_poison(f);
  return fe_ok(fe_copy_in(part, src, "tn_slice_assign_at_", at)) ? t : fe_poison(f);
}

tn_tensor tn_index_put_(tn_tensor t, tn_tensor index, tn_tensor src, tn_site at) {
  return fe_in_place(OP_index_assign, (const tn_tensor[]){t, index, src}, 3, NULL, 0, "tn_index_put_", at);
}
