// Any bytes: the safetensors reader refuses or gives tensors that lie inside the input.
#include "runtime/store/safetensors.h"
#include "tests/fuzz.h"

#include <string.h>

static void check_tensor(const RtSt *st, const RtStTensor *t, const uint8_t *bytes, size_t n) {
  need(t->size <= n && t->data >= bytes && t->data + t->size <= bytes + n);
  need(t->size == t->n_elements * rt_st_dtype_bytes[t->dtype] || !rt_st_is_read(t->dtype));
  need(rt_st_find(st, t->name) == t);
  if (t->dtype > RT_ST_BF16) return;
  float *values = malloc(t->n_elements * sizeof *values + 1);
  need(values != NULL);
  rt_st_read_f32(t, values);
  free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[300] = "";
  RtSt st;
  RtArena *mem = rt_arena_new();
  need(mem != NULL);
  if (rt_st_parse(mem, bytes, n, &st, error, sizeof error)) {
    for (uint32_t i = 0; i < st.n_tensors; i++) check_tensor(&st, &st.tensors[i], bytes, n);
    for (uint32_t i = 0; i < st.n_meta; i++) need(rt_st_meta(&st, st.meta[i].key) != NULL);
  } else {
    need(!strncmp(error, "byte ", 5));
  }
  rt_arena_free(mem);
  return 0;
}
