// Views and rearrangements that are composed of slices, reshapes, permutations, broadcasts and concats.
//
// A public call ends in fe_made: its result is one value in the ledger, what it is composed of is none.
#include "frontend/graph/shape.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/tenure/ops.h"
#include "ir/storage.h"

#define OPEN(x, n)                                 \
  tn_function *f;                                  \
  if (!fe_join(x, n, &f, at)) return fe_poison(f); \
  FE_GUARD(f->p, fe_poison(f))

static Prog *ir_of(tn_tensor x) { return x.fn->p->ir; }

// The size of an axis; -1: the run knows it.
static int64_t const_size(tn_tensor x, uint32_t axis) {
  Dim d = fe_axis_dim(x, axis);
  return ir_dim_is_const(ir_of(x), d) ? ir_dim_bound(ir_of(x), d) : -1;
}

static uint32_t dims_of(tn_tensor x, Dim *out) {
  uint32_t rank = fe_rank(x);
  for (uint32_t k = 0; k < rank; k++) out[k] = fe_axis_dim(x, k);
  return rank;
}

static tn_tensor expand(tn_tensor x, const Dim *d, uint32_t n, tn_site at) {
  if (!fe_ok(x)) return x;
  return fe_emit(OP_expand, &x, 1, (const Attr[]){ir_a_list(KEY_shape, ir_shape(ir_of(x), d, n))}, 1, at);
}

// y, made of x, as a value of its own: a write to it is none to x.
static tn_tensor separate(tn_tensor y, tn_tensor x, tn_site at) {
  if (!fe_ok(y) || ir_written_storage(x.fn->ir, fe_val(y)).i != ir_written_storage(x.fn->ir, fe_val(x)).i) return y;
  return y.v == x.v ? fe_same(x, at) : fe_emit1(OP_clone, y, at);
}

// ---- slices
static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

// Python's start and stop for n elements.
static void limits_of(int64_t n, int64_t step, int64_t *start, int64_t *stop) {
  int64_t lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n;
  *start = *start == TN_END ? (step < 0 ? hi : lo) : clamp(*start < 0 ? *start + n : *start, lo, hi);
  *stop = *stop == TN_END ? (step < 0 ? lo : hi) : clamp(*stop < 0 ? *stop + n : *stop, lo, hi);
}

static tn_tensor step_of_constant(tn_tensor x, uint32_t axis, int64_t start, int64_t stop, int64_t step, tn_site at) {
  int64_t n = const_size(x, axis), by = step < 0 ? -step : step, span;
  limits_of(n, step, &start, &stop);
  span = step < 0 ? start - stop : stop - start;
  int64_t count = span > 0 ? (span + by - 1) / by : 0, from = count == 0 ? 0 : step < 0 ? n - 1 - start : start;
  if (step == 1) return fe_slice(x, axis, from, count, at);
  return fe_strided(x, axis, ir_dim(ir_of(x), from), ir_dim(ir_of(x), count), by, step < 0, at);
}

// Where start and stop lie, seen from the end that the step leaves: sizes, exact where the axis is long enough.
static tn_tensor step_of_bounded(tn_tensor x, uint32_t axis, int64_t start, int64_t stop, int64_t step, tn_site at) {
  Prog *p = ir_of(x);
  Dim n = fe_axis_dim(x, axis), zero = ir_dim(p, 0), from = zero, to = n;
  int64_t by = step < 0 ? -step : step;
  bool back = step < 0;
  // position v from the front is v (n + v of a negative one); backward, position v lies n - 1 - v from the end
  if (start != TN_END) {
    Dim at_front = start < 0 ? ir_dim_add(p, n, ir_dim(p, start)) : ir_dim(p, start);
    from = back ? ir_dim_sub(p, ir_dim_sub(p, n, ir_dim(p, 1)), at_front) : at_front;
  }
  if (stop != TN_END) {
    Dim at_front = stop < 0 ? ir_dim_add(p, n, ir_dim(p, stop)) : ir_dim(p, stop);
    to = back ? ir_dim_sub(p, ir_dim_sub(p, n, ir_dim(p, 1)), at_front) : at_front;
  }
  Dim span = ir_dim_sub(p, to, from);
  if (ir_dim_is_const(p, span) && ir_dim_info(p, span)->value < 0) span = zero;  // x[4:2]: none, whatever the size
  Dim count = ir_dim_ceil_div(p, span, ir_dim(p, by));
  return fe_strided(x, axis, from, count, by, back, at);
}

tn_tensor tn_slice_step(tn_tensor x, int axis, int64_t start, int64_t stop, int64_t step, tn_site at) {
  OPEN(&x, 1);
  uint32_t k;
  if (!fe_axis(x, axis, &k, at)) return fe_poison(f);
  if (step == 0 || step > 1 << 30 || step < -(1 << 30))
    return fe_refuse(x, E_ARGUMENT, at, "the step of a slice lies in [-2^30, 2^30] and is not 0");
  bool constant = const_size(x, k) >= 0;
  return fe_made((constant ? step_of_constant : step_of_bounded)(x, k, start, stop, step, at), at);
}

tn_tensor tn_narrow(tn_tensor x, int axis, int64_t start, int64_t size, tn_site at) {
  OPEN(&x, 1);
  uint32_t k;
  if (!fe_axis(x, axis, &k, at)) return fe_poison(f);
  Dim from = ir_dim(ir_of(x), start);
  if (start < 0) from = ir_dim_add(ir_of(x), fe_axis_dim(x, k), from);
  return fe_made(fe_part(x, k, from, ir_dim(ir_of(x), size), at), at);
}

tn_tensor fe_with_axis(tn_tensor x, uint32_t axis, tn_site at) {
  if (!fe_ok(x)) return x;
  if (fe_rank(x) == MAX_RANK) return fe_refuse(x, E_SHAPE, at, "a value has at most 8 axes");
  Dim d[MAX_RANK];
  uint32_t n = dims_of(x, d);
  for (uint32_t k = n; k > axis; k--) d[k] = d[k - 1];
  d[axis] = ir_dim(ir_of(x), 1);
  return fe_reshape(x, d, n + 1, at);
}

static tn_tensor at_index(tn_tensor x, uint32_t axis, int64_t index, tn_site at) {
  int64_t n = const_size(x, axis);
  if (n < 0 && index < 0) {
    Dim one = ir_dim(ir_of(x), 1);
    return fe_without_axis(fe_strided(x, axis, ir_dim(ir_of(x), -index - 1), one, 1, true, at), axis, at);
  }
  return fe_without_axis(fe_slice(x, axis, index < 0 ? index + n : index, 1, at), axis, at);
}

tn_tensor tn_select_index(tn_tensor x, int axis, int64_t index, tn_site at) {
  OPEN(&x, 1);
  uint32_t k;
  return fe_axis(x, axis, &k, at) ? fe_made(at_index(x, k, index, at), at) : fe_poison(f);
}

static tn_tensor backward(tn_tensor x, uint32_t axis, tn_site at) {
  return fe_ok(x) ? fe_strided(x, axis, ir_dim(ir_of(x), 0), fe_axis_dim(x, axis), 1, true, at) : x;
}

tn_tensor tn_flip(tn_tensor x, const int *axes, uint32_t n, tn_site at) {
  OPEN(&x, 1);
  uint32_t list[MAX_RANK];
  tn_tensor y = n ? fe_as_row(x, at) : x;
  if (!fe_axes(y, axes, n, list, at)) return fe_poison(f);
  for (uint32_t k = 0; k < n; k++) y = backward(y, list[k], at);
  Dim own[MAX_RANK];
  return fe_made(n ? fe_like_row(y, x, at) : fe_reshape(x, own, dims_of(x, own), at), at);
}

// ---- axes
tn_tensor tn_flatten(tn_tensor x, int first, int last, tn_site at) {
  OPEN(&x, 1);
  uint32_t a = 0, b = 0, m = 0;
  Dim d[MAX_RANK + 1], all = ir_dim(f->p->ir, 1);
  uint32_t n = dims_of(x, d);
  if (n && (!fe_axis(x, first, &a, at) || !fe_axis(x, last, &b, at))) return fe_poison(f);
  if (a > b) return fe_refuse(x, E_ARGUMENT, at, "tn_flatten takes the first axis, then the last");
  for (uint32_t k = a; k <= b && k < n; k++) all = ir_dim_mul(f->p->ir, all, d[k]);
  for (uint32_t k = 0; k < n; k++)
    if (k <= a || k > b) d[m++] = k == a ? all : d[k];
  if (!n) d[m++] = all;
  return fe_made(fe_reshape(x, d, m, at), at);
}

tn_tensor fe_unflatten(tn_tensor x, int axis, tn_shape s, tn_site at) {
  uint32_t k, m = 0;
  Dim own[MAX_RANK], d[2 * MAX_RANK], parts[MAX_RANK];
  if (!fe_axis(x, axis, &k, at)) return fe_poison(x.fn);
  Dim whole = fe_axis_dim(x, k);
  if (!fe_inferred_dims(x.fn->p, s, whole, parts, at)) return fe_poison(x.fn);
  uint32_t n = dims_of(x, own);
  if (n + s.rank > MAX_RANK + 1) return fe_refuse(x, E_SHAPE, at, "a value has at most 8 axes");
  for (uint32_t j = 0; j < n; j++) {
    if (j != k) d[m++] = own[j];
    for (uint32_t i = 0; j == k && i < s.rank; i++) d[m++] = parts[i];
  }
  return fe_reshape(x, d, m, at);
}

tn_tensor tn_unflatten(tn_tensor x, int axis, tn_shape s, tn_site at) {
  OPEN(&x, 1);
  return fe_made(fe_unflatten(x, axis, s, at), at);
}

tn_tensor tn_squeeze(tn_tensor x, int axis, tn_site at) {
  OPEN(&x, 1);
  uint32_t k;
  Dim d[MAX_RANK];
  if (!fe_row_axis(&x, axis, &k, at)) return fe_poison(f);
  if (const_size(x, k) == 1) return fe_made(fe_without_axis(x, k, at), at);
  uint32_t n = dims_of(x, d);
  return fe_made(fe_reshape(x, d, n, at), at);
}

tn_tensor tn_unsqueeze(tn_tensor x, int axis, tn_site at) {
  OPEN(&x, 1);
  int rank = (int)fe_rank(x), k = axis < 0 ? axis + rank + 1 : axis;
  if (k < 0 || k > rank) return fe_refuse(x, E_ARGUMENT, at, "tn_unsqueeze takes the place of the new axis");
  return fe_made(fe_with_axis(x, (uint32_t)k, at), at);
}

static tn_tensor move_axis(tn_tensor x, uint32_t from, uint32_t to, tn_site at) {
  return fe_move_axes(x, &from, &to, 1, at);
}

tn_tensor tn_movedim(tn_tensor x, int from, int to, tn_site at) {
  OPEN(&x, 1);
  uint32_t a, b;
  tn_tensor row = x;
  bool ok = fe_row_axis(&row, from, &a, at) && fe_axis(row, to, &b, at);
  return ok ? fe_made(fe_like_row(move_axis(row, a, b, at), x, at), at) : fe_poison(f);
}

tn_tensor tn_movedims(tn_tensor x, const int *from, const int *to, uint32_t n, tn_site at) {
  OPEN(&x, 1);
  uint32_t a[MAX_RANK], b[MAX_RANK];
  if (n > MAX_RANK || (n && (!from || !to)))
    return fe_refuse(x, E_ARGUMENT, at, "tn_movedims takes a place for each axis");
  tn_tensor row = fe_as_row(x, at);
  bool ok = fe_axes(row, from, n, a, at) && fe_axes(row, to, n, b, at);
  return ok ? fe_made(fe_like_row(fe_move_axes(row, a, b, n, at), x, at), at) : fe_poison(f);
}

tn_tensor tn_swapaxes(tn_tensor x, int a, int b, tn_site at) { return tn_transpose(x, a, b, at); }
tn_tensor tn_broadcast_to(tn_tensor x, tn_shape s, tn_site at) { return tn_expand(x, s, at); }

// ---- parts
static uint32_t refuse_parts(tn_tensor x, tn_site at, const char *text) {
  fe_refuse(x, E_ARGUMENT, at, text);
  return 0;
}

static bool has_room(tn_tensor x, int64_t parts, const tn_tensor *out, uint32_t max, tn_site at) {
  if (parts <= max && out) return true;
  refuse_parts(x, at, rt_printf(x.fn->p->mem, "there are %lld parts and room for %u", (long long)parts, out ? max : 0));
  return false;
}

#define OPEN_PARTS(k, most)              \
  tn_function *f;                        \
  uint32_t k;                            \
  fe_poison_all(x.fn, out, most);        \
  if (!fe_join(&x, 1, &f, at)) return 0; \
  FE_GUARD(f->p, 0);                     \
  if (!fe_axis(x, axis, &k, at)) return 0

static bool has_fixed_parts(tn_tensor x, uint32_t axis, tn_site at) {
  if (const_size(x, axis) >= 0) return true;
  refuse_parts(x, at, "an axis whose size the run knows has no fixed number of parts");
  fe_hint(x.fn->p, "tn_chunk makes a given number of parts, tn_split_sizes parts of which one, -1, has what is left");
  return false;
}

static uint32_t split(const char *call, tn_tensor x, uint32_t axis, int64_t size, tn_tensor *out, uint32_t max,
                      tn_site at) {
  int64_t n = const_size(x, axis), parts = size > 0 ? (n + size - 1) / size : 0;
  if (size < 1) return refuse_parts(x, at, "parts have 1 element or more");
  if (n == 0) parts = 1;  // an empty one
  if (!has_room(x, parts, out, max, at)) return 0;
  for (int64_t k = 0; k < parts; k++) {
    int64_t left = n - k * size;
    out[k] = fe_made_by(call, fe_slice(x, axis, k * size, left < size ? left : size, at), at);
  }
  return (uint32_t)parts;
}

uint32_t tn_split(tn_tensor x, int64_t size, int axis, tn_tensor *out, uint32_t max, tn_site at) {
  OPEN_PARTS(k, max);
  return has_fixed_parts(x, k, at) ? split("tn_split", x, k, size, out, max, at) : 0;
}

// As many parts as are asked for: the run refuses sizes of which the last part would have less than nothing.
static uint32_t chunk_bounded(tn_tensor x, uint32_t axis, uint32_t chunks, tn_tensor *out, uint32_t max, tn_site at) {
  Prog *p = ir_of(x);
  if (!has_room(x, chunks, out, max, at)) return 0;
  Dim n = fe_axis_dim(x, axis), size = ir_dim_ceil_div(p, n, ir_dim(p, chunks));
  for (uint32_t k = 0; k < chunks; k++) {
    Dim from = ir_dim_mul(p, size, ir_dim(p, k)), count = k + 1 < chunks ? size : ir_dim_sub(p, n, from);
    ir_dim_computed_at(p, count, fe_loc(x.fn->p, at));
    out[k] = fe_made_by("tn_chunk", fe_part(x, axis, from, count, at), at);
  }
  return chunks;
}

uint32_t tn_chunk(tn_tensor x, uint32_t chunks, int axis, tn_tensor *out, uint32_t max, tn_site at) {
  OPEN_PARTS(k, max);
  if (!chunks) return refuse_parts(x, at, "tn_chunk makes 1 part or more");
  if (const_size(x, k) <= 0) return chunk_bounded(x, k, chunks, out, max, at);
  return split("tn_chunk", x, k, (const_size(x, k) + chunks - 1) / chunks, out, max, at);
}

uint32_t tn_split_sizes(tn_tensor x, const int64_t *sizes, uint32_t n, int axis, tn_tensor *out, tn_site at) {
  OPEN_PARTS(k, n);
  Prog *p = ir_of(x);
  Dim left = fe_axis_dim(x, k), from = ir_dim(p, 0);
  uint32_t n_open = 0;
  for (uint32_t j = 0; j < n && sizes; j++) {
    if (sizes[j] < -1) return refuse_parts(x, at, "parts have 0 elements or more, or -1, which is what is left");
    n_open += sizes[j] == -1;
    if (sizes[j] >= 0) left = ir_dim_sub(p, left, ir_dim(p, sizes[j]));
  }
  bool adds_up = n_open == 1 ? ir_dim_most(p, left) >= 0 : n_open == 0 && left.i == from.i;
  if (!sizes || !out || !adds_up)
    return refuse_parts(x, at, "the sizes of the parts, of which one may be -1, add up to that of the axis");
  ir_dim_computed_at(p, left, fe_loc(x.fn->p, at));
  for (uint32_t j = 0; j < n; j++) {
    Dim size = sizes[j] < 0 ? left : ir_dim(p, sizes[j]);
    out[j] = fe_made(fe_part(x, k, from, size, at), at);
    from = ir_dim_add(p, from, size);
  }
  return n;
}

uint32_t tn_unbind(tn_tensor x, int axis, tn_tensor *out, uint32_t max, tn_site at) {
  OPEN_PARTS(k, max);
  int64_t n = const_size(x, k);
  if (!has_fixed_parts(x, k, at)) return 0;
  if (!has_room(x, n, out, max, at)) return 0;
  for (int64_t j = 0; j < n; j++) out[j] = fe_made(at_index(x, k, j, at), at);
  return (uint32_t)n;
}

// ---- joining
tn_tensor tn_stack(int axis, const tn_tensor *x, uint32_t n, tn_site at) {
  tn_function *f = NULL;
  if (!x || !n || !fe_join(x, n, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  int rank = (int)fe_rank(x[0]), k = axis < 0 ? axis + rank + 1 : axis;
  if (k < 0 || k > rank) return fe_refuse(x[0], E_ARGUMENT, at, "tn_stack takes the place of the new axis");
  tn_tensor *part = rt_alloc(f->p->mem, n * sizeof *part);
  for (uint32_t j = 0; j < n; j++) {
    if (fe_shape_of(x[j]).i != fe_shape_of(x[0]).i) {
      fe_note_value(x[0], "the first");
      return fe_refuse(x[j], E_SHAPE, at, "what is stacked has one shape");
    }
    part[j] = fe_with_axis(x[j], (uint32_t)k, at);
    if (!fe_ok(part[j])) return part[j];
  }
  if (n == 1) return fe_made(separate(part[0], x[0], at), at);
  return fe_made(fe_concat(fe_in_one_dtype(part, n, at), n, (uint32_t)k, at), at);
}

static tn_tensor join(tn_tensor *part, uint32_t n, uint32_t axis, tn_site at) {
  for (uint32_t k = 0; k < n; k++)
    if (!fe_ok(part[k])) return part[k];
  return fe_concat(part, n, axis, at);
}

// v modulo n, in [0, n), of no elements 0
static Dim modulo(Prog *p, int64_t v, Dim n) {
  Dim divisor = ir_dim_max(p, n, ir_dim(p, 1)), quotient = ir_dim_div(p, ir_dim(p, v), divisor);
  Dim rest = ir_dim_sub(p, ir_dim(p, v), ir_dim_mul(p, quotient, divisor));
  return ir_dim_max(p, ir_dim(p, 0), ir_dim_min(p, rest, n));  // which it is, said to who looks for its bounds
}

static tn_tensor roll(tn_tensor x, uint32_t axis, int64_t shift, tn_site at) {
  if (!fe_ok(x)) return x;
  Prog *p = ir_of(x);
  int64_t n = const_size(x, axis);
  if (n > 0) shift %= n;
  if (shift > INT32_MAX || shift < -INT32_MAX)
    return fe_refuse(x, E_ARGUMENT, at, "a shift lies between -2^31 and 2^31");
  Dim all = fe_axis_dim(x, axis), cut = modulo(p, -shift, all), rest = ir_dim_sub(p, all, cut);
  if (ir_dim_most(p, cut) == 0) return x;
  ir_dim_computed_at(p, rest, fe_loc(x.fn->p, at));
  return join((tn_tensor[]){fe_part(x, axis, cut, rest, at), fe_part(x, axis, ir_dim(p, 0), cut, at)}, 2, axis, at);
}

tn_tensor tn_roll(tn_tensor x, const int64_t *shifts, const int *axes, uint32_t n, tn_site at) {
  OPEN(&x, 1);
  Dim own[MAX_RANK];
  if (!shifts || (n && !axes)) return fe_refuse(x, E_ARGUMENT, at, "tn_roll takes a shift for each axis");
  tn_tensor y = n ? x : fe_flattened(x, at);
  uint32_t k = 0, rank = dims_of(x, own);
  for (uint32_t j = 0; j < n; j++) {
    if (!fe_axis(x, axes[j], &k, at)) return fe_poison(f);
    y = roll(y, k, shifts[j], at);
  }
  if (!n) y = roll(y, 0, shifts[0], at), y = fe_reshape(y, own, rank, at);
  return fe_made(separate(y, x, at), at);
}

// ---- padding
static tn_tensor filled(tn_tensor like, uint32_t axis, int64_t size, double value, tn_site at) {
  Dim d[MAX_RANK];
  uint32_t n = dims_of(like, d);
  d[axis] = ir_dim(ir_of(like), size);
  return fe_full(like.fn, value, ir_shape(ir_of(like), d, n), (DType)fe_ins(like)->dtype, at);
}

static tn_tensor pad_constant(tn_tensor x, uint32_t axis, int64_t before, int64_t behind, double value, tn_site at) {
  int64_t n = const_size(x, axis);
  if (n >= 0 && value == 0) {
    Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_dim(KEY_start, ir_dim(ir_of(x), before)),
                ir_a_int(KEY_size, before + n + behind)};
    return fe_emit(OP_pad_axis, &x, 1, a, 3, at);
  }
  tn_tensor part[3];
  uint32_t m = 0;
  if (before) part[m++] = filled(x, axis, before, value, at);
  part[m++] = x;
  if (behind) part[m++] = filled(x, axis, behind, value, at);
  return join(part, m, axis, at);
}

static Dim less(tn_tensor x, Dim n, int64_t by) { return ir_dim_sub(ir_of(x), n, ir_dim(ir_of(x), by)); }

static tn_tensor repeat_edge(tn_tensor x, uint32_t axis, Dim index, int64_t count, tn_site at) {
  tn_tensor edge = fe_part(x, axis, index, ir_dim(ir_of(x), 1), at);
  Dim d[MAX_RANK];
  if (!fe_ok(edge)) return edge;
  uint32_t n = dims_of(x, d);
  d[axis] = ir_dim(ir_of(x), count);
  return expand(edge, d, n, at);
}

// `count` elements before (at_front) or behind x, as the mode makes them.
static tn_tensor border(tn_tensor x, uint32_t axis, int64_t count, bool at_front, tn_pad_mode mode, tn_site at) {
  Prog *p = ir_of(x);
  Dim n = fe_axis_dim(x, axis), zero = ir_dim(p, 0), some = ir_dim(p, count);
  if (mode == TN_PAD_REPLICATE) return repeat_edge(x, axis, at_front ? zero : less(x, n, 1), count, at);
  if (mode == TN_PAD_CIRCULAR) return fe_part(x, axis, at_front ? less(x, n, count) : zero, some, at);
  return backward(fe_part(x, axis, at_front ? ir_dim(p, 1) : less(x, n, 1 + count), some, at), axis, at);
}

// Takes away what negative numbers say.
static tn_tensor cut_axis(tn_tensor x, uint32_t axis, const int64_t *pads, tn_site at) {
  int64_t before = pads[0] < 0 ? -pads[0] : 0, behind = pads[1] < 0 ? -pads[1] : 0;
  if (!before && !behind) return x;
  Dim left = less(x, fe_axis_dim(x, axis), before + behind);
  ir_dim_computed_at(ir_of(x), left, fe_loc(x.fn->p, at));
  return fe_part(x, axis, ir_dim(ir_of(x), before), left, at);
}

// Along an axis that the run sizes, the run checks that the slices of border exist.
static bool has_enough(tn_tensor x, uint32_t axis, int64_t most_added, tn_pad_mode mode) {
  int64_t n = const_size(x, axis);
  if (n < 0) return true;
  return most_added <= (mode == TN_PAD_REFLECT ? n - 1 : mode == TN_PAD_CIRCULAR ? n : n ? INT32_MAX : 0);
}

static tn_tensor pad_axis(tn_tensor x, uint32_t axis, const int64_t *pads, tn_pad_mode mode, double value, tn_site at) {
  int64_t add[2] = {pads[0] > 0 ? pads[0] : 0, pads[1] > 0 ? pads[1] : 0};
  x = cut_axis(x, axis, pads, at);
  if (!fe_ok(x) || (!add[0] && !add[1])) return x;
  if (mode == TN_PAD_CONSTANT) return pad_constant(x, axis, add[0], add[1], value, at);
  if (!has_enough(x, axis, add[0] > add[1] ? add[0] : add[1], mode))
    return fe_refuse(
        x, E_SHAPE, at,
        "there are too few elements to pad with: reflect adds fewer than there are, circular at most as many");
  tn_tensor part[3];
  uint32_t m = 0;
  if (add[0]) part[m++] = border(x, axis, add[0], true, mode, at);
  part[m++] = x;
  if (add[1]) part[m++] = border(x, axis, add[1], false, mode, at);
  return join(part, m, axis, at);
}

tn_tensor fe_pad(tn_tensor x, const int64_t *pads, uint32_t n, tn_pad_mode mode, double value, tn_site at) {
  uint32_t rank = fe_rank(x);
  if ((n && !pads) || n % 2 || n / 2 > rank)
    return fe_refuse(x, E_ARGUMENT, at, "tn_pad takes two numbers for each of the last axes");
  for (uint32_t k = 0; k < n; k++)
    if (pads[k] > INT32_MAX || pads[k] < -INT32_MAX)
      return fe_refuse(x, E_ARGUMENT, at, "a padding lies between -2^31 and 2^31");
  tn_tensor y = x;
  for (uint32_t k = 0; k < n / 2 && fe_ok(y); k++) y = pad_axis(y, rank - 1 - k, pads + 2 * k, mode, value, at);
  return y;
}

tn_tensor tn_pad(tn_tensor x, const int64_t *pads, uint32_t n, tn_pad_mode mode, double value, tn_site at) {
  OPEN(&x, 1);
  return fe_made(separate(fe_pad(x, pads, n, mode, value, at), x, at), at);
}

// ---- repeating
// An axis of `size` in front of axis k is made of copies, and joined with it; behind it with `inside`.
static tn_tensor repeat_axis(tn_tensor x, uint32_t k, int64_t count, bool inside, tn_site at) {
  if (!fe_ok(x) || count == 1) return x;
  Prog *p = ir_of(x);
  Dim d[MAX_RANK + 1], n = ir_dim(p, count);
  uint32_t rank = dims_of(x, d);
  tn_tensor y = fe_with_axis(x, inside ? k + 1 : k, at);
  if (!fe_ok(y)) return y;
  Dim wide[MAX_RANK];
  uint32_t more = dims_of(y, wide);
  wide[inside ? k + 1 : k] = n;
  y = expand(y, wide, more, at);
  d[k] = ir_dim_mul(p, d[k], n);
  return fe_ok(y) ? fe_reshape(y, d, rank, at) : y;
}

static bool good_count(int64_t n) { return n >= 0 && n <= INT32_MAX; }

tn_tensor tn_repeat_interleave(tn_tensor x, int64_t count, int axis, tn_site at) {
  OPEN(&x, 1);
  uint32_t k;
  if (!fe_axis(x, axis, &k, at)) return fe_poison(f);
  if (!good_count(count)) return fe_refuse(x, E_ARGUMENT, at, "elements are repeated 0 times or more");
  return fe_made(count == 1 ? fe_same(x, at) : repeat_axis(x, k, count, true, at), at);
}

// All axes at once: an axis of copies stands in front of each that is repeated. With too many axes one after the other.
static tn_tensor repeat_axes(tn_tensor x, const int64_t *counts, tn_site at) {
  Prog *p = ir_of(x);
  Dim whole[MAX_RANK], single[2 * MAX_RANK], wide[2 * MAX_RANK];
  uint32_t rank = dims_of(x, whole), more = 0;
  for (uint32_t k = 0; k < rank; k++) {
    if (counts[k] != 1) single[more] = ir_dim(p, 1), wide[more++] = ir_dim(p, counts[k]);
    single[more] = wide[more] = whole[k], more++;
    whole[k] = ir_dim_mul(p, whole[k], ir_dim(p, counts[k]));
  }
  if (more > MAX_RANK) {
    for (uint32_t k = 0; k < rank; k++) x = repeat_axis(x, k, counts[k], false, at);
    return x;
  }
  if (more == rank) return x;
  tn_tensor y = fe_reshape(x, single, more, at);
  if (fe_ok(y)) y = expand(y, wide, more, at);
  return fe_ok(y) ? fe_reshape(y, whole, rank, at) : y;
}

static tn_tensor repeat(tn_tensor x, const int64_t *counts, uint32_t n, tn_site at) {
  if (n > MAX_RANK) return fe_refuse(x, E_SHAPE, at, "a value has at most 8 axes");
  for (uint32_t k = 0; k < n; k++)
    if (!counts || !good_count(counts[k])) return fe_refuse(x, E_ARGUMENT, at, "axes are repeated 0 times or more");
  tn_tensor y = x;
  while (fe_ok(y) && fe_rank(y) < n) y = fe_with_axis(y, 0, at);
  int64_t all[MAX_RANK];
  for (uint32_t k = 0, rank = fe_ok(y) ? fe_rank(y) : 0; k < rank; k++)
    all[k] = k + n < rank ? 1 : counts[k + n - rank];
  return separate(fe_ok(y) ? repeat_axes(y, all, at) : y, x, at);
}

tn_tensor tn_repeat(tn_tensor x, const int64_t *counts, uint32_t n, tn_site at) {
  OPEN(&x, 1);
  if (n < fe_rank(x))
    return fe_refuse(x, E_ARGUMENT, at, "tn_repeat takes a count for each axis, and for new ones in front");
  return fe_made(repeat(x, counts, n, at), at);
}

tn_tensor tn_tile(tn_tensor x, const int64_t *counts, uint32_t n, tn_site at) {
  OPEN(&x, 1);
  return fe_made(repeat(x, counts, n, at), at);
}

tn_tensor fe_windows(tn_tensor x, uint32_t axis, uint32_t to, Dim count, int64_t size, int64_t step, int64_t dilation,
                     tn_site at) {
  if (!fe_ok(x)) return x;
  Prog *p = ir_of(x);
  tn_tensor *part = rt_alloc(x.fn->p->mem, (size_t)size * sizeof *part);
  for (int64_t j = 0; j < size; j++) {
    part[j] = fe_strided(x, axis, ir_dim(p, j * dilation), count, step, false, at);
    part[j] = fe_with_axis(part[j], to, at);
  }
  return join(part, (uint32_t)size, to, at);
}

tn_tensor fe_unfold(tn_tensor x, uint32_t axis, int64_t size, int64_t step, tn_site at) {
  if (!fe_ok(x)) return x;
  Prog *p = ir_of(x);
  Dim beyond = ir_dim_div(p, less(x, fe_axis_dim(x, axis), size), ir_dim(p, step));
  Dim count = ir_dim_add(p, beyond, ir_dim(p, 1));
  ir_dim_computed_at(p, count, fe_loc(x.fn->p, at));
  const Attr a[] = {ir_a_int(KEY_axis, axis), ir_a_int(KEY_size, size), ir_a_int(KEY_step, step),
                    ir_a_dim(KEY_count, count)};
  return fe_emit(OP_windows, &x, 1, a, 4, at);
}

tn_tensor tn_unfold(tn_tensor x, int axis, int64_t size, int64_t step, tn_site at) {
  enum { MOST_PARTS = 1 << 16 };
  OPEN(&x, 1);
  uint32_t k;
  bool is_number = !fe_rank(x);
  if (!fe_row_axis(&x, axis, &k, at)) return fe_poison(f);
  int64_t n = const_size(x, k);
  if (size < 1 || (n >= 0 && size > n) || size > MOST_PARTS || step < 1 || step > 1 << 30)
    return fe_refuse(x, E_ARGUMENT, at, "windows have 1 element to as many as the axis, and lie 1 or more apart");
  tn_tensor y = fe_unfold(x, k, size, step, at);
  return fe_made(is_number && fe_ok(y) ? fe_flattened(y, at) : y, at);
}

// ---- diagonals
// So many elements from row `row` and column `column` on, of which one is 0
typedef struct {
  uint32_t rows, columns;  // axes
  int64_t row, column;
  Dim count;
} Diagonal;

static Dim size_from(tn_tensor x, uint32_t axis, int64_t from) {
  int64_t n = const_size(x, axis);
  return n >= 0 && n < from ? ir_dim(ir_of(x), 0) : less(x, fe_axis_dim(x, axis), from);
}

// It may begin behind the end of a small matrix: where only the run knows the sizes, it is empty then.
static bool is_beside(const Diagonal *d) { return d->row || d->column; }

// The diagonal ends with the shorter of both; false: which that is only the run knows.
static bool has_length(tn_tensor x, Diagonal *d) {
  Prog *p = ir_of(x);
  Dim n = size_from(x, d->rows, d->row), m = size_from(x, d->columns, d->column);
  bool rows = ir_dim_most(p, ir_dim_sub(p, n, m)) <= 0;
  d->count = rows ? n : m;
  if (is_beside(d)) d->count = ir_dim_max(p, d->count, ir_dim(p, 0));
  return rows || ir_dim_most(p, ir_dim_sub(p, m, n)) <= 0;
}

// Rows and columns as one axis, of which the diagonal is every (m + 1)-th element, of m columns.
static tn_tensor every_step(tn_tensor y, Diagonal d, tn_site at) {
  Prog *p = ir_of(y);
  uint32_t rank = fe_rank(y);
  Dim dims[MAX_RANK];
  dims_of(y, dims);
  Dim m = dims[rank - 1], step = ir_dim_add(p, m, ir_dim(p, 1)), from = ir_dim_mul(p, m, ir_dim(p, d.row));
  from = ir_dim_add(p, from, ir_dim(p, d.column));
  dims[rank - 2] = ir_dim_mul(p, dims[rank - 2], m);
  y = fe_reshape(y, dims, rank - 1, at);
  if (!fe_ok(y)) return y;
  bool is_empty = ir_dim_is_const(p, d.count) && !ir_dim_bound(p, d.count);
  if (is_empty) from = ir_dim(p, 0);
  else if (is_beside(&d)) from = ir_dim_min(p, from, dims[rank - 2]);
  if (ir_dim_is_const(p, step)) return fe_strided(y, rank - 2, from, d.count, ir_dim_bound(p, step), false, at);
  const Attr a[] = {ir_a_int(KEY_axis, rank - 2), ir_a_dim(KEY_start, from), ir_a_dim(KEY_count, d.count),
                    ir_a_dim(KEY_pitch, step)};
  return fe_emit(OP_slice, &y, 1, a, 4, at);
}

tn_tensor fe_diagonal(tn_tensor x, int offset, uint32_t a, uint32_t b, tn_site at) {
  Diagonal d = {a, b, offset < 0 ? -(int64_t)offset : 0, offset > 0 ? offset : 0, {0}};
  uint32_t rank = fe_rank(x);
  if (a == b) return fe_refuse(x, E_SHAPE, at, "a diagonal runs along two axes");
  if (!has_length(x, &d)) {
    fe_refuse(x, E_SHAPE, at, "a diagonal ends with the shorter of its axes, and which that is only a run knows");
    fe_hint(x.fn->p, "both axes of a square have one tn_dim; else tn_slice cuts one of them to a constant size");
    return fe_poison(x.fn);
  }
  if (!ir_dim_is_const(ir_of(x), d.count)) ir_dim_computed_at(ir_of(x), d.count, fe_loc(x.fn->p, at));
  tn_tensor y = move_axis(x, d.rows, rank - 1, at);
  y = move_axis(y, d.columns > d.rows ? d.columns - 1 : d.columns, rank - 1, at);
  if (!fe_ok(y)) return y;
  return every_step(y, d, at);
}

tn_tensor tn_diagonal(tn_tensor x, int offset, int axis_a, int axis_b, tn_site at) {
  OPEN(&x, 1);
  uint32_t a, b;
  if (!fe_axis(x, axis_a, &a, at) || !fe_axis(x, axis_b, &b, at)) return fe_poison(f);
  return fe_made(fe_diagonal(x, offset, a, b, at), at);
}

tn_tensor tn_trace(tn_tensor x, tn_site at) {
  OPEN(&x, 1);
  if (fe_rank(x) != 2) return fe_refuse(x, E_SHAPE, at, "a trace is of a matrix");
  tn_tensor y = fe_diagonal(x, 0, 0, 1, at);
  return fe_ok(y) ? fe_made(fe_sum(y, NULL, 0, false, at), at) : y;
}
