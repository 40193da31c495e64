// Values made of positions: ranges, masks by row and column, and what is composed of them.
//
// 0, 1, 2, .. is the cumulative sum of ones, less one: exact up to 2^24 in f32. Masks compare positions of rows and columns,
// and are fused with what they mask.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/shape.h"
#include "ir/build.h"

#include <math.h>

#define OPEN(x, n)                                 \
  tn_function *f;                                  \
  if (!fe_join(x, n, &f, at)) return fe_poison(f); \
  FE_GUARD(f->p, fe_poison(f))

static tn_tensor refuse(tn_function *f, int id, tn_site at, const char *text) {
  fe_error(f->p, id, at, "%s", text);
  return fe_poison(f);
}

static tn_tensor full(tn_function *f, double v, Shape s, tn_site at) { return fe_full(f, v, s, DT_F32, at); }

static tn_tensor cumsum(tn_tensor x, tn_site at) {
  return fe_ok(x) ? fe_emit(OP_cumsum, &x, 1, (const Attr[]){ir_a_int(KEY_axis, 0)}, 1, at) : x;
}

// f32 [n]: 0, 1, 2, ..
tn_tensor fe_positions(tn_function *f, Dim n, tn_site at) {
  tn_tensor count = cumsum(full(f, 1, ir_shape(f->p->ir, &n, 1), at), at);
  return fe_ok(count) ? fe_emit2(OP_sub, count, fe_const(f, 1, at), at) : count;
}

static tn_tensor op2(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_ok(a) && fe_ok(b) ? fe_emit2(op, a, b, at) : fe_poison(fe_ok(a) ? b.fn : a.fn);
}

// f32 [n, m]: `op` of the column and the row + k of each element.
static tn_tensor mask(tn_function *f, Op op, Dim n, Dim m, int k, tn_site at) {
  Dim column[] = {n, ir_dim(f->p->ir, 1)};
  tn_tensor rows = fe_positions(f, n, at), columns = fe_positions(f, m, at);
  if (k) rows = op2(OP_add, rows, fe_const(f, k, at), at);
  return op2(op, columns, fe_ok(rows) ? fe_reshape(rows, column, 2, at) : rows, at);
}

static tn_tensor triangle(tn_tensor x, Op op, int k, tn_site at) {
  uint32_t rank = fe_rank(x);
  tn_function *f = x.fn;
  if (rank < 2) return fe_refuse(x, E_SHAPE, at, "a triangle is part of a matrix: of a value with two axes or more");
  const char *call = op == OP_le ? "tn_tril" : "tn_triu";
  if (!fe_steps_apart(x, rank - 2, call, at) || !fe_steps_apart(x, rank - 1, call, at)) return fe_poison(f);
  tn_tensor keep = mask(f, op, fe_axis_dim(x, rank - 2), fe_axis_dim(x, rank - 1), k, at);
  if (!fe_ok(keep)) return keep;
  return fe_emit(OP_select, (const tn_tensor[]){keep, x, fe_number(f, 0, (DType)fe_ins(x)->dtype, at)}, 3, NULL, 0, at);
}

tn_tensor tn_tril(tn_tensor x, int k, tn_site at) {
  OPEN(&x, 1);
  return fe_made(triangle(x, OP_le, k, at), at);
}

tn_tensor tn_triu(tn_tensor x, int k, tn_site at) {
  OPEN(&x, 1);
  return fe_made(triangle(x, OP_ge, k, at), at);
}

// The elements of each row, with |k| zeros before or behind, times the diagonal's mask: as columns for k > 0.
static tn_tensor diag_embed(tn_tensor x, int k, tn_site at) {
  tn_function *f = x.fn;
  Prog *p = f->p->ir;
  uint32_t rank = fe_rank(x);
  if (rank < 1 || rank == MAX_RANK) return fe_refuse(x, E_SHAPE, at, "a diagonal is made of a value with 1 to 7 axes");
  int64_t pad = k < 0 ? -(int64_t)k : k;
  Dim n = fe_axis_dim(x, rank - 1), size = ir_dim_add(p, n, ir_dim(p, pad)), d[MAX_RANK];
  tn_tensor wide = x;
  for (uint32_t j = 0; j + 1 < rank; j++) d[j] = fe_axis_dim(x, j);
  if (pad) {
    d[rank - 1] = ir_dim(p, pad);
    tn_tensor zeros = fe_full(f, 0, ir_shape(p, d, rank), (DType)fe_ins(x)->dtype, at);
    wide = fe_concat(k > 0 ? (const tn_tensor[]){zeros, x} : (const tn_tensor[]){x, zeros}, 2, rank - 1, at);
  }
  d[rank - 1] = ir_dim(p, 1), d[rank] = size;
  if (k < 0) d[rank - 1] = ir_dim(p, 1);
  wide = fe_ok(wide) ? fe_reshape(wide, d, rank + 1, at) : wide;
  tn_tensor on = mask(f, OP_eq, size, size, k, at);
  if (!fe_ok(wide) || !fe_ok(on)) return fe_poison(f);
  tn_tensor zero = fe_number(f, 0, (DType)fe_ins(x)->dtype, at);
  return fe_emit(OP_select, (const tn_tensor[]){on, wide, zero}, 3, NULL, 0, at);
}

tn_tensor tn_diag_embed(tn_tensor x, int k, tn_site at) {
  OPEN(&x, 1);
  return fe_made(diag_embed(x, k, at), at);
}

tn_tensor tn_diag_embed_axes(tn_tensor x, int k, int rows, int columns, tn_site at) {
  OPEN(&x, 1);
  tn_tensor y = diag_embed(x, k, at);
  uint32_t to[2], rank = fe_rank(x) + 1;
  if (!fe_ok(y) || !fe_axis(y, rows, &to[0], at) || !fe_axis(y, columns, &to[1], at)) return fe_poison(f);
  if (to[0] == to[1]) return fe_refuse(y, E_ARGUMENT, at, "rows and columns are different axes");
  return fe_made(fe_move_axes(y, (const uint32_t[]){rank - 2, rank - 1}, to, 2, at), at);
}

tn_tensor tn_diag(tn_tensor x, int k, tn_site at) {
  OPEN(&x, 1);
  uint32_t rank = fe_rank(x);
  if (rank == 0 || rank > 2) return fe_refuse(x, E_SHAPE, at, "tn_diag takes a vector or a matrix");
  if (rank == 1) return fe_made(diag_embed(x, k, at), at);
  tn_tensor y = fe_diagonal(x, k, 0, 1, at);  // a value of its own, unlike that of tn_diagonal
  return fe_made(fe_ok(y) ? fe_emit1(OP_clone, y, at) : y, at);
}

tn_tensor tn_one_hot(tn_tensor x, int64_t classes, tn_site at) {
  OPEN(&x, 1);
  Dim d[MAX_RANK];
  uint32_t rank = fe_rank(x);
  if (!(COUNTABLE >> fe_ins(x)->dtype & 1)) {
    fe_refuse(x, E_DTYPE, at, "tn_one_hot takes whole numbers");
    fe_hint(f->p, "tn_cast(x, TN_I64) makes them whole");
    return fe_poison(f);
  }
  if (classes < 0 || classes > 1 << 24 || rank == MAX_RANK)
    return fe_refuse(x, E_ARGUMENT, at, "tn_one_hot makes up to 2^24 classes of a value with at most 7 axes");
  for (uint32_t j = 0; j < rank; j++) d[j] = fe_axis_dim(x, j);
  d[rank] = ir_dim(f->p->ir, 1);
  tn_tensor index = fe_reshape(fe_cast(x, DT_I64, at), d, rank + 1, at);
  d[rank] = ir_dim(f->p->ir, classes);
  tn_tensor zeros = fe_full(f, 0, ir_shape(f->p->ir, d, rank + 1), DT_I64, at), one = fe_number(f, 1, DT_I64, at);
  return fe_over_axis("tn_one_hot", OP_scatter, (const tn_tensor[]){zeros, index, one}, 3, (int)rank, at);
}

// ---- ranges
#define OPEN_FUNCTION()           \
  if (!f) return fe_poison(NULL); \
  FE_GUARD(f->p, fe_poison(f));   \
  if (!fe_fn_open(f, at)) return fe_poison(f)

static bool is_small_whole(double x) { return x == floor(x) && fabs(x) <= 1 << 24; }

static const struct {
  double least, most;
} range_of[N_DTYPES] = {
    [DT_I64] = {-0x1p63, 0x1p63}, [DT_I32] = {INT32_MIN, INT32_MAX}, [DT_U8] = {0, UINT8_MAX}, [DT_BOOL] = {0, 1}};

static bool check_whole_range(tn_function *f, double start, double step, Dim n, DType t, tn_site at) {
  int64_t count = ir_dim_bound(f->p->ir, n);
  double last = start + (double)(count - 1) * step, least = range_of[t].least, most = range_of[t].most;
  if (!is_small_whole(start) || !is_small_whole(step))
    fe_error(f->p, E_ARGUMENT, at, "start and step of a range of %s are whole numbers, at most 2^24 in size",
             ir_dtype_name[t]);
  else if (count && (fmin(start, last) < least || fmax(start, last) > most)) {
    fe_error(f->p, E_ARGUMENT, at, "a range of %s goes from %.0f to %.0f: %s holds %.0f to %.0f", ir_dtype_name[t],
             start, last, ir_dtype_name[t], least, most);
    fe_hint(f->p, "TN_I64 holds it");
  } else return true;
  return false;
}

// i64: the cumulative sum of step, step, .., which is exact
static tn_tensor whole_range(tn_function *f, double start, double step, Dim n, tn_site at) {
  tn_tensor k = cumsum(fe_full(f, step, ir_shape(f->p->ir, &n, 1), DT_I64, at), at);
  return start == step ? k : op2(OP_add, k, fe_number(f, start - step, DT_I64, at), at);
}

tn_tensor tn_arange(tn_function *f, double start, double step, tn_dim n, tn_dtype type, tn_site at) {
  OPEN_FUNCTION();
  Dim size;
  DType t = fe_dtype(type);
  if (!t) return refuse(f, E_DTYPE, at, "a range needs a dtype: TN_F32, TN_I64, ..");
  if (!fe_dim(f->p, n, &size, at)) return fe_poison(f);
  if (ir_dim_bound(f->p->ir, size) > 1 << 24) return refuse(f, E_ARGUMENT, at, "a range has at most 2^24 elements");
  if (COUNTABLE >> t & 1) {
    if (!check_whole_range(f, start, step, size, t, at)) return fe_poison(f);
    return fe_made(fe_cast(whole_range(f, start, step, size, at), t, at), at);
  }
  tn_tensor y = fe_positions(f, size, at);
  if (step != 1) y = op2(OP_mul, y, fe_const(f, step, at), at);
  if (start != 0) y = op2(OP_add, y, fe_const(f, start, at), at);
  return fe_made(fe_cast(y, t, at), at);
}

// From each end to the middle, so that both ends are exact: PyTorch's way.
static tn_tensor linspace(tn_function *f, double start, double end, int64_t n, tn_site at) {
  Dim size = ir_dim(f->p->ir, n);
  if (n < 2) return full(f, start, ir_shape(f->p->ir, &size, 1), at);
  double step = (end - start) / (double)(n - 1);
  tn_tensor k = fe_positions(f, size, at);
  tn_tensor up = op2(OP_add, op2(OP_mul, k, fe_const(f, step, at), at), fe_const(f, start, at), at);
  tn_tensor left = op2(OP_sub, fe_const(f, (double)(n - 1), at), k, at);
  tn_tensor down = op2(OP_sub, fe_const(f, end, at), op2(OP_mul, left, fe_const(f, step, at), at), at);
  tn_tensor first = op2(OP_lt, k, fe_const(f, (double)(n / 2), at), at);
  if (!fe_ok(first) || !fe_ok(up) || !fe_ok(down)) return fe_poison(f);
  return fe_emit(OP_select, (const tn_tensor[]){first, up, down}, 3, NULL, 0, at);
}

tn_tensor tn_linspace(tn_function *f, double start, double end, int64_t n, tn_site at) {
  OPEN_FUNCTION();
  if (n < 0 || n > 1 << 24) return refuse(f, E_ARGUMENT, at, "a range has at most 2^24 elements");
  return fe_made(linspace(f, start, end, n, at), at);
}

tn_tensor tn_logspace(tn_function *f, double start, double end, int64_t n, double base, tn_site at) {
  OPEN_FUNCTION();
  if (n < 0 || n > 1 << 24) return refuse(f, E_ARGUMENT, at, "a range has at most 2^24 elements");
  return fe_made(op2(OP_pow, fe_const(f, base, at), linspace(f, start, end, n, at), at), at);
}

tn_tensor tn_eye(tn_function *f, tn_dim n, tn_dim m, tn_site at) {
  OPEN_FUNCTION();
  Dim a, b;
  if (!fe_dim(f->p, n, &a, at) || !fe_dim(f->p, m, &b, at)) return fe_poison(f);
  return fe_made(mask(f, OP_eq, a, b, 0, at), at);
}

// ---- like another value
tn_tensor tn_full_like(tn_tensor x, double v, tn_site at) {
  OPEN(&x, 1);
  return fe_made(fe_full(f, v, fe_shape_of(x), (DType)fe_ins(x)->dtype, at), at);
}

tn_tensor tn_zeros_like(tn_tensor x, tn_site at) { return tn_full_like(x, 0, at); }
tn_tensor tn_ones_like(tn_tensor x, tn_site at) { return tn_full_like(x, 1, at); }

tn_tensor tn_rand_like(tn_tensor x, tn_site at) {
  OPEN(&x, 1);
  if (fe_ins(x)->dtype != DT_F32) {
    fe_refuse(x, E_DTYPE, at, "random numbers are f32");
    fe_hint(f->p, "tn_rand_like(tn_cast(x, TN_F32)) has x's shape");
    return fe_poison(f);
  }
  Attr a[] = {ir_a_num(KEY_lo, 0), ir_a_list(KEY_shape, fe_shape_of(x)), ir_a_num(KEY_hi, 1),
              ir_a_int(KEY_id, fe_stream(f, at))};
  return fe_made(fe_emit_in(f, OP_uniform, a, 4, at), at);
}

void tn_meshgrid(const tn_tensor *x, uint32_t n, bool xy, tn_tensor *out, tn_site at) {
  tn_function *f = NULL;
  tn_tensor vector[MAX_RANK];
  bool joined = x && out && n && fe_join(x, n, &f, at);
  for (uint32_t k = 0; joined && k < n && k < MAX_RANK; k++) vector[k] = x[k];  // out may be the same array
  tn_tensor last = joined ? x[n - 1] : fe_poison(f);
  fe_poison_all(f, out, n);
  if (!joined) return;
  FE_GUARD(f->p, );
  Dim all[MAX_RANK], own[MAX_RANK], one = ir_dim(f->p->ir, 1);
  for (uint32_t k = 0; k < n; k++) {
    if (n <= MAX_RANK && fe_rank(vector[k]) == 1) continue;
    fe_refuse(n > MAX_RANK ? last : vector[k], E_SHAPE, at, "tn_meshgrid takes up to 8 vectors");
    return;
  }
  for (uint32_t k = 0; k < n; k++) all[xy && k < 2 && n > 1 ? 1 - k : k] = fe_axis_dim(vector[k], 0);
  for (uint32_t k = 0; k < n; k++) {
    for (uint32_t j = 0; j < n; j++) own[j] = one;
    uint32_t axis = xy && k < 2 && n > 1 ? 1 - k : k;
    own[axis] = all[axis];
    tn_tensor y = fe_reshape(vector[k], own, n, at);
    Attr shape = ir_a_list(KEY_shape, ir_shape(f->p->ir, all, n));
    if (fe_ok(y)) y = fe_emit(OP_expand, &y, 1, &shape, 1, at);
    out[k] = fe_made(y, at);
  }
}
