// A part of one image with its padding, copied to the worker's stack (windows.h).
#include "codegen/conv/windows.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/span.h"

// Zeros, by whole vectors; nothing after the last is touched.
void cg_conv_clear(Cg *c, V at, V n) {
  for (Span s = cg_span(c, cg_i64(c, 0), n); cg_next_vector(&s);)
    cg_span_put(&s, cg_view(at, DT_F32), cg_splat(c, cg_f32(c, 0)));
}

// Columns [lo, hi) of the strip's row at `to`, of which `all` are read, are those of the source's row at `from`, whose column
// `column` is the first.
static void fill_row(Cg *c, const StripShape *s, const StripFill *f, V from, V column, V to, V all) {
  V n = cg_i64(c, s->channels);
  int64_t columns = cg_larger(1, s->step[2]), step = s->pixel * columns;
  Inside in = cg_inside(c, column, columns, 1, cg_dim(c, s->size[2]), all);
  cg_conv_clear(c, to, cg_mul(c, in.lo, n));
  cg_conv_clear(c, cg_at(c, c->f32, to, cg_mul(c, in.hi, n)), cg_mul(c, cg_sub(c, all, in.hi), n));
  V first = f->prologue ? cg_add(c, from, column) : cg_row(c, from, column, cg_i64(c, s->pixel));
  if (!f->prologue && step == s->channels) {
    V at = cg_mul(c, in.lo, n), run = cg_mul(c, cg_sub(c, in.hi, in.lo), n);
    cg_copy_run(c, DT_F32, cg_at(c, c->f32, to, at), cg_at(c, c->f32, first, at), run);
    return;
  }
  for (Loop l = cg_each(c, in.lo, in.hi); cg_next(&l);) {
    V pixel = cg_at(c, c->f32, to, cg_mul(c, l.i, n)), end = cg_add(c, f->channel, f->channels ? f->channels : n);
    if (f->prologue) cg_prologue_row(f->prologue, cg_add(c, first, cg_times(c, l.i, columns)), f->channel, end, pixel);
    else cg_copy_run(c, DT_F32, pixel, cg_row(c, first, l.i, cg_i64(c, step)), n);
  }
}

// The place in the source, from `first` on, of the strip's element number `nth` along axis k
static V place_of(Cg *c, const StripShape *s, V first, V nth, uint32_t k) {
  int64_t step = cg_larger(1, s->step[k]), n = s->of_tap[k];
  if (!n) return cg_add(c, first, cg_times(c, nth, step));
  V tap = cg_div(c, nth, cg_i64(c, n)), own = cg_rem(c, nth, cg_i64(c, n));
  return cg_add(c, first, cg_add(c, cg_times(c, tap, s->gap[k]), cg_times(c, own, step)));
}

// A row of the strip, tap by tap where it leaves out what lies between.
static void fill_taps(Cg *c, const StripShape *s, const StripFill *f, V from, V to, V columns) {
  int64_t n = s->of_tap[2];
  if (!n) fill_row(c, s, f, from, f->at[2], to, columns);
  for (Loop l = cg_count(c, cg_i64(c, n ? s->columns / n : 0)); cg_next(&l);) {
    V column = cg_add(c, f->at[2], cg_times(c, l.i, s->gap[2]));
    fill_row(c, s, f, from, column, cg_at(c, c->f32, to, cg_times(c, l.i, n * s->channels)), cg_i64(c, n));
  }
}

static V is_inside(Cg *c, V at, Dim size) { return cg_below(c, at, cg_dim(c, size)); }

// Where row y of plane z of the source begins: its first pixel's number, for a prologue, or its address.
static V source_row(Cg *c, const StripShape *s, const StripFill *f, V z, V y) {
  V row = cg_add(c, cg_mul(c, z, cg_dim(c, s->size[1])), y), width = cg_dim(c, s->size[2]);
  if (f->prologue) return cg_add(c, f->pixel, cg_mul(c, row, width));
  return cg_at(c, c->f32, f->image, cg_mul(c, row, cg_times(c, width, s->pixel)));
}

void cg_conv_fill_strip(Cg *c, const StripShape *s, const StripFill *f) {
  V width = cg_i64(c, s->columns * s->channels);
  V rows = f->used[1] ? f->used[1] : cg_i64(c, s->rows);
  V columns = f->used[2] ? f->used[2] : cg_i64(c, s->columns);
  for (Loop plane = cg_count(c, cg_i64(c, s->planes)); cg_next(&plane);) {
    for (Loop row = cg_count(c, rows); cg_next(&row);) {
      V to = cg_add(c, cg_times(c, plane.i, s->rows), row.i);
      to = cg_at(c, c->f32, f->strip, cg_mul(c, to, width));
      V z = place_of(c, s, f->at[0], plane.i, 0), y = place_of(c, s, f->at[1], row.i, 1);
      V inside = cg_and(c, is_inside(c, z, s->size[0]), is_inside(c, y, s->size[1]));
      for (If row_is = cg_either(c, inside); cg_then(&row_is);) {
        if (row_is.is_true) fill_taps(c, s, f, source_row(c, s, f, z, y), to, columns);
        else cg_conv_clear(c, to, cg_times(c, columns, s->channels));
      }
    }
  }
}
