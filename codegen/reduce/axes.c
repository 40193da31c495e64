// The axes of a reduction (axes.h).
#include "codegen/reduce/axes.h"

ReducedAxes cg_reduced_axes(const Fn *f, Val v) {
  const Prog *prog = f->prog;
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  uint32_t rank = ir_rank(prog, s), set = ir_reduced_axes(f, v);
  ReducedAxes p = {.results = 1, .terms = 1};
  for (uint32_t a = 0; a < rank; a++) {
    Dim d = ir_dim_at(prog, s, a);
    bool reduced = set >> a & 1;
    if (ir_dim_is_one(prog, d)) continue;
    if (!p.n || p.group[p.n - 1].reduced != reduced) p.group[p.n++] = (AxisGroup){a, a, reduced, 1};
    p.group[p.n - 1].last = a;
    p.group[p.n - 1].bound *= ir_dim_bound(prog, d);
    *(reduced ? &p.terms : &p.results) *= ir_dim_bound(prog, d);
  }
  if (!p.n) p.group[p.n++] = (AxisGroup){1, 0, true, 1};  // one element
  p.runs = p.group[p.n - 1].reduced;
  return p;
}

ReduceWalk cg_reduce_walk(Cg *c, Val v, const ReducedAxes *a, V unit) {
  ReduceWalk w = {.inner = cg_i64(c, 1), .n_outer = cg_i64(c, 1), .n_rows = cg_i64(c, 1)};
  Shape s = ir_ins(c->f, ir_arg(c->f, v, 0))->shape;
  V stride = cg_i64(c, 1);
  StridedAxis axis[MAX_RANK];
  for (uint32_t g = a->n; g-- > 0;) {
    axis[g] = (StridedAxis){cg_i64(c, 1), stride};
    for (uint32_t k = a->group[g].first; k <= a->group[g].last; k++)
      axis[g].size = cg_mul(c, axis[g].size, cg_dim(c, ir_dim_at(c->f->prog, s, k)));
    stride = unit && g + 1 == a->n ? unit : cg_mul(c, stride, axis[g].size);
  }
  w.inner = axis[a->n - 1].size;
  for (uint32_t g = 0; g + 1 < a->n; g++) {
    if (a->group[g].reduced) w.reduced[w.n_reduced++] = axis[g], w.n_rows = cg_mul(c, w.n_rows, axis[g].size);
    else w.kept[w.n_kept++] = axis[g], w.n_outer = cg_mul(c, w.n_outer, axis[g].size);
  }
  return w;
}

V cg_strided_offset(Cg *c, const StridedAxis *axis, uint32_t n, V flat) {
  V at = cg_i64(c, 0);
  for (uint32_t g = n; g-- > 0;) {
    V index = flat;
    if (g) {
      V size = cg_max(c, axis[g].size, cg_i64(c, 1));  // a place is asked for where there is none
      index = cg_rem(c, flat, size), flat = LLVMBuildUDiv(c->b, flat, size, "");
    }
    at = cg_add(c, at, cg_mul(c, index, axis[g].stride));
  }
  return at;
}
