// A data set of WAV files: each is opened for its header when the set is, and again where a batch needs its frames, so that
// any number of files needs no more descriptors than there are threads.
#include "runtime/data/wav.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *path;  // in `paths`
  int64_t label;
  RtWav header;
} File;

typedef struct {
  size_t n;
  char *paths;
  File files[];
} Files;

static bool same_header(const RtWav *a, const RtWav *b) {
  return a->rate == b->rate && a->channels == b->channels && a->bytes == b->bytes && a->is_float == b->is_float &&
         a->data_at == b->data_at && a->n_frames == b->n_frames;
}

static bool get_wave(void *ctx, size_t k, RtItem *to) {
  const File *f = &((const Files *)ctx)->files[k];
  RtSource s;
  RtWav now;
  if (!rt_source_open(&s, f->path, to->error, to->error_size)) return false;
  bool ok = rt_wav_parse(&s, &now, to->error, to->error_size);
  if (ok && !same_header(&now, &f->header))
    ok = rt_fail(to->error, to->error_size, "%s: it is another file than when the data set was opened", f->path);
  ok = ok && rt_wav_read(&s, &now, 0, (size_t)now.n_frames, to->data[0], to->error, to->error_size);
  rt_source_close(&s);
  to->length[0] = (int64_t)f->header.n_frames;
  *(int64_t *)to->data[1] = f->label;
  return ok;
}

static int64_t frames_of(void *ctx, size_t k) { return (int64_t)((const Files *)ctx)->files[k].header.n_frames; }

static void free_files(void *ctx) {
  Files *s = ctx;
  rt_free(s->paths);
  rt_free(s);
}

static const RtDatasetOps wav_ops = {.get = get_wave, .length = frames_of, .free = free_files};

// ---- opening
static Files *copy_list(const RtWavFile *files, size_t n) {
  size_t bytes = 1, size;
  for (size_t k = 0; k < n; k++) bytes += strlen(files[k].path) + 1;
  if (__builtin_mul_overflow(n, sizeof(File), &size)) return NULL;
  Files *s = rt_malloc(sizeof *s + size);
  char *to = s ? rt_malloc(bytes) : NULL;
  if (!to) {
    rt_free(s);
    return NULL;
  }
  *s = (Files){.n = n, .paths = to};
  for (size_t k = 0; k < n; k++) {
    s->files[k] = (File){.path = to, .label = files[k].label};
    size_t length = strlen(files[k].path) + 1;
    memcpy(to, files[k].path, length);
    to += length;
  }
  return s;
}

static bool read_header(File *f, char *error, size_t error_size) {
  RtSource s;
  if (!rt_source_open(&s, f->path, error, error_size)) return false;
  bool ok = rt_wav_parse(&s, &f->header, error, error_size);
  rt_source_close(&s);
  return ok;
}

static bool check_header(const File *f, const RtWavOptions *o, char *error, size_t error_size) {
  if (f->header.rate != o->rate || f->header.channels != o->channels)
    return rt_fail(error, error_size,
                   "%s: %u channels at %u Hz, and the data set has %u at %u Hz: nothing is resampled or mixed", f->path,
                   f->header.channels, f->header.rate, o->channels, o->rate);
  if (o->max_frames && f->header.n_frames > o->max_frames)
    return rt_fail(error, error_size, "%s: %" PRIu64 " frames, at most %" PRIu64 " are allowed", f->path,
                   f->header.n_frames, o->max_frames);
  return true;
}

// o becomes what all files have.
static bool read_headers(Files *s, RtWavOptions *o, char *error, size_t error_size) {
  uint64_t longest = 0;
  for (size_t k = 0; k < s->n; k++) {
    File *f = &s->files[k];
    if (!read_header(f, error, error_size)) return false;
    if (!o->rate) o->rate = f->header.rate;
    if (!o->channels) o->channels = f->header.channels;
    if (!check_header(f, o, error, error_size)) return false;
    if (f->header.n_frames > longest) longest = f->header.n_frames;
  }
  if (!o->max_frames) o->max_frames = longest;
  return true;
}

RtDataset *rt_dataset_wav(const RtWavFile *files, size_t n, const RtWavOptions *given, char *error, size_t error_size) {
  RtWavOptions o = *given;
  Files *s = copy_list(files, n);
  bool ok = s || rt_fail(error, error_size, "a list of %zu files: out of memory", n);
  ok = ok && (n || rt_fail(error, error_size, "no files are given"));
  ok = ok && read_headers(s, &o, error, error_size);
  if (ok && o.max_frames > INT64_MAX) ok = rt_fail(error, error_size, "max_frames is above 2^63 - 1");
  const RtField fields[] = {{.name = "wave",
                             .dtype = RT_F32,
                             .is_variable = true,
                             .rank = 2,
                             .dims = {(int64_t)o.max_frames, (int64_t)o.channels}},
                            {.name = "label", .dtype = RT_I64}};
  RtDataset *d = ok ? rt_dataset_new(&wav_ops, s, fields, 2, n, error, error_size) : NULL;
  if (!d && s) free_files(s);
  return d;
}
