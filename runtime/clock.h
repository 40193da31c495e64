// Time that passed: the monotonic clock, which nobody sets. What it counts from has no meaning.
#ifndef TN_RUNTIME_CLOCK_H
#define TN_RUNTIME_CLOCK_H

#include "runtime/api.h"

#include <stdint.h>

RT_API int64_t rt_now_ns(void);
static inline double rt_now_ms(void) { return 1e-6 * (double)rt_now_ns(); }
static inline double rt_now_s(void) { return 1e-9 * (double)rt_now_ns(); }

#endif
