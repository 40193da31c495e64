// Whether all elements of an i64 array are in a range: the quick answer that most runs need.
#ifndef TN_RUNTIME_EXEC_RANGE_CHECK_H
#define TN_RUNTIME_EXEC_RANGE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
  int64_t lo, last;  // both are in it; none is where last < lo
  bool has_other;    // `other` is good, too
  int64_t other;
} RtRange;

bool rt_are_in_range(const int64_t *v, int64_t n, const RtRange *r);

#endif
