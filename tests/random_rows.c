// Steps of the random generator: reductions, ops that work on rows, products, look-ups.
#include "ir/build.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

#include <math.h>
#include <string.h>

// ---- steps: reductions and rows
void add_reduce(Gen *g) {
  Val v = gen_pick(g);
  int64_t axes[MAX_RANK];
  uint32_t n = 0, rank = ir_rank(g->p, gen_shape_at(g, v));
  double count = 1;
  for (uint32_t k = 0; k < rank; k++)
    if (gen_chance(g, 45)) {
      axes[n++] = k;
      count *= (double)ir_dim_bound(g->p, ir_dim_at(g->p, gen_shape_at(g, v), k));
    }
  Op op = gen_chance(g, 55) ? OP_sum : gen_chance(g, 20) ? OP_mean : gen_chance(g, 70) || count > 8 ? OP_amax : OP_prod;
  Attr a[2] = {ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n)), ir_a_int(KEY_keepdim, 1)};
  if (op == OP_prod) v = gen_tame(g, v, 1.5);
  double mag = op == OP_prod ? pow(1.5, count) : gen_mag(g, v) * (op == OP_sum ? sqrt(count) + 1 : 1);
  gen_keep_tame(g, gen_emit(g, op, &v, 1, a, gen_chance(g, 40) ? 2 : 1), mag);
}

static int64_t size_of_axis(const Gen *g, Val v, uint32_t axis) {
  Dim d = ir_dim_at(g->p, gen_shape_at(g, v), axis);
  return ir_dim_is_const(g->p, d) ? ir_dim_bound(g->p, d) : 0;
}

int64_t gen_last_size(const Gen *g, Val v) { return size_of_axis(g, v, ir_rank(g->p, gen_shape_at(g, v)) - 1); }

static void add_argmax(Gen *g, Val v, uint32_t axis) {
  int64_t n = size_of_axis(g, v, axis);
  if (n < 1) return;
  Attr attr[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_least, 1)};
  Val y = gen_keep(g, gen_emit(g, OP_argmax, &v, 1, attr, gen_chance(g, 30) ? 2 : 1), 1);
  if (!ir_none(y)) g->pool[g->n - 1].below = n;
}

void add_softmax(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v)) return;
  Op op = (Op[]){OP_softmax, OP_log_softmax, OP_argmax}[gen_below(g, 3)];
  double mag = op == OP_log_softmax ? gen_mag(g, v) * 2 + 4 : 1;
  uint32_t rank = ir_rank(g->p, gen_shape_at(g, v)), axis = (uint32_t)gen_below(g, (int64_t)rank);
  if (gen_chance(g, 50)) axis = rank - 1;
  Attr attr = ir_a_int(KEY_axis, axis);
  if (op == OP_argmax) add_argmax(g, v, axis);
  else gen_keep(g, gen_emit(g, op, &v, 1, &attr, axis + 1 < rank), mag);
}

// Without weights, along any axis.
static void add_norm_along(Gen *g, Val v) {
  uint32_t axis = (uint32_t)gen_below(g, gen_dims(g, v).n);
  if (size_of_axis(g, v, axis) < 2) return;
  Attr attr[] = {ir_a_num(KEY_eps, 0.1), ir_a_int(KEY_axis, axis)};
  gen_keep(g, gen_emit(g, gen_chance(g, 60) ? OP_layer_norm : OP_rms_norm, &v, 1, attr, 2), 8);
}

void add_row_norm(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row), in[3];
  if (!ir_none(v) && gen_chance(g, 30)) {
    add_norm_along(g, v);
    return;
  }
  if (ir_none(v) || gen_last_size(g, v) < 2) return;
  Dim width = ir_dim(g->p, gen_last_size(g, v));
  bool layer = gen_chance(g, 60);
  uint32_t n = 1 + (uint32_t)gen_below(g, layer ? 3 : 2);
  in[0] = v;
  for (uint32_t k = 1; k < n; k++) in[k] = gen_leaf(g, ir_shape(g->p, &width, 1));
  Attr eps = ir_a_num(KEY_eps, 0.1);
  gen_keep(g, gen_emit(g, layer ? OP_layer_norm : OP_rms_norm, in, n, &eps, 1), 8);
}

// An operand that is broadcast to the axes d: of axes from some on, of size 1 from another on
static Val leaf_beside(Gen *g, Dims d) {
  uint32_t from = (uint32_t)gen_below(g, d.n), to = (uint32_t)gen_below(g, d.n + 1);
  for (uint32_t k = to; k < d.n; k++) d.d[k] = ir_dim(g->p, 1);
  memmove(d.d, d.d + from, (d.n - from) * sizeof *d.d);
  d.n -= from;
  return gen_leaf(g, gen_shape(g, &d));
}

static Val scaled_under(Gen *g, Val v, Dims d) {
  Attr shape = ir_a_list(KEY_shape, gen_shape(g, &d));
  Val in[2] = {gen_emit(g, OP_reshape, &v, 1, &shape, 1)};
  if (ir_none(in[0]) || ir_none(in[1] = leaf_beside(g, d))) return (Val){0};
  return gen_emit(g, gen_chance(g, 60) ? OP_mul : OP_add, in, 2, NULL, 0);
}

static Val moved_axis(Gen *g, Val v, bool to_last) {
  uint32_t rank = gen_dims(g, v).n;
  int64_t perm[MAX_RANK];
  for (uint32_t k = 0; k < rank; k++) perm[k] = to_last ? ir_axis_in_last(rank, k) : ir_axis_in_first(rank, k);
  Attr attr = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, rank));
  return gen_emit(g, OP_permute, &v, 1, &attr, 1);
}

static Val image_of_some(Gen *g) {
  Dims d = {.n = 3 + (uint32_t)gen_below(g, 2)};
  for (uint32_t k = 0; k < d.n; k++) d.d[k] = ir_dim(g->p, 1 + gen_below(g, k ? 6 : 3));
  return gen_leaf(g, gen_shape(g, &d));
}

// Rows of the channels of an image that has them first, and numbers for each channel beside elements of the image.
void add_rows_of_channels(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row), in[3];
  if (ir_none(v) || gen_dims(g, v).n < 3) v = image_of_some(g);
  Dims d = gen_dims(g, v), one = {.n = d.n - 1};
  Dim channels = d.d[1];
  if (!ir_dim_is_const(g->p, channels) || ir_dim_bound(g->p, channels) < 2) return;
  for (uint32_t k = 0; k < one.n; k++) one.d[k] = k ? ir_dim(g->p, 1) : channels;
  if (ir_none(in[0] = moved_axis(g, v, true))) return;
  Op op = (Op[]){OP_layer_norm, OP_layer_norm, OP_rms_norm, OP_softmax}[gen_below(g, 4)];
  uint32_t n = op == OP_softmax ? 1 : 1 + (uint32_t)gen_below(g, op == OP_layer_norm ? 3 : 2);
  for (uint32_t k = 1; k < n; k++) in[k] = gen_leaf(g, ir_shape(g->p, &channels, 1));
  Attr eps = ir_a_num(KEY_eps, 0.1);
  Val y = gen_emit(g, op, in, n, &eps, op != OP_softmax);
  if (ir_none(y) || ir_none(v = moved_axis(g, y, false))) return;
  if (gen_chance(g, 30)) gen_keep_tame(g, y, 8);
  if (gen_chance(g, 40)) v = gen_op2(g, gen_chance(g, 60) ? OP_mul : OP_add, v, gen_leaf(g, gen_shape(g, &one)));
  if (!ir_none(v)) gen_keep_tame(g, v, 16);
}

// Axes of v as one, rows along it, and elements under the old axes before and after: as a norm of groups.
void add_grouped_rows(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v), rows = d;
  uint32_t n = 1 + (uint32_t)gen_below(g, d.n);
  rows.n = d.n - n + 1;
  for (uint32_t k = rows.n; k < d.n; k++) rows.d[rows.n - 1] = ir_dim_mul(g->p, rows.d[rows.n - 1], d.d[k]);
  Attr shape = ir_a_list(KEY_shape, gen_shape(g, &rows)), eps = ir_a_num(KEY_eps, 0.1);
  bool norm = gen_chance(g, 50);
  if (gen_chance(g, 40)) v = scaled_under(g, v, d);
  if (ir_none(v)) return;
  v = gen_emit(g, OP_reshape, &v, 1, &shape, 1);
  if (!ir_none(v)) v = gen_emit(g, norm ? OP_layer_norm : OP_softmax, &v, 1, &eps, norm);
  if (!ir_none(v)) v = scaled_under(g, v, d);
  if (!ir_none(v)) gen_keep_tame(g, v, 8);
}

Dims gen_without_last(const Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  d.n--;
  return d;
}

Val gen_labels(Gen *g, Val logits) {
  Dims d = gen_without_last(g, logits);
  Shape s = gen_shape(g, &d);
  bool from_input = gen_may_be_input(g, s) && gen_chance(g, 80);
  return from_input ? gen_input(g, "label", DT_I64, s) : gen_op1(g, OP_argmax, logits);
}

void add_nll(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v) || gen_last_size(g, v) < 1) return;
  Attr ignore = ir_a_int(KEY_ignore, (int64_t)gen_below(g, 3) - 1);
  Val labels = gen_labels(g, v);
  Val loss = gen_emit(g, OP_cross_entropy_rows, (Val[]){v, labels}, 2, &ignore, gen_chance(g, 30));
  if (ir_none(loss)) return;
  gen_keep(g, loss, gen_mag(g, v) * 2 + 4);
  if (gen_chance(g, 30)) gen_keep(g, ir_result(loss, 1), gen_mag(g, v) + 4);
}

// ---- steps: products
void add_matmul(Gen *g) {
  Val a = gen_pick_where(g, gen_any_matrix);
  if (ir_none(a)) return;
  bool ta = gen_chance(g, 35), tb = gen_chance(g, 40), first = gen_chance(g, 70);
  Dims d = gen_dims(g, a), o = d;
  Dim n = gen_chance(g, 80) ? ir_dim(g->p, gen_size(g)) : gen_dim(g);
  // first: a is op(a) [m, k] and the other is [k, n]; else a is the right operand
  Dim k = first ? d.d[ta ? d.n - 2 : d.n - 1] : d.d[tb ? d.n - 1 : d.n - 2];
  Dim row = first ? k : n, col = first ? n : k;
  bool flip = first ? tb : ta;
  uint32_t lead = gen_chance(g, 50) ? 0 : d.n - 2;
  for (uint32_t j = 0; j < lead; j++)
    if (gen_chance(g, 30)) o.d[j] = ir_dim(g->p, 1);
  o.n = lead + 2;
  o.d[lead] = flip ? col : row, o.d[lead + 1] = flip ? row : col;
  Shape s = gen_shape(g, &o);
  int64_t each =
      ir_dim_bound(g->p, n) * ir_dim_bound(g->p, first ? d.d[ta ? d.n - 1 : d.n - 2] : d.d[tb ? d.n - 2 : d.n - 1]);
  for (uint32_t j = 0; j + 2 < d.n; j++) each *= ir_dim_bound(g->p, d.d[j]);
  if (!gen_is_small(g, s) || each > MAX_ELEMENTS) return;
  Val b = gen_leaf(g, s), arg[2] = {first ? a : b, first ? b : a};
  double terms = 1 + (double)ir_dim_bound(g->p, k);
  if (!ta && tb && gen_chance(g, 50)) {
    double apart = gen_mag(g, a) + 2;
    gen_keep_tame(g, gen_emit(g, OP_square_distances, arg, 2, NULL, 0), apart * apart * terms);
    return;
  }
  Attr attr[2];
  uint32_t n_attrs = 0;
  if (ta) attr[n_attrs++] = ir_a_int(KEY_ta, 1);
  if (tb) attr[n_attrs++] = ir_a_int(KEY_tb, 1);
  gen_keep_tame(g, gen_emit(g, OP_matmul, arg, 2, attr, n_attrs), gen_mag(g, a) * 2 * sqrt(terms));
}

// A batch of products of matrices whose axes lie permuted, as heads do: sizes of rows such that the product reads them there.
static void draw_perm(Gen *g, int64_t *perm) {
  uint32_t from = gen_chance(g, 80) ? 3 : 4;
  for (uint32_t k = 0; k < 4; k++) perm[k] = k;
  for (uint32_t k = 0; k < from; k++) {
    uint32_t j = gen_below(g, k + 1);
    int64_t axis = perm[k];
    perm[k] = perm[j], perm[j] = axis;
  }
  if (gen_chance(g, 25)) {
    for (uint32_t k = 0; k < 4; k++)
      if (perm[k] >= 2) perm[k] = 5 - perm[k];
  }
}

static Val permuted(Gen *g, Val v) {
  int64_t perm[4];
  draw_perm(g, perm);
  Attr attr = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, 4));
  return ir_none(v) ? v : gen_emit(g, OP_permute, &v, 1, &attr, 1);
}

// [batch .., rows, columns] of a permutation of a leaf; what else reads the permutation, sometimes
static Val some_heads(Gen *g, const Dim *batch, Dim rows, Dim columns) {
  int64_t perm[4];
  Dims d = {.n = 4};
  const Dim to[] = {gen_chance(g, 15) ? ir_dim(g->p, 1) : batch[0], batch[1], rows, columns};
  draw_perm(g, perm);
  for (uint32_t k = 0; k < 4; k++) d.d[perm[k]] = to[k];
  Shape s = gen_shape(g, &d);
  Val leaf = gen_is_small(g, s) ? gen_leaf(g, s) : (Val){0};
  Attr attr = ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, 4));
  Val v = ir_none(leaf) ? leaf : gen_emit(g, OP_permute, &leaf, 1, &attr, 1);
  if (!ir_none(v) && gen_chance(g, 15)) gen_keep(g, v, gen_mag(g, leaf));
  return v;
}

static Dim head_size(Gen *g) {
  if (gen_chance(g, 15)) return gen_dim(g);
  return ir_dim(g->p, gen_chance(g, 70) ? 15 + (int64_t)gen_below(g, 5) : gen_size(g));
}

void add_heads(Gen *g) {
  const Dim batch[] = {gen_chance(g, 30) ? gen_dim(g) : ir_dim(g->p, 1 + gen_below(g, 2)), ir_dim(g->p, 2)};
  Dim m = head_size(g), n = head_size(g), k = head_size(g);
  bool ta = gen_chance(g, 30), tb = gen_chance(g, 30);
  Val a = some_heads(g, batch, ta ? k : m, ta ? m : k), b = some_heads(g, batch, tb ? n : k, tb ? k : n);
  const Dims d = {.d = {batch[0], batch[1], m, n}, .n = 4};
  if (ir_none(a) || ir_none(b) || !gen_is_small(g, gen_shape(g, &d))) return;
  Attr attr[2];
  uint32_t n_attrs = 0;
  if (ta) attr[n_attrs++] = ir_a_int(KEY_ta, 1);
  if (tb) attr[n_attrs++] = ir_a_int(KEY_tb, 1);
  Val y = gen_emit(g, OP_matmul, (Val[]){a, b}, 2, attr, n_attrs);
  double mag = 4 * sqrt(1 + (double)ir_dim_bound(g->p, k));
  if (!ir_none(y) && gen_chance(g, 70)) y = permuted(g, y);
  if (!ir_none(y) && gen_chance(g, 30)) y = gen_op1(g, OP_tanh, y), mag = 1;
  if (!ir_none(y)) gen_keep_tame(g, y, mag);
}

// What nobody but a product reads.
static Val before_product(Gen *g, Val x) {
  Attr drop[] = {ir_a_num(KEY_p, 0.25), ir_a_int(KEY_id, g->p->next_id)};
  switch (gen_below(g, 6)) {
  case 0: return gen_op2(g, OP_mul, x, gen_number(g, 0.5));
  case 1: return gen_op1(g, OP_tanh, gen_op1(g, OP_neg, x));
  case 2: g->p->next_id++; return gen_emit(g, OP_dropout, &x, 1, drop, 2);
  default: return x;
  }
}

Val gen_linear(Gen *g, Val x, int64_t n, bool bias) {
  Shape s = gen_shape_at(g, x);
  Dim k = ir_dim_at(g->p, s, ir_rank(g->p, s) - 1);
  Dims w = {{ir_dim(g->p, n), k}, 2}, b = {{ir_dim(g->p, n)}, 1};
  if (!gen_is_small(g, gen_shape(g, &w)) || ir_shape_bound(g->p, s) / (ir_dim_bound(g->p, k) + 1) * n > MAX_ELEMENTS)
    return (Val){0};
  Val arg[3] = {before_product(g, x), gen_leaf(g, gen_shape(g, &w))};
  if (bias) arg[2] = gen_leaf(g, gen_shape(g, &b));
  Val y = gen_emit(g, OP_linear, arg, bias ? 3 : 2, NULL, 0);
  return gen_keep_tame(g, y, gen_mag(g, x) * 2 * sqrt(1 + (double)ir_dim_bound(g->p, k)) + 2);
}

void add_linear(Gen *g) {
  Val x = gen_pick_where(g, gen_any_row);
  if (ir_none(x)) return;
  int64_t n = gen_size(g);
  gen_linear(g, x, n, gen_chance(g, 60));
}

bool gen_any_table(Gen *g, Val v) {
  Dims d = gen_dims(g, v);
  return gen_is_f32(g, v) && d.n == 2 && ir_dim_is_const(g->p, d.d[0]) && ir_dim_bound(g->p, d.d[0]) > 0;
}

Val gen_index_below(Gen *g, int64_t limit) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].below && g->pool[k].below <= limit && gen_chance(g, 50)) return g->pool[k].v;
  for (int tries = 0; tries < 8; tries++) {
    Shape s = gen_random_shape(g);
    if (ir_rank(g->p, s) < 4 && ir_shape_bound(g->p, s) <= 64 && gen_may_be_input(g, s))
      return gen_input(g, "index", DT_I64, s);
  }
  return (Val){0};
}

void add_embedding(Gen *g) {
  Val w = gen_pick_where(g, gen_any_table);
  if (ir_none(w)) w = gen_leaf(g, ir_shape_ints(g->p, (int64_t[]){1 + gen_below(g, 20), gen_size(g)}, 2));
  if (!gen_any_table(g, w)) return;
  Dims d = gen_dims(g, w);
  Val index = gen_index_below(g, ir_dim_bound(g->p, d.d[0]));
  if (ir_none(index)) return;
  if (ir_shape_bound(g->p, gen_shape_at(g, index)) * ir_dim_bound(g->p, d.d[1]) > MAX_ELEMENTS) return;
  gen_keep(g, gen_op2(g, OP_embedding, w, index), gen_mag(g, w));
}
