// Rows in order: sort, topk, kth_value, median, along any axis. Each row belongs to one worker.
//
// The way depends on bounds alone:
//   RANK       short rows: how many keys are before each one, counted a vector of keys at a time
//   PICK       few of a short row: the first of all records, which stand in registers, and again without it
//   THRESHOLD  few of many: the best so far stand sorted, and a vector of keys is passed over unless one beats the last
//   SELECT     the counts of the highest digit say in which of its values the last wanted element lies; what has a
//              higher one is passed over, the rest is sorted
//   RADIX      all of the row is sorted by digits (radix.c)
#include "codegen/order/order.h"

#include <math.h>

typedef LLVMValueRef V;

enum {
  SHORT = 128,     // RANK and PICK up to here
  PICK_SHARE = 4,  // PICK: at most one of PICK_SHARE
  RECORDS = 8,     // of 64 bits in a vector of PICK
  FEW = 64,
  FEW_SHARE = 64,  // THRESHOLD: at most FEW elements, and one of FEW_SHARE
  LONG = 16384,    // digits of 12 bits in SELECT from here, else of 8
  MOST_SLOTS = 16  // workers that have blocks for their rows
};
static const int64_t slot_memory = 64 << 20;  // bytes of all blocks together, unless one takes more

typedef enum { RANK, PICK, THRESHOLD, SELECT, RADIX } Way;

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

static Way way_of(const Fn *f, Val v) {
  int64_t n = n_bound(f, v), m = axis_bound(f, v);
  bool is_short_key = ir_ins(f, ir_arg(f, v, 0))->dtype == DT_F32;
  if (n <= SHORT) return ir_ins(f, v)->op == OP_topk && is_short_key && m * PICK_SHARE <= n ? PICK : RANK;
  if (ir_ins(f, v)->op == OP_topk && m <= FEW && m * FEW_SHARE <= n) return THRESHOLD;
  return ir_ins(f, v)->op == OP_sort ? RADIX : SELECT;
}

static uint32_t digit_bits(int64_t n) { return n >= LONG ? 12 : 8; }

// ---- blocks of a worker: records, room for as many, counts
static int64_t key_bits(const Fn *f, Val v) { return ir_ins(f, ir_arg(f, v, 0))->dtype == DT_F32 ? 32 : 64; }

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
  if (!sorts || way_of(f, v) < SELECT) return 0;
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
  return cg_load(c, elem(s), cg_at(c, elem(s), s->x, cg_add(c, s->first, cg_mul(c, j, s->from.inner))));
}

// Element `place` of the row is element p of the result.
static void give(const Sort *s, V p, V place) {
  Cg *c = s->c;
  V to = cg_add(c, s->to, cg_mul(c, p, s->from.inner));
  if (s->values) cg_store(c, x_at(s, place), cg_at(c, elem(s), s->values, to));
  if (s->index) cg_store(c, place, cg_at(c, c->i64, s->index, to));
}

static V count_nan(const Sort *s) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0);
  Loop l;
  cg_loop_begin(c, &l, zero, s->from.n, cg_i64(c, 1), &zero, 1);
  V x = x_at(s, l.i), is_nan = LLVMBuildFCmp(c->b, LLVMRealUNO, x, x, "");
  V next = cg_add(c, l.carry[0], LLVMBuildZExt(c->b, is_nan, c->i64, ""));
  cg_loop_end(c, &l, &next);
  return l.out[0];
}

// The lower median, or the first NaN where there is one.
static V median_place(const Sort *s) {
  Cg *c = s->c;
  V middle = cg_div(c, cg_sub(c, s->from.n, cg_i64(c, 1)), cg_i64(c, 2));
  if (s->keys.type != DT_F32) return middle;
  V n_nan = count_nan(s), any = LLVMBuildICmp(c->b, LLVMIntSGT, n_nan, cg_i64(c, 0), "");
  return LLVMBuildSelect(c->b, any, cg_sub(c, s->from.n, n_nan), middle, "");
}

// ---- keys of a short row
// By whole vectors where the row has no gaps; returns how many keys that were.
static V fill_vectors(const Sort *s, V buffer, V flip) {
  Cg *c = s->c;
  int64_t inner = 0;
  if (!cg_const_value(s->from.inner, &inner) || inner != 1) return cg_i64(c, 0);
  V unit = cg_i64(c, c->t->vl), whole = cg_mul(c, cg_div(c, s->from.n, unit), unit);
  LLVMTypeRef vec = cg_vector_type(c, s->keys.type, c->t->vl);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, unit, NULL, 0);
  V key = cg_key(&s->keys, cg_load(c, vec, cg_at(c, elem(s), s->x, cg_add(c, s->first, l.i))));
  cg_store(c, LLVMBuildXor(c->b, key, cg_splat(c, flip), ""), cg_at(c, s->keys.key, buffer, l.i));
  cg_loop_end(c, &l, NULL);
  return whole;
}

// Keys, their bits of `flip` flipped; behind the row `behind`.
static void fill_keys(const Sort *s, V buffer, int64_t padded, V flip, V behind) {
  Cg *c = s->c;
  V whole = fill_vectors(s, buffer, flip);
  Loop l;
  cg_loop_begin(c, &l, whole, s->from.n, cg_i64(c, 1), NULL, 0);
  cg_store(c, LLVMBuildXor(c->b, cg_key(&s->keys, x_at(s, l.i)), flip, ""), cg_at(c, s->keys.key, buffer, l.i));
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, s->from.n, cg_i64(c, padded), cg_i64(c, 1), NULL, 0);
  cg_store(c, behind, cg_at(c, s->keys.key, buffer, l.i));
  cg_loop_end(c, &l, NULL);
}

// ---- RANK
// With the highest bit flipped, so that keys compare as signed numbers; behind the row stands the largest.
static void fill_signed_keys(const Sort *s, V buffer, int64_t padded) {
  V sign = LLVMConstInt(s->keys.key, 1ull << (s->keys.bits - 1), false);
  fill_keys(s, buffer, padded, sign, LLVMConstInt(s->keys.key, (1ull << (s->keys.bits - 1)) - 1, false));
}

static V counted(Cg *c, V sum, V is_before) {
  return LLVMBuildSub(c->b, sum, LLVMBuildSExt(c->b, is_before, LLVMTypeOf(sum), ""), "");
}

// Adds to `sum`, for each key of the block, how many of the vl keys from `from` on are before it.
static V count_before(const Sort *s, V buffer, V from, V own, V sum, LLVMIntPredicate before) {
  Cg *c = s->c;
  for (uint32_t k = 0; k < c->t->vl; k++) {
    V other = cg_load(c, s->keys.key, cg_at(c, s->keys.key, buffer, cg_add(c, from, cg_i64(c, k))));
    sum = counted(c, sum, LLVMBuildICmp(c->b, before, cg_splat(c, other), own, ""));
  }
  return sum;
}

// Of the block itself: an equal key counts where it stands before.
static V count_inside(const Sort *s, V buffer, V block, V own, V sum) {
  Cg *c = s->c;
  for (uint32_t k = 0; k < c->t->vl; k++) {
    V other = cg_splat(c, cg_load(c, s->keys.key, cg_at(c, s->keys.key, buffer, cg_add(c, block, cg_i64(c, k))))),
      lane[64];
    for (uint32_t i = 0; i < c->t->vl; i++) lane[i] = LLVMConstInt(c->i1, i > k, false);
    V is_behind = LLVMConstVector(lane, c->t->vl);
    V less = LLVMBuildICmp(c->b, LLVMIntSLT, other, own, ""), equal = LLVMBuildICmp(c->b, LLVMIntEQ, other, own, "");
    sum = counted(c, sum, LLVMBuildOr(c->b, less, LLVMBuildAnd(c->b, equal, is_behind, ""), ""));
  }
  return sum;
}

static void find_ranks(const Sort *s, V buffer, V ranks, int64_t padded) {
  Cg *c = s->c;
  LLVMTypeRef vec = LLVMVectorType(s->keys.key, c->t->vl);
  V unit = cg_i64(c, c->t->vl), zero = cg_i64(c, 0), sum = LLVMConstNull(vec);
  Loop block, l;
  cg_loop_begin(c, &block, zero, s->from.n, unit, NULL, 0);
  V own = cg_load(c, vec, cg_at(c, s->keys.key, buffer, block.i));
  cg_loop_begin(c, &l, zero, block.i, unit, &sum, 1);
  V next = count_before(s, buffer, l.i, own, l.carry[0], LLVMIntSLE);
  cg_loop_end(c, &l, &next);
  sum = count_inside(s, buffer, block.i, own, l.out[0]);
  V end = cg_min(c, cg_mul(c, cg_ceil_div_value(c, s->from.n, c->t->vl), unit), cg_i64(c, padded));
  cg_loop_begin(c, &l, cg_add(c, block.i, unit), end, unit, &sum, 1);
  next = count_before(s, buffer, l.i, own, l.carry[0], LLVMIntSLT);
  cg_loop_end(c, &l, &next);
  cg_store(c, l.out[0], cg_at(c, s->keys.key, ranks, block.i));
  cg_loop_end(c, &block, NULL);
}

static void by_rank(const Sort *s, V buffer, V ranks) {
  Cg *c = s->c;
  int64_t padded = cg_round_up(s->bound, c->t->vl);
  Loop l;
  If wanted;
  fill_signed_keys(s, buffer, padded);
  find_ranks(s, buffer, ranks, padded);
  cg_loop_begin(c, &l, cg_i64(c, 0), s->from.n, cg_i64(c, 1), NULL, 0);
  V rank = cg_load(c, s->keys.key, cg_at(c, s->keys.key, ranks, l.i));
  if (s->keys.bits == 32) rank = LLVMBuildZExt(c->b, rank, c->i64, "");
  V p = cg_sub(c, rank, s->skip);
  if (s->op != OP_sort) cg_if(c, &wanted, LLVMBuildICmp(c->b, LLVMIntULT, p, s->m, ""));
  give(s, p, l.i);
  if (s->op != OP_sort) cg_endif(c, &wanted);
  cg_loop_end(c, &l, NULL);
}

// ---- records
static V record_at(const Sort *s, V base, V i) {
  return LLVMBuildInBoundsGEP2(s->c->b, s->keys.record, base, &i, 1, "");
}
static V load_record(const Sort *s, V base, V i) {
  V x = LLVMBuildLoad2(s->c->b, s->keys.record, record_at(s, base, i), "");
  LLVMSetAlignment(x, 8);
  return x;
}
static void store_record(const Sort *s, V x, V base, V i) {
  LLVMSetAlignment(LLVMBuildStore(s->c->b, x, record_at(s, base, i)), 8);
}
static V record_of(const Sort *s, V key, V j) {
  return cg_record(&s->keys, key, s->keys.bits == 32 ? j : LLVMBuildTrunc(s->c->b, j, s->c->i32, ""));
}

// The records [from, from + m) of `sorted` are the result.
static void give_records(const Sort *s, V sorted, V from) {
  Cg *c = s->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->m, cg_i64(c, 1), NULL, 0);
  give(s, l.i, cg_record_place(&s->keys, load_record(s, sorted, cg_add(c, from, l.i))));
  cg_loop_end(c, &l, NULL);
}

// ---- PICK
// The records of the row; returns how many vectors.
static uint32_t load_records(const Sort *s, V keys, V *record) {
  Cg *c = s->c;
  uint32_t n = (uint32_t)cg_ceil_div(s->bound, RECORDS);
  for (uint32_t k = 0; k < n; k++) {
    V own = cg_load(c, LLVMVectorType(c->i32, RECORDS), cg_at(c, c->i32, keys, cg_i64(c, (int64_t)k * RECORDS)));
    V place[RECORDS];
    for (uint32_t i = 0; i < RECORDS; i++) place[i] = cg_i64(c, (int64_t)k * RECORDS + i);
    V high = LLVMBuildZExt(c->b, own, LLVMVectorType(c->i64, RECORDS), "");
    high = LLVMBuildShl(c->b, high, cg_splat_n(c, cg_i64(c, 32), RECORDS), "");
    record[k] = LLVMBuildOr(c->b, high, LLVMConstVector(place, RECORDS), "");
  }
  return n;
}

static V first_of(Cg *c, const V *record, uint32_t n) {
  V part[SHORT / RECORDS];
  for (uint32_t k = 0; k < n; k++) part[k] = record[k];
  for (uint32_t half; n > 1; n = half) {
    half = (n + 1) / 2;
    for (uint32_t k = 0; k + half < n; k++) {
      V less = LLVMBuildICmp(c->b, LLVMIntULT, part[k + half], part[k], "");
      part[k] = LLVMBuildSelect(c->b, less, part[k + half], part[k], "");
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
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->m, cg_i64(c, 1), record, n);
  V first = first_of(c, l.carry, n), all = cg_splat_n(c, first, RECORDS);
  give(s, l.i, cg_record_place(&s->keys, first));
  for (uint32_t k = 0; k < n; k++)
    record[k] = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntEQ, l.carry[k], all, ""), none, l.carry[k], "");
  cg_loop_end(c, &l, record);
}

// ---- RADIX
static void by_radix(const Sort *s) {
  Cg *c = s->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->from.n, cg_i64(c, 1), NULL, 0);
  store_record(s, record_of(s, cg_key(&s->keys, x_at(s, l.i)), l.i), s->a, l.i);
  cg_loop_end(c, &l, NULL);
  give_records(s, cg_radix_sort(&s->keys, s->a, s->b, s->counts, s->from.n), cg_i64(c, 0));
}

// ---- SELECT
static V high_digit(const Sort *s, V key) {
  Cg *c = s->c;
  V shift = LLVMConstInt(s->keys.key, s->keys.bits - digit_bits(s->bound), false);
  V digit = LLVMBuildLShr(c->b, key, shift, "");
  return s->keys.bits == 32 ? LLVMBuildZExt(c->b, digit, c->i64, "") : digit;
}

static void count_digits(const Sort *s) {
  Cg *c = s->c;
  Loop l;
  V zero = cg_i64(c, 0);
  cg_loop_begin(c, &l, zero, cg_i64(c, INT64_C(1) << digit_bits(s->bound)), cg_i64(c, c->t->vl), NULL, 0);
  cg_store(c, LLVMConstNull(c->vi32), cg_at(c, c->i32, s->counts, l.i));
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, zero, s->from.n, cg_i64(c, 1), NULL, 0);
  V at = cg_at(c, c->i32, s->counts, high_digit(s, cg_key(&s->keys, x_at(s, l.i))));
  cg_store(c, LLVMBuildAdd(c->b, cg_load(c, c->i32, at), cg_i32(c, 1), ""), at);
  cg_loop_end(c, &l, NULL);
}

// The digit of the element that is number `rank` in order, and how many elements have a lower one.
static void find_digit(const Sort *s, V rank, V *digit, V *below) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), start[] = {zero, zero, zero};  // sum, digit, below
  Loop l;
  cg_loop_begin(c, &l, zero, cg_i64(c, INT64_C(1) << digit_bits(s->bound)), cg_i64(c, 1), start, 3);
  V own = LLVMBuildZExt(c->b, cg_load(c, c->i32, cg_at(c, c->i32, s->counts, l.i)), c->i64, "");
  V sum = cg_add(c, l.carry[0], own), before = LLVMBuildICmp(c->b, LLVMIntSLE, sum, rank, "");
  V next[] = {sum, cg_add(c, l.carry[1], LLVMBuildZExt(c->b, before, c->i64, "")),
              LLVMBuildSelect(c->b, before, sum, l.carry[2], "")};
  cg_loop_end(c, &l, next);
  *digit = l.out[1], *below = l.out[2];
}

// Records of the elements whose digits lie in [lo, hi]; returns how many.
static V collect(const Sort *s, V lo, V hi) {
  Cg *c = s->c;
  V zero = cg_i64(c, 0), width = cg_sub(c, hi, lo);
  Loop l;
  cg_loop_begin(c, &l, zero, s->from.n, cg_i64(c, 1), &zero, 1);
  V key = cg_key(&s->keys, x_at(s, l.i));
  V in = LLVMBuildICmp(c->b, LLVMIntULE, LLVMBuildSub(c->b, high_digit(s, key), lo, ""), width, "");
  store_record(s, record_of(s, key, l.i), s->a, l.carry[0]);
  V next = cg_add(c, l.carry[0], LLVMBuildZExt(c->b, in, c->i64, ""));
  cg_loop_end(c, &l, &next);
  return l.out[0];
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

// ---- THRESHOLD
static V last_best(const Sort *s, V best) { return load_record(s, best, cg_sub(s->c, s->m, cg_i64(s->c, 1))); }

// The record takes its place among the best, and the last one leaves.
static void insert(const Sort *s, V best, V record) {
  Cg *c = s->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->m, cg_i64(c, 1), &record, 1);
  V old = load_record(s, best, l.i), less = LLVMBuildICmp(c->b, LLVMIntULT, l.carry[0], old, "");
  store_record(s, LLVMBuildSelect(c->b, less, l.carry[0], old, ""), best, l.i);
  V next = LLVMBuildSelect(c->b, less, old, l.carry[0], "");
  cg_loop_end(c, &l, &next);
}

static void offer(const Sort *s, V best, V key, V j) {
  Cg *c = s->c;
  V record = record_of(s, key, j);
  If better;
  cg_if(c, &better, LLVMBuildICmp(c->b, LLVMIntULT, record, last_best(s, best), ""));
  insert(s, best, record);
  cg_endif(c, &better);
}

static void offer_each(const Sort *s, V best, V from, V to) {
  Cg *c = s->c;
  Loop l;
  cg_loop_begin(c, &l, from, to, cg_i64(c, 1), NULL, 0);
  offer(s, best, cg_key(&s->keys, x_at(s, l.i)), l.i);
  cg_loop_end(c, &l, NULL);
}

// The whole vectors of a row without gaps: returns how many elements that were.
static V offer_vectors(const Sort *s, V best) {
  Cg *c = s->c;
  uint32_t vl = c->t->vl;
  LLVMTypeRef vec = cg_vector_type(c, s->keys.type, vl);
  V unit = cg_i64(c, vl), whole = cg_mul(c, cg_div(c, s->from.n, unit), unit);
  Loop l;
  If any;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, unit, NULL, 0);
  V x = cg_load(c, vec, cg_at(c, elem(s), s->x, cg_add(c, s->first, l.i))), key = cg_key(&s->keys, x);
  V limit = cg_splat(c, cg_record_key(&s->keys, last_best(s, best)));
  V fits = LLVMBuildICmp(c->b, LLVMIntULE, key, limit, "");
  V some = LLVMBuildBitCast(c->b, fits, LLVMIntTypeInContext(c->ctx, vl), "");
  cg_if(c, &any, LLVMBuildICmp(c->b, LLVMIntNE, some, LLVMConstNull(LLVMTypeOf(some)), ""));
  offer_each(s, best, l.i, cg_add(c, l.i, unit));
  cg_endif(c, &any);
  cg_loop_end(c, &l, NULL);
  return whole;
}

static void by_threshold(const Sort *s, V best) {
  Cg *c = s->c;
  int64_t inner = 0;
  bool has_gaps = !cg_const_value(s->from.inner, &inner) || inner != 1;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), s->m, cg_i64(c, 1), NULL, 0);
  store_record(s, LLVMConstAllOnes(s->keys.record), best, l.i);
  cg_loop_end(c, &l, NULL);
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
  case SELECT: by_selection(s); break;
  case RADIX: by_radix(s); break;
  }
}

// A median of no elements is NaN, or 0, and stands at -1.
static void give_none(const Sort *s) {
  Cg *c = s->c;
  V none = s->keys.type == DT_F32 ? cg_f32(c, NAN) : LLVMConstNull(elem(s));
  if (s->values) cg_store(c, none, cg_at(c, elem(s), s->values, s->to));
  if (s->index) cg_store(c, cg_i64(c, -1), cg_at(c, c->i64, s->index, s->to));
}

static void median_of_row(Sort *s, Way way, V buffer, V ranks) {
  Cg *c = s->c;
  If some;
  cg_if(c, &some, LLVMBuildICmp(c->b, LLVMIntSGT, s->from.n, cg_i64(c, 0), ""));
  sort_row(s, way, buffer, ranks);
  cg_else(c, &some);
  give_none(s);
  cg_endif(c, &some);
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
  V buffer = NULL, ranks = NULL, n_workers = c->n_workers, lo, hi;
  LLVMTypeRef block = s.keys.bits == 32 ? c->i32 : c->i64;
  if (way == RANK || way == PICK) buffer = cg_block(c, block, cg_round_up(s.bound, cg_larger(c->t->vl, RECORDS)));
  if (way == RANK) ranks = cg_block(c, block, cg_round_up(s.bound, c->t->vl));
  if (way == THRESHOLD) buffer = cg_block(c, c->i64, axis_bound(c->f, v) * s.keys.bits / 32);
  if (way >= SELECT) {
    find_blocks(&s, v);
    c->n_workers = cg_min(c, c->n_workers, cg_i64(c, n_slots(c->f, v)));
  }
  cg_share(c, cg_mul(c, s.from.outer, s.from.inner), 1, &lo, &hi);
  c->n_workers = n_workers;
  Loop row;
  cg_loop_begin(c, &row, lo, hi, cg_i64(c, 1), NULL, 0);
  V o = cg_div(c, row.i, s.from.inner), i = cg_sub(c, row.i, cg_mul(c, o, s.from.inner));
  s.first = cg_add(c, cg_mul(c, o, cg_mul(c, s.from.n, s.from.inner)), i);
  s.to = cg_add(c, cg_mul(c, o, cg_mul(c, s.m, s.from.inner)), i);
  if (s.op == OP_median) median_of_row(&s, way, buffer, ranks);
  else sort_row(&s, way, buffer, ranks);
  cg_loop_end(c, &row, NULL);
  return true;
}
