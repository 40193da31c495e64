// Class conv_weight by Winograd's algorithm (winograd.h): dU[e] = sum over tiles of V[e]^T D[e], D = A dY A^T,
// dW = G^T dU G.
//
// The tiles of all images are cut into slices, whose number depends on bounds only. A unit of work is a slice, a
// block of the channels of x and one of those of g: it transforms some tiles of both and adds their 36 products to sums of
// its own,
//
//   [slice][block of x][block of g][36][channel of x][channel of g]
//
// which are added in the order of slices, transformed and stored.
#include "codegen/conv/winograd.h"
#include "codegen/tuning.h"
#include "ir/passes/plan.h"

enum { TUNED_WINOGRAD_WEIGHTS(TUNE) };

typedef struct {
  WinogradPlan w;
  int64_t x_blocks, g_blocks, x_block, g_block;  // blocks of channels: how many, of how many, whole vectors
  int64_t rows;                                  // channels in a block of x, without those that fill its last vector
  int64_t tiles, x_point, g_point;
  int64_t slices, sums;  // sums: elements of a unit's
  double cost;           // of a tile
} Plan;

// ---- the plan
static int64_t vectors_of(int64_t channels, const Target *t) { return cg_ceil_div(channels, t->vl); }

static int64_t tiles_that_fit(int64_t channels, const Target *t) {
  int64_t room = cg_smaller(t->stack_bytes * STACK_PART / 16, t->facts.l2_bytes / 2) / 4 / WINOGRAD_POINTS;
  return cg_smaller(MOST_TILES, (room - 2 * MATRIX_GAP) / channels);
}

static void choose_blocks(Plan *p, const Target *t) {
  const ConvShape *s = &p->w.s;
  int64_t c = vectors_of(s->src_channels, t), o = vectors_of(s->dst_channels, t);
  for (int64_t i = 1; i <= c; i++) {
    for (int64_t j = 1; j <= o; j++) {
      if (c % i || o % j) continue;
      int64_t tiles = tiles_that_fit((c / i + o / j) * t->vl, t);
      if (tiles < FEW_TILES) continue;
      double products = (double)(WINOGRAD_POINTS * c * t->vl * o) * (1 + (double)SUMS_COST / (double)tiles);
      double cost = products + (double)(SOURCE_COST * c * j) + (double)(GRADIENT_COST * o * i);
      if (p->tiles && cost >= p->cost) continue;
      p->x_blocks = i, p->g_blocks = j, p->tiles = tiles, p->cost = cost;
      p->x_block = c / i * t->vl, p->g_block = o / j * t->vl;
    }
  }
}

static void estimate(Plan *p, int64_t all, const Target *t) {
  const ConvShape *s = &p->w.s;
  double c = (double)s->src_channels, o_vectors = (double)vectors_of(s->dst_channels, t);
  double pixels = (double)(p->w.images * s->dst[1] * s->dst[2]);
  p->w.direct = pixels * WINOGRAD_TAPS * WINOGRAD_TAPS * c * o_vectors;
  p->w.winograd = (double)all * p->cost + c * o_vectors * (double)(FINISH_COST + WINOGRAD_POINTS * p->slices);
}

static bool plan_of(const Fn *f, Val v, const Target *t, Plan *p) {
  *p = (Plan){0};
  if (!cg_winograd_shape(f, v, t, &p->w)) return false;
  choose_blocks(p, t);
  if (!p->tiles) return false;
  p->rows = p->x_blocks == 1 ? p->w.s.src_channels : p->x_block;
  p->x_point = p->tiles * p->x_block + MATRIX_GAP, p->g_point = p->tiles * p->g_block + MATRIX_GAP;
  p->sums = WINOGRAD_POINTS * p->x_block * p->g_block;
  int64_t all = p->w.images * p->w.image_tiles, one = 4 * p->sums * p->x_blocks * p->g_blocks;
  int64_t most = cg_smaller(cg_smaller(MOST_SLICES, SLICE_BYTES / one), cg_ceil_div(all, p->tiles));
  p->slices = cg_larger(1, most);
  estimate(p, all, t);
  return cg_winograd_choose(t, &p->w);
}

bool cg_winograd_weight_plan(const Fn *f, Val v, const Target *t, WinogradPlan *w) {
  Plan p;
  bool chosen = plan_of(f, v, t, &p);
  *w = p.w;
  return chosen;
}

int64_t cg_winograd_weight_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Plan p;
  plan_of(f, v, t, &p);
  return cg_round_up(4 * p.slices * p.x_blocks * p.g_blocks * p.sums, TN_ALIGN);
}

// ---- a unit
typedef struct {
  Cg *c;
  const Plan *p;
  V x, g, scratch;
  V v, d, table, zeros, buffer, made;  // on the stack; made: a tile's pixels of x
  struct RowStrip *prologue;           // prologue that makes them; NULL: x is stored
  V slice, x_block, g_block;
  V first, n;  // tiles
  V sums;
} Unit;

static V channels_of(Cg *c, V first, int64_t block, int64_t all) {
  return cg_min(c, cg_i64(c, block), cg_sub(c, cg_i64(c, all), first));
}

static void read_gradient(const Unit *u, const WinogradTile *t, V to) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const ConvShape *s = &p->w.s;
  V first = cg_times(c, u->g_block, p->g_block);
  cg_winograd_pixels(c, &p->w, false, u->g, first, t, u->zeros, u->table);
  cg_winograd_transform(c, TRANSFORM_GRADIENT, (WinogradSide){u->table, 0}, (WinogradSide){to, p->g_point},
                        channels_of(c, first, p->g_block, s->dst_channels), s->dst_channels % c->t->vl != 0);
}

static void read_tiles(const Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  V first = cg_times(c, u->x_block, p->x_block);
  for (Loop l = cg_count(c, u->n); cg_next(&l);) {
    WinogradTile t = cg_winograd_tile(c, &p->w, cg_add(c, u->first, l.i));
    WinogradRead r = {.source = u->x,
                      .first = first,
                      .channels = channels_of(c, first, p->x_block, p->w.s.src_channels),
                      .table = u->table,
                      .zeros = u->zeros,
                      .v = cg_row(c, u->v, l.i, cg_i64(c, p->x_block)),
                      .point = p->x_point,
                      .prologue = u->prologue,
                      .made = u->made,
                      .room = p->x_block};
    cg_winograd_read(c, &p->w, &t, &r);
    read_gradient(u, &t, cg_row(c, u->d, l.i, cg_i64(c, p->g_block)));
  }
}

// `nv` vectors of the block of g from column n0 on, of one point.
static void product(const Unit *u, V point, V n0, uint32_t nv) {
  Cg *c = u->c;
  const Plan *p = u->p;
  uint32_t most = (uint32_t)cg_smaller(MOST_ROWS, c->t->gemm_mr * c->t->gemm_nv / nv);
  TileSpec spec = {.mr = cg_tile_height(p->rows, most),
                   .nv = nv,
                   .a_row = 1,
                   .a_k = p->x_block,
                   .b_k = p->g_block,
                   .b_vec = c->t->vl,
                   .c_row = p->g_block,
                   .c_vec = c->t->vl,
                   .accumulate = true,
                   .mask_from = nv};
  cg_tile_sum_in_parts(&spec, c->t, cg_ceil_div(p->w.images * p->w.image_tiles, p->slices), p->tiles, 1);
  V d = cg_add(c, cg_times(c, point, p->g_point), n0),
    sums = cg_add(c, cg_times(c, point, p->x_block * p->g_block), n0);
  TileArgs args = {.a = cg_row(c, u->v, point, cg_i64(c, p->x_point)),
                   .b = cg_at(c, c->f32, u->d, d),
                   .c = cg_at(c, c->f32, u->sums, sums),
                   .k = u->n};
  TileRows rows = {.rows = cg_i64(c, p->rows), .left = p->rows % spec.mr, .a_block = cg_i64(c, spec.mr)};
  cg_tile_rows(c, &spec, &args, &rows);
}

static void products(const Unit *u) {
  Cg *c = u->c;
  for (Loop point = cg_count(c, cg_i64(c, WINOGRAD_POINTS)); cg_next(&point);)
    for (Pieces p = cg_pieces(c, u->p->g_block, c->t->gemm_nv * c->t->vl); cg_next_piece(&p);)
      product(u, point.i, p.i, (uint32_t)(p.n / c->t->vl));
}

static V all_tiles(const Unit *u) {
  const WinogradPlan *w = &u->p->w;
  return cg_times(u->c, cg_dim(u->c, w->s.c.n), w->s.dst[0] * w->image_tiles);
}

static void unit(Unit *u) {
  Cg *c = u->c;
  Inside some = cg_part(c, all_tiles(u), u->slice, u->p->slices);
  V tiles = cg_i64(c, u->p->tiles);
  cg_conv_clear(c, u->sums, cg_i64(c, u->p->sums));
  for (Loop l = cg_each_by(c, some.lo, some.hi, tiles); cg_next(&l);) {
    u->first = l.i, u->n = cg_min(c, tiles, cg_sub(c, some.hi, l.i));
    read_tiles(u);
    products(u);
  }
}

static void each_unit(Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  for (Loop l = cg_each_shared(c, cg_i64(c, p->slices * p->x_blocks * p->g_blocks), 1); cg_next(&l);) {
    u->g_block = l.i, u->x_block = cg_split(c, &u->g_block, p->g_blocks);
    u->slice = cg_split(c, &u->x_block, p->x_blocks);
    u->sums = cg_row(c, u->scratch, l.i, cg_i64(c, p->sums));
    unit(u);
  }
}

// ---- the weight's gradient
// Sums over the slices of one channel of x and a block of g, to the buffer as [36][g_block].
static void add_slices(const Unit *u, V from) {
  Cg *c = u->c;
  const Plan *p = u->p;
  int64_t slice = p->x_blocks * p->g_blocks * p->sums;
  for (Loop point = cg_count(c, cg_i64(c, WINOGRAD_POINTS)); cg_next(&point);) {
    V row = cg_row(c, from, point.i, cg_i64(c, p->x_block * p->g_block)),
      to = cg_row(c, u->buffer, point.i, cg_i64(c, p->g_block));
    for (Loop l = cg_each_by(c, cg_i64(c, 0), cg_i64(c, p->g_block), cg_i64(c, c->t->vl)); cg_next(&l);)
      cg_put(c, cg_sum_slices(c, cg_at(c, c->f32, row, l.i), p->slices, slice), to, l.i);
  }
}

static void store_taps(const Unit *u, V taps, V n, V to) {
  Cg *c = u->c;
  int64_t all = WINOGRAD_TAPS * WINOGRAD_TAPS;
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V at = cg_row(c, to, l.i, cg_i64(c, u->p->w.s.src_channels * all));
    for (int64_t k = 0; k < all; k++) {
      V from = cg_at(c, c->f32, taps, cg_add(c, cg_i64(c, k * u->p->g_block), l.i));
      cg_put(c, cg_load(c, c->f32, from), at, cg_i64(c, k));
    }
  }
}

static void finish(const Unit *u, V out) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const ConvShape *s = &p->w.s;
  V g_blocks = cg_i64(c, p->g_blocks), x_block = cg_i64(c, p->x_block);
  V taps = cg_at(c, c->f32, u->buffer, cg_i64(c, WINOGRAD_POINTS * p->g_block));
  for (Loop l = cg_each_shared(c, cg_i64(c, s->src_channels * p->g_blocks), 1); cg_next(&l);) {
    V g_block = l.i, channel = cg_split(c, &g_block, p->g_blocks);
    V block = cg_add(c, cg_mul(c, cg_div(c, channel, x_block), g_blocks), g_block);
    V in_block = cg_times(c, cg_rem(c, channel, x_block), p->g_block);
    add_slices(u, cg_at(c, c->f32, u->scratch, cg_add(c, cg_times(c, block, p->sums), in_block)));
    cg_winograd_transform(c, TRANSFORM_WEIGHT_GRADIENT, (WinogradSide){u->buffer, p->g_block},
                          (WinogradSide){taps, p->g_block}, cg_i64(c, p->g_block), false);
    V first = cg_times(c, g_block, p->g_block), all = cg_i64(c, WINOGRAD_TAPS * WINOGRAD_TAPS);
    V row = cg_add(c, cg_times(c, first, s->src_channels), channel);
    store_taps(u, taps, channels_of(c, first, p->g_block, s->dst_channels), cg_at(c, c->f32, out, cg_mul(c, row, all)));
  }
}

void cg_winograd_weight_emit(Cg *c, V x, V g, struct RowStrip *prologue) {
  Val v = ir_anchor(c->f, c->k);
  Plan p;
  plan_of(c->f, v, c->t, &p);
  int64_t zeros = cg_larger(p.x_block, p.g_block);
  Unit u = {.c = c, .p = &p, .x = x, .g = g, .scratch = c->scratch, .prologue = prologue};
  u.v = cg_gemm_on_stack(c, WINOGRAD_POINTS * p.x_point), u.d = cg_gemm_on_stack(c, WINOGRAD_POINTS * p.g_point);
  u.table = cg_block(c, c->ptr, WINOGRAD_SOURCE * WINOGRAD_TABLE_ROW), u.zeros = cg_gemm_on_stack(c, zeros);
  u.buffer = cg_gemm_on_stack(c, (WINOGRAD_POINTS + WINOGRAD_TAPS * WINOGRAD_TAPS) * p.g_block);
  if (prologue) u.made = cg_gemm_on_stack(c, WINOGRAD_POINTS * p.x_block);
  cg_conv_clear(c, u.zeros, cg_i64(c, zeros));
  each_unit(&u);
  cg_wait_for_team(c);
  finish(&u, cg_ptr(c, v));
}
