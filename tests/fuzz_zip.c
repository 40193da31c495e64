// Any bytes: the reader of .npz refuses with a sentence, or lists members that lie inside; what unpacks has its size.
#include "runtime/data/npy.h"
#include "tests/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[600] = "";
  RtSource s;
  RtZipMember *list = NULL;
  uint32_t n_list = 0;
  RtNpy npy;
  rt_source_memory(&s, "f.npz", bytes, n);
  if (!rt_zip_list(&s, &list, &n_list, error, sizeof error)) need(!list && !strncmp(error, "f.npz: ", 7));
  for (uint32_t k = 0; k < n_list; k++) {
    const RtZipMember *m = &list[k];
    need(m->data_at <= n && m->stored <= n - m->data_at && m->size / 1032 <= m->stored);
    unsigned char *data = m->size < 1 << 22 ? rt_zip_unpack(&s, m, error, sizeof error) : NULL;
    RtSource part;
    rt_source_memory(&part, m->name, data, data ? (size_t)m->size : 0);
    rt_npy_parse(&part, &npy, error, sizeof error);
    rt_free(data);
  }
  rt_free(list);
  return 0;
}
