// Steps of the random generator: attention in each form of its operands, and its gradient.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

typedef struct {
  Dim batch, heads, kv_heads, tq, tk, size;
  uint32_t n;  // tensor operands
  bool inside, is_led;
  Dim rows, kv_rows;      // packed
  Val layout, kv_layout;  // of packed rows, of those of the keys where it is another one; else none
} Form;

static Shape shape_of(Gen *g, const Form *s, uint32_t operand) {
  Dim t = operand ? s->tk : s->tq, parts = ir_dim(g->p, s->n == 1 ? 3 : 2);
  Dim heads = operand ? s->kv_heads : s->heads;
  if (!ir_none(s->layout)) {
    Dims row = {{operand ? s->kv_rows : s->rows, heads, s->size}, 3};
    if (s->n == 1 || (s->n == 2 && operand)) row = (Dims){{row.d[0], parts, heads, s->size}, 4};
    return gen_shape(g, &row);
  }
  Dims d = {{s->batch, heads, t, s->size}, 4};
  if (s->inside) d = (Dims){{s->batch, t, heads, s->size}, 4};
  if (s->n == 1 || (s->n == 2 && operand)) d = (Dims){{s->batch, t, parts, heads, s->size}, 5};
  return gen_shape(g, &d);
}

static Dim steps(Gen *g) {
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 33};
  Dim named[] = {g->time, g->any, g->batch};
  return gen_chance(g, 40) ? named[gen_below(g, 3)] : ir_dim(g->p, sizes[gen_below(g, 8)]);
}

static Form random_form(Gen *g) {
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, 16, 17};
  for (;;) {
    Form s = {.batch = gen_chance(g, 60) ? g->batch : ir_dim(g->p, 1 + gen_below(g, 3)),
              .heads = ir_dim(g->p, 1 + gen_below(g, 3)),
              .tq = steps(g),
              .size = ir_dim(g->p, sizes[gen_below(g, 8)]),
              .n = 1 + gen_below(g, 3),
              .inside = gen_chance(g, 40)};
    if (gen_chance(g, 25))
      s.heads = ir_dim(g->p, 4 + gen_below(g, 30)), s.tq = ir_dim(g->p, 1 + gen_below(g, 3));  // decoding
    s.kv_heads = s.heads;
    if (s.n > 1 && gen_chance(g, 30))
      s.heads = ir_dim(g->p, ir_dim_bound(g->p, s.kv_heads) * (1 + gen_below(g, 3) * (1 + gen_below(g, 4))));
    s.tk = s.n == 1 || gen_chance(g, 50) ? s.tq : steps(g);
    if (gen_is_small(g, shape_of(g, &s, 0)) && gen_is_small(g, shape_of(g, &s, 1))) return s;
  }
}

// Rows of a layout; keys are sometimes rows of another one of the same batch.
static Form packed_form(Gen *g, Layout q) {
  Form s = random_form(g);
  s.batch = q.batch, s.tq = s.tk = q.time, s.rows = s.kv_rows = q.rows, s.layout = q.v, s.inside = false;
  for (uint32_t k = 0; s.n > 1 && k < g->n_layouts; k++) {
    Layout l = g->layout[k];
    if (l.v.i == q.v.i || l.batch.i != q.batch.i || l.scope != q.scope || !gen_chance(g, 60)) continue;
    s.kv_layout = l.v, s.tk = l.time, s.kv_rows = l.rows;
    break;
  }
  return s;
}

// What was there already has its form; so have the others then.
static bool find_form(Gen *g, Val q, Form *s) {
  Dims d = gen_dims(g, q);
  *s = (Form){.batch = d.d[0], .heads = d.d[1], .kv_heads = d.d[1], .tq = d.d[2], .tk = d.d[2], .size = d.d[3], .n = 3};
  bool sized = ir_dim_is_const(g->p, s->heads) && ir_dim_is_const(g->p, s->size);
  return sized && ir_dim_bound(g->p, s->size) > 0;
}

static bool has_four_axes(Gen *g, Val v) { return gen_is_f32(g, v) && gen_dims(g, v).n == 4; }

static Val tensor(Gen *g, Shape s) {
  Val x = gen_leaf(g, s);
  if (gen_chance(g, 30)) x = gen_op1(g, OP_tanh, x);
  return x;
}

// Heads led outside or back by a permutation, as models written for PyTorch have it.
static Val led(Gen *g, Val v) {
  static const int64_t swap[] = {0, 2, 1, 3};
  Attr a = ir_a_list(KEY_perm, ir_shape_ints(g->p, swap, 4));
  return gen_emit(g, OP_permute, &v, 1, &a, 1);
}

static Val operand(Gen *g, const Form *s, uint32_t k) {
  if (!s->is_led) return tensor(g, shape_of(g, s, k));
  Form inside = *s;
  inside.inside = true;
  Val x = tensor(g, shape_of(g, &inside, k));
  return ir_none(x) ? x : led(g, x);
}

// ---- heads that are parts of one array, of n from operand `first` on
static Val reshaped(Gen *g, Val v, Dims d) {
  Attr shape = ir_a_list(KEY_shape, gen_shape(g, &d));
  return gen_emit(g, OP_reshape, &v, 1, &shape, 1);
}

static Val part_of(Gen *g, Val v, int64_t axis, int64_t start, int64_t count) {
  Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(g->p, start)),
              ir_a_dim(KEY_count, ir_dim(g->p, count))};
  return gen_emit(g, OP_slice, &v, 1, a, 3);
}

static void parts(Gen *g, const Form *s, Val in[], uint32_t first) {
  uint32_t n = 3 - first, how = gen_below(g, 4);
  Dim of = ir_dim(g->p, n);
  Dims joint = {{s->batch, s->tk, of, s->kv_heads, s->size}, 5},
       led_shape = {{s->batch, s->kv_heads, s->tk, s->size}, 4};
  Dims inside = {{s->batch, s->tk, s->kv_heads, s->size}, 4};
  int64_t wide = ir_dim_bound(g->p, s->kv_heads) * ir_dim_bound(g->p, s->size);
  Dims rows = {{s->batch, s->tk, ir_dim(g->p, n * wide)}, 3};
  Val x = tensor(g, gen_shape(g, how == 2 ? &rows : &joint));
  if (ir_none(x)) return;
  static const int64_t outer[] = {2, 0, 3, 1, 4}, middle[] = {0, 3, 2, 1, 4};
  if (how < 2) {
    Attr a = ir_a_list(KEY_perm, ir_shape_ints(g->p, how ? middle : outer, 5));
    x = gen_emit(g, OP_permute, &x, 1, &a, 1);
  }
  for (uint32_t k = 0; k < n; k++) {
    uint32_t at = gen_chance(g, 95) ? k : gen_below(g, n);
    if (how < 2) in[first + k] = reshaped(g, part_of(g, x, how ? 2 : 0, at, 1), led_shape);
    else if (how == 2) in[first + k] = led(g, reshaped(g, part_of(g, x, 2, at * wide, wide), inside));
    else in[first + k] = led(g, reshaped(g, part_of(g, x, 2, at, 1), inside));
  }
}

// Any axis may be broadcast.
static Val bias(Gen *g, const Form *s) {
  Dims d = {{s->batch, s->heads, s->tq, s->tk}, 4};
  for (uint32_t axis = 0; axis < 4; axis++)
    if (gen_chance(g, 40)) d.d[axis] = ir_dim(g->p, 1);
  Shape shape = gen_shape(g, &d);
  return gen_is_small(g, shape) ? tensor(g, shape) : (Val){0};
}

// q, k, v, lengths, bias, and the layouts of packed rows.
static void operands(Gen *g, Val in[8], Form *s) {
  Layout *layout = gen_chance(g, 35) ? gen_some_layout(g) : NULL;
  if (layout) {
    *s = packed_form(g, *layout);
    for (uint32_t k = 0; k < s->n; k++) in[k] = tensor(g, shape_of(g, s, k));
    if (gen_chance(g, 30)) in[4] = bias(g, s);
    in[6] = s->layout, in[7] = s->kv_layout;
    return;
  }
  Val q = gen_pick_where(g, has_four_axes);
  bool given = !ir_none(q) && find_form(g, q, s) && gen_chance(g, 50);
  if (!given) *s = random_form(g);
  s->is_led = s->n == 3 && !s->inside && gen_chance(g, 60);
  in[0] = given ? gen_tame(g, q, 3) : operand(g, s, 0);
  bool is_joint = s->is_led && gen_chance(g, 60) && ir_dim_bound(g->p, s->kv_heads) && ir_dim_bound(g->p, s->size);
  bool is_same = !given && s->tq.i == s->tk.i && s->heads.i == s->kv_heads.i && gen_chance(g, 60);
  if (is_joint) parts(g, s, in, is_same ? 0 : 1);
  for (uint32_t k = 1; k < s->n; k++)
    if (ir_none(in[k])) in[k] = operand(g, s, k);
  Shape lengths = ir_shape(g->p, &s->batch, 1);
  if (gen_chance(g, 30) && gen_may_be_input(g, lengths)) in[3] = gen_input(g, "keys", DT_I64, lengths);
  if (gen_chance(g, 30)) in[4] = bias(g, s);
}

// offset: the operand
static uint32_t attributes(Gen *g, const Form *s, Attr a[7], Val *offset) {
  uint32_t n = 0;
  Shape of_run = ir_shape(g->p, &s->batch, s->n == 2);  // one for all, or of each sequence
  if (gen_chance(g, 40)) a[n++] = ir_a_int(KEY_causal, 1);
  if (gen_chance(g, 25)) a[n++] = ir_a_int(KEY_window, 1 + gen_below(g, 9));
  if (n && gen_chance(g, 30)) a[n++] = ir_a_int(KEY_offset, (int64_t)gen_below(g, 30) - 15);
  else if (n && gen_chance(g, 30) && gen_may_be_input(g, of_run)) *offset = gen_input(g, "at", DT_I64, of_run);
  if (s->n == 3 && s->inside) a[n++] = ir_a_int(KEY_heads_inside, 1);
  if (gen_chance(g, 30)) a[n++] = ir_a_num(KEY_scale, 0.75);
  if (!gen_chance(g, 25)) return n;
  a[n++] = ir_a_num(KEY_p, 0.25), a[n++] = ir_a_int(KEY_id, g->p->next_id++);
  return n;
}

void add_attention(Gen *g) {
  Val in[11] = {{0}};
  Form s;
  Attr a[7];
  operands(g, in, &s);
  uint32_t n = attributes(g, &s, a, &in[5]);
  Val y = gen_emit(g, OP_sdpa, in, 8, a, n);
  if (ir_none(y)) return;
  gen_keep(g, s.is_led && gen_chance(g, 70) ? led(g, y) : y, 3);
  if (gen_chance(g, 10)) gen_keep(g, ir_result(y, 1), 30);
  if (!gen_chance(g, 25)) return;
  in[9] = in[6], in[10] = in[7];  // the layouts are last
  in[6] = y, in[7] = ir_result(y, 1), in[8] = s.is_led ? operand(g, &s, 0) : gen_leaf(g, gen_shape_at(g, y));
  if (!ir_none(in[4])) gen_keep_tame(g, gen_emit(g, OP_sdpa_bias_grad, in, 11, a, n), 50);
  Val d = gen_emit(g, OP_sdpa_grad, in, 11, a, n);
  for (uint32_t k = 0; !ir_none(d) && k < s.n; k++) {
    Val own = ir_result(d, k);
    gen_keep_tame(g, s.is_led && gen_chance(g, 70) ? led(g, own) : own, 50);
  }
}
