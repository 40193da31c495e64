// Data sets and progress for programs: the runtime's own, under public names.
#include "frontend/tenure/loader.h"
#include "runtime/data/ts_series.h"
#include "runtime/progress.h"
#include "runtime/rng.h"

static const RtSeries *series(const tn_series *s) { return (const RtSeries *)s; }

_Static_assert((int)TN_MISSING_MASK == (int)RT_MISSING_MASK, "one list of ways");

tn_series *tn_series_read_with(const char *path, const tn_series_options *o, char *error, size_t error_size) {
  RtSeriesOptions options = {.missing = o ? (RtMissing)o->missing : RT_MISSING_REFUSE};
  if (path && (unsigned)options.missing <= RT_MISSING_MASK)
    return (tn_series *)rt_series_read(path, &options, error, error_size);
  if (error && error_size)
    snprintf(error, error_size, path ? "what missing values become is unknown" : "no path is given");
  return NULL;
}

tn_series *tn_series_read(const char *path, char *error, size_t error_size) {
  return tn_series_read_with(path, NULL, error, error_size);
}

void tn_series_free(tn_series *s) { rt_series_free((RtSeries *)s); }
size_t tn_series_count(const tn_series *s) { return s ? rt_series_count(series(s)) : 0; }
uint32_t tn_series_features(const tn_series *s) { return s ? rt_series_features(series(s)) : 0; }
uint32_t tn_series_max_length(const tn_series *s) { return s ? rt_series_max_length(series(s)) : 0; }
uint32_t tn_series_classes(const tn_series *s) { return s ? rt_series_classes(series(s)) : 0; }
uint32_t tn_series_length(const tn_series *s, size_t k) { return s ? rt_series_length(series(s), k) : 0; }
uint32_t tn_series_label(const tn_series *s, size_t k) { return s ? rt_series_label(series(s), k) : 0; }
float tn_series_target(const tn_series *s, size_t k) { return s ? rt_series_target(series(s), k) : 0; }
const float *tn_series_mask(const tn_series *s, size_t k) { return s ? rt_series_mask(series(s), k) : NULL; }
const float *tn_series_values(const tn_series *s, size_t k) { return s ? rt_series_values(series(s), k) : NULL; }

void tn_shuffle(size_t *order, size_t n, uint64_t seed) {
  if (order) rt_shuffle(order, n, seed);
}

tn_progress *tn_progress_begin(FILE *out, const char *what, size_t total) {
  return out ? (tn_progress *)rt_progress_begin(out, what ? what : "", total) : NULL;
}

void tn_progress_resume(tn_progress *p, size_t done) { rt_progress_resume((RtProgress *)p, done); }

void tn_progress_step(tn_progress *p, size_t done, const char *fmt, ...) {
  va_list ap;
  if (!fmt) {
    rt_progress_step((RtProgress *)p, done, NULL);
    return;
  }
  va_start(ap, fmt);
  rt_progress_vstep((RtProgress *)p, done, fmt, ap);
  va_end(ap);
}

void tn_progress_end(tn_progress *p) { rt_progress_end((RtProgress *)p); }
