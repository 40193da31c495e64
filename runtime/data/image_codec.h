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
  bool as_stored;       // not turned as the camera was held
} RtImageBytes;

typedef struct {
  int64_t height, width;
  unsigned char *pixels;  // [height, width, channels]: rt_free
} RtImage;

bool rt_image_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size);

// ---- one format each: pixels as the file has them, allocated by rt_image_alloc once the size is known, and *orientation as EXIF
// says, which is 1 before
bool rt_image_alloc(const RtImageBytes *in, uint64_t height, uint64_t width, uint32_t channels, RtImage *out,
                    char *error, size_t error_size);
bool rt_png_decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size);
bool rt_jpeg_decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size);
// n pixels of red, green and blue -> as many gray ones, which may be the same bytes: 0.299, 0.587 and 0.114 of them (Pillow's)
void rt_image_to_gray(const unsigned char *rgb, unsigned char *gray, size_t n);

// ---- how the camera was held
// What an EXIF block (a TIFF header and what follows) says: 1 to 8; 1 where it says nothing that is understood.
uint32_t rt_exif_orientation(const unsigned char *bytes, size_t n);
// Rows and columns as they were seen; false: out of memory
bool rt_image_turn(RtImage *image, uint32_t channels, uint32_t orientation);

// The part [height, width] at (top, left) of an image that is resized to [scaled[0], scaled[1]], as [channels, height, width],
// 0 to 255. An image that shrinks is smoothed: each pixel is a mean of those around it, by a triangle as wide as two of
// its own (PyTorch's interpolate with antialias=True). false: out of memory
typedef struct {
  int64_t scaled[2], at[2], size[2];
} RtImageFrame;
bool rt_image_resample(const RtImage *in, uint32_t channels, const RtImageFrame *f, float *out);

#endif
