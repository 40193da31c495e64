// The generator keeps a pool of values that may still be used, each with a bound on its magnitude. A step picks
// operands from the pool, makes what else it needs, emits, and adds the result. Names carry meaning for whoever makes
// the data of a run: an input or parameter called "pos.." holds numbers > 0; dims called "time.." are at least 1;
// "rows.." and "live.." are found by the run. "edge.." holds numbers at which comparisons turn, "wild.." also infinities and NaN.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "tests/random_gen.h"

#include <string.h>

// ---- numbers
uint32_t gen_below(Gen *g, uint32_t n) { return rng_below(&g->r, n); }
bool gen_chance(Gen *g, uint32_t percent) { return gen_below(g, 100) < percent; }

int64_t gen_size(Gen *g) {
  static const int64_t size[] = {1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64};
  return gen_chance(g, 3) ? 0 : size[gen_below(g, sizeof size / sizeof *size)];
}

Dim gen_dim(Gen *g) {
  switch (gen_below(g, g->kind == RANDOM_CHAINS ? 6 : 12)) {
  case 0:
  case 1: return g->batch;
  case 2: return g->time;
  case 3: return g->any;
  default: return ir_dim(g->p, gen_size(g));
  }
}

// ---- shapes
Shape gen_shape_at(const Gen *g, Val v) { return ir_ins(g->f, v)->shape; }

Dims gen_dims(const Gen *g, Val v) {
  Dims d = {.n = ir_rank(g->p, gen_shape_at(g, v))};
  for (uint32_t k = 0; k < d.n; k++) d.d[k] = ir_dim_at(g->p, gen_shape_at(g, v), k);
  return d;
}

Shape gen_shape(Gen *g, const Dims *d) { return ir_shape(g->p, d->d, d->n); }
bool gen_is_one(const Gen *g, Dim d) { return ir_dim_is_const(g->p, d) && ir_dim_bound(g->p, d) == 1; }
bool gen_is_small(Gen *g, Shape s) { return ir_shape_bound(g->p, s) <= MAX_ELEMENTS; }

static bool is_found_by_run(const Gen *g, Dim d) {
  const char *name = ir_text(g->p, ir_dim_info(g->p, d)->name);
  return !strncmp(name, "rows", 4) || !strncmp(name, "live", 4);
}

static bool is_plain(const Gen *g, Dim d) {  // an axis that an input may have
  return ir_dim_is_const(g->p, d) || (ir_dim_info(g->p, d)->kind == DIM_SYM && !is_found_by_run(g, d));
}

Shape gen_random_shape(Gen *g) {
  for (;;) {
    Dims d = {.n = gen_chance(g, g->kind == RANDOM_CHAINS ? 20 : 8) ? 0 : 1 + gen_below(g, gen_chance(g, 20) ? 5 : 3)};
    for (uint32_t k = 0; k < d.n; k++) d.d[k] = gen_dim(g);
    Shape s = gen_shape(g, &d);
    if (gen_is_small(g, s)) return s;
  }
}

// ---- pool
static uint32_t depth_of(const Gen *g, Val v) {
  uint32_t most = 0;
  Val h = ir_head(g->f, v);
  for (uint32_t k = 0; k < ir_ins(g->f, h)->n_args; k++)
    for (uint32_t j = 0; j < g->n; j++)
      if (g->pool[j].v.i == ir_arg(g->f, h, k).i && g->pool[j].depth + 1 > most) most = g->pool[j].depth + 1;
  return most;
}

uint32_t gen_scope(const Gen *g) { return g->n_open ? g->open[g->n_open - 1] : 0; }

// ---- rows of packed sequences
static bool is_mark(Op op) { return ir_ops[op].cls == CLASS_SCAN && !ir_ops[op].n_res; }

static bool keeps_apart(Gen *g, const RowsCall *c, RowsEffect *e) {
  *e = (RowsEffect){0};
  if (is_mark(c->op)) return true;
  if (c->op == OP_write) return ir_rows_written(g->rows, e, g->f, c->a[0], c->a[1]);
  return ir_rows_meet(e, c) && ir_none(e->mixed);
}

// What would mix sequences is computed of rows that are said to be just rows.
static void say_plain(Gen *g, Val *a, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    if (!ir_rows_at(g->rows, a[k]).layout || ir_ins(g->f, a[k])->dtype == DT_LAYOUT) continue;
    a[k] = ir_emit(g->f, OP_rows, &a[k], 1, NULL, 0, ir_loc(g->p, "random.c", ++g->serial));
    ir_set_rows(g->rows, a[k], (Rows){.is_plain = true});
  }
}

Val gen_emit(Gen *g, Op op, const Val *args, uint32_t n, const Attr *attrs, uint32_t n_attrs) {
  Val *a = rt_alloc(g->p->mem, (n + 1) * sizeof *a);
  RowsCall call = {g->f, g->rows, op, a, n, n_attrs, attrs};
  RowsEffect effect;
  for (uint32_t k = 0; k < n; k++) a[k] = args[k];
  if (!keeps_apart(g, &call, &effect)) {
    say_plain(g, op == OP_write ? a + 1 : a, op == OP_write ? 1 : n);
    keeps_apart(g, &call, &effect);
  }
  Val mark = {g->f->n_ins};
  Val v = ir_emit(g->f, op, a, n, attrs, n_attrs, ir_loc(g->p, "random.c", ++g->serial));
  if (is_mark(op) && g->f->n_ins > mark.i) ir_rows_pass_mark(g->rows, g->f, mark);
  if (ir_none(v)) rt_diags_clear(&g->p->diags);  // not every pick fits: the step is given up
  else if (ir_ops[op].n_res) ir_rows_follow(&effect, &call, v);
  return v;
}

Val gen_keep(Gen *g, Val v, double mag) {
  if (ir_none(v)) return v;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) return v;  // its owner stays
  bool is_leaf = ir_ops[ir_ins(g->f, v)->op].cls == CLASS_LEAF && ir_ins(g->f, v)->op != OP_result;
  if (g->n == MAX_POOL) memmove(g->pool, g->pool + 1, --g->n * sizeof *g->pool);
  Item it = {.v = v, .mag = mag, .scope = is_leaf ? 0 : gen_scope(g)};
  it.depth = depth_of(g, v);
  g->pool[g->n++] = it;
  return v;
}

void gen_forget(Gen *g, Val v) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) {
      memmove(g->pool + k, g->pool + k + 1, (--g->n - k) * sizeof *g->pool);
      return;
    }
}

double gen_mag(const Gen *g, Val v) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) return g->pool[k].mag;
  return 2;
}

bool gen_is_f32(const Gen *g, Val v) { return ir_ins(g->f, v)->dtype == DT_F32; }

// ---- leaves
const char *gen_fresh(Gen *g, const char *stem) { return rt_printf(g->p->mem, "%s%u", stem, ++g->serial); }

bool gen_may_be_input(const Gen *g, Shape s) {
  for (uint32_t k = 0; k < ir_rank(g->p, s); k++)
    if (!is_plain(g, ir_dim_at(g->p, s, k))) return false;
  return g->f->n_inputs < MAX_INPUTS;
}

Val gen_input(Gen *g, const char *stem, DType t, Shape s) {
  const char *name = gen_fresh(g, stem);
  return ir_input(g->f, name, t, s, ir_loc(g->p, "random.c", g->serial));
}

static Val read_param(Gen *g, uint32_t param) {
  g->param_used[param] = true;
  return gen_keep(g, ir_param(g->f, param, (Loc){0}), 2);
}

Val gen_param(Gen *g, const char *stem, Shape s) {
  const char *path = rt_printf(g->p->mem, "%s%u.%s", stem, g->p->n_params, ir_text(g->p, g->f->name));
  uint32_t k = ir_param_add(g->p, path, PARAM_WEIGHT, DT_F32, s, true, (Loc){0});
  return read_param(g, k);
}

Val gen_entry(Gen *g, const char *stem, DType t, Shape s) {
  const char *path = rt_printf(g->p->mem, "%s%u.%s", stem, g->p->n_params, ir_text(g->p, g->f->name));
  bool is_float = FLOATS >> t & 1;
  uint32_t k = ir_param_add(g->p, path, is_float ? PARAM_WEIGHT : PARAM_BUFFER, t, s, is_float, (Loc){0});
  g->param_used[k] = true;
  return ir_param(g->f, k, (Loc){0});
}

// A weight of 16 bits, as f32.
static Val half_param(Gen *g, Shape s) {
  Val v = gen_entry(g, "h", gen_chance(g, 50) ? DT_F16 : DT_BF16, s);
  Attr type = ir_a_int(KEY_dtype, DT_F32);
  return gen_keep(g, gen_emit(g, OP_cast, &v, 1, &type, 1), 2);
}

// A parameter of an earlier function with this shape, which this one has not read yet.
static Val old_param(Gen *g, Shape s) {
  for (uint32_t k = 0; k < g->n_params; k++)
    if (!g->param_used[k] && g->p->params[k].shape.i == s.i && g->p->params[k].dtype == DT_F32 &&
        strncmp(ir_text(g->p, g->p->params[k].path), "pos", 3))
      return read_param(g, k);
  return (Val){0};
}

static Val given_numbers(Gen *g, Shape s) {
  int64_t n = ir_shape_bound(g->p, s);
  float *v = rt_alloc(g->p->mem, (size_t)(n + 1) * sizeof *v);
  for (int64_t k = 0; k < n; k++) v[k] = (float)gen_below(g, 25) * 0.25f - 3;
  return gen_keep(g, ir_table(g->f, DT_F32, s, v, (Loc){0}), 3);
}

static Val made_by_nobody(Gen *g, Shape s) {
  if (ir_shape_is_const(g->p, s) && gen_chance(g, 20)) return given_numbers(g, s);
  Attr a[4];
  uint32_t n = 0;
  Op op = (Op[]){OP_full, OP_uniform, OP_normal, OP_rand, OP_randn}[gen_below(g, 5)];
  if (op == OP_full) a[n++] = ir_a_num(KEY_value, (int)gen_below(g, 9) * 0.5 - 2);
  if (op == OP_uniform) a[n++] = ir_a_num(KEY_lo, -1), a[n++] = ir_a_num(KEY_hi, 1.5);
  if (op == OP_normal) a[n++] = ir_a_num(KEY_mean, 0.25), a[n++] = ir_a_num(KEY_std, 0.5);
  if (op != OP_full) a[n++] = ir_a_int(KEY_id, g->p->next_id++);
  a[n++] = ir_a_list(KEY_shape, s);
  return gen_keep(g, gen_emit(g, op, NULL, 0, a, n), 3);
}

Val gen_leaf(Gen *g, Shape s) {
  bool can_input = gen_may_be_input(g, s), can_param = ir_shape_is_const(g->p, s);
  if (ir_rank(g->p, s) == 0 && gen_chance(g, 50)) return ir_const(g->f, (int)gen_below(g, 13) * 0.5 - 3, (Loc){0});
  if (!can_input || gen_chance(g, 12)) return made_by_nobody(g, s);
  if (can_param && gen_chance(g, 40)) {
    if (gen_chance(g, 15)) return half_param(g, s);
    Val old = gen_chance(g, 50) ? old_param(g, s) : (Val){0};
    return ir_none(old) ? gen_param(g, "w", s) : old;
  }
  return gen_keep(g, gen_input(g, "x", DT_F32, s), 2);
}

// ---- picking operands
Val gen_pick_where(Gen *g, bool (*fits)(Gen *g, Val v)) {
  Val found = {0};
  uint32_t n = 0;
  for (uint32_t k = 0; k < g->n; k++) {
    if (!fits(g, g->pool[k].v)) continue;
    n += 1 + k / 4;  // newer ones more often
    if (gen_below(g, n) < 1 + k / 4) found = g->pool[k].v;
  }
  return found;
}

bool gen_any_f32(Gen *g, Val v) { return gen_is_f32(g, v); }
bool gen_any_value(Gen *g, Val v) { return ir_ins(g->f, v)->dtype != DT_LAYOUT; }
bool gen_any_row(Gen *g, Val v) { return gen_is_f32(g, v) && ir_rank(g->p, gen_shape_at(g, v)) > 0; }
bool gen_any_matrix(Gen *g, Val v) { return gen_is_f32(g, v) && ir_rank(g->p, gen_shape_at(g, v)) > 1; }

Val gen_pick(Gen *g) {
  Val v = gen_chance(g, 10) ? (Val){0} : gen_pick_where(g, gen_any_f32);
  return ir_none(v) ? gen_leaf(g, gen_random_shape(g)) : v;
}

Val gen_number(Gen *g, double x) { return ir_const(g->f, x, (Loc){0}); }
Val gen_op1(Gen *g, Op op, Val a) { return gen_emit(g, op, &a, 1, NULL, 0); }
Val gen_op2(Gen *g, Op op, Val a, Val b) { return gen_emit(g, op, (Val[]){a, b}, 2, NULL, 0); }

Val gen_tame(Gen *g, Val v, double limit) {  // |v| at most about limit
  if (gen_mag(g, v) <= limit) return v;
  return gen_chance(g, 50) ? gen_keep(g, gen_op1(g, OP_tanh, v), 1)
                           : gen_keep(g, gen_op2(g, OP_mul, v, gen_number(g, limit / gen_mag(g, v) / 2)), limit / 2);
}

Val gen_positive(Gen *g, Val v, double least) {
  Val size = gen_op1(g, OP_abs, v);
  return gen_op2(g, OP_add, size, gen_number(g, least));
}

Val gen_keep_tame(Gen *g, Val v, double mag) {
  if (ir_none(v)) return v;
  gen_keep(g, v, mag);
  return mag > 1e3 ? gen_tame(g, v, 8) : v;
}

// An operand that broadcasts with v: of v's shape, with axes dropped or of size 1, now and then wider where v has
// size 1.
Val gen_partner(Gen *g, Val v) {
  if (gen_chance(g, 25)) {
    Val o = gen_pick_where(g, gen_any_f32);
    if (!ir_none(o) && gen_shape_at(g, o).i == gen_shape_at(g, v).i) return o;
  }
  Dims d = gen_dims(g, v);
  bool wide = gen_chance(g, 15);
  for (uint32_t k = 0; k < d.n; k++) {
    if (wide && gen_is_one(g, d.d[k])) d.d[k] = gen_dim(g);
    else if (gen_chance(g, 25)) d.d[k] = ir_dim(g->p, 1);
  }
  uint32_t drop = gen_chance(g, 40) ? gen_below(g, d.n + 1) : 0;
  memmove(d.d, d.d + drop, (d.n - drop) * sizeof *d.d);
  d.n -= drop;
  if (wide && d.n < 4 && gen_chance(g, 30)) {
    memmove(d.d + 1, d.d, d.n++ * sizeof *d.d);
    d.d[0] = ir_dim(g->p, 1 + gen_below(g, 3));
  }
  Shape s = gen_shape(g, &d);
  return gen_is_small(g, s) ? gen_leaf(g, s) : gen_number(g, 0.75);
}

// ---- steps: scopes
void add_scope(Gen *g) {
  if (g->n_open == MAX_OPEN) return;
  const char *name = gen_fresh(g, "s");
  uint32_t k = ir_scope_open(g->f, gen_scope(g), name, (Loc){0});
  Attr a[2] = {ir_a_int(KEY_scope, k), ir_a_str(KEY_name, ir_str(g->p, name))};
  gen_emit(g, OP_scope_begin, NULL, 0, a, 2);
  g->open[g->n_open++] = k;
  g->f->cur_scope = k;
}

static bool is_computed(Gen *g, Val v) { return ir_ops[ir_ins(g->f, ir_head(g->f, v))->op].cls != CLASS_LEAF; }

void close_scope(Gen *g) {
  if (!g->n_open) return;
  uint32_t k = g->open[g->n_open - 1], outer = g->n_open > 1 ? g->open[g->n_open - 2] : 0;
  for (uint32_t i = 0; i < g->n;) {
    Item *it = &g->pool[i];
    if (it->scope != k) {
      i++;
      continue;
    }
    if (!gen_chance(g, 60)) {
      gen_forget(g, it->v);
      continue;
    }
    it->scope = gen_chance(g, 15) ? 0 : outer;
    it->detached = is_computed(g, it->v) && gen_chance(g, 10);
    Attr a = ir_a_int(KEY_scope, it->detached ? -1 : (int64_t)it->scope);
    if (it->detached) it->scope = 0;
    gen_emit(g, OP_move, &it->v, 1, &a, 1);
    i++;
  }
  for (uint32_t i = 0; i < g->n_layouts;)
    if (g->layout[i].scope == k) g->layout[i] = g->layout[--g->n_layouts];
    else i++;
  Attr a = ir_a_int(KEY_scope, k);
  gen_emit(g, OP_scope_end, NULL, 0, &a, 1);
  g->n_open--;
  g->f->cur_scope = outer;
}

static Item *item_of(Gen *g, Val v) {
  for (uint32_t k = 0; k < g->n; k++)
    if (g->pool[k].v.i == v.i) return &g->pool[k];
  return NULL;
}

// A detached value gets an owner again, now or some steps later.
void add_attach(Gen *g) {
  Val v = gen_pick_where(g, is_computed);
  if (ir_none(v)) return;
  Item *it = item_of(g, v);
  Attr out = ir_a_int(KEY_scope, -1), in = ir_a_int(KEY_scope, gen_scope(g));
  if (!it->detached) gen_emit(g, OP_move, &v, 1, &out, 1);
  bool attach = it->detached || gen_chance(g, 70);
  if (attach) gen_emit(g, OP_attach, &v, 1, &in, 1);
  it->detached = !attach, it->scope = attach ? gen_scope(g) : 0;
}

void add_dispose(Gen *g) {
  Val v = gen_pick_where(g, gen_any_value);
  if (ir_none(v) || ir_ops[ir_ins(g->f, ir_head(g->f, v))->op].cls == CLASS_LEAF) return;
  gen_emit(g, OP_dispose, &v, 1, NULL, 0);
  gen_forget(g, v);
}

// One of the older values is read behind the newest: it lives all that while, or is made again where the arena is limited.
static void add_late_use(Gen *g) {
  if (g->n < 4) return;
  Val v = g->pool[gen_below(g, g->n / 2)].v, newest = g->pool[g->n - 1].v;
  if (!gen_is_f32(g, v) || !is_computed(g, v) || !gen_is_f32(g, newest)) return;
  Val s = gen_op1(g, OP_tanh, gen_scalar_of(g, newest));
  gen_keep(g, gen_op2(g, OP_mul, v, s), gen_mag(g, v));
}

// ---- a function
typedef struct {
  void (*add)(Gen *g);
  uint32_t weight[4];  // by kind of program
  bool in_scan;
} Step;
#define STEP(name, weight, in_chains, in_scan) {name, {weight, in_chains, weight, weight}, in_scan},
#define CALLS(name, weight) {name, {0, 0, 0, weight}, true},
static const Step steps[] = {
#include "tests/random_steps.def"
};
enum { N_STEPS = sizeof steps / sizeof *steps };

static uint32_t weight_of(const Gen *g, const Step *s) { return g->in_scan && !s->in_scan ? 0 : s->weight[g->kind]; }

void gen_add_step(Gen *g) {
  uint32_t total = 0, k = 0;
  for (uint32_t i = 0; i < N_STEPS; i++) total += weight_of(g, &steps[i]);
  uint32_t at = gen_below(g, total);
  for (; at >= weight_of(g, &steps[k]); k++) at -= weight_of(g, &steps[k]);
  steps[k].add(g);
}

static bool is_read(const Gen *g, Val v) {
  for (uint32_t i = v.i + 1; i < g->f->n_ins; i++) {
    const Ins *ins = ir_ins(g->f, (Val){i});
    bool reads = ins->op != OP_result && (ir_ops[ins->op].cls != CLASS_MARK || ins->op == OP_grad_of);
    for (uint32_t k = 0; reads && k < ins->n_args; k++)
      if (ir_arg(g->f, (Val){i}, k).i == v.i) return true;
  }
  return false;
}

// What nothing reads is dead unless it is handed out.
static bool is_worth_handing_out(Gen *g, Val v) { return gen_any_value(g, v) && !is_read(g, v); }

static void add_outputs(Gen *g) {
  uint32_t n = 1 + gen_below(g, gen_chance(g, 60) ? 12 : 4);
  for (uint32_t k = 0; k < n; k++) {
    Val v = k == 0 && g->n ? g->pool[g->n - 1].v : (Val){0};
    if (ir_none(v)) v = gen_pick_where(g, gen_chance(g, 70) ? is_worth_handing_out : gen_any_value);
    if (ir_none(v)) v = gen_pick(g);
    char name[16];
    snprintf(name, sizeof name, "y%u", k);
    Attr a[2] = {ir_a_str(KEY_name, ir_str(g->p, name)), ir_a_int(KEY_index, g->f->n_outputs)};
    gen_emit(g, OP_output, &v, 1, a, 2);
  }
}

static uint32_t number_of_steps(Gen *g) {
  if (g->kind == RANDOM_NETWORKS) return gen_below(g, 6);
  return 2 + gen_below(g, g->kind == RANDOM_CHAINS ? 7 : gen_chance(g, 25) ? 28 : 11);
}

static void add_function(Gen *g, uint32_t number) {
  char name[16];
  snprintf(name, sizeof name, "f%u", number);
  g->f = ir_fn_new(g->p, name, (Loc){0});
  g->own_rows = (RowsMap){.mem = g->p->mem}, g->rows = &g->own_rows;
  g->n = g->n_layouts = g->n_open = g->n_scans = 0;
  g->n_params = g->p->n_params;
  g->param_used = rt_alloc(g->p->mem, g->n_params + 256);
  if (gen_chance(g, 80)) gen_leaf(g, gen_random_shape(g));
  if (g->kind == RANDOM_NETWORKS) gen_add_network(g);
  uint32_t n = number_of_steps(g);
  for (uint32_t k = 0; k < n && g->p->n_params < g->n_params + 200; k++)
    if (g->kind == RANDOM_NETWORKS && gen_chance(g, 20)) add_late_use(g);
    else if (g->kind == RANDOM_CALLS && gen_chance(g, 12)) add_grads(g);
    else gen_add_step(g);
  while (g->n_open) close_scope(g);
  add_outputs(g);
}

Prog *random_program(RtArena *mem, RandomKind kind, uint64_t seed, uint32_t n_functions) {
  Gen g = {.p = ir_prog_new(mem, "random"), .r = {seed}, .kind = kind};
  g.batch = ir_dim_sym(g.p, "batch", (int64_t[]){1, 3, 5, 8, 17}[gen_below(&g, 5)]);
  g.time = ir_dim_sym(g.p, "time", (int64_t[]){1, 4, 7, 9}[gen_below(&g, 4)]);
  g.any = ir_dim_sym(g.p, "any", (int64_t[]){2, 6, 16, 33}[gen_below(&g, 4)]);
  for (uint32_t k = 0; k < n_functions; k++) add_function(&g, k);
  return g.p;
}
