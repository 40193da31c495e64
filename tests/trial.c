// What a run needs beside code: values for its inputs and parameters, blocks with guards behind them, a frame.
#include "tests/trial.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/passes/plan.h"
#include "tests/rng.h"

#include "ir/attention.h"
#include "ir/interp/interp.h"
#include "ir/slice.h"
#include "ir/storage.h"
#include "runtime/exec/numbers.h"
#include "runtime/exec/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the data of a run: by names, so that it stays when a program shrinks
static Rng rng_for(const char *what, const char *name, uint32_t draw) {
  return (Rng){rt_hash(name, strlen(name), rt_hash(what, strlen(what), 77 + draw))};
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t run_size(const Prog *p, const Fn *f, Dim d, uint32_t draw) {
  const DimInfo *in = ir_dim_info(p, d);
  const char *name = ir_text(p, in->name);
  Rng r = rng_for(ir_text(p, f->name), name, draw);
  int64_t least = smaller(!strncmp(name, "time", 4), in->value);  // a bound may be 0
  switch (rng_below(&r, 10)) {
  case 0: return least;
  case 1: return smaller(1, in->value);
  case 2:
  case 3:
  case 4: return least + rng_below(&r, (uint32_t)(in->value + 1 - least));
  default: return in->value;
  }
}

// ---- sizes that no size of the function is below 0 for
static bool is_negative(const Prog *p, Dim d, const int64_t *slots, bool *grow) {
  if (ir_dim_eval(p, d, slots) >= 0) return false;
  for (uint32_t k = 0; k < p->n_syms; k++)
    if (ir_shape_names(p, ir_shape((Prog *)(uintptr_t)p, &d, 1), p->syms[k])) grow[k] = true;
  return true;
}

static bool has_negative_size(const Fn *f, Val v, const int64_t *slots, bool *grow) {
  const Prog *p = f->prog;
  Slice s;
  bool any = false;
  for (uint32_t k = 0; k < ir_rank(p, f->ins[v.i].shape); k++)
    any |= is_negative(p, ir_dim_at(p, f->ins[v.i].shape, k), slots, grow);
  if (f->ins[v.i].op != OP_slice && f->ins[v.i].op != OP_slice_assign) return any;
  ir_slice(f, v, &s);
  any |= is_negative(p, s.start, slots, grow);
  any |= is_negative(p, s.count, slots, grow);
  any |= is_negative(p, ir_dim_sub(f->prog, s.step, ir_dim(f->prog, 1)), slots, grow);
  bool leaves = is_negative(p, s.last_start, slots, grow);
  return any || (leaves && ir_none(s.at));  // with a start the run looks at that
}

static bool any_negative_size(const Fn *f, const int64_t *slots, bool *grow) {
  bool any = false;
  for (uint32_t i = 1; i < f->n_ins; i++) any |= has_negative_size(f, (Val){i}, slots, grow);
  return any;
}

// What is too small becomes its bound.
static void grow_sizes(const Fn *f, TrialData *d, RtArena *mem) {
  const Prog *p = f->prog;
  bool *grow = rt_alloc(mem, p->n_syms + 1);
  size_t bytes = p->n_syms * sizeof *d->slots;
  d->drawn = rt_alloc(mem, bytes + 1);
  if (bytes) memcpy(d->drawn, d->slots, bytes);
  d->fits = !any_negative_size(f, d->slots, grow);
  for (uint32_t k = 0; k < p->n_syms; k++)
    if (grow[k]) d->slots[k] = ir_dim_bound(p, p->syms[k]);
  d->runs = !any_negative_size(f, d->slots, grow);
}

// What the readers of an i64 value want: an index below `hi`, or lengths.
typedef struct {
  int64_t hi;
  bool lengths, sorted, no_empty;
  int64_t most_rows;  // the sum of lengths
  bool exact_rows;    // they sum to that
} Wants;

static void find_wants(const Fn *f, Val v, const int64_t *slots, Wants *w) {
  const Prog *p = f->prog;
  Attention attention;
  Slice slice;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    for (uint32_t k = 0; k < ins->n_args; k++) {
      if (ir_arg(f, (Val){i}, k).i != v.i) continue;
      Shape s = ir_ins(f, ir_arg(f, (Val){i}, 0))->shape;
      uint32_t rank = ir_rank(p, s);
      if (ir_updates_rows(f, (Val){i})) w->hi = smaller(w->hi, ir_dim_eval(p, ir_dim_at(p, s, 0), slots));
      switch (ins->op) {
      case OP_sdpa:
      case OP_sdpa_grad:
      case OP_sdpa_bias_grad:
        ir_attention(f, (Val){i}, &attention);
        w->lengths = true;
        w->hi = smaller(w->hi, ir_dim_eval(p, attention.tk, slots));
        break;
      case OP_cross_entropy_rows_grad:
      case OP_cross_entropy_rows: w->hi = smaller(w->hi, ir_dim_eval(p, ir_dim_at(p, s, rank - 1), slots)); break;
      case OP_embedding_bag:
      case OP_embedding_bag_grad:
      case OP_embedding_bag_factor:
      case OP_embedding_grad:
      case OP_index_assign:
      case OP_embedding: w->hi = smaller(w->hi, ir_dim_eval(p, ir_dim_at(p, s, 0), slots)); break;
      case OP_slice:
      case OP_slice_assign:
        if (ir_operand(f, (Val){i}, ARG_at).i != v.i) {
          find_wants(f, (Val){i}, slots, w);
          break;
        }
        ir_slice(f, (Val){i}, &slice);
        w->hi = smaller(w->hi, ir_dim_eval(p, slice.last_start, slots) + 1);
        break;
      case OP_gather:
      case OP_index_select:
      case OP_scatter:
      case OP_scatter_add:
      case OP_scatter_prod:
      case OP_scatter_amax:
      case OP_scatter_amin:
      case OP_index_copy:
      case OP_index_add: {
        Dim size = ir_dim_at(p, s, (uint32_t)ir_attr_int(f, (Val){i}, KEY_axis, 0));
        if (k == 1) w->hi = smaller(w->hi, ir_dim_eval(p, size, slots));
        break;
      }
      case OP_packed_layout:
        w->lengths = true;
        w->no_empty |= !ir_attr(f, (Val){i}, KEY_empty);
        w->sorted |= ir_attr(f, (Val){i}, KEY_sorted) != NULL;
        if (ir_rows_limit(f, (Val){i}).i)
          w->most_rows = smaller(w->most_rows, ir_dim_eval(p, ir_rows_limit(f, (Val){i}), slots));
        w->exact_rows |= ir_attr(f, (Val){i}, KEY_total) != NULL;
        w->hi = smaller(w->hi, ir_dim_eval(p, ir_dim_at(p, ins->shape, 1), slots));
        break;
      default:
        if (ir_ops[ins->op].cls == CLASS_VIEW || ir_ops[ins->op].cls == CLASS_INDEX) find_wants(f, (Val){i}, slots, w);
      }
    }
  }
}

static int by_size_down(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x > y ? -1 : x < y;
}

// The longest become shorter, but not below `least`, until their rows are few enough; where the sum must be exact, the shortest longer
static void keep_rows(Tensor lengths, const Wants *w) {
  double rows = 0, most = (double)w->most_rows, least = w->no_empty;
  for (int64_t k = 0; k < lengths.n; k++) rows += lengths.v[k];
  while (rows > most || (w->exact_rows && rows < most)) {
    int64_t at = 0, by = rows > most ? -1 : 1;
    for (int64_t k = 1; k < lengths.n; k++)
      if (by < 0 ? lengths.v[k] > lengths.v[at] : lengths.v[k] < lengths.v[at]) at = k;
    if (!lengths.n || (by < 0 ? lengths.v[at] <= least : lengths.v[at] >= (double)w->hi)) return;  // the size follows
    lengths.v[at] += (double)by, rows += (double)by;
  }
}

static void fill_ints(const Fn *f, Val v, const int64_t *slots, Rng *r, Tensor t) {
  Wants w = {.hi = 1 << 20, .most_rows = INT64_MAX};
  find_wants(f, v, slots, &w);
  bool free_range = w.hi == 1 << 20;
  int64_t least = w.no_empty, n = w.hi + (w.lengths && !least);
  for (int64_t k = 0; k < t.n; k++)
    t.v[k] = free_range ? (double)rng_below(r, 9) - 4 : (double)(rng_below(r, (uint32_t)(n > 1 ? n : 1)) + least);
  if (w.lengths) keep_rows(t, &w);
  if (w.sorted) qsort(t.v, (size_t)t.n, sizeof *t.v, by_size_down);
}

// Where comparisons turn; the last are no numbers that are added up.
static const double edges[] = {0,    0,    -0.0,     -0.0,      1,        -1,        0.5,      -0.5,      2,  -2,
                               0.25, -1.5, 0x1p-126, -0x1p-126, 0x1p-140, -0x1p-140, INFINITY, -INFINITY, NAN};
enum { N_WILD = 3, N_EDGES = sizeof edges / sizeof *edges - N_WILD };

static void fill_floats(const char *name, Rng *r, Tensor t) {
  bool coarse = rng_below(r, 3) == 0;  // ties and zeros
  for (int64_t k = 0; k < t.n; k++) {
    double x = coarse ? (double)rng_below(r, 7) * 0.5 - 1.5 : rng_unit(r) * 4 - 2;
    if (!strncmp(name, "little", 6)) x *= 0.1;
    if (!strncmp(name, "edge", 4)) x = edges[rng_below(r, N_EDGES)];
    if (!strncmp(name, "wild", 4)) x = edges[rng_below(r, N_EDGES + N_WILD)];
    t.v[k] = (float)(strncmp(name, "pos", 3) ? x : fabs(x) + 0.1);
  }
}

static Tensor new_tensor(RtArena *mem, int64_t n) {
  return (Tensor){.v = rt_alloc(mem, (size_t)n * sizeof(double)), .n = n};
}

static Val lengths_of(const Fn *f, uint32_t layout) {
  bool given = f->ins[layout].op == OP_packed_layout && f->ins[layout].n_args;
  Val v = given ? ir_arg(f, (Val){layout}, 0) : (Val){0};
  return f->ins[v.i].op == OP_input ? v : (Val){0};
}

static void fill_input(const Fn *f, Val v, uint32_t draw, TrialData *d, RtArena *mem) {
  const Ins *ins = ir_ins(f, v);
  Tensor *t = &d->in[ir_attr_int(f, v, KEY_index, 0)];
  if (t->v) return;
  const char *name = ir_text(f->prog, ins->name);
  Rng r = rng_for("input", name, draw);
  *t = new_tensor(mem, ir_shape_eval(f->prog, ins->shape, d->slots));
  if (ins->dtype == DT_I64) fill_ints(f, v, d->slots, &r, *t);
  else fill_floats(name, &r, *t);
}

static void set_size(const Fn *f, Dim d, int64_t size, TrialData *out) {
  const DimInfo *info = ir_dim_info(f->prog, d);
  if (info->kind == DIM_SYM) out->slots[info->slot] = size;
}

// Lengths say how many rows there are, which bounds what else is filled.
static void fill_lengths(const Fn *f, uint32_t draw, TrialData *d, RtArena *mem) {
  const Prog *p = f->prog;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = lengths_of(f, i);
    if (ir_none(v)) continue;
    fill_input(f, v, draw, d, mem);
    const Attr *total = ir_attr(f, (Val){i}, KEY_total);
    Tensor t = d->in[ir_attr_int(f, v, KEY_index, 0)];
    int64_t rows = 0;
    for (int64_t k = 0; k < t.n; k++) rows += (int64_t)t.v[k];
    set_size(f, ir_dim_at(p, f->ins[i].shape, 2), rows, d);
    if (total) set_size(f, total->u.dim, rows, d);
  }
}

static bool lengths_give_a_run(const Fn *f, uint32_t draw, TrialData *d, RtArena *mem) {
  fill_lengths(f, draw, d, mem);
  return !any_negative_size(f, d->slots, rt_alloc(mem, f->prog->n_syms + 1));
}

// Few and short sequences may have too few rows for what is cut from their sum: then as many and as long ones as there can be.
static bool find_lengths(const Fn *f, uint32_t draw, TrialData *d, RtArena *mem) {
  if (lengths_give_a_run(f, draw, d, mem)) return true;
  for (uint32_t k = 0; k < f->prog->n_syms; k++) d->slots[k] = ir_dim_bound(f->prog, f->prog->syms[k]);
  memset(d->in, 0, f->n_inputs * sizeof *d->in);
  return lengths_give_a_run(f, draw, d, mem);
}

TrialData trial_data(const Fn *f, uint32_t draw, RtArena *mem) {
  const Prog *p = f->prog;
  TrialData d = {.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof(int64_t)),
                 .in = rt_alloc(mem, (f->n_inputs + 1) * sizeof(Tensor)),
                 .params = rt_alloc(mem, (p->n_params + 1) * sizeof(Tensor))};
  for (uint32_t k = 0; k < p->n_syms; k++) d.slots[k] = run_size(p, f, p->syms[k], draw);
  grow_sizes(f, &d, mem);
  if (!d.runs) return d;
  d.runs = find_lengths(f, draw, &d, mem);
  if (!d.runs) return d;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_input) fill_input(f, (Val){i}, draw, &d, mem);
  for (uint32_t k = 0; k < p->n_params; k++) {
    const char *path = ir_text(p, p->params[k].path);
    Rng r = rng_for("param", path, draw);
    d.params[k] = new_tensor(mem, ir_shape_bound(p, p->params[k].shape));
    if (FLOATS >> p->params[k].dtype & 1) fill_floats(path, &r, d.params[k]);
    for (int64_t i = 0; i < d.params[k].n; i++) {
      double x = FLOATS >> p->params[k].dtype & 1 ? d.params[k].v[i] : (double)rng_below(&r, 400) - 100;
      d.params[k].v[i] = run_converted((DType)p->params[k].dtype, x);
    }
  }
  return d;
}

Shape trial_output(const Fn *f, uint32_t k, DType *type) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == OP_output && ir_attr_int(f, (Val){i}, KEY_index, 0) == k) {
      const Ins *from = ir_ins(f, ir_arg(f, (Val){i}, 0));
      *type = (DType)from->dtype;
      return from->shape;
    }
  *type = DT_F32;
  return (Shape){0};
}

// ---- compiled code
static void encode(Block b, DType type, Tensor from) {
  for (int64_t i = 0; i < from.n; i++) {
    if (FLOATS >> type & 1) rt_put_float((float)from.v[i], (RtDType)type, b.at, (size_t)i);
    else rt_put_whole((int64_t)from.v[i], (RtDType)type, b.at, (size_t)i);
  }
}

static double number_at(Block b, DType type, int64_t i) {
  switch (type) {
  case DT_I64: return (double)((int64_t *)(void *)b.at)[i];
  case DT_I32: return ((int32_t *)(void *)b.at)[i];
  case DT_U8:
  case DT_BOOL: return b.at[i];
  default: return (double)rt_get_float((RtDType)type, b.at, (size_t)i);
  }
}

static Tensor decode(RtArena *mem, Block b, DType type, int64_t n) {
  Tensor t = new_tensor(mem, n);
  for (int64_t i = 0; i < n; i++) t.v[i] = number_at(b, type, i);
  return t;
}

bool trial_compile(Prog *p, const Target *target, RtArena *mem, TrialCode *out, RtText *why) {
  *out = (TrialCode){.p = p,
                     .jit = entry_jit(p, target, why),
                     .consts = new_block(mem, p->const_bytes),
                     .worker_bytes = target->worker_bytes};
  if (out->jit && p->const_bytes) ir_fill_const(p, out->consts.at);
  return out->jit != NULL;
}

bool trial_compile_for(Foreign *m, Prog *p, RtArena *mem, TrialCode *out, RtText *why) {
  if (!foreign_load(m, p, why)) return false;
  *out = (TrialCode){.p = p, .foreign = m, .consts = new_block(mem, p->const_bytes)};
  if (p->const_bytes) ir_fill_const(p, out->consts.at);
  return true;
}

void trial_free(TrialCode *c) { cg_jit_free(c->jit); }

// ---- one run
typedef struct {
  Block arena, params, *in, *out;
  void **in_at, **out_at;
  int64_t *slots;
} Memory;

static void bind_inputs(const Fn *f, const TrialData *d, Memory *m, RtArena *mem) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_input) continue;
    int64_t at = ir_attr_int(f, (Val){i}, KEY_index, 0);
    m->in[at] = new_block(mem, d->in[at].n * ir_dtype_bytes[f->ins[i].dtype]);
    encode(m->in[at], (DType)f->ins[i].dtype, d->in[at]);
    m->in_at[at] = m->in[at].at;
  }
}

static void bind_outputs(const Fn *f, Memory *m, RtArena *mem) {
  for (uint32_t k = 0; k < f->n_outputs; k++) {
    DType type;
    Shape s = trial_output(f, k, &type);
    m->out[k] = new_block(mem, ir_shape_bound(f->prog, s) * ir_dtype_bytes[type]);
    m->out_at[k] = m->out[k].at;
  }
}

static void bind_params(const Prog *p, const TrialData *d, Memory *m) {
  for (uint32_t k = 0; k < p->n_params; k++)
    encode((Block){m->params.at + p->params[k].offset, 0}, (DType)p->params[k].dtype, d->params[k]);
}

static Memory new_memory(const Fn *f, const TrialData *d, RtArena *mem) {
  const Prog *p = f->prog;
  Memory m = {.arena = new_block(mem, f->stats.peak_bytes), .params = new_block(mem, p->param_bytes)};
  m.in = rt_alloc(mem, (f->n_inputs + 1) * sizeof *m.in), m.out = rt_alloc(mem, (f->n_outputs + 1) * sizeof *m.out);
  m.in_at = rt_alloc(mem, (f->n_inputs + 1) * sizeof *m.in_at);
  m.out_at = rt_alloc(mem, (f->n_outputs + 1) * sizeof *m.out_at);
  m.slots = rt_alloc(mem, (p->n_syms + 1) * sizeof *m.slots);
  if (p->n_syms) memcpy(m.slots, d->slots, p->n_syms * sizeof *m.slots);
  bind_inputs(f, d, &m, mem);
  bind_outputs(f, &m, mem);
  bind_params(p, d, &m);
  return m;
}

static bool all_guards_hold(const Fn *f, const TrialCode *c, const Memory *m) {
  bool good = guard_holds(m->arena) && guard_holds(m->params) && guard_holds(c->consts);
  for (uint32_t k = 0; k < f->n_inputs; k++) good &= guard_holds(m->in[k]);
  for (uint32_t k = 0; k < f->n_outputs; k++) good &= guard_holds(m->out[k]);
  return good;
}

static void collect(const Fn *f, const Memory *m, RtArena *mem, TrialResults *r) {
  const Prog *p = f->prog;
  uint32_t n = f->n_outputs + p->n_params;
  *r = (TrialResults){rt_alloc(mem, (n + 1) * sizeof(Tensor)), f->n_outputs, n};
  for (uint32_t k = 0; k < f->n_outputs; k++) {
    DType type;
    Shape s = trial_output(f, k, &type);
    r->t[k] = decode(mem, m->out[k], type, ir_shape_eval(p, s, m->slots));
  }
  for (uint32_t k = 0; k < p->n_params; k++) {
    const Param *q = &p->params[k];
    r->t[f->n_outputs + k] =
        decode(mem, (Block){m->params.at + q->offset, 0}, (DType)q->dtype, ir_shape_bound(p, q->shape));
  }
}

static int64_t *sizes_of(const Block *b, uint32_t n, RtArena *mem) {
  int64_t *bytes = rt_alloc(mem, (n + 1) * sizeof *bytes);
  for (uint32_t k = 0; k < n; k++) bytes[k] = (int64_t)b[k].bytes;
  return bytes;
}

static TrialEnd run_there(const TrialCode *c, const Fn *f, Memory *m, RtArena *mem, RtText *why) {
  ForeignRun r = {.arena_bytes = f->stats.peak_bytes,
                  .param_bytes = c->p->param_bytes,
                  .const_bytes = c->p->const_bytes,
                  .params = m->params.at,
                  .consts = c->consts.at,
                  .in = m->in_at,
                  .out = m->out_at,
                  .in_bytes = sizes_of(m->in, f->n_inputs, mem),
                  .out_bytes = sizes_of(m->out, f->n_outputs, mem),
                  .n_in = f->n_inputs,
                  .n_out = f->n_outputs,
                  .n_dims = c->p->n_syms,
                  .dims = m->slots,
                  .seed = TRIAL_SEED,
                  .counter = TRIAL_COUNTER};
  if (!foreign_run(c->foreign, cg_symbol(mem, c->p, f), &r, why))
    return r.emulator_failed ? TRIAL_EMULATOR : TRIAL_REPORTED;
  if (!r.tail.guards_hold) rt_text_add(why, "a block is written behind its end");
  if (why->text) return TRIAL_OVERRUN;
  if (r.tail.code)
    rt_text_add(why, "a kernel reports index %lld, value %lld", (long long)r.tail.index, (long long)r.tail.value);
  return why->text ? TRIAL_REPORTED : TRIAL_FINE;
}

static TrialEnd run_here(const TrialCode *c, const Fn *f, Memory *m, RtTeam *team, RtArena *mem, RtText *why) {
  TnKernelStatus status = {0};
  TnFrame frame = {.in = m->in_at,
                   .out = m->out_at,
                   .dims = m->slots,
                   .seed = TRIAL_SEED,
                   .counter = TRIAL_COUNTER,
                   .status = &status,
                   .team = team,
                   .blocks = worker_blocks(c->worker_bytes, rt_team_size(team))};
  frame.seg[SEG_ARENA] = m->arena.at, frame.seg[SEG_PARAM] = m->params.at, frame.seg[SEG_CONST] = c->consts.at;
  RtGuardedRun guarded_arena = {.plan = ir_guarded_arena(f, mem)};
  frame.guarded_arena = guarded_arena.plan ? &guarded_arena : NULL;
  run_entry(entry_find(c->jit, cg_symbol(mem, c->p, f)), &frame);
  char damage[512];
  bool sound = rt_guarded_arena_report(&guarded_arena, damage, sizeof damage);
  if (!sound) rt_text_add(why, "%s", damage);
  if (!sound) return TRIAL_GUARDS;
  if (!all_guards_hold(f, c, m)) rt_text_add(why, "a block is written behind its end");
  if (why->text) return TRIAL_OVERRUN;
  if (status.code)
    rt_text_add(why, "a kernel reports index %lld, value %lld", (long long)status.index, (long long)status.value);
  return why->text ? TRIAL_REPORTED : TRIAL_FINE;
}

TrialEnd trial_run(const TrialCode *c, const Fn *f, const TrialData *d, RtTeam *team, RtArena *mem, TrialResults *out,
                   RtText *why) {
  Memory m = new_memory(f, d, mem);
  TrialEnd end = c->foreign ? run_there(c, f, &m, mem, why) : run_here(c, f, &m, team, mem, why);
  if (end == TRIAL_FINE) collect(f, &m, mem, out);
  return end;
}
