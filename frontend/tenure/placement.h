// Tenure, placement: offsets for buffers whose lives are known before anything runs, so that those which live at the same
// time do not overlap, with a peak as low as can be found. What tn_compile lays out its arenas by, for memory of any kind.
//
//   tn_place_buffer b[] = {{.lower = 0, .upper = 3, .size = 4096}, {.lower = 1, .upper = 5, .size = 1024}};
//   tn_placement out;
//   tn_status s = tn_place(b, 2, NULL, &out, NULL, 0);  // b[k].offset; out.peak: 5120
//
// `tenure plan` does the same with a file (docs/seeing.md).
#ifndef TN_PLACEMENT_H
#define TN_PLACEMENT_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int64_t lower, upper;  // time: lower is included, upper is not
} tn_place_hole;

typedef struct {
  int64_t lower, upper;  // its life in any unit of time: lower is included, upper is not
  int64_t size;          // bytes, 0 or more
  int64_t offset;        // bytes: tn_place writes it; with is_fixed it is given
  int64_t align;         // bytes: the offset is a multiple; 0: of tn_place_options.align alone
  const tn_place_hole
      *holes;  // inside of the life, ascending, not touching: its bytes may be others' then, and hold nothing after
  uint32_t n_holes;
  bool is_fixed;
} tn_place_buffer;

typedef struct {
  int64_t align;     // bytes: all offsets are multiples, and sizes are rounded up; 0: 1
  int64_t capacity;  // bytes: any peak up to it will do, which is found sooner than the least; 0: the least is wanted
  // Units of exact search, where one pass does not reach the lower bound: some microseconds each for hundreds of
  // buffers. 0: 400,000, a second or two; -1: none
  int64_t budget;
} tn_place_options;

typedef struct {
  int64_t peak;         // bytes: the largest offset + size, sizes rounded up to .align
  int64_t lower_bound;  // bytes: no placement has a lower peak
  int64_t spent;        // units of the search
  bool is_optimal;      // no placement has a lower peak than this one
  bool fits;            // the peak is at most the capacity, or there is none
  bool is_impossible;   // no placement has a peak as low as the capacity
} tn_placement;

// Offsets are the same on every machine and in every run. Where the capacity is not reached, the placement with the lowest
// peak that was found is written all the same. o: NULL for defaults. `error`: a buffer for one sentence; may be NULL.
//
// TN_ERR_ARGUMENT: a life that is empty, a size or alignment below 0, an offset that is given and is not aligned or
// overlaps another given one, a hole outside of the life, sizes that sum to more than 2^60 bytes; nothing is written.
// TN_ERR_MEMORY: out of memory, some hundred bytes for a buffer and up to 64 MiB for the search.
TN_API tn_status tn_place(tn_place_buffer *buffers, size_t n, const tn_place_options *o, tn_placement *out, char *error,
                          size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
