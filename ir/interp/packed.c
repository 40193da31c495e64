// Packed sequences: the layout value (words and their order: runtime/abi.h), pack and pad.
//
//   lengths 2 3 1   ->   batch_sizes 3 2 1   offsets 0 3 5 6   sorted 1 0 2
//   rows:  (user 1, t 0) (user 0, t 0) (user 2, t 0) | (user 1, t 1) (user 0, t 1) | (user 1, t 2)
#include "ir/interp/packed.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include <math.h>

Layout run_layout_of(const Run *r, Val layout) {
  const Prog *p = r->f->prog;
  Shape shape = ir_ins(r->f, layout)->shape;
  int64_t time = ir_dim_bound(p, ir_dim_at(p, shape, 1)), batch = ir_dim_bound(p, ir_dim_at(p, shape, 0));
  double *w = r->val[layout.i].v;
  return (Layout){.head = w,
                  .batch_sizes = w + TN_LAYOUT_BATCH_SIZES(time, batch),
                  .offsets = w + TN_LAYOUT_OFFSETS(time, batch),
                  .sorted = w + TN_LAYOUT_SORTED(time, batch),
                  .unsorted = w + TN_LAYOUT_UNSORTED(time, batch),
                  .lengths = w + TN_LAYOUT_LENGTHS(time, batch),
                  .max_time = time};
}

// Copies the lengths into the layout; they come from the operand or from {lengths}.
static void take_lengths(Run *r, Val v, const Layout *l, int64_t n) {
  const Attr *fixed = ir_attr(r->f, v, KEY_lengths);
  for (int64_t i = 0; i < n; i++)
    l->lengths[i] = fixed ? (double)ir_list_at(r->f->prog, fixed->u.list, (uint32_t)i) : run_arg(r, v, 0).v[i];
}

static bool check_lengths(Run *r, Val v, const Layout *l, int64_t n, int64_t time) {
  bool sorted = ir_attr(r->f, v, KEY_sorted);
  Dim limit = ir_rows_limit(r->f, v);
  int64_t rows = 0, most = limit.i ? ir_dim_eval(r->f->prog, limit, r->env->slots) : INT64_MAX;
  int least = ir_attr(r->f, v, KEY_empty) ? 0 : 1;
  for (int64_t i = 0; i < n; i++) {
    if (!(l->lengths[i] >= least && l->lengths[i] <= (double)time))
      return run_fail(r, v, "length %.0f at %lld is not in [%d, %lld]", l->lengths[i], (long long)i, least,
                      (long long)time);
    if (sorted && i && l->lengths[i] > l->lengths[i - 1])
      return run_fail(r, v, "length %.0f at %lld is above the one before it, and {sorted} refuses that", l->lengths[i],
                      (long long)i);
    rows += (int64_t)l->lengths[i];
  }
  if (ir_attr(r->f, v, KEY_total)) {
    if (rows == most) return true;
    return run_fail(r, v, "the lengths sum to %lld, and {total} is %lld", (long long)rows, (long long)most);
  }
  if (rows <= most) return true;
  return run_fail(r, v, "the lengths sum to %lld, above the %lld of {rows}", (long long)rows, (long long)most);
}

// Longest first; equal lengths keep the user's order.
static void sort_lengths(const Layout *l, int64_t n) {
  bool identity = true;
  for (int64_t i = 0; i < n; i++) {
    int64_t place = 0;
    for (int64_t j = 0; j < n; j++) place += l->lengths[j] > l->lengths[i] || (l->lengths[j] == l->lengths[i] && j < i);
    l->sorted[place] = (double)i;
    l->unsorted[i] = (double)place;
    identity &= place == i;
  }
  l->head[TN_LAYOUT_IDENTITY] = identity;
}

static void count_steps(const Layout *l, int64_t n) {
  int64_t row = 0, t = 0;
  for (; t < l->max_time; t++) {
    int64_t running = 0;
    for (int64_t i = 0; i < n; i++) running += l->lengths[i] > (double)t;
    if (!running) break;
    l->batch_sizes[t] = (double)running;
    l->offsets[t] = (double)row;
    row += running;
  }
  l->head[TN_LAYOUT_STEPS] = (double)t;
  l->head[TN_LAYOUT_ROWS] = (double)row;
  l->head[TN_LAYOUT_SEQS] = (double)n;
  for (; t <= l->max_time; t++) l->offsets[t] = (double)row;
}

static Layout new_layout(Run *r, Val v) {
  const Prog *p = r->f->prog;
  Shape shape = ir_ins(r->f, v)->shape;
  int64_t max_batch = ir_dim_bound(p, ir_dim_at(p, shape, 0)), max_time = ir_dim_bound(p, ir_dim_at(p, shape, 1));
  int64_t words = TN_LAYOUT_WORDS(max_time, max_batch);
  r->val[v.i] = (Tensor){.v = rt_alloc(r->env->mem, (size_t)words * sizeof(double)), .n = words};
  return run_layout_of(r, v);
}

bool eval_dense_layout(Run *r, Val v) {
  Sizes s = run_sizes(r, v);
  Layout l = new_layout(r, v);
  for (int64_t i = 0; i < s.dim[0]; i++) l.lengths[i] = (double)s.dim[1];
  sort_lengths(&l, s.dim[0]);
  count_steps(&l, s.dim[0]);
  return true;
}

bool eval_packed_layout(Run *r, Val v) {
  const Prog *p = r->f->prog;
  Sizes s = run_sizes(r, v);  // the rows are not known yet
  int64_t n = s.dim[0];
  Layout l = new_layout(r, v);
  take_lengths(r, v, &l, n);
  if (!check_lengths(r, v, &l, n, s.dim[1])) return false;
  sort_lengths(&l, n);
  count_steps(&l, n);
  const DimInfo *rows = ir_dim_info(p, ir_dim_at(p, ir_ins(r->f, v)->shape, 2));
  if (rows->kind != DIM_SYM) return true;
  r->env->slots[rows->slot] = (int64_t)l.head[TN_LAYOUT_ROWS];
  // Sizes are immediates: passes may leave one before the layout that sets it.
  for (Val size = {1}; size.i < v.i; size.i++)
    if (ir_ins(r->f, size)->op == OP_dim_size)
      r->val[size.i].v[0] = (double)ir_dim_eval(p, ir_attr(r->f, size, KEY_dim)->u.dim, r->env->slots);
  return true;
}

// Copies rows between data [rows, ..] and padded [B, T, ..] or [T, B, ..].
static void move_rows(const Run *r, Val v, double *data, double *padded, const Sizes *s, bool to_padded) {
  Layout l = run_layout_of(r, ir_arg(r->f, v, 1));
  bool time_major = ir_attr(r->f, v, KEY_time_major);
  int64_t n = 1;
  for (uint32_t k = 2; k < s->rank; k++) n *= s->dim[k];
  for (int64_t t = 0; t < (int64_t)l.head[TN_LAYOUT_STEPS]; t++)
    for (int64_t place = 0; place < (int64_t)l.batch_sizes[t]; place++) {
      int64_t user = (int64_t)l.sorted[place];
      double *a = data + ((int64_t)l.offsets[t] + place) * n;
      double *b = padded + (time_major ? t * s->dim[1] + user : user * s->dim[1] + t) * n;
      for (int64_t j = 0; j < n; j++) {
        if (to_padded) b[j] = a[j];
        else a[j] = b[j];
      }
    }
}

bool eval_pack_padded(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  Sizes padded = run_arg_sizes(r, v, 0);
  move_rows(r, v, out.v, run_arg(r, v, 0).v, &padded, false);
  return true;
}

bool eval_unpack_padded(Run *r, Val v) {
  Tensor out = run_result(r, v, 0);
  Sizes padded = run_sizes(r, v);
  double beyond = ir_attr_num(r->f, v, KEY_value, 0);
  beyond = run_converted((DType)ir_ins(r->f, v)->dtype, beyond);
  for (int64_t i = 0; i < out.n; i++) out.v[i] = beyond;
  move_rows(r, v, run_arg(r, v, 0).v, out.v, &padded, true);
  return true;
}
