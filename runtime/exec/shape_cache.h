// The sizes of the last call of a function that passed validation, and what follows from them. A call with equal sizes
// needs validation of its pointers and values only.
//
//   RtShapeCache *s = rt_shape_cache_new(plan);          // one row for each function
//   if (!rt_shape_cache_hold(&s[f], in, n_in, out, n_out)) { s[f].is_set = false; .. all checks .. rt_shape_cache_keep(..); }
#ifndef TN_RUNTIME_EXEC_SHAPE_CACHE_H
#define TN_RUNTIME_EXEC_SHAPE_CACHE_H

#include "runtime/exec/instance.h"

typedef struct {
  const RtFunction *function;
  RtArray *arrays;      // inputs, then outputs; their data pointers are not kept
  int64_t *bytes;       // of each of them
  int64_t *slots;       // value of every named dim of the program; the bound where no input names it
  int64_t *dims;        // value of every row of the plan's dim table
  const RtVariant *by;  // the variant for these sizes; NULL: the function itself
  bool is_set;          // arrays and bytes hold an accepted call
} RtShapeCache;

RtShapeCache *rt_shape_cache_new(const RtPlan *p);  // NULL: no memory; released by rt_free
// Same sizes as the cached call, and valid pointers.
bool rt_shape_cache_hold(const RtShapeCache *s, const RtArray *in, size_t n_in, const RtArray *out, size_t n_out);
// Stores a call that passed validation; slots and dims are filled.
void rt_shape_cache_keep(RtShapeCache *s, const RtArray *in, const RtArray *out);

#endif
