#include "runtime/data/image_codec.h"

#ifdef TN_HAS_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { MOST_SCANS = 500 };  // of progressive files: each takes time for all pixels, and costs a few bytes

typedef struct {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf back;
  const RtImageBytes *in;
  RtImage *out;
  uint32_t *orientation;
  unsigned char *row;  // of the colors that a line has before it is mixed: rt_free
  char *error;
  size_t error_size;
} Decoder;

static void stop(j_common_ptr jpeg) {
  Decoder *d = jpeg->client_data;
  char text[JMSG_LENGTH_MAX];
  d->errors.format_message(jpeg, text);
  rt_fail(d->error, d->error_size, "%s: %s", d->in->name, text);
  longjmp(d->back, 1);
}

// libjpeg goes on behind damage with gray pixels, and calls that a warning. Bytes between parts do no harm.
static void take_message(j_common_ptr jpeg, int level) {
  int code = jpeg->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) stop(jpeg);
}

// The sentence is there.
static void give_up(Decoder *d) { longjmp(d->back, 1); }

static void count_scans(j_common_ptr jpeg) {
  Decoder *d = jpeg->client_data;
  if (d->jpeg.input_scan_number <= MOST_SCANS) return;
  rt_fail(d->error, d->error_size, "%s: more than %d scans", d->in->name, MOST_SCANS);
  give_up(d);
}

// The first block "Exif" of the file
static void read_orientation(Decoder *d) {
  for (jpeg_saved_marker_ptr m = d->jpeg.marker_list; m; m = m->next) {
    if (m->data_length < 6 || memcmp(m->data, "Exif\0", 6)) continue;
    *d->orientation = rt_exif_orientation(m->data + 6, m->data_length - 6);
    return;
  }
}

static unsigned multiply(unsigned a, unsigned b) { return (a * b + 128 + ((a * b + 128) >> 8)) >> 8; }

// Cyan, magenta, yellow and black, stored as what of the light they leave: as Adobe's files have them, and Pillow takes all
static void mix_colors(const unsigned char *cmyk, size_t n, uint32_t channels, unsigned char *out) {
  for (size_t k = 0; k < n; k++, cmyk += 4) {
    unsigned char rgb[3];
    for (int c = 0; c < 3; c++) rgb[c] = (unsigned char)(cmyk[3] - multiply(255u - cmyk[c], cmyk[3]));
    if (channels == 1) rt_image_to_gray(rgb, out + k, 1);
    else memcpy(out + 3 * k, rgb, 3);
  }
}

static void read_rows(Decoder *d) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  const uint32_t channels = d->in->channels;
  while (jpeg->output_scanline < jpeg->output_height) {
    unsigned char *to = d->out->pixels + (size_t)jpeg->output_scanline * jpeg->output_width * channels;
    JSAMPROW row = d->row ? d->row : to;
    jpeg_read_scanlines(jpeg, &row, 1);
    if (d->row && jpeg->out_color_space == JCS_CMYK) mix_colors(d->row, jpeg->output_width, channels, to);
    else if (d->row) rt_image_to_gray(d->row, to, jpeg->output_width);
  }
}

static void read_pixels(Decoder *d) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  jpeg_mem_src(jpeg, d->in->bytes, d->in->n);
  jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(jpeg, TRUE);
  if (!rt_image_alloc(d->in, jpeg->image_height, jpeg->image_width, d->in->channels, d->out, d->error, d->error_size))
    give_up(d);
  bool has_four = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  // Gray of colors is made of what they are as red, green and blue, as Pillow makes it: the file's own luma is not clipped.
  bool is_mixed = has_four || (d->in->channels == 1 && jpeg->jpeg_color_space != JCS_GRAYSCALE);
  jpeg->out_color_space = has_four ? JCS_CMYK : d->in->channels == 1 && !is_mixed ? JCS_GRAYSCALE : JCS_RGB;
  if (is_mixed && !(d->row = rt_malloc((size_t)jpeg->image_width * 4))) {
    rt_fail(d->error, d->error_size, "%s: out of memory", d->in->name);
    give_up(d);
  }
  jpeg_start_decompress(jpeg);
  read_rows(d);
  read_orientation(d);
  jpeg_finish_decompress(jpeg);
}

bool rt_jpeg_decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size) {
  Decoder d = {.in = in, .out = out, .orientation = orientation, .error = error, .error_size = error_size};
  d.jpeg.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = stop, d.errors.emit_message = take_message;
  d.jpeg.client_data = &d;
  volatile bool ok = false;
  if (!setjmp(d.back)) {
    jpeg_create_decompress(&d.jpeg);
    d.progress.progress_monitor = count_scans, d.jpeg.progress = &d.progress;
    read_pixels(&d);
    ok = true;
  }
  jpeg_destroy_decompress(&d.jpeg);
  rt_free(d.row);
  return ok;
}
#else
bool rt_jpeg_decode(const RtImageBytes *in, RtImage *out, uint32_t *orientation, char *error, size_t error_size) {
  (void)out, (void)orientation;
  return rt_fail(error, error_size, "%s: this build reads no JPEG files: libjpeg-turbo was missing", in->name);
}
#endif
