// Shape rules of layouts, packed values and recurrences: words of the shape column of ops.def, like those of infer.c.
#include "ir/shape/infer.h"
#include "ir/storage.h"
#include <string.h>

// The rows that lengths which sum to {total} may have, by bounds
static int64_t most_rows(const Infer *c, Dim time, Dim total) {
  int64_t all, most = ir_dim_bound(c->p, total);
  if (__builtin_mul_overflow(ir_dim_bound(c->p, dim_of(c, 0, 0)), ir_dim_bound(c->p, time), &all)) return most;
  return all < most ? all : most;
}

uint16_t ir_rule_layout(const Infer *c) {
  const Attr *time = ir_attr(c->f, c->v, KEY_time), *rows = ir_attr(c->f, c->v, KEY_rows);
  const Attr *lengths = ir_attr(c->f, c->v, KEY_lengths), *total = ir_attr(c->f, c->v, KEY_total);
  if (!time || !rows) return ir_infer_fault(c, E_ARGUMENT, "needs {time} and {rows}");
  Dim batch;
  if (ir_has_operand(c->f, c->v, ARG_lengths)) {
    TRY(ir_infer_rank(c, 0, 1, 1));
    if (lengths) return ir_infer_fault(c, E_ARGUMENT, "has both an operand and {lengths}");
    if (ir_dim_info(c->p, rows->u.dim)->kind != DIM_SYM)
      return ir_infer_fault(c, E_ARGUMENT, "{rows} must be a named dim");
    if (rows->u.dim.i == time->u.dim.i) return ir_infer_fault(c, E_ARGUMENT, "{rows} and {time} are one dim");
    if (total && ir_dim_bound(c->p, rows->u.dim) < most_rows(c, time->u.dim, total->u.dim))
      return ir_infer_fault(c, E_ARGUMENT,
                            "the bound of {rows} must be at least that of {total}, or of batch times time");
    batch = dim_of(c, 0, 0);
  } else {
    if (!lengths) return ir_infer_fault(c, E_ARGUMENT, "needs lengths");
    if (total) return ir_infer_fault(c, E_ARGUMENT, "constant lengths have no {total}: {rows} is their sum");
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

// The longest sequence that a layout may have, as far as it is known before a run.
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
  const Attr *part = ir_attr(c->f, c->v, KEY_part);
  const char *name = part ? ir_text(c->p, part->u.s) : "";
  bool by_step = !strcmp(name, "batch_sizes"), by_row = !strcmp(name, "steps") || !strcmp(name, "sequences");
  if (!by_step && !by_row && strcmp(name, "sorted") && strcmp(name, "unsorted") && strcmp(name, "lengths"))
    return ir_infer_fault(c, E_ARGUMENT, "{part} is none of batch_sizes, sorted, unsorted, lengths, steps, sequences");
  Dim d = dim_of(c, 0, by_row ? 2 : by_step ? 1 : 0);
  set(c, 0, DT_I64, ir_shape(c->p, &d, 1));
  return 0;
}

uint16_t ir_rule_seq_row(const Infer *c) {
  bool listed = ir_has_operand(c->f, c->v, ARG_index);
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  if (listed) TRY(ir_infer_rank(c, 2, 1, 1));
  if (dim_of(c, 0, 0).i != (listed ? dim_of(c, 2, 0) : dim_of(c, 1, 0)).i)
    return bad_shape(c, "the first axis of the steps is not that of their sequences");
  set(c, 0, DT_I64, shape_of(c, 0));
  return 0;
}

// The first axis of operand 0 is axis `has` of the layout, operand 1; that of the result is axis `gets`.
static uint16_t seq_shape(const Infer *c, uint32_t has, uint32_t gets, Shape *out) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  if (dim_of(c, 0, 0).i != dim_of(c, 1, has).i)
    return bad_shape(c, has == 2 ? "rows differ from the layout's" : "the first axis is not the batch of the layout");
  *out = ir_infer_with_dim(c, shape_of(c, 0), 0, dim_of(c, 1, gets));
  return 0;
}

uint16_t ir_rule_seq_total(const Infer *c) {
  Shape s;
  Op op = (Op)ir_ins(c->f, c->v)->op;
  TRY(seq_shape(c, 2, 0, &s));
  set(c, 0, dtype_of(c, 0), s);
  if (op == OP_seq_max || op == OP_seq_min) set(c, 1, DT_I64, s);
  return 0;
}

uint16_t ir_rule_seq_broadcast(const Infer *c) {
  Shape s;
  TRY(seq_shape(c, 0, 2, &s));
  if (ir_has_operand(c->f, c->v, ARG_step)) {
    TRY(ir_infer_dtype(c, 0, DT_F32));
    if (shape_of(c, 2).i != shape_of(c, 0).i) return bad_shape(c, "steps and values have different shapes");
  }
  set(c, 0, dtype_of(c, 0), s);
  return 0;
}

uint16_t ir_rule_rows(const Infer *c) {
  int64_t axis = ir_attr_int(c->f, c->v, KEY_axis, 0);
  uint32_t layout = ir_operand_at(c->f, c->v, ARG_layout);
  if (layout == UINT32_MAX && ir_attr(c->f, c->v, KEY_axis))
    return ir_infer_fault(c, E_ARGUMENT, "{axis} needs a layout");
  if (layout == UINT32_MAX) return ir_rule_same(c);
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  if (axis < 0 || axis >= rank_of(c, 0)) return ir_infer_fault(c, E_ARGUMENT, "{axis} is out of range");
  if (dim_of(c, 0, (uint32_t)axis).i != dim_of(c, layout, 2).i) return bad_shape(c, "rows differ from the layout's");
  return ir_rule_same(c);
}

uint16_t ir_rule_seq_rows(const Infer *c) {
  Shape s;
  TRY(seq_shape(c, 2, 2, &s));
  if (ir_has_operand(c->f, c->v, ARG_g) && shape_named(c, ARG_g).i != s.i)
    return bad_shape(c, "a gradient has another shape");
  set(c, 0, dtype_of(c, 0), s);
  return 0;
}

// The layout's {total}; none
static Dim total_of(const Infer *c) {
  const Attr *a = ir_attr(c->f, ir_view_base(c->f, ir_arg(c->f, c->v, 1)), KEY_total);
  return a ? a->u.dim : (Dim){0};
}

// In the body of a scan a layout is an operand, whose total was compared before the body was outlined.
static bool is_total_known(const Infer *c) {
  return ir_ins(c->f, ir_view_base(c->f, ir_arg(c->f, c->v, 1)))->op != OP_input;
}

uint16_t ir_rule_seq_from_list(const Infer *c) {
  TRY(ir_infer_rank(c, 0, 1, MAX_RANK));
  Dim first = dim_of(c, 0, 0), total = total_of(c);
  if (first.i != dim_of(c, 1, 2).i && is_total_known(c) && (!total.i || first.i != total.i))
    return bad_shape(c, "rows differ from the layout's");
  set(c, 0, dtype_of(c, 0), ir_infer_with_dim(c, shape_of(c, 0), 0, dim_of(c, 1, 2)));
  return 0;
}

uint16_t ir_rule_seq_to_list(const Infer *c) {
  Shape s;
  const Attr *total = ir_attr(c->f, c->v, KEY_total);
  TRY(seq_shape(c, 2, 2, &s));
  if (total && total->u.dim.i != total_of(c).i)
    return ir_infer_fault(c, E_ARGUMENT, "{total} is not that of the layout");
  set(c, 0, dtype_of(c, 0), total ? ir_infer_with_dim(c, s, 0, total->u.dim) : s);
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

// Sizes of a recurrence, from operands that forward and backward share.
typedef struct {
  bool lstm, projects;
  uint32_t gates, saved;
  Dim rows, batch;
  Dim state, hidden, wide;  // of h, of a gate, of all gates
} RnnSizes;

static uint16_t rnn_sizes(const Infer *c, RnnSizes *z) {
  z->gates = cell_gates(c, &z->lstm, &z->saved);
  if (!z->gates) return ir_infer_fault(c, E_ARGUMENT, "{cell} is none of lstm, gru, tanh, relu");
  TRY(ir_infer_rank(c, ir_operand_at(c->f, c->v, ARG_w_hh), 2, 2));
  z->projects = ir_has_operand(c->f, c->v, ARG_w_hr);
  if (z->projects && !z->lstm) return ir_infer_fault(c, E_ARGUMENT, "only an lstm is projected");
  if (z->projects) TRY(ir_infer_rank(c, ir_operand_at(c->f, c->v, ARG_w_hr), 2, 2));
  z->rows = dim_named(c, ARG_layout, 2), z->batch = dim_named(c, ARG_layout, 0), z->state = dim_named(c, ARG_w_hh, 1);
  z->hidden = z->projects ? dim_named(c, ARG_w_hr, 1) : z->state;
  z->wide = ir_dim_mul(c->p, z->hidden, ir_dim(c->p, z->gates));
  return 0;
}

typedef struct {
  ArgName name;
  Shape shape;
  const char *found;  // otherwise
} WantedShape;

static uint16_t check_shapes(const Infer *c, const WantedShape *want, uint32_t n) {
  for (uint32_t k = 0; k < n; k++)
    if (ir_has_operand(c->f, c->v, want[k].name) && shape_named(c, want[k].name).i != want[k].shape.i)
      return bad_shape(c, want[k].found);
  return 0;
}

// The input, or its projection.
static uint16_t check_rnn_input(const Infer *c, const RnnSizes *z) {
  bool has_w_ih = ir_has_operand(c->f, c->v, ARG_w_ih);
  if (has_w_ih && z->gates == 3) return ir_infer_fault(c, E_ARGUMENT, "a gru takes its input projection");
  if (has_w_ih && ir_dim_bound(c->p, dim_named(c, ARG_xg, 1)) == 0) return bad_shape(c, "the input has no features");
  if (dim_named(c, ARG_xg, 0).i != z->rows.i) return bad_shape(c, "rows differ from the layout's");
  if ((has_w_ih || dim_named(c, ARG_xg, 1).i == z->wide.i) && dim_named(c, ARG_w_hh, 0).i == z->wide.i) return 0;
  return bad_shape(c, "the gates do not fit the hidden size");
}

static uint16_t check_rnn_options(const Infer *c, const RnnSizes *z) {
  const WantedShape want[] = {
      {ARG_b_hh, ir_shape(c->p, &z->wide, 1), "the bias has another shape"},
      {ARG_h0, shape2(c, z->batch, z->state), "an initial state is not [batch, hidden]"},
      {ARG_c0, shape2(c, z->batch, z->hidden), "an initial state is not [batch, hidden]"},
      {ARG_w_ih, shape2(c, z->wide, dim_named(c, ARG_xg, 1)), "the weight of the input does not fit it"},
      {ARG_w_hr, shape2(c, z->state, z->hidden), "the projection does not give the size of the state"},
  };
  TRY(check_shapes(c, want, sizeof want / sizeof *want));
  if (!ir_has_operand(c->f, c->v, ARG_c0) || z->lstm) return 0;
  return ir_infer_fault(c, E_ARGUMENT, "only an lstm has a cell state");
}

uint16_t ir_rule_rnn_seq(const Infer *c) {
  RnnSizes z;
  TRY(ir_infer_rank(c, 0, 2, 2));
  TRY(rnn_sizes(c, &z));
  TRY(check_rnn_input(c, &z));
  TRY(check_rnn_options(c, &z));
  Shape rs = shape2(c, z.rows, z.state), none = empty_shape(c);
  set(c, 0, DT_F32, rs);
  set(c, 1, DT_F32, shape2(c, z.batch, z.state));
  set(c, 2, DT_F32, z.lstm ? shape2(c, z.batch, z.hidden) : none);
  set(c, 3, DT_F32, rs);
  set(c, 4, DT_F32, z.lstm ? shape2_times(c, z.rows, z.hidden, 2) : none);
  set(c, 5, DT_F32, shape2_times(c, z.rows, z.hidden, z.saved));
  return 0;
}

// The gradient of a result without readers is a constant 0.
static bool is_zero(const Infer *c, ArgName name) {
  double value;
  return ir_is_const(c->f, ir_operand(c->f, c->v, name), &value) && value == 0;
}

static uint16_t check_rnn_gradients(const Infer *c, Shape out, Shape hn, Shape cn) {
  const WantedShape want[] = {{ARG_g_out, out, NULL}, {ARG_g_hn, hn, NULL}, {ARG_g_cn, cn, NULL}};
  for (uint32_t k = 0; k < sizeof want / sizeof *want; k++)
    if (shape_named(c, want[k].name).i != want[k].shape.i && !is_zero(c, want[k].name))
      return bad_shape(c, "a gradient has another shape");
  return 0;
}

uint16_t ir_rule_rnn_seq_grad(const Infer *c) {
  RnnSizes z;
  TRY(rnn_sizes(c, &z));
  Shape none = empty_shape(c), rg = shape2(c, z.rows, z.wide), rs = shape2(c, z.rows, z.state);
  Shape h0 = shape2(c, z.batch, z.state), c0 = z.lstm ? shape2(c, z.batch, z.hidden) : none;
  const WantedShape want[] = {
      {ARG_w_hh, shape2(c, z.wide, z.state), "the weight does not fit the gates"},
      {ARG_out, rs, "the output has another shape"},
      {ARG_hprev, rs, "the states before each step have another shape"},
      {ARG_cells, z.lstm ? shape2_times(c, z.rows, z.hidden, 2) : none, "the cells have another shape"},
      {ARG_gates, shape2_times(c, z.rows, z.hidden, z.saved), "the gates have another shape"},
      {ARG_w_hr, shape2(c, z.state, z.hidden), "the projection does not give the size of the state"},
  };
  TRY(check_rnn_gradients(c, rs, h0, c0));
  TRY(check_shapes(c, want, sizeof want / sizeof *want));
  set(c, 0, DT_F32, rg);
  set(c, 1, DT_F32, z.gates == 3 ? rg : z.projects ? rs : none);
  set(c, 2, DT_F32, h0);
  set(c, 3, DT_F32, c0);
  return 0;
}
