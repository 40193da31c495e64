// Loaders: threads that build the batches of an epoch ahead of the one who asks for them.
//
//   RtLoader *l = rt_loader_new(d, &options, error, sizeof error);
//   for (RtBatch b; rt_loader_next(l, &b) == RT_OK && b.number;) train(b);
//   rt_loader_free(l);
//
// A ring of prefetch + 1 slots: batch p of an epoch is built in slot p modulo their number, by whichever thread comes
// first, so that what it holds depends on p alone. One thread asks; rt_loader_stop may come from anywhere, at any time.
//
// A forked child may ask too: its threads are started when it first does. rt_loader_free there frees and joins nobody.
#ifndef TN_RUNTIME_DATA_LOADER_H
#define TN_RUNTIME_DATA_LOADER_H

#include "runtime/data/collate.h"
#include "runtime/data/sampler.h"

typedef struct {
  uint32_t workers, prefetch;  // prefetch 0: 1
  RtSampler sampler;
  RtLayout layout;
  RtCollate collate;
  const char *const *inputs;  // NULL: all arrays
  uint32_t n_inputs;
  bool guarded;  // dead batches are poisoned, and no batch is a view
} RtLoaderOptions;

typedef struct {
  uint64_t seed, epoch, position, identity;
} RtLoaderState;

// Arrays of batches since the loader was made; those of a live batch are given and not ended.
typedef struct {
  int64_t given, ended;
} RtLoaderCounts;

// Of the batches of one epoch
typedef struct {
  size_t batches, sequences, skipped;
  int64_t rows, padded;  // padded: items times the longest, summed over the batches
  int64_t most_items, most_rows, most_padded, most_squares, longest;  // of one batch
} RtEpochReport;

typedef struct RtLoader RtLoader;
RtLoader *rt_loader_new(RtDataset *d, const RtLoaderOptions *o, char *error, size_t error_size);
void rt_loader_free(RtLoader *l);     // NULL: nothing
size_t rt_loader_count(RtLoader *l);  // of the epoch at which it stands
RtStatus rt_loader_report(RtLoader *l, RtEpochReport *out);
int64_t rt_loader_bytes(const RtLoader *l);
RtLoaderCounts rt_loader_counts(const RtLoader *l);
RtStatus rt_loader_next(RtLoader *l, RtBatch *out);
char *rt_loader_error_buffer(RtLoader *l);  // the text of its error
void rt_loader_stop(RtLoader *l);           // async-signal-safe
bool rt_loader_is_stopped(const RtLoader *l);
RtLoaderState rt_loader_get_state(const RtLoader *l);
RtStatus rt_loader_set_state(RtLoader *l, RtLoaderState s);

#endif
