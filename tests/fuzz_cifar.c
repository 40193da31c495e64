// Any bytes: the reader of CIFAR's files refuses with a sentence, or every image and label can be read. The first byte
// chooses the kind.
#include "runtime/data/cifar.h"
#include "tests/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  RtSource s;
  float image[3 * 32 * 32];
  int64_t label, coarse;
  if (n == 0) return 0;
  RtCifar kind = bytes[0] & 1 ? RT_CIFAR100 : RT_CIFAR10;
  rt_source_memory(&s, "f.bin", bytes + 1, n - 1);
  RtDataset *d = rt_dataset_cifar(&s, kind, error, sizeof error);
  if (!d) {
    need(!strncmp(error, "f.bin: ", 7));
    return 0;
  }
  for (size_t k = 0; k < d->count; k++) {
    RtItem item = {.data = {image, &label, &coarse}, .error = error, .error_size = sizeof error};
    need(rt_dataset_get(d, k, &item) && label >= 0 && label < (int64_t)kind);
    for (size_t i = 0; i < 3 * 32 * 32; i++) need(image[i] >= 0 && image[i] <= 255);
  }
  rt_dataset_release(d);
  return 0;
}
