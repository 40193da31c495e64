// A run for another machine, as bytes: what tests/foreign.c writes and tests/foreign_driver.c reads, and back.
//   in:   ForeignHead, dims, parameters, constants, inputs
//   out:  ForeignTail, dims, parameters, outputs
#ifndef TN_TESTS_FOREIGN_FORMAT_H
#define TN_TESTS_FOREIGN_FORMAT_H

#include <stdint.h>

enum { FOREIGN_PORTS = 1024, FOREIGN_GUARD = 128 /* bytes behind each block */ };
typedef struct {  // bytes, but for counts
  int64_t n_in, n_out, n_dims, param_bytes, const_bytes, arena_bytes, seed, counter;
  int64_t in_bytes[FOREIGN_PORTS], out_bytes[FOREIGN_PORTS];
} ForeignHead;
typedef struct {
  int64_t code, index, value;  // TnKernelStatus
  int64_t guards_hold;         // nothing is written behind a block
  int64_t stack_bytes;         // that the run used, of entry and kernels together
} ForeignTail;

#endif
