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

#include "codegen/loop.h"
#include "codegen/target.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "runtime/names.h"
#include <llvm-c/Core.h>

// ---- the emission context of one kernel
typedef struct {
  Val v;  // the stored value
  bool reads, writes;
} KernelArg;
typedef struct {
  const Fn *f;
  const Kernel *k;
  KernelArg *args;
  uint32_t n_args;
} CgWhole;
// A number that its caller passes: that of a random stream, or the line of a value whose faults are reported.
typedef struct {
  const Fn *f;
  Val v;
  uint32_t steps;  // in the body of a scan: by so much it grows from step to step, modulo 2^32
} KernelId;
struct Cg {
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
  V fn, frame, worker, n_workers;  // worker and n_workers as i64
  KernelArg *kernel_args;
  uint32_t n_kernel_args;
  CgWhole whole;  // the kernel of which this is a part: its sums have the same order. f NULL: there is none
  V *kernel_arg_ptr;
  V scratch;  // pointer to k->scratch, or NULL
  V weight;   // pointer to the packed copy of a weight, or NULL
  Dim *dims;  // symbolic dims passed as arguments
  uint32_t n_dims;
  V *dim_val;
  KernelId *ids;
  uint32_t n_ids;
  V *id_val;
  V keys, keys_of;  // of random numbers, and the function that they were made in (math/primitives.c)
  // private blocks (blocks.c)
  int64_t stack_used, frame_used, worker_used;  // bytes
  RtText *why;                                  // set on failure
};

// ---- codegen/builder.c: sizes and storage; its other builders are in builder.h
V cg_dim(Cg *c, Dim d);  // i64: a constant, an argument, or products and sums of them
V cg_axis_product(Cg *c, Shape s, uint32_t from, uint32_t to);              // of the sizes of axes [from, to);
int64_t cg_axis_bound(const Prog *p, Shape s, uint32_t from, uint32_t to);  // of their bounds
V cg_numel(Cg *c, Shape s);
V cg_ptr(Cg *c, Val v);          // storage of a stored value (views resolve to their buffer)
V cg_ptr_or_null(Cg *c, Val v);  // NULL: it is not stored
V cg_ptr_or_zero(Cg *c, Val v);  // the pointer 0 where it is not stored
bool cg_stored(Cg *c, Val v);    // has a port
// Of every run. By the full bounds: a plan for smaller ones, in which a value may take 0 bytes, has the same kernels.
bool cg_is_empty(const Fn *f, Val v);
V cg_id(Cg *c, Val v);                    // i32
int32_t cg_id_value(const KernelId *id);  // what an entry passes
V cg_reduce_add(Cg *c, V v);              // fixed tree: halves, then halves of halves
V cg_reduce_max(Cg *c, V v);
V cg_any_lane(Cg *c, V mask);  // i1: is one set?
V cg_nan_lanes(Cg *c, V v);
// Lanes from[0 .. n) of a and, behind those, of b; n <= 256
V cg_shuffle(Cg *c, V a, V b, const uint32_t *from, uint32_t n);
V cg_some_lanes(Cg *c, V v, uint32_t from, uint32_t n);  // lanes [from, from + n)
uint32_t cg_sum_lanes(const Target *t);  // partial sums that a row's elements go to in turn: as many on all targets
// The lanes of the vector that begins at element `first` of `left` elements: false where it is known that there are none,
// *mask NULL where all are.
bool cg_lanes_left(Cg *c, V left, int64_t first, V *mask);
V cg_reduce_lanes(Cg *c, Op join, V v);  // by a primitive of two operands
// ---- codegen/transpose.c
// Transposes one vl x vl block: dst[i * dst_ld + j] = src[j * ld + i] for j < rows, i < cols; 0 elsewhere in the block.
void cg_transpose_block(Cg *c, V src, V ld, V rows, V cols, V dst, V dst_ld);
void cg_transpose(Cg *c, V *row);  // vl vectors, in place
V cg_sum_each(Cg *c, V *r);        // of vl vectors, which are lost: lane k is the sum of r[k]'s, halves first
// The transpose of rows x cols floats of whole vectors, ld apart: column j to dst + j dst_ld, and nothing beside it.
void cg_store_transposed(Cg *c, V src, V ld, V rows, V cols, V dst, V dst_ld);
// ---- codegen/frame.c: fields of TnFrame and functions of TnServices, named by their offsetof in this process
V cg_frame_at(Cg *c, size_t field);                               // address
V cg_frame_ptr(Cg *c, size_t field);                              // the pointer in it
V cg_service(Cg *c, size_t service);                              // a function
void cg_call_service(Cg *c, size_t service, V *arg, uint32_t n);  // without a result
// ---- codegen/blocks.c: private memory of a worker, while its kernel runs; in the entry block, aligned to TN_ALIGN
V cg_block(Cg *c, LLVMTypeRef elem, int64_t n);  // n of f32, f64, i32, i64 or pointers
V cg_stack_block(Cg *c, LLVMTypeRef elem,
                 int64_t n);          // on the stack always: of functions that kernels share
V cg_worker_block(Cg *c, int64_t n);  // n of f32, of Target.worker_bytes if there is room
void cg_begin_blocks(Cg *c);          // of a kernel
// ---- codegen/dtype.c: elements of a number dtype in memory
LLVMTypeRef cg_elem_type(Cg *c, DType t);
LLVMTypeRef cg_vector_type(Cg *c, DType t, uint32_t lanes);  // of one lane: the element
V cg_convert(Cg *c, DType from, DType to, V x);
V cg_is_set(Cg *c, DType t, V x);                     // is the element not 0?
void cg_copy_run(Cg *c, DType t, V to, V from, V n);  // codegen/span.c: n neighbours, by whole vectors
void cg_range(Cg *c, Val range, V *lo, V *hi);        // i64[2] in memory: elements [lo, hi)
// [lo, hi) of this worker's share of n items, in units of `grain` items (the last unit may be short): contiguous,
// balanced.
void cg_share(Cg *c, V n, int64_t grain, V *lo, V *hi);
// Item k of n where short items from memory, one after another, are walked as `memory_streams` parts in turn
// (docs/experiments/116); k where an item is long, all of them stay in L2, or the target reads one stream as fast.
V cg_in_streams(Cg *c, V k, V n, int64_t item_bytes, int64_t all_bytes);
void cg_barrier(Cg *c, V which, V count);  // i32 both: a call through frame->svc
// A barrier of `count` workers (i64), skipped by a team of one.
void cg_team_barrier(Cg *c, V which, V count);
void cg_wait_for_team(Cg *c);  // all workers of the kernel, if there are several
// Reports a bad index once through frame->status (index: flat i64, value: i64).
void cg_report(Cg *c, TnKernelError code, V index, V value);
// A helper function of the program, for the caller to call; made on first use by `make`, which finds the builder in the
// helper's entry block and c->fn set to it, and which builds the return. Both are restored afterwards. What `make` emits
// depends on the name alone: the module that needs it first has it, and others declare it.
V cg_helper(Cg *c, const char *name, LLVMTypeRef type, void (*make)(Cg *c, V fn, void *ctx), void *ctx);

// Calls a helper without a result; its parameters are of the arguments' types.
void cg_call_helper(Cg *c, const char *name, V *arg, uint32_t n, void (*make)(Cg *c, V fn, void *ctx), void *ctx);
// ---- sizes that are known when code is made
static inline int64_t cg_round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static inline int64_t cg_ceil_div(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
static inline int64_t cg_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cg_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
