#include "tools/arrays.h"

#include "ir/interp/interp.h"
#include "runtime/data/npy.h"
#include "runtime/half.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int64_t array_elements(const tn_array *a) {
  int64_t n = 1;
  for (uint32_t k = 0; k < a->rank; k++) n *= a->dims[k];
  return n;
}

double array_at(const tn_array *a, int64_t k) {
  switch (a->dtype) {
  case TN_I64: return (double)((const int64_t *)a->data)[k];
  case TN_I32: return ((const int32_t *)a->data)[k];
  case TN_U8: return ((const uint8_t *)a->data)[k];
  case TN_BOOL: return ((const uint8_t *)a->data)[k] != 0;
  case TN_F16: return (double)rt_f32_of_f16(((const uint16_t *)a->data)[k]);
  case TN_BF16: return (double)rt_f32_of_bf16(((const uint16_t *)a->data)[k]);
  default: return (double)((const float *)a->data)[k];
  }
}

void array_set(tn_array *a, int64_t k, double x) {
  double y = run_converted((DType)a->dtype, x);
  switch (a->dtype) {
  case TN_I64: ((int64_t *)a->data)[k] = ir_to_i64(x); break;
  case TN_I32: ((int32_t *)a->data)[k] = (int32_t)y; break;
  case TN_U8:
  case TN_BOOL: ((uint8_t *)a->data)[k] = (uint8_t)y; break;
  case TN_F16: ((uint16_t *)a->data)[k] = rt_f16_of_f32((float)x); break;
  case TN_BF16: ((uint16_t *)a->data)[k] = rt_bf16_of_f32((float)x); break;
  default: ((float *)a->data)[k] = (float)x;
  }
}

// ---- .npy
// Elements in Fortran order become rows.
static void to_rows(RtArena *mem, tn_array *a) {
  int64_t n = array_elements(a), at[RT_MAX_RANK] = {0};
  tn_array from = *a;
  a->data = rt_alloc(mem, (size_t)n * rt_dtype_bytes(a->dtype));
  for (int64_t k = 0; k < n; k++) {
    int64_t row = 0;
    for (uint32_t d = 0; d < a->rank; d++) row = row * a->dims[d] + at[d];
    array_set(a, row, array_at(&from, k));
    for (uint32_t d = 0; d < a->rank && ++at[d] == a->dims[d]; d++) at[d] = 0;
  }
}

static bool read_numbers(RtArena *mem, const RtSource *s, const RtNpy *npy, RtDType as, tn_array *out, char *error,
                         size_t size) {
  size_t bad, n = npy->n_elements;
  unsigned char *bytes = rt_alloc(mem, n * npy->number.bytes + 1);
  *out = (tn_array){.dtype = (tn_dtype)as, .rank = npy->rank, .data = rt_alloc(mem, n * rt_dtype_bytes(as) + 1)};
  memcpy(out->dims, npy->dims, sizeof out->dims);
  if (!rt_source_read(s, npy->data_at, bytes, n * npy->number.bytes, error, size)) return false;
  if (!rt_number_read(npy->number, bytes, n, as, out->data, &bad))
    return rt_fail(error, size, "element %zu does not fit %s", bad, rt_dtype_name(as));
  if (npy->fortran) to_rows(mem, out);
  return true;
}

bool array_read_npy(RtArena *mem, const char *path, uint8_t dtype, tn_array *out) {
  char error[512] = "";
  RtSource s = {0};
  RtNpy npy;
  RtDType as = (RtDType)dtype;
  bool ok = rt_source_open(&s, path, error, sizeof error) && rt_npy_parse(&s, &npy, error, sizeof error) &&
            read_numbers(mem, &s, &npy, as, out, error, sizeof error);
  rt_source_close(&s);
  if (!ok) fprintf(stderr, "tenure: %s\n", strstr(error, path) ? error : rt_printf(mem, "%s: %s", path, error));
  return ok;
}

// NumPy has no bfloat16: it is written as JAX writes it.
static const char *const npy_descr[] = {[TN_F32] = "<f4",  [TN_I64] = "<i8", [TN_I32] = "<i4", [TN_U8] = "|u1",
                                        [TN_BOOL] = "|b1", [TN_F16] = "<f2", [TN_BF16] = "<V2"};

// Version 1: magic, the length of the header, the header, spaces up to a multiple of 64.
static void npy_header(const tn_array *a, char *out, size_t size, size_t *length) {
  enum { PREFIX = 10, ALIGNMENT = 64 };
  int n =
      snprintf(out + PREFIX, size - PREFIX, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_descr[a->dtype]);
  for (uint32_t k = 0; k < a->rank; k++)
    n += snprintf(out + PREFIX + n, size - PREFIX - (size_t)n, "%lld,%s", (long long)a->dims[k],
                  k + 1 < a->rank ? " " : "");
  n += snprintf(out + PREFIX + n, size - PREFIX - (size_t)n, "), }");
  while ((PREFIX + n + 1) % ALIGNMENT) out[PREFIX + n++] = ' ';
  out[PREFIX + n++] = '\n';
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)(n & 0xff), out[9] = (char)(n >> 8);
  *length = (size_t)(PREFIX + n);
}

bool array_write_npy(const char *path, const tn_array *a) {
  char header[512];
  size_t n, bytes = (size_t)array_elements(a) * rt_dtype_bytes(a->dtype);
  npy_header(a, header, sizeof header, &n);
  FILE *out = strcmp(path, "-") ? fopen(path, "wb") : stdout;
  bool ok = out && fwrite(header, 1, n, out) == n && fwrite(a->data, 1, bytes, out) == bytes;
  if (out) ok = (out == stdout ? !fflush(out) : !fclose(out)) && ok;
  if (!ok) fprintf(stderr, "tenure: %s: %s\n", path, strerror(errno));
  return ok;
}

// ---- random numbers
static void fill_whole(tn_array *a, const Drawn *d, uint32_t stream) {
  int64_t n = array_elements(a), lo, last, before = 0;
  for (int64_t k = 0; k < n; k++) {
    ir_draw_bounds(d->ranges, d->n_ranges, d->spread, k, before, &lo, &last);
    double u = ir_philox_uniform(d->seed, 0, stream, (uint64_t)k);
    before = lo < last ? lo + (int64_t)(u * (double)(last - lo + 1)) : lo;
    if (lo < last && before > last) before = last;
    array_set(a, k, (double)before);
  }
}

void array_fill_random(tn_array *a, const Drawn *d, uint32_t stream) {
  int64_t n = array_elements(a);
  bool is_whole = d->n_ranges || d->spread == 0 || ir_dtype_kind[a->dtype] != DTYPE_FLOAT;
  if (is_whole) fill_whole(a, d, stream);
  else
    for (int64_t k = 0; k < n; k++) array_set(a, k, (double)(float)ir_philox_normal(d->seed, 0, stream, (uint64_t)k));
}

// What a double holds of a whole number, and the rest, which is 0 but beyond 2^53.
static double rest_of(int64_t x) {
  double held = (double)x;
  uint64_t bits = held < 0x1p63 ? (uint64_t)(int64_t)held : 1ull << 63;
  return (double)(int64_t)((uint64_t)x - bits);
}

Tensor array_tensor(RtArena *mem, const tn_array *a) {
  Tensor t = {.n = array_elements(a)};
  size_t bytes = (size_t)t.n * sizeof *t.v + 8;
  t.v = rt_alloc(mem, bytes);
  for (int64_t k = 0; k < t.n; k++) t.v[k] = array_at(a, k);
  for (int64_t k = 0; a->dtype == TN_I64 && k < t.n; k++) {
    double rest = rest_of(((const int64_t *)a->data)[k]);
    if (rest == 0) continue;
    if (!t.low) t.low = memset(rt_alloc(mem, bytes), 0, bytes);
    t.low[k] = rest;
  }
  return t;
}

void array_take(tn_array *a, Tensor t) {
  int64_t n = array_elements(a) < t.n ? array_elements(a) : t.n;
  for (int64_t k = 0; k < n; k++) {
    if (a->dtype == TN_I64) ((int64_t *)a->data)[k] = run_whole(&t, k);
    else array_set(a, k, t.v[k]);
  }
}
