// Any bytes: the readers of PNG and JPEG refuse with a sentence, or give all pixels, which can be resized to any size.
#include "runtime/data/image_codec.h"
#include "tests/fuzz.h"

#include <string.h>

static void resize(const RtImage *image, uint32_t channels) {
  float out[5 * 3 * 3];
  const RtImageFrame frame = {.scaled = {7, 4}, .at = {1, 0}, .size = {5, 3}};
  need(rt_image_resample(image, channels, &frame, out));
  for (size_t k = 0; k < 5 * 3 * channels; k++) need(out[k] > -1e-3f && out[k] < 255.001f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  char error[400] = "";
  for (uint32_t channels = 1; channels <= 3; channels += 2) {
    const RtImageBytes in = {"f.png", bytes, n, channels, 1 << 16, false};
    RtImage image;
    if (!rt_image_decode(&in, &image, error, sizeof error)) {
      need(!strncmp(error, "f.png: ", 7) && !image.pixels);
      continue;
    }
    need(image.height >= 1 && image.width >= 1 && image.height * image.width <= 1 << 16);
    uint32_t sum = 0;
    for (size_t k = 0; k < (size_t)(image.height * image.width) * channels; k++) sum += image.pixels[k];
    need(sum <= 255u * channels * 65536);
    resize(&image, channels);
    rt_free(image.pixels);
  }
  return 0;
}
