// Pass split_shards: cuts a distributed function at its means over shards (docs/distributed.md).
//
//   func @step(%x: f32[batch,8]) {                     func @step(%x: f32[batch,8]) {           once for each shard
//     ..                                                 ..
//     %m = shard_mean %g, %n {dim=batch, shards=8}       output %n {name="sum 0"}
//     %w1 = sgd %w, %m, ..                               output select(%n > 0, %g * %n, 0) {name="sum 1"}
//   }                                              ->  }
//                                                      func @step.update(%0 "sum 0", %1 "sum 1") {   once, of the sums
//                                                        %m = %1 * (1 / %0)           {empty}: select(%0 == 0, 0, 1 / %0)
//                                                        %w1 = sgd %w, %m, ..
//                                                      }
//
// What each shard computes is all that the means and the outputs with a row for each of the batch are made of; the rest is the
// update. A value that both parts want is computed in both, unless it differs between shards: then there is no such cut
// (E129). An output that is one f32 number of a shard is taken for its mean.
//
// Where nothing but updates by element and norms are made of a mean (split_owned.c), what is kept of them takes the range of
// elements that the process owns, `owned K` of `sum K`, and so do norms, whose other parts come by exchange:
//
//   %n = global_norm %m                                    %n = mul (global_norm %1, %owned {exchange=0}), 1 / %0
//   %w1 = sgd %w, %m * %c, ..                          ->  %w1 = sgd %w, %1 * (1 / %0 * %c), .. owned=%owned
//   %e1 = assign %e, (%e + %w1) / 2                        %e1 = assign %e, (%e + %w1) / 2, owned=%owned
//
// What a norm is made of and each process has whole is of all elements: `owned N`, behind the last sum.
//
// Such sums have {bucket_bytes}, the others 0: pass exchange makes buckets of them.
//
// Where nothing counts, means are 0 / 0. One that is {empty}, as a gradient is, is 0 then. Any other stays NaN in what is handed out;
// what would be written to state with it, the state keeps: `assign %k, select(%0 == 0, %k, %m)`, and an optimizer takes 0 for it.
//
// Relies on pure SSA: it stands behind pass grad.
#include "ir/passes/lowering/split_shards.h"
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include "ir/text/text.h"

typedef struct {
  Fn *f;
  Prog *p;
  Dim batch;
  Val count;       // the weight of a shard
  bool *of_shard;  // by value: differs between shards
  bool *in_shard, *in_update;
  bool *is_averaged;  // by value: an output that becomes a mean
  bool *is_sized;     // by slot of a dim: the batch, or a size that the run derives from it
  uint32_t *sum_of;   // by value: the number of its weighted sum; 0: none
  Val *sums;          // by number: the summed value, the count first
  uint32_t n_sums, cap_sums;
  Val *mean_of;    // by value: the mean whose parts it is made of; none: it is computed whole (split_owned.c)
  bool *is_owned;  // by number of a sum: of such a mean
  int64_t bucket_bytes;
} Split;

static bool report(const Split *s, Val at, const char *what, const char *hint) {
  RtDiags *d = &s->p->diags;
  Loc loc = ir_ins(s->f, at)->loc;
  rt_diag(d, RT_ERROR, E_OF_SHARD, ir_loc_file(s->p, loc), ir_loc_line(s->p, loc), "%s: %s", ir_value_text(s->f, at),
          what);
  rt_diag(d, RT_HINT, 0, NULL, 0, "%s", hint);
  return false;
}

// ---- what differs between shards
static bool is_sized(const Split *s, Shape shape) {
  for (uint32_t k = 0; k < s->p->n_syms; k++)
    if (s->is_sized[k] && ir_shape_names(s->p, shape, s->p->syms[k])) return true;
  return false;
}

static bool names_shard(const Split *s, Val v) {
  const Attr *dim = ir_attr(s->f, v, KEY_dim);
  return is_sized(s, ir_ins(s->f, v)->shape) || (dim && is_sized(s, ir_shape(s->p, &dim->u.dim, 1)));
}

static void find_of_shard(Split *s) {
  s->is_sized[ir_dim_info(s->p, s->batch)->slot] = true;
  for (uint32_t i = 1; i < s->f->n_ins; i++) {
    const Ins *ins = &s->f->ins[i];
    if (ins->op == OP_shard_mean) continue;
    bool any = names_shard(s, (Val){i});
    for (uint32_t k = 0; k < ins->n_args; k++) any |= s->of_shard[ir_arg(s->f, (Val){i}, k).i];
    s->of_shard[i] = any;
    if (!any || ins->op != OP_packed_layout) continue;
    const DimInfo *rows = ir_dim_info(s->p, ir_dim_at(s->p, ins->shape, 2));
    if (rows->kind == DIM_SYM) s->is_sized[rows->slot] = true;
  }
}

// ---- which part wants what
static bool has_batch_first(const Split *s, Val v) {
  Shape shape = ir_ins(s->f, v)->shape;
  return ir_rank(s->p, shape) && ir_dim_at(s->p, shape, 0).i == s->batch.i;
}

static bool check_input(const Split *s, Val v) {
  Shape shape = ir_ins(s->f, v)->shape;
  uint32_t rank = ir_rank(s->p, shape), n = 0;
  for (uint32_t k = 0; k < rank; k++) {
    Dim d = ir_dim_at(s->p, shape, k);
    n += ir_shape_names(s->p, ir_shape(s->p, &d, 1), s->batch);
  }
  if (n == 0 || (n == 1 && has_batch_first(s, v))) return true;
  return report(s, v, "the batch is not its first axis alone, so that its shards do not lie one behind the other",
                "inputs of a distributed function have the batch as their first axis: permute them inside of it");
}

static bool take_output(Split *s, Val v) {
  Val of = ir_arg(s->f, v, 0);
  const Ins *ins = ir_ins(s->f, of);
  if (!s->of_shard[of.i]) return s->in_update[v.i] = true;
  if (has_batch_first(s, of)) return s->in_shard[v.i] = true;
  if (ins->dtype == DT_F32 && ir_rank(s->p, ins->shape) == 0) return s->is_averaged[v.i] = s->in_update[v.i] = true;
  return report(s, of,
                "the output has neither the batch as its first axis nor is it one f32 number: each shard has one",
                "tn_shard_mean(x) makes one of all shards");
}

static bool find_roots(Split *s) {
  bool good = true;
  for (uint32_t i = 1; i < s->f->n_ins; i++) {
    Val v = {i};
    if (s->f->ins[i].op == OP_input) good &= check_input(s, v);
    else if (s->f->ins[i].op == OP_output) good &= take_output(s, v);
    else if (ir_writes_param(s->f, v)) s->in_update[i] = true;
  }
  return good;
}

static void want_operands(const Split *s, const Val *makers, Val v, bool *part) {
  Val from[IR_MAX_MAKERS];
  part[ir_head(s->f, v).i] = true;
  for (uint32_t k = ir_sizes_from(s->f, makers, v, from); k-- > 0;) part[from[k].i] = true;
  for (uint32_t k = 0; k < ir_ins(s->f, v)->n_args; k++) part[ir_arg(s->f, v, k).i] = true;
}

static void find_parts(Split *s) {
  const Val *makers = ir_rows_makers(s->f);
  s->in_shard[s->count.i] = true;
  for (uint32_t i = s->f->n_ins - 1; i > 0; i--) {
    Val v = {i};
    if (!s->in_update[i]) continue;
    bool is_sum = s->is_averaged[i] || s->f->ins[i].op == OP_shard_mean;
    if (is_sum) s->in_shard[ir_arg(s->f, v, 0).i] = true;
    else want_operands(s, makers, v, s->in_update);
  }
  for (uint32_t i = s->f->n_ins - 1; i > 0; i--)
    if (s->in_shard[i] && s->f->ins[i].op != OP_shard_mean) want_operands(s, makers, (Val){i}, s->in_shard);
}

static bool is_drawn(const Fn *f, Val v) { return ir_attr(f, v, KEY_id) != NULL; }

// False: reported
static bool check_part(const Split *s, Val v) {
  bool is_mean = ir_ins(s->f, v)->op == OP_shard_mean, is_layout = ir_ins(s->f, v)->op == OP_packed_layout;
  if (s->in_shard[v.i] && is_layout && s->of_shard[v.i] && ir_attr(s->f, v, KEY_total))
    return report(s, v, "shards have parts of its lengths, and no part of the rows that lie one behind the other",
                  "tn_pack_padded packs what is cut into shards");
  if (s->in_shard[v.i] && ir_writes_param(s->f, v))
    return report(s, v, "each shard would compute with a parameter that the update has changed",
                  "losses of a distributed function stand before its updates: make it two functions");
  if (s->in_shard[v.i] && is_mean)
    return report(s, v, "each shard would compute with a mean of all shards, which is there when they are done",
                  "means over shards are for updates and outputs");
  if (s->in_update[v.i] && s->of_shard[v.i] && !s->is_averaged[v.i])
    return report(s, v, "it differs between shards, and the update is one of all shards",
                  "tn_shard_mean(x) is the mean over all shards, which an update or a buffer may take");
  if (s->in_shard[v.i] && s->in_update[v.i] && (is_drawn(s->f, v) || ir_ins(s->f, v)->op == OP_scan))
    return report(s, v, "both the shards and the update would compute it", "draw, or scan, once for each of them");
  return true;
}

// From the last mean on: a change by an update says more than the mean it was made of.
static bool check_parts(const Split *s) {
  for (uint32_t i = s->f->n_ins - 1; i > 0; i--)
    if (!check_part(s, (Val){i})) return false;
  return true;
}

// ---- sums
static void add_sum(Split *s, Val v) {
  if (s->sum_of[v.i]) return;
  s->sum_of[v.i] = s->n_sums;
  *RT_PUSH(s->p->mem, s->sums, s->n_sums, s->cap_sums) = v;
}

static void find_sums(Split *s) {
  *RT_PUSH(s->p->mem, s->sums, s->n_sums, s->cap_sums) = s->count;
  for (uint32_t i = 1; i < s->f->n_ins; i++)
    if (s->is_averaged[i] || (s->in_update[i] && s->f->ins[i].op == OP_shard_mean))
      add_sum(s, ir_arg(s->f, (Val){i}, 0));
}

static void find_owned(Split *s) {
  s->is_owned = rt_alloc(s->p->mem, s->n_sums);
  ir_find_owned(s->f, s->in_update, s->mean_of);
  for (uint32_t i = 1; i < s->f->n_ins; i++)
    if (!ir_none(s->mean_of[i])) s->is_owned[s->sum_of[ir_arg(s->f, s->mean_of[i], 0).i]] = true;
}

static const char *name_of_sum(const Split *s, uint32_t k) { return rt_printf(s->p->mem, "sum %u", k); }

// ---- the update
static void copy_at(Rewrite *e, Val v, int64_t index) {
  Val w = ir_rewrite_copy(e, v);
  ir_set_attr(e->f, w, ir_a_int(KEY_index, index));
}

typedef struct {
  const Split *s;
  Rewrite e;
  // by number of a sum; owned: the process's range; none: wanted whole; one more entry for all elements
  Val *input, *owned;
  Val factor;        // 1 / the count
  Val is_empty;      // the count is 0
  Val empty_factor;  // 0 where it is, otherwise 1 / the count
  bool *may_be_nan;  // by old value: made of a mean that is NaN where nothing counts
  uint32_t n_norms;
} Update;

static Val mean_of(const Update *u, Val of, Val factor, Loc loc) {
  return ir_op2(u->e.f, OP_mul, u->input[u->s->sum_of[of.i]], factor, loc);
}

// i64[2]: the elements of a sum that the process has
static Val range_input(Update *u, uint32_t sum, Loc loc) {
  RtArena *mem = u->s->p->mem;
  return ir_input(u->e.f, rt_printf(mem, "owned %u", sum), DT_I64, ir_shape_ints(u->s->p, (const int64_t[]){2}, 1),
                  loc);
}

static uint32_t sum_of_mean(const Update *u, Val mean) { return u->s->sum_of[ir_rewrite_old_arg(&u->e, mean, 0).i]; }
static bool is_mean(const Update *u, Val old) { return u->e.old[old.i].op == OP_shard_mean; }
static Val factor_of(const Update *u, Val old) { return u->may_be_nan[old.i] ? u->factor : u->empty_factor; }

// Writes to state are handled by written().
static void find_nan(Update *u) {
  const Fn *f = u->s->f;
  u->may_be_nan = rt_alloc(f->prog->mem, f->n_ins);
  for (Val v = {1}; v.i < f->n_ins; v.i++) {
    bool any = false;
    for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) any |= u->may_be_nan[ir_arg(f, v, k).i];
    if (ir_ins(f, v)->op == OP_shard_mean) any = !ir_attr(f, v, KEY_empty);
    u->may_be_nan[v.i] = any && !ir_writes_param(f, v);
  }
}

// The elements of old value v that the process computes; none: all
static Val range_of(const Update *u, Val v) {
  Val mean = u->s->mean_of[v.i];
  return ir_none(mean) ? mean : u->owned[sum_of_mean(u, mean)];
}

static uint32_t n_parts(const Update *u, Val norm) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < u->e.old[norm.i].n_args; k++) n += !ir_none(range_of(u, ir_rewrite_old_arg(&u->e, norm, k)));
  return n;
}

static bool is_mixed(const Update *u, Val v) {
  if (u->e.old[v.i].op != OP_global_norm || !u->s->in_update[v.i]) return false;
  uint32_t n = n_parts(u, v);
  return n && n < u->e.old[v.i].n_args;
}

static void add_ranges(Update *u) {
  const Split *s = u->s;
  bool any = false;
  for (uint32_t k = 0; k < s->n_sums; k++)
    if (s->is_owned[k]) u->owned[k] = range_input(u, k, u->e.old[s->sums[k].i].loc);
  for (uint32_t i = 1; i < u->e.n_old; i++) any |= is_mixed(u, (Val){i});
  if (any) u->owned[s->n_sums] = range_input(u, s->n_sums, u->e.old[s->count.i].loc);
}

// What is written where nothing counts by instruction `old`, which writes to state: what is there. made: operands that were replaced
static Val overwritten(Update *u, Val old, const Val *made) {
  static const Key keys[] = {KEY_axis, KEY_start, KEY_step, KEY_pitch, KEY_reverse};
  const Fn *f = u->s->f;
  const Ins *ins = ir_ins(f, old);
  Val in[3] = {{0}};  // target, and of a part where it lies
  uint32_t at = ins->op == OP_index_assign ? 1 : 2;
  in[0] = u->e.map[ir_arg(f, old, 0).i];
  if (ins->op == OP_assign) return in[0];
  if (at < ins->n_args) in[1] = ir_none(made[at]) ? u->e.map[ir_arg(f, old, at).i] : made[at];
  Attr a[8] = {ir_a_int(KEY_axis, 0)};
  if (ins->op == OP_index_assign) return ir_emit(u->e.f, OP_index_select, in, 2, a, 1, ins->loc);
  uint32_t n = 0;
  for (uint32_t k = 0; k < sizeof keys / sizeof *keys; k++)
    if (ir_attr(f, old, keys[k])) a[n++] = *ir_attr(f, old, keys[k]);
  Dim count = ir_dim_at(f->prog, ir_ins(f, ir_arg(f, old, 1))->shape, (uint32_t)ir_attr_int(f, old, KEY_axis, 0));
  a[n++] = ir_a_dim(KEY_count, count);
  return ir_emit(u->e.f, OP_slice, in, 2, a, n, ins->loc);
}

static Val where_empty(Update *u, Val old, uint32_t k, Val other) {
  Loc loc = u->e.old[old.i].loc;
  return ir_op3(u->e.f, OP_select, u->is_empty, other, u->e.map[ir_rewrite_old_arg(&u->e, old, k).i], loc);
}

static Val zero_like(Update *u, Val old, uint32_t k) {
  Loc loc = u->e.old[old.i].loc;
  Val zero = ir_const(u->e.f, 0, loc);
  DType t = (DType)ir_ins(u->s->f, ir_arg(u->s->f, old, k))->dtype;
  return t == DT_F32 ? zero : ir_emit(u->e.f, OP_cast, &zero, 1, (const Attr[]){ir_a_int(KEY_dtype, t)}, 1, loc);
}

// If the count is 0, an assignment keeps the old content, and an optimizer takes 0.
static Val copy_written(Update *u, Val old) {
  Val made[MAX_OPERANDS] = {{0}};
  uint32_t n = ir_writes_param(u->s->f, old) ? u->e.old[old.i].n_args : 0;
  uint32_t source = ir_op_operand((Op)u->e.old[old.i].op, ARG_source);
  bool any = false;
  for (uint32_t k = 0; k < n; k++) {
    bool is_nan = u->may_be_nan[ir_rewrite_old_arg(&u->e, old, k).i];
    if (is_nan && k != source) made[k] = where_empty(u, old, k, zero_like(u, old, k));
    any |= is_nan;
  }
  if (any && source < n) made[source] = where_empty(u, old, source, overwritten(u, old, made));
  Val v = ir_rewrite_copy(&u->e, old);
  for (uint32_t k = 0; k < n; k++)
    if (!ir_none(made[k])) ir_set_arg(u->e.f, v, k, made[k]);
  return v;
}

// The norm of means is that of the sums times the factor.
static void copy_norm(Update *u, Val v) {
  Rewrite *e = &u->e;
  const Ins *old = &e->old[v.i];
  Val *args = rt_alloc(e->f->prog->mem, (2 * old->n_args + 1) * sizeof *args);
  bool of_means = true;
  for (uint32_t k = 0; k < old->n_args; k++) of_means &= is_mean(u, ir_rewrite_old_arg(e, v, k));
  for (uint32_t k = 0; k < old->n_args; k++) {
    Val x = ir_rewrite_old_arg(e, v, k), range = range_of(u, x);
    args[2 * k] = of_means ? u->input[sum_of_mean(u, x)] : e->map[x.i];
    args[2 * k + 1] = ir_none(range) ? u->owned[u->s->n_sums] : range;
  }
  Attr number = ir_a_int(KEY_exchange, u->n_norms++);
  Val norm = ir_emit(e->f, OP_global_norm, args, 2 * old->n_args, &number, 1, old->loc);
  e->map[v.i] = of_means ? ir_op2(e->f, OP_mul, norm, factor_of(u, v), old->loc) : norm;
  ir_copy_metadata(ir_ins(e->f, e->map[v.i]), old);
}

// A mean times a number is the sum times one number.
static bool copy_scaled(Update *u, Val v) {
  Rewrite *e = &u->e;
  for (uint32_t k = 0; e->old[v.i].op == OP_mul && k < 2; k++) {
    Val mean = ir_rewrite_old_arg(e, v, k), number = ir_rewrite_old_arg(e, v, 1 - k);
    if (!is_mean(u, mean) || ir_none(range_of(u, mean)) || ir_rank(e->f->prog, e->old[number.i].shape)) continue;
    Loc loc = e->old[v.i].loc;
    Val scale = ir_op2(e->f, OP_mul, factor_of(u, mean), e->map[number.i], loc);
    e->map[v.i] = ir_op2(e->f, OP_mul, u->input[sum_of_mean(u, mean)], scale, loc);
    return true;
  }
  return false;
}

// The process's part of what a group keeps
static void copy_with_range(Update *u, Val old) {
  Val in[MAX_OPERANDS], v = copy_written(u, old), range = range_of(u, old);
  uint32_t at = ir_op_operand((Op)ir_ins(u->e.f, v)->op, ARG_owned);
  if (ir_none(range) || at == UINT32_MAX) return;
  for (uint32_t k = ir_operands(u->e.f, v, in); k < at; k++) in[k] = (Val){0};
  in[at] = range;
  ir_set_operands(u->e.f, v, in, at + 1);
}

static void copy_to_update(Update *u, Val v) {
  const Split *s = u->s;
  Rewrite *e = &u->e;
  Op op = (Op)e->old[v.i].op;
  Loc loc = e->old[v.i].loc;
  if (op == OP_input) {
    copy_at(e, v, e->f->n_inputs++);
  } else if (op == OP_shard_mean) {
    e->map[v.i] = mean_of(u, ir_rewrite_old_arg(e, v, 0), factor_of(u, v), loc);
    ir_copy_metadata(ir_ins(e->f, e->map[v.i]), &e->old[v.i]);
  } else if (op == OP_global_norm && n_parts(u, v)) {
    copy_norm(u, v);
  } else if (op == OP_output) {
    Val of = ir_rewrite_old_arg(e, v, 0);
    if (s->is_averaged[v.i]) e->map[of.i] = mean_of(u, of, u->factor, loc);
    copy_at(e, v, e->f->n_outputs++);
  } else if (!copy_scaled(u, v)) {
    copy_with_range(u, v);
  }
}

static void build_update(const Split *s, const char *name) {
  Update u = {.s = s, .input = rt_alloc(s->p->mem, s->n_sums * sizeof *u.input)};
  u.owned = rt_alloc(s->p->mem, (s->n_sums + 1) * sizeof *u.owned);
  Fn *f = ir_fn_copy(s->f, name);
  s->f->update = f, f->shard = s->f;
  s->f->n_shards = (uint32_t)ir_attr_int(s->f, ir_find_shard_mean(s->f), KEY_shards, 1);
  find_nan(&u);
  f->n_inputs = f->n_outputs = 0, f->cur_scope = 0;
  ir_rewrite_begin(&u.e, f);
  for (uint32_t i = 1; i < u.e.n_old; i++)
    if (u.e.old[i].op == OP_input && s->in_update[i]) copy_to_update(&u, (Val){i});
  for (uint32_t k = 0; k < s->n_sums; k++) {
    const Ins *of = &u.e.old[s->sums[k].i];
    u.input[k] = ir_input(f, name_of_sum(s, k), DT_F32, of->shape, of->loc);
  }
  add_ranges(&u);
  Loc at = u.e.old[s->count.i].loc;
  u.factor = ir_op2(f, OP_div, ir_const(f, 1, at), u.input[0], at);
  u.is_empty = ir_op2(f, OP_eq, u.input[0], ir_const(f, 0, at), at);
  u.empty_factor = ir_op3(f, OP_select, u.is_empty, ir_const(f, 0, at), u.factor, at);
  for (uint32_t i = 1; i < u.e.n_old; i++)
    if (s->in_update[i] && u.e.old[i].op != OP_result && u.e.old[i].op != OP_input) copy_to_update(&u, (Val){i});
  ir_rewrite_end(&u.e);
}

// ---- the shard
static Val weighted(Fn *f, Val v, Val count, Loc loc) {
  Val zero = ir_const(f, 0, loc), all = ir_op2(f, OP_mul, v, count, loc);
  return ir_op3(f, OP_select, ir_op2(f, OP_gt, count, zero, loc), all, zero, loc);
}

static void build_shard(const Split *s) {
  Fn *f = s->f;
  Rewrite e;
  f->n_outputs = 0, f->cur_scope = 0;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++) {
    Op op = (Op)e.old[i].op;
    if (op == OP_output && s->in_shard[i]) copy_at(&e, (Val){i}, f->n_outputs++);
    else if (op == OP_input || (s->in_shard[i] && op != OP_result)) ir_rewrite_copy(&e, (Val){i});
  }
  for (uint32_t k = 0; k < s->n_sums; k++) {
    Val v = e.map[s->sums[k].i];
    Loc loc = e.old[s->sums[k].i].loc;
    if (k) v = weighted(f, v, e.map[s->count.i], loc);
    Attr a[3] = {ir_a_str(KEY_name, ir_str(s->p, name_of_sum(s, k))), ir_a_int(KEY_index, f->n_outputs)};
    a[2] = ir_a_int(KEY_bucket_bytes, s->is_owned[k] ? s->bucket_bytes : 0);
    ir_emit(f, OP_output, &v, 1, a, 3, loc);
  }
  ir_rewrite_end(&e);
}

static bool begin(Split *s) {
  Val first = ir_find_shard_mean(s->f);
  if (ir_none(first)) return false;
  uint32_t n = s->f->n_ins;
  s->batch = ir_attr(s->f, first, KEY_dim)->u.dim;
  s->count = ir_arg(s->f, first, 1);
  s->bucket_bytes = ir_attr_int(s->f, first, KEY_bucket_bytes, IR_BUCKET_BYTES);
  s->of_shard = rt_alloc(s->p->mem, n), s->is_averaged = rt_alloc(s->p->mem, n);
  s->in_shard = rt_alloc(s->p->mem, n), s->in_update = rt_alloc(s->p->mem, n);
  s->is_sized = rt_alloc(s->p->mem, s->p->n_syms + 1);
  s->sum_of = rt_alloc(s->p->mem, n * sizeof *s->sum_of);
  s->mean_of = rt_alloc(s->p->mem, n * sizeof *s->mean_of);
  return true;
}

static bool check_means(const Split *s) {
  int64_t n = ir_attr_int(s->f, ir_find_shard_mean(s->f), KEY_shards, 0);
  for (uint32_t i = 1; i < s->f->n_ins; i++) {
    if (s->f->ins[i].op != OP_shard_mean) continue;
    bool same = ir_attr(s->f, (Val){i}, KEY_dim)->u.dim.i == s->batch.i &&
                ir_attr_int(s->f, (Val){i}, KEY_shards, 0) == n && ir_arg(s->f, (Val){i}, 1).i == s->count.i;
    if (!same)
      return report(s, (Val){i}, "another mean of the function has other shards, or another count",
                    "a batch is cut and weighed in one way");
  }
  return true;
}

Val ir_find_shard_mean(const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_shard_mean) return (Val){i};
  return (Val){0};
}

bool ir_pass_split_shards(Fn *f) {
  Split s = {.f = f, .p = f->prog};
  if (!begin(&s)) return true;
  find_of_shard(&s);
  if (!check_means(&s) || !find_roots(&s)) return false;
  find_parts(&s);
  if (!check_parts(&s)) return false;
  find_sums(&s);
  find_owned(&s);
  build_update(&s, rt_printf(s.p->mem, "%s.update", ir_text(s.p, f->name)));
  build_shard(&s);
  return true;
}
