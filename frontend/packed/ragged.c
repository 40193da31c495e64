// Lists of sequences whose lengths come at run time. The number of sequences is a constant, and each of them has a
// layout of its own: its length is the number of rows of that layout.
//
//   %n = slice %lengths {axis=0, start=1, count=1} : i64[1]
//   %L = packed_layout %n {time=time, rows=rows_2, empty} : layout[1,time,rows_2]
//   %x = slice %padded {axis=0, start=1, count=1} : f32[1,time,12]
//   %s = pack_padded %x, %L : f32[rows_2,12]                              sequence 1
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/packed/packed.h"
#include "ir/fn.h"
#include "ir/slice.h"
#include "ir/storage.h"
#include <string.h>

enum { LONGEST_RUN = 1 << 24 };  // a size as f32 is exact up to it

// ---- apart
// Do both hold the lengths of the same sequences?
static bool same_lengths(const Fn *f, Val a, Val b) {
  if (a.i == b.i) return true;
  if (f->ins[a.i].op != OP_seq_part || f->ins[b.i].op != OP_seq_part) return false;
  Val x = ir_arg(f, a, 0), y = ir_arg(f, b, 0);
  return x.i == y.i && ir_attr(f, a, KEY_part)->u.s.i == ir_attr(f, b, KEY_part)->u.s.i;
}

// The layout that sequence k of these lengths has had since an earlier call; none: NULL handle.
static tn_tensor known_one(tn_tensor lengths, uint32_t k, Dim time) {
  const Fn *f = lengths.fn->ir;
  Val storage = ir_written_storage(f, fe_val(lengths));
  for (uint32_t i = f->n_ins - 1; i > 0; i--) {
    const Ins *ins = &f->ins[i];
    if (ins->op == OP_write && ir_written_storage(f, ir_arg(f, (Val){i}, 0)).i == storage.i) break;
    if (ins->op != OP_packed_layout || !ins->n_args || !ir_attr(f, (Val){i}, KEY_empty)) continue;
    Val n = ir_arg(f, (Val){i}, 0);
    if (f->ins[n.i].op != OP_slice || !same_lengths(f, ir_arg(f, n, 0), fe_val(lengths))) continue;
    Slice s;
    int64_t start;
    ir_slice(f, n, &s);
    if (!ir_is_block(f->prog, &s, &start) || start != k || !ir_dim_is_one(f->prog, s.count)) continue;
    if (ir_attr(f, (Val){i}, KEY_time)->u.dim.i == time.i) return (tn_tensor){lengths.fn, i};
  }
  return fe_poison(lengths.fn);
}

static tn_tensor layout_of_one(tn_tensor lengths, uint32_t k, Dim time, tn_site at) {
  tn_function *f = lengths.fn;
  tn_tensor known = known_one(lengths, k, time);
  if (fe_ok(known)) return known;
  Prog *p = f->p->ir;  // a slice of one stays a slice
  Attr from[] = {ir_a_int(KEY_axis, 0), ir_a_dim(KEY_start, ir_dim(p, k)), ir_a_dim(KEY_count, ir_dim(p, 1))};
  tn_tensor n = fe_emit(OP_slice, &lengths, 1, from, 3, at);
  tn_pack_options o = {.allow_empty = true, .at = at};
  tn_tensor layout = fe_ok(n) ? fe_run_layout(n, ir_dim(p, 1), time, &o) : n;
  return fe_ok(layout) ? fe_keep(layout, at) : layout;
}

void fe_take_apart(tn_tensor padded, tn_tensor lengths, bool batch_first, tn_tensor *out, uint32_t n, tn_site at) {
  Dim time = fe_axis_dim(padded, batch_first ? 1 : 0);
  Attr attr = ir_a_int(KEY_time_major, 1);
  for (uint32_t k = 0; k < n; k++) {
    tn_tensor layout = layout_of_one(lengths, k, time, at);
    tn_tensor one = fe_slice(padded, batch_first ? 0 : 1, k, 1, at);
    if (!fe_ok(layout) || !fe_ok(one)) return;
    out[k] = fe_made(fe_move_rows(OP_pack_padded, one, layout, &attr, !batch_first, at), at);
  }
}

static bool check_unpad(tn_tensor x, tn_tensor lengths, bool batch_first, tn_site at) {
  tn_program *p = x.fn->p;
  if (fe_ins(lengths)->dtype != DT_I64 || fe_rank(lengths) != 1) {
    fe_error(p, fe_rank(lengths) == 1 ? E_DTYPE : E_SHAPE, at, "lengths are an i64 value with one axis");
    fe_note_value(lengths, "the value");
    return false;
  }
  Dim batch = fe_axis_dim(x, batch_first ? 0 : 1);
  if (fe_axis_dim(lengths, 0).i != batch.i)
    fe_error(p, E_LENGTH_COUNT, at, "the number of lengths is not the batch of the padded value");
  else if (!ir_dim_is_const(p->ir, batch))
    fe_error(p, E_ARGUMENT, at, "a list has a constant number of sequences, the batch up to %lld",
             (long long)ir_dim_bound(p->ir, batch));
  else return true;
  fe_note_value(x, "the padded value");
  fe_note_value(lengths, "the list of lengths");
  return false;
}

uint32_t tn_unpad_sequence(tn_tensor x, tn_tensor lengths, bool batch_first, tn_tensor *out, uint32_t max, tn_site at) {
  tn_function *f;
  bool joined = fe_join((const tn_tensor[]){x, lengths}, 2, &f, at);
  for (uint32_t k = 0; out && k < max; k++) out[k] = fe_poison(f);
  if (!joined) return 0;
  FE_GUARD(f->p, 0);
  if (!fe_check_padded(x, at) || !check_unpad(x, lengths, batch_first, at)) return 0;
  uint32_t n = (uint32_t)ir_dim_bound(f->p->ir, fe_axis_dim(lengths, 0));
  if (out) fe_take_apart(x, lengths, batch_first, out, n < max ? n : max, at);
  return n;
}

// ---- together
// What the padded list has as its time axis: the size that all sequences have, else the largest bound; 0: reported.
Dim fe_list_time(const tn_tensor *list, uint32_t n, tn_site at) {
  Prog *ir = list[0].fn->p->ir;
  int64_t most = 0;
  bool same = true;
  for (uint32_t k = 0; k < n; k++) {
    int64_t bound = ir_dim_bound(ir, fe_axis_dim(list[k], 0));
    same &= fe_axis_dim(list[k], 0).i == fe_axis_dim(list[0], 0).i;
    if (bound > most) most = bound;
  }
  if (most <= LONGEST_RUN) return same ? fe_axis_dim(list[0], 0) : ir_dim(ir, most);
  fe_error(list[0].fn->p, E_ARGUMENT, at, "sequences of a list may have at most %d steps, found a bound of %lld",
           LONGEST_RUN, (long long)most);
  return (Dim){0};
}

// [n, ..] as [1, time, ..] or [time, 1, ..], `value` behind its end: one sequence that is n steps long.
tn_tensor fe_pad_one(tn_tensor x, Dim time, double value, bool batch_first, tn_site at) {
  Prog *ir = x.fn->p->ir;
  Dim steps = fe_axis_dim(x, 0), dims[MAX_RANK + 1];
  if (steps.i == time.i) {
    uint32_t rank = fe_rank(x), axis = batch_first ? 0 : 1;
    for (uint32_t k = 0; k < rank; k++) dims[k + (k >= axis)] = fe_axis_dim(x, k);
    dims[axis] = ir_dim(ir, 1);
    return fe_reshape(x, dims, rank + 1, at);
  }
  tn_tensor layout = fe_dense_layout(x.fn, ir_dim(ir, 1), steps, at);
  if (!fe_ok(layout)) return layout;
  Attr attrs[] = {ir_a_num(KEY_value, value), ir_a_int(KEY_size, ir_dim_bound(ir, time)), ir_a_int(KEY_time_major, 1)};
  return fe_move_rows(OP_unpack_padded, x, layout, attrs, batch_first ? 2 : 3, at);
}

// The lengths of the sequences, i64 [n]: one value for all lists of the same sizes, so that they have one layout.
tn_tensor fe_list_lengths(const tn_tensor *list, uint32_t n, tn_site at) {
  tn_function *f = list[0].fn;
  tn_program *p = f->p;
  Dim *dims = rt_alloc(p->mem, n * sizeof *dims), one = ir_dim(p->ir, 1);
  for (uint32_t k = 0; k < n; k++) dims[k] = fe_axis_dim(list[k], 0);
  for (uint32_t k = 0; k < f->n_list_sizes; k++)
    if (f->list_sizes[k].n == n && !memcmp(f->list_sizes[k].dims, dims, n * sizeof *dims)) return f->list_sizes[k].at;
  tn_tensor *size = rt_alloc(p->mem, n * sizeof *size);
  Attr type = ir_a_int(KEY_dtype, DT_I64);
  for (uint32_t k = 0; k < n; k++) {
    tn_tensor s = fe_size(f, dims[k], at);
    size[k] = fe_reshape(fe_emit(OP_cast, &s, 1, &type, 1, at), &one, 1, at);
    if (!fe_ok(size[k])) return size[k];
  }
  tn_tensor lengths = fe_concat(size, n, 0, at);
  if (!fe_ok(lengths)) return lengths;
  fe_keep(lengths, at);
  *RT_PUSH(p->mem, f->list_sizes, f->n_list_sizes, f->cap_list_sizes) = (FeListSizes){dims, n, lengths};
  return lengths;
}
