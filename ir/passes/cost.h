// A rough run time of kernels, and their arithmetic, by the bounds of dims: the same on every machine.
#ifndef TN_IR_PASSES_COST_H
#define TN_IR_PASSES_COST_H

#include "ir/ir.h"

double ir_instruction_ns(const Fn *f, Val v);  // of one worker, with a share of its kernel's call
// Of all kernels of a planned function but those that run again, which so change no choice; it ends above `most`.
double ir_fn_ns(const Fn *f, double most);
double ir_multiply_adds(const Fn *f, Val v);           // of products, recurrences and attention
double ir_kernel_flops(const Fn *f, const Kernel *k);  // as ir_fn_flops counts them
// What one run must do: two for each multiply-add of products, recurrences and attention, one for each element of what is
// computed by element or sums.
double ir_fn_flops(const Fn *f);

#endif
