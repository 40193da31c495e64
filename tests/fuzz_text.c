// Any bytes: text is refused as UTF-8 with the place, or gives windows that spell the text again.
#include "runtime/data/text.h"
#include "tests/fuzz.h"

#include <string.h>

// Windows side by side cover the text from its first symbol, which stands behind a byte order mark.
static void spell(const RtDataset *d, const RtVocabulary *v, const uint8_t *bytes, size_t n) {
  int64_t x[3], y[3];
  char error[300], symbol[4];
  size_t at = v->utf8 && n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;
  for (size_t k = 0; k < d->count; k++) {
    RtItem item = {.data = {x, y}, .error = error, .error_size = sizeof error};
    need(rt_dataset_get(d, k, &item) && x[1] == y[0] && x[2] == y[1]);
    for (int i = 0; i < 3; i++) {
      size_t len = rt_vocabulary_bytes(v, x[i], symbol);
      need(len > 0 && len <= n - at && !memcmp(symbol, bytes + at, len));
      at += len;
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  RtSource s;
  rt_source_memory(&s, "f.txt", bytes, n);
  for (int utf8 = 0; utf8 < 2; utf8++) {
    RtVocabulary *v = rt_vocabulary_of(&s, utf8, error, sizeof error);
    need(v || (utf8 && strstr(error, "not UTF-8")));
    RtDataset *d = v ? rt_dataset_text(&s, v, 3, 3, error, sizeof error) : NULL;
    need(!v || d);
    if (d) spell(d, v, bytes, n);
    rt_dataset_release(d);
    rt_free(v);
  }
  return 0;
}
