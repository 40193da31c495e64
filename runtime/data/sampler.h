// The order of items in one epoch: a pure function of the sampler, the seed and the epoch.
#ifndef TN_RUNTIME_DATA_SAMPLER_H
#define TN_RUNTIME_DATA_SAMPLER_H

#include "runtime/data/dataset.h"

typedef enum { RT_SEQUENTIAL, RT_SHUFFLED, RT_BUCKETS, RT_LANES, RT_CUSTOM } RtSamplerKind;  // as tn_sampler_kind
typedef struct {
  RtSamplerKind kind;
  uint32_t pool;  // BUCKETS: batches sorted together
  const size_t *custom;
  size_t n_custom;
  uint32_t rank, world;  // world >= 1
  uint32_t shards;       // above 0: world is 1, and this process has the items of each batch that are its shards'
  uint32_t shard_rank, n_shard_ranks;
  bool drop_tail;     // else the beginning is repeated until all ranks have equally many
  size_t batch_size;  // >= 1
  bool drop_last;
  uint64_t seed;
} RtSampler;

bool rt_sampler_check(const RtSampler *s, const RtDataset *d, char *error, size_t error_size);
size_t rt_sampler_items(const RtSampler *s, size_t count);    // of this rank in an epoch
size_t rt_sampler_batches(const RtSampler *s, size_t count);  // of this rank in an epoch
size_t rt_sampler_scratch(const RtSampler *s, size_t count);  // elements that rt_sampler_fill works in; 0: see below
// Of a batch of n items: those that this process reads, from *first on
size_t rt_sampler_part(const RtSampler *s, size_t n, size_t *first);
// `work` has rt_sampler_scratch elements; the epoch's items stand at its front afterwards. Without scratch the order is
// 0, 1, 2, .. or, for CUSTOM, the caller's own list.
bool rt_sampler_fill(const RtSampler *s, const RtDataset *d, uint64_t epoch, size_t *work, char *error,
                     size_t error_size);

#endif
