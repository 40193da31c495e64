// Rows from operands to results: which axis of a result holds the rows of which layout. What meets must be of one layout.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/rows/rows.h"
#include "ir/storage.h"

#include <string.h>

void ir_set_rows(RowsMap *m, Val v, Rows r) {
  if (!r.layout && !r.is_plain && v.i >= m->n) return;
  while (m->n <= v.i) *RT_PUSH(m->mem, m->of, m->n, m->cap) = (Rows){0};
  m->of[v.i] = r;
}

// Sequences that all have the same steps are dense: their rows are in no layout that the user sees.
bool ir_has_typed_rows(const Fn *f, Val v) {
  return ir_ins(f, v)->op == OP_packed_layout && !ir_attr(f, v, KEY_checked);
}

static void set_rows_of(const RowsCall *c, Val v, Val layout, uint32_t axis) {
  if (ir_has_typed_rows(c->f, layout)) ir_set_rows(c->rows, v, (Rows){.layout = layout.i, .axis = (uint8_t)axis});
}

static Val layout_at(const RowsCall *c, Val v) { return (Val){ir_rows_at(c->rows, v).layout}; }
static Dim axis_dim(const Fn *f, Val v, uint32_t axis) { return ir_dim_at(f->prog, ir_ins(f, v)->shape, axis); }
static uint32_t rank_of(const RowsCall *c, Val v) { return ir_rank(c->f->prog, ir_ins(c->f, v)->shape); }

bool ir_same_layout(const Fn *f, Val a, Val b) {
  const Attr *x = ir_attr(f, a, KEY_lengths), *y = ir_attr(f, b, KEY_lengths);
  return a.i == b.i || (x && y && x->u.list.i == y->u.list.i);
}

bool ir_is_one_sequence(const Fn *f, Val layout) {
  Dim batch = axis_dim(f, layout, 0);
  return ir_dim_is_const(f->prog, batch) && ir_dim_bound(f->prog, batch) <= 1;
}

// ---- scans
static ScanRows *scan_of(const RowsMap *m, int64_t number) {
  for (uint32_t k = m->n_scans; k-- > 0;)
    if (m->scans[k].number == number) return &m->scans[k];
  return NULL;
}

static int64_t scan_number(const RowsCall *c) {
  for (uint32_t k = 0; k < c->n_attrs; k++)
    if (c->attrs[k].key == KEY_scan) return c->attrs[k].u.i;
  return -1;
}

// A last value has the rows of what the step leaves, or one of each sequence those of an outer layout.
static void give_last(RowsMap *m, const Fn *f, const ScanRows *s, Val last) {
  int64_t index = ir_attr_int(f, last, KEY_index, -1);
  if (index >= 0 && index < s->n_next && s->next[index].layout) ir_set_rows(m, last, s->next[index]);
}

static void note_next(RowsMap *m, const Fn *f, ScanRows *s, Val v, Rows r) {
  int64_t index = ir_attr_int(f, v, KEY_index, -1);
  if (index < 0 || index > f->n_ins) return;
  while (s->n_next <= index) *RT_PUSH(m->mem, s->next, s->n_next, s->cap_next) = (Rows){0};
  s->next[index] = r;
}

void ir_rows_pass_mark(RowsMap *m, const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  int64_t number = ir_attr_int(f, v, KEY_scan, -1);
  ScanRows *s = scan_of(m, number);
  if (ins->op == OP_scan_begin) {
    uint32_t layout = ins->n_args ? ir_arg(f, v, 0).i : 0;
    *RT_PUSH(m->mem, m->scans, m->n_scans, m->cap_scans) = (ScanRows){.number = number, .begin = v.i, .layout = layout};
  }
  if (ins->op == OP_scan_next && s && !s->layout) note_next(m, f, s, v, ir_rows_at(m, ir_arg(f, v, 0)));
  for (Val last = {s ? s->begin : 0}; ins->op == OP_scan_end && s && last.i < v.i; last.i++)
    if (ir_ins(f, last)->op == OP_scan_final && ir_attr_int(f, last, KEY_scan, -1) == number) give_last(m, f, s, last);
}

uint32_t ir_layout_of_scan(const RowsMap *m, int64_t number) {
  const ScanRows *s = scan_of(m, number);
  return s ? s->layout : 0;
}

// Is the size made of the number of rows? A constant one is, where it is a multiple.
static bool counts_rows(const Fn *f, Dim rows, Dim size) {
  Prog *p = f->prog;
  bool is_const = ir_dim_is_const(p, rows), both = is_const && ir_dim_is_const(p, size);
  if (rows.i == size.i) return true;
  if (is_const) return both && ir_dim_bound(p, rows) > 1 && ir_dim_bound(p, size) % ir_dim_bound(p, rows) == 0;
  return ir_shape_names(p, ir_shape(p, &size, 1), rows);
}

// The layout whose rows the size counts, or of whose steps a scan has so many at hand; before others one that has just as many
static Val layout_with(const Fn *f, const RowsMap *m, Dim size) {
  Val some = {0};
  if (ir_dim_is_const(f->prog, size) && ir_dim_bound(f->prog, size) <= 1) return some;
  for (uint32_t k = m->n_layouts; k-- > 0;) {
    Dim rows = axis_dim(f, m->layouts[k], 2);
    if (rows.i == size.i) return m->layouts[k];
    if (counts_rows(f, rows, size) && !ir_is_one_sequence(f, m->layouts[k])) some = m->layouts[k];
  }
  for (uint32_t k = m->n_scans; k-- > 0 && !some.i;) {
    const Attr *live = m->scans[k].layout ? ir_attr(f, (Val){m->scans[k].begin}, KEY_live) : NULL;
    if (live && counts_rows(f, live->u.dim, size) && ir_has_typed_rows(f, (Val){m->scans[k].layout}))
      some = (Val){m->scans[k].layout};
  }
  return some;
}

// What the steps of a dense scan give one after the other, where there are as many as rows
static void number_steps(const RowsCall *c, Val y) {
  Val layout = layout_with(c->f, c->rows, axis_dim(c->f, y, 0));
  if (layout.i && !layout_at(c, y).i) ir_set_rows(c->rows, y, (Rows){.layout = layout.i, .made = 1, .numbered = 1});
}

static void follow_scan(const RowsCall *c, Val y) {
  ScanRows *s = scan_of(c->rows, scan_number(c));
  if (!s) return;
  if (c->op == OP_scan_input) s->has_slices |= !ir_rows_at(c->rows, c->a[0]).made;
  if (c->op == OP_scan_output && !s->layout && !s->has_slices) number_steps(c, y);
  if (c->op == OP_scan_final) give_last(c->rows, c->f, s, y);
  if (!s->layout || !ir_attr(c->f, y, KEY_live)) return;
  if (c->op == OP_scan_carry) note_next(c->rows, c->f, s, y, ir_rows_at(c->rows, (Val){s->layout}));
  set_rows_of(c, y, (Val){s->layout}, 0);
}

// ---- what an operation does
static bool clash(RowsEffect *e, const RowsCall *c, Val a, Val b) {
  e->clash[0] = a, e->clash[1] = b;
  return !ir_same_layout(c->f, a, b);
}

static void set_mixed(RowsEffect *e, Val v, uint32_t axis) { e->mixed = v, e->mixed_axis = axis; }

// Both have rows, which meet in the result or in a sum.
static bool meet(RowsEffect *e, const RowsCall *c, Val v, RowsWay way) {
  Val *first = way.fate == WAY_KEPT ? &e->kept : &e->summed;
  if (way.fate == WAY_SUMMED) e->n_summed++;
  if (ir_none(*first)) {
    *first = v;
    if (way.fate == WAY_KEPT) e->axis = way.axis;
    return true;
  }
  if (way.fate == WAY_SUMMED || e->axis == way.axis) return !clash(e, c, layout_at(c, *first), layout_at(c, v));
  if (!ir_is_one_sequence(c->f, layout_at(c, v))) set_mixed(e, v, ir_rows_at(c->rows, v).axis);
  return true;
}

static bool has_axis(uint32_t axes, uint32_t axis) { return axes >> axis & 1; }

// The axes from `first` on that a reshape makes of one axis, as [rows * rows] becomes [rows, rows]: those that count rows
static uint32_t split_axes(const RowsCall *c, uint32_t k, uint32_t axis, uint32_t first) {
  const Fn *f = c->f;
  Shape to = c->attrs[0].u.list;
  for (uint32_t j = 0; j < c->n_attrs; j++)
    if (c->attrs[j].key == KEY_shape) to = c->attrs[j].u.list;
  uint32_t end = ir_reshaped_end(f->prog, ir_ins(f, c->a[k])->shape, to, axis), axes = 0;
  for (uint32_t j = first; j < end; j++)
    axes |= (uint32_t)(layout_with(f, c->rows, ir_dim_at(f->prog, to, j)).i != 0) << j;
  return axes;
}

// What was made of the number of rows alone meets rows of a layout, and becomes such, unless it numbers those of all sequences.
static void meet_made(RowsEffect *e, const RowsCall *c, uint32_t k, Rows r, uint32_t axis) {
  RowsWay way = ir_way_of_rows(c, k, axis);
  bool is_numbered = has_axis(r.numbered, axis) && !ir_is_one_sequence(c->f, (Val){r.layout});
  if (way.fate == WAY_MIXED) e->worked = c->a[k], e->worked_axis = axis;
  if (way.fate == WAY_OF_LAYOUT && is_numbered && ir_has_typed_rows(c->f, ir_layout_of(c, k)))
    set_mixed(e, c->a[k], axis);
  if (way.fate != WAY_KEPT || way.axis >= MAX_RANK) return;
  if (e->kept.i && is_numbered && e->axis == way.axis) set_mixed(e, c->a[k], axis);
  e->made.layout = r.layout, e->made_size[way.axis] = axis_dim(c->f, c->a[k], axis);
  uint32_t axes = 1u << way.axis | (c->op == OP_reshape ? split_axes(c, k, axis, way.axis) : 0);
  e->made.made |= axes, e->made.numbered |= is_numbered ? axes : 0;
}

static void meet_all_made(RowsEffect *e, const RowsCall *c) {
  for (uint32_t k = 0; k < c->n; k++) {
    Rows r = ir_rows_at(c->rows, c->a[k]);
    for (uint32_t axis = 0; r.made >> axis; axis++)
      if (has_axis(r.made, axis)) meet_made(e, c, k, r, axis);
  }
}

bool ir_rows_meet(RowsEffect *e, const RowsCall *c) {
  *e = (RowsEffect){0};
  for (uint32_t k = 0; k < c->n; k++) {
    Val v = c->a[k], of = layout_at(c, v);
    if (ir_none(v) || ir_none(of) || ir_ins(c->f, v)->dtype == DT_LAYOUT || ir_rows_at(c->rows, v).made) continue;
    uint32_t axis = ir_rows_at(c->rows, v).axis;
    RowsWay way = ir_way_of_rows(c, k, axis);
    if (way.fate == WAY_MIXED && !ir_is_one_sequence(c->f, of)) set_mixed(e, v, axis);
    if (way.fate == WAY_OF_LAYOUT) {
      Val layout = ir_layout_of(c, k);
      bool is_typed = ir_has_typed_rows(c->f, layout);
      if (!is_typed && !ir_is_one_sequence(c->f, of)) set_mixed(e, v, axis);
      if (is_typed && clash(e, c, of, layout)) return false;
    }
    if ((way.fate == WAY_KEPT || way.fate == WAY_SUMMED) && !meet(e, c, v, way)) return false;
  }
  e->clash[0] = e->clash[1] = (Val){0};
  meet_all_made(e, c);
  if (e->mixed.i && ir_ops[c->op].rows == ROWS_BY_AXIS) return true;
  if (e->n_summed == 1 && !ir_is_one_sequence(c->f, layout_at(c, e->summed)))
    set_mixed(e, e->summed, ir_rows_at(c->rows, e->summed).axis);
  return true;
}

// ---- results of what takes a layout
static bool is_part(const RowsCall *c, Val y, const char *name) {
  const Attr *part = c->op == OP_seq_part ? ir_attr(c->f, y, KEY_part) : NULL;
  return part && !strcmp(ir_text(c->f->prog, part->u.s), name);
}
static bool is_part_of_rows(const RowsCall *c, Val y) { return is_part(c, y, "steps") || is_part(c, y, "sequences"); }

// Is result k a value for each sequence, [B, ..]?
static bool is_by_sequence(const RowsCall *c, Val y, uint32_t k) {
  switch (c->op) {
  case OP_seq_sum:
  case OP_seq_max:
  case OP_seq_min:
  case OP_seq_select:
  case OP_unpack_padded:
  case OP_seq_window_lengths: return true;
  case OP_linear_scan: return k == 1;
  case OP_linear_scan_grad: return k == 2;
  case OP_rnn_seq: return k == 1 || k == 2;
  case OP_rnn_seq_grad: return k > 1;
  default: return is_part(c, y, "lengths");
  }
}

// Does result k, which is not by sequence, have the rows of the layout along *axis?
static bool has_rows(const RowsCall *c, Val y, uint32_t k, Val layout, uint32_t *axis) {
  bool is_other =
      (c->op == OP_seq_part && !is_part_of_rows(c, y)) || c->op == OP_seq_to_list || c->op == OP_sdpa_bias_grad;
  Val v = ir_result(y, k);
  *axis = c->op == OP_sdpa && k == 1;  // the second is [heads, rows]
  return !is_other && *axis < rank_of(c, v) && axis_dim(c->f, v, *axis).i == axis_dim(c->f, layout, 2).i;
}

// Rows of the layout, or values of whole sequences, which are rows where an outer layout's are packed
static void follow_layout(const RowsCall *c, Val y) {
  Op op = c->op;
  Val layout = c->a[op == OP_seq_windows ? ir_op_operand(op, ARG_windows) : ir_layout_operand(c)];
  if (op == OP_pack_padded && !layout_at(c, layout).i && layout_at(c, c->a[0]).i)
    ir_set_rows(c->rows, layout, (Rows){.layout = layout_at(c, c->a[0]).i});
  Rows of_batch = ir_rows_at(c->rows, layout);
  for (uint32_t k = 0, axis; k < ir_ins(c->f, y)->n_res; k++) {
    Val of = ir_ops[op].cls == CLASS_ATTENTION && k ? ir_layout_of(c, op == OP_sdpa ? 0 : k) : layout;
    Val v = ir_result(y, k);
    of_batch.axis = op == OP_unpack_padded && ir_attr(c->f, y, KEY_time_major);
    if (is_by_sequence(c, y, k)) ir_set_rows(c->rows, v, of_batch);
    else if (has_rows(c, y, k, of, &axis)) set_rows_of(c, v, of, axis);
  }
}

// An op that says whose rows they are
static void follow_said(const RowsCall *c, Val y) {
  uint32_t layout = ir_layout_operand(c);
  if (layout < c->n) set_rows_of(c, y, c->a[layout], (uint32_t)ir_attr_int(c->f, y, KEY_axis, 0));
  else ir_set_rows(c->rows, y, (Rows){.is_plain = true});
}

static bool keeps_sizes(const RowsCall *c) {
  return c->op != OP_reshape && c->op != OP_packed_layout && ir_ops[c->op].cls != CLASS_SCAN;
}

// The same axis of the results, where it is there with its size; one row alone may be broadcast
static void follow_kept(const RowsEffect *e, const RowsCall *c, Val y) {
  Rows from = ir_rows_at(c->rows, e->kept), to = from;
  Dim size = axis_dim(c->f, e->kept, from.axis);
  to.axis = (uint8_t)e->axis;
  for (uint32_t k = 0; k < ir_ins(c->f, y)->n_res; k++) {
    Val v = ir_result(y, k);
    if (c->op == OP_linear_scan && k) to.axis -= to.axis > ir_attr_int(c->f, y, KEY_axis, 0);  // the last state
    if (to.axis < rank_of(c, v) && (!keeps_sizes(c) || axis_dim(c->f, v, to.axis).i == size.i))
      ir_set_rows(c->rows, v, to);
  }
}

// Does the result have an axis that none of the operands has? axis of expand: counted from the last
static bool makes_axis(const RowsCall *c, Val y, uint32_t axis) {
  if (c->op != OP_expand) return ir_ops[c->op].n_operands == 0;
  uint32_t own = rank_of(c, c->a[0]), new = rank_of(c, y) - own;
  return axis < new || axis_dim(c->f, c->a[0], axis - new).i != axis_dim(c->f, y, axis).i;
}

// Value v is made of the number of rows along one more axis.
static void add_made(const RowsCall *c, Val v, uint32_t layout, uint32_t axis, bool is_numbered) {
  Rows r = ir_rows_at(c->rows, v);
  if (r.made && r.layout != layout) r.made = r.numbered = 0;
  r.axis = r.made && r.axis < axis ? r.axis : (uint8_t)axis;
  r.layout = layout, r.made |= 1u << axis, r.numbered |= (uint32_t)is_numbered << axis;
  ir_set_rows(c->rows, v, r);
}

// A constant size is a number of rows where a layout of constant lengths has as many, or a part of as many; numbers that are
// given for it, as those of an input or a table, are the caller's own.
static void follow_made(const RowsCall *c, Val y) {
  bool is_given = c->op != OP_full && c->op != OP_uniform && c->op != OP_expand;
  uint32_t rank = ir_ins(c->f, y)->dtype == DT_LAYOUT ? 0 : rank_of(c, y);
  for (uint32_t axis = 0; axis < rank; axis++) {
    Dim size = axis_dim(c->f, y, axis);
    if ((is_given && ir_dim_is_const(c->f->prog, size)) || !makes_axis(c, y, axis)) continue;
    Val layout = layout_with(c->f, c->rows, size);
    if (layout.i) add_made(c, y, layout.i, axis, false);
  }
}

// Later steps have what is left there; a constant size may be another than that of the rows, and so is a sum with it.
static void carry_made(const RowsEffect *e, const RowsCall *c, Val y) {
  uint32_t axis = 0;
  while (!has_axis(e->made.made, axis)) axis++;
  DimKind kind = (DimKind)ir_dim_info(c->f->prog, axis_dim(c->f, y, axis))->kind;
  if (kind == DIM_SYM || kind == DIM_MUL)
    ir_set_rows(c->rows, y, (Rows){.layout = e->made.layout, .axis = (uint8_t)axis});
}

// Was axis `axis` of result v made by what worked on w along its axis `along`? That axis, and others that w has not like this.
static bool is_worked(const RowsCall *c, Val v, uint32_t axis, Val w, uint32_t along) {
  Dim size = axis_dim(c->f, v, axis);
  bool is_other = axis != along && rank_of(c, v) == rank_of(c, w) && axis_dim(c->f, w, axis).i == size.i;
  return !is_other && layout_with(c->f, c->rows, size).i;
}

// Of what was made of the number of rows: the axes that are kept. Of what was worked on along them: those that count rows.
static void follow_worked(const RowsEffect *e, const RowsCall *c, Val y) {
  Val w = e->worked;
  for (uint32_t k = 0; k < ir_ins(c->f, y)->n_res; k++) {
    Val v = ir_result(y, k);
    for (uint32_t axis = 0; axis < rank_of(c, v); axis++) {
      if (!ir_none(w) && is_worked(c, v, axis, w, e->worked_axis)) add_made(c, v, layout_at(c, w).i, axis, true);
      else if (has_axis(e->made.made, axis) && (!keeps_sizes(c) || axis_dim(c->f, v, axis).i == e->made_size[axis].i))
        add_made(c, v, e->made.layout, axis, has_axis(e->made.numbered, axis));
    }
  }
}

void ir_rows_follow(const RowsEffect *e, const RowsCall *c, Val y) {
  bool is_along = ir_ops[c->op].rows == ROWS_ALONG || ir_ops[c->op].rows == ROWS_BY_AXIS;
  bool is_scan = ir_ops[c->op].cls == CLASS_SCAN && c->op != OP_scan;
  RowsMap *m = c->rows;
  if (ir_has_typed_rows(c->f, y)) *RT_PUSH(m->mem, m->layouts, m->n_layouts, m->cap_layouts) = y;
  if (ir_ops[c->op].rows == ROWS_SAID) follow_said(c, y);
  else if (is_along && !is_scan && ir_layout_operand(c) < c->n) follow_layout(c, y);
  else if (!ir_none(e->kept)) follow_kept(e, c, y);
  else if (c->op == OP_scan_carry && e->made.made) carry_made(e, c, y);
  else follow_worked(e, c, y), follow_made(c, y);
  if (is_scan) follow_scan(c, y);
}

// ---- writes in place: what holds rows from then on
// The same axis of what v is a view of
static RowsWay viewed(const Fn *f, Val v, uint32_t axis, Dim rows) {
  Val x = ir_arg(f, v, 0);
  switch ((Op)ir_ins(f, v)->op) {
  case OP_reshape: return ir_reshaped_rows(f->prog, ir_ins(f, v)->shape, ir_ins(f, x)->shape, axis, rows);
  case OP_permute: return (RowsWay){WAY_KEPT, (uint32_t)ir_list_at(f->prog, ir_attr(f, v, KEY_perm)->u.list, axis)};
  case OP_slice: return (RowsWay){ir_attr_int(f, v, KEY_axis, 0) == axis ? WAY_MIXED : WAY_KEPT, axis};
  default: return (RowsWay){WAY_KEPT, axis};
  }
}

// Along one axis of the content
static bool written_along(RowsMap *m, RowsEffect *e, const Fn *f, Val v, Val content, uint32_t axis) {
  Rows r = ir_rows_at(m, content);
  Dim rows = axis_dim(f, (Val){r.layout}, 2);
  uint32_t from = axis;
  for (;; v = ir_arg(f, v, 0)) {
    Rows had = ir_rows_at(m, v), has = r;
    if (had.is_plain) return true;
    if (had.made && !r.made) had = (Rows){0};
    if (had.layout && had.axis == axis && !r.made) {
      if (ir_same_layout(f, (Val){had.layout}, (Val){r.layout})) return true;
      e->clash[0] = (Val){had.layout}, e->clash[1] = (Val){r.layout};
      return false;
    }
    bool is_view = ir_is_alias((Op)ir_ins(f, v)->op);
    RowsWay way = is_view ? viewed(f, v, axis, rows) : (RowsWay){WAY_KEPT, axis};
    if ((had.layout && !had.made) || way.fate == WAY_MIXED) {
      set_mixed(e, content, from);
      return false;
    }
    has.axis = (uint8_t)axis;
    if (r.made) has.made = had.made | 1u << axis, has.numbered = had.numbered | 1u << axis;
    ir_set_rows(m, v, has);
    if (!is_view) return true;
    axis = way.axis;
  }
}

bool ir_rows_written(RowsMap *m, RowsEffect *e, const Fn *f, Val v, Val content) {
  Rows r = ir_rows_at(m, content);
  *e = (RowsEffect){0};
  if (!r.layout || (r.made && !r.numbered) || ir_is_one_sequence(f, (Val){r.layout})) return true;
  if (!r.made) return written_along(m, e, f, v, content, r.axis);
  for (uint32_t axis = 0; r.numbered >> axis; axis++)
    if (has_axis(r.numbered, axis) && !written_along(m, e, f, v, content, axis)) return false;
  return true;
}
