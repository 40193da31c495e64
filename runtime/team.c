// Worker threads and barriers.
//
// Everything waits for a 32-bit word to leave the value that was seen before (`Gate`). Lost wake-ups are impossible: a
// sleeper announces itself, then the kernel compares the word again before it sleeps; who moves the word does so first
// and looks for sleepers afterwards, and both steps are sequentially consistent.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/team.h"

#include "runtime/abi.h"
#include "runtime/base.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  CACHE_LINE = 64,
  BARRIER_SPINS = 4000,  // some 100 us
  IDLE_SPINS = 20000     // some 500 us: longer than what a training loop does between two steps
};

typedef struct {
  atomic_uint word;
  atomic_uint sleepers;
} Gate;

// One cache line: who arrives last already owns it and opens the gate without another transfer.
typedef struct {
  _Alignas(CACHE_LINE) atomic_uint arrived;
  Gate passed;  // counts the times that everybody arrived
} Barrier;

typedef struct {
  RtTeam *team;
  int32_t index;
  pthread_t thread;
} Worker;

struct RtTeam {
  Barrier barriers[TN_N_BARRIERS];
  _Alignas(CACHE_LINE) Gate go;           // number of runs started; moved once more to stop
  _Alignas(CACHE_LINE) Gate done;         // number of runs that all threads finished
  _Alignas(CACHE_LINE) atomic_uint left;  // threads still in this run
  RtWork work;                            // of this run; published by `go`
  void *ctx;
  bool stop;
  bool may_spin;  // no more workers than CPUs
  uint32_t n, n_threads;
  Worker workers[RT_MAX_WORKERS];
};

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Returns once the word differs from `seen`.
static void gate_wait(Gate *g, uint32_t seen, uint32_t spins) {
  for (uint32_t i = 0; i < spins; i++) {
    if (atomic_load_explicit(&g->word, memory_order_acquire) != seen) return;
    relax();
  }
  atomic_fetch_add(&g->sleepers, 1);
  while (atomic_load(&g->word) == seen) syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(Gate *g, uint32_t value) {
  atomic_store(&g->word, value);
  if (atomic_load(&g->sleepers)) syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

void rt_team_barrier(RtTeam *t, int32_t which, int32_t count) {
  if (count <= 1) return;
  Barrier *b = &t->barriers[which];
  uint32_t seen = atomic_load_explicit(&b->passed.word, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel) + 1 < (uint32_t)count) {
    gate_wait(&b->passed, seen, t->may_spin ? BARRIER_SPINS : 0);
    return;
  }
  atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);  // before anybody can pass and arrive again
  gate_open(&b->passed, seen + 1);
}

static void *worker_main(void *arg) {
  Worker *w = arg;
  RtTeam *t = w->team;
  for (uint32_t run = 0;; run++) {
    gate_wait(&t->go, run, t->may_spin ? IDLE_SPINS : 0);
    if (t->stop) return NULL;
    t->work(t->ctx, w->index, (int32_t)t->n);
    if (atomic_fetch_sub_explicit(&t->left, 1, memory_order_acq_rel) == 1) gate_open(&t->done, run + 1);
  }
}

void rt_team_run(RtTeam *t, RtWork work, void *ctx) {
  if (t->n_threads == 0) {
    work(ctx, 0, 1);
    return;
  }
  uint32_t run = atomic_load_explicit(&t->go.word, memory_order_relaxed);
  t->work = work;
  t->ctx = ctx;
  atomic_store_explicit(&t->left, t->n_threads, memory_order_relaxed);
  gate_open(&t->go, run + 1);
  work(ctx, 0, (int32_t)t->n);
  gate_wait(&t->done, run, t->may_spin ? IDLE_SPINS : 0);
}

static uint32_t available_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return (uint32_t)CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (uint32_t)n : 1;
}

// Threads are made with all signals blocked: the program's handlers run in its own threads.
static bool start_thread(Worker *w) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool ok = pthread_create(&w->thread, NULL, worker_main, w) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

RtTeam *rt_team_new(uint32_t n_workers) {
  uint32_t cpus = available_cpus();
  uint32_t n = n_workers ? n_workers : cpus;
  if (n > RT_MAX_WORKERS) n = RT_MAX_WORKERS;
  RtTeam *t = rt_malloc_aligned(CACHE_LINE, sizeof *t);
  if (!t) return NULL;
  *t = (RtTeam){.n = n, .may_spin = n <= cpus};
  for (uint32_t i = 1; i < n; i++) {
    t->workers[i] = (Worker){.team = t, .index = (int32_t)i};
    if (!start_thread(&t->workers[i])) {
      rt_team_free(t);
      return NULL;
    }
    t->n_threads++;
  }
  return t;
}

void rt_team_free(RtTeam *t) {
  if (!t) return;
  if (t->n_threads) {
    t->stop = true;
    gate_open(&t->go, atomic_load(&t->go.word) + 1);
  }
  for (uint32_t i = 1; i <= t->n_threads; i++) pthread_join(t->workers[i].thread, NULL);
  rt_free(t);
}

uint32_t rt_team_size(const RtTeam *t) { return t->n; }
