#include "runtime/exec/shards.h"

#include <string.h>

enum { BLOCK = RT_OWNED_BLOCK, LINE = TN_ALIGN / sizeof(float), ELEMENT = sizeof(float) };

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

// The rank's last shard: from here on the sums of buckets may be exchanged.
static void expect_buckets(RtShardRun *r, float *sums) {
  uint32_t k = r->n_nodes;
  while (r->nodes[--k].rank != rank_of(r)) continue;
  r->nodes[k].sum = r->n_left ? r->left[0] : sums;
  r->last = sums;
}

// The sum over shards [lo, lo + n), some of which have rows; NULL: *status says why.
static float *sum_of(RtShardRun *r, uint32_t lo, uint32_t n, RtStatus *status) {
  if (n > 1) {
    uint32_t half = left_half(n);
    if (!rows_of(r, lo, half)) return sum_of(r, lo + half, n - half, status);
    float *left = sum_of(r, lo, half, status);
    if (!left || !rows_of(r, lo + half, n - half)) return left;
    r->left[r->n_left++] = left;
    float *right = sum_of(r, lo + half, n - half, status);
    r->n_left--;
    if (!right) return NULL;
    add(r, left, right, r->last ? r->function->shards->n_shared : r->function->shards->n_elements, status);
    give_back(r, right);
    return *status ? NULL : left;
  }
  float *sums = take_for_sums(r, status);
  bool is_guarded = r->function->guarded_arena;  // its arena is one kernel's at a time, and adding is one
  if (sums && r->ranks && lo == r->last_shard && !is_guarded) expect_buckets(r, sums);
  if (sums) *status = run_shard(r, lo, sums);
  return *status ? NULL : sums;
}

static RtStatus update(RtShardRun *r, float *sums) {
  const RtShards *s = r->function->shards;
  for (uint32_t k = 0; k < s->n_owned; k++)
    r->ranges[s->owned[k].sum] = rt_owned_of(r->owners, s->owned[k].param, rank_of(r));
  r->ranges[s->n_sums] = (RtRange){0, INT64_MAX};
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
    const RtNode *before = r->n_nodes ? &r->nodes[r->n_nodes - 1] : NULL;
    uint32_t n_others = before ? before->n_others + (before->rank != rank_of(r)) : 0;
    r->nodes[r->n_nodes++] = (RtNode){.lo = lo, .n = n, .rank = rank, .n_others = n_others};
    for (uint32_t k = lo; rank == rank_of(r) && k < lo + n; k++)
      if (rows_of(r, k, 1)) r->last_shard = k;
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

static RtWord word_of(const RtShardRun *r, RtStatus status) {
  RtWord w = {.program = r->ranks->program, .counter = r->counter, .seed = r->seed, .status = (uint64_t)status};
  w.function = (uint64_t)(r->function - rt_instance_plan(r->instance)->functions);
  w.rows = r->sizes->slots[r->function->shards->slot];
  if (status) memccpy(w.why, r->error, 0, sizeof w.why);
  return w;
}

// ---- parts of the sums that a rank adds for all: of those that are wanted whole, and of each bucket
enum { SHARED = -1 };  // in the place of the number of a bucket
typedef struct {
  int64_t at, n;  // elements
} Run;
typedef struct {
  const RtOwners *owners;
  const RtShards *shards;
  int64_t bucket;
  uint32_t rank, next;  // next: of those that are owned
} Runs;

static Runs runs_of(const RtOwners *o, const RtShards *s, int64_t bucket, uint32_t rank) {
  Runs runs = {.owners = o, .shards = s, .bucket = bucket, .rank = rank};
  while (bucket >= 0 && runs.next < s->n_owned && s->owned[runs.next].bucket < (uint64_t)bucket) runs.next++;
  return runs;
}

static bool next_shared(Runs *p, Run *run) {
  run->at = rt_shared_cut(p->shards, p->rank, p->owners->n_ranks);
  run->n = rt_shared_cut(p->shards, p->rank + 1, p->owners->n_ranks) - run->at;
  return !p->next++ && run->n;
}

// Parts of sums that touch are one run.
static bool next_run(Runs *p, Run *run) {
  const RtShards *s = p->shards;
  if (p->bucket == SHARED) return next_shared(p, run);
  *run = (Run){0};
  for (; p->next < s->n_owned && s->owned[p->next].bucket == (uint64_t)p->bucket; p->next++) {
    RtRange own = rt_owned_of(p->owners, s->owned[p->next].param, p->rank);
    int64_t at = s->sum_at[s->owned[p->next].sum] + own.lo, n = own.hi - own.lo;
    if (!n) continue;
    if (run->n && at - run->at - run->n >= LINE) return true;
    if (!run->n) run->at = at;
    run->n = at + n - run->at;
  }
  return run->n != 0;
}

static int64_t length_of(const RtOwners *o, const RtShards *s, int64_t bucket, uint32_t rank) {
  int64_t n = 0;
  Runs runs = runs_of(o, s, bucket, rank);
  for (Run run; next_run(&runs, &run);) n += run.n;
  return n;
}

// Before that bucket
static int64_t length_before(const RtOwners *o, const RtShards *s, int64_t bucket, uint32_t rank) {
  int64_t n = 0;
  for (int64_t k = SHARED; k < bucket; k++) n += length_of(o, s, k, rank);
  return n;
}

int64_t rt_part_of(const RtOwners *o, const RtShards *s, uint32_t rank) {
  return length_before(o, s, s->n_buckets, rank);
}

// Of other ranks' nodes this rank's part lies in r->ranks->received: bucket by bucket, in each node by node.
typedef struct {
  float *at;
  int64_t n;  // of one node
} Room;

static Room room_of(const RtShardRun *r, int64_t bucket) {
  const RtShards *s = r->function->shards;
  int64_t before = length_before(r->owners, s, bucket, rank_of(r));
  int64_t others = rt_nodes_of_others(s->n, rank_of(r), n_ranks_of(r));
  return (Room){r->ranks->received + before * others, length_of(r->owners, s, bucket, rank_of(r))};
}

// A shard that could not be computed is as large; its run is refused by all.
static const float *sum_to_send(const RtShardRun *r, const RtNode *node) {
  return node->sum ? node->sum : r->sums->list[0];
}

static RtStatus send_node(RtShardRun *r, const RtNode *node, int64_t bucket, uint32_t to) {
  const float *sum = sum_to_send(r, node);
  Runs runs = runs_of(r->owners, r->function->shards, bucket, to);
  for (Run run; next_run(&runs, &run);) {
    if (!sum) return rt_ranks_give_up(r->ranks, "there is no memory for sums over shards");
    rt_ranks_send(r->ranks, to, sum + run.at, run.n * ELEMENT);
  }
  return RT_OK;
}

static void receive_node(RtShardRun *r, const RtNode *node, int64_t bucket, Room of) {
  float *room = of.at + of.n * node->n_others;
  Runs runs = runs_of(r->owners, r->function->shards, bucket, rank_of(r));
  for (Run run; next_run(&runs, &run); room += run.n) rt_ranks_receive(r->ranks, node->rank, room, run.n * ELEMENT);
}

static RtStatus list_parts(RtShardRun *r, int64_t bucket) {
  RtStatus status = RT_OK;
  Room room = room_of(r, bucket);
  for (uint32_t k = 0; k < r->n_nodes && !status; k++) {
    if (r->nodes[k].rank != rank_of(r)) receive_node(r, &r->nodes[k], bucket, room);
    for (uint32_t to = 0; r->nodes[k].rank == rank_of(r) && to < n_ranks_of(r) && !status; to++)
      if (to != rank_of(r)) status = send_node(r, &r->nodes[k], bucket, to);
  }
  return status;
}

RtStatus rt_shards_begin(RtShardRun *r, uint32_t bucket) {
  RtStatus status = list_parts(r, bucket);
  r->n_begun++;
  return status ? status : rt_ranks_begin(r->ranks);
}

// The elements of a bucket, of all ranks
static Run span_of(const RtShards *s, uint32_t bucket) {
  int64_t lo = s->n_elements, hi = s->n_elements;
  for (uint32_t k = s->n_owned; k-- > 0;) {
    if (s->owned[k].bucket > bucket) hi = s->sum_at[s->owned[k].sum];
    if (s->owned[k].bucket >= bucket) lo = s->sum_at[s->owned[k].sum];
  }
  return (Run){lo, hi - lo};
}

bool rt_shards_fold(const RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers) {
  const RtShards *s = r->function->shards;
  if (!r->last) return false;
  Run all = span_of(s, bucket);
  int64_t lines = (all.n + LINE - 1) / LINE, lo = lines * worker / n_workers * LINE,
          hi = lines * (worker + 1) / n_workers * LINE;
  if (hi > all.n) hi = all.n;
  float *from = r->last + all.at + lo;
  for (uint32_t k = r->n_left; k-- > 0; from = r->left[k] + all.at + lo)
    rt_instance_add(r->instance, s, r->left[k] + all.at + lo, from, hi - lo, worker);
  return true;
}

// Elements [at, at + n) of the sums. in_part: their place among those of the bucket that this rank adds
typedef struct {
  Room room;
  int64_t at, n, in_part;
} Place;

// Theirs over shards [lo, lo + n), which have rows; nodes come in their order.
static float *add_nodes(RtShardRun *r, uint32_t lo, uint32_t n, const Place *p, RtStatus *status) {
  const RtNode *node = &r->nodes[r->next];
  if (node->lo == lo && node->n == n) {
    r->next++;
    return node->rank == rank_of(r) ? node->sum + p->at : p->room.at + p->room.n * node->n_others + p->in_part;
  }
  uint32_t half = left_half(n);
  if (!rows_of(r, lo, half)) return add_nodes(r, lo + half, n - half, p, status);
  float *left = add_nodes(r, lo, half, p, status);
  if (rows_of(r, lo + half, n - half)) add(r, left, add_nodes(r, lo + half, n - half, p, status), p->n, status);
  return left;
}

static RtStatus add_parts(RtShardRun *r, int64_t bucket, float *total) {
  RtStatus status = RT_OK;
  Runs runs = runs_of(r->owners, r->function->shards, bucket, rank_of(r));
  Place p = {.room = room_of(r, bucket)};
  for (Run run; !status && next_run(&runs, &run); p.in_part += run.n) {
    p.at = run.at, p.n = run.n;
    r->next = 0;
    const float *part = add_nodes(r, 0, r->function->shards->n, &p, &status);
    memcpy(total + run.at, part, (size_t)run.n * sizeof *part);
  }
  return status;
}

// total: the sums over all shards, whoever has them: of those that are wanted whole all, of the others this rank's
static RtStatus add_ranks(RtShardRun *r, float *total) {
  const RtShards *s = r->function->shards;
  RtStatus status = RT_OK;
  for (int64_t k = SHARED; k < s->n_buckets && !status; k++) status = add_parts(r, k, total);
  if (status) return status;
  for (uint32_t k = 0; k < n_ranks_of(r); k++) {
    Runs runs = runs_of(r->owners, s, SHARED, k);
    for (Run run; next_run(&runs, &run);) rt_ranks_share(r->ranks, k, total + run.at, run.n * ELEMENT);
  }
  return rt_ranks_exchange(r->ranks);
}

// Buckets that the last shard of the rank did not begin, as it has none, or could not compute it; then all hear how each has
// fared, and what was begun is there.
static RtStatus exchange_sums(RtShardRun *r, RtStatus fared) {
  RtStatus status = RT_OK;
  for (uint32_t k = r->n_begun; k < r->function->shards->n_buckets && !status; k++) status = rt_shards_begin(r, k);
  if (!status) status = list_parts(r, SHARED);
  return status ? status : rt_ranks_agree(r->ranks, word_of(r, fared));
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
      for (uint32_t j = 0; j < s->owned[k].n_shared; j++) {
        unsigned char *data = rt_instance_change(r->instance, s->owned[k].shared[j]);
        add_piece(&piece, data + own.lo * ELEMENT, (own.hi - own.lo) * ELEMENT, TN_ALIGN);
      }
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
      RtRange own = {0};
      if (norm->sums[k] != RT_WHOLE) own = rt_owned_of(r->owners, param_of_sum(s, norm->sums[k]), rank);
      int64_t lo = blocks_before(own.lo), hi = blocks_before(own.hi);
      add_piece(&piece, of_sum + lo, (hi - lo) * ELEMENT, 1);
      of_sum += norm->n_blocks[k];
    }
    end_piece(&piece);
  }
  return rt_ranks_exchange(r->ranks);
}

// ---- a run
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
  if (status == RT_ERR_RANKS) return status;
  float *total = r->ranks && !status ? take_for_sums(r, &status) : r->nodes[0].sum;
  if (r->ranks) status = exchange_sums(r, status);
  if (r->ranks && !status) status = add_ranks(r, total);
  if (!status) status = update(r, total);
  return r->ranks && !status ? share_params(r) : status;
}

RtStatus rt_shards_refuse(RtShardRun *r, RtStatus status) { return rt_ranks_agree(r->ranks, word_of(r, status)); }
