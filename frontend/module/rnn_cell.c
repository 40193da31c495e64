// One step of a recurrent module, for loops that decode: cells, and the layers of a trained module, with their own
// weights.
//
//   lstm:   %a = linear %x, %weight_ih, %bias_ih : [batch, 4 hidden]      %b = linear %h, %weight_hh, %bias_hh
//           %i, %f, %g, %o = parts of %a + %b;   c' = f c + i g,  h' = o tanh c'
//
// A step is products and one pointwise kernel: nothing of the machinery of sequences.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/module/layers.h"
#include "frontend/module/rnn.h"

static tn_rnn_step_output poisoned(tn_function *f) {
  return (tn_rnn_step_output){fe_poison(f), fe_poison(f), fe_poison(f)};
}

typedef struct {
  const RnnCall *c;
  uint32_t layer;
  tn_tensor x, h, cell;  // [B, ..]
} Step;

static tn_tensor op1(const Step *s, Op op, tn_tensor a) { return fe_emit1(op, a, s->c->at); }
static tn_tensor op2(const Step *s, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, s->c->at); }

static tn_tensor weight(const Step *s, const char *part) { return fe_rnn_weight(s->c, part, s->layer, false); }

static tn_tensor product(const Step *s, tn_tensor x, const char *matrix, const char *bias) {
  bool has_bias = s->c->m->config.has_bias;
  tn_tensor w = weight(s, matrix), b = has_bias ? weight(s, bias) : fe_poison(s->c->f);
  return fe_linear(x, w, b, has_bias, s->c->at);
}

static tn_tensor gate(const Step *s, tn_tensor all, uint32_t k) {
  int64_t h = s->c->m->config.out;
  return fe_ok(all) ? fe_slice(all, 1, k * h, h, s->c->at) : all;
}

// One statement, one instruction: C leaves the order of arguments open.
static tn_tensor gate_sum(const Step *s, tn_tensor a, tn_tensor b, uint32_t k) {
  tn_tensor x = gate(s, a, k), y = gate(s, b, k);
  return op2(s, OP_add, x, y);
}

static void step_lstm(Step *s, tn_tensor a, tn_tensor b) {
  tn_tensor all = op2(s, OP_add, a, b);
  tn_tensor i = op1(s, OP_sigmoid, gate(s, all, 0)), f = op1(s, OP_sigmoid, gate(s, all, 1));
  tn_tensor g = op1(s, OP_tanh, gate(s, all, 2)), o = op1(s, OP_sigmoid, gate(s, all, 3));
  tn_tensor kept = op2(s, OP_mul, f, s->cell), fresh = op2(s, OP_mul, i, g);
  s->cell = op2(s, OP_add, kept, fresh);
  s->h = op2(s, OP_mul, o, op1(s, OP_tanh, s->cell));
  if (s->c->m->config.proj) s->h = fe_linear(s->h, weight(s, "weight_hr"), fe_poison(s->c->f), false, s->c->at);
}

static void step_gru(Step *s, tn_tensor a, tn_tensor b) {
  tn_tensor r = op1(s, OP_sigmoid, gate_sum(s, a, b, 0)), z = op1(s, OP_sigmoid, gate_sum(s, a, b, 1));
  tn_tensor q = op2(s, OP_mul, r, gate(s, b, 2)), x = gate(s, a, 2);
  tn_tensor n = op1(s, OP_tanh, op2(s, OP_add, x, q));
  s->h = op2(s, OP_add, n, op2(s, OP_mul, z, op2(s, OP_sub, s->h, n)));
}

static void run_step(Step *s) {
  tn_tensor a = product(s, s->x, "weight_ih", "bias_ih"), b = product(s, s->h, "weight_hh", "bias_hh");
  switch (s->c->m->config.n_gates) {
  case 4: step_lstm(s, a, b); break;
  case 3: step_gru(s, a, b); break;
  default: s->h = op1(s, s->c->m->config.cell[0] == 'r' ? OP_relu : OP_tanh, op2(s, OP_add, a, b));
  }
}

// The state before the step; zeros where none is given.
static tn_tensor before(const RnnCall *c, bool cell, uint32_t layer) {
  Prog *ir = c->f->p->ir;
  if (fe_rnn_given(c, cell)) {
    if (c->m->kind == MOD_RNN_CELL) return cell ? c->initial.c0 : c->initial.h0;
    return fe_rnn_initial(c, cell, layer);
  }
  const Dim dims[] = {c->batch, ir_dim(ir, cell ? c->m->config.out : fe_rnn_state_size(c->m))};
  Attr attrs[] = {ir_a_num(KEY_value, 0), ir_a_list(KEY_shape, ir_shape(ir, dims, 2))};
  return fe_emit_in(c->f, OP_full, attrs, 2, c->at);
}

static tn_rnn_step_output run_layers(const RnnCall *c, tn_tensor x) {
  tn_module *m = c->m;
  tn_tensor *h = rt_alloc(m->p->mem, m->config.n_layers * sizeof *h),
            *cells = rt_alloc(m->p->mem, m->config.n_layers * sizeof *h);
  bool has_cell = fe_rnn_has_cell(m), is_cell = m->kind == MOD_RNN_CELL;
  for (uint32_t layer = 0; layer < m->config.n_layers; layer++) {
    if (layer && m->config.rate > 0) x = fe_dropout(x, m->config.rate, c->at);
    Step s = {.c = c, .layer = layer, .x = x, .h = before(c, false, layer)};
    if (has_cell) s.cell = before(c, true, layer);
    run_step(&s);
    if (!fe_ok(s.h)) return poisoned(c->f);
    x = h[layer] = s.h, cells[layer] = s.cell;
  }
  tn_rnn_step_output r = {.out = x, .hidden = is_cell ? x : fe_rnn_stack(c, h, m->config.n_layers)};
  if (has_cell) r.cell = is_cell ? cells[0] : fe_rnn_stack(c, cells, m->config.n_layers);
  return r;
}

static bool check_step(const RnnCall *c, tn_tensor x) {
  tn_module *m = c->m;
  if (m->config.n_directions == 2) {
    fe_error(m->p, E_ARGUMENT, c->at, "module '%s' reads both directions: it has no single step", m->path);
    fe_note(m->p, m->loc, "it was made here");
    return false;
  }
  if (fe_ins(x)->dtype == DT_F32 && (fe_rank(x) == 2 || fe_rank(x) == 1)) return true;
  fe_error(m->p, E_SHAPE, c->at, "a step of module '%s' takes f32 [batch, %lld] or [%lld]", m->path,
           (long long)m->config.in, (long long)m->config.in);
  fe_note_value(x, "the value");
  return false;
}

static void drop_batch(tn_rnn_step_output *r, bool is_cell, tn_site at) {
  uint32_t axis = is_cell ? 0 : 1;
  tn_tensor out = fe_without_batch(r->out, 0, at);
  r->hidden = r->hidden.v == r->out.v ? out : fe_without_batch(r->hidden, axis, at);
  r->out = out;
  if (r->cell.fn) r->cell = fe_without_batch(r->cell, axis, at);
}

tn_rnn_step_output tn_rnn_step(tn_module *m, tn_tensor x, tn_rnn_call_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  if (!fe_rnn_check_module(m, f, true, o.at)) return poisoned(f);
  FE_INSIDE(m);
  RnnCall c = {.m = m, .f = f, .initial = {o.h0, o.c0}, .at = o.at};
  if (!check_step(&c, x)) return poisoned(f);
  bool is_one = fe_rank(x) == 1;
  if (is_one && !fe_rnn_widen(&c, x)) return poisoned(f);
  if (is_one) x = fe_with_batch(x, 0, o.at);
  c.batch = fe_axis_dim(x, 0);
  if (!fe_rnn_check_initial(&c, x)) return poisoned(f);
  tn_rnn_step_output r = run_layers(&c, x);
  if (is_one) drop_batch(&r, m->kind == MOD_RNN_CELL, o.at);
  fe_made(r.out, o.at);
  fe_made(r.hidden, o.at);
  fe_made(r.cell, o.at);
  return r;
}
