// What shape rules, interpreter and code generator read from a pool: windows over x [N, spatial.., C], one for each position
// of y [N, positions.., C].
//
//   %y, %i = max_pool %x {kernel=[3,3], stride=[2,2], pad=[1,1], shape=[OH,OW]}           i: places in the H x W plane, i32
//   %dx    = max_pool_grad %dy, %i {kernel=[3,3], stride=[2,2], pad=[1,1], shape=[H,W]}
//
// Along an axis the window of position j begins at j * stride - pad and has `kernel` elements, `dilation` apart, of which
// those that x has count: {shape} alone says how many positions there are. Without {kernel} the windows share x out,
// position j has the elements [floor(j in / out), ceil((j + 1) in / out)). One to three spatial axes, of any sizes.
#ifndef TN_IR_POOL_H
#define TN_IR_POOL_H

#include "ir/ir.h"

enum { POOL_AXES = 3 };

typedef struct {
  uint32_t rank;  // spatial axes; those of size 1 in front make them three
  Val x, y;       // those that the instruction reads or makes
  bool is_grad;   // makes x
  bool shares;    // without {kernel}
  Dim n, channels, in[POOL_AXES], out[POOL_AXES];
  int64_t kernel[POOL_AXES], stride[POOL_AXES], pad[POOL_AXES], dilation[POOL_AXES];
} Pool;

// Reads the instruction at v, whose operands fit (ir_infer has run).
void ir_pool(const Fn *f, Val v, Pool *p);

// ---- steps along the last axis
//
// There results come in steps of n_phases neighbours, and the source moves by `stride` elements a step. The taps of a phase
// lie at the same offsets in all steps; those outside of the source are none.
//
//   max_pool {kernel=[3], stride=[2], pad=[1]}      stride 2, one phase, taps at -1, 0, 1
//   its gradient                                    stride 1, two phases: taps at 0; at 0, 1
//   resize {filter="linear"} to twice the size      stride 1, two phases: taps at -1, 0; at 0, 1
enum { POOL_MOST_STRIDE = 4, POOL_MOST_TAPS = 16, POOL_MOST_GATHERED = 64 };
typedef struct {
  uint32_t n;
  int64_t at[POOL_MOST_TAPS];  // from the element at stride * step, ascending
} PoolPhase;
typedef struct {
  uint32_t stride, n_phases;
  PoolPhase phase[POOL_MOST_STRIDE];
  uint32_t n_gathered;  // a resized axis without small steps: so many neighbours at most, which are gathered; else 0
} PoolColumns;
// false: it has no small steps, such as one whose windows share x out. A pool of one channel that has them is as fast as one
// of many: its kernel has vectors along this axis.
bool ir_pool_columns(const Fn *f, Val v, RtArena *mem, PoolColumns *out);

#endif
