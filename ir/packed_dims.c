// Sizes that the run finds: a packed layout sets its rows dim, so whatever names that dim runs after the layout, with
// or without reading it.
//
//   %l = packed_layout %len {rows=rows, time=time} : layout[batch,time,rows]
//   %m = normal {id=0, mean=0, std=1, shape=[rows]} : f32[rows]      waits for %l, and keeps it alive
#include "ir/packed_dims.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/scan.h"

static bool dim_names(const Prog *p, Dim d, int32_t slot) {
  const DimInfo *in = ir_dim_info(p, d);
  if (in->kind == DIM_SYM) return in->slot == slot;
  return in->kind != DIM_CONST && (dim_names(p, in->a, slot) || dim_names(p, in->b, slot));
}

bool ir_shape_names(const Prog *p, Shape s, Dim sym) {
  const DimInfo *in = ir_dim_info(p, sym);
  for (uint32_t k = 0; in->kind == DIM_SYM && k < ir_rank(p, s); k++)
    if (dim_names(p, ir_dim_at(p, s, k), in->slot)) return true;
  return false;
}

bool ir_dim_found_by_run(const Fn *f, Dim d) {
  Prog *p = f->prog;
  Shape s = ir_shape(p, &d, 1);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Attr *live = ir_attr(f, (Val){i}, KEY_live);
    if (live && ir_shape_names(p, s, live->u.dim)) return true;
    if (f->ins[i].op == OP_packed_layout && ir_shape_names(p, s, ir_dim_at(p, f->ins[i].shape, 2))) return true;
  }
  return false;
}

bool ir_scan_stacks(const Prog *p, Shape s, Dim live) {
  uint32_t r = ir_rank(p, s);
  bool row = live.i && r > 0 && ir_dim_at(p, s, 0).i == live.i;
  for (uint32_t k = row; k < r && live.i; k++)
    if (dim_names(p, ir_dim_at(p, s, k), ir_dim_info(p, live)->slot)) return false;
  return row || r < MAX_RANK;
}

bool ir_layout_is_const(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ins->op == OP_dense_layout) return ir_shape_is_const(f->prog, ins->shape);
  return ins->op == OP_packed_layout && ins->n_args == 0;
}

Dim ir_rows_limit(const Fn *f, Val layout) {
  const Ins *ins = ir_ins(f, layout);
  if (ins->op != OP_packed_layout || !ins->n_args) return (Dim){0};
  const Attr *total = ir_attr(f, layout, KEY_total);
  if (total) return total->u.dim;
  int64_t bound[3], all;
  for (uint32_t k = 0; k < 3; k++) bound[k] = ir_dim_bound(f->prog, ir_dim_at(f->prog, ins->shape, k));
  bool fits = !__builtin_mul_overflow(bound[0], bound[1], &all);
  return fits && bound[2] >= all ? (Dim){0} : ir_dim(f->prog, bound[2]);
}

const Val *ir_rows_makers(const Fn *f) {
  const Prog *p = f->prog;
  Val *maker = NULL;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_packed_layout) continue;
    const DimInfo *rows = ir_dim_info(p, ir_dim_at(p, f->ins[i].shape, 2));
    if (rows->kind != DIM_SYM) continue;
    if (!maker) maker = rt_alloc(p->mem, p->n_syms * sizeof *maker);
    if (ir_none(maker[rows->slot])) maker[rows->slot] = (Val){i};
  }
  return maker;
}

static uint32_t makers_of_dim(const Fn *f, const Val *maker, Dim d, Val v, Val *out, uint32_t n) {
  const DimInfo *in = ir_dim_info(f->prog, d);
  if (ir_dim_has_parts(in)) {
    Dim b = in->b;
    n = makers_of_dim(f, maker, in->a, v, out, n);
    return makers_of_dim(f, maker, b, v, out, n);
  }
  if (in->kind != DIM_SYM || ir_none(maker[in->slot]) || maker[in->slot].i >= v.i) return n;
  for (uint32_t k = 0; k < n; k++)
    if (out[k].i == maker[in->slot].i) return n;
  if (n < IR_MAX_MAKERS) out[n++] = maker[in->slot];
  return n;
}

uint32_t ir_sizes_from(const Fn *f, const Val *maker, Val v, Val *out) {
  uint32_t n = 0;
  if (!maker) return 0;
  Shape s = ir_ins(f, v)->shape;
  for (uint32_t k = 0; k < ir_rank(f->prog, s); k++) n = makers_of_dim(f, maker, ir_dim_at(f->prog, s, k), v, out, n);
  const Attr *dim = ir_attr(f, v, KEY_dim);
  return dim ? makers_of_dim(f, maker, dim->u.dim, v, out, n) : n;
}
