// From the placed program to the plan that instances run by: plain tables in the memory of the shared code, no IR.
#include "codegen/gemm/sgemm.h"
#include "codegen/module/compile.h"
#include "frontend/compile/compile.h"
#include "frontend/module/attention.h"
#include "frontend/module/probe.h"
#include "ir/fn.h"
#include "ir/passes/cost.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"
#include "ir/storage.h"

typedef struct {
  Prog *ir;
  RtArena *mem;
  RtDim *rows;
  Dim *dims;  // by row
  uint32_t n, cap, n_dims, cap_dims;
} Tables;

_Static_assert((int)RT_DIM_MUL == (int)DIM_MUL && (int)RT_DIM_ADD == (int)DIM_ADD && (int)RT_DIM_DIV == (int)DIM_DIV &&
                   (int)RT_DIM_MAX == (int)DIM_MAX && (int)RT_DIM_MIN == (int)DIM_MIN,
               "plans number what sizes are made of as the IR does");

// The row of a dim; operands get theirs first.
static uint32_t row_of(Tables *t, Dim d) {
  for (uint32_t k = 0; k < t->n; k++)
    if (t->dims[k].i == d.i) return k;
  DimInfo info = *ir_dim_info(t->ir, d);
  RtDim row = {.kind = RT_DIM_CONST, .value = info.value};
  if (info.kind == DIM_SYM) row = (RtDim){.kind = RT_DIM_SLOT, .value = info.slot};
  if (ir_dim_has_parts(&info)) {
    row.kind = info.kind;
    row.a = row_of(t, info.a);
    row.b = row_of(t, info.b);
  }
  *RT_PUSH(t->mem, t->rows, t->n, t->cap) = row;
  *RT_PUSH(t->mem, t->dims, t->n_dims, t->cap_dims) = d;
  return t->n - 1;
}

static const char *keep(Tables *t, Str s) { return rt_strdup(t->mem, ir_text(t->ir, s)); }
// Of an array; one of another dtype has none, and a run refuses it.
_Static_assert((int)RT_N_DTYPES == (int)DT_LAYOUT && (int)RT_F32 == (int)DT_F32 && (int)RT_BF16 == (int)DT_BF16,
               "arrays number dtypes as the IR does");
static uint32_t dtype_of(uint8_t t) { return NUMBER >> t & 1 ? t : RT_NO_DTYPE; }

static RtPort port_of(Tables *t, const Fn *f, Val v, Str name) {
  const Ins *ins = ir_ins(f, v);
  RtPort port = {.name = keep(t, name), .dtype = dtype_of(ins->dtype), .rank = ir_rank(t->ir, ins->shape)};
  for (uint32_t k = 0; k < port.rank; k++) port.dims[k] = row_of(t, ir_dim_at(t->ir, ins->shape, k));
  return port;
}

static void fill_ports(Tables *t, const Fn *f, RtFunction *out) {
  RtPort *in = rt_alloc(t->mem, (f->n_inputs + 1) * sizeof *in),
         *res = rt_alloc(t->mem, (f->n_outputs + 1) * sizeof *res);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    Op op = f->ins[v.i].op;
    int64_t index = ir_attr_int(f, v, KEY_index, 0);
    if (op == OP_input) in[index] = port_of(t, f, v, f->ins[v.i].name);
    if (op == OP_output) res[index] = port_of(t, f, ir_arg(f, v, 0), ir_output_name(f, v));
  }
  out->inputs = in, out->n_inputs = f->n_inputs;
  out->outputs = res, out->n_outputs = f->n_outputs;
}

// The copies of weights that products of the function read, and of which parameters it writes.
static void fill_packs(Tables *t, const Fn *f, RtFunction *out) {
  const Prog *ir = t->ir;
  const Target *target = ir->scratch_ctx;
  uint32_t *reads = rt_alloc(t->mem, (ir->n_packed_weights + 1) * sizeof *reads);
  uint32_t *writes = rt_alloc(t->mem, (ir->n_packed_weights + 1) * sizeof *writes);
  bool *is_read = rt_alloc(t->mem, ir->n_packed_weights + 1);
  if (ir->n_packed_weights) cg_find_read_weights(f, target, is_read);
  for (uint32_t k = 0; k < ir->n_packed_weights; k++) {
    if (is_read[k]) reads[out->n_packed_weights++] = k;
    if (f->writes_param[ir->packed_weights[k].param]) writes[out->n_writes_weights++] = k;
  }
  out->packed_weights = reads, out->writes_weights = writes;
}

static void fill_uses(Tables *t, const Fn *f, RtFunction *out) {
  uint32_t n = t->ir->n_params;
  bool *is_used = rt_alloc(t->mem, n + 1);
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_ins(f, v)->op == OP_param) is_used[ir_attr_int(f, v, KEY_param, 0)] = true;
  RtParamUse *uses = rt_alloc(t->mem, (n + 1) * sizeof *uses);
  for (uint32_t k = 0; k < n; k++)
    if (is_used[k]) uses[out->n_uses++] = (RtParamUse){k, f->writes_param[k]};
  out->uses = uses;
}

static void fill_variants(Tables *t, const tn_program *p, uint32_t of, RtFunction *out) {
  RtVariant *list = rt_alloc(t->mem, (p->n_variants + 1) * sizeof *list);
  for (uint32_t k = 0; k < p->n_variants; k++) {
    const FeVariant *v = &p->variants[k];
    if (v->of != of) continue;
    RtFit *fits = rt_alloc(t->mem, (v->n_fits + 1) * sizeof *fits);
    for (uint32_t j = 0; j < v->n_fits; j++)
      fits[j] = (RtFit){(uint32_t)ir_dim_info(t->ir, v->fits[j].dim)->slot, v->fits[j].fit};
    list[out->n_variants++] = (RtVariant){.fits = fits,
                                          .n_fits = v->n_fits,
                                          .arena_bytes = v->ir->stats.peak_bytes,
                                          .guarded_arena = ir_guarded_arena(v->ir, t->mem),
                                          .max_workers = cg_max_workers(v->ir)};
  }
  out->variants = list;
}

static void fill_packed_check(Tables *t, const Prog *p, const InputCheck *c, RtCheck *out) {
  out->is_packed = true, out->time_major = c->time_major;
  out->batch = row_of(t, c->batch), out->time = row_of(t, c->time);
  out->row = c->row;
  out->of_input = c->of_input;
  if (!c->has_lengths) return;
  uint32_t n = ir_rank(p, c->lengths);
  int64_t *lengths = rt_alloc(t->mem, (n + 1) * sizeof *lengths);
  for (uint32_t k = 0; k < n; k++) lengths[k] = ir_list_at(p, c->lengths, k);
  out->lengths = lengths;
}

static bool only_reads(const Fn *f) {
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    if (ir_attr(f, v, KEY_id) || ir_writes_param(f, v)) return false;
    if (ir_ins(f, v)->op == OP_scan && !only_reads(ir_scan_at(f, v).body)) return false;
  }
  return true;
}

static void fill_size_checks(Tables *t, const Fn *f, RtFunction *out) {
  RtSizeCheck *list = rt_alloc(t->mem, (f->n_size_checks + 1) * sizeof *list);
  for (uint32_t k = 0; k < f->n_size_checks; k++)
    list[k] = (RtSizeCheck){row_of(t, f->size_checks[k].dim), rt_strdup(t->mem, f->size_checks[k].what)};
  out->size_checks = list, out->n_size_checks = f->n_size_checks;
}

// built: as the caller knows it
static RtFunction function_of(Tables *t, const Fn *f, const Fn *built) {
  RtFunction out = {.name = keep(t, f->name),
                    .n_checks = f->n_checks,
                    .arena_bytes = f->stats.peak_bytes,
                    .guarded_arena = ir_guarded_arena(f, t->mem),
                    .max_workers = cg_max_workers(f)};
  RtCheck *checks = rt_alloc(t->mem, (f->n_checks + 1) * sizeof *checks);
  for (uint32_t k = 0; k < f->n_checks; k++) {
    const InputCheck *c = &f->checks[k];
    checks[k] = (RtCheck){.input = c->input,
                          .lo = c->lo,
                          .hi = row_of(t, c->hi),
                          .is_inclusive = c->incl,
                          .is_sorted = c->sorted,
                          .has_sum = c->has_sum,
                          .is_exact = c->exact_sum,
                          .sum = c->has_sum ? row_of(t, c->sum) : 0,
                          .what = rt_strdup(t->mem, c->what),
                          .has_other = c->has_other,
                          .other = c->other,
                          .group = c->group,
                          .first = c->first,
                          .size = c->size};
    if (c->is_packed) fill_packed_check(t, f->prog, c, &checks[k]);
  }
  out.checks = checks;
  fill_size_checks(t, f, &out);
  out.only_reads = only_reads(f);
  fill_ports(t, built, &out);
  fill_packs(t, f, &out);
  fill_uses(t, f, &out);
  return out;
}

static RtParam param_of(Tables *t, const Param *q) {
  RtParam out = {.path = keep(t, q->path),
                 .n_aliases = q->n_aliases,
                 .kind = q->kind,
                 .dtype = dtype_of(q->dtype),
                 .rank = ir_rank(t->ir, q->shape),
                 .offset = q->offset,
                 .bytes = ir_type_bytes(t->ir, q->dtype, q->shape)};
  const char **aliases = rt_alloc(t->mem, (q->n_aliases + 1) * sizeof *aliases);
  for (uint32_t k = 0; k < q->n_aliases; k++) aliases[k] = keep(t, q->aliases[k]);
  for (uint32_t k = 0; k < out.rank; k++) out.dims[k] = ir_list_at(t->ir, q->shape, k);
  out.aliases = aliases;
  const char *file = ir_loc_file(t->ir, q->loc);
  if (file) out.file = rt_strdup(t->mem, file), out.line = ir_loc_line(t->ir, q->loc);
  return out;
}

static tn_plan stats_of(const Prog *ir, const Fn *f) {
  const PlanStats *s = &f->stats;
  uint32_t n_again = 0;
  double again_flops = 0;
  for (uint32_t k = 0; k < f->n_kernels; k++)
    if (f->kernels[k].again) n_again++, again_flops += ir_kernel_flops(f, &f->kernels[k]);
  return (tn_plan){.n_kernels = s->n_kernels,
                   .n_inplace = s->n_inplace,
                   .n_copies = s->n_copies,
                   .copy_bytes = s->copy_bytes,
                   .peak_bytes = s->peak_bytes,
                   .lower_bound = s->lower_bound,
                   .order_bound = s->order_bound,
                   .param_bytes = ir->param_bytes,
                   .const_bytes = ir->const_bytes,
                   .packed_bytes = ir->packed_bytes,
                   .flops = ir_fn_flops(f) - again_flops,
                   .least_bytes = fe_least_bytes(f),
                   .n_again = n_again,
                   .again_flops = again_flops};
}

static void keep_variants(tn_program *p, FeJitCode *c) {
  tn_plan *stats = rt_alloc(c->mem, (p->n_variants + 1) * sizeof *stats);
  for (uint32_t k = 0; k < p->n_variants; k++) stats[k] = stats_of(p->ir, p->variants[k].ir);
  c->code.variant_stats = stats;
  c->code.info.n_variants = p->n_variants;
  c->code.bounds = fe_bounds(&c->plan, c->mem);
}

static void keep_hypers(const Prog *ir, FeJitCode *c) {
  RtHyper *hypers = rt_alloc(c->mem, (ir->n_params + 1) * sizeof *hypers);
  uint32_t n = 0;
  for (uint32_t k = 0; k < ir->n_params; k++) {
    const Param *q = &ir->params[k];
    if (q->is_hyper) hypers[n++] = (RtHyper){k, q->group, q->hyper};
  }
  c->plan.hypers = hypers, c->plan.n_hypers = n;
}

static void keep_cache_writes(const tn_program *p, FeJitCode *c) {
  RtCacheWrite *list = rt_alloc(c->mem, (p->n_cache_writes + 1) * sizeof *list);
  for (uint32_t k = 0; k < p->n_cache_writes; k++) {
    const FeCacheWrite *w = &p->cache_writes[k];
    RtText place = {.mem = c->mem};
    ir_loc_text(p->ir, w->loc, &place);
    list[k] = (RtCacheWrite){rt_strdup(c->mem, w->function->name), place.text ? place.text : "an unknown line",
                             ir_loc_line(p->ir, w->loc), w->steps};
  }
  c->code.cache_writes = list, c->code.n_cache_writes = p->n_cache_writes;
}

void fe_plan(tn_program *p, FeJitCode *c) {
  Prog *ir = p->ir;
  Tables t = {.ir = ir, .mem = c->mem};
  RtFunction *fns = rt_alloc(c->mem, p->n_built * sizeof *fns);
  RtParam *params = rt_alloc(c->mem, (ir->n_params + 1) * sizeof *params);
  RtSlot *slots = rt_alloc(c->mem, (ir->n_syms + 1) * sizeof *slots);
  RtPackedWeight *packs = rt_alloc(c->mem, (ir->n_packed_weights + 1) * sizeof *packs);
  tn_plan *stats = rt_alloc(c->mem, p->n_built * sizeof *stats);
  FeBytesMoved *moved = rt_alloc(c->mem, p->n_built * sizeof *moved);
  for (uint32_t k = 0; k < ir->n_syms; k++) {
    const DimInfo *d = ir_dim_info(ir, ir->syms[k]);
    slots[k] = (RtSlot){keep(&t, d->name), d->value};
  }
  for (uint32_t k = 0; k < ir->n_params; k++) params[k] = param_of(&t, &ir->params[k]);
  for (uint32_t k = 0; k < ir->n_packed_weights; k++)
    packs[k] = (RtPackedWeight){ir->packed_weights[k].param, ir->packed_weights[k].offset, ir->packed_weights[k].bytes};
  c->plan.init = RT_NO_FUNCTION;
  for (uint32_t k = 0; k < p->n_built; k++) {
    const Sharded *sharded = ir_sharded(ir, k);
    fns[k] = function_of(&t, ir->fns[k], sharded ? sharded->built : ir->fns[k]);
    fill_variants(&t, p, k, &fns[k]);
    stats[k] = stats_of(ir, ir->fns[k]);
    fe_bytes_moved(ir->fns[k], c->mem, &moved[k]);
    if (ir->fns[k] == p->init) c->plan.init = k;
  }
  fe_plan_shards(p, c, fns);
  fe_plan_probes(p, c, fns);
  c->plan.slots = slots, c->plan.n_slots = ir->n_syms;
  c->plan.dims = t.rows, c->plan.n_dims = t.n;
  c->plan.functions = fns, c->plan.n_functions = p->n_built;
  c->plan.params = params, c->plan.n_params = ir->n_params;
  c->plan.param_bytes = ir->param_bytes;
  c->plan.packed_weights = packs, c->plan.n_packed_weights = ir->n_packed_weights;
  c->plan.packed_bytes = ir->packed_bytes;
  c->plan.sgemm = cg_sgemm;
  c->code.worker_bytes = ((const Target *)ir->scratch_ctx)->worker_bytes;
  c->code.stats = stats, c->code.bytes_moved = moved;
  keep_hypers(ir, c);
  keep_cache_writes(p, c);
  keep_variants(p, c);
}
