// From a program as built to one that is planned: what tn_compile and every command do alike. Distributed functions are planned for the
// batch of a shard, and cut in two (split_shards.c); a third function adds their sums.
//
//   step          fns[of]        one shard's rows -> outputs by row, sums
//   step.update   fns[update]    sums -> other outputs, parameters
//   step.add      fns[add]       two arrays of sums -> theirs, of as many elements as a run says
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ir.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include <string.h>

// ---- cutting
// A run checks sizes of the whole batch.
static bool has_size_of_batch(Prog *p, const Fn *f, Dim batch) {
  for (uint32_t k = 0; k < f->n_size_checks; k++) {
    if (!ir_shape_names(p, ir_shape(p, &f->size_checks[k].dim, 1), batch)) continue;
    rt_diag(&p->diags, RT_ERROR, E_OF_SHARD, ir_loc_file(p, f->loc), ir_loc_line(p, f->loc),
            "%s of function '%s' could be below 0 in a shard", f->size_checks[k].what, ir_text(p, f->name));
    rt_diag(&p->diags, RT_HINT, 0, NULL, 0,
            "sizes of a distributed function that subtract from the batch have no place");
    return true;
  }
  return false;
}

enum { LINE = TN_ALIGN / sizeof(float) };  // each sum begins at a cache line

static int64_t bound_of_sums(const Fn *shard) {
  int64_t n = 0;
  for (Val v = {1}; v.i < shard->n_ins; v.i++) {
    const Attr *name = ir_ins(shard, v)->op == OP_output ? ir_attr(shard, v, KEY_name) : NULL;
    if (!name || strncmp(ir_text(shard->prog, name->u.s), "sum ", 4)) continue;
    n += (ir_shape_bound(shard->prog, ir_ins(shard, v)->shape) + LINE - 1) / LINE * LINE;
  }
  return n;
}

// func @step.add(%a: f32[step.sums], %b: f32[step.sums]) { output add %a, %b }
static void build_add(Prog *p, Sharded *s) {
  const Fn *shard = p->fns[s->of];
  const char *name = ir_text(p, shard->name);
  s->sums = ir_dim_sym(p, rt_printf(p->mem, "%s.sums", name), bound_of_sums(shard));
  s->add = p->n_fns;
  Fn *f = ir_fn_new(p, rt_printf(p->mem, "%s.add", name), shard->loc);
  Shape shape = ir_shape(p, &s->sums, 1);
  Val a = ir_input(f, "a", DT_F32, shape, shard->loc), b = ir_input(f, "b", DT_F32, shape, shard->loc);
  Val sum = ir_op2(f, OP_add, a, b, shard->loc);
  ir_emit(f, OP_output, &sum, 1, (Attr[]){ir_a_str(KEY_name, ir_str(p, "sum")), ir_a_int(KEY_index, 0)}, 2, shard->loc);
}

// Runs the passes up to the cut, for the rows of one shard.
static bool cut(Prog *p, uint32_t of, Val mean, const PlanWatch *w) {
  Fn *built = p->fns[of];
  Dim batch = ir_attr(built, mean, KEY_dim)->u.dim;
  int64_t n = ir_attr_int(built, mean, KEY_shards, 1), bound = ir_dim_bound(p, batch);
  DimFit fit = {batch, bound < n ? 1 : (bound + n - 1) / n};
  if (w->before) w->before(built, w->ctx);
  Fn *shard = ir_fn_specialize(built, &fit, 1);
  p->n_fns--;  // it replaces the function as a whole
  shard->name = built->name;
  p->fns[of] = shard;
  const char *list = ir_pass_list(p->mem, 0, PASS_split_shards);
  uint32_t update = p->n_fns;
  if (!ir_run_passes(shard, list, w->after, w->ctx) || p->n_fns == update) return false;
  if (has_size_of_batch(p, shard, batch)) return false;
  Sharded s = {.built = built, .of = of, .update = update, .n = (uint32_t)n, .batch = batch};
  build_add(p, &s);
  *RT_PUSH(p->mem, p->sharded, p->n_sharded, p->cap_sharded) = s;
  return true;
}

static bool run_passes(Fn *f, const PlanWatch *w) {
  if (w->before) w->before(f, w->ctx);
  return ir_run_passes(f, NULL, w->after, w->ctx);
}

// Goes on after a fault, so that one call reports the mistakes of all functions.
bool ir_plan_program(Prog *p, uint32_t n_variants, bool keeps_whole, const PlanWatch *w) {
  uint32_t first_variant = p->n_fns - n_variants;
  bool good = true;
  for (uint32_t k = 0, n = p->n_fns; k < n && !keeps_whole; k++) {
    Val mean = ir_find_shard_mean(p->fns[k]);
    if (!ir_none(mean)) good = cut(p, k, mean, w) && good;
  }
  if (p->n_sharded) first_variant = p->n_fns;
  for (uint32_t k = 0; k < first_variant; k++)  // functions that could not be cut have reported why
    if (ir_none(ir_find_shard_mean(p->fns[k]))) good &= run_passes(p->fns[k], w);
  good = good && p->diags.n_errors == 0;
  RtDiags said = p->diags;  // a variant would repeat the warnings of its function
  for (uint32_t k = first_variant; good && k < p->n_fns; k++) good = run_passes(p->fns[k], w);
  if (good) p->diags.n = said.n, p->diags.n_warnings = said.n_warnings;
  if (good && !keeps_whole) ir_warn_checkpoints(p);
  return good && !keeps_whole && ir_plan_program_memory(p);
}

const Sharded *ir_sharded(const Prog *p, uint32_t function) {
  for (uint32_t k = 0; k < p->n_sharded; k++)
    if (p->sharded[k].of == function) return &p->sharded[k];
  return NULL;
}
