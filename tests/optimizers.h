// One update of every kind, for tests that go through all of them.
#ifndef TN_TESTS_OPTIMIZERS_H
#define TN_TESTS_OPTIMIZERS_H

#include "frontend/tenure.h"

enum { N_WAYS = 12 };

static inline void update(tn_function *f, tn_module *m, uint32_t way) {
  switch (way) {
  case 0: tn_sgd(f, m, .lr = 0.1, .weight_decay = 0.01); break;
  case 1: tn_sgd(f, m, .lr = 0.1, .momentum = 0.9, .nesterov = true); break;
  case 2: tn_adam(f, m, .lr = 0.01, .weight_decay = 0.1); break;
  case 3: tn_adam(f, m, .lr = 0.01, .amsgrad = true); break;
  case 4: tn_rmsprop(f, m, .weight_decay = 0.1); break;
  case 5: tn_rmsprop(f, m, .centered = true, .momentum = 0.5, .eps = 1e-3); break;
  case 6: tn_adagrad(f, m, .lr_decay = 0.1); break;
  case 7: tn_adadelta(f, m); break;
  case 8: tn_adamax(f, m); break;
  case 9: tn_radam(f, m, .weight_decay = 0.1); break;
  case 10: tn_nadam(f, m); break;
  default: tn_adamw(f, m, .lr = 0.01);
  }
}

#endif
