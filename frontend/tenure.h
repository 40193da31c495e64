// Tenure: neural networks, training steps included, compiled to native CPU code from C.
//
//   tn_program *p = tn_program_create("mlp");
//   tn_dim B = tn_dim_upto(p, "batch", 32);
//   tn_module *fc = tn_linear(tn_root(p), "fc", 8, 3, NULL);
//   tn_function *f = tn_function_begin(p, "predict");
//   tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, tn_size(8)));
//   tn_output(f, "y", tn_call1(fc, x));
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
// never print and never abort; tn_error_text says what was wrong in a sentence.
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
  uint32_t d;
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
TN_API tn_dim tn_dim_upto_at(tn_program *p, const char *name, int64_t bound, tn_site at);
#define tn_dim_upto(p, name, bound) tn_dim_upto_at(p, name, bound, TN_SITE)
TN_API tn_dim tn_size(int64_t n);  // a constant, in [0, 2^30)

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

// ---- scopes: the newest open scope owns what is created
TN_API tn_scope *tn_scope_begin_at(tn_function *f, const char *name, tn_site at);
TN_API void tn_scope_end_at(tn_scope *s, tn_site at);
// To the parent of its owner; at the function's own scope: detached
TN_API tn_tensor tn_move_to_outer_at(tn_tensor t, tn_site at);
TN_API tn_tensor tn_move_to_at(tn_tensor t, tn_scope *s, tn_site at);
TN_API tn_tensor tn_detach_from_scope_at(tn_tensor t, tn_site at);
TN_API void tn_dispose_at(tn_tensor t, tn_site at);
#define tn_scope_begin(f, name) tn_scope_begin_at(f, name, TN_SITE)
#define tn_scope_end(s) tn_scope_end_at(s, TN_SITE)
#define tn_move_to_outer(t) tn_move_to_outer_at(t, TN_SITE)
#define tn_move_to(t, s) tn_move_to_at(t, s, TN_SITE)
#define tn_detach_from_scope(t) tn_detach_from_scope_at(t, TN_SITE)
#define tn_dispose(t) tn_dispose_at(t, TN_SITE)

// ---- operations. Shapes broadcast as in NumPy; f32 unless said; axes may be negative.
// One call for each pointwise row of ir/ops.def: tn_relu(x), tn_add(a, b), tn_select(c, a, b), ..
// clang-format off
#define TN_UNARY_CALLS(X) \
  X(neg) X(abs) X(exp) X(log) X(sqrt) X(tanh) X(sigmoid) X(erf) X(sin) X(cos) X(floor) X(relu) X(square) X(rsqrt) \
  X(silu) X(gelu) X(softplus)
#define TN_BINARY_CALLS(X) \
  X(add) X(sub) X(mul) X(div) X(max) X(min) X(pow) X(gt) X(ge) X(lt) X(le) X(eq) X(ne) X(matmul)
// clang-format on
#define X(n) TN_API tn_tensor tn_##n##_at(tn_tensor a, tn_site at);
TN_UNARY_CALLS(X)
#undef X
#define X(n) TN_API tn_tensor tn_##n##_at(tn_tensor a, tn_tensor b, tn_site at);
TN_BINARY_CALLS(X)
#undef X
#define tn_neg(a) tn_neg_at(a, TN_SITE)
#define tn_abs(a) tn_abs_at(a, TN_SITE)
#define tn_exp(a) tn_exp_at(a, TN_SITE)
#define tn_log(a) tn_log_at(a, TN_SITE)
#define tn_sqrt(a) tn_sqrt_at(a, TN_SITE)
#define tn_tanh(a) tn_tanh_at(a, TN_SITE)
#define tn_sigmoid(a) tn_sigmoid_at(a, TN_SITE)
#define tn_erf(a) tn_erf_at(a, TN_SITE)
#define tn_sin(a) tn_sin_at(a, TN_SITE)
#define tn_cos(a) tn_cos_at(a, TN_SITE)
#define tn_floor(a) tn_floor_at(a, TN_SITE)
#define tn_relu(a) tn_relu_at(a, TN_SITE)
#define tn_square(a) tn_square_at(a, TN_SITE)
#define tn_rsqrt(a) tn_rsqrt_at(a, TN_SITE)
#define tn_silu(a) tn_silu_at(a, TN_SITE)
#define tn_gelu(a) tn_gelu_at(a, TN_SITE)
#define tn_softplus(a) tn_softplus_at(a, TN_SITE)
#define tn_add(a, b) tn_add_at(a, b, TN_SITE)
#define tn_sub(a, b) tn_sub_at(a, b, TN_SITE)
#define tn_mul(a, b) tn_mul_at(a, b, TN_SITE)
#define tn_div(a, b) tn_div_at(a, b, TN_SITE)
#define tn_max(a, b) tn_max_at(a, b, TN_SITE)
#define tn_min(a, b) tn_min_at(a, b, TN_SITE)
#define tn_pow(a, b) tn_pow_at(a, b, TN_SITE)
#define tn_gt(a, b) tn_gt_at(a, b, TN_SITE)
#define tn_ge(a, b) tn_ge_at(a, b, TN_SITE)
#define tn_lt(a, b) tn_lt_at(a, b, TN_SITE)
#define tn_le(a, b) tn_le_at(a, b, TN_SITE)
#define tn_eq(a, b) tn_eq_at(a, b, TN_SITE)
#define tn_ne(a, b) tn_ne_at(a, b, TN_SITE)
#define tn_matmul(a, b) tn_matmul_at(a, b, TN_SITE)                                   // [.., M, K] x [.., K, N]
TN_API tn_tensor tn_select_at(tn_tensor cond, tn_tensor a, tn_tensor b, tn_site at);  // a where cond != 0, else b
TN_API tn_tensor tn_leaky_relu_at(tn_tensor a, double slope, tn_site at);
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
// Mean over rows of -log softmax(logits)[label]; logits [.., C] f32, labels [..] i64 in [0, C).
TN_API tn_tensor tn_cross_entropy_at(tn_tensor logits, tn_tensor labels, tn_site at);
TN_API tn_tensor tn_mse_at(tn_tensor a, tn_tensor b, tn_site at);  // mean of (a - b)^2
#define tn_select(c, a, b) tn_select_at(c, a, b, TN_SITE)
#define tn_leaky_relu(a, slope) tn_leaky_relu_at(a, slope, TN_SITE)
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
#define tn_mse(a, b) tn_mse_at(a, b, TN_SITE)

// ---- packed sequences: (data [rows, ..], layout), one managed value
typedef struct {
  tn_tensor data, layout;
} tn_packed;
typedef struct {
  bool batch_first;     // x is [B, T, ..]; else [T, B, ..]
  bool enforce_sorted;  // refuse lengths that are not in decreasing order, as PyTorch's default does
} tn_pack_options;      // NULL: batch_first, not enforced
// Lengths i64 [B], each in [1, T]
TN_API tn_packed tn_pack_padded_at(tn_tensor x, tn_tensor lengths, const tn_pack_options *o, tn_site at);
TN_API tn_packed tn_pack_constant_at(tn_tensor x, const int64_t *lengths, uint32_t n, const tn_pack_options *o,
                                     tn_site at);
// [B, T, ..], `value` beyond each length
TN_API tn_tensor tn_pad_packed_at(tn_packed s, double value, bool batch_first, tn_site at);
// Other data [rows, ..], the same layout
TN_API tn_packed tn_packed_with_data_at(tn_packed s, tn_tensor data, tn_site at);
#define tn_pack_padded(x, lengths, o) tn_pack_padded_at(x, lengths, o, TN_SITE)
#define tn_pack_constant(x, lengths, n, o) tn_pack_constant_at(x, lengths, n, o, TN_SITE)
#define tn_pad_packed(s, value, batch_first) tn_pad_packed_at(s, value, batch_first, TN_SITE)
#define tn_packed_with_data(s, data) tn_packed_with_data_at(s, data, TN_SITE)

// ---- parameters: the table of the program; a parameter's initial value is a graph, run by tn_initialize
typedef struct {
  enum { TN_INIT_ZEROS, TN_INIT_CONSTANT, TN_INIT_UNIFORM, TN_INIT_NORMAL } kind;
  double a, b;  // CONSTANT: a; UNIFORM: [a, b); NORMAL: mean a, standard deviation b
} tn_init;
TN_API tn_module *tn_root(tn_program *p);
TN_API tn_module *tn_module_new_at(tn_module *parent, const char *name, tn_site at);
TN_API tn_module *tn_child(tn_module *m, const char *name);  // NULL: none
// Shape of constants
TN_API void tn_parameter_at(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);
TN_API void tn_buffer_at(tn_module *m, const char *name, tn_shape s, tn_init init, tn_site at);  // saved, not trained
// A second path to one parameter
TN_API void tn_share_at(tn_module *m, const char *name, tn_module *from, const char *from_name, tn_site at);
TN_API tn_tensor tn_use_at(tn_function *f, tn_module *m, const char *name, tn_site at);  // its value in this function
TN_API void tn_freeze(tn_module *m, bool frozen);  // parameters below m get no gradient in functions built afterwards
#define tn_module_new(parent, name) tn_module_new_at(parent, name, TN_SITE)
#define tn_parameter(m, name, s, init) tn_parameter_at(m, name, s, init, TN_SITE)
#define tn_buffer(m, name, s, init) tn_buffer_at(m, name, s, init, TN_SITE)
#define tn_share(m, name, from, from_name) tn_share_at(m, name, from, from_name, TN_SITE)
#define tn_use(f, m, name) tn_use_at(f, m, name, TN_SITE)

// ---- modules. Parameter names, shapes, gate order and initialisation are PyTorch's.
typedef struct {
  bool no_bias;
} tn_linear_options;
typedef struct {
  bool bidirectional, no_bias;
  uint32_t n_layers;  // 0: 1
  double dropout;     // between layers
} tn_rnn_options;
TN_API tn_module *tn_linear_at(tn_module *parent, const char *name, int64_t in, int64_t out, const tn_linear_options *o,
                               tn_site at);
TN_API tn_module *tn_lstm_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, const tn_rnn_options *o,
                             tn_site at);
TN_API tn_module *tn_gru_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, const tn_rnn_options *o,
                            tn_site at);
TN_API tn_module *tn_rnn_at(tn_module *parent, const char *name, int64_t in, int64_t hidden, bool relu,
                            const tn_rnn_options *o, tn_site at);
TN_API tn_module *tn_embedding_at(tn_module *parent, const char *name, int64_t count, int64_t size, tn_site at);
TN_API tn_module *tn_dropout_module_at(tn_module *parent, const char *name, double p, tn_site at);
// "relu", "tanh", any unary row
TN_API tn_module *tn_activation_at(tn_module *parent, const char *name, const char *op, tn_site at);
// Children are made with it as parent and called in order
TN_API tn_module *tn_sequential_at(tn_module *parent, const char *name, tn_site at);
TN_API tn_tensor tn_call1_at(tn_module *m, tn_tensor x, tn_site at);
// Dropout does nothing in functions marked so: what is built after this call
TN_API void tn_eval(tn_function *f, bool eval);
#define tn_linear(parent, name, in, out, o) tn_linear_at(parent, name, in, out, o, TN_SITE)
#define tn_lstm(parent, name, in, hidden, o) tn_lstm_at(parent, name, in, hidden, o, TN_SITE)
#define tn_gru(parent, name, in, hidden, o) tn_gru_at(parent, name, in, hidden, o, TN_SITE)
#define tn_rnn(parent, name, in, hidden, relu, o) tn_rnn_at(parent, name, in, hidden, relu, o, TN_SITE)
#define tn_embedding(parent, name, count, size) tn_embedding_at(parent, name, count, size, TN_SITE)
#define tn_dropout_module(parent, name, p) tn_dropout_module_at(parent, name, p, TN_SITE)
#define tn_activation(parent, name, op) tn_activation_at(parent, name, op, TN_SITE)
#define tn_sequential(parent, name) tn_sequential_at(parent, name, TN_SITE)
#define tn_call1(m, x) tn_call1_at(m, x, TN_SITE)

typedef struct {
  tn_packed out;      // [rows, directions * hidden]
  tn_tensor hidden;   // [layers * directions, B, hidden], user order
  tn_tensor cell;     // the same for an LSTM; an empty handle otherwise
  tn_tensor last[2];  // private: the last layer's final states, by direction
  uint32_t n_last;    // private
} tn_rnn_output;
typedef struct {
  tn_tensor h0, c0;
} tn_rnn_state;  // [layers * directions, B, hidden], user order
// Initial NULL: zeros
TN_API tn_rnn_output tn_rnn_call_at(tn_module *m, tn_packed x, const tn_rnn_state *initial, tn_site at);
// The last layer's directions side by side: [B, directions * hidden]
TN_API tn_tensor tn_last_hidden_at(tn_rnn_output r, tn_site at);
#define tn_rnn_call(m, x, initial) tn_rnn_call_at(m, x, initial, TN_SITE)
#define tn_last_hidden(r) tn_last_hidden_at(r, TN_SITE)

// ---- training: gradients of a loss, clipping and the update stand in the same function
// A scalar; adds to the gradients of all trainable parameters that it reaches
TN_API void tn_backward_at(tn_tensor loss, tn_site at);
TN_API tn_tensor tn_grad_at(tn_tensor loss, tn_tensor of, tn_site at);  // d loss / d of, as a value
TN_API tn_tensor tn_param_grad_at(tn_function *f, tn_module *m, const char *name, tn_site at);  // after tn_backward
// Scales all gradients below m; gives the norm before
TN_API tn_tensor tn_clip_grad_norm_at(tn_function *f, tn_module *m, double max_norm, tn_site at);
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
#define tn_backward(loss) tn_backward_at(loss, TN_SITE)
#define tn_grad(loss, of) tn_grad_at(loss, of, TN_SITE)
#define tn_param_grad(f, m, name) tn_param_grad_at(f, m, name, TN_SITE)
#define tn_clip_grad_norm(f, m, max_norm) tn_clip_grad_norm_at(f, m, max_norm, TN_SITE)
#define tn_adamw(f, m, o) tn_adamw_at(f, m, o, TN_SITE)
#define tn_adam(f, m, o) tn_adam_at(f, m, o, TN_SITE)
#define tn_sgd(f, m, o) tn_sgd_at(f, m, o, TN_SITE)

// ---- compiling. Zeros are defaults.
typedef struct {
  uint32_t n_workers;     // 0: one per available CPU, at most 64
  const char *cache_dir;  // NULL: $TN_CACHE, else $XDG_CACHE_HOME/tenure, else $HOME/.cache/tenure; "": no cache
  uint64_t seed;          // of the random stream
} tn_compile_options;
TN_API tn_model *tn_compile_at(tn_program *p, const tn_compile_options *o, tn_site at);  // NULL on error: tn_report
#define tn_compile(p, o) tn_compile_at(p, o, TN_SITE)
TN_API void tn_model_free(tn_model *m);
// A second set of parameters and state over the same code. Freed in any order.
TN_API tn_model *tn_instance(const tn_model *m, uint64_t seed);  // initialised; NULL when out of memory
typedef struct {
  double build_ms, passes_ms, codegen_ms, load_ms;
  bool from_cache;
  uint32_t n_kernels, n_distinct_kernels;
} tn_compile_info;
TN_API tn_compile_info tn_compiled(const tn_model *m);
typedef struct {
  uint32_t n_kernels, n_inplace, n_copies;
  int64_t copy_bytes, peak_bytes, lower_bound, param_bytes, const_bytes;
} tn_plan;
TN_API tn_status tn_plan_of(const tn_model *m, const char *function, tn_plan *out);

// ---- running. Not reentrant: one run at a time per model or instance.
typedef struct {
  void *data;
  tn_dtype dtype;
  uint32_t rank;
  int64_t dims[8];
} tn_array;  // row-major, contiguous, the caller's memory
#define TN_NARGS(...) (sizeof((const int64_t[]){0, ##__VA_ARGS__}) / sizeof(int64_t) - 1)
TN_API tn_array tn_array_of(const void *data, tn_dtype t, const int64_t *dims, uint32_t rank);
#define tn_f32(ptr, ...) \
  tn_array_of(ptr, TN_F32, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define tn_i64(ptr, ...) \
  tn_array_of(ptr, TN_I64, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define tn_f32_scalar(ptr) tn_array_of(ptr, TN_F32, NULL, 0)
#define TN_IN(...) (const tn_array[]){__VA_ARGS__}, sizeof((const tn_array[]){__VA_ARGS__}) / sizeof(tn_array)
#define TN_OUT(...) (const tn_array[]){__VA_ARGS__}, sizeof((const tn_array[]){__VA_ARGS__}) / sizeof(tn_array)
#define TN_NO_IN NULL, 0
#define TN_NO_OUT NULL, 0
// Inputs and outputs by position. All are checked before anything is written: dtype, rank, sizes against bounds and
// each other, lengths, labels and indices against their ranges.
TN_API tn_status tn_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out,
                        size_t n_out);
TN_API const char *tn_error_text(const tn_model *m);  // of the last call on this model that failed; "" when none did
TN_API const char *tn_status_text(tn_status s);
TN_API tn_status tn_initialize(tn_model *m, uint64_t seed);  // parameters and state anew
TN_API uint32_t tn_n_workers(const tn_model *m);

// ---- parameters of an instance: by path ("rnn.weight_ih_l0"); state too ("optimizer.exp_avg.rnn.weight_ih_l0",
// "optimizer.lr"; an optimizer of another module than the root has "optimizer.lr.PATH" and "optimizer.step.PATH")
TN_API uint32_t tn_param_count(const tn_model *m);
TN_API const char *tn_param_path(const tn_model *m, uint32_t k);
TN_API tn_array tn_param_at(tn_model *m, uint32_t k);  // a view; data NULL: no such parameter
TN_API tn_status tn_get(const tn_model *m, const char *path, float *out, size_t n);
TN_API tn_status tn_set(tn_model *m, const char *path, const float *v, size_t n);
// safetensors with PyTorch's names; all or nothing. with_state: optimizer state and the random stream too.
TN_API tn_status tn_save(tn_model *m, const char *path, bool with_state);
TN_API tn_status tn_load(tn_model *m, const char *path, bool with_state);

// ---- seeing
typedef enum { TN_DUMP_IR, TN_DUMP_LIFETIMES, TN_DUMP_SUMMARY } tn_dump_kind;
// IR: the program as built, as .tir text. LIFETIMES: after placement, with source lines (compile first). SUMMARY:
// arena, peak, bound.
TN_API tn_status tn_dump(const tn_program *p, FILE *out, tn_dump_kind kind);
TN_API tn_status tn_dump_function(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind);

// ---- data: UEA/UCR .ts files (multivariate time series classification)
typedef struct tn_series tn_series;
// NULL: `error` says file:line and why
TN_API tn_series *tn_series_read(const char *path, char *error, size_t error_size);
TN_API void tn_series_free(tn_series *s);
TN_API size_t tn_series_count(const tn_series *s);
TN_API uint32_t tn_series_features(const tn_series *s);
TN_API uint32_t tn_series_max_length(const tn_series *s);
TN_API uint32_t tn_series_classes(const tn_series *s);
TN_API uint32_t tn_series_length(const tn_series *s, size_t k);
TN_API uint32_t tn_series_label(const tn_series *s, size_t k);       // 0-based, in the order of the header's class list
TN_API const float *tn_series_values(const tn_series *s, size_t k);  // [length, features]
TN_API void tn_shuffle(size_t *order, size_t n, uint64_t seed);      // 0 .. n-1 in an order fixed by the seed

// ---- progress: a bar on a terminal, plain lines elsewhere
typedef struct tn_progress tn_progress;
TN_API tn_progress *tn_progress_begin(FILE *out, const char *what, size_t total);
TN_API void tn_progress_step(tn_progress *p, size_t done, const char *fmt, ...);
TN_API void tn_progress_end(tn_progress *p);

#ifdef __cplusplus
}
#endif
#endif
