// Random programs for differential tests: every op of the table but those that only passes make, over constant and
// symbolic sizes, scopes and moves, views, packed values, parameters and what writes them, gradients.
//
//   Prog *p = random_program(mem, 42, 20);   // 20 functions; the same for the same seed on every machine
#ifndef TN_TESTS_RANDOM_PROGRAM_H
#define TN_TESTS_RANDOM_PROGRAM_H

#include "ir/ir.h"
#include "tests/rng.h"

Prog *random_program(RtArena *mem, uint64_t seed, uint32_t n_functions);

#endif
