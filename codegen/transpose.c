// A square of vl x vl floats, transposed in registers by log2(vl) rounds of shuffles.
//
// Lanes are grouped by fours, within which the shuffles of x86 are cheap. Two rounds transpose the 4 x 4 squares of
// four rows in every group; then group G of row set S is to be group S of vectors 4 G to 4 G + 3, and each further
// round moves one bit of G out of the group's number.
//
//   a0 a1 a2 a3        a0 b0 a1 b1        a0 b0 c0 d0
//   b0 b1 b2 b3   1    a2 b2 a3 b3   2    a1 b1 c1 d1
//   c0 c1 c2 c3   ->   c0 d0 c1 d1   ->   a2 b2 c2 d2
//   d0 d1 d2 d3        c2 d2 c3 d3        a3 b3 c3 d3
#include "codegen/cg.h"

enum { MAX_LANES = 64 };

// Of each group of four: the lower or upper two lanes of x and y, taken by turns, `unit` lanes at once.
static V unpack(Cg *c, V x, V y, uint32_t unit, bool upper) {
  uint32_t vl = c->t->vl, from[MAX_LANES];
  for (uint32_t i = 0; i < vl; i++) {
    uint32_t in_group = i % 4, turn = in_group / unit;
    uint32_t lane = i - in_group + (upper ? 2 : 0) + turn / 2 * unit + in_group % unit;
    from[i] = turn % 2 ? vl + lane : lane;
  }
  return cg_shuffle(c, x, y, from, vl);
}

// The groups of x and then those of y with an even number, or an odd one.
static V every_other(Cg *c, V x, V y, bool odd) {
  uint32_t vl = c->t->vl, from[MAX_LANES];
  for (uint32_t i = 0; i < vl; i++) from[i] = (i / 4 * 2 + odd) * 4 + i % 4;
  return cg_shuffle(c, x, y, from, vl);
}

void cg_transpose(Cg *c, V *r) {
  uint32_t vl = c->t->vl, sets = vl / 4;
  V t[MAX_LANES];
  for (uint32_t i = 0; i < vl; i += 2)
    t[i] = unpack(c, r[i], r[i + 1], 1, false), t[i + 1] = unpack(c, r[i], r[i + 1], 1, true);
  for (uint32_t s = 0; s < sets; s++)
    for (uint32_t i = 0; i < 4; i++) r[4 * s + i] = unpack(c, t[4 * s + i / 2], t[4 * s + i / 2 + 2], 2, i % 2);
  for (uint32_t round = sets; round > 1; round /= 2) {
    for (uint32_t s = 0; s < sets; s++)
      for (uint32_t i = 0; i < 4; i++) {
        uint32_t pair = s % (sets / 2) * 2;
        t[4 * s + i] = every_other(c, r[4 * pair + i], r[4 * pair + 4 + i], s >= sets / 2);
      }
    for (uint32_t i = 0; i < vl; i++) r[i] = t[i];
  }
}

// ---- sums over the lanes of vl vectors
// The sum of the lower and the upper half of every item of x, then of y: items of `lanes` lanes, in order within `block` lanes.
static V add_halves(Cg *c, V x, V y, uint32_t lanes, uint32_t block) {
  uint32_t vl = c->t->vl, half = lanes / 2, items = block / lanes, lower[MAX_LANES], upper[MAX_LANES];
  for (uint32_t i = 0; i < vl; i++) {
    uint32_t item = i % block / half;
    lower[i] = i / block * block + item % items * lanes + i % half + (item < items ? 0 : vl);
    upper[i] = lower[i] + half;
  }
  return cg_fadd(c, cg_shuffle(c, x, y, lower, vl), cg_shuffle(c, x, y, upper, vl));
}

// Each round halves the vectors and the lanes of each sum. The last two rounds stay within groups of four lanes: so does u of
// sum 4 t + u, while rounds before order t.
V cg_sum_each(Cg *c, V *r) {
  uint32_t vl = c->t->vl, n = vl / 2, lanes = vl;
  for (; lanes > 4; lanes /= 2, n /= 2)
    for (uint32_t k = 0; k < n; k++) {
      uint32_t x = k / 4 * 8 + k % 4;
      r[k] = add_halves(c, r[x], r[x + 4], lanes, vl);
    }
  for (; lanes > 1; lanes /= 2, n /= 2)
    for (uint32_t k = 0; k < n; k++) r[k] = add_halves(c, r[2 * k], r[2 * k + 1], lanes, 4);
  return r[0];
}

// ---- blocks in memory
enum { T_SRC, T_DST, T_LD, T_ROWS, T_COLS, T_DST_LD };  // parameters

// Fills a whole square of which `rows` rows and `cols` columns are there: the others are 0.
static void copy_partial(Cg *c, V fn, V square) {
  V rows = LLVMGetParam(fn, T_ROWS), last = cg_sub(c, rows, cg_i64(c, 1)), vl = cg_vl(c);
  for (Loop l = cg_each(c, cg_i64(c, 0), vl); cg_next(&l);) {
    // A load of no lanes from a page that is not there costs a microsecond: the last row stands in.
    V row = cg_row(c, LLVMGetParam(fn, T_SRC), cg_min(c, l.i, last), LLVMGetParam(fn, T_LD));
    V mask = cg_mask(c, cg_select(c, cg_lt(c, l.i, rows), LLVMGetParam(fn, T_COLS), cg_i64(c, 0)));
    cg_put(c, cg_load_masked(c, c->vf, row, mask), square, cg_mul(c, l.i, vl));
  }
}

static void make_transpose(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V vl = cg_vl(c), square = cg_stack_block(c, c->f32, (int64_t)c->t->vl * c->t->vl), r[MAX_LANES];
  V from[] = {LLVMGetParam(fn, T_SRC), LLVMGetParam(fn, T_LD)};
  V least = cg_min(c, LLVMGetParam(fn, T_ROWS), LLVMGetParam(fn, T_COLS));
  for (If partial = cg_when_carry(c, cg_lt(c, least, vl), from, 2); cg_then(&partial);) {
    copy_partial(c, fn, square);
    from[0] = square, from[1] = vl;
  }
  for (uint32_t i = 0; i < c->t->vl; i++) r[i] = cg_get(c, c->vf, from[0], cg_mul(c, cg_i64(c, i), from[1]));
  cg_transpose(c, r);
  V dst = LLVMGetParam(fn, T_DST), dst_ld = LLVMGetParam(fn, T_DST_LD);
  for (uint32_t i = 0; i < c->t->vl; i++) cg_put(c, r[i], dst, cg_mul(c, cg_i64(c, i), dst_ld));
  LLVMBuildRetVoid(c->b);
}

void cg_transpose_block(Cg *c, V src, V ld, V rows, V cols, V dst, V dst_ld) {
  cg_call_helper(c, "transpose_block", (V[]){src, dst, ld, rows, cols, dst_ld}, 6, make_transpose, NULL);
}

// ---- to memory that holds more
enum { QUAD = 4 };

// Columns [0, cols) of vl columns, a vector of rows each.
static void store_columns(Cg *c, const V *column, V cols, V dst, V dst_ld) {
  LLVMTypeRef t = LLVMTypeOf(column[0]);
  int64_t n = LLVMGetVectorSize(t);
  for (If all = cg_either(c, cg_eq(c, cols, cg_vl(c))); cg_then(&all);) {
    if (all.is_true) {
      for (uint32_t k = 0; k < c->t->vl; k++) cg_put(c, column[k], dst, cg_mul(c, dst_ld, cg_i64(c, k)));
      continue;
    }
    V room = cg_stack_block(c, c->f32, n * c->t->vl);
    for (uint32_t k = 0; k < c->t->vl; k++) cg_put(c, column[k], room, cg_i64(c, n * k));
    for (Loop l = cg_count(c, cols); cg_next(&l);)
      cg_put(c, cg_get(c, t, room, cg_mul(c, l.i, cg_i64(c, n))), dst, cg_mul(c, l.i, dst_ld));
  }
}

// vl x vl
static void store_square(Cg *c, V src, V ld, V cols, V dst, V dst_ld) {
  V r[MAX_LANES];
  for (uint32_t i = 0; i < c->t->vl; i++) r[i] = cg_get(c, c->vf, src, cg_mul(c, ld, cg_i64(c, i)));
  cg_transpose(c, r);
  store_columns(c, r, cols, dst, dst_ld);
}

// 4 rows: the first two rounds leave the four of column 4 G + i in group G of vector i.
static void store_quad(Cg *c, V src, V ld, V cols, V dst, V dst_ld) {
  V r[QUAD], t[QUAD], column[MAX_LANES];
  for (uint32_t i = 0; i < QUAD; i++) r[i] = cg_get(c, c->vf, src, cg_mul(c, ld, cg_i64(c, i)));
  for (uint32_t i = 0; i < QUAD; i++) t[i] = unpack(c, r[i & ~1u], r[i | 1], 1, i % 2);
  for (uint32_t k = 0; k < c->t->vl; k++) {
    uint32_t i = k % 4;
    column[k] = cg_some_lanes(c, unpack(c, t[i / 2], t[i / 2 + 2], 2, i % 2), k - i, QUAD);
  }
  store_columns(c, column, cols, dst, dst_ld);
}

static void store_one_by_one(Cg *c, V src, V ld, V rows, V cols, V dst, V dst_ld) {
  for (Loop j = cg_count(c, cols); cg_next(&j);)
    for (Loop i = cg_count(c, rows); cg_next(&i);)
      cg_put(c, cg_get(c, c->f32, src, cg_index(c, i.i, ld, j.i)), dst, cg_index(c, j.i, dst_ld, i.i));
}

// Blocks of `n` rows, of which the last one begins where it ends with the rows.
static void store_blocks(Cg *c, V fn, V col, V cols, int64_t n) {
  V ld = LLVMGetParam(fn, T_LD), dst_ld = LLVMGetParam(fn, T_DST_LD), rows = LLVMGetParam(fn, T_ROWS);
  V to = cg_row(c, LLVMGetParam(fn, T_DST), col, dst_ld), last = cg_sub(c, rows, cg_i64(c, n));
  for (Loop l = cg_count_by(c, rows, cg_i64(c, n)); cg_next(&l);) {
    V at = cg_min(c, l.i, last), from = cg_cell(c, LLVMGetParam(fn, T_SRC), at, ld, col);
    (n == QUAD ? store_quad : store_square)(c, from, ld, cols, cg_at(c, c->f32, to, at), dst_ld);
  }
}

static void make_store_transposed(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V vl = cg_vl(c), rows = LLVMGetParam(fn, T_ROWS), all = LLVMGetParam(fn, T_COLS);
  for (If several = cg_either(c, cg_ge(c, rows, cg_i64(c, QUAD))); cg_then(&several);) {
    if (!several.is_true) {
      store_one_by_one(c, LLVMGetParam(fn, T_SRC), LLVMGetParam(fn, T_LD), rows, all, LLVMGetParam(fn, T_DST),
                       LLVMGetParam(fn, T_DST_LD));
      continue;
    }
    for (Loop l = cg_count_by(c, all, vl); cg_next(&l);) {
      V cols = cg_min(c, vl, cg_sub(c, all, l.i));
      for (If whole = cg_either(c, cg_ge(c, rows, vl)); cg_then(&whole);)
        store_blocks(c, fn, l.i, cols, whole.is_true ? c->t->vl : QUAD);
    }
  }
  LLVMBuildRetVoid(c->b);
}

void cg_store_transposed(Cg *c, V src, V ld, V rows, V cols, V dst, V dst_ld) {
  cg_call_helper(c, "store_transposed", (V[]){src, dst, ld, rows, cols, dst_ld}, 6, make_store_transposed, NULL);
}
