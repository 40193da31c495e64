// Numbers of a program that are too many to be instructions: op table. Their bits stand as hexadecimal digits in one
// interned string, the most significant first, so that equal tables are one, and every bit survives the text form.
//
//   1, -0, 2 as f32   ->   table {dtype=f32, shape=[3], bits="3f8000008000000040000000"}
#include "ir/ir.h"

enum { DIGIT_BITS = 4 };

// Byte b of an element, the least significant first, as the host lays it out.
static size_t place_of(uint32_t bytes, int64_t k, uint32_t b) {
  const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  return (size_t)k * bytes + (little ? b : bytes - 1 - b);
}

static uint64_t bits_at(const void *elements, uint32_t bytes, int64_t k) {
  uint64_t bits = 0;
  for (uint32_t b = 0; b < bytes; b++)
    bits |= (uint64_t)((const unsigned char *)elements)[place_of(bytes, k, b)] << 8 * b;
  return bits;
}

static void put_bits(void *elements, uint32_t bytes, int64_t k, uint64_t bits) {
  for (uint32_t b = 0; b < bytes; b++)
    ((unsigned char *)elements)[place_of(bytes, k, b)] = (unsigned char)(bits >> 8 * b);
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
