// Steps of the random generator: writes in place and updates of parameters.
#include "ir/build.h"
#include "ir/intern.h"
#include "ir/optimizers.h"
#include "ir/storage.h"
#include "tests/random_gen.h"

#include <string.h>

// ---- steps: writes. An update makes a version of a parameter that its handle does not show: from then on either the version
// alone is used, or a write makes the handle show it, as calls of the API do; what follows may read and write that again.
bool gen_is_param(Gen *g, Val v) { return ir_ins(g->f, v)->op == OP_param && gen_is_f32(g, v); }

static Val root_of(const Gen *g, Val v) {
  while (ir_is_alias((Op)ir_ins(g->f, v)->op)) v = ir_arg(g->f, v, 0);
  return v;
}

static void show(Gen *g, Val handle, Val version) {
  Attr no_grad = ir_a_int(KEY_no_grad, 1);
  gen_emit(g, OP_write, (Val[]){handle, version}, 2, &no_grad, 1);
}

static Val written(Gen *g, Val old, Val next) {
  if (ir_none(next)) return next;
  if (gen_chance(g, 60)) {
    show(g, old, next);
    return old;
  }
  for (uint32_t k = g->n; k-- > 0;)
    if (root_of(g, g->pool[k].v).i == old.i) gen_forget(g, g->pool[k].v);
  return gen_keep(g, next, 3);
}

void add_assign(Gen *g) {
  Val w = gen_pick_where(g, gen_is_param);
  if (ir_none(w)) return;
  Val src =
      gen_chance(g, 50) ? gen_op2(g, OP_add, w, gen_leaf(g, gen_shape_at(g, w))) : gen_leaf(g, gen_shape_at(g, w));
  if (gen_chance(g, 30)) src = gen_number(g, 0.5);
  written(g, w, gen_op2(g, OP_assign, w, src));
}

void add_clone(Gen *g) {
  Val v = gen_pick_any(g);
  if (!ir_none(v)) gen_keep(g, gen_op1(g, OP_clone, v), gen_mag(g, v));
}

bool gen_may_be_written(Gen *g, Val v) {
  Val root = root_of(g, v);
  return gen_is_f32(g, v) && ir_ins(g->f, root)->op != OP_const && ir_ins(g->f, root)->op != OP_dim_size;
}

void gen_write(Gen *g, Val v, Val x) {
  bool no_grad = gen_chance(g, 30) || ir_ins(g->f, root_of(g, v))->op == OP_param;
  Attr a = ir_a_int(KEY_no_grad, 1);
  gen_emit(g, OP_write, (Val[]){v, x}, 2, &a, no_grad);
}

// y op= x, and copies over a view.
void add_write(Gen *g) {
  Val v = gen_pick_where(g, gen_may_be_written), x = {0};
  if (ir_none(v)) return;
  switch (gen_below(g, 4)) {
  case 0: x = gen_op1(g, OP_tanh, v); break;
  case 1: x = gen_op2(g, OP_add, v, gen_leaf(g, gen_shape_at(g, v))); break;
  case 2: x = gen_leaf(g, gen_shape_at(g, v)); break;
  default:
    for (uint32_t k = 0; k < g->n; k++)
      if (gen_is_f32(g, g->pool[k].v) && g->pool[k].v.i != v.i &&
          gen_shape_at(g, g->pool[k].v).i == gen_shape_at(g, v).i)
        x = g->pool[k].v;
  }
  if (ir_none(x) || gen_shape_at(g, x).i != gen_shape_at(g, v).i) return;
  gen_write(g, v, x);
}

void add_slice_assign(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  uint32_t axis = gen_below(g, d.n);
  if (!ir_dim_is_const(g->p, d.d[axis])) return;
  int64_t n = ir_dim_bound(g->p, d.d[axis]), start = gen_below(g, (uint32_t)n + 1),
          size = gen_below(g, (uint32_t)(n - start) + 1);
  d.d[axis] = ir_dim(g->p, size);
  Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(g->p, start))};
  gen_keep(g, gen_emit(g, OP_slice_assign, (Val[]){v, gen_leaf(g, gen_shape(g, &d))}, 2, a, 2), gen_mag(g, v) + 2);
}

void add_slice_assign_at(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  uint32_t axis = gen_below(g, d.n);
  if (!ir_dim_is_const(g->p, d.d[axis])) return;
  Attr a[4];
  int64_t count, room;
  uint32_t n = gen_slice_at(g, axis, ir_dim_bound(g->p, d.d[axis]), a, &count, &room);
  d.d[axis] = ir_dim(g->p, count);
  Val part = gen_leaf(g, gen_shape(g, &d)), at = gen_start(g, room);
  gen_keep(g, gen_emit(g, OP_slice_assign, (Val[]){v, part, at}, 3, a, n), gen_mag(g, v) + 2);
}

void add_index_assign(Gen *g) {
  Val v = gen_pick_where(g, gen_any_row);
  if (ir_none(v)) return;
  Dims d = gen_dims(g, v);
  if (!ir_dim_is_const(g->p, d.d[0]) || ir_dim_bound(g->p, d.d[0]) < 1 || g->f->n_inputs >= MAX_INPUTS) return;
  Dim n = gen_chance(g, 30) ? g->any : ir_dim(g->p, gen_below(g, 6));
  d.d[0] = n;
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Val index = gen_input(g, "index", DT_I64, ir_shape(g->p, &n, 1)), rows = gen_leaf(g, gen_shape(g, &d));
  gen_keep(g, gen_emit(g, OP_index_assign, (Val[]){v, index, rows}, 3, NULL, 0), gen_mag(g, v) + 2);
}

static Val gradient_for(Gen *g, Val w) {
  for (uint32_t k = g->n; k-- > 0;) {
    Val v = g->pool[k].v;
    if (v.i != w.i && gen_is_f32(g, v) && gen_shape_at(g, v).i == gen_shape_at(g, w).i &&
        ir_ins(g->f, v)->op != OP_param)
      return v;
  }
  return gen_leaf(g, gen_shape_at(g, w));
}

// ---- updates: a row of ir/optimizers.def, with states and numbers by the names of its operands
static bool is_update(Op op) { return ir_ops[op].cls == CLASS_OPTIMIZER && ir_op_operand(op, ARG_grad) != UINT32_MAX; }

static Op any_update(Gen *g) {
  uint32_t n = 0;
  Op list[N_OPS];
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    if (is_update((Op)op)) list[n++] = (Op)op;
  return list[gen_below(g, n)];
}

// What roots are taken of is not negative, nor is a variance, the mean square less the square of the mean.
static Val state_of(Gen *g, ArgName name, Shape s) {
  bool is_signed = name == ARG_exp_avg || name == ARG_momentum_buffer;
  Val v = gen_param(g, is_signed ? "m" : name == ARG_grad_avg ? "little" : "pos", s);
  gen_forget(g, v);
  return v;
}

static Val number_of(Gen *g, ArgName name) {
  switch (name) {
  case ARG_step: return gen_number(g, 1 + gen_below(g, 12));
  case ARG_mu_product: return gen_number(g, 0.375);
  case ARG_momentum: return gen_chance(g, 30) ? gen_leaf(g, (Shape){0}) : gen_number(g, 0.75);
  case ARG_weight_decay:
    return gen_chance(g, 30) ? gen_leaf(g, (Shape){0}) : gen_number(g, gen_chance(g, 50) ? 0.125 : 0);
  case ARG_when: return gen_number(g, gen_below(g, 2));
  default: return gen_chance(g, 50) ? gen_number(g, 0.125) : gen_leaf(g, (Shape){0});
  }
}

static bool takes(Op op, bool beta1, Key key) {
  const IrUpdate *row = ir_update_of(op, beta1);
  for (uint32_t k = 0; k < row->n_keys; k++)
    if (row->keys[k] == key) return true;
  return false;
}

static uint32_t update_attributes(Gen *g, Op op, bool beta1, Attr *a) {
  static const struct {
    Key key;
    double value;
  } numbers[] = {{KEY_beta1, 0.875}, {KEY_beta2, 0.95},   {KEY_eps, 1e-3},           {KEY_alpha, 0.75},
                 {KEY_rho, 0.75},    {KEY_lr_decay, 0.5}, {KEY_momentum_decay, 0.25}};
  uint32_t n = 0;
  for (uint32_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
    if (takes(op, beta1, numbers[k].key)) a[n++] = ir_a_num(numbers[k].key, numbers[k].value);
  bool is_nesterov = takes(op, beta1, KEY_nesterov) && gen_chance(g, 50);
  if (is_nesterov) a[n++] = ir_a_int(KEY_nesterov, 1);
  else if (takes(op, beta1, KEY_dampening) && gen_chance(g, 50)) a[n++] = ir_a_num(KEY_dampening, 0.25);
  if (takes(op, beta1, KEY_decoupled) && gen_chance(g, 50)) a[n++] = ir_a_int(KEY_decoupled, 1);
  return n;
}

// What an update takes beside its parameter: a gradient, or rows of one.
typedef struct {
  Val grad, index, factor, best;
  int64_t padding;  // -1: none
} Given;

static Val given_operand(const Given *of, ArgName name) {
  return name == ARG_index ? of->index : name == ARG_factor ? of->factor : name == ARG_best ? of->best : (Val){0};
}

static void update_by(Gen *g, Val w, const Given *of) {
  Op op = any_update(g);
  Val in[MAX_OPERANDS];
  uint32_t n = 0, n_kept = ir_ops[op].n_res;
  Shape s = gen_shape_at(g, w);
  bool has_when = gen_chance(g, 30), has_scale = gen_chance(g, 20);
  bool has_beta1 = ir_op_operand(op, ARG_beta1) != UINT32_MAX && gen_chance(g, 50);
  for (uint32_t k = 0; k < ir_ops[op].n_operands; k++) {
    ArgName name = (ArgName)ir_ops[op].operands[k].name;
    bool is_absent = (name == ARG_grad_scale && !has_scale) || name == ARG_owned || (name == ARG_when && !has_when) ||
                     (name == ARG_beta1 && !has_beta1);
    if (is_absent || (name >= ARG_index && name <= ARG_best)) in[n++] = given_operand(of, name);
    else in[n++] = k == 0 ? w : k < n_kept ? state_of(g, name, s) : k == n_kept ? of->grad : number_of(g, name);
  }
  while (n && ir_none(in[n - 1])) n--;
  Attr a[8];
  uint32_t n_attrs = update_attributes(g, op, has_beta1, a);
  if (of->padding >= 0) a[n_attrs++] = ir_a_int(KEY_padding, of->padding);
  Val new = gen_emit(g, op, in, n, a, n_attrs);
  if (ir_none(new)) return;
  for (uint32_t k = 1; k < n_kept; k++)
    if (gen_chance(g, 60)) show(g, in[k], (Val){new.i + k});
  written(g, w, new);
}

void add_optimizer(Gen *g) {
  Val w = gen_pick_where(g, gen_is_param);
  if (ir_none(w)) w = gen_param(g, "w", ir_shape_ints(g->p, (int64_t[]){gen_size(g), gen_size(g)}, 2));
  Given of = {.grad = gradient_for(g, w), .padding = -1};
  if (of.grad.i != w.i) update_by(g, w, &of);
}

// Of bags: where index has two axes. The rows of largest elements are those of the table before it changes.
static void make_bags(Gen *g, Val w, Given *of) {
  Dims d = gen_dims(g, of->index);
  Shape bags = ir_shape(g->p, (Dim[]){d.d[0], gen_dims(g, w).d[1]}, 2);
  Attr attr[] = {ir_a_int(KEY_max, 1), ir_a_int(KEY_padding, of->padding)};
  of->grad = gen_leaf(g, bags);
  if (gen_chance(g, 40)) of->factor = gen_leaf(g, gen_shape_at(g, of->index));
  else if (gen_chance(g, 50))
    of->best = gen_emit(g, OP_embedding_bag, (Val[]){w, of->index}, 2, attr, of->padding >= 0 ? 2 : 1);
  if (!ir_none(of->best)) of->best.i += 2;
}

// Rows that an index names, and no others
void add_optimizer_of_rows(Gen *g) {
  Dims table = {{ir_dim(g->p, 1 + gen_below(g, 20)), ir_dim(g->p, gen_size(g))}, 2};
  Val w = gen_pick_where(g, gen_any_table);
  if (ir_none(w) || !gen_is_param(g, w)) w = gen_param(g, "w", gen_shape(g, &table));
  table = gen_dims(g, w);
  int64_t n = ir_dim_bound(g->p, table.d[0]);
  Given of = {.index = n ? gen_index_below(g, n) : (Val){0}, .padding = -1};
  if (ir_none(of.index)) return;
  Dims d = gen_dims(g, of.index);
  if (gen_chance(g, 30)) of.padding = gen_below(g, (uint32_t)n);
  if (d.n == 2 && gen_chance(g, 60)) {
    make_bags(g, w, &of);
  } else {
    d.d[d.n++] = table.d[1];
    if (!gen_is_small(g, gen_shape(g, &d))) return;
    of.grad = gen_leaf(g, gen_shape(g, &d));
  }
  if (!ir_none(of.grad)) update_by(g, w, &of);
}

// As pass sparse_updates makes it of an update whose gradient is that of look-ups.
void add_sparse_optimizer(Gen *g) {
  Dims table = {{ir_dim(g->p, 1 + gen_below(g, 20)), ir_dim(g->p, gen_size(g))}, 2};
  Val w = gen_pick_where(g, gen_any_table), index;
  if (ir_none(w) || !gen_is_param(g, w)) w = gen_param(g, "w", gen_shape(g, &table));
  table = gen_dims(g, w);
  if (!ir_dim_bound(g->p, table.d[0])) return;
  index = gen_index_below(g, ir_dim_bound(g->p, table.d[0]));
  if (ir_none(index)) return;
  Dims d = gen_dims(g, index);
  d.d[d.n++] = table.d[1];
  if (!gen_is_small(g, gen_shape(g, &d))) return;
  Val m = gen_param(g, "m", gen_shape(g, &table)), q = gen_param(g, "pos", gen_shape(g, &table));
  gen_forget(g, m), gen_forget(g, q);
  Val rows = gen_leaf(g, gen_shape(g, &d)), step = gen_number(g, 1 + gen_below(g, 5)), rate = gen_number(g, 0.125);
  Attr a[] = {ir_a_num(KEY_beta1, 0.9), ir_a_num(KEY_beta2, 0.99), ir_a_num(KEY_eps, 1e-3), ir_a_int(KEY_decoupled, 1)};
  Val in[] = {w, m, q, index, rows, step, rate, gen_number(g, gen_chance(g, 50) ? 0.125 : 0)};
  written(g, w, gen_emit(g, OP_adamw_sparse, in, 8, a, 3 + gen_chance(g, 50)));
}

void add_norm(Gen *g) {
  Val arg[4];
  uint32_t n = 1 + gen_below(g, 4);
  double mag = 1;
  for (uint32_t k = 0; k < n; k++) arg[k] = gen_pick(g), mag += gen_mag(g, arg[k]) * 16;
  gen_keep_tame(g, gen_emit(g, OP_global_norm, arg, n, NULL, 0), mag);
}
