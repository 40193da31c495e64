#include "runtime/data/loader.h"
#include "runtime/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { MAX_THREADS = 64, DEFAULT_PREFETCH = 1, LOADER_ERROR = RT_SLOT_ERROR + 100 };

// Of RtLoader.halt
enum {
  STOPPED = 1,  // from rt_loader_stop, which may come at any time, to rt_loader_set_state
  CLOSING = 2   // while close_epoch waits for those who build
};

typedef struct {
  RtBatchSlot slot;
  bool is_ready;
} Place;

struct RtLoader {
  RtBatchOwner owner;  // what handles of its batches lead to
  RtDataset *data;
  RtBatchForm form;
  RtSampler sampler;
  bool guarded;
  unsigned char *arena;
  int64_t arena_bytes;
  Place *places;
  size_t n_places;
  size_t *work;       // of the sampler; NULL: see rt_sampler_fill
  RtRowBatches rows;  // where the form is_by_rows, in place of work
  uint64_t identity, last_number;
  char error[LOADER_ERROR];

  // Known to the one who asks
  uint64_t epoch, position;  // position: batches of this epoch given out
  Place *current;            // shown by the live batch; NULL: none
  RtLoaderCounts counts;

  // Between threads. Fields of a place belong to the thread that builds it until is_ready, then to the one who asks.
  pthread_mutex_t lock;
  pthread_cond_t wake, idle;  // workers: there is work; the one who asks: nobody works
  sem_t ready;                // a batch is ready, or stop
  bool waits, is_open, quit;  // is_open: an epoch is under way
  size_t ticket;              // the batch that is built next
  size_t released;            // batches of this epoch whose slots are free again
  size_t n_batches;           // of this epoch; RT_STREAM: its end was not met yet
  uint32_t n_building;
  RtHalt halt;  // one word, so that a stop is one store: nobody sees half of it
  uint32_t n_threads;
  pid_t process;  // whose threads these are
  pthread_t threads[MAX_THREADS];

  // Of the thread that reads the stream
  bool is_rewound;
  size_t n_streamed;  // items read since then
};

// ---- building one batch

static bool is_stream(const RtLoader *l) { return l->data->count == RT_STREAM; }

static bool fail_build(RtBatchSlot *s, size_t batch, const char *item) {
  char why[RT_SLOT_ERROR];
  memcpy(why, s->error, sizeof why);
  rt_fail(s->error, sizeof s->error, "batch %zu%s: %.900s", batch, item, *why ? why : "the data set failed");
  s->failed = true;
  return false;
}

static size_t batch_of_items(const RtLoader *l, size_t batch, size_t *first) {
  size_t n_items = rt_sampler_items(&l->sampler, l->data->count);
  *first = batch * l->sampler.batch_size;
  return n_items - *first < l->sampler.batch_size ? n_items - *first : l->sampler.batch_size;
}

static size_t item_at(const RtLoader *l, size_t k) {
  return l->work ? l->work[k] : l->sampler.custom ? l->sampler.custom[k] : k;
}

// What the batch has of items, or pieces of them, to the slot
static void take_items(const RtLoader *l, RtBatchSlot *s, size_t batch) {
  size_t *index = rt_slot_index(&l->form, s), first = 0, skipped;
  const RtItemPart *pieces = NULL;
  if (l->form.is_by_rows) pieces = rt_row_batches_at(&l->rows, batch, &s->n);
  else s->n = batch_of_items(l, batch, &first);
  s->n = rt_sampler_part(&l->sampler, s->n, &skipped);
  for (size_t i = 0; i < s->n; i++) index[i] = pieces ? pieces[skipped + i].item : item_at(l, first + skipped + i);
  if (pieces && s->n) memcpy(rt_slot_pieces(&l->form, s), pieces + skipped, s->n * sizeof *pieces);
}

static bool build_by_index(RtLoader *l, RtBatchSlot *s, size_t batch) {
  size_t *index = rt_slot_index(&l->form, s), bad = 0;
  char item[48];
  s->epoch = l->epoch;
  take_items(l, s, batch);
  if (!rt_slot_read(&l->form, s, &l->halt, &bad)) {
    snprintf(item, sizeof item, ", item %zu", index[bad]);
    return fail_build(s, batch, item);
  }
  return rt_slot_finish(&l->form, s) || fail_build(s, batch, "");
}

// An item to place i of the batch. One that fails counts too: which items a batch has does not depend on what became of
// those before.
static int next_item(RtLoader *l, RtBatchSlot *s, size_t i, char error[RT_SLOT_ERROR]) {
  s->epoch = l->epoch;
  RtItem item = rt_slot_item(&l->form, s, i, &l->halt);
  item.error = error;
  error[0] = 0;
  int got = rt_dataset_next(l->data, &item);
  if (got > 0) rt_slot_keep_lengths(&l->form, s, i, &item);
  l->n_streamed += got != 0;
  return got;
}

// Back to the beginning and past what was given out before: 1. 0: the stream ends behind the batch before this one, -1:
// it cannot be brought there.
static int open_stream(RtLoader *l, RtBatchSlot *s, size_t batch) {
  const RtDatasetOps *ops = l->data->ops;
  size_t skip = batch * l->sampler.batch_size;
  s->error[0] = 0;
  if (!l->is_rewound && ops->rewind && !ops->rewind(l->data->ctx, l->epoch, s->error, sizeof s->error)) return -1;
  if (!l->is_rewound) l->n_streamed = 0;
  l->is_rewound = true;
  int got = 1;
  while (got && l->n_streamed < skip && !rt_is_halted(&l->halt)) got = next_item(l, s, 0, s->error);
  if (got || skip - l->n_streamed < l->sampler.batch_size) return got != 0;
  rt_fail(s->error, sizeof s->error, "the stream has only %zu items", l->n_streamed);
  return -1;
}

// The items of one batch. Behind one that fails the others are read all the same, since the next batch begins where
// this one ends; the sentence is that of the first. False: the stream ends here.
static bool fill_from_stream(RtLoader *l, RtBatchSlot *s, size_t batch) {
  char other[RT_SLOT_ERROR], place[48];
  int got = 1;
  while (got && s->n < l->sampler.batch_size && !rt_is_halted(&l->halt)) {
    got = next_item(l, s, s->n, s->failed ? other : s->error);
    s->n += got != 0;
    if (got >= 0 || s->failed) continue;
    snprintf(place, sizeof place, ", item %zu", l->n_streamed - 1);
    fail_build(s, batch, place);
  }
  return got != 0;
}

// *last: nothing comes behind this batch. It may be empty.
static bool build_from_stream(RtLoader *l, RtBatchSlot *s, size_t batch, bool *last) {
  s->n = 0;
  int is_open = open_stream(l, s, batch);
  *last = is_open <= 0 || !fill_from_stream(l, s, batch);
  if (is_open < 0) return fail_build(s, batch, "");
  if (s->failed) return false;
  if (*last && l->sampler.drop_last) s->n = 0;
  return s->n == 0 || rt_slot_finish(&l->form, s) || fail_build(s, batch, "");
}

// Gives the number of batches of this epoch as far as it is known then.
static size_t build(RtLoader *l, Place *p, size_t batch, size_t n_batches) {
  RtBatchSlot *s = &p->slot;
  bool last = false;
  s->failed = false;
  if (!is_stream(l)) build_by_index(l, s, batch);
  else build_from_stream(l, s, batch, &last);
  return last ? batch + (s->n || s->failed) : n_batches;
}

// ---- threads

static bool has_work(const RtLoader *l) {
  return l->is_open && l->ticket < l->n_batches && l->ticket < l->released + l->n_places && !rt_is_halted(&l->halt);
}

static void build_next(RtLoader *l) {
  size_t batch = l->ticket++, n_batches = l->n_batches;
  Place *p = &l->places[batch % l->n_places];
  l->n_building++;
  pthread_mutex_unlock(&l->lock);
  n_batches = build(l, p, batch, n_batches);
  pthread_mutex_lock(&l->lock);
  l->n_building--;
  l->n_batches = n_batches;
  p->is_ready = true;
  if (l->waits) sem_post(&l->ready);
  if (l->n_building == 0) pthread_cond_signal(&l->idle);
}

static void *worker_main(void *arg) {
  RtLoader *l = arg;
  pthread_mutex_lock(&l->lock);
  while (!l->quit) {
    if (has_work(l)) build_next(l);
    else pthread_cond_wait(&l->wake, &l->lock);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

static bool start_threads(RtLoader *l, uint32_t n) {
  while (l->n_threads < n && rt_thread_start(&l->threads[l->n_threads], worker_main, l)) l->n_threads++;
  return l->n_threads == n;
}

static void forget_built(RtLoader *l) {
  for (size_t k = 0; l->places && k < l->n_places; k++) l->places[k].is_ready = false;
  l->is_rewound = false;
}

// Ends the epoch that is under way; nobody works afterwards.
static void close_epoch(RtLoader *l) {
  pthread_mutex_lock(&l->lock);
  l->is_open = false;
  if (l->n_building) {
    atomic_fetch_or(&l->halt, CLOSING);
    if (l->data->ops->interrupt) l->data->ops->interrupt(l->data->ctx);
    while (l->n_building) pthread_cond_wait(&l->idle, &l->lock);
    atomic_fetch_and(&l->halt, ~(unsigned)CLOSING);
  }
  pthread_mutex_unlock(&l->lock);
  forget_built(l);
}

// ---- forks

static void init_waiting(RtLoader *l) {
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->wake, NULL);
  pthread_cond_init(&l->idle, NULL);
  sem_init(&l->ready, 0, 0);
}

// A fork takes only the thread that calls it along. What the others were doing to the lock, to the places and to the
// stream is unknown in the child, so that it begins again behind the batches given out: the same ones come.
static bool enter_process(RtLoader *l) {
  if (l->process == getpid()) return true;
  uint32_t n = l->n_threads;
  init_waiting(l);
  l->is_open = l->waits = false;
  l->n_building = l->n_threads = 0;
  atomic_fetch_and(&l->halt, ~(unsigned)CLOSING);
  forget_built(l);
  l->process = getpid();
  return start_threads(l, n) || rt_fail(l->error, sizeof l->error, "a thread cannot be started in this process");
}

// ---- life

static bool check_options(const RtLoader *l, const RtLoaderOptions *o, char *error, size_t error_size) {
  if (o->workers > MAX_THREADS)
    return rt_fail(error, error_size, "%" PRIu32 " workers are asked for, at most %d are possible", o->workers,
                   MAX_THREADS);
  if (o->prefetch > 1 << 20) return rt_fail(error, error_size, "%" PRIu32 " batches ahead are too many", o->prefetch);
  return rt_sampler_check(&l->sampler, l->data, error, error_size);
}

static size_t count_places(const RtLoaderOptions *o) {
  return o->workers ? (o->prefetch ? o->prefetch : DEFAULT_PREFETCH) + 1 : 1;
}

static bool allocate(RtLoader *l, char *error, size_t error_size) {
  int64_t bytes;
  if (__builtin_mul_overflow(l->form.bytes, (int64_t)l->n_places, &bytes)) bytes = INT64_MAX;
  size_t n_work = l->form.is_by_rows ? 0 : rt_sampler_scratch(&l->sampler, l->data->count);
  if (bytes < INT64_C(1) << 48) l->arena = rt_block_new(bytes);
  l->arena_bytes = bytes;
  l->places = rt_malloc(l->n_places * sizeof *l->places);
  if (n_work && n_work < SIZE_MAX / 8) l->work = rt_malloc(n_work * sizeof *l->work);
  if (!l->arena || !l->places || (n_work && !l->work))
    return rt_fail(error, error_size,
                   "out of memory: %zu batches of %" PRId64 " bytes and an order of %zu items are needed", l->n_places,
                   l->form.bytes, n_work);
  for (size_t k = 0; k < l->n_places; k++)
    l->places[k] = (Place){.slot = {.mem = l->arena + (size_t)l->form.bytes * k}};
  return true;
}

static uint64_t identity_of(const RtLoader *l) {
  const RtSampler *s = &l->sampler;
  uint64_t facts[] = {l->data->count, (uint64_t)s->kind, s->pool,      s->world,
                      s->drop_tail,   s->batch_size,     s->drop_last, s->kind == RT_CUSTOM ? s->n_custom : 0};
  uint64_t hash = rt_hash(facts, sizeof facts, 0);
  return l->form.is_by_rows ? rt_hash(&hash, sizeof hash, rt_row_batches_hash(&l->rows)) : hash;
}

static bool prepare(RtLoader *l, const RtLoaderOptions *o, char *error, size_t error_size) {
  if (!check_options(l, o, error, error_size)) return false;
  bool by_rows = rt_is_by_rows(&l->sampler);
  if (by_rows && !rt_row_batches_init(&l->rows, &l->sampler, l->data, error, error_size)) return false;
  bool has_fewer = by_rows && l->rows.cap_pieces < l->sampler.batch_size;
  l->form = (RtBatchForm){.data = l->data,
                          .batch_size = has_fewer ? l->rows.cap_pieces : l->sampler.batch_size,
                          .layout = o->layout,
                          .custom = o->collate,
                          .may_view = !o->guarded && !by_rows,
                          .is_by_rows = by_rows,
                          .is_cut = rt_sampler_cuts(&l->sampler),
                          .reads_parts = by_rows && l->data->ops->part && !l->sampler.lengths,
                          .most_length = rt_length_limit(&l->sampler),
                          .most_rows = rt_row_limit(&l->sampler),
                          .most_padded = rt_padded_limit(&l->sampler)};
  l->n_places = count_places(o);
  l->identity = identity_of(l);
  if (!rt_form_init(&l->form, o->inputs, o->n_inputs, error, error_size)) return false;
  if (!allocate(l, error, error_size)) return false;
  uint32_t n = is_stream(l) && o->workers > 1 ? 1 : o->workers;
  return start_threads(l, n) || rt_fail(error, error_size, "a thread cannot be started");
}

RtLoader *rt_loader_new(RtDataset *d, const RtLoaderOptions *o, char *error, size_t error_size) {
  RtLoader *l = rt_malloc(sizeof *l);
  if (!l) {
    rt_fail(error, error_size, "out of memory");
    return NULL;
  }
  *l = (RtLoader){.data = rt_dataset_retain(d), .sampler = o->sampler, .guarded = o->guarded, .process = getpid()};
  if (l->sampler.kind != RT_CUSTOM) l->sampler.custom = NULL;
  init_waiting(l);
  rt_batch_register(&l->owner);
  if (prepare(l, o, error, error_size)) return l;
  rt_loader_free(l);
  return NULL;
}

static void end_threads(RtLoader *l) {
  close_epoch(l);
  pthread_mutex_lock(&l->lock);
  l->quit = true;
  pthread_cond_broadcast(&l->wake);
  pthread_mutex_unlock(&l->lock);
  for (uint32_t k = 0; k < l->n_threads; k++) pthread_join(l->threads[k], NULL);
  sem_destroy(&l->ready);
  pthread_cond_destroy(&l->idle);
  pthread_cond_destroy(&l->wake);
  pthread_mutex_destroy(&l->lock);
}

void rt_loader_free(RtLoader *l) {
  if (!l) return;
  rt_batch_unregister(&l->owner);
  if (l->process == getpid()) end_threads(l);  // in a forked child there are none
  rt_dataset_release(l->data);
  rt_block_free(l->arena, l->arena_bytes);
  rt_free(l->places);
  rt_free(l->work);
  rt_row_batches_free(&l->rows);
  rt_free(l);
}

// Nothing, where the epoch is under way: its batches are planned.
static size_t count_batches(RtLoader *l) {
  if (is_stream(l)) return RT_STREAM;
  if (!l->form.is_by_rows) return rt_sampler_batches(&l->sampler, l->data->count);
  rt_row_batches_plan(&l->rows, l->epoch);
  return rt_row_batches_count(&l->rows);
}

size_t rt_loader_count(RtLoader *l) { return count_batches(l); }

int64_t rt_loader_bytes(const RtLoader *l) { return l->form.bytes * (int64_t)l->n_places; }
RtLoaderCounts rt_loader_counts(const RtLoader *l) { return l->counts; }
char *rt_loader_error_buffer(RtLoader *l) { return l->error; }

// ---- asking

static void retire(RtLoader *l) {
  rt_batch_publish(&l->owner, 0);
  if (l->current && l->guarded) memset(l->current->slot.mem, 0xff, (size_t)l->form.bytes);
  if (l->current) l->current->is_ready = false, l->counts.ended += l->form.n_arrays;
  l->current = NULL;
}

static bool order_items(RtLoader *l) {
  return l->form.is_by_rows || rt_sampler_fill(&l->sampler, l->data, l->epoch, l->work, l->error, sizeof l->error);
}

static bool open_epoch(RtLoader *l) {
  if (!order_items(l)) return false;
  size_t n = count_batches(l);
  pthread_mutex_lock(&l->lock);
  l->ticket = l->released = (size_t)l->position;
  l->n_batches = n;
  l->is_open = true;
  pthread_mutex_unlock(&l->lock);
  return true;
}

// The place of the next batch; NULL: the epoch ends, or stop.
static Place *wait_for_batch(RtLoader *l) {
  Place *p = &l->places[l->position % l->n_places];
  pthread_mutex_lock(&l->lock);
  l->released = (size_t)l->position;
  if (l->n_threads) pthread_cond_broadcast(&l->wake);
  else if (has_work(l)) build_next(l);
  while (!p->is_ready && l->position < l->n_batches && !rt_loader_is_stopped(l)) {
    l->waits = true;
    pthread_mutex_unlock(&l->lock);
    sem_wait(&l->ready);  // a signal wakes it too
    pthread_mutex_lock(&l->lock);
    l->waits = false;
  }
  if (l->position >= l->n_batches || rt_loader_is_stopped(l)) p = NULL;
  pthread_mutex_unlock(&l->lock);
  return p;
}

static void show(RtLoader *l, Place *p, RtBatch *out) {
  l->current = p;
  l->owner.arrays = p->slot.arrays;
  l->owner.names = (const char(*)[RT_ARRAY_NAME])l->form.names;
  l->owner.n_arrays = l->form.n_arrays;
  l->owner.n_items = p->slot.n;
  l->owner.index = is_stream(l) ? NULL : rt_slot_index(&l->form, &p->slot);
  l->counts.given += l->form.n_arrays;
  *out = rt_batch_publish(&l->owner, ++l->last_number);
}

RtStatus rt_loader_next(RtLoader *l, RtBatch *out) {
  *out = (RtBatch){0};
  retire(l);
  if (rt_loader_is_stopped(l)) return RT_OK;
  if (!enter_process(l) || (!l->is_open && !open_epoch(l))) return RT_ERR_MEMORY;
  Place *p = wait_for_batch(l);
  if (!p && rt_loader_is_stopped(l)) return RT_OK;
  if (!p) {
    close_epoch(l);
    l->epoch++, l->position = 0;
    return RT_OK;
  }
  l->position++;
  if (!p->slot.failed) {
    show(l, p, out);
    return RT_OK;
  }
  memcpy(l->error, p->slot.error, sizeof p->slot.error);
  p->is_ready = false;
  return RT_ERR_VALUE;
}

void rt_loader_stop(RtLoader *l) {
  int kept = errno;
  atomic_fetch_or(&l->halt, STOPPED);
  sem_post(&l->ready);
  errno = kept;
}

bool rt_loader_is_stopped(const RtLoader *l) { return atomic_load(&l->halt) & STOPPED; }

RtLoaderState rt_loader_get_state(const RtLoader *l) {
  return (RtLoaderState){l->sampler.seed, l->epoch, l->position, l->identity};
}

RtStatus rt_loader_set_state(RtLoader *l, RtLoaderState s) {
  uint64_t most = is_stream(l)         ? SIZE_MAX / l->sampler.batch_size
                  : l->form.is_by_rows ? l->rows.cap_pieces  // of any epoch
                                       : rt_sampler_batches(&l->sampler, l->data->count);
  if (s.identity != l->identity || s.position > most) {
    rt_fail(l->error, sizeof l->error,
            "the state (epoch %" PRIu64 ", batch %" PRIu64
            ") belongs to a loader of another data set, batch size or order",
            s.epoch, s.position);
    return RT_ERR_ARGUMENT;
  }
  retire(l);
  if (!enter_process(l)) return RT_ERR_MEMORY;
  close_epoch(l);
  l->sampler.seed = s.seed, l->epoch = s.epoch, l->position = s.position;
  atomic_fetch_and(&l->halt, ~(unsigned)STOPPED);
  return RT_OK;
}

// ---- what an epoch has
static int64_t length_in(const RtLoader *l, const RtItemPart *pieces, size_t first, size_t i) {
  if (pieces) return pieces[i].n;
  return rt_sampler_length(&l->sampler, l->data, item_at(l, first + i));
}

static void report_batch(const RtLoader *l, size_t batch, RtEpochReport *out) {
  size_t n, first = 0;
  const RtItemPart *pieces = l->form.is_by_rows ? rt_row_batches_at(&l->rows, batch, &n) : NULL;
  if (!pieces) n = batch_of_items(l, batch, &first);
  int64_t rows = 0, longest = 0, squares = 0;
  for (size_t i = 0; i < n && rt_sampler_knows_lengths(&l->sampler, l->data); i++) {
    int64_t length = length_in(l, pieces, first, i);
    rows += length, squares += length * length;
    if (length > longest) longest = length;
  }
  int64_t padded = (int64_t)n * longest;
  out->sequences += n, out->rows += rows, out->padded += padded;
  if ((int64_t)n > out->most_items) out->most_items = (int64_t)n;
  if (rows > out->most_rows) out->most_rows = rows;
  if (padded > out->most_padded) out->most_padded = padded;
  if (squares > out->most_squares) out->most_squares = squares;
  if (longest > out->longest) out->longest = longest;
}

RtStatus rt_loader_report(RtLoader *l, RtEpochReport *out) {
  *out = (RtEpochReport){0};
  if (is_stream(l)) {
    rt_fail(l->error, sizeof l->error, "what a stream has is not known before it is read");
    return RT_ERR_ARGUMENT;
  }
  if (!l->is_open && !order_items(l)) return RT_ERR_MEMORY;
  out->batches = count_batches(l);
  out->skipped = l->rows.n_skipped;
  for (size_t k = 0; k < out->batches; k++) report_batch(l, k, out);
  return RT_OK;
}
