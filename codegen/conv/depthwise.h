// Convolutions of groups of few channels, as many in as out of each: depthwise ones, whose groups are single channels, and
// those whose groups are a part of a vector. Vectors lie along channels, so that all groups are as one.
#ifndef TN_CODEGEN_CONV_DEPTHWISE_H
#define TN_CODEGEN_CONV_DEPTHWISE_H

#include "codegen/conv/bands.h"

enum { DEPTHWISE_COLUMNS = 4 };  // at least so many of a unit; fewer make room for more channels

// Channels of a group that fits; 0: none does.
static inline int64_t cg_channels_in_lane_group(const Conv *c, const Target *t) {
  int64_t n = c->groups > 1 && c->c == c->o ? c->c / c->groups : 0;
  return n == 1 || (n && t->vl % n == 0 && n < t->vl) ? n : 0;
}
// Its shape with all channels in one group.
static inline void cg_depthwise_shape(const Fn *f, Val v, ConvShape *s) {
  cg_conv_shape(f, v, s);
  s->src_channels = s->dst_channels = s->c.c, s->rows = ir_conv_taps(&s->c) * s->src_channels;
  s->c.groups = 1;
}

// ---- loops that carry sums
static inline void cg_sums_begin(Cg *c, Loop *l, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef *sum, uint32_t n) {
  cg_loop_begin(c, l, lo, hi, cg_i64(c, 1), sum, n);
  for (uint32_t k = 0; k < n; k++) sum[k] = l->carry[k];
}
static inline void cg_sums_end(Cg *c, Loop *l, LLVMValueRef *sum) {
  cg_loop_end(c, l, sum);
  for (uint32_t k = 0; k < l->n; k++) sum[k] = l->out[k];
}

// ---- depthwise_row.c: a row of the result's pixels, a function, which rows of equal sizes share
typedef struct {
  int64_t channels, group;                                      // of the row; of a group
  int64_t taps[CONV_AXES], x_gap[CONV_AXES], w_gap[CONV_AXES];  // from one tap to the next, in elements
  int64_t pixel;                                                // elements from one pixel of the source to the next
  int64_t w_vector;                                             // of a vector's weights for each of its channels
  int64_t count, out_pixel;                                     // pixels of the result; elements from one to the next
  bool by_run;              // of which the run gives the number, and which columns there are
  int64_t src_step, gap;    // columns of the source from one pixel of the result to the next, from one tap to the next
  int64_t offset, columns;  // of the first pixel's first tap; of the source
} DepthwiseRow;
typedef struct {
  LLVMValueRef x, w, out;         // the source's first column at the first tap, which may lie outside; the first weight
  LLVMValueRef first[2], end[2];  // planes and rows of taps that lie inside
  // by_run: pixels; the column of the first one's first tap; columns of the source
  LLVMValueRef count, column, columns;
} DepthwiseArgs;
void cg_depthwise_row(Cg *c, const DepthwiseRow *s, const DepthwiseArgs *a);
// Lane number `nth` of each group of lanes in all of them.
LLVMValueRef cg_spread_lanes(Cg *c, LLVMValueRef x, int64_t group, int64_t nth);

// ---- depthwise_weight_rows.c: some taps of the gradient of a weight, over rows of g's pixels: a function
// Rows and columns of the window whose sums stay in registers, of so many.
void cg_depthwise_taps_at_once(const Target *t, int64_t group, int64_t rows, int64_t columns, int64_t *rows_at_once,
                               int64_t *columns_at_once);
typedef struct {
  int64_t lanes, group;        // of a vector of channels, of its groups
  int64_t taps[2], gap[2];     // rows and columns; from one to the next: elements of x, columns
  int64_t sums;                // taps x group
  int64_t pixel, g_pixel;      // elements from one pixel to the next, of x and g
  int64_t x_row, g_row;        // from one row of g's pixels to the next
  int64_t count;               // pixels of a row; 0: an argument, as are the columns that lie inside
  int64_t src_step;            // columns of x from one pixel of g to the next
  int64_t offset, columns;     // of the first pixel's first tap, from where x begins; of x
  int64_t sums_row, sums_tap;  // elements from a row of taps to the next, and from one tap or channel i to the next
} DepthwiseWeightRows;
typedef struct {
  LLVMValueRef x, g, sums;  // x: its column 0 in the row of the first tap; where count is none, that of the first pixel
  LLVMValueRef rows, count;  // of g
  LLVMValueRef column;       // of x, where it begins, if count is none
} DepthwiseWeightArgs;
void cg_depthwise_weight_rows(Cg *c, const DepthwiseWeightRows *s, const DepthwiseWeightArgs *a);

// ---- depthwise_weight_grad.c: the gradient of its weight, v; x and g: what it is made of
bool cg_depthwise_weight_fits(const Fn *f, Val v, const Target *t);  // of not too many taps
int64_t cg_depthwise_weight_scratch_bytes(const Fn *f, Val v, const Target *t);
void cg_depthwise_weight_emit(Cg *c, LLVMValueRef x, LLVMValueRef g);  // of the kernel's first instruction

#endif
