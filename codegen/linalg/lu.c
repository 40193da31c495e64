// lu: row operations on matrices as they lie in memory, each by one worker; lu_solve: two triangles of it, and an order of rows.
//
//   step k of lu:      the pivot is the largest element of column k from row k on; its row changes places with row k;
//                      every row below gets its factor in column k, and loses that times row k
//
// BLOCK steps are done in their columns first. Then rows of the others are solved, and those below lose products, in tiles.
// Many small matrices take a lane each in the steps of lu, with the same bits: lu_by_lanes.c.
// Right-hand sides are solved in strips (linalg.h), a single one as it lies (single.c).
// An element sums in the order of k, whatever the worker: results are the same bits for any number of workers.
#include "codegen/linalg/linalg.h"

#include "codegen/gemm/microkernel.h"

enum {
  GROUP = 4,  // rows that lose their part of a row together
  BLOCK = 16  // columns that are factored before the others lose what they give
};

// ---- rows
typedef struct {
  uint32_t n;
  V a, b[GROUP], factor[GROUP];  // rows, and f32
} Rows;

static void swap_vectors(Cg *c, V j, V mask, void *ctx) {
  const Rows *r = ctx;
  V at_a = f32_at(c, r->a, j), at_b = f32_at(c, r->b[0], j);
  V a = cg_load_masked(c, c->vf, at_a, mask), b = cg_load_masked(c, c->vf, at_b, mask);
  cg_store_masked(c, b, at_a, mask);
  cg_store_masked(c, a, at_b, mask);
}

// b - factor a
static void subtract_vectors(Cg *c, V j, V mask, void *ctx) {
  const Rows *r = ctx;
  V a = cg_load_masked(c, c->vf, f32_at(c, r->a, j), mask), y[GROUP];
  for (uint32_t k = 0; k < r->n; k++) y[k] = cg_load_masked(c, c->vf, f32_at(c, r->b[k], j), mask);
  for (uint32_t k = 0; k < r->n; k++) {
    y[k] = cg_fma(c, cg_splat(c, cg_fneg(c, r->factor[k])), a, y[k]);
    cg_store_masked(c, y[k], f32_at(c, r->b[k], j), mask);
  }
}

// ---- lu
typedef struct {
  V a, perm, sign, n;
  CgPanel p;  // BLOCK rows
} Matrix;

static V row_of(Cg *c, const Matrix *m, V i) { return f32_at(c, m->a, cg_mul(c, i, m->n)); }
static V element_at(Cg *c, const Matrix *m, V i, V k) { return f32_at(c, row_of(c, m, i), k); }

static V pivot_row(Cg *c, const Matrix *m, V k) {
  V best[] = {cg_magnitude(c, element_at(c, m, k, k)), k};
  for (Loop l = cg_carry(c, next_to(c, k), m->n, cg_i64(c, 1), best, 2); cg_next(&l);) {
    V size = cg_magnitude(c, element_at(c, m, l.i, k));
    V is_larger = cg_icmp(c, LLVMIntUGT, size, best[0]);
    best[0] = cg_select(c, is_larger, size, best[0]), best[1] = cg_select(c, is_larger, l.i, best[1]);
  }
  return best[1];
}

static void swap_rows(Cg *c, const Matrix *m, V i, V k) {
  Rows rows = {.n = 1, .a = row_of(c, m, i), .b = {row_of(c, m, k)}};
  V at_i = cg_at(c, c->i64, m->perm, i), at_k = cg_at(c, c->i64, m->perm, k);
  V of_i = cg_load(c, c->i64, at_i), of_k = cg_load(c, c->i64, at_k);
  cg_store(c, of_k, at_i);
  cg_store(c, of_i, at_k);
  cg_each_vector(c, cg_i64(c, 0), m->n, swap_vectors, &rows);
  cg_store(c, cg_fneg(c, cg_load(c, c->f32, m->sign)), m->sign);
}

// What rows i, i + 1, .. lose of row k, up to column `end`.
static void subtract(Cg *c, const Matrix *m, V k, V end, V i, uint32_t n) {
  Rows rows = {.n = n, .a = row_of(c, m, k)};
  for (uint32_t r = 0; r < n; r++) {
    V at = cg_add(c, i, cg_i64(c, r));
    rows.b[r] = row_of(c, m, at), rows.factor[r] = cg_load(c, c->f32, element_at(c, m, at, k));
  }
  cg_each_vector(c, next_to(c, k), end, subtract_vectors, &rows);
}

static void eliminate(Cg *c, const Matrix *m, V k, V end) {
  V zero = cg_f32(c, 0), pivot = cg_load(c, c->f32, element_at(c, m, k, k)), rest;
  V is_zero = cg_fcmp(c, LLVMRealOEQ, pivot, zero);
  for (Loop l = cg_each(c, next_to(c, k), m->n); cg_next(&l);) {
    V at = element_at(c, m, l.i, k), quotient = cg_fdiv(c, cg_load(c, c->f32, at), pivot);
    cg_store(c, cg_select(c, is_zero, zero, quotient), at);
  }
  for (Loop l = cg_each_whole(c, next_to(c, k), m->n, GROUP, &rest); cg_next(&l);) subtract(c, m, k, end, l.i, GROUP);
  for (Loop l = cg_each(c, rest, m->n); cg_next(&l);) subtract(c, m, k, end, l.i, 1);
}

static void factor_columns(Cg *c, const Matrix *m, V from, V end) {
  for (Loop l = cg_each(c, from, end); cg_next(&l);) {
    V pivot = pivot_row(c, m, l.i);
    for (If moves = cg_when(c, cg_ne(c, pivot, l.i)); cg_then(&moves);) swap_rows(c, m, l.i, pivot);
    eliminate(c, m, l.i, end);
  }
}

static void negate_panel(Cg *c, const CgPanel *p, V n_rows) {
  for (Loop l = cg_count(c, cg_mul(c, n_rows, cg_i64(c, p->nv))); cg_next(&l);) {
    V at = f32_at(c, p->at, cg_mul(c, l.i, cg_vl(c)));
    cg_store(c, cg_fneg(c, cg_load(c, c->vf, at)), at);
  }
}

// Rows from `end` on lose the products of their columns [from, end) with the panel, the rows of the strip at column `first`.
static void update(Cg *c, const Matrix *m, V from, V end, V first) {
  int64_t vl = c->t->vl, width = cg_panel_width(c, m->p.nv);
  V left = cg_sub(c, m->n, first);
  TileSpec tile = {.mr = c->t->gemm_mr,
                   .nv = m->p.nv,
                   .a_row = TILE_DYN,
                   .a_k = 1,
                   .b_k = width,
                   .b_vec = vl,
                   .c_row = TILE_DYN,
                   .c_vec = vl,
                   .accumulate = true,
                   .mask_from = m->p.nv,
                   .mask_step = vl,
                   .mask_c = true};
  TileArgs args = {.a = element_at(c, m, end, from), .b = m->p.at, .c = element_at(c, m, end, first)};
  args.k = cg_sub(c, end, from), args.n = left, args.a_row = m->n, args.c_row = m->n;
  TileRows rows = {.rows = cg_sub(c, m->n, end), .left = TILE_DYN, .a_block = cg_mul(c, cg_i64(c, tile.mr), m->n)};
  for (If whole = cg_either(c, cg_ge(c, left, cg_i64(c, width))); cg_then(&whole);) {
    tile.mask_from = whole.is_true ? m->p.nv : 0;
    cg_tile_rows(c, &tile, &args, &rows);
  }
}

// The columns behind a block, in strips.
static void update_behind(Cg *c, const Matrix *m, V from, V end) {
  V zero = cg_i64(c, 0), n_rows = cg_sub(c, end, from), width = cg_i64(c, cg_panel_width(c, m->p.nv));
  for (Loop l = cg_each_by(c, end, m->n, width); cg_next(&l);) {
    CgStrip strip = {.at = element_at(c, m, from, l.i), .row = m->n, .lane = cg_i64(c, 1)};
    strip.n_lanes = cg_sub(c, m->n, l.i);
    CgTriangle t = {element_at(c, m, from, from), m->n, cg_i64(c, 1), true};
    cg_panel_fill(c, &m->p, &strip, n_rows);
    cg_substitute(c, &t, &m->p, zero, n_rows);
    cg_panel_drain(c, &m->p, &strip, n_rows);
    negate_panel(c, &m->p, n_rows);
    update(c, m, from, end, l.i);
  }
}

// void(ptr matrix, ptr perm, ptr sign, i64 n): in place
static void make_lu(Cg *c, V fn, void *ctx) {
  (void)ctx;
  Matrix m = {
      LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 2), LLVMGetParam(fn, 3), {.nv = c->t->gemm_nv}};
  m.p.at = cg_block(c, c->f32, BLOCK * cg_panel_width(c, m.p.nv));
  V block = cg_i64(c, BLOCK);
  for (Loop l = cg_count(c, m.n); cg_next(&l);) cg_put(c, l.i, m.perm, l.i);
  cg_store(c, cg_f32(c, 1), m.sign);
  for (Loop l = cg_count_by(c, m.n, block); cg_next(&l);) {
    V end = cg_min(c, m.n, cg_add(c, l.i, block));
    factor_columns(c, &m, l.i, end);
    update_behind(c, &m, l.i, end);
  }
  LLVMBuildRetVoid(c->b);
}

// ---- a worker has matrices of its own
void cg_emit_lu(Cg *c, Val v) {
  if (cg_lu_takes_lanes(c->f, v, c->t)) {
    cg_emit_lu_by_lanes(c, v);
    return;
  }
  Shape s = ir_ins(c->f, v)->shape;
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), n = cg_matrix_size(c, s, 1), square = cg_mul(c, n, n);
  int64_t most = ir_dim_bound(c->f->prog, ir_dim_at(c->f->prog, s, ir_rank(c->f->prog, s) - 1));
  CgPlace lu = {c->f32, c->scratch ? c->scratch : cg_ptr(c, v), square},
          perm = cg_place_of(c, ir_result(v, 1), c->i64, n, most);
  CgPlace sign = cg_place_of(c, ir_result(v, 2), c->f32, cg_i64(c, 1), 1);
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, s), 1); cg_next(&l);) {
    V matrix = cg_place_at(c, &lu, l.i);
    cg_copy_run(c, DT_F32, matrix, f32_at(c, a, cg_mul(c, l.i, square)), square);
    V arg[] = {matrix, cg_place_at(c, &perm, l.i), cg_place_at(c, &sign, l.i), n};
    cg_call_helper(c, "lu", arg, 4, make_lu, NULL);
  }
}

typedef struct {
  V lu, perm, b, x, n;
  V solved;  // of the transposed system, before its rows are moved: n elements
} SingleSolve;

// A = P L U, by rows; transposed, by columns, U' comes first.
static void solve_single(Cg *c, const SingleSolve *s) {
  bool ta = s->solved != NULL;
  V one = cg_i64(c, 1), x = ta ? s->solved : s->x, last = cg_sub(c, s->n, one);
  V last_of_lu = f32_at(c, s->lu, cg_sub(c, cg_mul(c, s->n, s->n), one));
  for (Loop l = cg_count(c, s->n); cg_next(&l);) {
    V row = ta ? l.i : cg_get(c, c->i64, s->perm, l.i);
    cg_store(c, cg_load(c, c->f32, f32_at(c, s->b, row)), f32_at(c, x, l.i));
  }
  CgSingle down = {.t = s->lu, .x = x, .n = s->n, .by_columns = ta, .is_unit = !ta};
  CgSingle up = {last_of_lu, f32_at(c, x, last), s->n, .by_columns = ta, .is_reversed = true, .is_unit = ta};
  cg_substitute_single(c, &down);
  cg_substitute_single(c, &up);
  if (!ta) return;
  for (Loop l = cg_count(c, s->n); cg_next(&l);)
    cg_store(c, cg_load(c, c->f32, f32_at(c, x, l.i)), f32_at(c, s->x, cg_get(c, c->i64, s->perm, l.i)));
}

static CgSolve sides_of(const Fn *f, Val v) {
  Shape s = ir_ins(f, v)->shape;
  uint32_t rank = ir_rank(f->prog, s);
  return (CgSolve){
      .b = ir_arg(f, v, 3), .n = ir_dim_at(f->prog, s, rank - 2), .lanes = ir_dim_at(f->prog, s, rank - 1)};
}

int64_t cg_lu_solve_scratch_bytes(const Fn *f, Val v, const Target *t) {
  CgSolve s = sides_of(f, v);
  return ir_dim_is_one(f->prog, s.lanes) || cg_lu_solve_takes_lanes(f, v) ? 0 : cg_panel_scratch_bytes(f, &s, t);
}

typedef struct {
  bool ta;
  V lu, perm, b, x, n, lanes;
} Sides;

// The rows of a matrix of right-hand sides from `first` on, or from its last one back.
static CgStrip rows_of(Cg *c, const Sides *s, V matrix, V first, bool is_reversed) {
  V last = cg_mul(c, cg_sub(c, s->n, cg_i64(c, 1)), s->lanes), zero = cg_i64(c, 0);
  return (CgStrip){.at = f32_at(c, matrix, is_reversed ? cg_add(c, first, last) : first),
                   .row = is_reversed ? cg_sub(c, zero, s->lanes) : s->lanes,
                   .lane = cg_i64(c, 1),
                   .is_reversed = is_reversed,
                   .n_lanes = cg_sub(c, s->lanes, first)};
}

// L, then U from its end; of the transposed system U', then L' from its end. What is between lies in x.
static void solve_strip(Cg *c, const CgPanel *p, V matrix, V first, void *ctx) {
  const Sides *s = ctx;
  V one = cg_i64(c, 1), zero = cg_i64(c, 0), n = s->n, rows = cg_mul(c, matrix, n);
  V lu = f32_at(c, s->lu, cg_mul(c, rows, n)), end = f32_at(c, lu, cg_sub(c, cg_mul(c, n, n), one));
  V perm = cg_at(c, c->i64, s->perm, rows), at = cg_mul(c, rows, s->lanes), x = f32_at(c, s->x, at);
  V row = s->ta ? one : n, k = s->ta ? n : one;
  CgTriangle down = {lu, row, k, !s->ta}, up = {end, cg_sub(c, zero, row), cg_sub(c, zero, k), s->ta};
  CgStrip from = rows_of(c, s, f32_at(c, s->b, at), first, false), between = rows_of(c, s, x, first, false);
  CgStrip back = rows_of(c, s, x, first, true), to = back;
  if (!s->ta) from.order = perm;
  else to.at = between.at, to.row = between.row, to.order = cg_at(c, c->i64, perm, cg_sub(c, n, one));
  cg_panel_fill(c, p, &from, n);
  cg_substitute(c, &down, p, zero, n);
  cg_panel_drain(c, p, &between, n);
  cg_panel_fill(c, p, &back, n);
  cg_substitute(c, &up, p, zero, n);
  cg_panel_drain(c, p, &to, n);
}

void cg_emit_lu_solve(Cg *c, Val v) {
  if (cg_lu_solve_takes_lanes(c->f, v)) {
    cg_emit_lu_solve_by_lanes(c, v);
    return;
  }
  CgSolve of = sides_of(c->f, v);
  Sides s = {.ta = ir_attr(c->f, v, KEY_ta) != NULL, .n = cg_dim(c, of.n), .lanes = cg_dim(c, of.lanes)};
  s.lu = cg_ptr(c, ir_arg(c->f, v, 1)), s.perm = cg_ptr(c, ir_arg(c->f, v, 2));
  s.b = cg_ptr(c, of.b), s.x = cg_ptr(c, v);
  if (!ir_dim_is_one(c->f->prog, of.lanes)) {
    cg_each_strip(c, &of, solve_strip, &s);
    return;
  }
  V solved = s.ta ? cg_block(c, c->f32, cg_larger(ir_dim_bound(c->f->prog, of.n), 1)) : NULL;
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, ir_ins(c->f, v)->shape), 1); cg_next(&l);) {
    V rows = cg_mul(c, l.i, s.n), lu = f32_at(c, s.lu, cg_mul(c, rows, s.n)), perm = cg_at(c, c->i64, s.perm, rows);
    SingleSolve single = {lu, perm, f32_at(c, s.b, rows), f32_at(c, s.x, rows), s.n, solved};
    solve_single(c, &single);
  }
}
