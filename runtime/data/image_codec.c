#include "runtime/data/image_codec.h"

#include <inttypes.h>
#include <string.h>

bool rt_image_alloc(const RtImageBytes *in, uint64_t height, uint64_t width, uint32_t channels, RtImage *out,
                    char *error, size_t error_size) {
  if (!height || !width || height > INT32_MAX || width > INT32_MAX || height * width > in->max_pixels)
    return rt_fail(error, error_size, "%s: %" PRIu64 " x %" PRIu64 " pixels, 1 to %" PRIu64 " in all are allowed",
                   in->name, height, width, in->max_pixels);
  out->height = (int64_t)height, out->width = (int64_t)width;
  out->pixels = rt_malloc(height * width * channels);
  if (out->pixels) return true;
  return rt_fail(error, error_size, "%s: out of memory for %" PRIu64 " x %" PRIu64 " pixels", in->name, height, width);
}

void rt_image_to_gray(const unsigned char *rgb, unsigned char *gray, size_t n) {
  for (size_t k = 0; k < n; k++)
    gray[k] = (unsigned char)((rgb[3 * k] * 19595u + rgb[3 * k + 1] * 38470u + rgb[3 * k + 2] * 7471u + 0x8000) >> 16);
}

static bool decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size) {
  if (in->n >= 8 && !memcmp(in->bytes, "\x89PNG\r\n\x1a\n", 8))
    return rt_png_decode(in, out, orientation, error, error_size);
  if (in->n >= 3 && !memcmp(in->bytes, "\xff\xd8\xff", 3))
    return rt_jpeg_decode(in, out, orientation, error, error_size);
  return rt_fail(error, error_size, "%s: neither a PNG nor a JPEG file, by its first bytes", in->name);
}

bool rt_image_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  uint32_t orientation = 1;
  *out = (RtImage){0};
  bool ok = decode(in, out, &orientation, error, error_size);
  if (ok && !in->as_stored && !rt_image_turn(out, in->channels, orientation))
    ok = rt_fail(error, error_size, "%s: out of memory", in->name);
  if (ok) return true;
  rt_free(out->pixels);
  out->pixels = NULL;
  return false;
}
