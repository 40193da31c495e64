// Strategy amx: products of f32 by tiles of AMX, which multiply bf16 and add f32.
//
// Of a b = (a1 + a2 + a3) (b1 + b2 + b3), in parts of 8 bits each (parts.c), six products of parts count; the other three
// are below 2^-24 a b. So sums are as exact as those of f32, in a sixth of what the tiles can do, which is more than twice
// what fused multiply-adds of vectors can. A result below 2^-94 may be off by as much for each k: AMX knows no
// denormal numbers.
//
//   C 32 x 32 in four tiles += A 32 x 32 (two tiles of each part) x B 32 x 32 (two of each part)
//
// Macro tiles, shares and epilogues are those of strategy tiled (macrokernel.c).
#include "codegen/gemm/gemm.h"

#include <stdio.h>
#include <string.h>

// Numbers: docs/experiments/086.
enum {
  LEAST_K = 64,            // of products that are worth parts,
  LEAST_SIDE = 40,         // and half of the harmonic mean of m and n
  A_BYTES = 5 << 18,       // of an MC block's parts: they stay in L2
  SHARED_BYTES = 8 << 20,  // of all of A's parts in scratch
  KC = 256,
  PRIVATE_ROWS =
      256,            // of an MC block that lies on the stack; half as many beside sums that wait there: 400 KB in all,
  MOST_ROWS = 512,    // or in scratch,
  FEWEST_ROWS = 128,  // at least, for
  UNITS = 16          // macro tiles, so that shares are even
};
enum { TILES = 8, TILE_ROWS = 16, TILE_BYTES = 64, TILE_WORDS = TILE_ROWS * TILE_BYTES / 4 };

// ---- the plan
bool cg_gemm_amx_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f;
  double m = (double)p->m_max, n = (double)p->n_max;
  return t->has_amx && p->k_max >= LEAST_K && m * n >= LEAST_SIDE * (m + n);
}

static int64_t parts_bytes(int64_t rows, int64_t k) { return 4 * cg_parts_elements(rows, k); }

static int64_t summed_k(const GemmPlan *p) { return p->k_slice ? p->k_slice : p->k_max; }

// A's blocks on the stack pass by once, and B's rows of a KC block are read from panel to panel. Only a B stored [N, K] is read
// along k, if all of the MC block stays in L2 that long.
static void place_parts(GemmPlan *p) {
  int64_t k = summed_k(p), rows = cg_smaller(p->m_max, PRIVATE_ROWS);
  bool shared = !p->batch.n && parts_bytes(p->m_max, p->k_max) <= SHARED_BYTES;
  p->parts = shared ? PARTS_A_SHARED : PARTS_A_PRIVATE;
  p->kc = cg_gemm_even_kc(k, KC, PARTS_SIDE);
  bool along_k = shared && p->tb && parts_bytes(rows, k) <= A_BYTES;
  p->k_outermost = !shared || (p->kc < k && !along_k);
}

static void choose_rows(GemmPlan *p) {
  int64_t in_l2 = A_BYTES / parts_bytes(PARTS_SIDE, p->k_outermost ? p->kc : summed_k(p)) * PARTS_SIDE;
  int64_t fit = p->parts == PARTS_A_SHARED ? cg_smaller(in_l2, MOST_ROWS)
                : p->epilogue              ? PRIVATE_ROWS / 2
                                           : PRIVATE_ROWS;
  int64_t panels = cg_ceil_div(p->n_max, p->width) * p->batch_max;
  int64_t for_units = cg_ceil_div(p->m_max, cg_ceil_div(UNITS, panels));
  int64_t most = cg_larger(PARTS_SIDE, cg_smaller(fit, cg_larger(FEWEST_ROWS, for_units)));
  p->mc = cg_round_up(cg_ceil_div(p->m_max, cg_ceil_div(p->m_max, most)), PARTS_SIDE);
}

// Of scratch, for a B that the prologue makes; A's parts follow.
static int64_t made_b(const GemmPlan *p) {
  return p->prologue == PROLOGUE_B ? cg_round_up(p->k_max * p->n_max, TN_ALIGN / 4) : 0;
}

void cg_gemm_amx_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->nv = PARTS_SIDE / t->vl, p->width = PARTS_SIDE, p->chains = 1;
  p->mr = cg_tile_height(p->m_max, t->gemm_mr);
  p->pack_a = A_IN_PLACE, p->pack_b = B_PRIVATE;
  place_parts(p);
  choose_rows(p);
  p->strip_rows = p->mc;
  if (p->epilogue == EPILOGUE_FROM_STACK && p->k_outermost && p->kc < p->k_max)
    p->acc_columns = cg_larger(1, ir_f32_in(t->gemm_acc_bytes) / p->mc / p->width) * p->width;
  p->units = cg_ceil_div(p->n_max, p->width) * cg_ceil_div(p->m_max, p->mc);
  if (p->parts == PARTS_A_SHARED) p->b_elements = made_b(p) + cg_parts_shared_elements(p);
}

void cg_gemm_amx_stack(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->acc_columns) g->strip = cg_gemm_on_stack(c, p->mc * (p->acc_columns + GEMM_STRIDE_PAD));
  else if (p->epilogue == EPILOGUE_FROM_STACK) g->strip = cg_gemm_on_stack(c, p->mc * p->width);
  if (p->parts == PARTS_A_PRIVATE) g->a_block = cg_gemm_on_stack(c, cg_parts_elements(p->mc, p->kc));
  g->b_block = cg_gemm_on_stack(c, cg_parts_elements(PARTS_SIDE, p->kc));
  g->parts_most = cg_gemm_on_stack(c, TILE_ROWS);
  g->zeros = cg_gemm_on_stack(c, PARTS_SIDE);
}

// ---- tiles of a block of C
typedef LLVMValueRef V;

static V number(Cg *c, int64_t tile) { return LLVMConstInt(c->i8, (uint64_t)tile, false); }

static void amx(Cg *c, const char *name, V *arg, uint32_t n) { cg_call_intrinsic(c, name, NULL, 0, arg, n); }

static void load_tile(Cg *c, int64_t tile, V from, V row_bytes) {
  amx(c, "llvm.x86.tileloadd64", (V[]){number(c, tile), from, row_bytes}, 3);
}

// C's tiles are 0 to 3, by rows; A's 4 and 5; B's 6 and 7.
enum { TILE_C = 0, TILE_A = 4, TILE_B = 6 };

// All registers: 16 rows of 64 bytes.
static void configure(Cg *c) {
  V byte[64];
  for (uint32_t k = 0; k < 64; k++) {
    uint32_t tile_bytes = k >= 16 && k < 16 + 2 * TILES && k % 2 == 0 ? TILE_BYTES : 0;
    byte[k] = number(c, k == 0 ? 1 : k >= 48 && k < 48 + TILES ? TILE_ROWS : tile_bytes);
  }
  V config = cg_stack_block(c, c->i32, 16);
  cg_store(c, LLVMConstVector(byte, 64), config);
  amx(c, "llvm.x86.ldtilecfg", &config, 1);
}

// Products of parts, so that one operand changes from each to the next, the large ones last.
static const struct {
  uint8_t a, b;
} products[] = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
enum { N_PRODUCTS = sizeof products / sizeof *products };

static void load_part(Cg *c, int64_t tile, V block, uint32_t part, uint32_t halves) {
  for (uint32_t h = 0; h < halves; h++)
    load_tile(c, tile + h, cg_at(c, c->f32, block, cg_i64(c, (2 * (int64_t)part + h) * TILE_WORDS)),
              cg_i64(c, TILE_BYTES));
}

static void multiply_block(Cg *c, V a, V b, uint32_t a_halves) {
  for (uint32_t k = 0; k < N_PRODUCTS; k++) {
    if (!k || products[k].a != products[k - 1].a) load_part(c, TILE_A, a, products[k].a, a_halves);
    if (!k || products[k].b != products[k - 1].b) load_part(c, TILE_B, b, products[k].b, 2);
    for (uint32_t i = 0; i < a_halves; i++)
      for (uint32_t j = 0; j < 2; j++)
        amx(c, "llvm.x86.tdpbf16ps", (V[]){number(c, TILE_C + 2 * i + j), number(c, TILE_A + i), number(c, TILE_B + j)},
            3);
  }
}

static void move_c(Cg *c, const char *name, V at_c, V row, uint32_t halves) {
  V bytes = cg_mul(c, row, cg_i64(c, 4));
  for (int64_t i = 0; i < halves; i++)
    for (int64_t j = 0; j < 2; j++) {
      V at = cg_add(c, cg_mul(c, row, cg_i64(c, i * TILE_ROWS)), cg_i64(c, j * TILE_ROWS));
      amx(c, name, (V[]){number(c, TILE_C + 2 * i + j), cg_at(c, c->f32, at_c, at), bytes}, 3);
    }
}

// void block(..): C = from + A B. From: C itself, or a row for all rows (0 apart), which may be the bias.
// With each step some rows of two lines are prefetched, and a tile is stored that nobody reads: a CPU that has stored none
// for some 2,000 cycles takes 1,000 more for the first.
enum { T_A, T_B, T_C, T_FROM, T_C_ROW, T_FROM_ROW, T_STEPS, T_PREFETCH, T_PREFETCH_ROW, T_PREFETCH_STEP, N_T };
typedef struct {
  uint32_t halves;         // of A: 2, or 1 where at most 16 rows are there
  uint32_t prefetch_rows;  // with a step
} BlockSpec;

static void prefetch_step(Cg *c, const V *arg, V step, uint32_t rows) {
  V from = cg_at(c, c->f32, arg[T_PREFETCH], cg_mul(c, step, arg[T_PREFETCH_STEP]));
  for (int64_t r = 0; r < rows; r++) {
    V row = cg_at(c, c->f32, from, cg_mul(c, cg_i64(c, r), arg[T_PREFETCH_ROW]));
    for (int64_t line = 0; line < 2; line++) cg_prefetch_l2(c, cg_at(c, c->f32, row, cg_i64(c, line * TILE_LINE)));
  }
}

static void make_block(Cg *c, V fn, void *ctx) {
  const BlockSpec *s = ctx;
  V arg[N_T];
  for (uint32_t k = 0; k < N_T; k++) arg[k] = LLVMGetParam(fn, k);
  V nowhere = cg_stack_block(c, c->f32, TILE_WORDS);
  move_c(c, "llvm.x86.tileloadd64", arg[T_FROM], arg[T_FROM_ROW], s->halves);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), arg[T_STEPS], cg_i64(c, 1), NULL, 0);
  V at = cg_mul(c, l.i, cg_i64(c, PARTS_BLOCK));
  prefetch_step(c, arg, l.i, s->prefetch_rows);
  multiply_block(c, cg_at(c, c->f32, arg[T_A], at), cg_at(c, c->f32, arg[T_B], at), s->halves);
  amx(c, "llvm.x86.tilestored64", (V[]){number(c, TILE_A), nowhere, cg_i64(c, TILE_BYTES)}, 3);
  cg_loop_end(c, &l, NULL);
  move_c(c, "llvm.x86.tilestored64", arg[T_C], arg[T_C_ROW], s->halves);
  LLVMBuildRetVoid(c->b);
}

static void call_block(Cg *c, const BlockSpec *s, V *arg) {
  char name[64];
  snprintf(name, sizeof name, "amx%u.p%u", s->halves * TILE_ROWS, s->prefetch_rows);
  cg_call_helper(c, name, arg, N_T, make_block, (void *)s);
}

// ---- rows of blocks: those of the block's function, then A from panel to panel, rows, columns
enum { R_A_PANEL = N_T, R_ROWS, R_COLUMNS, N_R };

// The rows and columns that C has: from where sums begin to a block on the stack, or from there to C.
static void copy_part(Cg *c, const V *arg, V rows, V square, bool back) {
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), rows, cg_i64(c, 1), NULL, 0);
  for (int64_t j = 0; j < 2; j++) {
    V lane = cg_i64(c, j * TILE_ROWS), mask = cg_mask(c, cg_sub(c, arg[R_COLUMNS], lane));
    V at = cg_add(c, cg_mul(c, l.i, arg[back ? T_C_ROW : T_FROM_ROW]), lane);
    V in_c = cg_at(c, c->f32, arg[back ? T_C : T_FROM], at);
    V here = cg_at(c, c->f32, square, cg_add(c, cg_mul(c, l.i, cg_i64(c, PARTS_SIDE)), lane));
    if (back) cg_store_masked(c, cg_load(c, c->vf, here), in_c, mask);
    else cg_store(c, cg_load_masked(c, c->vf, in_c, mask), here);
  }
  cg_loop_end(c, &l, NULL);
}

static void call_part(Cg *c, const BlockSpec *s, const V *arg, V rows, V square) {
  V in_square[N_T];
  memcpy(in_square, arg, sizeof in_square);
  in_square[T_C] = in_square[T_FROM] = square;
  in_square[T_C_ROW] = in_square[T_FROM_ROW] = cg_i64(c, PARTS_SIDE);
  copy_part(c, arg, rows, square, false);
  If few;
  cg_if(c, &few, LLVMBuildICmp(c->b, LLVMIntSLE, rows, cg_i64(c, TILE_ROWS), ""));
  call_block(c, &(BlockSpec){1, s->prefetch_rows}, in_square);
  cg_else(c, &few);
  call_block(c, s, in_square);
  cg_endif(c, &few);
  copy_part(c, arg, rows, square, true);
}

static V unless(Cg *c, V cond, V x, V otherwise) { return LLVMBuildSelect(c->b, cond, otherwise, x, ""); }

static void make_rows(Cg *c, V fn, void *ctx) {
  const BlockSpec *s = ctx;
  V arg[N_R], side = cg_i64(c, PARTS_SIDE), zero = cg_i64(c, 0);
  V square = cg_stack_block(c, c->f32, PARTS_SIDE * PARTS_SIDE);
  for (uint32_t k = 0; k < N_R; k++) arg[k] = LLVMGetParam(fn, k);
  Loop l;
  cg_loop_begin(c, &l, zero, cg_ceil_div_value(c, arg[R_ROWS], PARTS_SIDE), cg_i64(c, 1), NULL, 0);
  V below[N_R], first = cg_mul(c, l.i, side), rows = cg_min(c, side, cg_sub(c, arg[R_ROWS], first));
  memcpy(below, arg, sizeof below);
  below[T_A] = cg_at(c, c->f32, arg[T_A], cg_mul(c, l.i, arg[R_A_PANEL]));
  below[T_C] = cg_at(c, c->f32, arg[T_C], cg_mul(c, first, arg[T_C_ROW]));
  below[T_FROM] = cg_at(c, c->f32, arg[T_FROM], cg_mul(c, first, arg[T_FROM_ROW]));
  V next = cg_mul(c, l.i, cg_i64(c, s->prefetch_rows)), done = LLVMBuildICmp(c->b, LLVMIntSGE, next, side, "");
  V ahead = cg_at(c, c->f32, arg[T_PREFETCH], cg_mul(c, next, arg[T_PREFETCH_ROW]));
  below[T_PREFETCH] = unless(c, done, ahead, arg[T_B]);  // what is near already
  below[T_PREFETCH_ROW] = unless(c, done, arg[T_PREFETCH_ROW], zero);
  below[T_PREFETCH_STEP] = unless(c, done, arg[T_PREFETCH_STEP], zero);
  If whole;
  cg_if(c, &whole, LLVMBuildICmp(c->b, LLVMIntSGE, cg_min(c, rows, arg[R_COLUMNS]), side, ""));
  call_block(c, s, below);
  cg_else(c, &whole);
  call_part(c, s, below, rows, square);
  cg_endif(c, &whole);
  cg_loop_end(c, &l, NULL);
  LLVMBuildRetVoid(c->b);
}

static V parts_of_a(Gemm *g, const GemmMacroTile *u, V *panel) {
  Cg *c = g->c;
  V side = cg_i64(c, PARTS_SIDE), block = cg_i64(c, PARTS_BLOCK);
  if (g->p->parts == PARTS_A_PRIVATE) {
    *panel = cg_i64(c, g->p->kc / PARTS_SIDE * PARTS_BLOCK);
    return g->a_block;
  }
  *panel = cg_mul(c, cg_ceil_div_value(c, g->k, PARTS_SIDE), block);
  V at = cg_add(c, cg_mul(c, cg_div(c, u->m0, side), *panel), cg_mul(c, cg_div(c, u->k0, side), block));
  return cg_at(c, c->f32, g->a_parts, at);
}

// What is packed next: the panel's next KC block, or the panel behind this one. Rows of it are spread over as many blocks of
// rows as there may be.
static void set_prefetch(Gemm *g, const GemmMacroTile *u, V *arg, BlockSpec *s) {
  Cg *c = g->c;
  V side = cg_i64(c, PARTS_SIDE), ld = g->p->tb ? g->k : g->n, n = cg_add(c, u->n0, side), k = u->k0;
  if (!g->p->k_outermost) {
    V next = cg_add(c, u->k0, cg_i64(c, g->p->kc)), is_last = LLVMBuildICmp(c->b, LLVMIntSGE, next, u->k_end, "");
    n = unless(c, is_last, u->n0, n), k = unless(c, is_last, next, u->k_begin);
  }
  V at = g->p->tb ? cg_add(c, cg_mul(c, n, ld), k) : cg_add(c, cg_mul(c, k, ld), n);
  arg[T_PREFETCH] = cg_at(c, c->f32, cg_gemm_b_matrix(g, u->batch), at);
  arg[T_PREFETCH_ROW] = ld;
  arg[T_PREFETCH_STEP] = g->p->tb ? side : cg_mul(c, side, ld);
  int64_t blocks = g->p->mc / PARTS_SIDE;
  s->prefetch_rows = 4;
  while (s->prefetch_rows * blocks < PARTS_SIDE) s->prefetch_rows *= 2;
}

void cg_amx_tile(Gemm *g, const GemmMacroTile *u, const TileArgs *args, V first) {
  Cg *c = g->c;
  BlockSpec s = {.halves = 2};
  V arg[N_R] = {[T_B] = g->b_block, [T_C] = args->c, [T_C_ROW] = args->c_row};
  V row = g->bias ? args->bias : g->zeros;
  arg[T_FROM] = LLVMBuildSelect(c->b, first, row, args->c, "");
  arg[T_FROM_ROW] = LLVMBuildSelect(c->b, first, cg_i64(c, 0), args->c_row, "");
  arg[T_A] = parts_of_a(g, u, &arg[R_A_PANEL]);
  arg[T_STEPS] = cg_ceil_div_value(c, u->n_k, PARTS_SIDE);
  arg[R_ROWS] = u->rows, arg[R_COLUMNS] = u->columns;
  set_prefetch(g, u, arg, &s);
  char name[64];
  snprintf(name, sizeof name, "amx_rows.p%u", s.prefetch_rows);
  cg_call_helper(c, name, arg, N_R, make_rows, &s);
}

void cg_gemm_amx_emit(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  configure(c);
  for (int64_t j = 0; j < 2; j++)
    cg_store(c, cg_splat(c, cg_f32(c, 0)), cg_at(c, c->f32, g->zeros, cg_i64(c, j * TILE_ROWS)));
  if (p->parts == PARTS_A_SHARED) {
    g->a_parts = cg_at(c, c->f32, g->own, cg_i64(c, made_b(p)));
    cg_parts_pack_a_shared(g);
    cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  }
  cg_gemm_tiled_emit(g);
  amx(c, "llvm.x86.tilerelease", NULL, 0);
}
