// Mutation testing of the checkers: deliberate faults, each of which a named checker must catch. The list is
// faults.def.
#ifndef TN_TESTS_FAULTS_H
#define TN_TESTS_FAULTS_H

#include "ir/ir.h"

// What a fault is done to; what comes behind it runs again before the checker looks.
typedef enum {
  AT_IR,       // the instructions of a planned function; then the verifier
  AT_ORDER,    // its instructions; then fuse, lives, place, plan_check
  AT_KERNELS,  // what fuse made; then lives, place, plan_check
  AT_LIVES,    // what lives made; then place, plan_check
  AT_PLACE,    // what place made; then plan_check
  AT_PROGRAM,  // what ir_place_program made; then its check
  AT_RUN,      // a compiled program, run with TN_CHECK=arena
  N_STAGES
} FaultStage;

typedef enum { BY_VERIFY, BY_LIVES, BY_PLAN_CHECK, BY_SEGMENTS, BY_ARENA, N_CHECKERS } FaultChecker;

// Does the fault at one place of f, counted from 0; false: f has no such place. Of AT_PROGRAM f is any function of it.
typedef bool FaultEdit(Fn *f, uint32_t site);
#define FAULT(stage, name, checker, says, doc) FaultEdit fault_##name;
#include "tests/faults.def"
#undef FAULT

typedef struct {
  FaultStage stage;
  const char *name;
  FaultChecker checker;
  const char *says, *doc;  // says: a part of the checker's sentence; `|` stands between several
  FaultEdit *edit;
} Fault;

// At the place that was asked for?  if (at(&site)) { .. return true; }
static inline bool at(uint32_t *site) { return (*site)-- == 0; }

bool faults_in_arena(const Fault *fault, RtText *said);  // faults_arena.c: compiles, runs; true: it was caught

#endif
