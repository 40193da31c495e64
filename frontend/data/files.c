// Data sets of files: the runtime's readers, under public names.
#include "frontend/run/run.h"
#include "runtime/data/array_files.h"
#include "runtime/data/cifar.h"
#include "runtime/data/csv.h"
#include "runtime/data/image_files.h"
#include "runtime/data/text.h"
#include "runtime/data/wav.h"

static tn_dataset *made(RtDataset *d) { return (tn_dataset *)d; }

static void *refuse(char *error, size_t error_size, const char *what) {
  rt_fail(error, error_size, "%s", what);
  return NULL;
}

// ---- arrays
static bool take_columns(RtColumn *to, const tn_column *from, uint32_t n, char *error, size_t error_size) {
  if (n > RT_MAX_FIELDS || (from && !n))
    return rt_fail(error, error_size, "%u arrays are named, 1 to %d are possible", n, RT_MAX_FIELDS);
  for (uint32_t k = 0; from && k < n; k++) {
    if (!from[k].name || (uint32_t)from[k].dtype >= RT_N_DTYPES)
      return rt_fail(error, error_size, "array %u has %s", k, from[k].name ? "an unknown dtype" : "no name");
    to[k] = (RtColumn){from[k].name, from[k].field, (RtDType)from[k].dtype};
  }
  return true;
}

typedef RtDataset *(*OpenColumns)(const RtColumn *columns, uint32_t n, char *error, size_t error_size);

static tn_dataset *open_columns(OpenColumns open, const tn_column *files, uint32_t n, char *error, size_t error_size) {
  RtColumn list[RT_MAX_FIELDS];
  if (!files) return refuse(error, error_size, "no files are given");
  if (!take_columns(list, files, n, error, error_size)) return NULL;
  return made(open(list, n, error, error_size));
}

tn_dataset *tn_dataset_npy(const tn_column *files, uint32_t n, char *error, size_t error_size) {
  return open_columns(rt_dataset_npy, files, n, error, error_size);
}

tn_dataset *tn_dataset_idx(const tn_column *files, uint32_t n, char *error, size_t error_size) {
  return open_columns(rt_dataset_idx, files, n, error, error_size);
}

tn_dataset *tn_dataset_npz_with(const char *path, const tn_npz_options *given, char *error, size_t error_size) {
  const tn_npz_options o = given ? *given : (tn_npz_options){0};
  RtColumn list[RT_MAX_FIELDS];
  if (!path) return refuse(error, error_size, "no path is given");
  if (!take_columns(list, o.columns, o.n_columns, error, error_size)) return NULL;
  return made(rt_dataset_npz(path, o.columns ? list : NULL, o.n_columns, o.max_unpacked, error, error_size));
}

tn_dataset *tn_dataset_npz(const char *path, const tn_column *columns, uint32_t n, char *error, size_t error_size) {
  return tn_dataset_npz_with(path, &(tn_npz_options){.columns = columns, .n_columns = n}, error, error_size);
}

tn_dataset *tn_dataset_safetensors(const char *path, const tn_column *columns, uint32_t n, char *error,
                                   size_t error_size) {
  RtColumn list[RT_MAX_FIELDS];
  if (!path) return refuse(error, error_size, "no path is given");
  if (!take_columns(list, columns, n, error, error_size)) return NULL;
  return made(rt_dataset_safetensors(path, columns ? list : NULL, n, error, error_size));
}

// ---- images and sound
_Static_assert((int)TN_CIFAR10 == (int)RT_CIFAR10 && (int)TN_CIFAR100 == (int)RT_CIFAR100, "one list of kinds");

tn_dataset *tn_dataset_cifar(const char *path, tn_cifar kind, char *error, size_t error_size) {
  RtSource source;
  if (!path) return refuse(error, error_size, "no path is given");
  if (kind != TN_CIFAR10 && kind != TN_CIFAR100)
    return refuse(error, error_size, "the kind is TN_CIFAR10 or TN_CIFAR100");
  if (!rt_source_open(&source, path, error, error_size)) return NULL;
  RtDataset *d = rt_dataset_cifar(&source, (RtCifar)kind, error, error_size);
  if (!d) rt_source_close(&source);
  return made(d);
}

_Static_assert(sizeof(tn_wav_file) == sizeof(RtWavFile) && offsetof(tn_wav_file, label) == offsetof(RtWavFile, label),
               "one layout");

tn_dataset *tn_dataset_wav(const tn_wav_file *files, size_t n, const tn_wav_options *given, char *error,
                           size_t error_size) {
  const tn_wav_options o = given ? *given : (tn_wav_options){0};
  if (!files && n) return refuse(error, error_size, "no files are given");
  for (size_t k = 0; k < n; k++)
    if (!files[k].path) return refuse(error, error_size, "a file has no path");
  RtWavOptions r = {.rate = o.rate, .channels = o.channels, .max_frames = o.max_frames};
  return made(rt_dataset_wav((const RtWavFile *)files, n, &r, error, error_size));
}

_Static_assert(sizeof(tn_image_file) == sizeof(RtImageFile) &&
                   offsetof(tn_image_file, label) == offsetof(RtImageFile, label),
               "one layout");

tn_dataset *tn_dataset_image_files(const tn_image_file *files, size_t n, const tn_image_file_options *o, char *error,
                                   size_t error_size) {
  if (!files && n) return refuse(error, error_size, "no files are given");
  if (!o) return refuse(error, error_size, "no size of the images is given");
  for (size_t k = 0; k < n; k++)
    if (!files[k].path) return refuse(error, error_size, "a file has no path");
  RtImageFileOptions r = {.height = o->height,
                          .width = o->width,
                          .channels = o->channels ? o->channels : 3,
                          .max_pixels = o->max_pixels ? o->max_pixels : RT_IMAGE_FILE_PIXELS,
                          .stretch = o->stretch,
                          .as_stored = o->as_stored};
  return made(rt_dataset_image_files((const RtImageFile *)files, n, &r, error, error_size));
}

// ---- tables
tn_dataset *tn_dataset_csv(const char *path, const tn_csv_options *given, char *error, size_t error_size) {
  const tn_csv_options o = given ? *given : (tn_csv_options){0};
  RtCsvField fields[RT_MAX_FIELDS];
  RtSource source;
  if (!path) return refuse(error, error_size, "no path is given");
  if (o.fields && (o.n_fields == 0 || o.n_fields > RT_MAX_FIELDS))
    return refuse(error, error_size, "1 to 16 fields are possible");
  for (uint32_t k = 0; o.fields && k < o.n_fields; k++) {
    const tn_csv_field *f = &o.fields[k];
    fields[k] = (RtCsvField){f->name,      (RtDType)f->dtype, f->columns,   f->n_columns,
                             f->is_scalar, f->classes,        f->n_classes, f->missing_as};
    for (uint32_t i = 0; f->columns && i < f->n_columns; i++)
      if (!f->columns[i]) return refuse(error, error_size, "a column has no name");
  }
  if (!rt_source_open(&source, path, error, error_size)) return NULL;
  RtCsvOptions r = {.delimiter = o.delimiter,
                    .no_header = o.no_header,
                    .fields = o.fields ? fields : NULL,
                    .n_fields = o.n_fields,
                    .allow_missing = o.allow_missing,
                    .missing = o.missing,
                    .fill = o.fill};
  RtDataset *d = rt_dataset_csv(&source, &r, error, error_size);
  if (!d) rt_source_close(&source);
  return made(d);
}

// ---- text
static RtVocabulary *vocabulary(const tn_vocabulary *v) { return (RtVocabulary *)(uintptr_t)v; }

tn_vocabulary *tn_vocabulary_read(const char *path, bool utf8, char *error, size_t error_size) {
  RtSource source;
  if (!path) return refuse(error, error_size, "no path is given");
  if (!rt_source_open(&source, path, error, error_size)) return NULL;
  RtVocabulary *v = rt_vocabulary_of(&source, utf8, error, error_size);
  rt_source_close(&source);
  return (tn_vocabulary *)v;
}

tn_vocabulary *tn_vocabulary_new(const uint32_t *symbols, size_t n, bool utf8, char *error, size_t error_size) {
  if (!symbols && n) return refuse(error, error_size, "no symbols are given");
  return (tn_vocabulary *)rt_vocabulary_new(symbols, n, utf8, error, error_size);
}

void tn_vocabulary_free(tn_vocabulary *v) { rt_free(v); }
size_t tn_vocabulary_size(const tn_vocabulary *v) { return v ? vocabulary(v)->n : 0; }
const uint32_t *tn_vocabulary_symbols(const tn_vocabulary *v) { return v ? vocabulary(v)->symbol : NULL; }

int64_t tn_vocabulary_id(const tn_vocabulary *v, uint32_t symbol) {
  return v ? rt_vocabulary_id(vocabulary(v), symbol) : -1;
}

size_t tn_vocabulary_bytes(const tn_vocabulary *v, int64_t id, char out[4]) {
  return v ? rt_vocabulary_bytes(vocabulary(v), id, out) : 0;
}

size_t tn_vocabulary_encode(const tn_vocabulary *v, const char *text, size_t n, int64_t *ids, size_t max, char *error,
                            size_t error_size) {
  if (v && (text || !n) && (ids || !max))
    return rt_vocabulary_encode(vocabulary(v), text, n, ids, max, error, error_size);
  refuse(error, error_size, "a vocabulary, text or list is missing");
  return SIZE_MAX;
}

tn_dataset *tn_dataset_text(const char *path, const tn_vocabulary *v, int64_t window, int64_t stride, char *error,
                            size_t error_size) {
  RtSource source;
  if (!path || !v) return refuse(error, error_size, path ? "no vocabulary is given" : "no path is given");
  if (!rt_source_open(&source, path, error, error_size)) return NULL;
  RtDataset *d = rt_dataset_text(&source, vocabulary(v), window, stride ? stride : window, error, error_size);
  if (!d) rt_source_close(&source);
  return made(d);
}
