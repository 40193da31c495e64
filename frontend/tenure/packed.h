// Tenure, packed sequences: batches of sequences of different lengths without padding.
#ifndef TN_PACKED_H
#define TN_PACKED_H

#include "conv.h"
#include "image.h"
#include "ops.h"
#include "order.h"
#include "scope.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- packed sequences: tn_packed, (data [rows, ..], layout), is one managed value
typedef struct {
  bool time_major;      // x is [T, B, ..]; else [B, T, ..]
  bool enforce_sorted;  // refuse lengths that are not in decreasing order, as PyTorch's default does
  // Lengths may be 0 (else E115). An empty sequence has no rows: padding is all that tn_pad_packed gives it, and its
  // final state in a recurrent layer is its initial state.
  bool allow_empty;
  // The most rows that a batch has, where that is below batch times time: the sum of the lengths that a loader with as many
  // max_rows gives. Memory of all that has these rows, or rows made of them, is for so many. A run with more is refused before
  // anything is written; E115 where lengths are constants. 0: batch times time
  int64_t max_rows;
  int64_t max_length;  // tn_pack_rows: the most steps of a sequence; 0: as many as there are rows
  tn_site at;
} tn_pack_options;
// Lengths i64 [B], each in [1, T], or [0, T] with allow_empty
TN_API tn_packed tn_pack_padded(tn_tensor x, tn_tensor lengths, tn_pack_options o);
// x [N, ..]: the rows of one sequence behind those of the other, as a loader gives them with TN_CONCATENATED. Lengths i64 [B]
// that sum to N, else the run is refused, before anything is written where they are an input. Nothing is padded, and the bound
// of N bounds what has these rows. What is packed by the same lengths has one layout. The time axis is max_length.
//
//   tn_dim N = tn_dim_bounded(p, "letters", 4096), B = tn_dim_bounded(p, "batch", 64);
//   tn_tensor x = tn_input(f, "letter", TN_I64, TN_SHAPE(N)), n = tn_input(f, "letter.lengths", TN_I64, TN_SHAPE(B));
//   tn_packed s = tn_pack_rows(x, n, .max_length = 200);
TN_API tn_packed tn_pack_rows(tn_tensor x, tn_tensor lengths, tn_pack_options o);
TN_API tn_packed tn_pack_constant(tn_tensor x, const int64_t *lengths, uint32_t n, tn_pack_options o);
// [B, T, ..], `value` beyond each length. T: the longest of constant lengths, else the time axis packed.
TN_API tn_tensor tn_pad_packed(tn_packed s, double value, bool batch_first, tn_site at);
// Other data [rows, ..], the same layout. The storage is that of `data`: a write in place to one is seen in both. E111 where
// `data` has rows of another layout.
TN_API tn_packed tn_packed_with_data(tn_packed s, tn_tensor data, tn_site at);
// The data as an ordinary tensor, in the same storage: rows that belong to no sequence. What works along the rows takes it,
// and so do sequences of another layout.
//
//   tn_cumsum(s.data, 0);       E130: it would run from one sequence into the next
//   tn_cumsum(tn_rows(s), 0);   a running total over all rows, in the order in which they are stored
TN_API tn_tensor tn_rows(tn_packed s, tn_site at);
// The same with a time axis of total_length steps: E117 when a sequence may be longer.
TN_API tn_tensor tn_pad_packed_to(tn_packed s, double value, bool batch_first, int64_t total_length, tn_site at);

// x [B, T, ..] (else [T, B, ..]) by the layout of another packed value: labels beside their inputs, for example. What
// tn_pack_padded packs by the same lengths has one layout too, and so have equal constant lengths.
TN_API tn_packed tn_pack_like(tn_tensor x, tn_packed like, bool batch_first, tn_site at);

// A list of sequences [T, ..], which are their first axes long, without padding; E111 when they differ behind it. An
// empty list gives a poisoned value (E003 where it is an output). Sizes that come at run time are lengths too: any
// named dims, or the sequences that tn_unpad_sequence gives; such a list is padded on the way.
TN_API tn_packed tn_pack_sequence(const tn_tensor *list, uint32_t n, tn_pack_options o);
// The list as [B, T, ..] (else [T, B, ..]) in its order, `value` behind each end. T: the size that all have, else the
// longest of constant sizes, else the largest bound
TN_API tn_tensor tn_pad_sequence(const tn_tensor *list, uint32_t n, double value, bool batch_first, tn_site at);
// The same with `value` in front of each first step: PyTorch's padding_side="left"
TN_API tn_tensor tn_pad_sequence_left(const tn_tensor *list, uint32_t n, double value, bool batch_first, tn_site at);
// The way back: writes the n sequences of x, [length, ..] each, and poisoned ones after a mistake (false)
TN_API bool tn_unpad(tn_tensor x, const int64_t *lengths, uint32_t n, bool batch_first, tn_tensor *out, tn_site at);
// The same with lengths that come at run time, i64 [B], each in [0, T], for a constant B: writes up to `max` sequences
// [length, ..], gives B; 0 after a mistake (E003 a batch that is no constant, E116). Sequence k of the same lengths has
// the same size in every call. As an output it takes T rows of the caller's memory and fills those that it has.
TN_API uint32_t tn_unpad_sequence(tn_tensor x, tn_tensor lengths, bool batch_first, tn_tensor *out, uint32_t max,
                                  tn_site at);
// The sequences in user order: writes up to `max`, gives their number, which is a constant (else 0 and E003). Those
// whose lengths come at run time are padded on the way, and are like those of tn_unpad_sequence.
TN_API uint32_t tn_unpack_sequence(tn_packed s, tn_tensor *out, uint32_t max, tn_site at);
TN_API uint32_t tn_packed_n_members(tn_packed s);  // 4: data, batch sizes, both index lists; 2 when sorted; 0: poisoned
// Any unary or binary operation of this header by name, on the data; the two layouts must be the same (E111)
TN_API tn_packed tn_packed_map(const char *op, tn_packed a, tn_site at);
TN_API tn_packed tn_packed_zip(const char *op, tn_packed a, tn_packed b, tn_site at);
// Totals over the steps of each sequence, [B, ..] in user order, of data [rows, ..]; f32, but last and first of any
// dtype. Nothing is padded. Of an empty sequence, as PyTorch's segment_reduce: sum 0, mean NaN, max -inf, min inf; last
// and first are 0, argmax is -1. Of equal ones the first is the maximum, and has the gradient; NaN wins.
//
//   tn_packed h = tn_rnn_call(lstm, s).out;
//   tn_tensor sentence = tn_packed_max(h);                              // [B, hidden]
//   tn_packed both = tn_packed_concat(h, tn_packed_broadcast(h, sentence));  // [rows, 2 hidden]
TN_API tn_tensor tn_packed_sum(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_mean(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_max(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_min(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_argmax(tn_packed s, tn_site at);  // i64: the step
TN_API tn_tensor tn_packed_last(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_first(tn_packed s, tn_site at);
// The same of padded sequences: x [B, T, ..], lengths i64 [B] from 1 to T (else the run is refused) -> [B, ..], x[b, lengths[b] - 1]
TN_API tn_tensor tn_take_last(tn_tensor x, tn_tensor lengths, tn_site at);
// Over the steps of each sequence, every feature apart
TN_API tn_packed tn_packed_softmax(tn_packed s, tn_site at);
// Sum over steps of softmax(scores) times values: [B, ..] like values. scores [rows], or [rows, n, ..] with sizes that
// broadcast to those of values: [rows, heads] for values [rows, heads, size]. One layout, else E111.
TN_API tn_tensor tn_packed_attend(tn_packed scores, tn_packed values, tn_site at);
TN_API tn_packed tn_packed_broadcast(tn_packed s, tn_tensor x,
                                     tn_site at);             // x [B, ..] on every row of its sequence
TN_API tn_packed tn_packed_reverse(tn_packed s, tn_site at);  // each sequence from its last step to its first
// ---- along each sequence alone, every feature apart: what tn_cumsum and its kin are along an axis. The layout is that of s
TN_API tn_packed tn_packed_cumsum(tn_packed s, tn_site at);   // f32 or i64
TN_API tn_packed tn_packed_cumprod(tn_packed s, tn_site at);  // f32 or i64
TN_API tn_packed tn_packed_logcumsumexp(tn_packed s, tn_site at);
typedef struct {
  tn_packed values, indices;  // indices, i64: steps of the sequence
} tn_packed_ordered;
TN_API tn_packed_ordered tn_packed_cummax(tn_packed s, tn_site at);
TN_API tn_packed_ordered tn_packed_cummin(tn_packed s, tn_site at);
TN_API tn_packed_ordered tn_packed_sort(tn_packed s, bool descending, tn_site at);  // as tn_sort
TN_API tn_packed tn_packed_log_softmax(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_logsumexp(tn_packed s, tn_site at);  // [B, ..]; -inf of an empty sequence
// tn_linear_scan of each sequence alone, f32: a broadcasts to the rows of b, or has them (one layout, else E111); the initial state
// and the last one are [B, ..] in user order. With `reverse` each sequence runs from its own last step.
typedef struct {
  tn_packed out;
  tn_tensor last;  // of an empty sequence its initial state, or 0
} tn_packed_scanned;
TN_API tn_packed_scanned tn_packed_linear_scan(tn_tensor a, tn_packed b, tn_linear_scan_options o);
// ---- steps elsewhere. Rows of any dtype; of the same layout by the same numbers comes the same layout, so that what is fed and
// what is expected, say, may meet:
//
//   x = tn_packed_slice(s, 0, -1);  y = tn_packed_slice(s, 1, TN_TO_END);   each step and the one behind it
//   x = tn_packed_shift(s, 1, bos);                                         each step sees the one before it
TN_API tn_packed tn_packed_steps(tn_packed s, tn_site at);      // i64 [rows]: 0, 1, .. of each sequence
TN_API tn_packed tn_packed_sequences(tn_packed s, tn_site at);  // i64 [rows]: which one, in user order
// Step t goes to t + by, which may be negative; `fill` where no step comes
TN_API tn_packed tn_packed_shift(tn_packed s, int64_t by, double fill, tn_site at);
TN_API tn_packed tn_packed_roll(tn_packed s, int64_t by,
                                tn_site at);  // the same; what leaves at one end comes in at the other
// That step of each sequence, [B, ..], from its end where it is below 0; `fill` where there is none. Steps of the run: i64 [B]
TN_API tn_tensor tn_packed_step(tn_packed s, int64_t step, double fill, tn_site at);
TN_API tn_tensor tn_packed_step_at(tn_packed s, tn_tensor steps, double fill, tn_site at);
// The steps [from, to) of each sequence as Python's x[from:to] has them: below 0 they count from its end, and a sequence may
// have none. E003 from the end to the start
#define TN_TO_END INT64_MAX
TN_API tn_packed tn_packed_slice(tn_packed s, int64_t from, int64_t to, tn_site at);
// Steps before a position of each sequence and those from it on; i64 [B], counted as 0 below 0, as the length above it
TN_API bool tn_packed_split(tn_packed s, tn_tensor steps, tn_packed out[2], tn_site at);
TN_API tn_packed tn_packed_diff(tn_packed s, tn_site at);  // each step but the first, less the one before it
// Windows of `size` steps, moved by `step`, as torch.Tensor.unfold has them: [rows, .., size]. An empty sequence has none, a
// shorter one is refused (E115)
TN_API tn_packed tn_packed_unfold(tn_packed s, int64_t size, int64_t step, tn_site at);
TN_API tn_packed tn_packed_concat_time(tn_packed a, tn_packed b,
                                       tn_site at);  // sequence k of b behind that of a; E116, E004
// tn_max_pool1d and tn_avg_pool1d of each sequence alone, data f32 [rows, C]: whole windows (no .ceil), in a layout of their own as
// convolutions have. Modules of tn_max_pool_module and its kin with one spatial axis do the same in tn_packed_call
TN_API tn_packed tn_packed_max_pool1d(tn_packed s, int64_t kernel, tn_pool_options o);
TN_API tn_packed tn_packed_avg_pool1d(tn_packed s, int64_t kernel, tn_pool_options o);
// n steps of each sequence, all of a shorter one, drawn without replacement; in their order
TN_API tn_packed tn_packed_sample(tn_packed s, int64_t n, tn_site at);
// The tables of the layout, i64: [B] by user; [T], 0 behind the longest; [B] user at each position; [B] position of
// each user. A sorted one is its own order.
TN_API tn_tensor tn_packed_lengths(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_batch_sizes(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_sorted_indices(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_unsorted_indices(tn_packed s, tn_site at);
// The calls for tensors, on the rows that exist. Whatever keeps rows apart works on s.data as well, and
// tn_packed_with_data makes the result packed. Two packed values must have one layout (E111), as must s.data and t.data
// where they meet in tn_add and the like. Totals over all rows are ordinary tensors, and so is what an index picks; what else
// works along the rows, in a module too, is E130, because neighbours may belong to different sequences: softmax, cumsum,
// sort, slice and concat along that axis, a product of rows with rows. Attention, transformers' layers and positions (tables and
// tn_rope) work within each sequence: tn_packed_call, tn_attention_call and tn_decoder_call of s.data, tn_packed_attention.
TN_API tn_packed tn_packed_call(tn_module *m, tn_packed s, tn_site at);  // of one input: linear, conv1d, attention, ..
// tn_conv1d of each sequence alone: data [rows, C], weight [O, C / groups, kernel], bias [O] or TN_NONE -> rows of O. What
// lies outside of a sequence is zeros, and no window sees two of them. A sequence of n steps becomes one of
// (n + 2 padding - dilation (kernel - 1) - 1) / stride + 1 steps: where that is n, as with .same, the layout is that of s,
// else another, the same for all such convolutions of s. An empty sequence stays empty. One whose padded steps are fewer
// than a window's is refused, by tn_run before anything is written (E115 where lengths are constants). E003 options, E004 shapes.
// tn_packed_call takes modules of tn_conv1d_module, and those that have them inside, with padding of zeros.
//
//   s = tn_packed_conv1d(s, w, b, .same = true);                    // 12 channels -> 32, lengths stay
//   s = tn_packed_conv1d(s, w2, TN_NONE, .stride = 2, .padding = 1);
TN_API tn_packed tn_packed_conv1d(tn_packed s, tn_tensor weight, tn_tensor bias, tn_conv_options o);
TN_API tn_packed tn_packed_dropout(tn_packed s, double p, tn_site at);
TN_API tn_packed tn_packed_concat(tn_packed a, tn_packed b, tn_site at);  // along the last axis
// Mean over rows; TN_REDUCE_NONE: [rows]; TN_REDUCE_SEQUENCES: the mean of each sequence, [B]
TN_API tn_tensor tn_packed_cross_entropy(tn_packed logits, tn_packed labels, tn_loss_options o);
// tn_ctc of rows [rows, classes]: the steps of each sequence are its rows
TN_API tn_tensor tn_packed_ctc(tn_packed log_p, tn_tensor targets, tn_tensor n_targets, tn_ctc_options o);
TN_API tn_tensor tn_packed_mse(tn_packed a, tn_packed b, tn_site at);
// As the calls for tensors: the members follow. A member alone is neither moved nor disposed (E102).
TN_API tn_packed tn_packed_move_to_outer(tn_packed s, tn_site at);
TN_API tn_packed tn_packed_move_to(tn_packed s, tn_scope *to, tn_site at);
TN_API tn_packed tn_packed_move_to_scope_of(tn_packed s, tn_tensor other, tn_site at);
TN_API tn_packed tn_packed_detach_from_scope(tn_packed s, tn_site at);
TN_API void tn_packed_dispose(tn_packed s, tn_site at);
#define TN_SCOPED_PACKED(f, expr) ((tn_scoped_begin)(f, TN_SITE), (tn_scoped_end_packed)(f, expr, TN_SITE))
TN_API tn_packed tn_scope_attach_packed(tn_scope *to, tn_packed s, tn_site at);
TN_API tn_packed tn_scoped_end_packed(tn_function *f, tn_packed s, tn_site at);
TN_API tn_packed tn_scope_detach_packed(tn_scope *from, tn_packed s, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
