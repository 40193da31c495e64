// Storage, as opposed to values: which values share it.
#ifndef TN_IR_STORAGE_H
#define TN_IR_STORAGE_H

#include "ir/ir.h"

// Before pass functionalize
bool ir_is_alias(Op op);               // its result is a view of operand 0: a write to one is a write to the other
bool ir_is_whole(const Fn *f, Val v);  // a write to v replaces all elements of its base
Val ir_written_storage(const Fn *f, Val v);  // the value that v is a view of, or v

// After it
bool ir_is_stored_leaf(const Fn *f, Val v);  // input, param or table: has a buffer without a kernel
bool ir_writes_param(const Fn *f, Val v);    // v changes state that outlives the run
Val ir_view_base(const Fn *f, Val v);        // follows views to the value whose buffer they share
bool ir_is_product(const Fn *f, Val v);      // of floats: its kernel may have a prologue and an epilogue
// ir/passes/fusion/fuse_update.c
bool ir_updates_rows(const Fn *f, Val v);     // is it an update whose gradient is rows, by index?
Val ir_gradient_of(const Fn *f, Val update);  // none: v is no update, or one by rows
const bool *ir_written_params(const Fn *f);   // by parameter
Val ir_storage_root(const Fn *f, Val v);      // follows views and WRITES results to the first version of their buffer
void ir_changed(Fn *f, Val from);             // instructions from this one on were edited: drops what was known of f

#endif
