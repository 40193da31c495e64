// Inside of the room: bounds of the peak of all orders.
#ifndef TN_IR_SCHEDULE_BOUND_H
#define TN_IR_SCHEDULE_BOUND_H

#include "ir/schedule/run.h"

SchedBound ir_sched_bound_alone(const Run *r);  // of single kernels
// By cuts, of a problem of at most SCHED_MOST_KERNELS; it ends when the bound is `enough`, a known peak.
SchedBound ir_sched_bound(const Run *r, int64_t enough, RtArena *mem);

#endif
