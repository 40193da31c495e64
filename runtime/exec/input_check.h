// Validation of the arguments of a run. Writes nothing of the caller's.
#ifndef TN_RUNTIME_EXEC_INPUT_CHECK_H
#define TN_RUNTIME_EXEC_INPUT_CHECK_H

#include "runtime/exec/instance.h"
#include "runtime/exec/thread_team.h"

typedef struct {
  const RtPlan *plan;
  const RtFunction *function;
  const unsigned char *params;  // the instance's block
  const RtArray *in, *out;
  size_t n_in, n_out;
  int64_t *slots;  // filled: this run's value of every named dim; the bound where no input names it
  int64_t *dims;   // filled: value of every row of the plan's dim table
  bool *is_known;  // filled: by slot
  RtTeam *team;    // shares long checks of values
  char *error;
  size_t error_size;
} RtRunCheck;

RtStatus rt_check_arrays(RtRunCheck *c);        // everything but values; fills slots and dims
RtStatus rt_check_inputs(const RtRunCheck *c);  // forms and sizes of inputs only; fills slots and dims
RtStatus rt_check_values(const RtRunCheck *c);

#endif
