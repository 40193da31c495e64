// What all data sets share, and those that lie in memory.
#include "runtime/data/dataset.h"

#include <inttypes.h>
#include <string.h>

// ---- fields
void rt_field_name(RtField *f, const char *name) {
  size_t n = strnlen(name, RT_FIELD_NAME - 1);
  memcpy(f->name, name, n);
  f->name[n] = 0;
}

int64_t rt_field_row(const RtField *f) {
  int64_t bytes = (int64_t)rt_dtype_bytes(f->dtype);
  for (uint32_t d = 1; d < f->rank; d++) bytes *= f->dims[d];
  return bytes;
}

int64_t rt_field_bytes(const RtField *f) { return rt_field_row(f) * (f->rank ? f->dims[0] : 1); }

static bool check_size(const RtField *f, char *error, size_t error_size) {
  const int64_t most = INT64_C(1) << 46;  // bytes of one item
  int64_t bytes = 8;
  for (uint32_t d = 0; d < f->rank; d++) {
    if (f->dims[d] < 0)
      return rt_fail(error, error_size, "field '%s' has size %" PRId64 " at axis %" PRIu32, f->name, f->dims[d], d);
    if (__builtin_mul_overflow(bytes, f->dims[d] ? f->dims[d] : 1, &bytes) || bytes > most)
      return rt_fail(error, error_size, "an item of field '%s' has more than 2^46 bytes", f->name);
  }
  return true;
}

static bool check_field(const RtField *f, uint32_t max_rank, char *error, size_t error_size) {
  if (!f->name[0]) return rt_fail(error, error_size, "a field has no name");
  if (f->dtype == RT_NO_DTYPE || f->dtype >= RT_N_DTYPES)
    return rt_fail(error, error_size, "field '%s' has an unknown dtype", f->name);
  if (f->rank > max_rank)
    return rt_fail(error, error_size, "field '%s' has rank %" PRIu32 ", at most %" PRIu32 " is possible", f->name,
                   f->rank, max_rank);
  if (f->is_variable && f->rank == 0)
    return rt_fail(error, error_size, "field '%s' is variable and has no axis", f->name);
  return check_size(f, error, error_size);
}

bool rt_check_fields(const RtField *fields, uint32_t n, uint32_t max_rank, char *error, size_t error_size) {
  if (n == 0 || n > RT_MAX_FIELDS)
    return rt_fail(error, error_size, "%" PRIu32 " fields are given, 1 to %d are possible", n, RT_MAX_FIELDS);
  for (uint32_t k = 0; k < n; k++) {
    if (!check_field(&fields[k], max_rank, error, error_size)) return false;
    for (uint32_t i = 0; i < k; i++)
      if (!strcmp(fields[i].name, fields[k].name))
        return rt_fail(error, error_size, "two fields are named '%s'", fields[k].name);
  }
  return true;
}

// ---- life
RtDataset *rt_dataset_new(const RtDatasetOps *ops, void *ctx, const RtField *fields, uint32_t n_fields, size_t count,
                          char *error, size_t error_size) {
  if (!rt_check_fields(fields, n_fields, RT_FIELD_RANK, error, error_size)) return NULL;
  RtDataset *d = rt_malloc(sizeof *d);
  if (!d) {
    rt_fail(error, error_size, "out of memory");
    return NULL;
  }
  *d = (RtDataset){.refs = 1, .ops = ops, .ctx = ctx, .count = count, .n_fields = n_fields};
  memcpy(d->fields, fields, n_fields * sizeof *fields);
  return d;
}

RtDataset *rt_dataset_retain(RtDataset *d) {
  atomic_fetch_add(&d->refs, 1);
  return d;
}

void rt_dataset_release(RtDataset *d) {
  if (!d || atomic_fetch_sub(&d->refs, 1) != 1) return;
  if (d->ops->free) d->ops->free(d->ctx);
  rt_free(d);
}

uint32_t rt_dataset_measured(const RtDataset *d) {
  uint32_t k = 0;
  while (k < d->n_fields && !d->fields[k].is_variable) k++;
  return k;
}

bool rt_dataset_is_variable(const RtDataset *d) { return rt_dataset_measured(d) < d->n_fields; }

// ---- items
static bool check_lengths(const RtDataset *d, const RtItem *item) {
  for (uint32_t k = 0; k < d->n_fields; k++) {
    const RtField *f = &d->fields[k];
    if (f->is_variable && (item->length[k] < 0 || item->length[k] > f->dims[0]))
      return rt_fail(item->error, item->error_size, "field '%s' has length %" PRId64 ", its bound is %" PRId64, f->name,
                     item->length[k], f->dims[0]);
  }
  return true;
}

bool rt_dataset_get(const RtDataset *d, size_t k, RtItem *to) {
  if (k >= d->count) return rt_fail(to->error, to->error_size, "the data set has %zu items", d->count);
  return d->ops->get(d->ctx, k, to) && check_lengths(d, to);
}

static bool take_part(const RtDataset *d, int64_t first, int64_t n, int64_t of, RtItem *to) {
  for (uint32_t k = 0; k < d->n_fields; k++) {
    const RtField *f = &d->fields[k];
    if (!f->is_variable) continue;
    if (to->length[k] != of)
      return rt_fail(to->error, to->error_size,
                     "field '%s' has length %" PRId64 ", an item that is cut has %" PRId64 " in all", f->name,
                     to->length[k], of);
    size_t row = (size_t)rt_field_row(f);
    memmove(to->data[k], (unsigned char *)to->data[k] + (size_t)first * row, (size_t)n * row);
    to->length[k] = n;
  }
  return true;
}

bool rt_dataset_get_part(const RtDataset *d, size_t k, int64_t first, int64_t n, int64_t of, RtItem *to) {
  if (k < d->count && d->ops->part) return d->ops->part(d->ctx, k, first, n, to) && check_lengths(d, to);
  return rt_dataset_get(d, k, to) && take_part(d, first, n, of, to);
}

int rt_dataset_next(const RtDataset *d, RtItem *to) {
  int got = d->ops->next(d->ctx, to);
  return got > 0 && !check_lengths(d, to) ? -1 : got;
}

// ---- arrays of the caller's
typedef struct {
  uint32_t n;
  const unsigned char *data[RT_MAX_FIELDS];
  size_t bytes[RT_MAX_FIELDS];  // of one item
} Arrays;

static bool get_rows(void *ctx, size_t first, size_t n, RtItem *to) {
  const Arrays *a = ctx;
  for (uint32_t f = 0; f < a->n; f++)
    if (n && a->bytes[f]) memcpy(to->data[f], a->data[f] + first * a->bytes[f], n * a->bytes[f]);
  return true;
}

static bool get_row(void *ctx, size_t k, RtItem *to) { return get_rows(ctx, k, 1, to); }

static const void *view_rows(void *ctx, uint32_t field, size_t first, size_t n) {
  const Arrays *a = ctx;
  (void)n;
  return a->data[field] ? a->data[field] + first * a->bytes[field] : NULL;
}

static const RtDatasetOps array_ops = {.get = get_row, .rows = get_rows, .view = view_rows, .free = rt_free};

static bool take_array(Arrays *a, uint32_t k, const RtArray *from, const RtArray *first, RtField *f, char *error,
                       size_t error_size) {
  if (from->rank == 0 || from->rank > RT_MAX_RANK)
    return rt_fail(error, error_size, "array '%s' has rank %" PRIu32 ": its first axis counts the items", f->name,
                   from->rank);
  if (from->dims[0] != first->dims[0] || from->dims[0] < 0)
    return rt_fail(error, error_size,
                   "E111: array '%s' has %" PRId64 " rows and the first array has %" PRId64
                   ": arrays of one data set have one first dim",
                   f->name, from->dims[0], first->dims[0]);
  f->dtype = from->dtype;
  f->rank = from->rank - 1;
  memcpy(f->dims, from->dims + 1, f->rank * sizeof *f->dims);
  if (!check_field(f, RT_FIELD_RANK, error, error_size)) return false;
  a->data[k] = from->data;
  a->bytes[k] = (size_t)rt_field_bytes(f);
  if (!from->data && from->dims[0] && a->bytes[k]) return rt_fail(error, error_size, "array '%s' has no data", f->name);
  return true;
}

RtDataset *rt_dataset_arrays(const RtArray *arrays, uint32_t n, const char *const *names, char *error,
                             size_t error_size) {
  RtField fields[RT_MAX_FIELDS] = {{.rank = 0}};
  Arrays *a = rt_malloc(sizeof *a);
  bool ok = a || rt_fail(error, error_size, "out of memory");
  if (ok && (n == 0 || n > RT_MAX_FIELDS))
    ok = rt_fail(error, error_size, "%" PRIu32 " arrays are given, 1 to %d are possible", n, RT_MAX_FIELDS);
  if (ok) *a = (Arrays){.n = n};
  for (uint32_t k = 0; ok && k < n; k++) {
    if (names && names[k]) rt_field_name(&fields[k], names[k]);
    else snprintf(fields[k].name, RT_FIELD_NAME, "%" PRIu32, k);
    ok = take_array(a, k, &arrays[k], &arrays[0], &fields[k], error, error_size);
  }
  RtDataset *d = ok ? rt_dataset_new(&array_ops, a, fields, n, (size_t)arrays[0].dims[0], error, error_size) : NULL;
  if (!d) rt_free(a);
  return d;
}

// ---- series: owned by the caller
enum { SERIES_X, SERIES_LABEL, SERIES_MASK };

static bool get_case(void *ctx, size_t k, RtItem *to) {
  const RtSeries *s = ctx;
  uint32_t length = rt_series_length(s, k);
  size_t bytes = sizeof(float) * length * rt_series_features(s);
  to->length[SERIES_X] = length;
  memcpy(to->data[SERIES_X], rt_series_values(s, k), bytes);
  if (rt_series_classes(s)) *(int64_t *)to->data[SERIES_LABEL] = rt_series_label(s, k);
  else *(float *)to->data[SERIES_LABEL] = rt_series_target(s, k);
  if (!rt_series_has_mask(s)) return true;
  to->length[SERIES_MASK] = length;
  memcpy(to->data[SERIES_MASK], rt_series_mask(s, k), bytes);
  return true;
}

static int64_t length_of_case(void *ctx, size_t k) { return rt_series_length(ctx, k); }

static const RtDatasetOps series_ops = {.get = get_case, .length = length_of_case};

RtDataset *rt_dataset_series(const RtSeries *s, char *error, size_t error_size) {
  RtField x = {.name = "x",
               .dtype = RT_F32,
               .is_variable = true,
               .rank = 2,
               .dims = {rt_series_max_length(s), rt_series_features(s)}};
  RtField fields[] = {x, {.name = "label", .dtype = RT_I64}, x};
  if (!rt_series_classes(s)) fields[SERIES_LABEL] = (RtField){.name = "target", .dtype = RT_F32};
  rt_field_name(&fields[SERIES_MASK], "mask");
  uint32_t n = rt_series_has_mask(s) ? 3 : 2;
  return rt_dataset_new(&series_ops, (void *)(uintptr_t)s, fields, n, rt_series_count(s), error, error_size);
}
