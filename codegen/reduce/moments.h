#ifndef TN_CODEGEN_REDUCE_MOMENTS_H
#define TN_CODEGEN_REDUCE_MOMENTS_H

#include "codegen/cg.h"

// Op moments: means by channel and the sums about them, in one pass over rows of channels.
//
// Rows fall into slots, by bounds and constants alone, so that sums do not depend on the team: each is summed by one worker,
// about its own first row, in scratch as [slot][what][channel]. Then the team joins slots in order, by vectors of channels.
// Only terms that lie far apart in one slot cancel.
typedef struct {
  Cg *c;
  Val v;             // the op
  V slots;           // in scratch
  V channels, rows;  // of x
  int64_t width;     // channels in whole vectors, by their bound
} Moments;

int64_t cg_moments_chunks(const Fn *f, Val v);                 // slots of the rows as they are stored
int64_t cg_moments_slot_bytes(const Fn *f, Val v, int64_t n);  // scratch of n slots
void cg_moments_open(Moments *m, Cg *c, Val v, V scratch);

// Pixels of a slot: rows of columns, with `channels` of each from channel n0 on.
typedef struct {
  V slot, is_first;  // is_first: i1, the slot's first pixels of these channels
  V n0, channels;
  V from;  // the first pixel's channel n0
  V rows, columns;
  V row, column;  // elements from one to the next
} MomentPixels;
void cg_moments_add(Moments *m, const MomentPixels *p);
void cg_moments_add_chunks(Moments *m, V x);    // all rows, which lie at x: the team's share of the chunks
void cg_moments_finish(Moments *m, V n_slots);  // waits for the team, and joins n_slots of them
V cg_moments_chunks_there(Moments *m);          // chunks that the run's rows fill
#endif
