// What passes find out for a plan: buffers, kernels, facts, checks, packed weights, and what they know of the machine.
#ifndef TN_IR_PLAN_H
#define TN_IR_PLAN_H

#include "ir/tables.h"
#include "runtime/abi.h"

// A buffer: storage, as opposed to value. Views and next versions share one.
typedef struct {
  Val head;             // the value that it was made for
  int32_t first, last;  // kernel numbers; last = INT32_MAX: to the end of the program's life
  int64_t bytes;        // by the bounds of dims
  int64_t offset;       // in its segment; for SEG_IN, SEG_OUT the position in the signature
  uint8_t seg;          // Segment
  bool scratch;         // belongs to one kernel only
  uint32_t reuses;      // buffer whose slot it takes over in place; 0: none
  uint32_t n_shares;    // values on it
  uint32_t within;      // sums over shards (outputs and inputs): the buffer of the arena that they lie in; 0: none
  int64_t within_at;    // bytes from its beginning
  bool is_kept;         // its contents outlive the run: the next shard or the update reads them
  uint32_t twin;        // in an update: the buffer of the shard's function that lies at the same offset; 0: none
} Buf;

// A kernel: instructions [first, first + n) of the function, lowered as one.
typedef struct {
  uint32_t first, n;
  uint8_t cls;       // OpClass
  uint32_t scratch;  // Buf of private scratch memory; 0: none
  Val wanted;        // i64[2]: the elements that its pointwise instructions compute; none: all
  bool again;        // it ran before: pass recompute
  // Where it is a part of a kernel, which pass recompute made: the function before, and the number of the whole one there, whose
  // order of sums it keeps; NULL: it is whole
  const struct Fn *before;
  uint32_t whole;
} Kernel;

enum { IR_MOST_SHARDS = 4096 };

// Facts about a function that passes need and give: HAS_SCOPES, ..
#define FACT(n, ...) FACT_##n,
typedef enum {
#include "ir/passes/facts.def"
  N_FACTS
} Fact;
#define FACT(n, ...) HAS_##n = 1 << FACT_##n,
enum {
#include "ir/passes/facts.def"
};

typedef struct {
  uint32_t n_kernels, n_inplace, n_copies;
  int64_t peak_bytes;   // arena size of this function
  int64_t lower_bound;  // largest sum of live bytes at any kernel
  int64_t order_bound;  // no order of these kernels has a lower one
  int64_t copy_bytes;
} PlanStats;

// What the host checks before a run: every element of an i64 input lies in [lo, hi) (hi: constant or dim).
typedef struct {
  uint32_t input;
  int64_t lo;
  Dim hi;  // exclusive; for lengths: `incl` makes it inclusive
  bool incl;
  bool sorted;   // must be non-increasing
  bool has_sum;  // the sum of all elements is at most `sum`, or is that
  bool exact_sum;
  Dim sum;
  const char *what;  // "label", "index", "length"
  bool has_other;    // `other` is valid too: an ignored label, or an index that selects nothing
  int64_t other;
  // Only elements [first, first + size) of each `group` are checked; group 0: all
  int64_t group, first, size;
  // Padded sequences, `row` elements for each step: only steps below the lengths are looked at
  bool is_packed, time_major, has_lengths;
  uint32_t of_input;  // the lengths; with has_lengths they are constants
  Shape lengths;
  Dim batch, time;
  int64_t row;
} InputCheck;

// A size of the run that the host checks: it must not be below 0.
typedef struct {
  Dim dim;
  const char *what;  // "the size time-3 (gpt.c:12)"
} SizeCheck;

// Layout of a packed copy of a parameter: a matrix B[k][n] in panels of `width` columns, [panel][k][width],
// zero beyond n; the weight of a convolution from k to n channels per group for Winograd,
// [panel][36][k][width], or for windows, [group][panel][block of k][tap][k of the block][width].
typedef enum { PACK_PANELS, PACK_WINOGRAD, PACK_CONV } PackKind;

// A packed copy of a parameter, shared by all products that read it so. The code generator decides which
// copies exist (codegen/module/packed_weights.c).
typedef struct {
  PackKind kind;
  uint32_t param;
  bool transposed;  // stored [n, k]
  int64_t n, k, width;
  int64_t taps, groups, block;  // of PACK_CONV; 0
  int64_t offset, bytes;        // in SEG_PACKED
  uint32_t next;                // 1 + the next row of the same parameter; 0: none
} WeightPack;

// What passes know of the machine: set by the code generator's target row (codegen/target.h).
typedef struct {
  // f32 lanes that fusion is decided by: the widest target's in all rows, so that kernels, and the order of
  // sums, are the same on all targets
  int64_t lanes;
  int64_t l1_bytes, l2_bytes, llc_bytes;  // of one worker; llc: its share of the last-level cache
  int64_t page_bytes;
  // a gradient of at least this size is not stored if the epilogue of its product can hold its update (089)
  int64_t update_bytes;
  int64_t step_bytes;  // what another order must save for each kernel, or wait of the team, that it has more (096)
} TargetFacts;
#define IR_TARGET_FACTS IR_TARGET_FACTS_WITH(128 << 10)
#define IR_TARGET_FACTS_WITH(least_update_bytes) \
  {.lanes = 16,                                  \
   .l1_bytes = 48 << 10,                         \
   .l2_bytes = 1 << 20,                          \
   .llc_bytes = 16 << 20,                        \
   .page_bytes = 4096,                           \
   .update_bytes = least_update_bytes,           \
   .step_bytes = 16384}
// A buffer of so many bytes in the arena takes these.
static inline int64_t ir_aligned(int64_t bytes) { return (bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN; }
// f32 elements in so many bytes.
static inline int64_t ir_f32_in(int64_t bytes) { return bytes / (int64_t)sizeof(float); }

#endif
