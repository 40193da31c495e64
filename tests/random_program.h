// Random programs for differential tests: every op of the table but those that only passes make, over constant and
// symbolic sizes, scopes and moves, views, packed values, parameters and what writes them, gradients.
//
//   Prog *p = random_program(mem, RANDOM_ALL, 42, 20);   // 20 functions; the same for the same seed on every machine
//
// RANDOM_CHAINS: mostly chains of pointwise ops with selects and writes through views; often of rank 0 and of sizes that the run
// gives. They stand in the programs of RANDOM_ALL, too, among all else.
// RANDOM_NETWORKS: each function has layers one behind another and gradients of a loss at their end: what the forward part makes
// lives long.
// RANDOM_CALLS: mostly public calls (tests/random_calls.def), and all else among them.
#ifndef TN_TESTS_RANDOM_PROGRAM_H
#define TN_TESTS_RANDOM_PROGRAM_H

#include "ir/ir.h"
#include "tests/rng.h"

typedef enum { RANDOM_ALL, RANDOM_CHAINS, RANDOM_NETWORKS, RANDOM_CALLS } RandomKind;

Prog *random_program(RtArena *mem, RandomKind kind, uint64_t seed, uint32_t n_functions);

#endif
