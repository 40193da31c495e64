// Numbers that may differ by rounding, and no further.
#ifndef TN_TESTS_NEAR_H
#define TN_TESTS_NEAR_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

// |found - want| <= tolerance (1 + |want|); infinities and NaN must be the same.
static inline bool is_near(double found, double want, double tolerance) {
  if (!isfinite(want)) return isnan(want) ? isnan(found) : found == want;
  return fabs(found - want) <= tolerance * (1 + fabs(want));
}

// All of n; prints the first that is not.
static inline bool all_near(const char *what, const float *found, const float *want, size_t n, double tolerance) {
  for (size_t k = 0; k < n; k++)
    if (!is_near((double)found[k], (double)want[k], tolerance)) {
      printf("  %s, element %zu: found %.9g, expected %.9g\n", what, k, (double)found[k], (double)want[k]);
      return false;
    }
  return true;
}

// Likewise relative to the largest |want|, which counts as `least` at least.
static inline bool all_near_largest(const char *what, const float *found, const float *want, size_t n, double tolerance,
                                    double least) {
  for (size_t k = 0; k < n; k++) least = fmax(least, fabs((double)want[k]));
  for (size_t k = 0; k < n; k++)
    if (!(fabs((double)found[k] - (double)want[k]) <= tolerance * least)) {
      printf("  %s, element %zu: found %.9g, expected %.9g\n", what, k, (double)found[k], (double)want[k]);
      return false;
    }
  return true;
}

#endif
