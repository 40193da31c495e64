// An instance as one of several processes that train together: what all have at the beginning, which parts of the
// parameters are its own.
#include "runtime/exec/instance_fields.h"

#include <inttypes.h>
#include <string.h>

static uint64_t program_of(const RtInstance *i, bool has_own_rows) {
  const RtPlan *p = i->plan;
  uint64_t h = rt_hash(&p->param_bytes, sizeof p->param_bytes, has_own_rows);
  for (uint32_t f = 0; f < p->n_functions; f++) {
    const RtShards *s = p->functions[f].shards;
    h = rt_hash(p->functions[f].name, strlen(p->functions[f].name), h);
    if (s) h = rt_hash(&s->n, sizeof s->n, h);
    for (uint32_t k = 0; s && k <= s->n_buckets; k++) h = rt_hash(&s->buckets[k].n, sizeof s->buckets[k].n, h);
    for (uint32_t k = 0; s && k < s->n_owned; k++) h = rt_hash(&s->owned[k].bucket, sizeof s->owned[k].bucket, h);
  }
  for (uint32_t k = 0; k < p->n_params; k++) {
    h = rt_hash(p->params[k].path, strlen(p->params[k].path), h);
    h = rt_hash(p->params[k].dims, sizeof p->params[k].dims, h);
  }
  return h;
}

// The plan has room for what any number of ranks needs.
static bool has_room(RtInstance *i, const RtOwners *o, uint32_t rank) {
  for (uint32_t f = 0; f < i->plan->n_functions; f++)
    if (i->plan->functions[f].shards && !rt_shards_fit(o, i->plan->functions[f].shards, rank))
      return rt_fail(i->error, sizeof i->error, "%s: the arena has no room for sums of %" PRIu32 " ranks",
                     i->plan->functions[f].name, o->n_ranks);
  return true;
}

static bool is_owned_state(const RtInstance *i, uint32_t k) { return rt_is_owned(&i->owners, k); }

// Of rank 0 to all: large ones in parts, which are then everybody's to hand on.
enum { HANDED_ON = 1 << 16 };

static void copy_state(RtInstance *i, uint32_t k) {
  RtRanks *r = i->ranks;
  unsigned char *data = i->params + i->plan->params[k].offset;
  for (uint32_t to = 1; to < r->transport.n_ranks; to++) {
    RtRange own = rt_owned_of(&i->owners, k, to);
    int64_t bytes = (own.hi - own.lo) * (int64_t)sizeof(float);
    if (r->transport.rank == 0) rt_ranks_send(r, to, data + own.lo * (int64_t)sizeof(float), bytes);
    else if (r->transport.rank == to) rt_ranks_receive(r, 0, data + own.lo * (int64_t)sizeof(float), bytes);
  }
}

static int64_t part_at(int64_t bytes, uint32_t rank, uint32_t n_ranks) {
  return rank < n_ranks ? bytes / n_ranks * rank : bytes;
}

static void copy_param(RtInstance *i, uint32_t k, bool hands_on) {
  RtRanks *r = i->ranks;
  uint32_t n = r->transport.n_ranks, me = r->transport.rank;
  const RtParam *p = &i->plan->params[k];
  unsigned char *data = i->params + p->offset;
  if (p->bytes < HANDED_ON && !hands_on) rt_ranks_share(r, 0, data, p->bytes);
  for (uint32_t to = 0; to < n && p->bytes >= HANDED_ON; to++) {
    int64_t at = part_at(p->bytes, to, n), bytes = part_at(p->bytes, to + 1, n) - at;
    if (hands_on) rt_ranks_share(r, to, data + at, bytes);
    else if (to && me == 0) rt_ranks_send(r, to, data + at, bytes);
    else if (to && me == to) rt_ranks_receive(r, 0, data + at, bytes);
  }
}

bool rt_instance_owned(const RtInstance *i, uint32_t k, int64_t *lo, int64_t *hi) {
  RtRange own = {0, i->plan->params[k].bytes / (int64_t)rt_dtype_bytes(i->plan->params[k].dtype)};
  if (is_owned_state(i, k)) own = rt_owned_of(&i->owners, k, i->ranks->transport.rank);
  *lo = own.lo, *hi = own.hi;
  return is_owned_state(i, k);
}

bool rt_instance_has_parts(const RtInstance *i) {
  for (uint32_t k = 0; k < i->plan->n_params; k++)
    if (is_owned_state(i, k)) return true;
  return false;
}

void rt_instance_drop_others(RtInstance *i) {
  for (uint32_t k = 0; k < i->plan->n_params; k++) {
    const RtParam *p = &i->plan->params[k];
    int64_t lo, hi;
    if (!rt_instance_owned(i, k, &lo, &hi)) continue;
    lo *= (int64_t)sizeof(float), hi *= (int64_t)sizeof(float);
    rt_block_drop(i->params + p->offset, lo);
    rt_block_drop(i->params + p->offset + hi, p->bytes - hi);
  }
}

static RtStatus copy_of_rank_0(RtInstance *i) {
  uint64_t random[2] = {i->seed, i->counter};
  rt_ranks_share(i->ranks, 0, random, sizeof random);
  for (uint32_t k = 0; k < i->plan->n_params; k++) {
    if (is_owned_state(i, k)) copy_state(i, k);
    else copy_param(i, k, false);
  }
  RtStatus status = rt_ranks_exchange(i->ranks);
  for (uint32_t k = 0; k < i->plan->n_params && !status; k++)
    if (!is_owned_state(i, k)) copy_param(i, k, true);
  if (!status) status = rt_ranks_exchange(i->ranks);
  i->params_written = true;
  rt_packed_weights_changed_all(&i->packed);
  rt_instance_set_random(i, random[0], random[1]);
  if (!status) rt_instance_drop_others(i);
  return status;
}

RtRanks *rt_instance_ranks(const RtInstance *i) { return i->ranks; }

RtStatus rt_instance_agree(RtInstance *i, int what, RtStatus status) {
  RtWord w = {.program = i->ranks->program, .counter = i->counter, .seed = i->seed, .status = (uint64_t)status};
  w.function = (uint64_t)what;
  if (what == RT_BEGINNING) w.counter = w.seed = 0;
  if (status) memccpy(w.why, i->error, 0, sizeof w.why);
  return rt_ranks_agree(i->ranks, w);
}

static RtRanks *new_ranks(RtInstance *i, const RtTransport *t, RtRankOptions o) {
  RtRanks *r = rt_ranks_new(t);
  bool good = r && (!o.progress_thread || rt_ranks_poll_by_thread(r));
  if (!good) {
    rt_fail(i->error, sizeof i->error, "there is no memory, or no thread, for messages between ranks");
    return rt_ranks_free(r), NULL;
  }
  r->time_limit = o.time_limit, r->has_own_rows = o.has_own_rows;
  r->error = i->error, r->error_size = sizeof i->error;
  r->program = program_of(i, o.has_own_rows);
  return r;
}

// What fails before others are asked leaves the instance as it was.
RtStatus rt_instance_distribute(RtInstance *i, const RtTransport *t, RtRankOptions o) {
  RtOwners owners;
  if (!rt_owners_new(&owners, i->plan, t->n_ranks)) {
    rt_fail(i->error, sizeof i->error, "there is no memory for parts of parameters");
    return RT_ERR_MEMORY;
  }
  bool fits = has_room(i, &owners, t->rank);
  RtRanks *ranks = fits ? new_ranks(i, t, o) : NULL;
  if (!ranks) return rt_owners_free(&owners), fits ? RT_ERR_MEMORY : RT_ERR_CODEGEN;
  rt_ranks_free(i->ranks), rt_owners_free(&i->owners);
  i->ranks = ranks, i->owners = owners;
  RtStatus status = rt_instance_agree(i, RT_BEGINNING, RT_OK);
  return status ? status : copy_of_rank_0(i);
}
