#include "runtime/exec/ranks.h"
#include "runtime/clock.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

RtRanks *rt_ranks_new(const RtTransport *t) {
  RtRanks *r = rt_malloc(sizeof *r);
  if (!r) return NULL;
  *r = (RtRanks){.transport = *t};
  r->words = rt_malloc(t->n_ranks * sizeof *r->words);
  if (r->words) return r;
  rt_ranks_free(r);
  return NULL;
}

void rt_ranks_free(RtRanks *r) {
  if (!r) return;
  rt_poller_free(r->poller);
  rt_free(r->words), rt_free(r->send), rt_free(r->receive);
  rt_free(r);
}

bool rt_ranks_poll_by_thread(RtRanks *r) {
  r->poller = rt_poller_new(&r->transport);
  return r->poller != NULL;
}

// ---- exchanges
// Lists grow in the first runs and are kept.
static bool push(RtMessage **list, size_t *n, size_t *cap, RtMessage m) {
  if (*n == *cap) {
    size_t more = *cap ? 2 * *cap : 64;
    RtMessage *grown = rt_realloc(*list, more * sizeof *grown);
    if (!grown) return false;
    *list = grown, *cap = more;
  }
  (*list)[(*n)++] = m;
  return true;
}

void rt_ranks_send(RtRanks *r, uint32_t to, const void *data, int64_t bytes) {
  RtMessage m = {to, (void *)(uintptr_t)data, (size_t)bytes};
  if (bytes && !push(&r->send, &r->n_send, &r->cap_send, m)) r->lacks_memory = true;
}

void rt_ranks_receive(RtRanks *r, uint32_t from, void *data, int64_t bytes) {
  RtMessage m = {from, data, (size_t)bytes};
  if (bytes && !push(&r->receive, &r->n_receive, &r->cap_receive, m)) r->lacks_memory = true;
}

void rt_ranks_share(RtRanks *r, uint32_t owner, void *data, int64_t bytes) {
  if (owner != r->transport.rank) rt_ranks_receive(r, owner, data, bytes);
  else
    for (uint32_t k = 0; k < r->transport.n_ranks; k++)
      if (k != owner) rt_ranks_send(r, k, data, bytes);
}

// Ends the job where the transport can.
static RtStatus give_up(RtRanks *r) {
  if (r->transport.end) r->transport.end(r->transport.ctx, r->error);
  return RT_ERR_RANKS;
}

// Before this thread calls the transport. False: a call of the other one has failed.
static bool stop_thread(RtRanks *r, char *why, size_t why_size) {
  if (!r->is_polled) return true;
  r->is_polled = false;
  return rt_poller_stop(r->poller, &r->is_open, why, why_size);
}

RtStatus rt_ranks_give_up(RtRanks *r, const char *why) {
  const RtTransport *t = &r->transport;
  stop_thread(r, NULL, 0);
  r->is_open = false;
  rt_fail(r->error, r->error_size, "rank %" PRIu32 " of %" PRIu32 ", exchange %" PRIu64 ": %s", t->rank, t->n_ranks,
          r->n_exchanges, why);
  return give_up(r);
}

static RtStatus begin(RtRanks *r) {
  const RtTransport *t = &r->transport;
  char why[RT_WHY_SIZE] = "";
  double begin = rt_now_s();
  bool good = stop_thread(r, why, sizeof why);
  if (good && r->lacks_memory) good = rt_fail(why, sizeof why, "there is no memory for a list of messages");
  good = good && t->begin(t->ctx, r->send, r->n_send, r->receive, r->n_receive, why, sizeof why);
  r->n_exchanges++, r->n_messages += r->n_send;
  for (size_t k = 0; k < r->n_send; k++) r->bytes_sent += r->send[k].bytes;
  r->seconds += rt_now_s() - begin;
  r->n_send = r->n_receive = 0, r->is_open = true;
  return good ? RT_OK : rt_ranks_give_up(r, why);
}

RtStatus rt_ranks_begin(RtRanks *r) {
  RtStatus status = begin(r);
  if (status || !r->poller) return status;
  rt_poller_start(r->poller);
  r->is_polled = true;
  return RT_OK;
}

static bool test(RtRanks *r, char *why, size_t why_size) {
  bool done = false, good = r->transport.test(r->transport.ctx, &done, why, why_size);
  r->is_open = !done;
  return good;
}

RtStatus rt_ranks_poll(RtRanks *r) {
  char why[RT_WHY_SIZE] = "";
  if (r->is_polled && !rt_poller_has_failed(r->poller)) return RT_OK;
  if (!stop_thread(r, why, sizeof why)) return rt_ranks_give_up(r, why);
  return !r->is_open || test(r, why, sizeof why) ? RT_OK : rt_ranks_give_up(r, why);
}

// Polls without a pause for a while, then lets others run: ranks may share a CPU.
RtStatus rt_ranks_wait(RtRanks *r) {
  char why[RT_WHY_SIZE] = "";
  double begin = rt_now_s();
  bool good = stop_thread(r, why, sizeof why);
  for (uint32_t n = 0; good && r->is_open; n++) {
    good = test(r, why, sizeof why);
    if (n > 64) sched_yield();
    if (good && r->is_open && n % 64 == 63 && rt_now_s() - begin > r->time_limit)
      good = rt_fail(why, sizeof why, "other ranks have not answered for %g seconds", r->time_limit);
  }
  r->seconds += rt_now_s() - begin;
  return good ? RT_OK : rt_ranks_give_up(r, why);
}

RtStatus rt_ranks_exchange(RtRanks *r) {
  RtStatus status = begin(r);
  return status ? status : rt_ranks_wait(r);
}

// ---- agreeing
static RtStatus refuse(RtRanks *r, uint32_t rank, const char *what) {
  rt_fail(r->error, r->error_size, "rank %" PRIu32 " %s rank %" PRIu32, rank, what, r->transport.rank);
  return give_up(r);
}

RtStatus rt_ranks_agree(RtRanks *r, RtWord mine) {
  uint32_t n = r->transport.n_ranks, me = r->transport.rank;
  mine.exchange = r->n_exchanges;
  r->words[me] = mine;
  for (uint32_t k = 0; k < n; k++) {
    if (k == me) continue;
    rt_ranks_send(r, k, &r->words[me], sizeof mine);
    rt_ranks_receive(r, k, &r->words[k], sizeof mine);
  }
  RtStatus status = rt_ranks_exchange(r);
  if (status) return status;
  for (uint32_t k = 0; k < n; k++) {
    const RtWord *w = &r->words[k];
    if (w->exchange != mine.exchange)
      return refuse(r, k, "is at another exchange, after a message that was lost, repeated or another's, than");
    if (w->program != mine.program) return refuse(r, k, "has another program than");
    if (w->status || mine.status) continue;  // who cannot go on may not know what the others do
    if (w->function != mine.function) return refuse(r, k, "runs another function than");
    if (w->counter != mine.counter || w->seed != mine.seed) return refuse(r, k, "is at another run, or seed, than");
  }
  for (uint32_t k = 0; k < n; k++) {
    RtWord *w = &r->words[k];
    w->why[RT_WHY_SIZE - 1] = 0;
    if (!w->status) continue;
    rt_fail(r->error, r->error_size, "rank %" PRIu32 ": %s", k, w->why);
    return (RtStatus)w->status;
  }
  return RT_OK;
}
