// A test's work on a stack of no more than many threads have.
#ifndef TN_TESTS_SMALL_STACK_H
#define TN_TESTS_SMALL_STACK_H

#include "tests/check.h"

#include <pthread.h>

static inline void on_small_stack(void *(*work)(void *), void *ctx) {
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 512 * 1024);
  if (CHECK(!pthread_create(&thread, &attr, work, ctx))) pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
}

#endif
