// Reductions of whole numbers and bool along the last axis.
#include "ir/interp/interp.h"

typedef int64_t Step(int64_t so_far, int64_t x);
static int64_t sum(int64_t so_far, int64_t x) { return (int64_t)((uint64_t)so_far + (uint64_t)x); }
static int64_t prod(int64_t so_far, int64_t x) { return (int64_t)((uint64_t)so_far * (uint64_t)x); }
static int64_t larger(int64_t so_far, int64_t x) { return x > so_far ? x : so_far; }

// Of `first` and the elements of each row; with `at` the place of the first element that gave the result.
static bool reduce(Run *r, Val v, Step *step, int64_t first, bool at) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0);
  Sizes of = run_arg_sizes(r, v, 0);
  DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, 0))->dtype;
  int64_t n = run_cols(&of);
  for (int64_t i = 0; i < out.n; i++) {
    int64_t so_far = first, place = 0;
    for (int64_t k = 0; k < n; k++) {
      int64_t next = step(so_far, ir_modulo(t, run_whole(&x, i * n + k)));
      if (next != so_far) place = k;
      so_far = next;
    }
    run_set_whole(r, &out, i, at ? place : so_far);
  }
  r->val[v.i] = out;
  return true;
}

static int64_t least_of(const Run *r, Val v) {
  DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, 0))->dtype;
  return t == DT_BOOL ? 0 : ir_to_whole(t, -0x1p63);
}

bool eval_whole_sum(Run *r, Val v) { return reduce(r, v, sum, 0, false); }
bool eval_whole_prod(Run *r, Val v) { return reduce(r, v, prod, 1, false); }
bool eval_whole_amax(Run *r, Val v) { return reduce(r, v, larger, least_of(r, v), false); }
bool eval_whole_argmax(Run *r, Val v) { return reduce(r, v, larger, least_of(r, v), true); }
