// Inside of the room: a problem in units and sections.
//
// A unit is the greatest common divisor of all sizes, alignments and given offsets. A section is a maximal set of buffers that
// live together: time is cut where a start follows an end. A buffer lives in a range of sections, or in several where it
// has holes.
//
//   time      0 1 2 3 4 5          sections   0 1
//   a         [-----)              a          [--)     two sets: {a, b}, {b, c}
//   b           [-------)          b          [----)
//   c               [---)          c             [-)
#ifndef TN_IR_PLACEMENT_PROBLEM_H
#define TN_IR_PLACEMENT_PROBLEM_H

#include "ir/placement/placement.h"

typedef struct {
  uint32_t from, to;  // sections: from is included, to is not
} SectionRange;

typedef struct {
  const PlaceProblem *given;
  RtArena *mem;
  uint32_t n, n_sections;  // items: buffers of size above 0, in the order of the buffers
  uint32_t *buffer;        // by item
  int64_t unit;            // bytes
  int64_t *size, *align;   // by item, in units
  int64_t *life;           // by item: upper - lower, shifted so that all of time fits 2^20
  int64_t *start, *end;    // likewise, from the first start on
  SectionRange *hull;      // by item: from its first section to its last
  SectionRange *ranges;    // of item i: first_range[i] up to before first_range[i + 1]
  uint32_t *first_range;
  uint32_t *fixed, n_fixed;  // items with given offsets, by offset
  int64_t *fixed_at;         // by item; -1: any
  uint32_t *loose, n_loose;  // all others
  bool has_holes, is_plain;  // plain: no given offsets, and all alignments are 1 unit
  int64_t bound;             // units: the largest sum of sizes of a section, or the top of a given offset
} Problem;

bool ir_place_problem(const PlaceProblem *given, RtArena *mem, Problem *p, PlaceFault *fault);
bool ir_place_fault(PlaceFault *fault, uint32_t buffer, uint32_t other, const char *fmt, ...) RT_PRINTF(4, 5);

typedef struct {
  int64_t at;
  uint32_t item;
} PlaceAt;
int ir_place_by_offset(const void *a, const void *b);  // for qsort: the lowest first, then by item

bool ir_place_ranges_meet(const Problem *p, uint32_t a, uint32_t b);
static inline bool place_meet(const Problem *p, uint32_t a, uint32_t b) {
  SectionRange x = p->hull[a], y = p->hull[b];
  return x.from < y.to && y.from < x.to && (!p->has_holes || ir_place_ranges_meet(p, a, b));
}

// The lowest offset from `at` on that is aligned for item i and meets no given one.
int64_t ir_place_past_fixed(const Problem *p, uint32_t i, int64_t at);
static inline int64_t place_free_at(const Problem *p, uint32_t i, int64_t at) {
  return p->is_plain ? at : ir_place_past_fixed(p, i, at);
}

// ---- orders.c: total orders of items by keys, the largest first
typedef enum {
  BY_LIFE,
  BY_AREA,
  BY_SIZE,
  BY_START,
  BY_END,
  BY_LOAD_LIFE,
  BY_LOAD_AREA,
  BY_LIFE_AREA,
  BY_SIZE_ROOT,
  BY_DEGREE,
  BY_PRESSURE,
  BY_HASH
} PlaceOrder;

// Sorts items[0 .. n) by the order. Load of a section: the sum of sizes of these items. Jitter: above 0, keys times 0.75
// to 1.25 by a hash of it and the item.
typedef struct {
  const Problem *p;
  int64_t *load;            // by section
  int64_t *block_load;      // by 64 sections: the most
  uint32_t *starts, *ends;  // by section: how many of all items start before it, and end up to it
  uint32_t shift;           // sizes shifted by it sum to less than 2^40
  struct PlaceKey *keys;
} PlaceSorter;
PlaceSorter ir_place_sorter(const Problem *p);
void ir_place_sort(PlaceSorter *s, uint32_t *items, uint32_t n, PlaceOrder order, uint32_t jitter);

// ---- decode.c: from an order of the items without a given offset to offsets, in one pass; the peak
typedef struct {
  int64_t least, most;
  uint32_t best, first;    // leaves
  uint32_t soonest, last;  // ends of items
  int64_t raised;          // not handed down yet; 0: nothing
} PlaceNode;

typedef struct {
  const Problem *p;
  int64_t *at;     // by item
  uint32_t *list;  // scratch, by item
  PlaceAt *by_offset;
  uint32_t width, *leaves, *leaf_of, *rank;  // of lowest
  PlaceNode *nodes;
  uint64_t visits;  // of nodes, by lowest
} PlaceDecoder;
PlaceDecoder ir_place_decoder(const Problem *p);
int64_t ir_place_lowest(PlaceDecoder *d, const uint32_t *order);
int64_t ir_place_first_fit(PlaceDecoder *d, const uint32_t *order, bool by_start);
int64_t ir_place_best_fit(PlaceDecoder *d, const uint32_t *order);

// ---- portfolio.c: the best of a list of orders and decoders; at[]: by item
int64_t ir_place_portfolio(const Problem *p, int64_t enough, int64_t *at);
int64_t ir_place_shuffled(const Problem *p, int64_t *at);  // first fit in a pseudo-random order

// ---- search.c: is there a placement with a peak up to cap?
typedef enum { PLACE_FOUND, PLACE_IMPOSSIBLE, PLACE_UNKNOWN } PlaceAnswer;
typedef struct PlaceSearch PlaceSearch;
enum { PLACE_SEARCH_BYTES = 64 << 20 };
PlaceSearch *ir_place_search_new(const Problem *p, int64_t budget);
PlaceAnswer ir_place_search(PlaceSearch *s, int64_t cap, int64_t budget, int64_t *spent, int64_t *at);

#endif
