// Operands of public calls in random programs: values of the pool that fit, or new ones.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_calls.h"

static const tn_site here = {"random.c", 1};
static tn_tensor tensor_of(const Draw *d, Val v) { return ir_none(v) ? TN_NONE : (tn_tensor){d->f, v.i}; }
static Dims dims_of(const Draw *d, tn_tensor x) { return gen_dims(d->g, fe_val(x)); }

// ---- of any value
int64_t call_size(tn_tensor x, int axis) {
  int rank = (int)tn_rank(x);
  if (axis < 0) axis += rank;
  return axis < 0 || axis >= rank ? 0 : ir_dim_bound(x.fn->p->ir, fe_axis_dim(x, (uint32_t)axis));
}

int64_t call_constant(tn_tensor x, int axis) {
  int rank = (int)tn_rank(x);
  if (axis < 0) axis += rank;
  bool is_known = axis >= 0 && axis < rank && ir_dim_is_const(x.fn->p->ir, fe_axis_dim(x, (uint32_t)axis));
  return is_known ? call_size(x, axis) : 0;
}

double call_numel(tn_tensor x) { return fe_ok(x) ? (double)ir_shape_bound(x.fn->p->ir, fe_shape_of(x)) : 0; }
tn_tensor call_above(tn_tensor x, double least) { return (tn_add_scalar)((tn_abs)(x, here), least, here); }
tn_tensor call_as_f32(tn_tensor x) { return (tn_cast)(x, TN_F32, here); }
tn_tensor call_mask(tn_tensor x) { return (tn_gt)(x, (tn_full_like)(x, 0.1, here), here); }
tn_tensor call_mirrored(tn_tensor x) { return (tn_transpose)(x, -1, -2, here); }

// ---- new operands
static tn_tensor leaf_of(Draw *d, const Dims *dims) {
  Shape s = gen_shape(d->g, dims);
  return gen_is_small(d->g, s) ? tensor_of(d, gen_leaf(d->g, s)) : TN_NONE;
}

tn_tensor draw_leaf(Draw *d, const int64_t *sizes, uint32_t n) {
  Dims dims = {.n = n};
  for (uint32_t k = 0; k < n; k++) dims.d[k] = ir_dim(d->g->p, sizes[k]);
  return leaf_of(d, &dims);
}

tn_tensor draw_like(Draw *d, tn_tensor x) {
  Dims dims = dims_of(d, x);
  return leaf_of(d, &dims);
}

tn_tensor draw_like_but(Draw *d, tn_tensor x, int axis, int64_t size) {
  Dims dims = dims_of(d, x);
  dims.d[axis < 0 ? axis + (int)dims.n : axis] = ir_dim(d->g->p, size);
  return leaf_of(d, &dims);
}

tn_tensor draw_less(Draw *d, tn_tensor x, uint32_t n) {
  Dims dims = dims_of(d, x);
  dims.n -= n < dims.n ? n : dims.n;
  return leaf_of(d, &dims);
}

tn_tensor draw_ends(Draw *d, tn_tensor x, uint32_t n) {
  Dims dims = dims_of(d, x), end = {.n = n};
  for (uint32_t k = 0; k < n; k++) end.d[k] = dims.d[dims.n - n + k];
  return leaf_of(d, &end);
}

tn_tensor draw_partner(Draw *d) {
  Val v = gen_partner(d->g, fe_val(d->x));
  return gen_joint_is_small(d->g, v, fe_val(d->x)) ? tensor_of(d, gen_tame(d->g, v, 8)) : (tn_scalar)(d->f, 0.75, here);
}

// Inputs without a reader that says their range hold small numbers of either sign.
static tn_tensor numbers_below(Draw *d, Shape s, int64_t limit) {
  if (!gen_is_small(d->g, s) || !gen_may_be_input(d->g, s)) return TN_NONE;
  tn_tensor n = tensor_of(d, gen_input(d->g, "n", DT_I64, s));
  tn_tensor most = (tn_constant_i64)(d->f, &(int64_t){limit > 0 ? limit - 1 : 0}, TN_SCALAR, here);
  return (tn_min)((tn_abs)(n, here), most, here);
}

tn_tensor draw_index(Draw *d, const int64_t *sizes, uint32_t n, int64_t limit) {
  return numbers_below(d, ir_shape_ints(d->g->p, sizes, n), limit);
}

tn_tensor draw_index_of(Draw *d, tn_tensor x, uint32_t less, int64_t limit) {
  Dims dims = dims_of(d, x);
  dims.n -= less < dims.n ? less : dims.n;
  return numbers_below(d, gen_shape(d->g, &dims), limit);
}

// ---- sources
// The newest value is taken often: calls stand behind one another.
static tn_tensor pick(Draw *d, bool (*fits)(Gen *g, Val v)) {
  Gen *g = d->g;
  Val newest = g->n ? g->pool[g->n - 1].v : (Val){0};
  bool follows = gen_chance(g, 45) && !ir_none(newest) && fits(g, newest);
  Val v = follows ? newest : gen_pick_where(g, fits);
  for (int tries = 0; ir_none(v) && tries < 5; tries++) {
    Val new = gen_leaf(g, gen_random_shape(g));
    if (!ir_none(new) && fits(g, new)) v = new;
  }
  if (ir_none(v)) return TN_NONE;
  v = gen_tame(g, v, 20);
  bool is_packed = ir_rows_at(g->rows, v).layout && gen_chance(g, 50);
  if (is_packed) v = gen_op1(g, OP_rows, v), ir_set_rows(g->rows, v, (Rows){.is_plain = true});
  d->m = gen_mag(g, v);
  return tensor_of(d, v);
}

static bool is_known(const Gen *g, Dim n) { return ir_dim_is_const(g->p, n) && ir_dim_bound(g->p, n) > 0; }
static bool has_last(Gen *g, Val v) { return gen_any_row(g, v) && gen_last_size(g, v) > 0; }
static bool has_even(Gen *g, Val v) { return has_last(g, v) && gen_last_size(g, v) % 2 == 0; }
static bool has_pairs(Gen *g, Val v) { return has_last(g, v) && gen_last_size(g, v) == 2 && gen_any_matrix(g, v); }
static bool is_fixed(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  bool all = gen_any_row(g, v);
  for (uint32_t k = 0; k < d.n; k++) all &= is_known(g, d.d[k]);
  return all;
}
static bool is_vector(Gen *g, Val v) { return is_fixed(g, v) && gen_dims(g, v).n == 1; }
static bool is_plane(Gen *g, Val v) { return is_fixed(g, v) && gen_dims(g, v).n == 2; }

tn_tensor draw_nothing(Draw *d) { return (tn_scalar)(d->f, 0, here); }
tn_tensor draw_any(Draw *d) { return pick(d, gen_any_f32); }
tn_tensor draw_row(Draw *d) { return pick(d, gen_any_row); }
tn_tensor draw_matrix(Draw *d) { return pick(d, gen_any_matrix); }
tn_tensor draw_last(Draw *d) { return pick(d, has_last); }
tn_tensor draw_even(Draw *d) { return pick(d, has_even); }
tn_tensor draw_fixed(Draw *d) { return pick(d, is_fixed); }
tn_tensor draw_vector(Draw *d) { return pick(d, is_vector); }
tn_tensor draw_plane(Draw *d) { return pick(d, is_plane); }
tn_tensor draw_vector_or_plane(Draw *d) { return d->p ? draw_vector(d) : draw_plane(d); }

// [.., n, m] of at most two batch axes
static tn_tensor small_matrices(Draw *d, int64_t n, int64_t m) {
  Dims dims = {.n = gen_below(d->g, 3)};
  for (uint32_t k = 0; k < dims.n; k++)
    dims.d[k] = gen_chance(d->g, 50) ? gen_dim(d->g) : ir_dim(d->g->p, 1 + gen_below(d->g, 4));
  dims.d[dims.n++] = ir_dim(d->g->p, n), dims.d[dims.n++] = ir_dim(d->g->p, m);
  return leaf_of(d, &dims);
}

static int64_t some_size(Draw *d) {
  static const int64_t size[] = {1, 2, 2, 3, 3, 3, 4, 5, 6, 8, 9, 17};
  return size[gen_below(d->g, sizeof size / sizeof *size)];
}

static tn_tensor with_diagonal(Draw *d, tn_tensor a, int64_t n, double first, double step) {
  tn_tensor on = (tn_arange)(d->f, first, step, tn_dim_const(n), TN_F32, here);
  return (tn_add)(a, (tn_diag_embed)(on, 0, here), here);
}

static tn_tensor little_matrices(Draw *d, int64_t n, double size) {
  tn_tensor x = small_matrices(d, n, n);
  return fe_ok(x) ? (tn_mul_scalar)((tn_tanh)(x, here), size / (double)n, here) : x;
}

tn_tensor draw_square(Draw *d) {
  int64_t n = some_size(d);
  d->m = 1.5;
  tn_tensor a = little_matrices(d, n, 0.5);
  return fe_ok(a) ? with_diagonal(d, a, n, 1, 0) : a;
}

tn_tensor draw_apart(Draw *d) {
  int64_t n = some_size(d);
  d->m = (double)n + 1;
  tn_tensor a = little_matrices(d, n, 0.25);
  if (fe_ok(a) && d->p) a = (tn_add)(a, call_mirrored(a), here);
  return fe_ok(a) ? with_diagonal(d, a, n, 1, 1) : a;
}

tn_tensor draw_definite(Draw *d) {
  int64_t n = some_size(d);
  d->m = 3;
  tn_tensor a = little_matrices(d, n, 1);
  return fe_ok(a) ? with_diagonal(d, (tn_matmul)(a, call_mirrored(a), here), n, 1, 0) : a;
}

tn_tensor draw_complex_row(Draw *d) {
  if (gen_chance(d->g, 50)) {
    tn_tensor x = pick(d, has_pairs);
    if (fe_ok(x)) return x;
  }
  d->m = 2;
  return small_matrices(d, 1 + gen_below(d->g, 17), 2);
}

tn_tensor draw_whole(Draw *d) {
  Shape s = gen_random_shape(d->g);
  d->m = 5;
  return gen_may_be_input(d->g, s) ? tensor_of(d, gen_input(d->g, "n", DT_I64, s)) : TN_NONE;
}

// ---- images, with channels first, now and then as a permutation of channels last
static bool is_image(Gen *g, Val v, uint32_t rank) {
  Dims d = gen_dims(g, v);
  bool fits = gen_is_f32(g, v) && d.n == rank && is_known(g, d.d[1]);
  for (uint32_t k = 2; k < d.n; k++)  // an image without elements is refused by some calls
    fits &= (is_known(g, d.d[k]) || d.d[k].i == g->time.i) && ir_dim_bound(g->p, d.d[k]) <= 16;
  return fits;
}
static bool is_image1(Gen *g, Val v) { return is_image(g, v, 3); }
static bool is_image2(Gen *g, Val v) { return is_image(g, v, 4); }
static bool is_image3(Gen *g, Val v) { return is_image(g, v, 5); }

static tn_tensor image_of(Draw *d, bool (*fits)(Gen *g, Val v), uint32_t spatial) {
  Gen *g = d->g;
  Val v = gen_chance(g, 50) ? gen_pick_where(g, fits) : (Val){0};
  if (!ir_none(v)) {
    v = gen_tame(g, v, 8);
    d->m = gen_mag(g, v);
    return tensor_of(d, v);
  }
  Dims dims = {.n = spatial + 2};
  dims.d[0] = gen_chance(g, 40) ? gen_dim(g) : ir_dim(g->p, 1 + gen_below(g, 3));
  Dim channels = ir_dim(g->p, 1 + gen_below(g, 6));
  for (uint32_t k = 2; k < dims.n; k++)
    dims.d[k] = gen_chance(g, 12) ? g->time : ir_dim(g->p, 1 + gen_below(g, spatial > 2 ? 4 : 9));
  bool is_last = gen_chance(g, 30);
  for (uint32_t k = 1; is_last && k + 1 < dims.n; k++) dims.d[k] = dims.d[k + 1];
  dims.d[is_last ? dims.n - 1 : 1] = channels;
  tn_tensor x = leaf_of(d, &dims);
  d->m = 2;
  return fe_ok(x) && is_last ? (tn_movedim)(x, -1, 1, here) : x;
}

tn_tensor draw_image1(Draw *d) { return image_of(d, is_image1, 1); }
tn_tensor draw_image2(Draw *d) { return image_of(d, is_image2, 2); }
tn_tensor draw_image3(Draw *d) { return image_of(d, is_image3, 3); }
tn_tensor draw_image1_or_2(Draw *d) { return d->p ? draw_image1(d) : draw_image2(d); }
tn_tensor draw_image2_or_3(Draw *d) { return d->i % 4 ? draw_image2(d) : draw_image3(d); }

tn_tensor draw_packed(Draw *d) {
  const Layout *l = d->g->in_scan ? NULL : gen_some_layout(d->g);  // a body makes no layouts
  Val v = l ? gen_rows_of(d->g, l, gen_chance(d->g, 60)) : (Val){0};
  if (ir_none(v) || !gen_is_f32(d->g, v)) return TN_NONE;
  v = gen_tame(d->g, v, 8);
  d->m = gen_mag(d->g, v);
  d->s = (tn_packed){tensor_of(d, v), tensor_of(d, l->v)};
  return d->s.data;
}
