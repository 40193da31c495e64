// Any bytes: the reader of IDX files refuses with a sentence, or gives a shape whose numbers are all that follows. Packed bytes
// are unpacked before, with a limit.
#include "runtime/data/gzip.h"
#include "runtime/data/idx.h"
#include "tests/fuzz.h"

#include <string.h>

static void parse(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  RtSource s;
  RtNpy idx;
  rt_source_memory(&s, "f.idx", bytes, n);
  if (!rt_idx_parse(&s, &idx, error, sizeof error)) {
    need(!strncmp(error, "f.idx: ", 7));
    return;
  }
  size_t bad, count = (size_t)idx.n_elements;
  need(idx.rank >= 1 && idx.rank <= RT_MAX_RANK && idx.data_at <= n && count * idx.number.bytes == n - idx.data_at);
  float *out = malloc(4 * count + 1);
  need(out && rt_number_read(idx.number, bytes + idx.data_at, count, RT_F32, out, &bad));
  free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  enum { MOST = 1 << 18 };
  char error[400] = "";
  RtSource s;
  size_t unpacked = 0;
  rt_source_memory(&s, "f.idx", bytes, n);
  unsigned char *to = rt_is_gzip(&s) ? rt_gzip_unpack(&s, MOST, &unpacked, error, sizeof error) : NULL;
  if (to) need(unpacked <= MOST), parse(to, unpacked);
  else if (rt_is_gzip(&s)) need(!strncmp(error, "f.idx: ", 7));
  parse(bytes, n);
  rt_free(to);
  return 0;
}
