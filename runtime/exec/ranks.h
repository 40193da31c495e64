// Messages between the processes that share the shards of a function: waiting with a limit, agreeing, counting.
#ifndef TN_RUNTIME_EXEC_RANKS_H
#define TN_RUNTIME_EXEC_RANKS_H

#include "runtime/exec/instance.h"
#include "runtime/exec/poller.h"

typedef struct {
  uint32_t rank;
  void *data;
  size_t bytes;
} RtMessage;  // layout of tn_message

typedef struct RtTransport {
  uint32_t rank, n_ranks;
  void *ctx;
  bool (*begin)(void *ctx, const RtMessage *send, size_t n_send, const RtMessage *receive, size_t n_receive, char *why,
                size_t why_size);
  bool (*test)(void *ctx, bool *done, char *why, size_t why_size);
  void (*end)(void *ctx, const char *why);
  bool any_thread;
} RtTransport;  // layout of tn_transport

enum { RT_WHY_SIZE = 320, RT_MOST_RANKS = 4096 };
// What every rank tells all others before it goes on.
typedef struct {
  uint64_t exchange;  // the how manieth it is
  uint64_t program, function, counter, seed;
  int64_t rows;
  uint64_t status;  // RtStatus: what refused the run here, and why
  char why[RT_WHY_SIZE];
} RtWord;

typedef struct RtRanks {
  RtTransport transport;
  double time_limit;
  bool has_own_rows;
  uint64_t program;  // tells programs apart
  RtWord *words;     // by rank
  RtMessage *send, *receive;
  size_t n_send, n_receive, cap_send, cap_receive;
  bool lacks_memory;  // a message of the next exchange could not be listed
  bool is_open;       // an exchange that was begun is not known to be done
  RtPoller *poller;   // tests the transport while kernels run; NULL: they poll
  bool is_polled;     // it does so now
  uint64_t n_exchanges, n_messages, bytes_sent;
  double seconds;
  char *error;
  size_t error_size;
} RtRanks;

RtRanks *rt_ranks_new(const RtTransport *t);                                   // NULL: no memory
void rt_ranks_free(RtRanks *r);                                                // NULL: nothing
void rt_ranks_send(RtRanks *r, uint32_t to, const void *data, int64_t bytes);  // of 0 bytes nothing is sent
void rt_ranks_receive(RtRanks *r, uint32_t from, void *data, int64_t bytes);
void rt_ranks_share(RtRanks *r, uint32_t owner, void *data, int64_t bytes);  // of the owner to all others
bool rt_ranks_poll_by_thread(RtRanks *r);                                    // false: there is no thread
// Begins all that was listed; what it sends and receives stays where it is until a wait has come back. Like all of these calls,
// RT_ERR_RANKS: a sentence in r->error, unless the job ends.
RtStatus rt_ranks_begin(RtRanks *r);
RtStatus rt_ranks_give_up(RtRanks *r, const char *why);
RtStatus
rt_ranks_poll(RtRanks *r);  // lets what was begun move on; with a thread that does so, says whether it has failed
RtStatus rt_ranks_wait(RtRanks *r);  // until all that was begun is there
// Begins, and waits
RtStatus rt_ranks_exchange(RtRanks *r);
// Tells all and hears all: r->words. RT_ERR_RANKS: they do something else; another status: the first rank's that was refused
RtStatus rt_ranks_agree(RtRanks *r, RtWord mine);

#endif
