// Programs for other machines, run here: an object is linked with a driver by lld and runs under qemu's user mode, with
// one worker.
//
//   Foreign *m = foreign_open(&target, &why);              // NULL: what is missing
//   if (foreign_load(m, p, &why))                           // p planned and placed for the target
//     foreign_run(m, cg_symbol(mem, p, f), &run, &why);
//   foreign_close(m);
#ifndef TN_TESTS_FOREIGN_H
#define TN_TESTS_FOREIGN_H

#include "codegen/target.h"
#include "ir/ir.h"
#include "tests/foreign_format.h"

enum { FOREIGN_SKIPPED = 77 };  // status of a test whose tools are missing

typedef struct Foreign Foreign;
Foreign *foreign_open(const Target *t, RtText *why);
void foreign_close(Foreign *m);
bool foreign_load(Foreign *m, Prog *p, RtText *why);

typedef struct {
  int64_t arena_bytes, param_bytes, const_bytes;
  unsigned char *params;  // before and after
  const unsigned char *consts;
  void **in, **out;  // by position
  int64_t *in_bytes, *out_bytes;
  uint32_t n_in, n_out, n_dims;
  int64_t *dims;  // before and after
  uint64_t seed, counter;
  ForeignTail tail;
  bool emulator_failed;  // the translator of the emulator, not the program
} ForeignRun;
bool foreign_run(Foreign *m, const char *symbol, ForeignRun *r, RtText *why);

#endif
