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
#include "frontend/graph/rows.h"
#include "ir/fn.h"
#include "ir/storage.h"

#include <string.h>

uint32_t fe_rows_of(tn_tensor t) {
  FeRows r = fe_rows(t);
  bool is_first = r.layout && r.axis == 0 && fe_axis_dim(t, 0).i == fe_axis_dim((tn_tensor){t.fn, r.layout}, 2).i;
  return is_first ? r.layout : 0;
}

void fe_tag_rows(tn_tensor t, FeRows r) {
  tn_function *f = t.fn;
  if (!fe_ok(t) || (!r.layout && !r.is_plain && t.v >= f->n_rows_of)) return;
  while (f->n_rows_of <= t.v) *RT_PUSH(f->p->mem, f->rows_of, f->n_rows_of, f->cap_rows_of) = (FeRows){0};
  f->rows_of[t.v] = r;
}

// Sequences that all have the same steps are dense: their rows are in no layout that the user sees.
void fe_set_rows(tn_tensor t, uint32_t layout) {
  if (fe_ok(t) && t.fn->ir->ins[layout].op != OP_dense_layout) fe_tag_rows(t, (FeRows){.layout = layout});
}

// Of one sequence there is nothing to mix.
static bool is_one_sequence(const tn_function *f, uint32_t layout) {
  Dim batch = ir_dim_at(f->p->ir, f->ir->ins[layout].shape, 0);
  return ir_dim_is_const(f->p->ir, batch) && ir_dim_bound(f->p->ir, batch) <= 1;
}

static tn_packed as_packed(tn_tensor t) { return (tn_packed){t, {t.fn, fe_rows(t).layout}}; }

// ---- E130
// The call that works within each sequence; NULL: there is none
static const char *own_call(Op op, const Attr *attrs, uint32_t n_attrs) {
  switch (op) {
  case OP_softmax: return "tn_packed_softmax";
  case OP_log_softmax: return "tn_packed_log_softmax";
  case OP_argmax: return "tn_packed_argmax";
  case OP_conv:
  case OP_conv_transpose: return "tn_packed_conv1d";
  case OP_sdpa: return "tn_packed_attention";
  case OP_max_pool: return "tn_packed_max_pool1d";
  case OP_sum_pool: return "tn_packed_avg_pool1d";
  case OP_cumsum: return "tn_packed_cumsum";
  case OP_cumprod: return "tn_packed_cumprod";
  case OP_logcumsumexp: return "tn_packed_logcumsumexp";
  case OP_cummax: return "tn_packed_cummax";
  case OP_cummin: return "tn_packed_cummin";
  case OP_linear_scan: return "tn_packed_linear_scan";
  case OP_sort:
  case OP_topk:
  case OP_kth_value:
  case OP_median: return "tn_packed_sort";
  case OP_concat: return "tn_packed_concat_time";
  case OP_gather:
  case OP_scatter: return "tn_packed_step_at";
  case OP_slice:
    for (uint32_t k = 0; k < n_attrs; k++)
      if (attrs[k].key == KEY_reverse) return "tn_packed_reverse";
    return "tn_packed_slice";
  default: return NULL;
  }
}

static const char *way_out(tn_program *p, Op op, const Attr *attrs, uint32_t n_attrs) {
  const char *call = own_call(op, attrs, n_attrs);
  return call ? rt_printf(p->mem, "%s works within each sequence", call)
              : "tn_pad_packed gives each sequence a row of its own";
}

static void report_mixed(tn_tensor t, const char *call, const char *hint, tn_site at) {
  tn_program *p = t.fn->p;
  FeRows r = fe_rows(t);
  fe_error(p, E_ROWS_MIXED, at,
           "%s would mix the sequences of a packed batch: axis %u of %s has the rows of all of them", call, r.axis,
           fe_type_text(t));
  if (fe_ins(t)->loc.i != t.fn->ir->ins[r.layout].loc.i) fe_note(p, fe_ins(t)->loc, "the value was made here");
  fe_note(p, t.fn->ir->ins[r.layout].loc, "the sequences were packed here");
  fe_hint(p, "%s; tn_rows says that these are just rows", hint);
}

bool fe_steps_apart(tn_tensor t, uint32_t axis, const char *call, tn_site at) {
  FeRows r = fe_rows(t);
  if (!r.layout || r.axis != axis || is_one_sequence(t.fn, r.layout)) return true;
  tn_program *p = t.fn->p;
  const char *name = fe_public_call(p, call);
  if (p->inside) name = rt_printf(p->mem, "%s of module '%s'", name, p->inside->path);
  report_mixed(t, name, way_out(p, OP_none, NULL, 0), at);
  return false;
}

// ---- what an operation does
static bool same_rows(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_same_layout(as_packed(a), as_packed(b), ir_ops[op].name, at);
}

// Both have rows, which meet in the result or in a sum.
static bool meet(FeRowsEffect *e, Op op, tn_tensor t, FeWay way, tn_site at) {
  tn_tensor *first = way.fate == FE_ROWS_KEPT ? &e->kept : &e->summed;
  if (way.fate == FE_ROWS_SUMMED) e->n_summed++;
  if (!first->fn) {
    *first = t;
    if (way.fate == FE_ROWS_KEPT) e->axis = way.axis;
    return true;
  }
  if (way.fate == FE_ROWS_SUMMED || e->axis == way.axis) return same_rows(op, *first, t, at);
  if (!is_one_sequence(t.fn, fe_rows(t).layout)) e->mixed = t;
  return true;
}

bool fe_rows_meet(FeRowsEffect *e, Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs,
                  tn_site at) {
  *e = (FeRowsEffect){0};
  for (uint32_t k = 0; k < n; k++) {
    if (!a[k].fn || !fe_rows(a[k]).layout || fe_ins(a[k])->dtype == DT_LAYOUT) continue;
    FeWay way = fe_way_of_rows(op, a, n, attrs, n_attrs, k);
    if (way.fate == FE_ROWS_MIXED && !is_one_sequence(a[k].fn, fe_rows(a[k]).layout)) e->mixed = a[k];
    if (way.fate == FE_ROWS_OF_LAYOUT) {
      tn_tensor layout = a[fe_layout_of_operand(op, a, n, k)];
      bool is_dense = fe_ins(layout)->op == OP_dense_layout;
      if (is_dense && !is_one_sequence(a[k].fn, fe_rows(a[k]).layout)) e->mixed = a[k];
      if (!is_dense && !fe_same_layout(as_packed(a[k]), (tn_packed){a[k], layout}, ir_ops[op].name, at)) return false;
    }
    if ((way.fate == FE_ROWS_KEPT || way.fate == FE_ROWS_SUMMED) && !meet(e, op, a[k], way, at)) return false;
  }
  if (e->mixed.fn && ir_ops[op].rows == ROWS_BY_AXIS) return fe_rows_follow(e, op, a, n, attrs, n_attrs, e->mixed, at);
  if (e->n_summed == 1 && !is_one_sequence(e->summed.fn, fe_rows(e->summed).layout)) e->mixed = e->summed;
  return true;
}

static bool is_part(tn_tensor y, const char *name) {
  const Attr *part = fe_ins(y)->op == OP_seq_part ? ir_attr(y.fn->ir, fe_val(y), KEY_part) : NULL;
  return part && !strcmp(ir_text(y.fn->p->ir, part->u.s), name);
}
static bool is_part_of_rows(tn_tensor y) { return is_part(y, "steps") || is_part(y, "sequences"); }

// Of an op that takes a layout: rows of it, or values of whole sequences, which are rows where an outer layout's are packed
static void follow_layout(Op op, const tn_tensor *a, uint32_t n, tn_tensor y) {
  tn_tensor layout = a[op == OP_seq_windows ? 2 : fe_layout_operand(op, a, n)];
  FeRows of_batch = fe_rows(layout);
  if (op == OP_pack_padded && !of_batch.layout && fe_rows(a[0]).layout)
    fe_tag_rows(layout, (FeRows){.layout = fe_rows(a[0]).layout});
  if (op == OP_seq_to_list) return;
  bool is_total = op == OP_seq_sum || op == OP_seq_max || op == OP_seq_min || op == OP_seq_select;
  bool is_table = op == OP_seq_part && !is_part_of_rows(y);
  bool has_states = op == OP_rnn_seq || op == OP_linear_scan;  // results behind the first are of whole sequences
  if (has_states || !(is_total || is_table || op == OP_unpack_padded || op == OP_seq_window_lengths))
    fe_set_rows(y, layout.v);
  for (uint32_t k = 1; ir_ops[op].cls == CLASS_CUMULATIVE && k < fe_ins(y)->n_res; k++)
    fe_set_rows((tn_tensor){y.fn, y.v + k}, layout.v);
  if (!of_batch.layout) return;
  bool by_sequence = is_total || op == OP_unpack_padded || op == OP_linear_scan || op == OP_seq_window_lengths ||
                     is_part(y, "lengths");
  uint32_t end = op == OP_rnn_seq ? 3 : by_sequence ? fe_ins(y)->n_res : 0;
  for (uint32_t k = has_states; k < end; k++) fe_tag_rows((tn_tensor){y.fn, y.v + k}, of_batch);
}

bool fe_rows_follow(const FeRowsEffect *e, Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs,
                    tn_tensor y, tn_site at) {
  if (e->mixed.fn) {
    report_mixed(e->mixed, fe_call_text(y.fn->p, op), way_out(y.fn->p, op, attrs, n_attrs), at);
    return false;
  }
  bool is_along = ir_ops[op].rows == ROWS_ALONG || ir_ops[op].rows == ROWS_BY_AXIS;
  if (is_along && fe_layout_operand(op, a, n) < n && ir_ops[op].cls != CLASS_SCAN) {
    follow_layout(op, a, n, y);
    return true;
  }
  if (!e->kept.fn) return true;
  FeRows from = fe_rows(e->kept), to = {.layout = from.layout, .axis = (uint8_t)e->axis};
  Dim size = fe_axis_dim(e->kept, from.axis);
  // One row alone may be broadcast.
  bool keeps_size = op != OP_reshape && op != OP_packed_layout && ir_ops[op].cls != CLASS_SCAN;
  for (uint32_t k = 0; k < fe_ins(y)->n_res; k++) {
    tn_tensor t = {y.fn, y.v + k};
    if (op == OP_linear_scan && k)
      to.axis -= to.axis > ir_attr_int(y.fn->ir, fe_val(y), KEY_axis, 0);  // the last state
    if (to.axis < fe_rank(t) && (!keeps_size || fe_axis_dim(t, to.axis).i == size.i)) fe_tag_rows(t, to);
  }
  return true;
}

// ---- writes in place: what holds rows from then on
// The same axis of what t is a view of
static FeWay viewed(tn_tensor t, uint32_t axis, Dim rows) {
  const Fn *ir = t.fn->ir;
  Prog *p = t.fn->p->ir;
  Val v = fe_val(t), x = ir_arg(ir, v, 0);
  switch ((Op)ir->ins[v.i].op) {
  case OP_reshape: return fe_reshaped_rows(p, ir->ins[v.i].shape, ir->ins[x.i].shape, axis, rows);
  case OP_permute: return (FeWay){FE_ROWS_KEPT, (uint32_t)ir_list_at(p, ir_attr(ir, v, KEY_perm)->u.list, axis)};
  case OP_slice: return (FeWay){ir_attr_int(ir, v, KEY_axis, 0) == axis ? FE_ROWS_MIXED : FE_ROWS_KEPT, axis};
  default: return (FeWay){FE_ROWS_KEPT, axis};
  }
}

bool fe_rows_written(tn_tensor t, tn_tensor content, const char *call, tn_site at) {
  FeRows r = fe_rows(content);
  tn_function *f = t.fn;
  if (!r.layout || is_one_sequence(f, r.layout)) return true;
  Dim rows = fe_axis_dim((tn_tensor){f, r.layout}, 2);
  uint32_t axis = r.axis;
  for (tn_tensor at_view = t;; at_view.v = ir_arg(f->ir, fe_val(at_view), 0).i) {
    FeRows had = fe_rows(at_view);
    if (had.is_plain) return true;
    if (had.layout && had.axis == axis) return fe_same_layout(as_packed(at_view), as_packed(content), call, at);
    bool is_view = ir_is_alias(fe_ins(at_view)->op);
    FeWay way = is_view ? viewed(at_view, axis, rows) : (FeWay){FE_ROWS_KEPT, axis};
    if (had.layout || way.fate == FE_ROWS_MIXED) {
      report_mixed(content, rt_printf(f->p->mem, "tn_%s", call), way_out(f->p, OP_none, NULL, 0), at);
      return false;
    }
    fe_tag_rows(at_view, (FeRows){.layout = r.layout, .axis = (uint8_t)axis});
    if (!is_view) return true;
    axis = way.axis;
  }
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

// One layout, or two of the same constant lengths.
static bool same_layout(tn_packed a, tn_packed b) {
  const Fn *ir = a.data.fn->ir;
  const Attr *x = ir_attr(ir, fe_val(a.layout), KEY_lengths), *y = ir_attr(ir, fe_val(b.layout), KEY_lengths);
  return a.layout.v == b.layout.v || (x && y && x->u.list.i == y->u.list.i);
}

// "those of input 'len'"; a sequence of a list has one of them
static const char *origin_text(const Fn *f, Val lengths) {
  const Ins *from = ir_ins(f, lengths);
  int64_t k = from->op == OP_slice ? ir_attr_size(f, lengths, KEY_start, 0) : -1;
  if (k >= 0) return rt_printf(f->prog->mem, "number %lld of %s", (long long)k, origin_text(f, ir_arg(f, lengths, 0)));
  if (from->op != OP_input || !from->name.i) return "those of its run";
  return rt_printf(f->prog->mem, "those of input '%s'", ir_text(f->prog, from->name));
}

static const char *lengths_text(tn_packed s) {
  const Fn *f = s.data.fn->ir;
  RtText t = {.mem = f->prog->mem};
  const Attr *x = ir_attr(f, fe_val(s.layout), KEY_lengths);
  if (!x) return f->ins[s.layout.v].n_args ? origin_text(f, ir_arg(f, fe_val(s.layout), 0)) : "those of its run";
  ir_shape_text(s.data.fn->p->ir, x->u.list, &t);
  return t.text;
}

bool fe_same_layout(tn_packed a, tn_packed b, const char *what, tn_site at) {
  tn_program *p = a.data.fn->p;
  if (same_layout(a, b)) return true;
  fe_error(p, E_REGISTERED_SHAPE, at, "packed sequences of different lengths are joined by tn_%s: %s and %s", what,
           lengths_text(a), lengths_text(b));
  fe_note(p, fe_ins(a.layout)->loc, "the first was packed here");
  fe_note(p, fe_ins(b.layout)->loc, "the second was packed here");
  fe_hint(p, "tn_pack_like packs one by the layout of the other, and the same lengths give the same layout");
  return false;
}

bool fe_same_rows(const char *what, tn_tensor a, tn_tensor b, tn_site at) {
  FeRows x = fe_rows(a), y = fe_rows(b);
  if (!x.layout || !y.layout || x.axis != y.axis || a.fn != b.fn) return true;
  return fe_same_layout(as_packed(a), as_packed(b), what, at);
}

// ---- the way out
// The same storage under another name, which no layout follows
tn_tensor tn_rows(tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor y = fe_view(s.data, at);
  fe_tag_rows(y, (FeRows){.is_plain = true});
  return fe_made(y, at);
}
