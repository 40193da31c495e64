// Tenure, loaders: the order of items, and batches built beside the training.
//
//   char why[512];
//   tn_series *s = tn_series_read("train.ts", why, sizeof why);
//   tn_dataset *d = tn_dataset_series(s, why, sizeof why);          // fields x [<= T, F] and label []
//   tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 30, .workers = 1, .seed = 7,
//                                                        .sampler = {.kind = TN_SHUFFLED}}, why, sizeof why);
//   for (int epoch = 0; epoch < 40; epoch++)
//     for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number;)  // x [B, longest, F], lengths [B], label [B]
//       if (tn_run_batch(m, "train_step", b, TN_OUT(tn_f32_scalar(&loss)))) return 1;
//   tn_loader_free(l), tn_dataset_free(d), tn_series_free(s);
//
// The same seed gives the same batches in the same order, whatever the number of workers. All memory of a loader is
// taken when it is made: one input arena of prefetch + 1 batches (two by default, one without workers), and for a shuffled order 8 bytes for each item.
// Calls that make something take a buffer for one sentence about what was wrong; it may be NULL.
#ifndef TN_LOADER_H
#define TN_LOADER_H

#include "data.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- the order of items. Every epoch has its own, made of seed and epoch.
typedef enum {
  TN_SEQUENTIAL,  // as in the data set
  TN_SHUFFLED,    // a permutation
  TN_BUCKETS,     // shuffled, then batches of similar lengths: items of `pool` batches are sorted by length and cut
                  // into batches, whose order is shuffled; a short batch stays last
  TN_LANES,       // for text that goes on from batch to batch: item i of batch k is i * n_batches + k; what does not
                  // fill a batch is dropped
  TN_CUSTOM,      // `custom`, the same in each epoch
  TN_FIRST_FIT    // shuffled, then packed up to the limits of a batch: of the items of `pool` batches the longest comes
                  // first, each goes to the first batch that has room for it, and the batches are shuffled
} tn_sampler_kind;
// What becomes of an item that is longer than a sequence of a batch may be
typedef enum {
  TN_CUT_DEFAULT,  // FIRST_FIT: TN_CUT_LONG; else TN_CUT_REFUSE
  TN_CUT_REFUSE,   // no loader is made; the sentence names the item
  TN_CUT_SKIP,     // it is left out, and tn_loader_report counts it
  TN_CUT_LONG,     // it is cut into pieces, sequences of their own; all but the last are as long as one may be
  TN_CUT_FILL  // SEQUENTIAL, SHUFFLED, CUSTOM with max_rows, without max_padded and max_squares: whatever item a batch has
               // no room for is cut there and goes on in the next one, so that all batches but the last have max_rows
               // rows, unless batch_size ends them
} tn_cut;
typedef enum { TN_TAIL_PAD, TN_TAIL_DROP } tn_tail;
typedef struct {
  tn_sampler_kind kind;
  uint32_t pool;         // BUCKETS, FIRST_FIT: batches that are sorted or packed together; 0: 16
  const size_t *custom;  // CUSTOM: items, any number of times each; read until the loader is freed
  size_t n_custom;
  // One of `world` processes that train together; 0: alone. Rank r takes items r, r + world, .. of the common order,
  // all ranks equally many: PAD repeats items from its beginning, DROP leaves the last ones out.
  // With `shards`, those of the distributed function that takes the batches, rank r has of each batch the items that its shards
  // have, those that tn_shard_rows names; there may be none. Then batches, their order and the state of the loader are those of
  // one process that reads all, for any number of ranks. Not for streams.
  uint32_t rank, world;
  uint32_t shards;  // 0: none
  tn_tail tail;
  // Limits of a batch, which takes items as long as it stays within all that are given. 0: none; without any, a batch is
  // batch_size items. With one of the last three, batch_size is a limit too, and 0 none. Not for LANES and streams. The number
  // of batches differs from epoch to epoch, and rank r takes batches r, r + world, .. of those that one process would have.
  int64_t max_length;   // of one sequence: the bound of a model's time axis
  int64_t max_rows;     // the sum of the lengths: what a packed batch computes
  int64_t max_padded;   // items times the longest: what a padded batch computes
  int64_t max_squares;  // the sum of the squared lengths: what attention computes
  tn_cut cut;
  // By item; read until the loader is freed. NULL: tn_dataset_type.length. The first variable field of an item may not be
  // longer, and what is cut has this length in all its variable fields.
  const int64_t *lengths;
} tn_sampler;

// ---- loaders
typedef struct tn_loader tn_loader;
// One batch of a loader: valid until the next tn_loader_next, or until the loader is freed. Handles of dead batches are
// told apart from live ones: their arrays are NULL, and tn_run_batch refuses them.
typedef struct {
  uint64_t owner, number;  // number 0: none
} tn_batch;

// How a variable field becomes arrays. Each has a second array behind it, its lengths i64 [B], named "FIELD.lengths". Where
// items are cut (TN_CUT_LONG, TN_CUT_FILL) the first variable field has a third, "FIELD.starts", i64 [B]: the row of its item
// at which each sequence begins, 0 for whole ones.
typedef enum {
  TN_PADDED,       // [B, longest, ..], zero behind each length
  TN_TIME_MAJOR,   // [longest, B, ..], zero behind each length
  TN_CONCATENATED  // [sum of lengths, ..], one item after the other
} tn_layout;

// What a collation of the user's gets: arrays[i * n_fields + f] is field f of the batch's item i
typedef struct {
  const tn_array *arrays;
  uint32_t n_fields;
  size_t n;               // items
  const size_t *index;    // which of the data set; NULL: it is a stream
  const int64_t *starts;  // by item: the first of its rows that is here; NULL: nothing is cut (tn_cut)
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
  uint32_t prefetch;  // batches that are read ahead, each by one worker; 0: 1
  bool drop_last;     // leaves out a last batch of fewer items
  uint64_t seed;
  tn_sampler sampler;
  tn_layout layout;
  tn_collate collate;         // fn NULL: stacks items as `layout` says
  const char *const *inputs;  // names: the batch has these arrays in this order; NULL: all, in the order of the fields
  uint32_t n_inputs;
} tn_loader_options;  // NULL: batches of 1, in order, without threads
// Loaders may share a data set, but a stream only one after the other: who was set to a state reads none of it until the
// next tn_loader_next.
TN_API tn_loader *tn_loader_new(tn_dataset *d, const tn_loader_options *o, char *error, size_t error_size);
TN_API void tn_loader_free(tn_loader *l);  // at any time: threads are stopped and joined
// Batches of an epoch, of the one that comes next where limits make them differ; TN_STREAM: unknown
TN_API size_t tn_loader_count(const tn_loader *l);
TN_API size_t tn_loader_bytes(const tn_loader *l);  // of the input arena, taken once
// The ledger of what it hands out: it owns the arrays of its batches as a scope owns values. created_in: handed out
// since the loader was made, disposed_in: ended with their batch, live: of the live batch. A copy (tn_batch_retain) is its
// holder's and does not count.
TN_API tn_stats tn_loader_stats(const tn_loader *l);

// The batches of the epoch at which the loader stands, known from the lengths of its items before anything is read: what
// they have, and the bounds that they need. Of this rank, and of whole batches where they are read in shards. Rows are 0
// where no lengths are known, all is 0 of a stream. Another epoch has other batches: what bounds those of all are the limits
// (batch_size, max_rows, ..), and `longest` where no item is dropped.
//
//   tn_epoch_report r = tn_loader_report(loader);
//   printf("%.1f %% of the rows of padded batches are padding\n", 100 - 100.0 * (double)r.rows / (double)r.padded);
//   tn_dim B = tn_dim_bounded(p, "batch", 64), T = tn_dim_bounded(p, "time", r.longest);  // 64: its batch_size
typedef struct {
  size_t batches;
  size_t sequences;    // items and pieces of items
  size_t skipped;      // items that TN_CUT_SKIP left out, of all ranks
  int64_t rows;        // the sum of the lengths
  int64_t padded;      // rows of padded batches; what is more than `rows` is avoided where they are packed
  int64_t most_items;  // of one batch, as all that follows
  int64_t most_rows, most_padded, most_squares;
  int64_t longest;  // the time axis of a padded batch
} tn_epoch_report;
TN_API tn_epoch_report tn_loader_report(const tn_loader *l);

// The next batch; number 0 at the end of the epoch, after which the next call begins another one. An error of the data
// set or of the collation comes in the place of its batch (tn_loader_error names the item); the call after it goes on
// behind that batch, in a stream too. A stream that cannot be brought to its beginning is an epoch of one error.
// A forked child may go on with the loaders of its parent: each gives the batches that come next there, from threads of
// its own and, in a stream, read again from the beginning.
TN_API tn_status tn_loader_next(tn_loader *l, tn_batch *out);
TN_API const char *tn_loader_error(const tn_loader *l);  // of this thread's last call that failed; "" when none did
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
TN_API void tn_progress_resume(tn_progress *p, size_t done);  // done before the beginning: rates do not count them
TN_API void tn_progress_step(tn_progress *p, size_t done, const char *fmt, ...);
TN_API void tn_progress_end(tn_progress *p);

#ifdef __cplusplus
}
#endif

#endif
