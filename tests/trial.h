// Functions of a program run as they are: data made from names, compiled code without an instance, memory with guards
// behind every block.
//
//   TrialData d = trial_data(f, 0, mem);              // f as its author wrote it
//   if (trial_compile(p, &target, mem, &code, &why))  // all functions of p have gone through the passes
//     end = trial_run(&code, f, &d, team, mem, &results, &why);
//   trial_free(&code);
#ifndef TN_TESTS_TRIAL_H
#define TN_TESTS_TRIAL_H

#include "ir/interp/interpret.h"
#include "tests/entry.h"
#include "tests/foreign.h"

enum { TRIAL_SEED = 11, TRIAL_COUNTER = 3 };

// By names, so that it stays when a program shrinks: what is called "pos.." is > 0, dims called "time.." are at least 1.
// Indices, labels and lengths lie in the range that their readers want. Every draw is of other sizes and numbers.
typedef struct {
  int64_t *slots;
  Tensor *in, *params;
  int64_t *drawn;  // sizes before those that make another one negative became larger
  bool fits;       // they make none
  bool runs;       // slots make none; else nothing is filled
} TrialData;
TrialData trial_data(const Fn *f, uint32_t draw, RtArena *mem);

// Outputs, then parameters.
typedef struct {
  Tensor *t;
  uint32_t n_out, n;
} TrialResults;
Shape trial_output(const Fn *f, uint32_t k, DType *type);

typedef struct {
  Prog *p;
  CgJit *jit;            // NULL: another machine runs it
  Foreign *foreign;      // that machine, or NULL
  int64_t worker_bytes;  // of TnFrame.blocks, for each worker
  Block consts;
} TrialCode;
bool trial_compile(Prog *p, const Target *t, RtArena *mem, TrialCode *out, RtText *why);
bool trial_compile_for(Foreign *m, Prog *p, RtArena *mem, TrialCode *out, RtText *why);  // one program at a time
void trial_free(TrialCode *c);

typedef enum {
  TRIAL_FINE,
  TRIAL_REPORTED,  // a kernel reports a number out of range
  TRIAL_OVERRUN,   // memory behind a block is overwritten
  TRIAL_GUARDS,    // a guard of the arena is damaged
  TRIAL_EMULATOR   // there is no run: the emulator fails
} TrialEnd;
TrialEnd trial_run(const TrialCode *c, const Fn *f, const TrialData *d, RtTeam *team, RtArena *mem, TrialResults *out,
                   RtText *why);

#endif
