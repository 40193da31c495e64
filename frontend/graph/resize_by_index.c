// Images of sizes that the run gives, resized: along one axis after the other, sums of elements chosen by indices that are
// computed from both sizes, in single precision. Those of constant sizes are the op resize (ir/resize.h).
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/shape.h"
#include "frontend/graph/spatial.h"

typedef struct {
  uint32_t axis;
  Dim in, out;
  double scale;  // of which out is the product with in, rounded down; 0: elements lie in / out apart
  bool align;
  tn_site at;
} Axis;

static tn_tensor size(const tn_tensor x, Dim d, const Axis *a) { return fe_size(x.fn, d, a->at); }
static tn_tensor plus(tn_tensor x, double n, const Axis *a) { return fe_with_number(OP_add, x, n, a->at); }
static tn_tensor times(tn_tensor x, double n, const Axis *a) { return fe_with_number(OP_mul, x, n, a->at); }
static tn_tensor unary(Op op, tn_tensor x, const Axis *a) { return fe_ok(x) ? fe_emit1(op, x, a->at) : x; }

// How far apart the elements of the result lie in x; where `copies`, one, whatever the scale, where there are as many as in x.
static tn_tensor step(tn_tensor x, bool copies, const Axis *a) {
  tn_tensor in = size(x, a->in, a), out = size(x, a->out, a), one = fe_const(x.fn, 1, a->at);
  if (a->scale == 0) return fe_binary(OP_div, in, out, a->at);
  tn_tensor by_scale = fe_const(x.fn, 1 / a->scale, a->at), is_same = fe_binary(OP_eq, in, out, a->at);
  if (!copies || !fe_ok(is_same)) return by_scale;
  return fe_emit(OP_select, (const tn_tensor[]){is_same, one, by_scale}, 3, NULL, 0, a->at);
}

// Where each element of the result lies in x.
static tn_tensor places(tn_tensor x, bool copies, const Axis *a) {
  tn_tensor j = fe_positions(x.fn, a->out, a->at), in = size(x, a->in, a), out = size(x, a->out, a);
  if (!a->align) return plus(fe_binary(OP_mul, plus(j, 0.5, a), step(x, copies, a), a->at), -0.5, a);
  tn_tensor steps = fe_with_number(OP_max, plus(out, -1, a), 1, a->at);
  return fe_binary(OP_mul, j, fe_binary(OP_div, plus(in, -1, a), steps, a->at), a->at);
}

// Elements of x along the axis, `shift` behind those at `first`; what lies outside is the element at the edge.
static tn_tensor elements(tn_tensor x, tn_tensor first, int shift, const Axis *a) {
  tn_tensor at = fe_with_number(OP_max, shift ? plus(first, shift, a) : first, 0, a->at);
  at = fe_binary(OP_min, at, plus(size(x, a->in, a), -1, a), a->at);
  if (!fe_ok(at) || !fe_ok(x)) return fe_poison(x.fn);
  return fe_over_axis("tn_interpolate", OP_index_select, (tn_tensor[]){x, fe_cast(at, DT_I64, a->at)}, 2, (int)a->axis,
                      a->at);
}

static tn_tensor weighted(tn_tensor x, tn_tensor weight, const Axis *a) {
  Dim d[MAX_RANK] = {a->out};
  if (!fe_ok(x) || !fe_ok(weight)) return fe_poison(x.fn);
  for (uint32_t k = a->axis + 1; k < fe_rank(x); k++) d[k - a->axis] = ir_dim(x.fn->p->ir, 1);
  return fe_binary(OP_mul, x, fe_reshape(weight, d, fe_rank(x) - a->axis, a->at), a->at);
}

static tn_tensor nearest(tn_tensor x, const Axis *a) {
  tn_tensor at = fe_binary(OP_mul, fe_positions(x.fn, a->out, a->at), step(x, true, a), a->at);
  return elements(x, unary(OP_floor, at, a), 0, a);
}

static tn_tensor nearest_exact(tn_tensor x, const Axis *a) {
  tn_tensor middle = plus(fe_positions(x.fn, a->out, a->at), 0.5, a);
  return elements(x, unary(OP_floor, fe_binary(OP_mul, middle, step(x, false, a), a->at), a), 0, a);
}

static tn_tensor linear(tn_tensor x, const Axis *a) {
  tn_tensor at = fe_with_number(OP_max, places(x, true, a), 0, a->at), first = unary(OP_floor, at, a);
  tn_tensor t = fe_binary(OP_sub, at, first, a->at);
  tn_tensor before = weighted(elements(x, first, 0, a), plus(times(t, -1, a), 1, a), a);
  return fe_binary(OP_add, before, weighted(elements(x, first, 1, a), t, a), a->at);
}

// Keys' cubic convolution with -3/4: ((c[0] t + c[1]) t + c[2]) t + c[3], t from the element before the place.
static tn_tensor cubic(tn_tensor x, const Axis *a) {
  static const double c[4][4] = {
      {-0.75, 1.5, -0.75, 0}, {1.25, -2.25, 0, 1}, {-1.25, 1.5, 0.75, 0}, {0.75, -0.75, 0, 0}};
  tn_tensor at = places(x, false, a), first = unary(OP_floor, at, a), t = fe_binary(OP_sub, at, first, a->at),
            sum = {0};
  for (int k = 0; k < 4; k++) {
    tn_tensor w = plus(times(t, c[k][0], a), c[k][1], a);
    for (int n = 2; n < 4; n++) w = plus(fe_binary(OP_mul, w, t, a->at), c[k][n], a);
    tn_tensor part = weighted(elements(x, first, k - 1, a), w, a);
    sum = k ? fe_binary(OP_add, sum, part, a->at) : part;
  }
  return sum;
}

tn_tensor fe_resize_by_index(tn_tensor x, const FeResize *r) {
  static tn_tensor (*const filters[])(tn_tensor, const Axis *) = {
      [TN_NEAREST] = nearest, [TN_LINEAR] = linear, [TN_CUBIC] = cubic, [TN_NEAREST_EXACT] = nearest_exact};
  tn_tensor y = x;
  for (uint32_t k = 2; k < fe_rank(x) && fe_ok(y); k++) {
    if (!fe_steps_apart(x, k, "tn_interpolate", r->at)) return fe_poison(x.fn);
    Axis a = {k, fe_axis_dim(x, k), r->sizes[k - 2], r->scales[k - 2], r->align, r->at};
    if (a.in.i != a.out.i || a.scale != 0) y = filters[r->mode](y, &a);
  }
  return y;
}
