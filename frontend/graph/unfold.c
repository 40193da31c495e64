// Windows over images as columns, nn.functional.unfold, and their sums, fold. An axis of elements becomes the axes [kernel,
// positions], one after the other; back, elements are added where they came from.
#include "frontend/graph/image.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/graph/spatial.h"

enum { AXES = 2, MOST_KERNEL = 1 << 10, MOST = 1 << 20 };

typedef struct {
  tn_function *f;
  int64_t kernel[AXES], stride[AXES], padding[AXES], dilation[AXES];
  Dim in[AXES], out[AXES];  // elements, positions
  tn_site at;
} Columns;

static Prog *ir_of(const Columns *c) { return c->f->p->ir; }

// ---- what is asked for
static void fill(int64_t *out, int64_t all, const int64_t *each, int64_t otherwise) {
  for (uint32_t k = 0; k < AXES; k++) {
    out[k] = each[0] || each[1] ? each[k] : all;
    if (!out[k]) out[k] = otherwise;
  }
}

static bool find_positions(Columns *c, uint32_t k) {
  Prog *p = ir_of(c);
  int64_t reach = c->dilation[k] * (c->kernel[k] - 1) + 1;
  Dim room = ir_dim_add(p, c->in[k], ir_dim(p, 2 * c->padding[k] - reach));
  c->out[k] = ir_dim_div(p, ir_dim_add(p, room, ir_dim(p, c->stride[k])), ir_dim(p, c->stride[k]));
  ir_dim_computed_at(p, c->out[k], fe_loc(c->f->p, c->at));
  if (ir_dim_most(p, room) >= 0) return true;
  fe_error(c->f->p, E_SHAPE, c->at, "a window of %lld elements is longer than spatial axis %u, with its padding",
           (long long)reach, k);
  return false;
}

static bool read_options(Columns *c, int64_t kernel, const tn_unfold_options *o) {
  fill(c->kernel, kernel, o->kernels, 0);
  fill(c->stride, o->stride, o->strides, 1);
  fill(c->padding, o->padding, o->paddings, 0);
  fill(c->dilation, o->dilation, o->dilations, 1);
  for (uint32_t k = 0; k < AXES; k++) {
    bool good = c->kernel[k] >= 1 && c->kernel[k] <= MOST_KERNEL && c->stride[k] >= 1 && c->stride[k] <= MOST &&
                c->padding[k] >= 0 && c->padding[k] <= MOST && c->dilation[k] >= 1 && c->dilation[k] <= MOST;
    if (good && find_positions(c, k)) continue;
    if (!good)
      fe_error(
          c->f->p, E_ARGUMENT, c->at,
          "windows have 1 to 1024 elements along each axis, stride and dilation from 1 and padding from 0 to 2^20");
    return false;
  }
  return true;
}

// ---- windows as columns
// Do the windows lie side by side and leave no element out?
static bool are_tiles(const Columns *c) {
  Prog *p = ir_of(c);
  for (uint32_t k = 0; k < AXES; k++) {
    bool beside = c->stride[k] == c->kernel[k] && c->dilation[k] == 1 && !c->padding[k];
    if (!beside || c->in[k].i != ir_dim_mul(p, c->out[k], ir_dim(p, c->kernel[k])).i) return false;
  }
  return true;
}

// [N, C, H, W] -> [N, C, kernels, positions]
static tn_tensor tiles(const Columns *c, tn_tensor x) {
  Prog *p = ir_of(c);
  Dim d[2 + 2 * AXES] = {fe_axis_dim(x, 0), fe_axis_dim(x, 1)};
  for (uint32_t k = 0; k < AXES; k++) d[2 + 2 * k] = c->out[k], d[3 + 2 * k] = ir_dim(p, c->kernel[k]);
  x = fe_reshape(x, d, 2 + 2 * AXES, c->at);
  return fe_ok(x) ? fe_permute(x, (const uint32_t[]){0, 1, 3, 5, 2, 4}, c->at) : x;
}

// Likewise, by way of [N, C, kernel, positions, W]. Rows of neighbours are copied, and added in the gradient.
static tn_tensor windows(const Columns *c, tn_tensor x) {
  const int64_t pads[2 * AXES] = {c->padding[1], c->padding[1], c->padding[0], c->padding[0]};
  x = fe_pad(x, pads, 2 * AXES, TN_PAD_CONSTANT, 0, c->at);
  for (uint32_t k = 0; k < AXES; k++)
    x = fe_windows(x, 2 + 2 * k, 2 + k, c->out[k], c->kernel[k], c->stride[k], c->dilation[k], c->at);
  return x;
}

tn_tensor fe_unfold2d(tn_tensor x, int64_t kernel, tn_unfold_options o) {
  Columns c = {.f = x.fn, .at = o.at};
  tn_tensor y = fe_batch_of(x, AXES, o.at);
  if (!fe_ok(y) || fe_rank(y) != 2 + AXES)
    return fe_refuse(x, E_SHAPE, o.at, "windows are taken of [N, C, H, W], or one image without N");
  for (uint32_t k = 0; k < AXES; k++) c.in[k] = fe_axis_dim(y, 2 + k);
  if (!read_options(&c, kernel, &o)) return fe_poison(c.f);
  Prog *p = ir_of(&c);
  int64_t taps = c.kernel[0] * c.kernel[1];
  Dim d[3] = {fe_axis_dim(y, 0), ir_dim_mul(p, fe_axis_dim(y, 1), ir_dim(p, taps)), ir_dim_mul(p, c.out[0], c.out[1])};
  y = are_tiles(&c) ? tiles(&c, y) : windows(&c, y);
  y = fe_reshape(y, d, 3, o.at);
  bool one = fe_ok(y) && fe_rank(x) == 1 + AXES;
  return one ? fe_reshape(y, d + 1, 2, o.at) : y;
}

tn_tensor tn_unfold2d(tn_tensor x, int64_t kernel, tn_unfold_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_unfold2d(x, kernel, o), o.at);
}

// ---- their sums
// i64 [kernel x positions]: the element of the padded axis that each of them is.
static tn_tensor places(const Columns *c, uint32_t k) {
  Prog *p = ir_of(c);
  Dim n = ir_dim(p, c->kernel[k]), all = ir_dim_mul(p, n, c->out[k]);
  tn_tensor tap = fe_with_number(OP_mul, fe_positions(c->f, n, c->at), (double)c->dilation[k], c->at);
  tn_tensor first = fe_with_number(OP_mul, fe_positions(c->f, c->out[k], c->at), (double)c->stride[k], c->at);
  tn_tensor at = fe_binary(OP_add, fe_reshape(tap, (Dim[]){n, ir_dim(p, 1)}, 2, c->at), first, c->at);
  at = fe_reshape(at, &all, 1, c->at);
  return fe_ok(at) ? fe_cast(at, DT_I64, c->at) : at;
}

// x from `start` on along an axis of `size`; the others are 0.
static tn_tensor placed(const Columns *c, tn_tensor x, uint32_t axis, int64_t start, int64_t size) {
  Prog *p = ir_of(c);
  if (!fe_ok(x) || fe_axis_dim(x, axis).i == ir_dim(p, size).i) return x;
  const Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(p, start)), ir_a_int(KEY_size, size)};
  return fe_emit(OP_pad_axis, &x, 1, a, 3, c->at);
}

// Axes `axis` and the one behind it as one of `size` elements
static tn_tensor merged(const Columns *c, tn_tensor x, uint32_t axis, Dim size) {
  Dim d[MAX_RANK];
  uint32_t rank = fe_ok(x) ? fe_rank(x) - 1 : 0;
  for (uint32_t j = 0; j < rank; j++) d[j] = j == axis ? size : fe_axis_dim(x, j < axis ? j : j + 1);
  return fe_ok(x) ? fe_reshape(x, d, rank, c->at) : x;
}

// Windows one apart, and windows without gaps, are sums of chunks of the elements of each, shifted:
//
//   element 2 b + r of the image = x[r, b] + x[2 + r, b - 1] + ..      stride 2: chunks of two elements
//   element b = x[0, b] + x[1, b - dilation] + ..                      stride 1: of one
enum { MOST_CHUNKS = 64 };

static int64_t chunks_of(const Columns *c, uint32_t k) { return (c->kernel[k] + c->stride[k] - 1) / c->stride[k]; }

static bool are_chunks(const Columns *c, uint32_t k) {
  bool is_const = ir_dim_is_const(ir_of(c), c->in[k]) && ir_dim_is_const(ir_of(c), c->out[k]);
  return is_const && (c->stride[k] == 1 || c->dilation[k] == 1) && chunks_of(c, k) <= MOST_CHUNKS;
}

// Of padded elements along the axis those of the image
static tn_tensor without_padding(const Columns *c, uint32_t k, tn_tensor x, uint32_t axis) {
  if (!fe_ok(x)) return x;
  int64_t all = ir_dim_bound(ir_of(c), fe_axis_dim(x, axis)), in = ir_dim_bound(ir_of(c), c->in[k]);
  int64_t there = all - c->padding[k] < in ? all - c->padding[k] : in;
  if (there < all) x = fe_slice(x, axis, c->padding[k], there, c->at);
  return placed(c, x, axis, 0, in);
}

// Chunk q of the elements at axis `taps`, where it belongs along `axis`. Of windows one apart these are elements of the image.
static tn_tensor chunk(const Columns *c, uint32_t k, tn_tensor x, uint32_t taps, uint32_t axis, int64_t q) {
  int64_t from = q * c->stride[k], left = c->kernel[k] - from, n = left < c->stride[k] ? left : c->stride[k];
  int64_t blocks = ir_dim_bound(ir_of(c), c->out[k]) + (chunks_of(c, k) - 1) * c->dilation[k];
  x = placed(c, fe_slice(x, taps, from, n, c->at), taps, 0, c->stride[k]);
  x = placed(c, x, axis, q * c->dilation[k], blocks);
  return c->stride[k] == 1 ? without_padding(c, k, x, axis) : x;
}

static tn_tensor sum_of_chunks(const Columns *c, uint32_t k, tn_tensor x, uint32_t taps, uint32_t axis) {
  tn_tensor sum = chunk(c, k, x, taps, axis, 0);
  for (int64_t q = 1; q < chunks_of(c, k); q++) sum = fe_binary(OP_add, sum, chunk(c, k, x, taps, axis, q), c->at);
  if (!fe_ok(sum)) return sum;
  Dim all = ir_dim_mul(ir_of(c), fe_axis_dim(sum, axis), ir_dim(ir_of(c), c->stride[k]));
  sum = merged(c, fe_move_axes(sum, &taps, &axis, 1, c->at), axis - 1, all);
  return c->stride[k] == 1 ? sum : without_padding(c, k, sum, axis - 1);
}

// Other windows: every element is added where it belongs.
static tn_tensor scattered(const Columns *c, uint32_t k, tn_tensor x, uint32_t taps, uint32_t axis) {
  Prog *p = ir_of(c);
  Dim d[MAX_RANK], padded = ir_dim_add(p, c->in[k], ir_dim(p, 2 * c->padding[k]));
  uint32_t to = axis - 1;
  x = merged(c, fe_move_axes(x, &taps, &to, 1, c->at), to, ir_dim_mul(p, ir_dim(p, c->kernel[k]), c->out[k]));
  if (!fe_ok(x)) return x;
  for (uint32_t j = 0; j < fe_rank(x); j++) d[j] = j == axis - 1 ? padded : fe_axis_dim(x, j);
  Attr zero[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_shape(p, d, fe_rank(x)))};
  const tn_tensor of[3] = {fe_emit_in(c->f, OP_full, zero, 2, c->at), places(c, k), x};
  tn_tensor y = fe_over_axis("tn_fold2d", OP_index_add, of, 3, (int)axis - 1, c->at);
  return fe_ok(y) && c->padding[k] ? fe_part(y, axis - 1, ir_dim(p, c->padding[k]), c->in[k], c->at) : y;
}

// Axes `taps` and `axis`, a later one, of elements of windows and of positions as one of the image's, axis - 1.
static tn_tensor added(const Columns *c, uint32_t k, tn_tensor x, uint32_t taps, uint32_t axis) {
  if (!fe_ok(x)) return x;
  return are_chunks(c, k) ? sum_of_chunks(c, k, x, taps, axis) : scattered(c, k, x, taps, axis);
}

// x [N, C kernel, positions]; false: reported
static bool check_columns(const Columns *c, tn_tensor x) {
  Prog *p = ir_of(c);
  int64_t taps = c->kernel[0] * c->kernel[1];
  bool good = fe_rank(x) == 3 && fe_ins(x)->dtype == DT_F32 &&
              ir_dim_exact_div(p, fe_axis_dim(x, 1), ir_dim(p, taps)).i &&
              fe_axis_dim(x, 2).i == ir_dim_mul(p, c->out[0], c->out[1]).i;
  if (good) return true;
  fe_error(
      c->f->p, E_SHAPE, c->at,
      "windows of %lld x %lld elements are added of f32 [N, C x %lld, positions], of as many positions as they have "
      "in an image of the given sizes, not %s",
      (long long)c->kernel[0], (long long)c->kernel[1], (long long)taps, fe_type_text(x));
  fe_note_value(x, "the value");
  return false;
}

static bool read_sizes(Columns *c, tn_shape sizes) {
  if (sizes.rank != AXES) {
    fe_error(c->f->p, E_ARGUMENT, c->at, "windows are added to images of a height and a width");
    return false;
  }
  for (uint32_t k = 0; k < AXES; k++)
    if (!fe_dim(c->f->p, sizes.dims[k], &c->in[k], c->at)) return false;
  return true;
}

tn_tensor fe_fold2d(tn_tensor x, tn_shape sizes, int64_t kernel, tn_unfold_options o) {
  Columns c = {.f = x.fn, .at = o.at};
  if (!read_sizes(&c, sizes) || !read_options(&c, kernel, &o)) return fe_poison(c.f);
  Prog *p = ir_of(&c);
  bool one = fe_rank(x) == 2;
  Dim own[3] = {ir_dim(p, 1)};
  for (uint32_t k = 0; one && k < 2; k++) own[k + 1] = fe_axis_dim(x, k);
  tn_tensor y = one ? fe_reshape(x, own, 3, o.at) : x;
  if (!fe_ok(y) || !check_columns(&c, y)) return fe_poison(c.f);
  Dim channels = ir_dim_exact_div(p, fe_axis_dim(y, 1), ir_dim(p, c.kernel[0] * c.kernel[1]));
  Dim d[2 + 2 * AXES] = {fe_axis_dim(y, 0),      channels, ir_dim(p, c.kernel[0]),
                         ir_dim(p, c.kernel[1]), c.out[0], c.out[1]};
  y = fe_reshape(y, d, 2 + 2 * AXES, o.at);
  y = added(&c, 0, added(&c, 1, y, 3, 5), 2, 3);
  return fe_ok(y) && one ? fe_reshape(y, (Dim[]){channels, c.in[0], c.in[1]}, 3, o.at) : y;
}

tn_tensor tn_fold2d(tn_tensor x, tn_shape sizes, int64_t kernel, tn_unfold_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_fold2d(x, sizes, kernel, o), o.at);
}
