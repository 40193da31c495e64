// Batches that are filled to a limit of rows, padded rows or squared lengths, in place of a number of items.
//
//   items of an epoch in order -> pieces of at most a batch's rows -> windows of `pool` batches, sorted or packed
//   -> batches, in another order -> those of this rank
//
// A pure function of sampler, lengths, seed and epoch. All memory is taken by rt_row_batches_init.
#ifndef TN_RUNTIME_DATA_ROW_BATCHES_H
#define TN_RUNTIME_DATA_ROW_BATCHES_H

#include "runtime/data/sampler.h"

// Rows first .. first + n - 1 of an item that has `of`
typedef struct {
  size_t item;
  int64_t first, n, of;
} RtItemPart;

typedef struct {
  size_t begin, end;  // pieces
} RtRowBatch;

typedef struct RtPacking RtPacking;  // scratch of one window
typedef struct {
  const RtSampler *sampler;
  const RtDataset *data;
  RtItemPart *pieces;
  RtRowBatch *batches;  // of all ranks
  size_t *order;
  RtPacking *packing;  // NULL: the sampler has no windows
  size_t n_pieces, n_batches, n_skipped, cap_pieces;
  bool is_planned;  // for this seed and epoch
  uint64_t seed, epoch;
} RtRowBatches;

int64_t rt_length_limit(const RtSampler *s);  // of a sequence; INT64_MAX: no limit says so
// The most rows that one batch may have, padded or not; INT64_MAX: no limit says so
int64_t rt_row_limit(const RtSampler *s);
int64_t rt_padded_limit(const RtSampler *s);
// *s and *d stay where they are. False: said why; rt_row_batches_free is to be called all the same.
bool rt_row_batches_init(RtRowBatches *b, const RtSampler *s, const RtDataset *d, char *error, size_t error_size);
void rt_row_batches_free(RtRowBatches *b);
uint64_t rt_row_batches_hash(const RtRowBatches *b);        // of what the batches depend on beside the sampler's kind
void rt_row_batches_plan(RtRowBatches *b, uint64_t epoch);  // nothing, when it is planned already
// Of the epoch that is planned: batches of this rank, and the pieces of its batch k
size_t rt_row_batches_count(const RtRowBatches *b);
const RtItemPart *rt_row_batches_at(const RtRowBatches *b, size_t k, size_t *n);

#endif
