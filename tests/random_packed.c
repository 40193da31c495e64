// Steps of the random generator: packed sequences and recurrences over them.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

#include <math.h>
#include <string.h>

// ---- steps: packed sequences
static Layout *add_layout(Gen *g, Layout l) {
  if (ir_none(l.v)) return NULL;
  g->layout[g->n_layouts] = l;
  return &g->layout[g->n_layouts++];
}

static Layout *dense_layout(Gen *g) {
  Layout l = {.batch = gen_chance(g, 70) ? g->batch : ir_dim(g->p, 1 + gen_below(g, 6)),
              .time = gen_chance(g, 70) ? g->time : ir_dim(g->p, 1 + gen_below(g, 9)),
              .scope = gen_scope(g)};
  Attr a[2] = {ir_a_dim(KEY_dim, l.batch), ir_a_dim(KEY_time, l.time)};
  l.rows = ir_dim_mul(g->p, l.batch, l.time);
  l.v = gen_emit(g, OP_dense_layout, NULL, 0, a, 2);
  return add_layout(g, l);
}

// Rows of a layout whose lengths come at run time, at most `most`: as many as there may be, or fewer, which a run must keep
// to. One for each sequence is there at least.
static Dim some_rows(Gen *g, const Layout *l, int64_t most, bool may_be_fewer) {
  int64_t batch = ir_dim_bound(g->p, l->batch), all = batch * ir_dim_bound(g->p, l->time);
  if (most < all) all = most;
  if (may_be_fewer && all > batch && gen_chance(g, 35)) all = batch + gen_below(g, (uint32_t)(all - batch));
  return ir_dim_sym(g->p, gen_fresh(g, "rows"), all);
}

// Lengths of one layout less some steps, cut to some, or with those of another behind them.
static Layout *derived_layout(Gen *g) {
  const Layout *from = &g->layout[gen_below(g, g->n_layouts)], *behind = &g->layout[gen_below(g, g->n_layouts)];
  if (from->scope != gen_scope(g)) return NULL;
  Layout l = {.batch = from->batch, .time = from->time, .scope = gen_scope(g)};
  int64_t most = ir_dim_bound(g->p, from->rows);
  Attr part = ir_a_str(KEY_part, ir_str(g->p, "lengths")), range[] = {ir_a_num(KEY_lo, 0), ir_a_num(KEY_hi, 0)};
  Attr by[] = {ir_a_num(KEY_value, gen_below(g, 4)), ir_a_int(KEY_dtype, DT_I64)};
  Val n = gen_emit(g, OP_seq_part, &from->v, 1, &part, 1);
  if (behind->scope == l.scope && behind->batch.i == l.batch.i && gen_chance(g, 40)) {
    Val more = gen_emit(g, OP_seq_part, &behind->v, 1, &part, 1);
    l.time = ir_dim_add(g->p, l.time, behind->time), most += ir_dim_bound(g->p, behind->rows);
    n = ir_none(n) || ir_none(more) ? (Val){0} : gen_op2(g, OP_add, n, more);
  } else {
    Val less = gen_emit(g, OP_const, NULL, 0, by, 2);
    range[1].u.f = gen_chance(g, 50) ? INFINITY : gen_below(g, 4);
    n = ir_none(n) || ir_none(less) ? (Val){0} : gen_op2(g, OP_sub, n, less);
    if (!ir_none(n)) n = gen_emit(g, OP_clamp, &n, 1, range, 2);
  }
  if (ir_none(n)) return NULL;
  l.rows = some_rows(g, &l, most, false);
  Attr a[] = {ir_a_dim(KEY_time, l.time), ir_a_dim(KEY_rows, l.rows), ir_a_int(KEY_empty, 1)};
  l.v = gen_emit(g, OP_packed_layout, &n, 1, a, 3);
  return add_layout(g, l);
}

static Layout *new_layout(Gen *g) {
  if (g->n_layouts == MAX_LAYOUTS) return NULL;
  if (g->n_layouts && gen_chance(g, 35)) return derived_layout(g);
  if (gen_chance(g, 15)) return dense_layout(g);
  bool fixed = gen_chance(g, 25);
  Layout l = {.batch = gen_chance(g, 70) && !fixed ? g->batch : ir_dim(g->p, 1 + gen_below(g, 6)),
              .time = gen_chance(g, 70) ? g->time : ir_dim(g->p, 1 + gen_below(g, 9)),
              .scope = gen_scope(g)};
  Attr a[5];
  uint32_t n = 0;
  int64_t batch = ir_dim_bound(g->p, l.batch), time = ir_dim_bound(g->p, l.time), length[8], sum = 0;
  a[n++] = ir_a_dim(KEY_time, l.time);
  if (fixed) {
    l.time = a[0].u.dim = ir_dim(g->p, time);
    bool empty = gen_chance(g, 30);
    for (int64_t k = 0; k < batch; k++) sum += length[k] = !empty + gen_below(g, (uint32_t)(time + empty));
    if (empty) a[n++] = ir_a_int(KEY_empty, 1);
    l.rows = ir_dim(g->p, sum);
    a[n++] = ir_a_list(KEY_lengths, ir_shape_ints(g->p, length, (uint32_t)batch));
  } else {
    l.rows = some_rows(g, &l, INT64_MAX, true);
    if (gen_chance(g, 30)) l.total = ir_dim_sym(g->p, gen_fresh(g, "total"), ir_dim_bound(g->p, l.rows));
    if (l.total.i) a[n++] = ir_a_dim(KEY_total, l.total);
    if (gen_chance(g, 15)) a[n++] = ir_a_int(KEY_sorted, 1);
    if (gen_chance(g, 30)) a[n++] = ir_a_int(KEY_empty, 1);
  }
  a[n++] = ir_a_dim(KEY_rows, l.rows);
  Val lengths = fixed ? (Val){0} : gen_input(g, "len", DT_I64, ir_shape(g->p, &l.batch, 1));
  l.v = gen_emit(g, OP_packed_layout, &lengths, fixed ? 0 : 1, a, n);
  return add_layout(g, l);
}

// In the body of a scan, one that was made before; none where its steps have rows of their own.
Layout *gen_some_layout(Gen *g) {
  if (g->in_scan) return g->n_layouts && !g->live.i ? &g->layout[gen_below(g, g->n_layouts)] : NULL;
  if (!g->n_layouts || gen_chance(g, 25)) {
    Layout *l = new_layout(g);
    if (l) return l;
  }
  return g->n_layouts ? &g->layout[gen_below(g, g->n_layouts)] : NULL;
}

// Rows of one sequence behind those of the other.
static Val pack_list(Gen *g, const Layout *l) {
  Dims d = {{l->total, ir_dim(g->p, 1 + gen_below(g, 9))}, 1 + gen_below(g, 2)};
  Val x = {0};
  for (uint32_t k = 0; k < g->n; k++) {
    Dims o = gen_dims(g, g->pool[k].v);
    if (o.n && o.d[0].i == l->total.i && gen_chance(g, 50)) x = g->pool[k].v;
  }
  if (ir_none(x) && gen_is_small(g, gen_shape(g, &d)) && g->f->n_inputs < MAX_INPUTS) x = gen_leaf(g, gen_shape(g, &d));
  return ir_none(x) ? x : gen_keep(g, gen_op2(g, OP_seq_from_list, x, l->v), gen_mag(g, x));
}

static Val pack(Gen *g, const Layout *l) {
  if (l->total.i && gen_chance(g, 60)) return pack_list(g, l);
  bool time_major = gen_chance(g, 35);
  Dims d = {.n = 2 + gen_below(g, 2)};
  d.d[time_major] = l->batch, d.d[!time_major] = l->time;
  Val x = {0};
  for (uint32_t k = 0; k < g->n; k++) {
    Dims o = gen_dims(g, g->pool[k].v);
    if (ir_none(x) && o.n >= 2 && o.d[0].i == d.d[0].i && o.d[1].i == d.d[1].i && gen_chance(g, 50)) x = g->pool[k].v;
  }
  if (ir_none(x)) {
    if (d.n == 3) d.d[2] = ir_dim(g->p, 1 + gen_below(g, 9));
    if (!gen_is_small(g, gen_shape(g, &d)) || g->f->n_inputs >= MAX_INPUTS) return (Val){0};
    x = gen_leaf(g, gen_shape(g, &d));
  }
  Attr a = ir_a_int(KEY_time_major, 1);
  return gen_keep(g, gen_emit(g, OP_pack_padded, (Val[]){x, l->v}, 2, &a, time_major), gen_mag(g, x));
}

Val gen_rows_of(Gen *g, const Layout *l, bool matrix) {
  for (uint32_t k = g->n; k-- > 0;) {
    Dims d = gen_dims(g, g->pool[k].v);
    bool fits = d.n && d.d[0].i == l->rows.i && (!matrix || (d.n == 2 && gen_is_f32(g, g->pool[k].v)));
    if (fits && gen_chance(g, 60)) return g->pool[k].v;
  }
  return pack(g, l);
}

// A value of whole sequences, [batch, ..].
Val gen_per_sequence(Gen *g, const Layout *l) {
  for (uint32_t k = g->n; k-- > 0;) {
    Dims d = gen_dims(g, g->pool[k].v);
    if (d.n && d.d[0].i == l->batch.i && gen_chance(g, 40)) return g->pool[k].v;
  }
  Dims d = {{l->batch, ir_dim(g->p, 1 + gen_below(g, 20))}, 1 + gen_below(g, 2)};
  return gen_is_small(g, gen_shape(g, &d)) && g->f->n_inputs < MAX_INPUTS ? gen_leaf(g, gen_shape(g, &d)) : (Val){0};
}

static void spread(Gen *g, const Layout *l) {
  Val x = gen_per_sequence(g, l);
  if (ir_none(x)) return;
  int64_t batch = ir_dim_bound(g->p, l->batch), each = ir_shape_bound(g->p, gen_shape_at(g, x)) / (batch ? batch : 1);
  if (each * ir_dim_bound(g->p, l->rows) <= 2 * MAX_ELEMENTS)
    gen_keep(g, gen_op2(g, OP_seq_broadcast, x, l->v), gen_mag(g, x));
}

// Totals and rows over the steps of sequences. Empty ones have infinite extremes, which are cut.
static void along_steps(Gen *g, const Layout *l) {
  static const Op moves[] = {OP_seq_reverse, OP_seq_from_list, OP_seq_to_list, OP_seq_select};
  if (gen_chance(g, 20)) {
    spread(g, l);
    return;
  }
  Val x = gen_rows_of(g, l, false);
  if (ir_none(x)) return;
  double mag = gen_mag(g, x);
  uint32_t kind = gen_below(g, 10);
  Attr first = ir_a_int(KEY_first, 1), total = ir_a_dim(KEY_total, l->total);
  if (kind < 4) {
    Op op = moves[kind];
    bool is_list = op == OP_seq_to_list && l->total.i;
    uint32_t n = op == OP_seq_select || is_list ? gen_chance(g, 50) : 0;
    gen_keep(g, gen_emit(g, op, (Val[]){x, l->v}, 2, is_list ? &total : &first, n), mag);
  } else if (!gen_is_f32(g, x)) {
    return;
  } else if (kind < 6) {
    gen_keep_tame(g, gen_op2(g, OP_seq_sum, x, l->v), mag * (sqrt((double)ir_dim_bound(g->p, l->time)) + 1));
  } else if (kind < 8) {
    Val top = gen_op2(g, kind == 6 ? OP_seq_max : OP_seq_min, x, l->v);
    if (ir_none(top)) return;
    Val most = gen_number(g, 2 * mag + 1), least = gen_number(g, -2 * mag - 1);
    Val below_most = gen_op2(g, OP_min, top, most);
    gen_keep(g, gen_op2(g, OP_max, below_most, least), 2 * mag + 1);
  } else {
    gen_keep(g, gen_op2(g, OP_seq_softmax, x, l->v), 1);
  }
}

// Windows over a layout, whose positions are the rows of that layout or another; what lies outside is zeros.
static void add_windows(Gen *g, const Layout *l) {
  Val x = gen_rows_of(g, l, true), windows = l->v;
  Dim rows = l->rows;
  for (uint32_t k = 0; k < g->n_layouts; k++)
    if (g->layout[k].batch.i == l->batch.i && g->layout[k].scope == l->scope && gen_chance(g, 50))
      windows = g->layout[k].v, rows = g->layout[k].rows;
  if (ir_none(x) || ir_rank(g->p, gen_shape_at(g, x)) != 2 || !gen_is_f32(g, x)) return;
  int64_t taps = 1 + gen_below(g, 4), stride = 1 + gen_below(g, 3), pad = gen_below(g, 4),
          dilation = 1 + gen_below(g, 3);
  Dim wide = ir_dim_at(g->p, gen_shape_at(g, x), 1);
  if (taps * ir_dim_bound(g->p, wide) * ir_dim_bound(g->p, rows) > 2 * MAX_ELEMENTS) return;
  Attr a[] = {ir_a_list(KEY_kernel, ir_shape_ints(g->p, &taps, 1)),
              ir_a_list(KEY_stride, ir_shape_ints(g->p, &stride, 1)), ir_a_list(KEY_pad, ir_shape_ints(g->p, &pad, 1)),
              ir_a_list(KEY_dilation, ir_shape_ints(g->p, &dilation, 1))};
  Val v = gen_emit(g, OP_seq_windows, (Val[]){x, l->v, windows}, 3, a, 4);
  if (ir_none(v)) return;
  gen_keep(g, v, gen_mag(g, x));
  if (!gen_chance(g, 50)) return;
  Val back = gen_emit(g, OP_seq_windows_grad, (Val[]){v, l->v, windows}, 3, a, 4);
  gen_keep_tame(g, back, gen_mag(g, x) * (double)taps);
}

static void add_window_lengths(Gen *g, const Layout *l) {
  int64_t size = 1 + gen_below(g, 4);  // such that any sequence is long enough
  Attr a[] = {ir_a_int(KEY_size, size), ir_a_int(KEY_step, 1 + gen_below(g, 3)),
              ir_a_int(KEY_padding, size - 1 + gen_below(g, 3))};
  gen_keep(g, gen_emit(g, OP_seq_window_lengths, &l->v, 1, a, 3), 20);
}

static void add_part(Gen *g, const Layout *l) {
  static const char *const parts[] = {"batch_sizes", "sorted", "unsorted", "lengths", "steps", "sequences"};
  Attr a = ir_a_str(KEY_part, ir_str(g->p, parts[gen_below(g, 6)]));
  gen_keep(g, gen_emit(g, OP_seq_part, &l->v, 1, &a, 1), 20);
}

// Scans along the sequences.
static void add_running(Gen *g, const Layout *l) {
  static const Op ops[] = {OP_cumsum, OP_cumprod, OP_logcumsumexp, OP_cummax, OP_cummin, OP_shift};
  Val x = gen_rows_of(g, l, false);
  if (ir_none(x) || !gen_is_f32(g, x)) return;
  Op op = ops[gen_below(g, sizeof ops / sizeof *ops)];
  Attr attr[3] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_reverse, 1), ir_a_int(KEY_exclusive, 1)};
  double n = (double)ir_dim_bound(g->p, l->time);
  bool best = op == OP_cummax || op == OP_cummin;
  uint32_t n_attrs = best ? 1 : 1 + gen_chance(g, 40);
  if (n_attrs == 2 && op == OP_cumprod && gen_chance(g, 30)) n_attrs = 3;
  Val in = op == OP_cumprod ? gen_op1(g, OP_tanh, x) : x;
  Val y = gen_emit(g, op, (Val[]){in, l->v}, 2, attr, n_attrs);
  if (ir_none(y)) return;
  gen_keep_tame(g, y, gen_mag_of_scan(op, gen_mag(g, x), n));
  if (best) gen_keep(g, ir_result(y, 1), n);
}

// Rows of a layout for those of another of the same batch, by steps that some sequences lack.
static void add_moved(Gen *g, const Layout *l) {
  const Layout *to = l;
  for (uint32_t k = 0; k < g->n_layouts; k++)
    if (g->layout[k].batch.i == l->batch.i && g->layout[k].scope == l->scope && gen_chance(g, 50)) to = &g->layout[k];
  Val x = gen_rows_of(g, l, false);
  if (ir_none(x)) return;
  Attr steps = ir_a_str(KEY_part, ir_str(g->p, "steps")), of = ir_a_str(KEY_part, ir_str(g->p, "sequences"));
  Attr by[] = {ir_a_num(KEY_value, gen_below(g, 5) - 2.0), ir_a_int(KEY_dtype, DT_I64)};
  Val step = gen_emit(g, OP_seq_part, &to->v, 1, &steps, 1), sequence = gen_emit(g, OP_seq_part, &to->v, 1, &of, 1);
  Val amount = gen_emit(g, OP_const, NULL, 0, by, 2);
  if (ir_none(step) || ir_none(sequence) || ir_none(amount)) return;
  step = gen_op2(g, OP_add, step, amount);
  Val row = gen_emit(g, OP_seq_row, (Val[]){step, l->v, sequence}, 3, NULL, 0);
  if (ir_none(row)) return;
  Attr along[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  int64_t rows = ir_dim_bound(g->p, l->rows), each = ir_shape_bound(g->p, gen_shape_at(g, x)) / (rows ? rows : 1);
  if (each * ir_dim_bound(g->p, to->rows) <= 2 * MAX_ELEMENTS)
    gen_keep(g, gen_emit(g, OP_index_select, (Val[]){x, row}, 2, along, 2), gen_mag(g, x));
}

void add_pack(Gen *g) {
  Layout *l = gen_some_layout(g);
  if (!l) return;
  if (gen_chance(g, 10)) add_part(g, l);
  else if (gen_chance(g, 15)) add_windows(g, l);
  else if (gen_chance(g, 5)) add_window_lengths(g, l);
  else if (gen_chance(g, 15)) add_running(g, l);
  else if (gen_chance(g, 15)) add_moved(g, l);
  else if (gen_chance(g, 70)) along_steps(g, l);
  else pack(g, l);
}

void add_pad(Gen *g) {
  Layout *l = gen_some_layout(g);
  Val x = l ? gen_rows_of(g, l, false) : (Val){0};
  if (ir_none(x)) return;
  int64_t rows = ir_dim_bound(g->p, l->rows), each = ir_shape_bound(g->p, gen_shape_at(g, x)) / (rows ? rows : 1);
  if (each * ir_dim_bound(g->p, l->batch) * ir_dim_bound(g->p, l->time) > 2 * MAX_ELEMENTS) return;
  Attr a[2] = {ir_a_num(KEY_value, gen_chance(g, 50) ? 0 : -1.5), ir_a_int(KEY_time_major, 1)};
  gen_keep(g, gen_emit(g, OP_unpack_padded, (Val[]){x, l->v}, 2, a, gen_chance(g, 35) ? 2 : 1), gen_mag(g, x) + 1.5);
}

// Of what the forward kept, for some gradients of its results.
static void run_backward(Gen *g, Val y, const Val *arg, const Attr *attr, uint32_t n_attrs, bool lstm) {
  enum { W_HH = 2, W_HR = 7 };
  Val zero = gen_number(g, 0), in[10] = {zero, zero, zero, arg[1], arg[W_HH], y};
  for (uint32_t k = 0; k < 2u + lstm; k++)
    if (gen_chance(g, 70)) in[k] = gen_leaf(g, gen_shape_at(g, ir_result(y, k)));
  for (uint32_t k = 0; k < 3; k++) in[6 + k] = ir_result(y, 3 + k);
  in[9] = arg[W_HR];
  Val d = gen_emit(g, OP_rnn_seq_grad, in, 10, attr, n_attrs);
  for (uint32_t k = 0; !ir_none(d) && k < 4; k++)
    if (ir_shape_bound(g->p, gen_shape_at(g, ir_result(d, k)))) gen_keep_tame(g, ir_result(d, k), 100);
}

static void run_cell(Gen *g, const Layout *l, Val x, const char *cell, int64_t gates, int64_t hidden, bool reverse) {
  bool lstm = gates == 4, projected = lstm && gen_chance(g, 30), own_input = false;
  Dim inputs = ir_dim_at(g->p, gen_shape_at(g, x), 1);
  Dims w_ih = {{ir_dim(g->p, gates * hidden), inputs}, 2};
  if (gates != 3 && ir_dim_is_const(g->p, inputs) && ir_dim_bound(g->p, inputs) > 0)
    own_input = gen_is_small(g, gen_shape(g, &w_ih)) && gen_chance(g, 40);
  Val xg = own_input ? x : gen_linear(g, x, gates * hidden, gen_chance(g, 50));
  if (ir_none(xg)) return;
  Dim state = ir_dim(g->p, projected ? 1 + gen_below(g, 18) : hidden);
  Dims w = {{ir_dim(g->p, gates * hidden), state}, 2}, s = {{l->batch, state}, 2};
  Dims cells = {{l->batch, ir_dim(g->p, hidden)}, 2}, proj = {{state, cells.d[1]}, 2};
  Val wide = gen_leaf(g, gen_shape(g, &w));
  enum { B_HH = 3, H0, C0, W_IH, W_HR, N_ARGS };
  Val arg[N_ARGS] = {xg, l->v, gen_op2(g, OP_mul, wide, gen_number(g, hidden > 8 ? 0.25 : 0.5))};
  Attr a[2] = {ir_a_str(KEY_cell, ir_str(g->p, cell)), ir_a_int(KEY_reverse, 1)};
  if (gen_chance(g, 50)) arg[B_HH] = gen_leaf(g, ir_shape(g->p, w.d, 1));
  if (gen_chance(g, 40)) arg[H0] = gen_leaf(g, gen_shape(g, &s));
  if (lstm && gen_chance(g, 40)) arg[C0] = gen_leaf(g, gen_shape(g, &cells));
  if (own_input) {
    Val from = gen_leaf(g, gen_shape(g, &w_ih));
    arg[W_IH] = gen_op2(g, OP_mul, from, gen_number(g, 0.25));
  }
  if (projected) {
    Val down = gen_leaf(g, gen_shape(g, &proj));
    arg[W_HR] = gen_op2(g, OP_mul, down, gen_number(g, hidden > 8 ? 0.25 : 0.5));
  }
  Val y = gen_emit(g, OP_rnn_seq, arg, N_ARGS, a, reverse ? 2 : 1);
  if (ir_none(y)) return;
  gen_keep(g, y, projected ? 5 : 2);
  gen_keep(g, ir_result(y, 1), projected ? 5 : 2);
  if (lstm) gen_keep(g, ir_result(y, 2), 3);
  if (gen_chance(g, 20)) run_backward(g, y, arg, a, reverse ? 2 : 1, lstm);
}

void add_rnn(Gen *g) {
  static const struct {
    const char *name;
    int64_t gates;
  } cell[] = {{"lstm", 4}, {"gru", 3}, {"tanh", 1}, {"relu", 1}};
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17};
  Layout *l = gen_some_layout(g);
  Val x = l ? gen_rows_of(g, l, true) : (Val){0};
  if (ir_none(x) || ir_rank(g->p, gen_shape_at(g, x)) != 2) return;
  uint32_t c = gen_below(g, 4);
  int64_t hidden = sizes[gen_below(g, sizeof sizes / sizeof *sizes)];
  bool reverse = gen_chance(g, 40);
  run_cell(g, l, x, cell[c].name, cell[c].gates, hidden, reverse);
  if (gen_chance(g, 35)) run_cell(g, l, x, cell[c].name, cell[c].gates, hidden, !reverse);
}
