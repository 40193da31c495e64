// Placement: an offset for each of a number of buffers, so that buffers which live at the same time do not overlap, with
// a peak as low as can be found. Knows nothing of tensors and functions.
//
//   PlaceBuffer b[2] = {{.lower = 0, .upper = 3, .size = 64, .fixed = PLACE_ANY},
//                       {.lower = 2, .upper = 5, .size = 32, .fixed = PLACE_ANY}};
//   Placement out;
//   ir_place(&(PlaceProblem){.buffers = b, .n = 2, .align = 1}, mem, &out, &fault);   // out.offsets: 0, 64; peak 96
//
// Same offsets with every compiler, optimisation level and run: limits are counts, keys are integers, orders are total.
// Memory: linear in the buffers and their holes, and for the search at most PLACE_SEARCH_BYTES more.
#ifndef TN_IR_PLACEMENT_PLACEMENT_H
#define TN_IR_PLACEMENT_PLACEMENT_H

#include "runtime/base.h"

typedef struct {
  int64_t lower, upper;  // time: lower is included, upper is not
} PlaceSpan;

enum { PLACE_ANY = -1 };

typedef struct {
  int64_t lower, upper;    // the life: lower is included, upper is not
  int64_t size;            // bytes; one of 0 overlaps nothing, and has no top
  int64_t align;           // its offset is a multiple of it, and of the problem's; 0: of the problem's alone
  int64_t fixed;           // its offset is given; PLACE_ANY: it is not
  const PlaceSpan *holes;  // parts of the life in which its bytes may be others': ascending, not touching
  uint32_t n_holes;
} PlaceBuffer;

typedef struct {
  const PlaceBuffer *buffers;
  uint32_t n;
  int64_t align;     // of all offsets; sizes are rounded up to it
  int64_t capacity;  // any peak up to it will do; 0: the least is wanted
  int64_t budget;    // of the search, in units: a node, or 16 steps for each buffer where they are more; 0: no search
  bool is_shuffled;  // instead of a low peak: each at the lowest gap, in a pseudo-random order
} PlaceProblem;

typedef struct {
  int64_t *offsets;     // by buffer, in bytes
  int64_t peak;         // the largest offset + size, sizes rounded up to the problem's alignment
  int64_t lower_bound;  // no placement has a lower peak
  int64_t spent;        // units of the search
  bool is_optimal;      // the search, or the bound, shows that no peak is lower
  bool is_refused;      // the peak is above the capacity, and no placement is within it
} Placement;

typedef struct {
  uint32_t buffer, other;  // other: of a pair; else the same
  char text[160];          // "lives from 7 to 7: its end must be above its start"
} PlaceFault;

// False: a buffer is not valid; *fault says which and why. A peak above the capacity is no fault, and given offsets that
// overlap are found by ir_place_check alone.
bool ir_place(const PlaceProblem *p, RtArena *mem, Placement *out, PlaceFault *fault);

// Independent check, by a sweep over time: offsets are aligned, given ones are kept, buffers that live at the same time
// do not overlap, and no top is above the peak.
bool ir_place_check(const PlaceProblem *p, const int64_t *offsets, int64_t peak, RtArena *mem, PlaceFault *fault);

#endif
