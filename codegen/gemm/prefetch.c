// What tiles prefetch while they compute (microkernel.h): memory has little to do then.
//
//   A that is read in place and larger than L2: the rows of the next tile
//   a result larger than L2, where k is one block and A not packed: the lines that a tile is going to store, by the tile itself
//   B packed by panels, or a weight's copy, that is too large for the last-level cache, or for L2 where rows are many: the next
//   KC block of the panel, or of the next panel where k is outermost, a share by each of the first tiles of rows
//   B stored [K, N] that is packed by NC columns, and L2 does not hold: the next KC x NC block, a share by each tile
//   A that is stored transposed: the next KC block of the MC block
//   an update: while the last KC block is summed, the rows of the parameter and its state that are about to change
//
// Every tile of a specification prefetches; those that have nothing to prefetch touch what is near. Found by
// docs/experiments/021, 046, 081 and 090.
#include "codegen/gemm/macro_tile.h"
#include "codegen/tuning.h"
#include "ir/passes/plan.h"

static bool prefetches_update(const Gemm *g) { return !ir_none(g->p->update) && g->p->nc; }

Val cg_gemm_result(const Gemm *g) {
  Cg *c = g->c;
  if (g->p->epilogue != EPILOGUE_FROM_STACK) return g->p->out;
  const Ins *product = ir_ins(c->f, g->p->product);
  for (uint32_t i = ir_end_of_elements(c->f, c->k); i-- > g->p->product.i;) {
    const Ins *ins = ir_ins(c->f, (Val){i});
    if (cg_stored(c, (Val){i}) && ins->shape.i == product->shape.i && ins->dtype == product->dtype) return (Val){i};
  }
  return (Val){0};
}

// Rows of A, or of an update's tensors, before the prefetch goes on to their next lines (090).
enum { ROWS = 16 };

static bool prefetches_a(const Gemm *g) { return g->p->pack_a == A_PACKED && g->p->kc < g->p->k_max; }

enum { TUNED_PREFETCH(TUNE) };

static bool exceeds_l2(const Gemm *g, int64_t elements) {
  return elements > ir_f32_in(g->c->t->facts.l2_bytes / L2_PART);
}

// From memory always; from the last-level cache where the rows of A stay in L2.
static bool prefetches_b(const Gemm *g) {
  const GemmPlan *p = g->p;
  bool stored = !p->b_has_batch && p->prologue != PROLOGUE_B;
  bool by_worker = p->pack_b == B_PREPACKED || (p->pack_b == B_PRIVATE && !p->nc && stored);
  int64_t rows = cg_smaller(p->mc, p->m_max), k = p->k_outermost ? p->kc : p->k_max, tiles = rows / p->mr;
  bool stay = rows * k <= ir_f32_in(g->c->t->facts.l2_bytes), pays = tiles >= MANY_TILES && tiles < MOST_TILES;
  return by_worker && (cg_gemm_b_exceeds_llc(p, g->c->t) || (stay && pays && exceeds_l2(g, p->n_max * p->k_max)));
}

// Rows of NC columns are too short for the hardware's streams; those of B stored [N, K] are not.
static bool prefetches_nc(const Gemm *g) {
  const GemmPlan *p = g->p;
  bool packs = p->pack_b == B_PRIVATE && p->nc && !p->parts && !p->tb && !p->b_has_batch && p->prologue != PROLOGUE_B;
  return packs && exceeds_l2(g, p->n_max * p->k_max);
}

static bool in_rows(const GemmPlan *p) { return p->pack_a == A_IN_PLACE && !p->ta; }

// What a tile reads of its rows is not all that lies from the first one's begin to the last one's end.
static bool reads_parts_of_rows(const Gemm *g) { return g->p->kc < g->p->k_max || g->p->laid[LAID_A].moves; }

static bool prefetches_rows(const Gemm *g) {
  const GemmPlan *p = g->p;
  bool elsewhere = prefetches_nc(g) || prefetches_b(g) || prefetches_update(g) || p->single_threaded;
  return in_rows(p) && !elsewhere && p->m_max > p->mr && exceeds_l2(g, p->batch_max * p->m_max * p->k_max);
}

// Several KC blocks add to sums that are on their way already; past a micropanel of A they are written from end to end.
static bool prefetches_result(const Gemm *g) {
  const GemmPlan *p = g->p;
  bool one_block = p->kc >= p->k_max && !p->nc && !g->slices;
  return one_block && !ir_none(cg_gemm_result(g)) && exceeds_l2(g, p->batch_max * p->m_max * p->n_max);
}

// How the tiles of rows share the lines of the next block of B: each prefetches `lines` with `steps` k. The fewer at a time
// the better: lines on their way take the buffers that loads from L2 need (081).
typedef struct {
  uint32_t tiles;
  int64_t lines, steps;
} ShareOfB;

static ShareOfB share_of_b(const GemmPlan *p) {
  enum { MAX_TILES = 16 };
  int64_t of_k = cg_ceil_div(p->width, TILE_LINE), rows = cg_smaller(p->mc, p->m_max);
  ShareOfB s = {.tiles = 1};
  while (2 * s.tiles <= cg_smaller(MAX_TILES, rows / p->mr)) s.tiles *= 2;
  bool by_rows = p->pack_b == B_PRIVATE && !p->tb;
  s.lines = s.tiles == 1 || by_rows ? of_k : 1;
  s.steps = cg_larger(1, s.tiles * s.lines / of_k);
  s.tiles = (uint32_t)cg_smaller(s.tiles, cg_ceil_div(of_k * s.steps, s.lines));
  return s;
}

// A tile prefetches rows of a KC x NC block, one line of NC after another: `lines` with `steps` k.
typedef struct {
  int64_t rows, lines, steps;
} ShareOfNc;

static ShareOfNc share_of_nc(const GemmPlan *p) {
  int64_t tiles = cg_ceil_div(cg_smaller(p->mc, p->m_max), p->mr) * (p->nc / p->width),
          kc = cg_smaller(p->kc, p->k_max);
  ShareOfNc s = {.rows = cg_round_up(cg_ceil_div(kc, tiles), TILE_UNROLL)};
  int64_t all = s.rows * cg_ceil_div(p->nc, TILE_LINE);
  s.steps = cg_larger(1, kc / all), s.lines = cg_ceil_div(all, cg_larger(1, kc));
  return s;
}

// A tile has lines enough for its share of three tensors: NR columns of ROWS rows each. The fewer at a time the better.
enum { TENSORS = 3 };
static int64_t lines_of_tile(const GemmPlan *p) { return cg_ceil_div(TENSORS * p->width, TILE_LINE) * ROWS; }
static uint32_t lines_of_rows(const GemmPlan *p) { return cg_smaller(p->kc, p->k_max) < lines_of_tile(p) ? 2 : 1; }
static uint32_t steps_of_rows(const GemmPlan *p) { return cg_smaller(p->kc, p->k_max) < 2 * lines_of_tile(p) ? 1 : 2; }

void cg_gemm_set_prefetch(const Gemm *g, TileSpec *s) {
  s->prefetch_result = prefetches_result(g);
  if (prefetches_rows(g))
    s->prefetch_lines = 1, s->prefetch_rows = reads_parts_of_rows(g) ? (uint32_t)cg_round_up(g->p->mr, TILE_UNROLL) : 0;
  if (prefetches_update(g) || prefetches_a(g))
    s->prefetch_lines = lines_of_rows(g->p), s->prefetch_rows = ROWS, s->prefetch_steps = steps_of_rows(g->p);
  if (prefetches_nc(g)) {
    ShareOfNc share = share_of_nc(g->p);
    s->prefetch_rows = (uint32_t)share.rows, s->prefetch_lines = (uint32_t)share.lines;
    s->prefetch_steps = (uint32_t)share.steps;
  }
  if (!prefetches_b(g)) return;
  ShareOfB share = share_of_b(g->p);
  s->prefetch_lines = (uint32_t)share.lines, s->prefetch_tiles = share.tiles;
  s->prefetch_steps = share.steps > 1 ? (uint32_t)share.steps : 0;
  s->prefetch_rows = g->p->pack_b == B_PRIVATE && g->p->tb ? (uint32_t)g->p->width : 0;
}

// What a tile prefetches of each of ROWS rows, in elements.
static V share_of_rows(Gemm *g, const GemmMacroTile *u) {
  V columns = cg_div(g->c, u->n_k, cg_i64(g->c, ROWS * steps_of_rows(g->p)));
  return cg_mul(g->c, columns, cg_i64(g->c, lines_of_rows(g->p) * TILE_LINE));
}

static V panel_of_nc(Gemm *g, const GemmMacroTile *u) {
  return cg_div(g->c, cg_sub(g->c, u->n0, u->nc0), cg_i64(g->c, g->p->width));
}

static void prefetch_if(Gemm *g, TileArgs *args, V now, V from, V row) {
  Cg *c = g->c;
  args->prefetch = cg_select(c, now, from, args->prefetch);
  args->prefetch_row = cg_select(c, now, row, args->prefetch_row);
  args->prefetch_tile = cg_select(c, now, cg_mul(c, row, cg_i64(c, g->p->mr)), args->prefetch_tile);
}

// Each tile of NC ROWS of the next k, of those columns that the MC block packs, and some more.
static void prefetch_a(Gemm *g, const GemmMacroTile *u, TileArgs *args) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  V next = cg_add(c, u->k0, u->n_k), panels = cg_i64(c, p->nc / p->width);
  V tile = cg_index(c, u->micropanel, panels, panel_of_nc(g, u));
  V k = cg_add(c, next, cg_mul(c, tile, cg_i64(c, ROWS))), first = cg_mul(c, u->micropanel, cg_i64(c, p->mr));
  V at = cg_index(c, k, g->a_ld, cg_sub(c, u->m0, first));
  if (p->batch.n) at = cg_add(c, at, cg_gemm_batch(g, LAID_A, u->batch));
  V end = cg_min(c, g->k, cg_add(c, next, cg_i64(c, p->kc)));
  prefetch_if(g, args, cg_lt(c, k, end), cg_at(c, c->f32, g->a, at), g->a_ld);
}

// The next NC columns of the KC block, or the first ones of the next.
static void prefetch_nc(Gemm *g, const GemmMacroTile *u, TileArgs *args) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  V width = cg_i64(c, p->width), n = cg_add(c, u->nc0, cg_i64(c, p->nc));
  V more = cg_lt(c, n, cg_mul(c, u->end, width));
  n = cg_select(c, more, n, cg_mul(c, u->first, width));
  V next = cg_select(c, more, u->k0, cg_add(c, u->k0, u->n_k));
  V tile = cg_index(c, u->micropanel, cg_i64(c, p->nc / p->width), panel_of_nc(g, u));
  V k = cg_add(c, next, cg_mul(c, tile, cg_i64(c, share_of_nc(p).rows)));
  V end = cg_min(c, g->k, cg_add(c, next, cg_i64(c, p->kc)));
  V from = cg_cell(c, g->b, k, g->n, n);
  prefetch_if(g, args, cg_lt(c, k, end), from, g->n);
}

// Lines of the tile's rows in NC, tensor by tensor.
static void prefetch_update(Gemm *g, const GemmMacroTile *u, TileArgs *args) {
  Cg *c = g->c;
  V last = cg_ge(c, cg_add(c, u->k0, u->n_k), g->k);
  V nc = cg_i64(c, g->p->nc), at = cg_mul(c, panel_of_nc(g, u), share_of_rows(g, u));
  V tensor = cg_div(c, at, nc), column = cg_add(c, u->nc0, cg_rem(c, at, nc));
  V element = cg_index(c, u->row, g->n, column);
  for (uint32_t k = 0; k < ir_ops[ir_ins(c->f, g->p->update)->op].n_res; k++) {
    V from = cg_at(c, c->f32, cg_ptr(c, ir_arg(c->f, g->p->update, k)), element);
    V now = cg_and(c, last, cg_eq(c, tensor, cg_i64(c, k)));
    prefetch_if(g, args, now, from, g->n);
  }
}

// The next KC block of the panel, or the next panel's first, as it is stored; where k is outermost, that of
// the next panel.
static void prefetch_b(Gemm *g, const GemmMacroTile *u, TileArgs *args) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  ShareOfB share = share_of_b(p);
  V width = cg_i64(c, p->width), next_k = cg_add(c, u->k0, u->n_k);
  V lines = cg_i64(c, share.lines * TILE_LINE), steps = cg_div(c, u->n_k, cg_i64(c, share.steps));
  V ahead = p->k_outermost ? g->k_pad : u->n_k;
  if (p->pack_b == B_PREPACKED) {
    args->prefetch = cg_row(c, args->b, ahead, width);
    args->prefetch_row = lines, args->prefetch_tile = cg_mul(c, steps, lines);
    return;
  }
  V k = u->k0, n = cg_add(c, u->n0, width);
  if (!p->k_outermost) {
    V more = cg_lt(c, next_k, g->k);
    k = cg_select(c, more, next_k, cg_i64(c, 0));
    n = cg_select(c, more, u->n0, n);
  }
  V at = p->tb ? cg_index(c, n, g->k, k) : cg_index(c, k, g->n, n);
  args->prefetch = cg_at(c, c->f32, g->b, at), args->prefetch_row = p->tb ? g->k : g->n;
  args->prefetch_tile = p->tb ? cg_mul(c, cg_ceil_div_value(c, steps, p->width), lines) : cg_mul(c, steps, g->n);
}

// One line with each k covers the rows, which are neighbours, or their parts in the KC block.
static void prefetch_rows(Gemm *g, TileArgs *args) {
  Cg *c = g->c;
  V mr = cg_i64(c, g->p->mr);
  args->prefetch_tile = cg_mul(c, mr, args->a_row);
  args->prefetch = cg_at(c, c->f32, args->a, args->prefetch_tile);
  args->prefetch_row = reads_parts_of_rows(g) ? args->a_row : mr;
}

static void prefetch_result(Gemm *g, const GemmMacroTile *u, TileArgs *args) {
  Cg *c = g->c;
  args->result = cg_cell(c, cg_ptr(c, cg_gemm_result(g)), u->row, g->n, u->n0);
  args->result_row = cg_gemm_rows(g, g->n);
}

void cg_gemm_prefetch(Gemm *g, const GemmMacroTile *u, TileArgs *args) {
  args->prefetch = args->a, args->prefetch_row = args->prefetch_tile = cg_i64(g->c, 0);
  if (prefetches_result(g)) prefetch_result(g, u, args);
  if (prefetches_rows(g)) prefetch_rows(g, args);
  if (prefetches_b(g)) prefetch_b(g, u, args);
  if (prefetches_a(g)) prefetch_a(g, u, args);
  if (prefetches_nc(g)) prefetch_nc(g, u, args);
  if (prefetches_update(g)) prefetch_update(g, u, args);
}
