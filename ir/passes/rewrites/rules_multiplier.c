// Rule of convolutions whose groups are one channel on one side and several on the other, as of depthwise layers with a channel
// multiplier. Such groups leave most lanes of a vector without work; with as many groups as channels on the larger side they are
// depthwise convolutions, whose vectors go across groups:
//
//   %y = conv %x, %w {groups=32}                 x [N, H, W, 32], w [64, 1, kh, kw]
//     ->     %r = reshape (expand (reshape %x : [N, H, W, 32, 1]) : [N, H, W, 32, 2]) : [N, H, W, 64]
//            %y = conv %r, %w {groups=64}
//   %x = conv_transpose %y, %w {groups=32}
//     ->     %x = sum (reshape (conv_transpose %y, %w {groups=64}) : [N, H, W, 32, 2]) {axes=[4]}
//
// The gradient of the weight reads the repeated channels; groups that are one channel of y, and several of x, go the other way.
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/rewrites/rules.h"

enum { MOST_MULTIPLES = 8 };  // with more, groups fill half of a vector, and repeated channels take room

typedef struct {
  Rules *r;
  Loc loc;
  int64_t few, many;  // channels of the two sides
} Multiples;

// image with its last axis as [few, n]
static Val apart(const Multiples *m, Val image, int64_t n) {
  Shape s = ir_ins(m->r->f, image)->shape;
  Dim d[MAX_RANK];
  uint32_t rank = ir_rank(m->r->p, s);
  for (uint32_t k = 0; k + 1 < rank; k++) d[k] = ir_dim_at(m->r->p, s, k);
  d[rank - 1] = ir_dim(m->r->p, m->few), d[rank] = ir_dim(m->r->p, n);
  return ir_reshaped(m->r->f, image, ir_shape(m->r->p, d, rank + 1), m->loc);
}

static Val repeated(const Multiples *m, Val image) {
  Fn *f = m->r->f;
  Val one = apart(m, image, 1);
  Dim d[MAX_RANK];
  uint32_t rank = ir_rank(m->r->p, ir_ins(f, one)->shape);
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(m->r->p, ir_ins(f, one)->shape, k);
  d[rank - 1] = ir_dim(m->r->p, m->many / m->few);
  Attr shape = ir_a_list(KEY_shape, ir_shape(m->r->p, d, rank));
  Val all = ir_emit(f, OP_expand, &one, 1, &shape, 1, m->loc);
  d[rank - 2] = ir_dim(m->r->p, m->many);
  return ir_reshaped(f, all, ir_shape(m->r->p, d, rank - 1), m->loc);
}

static Val summed(const Multiples *m, Val image) {
  Val all = apart(m, image, m->many / m->few);
  int64_t last = ir_rank(m->r->p, ir_ins(m->r->f, all)->shape) - 1;
  Attr axes = ir_a_list(KEY_axes, ir_shape_ints(m->r->p, &last, 1));
  return ir_emit(m->r->f, OP_sum, &all, 1, &axes, 1, m->loc);
}

// [groups, n, kernel..] as [groups n, 1, kernel..]
static Val weight_of_groups(const Multiples *m, Val weight) {
  Shape s = ir_ins(m->r->f, weight)->shape;
  Dim d[MAX_RANK] = {ir_dim(m->r->p, m->many), ir_dim(m->r->p, 1)};
  for (uint32_t k = 2; k < ir_rank(m->r->p, s); k++) d[k] = ir_dim_at(m->r->p, s, k);
  return ir_reshaped(m->r->f, weight, ir_shape(m->r->p, d, ir_rank(m->r->p, s)), m->loc);
}

Val rule_multiplier(Rules *r, Val v) {
  Conv c;
  ir_conv(r->f, v, &c);
  bool is_x = c.c < c.o;  // has x the few channels?
  Multiples m = {r, ir_ins(r->f, v)->loc, is_x ? c.c : c.o, is_x ? c.o : c.c};
  if (c.channels_first || c.groups < 2 || c.groups != m.few || m.many == m.few || m.many % m.few) return (Val){0};
  if (m.many / m.few > MOST_MULTIPLES) return (Val){0};
  const Ins ins = *ir_ins(r->f, v);
  bool is_weight = ins.op == OP_conv_weight_grad, reads_few = is_x == (ins.op != OP_conv_transpose);
  Val of[] = {ir_arg(r->f, v, 0), ir_arg(r->f, v, 1)};
  if (!is_weight) of[1] = weight_of_groups(&m, of[1]);
  if (is_weight && !is_x) of[1] = repeated(&m, of[1]);
  else if (reads_few) of[0] = repeated(&m, of[0]);
  Attr groups = ir_a_int(KEY_groups, m.many);
  Val y = ir_emit_like(r->f, &ins, of, &groups);
  ir_copy_origin(ir_ins(r->f, y), ir_ins(r->f, v));
  if (is_weight) y = ir_reshaped(r->f, y, ins.shape, m.loc);
  else if (!reads_few) y = summed(&m, y);
  ir_copy_metadata(ir_ins(r->f, y), &ins);
  return y;
}
