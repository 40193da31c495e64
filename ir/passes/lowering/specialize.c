// Copies a function with smaller bounds of named dims, for a smaller plan.
//
//   dim time <= 256
//   func @step(%x: f32[batch,time,12]) ..
//   ir_fn_specialize(f, {time, 16}, 1):
//   func @step.time16(%x: f32[batch,time.16,12]) ..
//
// The sizes of a run stand in the same slots, and whatever chooses code goes by the full bounds: kernels of both have
// one text and are compiled once, and their results have the same bits. Only memory is planned by the smaller bounds.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"

typedef struct {
  Prog *p;
  Dim *within;  // by slot; none: as it is
} Map;

static Dim map_dim(const Map *m, Dim d) {
  DimInfo in = *ir_dim_info(m->p, d);
  switch (in.kind) {
  case DIM_CONST: return d;
  case DIM_SYM: return m->within[in.slot].i ? m->within[in.slot] : d;
  case DIM_MUL: return ir_dim_mul(m->p, map_dim(m, in.a), map_dim(m, in.b));
  case DIM_DIV: return ir_dim_div(m->p, map_dim(m, in.a), map_dim(m, in.b));
  case DIM_MAX: return ir_dim_max(m->p, map_dim(m, in.a), map_dim(m, in.b));
  case DIM_MIN: return ir_dim_min(m->p, map_dim(m, in.a), map_dim(m, in.b));
  default: return ir_dim_add(m->p, map_dim(m, in.a), map_dim(m, in.b));
  }
}

static Shape map_shape(const Map *m, Shape s) {
  Prog *p = m->p;
  uint32_t n = ir_rank(p, s);
  if (ir_shape_is_const(p, s)) return s;  // lists of lengths are long
  Dim *dims = rt_alloc(p->mem, n * sizeof *dims);
  for (uint32_t k = 0; k < n; k++) dims[k] = map_dim(m, ir_dim_at(p, s, k));
  return ir_shape(p, dims, n);
}

// A layout with fewer and shorter sequences has fewer rows.
static void map_rows(const Map *m, const Fn *f) {
  Prog *p = m->p;
  const Val *maker = ir_rows_makers(f);
  for (uint32_t slot = 0; maker && slot < p->n_syms; slot++) {
    if (ir_none(maker[slot])) continue;
    Shape s = map_shape(m, ir_ins(f, maker[slot])->shape);
    int64_t rows = ir_dim_fit(p, ir_dim_mul(p, ir_dim_at(p, s, 0), ir_dim_at(p, s, 1)));
    Dim limit = ir_rows_limit(f, maker[slot]);
    if (limit.i && ir_dim_fit(p, map_dim(m, limit)) < rows) rows = ir_dim_fit(p, map_dim(m, limit));
    if (rows < ir_dim_fit(p, ir_dim_at(p, s, 2))) m->within[slot] = ir_dim_within(p, p->syms[slot], rows);
  }
}

// The rows of a step of a scan are at most as many as its sequences.
static void map_live(const Map *m, const Fn *f) {
  Prog *p = m->p;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Attr *live = f->ins[i].op == OP_scan_begin ? ir_attr(f, (Val){i}, KEY_live) : NULL;
    if (!live || !f->ins[i].n_args) continue;
    int64_t batch = ir_dim_fit(p, map_dim(m, ir_dim_at(p, ir_ins(f, ir_arg(f, (Val){i}, 0))->shape, 0)));
    const DimInfo *d = ir_dim_info(p, live->u.dim);
    if (d->kind == DIM_SYM && batch < d->fit) m->within[d->slot] = ir_dim_within(p, live->u.dim, batch);
  }
}

Fn *ir_fn_copy(const Fn *f, const char *name) {
  Fn *g = ir_fn_new(f->prog, name, f->loc);
  Str own = g->name;
  RootMemo *roots = g->roots;
  *g = *f;
  g->name = own, g->roots = roots;
  g->update = g->shard = NULL;
  ir_copy_lists(g, f);
  return g;
}

static void map_attr(const Map *m, Attr *a) {
  if (ir_key_kind[a->key] == KIND_DIM) a->u.dim = map_dim(m, a->u.dim);
  if (ir_key_kind[a->key] == KIND_LIST) a->u.list = map_shape(m, a->u.list);
}

Fn *ir_fn_specialize(const Fn *f, const DimFit *fits, uint32_t n) {
  Prog *p = f->prog;
  RtText name = {.mem = p->mem};
  Map m = {p, rt_alloc(p->mem, (p->n_syms + 1) * sizeof *m.within)};
  rt_text_add(&name, "%s", ir_text(p, f->name));
  for (uint32_t k = 0; k < n; k++) {
    const DimInfo *d = ir_dim_info(p, fits[k].dim);
    rt_text_add(&name, ".%s%lld", ir_text(p, d->name), (long long)fits[k].fit);
    m.within[d->slot] = ir_dim_within(p, fits[k].dim, fits[k].fit);
  }
  map_rows(&m, f);
  map_live(&m, f);
  Fn *g = ir_fn_copy(f, name.text);
  for (uint32_t v = 1; v < g->n_ins; v++) g->ins[v].shape = map_shape(&m, g->ins[v].shape);
  for (uint32_t k = 0; k < g->n_attrs; k++) map_attr(&m, &g->attrs[k]);
  return g;
}
