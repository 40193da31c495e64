// Which convolutions are done by Winograd's algorithm, in tiles of what size (winograd.h), and where a tile lies.
#include "codegen/gemm/winograd.h"

// Estimated times are counted in multiply-adds of a vector by the microkernel.
enum {
  STACK_PART = 13,  // sixteenths of a worker's stack: V and M
  MOST_TILES = 32,  // transformed together,
  FEW_TILES = 8,    // and at least, so that U is read often enough from L1 and L2;
  MANY_TILES = 12,  // likewise of several blocks of channels, whose U is large
  MOST_ROWS = 16,
  MOST_WEIGHT_BYTES = 16 << 20,  // of U
  PARTS_WANTED = 8,              // of the tiles: work for a team
  SOURCE_COST = 200,             // of a vector of channels of a tile: loads, stores and arithmetic,
  RESULT_COST = 140,             // likewise,
  WEIGHT_COST = 500,             // of a vector of U, whose weights are not neighbours,
  LOAD_COST = 3,                 // and of reading one from the LLC
  MATRIX_GAP = 16,               // elements between matrices, so that points of a tile map to different cache sets
  GAIN = 125                     // per cent: a smaller one is no reason to round more
};

static bool is_known(const ConvShape *s) {
  const Conv *c = &s->c;
  bool one_plane = c->kernel[0] == 1 && c->stride[0] == 1 && !c->before[0] && !c->behind[0];
  bool taps = c->kernel[1] == WINOGRAD_TAPS && c->kernel[2] == WINOGRAD_TAPS;
  bool steps = c->stride[1] == 1 && c->stride[2] == 1 && c->dilation[1] == 1 && c->dilation[2] == 1;
  bool some = s->src_channels > 0 && s->dst_channels > 0 && s->dst[1] > 0 && s->dst[2] > 0;
  return one_plane && taps && steps && c->groups == 1 && some;
}

// ---- how many tiles together
static int64_t block_bytes(const WinogradPlan *p, int64_t tiles) {
  return 4 * WINOGRAD_POINTS * (tiles * (p->channels + p->width) + 2 * MATRIX_GAP);
}

static void choose_tiles(WinogradPlan *p, int64_t all, uint32_t most_rows, const Target *t) {
  int64_t room = cg_smaller(t->stack_bytes * STACK_PART / 16, t->facts.l2_bytes / 2), most = MOST_TILES;
  most = cg_smaller(most, cg_larger(FEW_TILES, cg_ceil_div(all, PARTS_WANTED)));
  while (most > 0 && block_bytes(p, most) > room) most--;
  if (most > most_rows) most -= most % most_rows;
  p->tiles = most;
  if (most == 0) return;
  p->mr = cg_tile_height(most, most_rows);
  p->tiles = most - most % p->mr;
}

// As few blocks of channels as leave room for enough tiles.
static void choose_blocks(WinogradPlan *p, int64_t all, const Target *t) {
  int64_t vectors = cg_ceil_div(p->s.src_channels, t->vl);
  uint32_t most_rows = (uint32_t)cg_smaller(MOST_ROWS, t->gemm_mr * t->gemm_nv / p->nv);
  for (int64_t n = 1; n <= vectors; n++) {
    p->channels = cg_ceil_div(vectors, n) * t->vl, p->blocks = cg_ceil_div(p->s.src_channels, p->channels);
    choose_tiles(p, all, most_rows, t);
    if (p->tiles >= (n == 1 ? FEW_TILES : cg_smaller(MANY_TILES, cg_larger(FEW_TILES, all / PARTS_WANTED)))) return;
  }
  p->tiles = 0;
}

// ---- time
static void estimate(WinogradPlan *p, int64_t all, const Target *t) {
  double c = (double)p->s.src_channels, c_vectors = (double)cg_ceil_div(p->s.src_channels, t->vl);
  double o_vectors = (double)cg_ceil_div(p->s.dst_channels, t->vl), reads = p->blocks == 1 ? 1 : (double)p->panels;
  double pixels = (double)(p->images * p->s.dst[1] * p->s.dst[2]), tiles = (double)all;
  double weights = WINOGRAD_POINTS * c * o_vectors;  // vectors
  bool exceeds_l2 = weights * 4 * (double)t->vl > (double)t->facts.l2_bytes / 2;
  p->direct = pixels * WINOGRAD_TAPS * WINOGRAD_TAPS * c * o_vectors;
  p->winograd =
      tiles * (weights + SOURCE_COST * c_vectors * reads + RESULT_COST * o_vectors) + c * o_vectors * WEIGHT_COST;
  if (exceeds_l2) p->winograd += (double)cg_ceil_div(all, p->tiles) * weights * LOAD_COST;
}

bool cg_winograd_choose(const Target *t, WinogradPlan *p) {
  bool chosen = t->convolution == CONVOLUTION_WINOGRAD || p->winograd * GAIN < p->direct * 100;
  p->choice = chosen ? WINOGRAD_CHOSEN : WINOGRAD_SLOWER;
  return chosen;
}

void cg_winograd_reason(const WinogradPlan *p, RtText *out) {
  static const char *const words[] = {
      [WINOGRAD_UNKNOWN] = "Winograd's algorithm is for 3 x 3 taps, stride 1, one group",
      [WINOGRAD_OFF] = "exact convolutions are asked for",
      [WINOGRAD_NO_ROOM] = "too many channels for Winograd's algorithm",
      [WINOGRAD_SLOWER] = "Winograd's algorithm would not gain enough",
      [WINOGRAD_CHOSEN] = "Winograd's algorithm",
  };
  rt_text_add(out, "%s", words[p->choice]);
  if (p->choice >= WINOGRAD_SLOWER)
    rt_text_add(out, ": estimated at %.0f %% of the time of direct sums", 100 * p->winograd / p->direct);
}

bool cg_winograd_shape(const Fn *f, Val v, const Target *t, WinogradPlan *p) {
  *p = (WinogradPlan){0};
  cg_conv_shape(f, v, &p->s);
  const ConvShape *s = &p->s;
  if (is_known(s)) p->choice = t->convolution == CONVOLUTION_EXACT ? WINOGRAD_OFF : WINOGRAD_NO_ROOM;
  if (p->choice != WINOGRAD_NO_ROOM) return false;
  cg_conv_windows(s, 0, &p->w);
  p->images = ir_dim_bound(f->prog, s->c.n) * s->dst[0];
  p->row_tiles = cg_ceil_div(s->dst[2], WINOGRAD_TILE);
  p->image_tiles = p->row_tiles * cg_ceil_div(s->dst[1], WINOGRAD_TILE);
  return true;
}

bool cg_winograd_plan(const Fn *f, Val v, const Target *t, WinogradPlan *p) {
  if (!cg_winograd_shape(f, v, t, p)) return false;
  const ConvShape *s = &p->s;
  p->nv = (uint32_t)cg_smaller(t->gemm_nv, cg_ceil_div(s->dst_channels, t->vl));
  p->width = (int64_t)p->nv * t->vl, p->panels = cg_ceil_div(s->dst_channels, p->width);
  int64_t all = p->images * p->image_tiles;
  choose_blocks(p, all, t);
  if (!p->tiles || 4 * WINOGRAD_POINTS * p->panels * p->width * s->src_channels > MOST_WEIGHT_BYTES) return false;
  p->v_point = p->tiles * p->channels + MATRIX_GAP, p->m_point = p->tiles * p->width + MATRIX_GAP;
  estimate(p, all, t);
  return cg_winograd_choose(t, p);
}

// ---- tiles
WinogradTile cg_winograd_tile(Cg *c, const WinogradPlan *p, LLVMValueRef number) {
  LLVMValueRef per_image = cg_i64(c, p->image_tiles), per_row = cg_i64(c, p->row_tiles);
  LLVMValueRef nth = cg_gemm_rem(c, number, per_image), side = cg_i64(c, WINOGRAD_TILE);
  return (WinogradTile){.image = cg_div(c, number, per_image),
                        .y = cg_mul(c, cg_div(c, nth, per_row), side),
                        .x = cg_mul(c, cg_gemm_rem(c, nth, per_row), side)};
}

void cg_winograd_read(Cg *c, const WinogradPlan *p, const WinogradTile *t, const WinogradRead *r) {
  const ConvShape *s = &p->s;
  const Phase *axis = p->w.axis;
  LLVMValueRef at = cg_mul(c, t->image, cg_i64(c, s->src[1] * s->src[2] * s->src_channels));
  WinogradPixels pixels = {.height = s->src[1],
                           .width = s->src[2],
                           .pixel = s->src_channels,
                           .image = cg_at(c, c->f32, r->source, cg_add(c, at, r->first)),
                           .y = cg_add(c, t->y, cg_i64(c, axis[1].offset)),
                           .x = cg_add(c, t->x, cg_i64(c, axis[2].offset)),
                           .outside = r->zeros,
                           .n = WINOGRAD_SOURCE};
  cg_winograd_pixels(c, &pixels, r->table);
  cg_winograd_transform(c, TRANSFORM_SOURCE, (WinogradSide){r->table, 0}, (WinogradSide){r->v, r->point}, r->channels,
                        s->src_channels % c->t->vl != 0);
}
