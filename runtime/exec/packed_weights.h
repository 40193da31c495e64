// Prepacked copies of parameters: invalidation and repacking.
//
// Products read a weight fastest in packed order. A plan lists such copies (RtPackedWeight); each instance has them in a
// segment of its own. Every write to a parameter invalidates its copies (rt_packed_weights_changed); a run whose function
// reads a stale copy has the team repack it first. A function that writes a parameter reads no copy of it.
//
//   set: w changed -> run(eval) packs w -> run(eval) -> run(train), which writes w -> run(eval) packs w
//
// If nothing changed since the function's last run, the check is one comparison.
#ifndef TN_RUNTIME_EXEC_PACKED_WEIGHTS_H
#define TN_RUNTIME_EXEC_PACKED_WEIGHTS_H

#include "runtime/exec/plan.h"
#include "runtime/exec/thread_team.h"

#include <stdatomic.h>

typedef struct {
  const RtPlan *plan;
  unsigned char *block;
  uint8_t *is_stale;            // by copy: its parameter changed since it was packed
  uint8_t *is_wanted;           // by copy: to be repacked before this run; TnFrame.stale
  uint8_t *is_open;             // by copy: the user holds a pointer to the parameter and may write at any time
  uint64_t *seen;               // by function: value of `changes` up to which its copies are valid
  uint64_t changes;             // number of changes, from 1
  atomic_uint_fast64_t n_made;  // read at any time
  uint32_t n_open;
} RtPackedWeights;

bool rt_packed_weights_new(RtPackedWeights *p, const RtPlan *plan);  // all stale; false: out of memory
void rt_packed_weights_free(RtPackedWeights *p);
void rt_packed_weights_changed(RtPackedWeights *p, uint32_t param);
void rt_packed_weights_changed_all(RtPackedWeights *p);
// Begins or ends user access: the parameter counts as changed before every run.
void rt_packed_weights_open(RtPackedWeights *p, uint32_t param, bool is_open);
// Before a run of the function: repacks its stale copies.
void rt_packed_weights_prepare(RtPackedWeights *p, uint32_t function, TnFrame *frame, RtTeam *team);
// The function runs: invalidates the copies of the parameters that it writes.
void rt_packed_weights_ran(RtPackedWeights *p, uint32_t function);

#endif
