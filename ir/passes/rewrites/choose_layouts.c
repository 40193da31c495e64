// Pass choose_layouts: images have channels last, since products want them so; where no product is near, they stay first.
//
//   %1 = permute %x {perm=[0,2,3,1]}                          x [N, C, H, W]
//   %2 = sum_pool %1 {..}                   ->                %1 = reshape %x {shape=[N*C,H,W,1]}
//   %3 = relu %2                                              %2 = sum_pool %1 {..}
//   %y = permute %3 {perm=[0,3,1,2]}                          %3 = reshape %2 {shape=[N,C,..]}      %y = relu %3
//
// Pools and resizes do not mix channels: with channels first they see N * C images of one channel, for which their kernels
// have vectors along the last axis (ir/pool.h). Convolutions of groups of one channel have kernels for either layout
// (ir/conv.h), and so have those of few channels, or of windows further apart. A product with the channels of each pixel, such as a
// convolution of one tap, has an image as either operand:
//
//   %y = linear %x, %w   ->   matmul %w, %x      x [N, C, pixels]       its gradients likewise, over images as rows [N pixels, C]
//
// Where these rows are the windows that tile an image (rules_patch.c), it becomes the convolution again: that reads planes.
//
// What is pointwise takes any layout; so do rows along the channels, where pixels are many, whose weights become pointwise:
//
//   %y, %m, %r = layer_norm %x, %w   ->   %u, %m, %r = layer_norm %x {axis=1}     %y = mul %u, (reshape %w : f32[c,1,1])
//
// Instructions of these kinds that read each other, or one permutation, are
// a group; all of it changes its layout if that makes the permutations around it smaller, in bytes. A group has a pool or a product,
// or something pointwise or of rows of a permutation that puts channels last.
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/passes/rewrites/rules.h"
#include "ir/pool.h"
#include "ir/rewrite.h"

enum { LEAST_WIDTH = 4, LEAST_PIXELS = 128 };      // of a product with channels first
enum { FEW_CHANNELS = 16, LANES = FEW_CHANNELS };  // of an image; of vectors: the target is not known here
enum { LEAST_ROW = 48 };                           // elements of a row of windows

typedef enum {
  FIXED,
  ALONG,
  CORE
} Kind;  // of no group; in a group, if it has a core; a pool, a convolution, a product

typedef struct {
  Rewrite e;
  Fn *f;
  Prog *p;
  UseLists uses;
  uint8_t *kind;    // by old value
  uint32_t *group;  // by old value: another one of its group, itself at the root
  int64_t *saved;   // by root: bytes of permutations that are not made if it changes, less those that are
  bool *has_core;   // by root
  bool *changes;    // by old value: it has channels first from here on
  bool *read_last;  // by old value: somebody who does not change reads it
  bool *makes_first, *makes_last;  // by old value: it is a permutation of channels
  Conv **mirrored;                 // by old value: the convolution that a transposed one becomes; NULL
  // by old value: the new one with channels first, [N, C, S..] or, of products and what is pointwise of them, [N, C, pixels];
  // 0: not made
  Val *first;
} Layouts;

static const Ins *ins_at(const Layouts *l, uint32_t v) { return &l->f->ins[v]; }
static uint32_t rank_of(const Layouts *l, Val v) { return ir_rank(l->p, ir_ins(l->f, v)->shape); }

// ---- groups
static uint32_t root_of(Layouts *l, uint32_t v) {
  while (l->group[v] != v) v = l->group[v] = l->group[l->group[v]];
  return v;
}

static void unite(Layouts *l, uint32_t a, uint32_t b) {
  a = root_of(l, a), b = root_of(l, b);
  l->group[b] = a;
  l->has_core[a] |= l->has_core[b];
}

// Do all who read v, through what is pointwise, put its channels first?
static bool is_read_first(const Layouts *l, Val v, uint32_t depth) {
  enum { MOST = 8 };
  bool any = false;
  for (uint32_t k = l->uses.first[v.i]; k < l->uses.first[v.i + 1]; k++) {
    Val user = {l->uses.user[k]};
    bool passes =
        ir_ops[ir_ins(l->f, user)->op].is_pointwise && ir_ins(l->f, user)->shape.i == ir_ins(l->f, v)->shape.i;
    if (!ir_moves_channels(l->f, user, true) && !(passes && depth < MOST && is_read_first(l, user, depth + 1)))
      return false;
    any = true;
  }
  return any;
}

// Groups of one channel; or of more, between two permutations, where vectors of pixels are at least as fast as those of
// channels: few channels, groups whose channels do not fill vectors, or windows further apart. Few pixels would read all
// weights for little.
static bool has_planes(const Layouts *l, Val v, Conv c) {
  if (c.groups == c.c && c.groups == c.o) return true;
  if (ir_ins(l->f, v)->op == OP_conv_transpose && ir_mirror_conv(l->p, &c)) {
    l->mirrored[v.i] = rt_alloc(l->p->mem, sizeof c);
    *l->mirrored[v.i] = c;
  } else if (ir_ins(l->f, v)->op != OP_conv) {
    return false;
  }
  bool pixels = c.out[0] * c.out[1] * c.out[2] >= LEAST_PIXELS;
  bool far = c.stride[0] * c.stride[1] * c.stride[2] > 1 && c.dilation[2] == 1;  // holes are lanes between rows
  bool few = c.c < FEW_CHANNELS || (c.groups > 1 && c.o / c.groups % LANES);
  if (c.run_sized || !pixels || !(far || few)) return false;
  return (c.c == 1 || ir_moves_channels(l->f, ir_arg(l->f, v, 0), false)) && is_read_first(l, v, 0);
}

static bool takes_channels_first(const Layouts *l, Val v) {
  Conv c;
  ir_conv(l->f, v, &c);
  bool is_wide = c.in[2] >= LEAST_WIDTH && c.out[2] >= LEAST_WIDTH, by_one = c.groups == c.c && c.groups == c.o;
  return !c.channels_first && is_wide && c.algorithm == CONV_AUTO && has_planes(l, v, c) &&
         c.stride[2] <= (by_one ? CONV_PLANES_STRIDE : CONV_FIRST_STRIDE) && c.kernel[2] <= CONV_FIRST_TAPS;
}

static uint32_t axes_of(const Layouts *l, Shape axes) {
  uint32_t seen = 0;
  for (uint32_t k = 0; k < ir_rank(l->p, axes); k++) seen |= 1u << ir_list_at(l->p, axes, k);
  return seen;
}

// A reduction over all spatial axes, and maybe others, has the same result in both layouts.
static bool sums_pixels(const Layouts *l, Val v) {
  const Ins *ins = ir_ins(l->f, v);
  uint32_t rank;
  if (ins->op != OP_sum && ins->op != OP_mean && ins->op != OP_amax) return false;
  if (ir_attr(l->f, v, KEY_keepdim) || (rank = rank_of(l, ir_arg(l->f, v, 0))) < 3) return false;
  uint32_t spatial = (1u << (rank - 1)) - 2;
  return (axes_of(l, ir_attr(l->f, v, KEY_axes)->u.list) & spatial) == spatial;
}

// ---- products with the channels of pixels
static Dim dim_at(const Layouts *l, Val v, uint32_t axis) { return ir_dim_at(l->p, ir_ins(l->f, v)->shape, axis); }
static Dim last_dim(const Layouts *l, Val v) { return dim_at(l, v, rank_of(l, v) - 1); }

// The image of which v is the pixels' rows; none: it is no such reshape.
static Val image_of_rows(const Layouts *l, Val v) {
  Val a = ir_ins(l->f, v)->op == OP_reshape ? ir_arg(l->f, v, 0) : (Val){0};
  bool is_rows = !ir_none(a) && rank_of(l, v) == 2 && rank_of(l, a) > 2 && last_dim(l, a).i == last_dim(l, v).i;
  return is_rows ? a : (Val){0};
}

static bool has_many_pixels(const Layouts *l, Val image) {
  int64_t n = 1;
  for (uint32_t k = 1; k + 1 < rank_of(l, image); k++) n *= ir_dim_bound(l->p, dim_at(l, image, k));
  return n >= LEAST_PIXELS;
}

static bool have_same_pixels(const Layouts *l, Val a, Val b) {
  bool same = rank_of(l, a) == rank_of(l, b);
  for (uint32_t k = 0; same && k + 1 < rank_of(l, a); k++) same = dim_at(l, a, k).i == dim_at(l, b, k).i;
  return same;
}

// The image that operand 0 of a product is, or whose rows it is; none: it is another product.
static Val image_of_product(const Layouts *l, Val v) {
  const Ins *ins = ir_ins(l->f, v);
  if ((ins->op != OP_linear && ins->op != OP_matmul) || ins->dtype != DT_F32 || ins->n_args != 2) return (Val){0};
  Val a = ir_arg(l->f, v, 0), b = ir_arg(l->f, v, 1), image = ins->op == OP_linear ? a : image_of_rows(l, a);
  if (ir_none(image) || rank_of(l, image) < 3 || rank_of(l, b) != 2 || !has_many_pixels(l, image)) return (Val){0};
  if (!ir_attr(l->f, v, KEY_ta)) return image;
  Val other = ir_attr(l->f, v, KEY_tb) ? (Val){0} : image_of_rows(l, b);
  return !ir_none(other) && have_same_pixels(l, image, other) ? image : (Val){0};
}

// The image with channels first whose windows `rows` has, where a convolution that reads planes takes its place; none
static Val tiled_image(const Layouts *l, Val rows, Dim *kernel) {
  Val image = ir_tiled_image(l->f, rows, kernel);
  if (ir_none(image) || !has_many_pixels(l, rows)) return (Val){0};
  uint32_t last = rank_of(l, rows) - 2;
  bool is_wide = ir_dim_bound(l->p, dim_at(l, rows, last)) >= LEAST_WIDTH;
  return is_wide && ir_dim_bound(l->p, kernel[last - 1]) <= CONV_FIRST_STRIDE ? image : (Val){0};
}

static bool reads_tiles(const Layouts *l, Val v, Val a) {
  Dim kernel[CONV_AXES];
  return ir_ins(l->f, v)->op == OP_linear && ir_arg(l->f, v, 0).i == a.i && !ir_none(tiled_image(l, a, kernel));
}

// Is it the gradient of the weight of such a product?
static bool sums_products(const Layouts *l, Val v) {
  return ir_ins(l->f, v)->op == OP_matmul && ir_attr(l->f, v, KEY_ta) && !ir_none(image_of_product(l, v));
}

// A reshape of an image to its rows, or of rows that a product makes to the image.
static bool reshapes_rows(const Layouts *l, Val v) {
  if (!ir_none(image_of_rows(l, v))) return true;
  Val a = ir_ins(l->f, v)->op == OP_reshape ? ir_arg(l->f, v, 0) : (Val){0};
  if (ir_none(a) || rank_of(l, a) != 2 || ir_attr(l->f, a, KEY_ta)) return false;
  Val image = image_of_product(l, a);
  return !ir_none(image) && have_same_pixels(l, image, v) && last_dim(l, v).i == last_dim(l, a).i;
}

// A row op along the channels, whose rows may lie side by side, too.
static bool goes_along_channels(const Layouts *l, Val v) {
  const Ins *ins = ir_ins(l->f, v);
  uint32_t rank = rank_of(l, v);
  if (!(ir_ops[ins->op].flags & ROW_AXIS) || ir_attr(l->f, v, KEY_axis) || rank < 3) return false;
  Dim d[3] = {dim_at(l, v, 0), last_dim(l, v), dim_at(l, v, 1)};
  for (uint32_t k = 2; k + 1 < rank; k++) d[2] = ir_dim_mul(l->p, d[2], dim_at(l, v, k));
  return ir_row_is_strided(l->p, (RowSpace){ir_shape(l->p, d, 3), 1});
}

// Elements that a row of windows is made of
static int64_t elements_of_row(const Layouts *l, Val v) {
  Pool p;
  int64_t elements = 1, rows = 1;
  ir_pool(l->f, v, &p);
  for (uint32_t k = 0; k < POOL_AXES; k++) elements *= ir_dim_bound(l->p, p.in[k]);
  for (uint32_t k = 0; k + 1 < POOL_AXES; k++) rows *= ir_dim_bound(l->p, p.out[k]);
  return elements / (rows > 1 ? rows : 1);
}

// Pools of small steps have lanes along the last axis; of others a row of windows is a lane, which short ones do not pay for, and
// gradients of maxima go to places, one by one.
static bool is_fast_by_planes(const Layouts *l, Val v) {
  const Ins *ins = ir_ins(l->f, v);
  PoolColumns columns;
  if (ir_pool_columns(l->f, v, l->p->mem, &columns))
    return ir_dim_bound(l->p, ir_dim_at(l->p, ins->shape, rank_of(l, v) - 2)) >= LEAST_WIDTH;
  return (ins->op == OP_max_pool || ins->op == OP_sum_pool || ins->op == OP_max_pool_grad) &&
         elements_of_row(l, v) >= LEAST_ROW;
}

static Kind kind_of(const Layouts *l, Val v) {
  const Ins *ins = ir_ins(l->f, v);
  if (ins->op == OP_result) return FIXED;
  if (!ir_none(image_of_product(l, v))) return CORE;
  if (reshapes_rows(l, v)) return ALONG;
  if (ir_is_conv((Op)ins->op)) return takes_channels_first(l, v) ? CORE : FIXED;
  if (sums_pixels(l, v) || goes_along_channels(l, v)) return ALONG;
  if (ir_ops[ins->op].cls == CLASS_POOL) return is_fast_by_planes(l, v) ? CORE : FIXED;
  // `full` has its shape as an attribute, and no image that could be changed.
  bool moves = ir_ops[ins->op].is_pointwise && !(ir_ops[ins->op].flags & (RANDOM | WRITES | EFFECT));
  return moves && ins->n_args && ins->n_res == 1 && rank_of(l, v) > 2 ? ALONG : FIXED;
}

static uint32_t head_of(const Layouts *l, Val v) { return ir_head(l->f, v).i; }

// The gradient of a weight is none, nor a sum over pixels, nor are numbers of rows.
static bool makes_image(const Layouts *l, Val v) {
  if (ir_ins(l->f, v)->shape.i != ir_ins(l->f, ir_head(l->f, v))->shape.i || sums_products(l, v)) return false;
  return ir_ins(l->f, v)->op != OP_conv_weight_grad && ir_ops[ir_ins(l->f, v)->op].cls != CLASS_REDUCE;
}

// Is operand a of v an image? Others are weights, or broadcast.
static bool is_image(const Layouts *l, Val v, Val a) {
  if (!makes_image(l, v)) return true;
  if (reshapes_rows(l, v)) return true;
  if (ir_is_conv((Op)ir_ins(l->f, v)->op) || !ir_none(image_of_product(l, v))) return ir_arg(l->f, v, 0).i == a.i;
  return l->kind[v.i] == CORE || ir_ins(l->f, a)->shape.i == ir_ins(l->f, v)->shape.i;
}

// Something pointwise, or of rows, that reads a permutation which puts channels last: rule pointwise_of_image leaves it to this pass.
static bool puts_last(const Layouts *l, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(l->f, v)->op];
  bool found = false, reads = op->is_pointwise || op->cls == CLASS_ROW;
  for (uint32_t k = 0; reads && l->kind[v.i] == ALONG && k < ir_ins(l->f, v)->n_args; k++)
    found |= ir_moves_channels(l->f, ir_arg(l->f, v, k), false);
  return found;
}

static void find_groups(Layouts *l) {
  for (uint32_t i = 1; i < l->f->n_ins; i++) {
    l->group[i] = i, l->kind[i] = (uint8_t)kind_of(l, (Val){i});
    l->makes_first[i] = ir_moves_channels(l->f, (Val){i}, true),
    l->makes_last[i] = ir_moves_channels(l->f, (Val){i}, false);
    l->has_core[i] = l->kind[i] == CORE || puts_last(l, (Val){i});
    for (uint32_t k = 0; l->kind[i] && k < ins_at(l, i)->n_args; k++) {
      Val a = ir_arg(l->f, (Val){i}, k);
      if (!is_image(l, (Val){i}, a)) continue;
      if (l->kind[head_of(l, a)] && makes_image(l, a)) unite(l, head_of(l, a), i);
      else if (l->makes_last[a.i] && l->group[a.i] != a.i) unite(l, l->group[a.i], i);
      else if (l->makes_last[a.i]) l->group[a.i] = i;  // its readers are one group
    }
  }
}

static bool is_in(Layouts *l, Val v, uint32_t root) {
  return l->kind[head_of(l, v)] && root_of(l, head_of(l, v)) == root;
}
static bool is_made_in(Layouts *l, Val v, uint32_t root) { return makes_image(l, v) && is_in(l, v, root); }
static bool reads_image(Layouts *l, Val user, Val v, uint32_t root) {
  return is_in(l, user, root) && is_image(l, user, v);
}

static int64_t bytes_of(const Layouts *l, Val v) {
  return ir_shape_bound(l->p, ir_ins(l->f, v)->shape) * ir_dtype_bytes[ir_ins(l->f, v)->dtype];
}

// ---- what a change saves
// An operand from outside: a permutation that only the group reads goes; of another value there is a new one. The first reader
// of the group counts it.
static int64_t saved_by_operand(Layouts *l, Val a, Val reader, uint32_t root) {
  bool is_only = true;
  for (uint32_t k = l->uses.first[a.i]; k < l->uses.first[a.i + 1]; k++) {
    Val user = {l->uses.user[k]};
    if (!reads_image(l, user, a, root)) is_only = false;
    else if (user.i < reader.i) return 0;
  }
  if (l->makes_last[a.i] || reads_tiles(l, reader, a)) return is_only ? bytes_of(l, a) : 0;
  return -bytes_of(l, a);
}

static int64_t saved_by_result(Layouts *l, Val v, uint32_t root) {
  int64_t saved = 0;
  bool is_read_last = false;
  for (uint32_t k = l->uses.first[v.i]; k < l->uses.first[v.i + 1]; k++) {
    Val user = {l->uses.user[k]};
    if (reads_image(l, user, v, root)) continue;
    if (l->makes_first[user.i]) saved = bytes_of(l, v);
    else is_read_last = true;
  }
  return is_read_last ? saved - bytes_of(l, v) : saved;
}

// A weight's gradient has a product for each image before these are added.
static int64_t bytes_of_products(const Layouts *l, Val v) {
  int64_t images = sums_products(l, v) ? ir_dim_bound(l->p, dim_at(l, image_of_product(l, v), 0)) : 0;
  return images > 1 ? images * bytes_of(l, v) : 0;
}

static void add_savings(Layouts *l) {
  for (uint32_t i = 1; i < l->f->n_ins; i++) {
    uint32_t root = root_of(l, i);
    if (!l->kind[i] || !l->has_core[root]) continue;
    l->saved[root] -= bytes_of_products(l, (Val){i});
    for (uint32_t k = 0; k < ins_at(l, i)->n_args; k++) {
      Val a = ir_arg(l->f, (Val){i}, k);
      if (is_image(l, (Val){i}, a) && !is_made_in(l, a, root)) l->saved[root] += saved_by_operand(l, a, (Val){i}, root);
    }
    for (uint32_t k = 0; k < ins_at(l, i)->n_res; k++)
      if (makes_image(l, (Val){i + k})) l->saved[root] += saved_by_result(l, (Val){i + k}, root);
  }
}

// Does any group change?
static bool choose(Layouts *l) {
  bool any = false;
  for (uint32_t i = 1; i < l->f->n_ins; i++) {
    uint32_t root = l->kind[i] ? root_of(l, i) : 0;
    if (!root || !l->has_core[root] || l->saved[root] <= 0) continue;
    any = true;
    for (uint32_t k = 0; k < ins_at(l, i)->n_res; k++) {
      Val v = {i + k};
      l->changes[v.i] = k == 0 || makes_image(l, v);
      for (uint32_t u = l->uses.first[v.i]; u < l->uses.first[v.i + 1]; u++) {
        Val user = {l->uses.user[u]};
        l->read_last[v.i] |= makes_image(l, v) && !l->makes_first[user.i] && !reads_image(l, user, v, root);
      }
    }
  }
  return any;
}

// ---- new instructions
static Val reshaped(Layouts *l, Val a, Shape to, Loc loc) {
  while (ir_ins(l->f, a)->shape.i != to.i && ir_ins(l->f, a)->op == OP_reshape) a = ir_arg(l->f, a, 0);
  return ir_reshaped(l->f, a, to, loc);
}

static Val permuted(Layouts *l, Val a, uint32_t (*axis)(uint32_t, uint32_t), Loc loc) {
  uint32_t rank = rank_of(l, a);
  int64_t list[MAX_RANK];
  Dim d[MAX_RANK];
  bool is_one = ir_dim_is_one(l->p, dim_at(l, a, axis(rank, 1)));  // channel, which lies first and last
  for (uint32_t k = 0; k < rank; k++) list[k] = axis(rank, k), d[k] = dim_at(l, a, axis(rank, k));
  if (is_one && axis == ir_axis_in_first) return reshaped(l, a, ir_shape(l->p, d, rank), loc);
  return ir_permuted(l->f, a, ir_shape_ints(l->p, list, rank), loc);
}

static const Ins *old_at(const Layouts *l, Val old) { return &l->e.old[old.i]; }

// The new value of an old image, with channels first.
static Val first_of(Layouts *l, Val old, Loc loc) {
  Val *first = &l->first[old.i];
  if (ir_none(*first)) *first = permuted(l, l->e.map[old.i], ir_axis_in_first, loc);
  return *first;
}

static Val image_of(Layouts *l, Val old, Loc loc) {
  Shape s = old_at(l, old)->shape;
  uint32_t rank = ir_rank(l->p, s);
  Dim d[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(l->p, s, ir_axis_in_first(rank, k));
  return reshaped(l, first_of(l, old, loc), ir_shape(l->p, d, rank), loc);
}

// [N, C, pixels]
static Val pixels_of(Layouts *l, Val old, Loc loc) {
  Val first = first_of(l, old, loc);
  Shape s = ir_ins(l->f, first)->shape;
  Dim d[3] = {ir_dim_at(l->p, s, 0), ir_dim_at(l->p, s, 1), ir_dim(l->p, 1)};
  for (uint32_t k = 2; k < ir_rank(l->p, s); k++) d[2] = ir_dim_mul(l->p, d[2], ir_dim_at(l->p, s, k));
  return reshaped(l, first, ir_shape(l->p, d, 3), loc);
}

// [N, C, S..] -> [N * C, S.., 1], and back
static Shape planes(Layouts *l, Shape s) {
  uint32_t rank = ir_rank(l->p, s);
  Dim d[MAX_RANK] = {ir_dim_mul(l->p, ir_dim_at(l->p, s, 0), ir_dim_at(l->p, s, 1))};
  for (uint32_t k = 2; k < rank; k++) d[k - 1] = ir_dim_at(l->p, s, k);
  d[rank - 1] = ir_dim(l->p, 1);
  return ir_shape(l->p, d, rank);
}

static Shape images(Layouts *l, Shape planes, Dim n, Dim channels) {
  uint32_t rank = ir_rank(l->p, planes);
  Dim d[MAX_RANK] = {n, channels};
  for (uint32_t k = 2; k < rank; k++) d[k] = ir_dim_at(l->p, planes, k - 1);
  return ir_shape(l->p, d, rank);
}

// The old instruction with these operands, under its name.
static Val emit_like(Layouts *l, const Ins *ins, const Val *of, const Attr *change) {
  Val v = ir_emit_like(l->f, ins, of, change);
  ir_copy_metadata(ir_ins(l->f, v), ins);
  return v;
}

static void emit_pool(Layouts *l, Val old) {
  const Ins ins = *old_at(l, old);
  Dim n = ir_dim_at(l->p, ins.shape, 0), channels = ir_dim_at(l->p, ins.shape, ir_rank(l->p, ins.shape) - 1);
  Val of[2];
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = image_of(l, ir_rewrite_old_arg(&l->e, old, k), ins.loc);
    of[k] = reshaped(l, a, planes(l, ir_ins(l->f, a)->shape), ins.loc);
  }
  Val v = emit_like(l, &ins, of, NULL);
  for (uint32_t k = 0; k < ins.n_res; k++) {
    Val own = ir_result(v, k);
    l->first[old.i + k] = reshaped(l, own, images(l, ir_ins(l->f, own)->shape, n, channels), ins.loc);
  }
}

static void emit_mirrored(Layouts *l, Val old, Val image, Val weight) {
  const Ins ins = *old_at(l, old);
  Attr attrs[8];
  uint32_t n = ir_conv_attrs(l->p, l->mirrored[old.i], attrs);
  attrs[n++] = ir_a_int(KEY_first, 1);
  Val of[] = {image, ir_mirrored_weight(l->f, weight, l->mirrored[old.i]->groups, ins.loc)};
  l->first[old.i] = ir_emit(l->f, OP_conv, of, 2, attrs, n, ins.loc);
  ir_copy_metadata(ir_ins(l->f, l->first[old.i]), &ins);
}

static void emit_conv(Layouts *l, Val old) {
  const Ins ins = *old_at(l, old);
  Attr first = ir_a_int(KEY_first, 1);
  Val of[2];
  for (uint32_t k = 0; k < 2; k++) {
    Val a = ir_rewrite_old_arg(&l->e, old, k);
    bool is_weight = k == 1 && ins.op != OP_conv_weight_grad;
    of[k] = is_weight ? l->e.map[a.i] : image_of(l, a, ins.loc);
  }
  if (l->mirrored[old.i]) {
    emit_mirrored(l, old, of[0], of[1]);
    return;
  }
  l->first[old.i] = l->e.map[old.i] =
      emit_like(l, &ins, of, &first);  // as the latter it is read if it is the gradient of a weight
}

static Val emit_matmul(Layouts *l, Val a, Val b, Key transposes, const Ins *like) {
  Attr attr = ir_a_int(transposes, 1);
  Val v = ir_emit(l->f, OP_matmul, (Val[]){a, b}, 2, &attr, transposes != N_KEYS, like->loc);
  ir_copy_origin(ir_ins(l->f, v), like);
  return v;
}

static void emit_weight_gradient(Layouts *l, Val old, const Ins *ins) {
  Val of[2];
  for (uint32_t k = 0; k < 2; k++) of[k] = pixels_of(l, ir_rewrite_old_arg(&l->e, old, k), ins->loc);
  Val v = emit_matmul(l, of[0], of[1], KEY_tb, ins);
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(l->p, (int64_t[]){0}, 1));
  bool is_one = ir_dim_is_one(l->p, ir_dim_at(l->p, ir_ins(l->f, v)->shape, 0));
  v = is_one ? reshaped(l, v, ins->shape, ins->loc) : ir_emit(l->f, OP_sum, &v, 1, &axes, 1, ins->loc);
  ir_copy_metadata(ir_ins(l->f, v), ins);
  l->e.map[old.i] = v;
}

// A product of windows that tile an image with channels first: the convolution that it stands for.
static bool emit_tiles(Layouts *l, Val old, const Ins *ins) {
  Dim kernel[CONV_AXES], weight[MAX_RANK] = {ir_dim_at(l->p, ins->shape, ir_rank(l->p, ins->shape) - 1)};
  Val x = tiled_image(l, l->e.map[ir_rewrite_old_arg(&l->e, old, 0).i], kernel);
  if (ins->op != OP_linear || ir_none(x)) return false;
  uint32_t n = rank_of(l, x) - 2;
  weight[1] = dim_at(l, x, 1);
  for (uint32_t k = 0; k < n; k++) weight[2 + k] = kernel[k];
  Val w = l->e.map[ir_rewrite_old_arg(&l->e, old, 1).i];
  Attr attr[] = {ir_a_list(KEY_stride, ir_shape(l->p, kernel, n)), ir_a_int(KEY_first, 1)};
  Val of[] = {x, reshaped(l, w, ir_shape(l->p, weight, n + 2), ins->loc)};
  l->first[old.i] = ir_emit(l->f, OP_conv, of, 2, attr, 2, ins->loc);
  ir_copy_metadata(ir_ins(l->f, l->first[old.i]), ins);
  return true;
}

static void emit_product(Layouts *l, Val old) {
  const Ins ins = *old_at(l, old);
  if (emit_tiles(l, old, &ins)) return;
  bool ta = false, tb = ins.op == OP_linear;
  for (uint32_t k = 0; k < ins.n_attrs; k++)
    ta |= l->f->attrs[ins.attrs + k].key == KEY_ta, tb |= l->f->attrs[ins.attrs + k].key == KEY_tb;
  if (ta) {
    emit_weight_gradient(l, old, &ins);
    return;
  }
  Val x = pixels_of(l, ir_rewrite_old_arg(&l->e, old, 0), ins.loc);
  l->first[old.i] = emit_matmul(l, l->e.map[ir_rewrite_old_arg(&l->e, old, 1).i], x, tb ? N_KEYS : KEY_ta, &ins);
  ir_copy_metadata(ir_ins(l->f, l->first[old.i]), &ins);
}

// An operand that is broadcast, whose axes are aligned at the last one.
static Val broadcast_first(Layouts *l, Val a, uint32_t rank, Loc loc) {
  Shape s = ir_ins(l->f, a)->shape;
  uint32_t own = ir_rank(l->p, s);
  Dim d[MAX_RANK];
  if (own == 0) return a;
  for (uint32_t k = 0; k < rank; k++) d[k] = k + own < rank ? ir_dim(l->p, 1) : ir_dim_at(l->p, s, k + own - rank);
  Val full = reshaped(l, a, ir_shape(l->p, d, rank), loc);
  bool keeps_order = ir_dim_is_one(l->p, d[rank - 1]);
  for (uint32_t k = 1; k + 1 < rank && !keeps_order; k++)
    if (!ir_dim_is_one(l->p, d[k])) return permuted(l, full, ir_axis_in_first, loc);
  Dim channels = d[rank - 1];
  for (uint32_t k = rank - 1; k > 1; k--) d[k] = d[k - 1];
  d[1] = channels;
  return reshaped(l, full, ir_shape(l->p, d, rank), loc);
}

// Has it, which is broadcast, one number for all pixels?
static bool is_of_channels(const Layouts *l, Val a) {
  for (uint32_t k = 1; k < rank_of(l, a); k++)
    if (!ir_dim_is_one(l->p, dim_at(l, a, k - 1))) return false;
  return true;
}

// The shape in which the image that `first` is was made, [N, C, ..]: of products [N, C, pixels], of permutations their own.
static Shape shape_made(const Layouts *l, Val first) {
  Val made = first;
  while (ir_ins(l->f, made)->op == OP_reshape) made = ir_arg(l->f, made, 0);
  bool is_other = rank_of(l, made) > 2 && (made.i == first.i || ir_ins(l->f, made)->op == OP_permute);
  for (uint32_t k = 0; is_other && k < 2; k++) is_other = dim_at(l, made, k).i == dim_at(l, first, k).i;
  return ir_ins(l->f, is_other ? made : first)->shape;
}

// A sum over all pixels.
static void emit_sum(Layouts *l, Val old) {
  const Ins ins = *old_at(l, old);
  Val image = ir_rewrite_old_arg(&l->e, old, 0), first = first_of(l, image, ins.loc);
  Val a = reshaped(l, first, shape_made(l, first), ins.loc);
  int64_t list[MAX_RANK];
  uint32_t seen = axes_of(l, ir_rewrite_old_attr(&l->e, old, KEY_axes)->u.list), n = 0;
  if (seen & 1) list[n++] = 0;
  if (seen >> (ir_rank(l->p, old_at(l, image)->shape) - 1) & 1) list[n++] = 1;
  for (uint32_t k = 2; k < rank_of(l, a); k++) list[n++] = k;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(l->p, list, n));
  l->e.map[old.i] = emit_like(l, &ins, &a, &axes);
}

// Has it, which is broadcast to an image of shape `to`, one number for all channels?
static bool is_of_pixels(const Layouts *l, Val a, Shape to) {
  uint32_t rank = ir_rank(l->p, to);
  if (rank_of(l, a) != rank || !ir_dim_is_one(l->p, dim_at(l, a, rank - 1))) return false;
  for (uint32_t k = 0; k + 1 < rank; k++)
    if (dim_at(l, a, k).i != ir_dim_at(l->p, to, k).i) return false;
  return true;
}

// The shape of numbers of pixels, beside images of shape `kept`
static Shape of_pixels(Layouts *l, Shape kept, bool keeps_axis) {
  Dim d[MAX_RANK];
  uint32_t n = 0;
  for (uint32_t k = 0; k < ir_rank(l->p, kept); k++) {
    if (k != 1) d[n++] = ir_dim_at(l->p, kept, k);
    else if (keeps_axis) d[n++] = ir_dim(l->p, 1);
  }
  return ir_shape(l->p, d, n);
}

// What is pointwise has the shape in which an operand was made, so that it can be in its kernel. None: that of the image
static Shape shape_kept(const Layouts *l, Val old) {
  const Ins *ins = old_at(l, old);
  Shape kept = {0};
  for (uint32_t k = 0; k < ins->n_args; k++) {
    Val a = ir_rewrite_old_arg(&l->e, old, k);
    bool is_same = old_at(l, a)->shape.i == ins->shape.i;
    Val now = l->e.map[a.i];
    if (!is_same && !is_of_channels(l, now) && !is_of_pixels(l, now, ins->shape)) return (Shape){0};
    if (is_same && !ir_rank(l->p, kept) && !ir_none(l->first[a.i])) kept = shape_made(l, l->first[a.i]);
  }
  return kept;
}

static void emit_pointwise(Layouts *l, Val old) {
  const Ins ins = *old_at(l, old);
  Shape kept = shape_kept(l, old);
  uint32_t rank = ir_rank(l->p, ir_rank(l->p, kept) ? kept : ins.shape);
  Val of[3];
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = ir_rewrite_old_arg(&l->e, old, k);
    bool is_same = old_at(l, a)->shape.i == ins.shape.i;
    Val now = l->e.map[a.i];
    bool is_number = !is_same && ir_rank(l->p, kept) && is_of_pixels(l, now, ins.shape);
    if (is_number) of[k] = reshaped(l, now, of_pixels(l, kept, true), ins.loc);
    else of[k] = is_same ? image_of(l, a, ins.loc) : broadcast_first(l, now, rank, ins.loc);
    if (is_same && ir_rank(l->p, kept)) of[k] = reshaped(l, of[k], kept, ins.loc);
  }
  l->first[old.i] = emit_like(l, &ins, of, NULL);
}

static Val emit_two(Layouts *l, Op op, Val a, Val b, const Ins *like) {
  Val v = ir_op2(l->f, op, a, b, like->loc);
  ir_copy_origin(ir_ins(l->f, v), like);
  return v;
}

// Operands: images, numbers of rows, weights behind them. Of a norm's gradient the last image is the one that the weight scales.
static void emit_rows(Layouts *l, Val old) {
  Ins ins = *old_at(l, old);
  Val first = first_of(l, ir_rewrite_old_arg(&l->e, old, 0), ins.loc), of[4], weight[2];
  Shape kept = shape_made(l, first);
  uint32_t n = 0, n_weights = 0;
  for (uint32_t k = 0; k < ins.n_args; k++) {
    Val a = ir_rewrite_old_arg(&l->e, old, k);
    uint32_t rank = ir_rank(l->p, old_at(l, a)->shape);
    if (rank == 1) weight[n_weights++] = broadcast_first(l, l->e.map[a.i], ir_rank(l->p, kept), ins.loc);
    else if (old_at(l, a)->shape.i == ins.shape.i) of[n++] = reshaped(l, image_of(l, a, ins.loc), kept, ins.loc);
    else of[n++] = reshaped(l, l->e.map[a.i], of_pixels(l, kept, false), ins.loc);
  }
  bool is_gradient = ins.n_res == 1;
  if (is_gradient && n_weights) of[n - 1] = emit_two(l, OP_mul, of[n - 1], weight[0], &ins);
  Attr axis = ir_a_int(KEY_axis, 1);
  ins.n_args = (uint16_t)n;
  Val v = emit_like(l, &ins, of, &axis), y = v;
  if (!is_gradient && n_weights) y = emit_two(l, OP_mul, y, weight[0], &ins);
  if (n_weights > 1) y = emit_two(l, OP_add, y, weight[1], &ins);
  l->first[old.i] = y;
  for (uint32_t k = 1; k < ins.n_res; k++) {
    Val number = {old.i + k};
    l->e.map[number.i] = reshaped(l, ir_result(v, k), old_at(l, number)->shape, ins.loc);
  }
}

// The old value, with channels last, of which first[] is made.
static Val last_of(Layouts *l, Val old, Loc loc) {
  Shape s = old_at(l, old)->shape;
  Val first = ir_rank(l->p, s) > 2 ? image_of(l, old, loc) : pixels_of(l, old, loc);
  return reshaped(l, permuted(l, first, ir_axis_in_last, loc), s, loc);
}

static void copy_or_change(Layouts *l, Val old) {
  const Ins ins = *old_at(l, old);
  if (!l->changes[old.i]) {
    Val a = ins.n_args ? ir_rewrite_old_arg(&l->e, old, 0) : (Val){0};
    bool is_first = ins.op == OP_permute && l->changes[a.i] && l->makes_first[old.i];
    if (is_first) ir_rewrite_replace(&l->e, old, image_of(l, a, ins.loc));
    else ir_rewrite_copy(&l->e, old);
    if (!l->makes_last[old.i]) return;
    bool is_kept = !l->changes[a.i] || l->read_last[a.i];
    l->first[old.i] = is_kept ? l->e.map[a.i] : last_of(l, a, ins.loc);  // of three axes it may put them first as well
    return;
  }
  if (l->kind[old.i] == CORE && ir_ops[ins.op].cls == CLASS_POOL) emit_pool(l, old);
  else if (ins.op == OP_linear || ins.op == OP_matmul) emit_product(l, old);
  else if (ins.op == OP_reshape) l->first[old.i] = first_of(l, ir_rewrite_old_arg(&l->e, old, 0), ins.loc);
  else if (l->kind[old.i] == CORE) emit_conv(l, old);
  else if (ir_ops[ins.op].cls == CLASS_REDUCE) emit_sum(l, old);
  else if (ir_ops[ins.op].cls == CLASS_ROW) emit_rows(l, old);
  else emit_pointwise(l, old);
  for (uint32_t k = 0; k < ins.n_res; k++)
    if (l->read_last[old.i + k]) l->e.map[old.i + k] = last_of(l, (Val){old.i + k}, ins.loc);
}

bool ir_pass_choose_layouts(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins;
  Layouts l = {.f = f,
               .p = f->prog,
               .uses = ir_use_lists(f),
               .kind = rt_alloc(mem, n),
               .group = rt_alloc(mem, n * sizeof *l.group)};
  l.saved = rt_alloc(mem, n * sizeof *l.saved), l.first = rt_alloc(mem, n * sizeof *l.first);
  l.has_core = rt_alloc(mem, n), l.changes = rt_alloc(mem, n), l.read_last = rt_alloc(mem, n);
  l.makes_first = rt_alloc(mem, n), l.makes_last = rt_alloc(mem, n), l.mirrored = rt_alloc(mem, n * sizeof *l.mirrored);
  find_groups(&l);
  add_savings(&l);
  if (!choose(&l)) return true;
  uint32_t scope = f->cur_scope;
  ir_rewrite_begin(&l.e, f);
  for (uint32_t i = 1; i < l.e.n_old; i++) {
    if (l.e.old[i].op == OP_result) continue;
    f->cur_scope = l.e.old[i].scope;
    copy_or_change(&l, (Val){i});
  }
  f->cur_scope = scope;
  ir_rewrite_end(&l.e);
  ir_eliminate_dead(f);
  return true;
}
