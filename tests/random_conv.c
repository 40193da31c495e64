// Steps of random programs: convolutions and their gradients, directly.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

#include "ir/conv.h"

static bool is_image(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  bool fits = gen_is_f32(g, v) && d.n >= 3 && d.n <= 2 + CONV_AXES;
  for (uint32_t k = 1; k < d.n && fits; k++) {
    int64_t n = ir_dim_bound(g->p, d.d[k]);
    fits = (k + 1 < d.n || ir_dim_is_const(g->p, d.d[k])) && n <= 12 && (n > 0 || k + 1 == d.n);
  }
  return fits;
}

// Of so many pixels that it keeps channels first
static Val image_of_pixels(Gen *g) {
  Dims d = {.n = 3 + gen_below(g, 2)};
  d.d[0] = gen_chance(g, 30) ? gen_dim(g) : ir_dim(g->p, 1);
  d.d[1] = ir_dim(g->p, 1 + gen_below(g, 8));
  for (uint32_t k = 2; k < d.n; k++) d.d[k] = ir_dim(g->p, d.n == 3 ? 128 + gen_below(g, 40) : 10 + gen_below(g, 5));
  Shape s = gen_shape(g, &d);
  if (!gen_is_small(g, s)) return (Val){0};
  Val x = gen_leaf(g, s);
  int64_t perm[] = {0, 2, d.n == 3 ? 1 : 3, 1};
  Attr attr = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, d.n));
  return gen_emit(g, OP_permute, &x, 1, &attr, 1);
}

static Val image_of(Gen *g) {
  if (gen_chance(g, 10)) return image_of_pixels(g);
  Val x = gen_pick_where(g, is_image);
  if (!ir_none(x)) return x;
  Dims d = {.n = 3 + gen_below(g, CONV_AXES)};
  d.d[0] = gen_chance(g, 50) ? gen_dim(g) : ir_dim(g->p, 1 + gen_below(g, 3));
  for (uint32_t k = 1; k < d.n; k++) {
    bool by_run = k + 1 < d.n && gen_chance(g, 20);
    d.d[k] = by_run ? gen_dim(g) : ir_dim(g->p, 1 + gen_below(g, d.n > 4 ? 4 : 7));
  }
  if (gen_chance(g, 20)) d.d[d.n - 1] = ir_dim(g->p, 8 + gen_below(g, 24));  // of which few are made: rule image_of_few
  if (gen_chance(g, 5)) d.d[d.n - 1] = ir_dim(g->p, 0);
  Shape s = gen_shape(g, &d);
  return gen_is_small(g, s) ? gen_leaf(g, s) : (Val){0};
}

typedef struct {
  uint32_t spatial;
  int64_t stride[CONV_AXES], pad[2 * CONV_AXES], dilation[CONV_AXES], kernel[CONV_AXES], groups;
  Dim out[CONV_AXES];
} Window;

static bool window_of(Gen *g, Val x, Window *w) {
  Dims d = gen_dims(g, x);
  int64_t channels = ir_dim_bound(g->p, d.d[d.n - 1]);
  *w = (Window){.spatial = d.n - 2, .groups = 1};
  if (gen_chance(g, 30)) w->groups = channels % 2 ? channels : 2;
  bool are_far = gen_chance(g, 10);  // windows of each other, so that a transposed convolution has many phases
  for (uint32_t k = 0; k < w->spatial; k++) {
    int64_t apart = gen_chance(g, 80) ? 3 : 18;
    w->stride[k] = are_far ? 3 + gen_below(g, 12) : gen_chance(g, 60) ? 1 : 1 + gen_below(g, apart);
    w->dilation[k] = gen_chance(g, 75) ? 1 : are_far ? 2 + gen_below(g, 3) : 2;
    w->kernel[k] = 1 + gen_below(g, are_far ? 10 : gen_chance(g, 90) ? 3 : 9);
    w->pad[k] = gen_below(g, 3), w->pad[k + w->spatial] = gen_chance(g, 80) ? w->pad[k] : gen_below(g, 3);
    w->out[k] = ir_conv_positions(g->p, d.d[k + 1], w->pad[k] + w->pad[k + w->spatial], w->kernel[k], w->stride[k],
                                  w->dilation[k]);
    if (!w->out[k].i || ir_dim_least(g->p, w->out[k]) < 0 || ir_dim_bound(g->p, w->out[k]) < 1) return false;
  }
  return true;
}

static bool is_for_winograd(Gen *g, const Window *w) {
  bool fits = w->spatial == 2 && w->groups == 1;
  for (uint32_t k = 0; k < w->spatial; k++) fits &= ir_dim_is_const(g->p, w->out[k]);
  for (uint32_t k = 0; k < w->spatial; k++) fits &= w->kernel[k] == 3 && w->stride[k] == 1 && w->dilation[k] == 1;
  return fits;
}

static uint32_t attributes(Gen *g, const Window *w, Attr *attr) {
  attr[0] = ir_a_list(KEY_stride, ir_shape_ints(g->p, w->stride, w->spatial));
  attr[1] = ir_a_list(KEY_pad, ir_shape_ints(g->p, w->pad, 2 * w->spatial));
  attr[2] = ir_a_list(KEY_dilation, ir_shape_ints(g->p, w->dilation, w->spatial));
  attr[3] = ir_a_int(KEY_groups, w->groups);
  if (!gen_chance(g, 70)) return 4;
  ConvAlgorithm a = is_for_winograd(g, w) ? CONV_WINOGRAD : CONV_EXACT;
  attr[4] = ir_a_str(KEY_algorithm, ir_str(g->p, ir_conv_algorithm_name(a)));
  return 5;
}

// x with other spatial sizes and channels
static Shape shaped(Gen *g, Val x, const Dim *spatial, int64_t channels) {
  Dims d = gen_dims(g, x);
  for (uint32_t k = 1; k + 1 < d.n; k++) d.d[k] = spatial[k - 1];
  d.d[d.n - 1] = ir_dim(g->p, channels);
  return gen_shape(g, &d);
}

// The same elements with channels before the spatial axes
static Val with_channels_first(Gen *g, Val x) {
  Dims d = gen_dims(g, x);
  int64_t perm[MAX_RANK] = {0, d.n - 1};
  for (uint32_t k = 2; k < d.n; k++) perm[k] = k - 1;
  Attr attr = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, d.n));
  return gen_emit(g, OP_permute, &x, 1, &attr, 1);
}

static Shape weight_shape(Gen *g, const Window *w, int64_t out, int64_t channels) {
  int64_t d[2 + CONV_AXES] = {out, channels / w->groups};
  for (uint32_t k = 0; k < w->spatial; k++) d[2 + k] = w->kernel[k];
  return ir_shape_ints(g->p, d, 2 + w->spatial);
}

// An image like x that nobody else reads, which whoever reads it may make
static Val image_of_its_own(Gen *g, Val x) {
  Val leaf = gen_leaf(g, ir_ins(g->f, x)->shape);
  return gen_emit(g, OP_relu, &leaf, 1, NULL, 0);
}

// x so many times by channel: pixels.
static Val times_pixels(Gen *g, Val x, Val image) {
  Dims d = gen_dims(g, image);
  Dim n = ir_dim(g->p, 1);
  for (uint32_t k = 0; k + 1 < d.n; k++) n = ir_dim_mul(g->p, n, d.d[k]);
  Attr of = ir_a_dim(KEY_dim, n);
  return gen_op2(g, OP_mul, x, gen_emit(g, OP_dim_size, NULL, 0, &of, 1));
}

// Of what a convolution makes, as it is or with what may follow in its kernel. The sum of x less the mean is what rounding left
// of that: together they are the sum of x.
static void add_moments(Gen *g, Val x, double mag) {
  if (gen_chance(g, 30)) x = gen_op1(g, OP_relu, x);
  Val m = ir_none(x) ? x : gen_emit(g, OP_moments, &x, 1, NULL, 0);
  if (ir_none(m)) return;
  gen_keep_tame(g, m, mag);
  gen_keep_tame(g, gen_op2(g, OP_add, times_pixels(g, m, x), ir_result(m, 1)), MAX_ELEMENTS * mag);
  gen_keep_tame(g, ir_result(m, 2), MAX_ELEMENTS * mag * mag);
}

// What a convolution makes, as it is or with what may follow in its kernel, with channels first.
static void add_first(Gen *g, Val x, double mag) {
  if (gen_chance(g, 40)) x = gen_op1(g, OP_relu, x);
  if (ir_none(x)) return;
  if (gen_chance(g, 30)) gen_keep_tame(g, x, mag);
  gen_keep_tame(g, with_channels_first(g, x), mag);
}

static bool has_constant_sizes(const Gen *g, const Dims *d) {
  bool all = true;
  for (uint32_t k = 1; k < d->n; k++) all &= ir_dim_is_const(g->p, d->d[k]);
  return all;
}

void add_conv(Gen *g) {
  Window w;
  Attr attr[7];
  Val x = image_of(g);
  if (ir_none(x) || !window_of(g, x, &w)) return;
  Dims d = gen_dims(g, x);
  int64_t channels = ir_dim_bound(g->p, d.d[d.n - 1]), out = w.groups * (1 + gen_below(g, 20));
  if (w.groups > 1 && gen_chance(g, 40)) out = channels;
  Shape y = shaped(g, x, w.out, out);
  if (!gen_is_small(g, y)) return;
  uint32_t n = attributes(g, &w, attr), kind = gen_below(g, 3);
  Val of[2] = {x, (Val){0}};
  bool by_one = w.groups == channels && out == channels, mixes = kind == 0 && has_constant_sizes(g, &d);
  bool first = (by_one && gen_chance(g, 60)) || (mixes && gen_chance(g, 30));
  if (first) n = 4, attr[n++] = ir_a_int(KEY_first, 1);
  if (kind < 2 && gen_chance(g, 40)) of[0] = image_of_its_own(g, x);
  if (!ir_none(of[0]) && kind < 2 && first) of[0] = with_channels_first(g, of[0]);
  if (ir_none(of[0])) return;
  if (kind == 0) {
    of[1] = gen_leaf(g, weight_shape(g, &w, out, channels));
    Val made = gen_emit(g, OP_conv, of, 2, attr, n);
    if (!ir_none(made) && !first && gen_chance(g, 40)) add_moments(g, made, 20 * gen_mag(g, of[0]));
    if (!ir_none(made) && !first && gen_chance(g, 40)) add_first(g, made, 20 * gen_mag(g, of[0]));
    gen_keep_tame(g, made, 20 * gen_mag(g, of[0]));
    return;
  }
  attr[n] = ir_a_list(KEY_shape, ir_shape_ints(g->p, w.kernel, w.spatial));
  if (kind == 1) {
    of[1] = gen_leaf(g, y);
    if (first) of[1] = with_channels_first(g, of[1]);
    gen_keep_tame(g, gen_emit(g, OP_conv_weight_grad, of, 2, attr, n + 1), 40 * gen_mag(g, of[0]));
    return;
  }
  of[0] = gen_leaf(g, y);
  if (first) of[0] = with_channels_first(g, of[0]);
  of[1] = gen_leaf(g, weight_shape(g, &w, out, channels));
  attr[n] = ir_a_list(KEY_shape, ir_shape(g->p, d.d + 1, w.spatial));
  Val made = gen_emit(g, OP_conv_transpose, of, 2, attr, n + 1);
  if (!ir_none(made) && !first && gen_chance(g, 40)) add_first(g, made, 40);
  gen_keep_tame(g, made, 40);
}
