// A pool during emission: the walk over its rows of pixels (pool.c), which a kernel along channels (pool.c) and one along
// columns (pool_columns.c) share.
#ifndef TN_CODEGEN_REDUCE_POOL_WALK_H
#define TN_CODEGEN_REDUCE_POOL_WALK_H

#include "codegen/cg.h"
#include "ir/pool.h"
#include "ir/resize.h"

enum { MOST_TAPS = 16, MOST_STATE = 2 };  // taps that are straight code; vectors of state for one of results

typedef struct {
  V lo, hi;
  int64_t step;
} Range;

typedef struct {
  V lo, hi, weight;  // constants in memory; NULL: none, or weights of 1
  AxisTaps taps;     // the same, of a resized axis
} Table;

typedef struct {
  Cg *c;
  Pool p;
  Op op;
  Table table[POOL_AXES];
  V from[POOL_AXES], to[POOL_AXES], channels;  // sizes of the source and of the result
  V src, src_place, out, out_place;  // src_place, out_place: places of maxima; out_place NULL: they are not read
  double divisor;
  V padded;  // pool_columns.c: a row of joined lines with zeros on both sides; NULL: none
  // the result is stored in whole vectors, zeros behind its end: a load of a vector waits for a store of some of its lanes
  bool has_room;
  // of the current row
  V image;  // the source's first element of the image
  V row;    // number of the row in the result, and in its image
  V line;
  // of the current pixel
  V at[POOL_AXES];
  Range box[POOL_AXES];
  V pixel;
} PoolWalk;

static inline V plus(Cg *c, V x, int64_t n) { return cg_add(c, x, cg_i64(c, n)); }
static inline V times(Cg *c, V x, int64_t n) { return cg_mul(c, x, cg_i64(c, n)); }

uint32_t cg_pool_state(const PoolWalk *w);
// Sets the state of one vector of results whose window, where places are read, has its first element at `first`.
void cg_pool_begin(const PoolWalk *w, V first, V *state);
// Adds x, at `place` of the source's plane, to it; src_place: of a gradient of maxima, the places that x goes to, of which
// `own` is the result's. weight NULL: 1.
void cg_pool_join(const PoolWalk *w, V x, V place, V src_place, V own, V weight, V *state);
V cg_pool_divided(const PoolWalk *w, V sum);
// The product of the weights of elements index[0 .. n_axes) along the first axes, a scalar; NULL: 1.
V cg_pool_weight(const PoolWalk *w, uint32_t n_axes, const V *index);
// Has the window all elements along the first n_axes axes?
V cg_pool_is_whole(const PoolWalk *w, uint32_t n_axes);
V cg_pool_constants(Cg *c, LLVMTypeRef type, V *value, int64_t n);

// The lines of the current row's box, each by its weight, joined into one at `to`.
void cg_pool_add_lines(const PoolWalk *w, V to);

// Enters position j of axis k; the row of windows of this number in the result
void cg_pool_enter(PoolWalk *w, uint32_t k, V j);
void cg_pool_enter_row(PoolWalk *w, V row);
// Where the elements of window j begin along axis k, those between its own among them: it grows with j.
V cg_pool_first(const PoolWalk *w, uint32_t k, V j);

// One row of windows, in the general way; columns NULL: pixel by pixel
void cg_pool_row(PoolWalk *w, V row, const PoolColumns *columns);

// ---- pool_maxima.c: all of a pool of one channel; false: it does not pay, or the windows are too large
bool cg_pool_maxima(PoolWalk *w, const PoolColumns *of);

// ---- pool_rows.c: all of a pool of one channel without small steps; false: it is none of maxima or sums, or too long windows have holes
bool cg_pool_rows(PoolWalk *w);

// ---- pool_scatter.c
bool cg_pool_scatters(const PoolWalk *w);  // is it a gradient of maxima that is made by places?
void cg_pool_scatter(const PoolWalk *w);

// ---- pool_columns.c: of one channel, vectors along the last axis
bool cg_pool_columns_open(PoolWalk *w, const PoolColumns *of);  // before the first row; false: it cannot
void cg_pool_columns(PoolWalk *w, const PoolColumns *of);       // the current row

#endif
