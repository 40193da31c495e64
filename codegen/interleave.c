// Interleaving short rows: vl rows in memory to vectors of one element per row, and back (structure of arrays).
//
//   rows of 3:  a0 a1 a2 b0 b1 b2 c0 c1 | c2 d0 ..       a0 b0 c0 d0 .. | a1 b1 c1 d1 .. | a2 b2 c2 d2 ..
//
// Up to FEW elements: loads of whole vectors, then shuffles. Even elements and odd ones part as long as their number is even, then each
// result is picked from all vectors. Longer rows: blocks of vl x vl,
// transposed in registers. Rows beyond n_rows are neither read nor written.
#include "codegen/interleave.h"

enum { FEW = 8, MAX_LANES = 64 };

typedef struct {
  uint32_t width;
  bool out;
} Interleave;

static V f32_at(Cg *c, V base, V i) { return cg_at(c, c->f32, base, i); }

// Shuffle: lane k of the result is element from[k] of the concatenation of n vectors.
static V shuffle(Cg *c, const V *x, uint32_t n, const uint32_t *from) {
  uint32_t vl = c->t->vl;
  uint32_t lane[MAX_LANES];
  V all = x[0];
  for (uint32_t j = n > 1 ? 1 : 0; j < n; j++) {
    for (uint32_t k = 0; k < vl; k++) {
      uint32_t source = from[k] / vl, at = from[k] % vl;
      lane[k] = source == j ? (n > 1 ? vl + at : at) : j > 1 ? k : at;
    }
    all = cg_shuffle(c, all, x[j], lane, vl);
  }
  return all;
}

// y[j]: element j of each row, of rows of w elements in w vectors.
static void part_elements(Cg *c, const V *x, uint32_t w, V *y) {
  uint32_t vl = c->t->vl, lane[MAX_LANES];
  V half[FEW / 2] = {NULL}, part[FEW / 2] = {NULL};
  for (uint32_t odd = 0; w % 2 == 0 && odd < 2; odd++) {
    for (uint32_t k = 0; k < vl; k++) lane[k] = 2 * k + odd;
    for (uint32_t k = 0; k < w / 2; k++) half[k] = cg_shuffle(c, x[2 * k], x[2 * k + 1], lane, vl);
    part_elements(c, half, w / 2, part);
    for (uint32_t j = 0; j < w / 2; j++) y[2 * j + odd] = part[j];
  }
  for (uint32_t j = 0; w % 2 && j < w; j++) {
    for (uint32_t k = 0; k < vl; k++) lane[k] = k * w + j;
    y[j] = shuffle(c, x, w, lane);
  }
}

// And back.
static void join_elements(Cg *c, const V *x, uint32_t w, V *y) {
  uint32_t vl = c->t->vl, lane[MAX_LANES];
  V half[2][FEW / 2] = {{NULL}}, part[FEW / 2] = {NULL};
  for (uint32_t odd = 0; w % 2 == 0 && odd < 2; odd++) {
    for (uint32_t j = 0; j < w / 2; j++) part[j] = x[2 * j + odd];
    join_elements(c, part, w / 2, half[odd]);
  }
  for (uint32_t j = 0; j < w; j++) {
    for (uint32_t k = 0; k < vl; k++) {
      uint32_t e = j * vl + k;
      lane[k] = w % 2 ? e % w * vl + e / w : e % (2 * vl) / 2 + e % 2 * vl;
    }
    y[j] = w % 2 ? shuffle(c, x, w, lane) : cg_shuffle(c, half[0][j / 2], half[1][j / 2], lane, vl);
  }
}

// The rows are `width` contiguous vectors; element e of row k is element k width + e of them.
static void interleave_stream(Cg *c, const Interleave *t, V from, V n_rows, V to) {
  uint32_t vl = c->t->vl, w = t->width;
  V x[FEW], y[FEW], mask[FEW], n = cg_mul(c, n_rows, cg_i64(c, w));
  for (uint32_t j = 0; j < w; j++) {
    V left = cg_sub(c, n, cg_i64(c, j * vl)), none = cg_i64(c, 0);
    V some = cg_gt(c, left, none);
    mask[j] = cg_mask(c, cg_select(c, some, left, none));
    V at = f32_at(c, from, cg_i64(c, (int64_t)j * vl));
    x[j] = t->out ? cg_load(c, c->vf, at) : cg_load_masked(c, c->vf, at, mask[j]);
  }
  if (t->out) join_elements(c, x, w, y);
  else part_elements(c, x, w, y);
  for (uint32_t j = 0; j < w; j++) {
    V at = f32_at(c, to, cg_i64(c, (int64_t)j * vl));
    if (t->out) cg_store_masked(c, y[j], at, mask[j]);
    else cg_store(c, y[j], at);
  }
}

// Elements e0 .. of all rows, at most vl of them.
static void interleave_square(Cg *c, const Interleave *t, V from, V n_rows, V to, uint32_t e0) {
  uint32_t vl = c->t->vl, n = t->width - e0 < vl ? t->width - e0 : vl;
  V x[MAX_LANES], row[MAX_LANES], row_mask[MAX_LANES], last = cg_sub(c, n_rows, cg_i64(c, 1)),
                                                       none = LLVMConstNull(c->vmask);
  for (uint32_t k = 0; k < vl; k++) {
    V number = cg_min(c, cg_i64(c, k), last);  // clamped to the last row: no address out of bounds
    V at = cg_add(c, cg_mul(c, number, cg_i64(c, t->width)), cg_i64(c, e0));
    row[k] = f32_at(c, t->out ? to : from, at);
    row_mask[k] = cg_select(c, cg_lt(c, cg_i64(c, k), n_rows), cg_mask(c, cg_i64(c, n)), none);
  }
  for (uint32_t k = 0; k < vl; k++) {
    V at = f32_at(c, from, cg_i64(c, (int64_t)(e0 + k) * vl));
    if (t->out) x[k] = k < n ? cg_load(c, c->vf, at) : LLVMConstNull(c->vf);
    else x[k] = n == vl ? cg_load(c, c->vf, row[k]) : cg_load_masked(c, c->vf, row[k], cg_mask(c, cg_i64(c, n)));
  }
  cg_transpose(c, x);
  for (uint32_t k = 0; k < vl; k++) {
    if (t->out) cg_store_masked(c, x[k], row[k], row_mask[k]);
    else if (k < n) cg_store(c, x[k], f32_at(c, to, cg_i64(c, (int64_t)(e0 + k) * vl)));
  }
}

static void make_interleave(Cg *c, V fn, void *ctx) {
  const Interleave *t = ctx;
  V from = LLVMGetParam(fn, 0), n_rows = LLVMGetParam(fn, 1), to = LLVMGetParam(fn, 2);
  if (t->width <= FEW) interleave_stream(c, t, from, n_rows, to);
  else
    for (uint32_t e = 0; e < t->width; e += c->t->vl) interleave_square(c, t, from, n_rows, to, e);
  LLVMBuildRetVoid(c->b);
}

static void emit_call(Cg *c, Interleave t, V from, V n_rows, V to) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), (LLVMTypeRef[]){c->ptr, c->i64, c->ptr}, 3, false);
  const char *name = rt_printf(c->mem, "interleave%u%s", t.width, t.out ? ".out" : "");
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_interleave, &t), (V[]){from, n_rows, to}, 3, "");
}

void cg_interleave(Cg *c, uint32_t width, V from, V n_rows, V to) {
  emit_call(c, (Interleave){width, false}, from, n_rows, to);
}
void cg_deinterleave(Cg *c, uint32_t width, V from, V n_rows, V to) {
  emit_call(c, (Interleave){width, true}, from, n_rows, to);
}
