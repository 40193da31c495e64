// Strategy winograd of products (gemm.h): convolutions and transposed ones of 3 x 3 taps and stride 1, dilated or not, in fewer
// multiply-adds and with more rounding than strategy conv (winograd.h).
//
// Transformed weights, U, are a packed copy of a parameter that the function does not write
// (codegen/module/packed_weights.c), or the team makes them in scratch in every run. Where V and M of enough tiles have
// room on a worker's stack, a unit of work is a block of neighbouring tiles, of one image or several:
//
//   V of the tiles | for each panel of channels of the result: 36 products, each tile's result, its epilogue
//
// With more channels, tiles are processed in chunks. The team makes a chunk's V in scratch, as
// [block][36][tile]
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

// Offsets of other data on the worker's stack, in elements from g->strip on.
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
  V table, result, zeros;  // pointers to a tile's pixels; a tile of a panel; a pixel of the padding
  V made;                  // a tile's pixels that a prologue makes
  V v;
  V first, n;    // tiles
  int64_t left;  // of n by the microkernel's rows, or TILE_DYN
} Unit;

typedef struct {
  V n0, weights;
  int64_t columns;
  uint32_t nv;
} Panel;

// V of tile number `tile`, to `v`.
static void read_tile(const Unit *u, V tile, V v) {
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

static V row_of_v(const Unit *u, V v, V row) { return cg_row(u->g->c, v, row, cg_i64(u->g->c, u->p->channels)); }

static void read_tiles(const Unit *u) {
  Cg *c = u->g->c;
  for (Loop l = cg_count(c, u->n); cg_next(&l);) read_tile(u, cg_add(c, u->first, l.i), row_of_v(u, u->v, l.i));
}

// While a point's product is made, the first tiles of rows prefetch the next point of U, which follows it.
static void prefetch_weights(const Unit *u, TileSpec *spec, TileArgs *args) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  if (4 * cg_winograd_weight_elements(p) <= c->t->facts.l2_bytes) return;
  V line = cg_i64(c, TILE_LINE), k = cg_i64(c, p->s.src_channels);
  spec->prefetch_lines = 1, spec->prefetch_tiles = (uint32_t)cg_ceil_div(p->width, TILE_LINE);
  args->prefetch = cg_row(c, args->b, k, cg_i64(c, p->width));
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
  for (Loop l = cg_count(c, cg_i64(c, WINOGRAD_POINTS)); cg_next(&l);) {
    TileArgs args = {.a = cg_row(c, u->v, l.i, cg_i64(c, p->v_point)),
                     .b = cg_row(c, n->weights, l.i, cg_i64(c, p->s.src_channels * p->width)),
                     .c = cg_row(c, u->g->b_block, l.i, cg_i64(c, p->m_point)),
                     .k = cg_i64(c, p->s.src_channels)};
    prefetch_weights(u, &spec, &args);
    cg_tile_rows(c, &spec, &args, &rows);
  }
}

static V pixel_number(Cg *c, const WinogradPlan *p, const WinogradTile *t, V y, V x) {
  V row = cg_add(c, cg_times(c, t->image, p->s.dst[1]), y);
  return cg_add(c, cg_times(c, row, p->s.dst[2]), x);
}

// The tile's result to the stack, where its rows, or its pixels if they are no neighbours, go through the epilogue.
static void finish_tile(const Unit *u, const Panel *n, const WinogradTile *t, WinogradSide from) {
  Gemm *g = u->g;
  Cg *c = g->c;
  const WinogradPlan *p = u->p;
  cg_winograd_transform(c, TRANSFORM_RESULT, from, (WinogradSide){u->result, p->width}, cg_i64(c, n->nv * c->t->vl),
                        false);
  V width = cg_i64(c, p->width), columns = cg_winograd_columns(c, p, t), one = cg_i64(c, 1);
  bool by_row = p->step_x == 1;
  for (Loop l = cg_count(c, cg_winograd_rows(c, p, t)); cg_next(&l);) {
    V y = cg_add(c, t->y, cg_times(c, l.i, p->step_y)),
      row = cg_row(c, u->result, l.i, cg_i64(c, WINOGRAD_TILE * p->width));
    for (Loop k = by_row ? cg_once(c) : cg_count(c, columns); cg_next(&k);) {
      V x = by_row ? t->x : cg_add(c, t->x, cg_times(c, k.i, p->step_x)),
        at = by_row ? row : cg_row(c, row, k.i, width);
      cg_gemm_epilogue(g, pixel_number(c, p, t, y, x), by_row ? columns : one, n->n0, cg_i64(c, n->columns), at, width);
    }
  }
}

// Stores the tile's result in place; pixels outside of the image go to a tile on the stack.
static void store_tile(const Unit *u, const Panel *n, const WinogradTile *t, WinogradSide from) {
  Gemm *g = u->g;
  Cg *c = g->c;
  cg_winograd_pixels(c, u->p, false, g->out, n->n0, t, u->result, u->table);
  cg_winograd_transform(c, TRANSFORM_RESULT, from, (WinogradSide){u->table, 0}, cg_i64(c, n->columns),
                        n->columns % c->t->vl != 0);
}

// Moments of the tile's pixels inside the image. A slot is a block of tiles.
static void add_moments(const Unit *u, const Panel *n, const WinogradTile *t, V nth) {
  Gemm *g = u->g;
  Cg *c = g->c;
  if (!g->moment_slots) return;
  const ConvShape *s = &u->p->s;
  V pixel = cg_i64(c, s->dst_channels), at = cg_add(c, cg_mul(c, pixel_number(c, u->p, t, t->y, t->x), pixel), n->n0);
  cg_gemm_add_moments(g, &(MomentPixels){.slot = cg_div(c, u->first, cg_i64(c, u->p->tiles)),
                                         .is_first = cg_eq(c, nth, cg_i64(c, 0)),
                                         .n0 = n->n0,
                                         .channels = cg_i64(c, n->columns),
                                         .from = cg_at(c, c->f32, g->out, at),
                                         .rows = cg_winograd_rows(c, u->p, t),
                                         .columns = cg_winograd_columns(c, u->p, t),
                                         .row = cg_times(c, pixel, s->dst[2] * u->p->step_y),
                                         .column = cg_times(c, pixel, u->p->step_x)});
}

static void panel(const Unit *u, const Panel *n) {
  Cg *c = u->g->c;
  products(u, n);
  for (Loop l = cg_count(c, u->n); cg_next(&l);) {
    WinogradTile t = cg_winograd_tile(c, u->p, cg_add(c, u->first, l.i));
    WinogradSide from = {cg_row(c, u->g->b_block, l.i, cg_i64(c, u->p->width)), u->p->m_point};
    if (u->g->epilogue) finish_tile(u, n, &t, from);
    else store_tile(u, n, &t, from);
    add_moments(u, n, &t, l.i);
  }
}

static Panel panel_at(const Unit *u, V n0, int64_t columns) {
  Cg *c = u->g->c;
  return (Panel){.n0 = n0,
                 .weights = cg_row(c, u->g->packed_b, n0, cg_i64(c, WINOGRAD_POINTS * u->p->s.src_channels)),
                 .columns = columns,
                 .nv = (uint32_t)cg_ceil_div(columns, c->t->vl)};
}

// ---- V on the stack
static void each_panel(const Unit *u) {
  for (Pieces n = cg_pieces(u->g->c, u->p->s.dst_channels, u->p->width); cg_next_piece(&n);) {
    Panel one = panel_at(u, n.i, n.n);
    panel(u, &one);
  }
}

static void each_block(Unit *u, V all) {
  Cg *c = u->g->c;
  V lo, hi, tiles = cg_i64(c, u->p->tiles);
  cg_share(c, all, u->p->tiles, &lo, &hi);
  for (Loop l = cg_each_by(c, lo, hi, tiles); cg_next(&l);) {
    u->first = l.i, u->n = cg_min(c, tiles, cg_sub(c, hi, l.i)), u->v = u->g->a_block;
    read_tiles(u);
    each_panel(u);
  }
}

// ---- V in scratch
static V block_of_v(const Unit *u, V block) {
  Cg *c = u->g->c;
  int64_t weights = u->p->keeps_weights ? 0 : cg_winograd_weight_elements(u->p);
  V at = cg_times(c, block, block_elements(u->p));
  return cg_at(c, c->f32, u->g->own, cg_add(c, cg_i64(c, weights), at));
}

// V of `count` tiles from `first` on.
static void read_chunk(const Unit *u, V first, V count) {
  Cg *c = u->g->c;
  V tiles = cg_i64(c, u->p->tiles);
  for (Loop l = cg_each_shared(c, count, 1); cg_next(&l);) {
    V v = block_of_v(u, cg_div(c, l.i, tiles));
    read_tile(u, cg_add(c, first, l.i), row_of_v(u, v, cg_rem(c, l.i, tiles)));
  }
}

// Adjacent units are blocks of tiles of one panel, so that its part of U is read from memory once. There are `panels` of `columns`
// columns, from n0 on.
static void finish_panels(Unit *u, V first, V count, int64_t n0, int64_t panels, int64_t columns) {
  Cg *c = u->g->c;
  V tiles = cg_i64(c, u->p->tiles), blocks = cg_ceil_div_value(c, count, u->p->tiles);
  for (Loop l = cg_each_shared(c, cg_times(c, blocks, panels), 1); cg_next(&l);) {
    V block = cg_rem(c, l.i, blocks), at = cg_mul(c, block, tiles), nth = cg_div(c, l.i, blocks);
    Panel one = panel_at(u, n0 ? cg_i64(c, n0) : cg_times(c, nth, columns), columns);
    u->first = cg_add(c, first, at), u->n = cg_min(c, tiles, cg_sub(c, count, at)), u->v = block_of_v(u, block);
    panel(u, &one);
  }
}

static void each_chunk(Unit *u, V all) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  int64_t whole = p->s.dst_channels / p->width;
  V chunk = cg_i64(c, p->chunk);
  for (Loop l = cg_each_by(c, cg_i64(c, 0), all, chunk); cg_next(&l);) {
    V count = cg_min(c, chunk, cg_sub(c, all, l.i));
    read_chunk(u, l.i, count);
    cg_wait_for_team(c);
    if (whole) finish_panels(u, l.i, count, 0, whole, p->width);
    if (whole < p->panels) finish_panels(u, l.i, count, whole * p->width, 1, p->s.dst_channels % p->width);
    if (p->chunk < p->images * p->image_tiles) cg_wait_for_team(c);
  }
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
  V all = cg_times(c, cg_dim(c, p.s.c.n), p.s.dst[0] * p.image_tiles);
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
