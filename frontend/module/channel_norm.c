// Norms of channels: batch norm, instance norm, group norm. x is [N, C, ..]; the rows of a packed batch are [rows, C].
//
//   training:    y = (x - mean) / sqrt(variance + eps) weight + bias, over the batch
//                running_mean = (1 - momentum) running_mean + momentum mean, likewise the unbiased variance
//   evaluation:  the same with the running statistics
//
// What is over one sample is a layer norm after a reshape, which is free. Statistics over the batch are two reductions.
#include "frontend/graph/inplace.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/reduce.h"
#include "frontend/graph/report.h"
#include "frontend/module/layers.h"
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "frontend/packed/packed.h"

#include <float.h>

// ---- making
static bool check_channels(tn_module *m, int64_t channels, int64_t groups, double momentum, tn_site at) {
  const int64_t most = INT64_C(1) << 30;
  if (m->poisoned) return false;
  m->poisoned = true;
  if (channels < 1 || channels > most || groups < 1 || channels % groups)
    fe_error(m->p, E_ARGUMENT, at,
             "module '%s' has %lld channels in %lld groups: a multiple of the groups in [1, 2^30]", m->path,
             (long long)channels, (long long)groups);
  else if (!(momentum >= 0 && momentum <= 1))
    fe_error(m->p, E_ARGUMENT, at, "module '%s' takes a momentum in [0, 1], not %g", m->path, momentum);
  else m->poisoned = !fe_check_eps(m->p, m->path, m->config.eps, at);
  return !m->poisoned;
}

typedef struct {
  double eps, momentum;  // 0: the default
  bool has_weight, has_bias, has_running, is_cumulative;
  FeForward *forward;
  const char *kind;
  tn_site at;
} Plan;

static void add_entries(tn_module *m, int64_t channels, const Plan *plan) {
  const tn_init zeros = {TN_INIT_ZEROS, 0, 0}, ones = {TN_INIT_CONSTANT, 1, 0};
  if (plan->has_weight) fe_module_param(m, "weight", &channels, 1, ones, plan->at);
  if (plan->has_bias) fe_module_param(m, "bias", &channels, 1, zeros, plan->at);
  if (!plan->has_running) return;
  fe_module_buffer(m, "running_mean", PARAM_BUFFER, DT_F32, &channels, zeros, plan->at);
  fe_module_buffer(m, "running_var", PARAM_BUFFER, DT_F32, &channels, ones, plan->at);
  fe_module_buffer(m, "num_batches_tracked", PARAM_BUFFER, DT_I64, NULL, zeros, plan->at);
}

static tn_module *make(tn_module *parent, const char *name, int64_t channels, int64_t groups, const Plan *plan) {
  if (!parent) return NULL;
  FE_GUARD(parent->p, NULL);
  tn_module *m = fe_module(parent, name, MOD_BUILT_IN, plan->at);
  m->config.forward = plan->forward, m->config.built_in = plan->kind;
  m->config.in = channels, m->config.n_groups = groups;
  m->config.eps = plan->eps != 0 ? plan->eps : 1e-5;
  m->config.momentum = plan->momentum != 0 ? plan->momentum : 0.1;
  m->config.has_running = plan->has_running, m->config.is_cumulative = plan->is_cumulative;
  if (check_channels(m, channels, groups, m->config.momentum, plan->at)) add_entries(m, channels, plan);
  return m;
}

// ---- what the calls share
typedef struct {
  tn_module *m;
  tn_tensor x;  // [N, C, ..]
  uint32_t rank;
  tn_site at;
} Call;

static tn_tensor op1(const Call *c, Op op, tn_tensor a) { return fe_emit1(op, a, c->at); }
static tn_tensor op2(const Call *c, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, c->at); }
static tn_tensor number(const Call *c, double v) { return fe_const(c->x.fn, v, c->at); }

static tn_tensor value_of(const Call *c, const char *name) {
  const FeEntry *e = fe_entry(c->m, name);
  return e ? fe_read(c->x.fn, e->param, c->at) : (tn_tensor){0};
}

static bool check_value(const Call *c, uint32_t least_rank) {
  const tn_module *m = c->m;
  if (c->rank >= least_rank && ir_list_at(m->p->ir, fe_shape_of(c->x), 1) == m->config.in) return true;
  fe_error(m->p, E_SHAPE, c->at, "module '%s' takes [N,%lld%s], not %s", m->path, (long long)m->config.in,
           least_rank > 2 ? ",L" : ",..", fe_type_text(c->x));
  fe_note_value(c->x, "the value");
  return false;
}

// [C] beside [N, C, ..]
static tn_tensor beside(const Call *c, tn_tensor v) {
  Prog *p = c->m->p->ir;
  if (c->rank == 2 || !fe_ok(v)) return v;
  Dim d[MAX_RANK] = {fe_axis_dim(v, 0)};
  for (uint32_t k = 1; k < c->rank - 1; k++) d[k] = ir_dim(p, 1);
  return fe_reshape(v, d, c->rank - 1, c->at);
}

static tn_tensor scale_and_shift(const Call *c, tn_tensor y) {
  tn_tensor weight = value_of(c, "weight"), bias = value_of(c, "bias");
  if (weight.fn) y = op2(c, OP_mul, y, beside(c, weight));
  return bias.fn ? op2(c, OP_add, y, beside(c, bias)) : y;
}

// By channel: what a centered value is multiplied by.
static tn_tensor scale_of(const Call *c, tn_tensor variance) {
  tn_tensor scale = op1(c, OP_rsqrt, op2(c, OP_add, variance, number(c, c->m->config.eps)));
  tn_tensor weight = value_of(c, "weight");
  return weight.fn ? op2(c, OP_mul, scale, weight) : scale;
}

static tn_tensor by_running_statistics(const Call *c) {
  tn_tensor mean = value_of(c, "running_mean"), scale = scale_of(c, value_of(c, "running_var"));
  tn_tensor y = op2(c, OP_mul, op2(c, OP_sub, c->x, beside(c, mean)), beside(c, scale)), bias = value_of(c, "bias");
  return bias.fn ? op2(c, OP_add, y, beside(c, bias)) : y;
}

// ---- running statistics
// So many values have one mean.
static Dim count_over(const Call *c, bool with_batch) {
  Prog *p = c->m->p->ir;
  Dim n = with_batch ? fe_axis_dim(c->x, 0) : ir_dim(p, 1);
  for (uint32_t k = 2; k < c->rank; k++) n = ir_dim_mul(p, n, fe_axis_dim(c->x, k));
  return n;
}

// Mean over axis 0, where it has one, and over axes 2 and behind. Of no values it is 0: with NaN the gradients of the
// parameters of an empty batch, sums of nothing, were NaN, too.
static tn_tensor mean_over(const Call *c, tn_tensor v, bool with_batch) {
  int axes[MAX_RANK];
  uint32_t n = 0;
  for (uint32_t k = with_batch ? 0 : 2; k < c->rank; k += k ? 1 : 2) axes[n++] = (int)k;
  if (!n) return v;
  Dim count = count_over(c, with_batch);
  bool is_some = ir_dim_is_const(c->m->p->ir, count) && ir_dim_info(c->m->p->ir, count)->value > 0;
  if (is_some) return fe_mean(v, axes, n, false, c->at);
  tn_tensor size = op2(c, OP_max, fe_size(c->x.fn, count, c->at), number(c, 1));
  tn_tensor total = fe_sum(v, axes, n, false, c->at);
  return fe_ok(total) ? op2(c, OP_div, total, size) : total;
}

// A single value has no variance to divide by n - 1.
static bool check_count(const Call *c, bool with_batch) {
  Prog *p = c->m->p->ir;
  Dim n = count_over(c, with_batch);
  if (!ir_dim_is_const(p, n) || ir_dim_info(p, n)->value != 1) return true;
  fe_error(c->m->p, E_SHAPE, c->at, "module '%s' normalizes over one value for each channel: training needs two",
           c->m->path);
  fe_note_value(c->x, "the value");
  return false;
}

// n / (n - 1); 1 for a batch that has a single value at run time, whose variance is 0 either way.
static tn_tensor unbiased(const Call *c, tn_tensor variance, bool with_batch) {
  tn_tensor n = fe_size(c->x.fn, count_over(c, with_batch), c->at);
  tn_tensor rest = op2(c, OP_max, op2(c, OP_sub, n, number(c, 1)), number(c, 1));
  return op2(c, OP_mul, variance, op2(c, OP_div, n, rest));
}

static void write(const Call *c, const char *name, tn_tensor content) {
  tn_tensor buffer = fe_use(c->x.fn, fe_entry(c->m, name)->param, c->at);
  fe_copy_in(buffer, op1(c, OP_stop_grad, content), "tn_call", c->at);
}

// The share of the new statistics; counts the batch.
static tn_tensor next_share(const Call *c) {
  tn_tensor counter = value_of(c, "num_batches_tracked");
  tn_tensor n = op2(c, OP_add, fe_cast(counter, DT_F32, c->at), number(c, 1));
  write(c, "num_batches_tracked", n);
  return c->m->config.is_cumulative ? op2(c, OP_div, number(c, 1), n) : number(c, c->m->config.momentum);
}

// v, or 0 where the batch has no values: statistics that are NaN then, and their share.
static tn_tensor where_any(const Call *c, tn_tensor v) {
  Prog *p = c->m->p->ir;
  Dim n = count_over(c, true);
  if (ir_dim_is_const(p, n)) return ir_dim_info(p, n)->value ? v : number(c, 0);
  if (!fe_ok(v)) return v;
  tn_tensor is_any = op2(c, OP_gt, fe_size(c->x.fn, n, c->at), number(c, 0));
  return fe_emit(OP_select, (const tn_tensor[]){is_any, v, number(c, 0)}, 3, NULL, 0, c->at);
}

// Of a batch in shards they are the mean of what each shard makes of them.
static void update(const Call *c, const char *name, tn_tensor now, tn_tensor share) {
  tn_function *f = c->x.fn;
  tn_tensor old = value_of(c, name);
  now = where_any(c, now), share = where_any(c, share);
  tn_tensor kept = op2(c, OP_mul, old, op2(c, OP_sub, number(c, 1), share));
  write(c, name, fe_shard_mean(op2(c, OP_add, kept, op2(c, OP_mul, now, share)), false, c->at));
  if (!f->shards && !f->running.i) f->running = fe_loc(f->p, c->at);
}

// mean, variance: [C]
static void track(const Call *c, tn_tensor mean, tn_tensor unbiased_variance, tn_tensor share) {
  update(c, "running_mean", mean, share);
  update(c, "running_var", unbiased_variance, share);
}

// ---- batch norm
// The variance, and the mean of what was centered, which is what rounding left of it: any number would do in the place of
// the mean that is subtracted, so that it has no gradient, and that of x is made of sums by channel that others need, too.
// Where squares overflow the variance is infinite, y the bias: the square of that mean stays finite.
static tn_tensor batch_norm(tn_module *m, tn_tensor x, tn_site at) {
  Call c = {m, x, fe_rank(x), at};
  bool is_training = !fe_eval(x.fn, at);
  if (!check_value(&c, 2)) return fe_poison(x.fn);
  if (!is_training && m->config.has_running) return by_running_statistics(&c);
  if (is_training && !check_count(&c, true)) return fe_poison(x.fn);
  tn_tensor mean = op1(&c, OP_stop_grad, mean_over(&c, x, true));
  tn_tensor apart = op2(&c, OP_sub, x, beside(&c, mean)), rest = mean_over(&c, apart, true);
  tn_tensor square = mean_over(&c, op1(&c, OP_square, apart), true);
  tn_tensor left = op2(&c, OP_clamp_max, op1(&c, OP_square, rest), number(&c, (double)FLT_MAX));
  tn_tensor variance = op2(&c, OP_clamp_min, op2(&c, OP_sub, square, left), number(&c, 0));
  if (is_training && m->config.has_running)
    track(&c, op2(&c, OP_add, mean, rest), unbiased(&c, variance, true), next_share(&c));
  tn_tensor scale = scale_of(&c, variance), bias = value_of(&c, "bias");
  tn_tensor shift = op2(&c, OP_mul, rest, scale), y = op2(&c, OP_mul, apart, beside(&c, scale));
  return bias.fn ? op2(&c, OP_add, y, beside(&c, op2(&c, OP_sub, bias, shift))) : op2(&c, OP_sub, y, beside(&c, shift));
}

tn_module *tn_batch_norm(tn_module *parent, const char *name, int64_t channels, tn_batch_norm_options o) {
  Plan plan = {.eps = o.eps,
               .momentum = o.momentum,
               .has_weight = !o.no_affine,
               .has_bias = !o.no_affine && !o.no_bias,
               .has_running = !o.no_running_stats,
               .is_cumulative = o.cumulative,
               .forward = batch_norm,
               .kind = "BatchNorm",
               .at = o.at};
  return make(parent, name, channels, 1, &plan);
}

// ---- instance norm
// As PyTorch's, it counts no batches.
static void track_instances(const Call *c) {
  tn_tensor mean = mean_over(c, c->x, false);  // [N, C]
  Dim d[MAX_RANK] = {fe_axis_dim(mean, 0), fe_axis_dim(mean, 1)};
  for (uint32_t k = 2; k < c->rank; k++) d[k] = ir_dim(c->m->p->ir, 1);
  tn_tensor apart = op2(c, OP_sub, c->x, fe_reshape(mean, d, c->rank, c->at));
  tn_tensor variance = unbiased(c, mean_over(c, op1(c, OP_square, apart), false), false);
  const int batch = 0;
  mean = fe_mean(mean, &batch, 1, false, c->at);
  track(c, mean, fe_mean(variance, &batch, 1, false, c->at), number(c, c->m->config.momentum));
}

static tn_tensor instance_norm_of(const Call *c) {
  bool is_training = !fe_eval(c->x.fn, c->at), has_running = c->m->config.has_running;
  if (!is_training && has_running) return by_running_statistics(c);
  if (is_training && !check_count(c, false)) return fe_poison(c->x.fn);
  if (is_training && has_running) track_instances(c);
  return scale_and_shift(c, fe_normalize(c->m, c->x, c->rank - 2, c->at));
}

// ---- of each sequence of packed rows [rows, C]
static tn_tensor on_rows(const Call *c, tn_tensor v) {
  return fe_on_rows((tn_tensor){v.fn, fe_rows_of(c->x)}, v, c->at);
}

// [B, C]: sums over the steps of each sequence, of an empty one 0, by their number [B, 1]
static tn_tensor sequence_means(const Call *c, tn_tensor v, tn_tensor n) {
  tn_tensor layout = {v.fn, fe_rows_of(c->x)};
  return op2(c, OP_div, op2(c, OP_seq_sum, v, layout), op2(c, OP_max, n, number(c, 1)));
}

// Means over the sequences that have steps
static void track_sequences(const Call *c, tn_tensor mean, tn_tensor variance, tn_tensor n) {
  const int batch = 0;
  tn_tensor one = number(c, 1), rest = op2(c, OP_max, op2(c, OP_sub, n, one), one);
  tn_tensor count = op2(c, OP_max, fe_sum(op2(c, OP_min, n, one), NULL, 0, false, c->at), one), of[2];
  variance = op2(c, OP_mul, variance, op2(c, OP_div, n, rest));
  of[0] = op2(c, OP_div, fe_sum(mean, &batch, 1, false, c->at), count);
  of[1] = op2(c, OP_div, fe_sum(variance, &batch, 1, false, c->at), count);
  track(c, of[0], of[1], number(c, c->m->config.momentum));
}

static tn_tensor norm_of_sequences(const Call *c) {
  tn_tensor layout = {c->x.fn, fe_rows_of(c->x)};
  bool is_training = !fe_eval(c->x.fn, c->at), has_running = c->m->config.has_running;
  if (!is_training && has_running) return by_running_statistics(c);
  tn_tensor n = fe_as_column(fe_cast(fe_layout_part(layout, "lengths", c->at), DT_F32, c->at), 2, c->at);
  if (!fe_ok(n)) return n;
  tn_tensor mean = sequence_means(c, c->x, n), apart = op2(c, OP_sub, c->x, on_rows(c, mean));
  tn_tensor variance = sequence_means(c, op1(c, OP_square, apart), n);
  if (is_training && has_running) track_sequences(c, mean, variance, n);
  tn_tensor scale = op1(c, OP_rsqrt, op2(c, OP_add, variance, number(c, c->m->config.eps)));
  return scale_and_shift(c, op2(c, OP_mul, apart, on_rows(c, scale)));
}

// [C, L] is one sample.
static tn_tensor instance_norm(tn_module *m, tn_tensor x, tn_site at) {
  Call c = {m, x, fe_rank(x), at};
  if (c.rank == 2 && fe_rows_of(x)) return check_value(&c, 2) ? norm_of_sequences(&c) : fe_poison(x.fn);
  if (c.rank != 2) return check_value(&c, 3) ? instance_norm_of(&c) : fe_poison(x.fn);
  Dim d[] = {ir_dim(m->p->ir, 1), fe_axis_dim(x, 0), fe_axis_dim(x, 1)};
  c.x = fe_reshape(x, d, c.rank = 3, at);
  if (!fe_ok(c.x) || !check_value(&c, 3)) return fe_poison(x.fn);
  tn_tensor y = instance_norm_of(&c);
  return fe_ok(y) ? fe_reshape(y, d + 1, 2, at) : y;
}

tn_module *tn_instance_norm(tn_module *parent, const char *name, int64_t channels, tn_instance_norm_options o) {
  Plan plan = {.eps = o.eps,
               .momentum = o.momentum,
               .has_weight = o.affine,
               .has_bias = o.affine && !o.no_bias,
               .has_running = o.running_stats,
               .forward = instance_norm,
               .kind = "InstanceNorm",
               .at = o.at};
  return make(parent, name, channels, 1, &plan);
}

// ---- group norm
static tn_tensor group_norm(tn_module *m, tn_tensor x, tn_site at) {
  Call c = {m, x, fe_rank(x), at};
  if (!check_value(&c, 2)) return fe_poison(x.fn);
  Prog *p = m->p->ir;
  Dim d[MAX_RANK], size = ir_dim(p, m->config.in / m->config.n_groups);
  for (uint32_t k = 0; k < c.rank; k++) d[k] = fe_axis_dim(x, k);
  for (uint32_t k = 2; k < c.rank; k++) size = ir_dim_mul(p, size, d[k]);
  tn_tensor groups = fe_reshape(x, (Dim[]){d[0], ir_dim(p, m->config.n_groups), size}, 3, at);
  tn_tensor y = fe_normalize(m, groups, 1, at);
  return fe_ok(y) ? scale_and_shift(&c, fe_reshape(y, d, c.rank, at)) : y;
}

tn_module *tn_group_norm(tn_module *parent, const char *name, int64_t groups, int64_t channels, tn_norm_options o) {
  Plan plan = {.eps = o.eps,
               .has_weight = !o.no_weight,
               .has_bias = !o.no_weight && !o.no_bias,
               .forward = group_norm,
               .kind = "GroupNorm",
               .at = o.at};
  return make(parent, name, channels, groups, &plan);
}
