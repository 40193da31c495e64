// Probes: statistics of values inside of a model.
#ifndef TN_FRONTEND_MODULE_PROBE_H
#define TN_FRONTEND_MODULE_PROBE_H

#include "frontend/graph/code.h"
#include "frontend/graph/function.h"
#include "frontend/tenure/probe.h"

typedef struct FeProbed {
  const char *name;
  Loc loc;
  Val seen;             // statistics, or the value; these three as built: a compiled function finds them by origin
  uint32_t first, end;  // what it built, which nothing else reads
  tn_probe_options o;
} FeProbed;

// ---- probe.c: adds to each function with probes a twin that outputs what they see
void fe_probe_twins(tn_program *p);
void fe_plan_probes(tn_program *p, FeJitCode *c, RtFunction *functions);

#endif
