// A thread that lets messages move on while kernels run: it tests the transport again and again between two calls of the thread that
// runs the model. One of the two calls the transport at a time.
#ifndef TN_RUNTIME_EXEC_POLLER_H
#define TN_RUNTIME_EXEC_POLLER_H

#include <stdbool.h>
#include <stddef.h>

struct RtTransport;
typedef struct RtPoller RtPoller;

RtPoller *rt_poller_new(const struct RtTransport *t);  // NULL: no memory, or no thread
void rt_poller_free(RtPoller *p);                      // NULL: nothing
// From here on the thread calls the transport, until all that was begun is done or a call fails.
void rt_poller_start(RtPoller *p);
// Comes back when it does not. *is_open: something that was begun is not known to be done. False: a call has failed, `why` says how
bool rt_poller_stop(RtPoller *p, bool *is_open, char *why, size_t why_size);
bool rt_poller_has_failed(const RtPoller *p);  // at any time

#endif
