// Any bytes: the reader of IDX files refuses with a sentence, or gives a shape whose numbers are all that follows.
#include "runtime/data/idx.h"
#include "tests/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  RtSource s;
  RtNpy idx;
  rt_source_memory(&s, "f.idx", bytes, n);
  if (!rt_idx_parse(&s, &idx, error, sizeof error)) {
    need(!strncmp(error, "f.idx: ", 7));
    return 0;
  }
  size_t bad, count = (size_t)idx.n_elements;
  need(idx.rank >= 1 && idx.rank <= RT_MAX_RANK && idx.data_at <= n && count * idx.number.bytes == n - idx.data_at);
  float *out = malloc(4 * count + 1);
  need(out && rt_number_read(idx.number, bytes + idx.data_at, count, RT_F32, out, &bad));
  free(out);
  return 0;
}
