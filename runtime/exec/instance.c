// Instances: memory, initialisation, runs. Validation of arguments is in runtime/exec/input_check.c.
#include "runtime/exec/array_names.h"
#include "runtime/exec/input_check.h"
#include "runtime/exec/instance_fields.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static void gather(TnFrame *f, int32_t number, void *data);
static void exchange(TnFrame *f, int32_t bucket, int32_t ends, int32_t worker, int32_t n_workers);
static void poll(TnFrame *f);
static void wait_at_barrier(TnFrame *f, int32_t which, int32_t count) { rt_team_barrier(f->team, which, count); }

// ---- creation

static uint32_t largest_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static atomic_uint_fast64_t **new_counters(const RtPlan *p) {
  size_t n = 0, rows = p->n_functions;
  for (uint32_t f = 0; f < rows; f++) n += p->functions[f].n_variants + 1;
  atomic_uint_fast64_t **row = rt_malloc(rows * sizeof *row + n * sizeof **row);
  if (!row) return NULL;
  atomic_uint_fast64_t *at = memset(row + rows, 0, n * sizeof *at);
  for (uint32_t f = 0; f < rows; at += p->functions[f++].n_variants + 1) row[f] = at;
  return row;
}

static int64_t largest_arena(const RtFunction *f) {
  int64_t most = f->arena_bytes;
  for (uint32_t v = 0; v < f->n_variants; v++)  // with guards, the plan for smaller bounds may need the larger arena
    if (f->variants[v].arena_bytes > most) most = f->variants[v].arena_bytes;
  return most;
}

// Of functions that one worker runs, or of all workers.
static int64_t bytes_of_blocks(const RtPlan *p, int64_t of_workers) {
  int64_t most = of_workers;
  for (uint32_t f = 0; f < p->n_functions; f++)
    if (p->functions[f].block_bytes > most) most = p->functions[f].block_bytes;
  return most;
}

static uint32_t most_shards(const RtPlan *p) {
  uint32_t most = 1;
  for (uint32_t f = 0; f < p->n_functions; f++)
    if (p->functions[f].shards) most = largest_u32(most, p->functions[f].shards->n);
  return most;
}

static uint32_t most_sums(const RtPlan *p) {
  uint32_t most = 0;
  for (uint32_t f = 0; f < p->n_functions; f++)
    if (p->functions[f].shards) most = largest_u32(most, p->functions[f].shards->n_sums);
  return most;
}

// A run that is refused because of a NaN may have written parameters by then: it takes a copy of them first.
static bool keeps_params(const RtFunction *f, const RtGuardedArena *g) { return g && g->n_watched && !f->only_reads; }

static bool allocate_kept(RtInstance *i) {
  const RtPlan *p = i->plan;
  bool any = false;
  for (uint32_t k = 0; k < p->n_functions; k++) {
    const RtFunction *f = &p->functions[k];
    any |= keeps_params(f, f->guarded_arena);
    for (uint32_t v = 0; v < f->n_variants; v++) any |= keeps_params(f, f->variants[v].guarded_arena);
  }
  return !any || (i->kept = rt_block_new(p->param_bytes));
}

static bool allocate(RtInstance *i) {
  const RtPlan *p = i->plan;
  uint32_t n_in = 0, n_out = 0;
  for (uint32_t f = 0; f < p->n_functions; f++) {
    n_in = largest_u32(n_in, p->functions[f].n_inputs);
    n_out = largest_u32(n_out, p->functions[f].n_outputs);
    const RtShards *s = p->functions[f].shards;
    if (s) n_in = largest_u32(n_in, s->n_update_in > 2 ? s->n_update_in : 2), n_out = largest_u32(n_out, s->n_out);
    int64_t bytes = largest_arena(&p->functions[f]);
    if (bytes > i->arena_bytes) i->arena_bytes = bytes;
  }
  i->params = rt_block_new(p->param_bytes);
  i->arena = rt_block_new(i->arena_bytes);
  i->slots = rt_malloc(sizeof *i->slots * p->n_slots);
  i->nodes = rt_malloc(sizeof *i->nodes * most_shards(p));
  i->ranges = rt_malloc(sizeof *i->ranges * (most_sums(p) + 1));
  i->part_slots = rt_malloc(sizeof *i->part_slots * p->n_slots);
  i->sizes = rt_shape_cache_new(p);
  i->is_known = rt_malloc(sizeof *i->is_known * p->n_slots);
  i->in = rt_malloc(sizeof *i->in * n_in);
  i->out = rt_malloc(sizeof *i->out * n_out);
  i->by_port = rt_malloc(sizeof *i->by_port * ((size_t)n_in + n_out));
  i->n_runs = new_counters(p);
  bool packed = rt_packed_weights_new(&i->packed, p);
  return packed && allocate_kept(i) && i->ranges && rt_owners_new(&i->owners, p, 1) && i->params && i->arena &&
         i->slots && i->part_slots && i->nodes && i->sizes && i->is_known && i->in && i->out && i->by_port && i->n_runs;
}

RtInstance *rt_instance_new(const RtPlan *plan, uint32_t n_workers, int64_t worker_bytes, uint64_t seed) {
  RtInstance *i = rt_malloc(sizeof *i);
  if (!i) return NULL;
  *i = (RtInstance){.plan = plan, .seed = seed};
  bool good = allocate(i) && (i->team = rt_team_new(n_workers));
  if (good) i->block_bytes = bytes_of_blocks(plan, worker_bytes * rt_team_size(i->team));
  good = good && (i->blocks = rt_block_new(i->block_bytes));
  if (good) i->worker_slots = rt_malloc(sizeof *i->worker_slots * plan->n_slots * rt_team_size(i->team));
  if (!good || !i->worker_slots) {
    rt_instance_free(i);
    return NULL;
  }
  i->services = (TnServices){.barrier = wait_at_barrier,
                             .sgemm = plan->sgemm,
                             .guarded_arena = rt_guarded_arena_step,
                             .gather = gather,
                             .exchange = exchange,
                             .poll = poll};
  i->frame = (TnFrame){
      .in = i->in, .out = i->out, .dims = i->slots, .svc = &i->services, .status = &i->status, .team = i->team};
  i->frame.seg[SEG_ARENA] = i->arena;
  i->frame.blocks = i->blocks;
  i->frame.seg[SEG_PARAM] = i->params;
  i->frame.seg[SEG_CONST] = (unsigned char *)plan->consts;
  i->frame.seg[SEG_PACKED] = i->packed.block;
  return i;
}

void rt_instance_free(RtInstance *i) {
  if (!i) return;
  rt_team_free(i->team);
  rt_block_free(i->params, i->plan->param_bytes);
  rt_block_free(i->kept, i->plan->param_bytes);
  rt_packed_weights_free(&i->packed);
  rt_block_free(i->arena, i->arena_bytes);
  rt_block_free(i->blocks, i->block_bytes);
  rt_free(i->slots);
  rt_free(i->part_slots);
  rt_free(i->worker_slots);
  rt_free(i->nodes);
  rt_free(i->ranges);
  rt_owners_free(&i->owners);
  rt_ranks_free(i->ranks);
  rt_free(i->sizes);
  rt_free(i->is_known);
  rt_free(i->in);
  rt_free(i->out);
  rt_free(i->by_port);
  rt_free(i->n_runs);
  rt_free(i);
}

void rt_instance_set_cache_writes(RtInstance *i, const RtCacheWrite *list, uint32_t n) {
  i->cache_writes = list, i->n_cache_writes = n;
}

const char *rt_instance_error(const RtInstance *i) { return i->error; }
uint32_t rt_instance_workers(const RtInstance *i) { return rt_team_size(i->team); }
const RtPlan *rt_instance_plan(const RtInstance *i) { return i->plan; }
uint64_t rt_instance_counter(const RtInstance *i) { return i->counter; }
uint64_t rt_instance_seed(const RtInstance *i) { return i->seed; }
void rt_instance_poison(RtInstance *i, bool on) { i->poison = on; }
uint64_t rt_instance_n_weight_packs(const RtInstance *i) { return i->packed.n_made; }
const unsigned char *rt_instance_block(const RtInstance *i) { return i->params; }

unsigned char *rt_instance_arena(RtInstance *i) { return i->arena; }

unsigned char *rt_instance_change(RtInstance *i, uint32_t k) {
  rt_packed_weights_changed(&i->packed, k);
  i->params_written = true;
  return i->params + i->plan->params[k].offset;
}

char *rt_instance_error_buffer(RtInstance *i) { return i->error; }
const char *rt_instance_warning(const RtInstance *i) { return i->warning; }
char *rt_instance_warning_buffer(RtInstance *i) { return i->warning; }

uint64_t rt_instance_runs(const RtInstance *i, uint32_t function, uint32_t variant) {
  const RtPlan *p = i->plan;
  return function < p->n_functions && variant <= p->functions[function].n_variants ? i->n_runs[function][variant] : 0;
}

void rt_instance_set_random(RtInstance *i, uint64_t seed, uint64_t counter) {
  i->seed = seed;
  i->counter = counter;
}

// ---- runs

// The write of that line; line 0: the first of the function.
static const RtCacheWrite *cache_write(const RtInstance *i, const RtFunction *f, int64_t line) {
  for (uint32_t k = 0; k < i->n_cache_writes; k++) {
    const RtCacheWrite *w = &i->cache_writes[k];
    if ((!line || w->line == line) && !strcmp(w->function, f->name)) return w;
  }
  return NULL;
}

// Where a cache is full, a table of positions may be at its end first.
static void report_slice(RtInstance *i, const RtFunction *f, const TnKernelStatus *s) {
  const RtCacheWrite *w = s->index ? cache_write(i, f, s->index) : NULL, *any = cache_write(i, f, 0);
  if (w)
    rt_fail(i->error, sizeof i->error,
            "%s: the cache of tn_kv_cache_attend at %s is full: it holds %" PRId64 " of at most %" PRId64
            " steps, and those of this run do not fit; tn_kv_cache_reset empties it",
            f->name, w->place, s->value, w->steps);
  else if (any)
    rt_fail(i->error, sizeof i->error,
            "%s: the slice of line %" PRId64 " starts at %" PRId64
            ", computed in the run: not all of its elements exist; the cache of tn_kv_cache_attend at %s takes at most "
            "%" PRId64 " steps, and where it is full tn_kv_cache_reset empties it",
            f->name, s->index, s->value, any->place, any->steps);
  else
    rt_fail(i->error, sizeof i->error,
            "%s: the slice of line %" PRId64 " starts at %" PRId64
            ", computed in the run: not all of its elements exist",
            f->name, s->index, s->value);
}

// An index that a run of slots computed, where it names no row; false: it is of something else.
static bool report_slot(RtInstance *i, const RtFunction *f, const TnKernelStatus *s) {
  const RtCacheWrite *w = cache_write(i, f, 0);
  bool is_shared = s->value >> 24 == RT_SLOT_SHARED >> 24, is_full = s->value >> 24 == RT_SLOT_FULL >> 24;
  if (!w || !(is_shared || is_full)) return false;
  if (is_shared) rt_fail(i->error, sizeof i->error, "%s: two sequences of %s have one slot", f->name, w->place);
  else
    rt_fail(i->error, sizeof i->error,
            "%s: the slot of sequence %" PRId64 " of %s is full: it holds %" PRId64 " of at most %" PRId64 " steps",
            f->name, s->index, w->place, w->steps, w->steps);
  return true;
}

static void report_count(RtInstance *i, const RtFunction *f, const TnKernelStatus *s) {
  if (s->value < 0)
    rt_fail(i->error, sizeof i->error, "%s: a count of line %" PRId64 " is %" PRId64 ", below 0", f->name, s->index,
            s->value);
  else
    rt_fail(i->error, sizeof i->error, "%s: line %" PRId64 " has room for %" PRId64 " elements, and the run found more",
            f->name, s->index, s->value);
}

static void report_rows(RtInstance *i, const RtFunction *f, const TnKernelStatus *s) {
  rt_fail(i->error, sizeof i->error,
          s->value > s->index ? "%s: lengths computed in the run sum to %" PRId64 " rows, above %" PRId64
                                ", the bound of their layout"
                              : "%s: lengths computed in the run sum to %" PRId64 " rows, and there are %" PRId64,
          f->name, s->value, s->index);
}

static RtStatus report_kernel(RtInstance *i, const RtFunction *f, const TnKernelStatus *s) {
  if (s->code == TN_KERR_RANKS) return RT_ERR_RANKS;
  if (s->code == TN_KERR_SLICE_RANGE) return report_slice(i, f, s), RT_ERR_VALUE;
  if (s->code == TN_KERR_COUNT) return report_count(i, f, s), RT_ERR_VALUE;
  if (s->code == TN_KERR_ROWS) return report_rows(i, f, s), RT_ERR_VALUE;
  if (report_slot(i, f, s)) return RT_ERR_VALUE;
  static const char *const what[] = {"", "index", "length", "length"};
  rt_fail(i->error, sizeof i->error, "%s: %s %" PRId64 " at [%" PRId64 "], computed in the run, is %s", f->name,
          what[s->code], s->value, s->index,
          s->code == TN_KERR_NOT_SORTED ? "above the one before it, and sorting is enforced" : "out of range");
  return RT_ERR_VALUE;
}

static RtStatus report_guards(RtInstance *i, const RtGuardedRun *r) {
  if (r->plan && !rt_guarded_arena_report(r, i->error, sizeof i->error)) return RT_ERR_CODEGEN;
  if (r->plan && !rt_nan_report(r, i->error, sizeof i->error)) return RT_ERR_VALUE;
  return RT_OK;
}

static RtStatus enter(RtInstance *i, const RtFunction *f, const RtVariant *by, const int64_t *slots, uint64_t counter) {
  i->params_written = true;
  uint32_t function = (uint32_t)(f - i->plan->functions);
  TnEntry entry = by ? by->entry : f->entry;
  for (uint32_t k = 0; k < i->plan->n_slots; k++) i->slots[k] = slots[k];
  i->status = (TnKernelStatus){.input = -1};
  i->frame.seed = i->seed;
  i->frame.counter = counter;
  RtGuardedRun guarded_arena = {.plan = by ? by->guarded_arena : f->guarded_arena};
  bool keeps = keeps_params(f, guarded_arena.plan);
  if (keeps) memcpy(i->kept, i->params, (size_t)i->plan->param_bytes);
  i->frame.no_draws = i->no_draws;
  i->frame.guarded_arena = guarded_arena.plan ? &guarded_arena : NULL;
  rt_packed_weights_prepare(&i->packed, function, &i->frame, i->team);
  rt_packed_weights_ran(&i->packed, function);
  uint32_t most = by ? by->max_workers : f->max_workers;
  rt_team_enter(i->team, entry, &i->frame, most);
  RtStatus status = i->status.code ? report_kernel(i, f, &i->status) : report_guards(i, &guarded_arena);
  if (status && keeps) memcpy(i->params, i->kept, (size_t)i->plan->param_bytes);
  i->counter += !status && !f->only_reads && !f->shards;  // of a distributed function its update counts
  return status;
}

RtStatus rt_instance_enter(RtInstance *i, const RtFunction *f, const int64_t *slots, uint64_t counter) {
  return enter(i, f, NULL, slots, counter);
}

static RtShardRun shard_run(RtInstance *i, const RtShapeCache *s, const RtArray *in, const RtArray *out) {
  return (RtShardRun){.instance = i,
                      .function = s->function,
                      .sizes = s,
                      .in = i->in,
                      .out = i->out,
                      .slots = i->part_slots,
                      .inputs = in,
                      .outputs = out,
                      .counter = i->counter,
                      .seed = i->seed,
                      .ranks = i->ranks,
                      .owners = &i->owners,
                      .ranges = i->ranges,
                      .nodes = i->nodes,
                      .error = i->error,
                      .error_size = sizeof i->error};
}

static RtStatus run_shards(RtInstance *i, const RtShapeCache *s, const RtArray *in, const RtArray *out) {
  RtShardRun r = shard_run(i, s, in, out);
  i->shard_run = &r;
  RtStatus status = rt_shards_run(&r);
  i->shard_run = NULL;
  return status;
}

static RtInstance *instance_of(TnFrame *f) {
  return (RtInstance *)(void *)((unsigned char *)f - offsetof(RtInstance, frame));
}

static void exchange(TnFrame *f, int32_t bucket, int32_t ends, int32_t worker, int32_t n_workers) {
  RtShardRun *r = instance_of(f)->shard_run;
  uint32_t b = bucket < 0 ? r->function->shards->n_buckets : (uint32_t)bucket;
  bool goes_on = ends ? rt_shards_end(r, b, (uint32_t)worker, (uint32_t)n_workers)
                      : rt_shards_fold(r, b, (uint32_t)worker, (uint32_t)n_workers);
  if (!goes_on) return;
  if (n_workers > 1 && (ends || r->n_left)) wait_at_barrier(f, 0, n_workers);
  if (worker == 0 && (ends ? rt_shards_share(r) : rt_shards_begin(r, b))) f->status->code = TN_KERR_RANKS;
}

static void poll(TnFrame *f) {
  RtRanks *ranks = instance_of(f)->ranks;
  if (ranks && rt_ranks_poll(ranks)) f->status->code = TN_KERR_RANKS;
}

void rt_instance_add(RtInstance *i, const RtShards *s, float *const add[2], float *to, int64_t n, uint32_t worker) {
  void *in[] = {add[0], add[1]}, *out[] = {to};
  TnFrame frame = i->frame;
  frame.in = in, frame.out = out;
  frame.dims = i->worker_slots + (size_t)worker * i->plan->n_slots;
  frame.dims[s->sums_slot] = n;
  if (n > 0) i->plan->functions[s->add].entry(&frame, 0, 1);
}

static void gather(TnFrame *f, int32_t number, void *data) {
  RtInstance *i = instance_of(f);
  if (rt_shards_gather(i->shard_run, (uint32_t)number, data)) f->status->code = TN_KERR_RANKS;
}

// What one rank refuses, all do.
static RtStatus refuse_run(RtInstance *i, const RtShapeCache *s, RtStatus status) {
  if (!i->ranks || !s->function->shards) return status;
  RtShardRun r = shard_run(i, s, NULL, NULL);
  return rt_shards_refuse(&r, status);
}

// After validation; the pointer tables are filled.
static RtStatus execute(RtInstance *i, const RtShapeCache *s, const RtArray *in, const RtArray *out) {
  const RtFunction *f = s->function;
  const RtVariant *by = s->by;
  atomic_uint_fast64_t *n_runs = &i->n_runs[f - i->plan->functions][by ? (size_t)(by - f->variants) : f->n_variants];
  atomic_store_explicit(n_runs, *n_runs + 1, memory_order_relaxed);  // one run at a time adds
  if (i->poison) memset(i->arena, 0xff, (size_t)i->arena_bytes), memset(i->blocks, 0xff, (size_t)i->block_bytes);
  return f->shards ? run_shards(i, s, in, out) : enter(i, f, by, s->slots, i->counter);
}

// Full validation, for calls that the shape cache does not cover.
static RtStatus check(RtInstance *i, RtShapeCache *s, bool sizes_hold, RtRunCheck *c) {
  c->plan = i->plan, c->function = s->function, c->params = i->params;
  c->slots = s->slots, c->dims = s->dims, c->is_known = i->is_known, c->team = i->team;
  c->error = i->error, c->error_size = sizeof i->error;
  if (!sizes_hold) {
    s->is_set = false;
    RtStatus status = rt_check_arrays(c);
    if (status) return status;
    rt_shape_cache_keep(s, c->in, c->out);
  }
  return rt_check_values(c);
}

static bool any_of_params(const RtInstance *i, const RtArray *a, size_t n) {
  bool any = false;
  for (size_t k = 0; k < n; k++) any |= (uintptr_t)a[k].data - (uintptr_t)i->params < (uint64_t)i->plan->param_bytes;
  return any;
}

// *in and *out in the order of the signature.
static bool order_named(RtInstance *i, const RtFunction *f, const RtArray **in, size_t *n_in, const RtArray **out,
                        size_t *n_out) {
  RtArray *inputs = i->by_port, *outputs = i->by_port + f->n_inputs;
  if (rt_any_named(f, false, *in, *n_in)) {
    if (!rt_order_by_name(f, false, *in, *n_in, inputs, i->error, sizeof i->error)) return false;
    *in = inputs, *n_in = f->n_inputs;
  }
  if (rt_any_named(f, true, *out, *n_out)) {
    if (!rt_order_by_name(f, true, *out, *n_out, outputs, i->error, sizeof i->error)) return false;
    *out = outputs, *n_out = f->n_outputs;
  }
  return true;
}

RtStatus rt_instance_run(RtInstance *i, uint32_t function, const RtArray *in, size_t n_in, const RtArray *out,
                         size_t n_out) {
  if (function >= i->plan->n_functions) {
    rt_fail(i->error, sizeof i->error, "there is no function %" PRIu32 "; the program has %" PRIu32, function,
            i->plan->n_functions);
    return RT_ERR_ARGUMENT;
  }
  RtShapeCache *s = &i->sizes[function];
  if (!order_named(i, s->function, &in, &n_in, &out, &n_out)) return refuse_run(i, s, RT_ERR_ARGUMENT);
  bool hold =
      rt_shape_cache_hold(s, in, n_in, out, n_out) && !any_of_params(i, in, n_in) && !any_of_params(i, out, n_out);
  if (!hold || s->function->n_checks) {
    RtRunCheck c = {.in = in, .out = out, .n_in = n_in, .n_out = n_out};
    RtStatus status = check(i, s, hold, &c);
    if (status) return refuse_run(i, s, status);
  }
  for (size_t k = 0; k < n_in; k++) i->in[k] = in[k].data;
  for (size_t k = 0; k < n_out; k++) i->out[k] = out[k].data;
  return execute(i, s, in, out);
}

RtStatus rt_instance_bind(RtInstance *i, uint32_t function, const RtArray *in, size_t n_in) {
  RtShapeCache *s = &i->sizes[function];
  size_t n_out = 0;
  const RtArray *out = NULL;
  if (!order_named(i, s->function, &in, &n_in, &out, &n_out)) return RT_ERR_ARGUMENT;
  s->is_set = false;  // its dims are written over
  return rt_check_inputs(&(RtRunCheck){.plan = i->plan,
                                       .function = s->function,
                                       .in = in,
                                       .n_in = n_in,
                                       .slots = i->slots,
                                       .dims = s->dims,
                                       .is_known = i->is_known,
                                       .error = i->error,
                                       .error_size = sizeof i->error});
}

RtArray rt_instance_output(RtInstance *i, uint32_t function, uint32_t k) {
  RtShapeCache *s = &i->sizes[function];
  const RtPort *port = &s->function->outputs[k];
  RtArray a = {.dtype = (RtDType)port->dtype, .rank = port->rank};
  rt_plan_dims(i->plan, i->slots, s->dims);
  for (uint32_t d = 0; d < a.rank; d++) a.dims[d] = s->dims[port->dims[d]];
  return a;
}

// ---- initialisation
static RtStatus initialize(RtInstance *i, uint64_t seed, bool draws) {
  const RtPlan *p = i->plan;
  if (i->params_written) memset(i->params, 0, (size_t)p->param_bytes);
  rt_packed_weights_changed_all(&i->packed);
  rt_instance_set_random(i, seed, 0);
  i->no_draws = !draws;
  RtStatus status = p->init == RT_NO_FUNCTION ? RT_OK : rt_instance_run(i, p->init, NULL, 0, NULL, 0);
  i->no_draws = false;
  i->counter = 1;  // run 0 is initialisation, whether or not it draws numbers
  return status;
}

RtStatus rt_instance_initialize(RtInstance *i, uint64_t seed) { return initialize(i, seed, true); }
RtStatus rt_instance_initialize_undrawn(RtInstance *i, uint64_t seed) { return initialize(i, seed, false); }
