// Tenure, probes: statistics of values inside of a model, or the values themselves, switched on and off between runs
// without compiling anew.
//
//   tn_probe(h, "hidden", .bins = 16, .lo = -4, .hi = 4);
//   tn_probe_modules(net, "**");                        // what each module gives, by path
//   tn_model *m = tn_compile(p);
//   tn_model_probe_file(m, stdout, TN_PROBE_JSON);
//   tn_model_probe(m, "**", true);                      // a pattern of names, as of variables
//   tn_run(m, "train_step", ..);                        // a line for each probe
//
//   tn_probe(h, "hidden", .view = true);
//   static void look(const tn_probe_view *v, void *ctx) { printf("%s has rank %u\n", v->name, v->rank); }
//   tn_model_probe_views(m, look, NULL);                // look(view, NULL): data, dtype and shape of h in each run
//
// A function with probes is compiled twice: as it is without them, and, as "NAME.probes", with the statistics and the viewed
// values as further outputs. While none of its probes is on, a run is that of the first, which has neither their instructions
// nor their memory. While one is on, all that the function's probes see is computed and stored: of a viewed value every
// element, in memory of the model that runs enlarge where they need more.
// Gradients are watched from a hook: tn_on_grad(h, fn, NULL), where fn calls tn_probe(g, "hidden.grad").
#ifndef TN_PROBE_H
#define TN_PROBE_H

#include "hook.h"
#include "model_probe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TN_PROBE_MAX_BINS = 256 };
typedef struct {
  uint32_t bins;   // of the histogram, at most TN_PROBE_MAX_BINS; 0: none
  double lo, hi;   // its range, in equal parts, of which the last has hi too; what lies outside is in no bin
  bool gradients;  // of tn_probe_modules: those of the outputs, too, as "PATH.grad", where a backward is built
  bool view;       // no statistics, but the value, for tn_model_probe_views; has no bins
  tn_site at;
} tn_probe_options;
// f32 of any shape, with .view any dtype: the value as it is here, whatever is written to it later. The name is one of names
// joined by '.', of which the function has one probe only. Not in the body of a scan, nor in a distributed function
TN_API void tn_probe(tn_tensor t, const char *name, tn_probe_options o);
// What modules at a path below m that matches give from now on where they are called with hooks, as hooks of trees do:
// outputs of f32, with .view of any dtype; of packed sequences the rows. A probe has the path of its module, with ".2" for a
// second call; with several outputs ".NAME" comes before, of recurrent modules ".output", ".hidden" and ".cell". Returns the
// hook
TN_API tn_hook *tn_probe_modules(tn_module *m, const char *pattern, tn_probe_options o);

#ifdef __cplusplus
}
#endif

#endif
