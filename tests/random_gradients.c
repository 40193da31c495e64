// Steps of the random generator: gradients that are asked for, and ops that are otherwise made by pass grad alone.
#include "ir/autodiff/autodiff.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

// ---- steps: gradients
Val gen_scalar_of(Gen *g, Val v) {
  int64_t axes[MAX_RANK];
  uint32_t n = ir_rank(g->p, gen_shape_at(g, v));
  if (!n) return v;
  if (gen_chance(g, 60)) v = gen_op2(g, OP_mul, v, gen_chance(g, 50) ? v : gen_number(g, 0.5));
  for (uint32_t k = 0; k < n; k++) axes[k] = k;
  Attr a = ir_a_list(KEY_axes, ir_shape_ints(g->p, axes, n));
  return gen_emit(g, OP_sum, &v, 1, &a, 1);
}

static bool any_deep(Gen *g, Val v) {
  if (!gen_is_f32(g, v)) return false;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) return g->pool[k].depth > 1;
  return false;
}

static bool any_gradient(Gen *g, Val v) { return ir_ins(g->f, v)->op == OP_grad_of; }

// On the way lies what passes make of ops that have gradients of all orders: it has none of its own.
static bool meets_no_rule(const Gen *g, const bool *reach) {
  for (uint32_t i = 1; i < g->f->n_ins; i++) {
    Op op = (Op)ir_ins(g->f, ir_head(g->f, (Val){i}))->op;
    bool has_none = op == OP_rnn_seq_grad || op == OP_sdpa_grad || op == OP_sdpa_bias_grad || op == OP_moments;
    if (reach[i] && has_none) return true;
  }
  return false;
}

// The loss with a gradient replaced on the way, by one that is as large: differences hold.
static Val hooked(Gen *g, Val loss, const bool *reach, const Val *target, uint32_t n) {
  Val x = n ? target[gen_below(g, n)] : (Val){0};
  if (ir_none(x) || !gen_is_f32(g, x) || !reach[x.i] || x.i == loss.i || !gen_chance(g, 30)) return loss;
  if (ir_ins(g->f, ir_head(g->f, x))->n_res > 1) return loss;
  Val d = gen_op2(g, OP_grad_of, loss, x);
  gen_keep(g, d, 50);
  return gen_emit(g, OP_grad_replace, (Val[]){loss, x, gen_op2(g, OP_mul, d, gen_number(g, 1))}, 3, NULL, 0);
}

static void gradients_of(Gen *g, Val v) {
  Val loss = ir_none(v) ? v : gen_scalar_of(g, v);
  if (ir_none(loss)) return;
  GradReach reach = {0};
  ir_grad_reach(g->f, loss, &reach);
  if (meets_no_rule(g, reach.has)) return;
  uint32_t n = g->n, made = 0;
  Val target[MAX_POOL];
  for (uint32_t k = 0; k < n; k++) target[k] = g->pool[k].v;
  Val of = hooked(g, loss, reach.has, target, n);
  for (uint32_t k = 0; k < n && made < 5; k++) {
    if (!gen_is_f32(g, target[k]) || !reach.has[target[k].i] || target[k].i == loss.i || !gen_chance(g, 50)) continue;
    if (ir_ins(g->f, ir_head(g->f, target[k]))->n_res > 1) continue;  // the loss may depend on another result
    gen_keep(g, gen_op2(g, OP_grad_of, of, target[k]), 50);
    made++;
  }
}

// And of a gradient, right behind it or many steps later.
void add_grads(Gen *g) {
  gradients_of(g, gen_pick_where(g, gen_chance(g, 25) ? any_gradient : any_deep));
  if (gen_chance(g, 40)) gradients_of(g, gen_pick_where(g, any_gradient));
}

// ---- ops that pass grad makes, of any operands that fit
static Val like(Gen *g, Val v) { return gen_leaf(g, gen_shape_at(g, v)); }

static Val row_scalars(Gen *g, Val v) {
  Dims d = gen_without_last(g, v);
  return gen_leaf(g, gen_shape(g, &d));
}

static void add_softmax_gradient(Gen *g, Val v) {
  Op op = gen_chance(g, 50) ? OP_softmax_grad : OP_log_softmax_grad;
  Val y = gen_tame(g, v, 3), d = like(g, v);
  Attr axis = ir_a_int(KEY_axis, gen_below(g, gen_dims(g, v).n));
  gen_keep_tame(g, gen_emit(g, op, (Val[]){y, d}, 2, &axis, gen_chance(g, 50)), 200);
}

static void add_label_gradient(Gen *g, Val v) {
  if (gen_last_size(g, v) < 1) return;
  Val x = gen_tame(g, v, 3), in[] = {x, gen_labels(g, x), row_scalars(g, x), row_scalars(g, x)};
  Attr ignore = ir_a_int(KEY_ignore, (int64_t)gen_below(g, 3) - 1);
  gen_keep_tame(g, gen_emit(g, OP_cross_entropy_rows_grad, in, 4, &ignore, gen_chance(g, 30)), 200);
}

static void add_norm_gradient(Gen *g, Val v) {
  if (gen_last_size(g, v) < 2) return;
  bool layer = gen_chance(g, 50), weighs = gen_chance(g, 60), along = !weighs && gen_chance(g, 50);
  Dim width = ir_dim(g->p, gen_last_size(g, v));
  Val x = gen_tame(g, v, 3), in[5] = {x};
  uint32_t n = 1;
  Dims numbers = gen_dims(g, x);
  uint32_t axis = along ? (uint32_t)gen_below(g, numbers.n) : numbers.n - 1;
  numbers.n--;
  for (uint32_t k = axis; k < numbers.n; k++) numbers.d[k] = numbers.d[k + 1];
  if (layer) in[n++] = gen_leaf(g, gen_shape(g, &numbers));
  in[n++] = gen_leaf(g, gen_shape(g, &numbers)), in[n++] = like(g, x);
  Attr attr = ir_a_int(KEY_axis, axis);
  if (weighs) in[n++] = gen_leaf(g, ir_shape(g->p, &width, 1));
  gen_keep_tame(g, gen_emit(g, layer ? OP_layer_norm_grad : OP_rms_norm_grad, in, n, &attr, along), 500);
}

void add_row_gradient(Gen *g) {
  static void (*const kinds[])(Gen *g, Val v) = {add_softmax_gradient, add_label_gradient, add_norm_gradient};
  Val v = gen_pick_where(g, gen_any_row);
  if (!ir_none(v)) kinds[gen_below(g, 3)](g, v);
}

void add_lookup_gradient(Gen *g) {
  Dims table = {{ir_dim(g->p, 1 + gen_below(g, 20)), ir_dim(g->p, gen_size(g))}, 2};
  Val w = gen_leaf(g, gen_shape(g, &table)), index = gen_index_below(g, ir_dim_bound(g->p, table.d[0]));
  if (ir_none(index)) return;
  Dims d = gen_dims(g, index);
  d.d[d.n++] = table.d[1];
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Val rows = gen_leaf(g, gen_shape(g, &d));
  Val in[4] = {w, index, rows}, other = gen_op2(g, OP_mul, w, w);
  uint32_t kind = gen_below(g, 3);  // alone, added to the other, or by an add that pass sparse_updates takes away
  if (kind == 1) in[3] = other;
  Val sum = gen_emit(g, OP_embedding_grad, in, kind == 1 ? 4 : 3, NULL, 0);
  gen_keep_tame(g, kind == 2 ? gen_op2(g, OP_add, other, sum) : sum, 20);
}

static void add_scatter(Gen *g, const Layout *l) {
  Val x = gen_per_sequence(g, l);
  if (ir_none(x)) return;
  Dims d = gen_dims(g, x);
  d.d[0] = l->rows;
  Attr first = ir_a_int(KEY_first, 1);
  bool steps = gen_is_f32(g, x) && gen_may_be_input(g, gen_shape_at(g, x)) && gen_chance(g, 50);
  Val step = steps ? gen_input(g, "step", DT_I64, gen_shape_at(g, x)) : (Val){0};
  if (gen_is_small(g, gen_shape(g, &d)))
    gen_keep(g, gen_emit(g, OP_seq_scatter, (Val[]){x, l->v, step}, 3, &first, !steps && gen_chance(g, 50)),
             gen_mag(g, x));
}

void add_packed_gradient(Gen *g) {
  const Layout *l = gen_some_layout(g);
  if (!l) return;
  if (gen_chance(g, 50)) {
    add_scatter(g, l);
    return;
  }
  Val y = gen_rows_of(g, l, false);
  if (ir_none(y) || !gen_is_f32(g, y)) return;
  Val x = gen_tame(g, y, 3), d = like(g, x);
  gen_keep_tame(g, gen_emit(g, OP_seq_softmax_grad, (Val[]){x, l->v, d}, 3, NULL, 0), 100);
}

// ---- networks
static Val layer_of(Gen *g, Val v, uint32_t width, const Val *earlier, uint32_t n) {
  Attr eps = ir_a_num(KEY_eps, 0.1), axis = ir_a_int(KEY_axis, ir_rank(g->p, gen_shape_at(g, v)) - 1);
  Val weight = {0};
  switch (gen_below(g, 8)) {
  case 0: return gen_row(g, v);
  case 1: return gen_keep(g, gen_emit(g, OP_softmax, &v, 1, &axis, 0), 1);
  case 2:
  case 3: {
    Dim size = ir_dim(g->p, width);
    bool is_layer = gen_chance(g, 60), weighs = gen_chance(g, 50);
    if (weighs) weight = gen_leaf(g, ir_shape(g->p, &size, 1));
    Op op = is_layer ? OP_layer_norm : OP_rms_norm;
    return gen_keep(g, gen_emit(g, op, (Val[]){v, weight}, 1 + weighs, &eps, 1), 8);
  }
  case 4:
  case 5: return gen_keep(g, gen_op2(g, OP_add, v, earlier[gen_below(g, n)]), gen_mag(g, v) + 8);
  default: return gen_linear(g, v, width, gen_chance(g, 60));
  }
}

// The mean of v's squares in each row: with the norm before it one kernel that makes both.
static Val size_of_rows(Gen *g, Val v) {
  int64_t last = ir_rank(g->p, gen_shape_at(g, v)) - 1;
  Attr a = ir_a_list(KEY_axes, ir_shape_ints(g->p, &last, 1));
  Val square = gen_op2(g, OP_mul, v, v);
  return gen_emit(g, OP_mean, &square, 1, &a, 1);
}

// Layers of one width, now and then with sizes of their rows in the loss; then gradients.
void gen_add_network(Gen *g) {
  enum { MAX_LAYERS = 8 };
  uint32_t width = 2 + gen_below(g, 40), n = 3 + gen_below(g, MAX_LAYERS - 3);
  Dims d = {{gen_dim(g), ir_dim(g->p, width)}, 2};
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Val layer[MAX_LAYERS + 1] = {gen_leaf(g, gen_shape(g, &d))}, loss = gen_number(g, 0);
  uint32_t made = 1;
  while (made <= n) {
    Val v = layer_of(g, gen_tame(g, layer[made - 1], 20), width, layer, made);
    if (ir_none(v) || gen_shape_at(g, v).i != gen_shape_at(g, layer[0]).i) break;
    layer[made++] = v;
    if (gen_chance(g, 30)) loss = gen_op2(g, OP_add, loss, gen_scalar_of(g, size_of_rows(g, v)));
  }
  // By weights of its own: the total of normed rows is the same whatever they are.
  Val last = layer[made - 1], weighed = gen_op2(g, OP_mul, last, gen_leaf(g, gen_shape_at(g, last)));
  loss = gen_op2(g, OP_add, loss, gen_scalar_of(g, weighed));
  if (!ir_none(loss)) gradients_of(g, gen_keep(g, loss, 50));
}
