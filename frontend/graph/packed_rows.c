// Which values have rows of a packed batch along an axis, and of which layout: the data of packed sequences and what is
// computed of them. Neighbours among those rows may belong to different sequences, so that an op that works along them is
// refused unless it takes the layout. Rows of different layouts do not meet, even where their numbers agree:
//
//   h = tn_tanh(a.data);  tn_add(h, b.data)      E111, a and b having the lengths 3 1 and 2 2
//   tn_cumsum(a.data, 0)                         E130
//   tn_cumsum(tn_rows(a), 0)                     the user's word that these are just rows
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/module.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "ir/fn.h"
#include "ir/storage.h"

#include <string.h>

uint32_t fe_rows_of(tn_tensor t) {
  Rows r = fe_rows(t);
  bool is_first = r.layout && r.axis == 0 && fe_axis_dim(t, 0).i == fe_axis_dim((tn_tensor){t.fn, r.layout}, 2).i;
  return is_first ? r.layout : 0;
}

static tn_packed as_packed(tn_tensor t) { return (tn_packed){t, {t.fn, fe_rows(t).layout}}; }

// ---- E130
static const char *way_out(tn_program *p, Op op, const Attr *attrs, uint32_t n_attrs) {
  const char *call = ir_works_within(op, attrs, n_attrs, true);
  return call ? rt_printf(p->mem, "%s works within each sequence", call)
              : "tn_pad_packed gives each sequence a row of its own";
}

static void report_mixed(tn_tensor t, uint32_t axis, const char *call, const char *hint, tn_site at) {
  tn_program *p = t.fn->p;
  Rows r = fe_rows(t);
  fe_error(p, E_ROWS_MIXED, at,
           "%s would mix the sequences of a packed batch: axis %u of %s %s the rows of all of them", call, axis,
           fe_type_text(t), r.numbered ? "numbers" : "has");
  if (fe_ins(t)->loc.i != t.fn->ir->ins[r.layout].loc.i) fe_note(p, fe_ins(t)->loc, "the value was made here");
  fe_note(p, t.fn->ir->ins[r.layout].loc, "the sequences were packed here");
  if (r.numbered) hint = "tn_packed_steps numbers the steps of each sequence";
  fe_hint(p, "%s; tn_rows says that these are just rows", hint);
}

bool fe_steps_apart(tn_tensor t, uint32_t axis, const char *call, tn_site at) {
  Rows r = fe_rows(t);
  if (!r.layout || r.made || r.axis != axis || ir_is_one_sequence(t.fn->ir, (Val){r.layout})) return true;
  tn_program *p = t.fn->p;
  const char *name = fe_public_call(p, call);
  if (p->inside) name = rt_printf(p->mem, "%s of module '%s'", name, p->inside->path);
  report_mixed(t, axis, name, way_out(p, OP_none, NULL, 0), at);
  return false;
}

// ---- what an operation does
static bool report_joined(tn_function *f, const RowsEffect *e, const char *what, tn_site at);

static void report_effect(tn_function *f, const RowsEffect *e, const RowsCall *c, tn_site at) {
  report_mixed((tn_tensor){f, e->mixed.i}, e->mixed_axis, fe_call_text(f->p, c->op),
               way_out(f->p, c->op, c->attrs, c->n_attrs), at);
}

bool fe_rows_meet(RowsEffect *e, tn_function *f, const RowsCall *c, tn_site at) {
  if (!ir_rows_meet(e, c)) return report_joined(f, e, ir_ops[c->op].name, at);
  bool is_early = e->mixed.i && ir_ops[c->op].rows == ROWS_BY_AXIS;
  if (is_early) report_effect(f, e, c, at);
  return !is_early;
}

bool fe_rows_follow(const RowsEffect *e, tn_function *f, const RowsCall *c, Val y, tn_site at) {
  if (e->mixed.i) report_effect(f, e, c, at);
  else ir_rows_follow(e, c, y);
  return !e->mixed.i;
}

bool fe_rows_written(tn_tensor t, tn_tensor content, const char *call, tn_site at) {
  tn_function *f = t.fn;
  RowsEffect e;
  if (ir_rows_written(&f->rows, &e, f->ir, fe_val(t), fe_val(content))) return true;
  if (!e.mixed.i) return report_joined(f, &e, call, at);
  report_mixed(content, e.mixed_axis, rt_printf(f->p->mem, "tn_%s", call), way_out(f->p, OP_none, NULL, 0), at);
  return false;
}

// ---- tables of a layout
tn_tensor fe_layout_part(tn_tensor layout, const char *part, tn_site at) {
  Attr attr = ir_a_str(KEY_part, ir_str(layout.fn->p->ir, part));
  return fe_emit(OP_seq_part, &layout, 1, &attr, 1, at);
}

tn_tensor fe_row_steps(tn_tensor x, tn_site at) {
  return fe_layout_part((tn_tensor){x.fn, fe_rows_of(x)}, "steps", at);
}

// ---- pairs of rows and layout
static bool is_pair(tn_packed s, tn_site at) {
  tn_function *f = s.data.fn;
  bool good = fe_ins(s.layout)->dtype == DT_LAYOUT && fe_ins(s.data)->dtype != DT_LAYOUT && fe_rows_of(s.data) &&
              fe_rank(s.data) && fe_axis_dim(s.data, 0).i == fe_axis_dim(s.layout, 2).i;
  if (good) return fe_same_layout((tn_packed){s.data, {f, fe_rows_of(s.data)}}, s, "packed", at);
  fe_error(f->p, E_ARGUMENT, at,
           "a packed sequence is rows and their layout, found two values that no call gave as one");
  fe_note(f->p, fe_ins(s.data)->loc, "the first was made here");
  fe_note(f->p, fe_ins(s.layout)->loc, "the second was made here");
  fe_hint(f->p, "tn_packed_with_data puts other data on a layout");
  return false;
}

bool fe_join_packed(const tn_packed *s, uint32_t n, tn_function **f, tn_site at) {
  tn_tensor t[6];  // of up to three
  for (uint32_t k = 0; k < n; k++) t[2 * k] = s[k].data, t[2 * k + 1] = s[k].layout;
  if (!fe_join(t, 2 * n, f, at)) return false;
  FE_GUARD((*f)->p, false);
  for (uint32_t k = 0; k < n; k++)
    if (!is_pair(s[k], at)) return false;
  return true;
}

// "those of input 'len'"; a sequence of a list has one of them
static const char *origin_text(const Fn *f, Val lengths) {
  const Ins *from = ir_ins(f, lengths);
  int64_t k = from->op == OP_slice ? ir_attr_size(f, lengths, KEY_start, 0) : -1;
  if (k >= 0) return rt_printf(f->prog->mem, "number %lld of %s", (long long)k, origin_text(f, ir_arg(f, lengths, 0)));
  if (from->op != OP_input || !from->name.i) return "those of its run";
  return rt_printf(f->prog->mem, "those of input '%s'", ir_text(f->prog, from->name));
}

static const char *lengths_text(const Fn *f, Val layout) {
  RtText t = {.mem = f->prog->mem};
  const Attr *x = ir_attr(f, layout, KEY_lengths);
  if (!x) return ir_ins(f, layout)->n_args ? origin_text(f, ir_arg(f, layout, 0)) : "those of its run";
  ir_shape_text(f->prog, x->u.list, &t);
  return t.text;
}

static bool report_joined(tn_function *f, const RowsEffect *e, const char *what, tn_site at) {
  tn_program *p = f->p;
  Val a = e->clash[0], b = e->clash[1];
  fe_error(p, E_REGISTERED_SHAPE, at, "packed sequences of different lengths are joined by tn_%s: %s and %s", what,
           lengths_text(f->ir, a), lengths_text(f->ir, b));
  fe_note(p, ir_ins(f->ir, a)->loc, "the first was packed here");
  fe_note(p, ir_ins(f->ir, b)->loc, "the second was packed here");
  fe_hint(p, "tn_pack_like packs one by the layout of the other, and the same lengths give the same layout");
  return false;
}

bool fe_same_layout(tn_packed a, tn_packed b, const char *what, tn_site at) {
  RowsEffect e = {.clash = {fe_val(a.layout), fe_val(b.layout)}};
  return ir_same_layout(a.data.fn->ir, e.clash[0], e.clash[1]) || report_joined(a.data.fn, &e, what, at);
}

bool fe_same_rows(const char *what, tn_tensor a, tn_tensor b, tn_site at) {
  Rows x = fe_rows(a), y = fe_rows(b);
  if (!x.layout || !y.layout || x.made || y.made || x.axis != y.axis || a.fn != b.fn) return true;
  return fe_same_layout(as_packed(a), as_packed(b), what, at);
}

// ---- the way out
// The same storage under another name, which says whose rows it has
tn_tensor fe_say_rows(tn_tensor x, Rows r, tn_site at) {
  const tn_tensor of[] = {x, {x.fn, r.layout}};
  Attr axis = ir_a_int(KEY_axis, r.axis);
  return fe_ok(x) ? fe_emit(OP_rows, of, r.layout ? 2 : 1, &axis, r.layout && r.axis, at) : x;
}

tn_tensor tn_rows(tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_say_rows(s.data, (Rows){0}, at), at);
}
