// Row fusion: which instructions can run in one row kernel.
//
//   %s = sum %x {axes=[1], keepdim} : f32[n,8]   row op over the row space f32[n,8], axis 1
//   %d = sub %x, %s : f32[n,8]                   element of the row, from an element and a row scalar
//   %v = mul %s, %s : f32[n,1]                   row scalar, from row scalars
//
// A row space is a shape and the axis along which a row runs, mostly the last. An element is a value of that shape. A
// row scalar is one number per row: the shape with that axis of size 1 (keepdim), or without it. A column sum (over all
// rows) reads elements too; its result is complete after the last row, so nothing in the kernel reads it.
//
// Rows along the last axis are contiguous, and a reshape keeps the order of their elements. So elements may have another
// shape of the same size. What they broadcast is the same number for runs of elements, of a part of a row or of whole rows:
//
// Rows along another axis lie side by side; beside numbers of each row, their elements read numbers for each place in a row:
//
//   %s = mean %x {axes=[1], keepdim} : f32[n,1,h,w]    rows of c
//   %y = mul %d, %w : f32[n,c,h,w]                     %w: f32[c,1,1]
//   %g = sum %y {axes=[0,2,3]} : f32[c]                column sum
//
//   %y, .. = layer_norm %x : f32[n,4,18]         rows of 18
//   %z = reshape %y : f32[n,8,3,3]
//   %a = mul %z, %w : f32[n,8,3,3]               %w: f32[8,1,1], runs of 9, two in a row, anew after 8
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"

// Numbers: pages of docs/experiments that found the value.
enum {
  FEW_ROWS = 8,  // rows, or vectors of strided ones, that are too few to share among workers,
  FEW_VECTORS = 4,
  SMALL = 4096,    // from so many elements on
  MANY = 1 << 16,  // elements, from which on short rows, and few strided ones, are not worth a kernel
  NARROW = 16,     // .. WIDE: sizes of a row for which column sums are fused (035, 061)
  WIDE = 4096,
  STRIDED_WIDE = 512,  // .. of strided rows, whose column sums take lanes times the memory
  TALL = 4096,         // elements of strided rows (040)
  TALL_PAGES = 1024    // .. of rows that map to the same cache sets: such a row is buffered (146)
};

bool ir_column_sum(const Fn *f, Val v, RowSpace *out) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_sum || ins->dtype != DT_F32 || ir_attr(f, v, KEY_keepdim)) return false;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape, axes = ir_attr(f, v, KEY_axes)->u.list;
  uint32_t rank = ir_rank(f->prog, s), axis = 0;
  if (rank < 2 || ir_rank(f->prog, axes) + 1 != rank) return false;
  while (axis + 1 < rank && ir_list_at(f->prog, axes, axis) == axis) axis++;
  *out = (RowSpace){s, axis};
  bool is_last = axis + 1 == rank;
  int64_t width = ir_dim_bound(f->prog, ir_dim_at(f->prog, s, axis));
  if (!is_last && (rank < 3 || !ir_row_is_strided(f->prog, *out))) return false;
  return width >= NARROW && width <= (is_last ? WIDE : STRIDED_WIDE) && ir_shape_bound(f->prog, s) > 0;
}

static bool sums_last(const Fn *f, Val v) {
  RowSpace own;
  return ir_column_sum(f, v, &own) && own.axis + 1 == ir_rank(f->prog, own.shape);
}

static bool is_row_reduction(const Ins *ins) {
  return (ins->op == OP_sum || ins->op == OP_mean || ins->op == OP_amax) && ins->dtype == DT_F32;
}

// Over this axis only.
static bool is_along(const Fn *f, Val v, uint32_t axis) {
  if (!is_row_reduction(ir_ins(f, v))) return false;
  Shape axes = ir_attr(f, v, KEY_axes)->u.list;
  return ir_rank(f->prog, axes) == 1 && ir_list_at(f->prog, axes, 0) == axis;
}

bool ir_same_rows(RowSpace a, RowSpace b) { return a.shape.i == b.shape.i && a.axis == b.axis; }

bool ir_row_space(const Fn *f, Val v, RowSpace *out) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op == OP_result || ins->n_args == 0) return false;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  uint32_t last = ir_rank(f->prog, s) - 1;
  *out = (RowSpace){s, last};
  if (ir_ops[ins->op].cls == CLASS_ROW) {
    if (ir_ops[ins->op].flags & ROW_AXIS) out->axis = (uint32_t)ir_attr_int(f, v, KEY_axis, last);
    return true;
  }
  if (sums_last(f, v) || is_along(f, v, last)) return true;
  if (!is_row_reduction(ins) || (ins->op == OP_sum && last == 1 && !ir_attr(f, v, KEY_keepdim))) return false;
  Shape axes = ir_attr(f, v, KEY_axes)->u.list;
  if (ir_rank(f->prog, axes) != 1) return false;
  out->axis = (uint32_t)ir_list_at(f->prog, axes, 0);
  return ir_row_is_strided(f->prog, *out);
}

typedef enum {
  NO_SCALAR,
  SCALAR_KEPT,
  SCALAR_DROPPED
} ScalarKind;  // keepdim: the row axis has size 1; or it is dropped

static ScalarKind scalar_kind(const Fn *f, Shape cell, RowSpace rows) {
  const Prog *p = f->prog;
  uint32_t rank = ir_rank(p, rows.shape), have = ir_rank(p, cell);
  if (have != rank && have + 1 != rank) return NO_SCALAR;
  for (uint32_t k = 0; k < rank; k++) {
    uint32_t at = have == rank || k < rows.axis ? k : k - 1;
    if (k != rows.axis && ir_dim_at(p, cell, at).i != ir_dim_at(p, rows.shape, k).i) return NO_SCALAR;
  }
  if (have + 1 == rank) return SCALAR_DROPPED;
  return ir_dim_is_one(p, ir_dim_at(p, cell, rows.axis)) ? SCALAR_KEPT : NO_SCALAR;
}

bool ir_row_weight(const Fn *f, Shape from, RowSpace rows) {
  const Prog *p = f->prog;
  uint32_t rank = ir_rank(p, rows.shape), lacks = rank - ir_rank(p, from);
  if (rows.axis + 1 == rank || lacks > rows.axis) return false;
  for (uint32_t k = lacks; k < rank; k++) {
    Dim d = ir_dim_at(p, from, k - lacks);
    if (k == rows.axis ? d.i != ir_dim_at(p, rows.shape, k).i : !ir_dim_is_one(p, d)) return false;
  }
  return true;
}

// A row scalar that broadcasting aligns with the rows, as operand of an element.
static bool is_broadcast_scalar(const Fn *f, Shape cell, RowSpace rows) {
  ScalarKind kind = scalar_kind(f, cell, rows);
  return kind == SCALAR_KEPT || (kind == SCALAR_DROPPED && rows.axis == 0 && ir_rank(f->prog, rows.shape) > 1);
}

static bool is_number(const Prog *p, Shape s) {
  for (uint32_t k = 0; k < ir_rank(p, s); k++)
    if (!ir_dim_is_one(p, ir_dim_at(p, s, k))) return false;
  return true;
}

// ---- elements under another shape
bool ir_row_elements(const Fn *f, Shape s, RowSpace rows) {
  if (s.i == rows.shape.i) return true;
  return rows.axis + 1 == ir_rank(f->prog, rows.shape) &&
         ir_shape_numel(f->prog, s).i == ir_shape_numel(f->prog, rows.shape).i;
}

static bool is_row_shape(const Fn *f, Shape s, RowSpace rows) {
  return ir_row_elements(f, s, rows) || scalar_kind(f, s, rows);
}

bool ir_row_passes(const Fn *f, Val view, RowSpace rows) {
  bool is_scalar = scalar_kind(f, ir_ins(f, view)->shape, rows);
  for (; ir_ins(f, view)->op == OP_reshape; view = ir_arg(f, view, 0))
    if (!is_row_shape(f, ir_ins(f, view)->shape, rows)) return false;
  Shape base = ir_ins(f, view)->shape;
  RowSpace own;
  if (ir_ops[ir_ins(f, view)->op].cls == CLASS_VIEW || ir_column_sum(f, view, &own)) return false;
  return ir_row_elements(f, base, rows) || (is_scalar && scalar_kind(f, base, rows));
}

// An operand that is broadcast to shape `to`
typedef struct {
  const Prog *p;
  Shape from, to;
  uint32_t lacks;  // axes in front that it has not
} Broadcast;

static bool is_repeated(const Broadcast *b, uint32_t axis) {
  return axis < b->lacks || ir_dim_is_one(b->p, ir_dim_at(b->p, b->from, axis - b->lacks));
}

static bool is_whole(const Broadcast *b, uint32_t axis) {
  return axis >= b->lacks && ir_dim_at(b->p, b->from, axis - b->lacks).i == ir_dim_at(b->p, b->to, axis).i;
}

static bool times_size(const Prog *p, Shape s, uint32_t axis, int64_t *n) {
  const DimInfo *d = ir_dim_info(p, ir_dim_at(p, s, axis));
  if (d->kind == DIM_CONST) *n *= d->value;
  return d->kind == DIM_CONST;
}

// A vector has elements of two runs at most, and a row begins with a run.
static bool run_fits(const Prog *p, RowRun run, int64_t width) {
  if (run.length == 0 || width == 0) return false;
  if (run.length % width == 0) return true;
  if (width % run.length || (run.length > 1 && run.length < p->target.lanes)) return false;
  return run.period % (width / run.length) == 0;
}

bool ir_row_run(const Fn *f, Shape from, Shape to, RowSpace rows, RowRun *out) {
  const Prog *p = f->prog;
  uint32_t rank = ir_rank(p, to), axis = rank;
  int64_t width = 1;
  if (ir_rank(p, from) > rank || !times_size(p, rows.shape, rows.axis, &width)) return false;
  Broadcast b = {p, from, to, rank - ir_rank(p, from)};
  *out = (RowRun){1, 1};
  for (; axis > 0 && is_repeated(&b, axis - 1); axis--)
    if (!times_size(p, to, axis - 1, &out->length)) return false;
  for (; axis > 1 && is_whole(&b, axis - 1); axis--)
    if (!times_size(p, to, axis - 1, &out->period)) return false;
  if (axis == 1 && is_whole(&b, 0)) axis = 0, out->period = 0;
  while (axis > 0 && is_repeated(&b, axis - 1)) axis--;
  return axis == 0 && run_fits(p, *out, width);
}

static bool operands_run(const Fn *f, Val v, RowSpace rows) {
  RowRun run;
  Shape to = ir_ins(f, v)->shape;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Shape from = ir_ins(f, ir_arg(f, v, k))->shape;
    if (from.i != to.i && !is_number(f->prog, from) && !ir_row_run(f, from, to, rows, &run)) return false;
  }
  return true;
}

// Rows along the last axis take any broadcast operand; other rows take elements, row scalars, weights and single numbers only.
static bool operands_fit(const Fn *f, Val v, RowSpace rows) {
  Shape to = ir_ins(f, v)->shape;
  if (rows.axis + 1 == ir_rank(f->prog, rows.shape)) return true;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    Shape from = ir_ins(f, ir_arg(f, v, k))->shape;
    bool cell = to.i == rows.shape.i && (is_broadcast_scalar(f, from, rows) || ir_row_weight(f, from, rows));
    if (from.i != to.i && !cell && !is_number(f->prog, from)) return false;
  }
  return true;
}

bool ir_row_member(const Fn *f, Val v, RowSpace rows) {
  const Ins *ins = ir_ins(f, v);
  const OpInfo *op = &ir_ops[ins->op];
  RowSpace own;
  if (ir_row_space(f, v, &own)) return ir_same_rows(own, rows);
  if (ins->dtype != DT_F32 || (op->flags & WRITES)) return false;
  if (ir_column_sum(f, v, &own)) return ir_same_rows(own, rows);
  if (is_along(f, v, rows.axis)) return ir_ins(f, ir_arg(f, v, 0))->shape.i == rows.shape.i;
  for (uint32_t k = 0; k < ins->n_args; k++)
    if (ir_ins(f, ir_arg(f, v, k))->dtype != DT_F32) return false;
  if (!op->is_pointwise && ins->op != OP_output && ins->op != OP_expand) return false;
  if (ins->shape.i == rows.shape.i || scalar_kind(f, ins->shape, rows)) return operands_fit(f, v, rows);
  return ir_row_elements(f, ins->shape, rows) && operands_run(f, v, rows);
}

bool ir_row_element(const Fn *f, Val v, uint32_t k) { return ir_operand_flags(f, v, k) & ELEMENT; }

bool ir_row_reads(const Fn *f, Val v, uint32_t k, RowSpace rows) {
  Shape from = ir_ins(f, ir_arg(f, v, k))->shape, to = ir_ins(f, v)->shape;
  RowSpace of, own;
  if (ir_column_sum(f, ir_arg(f, v, k), &own)) return false;  // complete after the last row only
  if (ir_row_space(f, v, &of) || ir_column_sum(f, v, &of) || is_along(f, v, rows.axis)) {
    if (ir_row_element(f, v, k)) return from.i == rows.shape.i;
    return (ir_operand_flags(f, v, k) & ROW_SCALAR) && scalar_kind(f, from, rows) == SCALAR_DROPPED;
  }
  return from.i == to.i || (to.i == rows.shape.i && is_broadcast_scalar(f, from, rows));
}

bool ir_row_fits(const Prog *p, RowSpace rows) {
  uint32_t rank = ir_rank(p, rows.shape);
  int64_t all = ir_shape_bound(p, rows.shape), width = ir_dim_bound(p, ir_dim_at(p, rows.shape, rows.axis));
  if (width < 2) return false;
  bool strided = rows.axis + 1 < rank;
  if (all / width < (strided ? FEW_VECTORS * p->target.lanes : FEW_ROWS) && all >= SMALL) return false;
  return (strided ? ir_row_side_by_side(p, rows) : width) >= p->target.lanes ||
         all <= MANY;  // else most lanes are idle
}

// Each element of a tall strided row is in a page of its own (TLB misses); with a stride of a multiple of the page they
// map to the same few cache sets, too (conflict misses), and only a row that fits in a buffer is read once.
bool ir_row_is_strided(const Prog *p, RowSpace rows) {
  int64_t side = ir_row_side_by_side(p, rows), height = ir_dim_bound(p, ir_dim_at(p, rows.shape, rows.axis));
  if (rows.axis + 1 == ir_rank(p, rows.shape) || side < p->target.lanes / 2) return false;
  int64_t all = ir_shape_bound(p, rows.shape);
  if (height && all / height < 2 * FEW_VECTORS * p->target.lanes && all >= MANY) return false;
  return height <= (side % ir_f32_in(p->target.page_bytes) ? TALL : TALL_PAGES);
}

int64_t ir_row_side_by_side(const Prog *p, RowSpace rows) {
  int64_t n = 1;
  for (uint32_t k = rows.axis + 1; k < ir_rank(p, rows.shape); k++) n *= ir_dim_bound(p, ir_dim_at(p, rows.shape, k));
  return n;
}
