// PNG and JPEG: bytes in memory to pixels of 8 bits, by libpng and libjpeg-turbo. Either may be missing in a build: then its
// files give a sentence. Any bytes are taken: what is wrong, cut short or too large gives one sentence with the name.
#ifndef TN_RUNTIME_DATA_IMAGE_CODEC_H
#define TN_RUNTIME_DATA_IMAGE_CODEC_H

#include "runtime/base.h"

typedef struct {
  const char *name;  // for sentences
  const unsigned char *bytes;
  size_t n;
  uint32_t channels;    // of the pixels: 1, gray, or 3, red, green and blue
  uint64_t max_pixels;  // more are refused before memory is taken for them
} RtImageBytes;

typedef struct {
  int64_t height, width;
  unsigned char *pixels;  // [height, width, channels]: rt_free
} RtImage;

bool rt_image_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size);

// ---- one format each: pixels are allocated by rt_image_alloc once the size is known
bool rt_image_alloc(const RtImageBytes *in, uint64_t height, uint64_t width, RtImage *out, char *error,
                    size_t error_size);
bool rt_png_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size);
bool rt_jpeg_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size);

// The part [height, width] at (top, left) of an image that is resized to [scaled[0], scaled[1]], as [channels, height, width],
// 0 to 255. An image that shrinks is smoothed: each pixel is a mean of those around it, by a triangle as wide as two of
// its own (PyTorch's interpolate with antialias=True). false: out of memory
typedef struct {
  int64_t scaled[2], at[2], size[2];
} RtImageFrame;
bool rt_image_resample(const RtImage *in, uint32_t channels, const RtImageFrame *f, float *out);

#endif
