// Matrix products.
#ifndef TN_FRONTEND_GRAPH_LINALG_H
#define TN_FRONTEND_GRAPH_LINALG_H

#include "frontend/graph/function.h"

// Of matrices that are stored transposed where asked; of whole numbers of one dtype, too
tn_tensor fe_matmul(tn_tensor a, tn_tensor b, bool ta, bool tb, tn_site at);

#endif
