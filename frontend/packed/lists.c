// Lists of sequences: packed, padded, and taken apart again. Where a length is no constant, ragged.c has the way.
//
//   %flat = concat %a, %b, %c {axis=0} : f32[6,12]                one after the other, in user order
//   %data = seq_from_list %flat, %L : f32[6,12]                   packed; no padding is made
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/packed/packed.h"
#include "ir/fn.h"
#include <string.h>

static bool same_behind(tn_tensor a, tn_tensor b) {
  if (fe_rank(a) != fe_rank(b) || fe_ins(a)->dtype != fe_ins(b)->dtype) return false;
  for (uint32_t k = 1; k < fe_rank(a); k++)
    if (fe_axis_dim(a, k).i != fe_axis_dim(b, k).i) return false;
  return true;
}

// lengths: constants, or the bounds of those that come at run time; *time: the longest
static bool check_sequences(const tn_tensor *list, uint32_t n, int64_t *lengths, int64_t *time, bool *by_run,
                            tn_site at) {
  tn_program *p = list[0].fn->p;
  Prog *ir = p->ir;
  *time = 0, *by_run = false;
  for (uint32_t k = 0; k < n; k++) {
    if (fe_rank(list[k]) < 1 || fe_rank(list[k]) >= MAX_RANK || fe_ins(list[k])->dtype == DT_LAYOUT) {
      fe_error(p, E_SHAPE, at, "sequence %u has no time axis", k);
      fe_note_value(list[k], "the value");
      return false;
    }
    if (!same_behind(list[0], list[k])) {
      fe_error(p, E_REGISTERED_SHAPE, at, "sequence %u has another dtype, or other sizes behind time, than sequence 0",
               k);
      fe_note_value(list[0], "sequence 0");
      fe_note_value(list[k], rt_printf(p->mem, "sequence %u", k));
      return false;
    }
    lengths[k] = ir_dim_bound(ir, fe_axis_dim(list[k], 0));
    *by_run |= !ir_dim_is_const(ir, fe_axis_dim(list[k], 0));
    if (lengths[k] > *time) *time = lengths[k];
  }
  return true;
}

// The list as one value, without its empty sequences.
static tn_tensor joined(const tn_tensor *list, const int64_t *lengths, uint32_t n, tn_site at) {
  tn_tensor *some = rt_alloc(list[0].fn->p->mem, n * sizeof *some);
  uint32_t m = 0;
  for (uint32_t k = 0; k < n; k++)
    if (lengths[k]) some[m++] = list[k];
  return m ? fe_concat(some, m, 0, at) : list[0];
}

static tn_tensor padded_list(const tn_tensor *list, uint32_t n, Dim time, double value, bool batch_first, tn_site at);

// PyTorch's way: padded, then packed.
static tn_packed pack_by_run(const tn_tensor *list, uint32_t n, const tn_pack_options *o) {
  tn_function *f = list[0].fn;
  Dim time = fe_list_time(list, n, o->at);
  tn_tensor x = time.i ? padded_list(list, n, time, 0, true, o->at) : fe_poison(f);
  tn_tensor lengths = fe_ok(x) ? fe_list_lengths(list, n, o->at) : x;
  tn_pack_options by = *o;
  by.time_major = false;
  int64_t most = 0;  // each sequence has its own bound
  for (uint32_t k = 0; k < n; k++) most += ir_dim_bound(f->p->ir, fe_axis_dim(list[k], 0));
  if (!by.max_rows || most < by.max_rows) by.max_rows = most;
  return fe_ok(lengths) ? fe_pack_by(x, lengths, &by) : fe_poisoned_packed(f);
}

tn_packed tn_pack_sequence(const tn_tensor *list, uint32_t n, tn_pack_options o) {
  tn_function *f = NULL;
  if (!list || !n || !fe_join(list, n, &f, o.at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  int64_t *lengths = rt_alloc(f->p->mem, n * sizeof *lengths), time;
  bool by_run;
  if (!check_sequences(list, n, lengths, &time, &by_run, o.at)) return fe_poisoned_packed(f);
  if (by_run) return pack_by_run(list, n, &o);
  tn_tensor layout = fe_constant_layout(list[0], lengths, n, time, &o);
  if (!fe_ok(layout)) return fe_poisoned_packed(f);
  tn_tensor data = fe_move_rows(OP_seq_from_list, joined(list, lengths, n, o.at), layout, NULL, 0, o.at);
  return fe_ok(data) ? fe_made_packed((tn_packed){data, layout}, o.enforce_sorted, o.at) : fe_poisoned_packed(f);
}

// ---- padded
// [T, ..] as [1, time, ..] or [time, 1, ..], `value` behind its end.
static tn_tensor padded(tn_tensor x, int64_t time, double value, bool batch_first, tn_site at) {
  Prog *ir = x.fn->p->ir;
  Dim dims[MAX_RANK + 1];
  uint32_t rank = fe_rank(x), axis = batch_first ? 0 : 1;
  int64_t length = ir_dim_bound(ir, fe_axis_dim(x, 0));
  for (uint32_t k = 0; k < rank; k++) dims[k] = fe_axis_dim(x, k);
  if (length < time) {
    dims[0] = ir_dim(ir, time - length);
    tn_tensor rest = fe_full(x.fn, value, ir_shape(ir, dims, rank), (DType)fe_ins(x)->dtype, at);
    x = length && fe_ok(rest) ? fe_concat((const tn_tensor[]){x, rest}, 2, 0, at) : rest;
  }
  if (!fe_ok(x)) return x;
  for (uint32_t k = 0; k < rank; k++) dims[k + (k >= axis)] = fe_axis_dim(x, k);
  dims[axis] = ir_dim(ir, 1);
  return fe_reshape(x, dims, rank + 1, at);
}

static tn_tensor padded_list(const tn_tensor *list, uint32_t n, Dim time, double value, bool batch_first, tn_site at) {
  const Prog *ir = list[0].fn->p->ir;
  tn_tensor *rows = rt_alloc(list[0].fn->p->mem, n * sizeof *rows);
  for (uint32_t k = 0; k < n; k++) {
    bool is_const = ir_dim_is_const(ir, fe_axis_dim(list[k], 0)) && ir_dim_is_const(ir, time);
    rows[k] = is_const ? padded(list[k], ir_dim_bound(ir, time), value, batch_first, at)
                       : fe_pad_one(list[k], time, value, batch_first, at);
    if (!fe_ok(rows[k])) return rows[k];
  }
  return fe_concat(rows, n, batch_first ? 0 : 1, at);
}

// ---- padded in front: PyTorch's padding_side="left"
// The sequences of a padded value, all as long as its time axis, from their last step to their first.
static tn_tensor turned(tn_tensor x, bool batch_first, tn_site at) {
  Attr attrs[] = {ir_a_num(KEY_value, 0), ir_a_int(KEY_time_major, 1)};
  tn_tensor layout = fe_dense_layout(x.fn, fe_axis_dim(x, !batch_first), fe_axis_dim(x, batch_first), at);
  if (!fe_ok(layout)) return layout;
  tn_tensor rows = fe_move_rows(OP_pack_padded, x, layout, attrs + 1, !batch_first, at);
  rows = fe_move_rows(OP_seq_reverse, rows, layout, NULL, 0, at);
  return fe_move_rows(OP_unpack_padded, rows, layout, attrs, batch_first ? 1 : 2, at);
}

static tn_tensor turned_one(tn_tensor x, tn_site at) {
  tn_tensor layout = fe_dense_layout(x.fn, ir_dim(x.fn->p->ir, 1), fe_axis_dim(x, 0), at);
  return fe_move_rows(OP_seq_reverse, x, layout, NULL, 0, at);
}

// The sequences turned around, padded behind, and turned back.
static tn_tensor padded_left(const tn_tensor *list, uint32_t n, Dim time, double value, bool batch_first, tn_site at) {
  tn_tensor *back = rt_alloc(list[0].fn->p->mem, n * sizeof *back);
  for (uint32_t k = 0; k < n; k++) {
    back[k] = turned_one(list[k], at);
    if (!fe_ok(back[k])) return back[k];
  }
  tn_tensor y = padded_list(back, n, time, value, batch_first, at);
  return fe_ok(y) ? turned(y, batch_first, at) : y;
}

static tn_tensor pad_sequence(const tn_tensor *list, uint32_t n, double value, bool batch_first, bool left,
                              tn_site at) {
  tn_function *f = NULL;
  if (!list || !n || !fe_join(list, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  int64_t *lengths = rt_alloc(f->p->mem, n * sizeof *lengths), longest;
  bool by_run;
  if (!check_sequences(list, n, lengths, &longest, &by_run, at)) return fe_poison(f);
  Dim time = by_run ? fe_list_time(list, n, at) : ir_dim(f->p->ir, longest);
  if (!time.i) return fe_poison(f);
  return fe_made((left ? padded_left : padded_list)(list, n, time, value, batch_first, at), at);
}

tn_tensor tn_pad_sequence(const tn_tensor *list, uint32_t n, double value, bool batch_first, tn_site at) {
  return pad_sequence(list, n, value, batch_first, false, at);
}
tn_tensor tn_pad_sequence_left(const tn_tensor *list, uint32_t n, double value, bool batch_first, tn_site at) {
  return pad_sequence(list, n, value, batch_first, true, at);
}

// ---- taken apart
// Sequence k of a padded value, [length, ..].
static tn_tensor one_of(tn_tensor x, uint32_t k, int64_t length, bool batch_first, tn_site at) {
  Dim dims[MAX_RANK];
  tn_tensor row = fe_slice(x, batch_first ? 0 : 1, k, 1, at);
  if (fe_ok(row)) row = fe_slice(row, batch_first ? 1 : 0, 0, length, at);
  if (!fe_ok(row)) return row;
  dims[0] = fe_axis_dim(row, batch_first ? 1 : 0);
  for (uint32_t j = 2; j < fe_rank(row); j++) dims[j - 1] = fe_axis_dim(row, j);
  return fe_reshape(row, dims, fe_rank(row) - 1, at);
}

bool tn_unpad(tn_tensor x, const int64_t *lengths, uint32_t n, bool batch_first, tn_tensor *out, tn_site at) {
  tn_function *f;
  fe_poison_all(x.fn, out, n);
  if (!fe_join(&x, 1, &f, at)) return false;
  FE_GUARD(f->p, false);
  Prog *ir = f->p->ir;
  if (n && (!lengths || !out)) {
    fe_error(f->p, E_ARGUMENT, at, "the %u %s are missing", n, lengths ? "places for sequences" : "lengths");
    return false;
  }
  Dim batch = fe_rank(x) >= 2 ? fe_axis_dim(x, batch_first ? 0 : 1) : (Dim){0};
  if (!batch.i || !ir_shape_is_const(ir, fe_shape_of(x)) || ir_dim_bound(ir, batch) != n) {
    fe_error(f->p, batch.i ? E_LENGTH_COUNT : E_SHAPE, at,
             "%u sequences are taken from a value whose batch is not that constant", n);
    fe_note_value(x, "the padded value");
    return false;
  }
  int64_t time = ir_dim_bound(ir, fe_axis_dim(x, batch_first ? 1 : 0));
  for (uint32_t k = 0; k < n; k++) {
    if (lengths[k] < 0 || lengths[k] > time) {
      fe_error(f->p, E_LENGTH_RANGE, at, "length %lld at index %u is not in [0, %lld]", (long long)lengths[k], k,
               (long long)time);
      fe_note_value(x, "the padded value");
      return fe_poison_all(f, out, k), false;
    }
    out[k] = fe_made(one_of(x, k, lengths[k], batch_first, at), at);
  }
  return true;
}

static uint32_t unpack_by_run(tn_packed s, tn_tensor *out, uint32_t max, tn_site at) {
  tn_function *f = s.data.fn;
  Dim batch = fe_axis_dim(s.layout, 0);
  if (!ir_dim_is_const(f->p->ir, batch)) {
    fe_error(f->p, E_ARGUMENT, at, "a list has a constant number of sequences, the batch up to %lld",
             (long long)ir_dim_bound(f->p->ir, batch));
    fe_note(f->p, fe_ins(s.layout)->loc, "the sequences were packed here");
    fe_hint(f->p, "tn_pad_packed gives them in one padded value, tn_packed_lengths their lengths");
    return 0;
  }
  uint32_t n = (uint32_t)ir_dim_bound(f->p->ir, batch);
  Attr value = ir_a_num(KEY_value, 0);
  tn_tensor lengths = fe_layout_part(s.layout, "lengths", at);
  tn_tensor padded = fe_move_rows(OP_unpack_padded, s.data, s.layout, &value, 1, at);
  if (out && fe_ok(lengths) && fe_ok(padded)) fe_take_apart(padded, lengths, true, out, n < max ? n : max, at);
  return n;
}

uint32_t tn_unpack_sequence(tn_packed s, tn_tensor *out, uint32_t max, tn_site at) {
  tn_function *f;
  fe_poison_all(s.data.fn, out, max);
  if (!fe_join_packed(&s, 1, &f, at)) return 0;
  FE_GUARD(f->p, 0);
  const Attr *lengths = ir_attr(f->ir, fe_val(s.layout), KEY_lengths);
  if (!lengths) return unpack_by_run(s, out, max, at);
  Shape list = lengths->u.list;
  uint32_t n = ir_rank(f->p->ir, list);
  tn_tensor flat = fe_move_rows(OP_seq_to_list, s.data, s.layout, NULL, 0, at);
  for (int64_t k = 0, start = 0; out && k < n && k < max && fe_ok(flat); k++) {
    int64_t length = ir_list_at(f->p->ir, list, (uint32_t)k);
    out[k] = fe_made(fe_slice(flat, 0, start, length, at), at);
    start += length;
  }
  return n;
}
