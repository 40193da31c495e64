// Views of memory, and spans: how a kernel walks over elements.
//
//   for (Span s = cg_span(c, lo, hi); cg_next_vector(&s);)                      // whole vectors, then one with a mask
//     cg_span_put(&s, y, cg_fadd(c, cg_span_get(&s, y), cg_span_get(&s, x)));   // written once, emitted twice
#ifndef TN_CODEGEN_SPAN_H
#define TN_CODEGEN_SPAN_H

#include "codegen/cg.h"

// ---- views: elements of a dtype in memory, which are another one in registers
typedef struct {
  V base;
  DType type, as;  // in memory, in registers
} View;
View cg_view(V base, DType t);
// The vector, or element where lanes is 1, that begins at element i. mask NULL: all lanes; a load gives zero where it is unset.
V cg_view_get(Cg *c, View v, V i, uint32_t lanes, V mask);
void cg_view_put(Cg *c, View v, V i, V x, V mask);
View cg_view_at(Cg *c, View v, V i);  // from element i on

// ---- spans: elements [lo, hi) by whole vectors, then what is left by one with a mask
typedef struct {
  Cg *c;
  Loop l;
  If some;
  V i, mask;  // the vector at hand: its first element; its lanes, NULL: all
  V end, rest;
  uint32_t lanes, turn;
  bool is_guarded, is_masked;
} Span;
Span cg_span(Cg *c, V lo, V hi);
// Of so many lanes, and the last vector behind a branch: a masked access has a lane at least, without which it takes a
// microsecond where the page is unmapped.
Span cg_span_guarded(Cg *c, V lo, V hi, uint32_t lanes);
Span cg_span_masked(Cg *c, V lo,
                    V hi);  // every vector with a mask, unless all are known to be whole: the body is emitted once
bool cg_next_vector(Span *s);
V cg_span_get(const Span *s, View v);
void cg_span_put(const Span *s, View v, V x);

#endif
