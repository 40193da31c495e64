// Data sets: items of named fields, read by several threads into memory that the reader of the batch owns.
//
//   RtDataset *d = rt_dataset_arrays(arrays, 2, names, error, sizeof error);
//   RtItem item = {.data = {x, y}, .error = error, .error_size = sizeof error};
//   if (!rt_dataset_get(d, 7, &item)) puts(error);
//   rt_dataset_release(d);
//
// Counted references: loaders and joined sets hold one each.
#ifndef TN_RUNTIME_DATA_DATASET_H
#define TN_RUNTIME_DATA_DATASET_H

#include "runtime/data/ts_series.h"
#include "runtime/exec/instance.h"
#include <stdatomic.h>

enum { RT_MAX_FIELDS = 16, RT_FIELD_RANK = RT_MAX_RANK - 1, RT_FIELD_NAME = 64 };
#define RT_STREAM SIZE_MAX

typedef struct {
  char name[RT_FIELD_NAME];
  RtDType dtype;
  bool is_variable;  // the first axis differs from item to item; dims[0] is its bound
  uint32_t rank;     // of one item
  int64_t dims[RT_FIELD_RANK];
} RtField;

// Why a loader wants nothing more: bits that the loader knows the meaning of; 0: it goes on.
typedef atomic_uint RtHalt;
static inline bool rt_is_halted(const RtHalt *h) { return h && atomic_load(h) != 0; }

typedef struct {
  void *data[RT_MAX_FIELDS];
  int64_t length[RT_MAX_FIELDS];  // of variable fields
  char *error;
  size_t error_size;
  uint64_t epoch;      // for which it is read
  const RtHalt *halt;  // give up; NULL: never
} RtItem;

typedef struct {
  bool (*get)(void *ctx, size_t k, RtItem *to);
  // Optional: n consecutive items of a set without variable fields, one behind the other in to->data
  bool (*rows)(void *ctx, size_t first, size_t n, RtItem *to);
  // Optional: where n consecutive items of a field lie in memory already; NULL: nowhere
  const void *(*view)(void *ctx, uint32_t field, size_t first, size_t n);
  int64_t (*length)(void *ctx, size_t k);  // optional: of the first variable field
  // Optional: rows first .. first + n - 1 of all fields, which are variable and have `length` rows each. Nothing is written
  // behind row n, by `get` behind row `length`.
  bool (*part)(void *ctx, size_t k, int64_t first, int64_t n, RtItem *to);
  int (*next)(void *ctx, RtItem *to);  // streams: 1 an item, 0 the end, -1 an error in the place of an item
  bool (*rewind)(void *ctx, uint64_t epoch, char *error, size_t error_size);
  void (*interrupt)(void *ctx);
  void (*free)(void *ctx);
} RtDatasetOps;

typedef struct RtDataset {
  atomic_uint refs;
  const RtDatasetOps *ops;
  void *ctx;
  size_t count;  // RT_STREAM: unknown
  uint32_t n_fields;
  RtField fields[RT_MAX_FIELDS];
} RtDataset;

// Fields are checked: names differ, sizes fit. NULL: ctx stays the caller's.
RtDataset *rt_dataset_new(const RtDatasetOps *ops, void *ctx, const RtField *fields, uint32_t n_fields, size_t count,
                          char *error, size_t error_size);
RtDataset *rt_dataset_retain(RtDataset *d);
void rt_dataset_release(RtDataset *d);  // NULL: nothing
// Item k; lengths are checked against their bounds.
bool rt_dataset_get(const RtDataset *d, size_t k, RtItem *to);
// The same with rows first .. first + n - 1 of its variable fields, each of which has to have `of` rows
bool rt_dataset_get_part(const RtDataset *d, size_t k, int64_t first, int64_t n, int64_t of, RtItem *to);
int rt_dataset_next(const RtDataset *d, RtItem *to);
bool rt_dataset_is_variable(const RtDataset *d);
uint32_t rt_dataset_measured(const RtDataset *d);  // the first variable field, whose length items have; none: n_fields

bool rt_check_fields(const RtField *fields, uint32_t n, uint32_t max_rank, char *error, size_t error_size);
void rt_field_name(RtField *f, const char *name);  // cut at RT_FIELD_NAME - 1 bytes
int64_t rt_field_row(const RtField *f);            // bytes of one step of the first axis; a scalar: of the element
int64_t rt_field_bytes(const RtField *f);          // of one item, by the bound

RtDataset *rt_dataset_arrays(const RtArray *arrays, uint32_t n, const char *const *names, char *error,
                             size_t error_size);
// Item k is the next lengths[k] items of d.
RtDataset *rt_dataset_ragged(RtDataset *d, const int64_t *lengths, size_t count, char *error, size_t error_size);
RtDataset *rt_dataset_series(const RtSeries *s, char *error, size_t error_size);
RtDataset *rt_dataset_subset(RtDataset *d, const size_t *index, size_t n, char *error, size_t error_size);
RtDataset *rt_dataset_concat(RtDataset *const *list, uint32_t n, char *error, size_t error_size);
typedef bool (*RtMap)(void *ctx, size_t k, const RtItem *from, RtItem *to);
RtDataset *rt_dataset_map(RtDataset *d, const RtField *fields, uint32_t n_fields, RtMap fn, void *ctx,
                          void (*free_ctx)(void *), char *error, size_t error_size);

#endif
