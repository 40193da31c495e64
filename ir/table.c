// Numbers of a program that are too many to be instructions: op table. Their bits stand as hexadecimal digits in one
// interned string, the most significant first, so that equal tables are one, and every bit survives the text form.
//
//   1, -0, 2 as f32   ->   table {dtype=f32, shape=[3], bits="3f8000008000000040000000"}
#include "ir/ir.h"

#include <string.h>

enum { DIGIT_BITS = 4 };

static uint64_t bits_at(const void *elements, uint32_t bytes, int64_t k) {
  uint32_t single;
  uint64_t whole;
  if (bytes == sizeof whole) {
    memcpy(&whole, (const char *)elements + k * (int64_t)sizeof whole, sizeof whole);
    return whole;
  }
  memcpy(&single, (const char *)elements + k * (int64_t)sizeof single, sizeof single);
  return single;
}

static void put_bits(void *elements, uint32_t bytes, int64_t k, uint64_t bits) {
  uint32_t single = (uint32_t)bits;
  const void *from = bytes == sizeof bits ? (const void *)&bits : (const void *)&single;
  memcpy((char *)elements + k * (int64_t)bytes, from, bytes);
}

Val ir_table(Fn *f, DType t, Shape s, const void *elements, Loc loc) {
  Prog *p = f->prog;
  uint32_t bytes = ir_dtype_bytes[t], digits = bytes * 2;
  int64_t n = ir_shape_bound(p, s);
  char *text = rt_alloc(p->mem, (size_t)n * digits + 1);
  for (int64_t k = 0; k < n; k++) {
    uint64_t bits = bits_at(elements, bytes, k);
    for (uint32_t d = digits; d-- > 0; bits >>= DIGIT_BITS) text[k * digits + d] = "0123456789abcdef"[bits & 15];
  }
  Attr attrs[] = {ir_a_str(KEY_bits, ir_strn(p, text, (size_t)n * digits)), ir_a_int(KEY_dtype, t),
                  ir_a_list(KEY_shape, s)};
  return ir_emit(f, OP_table, NULL, 0, attrs, 3, loc);
}

static uint64_t value_of(char digit) { return (uint64_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

void ir_fill_table(const Fn *f, Val v, void *elements) {
  const char *text = ir_text(f->prog, ir_attr(f, v, KEY_bits)->u.s);
  uint32_t bytes = ir_dtype_bytes[ir_ins(f, v)->dtype];
  int64_t n = ir_shape_bound(f->prog, ir_ins(f, v)->shape);
  for (int64_t k = 0; k < n; k++) {
    uint64_t bits = 0;
    for (uint32_t d = 0; d < bytes * 2; d++) bits = bits << DIGIT_BITS | value_of(*text++);
    put_bits(elements, bytes, k, bits);
  }
}
