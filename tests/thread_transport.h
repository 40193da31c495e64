// A transport between threads of one process, for tests: every message is a copy in a queue. One of them can be lost, come twice or come late.
#ifndef TN_TESTS_THREAD_TRANSPORT_H
#define TN_TESTS_THREAD_TRANSPORT_H

#include "frontend/tenure/distributed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NET_MOST = 16, NET_MESSAGES = 4096 };
typedef struct Letter {
  struct Letter *next;
  double due;  // when it comes
  size_t bytes;
  unsigned char data[];
} Letter;
typedef enum { NET_FAULTLESS, NET_LOSES, NET_REPEATS, NET_DELAYS } NetFault;
typedef struct {
  pthread_mutex_t lock;
  Letter *first[NET_MOST][NET_MOST], *last[NET_MOST][NET_MOST];  // by sender and receiver
  NetFault fault;
  uint32_t faulty, n_sent;  // message number `faulty` from rank 0
  double delay;             // seconds
  bool has_ended;
  char why[512];
} Net;
typedef struct {
  Net *net;
  uint32_t rank;
  tn_message receive[NET_MESSAGES];
  size_t n_receive;
} NetRank;

static inline double net_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void net_push(Net *net, uint32_t from, const tn_message *m, double due) {
  Letter *l = malloc(sizeof *l + m->bytes);
  l->next = NULL, l->due = due, l->bytes = m->bytes;
  memcpy(l->data, m->data, m->bytes);
  if (net->last[from][m->rank]) net->last[from][m->rank]->next = l;
  else net->first[from][m->rank] = l;
  net->last[from][m->rank] = l;
}

static inline bool net_begin(void *ctx, const tn_message *send, size_t n_send, const tn_message *receive,
                             size_t n_receive, char *why, size_t why_size) {
  NetRank *r = ctx;
  if (r->n_receive + n_receive > NET_MESSAGES) return snprintf(why, why_size, "too many messages"), false;
  pthread_mutex_lock(&r->net->lock);
  for (size_t k = 0; k < n_send; k++) {
    bool is_faulty = r->rank == 0 && r->net->n_sent++ == r->net->faulty && r->net->fault;
    double due = is_faulty && r->net->fault == NET_DELAYS ? net_now() + r->net->delay : 0;
    if (!is_faulty || r->net->fault != NET_LOSES) net_push(r->net, r->rank, &send[k], due);
    if (is_faulty && r->net->fault == NET_REPEATS) net_push(r->net, r->rank, &send[k], 0);
  }
  pthread_mutex_unlock(&r->net->lock);
  if (n_receive) memcpy(r->receive + r->n_receive, receive, n_receive * sizeof *receive);
  r->n_receive += n_receive;
  return true;
}

static inline bool net_take(NetRank *r, const tn_message *m, char *why, size_t why_size, bool *has_failed) {
  Letter *l = r->net->first[m->rank][r->rank];
  if (!l || (l->due > 0 && l->due > net_now())) return false;
  if (l->bytes != m->bytes) {
    snprintf(why, why_size, "a message of %zu bytes came, %zu were expected", l->bytes, m->bytes);
    return *has_failed = true;
  }
  memcpy(m->data, l->data, l->bytes);
  r->net->first[m->rank][r->rank] = l->next;
  if (!l->next) r->net->last[m->rank][r->rank] = NULL;
  free(l);
  return true;
}

static inline bool net_test(void *ctx, bool *done, char *why, size_t why_size) {
  NetRank *r = ctx;
  bool has_failed = false, waits[NET_MOST] = {false};  // for a message of that sender: no later one comes before it
  pthread_mutex_lock(&r->net->lock);
  size_t left = 0;
  for (size_t k = 0; k < r->n_receive && !has_failed; k++) {
    tn_message m = r->receive[k];
    if (!waits[m.rank] && net_take(r, &m, why, why_size, &has_failed)) continue;
    waits[m.rank] = true, r->receive[left++] = m;
  }
  r->n_receive = left;
  if (r->net->has_ended) snprintf(why, why_size, "the job has ended: %.200s", r->net->why);
  has_failed |= r->net->has_ended;
  pthread_mutex_unlock(&r->net->lock);
  *done = left == 0;
  return !has_failed;
}

static inline void net_end(void *ctx, const char *why) {
  Net *net = ((NetRank *)ctx)->net;
  pthread_mutex_lock(&net->lock);
  if (!net->has_ended) snprintf(net->why, sizeof net->why, "%s", why);
  net->has_ended = true;
  pthread_mutex_unlock(&net->lock);
}

static inline tn_transport net_transport(Net *net, NetRank *r, uint32_t rank, uint32_t n_ranks) {
  *r = (NetRank){.net = net, .rank = rank};
  return (tn_transport){rank, n_ranks, r, net_begin, net_test, net_end, true};
}

static inline void net_free(Net *net) {
  for (uint32_t from = 0; from < NET_MOST; from++)
    for (uint32_t to = 0; to < NET_MOST; to++)
      for (Letter *l = net->first[from][to], *next; l; l = next) next = l->next, free(l);
  pthread_mutex_destroy(&net->lock);
}

#endif
