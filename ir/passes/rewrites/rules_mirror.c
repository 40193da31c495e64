// Convolutions of stride 1, read from their other end. What a window reads is, seen from the image, a window of results whose
// elements come in the opposite order:
//
//   conv_transpose %g, %w {pad=[p,..]}       conv %g, (mirrored %w) {pad=[dilation (kernel - 1) - p,..]}
//   conv_weight_grad %x, %g                  mirrored (conv_weight_grad %g, %x)        likewise
//
// mirrored: [C, O, kernel..] of [O, C, kernel..], likewise in each group, elements of the window from the last one on
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"

enum { LANES = 16, LEAST_GAIN = 2 };  // of a vector; of the lanes that vectors of channels keep

bool ir_mirror_conv(Prog *p, Conv *c) {
  Conv of = *c;
  c->c = of.o, c->o = of.c;
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    int64_t reach = (of.kernel[k] - 1) * of.dilation[k], pads[] = {reach - of.before[k], reach - of.behind[k]};
    if (of.stride[k] != 1 || pads[0] < 0 || pads[1] < 0) return false;
    c->in[k] = of.out[k], c->out[k] = of.in[k], c->in_dim[k] = of.out_dim[k], c->out_dim[k] = of.in_dim[k];
    c->before[k] = pads[0], c->behind[k] = pads[1];
    Dim n = ir_conv_positions(p, c->in_dim[k], pads[0] + pads[1], of.kernel[k], 1, of.dilation[k]);
    if (n.i != c->out_dim[k].i) return false;
  }
  return true;
}

uint32_t ir_conv_attrs(Prog *p, const Conv *c, Attr *to) {
  uint32_t first = CONV_AXES - c->rank, n = 0;
  int64_t pads[2 * CONV_AXES];
  for (uint32_t k = 0; k < c->rank; k++) pads[k] = c->before[first + k], pads[c->rank + k] = c->behind[first + k];
  to[n++] = ir_a_list(KEY_stride, ir_shape_ints(p, c->stride + first, c->rank));
  to[n++] = ir_a_list(KEY_pad, ir_shape_ints(p, pads, 2 * c->rank));
  to[n++] = ir_a_list(KEY_dilation, ir_shape_ints(p, c->dilation + first, c->rank));
  to[n++] = ir_a_int(KEY_groups, c->groups);
  const char *algorithm = ir_conv_algorithm_name(c->algorithm);
  if (algorithm) to[n++] = ir_a_str(KEY_algorithm, ir_str(p, algorithm));
  return n;
}

Val ir_mirrored_weight(Fn *f, Val weight, int64_t groups, Loc loc) {
  Prog *p = f->prog;
  Shape s = ir_ins(f, weight)->shape;
  uint32_t rank = ir_rank(p, s), several = groups > 1;
  Dim n = ir_dim(p, groups), taps = ir_dim(p, 1), o = ir_dim(p, ir_dim_bound(p, ir_dim_at(p, s, 0)) / groups);
  Dim to[MAX_RANK] = {ir_dim_mul(p, n, ir_dim_at(p, s, 1)), o};
  for (uint32_t k = 2; k < rank; k++) to[k] = ir_dim_at(p, s, k), taps = ir_dim_mul(p, taps, to[k]);
  Dim of[] = {n, o, ir_dim_at(p, s, 1), taps};  // one group needs no axis of its own
  Val flat = ir_reshaped(f, weight, ir_shape(p, of + !several, 3 + several), loc);
  Attr back[] = {ir_a_int(KEY_axis, 2 + several), ir_a_dim(KEY_start, ir_dim(p, 0)), ir_a_dim(KEY_count, taps),
                 ir_a_int(KEY_reverse, 1)};
  flat = ir_emit(f, OP_slice, &flat, 1, back, 4, loc);
  const int64_t *swaps = several ? (const int64_t[]){0, 2, 1, 3} : (const int64_t[]){1, 0, 2};
  flat = ir_permuted(f, flat, ir_shape_ints(p, swaps, 3 + several), loc);
  return ir_reshaped(f, flat, ir_shape(p, to, rank), loc);
}

// Lanes of vectors of channels of the second operand, for each channel of the first
static int64_t lanes(int64_t first, int64_t second) { return first * ((second + LANES - 1) / LANES * LANES); }

Val rule_weight_of_few(Rules *r, Val v) {
  Conv c;
  ir_conv(r->f, v, &c);
  if (c.channels_first || c.groups != 1 || c.algorithm == CONV_WINOGRAD || !ir_mirror_conv(r->p, &c)) return (Val){0};
  if (lanes(c.o, c.c) < LEAST_GAIN * lanes(c.c, c.o)) return (Val){0};
  Loc loc = ir_ins(r->f, v)->loc;
  Attr attrs[8];
  uint32_t n = ir_conv_attrs(r->p, &c, attrs);
  attrs[n++] = *ir_attr(r->f, v, KEY_shape);
  Val of[] = {ir_arg(r->f, v, 1), ir_arg(r->f, v, 0)},
      weight = ir_emit(r->f, OP_conv_weight_grad, of, 2, attrs, n, loc);
  ir_copy_origin(ir_ins(r->f, weight), ir_ins(r->f, v));
  weight = ir_mirrored_weight(r->f, weight, 1, loc);
  ir_copy_metadata(ir_ins(r->f, weight), ir_ins(r->f, v));
  return weight;
}
