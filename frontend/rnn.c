// Recurrent modules: LSTM, GRU and plain cells over packed sequences, several layers, both directions.
//
//   one direction of one layer:
//     %b  = add %bias_ih, %bias_hh                      (gru: bias_ih alone; the other is inside the recurrence)
//     %xg = linear %data, %weight_ih, %b : [rows, gates * hidden]
//     %h, %hn, %cn, .. = rnn_seq %xg, %layout, %weight_hh, .. : [rows, hidden], [batch, hidden], ..
#include "frontend/fe.h"
#include <math.h>
#include <string.h>

static tn_rnn_output poisoned(tn_function *f) {
  tn_tensor t = fe_poison(f);
  return (tn_rnn_output){.out = {t, t}, .hidden = t, .cell = t, .last = {t, t}, .n_last = 1};
}

// ---- making: names, order, shapes and initialisation are PyTorch's
static void make_direction(tn_module *m, int64_t in, uint32_t layer, bool reverse, tn_site at) {
  const char *part[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  double k = 1 / sqrt((double)m->out);
  int64_t wide = m->n_gates * m->out, dims[2] = {wide, 0};
  for (uint32_t j = 0; j < (m->has_bias ? 4u : 2u); j++) {
    const char *name = rt_printf(m->p->mem, "%s_l%u%s", part[j], layer, reverse ? "_reverse" : "");
    dims[1] = j ? m->out : in;
    fe_module_param(m, name, dims, j < 2 ? 2 : 1, (tn_init){TN_INIT_UNIFORM, -k, k}, at);
  }
}

static bool check_rnn(tn_module *m, int64_t in, int64_t hidden, const tn_rnn_options *o, tn_site at) {
  const int64_t most = INT64_C(1) << 24;
  if (m->poisoned) return false;
  m->poisoned = true;
  if (in < 1 || hidden < 1 || in > most || hidden > most)
    fe_error(m->p, E_ARGUMENT, at, "module '%s' has the sizes %lld and %lld: both must lie in [1, 2^24]", m->path,
             (long long)in, (long long)hidden);
  else if (o && !(o->dropout >= 0 && o->dropout <= 1))
    fe_error(m->p, E_ARGUMENT, at, "dropout takes a probability in [0, 1], not %g", o->dropout);
  else if (o && o->n_layers > 1000)
    fe_error(m->p, E_ARGUMENT, at, "module '%s' has %u layers: at most 1000", m->path, o->n_layers);
  else m->poisoned = false;
  return !m->poisoned;
}

static tn_module *make(tn_module *parent, const char *name, int64_t in, int64_t hidden, const char *cell,
                       uint32_t n_gates, const tn_rnn_options *o, tn_site at) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_RNN, at);
  if (!check_rnn(m, in, hidden, o, at)) return m;
  m->in = in, m->out = hidden, m->cell = cell, m->n_gates = n_gates;
  m->n_layers = o && o->n_layers ? o->n_layers : 1;
  m->n_directions = o && o->bidirectional ? 2 : 1;
  m->has_bias = !o || !o->no_bias;
  m->rate = o ? o->dropout : 0;
  for (uint32_t layer = 0; layer < m->n_layers; layer++)
    for (uint32_t d = 0; d < m->n_directions; d++)
      make_direction(m, layer ? m->n_directions * hidden : in, layer, d == 1, at);
  return m;
}

tn_module *tn_lstm_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, const tn_rnn_options *o,
                      tn_site at) {
  return make(parent, name, in, hidden, "lstm", 4, o, at);
}

tn_module *tn_gru_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, const tn_rnn_options *o,
                     tn_site at) {
  return make(parent, name, in, hidden, "gru", 3, o, at);
}

tn_module *tn_rnn_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                     const tn_rnn_options *o, tn_site at) {
  return make(parent, name, in, hidden, relu ? "relu" : "tanh", 1, o, at);
}

// ---- calling
typedef struct {
  tn_module *m;
  tn_function *f;
  tn_tensor layout;
  const tn_rnn_state *initial;
  tn_site at;
  Dim batch;
} Call;

static tn_tensor weight(const Call *c, const char *part, uint32_t layer, bool reverse) {
  const char *name = rt_printf(c->m->p->mem, "%s_l%u%s", part, layer, reverse ? "_reverse" : "");
  const FeEntry *e = fe_entry(c->m, name);
  return e ? fe_use(c->f, e->param, c->at) : fe_poison(c->f);
}

// Row k of a stacked state [layers * directions, B, hidden], as [B, hidden].
static tn_tensor state_row(const Call *c, tn_tensor stacked, uint32_t k) {
  tn_tensor row = fe_slice(stacked, 0, k, 1, c->at);
  return fe_reshape(row, (const Dim[]){c->batch, ir_dim(c->f->p->ir, c->m->out)}, 2, c->at);
}

static bool is_given(const Call *c, bool cell) { return c->initial && (cell ? c->initial->c0 : c->initial->h0).fn; }

static tn_tensor one_direction(const Call *c, tn_tensor data, uint32_t layer, bool reverse) {
  tn_module *m = c->m;
  bool gru = m->n_gates == 3;
  tn_tensor args[6], bias = fe_poison(c->f), bias_hh = bias;
  Attr attrs[5] = {ir_a_str(KEY_cell, ir_str(c->f->p->ir, m->cell))};
  uint32_t n = 3, n_attrs = 1, row = layer * m->n_directions + reverse;
  tn_tensor w_ih = weight(c, "weight_ih", layer, reverse);
  args[2] = weight(c, "weight_hh", layer, reverse);
  if (m->has_bias) {
    bias = weight(c, "bias_ih", layer, reverse);
    bias_hh = weight(c, "bias_hh", layer, reverse);
    if (!gru) bias = fe_emit2(OP_add, bias, bias_hh, c->at);
  }
  args[0] = fe_linear(data, w_ih, bias, m->has_bias, c->at);
  args[1] = c->layout;
  if (reverse) attrs[n_attrs++] = ir_a_int(KEY_reverse, 1);
  if (gru && m->has_bias) attrs[n_attrs++] = ir_a_int(KEY_has_b, 1), args[n++] = bias_hh;
  if (is_given(c, false)) attrs[n_attrs++] = ir_a_int(KEY_has_h, 1), args[n++] = state_row(c, c->initial->h0, row);
  if (is_given(c, true)) attrs[n_attrs++] = ir_a_int(KEY_has_c, 1), args[n++] = state_row(c, c->initial->c0, row);
  return fe_emit(OP_rnn_seq, args, n, attrs, n_attrs, c->at);
}

static tn_tensor result(tn_tensor head, uint32_t k) { return fe_ok(head) ? (tn_tensor){head.fn, head.v + k} : head; }

// Final states [B, hidden] of all layers and directions, stacked to [layers * directions, B, hidden].
static tn_tensor stack(const Call *c, const tn_tensor *state, uint32_t n) {
  Prog *ir = c->f->p->ir;
  tn_tensor *rows = rt_alloc(c->f->p->mem, n * sizeof *rows);
  const Dim dims[] = {ir_dim(ir, 1), c->batch, ir_dim(ir, c->m->out)};
  for (uint32_t k = 0; k < n; k++) rows[k] = fe_reshape(state[k], dims, 3, c->at);
  return fe_concat(rows, n, 0, c->at);
}

static tn_rnn_output run_layers(const Call *c, tn_tensor data) {
  tn_module *m = c->m;
  bool lstm = m->n_gates == 4;
  uint32_t n = 0, n_states = m->n_layers * m->n_directions;
  tn_tensor *hn = rt_alloc(m->p->mem, n_states * sizeof *hn), *cn = rt_alloc(m->p->mem, n_states * sizeof *cn), out[2];
  for (uint32_t layer = 0; layer < m->n_layers; layer++) {
    if (layer && m->rate > 0) data = fe_dropout(data, m->rate, c->at);
    for (uint32_t d = 0; d < m->n_directions; d++, n++) {
      out[d] = one_direction(c, data, layer, d == 1);
      if (!fe_ok(out[d])) return poisoned(c->f);
      hn[n] = result(out[d], 1);
      cn[n] = result(out[d], 2);
    }
    data = fe_concat(out, m->n_directions, 1, c->at);
  }
  tn_rnn_output r = {.out = {data, c->layout}, .hidden = stack(c, hn, n_states), .n_last = m->n_directions};
  if (lstm) r.cell = stack(c, cn, n_states);
  for (uint32_t d = 0; d < m->n_directions; d++) r.last[d] = hn[n_states - m->n_directions + d];
  return r;
}

static bool check_state(const Call *c, tn_tensor t, const char *what) {
  Prog *ir = c->f->p->ir;
  const Dim want[] = {ir_dim(ir, c->m->n_layers * c->m->n_directions), c->batch, ir_dim(ir, c->m->out)};
  if (fe_shape_of(t).i == ir_shape(ir, want, 3).i && fe_ins(t)->dtype == DT_F32) return true;
  fe_error(c->f->p, E_SHAPE, c->at, "%s of module '%s' must be f32 [%u, batch, %lld]", what, c->m->path,
           c->m->n_layers * c->m->n_directions, (long long)c->m->out);
  return false;
}

static bool check_initial(const Call *c) {
  const tn_rnn_state *s = c->initial;
  tn_function *f;
  tn_tensor given[3] = {c->layout};
  uint32_t n = 1;
  if (is_given(c, false)) given[n++] = s->h0;
  if (is_given(c, true)) given[n++] = s->c0;
  if (!fe_join(given, n, &f, c->at)) return false;
  if (is_given(c, true) && c->m->n_gates != 4) {
    fe_error(c->f->p, E_ARGUMENT, c->at, "module '%s' has no cell state: only an LSTM has one", c->m->path);
    return false;
  }
  return (!is_given(c, false) || check_state(c, s->h0, "h0")) && (!is_given(c, true) || check_state(c, s->c0, "c0"));
}

static bool check_module(tn_module *m, tn_function *f, tn_site at) {
  if (m && m->poisoned) return false;
  if (m && m->p == f->p && m->kind == MOD_RNN) return true;
  if (!m) fe_error(f->p, E_ARGUMENT, at, "no module is called");
  else if (m->p != f->p) fe_error(f->p, E_FOREIGN, at, "a module of another program is called");
  else fe_error(f->p, E_ARGUMENT, at, "module '%s' is no recurrent module", m->path);
  return false;
}

tn_rnn_output tn_rnn_call_at(tn_module *m, tn_packed x, const tn_rnn_state *initial, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){x.data, x.layout}, 2, &f, at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  if (!check_module(m, f, at)) return poisoned(f);
  Call c = {.m = m, .f = f, .layout = x.layout, .initial = initial, .at = at};
  if (fe_ins(x.layout)->dtype != DT_LAYOUT || fe_rank(x.data) != 2) {
    fe_error(f->p, E_SHAPE, at, "a recurrent module takes packed data [rows, feature]");
    return poisoned(f);
  }
  c.batch = fe_axis_dim(x.layout, 0);
  if (!check_initial(&c)) return poisoned(f);
  bool sorted = tn_packed_n_members(x) == 2;
  tn_rnn_output r = run_layers(&c, x.data);
  r.out = fe_made_packed(r.out, sorted, at);
  fe_made(r.hidden, at);
  fe_made(r.cell, at);
  return r;
}

tn_tensor tn_last_hidden_at(tn_rnn_output r, tn_site at) {
  tn_function *f;
  uint32_t n = r.n_last == 2 ? 2 : 1;
  if (!fe_join(r.last, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(n == 1 ? fe_same(r.last[0], at) : fe_concat(r.last, n, 1, at), at);
}
