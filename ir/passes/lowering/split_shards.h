// Which updates of a distributed function one process may make for all (split_owned.c).
#ifndef TN_IR_PASSES_LOWERING_SPLIT_SHARDS_H
#define TN_IR_PASSES_LOWERING_SPLIT_SHARDS_H

#include "ir/ir.h"

enum { IR_MOST_NORMED = 4096 };  // operands of a global_norm
enum { IR_BUCKET_BYTES = 25 << 20, IR_FIRST_BUCKET_BYTES = 1 << 20 };

// mean_of: by value. Of what each process may compute its part of alone, and take what is wanted whole of the rest from others: the
// mean over shards whose parts it is made of; none otherwise. in_update: by value
void ir_find_owned(const Fn *f, const bool *in_update, Val *mean_of);

#endif
