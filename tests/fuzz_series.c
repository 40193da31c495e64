// Any bytes: the .ts reader refuses with file and line, or gives cases whose values are all there and finite.
#include "runtime/data/ts_series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void need(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[500] = "";
  RtSeries *s = rt_series_parse("f.ts", bytes, n, error, sizeof error);
  if (!s) {
    need(!strncmp(error, "f.ts:", 5));
    return 0;
  }
  need(rt_series_count(s) > 0 && rt_series_features(s) > 0);
  for (size_t k = 0; k < rt_series_count(s); k++) {
    size_t n_values = (size_t)rt_series_length(s, k) * rt_series_features(s);
    need(rt_series_label(s, k) < rt_series_classes(s) && rt_series_length(s, k) <= rt_series_max_length(s));
    for (size_t i = 0; i < n_values; i++) need(isfinite(rt_series_values(s, k)[i]));
  }
  rt_series_free(s);
  return 0;
}
