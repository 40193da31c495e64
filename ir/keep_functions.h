// Leaving functions out.
#ifndef TN_IR_KEEP_FUNCTIONS_H
#define TN_IR_KEEP_FUNCTIONS_H

#include "ir/ir.h"

// Leaves the functions of a comma-separated list and init, and the parameters that the listed ones use
void ir_keep_functions(Prog *p, const char *list, const Fn *init);

#endif
