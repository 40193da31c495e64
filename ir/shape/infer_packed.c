// Shape rules of layouts, packed values and recurrences: words of the shape column of ops.def, like those of infer.c.
#include "ir/shape/infer.h"
#include <string.h>

uint16_t ir_rule_layout(const Infer *c) {
  const Attr *time = ir_attr(c->f, c->v, KEY_time), *rows = ir_attr(c->f, c->v, KEY_rows);
  const Attr *lengths = ir_attr(c->f, c->v, KEY_lengths);
  if (!time || !rows) return ir_infer_fault(c, E_ARGUMENT, "needs {time} and {rows}");
  Dim batch;
  if (n_args(c) == 1) {
    TRY(ir_infer_dtype(c, 0, DT_I64));
    TRY(ir_infer_rank(c, 0, 1, 1));
    if (lengths) return ir_infer_fault(c, E_ARGUMENT, "has both an operand and {lengths}");
    if (ir_dim_info(c->p, rows->u.dim)->kind != DIM_SYM)
      return ir_infer_fault(c, E_ARGUMENT, "{rows} must be a named dim");
    if (rows->u.dim.i == time->u.dim.i) return ir_infer_fault(c, E_ARGUMENT, "{rows} and {time} are one dim");
    int64_t most;
    if (__builtin_mul_overflow(ir_dim_bound(c->p, dim_of(c, 0, 0)), ir_dim_bound(c->p, time->u.dim), &most) ||
        ir_dim_bound(c->p, rows->u.dim) < most)
      return ir_infer_fault(c, E_ARGUMENT, "the bound of {rows} must be at least batch times time");
    batch = dim_of(c, 0, 0);
  } else {
    if (!lengths) return ir_infer_fault(c, E_ARGUMENT, "needs lengths");
    uint32_t n = ir_rank(c->p, lengths->u.list);
    int64_t sum = 0, top = ir_dim_bound(c->p, time->u.dim), least = ir_attr(c->f, c->v, KEY_empty) ? 0 : 1;
    for (uint32_t k = 0; k < n; k++) {
      int64_t len = ir_list_at(c->p, lengths->u.list, k);
      if (len < least || len > top) {
        rt_text_add(c->why, "length %lld at index %u is not in [%lld, %lld]", (long long)len, k, (long long)least,
                    (long long)top);
        return E_LENGTH_RANGE;
      }
      sum += len;
    }
    if (!ir_dim_is_const(c->p, rows->u.dim) || ir_dim_bound(c->p, rows->u.dim) != sum)
      return ir_infer_fault(c, E_ARGUMENT, "{rows} must be the sum of {lengths}");
    batch = ir_dim(c->p, n);
  }
  set(c, 0, DT_LAYOUT, ir_shape(c->p, (Dim[]){batch, time->u.dim, rows->u.dim}, 3));
  return 0;
}

uint16_t ir_rule_dense_layout(const Infer *c) {
  const Attr *batch = ir_attr(c->f, c->v, KEY_dim), *time = ir_attr(c->f, c->v, KEY_time);
  if (!batch || !time) return ir_infer_fault(c, E_ARGUMENT, "needs {dim} and {time}");
  Dim rows = ir_dim_mul(c->p, batch->u.dim, time->u.dim);
  set(c, 0, DT_LAYOUT, ir_shape(c->p, (Dim[]){batch->u.dim, time->u.dim, rows}, 3));
  return 0;
}

uint16_t ir_rule_pack_padded(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 2, MAX_RANK));
  TRY(ir_infer_dtype(c, 1, DT_LAYOUT));
  if (dtype_of(c, 0) == DT_LAYOUT) return ir_infer_dtype(c, 0, DT_F32);
  uint32_t r = rank_of(c, 0), b = ir_attr(c->f, c->v, KEY_time_major) ? 1 : 0;
  Dim time = dim_of(c, 0, 1 - b), of_layout = dim_of(c, 1, 1);
  bool longer = ir_dim_is_const(c->p, time) && ir_dim_bound(c->p, time) >= ir_dim_bound(c->p, of_layout);
  if (dim_of(c, 0, b).i != dim_of(c, 1, 0).i)
    return ir_infer_fault(c, E_LENGTH_COUNT, "the number of lengths is not the batch of the packed value");
  if (time.i != of_layout.i && !longer) return bad_shape(c, "time differs from the layout's");
  Dim d[MAX_RANK];
  d[0] = dim_of(c, 1, 2);
  for (uint32_t k = 2; k < r; k++) d[k - 1] = dim_of(c, 0, k);
  set(c, 0, dtype_of(c, 0), ir_shape(c->p, d, r - 1));
  return 0;
}

// The longest sequence that a layout can hold, as far as it is known before a run.
static int64_t longest_of(const Infer *c, Val layout) {
  const Attr *lengths = ir_attr(c->f, layout, KEY_lengths);
  int64_t most = 0;
  if (!lengths) return ir_dim_bound(c->p, ir_dim_at(c->p, ir_ins(c->f, layout)->shape, 1));
  for (uint32_t k = 0; k < ir_rank(c->p, lengths->u.list); k++)
    if (ir_list_at(c->p, lengths->u.list, k) > most) most = ir_list_at(c->p, lengths->u.list, k);
  return most;
}

uint16_t ir_rule_unpack_padded(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK - 1));
  TRY(ir_infer_dtype(c, 1, DT_LAYOUT));
  if (dtype_of(c, 0) == DT_LAYOUT) return ir_infer_dtype(c, 0, DT_F32);
  if (dim_of(c, 0, 0).i != dim_of(c, 1, 2).i) return bad_shape(c, "rows differ from the layout's");
  uint32_t r = rank_of(c, 0), b = ir_attr(c->f, c->v, KEY_time_major) ? 1 : 0;
  Dim d[MAX_RANK];
  const Attr *size = ir_attr(c->f, c->v, KEY_size);
  int64_t longest = longest_of(c, ir_arg(c->f, c->v, 1));
  if (size && size->u.i < longest) {
    rt_text_add(c->why, "a total length of %lld is below the longest sequence, which may have %lld steps",
                (long long)size->u.i, (long long)longest);
    return E_TOTAL_LENGTH;
  }
  d[b] = dim_of(c, 1, 0), d[1 - b] = size ? ir_dim(c->p, size->u.i) : dim_of(c, 1, 1);
  for (uint32_t k = 1; k < r; k++) d[k + 1] = dim_of(c, 0, k);
  set(c, 0, dtype_of(c, 0), ir_shape(c->p, d, r + 1));
  return 0;
}

// ---- ops over (data [rows, ..], layout)
uint16_t ir_rule_seq_part(const Infer *c) {
  TRY(ir_infer_dtype(c, 0, DT_LAYOUT));
  const Attr *part = ir_attr(c->f, c->v, KEY_part);
  const char *name = part ? ir_text(c->p, part->u.s) : "";
  bool by_step = !strcmp(name, "batch_sizes");
  if (!by_step && strcmp(name, "sorted") && strcmp(name, "unsorted") && strcmp(name, "lengths"))
    return ir_infer_fault(c, E_ARGUMENT, "{part} is none of batch_sizes, sorted, unsorted, lengths");
  Dim d = dim_of(c, 0, by_step ? 1 : 0);
  set(c, 0, DT_I64, ir_shape(c->p, &d, 1));
  return 0;
}

// Operand 0 has axis `has` of the layout, operand 1, as its first axis; the result has axis `gets` instead.
static uint16_t seq_shape(const Infer *c, uint32_t has, uint32_t gets, Shape *out) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  TRY(ir_infer_dtype(c, 1, DT_LAYOUT));
  if (dtype_of(c, 0) == DT_LAYOUT) return ir_infer_dtype(c, 0, DT_F32);
  if (dim_of(c, 0, 0).i != dim_of(c, 1, has).i)
    return bad_shape(c, has == 2 ? "rows differ from the layout's" : "the first axis is not the batch of the layout");
  *out = ir_infer_with_dim(c, shape_of(c, 0), 0, dim_of(c, 1, gets));
  return 0;
}

uint16_t ir_rule_seq_total(const Infer *c) {
  Shape s;
  Op op = (Op)ir_ins(c->f, c->v)->op;
  if (op != OP_seq_select) TRY(ir_infer_dtype(c, 0, DT_F32));
  TRY(seq_shape(c, 2, 0, &s));
  set(c, 0, dtype_of(c, 0), s);
  if (op == OP_seq_max || op == OP_seq_min) set(c, 1, DT_I64, s);
  return 0;
}

uint16_t ir_rule_seq_broadcast(const Infer *c) {
  Shape s;
  TRY(seq_shape(c, 0, 2, &s));
  if (n_args(c) == 3) {
    TRY(ir_infer_dtype(c, 0, DT_F32));
    TRY(ir_infer_dtype(c, 2, DT_I64));
    if (shape_of(c, 2).i != shape_of(c, 0).i) return bad_shape(c, "steps and values have different shapes");
  }
  set(c, 0, dtype_of(c, 0), s);
  return 0;
}

uint16_t ir_rule_seq_rows(const Infer *c) {
  Shape s;
  Op op = (Op)ir_ins(c->f, c->v)->op;
  if (op == OP_seq_softmax || op == OP_seq_softmax_grad) TRY(ir_infer_dtype(c, 0, DT_F32));
  TRY(seq_shape(c, 2, 2, &s));
  if (n_args(c) == 3 && (shape_of(c, 2).i != s.i || dtype_of(c, 2) != DT_F32))
    return bad_shape(c, "a gradient has another shape");
  set(c, 0, dtype_of(c, 0), s);
  return 0;
}

// Gates of a cell, and the gates saved for backward; 0: no such cell.
static uint32_t cell_gates(const Infer *c, bool *lstm, uint32_t *saved) {
  const Attr *a = ir_attr(c->f, c->v, KEY_cell);
  const char *cell = a ? ir_text(c->p, a->u.s) : "";
  *lstm = strcmp(cell, "lstm") == 0;
  bool gru = strcmp(cell, "gru") == 0, plain = strcmp(cell, "tanh") == 0 || strcmp(cell, "relu") == 0;
  *saved = *lstm || gru ? 4 : 1;
  return *lstm ? 4 : gru ? 3 : plain ? 1 : 0;
}

static Shape shape2(const Infer *c, Dim a, Dim b) { return ir_shape(c->p, (Dim[]){a, b}, 2); }
static Shape shape2_times(const Infer *c, Dim a, Dim b, int64_t n) {
  return shape2(c, a, ir_dim_mul(c->p, b, ir_dim(c->p, n)));
}
static Shape empty_shape(const Infer *c) { return ir_shape_ints(c->p, (int64_t[]){0}, 1); }

// Operand `at` is the layout, all others are f32.
static uint16_t check_rnn_dtypes(const Infer *c, uint32_t at) {
  for (uint32_t k = 0; k < n_args(c); k++) TRY(ir_infer_dtype(c, k, k == at ? DT_LAYOUT : DT_F32));
  return 0;
}

uint16_t ir_rule_rnn_seq(const Infer *c) {
  bool lstm;
  uint32_t saved, gates = cell_gates(c, &lstm, &saved), n = 3;
  if (!gates) return ir_infer_fault(c, E_ARGUMENT, "{cell} is none of lstm, gru, tanh, relu");
  TRY(check_rnn_dtypes(c, 1));
  TRY(ir_infer_rank(c, 0, 2, 2));
  TRY(ir_infer_rank(c, 2, 2, 2));
  bool has_p = ir_attr(c->f, c->v, KEY_has_p);
  if (has_p && !lstm) return ir_infer_fault(c, E_ARGUMENT, "only an lstm is projected");
  if (has_p) TRY(ir_infer_rank(c, n_args(c) - 1, 2, 2));
  Dim rows = dim_of(c, 1, 2), batch = dim_of(c, 1, 0), state = dim_of(c, 2, 1);
  Dim hidden = has_p ? dim_of(c, n_args(c) - 1, 1) : state;
  Dim wide = ir_dim_mul(c->p, hidden, ir_dim(c->p, gates));
  bool has_x = ir_attr(c->f, c->v, KEY_has_x);
  if (has_x && gates == 3) return ir_infer_fault(c, E_ARGUMENT, "a gru takes its input projection");
  if (has_x && ir_dim_bound(c->p, dim_of(c, 0, 1)) == 0) return bad_shape(c, "the input has no features");
  if (dim_of(c, 0, 0).i != rows.i) return bad_shape(c, "rows differ from the layout's");
  if ((!has_x && dim_of(c, 0, 1).i != wide.i) || dim_of(c, 2, 0).i != wide.i)
    return bad_shape(c, "the gates do not fit the hidden size");
  const Key flag[5] = {KEY_has_b, KEY_has_h, KEY_has_c, KEY_has_x, KEY_has_p};
  const Shape want[5] = {ir_shape(c->p, &wide, 1), shape2(c, batch, state), shape2(c, batch, hidden),
                         shape2(c, wide, dim_of(c, 0, 1)), shape2(c, state, hidden)};
  static const char *const found[5] = {"the bias has another shape", "an initial state is not [batch, hidden]",
                                       "an initial state is not [batch, hidden]",
                                       "the weight of the input does not fit it",
                                       "the projection does not give the size of the state"};
  for (uint32_t k = 0; k < 5; k++) {
    if (!ir_attr(c->f, c->v, flag[k])) continue;
    if (n >= n_args(c)) return ir_infer_fault(c, E_ARGUMENT, "has fewer operands than its flags say");
    if (shape_of(c, n).i != want[k].i) return bad_shape(c, found[k]);
    n++;
  }
  if (n != n_args(c)) return ir_infer_fault(c, E_ARGUMENT, "has more operands than its flags say");
  if (ir_attr(c->f, c->v, KEY_has_c) && !lstm) return ir_infer_fault(c, E_ARGUMENT, "only an lstm has a cell state");
  Shape rs = shape2(c, rows, state), none = empty_shape(c);
  set(c, 0, DT_F32, rs);
  set(c, 1, DT_F32, shape2(c, batch, state));
  set(c, 2, DT_F32, lstm ? shape2(c, batch, hidden) : none);
  set(c, 3, DT_F32, rs);
  set(c, 4, DT_F32, lstm ? shape2_times(c, rows, hidden, 2) : none);
  set(c, 5, DT_F32, shape2_times(c, rows, hidden, saved));
  return 0;
}

// A gradient that nobody asked for is a constant 0.
static bool is_absent(const Infer *c, uint32_t k) {
  double zero;
  return ir_is_const(c->f, ir_arg(c->f, c->v, k), &zero) && zero == 0;
}

// Operands of the backward but for the layout, against the forward's sizes. The forward's results stand behind w_hh.
static uint16_t check_backward(const Infer *c, const Shape *want) {
  static const char *const found[10] = {
      [0] = "a gradient has another shape",
      [1] = "a gradient has another shape",
      [2] = "a gradient has another shape",
      [4] = "the weight does not fit the gates",
      [5] = "the output has another shape",
      [6] = "the states before each step have another shape",
      [7] = "the cells have another shape",
      [8] = "the gates have another shape",
      [9] = "the projection does not give the size of the state",
  };
  for (uint32_t k = 0; k < n_args(c); k++)
    if (k != 3 && shape_of(c, k).i != want[k].i && !(k < 3 && is_absent(c, k))) return bad_shape(c, found[k]);
  return 0;
}

uint16_t ir_rule_rnn_seq_grad(const Infer *c) {
  bool lstm;
  uint32_t saved, gates = cell_gates(c, &lstm, &saved);
  if (!gates) return ir_infer_fault(c, E_ARGUMENT, "{cell} is none of lstm, gru, tanh, relu");
  TRY(check_rnn_dtypes(c, 3));
  TRY(ir_infer_rank(c, 4, 2, 2));
  bool has_p = ir_attr(c->f, c->v, KEY_has_p);
  if (has_p != (n_args(c) == 10)) return ir_infer_fault(c, E_ARGUMENT, "has {has_p} or a projection without the other");
  if (has_p && !lstm) return ir_infer_fault(c, E_ARGUMENT, "only an lstm is projected");
  if (has_p) TRY(ir_infer_rank(c, 9, 2, 2));
  Dim rows = dim_of(c, 3, 2), batch = dim_of(c, 3, 0), state = dim_of(c, 4, 1);
  Dim hidden = has_p ? dim_of(c, 9, 1) : state, wide = ir_dim_mul(c->p, hidden, ir_dim(c->p, gates));
  Shape none = empty_shape(c), rg = shape2(c, rows, wide), rs = shape2(c, rows, state);
  Shape h0 = shape2(c, batch, state), c0 = lstm ? shape2(c, batch, hidden) : none;
  const Shape want[10] = {[0] = rs,
                          [1] = h0,
                          [2] = c0,
                          [4] = shape2(c, wide, state),
                          [5] = rs,
                          [6] = rs,
                          [7] = lstm ? shape2_times(c, rows, hidden, 2) : none,
                          [8] = shape2_times(c, rows, hidden, saved),
                          [9] = shape2(c, state, hidden)};
  TRY(check_backward(c, want));
  set(c, 0, DT_F32, rg);
  set(c, 1, DT_F32, gates == 3 ? rg : has_p ? rs : none);
  set(c, 2, DT_F32, h0);
  set(c, 3, DT_F32, c0);
  return 0;
}
