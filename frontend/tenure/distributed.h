// Tenure, several processes that train together: who computes which shards of a distributed function (tn_distributed in train.h).
//
//   tn_distribute(m, transport, NULL);                        // in every process, before the first run
//   tn_run(m, "train_step", TN_IN(..), TN_OUT(..));           // in every process, with the same batch
//
// Every process, or rank, computes the shards from rank * n / n_ranks to (rank + 1) * n / n_ranks, sends its sums to those who add
// them, updates its part of the parameters and gets the others: the result has the bits of one process. docs/distributed.md says
// what is sent.
#ifndef TN_DISTRIBUTED_H
#define TN_DISTRIBUTED_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

// Bytes for another rank, or room for so many from it
typedef struct {
  uint32_t rank;
  void *data;  // of the sender: not written
  size_t bytes;
} tn_message;

// What moves bytes between ranks. It adds nothing and changes none. tn_mpi_transport (tenure_mpi.h) makes one of an MPI
// communicator. Calls that fail give false and a sentence.
typedef struct {
  uint32_t rank, n_ranks;
  void *ctx;
  // Begins to send and to receive, maybe before what was begun earlier is done. Messages from one rank to another arrive in the order
  // in which they were begun, as long as they are; what they name stays until `test` has said that all is done.
  bool (*begin)(void *ctx, const tn_message *send, size_t n_send, const tn_message *receive, size_t n_receive,
                char *why, size_t why_size);
  // *done: is all that was begun sent and received? Does not wait. Called after each kernel while something is not, so that
  // messages move on.
  bool (*test)(void *ctx, bool *done, char *why, size_t why_size);
  // Ends all ranks, saying why; NULL: the call fails in this one alone, with that sentence.
  void (*end)(void *ctx, const char *why);
  // Calls may come from other threads than that which runs the model, one at a time: what a progress thread needs
  bool any_thread;
} tn_transport;

typedef struct {
  double time_limit;  // seconds that a call waits for other ranks; 0: 60
  // Runs are given the rows of this rank's shards alone, in arrays of so many rows: what tn_shard_rows says. Other inputs are
  // the same for all.
  bool has_own_rows;
  // A thread of its own calls `test` while kernels run, not the thread that runs them: for ranks with a CPU to spare. TN_ERR_ARGUMENT if
  // the transport lacks any_thread.
  bool progress_thread;
} tn_distribute_options;
// From here on distributed functions of m share their shards with all other ranks, which make the same calls on models of the
// same program in the same order. Parameters, state and random stream of rank 0 are copied to all; of the state of parameters
// that are updated element by element each rank keeps a part (tn_param_owned, docs/distributed.md). Files with state are then saved by all
// ranks together, with the same arguments, in a folder that all see: one file, whole or not at all. Once for a model.
// TN_ERR_ARGUMENT: a function has fewer shards than there are ranks. TN_ERR_RANKS: others cannot be reached within the limit, or have another program. A
// refused run of one rank is refused by all, with its sentence; whatever else one rank cannot do ends all.
TN_API tn_status tn_distribute(tn_model *m, const tn_transport *t, const tn_distribute_options *o);
// What a rank calls in the place of a run, or of saving, that it has nothing for, as when its loader cannot read an item: the next call
// of all others fails with `why`, as this one does: TN_ERR_ARGUMENT, "rank 2: WHY". Nothing has changed; all may go on. `why` is
// cut behind 319 bytes. Of one process: the same, without the rank.
TN_API tn_status tn_run_refuse(tn_model *m, const char *why);
// The rows [*first, *first + *count) of a batch that the shards of one rank have
TN_API void tn_shard_rows(int64_t rows, uint32_t n_shards, uint32_t rank, uint32_t n_ranks, int64_t *first,
                          int64_t *count);
// The elements [*first, *first + *count) of the k-th entry (tn_param_at) that this rank has, in the order of memory: all of them, but
// for state of which each rank has a part. Whole blocks of 4,096, but for the last. tn_get does not give such entries.
TN_API void tn_param_owned(const tn_model *m, uint32_t k, int64_t *first, int64_t *count);
typedef struct {
  uint64_t n_exchanges, n_messages, bytes_sent;  // since tn_distribute
  double seconds;                                // in them, waiting included
} tn_exchanged;
TN_API tn_exchanged tn_exchanged_of(const tn_model *m);

#ifdef __cplusplus
}
#endif

#endif
