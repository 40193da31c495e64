// What tn_compile makes of a program.
#ifndef TN_FRONTEND_GRAPH_CODE_H
#define TN_FRONTEND_GRAPH_CODE_H

#include "codegen/module/compile.h"
#include "frontend/graph/program.h"
#include "frontend/run/run.h"
#include "ir/passes/passes.h"

// A plan of a function for smaller bounds.
typedef struct FeVariant {
  Fn *ir;
  uint32_t of;  // function
  DimFit *fits;
  uint32_t n_fits;
} FeVariant;

// Code that tn_compile made.
typedef struct FeJitCode {
  FeCode code;      // first
  RtArena *mem;     // of everything below
  CgObject object;  // until it is loaded
  CgJit *jit;
  void *consts;  // const_bytes, a block
  int64_t const_bytes;
  RtPlan plan;
} FeJitCode;

#endif
