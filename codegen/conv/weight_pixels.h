// The pixels of a row of g that a weight's gradient takes at one time, and the columns of x that their taps meet there:
//
//   pixel k meets, by tap number t, the column k * src_step + t * gap of those from the first pixel's first tap on
//
// What is made of them stays in registers from one to the next. Columns that lie outside x are left out as the code is made.
#ifndef TN_CODEGEN_CONV_WEIGHT_PIXELS_H
#define TN_CODEGEN_CONV_WEIGHT_PIXELS_H

#include "codegen/cg.h"

typedef struct {
  int64_t taps, gap, src_step;  // gap: columns from one tap to the next; src_step: from one pixel of g to the next
  int64_t count;                // pixels of a row of g
  int64_t offset, columns;      // of the first pixel's first tap; of x
  int64_t at_once;              // pixels at one time
} TapRow;

typedef struct {
  const TapRow *row;
  LLVMValueRef first;
  int64_t n;
  int64_t known;  // the first one, if some columns of their taps may lie outside; -1: none does
} TapPixels;

// Number of the pixel whose tap number `tap` is `at` columns from the first one's first tap; below 0: none.
int64_t cg_tap_pixel(const TapPixels *p, int64_t at, int64_t tap);
// Is that column one of x? Columns up to the last one are met by some tap.
bool cg_tap_inside(const TapPixels *p, int64_t at);
int64_t cg_tap_last_column(const TapPixels *p);
// x's column that the first pixel's first tap meets.
LLVMValueRef cg_tap_first_column(Cg *c, const TapPixels *p);

// Emits what is made of some pixels, and updates the sums.
typedef struct {
  void (*some_pixels)(const TapPixels *p, void *ctx, LLVMValueRef *sum);
  void *ctx;
  uint32_t n_sums;
} TapSums;
// Of the pixels from `first` to `end`, n at a time, of which no tap lies outside, or some_pixels looks itself.
void cg_tap_each(Cg *c, const TapRow *row, const TapSums *of, LLVMValueRef first, LLVMValueRef end, int64_t n,
                 LLVMValueRef *sum);
// Of a whole row.
void cg_tap_row(Cg *c, const TapRow *row, const TapSums *of, LLVMValueRef *sum);

#endif
