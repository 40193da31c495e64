#include "runtime/data/sampler.h"
#include "runtime/exec/shards.h"
#include "runtime/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool rt_sampler_knows_lengths(const RtSampler *s, const RtDataset *d) { return s->lengths || d->ops->length; }

int64_t rt_sampler_length(const RtSampler *s, const RtDataset *d, size_t item) {
  return s->lengths ? s->lengths[item] : d->ops->length(d->ctx, item);
}

static bool check_limits(const RtSampler *s, const RtDataset *d, char *error, size_t error_size) {
  const int64_t most = INT64_C(1) << 60, limits[] = {s->max_length, s->max_rows, s->max_padded, s->max_squares};
  for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
    if (limits[k] < 0 || limits[k] > most)
      return rt_fail(error, error_size, "a limit is %" PRId64 ", 1 to 2^60 are possible", limits[k]);
  if (s->kind == RT_FIRST_FIT && !s->max_rows && !s->max_padded && !s->max_squares)
    return rt_fail(error, error_size, "first fit packs batches up to max_rows, max_padded or max_squares");
  if (!rt_is_by_rows(s)) return true;
  if (d->count == RT_STREAM) return rt_fail(error, error_size, "the lengths of a stream's items are not known before");
  if (s->kind == RT_LANES) return rt_fail(error, error_size, "lanes are batch_size items, not a number of rows");
  if (!rt_sampler_knows_lengths(s, d))
    return rt_fail(error, error_size,
                   "the data set does not know the lengths of its items: sampler.lengths may have them");
  if (s->cut >= RT_CUT_LONG && !rt_dataset_is_variable(d))
    return rt_fail(error, error_size, "items without a variable field cannot be cut");
  bool is_fill = s->cut == RT_CUT_FILL;
  if (is_fill && (s->kind == RT_BUCKETS || s->kind == RT_FIRST_FIT || !s->max_rows || s->max_padded || s->max_squares))
    return rt_fail(error, error_size,
                   "items that are cut where a batch ends have their order, and max_rows of the batch's limits");
  return true;
}

bool rt_sampler_check(const RtSampler *s, const RtDataset *d, char *error, size_t error_size) {
  if ((unsigned)s->kind > RT_FIRST_FIT) return rt_fail(error, error_size, "the kind of sampler is unknown");
  if (s->rank >= s->world)
    return rt_fail(error, error_size, "rank %" PRIu32 " is not below the world's %" PRIu32, s->rank, s->world);
  if (s->shards && (s->n_shard_ranks > s->shards || s->shard_rank >= s->n_shard_ranks))
    return rt_fail(error, error_size, "rank %" PRIu32 " of %" PRIu32 " has none of %" PRIu32 " shards", s->shard_rank,
                   s->n_shard_ranks, s->shards);
  if (d->count == RT_STREAM && s->shards) return rt_fail(error, error_size, "a stream is not read in shards");
  if (d->count == RT_STREAM && (s->kind != RT_SEQUENTIAL || s->world > 1))
    return rt_fail(error, error_size, "a stream is read in its own order, by one rank");
  if ((unsigned)s->cut > RT_CUT_FILL) return rt_fail(error, error_size, "the way to cut items is unknown");
  if (!check_limits(s, d, error, error_size)) return false;
  if (s->kind == RT_BUCKETS && !rt_sampler_knows_lengths(s, d))
    return rt_fail(error, error_size, "the data set does not know the lengths of its items: no length buckets");
  if (s->kind != RT_CUSTOM) return true;
  if (!s->custom && s->n_custom) return rt_fail(error, error_size, "no order of the user's is given");
  for (size_t k = 0; k < s->n_custom; k++)
    if (s->custom[k] >= d->count)
      return rt_fail(error, error_size, "place %zu of the order is item %zu, the data set has %zu", k, s->custom[k],
                     d->count);
  return true;
}

static size_t global_count(const RtSampler *s, size_t count) { return s->kind == RT_CUSTOM ? s->n_custom : count; }

size_t rt_sampler_items(const RtSampler *s, size_t count) {
  size_t n = global_count(s, count), mine = n / s->world + (!s->drop_tail && n % s->world != 0);
  return s->kind == RT_LANES ? mine / s->batch_size * s->batch_size : mine;
}

size_t rt_sampler_batches(const RtSampler *s, size_t count) {
  size_t n = rt_sampler_items(s, count);
  return n / s->batch_size + (!s->drop_last && n % s->batch_size != 0);
}

size_t rt_sampler_part(const RtSampler *s, size_t n, size_t *first) {
  *first = 0;
  if (!s->shards) return n;
  int64_t rows = (int64_t)n;
  *first = (size_t)rt_first_row(rows, s->shards, rt_first_shard(s->shards, s->shard_rank, s->n_shard_ranks));
  return (size_t)rt_first_row(rows, s->shards, rt_first_shard(s->shards, s->shard_rank + 1, s->n_shard_ranks)) - *first;
}

static bool is_plain(const RtSampler *s) { return s->world == 1 && (s->kind == RT_SEQUENTIAL || s->kind == RT_CUSTOM); }

static size_t padded_count(const RtSampler *s, size_t count) {
  size_t n = global_count(s, count);
  return (n + s->world - 1) / s->world * s->world;
}

// LANES copies the order once more; BUCKETS too, with an order of the batches behind it.
size_t rt_sampler_scratch(const RtSampler *s, size_t count) {
  size_t parts = s->kind == RT_BUCKETS ? 3 : s->kind == RT_LANES ? 2 : 1;
  return is_plain(s) || count == RT_STREAM ? 0 : parts * padded_count(s, count);
}

// ---- length buckets
typedef struct {
  int64_t length;
  size_t item;
} Sized;

// Longest first; equal ones by number, which fixes the order.
static int by_length(const void *a, const void *b) {
  const Sized *x = a, *y = b;
  if (x->length != y->length) return x->length > y->length ? -1 : 1;
  return (x->item > y->item) - (x->item < y->item);
}

static bool sort_pool(const RtSampler *s, const RtDataset *d, size_t *order, size_t n, char *error, size_t error_size) {
  Sized *pool = rt_malloc(n * sizeof *pool);
  if (!pool) return rt_fail(error, error_size, "out of memory");
  for (size_t k = 0; k < n; k++) pool[k] = (Sized){rt_sampler_length(s, d, order[k]), order[k]};
  qsort(pool, n, sizeof *pool, by_length);
  for (size_t k = 0; k < n; k++) order[k] = pool[k].item;
  rt_free(pool);
  return true;
}

// Sorted before the ranks take their shares: in each step all ranks have batches of about the same lengths.
static bool sort_pools(const RtSampler *s, const RtDataset *d, size_t *order, size_t n, char *error,
                       size_t error_size) {
  size_t step;
  bool is_large = __builtin_mul_overflow((size_t)rt_sampler_pool(s), s->batch_size, &step);
  if (is_large || __builtin_mul_overflow(step, s->world, &step)) step = n;
  for (size_t at = 0; at < n; at += step)
    if (!sort_pool(s, d, order + at, n - at < step ? n - at : step, error, error_size)) return false;
  return true;
}

// Full batches in another order, the same on all ranks; `copy` has room for twice the items.
static void shuffle_batches(const RtSampler *s, size_t *order, size_t n, size_t *copy, uint64_t seed) {
  size_t full = n / s->batch_size, bytes = s->batch_size * sizeof *order;
  size_t *place = copy + n;
  memcpy(copy, order, full * bytes);
  rt_shuffle(place, full, seed);
  for (size_t k = 0; k < full; k++) memcpy(order + k * s->batch_size, copy + place[k] * s->batch_size, bytes);
}

// ---- the whole
static void pad(size_t *order, size_t n, size_t padded) {
  for (size_t k = n; k < padded; k++) order[k] = order[(k - n) % n];
}

static void take_share(const RtSampler *s, size_t *order, size_t mine) {
  for (size_t k = 0; k < mine; k++) order[k] = order[k * s->world + s->rank];
}

// Lane i of a batch walks through the items i * n_batches, i * n_batches + 1, ..
static void lay_lanes(const RtSampler *s, size_t *order, size_t n, size_t *copy) {
  size_t batches = n / s->batch_size;
  memcpy(copy, order, n * sizeof *order);
  for (size_t k = 0; k < batches; k++)
    for (size_t i = 0; i < s->batch_size; i++) order[k * s->batch_size + i] = copy[i * batches + k];
}

// Seeds that differ below 2^32 never meet, whatever the epoch.
uint64_t rt_sampler_seed(const RtSampler *s, uint64_t epoch) { return (s->seed << 32 | s->seed >> 32) + epoch; }

bool rt_sampler_fill(const RtSampler *s, const RtDataset *d, uint64_t epoch, size_t *work, char *error,
                     size_t error_size) {
  size_t n = global_count(s, d->count), padded = padded_count(s, d->count), mine = rt_sampler_items(s, d->count);
  if (is_plain(s) || n == 0) return true;
  uint64_t seed = rt_sampler_seed(s, epoch);
  if (s->kind == RT_SHUFFLED || s->kind == RT_BUCKETS) rt_shuffle(work, n, seed);
  else
    for (size_t k = 0; k < n; k++) work[k] = s->kind == RT_CUSTOM ? s->custom[k] : k;
  if (s->kind == RT_BUCKETS && !sort_pools(s, d, work, n, error, error_size)) return false;
  pad(work, n, padded);
  if (s->world > 1 && s->kind == RT_LANES) {  // a rank's lanes go on from batch to batch: neighbours stay together
    size_t share = s->drop_tail ? n / s->world : padded / s->world;
    memmove(work, work + s->rank * share, mine * sizeof *work);
  } else if (s->world > 1) take_share(s, work, mine);
  if (s->kind == RT_BUCKETS) shuffle_batches(s, work, mine, work + padded, ~seed);
  if (s->kind == RT_LANES) lay_lanes(s, work, mine, work + padded);
  return true;
}
