// Tenure, elements by index and by mask.
//
// Indices are i64. One out of range, negative ones included, is an error: before the run where the indices are an input, else of
// the run, which changes no parameter then. Axes may be negative; one out of range is E003, another shape E004.
#ifndef TN_INDEXING_H
#define TN_INDEXING_H

#include "core.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- an index for each element: it has a's rank, and at most its sizes but along the axis
// y[.., k, ..] = a[.., index[.., k, ..], ..], in the shape of the index
TN_API tn_tensor tn_gather(tn_tensor a, int axis, tn_tensor index, tn_site at);
// The same with a and the index broadcast against each other but along the axis
TN_API tn_tensor tn_take_along_dim(tn_tensor a, tn_tensor index, int axis, tn_site at);
// a with elements replaced by those of src, of the index's shape and a's dtype; the last of equal indices wins
TN_API tn_tensor tn_scatter(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_site at);
TN_API tn_tensor tn_scatter_value(tn_tensor a, int axis, tn_tensor index, double value, tn_site at);
// a with src added by index, in order: the same bits for any number of workers
TN_API tn_tensor tn_scatter_add(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_site at);
typedef enum { TN_SCATTER_SUM, TN_SCATTER_MEAN, TN_SCATTER_AMAX, TN_SCATTER_AMIN, TN_SCATTER_PROD } tn_scatter_kind;
typedef struct {
  bool exclude_self;  // an element of a counts only where nothing comes to its place: PyTorch's include_self=False
  tn_site at;
} tn_scatter_options;
// a and what src has by index, reduced; a counts as one of the elements. A mean of whole numbers is rounded down
TN_API tn_tensor tn_scatter_reduce(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_scatter_kind how,
                                   tn_scatter_options o);

// ---- an index [n] for whole slices along the axis
TN_API tn_tensor tn_index_select(tn_tensor a, int axis, tn_tensor index, tn_site at);
// src has a's shape but n along the axis; alpha multiplies it
TN_API tn_tensor tn_index_add(tn_tensor a, int axis, tn_tensor index, tn_tensor src, double alpha, tn_site at);
// src likewise, or [] for all places: what index_fill of a tensor is
TN_API tn_tensor tn_index_copy(tn_tensor a, int axis, tn_tensor index, tn_tensor src, tn_site at);
TN_API tn_tensor tn_index_fill(tn_tensor a, int axis, tn_tensor index, double value, tn_site at);

// ---- masks: bool, or any number, where what is not 0 is set
// a where set, else b, in their common dtype; broadcast
TN_API tn_tensor tn_where(tn_tensor condition, tn_tensor a, tn_tensor b, tn_site at);
// value as a cast to a's dtype makes it; broadcast
TN_API tn_tensor tn_masked_fill(tn_tensor a, tn_tensor mask, double value, tn_site at);
// The same with values of a tensor, which broadcasts too. One of a kind that a's dtype does not hold (a float for a whole number)
// is E005
TN_API tn_tensor tn_masked_fill_by(tn_tensor a, tn_tensor mask, tn_tensor value, tn_site at);
// The elements of a where the mask, which broadcasts to a's shape, is set, in row-major order. How many there are is known
// in the run alone: values has `most` places [most], of which the first `count` (i64 []) are taken and the others are 0. More
// of them are an error of the run. most >= 1 (else E003)
typedef struct {
  tn_tensor values, count;
} tn_selected;
TN_API tn_selected tn_masked_select(tn_tensor a, tn_tensor mask, int64_t most, tn_site at);
// Slice k of a along the axis as often as counts[k] says, counts being whole numbers [size of the axis], or one for all: likewise
// `most` places along it, of which the first `count`, the sum of the counts, are taken. One that is below 0 is an error of
// the run, too. Of one count that the program knows: tn_repeat_interleave
TN_API tn_selected tn_repeat_interleave_by(tn_tensor a, int axis, tn_tensor counts, int64_t most, tn_site at);

// Where a is not 0 (NaN is not): i64 [most, rank of a], the places of each element along the axes, in row-major order; likewise,
// but places behind the last one are -1
TN_API tn_selected tn_nonzero(tn_tensor a, int64_t most, tn_site at);

// ---- several indices at once, as PyTorch's a[i, :, j]: index k stands for axis k, TN_NONE leaves the axis whole. Indices are
// whole numbers that broadcast against each other. A mask, of bool, stands for as many axes as it has, whose sizes it has (else
// E004): it is the index of the elements that are set, of which there are at most `most`, in so many places. The axes of the
// indices take the place of those that are indexed, where they are neighbours, else they are the first of the result.
//
//   y = tn_index(x, TN_TENSORS(i, TN_NONE, j));                                            x[i, :, j]
//   y = tn_index_put(x, TN_TENSORS(i, j), v, .accumulate = true);                          x.index_put((i, j), v, True)
//   y = tn_index(x, TN_TENSORS(mask), .most = 32);                                         x[mask], zeros behind
typedef struct {
  int64_t most;  // elements that are set in a mask: more are an error of the run. >= 1 where there is one (else E003)
  bool padded;   // an index of -1, as behind what tn_nonzero gives, names nothing: 0 is read there, and nothing is put
  bool accumulate;  // of tn_index_put: values are added
  tn_site at;
} tn_index_options;
TN_API tn_tensor tn_index(tn_tensor a, const tn_tensor *index, uint32_t n, tn_index_options o);
// a with the elements that tn_index would read replaced by values, which broadcast to its shape, or added to, in order. The last
// of equal indices wins. Values of a kind that a's dtype does not hold are E005
TN_API tn_tensor tn_index_put(tn_tensor a, const tn_tensor *index, uint32_t n, tn_tensor values, tn_index_options o);

// ---- bags: sums, means or maxima of rows of a table [V, E] -> [B, E]. Of index [B, L] each row is a bag; with offsets [B]
// index is [n], and bag k goes from offsets[k] to the next one, the last to n. An empty bag gives 0.
//
//   y = tn_embedding_bag(table, words, .mode = TN_BAG_MEAN, .has_padding = true, .padding_idx = 0);
typedef enum { TN_BAG_SUM, TN_BAG_MEAN, TN_BAG_MAX } tn_bag_mode;
typedef struct {
  tn_bag_mode mode;
  tn_tensor offsets;             // i64 [B], increasing from 0; empty: index is [B, L]
  bool include_last_offset;      // offsets are [B + 1], and the last bag ends at the last one
  tn_tensor per_sample_weights;  // f32 of the index's shape, for sums alone (else E003); empty: 1 each
  bool has_padding;              // rows padding_idx count nothing and get no gradient
  int64_t padding_idx;           // negative: from the end of a table of constant size
  tn_site at;
} tn_bag_options;
TN_API tn_tensor tn_embedding_bag(tn_tensor table, tn_tensor index, tn_bag_options o);

#ifdef __cplusplus
}
#endif

#endif
