#include "runtime/data/image_codec.h"

#ifdef TN_HAS_JPEG
#include <setjmp.h>
#include <stdio.h>

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

static void count_scans(j_common_ptr jpeg) {
  Decoder *d = jpeg->client_data;
  if (d->jpeg.input_scan_number <= MOST_SCANS) return;
  rt_fail(d->error, d->error_size, "%s: more than %d scans", d->in->name, MOST_SCANS);
  longjmp(d->back, 1);
}

static void read_pixels(Decoder *d) {
  struct jpeg_decompress_struct *jpeg = &d->jpeg;
  jpeg_mem_src(jpeg, d->in->bytes, d->in->n);
  jpeg_read_header(jpeg, TRUE);
  if (!rt_image_alloc(d->in, jpeg->image_height, jpeg->image_width, d->out, d->error, d->error_size))
    longjmp(d->back, 1);
  jpeg->out_color_space = d->in->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = d->out->pixels + (size_t)jpeg->output_scanline * jpeg->output_width * d->in->channels;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
}

bool rt_jpeg_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  Decoder d = {.in = in, .out = out, .error = error, .error_size = error_size};
  d.jpeg.err = jpeg_std_error(&d.errors);
  d.errors.error_exit = stop, d.errors.emit_message = take_message;
  d.jpeg.client_data = &d;
  if (setjmp(d.back)) {
    jpeg_destroy_decompress(&d.jpeg);
    return false;
  }
  jpeg_create_decompress(&d.jpeg);
  d.progress.progress_monitor = count_scans, d.jpeg.progress = &d.progress;
  read_pixels(&d);
  jpeg_destroy_decompress(&d.jpeg);
  return true;
}
#else
bool rt_jpeg_decode(const RtImageBytes *in, RtImage *out, char *error, size_t error_size) {
  (void)out;
  return rt_fail(error, error_size, "%s: this build reads no JPEG files: libjpeg-turbo was missing", in->name);
}
#endif
