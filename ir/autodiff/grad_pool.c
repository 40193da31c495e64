// Gradient rules of pools (ir/pool.h) and of resizing. Sums are linear; a maximum passes its gradient to the
// place it came from.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"

// Emits op with the windows of v; `sized`: the value whose spatial sizes the result has.
static Val pool_like(Grad *g, Val v, Op op, const Val *in, uint32_t n_in, Val sized) {
  static const Key keys[] = {KEY_kernel, KEY_stride, KEY_pad,    KEY_dilation, KEY_divisor,
                             KEY_filter, KEY_align,  KEY_scale0, KEY_scale1,   KEY_scale2};
  enum { N_KEYS_OF_WINDOWS = sizeof keys / sizeof *keys };
  Attr attr[N_KEYS_OF_WINDOWS + 1];
  Dim d[MAX_RANK];
  uint32_t n = 0, rank = ir_rank(g->p, shape_of(g, sized)) - 2;
  for (uint32_t k = 0; k < N_KEYS_OF_WINDOWS; k++)
    if (ir_attr(g->f, v, keys[k])) attr[n++] = *ir_attr(g->f, v, keys[k]);
  for (uint32_t k = 0; k < rank; k++) d[k] = ir_dim_at(g->p, shape_of(g, sized), k + 1);
  attr[n++] = ir_a_list(KEY_shape, ir_shape(g->p, d, rank));
  return ir_emit(g->f, op, in, n_in, attr, n, g->loc);
}

void ir_grad_rule_max_pool(Grad *g, Val v, Val adj) {
  Val x = arg(g, v, 0), in[2] = {adj, ir_result(v, 1)};
  if (!ir_none(adj)) ir_grad_give(g, x, pool_like(g, v, OP_max_pool_grad, in, 2, x));
}

// [N, spatial.., C] as [N, places, C]
static Val as_places(Grad *g, Val a) {
  Shape s = shape_of(g, a);
  uint32_t rank = ir_rank(g->p, s);
  Dim places = ir_dim(g->p, 1);
  for (uint32_t k = 1; k + 1 < rank; k++) places = ir_dim_mul(g->p, places, ir_dim_at(g->p, s, k));
  return reshape(g, a, ir_shape(g->p, (Dim[]){ir_dim_at(g->p, s, 0), places, ir_dim_at(g->p, s, rank - 1)}, 3));
}

// Each g went to one place, and takes the gradient from there; one of a window in the padding, whose place is -1, to none.
void ir_grad_rule_max_pool_grad(Grad *g, Val v, Val adj) {
  Val y = arg(g, v, 0), index = arg(g, v, 1);
  Attr i64 = ir_a_int(KEY_dtype, DT_I64), how[] = {ir_a_int(KEY_axis, 1), ir_a_int(KEY_padded, 1)};
  index = as_places(g, ir_emit(g->f, OP_cast, &index, 1, &i64, 1, g->loc));
  Val taken = ir_emit(g->f, OP_gather, (Val[]){as_places(g, adj), index}, 2, how, 2, g->loc);
  ir_grad_give(g, y, reshape(g, taken, shape_of(g, y)));
}

// Two linear ops, each the gradient of the other, with the same windows.
static void give_twin(Grad *g, Val v, Val adj, Op twin) {
  Val x = arg(g, v, 0);
  ir_grad_give(g, x, pool_like(g, v, twin, &adj, 1, x));
}

void ir_grad_rule_sum_pool(Grad *g, Val v, Val adj) { give_twin(g, v, adj, OP_sum_pool_grad); }
void ir_grad_rule_sum_pool_grad(Grad *g, Val v, Val adj) { give_twin(g, v, adj, OP_sum_pool); }
void ir_grad_rule_resize(Grad *g, Val v, Val adj) { give_twin(g, v, adj, OP_resize_grad); }
void ir_grad_rule_resize_grad(Grad *g, Val v, Val adj) { give_twin(g, v, adj, OP_resize); }
