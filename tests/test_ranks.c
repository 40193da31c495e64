// Ranks that share the shards of a step, as threads: any number of them gives the bits of one; each has a part of the optimizer's
// state, and all write one file; what they send is what the formula says; what one cannot do, none does, and says so; any message
// that gets lost, comes twice or comes too late is noticed, and no file is made of what came behind.
#include "frontend/tenure.h"
#include "runtime/exec/ranks.h"
#include "tests/check.h"
#include "tests/thread_transport.h"

#include <sched.h>
#include <stdatomic.h>

enum { BATCH = 48, WIDTH = 8, HIDDEN = 3008, CLASSES = 16, SHARDS = 8, MOST_PARAMS = 1 << 18 };
static float xs[BATCH * WIDTH];
static int64_t labels[BATCH];

typedef enum { KEEPS, HAS_CHECKPOINT } Kept;

static tn_model *build_with(uint32_t shards, int64_t bucket_bytes, uint32_t n_workers, Kept kept) {
  tn_program *p = tn_program_create("ranks");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p), *body = tn_sequential(net, "body"), *head = tn_linear(net, "head", HIDDEN, CLASSES);
  tn_linear(body, "hidden", WIDTH, HIDDEN), tn_activation(body, "act", "relu"), tn_dropout_module(body, "drop", 0.25);
  if (kept == HAS_CHECKPOINT) tn_checkpoint(body);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, WIDTH)), y = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  if (shards) tn_distributed(f, .n = shards, .batch = B, .bucket_bytes = bucket_bytes);
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_call(body, x)), y);
  tn_backward(loss);
  tn_output(f, "norm", tn_clip_grad_norm(f, net, 0.1));
  tn_adamw(f, net, .lr = 1e-2);
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = n_workers, .seed = 3);
  tn_program_free(p);
  return m;
}

static tn_model *build(uint32_t shards) { return build_with(shards, 0, 1, KEEPS); }

// ---- one rank
typedef struct {
  Net *net;
  tn_model *model;
  uint32_t rank, n_ranks;
  int64_t rows, own_rows;  // own_rows: of this rank, -1: all are given all
  int steps, stops_at;     // stops_at: this rank makes no run from that on; -1: all
  int bad_label_at;        // of this rank; -1: none
  int refuses_at;          // this rank has nothing for that run, and all go on; `steps`: nothing to save; -1: it has
  double limit;
  bool has_thread;  // a progress thread
  tn_status status;
  char error[512];
  float loss, norm, params[MOST_PARAMS];  // those of all ranks that it has
  bool has[MOST_PARAMS];
  size_t n_params;
  const char *file;  // saved to; NULL: not
  tn_exchanged exchanged, at_begin;
} Rank;

// What rank 1 refuses, all refuse.
static bool is_refused(Rank *r, tn_status status) {
  const char *why = r->net ? "rank 1: there is no item" : "there is no item";
  return CHECK(status == TN_ERR_ARGUMENT) && CHECK(!strcmp(tn_error_text(r->model), why));
}

static tn_status run_step(Rank *r, int k) {
  int64_t first = 0, count = r->rows, y[BATCH];
  if (r->own_rows >= 0) tn_shard_rows(r->rows, SHARDS, r->rank, r->n_ranks, &first, &count), count += r->own_rows;
  memcpy(y, labels + first, (size_t)count * sizeof *y);
  if (k == r->bad_label_at) y[0] = CLASSES;
  if (k == r->refuses_at && (r->rank == 1 || !r->net))
    return is_refused(r, tn_run_refuse(r->model, "there is no item")) ? TN_OK : TN_ERR_ARGUMENT;
  tn_status status = tn_run(r->model, "step", TN_IN(tn_f32(xs + first * WIDTH, count, WIDTH), tn_i64(y, count)),
                            TN_OUT(tn_f32_scalar(&r->norm), tn_f32_scalar(&r->loss)));
  return k == r->refuses_at && is_refused(r, status) ? TN_OK : status;
}

static tn_status save(Rank *r) {
  if (r->refuses_at != r->steps || r->rank != 1) return tn_save(r->model, r->file, true);
  return tn_run_refuse(r->model, "there is no item");
}

static void keep_params(Rank *r) {
  for (uint32_t k = 0; k < tn_param_count(r->model); k++) {
    tn_array a = tn_param_at(r->model, k);
    int64_t n = 1, first, count;
    for (uint32_t d = 0; d < a.rank; d++) n *= a.dims[d];
    tn_param_owned(r->model, k, &first, &count);
    memcpy(r->params + r->n_params + first, (float *)a.data + first, (size_t)count * sizeof(float));
    for (int64_t e = first; e < first + count; e++) r->has[r->n_params + (size_t)e] = true;
    r->n_params += (size_t)n;
  }
}

static void *train(void *ctx) {
  Rank *r = ctx;
  NetRank *rank = malloc(sizeof *rank);
  tn_transport t = net_transport(r->net, rank, r->rank, r->n_ranks);
  tn_distribute_options o = {
      .time_limit = r->limit, .has_own_rows = r->own_rows >= 0, .progress_thread = r->has_thread};
  r->status = r->net ? tn_distribute(r->model, &t, &o) : TN_OK;
  r->at_begin = tn_exchanged_of(r->model);
  for (int k = 0; k < r->steps && k != r->stops_at && !r->status; k++) r->status = run_step(r, k);
  snprintf(r->error, sizeof r->error, "%s", tn_error_text(r->model));
  r->exchanged = tn_exchanged_of(r->model);
  if (!r->status && r->file) r->status = save(r);
  if (r->status) snprintf(r->error, sizeof r->error, "%s", tn_error_text(r->model));
  keep_params(r);
  free(rank);
  return NULL;
}

// All ranks at once. Instances begin with other parameters: rank 0's are everybody's.
static Rank *train_over(Net *net, const tn_model *m, Rank like) {
  pthread_mutex_init(&net->lock, NULL);
  Rank *r = calloc(like.n_ranks, sizeof *r);
  pthread_t threads[NET_MOST];
  for (uint32_t k = 0; k < like.n_ranks; k++) {
    r[k] = like;
    r[k].net = net, r[k].rank = k, r[k].model = tn_instance(m, 3 + k);
    r[k].stops_at = k == 1 ? like.stops_at : -1;
    r[k].bad_label_at = k == 1 ? like.bad_label_at : -1;
    if (k != 1 && like.own_rows > 0) r[k].own_rows = 0;
    pthread_create(&threads[k], NULL, train, &r[k]);
  }
  for (uint32_t k = 0; k < like.n_ranks; k++) pthread_join(threads[k], NULL), tn_model_free(r[k].model);
  net_free(net);
  return r;
}

static Rank *train_all(const tn_model *m, Rank like) { return train_over(&(Net){.fault = NET_FAULTLESS}, m, like); }

static const Rank plain = {.n_ranks = 2,
                           .rows = BATCH,
                           .own_rows = -1,
                           .steps = 5,
                           .stops_at = -1,
                           .bad_label_at = -1,
                           .refuses_at = -1,
                           .limit = 60};

static Rank *alone(const tn_model *m, Rank like) {
  Rank *r = malloc(sizeof *r);
  *r = like;
  r->model = tn_instance(m, 3), r->own_rows = -1, r->n_ranks = 1;
  train(r);
  tn_model_free(r->model);
  return r;
}

// What both have, and what they put out
static bool is_same(const Rank *a, const Rank *b) {
  bool same = a->n_params == b->n_params;
  for (size_t k = 0; k < a->n_params && same; k++)
    same = !a->has[k] || !b->has[k] || !memcmp(&a->params[k], &b->params[k], sizeof(float));
  return same && !memcmp(&a->loss, &b->loss, sizeof a->loss) && !memcmp(&a->norm, &b->norm, sizeof a->norm);
}

static size_t n_had(const Rank *r) {
  size_t n = 0;
  for (size_t k = 0; k < r->n_params; k++) n += r->has[k];
  return n;
}

// The moments of Adam: every element has one owner, and owners have as much but for a block.
static void check_owners(const Rank *r, uint32_t n_ranks) {
  size_t state = 2 * (HIDDEN * WIDTH + HIDDEN + HIDDEN * CLASSES + CLASSES), common = r->n_params - state, all = 0;
  for (uint32_t k = 0; k < n_ranks; k++) {
    size_t own = n_had(&r[k]) - common;
    CHECK(own <= state / n_ranks + 2 * 4096 && own + 2 * 4096 >= state / n_ranks);
    all += own;
  }
  CHECK(all == state);
}

static void test_bits(const tn_model *m) {
  static const int64_t rows[] = {BATCH, 29, 3, 1};
  for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
    Rank like = plain;
    like.rows = rows[j];
    Rank *one = alone(m, like);
    CHECK(!one->status);
    for (uint32_t n = 1; n <= SHARDS; n++)
      for (int own = -1; own <= 0; own++) {
        like.n_ranks = n, like.own_rows = own;
        Rank *r = train_all(m, like);
        for (uint32_t k = 0; k < n; k++)
          if (!CHECK(!r[k].status && is_same(&r[k], one)))
            printf("  rank %u of %u, %lld rows: status %d, %s\n", k, n, (long long)rows[j], r[k].status, r[k].error);
        check_owners(r, n);
        free(r);
      }
    free(one);
  }
}

// A bucket for each gradient, and several workers, who add the sums of a bucket together: the same bits.
static void test_buckets(const tn_model *m) {
  static const int64_t bytes[] = {1, HIDDEN * sizeof(float)};
  Rank *one = alone(m, plain);
  for (uint32_t j = 0; j < 2; j++) {
    tn_model *small = build_with(SHARDS, bytes[j], 1 + j, KEEPS);
    for (uint32_t n = 1; n <= SHARDS && CHECK(small); n++) {
      Rank like = plain;
      like.n_ranks = n;
      Rank *r = train_all(small, like);
      for (uint32_t k = 0; k < n; k++)
        if (!CHECK(!r[k].status && is_same(&r[k], one))) printf("  rank %u of %u: %s\n", k, n, r[k].error);
      uint64_t n_exchanges = r[0].exchanged.n_exchanges - r[0].at_begin.n_exchanges;
      CHECK(n_exchanges == (uint64_t)like.steps * (j ? 8 : 9));  // three buckets, or four, and five beside them
      free(r);
    }
    tn_model_free(small);
  }
  free(one);
}

// What is computed again for the backward, between exchanges of its gradients: the same bits.
static void test_checkpoint(const tn_model *m) {
  tn_model *less = build_with(SHARDS, HIDDEN * sizeof(float), 2, HAS_CHECKPOINT);
  tn_plan plan;
  if (CHECK(less) && CHECK(!tn_plan_of(less, "step", &plan))) {
    CHECK(plan.n_again > 0);
    Rank *one = alone(m, plain), *r = train_all(less, plain);
    for (uint32_t k = 0; k < plain.n_ranks; k++)
      if (!CHECK(!r[k].status && is_same(&r[k], one))) printf("  rank %u: %s\n", k, r[k].error);
    free(one), free(r);
  }
  tn_model_free(less);
}

// A thread that tests the transport while kernels run: the same bits, of one worker and of two.
static void test_thread(const tn_model *m) {
  Rank *one = alone(m, plain);
  for (uint32_t workers = 1; workers <= 2; workers++) {
    tn_model *small = build_with(SHARDS, 1, workers, KEEPS);
    for (uint32_t n = 1; n <= SHARDS && CHECK(small); n += n < 4 ? 1 : 2) {
      Rank like = plain;
      like.n_ranks = n, like.has_thread = true;
      Rank *r = train_all(small, like);
      for (uint32_t k = 0; k < n; k++)
        if (!CHECK(!r[k].status && is_same(&r[k], one))) printf("  rank %u of %u: %s\n", k, n, r[k].error);
      free(r);
    }
    tn_model_free(small);
  }
  free(one);
}

// A transport of which nothing is done before its tests are counted
typedef struct {
  pthread_t maker;
  atomic_int n_tests, n_elsewhere;
  atomic_bool is_done, fails;
} Slow;

static bool slow_test(void *ctx, bool *done, char *why, size_t why_size) {
  Slow *s = ctx;
  s->n_tests++;
  s->n_elsewhere += !pthread_equal(pthread_self(), s->maker);
  *done = s->is_done;
  return !s->fails || (snprintf(why, why_size, "the cable was cut"), false);
}

static bool wait_for(const atomic_int *n, int least) {
  double end = net_now() + 20;
  while (*n < least && net_now() < end) sched_yield();
  return *n >= least;
}

// The thread tests between start and stop alone, until all is done or a test fails, which the next stop says.
static void test_poller(void) {
  Slow s = {.maker = pthread_self()};
  char why[64] = "";
  bool is_open = false;
  RtTransport t = {.n_ranks = 2, .ctx = &s, .test = slow_test, .any_thread = true};
  RtPoller *p = rt_poller_new(&t);
  rt_poller_start(p);
  CHECK(wait_for(&s.n_tests, 3) && rt_poller_stop(p, &is_open, why, sizeof why) && is_open);
  int n = s.n_tests;
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  CHECK(s.n_tests == n && s.n_elsewhere == n);
  s.is_done = true;
  rt_poller_start(p);
  CHECK(wait_for(&s.n_tests, n + 1));
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  CHECK(s.n_tests == n + 1 && rt_poller_stop(p, &is_open, why, sizeof why) && !is_open);
  s.fails = true;
  rt_poller_start(p);
  CHECK(wait_for(&s.n_tests, n + 2) && !rt_poller_stop(p, &is_open, why, sizeof why) && rt_poller_has_failed(p));
  CHECK_HAS(why, "the cable was cut");
  rt_poller_free(p);
}

// Of N elements of gradients a rank sends N (R - 1) / R to those who add, and as many of parameters to all; beside that sums that
// are wanted whole, count and loss, sums of squares of blocks for the norm, and twice a word to each.
static void test_bytes(const tn_model *m) {
  enum {
    N = HIDDEN * WIDTH + HIDDEN + HIDDEN * CLASSES + CLASSES,
    SHARED = 2 * 16,  // in lines of 16
    BLOCKS = (HIDDEN * WIDTH + 4095) / 4096 + 1 + (HIDDEN * CLASSES + 4095) / 4096 + 1
  };
  for (uint64_t n = 2; n <= 8; n *= 2) {
    Rank like = plain;
    like.n_ranks = (uint32_t)n, like.steps = 1;
    Rank *r = train_all(m, like);
    uint64_t sent = 0;
    for (uint32_t k = 0; k < n; k++) {
      CHECK(!r[k].status && r[k].exchanged.n_exchanges - r[k].at_begin.n_exchanges == 6);
      sent += r[k].exchanged.bytes_sent - r[k].at_begin.bytes_sent;
    }
    CHECK(sent == (n - 1) * (2 * N + 2 * SHARED + BLOCKS) * sizeof(float) + 2 * n * (n - 1) * sizeof(RtWord));
    free(r);
  }
}

// Sums, those of earlier shards and what is received lie in the arena, and its lower bound counts them: of one process with eight shards
// four times all gradients, and of three, whose last one has two nodes of its own, a third more but for blocks.
static void test_memory(const tn_model *m) {
  int64_t sums = (HIDDEN * WIDTH + HIDDEN + HIDDEN * CLASSES + CLASSES) * (int64_t)sizeof(float);
  tn_plan step, update;
  CHECK(!tn_plan_of(m, "step", &step) && !tn_plan_of(m, "step.update", &update));
  CHECK(update.lower_bound > 4 * sums && update.lower_bound < 4 * sums + sums / 2);
  CHECK(step.lower_bound >= update.lower_bound && (getenv("TN_CHECK") || step.peak_bytes == step.lower_bound));
  CHECK(update.peak_bytes >= update.lower_bound && update.peak_bytes <= step.peak_bytes);
}

// A model that could not be distributed for want of memory or of a thread is what it was.
static void test_no_memory(const tn_model *m) {
  Net net = {.fault = NET_FAULTLESS};
  NetRank *rank = malloc(sizeof *rank);
  tn_transport t = net_transport(&net, rank, 0, 2);
  Rank *one = alone(m, plain), like = plain;
  for (uint64_t k = 1; k <= 6; k++) {
    Rank *r = malloc(sizeof *r);
    *r = like;
    r->model = tn_instance(m, 3), r->n_ranks = 1;
    rt_malloc_fail_at(k);
    tn_status status = tn_distribute(r->model, &t, &(tn_distribute_options){.progress_thread = true});
    rt_malloc_fail_at(0);
    CHECK(status == TN_ERR_MEMORY);
    train(r);
    CHECK(!r->status && is_same(r, one));
    tn_model_free(r->model), free(r);
  }
  free(one), free(rank);
}

// ---- files
enum { FILE_MOST = 1 << 21 };
static size_t read_file(const char *path, unsigned char *to, size_t most) {
  FILE *in = fopen(path, "rb");
  size_t n = in ? fread(to, 1, most, in) : 0;
  if (in) fclose(in);
  return n;
}

// One file for any number of ranks; another number, and one process, go on from it.
static void test_files(const tn_model *m, const char *folder) {
  char alone_path[600], path[600];
  unsigned char *a = malloc(FILE_MOST), *b = malloc(FILE_MOST);
  snprintf(alone_path, sizeof alone_path, "%s/alone", folder), snprintf(path, sizeof path, "%s/ranks", folder);
  Rank like = plain;
  like.file = alone_path;
  Rank *one = alone(m, like);
  size_t n_alone = read_file(alone_path, a, FILE_MOST);
  CHECK(!one->status && n_alone > MOST_PARAMS);
  like.file = path;
  for (uint32_t n = 1; n <= SHARDS; n++) {
    like.n_ranks = n;
    Rank *r = train_all(m, like);
    for (uint32_t k = 0; k < n; k++)
      if (!CHECK(!r[k].status)) printf("  rank %u of %u: %s\n", k, n, r[k].error);
    CHECK(read_file(path, b, FILE_MOST) == n_alone && !memcmp(a, b, n_alone));
    free(r), remove(path);
  }
  like.file = "/nowhere/to/be/found/ranks", like.n_ranks = 3;
  Rank *r = train_all(m, like);
  for (uint32_t k = 0; k < 3; k++) {
    CHECK(r[k].status == TN_ERR_FILE);
    CHECK_HAS(r[k].error, "/nowhere/to/be/found/ranks: No such file or directory");
  }
  remove(alone_path);
  free(r), free(one), free(a), free(b);
}

// ---- faults
static void test_refusals(const tn_model *m) {
  Rank like = plain;
  like.n_ranks = 3, like.bad_label_at = 2;
  Rank *r = train_all(m, like);
  for (uint32_t k = 0; k < 3; k++) {
    CHECK(r[k].status == TN_ERR_VALUE);
    CHECK_HAS(r[k].error, "rank 1: step: ");
    CHECK(is_same(&r[k], &r[0]));
  }
  free(r);
  like = plain, like.own_rows = 3, like.rows = 40;
  r = train_all(m, like);
  for (uint32_t k = 0; k < 2; k++) {
    CHECK(r[k].status == TN_ERR_ARGUMENT);
    CHECK_HAS(r[k].error, "step: rank 0 was given 20 rows, not 21");
  }
  free(r);
}

static void test_faults(const tn_model *m) {
  Rank like = plain;
  like.n_ranks = 3, like.limit = 0.5, like.stops_at = 4;
  Rank *r = train_all(m, like);
  for (uint32_t k = 0; k < 3; k += 2) CHECK(r[k].status == TN_ERR_RANKS);
  CHECK(strstr(r[0].error, "other ranks have not answered for 0.5 seconds") ||
        strstr(r[2].error, "other ranks have not answered for 0.5 seconds"));
  free(r);
}

// One rank has nothing for a run: all hear why, nothing has changed, and all go on.
static void test_no_item(const tn_model *m, const char *folder) {
  char path[600];
  Rank like = plain;
  like.refuses_at = 2;
  Rank *one = alone(m, like);
  like.n_ranks = 3;
  Rank *r = train_all(m, like);
  for (uint32_t k = 0; k < 3; k++) CHECK(!r[k].status && is_same(&r[k], one));
  free(r), free(one);
  snprintf(path, sizeof path, "%s/none", folder);
  like.refuses_at = like.steps, like.file = path;
  r = train_all(m, like);
  for (uint32_t k = 0; k < 3; k++) {
    CHECK(r[k].status == TN_ERR_ARGUMENT);
    CHECK_HAS(r[k].error, "rank 1: there is no item");
  }
  CHECK(remove(path));
  free(r);
}

typedef struct {
  unsigned char bytes[FILE_MOST];
  size_t n;
} File;

// Two ranks make steps and a file over a transport with one fault. Whole: neither has an error, and the file is there; else both
// have one, and there is no file, or all of it.
static void check_fault(const tn_model *m, Rank like, Net net, bool is_whole, const File *file) {
  static File found;
  like.limit = is_whole ? 60 : 0.2;
  Rank *r = train_over(&net, m, like);
  for (uint32_t k = 0; k < 2; k++)
    if (!CHECK(is_whole ? !r[k].status : r[k].status == TN_ERR_RANKS && *r[k].error))
      printf("  fault %d at message %u: rank %u says '%s'\n", (int)net.fault, net.faulty, k, r[k].error);
  found.n = read_file(like.file, found.bytes, FILE_MOST);
  CHECK((found.n == 0 && !is_whole) || (found.n == file->n && !memcmp(found.bytes, file->bytes, found.n)));
  remove(like.file);
  free(r);
}

// Every message of rank 0 in turn comes late, is lost, comes too late, comes twice. When it sends the last one it has heard
// all, and nobody listens behind that.
static void test_transport(const tn_model *m, const char *folder) {
  static File file;
  char path[600];
  Net net = {.fault = NET_FAULTLESS};
  Rank like = plain;
  snprintf(path, sizeof path, "%s/faulty", folder);
  like.steps = 2, like.file = path;
  free(train_over(&net, m, like));
  file.n = read_file(path, file.bytes, FILE_MOST);
  CHECK(file.n > 0 && net.n_sent > 20);
  remove(path);
  for (uint32_t k = 0; k < net.n_sent; k++) {
    like.has_thread = k % 2;
    check_fault(m, like, (Net){.fault = NET_DELAYS, .faulty = k, .delay = 0.02}, true, &file);
    check_fault(m, like, (Net){.fault = NET_REPEATS, .faulty = k}, k + 1 == net.n_sent, &file);
    if (k + 1 == net.n_sent) break;
    check_fault(m, like, (Net){.fault = NET_LOSES, .faulty = k}, false, &file);
    check_fault(m, like, (Net){.fault = NET_DELAYS, .faulty = k, .delay = 2}, false, &file);
  }
}

static void test_arguments(void) {
  tn_model *m = build(2), *none = build(0);
  Net net = {.fault = NET_FAULTLESS};
  NetRank *rank = malloc(sizeof *rank);
  tn_transport t = net_transport(&net, rank, 0, 3), wrong = net_transport(&net, rank, 3, 3);
  CHECK(tn_distribute(m, &t, NULL) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "tn_distribute: function 'step' has 2 shards, too few for 3 ranks");
  CHECK(tn_distribute(none, &t, NULL) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(none), "tn_distribute: no function of the program is distributed");
  CHECK(tn_distribute(m, &wrong, NULL) == TN_ERR_ARGUMENT && tn_distribute(m, NULL, NULL) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "its rank is not one of its ranks");
  tn_transport funneled = net_transport(&net, rank, 0, 2);
  funneled.any_thread = false;
  CHECK(tn_distribute(m, &funneled, &(tn_distribute_options){.progress_thread = true}) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m),
            "tn_distribute: a progress thread has no place: the transport's calls may come from one thread");
  int64_t first = 0, count = 0, all = 0;
  for (uint32_t k = 0; k < 3; k++) tn_shard_rows(29, 8, k, 3, &first, &count), all += count;
  CHECK(all == 29 && first + count == 29);
  tn_model_free(m), tn_model_free(none), free(rank);
}

int main(void) {
  char folder[] = "/tmp/tenure-ranks-XXXXXX";  // its own, whatever else runs beside it
  if (!mkdtemp(folder)) return 1;
  for (int k = 0; k < BATCH * WIDTH; k++) xs[k] = (float)((k * 37) % 101) / 50 - 1;
  for (int k = 0; k < BATCH; k++) labels[k] = k % 3;
  tn_model *m = build(SHARDS);
  if (!CHECK(m)) return check_report();
  test_bits(m);
  test_buckets(m);
  test_checkpoint(m);
  test_poller();
  test_thread(m);
  test_bytes(m);
  test_memory(m);
  test_no_memory(m);
  test_files(m, folder);
  tn_model *small = build_with(SHARDS, 1, 1, KEEPS);
  test_refusals(m), test_refusals(small);
  test_no_item(m, folder);
  test_faults(m), test_faults(small);
  test_transport(m, folder);
  tn_model_free(small);
  test_arguments();
  tn_model_free(m);
  CHECK(!remove(folder));
  return check_report();
}
