// Pass outline_scans: outlines the body of each scan into a function of its own.
//
//   scan_begin %L {scan=0, live=live}                    body @step.scan(%x: f32[live,12], %h: f32[live,64], ..) {
//   %x = scan_input %xs {scan=0, live=live}                %hn = ..
//   %h = scan_carry %h0 {scan=0, index=0, live=live}       output %hn {index=0}
//   %hn = ..                                        ->     output %hn {index=1}
//   scan_next %hn {scan=0, index=0}                      }
//   %ys = scan_output %hn {scan=0, live=live, rows=rows}
//   scan_end {scan=0}                                    %ys, %1 = scan %L, %xs, %h0, .. {body="step.scan", ..}
//
// 1. The body holds the instructions that depend on a slice or a carry, those whose size is the rows of the step, and
//    random ones: fresh in each step. Everything else between the marks is loop-invariant and is hoisted before the scan.
// 2. Values from outside become operands of the body: captures. Constants and generators are rematerialised inside.
// 3. A value of the body is used outside through scan_output and scan_final alone; a stacked output not inside.
// 4. Random streams: one per step, {id} + the step number; the pass that numbers them reserves one for each step.
// 5. Of scans in scans the inner ones go first: they are instructions of the body around them then.
// 6. If a gradient may be taken, the carries at the begin of each step and results that are expensive to recompute are
//    further outputs (saved for the backward); pass plan_scans drops those that the backward did not use.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/rewrite.h"
#include "ir/scan.h"
#include <string.h>

typedef struct {
  uint32_t begin, end;  // marks in the old function
  int64_t number;
  Fn *body;
  Val layout;  // old numbering; 0: dense
  Dim live, steps;
  bool reverse;
  Val *slices, *carries, *captures;  // old values: scan_input, scan_carry; captured ones
  uint32_t n_slices, cap_slices, n_carries, cap_carries, n_captures, cap_captures;
  Val *next;     // by carry: old value
  Val *outputs;  // old scan_output records
  uint32_t n_outputs, cap_outputs;
  Val *saves;  // old values of the body that are saved for the backward
  uint32_t n_saves, cap_saves;
  Val head;  // the scan in the new function
} Loop;

typedef struct {
  Rewrite e;
  Fn *f;
  Prog *p;
  RtArena *mem;
  bool *inside;  // by old value: defined in the body of the current loop
  Val *in_body;  // by old value: its number in the body
  bool has_grad;
} Outline;

static const Ins *old_ins(const Outline *s, uint32_t i) { return &s->e.old[i]; }
static Val old_arg(const Outline *s, uint32_t i, uint32_t k) { return s->f->args[s->e.old[i].args + k]; }
static const Attr *old_attr(const Outline *s, uint32_t i, Key key) {
  for (uint32_t k = 0; k < s->e.old[i].n_attrs; k++)
    if (s->f->attrs[s->e.old[i].attrs + k].key == key) return &s->f->attrs[s->e.old[i].attrs + k];
  return NULL;
}
static int64_t old_int(const Outline *s, uint32_t i, Key key) {
  const Attr *a = old_attr(s, i, key);
  return a ? a->u.i : -1;
}
static bool is_mark(const Ins *ins) { return ir_ops[ins->op].cls == CLASS_SCAN && ins->op != OP_scan; }
static bool is_mark_of(const Outline *s, uint32_t i, const Loop *l) {
  return is_mark(old_ins(s, i)) && old_int(s, i, KEY_scan) == l->number;
}

static bool report(Outline *s, uint16_t id, Loc at, const char *text) {
  rt_diag(&s->p->diags, RT_ERROR, id, ir_loc_file(s->p, at), ir_loc_line(s->p, at), "%s", text);
  return false;
}
static bool report_pair(Outline *s, uint16_t id, Loc at, const char *text, Loc there, const char *note) {
  report(s, id, at, text);
  rt_diag(&s->p->diags, RT_NOTE, 0, ir_loc_file(s->p, there), ir_loc_line(s->p, there), "%s", note);
  return false;
}

// ---- reading the marks
static bool read_carry(Outline *s, Loop *l, uint32_t i) {
  int64_t k = old_int(s, i, KEY_index);
  while (k >= l->n_carries && k < MAX_RESULTS) *RT_PUSH(s->mem, l->carries, l->n_carries, l->cap_carries) = (Val){0};
  if (k < 0 || k >= MAX_RESULTS || !ir_none(l->carries[k]))
    return report(s, E_VERIFY, old_ins(s, i)->loc, "carries of a scan have the numbers 0, 1, .., each once");
  l->carries[k] = (Val){i};
  return true;
}

static bool read_next(Outline *s, Loop *l, uint32_t i) {
  int64_t k = old_int(s, i, KEY_index);
  Val v = old_arg(s, i, 0);
  Loc at = old_ins(s, i)->loc;
  if (k < 0 || k >= l->n_carries || ir_none(l->carries[k]))
    return report(s, E_VERIFY, at, "scan_next names no carry before it");
  const Ins *carry = old_ins(s, l->carries[k].i), *ins = old_ins(s, v.i);
  if (!ir_none(l->next[k]))
    return report_pair(s, E_ARGUMENT, at, "a carry gets a second next value", carry->loc, "the carry was made here");
  if (ins->dtype != carry->dtype || ins->shape.i != carry->shape.i) {
    RtText text = {.mem = s->mem};
    rt_text_add(&text, "the next value of a carry has shape ");
    ir_shape_text(s->p, ins->shape, &text);
    rt_text_add(&text, ", the carry ");
    ir_shape_text(s->p, carry->shape, &text);
    return report_pair(s, E_SHAPE, at, text.text, carry->loc, "the carry was made here");
  }
  l->next[k] = v;
  return true;
}

static bool read_mark(Outline *s, Loop *l, uint32_t i) {
  switch (old_ins(s, i)->op) {
  case OP_scan_input: *RT_PUSH(s->mem, l->slices, l->n_slices, l->cap_slices) = (Val){i}; return true;
  case OP_scan_carry: return read_carry(s, l, i);
  case OP_scan_next: return read_next(s, l, i);
  case OP_scan_output: *RT_PUSH(s->mem, l->outputs, l->n_outputs, l->cap_outputs) = (Val){i}; return true;
  default: return true;
  }
}

// Is this a new version of a value defined before the scan? Pass functionalize turns such writes into carries.
static bool writes_outer(const Outline *s, const Loop *l, uint32_t i) {
  if (old_ins(s, i)->op != OP_overwritten) return false;
  Val v = old_arg(s, i, 0);
  for (uint32_t k = i; k-- > l->begin + 1;)
    if (old_ins(s, k)->op == OP_overwritten && old_arg(s, k, 1).i == v.i) v = old_arg(s, k, 0);
  return v.i < l->begin;
}

static bool has_effect(const Outline *s, uint32_t i) {
  return (ir_ops[old_ins(s, i)->op].flags & EFFECT) || old_attr(s, i, KEY_into_param);
}

// A layout is made outside; where a step has rows of its own it reads none.
static bool misuses_layout(const Outline *s, const Loop *l, uint32_t i) {
  bool misuses = ir_ops[old_ins(s, i)->op].cls == CLASS_LAYOUT || old_ins(s, i)->dtype == DT_LAYOUT;
  for (uint32_t k = 0; k < old_ins(s, i)->n_args && l->live.i; k++)
    misuses |= old_ins(s, old_arg(s, i, k).i)->dtype == DT_LAYOUT;
  return misuses;
}

// Reports instructions that are not allowed in a body.
static bool check_in_body(Outline *s, const Loop *l, uint32_t i) {
  const Ins *ins = old_ins(s, i);
  const OpInfo *op = &ir_ops[ins->op];
  Loc begin = old_ins(s, l->begin)->loc;
  if (ins->op == OP_grad_of)
    return report_pair(s, E_STATE, ins->loc, "a gradient is asked for inside a scan", begin, "the scan began here");
  if (ins->op == OP_output && s->inside[i])
    return report_pair(s, E_STATE, ins->loc, "a function's output is a value of one step of a scan", begin,
                       "the scan began here; scan_output hands out a value of each step");
  if (misuses_layout(s, l, i))
    return report_pair(s, E_STATE, ins->loc, ir_layout_in_scan, begin, "the scan began here");
  bool writes_param = op->cls == CLASS_OPTIMIZER || old_attr(s, i, KEY_into_param) || ins->op == OP_assign;
  if (writes_param || writes_outer(s, l, i))
    return report_pair(s, E_WRITE_LEAF, ins->loc, "a value from outside is written inside a scan", begin,
                       "the scan began here; a carry takes what changes from step to step");
  return true;
}

// Does a step of the body draw random numbers?
static bool draws(const Fn *body) {
  for (Val v = {1}; v.i < body->n_ins; v.i++)
    if (ir_attr(body, v, KEY_id) || (ir_ins(body, v)->op == OP_scan && draws(ir_scan_at(body, v).body))) return true;
  return false;
}
static bool is_random(const Outline *s, uint32_t i) {
  return old_attr(s, i, KEY_id) ||
         (old_ins(s, i)->op == OP_scan && draws(ir_body_find(s->p, old_attr(s, i, KEY_body)->u.s)));
}
// The number of rows of a step is not known outside of the body.
static bool names_live(const Outline *s, const Loop *l, uint32_t i) {
  const Attr *dim = old_attr(s, i, KEY_dim);
  Shape size = dim ? ir_shape(s->p, &dim->u.dim, 1) : (Shape){0};
  return l->live.i && (ir_shape_names(s->p, old_ins(s, i)->shape, l->live) || ir_shape_names(s->p, size, l->live));
}
static bool belongs(const Outline *s, const Loop *l, uint32_t i) {
  if (is_random(s, i) || names_live(s, l, i)) return true;
  for (uint32_t k = 0; k < old_ins(s, i)->n_args; k++)
    if (s->inside[old_arg(s, i, k).i]) return true;
  return false;
}

static bool check_next(Outline *s, const Loop *l) {
  bool ok = true;
  for (uint32_t k = 0; k < l->n_carries; k++)
    if (ir_none(l->carries[k]))
      ok = report(s, E_VERIFY, old_ins(s, l->begin)->loc, "carries of a scan have the numbers 0, 1, .., each once");
    else if (ir_none(l->next[k]))
      ok = report_pair(s, E_ARGUMENT, old_ins(s, l->carries[k].i)->loc, "a carry of a scan gets no next value",
                       old_ins(s, l->end)->loc, "the scan ended here");
  if (l->n_carries + l->n_outputs == 0)
    ok = report(s, E_ARGUMENT, old_ins(s, l->begin)->loc, "a scan has neither a carry nor an output");
  if (l->n_carries + l->n_outputs > MAX_RESULTS / 2)
    ok = report(s, E_ARGUMENT, old_ins(s, l->begin)->loc, "a scan has more than 32767 carries and outputs");
  return ok;
}

// Reports uses of body values outside of their scope.
static bool check_reads(Outline *s, const Loop *l) {
  bool ok = true;
  for (uint32_t i = l->begin; i < s->e.n_old; i++) {
    const Ins *ins = old_ins(s, i);
    bool reads = i > l->end && ins->op != OP_result;
    for (uint32_t k = 0; k < ins->n_args; k++) {
      Val a = old_arg(s, i, k);
      const Ins *made = old_ins(s, a.i);
      if (reads && s->inside[a.i])
        ok = report_pair(s, E_USE_AFTER_SCOPE, ins->loc, "a value of a scan's body is used outside of it", made->loc,
                         "it was made here; tn_scan_output and tn_scan_final take values out");
      bool early = i < l->end && (made->op == OP_scan_output || made->op == OP_scan_final) && is_mark_of(s, a.i, l);
      if (early && ins->op != OP_result)
        ok = report_pair(s, E_STATE, ins->loc, "an output of a scan is used inside of it", made->loc,
                         "it is whole when the scan has ended");
    }
  }
  return ok;
}

static bool read_loop(Outline *s, Loop *l) {
  const Attr *live = old_attr(s, l->begin, KEY_live), *time = old_attr(s, l->begin, KEY_time);
  l->number = old_int(s, l->begin, KEY_scan);
  l->layout = old_ins(s, l->begin)->n_args ? old_arg(s, l->begin, 0) : (Val){0};
  l->live = live ? live->u.dim : (Dim){0};
  l->steps = time ? time->u.dim : (Dim){0};
  l->reverse = old_attr(s, l->begin, KEY_reverse) != NULL;
  l->next = rt_alloc(s->mem, s->e.n_old * sizeof *l->next);
  memset(s->inside, 0, s->e.n_old);
  bool ok = true;
  uint32_t i = l->begin + 1;
  for (; i < s->e.n_old; i++) {
    const Ins *ins = old_ins(s, i);
    if (ins->op == OP_scan_end) break;
    bool mark = is_mark(ins);
    if (mark && !read_mark(s, l, i)) return false;
    bool leaf = ins->op == OP_scan_input || ins->op == OP_scan_carry;
    if (leaf && s->inside[old_arg(s, i, 0).i])
      return report_pair(s, E_ARGUMENT, ins->loc, "what a scan takes in is a value of its own body",
                         old_ins(s, old_arg(s, i, 0).i)->loc, "it was made here");
    s->inside[i] = mark ? leaf : belongs(s, l, i);
    if (!mark && (s->inside[i] || has_effect(s, i) || ins->op == OP_grad_of)) ok &= check_in_body(s, l, i);
  }
  l->end = i;
  return ok && check_next(s, l) && check_reads(s, l);
}

// ---- the body
static Val add_input(Outline *s, Loop *l, Val old) {
  const Ins *ins = old_ins(s, old.i);
  Val v = ir_input(l->body, ir_text(s->p, ins->name), (DType)ins->dtype, ins->shape, ins->loc);
  return s->in_body[old.i] = v;
}

static void copy_into(Outline *s, Loop *l, uint32_t i) {
  const Ins *ins = old_ins(s, i);
  Val *args = rt_alloc(s->mem, (ins->n_args + 1) * sizeof *args);
  const Attr *attrs = s->f->attrs + ins->attrs;
  for (uint32_t k = 0; k < ins->n_args; k++) args[k] = s->in_body[old_arg(s, i, k).i];
  Val v =
      ir_emit_typed(l->body, ins->op, args, ins->n_args, attrs, ins->n_attrs, (DType)ins->dtype, ins->shape, ins->loc);
  l->body->ins[v.i].absent = ins->absent;
  for (uint32_t k = 0; k < ins->n_res; k++) {
    Ins *res = &l->body->ins[v.i + k];
    res->dtype = old_ins(s, i + k)->dtype;
    res->shape = old_ins(s, i + k)->shape;
    res->name = old_ins(s, i + k)->name;
    res->origin = old_ins(s, i + k)->origin;
    s->in_body[i + k] = (Val){v.i + k};
  }
}

// Cheap to rematerialise: copied into the body instead of captured.
static bool is_cheap(const Outline *s, uint32_t i) {
  const Ins *ins = old_ins(s, i);
  return ins->op == OP_const || ins->op == OP_dim_size || (ins->op == OP_full && ir_ops[ins->op].n_max == 0);
}

static void find_captures(Outline *s, Loop *l) {
  bool *seen = rt_alloc(s->mem, s->e.n_old);
  for (uint32_t i = l->begin + 1; i < l->end; i++) {
    const Ins *ins = old_ins(s, i);
    bool reads = ins->op == OP_scan_next || ins->op == OP_scan_output ||
                 (s->inside[i] && ins->op != OP_scan_input && ins->op != OP_scan_carry);
    for (uint32_t k = 0; reads && ins->op != OP_result && k < ins->n_args; k++) {
      Val a = old_arg(s, i, k);
      if (s->inside[a.i] || seen[a.i] || is_cheap(s, a.i)) continue;
      seen[a.i] = true;
      *RT_PUSH(s->mem, l->captures, l->n_captures, l->cap_captures) = a;
    }
  }
}

static void copy_cheap(Outline *s, Loop *l, uint32_t i) {
  for (uint32_t k = 0; k < old_ins(s, i)->n_args; k++) {
    Val a = old_arg(s, i, k);
    if (!s->inside[a.i] && ir_none(s->in_body[a.i]) && is_cheap(s, a.i)) copy_into(s, l, a.i);
  }
}

static void add_output(Outline *s, Loop *l, Val inner, const char *name, Loc loc) {
  Attr a[2] = {ir_a_int(KEY_index, l->body->n_outputs), ir_a_str(KEY_name, ir_str(s->p, name))};
  ir_emit(l->body, OP_output, &inner, 1, a, *name ? 2 : 1, loc);
}

// Expensive to recompute: saved for the backward.
static bool is_expensive(const Outline *s, uint32_t i) { return ir_class_has(old_ins(s, i)->op, EXPENSIVE); }

static bool can_save(const Outline *s, const Loop *l, uint32_t i) {
  return old_ins(s, i)->dtype == DT_F32 && ir_scan_stacks(s->p, old_ins(s, i)->shape, l->live);
}

static void find_saves(Outline *s, Loop *l) {
  uint32_t room = MAX_RESULTS - l->n_carries - l->n_outputs;
  for (uint32_t k = 0; k < l->n_carries && room; k++)
    if (can_save(s, l, l->carries[k].i)) *RT_PUSH(s->mem, l->saves, l->n_saves, l->cap_saves) = l->carries[k], room--;
  for (uint32_t i = l->begin + 1; i < l->end && room; i++)
    if (s->inside[i] && old_ins(s, i)->n_res == 1 && is_expensive(s, i) && can_save(s, l, i))
      *RT_PUSH(s->mem, l->saves, l->n_saves, l->cap_saves) = (Val){i}, room--;
}

static void make_body(Outline *s, Loop *l) {
  Loc loc = old_ins(s, l->begin)->loc;
  const Attr *name = old_attr(s, l->begin, KEY_name);
  const char *own = name ? ir_text(s->p, name->u.s) : "scan";
  l->body = ir_body_new(s->p, rt_printf(s->mem, "%s.%s", ir_text(s->p, s->f->name), own), loc);
  l->body->scopes[0].close = old_ins(s, l->end)->loc;
  memset(s->in_body, 0, s->e.n_old * sizeof *s->in_body);
  find_captures(s, l);
  if (s->has_grad) find_saves(s, l);
  for (uint32_t k = 0; k < l->n_slices; k++) add_input(s, l, l->slices[k]);
  for (uint32_t k = 0; k < l->n_carries; k++) add_input(s, l, l->carries[k]);
  for (uint32_t k = 0; k < l->n_captures; k++) add_input(s, l, l->captures[k]);
  for (uint32_t i = l->begin + 1; i < l->end; i++) {
    const Ins *ins = old_ins(s, i);
    if (ins->op == OP_scan_next || ins->op == OP_scan_output) copy_cheap(s, l, i);
    bool own_step = s->inside[i] && !is_mark(ins);
    if (!own_step || ins->op == OP_result || ins->op == OP_overwritten) continue;
    copy_cheap(s, l, i);
    copy_into(s, l, i);
  }
  for (uint32_t k = 0; k < l->n_carries; k++)
    add_output(s, l, s->in_body[l->next[k].i], "", old_ins(s, l->next[k].i)->loc);
  for (uint32_t k = 0; k < l->n_outputs; k++)
    add_output(s, l, s->in_body[old_arg(s, l->outputs[k].i, 0).i], "", old_ins(s, l->outputs[k].i)->loc);
  for (uint32_t k = 0; k < l->n_saves; k++)
    add_output(s, l, s->in_body[l->saves[k].i], "", old_ins(s, l->saves[k].i)->loc);
}

// ---- the scan
static void emit_scan(Outline *s, Loop *l) {
  uint32_t n = 0, most = 1 + l->n_slices + l->n_carries + l->n_captures;
  Val *args = rt_alloc(s->mem, most * sizeof *args);
  if (!ir_none(l->layout)) args[n++] = s->e.map[l->layout.i];
  for (uint32_t k = 0; k < l->n_slices; k++) args[n++] = s->e.map[old_arg(s, l->slices[k].i, 0).i];
  for (uint32_t k = 0; k < l->n_carries; k++) args[n++] = s->e.map[old_arg(s, l->carries[k].i, 0).i];
  for (uint32_t k = 0; k < l->n_captures; k++) args[n++] = s->e.map[l->captures[k].i];
  Attr a[5] = {
      ir_a_str(KEY_body, l->body->name), ir_a_int(KEY_slices, l->n_slices), ir_a_int(KEY_carries, l->n_carries),
      ir_none(l->layout) ? ir_a_dim(KEY_time, l->steps) : ir_a_dim(KEY_live, l->live), ir_a_int(KEY_reverse, 1)};
  const Ins *begin = old_ins(s, l->begin);
  s->f->cur_scope = begin->scope;
  l->head = ir_emit(s->f, OP_scan, args, n, a, l->reverse ? 5 : 4, begin->loc);
  uint32_t n_stacks = l->n_outputs + l->n_saves;
  for (uint32_t k = 0; k < l->n_outputs && !ir_none(l->head); k++) {
    const Ins *o = old_ins(s, l->outputs[k].i);
    Ins *r = ir_ins(s->f, ir_result(l->head, k));
    if (r->shape.i != o->shape.i)
      report_pair(s, E_SHAPE, o->loc, "an output of a scan has another number of steps than its scan", begin->loc,
                  "the scan began here");
    r->scope = o->scope, r->name = o->name, r->origin = o->origin;
    s->e.map[l->outputs[k].i] = ir_result(l->head, k);
  }
  for (uint32_t i = l->begin; i < s->e.n_old && !ir_none(l->head); i++) {
    if (old_ins(s, i)->op != OP_scan_final || !is_mark_of(s, i, l)) continue;
    int64_t k = old_int(s, i, KEY_index);
    if (k < 0 || k >= l->n_carries) {
      report(s, E_VERIFY, old_ins(s, i)->loc, "scan_final names no carry");
      continue;
    }
    Val r = ir_result(l->head, n_stacks + (uint32_t)k);
    ir_ins(s->f, r)->scope = old_ins(s, i)->scope;
    ir_ins(s->f, r)->origin = old_ins(s, i)->origin;
    s->e.map[i] = r;
  }
}

static bool outline(Outline *s, uint32_t *at) {
  Loop l = {.begin = *at};
  if (!read_loop(s, &l)) return false;
  make_body(s, &l);
  for (uint32_t i = l.begin + 1; i < l.end; i++) {
    bool stays = !s->inside[i] && !is_mark(old_ins(s, i)) && old_ins(s, i)->op != OP_result;
    if (stays && old_ins(s, i)->op == OP_overwritten && s->inside[old_arg(s, i, 1).i]) stays = false;
    if (stays) ir_rewrite_copy(&s->e, (Val){i});
  }
  emit_scan(s, &l);
  *at = l.end;
  return !ir_none(l.head);
}

// ---- the marks of all scans
typedef struct {
  Loc begin[MAX_SCAN_DEPTH];  // of those that are open
  int64_t open[MAX_SCAN_DEPTH];
  uint32_t n_open;
  int64_t *numbers;  // of all
  uint32_t n, cap;
} Marks;

static bool is_known(const Marks *m, int64_t number) {
  for (uint32_t k = 0; k < m->n; k++)
    if (m->numbers[k] == number) return true;
  return false;
}

static bool begin_scan(Outline *s, Marks *m, int64_t number, Loc at) {
  if (is_known(m, number)) return report(s, E_VERIFY, at, "a scan begins twice");
  if (m->n_open == MAX_SCAN_DEPTH) return report(s, E_STATE, at, "scans nest above 8 deep");
  *RT_PUSH(s->mem, m->numbers, m->n, m->cap) = number;
  m->begin[m->n_open] = at;
  m->open[m->n_open++] = number;
  return true;
}

static bool follow_mark(Outline *s, Marks *m, Val v) {
  const Ins *ins = ir_ins(s->f, v);
  int64_t number = ir_attr_int(s->f, v, KEY_scan, -1);
  if (ins->op == OP_scan_begin) return begin_scan(s, m, number, ins->loc);
  if (ins->op == OP_scan_final && is_known(m, number)) return true;
  if (!m->n_open || !is_known(m, number)) return report(s, E_VERIFY, ins->loc, "stands outside of its scan");
  if (m->open[m->n_open - 1] != number)
    return report_pair(s, E_STATE, ins->loc, "belongs to a scan that is not the innermost", m->begin[m->n_open - 1],
                       "the innermost scan began here");
  m->n_open -= ins->op == OP_scan_end;
  return true;
}

// They nest, and no two scans have one number.
static bool check_marks(Outline *s) {
  Marks m = {0};
  for (Val v = {1}; v.i < s->f->n_ins; v.i++)
    if (is_mark(ir_ins(s->f, v)) && !follow_mark(s, &m, v)) return false;
  return !m.n_open || report(s, E_STATE, m.begin[m.n_open - 1], "a scan is never ended");
}

// ---- all
static bool is_innermost(const Outline *s, uint32_t begin) {
  uint32_t i = begin + 1;
  while (old_ins(s, i)->op != OP_scan_begin && old_ins(s, i)->op != OP_scan_end) i++;
  return old_ins(s, i)->op == OP_scan_end;
}

// Outlines the scans that hold no other.
static bool outline_innermost(Outline *s) {
  ir_rewrite_begin(&s->e, s->f);
  s->inside = rt_alloc(s->mem, s->e.n_old);
  s->in_body = rt_alloc(s->mem, s->e.n_old * sizeof *s->in_body);
  bool good = true;
  for (uint32_t i = 1; i < s->e.n_old && good; i++) {
    bool is_done = old_ins(s, i)->op == OP_scan_final && !ir_none(s->e.map[i]);  // a result of its scan
    if (old_ins(s, i)->op == OP_result || is_done) continue;
    if (old_ins(s, i)->op == OP_scan_begin && is_innermost(s, i)) good = outline(s, &i);
    else ir_rewrite_copy(&s->e, (Val){i});
  }
  ir_rewrite_end(&s->e);
  return good;
}

bool ir_pass_outline_scans(Fn *f) {
  uint32_t errors = f->prog->diags.n_errors, scope = f->cur_scope;
  bool any = false;
  Outline s = {.f = f, .p = f->prog, .mem = f->prog->mem};
  for (uint32_t i = 1; i < f->n_ins; i++) {
    any |= is_mark(&f->ins[i]);
    s.has_grad |= f->ins[i].op == OP_grad_of;
  }
  bool good = !any || check_marks(&s);
  while (any && good) {
    good = outline_innermost(&s);
    any = false;
    for (uint32_t i = 1; i < f->n_ins; i++) any |= is_mark(&f->ins[i]);
  }
  f->cur_scope = scope;
  return good && f->prog->diags.n_errors == errors;
}
