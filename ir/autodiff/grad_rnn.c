// Gradient rule of recurrences: rnn_seq_grad, which reads what the forward kept. It has no rule of its own, so that where
// gradients are taken of these gradients the recurrence runs once more as a scan, whose backward is one; so do gradients of what is
// kept.
//
//   body @f.lstm(%x: f32[live,4 H], %h: f32[live,H], %c: f32[live,H], %w: f32[4 H,H])
//   %out, %hprev, %product, %cprev, %hn, %cn = scan %layout, %xg, %h0, %c0, %w_hh {body="f.lstm", slices=1, carries=2, live=live}
#include "ir/autodiff/autodiff.h"
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include <string.h>

static Val or_zero(Grad *g, Val v) { return ir_none(v) ? number(g, 0) : v; }

static int64_t size_along(Grad *g, Val v, uint32_t axis) {
  return ir_dim_bound(g->p, ir_dim_at(g->p, shape_of(g, v), axis));
}

// o tanh c of every row of a projected LSTM, from values that the forward kept.
static Val state_before_projection(Grad *g, Val v) {
  Val cells = ir_result(v, 4), gates = ir_result(v, 5);
  int64_t n = size_along(g, cells, 1) / 2;
  Dim size = ir_dim(g->p, n);
  Val tanh_c = ir_grad_part(g, cells, 1, size, size);
  return mul(g, ir_grad_part(g, gates, 1, ir_dim(g->p, 3 * n), size), tanh_c);
}

// The backward recurrence: d_xg, d_hg, d_h0, d_c0.
static Val backward(Grad *g, Val v, Val adj) {
  const Fn *f = g->f;
  Val in[] = {or_zero(g, adj),
              or_zero(g, g->adj[v.i + 1]),
              or_zero(g, g->adj[v.i + 2]),
              ir_operand(f, v, ARG_layout),
              ir_operand(f, v, ARG_w_hh),
              v,
              ir_result(v, 3),
              ir_result(v, 4),
              ir_result(v, 5),
              ir_operand(f, v, ARG_w_hr)};
  Attr attr[2] = {*ir_attr(f, v, KEY_cell), ir_a_int(KEY_reverse, 1)};
  uint32_t n = ir_attr(f, v, KEY_reverse) ? 2 : 1;
  return ir_emit(g->f, OP_rnn_seq_grad, in, sizeof in / sizeof *in, attr, n, g->loc);
}

// d: the gradient of the input projection. A recurrence with w_ih computes the projection itself.
static void give_input(Grad *g, Val v, Val d) {
  Val x = ir_operand(g->f, v, ARG_xg), w_ih = ir_operand(g->f, v, ARG_w_ih);
  if (ir_none(w_ih)) {
    ir_grad_give(g, x, d);
    return;
  }
  if (g->dep[x.i]) ir_grad_give(g, x, ir_grad_matmul(g, d, w_ih, false, false));
  if (g->dep[w_ih.i]) ir_grad_give(g, w_ih, ir_grad_matmul(g, d, x, true, false));
}

static void from_kept(Grad *g, Val v, Val adj) {
  Val w_hh = ir_operand(g->f, v, ARG_w_hh), b_hh = ir_operand(g->f, v, ARG_b_hh), w_hr = ir_operand(g->f, v, ARG_w_hr);
  Val d = backward(g, v, adj);
  bool gru = ir_none(w_hr) && ir_rank(g->p, shape_of(g, ir_result(d, 1))) == 2;
  Val gates = gru ? ir_result(d, 1) : d;
  bool has_w_ih = ir_has_operand(g->f, v, ARG_w_ih);
  if (!has_w_ih) give_input(g, v, d);
  if (g->dep[w_hh.i]) ir_grad_give(g, w_hh, ir_grad_matmul(g, gates, ir_result(v, 3), true, false));
  if (g->dep[b_hh.i]) ir_grad_give(g, b_hh, ir_grad_sum_axes(g, gates, (int64_t[]){0}, 1));
  ir_grad_give(g, ir_operand(g->f, v, ARG_h0), ir_result(d, 2));
  ir_grad_give(g, ir_operand(g->f, v, ARG_c0), ir_result(d, 3));
  if (has_w_ih) give_input(g, v, d);
  if (g->dep[w_hr.i])
    ir_grad_give(g, w_hr, ir_grad_matmul(g, ir_result(d, 1), state_before_projection(g, v), true, false));
}

// ---- as a scan
enum { MOST_OUTPUTS = 8, MOST_OPERANDS = 7 };

typedef struct {
  Grad *g;
  Val v;  // the rnn_seq
  Fn *b;  // the body, one step
  Dim live, hidden;
  // in the body
  Val x, h, c, product;        // product: h w_hh^T, which the backward reads
  Val next_h, next_c, tanh_c;  // c, next_c, tanh_c: of an LSTM
  Val gate[4];                 // as rnn_seq keeps them
  uint32_t n_gates;
  // of the scan
  Val in[1 + MOST_OPERANDS], given[1 + MOST_OPERANDS];  // given: whose gradient it is; none: nobody's
  uint32_t n_in, n_carries;
  Val adj[MOST_OUTPUTS];  // of stacked outputs, then of last carries
  uint32_t n_adj;
} Steps;

static Val body2(const Steps *s, Op op, Val a, Val b) { return ir_op2(s->b, op, a, b, s->g->loc); }
static Val body1(const Steps *s, Op op, Val a) { return ir_op1(s->b, op, a, s->g->loc); }
static Val by_rows_of(const Steps *s, Val x, Val w) {
  Attr tb = ir_a_int(KEY_tb, 1);
  return ir_emit(s->b, OP_matmul, (Val[]){x, w}, 2, &tb, 1, s->g->loc);
}

static Val block(const Steps *s, Val x, int64_t k) {
  int64_t n = ir_dim_bound(s->g->p, s->hidden);
  Attr attr[] = {ir_a_int(KEY_axis, 1), ir_a_dim(KEY_start, ir_dim(s->g->p, k * n)), ir_a_dim(KEY_count, s->hidden)};
  return ir_emit(s->b, OP_slice, &x, 1, attr, 3, s->g->loc);
}

// An operand of the scan and the input of its body; rows: its first axis is the rows of a step there.
static Val take(Steps *s, Val outer, Val given, bool rows) {
  Prog *p = s->g->p;
  Shape shape = shape_of(s->g, outer);
  if (rows) shape = ir_shape(p, (Dim[]){s->live, ir_dim_at(p, shape, 1)}, 2);
  s->in[s->n_in] = outer, s->given[s->n_in++] = given;
  Attr index = ir_a_int(KEY_index, s->b->n_inputs);
  return ir_emit_typed(s->b, OP_input, NULL, 0, &index, 1, DT_F32, shape, s->g->loc);
}

static Val input_projection(Grad *g, Val v) {
  Val x = ir_operand(g->f, v, ARG_xg), w_ih = ir_operand(g->f, v, ARG_w_ih);
  return ir_none(w_ih) ? x : ir_grad_matmul(g, x, w_ih, false, true);
}

// like: a result with the shape of the state
static Val take_state(Steps *s, ArgName name, Val like) {
  Grad *g = s->g;
  Val given = ir_operand(g->f, s->v, name);
  Attr zeros[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, shape_of(g, like))};
  s->n_carries++;
  return take(s, ir_none(given) ? ir_emit(g->f, OP_full, NULL, 0, zeros, 2, g->loc) : given, given, true);
}

static bool is_cell(const Steps *s, const char *name) {
  return !strcmp(ir_text(s->g->p, ir_attr(s->g->f, s->v, KEY_cell)->u.s), name);
}

static void lstm(Steps *s, Val sum, Val w_hr) {
  static const Op of_gate[] = {OP_sigmoid, OP_sigmoid, OP_tanh, OP_sigmoid};
  for (; s->n_gates < 4; s->n_gates++) s->gate[s->n_gates] = body1(s, of_gate[s->n_gates], block(s, sum, s->n_gates));
  Val kept = body2(s, OP_mul, s->gate[1], s->c), fresh = body2(s, OP_mul, s->gate[0], s->gate[2]);
  s->next_c = body2(s, OP_add, kept, fresh);
  s->tanh_c = body1(s, OP_tanh, s->next_c);
  s->next_h = body2(s, OP_mul, s->gate[3], s->tanh_c);
  if (!ir_none(w_hr)) s->next_h = by_rows_of(s, s->next_h, w_hr);
}

static void gru(Steps *s, Val hidden) {
  Val part[3], q = block(s, hidden, 2);
  for (uint32_t k = 0; k < 3; k++) {
    Val x = block(s, s->x, k), h = k == 2 ? body2(s, OP_mul, part[0], q) : block(s, hidden, k);
    part[k] = body1(s, k == 2 ? OP_tanh : OP_sigmoid, body2(s, OP_add, x, h));
  }
  Val stays = body2(s, OP_mul, part[1], body2(s, OP_sub, s->h, part[2]));
  s->next_h = body2(s, OP_add, part[2], stays);
  memcpy(s->gate, part, sizeof part);
  s->gate[3] = q, s->n_gates = 4;
}

static void make_step(Steps *s) {
  Grad *g = s->g;
  Val b_hh = ir_operand(g->f, s->v, ARG_b_hh), w_hr = ir_operand(g->f, s->v, ARG_w_hr);
  Val w_hh = ir_operand(g->f, s->v, ARG_w_hh), input = input_projection(g, s->v);
  s->x = take(s, input, ir_operand(g->f, s->v, ARG_xg), true);
  s->h = take_state(s, ARG_h0, ir_result(s->v, 1));
  if (is_cell(s, "lstm")) s->c = take_state(s, ARG_c0, ir_result(s->v, 2));
  Val hidden = s->product = by_rows_of(s, s->h, take(s, w_hh, w_hh, false));
  if (!ir_none(b_hh)) hidden = body2(s, OP_add, hidden, take(s, b_hh, b_hh, false));
  if (!ir_none(w_hr)) w_hr = take(s, w_hr, w_hr, false);
  if (is_cell(s, "gru")) {
    gru(s, hidden);
    return;
  }
  Val sum = body2(s, OP_add, s->x, hidden);
  if (is_cell(s, "lstm")) {
    lstm(s, sum, w_hr);
    return;
  }
  s->next_h = s->gate[0] = body1(s, is_cell(s, "tanh") ? OP_tanh : OP_relu, sum);
  s->n_gates = 1;
}

static void put_out(Steps *s, Val v) {
  Attr index = ir_a_int(KEY_index, s->b->n_outputs);
  ir_emit(s->b, OP_output, &v, 1, &index, 1, s->g->loc);
}

static void stack(Steps *s, Val v, Val adj) {
  put_out(s, v);
  s->adj[s->n_adj++] = adj;
}

static Val side_by_side(const Steps *s, const Val *x, uint32_t n) {
  Attr axis = ir_a_int(KEY_axis, 1);
  return n == 1 ? x[0] : ir_emit(s->b, OP_concat, x, n, &axis, 1, s->g->loc);
}

// What a step puts out: the next states; the result; what the backward reads; what the forward kept, where it has a gradient.
static void put_out_all(Steps *s, Val adj) {
  const Val *of = s->g->adj + s->v.i;
  bool has_cell = !ir_none(s->c);
  put_out(s, s->next_h);
  if (has_cell) put_out(s, s->next_c);
  stack(s, s->next_h, adj), stack(s, s->h, of[3]), stack(s, s->product, (Val){0});
  if (has_cell) stack(s, s->c, (Val){0});
  if (has_cell && !ir_none(of[4])) stack(s, side_by_side(s, (Val[]){s->c, s->tanh_c}, 2), of[4]);
  if (!ir_none(of[5])) stack(s, side_by_side(s, s->gate, s->n_gates), of[5]);
  s->adj[s->n_adj++] = of[1];
  if (has_cell) s->adj[s->n_adj++] = of[2];
}

// A dim for the rows of a step
static Dim rows_of_step(Grad *g, Val layout) {
  const char *name = "live";
  for (uint32_t k = 2; ir_dim_find(g->p, name).i; k++) name = rt_printf(g->p->mem, "live_%u", k);
  return ir_dim_sym(g->p, name, size_along(g, layout, 0));
}

static void as_scan(Grad *g, Val v, Val adj) {
  Val layout = ir_operand(g->f, v, ARG_layout), of_hidden = ir_operand(g->f, v, ARG_w_hr);
  Steps s = {.g = g, .v = v, .live = rows_of_step(g, layout), .n_in = 1, .in[0] = layout};
  s.hidden = ir_dim_at(g->p, shape_of(g, ir_none(of_hidden) ? v : of_hidden), 1);
  Str cell = ir_attr(g->f, v, KEY_cell)->u.s;
  s.b = ir_body_new(g->p, rt_printf(g->p->mem, "%s.%s", ir_text(g->p, g->f->name), ir_text(g->p, cell)), g->loc);
  make_step(&s);
  put_out_all(&s, adj);
  Attr attr[] = {ir_a_str(KEY_body, s.b->name), ir_a_int(KEY_slices, 1), ir_a_int(KEY_carries, s.n_carries),
                 ir_a_dim(KEY_live, s.live), ir_a_int(KEY_reverse, 1)};
  Val head = ir_emit(g->f, OP_scan, s.in, s.n_in, attr, ir_attr(g->f, v, KEY_reverse) ? 5 : 4, g->loc);
  bool wants[1 + MOST_OPERANDS] = {false};
  Val d[1 + MOST_OPERANDS] = {{0}};
  for (uint32_t k = 1; k < s.n_in; k++) wants[k] = g->dep[s.given[k].i];
  wants[1] |= g->dep[ir_operand(g->f, v, ARG_w_ih).i];
  ir_scan_grad(g->f, head, s.adj, wants, d, g->is_nested, g->loc);
  if (!ir_none(d[1])) give_input(g, v, d[1]);
  for (uint32_t k = 2; k < s.n_in; k++) ir_grad_give(g, s.given[k], d[k]);
}

void ir_grad_rule_rnn_seq(Grad *g, Val v, Val adj) {
  bool reads_kept = false;
  for (uint32_t k = 3; k < 6; k++) reads_kept |= !ir_none(g->adj[v.i + k]);
  (g->is_nested || reads_kept ? as_scan : from_kept)(g, v, adj);
}
