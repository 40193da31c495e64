// Shape rules of pools (ir/pool.h) and of what resizes images (ir/resize.h), and what the others read from such an instruction.
#include "ir/pool.h"
#include "ir/resize.h"
#include "ir/shape/infer.h"

#include <math.h>

enum { MOST = 1 << 30 };  // largest number in an attribute

static int64_t item(const Fn *f, Val v, Key key, uint32_t k, int64_t otherwise) {
  const Attr *a = ir_attr(f, v, key);
  return a ? ir_list_at(f->prog, a->u.list, k) : otherwise;
}

void ir_pool(const Fn *f, Val v, Pool *p) {
  Op op = (Op)ir_ins(f, v)->op;
  bool is_grad = op == OP_max_pool_grad || op == OP_sum_pool_grad || op == OP_resize_grad;
  *p = (Pool){
      .is_grad = is_grad, .shares = !ir_attr(f, v, KEY_kernel), .rank = ir_rank(f->prog, ir_ins(f, v)->shape) - 2};
  p->x = is_grad ? v : ir_arg(f, v, 0), p->y = is_grad ? ir_arg(f, v, 0) : v;
  Shape x = ir_ins(f, p->x)->shape, y = ir_ins(f, p->y)->shape;
  p->n = ir_dim_at(f->prog, x, 0), p->channels = ir_dim_at(f->prog, x, p->rank + 1);
  uint32_t first = POOL_AXES - p->rank;
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    p->in[k] = p->out[k] = ir_dim(f->prog, 1);
    p->kernel[k] = p->stride[k] = p->dilation[k] = 1;
    if (k < first) continue;
    uint32_t axis = k - first;
    p->in[k] = ir_dim_at(f->prog, x, axis + 1), p->out[k] = ir_dim_at(f->prog, y, axis + 1);
    p->kernel[k] = item(f, v, KEY_kernel, axis, 1), p->stride[k] = item(f, v, KEY_stride, axis, 1);
    p->pad[k] = item(f, v, KEY_pad, axis, 0), p->dilation[k] = item(f, v, KEY_dilation, axis, 1);
  }
}

// ---- attributes
static uint16_t check_list(const Infer *c, Key key, uint32_t n, int64_t least) {
  const Attr *a = ir_attr(c->f, c->v, key);
  if (!a) return 0;
  bool good = ir_rank(c->p, a->u.list) == n;
  for (uint32_t k = 0; good && k < n; k++) {
    Dim d = ir_dim_at(c->p, a->u.list, k);
    good = ir_dim_is_const(c->p, d) && ir_dim_bound(c->p, d) >= least && ir_dim_bound(c->p, d) <= MOST;
  }
  if (good) return 0;
  rt_text_add(c->why, "{%s} must have %u constants from %lld on", ir_key_name[key], n, (long long)least);
  return ir_infer_fault(c, E_ARGUMENT, "");
}

static uint16_t check_shape(const Infer *c, uint32_t n) {
  const Attr *a = ir_attr(c->f, c->v, KEY_shape);
  bool good = a && ir_rank(c->p, a->u.list) == n;
  for (uint32_t k = 0; good && k < n; k++) {
    Dim d = ir_dim_at(c->p, a->u.list, k);
    good = ir_dim_exists(c->p, d) && ir_dim_most(c->p, d) >= 0;
  }
  if (good) return 0;
  rt_text_add(c->why, "{shape} must have %u sizes of 0 or more", n);
  return ir_infer_fault(c, E_ARGUMENT, "");
}

// Places are i32.
static uint16_t check_plane(const Infer *c, Shape s) {
  int64_t places = 1;
  for (uint32_t k = 1; k + 1 < ir_rank(c->p, s); k++) {
    int64_t size = ir_dim_bound(c->p, ir_dim_at(c->p, s, k));
    if (size > 0 && places > INT32_MAX / size) return bad_shape(c, "more than 2^31 spatial elements");
    places *= size;
  }
  return 0;
}

static uint16_t check_windows(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 3, 2 + POOL_AXES));
  uint32_t spatial = rank_of(c, 0) - 2;
  bool shares = !ir_attr(c->f, c->v, KEY_kernel);
  static const Key of_windows[] = {KEY_stride, KEY_pad, KEY_dilation};
  for (uint32_t k = 0; shares && k < 3; k++)
    if (ir_attr(c->f, c->v, of_windows[k]))
      return ir_infer_fault(c, E_ARGUMENT, "windows of no {kernel} have no stride");
  TRY(check_list(c, KEY_kernel, spatial, 1));
  TRY(check_list(c, KEY_stride, spatial, 1));
  TRY(check_list(c, KEY_dilation, spatial, 1));
  TRY(check_list(c, KEY_pad, spatial, 0));
  const Attr *divisor = ir_attr(c->f, c->v, KEY_divisor);
  if (divisor && !(isfinite(divisor->u.f) && divisor->u.f > 0))
    return ir_infer_fault(c, E_ARGUMENT, "{divisor} must be above 0");
  return check_shape(c, spatial);
}

// Operand 0 with {shape} in the place of its spatial sizes.
static Shape resized(const Infer *c) {
  Dim d[MAX_RANK];
  uint32_t rank = rank_of(c, 0);
  Shape to = ir_attr(c->f, c->v, KEY_shape)->u.list;
  for (uint32_t k = 0; k < rank; k++) d[k] = k && k + 1 < rank ? ir_dim_at(c->p, to, k - 1) : dim_of(c, 0, k);
  return ir_shape(c->p, d, rank);
}

// ---- the rules
uint16_t ir_rule_sum_pool(const Infer *c) {
  TRY(check_windows(c));
  TRY(check_plane(c, shape_of(c, 0)));
  set(c, 0, DT_F32, resized(c));
  return 0;
}

uint16_t ir_rule_max_pool(const Infer *c) {
  TRY(ir_rule_sum_pool(c));
  set(c, 1, DT_I32, resized(c));
  return 0;
}

uint16_t ir_rule_pool_grad(const Infer *c) {
  TRY(check_windows(c));
  if (n_args(c) == 2 && shape_of(c, 1).i != shape_of(c, 0).i) return bad_shape(c, "g and index differ");
  TRY(check_plane(c, resized(c)));
  set(c, 0, DT_F32, resized(c));
  return 0;
}

uint16_t ir_rule_resize(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 3, 2 + POOL_AXES));
  TRY(check_shape(c, rank_of(c, 0) - 2));
  if (!ir_filter_known(ir_text(c->p, ir_attr(c->f, c->v, KEY_filter)->u.s)))
    return ir_infer_fault(c, E_ARGUMENT,
                          "{filter} must be nearest, nearest_exact, box, or linear, cubic, wide_linear or wide_cubic, "
                          "these also with byte_ in front");
  for (uint32_t k = 0; k < POOL_AXES; k++) {
    const Attr *scale = ir_attr(c->f, c->v, (Key)(KEY_scale0 + k));
    if (scale && (k + 2 >= rank_of(c, 0) || !(scale->u.f > 0 && isfinite(scale->u.f))))
      return ir_infer_fault(c, E_ARGUMENT, "a scale must be of a spatial axis, above 0 and finite");
  }
  Shape to = resized(c);
  for (uint32_t k = 1; k + 1 < rank_of(c, 0); k++) {
    Dim a = dim_of(c, 0, k), b = ir_dim_at(c->p, to, k);
    if (!ir_dim_is_const(c->p, a) || !ir_dim_is_const(c->p, b) || ir_dim_bound(c->p, a) < 1 ||
        ir_dim_bound(c->p, b) < 1 || ir_dim_bound(c->p, a) > RESIZE_MOST || ir_dim_bound(c->p, b) > RESIZE_MOST)
      return bad_shape(c, "spatial axes must have constant sizes in [1, 2^20], before and behind");
  }
  TRY(check_plane(c, shape_of(c, 0)));
  TRY(check_plane(c, to));
  set(c, 0, DT_F32, to);
  return 0;
}
