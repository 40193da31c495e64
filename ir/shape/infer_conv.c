// Shape rules of convolutions (see conv.h), and what the others read from such an instruction.
#include "ir/conv.h"
#include "ir/shape/infer.h"
#include "ir/storage.h"

#include <string.h>

enum {
  MOST = 1 << 30,         // largest number in an attribute
  MOST_PHASES = 1 << 20,  // largest product of strides: a transposed convolution looks at each phase
};

// ---- reading
static int64_t item(const Fn *f, Val v, Key key, uint32_t k, int64_t otherwise) {
  const Attr *a = ir_attr(f, v, key);
  return a ? ir_list_at(f->prog, a->u.list, k) : otherwise;
}

static Dim dim_at(const Fn *f, Val v, uint32_t axis) { return ir_dim_at(f->prog, ir_ins(f, v)->shape, axis); }
static int64_t size_at(const Fn *f, Val v, uint32_t axis) { return ir_dim_bound(f->prog, dim_at(f, v, axis)); }

static void read_operands(const Fn *f, Val v, Conv *c) {
  Val a = ir_arg(f, v, 0), b = ir_arg(f, v, 1);
  switch ((Op)ir_ins(f, v)->op) {
  case OP_conv: c->x = a, c->weight = b, c->y = v; break;
  case OP_conv_transpose: c->y = a, c->weight = b, c->x = v; break;
  default: c->x = a, c->y = b, c->weight = v; break;
  }
}

Dim ir_conv_positions(Prog *p, Dim in, int64_t padding, int64_t kernel, int64_t stride, int64_t dilation) {
  Dim room = ir_dim_add(p, in, ir_dim(p, padding - dilation * (kernel - 1) - 1)), step = ir_dim(p, stride);
  return ir_dim_most(p, room) < 0 ? (Dim){0} : ir_dim_div(p, ir_dim_add(p, room, step), step);
}

const char *ir_conv_algorithm_name(ConvAlgorithm a) {
  static const char *const names[N_CONV_ALGORITHMS] = {[CONV_EXACT] = "exact", [CONV_WINOGRAD] = "winograd"};
  return names[a];
}

// N_CONV_ALGORITHMS: another word.
static ConvAlgorithm algorithm_of(const Fn *f, Val v) {
  const Attr *a = ir_attr(f, v, KEY_algorithm);
  if (!a) return CONV_AUTO;
  ConvAlgorithm k = CONV_EXACT;
  while (k < N_CONV_ALGORITHMS && strcmp(ir_conv_algorithm_name(k), ir_text(f->prog, a->u.s)) != 0) k++;
  return k;
}

void ir_conv(const Fn *f, Val v, Conv *c) {
  *c = (Conv){.rank = ir_rank(f->prog, ir_ins(f, v)->shape) - 2,
              .groups = ir_attr_int(f, v, KEY_groups, 1),
              .algorithm = algorithm_of(f, v)};
  read_operands(f, v, c);
  c->channels_first = ir_attr(f, v, KEY_first) != NULL;
  uint32_t first = CONV_AXES - c->rank, channels = c->channels_first ? 1 : c->rank + 1;
  c->n = dim_at(f, c->x, 0);
  c->c = size_at(f, c->x, channels), c->o = size_at(f, c->y, channels);
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    c->in[k] = c->out[k] = c->kernel[k] = c->stride[k] = c->dilation[k] = 1;
    c->in_dim[k] = c->out_dim[k] = ir_dim(f->prog, 1);
    if (k < first) continue;
    uint32_t axis = k - first, own = axis + (c->channels_first ? 2 : 1);
    c->in[k] = size_at(f, c->x, own), c->out[k] = size_at(f, c->y, own);
    c->in_dim[k] = dim_at(f, c->x, own), c->out_dim[k] = dim_at(f, c->y, own);
    c->run_sized |= !ir_dim_is_const(f->prog, c->in_dim[k]) || !ir_dim_is_const(f->prog, c->out_dim[k]);
    c->kernel[k] = size_at(f, c->weight, 2 + axis);
    c->stride[k] = item(f, v, KEY_stride, axis, 1), c->dilation[k] = item(f, v, KEY_dilation, axis, 1);
    c->before[k] = item(f, v, KEY_pad, axis, 0), c->behind[k] = item(f, v, KEY_pad, axis + c->rank, 0);
  }
}

// ---- attributes
static uint16_t check_list(const Infer *c, Key key, uint32_t n, int64_t least) {
  const Attr *a = ir_attr(c->f, c->v, key);
  if (!a) return 0;
  if (ir_rank(c->p, a->u.list) != n) {
    rt_text_add(c->why, "{%s} must have %u numbers", ir_key_name[key], n);
    return ir_infer_fault(c, E_ARGUMENT, "");
  }
  for (uint32_t k = 0; k < n; k++) {
    Dim d = ir_dim_at(c->p, a->u.list, k);
    if (ir_dim_is_const(c->p, d) && ir_dim_bound(c->p, d) >= least && ir_dim_bound(c->p, d) <= MOST) continue;
    rt_text_add(c->why, "{%s} must have constants from %lld on", ir_key_name[key], (long long)least);
    return ir_infer_fault(c, E_ARGUMENT, "");
  }
  return 0;
}

static uint16_t check_attributes(const Infer *c, uint32_t spatial) {
  TRY(check_list(c, KEY_stride, spatial, 1));
  TRY(check_list(c, KEY_dilation, spatial, 1));
  TRY(check_list(c, KEY_pad, 2 * spatial, 0));
  int64_t groups = ir_attr_int(c->f, c->v, KEY_groups, 1);
  int64_t phases = 1;
  for (uint32_t k = 0; k < spatial && phases <= MOST_PHASES; k++) phases *= item(c->f, c->v, KEY_stride, k, 1);
  if (phases > MOST_PHASES) return ir_infer_fault(c, E_ARGUMENT, "the product of {stride} must be at most 2^20");
  if (groups < 1 || groups > MOST) return ir_infer_fault(c, E_ARGUMENT, "{groups} must be in [1, 2^30]");
  return 0;
}

// Axes of an image: of its channels, and spatial axis k.
static uint32_t channels_at(const Infer *c) { return ir_attr(c->f, c->v, KEY_first) ? 1 : rank_of(c, 0) - 1; }
static uint32_t spatial_at(const Infer *c, uint32_t k) { return k + (ir_attr(c->f, c->v, KEY_first) ? 2 : 1); }
static Shape image_shape(const Infer *c, Dim channels, const Dim *size, uint32_t spatial) {
  Dim d[MAX_RANK] = {dim_of(c, 0, 0)};
  d[channels_at(c)] = channels;
  for (uint32_t k = 0; k < spatial; k++) d[spatial_at(c, k)] = size[k];
  return ir_shape(c->p, d, spatial + 2);
}

static bool has_constant_sizes(const Infer *c, uint32_t spatial) {
  for (uint32_t k = 0; k < spatial; k++)
    if (!ir_dim_is_const(c->p, dim_of(c, 0, spatial_at(c, k)))) return false;
  return true;
}

// {first}: channels, of x and of y, are groups of one; or of a convolution, of images of constant sizes.
static uint16_t check_first(const Infer *c, const int64_t *kernel, uint32_t spatial, int64_t in, int64_t out) {
  int64_t groups = ir_attr_int(c->f, c->v, KEY_groups, 1);
  if (!ir_attr(c->f, c->v, KEY_first)) return 0;
  bool is_conv = ir_ins(c->f, c->v)->op == OP_conv && has_constant_sizes(c, spatial);
  bool by_one = in == groups && out == groups;
  int64_t most = by_one ? CONV_PLANES_STRIDE : CONV_FIRST_STRIDE;
  bool is_short = item(c->f, c->v, KEY_stride, spatial - 1, 1) <= most && kernel[spatial - 1] <= CONV_FIRST_TAPS;
  if ((by_one || is_conv) && is_short && algorithm_of(c->f, c->v) == CONV_AUTO) return 0;
  return ir_infer_fault(
      c, E_ARGUMENT,
      "{first} is for groups of one channel and for convolutions of images of constant sizes, windows of up "
      "to 31 elements along the last axis, there a stride of up to 16, of groups of one channel 4, and no {algorithm}");
}

// kernel: the sizes of the window.
static uint16_t check_algorithm(const Infer *c, const int64_t *kernel, uint32_t spatial) {
  ConvAlgorithm a = algorithm_of(c->f, c->v);
  if (a == N_CONV_ALGORITHMS) return ir_infer_fault(c, E_ARGUMENT, "{algorithm} must be exact or winograd");
  bool fits = spatial == 2 && ir_attr_int(c->f, c->v, KEY_groups, 1) == 1;
  for (uint32_t k = 0; k < spatial; k++)
    fits &= kernel[k] == 3 && item(c->f, c->v, KEY_stride, k, 1) == 1 &&
            ir_dim_is_const(c->p, dim_of(c, 0, spatial_at(c, k)));
  if (a != CONV_WINOGRAD || fits) return 0;
  return ir_infer_fault(c, E_ARGUMENT,
                        "{algorithm} winograd is for windows of 3 x 3, stride 1, one group, constant sizes");
}

// Channels and windows are constants; of images there may be any number, of any size.
static uint16_t check_activations(const Infer *c, uint32_t k) {
  if (ir_dim_is_const(c->p, dim_of(c, k, channels_at(c)))) return 0;
  return bad_shape(c, "channels must have a constant size");
}

static uint16_t check_weight(const Infer *c) {
  for (uint32_t axis = 0; axis < rank_of(c, 1); axis++)
    if (!ir_dim_is_const(c->p, dim_of(c, 1, axis))) return bad_shape(c, "weights must have constant sizes");
  return 0;
}

static uint16_t check_operands(const Infer *c, bool has_weight) {
  TRY(ir_infer_rank(c, 0, 3, 2 + CONV_AXES));
  TRY(ir_infer_rank(c, 1, rank_of(c, 0), rank_of(c, 0)));
  TRY(check_activations(c, 0));
  TRY(has_weight ? check_weight(c) : check_activations(c, 1));
  return check_attributes(c, rank_of(c, 0) - 2);
}

static int64_t const_of(const Infer *c, uint32_t k, uint32_t axis) { return ir_dim_bound(c->p, dim_of(c, k, axis)); }

static Dim positions(const Infer *c, uint32_t axis, uint32_t spatial, Dim in, int64_t kernel) {
  int64_t padding = item(c->f, c->v, KEY_pad, axis, 0) + item(c->f, c->v, KEY_pad, axis + spatial, 0);
  return ir_conv_positions(c->p, in, padding, kernel, item(c->f, c->v, KEY_stride, axis, 1),
                           item(c->f, c->v, KEY_dilation, axis, 1));
}

static uint16_t too_long(const Infer *c, uint32_t axis) {
  rt_text_add(c->why, "the window is longer than padded spatial axis %u", axis);
  return bad_shape(c, "");
}

// ---- the rules
uint16_t ir_rule_conv(const Infer *c) {
  TRY(check_operands(c, true));
  uint32_t spatial = rank_of(c, 0) - 2;
  int64_t groups = ir_attr_int(c->f, c->v, KEY_groups, 1), channels = const_of(c, 0, channels_at(c));
  if (const_of(c, 1, 1) * groups != channels) {
    rt_text_add(c->why, "%lld channels of x are not %lld groups of the weight's %lld", (long long)channels,
                (long long)groups, (long long)const_of(c, 1, 1));
    return bad_shape(c, "");
  }
  if (const_of(c, 1, 0) % groups) return bad_shape(c, "{groups} does not divide the weight's first size");
  Dim size[CONV_AXES];
  int64_t kernel[CONV_AXES];
  for (uint32_t k = 0; k < spatial; k++) {
    kernel[k] = const_of(c, 1, k + 2);
    size[k] = positions(c, k, spatial, dim_of(c, 0, spatial_at(c, k)), kernel[k]);
    if (!size[k].i || kernel[k] < 1) return too_long(c, k);
  }
  TRY(check_algorithm(c, kernel, spatial));
  TRY(check_first(c, kernel, spatial, channels, const_of(c, 1, 0)));
  set(c, 0, DT_F32, image_shape(c, dim_of(c, 1, 0), size, spatial));
  return 0;
}

// {shape}: sizes of a window, or of an image, which the run may give.
static uint16_t check_window(const Infer *c, uint32_t spatial) {
  if (!ir_attr(c->f, c->v, KEY_shape)) return ir_infer_fault(c, E_ARGUMENT, "needs {shape}");
  return check_list(c, KEY_shape, spatial, 1);
}

static uint16_t check_image(const Infer *c, uint32_t spatial) {
  const Attr *a = ir_attr(c->f, c->v, KEY_shape);
  if (!a) return ir_infer_fault(c, E_ARGUMENT, "needs {shape}");
  bool good = ir_rank(c->p, a->u.list) == spatial;
  for (uint32_t k = 0; good && k < spatial; k++) {
    Dim d = ir_dim_at(c->p, a->u.list, k);
    good = ir_dim_exists(c->p, d) && ir_dim_most(c->p, d) >= 0 && ir_dim_bound(c->p, d) <= MOST;
  }
  if (good) return 0;
  rt_text_add(c->why, "{shape} must have %u sizes of 0 or more", spatial);
  return ir_infer_fault(c, E_ARGUMENT, "");
}

// "a convolution of 5 elements along spatial axis 0 gives 2, not 3"
static uint16_t bad_positions(const Infer *c, uint32_t axis, Dim in, Dim gives, Dim found) {
  rt_text_add(c->why, "a convolution of ");
  ir_dim_text(c->p, in, c->why);
  rt_text_add(c->why, " elements along spatial axis %u gives ", axis);
  if (gives.i) ir_dim_text(c->p, gives, c->why);
  else rt_text_add(c->why, "none");
  rt_text_add(c->why, ", not ");
  ir_dim_text(c->p, found, c->why);
  return bad_shape(c, "");
}

uint16_t ir_rule_conv_transpose(const Infer *c) {
  TRY(check_operands(c, true));
  uint32_t spatial = rank_of(c, 0) - 2;
  TRY(check_image(c, spatial));
  int64_t groups = ir_attr_int(c->f, c->v, KEY_groups, 1);
  if (const_of(c, 1, 0) != const_of(c, 0, channels_at(c)))
    return bad_shape(c, "y has other channels than the weight's first size");
  if (const_of(c, 1, 0) % groups) return bad_shape(c, "{groups} does not divide the weight's first size");
  Dim size[CONV_AXES];
  int64_t kernel[CONV_AXES], channels = const_of(c, 1, 1) * groups;
  for (uint32_t k = 0; k < spatial; k++) {
    kernel[k] = const_of(c, 1, k + 2);
    size[k] = ir_dim_at(c->p, ir_attr(c->f, c->v, KEY_shape)->u.list, k);
    Dim n = positions(c, k, spatial, size[k], kernel[k]), found = dim_of(c, 0, spatial_at(c, k));
    if (n.i != found.i || kernel[k] < 1) return bad_positions(c, k, size[k], n, found);
  }
  TRY(check_algorithm(c, kernel, spatial));
  TRY(check_first(c, kernel, spatial, channels, const_of(c, 1, 0)));
  set(c, 0, DT_F32, image_shape(c, ir_dim(c->p, channels), size, spatial));
  return 0;
}

uint16_t ir_rule_conv_weight_grad(const Infer *c) {
  TRY(check_operands(c, false));
  uint32_t spatial = rank_of(c, 0) - 2;
  TRY(check_window(c, spatial));
  int64_t groups = ir_attr_int(c->f, c->v, KEY_groups, 1), channels = const_of(c, 0, channels_at(c));
  if (dim_of(c, 0, 0).i != dim_of(c, 1, 0).i) return bad_shape(c, "x and g have different numbers of images");
  if (channels % groups || const_of(c, 1, channels_at(c)) % groups)
    return bad_shape(c, "{groups} does not divide the channels");
  Dim d[MAX_RANK] = {dim_of(c, 1, channels_at(c)), ir_dim(c->p, channels / groups)};
  int64_t kernel[CONV_AXES];
  for (uint32_t k = 0; k < spatial; k++) {
    kernel[k] = item(c->f, c->v, KEY_shape, k, 1);
    uint32_t axis = spatial_at(c, k);
    if (positions(c, k, spatial, dim_of(c, 0, axis), kernel[k]).i != dim_of(c, 1, axis).i)
      return bad_shape(c, "g has other spatial sizes than the convolution gives");
    d[k + 2] = ir_dim(c->p, kernel[k]);
  }
  TRY(check_algorithm(c, kernel, spatial));
  TRY(check_first(c, kernel, spatial, channels, const_of(c, 1, channels_at(c))));
  set(c, 0, DT_F32, ir_shape(c->p, d, spatial + 2));
  return 0;
}

// ---- windows along packed sequences
SeqWindow ir_seq_window(const Fn *f, Val v) {
  return (SeqWindow){.taps = item(f, v, KEY_kernel, 0, 1),
                     .stride = item(f, v, KEY_stride, 0, 1),
                     .dilation = item(f, v, KEY_dilation, 0, 1),
                     .before = item(f, v, KEY_pad, 0, 0)};
}

// 0 where time is shorter than a window, as of a run whose sequences are all empty.
Dim ir_window_time(Prog *p, Dim time, int64_t size, int64_t step) {
  Dim room = ir_dim_sub(p, time, ir_dim(p, size));
  return ir_dim_max(p, ir_dim_add(p, ir_dim_div(p, room, ir_dim(p, step)), ir_dim(p, 1)), ir_dim(p, 0));
}

// A sequence of n > 0 steps has at most (n + step - size) / step.
int64_t ir_window_rows(int64_t rows, int64_t batch, int64_t size, int64_t step) {
  int64_t more, some = rows < batch ? rows : batch;
  if (step <= size) return rows / step;
  if (__builtin_mul_overflow(step - size, some, &more) || __builtin_add_overflow(rows, more, &more)) return INT64_MAX;
  return more / step;
}

int64_t ir_window_steps(const Fn *f, Val v) {
  return ir_attr_int(f, v, KEY_size, 1) - ir_attr_int(f, v, KEY_padding, 0);
}

Val ir_windowed_lengths(const Fn *f, Val v) {
  Val layout = ir_view_base(f, ir_arg(f, v, 0));
  bool is_packed = ir_ins(f, layout)->op == OP_packed_layout;
  return is_packed && ir_window_steps(f, v) > 1 ? ir_operand(f, layout, ARG_lengths) : (Val){0};
}

static uint16_t check_seq_window(const Infer *c) {
  if (!ir_attr(c->f, c->v, KEY_kernel)) return ir_infer_fault(c, E_ARGUMENT, "needs {kernel}");
  TRY(check_list(c, KEY_kernel, 1, 1));
  TRY(check_list(c, KEY_stride, 1, 1));
  TRY(check_list(c, KEY_dilation, 1, 1));
  TRY(check_list(c, KEY_pad, 1, 0));
  TRY(ir_infer_rank(c, 0, 2, 2));
  if (dim_of(c, 1, 0).i != dim_of(c, 2, 0).i) return bad_shape(c, "the layouts have different batches");
  return 0;
}

uint16_t ir_rule_seq_windows(const Infer *c) {
  TRY(check_seq_window(c));
  if (dim_of(c, 0, 0).i != dim_of(c, 1, 2).i) return bad_shape(c, "rows differ from the layout's");
  int64_t wide, taps = ir_seq_window(c->f, c->v).taps;
  if (__builtin_mul_overflow(ir_dim_bound(c->p, dim_of(c, 0, 1)), taps, &wide) || wide > MOST)
    return ir_infer_fault(c, E_ARGUMENT, "a window has more than 2^30 elements");
  Dim d[] = {dim_of(c, 2, 2), ir_dim_mul(c->p, ir_dim(c->p, taps), dim_of(c, 0, 1))};
  set(c, 0, DT_F32, ir_shape(c->p, d, 2));
  return 0;
}

uint16_t ir_rule_seq_windows_grad(const Infer *c) {
  TRY(check_seq_window(c));
  if (dim_of(c, 0, 0).i != dim_of(c, 2, 2).i) return bad_shape(c, "rows differ from those of the windows");
  Dim channels = ir_dim_exact_div(c->p, dim_of(c, 0, 1), ir_dim(c->p, ir_seq_window(c->f, c->v).taps));
  if (!channels.i) return bad_shape(c, "a row of windows is not {kernel} times as wide as one of the sequences");
  set(c, 0, DT_F32, ir_shape(c->p, (Dim[]){dim_of(c, 1, 2), channels}, 2));
  return 0;
}

uint16_t ir_rule_seq_window_lengths(const Infer *c) {
  int64_t size = ir_attr_int(c->f, c->v, KEY_size, 0), step = ir_attr_int(c->f, c->v, KEY_step, 0);
  int64_t padding = ir_attr_int(c->f, c->v, KEY_padding, 0), least = size - padding;
  if (size < 1 || size > MOST || step < 1 || step > MOST || padding < 0 || padding > MOST)
    return ir_infer_fault(c, E_ARGUMENT, "{size} and {step} must be in [1, 2^30], {padding} in [0, 2^30]");
  const Attr *lengths = ir_attr(c->f, ir_view_base(c->f, ir_arg(c->f, c->v, 0)), KEY_lengths);
  for (uint32_t k = 0; lengths && k < ir_rank(c->p, lengths->u.list); k++) {
    int64_t n = ir_list_at(c->p, lengths->u.list, k);
    if (!n || n >= least) continue;
    rt_text_add(c->why, "sequence %u has %lld steps, and a window needs %lld", k, (long long)n, (long long)least);
    return E_LENGTH_RANGE;
  }
  Dim batch = dim_of(c, 0, 0);
  set(c, 0, DT_I64, ir_shape(c->p, &batch, 1));
  return 0;
}

bool ir_perm_moves_channels(const Prog *p, Shape perm, bool to_first) {
  uint32_t n = ir_rank(p, perm);
  for (uint32_t k = 0; k < n; k++)
    if (ir_list_at(p, perm, k) != (to_first ? ir_axis_in_first(n, k) : ir_axis_in_last(n, k))) return false;
  return n > 2;
}

bool ir_moves_channels(const Fn *f, Val v, bool to_first) {
  return ir_ins(f, v)->op == OP_permute && ir_perm_moves_channels(f->prog, ir_attr(f, v, KEY_perm)->u.list, to_first);
}
