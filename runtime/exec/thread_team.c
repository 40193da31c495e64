// The thread team: worker threads, wake-up and barriers.
//
// All waiting is for a 32-bit futex word to change from the value seen before (`Gate`): spin, then sleep. Lost wake-ups
// are impossible: a sleeper registers itself, then the kernel compares the word again before it sleeps; the waker changes
// the word first and checks for sleepers afterwards; both are sequentially consistent.
//
// A run opens the gates of the participating workers only: the others stay asleep.
//
// fork() duplicates the calling thread only: the first run in the child starts new threads.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/exec/thread_team.h"

#include "runtime/abi.h"
#include "runtime/base.h"
#include "runtime/clock.h"
#include "runtime/thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  CACHE_LINE = 64,
  BARRIER_SPINS = 4000,  // some 100 us
  IDLE_SPINS = 20000,    // some 500 us: longer than the pause of a training loop between two steps
  SPIN_NS = 100 * 1000,  // spun before every sleep
  HOLD_RUNS = 8,         // runs after a preempted one before the full team is tried again
  LEAST_HOLD_NS = 5000000,
  MOST_HOLD_NS = 40000000,  // upper bound, unless runs are longer
};

typedef struct {
  atomic_uint word;
  atomic_uint sleepers;
} Gate;

// One cache line: the last to arrive owns it already, and opens the gate without another transfer.
typedef struct {
  _Alignas(CACHE_LINE) atomic_uint arrived;
  Gate passed;  // number of completed barriers
} Barrier;

typedef struct {
  _Alignas(CACHE_LINE) Gate go;  // number of runs of this worker; incremented once more to stop it
  RtTeam *team;
  int32_t index;
  pthread_t thread;
} Worker;

// Adaptive number of workers per run. Accessed by the calling thread only.
typedef struct {
  bool fixed;
  uint32_t now;         // workers of the next run
  int64_t slept_ns;     // time that the caller slept in this run
  int64_t hold_ns;      // interval between trials of the full team, while it is reduced
  int64_t retry_at_ns;  // time of the next trial
} Strength;

struct RtTeam {
  Barrier barriers[TN_N_BARRIERS];
  _Alignas(CACHE_LINE) Gate done;         // number of completed runs
  _Alignas(CACHE_LINE) atomic_uint left;  // threads still running
  RtWork work;                            // of this run, like the next two; published by the release of the gates
  void *ctx;
  uint32_t active;
  pthread_t caller;
  bool stop;
  bool may_spin;  // no more workers than CPUs
  bool is_pinned;
  atomic_uint n;  // the child of a fork may get fewer
  uint32_t n_threads;
  uint32_t n_forks;  // at the start of the threads
  Strength strength;
  Worker workers[RT_MAX_WORKERS];
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// ---- gates
// Returns once the word differs from `seen`; true: it slept.
static bool gate_wait(Gate *g, uint32_t seen, uint32_t spins) {
  for (uint32_t i = 0; i < spins; i++) {
    if (atomic_load_explicit(&g->word, memory_order_acquire) != seen) return false;
    relax();
  }
  if (atomic_load_explicit(&g->word, memory_order_acquire) != seen) return false;
  atomic_fetch_add(&g->sleepers, 1);
  while (atomic_load(&g->word) == seen) syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  atomic_fetch_sub(&g->sleepers, 1);
  return true;
}

static void gate_open(Gate *g, uint32_t value) {
  atomic_store(&g->word, value);
  if (atomic_load(&g->sleepers)) syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static bool is_open(const Gate *g, uint32_t seen) {
  return atomic_load_explicit(&g->word, memory_order_acquire) != seen;
}

// A wait inside a run. Only a caller about to sleep reads the clock.
static void wait_for_others(RtTeam *t, Gate *g, uint32_t seen, uint32_t spins) {
  for (uint32_t i = 0; t->may_spin && i < spins; i++) {
    if (is_open(g, seen)) return;
    relax();
  }
  bool is_caller = pthread_equal(pthread_self(), t->caller);
  int64_t start = is_caller ? rt_now_ns() : 0;
  bool slept = gate_wait(g, seen, 0);
  if (slept && is_caller) t->strength.slept_ns += rt_now_ns() - start + (t->may_spin ? SPIN_NS : 0);
}

void rt_team_barrier(RtTeam *t, int32_t which, int32_t count) {
  if (count <= 1) return;
  Barrier *b = &t->barriers[which];
  uint32_t seen = atomic_load_explicit(&b->passed.word, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel) + 1 < (uint32_t)count) {
    wait_for_others(t, &b->passed, seen, BARRIER_SPINS);
    return;
  }
  atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);  // before any worker can pass and arrive again
  gate_open(&b->passed, seen + 1);
}

// ---- number of workers
static uint32_t choose_strength(RtTeam *t, uint32_t most, int64_t now) {
  Strength *s = &t->strength;
  bool retries = s->now < t->n && now >= s->retry_at_ns;
  uint32_t n = retries ? t->n : s->now;
  return n < most || most == 0 ? n : most;
}

// After a run of n workers. If the caller slept for over half of it, half of the workers would have been as fast.
static void note_run(RtTeam *t, uint32_t n, int64_t start) {
  Strength *s = &t->strength;
  int64_t now = s->slept_ns || s->now < n ? rt_now_ns() : 0, took = now - start;
  bool waited = s->slept_ns > took / 2 && s->slept_ns > 0;
  if (!waited) {
    if (n > s->now) s->now = n, s->hold_ns = 0;
    return;
  }
  if (s->fixed) return;
  bool tried = n > s->now;
  if (!tried) s->now = n / 2;
  int64_t least = took * HOLD_RUNS > LEAST_HOLD_NS ? took * HOLD_RUNS : LEAST_HOLD_NS;
  int64_t hold = tried ? 2 * s->hold_ns : least;
  if (hold > MOST_HOLD_NS) hold = MOST_HOLD_NS;
  s->hold_ns = hold > least ? hold : least;
  s->retry_at_ns = now + s->hold_ns;
}

// ---- forks
static atomic_uint n_forks;  // since the library was loaded
static pthread_once_t forks_are_watched = PTHREAD_ONCE_INIT;

static void note_fork(void) { atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

uint32_t rt_team_process(void) {
  pthread_once(&forks_are_watched, watch_forks);
  return atomic_load_explicit(&n_forks, memory_order_relaxed) + 1;
}

// ---- a worker
static void *worker_main(void *arg) {
  Worker *w = arg;
  RtTeam *t = w->team;
  for (uint32_t run = 0;; run++) {
    gate_wait(&w->go, run, t->may_spin ? IDLE_SPINS : 0);
    if (t->stop) return NULL;
    t->work(t->ctx, w->index, (int32_t)t->active);
    uint32_t done = atomic_load_explicit(&t->done.word, memory_order_relaxed);  // changes when no thread is left
    if (atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) == 1) gate_open(&t->done, done + 1);
  }
}

static void call(Worker *w) { gate_open(&w->go, atomic_load_explicit(&w->go.word, memory_order_relaxed) + 1); }

// ---- threads
static uint32_t available_cpus(cpu_set_t *set) {
  CPU_ZERO(set);
  if (sched_getaffinity(0, sizeof *set, set) == 0) return (uint32_t)CPU_COUNT(set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (uint32_t)n : 1;
}

uint32_t rt_n_cpus(void) {
  cpu_set_t set;
  return available_cpus(&set);
}

static bool has_word(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *at = list; at; at++) {
    if (!strncmp(at, word, n) && (at[n] == 0 || at[n] == ',')) return true;
    if (!(at = strchr(at, ','))) break;
  }
  return false;
}

// Fails if the CPU is no longer available to the process: the worker then runs unpinned.
static void pin(pthread_t thread, const cpu_set_t *allowed, int32_t index) {
  cpu_set_t one;
  CPU_ZERO(&one);
  int count = CPU_COUNT(allowed), nth = count ? index % count : 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, allowed) && nth-- == 0) CPU_SET(cpu, &one);
  if (count) pthread_setaffinity_np(thread, sizeof one, &one);
}

static bool start_threads(RtTeam *t) {
  cpu_set_t allowed;
  available_cpus(&allowed);
  t->n_forks = atomic_load_explicit(&n_forks, memory_order_relaxed);
  for (t->n_threads = 0; t->n_threads + 1 < t->n; t->n_threads++) {
    Worker *w = &t->workers[t->n_threads + 1];
    *w = (Worker){.team = t, .index = (int32_t)t->n_threads + 1};
    if (!rt_thread_start(&w->thread, worker_main, w)) return false;
    if (t->is_pinned) pin(w->thread, &allowed, w->index);
  }
  return true;
}

static bool has_threads(const RtTeam *t) { return t->n_forks == atomic_load_explicit(&n_forks, memory_order_relaxed); }

// In a forked child; the parent may have been inside a run. Uses as many threads as can be created.
static void revive(RtTeam *t) {
  memset(t->barriers, 0, sizeof t->barriers);
  memset(&t->done, 0, sizeof t->done);
  if (!start_threads(t)) t->n = t->n_threads + 1;
  t->strength.now = t->n;
}

// ---- runs
void rt_team_run(RtTeam *t, RtWork work, void *ctx, uint32_t most) {
  int64_t start = t->n_threads && most != 1 ? rt_now_ns() : 0;
  if (!has_threads(t)) revive(t);
  uint32_t n = choose_strength(t, most, start);
  if (n == 1) {
    work(ctx, 0, 1);
    return;
  }
  uint32_t done = atomic_load_explicit(&t->done.word, memory_order_relaxed);
  t->work = work;
  t->ctx = ctx;
  t->active = n;
  t->caller = pthread_self();
  t->strength.slept_ns = 0;
  atomic_store_explicit(&t->left, n - 1, memory_order_relaxed);
  for (uint32_t k = 1; k < n; k++) call(&t->workers[k]);
  work(ctx, 0, (int32_t)n);
  wait_for_others(t, &t->done, done, IDLE_SPINS);
  note_run(t, n, start);
}

typedef struct {
  TnEntry entry;
  TnFrame *frame;
} Entered;

static void enter(void *ctx, int32_t worker, int32_t n_workers) {
  const Entered *e = ctx;
  e->entry(e->frame, worker, n_workers);
}

void rt_team_enter(RtTeam *t, TnEntry entry, TnFrame *frame, uint32_t most) {
  if (most == 1) entry(frame, 0, 1);
  else rt_team_run(t, enter, &(Entered){entry, frame}, most);
}

// ---- creation and destruction
RtTeam *rt_team_new(uint32_t n_workers) {
  cpu_set_t allowed;
  uint32_t cpus = available_cpus(&allowed);
  uint32_t n = n_workers ? n_workers : cpus;
  if (n > RT_MAX_WORKERS) n = RT_MAX_WORKERS;
  RtTeam *t = rt_malloc_aligned(CACHE_LINE, sizeof *t);
  if (!t) return NULL;
  const char *how = getenv("TN_TEAM");
  pthread_once(&forks_are_watched, watch_forks);
  *t = (RtTeam){.n = n,
                .may_spin = n <= cpus,
                .is_pinned = has_word(how, "pin"),
                .strength = {.fixed = has_word(how, "fixed"), .now = n}};
  if (start_threads(t)) return t;
  rt_team_free(t);
  return NULL;
}

void rt_team_free(RtTeam *t) {
  if (!t) return;
  t->stop = true;
  if (!has_threads(t)) t->n_threads = 0;
  for (uint32_t i = 1; i <= t->n_threads; i++) call(&t->workers[i]);
  for (uint32_t i = 1; i <= t->n_threads; i++) pthread_join(t->workers[i].thread, NULL);
  rt_free(t);
}

uint32_t rt_team_size(const RtTeam *t) { return t->n; }
void rt_team_fix(RtTeam *t) {
  if (t) t->strength.fixed = true;
}
