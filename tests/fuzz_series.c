// Any bytes, by all options: the .ts reader refuses with file and line, or gives cases whose values are all there, and
// finite where nothing is missing.
#include "runtime/data/ts_series.h"
#include "tests/fuzz.h"

#include <math.h>
#include <string.h>

static void check_case(const RtSeries *s, size_t k, RtMissing missing) {
  size_t n_values = (size_t)rt_series_length(s, k) * rt_series_features(s);
  const float *v = rt_series_values(s, k), *mask = rt_series_mask(s, k);
  need(rt_series_length(s, k) <= rt_series_max_length(s) && (mask != NULL) == (missing == RT_MISSING_MASK));
  need(rt_series_classes(s) ? rt_series_label(s, k) < rt_series_classes(s) : isfinite(rt_series_target(s, k)));
  for (size_t i = 0; i < n_values; i++) {
    need(isfinite(v[i]) || (missing == RT_MISSING_NAN && isnan(v[i])));
    need(!mask || mask[i] == 1 || (mask[i] == 0 && v[i] == 0));
  }
}

static void parse(const uint8_t *bytes, size_t n, RtMissing missing) {
  char error[500] = "";
  RtSeries *s = rt_series_parse("f.ts", bytes, n, &(RtSeriesOptions){missing}, error, sizeof error);
  if (!s) {
    need(!strncmp(error, "f.ts:", 5));
    return;
  }
  need(rt_series_count(s) > 0 && rt_series_features(s) > 0);
  for (size_t k = 0; k < rt_series_count(s); k++) check_case(s, k, missing);
  rt_series_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  for (RtMissing missing = RT_MISSING_REFUSE; missing <= RT_MISSING_MASK; missing++) parse(bytes, n, missing);
  return 0;
}
