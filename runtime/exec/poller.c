#include "runtime/exec/poller.h"

#include "runtime/base.h"
#include "runtime/exec/ranks.h"
#include "runtime/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

typedef enum { RESTS, POLLS, ENDS } State;

struct RtPoller {
  RtTransport transport;
  pthread_t thread;
  pthread_mutex_t lock;  // held during each call of the transport
  pthread_cond_t changed;
  atomic_int state;  // State
  atomic_bool has_failed;
  bool is_done;
  char why[RT_WHY_SIZE];
};

// Between two tests: others may share the CPU, and who wants the lock gets it.
static void pause_a_while(void) { nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL); }

static void test(RtPoller *p) {
  bool good = p->transport.test(p->transport.ctx, &p->is_done, p->why, sizeof p->why);
  if (!good) atomic_store(&p->has_failed, true);
  if (!good || p->is_done) atomic_store(&p->state, RESTS);
}

static void *poll(void *ctx) {
  RtPoller *p = ctx;
  for (;;) {
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->state) == RESTS) pthread_cond_wait(&p->changed, &p->lock);
    bool ends = atomic_load(&p->state) == ENDS;
    if (!ends) test(p);
    pthread_mutex_unlock(&p->lock);
    if (ends) return NULL;
    pause_a_while();
  }
}

static void free_all(RtPoller *p) {
  pthread_cond_destroy(&p->changed), pthread_mutex_destroy(&p->lock);
  rt_free(p);
}

RtPoller *rt_poller_new(const RtTransport *t) {
  RtPoller *p = rt_malloc(sizeof *p);
  if (!p) return NULL;
  memset(p, 0, sizeof *p);
  p->transport = *t;
  pthread_mutex_init(&p->lock, NULL), pthread_cond_init(&p->changed, NULL);
  if (rt_thread_start(&p->thread, poll, p)) return p;
  free_all(p);
  return NULL;
}

static void set_state(RtPoller *p, State s) {
  pthread_mutex_lock(&p->lock);
  atomic_store(&p->state, s);
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->lock);
}

void rt_poller_free(RtPoller *p) {
  if (!p) return;
  set_state(p, ENDS);
  pthread_join(p->thread, NULL);
  free_all(p);
}

void rt_poller_start(RtPoller *p) {
  p->is_done = false;
  set_state(p, POLLS);
}

bool rt_poller_stop(RtPoller *p, bool *is_open, char *why, size_t why_size) {
  atomic_store(&p->state, RESTS);  // the thread does not test again while this one waits for the lock
  pthread_mutex_lock(&p->lock);
  bool good = !atomic_load(&p->has_failed) || rt_fail(why, why_size, "%s", p->why);
  *is_open = !p->is_done;
  pthread_mutex_unlock(&p->lock);
  return good;
}

bool rt_poller_has_failed(const RtPoller *p) { return atomic_load(&p->has_failed); }
