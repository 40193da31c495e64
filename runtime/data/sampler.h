// The order of items in one epoch: a pure function of the sampler, the seed and the epoch. Batches of `batch_size` items
// are cut from it as it stands; those that are filled to a limit of rows are of row_batches.h.
#ifndef TN_RUNTIME_DATA_SAMPLER_H
#define TN_RUNTIME_DATA_SAMPLER_H

#include "runtime/data/dataset.h"

typedef enum { RT_SEQUENTIAL, RT_SHUFFLED, RT_BUCKETS, RT_LANES, RT_CUSTOM, RT_FIRST_FIT } RtSamplerKind;
typedef enum { RT_CUT_REFUSE, RT_CUT_SKIP, RT_CUT_LONG, RT_CUT_FILL } RtCut;  // as tn_cut, from its second on
typedef struct {
  RtSamplerKind kind;
  uint32_t pool;  // BUCKETS, FIRST_FIT: batches sorted or packed together; 0: 16
  const size_t *custom;
  size_t n_custom;
  uint32_t rank, world;  // world >= 1
  uint32_t shards;       // above 0: world is 1, and this process has the items of each batch that are its shards'
  uint32_t shard_rank, n_shard_ranks;
  bool drop_tail;     // else the beginning is repeated until all ranks have equally many
  size_t batch_size;  // >= 1
  int64_t max_length, max_rows, max_padded, max_squares;  // of a sequence, of a batch; 0: no limit
  RtCut cut;                                              // where there is one
  const int64_t *lengths;                                 // of items; NULL: those of the data set
  bool drop_last;
  uint64_t seed;
} RtSampler;

static inline bool rt_is_by_rows(const RtSampler *s) {
  return s->max_length || s->max_rows || s->max_padded || s->max_squares;
}
static inline uint32_t rt_sampler_pool(const RtSampler *s) { return s->pool ? s->pool : 16; }
static inline bool rt_sampler_cuts(const RtSampler *s) { return rt_is_by_rows(s) && s->cut >= RT_CUT_LONG; }
bool rt_sampler_knows_lengths(const RtSampler *s, const RtDataset *d);
int64_t rt_sampler_length(const RtSampler *s, const RtDataset *d, size_t item);
uint64_t rt_sampler_seed(const RtSampler *s, uint64_t epoch);  // of the order of an epoch

bool rt_sampler_check(const RtSampler *s, const RtDataset *d, char *error, size_t error_size);
// Of batches by items:
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
