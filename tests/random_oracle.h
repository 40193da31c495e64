// A function as its author wrote it, writes in place included: storage and views are played, not rewritten.
#ifndef TN_TESTS_RANDOM_ORACLE_H
#define TN_TESTS_RANDOM_ORACLE_H

#include "ir/ir.h"

bool oracle_fits(const Fn *f);  // it has writes and no gradients, which stand in the text as wishes only
bool oracle_run(const Fn *f, InterpEnv *env, RtText *why);

#endif
