// Strategy tiled: macro tiles of an MC block of rows x a panel of NR columns (macrokernel.c), for every product.
//
// Here: the shape of tiles and blocks, and which operands are packed. B with rows too far apart, or stored the wrong way, is
// packed by the worker that uses it, since a block then serves all rows of an MC block; by the team into scratch where A is
// stored the wrong way, since MC blocks are low then. A that passes many panels is packed by the team.
#include "codegen/gemm/gemm.h"
#include "codegen/tuning.h"

enum { TUNED_TILED(TUNE) };
enum { MAX_NV = 8 };

bool cg_gemm_tiled_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f, (void)p, (void)t;
  return true;
}

// ---- the microkernel
// Tiles of few rows leave registers for wider panels: of accumulators, of a row of B and of an element of A. A prepacked weight has one
// layout for products of any number of rows.
static uint32_t panel_vectors(const GemmPlan *p, const Target *t) {
  int64_t registers = t->gemm_mr * t->gemm_nv + t->gemm_nv + 1, height = cg_tile_height(p->m_max, t->gemm_mr);
  int64_t most = t->gemm_nv, few = registers / (height + 1);
  if (!p->ta && !p->tb && p->pack_b != B_PREPACKED) most = cg_larger(most, cg_smaller(MAX_NV, few));
  return (uint32_t)cg_larger(1, cg_smaller(most, cg_ceil_div(p->n_max, t->vl)));
}

// Registers for several vectors of columns have room for more rows of one vector. Where those are all rows, operands that come from
// memory do so once; rows that are pages apart would evict each other's lines from L1, which has ways for most of WAYS.
static uint32_t tile_height(const GemmPlan *p, const Target *t) {
  int64_t narrow = (int64_t)t->gemm_mr * t->gemm_nv / p->nv, in_l2 = ir_f32_in(t->facts.l2_bytes / ONCE_L2_PART);
  bool evict = p->a_ld_max % ir_f32_in(t->facts.page_bytes) == 0 && p->m_max > WAYS;
  bool is_far = (p->m_max + p->n_max) * p->k_max > in_l2;
  bool once = !p->ta && is_far && !evict && p->m_max <= narrow;
  return cg_tile_height(p->m_max, once ? (uint32_t)cg_larger(narrow, t->gemm_mr) : t->gemm_mr);
}

// With few accumulators, additions would wait for one another.
static uint32_t chains_of(const GemmPlan *p) {
  uint32_t n = 1;
  if (p->m_max >= CHAINED_ROWS || p->k_max < CHAINED_K) return 1;
  while (2 * n * p->mr * p->nv <= CHAINS) n *= 2;
  return n;
}

// ---- packing
// Most of k that a macro tile sums.
static int64_t summed_k(const GemmPlan *p) { return p->k_slice ? p->k_slice : p->k_max; }

static int64_t panels_of(const GemmPlan *p) { return cg_ceil_div(p->n_max, p->width); }

// Tiles of rows that pass a block of B are so many that A is packed for them, and B by several panels.
static bool has_many_tiles(const GemmPlan *p, const Target *t) {
  return t->gemm_b_bytes && cg_ceil_div(p->m_max, p->mr) >= MANY_TILES;
}

// With more rows than fit into L2 beside B: MC blocks whose rows stay in L1 pass by all panels, so that rows
// of A are read, and rows of C written, once from end to end.
static bool is_tall(const GemmPlan *p, const Target *t) {
  int64_t in_l2 = ir_f32_in(t->facts.l2_bytes / TALL_L2_PART), b = panels_of(p) * p->width * p->k_max;
  bool plain = p->pack_a == A_IN_PLACE && !p->ta && !p->batch.n && !p->k_slice && p->prologue == PROLOGUE_NONE;
  if (!plain || p->single_threaded || p->pack_b == B_PREPACKED || !ir_none(p->update)) return false;
  return p->k_max <= t->gemm_kc && b <= in_l2 && p->m_max * cg_larger(p->k_max, p->n_max) > in_l2;
}

// Tiles of rows that read a panel of B again, whose rows are several lines, cost less than a copy of it, unless it comes from memory.
static int64_t reads_in_place(const GemmPlan *p, const Target *t) {
  int64_t in_llc = ir_f32_in(t->facts.llc_bytes / TWICE_LLC_PART);
  return p->width > TILE_LINE && p->k_max <= TWICE_K && p->n_max * p->k_max <= in_llc ? 2 : 1;
}

static bool stays_in_place(const GemmPlan *p, const Target *t) {
  bool again = cg_ceil_div(p->m_max, p->mr) > reads_in_place(p, t);
  bool far = again && p->k_max >= FAR_K && p->n_max > FAR_COLUMNS;
  return p->pack_b != B_PREPACKED && !p->tb && !far;
}

// Rows of an MC block whose padded copy fits on the stack.
static int64_t padded_rows(const GemmPlan *p, const Target *t) {
  return ir_f32_in(t->facts.l2_bytes / PAD_L2_PART) / (p->k_max + GEMM_STRIDE_PAD) / p->mr * p->mr;
}

// Rows of a matrix of a batch that lie pages apart meet in the same sets of L1: those of an MC block are copied.
static bool copies_laid_rows(const GemmPlan *p, const Target *t) {
  bool pages = p->a_ld_max % ir_f32_in(t->facts.page_bytes) == 0;
  return p->laid[LAID_A].moves && pages && !p->ta && p->m_max > p->mr && padded_rows(p, t) >= PAD_ROWS;
}

static PackB choose_pack_b(const GemmPlan *p, const Target *t) {
  if (p->pack_b == B_PREPACKED || stays_in_place(p, t)) return p->pack_b;
  if ((p->pack_a == A_PADDED_PER_MC_BLOCK && !copies_laid_rows(p, t)) || is_tall(p, t)) return B_SHARED;
  bool once = p->batch.n == 0 || p->b_has_batch;  // no other matrix has the same panel
  return !p->ta && once ? B_PRIVATE : B_SHARED;
}

// Rows a large power of two apart meet in the same sets of the caches.
static bool has_bad_stride(const Fn *f, const GemmPlan *p, const Target *t) {
  int64_t bad = ir_f32_in(t->facts.page_bytes / 2);
  return ir_dim_is_const(f->prog, p->k) && p->k_max >= bad && p->k_max % bad == 0;
}

// A tile reads each line of its rows with a whole line's k: they must not evict each other, as rows of a page that are
// more than L1 has ways do.
static PackA choose_padding(const GemmPlan *p, const Target *t) {
  bool pages = p->k_max % ir_f32_in(t->facts.page_bytes) == 0, fits = padded_rows(p, t) >= PAD_ROWS;
  return pages && fits && p->m_max >= 2 * PAD_ROWS && p->pack_b != B_PREPACKED ? A_PADDED_PER_MC_BLOCK : A_IN_PLACE;
}

static PackA choose_pack_a(const Fn *f, const GemmPlan *p, const Target *t) {
  if (p->single_threaded) return A_IN_PLACE;
  if (p->ta) return panels_of(p) >= 2 ? A_PACKED : A_IN_PLACE;
  if (copies_laid_rows(p, t)) return A_PADDED_PER_MC_BLOCK;
  if (p->m_max <= p->mr || p->batch.n || p->k_slice || cg_gemm_fuses_a(p)) return A_IN_PLACE;
  bool bad = has_bad_stride(f, p, t),
       pays = panels_of(p) >= SHARED_PANELS && p->k_max >= SHARED_K && !stays_in_place(p, t);
  if (pays && (bad || (has_many_tiles(p, t) && !is_tall(p, t)))) return A_SHARED;
  return bad ? choose_padding(p, t) : A_IN_PLACE;
}

// All rows of an MC block, which is high, pass by a block of B.
static bool by_panels(const GemmPlan *p) { return p->pack_b == B_PRIVATE || p->pack_b == B_PREPACKED; }

// Each row of B begins a page: the lines of one panel would evict each other, and each wants a page of its own.
static bool has_rows_of_pages(const GemmPlan *p, const Target *t) {
  return t->gemm_b_bytes && !p->tb && p->b_ld_max % ir_f32_in(t->facts.page_bytes) == 0;
}

// B is packed by several panels.
static bool by_nc(const GemmPlan *p, const Target *t) {
  bool pays = has_many_tiles(p, t) || has_rows_of_pages(p, t);
  return p->pack_b == B_PRIVATE && pays && panels_of(p) >= NC_LEAST_PANELS;
}

static int64_t choose_kc(const GemmPlan *p, const Target *t) {
  int64_t k = summed_k(p);
  if (p->pack_a == A_PACKED) return cg_gemm_kc(k, t->gemm_kc_packed_a, t);
  int64_t in_nc = ir_f32_in(t->gemm_b_bytes) / NC_LEAST_PANELS / p->width;
  if (by_nc(p, t)) return cg_gemm_kc(k, cg_smaller(has_many_tiles(p, t) ? t->gemm_kc : t->gemm_kc_packed_a, in_nc), t);
  if (by_panels(p)) return cg_gemm_kc(k, t->gemm_kc, t);
  return k > LONG_K ? cg_gemm_kc(k, t->gemm_kc_in_place, t) : cg_larger(1, k);
}

// ---- MC blocks
static int64_t rows_for_units(const GemmPlan *p, int64_t units, int64_t panels) {
  return cg_ceil_div(p->m_max, cg_ceil_div(units, panels));
}

// Rows that fit, and rows that make units enough for even shares.
static int64_t fitting_rows(const GemmPlan *p, const Target *t, bool waits) {
  if (p->pack_a == A_PACKED) return PACKED_A_TILES * (int64_t)p->mr;
  int64_t padded = p->pack_a == A_PADDED_PER_MC_BLOCK ? padded_rows(p, t) : PRIVATE_ROWS;
  if (by_panels(p)) return cg_smaller(padded, waits && !by_nc(p, t) ? SUM_ROWS : PRIVATE_ROWS);
  int64_t bytes = is_tall(p, t) ? t->facts.l1_bytes / TALL_L1_PART : t->gemm_mc_bytes;
  int64_t rows = ir_f32_in(bytes) / cg_larger(1, summed_k(p));
  if (p->pack_a == A_PADDED_PER_MC_BLOCK) rows = padded_rows(p, t);
  return p->epilogue ? cg_smaller(rows, STRIP_ROWS) : rows;
}

// Sums of few terms are written as fast as memory takes them. Rows of C that are pages apart are then written a tile's rows
// at a time, in order.
static bool writes_rows(const GemmPlan *p, const Target *t) {
  return is_tall(p, t) && summed_k(p) <= WRITE_K && p->n_max >= ir_f32_in(t->facts.page_bytes);
}

static int64_t even_rows(const GemmPlan *p) {
  int64_t panels = cg_larger(1, panels_of(p) * p->batch_max);
  if (!by_panels(p)) return rows_for_units(p, UNITS_WANTED, panels);
  return cg_larger(rows_for_units(p, PRIVATE_UNITS, panels),
                   cg_smaller(FEW_ROWS, rows_for_units(p, FEW_UNITS, panels)));
}

// Of NC columns, on the stack.
static int64_t rows_with_sums(const GemmPlan *p) { return cg_gemm_by_micropanels(p) ? p->mr : p->mc; }

// Columns of a block of B that a worker packs.
static int64_t packed_columns(const GemmPlan *p, const Target *t) {
  int64_t fit = ir_f32_in(t->gemm_b_bytes) / (p->width * p->kc);
  return cg_larger(1, has_many_tiles(p, t) ? cg_smaller(fit, NC_PANELS) : fit) * p->width;
}

// Columns of B whose KC block stays in L2, in equal parts of all; the epilogue's sums are on the stack.
static int64_t columns_in_l2(const GemmPlan *p, const Target *t) {
  int64_t most = ir_f32_in(t->facts.l2_bytes / NC_L2_PART) / cg_smaller(p->kc, cg_larger(1, p->k_max));
  if (p->pack_b == B_PRIVATE) most = packed_columns(p, t);
  if (p->epilogue == EPILOGUE_FROM_STACK) most = cg_smaller(most, ir_f32_in(t->gemm_acc_bytes) / rows_with_sums(p));
  int64_t panels = cg_larger(1, panels_of(p)), parts = cg_ceil_div(panels, cg_larger(1, most / p->width));
  return cg_ceil_div(panels, parts) * p->width;
}

// NC: of B, or with accumulators on the stack, where the epilogue needs them after all KC blocks, or whole rows.
static int64_t choose_nc(const GemmPlan *p, const Target *t, bool waits) {
  if (p->pack_a == A_PACKED || by_nc(p, t)) return columns_in_l2(p, t);
  bool at_once = (!waits && ir_none(p->update)) || by_panels(p);
  if (at_once || p->epilogue == EPILOGUE_FROM_MEMORY) return 0;
  int64_t columns = cg_smaller(ir_f32_in(t->gemm_acc_bytes) / p->mc, cg_round_up(p->n_max, p->width));
  return cg_larger(1, columns / p->width) * p->width;
}

// Each panel would bring all rows of A into L2 again. Past several panels of B go all rows at once, whose sums would be too
// many for the stack.
static void place_k(GemmPlan *p, const Target *t) {
  int64_t rows = cg_smaller(p->mc, p->m_max);
  bool exceeds = rows * p->k_max > ir_f32_in(t->facts.l2_bytes), pays = exceeds && rows <= OUTER_ROWS && !p->k_slice;
  p->k_outermost = (by_nc(p, t) || (by_panels(p) && pays)) && p->kc < p->k_max;
  if (!p->k_outermost) return;
  if (!by_nc(p, t)) p->kc = cg_gemm_kc(p->k_max, t->gemm_kc_packed_a, t);
  if (p->epilogue) p->epilogue = EPILOGUE_FROM_MEMORY;
}

static void choose_mc(GemmPlan *p, const Target *t) {
  bool waits = p->epilogue && p->kc < p->k_max;
  int64_t rows = writes_rows(p, t) ? p->mr : cg_smaller(fitting_rows(p, t, waits), even_rows(p));
  p->mc = cg_larger(p->mr, cg_round_up(rows, p->mr));
  place_k(p, t);
  p->strip_rows = waits ? p->mc : cg_smaller(p->mc, cg_round_up(STRIP_ROWS, p->mr));
  p->nc = choose_nc(p, t, waits);
}

// With few panels, a worker needs the rows of its MC blocks alone, but for the first and the last block of its share.
// MC blocks are as high as their rows fit on the stack.
static void place_prologue(GemmPlan *p, const Target *t) {
  int64_t rows = ir_f32_in(t->facts.l2_bytes / L2_PART) / (p->k_max + GEMM_STRIDE_PAD) / p->mr * p->mr;
  bool shared = p->prologue == PROLOGUE_A_SHARED && !p->k_slice;
  if (!shared || p->n_max > PROLOGUE_PANELS * p->width || rows < PROLOGUE_ROWS) return;
  p->prologue = PROLOGUE_A_PER_MC_BLOCK;
  p->mc = cg_smaller(p->mc, rows), p->strip_rows = cg_smaller(p->strip_rows, p->mc);
}

// A packed A that is larger than two windows of it is packed window by window, into as much scratch. A window is of all rows
// and several KC blocks where k is outermost, since sums lie in memory then; else, or where that is too much, of some MC blocks.
static void choose_window(GemmPlan *p, const Target *t) {
  int64_t most = ir_f32_in(t->facts.llc_bytes / WINDOW_LLC_PART);
  if (p->pack_a != A_SHARED) return;
  GemmPlan w = *p;
  w.window_rows = cg_round_up(p->m_max, p->mc), w.window_k = cg_round_up(p->k_max, t->vl);
  int64_t whole = cg_gemm_window_elements(&w);
  if (whole <= 2 * most) return;
  if (p->k_outermost) w.window_k = cg_larger(1, most / (cg_ceil_div(w.window_rows, p->mr) * p->a_tile) / p->kc) * p->kc;
  if (cg_gemm_window_elements(&w) > most) {
    int64_t units = cg_ceil_div(WINDOW_UNITS, panels_of(p)), fit = most / (w.window_k * p->a_tile) * p->mr / p->mc;
    w.window_rows = cg_smaller(w.window_rows, cg_larger(units, fit) * p->mc);
  }
  if (2 * cg_gemm_window_elements(&w) < whole) *p = w;
}

void cg_gemm_tiled_plan(const Fn *f, GemmPlan *p, const Target *t) {
  p->nv = panel_vectors(p, t), p->width = (int64_t)p->nv * t->vl;
  p->mr = tile_height(p, t), p->a_tile = cg_round_up(p->mr, t->vl);
  p->chains = chains_of(p);
  p->pack_a = choose_pack_a(f, p, t), p->pack_b = choose_pack_b(p, t);
  p->kc = choose_kc(p, t);
  choose_mc(p, t);
  p->units = panels_of(p) * cg_ceil_div(p->m_max, p->mc);
  place_prologue(p, t);
  choose_window(p, t);
}

void cg_gemm_tiled_stack(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  int64_t row = p->nc + GEMM_STRIDE_PAD;
  if (p->nc && p->epilogue == EPILOGUE_FROM_STACK) g->strip = cg_gemm_on_stack(c, rows_with_sums(p) * row);
  else if (p->epilogue == EPILOGUE_FROM_STACK) g->strip = cg_gemm_on_stack(c, p->strip_rows * p->width);
  if (p->pack_a == A_PACKED) g->a_block = cg_gemm_on_stack(c, cg_ceil_div(p->mc, p->mr) * p->kc * p->a_tile);
  if (p->pack_b == B_PRIVATE) g->b_block = cg_gemm_on_stack(c, p->kc * cg_larger(p->nc, p->width));
}
