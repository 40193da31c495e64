// Documents: rows of arrays in memory, cut at given lengths.
#include "runtime/data/dataset.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  uint32_t n;
  const unsigned char *data[RT_MAX_FIELDS];
  size_t row[RT_MAX_FIELDS];  // bytes
  int64_t start[];            // [count + 1] rows
} Ragged;

static bool get_rows_of(void *ctx, size_t k, int64_t first, int64_t n, RtItem *to) {
  const Ragged *r = ctx;
  for (uint32_t f = 0; f < r->n; f++) {
    size_t bytes = (size_t)n * r->row[f];
    if (bytes) memcpy(to->data[f], r->data[f] + (size_t)(r->start[k] + first) * r->row[f], bytes);
    to->length[f] = n;
  }
  return true;
}

static int64_t length_of_document(void *ctx, size_t k) {
  const Ragged *r = ctx;
  return r->start[k + 1] - r->start[k];
}

static bool get_document(void *ctx, size_t k, RtItem *to) {
  return get_rows_of(ctx, k, 0, length_of_document(ctx, k), to);
}

static const RtDatasetOps ragged_ops = {
    .get = get_document, .length = length_of_document, .part = get_rows_of, .free = rt_free};

static bool take_lengths(Ragged *r, const int64_t *lengths, size_t count, int64_t *longest, char *error,
                         size_t error_size) {
  r->start[0] = *longest = 0;
  for (size_t k = 0; k < count; k++) {
    if (lengths[k] < 0) return rt_fail(error, error_size, "length %zu is %" PRId64, k, lengths[k]);
    if (__builtin_add_overflow(r->start[k], lengths[k], &r->start[k + 1]))
      return rt_fail(error, error_size, "the lengths have no sum in 64 bits");
    if (lengths[k] > *longest) *longest = lengths[k];
  }
  return true;
}

static bool take_rows(Ragged *r, uint32_t k, const RtArray *from, int64_t rows, int64_t longest, RtField *f,
                      char *error, size_t error_size) {
  if (from->rank == 0 || from->rank > RT_FIELD_RANK)
    return rt_fail(error, error_size, "array '%s' has rank %" PRIu32 ", 1 to %d are possible", f->name, from->rank,
                   RT_FIELD_RANK);
  if (from->dims[0] != rows)
    return rt_fail(error, error_size, "E111: array '%s' has %" PRId64 " rows, the lengths have %" PRId64 " in all",
                   f->name, from->dims[0], rows);
  f->dtype = from->dtype, f->rank = from->rank, f->is_variable = true;
  memcpy(f->dims, from->dims, f->rank * sizeof *f->dims);
  f->dims[0] = longest;
  if (!rt_check_fields(f, 1, RT_FIELD_RANK, error, error_size)) return false;
  r->data[k] = from->data, r->row[k] = (size_t)rt_field_row(f);
  if (!from->data && rows && r->row[k]) return rt_fail(error, error_size, "array '%s' has no data", f->name);
  return true;
}

RtDataset *rt_dataset_ragged(const RtArray *arrays, uint32_t n, const char *const *names, const int64_t *lengths,
                             size_t count, char *error, size_t error_size) {
  RtField fields[RT_MAX_FIELDS] = {{.rank = 0}};
  Ragged *r = count < SIZE_MAX / 16 ? rt_malloc(sizeof *r + (count + 1) * sizeof *r->start) : NULL;
  int64_t longest;
  bool ok = r || rt_fail(error, error_size, "out of memory");
  if (ok) r->n = n;
  ok = ok && take_lengths(r, lengths, count, &longest, error, error_size);
  for (uint32_t k = 0; ok && k < n; k++) {
    if (names && names[k]) rt_field_name(&fields[k], names[k]);
    else snprintf(fields[k].name, RT_FIELD_NAME, "%" PRIu32, k);
    ok = take_rows(r, k, &arrays[k], r->start[count], longest, &fields[k], error, error_size);
  }
  RtDataset *d = ok ? rt_dataset_new(&ragged_ops, r, fields, n, count, error, error_size) : NULL;
  if (!d) rt_free(r);
  return d;
}
