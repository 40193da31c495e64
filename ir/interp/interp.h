// What the files of the interpreter share. Every op is one function: it reads its operands' values and makes its
// results'.
#ifndef TN_IR_INTERP_INTERP_H
#define TN_IR_INTERP_INTERP_H

#include "ir/ir.h"

typedef struct {
  const Fn *f;
  InterpEnv *env;
  Tensor *val;  // by value
  RtText *why;
} Run;

typedef bool RunOp(Run *r, Val v);  // false: `why` says it
extern RunOp *const ir_run_of[N_OPS];

typedef struct {
  uint32_t rank;
  int64_t dim[MAX_RANK];
} Sizes;

static inline Tensor run_arg(const Run *r, Val v, uint32_t k) { return r->val[ir_arg(r->f, v, k).i]; }
// By name; absent: an empty one, whose v is NULL.
static inline Tensor run_operand(const Run *r, Val v, ArgName name) { return r->val[ir_operand(r->f, v, name).i]; }
Tensor run_result(Run *r, Val v, uint32_t k);  // allocates result k, zeroed, with its shape's run-time size
Sizes run_sizes(const Run *r, Val v);          // of a value, at run time
Sizes run_arg_sizes(const Run *r, Val v, uint32_t k);
int64_t run_cols(const Sizes *s);  // size of the last axis
bool run_fail(Run *r, Val v, const char *fmt, ...) RT_PRINTF(3, 4);

// Flat offset, under `stride`, of the element with flat row-major index `flat` in a shape of size `s`.
int64_t run_offset(const Sizes *s, const int64_t *stride, int64_t flat);
void run_strides(const Sizes *s, int64_t *stride);                        // row-major
void run_broadcast(const Sizes *from, const Sizes *to, int64_t *stride);  // of `from`, read as if it had shape `to`

// X as single precision might have it; scale: of the terms behind it
double run_rounded(Run *r, double x, double scale);
static inline double run_single(const Run *r, double x) { return r->env->single ? (double)(float)x : x; }

RunOp run_pointwise, run_cast, run_stop_grad, run_assign;                         // pointwise.c
RunOp run_reshape, run_expand, run_permute, run_slice, run_pad_axis, run_concat;  // shape.c
RunOp run_slice_assign, run_index_assign;                                         // slice_update.c
RunOp run_seq_part, run_seq_sum, run_seq_best, run_seq_select, run_seq_broadcast, run_seq_scatter, run_seq_softmax,
    run_seq_softmax_grad, run_seq_reverse, run_seq_list;  // packed_reduce.c
RunOp run_sum, run_amax, run_argmax, run_softmax, run_softmax_grad, run_log_softmax,
    run_log_softmax_grad;                                                       // reduce.c
RunOp run_cross_entropy_rows, run_cross_entropy_rows_grad;                      // reduce.c
RunOp run_layer_norm, run_layer_norm_grad, run_rms_norm, run_rms_norm_grad;     // norm.c
RunOp run_matmul, run_linear, run_embedding, run_embedding_grad;                // matmul.c
RunOp run_packed_layout, run_dense_layout, run_pack_padded, run_unpack_padded;  // packed.c
RunOp run_rnn_seq, run_rnn_seq_grad;                                            // rnn.c
RunOp run_global_norm, run_adamw, run_sgd, run_sgd_momentum;                    // optimizer.c
RunOp run_scan;                                                                 // scan.c

RunOp run_sdpa, run_sdpa_grad;  // attention.c
RunOp run_adamw_sparse;         // optimizer.c

#endif
