// Elements of an axis by index: gather (an index for each element) and index_select (one for each slice).
//
//   y[o][k][i] = x[o][index][i]     x seen as [..][n][..], y as [outer][m][inner]
//
// Workers share the elements of the result. An index out of range is reported, except the -1 of {padded}; the
// result is zero there.
#include "codegen/emitters.h"
#include "codegen/order/axis.h"

enum { UNROLL = 4 };

typedef struct {
  Cg *c;
  DType type;
  bool by_slice;
  Shape part, whole;  // of the result, of x
  uint32_t axis;
  CgAxis to;
  V n, stride;  // of x along the axis: size, elements
  V index, x, y;
} Gather;

static LLVMTypeRef elem(const Gather *g) { return cg_elem_type(g->c, g->type); }

// Where slice o of the result begins in x.
static V outer_offset(const Gather *g, V o) {
  Cg *c = g->c;
  return cg_mul(c, cg_part_offset(c, g->part, g->whole, 0, g->axis, o), cg_mul(c, g->n, g->stride));
}

static V inner_offset(const Gather *g, V i) {
  return cg_part_offset(g->c, g->part, g->whole, g->axis + 1, ir_rank(g->c->f->prog, g->whole), i);
}

static V is_inside(const Gather *g, V index) { return cg_below(g->c, index, g->n); }

// Element `to` of the result from x[base + index stride], where the index stands at `at`.
static void take(const Gather *g, V at, V base, V to) {
  Cg *c = g->c;
  V index = cg_get(c, c->i64, g->index, at), place = cg_at(c, elem(g), g->y, to);
  for (If in = cg_either(c, is_inside(g, index)); cg_then(&in);)
    if (in.is_true) {
      V from = cg_add(c, base, cg_mul(c, index, g->stride));
      cg_store(c, cg_get(c, elem(g), g->x, from), place);
    } else {
      cg_report_index(c, at, index);
      cg_store(c, LLVMConstNull(elem(g)), place);
    }
}

// UNROLL neighbours along the axis, which is the last: one branch for all of them.
static void take_group(const Gather *g, V at, V base, V to) {
  Cg *c = g->c;
  V index[UNROLL], good = NULL;
  for (uint32_t k = 0; k < UNROLL; k++) {
    index[k] = cg_get(c, c->i64, g->index, cg_add(c, at, cg_i64(c, k)));
    good = good ? cg_and(c, good, is_inside(g, index[k])) : is_inside(g, index[k]);
  }
  for (If all = cg_either(c, good); cg_then(&all);)
    if (all.is_true) {
      for (uint32_t k = 0; k < UNROLL; k++) {
        V x = cg_get(c, elem(g), g->x, cg_add(c, base, index[k]));
        cg_put(c, x, g->y, cg_add(c, to, cg_i64(c, k)));
      }
    } else {
      for (uint32_t k = 0; k < UNROLL; k++) take(g, cg_add(c, at, cg_i64(c, k)), base, cg_add(c, to, cg_i64(c, k)));
    }
}

// Along the last axis: elements [lo, hi) of the result, row by row.
static void take_rows(const Gather *g) {
  Cg *c = g->c;
  V m = g->to.n, lo, hi, first, last, tail;
  cg_share(c, cg_mul(c, g->to.outer, m), 64, &lo, &hi);
  for (Loop o = cg_each_row(c, lo, hi, cg_max(c, m, cg_i64(c, 1)), &first, &last); cg_next(&o);) {
    V row = cg_mul(c, o.i, m), base = outer_offset(g, o.i), at = g->by_slice ? cg_i64(c, 0) : row;
    for (Loop l = cg_each_whole(c, first, cg_max(c, last, first), UNROLL, &tail); cg_next(&l);)
      take_group(g, cg_add(c, at, l.i), base, cg_add(c, row, l.i));
    for (Loop l = cg_each(c, tail, last); cg_next(&l);) take(g, cg_add(c, at, l.i), base, cg_add(c, row, l.i));
  }
}

// Slice k of the result, whole.
static void copy_slice(const Gather *g, V k, V base, V to) {
  Cg *c = g->c;
  V index = cg_get(c, c->i64, g->index, k), out = cg_at(c, elem(g), g->y, to);
  for (If in = cg_either(c, is_inside(g, index)); cg_then(&in);)
    if (in.is_true) {
      V from = cg_at(c, elem(g), g->x, cg_add(c, base, cg_mul(c, index, g->stride)));
      cg_copy_run(c, g->type, out, from, g->to.inner);
    } else {
      cg_report_index(c, k, index);
      for (Loop l = cg_count(c, g->to.inner); cg_next(&l);) cg_put(c, LLVMConstNull(elem(g)), out, l.i);
    }
}

static void take_slices(const Gather *g) {
  Cg *c = g->c;
  V m = g->to.n, lo, hi;
  cg_share(c, cg_mul(c, g->to.outer, m), 1, &lo, &hi);
  for (Loop r = cg_each(c, lo, hi); cg_next(&r);) {
    V o = cg_div(c, r.i, m), k = cg_sub(c, r.i, cg_mul(c, o, m)), row = cg_mul(c, r.i, g->to.inner);
    V base = outer_offset(g, o);
    if (g->by_slice) {
      copy_slice(g, k, base, row);
    } else {
      for (Loop l = cg_count(c, g->to.inner); cg_next(&l);) {
        V at = cg_add(c, row, l.i);
        take(g, at, cg_add(c, base, inner_offset(g, l.i)), at);
      }
    }
  }
}

bool cg_emit_axis_gather(Cg *c) {
  Val v = {c->k->first}, x = ir_arg(c->f, v, 0), index = ir_arg(c->f, v, 1);
  const Ins *ins = ir_ins(c->f, v);
  Gather g = {.c = c, .type = (DType)ins->dtype, .by_slice = ins->op == OP_index_select, .part = ins->shape};
  g.whole = ir_ins(c->f, x)->shape, g.axis = (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0);
  CgAxis from = cg_axis_of(c, g.whole, g.axis);
  g.to = cg_axis_of(c, g.part, g.axis), g.n = from.n, g.stride = from.inner;
  g.index = cg_ptr(c, index), g.x = cg_ptr(c, x), g.y = cg_ptr(c, v);
  int64_t inner = 0, stride = 0;
  bool is_last = cg_const_value(g.to.inner, &inner) && inner == 1 && cg_const_value(g.stride, &stride) && stride == 1;
  if (is_last) take_rows(&g);
  else take_slices(&g);
  return true;
}
