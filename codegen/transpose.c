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
// Rows of the square as they are stored; with `partial`, 0 where they or their columns are not there.
static void load_square(Cg *c, LLVMValueRef fn, bool partial, LLVMValueRef *r) {
  LLVMValueRef src = LLVMGetParam(fn, 0), ld = LLVMGetParam(fn, 2), rows = LLVMGetParam(fn, 3);
  LLVMValueRef cols = LLVMGetParam(fn, 4);
  LLVMValueRef last = cg_sub(c, rows, cg_i64(c, 1));
  for (uint32_t i = 0; i < c->t->vl; i++) {
    LLVMValueRef row = cg_i64(c, i), there;
    if (!partial) {
      r[i] = cg_load(c, c->vf, cg_at(c, c->f32, src, cg_mul(c, row, ld)));
      continue;
    }
    // A load of no lanes from a page that is not there costs a microsecond: the last row stands in.
    LLVMValueRef at = cg_at(c, c->f32, src, cg_mul(c, cg_min(c, row, last), ld));
    there = LLVMBuildICmp(c->b, LLVMIntSGT, rows, cg_i64(c, i), "");
    r[i] = cg_load_masked(c, c->vf, at, cg_mask(c, LLVMBuildSelect(c->b, there, cols, cg_i64(c, 0), "")));
  }
}

static void make_transpose(Cg *c, LLVMValueRef fn, void *ctx) {
  (void)ctx;
  LLVMValueRef dst = LLVMGetParam(fn, 1), rows = LLVMGetParam(fn, 3), cols = LLVMGetParam(fn, 4);
  LLVMValueRef dst_ld = LLVMGetParam(fn, 5), way[2][MAX_LANES], r[MAX_LANES];
  LLVMBasicBlockRef from[2];
  uint32_t vl = c->t->vl;
  If whole;
  cg_if(c, &whole, LLVMBuildICmp(c->b, LLVMIntSGE, cg_min(c, rows, cols), cg_i64(c, vl), ""));
  load_square(c, fn, false, way[0]);
  from[0] = LLVMGetInsertBlock(c->b);
  cg_else(c, &whole);
  load_square(c, fn, true, way[1]);
  from[1] = LLVMGetInsertBlock(c->b);
  cg_endif(c, &whole);
  for (uint32_t i = 0; i < vl; i++) {
    r[i] = LLVMBuildPhi(c->b, c->vf, "");
    LLVMAddIncoming(r[i], (LLVMValueRef[]){way[0][i], way[1][i]}, from, 2);
  }
  cg_transpose(c, r);
  for (uint32_t i = 0; i < vl; i++) cg_store(c, r[i], cg_at(c, c->f32, dst, cg_mul(c, cg_i64(c, i), dst_ld)));
  LLVMBuildRetVoid(c->b);
}

void cg_transpose_block(Cg *c, LLVMValueRef src, LLVMValueRef ld, LLVMValueRef rows, LLVMValueRef cols,
                        LLVMValueRef dst, LLVMValueRef dst_ld) {
  LLVMTypeRef types[6] = {c->ptr, c->ptr, c->i64, c->i64, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 6, false);
  LLVMValueRef fn = cg_helper(c, "transpose_block", type, make_transpose, NULL);
  LLVMBuildCall2(c->b, type, fn, (LLVMValueRef[]){src, dst, ld, rows, cols, dst_ld}, 6, "");
}
