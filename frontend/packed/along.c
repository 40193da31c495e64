// What runs along each sequence of a packed batch: running sums, products and extremes, logarithms of softmax, order.
//
// Scans take the layout (codegen/order/cumulative.c walks its lanes). An order is two of all rows, of which the second is
// stable and by sequence:
//
//   %v, %i = sort %x {axis=0}      %b = gather %sequences, %i      %s, %j = sort %b {axis=0}      %k = gather %i, %j
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/packed/packed.h"
#include "ir/fn.h"

static tn_packed_ordered poisoned(tn_function *f) {
  return (tn_packed_ordered){fe_poisoned_packed(f), fe_poisoned_packed(f)};
}

// ---- scans
static tn_tensor scanned(Op op, tn_packed s, tn_site at) {
  const uint32_t last = ir_op_operand(op, ARG_layout);
  tn_tensor in[MAX_OPERANDS] = {fe_widened(op, s.data, at)};
  Attr axis = ir_a_int(KEY_axis, 0);
  in[last] = s.layout;
  return fe_ok(in[0]) ? fe_emit(op, in, last + 1, &axis, 1, at) : in[0];
}

static tn_packed scan(const char *call, Op op, tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD_AS(f->p, fe_poisoned_packed(f), call);
  return fe_with_data(s, scanned(op, s, at), at);
}

static tn_packed_ordered best_so_far(const char *call, Op op, tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return poisoned(f);
  FE_GUARD_AS(f->p, poisoned(f), call);
  tn_tensor y = scanned(op, s, at);
  if (!fe_ok(y)) return poisoned(f);
  return (tn_packed_ordered){fe_with_data(s, fe_narrowed(y, s.data, at), at),
                             fe_with_data(s, (tn_tensor){f, y.v + 1}, at)};
}

tn_packed tn_packed_cumsum(tn_packed s, tn_site at) { return scan(__func__, OP_cumsum, s, at); }
tn_packed tn_packed_cumprod(tn_packed s, tn_site at) { return scan(__func__, OP_cumprod, s, at); }
tn_packed tn_packed_logcumsumexp(tn_packed s, tn_site at) { return scan(__func__, OP_logcumsumexp, s, at); }
tn_packed_ordered tn_packed_cummax(tn_packed s, tn_site at) { return best_so_far(__func__, OP_cummax, s, at); }
tn_packed_ordered tn_packed_cummin(tn_packed s, tn_site at) { return best_so_far(__func__, OP_cummin, s, at); }

// ---- logarithms of sums, as tn_logsumexp takes them: by the maximum, which carries no gradient; where that is infinite
// nothing is taken off
typedef struct {
  tn_tensor less, total;  // rows without the maximum, [rows, ..]; sums of their exponentials, [B, ..]
  tn_tensor top;          // [B, ..]
} Exponentials;

static bool exponentials(tn_packed s, Exponentials *e, tn_site at) {
  tn_function *f = s.data.fn;
  tn_tensor best = fe_emit2(OP_seq_max, s.data, s.layout, at);
  if (!fe_ok(best)) return false;
  best = fe_emit1(OP_stop_grad, best, at);
  tn_tensor top[] = {fe_emit1(OP_isfinite, best, at), best, fe_const(f, 0, at)};
  e->top = fe_pointwise(OP_select, top, 3, NULL, 0, at);
  e->less = fe_emit2(OP_sub, s.data, fe_on_rows(s.layout, e->top, at), at);
  e->total = fe_emit2(OP_seq_sum, fe_emit1(OP_exp, e->less, at), s.layout, at);
  return fe_ok(e->total);
}

tn_tensor tn_packed_logsumexp(tn_packed s, tn_site at) {
  tn_function *f;
  Exponentials e;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!exponentials(s, &e, at)) return fe_poison(f);
  return fe_made(fe_emit2(OP_add, fe_log(e.total, at), e.top, at), at);
}

tn_packed tn_packed_log_softmax(tn_packed s, tn_site at) {
  tn_function *f;
  Exponentials e;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!exponentials(s, &e, at)) return fe_poisoned_packed(f);
  tn_tensor log_total = fe_on_rows(s.layout, fe_emit1(OP_log, e.total, at), at);
  return fe_with_data(s, fe_emit2(OP_sub, e.less, log_total, at), at);
}

// ---- order
// A table [rows] in the shape of x, [rows, ..]
static tn_tensor table_like(tn_tensor x, tn_tensor table, tn_site at) {
  table = fe_as_column(fe_say_rows(table, (Rows){0}, at), fe_rank(x), at);
  Attr shape = ir_a_list(KEY_shape, fe_shape_of(x));
  return fe_ok(table) ? fe_emit(OP_expand, &table, 1, &shape, 1, at) : table;
}

static tn_tensor gathered(tn_tensor x, tn_tensor index, tn_site at) {
  Attr axis = ir_a_int(KEY_axis, 0);
  return fe_emit(OP_gather, (const tn_tensor[]){x, index}, 2, &axis, 1, at);
}

static tn_tensor order_of(tn_tensor x, bool descending, tn_site at) {
  Attr attr[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_descending, 1)};
  tn_tensor y = fe_emit(OP_sort, &x, 1, attr, descending ? 2 : 1, at);
  return fe_ok(y) ? (tn_tensor){y.fn, y.v + 1} : y;
}

bool fe_sort_steps(tn_tensor data, tn_tensor layout, bool descending, FeSorted *out, tn_site at) {
  tn_tensor x = fe_say_rows(data, (Rows){0}, at), wide = fe_widened(OP_sort, x, at);
  if (!fe_ok(wide)) return false;
  tn_tensor of = table_like(x, fe_layout_part(layout, "sequences", at), at), by_value = order_of(wide, descending, at);
  if (!fe_ok(by_value)) return false;
  tn_tensor by_sequence = order_of(gathered(of, by_value, at), false, at), list = gathered(by_value, by_sequence, at);
  tn_tensor row = fe_move_rows(OP_seq_from_list, list, layout, NULL, 0, at);
  tn_tensor steps = table_like(x, fe_layout_part(layout, "steps", at), at);
  *out = (FeSorted){gathered(x, row, at), gathered(steps, row, at)};
  return fe_ok(out->values) && fe_ok(out->indices);
}

tn_packed_ordered tn_packed_sort(tn_packed s, bool descending, tn_site at) {
  tn_function *f;
  FeSorted y;
  if (!fe_join_packed(&s, 1, &f, at)) return poisoned(f);
  FE_GUARD(f->p, poisoned(f));
  if (!fe_sort_steps(s.data, s.layout, descending, &y, at)) return poisoned(f);
  return (tn_packed_ordered){fe_with_data(s, y.values, at), fe_with_data(s, y.indices, at)};
}
