// A number that a caller gives as a double.
#ifndef TN_FRONTEND_RUN_FINITE_H
#define TN_FRONTEND_RUN_FINITE_H

#include <math.h>
#include <stdbool.h>

// Options are doubles, what is computed with is f32: not NaN, nor infinite as f32
static inline bool fe_is_finite(double x) { return isfinite((float)x); }

#endif
