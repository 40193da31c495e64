// Documents: items of another data set, one behind the other, cut at given lengths.
//
//   items of d     0 1 2 3 4 5 6        lengths 3 0 4
//   documents     [0 1 2] [] [3 4 5 6]
#include "runtime/data/dataset.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  RtDataset *from;
  int64_t start[];  // [count + 1] items of `from`
} Ragged;

static bool get_one_by_one(const RtDataset *d, size_t first, size_t n, RtItem *to) {
  RtItem item = *to;
  for (size_t k = 0; k < n; k++) {
    if (rt_is_halted(to->halt)) return rt_fail(to->error, to->error_size, "stopped");
    if (!rt_dataset_get(d, first + k, &item)) return false;
    for (uint32_t f = 0; f < d->n_fields; f++)
      item.data[f] = (unsigned char *)item.data[f] + rt_field_bytes(&d->fields[f]);
  }
  return true;
}

static bool get_part(void *ctx, size_t k, int64_t first, int64_t n, RtItem *to) {
  const Ragged *r = ctx;
  const RtDataset *d = r->from;
  size_t at = (size_t)(r->start[k] + first);
  for (uint32_t f = 0; f < d->n_fields; f++) to->length[f] = n;
  if (n > 0 && d->ops->rows && d->ops->rows(d->ctx, at, (size_t)n, to)) return true;
  return get_one_by_one(d, at, (size_t)n, to);  // finds the item that is wrong, where there is one
}

static int64_t length_of_document(void *ctx, size_t k) {
  const Ragged *r = ctx;
  return r->start[k + 1] - r->start[k];
}

static bool get_document(void *ctx, size_t k, RtItem *to) {
  return get_part(ctx, k, 0, length_of_document(ctx, k), to);
}

static void interrupt_ragged(void *ctx) {
  const RtDataset *d = ((Ragged *)ctx)->from;
  if (d->ops->interrupt) d->ops->interrupt(d->ctx);
}

static void free_ragged(void *ctx) {
  rt_dataset_release(((Ragged *)ctx)->from);
  rt_free(ctx);
}

static const RtDatasetOps ragged_ops = {.get = get_document,
                                        .length = length_of_document,
                                        .part = get_part,
                                        .interrupt = interrupt_ragged,
                                        .free = free_ragged};

static bool take_lengths(Ragged *r, const int64_t *lengths, size_t count, int64_t *longest, char *error,
                         size_t error_size) {
  r->start[0] = *longest = 0;
  for (size_t k = 0; k < count; k++) {
    if (lengths[k] < 0) return rt_fail(error, error_size, "length %zu is %" PRId64, k, lengths[k]);
    if (__builtin_add_overflow(r->start[k], lengths[k], &r->start[k + 1]))
      return rt_fail(error, error_size, "the lengths have no sum in 64 bits");
    if (lengths[k] > *longest) *longest = lengths[k];
  }
  if ((uint64_t)r->start[count] == r->from->count) return true;
  return rt_fail(error, error_size, "E111: the data set has %zu items, the lengths have %" PRId64 " in all",
                 r->from->count, r->start[count]);
}

static bool take_fields(const RtDataset *d, int64_t longest, RtField *fields, char *error, size_t error_size) {
  for (uint32_t f = 0; f < d->n_fields; f++) {
    fields[f] = d->fields[f];
    if (fields[f].is_variable)
      return rt_fail(error, error_size, "field '%s' is variable, a document is made of items of one size",
                     fields[f].name);
    if (fields[f].rank == RT_FIELD_RANK)
      return rt_fail(error, error_size, "field '%s' has rank %d, its documents one more", fields[f].name,
                     RT_FIELD_RANK);
    memmove(fields[f].dims + 1, fields[f].dims, fields[f].rank++ * sizeof *fields[f].dims);
    fields[f].dims[0] = longest, fields[f].is_variable = true;
  }
  return true;
}

RtDataset *rt_dataset_ragged(RtDataset *d, const int64_t *lengths, size_t count, char *error, size_t error_size) {
  RtField fields[RT_MAX_FIELDS];
  int64_t longest;
  Ragged *r = NULL;
  if (!d->ops->get) {
    rt_fail(error, error_size, "a stream has no items by number: no documents of it");
    return NULL;
  }
  if (count < SIZE_MAX / 16) r = rt_malloc(sizeof *r + (count + 1) * sizeof *r->start);
  if (!r) {
    rt_fail(error, error_size, "out of memory");
    return NULL;
  }
  r->from = rt_dataset_retain(d);
  bool ok = take_lengths(r, lengths, count, &longest, error, error_size) &&
            take_fields(d, longest, fields, error, error_size);
  RtDataset *made = ok ? rt_dataset_new(&ragged_ops, r, fields, d->n_fields, count, error, error_size) : NULL;
  if (!made) free_ragged(r);
  return made;
}
