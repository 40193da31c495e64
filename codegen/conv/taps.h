// A row of pixels and the taps of a row of a window, some pixels at one time whose values stay in registers:
//
//   pixel k meets, by tap number t, the column k * src_step + t * gap of those from the first pixel's first tap on
//
// Pixels are those of the result, or of g in the gradient of a weight; columns are those of the source. Columns that lie outside
// are left out as the code is made, or the run tells which pixels have some.
#ifndef TN_CODEGEN_CONV_TAPS_H
#define TN_CODEGEN_CONV_TAPS_H

#include "codegen/cg.h"

static inline V cg_times(Cg *c, V i, int64_t n) { return cg_mul(c, i, cg_i64(c, n)); }

// Elements [lo, hi) of n: those for which `reach` places from at + i * step on lie in [0, size). hi may be below lo if reach is
// not 1.
typedef struct {
  V lo, hi;
} Inside;
Inside cg_inside(Cg *c, V at, int64_t step, int64_t reach, V size, V n);
// Part `nth` of n in `parts` about equal parts.
Inside cg_part(Cg *c, V n, V nth, int64_t parts);

// Elements [0, n) in pieces of `size`, in a loop, then what is left. A body is written once and emitted for both:
//
//   for (Pieces p = cg_pieces(c, channels, vl); cg_next_piece(&p);) one_vector(u, p.i, p.n);
typedef struct {
  Cg *c;
  Loop l;
  If last;
  V i;        // the first element of the current piece
  int64_t n;  // its elements
  int64_t size, whole, left;
  Inside numbers;  // lo NULL: all pieces
  uint32_t turn;
} Pieces;
Pieces cg_pieces(Cg *c, int64_t n, int64_t size);
Pieces cg_some_pieces(Cg *c, Inside numbers, int64_t n, int64_t size);
bool cg_next_piece(Pieces *p);

typedef struct {
  int64_t taps, gap, src_step;  // gap: columns from one tap to the next; src_step: from one pixel to the next
  int64_t count;                // pixels
  int64_t offset, columns;      // of the first pixel's first tap; of the source
  int64_t at_once;              // pixels at one time
} TapRow;

typedef struct {
  const TapRow *row;
  V first;
  int64_t n;
  int64_t known;  // the first pixel, if some columns of the taps may lie outside; -1: none does,
  bool border;    // or the run decides
} TapPixels;

// Number of the pixel whose tap number `tap` is `at` columns from the first one's first tap; below 0: none.
int64_t cg_tap_pixel(const TapPixels *p, int64_t at, int64_t tap);
// Is that column one of the source? Columns up to the last one are met by some tap.
bool cg_tap_inside(const TapPixels *p, int64_t at);
int64_t cg_tap_last_column(const TapPixels *p);
// The column that the first pixel's first tap meets.
V cg_tap_first_column(Cg *c, const TapPixels *p);

// Emits the sums of some pixels, and updates the accumulators.
typedef struct {
  void (*some_pixels)(const TapPixels *p, void *ctx, V *sum);
  void *ctx;
  uint32_t n_sums;
} TapSums;
// A whole row, of constant sizes;
void cg_tap_row(Cg *c, const TapRow *row, const TapSums *of, V *sum);
// of which the run gives the pixels, the columns and the column of the first pixel's first tap. Pixels at the border come one by one.
void cg_tap_row_of_run(Cg *c, const TapRow *row, const TapSums *of, V count, V column, V columns, V *sum);

// Calls a helper without a result whose code is decided by its name and these sizes.
void cg_call_sized(Cg *c, const char *name, const int64_t *size, uint32_t n_sizes, V *arg, uint32_t n,
                   void (*make)(Cg *c, V fn, void *ctx), void *ctx);

#endif
