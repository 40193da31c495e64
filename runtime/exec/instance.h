// One set of parameters and state over compiled code, and the runs on it.
//
//   RtInstance *i = rt_instance_new(plan, 0, 0, seed);    // parameters zero
//   rt_instance_initialize(i, seed);
//   if (rt_instance_run(i, step, in, 3, out, 1)) puts(rt_instance_error(i));
//
// A run allocates nothing. Arguments are validated before anything is written: a rejected call has no effect.
// One call at a time per instance; instances are independent.
#ifndef TN_RUNTIME_EXEC_INSTANCE_H
#define TN_RUNTIME_EXEC_INSTANCE_H

#include "runtime/api.h"
#include "runtime/exec/plan.h"

typedef enum {  // values as tn_status
  RT_OK,
  RT_ERR_BUILD,
  RT_ERR_ARGUMENT,
  RT_ERR_VALUE,
  RT_ERR_FILE,
  RT_ERR_MEMORY,
  RT_ERR_CODEGEN,
  RT_ERR_RANKS
} RtStatus;

typedef struct __attribute__((may_alias)) {  // layout of tn_array, which is read as one
  void *data;
  RtDType dtype;
  uint32_t rank;
  int64_t dims[RT_MAX_RANK];
  const char *name;  // of the input or output that it is for; NULL: by its place in the list
} RtArray;           // row-major, contiguous, the caller's memory

typedef struct RtInstance RtInstance;

// 0 workers: one per CPU. worker_bytes: of TnFrame.blocks, for each, as the code's target has them. NULL: no memory or threads
RtInstance *rt_instance_new(const RtPlan *plan, uint32_t n_workers, int64_t worker_bytes, uint64_t seed);
// A write of a cache of keys and values, which its kernel reports by the line. The list stays its owner's.
typedef struct {
  const char *function, *place;  // "gpt2.c:34"
  int64_t line, steps;
} RtCacheWrite;
// Rows that no cache has, as an index has them that a run of slots computes (frontend/module/slots.c): from these numbers on, less than
// 2^24 of them
#define RT_SLOT_SHARED (-(INT64_C(1) << 62))  // two sequences have one slot
#define RT_SLOT_FULL (-(INT64_C(1) << 61))    // the slot is full
void rt_instance_set_cache_writes(RtInstance *i, const RtCacheWrite *list, uint32_t n);
void rt_instance_free(RtInstance *i);  // NULL: nothing
RT_API const char *
rt_instance_error(const RtInstance *i);  // sentence about the last call that failed; "" when none did
uint32_t rt_instance_workers(const RtInstance *i);
RT_API const RtPlan *rt_instance_plan(const RtInstance *i);
uint64_t rt_instance_counter(const RtInstance *i);  // runs since initialisation, itself included
uint64_t rt_instance_seed(const RtInstance *i);
// Runs of a variant of a function; variant == n_variants: of the function itself. Out of range: 0
uint64_t rt_instance_runs(const RtInstance *i, uint32_t function, uint32_t variant);
void rt_instance_poison(RtInstance *i, bool on);  // tests: fill the arena with NaN before every run

// A named dim takes its value from the first input axis of that name; all others must agree. A dim of no input axis is
// computed by the compiled code: here it counts as its bound, and an output with it must have at least that size.
RT_API RtStatus rt_instance_run(RtInstance *i, uint32_t function, const RtArray *in, size_t n_in, const RtArray *out,
                                size_t n_out);
// Before a run: named dims take the values that they have in a run with these inputs.
RtStatus rt_instance_bind(RtInstance *i, uint32_t function, const RtArray *in, size_t n_in);
// Dtype and sizes of an output, without data, by named dims as rt_instance_bind or the last run left them: before a run a
// computed one counts as its bound. The last run or binding was of this function.
RtArray rt_instance_output(RtInstance *i, uint32_t function, uint32_t k);
RtStatus rt_instance_initialize(RtInstance *i, uint64_t seed);
// Parameters that begin with random numbers are 0.
RtStatus rt_instance_initialize_undrawn(RtInstance *i, uint64_t seed);

// Packed copies of parameters that runs made since the instance was
uint64_t rt_instance_n_weight_packs(const RtInstance *i);

// Parameters by path or alias; n counts elements.
// A view to read and write; data NULL: no such parameter. Until rt_instance_end_write every run treats it as changed.
RtArray rt_instance_param(RtInstance *i, uint32_t k);
void rt_instance_end_write(RtInstance *i, uint32_t k);
RtStatus rt_instance_get(RtInstance *i, const char *path, float *out, size_t n);
RtStatus rt_instance_set(RtInstance *i, const char *path, const float *v, size_t n);
RtStatus rt_instance_get_array(RtInstance *i, const char *path, const RtArray *out);
RtStatus rt_instance_set_array(RtInstance *i, const char *path, const RtArray *v);

// safetensors under canonical paths. with_state: state entries, seed and run counter too.
// Aliases are stored in the metadata as "alias": "canonical", which is what PyTorch's save_model writes for tied weights.
RtStatus rt_instance_save(RtInstance *i, const char *path, bool with_state);
// All or nothing; one message lists all mismatches. A parameter may be stored under any of its paths, or under several
// with equal bytes. F64, F16 and BF16 become f32. Without with_state, entries of state in the file
// (those of this program, and all below "optimizer.") are passed over.
RtStatus rt_instance_load(RtInstance *i, const char *path, bool with_state);

// Warnings of the last successful load; "": none.
const char *rt_instance_warning(const RtInstance *i);

// ---- several processes (runtime/exec/shards.h)
struct RtTransport;
struct RtRanks;
struct RtOwners;
typedef struct {
  double time_limit;  // seconds
  bool has_own_rows, progress_thread;
} RtRankOptions;
RtStatus rt_instance_distribute(RtInstance *i, const struct RtTransport *t, RtRankOptions o);
struct RtRanks *rt_instance_ranks(const RtInstance *i);  // NULL: alone
// Elements [*lo, *hi) of parameter k are those that this rank has: all, or its part of state that each rank has a part of.
// True: it is such state.
bool rt_instance_owned(const RtInstance *i, uint32_t k, int64_t *lo, int64_t *hi);
bool rt_instance_has_parts(const RtInstance *i);  // is there state that each rank has a part of?
// What the others have of such state is not kept.
void rt_instance_drop_others(RtInstance *i);
// All ranks do `what` now, and hear how each fares: the first status that is none of RT_OK, with its sentence.
enum { RT_BEGINNING = -1, RT_SAVING = -2, RT_WRITTEN = -3, RT_RENAMED = -4, RT_REFUSED = -5 };
RtStatus rt_instance_agree(RtInstance *i, int what, RtStatus status);

// ---- for runtime/exec/shards.c
// Enters the function, all of whose arguments stand in the tables of the frame, with these values of named dims; `counter`
// is the random stream's.
RtStatus rt_instance_enter(RtInstance *i, const RtFunction *f, const int64_t *slots, uint64_t counter);

unsigned char *rt_instance_arena(RtInstance *i);
// By one of several workers that each add another part: the sum of two arrays of n elements, maybe in the place of one, by the code of
// s->add
void rt_instance_add(RtInstance *i, const RtShards *s, float *const add[2], float *to, int64_t n, uint32_t worker);

// ---- for runtime/store/
RT_API const unsigned char *rt_instance_block(const RtInstance *i);  // parameter block
// To write a parameter now, all of it or a part; the pointer is not kept.
unsigned char *rt_instance_change(RtInstance *i, uint32_t k);
RT_API void rt_instance_set_random(RtInstance *i, uint64_t seed, uint64_t counter);
enum { RT_ERROR_SIZE = 4096, RT_WARNING_SIZE = 512 };
char *rt_instance_error_buffer(RtInstance *i);  // RT_ERROR_SIZE bytes
char *rt_instance_warning_buffer(RtInstance *i);

#endif
