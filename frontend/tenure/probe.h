// Tenure, probes: statistics of values inside of a model, switched on and off between runs without compiling anew.
//
//   tn_probe(h, "hidden", .bins = 16, .lo = -4, .hi = 4);
//   tn_probe_modules(net, "**");                        // what each module gives, by path
//   tn_model *m = tn_compile(p);
//   tn_model_probe_file(m, stdout, TN_PROBE_JSON);
//   tn_model_probe(m, "**", true);                      // a pattern of names, as of variables
//   tn_run(m, "train_step", ..);                        // a line for each probe
//
// A function with probes is compiled twice: as it is without them, and, as "NAME.probes", with the statistics as further
// outputs. While none of its probes is on, a run is that of the first, which has neither their instructions nor their memory.
// Gradients are watched from a hook: tn_on_grad(h, fn, NULL), where fn calls tn_probe(g, "hidden.grad").
#ifndef TN_PROBE_H
#define TN_PROBE_H

#include "hook.h"
#include "model.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- building
enum { TN_PROBE_MAX_BINS = 256 };
typedef struct {
  uint32_t bins;   // of the histogram, at most TN_PROBE_MAX_BINS; 0: none
  double lo, hi;   // its range, in equal parts; what lies outside is in no bin
  bool gradients;  // of tn_probe_modules: those of the outputs, too, as "PATH.grad", where a backward is built
  tn_site at;
} tn_probe_options;
// f32 of any shape. The name is one of names joined by '.', of which the function has one probe only
TN_API void tn_probe(tn_tensor t, const char *name, tn_probe_options o);
// What modules at a path below m that matches give from now on where they are called with hooks, as hooks of trees do. A
// probe has the path of its module, with ".2" for a second call; with several outputs ".NAME" comes before. Returns the hook
TN_API tn_hook *tn_probe_modules(tn_module *m, const char *pattern, tn_probe_options o);

// ---- running
typedef struct {
  const char *function, *name;
  const char *file;  // where tn_probe stands
  int line;
  uint64_t run;  // counted from 1, of those of this model that some probe saw
  double count;  // of elements
  double n_nan, n_inf;
  double mean, std, min, max, norm;  // of those that are finite; NaN where there is none. std divides by their number
  double n_zero;                     // exactly 0: dead units
  const float *bins;                 // n_bins counts; valid during the call
  uint32_t n_bins;
  double lo, hi;
} tn_probe_value;
// All probes of a name that matches, on or off; TN_ERR_ARGUMENT: there is none. Off at the beginning
TN_API tn_status tn_model_probe(tn_model *m, const char *pattern, bool on);
// Called after a run for each probe that is on, in the order in which they were built; NULL: nobody. It may call nothing
// that takes m
typedef void (*tn_probe_sink)(const tn_probe_value *v, void *ctx);
TN_API tn_status tn_model_probe_sink(tn_model *m, tn_probe_sink fn, void *ctx);
// The same to a file, which stays the caller's: a line for each; CSV begins with a header. NULL: no file
typedef enum { TN_PROBE_CSV, TN_PROBE_JSON } tn_probe_format;
TN_API tn_status tn_model_probe_file(tn_model *m, FILE *out, tn_probe_format format);

#ifdef __cplusplus
}
#endif

#endif
