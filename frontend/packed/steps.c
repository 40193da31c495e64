// Steps of packed sequences elsewhere: shifted, cut out, in windows, joined in time. All of it is a gather of rows by an
// index that is made of the layouts: for each row of the result a step of the same sequence, and the row where that stands.
//
//   %t = seq_part %W {part="steps"}     %u = add %t, 2     %b = seq_part %W {part="sequences"}
//   %r = seq_row %u, %L, %b             %y = index_select %x, %r {axis=0, padded}
//
// A step that a sequence lacks has row -1: zeros there, or the number that is asked for.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/shape.h"
#include "frontend/packed/packed.h"
#include "ir/fn.h"

static tn_tensor whole(tn_function *f, int64_t x, tn_site at) { return fe_number(f, (double)x, DT_I64, at); }
static tn_tensor op2(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, at) : fe_poison(a.fn);
}
static tn_tensor plus(tn_tensor a, int64_t n, tn_site at) { return n ? op2(OP_add, a, whole(a.fn, n, at), at) : a; }

// ---- rows by index
// Which rows are below 0, [n, 1, ..] of a rank
static tn_tensor is_absent(tn_tensor row, uint32_t rank, tn_site at) {
  return fe_as_column(op2(OP_lt, row, whole(row.fn, 0, at), at), rank, at);
}

static tn_tensor rows_at(tn_tensor x, tn_tensor row, tn_site at) {
  const Attr attrs[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  return fe_ok(row) ? fe_emit(OP_index_select, (const tn_tensor[]){x, row}, 2, attrs, 2, at) : row;
}

static tn_tensor filled(tn_tensor x, tn_tensor row, double fill, tn_site at) {
  tn_tensor y = rows_at(x, row, at);
  if (!fe_ok(y) || !fill) return y;
  tn_tensor absent = is_absent(row, fe_rank(y), at), number = fe_number(x.fn, fill, (DType)fe_ins(x)->dtype, at);
  return fe_ok(number) ? fe_pointwise(OP_select, (const tn_tensor[]){absent, number, y}, 3, NULL, 0, at) : number;
}

// The rows of steps of a layout's sequences, for the rows of another layout of the same batch: step [rows of `by`, ..]
static tn_tensor rows_of(tn_tensor layout, tn_tensor step, tn_tensor by, tn_site at) {
  tn_tensor of = fe_layout_part(by, "sequences", at);
  return fe_ok(step) && fe_ok(of) ? fe_emit(OP_seq_row, (const tn_tensor[]){step, layout, of}, 3, NULL, 0, at)
                                  : fe_poison(layout.fn);
}

static tn_packed made(tn_packed s, tn_tensor layout, tn_tensor data, bool sorted, tn_site at) {
  if (!fe_ok(data)) return fe_poisoned_packed(s.data.fn);
  return fe_made_packed((tn_packed){data, layout}, sorted && tn_packed_n_members(s) == 2, at);
}

// For each row of `layout` the step of its sequence in s
static tn_packed taken(tn_packed s, tn_tensor layout, tn_tensor step, double fill, tn_site at) {
  tn_tensor row = rows_of(s.layout, step, layout, at);
  return made(s, layout, fe_ok(row) ? filled(s.data, row, fill, at) : row, true, at);
}

static tn_tensor lengths_on_rows(tn_tensor of, tn_tensor layout, tn_site at) {
  return fe_on_rows(layout, fe_layout_part(of, "lengths", at), at);
}

// ---- tables
static tn_packed made_table(const char *call, tn_packed s, const char *part, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD_AS(f->p, fe_poisoned_packed(f), call);
  return fe_with_data(s, fe_layout_part(s.layout, part, at), at);
}

tn_packed tn_packed_steps(tn_packed s, tn_site at) { return made_table(__func__, s, "steps", at); }
tn_packed tn_packed_sequences(tn_packed s, tn_site at) { return made_table(__func__, s, "sequences", at); }

// ---- the same layout
tn_packed tn_packed_shift(tn_packed s, int64_t by, double fill, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor step = fe_layout_part(s.layout, "steps", at);
  return taken(s, s.layout, op2(OP_sub, step, whole(f, by, at), at), fill, at);
}

tn_packed tn_packed_roll(tn_packed s, int64_t by, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor step = op2(OP_sub, fe_layout_part(s.layout, "steps", at), whole(f, by, at), at);
  step = op2(OP_remainder, step, lengths_on_rows(s.layout, s.layout, at), at);
  return taken(s, s.layout, step, 0, at);
}

// ---- one step of each sequence
static tn_tensor step_of(tn_packed s, tn_tensor step, double fill, tn_site at) {
  tn_tensor n = fe_layout_part(s.layout, "lengths", at), zero = whole(s.data.fn, 0, at);
  tn_tensor from_end = op2(OP_add, step, n, at), is_below = op2(OP_lt, step, zero, at);
  if (!fe_ok(is_below)) return is_below;
  step = fe_emit(OP_select, (const tn_tensor[]){is_below, from_end, step}, 3, NULL, 0, at);
  tn_tensor row = op2(OP_seq_row, step, s.layout, at);
  return fe_ok(row) ? filled(s.data, row, fill, at) : row;
}

tn_tensor tn_packed_step(tn_packed s, int64_t step, double fill, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  tn_tensor n = fe_layout_part(s.layout, "lengths", at);
  tn_tensor own = step < 0 ? plus(n, step, at) : fe_full(f, (double)step, fe_shape_of(n), DT_I64, at);
  tn_tensor row = op2(OP_seq_row, own, s.layout, at);
  return fe_made(fe_ok(row) ? filled(s.data, row, fill, at) : row, at);
}

// A position for each sequence, which the run gives
static bool check_positions(tn_packed s, tn_tensor t, tn_site at) {
  if (fe_ins(t)->dtype == DT_I64 && fe_rank(t) == 1 && fe_axis_dim(t, 0).i == fe_axis_dim(s.layout, 0).i) return true;
  fe_error(t.fn->p, fe_ins(t)->dtype == DT_I64 ? E_LENGTH_COUNT : E_DTYPE, at,
           "steps are an i64 value with one for each sequence, not %s", fe_type_text(t));
  fe_note_value(t, "the value");
  fe_note(t.fn->p, fe_ins(s.layout)->loc, "the sequences were packed here");
  return false;
}

tn_tensor tn_packed_step_at(tn_packed s, tn_tensor step, double fill, tn_site at) {
  tn_function *f;
  if (!fe_join((const tn_tensor[]){s.data, s.layout, step}, 3, &f, at)) return fe_poison(f);
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  return check_positions(s, step, at) ? fe_made(step_of(s, step, fill, at), at) : fe_poison(f);
}

// ---- parts of each sequence
// Python's x[from:to]: `first` is the step at the start of the part, from the end where is_from_end
typedef struct {
  FeDerived how;
  int64_t first;
  bool is_from_end;
} Part;

static bool part_of(int64_t from, int64_t to, Part *p) {
  int64_t wide = to == TN_TO_END ? INT64_MAX : to > from ? to - from : 0;
  *p = (Part){{.how = FE_CUT, .b = wide}, from, from < 0};
  if (from < 0 && to >= 0 && to != TN_TO_END) return false;
  if (from >= 0) p->how.a = to < 0 ? from - to : from;
  if (from >= 0 && to < 0) p->how.b = INT64_MAX;
  if (from < 0) p->how.a = to < 0 ? -to : 0;
  if (from < 0 && to == TN_TO_END) p->how.b = -from;
  return true;
}

static tn_packed part(tn_packed s, int64_t from, int64_t to, tn_site at) {
  Part p;
  tn_function *f = s.data.fn;
  if (!part_of(from, to, &p)) {
    fe_error(f->p, E_ARGUMENT, at,
             "a part of each sequence begins %lld before its end and ends at step %lld, which may be before that",
             (long long)-from, (long long)to);
    fe_note(f->p, fe_ins(s.layout)->loc, "the sequences were packed here");
    fe_hint(f->p, "tn_packed_split takes a position for each sequence");
    return fe_poisoned_packed(f);
  }
  tn_tensor layout = fe_derived_layout(s.layout, p.how, at);
  if (!fe_ok(layout)) return fe_poisoned_packed(f);
  tn_tensor step = fe_layout_part(layout, "steps", at);
  if (p.is_from_end) {
    tn_tensor first = plus(fe_layout_part(s.layout, "lengths", at), p.first, at);
    first = op2(OP_max, first, whole(f, 0, at), at);
    step = op2(OP_add, step, fe_on_rows(layout, first, at), at);
  }
  return taken(s, layout, p.is_from_end ? step : plus(step, p.first, at), 0, at);
}

tn_packed tn_packed_slice(tn_packed s, int64_t from, int64_t to, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  return part(s, from, to, at);
}

tn_packed tn_packed_diff(tn_packed s, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  tn_tensor layout = fe_derived_layout(s.layout, (FeDerived){.how = FE_CUT, .a = 1, .b = INT64_MAX}, at);
  if (!fe_ok(layout)) return fe_poisoned_packed(f);
  tn_tensor step = fe_layout_part(layout, "steps", at), now = rows_of(s.layout, plus(step, 1, at), layout, at);
  tn_tensor y[] = {rows_at(s.data, now, at), rows_at(s.data, rows_of(s.layout, step, layout, at), at)};
  return made(s, layout, fe_ok(y[0]) && fe_ok(y[1]) ? fe_pointwise(OP_sub, y, 2, NULL, 0, at) : y[0], true, at);
}

bool tn_packed_split(tn_packed s, tn_tensor step, tn_packed out[2], tn_site at) {
  tn_function *f;
  if (!out) return false;
  out[0] = out[1] = fe_poisoned_packed(s.data.fn);
  if (!fe_join((const tn_tensor[]){s.data, s.layout, step}, 3, &f, at)) return false;
  if (!fe_join_packed(&s, 1, &f, at)) return false;
  FE_GUARD(f->p, false);
  if (!check_positions(s, step, at)) return false;
  tn_tensor heads = fe_derived_layout(s.layout, (FeDerived){.how = FE_HEADS, .with = step.v}, at);
  tn_tensor tails = fe_derived_layout(s.layout, (FeDerived){.how = FE_TAILS, .with = step.v}, at);
  if (!fe_ok(heads) || !fe_ok(tails)) return false;
  tn_tensor first = lengths_on_rows(heads, tails, at);
  tn_tensor steps[] = {fe_layout_part(heads, "steps", at), fe_layout_part(tails, "steps", at)};
  tn_tensor row = rows_of(s.layout, steps[0], heads, at),
            rest = rows_of(s.layout, op2(OP_add, steps[1], first, at), tails, at);
  out[0] = made(s, heads, rows_at(s.data, row, at), false, at);
  out[1] = made(s, tails, rows_at(s.data, rest, at), false, at);
  return fe_ok(out[0].data) && fe_ok(out[1].data);
}

// ---- windows
tn_tensor fe_row_windows(tn_tensor x, tn_tensor layout, const FeWindow *w, tn_tensor *own, double fill, tn_site at) {
  tn_function *f = x.fn;
  Prog *p = f->p->ir;
  *own = fe_windows_layout(layout, w, at);
  if (!fe_ok(*own)) return *own;
  Dim rows = fe_axis_dim(*own, 2), taps = ir_dim(p, w->taps), one = ir_dim(p, 1), d[MAX_RANK + 1];
  tn_tensor tap = fe_cast(fe_positions(f, taps, at), DT_I64, at), step = fe_layout_part(*own, "steps", at);
  tap = plus(op2(OP_mul, tap, whole(f, w->dilation, at), at), -w->before, at);
  step = fe_reshape(op2(OP_mul, step, whole(f, w->stride, at), at), (Dim[]){rows, one}, 2, at);
  tn_tensor row = rows_of(layout, op2(OP_add, step, fe_reshape(tap, (Dim[]){one, taps}, 2, at), at), *own, at);
  if (!fe_ok(row)) return row;
  row = fe_reshape(row, (Dim[]){ir_dim_mul(p, rows, taps)}, 1, at);
  tn_tensor y = filled(x, row, fill, at);
  d[0] = rows, d[1] = taps;
  for (uint32_t k = 1; k < fe_rank(x); k++) d[k + 1] = fe_axis_dim(x, k);
  return fe_ok(y) ? fe_reshape(y, d, fe_rank(x) + 1, at) : y;
}

tn_packed tn_packed_unfold(tn_packed s, int64_t size, int64_t step, tn_site at) {
  tn_function *f;
  tn_tensor own;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (size < 1 || step < 1 || fe_rank(s.data) == MAX_RANK) {
    fe_error(f->p, E_ARGUMENT, at,
             "windows have at least one step and move by at least one, found %lld and %lld; they have "
             "one axis more than their data",
             (long long)size, (long long)step);
    fe_note_value(s.data, "the data");
    return fe_poisoned_packed(f);
  }
  FeWindow w = {.taps = size, .stride = step, .dilation = 1, .groups = 1};
  tn_tensor y = fe_row_windows(s.data, s.layout, &w, &own, 0, at);
  uint32_t perm[MAX_RANK];
  for (uint32_t k = 0; k <= fe_rank(s.data); k++) perm[k] = k == fe_rank(s.data) ? 1 : k ? k + 1 : 0;
  return made(s, own, fe_ok(y) && fe_rank(s.data) > 1 ? fe_permute(y, perm, at) : y, true, at);
}

// ---- joined in time
static bool can_join(tn_packed a, tn_packed b, tn_site at) {
  tn_program *p = a.data.fn->p;
  bool same = fe_rank(a.data) == fe_rank(b.data) && fe_ins(a.data)->dtype == fe_ins(b.data)->dtype;
  for (uint32_t k = 1; same && k < fe_rank(a.data); k++) same = fe_axis_dim(a.data, k).i == fe_axis_dim(b.data, k).i;
  bool one_batch = fe_axis_dim(a.layout, 0).i == fe_axis_dim(b.layout, 0).i;
  if (same && one_batch) return true;
  fe_error(p, one_batch ? E_SHAPE : E_LENGTH_COUNT, at, "%s",
           one_batch ? "sequences that are joined in time have one dtype, and one size of each axis behind time"
                     : "sequences that are joined in time are of one batch: as many of both");
  fe_note(p, fe_ins(a.layout)->loc, "the first was packed here");
  fe_note(p, fe_ins(b.layout)->loc, "the second was packed here");
  return false;
}

tn_packed tn_packed_concat_time(tn_packed a, tn_packed b, tn_site at) {
  tn_function *f;
  if (!fe_join_packed((const tn_packed[]){a, b}, 2, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (!can_join(a, b, at)) return fe_poisoned_packed(f);
  tn_tensor layout = fe_derived_layout(a.layout, (FeDerived){.how = FE_JOINED, .with = b.layout.v}, at);
  if (!fe_ok(layout)) return fe_poisoned_packed(f);
  tn_tensor step = fe_layout_part(layout, "steps", at);
  tn_tensor behind = op2(OP_sub, step, lengths_on_rows(a.layout, layout, at), at);
  tn_tensor row = rows_of(a.layout, step, layout, at), y[3] = {TN_NONE, TN_NONE, rows_at(a.data, row, at)};
  y[1] = rows_at(b.data, rows_of(b.layout, behind, layout, at), at);
  if (fe_ok(y[1]) && fe_ok(y[2])) y[0] = is_absent(row, fe_rank(a.data), at);
  bool both = tn_packed_n_members(b) == 2;
  return made(a, layout, fe_ok(y[0]) ? fe_pointwise(OP_select, y, 3, NULL, 0, at) : fe_poison(f), both, at);
}

// ---- some steps of each sequence, drawn: those of the n smallest of random numbers, in their order
static tn_tensor drawn(tn_packed s, tn_tensor layout, tn_site at) {
  tn_function *f = s.data.fn;
  Shape rows = ir_shape(f->p->ir, (Dim[]){fe_axis_dim(s.layout, 2)}, 1);
  const Attr a[] = {ir_a_num(KEY_lo, 0), ir_a_list(KEY_shape, rows), ir_a_num(KEY_hi, 1),
                    ir_a_int(KEY_id, fe_stream(f, at))};
  FeSorted noise, step;
  if (!fe_sort_steps(fe_emit_in(f, OP_uniform, a, 4, at), s.layout, false, &noise, at)) return fe_poison(f);
  tn_tensor few = rows_at(noise.indices, rows_of(s.layout, fe_layout_part(layout, "steps", at), layout, at), at);
  return fe_ok(few) && fe_sort_steps(few, layout, false, &step, at) ? step.values : fe_poison(f);
}

tn_packed tn_packed_sample(tn_packed s, int64_t n, tn_site at) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, at)) return fe_poisoned_packed(f);
  FE_GUARD(f->p, fe_poisoned_packed(f));
  if (n < 0) {
    fe_error(f->p, E_ARGUMENT, at, "%lld steps of each sequence are asked for", (long long)n);
    fe_note(f->p, fe_ins(s.layout)->loc, "the sequences were packed here");
    return fe_poisoned_packed(f);
  }
  tn_tensor layout = fe_derived_layout(s.layout, (FeDerived){.how = FE_CUT, .b = n}, at);
  if (!fe_ok(layout)) return fe_poisoned_packed(f);
  return taken(s, layout, drawn(s, layout, at), 0, at);
}
