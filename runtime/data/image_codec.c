#include "runtime/data/image_codec.h"

#include <inttypes.h>
#include <string.h>

bool rt_image_alloc(const RtImageBytes *in, uint64_t height, uint64_t width, RtImage *out, char *error,
                    size_t error_size) {
  if (!height || !width || height > INT32_MAX || width > INT32_MAX || height * width > in->max_pixels)
    return rt_fail(error, error_size, "%s: %" PRIu64 " x %" PRIu64 " pixels, 1 to %" PRIu64 " in all are allowed",
                   in->name, height, width, in->max_pixels);
  out->height = (int64_t)height, out->width = (int64_t)width;
  out->pixels = rt_malloc(height * width * in->channels);
  if (out->pixels) return true;
  return rt_fail(error, error_size, "%s: out of memory for %" PRIu64 " x %" PRIu64 " pixels", in->name, height, width);
}

bool rt_image_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  *out = (RtImage){0};
  bool is_png = in->n >= 8 && !memcmp(in->bytes, "\x89PNG\r\n\x1a\n", 8);
  bool is_jpeg = in->n >= 3 && !memcmp(in->bytes, "\xff\xd8\xff", 3), ok = false;
  if (is_png) ok = rt_png_decode(in, out, error, error_size);
  else if (is_jpeg) ok = rt_jpeg_decode(in, out, error, error_size);
  else rt_fail(error, error_size, "%s: neither a PNG nor a JPEG file, by its first bytes", in->name);
  if (ok) return true;
  rt_free(out->pixels);
  out->pixels = NULL;
  return false;
}
