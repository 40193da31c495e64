// Feeding: orders of items, layouts of batches, errors, stopping, resuming, memory; with and without threads.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "tests/check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static char why[1024];
enum { BOUND = 9 };

// Items: x [1 + 5 k mod BOUND, 2] f32 of k + 1, id [] i64. Item `bad` fails; item `long_one` breaks its bound.
typedef struct {
  size_t bad, long_one;
  atomic_size_t n_gets, n_freed;
} Source;
static const tn_field fields[] = {{.name = "x", .dtype = TN_F32, .is_variable = true, .rank = 2, .dims = {BOUND, 2}},
                                  {.name = "id", .dtype = TN_I64}};

static int64_t length_of(void *ctx, size_t k) {
  (void)ctx;
  return 1 + (int64_t)(5 * k % BOUND);
}

static bool get(void *ctx, size_t k, tn_item *to) {
  Source *s = ctx;
  atomic_fetch_add(&s->n_gets, 1);
  if (k == s->bad) return snprintf(to->error, to->error_size, "line 12 is missing"), false;
  to->length[0] = k == s->long_one ? BOUND + 1 : length_of(ctx, k);
  for (int64_t i = 0; i < 2 * length_of(ctx, k); i++) ((float *)to->data[0])[i] = (float)(k + 1);
  *(int64_t *)to->data[1] = (int64_t)k;
  return true;
}

static void count_free(void *ctx) { atomic_fetch_add(&((Source *)ctx)->n_freed, 1); }

static const tn_dataset_type type = {.get = get, .length = length_of, .free = count_free};

static tn_dataset *source(Source *s, size_t n) {
  *s = (Source){.bad = SIZE_MAX, .long_one = SIZE_MAX};
  tn_dataset *d = tn_dataset_new(&type, s, fields, 2, n, why, sizeof why);
  CHECK(d != NULL);
  return d;
}

// The ids of the rest of an epoch in their order, -1 behind each batch, -2 for an error; gives their number.
static size_t ids_of(tn_loader *l, int64_t *out) {
  size_t n = 0;
  for (tn_batch b;;) {
    tn_status s = tn_loader_next(l, &b);
    if (s) out[n++] = -2;
    if (!s && !b.number) return n;
    tn_array id = tn_batch_array(b, "id");
    for (int64_t i = 0; !s && i < id.dims[0]; i++) out[n++] = ((int64_t *)id.data)[i];
    out[n++] = -1;
  }
}

static tn_loader *loader(tn_dataset *d, tn_loader_options o) {
  tn_loader *l = tn_loader_new(d, &o, why, sizeof why);
  if (!l) printf("%s\n", why);
  CHECK(l != NULL);
  return l;
}

// ---- orders
static void test_workers(void) {
  Source s;
  tn_dataset *d = source(&s, 101);
  for (int kind = TN_SEQUENTIAL; kind <= TN_LANES; kind++) {
    int64_t want[300], have[300];
    size_t n_want = 0;
    for (uint32_t workers = 0; workers < 5; workers++) {
      tn_loader *l = loader(d, (tn_loader_options){.batch_size = 7,
                                                   .workers = workers,
                                                   .prefetch = workers == 3 ? 1 : 0,
                                                   .seed = 3,
                                                   .sampler = {.kind = (tn_sampler_kind)kind, .pool = 4}});
      ids_of(l, have);
      size_t n = ids_of(l, have);  // the second epoch
      if (workers == 0) memcpy(want, have, sizeof want), n_want = n;
      CHECK(n == n_want && !memcmp(want, have, n * sizeof *want));
      tn_loader_free(l);
    }
  }
  tn_dataset_free(d);
  CHECK(s.n_freed == 1);
}

static void test_epochs_differ(void) {
  Source s;
  tn_dataset *d = source(&s, 64);
  int64_t a[200], b[200], c[200];
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 64, .seed = 5, .sampler = {.kind = TN_SHUFFLED}});
  tn_loader *other = loader(d, (tn_loader_options){.batch_size = 64, .seed = 6, .sampler = {.kind = TN_SHUFFLED}});
  ids_of(l, a), ids_of(l, b), ids_of(other, c);
  CHECK(memcmp(a, b, 64 * sizeof *a) && memcmp(a, c, 64 * sizeof *a) && memcmp(b, c, 64 * sizeof *a));
  bool seen[64] = {false};
  for (int k = 0; k < 64; k++) seen[b[k]] = true;
  for (int k = 0; k < 64; k++) CHECK(seen[k]);
  tn_loader_free(l), tn_loader_free(other), tn_dataset_free(d);
}

// Within a batch lengths differ little, every item comes once, the short batch is last.
static void test_buckets(void) {
  Source s;
  tn_dataset *d = source(&s, 200);
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 12, .sampler = {.kind = TN_BUCKETS, .pool = 100}});
  int seen[200] = {0};
  size_t n_batches = 0;
  int64_t padded = 0, rows = 0;
  for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number; n_batches++) {
    tn_array x = tn_batch_array(b, "x"), len = tn_batch_array(b, "x.lengths");
    CHECK(tn_batch_size(b) == (n_batches < 16 ? 12 : 8));
    padded += x.dims[0] * x.dims[1];
    for (int64_t i = 0; i < len.dims[0]; i++) rows += ((int64_t *)len.data)[i];
    for (size_t i = 0; i < tn_batch_size(b); i++) seen[tn_batch_index(b)[i]]++;
  }
  CHECK(n_batches == 17 && padded < rows * 108 / 100);
  for (int k = 0; k < 200; k++) CHECK(seen[k] == 1);
  tn_loader_free(l), tn_dataset_free(d);
}

static void test_ranks(void) {
  Source s;
  tn_dataset *d = source(&s, 10);
  for (int kind = TN_SEQUENTIAL; kind <= TN_BUCKETS; kind++)
    for (int drop = 0; drop < 2; drop++) {
      int seen[10] = {0}, total = 0;
      for (uint32_t rank = 0; rank < 4; rank++) {
        int64_t ids[40];
        tn_sampler sampler = {.kind = (tn_sampler_kind)kind, .rank = rank, .world = 4, .tail = drop};
        tn_loader *l = loader(d, (tn_loader_options){.batch_size = 2, .seed = 1, .sampler = sampler});
        size_t n = ids_of(l, ids);
        CHECK(tn_loader_count(l) == (drop ? 1 : 2) && n == (drop ? 3 : 5));
        for (size_t k = 0; k < n; k++)
          if (ids[k] >= 0) seen[ids[k]]++, total++;
        if (kind == TN_SEQUENTIAL) CHECK(ids[0] == rank && ids[1] == rank + 4);
        tn_loader_free(l);
      }
      CHECK(total == (drop ? 8 : 12));
      for (int k = 0; k < 10; k++) CHECK(drop ? seen[k] <= 1 : seen[k] >= 1 && seen[k] <= 2);
    }
  tn_dataset_free(d);
}

// Ranks by shards: what they read of a batch, one behind the other, is the batch of one process; its state is theirs.
static void check_shards(tn_dataset *d, tn_sampler_kind kind, uint32_t n_ranks) {
  enum { SHARDS = 5, SIZE = 7 };
  tn_loader_options o = {.batch_size = SIZE, .workers = 1, .seed = 3, .sampler = {.kind = kind}};
  tn_loader *one = loader(d, o), *l[SHARDS];
  for (uint32_t r = 0; r < n_ranks; r++) {
    o.sampler.rank = r, o.sampler.world = n_ranks, o.sampler.shards = SHARDS;
    l[r] = loader(d, o);
  }
  for (tn_batch b; tn_loader_next(one, &b) == TN_OK && b.number;) {
    const int64_t *all = tn_batch_array(b, "id").data;
    int64_t at = 0, first, count;
    for (uint32_t r = 0; r < n_ranks; r++) {
      tn_batch part;
      CHECK(tn_loader_next(l[r], &part) == TN_OK && part.number);
      tn_array id = tn_batch_array(part, "id");
      tn_shard_rows((int64_t)tn_batch_size(b), SHARDS, r, n_ranks, &first, &count);
      CHECK(first == at && id.dims[0] == count && (!count || !memcmp(id.data, all + at, (size_t)count * sizeof *all)));
      at += count;
    }
    CHECK(at == (int64_t)tn_batch_size(b));
    tn_loader_state s = tn_loader_get_state(one), t = tn_loader_get_state(l[n_ranks - 1]);
    CHECK(!memcmp(&s, &t, sizeof s) && tn_loader_set_state(l[0], s) == TN_OK);
  }
  for (uint32_t r = 0; r < n_ranks; r++) tn_loader_free(l[r]);
  tn_loader_free(one);
}

static void test_shards(void) {
  Source s;
  tn_dataset *d = source(&s, 30);
  for (tn_sampler_kind kind = TN_SEQUENTIAL; kind <= TN_LANES; kind++)
    for (uint32_t n = 1; n <= 5; n++) check_shards(d, kind, n);
  tn_sampler few = {.rank = 1, .world = 3, .shards = 2};
  CHECK(!tn_loader_new(d, &(tn_loader_options){.sampler = few}, why, sizeof why));
  CHECK_HAS(why, "rank 1 of 3 has none of 2 shards");
  tn_dataset_free(d);
}

static void test_lanes_and_custom(void) {
  Source s;
  tn_dataset *d = source(&s, 11);
  int64_t ids[40];
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 2, .sampler = {.kind = TN_LANES}});
  CHECK(tn_loader_count(l) == 5 && ids_of(l, ids) == 15);
  for (int k = 0; k < 5; k++) CHECK(ids[3 * k] == k && ids[3 * k + 1] == 5 + k);
  tn_loader_free(l);
  const size_t order[] = {10, 3, 3, 0};
  tn_sampler custom = {.kind = TN_CUSTOM, .custom = order, .n_custom = 4};
  l = loader(d, (tn_loader_options){.batch_size = 3, .workers = 1, .sampler = custom});
  CHECK(ids_of(l, ids) == 6 && ids[0] == 10 && ids[1] == 3 && ids[2] == 3 && ids[4] == 0);
  tn_loader_free(l);
  const size_t wrong[] = {1, 11};
  custom = (tn_sampler){.kind = TN_CUSTOM, .custom = wrong, .n_custom = 2};
  CHECK(!tn_loader_new(d, &(tn_loader_options){.sampler = custom}, why, sizeof why));
  CHECK_HAS(why, "place 1 of the order is item 11, the data set has 11");
  tn_dataset_free(d);
}

// ---- layouts
static void check_padded(tn_layout layout, uint32_t workers) {
  Source s;
  tn_dataset *d = source(&s, 20);
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 6, .workers = workers, .layout = layout});
  for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number;) {
    size_t n;
    const tn_array *a = tn_batch_arrays(b, &n);
    const int64_t *len = a[1].data;
    int64_t longest = 0, rows = 0, count = (int64_t)tn_batch_size(b);
    for (int64_t i = 0; i < count; i++) longest = len[i] > longest ? len[i] : longest;
    CHECK(n == 3 && a[0].rank == (layout == TN_CONCATENATED ? 2 : 3) && a[1].dims[0] == count);
    for (int64_t i = 0; i < count; i++) {
      CHECK(len[i] == length_of(NULL, tn_batch_index(b)[i]));
      for (int64_t t = 0; t < (layout == TN_CONCATENATED ? len[i] : longest); t++) {
        int64_t row = layout == TN_PADDED ? i * longest + t : layout == TN_TIME_MAJOR ? t * count + i : rows + t;
        float want = t < len[i] ? (float)(tn_batch_index(b)[i] + 1) : 0;
        CHECK(((float *)a[0].data)[2 * row] == want && ((float *)a[0].data)[2 * row + 1] == want);
      }
      rows += len[i];
    }
    const int64_t dims[3][3] = {{count, longest, 2}, {longest, count, 2}, {rows, 2}};
    CHECK(!memcmp(a[0].dims, dims[layout], sizeof(int64_t) * a[0].rank));
  }
  tn_loader_free(l), tn_dataset_free(d);
}

// What PackedSequence holds: longest first, step by step; rows are the sum of the lengths.
static bool pack(void *ctx, const tn_items *items, tn_array *out, char *error, size_t error_size) {
  (void)ctx, (void)error, (void)error_size;
  int64_t *order = out[1].data, rows = 0, n = (int64_t)items->n;
  for (int64_t i = 0; i < n; i++) {
    int64_t k = i;
    for (; k > 0 && items->arrays[order[k - 1] * 2].dims[0] < items->arrays[i * 2].dims[0]; k--)
      order[k] = order[k - 1];
    order[k] = i;
  }
  for (int64_t t = 0; t < BOUND; t++)
    for (int64_t i = 0; i < n && items->arrays[order[i] * 2].dims[0] > t; i++, rows++)
      memcpy((float *)out[0].data + 2 * rows, (float *)items->arrays[order[i] * 2].data + 2 * t, 2 * sizeof(float));
  out[0].dims[0] = rows;
  out[1].dims[0] = n;
  return true;
}

static bool break_bound(void *ctx, const tn_items *items, tn_array *out, char *error, size_t error_size) {
  (void)error, (void)error_size, (void)items;
  if (*(int *)ctx == 0) return snprintf(error, error_size, "no such word"), false;
  out[0].dims[0]++;
  return true;
}

static void test_collate(void) {
  Source s;
  tn_dataset *d = source(&s, 20);
  tn_field out[] = {{.name = "data", .dtype = TN_F32, .rank = 2, .dims = {6 * BOUND, 2}},
                    {.name = "order", .dtype = TN_I64, .rank = 1, .dims = {6}}};
  const char *inputs[] = {"order", "data"};
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 6,
                                               .workers = 2,
                                               .collate = {.fields = out, .n_fields = 2, .fn = pack},
                                               .inputs = inputs,
                                               .n_inputs = 2});
  tn_batch b;
  CHECK(tn_loader_next(l, &b) == TN_OK);
  size_t n;
  const tn_array *a = tn_batch_arrays(b, &n);  // lengths 1 6 2 7 3 8: order 5 3 1 4 2 0
  const float first[] = {6, 4, 2, 5, 3, 1, 6, 4, 2, 5, 3, 6};
  CHECK(n == 2 && a[0].dtype == TN_I64 && a[1].dims[0] == 27);
  for (int k = 0; k < 12; k++) CHECK(((float *)a[1].data)[2 * k] == first[k]);
  tn_loader_free(l);
  for (int how = 0; how < 2; how++) {
    l = loader(d, (tn_loader_options){.collate = {.fields = out, .n_fields = 2, .fn = break_bound, .ctx = &how}});
    CHECK(tn_loader_next(l, &b) == TN_ERR_VALUE && !b.number);
    CHECK_HAS(tn_loader_error(l), how ? "batch 0: the collation gives array 'data' size 55 at axis 0, its bound is 54"
                                      : "batch 0: no such word");
    tn_loader_free(l);
  }
  tn_dataset_free(d);
}

// ---- errors
static void test_errors(void) {
  Source s;
  tn_dataset *d = source(&s, 20);
  for (uint32_t workers = 0; workers < 3; workers++) {
    tn_loader *l = loader(d, (tn_loader_options){.batch_size = 4, .workers = workers});
    s.bad = 9, s.long_one = 13;
    tn_batch b;
    tn_status want[] = {TN_OK, TN_OK, TN_ERR_VALUE, TN_ERR_VALUE, TN_OK};
    for (int k = 0; k < 5; k++) {
      CHECK(tn_loader_next(l, &b) == want[k] && !b.number == (want[k] != TN_OK));
      if (k == 2) CHECK_HAS(tn_loader_error(l), "batch 2, item 9: line 12 is missing");
      if (k == 3) CHECK_HAS(tn_loader_error(l), "batch 3, item 13: field 'x' has length 10, its bound is 9");
    }
    CHECK(*(int64_t *)tn_batch_array(b, "id").data == 16);
    CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
    tn_loader_free(l);
    s.bad = s.long_one = SIZE_MAX;
  }
  tn_dataset_free(d);
}

static void test_refused(void) {
  Source s;
  tn_dataset *d = source(&s, 3);
  const char *inputs[] = {"y"};
  CHECK(!tn_loader_new(d, &(tn_loader_options){.inputs = inputs, .n_inputs = 1}, why, sizeof why));
  CHECK_HAS(why, "a batch has no array 'y'");
  CHECK(!tn_loader_new(d, &(tn_loader_options){.batch_size = SIZE_MAX / 2}, why, sizeof why));
  CHECK(!tn_loader_new(d, &(tn_loader_options){.workers = 65}, why, sizeof why));
  CHECK(!tn_loader_new(d, &(tn_loader_options){.sampler = {.rank = 2, .world = 2}}, why, sizeof why));
  CHECK_HAS(why, "rank 2 is not below the world's 2");
  CHECK(!tn_loader_new(NULL, NULL, why, sizeof why) && !tn_loader_new(d, &(tn_loader_options){.layout = 7}, NULL, 0));
  tn_field twice[] = {fields[1], fields[1]}, huge = fields[0];
  CHECK(!tn_dataset_new(&type, &s, twice, 2, 3, why, sizeof why));
  CHECK_HAS(why, "two fields are named 'id'");
  tn_field named[] = {fields[0], fields[1]};
  named[1].name = "x.lengths";
  tn_dataset *e = tn_dataset_new(&type, &s, named, 2, 3, why, sizeof why);
  CHECK(e && !tn_loader_new(e, NULL, why, sizeof why));
  CHECK_HAS(why, "two arrays of a batch are named 'x.lengths'");
  tn_dataset_free(e);
  huge.dims[0] = INT64_MAX;
  CHECK(!tn_dataset_new(&type, &s, &huge, 1, 3, why, sizeof why));
  CHECK(!tn_dataset_new(&type, &s, fields, 0, 3, why, sizeof why) && !tn_dataset_new(NULL, 0, fields, 1, 1, NULL, 0));
  tn_dataset_free(d);
  tn_array one = tn_f32(NULL, 3, 2);
  d = tn_dataset_arrays(&one, 1, NULL, why, sizeof why);
  CHECK(!d);
  CHECK_HAS(why, "array '0' has no data");
  tn_loader_free(NULL), tn_dataset_free(NULL);
  CHECK(tn_loader_count(NULL) == 0 && !tn_batch_is_live((tn_batch){0}) && tn_dataset_count(NULL) == 0);
}

static void test_sizes(void) {
  Source s;
  int64_t ids[40];
  tn_dataset *d = source(&s, 1);
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 100, .workers = 2});
  CHECK(tn_loader_count(l) == 1 && ids_of(l, ids) == 2 && ids[0] == 0);
  tn_loader_free(l), tn_dataset_free(d);
  d = source(&s, 0);
  for (int kind = TN_SEQUENTIAL; kind <= TN_LANES; kind++) {
    l = loader(d, (tn_loader_options){.workers = 1, .sampler = {.kind = (tn_sampler_kind)kind, .world = 3}});
    CHECK(tn_loader_count(l) == 0 && ids_of(l, ids) == 0 && ids_of(l, ids) == 0);
    tn_loader_free(l);
  }
  tn_dataset_free(d);
}

// ---- stopping
typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t wake;
  atomic_int n_blocked, n_interrupts;
} Blocker;

static bool get_blocked(void *ctx, size_t k, tn_item *to) {
  Blocker *w = ctx;
  *(int64_t *)to->data[0] = (int64_t)k;
  if (k < 2) return true;
  pthread_mutex_lock(&w->lock);
  w->n_blocked++;
  while (!tn_item_is_stopped(to)) pthread_cond_wait(&w->wake, &w->lock);
  pthread_mutex_unlock(&w->lock);
  return false;
}

static void interrupt(void *ctx) {
  Blocker *w = ctx;
  pthread_mutex_lock(&w->lock);
  w->n_interrupts++;
  pthread_cond_broadcast(&w->wake);
  pthread_mutex_unlock(&w->lock);
}

static tn_loader *stopping;
static void on_signal(int sig) {
  (void)sig;
  tn_loader_stop(stopping);
}

static void test_stop(void) {
  static Blocker w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
  tn_dataset_type blocking = {.get = get_blocked, .interrupt = interrupt};
  tn_dataset *d = tn_dataset_new(&blocking, &w, &fields[1], 1, 10, why, sizeof why);
  tn_loader *l = loader(d, (tn_loader_options){.workers = 2});
  tn_batch b;
  CHECK(tn_loader_next(l, &b) == TN_OK && b.number);
  tn_loader_free(l);  // one or two workers wait in get
  CHECK(!tn_batch_is_live(b));

  l = stopping = loader(d, (tn_loader_options){.workers = 2});
  signal(SIGALRM, on_signal);
  CHECK(tn_loader_next(l, &b) == TN_OK && tn_loader_next(l, &b) == TN_OK);
  alarm(1);
  CHECK(tn_loader_next(l, &b) == TN_OK && !b.number && tn_loader_is_stopped(l));
  CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
  CHECK(tn_loader_get_state(l).position == 2 && tn_loader_get_state(l).epoch == 0);
  tn_loader_state start = tn_loader_get_state(l);
  start.position = 1;
  CHECK(tn_loader_set_state(l, start) == TN_OK && !tn_loader_is_stopped(l));
  CHECK(tn_loader_next(l, &b) == TN_OK && *(int64_t *)tn_batch_array(b, "id").data == 1);
  signal(SIGALRM, SIG_DFL);
  tn_loader_free(l), tn_dataset_free(d);
}

// At every point of an epoch, before it too.
static void test_free_anywhere(void) {
  Source s;
  tn_dataset *d = source(&s, 50);
  for (uint32_t workers = 0; workers < 4; workers++)
    for (int n = 0; n < 12; n++) {
      tn_loader *l = loader(d, (tn_loader_options){.batch_size = 5, .workers = workers});
      tn_batch b;
      for (int k = 0; k < n; k++) CHECK(tn_loader_next(l, &b) == TN_OK);
      if (n % 2) tn_loader_stop(l);
      tn_loader_free(l);
    }
  tn_dataset *first = d;
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 5, .workers = 1});
  tn_dataset_free(first);  // the loader keeps it
  CHECK(s.n_freed == 0);
  int64_t ids[100];
  CHECK(ids_of(l, ids) == 60);
  tn_loader_free(l);
  CHECK(s.n_freed == 1);
}

// ---- resuming
static void test_resume(void) {
  Source s;
  tn_dataset *d = source(&s, 40);
  for (int kind = TN_SEQUENTIAL; kind <= TN_LANES; kind++) {
    tn_loader_options o = {.batch_size = 6, .seed = 9, .sampler = {.kind = (tn_sampler_kind)kind}};
    int64_t whole[200], rest[200];
    tn_loader *l = loader(d, o);
    ids_of(l, rest);
    size_t n = ids_of(l, whole);
    tn_loader_free(l);
    for (uint32_t at = 0; at <= tn_loader_count(l = loader(d, o)); at++) {
      tn_batch b;
      ids_of(l, rest);
      for (uint32_t k = 0; k < at; k++) tn_loader_next(l, &b);
      tn_loader_state state = tn_loader_get_state(l);
      CHECK(state.epoch == 1 && state.position == at);
      o.workers = 1 + at % 3;
      o.seed = 0;  // the state brings its own
      tn_loader *m = loader(d, o);
      CHECK(tn_loader_set_state(m, state) == TN_OK);
      size_t n_rest = ids_of(m, rest), skipped = 0, k = 0;
      for (; skipped < at; k++) skipped += whole[k] == -1;
      CHECK(n_rest == n - k && !memcmp(rest, whole + k, n_rest * sizeof *rest));
      CHECK(tn_loader_get_state(m).epoch == 2);
      tn_loader_free(m);
      o.seed = 9, o.workers = 0;
      tn_loader_free(l);
    }
    tn_loader_free(l);
  }
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 6}), *m = loader(d, (tn_loader_options){.batch_size = 5});
  CHECK(tn_loader_set_state(m, tn_loader_get_state(l)) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_loader_error(m), "belongs to a loader of another data set, batch size or order");
  tn_loader_free(l), tn_loader_free(m), tn_dataset_free(d);
}

// ---- streams: 1, 2, .. n; -1 in the place of item `bad`
typedef struct {
  int64_t n, at, bad;
  int n_rewinds;
} Stream;

static int next_number(void *ctx, tn_item *to) {
  Stream *s = ctx;
  if (s->at == s->bad) return s->at++, snprintf(to->error, to->error_size, "the line is cut"), -1;
  if (s->at == s->n) return 0;
  *(int64_t *)to->data[0] = ++s->at;
  return 1;
}

static bool rewind_numbers(void *ctx, uint64_t epoch, char *error, size_t error_size) {
  Stream *s = ctx;
  (void)epoch, (void)error, (void)error_size;
  s->n_rewinds++;
  s->at = 0;
  return true;
}

static void test_streams(void) {
  static const tn_dataset_type stream_type = {.next = next_number, .rewind = rewind_numbers};
  Stream s = {.n = 10, .bad = -1};
  int64_t ids[40];
  tn_dataset *d = tn_dataset_new(&stream_type, &s, &fields[1], 1, TN_STREAM, why, sizeof why);
  for (uint32_t workers = 0; workers < 3; workers++)
    for (int drop = 0; drop < 2; drop++) {
      s.n = 10, s.n_rewinds = 0;
      tn_loader *l = loader(d, (tn_loader_options){.batch_size = 4, .workers = workers, .drop_last = drop});
      CHECK(tn_loader_count(l) == TN_STREAM);
      for (int epoch = 0; epoch < 2; epoch++) {
        CHECK(ids_of(l, ids) == (drop ? 10 : 13));
        CHECK(ids[0] == 1 && ids[3] == 4 && ids[5] == 5 && (drop || ids[11] == 10));
      }
      CHECK(s.n_rewinds == 2);
      tn_loader_state state = tn_loader_get_state(l);
      state.position = 2;
      CHECK(tn_loader_set_state(l, state) == TN_OK);
      CHECK(ids_of(l, ids) == (drop ? 0 : 3) && (drop || ids[0] == 9));
      s.n = 8;  // ends with a full batch
      CHECK(ids_of(l, ids) == 10);
      s.n = 0;
      CHECK(ids_of(l, ids) == 0);
      tn_loader_free(l);
    }
  s = (Stream){.n = 10, .bad = 6};
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 4, .workers = 1});
  tn_batch b;
  CHECK(tn_loader_next(l, &b) == TN_OK && b.number);
  CHECK(tn_loader_next(l, &b) == TN_ERR_VALUE);
  CHECK_HAS(tn_loader_error(l), "batch 1, item 6: the line is cut");
  CHECK(tn_loader_next(l, &b) == TN_OK && *(int64_t *)tn_batch_array(b, "id").data == 9 && tn_batch_size(b) == 2);
  CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
  tn_loader_free(l);
  CHECK(!tn_loader_new(d, &(tn_loader_options){.sampler = {.kind = TN_SHUFFLED}}, why, sizeof why));
  CHECK_HAS(why, "a stream is read in its own order");
  tn_dataset_free(d);
}

// ---- joined sets
static bool halve(void *ctx, size_t k, const tn_item *from, tn_item *to) {
  (void)ctx, (void)k;
  to->length[0] = from->length[0];
  for (int64_t i = 0; i < from->length[0]; i++) ((float *)to->data[0])[i] = ((float *)from->data[0])[2 * i] / 2;
  *(int64_t *)to->data[1] = -*(int64_t *)from->data[1];
  return true;
}

static void test_joins(void) {
  Source s, t;
  int64_t ids[60];
  tn_dataset *a = source(&s, 5), *b = source(&t, 7), *none = source(&s, 0);
  tn_dataset *both = tn_dataset_concat((tn_dataset *[]){a, none, b}, 3, why, sizeof why);
  tn_dataset *some = tn_dataset_subset(both, (size_t[]){11, 0, 5, 4}, 4, why, sizeof why);
  tn_field halved[] = {{.name = "x", .dtype = TN_F32, .is_variable = true, .rank = 1, .dims = {BOUND}}, fields[1]};
  tn_dataset *map = tn_dataset_map(some, halved, 2, halve, NULL, why, sizeof why);
  CHECK(both && some && map && tn_dataset_count(both) == 12 && tn_dataset_count(map) == 4);
  tn_dataset_free(a), tn_dataset_free(b), tn_dataset_free(none), tn_dataset_free(both), tn_dataset_free(some);
  CHECK(s.n_freed == 0 && t.n_freed == 0);
  tn_loader *l = loader(map, (tn_loader_options){.batch_size = 4, .workers = 1});
  CHECK(ids_of(l, ids) == 5 && ids[0] == -6 && ids[1] == 0 && ids[2] == 0 && ids[3] == -4);
  tn_batch batch;
  CHECK(tn_loader_next(l, &batch) == TN_OK);
  tn_array x = tn_batch_array(batch, "x");
  CHECK(x.rank == 2 && x.dims[1] == 4 && *(float *)x.data == 3.5f);
  tn_loader_free(l), tn_dataset_free(map);
  CHECK(s.n_freed == 2 && t.n_freed == 1);
  a = source(&s, 5);
  CHECK(!tn_dataset_subset(a, (size_t[]){5}, 1, why, sizeof why));
  CHECK_HAS(why, "index 0 of the subset is 5, the data set has 5 items");
  tn_array ones = tn_i64(ids, 3);
  b = tn_dataset_arrays(&ones, 1, NULL, why, sizeof why);
  CHECK(!tn_dataset_concat((tn_dataset *[]){a, b}, 2, why, sizeof why));
  CHECK_HAS(why, "data set 2 has other fields than the first one");
  tn_dataset_free(a), tn_dataset_free(b);
}

// ---- memory: taken when the loader is made, none in an epoch; every allocation may fail
static void test_memory(void) {
  Source s;
  int64_t ids[300];
  tn_dataset *d = source(&s, 100);
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 8});
  size_t one_batch = tn_loader_bytes(l);
  CHECK(one_batch < 8 * (BOUND * 2 * 4 + 16) + 4096);
  tn_loader_free(l);
  l = loader(d, (tn_loader_options){.batch_size = 8, .workers = 2, .prefetch = 2});
  CHECK(tn_loader_bytes(l) == 3 * one_batch);
  tn_loader_free(l);
  l = loader(d, (tn_loader_options){.batch_size = 8, .workers = 2, .sampler = {.kind = TN_SHUFFLED}});
  CHECK(tn_loader_bytes(l) <= 2 * one_batch);
  ids_of(l, ids);
  uint64_t before = rt_malloc_count();
  ids_of(l, ids), ids_of(l, ids);
  CHECK(rt_malloc_count() == before);
  tn_loader_free(l);
  uint64_t n = 0;
  for (l = NULL; !l && n < 50;) {
    rt_malloc_fail_at(++n);
    l = tn_loader_new(d, &(tn_loader_options){.workers = 1, .sampler = {.kind = TN_BUCKETS}}, why, sizeof why);
    if (!l) CHECK_HAS(why, "out of memory");
  }
  rt_malloc_fail_at(0);
  CHECK(n > 3 && l);
  tn_loader_free(l), tn_dataset_free(d);
}

static void test_ledger(void) {
  Source s;
  tn_batch b = {0}, kept;
  tn_dataset *d = source(&s, 10);
  tn_loader *l = loader(d, (tn_loader_options){.batch_size = 4, .workers = 1});
  size_t n = 0;
  CHECK(tn_loader_stats(l).created_in == 0 && tn_loader_next(l, &b) == TN_OK && tn_batch_arrays(b, &n));
  tn_stats first = tn_loader_stats(l);
  kept = tn_batch_retain(b);
  CHECK(n > 0 && first.created_in == (int64_t)n && first.live == (int64_t)n && first.disposed_in == 0);
  while (tn_loader_next(l, &b) == TN_OK && b.number) CHECK(tn_loader_stats(l).live == (int64_t)n);
  tn_stats last = tn_loader_stats(l);
  CHECK(last.created_in == 3 * (int64_t)n && last.disposed_in == last.created_in && last.live == 0);
  CHECK(tn_stats_print(last, stdout) && tn_batch_is_live(kept));
  puts("");
  tn_batch_release(kept);
  tn_loader_free(l), tn_dataset_free(d);
}

// ---- extras of a model's file
static void test_extras(void) {
  tn_program *p = tn_program_create("extras");
  tn_module *fc = tn_linear(tn_root(p), "fc", 3, 2);
  tn_function *f = tn_function_begin(p, "predict");
  tn_output(f, "y", tn_call(fc, tn_input(f, "x", TN_F32, TN_SHAPE(1, 3))));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  tn_loader_state state = {1, 2, 3, 4}, back = {0};
  char text[] = "abc", got[8] = "", path[] = "feed.safetensors";
  tn_extra out[] = {{"loader", &state, sizeof state}, {"words", text, 3}, {"none", NULL, 0}};
  float w[6] = {1, 2, 3, 4, 5, 6}, have[6];
  size_t size = 99;
  CHECK(tn_set(m, "fc.weight", w, 6) == TN_OK && tn_save_with(m, path, true, out, 3) == TN_OK);
  CHECK(tn_initialize(m, 1) == TN_OK && tn_load(m, path, true) == TN_OK);  // passed over
  CHECK(tn_get(m, "fc.weight", have, 6) == TN_OK && !memcmp(w, have, sizeof w));
  CHECK(tn_extra_size(m, path, "words", &size) == TN_OK && size == 3);
  CHECK(tn_extra_size(m, path, "none", &size) == TN_OK && size == 0);
  CHECK(tn_extra_size(m, path, "nothing", &size) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(m), "the extra 'nothing' is missing");
  tn_extra in[] = {{"words", got, 3}, {"loader", &back, sizeof back}};
  CHECK(tn_load_with(m, path, true, in, 2) == TN_OK && !memcmp(&state, &back, sizeof state) && !strcmp(got, "abc"));
  // All or nothing: a size that differs changes neither model nor extras
  tn_extra wrong[] = {{"loader", &back, sizeof back}, {"words", got, 4}};
  back = (tn_loader_state){0};
  CHECK(tn_initialize(m, 1) == TN_OK && tn_get(m, "fc.weight", w, 6) == TN_OK);
  CHECK(tn_load_with(m, path, true, wrong, 2) == TN_ERR_FILE && back.seed == 0);
  CHECK_HAS(tn_error_text(m), "the extra 'words' has 3 bytes, expected 4");
  CHECK(tn_get(m, "fc.weight", have, 6) == TN_OK && !memcmp(w, have, sizeof w));
  tn_extra twice[] = {{"a", text, 1}, {"a", text, 1}};
  CHECK(tn_save_with(m, path, true, twice, 2) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "two extras are named 'a'");
  tn_load_report report;
  CHECK(tn_load_partial(m, path, true, &report) == TN_OK && report.n_extra == 0);
  CHECK(tn_save(m, path, false) == TN_OK && tn_load_with(m, path, false, in, 1) == TN_ERR_FILE);
  CHECK_HAS(tn_error_text(m), "the extra 'words' is missing");
  remove(path);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  test_workers();
  test_epochs_differ();
  test_buckets();
  test_ranks();
  test_shards();
  test_lanes_and_custom();
  for (tn_layout layout = TN_PADDED; layout <= TN_CONCATENATED; layout++)
    check_padded(layout, 0), check_padded(layout, 2);
  test_collate();
  test_errors();
  test_refused();
  test_sizes();
  test_stop();
  test_free_anywhere();
  test_resume();
  test_streams();
  test_joins();
  test_memory();
  test_ledger();
  test_extras();
  return check_report();
}
