// Writes in place, and regions without gradients.
#ifndef TN_FRONTEND_GRAPH_INPLACE_H
#define TN_FRONTEND_GRAPH_INPLACE_H

#include "frontend/graph/function.h"

// t shows `content` from here on; nothing is checked. no_grad: as in a region without gradients, wherever the
// call stands.
tn_tensor fe_write(tn_tensor t, tn_tensor content, bool no_grad, tn_site at);
// The result of an op written to its operand 0; `what` is the public call
tn_tensor fe_in_place(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, const char *what,
                      tn_site at);
// What tn_copy_ does; `what`: the public call
tn_tensor fe_copy_in(tn_tensor dst, tn_tensor src, const char *what, tn_site at);
bool fe_is_tracked(tn_tensor t);  // does it require a gradient?
// the same, or it is made of an input or a frozen parameter, for which tn_grad gives one
bool fe_may_have_gradient(tn_tensor t);

#endif
