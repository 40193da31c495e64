// Convolutions of groups of few channels, as many in as out of each: depthwise ones, whose groups are single channels, and
// those whose groups are a part of a vector. Vectors lie along channels, so that all groups are as one.
#ifndef TN_CODEGEN_CONV_DEPTHWISE_H
#define TN_CODEGEN_CONV_DEPTHWISE_H

#include "codegen/conv/bands.h"

enum {
  DEPTHWISE_COLUMNS = 4,   // least columns of a unit; fewer columns allow more channels
  CG_DEPTHWISE_PIXELS = 8  // of a row at one time
};

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

// ---- depthwise_row.c: a row of the result's pixels, a function, which rows of equal sizes share
typedef struct {
  TapRow row;                                   // whose offset is 0 if by_run
  int64_t channels, group;                      // of the row; of a group
  int64_t taps[2], x_gap[2], w_gap[CONV_AXES];  // planes and rows; from one tap to the next, in elements
  int64_t pixel;                                // elements from one pixel of the source to the next
  int64_t w_vector;                             // of a vector's weights for each of its channels
  int64_t out_pixel;                            // elements from one pixel of the result to the next
  bool by_run;                                  // the run gives the number of pixels, and which columns there are
} DepthwiseRow;
typedef struct {
  V x, w, out;     // the source's first column at the first tap, which may lie outside; the first weight
  Inside taps[2];  // planes and rows
  // by_run: pixels; the column of the first one's first tap; columns of the source
  V count, column, columns;
} DepthwiseArgs;
void cg_depthwise_row(Cg *c, const DepthwiseRow *s, const DepthwiseArgs *a);
// Lane number `nth` of each group of lanes in all of them.
V cg_spread_lanes(Cg *c, V x, int64_t group, int64_t nth);

// ---- depthwise_weight_grad.c: the gradient of its weight, v; x and g: what it is made of
bool cg_depthwise_weight_fits(const Fn *f, Val v, const Target *t);  // false: too many taps
int64_t cg_depthwise_weight_scratch_bytes(const Fn *f, Val v, const Target *t);
void cg_depthwise_weight_emit(Cg *c, V x, V g);  // of the kernel's first instruction

#endif
