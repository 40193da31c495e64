// The guarded arena: between kernels, dead bytes are poisoned with signalling NaN, and the guards around buffers are
// checked. For programs compiled with TN_CHECK=arena only.
//
//   | guard | buffer, live in [first, last] | guard | ...     a write into a guard: error with the kernel and the buffers
#ifndef TN_RUNTIME_EXEC_ARENA_GUARDS_H
#define TN_RUNTIME_EXEC_ARENA_GUARDS_H

#include "runtime/abi.h"
#include "runtime/base.h"

enum { RT_POISON = 0x7fa5a5a5, RT_GUARD = 0x7fb6b6b6 };  // 32-bit patterns; both are signalling NaN as f32

typedef struct {
  int64_t lo, hi;              // bytes of the arena
  int64_t guard_lo, guard_hi;  // guards: [guard_lo, lo) and [hi, guard_hi)
  int32_t first, last;         // kernels
  const char *what;            // "%h (model.c:12)"
  bool is_kept;                // its bytes are another run's, too: they are not poisoned
} RtZone;

// TN_CHECK=nan: what a kernel stores, looked through after it. Bytes by the bounds of dims: those that a run does not
// use hold RT_POISON, which is no NaN that a kernel made.
typedef struct {
  uint8_t segment;  // of TnFrame; SEG_OUT: of constant size alone
  int64_t offset, bytes;
  int32_t kernel;
  const char *what;
} RtWatched;

typedef struct RtGuardedArena {
  const RtWatched *watched;
  uint32_t n_watched;  // 0: NaN is nobody's business
  const RtZone *zones;
  uint32_t n_zones, n_kernels;
  const char *const *kernels;  // "gemm %y (model.c:14)"
  int64_t arena_bytes;
} RtGuardedArena;

// One run: TnFrame.guarded_arena points to it. Zeroed but for the plan.
typedef struct {
  const RtGuardedArena *plan;
  bool is_damaged;
  int32_t kernel;        // the first that damaged a guard
  uint32_t zone;         // next to the damaged guard
  int64_t at;            // byte offset in the arena
  const RtWatched *nan;  // the first value that holds NaN; NULL: none so far
  int64_t element;
} RtGuardedRun;

// Called by one worker while the others wait: after kernel `done` (-1: before the first one) and before kernel `next`
// (n_kernels: none).
void rt_guarded_arena_step(TnFrame *f, int32_t done, int32_t next);
bool rt_nan_report(const RtGuardedRun *r, char *error, size_t error_size);            // true: there was none
bool rt_guarded_arena_report(const RtGuardedRun *r, char *error, size_t error_size);  // true: nothing was damaged

#endif
