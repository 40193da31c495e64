// Strategy winograd of products (gemm.h): convolutions and transposed ones of 3 x 3 taps and stride 1, in fewer
// multiply-adds and with more rounding than strategy conv (winograd.h).
//
// The team transforms the weights into scratch. Then a unit of work is some neighbouring tiles, of one image or several:
//
//   V of the tiles | for each panel of channels of the result: 36 products, each tile's result, its epilogue
//
// Where V of all channels has no room, it is made by blocks of them for each panel, whose products are added up.
#include "codegen/gemm/winograd.h"

// ---- the plan
bool cg_gemm_winograd_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  WinogradPlan w;
  return p->is_conv && cg_winograd_plan(f, p->product, t, &w);
}

void cg_gemm_winograd_plan(const Fn *f, GemmPlan *p, const Target *t) {
  WinogradPlan w;
  cg_winograd_plan(f, p->product, t, &w);
  p->mr = w.mr, p->nv = w.nv, p->width = w.width;
  p->mc = w.tiles, p->kc = w.s.src_channels;
  p->pack_b = B_BY_STRATEGY;
  p->b_elements = WINOGRAD_POINTS * w.panels * w.s.src_channels * w.width;
  p->units = cg_ceil_div(w.images * w.image_tiles, w.tiles);
}

// What else lies on the worker's stack, in elements from g->strip on.
typedef struct {
  int64_t table, result, zeros, taps, end;
} Room;

static Room room_of(const WinogradPlan *p) {
  Room r = {.table = 0};
  r.result = r.table + 2 * WINOGRAD_SOURCE * WINOGRAD_TABLE_ROW;  // pointers of 64 bits
  r.zeros = r.result + WINOGRAD_TILE * WINOGRAD_TILE * p->width;
  r.taps = r.zeros + p->channels;
  r.end = r.taps + WINOGRAD_TAPS * WINOGRAD_TAPS * p->width;
  return r;
}

void cg_gemm_winograd_stack(Gemm *g) {
  WinogradPlan w;
  cg_winograd_plan(g->c->f, g->p->product, g->c->t, &w);
  g->a_block = cg_gemm_on_stack(g->c, WINOGRAD_POINTS * w.v_point);
  g->b_block = cg_gemm_on_stack(g->c, WINOGRAD_POINTS * w.m_point);
  g->strip = cg_gemm_on_stack(g->c, room_of(&w).end);
}

// ---- a unit
typedef struct {
  Gemm *g;
  const WinogradPlan *p;
  LLVMValueRef table, result, zeros;  // pointers to a tile's pixels; a tile of a panel; a pixel of the padding
  LLVMValueRef first, n;              // tiles
  int64_t left;                       // of n by the microkernel's rows, or TILE_DYN
} Unit;

typedef struct {
  LLVMValueRef n0, weights;
  int64_t columns;
  uint32_t nv;
} Panel;

static LLVMValueRef block_channels(const Unit *u, LLVMValueRef block) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  if (p->blocks == 1) return cg_i64(c, p->s.src_channels);
  LLVMValueRef left = cg_sub(c, cg_i64(c, p->s.src_channels), cg_mul(c, block, cg_i64(c, p->channels)));
  return cg_min(c, left, cg_i64(c, p->channels));
}

// V of block number `block` of the channels.
static void read_tiles(const Unit *u, LLVMValueRef block) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, cg_i64(c, 1), NULL, 0);
  WinogradTile t = cg_winograd_tile(c, p, cg_add(c, u->first, l.i));
  WinogradRead r = {.source = u->g->a,
                    .first = cg_mul(c, block, cg_i64(c, p->channels)),
                    .channels = block_channels(u, block),
                    .table = u->table,
                    .zeros = u->zeros,
                    .v = cg_at(c, c->f32, u->g->a_block, cg_mul(c, l.i, cg_i64(c, p->channels))),
                    .point = p->v_point};
  cg_winograd_read(c, p, &t, &r);
  cg_loop_end(c, &l, NULL);
}

// adds: to the products of the blocks before.
static void products(const Unit *u, const Panel *n, LLVMValueRef block, bool adds) {
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
                   .more = adds,
                   .mask_from = n->nv};
  TileRows rows = {.rows = u->n, .left = u->left, .a_block = cg_i64(c, p->mr * p->channels)};
  LLVMValueRef weights =
      cg_at(c, c->f32, n->weights, cg_mul(c, block, cg_i64(c, p->blocks > 1 ? p->channels * p->width : 0)));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, WINOGRAD_POINTS), cg_i64(c, 1), NULL, 0);
  TileArgs args = {.a = cg_at(c, c->f32, u->g->a_block, cg_mul(c, l.i, cg_i64(c, p->v_point))),
                   .b = cg_at(c, c->f32, weights, cg_mul(c, l.i, cg_i64(c, p->s.src_channels * p->width))),
                   .c = cg_at(c, c->f32, u->g->b_block, cg_mul(c, l.i, cg_i64(c, p->m_point))),
                   .k = block_channels(u, block)};
  cg_tile_rows(c, &spec, &args, &rows);
  cg_loop_end(c, &l, NULL);
}

// Several blocks are transformed again for every panel.
static void all_products(const Unit *u, const Panel *n) {
  Cg *c = u->g->c;
  LLVMValueRef zero = cg_i64(c, 0);
  if (u->p->blocks > 1) read_tiles(u, zero);
  products(u, n, zero, false);
  if (u->p->blocks == 1) return;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 1), cg_i64(c, u->p->blocks), cg_i64(c, 1), NULL, 0);
  read_tiles(u, l.i);
  products(u, n, l.i, true);
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
  const ConvShape *s = &u->p->s;
  LLVMValueRef at = cg_mul(c, t->image, cg_i64(c, s->dst[1] * s->dst[2] * s->dst_channels));
  WinogradPixels pixels = {.height = s->dst[1],
                           .width = s->dst[2],
                           .pixel = s->dst_channels,
                           .image = cg_at(c, c->f32, g->out, cg_add(c, at, n->n0)),
                           .y = t->y,
                           .x = t->x,
                           .outside = u->result,
                           .n = WINOGRAD_TILE};
  cg_winograd_pixels(c, &pixels, u->table);
  cg_winograd_transform(c, TRANSFORM_RESULT, from, (WinogradSide){u->table, 0}, cg_i64(c, n->columns),
                        n->columns % c->t->vl != 0);
}

static void panel(const Unit *u, const Panel *n) {
  Cg *c = u->g->c;
  all_products(u, n);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, cg_i64(c, 1), NULL, 0);
  WinogradTile t = cg_winograd_tile(c, u->p, cg_add(c, u->first, l.i));
  WinogradSide from = {cg_at(c, c->f32, u->g->b_block, cg_mul(c, l.i, cg_i64(c, u->p->width))), u->p->m_point};
  if (u->g->epilogue) finish_tile(u, n, &t, from);
  else store_tile(u, n, &t, from);
  cg_loop_end(c, &l, NULL);
}

static void each_panel(const Unit *u) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  int64_t whole = p->s.dst_channels / p->width, left = p->s.dst_channels % p->width;
  LLVMValueRef per_panel = cg_i64(c, WINOGRAD_POINTS * p->s.src_channels * p->width);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, whole), cg_i64(c, 1), NULL, 0);
  panel(u, &(Panel){.n0 = cg_mul(c, l.i, cg_i64(c, p->width)),
                    .weights = cg_at(c, c->f32, u->g->packed_b, cg_mul(c, l.i, per_panel)),
                    .columns = p->width,
                    .nv = p->nv});
  cg_loop_end(c, &l, NULL);
  if (!left) return;
  panel(u, &(Panel){.n0 = cg_i64(c, whole * p->width),
                    .weights = cg_at(c, c->f32, u->g->packed_b, cg_mul(c, cg_i64(c, whole), per_panel)),
                    .columns = left,
                    .nv = (uint32_t)cg_ceil_div(left, c->t->vl)});
}

static void each_unit(Unit *u) {
  Cg *c = u->g->c;
  const WinogradPlan *p = u->p;
  LLVMValueRef lo, hi, all = cg_mul(c, cg_dim(c, p->s.c.n), cg_i64(c, p->s.dst[0] * p->image_tiles));
  int64_t known;
  u->left = cg_const_value(all, &known) ? known % p->mr : TILE_DYN;
  cg_share(c, all, p->tiles, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, p->tiles), NULL, 0);
  u->first = l.i, u->n = cg_min(c, cg_i64(c, p->tiles), cg_sub(c, hi, l.i));
  if (p->blocks == 1) read_tiles(u, cg_i64(c, 0));
  each_panel(u);
  cg_loop_end(c, &l, NULL);
}

void cg_gemm_winograd_emit(Gemm *g) {
  Cg *c = g->c;
  WinogradPlan p;
  cg_winograd_plan(c->f, g->p->product, c->t, &p);
  Room r = room_of(&p);
  Unit u = {.g = g,
            .p = &p,
            .table = cg_at(c, c->f32, g->strip, cg_i64(c, r.table)),
            .result = cg_at(c, c->f32, g->strip, cg_i64(c, r.result)),
            .zeros = cg_at(c, c->f32, g->strip, cg_i64(c, r.zeros))};
  cg_conv_clear(c, u.zeros, cg_i64(c, p.channels));
  cg_winograd_weights(c, &p, g->b, g->packed_b, cg_at(c, c->f32, g->strip, cg_i64(c, r.taps)));
  cg_team_barrier(c, cg_i32(c, 0), c->n_workers);
  each_unit(&u);
}
