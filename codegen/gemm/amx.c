// Strategy amx: products of f32 by tiles of AMX, which multiply bf16 and add f32.
//
// Split bf16: of a b = (a1 + a2 + a3) (b1 + b2 + b3), terms of 8 bits each (parts.c), six products count; the
// other three are below 2^-24 a b. So sums are as exact as those of f32, at a sixth of the tiles' peak, which
// is more than twice that of vector FMAs. A result below 2^-94 may be off by that much for each k: AMX
// flushes denormal numbers.
//
// As tiled, shares are panels of 32 columns x MC blocks of rows (macrokernel.c), but a worker computes its panels by NC blocks:
//
//   for each NC block of columns, for each KC block (or k outermost):
//     B's NC block as parts, which stay in L2               packed from rows of NC columns: the hardware prefetches them
//     for each 32 rows of the MC block: A's parts pass by, in L1 meanwhile, and C is written by rows (amx_block.c)
//
// A B stored [K, N] is packed ahead, into the other of two buffers: a block of the next NC block with each block of C, by the
// vectors that tiles leave idle (pack_ahead.c).
// B's parts are in the worker's memory, or all of them in scratch where they are small and k is one KC block; A's are in scratch
// up to SHARED_A_BYTES, else KC block by KC block in the worker's memory.
#include "codegen/gemm/amx.h"
#include "codegen/tuning.h"

enum { TUNED_AMX(TUNE) };

_Static_assert((KC / PARTS_SIDE - 1) * AMX_ROWS_AHEAD <= PARTS_SIDE,
               "a block that is packed meanwhile ends with the steps");

// ---- the plan
bool cg_gemm_amx_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f;
  double m = (double)p->m_max, n = (double)p->n_max;
  return t->has_amx && p->k_max >= LEAST_K && m * n >= LEAST_SIDE * (m + n);
}

static int64_t parts_bytes(int64_t rows, int64_t k) { return 4 * cg_parts_elements(rows, k); }

static bool one_block(const GemmPlan *p) { return p->kc >= p->k_max; }

static bool keeps_accumulators(const GemmPlan *p) { return p->epilogue == EPILOGUE_FROM_STACK && !one_block(p); }

// B stored [N, K]: rows are read from end to end, so a long KC block is packed where it costs no memory for
// A.
static void place_parts(GemmPlan *p) {
  bool shared_a = !p->batch.n && parts_bytes(p->m_max, p->k_max) <= SHARED_A_BYTES;
  p->kc = cg_gemm_even_kc(p->k_slice ? p->k_slice : p->k_max, p->tb && shared_a ? LONG_KC : KC, PARTS_SIDE);
  p->parts = PARTS_PRIVATE;
  if (shared_a) p->parts |= PARTS_A_SHARED;
  bool shared_b = !p->batch.n && one_block(p) && parts_bytes(p->n_max, p->k_max) <= SHARED_B_BYTES;
  if (shared_b) p->parts |= PARTS_B_SHARED;
}

static void choose_rows(GemmPlan *p) {
  int64_t fit = !(p->parts & PARTS_A_SHARED) || keeps_accumulators(p) ? PRIVATE_ROWS : MOST_ROWS;
  int64_t panels = cg_ceil_div(p->n_max, p->width) * p->batch_max;
  int64_t for_units = cg_ceil_div(p->m_max, cg_ceil_div(UNITS, panels));
  int64_t most = cg_smaller(fit, cg_larger(FEWEST_ROWS, for_units));
  p->mc = cg_round_up(cg_ceil_div(p->m_max, cg_ceil_div(p->m_max, most)), PARTS_SIDE);
}

static bool packs_ahead(const GemmPlan *p) { return !p->tb && !(p->parts & PARTS_B_SHARED); }

static int64_t n_buffers(const GemmPlan *p) { return packs_ahead(p) ? 2 : 1; }

static void choose_columns(GemmPlan *p) {
  int64_t most = NC_BYTES / n_buffers(p) / parts_bytes(PARTS_SIDE, p->kc);
  if (keeps_accumulators(p)) most = cg_smaller(most, ACC_BYTES / 4 / p->mc / p->width);
  if (p->parts & PARTS_B_SHARED) most = cg_ceil_div(p->n_max, p->width);
  p->nc = cg_smaller(cg_larger(most, 1), cg_ceil_div(p->n_max, p->width)) * p->width;
}

// Scratch offset of a B that the prologue makes; the split parts follow: A's, then B's.
static int64_t made_b(const GemmPlan *p) {
  return p->prologue == PROLOGUE_B ? cg_round_up(p->k_max * p->n_max, TN_ALIGN / 4) : 0;
}
static int64_t shared_a(const GemmPlan *p) {
  return p->parts & PARTS_A_SHARED ? cg_parts_shared_elements(p->m_max, p->k_max) : 0;
}
static int64_t shared_b(const GemmPlan *p) {
  return p->parts & PARTS_B_SHARED ? cg_parts_shared_elements(p->n_max, p->k_max) : 0;
}

void cg_gemm_amx_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->nv = PARTS_SIDE / t->vl, p->width = PARTS_SIDE, p->chains = 1;
  p->mr = cg_tile_height(p->m_max, t->gemm_mr);
  p->pack_a = A_IN_PLACE, p->pack_b = B_PRIVATE;
  place_parts(p);
  choose_rows(p);
  choose_columns(p);
  p->k_outermost = !keeps_accumulators(p) && (packs_ahead(p) || !(p->parts & PARTS_A_SHARED));
  p->units = cg_ceil_div(p->n_max, p->width) * cg_ceil_div(p->m_max, p->mc);
  if (p->parts != PARTS_PRIVATE) p->b_elements = made_b(p) + shared_a(p) + shared_b(p);
}

// Sums of an NC block for the epilogue: of 32 rows, or of all of the MC block until the last KC block.
void cg_gemm_amx_stack(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  int64_t row = p->nc + GEMM_STRIDE_PAD;
  if (keeps_accumulators(p)) g->strip = cg_worker_block(c, p->mc * row);
  else if (p->epilogue == EPILOGUE_FROM_STACK) g->strip = cg_worker_block(c, PARTS_SIDE * row);
  if (!(p->parts & PARTS_A_SHARED)) {
    g->a_block = cg_worker_block(c, cg_parts_elements(p->mc, p->kc));
    g->a_amax = cg_gemm_on_stack(c, p->mc / PARTS_SIDE * PARTS_AMAX);
  }
  if (!(p->parts & PARTS_B_SHARED)) {
    g->b_parts = cg_worker_block(c, n_buffers(p) * cg_parts_elements(p->nc, p->kc));
    g->b_amax = cg_gemm_on_stack(c, n_buffers(p) * p->nc / PARTS_SIDE * PARTS_AMAX);
  }
  if (packs_ahead(p)) g->ahead = cg_block(c, c->i64, AHEAD_WORDS), g->buffer = cg_block(c, c->i64, 1);
  g->b_block = cg_gemm_on_stack(c, p->kc * p->width);
  g->zeros = cg_gemm_on_stack(c, PARTS_SIDE);
}

// ---- 32 rows of an NC block, for a KC block
static V parts_at(Gemm *g, V base, V panel, V k0) {
  Cg *c = g->c;
  V steps = cg_ceil_div_value(c, g->k, PARTS_SIDE);
  V block = cg_index(c, panel, steps, cg_div(c, k0, cg_i64(c, PARTS_SIDE)));
  return cg_row(c, base, block, cg_i64(c, PARTS_BLOCK));
}

static void find_a(Gemm *g, const GemmMacroTile *u, V nth, V *arg) {
  Cg *c = g->c;
  V per_panel = cg_i64(c, cg_parts_elements(PARTS_SIDE, g->p->kc));
  arg[AMX_A] = g->p->parts & PARTS_A_SHARED ? parts_at(g, g->a_parts, cg_div(c, u->m0, cg_i64(c, PARTS_SIDE)), u->k0)
                                            : cg_row(c, g->a_block, nth, per_panel);
}

static void find_b(Gemm *g, const GemmMacroTile *u, V *arg) {
  Cg *c = g->c;
  arg[AMX_B] = g->b_parts, arg[AMX_B_PANEL] = cg_i64(c, cg_parts_elements(PARTS_SIDE, g->p->kc));
  if (!(g->p->parts & PARTS_B_SHARED)) return;
  arg[AMX_B] = parts_at(g, g->b_parts, u->panel, u->k0);
  arg[AMX_B_PANEL] = cg_mul(c, cg_ceil_div_value(c, g->k, PARTS_SIDE), cg_i64(c, PARTS_BLOCK));
}

static void by_tiles(Gemm *g, const GemmMacroTile *u, V nth, V is_first) {
  Cg *c = g->c;
  V arg[N_AMX_ARGS], zero = cg_i64(c, 0), side = cg_i64(c, PARTS_SIDE);
  V begin = g->bias ? cg_at(c, c->f32, g->bias, u->n0) : g->zeros;
  find_a(g, u, nth, arg), find_b(g, u, arg);
  arg[AMX_C] = cg_gemm_tile_c(g, u), arg[AMX_C_ROW] = cg_gemm_tile_c_row(g);
  arg[AMX_FROM] = cg_select(c, is_first, begin, arg[AMX_C]);
  arg[AMX_FROM_ROW] = cg_select(c, is_first, zero, arg[AMX_C_ROW]);
  arg[AMX_FROM_PANEL] = g->bias ? side : cg_select(c, is_first, zero, side);
  arg[AMX_STEPS] = cg_ceil_div_value(c, u->n_k, PARTS_SIDE);
  arg[AMX_ROWS] = u->rows, arg[AMX_COLUMNS] = u->columns;
  arg[AMX_AHEAD] = g->ahead;
  cg_amx_row(c, arg);
}

static void by_vectors(Gemm *g, const GemmMacroTile *u) {
  cg_gemm_pack_b(g, cg_gemm_b_matrix(g, u->batch), u->k0, u->n_k, u->n0, g->b_block);
  cg_gemm_tile(g, u);
}

// A panel out of the range of split bf16 is computed by vectors, whatever NC block it is in: NC blocks follow
// from the team's shares.
static void by_panels(Gemm *g, const GemmMacroTile *u, V nth, V is_first) {
  Cg *c = g->c;
  V side = cg_i64(c, PARTS_SIDE), b_parts = g->b_parts, per_panel = cg_i64(c, cg_parts_elements(PARTS_SIDE, g->p->kc));
  GemmMacroTile panel = *u;
  bool shared = g->p->parts & PARTS_B_SHARED;
  for (Loop l = cg_count(c, cg_ceil_div_value(c, u->columns, PARTS_SIDE)); cg_next(&l);) {
    V column = cg_mul(c, l.i, side);
    panel.panel = cg_add(c, u->panel, l.i), panel.n0 = cg_add(c, u->n0, column);
    panel.columns = cg_min(c, side, cg_sub(c, u->columns, column));
    V b_exceeds_range =
        shared ? cg_parts_b_exceeds_range(g, panel.n0, side) : cg_parts_panel_exceeds_range(g, g->b_amax, l.i);
    for (If wide = cg_either(c, cg_or(c, g->a_exceeds_range, b_exceeds_range)); cg_then(&wide);)
      if (wide.is_true) {
        by_vectors(g, &panel);
      } else {
        if (!shared) g->b_parts = cg_row(c, b_parts, l.i, per_panel);
        by_tiles(g, &panel, nth, is_first);
        g->b_parts = b_parts;
      }
  }
}

// The sums are complete where this is the last KC block.
static void finish_rows(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  if (!g->epilogue) return;
  for (If last = cg_when(c, cg_ge(c, cg_add(c, u->k0, u->n_k), u->k_end)); cg_then(&last);)
    cg_gemm_epilogue(g, u->row, u->rows, u->n0, u->columns, cg_gemm_tile_c(g, u), cg_gemm_tile_c_row(g));
}

// ---- an NC block: columns from n0 on, for the KC block at hand
static void compute(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  V side = cg_i64(c, PARTS_SIDE), strip = g->strip, is_first = cg_eq(c, u->k0, u->k_begin);
  if (!(g->p->parts & PARTS_B_SHARED))
    g->b_exceeds_range = cg_parts_exceed_range(g, g->b_amax, cg_ceil_div_value(c, u->columns, PARTS_SIDE));
  GemmMacroTile rows = *u;
  for (Loop l = cg_count_by(c, u->rows, side); cg_next(&l);) {
    rows.m0 = cg_add(c, u->m0, l.i), rows.row = cg_add(c, u->row, cg_gemm_rows(g, l.i));
    rows.rows = cg_min(c, side, cg_sub(c, u->rows, l.i));
    if (keeps_accumulators(g->p)) g->strip = cg_row(c, strip, l.i, cg_gemm_tile_c_row(g));
    for (If wide = cg_either(c, cg_or(c, g->a_exceeds_range, g->b_exceeds_range)); cg_then(&wide);)
      if (wide.is_true) by_panels(g, &rows, cg_div(c, l.i, side), is_first);
      else by_tiles(g, &rows, cg_div(c, l.i, side), is_first);
    finish_rows(g, &rows);
  }
  g->strip = strip;
}

static void set_columns(Gemm *g, GemmMacroTile *u, V panel, V end) {
  Cg *c = g->c;
  u->panel = panel;
  u->n0 = u->nc0 = cg_mul(c, panel, cg_i64(c, PARTS_SIDE));
  u->columns = cg_sub(c, cg_min(c, cg_mul(c, end, cg_i64(c, PARTS_SIDE)), g->n), u->n0);
}

static void pack_a(Gemm *g, const GemmMacroTile *u) {
  if (!(g->p->parts & PARTS_A_SHARED)) g->a_exceeds_range = cg_parts_pack_a(g, u);
}

// ---- a panel range: equal NC blocks of the panels [p0, p1), for all rows of the MC block
typedef struct {
  V p0, p1, step;  // panels of an NC block
} NcBlocks;

static void nc_block_at(Gemm *g, GemmMacroTile *u, const NcBlocks *all, V panel) {
  set_columns(g, u, panel, cg_min(g->c, all->p1, cg_add(g->c, panel, all->step)));
}

static void block_at(Gemm *g, GemmMacroTile *u, V k0) {
  Cg *c = g->c;
  u->k0 = k0, u->n_k = cg_min(c, cg_i64(c, g->p->kc), cg_sub(c, u->k_end, k0));
}

// The block that is computed after u, or any existing one; i1: is there one?
static V next_of(Gemm *g, const GemmMacroTile *u, const NcBlocks *all, GemmMacroTile *next) {
  Cg *c = g->c;
  V panel = cg_add(c, u->panel, all->step), k = cg_add(c, u->k0, cg_i64(c, g->p->kc));
  V more_n = cg_lt(c, panel, all->p1);
  V more_k = cg_lt(c, k, u->k_end);
  V panel_or_last = cg_select(c, more_n, panel, u->panel), k_or_last = cg_select(c, more_k, k, u->k0);
  *next = *u;
  if (g->p->k_outermost) {
    nc_block_at(g, next, all, cg_select(c, more_n, panel, all->p0));
    block_at(g, next, cg_select(c, more_n, u->k0, k_or_last));
  } else {
    nc_block_at(g, next, all, cg_select(c, more_k, u->panel, panel_or_last));
    block_at(g, next, cg_select(c, more_k, k, u->k_begin));
  }
  return cg_or(c, more_n, more_k);
}

typedef struct {
  V parts, amax;
} Buffer;
static Buffer buffer(Gemm *g, V number) {
  Cg *c = g->c;
  V parts = cg_i64(c, cg_parts_elements(g->p->nc, g->p->kc));
  V amax = cg_i64(c, g->p->nc / PARTS_SIDE * PARTS_AMAX);
  return (Buffer){cg_row(c, g->b_parts, number, parts), cg_row(c, g->b_amax, number, amax)};
}

static void nc_block_packing_next(Gemm *g, const GemmMacroTile *u, const NcBlocks *all) {
  Cg *c = g->c;
  V number = cg_load(c, c->i64, g->buffer), other = cg_sub(c, cg_i64(c, 1), number), b_parts = g->b_parts,
    b_amax = g->b_amax;
  Buffer here = buffer(g, number), there = buffer(g, other);
  GemmMacroTile next;
  V some = next_of(g, u, all, &next);
  cg_ahead_begin(g, g->ahead, &next, some, there.parts, there.amax);
  g->b_parts = here.parts, g->b_amax = here.amax;
  compute(g, u);
  g->b_parts = b_parts, g->b_amax = b_amax;
  cg_ahead_finish(c, g->ahead);
  cg_store(c, other, g->buffer);
}

static void nc_block(Gemm *g, const GemmMacroTile *u, const NcBlocks *all) {
  if (g->ahead) {
    nc_block_packing_next(g, u, all);
    return;
  }
  if (!(g->p->parts & PARTS_B_SHARED)) cg_parts_pack_b(g, u, g->b_parts, g->b_amax);
  compute(g, u);
}

static void pack_first(Gemm *g, GemmMacroTile first, const NcBlocks *all) {
  Cg *c = g->c;
  cg_gemm_k_range(g, first.batch, &first.k_begin, &first.k_end);
  nc_block_at(g, &first, all, all->p0);
  block_at(g, &first, first.k_begin);
  cg_store(c, cg_i64(c, 0), g->buffer);
  cg_parts_pack_b(g, &first, g->b_parts, g->b_amax);
}

static NcBlocks equal_nc_blocks(Gemm *g, V p0, V p1) {
  Cg *c = g->c;
  V most = cg_i64(c, g->p->nc / PARTS_SIDE), n = cg_sub(c, p1, p0), one = cg_i64(c, 1);
  V blocks = cg_max(c, cg_div(c, cg_add(c, n, cg_sub(c, most, one)), most), one);
  return (NcBlocks){p0, p1, cg_max(c, cg_div(c, cg_add(c, n, cg_sub(c, blocks, one)), blocks), one)};
}

// Loops over KC blocks at the level where `here` is set.
static Loop each_block(Gemm *g, GemmMacroTile *u, bool here) {
  if (!here) return cg_once(g->c);
  Loop block = cg_gemm_each_block(g, u);
  pack_a(g, u);
  return block;
}

void cg_amx_range(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  Cg *c = g->c;
  NcBlocks all = equal_nc_blocks(g, p0, p1);
  if (g->p->parts & PARTS_A_SHARED) g->a_exceeds_range = cg_parts_a_exceeds_range(g, u);
  if (g->ahead) pack_first(g, *u, &all);
  for (Loop outer = each_block(g, u, g->p->k_outermost); cg_next(&outer);)
    for (Loop l = cg_each_by(c, p0, p1, all.step); cg_next(&l);) {
      nc_block_at(g, u, &all, l.i);
      for (Loop inner = each_block(g, u, !g->p->k_outermost); cg_next(&inner);) nc_block(g, u, &all);
    }
}

// ---- the kernel
static void pack_shared(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->parts == PARTS_PRIVATE) return;
  g->a_parts = cg_at(c, c->f32, g->own, cg_i64(c, made_b(p)));
  if (p->parts & PARTS_A_SHARED) cg_parts_pack_a_shared(g);
  if (p->parts & PARTS_B_SHARED) {
    g->b_parts = cg_at(c, c->f32, g->a_parts, cg_i64(c, shared_a(p)));
    cg_parts_pack_b_shared(g);
  }
  cg_wait_for_team(c);
  if (p->parts & PARTS_B_SHARED) g->b_exceeds_range = cg_parts_b_exceeds_range(g, cg_i64(c, 0), g->n);
}

void cg_gemm_amx_emit(Gemm *g) {
  Cg *c = g->c;
  cg_amx_begin(c);
  for (int64_t j = 0; j < PARTS_SIDE; j += c->t->vl) cg_put(c, cg_zeros(c), g->zeros, cg_i64(c, j));
  pack_shared(g);
  cg_gemm_tiled_emit(g);
  cg_amx_end(c);
}
