// Operands of an instruction by their names in the row of its op.
#ifndef TN_IR_OPS_H
#define TN_IR_OPS_H

#include "ir/ir.h"

Val ir_operand(const Fn *f, Val v, ArgName name);           // none: absent, or its op has none of that name
bool ir_takes(const Ins *ins, ArgName name);                // is an operand of that name present?
uint32_t ir_operand_at(const Fn *f, Val v, ArgName name);   // its position among the operands; UINT32_MAX: not there
uint32_t ir_operand_flags(const Fn *f, Val v, uint32_t k);  // of the row's operand that stands at position k
uint32_t ir_operand_slot(const Fn *f, Val v, uint32_t k);   // its position in the row
static inline bool ir_has_operand(const Fn *f, Val v, ArgName name) { return !ir_none(ir_operand(f, v, name)); }

#endif
