// The type of an instruction, from its operands and attributes.
#ifndef TN_IR_SHAPE_SHAPE_H
#define TN_IR_SHAPE_SHAPE_H

#include "ir/ir.h"

// Sets dtype, shape, result records of the instruction at v; false: `why` says it
bool ir_infer(Fn *f, Val v, RtText *why);
uint16_t ir_infer_id(Fn *f, Val v, RtText *why);                 // the same, as the number of the diagnostic; 0: fine
uint16_t ir_infer_why(Fn *f, Val v, RtText *why, RtText *fits);  // fits: what would, where the rule can say so
// What operand k is called in sentences: its name in the row, "operand 1" in a list
const char *ir_operand_text(const Fn *f, Val v, uint32_t k);

#endif
