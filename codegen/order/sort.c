// Rows in order: sort, topk, kth_value, median, along any axis. Each row belongs to one worker.
//
// The way depends on bounds alone:
//   RANK       short rows: how many keys are before each one, counted a vector of keys at a time
//   PICK       few of a short row: the first of all records, which stand in registers, and again without it
//   THRESHOLD  few of many: the best so far stand sorted, and a vector of keys is passed over unless one beats the last
//   SAMPLE     few of very many: a sample of the row says which key the last wanted one hardly exceeds; what does is passed over, a
//              vector of keys at a time, the rest is sorted. If that were too few after all: SELECT
//   SELECT     the counts of the highest digit say in which of its values the last wanted element lies; what has a
//              higher one is passed over, the rest is sorted
//   RADIX      all of the row is sorted by digits (radix.c)
#include "codegen/order/order.h"

#include <math.h>

enum {
  SHORT = 128,     // RANK and PICK up to here
  PICK_SHARE = 4,  // PICK: at most one of PICK_SHARE
  RECORDS = 8,     // of 64 bits in a vector of PICK
  FEW = 64,
  FEW_SHARE = 64,  // THRESHOLD: at most FEW elements, and one of FEW_SHARE
  MANY_SHARE = 4,  // SAMPLE: at most one of MANY_SHARE
  LONG = 16384,    // digits of 12 bits in SELECT from here, else of 8
  MOST_SLOTS = 16  // workers that have blocks for their rows
};
static const int64_t slot_memory = 64 << 20;  // bytes of all blocks together, unless one takes more

typedef enum { RANK, PICK, THRESHOLD, SAMPLE, SELECT, RADIX } Way;

typedef struct {
  Cg *c;
  CgKeys keys;
  Op op;
  int64_t bound;       // of n
  CgAxis from;         // of x
  V m;                 // elements of a row of the results
  V x, values, index;  // values, index: NULL where nobody reads them
  V a, b, counts;      // of this worker: records, counts
  V first, to;         // of the row at hand: its first element in x, in the results
  V skip;              // elements before the first wanted one
} Sort;

// ---- what the op wants
static int64_t axis_bound(const Fn *f, Val v) {
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, ir_ins(f, v)->shape, (uint32_t)ir_attr_int(f, v, KEY_axis, 0)));
}

static int64_t n_bound(const Fn *f, Val v) {
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  return ir_dim_bound(f->prog, ir_dim_at(f->prog, s, (uint32_t)ir_attr_int(f, v, KEY_axis, 0)));
}

static int64_t key_bits(const Fn *f, Val v) { return cg_key_bits((DType)ir_ins(f, ir_arg(f, v, 0))->dtype); }

// Do the elements of a row lie side by side?
static bool has_neighbours(const Fn *f, Val v) {
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  uint32_t rank = ir_rank(f->prog, s);
  for (uint32_t k = (uint32_t)ir_attr_int(f, v, KEY_axis, 0) + 1; k < rank; k++)
    if (!ir_dim_is_one(f->prog, ir_dim_at(f->prog, s, k))) return false;
  return true;
}

static Way way_of(const Fn *f, Val v) {
  int64_t n = n_bound(f, v), m = axis_bound(f, v);
  bool is_short_key = key_bits(f, v) == 32;
  if (n <= SHORT) return ir_ins(f, v)->op == OP_topk && is_short_key && m * PICK_SHARE <= n ? PICK : RANK;
  if (ir_ins(f, v)->op == OP_topk && m <= FEW && m * FEW_SHARE <= n) return THRESHOLD;
  if (ir_ins(f, v)->op == OP_topk && m * MANY_SHARE <= n && has_neighbours(f, v)) return SAMPLE;
  return ir_ins(f, v)->op == OP_sort ? RADIX : SELECT;
}

static uint32_t digit_bits(int64_t n) { return n >= LONG ? 12 : 8; }

// ---- blocks of a worker: records, room for as many, counts
static int64_t record_bytes(const Fn *f, Val v) {
  return cg_round_up(n_bound(f, v) * 2 * key_bits(f, v) / 8, TN_ALIGN);
}

static int64_t slot_bytes(const Fn *f, Val v) {
  int64_t counts = cg_larger(cg_radix_counts((uint32_t)key_bits(f, v)), INT64_C(1) << digit_bits(n_bound(f, v)));
  return 2 * record_bytes(f, v) + 4 * counts;
}

static int64_t n_slots(const Fn *f, Val v) {
  int64_t n = n_bound(f, v), rows = n ? ir_shape_bound(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape) / n : 0;
  int64_t slots = cg_smaller(cg_smaller(MOST_SLOTS, rows), slot_memory / slot_bytes(f, v));
  return cg_larger(slots, 1);
}

int64_t cg_order_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  Op op = (Op)ir_ins(f, v)->op;
  bool sorts = op == OP_sort || op == OP_topk || op == OP_kth_value || op == OP_median;
  if (!sorts || way_of(f, v) < SAMPLE) return 0;
  return n_slots(f, v) * slot_bytes(f, v);
}

static void find_blocks(Sort *s, Val v) {
  Cg *c = s->c;
  V at = cg_mul(c, c->worker, cg_i64(c, slot_bytes(c->f, v)));
  int64_t bytes = record_bytes(c->f, v);
  s->a = cg_at(c, c->i8, c->scratch, at);
  s->b = cg_at(c, c->i8, c->scratch, cg_add(c, at, cg_i64(c, bytes)));
  s->counts = cg_at(c, c->i8, c->scratch, cg_add(c, at, cg_i64(c, 2 * bytes)));
}

// ---- elements of the row at hand
static LLVMTypeRef elem(const Sort *s) { return cg_elem_type(s->c, s->keys.type); }

static V x_at(const Sort *s, V j) {
  Cg *c = s->c;
  return cg_get(c, elem(s), s->x, cg_add(c, s->first, cg_mul(c, j, s->from.inner)));
}

// Element `place` of the row is element p of the result.
static void give(const Sort *s, V p, V place) {
  Cg *c = s->c;
  V to = cg_add(c, s->to, cg_mul(c, p, s->from.inner));
  if (s->values) cg_put(c, x_at(s, place), s->values, to);
  if (s->index) cg_put(c, place, s->index, to);
}

static V count_nan(const Sort *s) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0);
  V n = zero;
  for (Loop l = cg_carry(c, zero, s->from.n, cg_i64(c, 1), &n, 1); cg_next(&l);) {
    V x = x_at(s, l.i), is_nan = cg_fcmp(c, LLVMRealUNO, x, x);
    n = cg_add(c, n, cg_zext(c, is_nan, c->i64));
  }
  return n;
}

// The lower median, or the first NaN where there is one.
static V median_place(const Sort *s) {
  Cg *c = s->c;
  V middle = cg_div(c, cg_sub(c, s->from.n, cg_i64(c, 1)), cg_i64(c, 2));
  if (ir_dtype_kind[s->keys.type] != DTYPE_FLOAT) return middle;
  V n_nan = count_nan(s), any = cg_gt(c, n_nan, cg_i64(c, 0));
  return cg_select(c, any, cg_sub(c, s->from.n, n_nan), middle);
}

// ---- keys of a short row
// By whole vectors where the row has no gaps; returns how many keys that were.
static V fill_vectors(const Sort *s, V buffer, V flip) {
  Cg *c = s->c;
  int64_t inner = 0;
  if (!cg_const_value(s->from.inner, &inner) || inner != 1) return cg_i64(c, 0);
  LLVMTypeRef vec = cg_vector_type(c, s->keys.type, c->t->vl);
  V whole;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), s->from.n, c->t->vl, &whole); cg_next(&l);) {
    V key = cg_key(&s->keys, cg_get(c, vec, s->x, cg_add(c, s->first, l.i)));
    cg_put(c, cg_xor(c, key, cg_splat(c, flip)), buffer, l.i);
  }
  return whole;
}

// Keys, their bits of `flip` flipped; behind the row `behind`.
static void fill_keys(const Sort *s, V buffer, int64_t padded, V flip, V behind) {
  Cg *c = s->c;
  V whole = fill_vectors(s, buffer, flip);
  for (Loop l = cg_each(c, whole, s->from.n); cg_next(&l);)
    cg_put(c, cg_xor(c, cg_key(&s->keys, x_at(s, l.i)), flip), buffer, l.i);
  for (Loop l = cg_each(c, s->from.n, cg_i64(c, padded)); cg_next(&l);) cg_put(c, behind, buffer, l.i);
}

// ---- RANK
// With the highest bit flipped, so that keys compare as signed numbers; behind the row stands the largest.
static void fill_signed_keys(const Sort *s, V buffer, int64_t padded) {
  V sign = LLVMConstInt(s->keys.key, 1ull << (s->keys.bits - 1), false);
  fill_keys(s, buffer, padded, sign, LLVMConstInt(s->keys.key, (1ull << (s->keys.bits - 1)) - 1, false));
}

static V counted(Cg *c, V sum, V is_before) { return cg_isub(c, sum, cg_sext(c, is_before, LLVMTypeOf(sum))); }

// Adds to `sum`, for each key of the block, how many of the vl keys from `from` on are before it.
static V count_before(const Sort *s, V buffer, V from, V own, V sum, LLVMIntPredicate before) {
  Cg *c = s->c;
  for (uint32_t k = 0; k < c->t->vl; k++) {
    V other = cg_get(c, s->keys.key, buffer, cg_add(c, from, cg_i64(c, k)));
    sum = counted(c, sum, cg_icmp(c, before, cg_splat(c, other), own));
  }
  return sum;
}

// Of the block itself: an equal key counts where it stands before.
static V count_inside(const Sort *s, V buffer, V block, V own, V sum) {
  Cg *c = s->c;
  for (uint32_t k = 0; k < c->t->vl; k++) {
    V other = cg_splat(c, cg_get(c, s->keys.key, buffer, cg_add(c, block, cg_i64(c, k)))), lane[64];
    for (uint32_t i = 0; i < c->t->vl; i++) lane[i] = LLVMConstInt(c->i1, i > k, false);
    V is_behind = LLVMConstVector(lane, c->t->vl);
    V less = cg_lt(c, other, own), equal = cg_eq(c, other, own);
    sum = counted(c, sum, cg_or(c, less, cg_and(c, equal, is_behind)));
  }
  return sum;
}

static void find_ranks(const Sort *s, V buffer, V ranks, int64_t padded) {
  Cg *c = s->c;
  LLVMTypeRef vec = LLVMVectorType(s->keys.key, c->t->vl);
  V unit = cg_vl(c), zero = cg_i64(c, 0), sum = LLVMConstNull(vec);
  for (Loop block = cg_each_by(c, zero, s->from.n, unit); cg_next(&block);) {
    V own = cg_get(c, vec, buffer, block.i);
    for (Loop l = cg_carry(c, zero, block.i, unit, &sum, 1); cg_next(&l);)
      sum = count_before(s, buffer, l.i, own, sum, LLVMIntSLE);
    sum = count_inside(s, buffer, block.i, own, sum);
    V end = cg_min(c, cg_mul(c, cg_ceil_div_value(c, s->from.n, c->t->vl), unit), cg_i64(c, padded));
    for (Loop l = cg_carry(c, cg_add(c, block.i, unit), end, unit, &sum, 1); cg_next(&l);)
      sum = count_before(s, buffer, l.i, own, sum, LLVMIntSLT);
    cg_put(c, sum, ranks, block.i);
  }
}

static void by_rank(const Sort *s, V buffer, V ranks) {
  Cg *c = s->c;
  int64_t padded = cg_round_up(s->bound, c->t->vl);
  fill_signed_keys(s, buffer, padded);
  find_ranks(s, buffer, ranks, padded);
  for (Loop l = cg_count(c, s->from.n); cg_next(&l);) {
    V rank = cg_get(c, s->keys.key, ranks, l.i);
    if (s->keys.bits == 32) rank = cg_zext(c, rank, c->i64);
    V p = cg_sub(c, rank, s->skip);
    for (If wanted = cg_when(c, s->op == OP_sort ? NULL : cg_below(c, p, s->m)); cg_then(&wanted);) give(s, p, l.i);
  }
}

// ---- records
static V record_of(const Sort *s, V key, V j) {
  return cg_record(&s->keys, key, s->keys.bits == 32 ? j : cg_trunc(s->c, j, s->c->i32));
}

// The records [from, from + m) of `sorted` are the result.
static void give_records(const Sort *s, V sorted, V from) {
  Cg *c = s->c;
  for (Loop l = cg_count(c, s->m); cg_next(&l);)
    give(s, l.i, cg_record_place(&s->keys, cg_load_record(&s->keys, sorted, cg_add(c, from, l.i))));
}

// ---- PICK
// The records of the row; returns how many vectors.
static uint32_t load_records(const Sort *s, V keys, V *record) {
  Cg *c = s->c;
  uint32_t n = (uint32_t)cg_ceil_div(s->bound, RECORDS);
  for (uint32_t k = 0; k < n; k++) {
    V own = cg_get(c, LLVMVectorType(c->i32, RECORDS), keys, cg_i64(c, (int64_t)k * RECORDS));
    V first = cg_splat_n(c, cg_i64(c, (int64_t)k * RECORDS), RECORDS);
    V high = cg_zext(c, own, LLVMVectorType(c->i64, RECORDS));
    high = cg_shl(c, high, cg_splat_n(c, cg_i64(c, 32), RECORDS));
    record[k] = cg_or(c, high, cg_iadd(c, cg_lane_numbers_of(c->i64, RECORDS), first));
  }
  return n;
}

static V first_of(Cg *c, const V *record, uint32_t n) {
  V part[SHORT / RECORDS];
  for (uint32_t k = 0; k < n; k++) part[k] = record[k];
  for (uint32_t half; n > 1; n = half) {
    half = (n + 1) / 2;
    for (uint32_t k = 0; k + half < n; k++) {
      V less = cg_below(c, part[k + half], part[k]);
      part[k] = cg_select(c, less, part[k + half], part[k]);
    }
  }
  LLVMTypeRef over[] = {LLVMTypeOf(part[0])};
  return cg_call_intrinsic(c, "llvm.vector.reduce.umin", over, 1, part, 1);
}

static void by_picking(const Sort *s, V buffer) {
  Cg *c = s->c;
  V record[SHORT / RECORDS], none = LLVMConstAllOnes(LLVMVectorType(c->i64, RECORDS));
  fill_keys(s, buffer, cg_round_up(s->bound, RECORDS), cg_i32(c, 0), cg_i32(c, -1));
  uint32_t n = load_records(s, buffer, record);
  for (Loop l = cg_carry(c, cg_i64(c, 0), s->m, cg_i64(c, 1), record, n); cg_next(&l);) {
    V first = first_of(c, record, n), all = cg_splat_n(c, first, RECORDS);
    give(s, l.i, cg_record_place(&s->keys, first));
    for (uint32_t k = 0; k < n; k++) record[k] = cg_select(c, cg_eq(c, record[k], all), none, record[k]);
  }
}

// ---- RADIX
static void by_radix(const Sort *s) {
  Cg *c = s->c;
  for (Loop l = cg_count(c, s->from.n); cg_next(&l);)
    cg_store_record(&s->keys, record_of(s, cg_key(&s->keys, x_at(s, l.i)), l.i), s->a, l.i);
  give_records(s, cg_radix_sort(&s->keys, s->a, s->b, s->counts, s->from.n), cg_i64(c, 0));
}

// ---- SELECT
static V high_digit(const Sort *s, V key) {
  Cg *c = s->c;
  V shift = LLVMConstInt(s->keys.key, s->keys.bits - digit_bits(s->bound), false);
  V digit = cg_lshr(c, key, shift);
  return s->keys.bits == 32 ? cg_zext(c, digit, c->i64) : digit;
}

static void count_digits(const Sort *s) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0);
  for (Loop l = cg_each_by(c, zero, cg_i64(c, INT64_C(1) << digit_bits(s->bound)), cg_vl(c)); cg_next(&l);)
    cg_put(c, LLVMConstNull(c->vi32), s->counts, l.i);
  for (Loop l = cg_count(c, s->from.n); cg_next(&l);) {
    V at = cg_at(c, c->i32, s->counts, high_digit(s, cg_key(&s->keys, x_at(s, l.i))));
    cg_store(c, cg_iadd(c, cg_load(c, c->i32, at), cg_i32(c, 1)), at);
  }
}

// The digit of the element that is number `rank` in order, and how many elements have a lower one.
static void find_digit(const Sort *s, V rank, V *digit, V *below) {
  Cg *c = s->c;
  enum { SUM, DIGIT, BELOW };
  V zero = cg_i64(c, 0), x[] = {zero, zero, zero};
  for (Loop l = cg_carry(c, zero, cg_i64(c, INT64_C(1) << digit_bits(s->bound)), cg_i64(c, 1), x, 3); cg_next(&l);) {
    V own = cg_zext(c, cg_get(c, c->i32, s->counts, l.i), c->i64);
    x[SUM] = cg_add(c, x[SUM], own);
    V before = cg_le(c, x[SUM], rank);
    x[DIGIT] = cg_add(c, x[DIGIT], cg_zext(c, before, c->i64));
    x[BELOW] = cg_select(c, before, x[SUM], x[BELOW]);
  }
  *digit = x[DIGIT], *below = x[BELOW];
}

// Records of the elements whose digits lie in [lo, hi]; returns how many.
static V collect(const Sort *s, V lo, V hi) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), width = cg_sub(c, hi, lo);
  V n = zero;
  for (Loop l = cg_carry(c, zero, s->from.n, cg_i64(c, 1), &n, 1); cg_next(&l);) {
    V key = cg_key(&s->keys, x_at(s, l.i));
    V in = cg_icmp(c, LLVMIntULE, cg_isub(c, high_digit(s, key), lo), width);
    cg_store_record(&s->keys, record_of(s, key, l.i), s->a, n);
    n = cg_add(c, n, cg_zext(c, in, c->i64));
  }
  return n;
}

static void by_selection(const Sort *s) {
  Cg *c = s->c;
  bool has_one = s->op != OP_topk;
  V digit, below, zero = cg_i64(c, 0), last = cg_sub(c, cg_add(c, s->skip, s->m), cg_i64(c, 1));
  count_digits(s);
  find_digit(s, last, &digit, &below);
  V n = collect(s, has_one ? digit : zero, digit);
  V sorted = cg_radix_sort(&s->keys, s->a, s->b, s->counts, n);
  give_records(s, sorted, has_one ? cg_sub(c, s->skip, below) : zero);
}

// ---- SAMPLE
// Every apart-th element: about twice the root of their number, so that sorting them takes as long as sorting what the guess
// takes too many.
static int64_t apart_of(const Sort *s) { return (int64_t)sqrt((double)s->bound) / 2 | 1; }

// The key of the sample behind which the m-th of the row hardly lies: of the sample, m / apart are expected before that one, and
// four deviations more seldom are.
static V guess_limit(const Sort *s) {
  Cg *c = s->c;
  int64_t apart = apart_of(s), most = s->bound / MANY_SHARE,
          slack = 4 + (int64_t)(4 * sqrt((double)most / (double)apart));
  V n = cg_ceil_div_value(c, s->from.n, (uint32_t)apart), zero = cg_i64(c, 0);
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V at = cg_mul(c, l.i, cg_i64(c, apart));
    cg_store_record(&s->keys, record_of(s, cg_key(&s->keys, x_at(s, at)), at), s->a, l.i);
  }
  V sorted = cg_radix_sort(&s->keys, s->a, s->b, s->counts, n);
  V rank = cg_add(c, cg_div(c, s->m, cg_i64(c, apart)), cg_i64(c, slack));
  V last = cg_max(c, cg_min(c, rank, cg_sub(c, n, cg_i64(c, 1))), zero);
  return cg_record_key(&s->keys, cg_load_record(&s->keys, sorted, last));
}

// The records of the elements that `fits` has bits for, of those from `first` on; n: how many there are before; returns how many
// there are then.
static V append_fitting(const Sort *s, V fits, V first, V n) {
  Cg *c = s->c;
  LLVMTypeRef over[] = {c->i64};
  V left = cg_zext(c, fits, c->i64), more = cg_call_intrinsic(c, "llvm.ctpop", over, 1, &left, 1);
  for (Loop l = cg_carry(c, cg_i64(c, 0), more, cg_i64(c, 1), &left, 1); cg_next(&l);) {
    V lane = cg_call_intrinsic(c, "llvm.cttz", over, 1, (V[]){left, LLVMConstInt(c->i1, 1, false)}, 2);
    V j = cg_add(c, first, lane);
    cg_store_record(&s->keys, record_of(s, cg_key(&s->keys, x_at(s, j)), j), s->a, cg_add(c, n, l.i));
    left = cg_and(c, left, cg_sub(c, left, cg_i64(c, 1)));
  }
  return cg_add(c, n, more);
}

// Records of the elements whose keys are not behind the limit; returns how many.
static V collect_upto(const Sort *s, V limit) {
  Cg *c = s->c;
  uint32_t vl = c->t->vl;
  LLVMTypeRef vec = cg_vector_type(c, s->keys.type, vl);
  V zero = cg_i64(c, 0), unit = cg_vl(c), whole = cg_mul(c, cg_div(c, s->from.n, unit), unit), n = zero;
  for (Loop l = cg_carry(c, zero, whole, unit, &n, 1); cg_next(&l);) {
    V key = cg_key(&s->keys, cg_get(c, vec, s->x, cg_add(c, s->first, l.i)));
    V fits = cg_bitcast(c, cg_icmp(c, LLVMIntULE, key, cg_splat(c, limit)), LLVMIntTypeInContext(c->ctx, vl));
    V any = cg_ne(c, fits, LLVMConstNull(LLVMTypeOf(fits)));
    for (If some = cg_when_carry(c, any, &n, 1); cg_then(&some);) n = append_fitting(s, fits, l.i, n);
  }
  for (Loop l = cg_carry(c, whole, s->from.n, cg_i64(c, 1), &n, 1); cg_next(&l);) {
    V key = cg_key(&s->keys, x_at(s, l.i));
    cg_store_record(&s->keys, record_of(s, key, l.i), s->a, n);
    n = cg_add(c, n, cg_zext(c, cg_icmp(c, LLVMIntULE, key, limit), c->i64));
  }
  return n;
}

static void by_sample(const Sort *s) {
  Cg *c = s->c;
  V n = collect_upto(s, guess_limit(s)), is_enough = cg_ge(c, n, s->m);
  for (If enough = cg_branch(c, is_enough, true); cg_then(&enough);)
    if (enough.is_true) give_records(s, cg_radix_sort(&s->keys, s->a, s->b, s->counts, n), cg_i64(c, 0));
    else by_selection(s);
}

// ---- THRESHOLD
static V last_best(const Sort *s, V best) {
  return cg_load_record(&s->keys, best, cg_sub(s->c, s->m, cg_i64(s->c, 1)));
}

// Inserts the record among the best; the last one leaves.
static void insert(const Sort *s, V best, V record) {
  Cg *c = s->c;
  for (Loop l = cg_carry(c, cg_i64(c, 0), s->m, cg_i64(c, 1), &record, 1); cg_next(&l);) {
    V old = cg_load_record(&s->keys, best, l.i), less = cg_below(c, record, old);
    cg_store_record(&s->keys, cg_select(c, less, record, old), best, l.i);
    record = cg_select(c, less, old, record);
  }
}

static void offer(const Sort *s, V best, V key, V j) {
  Cg *c = s->c;
  V record = record_of(s, key, j);
  for (If better = cg_when(c, cg_below(c, record, last_best(s, best))); cg_then(&better);) insert(s, best, record);
}

static void offer_each(const Sort *s, V best, V from, V to) {
  Cg *c = s->c;
  for (Loop l = cg_each(c, from, to); cg_next(&l);) offer(s, best, cg_key(&s->keys, x_at(s, l.i)), l.i);
}

// The whole vectors of a row without gaps: returns how many elements that were.
static V offer_vectors(const Sort *s, V best) {
  Cg *c = s->c;
  uint32_t vl = c->t->vl;
  LLVMTypeRef vec = cg_vector_type(c, s->keys.type, vl);
  V whole;
  for (Loop l = cg_each_whole(c, cg_i64(c, 0), s->from.n, vl, &whole); cg_next(&l);) {
    V x = cg_get(c, vec, s->x, cg_add(c, s->first, l.i)), key = cg_key(&s->keys, x);
    V limit = cg_splat(c, cg_record_key(&s->keys, last_best(s, best)));
    V fits = cg_bitcast(c, cg_icmp(c, LLVMIntULE, key, limit), LLVMIntTypeInContext(c->ctx, vl));
    for (If any = cg_when(c, cg_ne(c, fits, LLVMConstNull(LLVMTypeOf(fits)))); cg_then(&any);)
      offer_each(s, best, l.i, cg_add(c, l.i, cg_i64(c, vl)));
  }
  return whole;
}

static void by_threshold(const Sort *s, V best) {
  Cg *c = s->c;
  int64_t inner = 0;
  bool has_gaps = !cg_const_value(s->from.inner, &inner) || inner != 1;
  for (Loop l = cg_count(c, s->m); cg_next(&l);) cg_store_record(&s->keys, LLVMConstAllOnes(s->keys.record), best, l.i);
  offer_each(s, best, has_gaps ? cg_i64(c, 0) : offer_vectors(s, best), s->from.n);
  give_records(s, best, cg_i64(c, 0));
}

// ---- rows
static void sort_row(Sort *s, Way way, V buffer, V ranks) {
  Cg *c = s->c;
  if (s->op == OP_median) s->skip = median_place(s);
  else s->skip = cg_i64(c, s->op == OP_kth_value ? ir_attr_int(c->f, (Val){c->k->first}, KEY_size, 1) - 1 : 0);
  switch (way) {
  case RANK: by_rank(s, buffer, ranks); break;
  case PICK: by_picking(s, buffer); break;
  case THRESHOLD: by_threshold(s, buffer); break;
  case SAMPLE: by_sample(s); break;
  case SELECT: by_selection(s); break;
  case RADIX: by_radix(s); break;
  }
}

// A median of no elements is NaN, or 0, and stands at -1.
static void give_none(const Sort *s) {
  Cg *c = s->c;
  V none = ir_dtype_kind[s->keys.type] == DTYPE_FLOAT ? LLVMConstReal(elem(s), NAN) : LLVMConstNull(elem(s));
  if (s->values) cg_put(c, none, s->values, s->to);
  if (s->index) cg_put(c, cg_i64(c, -1), s->index, s->to);
}

static void median_of_row(Sort *s, Way way, V buffer, V ranks) {
  Cg *c = s->c;
  for (If some = cg_either(c, cg_gt(c, s->from.n, cg_i64(c, 0))); cg_then(&some);)
    if (some.is_true) sort_row(s, way, buffer, ranks);
    else give_none(s);
}

bool cg_emit_sort(Cg *c, Val v) {
  Val x = ir_arg(c->f, v, 0);
  const Ins *ins = ir_ins(c->f, v);
  uint32_t axis = (uint32_t)ir_attr_int(c->f, v, KEY_axis, 0);
  Way way = way_of(c->f, v);
  Sort s = {.c = c, .op = (Op)ins->op, .bound = n_bound(c->f, v)};
  s.keys = cg_keys_of(c, (DType)ins->dtype, ir_attr(c->f, v, KEY_descending) != NULL);
  s.from = cg_axis_of(c, ir_ins(c->f, x)->shape, axis);
  s.m = cg_dim(c, ir_dim_at(c->f->prog, ins->shape, axis));
  s.x = cg_ptr(c, x), s.values = cg_ptr_or_null(c, v), s.index = cg_ptr_or_null(c, ir_result(v, 1));
  V buffer = NULL, ranks = NULL, n_workers = c->n_workers;
  LLVMTypeRef block = s.keys.bits == 32 ? c->i32 : c->i64;
  if (way == RANK || way == PICK) buffer = cg_block(c, block, cg_round_up(s.bound, cg_larger(c->t->vl, RECORDS)));
  if (way == RANK) ranks = cg_block(c, block, cg_round_up(s.bound, c->t->vl));
  if (way == THRESHOLD) buffer = cg_block(c, c->i64, axis_bound(c->f, v) * s.keys.bits / 32);
  if (way >= SAMPLE) {
    find_blocks(&s, v);
    c->n_workers = cg_min(c, c->n_workers, cg_i64(c, n_slots(c->f, v)));
  }
  Loop row = cg_each_shared(c, cg_mul(c, s.from.outer, s.from.inner), 1);
  c->n_workers = n_workers;
  while (cg_next(&row)) {
    V o = cg_div(c, row.i, s.from.inner), i = cg_sub(c, row.i, cg_mul(c, o, s.from.inner));
    s.first = cg_index(c, o, cg_mul(c, s.from.n, s.from.inner), i);
    s.to = cg_index(c, o, cg_mul(c, s.m, s.from.inner), i);
    if (s.op == OP_median) median_of_row(&s, way, buffer, ranks);
    else sort_row(&s, way, buffer, ranks);
  }
  return true;
}
