// Random programs for differential tests: every op of the table but those that only passes make, over constant and
// symbolic sizes, scopes and moves, views, packed values, parameters and what writes them, gradients.
//
//   Prog *p = random_program(mem, 42, 20);   // 20 functions; the same for the same seed on every machine
#ifndef TN_TESTS_RANDOM_PROGRAM_H
#define TN_TESTS_RANDOM_PROGRAM_H

#include "ir/ir.h"

typedef struct {
  uint64_t state;
} Rng;  // splitmix64
uint64_t rng_next(Rng *r);
uint32_t rng_below(Rng *r, uint32_t n);  // n > 0
double rng_unit(Rng *r);                 // [0, 1)

Prog *random_program(RtArena *mem, uint64_t seed, uint32_t n_functions);

#endif
