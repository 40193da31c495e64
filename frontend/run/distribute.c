// Models that share the shards of their distributed functions with other processes.
#include "frontend/run/run.h"
#include "frontend/tenure/distributed.h"
#include "runtime/exec/shards.h"
#include <stddef.h>

_Static_assert(sizeof(tn_transport) == sizeof(RtTransport) && sizeof(tn_message) == sizeof(RtMessage) &&
                   offsetof(tn_transport, any_thread) == offsetof(RtTransport, any_thread) &&
                   offsetof(tn_message, bytes) == offsetof(RtMessage, bytes),
               "one layout");

static bool check_transport(const tn_model *m, const tn_transport *t) {
  const RtPlan *p = m->code->plan;
  char *error = rt_instance_error_buffer(m->inst);
  if (!t || !t->begin || !t->test || !t->n_ranks || t->rank >= t->n_ranks)
    return rt_fail(error, RT_ERROR_SIZE,
                   "tn_distribute: the transport lacks a function, or its rank is not one of its ranks");
  if (rt_instance_has_parts(m->inst))
    return rt_fail(error, RT_ERROR_SIZE, "tn_distribute: the model is distributed already");
  bool any = false;
  for (uint32_t k = 0; k < p->n_functions; k++) {
    const RtShards *s = p->functions[k].shards;
    any |= s != NULL;
    if (s && s->n < t->n_ranks)
      return rt_fail(error, RT_ERROR_SIZE, "tn_distribute: function '%s' has %u shards, too few for %u ranks",
                     p->functions[k].name, s->n, t->n_ranks);
  }
  return any || rt_fail(error, RT_ERROR_SIZE, "tn_distribute: no function of the program is distributed");
}

tn_status tn_distribute(tn_model *m, const tn_transport *t, const tn_distribute_options *o) {
  const tn_distribute_options defaults = {0};
  FE_MODEL_CALL(m, tn_distribute, TN_ERR_ARGUMENT);
  if (!check_transport(m, t)) return TN_ERR_ARGUMENT;
  if (!o) o = &defaults;
  if (o->progress_thread && !t->any_thread) {
    rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE,
            "tn_distribute: a progress thread has no place: the transport's calls may come from one thread alone (MPI "
            "must begin with MPI_THREAD_SERIALIZED or more)");
    return TN_ERR_ARGUMENT;
  }
  RtRankOptions options = {o->time_limit > 0 ? o->time_limit : 60, o->has_own_rows, o->progress_thread};
  return (tn_status)rt_instance_distribute(m->inst, (const RtTransport *)(const void *)t, options);
}

tn_status tn_run_refuse(tn_model *m, const char *why) {
  FE_MODEL_CALL(m, tn_run_refuse, TN_ERR_ARGUMENT);
  rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "%s", why ? why : "the run was refused");
  if (!rt_instance_ranks(m->inst)) return TN_ERR_ARGUMENT;
  return (tn_status)rt_instance_agree(m->inst, RT_REFUSED, RT_ERR_ARGUMENT);
}

void tn_shard_rows(int64_t rows, uint32_t n_shards, uint32_t rank, uint32_t n_ranks, int64_t *first, int64_t *count) {
  *first = *count = 0;
  if (rows < 0 || !n_shards || rank >= n_ranks) return;
  uint32_t begin = rt_first_shard(n_shards, rank, n_ranks), end = rt_first_shard(n_shards, rank + 1, n_ranks);
  *first = rt_first_row(rows, n_shards, begin);
  *count = rt_first_row(rows, n_shards, end) - *first;
}

void tn_param_owned(const tn_model *m, uint32_t k, int64_t *first, int64_t *count) {
  *first = *count = 0;
  if (!m || k >= m->code->plan->n_params) return;
  FE_WAIT(&((tn_model *)(uintptr_t)m)->lock, CALL_tn_param_owned);
  rt_instance_owned(m->inst, k, first, count);
  *count -= *first;
}

tn_exchanged tn_exchanged_of(const tn_model *m) {
  if (!m) return (tn_exchanged){0};
  FE_WAIT(&((tn_model *)(uintptr_t)m)->lock, CALL_tn_exchanged_of);
  const RtRanks *r = rt_instance_ranks(m->inst);
  return r ? (tn_exchanged){r->n_exchanges, r->n_messages, r->bytes_sent, r->seconds} : (tn_exchanged){0};
}
