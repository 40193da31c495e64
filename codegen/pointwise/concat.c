// A concat of short runs: straight-line copies for a row of the result.
//
//   %c = concat %a, %b {axis=1} : f32[n,24]      of f32[n,20] and f32[n,4]
//
//   for each row:   c[0..16) = a[0..16)   c[4..20) = a[4..20)   c[20..24) = b[0..4)
//
// Of a concat of concats each line, a row of an inner one, is copied from what that one reads:
//
//   %u = concat %x, %x {axis=2}               for each row of n, for each operand of %v, for each of its lines:
//   %v = concat %u, %u {axis=1}                 the two runs of %x
//
// A run is copied by whole vectors; its tail by one more vector that overlaps the last, or by halves, quarters .. of
// a vector.
#include "codegen/cg.h"
#include "codegen/pointwise/pointwise.h"
#include "ir/passes/plan.h"
#include "ir/slice.h"

enum { SMALL = 4096, GRAIN = 2048, FEW_ROWS = 16 };

typedef struct {
  Val v;
  uint32_t axis, rank;
} Join;

static Join join_of(const Cg *c, Val v) {
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

// The concat whose result the kernel stores.
static Val whole_of(const Cg *c) { return (Val){c->k->first + c->k->n - 1}; }

static bool is_inside(const Cg *c, Val v) { return v.i >= c->k->first && v.i < whole_of(c).i; }

bool cg_is_run_copy(const Cg *c) {
  Val v = whole_of(c);
  if (ir_ins(c->f, v)->op != OP_concat) return false;
  if (c->k->n > 1) return ir_is_nested_concat(c->f, (Val){c->k->first}, v);
  if (ir_is_interleaved(c->f, v)) return false;
  int64_t n = ir_concat_moves(c->f, v, c->t->vl);
  return n >= 0 && n <= CONCAT_MOST_MOVES;
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

// Row `row` of the concat.
static void move_row(Cg *c, const Join *j, LLVMTypeRef elem, V to, V row) {
  int64_t at = 0;
  for (uint32_t k = 0; k < ir_ins(c->f, j->v)->n_args; k++) {
    Val a = ir_arg(c->f, j->v, k);
    ConcatPart part = ir_concat_part(c->f, j->v, k);
    int64_t run = run_of(c, j, a, part.count), all = run_of(c, j, a, dim_of(c, a, j->axis));
    if (run == 0) continue;
    V first = cg_i64(c, part.start * run_of(c, j, a, ir_dim(c->f->prog, 1)));
    V from = cg_at(c, elem, cg_ptr(c, a), cg_index(c, row, cg_i64(c, all), first));
    move_run(c, elem, cg_at(c, elem, to, cg_i64(c, at)), from, run);
    at += run;
  }
}

// Which of `rows`, of `width` elements each, the worker copies
static void share(Cg *c, V rows, int64_t width, bool is_small, V *lo, V *hi) {
  *lo = cg_i64(c, 0);
  if (is_small) *hi = cg_select(c, cg_eq(c, c->worker, *lo), rows, *lo);
  else cg_share(c, rows, width < GRAIN ? GRAIN / width : 1, lo, hi);
}

static V rows_between(Cg *c, Val v, uint32_t from, uint32_t to) {
  V rows = cg_i64(c, 1);
  for (uint32_t k = from; k < to; k++) rows = cg_mul(c, rows, cg_dim(c, dim_of(c, v, k)));
  return rows;
}

static void emit_rows(Cg *c, Join j, LLVMTypeRef elem, bool is_small) {
  int64_t width = run_of(c, &j, j.v, dim_of(c, j.v, j.axis));
  V lo, hi;
  share(c, rows_between(c, j.v, 0, j.axis), width, is_small, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);)
    move_row(c, &j, elem, cg_at(c, elem, cg_ptr(c, j.v), cg_mul(c, l.i, cg_i64(c, width))), l.i);
}

// ---- a concat of concats
// Its operands are lines: rows of the concats inside, or as much of what is in memory as lies behind the axis.
typedef struct {
  Join j;
  LLVMTypeRef elem;
  int64_t run;        // elements of one along the axis
  bool shares_lines;  // workers share the lines of each operand, not rows
} Nest;

static void move_lines(Cg *c, const Nest *n, uint32_t k, V row, V to) {
  Val a = ir_arg(c->f, n->j.v, k);
  ConcatPart part = ir_concat_part(c->f, n->j.v, k);
  bool inside = is_inside(c, a);
  Join in = inside ? join_of(c, a) : n->j;
  int64_t width = inside ? run_of(c, &in, a, dim_of(c, a, in.axis)) : n->run;
  V each = inside ? rows_between(c, a, n->j.axis + 1, in.axis) : cg_i64(c, 1);
  V lines = cg_mul(c, cg_dim(c, part.count), each), lo = cg_i64(c, 0), hi = lines;
  V first = cg_mul(c, each, cg_index(c, row, cg_dim(c, dim_of(c, a, n->j.axis)), cg_i64(c, part.start)));
  if (n->shares_lines) share(c, lines, width, false, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V line = cg_add(c, first, l.i), at = cg_at(c, n->elem, to, cg_mul(c, l.i, cg_i64(c, width)));
    if (inside) move_row(c, &in, n->elem, at, line);
    else move_run(c, n->elem, at, cg_at(c, n->elem, cg_ptr(c, a), cg_mul(c, line, cg_i64(c, width))), width);
  }
}

static void emit_nest(Cg *c, Join j, LLVMTypeRef elem, bool is_small) {
  Nest n = {.j = j, .elem = elem, .run = run_of(c, &j, j.v, ir_dim(c->f->prog, 1))};
  int64_t bound = 1, row = ir_shape_bound(c->f->prog, ir_ins(c->f, j.v)->shape);
  for (uint32_t k = 0; k < j.axis; k++) bound *= ir_dim_bound(c->f->prog, dim_of(c, j.v, k));
  n.shares_lines = !is_small && bound < FEW_ROWS;
  V rows = rows_between(c, j.v, 0, j.axis), lo = cg_i64(c, 0), hi = rows;
  if (!n.shares_lines) share(c, rows, row / bound, is_small, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V at = cg_mul(c, l.i, cg_dim(c, dim_of(c, j.v, j.axis)));
    for (uint32_t k = 0; k < ir_ins(c->f, j.v)->n_args; k++) {
      move_lines(c, &n, k, l.i, cg_at(c, elem, cg_ptr(c, j.v), cg_mul(c, at, cg_i64(c, n.run))));
      at = cg_add(c, at, cg_dim(c, ir_concat_part(c->f, j.v, k).count));
    }
  }
}

bool cg_emit_concat(Cg *c) {
  Join j = join_of(c, whole_of(c));
  const Ins *ins = ir_ins(c->f, j.v);
  int64_t bound = ir_shape_bound(c->f->prog, ins->shape);
  LLVMTypeRef elem = cg_elem_type(c, (DType)ins->dtype);
  if (bound == 0) return true;
  if (c->k->n > 1) emit_nest(c, j, elem, bound < SMALL);
  else emit_rows(c, j, elem, bound < SMALL);
  return true;
}
