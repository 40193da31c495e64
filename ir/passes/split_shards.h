// Which updates of a distributed function one process may make for all (split_owned.c).
#ifndef TN_IR_PASSES_SPLIT_SHARDS_H
#define TN_IR_PASSES_SPLIT_SHARDS_H

#include "ir/ir.h"

enum { IR_MOST_NORMED = 4096 };  // operands of a global_norm
enum { IR_BUCKET_BYTES = 25 << 20, IR_FIRST_BUCKET_BYTES = 1 << 20 };

// update_of: by value. Of a mean over shards: the update of the parameter whose gradient it is, if each process may make a part
// of that update alone and take the rest of the parameter from others; none otherwise. in_update: by value
void ir_find_owned(const Fn *f, const bool *in_update, Val *update_of);
// mul = g times a number: the number; none: it is something else
Val ir_scale_of(const Fn *f, Val mul, Val g);

#endif
