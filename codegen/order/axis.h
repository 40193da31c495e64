// A tensor seen along one axis: [outer][n][inner].
#ifndef TN_CODEGEN_ORDER_AXIS_H
#define TN_CODEGEN_ORDER_AXIS_H

#include "codegen/cg.h"

typedef struct {
  V outer, n, inner;
} CgAxis;

CgAxis cg_axis_of(Cg *c, Shape s, uint32_t axis);
// Offset in a tensor of shape `whole` of the element that has flat index `flat` within the axes [from, to) of `part`, whose
// sizes are at most those of the whole.
V cg_part_offset(Cg *c, Shape part, Shape whole, uint32_t from, uint32_t to, V flat);
bool cg_same_axes(const Prog *p, Shape a, Shape b, uint32_t from, uint32_t to);
// Reports an index that is out of range; of {padded} ops no -1, which names nothing.
void cg_report_index(Cg *c, V at, V index);

#endif
