// Convolutions as windows over a source (ir/conv.h). Along each axis, element first + j * step of the result reads, for
// each tap, element j * src_step + offset of the source, where that lies inside. A convolution has one phase per axis;
// a transposed one has as many as its stride, whose taps are those that meet it. Many phases share their code, where as many taps
// meet them: those are numbered side by side, and the run asks where each lies.
#ifndef TN_CODEGEN_CONV_WINDOWS_H
#define TN_CODEGEN_CONV_WINDOWS_H

#include "codegen/conv/taps.h"
#include "codegen/gemm/gemm.h"
#include "ir/conv.h"

typedef struct {
  int64_t first, step, count;  // elements of the result; count: of its bound, cg_conv_count has those of the run
  int64_t src_step;
  int64_t n_taps, tap, tap_step;  // taps of the weight, in the order of their offsets: tap + i * tap_step
  int64_t offset, gap;            // of those: offset + i * gap
  // phases that share code; the number of the first; how far their offsets differ. Of several `first`, `offset` and `count` are
  // the bounds of all, and `tap` is of no meaning.
  int64_t n, number, differ;
} Phase;

// One phase of each axis, or those that share code.
typedef struct {
  Phase axis[CONV_AXES];
  uint32_t nth;  // from 1
  int64_t k0;    // the first row of packed weights, of `rows` in a panel; each phase has taps * src_channels
  int64_t taps, phases;
} Windows;

// Where one of them lies
typedef struct {
  V first[CONV_AXES], tap[CONV_AXES], offset[CONV_AXES], k0;
} PhaseAt;

typedef struct {
  Conv c;
  bool transposed;
  int64_t src_channels, dst_channels;      // of a group
  int64_t src[CONV_AXES], dst[CONV_AXES];  // bounds of sizes that the run gives
  Dim src_dim[CONV_AXES], dst_dim[CONV_AXES];
  bool shares[CONV_AXES];  // phases of the axis share code
  bool by_run;             // the run gives sizes, of the image or of a phase
  int64_t rows;            // of a panel: taps x src_channels
  bool tight;              // strips leave out elements between those that windows of one tap read
  bool sparse;             // and those between taps that are further apart than what each of them reads
} ConvShape;

void cg_conv_shape(const Fn *f, Val v, ConvShape *s);
// All phases: for (Windows w = {0}; cg_conv_next(&s, &w);) ..
bool cg_conv_next(const ConvShape *s, Windows *w);
// Phase number `nth` of w's; elements along axis k of a phase that begins at `first`.
PhaseAt cg_conv_phase(Cg *c, const ConvShape *s, const Windows *w, V nth);
V cg_conv_count(Cg *c, const ConvShape *s, uint32_t k, V first);
static inline int64_t cg_conv_reach(const Phase *p) { return p->n_taps ? (p->n_taps - 1) * p->gap + 1 : 1; }

// May taps lie outside along axis k?
bool cg_conv_reaches_out(const Fn *f, const ConvShape *s, const Phase *p, uint32_t k);
// How many elements of the source lie outside, at most on one side.
static inline int64_t cg_conv_outside(const ConvShape *s, const Phase *p) {
  int64_t right = (p->count - 1) * p->src_step + p->offset + cg_conv_reach(p) - s->src[2];
  return cg_larger(-p->offset, right);
}
// Do neighbouring pixels of this many channels alias in L1, as strides of 2 KiB do?
static inline bool cg_pixels_alias(int64_t channels) { return 4 * channels % 2048 == 0; }

// Elements of the source from one of a strip to the next along an axis; of the strip, from one window to the next, and those
// that `count` elements of the result read.
static inline int64_t cg_conv_strip_step(const ConvShape *s, const Phase *p) {
  return s->tight && p->n_taps <= 1 ? p->src_step : 1;
}
static inline int64_t cg_conv_window_step(const ConvShape *s, const Phase *p) {
  return p->src_step / cg_conv_strip_step(s, p);
}
static inline int64_t cg_conv_strip_span(const ConvShape *s, const Phase *p, int64_t count) {
  return (count - 1) * cg_conv_window_step(s, p) + cg_conv_reach(p);
}

// ---- strip.c: a part of one image and some of its channels with its padding, [planes][rows][columns][channels]
typedef struct {
  int64_t planes, rows, columns, channels;
  Dim size[CONV_AXES];      // of the source
  int64_t pixel;            // elements of the source from one pixel to the next
  int64_t step[CONV_AXES];  // of the source, from one of the strip to the next; 0: 1
  // of each tap, if strips leave out what lies between taps; 0: they do not. Elements of the source from one tap to the next
  int64_t of_tap[CONV_AXES], gap[CONV_AXES];
} StripShape;
// The strip that `rows` rows and `columns` columns of the result read.
StripShape cg_conv_strip(const ConvShape *s, const Windows *w, int64_t channels, int64_t rows, int64_t columns);
// Elements of the source from one plane, row and pixel to the next: in a strip, or, if it is NULL, in place.
void cg_conv_strides(const ConvShape *s, const StripShape *strip, int64_t out[CONV_AXES]);
static inline int64_t cg_strip_elements(const StripShape *s) { return s->planes * s->rows * s->columns * s->channels; }
// image: the first of the channels to copy in its first pixel; at: where the strip begins along each axis, may be negative;
// used: rows and columns that are read, NULL: all.
typedef struct {
  V image, at[CONV_AXES], strip;
  V used[CONV_AXES];
  struct RowStrip *prologue;  // makes pixels of the source; NULL: they are stored
  // then the image's first one, the first channel, and how many; NULL: the strip's
  V pixel, channel, channels;
} StripFill;
void cg_conv_fill_strip(Cg *c, const StripShape *s, const StripFill *f);
void cg_conv_clear(Cg *c, V at, V n);

// ---- weights.c
// Panels [group][panel][row][width] of all windows, by the team; rows of a tap are src_channels in blocks of `block`.
// scratch: private memory of cg_conv_packing_elements.
int64_t cg_conv_packing_elements(const ConvShape *s, const Target *t);
void cg_conv_pack_weights(Cg *c, const ConvShape *s, int64_t width, int64_t block, V weights, V to, V scratch);
int64_t cg_conv_packed_elements(const ConvShape *s, int64_t width);
// The copy of a parameter that a plan with B_PREPACKED reads, of a convolution that is not transposed; not placed. The
// code that makes it.
WeightPack cg_conv_pack(const ConvShape *s, const GemmPlan *p);
void cg_conv_make_pack(Cg *c, const WeightPack *w, V weights, V to);

// ---- weight_sums.c: sums of a weight's gradient, of all slices, in PyTorch's order of axes
//
//   [slice][group][plane and row of the window][block of channels][tap of the row][channel][channels of g, whole vectors]
typedef struct {
  const ConvShape *shape;
  const Phase *axis;
  int64_t slices, groups;
  int64_t channels, block;  // of x in a group, and in a block
  int64_t o, o_pad;         // of g in a group; in whole vectors
  V sums, out;
  bool repairs_nan;           // zeros of strips may have made sums NaN:
  V x, g;                     // they are recomputed from these
  struct RowStrip *prologue;  // makes pixels of x; NULL: they are stored
} WeightSums;
static inline int64_t cg_weight_sums(const WeightSums *s) {
  return ir_conv_taps(&s->shape->c) * s->channels * s->o_pad;
}
int64_t cg_weight_sums_bytes(const WeightSums *s);
// By the team, after cg_wait_for_team.
void cg_store_weight_sums(Cg *c, const WeightSums *s);
// The sum of the vectors at `at` + k * stride, k < n: of slices, in their order.
V cg_sum_slices(Cg *c, V at, int64_t n, int64_t stride);

// ---- weight_grad.c
// Is it made by depthwise_weight_grad.c? That takes images of constant sizes.
bool cg_conv_weight_is_depthwise(const Fn *f, Val v, const Target *t);
int64_t cg_conv_weight_scratch_bytes(const Fn *f, Val v, const Target *t);

#endif
