#include "runtime/exec/shards.h"

#include <string.h>

enum { BLOCK = 4096 };  // elements: a whole number of them is added at a time

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

static void give_back(RtShardRun *r, const float *sum) {
  for (size_t k = 0; k < sizeof r->sums->list / sizeof *r->sums->list; k++)
    if (r->sums->list[k] == sum) r->sums->is_used[k] = false;
}

// ---- the tree
static int64_t first_row(const RtShardRun *r, uint32_t shard) {
  int64_t rows = r->sizes->slots[r->function->shards->slot];
  return (int64_t)shard * rows / r->function->shards->n;
}

static int64_t rows_of(const RtShardRun *r, uint32_t lo, uint32_t n) { return first_row(r, lo + n) - first_row(r, lo); }

// Shards in the left half of n > 1.
static uint32_t left_half(uint32_t n) {
  uint32_t half = 1;
  while (half * 2 < n) half *= 2;
  return half;
}

typedef struct {
  float *to;
  const float *from;
  int64_t n;
} Addition;

static void add_block(float *restrict to, const float *restrict from, int64_t n) {
  for (int64_t k = 0; k < n; k++) to[k] += from[k];
}

static void add_share(void *ctx, int32_t worker, int32_t n_workers) {
  const Addition *a = ctx;
  int64_t blocks = (a->n + BLOCK - 1) / BLOCK;
  for (int64_t b = blocks * worker / n_workers; b < blocks * (worker + 1) / n_workers; b++) {
    int64_t at = b * BLOCK, left = a->n - at;
    add_block(a->to + at, a->from + at, left < BLOCK ? left : BLOCK);
  }
}

static void add(const RtShardRun *r, float *to, const float *from, int64_t n) {
  rt_team_run(r->team, add_share, &(Addition){to, from, n}, n < 16 * BLOCK ? 1 : 0);
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
  int64_t row = first_row(r, shard);
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
    const float *right = sum_of(r, lo + half, n - half, status);
    if (!right) return NULL;
    add(r, left, right, r->function->shards->n_elements);
    give_back(r, right);
    return left;
  }
  float *sums = take(r);
  if (!sums) rt_fail(r->error, r->error_size, "%s: there is no memory for sums over shards", r->function->name);
  *status = sums ? run_shard(r, lo, sums) : RT_ERR_MEMORY;
  return *status ? NULL : sums;
}

static RtStatus update(RtShardRun *r, float *sums) {
  const RtShards *s = r->function->shards;
  for (uint32_t k = 0; k < s->n_update_in; k++) {
    uint32_t at = s->update_in[k];
    r->in[k] = at >= RT_SUM ? sums + s->sum_at[at - RT_SUM] : r->inputs[at].data;
  }
  for (uint32_t k = 0; k < s->n_update_out; k++) r->out[k] = r->outputs[s->update_out[k]].data;
  const RtFunction *f = &rt_instance_plan(r->instance)->functions[s->update];
  return rt_instance_enter(r->instance, f, r->sizes->slots, r->counter);
}

RtStatus rt_shards_run(RtShardRun *r) {
  const RtShards *s = r->function->shards;
  RtStatus status = RT_OK;
  if (!rows_of(r, 0, s->n)) {
    rt_fail(r->error, r->error_size, "%s: a batch without rows has no mean", r->function->name);
    return RT_ERR_ARGUMENT;
  }
  memset(r->sums->is_used, 0, sizeof r->sums->is_used);
  float *total = sum_of(r, 0, s->n, &status);
  return total ? update(r, total) : status;
}
