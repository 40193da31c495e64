// Changes a program's text so that it often stays one that verifies: other sizes and attributes, other operands and ops,
// lines dropped, repeated, swapped and added.
#ifndef TN_TESTS_TIR_MUTATE_H
#define TN_TESTS_TIR_MUTATE_H

#include "runtime/base.h"
#include "tests/rng.h"

// In `mem`, without a final 0 in `len`.
RtText tir_mutate(RtArena *mem, const char *text, size_t n, Rng *r);

#endif
