// A square of vl x vl floats, transposed in registers by log2(vl) rounds of shuffles.
//
//   a0 a1 a2 a3        a0 b0 a2 b2        a0 b0 c0 d0
//   b0 b1 b2 b3   1    a1 b1 a3 b3   2    a1 b1 c1 d1
//   c0 c1 c2 c3   ->   c0 d0 c2 d2   ->   a2 b2 c2 d2
//   d0 d1 d2 d3        c1 d1 c3 d3        a3 b3 c3 d3
#include "codegen/cg.h"

typedef LLVMValueRef V;

enum { MAX_LANES = 64 };

// Of each pair of groups of s lanes: the first from a and the first of b behind it, or the second ones (`upper`).
static V interleave(Cg *c, V a, V b, uint32_t s, bool upper) {
  V lane[MAX_LANES];
  uint32_t vl = c->t->vl;
  for (uint32_t l = 0; l < vl; l++) {
    uint32_t from = (l & s) ? l - s + vl : l;
    lane[l] = cg_i32(c, (int32_t)(from + (upper ? s : 0)));
  }
  return LLVMBuildShuffleVector(c->b, a, b, LLVMConstVector(lane, vl), "");
}

void cg_transpose(Cg *c, LLVMValueRef *row) {
  uint32_t vl = c->t->vl;
  for (uint32_t s = 1; s < vl; s *= 2)
    for (uint32_t i = 0; i < vl; i++) {
      if (i & s) continue;
      V a = row[i], b = row[i + s];
      row[i] = interleave(c, a, b, s, false);
      row[i + s] = interleave(c, a, b, s, true);
    }
}
