// Emitting one kernel: what an emitter is given, and the builders of LLVM IR that all of them use. Only this folder includes
// llvm-c.
//
// A kernel becomes  void kN(TnFrame *f, i32 worker, i32 n_workers, ptr p0.., i64 d0.., i32 id0..)  where the p are its
// ports (stored values it reads or writes), the d the run-time dims that its shapes name, the ids its random streams.
// Kernels with equal keys (ir text with renumbered values, without ids) are emitted once. Every worker of the team
// calls every kernel; a kernel splits its work by (worker, n_workers) itself, so that the result of each element never
// depends on n_workers: the order of every sum is fixed by shapes. The entry function calls kernels in order, with a
// barrier where memory written by one kernel since the last barrier is touched by the next (hazards are tracked per
// buffer).
#ifndef TN_CG_H
#define TN_CG_H

#include "codegen/target.h"
#include "ir/ir.h"
#include "runtime/names.h"
#include <llvm-c/Core.h>

// ---- the emission context of one kernel
typedef struct {
  Val v;  // the stored value
  bool reads, writes;
} KernelArg;
typedef struct {
  LLVMContextRef ctx;
  LLVMModuleRef mod;
  LLVMBuilderRef b;
  const Target *t;
  RtArena *mem;         // of the module
  const char *program;  // with which its symbols begin
  RtNames *helpers;     // functions of the program that some module has: cg_helper
  LLVMTypeRef i1, i8, i32, i64, f32, f64, ptr, vf, vi32, vi64, vmask;  // v*: <vl x ..>
  // the kernel at hand
  const Fn *f;
  const Kernel *k;
  LLVMValueRef fn, frame, worker, n_workers;  // worker and n_workers as i64
  KernelArg *kernel_args;
  uint32_t n_kernel_args;
  LLVMValueRef *kernel_arg_ptr;
  LLVMValueRef scratch;  // pointer to k->scratch, or NULL
  LLVMValueRef weight;   // pointer to the packed copy of a weight, or NULL
  Dim *dims;             // symbolic dims passed as arguments
  uint32_t n_dims;
  LLVMValueRef *dim_val;
  Val *ids;  // values whose {id} is passed as an argument, and slices whose line is
  uint32_t n_ids;
  LLVMValueRef *id_val;
  LLVMValueRef keys, keys_of;  // of random numbers, and the function that they were made in (math/primitives.c)
  // private blocks (blocks.c)
  int64_t stack_used, frame_used, worker_used;  // bytes
  RtText *why;                                  // set on failure
} Cg;

// ---- codegen/builder.c: small builders. All sizes and indices are i64.
LLVMValueRef cg_i64(Cg *c, int64_t v);
LLVMValueRef cg_i32(Cg *c, int32_t v);
LLVMValueRef cg_f32(Cg *c, double v);
LLVMValueRef cg_splat(Cg *c, LLVMValueRef scalar);  // f32/i32/i64 -> vector of vl
LLVMValueRef cg_splat_n(Cg *c, LLVMValueRef scalar, uint32_t n);
LLVMValueRef cg_lane_numbers(Cg *c);  // vi64: 0 .. vl-1
LLVMValueRef cg_dim(Cg *c, Dim d);    // i64: a constant, an argument, or products and sums of them
LLVMValueRef cg_numel(Cg *c, Shape s);
LLVMValueRef cg_ptr(Cg *c, Val v);        // storage of a stored value (views resolve to their buffer)
bool cg_stored(Cg *c, Val v);             // has a port
LLVMValueRef cg_id(Cg *c, Val v);         // i32
int32_t cg_id_value(const Fn *f, Val v);  // what the caller of the kernel passes as that: {id}, or the line of a slice
LLVMValueRef cg_add(Cg *c, LLVMValueRef a, LLVMValueRef b);  // i64 arithmetic that folds constants
LLVMValueRef cg_sub(Cg *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cg_mul(Cg *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cg_div(Cg *c, LLVMValueRef a, LLVMValueRef b);  // unsigned
bool cg_const_value(LLVMValueRef v, int64_t *value);         // an integer constant
LLVMValueRef cg_ceil_div_value(Cg *c, LLVMValueRef n, int64_t unit);
LLVMValueRef cg_min(Cg *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cg_max(Cg *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cg_at(Cg *c, LLVMTypeRef elem, LLVMValueRef base, LLVMValueRef index);  // &base[index]
// At element alignment (4 for f32 and vectors of it, 8 for i64)
LLVMValueRef cg_load(Cg *c, LLVMTypeRef t, LLVMValueRef p);
void cg_store(Cg *c, LLVMValueRef v, LLVMValueRef p);
LLVMValueRef cg_mask(Cg *c, LLVMValueRef n);  // lanes 0 .. n-1 of vl set; n i64, may exceed vl
LLVMValueRef cg_load_masked(Cg *c, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef mask);  // zero where unset
void cg_store_masked(Cg *c, LLVMValueRef v, LLVMValueRef p, LLVMValueRef mask);
LLVMValueRef cg_fma(Cg *c, LLVMValueRef a, LLVMValueRef b, LLVMValueRef d);  // a b + d, scalar or vector
// What computes these n vectors, at least one, comes before loads and stores that follow; no instruction. Where LLVM has a name
// for vector registers (Target.vector_register).
void cg_keep_order(Cg *c, LLVMValueRef *v, uint32_t n);
LLVMValueRef cg_opaque(Cg *c, LLVMValueRef x);  // x in a register, of which LLVM knows nothing; no instruction
void cg_prefetch_l2(Cg *c, LLVMValueRef at);    // prefetch into L2
void cg_prefetch_l1(Cg *c, LLVMValueRef at);    // into L1
LLVMValueRef cg_call_intrinsic(Cg *c, const char *name, LLVMTypeRef *over, uint32_t n_over, LLVMValueRef *args,
                               uint32_t n);
LLVMValueRef cg_reduce_add(Cg *c, LLVMValueRef v);  // fixed tree: halves, then halves of halves
LLVMValueRef cg_reduce_max(Cg *c, LLVMValueRef v);
LLVMValueRef cg_any_lane(Cg *c, LLVMValueRef mask);  // i1: is one set?
LLVMValueRef cg_nan_lanes(Cg *c, LLVMValueRef v);
uint32_t cg_sum_lanes(const Target *t);  // partial sums that a row's elements go to in turn: as many on all targets
// The lanes of the vector that begins at element `first` of `left` elements: false where it is known that there are none,
// *mask NULL where all are.
bool cg_lanes_left(Cg *c, LLVMValueRef left, int64_t first, LLVMValueRef *mask);
LLVMValueRef cg_reduce_lanes(Cg *c, Op join, LLVMValueRef v);  // by a primitive of two operands
// ---- codegen/transpose.c
// Transposes one vl x vl block: dst[i * dst_ld + j] = src[j * ld + i] for j < rows, i < cols; 0 elsewhere in the block.
void cg_transpose_block(Cg *c, LLVMValueRef src, LLVMValueRef ld, LLVMValueRef rows, LLVMValueRef cols,
                        LLVMValueRef dst, LLVMValueRef dst_ld);
void cg_transpose(Cg *c, LLVMValueRef *row);  // vl vectors, in place
// ---- codegen/frame.c: fields of TnFrame and functions of TnServices, named by their offsetof in this process
LLVMValueRef cg_frame_at(Cg *c, size_t field);   // address
LLVMValueRef cg_frame_ptr(Cg *c, size_t field);  // the pointer in it
LLVMValueRef cg_service(Cg *c, size_t service);  // a function
// ---- codegen/blocks.c: private memory of a worker, while its kernel runs; in the entry block, aligned to TN_ALIGN
LLVMValueRef cg_block(Cg *c, LLVMTypeRef elem, int64_t n);  // n of f32, i32, i64 or pointers
LLVMValueRef cg_stack_block(Cg *c, LLVMTypeRef elem,
                            int64_t n);          // on the stack always: of functions that kernels share
LLVMValueRef cg_worker_block(Cg *c, int64_t n);  // n of f32, of Target.worker_bytes if there is room
void cg_begin_blocks(Cg *c);                     // of a kernel
// ---- codegen/dtype.c: elements of a number dtype in memory
LLVMTypeRef cg_elem_type(Cg *c, DType t);
LLVMTypeRef cg_vector_type(Cg *c, DType t, uint32_t lanes);  // of one lane: the element
LLVMValueRef cg_convert(Cg *c, DType from, DType to, LLVMValueRef x);
void cg_copy_run(Cg *c, DType t, LLVMValueRef to, LLVMValueRef from, LLVMValueRef n);  // n neighbours, by whole vectors
// A counted loop with carried values:
//   Loop l; cg_loop_begin(c, &l, lo, hi, step, init, n);  .. l.i, l.carry[k] ..  cg_loop_end(c, &l, next);  l.out[k] ..
// Runs while i < hi; never enters when lo >= hi (out = init).
enum { MAX_CARRY = 40 };
typedef struct {
  LLVMBasicBlockRef head, body, exit;
  LLVMValueRef i, hi, step, carry[MAX_CARRY], out[MAX_CARRY];
  uint32_t n;
} Loop;
void cg_loop_begin(Cg *c, Loop *l, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step, LLVMValueRef *init, uint32_t n);
void cg_loop_end(Cg *c, Loop *l, LLVMValueRef *next);
typedef struct {
  LLVMBasicBlockRef then, other, join;
} If;
void cg_if(Cg *c, If *s, LLVMValueRef cond);                          // .. then part ..
void cg_else(Cg *c, If *s);                                           // .. optional ..
void cg_endif(Cg *c, If *s);                                          // works with and without cg_else
void cg_range(Cg *c, Val range, LLVMValueRef *lo, LLVMValueRef *hi);  // i64[2] in memory: elements [lo, hi)
// [lo, hi) of this worker's share of n items, in units of `grain` items (the last unit may be short): contiguous,
// balanced.
void cg_share(Cg *c, LLVMValueRef n, int64_t grain, LLVMValueRef *lo, LLVMValueRef *hi);
void cg_barrier(Cg *c, LLVMValueRef which, LLVMValueRef count);  // i32 both: a call through frame->svc
// A barrier of `count` workers (i64), skipped by a team of one.
void cg_team_barrier(Cg *c, LLVMValueRef which, LLVMValueRef count);
void cg_wait_for_team(Cg *c);  // all workers of the kernel, if there are several
// Reports a bad index once through frame->status (index: flat i64, value: i64).
void cg_report(Cg *c, TnKernelError code, LLVMValueRef index, LLVMValueRef value);
// A helper function of the program, for the caller to call; made on first use by `make`, which finds the builder in the
// helper's entry block and c->fn set to it, and which builds the return. Both are restored afterwards. What `make` emits
// depends on the name alone: the module that needs it first has it, and others declare it.
LLVMValueRef cg_helper(Cg *c, const char *name, LLVMTypeRef type, void (*make)(Cg *c, LLVMValueRef fn, void *ctx),
                       void *ctx);

// Calls a helper without a result; its parameters are of the arguments' types.
void cg_call_helper(Cg *c, const char *name, LLVMValueRef *arg, uint32_t n,
                    void (*make)(Cg *c, LLVMValueRef fn, void *ctx), void *ctx);
// a where control comes from block from[0], b from block from[1]
LLVMValueRef cg_phi(Cg *c, LLVMValueRef a, LLVMValueRef b, LLVMBasicBlockRef from[2]);

// ---- sizes that are known when code is made
static inline int64_t cg_round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static inline int64_t cg_ceil_div(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static inline int64_t cg_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cg_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
