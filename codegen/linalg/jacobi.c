// eigh and svd whose vectors are read (values.c has the others) by one-sided Jacobi rotations: pairs of rows are rotated until they are orthogonal, in cycles
// over all pairs, until a cycle rotates none. J, which begins as the identity, takes the same rotations as X.
//
//   svd:    X is a / its largest element;     J X = diag(s) V^T,  so that U = J^T
//   eigh:   X is the same with c on its diagonal added, c the largest sum of a row: no eigenvalue is below 0, and those of X are its
//           singular values. Rows of J are the eigenvectors, whose eigenvalues are taken of a itself
//
// Rows are contiguous and fill vectors. The order of pairs does not depend on the workers, each of which has
// matrices of its own: results have the same bits for any number of them.
#include "codegen/linalg/values.h"
#include "codegen/math/primitives.h"

#include <math.h>

enum { MOST_CYCLES = 30 };
#define LEAST_LENGTH 0x1p-60  // shorter rows of X, whose squares lose digits, count as 0

typedef struct {
  V at, n;  // rows of n elements
} Rows;

static V row(Cg *c, Rows m, V i) { return f32_at(c, m.at, cg_mul(c, i, m.n)); }
static V element(Cg *c, Rows m, V i, V j) { return f32_at(c, row(c, m, i), j); }
static V value(Cg *c, V at) { return cg_load(c, c->f32, at); }
static V greater(Cg *c, V a, V b) { return cg_fcmp(c, LLVMRealOGT, a, b); }
static V root(Cg *c, V x) { return cg_primitive(c, OP_sqrt, &x); }
static V size(Cg *c, V x) { return cg_primitive(c, OP_abs, &x); }

static V dot(Cg *c, V a, V b, V n) {
  V vl = cg_vl(c), whole = cg_multiple(c, n, vl), sum = cg_zeros(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), whole, vl, &sum, 1); cg_next(&l);)
    sum = cg_fma(c, cg_get(c, c->vf, a, l.i), cg_get(c, c->vf, b, l.i), sum);
  V mask = cg_mask(c, cg_sub(c, n, whole)), x = cg_get_masked(c, c->vf, a, whole, mask);
  return cg_reduce_add(c, cg_fma(c, x, cg_get_masked(c, c->vf, b, whole, mask), sum));
}

// ---- pairs of rows
// The cosine is 1 - sine * half, half = sine / (1 + cosine): for small angles a rounded cosine would be 1,
// and norms would grow.
typedef struct {
  V a, b, sine, half;
} Turn;

static void turn_vectors(Cg *c, V k, V mask, void *ctx) {
  const Turn *t = ctx;
  V at_a = f32_at(c, t->a, k), at_b = f32_at(c, t->b, k), sine = cg_splat(c, t->sine), half = cg_splat(c, t->half);
  V a = cg_load_masked(c, c->vf, at_a, mask), b = cg_load_masked(c, c->vf, at_b, mask);
  cg_store_masked(c, cg_fma(c, cg_fneg(c, sine), cg_fma(c, half, a, b), a), at_a, mask);
  cg_store_masked(c, cg_fma(c, sine, cg_fma(c, cg_fneg(c, half), b, a), b), at_b, mask);
}

static void turn(Cg *c, Rows m, V i, V j, V cosine, V sine) {
  Turn t = {row(c, m, i), row(c, m, j), sine, cg_fdiv(c, sine, cg_fadd(c, cg_f32(c, 1), cosine))};
  cg_each_vector(c, cg_i64(c, 0), m.n, turn_vectors, &t);
}

// Rotates rows i and j if they are not orthogonal; returns 1 or 0, i64: whether it did.
static V turn_pair(Cg *c, Rows x, Rows own, V i, V j, V tolerance) {
  V a = row(c, x, i), b = row(c, x, j), aa = dot(c, a, a, x.n), bb = dot(c, b, b, x.n), ab = dot(c, a, b, x.n);
  V one = cg_f32(c, 1), is_off = greater(c, size(c, ab), cg_fmul(c, tolerance, cg_fmul(c, root(c, aa), root(c, bb))));
  V zeta = cg_fdiv(c, cg_fsub(c, bb, aa), cg_fmul(c, cg_f32(c, 2), ab));
  V far = size(c, zeta), is_far = greater(c, far, cg_f32(c, 0x1p+30));  // whose square may overflow
  V slope = cg_fadd(c, far, cg_select(c, is_far, far, root(c, cg_fma(c, zeta, zeta, one))));
  V tangent[] = {cg_fdiv(c, one, slope), zeta}, t = cg_primitive(c, OP_copysign, tangent);
  V cosine = cg_fdiv(c, one, root(c, cg_fma(c, t, t, one))), sine = cg_fmul(c, cosine, t);
  for (If turns = cg_when(c, is_off); cg_then(&turns);) {
    turn(c, x, i, j, cosine, sine);
    turn(c, own, i, j, cosine, sine);
  }
  return cg_zext(c, is_off, c->i64);
}

// Of an x that is NaN: NaN
static void fill_identity(Cg *c, Rows m, V x) {
  for (Loop l = cg_count(c, m.n); cg_next(&l);) {
    for (Loop k = cg_count(c, m.n); cg_next(&k);) {
      V is_on = cg_eq(c, l.i, k.i);
      V nothing = cg_fmul(c, value(c, x), cg_f32(c, 0));  // inside the loop: an x without rows is not read
      cg_store(c, cg_fadd(c, cg_select(c, is_on, cg_f32(c, 1), cg_f32(c, 0)), nothing), element(c, m, l.i, k.i));
    }
  }
}

static V f32_of(Cg *c, V n) { return cg_sitofp(c, n, c->f32); }

// void(ptr x, ptr j, i64 rows, i64 n): x [rows, n], j [rows, rows]
static void make_orthogonal(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V n_rows = LLVMGetParam(fn, 2), zero = cg_i64(c, 0), one = cg_i64(c, 1);
  Rows x = {LLVMGetParam(fn, 0), LLVMGetParam(fn, 3)}, own = {LLVMGetParam(fn, 1), n_rows};
  V tolerance = cg_fmul(c, cg_f32(c, 0x1p-23), root(c, f32_of(c, next_to(c, x.n))));
  fill_identity(c, own, x.at);
  V rows = n_rows;  // 0: done
  for (Loop cycle = cg_carry(c, zero, cg_i64(c, MOST_CYCLES), one, &rows, 1); cg_next(&cycle);) {
    V turned = zero;
    for (Loop i = cg_carry(c, zero, rows, one, &turned, 1); cg_next(&i);)
      for (Loop j = cg_carry(c, next_to(c, i.i), n_rows, one, &turned, 1); cg_next(&j);)
        turned = cg_iadd(c, turned, turn_pair(c, x, own, i.i, j.i, tolerance));
    rows = cg_select(c, cg_eq(c, turned, zero), zero, n_rows);
  }
  LLVMBuildRetVoid(c->b);
}

// ---- the largest element, sorting, transposing
static V bits_to_scale(Cg *c, V bits) {
  V is_zero = cg_eq(c, bits, cg_i32(c, 0));
  V is_wild = cg_icmp(c, LLVMIntUGE, bits, cg_i32(c, 0x7f800000));  // dividing by NaN makes everything NaN
  V scale = cg_select(c, is_wild, cg_f32(c, NAN), cg_bitcast(c, bits, c->f32));
  return cg_select(c, is_zero, cg_f32(c, 1), scale);
}

// Of n elements; 1 where all are 0
static V largest(Cg *c, V at, V n) {
  V most = cg_i32(c, 0);
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, cg_i64(c, 1), &most, 1); cg_next(&l);) {
    V bits = cg_magnitude(c, f32_at(c, at, l.i));
    most = cg_select(c, cg_icmp(c, LLVMIntUGT, bits, most), bits, most);
  }
  return bits_to_scale(c, most);
}

static void swap(Cg *c, V a, V b) {
  V x = value(c, a), y = value(c, b);
  cg_store(c, y, a);
  cg_store(c, x, b);
}

static void swap_row(Cg *c, Rows m, V i, V k) {
  for (Loop l = cg_count(c, m.n); cg_next(&l);) swap(c, element(c, m, i, l.i), element(c, m, k, l.i));
}

// Sorts n keys, largest first (`rises`: smallest first), and the rows of the matrices with them
static void sort(Cg *c, V keys, V n, bool rises, const Rows *with, uint32_t n_with) {
  for (Loop k = cg_count(c, n); cg_next(&k);) {
    V first = k.i;
    for (Loop l = cg_carry(c, next_to(c, k.i), n, cg_i64(c, 1), &first, 1); cg_next(&l);) {
      V x = cg_get(c, c->f32, keys, l.i), best = cg_get(c, c->f32, keys, first);
      first = cg_select(c, rises ? greater(c, best, x) : greater(c, x, best), l.i, first);
    }
    for (If moves = cg_when(c, cg_ne(c, first, k.i)); cg_then(&moves);) {
      swap(c, f32_at(c, keys, k.i), f32_at(c, keys, first));
      for (uint32_t w = 0; w < n_with; w++) swap_row(c, with[w], k.i, first);
    }
  }
}

static void transpose(Cg *c, Rows m) {
  for (Loop i = cg_count(c, m.n); cg_next(&i);)
    for (Loop j = cg_each(c, next_to(c, i.i), m.n); cg_next(&j);)
      swap(c, element(c, m, i.i, j.i), element(c, m, j.i, i.i));
}

// ---- svd
typedef struct {
  V at, by, from, minus;
} Scaling;

static void divide_vectors(Cg *c, V k, V mask, void *ctx) {
  const Scaling *s = ctx;
  V at = f32_at(c, s->at, k);
  cg_store_masked(c, cg_fdiv(c, cg_load_masked(c, c->vf, f32_at(c, s->from, k), mask), cg_splat(c, s->by)), at, mask);
}

static void divide(Cg *c, V at, V from, V by, V n) {
  Scaling s = {at, by, from, NULL};
  cg_each_vector(c, cg_i64(c, 0), n, divide_vectors, &s);
}

static void subtract_vectors(Cg *c, V k, V mask, void *ctx) {
  const Scaling *s = ctx;
  V at = f32_at(c, s->at, k), from = cg_load_masked(c, c->vf, f32_at(c, s->from, k), mask);
  cg_store_masked(c, cg_fma(c, cg_splat(c, s->minus), from, cg_load_masked(c, c->vf, at, mask)), at, mask);
}

// Replaces row k, which counts as 0, by a unit vector orthogonal to those before: the rest of the axis of
// which most is left.
static void fill_row(Cg *c, Rows x, V k) {
  enum { LEFT, AXIS };
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), least[] = {cg_f32(c, 2), zero};
  for (Loop axis = cg_carry(c, zero, x.n, one, least, 2); cg_next(&axis);) {
    V sum = cg_f32(c, 0);
    for (Loop l = cg_carry(c, zero, k, one, &sum, 1); cg_next(&l);) {
      V part = value(c, element(c, x, l.i, axis.i));
      sum = cg_fma(c, part, part, sum);
    }
    V is_less = greater(c, least[LEFT], sum);
    least[LEFT] = cg_select(c, is_less, sum, least[LEFT]), least[AXIS] = cg_select(c, is_less, axis.i, least[AXIS]);
  }
  for (Loop l = cg_count(c, x.n); cg_next(&l);) cg_store(c, cg_f32(c, 0), element(c, x, k, l.i));
  cg_store(c, cg_f32(c, 1), element(c, x, k, least[AXIS]));
  V at = row(c, x, k);
  for (int pass = 0; pass < 2; pass++) {
    for (Loop l = cg_count(c, k); cg_next(&l);) {
      V other = row(c, x, l.i);
      Scaling s = {at, NULL, other, cg_fneg(c, dot(c, at, other, x.n))};
      cg_each_vector(c, zero, x.n, subtract_vectors, &s);
    }
  }
  divide(c, at, at, root(c, dot(c, at, at, x.n)), x.n);
}

// void(ptr x, ptr j, ptr s, i64 rows, i64 n, f32 scale): J X to singular values and vectors
static void make_svd(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V n_rows = LLVMGetParam(fn, 3), s = LLVMGetParam(fn, 2);
  Rows both[] = {{LLVMGetParam(fn, 0), LLVMGetParam(fn, 4)}, {LLVMGetParam(fn, 1), n_rows}}, x = both[0];
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) {
    V at = row(c, x, l.i);
    cg_store(c, root(c, dot(c, at, at, x.n)), f32_at(c, s, l.i));
  }
  sort(c, s, n_rows, false, both, 2);
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) {
    V length = value(c, f32_at(c, s, l.i));
    V is_zero = greater(c, cg_f32(c, LEAST_LENGTH), length);
    for (If fills = cg_either(c, is_zero); cg_then(&fills);)
      if (fills.is_true) fill_row(c, x, l.i);
      else divide(c, row(c, x, l.i), row(c, x, l.i), length, x.n);
    cg_store(c, cg_select(c, is_zero, cg_f32(c, 0), cg_fmul(c, length, LLVMGetParam(fn, 5))), f32_at(c, s, l.i));
  }
  transpose(c, both[1]);
  LLVMBuildRetVoid(c->b);
}

// Where result k of v lies: its storage, or scratch behind that of those before it
static V result_at(Cg *c, Val v, uint32_t k) {
  if (cg_stored(c, ir_result(v, k))) return cg_ptr(c, ir_result(v, k));
  int64_t bytes = 0;
  for (uint32_t j = 0; j < k; j++) bytes += cg_unread_bytes(c->f, ir_result(v, j));
  return f32_at(c, c->scratch, cg_i64(c, bytes / 4));
}

int64_t cg_svd_scratch_bytes(const Fn *f, Val v, const Target *t) {
  if (cg_values_alone(f, v)) return cg_values_scratch_bytes(f, v, t);
  int64_t bytes = 0;
  for (uint32_t k = 0; k < 3; k++) bytes += cg_unread_bytes(f, ir_result(v, k));
  return bytes;
}

void cg_emit_svd(Cg *c, Val v) {
  if (cg_values_alone(c->f, v)) {
    cg_emit_values(c, v);
    return;
  }
  Shape shape = ir_ins(c->f, ir_arg(c->f, v, 0))->shape;
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), m = cg_matrix_size(c, shape, 2), n = cg_matrix_size(c, shape, 1);
  V u = result_at(c, v, 0), s = result_at(c, v, 1), x = result_at(c, v, 2), all = cg_mul(c, m, n);
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, shape), 1); cg_next(&l);) {
    V at = cg_mul(c, l.i, all), from = f32_at(c, a, at), to = f32_at(c, x, at), scale = largest(c, from, all);
    V own = f32_at(c, u, cg_mul(c, l.i, cg_mul(c, m, m)));
    divide(c, to, from, scale, all);
    V arg[] = {to, own, m, n}, end[] = {to, own, f32_at(c, s, cg_mul(c, l.i, m)), m, n, scale};
    cg_call_helper(c, "rotate_rows", arg, 4, make_orthogonal, NULL);
    cg_call_helper(c, "svd", end, 6, make_svd, NULL);
  }
}

// ---- eigh
// Element (i, j) of a, of which the lower triangle is read
static V lower(Cg *c, Rows a, V i, V j) { return value(c, element(c, a, cg_max(c, i, j), cg_min(c, i, j))); }

// void(ptr a, ptr x, i64 n): x becomes a / scale + c
static void make_positive(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V n = LLVMGetParam(fn, 2), zero = cg_i64(c, 0), one = cg_i64(c, 1), bits = cg_i32(c, 0), most = cg_f32(c, 0);
  Rows a = {LLVMGetParam(fn, 0), n}, x = {LLVMGetParam(fn, 1), n};
  for (Loop i = cg_carry(c, zero, n, one, &bits, 1); cg_next(&i);)
    for (Loop j = cg_carry(c, zero, next_to(c, i.i), one, &bits, 1); cg_next(&j);) {
      V own = cg_magnitude(c, element(c, a, i.i, j.i));
      bits = cg_select(c, cg_icmp(c, LLVMIntUGT, own, bits), own, bits);
    }
  V scale = bits_to_scale(c, bits);
  for (Loop i = cg_carry(c, zero, n, one, &most, 1); cg_next(&i);) {
    V sum = cg_f32(c, 0);
    for (Loop j = cg_carry(c, zero, n, one, &sum, 1); cg_next(&j);) {
      V y = cg_fdiv(c, lower(c, a, i.i, j.i), scale);
      sum = cg_fadd(c, sum, size(c, y));
      cg_store(c, y, element(c, x, i.i, j.i));
    }
    most = cg_select(c, greater(c, sum, most), sum, most);
  }
  for (Loop j = cg_count(c, n); cg_next(&j);) {
    V at = element(c, x, j.i, j.i);
    cg_store(c, cg_fadd(c, value(c, at), most), at);
  }
  LLVMBuildRetVoid(c->b);
}

// void(ptr a, ptr j, ptr w, i64 n): each eigenvalue by its vector, then both in order
static void make_eigh(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V n = LLVMGetParam(fn, 3), zero = cg_i64(c, 0), one = cg_i64(c, 1), w = LLVMGetParam(fn, 2), start = cg_f32(c, 0);
  Rows a = {LLVMGetParam(fn, 0), n}, own = {LLVMGetParam(fn, 1), n};
  for (Loop k = cg_count(c, n); cg_next(&k);) {
    V v = row(c, own, k.i);
    for (Loop i = cg_carry(c, zero, n, one, &start, 1); cg_next(&i);) {
      V of_i = value(c, f32_at(c, v, i.i)), below = dot(c, row(c, a, i.i), v, i.i);
      V line = cg_fma(c, value(c, element(c, a, i.i, i.i)), of_i, cg_fmul(c, cg_f32(c, 2), below));
      start = cg_fma(c, line, of_i, start);
    }
    cg_store(c, start, f32_at(c, w, k.i));
  }
  sort(c, w, n, true, &own, 1);
  transpose(c, own);
  LLVMBuildRetVoid(c->b);
}

// Scratch: X, and results that nobody reads
int64_t cg_eigh_scratch_bytes(const Fn *f, Val v, const Target *t) {
  if (cg_values_alone(f, v)) return cg_values_scratch_bytes(f, v, t);
  int64_t bytes = cg_larger(4, 4 * ir_shape_bound(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape));
  for (uint32_t k = 0; k < 2; k++) bytes += cg_unread_bytes(f, ir_result(v, k));
  return bytes;
}

void cg_emit_eigh(Cg *c, Val v) {
  if (cg_values_alone(c->f, v)) {
    cg_emit_values(c, v);
    return;
  }
  Shape shape = ir_ins(c->f, ir_arg(c->f, v, 0))->shape;
  V a = cg_ptr(c, ir_arg(c->f, v, 0)), n = cg_matrix_size(c, shape, 1), square = cg_mul(c, n, n);
  V w = result_at(c, v, 0), own = result_at(c, v, 1);
  int64_t before = cg_unread_bytes(c->f, v) + cg_unread_bytes(c->f, ir_result(v, 1));
  V x = f32_at(c, c->scratch, cg_i64(c, before / 4));
  for (Loop l = cg_each_shared(c, cg_n_matrices(c, shape), 1); cg_next(&l);) {
    V at = cg_mul(c, l.i, square), from = f32_at(c, a, at), work = f32_at(c, x, at), vectors = f32_at(c, own, at);
    V begin[] = {from, work, n}, rotate[] = {work, vectors, n, n},
      end[] = {from, vectors, f32_at(c, w, cg_mul(c, l.i, n)), n};
    cg_call_helper(c, "eigh.start", begin, 3, make_positive, NULL);
    cg_call_helper(c, "rotate_rows", rotate, 4, make_orthogonal, NULL);
    cg_call_helper(c, "eigh", end, 4, make_eigh, NULL);
  }
}
