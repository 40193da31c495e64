// Rows in order: keys, sorting, selection.
#ifndef TN_CODEGEN_ORDER_ORDER_H
#define TN_CODEGEN_ORDER_ORDER_H

#include "codegen/order/axis.h"

int64_t cg_order_scratch_bytes(const Fn *f, Val v, const Target *t);

bool cg_emit_sort(Cg *c, Val v);  // codegen/order/sort.c

// ---- codegen/order/keys.c: the order of elements as that of unsigned numbers, and records of a key and its place
// A key is as wide as the element; a record has twice its bits: key above, place below. Records are all different, and
// their order is the stable one.
typedef struct {
  Cg *c;
  DType type;
  bool descending;
  uint32_t bits;  // of a key
  LLVMTypeRef key, record;
} CgKeys;
CgKeys cg_keys_of(Cg *c, DType t, bool descending);
LLVMValueRef cg_key(const CgKeys *k, LLVMValueRef x);  // of an element, or of a vector of them
LLVMValueRef cg_record(const CgKeys *k, LLVMValueRef key, LLVMValueRef place);
LLVMValueRef cg_record_key(const CgKeys *k, LLVMValueRef record);
LLVMValueRef cg_record_place(const CgKeys *k, LLVMValueRef record);  // i64
// The digit of 8 bits of a key that lies `shift` bits above its lowest, as i64
LLVMValueRef cg_digit(const CgKeys *k, LLVMValueRef key, LLVMValueRef shift);

// ---- codegen/order/radix.c
enum { CG_DIGITS = 256 };  // values of one
// Words (i32) of a table of counts for cg_radix_sort
static inline int64_t cg_radix_counts(uint32_t bits) { return (int64_t)bits / 8 * CG_DIGITS; }
// Sorts n records at `a`, with room for as many at `b`; returns where they are then: a or b.
LLVMValueRef cg_radix_sort(const CgKeys *k, LLVMValueRef a, LLVMValueRef b, LLVMValueRef counts, LLVMValueRef n);

#endif
