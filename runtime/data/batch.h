// Batches by handle: a registry tells the live ones from the dead, also when their loader is gone.
//
// An owner, a loader or a retained copy, has at most one live batch. Its handle is (owner, number); the next batch has
// another number, so that an old handle never shows new data.
#ifndef TN_RUNTIME_DATA_BATCH_H
#define TN_RUNTIME_DATA_BATCH_H

#include "runtime/exec/instance.h"

typedef struct {
  uint64_t owner, number;
} RtBatch;  // number 0: none

enum { RT_MAX_BATCH_ARRAYS = 33, RT_ARRAY_NAME = 80 };
typedef struct RtBatchOwner {
  struct RtBatchOwner *next;
  uint64_t id, live;  // number of the live batch; 0: none
  const RtArray *arrays;
  const char (*names)[RT_ARRAY_NAME];
  uint32_t n_arrays;
  size_t n_items;
  const size_t *index;  // NULL: items have no numbers
  bool is_copy;         // made by rt_batch_retain
} RtBatchOwner;

void rt_batch_register(RtBatchOwner *o);  // gives it an id
void rt_batch_unregister(RtBatchOwner *o);
RtBatch rt_batch_publish(RtBatchOwner *o, uint64_t number);  // 0: the live one dies
// *out is a copy of what the live batch shows; false: dead.
bool rt_batch_find(RtBatch b, RtBatchOwner *out);
RtBatch rt_batch_retain(RtBatch b);
void rt_batch_release(RtBatch b);

#endif
