// What is computed of packed sequences without padding them: totals of each sequence, softmax and attention over time,
// values of sequences on every row, modules and losses on the rows.
#include "frontend/graph/ops.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/packed/packed.h"

static bool is_packed(tn_packed s, tn_function **f, tn_site at) { return fe_join_packed(&s, 1, f, at); }

// ---- totals, [B, ..] in user order
static tn_tensor total(Op op, tn_packed s, const Attr *attr, tn_site at) {
  if (op == OP_seq_select) return fe_move_rows(op, s.data, s.layout, attr, attr != NULL, at);
  return fe_emit(op, (const tn_tensor[]){s.data, s.layout}, 2, attr, attr != NULL, at);
}

static tn_tensor made_total(Op op, tn_packed s, const Attr *attr, const char *call, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poison(f);
  FE_GUARD_AS(f->p, fe_poison(f), call);
  return fe_made(total(op, s, attr, at), at);
}

tn_tensor tn_packed_sum(tn_packed s, tn_site at) { return made_total(OP_seq_sum, s, NULL, __func__, at); }
tn_tensor tn_packed_max(tn_packed s, tn_site at) { return made_total(OP_seq_max, s, NULL, __func__, at); }
tn_tensor tn_packed_min(tn_packed s, tn_site at) { return made_total(OP_seq_min, s, NULL, __func__, at); }
tn_tensor tn_packed_last(tn_packed s, tn_site at) { return made_total(OP_seq_select, s, NULL, __func__, at); }

tn_tensor tn_packed_first(tn_packed s, tn_site at) {
  Attr first = ir_a_int(KEY_first, 1);
  return made_total(OP_seq_select, s, &first, __func__, at);
}

tn_tensor tn_take_last(tn_tensor x, tn_tensor lengths, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){x, lengths}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_rank(x) < 2) {
    fe_error(f->p, E_SHAPE, at, "tn_take_last takes padded sequences [B,T,..], not %s", fe_type_text(x));
    fe_note_value(x, "the value");
    return fe_poison(f);
  }
  tn_packed s = {.layout = fe_run_layout(lengths, fe_axis_dim(x, 0), fe_axis_dim(x, 1), &(tn_pack_options){.at = at})};
  if (fe_ok(s.layout)) s.data = fe_move_rows(OP_pack_padded, x, s.layout, NULL, 0, at);
  return fe_ok(s.layout) && fe_ok(s.data) ? fe_made(total(OP_seq_select, s, NULL, at), at) : fe_poison(f);
}

tn_tensor tn_packed_argmax(tn_packed s, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor best = total(OP_seq_max, s, NULL, at);
  return fe_ok(best) ? fe_made((tn_tensor){f, best.v + 1}, at) : best;
}

static tn_tensor made_table(tn_packed s, const char *part, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return fe_made(fe_layout_part(s.layout, part, at), at);
}

tn_tensor tn_packed_lengths(tn_packed s, tn_site at) { return made_table(s, "lengths", at); }
tn_tensor tn_packed_batch_sizes(tn_packed s, tn_site at) { return made_table(s, "batch_sizes", at); }
tn_tensor tn_packed_sorted_indices(tn_packed s, tn_site at) { return made_table(s, "sorted", at); }
tn_tensor tn_packed_unsorted_indices(tn_packed s, tn_site at) { return made_table(s, "unsorted", at); }

// The sum by the length: 0 / 0 for an empty sequence.
tn_tensor tn_packed_mean(tn_packed s, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor sum = total(OP_seq_sum, s, NULL, at);
  if (!fe_ok(sum)) return sum;
  tn_tensor n = fe_cast(fe_layout_part(s.layout, "lengths", at), DT_F32, at);
  return fe_made(fe_emit2(OP_div, sum, fe_as_column(n, fe_rank(sum), at), at), at);
}

// ---- rows
static tn_packed made_rows(Op op, tn_packed s, tn_tensor x, tn_site at) {
  bool only_moves = op == OP_seq_reverse || op == OP_seq_broadcast;
  tn_tensor data = only_moves ? fe_move_rows(op, x, s.layout, NULL, 0, at) : fe_emit2(op, x, s.layout, at);
  return fe_ok(data) ? fe_with_data(s, data, at) : fe_poisoned_packed(s.data.fn);
}

tn_packed tn_packed_softmax(tn_packed s, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  return made_rows(OP_seq_softmax, s, s.data, at);
}

tn_packed tn_packed_reverse(tn_packed s, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  return made_rows(OP_seq_reverse, s, s.data, at);
}

tn_packed tn_packed_broadcast(tn_packed s, tn_tensor x, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){s.data, s.layout, x}, 3, &f, at)) return fe_poisoned_packed(f);
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  return made_rows(OP_seq_broadcast, s, x, at);
}

// a with axes of size 1 behind, up to that rank.
static tn_tensor widened(tn_tensor a, uint32_t rank, tn_site at) {
  Dim dims[MAX_RANK];
  if (fe_rank(a) >= rank) return a;
  for (uint32_t k = 0; k < rank; k++) dims[k] = k < fe_rank(a) ? fe_axis_dim(a, k) : ir_dim(a.fn->p->ir, 1);
  return fe_reshape(a, dims, rank, at);
}

tn_tensor tn_packed_attend(tn_packed scores, tn_packed values, tn_site at) {
  tn_function *f;
  if (!fe_join_packed((const tn_packed[]){scores, values}, 2, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!fe_same_layout(scores, values, "packed_attend", at)) return fe_poison(f);
  tn_tensor weight = fe_emit2(OP_seq_softmax, scores.data, scores.layout, at);
  if (!fe_ok(weight)) return weight;
  tn_tensor rows = fe_emit2(OP_mul, widened(weight, fe_rank(values.data), at), values.data, at);
  return fe_made(fe_emit2(OP_seq_sum, rows, values.layout, at), at);
}

// ---- the usual calls, on the rows
tn_packed tn_packed_dropout(tn_packed s, double p, tn_site at) {
  tn_function *f;
  if (!is_packed(s, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor data = fe_dropout(s.data, p, at);
  return fe_with_data(s, data, at);
}

tn_packed tn_packed_concat(tn_packed a, tn_packed b, tn_site at) {
  tn_function *f;
  if (!fe_join_packed((const tn_packed[]){a, b}, 2, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!fe_same_layout(a, b, "packed_concat", at)) return fe_poisoned_packed(f);
  if (fe_rank(a.data) < 2) {
    fe_error(f->p, E_SHAPE, at, "features are joined along the last axis, and these rows have none");
    fe_note_value(a.data, "the first");
    fe_note_value(b.data, "the second");
    return fe_poisoned_packed(f);
  }
  tn_tensor data = fe_concat((const tn_tensor[]){a.data, b.data}, 2, fe_rank(a.data) - 1, at);
  return fe_ok(data) ? fe_with_data(a, data, at) : fe_poisoned_packed(f);
}

tn_tensor tn_packed_cross_entropy(tn_packed logits, tn_packed labels, tn_loss_options o) {
  tn_function *f;
  if (!fe_join_packed((const tn_packed[]){logits, labels}, 2, &f, o.at)) return fe_poison(f);
  if (!fe_same_layout(logits, labels, "packed_cross_entropy", o.at)) return fe_poison(f);
  return tn_cross_entropy(logits.data, labels.data, o);
}

tn_tensor tn_packed_mse(tn_packed a, tn_packed b, tn_site at) {
  tn_function *f;
  if (!fe_join_packed((const tn_packed[]){a, b}, 2, &f, at)) return fe_poison(f);
  if (!fe_same_layout(a, b, "packed_mse", at)) return fe_poison(f);
  return tn_mse(a.data, b.data, (tn_reduce_options){.at = at});
}
