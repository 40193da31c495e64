// Packed and padded operands of products (gemm.h): those that are stored the wrong way, or with rows too far apart.
#include "codegen/gemm/gemm.h"

// ---- B as [panel][k][NR], zero beyond N
// Row k of a panel. Of a block that a worker packs later rows are prefetched: NC columns are too few for the hardware's stream.
static void pack_row(Gemm *g, V src, V k, V n0, V *mask, V to) {
  enum { ROWS_AHEAD = 8 };
  Cg *c = g->c;
  bool made = g->p->prologue == PROLOGUE_B && g->p->pack_b == B_SHARED;
  V from = made ? NULL : cg_cell(c, src, k, g->b_ld, n0);
  if (made) cg_prologue_enter(g->prologue, k);
  for (int64_t at = 0; g->p->pack_b == B_PRIVATE && g->p->nc && at < g->p->width; at += TILE_LINE)
    cg_prefetch_l1(c, cg_cell(c, from, g->b_ld, cg_i64(c, ROWS_AHEAD), cg_i64(c, at)));
  for (uint32_t j = 0; j < g->p->nv; j++) {
    V at = cg_i64(c, (int64_t)j * c->t->vl);
    V x =
        made ? cg_prologue_vector(g->prologue, cg_add(c, n0, at), mask[j]) : cg_get_masked(c, c->vf, from, at, mask[j]);
    cg_put(c, x, to, at);
  }
}

// `vl` rows of k; only the last panel has masks.
static void pack_rows(Gemm *g, V src, V k0, V n0, V dst) {
  Cg *c = g->c;
  V rows = cg_min(c, cg_vl(c), cg_sub(c, g->k, k0)), left = cg_sub(c, g->n, n0), width = cg_i64(c, g->p->width);
  for (If whole = cg_either(c, cg_ge(c, left, width)); cg_then(&whole);) {
    V mask[8] = {0};
    for (uint32_t j = 0; !whole.is_true && j < g->p->nv; j++)
      mask[j] = cg_mask(c, cg_sub(c, left, cg_i64(c, (int64_t)j * c->t->vl)));
    for (Loop l = cg_count(c, rows); cg_next(&l);)
      pack_row(g, src, cg_add(c, k0, l.i), n0, mask, cg_row(c, dst, l.i, width));
  }
}

enum { OF_B, OF_LD, OF_LEFT, OF_K, OF_ROWS, OF_PANEL, OF_WIDTH, N_OF_COLUMNS };

// void columns(B stored [N, K], from a row to the next, rows of it and values of k that are left, values that are packed, panel,
// its width): few rows are read in parallel, one vector of the panel after another.
static void make_columns(Cg *c, V fn, void *ctx) {
  V arg[N_OF_COLUMNS];
  for (uint32_t k = 0; k < N_OF_COLUMNS; k++) arg[k] = LLVMGetParam(fn, k);
  for (uint32_t j = 0; j < *(const uint32_t *)ctx; j++) {
    V lane = cg_i64(c, (int64_t)j * c->t->vl), first = cg_row(c, arg[OF_B], lane, arg[OF_LD]);
    V left = cg_sub(c, arg[OF_LEFT], lane), panel = cg_at(c, c->f32, arg[OF_PANEL], lane);
    for (Loop l = cg_count_by(c, arg[OF_ROWS], cg_vl(c)); cg_next(&l);)
      cg_transpose_block(c, cg_at(c, c->f32, first, l.i), arg[OF_LD], left, cg_sub(c, arg[OF_K], l.i),
                         cg_row(c, panel, l.i, arg[OF_WIDTH]), arg[OF_WIDTH]);
  }
  LLVMBuildRetVoid(c->b);
}

static void pack_columns(Gemm *g, V src, V k0, V rows, V n0, V dst) {
  Cg *c = g->c;
  uint32_t nv = g->p->nv;
  V arg[] = {[OF_B] = cg_cell(c, src, n0, g->b_ld, k0),
             [OF_LD] = g->b_ld,
             [OF_LEFT] = cg_sub(c, g->n, n0),
             [OF_K] = cg_sub(c, g->k, k0),
             [OF_ROWS] = rows,
             [OF_PANEL] = dst,
             [OF_WIDTH] = cg_i64(c, g->p->width)};
  cg_call_helper(c, rt_printf(c->mem, "columns.%u", nv), arg, N_OF_COLUMNS, make_columns, &nv);
}

void cg_gemm_pack_b(Gemm *g, V src, V k0, V rows, V n0, V dst) {
  Cg *c = g->c;
  if (g->p->tb) {
    pack_columns(g, src, k0, rows, n0, dst);
    return;
  }
  for (Loop l = cg_count_by(c, rows, cg_vl(c)); cg_next(&l);)
    pack_rows(g, src, cg_add(c, k0, l.i), n0, cg_row(c, dst, l.i, cg_i64(c, g->p->width)));
}

// B stored [K, N]: rows are read from end to end, a few at a time.
void cg_gemm_pack_nc(Gemm *g, V src, V k0, V rows, V p0, V p1, V dst) {
  Cg *c = g->c;
  V width = cg_i64(c, g->p->width), block = cg_i64(c, g->p->kc * g->p->width);
  V some = g->p->tb ? rows : cg_vl(c);
  for (Loop l = cg_count_by(c, rows, cg_max(c, some, cg_i64(c, 1))); cg_next(&l);) {
    for (Loop panel = cg_each(c, p0, p1); cg_next(&panel);) {
      V n0 = cg_mul(c, panel.i, width), to = cg_mul(c, cg_sub(c, panel.i, p0), block);
      V at = cg_at(c, c->f32, dst, cg_add(c, to, cg_mul(c, l.i, width)));
      cg_gemm_pack_b(g, src, cg_add(c, k0, l.i), cg_min(c, some, cg_sub(c, rows, l.i)), n0, at);
    }
  }
}

// Units: vl values of k of one panel. Where B is stored by rows of k, the units of all panels follow each other, so
// that the rows are read from end to end.
static void pack_b_shared(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  V vl = cg_vl(c), blocks = cg_ceil_div_value(c, g->k, c->t->vl);
  V panels = p->b_has_batch ? cg_mul(c, g->batch, g->panels) : g->panels;
  for (Loop l = cg_each_shared(c, cg_mul(c, panels, blocks), 1); cg_next(&l);) {
    bool by_rows = !p->tb && !p->b_has_batch;
    V panel = by_rows ? cg_rem(c, l.i, g->panels) : cg_div(c, l.i, blocks), src = g->b;
    V k0 = cg_mul(c, by_rows ? cg_div(c, l.i, g->panels) : cg_rem(c, l.i, blocks), vl);
    V row = cg_index(c, panel, g->k_pad, k0);
    V dst = cg_row(c, g->packed_b, row, cg_i64(c, p->width));
    if (p->b_has_batch) {
      V off = cg_gemm_batch(g, LAID_B, cg_div(c, panel, g->panels));
      src = cg_at(c, c->f32, src, off);
      panel = cg_rem(c, panel, g->panels);
    }
    cg_gemm_pack_b(g, src, k0, vl, cg_mul(c, panel, cg_i64(c, p->width)), dst);
  }
}

// ---- A
// Row by row of A's storage, of which each is read once from end to end of the MC block. The next rows are prefetched:
// rows that are far apart are no stream for the hardware prefetcher.
void cg_gemm_pack_a(Gemm *g, V src, V m0, V k0, V n_k, V dst) {
  enum { MAX_VECTORS = 16, ROWS_AHEAD = 16 };
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  int64_t vl = c->t->vl, per_tile = p->a_tile / vl, n = p->mc / p->mr * per_tile;
  V mask[MAX_VECTORS];
  for (int64_t v = 0; v < n; v++) {
    int64_t tile = v / per_tile, lane = v % per_tile * vl;
    V in_tile = cg_i64(c, p->mr - lane), first = cg_i64(c, tile * p->mr + lane);
    mask[v] = cg_mask(c, cg_min(c, in_tile, cg_sub(c, cg_sub(c, g->m, m0), first)));
  }
  for (Loop l = cg_count(c, n_k); cg_next(&l);) {
    V from = cg_cell(c, src, cg_add(c, k0, l.i), g->a_ld, m0);
    V to = cg_row(c, dst, l.i, cg_i64(c, p->a_tile));
    for (int64_t line = 0; line < p->mc; line += TN_ALIGN / 4)
      cg_prefetch_l2(c, cg_cell(c, from, g->a_ld, cg_i64(c, ROWS_AHEAD), cg_i64(c, line)));
    for (int64_t v = 0; v < n; v++) {
      int64_t tile = v / per_tile, lane = v % per_tile * vl;
      V x = cg_get_masked(c, c->vf, from, cg_i64(c, tile * p->mr + lane), mask[v]);
      cg_put(c, x, to, cg_i64(c, tile * p->kc * p->a_tile + lane));
    }
  }
}

// Rows [lo, hi); row `first` lies where packed A begins. Rows a large power of two apart would fall into few cache sets:
// they are copied with a padded stride.
static void pad_rows(Gemm *g, V batch, V lo, V hi, V first) {
  Cg *c = g->c;
  V stride = cg_i64(c, g->p->k_max + GEMM_STRIDE_PAD), src = g->a;
  if (g->p->batch.n) src = cg_at(c, c->f32, src, cg_gemm_batch(g, LAID_A, batch));
  for (Loop row = cg_each(c, lo, hi); cg_next(&row);) {
    V to = cg_row(c, g->packed_a, cg_sub(c, row.i, first), stride);
    cg_copy_run(c, DT_F32, to, cg_row(c, src, row.i, g->a_ld), g->k);
  }
}

// ---- A as [micropanel][k][a_tile]
// Rows m0 .. m0 + m - 1 and k from k0 on, n_k of them. Units: vl values of k of a micropanel.
static void pack_a_shared(Gemm *g, V m0, V m, V k0, V n_k) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  V vl = cg_vl(c), mr = cg_i64(c, p->mr), blocks = cg_ceil_div_value(c, n_k, c->t->vl);
  for (Loop l = cg_each_shared(c, cg_mul(c, cg_ceil_div_value(c, m, p->mr), blocks), 1); cg_next(&l);) {
    V micropanel = cg_div(c, l.i, blocks), in_panel = cg_mul(c, cg_rem(c, l.i, blocks), vl);
    V above = cg_mul(c, micropanel, mr), rows = cg_min(c, mr, cg_sub(c, m, above));
    V from = cg_cell(c, g->a, cg_add(c, m0, above), g->k, cg_add(c, k0, in_panel));
    V to = cg_mul(c, cg_index(c, micropanel, g->a_pad, in_panel), cg_i64(c, p->a_tile));
    for (int64_t lane = 0; lane < p->a_tile; lane += c->t->vl)
      cg_transpose_block(c, cg_row(c, from, cg_i64(c, lane), g->k), g->k, cg_sub(c, rows, cg_i64(c, lane)),
                         cg_sub(c, n_k, in_panel), cg_at(c, c->f32, g->packed_a, cg_add(c, to, cg_i64(c, lane))),
                         cg_i64(c, p->a_tile));
  }
}

void cg_gemm_pack_window(Gemm *g) {
  Cg *c = g->c;
  V rows = cg_min(c, cg_i64(c, g->p->window_rows), cg_sub(c, g->m, g->window_m0));
  V n_k = cg_min(c, cg_i64(c, g->p->window_k), cg_sub(c, g->k, g->window_k0));
  pack_a_shared(g, g->window_m0, rows, g->window_k0, n_k);
}

// ---- operands that a prologue computes
V cg_gemm_row_stride(const Gemm *g) {
  bool tight = g->p->strategy->modifiers & TIGHT_A;
  return tight ? g->k : cg_i64(g->c, g->p->k_max + GEMM_STRIDE_PAD);
}

// Rows [lo, hi) of `width` elements, `stride` apart; row `first` lies at `to`.
static void fill_rows(Gemm *g, V lo, V hi, V width, V to, V stride, V first) {
  Cg *c = g->c;
  for (Loop row = cg_each(c, lo, hi); cg_next(&row);)
    cg_prologue_row(g->prologue, row.i, cg_i64(c, 0), width, cg_row(c, to, cg_sub(c, row.i, first), stride));
}

bool cg_gemm_has_own_mc_block(const GemmPlan *p) {
  return p->prologue == PROLOGUE_A_PER_MC_BLOCK || p->pack_a == A_PADDED_PER_MC_BLOCK;
}

void cg_gemm_fill_mc_block(Gemm *g, V batch, V m0, V rows) {
  V end = cg_add(g->c, m0, rows);
  if (g->p->pack_a == A_PADDED_PER_MC_BLOCK) pad_rows(g, batch, m0, end, m0);
  else fill_rows(g, m0, end, g->k, g->packed_a, cg_gemm_row_stride(g), m0);
  g->fused_from = m0;
}

static void fill_a(Gemm *g, V lo, V hi) {
  fill_rows(g, lo, hi, g->k, g->packed_a, cg_gemm_row_stride(g), cg_i64(g->c, 0));
}

// true: by the team, which waits.
static bool run_prologue(Gemm *g) {
  Cg *c = g->c;
  V lo, hi;
  switch (g->p->prologue) {
  case PROLOGUE_A_PRIVATE: fill_a(g, cg_i64(c, 0), g->m); return false;
  case PROLOGUE_A_SHARED:
    cg_share(c, g->m, 1, &lo, &hi);
    fill_a(g, lo, hi);
    return true;
  case PROLOGUE_B:
    if (g->p->pack_b == B_SHARED) return false;  // by the packing
    cg_share(c, g->k, 1, &lo, &hi);
    fill_rows(g, lo, hi, g->n, g->b, g->n, cg_i64(c, 0));
    return true;
  default: return false;  // where it is read
  }
}

bool cg_gemm_pack_shared(Gemm *g) {
  bool packs_b = g->p->pack_b == B_SHARED, packs_a = g->p->pack_a == A_SHARED && !g->p->window_rows;
  if (packs_b) pack_b_shared(g);
  if (packs_a) pack_a_shared(g, cg_i64(g->c, 0), g->m, cg_i64(g->c, 0), g->k);
  return run_prologue(g) || packs_b || packs_a;
}
