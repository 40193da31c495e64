// A cluster in virtual time, for tests: ranks are threads, messages are copies, and clocks say what a network of a stated latency
// and bandwidth would take. A rank sends one byte after the other and receives as fast beside that; switches never wait.
//
//   a message leaves when those before it have, and arrives latency + bytes / bandwidth later
//   exchanges end when all has arrived and left, and not before bytes / bandwidth of what a rank receives have passed
//
// In a run ranks tell each other twice, by messages of `word` bytes, what they are about to do and how they fared. Between these they
// compute, for `kernel` seconds before each poll, and do not wait for what they have begun.
#ifndef TN_TESTS_CLUSTER_TRANSPORT_H
#define TN_TESTS_CLUSTER_TRANSPORT_H

#include "frontend/tenure/distributed.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER_MOST = 16 };
typedef struct Packet {
  struct Packet *next;
  double arrival;
  unsigned char data[];
} Packet;
typedef struct {
  double latency, bandwidth, kernel;  // s, bytes/s, s
  size_t word;
  pthread_mutex_t lock;
  Packet *first[CLUSTER_MOST][CLUSTER_MOST], *last[CLUSTER_MOST][CLUSTER_MOST];  // by sender and receiver
} Cluster;
typedef struct {
  Cluster *cluster;
  uint32_t rank;
  double clock, end;         // s; end: of what is under way, as far as it is known
  double free_out, free_in;  // s: what was begun has left, and been received
  tn_message *receive;
  size_t n_receive;
  bool computes, waits;
  uint32_t n_begun, n_polls;  // while it computes
} Node;

static inline void cluster_push(Cluster *c, uint32_t from, const tn_message *m, double arrival) {
  Packet *p = malloc(sizeof *p + m->bytes);
  p->next = NULL, p->arrival = arrival;
  memcpy(p->data, m->data, m->bytes);
  if (c->last[from][m->rank]) c->last[from][m->rank]->next = p;
  else c->first[from][m->rank] = p;
  c->last[from][m->rank] = p;
}

static inline bool cluster_begin(void *ctx, const tn_message *send, size_t n_send, const tn_message *receive,
                                 size_t n_receive, char *why, size_t why_size) {
  Node *n = ctx;
  Cluster *c = n->cluster;
  (void)why, (void)why_size;
  if (n->free_out < n->clock) n->free_out = n->clock;
  if (n->free_in < n->clock) n->free_in = n->clock;
  pthread_mutex_lock(&c->lock);
  for (size_t k = 0; k < n_send; k++) {
    n->free_out += (double)send[k].bytes / c->bandwidth;
    cluster_push(c, n->rank, &send[k], n->free_out + c->latency);
  }
  pthread_mutex_unlock(&c->lock);
  n->receive = realloc(n->receive, (n->n_receive + n_receive + 1) * sizeof *receive);
  for (size_t k = 0; k < n_receive; k++) {
    n->free_in += (double)receive[k].bytes / c->bandwidth;
    n->receive[n->n_receive++] = receive[k];
  }
  double in = n->free_in + (n_receive ? c->latency : 0);
  n->end = fmax(n->end, fmax(n->free_out, in));
  bool is_word = n_send && send[n_send - 1].bytes == c->word;
  n->computes ^= is_word, n->waits = is_word || !n->computes;
  n->n_begun += !n->waits;
  return true;
}

static inline bool cluster_take(Node *n, const tn_message *m) {
  Cluster *c = n->cluster;
  Packet *p = c->first[m->rank][n->rank];
  if (!p) return false;
  memcpy(m->data, p->data, m->bytes);
  if (p->arrival > n->end) n->end = p->arrival;
  c->first[m->rank][n->rank] = p->next;
  if (!p->next) c->last[m->rank][n->rank] = NULL;
  free(p);
  return true;
}

static inline bool cluster_test(void *ctx, bool *done, char *why, size_t why_size) {
  Node *n = ctx;
  size_t left = 0;
  (void)why, (void)why_size;
  pthread_mutex_lock(&n->cluster->lock);
  for (size_t k = 0; k < n->n_receive; k++)
    if (!cluster_take(n, &n->receive[k])) n->receive[left++] = n->receive[k];
  pthread_mutex_unlock(&n->cluster->lock);
  n->n_receive = left;
  *done = n->waits && left == 0;
  if (!n->waits) n->n_polls++, n->clock += n->cluster->kernel;
  else if (*done) n->clock = fmax(n->clock, n->end);
  return true;
}

static inline tn_transport cluster_transport(Cluster *c, Node *n, uint32_t rank, uint32_t n_ranks) {
  *n = (Node){.cluster = c, .rank = rank, .computes = true};
  return (tn_transport){rank, n_ranks, n, cluster_begin, cluster_test, NULL, false};
}

#endif
