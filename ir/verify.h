// The verifier.
#ifndef TN_IR_VERIFY_H
#define TN_IR_VERIFY_H

#include "ir/ir.h"

bool ir_verify(const Fn *f, RtDiags *diags);  // structure, types, order; E2

#endif
