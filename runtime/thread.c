#include "runtime/thread.h"

#include <signal.h>

bool rt_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool good = pthread_create(thread, NULL, run, ctx) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return good;
}
