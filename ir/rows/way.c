// What becomes of the axis of packed rows in an operation: column `rows` of ir/ops.def, with the attributes of the call.
// Neighbours along that axis may belong to different sequences, so that nothing may be computed along it but totals over all
// rows. The axis may be any: a transposed value has its rows along the last one. An axis that a reshape makes of rows and the
// axes after them counts as one of rows, too: each row has a stretch of it.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/rows/rows.h"

static RowsWay kept(uint32_t axis) { return (RowsWay){WAY_KEPT, axis}; }
static RowsWay gone(void) { return (RowsWay){WAY_GONE, 0}; }
static RowsWay mixed(void) { return (RowsWay){WAY_MIXED, 0}; }

static const Attr *attr_of(const RowsCall *c, Key key) {
  for (uint32_t k = 0; k < c->n_attrs; k++)
    if (c->attrs[k].key == key) return &c->attrs[k];
  return NULL;
}

static Shape shape_of(const RowsCall *c, uint32_t k) { return ir_ins(c->f, c->a[k])->shape; }

static uint32_t rank_of(const RowsCall *c, uint32_t k) { return ir_rank(c->f->prog, shape_of(c, k)); }

static bool has(const RowsCall *c, uint32_t k) { return k < c->n && !ir_none(c->a[k]); }

static uint32_t most_axes(const RowsCall *c) {
  uint32_t most = 0;
  for (uint32_t k = 0; k < c->n; k++)
    if (has(c, k) && rank_of(c, k) > most) most = rank_of(c, k);
  return most;
}

// Axes are counted from the last where operands broadcast.
static RowsWay from_last(const RowsCall *c, uint32_t k, uint32_t axis) {
  return kept(axis + most_axes(c) - rank_of(c, k));
}

// ---- EACH
static RowsWay product(const RowsCall *c, uint32_t k, uint32_t axis) {
  bool transposed = attr_of(c, k ? KEY_tb : KEY_ta) || (k && c->op == OP_square_distances);
  uint32_t rank = rank_of(c, k), most = most_axes(c), own = k == 0 ? rank - 2 : rank - 1;
  if (attr_of(c, KEY_a_perm) || attr_of(c, KEY_b_perm) || attr_of(c, KEY_perm)) return mixed();
  if (rank < 2 || axis + 2 < rank) return from_last(c, k, axis);
  if (transposed) own = 2 * rank - 3 - own;
  return axis == own ? kept(k == 0 ? most - 2 : most - 1) : (RowsWay){WAY_SUMMED, 0};
}

static RowsWay linear(const RowsCall *c, uint32_t k, uint32_t axis) {
  uint32_t last = rank_of(c, 0) - 1;
  if (k == 0 ? axis == last : k == 1 && axis == 1) return (RowsWay){WAY_SUMMED, 0};
  return kept(k == 0 ? axis : last);
}

// A table whose rows are the packed ones is read by whole rows.
static RowsWay table(const RowsCall *c, uint32_t k, uint32_t axis) {
  if (k == 1) return kept(axis);
  return axis == 0 ? gone() : kept(rank_of(c, 1));
}

// Matrices are worked on one by one. perm of lu_solve has one axis for each matrix, all others two.
static RowsWay matrices(const RowsCall *c, uint32_t k, uint32_t axis) {
  uint32_t rank = rank_of(c, k) + (c->op == OP_lu_solve && k == 2);
  return axis + 2 < rank ? kept(axis + most_axes(c) - rank) : mixed();
}

static bool is_last(const RowsCall *c, uint32_t k, uint32_t axis) { return axis + 1 == rank_of(c, k); }

// Of transforms whose bins come before rows, the axes that change places
static bool moves_to_bins(const RowsCall *c, uint32_t k, uint32_t axis) {
  return attr_of(c, KEY_bins_first) && axis + (c->op == OP_rfft ? 2 : 3) >= rank_of(c, k);
}

static RowsWay each(const RowsCall *c, uint32_t k, uint32_t axis) {
  OpClass cls = (OpClass)ir_ops[c->op].cls;
  bool is_known = cls == CLASS_POINTWISE || cls == CLASS_VIEW || cls == CLASS_MARK;
  return is_known ? from_last(c, k, axis) : mixed();
}

// ---- with a layout
static uint32_t layout_named(const RowsCall *c, ArgName name) {
  uint32_t k = ir_op_operand(c->op, name);
  return has(c, k) && ir_ins(c->f, c->a[k])->dtype == DT_LAYOUT ? k : UINT32_MAX;
}

uint32_t ir_layout_operand(const RowsCall *c) {
  bool is_outlined = c->op == OP_scan && has(c, 0) && ir_ins(c->f, c->a[0])->dtype == DT_LAYOUT;
  return is_outlined ? 0 : layout_named(c, ARG_layout);
}

Val ir_layout_of(const RowsCall *c, uint32_t k) {
  if (c->op == OP_scan_input) return (Val){ir_layout_of_scan(c->rows, attr_of(c, KEY_scan)->u.i)};
  bool is_key = ir_ops[c->op].cls == CLASS_ATTENTION && (k == 1 || k == 2);
  uint32_t of_keys = is_key ? layout_named(c, ARG_kv_layout) : UINT32_MAX;
  if (c->op == OP_seq_windows_grad && k == 0) return c->a[ir_op_operand(c->op, ARG_windows)];
  return c->a[of_keys < c->n ? of_keys : ir_layout_operand(c)];
}

// Values of whole sequences, [B, ..], may be rows of an outer layout, as the characters of packed words have it.
static bool is_by_sequence(Op op, uint32_t k) {
  static const ArgName states[] = {ARG_h0, ARG_c0, ARG_g_hn, ARG_g_cn};
  bool is_state = false;
  for (uint32_t j = 0; j < sizeof states / sizeof *states; j++) is_state |= ir_op_operand(op, states[j]) == k;
  return op == OP_pack_padded || op == OP_seq_broadcast || op == OP_seq_scatter || is_state;
}

static RowsWay with_layout(const RowsCall *c, uint32_t k, uint32_t axis) {
  bool time_major = c->op == OP_pack_padded && attr_of(c, KEY_time_major);
  bool is_lse = ir_ops[c->op].cls == CLASS_ATTENTION && ir_op_operand(c->op, ARG_lse) == k;  // [heads, rows]
  if (is_by_sequence(c->op, k)) return axis == (uint32_t)time_major ? gone() : mixed();
  return axis == is_lse ? (RowsWay){WAY_OF_LAYOUT, 0} : mixed();
}

// ---- BY_AXIS
// The product of sizes [from, to)
static Dim product_of(Prog *p, Shape s, uint32_t from, uint32_t to) {
  Dim d = ir_dim(p, 1);
  for (uint32_t k = from; k < to; k++) d = ir_dim_mul(p, d, ir_dim_at(p, s, k));
  return d;
}

// Is the size a constant number of elements for each row?
static bool divides(Prog *p, Dim rows, Dim size) {
  Dim each = ir_dim_exact_div(p, size, rows);
  return each.i && ir_dim_is_const(p, each) && ir_dim_bound(p, each) > 0;
}

// The axis of `to` that begins with the same elements and holds whole rows
RowsWay ir_reshaped_rows(Prog *p, Shape from, Shape to, uint32_t axis, Dim rows) {
  Dim before = product_of(p, from, 0, axis);
  for (uint32_t j = 0; j < ir_rank(p, to); j++) {
    if (product_of(p, to, 0, j).i != before.i) continue;
    if (divides(p, rows, ir_dim_at(p, to, j))) return kept(j);
    for (uint32_t end = axis + 1; end <= ir_rank(p, from); end++)
      if (product_of(p, from, axis, end).i == ir_dim_at(p, to, j).i) return kept(j);
  }
  return mixed();
}

uint32_t ir_reshaped_end(Prog *p, Shape from, Shape to, uint32_t axis) {
  Dim behind = product_of(p, from, 0, axis + 1);
  for (uint32_t j = 1; j <= ir_rank(p, to); j++)
    if (product_of(p, to, 0, j).i == behind.i) return j;
  return 0;
}

static RowsWay permuted(const RowsCall *c, uint32_t axis) {
  Shape perm = attr_of(c, KEY_perm)->u.list;
  for (uint32_t k = 0; k < ir_rank(c->f->prog, perm); k++)
    if (ir_list_at(c->f->prog, perm, k) == axis) return kept(k);
  return mixed();
}

static uint32_t worked_axis(const RowsCall *c) {
  const Attr *a = attr_of(c, KEY_axis);
  return a ? (uint32_t)a->u.i : rank_of(c, 0) - 1;
}

// Rows that are added by index to a value which is not of rows are a total by index. An index of one axis is a list of places
// along the axis, whatever the rank of the others.
static RowsWay scattered(const RowsCall *c, uint32_t k, uint32_t axis) {
  bool is_list = k == 1 && rank_of(c, k) == 1;
  if (!is_list && axis != worked_axis(c)) return kept(axis);
  return k && (ir_ops[c->op].flags & COMBINES) ? gone() : mixed();
}

static RowsWay cropped(const RowsCall *c, uint32_t axis) {
  Prog *p = c->f->prog;
  RowsWay to = attr_of(c, KEY_perm) ? permuted(c, axis) : kept(axis);
  Dim size = ir_dim_at(p, shape_of(c, 0), axis);
  axis = to.axis;
  bool is_moved =
      ir_list_at(p, attr_of(c, KEY_starts)->u.list, axis) || ir_list_at(p, attr_of(c, KEY_before)->u.list, axis) ||
      ir_list_at(p, attr_of(c, KEY_behind)->u.list, axis) || ir_list_at(p, attr_of(c, KEY_steps)->u.list, axis) != 1;
  return is_moved || ir_dim_at(p, attr_of(c, KEY_shape)->u.list, axis).i != size.i ? mixed() : to;
}

static RowsWay by_axis(const RowsCall *c, uint32_t k, uint32_t axis, Dim rows) {
  uint32_t along = worked_axis(c);
  if (ir_layout_operand(c) < c->n) return with_layout(c, k, axis);
  if (c->op == OP_linear_scan && k == ir_op_operand(c->op, ARG_h0)) return kept(axis + (axis >= along));
  if (ir_ops[c->op].cls == CLASS_AXIS_SCATTER) return scattered(c, k, axis);
  if (ir_ops[c->op].cls == CLASS_AXIS_GATHER) return axis != along || k == 1 ? kept(axis) : mixed();
  switch (c->op) {
  case OP_reshape: return ir_reshaped_rows(c->f->prog, shape_of(c, 0), attr_of(c, KEY_shape)->u.list, axis, rows);
  case OP_expand: return kept(axis + ir_rank(c->f->prog, attr_of(c, KEY_shape)->u.list) - rank_of(c, k));
  case OP_permute: return permuted(c, axis);
  case OP_crop: return cropped(c, axis);
  case OP_argmax: return axis == along ? mixed() : kept(axis - (axis > along));
  default: return axis == along ? mixed() : kept(axis);
  }
}

// ---- TOTAL, PICK
static RowsWay total(const RowsCall *c, uint32_t k, uint32_t axis) {
  const Attr *axes = attr_of(c, KEY_axes);
  uint32_t before = 0;
  if (c->op == OP_moments) return axis + 1 == rank_of(c, k) ? kept(0) : gone();
  if (!axes) return gone();
  for (uint32_t j = 0; j < ir_rank(c->f->prog, axes->u.list); j++) {
    int64_t reduced = ir_list_at(c->f->prog, axes->u.list, j);
    if (reduced == axis) return gone();
    before += reduced < axis;
  }
  return kept(attr_of(c, KEY_keepdim) ? axis : axis - before);
}

static RowsWay pick(const RowsCall *c, uint32_t k, uint32_t axis) {
  if (c->op == OP_index_assign) return k == 0 || (k == 2 && axis) ? kept(axis) : gone();
  if (k == 1) return kept(worked_axis(c));
  return axis == worked_axis(c) ? gone() : kept(axis);
}

// ---- ALONG
static RowsWay in_scan(const RowsCall *c, uint32_t axis) {
  bool is_packed = attr_of(c, KEY_live) != NULL;
  if (is_packed && c->op == OP_scan_input) return axis == 0 ? (RowsWay){WAY_OF_LAYOUT, 0} : mixed();
  if (is_packed || c->op == OP_scan_carry || c->op == OP_scan_final) return kept(axis);
  if (c->op == OP_scan_output) return kept(axis + 1);
  return axis ? kept(axis - 1) : mixed();
}

// Of an outlined scan over a layout
static bool is_slice(const RowsCall *c, uint32_t k) {
  const Attr *n = attr_of(c, KEY_slices);
  return ir_layout_operand(c) == 0 && n && k <= n->u.i;
}

static RowsWay along(const RowsCall *c, uint32_t k, uint32_t axis) {
  switch (c->op) {
  case OP_packed_layout: return axis == 0 ? kept(0) : mixed();
  case OP_scan: return is_slice(c, k) && axis == 0 ? (RowsWay){WAY_OF_LAYOUT, 0} : mixed();
  case OP_sdpa:
    if (ir_layout_operand(c) < c->n) return with_layout(c, k, axis);
    return axis == 0 && rank_of(c, k) > 3 ? kept(0) : mixed();
  case OP_scan_input:
  case OP_scan_carry:
  case OP_scan_output:
  case OP_scan_final: return in_scan(c, axis);
  default: return ir_layout_operand(c) < c->n ? with_layout(c, k, axis) : mixed();
  }
}

// ---- SAID
static RowsWay said(const RowsCall *c, uint32_t axis) {
  const Attr *at = attr_of(c, KEY_axis);
  if (ir_layout_operand(c) >= c->n) return gone();
  return axis == (at ? at->u.i : 0) ? (RowsWay){WAY_OF_LAYOUT, 0} : mixed();
}

RowsWay ir_way_of_rows(const RowsCall *c, uint32_t k, uint32_t axis) {
  Rows rows = ir_rows_at(c->rows, c->a[k]);
  switch ((OpRows)ir_ops[c->op].rows) {
  case ROWS_EACH: return each(c, k, axis);
  case ROWS_FIRST: return k == 0 ? kept(axis) : gone();
  case ROWS_SECOND: return k == 1 ? kept(axis) : gone();
  case ROWS_PRODUCT: return product(c, k, axis);
  case ROWS_LINEAR: return linear(c, k, axis);
  case ROWS_NORM:
    return k == 0 && !attr_of(c, KEY_axis) && !is_last(c, k, axis) && !moves_to_bins(c, k, axis) ? kept(axis) : mixed();
  case ROWS_NOT_LAST: return k == 1 || !is_last(c, k, axis) ? kept(axis) : mixed();
  case ROWS_MATRICES: return matrices(c, k, axis);
  case ROWS_BATCH: return k == 0 && axis == 0 ? kept(0) : mixed();
  case ROWS_IMAGES: return axis == 0 || is_last(c, k, axis) ? kept(axis) : mixed();
  case ROWS_TABLE: return table(c, k, axis);
  case ROWS_BAGS: return k != 0 && axis == 0 && !has(c, 2) ? kept(0) : mixed();
  case ROWS_BY_AXIS: return by_axis(c, k, axis, ir_dim_at(c->f->prog, c->f->ins[rows.layout].shape, 2));
  case ROWS_TOTAL: return total(c, k, axis);
  case ROWS_PICK: return pick(c, k, axis);
  case ROWS_ALONG: return along(c, k, axis);
  case ROWS_SAID: return said(c, axis);
  }
  return mixed();
}
