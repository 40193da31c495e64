// Elements named by several indices at once: x[i, :, j] of PyTorch. The axes that are indexed become one axis, the first, and
// the indices one index along it.
//
//   tn_index(x: f32[3,4,5], i: i64[7], none, j: i64[2,1])
//     %r = permute %x {perm=[0,2,1]}     %r = reshape %r {shape=[15,4]}
//     %k = i * 5 + j : i64[2,7]          index_select %r, %k : [14,4]      reshape {shape=[2,7,4]}
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/tenure/indexing.h"

typedef struct {
  tn_tensor index;        // i64, or the places of a mask
  uint32_t axis, n_axes;  // that it stands for: a mask for as many as it has
  Dim size;               // their elements
} Named;

typedef struct {
  tn_function *f;
  tn_tensor a;
  Named named[MAX_RANK];
  uint32_t n;
  bool is_padded;           // an index of -1 names nothing
  uint32_t perm[MAX_RANK];  // axes of a: those that are indexed, n_indexed, then the others
  uint32_t n_indexed, n_others;
  Dim dims[MAX_RANK];  // of the indices, broadcast
  uint32_t rank;
  uint32_t at_axis;  // of the result, where they stand
  tn_site at;
} Indexing;

static Prog *ir_of(const Indexing *x) { return x->f->p->ir; }

// ---- what is asked for
static bool refuse(const Indexing *x, int id, const char *text, tn_tensor index) {
  fe_error(x->f->p, id, x->at, "%s", text);
  fe_note_value(x->a, "the value");
  if (index.fn) fe_note_value(index, "the index");
  return false;
}

static bool read_mask(Indexing *x, Named *e, tn_tensor mask, int64_t most) {
  e->n_axes = fe_rank(mask);
  bool fits = e->n_axes && e->axis + e->n_axes <= fe_rank(x->a);
  for (uint32_t k = 0; fits && k < e->n_axes; k++) fits = fe_axis_dim(mask, k).i == fe_axis_dim(x->a, e->axis + k).i;
  if (!fits) return refuse(x, E_SHAPE, "a mask has the sizes of the axes that it stands for", mask);
  if (most < 1) return refuse(x, E_ARGUMENT, "a mask needs .most: how many of its elements are set at most", mask);
  Attr size = ir_a_int(KEY_size, most);
  e->index = fe_emit(OP_nonzero, &mask, 1, &size, 1, x->at);
  x->is_padded = true;
  return fe_ok(e->index);
}

static bool read_index(Indexing *x, Named *e, tn_tensor index, int64_t most) {
  DType t = (DType)fe_ins(index)->dtype;
  e->size = ir_dim(ir_of(x), 1);
  if (e->axis >= fe_rank(x->a)) return refuse(x, E_SHAPE, "there are more indices than axes", index);
  if (!(COUNTABLE >> t & 1)) return refuse(x, E_DTYPE, "an index is of whole numbers, or a mask of bool", index);
  if (t == DT_BOOL && !read_mask(x, e, index, most)) return false;
  if (t != DT_BOOL) e->index = fe_cast(index, DT_I64, x->at), e->n_axes = 1;
  for (uint32_t k = 0; k < e->n_axes; k++) {
    e->size = ir_dim_mul(ir_of(x), e->size, fe_axis_dim(x->a, e->axis + k));
    x->perm[x->n_indexed++] = e->axis + k;
  }
  return fe_ok(e->index);
}

static bool is_one(const Prog *p, Dim d) { return ir_dim_is_const(p, d) && ir_dim_bound(p, d) == 1; }

// The sizes of all indices, broadcast.
static bool join_sizes(Indexing *x) {
  Prog *p = ir_of(x);
  for (uint32_t j = 0; j < x->n; j++)
    if (fe_rank(x->named[j].index) > x->rank) x->rank = fe_rank(x->named[j].index);
  for (uint32_t k = 0; k < x->rank; k++) {
    x->dims[k] = ir_dim(p, 1);
    for (uint32_t j = 0; j < x->n; j++) {
      uint32_t own = fe_rank(x->named[j].index), from = x->rank - own;
      Dim d = k < from ? ir_dim(p, 1) : fe_axis_dim(x->named[j].index, k - from);
      if (d.i == x->dims[k].i || is_one(p, d)) continue;
      if (!is_one(p, x->dims[k])) return refuse(x, E_SHAPE, "indices do not broadcast", x->named[j].index);
      x->dims[k] = d;
    }
  }
  return true;
}

// The axes of the indices stand where the first one did if no axis lies between those that are indexed, else in front.
static void place_axes(Indexing *x) {
  bool is_indexed[MAX_RANK] = {false};
  for (uint32_t k = 0; k < x->n_indexed; k++) is_indexed[x->perm[k]] = true;
  bool is_together = x->perm[x->n_indexed - 1] - x->perm[0] + 1 == x->n_indexed;
  x->at_axis = is_together ? x->perm[0] : 0;
  for (uint32_t k = 0; k < fe_rank(x->a); k++)
    if (!is_indexed[k]) x->perm[x->n_indexed + x->n_others++] = k;
}

static bool read_all(Indexing *x, const tn_tensor *index, uint32_t n, const tn_index_options *o) {
  uint32_t axis = 0;
  x->is_padded = o->padded;
  for (uint32_t k = 0; k < n; k++) {
    Named *e = &x->named[x->n];
    if (!index[k].fn && axis >= fe_rank(x->a)) return refuse(x, E_SHAPE, "there are more indices than axes", TN_NONE);
    if (!index[k].fn) {
      axis++;
      continue;
    }
    *e = (Named){.axis = axis};
    if (!read_index(x, e, index[k], o->most)) return false;
    axis += e->n_axes, x->n++;
  }
  if (!x->n) return refuse(x, E_ARGUMENT, "one index or more is given", TN_NONE);
  if (!join_sizes(x)) return false;
  place_axes(x);
  if (x->rank + x->n_others <= MAX_RANK) return true;
  return refuse(x, E_SHAPE, "the result would have more than 8 axes", TN_NONE);
}

// false: reported
static bool open(Indexing *x, const char *call, tn_tensor a, const tn_tensor *index, uint32_t n, tn_tensor values,
                 const tn_index_options *o) {
  tn_tensor given[MAX_RANK + 2] = {a};
  uint32_t n_given = 1;
  *x = (Indexing){.a = a, .at = o->at};
  for (uint32_t k = 0; index && k < n && k < MAX_RANK; k++)
    if (index[k].fn) given[n_given++] = index[k];
  if (values.fn) given[n_given++] = values;
  return fe_join_for(call, given, n_given, &x->f, o->at);
}

static bool check_list(const Indexing *x, const tn_tensor *index, uint32_t n) {
  if (!fe_check_list(x->f, index, n, "indices", x->at)) return false;
  return n <= MAX_RANK || refuse(x, E_ARGUMENT, "there are more indices than axes", TN_NONE);
}

// ---- one index for all
static tn_tensor op2(const Indexing *x, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, x->at); }
static tn_tensor pick(const Indexing *x, tn_tensor is, tn_tensor a, tn_tensor b) {
  return fe_emit(OP_select, (const tn_tensor[]){is, a, b}, 3, NULL, 0, x->at);
}
static tn_tensor whole(const Indexing *x, double v) { return fe_number(x->f, v, DT_I64, x->at); }

tn_tensor fe_whole_size(tn_function *f, Dim d, tn_site at) {
  if (ir_dim_is_const(f->p->ir, d)) return fe_number(f, (double)ir_dim_bound(f->p->ir, d), DT_I64, at);
  return fe_cast(fe_size(f, d, at), DT_I64, at);
}

// Row-major. One that is out of its own axis must be out of all: no other one may make up for it.
static tn_tensor joined_index(const Indexing *x) {
  tn_tensor sum = x->named[0].index, fits = TN_NONE, none = TN_NONE, all = whole(x, 1);
  if (x->n == 1) return sum;
  for (uint32_t k = 0; k < x->n; k++) {
    tn_tensor index = x->named[k].index, size = fe_whole_size(x->f, x->named[k].size, x->at);
    tn_tensor is_in = op2(x, OP_mul, op2(x, OP_ge, index, whole(x, 0)), op2(x, OP_lt, index, size));
    tn_tensor is_none = op2(x, OP_eq, index, whole(x, -1));
    if (k) sum = op2(x, OP_add, op2(x, OP_mul, sum, size), index);
    fits = k ? op2(x, OP_mul, fits, is_in) : is_in;
    none = k ? op2(x, OP_max, none, is_none) : is_none;
    all = op2(x, OP_mul, all, size);
  }
  sum = pick(x, fits, sum, all);
  return x->is_padded ? pick(x, none, whole(x, -1), sum) : sum;
}

static tn_tensor expand_to(const Indexing *x, tn_tensor t, const Dim *dims, uint32_t n) {
  Shape s = ir_shape(ir_of(x), dims, n);
  if (!fe_ok(t) || fe_shape_of(t).i == s.i) return t;
  return fe_emit(OP_expand, &t, 1, (const Attr[]){ir_a_list(KEY_shape, s)}, 1, x->at);
}

static Dim product(const Indexing *x, const Dim *dims, uint32_t n) {
  Dim all = ir_dim(ir_of(x), 1);
  for (uint32_t k = 0; k < n; k++) all = ir_dim_mul(ir_of(x), all, dims[k]);
  return all;
}

static tn_tensor flat_index(const Indexing *x) {
  Dim n = product(x, x->dims, x->rank);
  return fe_reshape(expand_to(x, joined_index(x), x->dims, x->rank), &n, 1, x->at);
}

// ---- a as rows: [all that is indexed, the rest]; without a rest [all that is indexed]
static uint32_t dims_in_order(const Indexing *x, Dim *out) {
  uint32_t n = x->n_indexed + x->n_others;
  for (uint32_t k = 0; k < n; k++) out[k] = fe_axis_dim(x->a, x->perm[k]);
  return n;
}

static tn_tensor as_rows(const Indexing *x, tn_tensor t, const Dim *first, uint32_t n_first) {
  Dim d[MAX_RANK], two[2];
  dims_in_order(x, d);
  two[0] = product(x, first, n_first), two[1] = product(x, d + x->n_indexed, x->n_others);
  return fe_reshape(t, two, x->n_others ? 2 : 1, x->at);
}

static bool is_in_order(const Indexing *x) {
  for (uint32_t k = 0; k < x->n_indexed + x->n_others; k++)
    if (x->perm[k] != k) return false;
  return true;
}

static tn_tensor rows_of(const Indexing *x) {
  Dim d[MAX_RANK];
  dims_in_order(x, d);
  return as_rows(x, is_in_order(x) ? x->a : fe_permute(x->a, x->perm, x->at), d, x->n_indexed);
}

static tn_tensor by_rows(const Indexing *x, Op op, const tn_tensor *in, uint32_t n) {
  const Attr attr[] = {ir_a_int(KEY_axis, 0), ir_a_int(KEY_padded, 1)};
  return fe_emit(op, in, n, attr, x->is_padded ? 2 : 1, x->at);
}

// Moves the axes of the indices from the front to their place, or back.
static tn_tensor moved(const Indexing *x, tn_tensor t, bool back) {
  uint32_t front[MAX_RANK], place[MAX_RANK];
  for (uint32_t k = 0; k < x->rank; k++) front[k] = k, place[k] = x->at_axis + k;
  if (!x->at_axis || !x->rank) return t;
  return fe_move_axes(t, back ? place : front, back ? front : place, x->rank, x->at);
}

static uint32_t result_dims(const Indexing *x, Dim *out) {
  uint32_t n = 0;
  Dim d[MAX_RANK];
  dims_in_order(x, d);
  for (uint32_t k = 0; k < x->rank; k++) out[n++] = x->dims[k];
  for (uint32_t k = 0; k < x->n_others; k++) out[n++] = d[x->n_indexed + k];
  return n;
}

static tn_tensor taken(const Indexing *x) {
  Dim d[MAX_RANK];
  const tn_tensor in[] = {rows_of(x), flat_index(x)};
  if (!fe_ok(in[0]) || !fe_ok(in[1])) return fe_poison(x->f);
  bool is_table = !x->is_padded && x->n_others && fe_ins(x->a)->dtype == DT_F32;  // as tn_index_select has it
  tn_tensor y = is_table ? op2(x, OP_embedding, in[0], in[1]) : by_rows(x, OP_index_select, in, 2);
  uint32_t n = result_dims(x, d);
  return moved(x, fe_reshape(y, d, n, x->at), false);
}

tn_tensor tn_index(tn_tensor a, const tn_tensor *index, uint32_t n, tn_index_options o) {
  Indexing x;
  if (!open(&x, __func__, a, index, n, TN_NONE, &o)) return fe_poison(x.f);
  FE_GUARD(x.f->p, fe_poison(x.f));
  if (!check_list(&x, index, n) || !read_all(&x, index, n, &o)) return fe_poison(x.f);
  return fe_made(taken(&x), o.at);
}

// ---- writing
// One number, or the values in the shape of what tn_index gives, broadcast, as rows. Poison: reported
static tn_tensor values_as_rows(const Indexing *x, tn_tensor values) {
  Dim d[MAX_RANK], all[MAX_RANK];
  DType t = (DType)fe_ins(x->a)->dtype;
  if (!fe_fits_into((DType)fe_ins(values)->dtype, t)) {
    fe_error(x->f->p, E_DTYPE, x->at, "values of %s are no elements of what is %s", fe_type_text(values),
             fe_type_text(x->a));
    fe_note_value(values, "the value");
    fe_hint(x->f->p, "tn_cast converts them");
    return fe_poison(x->f);
  }
  values = fe_as_dtype(values, t, x->at);
  if (!fe_ok(values) || !fe_rank(values)) return values;
  uint32_t n = result_dims(x, d);  // the indices' axes in front
  for (uint32_t k = 0; k < n; k++) {
    bool is_before = k < x->at_axis, is_index = !is_before && k < x->at_axis + x->rank;
    all[k] = is_before ? d[x->rank + k] : is_index ? d[k - x->at_axis] : d[k];
  }
  values = moved(x, expand_to(x, values, all, n), true);
  return fe_ok(values) ? as_rows(x, values, x->dims, x->rank) : values;
}

static tn_tensor put(const Indexing *x, tn_tensor values, bool accumulate) {
  uint32_t back[MAX_RANK];
  Dim d[MAX_RANK];
  Op op = accumulate ? OP_index_add : OP_index_copy;
  tn_tensor in[] = {rows_of(x), flat_index(x), values_as_rows(x, values)};
  for (uint32_t k = 0; k < 3; k++) {
    in[k] = fe_widened(op, in[k], x->at);
    if (!fe_ok(in[k])) return in[k];
  }
  tn_tensor y = fe_narrowed(by_rows(x, op, in, 3), x->a, x->at);
  uint32_t n = dims_in_order(x, d);
  y = fe_reshape(y, d, n, x->at);
  for (uint32_t k = 0; k < n; k++) back[x->perm[k]] = k;
  return is_in_order(x) ? y : fe_permute(y, back, x->at);
}

tn_tensor tn_index_put(tn_tensor a, const tn_tensor *index, uint32_t n, tn_tensor values, tn_index_options o) {
  Indexing x;
  if (!open(&x, __func__, a, index, n, values, &o)) return fe_poison(x.f);
  FE_GUARD(x.f->p, fe_poison(x.f));
  if (!check_list(&x, index, n) || !fe_all_named(x.f, &values, 1, o.at)) return fe_poison(x.f);
  return read_all(&x, index, n, &o) ? fe_made(put(&x, values, o.accumulate), o.at) : fe_poison(x.f);
}

// ---- where it is not 0
// Place by place along each axis, the last one first, from row-major places; -1 stays.
static tn_tensor coordinates(tn_tensor a, tn_tensor places, tn_site at) {
  tn_function *f = a.fn;
  uint32_t rank = fe_rank(a);
  tn_tensor column[MAX_RANK], rest = places, none = fe_emit2(OP_lt, places, fe_number(f, 0, DT_I64, at), at);
  Dim d[] = {fe_axis_dim(places, 0), ir_dim(f->p->ir, rank ? 1 : 0)};
  if (!rank) return fe_full(f, 0, ir_shape(f->p->ir, d, 2), DT_I64, at);
  for (uint32_t k = rank; k-- > 0;) {
    tn_tensor size = fe_whole_size(f, fe_axis_dim(a, k), at), own = k ? fe_emit2(OP_fmod, rest, size, at) : rest;
    const tn_tensor in[] = {none, fe_number(f, -1, DT_I64, at), own};
    column[k] = fe_reshape(fe_emit(OP_select, in, 3, NULL, 0, at), d, 2, at);
    rest = fe_emit2(OP_trunc_divide, rest, size, at);
    if (!fe_ok(column[k])) return column[k];
  }
  return fe_concat(column, rank, 1, at);
}

tn_selected tn_nonzero(tn_tensor a, int64_t most, tn_site at) {
  tn_function *f;
  if (!fe_join(&a, 1, &f, at)) return (tn_selected){fe_poison(f), fe_poison(f)};
  const tn_selected none = {fe_poison(f), fe_poison(f)};
  FE_GUARD(f->p, none);
  Attr size = ir_a_int(KEY_size, most);
  tn_tensor places = fe_emit(OP_nonzero, &a, 1, &size, 1, at);
  if (!fe_ok(places)) return none;
  return (tn_selected){fe_made(coordinates(a, places, at), at), fe_made((tn_tensor){f, places.v + 1}, at)};
}
