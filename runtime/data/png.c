#include "runtime/data/image_codec.h"

#ifdef TN_HAS_PNG
#include <png.h>

// libpng's own conversions: palettes are looked up, 16 bits become 8, gray becomes color and the other way round; what is
// transparent lies on black.
static bool read_pixels(png_image *png, const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  if (!png_image_begin_read_from_memory(png, in->bytes, in->n))
    return rt_fail(error, error_size, "%s: %s", in->name, png->message);
  if (!rt_image_alloc(in, png->height, png->width, out, error, error_size)) return false;
  const png_color black = {0};
  png->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as those of 8 bits, where the file says nothing
  png->format = in->channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  if (png_image_finish_read(png, &black, out->pixels, 0, NULL)) return true;
  return rt_fail(error, error_size, "%s: %s", in->name, png->message);
}

bool rt_png_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  png_image png = {.version = PNG_IMAGE_VERSION};
  bool ok = read_pixels(&png, in, out, error, error_size);
  png_image_free(&png);
  return ok;
}
#else
bool rt_png_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  (void)out;
  return rt_fail(error, error_size, "%s: this build reads no PNG files: libpng was missing", in->name);
}
#endif
