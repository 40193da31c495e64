// Each f32 as three bf16 parts, of which x is the sum but for a rounding of 2^-25 x: the operands of amx.c.
//
//   x1 = bf16(x)    x2 = bf16(x - x1)    x3 = bf16(x - x1 - x2)          the differences are exact
//
// A block is 32 x 32 elements, [part][half][16 rows][16 pairs]: two tiles of each part. A row of A's tiles is a row of A;
// one of B's is two values of k, as AMX multiplies pairs. Which two is free as long as both operands agree: k and
// k + 16, so that pairs are made of whole vectors.
//
//   panel of 32 rows (A) or columns (B):   block of 32 k | block of the next 32 k | ..
//
// Numbers of 2^32 and more, infinities and NaN do not go through parts: infinity times a part that is 0 would be NaN, and
// AMX takes denormal numbers for 0, which a large factor would show. What packs a block tells the largest, and a macro
// tile with a wide operand is computed by the f32 microkernel.
#include "codegen/gemm/gemm.h"

enum { HALF = PARTS_SIDE / 2, PART = PARTS_SIDE * HALF /* 32-bit words of a part of a block */ };
enum { WIDE = 159 << 23 };  // the bits of 2^32

int64_t cg_parts_elements(int64_t rows, int64_t k) {
  return cg_ceil_div(rows, PARTS_SIDE) * cg_ceil_div(k, PARTS_SIDE) * PARTS_BLOCK;
}

int64_t cg_parts_shared_elements(const GemmPlan *p) {
  int64_t parts = cg_parts_elements(p->m_max, p->k_max);
  return parts + parts / PARTS_BLOCK * HALF;
}

// ---- a block
typedef LLVMValueRef V;

static V words(Cg *c, V x) { return LLVMBuildBitCast(c->b, x, c->vi32, ""); }
static V word(Cg *c, uint32_t bits) { return cg_splat(c, cg_i32(c, (int32_t)bits)); }
static V upper(Cg *c, V x) { return LLVMBuildAnd(c->b, x, word(c, 0xffff0000), ""); }

// To nearest, in the upper half of a word whose lower half is what was left.
static V rounded(Cg *c, V x) { return LLVMBuildAdd(c->b, words(c, x), word(c, 0x8000), ""); }

static void split(Cg *c, V x, V *part) {
  for (uint32_t k = 0; k < PARTS; k++) {
    part[k] = rounded(c, x);
    if (k + 1 == PARTS) return;
    part[k] = upper(c, part[k]);
    x = LLVMBuildFSub(c->b, x, LLVMBuildBitCast(c->b, part[k], c->vf, ""), "");
  }
}

static V larger(Cg *c, V most, V x) {
  V magnitude = LLVMBuildAnd(c->b, words(c, x), word(c, 0x7fffffff), "");
  return cg_call_intrinsic(c, "llvm.umax", &c->vi32, 1, (V[]){most, magnitude}, 2);
}

// 16 rows of a tile of each part: rows `ld` apart, the second elements of pairs `second` behind the first.
static V split_rows(Cg *c, V src, V ld, V second, V dst, V most) {
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, HALF), cg_i64(c, 1), &most, 1);
  V from = cg_at(c, c->f32, src, cg_mul(c, l.i, ld)), to = cg_at(c, c->f32, dst, cg_mul(c, l.i, cg_i64(c, HALF)));
  V x = cg_load(c, c->vf, from), y = cg_load(c, c->vf, cg_at(c, c->f32, from, second)), low[PARTS], high[PARTS];
  split(c, x, low), split(c, y, high);
  for (uint32_t k = 0; k < PARTS; k++) {
    V first = LLVMBuildLShr(c->b, low[k], word(c, 16), "");
    cg_store(c, LLVMBuildOr(c->b, first, upper(c, high[k]), ""), cg_at(c, c->f32, to, cg_i64(c, k * PART)));
  }
  most = larger(c, larger(c, l.carry[0], x), y);
  cg_loop_end(c, &l, &most);
  return l.out[0];
}

// ---- a block of an operand, from where it lies
typedef struct {
  bool is_b, transposed;  // transposed: stored by columns of what the block has as rows
} BlockKind;
enum { B_DST, B_SRC, B_LD, B_ROWS, B_COLS, B_MOST, N_B };  // rows and columns as stored, from src on; most: 16 words

// A square in memory, zero beyond `rows` and `cols`.
static void copy_square(Cg *c, const V *arg, V square) {
  V vl = cg_i64(c, HALF), last = cg_sub(c, arg[B_ROWS], cg_i64(c, 1));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, PARTS_SIDE), cg_i64(c, 1), NULL, 0);
  V from = cg_at(c, c->f32, arg[B_SRC], cg_mul(c, cg_min(c, l.i, last), arg[B_LD]));
  V is_there = LLVMBuildICmp(c->b, LLVMIntSLT, l.i, arg[B_ROWS], "");
  V cols = LLVMBuildSelect(c->b, is_there, arg[B_COLS], cg_i64(c, 0), "");
  V to = cg_at(c, c->f32, square, cg_mul(c, l.i, cg_i64(c, PARTS_SIDE)));
  cg_store(c, cg_load_masked(c, c->vf, from, cg_mask(c, cols)), to);
  V more = cg_load_masked(c, c->vf, cg_at(c, c->f32, from, vl), cg_mask(c, cg_sub(c, cols, vl)));
  cg_store(c, more, cg_at(c, c->f32, to, vl));
  cg_loop_end(c, &l, NULL);
}

static void transpose_square(Cg *c, const V *arg, V square) {
  for (int64_t row = 0; row < PARTS_SIDE; row += HALF)
    for (int64_t col = 0; col < PARTS_SIDE; col += HALF) {
      V from = cg_at(c, c->f32, arg[B_SRC], cg_add(c, cg_mul(c, cg_i64(c, row), arg[B_LD]), cg_i64(c, col)));
      cg_transpose_block(c, from, arg[B_LD], cg_sub(c, arg[B_ROWS], cg_i64(c, row)),
                         cg_sub(c, arg[B_COLS], cg_i64(c, col)),
                         cg_at(c, c->f32, square, cg_i64(c, col * PARTS_SIDE + row)), cg_i64(c, PARTS_SIDE));
    }
}

static void split_square(Cg *c, const V *arg, BlockKind kind, V src, V ld) {
  V most = cg_load(c, c->vi32, arg[B_MOST]), half = cg_i64(c, HALF), halves = cg_mul(c, half, ld);
  for (int64_t h = 0; h < 2; h++) {
    V from = cg_at(c, c->f32, src, cg_mul(c, cg_i64(c, h), kind.is_b ? half : halves));
    V to = cg_at(c, c->f32, arg[B_DST], cg_i64(c, h * HALF * HALF));
    most = split_rows(c, from, ld, kind.is_b ? halves : half, to, most);
  }
  cg_store(c, most, arg[B_MOST]);
}

static void make_block(Cg *c, V fn, void *ctx) {
  BlockKind kind = *(BlockKind *)ctx;
  V arg[N_B], side = cg_i64(c, PARTS_SIDE), square = cg_stack_block(c, c->f32, PARTS_SIDE * PARTS_SIDE);
  for (uint32_t k = 0; k < N_B; k++) arg[k] = LLVMGetParam(fn, k);
  if (kind.transposed) {
    transpose_square(c, arg, square);
    split_square(c, arg, kind, square, side);
  } else {
    If part;
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(c->b)};
    cg_if(c, &part, LLVMBuildICmp(c->b, LLVMIntSLT, cg_min(c, arg[B_ROWS], arg[B_COLS]), side, ""));
    copy_square(c, arg, square);
    from[1] = LLVMGetInsertBlock(c->b);
    cg_endif(c, &part);
    V src = cg_phi(c, arg[B_SRC], square, from);
    split_square(c, arg, kind, src, cg_phi(c, arg[B_LD], side, from));
  }
  LLVMBuildRetVoid(c->b);
}

static void call_block(Cg *c, BlockKind kind, V *arg) {
  const char *name = kind.is_b ? kind.transposed ? "parts_b_t" : "parts_b" : kind.transposed ? "parts_a_t" : "parts_a";
  cg_call_helper(c, name, arg, N_B, make_block, &kind);
}

// ---- operands
// The block of A at u->m0 and u->k0, of which so many rows and k are there; `most` grows.
static void pack_block_of_a(Gemm *g, const GemmMacroTile *u, V rows, V n_k, V dst, V most) {
  Cg *c = g->c;
  bool by_k = g->p->ta;
  V ld = by_k ? cg_gemm_tile_a_k(g) : cg_gemm_tile_a_row(g);
  call_block(c, (BlockKind){false, by_k},
             (V[]){dst, cg_gemm_tile_a(g, u), ld, by_k ? n_k : rows, by_k ? rows : n_k, most});
}

static V no_lanes(Cg *c) { return cg_splat(c, cg_i32(c, 0)); }

static V is_wide(Cg *c, V most) {
  V largest = cg_call_intrinsic(c, "llvm.vector.reduce.umax", &c->vi32, 1, &most, 1);
  return LLVMBuildICmp(c->b, LLVMIntUGE, largest, cg_i32(c, WIDE), "");
}

static V blocks_of(Cg *c, V n) { return cg_ceil_div_value(c, n, PARTS_SIDE); }

// After A's parts in scratch: 16 words for each block, what pack_block_of_a tells of it.
static V shared_most(Gemm *g, V block) {
  Cg *c = g->c;
  V begin = cg_i64(c, cg_parts_elements(g->p->m_max, g->p->k_max));
  return cg_at(c, c->f32, g->a_parts, cg_add(c, begin, cg_mul(c, block, cg_i64(c, HALF))));
}

void cg_parts_pack_a_shared(Gemm *g) {
  Cg *c = g->c;
  V steps = blocks_of(c, g->k), side = cg_i64(c, PARTS_SIDE), lo, hi;
  cg_share(c, cg_mul(c, blocks_of(c, g->m), steps), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  GemmMacroTile u = {.m0 = cg_mul(c, cg_div(c, l.i, steps), side), .k0 = cg_mul(c, cg_gemm_rem(c, l.i, steps), side)};
  V most = shared_most(g, l.i);
  cg_store(c, no_lanes(c), most);
  pack_block_of_a(g, &u, cg_sub(c, g->m, u.m0), cg_sub(c, g->k, u.k0),
                  cg_at(c, c->f32, g->a_parts, cg_mul(c, l.i, cg_i64(c, PARTS_BLOCK))), most);
  cg_loop_end(c, &l, NULL);
}

V cg_parts_is_wide(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  V steps = blocks_of(c, g->k), first = cg_mul(c, cg_div(c, u->m0, cg_i64(c, PARTS_SIDE)), steps), none = no_lanes(c);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_mul(c, blocks_of(c, u->rows), steps), cg_i64(c, 1), &none, 1);
  V most = cg_load(c, c->vi32, shared_most(g, cg_add(c, first, l.i)));
  most = cg_call_intrinsic(c, "llvm.umax", &c->vi32, 1, (V[]){l.carry[0], most}, 2);
  cg_loop_end(c, &l, &most);
  return is_wide(c, l.out[0]);
}

V cg_parts_pack_a(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  V most = g->parts_most, side = cg_i64(c, PARTS_SIDE), per_panel = cg_i64(c, g->p->kc / PARTS_SIDE * PARTS_BLOCK);
  cg_store(c, no_lanes(c), most);
  Loop panel, step;
  cg_loop_begin(c, &panel, cg_i64(c, 0), u->rows, side, NULL, 0);
  cg_loop_begin(c, &step, cg_i64(c, 0), u->n_k, side, NULL, 0);
  GemmMacroTile at = *u;
  at.m0 = cg_add(c, u->m0, panel.i), at.k0 = cg_add(c, u->k0, step.i);
  V nth = cg_mul(c, cg_div(c, panel.i, side), per_panel);
  nth = cg_add(c, nth, cg_mul(c, cg_div(c, step.i, side), cg_i64(c, PARTS_BLOCK)));
  pack_block_of_a(g, &at, cg_sub(c, u->rows, panel.i), cg_sub(c, u->n_k, step.i), cg_at(c, c->f32, g->a_block, nth),
                  most);
  cg_loop_end(c, &step, NULL);
  cg_loop_end(c, &panel, NULL);
  return is_wide(c, cg_load(c, c->vi32, most));
}

V cg_parts_pack_b(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  bool by_n = g->p->tb;
  V most = g->parts_most, side = cg_i64(c, PARTS_SIDE), b = cg_gemm_b_matrix(g, u->batch), ld = by_n ? g->k : g->n;
  cg_store(c, no_lanes(c), most);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n_k, side, NULL, 0);
  V k = cg_add(c, u->k0, l.i), left = cg_sub(c, u->n_k, l.i);
  V src = cg_at(c, c->f32, b, by_n ? cg_add(c, cg_mul(c, u->n0, ld), k) : cg_add(c, cg_mul(c, k, ld), u->n0));
  V dst = cg_at(c, c->f32, g->b_block, cg_mul(c, cg_div(c, l.i, side), cg_i64(c, PARTS_BLOCK)));
  call_block(c, (BlockKind){true, by_n}, (V[]){dst, src, ld, by_n ? u->columns : left, by_n ? left : u->columns, most});
  cg_loop_end(c, &l, NULL);
  return is_wide(c, cg_load(c, c->vi32, most));
}
