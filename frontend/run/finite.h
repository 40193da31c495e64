// A number that a caller gives as a double.
#ifndef TN_FRONTEND_RUN_FINITE_H
#define TN_FRONTEND_RUN_FINITE_H

#include <math.h>
#include <stdbool.h>

// Options are doubles, and code computes with f32: is x neither NaN nor infinite as f32?
static inline bool fe_is_finite(double x) { return isfinite((float)x); }

#endif
