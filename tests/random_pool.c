// Steps of random programs: pools, images of other sizes, and their gradients, directly.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/pool.h"
#include "tests/random_gen.h"

#include <string.h>

enum { MOST_SIZE = 12, MOST_WIDTH = 70 };  // of a spatial axis; of the last one of images of one channel

static bool is_image(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  bool fits = gen_is_f32(g, v) && d.n >= 3 && d.n <= 2 + POOL_AXES;
  for (uint32_t k = 1; k + 1 < d.n && fits; k++) {  // a window of no element has no largest one
    bool is_wide = k + 2 == d.n && ir_dim_is_one(g->p, d.d[d.n - 1]);
    fits = ir_dim_bound(g->p, d.d[k]) <= (is_wide ? MOST_WIDTH : MOST_SIZE) && ir_dim_least(g->p, d.d[k]) > 0;
  }
  return fits;
}

// Channels to the end, or to the front.
static Val moved(Gen *g, Val v, bool to_last) {
  uint32_t n = gen_dims(g, v).n;
  int64_t list[MAX_RANK] = {0};
  for (uint32_t k = 1; k < n; k++) list[k] = to_last ? (k + 1 == n ? 1 : k + 1) : (k == 1 ? n - 1 : k - 1);
  Attr perm = ir_a_list(KEY_perm, ir_shape_ints(g->p, list, n));
  Val made = gen_emit(g, OP_permute, &v, 1, &perm, 1);
  gen_keep_tame(g, made, gen_mag(g, v));
  return made;
}

// What is made of images with channels first is given so.
static void keep(Gen *g, Val made, double mag, bool was_first) {
  gen_keep_tame(g, made, mag);
  if (was_first) moved(g, made, false);
}

static Val image_of(Gen *g, bool *was_first) {
  *was_first = gen_chance(g, 40);
  Val x = *was_first ? (Val){0} : gen_pick_where(g, is_image);
  if (!ir_none(x)) return x;
  Dims d = {.n = 3 + gen_below(g, POOL_AXES)};
  for (uint32_t k = 0; k < d.n; k++)
    d.d[k] = gen_chance(g, 20) ? gen_dim(g) : ir_dim(g->p, 1 + gen_below(g, d.n > 4 ? 4 : 7));
  if (gen_chance(g, 30)) d.d[d.n - 1] = ir_dim(g->p, 1 + gen_below(g, 40));
  else if (gen_chance(g, 30)) d.d[d.n - 1] = ir_dim(g->p, 1), d.d[d.n - 2] = ir_dim(g->p, 1 + gen_below(g, MOST_WIDTH));
  if (*was_first) {
    Dim last = d.d[d.n - 1];
    for (uint32_t k = d.n - 1; k > 1; k--) d.d[k] = d.d[k - 1];
    d.d[1] = last;
  }
  Shape s = gen_shape(g, &d);
  if (!gen_is_small(g, s)) return (Val){0};
  x = gen_leaf(g, s);
  if (*was_first) x = moved(g, x, true);
  return is_image(g, x) ? x : (Val){0};
}

// Windows over x; *y: the sizes of the result.
static uint32_t attributes(Gen *g, Val x, bool is_max, Attr *attr, Dims *y) {
  Dims d = gen_dims(g, x);
  uint32_t spatial = d.n - 2, n = 1;
  int64_t kernel[POOL_AXES], stride[POOL_AXES], pad[POOL_AXES], dilation[POOL_AXES];
  // shares: or where a window may be longer than its axis
  bool is_large = gen_chance(g, 20), shares = gen_chance(g, 25), is_one = gen_chance(g, 20);
  *y = d;
  for (uint32_t k = 0; k < spatial; k++) {
    kernel[k] = 1 + gen_below(g, is_large ? 8 : 4), stride[k] = 1 + gen_below(g, is_large ? 8 : 3),
    pad[k] = gen_below(g, (uint32_t)kernel[k] / 2 + 1);
    dilation[k] = is_max && gen_chance(g, 20) ? 2 : 1;
    y->d[k + 1] = ir_dim(g->p, is_one ? 1 : 1 + gen_below(g, 5));
    Dim room = ir_dim_add(g->p, d.d[k + 1], ir_dim(g->p, 2 * pad[k] - dilation[k] * (kernel[k] - 1) - 1 + stride[k]));
    Dim whole = ir_dim_div(g->p, room, ir_dim(g->p, stride[k]));
    shares |= ir_dim_least(g->p, whole) < 1;
    if (!shares) y->d[k + 1] = whole;
  }
  if (!is_max && gen_chance(g, 50)) attr[n++] = ir_a_num(KEY_divisor, 1 + gen_below(g, 9));
  attr[0] = ir_a_list(KEY_shape, ir_shape(g->p, y->d + 1, spatial));
  if (shares) return n;
  attr[n++] = ir_a_list(KEY_kernel, ir_shape_ints(g->p, kernel, spatial));
  attr[n++] = ir_a_list(KEY_stride, ir_shape_ints(g->p, stride, spatial));
  attr[n++] = ir_a_list(KEY_pad, ir_shape_ints(g->p, pad, spatial));
  if (is_max) attr[n++] = ir_a_list(KEY_dilation, ir_shape_ints(g->p, dilation, spatial));
  return n;
}

void add_pool(Gen *g) {
  Attr attr[6];
  Dims y, d;
  bool is_max = gen_chance(g, 50), backward = gen_chance(g, 50), was_first;
  Val x = image_of(g, &was_first);
  if (ir_none(x)) return;
  uint32_t n = attributes(g, x, is_max, attr, &y);
  Shape shape = gen_shape(g, &y);
  if (!gen_is_small(g, shape)) return;
  d = gen_dims(g, x);
  Attr back = ir_a_list(KEY_shape, ir_shape(g->p, d.d + 1, d.n - 2));
  double mag = gen_mag(g, x);
  if (!is_max) {
    Val of = backward ? gen_leaf(g, shape) : x;
    if (backward) attr[0] = back;
    keep(g, gen_emit(g, backward ? OP_sum_pool_grad : OP_sum_pool, &of, 1, attr, n), 64 * (backward ? 1 : mag),
         was_first);
    return;
  }
  Val largest = gen_emit(g, OP_max_pool, &x, 1, attr, n), places = ir_result(largest, 1);
  keep(g, largest, mag, was_first);
  if (!backward) return;
  attr[0] = back;
  keep(g, gen_emit(g, OP_max_pool_grad, (Val[]){gen_leaf(g, shape), places}, 2, attr, n), 64, was_first);
}

void add_resize(Gen *g) {
  static const char *const filters[] = {"nearest",       "linear",          "cubic",
                                        "nearest_exact", "wide_linear",     "wide_cubic",
                                        "byte_linear",   "byte_wide_cubic", "box"};
  bool was_first;
  Val x = image_of(g, &was_first);
  if (ir_none(x)) return;
  Dims d = gen_dims(g, x), y = d;
  bool is_one = gen_chance(g, 15);
  for (uint32_t k = 1; k + 1 < d.n; k++) {
    if (!ir_dim_is_const(g->p, d.d[k])) return;
    uint32_t in = (uint32_t)ir_dim_bound(g->p, d.d[k]);
    uint32_t few = d.n > 4 ? 5 : 9, most = gen_chance(g, 40) && 2 * in > few ? 2 * in : few;
    uint32_t out = gen_chance(g, 30) ? in * (1 + gen_below(g, 4)) : 1 + gen_below(g, most);
    y.d[k] = ir_dim(g->p, is_one ? 1 : out);
  }
  Shape shape = gen_shape(g, &y);
  if (!gen_is_small(g, shape)) return;
  bool backward = gen_chance(g, 50);
  const char *filter = filters[gen_below(g, sizeof filters / sizeof *filters)];
  double sums = strcmp(filter, "box") ? 4 : (double)ir_shape_bound(g->p, gen_shape(g, &d));
  Attr attr[3] = {ir_a_list(KEY_shape, ir_shape(g->p, (backward ? d : y).d + 1, d.n - 2)),
                  ir_a_str(KEY_filter, ir_str(g->p, filter)), ir_a_int(KEY_align, 1)};
  Val of = backward ? gen_leaf(g, shape) : x;
  Val made = gen_emit(g, backward ? OP_resize_grad : OP_resize, &of, 1, attr, gen_chance(g, 30) ? 3 : 2);
  keep(g, made, backward ? 200 : sums * gen_mag(g, x), was_first);
}
