// Probes: statistics of values, or the values, handed out by a twin of the function.
//
//   tn_probe(h, "hidden")             %s = concat ..          statistics of h; nothing in the function reads them
//   tn_compile                        @step                   without %s and all that was built for it
//                                     @step.probes            a copy: output %s {name="probe.hidden"}
//
// Statistics are sums and maxima of pointwise values, which fuse as any others do. What is summed is first divided by the power of
// two next below the largest magnitude, which is exact: squares of large numbers do not become infinite, nor those of small ones 0.
#include "frontend/module/probe.h"
#include "frontend/graph/inplace.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/hook.h"
#include "frontend/run/finite.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/text/text.h"
#include "runtime/format.h"
#include <math.h>
#include <string.h>

// ---- statistics of one value
typedef struct {
  tn_tensor x, finite;  // finite: 1 where it is
  tn_site at;
} Stats;

static tn_tensor number(const Stats *s, double v) { return fe_const(s->x.fn, v, s->at); }
static tn_tensor count(const Stats *s, tn_tensor mask) {
  return fe_sum(fe_cast(mask, DT_F32, s->at), NULL, 0, false, s->at);
}

static tn_tensor where_finite(const Stats *s, tn_tensor v, double other) {
  return fe_emit(OP_select, (const tn_tensor[]){s->finite, v, number(s, other)}, 3, NULL, 0, s->at);
}

static tn_tensor squares(const Stats *s, tn_tensor v) {
  return fe_sum(where_finite(s, fe_emit2(OP_mul, v, v, s->at), 0), NULL, 0, false, s->at);
}

static tn_tensor greatest(const Stats *s, tn_tensor v) {
  int64_t axes[MAX_RANK];
  uint32_t n = fe_rank(v);
  for (uint32_t k = 0; k < n; k++) axes[k] = k;
  Attr a = ir_a_list(KEY_axes, ir_shape_ints(v.fn->p->ir, axes, n));
  v = where_finite(s, v, -INFINITY);
  return n ? fe_emit(OP_amax, &v, 1, &a, 1, s->at) : v;
}

// Elements from the k-th edge on, of which there are n + 1; those at the last one are in the last bin
static tn_tensor from_edge(const Stats *s, const tn_probe_options *o, uint32_t k) {
  tn_tensor edge = number(s, o->lo + (o->hi - o->lo) * k / o->bins);
  tn_tensor is_from = fe_emit2(k < o->bins ? OP_ge : OP_gt, s->x, edge, s->at);
  return count(s, fe_emit2(OP_mul, s->finite, fe_cast(is_from, DT_F32, s->at), s->at));
}

// The power of two, or 1 where no element is finite, or all are 0
static tn_tensor scale_of(const Stats *s, tn_tensor min, tn_tensor max) {
  tn_tensor most = fe_emit2(OP_max, max, fe_emit1(OP_neg, min, s->at), s->at);
  tn_tensor power = fe_emit1(OP_exp2, fe_emit1(OP_floor, fe_emit1(OP_log2, most, s->at), s->at), s->at);
  tn_tensor is_some = fe_emit2(OP_gt, most, number(s, 0), s->at);
  return fe_emit(OP_select, (const tn_tensor[]){is_some, power, number(s, 1)}, 3, NULL, 0, s->at);
}

static tn_tensor stats_of(tn_tensor x, const tn_probe_options *o) {
  tn_program *p = x.fn->p;
  tn_site at = o->at;
  Stats s = {.x = fe_emit1(OP_stop_grad, x, at), .at = at};
  tn_tensor v[FE_PROBE_STATS + TN_PROBE_MAX_BINS];
  s.finite = fe_cast(fe_emit1(OP_isfinite, s.x, at), DT_F32, at);
  v[FE_PROBE_FINITE] = count(&s, s.finite);
  v[FE_PROBE_NAN] = count(&s, fe_emit1(OP_isnan, s.x, at));
  v[FE_PROBE_INF] = count(&s, fe_emit1(OP_isinf, s.x, at));
  v[FE_PROBE_ZERO] = count(&s, fe_emit2(OP_eq, s.x, number(&s, 0), at));
  v[FE_PROBE_MIN] = fe_emit1(OP_neg, greatest(&s, fe_emit1(OP_neg, s.x, at)), at);
  v[FE_PROBE_MAX] = greatest(&s, s.x);
  v[FE_PROBE_SCALE] = scale_of(&s, v[FE_PROBE_MIN], v[FE_PROBE_MAX]);
  tn_tensor scaled = fe_emit2(OP_div, s.x, v[FE_PROBE_SCALE], at);
  v[FE_PROBE_MEAN] = fe_emit2(OP_div, fe_sum(where_finite(&s, scaled, 0), NULL, 0, false, at), v[FE_PROBE_FINITE], at);
  v[FE_PROBE_SPREAD] = squares(&s, fe_emit2(OP_sub, scaled, v[FE_PROBE_MEAN], at));
  v[FE_PROBE_SQUARES] = squares(&s, scaled);
  tn_tensor from = o->bins ? from_edge(&s, o, 0) : TN_NONE;
  for (uint32_t k = 0; k < o->bins; k++) {
    tn_tensor next = from_edge(&s, o, k + 1);
    v[FE_PROBE_STATS + k] = fe_emit2(OP_sub, from, next, at);
    from = next;
  }
  uint32_t n = FE_PROBE_STATS + o->bins;
  for (uint32_t k = 0; k < n; k++) v[k] = fe_reshape(v[k], (const Dim[]){ir_dim(p->ir, 1)}, 1, at);
  return fe_keep(fe_concat(v, n, 0, at), at);
}

// ---- the value itself: of what is written to it later nothing is seen
static tn_tensor value_of(tn_tensor x, tn_site at) { return fe_keep(fe_emit1(OP_clone, x, at), at); }

// ---- building
static bool is_name(const char *s) {
  for (; s && *s; s++)
    if (!rt_is_alnum(*s) && *s != '_' && *s != '.') return false;
  return s && s[-1] != '.';
}

static const FeProbed *probe_named(const tn_function *f, const char *name) {
  for (uint32_t k = 0; k < f->n_probes; k++)
    if (!strcmp(f->probes[k].name, name)) return &f->probes[k];
  return NULL;
}

static bool has_probed_dtype(tn_tensor t, const tn_probe_options *o) { return o->view || fe_ins(t)->dtype == DT_F32; }

static bool check_bins(tn_program *p, const char *name, const tn_probe_options *o) {
  if (!o->bins) return true;
  if (o->view) {
    fe_error(p, E_ARGUMENT, o->at,
             "probe '%s' has %u bins and hands out the value: statistics are of a probe without .view", name, o->bins);
    return false;
  }
  bool has_range = o->lo < o->hi && fe_is_finite(o->lo) && fe_is_finite(o->hi);
  if (o->bins <= TN_PROBE_MAX_BINS && has_range) return true;
  fe_error(p, E_ARGUMENT, o->at, "probe '%s' has %u bins in [%g, %g]: at most %d, from a lower number to a higher one",
           name, o->bins, o->lo, o->hi, TN_PROBE_MAX_BINS);
  return false;
}

static bool check_probe(tn_tensor t, const char *name, const tn_probe_options *o) {
  tn_program *p = t.fn->p;
  if (!name || !*name || !is_name(name)) {
    fe_error(p, E_ARGUMENT, o->at, "a probe is named '%.80s': names are letters, digits and underscores, joined by '.'",
             name ? name : "");
    return false;
  }
  if (!has_probed_dtype(t, o)) {
    fe_error(p, E_DTYPE, o->at, "statistics of a probe are of f32 values");
    fe_note_value(t, "the value");
    fe_hint(p, "tn_probe(x, name, .view = true) shows values of any dtype");
    return false;
  }
  if (!check_bins(p, name, o)) return false;
  const FeProbed *taken = probe_named(t.fn, name);
  if (taken) return fe_unique(p, &(FeName){name, taken->loc}, "probe", name, o->at);
  return fe_outside_scan(t.fn, "tn_probe", "probe what tn_scan_output hands out", o->at);
}

void tn_probe(tn_tensor t, const char *name, tn_probe_options o) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, o.at)) return;
  FE_GUARD(f->p, );
  if (!check_probe(t, name, &o)) return;
  uint32_t first = f->ir->n_ins;
  tn_tensor seen = o.view ? value_of(t, o.at) : stats_of(t, &o);
  if (!fe_ok(seen)) return;
  *RT_PUSH(f->p->mem, f->probes, f->n_probes, f->cap_probes) =
      (FeProbed){rt_strdup(f->p->mem, name), fe_loc(f->p, o.at), fe_val(seen), first, f->ir->n_ins, o};
}

// ---- of modules
typedef struct {
  tn_probe_options o;
  const char *name;  // of a gradient
} ModuleProbe;

static const char *free_name(tn_function *f, const char *name) {
  const char *found = name;
  for (uint32_t k = 2; probe_named(f, found); k++) found = rt_printf(f->p->mem, "%s.%u", name, k);
  return found;
}

static tn_tensor probe_gradient(tn_tensor g, void *ctx) {
  const ModuleProbe *b = ctx;
  (tn_probe)(g, free_name(g.fn, b->name), b->o);
  return TN_NONE;
}

// output NULL: the only one
static void probe_output(const tn_module *m, tn_tensor v, const char *output, const ModuleProbe *b) {
  tn_program *p = m->p;
  if (!fe_ok(v) || !has_probed_dtype(v, &b->o)) return;
  const char *name = output ? rt_printf(p->mem, "%s.%s", m->path, output) : m->path;
  name = free_name(v.fn, *name ? name : "root");
  (tn_probe)(v, name, b->o);
  if (!b->o.gradients || !fe_is_tracked(v)) return;
  ModuleProbe *of_grad = rt_alloc(p->mem, sizeof *of_grad);
  *of_grad = (ModuleProbe){b->o, rt_printf(p->mem, "%s.grad", name)};
  tn_hook *h = (tn_on_grad)(v, probe_gradient, of_grad, (tn_hook_options){.at = b->o.at});
  if (h) h->fired = true;  // without a gradient there is no probe, and nothing to report
}

static tn_values probe_outputs(tn_module *m, tn_values in, tn_values out, void *ctx) {
  (void)in;
  for (uint32_t k = 0; k < out.n; k++) probe_output(m, out.v[k], out.n > 1 ? out.names[k] : NULL, ctx);
  return TN_KEEP;
}

static tn_rnn_output probe_rnn_outputs(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx) {
  (void)in;
  probe_output(m, out.out.data.fn ? out.out.data : out.dense, "output", ctx);
  probe_output(m, out.hidden, "hidden", ctx);
  if (out.cell.fn) probe_output(m, out.cell, "cell", ctx);
  return out;
}

tn_hook *tn_probe_modules(tn_module *m, const char *pattern, tn_probe_options o) {
  if (!m) return NULL;
  FE_GUARD(m->p, NULL);
  ModuleProbe *b = rt_alloc(m->p->mem, sizeof *b);
  b->o = o;
  return fe_hook_add(m, (tn_hook){.values_post = probe_outputs, .rnn_post = probe_rnn_outputs, .ctx = b},
                     (tn_hook_options){.pattern = pattern ? pattern : "**", .at = o.at});
}

// ---- compiling: values are told by their origins, since merged counters (counters.c) may have moved them,
// and stand in their order
static void take_out(tn_function *f) {
  Rewrite e;
  uint32_t probe = 0;
  ir_rewrite_begin(&e, f->ir);
  for (uint32_t i = 1; i < e.n_old; i++) {
    uint32_t origin = e.old[i].origin;
    while (probe < f->n_probes && origin >= f->probes[probe].end) probe++;
    bool is_ours = probe < f->n_probes && origin >= f->probes[probe].first;
    if (e.old[i].op != OP_result && !is_ours) ir_rewrite_copy(&e, (Val){i});
  }
  ir_rewrite_end(&e);
}

// By origin, of which no pass has made two values yet.
static Val *values_of_origins(tn_program *p, const Fn *f, uint32_t n_origins) {
  Val *now = rt_alloc(p->mem, n_origins * sizeof *now);
  for (uint32_t v = 1; v < f->n_ins; v++)
    if (f->ins[v].origin < n_origins) now[f->ins[v].origin] = (Val){v};
  return now;
}

static void hand_out(tn_program *p, const tn_function *f, Fn *twin) {
  const Val *now = values_of_origins(p, twin, f->probes[f->n_probes - 1].end);
  for (uint32_t k = 0; k < f->n_probes; k++) {
    const FeProbed *b = &f->probes[k];
    Attr a[2] = {ir_a_str(KEY_name, ir_str(p->ir, rt_printf(p->mem, "probe.%s", b->name))),
                 ir_a_int(KEY_index, twin->n_outputs)};
    ir_emit(twin, OP_output, &now[b->seen.i], 1, a, 2, b->loc);
  }
}

// What a distributed function has is refused where it is cut (compile/shards.c).
static bool has_twin(const tn_function *f) { return f->n_probes && ir_none(ir_find_shard_mean(f->ir)); }

void fe_probe_twins(tn_program *p) {
  uint32_t n = p->n_built, more = 0;
  for (tn_function *f = p->first; f; f = f->next) more += has_twin(f);
  if (!more || p->is_text) return;
  const char **texts = rt_alloc(p->mem, (n + more) * sizeof *texts);
  memcpy(texts, p->built_fn, n * sizeof *texts);
  for (tn_function *f = p->first; f; f = f->next) {
    if (!has_twin(f)) continue;
    Fn *twin = ir_fn_copy(f->ir, rt_printf(p->mem, "%s.probes", f->name));
    twin->cur_scope = 0;
    hand_out(p, f, twin);
    take_out(f);
    RtText text = {.mem = p->mem};
    ir_print_fn(twin, &text, PRINT_LOCS | PRINT_BY_NUMBER);
    texts[p->n_built++] = text.text;
  }
  p->built_fn = texts;
}

static uint32_t index_of(const Prog *p, const char *name) {
  uint32_t k = 0;
  while (k < p->n_fns && strcmp(ir_text(p, p->fns[k]->name), name)) k++;
  return k;
}

void fe_plan_probes(tn_program *p, FeJitCode *c, RtFunction *functions) {
  uint32_t n = 0;
  for (tn_function *f = p->first; f; f = f->next) n += f->n_probes;
  FeProbe *list = rt_alloc(c->mem, (n + 1) * sizeof *list);
  n = 0;
  for (tn_function *f = p->first; f && p->n_built > 0; f = f->next)
    for (uint32_t k = 0; k < f->n_probes; k++) {
      const FeProbed *b = &f->probes[k];
      uint32_t twin = index_of(p->ir, rt_printf(p->mem, "%s.probes", f->name));
      if (twin >= p->n_built) continue;                                 // of a bundle
      functions[twin].name = functions[index_of(p->ir, f->name)].name;  // reports of runs name what the caller ran
      const char *file = ir_loc_file(p->ir, b->loc);
      list[n++] = (FeProbe){.name = rt_strdup(c->mem, b->name),
                            .output = rt_printf(c->mem, "probe.%s", b->name),
                            .file = file ? rt_strdup(c->mem, file) : NULL,
                            .line = ir_loc_line(p->ir, b->loc),
                            .function = index_of(p->ir, f->name),
                            .twin = twin,
                            .n_bins = b->o.bins,
                            .is_view = b->o.view,
                            .lo = b->o.lo,
                            .hi = b->o.hi};
    }
  c->code.probes = list, c->code.n_probes = n;
}
