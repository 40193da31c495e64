// Sums, means and norms over axes.
#ifndef TN_FRONTEND_GRAPH_REDUCE_H
#define TN_FRONTEND_GRAPH_REDUCE_H

#include "frontend/graph/function.h"

tn_tensor fe_mean(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);
tn_tensor fe_sum(tn_tensor a, const int *axes, uint32_t n, bool keepdim, tn_site at);  // n 0: all axes, as in fe_mean
tn_tensor fe_root(tn_tensor squares, tn_site at);                                      // its gradient at 0 is 0
tn_tensor fe_log(tn_tensor a, tn_site at);                                             // likewise
tn_tensor fe_vector_norm(tn_tensor a, double p, int axis, tn_site at);                 // of order p, without the axis

#endif
