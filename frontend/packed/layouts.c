// Layouts made of others: of parts of each sequence, of windows over it, of sequences joined in time.
//
//   %n = seq_part %L {part="lengths"}     %m = sub %n, 1     %k = clamp %m {lo=0, hi=inf}
//   %C = packed_layout %k {time=max(time-1,0), rows=rows_2, empty}
//
// Of constant lengths come constant lengths. The sequences of the result may be empty.
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/packed/packed.h"
#include "ir/conv.h"
#include "ir/fn.h"

#include <math.h>

tn_tensor fe_as_column(tn_tensor x, uint32_t rank, tn_site at) {
  if (!fe_ok(x)) return x;
  Dim d[MAX_RANK] = {fe_axis_dim(x, 0)};
  for (uint32_t k = 1; k < rank; k++) d[k] = ir_dim(x.fn->p->ir, 1);
  return fe_reshape(x, d, rank, at);
}

tn_tensor fe_on_rows(tn_tensor layout, tn_tensor x, tn_site at) {
  return fe_move_rows(OP_seq_broadcast, x, layout, NULL, 0, at);
}

// ---- one that was made before
static bool has_positions(const FeDerived *d) { return d->how == FE_HEADS || d->how == FE_TAILS; }

static tn_tensor known(tn_function *f, const FeDerived *d) {
  for (uint32_t k = 0; k < f->n_derived; k++) {
    const FeDerived *e = &f->derived[k];
    bool same = e->how == d->how && e->from == d->from && e->with == d->with && e->a == d->a && e->b == d->b;
    if (same && !(has_positions(d) && fe_written_since((tn_tensor){f, d->with}, e->layout)))
      return (tn_tensor){f, e->layout};
  }
  return fe_poison(f);
}

// ---- lengths
static tn_tensor too_short(tn_tensor layout, int64_t steps, int64_t size, tn_site at) {
  fe_error(layout.fn->p, E_LENGTH_RANGE, at, "a window needs %lld steps of a sequence, and %s %lld", (long long)size,
           fe_ins(layout)->n_args ? "the longest may have" : "there is one with", (long long)steps);
  fe_note(layout.fn->p, fe_ins(layout)->loc, "the sequences were packed here");
  return fe_poison(layout.fn);
}

static const Attr *constants(tn_tensor layout) { return ir_attr(layout.fn->ir, fe_val(layout), KEY_lengths); }

static int64_t length_of(const FeDerived *d, int64_t n, int64_t other) {
  int64_t rest = n > d->a ? n - d->a : 0;
  switch (d->how) {
  case FE_WINDOWS: return n ? rest / d->b + 1 : 0;
  case FE_JOINED: return n + other;
  default: return rest < d->b ? rest : d->b;
  }
}

static tn_tensor constant_layout(tn_tensor from, const FeDerived *d, tn_site at) {
  Prog *p = from.fn->p->ir;
  Shape of = constants(from)->u.list,
        with = d->how == FE_JOINED ? constants((tn_tensor){from.fn, d->with})->u.list : of;
  uint32_t n = ir_rank(p, of);
  int64_t *out = rt_alloc(p->mem, (n + 1) * sizeof *out);
  for (uint32_t k = 0; k < n; k++) {
    int64_t steps = ir_list_at(p, of, k);
    if (d->how == FE_WINDOWS && steps && steps < d->a) return too_short(from, steps, d->a, at);
    out[k] = length_of(d, steps, ir_list_at(p, with, k));
  }
  return fe_known_layout(from.fn, out, n, true, at);
}

static tn_tensor clamped(tn_tensor n, double hi, tn_site at) {
  return fe_emit(OP_clamp, &n, 1, (const Attr[]){ir_a_num(KEY_lo, 0), ir_a_num(KEY_hi, hi)}, 2, at);
}

static tn_tensor lengths_of(tn_tensor from, const FeDerived *d, tn_site at) {
  tn_tensor n = fe_layout_part(from, "lengths", at), with = {from.fn, d->with};
  if (!fe_ok(n)) return n;
  switch (d->how) {
  case FE_WINDOWS: {
    Attr of[] = {ir_a_int(KEY_size, d->a > 1 ? d->a : 1), ir_a_int(KEY_step, d->b),
                 ir_a_int(KEY_padding, d->a > 1 ? 0 : 1 - d->a)};
    return fe_emit(OP_seq_window_lengths, &from, 1, of, d->a < 1 ? 3 : 2, at);
  }
  case FE_JOINED: return fe_emit2(OP_add, n, fe_layout_part(with, "lengths", at), at);
  case FE_HEADS: return fe_emit2(OP_min, clamped(with, INFINITY, at), n, at);
  case FE_TAILS: return clamped(fe_emit2(OP_sub, n, clamped(with, INFINITY, at), at), INFINITY, at);
  case FE_CUT: break;
  }
  n = fe_emit2(OP_sub, n, fe_number(from.fn, (double)d->a, DT_I64, at), at);
  return clamped(n, d->b == INT64_MAX ? INFINITY : (double)d->b, at);
}

static Dim time_of(tn_tensor from, const FeDerived *d) {
  Prog *p = from.fn->p->ir;
  Dim time = fe_axis_dim(from, 1);
  if (d->how == FE_WINDOWS) return ir_window_time(p, time, d->a, d->b);
  if (d->how == FE_JOINED) return ir_dim_add(p, time, fe_axis_dim((tn_tensor){from.fn, d->with}, 1));
  if (d->how != FE_CUT) return time;
  Dim rest = d->a ? ir_dim_max(p, ir_dim_sub(p, time, ir_dim(p, d->a)), ir_dim(p, 0)) : time;
  return d->b == INT64_MAX ? rest : ir_dim_min(p, rest, ir_dim(p, d->b));
}

// What the rows of `from` allow at most; none is made of nothing, so that it is above 0.
static int64_t most_rows(tn_tensor from, const FeDerived *d) {
  Prog *p = from.fn->p->ir;
  int64_t rows = ir_dim_bound(p, fe_axis_dim(from, 2)), most = rows;
  if (d->how == FE_JOINED) most = rows + ir_dim_bound(p, fe_axis_dim((tn_tensor){from.fn, d->with}, 2));
  if (d->how == FE_WINDOWS) most = ir_window_rows(rows, ir_dim_bound(p, fe_axis_dim(from, 0)), d->a, d->b);
  return most > 1 ? most : 1;
}

static tn_tensor run_layout(tn_tensor from, const FeDerived *d, tn_site at) {
  int64_t longest = ir_dim_bound(from.fn->p->ir, fe_axis_dim(from, 1));
  if (d->how == FE_WINDOWS && longest && longest < d->a) return too_short(from, longest, d->a, at);
  tn_tensor n = lengths_of(from, d, at);
  if (!fe_ok(n)) return n;
  tn_pack_options o = {.allow_empty = true, .max_rows = most_rows(from, d), .at = at};
  return fe_run_layout(n, fe_axis_dim(from, 0), time_of(from, d), &o);
}

static bool is_same(const FeDerived *d) {
  return d->how == FE_WINDOWS ? d->a == 1 && d->b == 1 : d->how == FE_CUT && !d->a && d->b == INT64_MAX;
}

tn_tensor fe_windows_layout(tn_tensor from, const FeWindow *w, tn_site at) {
  int64_t steps = w->dilation * (w->taps - 1) + 1 - w->before - w->behind;  // that a window needs of its sequence
  return fe_derived_layout(from, (FeDerived){.how = FE_WINDOWS, .a = steps, .b = w->stride}, at);
}

tn_tensor fe_derived_layout(tn_tensor from, FeDerived d, tn_site at) {
  tn_function *f = from.fn;
  d.from = from.v;
  if (is_same(&d)) return from;
  tn_tensor own = known(f, &d);
  if (fe_ok(own)) return own;
  bool is_const = constants(from) && !has_positions(&d);
  is_const = is_const && (d.how != FE_JOINED || constants((tn_tensor){f, d.with}));
  own = is_const ? constant_layout(from, &d, at) : run_layout(from, &d, at);
  if (!fe_ok(own)) return own;
  d.layout = own.v;
  *RT_PUSH(f->p->mem, f->derived, f->n_derived, f->cap_derived) = d;
  return fe_keep(own, at);
}
