// Any bytes: the reader of CSV refuses with a sentence, or every item can be read and is finite.
#include "runtime/data/csv.h"
#include "runtime/exec/numbers.h"
#include "tests/fuzz.h"

#include <math.h>
#include <string.h>

static bool is_number(RtDType t, const void *x, size_t k) {
  if (rt_dtype_is_float(t)) return isfinite(rt_get_float(t, x, k));
  return t != RT_BOOL || ((const uint8_t *)x)[k] <= 1;
}

static void read_all(const RtDataset *d, char *error, size_t error_size) {
  void *x = malloc((size_t)rt_field_bytes(&d->fields[0]) + 1);
  need(x != NULL);
  for (size_t k = 0; k < d->count; k++) {
    RtItem item = {.data = {x}, .error = error, .error_size = error_size};
    need(rt_dataset_get(d, k, &item));
    for (int64_t i = 0; i < d->fields[0].dims[0]; i++) need(is_number((RtDType)d->fields[0].dtype, x, (size_t)i));
  }
  free(x);
}

// A cell that is class k is the number k + 1; a missing one is no class, unless a text or a number of its own says so.
static void check_classes(const RtDataset *d, bool fills, char *error, size_t error_size) {
  for (size_t k = 0; k < d->count; k++) {
    int64_t class = -1;
    float number = 0;
    RtItem item = {.data = {&class, &number}, .error = error, .error_size = error_size};
    need(rt_dataset_get(d, k, &item));
    need(class >= 0 && class < 3 && (number == (float)class + 1 || (fills && number == 0 && class == 2)));
  }
}

// The first byte chooses the options: its upper bits the dtype of the first column; none: all columns as f32. The highest: the
// first column as classes, and as f32 beside them.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[600] = "";
  RtSource s;
  if (n == 0) return 0;
  RtCsvOptions o = {.delimiter = bytes[0] & 1 ? ';' : ',',
                    .no_header = bytes[0] & 2,
                    .allow_missing = bytes[0] & 4,
                    .missing = bytes[0] & 8 ? "NA" : NULL};
  const char *column = "0";
  bool has_classes = bytes[0] & 128, fills = bytes[0] & 16;
  RtCsvField first = {.name = "x", .dtype = (RtDType)(bytes[0] >> 4 & 7), .columns = &column, .n_columns = 1};
  RtCsvField both[] = {{.name = "class", .columns = &column, .n_columns = 1, .is_scalar = true}, first};
  both[0].classes = (const char *const[]){"1", "2", "3"}, both[0].n_classes = 3;
  both[0].missing_as = fills ? "3" : NULL;
  both[1].dtype = RT_F32;
  if (first.dtype) o.fields = &first, o.n_fields = 1, o.no_header = true;
  if (has_classes) o.fields = both, o.n_fields = 2, o.no_header = true;
  rt_source_memory(&s, "f.csv", bytes + 1, n - 1);
  RtDataset *d = rt_dataset_csv(&s, &o, error, sizeof error);
  if (d && has_classes) check_classes(d, fills, error, sizeof error);
  else if (d) read_all(d, error, sizeof error);
  else need(*error != 0);
  rt_dataset_release(d);
  return 0;
}
