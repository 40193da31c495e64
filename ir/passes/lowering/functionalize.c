// Pass functionalize: writes in place become new values, so that everything after is pure SSA and gradients are right by
// construction.
//
//   %d = stop_grad %x : f32[4]                %d = stop_grad %x : f32[4]
//   %r = relu %d : f32[4]                     %r = relu %d : f32[4]
//   write %d, %r                      ->      overwritten %x, %r
//   %y = neg %x : f32[4]                      %y = neg %r : f32[4]
//
// 1. A value and its views are aliases of one root. A write to any of them creates a new version of the root: reshapes and
//    permutations are inverted, a slice becomes slice_assign. A later read of an alias is rederived from the current version.
// 2. clone starts a root of its own with the same content: nothing is copied here; pass insert_copies decides where one is
//    needed. The clone stays as a view until pass grad, so that a write to it is not taken for a write to the original.
// 3. A write to a parameter also goes to its storage: assign, or a partial write {into_param}. So the current version of a
//    parameter always lies in its storage.
// 4. A trainable parameter is written only under no_grad; its versions are one leaf. grad_of sums over those that the loss
//    reads.
// 5. What is written through a stop_grad view or under no_grad carries no gradient.
//    A computed value that is written under no_grad passes no gradient on: where a loss reads it, that is said once (W131).
// 6. `overwritten` keeps what was replaced and where, for E112 in pass grad.
// 7. What is made outside of a scan and written in its body is a carry: each step writes what the step before left.
//
//   scan_begin {scan=0, time=5}                scan_begin {scan=0, time=5}
//   write %x, %r                      ->       %c = scan_carry %x {scan=0, index=0}
//   scan_end {scan=0}                          scan_next %r {scan=0, index=0}
//                                              scan_end {scan=0}
//                                              %last = scan_final %x {scan=0, index=0}
//                                              overwritten %x, %last
#include "ir/autodiff/autodiff.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/storage.h"

typedef struct Version {
  Val v;  // new numbering
  struct Version *before;
} Version;

// A root from outside that the body of a scan writes.
typedef struct {
  Val root;       // old numbering
  Val before;     // its content when the scan begins
  uint32_t made;  // number of its writes when it became a carry
  Loc at;         // of its first write there
} Carried;

// A computed value that was written in a no-grad region.
typedef struct {
  Val root, before, after;  // root: old numbering
  Loc at;
  bool is_said;
} Cut;

// A scan whose body is walked through.
typedef struct OpenScan {
  struct OpenScan *outer;  // around it; NULL: none
  Val begin, end;          // marks, old numbering
  Carried *carried;
  uint32_t n, cap, n_carries;  // n_carries: the scan's own, which come first
} OpenScan;

typedef struct {
  Rewrite e;
  Fn *f;
  Prog *p;
  OpenScan *scan;  // the innermost; NULL: none
  Val *root;       // by old value: the value whose storage it shows
  Val *now;        // by old root: its content (new numbering)
  uint32_t *made;  // by old root: number of writes so far
  uint32_t *seen;  // by old value: `made` of its root when its mapping was made
  uint32_t *uses;  // by old value: operands that name it
  Version **past;  // by old root: replaced versions of a trainable parameter
  Val *stale;      // scratch of `read`
  uint32_t n_stale, cap_stale;
  GradReach reach;  // of `reach_of`
  Val reach_of;     // a loss, new numbering
  Cut *cuts;
  uint32_t n_cuts, cap_cuts;
  GradReach behind;  // of what a cut overwrote
} Functionalize;

static const Ins *old_ins(const Functionalize *s, Val v) { return ir_rewrite_old(&s->e, v); }
static Val old_arg(const Functionalize *s, Val v, uint32_t k) { return ir_rewrite_old_arg(&s->e, v, k); }
static const Attr *old_attr(const Functionalize *s, Val v, Key key) { return ir_rewrite_old_attr(&s->e, v, key); }

static int64_t old_int(const Functionalize *s, Val v, Key key) {
  const Attr *a = old_attr(s, v, key);
  return a ? a->u.i : 0;
}

// The current content of an old value. Recomputes the aliases between it and the last one that is up to date.
static Val read(Functionalize *s, Val v) {
  Val root = s->root[v.i];
  uint32_t made = s->made[root.i];
  s->n_stale = 0;
  Val a = v;
  for (; a.i != root.i && s->seen[a.i] != made; a = old_arg(s, a, 0))
    *RT_PUSH(s->p->mem, s->stale, s->n_stale, s->cap_stale) = a;
  if (a.i == root.i) {
    s->e.map[root.i] = s->now[root.i];
    s->seen[root.i] = made;
  }
  while (s->n_stale) {
    a = s->stale[--s->n_stale];
    s->seen[a.i] = made;
    ir_rewrite_copy(&s->e, a);
  }
  return s->e.map[v.i];
}

static Val emit1(Functionalize *s, Op op, Val a, Attr attr, Loc loc) { return ir_emit(s->f, op, &a, 1, &attr, 1, loc); }

static Val unpermute(Functionalize *s, Val permute, Val x, Loc loc) {
  Shape perm = old_attr(s, permute, KEY_perm)->u.list;
  int64_t inverse[MAX_RANK];
  uint32_t r = ir_rank(s->p, perm);
  for (uint32_t k = 0; k < r; k++) inverse[ir_list_at(s->p, perm, k)] = k;
  return emit1(s, OP_permute, x, ir_a_list(KEY_perm, ir_shape_ints(s->p, inverse, r)), loc);
}

static void report(Functionalize *s, uint16_t id, Loc at, const char *text, Val v) {
  Loc made = old_ins(s, v)->loc;
  rt_diag(&s->p->diags, RT_ERROR, id, ir_loc_file(s->p, at), ir_loc_line(s->p, at), "%s", text);
  rt_diag(&s->p->diags, RT_NOTE, 0, ir_loc_file(s->p, made), ir_loc_line(s->p, made), "it was made here");
}

// ---- what a scan carries
static bool is_param_op(const Functionalize *s, Val root) { return old_ins(s, root)->op == OP_param; }
// It exists before the function begins, wherever its name first stands.
static bool is_leaf(const Functionalize *s, Val root) {
  return is_param_op(s, root) || old_ins(s, root)->op == OP_input;
}

static Carried *carried_of(const Functionalize *s, Val root) {
  for (uint32_t k = 0; s->scan && k < s->scan->n; k++)
    if (s->scan->carried[k].root.i == root.i) return &s->scan->carried[k];
  return NULL;
}

// ---- parameters
// False if a scan carries it: then it is written when the scan has ended.
static bool is_param(const Functionalize *s, Val root) {
  const Carried *c = carried_of(s, root);
  return is_param_op(s, root) && (!c || ir_none(c->before));
}
static bool is_trainable(const Functionalize *s, Val root) {
  return is_param(s, root) && s->p->params[old_int(s, root, KEY_param)].trainable;
}

// Does x lie in the storage of the parameter's current version: that version itself, or partial writes and updates of
// it?
static bool extends_now(const Functionalize *s, Val root, Val x) {
  const Fn *f = s->f;
  Val now = ir_view_base(f, s->now[root.i]);
  for (;;) {
    x = ir_view_base(f, x);
    if (x.i == now.i) return true;
    Val h = ir_head(f, x);
    const OpInfo *op = &ir_ops[f->ins[h.i].op];
    if (!(op->flags & WRITES) || (op->cls == CLASS_SLICE_UPDATE && !ir_attr(f, h, KEY_into_param))) return false;
    x = ir_arg(f, h, x.i - h.i);
  }
}

static Val store_param(Functionalize *s, Val root, Val x, Loc loc) {
  return extends_now(s, root, x) ? x : ir_op2(s->f, OP_assign, s->now[root.i], x, loc);
}

// A partial write of the current version that becomes the next one goes straight into the parameter's storage.
static Val into_storage(Functionalize *s, Val root, Val x) {
  Fn *f = s->f;
  Ins put = f->ins[x.i];
  if (!is_param(s, root) || ir_ops[put.op].cls != CLASS_SLICE_UPDATE || ir_attr(f, x, KEY_into_param)) return x;
  if (ir_view_base(f, ir_arg(f, x, 0)).i != ir_view_base(f, s->now[root.i]).i) return x;
  Attr mark = ir_a_int(KEY_into_param, 1);
  return ir_emit_like(f, &put, f->args + put.args, &mark);
}

// The attributes of the slice v for the write into it, but {axis}.
static uint32_t slice_attrs(const Functionalize *s, Val v, Attr *out) {
  static const Key keys[] = {KEY_start, KEY_step, KEY_pitch, KEY_reverse};
  uint32_t n = 0;
  for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++) {
    const Attr *a = old_attr(s, v, keys[k]);
    if (a) out[n++] = *a;
  }
  return n;
}

// Neighbours in their order; sizes and places are constants (ir_is_block, of the old instructions).
static bool is_block(const Functionalize *s, Val v, uint32_t axis, int64_t *start) {
  const Attr *from = old_attr(s, v, KEY_start), *step = old_attr(s, v, KEY_step), *count = old_attr(s, v, KEY_count);
  Dim size = ir_dim_at(s->p, old_ins(s, old_arg(s, v, 0))->shape, axis);
  *start = from ? ir_dim_info(s->p, from->u.dim)->value : 0;
  return old_ins(s, v)->n_args == 1 && (!step || step->u.i == 1) && !old_attr(s, v, KEY_pitch) &&
         !old_attr(s, v, KEY_reverse) && ir_dim_is_const(s->p, size) && ir_dim_is_const(s->p, count->u.dim) &&
         (!from || ir_dim_is_const(s->p, from->u.dim));
}

// x written into the slice v. Slices of slices along one axis, and of permutations, go straight into what they are
// slices of.
static Val put_slice(Functionalize *s, Val v, Val *x, Loc loc) {
  int64_t axis = old_int(s, v, KEY_axis), start, more;
  bool is_plain = is_block(s, v, (uint32_t)axis, &start);
  Val parent = old_arg(s, v, 0), root = s->root[v.i];
  for (;; parent = old_arg(s, parent, 0)) {
    Op op = old_ins(s, parent)->op;
    if (op == OP_permute) {
      *x = unpermute(s, parent, *x, loc);
      axis = ir_list_at(s->p, old_attr(s, parent, KEY_perm)->u.list, (uint32_t)axis);
    } else if (op == OP_slice && is_plain && old_int(s, parent, KEY_axis) == axis &&
               is_block(s, parent, (uint32_t)axis, &more)) {
      start += more;
    } else if (op != OP_stop_grad) {
      break;
    }
  }
  Val whole = read(s, parent), at = {0};
  if (old_ins(s, v)->n_args > 1) at = read(s, old_arg(s, v, 1));
  bool into = is_param(s, root) && ir_view_base(s->f, whole).i == ir_view_base(s->f, s->now[root.i]).i;
  Attr attr[6] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(s->p, is_plain ? start : 0))};
  uint32_t n = is_plain ? 2 : 1 + slice_attrs(s, v, attr + 1);
  if (into) attr[n++] = ir_a_int(KEY_into_param, 1);
  *x = ir_emit(s->f, OP_slice_assign, (Val[]){whole, *x, at}, 3, attr, n, loc);
  return parent;
}

// The content of v's root once v holds x; none: reported.
static Val through_aliases(Functionalize *s, Val v, Val x, Loc loc) {
  while (v.i != s->root[v.i].i) {
    Val parent = old_arg(s, v, 0);
    Shape shape = old_ins(s, parent)->shape;
    switch (old_ins(s, v)->op) {
    case OP_reshape: x = emit1(s, OP_reshape, x, ir_a_list(KEY_shape, shape), loc); break;
    case OP_permute: x = unpermute(s, v, x, loc); break;
    case OP_slice: parent = put_slice(s, v, &x, loc); break;
    case OP_expand:
      if (shape.i == old_ins(s, v)->shape.i) break;
      report(s, E_SHAPE, loc, "a write through a broadcast view: one element would take several values", v);
      return (Val){0};
    default: break;
    }
    v = parent;
  }
  return x;
}

static bool is_cut(const Functionalize *s, Val v) {
  for (; v.i != s->root[v.i].i; v = old_arg(s, v, 0))
    if (old_ins(s, v)->op == OP_stop_grad) return true;
  return false;
}

static bool is_whole(const Functionalize *s, Val v) {
  for (; v.i != s->root[v.i].i; v = old_arg(s, v, 0))
    if (ir_ops[old_ins(s, v)->op].cls != CLASS_VIEW) return false;
  return true;
}

// The content to write. If others read it too it keeps its identity: the target takes a clone.
static Val content_of(Functionalize *s, Val mark, Loc loc) {
  Val v = old_arg(s, mark, 0), c = old_arg(s, mark, 1), x = read(s, c);
  bool fresh = s->uses[c.i] == 1 && s->root[c.i].i == c.i;
  if (!fresh) return ir_op1(s->f, OP_clone, x, loc);
  return is_whole(s, v) ? into_storage(s, s->root[v.i], x) : x;
}

static void write_value(Functionalize *s, Val mark) {
  Val v = old_arg(s, mark, 0), root = s->root[v.i];
  Loc loc = old_ins(s, mark)->loc;
  bool no_grad = old_int(s, mark, KEY_no_grad) != 0 || is_cut(s, v);
  if (is_trainable(s, root) && !no_grad) {
    report(s, E_WRITE_LEAF, loc, "a trainable parameter is written in place outside a no-grad region", root);
    return;
  }
  s->f->cur_scope = old_ins(s, root)->scope;
  Val before = read(s, root), x = content_of(s, mark, loc);
  if (no_grad && s->f->ins[x.i].dtype == DT_F32) x = ir_op1(s->f, OP_stop_grad, x, loc);
  x = through_aliases(s, v, x, loc);
  if (ir_none(x)) return;
  if (is_param(s, root)) x = store_param(s, root, x, loc);
  if (is_trainable(s, root)) {
    x = ir_op1(s->f, OP_stop_grad, x, loc);  // a leaf
    Version *old = rt_alloc(s->p->mem, sizeof *old);
    *old = (Version){before, s->past[root.i]};
    s->past[root.i] = old;
  }
  if (old_int(s, mark, KEY_no_grad) && !is_cut(s, v) && !is_leaf(s, root) && !s->scan)
    *RT_PUSH(s->p->mem, s->cuts, s->n_cuts, s->cap_cuts) = (Cut){root, before, x, loc, false};
  ir_emit(s->f, OP_overwritten, (Val[]){before, x}, 2, NULL, 0, loc);
  s->now[root.i] = x;
  s->made[root.i]++;
}

// ---- gradients of a parameter that was written: of all its versions
static bool reaches(Functionalize *s, Val loss, Val x) {
  while (ir_ins(s->f, loss)->op == OP_grad_replace) loss = ir_arg(s->f, loss, 0);
  if (x.i > loss.i) return false;
  if (s->reach_of.i != loss.i) {
    ir_grad_reach(s->f, loss, &s->reach);
    s->reach_of = loss;
  }
  return s->reach.has[x.i];
}

static void grad_of_versions(Functionalize *s, Val v) {
  Val root = s->root[old_arg(s, v, 1).i], loss = read(s, old_arg(s, v, 0)), sum = {0}, now = read(s, root);
  Loc loc = old_ins(s, v)->loc;
  Version last = {now, s->past[root.i]};
  for (const Version *k = &last; k; k = k->before) {
    if (!reaches(s, loss, k->v)) continue;
    Val g = ir_op2(s->f, OP_grad_of, loss, k->v, loc);
    sum = ir_none(sum) ? g : ir_op2(s->f, OP_add, sum, g, loc);
  }
  s->e.map[v.i] = ir_none(sum) ? ir_op2(s->f, OP_grad_of, loss, now, loc) : sum;
}

// ---- gradients that a write in a no-grad region ends
static bool was_on_way(Functionalize *s, const Cut *cut, Val target) {
  Val root = s->root[target.i];
  s->behind.no_zeros = true;
  ir_grad_reach(s->f, cut->before, &s->behind);
  Version last = {s->e.map[target.i], s->past[root.i]};
  for (const Version *k = &last; k; k = k->before)
    if (k->v.i <= cut->before.i && s->behind.has[k->v.i]) return true;
  return false;
}

static void say_cut(Functionalize *s, Cut *cut, Val mark) {
  RtDiags *d = &s->p->diags;
  Val target = s->root[old_arg(s, mark, 1).i];
  Loc made = old_ins(s, cut->root)->loc, taken = old_ins(s, mark)->loc;
  const char *what = "a gradient";
  if (is_param_op(s, target))
    what =
        rt_printf(s->p->mem, "the gradient of '%s'", ir_text(s->p, s->p->params[old_int(s, target, KEY_param)].path));
  rt_diag(d, RT_WARNING, E_GRADIENT_ENDED, ir_loc_file(s->p, cut->at), ir_loc_line(s->p, cut->at),
          "a computed value is written in a no-grad region: %s does not pass what is written", what);
  rt_diag(d, RT_NOTE, 0, ir_loc_file(s->p, made), ir_loc_line(s->p, made), "it was made here");
  rt_diag(d, RT_NOTE, 0, ir_loc_file(s->p, taken), ir_loc_line(s->p, taken), "the gradient is taken here");
  rt_diag(d, RT_HINT, 0, NULL, 0,
          "outside of the region the gradient flows to what is written; tn_detach(..) of that ends it");
  cut->is_said = true;
}

static void look_for_cuts(Functionalize *s, Val mark) {
  Val loss = {0};
  for (uint32_t k = 0; k < s->n_cuts; k++) {
    if (s->cuts[k].is_said) continue;
    if (ir_none(loss)) loss = read(s, old_arg(s, mark, 0));
    if (reaches(s, loss, s->cuts[k].after) && was_on_way(s, &s->cuts[k], old_arg(s, mark, 1)))
      say_cut(s, &s->cuts[k], mark);
  }
}

// ---- scans
static bool is_mark_of(const Functionalize *s, Val v, Op op, Val begin) {
  return old_ins(s, v)->op == op && old_int(s, v, KEY_scan) == old_int(s, begin, KEY_scan);
}

static void report_carried(Functionalize *s, Loc at, const char *text, Val mark, const char *note, const char *hint) {
  Loc there = old_ins(s, mark)->loc;
  rt_diag(&s->p->diags, RT_ERROR, E_WRITE_LEAF, ir_loc_file(s->p, at), ir_loc_line(s->p, at), "%s", text);
  rt_diag(&s->p->diags, RT_NOTE, 0, ir_loc_file(s->p, there), ir_loc_line(s->p, there), "%s", note);
  rt_diag(&s->p->diags, RT_HINT, 0, NULL, 0, "%s", hint);
}

// The gradient of a trainable parameter is that of all its versions: those of the steps have no names outside.
static bool check_carried(Functionalize *s, Val root, Loc at) {
  static const char *const began = "the scan began here";
  if (is_trainable(s, root)) {
    const char *path = ir_text(s->p, s->p->params[old_int(s, root, KEY_param)].path);
    report_carried(s, at, rt_printf(s->p->mem, "trainable parameter '%s' is written inside a scan", path),
                   s->scan->begin, began,
                   "tn_scan_carry takes what changes from step to step; write the parameter when the scan has ended");
  } else if (old_ins(s, root)->dtype != DT_F32) {
    report_carried(s, at, "whole numbers from outside are written inside a scan, which carries f32 from step to step",
                   s->scan->begin, began,
                   "tn_scan_output gives what each step makes; write it when the scan has ended");
  } else return true;
  return false;
}

static bool add_carried(Functionalize *s, Val write) {
  OpenScan *o = s->scan;
  Val root = s->root[old_arg(s, write, 0).i];
  Loc at = old_ins(s, write)->loc;
  if ((root.i > o->begin.i && !is_leaf(s, root)) || carried_of(s, root)) return true;
  *RT_PUSH(s->p->mem, o->carried, o->n, o->cap) = (Carried){.root = root, .at = at};
  return check_carried(s, root, at);
}

// Finds what the body writes.
static void open_scan(Functionalize *s, Val begin) {
  OpenScan *o = rt_alloc(s->p->mem, sizeof *o);
  *o = (OpenScan){.outer = s->scan, .begin = begin};
  s->scan = o;
  bool good = true;
  for (Val v = {begin.i + 1}; v.i < s->e.n_old && !o->end.i; v.i++) {
    if (is_mark_of(s, v, OP_scan_end, begin)) o->end = v;
    if (is_mark_of(s, v, OP_scan_carry, begin)) o->n_carries++;
    if (old_ins(s, v)->op == OP_write) good &= add_carried(s, v);
  }
  if (!good) o->n = 0;
}

static Val emit_mark(Functionalize *s, Op op, Val v, uint32_t carry) {
  const Attr attrs[] = {ir_a_int(KEY_scan, old_int(s, s->scan->begin, KEY_scan)),
                        ir_a_int(KEY_index, s->scan->n_carries + carry)};
  return ir_emit(s->f, op, &v, 1, attrs, 2, s->scan->carried[carry].at);
}

static void copy_value(Functionalize *s, Val v);

// From here to the end of the scan, handles of the root show the carry. A leaf is named before the scans that carry it.
static void begin_carry(Functionalize *s, uint32_t k) {
  Carried *c = &s->scan->carried[k];
  s->f->cur_scope = old_ins(s, c->root)->scope;
  if (ir_none(s->e.map[c->root.i])) copy_value(s, c->root);
  c->before = read(s, c->root);
  s->now[c->root.i] = emit_mark(s, OP_scan_carry, c->before, k);
  c->made = ++s->made[c->root.i];
}

static void end_carries(Functionalize *s) {
  for (uint32_t k = 0; k < s->scan->n; k++) emit_mark(s, OP_scan_next, s->now[s->scan->carried[k].root.i], k);
}

static void close_scan(Functionalize *s) {
  for (uint32_t k = 0; k < s->scan->n; k++) {
    const Carried *c = &s->scan->carried[k];
    s->f->cur_scope = old_ins(s, c->root)->scope;
    Val last = emit_mark(s, OP_scan_final, c->before, k);
    if (is_param_op(s, c->root) && !s->scan->outer) last = ir_op2(s->f, OP_assign, c->before, last, c->at);
    ir_emit(s->f, OP_overwritten, (Val[]){c->before, last}, 2, NULL, 0, c->at);
    s->now[c->root.i] = last;
    s->made[c->root.i]++;
  }
  s->scan = s->scan->outer;
}

// A scan reads its inputs as they were before it: later steps must not see what earlier ones wrote.
static bool takes_carried(Functionalize *s, Val v) {
  Op op = old_ins(s, v)->op;
  if (op != OP_scan_input && op != OP_scan_carry && op != OP_scan_final) return false;
  return s->scan && is_mark_of(s, v, op, s->scan->begin) && carried_of(s, s->root[old_arg(s, v, 0).i]);
}

static void copy_taker(Functionalize *s, Val v) {
  Val root = s->root[old_arg(s, v, 0).i], now = s->now[root.i];
  Carried *c = carried_of(s, root);
  Op op = old_ins(s, v)->op;
  if (op == OP_scan_input || (op == OP_scan_carry && s->made[root.i] != c->made))
    report_carried(s, c->at, "what a scan takes in is written inside of it", v, "the scan takes it in here",
                   "tn_clone(..) of it is the scan's own");
  s->now[root.i] = c->before;
  s->made[root.i]++;
  read(s, old_arg(s, v, 0));
  ir_rewrite_copy(&s->e, v);
  s->now[root.i] = now;
  s->made[root.i]++;
  c->made += 2;
}

// ---- the pass
static void copy_step(Functionalize *s, Val v) {
  const Ins *ins = old_ins(s, v);
  if (takes_carried(s, v)) {
    copy_taker(s, v);
    return;
  }
  for (uint32_t k = 0; k < ins->n_args; k++) read(s, old_arg(s, v, k));
  Val target = ins->op == OP_grad_of ? old_arg(s, v, 1) : (Val){0};
  if (target.i) look_for_cuts(s, v);
  if (target.i && s->root[target.i].i == target.i && s->past[target.i]) grad_of_versions(s, v);
  else ir_rewrite_copy(&s->e, v);
}

static void copy_value(Functionalize *s, Val v) {
  copy_step(s, v);
  for (uint32_t k = 0; k < old_ins(s, v)->n_res || k == 0; k++) {
    Val r = {v.i + k};
    s->now[r.i] = s->e.map[r.i];
    s->seen[r.i] = s->made[s->root[r.i].i];
  }
}

static void step(Functionalize *s, Val v) {
  const Ins *ins = old_ins(s, v);
  bool ends = s->scan && v.i == s->scan->end.i;
  s->f->cur_scope = ins->scope;
  if (ins->op == OP_write) {
    write_value(s, v);
    return;
  }
  if (ends) end_carries(s);
  if (ir_none(s->e.map[v.i])) copy_value(s, v);
  if (ends) close_scan(s);
  if (ins->op != OP_scan_begin) return;
  open_scan(s, v);
  for (uint32_t k = 0; k < s->scan->n; k++) begin_carry(s, k);
}

static void find_roots(Functionalize *s) {
  for (Val v = {1}; v.i < s->e.n_old; v.i++)
    s->root[v.i] = ir_is_alias(old_ins(s, v)->op) ? s->root[old_arg(s, v, 0).i] : v;
}

bool ir_pass_functionalize(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t errors = f->prog->diags.n_errors, scope = f->cur_scope;
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= f->ins[i].op == OP_write;
  if (!any) return true;
  Functionalize s = {.f = f, .p = f->prog, .uses = ir_count_uses(f)};
  ir_rewrite_begin(&s.e, f);
  s.root = rt_alloc(mem, s.e.n_old * sizeof *s.root);
  s.now = rt_alloc(mem, s.e.n_old * sizeof *s.now);
  s.made = rt_alloc(mem, s.e.n_old * sizeof *s.made);
  s.seen = rt_alloc(mem, s.e.n_old * sizeof *s.seen);
  s.past = rt_alloc(mem, s.e.n_old * sizeof *s.past);
  find_roots(&s);
  for (uint32_t i = 1; i < s.e.n_old; i++)
    if (s.e.old[i].op != OP_result) step(&s, (Val){i});
  f->cur_scope = scope;
  ir_rewrite_end(&s.e);
  return f->prog->diags.n_errors == errors;
}
