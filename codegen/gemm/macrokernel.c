// Macro tiles of strategy tiled (tiled.c), by the microkernels of microkernel.h.
//
//            panel p (NR columns)
//           +----+----+----+
//   MC 0    | 0  | 1  | 2  |       A macro tile is one panel x one MC block of rows; they are numbered MC block by MC
//           +----+----+----+       block, and every worker has a contiguous share, so that its rows of A stay in L2
//   MC 1    | 3  | 4  | 5  |       while it walks over panels. In a macro tile, microkernels of MR rows run down the
//           +----+----+----+       rows.
//
// B packed by its worker, or prepacked: panel by panel, KC block by KC block, all rows of the (high) MC block pass by.
// A packed, or beyond L2: KC block by KC block, on the stack, for all panels of the worker's panel range. Past NC columns of
// B, which stay in L2, go micropanels of a packed A one after the other, so that each stays in L1 and its rows of C are written from
// end to end. With several KC blocks the accumulators are in memory between blocks, or on the stack for an epilogue. The
// epilogue takes strips of rows of a macro tile, or a micropanel's rows of NC columns, while their sums are in cache.
#include "codegen/gemm/macro_tile.h"

// Strides that are sizes of the product are arguments of a tile: products of other sizes share it.
static int64_t stride_or_dyn(V v, int64_t of_blocks) {
  int64_t k;
  return cg_const_value(v, &k) && k == of_blocks ? k : TILE_DYN;
}

// Sums are on the stack until the epilogue has taken them.
static bool in_strip(const Gemm *g) { return g->p->epilogue == EPILOGUE_FROM_STACK; }

static bool has_own_rows(const Gemm *g) { return g->p->pack_a == A_PADDED_PER_MC_BLOCK || cg_gemm_fuses_a(g->p); }

V cg_gemm_tile_a_row(const Gemm *g) {
  if (cg_gemm_packs_a(g->p)) return cg_i64(g->c, 1);
  return has_own_rows(g) ? cg_gemm_row_stride(g) : g->a_row;
}
V cg_gemm_tile_a_k(const Gemm *g) {
  if (cg_gemm_packs_a(g->p)) return cg_i64(g->c, g->p->a_tile);
  return has_own_rows(g) ? cg_i64(g->c, 1) : g->a_k;
}
static V tile_b_k(const Gemm *g) { return g->p->pack_b == B_IN_PLACE ? g->b_ld : cg_i64(g->c, g->p->width); }
V cg_gemm_tile_c_row(const Gemm *g) {
  if (g->p->nc && in_strip(g)) return cg_i64(g->c, g->p->nc + GEMM_STRIDE_PAD);
  return in_strip(g) ? cg_i64(g->c, g->p->width) : cg_gemm_rows(g, g->n);
}
// From one full tile of rows to the next.
static V tile_a_block(const Gemm *g) {
  Cg *c = g->c;
  if (g->p->pack_a == A_PACKED) return cg_i64(c, g->p->kc * g->p->a_tile);
  if (g->p->pack_a == A_SHARED) return cg_mul(c, g->a_pad, cg_i64(c, g->p->a_tile));
  return cg_mul(c, cg_i64(c, g->p->mr), cg_gemm_tile_a_row(g));
}

static bool one_block(const Gemm *g) { return g->p->kc >= g->p->k_max; }

// Do microkernels start new sums? Else they accumulate into existing ones.
static bool begins_sums(const Gemm *g) { return one_block(g) && !g->p->parts; }

static TileSpec make_spec(const Gemm *g) {
  const GemmPlan *p = g->p;
  int64_t vl = g->c->t->vl;
  TileSpec s = {.mr = p->mr,
                .nv = p->nv,
                .a_row = stride_or_dyn(cg_gemm_tile_a_row(g), 1),
                .a_k = stride_or_dyn(cg_gemm_tile_a_k(g), cg_gemm_packs_a(p) ? p->a_tile : 1),
                .b_k = stride_or_dyn(tile_b_k(g), p->width),
                .b_vec = vl,
                .c_row = stride_or_dyn(cg_gemm_tile_c_row(g), p->width),
                .c_vec = vl,
                .apart = p->apart,
                .accumulate = !begins_sums(g),
                .has_bias = g->bias && begins_sums(g),
                .bias_vec = vl,
                .mask_from = p->nv,
                .mask_step = vl,
                .mask_b = p->pack_b == B_IN_PLACE,
                .mask_c = !in_strip(g),
                .long_k = cg_tile_is_long(p->k_max),
                .chains = p->chains};
  cg_tile_sum_in_parts(&s, g->c->t, p->k_max, cg_smaller(p->kc, p->k_max), 1);
  return s;
}

// The macro tile's panel is whole, or the last one with fewer columns: then vectors without a column are left out and
// the last one is masked (where N is not constant, all vectors are computed, masked).
static void tile_columns(Gemm *g, const TileArgs *args, const TileRows *rows) {
  Cg *c = g->c;
  TileSpec whole = make_spec(g), part;
  cg_gemm_set_prefetch(g, &whole);
  part = whole;
  int64_t n, vl = c->t->vl;
  if (!cg_const_value(g->n, &n)) {
    part.mask_from = 0;
  } else {
    int64_t left = n % g->p->width;
    if (left == 0) {
      cg_tile_rows(c, &whole, args, rows);
      return;
    }
    part.nv = (uint32_t)cg_ceil_div(left, vl);
    part.mask_from = left % vl ? part.nv - 1 : part.nv;
    if (n < g->p->width) {
      cg_tile_rows(c, &part, args, rows);
      return;
    }
  }
  for (If full = cg_either(c, cg_ge(c, args->n, cg_i64(c, g->p->width))); cg_then(&full);)
    if (full.is_true) cg_tile_rows(c, &whole, args, rows);
    else cg_tile_rows(c, &part, args, rows);
}

V cg_gemm_tile_a(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->pack_a == A_PACKED) return cg_row(c, g->a_block, u->micropanel, cg_i64(c, p->kc * p->a_tile));
  if (p->pack_a == A_SHARED) {
    V row = p->window_rows ? cg_sub(c, u->m0, g->window_m0) : u->m0;
    V k = p->window_rows ? cg_sub(c, u->k0, g->window_k0) : u->k0;
    V at = cg_index(c, cg_div(c, row, cg_i64(c, p->mr)), g->a_pad, k);
    return cg_row(c, g->packed_a, at, cg_i64(c, p->a_tile));
  }
  V row = cg_gemm_has_own_mc_block(p) ? cg_sub(c, u->m0, g->fused_from) : u->m0;
  V off = cg_index(c, row, cg_gemm_tile_a_row(g), cg_mul(c, u->k0, cg_gemm_tile_a_k(g)));
  if (has_own_rows(g)) return cg_at(c, c->f32, g->packed_a, off);
  if (p->batch.n) off = cg_add(c, off, cg_gemm_batch(g, LAID_A, u->batch));
  return cg_at(c, c->f32, g->a, off);
}

V cg_gemm_b_matrix(Gemm *g, V batch) {
  Cg *c = g->c;
  if (!g->p->b_has_batch) return g->b;
  return cg_at(c, c->f32, g->b, cg_gemm_batch(g, LAID_B, batch));
}

static V tile_b(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->pack_b == B_PRIVATE) {
    if (!cg_gemm_has_micropanels(p)) return g->b_block;
    return cg_row(c, g->b_block, cg_sub(c, u->n0, u->nc0), cg_i64(c, p->kc));
  }
  if (p->pack_b == B_IN_PLACE) return cg_cell(c, cg_gemm_b_matrix(g, u->batch), u->k0, g->b_ld, u->n0);
  V panel = p->b_has_batch ? cg_index(c, u->batch, g->panels, u->panel) : u->panel;
  V k = cg_index(c, panel, g->k_pad, u->k0);
  return cg_row(c, g->packed_b, k, cg_i64(c, p->width));
}

V cg_gemm_tile_c(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  if (g->p->nc && in_strip(g)) {
    V at = cg_sub(c, u->n0, u->nc0);
    bool all_rows = u->micropanel && !cg_gemm_by_micropanels(g->p);  // of the MC block
    if (all_rows) at = cg_add(c, at, cg_mul(c, cg_mul(c, u->micropanel, cg_i64(c, g->p->mr)), cg_gemm_tile_c_row(g)));
    return cg_at(c, c->f32, g->strip, at);
  }
  return in_strip(g) ? g->strip : cg_cell(c, g->sums, u->row, g->n, u->n0);
}

// With several KC blocks, or parts, the accumulators begin as the bias or zero in memory, so that all blocks have one
// microkernel.
static void tile_prefill(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  V value[8], mask[8], to = cg_gemm_tile_c(g, u);
  for (uint32_t j = 0; j < g->p->nv; j++) {
    V lane = cg_i64(c, (int64_t)j * c->t->vl);
    mask[j] = cg_mask(c, cg_sub(c, u->columns, lane));
    value[j] = cg_zeros(c);
    if (g->bias) value[j] = cg_get_masked(c, c->vf, g->bias, cg_add(c, u->n0, lane), mask[j]);
  }
  for (Loop l = cg_count(c, u->rows); cg_next(&l);) {
    V row = cg_mul(c, l.i, cg_gemm_tile_c_row(g));
    for (uint32_t j = 0; j < g->p->nv; j++) {
      V at = cg_at(c, c->f32, to, cg_add(c, row, cg_i64(c, (int64_t)j * c->t->vl)));
      if (in_strip(g)) cg_store(c, value[j], at);
      else cg_store_masked(c, value[j], at, mask[j]);
    }
  }
}

void cg_gemm_tile(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  TileArgs args = {
      .a = cg_gemm_tile_a(g, u), .b = tile_b(g, u), .c = cg_gemm_tile_c(g, u), .k = u->n_k, .n = u->columns};
  if (g->bias) args.bias = cg_at(c, c->f32, g->bias, u->n0);
  args.a_row = cg_gemm_tile_a_row(g), args.a_k = cg_gemm_tile_a_k(g), args.b_k = tile_b_k(g),
  args.c_row = cg_gemm_tile_c_row(g);
  cg_gemm_prefetch(g, u, &args);
  int64_t m;
  TileRows rows = {.rows = u->rows, .a_block = tile_a_block(g)};
  bool whole = cg_const_value(g->m, &m) && g->p->mc % g->p->mr == 0 && !g->p->parts;  // MC blocks end where tiles do
  rows.left = whole ? m % g->p->mr : g->p->mr == 1 ? 0 : TILE_DYN;
  if (!begins_sums(g)) {
    for (If first = cg_when(c, cg_eq(c, u->k0, u->k_begin)); cg_then(&first);) tile_prefill(g, u);
  }
  tile_columns(g, &args, &rows);
}

static void tile_epilogue(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  if (!g->epilogue) return;
  cg_gemm_epilogue(g, u->row, u->rows, u->n0, cg_min(c, u->columns, cg_i64(c, g->p->width)), cg_gemm_tile_c(g, u),
                   cg_gemm_tile_c_row(g));
}

static void set_panel(Gemm *g, GemmMacroTile *u, V panel) {
  u->panel = panel;
  u->n0 = cg_mul(g->c, panel, cg_i64(g->c, g->p->width));
  u->columns = cg_sub(g->c, g->n, u->n0);
}

// ---- panel ranges: the panels [p0, p1) of one MC block
Loop cg_gemm_each_block(Gemm *g, GemmMacroTile *u) {
  Cg *c = g->c;
  cg_gemm_k_range(g, u->batch, &u->k_begin, &u->k_end);
  u->k0 = u->k_begin, u->n_k = g->k;
  if (one_block(g)) return cg_once(c);
  V from = u->k_begin;
  if (g->p->window_rows)
    from = g->window_k0, u->k_end = cg_min(c, u->k_end, cg_add(c, from, cg_i64(c, g->p->window_k)));
  Loop l = cg_each_by(c, from, cg_max(c, u->k_end, cg_i64(c, 1)), cg_i64(c, g->p->kc));
  u->k0 = l.i, u->n_k = cg_min(c, cg_i64(c, g->p->kc), cg_sub(c, u->k_end, l.i));
  return l;
}

// A macro tile with more rows than its strip on the stack is computed strip by strip, each with its epilogue.
static bool has_strips(const Gemm *g) { return in_strip(g) && g->p->strip_rows < g->p->mc; }

static void tile_strips(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  GemmMacroTile strip = *u;
  for (Loop l = cg_count_by(c, u->rows, cg_i64(c, g->p->strip_rows)); cg_next(&l);) {
    strip.m0 = cg_add(c, u->m0, l.i), strip.row = cg_add(c, u->row, cg_gemm_rows(g, l.i));
    strip.rows = cg_min(c, cg_i64(c, g->p->strip_rows), cg_sub(c, u->rows, l.i));
    cg_gemm_tile(g, &strip);
    tile_epilogue(g, &strip);
  }
}

static void pack_b_block(Gemm *g, const GemmMacroTile *u) {
  cg_gemm_pack_b(g, cg_gemm_b_matrix(g, u->batch), u->k0, u->n_k, u->n0, g->b_block);
}

// B's panel is packed by the worker that uses it, or prepacked.
static void range_by_panels(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  Cg *c = g->c;
  for (Loop panel = cg_each(c, p0, p1); cg_next(&panel);) {
    set_panel(g, u, panel.i);
    for (Loop block = cg_gemm_each_block(g, u); cg_next(&block);) {
      if (g->p->pack_b == B_PRIVATE) pack_b_block(g, u);
      if (has_strips(g)) tile_strips(g, u);
      else cg_gemm_tile(g, u);
    }
    if (!has_strips(g)) tile_epilogue(g, u);
  }
}

static void pack_a_block(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  V src = g->a;
  if (g->p->batch.n) src = cg_at(c, c->f32, src, cg_gemm_batch(g, LAID_A, u->batch));
  cg_gemm_pack_a(g, src, u->m0, u->k0, u->n_k, g->a_block);
}

// Panels [p0, p1) of all rows of the macro tile, whose sums are complete.
static void panels_finish(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  Cg *c = g->c;
  if (!g->epilogue) return;
  V end = cg_min(c, cg_mul(c, p1, cg_i64(c, g->p->width)), g->n);
  set_panel(g, u, p0);
  cg_gemm_epilogue(g, u->row, u->rows, u->n0, cg_sub(c, end, u->n0), cg_gemm_tile_c(g, u), cg_gemm_tile_c_row(g));
}

// The panels [p0, p1) of a KC block, one after the other.
static void panels_of_block(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  Cg *c = g->c;
  for (Loop panel = cg_each(c, p0, p1); cg_next(&panel);) {
    set_panel(g, u, panel.i);
    if (g->p->pack_b == B_PRIVATE && !g->p->nc) pack_b_block(g, u);
    cg_gemm_tile(g, u);
    if (one_block(g) && !g->p->nc) tile_epilogue(g, u);
  }
}

// The same, one micropanel of A after another: each stays in L1, and the panels' block in L2.
static void micropanels_of_block(Gemm *g, const GemmMacroTile *u, V p0, V p1) {
  Cg *c = g->c;
  GemmMacroTile part = *u;
  V mr = cg_i64(c, g->p->mr);
  for (Loop l = cg_count(c, cg_ceil_div_value(c, u->rows, g->p->mr)); cg_next(&l);) {
    V above = cg_mul(c, l.i, mr);
    part.micropanel = l.i, part.m0 = cg_add(c, u->m0, above), part.row = cg_add(c, u->row, cg_gemm_rows(g, above));
    part.rows = cg_min(c, mr, cg_sub(c, u->rows, above));
    panels_of_block(g, &part, p0, p1);
    if (cg_gemm_by_micropanels(g->p)) panels_finish(g, &part, p0, p1);
  }
}

static Loop each_block(Gemm *g, GemmMacroTile *u) {
  Loop block = cg_gemm_each_block(g, u);
  if (g->p->pack_a == A_PACKED) pack_a_block(g, u);
  return block;
}

static void block_of_panels(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  if (g->p->pack_b == B_PRIVATE && g->p->nc)
    cg_gemm_pack_nc(g, cg_gemm_b_matrix(g, u->batch), u->k0, u->n_k, p0, p1, g->b_block);
  if (cg_gemm_has_micropanels(g->p)) micropanels_of_block(g, u, p0, p1);
  else panels_of_block(g, u, p0, p1);
}

// The sums of NC columns wait on the stack for all KC blocks.
static void nc_with_sums(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  for (Loop block = each_block(g, u); cg_next(&block);) block_of_panels(g, u, p0, p1);
  panels_finish(g, u, p0, p1);
}

// Block of NC columns by block, or all at once.
static void range_by_nc(Gemm *g, GemmMacroTile *u, V p0, V p1, void (*emit)(Gemm *g, GemmMacroTile *u, V p0, V p1)) {
  Cg *c = g->c;
  if (!g->p->nc) {
    emit(g, u, p0, p1);
    return;
  }
  V step = cg_i64(c, g->p->nc / g->p->width);
  for (Loop nc = cg_each_by(c, p0, p1, step); cg_next(&nc);) {
    u->nc0 = cg_mul(c, nc.i, cg_i64(c, g->p->width));
    emit(g, u, nc.i, cg_min(c, p1, cg_add(c, nc.i, step)));
  }
}

static void range_by_mc_blocks(Gemm *g, GemmMacroTile *u, V p0, V p1) {
  if (g->p->nc && in_strip(g) && !cg_gemm_by_micropanels(g->p)) {
    range_by_nc(g, u, p0, p1, nc_with_sums);
    return;
  }
  for (Loop block = each_block(g, u); cg_next(&block);) range_by_nc(g, u, p0, p1, block_of_panels);
  if (one_block(g)) return;
  V last = g->p->window_rows ? cg_ge(g->c, u->k_end, g->k) : NULL;
  for (If sums = cg_when(g->c, last); cg_then(&sums);) panels_finish(g, u, p0, p1);
}

// ---- shares of workers: a function of the module, for products of all sizes
enum { S_WORKER, S_N_WORKERS, S_BATCH, S_M, S_PANELS, S_BLOCKS, S_MC, N_S };

// The macro tile at which the share of worker number `worker` begins. Shares are equal by rows x panels, since the last
// MC block may have few rows (docs/experiments/027).
static V share_begin(Cg *c, const V *arg) {
  V m = arg[S_M], mc = arg[S_MC], panels = arg[S_PANELS], one = cg_i64(c, 1);
  V matrix = cg_mul(c, m, panels), some = cg_max(c, matrix, one);
  V at = cg_div(c, cg_mul(c, cg_mul(c, arg[S_BATCH], matrix), arg[S_WORKER]), arg[S_N_WORKERS]);
  V which = cg_div(c, at, some), in_matrix = cg_rem(c, at, some);
  V whole = cg_max(c, cg_mul(c, mc, panels), one), nth = cg_div(c, in_matrix, whole);
  V rows = cg_max(c, cg_min(c, mc, cg_sub(c, m, cg_mul(c, nth, mc))), one);
  V half = cg_div(c, rows, cg_i64(c, 2));
  V panel = cg_div(c, cg_add(c, cg_rem(c, in_matrix, whole), half), rows);
  return cg_index(c, cg_index(c, which, arg[S_BLOCKS], nth), panels, panel);
}

// i64 share(i64 worker, ..): worker n_workers begins at the end of all work. One worker needs no division.
static void make_share(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V arg[N_S];
  for (uint32_t k = 0; k < N_S; k++) arg[k] = LLVMGetParam(fn, k);
  V all = cg_mul(c, cg_mul(c, arg[S_BATCH], arg[S_BLOCKS]), arg[S_PANELS]);
  cg_return_if(c, cg_le(c, arg[S_N_WORKERS], cg_i64(c, 1)), cg_mul(c, all, arg[S_WORKER]));
  LLVMBuildRet(c->b, share_begin(c, arg));
}

static V call_share(Gemm *g, V worker, V m, V blocks) {
  Cg *c = g->c;
  V arg[N_S] = {worker, c->n_workers, g->batch, m, g->panels, blocks, cg_i64(c, g->p->mc)};
  LLVMTypeRef types[N_S];
  for (uint32_t k = 0; k < N_S; k++) types[k] = c->i64;
  LLVMTypeRef type = LLVMFunctionType(c->i64, types, N_S, false);
  return LLVMBuildCall2(c->b, type, cg_helper(c, "gemm_share", type, make_share, NULL), arg, N_S, "");
}

// The MC blocks of `m` rows from row `from` on, which begins one.
static void share_rows(Gemm *g, V from, V m) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  V blocks = cg_ceil_div_value(c, m, p->mc), one = cg_i64(c, 1), p0, p1;
  V panels = cg_max(c, g->panels, one);
  V lo = call_share(g, c->worker, m, blocks), hi = call_share(g, cg_add(c, c->worker, one), m, blocks);
  for (Loop l = cg_each_row(c, lo, hi, panels, &p0, &p1); cg_next(&l);) {
    GemmMacroTile u = {.batch = cg_i64(c, 0), .mc = l.i};
    bool several = p->batch.n || g->slices;
    if (several) u.batch = cg_div(c, l.i, blocks), u.mc = cg_rem(c, l.i, blocks);
    u.first = p0, u.end = p1;
    u.m0 = cg_add(c, from, cg_mul(c, u.mc, cg_i64(c, p->mc)));
    u.row = cg_add(c, several ? cg_gemm_first_row(g, u.batch) : cg_i64(c, 0), cg_gemm_rows(g, u.m0));
    u.rows = cg_min(c, cg_i64(c, p->mc), cg_sub(c, g->m, u.m0));
    if (cg_gemm_has_own_mc_block(p)) cg_gemm_fill_mc_block(g, u.batch, u.m0, u.rows);
    bool by_panels = (p->pack_b == B_PRIVATE && !p->nc) || p->pack_b == B_PREPACKED;
    if (p->parts) cg_amx_range(g, &u, p0, p1);
    else if (by_panels && !p->k_outermost) range_by_panels(g, &u, p0, p1);
    else range_by_mc_blocks(g, &u, p0, p1);
  }
}

// Windows of A, each packed by the team into one of two buffers by turns: who is done with a window packs the next one
// while others still read this one. Worker w has the same macro tiles in all windows of the same rows.
static void share_windows(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  V rows = cg_i64(c, p->window_rows), most_k = cg_i64(c, p->window_k), one = cg_i64(c, 1), buffers = g->packed_a;
  V per_rows = cg_ceil_div_value(c, cg_max(c, g->k, one), p->window_k);
  for (Loop m = cg_count_by(c, g->m, rows); cg_next(&m);) {
    for (Loop k = cg_count_by(c, cg_max(c, g->k, one), most_k); cg_next(&k);) {
      V number = cg_index(c, cg_div(c, m.i, rows), per_rows, cg_div(c, k.i, most_k));
      g->packed_a = cg_row(c, buffers, cg_rem(c, number, cg_i64(c, 2)), cg_i64(c, cg_gemm_window_elements(p)));
      g->window_m0 = m.i, g->window_k0 = k.i;
      cg_gemm_pack_window(g);
      cg_wait_for_team(c);
      share_rows(g, m.i, cg_min(c, rows, cg_sub(c, g->m, m.i)));
    }
  }
  g->packed_a = buffers;
}

void cg_gemm_tiled_emit(Gemm *g) {
  if (g->p->window_rows) share_windows(g);
  else share_rows(g, cg_i64(g->c, 0), g->m);
}
