// Sorting records by their keys, a digit of 8 bits after the other from the lowest on. Each pass keeps the order of equal
// digits, so that the whole is stable.
//
//   counts   of each digit's values, all made in one walk over the records
//   a pass   counts -> where each value's records begin -> every record to its place in the other block
//
// A pass whose digit is the same in all records is left out: of small integers most are.
#include "codegen/order/order.h"

typedef LLVMValueRef V;

static V count_at(const CgKeys *k, V counts, V digit, V value) {
  Cg *c = k->c;
  return cg_at(c, c->i32, counts, cg_add(c, cg_mul(c, digit, cg_i64(c, CG_DIGITS)), value));
}

static void increment(Cg *c, V at) { cg_store(c, LLVMBuildAdd(c->b, cg_load(c, c->i32, at), cg_i32(c, 1), ""), at); }

static V record_at(const CgKeys *k, V base, V i) { return LLVMBuildInBoundsGEP2(k->c->b, k->record, base, &i, 1, ""); }
static V load_record(const CgKeys *k, V base, V i) {
  V x = LLVMBuildLoad2(k->c->b, k->record, record_at(k, base, i), "");
  LLVMSetAlignment(x, 8);
  return x;
}
static void store_record(const CgKeys *k, V x, V base, V i) {
  LLVMSetAlignment(LLVMBuildStore(k->c->b, x, record_at(k, base, i)), 8);
}

static void count_all(const CgKeys *k, V a, V counts, V n) {
  Cg *c = k->c;
  Loop l;
  LLVMValueRef zero = cg_i64(c, 0), vl = cg_i64(c, c->t->vl);
  cg_loop_begin(c, &l, zero, cg_i64(c, cg_radix_counts(k->bits)), vl, NULL, 0);
  cg_store(c, LLVMConstNull(c->vi32), cg_at(c, c->i32, counts, l.i));
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, zero, n, cg_i64(c, 1), NULL, 0);
  V key = cg_record_key(k, load_record(k, a, l.i));
  for (uint32_t d = 0; d < k->bits / 8; d++)
    increment(c, count_at(k, counts, cg_i64(c, d), cg_digit(k, key, cg_i64(c, 8 * d))));
  cg_loop_end(c, &l, NULL);
}

// Counts become places.
static void begin_places(const CgKeys *k, V counts, V d) {
  Cg *c = k->c;
  V none = cg_i32(c, 0);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, CG_DIGITS), cg_i64(c, 1), &none, 1);
  V at = count_at(k, counts, d, l.i), own = cg_load(c, c->i32, at);
  cg_store(c, l.carry[0], at);
  V next = LLVMBuildAdd(c->b, l.carry[0], own, "");
  cg_loop_end(c, &l, &next);
}

static void move_all(const CgKeys *k, V from, V to, V counts, V d, V n) {
  Cg *c = k->c;
  V shift = cg_mul(c, d, cg_i64(c, 8));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n, cg_i64(c, 1), NULL, 0);
  V record = load_record(k, from, l.i), at = count_at(k, counts, d, cg_digit(k, cg_record_key(k, record), shift));
  V place = cg_load(c, c->i32, at);
  store_record(k, record, to, LLVMBuildZExt(c->b, place, c->i64, ""));
  cg_store(c, LLVMBuildAdd(c->b, place, cg_i32(c, 1), ""), at);
  cg_loop_end(c, &l, NULL);
}

// Have all records the digit of the first?
static V is_uniform(const CgKeys *k, V from, V counts, V d, V n) {
  Cg *c = k->c;
  V key = cg_record_key(k, load_record(k, from, cg_i64(c, 0)));
  V count = cg_load(c, c->i32, count_at(k, counts, d, cg_digit(k, key, cg_mul(c, d, cg_i64(c, 8)))));
  return LLVMBuildICmp(c->b, LLVMIntEQ, LLVMBuildZExt(c->b, count, c->i64, ""), n, "");
}

static void make_sort(Cg *c, V fn, void *ctx) {
  CgKeys k = *(const CgKeys *)ctx;
  V a = LLVMGetParam(fn, 0), b = LLVMGetParam(fn, 1), counts = LLVMGetParam(fn, 2), n = LLVMGetParam(fn, 3);
  count_all(&k, a, counts, n);
  Loop l;
  V start[] = {a, b}, passes = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSGT, n, cg_i64(c, 1), ""),
                                               cg_i64(c, k.bits / 8), cg_i64(c, 0), "");
  cg_loop_begin(c, &l, cg_i64(c, 0), passes, cg_i64(c, 1), start, 2);
  V from = l.carry[0], to = l.carry[1], moves = LLVMBuildNot(c->b, is_uniform(&k, from, counts, l.i, n), "");
  If s;
  cg_if(c, &s, moves);
  begin_places(&k, counts, l.i);
  move_all(&k, from, to, counts, l.i, n);
  cg_endif(c, &s);
  V next[] = {LLVMBuildSelect(c->b, moves, to, from, ""), LLVMBuildSelect(c->b, moves, from, to, "")};
  cg_loop_end(c, &l, next);
  LLVMBuildRet(c->b, l.out[0]);
}

V cg_radix_sort(const CgKeys *k, V a, V b, V counts, V n) {
  Cg *c = k->c;
  LLVMTypeRef t = LLVMFunctionType(c->ptr, (LLVMTypeRef[]){c->ptr, c->ptr, c->ptr, c->i64}, 4, false);
  CgKeys own = *k;
  V fn = cg_helper(c, k->bits == 32 ? "radix_sort32" : "radix_sort64", t, make_sort, &own);
  return LLVMBuildCall2(c->b, t, fn, (V[]){a, b, counts, n}, 4, "");
}
