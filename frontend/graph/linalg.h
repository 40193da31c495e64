// Matrix products.
#ifndef TN_FRONTEND_GRAPH_LINALG_H
#define TN_FRONTEND_GRAPH_LINALG_H

#include "frontend/graph/function.h"

// Product of matrices, each stored transposed where asked; also of integers of one dtype
tn_tensor fe_matmul(tn_tensor a, tn_tensor b, bool ta, bool tb, tn_site at);

#endif
