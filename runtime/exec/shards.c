#include "runtime/exec/shards.h"

#include <string.h>

enum { BLOCK = RT_OWNED_BLOCK, LINE = TN_ALIGN / sizeof(float), ELEMENT = sizeof(float) };

// ---- memory
static const RtShards *shards_of(const RtShardRun *r) { return r->function->shards; }

static float *array_of(const RtShardRun *r, int32_t array, uint32_t bucket) {
  const RtBucket *b = &shards_of(r)->buckets[bucket];
  unsigned char *arena = rt_instance_arena(r->instance);
  if (array == RT_SUMS) return (float *)(void *)(arena + b->sums_off);
  return (float *)(void *)(arena + b->room_off) + (array - 1) * b->n;
}

static float *sum_at(const RtShardRun *r, int32_t array, uint32_t sum) {
  return array_of(r, array, shards_of(r)->sum_bucket[sum]) + shards_of(r)->sum_at[sum];
}

static int32_t take_level(RtShardRun *r) {
  int32_t level = 1;
  while (r->is_used[level]) level++;
  r->is_used[level] = true;
  return level;
}

// ---- the tree
static int64_t first_row(const RtShardRun *r, uint32_t shard) { return rt_first_row(r->rows, shards_of(r)->n, shard); }

static int64_t rows_of(const RtShardRun *r, uint32_t lo, uint32_t n) { return first_row(r, lo + n) - first_row(r, lo); }

static uint32_t n_ranks_of(const RtShardRun *r) { return r->ranks ? r->ranks->transport.n_ranks : 1; }
static uint32_t rank_of(const RtShardRun *r) { return r->ranks ? r->ranks->transport.rank : 0; }

// The sum of two arrays of the same elements, by compiled code and all workers
static void add(RtShardRun *r, float *left, float *right, float *to, int64_t n, RtStatus *status) {
  const RtShards *s = shards_of(r);
  const RtPlan *p = rt_instance_plan(r->instance);
  if (*status || !n) return;
  memcpy(r->slots, r->sizes->slots, p->n_slots * sizeof *r->slots);
  r->slots[s->sums_slot] = n;
  r->in[0] = left, r->in[1] = right, r->out[0] = to;
  *status = rt_instance_enter(r->instance, &p->functions[s->add], r->slots, r->counter);
}

// Of two arrays; the rank's last shard is added where it is. Buckets that are exchanged already are added.
static int32_t add_arrays(RtShardRun *r, int32_t left, int32_t right, RtStatus *status) {
  int32_t to = r->has_last ? right : left;
  for (uint32_t b = r->folds ? shards_of(r)->n_buckets : 0; b <= shards_of(r)->n_buckets; b++)
    add(r, array_of(r, left, b), array_of(r, right, b), array_of(r, to, b), shards_of(r)->buckets[b].n, status);
  r->is_used[to == left ? right : left] = false;
  return *status ? RT_NO_ARRAY : to;
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

static RtStatus run_shard(RtShardRun *r, uint32_t shard, int32_t array) {
  const RtFunction *f = r->function;
  const RtShards *s = f->shards;
  uint32_t n_slots = rt_instance_plan(r->instance)->n_slots;
  int64_t row = first_row(r, shard) - r->first_row;
  for (uint32_t k = 0; k < f->n_inputs; k++) r->in[k] = rows_at(r, &r->inputs[k], &f->inputs[k], k, row);
  for (uint32_t k = 0; k < s->n_out; k++) {
    uint32_t at = s->out[k];
    if (at >= RT_SUM) r->out[k] = sum_at(r, array, at - RT_SUM);
    else r->out[k] = rows_at(r, &r->outputs[at], &f->outputs[at], f->n_inputs + at, row);
  }
  memcpy(r->slots, r->sizes->slots, n_slots * sizeof *r->slots);
  r->slots[s->slot] = rows_of(r, shard, 1);
  return rt_instance_enter(r->instance, f, r->slots, r->counter * s->n + shard);
}

// The rank's last shard: from here on the sums of buckets may be exchanged. With a guarded arena, which is one kernel's at a time, they are
// not: adding is one.
static void expect_buckets(RtShardRun *r) {
  uint32_t k = r->n_nodes;
  if (!r->ranks || r->function->guarded_arena) return;
  while (r->nodes[--k].rank != rank_of(r)) continue;
  r->nodes[k].array = RT_SUMS;
  r->folds = true;
}

static int32_t sum_of_shard(RtShardRun *r, uint32_t shard, bool is_right, RtStatus *status) {
  bool is_last = shard == r->last_shard;
  int32_t array = is_right || is_last ? RT_SUMS : take_level(r);
  if (is_last) expect_buckets(r);
  *status = run_shard(r, shard, array);
  r->has_last = is_last;
  return *status ? RT_NO_ARRAY : array;
}

// The sum over shards [lo, lo + n), some of which have rows; RT_NO_ARRAY: *status says why. is_right: it is added to another one at once.
static int32_t sum_of(RtShardRun *r, uint32_t lo, uint32_t n, bool is_right, RtStatus *status) {
  if (n == 1) return sum_of_shard(r, lo, is_right, status);
  uint32_t half = rt_left_half(n);
  if (!rows_of(r, lo, half)) return sum_of(r, lo + half, n - half, is_right, status);
  bool is_pair = rows_of(r, lo + half, n - half);
  int32_t left = sum_of(r, lo, half, is_right && !is_pair, status);
  if (left == RT_NO_ARRAY || !is_pair) return left;
  r->left[r->n_left++] = left;
  int32_t right = sum_of(r, lo + half, n - half, true, status);
  r->n_left--;
  return right == RT_NO_ARRAY ? right : add_arrays(r, left, right, status);
}

static RtStatus update(RtShardRun *r) {
  const RtShards *s = r->function->shards;
  for (uint32_t k = 0; k < s->n_owned; k++)
    r->ranges[s->owned[k].sum] = rt_owned_of(r->owners, s->owned[k].param, rank_of(r));
  r->ranges[s->n_sums] = (RtRange){0, INT64_MAX};
  for (uint32_t k = 0; k < s->n_update_in; k++) {
    uint32_t at = s->update_in[k];
    if (at >= RT_SUM) r->in[k] = sum_at(r, RT_SUMS, at - RT_SUM);
    else r->in[k] = at >= RT_OWNED ? (void *)&r->ranges[at - RT_OWNED] : r->inputs[at].data;
  }
  for (uint32_t k = 0; k < s->n_update_out; k++) r->out[k] = r->outputs[s->update_out[k]].data;
  const RtFunction *f = &rt_instance_plan(r->instance)->functions[s->update];
  return rt_instance_enter(r->instance, f, r->sizes->slots, r->counter);
}

// ---- nodes
static void list_nodes(RtShardRun *r, uint32_t lo, uint32_t n) {
  uint32_t all = r->function->shards->n, n_ranks = n_ranks_of(r), rank = rt_rank_of_shard(lo, all, n_ranks);
  if (!rows_of(r, lo, n)) return;
  if (lo + n <= rt_first_shard(all, rank + 1, n_ranks)) {
    const RtNode *before = r->n_nodes ? &r->nodes[r->n_nodes - 1] : NULL;
    uint32_t n_others = before ? before->n_others + (before->rank != rank_of(r)) : 0;
    r->nodes[r->n_nodes++] = (RtNode){lo, n, rank, n_others, RT_NO_ARRAY};
    for (uint32_t k = lo; rank == rank_of(r) && k < lo + n; k++)
      if (rows_of(r, k, 1)) r->last_shard = k;
    return;
  }
  list_nodes(r, lo, rt_left_half(n));
  list_nodes(r, lo + rt_left_half(n), n - rt_left_half(n));
}

static RtStatus sum_nodes(RtShardRun *r) {
  RtStatus status = RT_OK;
  for (uint32_t k = 0; k < r->n_nodes && !status; k++)
    if (r->nodes[k].rank == rank_of(r)) r->nodes[k].array = sum_of(r, r->nodes[k].lo, r->nodes[k].n, false, &status);
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
typedef struct {
  int64_t at, n;  // elements
} Run;
typedef struct {
  const RtOwners *owners;
  const RtShards *shards;
  uint32_t bucket, rank, next;  // next: of those that are owned
} Runs;

static Runs runs_of(const RtOwners *o, const RtShards *s, uint32_t bucket, uint32_t rank) {
  Runs runs = {.owners = o, .shards = s, .bucket = bucket, .rank = rank};
  while (bucket < s->n_buckets && s->owned[runs.next].bucket < bucket) runs.next++;
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
  if (p->bucket == s->n_buckets) return next_shared(p, run);
  *run = (Run){0};
  for (; p->next < s->n_owned && s->owned[p->next].bucket == p->bucket; p->next++) {
    RtRange own = rt_owned_of(p->owners, s->owned[p->next].param, p->rank);
    int64_t at = s->sum_at[s->owned[p->next].sum] + own.lo, n = own.hi - own.lo;
    if (!n) continue;
    if (run->n && at - run->at - run->n >= LINE) return true;
    if (!run->n) run->at = at;
    run->n = at + n - run->at;
  }
  return run->n != 0;
}

static int64_t length_of(const RtOwners *o, const RtShards *s, uint32_t bucket, uint32_t rank) {
  int64_t n = 0;
  Runs runs = runs_of(o, s, bucket, rank);
  for (Run run; next_run(&runs, &run);) n += run.n;
  return n;
}

bool rt_shards_fit(const RtOwners *o, const RtShards *s, uint32_t rank) {
  int64_t levels = rt_levels(s->n, rank, o->n_ranks), others = rt_nodes_of_others(s->n, rank, o->n_ranks);
  bool fits = levels <= RT_MOST_LEVELS;
  for (uint32_t b = 0; b <= s->n_buckets; b++)
    fits &= levels * s->buckets[b].n + others * length_of(o, s, b, rank) <= s->buckets[b].room;
  return fits;
}

// Of other ranks' nodes this rank's part lies behind its levels, node by node.
typedef struct {
  float *at;
  int64_t n;  // of one node
} Room;

static Room room_of(const RtShardRun *r, uint32_t bucket) {
  return (Room){array_of(r, (int32_t)r->n_levels + 1, bucket), length_of(r->owners, shards_of(r), bucket, rank_of(r))};
}

// A shard that could not be computed is as large; its run is refused by all.
static const float *sums_to_send(const RtShardRun *r, const RtNode *node, uint32_t bucket) {
  return array_of(r, node->array == RT_NO_ARRAY ? RT_SUMS : node->array, bucket);
}

static void send_node(RtShardRun *r, const RtNode *node, uint32_t bucket, uint32_t to) {
  const float *sums = sums_to_send(r, node, bucket);
  Runs runs = runs_of(r->owners, shards_of(r), bucket, to);
  for (Run run; next_run(&runs, &run);) rt_ranks_send(r->ranks, to, sums + run.at, run.n * ELEMENT);
}

static void receive_node(RtShardRun *r, const RtNode *node, uint32_t bucket, Room of) {
  float *room = of.at + of.n * node->n_others;
  Runs runs = runs_of(r->owners, shards_of(r), bucket, rank_of(r));
  for (Run run; next_run(&runs, &run); room += run.n) rt_ranks_receive(r->ranks, node->rank, room, run.n * ELEMENT);
}

static void list_parts(RtShardRun *r, uint32_t bucket) {
  Room room = room_of(r, bucket);
  for (uint32_t k = 0; k < r->n_nodes; k++) {
    if (r->nodes[k].rank != rank_of(r)) receive_node(r, &r->nodes[k], bucket, room);
    for (uint32_t to = 0; r->nodes[k].rank == rank_of(r) && to < n_ranks_of(r); to++)
      if (to != rank_of(r)) send_node(r, &r->nodes[k], bucket, to);
  }
}

RtStatus rt_shards_begin(RtShardRun *r, uint32_t bucket) {
  list_parts(r, bucket);
  r->n_begun++;
  return rt_ranks_begin(r->ranks);
}

// Elements [*lo, *hi) of n, whole lines, are those of one worker.
static void share_lines(int64_t n, uint32_t worker, uint32_t n_workers, int64_t *lo, int64_t *hi) {
  int64_t lines = (n + LINE - 1) / LINE;
  *lo = lines * worker / n_workers * LINE, *hi = lines * (worker + 1) / n_workers * LINE;
  if (*hi > n) *hi = n;
}

bool rt_shards_fold(RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers) {
  const RtShards *s = shards_of(r);
  int64_t lo, hi;
  if (!r->folds || bucket == s->n_buckets) return false;  // what is wanted whole goes with how the run has fared
  share_lines(s->buckets[bucket].n, worker, n_workers, &lo, &hi);
  float *sums = array_of(r, RT_SUMS, bucket) + lo;
  for (uint32_t k = r->n_left; k-- > 0;)
    rt_instance_add(r->instance, s, (float *[]){array_of(r, r->left[k], bucket) + lo, sums}, sums, hi - lo, worker);
  return true;
}

// ---- the rest of the tree: elements [at, at + n) of the sums. in_part: their place among those of the bucket that this rank adds
typedef struct {
  Room room;
  uint32_t bucket, worker, next;  // next: node
  int64_t at, n, in_part;
  RtStatus status;
} Place;

static void add_at(RtShardRun *r, float *left, float *right, Place *p) {
  if (r->function->guarded_arena) add(r, left, right, left, p->n, &p->status);
  else rt_instance_add(r->instance, shards_of(r), (float *[]){left, right}, left, p->n, p->worker);
}

// Theirs over shards [lo, lo + n), which have rows; nodes come in their order.
static float *add_nodes(RtShardRun *r, uint32_t lo, uint32_t n, Place *p) {
  const RtNode *node = &r->nodes[p->next];
  if (node->lo == lo && node->n == n) {
    p->next++;
    if (node->rank == rank_of(r)) return array_of(r, node->array, p->bucket) + p->at;
    return p->room.at + p->room.n * node->n_others + p->in_part;
  }
  uint32_t half = rt_left_half(n);
  if (!rows_of(r, lo, half)) return add_nodes(r, lo + half, n - half, p);
  float *left = add_nodes(r, lo, half, p);
  if (rows_of(r, lo + half, n - half)) add_at(r, left, add_nodes(r, lo + half, n - half, p), p);
  return left;
}

// Nothing of this part is sent: others have their own, and read what is sent them until this rank waits for the next time.
static RtStatus add_part(RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers) {
  Runs runs = runs_of(r->owners, shards_of(r), bucket, rank_of(r));
  Place p = {.room = room_of(r, bucket), .bucket = bucket, .worker = worker};
  int64_t before = 0, lo, hi;
  for (Run run; !p.status && next_run(&runs, &run); before += run.n) {
    share_lines(run.n, worker, n_workers, &lo, &hi);
    p.at = run.at + lo, p.n = hi - lo, p.in_part = before + lo, p.next = 0;
    float *to = array_of(r, RT_SUMS, bucket) + p.at, *part = p.n > 0 ? add_nodes(r, 0, shards_of(r)->n, &p) : to;
    if (part != to) memcpy(to, part, (size_t)p.n * sizeof *part);
  }
  return p.status;
}

bool rt_shards_end(RtShardRun *r, uint32_t bucket, uint32_t worker, uint32_t n_workers) {
  if (!r->ranks || r->is_ended) return false;
  add_part(r, bucket, worker, n_workers);
  return bucket == shards_of(r)->n_buckets;
}

RtStatus rt_shards_share(RtShardRun *r) {
  const RtShards *s = shards_of(r);
  float *sums = array_of(r, RT_SUMS, s->n_buckets);
  for (uint32_t k = 0; k < n_ranks_of(r); k++) {
    Runs runs = runs_of(r->owners, s, s->n_buckets, k);
    for (Run run; next_run(&runs, &run);) rt_ranks_share(r->ranks, k, sums + run.at, run.n * ELEMENT);
  }
  return rt_ranks_exchange(r->ranks);
}

// Before the update, whose kernels have a guarded arena each for itself
static RtStatus end_all(RtShardRun *r) {
  RtStatus status = RT_OK;
  for (uint32_t b = 0; b <= shards_of(r)->n_buckets && !status; b++) status = add_part(r, b, 0, 1);
  r->is_ended = true;
  return status ? status : rt_shards_share(r);
}

// Buckets that the last shard of the rank did not begin, as it has none, or could not compute it; then all hear how each has
// fared, and what was begun is there.
static RtStatus exchange_sums(RtShardRun *r, RtStatus fared) {
  RtStatus status = RT_OK;
  for (uint32_t k = r->n_begun; k < shards_of(r)->n_buckets && !status; k++) status = rt_shards_begin(r, k);
  if (!status) list_parts(r, shards_of(r)->n_buckets);
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
  r->n_levels = rt_levels(s->n, rank_of(r), n_ranks_of(r));
  list_nodes(r, 0, s->n);
  status = sum_nodes(r);
  if (status == RT_ERR_RANKS) return status;
  if (r->ranks) status = exchange_sums(r, status);
  if (r->ranks && !status && r->function->guarded_arena) status = end_all(r);
  if (!status) status = update(r);
  return r->ranks && !status ? share_params(r) : status;
}

RtStatus rt_shards_refuse(RtShardRun *r, RtStatus status) { return rt_ranks_agree(r->ranks, word_of(r, status)); }
