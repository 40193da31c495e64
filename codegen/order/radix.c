// Radix sort of records by their keys, 8 bits at a time from the lowest. Each pass keeps the order of equal
// digits, so the sort is stable.
//
//   counts   of each digit's values, all made in one walk over the records
//   a pass   counts -> where each value's records begin -> every record to its place in the other block
//
// A pass whose digit is the same in all records is left out: of small integers most are.
#include "codegen/order/order.h"

static V count_at(const CgKeys *k, V counts, V digit, V value) {
  Cg *c = k->c;
  return cg_at(c, c->i32, counts, cg_index(c, digit, cg_i64(c, CG_DIGITS), value));
}

static void increment(Cg *c, V at) { cg_store(c, cg_iadd(c, cg_load(c, c->i32, at), cg_i32(c, 1)), at); }

static void count_all(const CgKeys *k, V a, V counts, V n) {
  Cg *c = k->c;
  V zero = cg_i64(c, 0), vl = cg_vl(c);
  for (Loop l = cg_each_by(c, zero, cg_i64(c, cg_radix_counts(k->bits)), vl); cg_next(&l);)
    cg_put(c, LLVMConstNull(c->vi32), counts, l.i);
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V key = cg_record_key(k, cg_load_record(k, a, l.i));
    for (uint32_t d = 0; d < k->bits / 8; d++)
      increment(c, count_at(k, counts, cg_i64(c, d), cg_digit(k, key, cg_i64(c, 8 * d))));
  }
}

// Counts become places.
static void begin_places(const CgKeys *k, V counts, V d) {
  Cg *c = k->c;
  V sum = cg_i32(c, 0);
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, CG_DIGITS), cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    V at = count_at(k, counts, d, l.i), own = cg_load(c, c->i32, at);
    cg_store(c, sum, at);
    sum = cg_iadd(c, sum, own);
  }
}

static void move_all(const CgKeys *k, V from, V to, V counts, V d, V n) {
  Cg *c = k->c;
  V shift = cg_mul(c, d, cg_i64(c, 8));
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V record = cg_load_record(k, from, l.i), at = count_at(k, counts, d, cg_digit(k, cg_record_key(k, record), shift));
    V place = cg_load(c, c->i32, at);
    cg_store_record(k, record, to, cg_zext(c, place, c->i64));
    cg_store(c, cg_iadd(c, place, cg_i32(c, 1)), at);
  }
}

// Have all records the digit of the first?
static V is_uniform(const CgKeys *k, V from, V counts, V d, V n) {
  Cg *c = k->c;
  V key = cg_record_key(k, cg_load_record(k, from, cg_i64(c, 0)));
  V count = cg_load(c, c->i32, count_at(k, counts, d, cg_digit(k, key, cg_mul(c, d, cg_i64(c, 8)))));
  return cg_eq(c, cg_zext(c, count, c->i64), n);
}

static void make_sort(Cg *c, V fn, void *ctx) {
  CgKeys k = *(const CgKeys *)ctx;
  V a = LLVMGetParam(fn, 0), b = LLVMGetParam(fn, 1), counts = LLVMGetParam(fn, 2), n = LLVMGetParam(fn, 3);
  count_all(&k, a, counts, n);
  V block[] = {a, b}, passes = cg_select(c, cg_gt(c, n, cg_i64(c, 1)), cg_i64(c, k.bits / 8), cg_i64(c, 0));
  for (Loop l = cg_carry(c, cg_i64(c, 0), passes, cg_i64(c, 1), block, 2); cg_next(&l);) {
    V from = block[0], to = block[1], moves = cg_not(c, is_uniform(&k, from, counts, l.i, n));
    for (If s = cg_when(c, moves); cg_then(&s);) {
      begin_places(&k, counts, l.i);
      move_all(&k, from, to, counts, l.i, n);
    }
    block[0] = cg_select(c, moves, to, from), block[1] = cg_select(c, moves, from, to);
  }
  LLVMBuildRet(c->b, block[0]);
}

V cg_radix_sort(const CgKeys *k, V a, V b, V counts, V n) {
  Cg *c = k->c;
  LLVMTypeRef t = LLVMFunctionType(c->ptr, (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr, c->i64}, 4, false);
  CgKeys own = *k;
  V fn = cg_helper(c, k->bits == 32 ? "radix_sort32" : "radix_sort64", t, make_sort, &own);
  return LLVMBuildCall2(c->b, t, fn, (V[]){a, b, counts, n}, 4, "");
}
