// Loops and branches. A body is written once, as that of a C loop, and runs once while code is made:
//
//   for (Loop l = cg_each(c, lo, hi); cg_next(&l);) cg_put(c, zero, to, l.i);
//
//   V sum = zero;                                                    // carried: in the body, what the iteration before left
//   for (Loop l = cg_carry(c, lo, hi, one, &sum, 1); cg_next(&l);)   // there; behind the loop, what the last one did
//     sum = cg_fadd(c, sum, cg_get(c, c->f32, x, l.i));
//
//   for (If s = cg_when(c, found); cg_then(&s);) cg_put(c, i, index, n);
//
//   for (If s = cg_either(c, found); cg_then(&s);)                   // the body runs twice
//     if (s.is_true) copy_row(to, from);
//     else clear_row(to);
//
// A body is left at its end alone: no break, no return.
#ifndef TN_CODEGEN_LOOP_H
#define TN_CODEGEN_LOOP_H

#include "codegen/builder.h"

enum { MAX_CARRY = 40 };
typedef struct {
  Cg *c;
  LLVMBasicBlockRef head, body, exit;
  V i, hi, step, carry[MAX_CARRY], out[MAX_CARRY], *carried;
  uint32_t n, turn;  // carried values; runs of the body so far
  bool enters;       // at least once
} Loop;
// Runs while i < hi; never enters when lo >= hi. The n carried values lie where the caller has them.
Loop cg_each(Cg *c, V lo, V hi);  // by 1
Loop cg_count(Cg *c, V n);        // from 0
Loop cg_each_by(Cg *c, V lo, V hi, V step);
Loop cg_count_by(Cg *c, V n, V step);
Loop cg_each_whole(Cg *c, V lo, V hi, int64_t unit, V *end);  // by units that are whole; *end: where the rest begins
// Rows of `width` items, at least 1, that the items [lo, hi) meet; [*first, *last): which ones of the row.
Loop cg_each_row(Cg *c, V lo, V hi, V width, V *first, V *last);
Loop cg_once(Cg *c);                             // no loop: the body as it stands
Loop cg_each_shared(Cg *c, V n, int64_t grain);  // this worker's share of n items (cg_share)
Loop cg_carry(Cg *c, V lo, V hi, V step, V *carried, uint32_t n);
bool cg_next(Loop *l);
void cg_leave(Loop *l, V cond);  // in a body, before its end: no iteration follows this one where cond

typedef struct {
  Cg *c;
  LLVMBasicBlockRef head, then, other, join;
  bool is_true, has_else;  // is_true: the body at hand is that of the condition
  V *carried, *before;
  uint32_t n, turn;
} If;
If cg_when(Cg *c, V cond);                   // NULL: no branch
If cg_either(Cg *c, V cond);                 // the body runs twice; NULL: once, as that of the condition
If cg_branch(Cg *c, V cond, bool has_else);  // either of them
// behind it: what the body left there, or what was there before
If cg_when_carry(Cg *c, V cond, V *carried, uint32_t n);
bool cg_then(If *s);
V cg_first_worker(Cg *c);                   // a condition
void cg_return_if(Cg *c, V cond, V value);  // of the function at hand; value NULL: none

#endif
