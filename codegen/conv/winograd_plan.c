// Which convolutions are done by Winograd's algorithm, in how many tiles at once (winograd.h), and where a tile lies.
#include "codegen/conv/bands.h"
#include "codegen/conv/winograd.h"
#include "codegen/tuning.h"

// Estimated times are counted in multiply-adds of a vector by the microkernel.
enum { TUNED_WINOGRAD(TUNE) };

static bool is_known(const ConvShape *s) {
  const Conv *c = &s->c;
  bool one_plane = c->kernel[0] == 1 && c->stride[0] == 1 && !c->before[0] && !c->behind[0];
  bool taps = c->kernel[1] == WINOGRAD_TAPS && c->kernel[2] == WINOGRAD_TAPS;
  bool steps = c->stride[1] == 1 && c->stride[2] == 1;
  bool some = !c->run_sized && s->src_channels > 0 && s->dst_channels > 0 && s->dst[1] > 0 && s->dst[2] > 0;
  return one_plane && taps && steps && c->groups == 1 && some;
}

// ---- how many tiles together
// Blocks of at most `most` tiles that are about equal, of whole tiles of the microkernel where these fit.
static void cut_tiles(WinogradPlan *p, int64_t all, int64_t most, const Target *t) {
  uint32_t most_rows = (uint32_t)cg_smaller(MOST_ROWS, t->gemm_mr * t->gemm_nv / p->nv);
  int64_t even = cg_ceil_div(all, cg_ceil_div(all, most));
  p->mr = cg_tile_height(even, most_rows);
  p->tiles = cg_round_up(even, p->mr);
  if (p->tiles > most) p->tiles = most - most % p->mr;
}

// V and M on the stack, if that leaves room for enough tiles.
static bool choose_private(WinogradPlan *p, int64_t all, int64_t room) {
  int64_t fit = (room - 2 * MATRIX_GAP) / (p->channels + p->width);
  if (fit < cg_smaller(PRIVATE_TILES, all)) return false;
  int64_t most = cg_larger(FEW_TILES, cg_ceil_div(all, PARTS_WANTED));
  p->tiles = cg_smaller(cg_smaller(MOST_TILES, fit), cg_smaller(most, all));
  return true;
}

// V in scratch, M on the stack. A block's V stays in L2; the few tiles of a deep layer go by in one pass over U.
static void choose_shared(WinogradPlan *p, int64_t all, int64_t room, const Target *t) {
  p->shares_tiles = true;
  if (all <= MOST_ROWS) p->nv = 1, p->width = t->vl;
  p->panels = cg_ceil_div(p->s.dst_channels, p->width);
  int64_t in_l2 = ir_f32_in(t->facts.l2_bytes) / WINOGRAD_POINTS / p->channels;
  p->tiles = cg_smaller(cg_smaller(MOST_TILES, cg_larger(MOST_ROWS, in_l2)), (room - MATRIX_GAP) / p->width);
}

static bool choose_blocks(WinogradPlan *p, int64_t all, const Target *t) {
  int64_t room = ir_f32_in(cg_smaller(t->stack_bytes * STACK_PART / 16, t->facts.l2_bytes / 2)) / WINOGRAD_POINTS;
  p->channels = cg_round_up(p->s.src_channels, t->vl);
  p->nv = (uint32_t)cg_smaller(t->gemm_nv, cg_ceil_div(p->s.dst_channels, t->vl));
  p->width = (int64_t)p->nv * t->vl, p->panels = cg_ceil_div(p->s.dst_channels, p->width);
  if (!choose_private(p, all, room)) choose_shared(p, all, room, t);
  if (p->tiles < cg_smaller(FEW_TILES, all)) return false;
  cut_tiles(p, all, p->tiles, t);
  p->v_point = p->tiles * p->channels + MATRIX_GAP, p->m_point = p->tiles * p->width + MATRIX_GAP;
  int64_t blocks = cg_larger(1, ir_f32_in(CHUNK_BYTES) / (WINOGRAD_POINTS * p->v_point));
  p->chunk = cg_smaller(blocks, cg_ceil_div(all, p->tiles)) * p->tiles;
  return true;
}

// ---- time
// Cost of U: reading all of it for each block of tiles, and making it.
static double weight_cost(const WinogradPlan *p, int64_t all, const Target *t) {
  double vectors = (double)(cg_winograd_weight_elements(p) / t->vl), bytes = 4 * (double)t->vl * vectors;
  double passes = (double)cg_ceil_div(all, p->shares_tiles ? p->chunk : p->tiles), cost = 0;
  bool in_memory = bytes > (double)t->facts.llc_bytes;
  if (bytes > (double)t->facts.l2_bytes / 2) cost += passes * vectors * (in_memory ? MEMORY_COST : LOAD_COST);
  if (p->keeps_weights) return cost;
  if (in_memory) cost += vectors * MEMORY_COST;
  return cost + vectors / WINOGRAD_POINTS * WEIGHT_COST;
}

static void estimate(WinogradPlan *p, int64_t all, const Target *t) {
  double c = (double)p->s.src_channels, c_vectors = (double)cg_ceil_div(p->s.src_channels, t->vl);
  double o_vectors = (double)cg_ceil_div(p->s.dst_channels, t->vl);
  double pixels = (double)(p->images * p->s.dst[1] * p->s.dst[2]), tiles = (double)all;
  double copied = (double)(p->images / p->s.dst[0]) * cg_conv_copied(&p->s, t->gemm_nv * t->vl, t) / t->vl;
  p->direct = pixels * WINOGRAD_TAPS * WINOGRAD_TAPS * c * o_vectors + COPY_COST * copied;
  p->winograd = tiles * (WINOGRAD_POINTS * c * o_vectors + SOURCE_COST * c_vectors + RESULT_COST * o_vectors) +
                weight_cost(p, all, t);
}

bool cg_winograd_choose(const Target *t, WinogradPlan *p) {
  bool wanted = t->convolution == CONVOLUTION_WINOGRAD || p->s.c.algorithm == CONV_WINOGRAD;
  bool chosen = wanted || p->winograd * GAIN < p->direct * 100;
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
    rt_text_add(out, ": estimated at %.0f %% of the time of direct sums, weights transformed %s",
                100 * p->winograd / p->direct, p->keeps_weights ? "once per change" : "in every run");
}

bool cg_winograd_shape(const Fn *f, Val v, const Target *t, WinogradPlan *p) {
  *p = (WinogradPlan){0};
  cg_conv_shape(f, v, &p->s);
  const ConvShape *s = &p->s;
  bool exact = t->convolution == CONVOLUTION_EXACT || s->c.algorithm == CONV_EXACT;
  if (is_known(s)) p->choice = exact ? WINOGRAD_OFF : WINOGRAD_NO_ROOM;
  if (p->choice != WINOGRAD_NO_ROOM) return false;
  cg_conv_next(s, &p->w);
  p->images = ir_dim_bound(f->prog, s->c.n) * s->dst[0];
  p->step_y = s->c.dilation[1], p->step_x = s->c.dilation[2];
  p->row_tiles = cg_ceil_div(cg_ceil_div(s->dst[2], p->step_x), WINOGRAD_TILE);
  p->part_tiles = p->row_tiles * cg_ceil_div(cg_ceil_div(s->dst[1], p->step_y), WINOGRAD_TILE);
  p->image_tiles = p->part_tiles * p->step_y * p->step_x;
  return true;
}

static bool keeps_weights(const Fn *f, Val weight) {
  uint32_t param;
  return f->prog->packs_weights && cg_constant_weight(f, weight, &param);
}

bool cg_winograd_plan(const Fn *f, Val v, const Target *t, WinogradPlan *p) {
  if (!cg_winograd_shape(f, v, t, p)) return false;
  int64_t all = cg_larger(1, p->images * p->image_tiles);
  p->keeps_weights = keeps_weights(f, p->s.c.weight);
  if (!choose_blocks(p, all, t)) return false;
  if (!p->keeps_weights && 4 * cg_winograd_weight_elements(p) > MOST_WEIGHT_BYTES) return false;
  estimate(p, all, t);
  return cg_winograd_choose(t, p);
}

// ---- tiles
WinogradTile cg_winograd_tile(Cg *c, const WinogradPlan *p, V number) {
  V per_image = cg_i64(c, p->image_tiles), per_part = cg_i64(c, p->part_tiles), per_row = cg_i64(c, p->row_tiles);
  V in_image = cg_rem(c, number, per_image), part = cg_div(c, in_image, per_part), nth = cg_rem(c, in_image, per_part);
  V step_x = cg_i64(c, p->step_x), side_y = cg_i64(c, WINOGRAD_TILE * p->step_y),
    side_x = cg_i64(c, WINOGRAD_TILE * p->step_x);
  return (WinogradTile){.image = cg_div(c, number, per_image),
                        .y = cg_index(c, cg_div(c, nth, per_row), side_y, cg_div(c, part, step_x)),
                        .x = cg_index(c, cg_rem(c, nth, per_row), side_x, cg_rem(c, part, step_x))};
}

static V pixels_left(Cg *c, int64_t size, V first, int64_t step) {
  return cg_min(c, cg_i64(c, WINOGRAD_TILE), cg_ceil_div_value(c, cg_sub(c, cg_i64(c, size), first), step));
}

V cg_winograd_rows(Cg *c, const WinogradPlan *p, const WinogradTile *t) {
  return pixels_left(c, p->s.dst[1], t->y, p->step_y);
}

V cg_winograd_columns(Cg *c, const WinogradPlan *p, const WinogradTile *t) {
  return pixels_left(c, p->s.dst[2], t->x, p->step_x);
}

static V multiples(Cg *c, int64_t step) {
  V at[WINOGRAD_TABLE_ROW];
  for (uint32_t k = 0; k < WINOGRAD_TABLE_ROW; k++) at[k] = cg_i64(c, k * step);
  return LLVMConstVector(at, WINOGRAD_TABLE_ROW);
}

void cg_winograd_pixels(Cg *c, const WinogradPlan *p, bool source, V from, V channel, const WinogradTile *t, V outside,
                        V table) {
  const uint32_t n = WINOGRAD_TABLE_ROW;
  const ConvShape *s = &p->s;
  const Phase *axis = p->w.axis;
  const int64_t *size = source ? s->src : s->dst, pixel = source ? s->src_channels : s->dst_channels;
  V y0 = source ? cg_add(c, t->y, cg_i64(c, axis[1].offset)) : t->y;
  V x0 = source ? cg_add(c, t->x, cg_i64(c, axis[2].offset)) : t->x;
  V image = cg_add(c, cg_times(c, t->image, size[1] * size[2] * pixel), channel);
  image = cg_at(c, c->f32, from, image);
  V x = cg_iadd(c, cg_splat_n(c, x0, n), multiples(c, p->step_x));
  V inside = cg_below(c, x, cg_splat_n(c, cg_i64(c, size[2]), n));
  V offset = cg_imul(c, x, cg_splat_n(c, cg_i64(c, pixel), n));
  outside = cg_splat_n(c, outside, n);
  for (int64_t k = 0; k < (source ? WINOGRAD_SOURCE : WINOGRAD_TILE); k++) {
    V y = cg_add(c, y0, cg_i64(c, k * p->step_y));
    V row = cg_row(c, image, y, cg_i64(c, size[2] * pixel));
    V some = cg_below(c, y, cg_i64(c, size[1]));
    some = cg_select(c, some, inside, LLVMConstNull(LLVMTypeOf(inside)));
    V at = LLVMBuildGEP2(c->b, c->f32, row, &offset, 1, "");
    V store = LLVMBuildStore(c->b, cg_select(c, some, at, outside), cg_at(c, c->ptr, table, cg_i64(c, k * n)));
    LLVMSetAlignment(store, c->t->pointer_bits);
  }
}

// Pixels that the prologue makes go to the stack first, a strip of the tile's rows and columns.
static void make_tile(Cg *c, const WinogradPlan *p, const WinogradTile *t, const WinogradRead *r) {
  const ConvShape *s = &p->s;
  const Phase *axis = p->w.axis;
  StripShape strip = {.planes = 1,
                      .rows = WINOGRAD_SOURCE,
                      .columns = WINOGRAD_SOURCE,
                      .channels = r->room,
                      .size = {s->src_dim[0], s->src_dim[1], s->src_dim[2]},
                      .step = {1, p->step_y, p->step_x}};
  StripFill fill = {
      .at = {cg_i64(c, 0), cg_add(c, t->y, cg_i64(c, axis[1].offset)), cg_add(c, t->x, cg_i64(c, axis[2].offset))},
      .strip = r->made,
      .prologue = r->prologue,
      .pixel = cg_times(c, t->image, s->src[1] * s->src[2]),
      .channel = r->first,
      .channels = r->channels};
  cg_conv_fill_strip(c, &strip, &fill);
}

void cg_winograd_read(Cg *c, const WinogradPlan *p, const WinogradTile *t, const WinogradRead *r) {
  WinogradSide from = r->prologue ? (WinogradSide){r->made, r->room} : (WinogradSide){r->table, 0};
  if (r->prologue) make_tile(c, p, t, r);
  else cg_winograd_pixels(c, p, true, r->source, r->first, t, r->zeros, r->table);
  cg_winograd_transform(c, TRANSFORM_SOURCE, from, (WinogradSide){r->v, r->point}, r->channels,
                        p->s.src_channels % c->t->vl != 0);
}
