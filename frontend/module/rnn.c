// Recurrent modules: LSTM, GRU and plain cells over packed or dense sequences, several layers, both directions.
//
//   one direction of one layer:
//     %b  = add %bias_ih, %bias_hh                      (gru: bias_ih alone; the other is inside the recurrence)
//     %xg = linear %data, %weight_ih, %b : [rows, gates * hidden]
//     %h, %hn, %cn, .. = rnn_seq %xg, %layout, %weight_hh, .. : [rows, hidden], [batch, hidden], ..
//
// A dense batch is a packed one whose sequences are all as long as its time axis: time-major data [T, B, ..] are its
// rows as they lie, batch-first data are brought into that order by pack and back by pad.
#include "frontend/module/rnn.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/module/call.h"
#include "frontend/module/hook.h"
#include "frontend/module/layers.h"
#include "frontend/module/tree.h"
#include "frontend/packed/packed.h"
#include <math.h>
#include <string.h>

static tn_rnn_output poisoned(tn_function *f) {
  tn_tensor t = fe_poison(f);
  return (tn_rnn_output){.out = {t, t}, .dense = t, .hidden = t, .cell = t, .last = {t, t}, .n_last = 1};
}

// ---- making: names, order, shapes and initialisation are PyTorch's
static void make_part(tn_module *m, const char *name, int64_t rows, int64_t columns, tn_site at) {
  double k = 1 / sqrt((double)m->config.out);
  int64_t dims[2] = {rows, columns};
  fe_module_param(m, name, dims, columns ? 2 : 1, (tn_init){TN_INIT_UNIFORM, -k, k}, at);
}

// `suffix` "_l0_reverse"; a cell's is empty.
static void make_direction(tn_module *m, int64_t in, const char *suffix, tn_site at) {
  RtArena *mem = m->p->mem;
  int64_t wide = m->config.n_gates * m->config.out;
  make_part(m, rt_printf(mem, "weight_ih%s", suffix), wide, in, at);
  make_part(m, rt_printf(mem, "weight_hh%s", suffix), wide, fe_rnn_state_size(m), at);
  if (m->config.has_bias) {
    make_part(m, rt_printf(mem, "bias_ih%s", suffix), wide, 0, at);
    make_part(m, rt_printf(mem, "bias_hh%s", suffix), wide, 0, at);
  }
  if (m->config.proj) make_part(m, rt_printf(mem, "weight_hr%s", suffix), m->config.proj, m->config.out, at);
}

static const char *suffix_of(const tn_module *m, uint32_t layer, bool reverse) {
  if (m->kind == MOD_RNN_CELL) return "";
  return rt_printf(m->p->mem, "_l%u%s", layer, reverse ? "_reverse" : "");
}

static bool check_sizes(tn_module *m, int64_t in, int64_t hidden, tn_site at) {
  const int64_t most = INT64_C(1) << 24;
  if (in >= 1 && hidden >= 1 && in <= most && hidden <= most) return true;
  fe_error(m->p, E_ARGUMENT, at, "module '%s' has the sizes %lld and %lld: both must lie in [1, 2^24]", m->path,
           (long long)in, (long long)hidden);
  return false;
}

static bool check_options(tn_module *m, int64_t hidden, bool lstm, const tn_rnn_options *o) {
  if (!(o->dropout >= 0 && o->dropout <= 1))
    fe_error(m->p, E_ARGUMENT, o->at, "dropout takes a probability in [0, 1], not %g", o->dropout);
  else if (o->n_layers > 1000)
    fe_error(m->p, E_ARGUMENT, o->at, "module '%s' has %u layers: at most 1000", m->path, o->n_layers);
  else if (o->proj_size && !lstm)
    fe_error(m->p, E_ARGUMENT, o->at, "module '%s' has a projection: only an LSTM has one", m->path);
  else if (o->proj_size < 0 || (o->proj_size && o->proj_size >= hidden))
    fe_error(m->p, E_ARGUMENT, o->at, "module '%s' projects to %lld: it must lie in [1, %lld]", m->path,
             (long long)o->proj_size, (long long)hidden - 1);
  else return true;
  return false;
}

typedef struct {
  const char *cell;
  uint32_t n_gates;
} CellKind;

static tn_module *make(tn_module *parent, const char *name, FeModuleKind kind, int64_t in, int64_t hidden,
                       CellKind cell, const tn_rnn_options *o) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, kind, o->at);
  if (m->poisoned) return m;
  m->poisoned = !check_sizes(m, in, hidden, o->at) || !check_options(m, hidden, cell.n_gates == 4, o);
  if (m->poisoned) return m;
  m->config.in = in, m->config.out = hidden, m->config.cell = cell.cell, m->config.n_gates = cell.n_gates;
  m->config.proj = o->proj_size;
  m->config.n_layers = o->n_layers ? o->n_layers : 1;
  m->config.n_directions = o->bidirectional ? 2 : 1;
  m->config.has_bias = !o->no_bias;
  m->config.rate = o->dropout;
  m->config.batch_first = o->batch_first;
  for (uint32_t layer = 0; layer < m->config.n_layers; layer++)
    for (uint32_t d = 0; d < m->config.n_directions; d++)
      make_direction(m, layer ? m->config.n_directions * fe_rnn_state_size(m) : in, suffix_of(m, layer, d == 1), o->at);
  return m;
}

static const CellKind lstm = {"lstm", 4}, gru = {"gru", 3}, plain[2] = {{"tanh", 1}, {"relu", 1}};

tn_module *tn_lstm(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_options o) {
  return make(parent, name, MOD_RNN, in, hidden, lstm, &o);
}

tn_module *tn_gru(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_options o) {
  return make(parent, name, MOD_RNN, in, hidden, gru, &o);
}

tn_module *tn_rnn(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu, tn_rnn_options o) {
  return make(parent, name, MOD_RNN, in, hidden, plain[relu], &o);
}

static tn_module *make_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, CellKind kind,
                            tn_rnn_cell_options o) {
  tn_rnn_options options = {.no_bias = o.no_bias, .at = o.at};
  return make(parent, name, MOD_RNN_CELL, in, hidden, kind, &options);
}

tn_module *tn_lstm_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_cell_options o) {
  return make_cell(parent, name, in, hidden, lstm, o);
}

tn_module *tn_gru_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, tn_rnn_cell_options o) {
  return make_cell(parent, name, in, hidden, gru, o);
}

tn_module *tn_rnn_cell(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                       tn_rnn_cell_options o) {
  return make_cell(parent, name, in, hidden, plain[relu], o);
}

// ---- parameters and states
tn_tensor fe_rnn_weight(const RnnCall *c, const char *part, uint32_t layer, bool reverse) {
  const char *name = rt_printf(c->m->p->mem, "%s%s", part, suffix_of(c->m, layer, reverse));
  const FeEntry *e = fe_entry(c->m, name);
  return e ? fe_read(c->f, e->param, c->at) : fe_poison(c->f);
}

static int64_t size_of(const RnnCall *c, bool cell) { return cell ? c->m->config.out : fe_rnn_state_size(c->m); }

bool fe_rnn_given(const RnnCall *c, bool cell) { return (cell ? c->initial.c0 : c->initial.h0).fn; }

tn_tensor fe_rnn_initial(const RnnCall *c, bool cell, uint32_t k) {
  tn_tensor row = fe_slice(cell ? c->initial.c0 : c->initial.h0, 0, k, 1, c->at);
  return fe_reshape(row, (const Dim[]){c->batch, ir_dim(c->f->p->ir, size_of(c, cell))}, 2, c->at);
}

tn_tensor fe_rnn_stack(const RnnCall *c, const tn_tensor *state, uint32_t n) {
  Prog *ir = c->f->p->ir;
  tn_tensor *rows = rt_alloc(c->f->p->mem, n * sizeof *rows);
  for (uint32_t k = 0; k < n; k++) {
    if (!fe_ok(state[k])) return state[k];
    const Dim dims[] = {ir_dim(ir, 1), c->batch, fe_axis_dim(state[k], 1)};
    rows[k] = fe_reshape(state[k], dims, 3, c->at);
  }
  return fe_concat(rows, n, 0, c->at);
}

static bool check_state(const RnnCall *c, bool cell) {
  Prog *ir = c->f->p->ir;
  tn_tensor t = cell ? c->initial.c0 : c->initial.h0;
  uint32_t n = c->m->config.n_layers * c->m->config.n_directions, first = c->m->kind == MOD_RNN_CELL;
  const Dim want[] = {ir_dim(ir, n), c->batch, ir_dim(ir, size_of(c, cell))};
  if (fe_shape_of(t).i == ir_shape(ir, want + first, 3 - first).i && fe_ins(t)->dtype == DT_F32) return true;
  const char *what = cell ? "c0" : "h0";
  if (first)
    fe_error(c->f->p, E_SHAPE, c->at, "%s of module '%s' must be f32 [batch, %lld]", what, c->m->path,
             (long long)size_of(c, cell));
  else
    fe_error(c->f->p, E_SHAPE, c->at, "%s of module '%s' must be f32 [%u, batch, %lld]", what, c->m->path, n,
             (long long)size_of(c, cell));
  fe_note_value(t, what);
  return false;
}

static bool join_states(const RnnCall *c, tn_tensor x) {
  tn_function *f;
  tn_tensor given[3] = {x};
  uint32_t n = 1;
  if (fe_rnn_given(c, false)) given[n++] = c->initial.h0;
  if (fe_rnn_given(c, true)) given[n++] = c->initial.c0;
  if (!fe_join(given, n, &f, c->at)) return false;
  if (fe_rnn_given(c, true) && !fe_rnn_has_cell(c->m)) {
    fe_error(c->f->p, E_ARGUMENT, c->at, "module '%s' has no cell state: only an LSTM has one", c->m->path);
    return false;
  }
  return true;
}

bool fe_rnn_check_initial(const RnnCall *c, tn_tensor x) {
  return join_states(c, x) && (!fe_rnn_given(c, false) || check_state(c, false)) &&
         (!fe_rnn_given(c, true) || check_state(c, true));
}

bool fe_rnn_check_module(tn_module *m, tn_function *f, bool cell_fits, tn_site at) {
  if (m && m->poisoned) return false;
  if (m && m->p == f->p && (m->kind == MOD_RNN || (cell_fits && m->kind == MOD_RNN_CELL))) return true;
  if (!fe_own_module(f->p, m, "called", at)) return false;
  if (m->kind == MOD_RNN_CELL) {
    fe_error(f->p, E_ARGUMENT, at, "module '%s' makes one step, not a sequence", m->path);
    fe_hint(f->p, "tn_rnn_step runs a cell");
  } else fe_error(f->p, E_ARGUMENT, at, "module '%s' is no recurrent module", m->path);
  return false;
}

// ---- a sequence
static tn_tensor one_direction(const RnnCall *c, tn_tensor data, uint32_t layer, bool reverse) {
  tn_module *m = c->m;
  bool is_gru = m->config.n_gates == 3;
  tn_tensor bias = fe_poison(c->f), bias_hh = bias, none = {0};
  Attr attrs[2] = {ir_a_str(KEY_cell, ir_str(c->f->p->ir, m->config.cell)), ir_a_int(KEY_reverse, 1)};
  uint32_t row = layer * m->config.n_directions + reverse;
  tn_tensor w_ih = fe_rnn_weight(c, "weight_ih", layer, reverse);
  tn_tensor w_hh = fe_rnn_weight(c, "weight_hh", layer, reverse);
  if (m->config.has_bias) {
    bias = fe_rnn_weight(c, "bias_ih", layer, reverse);
    bias_hh = fe_rnn_weight(c, "bias_hh", layer, reverse);
    if (!is_gru) bias = fe_emit2(OP_add, bias, bias_hh, c->at);
  }
  tn_tensor xg = fe_linear(data, w_ih, bias, m->config.has_bias, c->at);
  tn_tensor h0 = fe_rnn_given(c, false) ? fe_rnn_initial(c, false, row) : none;
  tn_tensor c0 = fe_rnn_given(c, true) ? fe_rnn_initial(c, true, row) : none;
  tn_tensor w_hr = m->config.proj ? fe_rnn_weight(c, "weight_hr", layer, reverse) : none;
  tn_tensor b_hh = is_gru && m->config.has_bias ? bias_hh : none;
  tn_tensor args[] = {xg, c->layout, w_hh, b_hh, h0, c0, none, w_hr};
  return fe_emit(OP_rnn_seq, args, sizeof args / sizeof *args, attrs, reverse ? 2 : 1, c->at);
}

static tn_tensor result(tn_tensor head, uint32_t k) { return fe_ok(head) ? (tn_tensor){head.fn, head.v + k} : head; }

static tn_rnn_output run_layers(const RnnCall *c, tn_tensor data) {
  tn_module *m = c->m;
  uint32_t n = 0, n_states = m->config.n_layers * m->config.n_directions;
  tn_tensor *hn = rt_alloc(m->p->mem, n_states * sizeof *hn), *cn = rt_alloc(m->p->mem, n_states * sizeof *cn), out[2];
  for (uint32_t layer = 0; layer < m->config.n_layers; layer++) {
    if (layer && m->config.rate > 0) data = fe_dropout(data, m->config.rate, c->at);
    for (uint32_t d = 0; d < m->config.n_directions; d++, n++) {
      out[d] = one_direction(c, data, layer, d == 1);
      if (!fe_ok(out[d])) return poisoned(c->f);
      hn[n] = result(out[d], 1);
      cn[n] = result(out[d], 2);
    }
    data = fe_concat(out, m->config.n_directions, 1, c->at);
  }
  tn_rnn_output r = {
      .out = {data, c->layout}, .hidden = fe_rnn_stack(c, hn, n_states), .n_last = m->config.n_directions};
  if (fe_rnn_has_cell(m)) r.cell = fe_rnn_stack(c, cn, n_states);
  for (uint32_t d = 0; d < m->config.n_directions; d++) r.last[d] = hn[n_states - m->config.n_directions + d];
  return r;
}

static tn_rnn_output run_packed(tn_module *m, const tn_rnn_input *x, tn_site at) {
  tn_function *f = x->seq.data.fn;
  RnnCall c = {.m = m, .f = f, .layout = x->seq.layout, .initial = x->initial, .at = at};
  if (fe_ins(c.layout)->dtype != DT_LAYOUT || fe_rank(x->seq.data) != 2) {
    fe_error(f->p, E_SHAPE, at, "module '%s' takes packed data [rows, feature]", m->path);
    fe_note_value(x->seq.data, "the data");
    return poisoned(f);
  }
  c.batch = fe_axis_dim(c.layout, 0);
  if (!fe_rnn_check_initial(&c, c.layout)) return poisoned(f);
  return run_layers(&c, x->seq.data);
}

// ---- dense input
static tn_tensor to_rows(tn_tensor x, tn_tensor layout, bool batch_first, tn_site at) {
  if (batch_first) return fe_emit2(OP_pack_padded, x, layout, at);
  const Dim dims[] = {fe_axis_dim(layout, 2), fe_axis_dim(x, 2)};
  return fe_reshape(x, dims, 2, at);
}

static tn_tensor from_rows(tn_tensor rows, tn_tensor layout, bool batch_first, tn_site at) {
  if (!fe_ok(rows)) return rows;
  if (batch_first) return fe_emit2(OP_unpack_padded, rows, layout, at);
  const Dim dims[] = {fe_axis_dim(layout, 1), fe_axis_dim(layout, 0), fe_axis_dim(rows, 1)};
  return fe_reshape(rows, dims, 3, at);
}

static tn_rnn_output run_dense(tn_module *m, const tn_rnn_input *x, tn_site at) {
  tn_function *f = x->dense.fn;
  if (fe_ins(x->dense)->dtype != DT_F32 || fe_rank(x->dense) != 3) {
    fe_error(f->p, E_SHAPE, at, "module '%s' takes dense data f32 %s or [time, feature]", m->path,
             m->config.batch_first ? "[batch, time, feature]" : "[time, batch, feature]");
    fe_note_value(x->dense, "the data");
    return poisoned(f);
  }
  RnnCall c = {.m = m, .f = f, .initial = x->initial, .at = at};
  c.batch = fe_axis_dim(x->dense, !m->config.batch_first);
  if (!fe_rnn_check_initial(&c, x->dense)) return poisoned(f);
  // Each sequence may be a row of a packed batch, as the characters of words are; its steps may not.
  bool batch_first = m->config.batch_first;
  Rows rows = fe_rows(x->dense);
  if (!fe_steps_apart(x->dense, batch_first, "tn_rnn_call_dense", at)) return poisoned(f);
  if (!fe_steps_apart(x->dense, 2, "tn_rnn_call_dense", at)) return poisoned(f);
  tn_tensor dense = rows.layout ? fe_say_rows(x->dense, (Rows){0}, at) : x->dense;
  c.layout = fe_dense_layout(f, c.batch, fe_axis_dim(x->dense, batch_first), at);
  if (!fe_ok(c.layout)) return poisoned(f);
  tn_rnn_output r = run_layers(&c, to_rows(dense, c.layout, batch_first, at));
  r.dense = from_rows(r.out.data, c.layout, batch_first, at);
  if (rows.layout) {
    const Rows states = {.layout = rows.layout, .axis = 1}, last = {.layout = rows.layout};
    r.dense = fe_say_rows(r.dense, rows, at);
    r.hidden = fe_say_rows(r.hidden, states, at);
    if (r.cell.fn) r.cell = fe_say_rows(r.cell, states, at);
    for (uint32_t d = 0; d < r.n_last; d++) r.last[d] = fe_say_rows(r.last[d], last, at);
  }
  r.out = (tn_packed){TN_NONE, TN_NONE};
  return r;
}

// ---- dense input of one sequence, [T, in]: a batch of one, whose axis neither goes in nor comes out
tn_tensor fe_with_batch(tn_tensor t, uint32_t axis, tn_site at) {
  Dim dims[MAX_RANK];
  if (!fe_ok(t)) return t;
  for (uint32_t k = 0; k < fe_rank(t); k++) dims[k + (k >= axis)] = fe_axis_dim(t, k);
  dims[axis] = ir_dim(t.fn->p->ir, 1);
  return fe_reshape(t, dims, fe_rank(t) + 1, at);
}

tn_tensor fe_without_batch(tn_tensor t, uint32_t axis, tn_site at) {
  Dim dims[MAX_RANK];
  if (!fe_ok(t)) return t;
  for (uint32_t k = 0; k + 1 < fe_rank(t); k++) dims[k] = fe_axis_dim(t, k + (k >= axis));
  return fe_reshape(t, dims, fe_rank(t) - 1, at);
}

static bool check_one_state(const RnnCall *c, bool cell) {
  Prog *ir = c->f->p->ir;
  tn_tensor t = cell ? c->initial.c0 : c->initial.h0;
  uint32_t n = c->m->config.n_layers * c->m->config.n_directions, first = c->m->kind == MOD_RNN_CELL;
  const Dim want[] = {ir_dim(ir, n), ir_dim(ir, size_of(c, cell))};
  char stack[16] = "";
  if (fe_shape_of(t).i == ir_shape(ir, want + first, 2 - first).i && fe_ins(t)->dtype == DT_F32) return true;
  if (!first) snprintf(stack, sizeof stack, "%u, ", n);
  fe_error(c->f->p, E_SHAPE, c->at, "%s of module '%s' must be f32 [%s%lld], as its input has no batch",
           cell ? "c0" : "h0", c->m->path, stack, (long long)size_of(c, cell));
  fe_note_value(t, cell ? "c0" : "h0");
  return false;
}

bool fe_rnn_widen(RnnCall *c, tn_tensor x) {
  uint32_t axis = c->m->kind == MOD_RNN_CELL ? 0 : 1;
  if (!join_states(c, x)) return false;
  if (fe_rnn_given(c, false) && !check_one_state(c, false)) return false;
  if (fe_rnn_given(c, true) && !check_one_state(c, true)) return false;
  if (fe_rnn_given(c, false)) c->initial.h0 = fe_with_batch(c->initial.h0, axis, c->at);
  if (fe_rnn_given(c, true)) c->initial.c0 = fe_with_batch(c->initial.c0, axis, c->at);
  return true;
}

static tn_rnn_output run_one(tn_module *m, const tn_rnn_input *x, tn_site at) {
  tn_function *f = x->dense.fn;
  uint32_t axis = !m->config.batch_first;
  RnnCall c = {.m = m, .f = f, .initial = x->initial, .at = at};
  if (!fe_rnn_widen(&c, x->dense)) return poisoned(f);
  tn_rnn_input wide = {.dense = fe_with_batch(x->dense, axis, at), .initial = c.initial};
  tn_rnn_output r = run_dense(m, &wide, at);
  if (!fe_ok(r.hidden)) return r;
  r.dense = fe_without_batch(r.dense, axis, at);
  r.hidden = fe_without_batch(r.hidden, 1, at);
  if (r.cell.fn) r.cell = fe_without_batch(r.cell, 1, at);
  for (uint32_t d = 0; d < r.n_last; d++) r.last[d] = fe_without_batch(r.last[d], 0, at);
  return r;
}

// ---- calls
static tn_rnn_output call(tn_module *m, tn_rnn_input *x, bool packed, tn_site at) {
  tn_function *f = packed ? x->seq.data.fn : x->dense.fn;
  FE_INSIDE(m);
  m->called = fe_loc(m->p, at);
  if (fe_has_hooks(m) && !fe_rnn_pre_hooks(m, x, at)) return poisoned(f);
  bool sorted = packed && tn_packed_n_members(x->seq) == 2;
  FeTapCall *taps = fe_has_hooks(m) ? fe_rnn_tap_inputs(m, x, at) : NULL;
  bool is_one = !packed && fe_rank(x->dense) == 2;
  uint32_t record = fe_call_begins(f, m);
  tn_rnn_output r = packed ? run_packed(m, x, at) : is_one ? run_one(m, x, at) : run_dense(m, x, at);
  fe_call_ended(f, record, &(tn_values){.v = {packed ? r.out.data : r.dense}, .n = 1});
  if (!fe_ok(r.hidden)) return poisoned(f);
  if (packed) r.out = fe_made_packed(r.out, sorted, at);
  else fe_made(r.dense, at);
  fe_made(r.hidden, at);
  fe_made(r.cell, at);
  if (fe_has_hooks(m) && !fe_rnn_post_hooks(m, x, &r, at)) return poisoned(f);
  if (taps) fe_rnn_tap_outputs(taps, m, &r, at);
  return r;
}

tn_rnn_output tn_rnn_call(tn_module *m, tn_packed x, tn_rnn_call_options o) {
  tn_function *f;
  if (!fe_join_packed(&x, 1, &f, o.at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  if (!fe_rnn_check_module(m, f, false, o.at)) return poisoned(f);
  tn_rnn_input in = {.seq = x, .initial = {o.h0, o.c0}};
  return call(m, &in, true, o.at);
}

tn_rnn_output tn_rnn_call_dense(tn_module *m, tn_tensor x, tn_rnn_call_options o) {
  tn_function *f;
  if (!fe_join(&x, 1, &f, o.at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  if (!fe_rnn_check_module(m, f, false, o.at)) return poisoned(f);
  tn_rnn_input in = {.dense = x, .initial = {o.h0, o.c0}};
  return call(m, &in, false, o.at);
}

tn_tensor tn_last_hidden(tn_rnn_output r, tn_site at) {
  tn_function *f;
  uint32_t n = r.n_last == 2 ? 2 : 1;
  if (!fe_join(r.last, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(n == 1 ? fe_same(r.last[0], at) : fe_concat(r.last, n, fe_rank(r.last[0]) - 1, at), at);
}
