// Matrices of tests of linear systems and factors.
#ifndef TN_TESTS_SYSTEMS_H
#define TN_TESTS_SYSTEMS_H

#include "codegen/target.h"
#include "frontend/tenure.h"
#include <stdlib.h>

// In [-1, 1]
static inline double noise(uint64_t k) { return (double)((k * 2654435761u ^ k * k * 40503u) % 2001) / 1000 - 1; }

// A size, or a named dim whose bound is larger
static inline tn_dim sized(tn_program *p, const char *name, int64_t n, bool by_bound) {
  return by_bound ? tn_dim_bounded(p, name, n + 5) : tn_dim_const(n);
}

// Calls f with code for each of these targets that this CPU has.
static inline void on_each_target(void (*f)(void)) {
  static const char *const targets[] = {"generic", "avx2", "avx512"};
  for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
    const Target *t = cg_target_find(targets[k]);
    char lack[TARGET_LACK];
    if (!t || !cg_target_runs_here(t, lack)) continue;
    setenv("TN_TARGET", targets[k], 1);
    f();
  }
  unsetenv("TN_TARGET");
}

#endif
