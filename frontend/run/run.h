// What the files of this folder and frontend/data share: the objects behind tn_model and tn_loader, and how a call on one
// begins. They make up libtenure_runtime with runtime/, and know nothing of programs, IR or LLVM.
#ifndef TN_FE_RUN_H
#define TN_FE_RUN_H

#include "frontend/tenure/loader.h"
#include "frontend/tenure/model.h"
#include "frontend/tenure/params.h"
#include "frontend/tenure/probe.h"
#include "frontend/tenure/run.h"
#include "runtime/exec/instance.h"
#include <stdatomic.h>

// What a run of a function stores and copies.
typedef struct {
  const char *file, *name;  // name "": none
  int line;
  int64_t bytes;
} FeStored;
typedef struct {
  tn_plan_copy *copies;
  FeStored *stored, *loaded;  // values that instructions store; values that kernels read, once for each kernel
  uint32_t n_copies, n_stored, n_loaded, cap_copies, cap_stored, cap_loaded;
} FeBytesMoved;

// Outputs of a function's twin, behind those of the function: counts of finite, NaN, infinite and zero
// elements; least, greatest, a power of two; of elements divided by it the mean, the sum of squared distances
// from it, the sum of squares; then n_bins counts.
enum {
  FE_PROBE_FINITE,
  FE_PROBE_NAN,
  FE_PROBE_INF,
  FE_PROBE_ZERO,
  FE_PROBE_MIN,
  FE_PROBE_MAX,
  FE_PROBE_SCALE,  // of the three that follow
  FE_PROBE_MEAN,
  FE_PROBE_SPREAD,
  FE_PROBE_SQUARES,
  FE_PROBE_STATS
};
typedef struct {
  const char *name, *output;  // as tn_run knows it
  const char *file;           // NULL: unknown
  uint32_t line, function, twin, n_bins;
  bool is_view;  // hands out the value, and no statistics
  double lo, hi;
} FeProbe;
typedef struct FeProbing FeProbing;  // run/probe.c

// Code and its tables: shared by all models made from it, freed with the last of them. The compiler's own
// part follows (FeJitCode); a bundle has nothing but the plan.
typedef struct FeCode {
  atomic_uint n_refs;
  void (*free)(struct FeCode *c);
  const RtPlan *plan;
  const tn_plan *stats;             // by function of the plan; NULL: not known
  const tn_plan *variant_stats;     // by variant, numbered through all functions; NULL: not known
  const char *const *bounds;        // the same: "batch <= 8"
  const FeBytesMoved *bytes_moved;  // by function of the plan; NULL: not known
  const FeProbe *probes;            // by function, in order
  const RtCacheWrite *cache_writes;
  uint32_t n_probes, n_cache_writes;
  tn_compile_info info;
  uint32_t n_workers;
  int64_t worker_bytes;  // of TnFrame.blocks, for each worker
} FeCode;

// One call at a time (call_lock.c).
typedef enum {
  CALL_NONE,
#define MODEL_CALL(name, class) CALL_##name,
#define LOADER_CALL(name, class) CALL_##name,
#include "frontend/run/calls.def"
} FeCall;
typedef struct {
  _Atomic uint64_t word;         // token of the thread whose call is running; 0: none
  _Atomic(const char *) thread;  // whose it is; NULL: nobody, or one that has just come
  uint64_t id;                   // no other lock of the process ever has it
  const RtPlan *plan;            // names what runs; NULL: a loader
  char *error;                   // error text of the last call with a status; guarded by the lock, like the next
  const char *warning;
} FeCallLock;

struct tn_model {
  FeCode *code;
  RtInstance *inst;
  RtArena *lists;         // of the last load's report; NULL: none
  const char *last_name;  // of the function that ran last; NULL: none did
  uint32_t last;
  FeProbing *probing;  // NULL: no probe was ever on
  FeCallLock lock;     // of all of the above that changes
};

// The user's collation is kept beside the loader: it is called with the address of this copy.
struct tn_loader {
  struct RtLoader *rt;
  tn_collate collate;
  FeCallLock lock;  // of rt, but for stops
};

// ---- call_lock.c
void fe_lock_init(FeCallLock *l, const RtPlan *plan, char *error, const char *warning);
// False: another call is running; the calling thread's error of `speaker` (usually l) says which.
bool fe_lock(FeCallLock *l, FeCall call, FeCallLock *speaker);
void fe_unlock(FeCallLock *l);
// The same with an error text: empty at first; at the end it is copied to the calling thread.
bool fe_begin_call(FeCallLock *l, FeCall call, FeCallLock *speaker);
void fe_end_call(FeCallLock *l);
void fe_lock_names(FeCallLock *l, uint32_t function);  // that the call runs
// For calls that wait; false: the calling thread has the lock already, and continues
bool fe_lock_wait(FeCallLock *l, FeCall call);
void fe_end_wait(FeCallLock **l);
// The rest of the block has the lock of calls that wait
#define FE_WAIT(l, call) __attribute__((cleanup(fe_end_wait))) FeCallLock *waited = fe_lock_wait(l, call) ? (l) : NULL
void fe_end_model_call(tn_model **m);
// Opens a public call on m, which ends with the function; gives `failed` when there is no m or it is refused
#define FE_MODEL_CALL(m, call, failed)                                            \
  __attribute__((cleanup(fe_end_model_call))) tn_model *locked = (tn_model *)(m); \
  if (!locked || !fe_begin_call(&locked->lock, CALL_##call, &locked->lock)) {     \
    locked = NULL;                                                                \
    return failed;                                                                \
  }

// ---- error_text.c
void fe_say(const FeCallLock *l, const char *fmt, ...) RT_PRINTF(2, 3);  // as the calling thread's error alone
void fe_say_nothing(const FeCallLock *l);
void fe_keep_error(const FeCallLock *l);  // as the calling thread's
// For the calling thread; `call` asks. Valid until its next call on a model or loader.
const char *fe_error_text(FeCallLock *l, FeCall call);
const char *fe_warning_text(FeCallLock *l, FeCall call);

// ---- model.c
RT_API tn_model *fe_model_new(FeCode *c, uint64_t seed, bool draws);  // initialised; NULL: out of memory
RT_API void fe_code_release(FeCode *c);                               // NULL: nothing
// tn_run by who has the lock
tn_status fe_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out, size_t n_out);
uint32_t fe_find_function(const tn_model *m, const char *name);  // RT_NO_FUNCTION: none that users may call
void fe_say_no_function(char *error, size_t error_size, const tn_model *m, const char *name);

// ---- probe.c
// Runs function k if a probe of it is on; false: none is, and nothing was done
bool fe_run_probed(tn_model *m, uint32_t k, const RtArray *in, size_t n_in, const RtArray *out, size_t n_out,
                   RtStatus *status);
void fe_probing_free(FeProbing *p);  // NULL: nothing

// ---- plan_facts.c: FeCode.bounds, in `mem`
RT_API const char *const *fe_bounds(const RtPlan *p, RtArena *mem);

#endif
