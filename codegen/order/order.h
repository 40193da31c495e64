// Rows in order: keys, sorting, selection.
#ifndef TN_CODEGEN_ORDER_ORDER_H
#define TN_CODEGEN_ORDER_ORDER_H

#include "codegen/order/axis.h"

int64_t cg_order_scratch_bytes(const Fn *f, Val v, const Target *t);
int64_t cg_linear_scan_scratch_bytes(const Fn *f, Val v, const Target *t);

bool cg_emit_sort(Cg *c, Val v);  // codegen/order/sort.c

// ---- codegen/order/keys.c: the order of elements as that of unsigned numbers, and records of a key and its place
// A key has 32 bits, or 64 of elements of 8 bytes; a record has twice its bits: key above, place below. Records are all
// different, and their order is the stable one.
typedef struct {
  Cg *c;
  DType type;
  bool descending;
  uint32_t bits;  // of a key
  LLVMTypeRef key, record;
} CgKeys;
uint32_t cg_key_bits(DType t);
CgKeys cg_keys_of(Cg *c, DType t, bool descending);
V cg_key(const CgKeys *k, V x);  // of an element, or of a vector of them
V cg_record(const CgKeys *k, V key, V place);
V cg_record_key(const CgKeys *k, V record);
V cg_record_place(const CgKeys *k, V record);  // i64
V cg_load_record(const CgKeys *k, V base, V i);
void cg_store_record(const CgKeys *k, V record, V base, V i);
// The 8-bit digit of a key at bit `shift`, as i64
V cg_digit(const CgKeys *k, V key, V shift);

// ---- codegen/order/radix.c
enum { CG_DIGITS = 256 };  // values of one
// Words (i32) of a table of counts for cg_radix_sort
static inline int64_t cg_radix_counts(uint32_t bits) { return (int64_t)bits / 8 * CG_DIGITS; }
// Sorts n records at `a`, with scratch for as many at `b`; returns where the result is: a or b.
V cg_radix_sort(const CgKeys *k, V a, V b, V counts, V n);

#endif
