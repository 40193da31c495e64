// Distributed functions: planned for the batch of a shard, cut in two, and how the runtime puts both together.
//
//   step          ir->fns[of]        one shard's rows -> outputs by row, sums
//   step.update   ir->fns[update]    sums -> other outputs, parameters
//
// Both have inputs and outputs of their own; names say which of the caller's they are, and sums have names that none of the
// caller's has.
#include "frontend/fe.h"
#include <string.h>

// ---- cutting
static bool has_probes(tn_program *p, const Fn *f) {
  for (tn_function *g = p->first; g; g = g->next)
    if (g->ir == f && g->n_probes) {
      fe_diag(p, RT_ERROR, E_STATE, g->probes[0].loc, "probe '%s' stands in the distributed function '%s'",
              g->probes[0].name, g->name);
      fe_hint(p, "tn_output(f, name, tn_shard_mean(x)) hands out what is wanted of all shards");
      return true;
    }
  return false;
}

// What a run checks are sizes of the whole batch.
static bool has_size_of_batch(tn_program *p, const Fn *f, Dim batch) {
  for (uint32_t k = 0; k < f->n_size_checks; k++) {
    if (!ir_shape_names(p->ir, ir_shape(p->ir, &f->size_checks[k].dim, 1), batch)) continue;
    fe_diag(p, RT_ERROR, E_OF_SHARD, f->loc, "%s of function '%s' could be below 0 in a shard", f->size_checks[k].what,
            ir_text(p->ir, f->name));
    fe_hint(p, "sizes of a distributed function that subtract from the batch have no place");
    return true;
  }
  return false;
}

// The passes up to the cut, of the function for as many rows as a shard has.
static bool cut(tn_program *p, uint32_t of, Val mean) {
  Prog *ir = p->ir;
  Fn *built = ir->fns[of];
  Dim batch = ir_attr(built, mean, KEY_dim)->u.dim;
  int64_t n = ir_attr_int(built, mean, KEY_shards, 1), bound = ir_dim_bound(ir, batch);
  DimFit fit = {batch, bound < n ? 1 : (bound + n - 1) / n};
  Fn *shard = ir_fn_specialize(built, &fit, 1);
  ir->n_fns--;  // it takes the place of the whole
  shard->name = built->name;
  ir->fns[of] = shard;
  RtText list = {.mem = p->mem};
  for (uint32_t k = 0; k <= PASS_split_shards; k++) rt_text_add(&list, "%s%s", k ? "," : "", ir_passes[k].name);
  uint32_t update = ir->n_fns;
  if (!ir_run_passes(shard, list.text, NULL, NULL) || ir->n_fns == update) return false;
  if (has_size_of_batch(p, shard, batch)) return false;
  *RT_PUSH(p->mem, p->sharded, p->n_sharded, p->cap_sharded) = (FeSharded){built, of, update, (uint32_t)n, batch};
  return true;
}

// As text, functions are what was built; the update is a part of it.
static void keep_texts(tn_program *p, uint32_t n_built) {
  const char **texts = rt_alloc(p->mem, p->ir->n_fns * sizeof *texts);
  memcpy(texts, p->built_fn, n_built * sizeof *texts);
  for (uint32_t k = n_built; k < p->ir->n_fns; k++) texts[k] = "";
  p->built_fn = texts;
  p->n_built = p->ir->n_fns;
}

bool fe_cut_shards(tn_program *p, const tn_compile_options *o) {
  uint32_t n = p->n_built;
  bool good = true;
  for (uint32_t k = 0; k < n; k++) {
    Val mean = ir_find_shard_mean(p->ir->fns[k]);
    if (ir_none(mean)) continue;
    if (p->is_for_object || o->n_buckets) {
      fe_error(p, E_STATE, o->at, "function '%s' is distributed, and %s", ir_text(p->ir, p->ir->fns[k]->name),
               p->is_for_object ? "bundles have no such functions"
                                : "is planned for its shards alone: buckets have no place");
      good = false;
    } else {
      good = !has_probes(p, p->ir->fns[k]) && cut(p, k, mean) && good;
    }
  }
  if (p->n_sharded) keep_texts(p, n);
  return good;
}

const FeSharded *fe_sharded(const tn_program *p, uint32_t function) {
  for (uint32_t k = 0; k < p->n_sharded; k++)
    if (p->sharded[k].of == function) return &p->sharded[k];
  return NULL;
}

// ---- what the runtime is told
static const char *name_of(const Fn *f, Val v) {
  return ir_text(f->prog, ir_ins(f, v)->op == OP_input ? ir_ins(f, v)->name : ir_attr(f, v, KEY_name)->u.s);
}

static Val *by_position(const Fn *f, Op op) {
  Val *at = rt_alloc(f->prog->mem, (f->n_ins + 1) * sizeof *at);
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_ins(f, v)->op == op) at[ir_attr_int(f, v, KEY_index, 0)] = v;
  return at;
}

// By position in f: the caller's position, or RT_SUM + the number of the sum, which come one after the other.
static const uint32_t *positions(FeJitCode *c, const Fn *f, Op op, const RtPort *ports, uint32_t n_ports, uint32_t n) {
  uint32_t *at = rt_alloc(c->mem, (n + 1) * sizeof *at), n_sums = 0;
  const Val *v = by_position(f, op);
  for (uint32_t k = 0; k < n; k++) {
    while (at[k] < n_ports && strcmp(ports[at[k]].name, name_of(f, v[k]))) at[k]++;
    if (at[k] == n_ports) at[k] = RT_SUM + n_sums++;
  }
  return at;
}

// Each sum begins a line of its own.
static void place_sums(FeJitCode *c, const Fn *shard, RtShards *s) {
  enum { LINE = TN_ALIGN / sizeof(float) };
  int64_t *at = rt_alloc(c->mem, (s->n_out + 1) * sizeof *at);
  const Val *v = by_position(shard, OP_output);
  for (uint32_t k = 0; k < s->n_out; k++) {
    if (s->out[k] < RT_SUM) continue;
    at[s->n_sums++] = s->n_elements;
    s->n_elements += (ir_shape_bound(shard->prog, ir_ins(shard, v[k])->shape) + LINE - 1) / LINE * LINE;
  }
  s->sum_at = at;
}

static void plan_one(const tn_program *p, FeJitCode *c, const FeSharded *f, RtFunction *functions) {
  RtShards *s = rt_alloc(c->mem, sizeof *s);
  RtFunction *step = &functions[f->of];
  const Fn *shard = p->ir->fns[f->of], *update = p->ir->fns[f->update];
  *s = (RtShards){.n = f->n,
                  .slot = (uint32_t)ir_dim_info(p->ir, f->batch)->slot,
                  .update = f->update,
                  .n_out = shard->n_outputs,
                  .n_update_in = update->n_inputs,
                  .n_update_out = update->n_outputs};
  s->out = positions(c, shard, OP_output, step->outputs, step->n_outputs, s->n_out);
  s->update_in = positions(c, update, OP_input, step->inputs, step->n_inputs, s->n_update_in);
  s->update_out = positions(c, update, OP_output, step->outputs, step->n_outputs, s->n_update_out);
  place_sums(c, shard, s);
  step->shards = s, step->only_reads = false;
  functions[f->update].is_internal = true;
}

void fe_plan_shards(const tn_program *p, FeJitCode *c, RtFunction *functions) {
  for (uint32_t k = 0; k < p->n_sharded; k++) plan_one(p, c, &p->sharded[k], functions);
}
