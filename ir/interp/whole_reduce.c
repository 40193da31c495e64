// Reductions of integers and bool along neighbouring axes.
#include "ir/fn.h"
#include "ir/interp/interp.h"

typedef int64_t Step(int64_t so_far, int64_t x);
static int64_t sum(int64_t so_far, int64_t x) { return (int64_t)((uint64_t)so_far + (uint64_t)x); }
static int64_t prod(int64_t so_far, int64_t x) { return (int64_t)((uint64_t)so_far * (uint64_t)x); }
static int64_t larger(int64_t so_far, int64_t x) { return x > so_far ? x : so_far; }
static int64_t smaller(int64_t so_far, int64_t x) { return x < so_far ? x : so_far; }

// Of `first` and the elements along the axes; with `at` the place of the first element that gave the result.
static bool reduce(Run *r, Val v, Step *step, int64_t first, bool at) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0);
  Sizes of = run_arg_sizes(r, v, 0);
  DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, 0))->dtype;
  bool nonzero = ir_attr(r->f, v, KEY_nonzero) != NULL;
  AxisRange reduced = ir_reduced_axes(r->f, v);
  int64_t n = 1, inner = 1;
  for (uint32_t k = reduced.from; k < of.rank; k++) *(k < reduced.to ? &n : &inner) *= of.dim[k];
  for (int64_t i = 0; i < out.n; i++) {
    int64_t so_far = first, place = 0, at_first = i / inner * n * inner + i % inner;
    for (int64_t k = 0; k < n; k++) {
      int64_t e = at_first + k * inner;
      int64_t next =
          step(so_far, nonzero ? (t == DT_F32 ? x.v[e] != 0 : run_whole(&x, e) != 0) : ir_modulo(t, run_whole(&x, e)));
      if (next != so_far) place = k;
      so_far = next;
    }
    run_set_whole(r, &out, i, at ? place : so_far);
  }
  r->val[v.i] = out;
  return true;
}

static bool find_most(Run *r, Val v, bool at) {
  DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, 0))->dtype;
  bool least = ir_attr(r->f, v, KEY_least) != NULL, is_bool = t == DT_BOOL || ir_attr(r->f, v, KEY_nonzero);
  int64_t low = is_bool ? 0 : ir_to_whole(t, -0x1p63), high = is_bool ? 1 : ir_to_whole(t, 0x1p63);
  return reduce(r, v, least ? smaller : larger, least ? high : low, at);
}

bool eval_whole_sum(Run *r, Val v) { return reduce(r, v, sum, 0, false); }
bool eval_whole_prod(Run *r, Val v) { return reduce(r, v, prod, 1, false); }
bool eval_whole_amax(Run *r, Val v) { return find_most(r, v, false); }
bool eval_whole_argmax(Run *r, Val v) { return find_most(r, v, true); }
