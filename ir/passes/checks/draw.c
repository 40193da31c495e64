#include "ir/passes/checks/draw.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/slice.h"
#include "ir/storage.h"

// ---- where checked numbers come from
typedef struct {
  RtArena *mem;
  const int64_t *slots;
  uint32_t input;
  DrawRange *list;
  uint32_t n, cap, n_steps;
} Draw;
enum { MOST_STEPS = 10000 };  // diamonds in the graph: a limit on steps

static void follow(Draw *d, const BodySite *at, Val v, DrawRange r);

static DrawRange of_all(DrawRange r) { return r.group = r.first = r.size = 0, r; }

// Elements from axis on, by the sizes of the run.
static int64_t elements_from(const Draw *d, const Fn *f, Shape s, uint32_t axis) {
  int64_t n = 1;
  for (uint32_t k = axis; k < ir_rank(f->prog, s); k++) n *= ir_dim_eval(f->prog, ir_dim_at(f->prog, s, k), d->slots);
  return n;
}

// Elements outside the slice may be anything.
static DrawRange of_slice(const Draw *d, const Fn *f, Val v, DrawRange r) {
  Slice s;
  int64_t start;
  ir_slice(f, v, &s);
  uint32_t axis = s.axis;
  Shape from = f->ins[ir_arg(f, v, 0).i].shape, own = f->ins[v.i].shape;
  int64_t behind = elements_from(d, f, from, axis + 1);
  if (r.group || !behind || r.order || !ir_is_block(f->prog, &s, &start))
    return of_all(r);  // a part of an ordered sequence is ordered
  r.group = elements_from(d, f, from, axis);
  r.first = start * behind;
  r.size = elements_from(d, f, own, axis);
  return r;
}

static bool constant_of(const Fn *f, Val v, int64_t *x) {
  Val of = ir_view_base(f, v);
  if (f->ins[of.i].op != OP_const && f->ins[of.i].op != OP_full) return false;
  *x = (int64_t)ir_attr_num(f, of, KEY_value, 0);
  return true;
}

static void follow_all(Draw *d, const BodySite *at, Val v, uint32_t first, DrawRange r) {
  for (uint32_t k = first; k < at->f->ins[v.i].n_args; k++) follow(d, at, ir_arg(at->f, v, k), of_all(r));
}

static DrawRange shifted(DrawRange r, int64_t by) { return r.lo += by, r.last += by, of_all(r); }

// x + c, c + x, x - c, c - x: the range of x.
static void follow_sum(Draw *d, const BodySite *at, Val v, DrawRange r) {
  Val a = ir_arg(at->f, v, 0), b = ir_arg(at->f, v, 1);
  bool is_sub = at->f->ins[v.i].op == OP_sub;
  int64_t c;
  if (constant_of(at->f, b, &c)) follow(d, at, a, shifted(r, is_sub ? c : -c));
  else if (!constant_of(at->f, a, &c)) return;
  else if (!is_sub) follow(d, at, b, shifted(r, -c));
  else {
    DrawRange turned = shifted(r, 0);
    turned.lo = c - r.last, turned.last = c - r.lo, turned.order = DRAW_ANY_ORDER;
    follow(d, at, b, turned);
  }
}

static void reach_input(Draw *d, const BodySite *at, Val v, DrawRange r) {
  uint32_t index = (uint32_t)ir_attr_int(at->f, v, KEY_index, 0);
  if (at->outer) follow(d, at->outer, ir_body_given(at, index), of_all(r));
  else if (index == d->input) *RT_PUSH(d->mem, d->list, d->n, d->cap) = r;
}

static void follow(Draw *d, const BodySite *at, Val v, DrawRange r) {
  const Fn *f = at->f;
  Op op = (Op)f->ins[v.i].op;
  if (++d->n_steps > MOST_STEPS) return;
  switch (op) {
  case OP_input: reach_input(d, at, v, r); return;
  case OP_cast: follow(d, at, ir_arg(f, v, 0), r); return;
  case OP_slice: follow(d, at, ir_arg(f, v, 0), of_slice(d, f, v, r)); return;
  case OP_add:
  case OP_sub: follow_sum(d, at, v, r); return;
  case OP_select: follow_all(d, at, v, 1, r); return;
  case OP_max:
  case OP_min:
  case OP_clamp:
  case OP_clamp_min:
  case OP_clamp_max: follow_all(d, at, v, 0, r); return;
  case OP_gather:
  case OP_index_select:
  case OP_pack_padded:
  case OP_unpack_padded:
  case OP_scan_input:
  case OP_scan_carry:
  case OP_scan_output: follow(d, at, ir_arg(f, v, 0), of_all(r)); return;
  case OP_sort:
  case OP_topk:
  case OP_kth_value:
  case OP_median: follow(d, at, ir_arg(f, v, 0), of_all(r)); return;
  default: break;
  }
  if (ir_ops[op].cls == CLASS_VIEW) follow(d, at, ir_arg(f, v, 0), r);
  else if (ir_ops[op].cls == CLASS_INDEX) follow_all(d, at, v, 0, r);
}

// ---- what is checked
// Where a sum is limited, each of the source's elements has an equal part of it.
static DrawRange range_of(const Draw *d, const Fn *f, Val source, const InputCheck *c) {
  int64_t last = ir_dim_eval(f->prog, c->hi, d->slots) - !c->incl, n = elements_from(d, f, f->ins[source.i].shape, 0);
  int64_t sum = c->has_sum ? ir_dim_eval(f->prog, c->sum, d->slots) : 0;
  if (c->exact_sum) return (DrawRange){.last = sum, .size = n, .order = DRAW_PARTS};
  if (c->has_sum && n && sum / n < last) last = sum / n;
  return (DrawRange){.lo = c->lo, .last = last, .order = c->sorted ? DRAW_FALLING : DRAW_ANY_ORDER};
}

static void find_all(Draw *d, const BodySite *at);

static void find_others(Draw *d, const BodySite *at, Val v) {
  const Fn *f = at->f;
  if (f->ins[v.i].op == OP_scan) {
    BodySite body = ir_body_site(at, v);
    find_all(d, &body);
  } else if (f->ins[v.i].op == OP_repeat_index) {  // the sum of all counts is at most the number of places
    int64_t n = elements_from(d, f, f->ins[ir_arg(f, v, 0).i].shape, 0);
    follow(d, at, ir_arg(f, v, 0), (DrawRange){.last = n ? elements_from(d, f, f->ins[v.i].shape, 0) / n : 0});
  } else if (f->ins[v.i].op == OP_embedding_bag && ir_has_operand(f, v, ARG_offsets)) {
    int64_t n = elements_from(d, f, f->ins[ir_operand(f, v, ARG_index).i].shape, 0);
    follow(d, at, ir_operand(f, v, ARG_offsets), (DrawRange){.last = n, .order = DRAW_RISING});
  }
}

static void find_all(Draw *d, const BodySite *at) {
  for (uint32_t i = 1; i < at->f->n_ins; i++) {
    Val source;
    InputCheck c;
    if (ir_index_range(at->f, (Val){i}, &source, &c)) follow(d, at, source, range_of(d, at->f, source, &c));
    find_others(d, at, (Val){i});
  }
}

static bool same_range(const DrawRange *a, const DrawRange *b) {
  return a->lo == b->lo && a->last == b->last && a->group == b->group && a->first == b->first && a->size == b->size &&
         a->order == b->order;
}

// The largest whole number behind which a dtype has gaps, or none.
static int64_t most_of(const Fn *f, uint32_t input) {
  static const int64_t most[N_DTYPES] = {
      [DT_F32] = 1 << 24, [DT_I64] = INT64_MAX, [DT_I32] = INT32_MAX, [DT_U8] = UINT8_MAX,
      [DT_BOOL] = 1,      [DT_F16] = 1 << 11,   [DT_BF16] = 1 << 8};
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_input && ir_attr_int(f, (Val){i}, KEY_index, 0) == input) return most[f->ins[i].dtype];
  return INT64_MAX;
}

// u8 and bool have no numbers below 0.
static bool is_unsigned(const Fn *f, uint32_t input) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_input && ir_attr_int(f, (Val){i}, KEY_index, 0) == input)
      return f->ins[i].dtype == DT_U8 || f->ins[i].dtype == DT_BOOL;
  return false;
}

uint32_t ir_draw_ranges(RtArena *mem, const Fn *f, const int64_t *slots, uint32_t input, const DrawRange **out) {
  Draw d = {.mem = mem, .slots = slots, .input = input};
  find_all(&d, &(BodySite){.f = f});
  uint32_t n = 0;
  int64_t most = most_of(f, input);
  int64_t least = is_unsigned(f, input) ? 0 : most == INT64_MAX ? INT64_MIN : -most;
  for (uint32_t k = 0; k < d.n; k++) {
    if (d.list[k].last > most) d.list[k].last = most;
    if (d.list[k].lo < least) d.list[k].lo = least;
  }
  if (!d.n && most < DRAW_FREE) *RT_PUSH(mem, d.list, d.n, d.cap) = (DrawRange){.last = most};
  for (uint32_t k = 0; k < d.n; k++) {
    bool is_new = true;
    for (uint32_t i = 0; i < n; i++) is_new &= !same_range(&d.list[i], &d.list[k]);
    if (is_new) d.list[n++] = d.list[k];
  }
  *out = d.list;
  return n;
}

// ---- drawing
const int64_t ir_draw_spreads[DRAW_N_SPREADS] = {INT64_MAX, 1, 0};

static int64_t part_of(const DrawRange *r, int64_t k) { return (r->last + r->size - 1 - k) / r->size; }

static bool is_about(const DrawRange *r, int64_t k, bool *is_first) {
  int64_t at = r->group ? k % r->group - r->first : k;
  *is_first = at == 0;
  return !r->group || (at >= 0 && at < r->size);
}

void ir_draw_bounds(const DrawRange *r, uint32_t n, int64_t spread, int64_t k, int64_t before, int64_t *lo,
                    int64_t *last) {
  bool has_range = false, is_first;
  *lo = INT64_MIN, *last = INT64_MAX;
  for (uint32_t i = 0; i < n; i++) {
    if (!is_about(&r[i], k, &is_first)) continue;
    has_range = true;
    if (r[i].order == DRAW_PARTS) {
      *lo = *last = k < r[i].size ? part_of(&r[i], k) : 0;
      return;
    }
    if (r[i].lo > *lo) *lo = r[i].lo;
    if (r[i].last < *last) *last = r[i].last;
    if (r[i].order == DRAW_FALLING && !is_first && before < *last) *last = before;
    if (r[i].order == DRAW_RISING && !is_first && before > *lo) *lo = before;
  }
  if (!has_range) *lo = 0, *last = DRAW_FREE;
  if (*lo <= *last && (uint64_t)*last - (uint64_t)*lo > (uint64_t)spread) *last = *lo + spread;
}
