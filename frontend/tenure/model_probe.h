// Tenure, probes of a model: switched on and off between runs, read by a call or as lines of a file, values by a call. probe.h says how they
// come into a program.
#ifndef TN_MODEL_PROBE_H
#define TN_MODEL_PROBE_H

#include "model.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *function, *name;
  const char *file;  // where tn_probe stands
  int line;
  uint64_t run;  // counted from 1, of those of this model that some probe saw
  double count;  // of elements; counts are exact up to 2^24
  double n_nan, n_inf;
  double mean, std, min, max, norm;  // of those that are finite; NaN where there is none. std divides by their number
  double n_zero;                     // exactly 0: dead units
  const float *bins;                 // n_bins counts; valid during the call
  uint32_t n_bins;
  double lo, hi;
} tn_probe_value;
// All probes of a name that matches, on or off; TN_ERR_ARGUMENT: there is none. Off at the beginning
TN_API tn_status tn_model_probe(tn_model *m, const char *pattern, bool on);
// Called by the thread that runs m, after the run and before tn_run returns, for each probe that is on, in the order in which
// they were built; not after a run that failed. NULL: nobody. It may call nothing that takes m: calls with a status are
// refused (TN_ERR_ARGUMENT), tn_model_free is not
typedef void (*tn_probe_sink)(const tn_probe_value *v, void *ctx);
TN_API tn_status tn_model_probe_sink(tn_model *m, tn_probe_sink fn, void *ctx);
// A value that a probe with .view saw, to read during the call: the next run writes over it, or moves it
typedef struct {
  const char *function, *name;
  const char *file;  // where tn_probe stands
  int line;
  uint64_t run;  // as above
  tn_dtype dtype;
  uint32_t rank;
  int64_t dims[8];   // in this run: those known only in it, too
  const void *data;  // row-major, contiguous; may be NULL where there is no element
} tn_probe_view;
// As a tn_probe_sink is called, of probes with .view
typedef void (*tn_probe_viewer)(const tn_probe_view *v, void *ctx);
TN_API tn_status tn_model_probe_views(tn_model *m, tn_probe_viewer fn, void *ctx);
// The same to a file, which stays the caller's: a line for each; CSV begins with a header. NULL: no file
typedef enum { TN_PROBE_CSV, TN_PROBE_JSON } tn_probe_format;
TN_API tn_status tn_model_probe_file(tn_model *m, FILE *out, tn_probe_format format);

#ifdef __cplusplus
}
#endif

#endif
