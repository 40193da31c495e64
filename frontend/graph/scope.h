// Scopes: where values end, and by whom they are owned.
#ifndef TN_FRONTEND_GRAPH_SCOPE_H
#define TN_FRONTEND_GRAPH_SCOPE_H

#include "frontend/graph/function.h"

struct tn_scope {
  tn_function *fn;
  uint32_t index;  // in Fn.scopes
  tn_scope *parent;
  const char *name;
  Loc open, close;
  bool closed, poisoned;
  bool is_expression;    // of TN_SCOPED
  bool is_scan;          // the body of one
  bool was_forced;       // closed by a report of a wrong order: its own end is not reported again
  uint32_t first, last;  // entities that it owns, in order of arrival
  uint32_t n_owned;
  FeCounts counts;
};

// May it be moved? false: reported
bool fe_open_entity(tn_tensor t, bool packed, const char *verb, tn_site at);
// Gives t to the function's own scope: gradients and states outlive inner scopes
tn_tensor fe_keep(tn_tensor t, tn_site at);
void fe_scopes_end(tn_function *f, const char *what, tn_site at);  // reports scopes that are still open
void fe_mark_owner(tn_tensor t, uint32_t scope, tn_site at);       // in the IR alone
tn_tensor fe_detach(tn_tensor t, tn_site at);                      // from its owner, when it has one

#endif
