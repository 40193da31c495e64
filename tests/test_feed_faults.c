// Loaders at bad moments: set going again in the middle of a stop, forked while their threads work, streams of which
// items, rewinding or collation fail. What hangs is ended by SIGALRM.
#include "frontend/tenure.h"
#include "tests/check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { HANGS = 60 };  // seconds, of one test
static char why[1024];
static const tn_field id_field = {.name = "id", .dtype = TN_I64};

static bool get_id(void *ctx, size_t k, tn_item *to) {
  (void)ctx;
  *(int64_t *)to->data[0] = (int64_t)k;
  return true;
}

static tn_dataset *ids(size_t n) {
  return tn_dataset_new(&(tn_dataset_type){.get = get_id}, NULL, &id_field, 1, n, why, sizeof why);
}

static tn_loader *loader(tn_dataset *d, tn_loader_options o) {
  tn_loader *l = tn_loader_new(d, &o, why, sizeof why);
  if (!CHECK(l != NULL)) printf("%s\n", why), exit(1);
  return l;
}

// The rest of an epoch: ids, -1 behind each batch, -2 for an error; gives their number.
enum { MOST = 200 };
static size_t rest_of(tn_loader *l, int64_t out[MOST]) {
  size_t n = 0;
  for (tn_batch b; n < MOST - 20;) {
    tn_status s = tn_loader_next(l, &b);
    if (!s && !b.number) return n;
    tn_array id = tn_batch_array(b, "id");
    for (int64_t i = 0; !s && i < id.dims[0]; i++) out[n++] = ((int64_t *)id.data)[i];
    out[n++] = s ? -2 : -1;
  }
  return n;
}

static bool is_same(const int64_t *a, size_t n, const int64_t *b, size_t m) {
  return n == m && !memcmp(a, b, n * sizeof *a);
}

// ---- a loader that is set going between any two instructions of a stop
// Not under the thread sanitizer: a step may end inside its runtime, with a lock of its own held that the handler's
// instrumented calls then wait for.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER
#endif
#endif
#if defined(__x86_64__) && !defined(HAS_THREAD_SANITIZER)
#define HAS_SINGLE_STEPS
static tn_loader *stopping;
static volatile sig_atomic_t n_steps;
static const unsigned trap_flag = 0x100;

static void restart(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)info;
  if (--n_steps) return;
  tn_batch b;
  ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)trap_flag;
  tn_loader_state s = tn_loader_get_state(stopping);
  s.position = 0;
  CHECK(tn_loader_set_state(stopping, s) == TN_OK);
  CHECK(tn_loader_next(stopping, &b) == TN_OK);
}

// False: the stop was over before `step` instructions.
static bool stop_in_steps(int step) {
  n_steps = step;
  __asm__ volatile("subq $128, %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n addq $128, %%rsp" ::: "memory", "cc");
  tn_loader_stop(stopping);
  bool is_over = n_steps > 0;
  __asm__ volatile("subq $128, %%rsp\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n addq $128, %%rsp" ::: "memory", "cc");
  return !is_over;
}

static void test_restart_in_stop(uint32_t workers) {
  tn_dataset *d = ids(40);
  tn_loader *l = stopping = loader(d, (tn_loader_options){.batch_size = 4, .workers = workers});
  struct sigaction on_trap = {.sa_sigaction = restart, .sa_flags = SA_SIGINFO}, before;
  int64_t seen[MOST];
  int n_stopped = 0, n_gone_on = 0, step = 1;
  sigaction(SIGTRAP, &on_trap, &before);
  tn_loader_stop(l);  // binds its symbols
  alarm(HANGS);
  for (; stop_in_steps(step); step++) {
    bool is_stopped = tn_loader_is_stopped(l);
    size_t n = rest_of(l, seen);
    CHECK(n == (is_stopped ? 0 : 45));  // 9 of 10 batches, since restart took one
    n_stopped += is_stopped, n_gone_on += !is_stopped;
  }
  alarm(0);
  CHECK(step > 5 && n_stopped && n_gone_on);
  sigaction(SIGTRAP, &before, NULL);
  tn_loader_free(l), tn_dataset_free(d);
}
#endif

// The same by another thread, at any moment.
static tn_loader *raced;
static atomic_long n_rounds;
static void *stop_again(void *arg) {
  (void)arg;
  for (long k = 1;; k++) {
    while (atomic_load(&n_rounds) < k)
      if (atomic_load(&n_rounds) < 0) return NULL;
    tn_loader_stop(raced);
  }
}

static void test_stops_from_a_thread(uint32_t workers) {
  enum { ROUNDS = 2000 };
  tn_dataset *d = ids(400);
  pthread_t thread;
  tn_batch b;
  atomic_store(&n_rounds, 0);
  raced = loader(d, (tn_loader_options){.batch_size = 4, .workers = workers});
  CHECK(pthread_create(&thread, NULL, stop_again, NULL) == 0);
  alarm(HANGS);
  for (long k = 1; k <= ROUNDS; k++) {
    atomic_store(&n_rounds, k);
    do CHECK(tn_loader_next(raced, &b) == TN_OK);
    while (!tn_loader_is_stopped(raced));
    CHECK(tn_loader_set_state(raced, tn_loader_get_state(raced)) == TN_OK);
    CHECK(tn_loader_next(raced, &b) == TN_OK);
  }
  atomic_store(&n_rounds, -1);
  CHECK(pthread_join(thread, NULL) == 0);
  alarm(0);
  tn_loader_free(raced), tn_dataset_free(d);
}

// ---- forks

// 0: the child did all of `work` and its checks held.
static int in_child(int (*work)(tn_loader *l), tn_loader *l) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(HANGS);
    _exit(work(l));
  }
  return CHECK(child > 0) && waitpid(child, &status, 0) == child ? status : -1;
}

static int64_t want[MOST];
static size_t n_want;

static int go_on(tn_loader *l) {
  int64_t got[MOST];
  size_t n = rest_of(l, got);
  bool ok = is_same(got, n, want, n_want) && rest_of(l, got) == 25;  // another epoch
  tn_loader_free(l);
  return ok ? 0 : 1;
}

static int go_on_in_grandchild(tn_loader *l) {
  tn_batch b;
  bool ok = tn_loader_next(l, &b) == TN_OK && tn_batch_size(b) == 4 && in_child(go_on, l) == 0;
  tn_loader_free(l);
  return ok ? 0 : 1;
}

static int free_it(tn_loader *l) {
  tn_loader_free(l);
  return 0;
}

static int set_back(tn_loader *l) {
  int64_t got[MOST];
  tn_loader_stop(l);
  tn_loader_state s = tn_loader_get_state(l);
  s.position = 0;
  bool ok = rest_of(l, got) == 0 && tn_loader_set_state(l, s) == TN_OK && rest_of(l, got) == 25;
  return ok ? free_it(l) : 1;
}

static void check_forks(tn_dataset *d, uint32_t workers) {
  static int (*const works[])(tn_loader *) = {go_on, free_it, set_back, go_on_in_grandchild};
  tn_loader_options o = {.batch_size = 4, .workers = workers};
  for (size_t k = 0; k < sizeof works / sizeof *works; k++)
    for (uint32_t at = 0; at < 4; at++) {
      tn_batch b;
      tn_loader *l = loader(d, o);
      for (uint32_t i = 0; i < at; i++) CHECK(tn_loader_next(l, &b) == TN_OK);
      size_t first = 5 * (at + (works[k] == go_on_in_grandchild));
      n_want = 25 - first;
      for (size_t i = 0; i < n_want; i++) want[i] = i % 5 == 4 ? -1 : (int64_t)((first + i) / 5 * 4 + (first + i) % 5);
      CHECK(in_child(works[k], l) == 0);
      CHECK(in_child(works[k], l) == 0);
      int64_t here[MOST];  // the parent saw nothing of it
      CHECK(rest_of(l, here) == 25 - 5 * at);
      tn_loader_free(l);
    }
}

static void test_forks(void) {
  tn_dataset *d = ids(20);
  for (uint32_t workers = 0; workers < 4; workers++) check_forks(d, workers);
  tn_dataset_free(d);
}

// Another thread is anywhere in its own loader, and in the list of all batches.
static atomic_bool is_enough;
static void *keep_reading(void *arg) {
  tn_batch b;
  while (!atomic_load(&is_enough)) CHECK(tn_loader_next(arg, &b) == TN_OK);
  return NULL;
}

static void test_fork_beside_a_thread(void) {
  tn_dataset *d = ids(20);
  tn_loader *busy = loader(d, (tn_loader_options){.batch_size = 1, .workers = 1});
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, keep_reading, busy) == 0);
  for (int k = 0; k < 40; k++) {
    tn_loader *l = loader(d, (tn_loader_options){.batch_size = 4, .workers = 2});
    for (n_want = 0; n_want < 25; n_want++)
      want[n_want] = n_want % 5 == 4 ? -1 : (int64_t)(n_want / 5 * 4 + n_want % 5);
    CHECK(in_child(go_on, l) == 0);
    tn_loader_free(l);
  }
  atomic_store(&is_enough, true);
  CHECK(pthread_join(thread, NULL) == 0);
  tn_loader_free(busy), tn_dataset_free(d);
}

// ---- streams: 0, 1, .. n - 1, of which some fail
typedef struct {
  int64_t at, n;
  uint64_t bad;  // by bit
  bool stays;    // a bad item is there again at the next call
  bool no_rewind;
} Stream;

static int next_id(void *ctx, tn_item *to) {
  Stream *s = ctx;
  if (s->at == s->n) return 0;
  bool is_bad = s->bad >> s->at & 1;
  if (is_bad) snprintf(to->error, to->error_size, "line %lld is cut", (long long)s->at);
  if (!is_bad || !s->stays) *(int64_t *)to->data[0] = s->at++;
  return is_bad ? -1 : 1;
}

static bool rewind_ids(void *ctx, uint64_t epoch, char *error, size_t error_size) {
  Stream *s = ctx;
  (void)epoch;
  if (s->no_rewind) return snprintf(error, error_size, "the tape is torn"), false;
  s->at = 0;
  return true;
}

static tn_dataset *stream(Stream *s) {
  static const tn_dataset_type type = {.next = next_id, .rewind = rewind_ids};
  tn_dataset *d = tn_dataset_new(&type, s, &id_field, 1, TN_STREAM, why, sizeof why);
  CHECK(d != NULL);
  return d;
}

// Batches of four as an indexed set would give them.
static size_t batches_of(const Stream *s, bool drop_last, int64_t out[MOST]) {
  size_t n = 0;
  for (int64_t first = 0; first < s->n; first += 4) {
    int64_t end = first + 4 < s->n ? first + 4 : s->n;
    bool is_bad = s->bad >> first & (((uint64_t)1 << (end - first)) - 1);
    if (drop_last && end - first < 4 && !is_bad) break;
    for (int64_t k = first; k < end && !is_bad; k++) out[n++] = k;
    out[n++] = is_bad ? -2 : -1;
  }
  return n;
}

// From every place of an epoch, with and without a thread.
static void check_stream(Stream *s, bool drop_last) {
  tn_dataset *d = stream(s);
  for (uint32_t workers = 0; workers < 2; workers++) {
    tn_loader_options o = {.batch_size = 4, .workers = workers, .drop_last = drop_last};
    int64_t whole[MOST], got[MOST];
    size_t n = batches_of(s, drop_last, whole), skipped = 0, at = 0;
    tn_loader *l = loader(d, o);
    for (int epoch = 0; epoch < 2; epoch++) CHECK(is_same(got, rest_of(l, got), whole, n));
    for (tn_batch b = {0}; skipped <= n; at++) {
      tn_loader *m = loader(d, o);
      tn_loader_state state = tn_loader_get_state(l);
      CHECK(state.epoch == 2 && state.position == at);
      CHECK(tn_loader_set_state(l, state) == TN_OK);  // its thread reads no more of the stream, until it is asked
      CHECK(tn_loader_set_state(m, state) == TN_OK);
      CHECK(is_same(got, rest_of(m, got), whole + skipped, n - skipped));
      CHECK(is_same(got, rest_of(m, got), whole, n));
      tn_loader_free(m);
      CHECK(tn_loader_next(l, &b) == TN_OK || whole[skipped] == -2);
      while (skipped < n && whole[skipped] >= 0) skipped++;
      skipped++;
    }
    tn_loader_free(l);
  }
  tn_dataset_free(d);
}

static void test_streams(void) {
  static const uint64_t bad[] = {0, 1, 1 << 5, 1 << 7, 1 << 8, 1 << 5 | 1 << 6 | 1 << 8, 0x3ff};
  for (int64_t n = 0; n < 11; n++)
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
      for (int drop_last = 0; drop_last < 2; drop_last++) {
        Stream s = {.n = n, .bad = bad[k] & (((uint64_t)1 << n) - 1)};
        check_stream(&s, drop_last);
      }
}

static void test_stream_sentences(void) {
  Stream s = {.n = 10, .bad = 1 << 5 | 1 << 7};
  tn_batch b;
  tn_dataset *d = stream(&s);
  for (uint32_t workers = 0; workers < 2; workers++) {
    tn_loader *l = loader(d, (tn_loader_options){.batch_size = 4, .workers = workers});
    CHECK(tn_loader_next(l, &b) == TN_OK && tn_loader_next(l, &b) == TN_ERR_VALUE);
    CHECK(!strcmp(tn_loader_error(l), "batch 1, item 5: line 5 is cut"));  // the first one
    tn_loader_state state = tn_loader_get_state(l);
    state.position = 4;
    CHECK(tn_loader_set_state(l, state) == TN_OK && tn_loader_next(l, &b) == TN_ERR_VALUE);
    CHECK_HAS(tn_loader_error(l), "batch 4: the stream has only 10 items");
    CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
    state.position = SIZE_MAX / 4 + 1;  // items that cannot be counted
    CHECK(tn_loader_set_state(l, state) == TN_ERR_ARGUMENT);
    s.no_rewind = true;
    CHECK(tn_loader_next(l, &b) == TN_ERR_VALUE);
    CHECK_HAS(tn_loader_error(l), "batch 0: the tape is torn");
    CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
    s.no_rewind = false, s.stays = true;  // an error that stays is told once for each batch, and a stop ends it
    CHECK(tn_loader_next(l, &b) == TN_OK && b.number);
    for (int k = 0; k < 5; k++) CHECK(tn_loader_next(l, &b) == TN_ERR_VALUE);
    tn_loader_stop(l);
    CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
    s.stays = false;
    tn_loader_free(l);
  }
  tn_dataset_free(d);
}

// A batch that begins with item 4 has no collation.
static bool collate(void *ctx, const tn_items *items, tn_array *out, char *error, size_t error_size) {
  (void)ctx;
  for (size_t i = 0; i < items->n; i++) ((int64_t *)out->data)[i] = *(int64_t *)items->arrays[i].data;
  out->dims[0] = (int64_t)items->n;
  return *(int64_t *)out->data != 4 || (snprintf(error, error_size, "four is too many"), false);
}

static void test_collate(void) {
  static const tn_field field = {.name = "id", .dtype = TN_I64, .rank = 1, .dims = {4}};
  static const int64_t all[] = {0, 1, 2, 3, -1, -2, 8, 9, -1};
  Stream s = {.n = 10};
  tn_dataset *sets[] = {ids(10), stream(&s)};
  for (uint32_t k = 0; k < 4; k++) {
    tn_loader *l = loader(
        sets[k / 2], (tn_loader_options){.batch_size = 4, .workers = k % 2, .collate = {&field, 1, collate, NULL}});
    int64_t got[MOST];
    for (int epoch = 0; epoch < 2; epoch++) CHECK(is_same(got, rest_of(l, got), all, 9));
    CHECK(!strcmp(tn_loader_error(l), "batch 1: four is too many"));
    tn_loader_free(l);
  }
  tn_dataset_free(sets[0]), tn_dataset_free(sets[1]);
}

int main(void) {
#ifdef HAS_SINGLE_STEPS
  for (uint32_t workers = 0; workers < 3; workers++) test_restart_in_stop(workers);
#endif
  for (uint32_t workers = 0; workers < 3; workers++) test_stops_from_a_thread(workers);
  test_streams();
  test_stream_sentences();
  test_collate();
  test_forks();
  test_fork_beside_a_thread();
  return check_report();
}
