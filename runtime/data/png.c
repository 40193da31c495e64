#include "runtime/data/image_codec.h"

#ifdef TN_HAS_PNG
#include <setjmp.h>
#include <string.h>

#include <png.h>

// Bytes of the file are the values, as in Pillow's convert("RGB") or ("L"): palettes are looked up, of 16 bits the upper 8
// stay, gray becomes color and the other way round, what is said of transparency and gamma is passed over.
typedef struct {
  png_structp png;
  png_infop info;
  jmp_buf back;
  const RtImageBytes *in;
  RtImage *out;
  uint32_t *orientation;
  size_t at;            // bytes read
  unsigned char **row;  // of the image in `out`: rt_free
  char *error;
  size_t error_size;
} Decoder;

static void stop(png_structp png, png_const_charp text) {
  Decoder *d = png_get_error_ptr(png);
  rt_fail(d->error, d->error_size, "%s: %s", d->in->name, text);
  longjmp(d->back, 1);
}

// The sentence is there.
static void give_up(Decoder *d) { longjmp(d->back, 1); }

static void pass_over(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void read_bytes(png_structp png, png_bytep to, size_t n) {
  Decoder *d = png_get_io_ptr(png);
  if (n > d->in->n - d->at) png_error(png, "the file ends too early");
  memcpy(to, d->in->bytes + d->at, n);
  d->at += n;
}

// To 8 bits, 1 or 3 channels; gray stays so where it is asked for -> channels
static uint32_t set_conversions(Decoder *d) {
  bool is_gray = !(png_get_color_type(d->png, d->info) & PNG_COLOR_MASK_COLOR);
  png_set_expand(d->png);
  png_set_strip_16(d->png);
  png_set_strip_alpha(d->png);
  if (is_gray && d->in->channels == 1) return 1;
  png_set_gray_to_rgb(d->png);
  return 3;
}

static void read_pixels(Decoder *d) {
  png_read_info(d->png, d->info);
  size_t h = png_get_image_height(d->png, d->info), w = png_get_image_width(d->png, d->info);
  uint32_t channels = set_conversions(d);
  if (!rt_image_alloc(d->in, h, w, channels, d->out, d->error, d->error_size)) give_up(d);
  png_set_interlace_handling(d->png);
  png_read_update_info(d->png, d->info);
  if (png_get_rowbytes(d->png, d->info) != w * channels) png_error(d->png, "rows of another length than pixels make");
  d->row = rt_malloc(h * sizeof *d->row);
  if (!d->row) png_error(d->png, "out of memory");
  for (size_t y = 0; y < h; y++) d->row[y] = d->out->pixels + y * w * channels;
  png_read_image(d->png, d->row);
  png_read_end(d->png, d->info);
  if (channels > d->in->channels) rt_image_to_gray(d->out->pixels, d->out->pixels, h * w);
}

static void read_orientation(Decoder *d) {
#ifdef PNG_eXIf_SUPPORTED
  png_uint_32 n = 0;
  png_bytep exif = NULL;
  if (png_get_eXIf_1(d->png, d->info, &n, &exif)) *d->orientation = rt_exif_orientation(exif, n);
#else
  (void)d;
#endif
}

bool rt_png_decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size) {
  Decoder d = {.in = in, .out = out, .orientation = orientation, .error = error, .error_size = error_size};
  d.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &d, stop, pass_over);
  d.info = d.png ? png_create_info_struct(d.png) : NULL;
  volatile bool ok = false;
  if (!d.info) rt_fail(error, error_size, "%s: out of memory", in->name);
  else if (!setjmp(d.back)) {
    png_set_read_fn(d.png, &d, read_bytes);
    read_pixels(&d);
    read_orientation(&d);
    ok = true;
  }
  if (d.png) png_destroy_read_struct(&d.png, &d.info, NULL);
  rt_free(d.row);
  return ok;
}
#else
bool rt_png_decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size) {
  (void)out, (void)orientation;
  return rt_fail(error, error_size, "%s: this build reads no PNG files: libpng was missing", in->name);
}
#endif
