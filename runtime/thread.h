// Threads of the library's own: of the worker team, of loaders, of a transport's progress.
#ifndef TN_RUNTIME_THREAD_H
#define TN_RUNTIME_THREAD_H

#include <pthread.h>
#include <stdbool.h>

// All signals are blocked in it: the program's handlers run in its own threads. False: no thread, *thread is undefined.
bool rt_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx);

#endif
