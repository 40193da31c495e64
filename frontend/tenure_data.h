// Tenure: feeding. Data sets, the order of their items, and loaders that build batches beside the training.
//
//   char why[512];
//   tn_series *s = tn_series_read("train.ts", why, sizeof why);
//   tn_dataset *d = tn_dataset_series(s, why, sizeof why);          // fields x [<= T, F] and label []
//   tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 30, .workers = 1, .seed = 7,
//                                                        .sampler = {.kind = TN_SHUFFLED}}, why, sizeof why);
//   for (int epoch = 0; epoch < 40; epoch++)
//     for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number;)  // arrays x [B, longest, F], lengths [B], label [B]
//       if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss)))) return 1;
//   tn_loader_free(l), tn_dataset_free(d), tn_series_free(s);
//
// The same seed gives the same batches in the same order, whatever the number of workers. All memory of a loader is
// taken when it is made: one input arena of prefetch + 1 batches, and for a shuffled order 8 bytes for each item.
// Calls that make something take a buffer for one sentence about what was wrong; it may be NULL.
#ifndef TENURE_DATA_H
#define TENURE_DATA_H

#include "tenure.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- UEA/UCR .ts files (multivariate time series classification)
typedef struct tn_series tn_series;
// NULL: `error` says file:line and why
TN_API tn_series *tn_series_read(const char *path, char *error, size_t error_size);
TN_API void tn_series_free(tn_series *s);
TN_API size_t tn_series_count(const tn_series *s);
TN_API uint32_t tn_series_features(const tn_series *s);
TN_API uint32_t tn_series_max_length(const tn_series *s);
TN_API uint32_t tn_series_classes(const tn_series *s);
TN_API uint32_t tn_series_length(const tn_series *s, size_t k);
TN_API uint32_t tn_series_label(const tn_series *s, size_t k);       // 0-based, in the order of the header's class list
TN_API const float *tn_series_values(const tn_series *s, size_t k);  // [length, features]
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
// Fields x [<= longest, features] and label []; s must outlive it
TN_API tn_dataset *tn_dataset_series(const tn_series *s, char *error, size_t error_size);
// Items index[0], index[1], .. of d; copied
TN_API tn_dataset *tn_dataset_subset(tn_dataset *d, const size_t *index, size_t n, char *error, size_t error_size);
// One after the other; fields must have the same dtypes and dims, bounds of variable ones may differ
TN_API tn_dataset *tn_dataset_concat(tn_dataset *const *list, uint32_t n, char *error, size_t error_size);
// Other fields computed from each item; by several threads at once
typedef bool (*tn_map)(void *ctx, size_t k, const tn_item *from, tn_item *to);
TN_API tn_dataset *tn_dataset_map(tn_dataset *d, const tn_field *fields, uint32_t n_fields, tn_map fn, void *ctx,
                                  char *error, size_t error_size);

// ---- data files. Items are read from the file where a batch needs them, with pread: a set may be larger than memory
// or address space, and a file that is cut short meanwhile gives an error of the loader, not a signal. What cannot be
// read row by row, deflated members of .npz and arrays in Fortran order, is brought to memory when the set is opened.
typedef struct {
  const char *name;   // of the array in its file; .npy: the file
  const char *field;  // NULL: the same; .npy: the file's name without folder and ending
  tn_dtype dtype;     // 0: f32 for floats, i64 for integers and bools; i64 arrays may be read as f32
} tn_column;
// Arrays of one first dim (E111), item k being row k of each. f2 f4 f8, i1 to i8, u1 to u8, bool; either byte order.
TN_API tn_dataset *tn_dataset_npy(const tn_column *files, uint32_t n, char *error, size_t error_size);
// Columns NULL and n 0: all arrays of the file, .npz in its order, safetensors by name (bf16 too).
TN_API tn_dataset *tn_dataset_npz(const char *path, const tn_column *columns, uint32_t n, char *error,
                                  size_t error_size);
TN_API tn_dataset *tn_dataset_safetensors(const char *path, const tn_column *columns, uint32_t n, char *error,
                                          size_t error_size);

// CSV as RFC 4180 has it. Opening checks every cell that is used: an error names line and column. Numbers are decimal,
// with a point in any locale: no hexadecimal ones, no "inf" or "nan". 8 bytes of memory for each line.
typedef struct {
  const char *name;
  tn_dtype dtype;              // 0: f32, or i64 with classes
  const char *const *columns;  // names of the header, each on one column; or "0", "1", .. without one
  uint32_t n_columns;          // the item is [n_columns]
  bool is_scalar;              // of one column: the item is []
  const char *const *classes;  // texts: the item is the cell's place in this list
  uint32_t n_classes;
} tn_csv_field;
typedef struct {
  char delimiter;  // 0: ','
  bool no_header;
  const tn_csv_field *fields;  // NULL: one field "x" of all columns, f32
  uint32_t n_fields;
  bool allow_missing;   // empty cells, and those that are the text `missing`, become `fill`; else they are errors
  const char *missing;  // NULL: only empty ones
  double fill;
} tn_csv_options;  // NULL: all columns, commas, a header, nothing missing
TN_API tn_dataset *tn_dataset_csv(const char *path, const tn_csv_options *o, char *error, size_t error_size);

// Text: symbols are bytes or code points of UTF-8, ids their places in the ascending vocabulary.
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

// ---- the order of items. Every epoch has its own, made of seed and epoch.
typedef enum {
  TN_SEQUENTIAL,  // as in the data set
  TN_SHUFFLED,    // a permutation
  TN_BUCKETS,     // shuffled, then batches of similar lengths: items of `pool` batches are sorted by length and cut
                  // into batches, whose order is shuffled; a short batch stays last
  TN_LANES,       // for text that goes on from batch to batch: item i of batch k is i * n_batches + k; what does not
                  // fill a batch is dropped
  TN_CUSTOM       // `custom`, the same in each epoch
} tn_sampler_kind;
typedef enum { TN_TAIL_PAD, TN_TAIL_DROP } tn_tail;
typedef struct {
  tn_sampler_kind kind;
  uint32_t pool;         // BUCKETS: batches that are sorted together; 0: 16
  const size_t *custom;  // CUSTOM: items, any number of times each; read until the loader is freed
  size_t n_custom;
  // One of `world` processes that train together; 0: alone. Rank r takes items r, r + world, .. of the common order,
  // all ranks equally many: PAD repeats items from its beginning, DROP leaves the last ones out.
  uint32_t rank, world;
  tn_tail tail;
} tn_sampler;

// ---- loaders
typedef struct tn_loader tn_loader;
// One batch of a loader: valid until the next tn_loader_next, or until the loader is freed. Handles of dead batches are
// told apart from live ones: their arrays are NULL, and tn_run_batch refuses them.
typedef struct {
  uint64_t owner, number;  // number 0: none
} tn_batch;

// How a variable field becomes arrays. Each has a second array behind it, its lengths i64 [B], named "FIELD.lengths".
typedef enum {
  TN_PADDED,       // [B, longest, ..], zero behind each length
  TN_TIME_MAJOR,   // [longest, B, ..], zero behind each length
  TN_CONCATENATED  // [sum of lengths, ..], one item after the other
} tn_layout;

// What a collation of the user's gets: arrays[i * n_fields + f] is field f of the batch's item i
typedef struct {
  const tn_array *arrays;
  uint32_t n_fields;
  size_t n;             // items
  const size_t *index;  // which of the data set; NULL: it is a stream
} tn_items;
typedef struct {
  const tn_field *fields;  // the arrays of a batch, batch axis included; dims are bounds
  uint32_t n_fields;
  // Fills out[0 ..] and sets the dims that are below their bounds. By several threads at once.
  bool (*fn)(void *ctx, const tn_items *items, tn_array *out, char *error, size_t error_size);
  void *ctx;
} tn_collate;

typedef struct {
  size_t batch_size;  // 0: 1
  uint32_t workers;   // threads that read; 0: tn_loader_next does it. A stream has at most one.
  uint32_t prefetch;  // batches that are read ahead; 0: 2, or as many as there are workers
  bool drop_last;     // leaves out a last batch of fewer items
  uint64_t seed;
  tn_sampler sampler;
  tn_layout layout;
  tn_collate collate;         // fn NULL: stacks items as `layout` says
  const char *const *inputs;  // names: the batch has these arrays in this order; NULL: all, in the order of the fields
  uint32_t n_inputs;
} tn_loader_options;  // NULL: batches of 1, in order, without threads
TN_API tn_loader *tn_loader_new(tn_dataset *d, const tn_loader_options *o, char *error, size_t error_size);
TN_API void tn_loader_free(tn_loader *l);           // at any time: threads are stopped and joined
TN_API size_t tn_loader_count(const tn_loader *l);  // batches of an epoch; TN_STREAM: unknown
TN_API size_t tn_loader_bytes(const tn_loader *l);  // of the input arena, taken once

// The next batch; number 0 at the end of the epoch, after which the next call begins another one. An error of the data
// set or of the collation comes in the place of its batch (tn_loader_error names the item); the call after it goes on
// behind that batch, in a stream too. A stream that cannot be brought to its beginning is an epoch of one error.
// A forked child may go on with the loaders of its parent: each gives the batches that come next there, from threads of
// its own and, in a stream, read again from the beginning.
TN_API tn_status tn_loader_next(tn_loader *l, tn_batch *out);
TN_API const char *tn_loader_error(const tn_loader *l);  // of the last call that failed; "" when none did
// From a signal handler or another thread, any number of times: tn_loader_next gives no more batches, at once, until
// tn_loader_set_state. The state stays that of the batches given out, so that a checkpoint written then goes on with
// the next one.
TN_API void tn_loader_stop(tn_loader *l);
TN_API bool tn_loader_is_stopped(const tn_loader *l);

// Where a loader stands: the batch that comes next. Plain data, to be saved beside the model (tn_extra); a loader of
// the same data set and options goes on from there with the same batches, with any number of workers.
typedef struct {
  uint64_t seed, epoch, position;  // position: batches of this epoch given out so far
  uint64_t identity;               // of count, batch size and sampler, which must be the same
} tn_loader_state;
TN_API tn_loader_state tn_loader_get_state(const tn_loader *l);
TN_API tn_status tn_loader_set_state(tn_loader *l, tn_loader_state s);  // TN_ERR_ARGUMENT: of another loader

TN_API bool tn_batch_is_live(tn_batch b);
TN_API const tn_array *tn_batch_arrays(tn_batch b, size_t *n);  // in the order of inputs; NULL and 0: the batch is dead
TN_API tn_array tn_batch_array(tn_batch b, const char *name);   // data NULL and rank 0: dead, or no such array
TN_API size_t tn_batch_size(tn_batch b);                        // items; 0: dead
TN_API const size_t *tn_batch_index(tn_batch b);                // which items of the data set; NULL: dead, or a stream
// A copy in memory of its own, alive until released; number 0: dead, or out of memory. Release takes any batch, any
// number of times; one that belongs to a loader stays as it is.
TN_API tn_batch tn_batch_retain(tn_batch b);
TN_API void tn_batch_release(tn_batch b);
// tn_run on the arrays of b, the first ones when the function takes fewer
TN_API tn_status tn_run_batch(tn_model *m, const char *function, tn_batch b, const tn_array *out, size_t n_out);

// ---- small things kept in a model's file: the state of a loader, a vocabulary. Bytes, under a name of their own;
// files that have them load with tn_load as before, and PyTorch sees u8 tensors "tenure.extra.NAME".
typedef struct {
  const char *name;
  void *bytes;  // saving only reads them
  size_t size;
} tn_extra;
TN_API tn_status tn_save_with(tn_model *m, const char *path, bool with_state, const tn_extra *extra, size_t n_extra);
// All or nothing: every extra is there in this size and is copied out, the model takes what tn_load would.
TN_API tn_status tn_load_with(tn_model *m, const char *path, bool with_state, const tn_extra *extra, size_t n_extra);
TN_API tn_status tn_extra_size(tn_model *m, const char *path, const char *name, size_t *size);  // none: TN_ERR_FILE

// ---- progress: a bar on a terminal, plain lines elsewhere
typedef struct tn_progress tn_progress;
TN_API tn_progress *tn_progress_begin(FILE *out, const char *what, size_t total);
TN_API void tn_progress_step(tn_progress *p, size_t done, const char *fmt, ...);
TN_API void tn_progress_end(tn_progress *p);

#ifdef __cplusplus
}
#endif
#endif
