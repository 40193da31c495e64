// The runtime image of a compiled program: sizes, entry points, tables. Plain data, owned by its creator, texts and tables
// included, and alive until its last instance is freed.
//
// Needs no C library: the support code of bundles (runtime/bundle) is built on it for every target.
#ifndef TN_RUNTIME_EXEC_PLAN_TYPES_H
#define TN_RUNTIME_EXEC_PLAN_TYPES_H

#include "runtime/abi.h"
#include <stdbool.h>
#include <stddef.h>

struct RtGuardedArena;

enum { RT_MAX_RANK = 8 };
// Dtypes of arrays, as tn_dtype numbers them: ROW(id, name, bytes, its name in safetensors, C type of an element).
#define RT_DTYPES(ROW)                     \
  ROW(RT_F32, "f32", 4, F32, "float")      \
  ROW(RT_I64, "i64", 8, I64, "int64_t")    \
  ROW(RT_I32, "i32", 4, I32, "int32_t")    \
  ROW(RT_U8, "u8", 1, U8, "uint8_t")       \
  ROW(RT_BOOL, "bool", 1, BOOL, "uint8_t") \
  ROW(RT_F16, "f16", 2, F16, "uint16_t")   \
  ROW(RT_BF16, "bf16", 2, BF16, "uint16_t")
#define ROW(id, ...) id,
typedef enum { RT_NO_DTYPE, RT_DTYPES(ROW) RT_N_DTYPES } RtDType;
#undef ROW
static inline const char *rt_dtype_name(uint32_t t) {
#define ROW(id, name, ...) [id] = name,
  static const char *const names[RT_N_DTYPES] = {[RT_NO_DTYPE] = "no known dtype", RT_DTYPES(ROW)};
#undef ROW
  return names[t < RT_N_DTYPES ? t : RT_NO_DTYPE];
}
static inline size_t rt_dtype_bytes(uint32_t t) {
#define ROW(id, name, bytes, ...) [id] = bytes,
  static const uint8_t sizes[RT_N_DTYPES] = {[RT_NO_DTYPE] = 1, RT_DTYPES(ROW)};
#undef ROW
  return sizes[t < RT_N_DTYPES ? t : RT_NO_DTYPE];
}
static inline const char *rt_dtype_c_type(uint32_t t) {
#define ROW(id, name, bytes, file, c_type) [id] = c_type,
  static const char *const names[RT_N_DTYPES] = {[RT_NO_DTYPE] = "void", RT_DTYPES(ROW)};
#undef ROW
  return names[t < RT_N_DTYPES ? t : RT_NO_DTYPE];
}
static inline bool rt_dtype_is_float(uint32_t t) { return t == RT_F32 || t == RT_F16 || t == RT_BF16; }

// A named dim: its run-time value is TnFrame.dims at its index.
typedef struct {
  const char *name;
  int64_t bound;
} RtSlot;

// a / b rounded down; by 0 it is 0
static inline int64_t rt_floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t rt_larger(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t rt_smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// A size expression: a row of a table in topological order.
typedef enum {
  RT_DIM_CONST,
  RT_DIM_SLOT,
  RT_DIM_MUL,
  RT_DIM_ADD,
  RT_DIM_DIV,  // rounded down
  RT_DIM_MAX,
  RT_DIM_MIN,
} RtDimKind;
typedef struct {
  uint8_t kind;
  int64_t value;  // CONST: the size; SLOT: index of the slot
  uint32_t a, b;  // MUL and those behind it: rows of this table
} RtDim;

typedef struct {
  const char *name;
  uint32_t dtype;  // RtDType
  uint32_t rank;
  uint32_t dims[RT_MAX_RANK];  // rows of RtPlan.dims
} RtPort;

// Range of every element of an i64 input: [lo, hi), or [lo, hi] when inclusive; hi by this run's dims.
typedef struct {
  uint32_t input;
  int64_t lo;
  uint32_t hi, sum;              // rows of RtPlan.dims
  bool is_inclusive, is_sorted;  // sorted: non-increasing, too
  bool has_sum, is_exact;        // the sum of all is at most `sum`, too, or is that
  const char *what;              // "label", "index", "length"
  bool has_other;                // `other` is valid, too: the ignored label
  int64_t other;
  // Of each `group` of elements only [first, first + size) are checked; group 0: all
  int64_t group, first, size;
  // Padded sequences [batch, time, row], or time first: only steps below the lengths are checked
  bool is_packed, time_major;
  const int64_t *lengths;  // NULL: those of input of_input
  uint32_t of_input;
  uint32_t batch, time;  // rows of RtPlan.dims
  int64_t row;           // elements of one step
} RtCheck;

// A size that must not be below 0 in a run; what: "the size time-3 (gpt.c:12)"
typedef struct {
  uint32_t dim;  // row of RtPlan.dims
  const char *what;
} RtSizeCheck;

// A variant of a function, planned for smaller bounds: run if every named size fits. Same parameters and inputs.
typedef struct {
  uint32_t slot;
  int64_t bound;
} RtFit;
typedef struct {
  const RtFit *fits;
  uint32_t n_fits;
  TnEntry entry;
  int64_t arena_bytes;
  const struct RtGuardedArena *guarded_arena;
  uint32_t max_workers;
} RtVariant;

// A parameter, buffer or state entry that a function reads or writes.
typedef struct {
  uint32_t param;  // row of RtPlan.params
  bool is_written;
} RtParamUse;

// How a distributed function is put together: the entry runs once for each shard of the batch, `update` once on the sums over
// shards. The entry's inputs are the function's. Other positions are given by number: of the function's own inputs and
// outputs, RT_SUM + the number of a sum, or RT_OWNED + that of one: i64[2], the elements of it that this process owns; behind the last
// sum, all elements of whatever it is.
#define RT_SUM 0x80000000u
#define RT_OWNED 0x40000000u
// Entries each process updates a part of, by elements of one sum over shards: param says whose elements are cut. All processes
// have the shared ones whole, and each has its part alone of the state.
typedef struct {
  uint32_t sum, bucket, param;
  const uint32_t *shared, *state;
  uint32_t n_shared, n_state;
} RtOwnedUpdate;
// A norm of so many tensors, each by sums over so many blocks. Of which of them each process has the part that it has of a sum: the
// number of that; RT_WHOLE: it has all.
#define RT_WHOLE UINT32_MAX
typedef struct {
  const uint32_t *sums;
  const int64_t *n_blocks;
  uint32_t n;
} RtNorm;
// Sums over shards that are exchanged together, in the arena: they lie one behind the other in `n` elements at sums_off; in `room`
// elements at room_off as many as that again for each level of the tree, and what comes of other processes (runtime/exec/shard_tree.h).
typedef struct {
  int64_t sums_off, room_off;  // bytes
  int64_t n, room;             // elements
} RtBucket;
typedef struct {
  uint32_t n;       // shards
  uint32_t slot;    // of the batch
  uint32_t update;  // function
  uint32_t
      add;  // function: the sum of two arrays of as many elements as slot sums_slot says, which may be in the place of one
  uint32_t sums_slot;
  const uint32_t *out, *update_in, *update_out;
  uint32_t n_out, n_update_in, n_update_out, n_sums;
  const uint32_t *sum_bucket;  // by sum; those that the update wants whole: n_buckets
  const int64_t *sum_at;       // by sum, in elements of its bucket
  const RtBucket *buckets;     // one more than n_buckets
  const RtOwnedUpdate *owned;  // in the order of buckets, in each of sums
  uint32_t n_owned, n_buckets;
  const RtNorm *norms;  // by number of the exchange
  uint32_t n_norms;
} RtShards;

typedef struct {
  const char *name;
  TnEntry entry;
  const RtPort *inputs, *outputs;
  uint32_t n_inputs, n_outputs;
  const RtCheck *checks;
  const RtSizeCheck *size_checks;
  uint32_t n_checks, n_size_checks;
  int64_t arena_bytes;
  const struct RtGuardedArena *guarded_arena;  // NULL: no guards
  uint32_t max_workers;                        // waking more costs more than it gains; 0: no limit
  const RtVariant *variants;                   // the first that fits is used
  uint32_t n_variants;
  const uint32_t *packed_weights,
      *writes_weights;  // rows of RtPlan.packed_weights that its products read; whose parameter it writes
  uint32_t n_packed_weights, n_writes_weights;
  const RtParamUse *uses;
  uint32_t n_uses;
  bool only_reads;         // writes no parameter and draws no random numbers: the random stream stays where it is
  bool is_internal;        // part of another function: not called by users
  int64_t block_bytes;     // of TnFrame.blocks that it and its variants want; above 0 one worker runs them
  const RtShards *shards;  // NULL: it is not distributed
} RtFunction;

typedef enum { RT_WEIGHT, RT_BUFFER, RT_STATE, RT_TRANSIENT } RtParamKind;  // in the order of ParamKind
typedef struct {
  const char *path;            // canonical
  const char *const *aliases;  // further paths to the same parameter
  uint32_t n_aliases;
  uint8_t kind;    // RtParamKind
  uint32_t dtype;  // RtDType
  uint32_t rank;
  int64_t dims[RT_MAX_RANK];
  int64_t offset, bytes;  // in the parameter block
  const char *file;       // where it was made; NULL: unknown
  uint32_t line;
} RtParam;

// A prepacked copy of a parameter (runtime/exec/packed_weights.h).
typedef struct {
  uint32_t param;         // row of RtPlan.params
  int64_t offset, bytes;  // in SEG_PACKED
} RtPackedWeight;

// A hyper-parameter of a group of an optimizer: a state entry of one number that may be set between runs.
typedef enum { RT_LR, RT_WEIGHT_DECAY, RT_MOMENTUM, RT_N_HYPERS } RtHyperKind;
typedef struct {
  uint32_t param, group;
  uint8_t kind;  // RtHyperKind
} RtHyper;
static inline const char *rt_hyper_name(uint32_t kind) {
  static const char *const names[RT_N_HYPERS] = {"lr", "weight_decay", "momentum"};
  return kind < RT_N_HYPERS ? names[kind] : "";
}

enum { RT_NO_FUNCTION = UINT32_MAX };
typedef struct {
  const RtSlot *slots;
  const RtDim *dims;
  const RtFunction *functions;
  const RtParam *params;
  uint32_t n_slots, n_dims, n_functions, n_params;
  uint32_t init;  // function that initialises parameters and state; RT_NO_FUNCTION: all zero
  int64_t param_bytes;
  const void *consts;  // constant pool, TN_ALIGN-aligned; NULL: none
  const RtPackedWeight *packed_weights;
  uint32_t n_packed_weights;
  int64_t packed_bytes;
  TnEntry pack;  // repacks the copies that TnFrame.stale marks; NULL: no copies
  const RtHyper *hypers;
  uint32_t n_hypers;
  TnSgemm sgemm;  // of a BLAS library, brought by who made the plan; NULL: no kernel calls one
} RtPlan;

#endif
