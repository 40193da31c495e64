// Some channels of x in the gradient of a convolution's weight, with all taps of a row of the window: a function.
//
//   sums[tap, channel][o] += x[pixel * src_step + tap * gap, channel] * g[pixel, o]
//
// over rows of g's pixels, of one image after the other. Sums stay in registers, and so does g for as long as taps meet it:
// of 3 taps, 4 channels and 2 vectors, 6 loads serve 24 multiply-adds. Columns that lie outside x are left out as the code
// is made. Every sum has one chain of additions in the order of the pixels.
#ifndef TN_CODEGEN_CONV_WEIGHT_ROWS_H
#define TN_CODEGEN_CONV_WEIGHT_ROWS_H

#include "codegen/cg.h"

typedef struct {
  int64_t taps, gap, src_step;     // gap: columns from one tap to the next; src_step: from one pixel of g to the next
  int64_t channels, nv, lanes;     // of x; vectors of g's channels, and lanes of the last one
  int64_t count;                   // pixels of a row of g
  int64_t offset, columns;         // of the first pixel's first tap; of x
  int64_t pixel, g_pixel;          // elements from one pixel to the next
  int64_t sums_tap, sums_channel;  // elements of the sums from one to the next
  bool more;                       // adds to what there is
} ConvWeightRows;
typedef struct {
  LLVMValueRef x, g, sums;      // x: its column 0 in the first row
  LLVMValueRef rows, images;    // of g
  LLVMValueRef x_row, x_image;  // elements of x for one of g to the next
  LLVMValueRef g_row, g_image;
} ConvWeightArgs;
void cg_conv_weight_rows(Cg *c, const ConvWeightRows *s, const ConvWeightArgs *a);

// Vectors of g's `o` channels and channels of x whose sums fill the registers, of the taps that s says; false: they are too
// few for multiply-adds not to wait for one another.
bool cg_conv_weight_at_once(const Target *t, const ConvWeightRows *s, int64_t o, int64_t *nv, int64_t *channels);

#endif
