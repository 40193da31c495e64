// Gather and scatter along an axis.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"
#include "ir/slice.h"

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
  p.by_slice = ir_names_slices(r->f, v);
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

// The primitive that joins what is there with what comes; OP_copy: it is replaced.
static Op joining(Op op) {
  switch (op) {
  case OP_scatter_add:
  case OP_index_add: return OP_add;
  case OP_scatter_prod: return OP_mul;
  case OP_scatter_amax: return OP_max;
  case OP_scatter_amin: return OP_min;
  default: return OP_copy;
  }
}

// Integers modulo 2^bits of their dtype.
static void put_at(Run *r, Val v, Tensor *out, int64_t place, const Tensor *source, int64_t e) {
  Op op = joining((Op)ir_ins(r->f, v)->op);
  DType t = (DType)ir_ins(r->f, v)->dtype;
  double x = source->v[e], old = out->v[place];
  if (op == OP_copy) {
    out->v[place] = x;
  } else if (WHOLE >> t & 1) {
    int64_t sum = run_whole_primitive(op, t, run_whole(out, place), run_whole(source, e), 0);
    run_set_whole(r, out, place, ir_modulo(t, sum));
  } else {
    out->v[place] = op == OP_add ? old + x : op == OP_mul ? old * x : ir_primitive(op, old, x, 0);
  }
}

static bool put(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), source = run_operand(r, v, ARG_source), index = run_operand(r, v, ARG_index);
  Tensor target = run_arg(r, v, 0);
  if (out.n) memcpy(out.v, target.v, (size_t)out.n * sizeof(double));
  if (target.low && joining((Op)ir_ins(r->f, v)->op) != OP_copy) {
    out.low = rt_alloc(r->env->mem, (size_t)out.n * sizeof(double));
    if (out.n) memcpy(out.low, target.low, (size_t)out.n * sizeof(double));
  }
  Sizes moved = run_arg_sizes(r, v, 1);
  Places p = places_of(r, v, &moved);
  if (p.by_slice) p.moved = p.whole, p.moved.dim[p.axis] = index.n;
  int64_t n = 1, place;
  for (uint32_t k = 0; k < p.moved.rank; k++) n *= p.moved.dim[k];
  bool is_number = ir_rank(r->f->prog, ir_ins(r->f, ir_operand(r->f, v, ARG_source))->shape) == 0;
  for (int64_t e = 0; e < n; e++) {
    if (!place_of(r, v, &p, e, &place)) return false;
    if (place < 0) continue;
    put_at(r, v, &out, place, &source, is_number ? 0 : e);
  }
  r->val[v.i] = out;
  return true;
}

bool eval_scatter(Run *r, Val v) { return put(r, v); }
bool eval_scatter_add(Run *r, Val v) { return put(r, v); }
bool eval_scatter_prod(Run *r, Val v) { return put(r, v); }
bool eval_scatter_amax(Run *r, Val v) { return put(r, v); }
bool eval_scatter_amin(Run *r, Val v) { return put(r, v); }
bool eval_index_copy(Run *r, Val v) { return put(r, v); }
bool eval_index_add(Run *r, Val v) { return put(r, v); }
