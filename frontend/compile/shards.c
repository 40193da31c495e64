// Distributed functions, which ir/passes/plan_program.c cuts in two: which may be cut, and what the runtime is told of them.
//
// `step` and `step.update` have inputs and outputs of their own; names say which of the caller's they are, and sums have names that none of
// the caller's has.
#include "frontend/compile/compile.h"
#include "frontend/module/probe.h"
#include "ir/fn.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"
#include "ir/storage.h"
#include "runtime/exec/shard_tree.h"
#include <stdlib.h>
#include <string.h>

static const char *name_of(const Fn *f, Val v) {
  return ir_text(f->prog, ir_ins(f, v)->op == OP_input ? ir_ins(f, v)->name : ir_output_name(f, v));
}

// ---- what may be cut
static bool has_probes(tn_program *p, const Fn *f) {
  for (tn_function *g = p->first; g; g = g->next)
    if (g->ir == f && g->n_probes) {
      fe_diag(p, RT_ERROR, E_STATE, g->probes[0].loc, "probe '%s' stands in the distributed function '%s'",
              g->probes[0].name, g->name);
      fe_note(p, f->loc, "its statistics, as the least and the greatest, are no sums over shards");
      fe_hint(p, "tn_output(f, name, tn_shard_mean(x)) hands out what is wanted of all shards");
      return true;
    }
  return false;
}

enum { BLOCK = RT_OWNED_BLOCK };  // elements of a norm that are added at a time

bool fe_check_shards(tn_program *p, const tn_compile_options *o) {
  bool good = true;
  for (uint32_t k = 0; k < p->n_built; k++) {
    const Fn *f = p->ir->fns[k];
    if (ir_none(ir_find_shard_mean(f))) continue;
    if (p->is_for_object || o->n_buckets) {
      fe_error(p, E_STATE, o->at, "function '%s' is distributed, and %s", ir_text(p->ir, f->name),
               p->is_for_object ? "bundles have no such functions: cutting a batch and exchanging take the runtime"
                                : "is planned for its shards alone: buckets have no place");
      good = false;
    } else {
      good = !has_probes(p, f) && good;
    }
  }
  return good;
}

// As text, functions are what was built; the update is a part of it.
void fe_name_shards(tn_program *p) {
  if (!p->ir->n_sharded) return;
  const char **texts = rt_alloc(p->mem, p->ir->n_fns * sizeof *texts);
  memcpy(texts, p->built_fn, p->n_built * sizeof *texts);
  for (uint32_t k = p->n_built; k < p->ir->n_fns; k++) texts[k] = "";
  p->built_fn = texts;
  p->n_built = p->ir->n_fns;
}

// ---- what the runtime is told
static Val *by_position(const Fn *f, Op op) {
  Val *at = rt_alloc(f->prog->mem, (f->n_ins + 1) * sizeof *at);
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_ins(f, v)->op == op) at[ir_attr_int(f, v, KEY_index, 0)] = v;
  return at;
}

// The ranges of elements are those of the sums that owned updates read, in their order: `owned K`.
static uint32_t position_of(const char *name, const RtPort *ports, uint32_t n_ports, uint32_t *n_sums) {
  static const char owned[] = "owned ";
  uint32_t at = 0;
  while (at < n_ports && strcmp(ports[at].name, name)) at++;
  if (at < n_ports) return at;
  return strncmp(name, owned, strlen(owned)) ? RT_SUM + (*n_sums)++ : RT_OWNED + (uint32_t)atoi(name + strlen(owned));
}

// By position in f: the caller's position, or RT_SUM + the number of the sum, which come one after the other, or RT_OWNED.
static const uint32_t *positions(FeJitCode *c, const Fn *f, Op op, const RtPort *ports, uint32_t n_ports, uint32_t n) {
  uint32_t *at = rt_alloc(c->mem, (n + 1) * sizeof *at), n_sums = 0;
  const Val *v = by_position(f, op);
  for (uint32_t k = 0; k < n; k++) at[k] = position_of(name_of(f, v[k]), ports, n_ports, &n_sums);
  return at;
}

// ---- updates in parts
static uint32_t param_at(const Fn *f, Val v) { return (uint32_t)ir_attr_int(f, ir_storage_root(f, v), KEY_param, 0); }

// Of an operand that is the input `owned K`
static uint32_t sum_owned_by(const RtShards *s, const Fn *update, Val range) {
  return s->update_in[ir_attr_int(update, range, KEY_index, 0)] - RT_OWNED;
}

static int by_bucket(const void *a, const void *b) {
  const RtOwnedUpdate *x = a, *y = b;
  if (x->bucket != y->bucket) return x->bucket < y->bucket ? -1 : 1;
  return (x->sum > y->sum) - (x->sum < y->sum);
}

// Entries that other functions than the update read: those are everybody's whole. Initial values are made in every process.
static bool *find_read(const tn_program *p, const Fn *update) {
  bool *is_read = rt_alloc(p->mem, p->ir->n_params + 1);
  for (uint32_t k = 0; k < p->ir->n_fns; k++) {
    const Fn *f = p->ir->fns[k];
    if (f == update || !strcmp(ir_text(p->ir, f->name), "init")) continue;
    for (Val v = {1}; v.i < f->n_ins; v.i++)
      for (uint32_t a = 0; a < ir_ins(f, v)->n_args; a++)
        if (ir_ins(f, ir_arg(f, v, a))->op == OP_param) is_read[param_at(f, ir_arg(f, v, a))] = true;
  }
  return is_read;
}

// What the update changes of the elements of one sum
typedef struct {
  uint32_t *shared, *state, n_shared, n_state;
} Changed;

static void add_once(uint32_t *list, uint32_t *n, uint32_t param) {
  for (uint32_t k = 0; k < *n; k++)
    if (list[k] == param) return;
  list[(*n)++] = param;
}

static Changed changed_with(const tn_program *p, const Fn *update, const RtShards *s, uint32_t sum,
                            const bool *is_read) {
  uint32_t n = p->ir->n_params;
  Changed c = {.shared = rt_alloc(p->mem, n * sizeof *c.shared), .state = rt_alloc(p->mem, n * sizeof *c.state)};
  for (Val v = {1}; v.i < update->n_ins; v.i++) {
    if (!ir_has_operand(update, v, ARG_owned) || sum_owned_by(s, update, ir_operand(update, v, ARG_owned)) != sum)
      continue;
    for (uint32_t k = 0; k < ir_ops[ir_ins(update, v)->op].n_res; k++) {
      uint32_t param = param_at(update, ir_arg(update, v, k));
      bool is_state = p->ir->params[param].kind == PARAM_STATE && !is_read[param];
      if (is_state) add_once(c.state, &c.n_state, param);
      else add_once(c.shared, &c.n_shared, param);
    }
  }
  return c;
}

static const uint32_t *kept(FeJitCode *c, const uint32_t *list, uint32_t n) {
  uint32_t *copy = rt_alloc(c->mem, (n + 1) * sizeof *copy);
  if (n) memcpy(copy, list, n * sizeof *copy);
  return copy;
}

static void list_owned(const tn_program *p, FeJitCode *c, const Fn *update, RtShards *s) {
  const bool *is_read = find_read(p, update);
  RtOwnedUpdate *list = rt_alloc(c->mem, (s->n_update_in + 1) * sizeof *list);
  for (uint32_t k = 0; k < s->n_update_in; k++) {
    if (s->update_in[k] < RT_OWNED || s->update_in[k] >= RT_SUM) continue;
    uint32_t sum = s->update_in[k] - RT_OWNED;
    Changed all = changed_with(p, update, s, sum, is_read);
    if (!all.n_shared && !all.n_state) continue;  // of all elements
    uint32_t param = all.n_shared ? all.shared[0] : all.state[0];
    list[s->n_owned++] = (RtOwnedUpdate){.sum = sum,
                                         .bucket = s->sum_bucket[sum],
                                         .param = param,
                                         .shared = kept(c, all.shared, all.n_shared),
                                         .state = kept(c, all.state, all.n_state),
                                         .n_shared = all.n_shared,
                                         .n_state = all.n_state};
  }
  if (s->n_owned) qsort(list, s->n_owned, sizeof *list, by_bucket);
  s->owned = list;
}

static RtNorm norm_of(FeJitCode *c, const Fn *update, const RtShards *s, Val v) {
  uint32_t n = ir_ins(update, v)->n_args / 2, *sums = rt_alloc(c->mem, (n + 1) * sizeof *sums);
  int64_t *n_blocks = rt_alloc(c->mem, (n + 1) * sizeof *n_blocks);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t sum = sum_owned_by(s, update, ir_arg(update, v, 2 * k + 1));
    sums[k] = sum < s->n_sums ? sum : RT_WHOLE;
    n_blocks[k] = (ir_shape_bound(update->prog, ir_ins(update, ir_arg(update, v, 2 * k))->shape) + BLOCK - 1) / BLOCK;
  }
  return (RtNorm){sums, n_blocks, n};
}

static void list_norms(FeJitCode *c, const Fn *update, RtShards *s) {
  for (Val v = {1}; v.i < update->n_ins; v.i++) {
    uint32_t number = (uint32_t)ir_attr_int(update, v, KEY_exchange, -1) + 1;
    if (number > s->n_norms) s->n_norms = number;
  }
  RtNorm *list = rt_alloc(c->mem, (s->n_norms + 1) * sizeof *list);
  for (Val v = {1}; v.i < update->n_ins; v.i++)
    if (ir_attr(update, v, KEY_exchange)) list[ir_attr_int(update, v, KEY_exchange, 0)] = norm_of(c, update, s, v);
  s->norms = list;
}

// ---- sums: where the plan of what a shard computes has them, by exchange
static Val *exchanges_of(const Fn *shard, uint32_t *n) {
  Val *list = rt_alloc(shard->prog->mem, (shard->n_ins + 1) * sizeof *list);
  for (Val v = {1}; v.i < shard->n_ins; v.i++)
    if (ir_ins(shard, v)->op == OP_exchange_begin) list[(*n)++] = v;
  return list;
}

static const Buf *buf_of(const Fn *f, Val v) { return &f->bufs[f->buf_of[v.i]]; }

static RtBucket bucket_of(const Fn *shard, Val exchange) {
  const Buf *sums = buf_of(shard, exchange), *room = buf_of(shard, (Val){exchange.i + 1});
  return (RtBucket){sums->offset, room->offset, sums->bytes / (int64_t)sizeof(float),
                    room->bytes / (int64_t)sizeof(float)};
}

static void place_sums(FeJitCode *c, const Fn *shard, RtShards *s) {
  uint32_t n = 0;
  const Val *list = exchanges_of(shard, &n);
  int64_t *at = rt_alloc(c->mem, (s->n_out + 1) * sizeof *at);
  uint32_t *bucket = rt_alloc(c->mem, (s->n_out + 1) * sizeof *bucket);
  RtBucket *buckets = rt_alloc(c->mem, n * sizeof *buckets);
  s->n_buckets = n - 1;
  for (uint32_t j = 0; j < n; j++) {
    uint32_t b = (uint32_t)ir_attr_int(shard, list[j], KEY_bucket, s->n_buckets);
    buckets[b] = bucket_of(shard, list[j]);
    for (uint32_t k = 0; k < ir_ins(shard, list[j])->n_args; k++, s->n_sums++) {
      Val v = ir_arg(shard, list[j], k);
      uint32_t sum = s->out[ir_attr_int(shard, v, KEY_index, 0)] - RT_SUM;
      at[sum] = buf_of(shard, v)->within_at / (int64_t)sizeof(float), bucket[sum] = b;
    }
  }
  s->sum_at = at, s->sum_bucket = bucket, s->buckets = buckets;
}

static void plan_one(const tn_program *p, FeJitCode *c, const Sharded *f, RtFunction *functions) {
  RtShards *s = rt_alloc(c->mem, sizeof *s);
  RtFunction *step = &functions[f->of];
  const Fn *shard = p->ir->fns[f->of], *update = p->ir->fns[f->update];
  *s = (RtShards){.n = f->n,
                  .slot = (uint32_t)ir_dim_info(p->ir, f->batch)->slot,
                  .update = f->update,
                  .add = f->add,
                  .sums_slot = (uint32_t)ir_dim_info(p->ir, f->sums)->slot,
                  .n_out = shard->n_outputs,
                  .n_update_in = update->n_inputs,
                  .n_update_out = update->n_outputs};
  s->out = positions(c, shard, OP_output, step->outputs, step->n_outputs, s->n_out);
  s->update_in = positions(c, update, OP_input, step->inputs, step->n_inputs, s->n_update_in);
  s->update_out = positions(c, update, OP_output, step->outputs, step->n_outputs, s->n_update_out);
  place_sums(c, shard, s);
  list_owned(p, c, update, s);
  list_norms(c, update, s);
  step->shards = s, step->only_reads = false;
  functions[f->update].is_internal = functions[f->add].is_internal = true;
}

void fe_plan_shards(const tn_program *p, FeJitCode *c, RtFunction *functions) {
  for (uint32_t k = 0; k < p->ir->n_sharded; k++) plan_one(p, c, &p->ir->sharded[k], functions);
}
