// Tenure: neural networks, training steps included, compiled to native CPU code from C.
//
//   tn_program *p = tn_program_create("mlp");
//   tn_dim B = tn_dim_bounded(p, "batch", 32);
//   tn_module *fc = tn_linear(tn_root(p), "fc", 8, 3, NULL);
//   tn_function *f = tn_function_begin(p, "predict");
//   tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, tn_dim_const(8)));
//   tn_output(f, "y", tn_call(fc, x));
//   tn_function_end(f);
//   tn_model *m = tn_compile(p, NULL);
//   if (!m) { tn_report(p, stderr); return 1; }
//   tn_run(m, "predict", TN_IN(tn_f32(xs, 5, 8)), TN_OUT(tn_f32(ys, 5, 3)));
//   tn_model_free(m);
//   tn_program_free(p);
//
// Building checks everything and runs nothing. A mistake is collected with the caller's file and line, the call returns
// a poisoned handle, and calls on poisoned handles add no further error: one mistake, one report (tn_report). Handles
// are small values; they carry their function, so that operations take no context. Functions that return tn_status
// never print and never abort; tn_error_text says what was wrong in a sentence. All handles end with their program.
#ifndef TENURE_H
#define TENURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

typedef struct tn_program tn_program;
typedef struct tn_function tn_function;
typedef struct tn_scope tn_scope;
typedef struct tn_module tn_module;
typedef struct tn_model tn_model;
typedef struct tn_hook tn_hook;
typedef struct tn_scan tn_scan;

typedef enum { TN_F32 = 1, TN_I64 = 2 } tn_dtype;

typedef enum {
  TN_OK,
  TN_ERR_BUILD,     // the program has errors: tn_report
  TN_ERR_ARGUMENT,  // a call's argument: unknown function, missing input, wrong dtype, shape or size
  TN_ERR_VALUE,     // a value in an input: length, label or index out of range
  TN_ERR_FILE,      // a file that cannot be read or written, or does not hold what it should
  TN_ERR_MEMORY,    // out of memory
  TN_ERR_CODEGEN    // code could not be generated or loaded
} tn_status;

typedef struct {
  tn_function *fn;
  uint32_t v;
} tn_tensor;  // v == 0: poisoned
typedef struct {
  uint64_t d;
} tn_dim;
typedef struct {
  const tn_dim *dims;
  uint32_t rank;
} tn_shape;  // rank 0: a scalar
typedef struct {
  const char *file;
  int line;
} tn_site;
#define TN_SITE ((tn_site){__FILE__, __LINE__})
#define TN_SHAPE(...) \
  ((tn_shape){(const tn_dim[]){__VA_ARGS__}, sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim)})
#define TN_SCALAR ((tn_shape){NULL, 0})

// ---- programs
TN_API tn_program *tn_program_create(const char *name);  // NULL when out of memory
TN_API void tn_program_free(tn_program *p);              // NULL: nothing; models made from it stay valid
// Prints all diagnostics; TN_OK when there is no error, else TN_ERR_BUILD
TN_API tn_status tn_report(const tn_program *p, FILE *out);
TN_API tn_status tn_report_json(const tn_program *p, FILE *out);  // the same as a JSON array
TN_API uint32_t tn_n_errors(const tn_program *p);

// A dim is a constant or a name with an upper bound; the bound sizes the arena, a run passes the actual size.
TN_API tn_dim tn_dim_bounded_at(tn_program *p, const char *name, int64_t bound, tn_site at);
#define tn_dim_bounded(p, name, bound) tn_dim_bounded_at(p, name, bound, TN_SITE)
TN_API tn_dim tn_dim_const(int64_t n);  // a constant, in [0, 2^30)

// ---- functions: the entry points of the compiled program
TN_API tn_function *tn_function_begin_at(tn_program *p, const char *name, tn_site at);
TN_API void tn_function_end_at(tn_function *f, tn_site at);
TN_API tn_tensor tn_input_at(tn_function *f, const char *name, tn_dtype t, tn_shape s, tn_site at);
TN_API void tn_output_at(tn_function *f, const char *name, tn_tensor t, tn_site at);
TN_API tn_tensor tn_scalar_at(tn_function *f, double v, tn_site at);
#define tn_function_begin(p, name) tn_function_begin_at(p, name, TN_SITE)
#define tn_function_end(f) tn_function_end_at(f, TN_SITE)
#define tn_input(f, name, t, s) tn_input_at(f, name, t, s, TN_SITE)
#define tn_output(f, name, t) tn_output_at(f, name, t, TN_SITE)
#define tn_scalar(f, v) tn_scalar_at(f, v, TN_SITE)
// The size of axis `axis` and the rank of a tensor, as built (symbolic dims stay symbolic).
TN_API uint32_t tn_rank(tn_tensor t);
TN_API tn_dim tn_dim_of(tn_tensor t, int axis);  // negative: from the end

// ---- making values: constants [n], or drawn anew in each run
TN_API tn_tensor tn_full_at(tn_function *f, double v, tn_shape s, tn_site at);
TN_API tn_tensor tn_rand_at(tn_function *f, tn_shape s, tn_site at);   // uniform in [0, 1)
TN_API tn_tensor tn_randn_at(tn_function *f, tn_shape s, tn_site at);  // normal, mean 0, standard deviation 1
// The numbers become part of the program: at most 4096, in row-major order, copied. Larger ones are inputs or
// parameters.
TN_API tn_tensor tn_constant_at(tn_function *f, const float *v, tn_shape s, tn_site at);
TN_API tn_tensor tn_constant_i64_at(tn_function *f, const int64_t *v, tn_shape s,
                                    tn_site at);  // each at most 2^24 in size
#define tn_full(f, v, s) tn_full_at(f, v, s, TN_SITE)
#define tn_zeros(f, s) tn_full_at(f, 0, s, TN_SITE)
#define tn_ones(f, s) tn_full_at(f, 1, s, TN_SITE)
#define tn_rand(f, s) tn_rand_at(f, s, TN_SITE)
#define tn_randn(f, s) tn_randn_at(f, s, TN_SITE)
#define tn_constant(f, v, s) tn_constant_at(f, v, s, TN_SITE)
#define tn_constant_i64(f, v, s) tn_constant_i64_at(f, v, s, TN_SITE)

// ---- scopes: the newest open scope owns what is created
//
//   tn_scope *s = tn_scope_begin(f, "forward");
//   tn_tensor h = tn_relu(x), y = tn_move_to_outer(tn_exp(h));
//   tn_scope_end(s);                                   // h ends here; its use is an error from now on, y's is not
//
// A value without a scope (made outside all of them, detached, or moved out of the outermost one) lives to the end of
// the function. Inputs belong to the caller: scopes never end them.
TN_API tn_scope *tn_scope_begin_at(tn_function *f, const char *name, tn_site at);
TN_API void tn_scope_end_at(tn_scope *s, tn_site at);
// To the parent of its owner; in the outermost scope: detached
TN_API tn_tensor tn_move_to_outer_at(tn_tensor t, tn_site at);
TN_API tn_tensor tn_move_to_at(tn_tensor t, tn_scope *s, tn_site at);
TN_API tn_tensor tn_move_to_scope_of_at(tn_tensor t, tn_tensor other, tn_site at);
TN_API tn_tensor tn_detach_from_scope_at(tn_tensor t, tn_site at);
TN_API void tn_dispose_at(tn_tensor t, tn_site at);
// Through a scope: attach takes the value from whoever owns it; the other two refuse a value that is not the scope's
TN_API tn_tensor tn_scope_attach_at(tn_scope *s, tn_tensor t, tn_site at);
TN_API tn_tensor tn_scope_detach_at(tn_scope *s, tn_tensor t, tn_site at);
TN_API tn_tensor tn_scope_move_to_outer_at(tn_scope *s, tn_tensor t, tn_site at);
// Disposes everything that the scope owns but these; it stays open, and they end with it. A packed sequence is named by
// its data.
TN_API void tn_scope_dispose_but_at(tn_scope *s, const tn_tensor *keep, uint32_t n, tn_site at);
// TN_SCOPED(f, expr): the value of expr, a tensor (TN_SCOPED_PACKED: packed); all else that it makes ends with it. f is
// evaluated twice.
TN_API void tn_scoped_begin_at(tn_function *f, tn_site at);
TN_API tn_tensor tn_scoped_end_at(tn_function *f, tn_tensor t, tn_site at);
#define tn_scope_begin(f, name) tn_scope_begin_at(f, name, TN_SITE)
#define tn_scope_end(s) tn_scope_end_at(s, TN_SITE)
#define tn_move_to_outer(t) tn_move_to_outer_at(t, TN_SITE)
#define tn_move_to(t, s) tn_move_to_at(t, s, TN_SITE)
#define tn_move_to_scope_of(t, other) tn_move_to_scope_of_at(t, other, TN_SITE)
#define tn_detach_from_scope(t) tn_detach_from_scope_at(t, TN_SITE)
#define tn_dispose(t) tn_dispose_at(t, TN_SITE)
#define tn_scope_attach(s, t) tn_scope_attach_at(s, t, TN_SITE)
#define tn_scope_detach(s, t) tn_scope_detach_at(s, t, TN_SITE)
#define tn_scope_move_to_outer(s, t) tn_scope_move_to_outer_at(s, t, TN_SITE)
#define tn_scope_dispose_but(s, ...)                           \
  tn_scope_dispose_but_at(s, (const tn_tensor[]){__VA_ARGS__}, \
                          sizeof((const tn_tensor[]){__VA_ARGS__}) / sizeof(tn_tensor), TN_SITE)
#define tn_scope_dispose_all(s) tn_scope_dispose_but_at(s, NULL, 0, TN_SITE)
#define TN_SCOPED_PACKED(f, expr) (tn_scoped_begin_at(f, TN_SITE), tn_scoped_end_packed_at(f, expr, TN_SITE))
#define TN_SCOPED(f, expr) (tn_scoped_begin_at(f, TN_SITE), tn_scoped_end_at(f, expr, TN_SITE))

// ---- the ledger: logical values, counted while building. One call is one value, however it is compiled.
// A packed sequence is one packed value and its members' tensors. Counters only grow, until a reset.
typedef struct {
  int64_t live;                               // (created_in - disposed_in) + (created_outside - disposed_outside)
  int64_t created_outside, disposed_outside;  // of a scope
  int64_t created_in, disposed_in;
  int64_t attached, detached;
} tn_stats;
TN_API tn_stats tn_stats_tensors(const tn_function *f);
TN_API tn_stats tn_stats_packed(const tn_function *f);
TN_API tn_stats tn_stats_total(const tn_function *f);  // the sum of both
TN_API tn_stats
tn_stats_program(const tn_program *p);  // the sum over all functions; parameters count in tn_init_function
// What happened in this scope; its `live` is what it owns now
TN_API tn_stats tn_scope_stats(const tn_scope *s);
TN_API void tn_stats_reset(tn_function *f);
// ThreadTotalLiveCount: 1; CreatedOutsideScopeCount: 0; .. as TorchSharp prints it; no newline. False: cannot write.
TN_API bool tn_stats_print(tn_stats s, FILE *out);
TN_API uint32_t tn_scope_count_at(const tn_scope *s, tn_site at);  // values that an open scope owns; packed: 1
#define tn_scope_count(s) tn_scope_count_at(s, TN_SITE)
typedef struct {
  tn_tensor value;   // of a packed sequence: its data. Only for comparing once the program is compiled.
  const char *what;  // the operation that made it
  const char *file;  // where
  int line;
  bool is_packed;
  int64_t bytes;  // by the bounds of its dims
  // After tn_compile: kernels [first, last] between which it needs memory, and where. first -1: it needs none, since it
  // was fused into its reader, folded, or merged with an equal value.
  int32_t first, last;
  int64_t offset;  // in the arena; -1: in no arena
} tn_scope_value;
// Writes up to `max` of what the scope owns (closed: of what it owned at its end), oldest first; gives their number.
TN_API uint32_t tn_scope_values(const tn_scope *s, tn_scope_value *out, uint32_t max);
TN_API bool tn_is_alive(tn_tensor t);  // neither disposed, nor taken over, nor ended with its scope

// ---- operations. Shapes broadcast as in NumPy; f32 unless said; axes may be negative.
// tenure_ops.h, written from ir/ops.def, has one call for each pointwise op, and one that writes in place: tn_relu(x),
// tn_add(a, b), tn_select(c, a, b), tn_relu_(x), ..
#include "tenure_ops.h"
TN_API tn_tensor tn_matmul_at(tn_tensor a, tn_tensor b, tn_site at);
#define tn_matmul(a, b) tn_matmul_at(a, b, TN_SITE)  // [.., M, K] x [.., K, N]
// Zeroes with probability p in [0, 1], scales the rest by 1/(1-p)
TN_API tn_tensor tn_dropout_at(tn_tensor a, double p, tn_site at);
TN_API tn_tensor tn_cast_at(tn_tensor a, tn_dtype t, tn_site at);
TN_API tn_tensor tn_stop_grad_at(tn_tensor a, tn_site at);
TN_API tn_tensor tn_reshape_at(tn_tensor a, tn_shape s, tn_site at);  // same number of elements
TN_API tn_tensor tn_expand_at(tn_tensor a, tn_shape s, tn_site at);
TN_API tn_tensor tn_permute_at(tn_tensor a, const int *perm, uint32_t n, tn_site at);
TN_API tn_tensor tn_transpose_at(tn_tensor a, int axis_a, int axis_b, tn_site at);
TN_API tn_tensor tn_slice_at(tn_tensor a, int axis, int64_t start, int64_t size, tn_site at);
TN_API tn_tensor tn_concat_at(const tn_tensor *a, uint32_t n, int axis, tn_site at);
TN_API tn_tensor tn_sum_at(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);  // n == 0: all axes
TN_API tn_tensor tn_mean_at(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);
TN_API tn_tensor tn_amax_at(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);
TN_API tn_tensor tn_argmax_at(tn_tensor a, tn_site at);  // last axis, i64
TN_API tn_tensor tn_softmax_at(tn_tensor a, int axis, tn_site at);
TN_API tn_tensor tn_log_softmax_at(tn_tensor a, int axis, tn_site at);
// Over the last n_axes axes of x (f32): (x - mean) / sqrt(variance + eps) weight + bias, the variance without Bessel's
// correction. Weight and bias have the shape of those axes; TN_NONE is no weight or no bias. RMS norm: x / sqrt(mean of
// x^2 + eps) weight. Another shape is E004, fewer axes than n_axes or an eps below 0 E003.
TN_API tn_tensor tn_layer_norm_of_at(tn_tensor x, uint32_t n_axes, tn_tensor weight, tn_tensor bias, double eps,
                                     tn_site at);
TN_API tn_tensor tn_rms_norm_of_at(tn_tensor x, uint32_t n_axes, tn_tensor weight, double eps, tn_site at);
#define tn_layer_norm_of(x, n_axes, weight, bias, eps) tn_layer_norm_of_at(x, n_axes, weight, bias, eps, TN_SITE)
#define tn_rms_norm_of(x, n_axes, weight, eps) tn_rms_norm_of_at(x, n_axes, weight, eps, TN_SITE)
// Mean over rows of -log softmax(logits)[label]; logits [.., C] f32, labels [..] i64 in [0, C).
TN_API tn_tensor tn_cross_entropy_at(tn_tensor logits, tn_tensor labels, tn_site at);
// The same by PyTorch's rules for these options. MEAN divides by the weights of the labels that count: NaN when there
// are none. NONE gives a loss for each row, [..]. A label that is neither in [0, C) nor the ignored one is an error.
//
//   loss = tn_cross_entropy_with(logits, y, &(tn_loss_options){.has_ignore = true, .ignore_index = -100});
typedef enum { TN_REDUCE_MEAN, TN_REDUCE_SUM, TN_REDUCE_NONE } tn_reduction;
typedef struct {
  tn_reduction reduction;
  bool has_ignore;         // rows whose label is ignore_index, between -2^24 and 2^24, count nothing
  int64_t ignore_index;    // not read without has_ignore: unlike in PyTorch, -100 is no default
  tn_tensor weight;        // of the classes, f32 [C] (else E004), without a gradient; empty: 1 each
  double label_smoothing;  // share of the target that is spread over all classes, in [0, 1] (else E003)
} tn_loss_options;         // NULL: zeros
TN_API tn_tensor tn_cross_entropy_with_at(tn_tensor logits, tn_tensor labels, const tn_loss_options *o, tn_site at);
TN_API tn_tensor tn_mse_at(tn_tensor a, tn_tensor b, tn_site at);  // mean of (a - b)^2
#define tn_dropout(a, p) tn_dropout_at(a, p, TN_SITE)
#define tn_cast(a, t) tn_cast_at(a, t, TN_SITE)
#define tn_stop_grad(a) tn_stop_grad_at(a, TN_SITE)
#define tn_reshape(a, s) tn_reshape_at(a, s, TN_SITE)
#define tn_expand(a, s) tn_expand_at(a, s, TN_SITE)
#define tn_permute(a, ...) \
  tn_permute_at(a, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int), TN_SITE)
#define tn_transpose(a, i, j) tn_transpose_at(a, i, j, TN_SITE)
#define tn_slice(a, axis, start, size) tn_slice_at(a, axis, start, size, TN_SITE)
#define tn_concat(axis, ...)                                                                                         \
  tn_concat_at((const tn_tensor[]){__VA_ARGS__}, sizeof((const tn_tensor[]){__VA_ARGS__}) / sizeof(tn_tensor), axis, \
               TN_SITE)
#define tn_sum(a) tn_sum_at(a, NULL, 0, false, TN_SITE)
#define tn_mean(a) tn_mean_at(a, NULL, 0, false, TN_SITE)
#define tn_amax(a) tn_amax_at(a, NULL, 0, false, TN_SITE)
#define tn_sum_axis(a, axis, keepdim) tn_sum_at(a, (const int[]){axis}, 1, keepdim, TN_SITE)
#define tn_mean_axis(a, axis, keepdim) tn_mean_at(a, (const int[]){axis}, 1, keepdim, TN_SITE)
#define tn_amax_axis(a, axis, keepdim) tn_amax_at(a, (const int[]){axis}, 1, keepdim, TN_SITE)
#define tn_argmax(a) tn_argmax_at(a, TN_SITE)
#define tn_softmax(a, axis) tn_softmax_at(a, axis, TN_SITE)
#define tn_log_softmax(a, axis) tn_log_softmax_at(a, axis, TN_SITE)
#define tn_cross_entropy(logits, labels) tn_cross_entropy_at(logits, labels, TN_SITE)
#define tn_cross_entropy_with(logits, labels, ...) tn_cross_entropy_with_at(logits, labels, __VA_ARGS__, TN_SITE)
#define tn_mse(a, b) tn_mse_at(a, b, TN_SITE)

// ---- writes in place. A handle names storage: a write changes what it shows from then on, and with it every view of
// the storage (tn_reshape, tn_permute, tn_transpose, tn_slice, tn_detach). All return t itself. Nothing is copied
// unless something reads the old content later: tn_plan_copies lists those reads.
//
//   tn_tensor c = tn_clone(t);                        // the same content, storage of its own: no copy so far
//   tn_add_(c, u);                                    // t is read later: one copy; else in place
//   tn_copy_(tn_slice(c, 0, 2, 1), row);              // writes one row of c; broadcast and cast as c wants it
//   tn_no_grad_begin(f);
//   tn_sub_(w, tn_mul(tn_param_grad(f, m, "w"), lr)); // a trainable parameter; outside of the region this is E113
//   tn_no_grad_end(f);
//
// Gradients flow to what was written, none to what was overwritten: nor through a write that stands in a no-grad region
// or goes through tn_detach, after which PyTorch goes on as if nothing had been written. A write that destroys what a
// backward needs is E112, with both places; with the option copy_saved the old content is kept, and E112 is a warning.
// Writes to buffers and parameters last over runs. An input shows what was written to it; the caller's memory is never
// changed (W124).
TN_API tn_tensor tn_clone_at(tn_tensor t, tn_site at);   // same content, written apart; differentiable
TN_API tn_tensor tn_detach_at(tn_tensor t, tn_site at);  // same storage, no gradient: a write through it is seen in t
// src broadcast to dst's shape and cast to its dtype
TN_API tn_tensor tn_copy_in_place_at(tn_tensor dst, tn_tensor src, tn_site at);
TN_API tn_tensor tn_fill_in_place_at(tn_tensor t, double v, tn_site at);
// t[.., start : start + n, ..] = src along `axis`, where n is src's size there; other axes of src broadcast
TN_API tn_tensor tn_slice_assign_in_place_at(tn_tensor t, int axis, int64_t start, tn_tensor src, tn_site at);
// Row index[k] of t [V, ..] = row k of src [n, ..], for index i64 [n]; the last of equal indices wins
TN_API tn_tensor tn_index_put_in_place_at(tn_tensor t, tn_tensor index, tn_tensor src, tn_site at);
// What is made in between carries no gradient; trainable parameters may be written. Regions nest.
TN_API void tn_no_grad_begin_at(tn_function *f, tn_site at);
TN_API void tn_no_grad_end_at(tn_function *f, tn_site at);
// Does it depend on a trainable parameter, or an input marked below, by a path that gradients take?
TN_API bool tn_requires_grad(tn_tensor t);
// Of an input (false at first; then a target of tn_grad like any value) or of a parameter, as used in this function.
// E120 for a computed value: it has what its operands have.
TN_API void tn_set_requires_grad_at(tn_tensor t, bool on, tn_site at);
#define tn_clone(t) tn_clone_at(t, TN_SITE)
#define tn_detach(t) tn_detach_at(t, TN_SITE)
#define tn_copy_(dst, src) tn_copy_in_place_at(dst, src, TN_SITE)
#define tn_fill_(t, v) tn_fill_in_place_at(t, v, TN_SITE)
#define tn_slice_assign_(t, axis, start, src) tn_slice_assign_in_place_at(t, axis, start, src, TN_SITE)
#define tn_index_put_(t, index, src) tn_index_put_in_place_at(t, index, src, TN_SITE)
#define tn_no_grad_begin(f) tn_no_grad_begin_at(f, TN_SITE)
#define tn_no_grad_end(f) tn_no_grad_end_at(f, TN_SITE)
#define tn_set_requires_grad(t, on) tn_set_requires_grad_at(t, on, TN_SITE)

// ---- packed sequences: (data [rows, ..], layout), one managed value
typedef struct {
  tn_tensor data, layout;
} tn_packed;
typedef struct {
  bool batch_first;     // x is [B, T, ..]; else [T, B, ..]
  bool enforce_sorted;  // refuse lengths that are not in decreasing order, as PyTorch's default does
  // Lengths may be 0 (else E115). An empty sequence has no rows: padding is all that tn_pad_packed gives it, and its
  // final state in a recurrent layer is its initial state.
  bool allow_empty;
} tn_pack_options;  // NULL: batch_first, neither
// Lengths i64 [B], each in [1, T], or [0, T] with allow_empty
TN_API tn_packed tn_pack_padded_at(tn_tensor x, tn_tensor lengths, const tn_pack_options *o, tn_site at);
TN_API tn_packed tn_pack_constant_at(tn_tensor x, const int64_t *lengths, uint32_t n, const tn_pack_options *o,
                                     tn_site at);
// [B, T, ..], `value` beyond each length. T: the longest of constant lengths, else the time axis packed.
TN_API tn_tensor tn_pad_packed_at(tn_packed s, double value, bool batch_first, tn_site at);
// Other data [rows, ..], the same layout
TN_API tn_packed tn_packed_with_data_at(tn_packed s, tn_tensor data, tn_site at);
#define tn_pack_padded(x, lengths, ...) tn_pack_padded_at(x, lengths, __VA_ARGS__, TN_SITE)
#define tn_pack_constant(x, lengths, n, ...) tn_pack_constant_at(x, lengths, n, __VA_ARGS__, TN_SITE)
// The same with a time axis of total_length steps: E117 when a sequence may be longer.
TN_API tn_tensor tn_pad_packed_to_at(tn_packed s, double value, bool batch_first, int64_t total_length, tn_site at);
#define tn_pad_packed(s, value, batch_first) tn_pad_packed_at(s, value, batch_first, TN_SITE)
#define tn_pad_packed_to(s, value, batch_first, total_length) \
  tn_pad_packed_to_at(s, value, batch_first, total_length, TN_SITE)
#define tn_packed_with_data(s, data) tn_packed_with_data_at(s, data, TN_SITE)

// x [B, T, ..] (else [T, B, ..]) by the layout of another packed value: labels beside their inputs, for example. What
// tn_pack_padded packs by the same lengths has one layout too, and so have equal constant lengths.
TN_API tn_packed tn_pack_like_at(tn_tensor x, tn_packed like, bool batch_first, tn_site at);
#define tn_pack_like(x, like, batch_first) tn_pack_like_at(x, like, batch_first, TN_SITE)

// A list of sequences [T, ..], which are their first axes long, without padding; E111 when they differ behind it. An
// empty list gives a poisoned value (E003 where it is an output). Sizes that come at run time are lengths too: any
// named dims, or the sequences that tn_unpad_sequence gives; such a list is padded on the way.
TN_API tn_packed tn_pack_sequence_at(const tn_tensor *list, uint32_t n, const tn_pack_options *o, tn_site at);
// The list as [B, T, ..] (else [T, B, ..]) in its order, `value` behind each end. T: the size that all have, else the
// longest of constant sizes, else the largest bound
TN_API tn_tensor tn_pad_sequence_at(const tn_tensor *list, uint32_t n, double value, bool batch_first, tn_site at);
// The same with `value` in front of each first step: PyTorch's padding_side="left"
TN_API tn_tensor tn_pad_sequence_left_at(const tn_tensor *list, uint32_t n, double value, bool batch_first, tn_site at);
// The way back: writes the n sequences of x, [length, ..] each, and poisoned ones after a mistake (false)
TN_API bool tn_unpad_at(tn_tensor x, const int64_t *lengths, uint32_t n, bool batch_first, tn_tensor *out, tn_site at);
// The same with lengths that come at run time, i64 [B], each in [0, T], for a constant B: writes up to `max` sequences
// [length, ..], gives B; 0 after a mistake (E003 a batch that is no constant, E116). Sequence k of the same lengths has
// the same size in every call. As an output it takes T rows of the caller's memory and fills those that it has.
TN_API uint32_t tn_unpad_sequence_at(tn_tensor x, tn_tensor lengths, bool batch_first, tn_tensor *out, uint32_t max,
                                     tn_site at);
// The sequences in user order: writes up to `max`, gives their number, which is a constant (else 0 and E003). Those
// whose lengths come at run time are padded on the way, and are like those of tn_unpad_sequence.
TN_API uint32_t tn_unpack_sequence_at(tn_packed s, tn_tensor *out, uint32_t max, tn_site at);
#define tn_pack_sequence(list, n, ...) tn_pack_sequence_at(list, n, __VA_ARGS__, TN_SITE)
#define tn_pad_sequence(list, n, value, batch_first) tn_pad_sequence_at(list, n, value, batch_first, TN_SITE)
#define tn_pad_sequence_left(list, n, value, batch_first) tn_pad_sequence_left_at(list, n, value, batch_first, TN_SITE)
#define tn_unpad(x, lengths, n, batch_first, out) tn_unpad_at(x, lengths, n, batch_first, out, TN_SITE)
#define tn_unpad_sequence(x, lengths, batch_first, out, max) \
  tn_unpad_sequence_at(x, lengths, batch_first, out, max, TN_SITE)
#define tn_unpack_sequence(s, out, max) tn_unpack_sequence_at(s, out, max, TN_SITE)
TN_API uint32_t tn_packed_n_members(tn_packed s);  // 4: data, batch sizes, both index lists; 2 when sorted; 0: poisoned
// Any unary or binary operation of this header by name, on the data; the two layouts must be the same (E111)
TN_API tn_packed tn_packed_map_at(const char *op, tn_packed a, tn_site at);
TN_API tn_packed tn_packed_zip_at(const char *op, tn_packed a, tn_packed b, tn_site at);
// Totals over the steps of each sequence, [B, ..] in user order, of data [rows, ..]; f32, but last and first of any
// dtype. Nothing is padded. Of an empty sequence, as PyTorch's segment_reduce: sum 0, mean NaN, max -inf, min inf; last
// and first are 0, argmax is -1. Of equal ones the first is the maximum, and has the gradient; NaN wins.
//
//   tn_packed h = tn_rnn_call(lstm, s, NULL).out;
//   tn_tensor sentence = tn_packed_max(h);                              // [B, hidden]
//   tn_packed both = tn_packed_concat(h, tn_packed_broadcast(h, sentence));  // [rows, 2 hidden]
TN_API tn_tensor tn_packed_sum_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_mean_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_max_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_min_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_argmax_at(tn_packed s, tn_site at);  // i64: the step
TN_API tn_tensor tn_packed_last_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_first_at(tn_packed s, tn_site at);
// Over the steps of each sequence, every feature apart
TN_API tn_packed tn_packed_softmax_at(tn_packed s, tn_site at);
// Sum over steps of softmax(scores) times values: [B, ..] like values. scores [rows], or [rows, n, ..] with sizes that
// broadcast to those of values: [rows, heads] for values [rows, heads, size]. One layout, else E111.
TN_API tn_tensor tn_packed_attend_at(tn_packed scores, tn_packed values, tn_site at);
TN_API tn_packed tn_packed_broadcast_at(tn_packed s, tn_tensor x,
                                        tn_site at);             // x [B, ..] on every row of its sequence
TN_API tn_packed tn_packed_reverse_at(tn_packed s, tn_site at);  // each sequence from its last step to its first
// The tables of the layout, i64: [B] by user; [T], 0 behind the longest; [B] user at each position; [B] position of
// each user. A sorted one is its own order.
TN_API tn_tensor tn_packed_lengths_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_batch_sizes_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_sorted_indices_at(tn_packed s, tn_site at);
TN_API tn_tensor tn_packed_unsorted_indices_at(tn_packed s, tn_site at);
// The calls for tensors, on the rows that exist. Whatever keeps rows apart works on s.data as well, and
// tn_packed_with_data makes the result packed. Two packed values must have one layout (E111), as must s.data and t.data
// where they meet in tn_add and the like.
TN_API tn_packed tn_packed_call_at(tn_module *m, tn_packed s, tn_site at);  // of one input: linear, embedding, ..
TN_API tn_packed tn_packed_dropout_at(tn_packed s, double p, tn_site at);
TN_API tn_packed tn_packed_concat_at(tn_packed a, tn_packed b, tn_site at);                   // along the last axis
TN_API tn_tensor tn_packed_cross_entropy_at(tn_packed logits, tn_packed labels, tn_site at);  // mean over rows
// TN_REDUCE_NONE: [rows]
TN_API tn_tensor tn_packed_cross_entropy_with_at(tn_packed logits, tn_packed labels, const tn_loss_options *o,
                                                 tn_site at);
TN_API tn_tensor tn_packed_mse_at(tn_packed a, tn_packed b, tn_site at);
#define tn_packed_sum(s) tn_packed_sum_at(s, TN_SITE)
#define tn_packed_mean(s) tn_packed_mean_at(s, TN_SITE)
#define tn_packed_max(s) tn_packed_max_at(s, TN_SITE)
#define tn_packed_min(s) tn_packed_min_at(s, TN_SITE)
#define tn_packed_argmax(s) tn_packed_argmax_at(s, TN_SITE)
#define tn_packed_last(s) tn_packed_last_at(s, TN_SITE)
#define tn_packed_first(s) tn_packed_first_at(s, TN_SITE)
#define tn_packed_softmax(s) tn_packed_softmax_at(s, TN_SITE)
#define tn_packed_attend(scores, values) tn_packed_attend_at(scores, values, TN_SITE)
#define tn_packed_broadcast(s, x) tn_packed_broadcast_at(s, x, TN_SITE)
#define tn_packed_reverse(s) tn_packed_reverse_at(s, TN_SITE)
#define tn_packed_lengths(s) tn_packed_lengths_at(s, TN_SITE)
#define tn_packed_batch_sizes(s) tn_packed_batch_sizes_at(s, TN_SITE)
#define tn_packed_sorted_indices(s) tn_packed_sorted_indices_at(s, TN_SITE)
#define tn_packed_unsorted_indices(s) tn_packed_unsorted_indices_at(s, TN_SITE)
#define tn_packed_call(m, s) tn_packed_call_at(m, s, TN_SITE)
#define tn_packed_dropout(s, p) tn_packed_dropout_at(s, p, TN_SITE)
#define tn_packed_concat(a, b) tn_packed_concat_at(a, b, TN_SITE)
#define tn_packed_cross_entropy(logits, labels) tn_packed_cross_entropy_at(logits, labels, TN_SITE)
#define tn_packed_cross_entropy_with(logits, labels, ...) \
  tn_packed_cross_entropy_with_at(logits, labels, __VA_ARGS__, TN_SITE)
#define tn_packed_mse(a, b) tn_packed_mse_at(a, b, TN_SITE)
// As the calls for tensors: the members follow. A member alone is neither moved nor disposed (E102).
TN_API tn_packed tn_packed_move_to_outer_at(tn_packed s, tn_site at);
TN_API tn_packed tn_packed_move_to_at(tn_packed s, tn_scope *to, tn_site at);
TN_API tn_packed tn_packed_move_to_scope_of_at(tn_packed s, tn_tensor other, tn_site at);
TN_API tn_packed tn_packed_detach_from_scope_at(tn_packed s, tn_site at);
TN_API void tn_packed_dispose_at(tn_packed s, tn_site at);
TN_API tn_packed tn_scope_attach_packed_at(tn_scope *to, tn_packed s, tn_site at);
TN_API tn_packed tn_scoped_end_packed_at(tn_function *f, tn_packed s, tn_site at);
TN_API tn_packed tn_scope_detach_packed_at(tn_scope *from, tn_packed s, tn_site at);
#define tn_packed_map(op, a) tn_packed_map_at(op, a, TN_SITE)
#define tn_packed_zip(op, a, b) tn_packed_zip_at(op, a, b, TN_SITE)
#define tn_packed_move_to_outer(s) tn_packed_move_to_outer_at(s, TN_SITE)
#define tn_packed_move_to(s, to) tn_packed_move_to_at(s, to, TN_SITE)
#define tn_packed_move_to_scope_of(s, other) tn_packed_move_to_scope_of_at(s, other, TN_SITE)
#define tn_packed_detach_from_scope(s) tn_packed_detach_from_scope_at(s, TN_SITE)
#define tn_packed_dispose(s) tn_packed_dispose_at(s, TN_SITE)
#define tn_scope_attach_packed(to, s) tn_scope_attach_packed_at(to, s, TN_SITE)
#define tn_scope_detach_packed(from, s) tn_scope_detach_packed_at(from, s, TN_SITE)

// ---- parameters: the table of the program; a parameter's initial value is a graph, run by tn_initialize
typedef struct {
  enum { TN_INIT_ZEROS, TN_INIT_CONSTANT, TN_INIT_UNIFORM, TN_INIT_NORMAL } kind;
  double a, b;  // CONSTANT: a; UNIFORM: [a, b); NORMAL: mean a, standard deviation b
} tn_init;
TN_API tn_module *tn_root(tn_program *p);
TN_API tn_module *tn_module_new_at(tn_module *parent, const char *name, tn_site at);
TN_API tn_module *tn_child(tn_module *m, const char *name);  // NULL: none
// Shape of constants. In the root module the names "optimizer", "tenure" and "__metadata__" are kept for files.
TN_API void tn_parameter_at(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);
TN_API void tn_buffer_at(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);  // saved, not trained
// A second path to one parameter
TN_API void tn_share_at(tn_module *m, const char *name, tn_module *from, const char *from_name, tn_site at);
TN_API tn_tensor tn_param_value_at(tn_function *f, tn_module *m, const char *name,
                                   tn_site at);    // its value in this function
TN_API void tn_freeze(tn_module *m, bool frozen);  // parameters below m get no gradient in functions built afterwards
#define tn_module_new(parent, name) tn_module_new_at(parent, name, TN_SITE)
#define tn_parameter(m, name, s, ...) tn_parameter_at(m, name, s, __VA_ARGS__, TN_SITE)
#define tn_buffer(m, name, s, ...) tn_buffer_at(m, name, s, __VA_ARGS__, TN_SITE)
#define tn_share(m, name, from, from_name) tn_share_at(m, name, from, from_name, TN_SITE)
#define tn_param_value(f, m, name) tn_param_value_at(f, m, name, TN_SITE)

// ---- parameters made of values. The function that makes initial values is built as any other, but not ended:
//
//   tn_function *init = tn_init_function(p);
//   tn_tensor w = tn_mul(tn_randn(init, TN_SHAPE(tn_dim_const(4), tn_dim_const(8))), tn_scalar(init, 0.1));
//   tn_parameter_adopt(fc, "weight", w);       // w was its handle; from now on it is "fc.weight"
//
// A parameter is the value it was made of, under a new owner: nothing is counted twice, the old handle is dead (E102).
TN_API tn_function *tn_init_function(tn_program *p);
// The same value as a parameter that no module has yet, in the scope of t; usable in the init function
TN_API tn_tensor tn_as_parameter_at(tn_tensor t, tn_site at);
// Gives m a parameter of that name: takes t over, detaches it from its scope, and disposes the one that had the name.
// The same one again: nothing. TN_NONE: no parameter of that name from now on (a linear module without bias).
TN_API void tn_parameter_adopt_at(tn_module *m, const char *name, tn_tensor t, tn_site at);
// For one made by tn_as_parameter that no scope owns (E109), under a name that is free (E110)
TN_API void tn_register_at(tn_module *m, const char *name, tn_tensor p, tn_site at);
TN_API void tn_buffer_adopt_at(tn_module *m, const char *name, tn_tensor t, bool persistent, tn_site at);
TN_API void tn_reshapable(tn_module *m);  // its parameters may be replaced by others of another shape (else E111)
// A second path to a module: its parameters as they are now, each with a second path
TN_API tn_module *tn_share_module_at(tn_module *parent, const char *name, tn_module *from, tn_site at);
// Ends all parameters below m. Functions built so far keep theirs; a later use is E101.
TN_API void tn_module_dispose_at(tn_module *m, tn_site at);
// Writes up to `max` names relative to m, own ones first, then the children's in order; gives their number.
// UNIQUE: each parameter once, under its first name. ALIASES: under all of its names. STATE_DICT: all names, saved
// buffers after the parameters of each module. BUFFERS: all of them, saved or not.
typedef enum { TN_NAMES_UNIQUE, TN_NAMES_ALIASES, TN_NAMES_STATE_DICT, TN_NAMES_BUFFERS } tn_names;
TN_API uint32_t tn_named_parameters(const tn_module *m, tn_names which, const char **out, uint32_t max);
#define TN_NONE ((tn_tensor){NULL, 0})
#define tn_as_parameter(t) tn_as_parameter_at(t, TN_SITE)
#define tn_parameter_adopt(m, name, t) tn_parameter_adopt_at(m, name, t, TN_SITE)
#define tn_register(m, name, p) tn_register_at(m, name, p, TN_SITE)
#define tn_buffer_adopt(m, name, t, persistent) tn_buffer_adopt_at(m, name, t, persistent, TN_SITE)
#define tn_share_module(parent, name, from) tn_share_module_at(parent, name, from, TN_SITE)
#define tn_module_dispose(m) tn_module_dispose_at(m, TN_SITE)

// ---- variables by path: the tree of modules read as a store. Paths are names joined by '.' or '/'. A pattern is a
// path in which `*` stands for any characters of one name and `**` for any names; it also matches all below what it
// names: "enc" means enc.w and enc.sub.w, never enc2.w. NULL matches everything.
//
//   tn_param_at_path(tn_root(p), "a/b/w", TN_SHAPE(tn_dim_const(3)), (tn_init){TN_INIT_ZEROS});
//   loss = tn_add(loss, tn_mul(tn_scalar(f, 1e-4), tn_l2(f, tn_root(p), "**/weight")));
TN_API tn_module *tn_module_at_path_at(tn_module *m, const char *path,
                                       tn_site at);  // modules on the way are found or made
// The parameter at a path below m: found, with the same shape (E111), or made
TN_API void tn_param_at_path_at(tn_module *m, const char *path, tn_shape s, tn_init init, tn_site at);
// A buffer that is not saved and not asked for on loading
TN_API void tn_transient_buffer_at(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);
typedef enum { TN_EVERYTHING, TN_PARAMETERS, TN_TRAINABLE /* and not frozen */, TN_NON_PARAMETERS } tn_which;
typedef struct {
  tn_which which;
  const char *pattern;
  bool aliases;  // every path of a shared entry; else its first one only
} tn_variable_options;
typedef struct {
  const char *path;   // below the module that was asked; texts live as long as the program
  tn_module *module;  // tn_param_value(f, v.module, v.name) is its value in a function
  const char *name;
  uint32_t rank, group;
  int64_t dims[8];
  bool is_buffer, is_frozen, is_alias;  // is_alias: an earlier path names it too
} tn_variable;
// In PyTorch's named_parameters order: own entries as declared, then children depth-first; a shared entry stands at its
// first path that matches. Gives the number of all; writes at most `max`. Options NULL: all.
TN_API uint32_t tn_variables(const tn_module *m, const tn_variable_options *o, tn_variable *out, uint32_t max);
TN_API void tn_freeze_path_at(tn_module *m, const char *pattern, bool frozen, tn_site at);  // as tn_freeze
// Sum of magnitudes, or of squares, of all elements of the trainable parameters below m that match
TN_API tn_tensor tn_l1_at(tn_function *f, tn_module *m, const char *pattern, tn_site at);
TN_API tn_tensor tn_l2_at(tn_function *f, tn_module *m, const char *pattern, tn_site at);
#define tn_module_at_path(m, path) tn_module_at_path_at(m, path, TN_SITE)
#define tn_param_at_path(m, path, s, ...) tn_param_at_path_at(m, path, s, __VA_ARGS__, TN_SITE)
#define tn_transient_buffer(m, name, s, ...) tn_transient_buffer_at(m, name, s, __VA_ARGS__, TN_SITE)
#define tn_freeze_path(m, pattern, frozen) tn_freeze_path_at(m, pattern, frozen, TN_SITE)
#define tn_l1(f, m, pattern) tn_l1_at(f, m, pattern, TN_SITE)
#define tn_l2(f, m, pattern) tn_l2_at(f, m, pattern, TN_SITE)

// ---- modules. Parameter names, shapes, gate order and initialisation are PyTorch's.
typedef struct {
  bool no_bias;
} tn_linear_options;
typedef struct {
  bool bidirectional, no_bias;
  uint32_t n_layers;  // 0: 1
  double dropout;     // between layers
  bool batch_first;   // dense input and output are [B, T, ..]; else [T, B, ..]
  int64_t proj_size;  // LSTM: h has this size, below `hidden` (weight_hr_l0, ..); 0: none
} tn_rnn_options;
typedef struct {
  bool no_bias;
} tn_rnn_cell_options;
TN_API tn_module *tn_linear_at(tn_module *parent, const char *name, int64_t in, int64_t out, const tn_linear_options *o,
                               tn_site at);
TN_API tn_module *tn_lstm_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, const tn_rnn_options *o,
                             tn_site at);
TN_API tn_module *tn_gru_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, const tn_rnn_options *o,
                            tn_site at);
TN_API tn_module *tn_rnn_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                            const tn_rnn_options *o, tn_site at);
// One step: weight_ih [gates * hidden, in], weight_hh, bias_ih, bias_hh; called by tn_rnn_step
TN_API tn_module *tn_lstm_cell_at(tn_module *parent, const char *name, int64_t in, int64_t hidden,
                                  const tn_rnn_cell_options *o, tn_site at);
TN_API tn_module *tn_gru_cell_at(tn_module *parent, const char *name, int64_t in, int64_t hidden,
                                 const tn_rnn_cell_options *o, tn_site at);
TN_API tn_module *tn_rnn_cell_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                                 const tn_rnn_cell_options *o, tn_site at);
TN_API tn_module *tn_embedding_at(tn_module *parent, const char *name, int64_t count, int64_t size, tn_site at);
TN_API tn_module *tn_dropout_module_at(tn_module *parent, const char *name, double p, tn_site at);
// "relu", "tanh", any unary row
TN_API tn_module *tn_activation_at(tn_module *parent, const char *name, const char *op, tn_site at);
typedef struct {
  bool no_weight, no_bias;  // no_weight: no bias either
  double eps;               // 0: 1e-5 for layer norm, 2^-23 for RMS norm
} tn_norm_options;
// Over the last axes, whose constant sizes are `normalized`, as TN_SHAPE(tn_dim_const(256)); "weight" begins as 1, "bias" as
// 0
TN_API tn_module *tn_layer_norm_at(tn_module *parent, const char *name, tn_shape normalized, const tn_norm_options *o,
                                   tn_site at);
TN_API tn_module *tn_rms_norm_at(tn_module *parent, const char *name, tn_shape normalized, const tn_norm_options *o,
                                 tn_site at);
// Children are made with it as parent and called in order
TN_API tn_module *tn_sequential_at(tn_module *parent, const char *name, tn_site at);
TN_API tn_tensor tn_call_at(tn_module *m, tn_tensor x, tn_site at);     // pre-hooks, forward, post-hooks
TN_API tn_tensor tn_forward_at(tn_module *m, tn_tensor x, tn_site at);  // forward alone; children run their hooks
// Dropout does nothing in functions marked so: what is built after this call
TN_API void tn_eval(tn_function *f, bool eval);
#define tn_linear(parent, name, in, out, ...) tn_linear_at(parent, name, in, out, __VA_ARGS__, TN_SITE)
#define tn_lstm(parent, name, in, hidden, ...) tn_lstm_at(parent, name, in, hidden, __VA_ARGS__, TN_SITE)
#define tn_gru(parent, name, in, hidden, ...) tn_gru_at(parent, name, in, hidden, __VA_ARGS__, TN_SITE)
#define tn_rnn(parent, name, in, hidden, relu, ...) tn_rnn_at(parent, name, in, hidden, relu, __VA_ARGS__, TN_SITE)
#define tn_lstm_cell(parent, name, in, hidden, ...) tn_lstm_cell_at(parent, name, in, hidden, __VA_ARGS__, TN_SITE)
#define tn_gru_cell(parent, name, in, hidden, ...) tn_gru_cell_at(parent, name, in, hidden, __VA_ARGS__, TN_SITE)
#define tn_rnn_cell(parent, name, in, hidden, relu, ...) \
  tn_rnn_cell_at(parent, name, in, hidden, relu, __VA_ARGS__, TN_SITE)
#define tn_embedding(parent, name, count, size) tn_embedding_at(parent, name, count, size, TN_SITE)
#define tn_dropout_module(parent, name, p) tn_dropout_module_at(parent, name, p, TN_SITE)
#define tn_activation(parent, name, op) tn_activation_at(parent, name, op, TN_SITE)
#define tn_layer_norm(parent, name, normalized, ...) tn_layer_norm_at(parent, name, normalized, __VA_ARGS__, TN_SITE)
#define tn_rms_norm(parent, name, normalized, ...) tn_rms_norm_at(parent, name, normalized, __VA_ARGS__, TN_SITE)
#define tn_sequential(parent, name) tn_sequential_at(parent, name, TN_SITE)
#define tn_call(m, x) tn_call_at(m, x, TN_SITE)
#define tn_forward(m, x) tn_forward_at(m, x, TN_SITE)

// ---- attention: softmax(q k^T scale) v by heads. No matrix of queries by keys is ever in memory, forward or backward:
// it takes memory for q, k, v and the result, and 4 bytes for each query and head.
//
//   tn_module *a = tn_multi_head_attention(block, "attn", 256, 4, &(tn_multi_head_options){.causal = true});
//   x = tn_add(x, tn_call(a, x));                       // self-attention of [B,T,256]
//   y = tn_attention_call(a, q, memory, TN_NONE, NULL);  // queries of one sequence, keys and values of another
typedef struct {
  bool causal;           // query i sees keys 0 to i, counted from the first of each
  double scale;          // 0: 1 / sqrt(D)
  double dropout;        // of the probabilities, in [0, 1); none in functions marked by tn_eval
  tn_tensor lengths;     // i64 [B], each in [0, T of the keys]: keys from there on are padding; TN_NONE: there is none
  bool heads_inside;     // q, k, v and the result are [B,T,H,D] instead
} tn_attention_options;  // NULL: zeros
// q [B,H,Tq,D], k and v [B,H,Tk,D] -> [B,H,Tq,D]; without the axis of heads, [B,T,D], or without both, [T,D]. H and D
// are constants, D at most 8192. A query that sees no key gives zeros.
TN_API tn_tensor tn_scaled_dot_product_attention_at(tn_tensor q, tn_tensor k, tn_tensor v,
                                                    const tn_attention_options *o, tn_site at);
// qkv [B,T,3,H,D], as one projection makes all three -> [B,T,H,D]; heads_inside is not read
TN_API tn_tensor tn_attention_packed_at(tn_tensor qkv, const tn_attention_options *o, tn_site at);
typedef struct {
  bool causal, no_bias;
  double dropout;
} tn_multi_head_options;  // NULL: zeros
// PyTorch's MultiheadAttention with batch_first, its names and initialisation: in_proj_weight [3E,E], in_proj_bias,
// out_proj.weight, out_proj.bias. `size` is a multiple of `heads`. tn_call is self-attention.
TN_API tn_module *tn_multi_head_attention_at(tn_module *parent, const char *name, int64_t size, int64_t heads,
                                             const tn_multi_head_options *o, tn_site at);
// q [B,Tq,E], k and v [B,Tk,E] -> [B,Tq,E]; k TN_NONE: q, v TN_NONE: k. The module's own hooks do not run, those of
// out_proj do.
TN_API tn_tensor tn_attention_call_at(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v,
                                      const tn_attention_options *o, tn_site at);
#define tn_scaled_dot_product_attention(q, k, v, ...) tn_scaled_dot_product_attention_at(q, k, v, __VA_ARGS__, TN_SITE)
#define tn_attention_packed(qkv, ...) tn_attention_packed_at(qkv, __VA_ARGS__, TN_SITE)
#define tn_multi_head_attention(parent, name, size, heads, ...) \
  tn_multi_head_attention_at(parent, name, size, heads, __VA_ARGS__, TN_SITE)
#define tn_attention_call(m, q, k, v, ...) tn_attention_call_at(m, q, k, v, __VA_ARGS__, TN_SITE)

// ---- hooks of modules: functions that tn_call runs while the graph is built
//
//   static tn_tensor negate(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) { return tn_neg(out); }
//   tn_hook *h = tn_hook_post(fc, negate, NULL, NULL);
//   y = tn_call(fc, x);     // -fc(x), and gradients know
//   tn_hook_remove(h);       // for the calls that follow; a second time does nothing
//
// A hook returns what replaces the hooked value, of the same shape and dtype (E118), or TN_NONE to keep it; the next
// hook sees the replacement. Order: as registered, prepended ones in front. What a hook sees or makes belongs to the
// newest open scope as any value does, so that one that it stores for later may be dead by then (E103). A hook that
// never fires, because the module runs through tn_forward only, is W119; registering or removing one after
// tn_compile is an error (E009). Hooks belong to one path: tn_share_module does not share them. Recurrent modules
// have hooks of their own (tn_rnn_hook_pre); cells and modules that only hold parameters have none.
typedef tn_tensor (*tn_pre_hook)(tn_module *m, tn_tensor in, void *ctx);
typedef tn_tensor (*tn_post_hook)(tn_module *m, tn_tensor in, tn_tensor out, void *ctx);
typedef struct {
  bool prepend;
} tn_hook_options;  // NULL: behind those that are there
// The handle is the program's; NULL on error
TN_API tn_hook *tn_hook_pre_at(tn_module *m, tn_pre_hook fn, void *ctx, const tn_hook_options *o, tn_site at);
TN_API tn_hook *tn_hook_post_at(tn_module *m, tn_post_hook fn, void *ctx, const tn_hook_options *o, tn_site at);
TN_API void tn_hook_remove_at(tn_hook *h, tn_site at);
#define tn_hook_pre(m, fn, ctx, ...) tn_hook_pre_at(m, fn, ctx, __VA_ARGS__, TN_SITE)
#define tn_hook_post(m, fn, ctx, ...) tn_hook_post_at(m, fn, ctx, __VA_ARGS__, TN_SITE)
#define tn_hook_remove(h) tn_hook_remove_at(h, TN_SITE)

// ---- recurrent calls. States are in the user's order, whatever the order of packing.
//
//   tn_rnn_output r = tn_rnn_call(rnn, tn_pack_padded(x, lengths, NULL), NULL);       // r.out, r.hidden, r.cell
//   tn_rnn_output d = tn_rnn_call_dense(rnn, x, &(tn_rnn_state){.h0 = h, .c0 = c});   // d.dense, ..; no lengths
//   tn_rnn_step_output s = tn_rnn_step(rnn, token, &(tn_rnn_state){.h0 = h, .c0 = c});
//
// H stands for hidden, P for proj_size where there is one, else H; D for layers * directions.
typedef struct {
  tn_packed out;      // [rows, directions * P]; empty after tn_rnn_call_dense
  tn_tensor dense;    // x's layout, directions * P features; empty after tn_rnn_call
  tn_tensor hidden;   // [D, B, P]
  tn_tensor cell;     // [D, B, H] of an LSTM; an empty handle otherwise
  tn_tensor last[2];  // private: the last layer's final states, by direction
  uint32_t n_last;    // private
} tn_rnn_output;
typedef struct {
  // [D, B, P], [D, B, H]; of a cell [B, H] both. Empty: zeros, to the bit: a weight that is NaN or infinite shows in
  // the first step as it does with zeros that are given. c0 is an LSTM's alone
  tn_tensor h0, c0;
} tn_rnn_state;
typedef struct {
  tn_packed seq;  // one of both; the other is empty
  tn_tensor dense;
  tn_rnn_state initial;
} tn_rnn_input;  // what hooks see
typedef struct {
  tn_tensor out;     // [B, P]
  tn_tensor hidden;  // [layers, B, P]; of a cell [B, H], the same value as `out`
  tn_tensor cell;    // [layers, B, H]; of a cell [B, H]; empty unless an LSTM's
} tn_rnn_step_output;
// Packed data [rows, in] f32. Initial NULL: zeros
TN_API tn_rnn_output tn_rnn_call_at(tn_module *m, tn_packed x, const tn_rnn_state *initial, tn_site at);
// x f32 [T, B, in], or [B, T, in] with the option batch_first: sequences that all have T steps. Gives what a packed
// batch of B such lengths gives. Time-major data are worked on where they lie; batch-first data are copied into that
// order, and the result back. One sequence may come without its batch, x [T, in]: then nothing else has one either, h0
// and hidden are [D, P], cell [D, H], tn_last_hidden gives [directions * P].
TN_API tn_rnn_output tn_rnn_call_dense_at(tn_module *m, tn_tensor x, const tn_rnn_state *initial, tn_site at);
// One step with x f32 [B, in], of a cell or of all layers of a module of one direction with its own weights. State
// NULL: zeros. Dropout stands between layers as in a sequence. x [in]: one sequence, and no value has a batch.
TN_API tn_rnn_step_output tn_rnn_step_at(tn_module *m, tn_tensor x, const tn_rnn_state *state, tn_site at);
// The last layer's directions side by side: [B, directions * P]
TN_API tn_tensor tn_last_hidden_at(tn_rnn_output r, tn_site at);
// Hooks of a recurrent module: tn_rnn_call and tn_rnn_call_dense run them, in order, as tn_call does those of other
// modules. A hook returns what it was given, or a copy of that with values replaced by others of the same shape, dtype
// and layout (E118). What a pre-hook sees of the initial state is what the caller gave. Steps run no hooks.
typedef tn_rnn_input (*tn_rnn_pre_hook)(tn_module *m, tn_rnn_input in, void *ctx);
typedef tn_rnn_output (*tn_rnn_post_hook)(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx);
TN_API tn_hook *tn_rnn_hook_pre_at(tn_module *m, tn_rnn_pre_hook fn, void *ctx, const tn_hook_options *o, tn_site at);
TN_API tn_hook *tn_rnn_hook_post_at(tn_module *m, tn_rnn_post_hook fn, void *ctx, const tn_hook_options *o, tn_site at);
#define tn_rnn_hook_pre(m, fn, ctx, ...) tn_rnn_hook_pre_at(m, fn, ctx, __VA_ARGS__, TN_SITE)
#define tn_rnn_hook_post(m, fn, ctx, ...) tn_rnn_hook_post_at(m, fn, ctx, __VA_ARGS__, TN_SITE)
#define tn_rnn_call(m, x, ...) tn_rnn_call_at(m, x, __VA_ARGS__, TN_SITE)
#define tn_rnn_call_dense(m, x, ...) tn_rnn_call_dense_at(m, x, __VA_ARGS__, TN_SITE)
#define tn_rnn_step(m, x, ...) tn_rnn_step_at(m, x, __VA_ARGS__, TN_SITE)
#define tn_last_hidden(r) tn_last_hidden_at(r, TN_SITE)

// ---- scans: a recurrence of your own. What is called between begin and end is the body, done once for each step; its
// code and the time to compile it do not depend on the number of steps. Gradients flow through inputs, carries and
// outside values that the body reads.
//
//   tn_scan *s = tn_scan_begin(f, &(tn_scan_options){.over = seq});   // or .steps = T: a dense axis of steps
//   tn_tensor x = tn_scan_input(s, seq.data);                         // this step's part
//   tn_tensor h = tn_scan_carry(s, h0);                               // what the step before left, h0 at first
//   tn_tensor next = tn_tanh(tn_add(tn_call(in, x), tn_call(hidden, h)));
//   tn_scan_next(s, h, next);
//   tn_tensor ys = tn_scan_output(s, next);                           // of all steps, for use after the end
//   tn_scan_end(s);
//   tn_tensor last = tn_scan_final(s, h);
//
// What the body makes belongs to a scope of the scan: used after the end, it is E103. Outside values may be read, and
// those of f32 written in place: each step writes what the step before left, as a carry does, and the handle shows the
// last content afterwards. Inputs of the scan and trainable parameters are not written inside (E113). Random numbers
// are new in every step. Scans do not nest (E009), nothing is packed or differentiated inside.
typedef struct {
  tn_packed over;    // packed sequences: as many steps as the longest has, each with the rows that are running
  tn_dim steps;      // or, without them, a number of steps
  int axis;          // of the steps in dense inputs; outputs have it first
  bool reverse;      // from the last step to the first; packed: each sequence from its own last one
  const char *name;  // NULL: "scan"
} tn_scan_options;
TN_API tn_scan *tn_scan_begin_at(tn_function *f, const tn_scan_options *o, tn_site at);
TN_API void tn_scan_end_at(tn_scan *s, tn_site at);
// Dense: [steps, ..] -> [..]. Packed: [rows, ..] -> [rows of this step, ..]; E004 for another number of steps or rows
TN_API tn_tensor tn_scan_input_at(tn_scan *s, tn_tensor xs, tn_site at);
TN_API tn_tensor tn_scan_input_packed_at(tn_scan *s, tn_packed xs, tn_site at);  // E111 for another layout
// f32. Packed: [batch, ..] in user order -> [rows of this step, ..]; a value without the batch axis is one for all
TN_API tn_tensor tn_scan_carry_at(tn_scan *s, tn_tensor h0, tn_site at);
// The carry h is `next` in the next step: the same shape (E004). Once for each carry.
TN_API void tn_scan_next_at(tn_scan *s, tn_tensor h, tn_tensor next, tn_site at);
// [..] -> [steps, ..]; packed: [rows of this step, ..] -> [rows, ..]
TN_API tn_tensor tn_scan_output_at(tn_scan *s, tn_tensor y, tn_site at);
// The carry h after the last step; packed: [batch, ..] in user order, after each sequence's own last step
TN_API tn_tensor tn_scan_final_at(tn_scan *s, tn_tensor h, tn_site at);
#define tn_scan_begin(f, ...) tn_scan_begin_at(f, __VA_ARGS__, TN_SITE)
#define tn_scan_end(s) tn_scan_end_at(s, TN_SITE)
#define tn_scan_input(s, xs) tn_scan_input_at(s, xs, TN_SITE)
#define tn_scan_input_packed(s, xs) tn_scan_input_packed_at(s, xs, TN_SITE)
#define tn_scan_carry(s, h0) tn_scan_carry_at(s, h0, TN_SITE)
#define tn_scan_next(s, h, next) tn_scan_next_at(s, h, next, TN_SITE)
#define tn_scan_output(s, y) tn_scan_output_at(s, y, TN_SITE)
#define tn_scan_final(s, h) tn_scan_final_at(s, h, TN_SITE)

// ---- training: gradients of a loss, clipping and the update stand in the same function
// There is no zero_grad: a run starts without gradients. Two tn_backward in one function add up, runs do not.

// A scalar; adds to the gradients of all trainable parameters that it reaches
TN_API void tn_backward_at(tn_tensor loss, tn_site at);
// d loss / d of, as a value, of which gradients can be taken again, as a gradient penalty does. Recurrent layers and
// attention have first gradients only: a wanted gradient through theirs is E125, which names the operation and the
// path.
TN_API tn_tensor tn_grad_at(tn_tensor loss, tn_tensor of, tn_site at);
TN_API tn_tensor tn_param_grad_at(tn_function *f, tn_module *m, const char *name, tn_site at);  // after tn_backward
// Scales all gradients below m; gives the norm before
TN_API tn_tensor tn_clip_grad_norm_at(tn_function *f, tn_module *m, double max_norm, tn_site at);
// Limits every element of the gradients below m to [-limit, limit]
TN_API void tn_clip_grad_value_at(tn_function *f, tn_module *m, double limit, tn_site at);
typedef struct {
  double lr, beta1, beta2, eps, weight_decay;
} tn_adamw_options;  // zeros: PyTorch's 1e-3, 0.9, 0.999, 1e-8; weight_decay 0 means none
typedef struct {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
} tn_sgd_options;                                                                              // lr 0: 1e-3
TN_API void tn_adamw_at(tn_function *f, tn_module *m, const tn_adamw_options *o, tn_site at);  // decoupled weight decay
// Weight decay added to the gradient
TN_API void tn_adam_at(tn_function *f, tn_module *m, const tn_adamw_options *o, tn_site at);
TN_API void tn_sgd_at(tn_function *f, tn_module *m, const tn_sgd_options *o, tn_site at);

// Parameters that are in no group are in group 0. A group keeps its own learning rate, weight decay and momentum in
// every optimizer, in the state entries optimizer.lr.GROUP and so on: tn_set_lr changes them between runs, without
// compiling. Groups are made before the optimizer; a parameter has one (E121). So are layers: an optimizer that was
// built never trains what is added below its module later, so that adding it is an error.
typedef struct {
  double lr, weight_decay, momentum;  // 0: the optimizer's
  bool no_weight_decay;               // it is 0 in this group
} tn_group_options;
// Puts the parameters below m that match in a group; options are given once, NULL adds to a group
TN_API void tn_group_at(tn_module *m, uint32_t group, const char *pattern, const tn_group_options *o, tn_site at);
#define tn_group(m, group, pattern, ...) tn_group_at(m, group, pattern, __VA_ARGS__, TN_SITE)
#define tn_clip_grad_value(f, m, limit) tn_clip_grad_value_at(f, m, limit, TN_SITE)
#define tn_backward(loss) tn_backward_at(loss, TN_SITE)
#define tn_grad(loss, of) tn_grad_at(loss, of, TN_SITE)
#define tn_param_grad(f, m, name) tn_param_grad_at(f, m, name, TN_SITE)
#define tn_clip_grad_norm(f, m, max_norm) tn_clip_grad_norm_at(f, m, max_norm, TN_SITE)
#define tn_adamw(f, m, ...) tn_adamw_at(f, m, __VA_ARGS__, TN_SITE)
#define tn_adam(f, m, ...) tn_adam_at(f, m, __VA_ARGS__, TN_SITE)
#define tn_sgd(f, m, ...) tn_sgd_at(f, m, __VA_ARGS__, TN_SITE)

// ---- compiling. Zeros are defaults.
// Buckets: every function is planned for smaller bounds of named dims too, and a run takes the smallest plan that its
// sizes fit. Results have the same bits; a short batch works in less memory.
//
//   tn_compile(p, (&(tn_compile_options){.buckets = TN_BUCKET_LIST({T, 16}, {T, 64})}));    // T is bounded by 256
typedef struct {
  tn_dim dim;  // named, and an axis of an input
  int64_t bound;
} tn_bucket;
#define TN_BUCKET_LIST(...) \
  (const tn_bucket[]){__VA_ARGS__}, sizeof((const tn_bucket[]){__VA_ARGS__}) / sizeof(tn_bucket)
typedef struct {
  uint32_t n_workers;        // 0: one per available CPU, at most 64
  const char *cache_dir;     // NULL: $TN_CACHE, else $XDG_CACHE_HOME/tenure, else $HOME/.cache/tenure; "": no cache
  uint64_t seed;             // of the random stream
  bool fast_math;            // exp, log, tanh .. to 16 ulp instead of 2 where that is faster (docs/vector-math.md)
  bool copy_saved;           // keep what a write in place would take from a backward, with a warning, instead of E112
  const tn_bucket *buckets;  // in any order; bounds of several dims are combined, at most 64 plans for a function
  size_t n_buckets;
  // Products with 4 to 256 rows, by the bound, read a weight fastest from a packed copy of it, which takes as much
  // memory again as the weight (tn_plan.packed_bytes). It is made before the first run that reads it and before the
  // first one after each change. Functions that update the weight themselves read no copy.
  bool no_packed_weights;
} tn_compile_options;
TN_API tn_model *tn_compile_at(tn_program *p, const tn_compile_options *o, tn_site at);  // NULL on error: tn_report
#define tn_compile(p, ...) tn_compile_at(p, __VA_ARGS__, TN_SITE)
TN_API void tn_model_free(tn_model *m);
// A second set of parameters and state over the same code. Freed in any order.
TN_API tn_model *tn_instance(const tn_model *m, uint64_t seed);  // initialised; NULL when out of memory
typedef struct {
  double build_ms, passes_ms, codegen_ms, load_ms;
  bool from_cache;
  uint32_t n_kernels, n_distinct_kernels;
  uint32_t n_variants;  // plans for smaller bounds, of all functions
} tn_compile_info;
TN_API tn_compile_info tn_compile_info_of(const tn_model *m);
typedef struct {
  uint32_t n_kernels, n_inplace, n_copies;
  int64_t copy_bytes, peak_bytes, lower_bound;
  int64_t param_bytes, const_bytes, packed_bytes;  // of the program: all functions share them
} tn_plan;
TN_API tn_status tn_plan_of(const tn_model *m, const char *function, tn_plan *out);
// The plans of a function, smallest first; the last is the one by full bounds, which tn_plan_of gives.
typedef struct {
  const char *bounds;  // "batch <= 8, time <= 16"; "" for full bounds
  tn_plan plan;
  uint64_t n_runs;  // that took it, of this model or instance
} tn_variant;
// Writes up to `max`; gives their number, 0 for no such function.
TN_API uint32_t tn_plan_variants(const tn_model *m, const char *function, tn_variant *out, uint32_t max);
// One copy that writes in place made necessary
typedef struct {
  const char *file;  // of the write; NULL: unknown
  int line;
  const char *reader;       // the operation that still wants the old content, "the caller's input" or "the parameter"
  const char *reader_file;  // where it stands; NULL: unknown
  int reader_line;
  int64_t bytes;  // by the bounds of dims
} tn_plan_copy;
// Writes up to `max`; gives their number, 0 for no such function.
TN_API uint32_t tn_plan_copies(const tn_model *m, const char *function, tn_plan_copy *out, uint32_t max);
// Bytes that one run stores, by the bounds of dims: in all (`what` NULL), by the operations of a source line
// ("train.c:12", matched from the end of the path), or by those that make the value of a name ("loss"). A partial write
// counts the part. -1: no such function.
TN_API int64_t tn_plan_bytes_written(const tn_model *m, const char *function, const char *what);
// Bytes that the kernels of one run read, by the bounds of dims: every value that a kernel reads from memory counts
// once for that kernel, as a whole. `what` names values by who made them, as above; NULL: all. -1: no such function.
TN_API int64_t tn_plan_bytes_read(const tn_model *m, const char *function, const char *what);

// ---- running. One run at a time per model or instance: a second one is TN_ERR_ARGUMENT and does nothing. Any thread
// may run it, and so may a forked child, whose first run starts workers of its own.
typedef struct {
  void *data;
  tn_dtype dtype;
  uint32_t rank;
  int64_t dims[8];
} tn_array;  // row-major, contiguous, the caller's memory
#define TN_NARGS(...) (sizeof((const int64_t[]){0, ##__VA_ARGS__}) / sizeof(int64_t) - 1)
TN_API tn_array tn_array_of(const void *data, tn_dtype t, const int64_t *dims, uint32_t rank);
#define TN_ARRAY(ptr, type, ...)                                                \
  ((tn_array){.data = (void *)(uintptr_t)(const void *)(ptr),                   \
              .dtype = (type),                                                  \
              .rank = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
              .dims = {__VA_ARGS__}})
#define tn_f32(ptr, ...) TN_ARRAY(ptr, TN_F32, __VA_ARGS__)
#define tn_i64(ptr, ...) TN_ARRAY(ptr, TN_I64, __VA_ARGS__)
#define tn_f32_scalar(ptr) tn_array_of(ptr, TN_F32, NULL, 0)
#define TN_IN(...) (const tn_array[]){__VA_ARGS__}, sizeof((const tn_array[]){__VA_ARGS__}) / sizeof(tn_array)
#define TN_OUT(...) (const tn_array[]){__VA_ARGS__}, sizeof((const tn_array[]){__VA_ARGS__}) / sizeof(tn_array)
#define TN_NO_IN NULL, 0
#define TN_NO_OUT NULL, 0
// Inputs and outputs by position. All are checked before anything is written: dtype, rank, sizes against bounds and
// each other, lengths, labels and indices against their ranges. What the run computes of them, an index made by
// tn_argmax for one, is checked in it: after TN_ERR_VALUE outputs may hold anything, while parameters, optimizer state
// and the random stream are as before, except for a change on which that very index depended.
// The calling thread is worker 0 and wants up to 512 KiB of stack; with attention of heads above 1024 elements, 512
// bytes for each element of a head.
TN_API tn_status tn_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out,
                        size_t n_out);
TN_API const char *tn_error_text(const tn_model *m);  // of the last call on this model that failed; "" when none did
TN_API const char *tn_status_text(tn_status s);
TN_API tn_status tn_initialize(tn_model *m, uint64_t seed);  // parameters and state anew
TN_API uint32_t tn_n_workers(const tn_model *m);

// ---- parameters of an instance: by path ("rnn.weight_ih_l0"); state too ("optimizer.exp_avg.rnn.weight_ih_l0",
// "optimizer.lr"; an optimizer of another module than the root has "optimizer.lr.PATH"). Adam counts its steps by
// parameter, "optimizer.step.rnn.weight_ih_l0", as does SGD with dampening, "optimizer.momentum_step...": those that
// always step together have one entry, found under the path of each.
TN_API uint32_t tn_param_count(const tn_model *m);
TN_API const char *tn_param_path(const tn_model *m, uint32_t k);
// A view to read and write between runs; data NULL: no such parameter. A run that updates the parameter does not take
// it as an input, none that uses the parameter as an output. From here until tn_param_end_write, runs take the parameter as
// changed each time: packed copies of it are made again before every run that reads one.
TN_API tn_array tn_param_at(tn_model *m, uint32_t k);
TN_API void tn_param_end_write(tn_model *m, uint32_t k);  // views of it are written no more
TN_API uint64_t tn_n_weight_packs(const tn_model *m);     // packed copies of weights that runs made since m was
TN_API tn_status tn_get(const tn_model *m, const char *path, float *out, size_t n);
TN_API tn_status tn_set(tn_model *m, const char *path, const float *v, size_t n);
// safetensors with PyTorch's names; all or nothing. with_state: optimizer state and the random stream too.
TN_API tn_status tn_save(tn_model *m, const char *path, bool with_state);
TN_API tn_status tn_load(tn_model *m, const char *path, bool with_state);

// Hyper-parameters of one group, or of all, in all optimizers, from the next run on. TN_ERR_ARGUMENT: no such group.
TN_API tn_status tn_set_lr(tn_model *m, uint32_t group, double v);
TN_API tn_status tn_set_lr_all(tn_model *m, double v);
TN_API tn_status tn_set_weight_decay(tn_model *m, uint32_t group, double v);
TN_API tn_status tn_set_weight_decay_all(tn_model *m, double v);
TN_API tn_status tn_set_momentum(tn_model *m, uint32_t group, double v);  // of SGD built with momentum
TN_API tn_status tn_set_momentum_all(tn_model *m, double v);

// All or nothing, one sentence lists everything that does not fit: every parameter of `to` takes the value that `from`,
// of the same or another program, has under that path. with_state: optimizer state and the random stream too, copied.
TN_API tn_status tn_copy_params(tn_model *to, const tn_model *from, bool with_state);
// What the last load that succeeded has to say all the same: nothing was loaded, for one. "" mostly.
TN_API const char *tn_warning_text(const tn_model *m);
typedef struct {
  const char *const *missing, *const *extra;  // paths in the order of the table and the file; until the next load
  const char *const *mismatched;              // another shape or dtype in the file
  uint32_t n_loaded, n_missing, n_extra, n_mismatched;
} tn_load_report;
// Loads what fits. What the file lacks, or has with another shape or dtype, keeps its value and is listed.
TN_API tn_status tn_load_partial(tn_model *m, const char *path, bool with_state, tn_load_report *report);
typedef enum { TN_FILE_F32, TN_FILE_F64, TN_FILE_F16, TN_FILE_BF16 } tn_file_dtype;
typedef struct {
  bool with_state;
  tn_file_dtype dtype;  // in the file, rounded to nearest even; loading converts back
  const char *pattern;  // of the f32 entries that it is for; NULL: all
} tn_save_options;
TN_API tn_status tn_save_as(tn_model *m, const char *path, const tn_save_options *o);
// Several models as one store: every path stands behind its part's prefix ("enc."). A name that two parts give is an
// error. At most 64 parts; the sentence about a mistake is in the first part's model.
typedef struct {
  tn_model *model;
  const char *prefix;  // NULL: none
} tn_part;
TN_API tn_status tn_save_merged(const tn_part *parts, size_t n, const char *path, bool with_state);
TN_API tn_status tn_load_merged(const tn_part *parts, size_t n, const char *path, bool with_state);

// ---- seeing
typedef enum { TN_DUMP_IR, TN_DUMP_LIFETIMES, TN_DUMP_SUMMARY } tn_dump_kind;
// IR: the program as built, as .tir text. LIFETIMES: after placement, with source lines (compile first). SUMMARY:
// arena, peak, bound, and the rows of packed sequences against those of padded ones, of every plan. A plan for smaller
// bounds is the function "step.time16".
TN_API tn_status tn_dump(const tn_program *p, FILE *out, tn_dump_kind kind);
TN_API tn_status tn_dump_function(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind);

#include "tenure_site.h"

#ifdef __cplusplus
}
#endif

#include "tenure_data.h"  // data sets, loaders, progress
#endif
