// The gradient of a table as rows, of those that look-ups name.
#ifndef TN_FRONTEND_MODULE_ROW_GRADIENT_H
#define TN_FRONTEND_MODULE_ROW_GRADIENT_H

#include "frontend/graph/module.h"

// What an update by rows takes (ir/optimizers.def); fn NULL: absent
typedef struct {
  tn_tensor grad, index, offsets, factor, best;
  const Attr *padding;  // NULL: none
} FeRowGradient;

// grad: of the whole table, as tn_backward left it. false: reported, E_STATE
bool fe_row_gradient(tn_function *f, const FeParam *q, tn_tensor grad, tn_site at, FeRowGradient *out);
#endif
