// Matrices of tests of linear systems and factors.
#ifndef TN_TESTS_SYSTEMS_H
#define TN_TESTS_SYSTEMS_H

#include "frontend/tenure.h"

// In [-1, 1]
static inline double noise(uint64_t k) { return (double)((k * 2654435761u ^ k * k * 40503u) % 2001) / 1000 - 1; }

// A size, or a named dim whose bound is larger
static inline tn_dim sized(tn_program *p, const char *name, int64_t n, bool by_bound) {
  return by_bound ? tn_dim_bounded(p, name, n + 5) : tn_dim_const(n);
}

#endif
