// What the files of the interpreter share. Every op is one function: it reads its operands' values and makes its
// results'.
#ifndef TN_IR_INTERP_INTERP_H
#define TN_IR_INTERP_INTERP_H

#include "ir/interp/interpret.h"
#include "ir/ir.h"
#include "ir/ops.h"

typedef struct {
  const Fn *f;
  InterpEnv *env;
  Tensor *val;  // by value
  RtText *why;
} Run;

typedef bool EvalOp(Run *r, Val v);  // false: `why` says it
extern EvalOp *const ir_eval_of[N_OPS];

typedef struct {
  uint32_t rank;
  int64_t dim[MAX_RANK];
} Sizes;

static inline Tensor run_arg(const Run *r, Val v, uint32_t k) { return r->val[ir_arg(r->f, v, k).i]; }
// By name; absent: an empty one, whose v is NULL.
static inline Tensor run_operand(const Run *r, Val v, ArgName name) { return r->val[ir_operand(r->f, v, name).i]; }
// Of an update by rows: the gradient of the whole table, and which rows change
bool run_rows_of_update(Run *r, Val v, Tensor *gradient, bool **named);
// Does this process change element i of the result that v writes?
bool run_is_owned(const Run *r, Val v, int64_t i);
Tensor run_result(Run *r, Val v, uint32_t k);  // allocates result k, zeroed, with its shape's run-time size
Sizes run_sizes(const Run *r, Val v);          // of a value, at run time
Sizes run_arg_sizes(const Run *r, Val v, uint32_t k);
int64_t run_cols(const Sizes *s);  // size of the last axis
bool run_fail(Run *r, Val v, const char *fmt, ...) RT_PRINTF(3, 4);

// Flat offset, under `stride`, of the element with flat row-major index `flat` in a shape of size `s`.
int64_t run_offset(const Sizes *s, const int64_t *stride, int64_t flat);
void run_strides(const Sizes *s, int64_t *stride);                        // row-major
void run_broadcast(const Sizes *from, const Sizes *to, int64_t *stride);  // of `from`, read as if it had shape `to`

// Operands of a pointwise op, and the strides at which its result reads them.
typedef struct {
  Tensor arg[3];
  int64_t stride[3][MAX_RANK];
  Sizes to;
} RunOperands;
RunOperands run_operands(const Run *r, Val v);

// Where the elements of slice and slice_assign lie in the whole; false: out of range.
typedef struct {
  int64_t base, stride[MAX_RANK];
} RunSlice;
bool run_slice(Run *r, Val v, const Sizes *whole, int64_t count, RunSlice *out);

double run_cast(DType from, DType to, double x);  // x of dtype `from` as an element of `to`
double run_wrapped(DType t, int64_t x);           // x modulo 2^bits, as an element of that whole-number dtype
double run_converted(DType t, double x);          // x, a number, as an element of that dtype

// whole.c: elements of whole numbers and bool, exactly
int64_t run_whole(const Tensor *t, int64_t i);  // element i
void run_set_whole(Run *r, Tensor *t, int64_t i, int64_t x);
int64_t run_whole_primitive(Op op, DType t, int64_t a, int64_t b, int64_t c);
bool run_pointwise_whole(Run *r, Val v, DType t);  // v, whose operands are of t
bool run_low_plane(Run *r, Val v);                 // Tensor.low of v, which only moves elements

// x as single precision might compute it; scale: magnitude of the terms it was made of
double run_rounded(Run *r, double x, double scale);
double run_any_sign(Run *r, double x);  // |x| or -|x|
static inline double run_single(const Run *r, double x) { return r->env->single ? (double)(float)x : x; }

// Ops that share one function
#define eval_result eval_nothing
#define eval_scope_begin eval_nothing
#define eval_scope_end eval_nothing
#define eval_move eval_nothing
#define eval_attach eval_nothing
#define eval_dispose eval_nothing
#define eval_overwritten eval_grad_of
#define eval_clone eval_stop_grad
#define eval_bitwise_and eval_pointwise
#define eval_bitwise_or eval_pointwise
#define eval_bitwise_xor eval_pointwise
#define eval_bitwise_not eval_pointwise
#define eval_bitwise_left_shift eval_pointwise
#define eval_bitwise_right_shift eval_pointwise
#define eval_grad_replace eval_stop_grad
#define eval_shard_mean eval_stop_grad
#define eval_exchanged eval_stop_grad
#define eval_rows eval_stop_grad
#define eval_exchange_end eval_exchange_begin
#define eval_seq_max eval_seq_best
#define eval_seq_min eval_seq_best
#define eval_seq_from_list eval_seq_list
#define eval_seq_to_list eval_seq_list
#define eval_scan_begin eval_scan_mark
#define eval_scan_input eval_scan_mark
#define eval_scan_carry eval_scan_mark
#define eval_scan_next eval_scan_mark
#define eval_scan_output eval_scan_mark
#define eval_scan_final eval_scan_mark
#define eval_scan_end eval_scan_mark

// One for each row of ir/ops.def that is not pointwise; each stands in the file that its group of ops is named for.
EvalOp eval_pointwise;
#define OP(n, ...) EvalOp eval_##n;
#include "ir/ops.def"

#endif
