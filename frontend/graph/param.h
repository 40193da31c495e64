// A parameter, buffer or state entry; an entity of the ledger may be one.
#ifndef TN_FRONTEND_GRAPH_PARAM_H
#define TN_FRONTEND_GRAPH_PARAM_H

#include "frontend/graph/program.h"
#include "frontend/tenure/module.h"

#define FE_NO_PARAM UINT32_MAX

// A parameter, buffer or state entry. It enters the table of the IR when a function first uses any parameter, so that
// until then tn_share may put another in its place.
typedef struct FeParam {
  const char *path;
  ParamKind kind;
  DType dtype;
  Shape shape;
  tn_init init;
  Loc loc;
  uint32_t index;   // in Prog.params; FE_NO_PARAM before
  uint32_t entity;  // in the function init
  Val value;        // its initial value in the function init; 0: made by `init` when it enters the table
  bool replaced;    // replaced by another one at its path before it entered the table
  bool disposed;
  bool frozen;
  uint32_t frozen_by;       // number of the tn_freeze, from 1; 0: none
  uint32_t last_first_use;  // tn_program.n_first_uses of the newest function that uses it; 0: no function uses it
  uint32_t group;           // of optimizers; 0 unless tn_group said otherwise
  Loc grouped, updated;     // by tn_group; by the first optimizer; 0: not yet
  FeCounter *counter;       // it is of steps (module/counters.c); NULL: it is none
  uint32_t stamp;           // of the walk that saw it last
  uint32_t listed;          // of the walk that listed it last
  const char **aliases;
  uint32_t n_aliases, cap_aliases;
} FeParam;

typedef struct {
  const char *name;
  FeParam *param;
  Loc loc;
} FeEntry;

#endif
