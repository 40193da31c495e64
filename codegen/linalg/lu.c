// lu and lu_solve: row operations on matrices as they lie in memory, each by one worker.
//
//   step k of lu:      the pivot is the largest element of column k from row k on; its row changes places with row k;
//                      every row below gets its factor in column k, and loses that times row k
//   step k of a pass:  element k of every right-hand side is known; the rows that are left lose T_ik times it
//
// Many small matrices take a lane each in the steps of lu, with the same bits: lu_by_lanes.c.
// Right-hand sides are lanes of a vector. Row k of X is row perm[k] of the transposed system's, so that nothing is moved twice.
// A single one is substituted as it lies (single.c).
// An element sums in the order of k, whatever the worker: results are the same bits for any number of workers.
#include "codegen/linalg/linalg.h"

// ---- rows
typedef struct {
  V a, b;      // rows
  V a_factor;  // f32
} Rows;

static void swap_vectors(Cg *c, V j, V mask, void *ctx) {
  const Rows *r = ctx;
  V at_a = f32_at(c, r->a, j), at_b = f32_at(c, r->b, j);
  V a = cg_load_masked(c, c->vf, at_a, mask), b = cg_load_masked(c, c->vf, at_b, mask);
  cg_store_masked(c, b, at_a, mask);
  cg_store_masked(c, a, at_b, mask);
}

// b - factor a
static void subtract_vectors(Cg *c, V j, V mask, void *ctx) {
  const Rows *r = ctx;
  V at = f32_at(c, r->b, j), a = cg_load_masked(c, c->vf, f32_at(c, r->a, j), mask);
  V minus = cg_splat(c, cg_fneg(c, r->a_factor));
  cg_store_masked(c, cg_fma(c, minus, a, cg_load_masked(c, c->vf, at, mask)), at, mask);
}

// ---- lu
typedef struct {
  V a, perm, n;
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
  Rows rows = {row_of(c, m, i), row_of(c, m, k), NULL};
  V at_i = cg_at(c, c->i64, m->perm, i), at_k = cg_at(c, c->i64, m->perm, k);
  V of_i = cg_load(c, c->i64, at_i), of_k = cg_load(c, c->i64, at_k);
  cg_store(c, of_k, at_i);
  cg_store(c, of_i, at_k);
  cg_each_vector(c, cg_i64(c, 0), m->n, swap_vectors, &rows);
}

static void eliminate(Cg *c, const Matrix *m, V k) {
  V zero = cg_f32(c, 0), pivot = cg_load(c, c->f32, element_at(c, m, k, k));
  V is_zero = cg_fcmp(c, LLVMRealOEQ, pivot, zero);
  for (Loop l = cg_each(c, next_to(c, k), m->n); cg_next(&l);) {
    V at = element_at(c, m, l.i, k), quotient = cg_fdiv(c, cg_load(c, c->f32, at), pivot);
    V factor = cg_select(c, is_zero, zero, quotient);
    cg_store(c, factor, at);
    Rows rows = {row_of(c, m, k), row_of(c, m, l.i), factor};
    cg_each_vector(c, next_to(c, k), m->n, subtract_vectors, &rows);
  }
}

// void(ptr matrix, ptr perm, ptr sign, i64 n): in place
static void make_lu(Cg *c, V fn, void *ctx) {
  (void)ctx;
  Matrix m = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 1), LLVMGetParam(fn, 3)};
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), sign = cg_f32(c, 1);
  for (Loop l = cg_count(c, m.n); cg_next(&l);) cg_put(c, l.i, m.perm, l.i);
  for (Loop l = cg_carry(c, zero, m.n, one, &sign, 1); cg_next(&l);) {
    V from = pivot_row(c, &m, l.i), moves = cg_ne(c, from, l.i);
    V next = cg_select(c, moves, cg_fneg(c, sign), sign);
    for (If swaps = cg_when(c, moves); cg_then(&swaps);) swap_rows(c, &m, l.i, from);
    eliminate(c, &m, l.i);
    sign = next;
  }
  cg_store(c, sign, LLVMGetParam(fn, 2));
  LLVMBuildRetVoid(c->b);
}

// ---- lu_solve
typedef struct {
  bool ta;
  V lu, perm, x, n, lanes;
  V j, mask;  // of the lanes at hand
} Solve;

static V x_at(Cg *c, const Solve *s, V k) {
  V row = s->ta ? cg_get(c, c->i64, s->perm, k) : k;
  return f32_at(c, s->x, cg_index(c, row, s->lanes, s->j));
}

static V factor_at(Cg *c, const Solve *s, V i, V k) {
  V row = s->ta ? k : i, column = s->ta ? i : k;
  return cg_load(c, c->f32, f32_at(c, s->lu, cg_index(c, row, s->n, column)));
}

// Subtracts the part of row k from rows [from, to); first divides it by the diagonal, unless that is 1.
static void give_row(Cg *c, const Solve *s, V k, V from, V to, bool is_unit) {
  V at = x_at(c, s, k), x = cg_load_masked(c, c->vf, at, s->mask);
  if (!is_unit) {
    x = cg_fdiv(c, x, cg_splat(c, factor_at(c, s, k, k)));
    cg_store_masked(c, x, at, s->mask);
  }
  for (Loop l = cg_each(c, from, to); cg_next(&l);) {
    V below = x_at(c, s, l.i), minus = cg_fneg(c, factor_at(c, s, l.i, k));
    cg_store_masked(c, cg_fma(c, cg_splat(c, minus), x, cg_load_masked(c, c->vf, below, s->mask)), below, s->mask);
  }
}

static void fill_rows(Cg *c, const Solve *s, V b) {
  for (Loop l = cg_count(c, s->n); cg_next(&l);) {
    V row = s->ta ? l.i : cg_get(c, c->i64, s->perm, l.i);
    V from = f32_at(c, b, cg_index(c, row, s->lanes, s->j));
    cg_store_masked(c, cg_load_masked(c, c->vf, from, s->mask), x_at(c, s, l.i), s->mask);
  }
}

// void(ptr lu, ptr perm, ptr b, ptr x, i64 n, i64 lanes)
static void make_solve(Cg *c, V fn, void *ctx) {
  Solve s = {.ta = *(const bool *)ctx, .lu = LLVMGetParam(fn, 0), .perm = LLVMGetParam(fn, 1)};
  s.x = LLVMGetParam(fn, 3), s.n = LLVMGetParam(fn, 4), s.lanes = LLVMGetParam(fn, 5);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), last = cg_sub(c, s.n, one);
  for (Loop lanes = cg_each_by(c, zero, s.lanes, cg_vl(c)); cg_next(&lanes);) {
    s.j = lanes.i, s.mask = cg_mask(c, cg_sub(c, s.lanes, s.j));
    fill_rows(c, &s, LLVMGetParam(fn, 2));
    for (Loop l = cg_count(c, s.n); cg_next(&l);) give_row(c, &s, l.i, next_to(c, l.i), s.n, !s.ta);
    for (Loop l = cg_count(c, s.n); cg_next(&l);) {
      V k = cg_sub(c, last, l.i);
      give_row(c, &s, k, zero, k, s.ta);
    }
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

void cg_emit_lu_solve(Cg *c, Val v) {
  if (cg_lu_solve_takes_lanes(c->f, v)) {
    cg_emit_lu_solve_by_lanes(c, v);
    return;
  }
  Shape s = ir_ins(c->f, v)->shape;
  bool ta = ir_attr(c->f, v, KEY_ta) != NULL;
  V lu = cg_ptr(c, ir_arg(c->f, v, 1)), perm = cg_ptr(c, ir_arg(c->f, v, 2)), b = cg_ptr(c, ir_arg(c->f, v, 3));
  V x = cg_ptr(c, v), n = cg_matrix_size(c, s, 2), lanes = cg_matrix_size(c, s, 1);
  Prog *p = c->f->prog;
  uint32_t rank = ir_rank(p, s);
  bool is_single = ir_dim_is_one(p, ir_dim_at(p, s, rank - 1));
  int64_t most = ir_dim_bound(p, ir_dim_at(p, s, rank - 2));
  V solved = is_single && ta ? cg_block(c, c->f32, cg_larger(most, 1)) : NULL;
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, s), 1); cg_next(&l);) {
    V at = cg_mul(c, l.i, cg_mul(c, n, lanes)), rows = cg_mul(c, l.i, n);
    V arg[] = {
        f32_at(c, lu, cg_mul(c, rows, n)), cg_at(c, c->i64, perm, rows), f32_at(c, b, at), f32_at(c, x, at), n, lanes};
    SingleSolve single = {arg[0], arg[1], arg[2], arg[3], n, solved};
    if (is_single) solve_single(c, &single);
    else cg_call_helper(c, ta ? "lu_solve.ta" : "lu_solve", arg, 6, make_solve, &ta);
  }
}
