// Class conv_weight: the gradient of a convolution's weight, sums over all pixels of products of x and g.
//
// A unit of work is a slice of the images, one group, one plane and row of the window, and some channels of g. Of each
// image it copies bands of the rows of x that this row of the window meets into a padded strip (conv_strip.c); there
//
//   sums[w, c][o] += sum over pixels of strip[pixel * stride + w * dilation, c] * g[pixel, o]
//
// is a product whose A has neighbours as rows, whose k runs over the pixels of a row, and stretches over the band's rows.
// Slices, of which there are so many by bounds alone, have sums of their own, which are added in order.
#include "codegen/gemm/depthwise.h"

enum {
  MOST_SLICES = 8,
  SLICE_BYTES = 4 << 20,  // of all slices' sums
  UNITS_WANTED = 16,
  MOST_ROWS = 16,
  STRIP_BYTES = 32 << 10,
  FEW_COLUMNS = 16
};

typedef struct {
  Conv c;
  int64_t c_group, o_group;
  int64_t slices, chunks;  // chunks: of the panels of a group
  int64_t panels, nv, width, o_pad;
  int64_t block;          // of c_group
  int64_t band, columns;  // of g's pixels in a strip
  int64_t sums;           // of a slice and group
  StripShape strip;
} Plan;

static int64_t strip_of(const Plan *p, int64_t band, int64_t columns, int64_t block) {
  const Conv *c = &p->c;
  return ((band - 1) * c->stride[1] + 1) * ((columns - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1) *
         block;
}

static void choose_strip(Plan *p) {
  const Conv *c = &p->c;
  int64_t most = ir_f32_in(STRIP_BYTES), few = cg_larger(1, cg_smaller(FEW_COLUMNS, c->out[2])), parts = 1;
  p->block = cg_larger(1, p->c_group);
  for (int64_t n = 2; n <= p->c_group && strip_of(p, 1, few, p->block) > most; n++)
    if (p->c_group % n == 0) p->block = p->c_group / n;
  p->columns = cg_larger(1, c->out[2]), p->band = 1;
  while (p->columns > few && strip_of(p, 1, p->columns, p->block) > most) p->columns = cg_ceil_div(c->out[2], ++parts);
  while (p->band < c->out[1] && strip_of(p, p->band + 1, p->columns, p->block) <= most) p->band++;
  p->strip = (StripShape){.planes = 1,
                          .rows = (p->band - 1) * c->stride[1] + 1,
                          .columns = (p->columns - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1,
                          .channels = p->block,
                          .size = {c->in[0], c->in[1], c->in[2]},
                          .pixel = c->c};
}

static Plan plan_of(const Fn *f, Val v, const Target *t) {
  Plan p = {0};
  ir_conv(f, v, &p.c);
  const Conv *c = &p.c;
  p.c_group = c->c / c->groups, p.o_group = c->o / c->groups;
  p.nv = cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(p.o_group, t->vl))), p.width = p.nv * t->vl;
  p.panels = cg_ceil_div(p.o_group, p.width), p.o_pad = cg_round_up(p.o_group, t->vl);
  p.sums = ir_conv_taps(c) * p.c_group * p.o_pad;
  int64_t fit = SLICE_BYTES / 4 / cg_larger(1, p.sums * c->groups), images = ir_dim_bound(f->prog, c->n);
  p.slices = cg_larger(1, cg_smaller(cg_smaller(MOST_SLICES, images), fit));
  int64_t units = p.slices * c->groups * c->kernel[0] * c->kernel[1];
  p.chunks = cg_larger(1, cg_smaller(p.panels, cg_ceil_div(UNITS_WANTED, units)));
  choose_strip(&p);
  return p;
}

int64_t cg_conv_weight_scratch_bytes(const Fn *f, Val v, const Target *t) {
  if (cg_depthwise_weight_fits(f, v)) return cg_depthwise_weight_scratch_bytes(f, v, t);
  Plan p = plan_of(f, v, t);
  return cg_round_up(4 * p.slices * p.c.groups * p.sums, TN_ALIGN);
}

// ---- a unit
typedef struct {
  Cg *c;
  const Plan *p;
  LLVMValueRef x, g, strip;
  LLVMValueRef group, z, y;   // z, y: plane and row of the window
  LLVMValueRef first, last;   // panels
  LLVMValueRef sums;          // of this slice, group, plane and row of the window
  LLVMValueRef image, plane;  // at hand
  LLVMValueRef row, column, rows, columns;
} Unit;

static void fill(const Unit *u, LLVMValueRef block) {
  Cg *c = u->c;
  const Conv *v = &u->p->c;
  LLVMValueRef tap[CONV_AXES] = {u->z, u->y, cg_i64(c, 0)}, at[CONV_AXES] = {u->plane, u->row, u->column};
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    at[k] = cg_add(c, cg_mul(c, at[k], cg_i64(c, v->stride[k])), cg_mul(c, tap[k], cg_i64(c, v->dilation[k])));
    at[k] = cg_sub(c, at[k], cg_i64(c, v->before[k]));
  }
  LLVMValueRef from = cg_mul(c, u->image, cg_i64(c, v->in[0] * v->in[1] * v->in[2] * v->c));
  from = cg_add(c, from,
                cg_add(c, cg_mul(c, u->group, cg_i64(c, u->p->c_group)), cg_mul(c, block, cg_i64(c, u->p->block))));
  cg_conv_fill_strip(c, &u->p->strip, cg_at(c, c->f32, u->x, from), at, u->strip);
}

// `rows` neighbours of the strip from `a` on, with a panel of g, into sums.
static void tiles(const Unit *u, int64_t rows, int64_t a, LLVMValueRef g, LLVMValueRef sums, uint32_t nv,
                  int64_t left) {
  Cg *c = u->c;
  const Plan *p = u->p;
  int64_t vl = c->t->vl, most = cg_smaller(MOST_ROWS, c->t->gemm_mr * c->t->gemm_nv / nv);
  TileSpec spec = {.mr = cg_tile_height(rows, (uint32_t)most),
                   .nv = nv,
                   .a_row = 1,
                   .a_k = p->c.stride[2] * p->block,
                   .b_k = p->c.o,
                   .b_vec = vl,
                   .c_row = p->o_pad,
                   .c_vec = vl,
                   .more = true,
                   .stretched = true,
                   .mask_from = left % vl ? nv - 1 : nv,
                   .mask_step = vl,
                   .mask_b = true};
  TileArgs args = {.a = cg_at(c, c->f32, u->strip, cg_i64(c, a)),
                   .b = g,
                   .c = sums,
                   .k = u->columns,
                   .n = cg_i64(c, left),
                   .stretches = u->rows,
                   .a_stretch = cg_i64(c, p->c.stride[1] * p->strip.columns * p->block),
                   .b_stretch = cg_i64(c, p->c.out[2] * p->c.o)};
  TileRows r = {.rows = cg_i64(c, rows), .left = rows % spec.mr, .a_block = cg_i64(c, spec.mr)};
  cg_tile_rows(c, &spec, &args, &r);
}

static void panel(const Unit *u, LLVMValueRef block, LLVMValueRef n0, int64_t columns) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  LLVMValueRef pixel = cg_add(c, cg_mul(c, u->image, cg_i64(c, v->out[0])), u->plane);
  pixel = cg_add(c, cg_mul(c, pixel, cg_i64(c, v->out[1])), u->row);
  pixel = cg_add(c, cg_mul(c, pixel, cg_i64(c, v->out[2])), u->column);
  LLVMValueRef at = cg_add(c, cg_mul(c, pixel, cg_i64(c, v->o)), cg_mul(c, u->group, cg_i64(c, p->o_group)));
  LLVMValueRef g = cg_at(c, c->f32, u->g, cg_add(c, at, n0));
  int64_t rows = v->kernel[2] * p->block, taps = 1;
  if (v->dilation[2] > 1) rows = p->block, taps = v->kernel[2];  // the window's columns are no neighbours
  LLVMValueRef first = cg_mul(c, block, cg_i64(c, v->kernel[2] * p->block * p->o_pad));
  for (int64_t k = 0; k < taps; k++) {
    LLVMValueRef sums = cg_add(c, cg_add(c, first, cg_i64(c, k * rows * p->o_pad)), n0);
    tiles(u, rows, k * v->dilation[2] * p->block, g, cg_at(c, c->f32, u->sums, sums),
          (uint32_t)cg_ceil_div(columns, c->t->vl), columns);
  }
}

static void each_panel(const Unit *u, LLVMValueRef block) {
  Cg *c = u->c;
  const Plan *p = u->p;
  int64_t whole = p->o_group / p->width, left = p->o_group % p->width;
  Loop l;
  cg_loop_begin(c, &l, u->first, cg_min(c, u->last, cg_i64(c, whole)), cg_i64(c, 1), NULL, 0);
  panel(u, block, cg_mul(c, l.i, cg_i64(c, p->width)), p->width);
  cg_loop_end(c, &l, NULL);
  if (!left) return;
  If some;
  cg_if(c, &some, LLVMBuildICmp(c->b, LLVMIntEQ, u->last, cg_i64(c, p->panels), ""));
  panel(u, block, cg_i64(c, whole * p->width), left);
  cg_endif(c, &some);
}

static void each_strip(Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  Loop row, column, block;
  cg_loop_begin(c, &row, cg_i64(c, 0), cg_i64(c, p->c.out[1]), cg_i64(c, p->band), NULL, 0);
  cg_loop_begin(c, &column, cg_i64(c, 0), cg_i64(c, p->c.out[2]), cg_i64(c, p->columns), NULL, 0);
  u->row = row.i, u->column = column.i;
  u->rows = cg_min(c, cg_i64(c, p->band), cg_sub(c, cg_i64(c, p->c.out[1]), row.i));
  u->columns = cg_min(c, cg_i64(c, p->columns), cg_sub(c, cg_i64(c, p->c.out[2]), column.i));
  cg_loop_begin(c, &block, cg_i64(c, 0), cg_i64(c, p->c_group / p->block), cg_i64(c, 1), NULL, 0);
  fill(u, block.i);
  each_panel(u, block.i);
  cg_loop_end(c, &block, NULL);
  cg_loop_end(c, &column, NULL);
  cg_loop_end(c, &row, NULL);
}

// Images [lo, hi)
static void each_image(Unit *u, LLVMValueRef lo, LLVMValueRef hi) {
  Cg *c = u->c;
  Loop image, plane;
  cg_loop_begin(c, &image, lo, hi, cg_i64(c, 1), NULL, 0);
  cg_loop_begin(c, &plane, cg_i64(c, 0), cg_i64(c, u->p->c.out[0]), cg_i64(c, 1), NULL, 0);
  u->image = image.i, u->plane = plane.i;
  each_strip(u);
  cg_loop_end(c, &plane, NULL);
  cg_loop_end(c, &image, NULL);
}

// Zeros in the columns of the panels at hand.
static void clear_sums(const Unit *u) {
  Cg *c = u->c;
  const Plan *p = u->p;
  LLVMValueRef lo = cg_mul(c, u->first, cg_i64(c, p->width));
  LLVMValueRef hi = cg_min(c, cg_mul(c, u->last, cg_i64(c, p->width)), cg_i64(c, p->o_pad));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, p->c.kernel[2] * p->c_group), cg_i64(c, 1), NULL, 0);
  LLVMValueRef at = cg_add(c, cg_mul(c, l.i, cg_i64(c, p->o_pad)), lo);
  cg_conv_clear(c, cg_at(c, c->f32, u->sums, at), cg_sub(c, hi, lo));
  cg_loop_end(c, &l, NULL);
}

static void each_unit(Unit *u, LLVMValueRef scratch) {
  Cg *c = u->c;
  const Plan *p = u->p;
  const Conv *v = &p->c;
  int64_t rows = v->kernel[0] * v->kernel[1], units = p->slices * v->groups * rows * p->chunks;
  LLVMValueRef lo, hi, n = cg_dim(c, v->n), slices = cg_i64(c, p->slices);
  cg_share(c, cg_i64(c, units), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef chunk = cg_gemm_rem(c, l.i, cg_i64(c, p->chunks)), rest = cg_div(c, l.i, cg_i64(c, p->chunks)),
               row = cg_gemm_rem(c, rest, cg_i64(c, rows));
  u->z = cg_div(c, row, cg_i64(c, v->kernel[1])), u->y = cg_gemm_rem(c, row, cg_i64(c, v->kernel[1]));
  rest = cg_div(c, rest, cg_i64(c, rows));
  u->group = cg_gemm_rem(c, rest, cg_i64(c, v->groups));
  LLVMValueRef slice = cg_div(c, rest, cg_i64(c, v->groups));
  u->first = cg_div(c, cg_mul(c, chunk, cg_i64(c, p->panels)), cg_i64(c, p->chunks));
  u->last = cg_div(c, cg_mul(c, cg_add(c, chunk, cg_i64(c, 1)), cg_i64(c, p->panels)), cg_i64(c, p->chunks));
  LLVMValueRef at =
      cg_add(c, cg_mul(c, rest, cg_i64(c, p->sums)), cg_mul(c, row, cg_i64(c, v->kernel[2] * p->c_group * p->o_pad)));
  u->sums = cg_at(c, c->f32, scratch, at);
  clear_sums(u);
  each_image(u, cg_div(c, cg_mul(c, slice, n), slices),
             cg_div(c, cg_mul(c, cg_add(c, slice, cg_i64(c, 1)), n), slices));
  cg_loop_end(c, &l, NULL);
}

// ---- the sums of all slices, in PyTorch's order of axes
// Row `row` of sums, [block][w][channel], in the window's row: where its elements go for the group's first channel of g.
static LLVMValueRef place_of(Cg *c, const Plan *p, LLVMValueRef group, LLVMValueRef window_row, LLVMValueRef row) {
  const Conv *v = &p->c;
  int64_t taps = ir_conv_taps(v), per_block = v->kernel[2] * p->block;
  LLVMValueRef block = cg_div(c, row, cg_i64(c, per_block)), in_block = cg_gemm_rem(c, row, cg_i64(c, per_block));
  LLVMValueRef w = cg_div(c, in_block, cg_i64(c, p->block));
  LLVMValueRef channel =
      cg_add(c, cg_mul(c, block, cg_i64(c, p->block)), cg_gemm_rem(c, in_block, cg_i64(c, p->block)));
  LLVMValueRef at = cg_mul(c, group, cg_i64(c, p->o_group * p->c_group * taps));
  at = cg_add(c, at, cg_mul(c, channel, cg_i64(c, taps)));
  return cg_add(c, at, cg_add(c, cg_mul(c, window_row, cg_i64(c, v->kernel[2])), w));
}

// Row number `nth` of a slice's groups, summed over the slices into `row`.
static void add_slices(Cg *c, const Plan *p, LLVMValueRef scratch, LLVMValueRef nth, LLVMValueRef row) {
  int64_t slice = p->c.groups * p->sums;
  LLVMValueRef from = cg_at(c, c->f32, scratch, cg_mul(c, nth, cg_i64(c, p->o_pad)));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, p->o_pad), cg_i64(c, c->t->vl), NULL, 0);
  LLVMValueRef at = cg_at(c, c->f32, from, l.i), sum = cg_load(c, c->vf, at);
  for (int64_t k = 1; k < p->slices; k++)
    sum = LLVMBuildFAdd(c->b, sum, cg_load(c, c->vf, cg_at(c, c->f32, at, cg_i64(c, k * slice))), "");
  cg_store(c, sum, cg_at(c, c->f32, row, l.i));
  cg_loop_end(c, &l, NULL);
}

static void store_sums(Cg *c, const Plan *p, LLVMValueRef scratch, LLVMValueRef row, LLVMValueRef out) {
  const Conv *v = &p->c;
  int64_t in_row = v->kernel[2] * p->c_group, window_rows = v->kernel[0] * v->kernel[1];
  LLVMValueRef lo, hi, stride = cg_i64(c, p->c_group * ir_conv_taps(v));
  cg_share(c, cg_i64(c, v->groups * window_rows * in_row), 1, &lo, &hi);
  Loop l, o;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  add_slices(c, p, scratch, l.i, row);
  LLVMValueRef window_row = cg_div(c, l.i, cg_i64(c, in_row)), group = cg_div(c, window_row, cg_i64(c, window_rows));
  LLVMValueRef to = cg_at(c, c->f32, out,
                          place_of(c, p, group, cg_gemm_rem(c, window_row, cg_i64(c, window_rows)),
                                   cg_gemm_rem(c, l.i, cg_i64(c, in_row))));
  cg_loop_begin(c, &o, cg_i64(c, 0), cg_i64(c, p->o_group), cg_i64(c, 1), NULL, 0);
  cg_store(c, cg_load(c, c->f32, cg_at(c, c->f32, row, o.i)), cg_at(c, c->f32, to, cg_mul(c, o.i, stride)));
  cg_loop_end(c, &o, NULL);
  cg_loop_end(c, &l, NULL);
}

bool cg_emit_conv_weight(Cg *c) {
  Val v = {c->k->first};
  Plan p = plan_of(c->f, v, c->t);
  LLVMValueRef null = LLVMConstNull(c->ptr);
  if (p.sums == 0) return true;
  LLVMValueRef x = cg_stored(c, ir_arg(c->f, v, 0)) ? cg_ptr(c, ir_arg(c->f, v, 0)) : null;
  LLVMValueRef g = cg_stored(c, ir_arg(c->f, v, 1)) ? cg_ptr(c, ir_arg(c->f, v, 1)) : null;
  if (cg_depthwise_weight_fits(c->f, v)) {
    cg_depthwise_weight_emit(c, x, g);
    return true;
  }
  Unit u = {.c = c, .p = &p, .x = x, .g = g, .strip = cg_block(c, c->f32, cg_strip_elements(&p.strip))};
  LLVMValueRef row = cg_block(c, c->f32, p.o_pad);
  each_unit(&u, c->scratch);
  cg_wait_for_team(c);
  store_sums(c, &p, c->scratch, row, cg_ptr(c, v));
  return true;
}
