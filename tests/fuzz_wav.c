// Any bytes: the reader of WAV files refuses with a sentence, or all frames can be read, those of integers within [-1, 1].
#include "runtime/data/wav.h"
#include "tests/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  RtSource s;
  RtWav w;
  rt_source_memory(&s, "f.wav", bytes, n);
  if (!rt_wav_parse(&s, &w, error, sizeof error)) {
    need(!strncmp(error, "f.wav: ", 7));
    return 0;
  }
  size_t count = (size_t)w.n_frames * w.channels;
  need(w.channels >= 1 && w.rate >= 1 && w.data_at <= n && count * w.bytes <= n - w.data_at);
  float *out = malloc(4 * count + 1);
  need(out && rt_wav_read(&s, &w, 0, (size_t)w.n_frames, out, error, sizeof error));
  for (size_t k = 0; k < count && !w.is_float; k++) need(out[k] >= -1 && out[k] <= 1);
  free(out);
  return 0;
}
