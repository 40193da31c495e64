// Pools along packed sequences: windows of steps side by side, reduced.
//
//   %w = index_select %x, %steps {axis=0, padded}     reshape [rows_2, kernel, C]     max_pool {kernel=[kernel], shape=[1]}
//
// The layout of the result is that of a convolution with these windows.
#include "frontend/graph/image.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/packed/packed.h"
#include "ir/fn.h"

#include <math.h>

static tn_tensor op2(Op op, tn_tensor a, tn_tensor b, tn_site at) { return fe_binary(op, a, b, at); }

static bool read_window(tn_tensor x, FeRowPool how, int64_t kernel, const tn_pool_options *o, FeWindow *w) {
  const int64_t most = 1 << 20, one = 1;
  *w = (FeWindow){.groups = 1};
  fe_fill_axes(&w->taps, 1, kernel, o->kernels, NULL);
  fe_fill_axes(&w->stride, 1, o->stride, o->strides, &w->taps);
  fe_fill_axes(&w->dilation, 1, o->dilation, o->dilations, &one);
  fe_fill_axes(&w->before, 1, o->padding, o->paddings, NULL);
  w->behind = w->before;
  bool is_norm = how.power > 0, good = w->taps >= 1 && w->taps <= 1 << 15 && w->stride >= 1 && w->stride <= most;
  good = good && w->before >= 0 && w->before <= (is_norm ? 0 : w->taps / 2) && w->dilation >= 1 && w->dilation <= most;
  good = good && (how.is_max || w->dilation == 1) && o->divisor >= 0 && !o->ceil;
  good = good && !((how.is_max || is_norm) && (o->divisor || o->exclude_padding)) && how.power >= 0;
  if (good && fe_ins(x)->dtype == DT_F32) return true;
  fe_error(x.fn->p, good ? E_DTYPE : E_ARGUMENT, o->at, "%s",
           good ? "pooling along packed sequences takes rows of f32"
                : "pooling along packed sequences takes windows of 1 to 2^15 steps, all of them whole, at most half of "
                  "one of padding, dilation of maxima and a divisor of averages alone");
  fe_note_value(x, "the data");
  return false;
}

// How many steps of each window its sequence has, f32 [rows, 1]
static tn_tensor counts(tn_tensor layout, tn_tensor own, const FeWindow *w, tn_site at) {
  tn_tensor step = fe_cast(fe_layout_part(own, "steps", at), DT_F32, at);
  tn_tensor n = fe_cast(fe_on_rows(own, fe_layout_part(layout, "lengths", at), at), DT_F32, at);
  tn_tensor first = fe_with_number(OP_mul, step, (double)w->stride, at);
  first = fe_with_number(OP_sub, first, (double)w->before, at);
  tn_tensor end = op2(OP_min, fe_with_number(OP_add, first, (double)w->taps, at), n, at);
  tn_tensor count = op2(OP_sub, end, fe_with_number(OP_max, first, 0, at), at);
  return fe_as_column(count, 2, at);
}

static tn_tensor largest(tn_tensor windows, tn_site at) {
  Prog *p = windows.fn->p->ir;
  int64_t taps = ir_list_at(p, fe_shape_of(windows), 1), one = 1;
  Attr attr[] = {ir_a_list(KEY_shape, ir_shape_ints(p, &one, 1)), ir_a_list(KEY_kernel, ir_shape_ints(p, &taps, 1))};
  tn_tensor y = fe_emit(OP_max_pool, &windows, 1, attr, 2, at);
  return fe_ok(y) ? fe_without_axis(y, 1, at) : y;
}

tn_tensor fe_pool_rows(tn_tensor x, FeRowPool how, int64_t kernel, tn_pool_options o) {
  tn_tensor layout = {x.fn, fe_rows_of(x)}, own;
  static const int taps[] = {1};
  FeWindow w;
  if (!read_window(x, how, kernel, &o, &w)) return fe_poison(x.fn);
  if (how.power > 0) x = fe_with_number(OP_pow, x, how.power, o.at);
  tn_tensor v = fe_row_windows(x, layout, &w, &own, how.is_max ? -INFINITY : 0, o.at);
  if (!fe_ok(v)) return v;
  if (how.is_max) return largest(v, o.at);
  tn_tensor total = fe_sum(v, taps, 1, false, o.at);
  if (how.power > 0) return fe_with_number(OP_pow, total, 1 / how.power, o.at);
  if (o.exclude_padding && w.before && !o.divisor) return op2(OP_div, total, counts(layout, own, &w, o.at), o.at);
  return fe_with_number(OP_div, total, (double)(o.divisor ? o.divisor : w.taps), o.at);
}

static tn_packed pooled(const char *call, tn_packed s, FeRowPool how, int64_t kernel, tn_pool_options o) {
  tn_function *f;
  if (!fe_join_packed(&s, 1, &f, o.at)) return fe_poisoned_packed(f);
  FE_GUARD_AS(f->p, fe_poisoned_packed(f), call);
  if (fe_rank(s.data) != 2) {
    fe_error(f->p, E_SHAPE, o.at, "pooling along packed sequences takes data [rows,C], not %s", fe_type_text(s.data));
    fe_note_value(s.data, "the data");
    return fe_poisoned_packed(f);
  }
  tn_tensor y = fe_pool_rows(s.data, how, kernel, o);
  if (!fe_ok(y)) return fe_poisoned_packed(f);
  return fe_made_packed((tn_packed){y, {f, fe_rows_of(y)}}, tn_packed_n_members(s) == 2, o.at);
}

tn_packed tn_packed_max_pool1d(tn_packed s, int64_t kernel, tn_pool_options o) {
  return pooled(__func__, s, (FeRowPool){.is_max = true}, kernel, o);
}
tn_packed tn_packed_avg_pool1d(tn_packed s, int64_t kernel, tn_pool_options o) {
  return pooled(__func__, s, (FeRowPool){0}, kernel, o);
}
