// Rows of pixels and taps (taps.h).
#include "codegen/conv/taps.h"

Inside cg_inside(Cg *c, V at, int64_t step, int64_t reach, V size, V n) {
  V zero = cg_i64(c, 0), last = cg_add(c, at, cg_i64(c, reach - 1));
  V before = cg_max(c, zero, cg_sub(c, zero, at)), until = cg_max(c, zero, cg_sub(c, size, last));
  return (Inside){cg_min(c, n, cg_ceil_div_value(c, before, step)), cg_min(c, n, cg_ceil_div_value(c, until, step))};
}

Inside cg_part(Cg *c, V n, V nth, int64_t parts) {
  V next = cg_add(c, nth, cg_i64(c, 1)), all = cg_i64(c, parts);
  return (Inside){cg_div(c, cg_mul(c, nth, n), all), cg_div(c, cg_mul(c, next, n), all)};
}

Pieces cg_some_pieces(Cg *c, Inside numbers, int64_t n, int64_t size) {
  return (Pieces){.c = c, .size = size, .whole = n / size, .left = n % size, .numbers = numbers};
}

Pieces cg_pieces(Cg *c, int64_t n, int64_t size) { return cg_some_pieces(c, (Inside){NULL, NULL}, n, size); }

static bool whole_pieces(Pieces *p) {
  Cg *c = p->c;
  V size = cg_i64(c, p->size), whole = cg_i64(c, p->whole);
  if (p->numbers.lo) p->l = cg_each(c, p->numbers.lo, cg_min(c, p->numbers.hi, whole));
  else p->l = cg_each_by(c, cg_i64(c, 0), cg_i64(c, p->whole * p->size), size);
  p->i = p->numbers.lo ? cg_mul(c, p->l.i, size) : p->l.i, p->n = p->size;
  return cg_next(&p->l);
}

static bool last_piece(Pieces *p) {
  Cg *c = p->c;
  if (p->whole) cg_next(&p->l);
  if (!p->left) return false;
  p->last = cg_when(c, p->numbers.lo ? cg_eq(c, p->numbers.hi, cg_i64(c, p->whole + 1)) : NULL);
  p->i = cg_i64(c, p->whole * p->size), p->n = p->left;
  return cg_then(&p->last);
}

bool cg_next_piece(Pieces *p) {
  if (p->turn == 0 && !p->whole) p->turn++;
  switch (p->turn++) {
  case 0: return whole_pieces(p);
  case 1: return last_piece(p);
  default: return cg_then(&p->last);
  }
}

int64_t cg_tap_pixel(const TapPixels *p, int64_t at, int64_t tap) {
  const TapRow *s = p->row;
  int64_t from = at - tap * s->gap;
  return from < 0 || from % s->src_step || from / s->src_step >= p->n ? -1 : from / s->src_step;
}

bool cg_tap_inside(const TapPixels *p, int64_t at) {
  int64_t column = p->known * p->row->src_step + p->row->offset + at;
  return p->known < 0 || (column >= 0 && column < p->row->columns);
}

int64_t cg_tap_last_column(const TapPixels *p) {
  return (p->n - 1) * p->row->src_step + (p->row->taps - 1) * p->row->gap;
}

V cg_tap_first_column(Cg *c, const TapPixels *p) {
  return cg_add(c, cg_times(c, p->first, p->row->src_step), cg_i64(c, p->row->offset));
}

// Pixels [first, end), n at a time.
static void each(Cg *c, const TapPixels *p, const TapSums *of, V first, V end, V *sum) {
  TapPixels some = *p;
  for (Loop l = cg_carry(c, first, end, cg_i64(c, p->n), sum, of->n_sums); cg_next(&l);) {
    some.first = l.i;
    of->some_pixels(&some, of->ctx, sum);
  }
}

static bool all_inside(const TapRow *s, int64_t first) {
  int64_t begin = first * s->src_step + s->offset;
  return begin >= 0 && begin + (s->at_once - 1) * s->src_step + (s->taps - 1) * s->gap < s->columns;
}

void cg_tap_row(Cg *c, const TapRow *row, const TapSums *of, V *sum) {
  for (int64_t n = row->at_once, first = 0, end; first < row->count; first = end) {
    for (end = first; end + n <= row->count && all_inside(row, end);) end += n;
    if (end > first) {
      each(c, &(TapPixels){.row = row, .n = n, .known = -1}, of, cg_i64(c, first), cg_i64(c, end), sum);
      continue;
    }
    end = cg_smaller(first + n, row->count);
    TapPixels border = {.row = row, .first = cg_i64(c, first), .n = end - first, .known = first};
    of->some_pixels(&border, of->ctx, sum);
  }
}

void cg_tap_row_of_run(Cg *c, const TapRow *row, const TapSums *of, V count, V column, V columns, V *sum) {
  Inside in = cg_inside(c, column, row->src_step, (row->taps - 1) * row->gap + 1, columns, count);
  V n = cg_i64(c, row->at_once), end = cg_max(c, in.lo, in.hi);
  V whole = cg_add(c, in.lo, cg_multiple(c, cg_sub(c, end, in.lo), n));
  TapPixels some = {.row = row, .n = row->at_once, .known = -1}, one = {.row = row, .n = 1, .known = -1};
  TapPixels border = {.row = row, .n = 1, .known = -1, .border = true};
  int64_t left;
  each(c, &border, of, cg_i64(c, 0), in.lo, sum);
  each(c, &some, of, in.lo, whole, sum);
  if (!cg_const_value(cg_sub(c, end, whole), &left)) each(c, &one, of, whole, end, sum);
  else if (left) of->some_pixels(&(TapPixels){.row = row, .first = whole, .n = left, .known = -1}, of->ctx, sum);
  each(c, &border, of, end, count, sum);
}

void cg_call_sized(Cg *c, const char *name, const int64_t *size, uint32_t n_sizes, V *arg, uint32_t n,
                   void (*make)(Cg *c, V fn, void *ctx), void *ctx) {
  RtText text = {.mem = c->mem};
  rt_text_add(&text, "%s", name);
  for (uint32_t k = 0; k < n_sizes; k++) rt_text_add(&text, ".%lld", (long long)size[k]);
  cg_call_helper(c, text.text, arg, n, make, ctx);
}
