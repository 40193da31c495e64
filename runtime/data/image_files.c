#include "runtime/data/image_files.h"
#include "runtime/data/image_codec.h"
#include "runtime/store/byte_source.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  const char *path;  // in `paths`
  int64_t label;
} File;

typedef struct {
  RtImageFileOptions o;
  char *paths;
  File files[];
} Files;

// Where the result lies in the resized image: as `stretch` says, all of it, or the middle of one that covers it.
static RtImageFrame frame_of(const RtImage *image, const RtImageFileOptions *o) {
  RtImageFrame f = {.scaled = {o->height, o->width}, .size = {o->height, o->width}};
  if (o->stretch) return f;
  double down = (double)o->height / (double)image->height, across = (double)o->width / (double)image->width;
  if (down < across) f.scaled[0] = (int64_t)((double)image->height * across + 0.5);
  else f.scaled[1] = (int64_t)((double)image->width * down + 0.5);
  for (int d = 0; d < 2; d++) {
    if (f.scaled[d] < f.size[d]) f.scaled[d] = f.size[d];
    f.at[d] = (f.scaled[d] - f.size[d]) / 2;
  }
  return f;
}

static unsigned char *read_all(const RtSource *s, char *error, size_t error_size) {
  if (s->size > RT_IMAGE_FILE_BYTES) {
    rt_fail(error, error_size, "%s: %" PRIu64 " bytes, at most %d are read", s->name, s->size, RT_IMAGE_FILE_BYTES);
    return NULL;
  }
  unsigned char *bytes = rt_malloc(s->size + 1);
  if (!bytes) rt_fail(error, error_size, "%s: out of memory", s->name);
  if (bytes && rt_source_read(s, 0, bytes, (size_t)s->size, error, error_size)) return bytes;
  rt_free(bytes);
  return NULL;
}

static bool decode_file(const Files *m, const char *path, RtImage *out, char *error, size_t error_size) {
  RtSource s;
  if (!rt_source_open(&s, path, error, error_size)) return false;
  unsigned char *bytes = read_all(&s, error, error_size);
  const RtImageBytes in = {.name = s.name,
                           .bytes = bytes,
                           .n = (size_t)s.size,
                           .channels = m->o.channels,
                           .max_pixels = m->o.max_pixels,
                           .as_stored = m->o.as_stored};
  bool ok = bytes && rt_image_decode(&in, out, error, error_size);
  rt_free(bytes);
  rt_source_close(&s);
  return ok;
}

static bool get_image(void *ctx, size_t k, RtItem *to) {
  const Files *m = ctx;
  RtImage image = {0};
  if (!decode_file(m, m->files[k].path, &image, to->error, to->error_size)) return false;
  const RtImageFrame frame = frame_of(&image, &m->o);
  bool ok = rt_image_resample(&image, m->o.channels, &frame, to->data[0]);
  rt_free(image.pixels);
  *(int64_t *)to->data[1] = m->files[k].label;
  return ok || rt_fail(to->error, to->error_size, "%s: out of memory", m->files[k].path);
}

static void free_files(void *ctx) {
  Files *m = ctx;
  rt_free(m->paths);
  rt_free(m);
}

static const RtDatasetOps image_ops = {.get = get_image, .free = free_files};

static Files *copy_list(const RtImageFile *files, size_t n, const RtImageFileOptions *o) {
  size_t bytes = 1, size;
  for (size_t k = 0; k < n; k++) bytes += strlen(files[k].path) + 1;
  if (__builtin_mul_overflow(n, sizeof(File), &size)) return NULL;
  Files *m = rt_malloc(sizeof *m + size);
  char *to = m ? rt_malloc(bytes) : NULL;
  if (!to) return rt_free(m), NULL;
  m->o = *o, m->paths = to;
  for (size_t k = 0; k < n; k++) {
    size_t length = strlen(files[k].path) + 1;
    m->files[k] = (File){memcpy(to, files[k].path, length), files[k].label};
    to += length;
  }
  return m;
}

static bool check_options(const RtImageFileOptions *o, size_t n, char *error, size_t error_size) {
  if (!n) return rt_fail(error, error_size, "no files are given");
  if (o->height < 1 || o->height > RT_IMAGE_FILE_SIDE || o->width < 1 || o->width > RT_IMAGE_FILE_SIDE)
    return rt_fail(error, error_size, "images become %" PRId64 " x %" PRId64 " pixels: 1 to %d are possible", o->height,
                   o->width, RT_IMAGE_FILE_SIDE);
  return o->channels == 1 || o->channels == 3 ||
         rt_fail(error, error_size, "images have %" PRIu32 " channels: 1, gray, or 3, red, green and blue",
                 o->channels);
}

RtDataset *rt_dataset_image_files(const RtImageFile *files, size_t n, const RtImageFileOptions *o, char *error,
                                  size_t error_size) {
  if (!check_options(o, n, error, error_size)) return NULL;
  Files *m = copy_list(files, n, o);
  if (!m) return rt_fail(error, error_size, "a list of %zu files: out of memory", n), NULL;
  const RtField fields[] = {
      {.name = "image", .dtype = RT_F32, .rank = 3, .dims = {(int64_t)o->channels, o->height, o->width}},
      {.name = "label", .dtype = RT_I64}};
  RtDataset *d = rt_dataset_new(&image_ops, m, fields, 2, n, error, error_size);
  if (!d) free_files(m);
  return d;
}
