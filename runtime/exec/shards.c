#include "runtime/exec/shards.h"

#include <string.h>

enum { BLOCK = RT_OWNED_BLOCK };

void rt_sums_free(RtSums *s) {
  for (size_t k = 0; k < sizeof s->list / sizeof *s->list; k++) rt_block_free(s->list[k], s->bytes);
}

// ---- memory
static float *take(RtShardRun *r) {
  RtSums *s = r->sums;
  for (size_t k = 0; k < sizeof s->list / sizeof *s->list; k++) {
    if (s->is_used[k]) continue;
    if (!s->list[k]) s->list[k] = rt_block_new(s->bytes);
    s->is_used[k] = s->list[k] != NULL;
    return s->list[k];
  }
  return NULL;
}

static float *take_for_sums(RtShardRun *r, RtStatus *status) {
  float *sums = take(r);
  if (sums) return sums;
  rt_fail(r->error, r->error_size, "%s: there is no memory for sums over shards", r->function->name);
  *status = RT_ERR_MEMORY;
  return NULL;
}

static void give_back(RtShardRun *r, const float *sum) {
  for (size_t k = 0; k < sizeof r->sums->list / sizeof *r->sums->list; k++)
    if (r->sums->list[k] == sum) r->sums->is_used[k] = false;
}

// ---- the tree
static int64_t first_row(const RtShardRun *r, uint32_t shard) {
  return rt_first_row(r->rows, r->function->shards->n, shard);
}

static int64_t rows_of(const RtShardRun *r, uint32_t lo, uint32_t n) { return first_row(r, lo + n) - first_row(r, lo); }

static uint32_t n_ranks_of(const RtShardRun *r) { return r->ranks ? r->ranks->transport.n_ranks : 1; }
static uint32_t rank_of(const RtShardRun *r) { return r->ranks ? r->ranks->transport.rank : 0; }

static uint32_t owner_of(uint32_t shard, uint32_t n, uint32_t n_ranks) {
  uint32_t rank = (uint32_t)((uint64_t)shard * n_ranks / n);  // or the next one
  while (rt_first_shard(n, rank + 1, n_ranks) <= shard) rank++;
  return rank;
}

// Shards in the left half of n > 1.
static uint32_t left_half(uint32_t n) {
  uint32_t half = 1;
  while (half * 2 < n) half *= 2;
  return half;
}

// to += from, by compiled code
static void add(RtShardRun *r, float *to, float *from, int64_t n, RtStatus *status) {
  const RtShards *s = r->function->shards;
  const RtPlan *p = rt_instance_plan(r->instance);
  if (*status || !n) return;
  memcpy(r->slots, r->sizes->slots, p->n_slots * sizeof *r->slots);
  r->slots[s->sums_slot] = n;
  r->in[0] = to, r->in[1] = from, r->out[0] = to;
  *status = rt_instance_enter(r->instance, &p->functions[s->add], r->slots, r->counter);
}

// ---- the parts of a run
static bool is_cut(const RtShardRun *r, const RtPort *port) {
  const RtDim *first = port->rank ? &rt_instance_plan(r->instance)->dims[port->dims[0]] : NULL;
  return first && first->kind == RT_DIM_SLOT && first->value == r->function->shards->slot;
}

// Of argument `at`: inputs, then outputs.
static void *rows_at(const RtShardRun *r, const RtArray *a, const RtPort *port, size_t at, int64_t row) {
  if (!is_cut(r, port) || row == 0) return a->data;
  return (unsigned char *)a->data + r->sizes->bytes[at] / a->dims[0] * row;
}

static RtStatus run_shard(RtShardRun *r, uint32_t shard, float *sums) {
  const RtFunction *f = r->function;
  const RtShards *s = f->shards;
  uint32_t n_slots = rt_instance_plan(r->instance)->n_slots;
  int64_t row = first_row(r, shard) - r->first_row;
  for (uint32_t k = 0; k < f->n_inputs; k++) r->in[k] = rows_at(r, &r->inputs[k], &f->inputs[k], k, row);
  for (uint32_t k = 0; k < s->n_out; k++) {
    uint32_t at = s->out[k];
    if (at >= RT_SUM) r->out[k] = sums + s->sum_at[at - RT_SUM];
    else r->out[k] = rows_at(r, &r->outputs[at], &f->outputs[at], f->n_inputs + at, row);
  }
  memcpy(r->slots, r->sizes->slots, n_slots * sizeof *r->slots);
  r->slots[s->slot] = rows_of(r, shard, 1);
  return rt_instance_enter(r->instance, f, r->slots, r->counter * s->n + shard);
}

// The sum over shards [lo, lo + n), some of which have rows; NULL: *status says why.
static float *sum_of(RtShardRun *r, uint32_t lo, uint32_t n, RtStatus *status) {
  if (n > 1) {
    uint32_t half = left_half(n);
    if (!rows_of(r, lo, half)) return sum_of(r, lo + half, n - half, status);
    float *left = sum_of(r, lo, half, status);
    if (!left || !rows_of(r, lo + half, n - half)) return left;
    float *right = sum_of(r, lo + half, n - half, status);
    if (!right) return NULL;
    add(r, left, right, r->function->shards->n_elements, status);
    give_back(r, right);
    return *status ? NULL : left;
  }
  float *sums = take_for_sums(r, status);
  if (sums) *status = run_shard(r, lo, sums);
  return *status ? NULL : sums;
}

static RtStatus update(RtShardRun *r, float *sums) {
  const RtShards *s = r->function->shards;
  for (uint32_t k = 0; k < s->n_owned; k++)
    r->ranges[s->owned[k].sum] = rt_owned_of(r->owners, s->owned[k].param, rank_of(r));
  for (uint32_t k = 0; k < s->n_update_in; k++) {
    uint32_t at = s->update_in[k];
    if (at >= RT_SUM) r->in[k] = sums + s->sum_at[at - RT_SUM];
    else r->in[k] = at >= RT_OWNED ? (void *)&r->ranges[at - RT_OWNED] : r->inputs[at].data;
  }
  for (uint32_t k = 0; k < s->n_update_out; k++) r->out[k] = r->outputs[s->update_out[k]].data;
  const RtFunction *f = &rt_instance_plan(r->instance)->functions[s->update];
  return rt_instance_enter(r->instance, f, r->sizes->slots, r->counter);
}

// ---- nodes
static void list_nodes(RtShardRun *r, uint32_t lo, uint32_t n) {
  uint32_t all = r->function->shards->n, n_ranks = n_ranks_of(r), rank = owner_of(lo, all, n_ranks);
  if (!rows_of(r, lo, n)) return;
  if (lo + n <= rt_first_shard(all, rank + 1, n_ranks)) {
    r->nodes[r->n_nodes++] = (RtNode){.lo = lo, .n = n, .rank = rank};
    return;
  }
  list_nodes(r, lo, left_half(n));
  list_nodes(r, lo + left_half(n), n - left_half(n));
}

static uint32_t count_others(uint32_t all, uint32_t lo, uint32_t n, uint32_t rank, uint32_t n_ranks) {
  uint32_t owner = owner_of(lo, all, n_ranks), half = n > 1 ? left_half(n) : 0;
  if (lo + n <= rt_first_shard(all, owner + 1, n_ranks)) return owner != rank;
  return count_others(all, lo, half, rank, n_ranks) + count_others(all, lo + half, n - half, rank, n_ranks);
}

uint32_t rt_nodes_of_others(uint32_t n, uint32_t rank, uint32_t n_ranks) {
  return count_others(n, 0, n, rank, n_ranks);
}

static RtStatus sum_nodes(RtShardRun *r) {
  RtStatus status = RT_OK;
  for (uint32_t k = 0; k < r->n_nodes && !status; k++)
    if (r->nodes[k].rank == rank_of(r)) r->nodes[k].sum = sum_of(r, r->nodes[k].lo, r->nodes[k].n, &status);
  return status;
}

// ---- chunks: of the sums that the update wants whole, and of the others
typedef struct {
  int64_t at[2], n[2];
} Chunk;

static Chunk chunk_of(const RtOwners *o, const RtShards *s, uint32_t rank) {
  Chunk c = {.at = {rt_shared_cut(s, rank, o->n_ranks), rt_owned_cut(o, s, rank)}};
  c.n[0] = rt_shared_cut(s, rank + 1, o->n_ranks) - c.at[0];
  c.n[1] = rt_owned_cut(o, s, rank + 1) - c.at[1];
  return c;
}

int64_t rt_chunk_of(const RtOwners *o, const RtShards *s, uint32_t rank) {
  Chunk c = chunk_of(o, s, rank);
  return c.n[0] + c.n[1];
}

enum { ELEMENT = sizeof(float) };

static void send_node(RtShardRun *r, const RtNode *node, uint32_t to) {
  Chunk c = chunk_of(r->owners, r->function->shards, to);
  for (int k = 0; k < 2; k++) rt_ranks_send(r->ranks, to, node->sum + c.at[k], c.n[k] * ELEMENT);
}

// Of other ranks' nodes this rank's chunk, its two parts one behind the other
static RtStatus exchange_nodes(RtShardRun *r) {
  Chunk mine = chunk_of(r->owners, r->function->shards, rank_of(r));
  float *room = r->ranks->received;
  for (uint32_t k = 0; k < r->n_nodes; k++) {
    RtNode *node = &r->nodes[k];
    if (node->rank != rank_of(r)) {
      node->sum = room;
      for (int j = 0; j < 2; room += mine.n[j++]) rt_ranks_receive(r->ranks, node->rank, room, mine.n[j] * ELEMENT);
      continue;
    }
    for (uint32_t to = 0; to < n_ranks_of(r); to++)
      if (to != rank_of(r)) send_node(r, node, to);
  }
  return rt_ranks_exchange(r->ranks);
}

// Part `which` of this rank's chunk of the sum over shards [lo, lo + n), which have rows; nodes come in their order.
static float *add_nodes(RtShardRun *r, uint32_t lo, uint32_t n, const Chunk *c, int which, RtStatus *status) {
  const RtNode *node = &r->nodes[r->next];
  if (node->lo == lo && node->n == n)
    return r->next++, node->sum + (node->rank == rank_of(r) ? c->at[which] : which ? c->n[0] : 0);
  uint32_t half = left_half(n);
  if (!rows_of(r, lo, half)) return add_nodes(r, lo + half, n - half, c, which, status);
  float *left = add_nodes(r, lo, half, c, which, status);
  if (rows_of(r, lo + half, n - half))
    add(r, left, add_nodes(r, lo + half, n - half, c, which, status), c->n[which], status);
  return left;
}

// total: the sums over all shards, whoever has them: of those that are wanted whole all, of the others this rank's
static RtStatus add_ranks(RtShardRun *r, float *total) {
  const RtShards *s = r->function->shards;
  Chunk c = chunk_of(r->owners, s, rank_of(r));
  RtStatus status = exchange_nodes(r);
  if (status) return status;
  for (int which = 0; which < 2; which++) {
    r->next = 0;
    const float *part = add_nodes(r, 0, s->n, &c, which, &status);
    memcpy(total + c.at[which], part, (size_t)c.n[which] * sizeof *part);
  }
  if (status) return status;
  for (uint32_t k = 0; k < n_ranks_of(r); k++) {
    Chunk of = chunk_of(r->owners, s, k);
    rt_ranks_share(r->ranks, k, total + of.at[0], of.n[0] * ELEMENT);
  }
  return rt_ranks_exchange(r->ranks);
}

// ---- what is handed to all in parts: pieces of the same owner that touch are one message
typedef struct {
  RtRanks *ranks;
  uint32_t owner;
  unsigned char *lo, *hi;
} Piece;

static void end_piece(Piece *p) {
  if (p->lo) rt_ranks_share(p->ranks, p->owner, p->lo, p->hi - p->lo);
  p->lo = p->hi = NULL;
}

static void add_piece(Piece *p, void *data, int64_t bytes, int64_t align) {
  unsigned char *at = data;
  bool touches = p->lo && at - p->hi >= 0 && at - p->hi < align;
  if (!bytes) return;
  if (!touches) end_piece(p), p->lo = at;
  p->hi = at + bytes;
}

static RtStatus share_params(RtShardRun *r) {
  const RtShards *s = r->function->shards;
  for (uint32_t rank = 0; rank < n_ranks_of(r); rank++) {
    Piece piece = {.ranks = r->ranks, .owner = rank};
    for (uint32_t k = 0; k < s->n_owned; k++) {
      RtRange own = rt_owned_of(r->owners, s->owned[k].param, rank);
      unsigned char *data = rt_instance_change(r->instance, s->owned[k].param);
      add_piece(&piece, data + own.lo * ELEMENT, (own.hi - own.lo) * ELEMENT, TN_ALIGN);
    }
    end_piece(&piece);
  }
  return rt_ranks_exchange(r->ranks);
}

static uint32_t param_of_sum(const RtShards *s, uint32_t sum) {
  uint32_t k = 0;
  while (s->owned[k].sum != sum) k++;
  return s->owned[k].param;
}

static int64_t blocks_before(int64_t element) { return (element + BLOCK - 1) / BLOCK; }

RtStatus rt_shards_gather(RtShardRun *r, uint32_t number, float *blocks) {
  const RtShards *s = r->function->shards;
  const RtNorm *norm = &s->norms[number];
  if (!r->ranks) return RT_OK;
  for (uint32_t rank = 0; rank < n_ranks_of(r); rank++) {
    Piece piece = {.ranks = r->ranks, .owner = rank};
    float *of_sum = blocks;
    for (uint32_t k = 0; k < norm->n; k++) {
      uint32_t param = param_of_sum(s, norm->sums[k]);
      RtRange own = rt_owned_of(r->owners, param, rank);
      int64_t lo = blocks_before(own.lo), hi = blocks_before(own.hi);
      add_piece(&piece, of_sum + lo, (hi - lo) * ELEMENT, 1);
      of_sum += blocks_before(rt_instance_plan(r->instance)->params[param].bytes / ELEMENT);
    }
    end_piece(&piece);
  }
  return rt_ranks_exchange(r->ranks);
}

// ---- a run
static RtWord word_of(const RtShardRun *r, RtStatus status) {
  RtWord w = {.program = r->ranks->program, .counter = r->counter, .seed = r->seed, .status = (uint64_t)status};
  w.function = (uint64_t)(r->function - rt_instance_plan(r->instance)->functions);
  w.rows = r->sizes->slots[r->function->shards->slot];
  if (status) memccpy(w.why, r->error, 0, sizeof w.why);
  return w;
}

static RtStatus refuse_rows(RtShardRun *r, uint32_t rank, int64_t expected) {
  rt_fail(r->error, r->error_size, "%s: rank %u was given %lld rows, not %lld", r->function->name, rank,
          (long long)r->ranks->words[rank].rows, (long long)expected);
  return RT_ERR_ARGUMENT;
}

// The rows of the whole batch, from what each rank was given; the same sentence everywhere when they do not fit.
static RtStatus agree_on_rows(RtShardRun *r) {
  const RtRanks *ranks = r->ranks;
  uint32_t n = r->function->shards->n, n_ranks = n_ranks_of(r);
  int64_t all = 0, bound = rt_instance_plan(r->instance)->slots[r->function->shards->slot].bound;
  RtStatus status = rt_ranks_agree(r->ranks, word_of(r, RT_OK));
  if (status) return status;
  for (uint32_t k = 0; k < n_ranks && ranks->has_own_rows; k++) all += ranks->words[k].rows;
  r->rows = ranks->has_own_rows ? all : ranks->words[0].rows;
  for (uint32_t k = 0; k < n_ranks; k++) {
    int64_t first = rt_first_row(r->rows, n, rt_first_shard(n, k, n_ranks));
    int64_t end = rt_first_row(r->rows, n, rt_first_shard(n, k + 1, n_ranks));
    int64_t expected = ranks->has_own_rows ? end - first : r->rows;
    if (ranks->words[k].rows != expected) return refuse_rows(r, k, expected);
    if (k == rank_of(r) && ranks->has_own_rows) r->first_row = first;
  }
  if (r->rows <= bound) return RT_OK;
  rt_fail(r->error, r->error_size, "%s: the batch has %lld rows, above its bound %lld", r->function->name,
          (long long)r->rows, (long long)bound);
  return RT_ERR_ARGUMENT;
}

RtStatus rt_shards_run(RtShardRun *r) {
  const RtShards *s = r->function->shards;
  r->rows = r->sizes->slots[s->slot];
  RtStatus status = r->ranks ? agree_on_rows(r) : RT_OK;
  if (status) return status;
  if (!r->rows) {
    rt_fail(r->error, r->error_size, "%s: a batch without rows has no mean", r->function->name);
    return RT_ERR_ARGUMENT;
  }
  memset(r->sums->is_used, 0, sizeof r->sums->is_used);
  list_nodes(r, 0, s->n);
  status = sum_nodes(r);
  float *total = r->ranks && !status ? take_for_sums(r, &status) : r->nodes[0].sum;
  if (r->ranks) status = rt_ranks_agree(r->ranks, word_of(r, status));
  if (r->ranks && !status) status = add_ranks(r, total);
  if (!status) status = update(r, total);
  return r->ranks && !status ? share_params(r) : status;
}

RtStatus rt_shards_refuse(RtShardRun *r, RtStatus status) { return rt_ranks_agree(r->ranks, word_of(r, status)); }
