// Pixels at one time of a convolution's weight gradient (weight_pixels.h).
#include "codegen/conv/weight_pixels.h"

#include "codegen/conv/depthwise.h"

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

LLVMValueRef cg_tap_first_column(Cg *c, const TapPixels *p) {
  return cg_add(c, cg_mul(c, p->first, cg_i64(c, p->row->src_step)), cg_i64(c, p->row->offset));
}

void cg_tap_each(Cg *c, const TapRow *row, const TapSums *of, LLVMValueRef first, LLVMValueRef end, int64_t n,
                 LLVMValueRef *sum) {
  Loop l;
  cg_loop_begin(c, &l, first, end, cg_i64(c, n), sum, of->n_sums);
  for (uint32_t k = 0; k < l.n; k++) sum[k] = l.carry[k];
  of->some_pixels(&(TapPixels){.row = row, .first = l.i, .n = n, .known = -1}, of->ctx, sum);
  cg_sums_end(c, &l, sum);
}

static bool all_inside(const TapRow *s, int64_t first) {
  int64_t begin = first * s->src_step + s->offset;
  return begin >= 0 && begin + (s->at_once - 1) * s->src_step + (s->taps - 1) * s->gap < s->columns;
}

void cg_tap_row(Cg *c, const TapRow *row, const TapSums *of, LLVMValueRef *sum) {
  for (int64_t n = row->at_once, first = 0, end; first < row->count; first = end) {
    for (end = first; end + n <= row->count && all_inside(row, end);) end += n;
    if (end > first) {
      cg_tap_each(c, row, of, cg_i64(c, first), cg_i64(c, end), n, sum);
      continue;
    }
    end = first + n < row->count ? first + n : row->count;
    TapPixels border = {.row = row, .first = cg_i64(c, first), .n = end - first, .known = first};
    of->some_pixels(&border, of->ctx, sum);
  }
}
