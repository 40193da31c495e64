// Matrix products: C[b][m][n] = sum over k of A[b][m][k] B[b][k][n] (+ bias[n]), by the tiles of microkernel.h, and what is
// done to them element by element before they are stored.
//
//            panel p (nv vectors)
//           +----+----+----+
//   MC 0    | 0  | 1  | 2  |       A macro tile is one panel x one MC block of rows; macro tiles are numbered MC block by MC block,
//           +----+----+----+       and every worker has a contiguous share, so that its rows of A stay in L2
//   MC 1    | 3  | 4  | 5  |       while it walks over panels. In a macro tile, tiles of mr rows run down the rows.
//           +----+----+----+
//
// Operands that are stored the wrong way are packed. A worker packs a KC block of its own panel on its stack and
// takes all rows of an MC block past it: MC blocks are high, so that this is rare. A transposed A is packed by KC blocks and
// a few tiles, on the stack, for all panels of the worker's panel range; then MC blocks are low, and the team packs B into the
// kernel's scratch as [panel][k][panel's width], zero beyond N, and a barrier ends that phase; so are rows of A copied
// which are a large power of two apart. Of a weight there may be a packed copy that lasts (module/packed_weights.c). With several
// KC blocks the sums wait in memory, or on the stack for an epilogue. Few macro tiles with a long k are cut into slices of
// it (split_k.c). An epilogue runs over a strip of a macro tile while its sums are in L1. Small products are worker 0's
// alone.
#include "codegen/gemm/gemm.h"

// ---- values of a kernel
static LLVMValueRef product(Cg *c, const DimList *l) {
  LLVMValueRef n = cg_i64(c, 1);
  for (uint32_t i = 0; i < l->n; i++) n = cg_mul(c, n, cg_dim(c, l->dim[i]));
  return n;
}

LLVMValueRef cg_gemm_rem(Cg *c, LLVMValueRef n, LLVMValueRef d) {
  int64_t one;
  if (cg_const_value(d, &one) && one == 1) return cg_i64(c, 0);
  return LLVMBuildURem(c->b, n, d, "");
}

// A matrix without elements has no storage, and nothing of it is read.
static LLVMValueRef storage(Cg *c, Val v) { return cg_stored(c, v) ? cg_ptr(c, v) : LLVMConstNull(c->ptr); }

static LLVMValueRef on_stack(Cg *c, int64_t elements) {
  LLVMValueRef p = LLVMBuildAlloca(c->b, LLVMArrayType2(c->f32, (uint64_t)elements), "");
  LLVMSetAlignment(p, TN_ALIGN);
  return p;
}

static void take_stack(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->by == GEMM_BLAS) return;
  if (p->skinny) g->strip = on_stack(c, p->m_max * p->width);
  else if (p->acc_columns) g->strip = on_stack(c, p->mc * (p->acc_columns + GEMM_STRIDE_PAD));
  else if (p->fused && !p->epilogue_from_memory && !p->at_b) g->strip = on_stack(c, p->strip_rows * p->width);
  if (p->gemv) {
    g->a_block = on_stack(c, cg_round_up(p->k_max, c->t->vl));
    g->b_block = on_stack(c, (int64_t)c->t->vl * c->t->vl);
  }
  if (p->pack_a == A_BLOCKS) g->a_block = on_stack(c, cg_ceil_div(p->mc, p->mr) * p->kc * p->a_tile);
  if (p->pack_b == B_PRIVATE) g->b_block = on_stack(c, p->kc * p->width);
  if (p->at_b) {
    g->strip = on_stack(c, p->n_max * c->t->gemm_nv * c->t->vl);
    g->b_block = on_stack(c, (int64_t)c->t->vl * c->t->vl);
  }
  if (p->at_b && p->fused) g->a_block = on_stack(c, (int64_t)c->t->gemm_nv * c->t->vl * p->n_max);
}

static Gemm make_values(Cg *c, const GemmPlan *p) {
  Gemm g = {.c = c, .p = p};
  take_stack(&g);  // in the entry block
  g.m = product(c, &p->m), g.n = cg_dim(c, p->n), g.k = cg_dim(c, p->k), g.batch = product(c, &p->batch);
  g.panels = cg_ceil_div_value(c, g.n, p->width);
  g.k_pad = cg_mul(c, cg_ceil_div_value(c, g.k, c->t->vl), cg_i64(c, c->t->vl));
  g.a = storage(c, p->a), g.b = storage(c, p->b), g.out = storage(c, p->out);
  g.bias = ir_none(p->bias) ? NULL : storage(c, p->bias);
  LLVMValueRef scratch = c->scratch ? c->scratch : LLVMConstNull(c->ptr);  // there is none where nothing is packed
  int64_t b = cg_gemm_packed_b(p, c->t), a = cg_gemm_packed_a(p);
  g.packed_b = p->pack_b == B_WEIGHT ? c->weight : scratch;
  g.packed_a = cg_at(c, c->f32, scratch, cg_i64(c, b));
  if (p->private_a && !p->gemv) g.packed_a = on_stack(c, p->m_max * (p->k_max + GEMM_STRIDE_PAD));
  if (p->a_per_mc_block) g.packed_a = on_stack(c, p->mc * (p->k_max + GEMM_STRIDE_PAD));
  g.partial = cg_at(c, c->f32, scratch, cg_i64(c, a + b));  // their place is the sums' too: the first slice's
  g.sums = p->fused && !p->stores_product && cg_gemm_sums(p) ? g.partial : g.out;
  if (p->fused_operand == FUSED_A) g.a = g.packed_a;
  if (p->fused_operand == FUSED_B) g.b = scratch;
  g.a_row = p->ta ? cg_i64(c, 1) : g.k;
  g.a_k = p->ta ? g.m : cg_i64(c, 1);
  return g;
}

LLVMValueRef cg_gemm_batch(Gemm *g, const Dim *own, LLVMValueRef index, LLVMValueRef matrix) {
  Cg *c = g->c;
  LLVMValueRef off = cg_i64(c, 0), stride = matrix;
  for (uint32_t i = g->p->batch.n; i-- > 0;) {
    LLVMValueRef size = cg_dim(c, g->p->batch.dim[i]);
    if (own[i].i) {
      off = cg_add(c, off, cg_mul(c, i ? cg_gemm_rem(c, index, size) : index, stride));
      stride = cg_mul(c, stride, size);
    }
    index = cg_div(c, index, size);
  }
  return off;
}

static int64_t stride_or_dyn(LLVMValueRef v) {
  int64_t k;
  return cg_const_value(v, &k) ? k : TILE_DYN;
}

static bool in_strip(const Gemm *g) { return g->p->fused && !g->p->epilogue_from_memory; }

static bool has_own_rows(const Gemm *g) { return g->p->pack_a == A_PADDED || g->p->pack_a == A_FUSED; }

static LLVMValueRef tile_a_row(const Gemm *g) {
  if (g->p->pack_a == A_BLOCKS) return cg_i64(g->c, 1);
  return has_own_rows(g) ? cg_gemm_row_stride(g) : g->a_row;
}
static LLVMValueRef tile_a_k(const Gemm *g) {
  if (g->p->pack_a == A_BLOCKS) return cg_i64(g->c, g->p->a_tile);
  return has_own_rows(g) ? cg_i64(g->c, 1) : g->a_k;
}
static LLVMValueRef tile_b_k(const Gemm *g) { return g->p->pack_b == B_IN_PLACE ? g->n : cg_i64(g->c, g->p->width); }
static LLVMValueRef tile_c_row(const Gemm *g) {
  if (g->p->acc_columns) return cg_i64(g->c, g->p->acc_columns + GEMM_STRIDE_PAD);
  return in_strip(g) ? cg_i64(g->c, g->p->width) : g->n;
}
// From one full tile of rows to the next.
static LLVMValueRef tile_a_block(const Gemm *g) {
  Cg *c = g->c;
  if (g->p->pack_a == A_BLOCKS) return cg_i64(c, g->p->kc * g->p->a_tile);
  return cg_mul(c, cg_i64(c, g->p->mr), tile_a_row(g));
}

static bool one_block(const Gemm *g) { return g->p->kc >= g->p->k_max; }

static TileSpec make_spec(const Gemm *g) {
  const GemmPlan *p = g->p;
  int64_t vl = g->c->t->vl;
  return (TileSpec){.mr = p->mr,
                    .nv = p->nv,
                    .a_row = stride_or_dyn(tile_a_row(g)),
                    .a_k = stride_or_dyn(tile_a_k(g)),
                    .b_k = stride_or_dyn(tile_b_k(g)),
                    .b_vec = vl,
                    .c_row = stride_or_dyn(tile_c_row(g)),
                    .c_vec = vl,
                    .more = !one_block(g),
                    .has_bias = g->bias && one_block(g),
                    .bias_vec = vl,
                    .mask_from = p->nv,
                    .mask_step = vl,
                    .mask_b = p->pack_b == B_IN_PLACE,
                    .mask_c = !in_strip(g),
                    .chains = p->chains};
}

// The macro tile's panel is whole, or the last one with fewer columns: then vectors that have no column are left out and the
// last one is masked (where N is not constant, all vectors are there and masked).
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
  If full;
  cg_if(c, &full, LLVMBuildICmp(c->b, LLVMIntSGE, args->n, cg_i64(c, g->p->width), ""));
  cg_tile_rows(c, &whole, args, rows);
  cg_else(c, &full);
  cg_tile_rows(c, &part, args, rows);
  cg_endif(c, &full);
}

static LLVMValueRef tile_a(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->pack_a == A_BLOCKS) return g->a_block;
  LLVMValueRef row = p->a_per_mc_block ? cg_sub(c, u->m0, g->fused_from) : u->m0;
  LLVMValueRef off = cg_add(c, cg_mul(c, row, tile_a_row(g)), cg_mul(c, u->k0, tile_a_k(g)));
  if (has_own_rows(g)) return cg_at(c, c->f32, g->packed_a, off);
  if (p->batch.n) off = cg_add(c, off, cg_gemm_batch(g, p->a_batch, u->batch, cg_mul(c, g->m, g->k)));
  return cg_at(c, c->f32, g->a, off);
}

static LLVMValueRef b_matrix(Gemm *g, LLVMValueRef batch) {
  Cg *c = g->c;
  if (!g->p->b_has_batch) return g->b;
  return cg_at(c, c->f32, g->b, cg_gemm_batch(g, g->p->b_batch, batch, cg_mul(c, g->k, g->n)));
}

static LLVMValueRef tile_b(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->pack_b == B_PRIVATE) return g->b_block;
  if (p->pack_b == B_IN_PLACE) return cg_at(c, c->f32, b_matrix(g, u->batch), cg_add(c, cg_mul(c, u->k0, g->n), u->n0));
  LLVMValueRef panel = p->b_has_batch ? cg_add(c, cg_mul(c, u->batch, g->panels), u->panel) : u->panel;
  LLVMValueRef k = cg_add(c, cg_mul(c, panel, g->k_pad), u->k0);
  return cg_at(c, c->f32, g->packed_b, cg_mul(c, k, cg_i64(c, p->width)));
}

static LLVMValueRef tile_c(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  if (g->p->acc_columns) return cg_at(c, c->f32, g->strip, cg_sub(c, u->n0, u->wait0));
  return in_strip(g) ? g->strip : cg_at(c, c->f32, g->sums, cg_add(c, cg_mul(c, u->row, g->n), u->n0));
}

// With several KC blocks the sums begin as the bias or zero in memory, so that all blocks add with one kind of tile.
static void tile_prefill(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  LLVMValueRef value[8], mask[8], to = tile_c(g, u);
  for (uint32_t j = 0; j < g->p->nv; j++) {
    LLVMValueRef lane = cg_i64(c, (int64_t)j * c->t->vl);
    mask[j] = cg_mask(c, cg_sub(c, u->columns, lane));
    value[j] = cg_splat(c, cg_f32(c, 0));
    if (g->bias) value[j] = cg_load_masked(c, c->vf, cg_at(c, c->f32, g->bias, cg_add(c, u->n0, lane)), mask[j]);
  }
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->rows, cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = cg_mul(c, l.i, tile_c_row(g));
  for (uint32_t j = 0; j < g->p->nv; j++) {
    LLVMValueRef at = cg_at(c, c->f32, to, cg_add(c, row, cg_i64(c, (int64_t)j * c->t->vl)));
    if (in_strip(g)) cg_store(c, value[j], at);
    else cg_store_masked(c, value[j], at, mask[j]);
  }
  cg_loop_end(c, &l, NULL);
}

static void emit_tile(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  TileArgs args = {.a = tile_a(g, u), .b = tile_b(g, u), .c = tile_c(g, u), .k = u->n_k, .n = u->columns};
  if (g->bias) args.bias = cg_at(c, c->f32, g->bias, u->n0);
  cg_gemm_prefetch(g, u, &args);
  args.a_row = tile_a_row(g), args.a_k = tile_a_k(g), args.b_k = tile_b_k(g), args.c_row = tile_c_row(g);
  int64_t m;
  TileRows rows = {.rows = u->rows, .a_block = tile_a_block(g)};
  rows.left = cg_const_value(g->m, &m) ? m % g->p->mr : g->p->mr == 1 ? 0 : TILE_DYN;
  if (!one_block(g)) {
    If first;
    cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, u->k0, u->k_begin, ""));
    tile_prefill(g, u);
    cg_endif(c, &first);
  }
  tile_columns(g, &args, &rows);
}

static void tile_epilogue(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  if (!g->epilogue) return;
  cg_gemm_epilogue(g, u->row, u->rows, u->n0, cg_min(c, u->columns, cg_i64(c, g->p->width)), tile_c(g, u),
                   tile_c_row(g));
}

static void set_panel(Gemm *g, GemmMacroTile *u, LLVMValueRef panel) {
  u->panel = panel;
  u->n0 = cg_mul(g->c, panel, cg_i64(g->c, g->p->width));
  u->columns = cg_sub(g->c, g->n, u->n0);
}

// ---- panel ranges: the panels [p0, p1) of one MC block
// for each KC block: the body; once where k is 0, so that sums begin.
static void begin_blocks(Gemm *g, Loop *l, GemmMacroTile *u) {
  Cg *c = g->c;
  LLVMValueRef end;
  cg_gemm_k_range(g, u->batch, &u->k_begin, &end);
  u->k0 = u->k_begin, u->n_k = g->k;
  if (one_block(g)) return;
  cg_loop_begin(c, l, u->k_begin, cg_max(c, end, cg_i64(c, 1)), cg_i64(c, g->p->kc), NULL, 0);
  u->k0 = l->i, u->n_k = cg_min(c, cg_i64(c, g->p->kc), cg_sub(c, end, l->i));
}
static void end_blocks(Gemm *g, Loop *l) {
  if (!one_block(g)) cg_loop_end(g->c, l, NULL);
}

// A macro tile with more rows than wait on the stack is done in strips, each with its epilogue.
static bool by_strips(const Gemm *g) { return in_strip(g) && g->p->strip_rows < g->p->mc; }

static void tile_strips(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  GemmMacroTile piece = *u;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->rows, cg_i64(c, g->p->strip_rows), NULL, 0);
  piece.m0 = cg_add(c, u->m0, l.i), piece.row = cg_add(c, u->row, l.i);
  piece.rows = cg_min(c, cg_i64(c, g->p->strip_rows), cg_sub(c, u->rows, l.i));
  emit_tile(g, &piece);
  tile_epilogue(g, &piece);
  cg_loop_end(c, &l, NULL);
}

// B's block is packed by the worker that uses it, or lies there.
static void stretch_by_panels(Gemm *g, GemmMacroTile *u, LLVMValueRef p0, LLVMValueRef p1) {
  Cg *c = g->c;
  Loop panel, block;
  cg_loop_begin(c, &panel, p0, p1, cg_i64(c, 1), NULL, 0);
  set_panel(g, u, panel.i);
  begin_blocks(g, &block, u);
  if (g->p->pack_b == B_PRIVATE) cg_gemm_pack_b(g, b_matrix(g, u->batch), u->k0, u->n_k, u->n0, g->b_block);
  if (by_strips(g)) tile_strips(g, u);
  else emit_tile(g, u);
  end_blocks(g, &block);
  if (!by_strips(g)) tile_epilogue(g, u);
  cg_loop_end(c, &panel, NULL);
}

static void pack_a_block(Gemm *g, const GemmMacroTile *u) {
  Cg *c = g->c;
  LLVMValueRef src = g->a;
  if (g->p->batch.n) src = cg_at(c, c->f32, src, cg_gemm_batch(g, g->p->a_batch, u->batch, cg_mul(c, g->m, g->k)));
  cg_gemm_pack_a(g, src, u->m0, u->k0, u->n_k, g->a_block);
}

// Panels [p0, p1) of all rows of the macro tile, whose sums are complete.
static void panels_finish(Gemm *g, GemmMacroTile *u, LLVMValueRef p0, LLVMValueRef p1) {
  Cg *c = g->c;
  if (!g->epilogue) return;
  LLVMValueRef end = cg_min(c, cg_mul(c, p1, cg_i64(c, g->p->width)), g->n);
  set_panel(g, u, p0);
  cg_gemm_epilogue(g, u->row, u->rows, u->n0, cg_sub(c, end, u->n0), tile_c(g, u), tile_c_row(g));
}

static void panels_by_mc_block(Gemm *g, GemmMacroTile *u, LLVMValueRef p0, LLVMValueRef p1) {
  Cg *c = g->c;
  bool by_macro_tile = one_block(g) && !g->p->acc_columns;  // else the sums of all panels are complete at the end
  Loop panel, block;
  begin_blocks(g, &block, u);
  if (g->p->pack_a == A_BLOCKS) pack_a_block(g, u);
  cg_loop_begin(c, &panel, p0, p1, cg_i64(c, 1), NULL, 0);
  set_panel(g, u, panel.i);
  emit_tile(g, u);
  if (by_macro_tile) tile_epilogue(g, u);
  cg_loop_end(c, &panel, NULL);
  end_blocks(g, &block);
  if (!by_macro_tile) panels_finish(g, u, p0, p1);
}

// Where sums wait on the stack, a wide panel range is done in parts.
static void stretch_by_chunks(Gemm *g, GemmMacroTile *u, LLVMValueRef p0, LLVMValueRef p1) {
  Cg *c = g->c;
  if (!g->p->acc_columns) {
    panels_by_mc_block(g, u, p0, p1);
    return;
  }
  LLVMValueRef step = cg_i64(c, g->p->acc_columns / g->p->width);
  Loop l;
  cg_loop_begin(c, &l, p0, p1, step, NULL, 0);
  u->wait0 = cg_mul(c, l.i, cg_i64(c, g->p->width));
  panels_by_mc_block(g, u, l.i, cg_min(c, p1, cg_add(c, l.i, step)));
  cg_loop_end(c, &l, NULL);
}

// The macro tile at which the share of worker number `worker` begins. Shares are equal by rows x panels: the last MC block may
// have few rows.
static LLVMValueRef share_begin(Gemm *g, LLVMValueRef worker, LLVMValueRef chunks) {
  Cg *c = g->c;
  LLVMValueRef chunk = cg_i64(c, g->p->mc), matrix = cg_mul(c, g->m, g->panels), some = cg_max(c, matrix, cg_i64(c, 1));
  LLVMValueRef at = cg_div(c, cg_mul(c, cg_mul(c, g->batch, matrix), worker), c->n_workers);
  LLVMValueRef which = cg_div(c, at, some), in_matrix = cg_gemm_rem(c, at, some);
  LLVMValueRef whole = cg_max(c, cg_mul(c, chunk, g->panels), cg_i64(c, 1)), nth = cg_div(c, in_matrix, whole);
  LLVMValueRef rows = cg_max(c, cg_min(c, chunk, cg_sub(c, g->m, cg_mul(c, nth, chunk))), cg_i64(c, 1));
  LLVMValueRef half = cg_div(c, rows, cg_i64(c, 2));
  LLVMValueRef panel = cg_div(c, cg_add(c, cg_gemm_rem(c, in_matrix, whole), half), rows);
  return cg_add(c, cg_mul(c, cg_add(c, cg_mul(c, which, chunks), nth), g->panels), panel);
}

static void compute(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  LLVMValueRef chunks = cg_ceil_div_value(c, g->m, p->mc), one = cg_i64(c, 1);
  LLVMValueRef panels = cg_max(c, g->panels, cg_i64(c, 1));
  LLVMValueRef lo = share_begin(g, c->worker, chunks), hi = share_begin(g, cg_add(c, c->worker, one), chunks);
  Loop l;
  cg_loop_begin(c, &l, cg_div(c, lo, panels), cg_div(c, cg_add(c, hi, cg_sub(c, panels, one)), panels), one, NULL, 0);
  LLVMValueRef before = cg_mul(c, l.i, panels);
  LLVMValueRef p0 = cg_max(c, cg_sub(c, lo, before), cg_i64(c, 0)), p1 = cg_min(c, cg_sub(c, hi, before), panels);
  GemmMacroTile u = {.batch = cg_i64(c, 0), .mc = l.i};
  bool several = p->batch.n || g->slices;
  if (several) u.batch = cg_div(c, l.i, chunks), u.mc = cg_gemm_rem(c, l.i, chunks);
  u.m0 = cg_mul(c, u.mc, cg_i64(c, p->mc));
  u.row = cg_add(c, several ? cg_mul(c, u.batch, g->m) : cg_i64(c, 0), u.m0);
  u.rows = cg_min(c, cg_i64(c, p->mc), cg_sub(c, g->m, u.m0));
  if (p->a_per_mc_block) cg_gemm_make_mc_block(g, u.m0, u.rows);
  if (p->pack_b == B_PRIVATE || p->pack_b == B_WEIGHT) stretch_by_panels(g, &u, p0, p1);
  else stretch_by_chunks(g, &u, p0, p1);
  cg_loop_end(c, &l, NULL);
}

// ---- kernels

static void emit_macro_tiles(Gemm *g) {
  Cg *c = g->c;
  if (cg_gemm_pack_shared(g)) cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  if (g->p->by == GEMM_BLAS) cg_gemm_emit_blas(g);
  else if (g->p->skinny) cg_gemm_emit_skinny(g);
  else if (g->p->at_b) cg_gemm_emit_at_b(g);
  else compute(g);
}

static void emit_small(Gemm *g) {
  Cg *c = g->c;
  If first;
  LLVMValueRef worker = c->worker, n_workers = c->n_workers;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, worker, cg_i64(c, 0), ""));
  c->worker = cg_i64(c, 0), c->n_workers = cg_i64(c, 1);
  emit_macro_tiles(g);
  c->worker = worker, c->n_workers = n_workers;
  cg_endif(c, &first);
}

bool cg_emit_gemm(Cg *c) {
  GemmPlan p = cg_gemm_plan(c->f, ir_anchor(c->f, c->k), c->t);
  Gemm g = make_values(c, &p);
  if (p.fused_operand && !(g.prologue = cg_prologue_new(c))) return false;
  if (!cg_gemm_begin_epilogue(&g)) return false;
  if (p.small && p.by == GEMM_OWN) emit_small(&g);
  else if (p.k_slice) cg_gemm_emit_split_k(&g, emit_macro_tiles);
  else emit_macro_tiles(&g);
  return true;
}
