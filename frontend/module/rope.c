// Rotary position embedding: the elements of a head turn in pairs, by angles that grow with the position.
//
//   (a, b) of pair k at position t  ->  (a cos w - b sin w, b cos w + a sin w),   w = t base^(-2 k / size)
//
// Cosines and sines are tables of the object, computed in double precision; a run reads the rows of its positions.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/run/finite.h"
#include "frontend/tenure/module.h"

#include <math.h>

enum { MOST_NUMBERS = 1 << 26 };

typedef struct {
  tn_tensor x;
  const tn_rope_options *o;
  uint32_t rank, time;       // axes of x; which one is time
  bool is_packed;            // the time axis has the rows of a layout
  int64_t size, half, most;  // elements that turn, pairs, rows of the tables
} Rope;

// ---- tables
static tn_tensor table_of(const Rope *r, double base, bool is_sin) {
  tn_function *f = r->x.fn;
  float *v = rt_alloc(f->p->mem, (size_t)(r->most * r->half) * sizeof *v);
  for (int64_t t = 0; t < r->most; t++)
    for (int64_t k = 0; k < r->half; k++) {
      double w = (double)t * pow(base, -2 * (double)k / (double)r->size);
      v[t * r->half + k] = (float)(is_sin ? sin(w) : cos(w));
    }
  Shape s = ir_shape_ints(f->p->ir, (const int64_t[]){r->most, r->half}, 2);
  return (tn_tensor){f, ir_table(f->ir, DT_F32, s, v, fe_loc(f->p, r->o->at)).i};
}

// i64 [rows]: as they are given, or where each packed row stands in its sequence, from the offset on.
static tn_tensor positions_of(const Rope *r) {
  if (r->o->positions.fn) return r->o->positions;
  tn_tensor steps = fe_row_steps(r->x, r->o->at);
  if (r->o->offset.fn && fe_ok(steps)) return fe_emit2(OP_add, steps, r->o->offset, r->o->at);
  return fe_emit2(OP_add, steps, fe_number(r->x.fn, (double)r->o->const_offset, DT_I64, r->o->at), r->o->at);
}

// The rows of x's positions, shaped to multiply with halves of x: [T,half], [T,1,half] before heads, and with an axis of
// 1 behind them for pairs side by side.
static tn_tensor rows_of(const Rope *r, double base, bool is_sin) {
  Prog *p = r->x.fn->p->ir;
  tn_tensor table = table_of(r, base, is_sin);
  Dim steps = fe_axis_dim(r->x, r->time), one = ir_dim(p, 1), d[4] = {steps};
  bool by_index = r->is_packed || r->o->positions.fn;
  tn_tensor rows = by_index          ? fe_emit2(OP_embedding, table, positions_of(r), r->o->at)
                   : r->o->offset.fn ? fe_slice_at(table, 0, r->o->offset, steps, r->o->at)
                                     : fe_part(table, 0, ir_dim(p, r->o->const_offset), steps, r->o->at);
  uint32_t n = 1;
  if (r->o->heads_inside) d[n++] = one;
  d[n++] = ir_dim(p, r->half);
  if (r->o->interleaved) d[n++] = one;
  return fe_ok(rows) ? fe_reshape(rows, d, n, r->o->at) : rows;
}

// ---- turning
static tn_tensor sum_of_products(Op op, tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d, tn_site at) {
  return fe_emit2(op, fe_emit2(OP_mul, a, b, at), fe_emit2(OP_mul, c, d, at), at);
}

static tn_tensor with_last_axes(const Rope *r, tn_tensor x, const int64_t *last, uint32_t n) {
  Dim d[MAX_RANK];
  if (!fe_ok(x)) return x;
  for (uint32_t k = 0; k + 1 < r->rank; k++) d[k] = fe_axis_dim(r->x, k);
  for (uint32_t k = 0; k < n; k++) d[r->rank - 1 + k] = ir_dim(r->x.fn->p->ir, last[k]);
  return fe_reshape(x, d, r->rank - 1 + n, r->o->at);
}

static tn_tensor turn(const Rope *r, tn_tensor cosine, tn_tensor sine) {
  tn_site at = r->o->at;
  uint32_t last = r->rank - 1;
  int64_t size = ir_dim_bound(r->x.fn->p->ir, fe_axis_dim(r->x, last));
  tn_tensor x = size > r->size ? fe_slice(r->x, last, 0, r->size, at) : r->x;
  if (r->o->interleaved) x = with_last_axes(r, x, (const int64_t[]){r->half, 2}, 2), last++;
  int64_t n = r->o->interleaved ? 1 : r->half;
  tn_tensor a = fe_slice(x, last, 0, n, at), b = fe_slice(x, last, n, n, at);
  tn_tensor part[2] = {sum_of_products(OP_sub, a, cosine, b, sine, at),
                       sum_of_products(OP_add, b, cosine, a, sine, at)};
  if (!fe_ok(part[0]) || !fe_ok(part[1])) return fe_poison(r->x.fn);
  tn_tensor y = fe_concat(part, 2, last, at);
  if (r->o->interleaved) y = with_last_axes(r, y, &r->size, 1);
  if (size == r->size || !fe_ok(y)) return y;
  return fe_concat((tn_tensor[]){y, fe_slice(r->x, r->rank - 1, r->size, size - r->size, at)}, 2, r->rank - 1, at);
}

// ---- the call
static bool refuse(const Rope *r, int id, const char *text) {
  fe_error(r->x.fn->p, id, r->o->at, "%s", text);
  fe_note_value(r->x, "the value");
  return false;
}

static bool check_value(const Rope *r) {
  Prog *p = r->x.fn->p->ir;
  uint32_t least = r->o->heads_inside ? 3 : 2;
  if (fe_ins(r->x)->dtype != DT_F32) {
    refuse(r, E_DTYPE, "tn_rope takes f32");
    fe_hint(r->x.fn->p, "tn_cast(x, TN_F32) makes it f32");
    return false;
  }
  if (r->rank < least || r->rank + r->o->interleaved > MAX_RANK)
    return refuse(r, E_SHAPE, r->o->heads_inside ? "tn_rope takes [..,T,H,D]" : "tn_rope takes [..,T,D]");
  Dim last = fe_axis_dim(r->x, r->rank - 1);
  if (!ir_dim_is_const(p, last)) return refuse(r, E_SHAPE, "tn_rope takes heads of a constant size");
  return true;
}

static Dim steps_of(const Rope *r) {
  return r->is_packed ? fe_axis_dim((tn_tensor){r->x.fn, fe_rows_of(r->x)}, 1) : fe_axis_dim(r->x, r->time);
}

static bool check_options(Rope *r) {
  Prog *p = r->x.fn->p->ir;
  const tn_rope_options *o = r->o;
  int64_t all = ir_dim_bound(p, fe_axis_dim(r->x, r->rank - 1)), steps = ir_dim_bound(p, steps_of(r));
  r->size = o->size ? o->size : all, r->half = r->size / 2;
  if (r->size < 2 || r->size % 2 || r->size > all)
    return refuse(r, E_ARGUMENT, "tn_rope turns an even number of elements, 2 to all of a head");
  if (!(o->base >= 0) || !fe_is_finite(o->base)) return refuse(r, E_ARGUMENT, "tn_rope takes a base above 0");
  if (o->offset.fn && (o->const_offset || !o->most))
    return refuse(r, E_ARGUMENT,
                  "tn_rope with an offset of the run takes .most, how many positions there are, and no other");
  if (o->positions.fn && (o->offset.fn || o->const_offset || !o->most))
    return refuse(r, E_ARGUMENT, "tn_rope with positions of the run takes .most, how many there are, and no offset");
  if (o->positions.fn && (fe_rank(o->positions) != 1 || fe_axis_dim(o->positions, 0).i != fe_axis_dim(r->x, r->time).i))
    return refuse(r, E_SHAPE, "the positions of tn_rope are [T], one for each step");
  if (o->offset.fn && fe_rank(o->offset)) return refuse(r, E_SHAPE, "the offset of tn_rope is a scalar");
  if (o->const_offset < 0 || o->const_offset > MOST_NUMBERS || o->most < 0)
    return refuse(r, E_ARGUMENT, "positions of tn_rope are 0 or more");
  r->most = o->most ? o->most : o->const_offset + steps;
  if (r->most > MOST_NUMBERS || r->most * r->half > MOST_NUMBERS)
    return refuse(r, E_ARGUMENT, "a table of tn_rope has at most 2^26 numbers");
  return true;
}

tn_tensor tn_rope(tn_tensor x, tn_rope_options o) {
  tn_function *f;
  tn_tensor all[3] = {x};
  uint32_t n = 1;
  if (o.offset.fn) all[n++] = o.offset;
  if (o.positions.fn) all[n++] = o.positions;
  if (!fe_join(all, n, &f, o.at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  Rope r = {.x = x, .o = &o, .rank = fe_rank(x)};
  if (!check_value(&r)) return fe_poison(f);
  r.time = r.rank - (o.heads_inside ? 3 : 2);
  r.is_packed = r.time == 0 && fe_rows_of(x);
  if (!check_options(&r) || (!r.is_packed && !o.positions.fn && !fe_steps_apart(x, r.time, "tn_rope", o.at)))
    return fe_poison(f);
  double base = o.base != 0 ? o.base : 10000;
  tn_tensor cosine = rows_of(&r, base, false), sine = rows_of(&r, base, true);
  return fe_ok(cosine) && fe_ok(sine) ? fe_made(turn(&r, cosine, sine), o.at) : fe_poison(f);
}
