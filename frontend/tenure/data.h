// Tenure, data sets: items of named fields, from arrays, files or the user's own code.
//
// Calls that make something take a buffer for one sentence about what was wrong; it may be NULL.
#ifndef TN_DATA_H
#define TN_DATA_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- UEA/UCR .ts files (multivariate time series): classes by @classLabel, or targets of a regression by @targetLabel
typedef struct tn_series tn_series;
// NULL: `error` says file:line and why
TN_API tn_series *tn_series_read(const char *path, char *error, size_t error_size);
// Values `?` and `NaN`
typedef enum {
  TN_MISSING_REFUSE,  // are errors
  TN_MISSING_NAN,     // are NaN
  TN_MISSING_MASK     // are 0, and tn_series_mask says where
} tn_missing;
typedef struct {
  tn_missing missing;
} tn_series_options;  // NULL: nothing may be missing
TN_API tn_series *tn_series_read_with(const char *path, const tn_series_options *o, char *error, size_t error_size);
TN_API void tn_series_free(tn_series *s);
TN_API size_t tn_series_count(const tn_series *s);
TN_API uint32_t tn_series_features(const tn_series *s);
TN_API uint32_t tn_series_max_length(const tn_series *s);
TN_API uint32_t tn_series_classes(const tn_series *s);  // 0: of a regression
TN_API uint32_t tn_series_length(const tn_series *s, size_t k);
TN_API uint32_t tn_series_label(const tn_series *s, size_t k);       // 0-based, in the order of the header's class list
TN_API float tn_series_target(const tn_series *s, size_t k);         // of a regression; else 0
TN_API const float *tn_series_values(const tn_series *s, size_t k);  // [length, features]
TN_API const float *tn_series_mask(const tn_series *s, size_t k);    // the same: 0 where a value is missing, else 1
TN_API void tn_shuffle(size_t *order, size_t n, uint64_t seed);      // 0 .. n-1 in an order fixed by the seed

// ---- data sets: items of named fields. Freed in any order with the loaders and data sets made from them.
typedef struct tn_dataset tn_dataset;
enum { TN_MAX_FIELDS = 16 };
typedef struct {
  const char *name;
  tn_dtype dtype;
  bool is_variable;  // the first axis differs from item to item; dims[0] is its bound
  uint32_t rank;     // of one item, at most 7
  int64_t dims[7];   // of one item
} tn_field;

// Where one item goes. Data is contiguous and row-major, with room for the field's dims.
typedef struct {
  void *data[TN_MAX_FIELDS];      // by field
  int64_t length[TN_MAX_FIELDS];  // of variable fields: how long the first axis is, in [0, bound]; set by the data set
  char *error;                    // one sentence why it failed
  size_t error_size;
  uint64_t epoch;      // for which it is read: what is random may depend on it and the item's number
  const void *loader;  // private
} tn_item;
// The loader is being stopped: a get that waits for something should give up (return false, in any state).
TN_API bool tn_item_is_stopped(const tn_item *item);

// A data set of the user's. `get` is called by several threads at once, `next` by one at a time.
typedef struct {
  bool (*get)(void *ctx, size_t k, tn_item *to);  // item k; false: to->error says why
  int64_t (*length)(void *ctx, size_t k);         // of item k without reading it, for length buckets; NULL: unknown
  // Streams, which have no `get`: the next item (1), the end (0), an error in the place of an item (-1), behind which
  // it is asked for the one after; and back to the first item. Who cannot go on behind an error gives 0 then.
  int (*next)(void *ctx, tn_item *to);
  bool (*rewind)(void *ctx, uint64_t epoch, char *error, size_t error_size);
  void (*interrupt)(void *ctx);  // the loader stops: wakes a get or next that waits; NULL: none ever waits long
  void (*free)(void *ctx);       // with the last user of the data set; NULL: nothing
} tn_dataset_type;
#define TN_STREAM SIZE_MAX  // the count of a data set without known end
// *type, fields and their names are copied; ctx stays the caller's when the call fails.
TN_API tn_dataset *tn_dataset_new(const tn_dataset_type *type, void *ctx, const tn_field *fields, uint32_t n_fields,
                                  size_t count, char *error, size_t error_size);
TN_API void tn_dataset_free(tn_dataset *d);  // NULL: nothing
TN_API size_t tn_dataset_count(const tn_dataset *d);
TN_API uint32_t tn_dataset_fields(const tn_dataset *d);
// Names are the data set's. A field that does not exist has rank 0 and a NULL name.
TN_API tn_field tn_dataset_field(const tn_dataset *d, uint32_t k);

// Arrays in the caller's memory, side by side: item k is row k of each. First dims must agree (E111). Names: "0", "1",
// .. for NULL. Batches of consecutive rows are views of the arrays, nothing is copied; do not write through them.
TN_API tn_dataset *tn_dataset_arrays(const tn_array *arrays, uint32_t n, const char *const *names, char *error,
                                     size_t error_size);
// Fields x [<= longest, features] and label [], or f32 target []; read with TN_MISSING_MASK also mask, like x. s must
// outlive it.
TN_API tn_dataset *tn_dataset_series(const tn_series *s, char *error, size_t error_size);
// Items index[0], index[1], .. of d; copied
TN_API tn_dataset *tn_dataset_subset(tn_dataset *d, const size_t *index, size_t n, char *error, size_t error_size);
// One after the other; fields must have the same dtypes and dims, bounds of variable ones may differ
TN_API tn_dataset *tn_dataset_concat(tn_dataset *const *list, uint32_t n, char *error, size_t error_size);
// Documents: item k is the next lengths[k] items of d, one behind the other, so that a field [..] of d becomes a variable one
// [<= longest, ..]. d has as many items as the `count` lengths have in all (E111), and no variable fields. Lengths may be
// 0; they are copied. Of arrays and files (.npy, .npz, safetensors, IDX) a document is read at once, and one that a batch has
// no room for is cut without reading all of it (tn_cut).
//
//   tn_column file = {.name = "tokens.npy", .field = "token"};  // of all documents
//   tn_dataset *tokens = tn_dataset_npy(&file, 1, why, sizeof why);
//   tn_dataset *d = tn_dataset_ragged(tokens, document_lengths, n_documents, why, sizeof why);  // token [<= longest]
TN_API tn_dataset *tn_dataset_ragged(tn_dataset *d, const int64_t *lengths, size_t count, char *error,
                                     size_t error_size);
// Other fields computed from each item; by several threads at once
typedef bool (*tn_map)(void *ctx, size_t k, const tn_item *from, tn_item *to);
TN_API tn_dataset *tn_dataset_map(tn_dataset *d, const tn_field *fields, uint32_t n_fields, tn_map fn, void *ctx,
                                  char *error, size_t error_size);

// Images, field by field of one size: f32 [height, width] or [channels, height, width] becomes [channels, height, width].
// In this order: resized (bilinear, between centres of pixels), padded with zeros, cropped, flipped, normalised to
// (x scale - mean) / std. Other fields stay. The threads of the loader do it; what is random depends on seed, epoch and
// the item's number in d alone. A size that does not fit, a field that holds no images: NULL and a sentence.
//
//   tn_image_options o = {.padding = 4, .crop = {32, 32}, .random_crop = true, .random_flip = true, .scale = 1.0 / 255,
//                         .mean = (float[]){0.491f, 0.482f, 0.447f}, .std = (float[]){0.247f, 0.243f, 0.262f},
//                         .n_channels = 3};
//   tn_dataset *train = tn_dataset_images(cifar, &o, why, sizeof why);   // image [3, 32, 32]
typedef struct {
  const char *field;        // NULL: "image"
  int64_t resize[2];        // height, width; 0: as they are
  int64_t padding;          // zeros on each side
  int64_t crop[2];          // height, width; 0: as they are
  bool random_crop;         // from anywhere; else from the middle
  bool random_flip;         // left to right, every other time
  double scale;             // 0: 1
  const float *mean, *std;  // [n_channels]; NULL: 0 and 1
  uint32_t n_channels;      // of mean and std; 1: the same for all
  uint64_t seed;
} tn_image_options;
TN_API tn_dataset *tn_dataset_images(tn_dataset *d, const tn_image_options *o, char *error, size_t error_size);

// ---- data files. Items are read from the file where a batch needs them, with pread: a set may be larger than memory
// or address space, and a file that is cut short meanwhile gives an error of the loader, not a signal. What cannot be
// read row by row, deflated members of .npz and arrays in Fortran order, is brought to memory when the set is opened.
// Rows in which no array has a number, as in shape [5, 0], are refused: nothing in the file bears out their number.
// What files from others can and cannot do: docs/security.md.
typedef struct {
  const char *name;   // of the array in its file; .npy, IDX: the file
  const char *field;  // NULL: the same; .npy, IDX: the file's name without folder and ending
  tn_dtype dtype;     // 0: f32 for floats, i64 for integers and bools; whole numbers may be read as any that holds them
} tn_column;
// Arrays of one first dim (E111), item k being row k of each. f2 f4 f8, i1 to i8, u1 to u8, bool; either byte order.
TN_API tn_dataset *tn_dataset_npy(const tn_column *files, uint32_t n, char *error, size_t error_size);
// The same of IDX files, in which MNIST and its kin come, of u8, i8, i16, i32, f32 and f64. Bytes with dtype TN_F32 are 0 to
// 255. Files packed by gzip are brought to memory when the set is opened, 4 GiB at most.
//
//   tn_column files[] = {{.name = "train-images-idx3-ubyte", .field = "image", .dtype = TN_F32},   // [28, 28]
//                        {.name = "train-labels-idx1-ubyte", .field = "label"}};                   // []
//   tn_dataset *d = tn_dataset_idx(files, 2, why, sizeof why);
TN_API tn_dataset *tn_dataset_idx(const tn_column *files, uint32_t n, char *error, size_t error_size);
// Columns NULL and n 0: all arrays of the file, .npz in its order, safetensors by name (bf16 too).
TN_API tn_dataset *tn_dataset_npz(const char *path, const tn_column *columns, uint32_t n, char *error,
                                  size_t error_size);
typedef struct {
  const tn_column *columns;  // as above
  uint32_t n_columns;
  uint64_t max_unpacked;  // bytes that deflated members may take in memory, all together; 0: 4 GiB
} tn_npz_options;
TN_API tn_dataset *tn_dataset_npz_with(const char *path, const tn_npz_options *o, char *error, size_t error_size);
TN_API tn_dataset *tn_dataset_safetensors(const char *path, const tn_column *columns, uint32_t n, char *error,
                                          size_t error_size);

// A binary file of CIFAR (`.bin`; several are one by tn_dataset_concat): fields image f32 [3, 32, 32], 0 to 255,
// label i64 [], and of CIFAR-100, where label is the fine one, coarse i64 []. Labels are checked when it is opened.
typedef enum { TN_CIFAR10 = 10, TN_CIFAR100 = 100 } tn_cifar;
TN_API tn_dataset *tn_dataset_cifar(const char *path, tn_cifar kind, char *error, size_t error_size);

// PNG and JPEG files, an item each: fields image f32 [channels, height, width], 0 to 255, and label i64 []. A file is opened,
// decoded and resized where a batch needs it, by the loader's threads; a file that is missing, damaged, cut short or too
// large is an error of its batch. Pixels are Pillow's: palettes, gray and CMYK become what `channels` says, and
// transparency is passed over. Of 16 bits the upper 8 are taken, of gray too, where Pillow's are 255 at most. An image is turned
// as the camera was held (EXIF). A build without libpng or libjpeg-turbo says so. What follows, random parts and mirrored images, numbers around 0, is tn_dataset_images:
//
//   tn_dataset *photos = tn_dataset_image_files(files, n, &(tn_image_file_options){.height = 256, .width = 256}, why, sizeof why);
//   tn_dataset *d = tn_dataset_images(photos, &(tn_image_options){.crop = {224, 224}, .random_crop = true, .random_flip = true,
//                                     .scale = 1 / 255.0, .mean = mean, .std = std, .n_channels = 3}, why, sizeof why);
typedef struct {
  const char *path;
  int64_t label;
} tn_image_file;
typedef struct {
  // Of every image: a file's is resized until it covers this size, and the middle is kept. Images that shrink are smoothed.
  int64_t height, width;
  bool stretch;         // resized to this very size instead, whatever its proportions
  bool as_stored;       // not turned
  uint32_t channels;    // 1: gray; 3: red, green, blue; 0: 3
  uint64_t max_pixels;  // of a file, larger ones are errors; 0: 2^26
} tn_image_file_options;
TN_API tn_dataset *tn_dataset_image_files(const tn_image_file *files, size_t n, const tn_image_file_options *o,
                                          char *error, size_t error_size);

// WAV files, an item each: fields wave f32 [<= longest, channels] and label i64 []. PCM of 8, 16, 24 and 32 bits is divided
// by 2^(bits - 1) and lies in [-1, 1]; floats of 32 and 64 bits stay as they are. All have one rate and one number of
// channels: nothing is resampled or mixed. Headers are read when it is opened, frames where a batch needs them. What a
// program wrote to a pipe, without sizes ('data' of 2^32 - 1 bytes, or of 0 where RIFF ends there, too), goes to the file's end.
typedef struct {
  const char *path;
  int64_t label;
} tn_wav_file;
typedef struct {
  uint32_t rate, channels;  // Hz, numbers of a frame; 0: those of the first file. Others are errors
  uint64_t max_frames;      // the bound of a wave; 0: the longest file's. Longer ones are errors
} tn_wav_options;           // NULL: as the files are
TN_API tn_dataset *tn_dataset_wav(const tn_wav_file *files, size_t n, const tn_wav_options *o, char *error,
                                  size_t error_size);

// CSV as RFC 4180 has it; lines end with CR LF, LF or CR alone. Opening checks every cell that is used: an error names line
// and column. Numbers are decimal, with a point in any locale: no hexadecimal ones, no "inf" or "nan"; whole numbers are in
// their dtype's range, those of f16 and bf16 rounded to nearest even, and bools are 0, 1, false, true, False or True. 8 bytes
// of memory for each line.
typedef struct {
  const char *name;
  tn_dtype dtype;              // any; 0: f32, or i64 with classes
  const char *const *columns;  // names of the header, each on one column; or "0", "1", .. without one
  uint32_t n_columns;          // the item is [n_columns]
  bool is_scalar;              // of one column: the item is []
  const char *const *classes;  // texts: the item is the cell's place in this list
  uint32_t n_classes;
  // What a missing cell is read as: a number, "nan" of floats, or one of `classes`. NULL: a missing class or whole number is an
  // error, a missing float is `fill`. A class may also be listed by the missing cell's own text, as "".
  const char *missing_as;
} tn_csv_field;
typedef struct {
  char delimiter;  // 0: ','
  bool no_header;
  const tn_csv_field *fields;  // NULL: one field "x" of all columns, f32
  uint32_t n_fields;
  bool allow_missing;   // floats that are missing, of fields without `missing_as`, become `fill`; else they are errors
  const char *missing;  // the text of a missing cell, beside the empty one; NULL: only empty cells are missing
  double fill;          // of floats alone: 0 would be a class, or a whole number, like any other
} tn_csv_options;       // NULL: all columns, commas, a header, nothing missing
TN_API tn_dataset *tn_dataset_csv(const char *path, const tn_csv_options *o, char *error, size_t error_size);

// Text: symbols are bytes or code points of UTF-8, ids their places in the ascending vocabulary. A byte order mark in
// front of UTF-8 is no symbol.
typedef struct tn_vocabulary tn_vocabulary;
TN_API tn_vocabulary *tn_vocabulary_read(const char *path, bool utf8, char *error, size_t error_size);  // of a file
TN_API tn_vocabulary *tn_vocabulary_new(const uint32_t *symbols, size_t n, bool utf8, char *error, size_t error_size);
TN_API void tn_vocabulary_free(tn_vocabulary *v);
TN_API size_t tn_vocabulary_size(const tn_vocabulary *v);
TN_API const uint32_t *tn_vocabulary_symbols(const tn_vocabulary *v);      // ascending; to be kept in a tn_extra
TN_API int64_t tn_vocabulary_id(const tn_vocabulary *v, uint32_t symbol);  // -1: none
TN_API size_t tn_vocabulary_bytes(const tn_vocabulary *v, int64_t id, char out[4]);  // written; 0: no such id
// Gives the number of symbols in `text` and writes their ids, at most max; SIZE_MAX: one has none, or is no UTF-8
TN_API size_t tn_vocabulary_encode(const tn_vocabulary *v, const char *text, size_t n, int64_t *ids, size_t max,
                                   char *error, size_t error_size);
// Fields x [window] and y [window], y one symbol ahead; item k begins at symbol k * stride (0: window). Symbols beyond
// the vocabulary are errors. In memory is 1 byte for 128 symbols of UTF-8, nothing for bytes; v is copied.
TN_API tn_dataset *tn_dataset_text(const char *path, const tn_vocabulary *v, int64_t window, int64_t stride,
                                   char *error, size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
