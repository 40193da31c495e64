// Op table: numbers of a program that are too many for instructions. Their bytes are one interned string,
// most significant byte first, so that equal tables are one string. In text they are hexadecimal digits,
// which keep every bit.
//
//   1, -0, 2 as f32   ->   table {dtype=f32, shape=[3], bits="3f8000008000000040000000"}
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"

#include <string.h>

// Elements as the host lays them out to the order of the string, and back: the same way where the host is little-endian.
static void turn(const unsigned char *from, unsigned char *to, uint32_t bytes, int64_t n) {
  const bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  if (bytes == 1 || !is_little) memcpy(to, from, (size_t)n * bytes);
  else if (bytes == 4)
    for (int64_t k = 0; k < n; k++, from += 4, to += 4) {
      uint32_t v;
      memcpy(&v, from, 4), v = __builtin_bswap32(v), memcpy(to, &v, 4);
    }
  else
    for (int64_t k = 0; k < n; k++, from += bytes, to += bytes)
      for (uint32_t b = 0; b < bytes; b++) to[b] = from[bytes - 1 - b];
}

Val ir_table(Fn *f, DType t, Shape s, const void *elements, Loc loc) {
  Prog *p = f->prog;
  int64_t n = ir_shape_bound(p, s);
  size_t size = (size_t)n * ir_dtype_bytes[t];
  char *bits = rt_alloc(p->mem, size + 1);
  if (n) turn(elements, (unsigned char *)bits, ir_dtype_bytes[t], n);
  Attr attrs[] = {ir_a_str(KEY_bits, ir_str_borrowed(p, bits, size)), ir_a_int(KEY_dtype, t), ir_a_list(KEY_shape, s)};
  return ir_emit(f, OP_table, NULL, 0, attrs, 3, loc);
}

void ir_fill_table(const Fn *f, Val v, void *elements) {
  const unsigned char *bits = (const unsigned char *)ir_text(f->prog, ir_attr(f, v, KEY_bits)->u.s);
  turn(bits, elements, ir_dtype_bytes[ir_ins(f, v)->dtype], ir_shape_bound(f->prog, ir_ins(f, v)->shape));
}
