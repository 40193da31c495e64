// Lanes of several vectors (lanes.h).
#include "codegen/lanes.h"

enum { MAX_LANES = 256 };

static V first_lanes(Cg *c, V x, V y, uint32_t n) {
  uint32_t from[MAX_LANES];
  for (uint32_t i = 0; i < n; i++) from[i] = i;
  return cg_shuffle(c, x, y, from, n);
}

// x with more lanes, which are any of its own
static V widened(Cg *c, V x, uint32_t n) {
  uint32_t from[MAX_LANES], own = LLVMGetVectorSize(LLVMTypeOf(x));
  for (uint32_t i = 0; i < n; i++) from[i] = i % own;
  return cg_shuffle(c, x, x, from, n);
}

V cg_join_vectors(Cg *c, V *x, uint32_t n) {
  uint32_t vl = c->t->vl, half = 1;
  if (n == 1) return x[0];
  while (2 * half < n) half *= 2;
  V front = cg_join_vectors(c, x, half), rest = cg_join_vectors(c, x + half, n - half);
  if (2 * half > n) rest = widened(c, rest, half * vl);  // a shuffle is of two vectors of one length
  return first_lanes(c, front, rest, n * vl);
}

V cg_every_lane(Cg *c, V wide, uint32_t first, uint32_t step) {
  uint32_t from[MAX_LANES];
  for (uint32_t i = 0; i < c->t->vl; i++) from[i] = first + i * step;
  return cg_shuffle(c, wide, LLVMGetPoison(LLVMTypeOf(wide)), from, c->t->vl);
}

V cg_vectors_by_turns(Cg *c, V *x, uint32_t n) {
  uint32_t vl = c->t->vl, from[MAX_LANES];
  if (n == 1) return x[0];
  V wide = cg_join_vectors(c, x, n);
  for (uint32_t i = 0; i < n * vl; i++) from[i] = i % n * vl + i / n;
  return cg_shuffle(c, wide, LLVMGetPoison(LLVMTypeOf(wide)), from, n * vl);
}

V cg_numbers_from(Cg *c, V first, uint32_t step) {
  V steps = cg_imul(c, cg_lane_numbers_of(c->i32, c->t->vl), cg_splat(c, cg_i32(c, (int32_t)step)));
  return cg_iadd(c, cg_splat(c, cg_trunc(c, first, c->i32)), steps);
}

V cg_numbers_below(Cg *c, V numbers, V end) { return cg_below(c, numbers, cg_splat(c, cg_trunc(c, end, c->i32))); }

void cg_store_wide(Cg *c, V wide, uint32_t n, V to, V at, V first, V end) {
  LLVMTypeRef elem = LLVMGetElementType(LLVMTypeOf(wide));
  if (!end) cg_store(c, wide, cg_at(c, elem, to, at));
  for (uint32_t k = 0; end && k < n; k++) {
    V by = cg_i64(c, (int64_t)k * c->t->vl), piece = n == 1 ? wide : cg_every_lane(c, wide, k * c->t->vl, 1);
    V from = cg_add(c, first, by), to_piece = cg_at_any(c, elem, to, cg_add(c, at, by));
    // registers of masks take the numbers that masks of loads have been made of
    V mask =
        c->t->slow_masks ? cg_mask(c, cg_sub(c, end, from)) : cg_numbers_below(c, cg_numbers_from(c, from, 1), end);
    cg_store_masked(c, piece, to_piece, mask);
  }
}
