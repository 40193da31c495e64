// Scans, and random streams: a scan needs one for each step.
#ifndef TN_FRONTEND_GRAPH_SCAN_H
#define TN_FRONTEND_GRAPH_SCAN_H

#include "frontend/graph/function.h"

// Number of a new random stream; inside a scan, the first of one for each step. No other way to take one
// (tests/test_layers.sh).
uint32_t fe_stream(tn_function *f, tn_site at);
// False: f has an open scan, in which `what` is not allowed; reported
bool fe_outside_scan(tn_function *f, const char *what, const char *hint, tn_site at);
// May op take these operands here: in the body of a scan, or outside with values of a body? false: reported
bool fe_scan_allows(tn_function *f, Op op, const tn_tensor *a, uint32_t n, tn_site at);
bool fe_scan_may_write(tn_tensor t, Val root, tn_site at);  // root: the storage written; false: reported
void fe_scan_ends(tn_function *f, tn_site at);              // reports a scan that is open where f ends

#endif
