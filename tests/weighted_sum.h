// A loss of an image of any size, for tests that compare gradients.
#ifndef TN_TESTS_WEIGHTED_SUM_H
#define TN_TESTS_WEIGHTED_SUM_H

#include "frontend/tenure.h"

// sum of v y^2, with v = 1, 1.25, 1.5, 1.75, 2, 1, .., so that each element counts by its place.
static tn_tensor weighted_sum(tn_program *p, tn_function *f, tn_tensor y) {
  tn_dim n = tn_dim_const(1);
  for (uint32_t k = 0; k < tn_rank(y); k++) n = tn_dim_mul(p, n, tn_dim_of(y, (int)k));
  tn_tensor v = tn_remainder(tn_arange(f, 0, 1, n, TN_F32), tn_full(f, 5, TN_SCALAR));
  v = tn_add_scalar(tn_mul_scalar(v, 0.25), 1);
  return tn_sum(tn_mul(tn_square(tn_reshape(y, TN_SHAPE(n))), v));
}

#endif
