// A function as its author wrote it, writes in place included: storage and views are played, not rewritten.
#ifndef TN_TESTS_RANDOM_ORACLE_H
#define TN_TESTS_RANDOM_ORACLE_H

#include "ir/interp/interpret.h"
#include "ir/ir.h"

// It has writes, and neither gradients nor scans over packed sequences, which pass outline_scans makes runnable.
bool oracle_fits(const Fn *f);
bool oracle_run(const Fn *f, InterpEnv *env, RtText *why);

// The loss when `target` is `step` * dir away from what it is, all else as in `base` (its values, made with step 0):
// what a stop_grad shows and an optimizer makes stays, and the k-th grad_of of the function is grads[k].
typedef struct {
  Val loss, target;
  const double *dir;
  double step;
  const Tensor *grads;
  Tensor *base;  // by value; NULL: this run makes it
  Tensor *up;    // by value, of the first step, which is up; the second is as far down
  bool is_down;  // the second is made
  bool jumped;   // a comparison, or another op that jumps, gave something else than in `base`: no slope says anything
} Nudge;
bool oracle_loss(const Fn *f, InterpEnv *env, Nudge *n, double *loss, RtText *why);

#endif
