// Some taps of the gradient of a convolution's weight, over rows of g's pixels, with all sums in registers: a function.
//
//   dense       sums[tap, term][o] += x[pixel * src_step + tap, term] * g[pixel, o]        o: some vectors of g's channels
//   depthwise   sums[tap, term][c] += x[pixel * src_step + tap, channel term of c's group] * g[pixel, c]         c: a vector
//
// An element of x, or a vector, is read once for all taps of a row that meet it, and g stays in registers as long as taps meet
// it: of 3 taps, 4 channels and 2 vectors, 6 loads serve 24 multiply-adds. Columns that lie outside x are left out as the code is
// made, or, of rows that are cut, count 0 times the 0 that the strip has there. Every sum has one chain of additions in the order
// of the pixels.
#ifndef TN_CODEGEN_CONV_WEIGHT_ROWS_H
#define TN_CODEGEN_CONV_WEIGHT_ROWS_H

#include "codegen/conv/taps.h"

typedef struct {
  TapRow row;             // count 0: an argument, as are the columns that lie inside
  int64_t rows, row_gap;  // of taps; elements of x from one to the next
  int64_t terms;          // channels of x, or of a group
  bool depthwise;
  int64_t nv, lanes;                      // vectors of g's channels, and lanes of the last one
  int64_t pixel, g_pixel;                 // elements from one pixel to the next, of x and g
  int64_t x_row, g_row;                   // from one row of g's pixels to the next
  int64_t sums_row, sums_tap, sums_term;  // elements of the sums from one to the next
  bool accumulate;                        // accumulate into existing sums
} WeightRows;
typedef struct {
  V x, g, sums;  // x: its column 0 in the row of the first tap; where count is none, that of the first pixel
  V rows;        // of g
  V images, x_image, g_image;  // images: NULL: one; elements from one to the next
  V count, column;             // if there is no count: pixels, and the column of x where it begins
} WeightArgs;
void cg_weight_rows(Cg *c, const WeightRows *s, const WeightArgs *a);

// Chooses vectors of g's `o` channels and channels of x whose sums fill the registers, for the taps of s;
// false: too few to hide the latency of multiply-adds.
bool cg_weight_at_once(const Target *t, const WeightRows *s, int64_t o, int64_t *nv, int64_t *channels);
// Rows and columns of the window, of `rows` and `columns`, whose sums stay in registers; group: channels of a group.
void cg_depthwise_taps_at_once(const Target *t, int64_t group, int64_t rows, int64_t columns, int64_t *rows_at_once,
                               int64_t *columns_at_once);
int64_t cg_weight_pixels_at_once(const Target *t, bool depthwise);

#endif
