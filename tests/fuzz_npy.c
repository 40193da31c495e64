// Any bytes: the reader of .npy refuses with a sentence, or gives a shape whose numbers all lie inside and can be read.
#include "runtime/data/npy.h"
#include "tests/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  RtSource s;
  RtNpy npy;
  rt_source_memory(&s, "f.npy", bytes, n);
  if (!rt_npy_parse(&s, &npy, error, sizeof error)) {
    need(!strncmp(error, "f.npy: ", 7));
    return 0;
  }
  size_t bad, count = (size_t)npy.n_elements, width = npy.number.bytes;
  need(npy.rank <= RT_MAX_RANK && npy.data_at <= n && count <= (n - npy.data_at) / width);
  unsigned char *raw = malloc(count * width + 1);
  int64_t *out = malloc(8 * count + 1);
  need(raw && out && rt_source_read(&s, npy.data_at, raw, count * width, error, sizeof error));
  for (uint32_t t = RT_F32; t < RT_N_DTYPES; t++)
    if (!rt_number_read(npy.number, raw, count, (RtDType)t, out, &bad)) need(bad < count);
  free(raw);
  free(out);
  return 0;
}
