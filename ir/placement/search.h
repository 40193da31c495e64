// Inside of the search: its state, and the bound that prunes it.
#ifndef TN_IR_PLACEMENT_SEARCH_H
#define TN_IR_PLACEMENT_SEARCH_H

#include "ir/placement/problem.h"

typedef struct {
  int64_t at, rank;  // of the last item that was placed; 0, -1: none
} PlaceCursor;

typedef struct PlaceFrame PlaceFrame;
typedef struct PlaceUndo PlaceUndo;
typedef struct PlaceNogood PlaceNogood;
typedef struct PlacePart PlacePart;

struct PlaceSearch {
  const Problem *p;
  int64_t cap;
  PlaceOrder order;
  uint32_t jitter;
  int64_t nodes, steps, limit, units;  // units: of this run
  int64_t *release;                    // by item: of a placed one, its offset
  uint32_t *rank;                      // by item: its place in the order of its part
  uint32_t *crossing;                  // by section: items left that cross the boundary before it
  PlaceSorter sorter;
  PlaceFrame *frames;
  uint32_t *lists;
  PlaceUndo *undo;
  uint32_t n_frames, cap_frames, n_lists, cap_lists, n_undo, cap_undo;
  size_t bytes;
  PlaceNogood *nogoods;
  uint64_t nogood_mask;
  PlacePart *parts;                   // by section, while a part is split
  uint32_t *part_of, *place_of;       // likewise
  uint32_t *scratch, *same, *raised;  // by item
  // bound.c
  int64_t *load;    // by section
  int64_t *lifted;  // by item
  uint32_t *passed;
};
typedef struct PlaceSearch Search;

// False: these items, by release and rank, cannot all come below the cap behind the cursor.
bool ir_place_bound(Search *s, const uint32_t *list, uint32_t n, PlaceCursor cursor, SectionRange hull);

#endif
