// What compiled code sees: one frame per run, filled by the host before the workers enter.
// Layouts here are read by generated machine code, on the target as a C compiler there lays them out: codegen/frame.c has the
// fields of TnFrame.
#ifndef TN_RUNTIME_ABI_H
#define TN_RUNTIME_ABI_H

#include <stdint.h>

// Segments of a plan. IN and OUT are tables of caller pointers; the others are one aligned block each.
// ROW(enum, text)
#define TN_SEGMENTS(ROW)                                                     \
  ROW(SEG_ARENA, "arena")   /* activations, gradients, scratch of one run */ \
  ROW(SEG_PARAM, "param")   /* parameters, buffers, optimizer state       */ \
  ROW(SEG_CONST, "const")   /* constant pool, read only                   */ \
  ROW(SEG_IN, "in")         /* caller's inputs, one pointer each          */ \
  ROW(SEG_OUT, "out")       /* caller's outputs, one pointer each         */ \
  ROW(SEG_PACKED, "packed") /* packed copies of weights                 */
#define ROW(e, t) e,
typedef enum { TN_SEGMENTS(ROW) N_SEGMENTS } Segment;
#undef ROW
#define TN_ALIGN 64  // bytes; every buffer of a plan starts on a multiple

// C[m,n] = op(A) op(B) + beta * C, row-major, one thread; trans flags are 0/1.
typedef void (*TnSgemm)(int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

struct TnFrame;
typedef struct {
  // Waits until `count` workers (ids that share barrier `which`) have arrived.
  void (*barrier)(struct TnFrame *f, int32_t which, int32_t count);
  TnSgemm sgemm;  // RtPlan.sgemm
  // Between kernels of a program compiled with TN_CHECK=arena, by one worker (runtime/exec/arena_guards.h); others never call it.
  void (*guarded_arena)(struct TnFrame *f, int32_t done, int32_t next);
  // Where several processes share the shards of a function: fills in what others have computed of the numbers at `data`, which are
  // those of exchange `number`; by one worker. One that fails says so in the frame's status.
  void (*gather)(struct TnFrame *f, int32_t number, void *data);
  // In the same functions, by all workers: the sums of a bucket are there, and their exchange may begin; from then on one worker
  // polls after each kernel. In their updates `ends`: the kernels that follow read sums over all shards. Bucket -1: those that the update
  // wants whole.
  void (*exchange)(struct TnFrame *f, int32_t bucket, int32_t ends, int32_t worker, int32_t n_workers);
  void (*poll)(struct TnFrame *f);
} TnServices;

enum { TN_N_BARRIERS = 64 };  // barrier 0 is the whole team; others are for sub-teams inside one kernel

// Errors that only a kernel can see (an index computed at run time); the first one wins. The entry returns before
// parameters change.
typedef struct {
  int32_t code;   // 0: none; see TnKernelError
  int32_t input;  // unused by kernels, -1
  int64_t index;  // flat element index; of a slice or a count the line that made it
  int64_t value;  // the offending value
} TnKernelStatus;
typedef enum {
  TN_KERR_NONE,
  TN_KERR_INDEX_RANGE,
  TN_KERR_LENGTH_RANGE,
  TN_KERR_NOT_SORTED,
  TN_KERR_SLICE_RANGE,
  TN_KERR_COUNT,  // below 0, or above what there is room for
  TN_KERR_RANKS,  // other processes do not answer: the sentence is written already
  TN_KERR_ROWS    // lengths sum to `value`, above `index`, or below it where they must be that
} TnKernelError;

typedef struct TnFrame {
  unsigned char *seg[N_SEGMENTS];  // SEG_IN and SEG_OUT entries are NULL: see in / out
  void **in;                       // by position in the function's signature
  void **out;
  int64_t *dims;     // run-time value of every named dim of the program, by dim slot
  uint64_t seed;     // Philox key
  uint64_t counter;  // number of this run: changes the random stream between runs
  const TnServices *svc;
  TnKernelStatus *status;
  void *team;            // the runtime's own, for barriers
  void *guarded_arena;   // RtGuardedRun; NULL: the arena is an ordinary one
  const uint8_t *stale;  // by packed copy: the entry that packs makes it; others do not look
  int32_t no_draws;      // parameters that begin with random numbers keep what they hold
  // RtFunction.block_bytes, or what the target has for each worker, TN_ALIGN-aligned; NULL: none wanted
  unsigned char *blocks;
} TnFrame;

typedef void (*TnEntry)(TnFrame *f, int32_t worker, int32_t n_workers);

// ---- packed layout value: an int32 array, offsets from the bounds of time (T) and batch (B).
// [0] steps used, [1] rows, [2] sequences, [3] 1 when the order is the identity; then the tables below.
//   batch_sizes[T]   sequences still running at step t (non-increasing)
//   offsets[T + 1]   first row of step t; offsets[steps] == rows
//   sorted[B]        sorted position -> user index (longest first, ties stable)
//   unsorted[B]      user index -> sorted position
//   lengths[B]       by user index
enum { TN_LAYOUT_STEPS, TN_LAYOUT_ROWS, TN_LAYOUT_SEQS, TN_LAYOUT_IDENTITY, TN_LAYOUT_HEAD };
#define TN_LAYOUT_BATCH_SIZES(T, B) ((int64_t)TN_LAYOUT_HEAD)
#define TN_LAYOUT_OFFSETS(T, B) (TN_LAYOUT_HEAD + (int64_t)(T))
#define TN_LAYOUT_SORTED(T, B) (TN_LAYOUT_HEAD + 2 * (int64_t)(T) + 1)
#define TN_LAYOUT_UNSORTED(T, B) (TN_LAYOUT_HEAD + 2 * (int64_t)(T) + 1 + (int64_t)(B))
#define TN_LAYOUT_LENGTHS(T, B) (TN_LAYOUT_HEAD + 2 * (int64_t)(T) + 1 + 2 * (int64_t)(B))
#define TN_LAYOUT_WORDS(T, B) (TN_LAYOUT_HEAD + 2 * (int64_t)(T) + 1 + 3 * (int64_t)(B))

#endif
