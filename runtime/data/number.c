// Numbers of data files as numbers of an array; see npy.h.
#include "runtime/data/npy.h"
#include "runtime/exec/numbers.h"
#include "runtime/store/safetensors.h"

#include <string.h>

RtDType rt_number_natural(RtNumber t) { return t.kind == 'f' || t.kind == 'h' ? RT_F32 : RT_I64; }

static uint64_t load(RtNumber t, const unsigned char *p) {
  uint64_t v = 0;
  for (uint8_t k = 0; k < t.bytes; k++) v |= (uint64_t)p[t.big_endian ? t.bytes - 1 - k : k] << 8 * k;
  return v;
}

static float float_of(RtNumber t, const unsigned char *p) {
  unsigned char little[8];
  uint64_t bits = load(t, p);
  float f;
  for (uint8_t k = 0; k < t.bytes; k++) little[k] = (unsigned char)(bits >> 8 * k);
  uint8_t dtype = t.kind == 'h' ? RT_ST_BF16 : t.bytes == 8 ? RT_ST_F64 : t.bytes == 4 ? RT_ST_F32 : RT_ST_F16;
  rt_st_read_f32(&(RtStTensor){.dtype = dtype, .n_elements = 1, .data = little}, &f);
  return f;
}

// The two's complement of an integer; a u64 above 2^63 - 1 as it stands.
static uint64_t integer_of(RtNumber t, const unsigned char *p) {
  uint64_t v = load(t, p);
  if (t.kind == 'i' && t.bytes < 8 && v >> (8 * t.bytes - 1)) v |= ~UINT64_C(0) << 8 * t.bytes;
  return t.kind == 'b' ? v != 0 : v;
}

// Bools are looked at: what is not 0 becomes 1.
bool rt_number_is_plain(RtNumber t, RtDType as) {
  static const char kind[RT_N_DTYPES] = {
      [RT_F32] = 'f', [RT_I64] = 'i', [RT_I32] = 'i', [RT_U8] = 'u', [RT_F16] = 'f', [RT_BF16] = 'h'};
  const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
  return t.big_endian != little && kind[as] == t.kind && rt_dtype_bytes(as) == t.bytes;
}

static bool read_integers(RtNumber t, const unsigned char *from, size_t n, RtDType as, void *out, size_t *bad) {
  for (size_t k = 0; k < n; k++) {
    uint64_t v = integer_of(t, from + k * t.bytes);
    bool is_large = t.kind == 'u' && v > INT64_MAX;
    *bad = k;
    if (rt_dtype_is_float(as)) rt_put_float(is_large ? (float)v : (float)(int64_t)v, as, out, k);
    else if (is_large || !rt_put_whole((int64_t)v, as, out, k)) return false;
  }
  return true;
}

bool rt_number_read(RtNumber t, const unsigned char *from, size_t n, RtDType as, void *out, size_t *bad) {
  *bad = 0;
  if (n == 0) return true;
  if (rt_number_is_plain(t, as)) {
    memmove(out, from, n * t.bytes);
    return true;
  }
  if (rt_number_natural(t) == RT_I64) return read_integers(t, from, n, as, out, bad);
  if (!rt_dtype_is_float(as)) return false;
  for (size_t k = 0; k < n; k++) rt_put_float(float_of(t, from + k * t.bytes), as, out, k);
  return true;
}
