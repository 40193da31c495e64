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

typedef LLVMValueRef V;

enum { MAX_LANES = 64 };

static V shuffle(Cg *c, V x, V y, const uint32_t *from) {
  V lane[MAX_LANES];
  for (uint32_t i = 0; i < c->t->vl; i++) lane[i] = cg_i32(c, (int32_t)from[i]);
  return LLVMBuildShuffleVector(c->b, x, y, LLVMConstVector(lane, c->t->vl), "");
}

// Of each group of four: the lower or upper two lanes of x and y, taken by turns, `unit` lanes at once.
static V unpack(Cg *c, V x, V y, uint32_t unit, bool upper) {
  uint32_t vl = c->t->vl, from[MAX_LANES];
  for (uint32_t i = 0; i < vl; i++) {
    uint32_t in_group = i % 4, turn = in_group / unit;
    uint32_t lane = i - in_group + (upper ? 2 : 0) + turn / 2 * unit + in_group % unit;
    from[i] = turn % 2 ? vl + lane : lane;
  }
  return shuffle(c, x, y, from);
}

// The groups of x and then those of y with an even number, or an odd one.
static V every_other(Cg *c, V x, V y, bool odd) {
  uint32_t vl = c->t->vl, from[MAX_LANES];
  for (uint32_t i = 0; i < vl; i++) from[i] = (i / 4 * 2 + odd) * 4 + i % 4;
  return shuffle(c, x, y, from);
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

// ---- blocks in memory
enum { T_SRC, T_DST, T_LD, T_ROWS, T_COLS, T_DST_LD };

// Fills a whole square of which `rows` rows and `cols` columns are there: the others are 0.
static void copy_partial(Cg *c, V fn, V square) {
  V rows = LLVMGetParam(fn, T_ROWS), last = cg_sub(c, rows, cg_i64(c, 1)), vl = cg_i64(c, c->t->vl);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), vl, cg_i64(c, 1), NULL, 0);
  // A load of no lanes from a page that is not there costs a microsecond: the last row stands in.
  V row = cg_at(c, c->f32, LLVMGetParam(fn, T_SRC), cg_mul(c, cg_min(c, l.i, last), LLVMGetParam(fn, T_LD)));
  V is_there = LLVMBuildICmp(c->b, LLVMIntSLT, l.i, rows, "");
  V mask = cg_mask(c, LLVMBuildSelect(c->b, is_there, LLVMGetParam(fn, T_COLS), cg_i64(c, 0), ""));
  cg_store(c, cg_load_masked(c, c->vf, row, mask), cg_at(c, c->f32, square, cg_mul(c, l.i, vl)));
  cg_loop_end(c, &l, NULL);
}

static void make_transpose(Cg *c, LLVMValueRef fn, void *ctx) {
  (void)ctx;
  V vl = cg_i64(c, c->t->vl), square = cg_stack_block(c, c->f32, (int64_t)c->t->vl * c->t->vl), r[MAX_LANES];
  LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(c->b)};
  If partial;
  cg_if(c, &partial,
        LLVMBuildICmp(c->b, LLVMIntSLT, cg_min(c, LLVMGetParam(fn, T_ROWS), LLVMGetParam(fn, T_COLS)), vl, ""));
  copy_partial(c, fn, square);
  from[1] = LLVMGetInsertBlock(c->b);
  cg_endif(c, &partial);
  V src = cg_phi(c, LLVMGetParam(fn, T_SRC), square, from), ld = cg_phi(c, LLVMGetParam(fn, T_LD), vl, from);
  for (uint32_t i = 0; i < c->t->vl; i++) r[i] = cg_load(c, c->vf, cg_at(c, c->f32, src, cg_mul(c, cg_i64(c, i), ld)));
  cg_transpose(c, r);
  V dst = LLVMGetParam(fn, T_DST), dst_ld = LLVMGetParam(fn, T_DST_LD);
  for (uint32_t i = 0; i < c->t->vl; i++) cg_store(c, r[i], cg_at(c, c->f32, dst, cg_mul(c, cg_i64(c, i), dst_ld)));
  LLVMBuildRetVoid(c->b);
}

void cg_transpose_block(Cg *c, LLVMValueRef src, LLVMValueRef ld, LLVMValueRef rows, LLVMValueRef cols,
                        LLVMValueRef dst, LLVMValueRef dst_ld) {
  cg_call_helper(c, "transpose_block", (LLVMValueRef[]){src, dst, ld, rows, cols, dst_ld}, 6, make_transpose, NULL);
}
