// Rules of convolutions whose windows tile the image, neither overlapping nor padded: of few channels, such as the patches that a
// vision transformer begins with, or of a single window, such as the first layer of a generator. They are products of rows, each a
// window of an image with channels first. The permutation that brings channels to the end becomes the one that makes the rows.
//
//   %q = permute %x {perm=[0,2,3,1]}     x [N, C, H kh, W kw]
//   %y = conv %q, %w {stride=[kh,kw]}
//     ->     %r = reshape %x : [N, C, H, kh, W, kw]     %p = permute %r {perm=[0,2,4,1,3,5]}
//            %y = linear (reshape %p : [N, H, W, C kh kw]), (reshape %w : [O, C kh kw])
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"

// With more channels the convolution's own kernel is as fast, and needs no rows; but of one window it reads all weights again for
// each image.
enum { FEW_CHANNELS = 16 };

static bool is_one_window(const Conv *c) { return c->out[0] * c->out[1] * c->out[2] == 1; }

static bool tiles_image(const Rules *r, Val v, Conv *c) {
  ir_conv(r->f, v, c);
  if (c->groups != 1 || c->channels_first || c->run_sized) return false;
  if (c->algorithm == CONV_WINOGRAD) return false;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    bool overlaps = c->stride[k] != c->kernel[k] && c->out[k] > 1;
    if (overlaps || (c->kernel[k] > 1 && c->dilation[k] != 1) || c->before[k] || c->behind[k]) return false;
    if (c->in[k] != c->out[k] * c->kernel[k]) return false;
  }
  return ir_conv_taps(c) > 1;
}

static bool is_patches(const Rules *r, Val v, Conv *c) {
  return tiles_image(r, v, c) && (c->c < FEW_CHANNELS || is_one_window(c));
}

static Val reshaped(Rules *r, Val a, const Dim *d, uint32_t n, Loc loc) {
  Attr shape = ir_a_list(KEY_shape, ir_shape(r->p, d, n));
  return ir_emit(r->f, OP_reshape, &a, 1, &shape, 1, loc);
}

static Dim dim(Rules *r, int64_t n) { return ir_dim(r->p, n); }

// Elements of a window: all channels, and all elements of each
static Dim width(Rules *r, const Conv *c) { return dim(r, c->c * ir_conv_taps(c)); }

// From [N, C, H, kh, W, kw] to [N, H, W, C, kh, kw]
static Shape window_axes(Prog *p, uint32_t n) {
  int64_t list[MAX_RANK] = {0};
  list[n + 1] = 1;
  for (uint32_t k = 0; k < n; k++) list[1 + k] = 2 + 2 * k, list[n + 2 + k] = 3 + 2 * k;
  return ir_shape_ints(p, list, 2 * n + 2);
}

// x [N, C, spatial..] as rows of windows [N, positions.., C kernel..]
static Val rows_of(Rules *r, const Conv *c, Val x, Loc loc) {
  uint32_t n = c->rank, first = CONV_AXES - n;
  Dim apart[MAX_RANK] = {c->n, dim(r, c->c)}, row[MAX_RANK] = {c->n};
  for (uint32_t k = 0; k < n; k++) {
    apart[2 + 2 * k] = dim(r, c->out[first + k]), apart[3 + 2 * k] = dim(r, c->kernel[first + k]);
    row[1 + k] = dim(r, c->out[first + k]);
  }
  row[n + 1] = width(r, c);
  x = ir_permuted(r->f, reshaped(r, x, apart, 2 * n + 2, loc), window_axes(r->p, n), loc);
  return reshaped(r, x, row, n + 2, loc);
}

Val ir_tiled_image(const Fn *f, Val rows, Dim *kernel) {
  Prog *p = f->prog;
  uint32_t n = ir_rank(p, ir_ins(f, rows)->shape) - 2;
  Val moved = ir_ins(f, rows)->op == OP_reshape ? ir_arg(f, rows, 0) : (Val){0};
  Val apart = !ir_none(moved) && ir_ins(f, moved)->op == OP_permute ? ir_arg(f, moved, 0) : (Val){0};
  if (ir_none(apart) || ir_ins(f, apart)->op != OP_reshape || n - 1 >= CONV_AXES) return (Val){0};
  Shape s = ir_ins(f, apart)->shape;
  if (ir_rank(p, s) != 2 * n + 2 || ir_perm_of(f, moved)->u.list.i != window_axes(p, n).i) return (Val){0};
  Dim image[MAX_RANK] = {ir_dim_at(p, s, 0), ir_dim_at(p, s, 1)}, row[MAX_RANK] = {image[0]}, size = image[1];
  for (uint32_t k = 0; k < n; k++) {
    row[1 + k] = ir_dim_at(p, s, 2 + 2 * k), kernel[k] = ir_dim_at(p, s, 3 + 2 * k);
    image[2 + k] = ir_dim_mul(p, row[1 + k], kernel[k]), size = ir_dim_mul(p, size, kernel[k]);
  }
  row[n + 1] = size;
  bool is = ir_ins(f, rows)->shape.i == ir_shape(p, row, n + 2).i;
  for (uint32_t k = 1; is && k < 2 * n + 2; k++) is = ir_dim_is_const(p, ir_dim_at(p, s, k));
  Val from = ir_arg(f, apart, 0);
  return is && ir_ins(f, from)->shape.i == ir_shape(p, image, n + 2).i ? from : (Val){0};
}

// The other way
static Val image_of(Rules *r, const Conv *c, Val rows, Loc loc) {
  uint32_t n = c->rank, first = CONV_AXES - n;
  Dim apart[MAX_RANK] = {c->n}, image[MAX_RANK] = {c->n, dim(r, c->c)};
  int64_t list[MAX_RANK] = {0, n + 1};
  apart[n + 1] = dim(r, c->c);
  for (uint32_t k = 0; k < n; k++) {
    apart[1 + k] = dim(r, c->out[first + k]), apart[n + 2 + k] = dim(r, c->kernel[first + k]);
    list[2 + 2 * k] = 1 + k, list[3 + 2 * k] = n + 2 + k;
    image[2 + k] = dim(r, c->in[first + k]);
  }
  rows = ir_permuted(r->f, reshaped(r, rows, apart, 2 * n + 2, loc), ir_shape_ints(r->p, list, 2 * n + 2), loc);
  return reshaped(r, rows, image, n + 2, loc);
}

static Val as_matrix(Rules *r, Val a, Dim columns, Loc loc) {
  Shape s = ir_ins(r->f, a)->shape;
  Dim d[] = {dim(r, 1), columns};
  for (uint32_t k = 0; k + 1 < ir_rank(r->p, s); k++) d[0] = ir_dim_mul(r->p, d[0], ir_dim_at(r->p, s, k));
  return reshaped(r, a, d, 2, loc);
}

// weight [O, C, kernel..] as [O, C kernel..]
static Val matrix_of(Rules *r, const Conv *c, Val weight, Loc loc) {
  return reshaped(r, weight, (Dim[]){dim(r, c->o), width(r, c)}, 2, loc);
}

// `now` in place of `was`, whose name it takes.
static Val named(Rules *r, Val now, Val was) {
  ir_copy_metadata(ir_ins(r->f, now), ir_ins(r->f, was));
  return now;
}

Val rule_patches(Rules *r, Val v) {
  Conv c;
  Val x = ir_arg(r->f, v, 0);
  if (!ir_moves_channels(r->f, x, false) || !is_patches(r, v, &c)) return (Val){0};
  Loc loc = ir_ins(r->f, v)->loc;
  Val rows = rows_of(r, &c, ir_arg(r->f, x, 0), loc);
  return named(r, ir_op2(r->f, OP_linear, rows, matrix_of(r, &c, ir_arg(r->f, v, 1), loc), loc), v);
}

Val rule_patches_weight(Rules *r, Val v) {
  Conv c;
  Val x = ir_arg(r->f, v, 0);
  if (!ir_moves_channels(r->f, x, false) || !is_patches(r, v, &c)) return (Val){0};
  Loc loc = ir_ins(r->f, v)->loc;
  Shape shape = ir_ins(r->f, v)->shape;
  Val rows = as_matrix(r, rows_of(r, &c, ir_arg(r->f, x, 0), loc), width(r, &c), loc);
  Val g = as_matrix(r, ir_arg(r->f, v, 1), dim(r, c.o), loc);
  Attr ta = ir_a_int(KEY_ta, 1), to = ir_a_list(KEY_shape, shape);
  Val matrix = ir_emit(r->f, OP_matmul, (Val[]){g, rows}, 2, &ta, 1, loc);
  ir_copy_origin(ir_ins(r->f, matrix), ir_ins(r->f, v));
  return named(r, ir_emit(r->f, OP_reshape, &matrix, 1, &to, 1, loc), v);
}

// The image that a transposed convolution makes of y, with channels first
static Val image_by_product(Rules *r, const Conv *c, Val v, Loc loc) {
  Val y = ir_arg(r->f, v, 0), w = matrix_of(r, c, ir_arg(r->f, v, 1), loc);
  Dim d[MAX_RANK];
  uint32_t n = ir_rank(r->p, ir_ins(r->f, y)->shape);
  for (uint32_t k = 0; k < n; k++) d[k] = ir_dim_at(r->p, ir_ins(r->f, y)->shape, k);
  Val rows = ir_op2(r->f, OP_matmul, as_matrix(r, y, dim(r, c->o), loc), w, loc);
  ir_copy_origin(ir_ins(r->f, rows), ir_ins(r->f, v));
  d[n - 1] = width(r, c);
  return image_of(r, c, reshaped(r, rows, d, n, loc), loc);
}

Val rule_patches_image(Rules *r, Val v) {
  Conv c;
  Val x = ir_arg(r->f, v, 0);
  if (ir_ins(r->f, x)->op != OP_conv_transpose || !ir_moves_channels(r->f, v, true) || !is_patches(r, x, &c))
    return (Val){0};
  return named(r, image_by_product(r, &c, x, ir_ins(r->f, x)->loc), v);
}

static Val channels_to_end(Rules *r, const Conv *c, Val image, Loc loc) {
  int64_t last[MAX_RANK] = {0};
  for (uint32_t k = 0; k < c->rank; k++) last[1 + k] = 2 + k;
  last[c->rank + 1] = 1;
  return ir_permuted(r->f, image, ir_shape_ints(r->p, last, c->rank + 2), loc);
}

Val rule_image_of_one(Rules *r, Val v) {
  Conv c;
  if (!is_patches(r, v, &c) || !is_one_window(&c)) return (Val){0};
  Loc loc = ir_ins(r->f, v)->loc;
  return named(r, channels_to_end(r, &c, image_by_product(r, &c, v, loc), loc), v);
}

// ---- many channels, which lie first: the product reads them where they lie, and writes the elements of windows as planes
//
//   %y = conv_transpose (permute %x {perm=[0,2,3,1]}), %w {stride=[kh,kw]}      x [N, O, H, W], w [O, C, kh, kw]
//     ->     %r = matmul (reshape %w : [O, C kh kw]) {ta}, (reshape %x : [N, O, H W])
//            %p = permute (reshape %r : [N, C, kh, kw, H, W]) {perm=[0,1,4,2,5,3]}
//            %y = permute (reshape %p : [N, C, H kh, W kw]) {perm=[0,2,3,1]}
enum { LEAST_PIXELS = 128 };  // columns of the product

// Planes [N, C, near.., far..] as an image [N, C, far near..]: elements that are near along an axis stand for each that is far.
static Val interleaved(Rules *r, const Conv *c, Val planes, const int64_t *near, const int64_t *far, Loc loc) {
  uint32_t n = c->rank, first = CONV_AXES - n;
  Dim apart[MAX_RANK] = {c->n, dim(r, c->c)}, image[MAX_RANK] = {c->n, dim(r, c->c)};
  int64_t list[MAX_RANK] = {0, 1};
  for (uint32_t k = 0; k < n; k++) {
    apart[2 + k] = dim(r, near[first + k]), apart[2 + n + k] = dim(r, far[first + k]);
    list[2 + 2 * k] = 2 + n + k, list[3 + 2 * k] = 2 + k;
    image[2 + k] = dim(r, near[first + k] * far[first + k]);
  }
  planes = ir_permuted(r->f, reshaped(r, planes, apart, 2 * n + 2, loc), ir_shape_ints(r->p, list, 2 * n + 2), loc);
  return reshaped(r, planes, image, n + 2, loc);
}

Val rule_image_of_planes(Rules *r, Val v) {
  Conv c;
  Val y = ir_arg(r->f, v, 0);
  if (!ir_moves_channels(r->f, y, false) || !tiles_image(r, v, &c)) return (Val){0};
  Dim positions = dim(r, c.out[0] * c.out[1] * c.out[2]);
  if (c.out[0] * c.out[1] * c.out[2] < LEAST_PIXELS) return (Val){0};
  Loc loc = ir_ins(r->f, v)->loc;
  Attr ta = ir_a_int(KEY_ta, 1);
  Val weight = matrix_of(r, &c, ir_arg(r->f, v, 1), loc);
  Val of[] = {weight, reshaped(r, ir_arg(r->f, y, 0), (Dim[]){c.n, dim(r, c.o), positions}, 3, loc)};
  Val planes = ir_emit(r->f, OP_matmul, of, 2, &ta, 1, loc);
  ir_copy_origin(ir_ins(r->f, planes), ir_ins(r->f, v));
  return named(r, channels_to_end(r, &c, interleaved(r, &c, planes, c.kernel, c.out, loc), loc), v);
}

// ---- images of few channels, which leave lanes of a vector of channels without work
//
//   %y = conv_transpose %g, %w      g [N, H, W, O], w [O, C, kh, kw]
//     ->     %r = matmul (permute (reshape %w) : [kh kw C, O]), (reshape %g : [N, O, H W])     : [N, kh kw, C, H W]
//            %y = the sum of the rows of %r, each moved to where its element of the window lies
//
// Where rows would take more than twice the room of pixels and of the image, they are made in parts, of some elements of the window each.
//
// Windows further apart: such a sum for each phase, elements of the image as far apart as windows. Phases are interleaved then:
//
//            %c = concat of the phases : [N, C, sh sw, H / sh, W / sw]
//            %y = permute (reshape %c : [N, C, sh, sw, ..]) {perm=[0,1,4,2,5,3]}
//
// A convolution of stride 1 that makes few channels is one, too (rules_mirror.c).
//
// Vectors of channels would keep half of their lanes without work, or where Winograd's algorithm makes up for some of them, three quarters.
enum {
  LANES = 16,
  HALF_OF_LANES = LANES / 2,
  QUARTER_OF_LANES = LANES / 4,
  LEAST_SUMMED = 8,
  MOST_TAPS = 256,
  MOST_PHASES = 16
};

static int64_t phases_of(const Conv *c) { return c->stride[0] * c->stride[1] * c->stride[2]; }

static bool may_be_winograd(const Rules *r, const Conv *c) {
  bool exact = r->p->sums_exactly || c->algorithm == CONV_EXACT;
  return !exact && c->rank == 2 && c->kernel[1] == 3 && c->kernel[2] == 3 && phases_of(c) == 1;
}

// Rows sum enough to pay for being stored and added.
static bool is_sum_of_rows(const Rules *r, Val v, Conv *c) {
  ir_conv(r->f, v, c);
  if (ir_ins(r->f, v)->op == OP_conv && !ir_mirror_conv(r->p, c)) return false;
  int64_t taps = ir_conv_taps(c), most = may_be_winograd(r, c) ? QUARTER_OF_LANES : HALF_OF_LANES;
  if (c->groups != 1 || c->channels_first || c->run_sized || c->algorithm == CONV_WINOGRAD) return false;
  if (!c->c || c->c > most || c->o < LEAST_SUMMED || c->o < 2 * c->c || c->out[0] * c->out[1] * c->out[2] < LANES)
    return false;
  return taps > 1 && taps <= MOST_TAPS && phases_of(c) <= MOST_PHASES;
}

// Elements of the window in a part
static int64_t taps_of_part(const Conv *c) {
  int64_t taps = ir_conv_taps(c), phases = phases_of(c), room = 2 * (c->o + (phases > 1 ? phases * c->c : 0));
  int64_t parts = (taps * c->c + room - 1) / room;
  return (taps + parts - 1) / parts;
}

// y as [N, O, positions], of which it may be a permutation; with the attribute of a product that reads it so
static Val by_channels(Rules *r, const Conv *c, Val y, Attr *tb, uint32_t *n_attrs, Loc loc) {
  bool is_last = !ir_moves_channels(r->f, y, false);
  Dim positions = dim(r, c->out[0] * c->out[1] * c->out[2]), channels = dim(r, c->o);
  *tb = ir_a_int(KEY_tb, 1), *n_attrs = is_last;
  if (!is_last) y = ir_arg(r->f, y, 0);
  return reshaped(r, y, (Dim[]){c->n, is_last ? positions : channels, is_last ? channels : positions}, 3, loc);
}

// The weight as [taps C, O], of [O, C, kernel..], or mirrored of [C, O, kernel..]
static Val rows_of_weight(Rules *r, const Conv *c, Val weight, bool is_mirrored, Loc loc) {
  Dim channels = dim(r, c->c), summed = dim(r, c->o), taps = dim(r, ir_conv_taps(c));
  int64_t order[] = {2, !is_mirrored, is_mirrored};
  Dim d[] = {is_mirrored ? channels : summed, is_mirrored ? summed : channels, taps};
  weight = ir_permuted(r->f, reshaped(r, weight, d, 3, loc), ir_shape_ints(r->p, order, 3), loc);
  return reshaped(r, weight, (Dim[]){ir_dim_mul(r->p, taps, channels), summed}, 2, loc);
}

// n of its rows, or all
static Val part_of_weight(Rules *r, const Conv *c, Val weight, int64_t from, int64_t n, Loc loc) {
  if (n == ir_conv_taps(c)) return weight;
  Attr part[] = {ir_a_int(KEY_axis, 0), ir_a_dim(KEY_start, dim(r, from * c->c)),
                 ir_a_dim(KEY_count, dim(r, n * c->c))};
  return ir_emit(r->f, OP_slice, &weight, 1, part, 3, loc);
}

// Elements of the image in a phase along an axis, of which the last phases may have one less.
static int64_t count_of(const Conv *c, uint32_t k) { return (c->in[k] + c->stride[k] - 1) / c->stride[k]; }

// Row number `row` of rows [N, taps, C, positions..], that of `tap`, as a part of a phase of the image, [N, 1, C, count..]; none: it is
// of another one, or lies outside.
static Val row_in_image(Rules *r, const Conv *c, Val rows, int64_t row, int64_t tap, int64_t phase, Loc loc) {
  uint32_t first = CONV_AXES - c->rank;
  Crop part = {.start = {0, row}, .step = {1, 1, 1}, .size = {c->n, dim(r, 1), dim(r, c->c)}};
  for (uint32_t k = CONV_AXES; k-- > first; tap /= c->kernel[k], phase /= c->stride[k]) {
    uint32_t axis = 3 + k - first;
    int64_t at = tap % c->kernel[k] * c->dilation[k] - c->before[k] - phase % c->stride[k], count = count_of(c, k);
    if (at % c->stride[k]) return (Val){0};
    int64_t by = at / c->stride[k], end = c->out[k] + by;
    part.start[axis] = by < 0 ? -by : 0, part.before[axis] = by > 0 ? by : 0, part.step[axis] = 1;
    part.behind[axis] = end < count ? count - end : 0, part.size[axis] = dim(r, count);
    if (part.before[axis] + part.behind[axis] >= count) return (Val){0};
  }
  return ir_emit_crop(r->f, rows, &part, loc);
}

static Val added(Rules *r, Val sum, Val x, Loc loc) { return ir_none(sum) ? x : ir_op2(r->f, OP_add, sum, x, loc); }

// The sum of rows of taps [from, end) is added to each phase; rows of a mirrored window come from its last tap on.
static void add_to_phases(Rules *r, const Conv *c, Val rows, int64_t from, int64_t end, bool is_mirrored, Val *phase,
                          Loc loc) {
  for (int64_t k = 0; k < phases_of(c); k++) {
    Val sum = {0};
    for (int64_t tap = from; tap < end; tap++) {
      Val own = row_in_image(r, c, rows, is_mirrored ? end - 1 - tap : tap - from, tap, k, loc);
      if (!ir_none(own)) sum = added(r, sum, own, loc);
    }
    if (!ir_none(sum)) phase[k] = added(r, phase[k], sum, loc);
  }
}

// Phases [N, C, phases, count..] as an image with channels first
static Val image_of_phases(Rules *r, const Conv *c, Val phases, Loc loc) {
  uint32_t first = CONV_AXES - c->rank;
  int64_t count[CONV_AXES] = {0};
  Crop part = {.step = {1, 1}, .size = {c->n, dim(r, c->c)}};
  bool is_whole = true;
  for (uint32_t k = first; k < CONV_AXES; k++) {
    count[k] = count_of(c, k), is_whole &= count[k] * c->stride[k] == c->in[k];
    part.step[2 + k - first] = 1, part.size[2 + k - first] = dim(r, c->in[k]);
  }
  Val image = interleaved(r, c, phases, c->stride, count, loc);
  return is_whole ? image : ir_emit_crop(r->f, image, &part, loc);
}

// [N, 1, C, count..] with another second axis
static Val of_phase(Rules *r, const Conv *c, Val phase, Loc loc) {
  uint32_t first = CONV_AXES - c->rank;
  Dim d[MAX_RANK] = {c->n, dim(r, c->c), dim(r, 1)};
  for (uint32_t k = 0; k < c->rank; k++) d[3 + k] = dim(r, count_of(c, first + k));
  return reshaped(r, phase, d, c->rank + 3, loc);
}

// The image that phases are, with channels first
static Val image_of_all(Rules *r, const Conv *c, Val *phase, Loc loc) {
  uint32_t first = CONV_AXES - c->rank, n = (uint32_t)phases_of(c);
  Dim image[MAX_RANK] = {c->n, dim(r, c->c)};
  for (uint32_t k = 0; k < c->rank; k++) image[2 + k] = dim(r, c->in[first + k]);
  if (n == 1) return reshaped(r, phase[0], image, c->rank + 2, loc);
  for (uint32_t k = 0; k < n; k++) phase[k] = of_phase(r, c, phase[k], loc);
  Attr axis = ir_a_int(KEY_axis, 2);
  return image_of_phases(r, c, ir_emit(r->f, OP_concat, phase, n, &axis, 1, loc), loc);
}

// The product of y with the rows of the weight, [N, taps, C, positions..]
static Val rows_of_image(Rules *r, const Conv *c, Val weight, Val y, const Attr *attrs, uint32_t n_attrs, Val was) {
  Loc loc = ir_ins(r->f, was)->loc;
  uint32_t first = CONV_AXES - c->rank;
  Dim rows_in = ir_dim_at(r->p, ir_ins(r->f, weight)->shape, 0);
  Dim d[MAX_RANK] = {c->n, dim(r, ir_dim_bound(r->p, rows_in) / c->c), dim(r, c->c)};
  for (uint32_t k = 0; k < c->rank; k++) d[3 + k] = dim(r, c->out[first + k]);
  Val rows = ir_emit(r->f, OP_matmul, (Val[]){weight, y}, 2, attrs, n_attrs, loc);
  ir_copy_origin(ir_ins(r->f, rows), ir_ins(r->f, was));
  return reshaped(r, rows, d, c->rank + 3, loc);
}

Val rule_image_of_few(Rules *r, Val v) {
  Conv c;
  if (!is_sum_of_rows(r, v, &c)) return (Val){0};
  Loc loc = ir_ins(r->f, v)->loc;
  bool is_mirrored = ir_ins(r->f, v)->op == OP_conv;
  int64_t taps = ir_conv_taps(&c), each = taps_of_part(&c);
  Attr attr;
  uint32_t n_attrs;
  Val weight = rows_of_weight(r, &c, ir_arg(r->f, v, 1), is_mirrored, loc);
  Val y = by_channels(r, &c, ir_arg(r->f, v, 0), &attr, &n_attrs, loc), phase[MOST_PHASES] = {0};
  for (int64_t from = 0; from < taps; from += each) {
    int64_t end = from + each < taps ? from + each : taps;
    Val part = part_of_weight(r, &c, weight, is_mirrored ? taps - end : from, end - from, loc);
    add_to_phases(r, &c, rows_of_image(r, &c, part, y, &attr, n_attrs, v), from, end, is_mirrored, phase, loc);
  }
  for (int64_t k = 0; k < phases_of(&c); k++)
    if (ir_none(phase[k])) return phase[k];
  return named(r, channels_to_end(r, &c, image_of_all(r, &c, phase, loc), loc), v);
}
