// Gather and scatter along an axis.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

#include <string.h>

// Element e of `moved` corresponds to element place(e) of the indexed operand.
typedef struct {
  Sizes moved, whole;
  int64_t stride[MAX_RANK];  // of the whole, row-major
  uint32_t axis;
  Tensor index;
  bool by_slice;   // the index is [n]
  bool is_padded;  // an index of -1 selects nothing
} Places;

static Places places_of(Run *r, Val v, const Sizes *moved) {
  Places p = {.moved = *moved, .whole = run_arg_sizes(r, v, 0), .index = run_operand(r, v, ARG_index)};
  p.axis = (uint32_t)ir_attr_int(r->f, v, KEY_axis, 0);
  Op op = (Op)ir_ins(r->f, v)->op;
  p.by_slice = op == OP_index_select || op == OP_index_copy || op == OP_index_add;
  p.is_padded = ir_attr(r->f, v, KEY_padded) != NULL;
  run_strides(&p.whole, p.stride);
  return p;
}

// -1: the element stands for none
static bool place_of(Run *r, Val v, const Places *p, int64_t e, int64_t *place) {
  int64_t rest = e, at[MAX_RANK], sum = 0;
  for (uint32_t k = p->moved.rank; k-- > 0;) at[k] = rest % p->moved.dim[k], rest /= p->moved.dim[k];
  int64_t from = p->by_slice ? at[p->axis] : e, index = (int64_t)p->index.v[from], n = p->whole.dim[p->axis];
  *place = -1;
  if (p->is_padded && index == -1) return true;
  if (index < 0 || index >= n)
    return run_fail(r, v, "index %lld at element %lld is not in [0, %lld)", (long long)index, (long long)from,
                    (long long)n);
  at[p->axis] = index;
  for (uint32_t k = 0; k < p->moved.rank; k++) sum += at[k] * p->stride[k];
  *place = sum;
  return true;
}

static bool take(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0);
  Sizes moved = run_sizes(r, v);
  Places p = places_of(r, v, &moved);
  int64_t place;
  for (int64_t e = 0; e < out.n; e++) {
    if (!place_of(r, v, &p, e, &place)) return false;
    out.v[e] = place < 0 ? 0 : x.v[place];
  }
  return true;
}

bool eval_gather(Run *r, Val v) { return take(r, v); }
bool eval_index_select(Run *r, Val v) { return take(r, v); }

static double combined(Op op, double old, double x) {
  switch (op) {
  case OP_scatter_add:
  case OP_index_add: return old + x;
  case OP_scatter_prod: return old * x;
  case OP_scatter_amax: return ir_primitive(OP_max, old, x, 0);
  case OP_scatter_amin: return ir_primitive(OP_min, old, x, 0);
  default: return x;
  }
}

static bool put(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), source = run_operand(r, v, ARG_source), index = run_operand(r, v, ARG_index);
  if (out.n) memcpy(out.v, run_arg(r, v, 0).v, (size_t)out.n * sizeof(double));
  Sizes moved = run_arg_sizes(r, v, 1);
  Places p = places_of(r, v, &moved);
  if (p.by_slice) p.moved = p.whole, p.moved.dim[p.axis] = index.n;
  int64_t n = 1, place;
  for (uint32_t k = 0; k < p.moved.rank; k++) n *= p.moved.dim[k];
  bool is_number = ir_rank(r->f->prog, ir_ins(r->f, ir_operand(r->f, v, ARG_source))->shape) == 0;
  for (int64_t e = 0; e < n; e++) {
    if (!place_of(r, v, &p, e, &place)) return false;
    if (place < 0) continue;
    out.v[place] = combined((Op)ir_ins(r->f, v)->op, out.v[place], source.v[is_number ? 0 : e]);
  }
  return true;
}

bool eval_scatter(Run *r, Val v) { return put(r, v); }
bool eval_scatter_add(Run *r, Val v) { return put(r, v); }
bool eval_scatter_prod(Run *r, Val v) { return put(r, v); }
bool eval_scatter_amax(Run *r, Val v) { return put(r, v); }
bool eval_scatter_amin(Run *r, Val v) { return put(r, v); }
bool eval_index_copy(Run *r, Val v) { return put(r, v); }
bool eval_index_add(Run *r, Val v) { return put(r, v); }
