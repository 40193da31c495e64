// Strategy winograd of products (gemm.h): convolutions and transposed ones of 3 x 3 taps and stride 1, in fewer
// multiply-adds and with more rounding than strategy conv (winograd.h).
//
// Transformed weights, U, are a packed copy of a parameter that the function does not write
// (codegen/module/packed_weights.c), or the team makes them in scratch in every run. Where V and M of enough tiles have
// room on a worker's stack, a unit of work is a block of neighbouring tiles, of one image or several:
//
//   V of the tiles | for each panel of channels of the result: 36 products, each tile's result, its epilogue
//
// Of more channels, chunks of all tiles follow one another. The team makes a chunk's V in scratch, as [block][36][tile]
// [channel]; then a unit is a panel for a block.
#include "codegen/conv/winograd.h"

// ---- the plan
bool cg_gemm_winograd_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  WinogradPlan w;
  return p->is_conv && cg_winograd_plan(f, p->product, t, &w);
}

static int64_t block_elements(const WinogradPlan *p) { return WINOGRAD_POINTS * p->v_point; }  // V of a block of tiles

void cg_gemm_winograd_plan(const Fn *f, GemmPlan *p, const Target *t) {
  WinogradPlan w;
  cg_winograd_plan(f, p->product, t, &w);
  p->mr = w.mr, p->nv = w.nv, p->width = w.width;
  p->mc = w.tiles, p->kc = w.s.src_channels, p->tb = !w.s.transposed;
  if (w.keeps_weights) p->pack = cg_winograd_pack(p);
  else p->pack_b = B_BY_STRATEGY, p->b_elements = cg_winograd_weight_elements(&w);
  if (w.shares_tiles) p->b_elements += w.chunk / w.tiles * block_elements(&w);
  int64_t blocks = cg_ceil_div(w.images * w.image_tiles, w.tiles);
  p->units = blocks * (w.shares_tiles ? w.panels : 1);
  p->moment_slots = cg_gemm_moment_slots(f, p, blocks);
}

// What else lies on the worker's stack, in elements from g->strip on.
typedef struct {
  int64_t table, result, zeros, taps, made, end;
} Room;

static Room room_of(const WinogradPlan *p, bool prologue) {
  Room r = {.table = 0};
  r.result = r.table + 2 * WINOGRAD_SOURCE * WINOGRAD_TABLE_ROW;  // pointers of 64 bits
  r.zeros = r.result + WINOGRAD_TILE * WINOGRAD_TILE * p->width;
  r.taps = r.zeros + p->channels;
  r.made = r.taps + WINOGRAD_TAPS * WINOGRAD_TAPS * p->width;
  r.end = r.made + (prologue ? WINOGRAD_POINTS * p->channels : 0);
  return r;
}

void cg_gemm_winograd_stack(Gemm *g) {
  WinogradPlan w;
  cg_winograd_plan(g->c->f, g->p->product, g->c->t, &w);
  if (!w.shares_tiles) g->a_block = cg_gemm_on_stack(g->c, block_elements(&w));
  g->b_block = cg_gemm_on_stack(g->c, WINOGRAD_POINTS * w.m_point);
  g->strip = cg_gemm_on_stack(g->c, room_of(&w, g->p->prologue).end);
}

// ---- a unit
typedef struct {
  Gemm *g;
  const WinogradPlan *p;
  LLVMValueRef table, result, zeros;  // pointers to a tile's pixels; a tile of a panel; a pixel of the padding
  LLVMValueRef made;                  // a tile's pixels that a prologue makes
  LLVMValueRef v;
  LLVMValueRef first, n;  // tiles
  int64_t left;           // of n by the microkernel's rows, or TILE_DYN
} Unit;

typedef struct {
  LLVMValueRef n0, weights;
  int64_t columns;
  uint32_t nv;
} Panel;

// V of tile number `tile`, to `v`.
static void read_tile(const Unit *u, LLVMValueRef tile, LLVMValueRef v) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  WinogradTile t = cg_winograd_tile(c, p, tile);
  WinogradRead r = {.source = u->g->a,
                    .first = cg_i64(c, 0),
                    .channels = cg_i64(c, p->s.src_channels),
                    .table = u->table,
                    .zeros = u->zeros,
                    .v = v,
                    .point = p->v_point,
                    .prologue = u->g->prologue,
                    .made = u->made,
                    .room = p->channels};
  cg_winograd_read(c, p, &t, &r);
}

static LLVMValueRef row_of_v(const Unit *u, LLVMValueRef v, LLVMValueRef row) {
  return cg_at(u->g->c, u->g->c->f32, v, cg_mul(u->g->c, row, cg_i64(u->g->c, u->p->channels)));
}

static void read_tiles(const Unit *u) {
  Cg *c = u->g->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, cg_i64(c, 1), NULL, 0);
  read_tile(u, cg_add(c, u->first, l.i), row_of_v(u, u->v, l.i));
  cg_loop_end(c, &l, NULL);
}

// While a point's product is made, the first tiles of rows prefetch the next point of U, which follows it.
static void prefetch_weights(const Unit *u, TileSpec *spec, TileArgs *args) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  if (4 * cg_winograd_weight_elements(p) <= c->t->facts.l2_bytes) return;
  LLVMValueRef line = cg_i64(c, TILE_LINE), k = cg_i64(c, p->s.src_channels);
  spec->prefetch_lines = 1, spec->prefetch_tiles = (uint32_t)cg_ceil_div(p->width, TILE_LINE);
  args->prefetch = cg_at(c, c->f32, args->b, cg_mul(c, k, cg_i64(c, p->width)));
  args->prefetch_row = line, args->prefetch_tile = cg_mul(c, k, line);
}

static void products(const Unit *u, const Panel *n) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  TileSpec spec = {.mr = p->mr,
                   .nv = n->nv,
                   .a_row = p->channels,
                   .a_k = 1,
                   .b_k = p->width,
                   .b_vec = c->t->vl,
                   .c_row = p->width,
                   .c_vec = c->t->vl,
                   .mask_from = n->nv,
                   .partial = p->s.src_channels > WINOGRAD_PARTIAL_SUM ? WINOGRAD_PARTIAL_SUM : 0};
  TileRows rows = {.rows = u->n, .left = u->left, .a_block = cg_i64(c, p->mr * p->channels)};
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, WINOGRAD_POINTS), cg_i64(c, 1), NULL, 0);
  TileArgs args = {.a = cg_at(c, c->f32, u->v, cg_mul(c, l.i, cg_i64(c, p->v_point))),
                   .b = cg_at(c, c->f32, n->weights, cg_mul(c, l.i, cg_i64(c, p->s.src_channels * p->width))),
                   .c = cg_at(c, c->f32, u->g->b_block, cg_mul(c, l.i, cg_i64(c, p->m_point))),
                   .k = cg_i64(c, p->s.src_channels)};
  prefetch_weights(u, &spec, &args);
  cg_tile_rows(c, &spec, &args, &rows);
  cg_loop_end(c, &l, NULL);
}

static LLVMValueRef pixel_number(Cg *c, const WinogradPlan *p, const WinogradTile *t, LLVMValueRef y) {
  LLVMValueRef row = cg_add(c, cg_mul(c, t->image, cg_i64(c, p->s.dst[1])), y);
  return cg_add(c, cg_mul(c, row, cg_i64(c, p->s.dst[2])), t->x);
}

// The tile's result to the stack, where its rows go through the epilogue.
static void finish_tile(const Unit *u, const Panel *n, const WinogradTile *t, WinogradSide from) {
  Gemm *g = u->g;
  Cg *c = g->c;
  const WinogradPlan *p = u->p;
  cg_winograd_transform(c, TRANSFORM_RESULT, from, (WinogradSide){u->result, p->width}, cg_i64(c, n->nv * c->t->vl),
                        false);
  LLVMValueRef side = cg_i64(c, WINOGRAD_TILE), width = cg_i64(c, p->width);
  LLVMValueRef rows = cg_min(c, side, cg_sub(c, cg_i64(c, p->s.dst[1]), t->y)),
               columns = cg_min(c, side, cg_sub(c, cg_i64(c, p->s.dst[2]), t->x));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), rows, cg_i64(c, 1), NULL, 0);
  cg_gemm_epilogue(g, pixel_number(c, p, t, cg_add(c, t->y, l.i)), columns, n->n0, cg_i64(c, n->columns),
                   cg_at(c, c->f32, u->result, cg_mul(c, l.i, cg_i64(c, WINOGRAD_TILE * p->width))), width);
  cg_loop_end(c, &l, NULL);
}

// The tile's result in place; what lies outside of the image goes to a tile on the stack.
static void store_tile(const Unit *u, const Panel *n, const WinogradTile *t, WinogradSide from) {
  Gemm *g = u->g;
  Cg *c = g->c;
  cg_winograd_pixels(c, u->p, false, g->out, n->n0, t, u->result, u->table);
  cg_winograd_transform(c, TRANSFORM_RESULT, from, (WinogradSide){u->table, 0}, cg_i64(c, n->columns),
                        n->columns % c->t->vl != 0);
}

// Of the tile's pixels that are in the image. A slot is a block of tiles.
static void add_moments(const Unit *u, const Panel *n, const WinogradTile *t, LLVMValueRef nth) {
  Gemm *g = u->g;
  Cg *c = g->c;
  if (!g->moment_slots) return;
  const ConvShape *s = &u->p->s;
  LLVMValueRef side = cg_i64(c, WINOGRAD_TILE), pixel = cg_i64(c, s->dst_channels);
  LLVMValueRef at = cg_add(c, cg_mul(c, pixel_number(c, u->p, t, t->y), pixel), n->n0);
  cg_gemm_add_moments(g, &(MomentPixels){.slot = cg_div(c, u->first, cg_i64(c, u->p->tiles)),
                                         .is_first = LLVMBuildICmp(c->b, LLVMIntEQ, nth, cg_i64(c, 0), ""),
                                         .n0 = n->n0,
                                         .channels = cg_i64(c, n->columns),
                                         .from = cg_at(c, c->f32, g->out, at),
                                         .rows = cg_min(c, side, cg_sub(c, cg_i64(c, s->dst[1]), t->y)),
                                         .columns = cg_min(c, side, cg_sub(c, cg_i64(c, s->dst[2]), t->x)),
                                         .row = cg_mul(c, cg_i64(c, s->dst[2]), pixel),
                                         .column = pixel});
}

static void panel(const Unit *u, const Panel *n) {
  Cg *c = u->g->c;
  products(u, n);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, cg_i64(c, 1), NULL, 0);
  WinogradTile t = cg_winograd_tile(c, u->p, cg_add(c, u->first, l.i));
  WinogradSide from = {cg_at(c, c->f32, u->g->b_block, cg_mul(c, l.i, cg_i64(c, u->p->width))), u->p->m_point};
  if (u->g->epilogue) finish_tile(u, n, &t, from);
  else store_tile(u, n, &t, from);
  add_moments(u, n, &t, l.i);
  cg_loop_end(c, &l, NULL);
}

// `number`: of a panel of whole vectors; else the last one.
static Panel panel_at(const Unit *u, LLVMValueRef number, bool whole) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  int64_t left = p->s.dst_channels % p->width, per_panel = WINOGRAD_POINTS * p->s.src_channels * p->width;
  return (Panel){.n0 = cg_mul(c, number, cg_i64(c, p->width)),
                 .weights = cg_at(c, c->f32, u->g->packed_b, cg_mul(c, number, cg_i64(c, per_panel))),
                 .columns = whole ? p->width : left,
                 .nv = whole ? p->nv : (uint32_t)cg_ceil_div(left, c->t->vl)};
}

static int64_t whole_panels(const WinogradPlan *p) { return p->s.dst_channels / p->width; }

// ---- V on the stack
static void each_panel(const Unit *u) {
  Cg *c = u->g->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole_panels(u->p)), cg_i64(c, 1), NULL, 0);
  Panel one = panel_at(u, l.i, true);
  panel(u, &one);
  cg_loop_end(c, &l, NULL);
  if (whole_panels(u->p) == u->p->panels) return;
  Panel last = panel_at(u, cg_i64(c, whole_panels(u->p)), false);
  panel(u, &last);
}

static void each_block(Unit *u, LLVMValueRef all) {
  Cg *c = u->g->c;
  LLVMValueRef lo, hi, tiles = cg_i64(c, u->p->tiles);
  cg_share(c, all, u->p->tiles, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, tiles, NULL, 0);
  u->first = l.i, u->n = cg_min(c, tiles, cg_sub(c, hi, l.i)), u->v = u->g->a_block;
  read_tiles(u);
  each_panel(u);
  cg_loop_end(c, &l, NULL);
}

// ---- V in scratch
static LLVMValueRef block_of_v(const Unit *u, LLVMValueRef block) {
  Cg *c = u->g->c;
  int64_t weights = u->p->keeps_weights ? 0 : cg_winograd_weight_elements(u->p);
  LLVMValueRef at = cg_mul(c, block, cg_i64(c, block_elements(u->p)));
  return cg_at(c, c->f32, u->g->own, cg_add(c, cg_i64(c, weights), at));
}

// V of `count` tiles from `first` on.
static void read_chunk(const Unit *u, LLVMValueRef first, LLVMValueRef count) {
  Cg *c = u->g->c;
  LLVMValueRef lo, hi, tiles = cg_i64(c, u->p->tiles);
  cg_share(c, count, 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef v = block_of_v(u, cg_div(c, l.i, tiles));
  read_tile(u, cg_add(c, first, l.i), row_of_v(u, v, cg_rem(c, l.i, tiles)));
  cg_loop_end(c, &l, NULL);
}

// Neighbouring units are blocks for the same panel: its part of U is read from memory once.
static void finish_panels(Unit *u, LLVMValueRef first, LLVMValueRef count, bool whole) {
  Cg *c = u->g->c;
  int64_t n_whole = whole_panels(u->p);
  LLVMValueRef lo, hi, tiles = cg_i64(c, u->p->tiles), blocks = cg_ceil_div_value(c, count, u->p->tiles);
  cg_share(c, cg_mul(c, blocks, cg_i64(c, whole ? n_whole : u->p->panels - n_whole)), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef block = cg_rem(c, l.i, blocks), at = cg_mul(c, block, tiles);
  Panel one = panel_at(u, whole ? cg_div(c, l.i, blocks) : cg_i64(c, n_whole), whole);
  u->first = cg_add(c, first, at), u->n = cg_min(c, tiles, cg_sub(c, count, at)), u->v = block_of_v(u, block);
  panel(u, &one);
  cg_loop_end(c, &l, NULL);
}

static void each_chunk(Unit *u, LLVMValueRef all) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  LLVMValueRef chunk = cg_i64(c, p->chunk);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), all, chunk, NULL, 0);
  LLVMValueRef count = cg_min(c, chunk, cg_sub(c, all, l.i));
  read_chunk(u, l.i, count);
  cg_wait_for_team(c);
  if (whole_panels(p)) finish_panels(u, l.i, count, true);
  if (whole_panels(p) < p->panels) finish_panels(u, l.i, count, false);
  if (p->chunk < p->images * p->image_tiles) cg_wait_for_team(c);
  cg_loop_end(c, &l, NULL);
}

void cg_gemm_winograd_emit(Gemm *g) {
  Cg *c = g->c;
  WinogradPlan p;
  cg_winograd_plan(c->f, g->p->product, c->t, &p);
  Room r = room_of(&p, g->p->prologue);
  Unit u = {.g = g,
            .p = &p,
            .table = cg_at(c, c->f32, g->strip, cg_i64(c, r.table)),
            .result = cg_at(c, c->f32, g->strip, cg_i64(c, r.result)),
            .zeros = cg_at(c, c->f32, g->strip, cg_i64(c, r.zeros)),
            .made = cg_at(c, c->f32, g->strip, cg_i64(c, r.made))};
  LLVMValueRef all = cg_mul(c, cg_dim(c, p.s.c.n), cg_i64(c, p.s.dst[0] * p.image_tiles));
  int64_t known;
  u.left = cg_const_value(all, &known) ? known % p.mr : TILE_DYN;
  cg_conv_clear(c, u.zeros, cg_i64(c, p.channels));
  if (!p.keeps_weights) {
    cg_winograd_weights(c, &p, g->b, g->packed_b, cg_at(c, c->f32, g->strip, cg_i64(c, r.taps)));
    cg_wait_for_team(c);
  }
  if (p.shares_tiles) each_chunk(&u, all);
  else each_block(&u, all);
  if (g->moment_slots) g->moment_slots = cg_ceil_div_value(c, all, p.tiles);
}
