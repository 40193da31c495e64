// A program held against itself: the interpreter on a function as written against the interpreter after each pass, and
// against compiled code, on made-up inputs and parameters.
//
// How far results may differ is what the interpreter's own error bars say (InterpEnv.noise): results of noisy runs move by
// as much as rounding can move them. It all happens in a child process: a crash is a finding like any other.
#ifndef TN_TOOLS_SELF_CHECK_H
#define TN_TOOLS_SELF_CHECK_H

#include "ir/ir.h"
#include "ir/passes/passes.h"

typedef enum {
  CHECK_SAME,
  CHECK_REFUSED,       // the text has errors
  CHECK_NO_INPUTS,     // none were found that the function takes
  CHECK_PASS_FAILS,    // a pass reports an error, or leaves a function that the verifier refuses
  CHECK_PASS_DIFFERS,  // what the interpreter finds after a pass is not what it found before
  CHECK_CODE_FAILS,    // no code, or a run that reports an error
  CHECK_CODE_DIFFERS,
  CHECK_CRASH
} CheckVerdict;

typedef struct {
  const char *text, *path;
  size_t n;
  const char *passes;    // NULL: all, and compiled code behind them
  const char *function;  // NULL: each
  uint64_t seed;
  uint64_t rule_limit;  // as Prog.rule_limit
  bool no_rules;
  // Tests: called after each pass, may do damage that is then to be found. NULL: none
  void (*damage)(Fn *f, const PassInfo *pass);
} SelfCheck;

typedef struct {
  CheckVerdict verdict;
  uint32_t id;                                          // of the diagnostic behind it; 0: none
  uint64_t n_rules;                                     // applications of rewrite rules up to the end of the pass
  uint32_t n_passes, n_functions;                       // that were fine
  uint32_t n_draws;                                     // of inputs until every function took them; 1: at once
  char function[128], pass[64], why[1024], rule[2048];  // rule: the last application
} Finding;

Finding self_check(const SelfCheck *c);

#endif
