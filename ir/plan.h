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
  uint32_t
      within;  // of sums over shards, which are outputs and inputs: the buffer in the arena that they lie in; 0: none
  int64_t within_at;  // bytes from its beginning
  bool is_kept;       // its contents outlast the run: the next shard's, or the update's, has them
  uint32_t twin;      // in an update: the buffer of the shard's function whose place it has; 0: none
} Buf;

// A kernel: instructions [first, first + n) of the function, lowered as one.
typedef struct {
  uint32_t first, n;
  uint8_t cls;       // OpClass
  uint32_t scratch;  // Buf of private scratch memory; 0: none
  Val wanted;        // i64[2]: the elements that its pointwise instructions compute; none: all
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
  int64_t copy_bytes;
} PlanStats;

// What the host checks before a run: every element of an i64 input lies in [lo, hi) (hi: constant or dim).
typedef struct {
  uint32_t input;
  int64_t lo;
  Dim hi;  // exclusive; for lengths: `incl` makes it inclusive
  bool incl;
  bool sorted;       // must be non-increasing
  const char *what;  // "label", "index", "length"
  bool has_other;    // `other` is right too: a label that is ignored, an index that names nothing
  int64_t other;
  // Of each `group` of elements only [first, first + size) are looked at; group 0: all
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

// How a copy of a parameter holds it: as a matrix B[k][n] in panels of `width` columns, [panel][k][width], zero beyond n;
// the weight of a convolution of k channels to n in each group as Winograd's algorithm multiplies it, [panel][36][k][width], or
// as windows read it, [group][panel][block of k][tap][k of the block][width].
typedef enum { PACK_PANELS, PACK_WINOGRAD, PACK_CONV } PackKind;

// A copy of a parameter. All products that read it so share it. The code generator decides which there are
// (codegen/module/packed_weights.c).
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
  int64_t
      lanes;  // f32 lanes that fusion is decided by: the widest target's in all rows, so that kernels, and the order
              // of sums, are the same on all targets
  int64_t l1_bytes, l2_bytes, llc_bytes;  // of one worker; llc: its share of the last-level cache
  int64_t page_bytes, dtlb_entries;       // dtlb: pages that L1's translation buffer holds
  int64_t update_bytes;  // a gradient of so many is not stored if the epilogue of its product can hold its update (089)
} TargetFacts;
#define IR_TARGET_FACTS IR_TARGET_FACTS_WITH(128 << 10)
#define IR_TARGET_FACTS_WITH(least_update_bytes) \
  {.lanes = 16,                                  \
   .l1_bytes = 48 << 10,                         \
   .l2_bytes = 1 << 20,                          \
   .llc_bytes = 16 << 20,                        \
   .page_bytes = 4096,                           \
   .dtlb_entries = 64,                           \
   .update_bytes = least_update_bytes}
// As many f32 elements as so many bytes hold.
static inline int64_t ir_f32_in(int64_t bytes) { return bytes / (int64_t)sizeof(float); }

#endif
