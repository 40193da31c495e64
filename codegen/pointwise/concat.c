// A concat of short runs: straight-line copies for a row of the result.
//
//   %c = concat %a, %b {axis=1} : f32[n,24]      of f32[n,20] and f32[n,4]
//
//   for each row:   c[0..16) = a[0..16)   c[4..20) = a[4..20)   c[20..24) = b[0..4)
//
// A run is copied by whole vectors; its tail by one more vector that overlaps the last, or by halves, quarters .. of
// a vector.
#include "codegen/cg.h"
#include "codegen/pointwise/pointwise.h"
#include "ir/slice.h"

enum { MOST_MOVES = 512, SMALL = 4096, GRAIN = 2048 };

typedef struct {
  Val v;
  uint32_t axis, rank;
} Join;

static Join join_of(const Cg *c) {
  Val v = {c->k->first};
  const Ins *ins = ir_ins(c->f, v);
  return (Join){v, (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0), ir_rank(c->f->prog, ins->shape)};
}

static Dim dim_of(const Cg *c, Val v, uint32_t axis) { return ir_dim_at(c->f->prog, ir_ins(c->f, v)->shape, axis); }

// Elements of `along` rows of v's inner axes; -1: not a constant.
static int64_t run_of(const Cg *c, const Join *j, Val v, Dim along) {
  int64_t n = ir_dim_is_const(c->f->prog, along) ? ir_dim_bound(c->f->prog, along) : -1;
  for (uint32_t k = j->axis + 1; n >= 0 && k < j->rank; k++) {
    if (!ir_dim_is_const(c->f->prog, dim_of(c, v, k))) return -1;
    n *= ir_dim_bound(c->f->prog, dim_of(c, v, k));
  }
  return n;
}

static int64_t moves_of(const Cg *c, int64_t run) { return run / c->t->vl + 2; }

bool cg_is_run_copy(const Cg *c) {
  if (c->k->n != 1 || ir_ins(c->f, (Val){c->k->first})->op != OP_concat) return false;
  Join j = join_of(c);
  int64_t n = 0;
  for (uint32_t k = 0; k < ir_ins(c->f, j.v)->n_args && n <= MOST_MOVES; k++) {
    int64_t run = run_of(c, &j, j.v, ir_concat_part(c->f, j.v, k).count);
    if (run < 0) return false;
    n += moves_of(c, run);
  }
  return n <= MOST_MOVES;
}

static void move(Cg *c, LLVMTypeRef elem, V to, V from, int64_t at, int64_t lanes) {
  LLVMTypeRef t = lanes == 1 ? elem : LLVMVectorType(elem, (unsigned)lanes);
  V i = cg_i64(c, at);
  cg_put(c, cg_load(c, t, cg_at(c, elem, from, i)), to, i);
}

static void move_run(Cg *c, LLVMTypeRef elem, V to, V from, int64_t n) {
  int64_t lanes = c->t->vl, at = 0;
  if (n == 0) return;
  while (lanes > n) lanes /= 2;
  for (; at + lanes <= n; at += lanes) move(c, elem, to, from, at, lanes);
  if (at < n) move(c, elem, to, from, n - lanes, lanes);
}

bool cg_emit_concat(Cg *c) {
  Join j = join_of(c);
  const Ins *ins = ir_ins(c->f, j.v);
  LLVMTypeRef elem = cg_elem_type(c, (DType)ins->dtype);
  int64_t width = run_of(c, &j, j.v, dim_of(c, j.v, j.axis)), bound = ir_shape_bound(c->f->prog, ins->shape);
  if (bound == 0) return true;
  V rows = cg_i64(c, 1), lo = cg_i64(c, 0), hi;
  for (uint32_t k = 0; k < j.axis; k++) rows = cg_mul(c, rows, cg_dim(c, dim_of(c, j.v, k)));
  if (bound >= SMALL) cg_share(c, rows, width < GRAIN ? GRAIN / width : 1, &lo, &hi);
  else hi = cg_select(c, cg_eq(c, c->worker, lo), rows, lo);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V to = cg_at(c, elem, cg_ptr(c, j.v), cg_mul(c, l.i, cg_i64(c, width)));
    int64_t at = 0;
    for (uint32_t k = 0; k < ins->n_args; k++) {
      Val a = ir_arg(c->f, j.v, k);
      ConcatPart part = ir_concat_part(c->f, j.v, k);
      int64_t run = run_of(c, &j, a, part.count), all = run_of(c, &j, a, dim_of(c, a, j.axis));
      V first = cg_i64(c, part.start * run_of(c, &j, a, ir_dim(c->f->prog, 1)));
      V from = cg_at(c, elem, cg_ptr(c, a), cg_index(c, l.i, cg_i64(c, all), first));
      move_run(c, elem, cg_at(c, elem, to, cg_i64(c, at)), from, run);
      at += run;
    }
  }
  return true;
}
