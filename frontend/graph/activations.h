// Activations with parameters or random numbers, as modules call them.
#ifndef TN_FRONTEND_GRAPH_ACTIVATIONS_H
#define TN_FRONTEND_GRAPH_ACTIVATIONS_H

#include "frontend/graph/function.h"

// ---- activations.c
tn_tensor fe_prelu(tn_tensor a, tn_tensor weight, tn_site at);
tn_tensor fe_rrelu(tn_tensor a, double lo, double hi, tn_site at);
// One half of the axis times an activation of the other: of the second half, but where it is silu
tn_tensor fe_gated(tn_tensor a, int axis, Op op, tn_site at);

// ---- alpha_dropout.c
tn_tensor fe_alpha_dropout(tn_tensor x, double p, bool by_channel, tn_site at);

#endif
