// Parameters and state of an instance by path.
#include "runtime/exec/instance_fields.h"
#include "runtime/exec/numbers.h"
#include "runtime/near.h"

#include <inttypes.h>
#include <string.h>

RtArray rt_instance_param(RtInstance *i, uint32_t k) {
  if (k >= i->plan->n_params) return (RtArray){0};
  rt_packed_weights_open(&i->packed, k, true);
  const RtParam *p = &i->plan->params[k];
  RtArray a = {.data = i->params + p->offset, .dtype = p->dtype, .rank = p->rank};
  memcpy(a.dims, p->dims, sizeof a.dims);
  return a;
}

void rt_instance_end_write(RtInstance *i, uint32_t k) { rt_packed_weights_open(&i->packed, k, false); }

static void report_path(RtInstance *i, const char *path) {
  RtNear near = {.wanted = path};
  for (uint32_t k = 0; k < i->plan->n_params; k++) {
    const RtParam *p = &i->plan->params[k];
    rt_near_offer(&near, p->path);
    for (uint32_t a = 0; a < p->n_aliases; a++) rt_near_offer(&near, p->aliases[a]);
  }
  rt_fail(i->error, sizeof i->error, "there is no parameter '%.200s'%s", path, rt_near_or_all(&near));
}

// The entry at `path`, when all of it is here: its number; UINT32_MAX: the error says that there is none
static uint32_t find_entry(RtInstance *i, const char *path) {
  uint32_t k = rt_plan_param(i->plan, path);
  if (k == UINT32_MAX) report_path(i, path);
  if (k == UINT32_MAX || !rt_is_owned(&i->owners, k)) return k;
  rt_fail(i->error, sizeof i->error, "each of %" PRIu32 " ranks has a part of '%.200s' alone; files have all of it",
          i->owners.n_ranks, path);
  return UINT32_MAX;
}

static size_t count_of(const RtParam *p) {
  size_t n = 1;
  for (uint32_t d = 0; d < p->rank; d++) n *= (size_t)p->dims[d];
  return n;
}

static bool check_dtype(RtInstance *i, const RtParam *p, const char *path, RtDType t) {
  if (p->dtype == t || (rt_dtype_is_float(p->dtype) && rt_dtype_is_float(t))) return true;
  return rt_fail(i->error, sizeof i->error, "parameter '%.200s' is %s, not %s", path, rt_dtype_name(p->dtype),
                 rt_dtype_name(t));
}

// The entry at `path` when it has n elements that numbers of t can be.
static uint32_t find_numbers(RtInstance *i, const char *path, RtDType t, size_t n) {
  uint32_t k = find_entry(i, path);
  if (k == UINT32_MAX) return k;
  const RtParam *p = &i->plan->params[k];
  if (!check_dtype(i, p, path, t)) return UINT32_MAX;
  if (count_of(p) == n) return k;
  rt_fail(i->error, sizeof i->error, "parameter '%.200s' has %zu elements, the call says %zu", path, count_of(p), n);
  return UINT32_MAX;
}

enum { SIZES_TEXT = RT_MAX_RANK * 21 + 3 };
static const char *sizes_text(char out[SIZES_TEXT], const int64_t *dims, uint32_t rank) {
  size_t at = 0;
  for (uint32_t d = 0; d < rank && d < RT_MAX_RANK; d++)
    at += (size_t)snprintf(out + at, SIZES_TEXT - at, "%c%" PRId64, d ? ',' : '[', dims[d]);
  snprintf(out + at, SIZES_TEXT - at, at ? "]" : "[]");
  return out;
}

// The entry that an array fits, in shape and dtype.
static uint32_t find_array(RtInstance *i, const char *path, const RtArray *a) {
  uint32_t k = find_entry(i, path);
  if (k == UINT32_MAX) return k;
  const RtParam *p = &i->plan->params[k];
  bool same = a->rank == p->rank && a->rank <= RT_MAX_RANK && !memcmp(a->dims, p->dims, a->rank * sizeof *p->dims);
  if (!check_dtype(i, p, path, (RtDType)a->dtype)) return UINT32_MAX;
  if (same && (a->data || !count_of(p))) return k;
  char want[SIZES_TEXT], have[SIZES_TEXT];
  if (same) rt_fail(i->error, sizeof i->error, "the array for parameter '%.200s' has no data", path);
  else
    rt_fail(i->error, sizeof i->error, "parameter '%.200s' has shape %s, the array %s", path,
            sizes_text(want, p->dims, p->rank), sizes_text(have, a->dims, a->rank));
  return UINT32_MAX;
}

// n numbers of one dtype as another: the bytes as they are, or floats.
static void convert(const void *from, RtDType of, void *to, RtDType as, size_t n) {
  if (of == as && n) memcpy(to, from, n * rt_dtype_bytes(as));
  for (size_t k = 0; of != as && k < n; k++) rt_put_float(rt_get_float(of, from, k), as, to, k);
}

static RtStatus get(RtInstance *i, uint32_t k, void *out, RtDType as) {
  if (k == UINT32_MAX) return RT_ERR_ARGUMENT;
  const RtParam *p = &i->plan->params[k];
  convert(i->params + p->offset, (RtDType)p->dtype, out, as, count_of(p));
  return RT_OK;
}

static RtStatus set(RtInstance *i, uint32_t k, const void *from, RtDType of) {
  if (k == UINT32_MAX) return RT_ERR_ARGUMENT;
  const RtParam *p = &i->plan->params[k];
  convert(from, of, rt_instance_change(i, k), (RtDType)p->dtype, count_of(p));
  return RT_OK;
}

RtStatus rt_instance_get(RtInstance *i, const char *path, float *out, size_t n) {
  return get(i, find_numbers(i, path, RT_F32, n), out, RT_F32);
}
RtStatus rt_instance_set(RtInstance *i, const char *path, const float *v, size_t n) {
  return set(i, find_numbers(i, path, RT_F32, n), v, RT_F32);
}
RtStatus rt_instance_get_array(RtInstance *i, const char *path, const RtArray *out) {
  return get(i, find_array(i, path, out), out->data, (RtDType)out->dtype);
}
RtStatus rt_instance_set_array(RtInstance *i, const char *path, const RtArray *v) {
  return set(i, find_array(i, path, v), v->data, (RtDType)v->dtype);
}
