// Operands of the public calls that random programs draw: tests/random_calls.def says which calls.
#ifndef TN_TESTS_RANDOM_CALLS_H
#define TN_TESTS_RANDOM_CALLS_H

#include "frontend/graph/function.h"
#include "frontend/tenure.h"
#include "tests/random_gen.h"

// A call as it is drawn. Its numbers are drawn before its expression: a compiler may compute the parts of that in any order, so it
// calls at most one function that draws.
typedef struct {
  Gen *g;
  tn_function *f;
  tn_tensor x;    // what the row's source gives
  tn_packed s;    // the same of source `packed`
  double m;       // |x| is around or below it
  int i, j;       // 0 to 7
  int axis;       // of x, from either end
  bool p, q;      // even chances
  double number;  // -2 to 2
} Draw;

// ---- random_operands.c: sources, each a value of the pool that fits or a new one; empty: none
typedef tn_tensor Source(Draw *d);
#define SOURCE(name) tn_tensor draw_##name(Draw *d);
SOURCE(nothing)
SOURCE(any)     // f32
SOURCE(row)     // one axis at least
SOURCE(matrix)  // two at least
SOURCE(last)    // whose last axis has a constant size above 0
SOURCE(even)    // .. an even one
SOURCE(fixed)   // of constant sizes above 0
SOURCE(vector)  // [n], constant
SOURCE(plane)   // [n, m], constant
SOURCE(vector_or_plane)
SOURCE(square)       // [.., n, n], far from singular
SOURCE(apart)        // [.., n, n], symmetric or not, whose eigenvalues and singular values are far from each other
SOURCE(definite)     // [.., n, n], symmetric, eigenvalues above 0
SOURCE(complex_row)  // [.., n, 2]
SOURCE(whole)        // i64, a new input
SOURCE(image1)       // [N, C, W]
SOURCE(image2)
SOURCE(image3)
SOURCE(image1_or_2)
SOURCE(image2_or_3)
SOURCE(packed)  // rows, and d->s
#undef SOURCE

// ---- more operands
tn_tensor draw_leaf(Draw *d, const int64_t *sizes, uint32_t n);
tn_tensor draw_like(Draw *d, tn_tensor x);
tn_tensor draw_like_but(Draw *d, tn_tensor x, int axis, int64_t size);
tn_tensor draw_less(Draw *d, tn_tensor x, uint32_t n);                           // like x without its last n axes
tn_tensor draw_ends(Draw *d, tn_tensor x, uint32_t n);                           // like the last n axes of x
tn_tensor draw_partner(Draw *d);                                                 // broadcasts with x
tn_tensor draw_index(Draw *d, const int64_t *sizes, uint32_t n, int64_t limit);  // i64 in [0, limit)
tn_tensor draw_index_of(Draw *d, tn_tensor x, uint32_t less, int64_t limit);     // .. like x without its last axes

// ---- of any value
tn_tensor call_above(tn_tensor x, double least);  // |x| + least
tn_tensor call_as_f32(tn_tensor x);
tn_tensor call_mask(tn_tensor x);              // x > 0.1
tn_tensor call_mirrored(tn_tensor x);          // the last two axes change places
int64_t call_size(tn_tensor x, int axis);      // the bound; 0: there is no such axis
int64_t call_constant(tn_tensor x, int axis);  // the size; 0: the run gives it
double call_numel(tn_tensor x);

// ---- random_composed.c: calls of many arguments that fit each other
tn_tensor draw_moved(Draw *d, tn_tensor x, uint32_t n);  // n views and moves one behind the other
tn_tensor draw_reshaped(Draw *d, tn_tensor x);
tn_tensor draw_parts(Draw *d, int kind);  // split, split_sizes, chunk, unbind: two parts of equal size are added
tn_tensor draw_padded(Draw *d);
tn_tensor draw_convolved(Draw *d, bool transposed);
tn_tensor draw_unpooled(Draw *d);
tn_tensor draw_resized(Draw *d);
tn_tensor draw_sampled(Draw *d);
tn_tensor draw_windows(Draw *d, bool back);
tn_tensor draw_einsum(Draw *d);
tn_tensor draw_contracted(Draw *d);
tn_tensor draw_scattered(Draw *d, int kind);
tn_tensor draw_indexed(Draw *d, bool put);
tn_tensor draw_ctc(Draw *d);
tn_tensor draw_bag(Draw *d);
tn_tensor draw_classified(Draw *d, int kind);  // cross_entropy, nll, multi_margin, multilabel_margin
tn_tensor draw_list(Draw *d, int kind);        // sequences of known lengths: packed, padded, and taken apart
tn_tensor draw_rows_scaled(Draw *d);           // by a number for each, read through reshapes

// ---- random_calls.c
typedef struct {
  const char *name;  // without tn_
  uint32_t n;        // values that it gave
  uint32_t refused;
} CallCount;
const CallCount *gen_calls(uint32_t *n);  // of all programs so far

#endif
