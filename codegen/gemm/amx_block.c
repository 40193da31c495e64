// Blocks of C of 32 x 32 elements by tiles of AMX:
//
//   C 32 x 32 in four tiles += A 32 x 32 (two tiles of each part) x B 32 x 32 (two of each part)
//
#include "codegen/gemm/amx.h"

#include <string.h>

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64, TILE_WORDS = TILE_ROWS * TILE_BYTES / 4 };
// C's tiles are 0 to 3, by rows; A's 4 and 5; B's 6 and 7.
enum { TILE_C = 0, TILE_A = 4, TILE_B = 6 };

// ---- instructions
static V number(Cg *c, int64_t tile) { return LLVMConstInt(c->i8, (uint64_t)tile, false); }

static void amx(Cg *c, const char *name, V *arg, uint32_t n) { cg_call_intrinsic(c, name, NULL, 0, arg, n); }

// All registers: 16 rows of 64 bytes.
void cg_amx_begin(Cg *c) {
  V byte[64];
  for (uint32_t k = 0; k < 64; k++) {
    uint32_t tile_bytes = k >= 16 && k < 16 + 2 * TILES && k % 2 == 0 ? TILE_BYTES : 0;
    byte[k] = number(c, k == 0 ? 1 : k >= 48 && k < 48 + TILES ? TILE_ROWS : tile_bytes);
  }
  V config = cg_stack_block(c, c->i32, 16);
  cg_store(c, LLVMConstVector(byte, 64), config);
  amx(c, "llvm.x86.ldtilecfg", &config, 1);
}

void cg_amx_end(Cg *c) { amx(c, "llvm.x86.tilerelease", NULL, 0); }

static void multiply(Cg *c, int64_t sum, int64_t a, int64_t b) {
  amx(c, "llvm.x86.tdpbf16ps", (V[]){number(c, TILE_C + sum), number(c, TILE_A + a), number(c, TILE_B + b)}, 3);
}

static void load_half(Cg *c, int64_t tile, V block, int64_t part, int64_t half) {
  V from = cg_at(c, c->f32, block, cg_i64(c, (2 * part + half) * TILE_WORDS));
  amx(c, "llvm.x86.tileloadd64", (V[]){number(c, tile), from, cg_i64(c, TILE_BYTES)}, 3);
}

static void move_c(Cg *c, const char *name, int64_t tile, V at_c, V row) {
  V at = cg_index(c, row, cg_i64(c, tile / 2 * TILE_ROWS), cg_i64(c, tile % 2 * TILE_ROWS));
  amx(c, name, (V[]){number(c, TILE_C + tile), cg_at(c, c->f32, at_c, at), cg_mul(c, row, cg_i64(c, 4))}, 3);
}

// ---- a block of B that is packed meanwhile: rows of it with each step
typedef struct {
  V src, ld, dst, prefetch;
  V first, amax;  // the step's first row; the largest magnitudes so far
} Ahead;

static void pack_ahead(Cg *c, Ahead *a, uint32_t nth) {
  V row = cg_add(c, a->first, cg_i64(c, nth));
  cg_parts_prefetch_row(c, a->prefetch, a->ld, row);
  a->amax = cg_parts_pack_row(c, a->src, a->ld, a->dst, row, a->amax);
}

// ---- a step: a block of A times a block of B
// Order of the six products of parts: one operand changes between neighbours, the large products come last.
static const struct {
  uint8_t a, b;
} products[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
enum { N_PRODUCTS = sizeof products / sizeof *products };

// Four products of tiles for two or four loads; then a row that is packed ahead.
static void multiply_blocks(Cg *c, V a, V b, uint32_t halves, Ahead *ahead) {
  for (uint32_t k = 0; k < N_PRODUCTS; k++) {
    for (uint32_t h = 0; h < halves && (!k || products[k].a != products[k - 1].a); h++)
      load_half(c, TILE_A + h, a, products[k].a, h);
    for (uint32_t h = 0; h < 2 && (!k || products[k].b != products[k - 1].b); h++)
      load_half(c, TILE_B + h, b, products[k].b, h);
    for (uint32_t i = 0; i < halves; i++)
      for (uint32_t j = 0; j < 2; j++) multiply(c, 2 * i + j, i, j);
    if (ahead && k < AMX_ROWS_AHEAD) pack_ahead(c, ahead, k);
  }
}

// The same for one tile of C, which is then complete while the others are not: the first parts stay in TILE_A.
static void multiply_for_tile(Cg *c, V a, V b, int64_t tile) {
  int64_t i = tile / 2, j = tile % 2;
  load_half(c, TILE_A, a, 0, i), load_half(c, TILE_B, b, 2, j);
  multiply(c, tile, 0, 0);
  load_half(c, TILE_B + 1, b, 1, j);
  multiply(c, tile, 0, 1);
  load_half(c, TILE_A + 1, a, 1, i);
  multiply(c, tile, 1, 1);
  load_half(c, TILE_B, b, 0, j);
  multiply(c, tile, 1, 0);
  load_half(c, TILE_A + 1, a, 2, i);
  multiply(c, tile, 1, 0);
  multiply(c, tile, 0, 0);
}

// ---- a block of C: void block(ptr a, ptr b, ptr c, ptr from, i64 c_row, i64 from_row, i64 steps), and what is packed ahead:
// ptr src, ptr dst, ptr prefetch, ptr amax, i64 ld
enum {
  K_A,
  K_B,
  K_C,
  K_FROM,
  K_C_ROW,
  K_FROM_ROW,
  K_STEPS,
  N_K,
  K_SRC = N_K,
  K_DST,
  K_PREFETCH,
  K_AMAX,
  K_LD,
  N_K_AHEAD
};
typedef struct {
  uint32_t halves;  // of A: 2, or 1 where at most 16 rows are there
  bool packs_ahead;
} BlockSpec;

// With each step but the last a tile is stored that nobody reads: a CPU that has stored none for some 2,000 cycles takes 1,000 more
// for the first.
static void steps_but_last(Cg *c, const V *arg, V last, const BlockSpec *s, Ahead *ahead) {
  V nowhere = cg_stack_block(c, c->f32, TILE_BYTES / 4);
  V *amax = ahead ? &ahead->amax : NULL;
  for (Loop l = cg_carry(c, cg_i64(c, 0), last, cg_i64(c, 1), amax, ahead ? 1 : 0); cg_next(&l);) {
    V at = cg_mul(c, l.i, cg_i64(c, PARTS_BLOCK));
    if (ahead) ahead->first = cg_mul(c, l.i, cg_i64(c, AMX_ROWS_AHEAD));
    multiply_blocks(c, cg_at(c, c->f32, arg[K_A], at), cg_at(c, c->f32, arg[K_B], at), s->halves, ahead);
    amx(c, "llvm.x86.tilestored64", (V[]){number(c, TILE_A), nowhere, cg_i64(c, 0)}, 3);
  }
}

// Packs what the steps left over.
static void finish_ahead(Cg *c, Ahead *a, V steps) {
  V first = cg_mul(c, steps, cg_i64(c, AMX_ROWS_AHEAD));
  for (Loop l = cg_carry(c, first, cg_i64(c, PARTS_SIDE), cg_i64(c, 1), &a->amax, 1); cg_next(&l);) {
    a->first = l.i;
    pack_ahead(c, a, 0);
  }
}

// In the last step tile by tile, so that each is stored while the next ones are computed.
static void last_step(Cg *c, const V *arg, V last, uint32_t halves) {
  V at = cg_mul(c, last, cg_i64(c, PARTS_BLOCK));
  for (If some = cg_either(c, cg_ge(c, last, cg_i64(c, 0))); cg_then(&some);)
    if (some.is_true) {
      for (uint32_t t = 0; t < 2 * halves; t++) {
        multiply_for_tile(c, cg_at(c, c->f32, arg[K_A], at), cg_at(c, c->f32, arg[K_B], at), t);
        move_c(c, "llvm.x86.tilestored64", t, arg[K_C], arg[K_C_ROW]);
      }
    } else {
      for (uint32_t t = 0; t < 2 * halves; t++) move_c(c, "llvm.x86.tilestored64", t, arg[K_C], arg[K_C_ROW]);
    }
}

static void make_block(Cg *c, V fn, void *ctx) {
  const BlockSpec *s = ctx;
  V arg[N_K_AHEAD];
  for (uint32_t k = 0; k < (s->packs_ahead ? N_K_AHEAD : N_K); k++) arg[k] = LLVMGetParam(fn, k);
  Ahead ahead = {0};
  if (s->packs_ahead)
    ahead = (Ahead){arg[K_SRC], arg[K_LD], arg[K_DST], arg[K_PREFETCH], NULL, cg_load(c, c->vi32, arg[K_AMAX])};
  for (uint32_t t = 0; t < 2 * s->halves; t++) move_c(c, "llvm.x86.tileloadd64", t, arg[K_FROM], arg[K_FROM_ROW]);
  V last = cg_sub(c, arg[K_STEPS], cg_i64(c, 1));
  steps_but_last(c, arg, last, s, s->packs_ahead ? &ahead : NULL);
  if (s->packs_ahead) {
    finish_ahead(c, &ahead, cg_max(c, last, cg_i64(c, 0)));
    cg_store(c, ahead.amax, arg[K_AMAX]);
  }
  last_step(c, arg, last, s->halves);
  LLVMBuildRetVoid(c->b);
}

static void call_block(Cg *c, V *arg, const BlockSpec *s) {
  const char *name = s->packs_ahead ? "amx_32_ahead" : s->halves == 2 ? "amx_32" : "amx_16";
  cg_call_helper(c, name, arg, s->packs_ahead ? N_K_AHEAD : N_K, make_block, (void *)s);
}

// ---- a part of a block: what C has of its rows and columns
// From where sums begin to a block on the stack, or from there to C.
static void copy_part(Cg *c, const V *arg, V rows, V columns, V square, bool back) {
  for (Loop l = cg_count(c, rows); cg_next(&l);) {
    for (int64_t j = 0; j < 2; j++) {
      V lane = cg_i64(c, j * TILE_ROWS), mask = cg_mask(c, cg_sub(c, columns, lane));
      V at = cg_index(c, l.i, arg[back ? K_C_ROW : K_FROM_ROW], lane);
      V in_c = cg_at(c, c->f32, arg[back ? K_C : K_FROM], at);
      V here = cg_cell(c, square, l.i, cg_i64(c, PARTS_SIDE), lane);
      if (back) cg_store_masked(c, cg_load(c, c->vf, here), in_c, mask);
      else cg_store(c, cg_load_masked(c, c->vf, in_c, mask), here);
    }
  }
}

static void call_part(Cg *c, const V *arg, V rows, V columns, V square) {
  V in_square[N_K];
  memcpy(in_square, arg, sizeof in_square);
  in_square[K_C] = in_square[K_FROM] = square;
  in_square[K_C_ROW] = in_square[K_FROM_ROW] = cg_i64(c, PARTS_SIDE);
  copy_part(c, arg, rows, columns, square, false);
  for (If few = cg_either(c, cg_le(c, rows, cg_i64(c, TILE_ROWS))); cg_then(&few);)
    if (few.is_true) call_block(c, in_square, &(BlockSpec){1, false});
    else call_block(c, in_square, &(BlockSpec){2, false});
  copy_part(c, arg, rows, columns, square, true);
}

// ---- a row of blocks
// A whole block of C; a block of the list is packed meanwhile if it is whole, and before otherwise.
static void call_whole(Cg *c, V *arg, V list) {
  BlockSpec plain = {2, false};
  V prefetch;
  if (!list) {
    call_block(c, arg, &plain);
    return;
  }
  for (If more = cg_either(c, cg_ahead_more(c, list)); cg_then(&more);)
    if (more.is_true) {
      PartsBlock b = cg_ahead_take(c, list, &prefetch);
      for (If whole = cg_either(c, cg_ge(c, cg_min(c, b.rows, b.columns), cg_i64(c, PARTS_SIDE))); cg_then(&whole);)
        if (whole.is_true) {
          V with[N_K_AHEAD] = {
              [K_SRC] = b.src, [K_DST] = b.dst, [K_PREFETCH] = prefetch, [K_AMAX] = b.amax, [K_LD] = b.ld};
          memcpy(with, arg, N_K * sizeof *arg);
          call_block(c, with, &(BlockSpec){2, true});
        } else {
          cg_parts_pack_block(c, &b);
          call_block(c, arg, &plain);
        }
    } else {
      call_block(c, arg, &plain);
    }
}

static void make_row(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V arg[N_AMX_ARGS] = {0}, side = cg_i64(c, PARTS_SIDE), square = cg_stack_block(c, c->f32, PARTS_SIDE * PARTS_SIDE);
  for (uint32_t k = 0; k < LLVMCountParams(fn); k++) arg[k] = LLVMGetParam(fn, k);
  for (Loop l = cg_count(c, cg_ceil_div_value(c, arg[AMX_COLUMNS], PARTS_SIDE)); cg_next(&l);) {
    V first = cg_mul(c, l.i, side), columns = cg_min(c, side, cg_sub(c, arg[AMX_COLUMNS], first));
    V block[N_K] = {[K_A] = arg[AMX_A],
                    [K_B] = cg_row(c, arg[AMX_B], l.i, arg[AMX_B_PANEL]),
                    [K_C] = cg_at(c, c->f32, arg[AMX_C], first),
                    [K_FROM] = cg_row(c, arg[AMX_FROM], l.i, arg[AMX_FROM_PANEL]),
                    [K_C_ROW] = arg[AMX_C_ROW],
                    [K_FROM_ROW] = arg[AMX_FROM_ROW],
                    [K_STEPS] = arg[AMX_STEPS]};
    for (If whole = cg_either(c, cg_ge(c, cg_min(c, arg[AMX_ROWS], columns), side)); cg_then(&whole);)
      if (whole.is_true) call_whole(c, block, arg[AMX_AHEAD]);
      else call_part(c, block, arg[AMX_ROWS], columns, square);
  }
  LLVMBuildRetVoid(c->b);
}

void cg_amx_row(Cg *c, V *arg) {
  bool ahead = arg[AMX_AHEAD];
  cg_call_helper(c, ahead ? "amx_row_ahead" : "amx_row", arg, ahead ? N_AMX_ARGS : AMX_AHEAD, make_row, NULL);
}
