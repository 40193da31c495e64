// Tenure, shapes: taking apart, putting together, moving and repeating elements; values made of a shape alone.
// Names, arguments and order are PyTorch's. Axes may be negative. A number, of rank 0, has axis 0, or -1, as a row of one has it,
// in calls that give a number of it: reductions, softmax, order, scans and look-ups along an axis, flips and moved axes.
// Sizes that only the run knows (tn_dim_bounded) work like constant ones unless a line says otherwise.
#ifndef TN_SHAPE_H
#define TN_SHAPE_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- views: nothing is copied by themselves, and a write through one is a write to what it shows (as of tn_slice)
// x[start:stop:step] along an axis, by Python's rules: negative starts and stops count from the end, what is out of range
// is cut, a negative step runs backward. TN_END as start or stop is none given: tn_slice_step(x, 0, TN_END, TN_END, -1)
// turns an axis around. A step of 0 is E003. Of an axis that the run sizes nothing is cut: x[1:], x[:-1] and x[2:6] are n - 1,
// n - 1 and 4 elements, and a run whose axis is too short for them is refused before anything is written.
#define TN_END INT64_MAX
TN_API tn_tensor tn_slice_step(tn_tensor x, int axis, int64_t start, int64_t stop, int64_t step, tn_site at);
TN_API tn_tensor tn_narrow(tn_tensor x, int axis, int64_t start, int64_t size,
                           tn_site at);  // tn_slice, start from the end if < 0
TN_API tn_tensor tn_select_index(tn_tensor x, int axis, int64_t index, tn_site at);  // without the axis
TN_API tn_tensor tn_flip(tn_tensor x, const int *axes, uint32_t n, tn_site at);      // tn_flip(x, TN_INTS(0, 1))
TN_API tn_tensor tn_flatten(tn_tensor x, int first, int last, tn_site at);           // axes first to last become one
TN_API tn_tensor tn_unflatten(tn_tensor x, int axis, tn_shape s, tn_site at);        // one becomes s; a size may be -1
TN_API tn_tensor tn_squeeze(tn_tensor x, int axis,
                            tn_site at);  // without an axis of size 1; of another size x as it is
TN_API tn_tensor tn_unsqueeze(tn_tensor x, int axis, tn_site at);  // a new axis of size 1, which is number `axis` then
TN_API tn_tensor tn_movedim(tn_tensor x, int from, int to, tn_site at);
// Axis from[k] becomes number to[k], the others stay in order: tn_movedims(x, (int[]){0, 1}, TN_INTS(2, 0))
TN_API tn_tensor tn_movedims(tn_tensor x, const int *from, const int *to, uint32_t n, tn_site at);
TN_API tn_tensor tn_swapaxes(tn_tensor x, int a, int b, tn_site at);
TN_API tn_tensor tn_broadcast_to(tn_tensor x, tn_shape s, tn_site at);
// The elements (k, k + offset) of two axes, which become the last one. Which of both ends the diagonal is known from their
// sizes or bounds, as of a square with one tn_dim (else E004). Beside a small matrix it is empty: of a run-time size n it has
// max(n - |offset|, 0) elements.
TN_API tn_tensor tn_diagonal(tn_tensor x, int offset, int axis_a, int axis_b, tn_site at);
TN_API tn_tensor tn_trace(tn_tensor x, tn_site at);  // [n, m] -> []: the sum of the main diagonal, as tn_sum has it

// ---- parts: views written to out[0], out[1], ..; more than `max` of them are E003. They give the number of parts. All `max`
// handles are written: those behind the parts, and all of a call that is refused, are poisoned.
// Of an axis that the run sizes, tn_chunk makes as many parts as are asked for, each of n / chunks rounded up and the last of
// what is left; a run in which that is below 0 is refused. tn_split and tn_unbind take axes of constant size (else E003).
TN_API uint32_t tn_split(tn_tensor x, int64_t size, int axis, tn_tensor *out, uint32_t max,
                         tn_site at);  // the last may be shorter
// One of the sizes may be -1: what is left
TN_API uint32_t tn_split_sizes(tn_tensor x, const int64_t *sizes, uint32_t n, int axis, tn_tensor *out, tn_site at);
TN_API uint32_t tn_chunk(tn_tensor x, uint32_t chunks, int axis, tn_tensor *out, uint32_t max, tn_site at);
TN_API uint32_t tn_unbind(tn_tensor x, int axis, tn_tensor *out, uint32_t max, tn_site at);  // without the axis

// ---- values of their own
TN_API tn_tensor tn_stack(int axis, const tn_tensor *x, uint32_t n, tn_site at);  // along a new axis
// Elements move by shifts[k] along axes[k], and enter again at the other end; n axes. With none, n_axes 0, one shift moves
// the elements in row-major order.
TN_API tn_tensor tn_roll(tn_tensor x, const int64_t *shifts, const int *axes, uint32_t n, tn_site at);
// How many elements are added before and behind the last axis, then the one before it, ..: PyTorch's order. A negative
// number takes elements away. `value` is for TN_PAD_CONSTANT. REFLECT leaves the edge out, and adds fewer elements than there
// are; CIRCULAR adds at most as many; REPLICATE repeats the edge. Along an axis that the run sizes the run checks that.
//   tn_pad(x, (int64_t[]){1, 2}, 2, TN_PAD_REFLECT, 0)
typedef enum { TN_PAD_CONSTANT, TN_PAD_REFLECT, TN_PAD_REPLICATE, TN_PAD_CIRCULAR } tn_pad_mode;
TN_API tn_tensor tn_pad(tn_tensor x, const int64_t *pads, uint32_t n, tn_pad_mode mode, double value, tn_site at);
// counts[k] copies along axis k; tn_repeat: of at least as many counts as axes, those in front are new axes; tn_tile: fewer
// counts are those of the last axes
TN_API tn_tensor tn_repeat(tn_tensor x, const int64_t *counts, uint32_t n, tn_site at);
TN_API tn_tensor tn_tile(tn_tensor x, const int64_t *counts, uint32_t n, tn_site at);
// Each element `count` times; tn_repeat_interleave_by: each its own number of times
TN_API tn_tensor tn_repeat_interleave(tn_tensor x, int64_t count, int axis, tn_site at);
// Windows of `size` elements, `step` apart; the window is a new last axis. A copy. A run that sizes the axis below `size` has
// no window, or is refused where it is shorter by more than a step.
TN_API tn_tensor tn_unfold(tn_tensor x, int axis, int64_t size, int64_t step, tn_site at);
// x [.., n, m] (f32) with zeros above, below, the k-th diagonal; k > 0 lies above the main one
TN_API tn_tensor tn_tril(tn_tensor x, int k, tn_site at);
TN_API tn_tensor tn_triu(tn_tensor x, int k, tn_site at);
TN_API tn_tensor tn_diag(tn_tensor x, int k, tn_site at);  // [n]: the matrix with that diagonal; [n, m]: its diagonal
TN_API tn_tensor tn_diag_embed(tn_tensor x, int k,
                               tn_site at);  // x [.., n] (f32) on the k-th diagonal of [.., n+|k|, n+|k|]
// The same with rows and columns of the matrices as these axes of the result
TN_API tn_tensor tn_diag_embed_axes(tn_tensor x, int k, int rows, int columns, tn_site at);
// i64 [..] -> i64 [.., classes]: 1 at the index. An index that is not in 0..classes - 1 is an error of the run: of an
// input before anything is computed, else before any parameter changes.
TN_API tn_tensor tn_one_hot(tn_tensor x, int64_t classes, tn_site at);

// ---- values made of a shape
TN_API tn_tensor tn_arange(tn_function *f, double start, double step, tn_dim n, tn_dtype t,
                           tn_site at);  // n elements of any dtype; whole numbers: start and step at most 2^24 in size
TN_API tn_tensor tn_linspace(tn_function *f, double start, double end, int64_t n,
                             tn_site at);  // f32, both ends included
TN_API tn_tensor tn_logspace(tn_function *f, double start, double end, int64_t n, double base,
                             tn_site at);                                 // base^linspace
TN_API tn_tensor tn_eye(tn_function *f, tn_dim n, tn_dim m, tn_site at);  // f32
TN_API tn_tensor tn_full_like(tn_tensor x, double v, tn_site at);         // of x's shape and dtype
TN_API tn_tensor tn_zeros_like(tn_tensor x, tn_site at);
TN_API tn_tensor tn_ones_like(tn_tensor x, tn_site at);
TN_API tn_tensor tn_rand_like(tn_tensor x, tn_site at);
// n vectors -> n values of shape [size of the first, size of the second, ..], written to out; xy: the first two sizes
// change places, as in NumPy
TN_API void tn_meshgrid(const tn_tensor *x, uint32_t n, bool xy, tn_tensor *out, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
