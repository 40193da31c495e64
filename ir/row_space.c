// Which instructions can be computed a row at a time, together.
//
//   %s = sum %x {axes=[1], keepdim} : f32[n,8]   works on the rows of f32[n,8]
//   %d = sub %x, %s : f32[n,8]                   an element of the row from an element and a cell
//   %v = mul %s, %s : f32[n,1]                   a cell from cells
//
// The rows of a shape are its last axis. An element is a value of that shape; a cell has one number for each row: the
// shape with a last axis of size 1, or without it. A sum over all rows takes elements too; nothing reads it in the
// kernel.
#include "ir/ir.h"

enum { FEW_ROWS = 8, SMALL = 4096, SHORT = 16, MANY = 1 << 16, NARROW = 64, WIDE = 4096 };

bool ir_column_sum(const Fn *f, Val v, Shape *out) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op != OP_sum || ir_attr(f, v, KEY_keepdim)) return false;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape, axes = ir_attr(f, v, KEY_axes)->u.list;
  uint32_t rank = ir_rank(f->prog, s);
  if (rank < 2 || ir_rank(f->prog, axes) + 1 != rank) return false;
  for (uint32_t k = 0; k + 1 < rank; k++)
    if (ir_list_at(f->prog, axes, k) != k) return false;
  int64_t width = ir_dim_bound(f->prog, ir_dim_at(f->prog, s, rank - 1));
  *out = s;
  return width >= NARROW && width <= WIDE && ir_shape_bound(f->prog, s) > 0;
}

bool ir_row_shape(const Fn *f, Val v, Shape *out) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op == OP_result || ins->n_args == 0) return false;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  *out = s;
  if (ir_ops[ins->op].cls == CLASS_ROW) return true;
  if (ir_column_sum(f, v, out)) return true;
  if (ins->op != OP_sum && ins->op != OP_amax) return false;
  Shape axes = ir_attr(f, v, KEY_axes)->u.list;
  return ir_rank(f->prog, axes) == 1 && ir_list_at(f->prog, axes, 0) + 1 == (int64_t)ir_rank(f->prog, s);
}

// A cell of the rows of s with the last axis kept (1) or dropped (2); 0: none.
static int cell_kind(const Fn *f, Shape cell, Shape s) {
  const Prog *p = f->prog;
  uint32_t rank = ir_rank(p, s), have = ir_rank(p, cell);
  if (have != rank && have + 1 != rank) return 0;
  for (uint32_t k = 0; k + 1 < rank; k++)
    if (ir_dim_at(p, cell, k).i != ir_dim_at(p, s, k).i) return 0;
  if (have + 1 == rank) return 2;
  Dim last = ir_dim_at(p, cell, rank - 1);
  return ir_dim_is_const(p, last) && ir_dim_bound(p, last) == 1 ? 1 : 0;
}

bool ir_row_member(const Fn *f, Val v, Shape rows) {
  const Ins *ins = ir_ins(f, v);
  const OpInfo *op = &ir_ops[ins->op];
  Shape own;
  if (ir_row_shape(f, v, &own)) return own.i == rows.i;
  if (ins->dtype != DT_F32 || (op->flags & WRITES)) return false;
  if (ins->op == OP_expand && ir_ins(f, ir_arg(f, v, 0))->dtype != DT_F32) return false;
  if (!op->is_word_row && ins->op != OP_output && ins->op != OP_expand) return false;
  return ins->shape.i == rows.i || cell_kind(f, ins->shape, rows);
}

bool ir_row_element(const Fn *f, Val v, uint32_t k) {
  switch (ir_ins(f, v)->op) {
  case OP_softmax_grad:
  case OP_log_softmax_grad: return k <= 1;
  case OP_layer_norm_grad: return k == 0 || k == 3;
  case OP_rms_norm_grad: return k == 0 || k == 2;
  default: return k == 0;
  }
}

static bool reads_cell(const Fn *f, Val v, uint32_t k) {
  switch (ir_ins(f, v)->op) {
  case OP_nll_rows_grad: return k == 2 || k == 3;
  case OP_layer_norm_grad: return k == 1 || k == 2;
  case OP_rms_norm_grad: return k == 1;
  default: return false;
  }
}

bool ir_row_reads(const Fn *f, Val v, uint32_t k, Shape rows) {
  Shape from = ir_ins(f, ir_arg(f, v, k))->shape, to = ir_ins(f, v)->shape, own;
  if (ir_column_sum(f, ir_arg(f, v, k), &own)) return false;  // it is there after the last row
  if (ir_row_shape(f, v, &own)) {
    if (ir_row_element(f, v, k)) return from.i == rows.i;
    return reads_cell(f, v, k) && cell_kind(f, from, rows) == 2;
  }
  if (to.i == rows.i) return from.i == rows.i || cell_kind(f, from, rows) == 1;
  return from.i == to.i;
}

bool ir_row_fits(const Prog *p, Shape rows) {
  uint32_t rank = ir_rank(p, rows);
  int64_t all = ir_shape_bound(p, rows), width = ir_dim_bound(p, ir_dim_at(p, rows, rank - 1));
  if (width < 2) return false;
  if (all / width < FEW_ROWS && all >= SMALL) return false;  // too few for the workers to share
  return width >= SHORT || all <= MANY;                      // vectors with few lanes in use
}
