// Packed copies of parameters: which are out of date, and when they are made again.
//
// Products read a weight fastest in an order of their own. A plan names such copies (RtPackedWeight); each instance has them in
// a segment of its own. Whoever changes a parameter says so (rt_packed_weights_changed), and a run whose function reads a copy
// that is out of date has it made first, by the team. A function that writes a parameter reads no copy of it.
//
//   set: w changed -> run(eval) packs w -> run(eval) -> run(train), which writes w -> run(eval) packs w
//
// When nothing changed since the function's last run, that costs one comparison.
#ifndef TN_RUNTIME_EXEC_PACKED_WEIGHTS_H
#define TN_RUNTIME_EXEC_PACKED_WEIGHTS_H

#include "runtime/exec/plan.h"
#include "runtime/exec/thread_team.h"

typedef struct {
  const RtPlan *plan;
  unsigned char *block;
  uint8_t *is_stale;   // by copy: its parameter changed since it was made
  uint8_t *is_wanted;  // by copy: this run's; TnFrame.stale
  uint8_t *is_open;    // by copy: somebody holds a pointer to the parameter and may write at any time
  uint64_t *seen;      // by function: changes up to which all of its copies are known to be right
  uint64_t changes;    // 1 and more
  uint64_t n_made;
  uint32_t n_open;
} RtPackedWeights;

bool rt_packed_weights_new(RtPackedWeights *p, const RtPlan *plan);  // all are out of date; false: out of memory
void rt_packed_weights_free(RtPackedWeights *p);
void rt_packed_weights_changed(RtPackedWeights *p, uint32_t param);
void rt_packed_weights_changed_all(RtPackedWeights *p);
// From now on the parameter counts as changed before every run; or no longer.
void rt_packed_weights_open(RtPackedWeights *p, uint32_t param, bool is_open);
// Before a run of the function: makes what it reads and is out of date.
void rt_packed_weights_prepare(RtPackedWeights *p, uint32_t function, TnFrame *frame, RtTeam *team);
// It runs: what it writes is out of date.
void rt_packed_weights_ran(RtPackedWeights *p, uint32_t function);

#endif
