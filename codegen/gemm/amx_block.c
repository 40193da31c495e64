// Blocks of C of 32 x 32 elements by tiles of AMX:
//
//   C 32 x 32 in four tiles += A 32 x 32 (two tiles of each part) x B 32 x 32 (two of each part)
//
// Numbers: docs/experiments/086, 087.
#include "codegen/gemm/amx.h"

#include <string.h>

enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64, TILE_WORDS = TILE_ROWS * TILE_BYTES / 4 };
// C's tiles are 0 to 3, by rows; A's 4 and 5; B's 6 and 7.
enum { TILE_C = 0, TILE_A = 4, TILE_B = 6 };

typedef LLVMValueRef V;

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
  V at = cg_add(c, cg_mul(c, row, cg_i64(c, tile / 2 * TILE_ROWS)), cg_i64(c, tile % 2 * TILE_ROWS));
  amx(c, name, (V[]){number(c, TILE_C + tile), cg_at(c, c->f32, at_c, at), cg_mul(c, row, cg_i64(c, 4))}, 3);
}

// ---- a step: a block of A times a block of B
// Products of parts, so that one operand changes from each to the next, the large ones last.
static const struct {
  uint8_t a, b;
} products[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
enum { N_PRODUCTS = sizeof products / sizeof *products };

// Four products of tiles for two or four loads.
static void multiply_blocks(Cg *c, V a, V b, uint32_t halves) {
  for (uint32_t k = 0; k < N_PRODUCTS; k++) {
    for (uint32_t h = 0; h < halves && (!k || products[k].a != products[k - 1].a); h++)
      load_half(c, TILE_A + h, a, products[k].a, h);
    for (uint32_t h = 0; h < 2 && (!k || products[k].b != products[k - 1].b); h++)
      load_half(c, TILE_B + h, b, products[k].b, h);
    for (uint32_t i = 0; i < halves; i++)
      for (uint32_t j = 0; j < 2; j++) multiply(c, 2 * i + j, i, j);
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

// ---- a block of C: void block(ptr a, ptr b, ptr c, ptr from, i64 c_row, i64 from_row, i64 steps)
enum { K_A, K_B, K_C, K_FROM, K_C_ROW, K_FROM_ROW, K_STEPS, N_K };

// With each step but the last a tile is stored that nobody reads: a CPU that has stored none for some 2,000 cycles takes 1,000 more
// for the first.
static void steps_but_last(Cg *c, const V *arg, V last, uint32_t halves) {
  V nowhere = cg_stack_block(c, c->f32, TILE_BYTES / 4);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), last, cg_i64(c, 1), NULL, 0);
  V at = cg_mul(c, l.i, cg_i64(c, PARTS_BLOCK));
  multiply_blocks(c, cg_at(c, c->f32, arg[K_A], at), cg_at(c, c->f32, arg[K_B], at), halves);
  amx(c, "llvm.x86.tilestored64", (V[]){number(c, TILE_A), nowhere, cg_i64(c, 0)}, 3);
  cg_loop_end(c, &l, NULL);
}

// In the last step tile by tile, so that each is stored while the next ones are computed.
static void make_block(Cg *c, V fn, void *ctx) {
  uint32_t halves = *(uint32_t *)ctx;
  V arg[N_K];
  for (uint32_t k = 0; k < N_K; k++) arg[k] = LLVMGetParam(fn, k);
  for (uint32_t t = 0; t < 2 * halves; t++) move_c(c, "llvm.x86.tileloadd64", t, arg[K_FROM], arg[K_FROM_ROW]);
  V last = cg_sub(c, arg[K_STEPS], cg_i64(c, 1)), at = cg_mul(c, last, cg_i64(c, PARTS_BLOCK));
  steps_but_last(c, arg, last, halves);
  If some;
  cg_if(c, &some, LLVMBuildICmp(c->b, LLVMIntSGE, last, cg_i64(c, 0), ""));
  for (uint32_t t = 0; t < 2 * halves; t++) {
    multiply_for_tile(c, cg_at(c, c->f32, arg[K_A], at), cg_at(c, c->f32, arg[K_B], at), t);
    move_c(c, "llvm.x86.tilestored64", t, arg[K_C], arg[K_C_ROW]);
  }
  cg_else(c, &some);
  for (uint32_t t = 0; t < 2 * halves; t++) move_c(c, "llvm.x86.tilestored64", t, arg[K_C], arg[K_C_ROW]);
  cg_endif(c, &some);
  LLVMBuildRetVoid(c->b);
}

static void call_block(Cg *c, V *arg, uint32_t halves) {
  cg_call_helper(c, halves == 2 ? "amx_32" : "amx_16", arg, N_K, make_block, &halves);
}

// ---- a part of a block: what C has of its rows and columns
// From where sums begin to a block on the stack, or from there to C.
static void copy_part(Cg *c, const V *arg, V rows, V columns, V square, bool back) {
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), rows, cg_i64(c, 1), NULL, 0);
  for (int64_t j = 0; j < 2; j++) {
    V lane = cg_i64(c, j * TILE_ROWS), mask = cg_mask(c, cg_sub(c, columns, lane));
    V at = cg_add(c, cg_mul(c, l.i, arg[back ? K_C_ROW : K_FROM_ROW]), lane);
    V in_c = cg_at(c, c->f32, arg[back ? K_C : K_FROM], at);
    V here = cg_at(c, c->f32, square, cg_add(c, cg_mul(c, l.i, cg_i64(c, PARTS_SIDE)), lane));
    if (back) cg_store_masked(c, cg_load(c, c->vf, here), in_c, mask);
    else cg_store(c, cg_load_masked(c, c->vf, in_c, mask), here);
  }
  cg_loop_end(c, &l, NULL);
}

static void call_part(Cg *c, const V *arg, V rows, V columns, V square) {
  V in_square[N_K];
  memcpy(in_square, arg, sizeof in_square);
  in_square[K_C] = in_square[K_FROM] = square;
  in_square[K_C_ROW] = in_square[K_FROM_ROW] = cg_i64(c, PARTS_SIDE);
  copy_part(c, arg, rows, columns, square, false);
  If few;
  cg_if(c, &few, LLVMBuildICmp(c->b, LLVMIntSLE, rows, cg_i64(c, TILE_ROWS), ""));
  call_block(c, in_square, 1);
  cg_else(c, &few);
  call_block(c, in_square, 2);
  cg_endif(c, &few);
  copy_part(c, arg, rows, columns, square, true);
}

// ---- a row of blocks
static void make_row(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V arg[N_AMX_ARGS], side = cg_i64(c, PARTS_SIDE), square = cg_stack_block(c, c->f32, PARTS_SIDE * PARTS_SIDE);
  for (uint32_t k = 0; k < N_AMX_ARGS; k++) arg[k] = LLVMGetParam(fn, k);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_ceil_div_value(c, arg[AMX_COLUMNS], PARTS_SIDE), cg_i64(c, 1), NULL, 0);
  V first = cg_mul(c, l.i, side), columns = cg_min(c, side, cg_sub(c, arg[AMX_COLUMNS], first));
  V block[N_K] = {[K_A] = arg[AMX_A],
                  [K_B] = cg_at(c, c->f32, arg[AMX_B], cg_mul(c, l.i, arg[AMX_B_PANEL])),
                  [K_C] = cg_at(c, c->f32, arg[AMX_C], first),
                  [K_FROM] = cg_at(c, c->f32, arg[AMX_FROM], cg_mul(c, l.i, arg[AMX_FROM_PANEL])),
                  [K_C_ROW] = arg[AMX_C_ROW],
                  [K_FROM_ROW] = arg[AMX_FROM_ROW],
                  [K_STEPS] = arg[AMX_STEPS]};
  If whole;
  cg_if(c, &whole, LLVMBuildICmp(c->b, LLVMIntSGE, cg_min(c, arg[AMX_ROWS], columns), side, ""));
  call_block(c, block, 2);
  cg_else(c, &whole);
  call_part(c, block, arg[AMX_ROWS], columns, square);
  cg_endif(c, &whole);
  cg_loop_end(c, &l, NULL);
  LLVMBuildRetVoid(c->b);
}

void cg_amx_row(Cg *c, V *arg) { cg_call_helper(c, "amx_row", arg, N_AMX_ARGS, make_row, NULL); }
