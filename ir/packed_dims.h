// Packed layouts set the sizes of rows dims.
#ifndef TN_IR_PACKED_DIMS_H
#define TN_IR_PACKED_DIMS_H

#include "ir/ir.h"

enum { IR_MAX_MAKERS = 256 * 8 };                      // the most names that a shape can have
bool ir_dim_found_by_run(const Fn *f, Dim d);          // set by a packed layout, or by a step of a scan over one
bool ir_shape_names(const Prog *p, Shape s, Dim sym);  // a size of s is `sym`, or is made of it
bool ir_layout_is_const(const Fn *f, Val v);  // a layout whose table is known now: it lies in the constant pool
// Lengths whose sum is above it are refused: the bound of {rows}, where that is below batch times time. With {total} what they
// must sum to. None: any sum is good
Dim ir_rows_limit(const Fn *f, Val layout);
const Val *ir_rows_makers(const Fn *f);  // by slot of a dim: the layout that sets it; NULL: there is none
// Layouts before v that set sizes which v names: their number
uint32_t ir_sizes_from(const Fn *f, const Val *maker, Val v, Val *out);

#endif
