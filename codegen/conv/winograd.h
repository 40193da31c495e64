// Winograd's convolution F(4x4, 3x3): a tile of 4 x 4 pixels of the result is made of 6 x 6 pixels of the source by 36
// multiply-adds for each pair of channels where windows take 144:
//
//   V = B^T d B   of a tile of the source, by vectors of channels         [36][tile][channel]
//   U = G g G^T   of a window's weights                                   [36][channel][channel of the result]
//   M[e] = V[e] U[e]: 36 products over channels, by the microkernel       [36][tile][channel of the result]
//   Y = A^T M A   a tile of the result
//
// The gradient of the weight: dU[e] = sum over tiles of V[e]^T (A dY A^T)[e], dW = G^T dU G.
//
// The interpolation points are 0, +-3/4, +-3/2 and infinity. Every entry of A and B is exact in f32, and errors are a
// quarter of those of the usual 0, +-1, +-2 (docs/experiments/060-winograd.md).
#ifndef TN_CODEGEN_CONV_WINOGRAD_H
#define TN_CODEGEN_CONV_WINOGRAD_H

#include "codegen/conv/windows.h"

enum { WINOGRAD_TILE = 4, WINOGRAD_TAPS = 3, WINOGRAD_SOURCE = 6, WINOGRAD_POINTS = 36 };
// Channels of a partial sum of M. The last transform amplifies the errors of M, so that its sums are shorter than others
// (docs/experiments/093-error-of-winograd.md).
enum { WINOGRAD_PARTIAL_SUM = 16 };

// ---- winograd_transform.c
typedef enum {
  TRANSFORM_SOURCE,           // B^T d B
  TRANSFORM_WEIGHT,           // G g G^T
  TRANSFORM_RESULT,           // A^T M A
  TRANSFORM_GRADIENT,         // A dY A^T
  TRANSFORM_WEIGHT_GRADIENT,  // G^T dU G
} WinogradTransform;

// Where vectors of channels of one tile lie: element k of those that are transformed at `at` + k * stride, or, where
// `at` is a table of pointers, at the pointer of row k / n, column k % n (cg_winograd_pixels).
typedef struct {
  V at;
  int64_t stride;  // 0: a table
} WinogradSide;
// `channels` of them by whole vectors. Memory that a table points to is read and written up to the last channel; other memory has
// room for whole vectors. ragged: they may be no whole number of vectors.
void cg_winograd_transform(Cg *c, WinogradTransform kind, WinogradSide from, WinogradSide to, V channels, bool ragged);

enum { WINOGRAD_TABLE_ROW = 8 };  // pointers of a row of a table

// ---- winograd_plan.c
typedef enum {
  WINOGRAD_UNKNOWN,  // other taps, strides or groups
  WINOGRAD_OFF,      // exact convolutions are asked for
  WINOGRAD_NO_ROOM,  // too many channels: for tiles on a worker's stack, or weights in scratch
  WINOGRAD_SLOWER,   // or not enough faster
  WINOGRAD_CHOSEN
} WinogradChoice;

typedef struct {
  WinogradChoice choice;
  ConvShape s;
  Windows w;
  int64_t images;  // planes included, by the bound
  // With a dilation of d every d-th row and column are an image of their own, a part; pixels of a tile are `step` apart.
  int64_t step_y, step_x;
  int64_t image_tiles, part_tiles, row_tiles;  // tiles of an image, of a part, and of a row of them
  bool keeps_weights;                          // U is a packed copy of a parameter
  bool shares_tiles;                           // V lies in scratch
  int64_t tiles;                               // of a block: those whose products are made together
  int64_t chunk;                               // shares_tiles: tiles whose V there is room for, whole blocks
  uint32_t mr, nv;
  int64_t width, panels;
  int64_t channels;          // of the source in V, whole vectors
  int64_t v_point, m_point;  // elements between points
  double winograd, direct;   // estimated times, in multiply-adds of a vector
} WinogradPlan;
static inline int64_t cg_winograd_weight_elements(const WinogradPlan *p) {
  return WINOGRAD_POINTS * p->panels * p->s.src_channels * p->width;
}
// May v be computed by Winograd? Sets the shape, images and numbers of tiles.
bool cg_winograd_shape(const Fn *f, Val v, const Target *t, WinogradPlan *p);
// The same, and is it faster? Sets the whole plan, by bounds and constants alone.
bool cg_winograd_plan(const Fn *f, Val v, const Target *t, WinogradPlan *p);
// Compares the estimated times, and says whether it is chosen.
bool cg_winograd_choose(const Target *t, WinogradPlan *p);
// The choice and its reason, as words.
void cg_winograd_reason(const WinogradPlan *p, RtText *out);

typedef struct {
  V image, y, x;  // the first pixel of the result
} WinogradTile;
WinogradTile cg_winograd_tile(Cg *c, const WinogradPlan *p, V number);
V cg_winograd_rows(Cg *c, const WinogradPlan *p, const WinogradTile *t);  // of its 4 x 4 those inside the image
V cg_winograd_columns(Cg *c, const WinogradPlan *p, const WinogradTile *t);
// Writes pointers to the pixels of tile t, from `channel` on, to `table`. from: the images of the source, or of the result; outside:
// the pointer for pixels that lie outside the image.
void cg_winograd_pixels(Cg *c, const WinogradPlan *p, bool source, V from, V channel, const WinogradTile *t, V outside,
                        V table);
// The transform of the pixels of the source that tile t of the result reads, to `v` as [36], `point` apart.
typedef struct {
  V source, first, channels;  // channels from `first` on
  V table, zeros;             // on the stack: [6][8] pointers, a pixel of the padding
  V v;
  int64_t point;
  // makes pixels of the source, to `made`, on the stack, `room` elements apart; NULL: they are stored
  struct RowStrip *prologue;
  V made;
  int64_t room;
} WinogradRead;
void cg_winograd_read(Cg *c, const WinogradPlan *p, const WinogradTile *t, const WinogradRead *r);

// ---- winograd_weights.c
// U as [panel][36][channel][width], by the team. taps: 9 x width on the worker's stack.
void cg_winograd_weights(Cg *c, const WinogradPlan *p, V weights, V to, V taps);
// The copy of a parameter that a plan with B_PREPACKED reads; not placed. The code that makes it.
WeightPack cg_winograd_pack(const GemmPlan *p);
void cg_winograd_make_pack(Cg *c, const WeightPack *w, V weights, V to);

// ---- winograd_weight_grad.c: the gradient of a weight, v; x and g: what it is made of
bool cg_winograd_weight_plan(const Fn *f, Val v, const Target *t, WinogradPlan *p);  // the choice and the times
int64_t cg_winograd_weight_scratch_bytes(const Fn *f, Val v, const Target *t);
// Emits the code of the kernel's anchor. prologue: makes pixels of x; NULL: they are stored.
void cg_winograd_weight_emit(Cg *c, V x, V g, struct RowStrip *prologue);

#endif
