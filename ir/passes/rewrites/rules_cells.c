// Rule of transposed convolutions whose windows lie far apart. An image is cells, as large as windows are apart; each window covers
// whole cells, so that its cells are what one convolution of stride 1 makes, all elements of a cell as channels:
//
//   %x = conv_transpose %y, %w {stride=[sh,sw]}      y [N, H, W, O], w [O, C, kh, kw] with kh = mh sh, kw = mw sw
//     ->     %v = reshape (permute (reshape %w : [O, C, mh, sh, mw, sw])) : [O, C sh sw, mh, mw]
//            %z = conv_transpose %y, %v {stride=[1,1]} : [N, H + mh - 1, W + mw - 1, C sh sw]
//            %x = slice (reshape (permute (reshape %z) : [N, H + mh - 1, sh, W + mw - 1, sw, C]))
//
// Windows of other sizes are made longer with zeros; those that are smaller than a cell make a part of it. So it is where few channels
// would leave lanes of vectors empty.
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"

// FEW_PHASES are faster one by one. MOVED: products in whose time an element of a cell comes to its place; BEGUN: a sum begins and ends.
enum { FEW_PHASES = 16, LANES = 16, MOVED = 30, BEGUN = 5 };

// Along one of the spatial axes
typedef struct {
  int64_t cells;           // that a window covers
  int64_t apart, made;     // elements of a cell; those that windows make
  Dim positions, size;     // cells of the image; its elements
  int64_t before, beyond;  // elements of cells in front of the image; of the image behind the cells, may be negative
  int64_t most;            // where that depends on the run: at most so many behind; else 0
} CellAxis;

typedef struct {
  Rules *r;
  Conv c;
  Loc loc;
  uint32_t n;  // spatial axes
  CellAxis axis[CONV_AXES];
} Cells;

// Behind the last window there is less than windows are apart.
static void read_axis(Prog *p, const Conv *c, uint32_t k, CellAxis *a) {
  int64_t taps = (c->kernel[k] - 1) * c->dilation[k] + 1, apart = c->stride[k], cells = (taps + apart - 1) / apart;
  *a = (CellAxis){.cells = cells,
                  .apart = apart,
                  .made = cells == 1 ? taps : apart,
                  .positions = ir_dim_add(p, c->out_dim[k], ir_dim(p, cells - 1)),
                  .size = c->in_dim[k],
                  .before = c->before[k]};
  Dim all = ir_dim_mul(p, a->positions, ir_dim(p, apart)), end = ir_dim_add(p, a->size, ir_dim(p, a->before));
  a->beyond = ir_dim_bound(p, end) - ir_dim_bound(p, all);
  bool is_same = end.i == ir_dim_add(p, all, ir_dim(p, a->beyond)).i;
  if (!is_same || (a->beyond > 0 && !ir_dim_is_const(p, a->size))) a->most = apart - 1;
}

// Zeros that windows are made longer with make NaN of what is infinite, where no window reaches: not of exact sums.
static bool adds_zeros(const Cells *s) {
  bool any = false;
  for (uint32_t k = 0; k < s->n; k++) {
    uint32_t axis = CONV_AXES - s->n + k;
    any |= s->c.dilation[axis] > 1 && s->c.kernel[axis] > 1;
    any |= s->axis[k].cells > 1 && s->c.kernel[axis] % s->axis[k].apart;
  }
  return any;
}

// Groups of the same few channels of x and y fill vectors by themselves (codegen/conv/depthwise.h).
static bool fills_vectors(const Conv *c) {
  int64_t channels = c->c / c->groups;
  return c->groups > 1 && c->c == c->o && channels < LANES && LANES % channels == 0;
}

// By products for an element of the image. The convolution's own kernel sums whole vectors of channels.
static bool is_faster(const Cells *s) {
  const Conv *c = &s->c;
  int64_t channels = c->c / c->groups, lanes = (channels + LANES - 1) / LANES * LANES;
  double own = (double)(c->o / c->groups), made = own;
  for (uint32_t k = 0; k < s->n; k++) {
    double apart = (double)s->axis[k].apart;
    own *= (double)c->kernel[CONV_AXES - s->n + k] / apart;
    made *= (double)(s->axis[k].cells * s->axis[k].made) / apart;
  }
  return (double)channels * (made + MOVED) < (double)lanes * (own + BEGUN) && !fills_vectors(c);
}

static bool reads_cells(Rules *r, Val v, Cells *s) {
  *s = (Cells){.r = r, .loc = ir_ins(r->f, v)->loc};
  ir_conv(r->f, v, &s->c);
  const Conv *c = &s->c;
  if (c->channels_first || c->stride[0] * c->stride[1] * c->stride[2] <= FEW_PHASES) return false;
  s->n = c->rank;
  for (uint32_t k = 0; k < s->n; k++) read_axis(r->p, c, CONV_AXES - s->n + k, &s->axis[k]);
  return is_faster(s) && (!adds_zeros(s) || !(r->p->sums_exactly || c->algorithm == CONV_EXACT));
}

static Val reshaped(const Cells *s, Val v, const Dim *d, uint32_t rank) {
  return ir_reshaped(s->r->f, v, ir_shape(s->r->p, d, rank), s->loc);
}

static Dim dim(const Cells *s, int64_t n) { return ir_dim(s->r->p, n); }

// All of v, but along `axes` of its axes from `first` on as many elements as `to` says: the first ones, or zeros behind them.
static Val resized(const Cells *s, Val v, uint32_t first, uint32_t axes, uint32_t apart, const int64_t *to) {
  Fn *f = s->r->f;
  Shape shape = ir_ins(f, v)->shape;
  Crop part = {0};
  bool is_same = true;
  for (uint32_t k = 0; k < ir_rank(s->r->p, shape); k++) part.step[k] = 1, part.size[k] = ir_dim_at(s->r->p, shape, k);
  for (uint32_t k = 0; k < axes; k++) {
    uint32_t axis = first + k * apart;
    int64_t n = ir_dim_bound(s->r->p, part.size[axis]);
    part.behind[axis] = to[k] > n ? to[k] - n : 0, part.size[axis] = dim(s, to[k]);
    is_same &= to[k] == n;
  }
  return is_same ? v : ir_emit_crop(f, v, &part, s->loc);
}

// weight [O, C, taps..], with zeros between taps that lie apart, and behind them: whole cells
static Val whole_cells(const Cells *s, Val weight) {
  const Conv *c = &s->c;
  uint32_t n = s->n, of = CONV_AXES - n;
  Dim apart[MAX_RANK] = {dim(s, c->o), dim(s, c->c / c->groups)}, wide[MAX_RANK] = {apart[0], apart[1]};
  int64_t to[CONV_AXES] = {0};
  for (uint32_t k = 0; k < n; k++) {
    apart[2 + 2 * k] = dim(s, c->kernel[of + k]), apart[3 + 2 * k] = dim(s, 1);
    wide[2 + k] = dim(s, c->kernel[of + k] * c->dilation[of + k]);
    to[k] = c->dilation[of + k];
  }
  weight = resized(s, reshaped(s, weight, apart, 2 + 2 * n), 3, n, 2, to);
  for (uint32_t k = 0; k < n; k++) to[k] = s->axis[k].cells * s->axis[k].made;
  return resized(s, reshaped(s, weight, wide, 2 + n), 2, n, 1, to);
}

// As [O, C made.., cells..]
static Val weight_of_cells(const Cells *s, Val weight) {
  const Conv *c = &s->c;
  uint32_t n = s->n;
  int64_t list[MAX_RANK] = {0, 1}, channels = c->c / c->groups;
  Dim apart[MAX_RANK] = {dim(s, c->o), dim(s, channels)}, to[MAX_RANK] = {apart[0]};
  for (uint32_t k = 0; k < n; k++) {
    apart[2 + 2 * k] = to[2 + k] = dim(s, s->axis[k].cells), apart[3 + 2 * k] = dim(s, s->axis[k].made);
    list[2 + k] = 3 + 2 * k, list[2 + n + k] = 2 + 2 * k;
    channels *= s->axis[k].made;
  }
  to[1] = dim(s, channels);
  weight = ir_permuted(s->r->f, reshaped(s, whole_cells(s, weight), apart, 2 + 2 * n),
                       ir_shape_ints(s->r->p, list, 2 + 2 * n), s->loc);
  return reshaped(s, weight, to, 2 + n);
}

// y [N, positions.., O] -> [N, cells.., C made..]
static Val cells_of(const Cells *s, Val y, Val weight, Val was) {
  Prog *p = s->r->p;
  int64_t ones[2 * CONV_AXES] = {1, 1, 1}, zeros[2 * CONV_AXES] = {0};
  Dim size[CONV_AXES] = {0};
  for (uint32_t k = 0; k < s->n; k++) size[k] = s->axis[k].positions;
  Attr attrs[] = {
      ir_a_list(KEY_stride, ir_shape_ints(p, ones, s->n)),   ir_a_list(KEY_pad, ir_shape_ints(p, zeros, 2 * s->n)),
      ir_a_list(KEY_dilation, ir_shape_ints(p, ones, s->n)), ir_a_int(KEY_groups, s->c.groups),
      ir_a_list(KEY_shape, ir_shape(p, size, s->n)),         {0}};
  const Attr *algorithm = ir_attr(s->r->f, was, KEY_algorithm);
  if (algorithm) attrs[5] = *algorithm;
  Val z = ir_emit(s->r->f, OP_conv_transpose, (Val[]){y, weight}, 2, attrs, algorithm ? 6 : 5, s->loc);
  ir_copy_origin(ir_ins(s->r->f, z), ir_ins(s->r->f, was));
  return z;
}

// With so many zeros behind it along an axis, of a size of the run
static Val longer(const Cells *s, Val image, uint32_t axis, int64_t zeros) {
  Fn *f = s->r->f;
  Dim d[MAX_RANK];
  uint32_t rank = ir_rank(s->r->p, ir_ins(f, image)->shape);
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(s->r->p, ir_ins(f, image)->shape, k);
  d[axis] = dim(s, zeros);
  Attr full[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_shape(s->r->p, d, rank))},
       along = ir_a_int(KEY_axis, axis);
  Val of[] = {image, ir_emit(f, OP_full, NULL, 0, full, 2, s->loc)};
  return ir_emit(f, OP_concat, of, 2, &along, 1, s->loc);
}

// The image's part of whole cells along spatial axis k, with zeros where no window reaches it
static Val part_of(const Cells *s, Val image, uint32_t k) {
  Fn *f = s->r->f;
  const CellAxis *a = &s->axis[k];
  int64_t zeros = a->most || a->beyond < 0 ? 0 : a->beyond;
  Attr axis = ir_a_int(KEY_axis, 1 + k);
  if (a->most) image = longer(s, image, 1 + k, a->most);
  if (a->before || a->beyond < 0 || a->most) {
    Dim count = ir_dim_sub(s->r->p, a->size, dim(s, zeros));
    Attr part[] = {axis, ir_a_dim(KEY_start, dim(s, a->before)), ir_a_dim(KEY_count, count)};
    image = ir_emit(f, OP_slice, &image, 1, part, 3, s->loc);
  }
  Attr wide[] = {axis, ir_a_dim(KEY_start, dim(s, 0)), ir_a_int(KEY_size, ir_dim_bound(s->r->p, a->size))};
  return zeros ? ir_emit(f, OP_pad_axis, &image, 1, wide, 3, s->loc) : image;
}

// Cells as an image [N, spatial.., C]
static Val image_of(const Cells *s, Val cells) {
  uint32_t n = s->n, rank = 2 + 2 * n;
  int64_t list[MAX_RANK] = {0}, apart[CONV_AXES] = {0};
  Dim of[MAX_RANK] = {s->c.n}, to[MAX_RANK] = {s->c.n};
  of[1 + n] = to[1 + n] = dim(s, s->c.c);
  list[1 + 2 * n] = 1 + n;
  for (uint32_t k = 0; k < n; k++) {
    const CellAxis *a = &s->axis[k];
    of[1 + k] = a->positions, of[2 + n + k] = dim(s, a->made), apart[k] = a->apart;
    to[1 + k] = ir_dim_mul(s->r->p, a->positions, dim(s, a->apart));
    list[1 + 2 * k] = 1 + k, list[2 + 2 * k] = 2 + n + k;
  }
  cells = resized(s, reshaped(s, cells, of, rank), 2 + n, n, 1, apart);
  Val image = reshaped(s, ir_permuted(s->r->f, cells, ir_shape_ints(s->r->p, list, rank), s->loc), to, 2 + n);
  for (uint32_t k = 0; k < n; k++) image = part_of(s, image, k);
  return image;
}

Val rule_cells(Rules *r, Val v) {
  Cells s;
  if (!reads_cells(r, v, &s)) return (Val){0};
  Val z = cells_of(&s, ir_arg(r->f, v, 0), weight_of_cells(&s, ir_arg(r->f, v, 1)), v), x = image_of(&s, z);
  ir_copy_metadata(ir_ins(r->f, x), ir_ins(r->f, v));
  return x;
}
