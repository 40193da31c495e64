// One update of every kind, for tests that go through all of them.
#ifndef TN_TESTS_OPTIMIZERS_H
#define TN_TESTS_OPTIMIZERS_H

#include "frontend/tenure.h"

enum { N_WAYS = 4 };

static inline void update(tn_function *f, tn_module *m, uint32_t way) {
  switch (way) {
  case 0: tn_sgd(f, m, .lr = 0.1, .weight_decay = 0.01); break;
  case 1: tn_sgd(f, m, .lr = 0.1, .momentum = 0.9, .nesterov = true); break;
  case 2: tn_adam(f, m, .lr = 0.01, .weight_decay = 0.1); break;
  default: tn_adamw(f, m, .lr = 0.01);
  }
}

#endif
