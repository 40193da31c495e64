// Elements of arrays as numbers: of f32, f16 and bf16 as f32, of other dtypes as i64.
#ifndef TN_RUNTIME_EXEC_NUMBERS_H
#define TN_RUNTIME_EXEC_NUMBERS_H

#include "runtime/exec/plan_types.h"
#include "runtime/half.h"

// Element k of an array of f32, f16 or bf16.
static inline void rt_put_float(float v, RtDType as, void *out, size_t k) {
  if (as == RT_F16) ((uint16_t *)out)[k] = rt_f16_of_f32(v);
  else if (as == RT_BF16) ((uint16_t *)out)[k] = rt_bf16_of_f32(v);
  else ((float *)out)[k] = v;
}

static inline float rt_get_float(RtDType of, const void *from, size_t k) {
  if (of == RT_F16) return rt_f32_of_f16(((const uint16_t *)from)[k]);
  if (of == RT_BF16) return rt_f32_of_bf16(((const uint16_t *)from)[k]);
  return ((const float *)from)[k];
}

// Element k of an array of whole numbers or bool. false: it does not fit
static inline bool rt_put_whole(int64_t v, RtDType as, void *out, size_t k) {
  if (as == RT_I64) return ((int64_t *)out)[k] = v, true;
  if (as == RT_I32) return ((int32_t *)out)[k] = (int32_t)v, v >= INT32_MIN && v <= INT32_MAX;
  return ((uint8_t *)out)[k] = (uint8_t)v, v >= 0 && v <= (as == RT_BOOL ? 1 : UINT8_MAX);
}

#endif
