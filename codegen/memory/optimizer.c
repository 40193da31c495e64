// Optimizer updates, made of the rows of ir/optimizers.def, and the global gradient norm.
//
// Scalars are computed in doubles, tensors in floats, as PyTorch does. All updates of a kernel share one helper function
// per row and set of attributes, called once for each tensor: a step over a hundred tensors is a hundred calls, not a
// hundred loops. Elements are independent, so how they are split is free.
#include "codegen/memory/optimizer.h"
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/span.h"
#include "ir/build.h"
#include "ir/interp/interpret.h"
#include "ir/storage.h"

#include <stddef.h>
#include <string.h>

enum { SMALL = 4096, GRAIN = 16 };  // a kernel with fewer elements is one worker's; others are cut in units of GRAIN

// ---- scalars
static V scalar_arg(Cg *c, Val v) {
  double k;
  if (ir_is_const(c->f, v, &k)) return cg_f32(c, k);
  return cg_load(c, c->f32, cg_ptr(c, v));
}
static V f64_of(Cg *c, V v) { return cg_fpext(c, v, c->f64); }
static V k64(Cg *c, double v) { return LLVMConstReal(c->f64, v); }
static V f32_of(Cg *c, V v) { return cg_fptrunc(c, v, c->f32); }

// double power(double base, i64 n): base^n for a whole number n in [0, 2^24], by squaring.
static void make_power(Cg *c, V fn, void *ctx) {
  (void)ctx;
  enum { RESULT, SQUARE, REST };
  V x[] = {k64(c, 1), LLVMGetParam(fn, 0), LLVMGetParam(fn, 1)};
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, 25), cg_i64(c, 1), x, 3); cg_next(&l);) {
    V odd = cg_trunc(c, x[REST], c->i1);
    x[RESULT] = cg_select(c, odd, cg_fmul(c, x[RESULT], x[SQUARE]), x[RESULT]);
    x[SQUARE] = cg_fmul(c, x[SQUARE], x[SQUARE]);
    x[REST] = cg_lshr(c, x[REST], cg_i64(c, 1));
  }
  LLVMBuildRet(c->b, x[RESULT]);
}

static V power(Cg *c, V base, V n) {
  LLVMTypeRef type = LLVMFunctionType(c->f64, (LLVMTypeRef[]){c->f64, c->i64}, 2, false);
  V fn = cg_helper(c, "power", type, make_power, NULL);
  return LLVMBuildCall2(c->b, type, fn, (V[]){base, n}, 2, "");
}

// ---- statements of a row
// A term of an expression: a constant, known now in doubles, or a computed value.
typedef struct {
  V v;  // NULL: a constant
  double num;
} Operand;

typedef struct {
  Cg *c;
  const UpdateRule *r;
  bool is_scalar;  // in doubles, one lane; else in floats, a vector
  V reg[IR_N_REGISTERS];
} Statements;

static uint32_t n_tensors(const UpdateRule *r) { return r->row->n_tensors; }
static uint32_t n_scalars(const UpdateRule *r) { return r->row->n_inputs + r->scales_gradient; }

static V number(const Statements *u, double x) { return u->is_scalar ? k64(u->c, x) : cg_splat(u->c, cg_f32(u->c, x)); }
static V computed(const Statements *u, Operand x) { return x.v ? x.v : number(u, x.num); }

static Operand attribute(const UpdateRule *r, const ExNode *n) {
  uint32_t k = 0;
  while (r->row->keys[k] != n->arg) k++;
  if (n->kind == UP_FLAG) return (Operand){NULL, r->has_key[k]};
  return (Operand){NULL, r->has_key[k] ? r->key[k] : n->num};
}

// torch.lerp: of a constant weight the form that is exact at the nearer end.
static Operand lerp(const Statements *u, const Operand *x) {
  Cg *c = u->c;
  V from = computed(u, x[0]), to = computed(u, x[1]), d = cg_fsub(c, to, from);
  if (x[2].v) return (Operand){cg_fma(c, x[2].v, d, from), 0};
  double weight = x[2].num;
  if (weight < 0.5) return (Operand){cg_fma(c, number(u, weight), d, from), 0};
  return (Operand){cg_fma(c, number(u, -(1 - weight)), d, to), 0};
}

// The number of steps that `power` takes: n cut toward zero, in [0, 2^24]; 0 for NaN.
static V whole_steps(Cg *c, V n) {
  V some = cg_fcmp(c, LLVMRealOGT, n, k64(c, 0));
  V most = cg_fcmp(c, LLVMRealOLT, n, k64(c, 0x1p24));
  n = cg_select(c, some, cg_select(c, most, n, k64(c, 0x1p24)), k64(c, 0));
  return LLVMBuildFPToSI(c->b, n, c->i64, "step");
}

static Operand apply(const Statements *u, Op op, const Operand *x) {
  uint32_t n = ir_ops[op].n_min, n_const = 0;
  if (op == OP_select && !x[0].v) return x[0].num != 0 ? x[1] : x[2];
  for (uint32_t k = 0; k < n; k++) n_const += !x[k].v;
  if (n_const == n) return (Operand){NULL, ir_primitive(op, x[0].num, x[1].num, x[2].num)};
  V arg[3];
  for (uint32_t k = 0; k < n; k++) arg[k] = computed(u, x[k]);
  LLVMTypeRef t = LLVMTypeOf(arg[0]);
  // The instruction alone: beside a quotient and so many other operations multiply-adds have no time left (167).
  if (op == OP_sqrt) return (Operand){cg_call_intrinsic(u->c, "llvm.sqrt", &t, 1, arg, 1), 0};
  return (Operand){cg_primitive(u->c, op, arg), 0};
}

static Operand eval_node(const Statements *u, const ExNode *n, const Operand *x) {
  Cg *c = u->c;
  switch (n->kind) {
  case EX_NUM: return (Operand){NULL, n->num};
  case EX_OP: return apply(u, (Op)n->op, x);
  case UP_REGISTER: return (Operand){u->reg[n->arg], 0};
  case UP_FMA: return (Operand){cg_fma(c, computed(u, x[0]), computed(u, x[1]), computed(u, x[2])), 0};
  case UP_LERP: return lerp(u, x);
  case UP_POWER: return (Operand){power(c, computed(u, x[0]), whole_steps(c, computed(u, x[1]))), 0};
  default: return attribute(u->r, n);
  }
}

static void run_lets(Statements *u, const IrLet *lets, uint32_t n) {
  for (uint32_t k = 0; k < n; k++) {
    Operand stack[32] = {0};
    uint32_t top = 0;
    for (uint32_t i = 0; i < lets[k].value.n; i++) {
      const ExNode *node = &lets[k].value.nodes[i];
      top -= ir_operands_taken(node->kind, node->op);
      stack[top] = eval_node(u, node, &stack[top]);
      top++;
    }
    u->reg[lets[k].reg] = computed(u, stack[0]);
  }
}

// ---- the helpers
static UpdateRule rule_of(Cg *c, Val v) {
  Op op = (Op)ir_ins(c->f, v)->op;
  UpdateRule r = {.row = ir_update_at(c->f, v), .op = op == OP_adamw_sparse ? OP_adamw : op};
  for (uint32_t k = 0; k < r.row->n_keys; k++) {
    const Attr *a = ir_attr(c->f, v, (Key)r.row->keys[k]);
    r.has_key[k] = a != NULL;
    if (a && ir_key_kind[a->key] == KIND_NUM) r.key[k] = a->u.f;
  }
  r.scales_gradient = ir_has_operand(c->f, v, ARG_grad_scale);
  return r;
}

// x: tensors in operand order, the last one is the gradient; s: what the row reads beside them.
static void update(Cg *c, const UpdateRule *r, V *x, V *s) {
  uint32_t gradient = n_tensors(r) - 1;
  const OperandInfo *operand = ir_ops[r->op].operands;
  Statements u = {.c = c, .r = r};
  if (r->scales_gradient) x[gradient] = cg_fmul(c, x[gradient], s[n_scalars(r) - 1]);
  for (uint32_t k = 0; k <= gradient; k++) u.reg[operand[k].name] = x[k];
  for (uint32_t k = 0; k < r->row->n_inputs; k++) u.reg[r->row->inputs[k]] = s[k];
  run_lets(&u, r->row->elements, r->row->n_elements);
  for (uint32_t k = 0; k < gradient; k++) x[k] = u.reg[operand[k].name];
}

static bool is_zero(const UpdateRule *r, uint32_t k) { return r->zero_gradient && k + 1 == n_tensors(r); }

// void update(ptr x0.., f32 s0.., i64 lo, i64 hi): elements [lo, hi) of every tensor.
static void make_update(Cg *c, V fn, void *ctx) {
  const UpdateRule *r = ctx;
  uint32_t n = n_tensors(r), n_s = n_scalars(r);
  V scalar[MAX_SCALARS], x[MAX_TENSORS];
  View at[MAX_TENSORS];
  for (uint32_t k = 0; k < n; k++) at[k] = cg_view(LLVMGetParam(fn, k), DT_F32);
  for (uint32_t k = 0; k < n_s; k++) scalar[k] = cg_splat(c, LLVMGetParam(fn, n + k));
  for (Span s = cg_span(c, LLVMGetParam(fn, n + n_s), LLVMGetParam(fn, n + n_s + 1)); cg_next_vector(&s);) {
    for (uint32_t k = 0; k < n; k++) x[k] = is_zero(r, k) ? cg_zeros(c) : cg_span_get(&s, at[k]);
    update(c, r, x, scalar);
    for (uint32_t k = 0; k + 1 < n; k++) cg_span_put(&s, at[k], x[k]);
  }
  LLVMBuildRetVoid(c->b);
}

// ---- calls
// A helper is found again by its name, which states the rule.
static const char *rule_name(Cg *c, const UpdateRule *r) {
  RtText t = {.mem = c->mem};
  rt_text_add(&t, "%s%s", ir_ops[r->op].name, r->row == ir_update_of(r->op, false) ? "" : ".beta1");
  for (uint32_t k = 0; k < r->row->n_keys; k++)
    if (r->has_key[k]) rt_text_add(&t, ".%s.%a", ir_key_name[r->row->keys[k]], r->key[k]);
  rt_text_add(&t, ".%d%d", r->scales_gradient, r->zero_gradient);
  return t.text;
}

// Numbers of the run are operands by name; the row's scalars are computed from them.
typedef struct {
  const UpdateRule *rule;
  ArgName name[MAX_OPERANDS];
  uint32_t n;
} Numbers;

static Numbers numbers_of(const Fn *f, const UpdateScalars *m) {
  const OpInfo *op = &ir_ops[ir_ins(f, m->v)->op];
  Numbers in = {.rule = &m->rule};
  for (uint32_t k = m->rule.row->n_tensors - 1; k < op->n_operands; k++) {
    ArgName name = (ArgName)op->operands[k].name;
    bool is_tensor = name == ARG_grad || name == ARG_g || name == ARG_owned || (name >= ARG_index && name <= ARG_best);
    if (!is_tensor && !ir_none(ir_operand(f, m->v, name))) in.name[in.n++] = name;
  }
  return in;
}

// void scalars(ptr s, f32 numbers..)
static void make_scalars(Cg *c, V fn, void *ctx) {
  const Numbers *in = ctx;
  const IrUpdate *row = in->rule->row;
  V to = LLVMGetParam(fn, 0);
  Statements u = {.c = c, .r = in->rule, .is_scalar = true};
  for (uint32_t k = 0; k < in->n; k++) u.reg[in->name[k]] = f64_of(c, LLVMGetParam(fn, 1 + k));
  run_lets(&u, row->scalars, row->n_scalars);
  for (uint32_t k = 0; k < row->n_inputs; k++) cg_put(c, f32_of(c, u.reg[row->inputs[k]]), to, cg_i64(c, k));
  LLVMBuildRetVoid(c->b);
}

static void compute_scalars(Cg *c, UpdateScalars *m) {
  Numbers in = numbers_of(c->f, m);
  V arg[1 + MAX_OPERANDS];
  RtText name = {.mem = c->mem};
  if (!m->room) m->room = cg_stack_block(c, c->f32, MAX_SCALARS);
  arg[0] = m->room;
  rt_text_add(&name, "%s.scalars", rule_name(c, &m->rule));
  for (uint32_t k = 0; k < in.n; k++) {
    arg[1 + k] = scalar_arg(c, ir_operand(c->f, m->v, in.name[k]));
    rt_text_add(&name, ".%s", ir_arg_name[in.name[k]]);
    if (in.name[k] == ARG_grad_scale) m->s[m->rule.row->n_inputs] = arg[1 + k];
    if (in.name[k] == ARG_when) m->when = LLVMBuildFCmp(c->b, LLVMRealUNE, arg[1 + k], cg_f32(c, 0), "when");
  }
  cg_call_helper(c, name.text, arg, 1 + in.n, make_scalars, &in);
  for (uint32_t k = 0; k < m->rule.row->n_inputs; k++) m->s[k] = cg_get(c, c->f32, m->room, cg_i64(c, k));
}

static bool same_rule(const UpdateRule *a, const UpdateRule *b) {
  if (a->row != b->row || a->scales_gradient != b->scales_gradient) return false;
  return !memcmp(a->key, b->key, sizeof a->key) && !memcmp(a->has_key, b->has_key, sizeof a->has_key);
}

static bool same_scalars(const Fn *f, const UpdateRule *r, Val a, Val b) {
  const OpInfo *op = &ir_ops[r->op];
  for (uint32_t k = r->row->n_tensors; k < op->n_operands; k++) {
    ArgName name = (ArgName)op->operands[k].name;
    if (ir_operand(f, a, name).i != ir_operand(f, b, name).i) return false;
  }
  return true;
}

// Scalars of the update at v, computed once for a run of updates that share them.
void cg_update_scalars(Cg *c, UpdateScalars *m, Val v) {
  UpdateScalars next = {.rule = rule_of(c, v), .v = v, .room = m->room};
  if (m->rule.row && same_rule(&m->rule, &next.rule) && same_scalars(c->f, &m->rule, m->v, v)) return;
  *m = next;
  compute_scalars(c, m);
}

void cg_update_call(Cg *c, UpdateScalars *m, V *x, V lo, V hi) {
  uint32_t n = n_tensors(&m->rule), n_s = n_scalars(&m->rule), k = 0;
  V arg[MAX_TENSORS + MAX_SCALARS + 2];
  for (; k < n; k++) arg[k] = x[k];
  for (; k < n + n_s; k++) arg[k] = m->s[k - n];
  arg[k] = lo, arg[k + 1] = hi;
  for (If on = cg_when(c, m->when); cg_then(&on);)
    cg_call_helper(c, rule_name(c, &m->rule), arg, k + 2, make_update, &m->rule);
}

static void call_update(Cg *c, UpdateScalars *m, Val v, V lo, V hi) {
  V x[MAX_TENSORS];
  for (uint32_t k = 0; k < n_tensors(&m->rule); k++) x[k] = cg_ptr(c, ir_arg(c->f, v, k));
  cg_update_call(c, m, x, lo, hi);
}

static bool gradient_is_stored(Cg *c, Val v) {
  Val g = ir_operand(c->f, v, ARG_grad);
  if (cg_stored(c, g)) return true;
  rt_text_add(c->why, "the gradient %%%u of an update is not stored", g.i);
  return false;
}

// Elements [lo, hi) of a tensor, and the units that they are cut into.
typedef struct {
  V lo, hi, units;
} Part;

// range: its first and last element, i64[2] in memory; none: the tensor is all this process's
static Part part_of(Cg *c, Shape shape, Val range, int64_t unit) {
  Part p = {cg_i64(c, 0), cg_numel(c, shape), NULL};
  if (!ir_none(range)) cg_range(c, range, &p.lo, &p.hi);
  p.hi = cg_min(c, p.hi, cg_numel(c, shape));
  V rounded = cg_add(c, cg_sub(c, p.hi, p.lo), cg_i64(c, unit - 1));
  p.units = cg_div(c, rounded, cg_i64(c, unit));
  return p;
}

static bool is_dense_update(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  return ir_ops[ins->op].cls == CLASS_OPTIMIZER && !ir_updates_rows(f, v) && ir_shape_bound(f->prog, ins->shape);
}

static Part part_of_update(Cg *c, Val v) {
  return part_of(c, ir_ins(c->f, v)->shape, ir_operand(c->f, v, ARG_owned), GRAIN);
}

// Units of all tensors of the kernel are numbered in order; [lo, hi) belong to this worker.
static void share_units(Cg *c, V *lo, V *hi) {
  int64_t most = 0;
  V total = cg_i64(c, 0);
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    if (!is_dense_update(c->f, (Val){i})) continue;
    most += ir_shape_bound(c->f->prog, ir_ins(c->f, (Val){i})->shape);
    total = cg_add(c, total, part_of_update(c, (Val){i}).units);
  }
  cg_share(c, total, most < SMALL ? most + 1 : 1, lo, hi);
}

// The part of the tensor (units from `base` on) in units [lo, hi).
static void update_part(Cg *c, UpdateScalars *m, Val v, const Part *p, V base, V lo, V hi) {
  V grain = cg_i64(c, GRAIN);
  V from = cg_max(c, cg_sub(c, lo, base), cg_i64(c, 0)), to = cg_sub(c, hi, base);
  from = cg_add(c, p->lo, cg_mul(c, from, grain)), to = cg_min(c, cg_add(c, p->lo, cg_mul(c, to, grain)), p->hi);
  for (If any = cg_when(c, cg_lt(c, from, to)); cg_then(&any);) call_update(c, m, v, from, to);
}

bool cg_emit_optimizer(Cg *c) {
  UpdateScalars m = {0};
  V lo, hi, base = cg_i64(c, 0);
  share_units(c, &lo, &hi);
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    Val v = {i};
    const Ins *ins = ir_ins(c->f, v);
    if (ir_ops[ins->op].cls != CLASS_OPTIMIZER) continue;
    int64_t bound = ir_shape_bound(c->f->prog, ins->shape);
    if (bound == 0) continue;
    if (ir_updates_rows(c->f, v)) {
      cg_emit_sparse_update(c, &m, v);
      continue;
    }
    if (!gradient_is_stored(c, v)) return false;
    cg_update_scalars(c, &m, v);
    Part p = part_of_update(c, v);
    update_part(c, &m, v, &p, base, lo, hi);
    base = cg_add(c, base, p.units);
  }
  return true;
}

// ---- global norm: sums of squares of fixed chunks, then one worker adds them up in order
enum { CHUNK = 4096, LANES = 64, LEAST_VL = 4 };

static int64_t n_chunks(const Fn *f, Val operand) {
  return cg_ceil_div(ir_shape_bound(f->prog, ir_ins(f, operand)->shape), CHUNK);
}

static bool is_exchanged(const Fn *f, Val v) { return ir_attr(f, v, KEY_exchange) != NULL; }

static int64_t total_chunks(const Fn *f, Val v) {
  int64_t n = 0;
  uint32_t step = is_exchanged(f, v) ? 2 : 1;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k += step) n += n_chunks(f, ir_arg(f, v, k));
  return n;
}

int64_t cg_global_norm_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  return total_chunks(f, v) * (int64_t)sizeof(float);
}

// sum[k] += the squares of vector k of the LANES elements at x[i]
static void add_squares(Cg *c, V x, V i, V rest, V *sum) {
  for (uint32_t k = 0; k < LANES / c->t->vl; k++) {
    V skip = cg_i64(c, (int64_t)k * c->t->vl), mask = rest ? cg_mask(c, cg_sub(c, rest, skip)) : NULL;
    V v = cg_get_masked(c, c->vf, x, cg_add(c, i, skip), mask);
    sum[k] = cg_fma(c, v, v, sum[k]);
  }
}

// The sum of squares of x[lo, hi): LANES sums whatever a vector holds, so that targets agree, added by halves.
static V sum_squares(Cg *c, V x, V lo, V hi) {
  V sum[LANES / LEAST_VL], block = cg_i64(c, LANES);
  uint32_t n = LANES / c->t->vl;
  for (uint32_t k = 0; k < n; k++) sum[k] = cg_zeros(c);
  V whole = cg_add(c, lo, cg_multiple(c, cg_sub(c, hi, lo), block));
  for (Loop l = cg_carry(c, lo, whole, block, sum, n); cg_next(&l);) add_squares(c, x, l.i, NULL, sum);
  for (Loop rest = cg_carry(c, whole, hi, block, sum, n); cg_next(&rest);)
    add_squares(c, x, rest.i, cg_sub(c, hi, rest.i), sum);
  while (n /= 2)
    for (uint32_t k = 0; k < n; k++) sum[k] = cg_fadd(c, sum[k], sum[k + n]);
  return cg_reduce_add(c, sum[0]);
}

// void norm_chunks(ptr x, i64 n, ptr sums, i64 lo, i64 hi): chunks [lo, hi) of the n elements at x.
static void make_norm_chunks(Cg *c, V fn, void *ctx) {
  (void)ctx;
  V x = LLVMGetParam(fn, 0), n = LLVMGetParam(fn, 1), size = cg_i64(c, CHUNK);
  for (Loop l = cg_each(c, LLVMGetParam(fn, 3), LLVMGetParam(fn, 4)); cg_next(&l);) {
    V lo = cg_min(c, cg_mul(c, l.i, size), n), hi = cg_min(c, cg_add(c, lo, size), n);
    cg_put(c, sum_squares(c, x, lo, hi), LLVMGetParam(fn, 2), l.i);
  }
  LLVMBuildRetVoid(c->b);
}

// Chunks of all operands in this process's part are numbered in order. [lo, hi) belong to this worker; the
// operand's begin at `base`, its sums at `first`.
static void norm_operand(Cg *c, Val x, const Part *p, int64_t first, V base, V lo, V hi) {
  V zero = cg_i64(c, 0), skipped = cg_div(c, p->lo, cg_i64(c, CHUNK));
  V from = cg_add(c, skipped, cg_max(c, cg_sub(c, lo, base), zero));
  V to = cg_add(c, skipped, cg_min(c, cg_sub(c, hi, base), p->units));
  V sums = cg_at(c, c->f32, c->scratch, cg_i64(c, first)), numel = cg_numel(c, ir_ins(c->f, x)->shape);
  cg_call_helper(c, "norm_chunks", (V[]){cg_ptr(c, x), numel, sums, from, to}, 5, make_norm_chunks, NULL);
}

// Worker 0 adds the sums of other processes.
static void exchange_chunks(Cg *c, Val v) {
  V number = cg_i32(c, (int32_t)ir_attr_int(c->f, v, KEY_exchange, 0));
  cg_call_service(c, offsetof(TnServices, gather), (V[]){c->frame, number, c->scratch}, 3);
}

static void combine(Cg *c, Val v, V out, int64_t total) {
  V sum = k64(c, 0), sums = total ? c->scratch : out;  // without a chunk there is no scratch, and the loop never runs
  for (If first = cg_when(c, cg_first_worker(c)); cg_then(&first);) {
    if (total && is_exchanged(c->f, v)) exchange_chunks(c, v);
    for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, total), cg_i64(c, 1), &sum, 1); cg_next(&l);)
      sum = cg_fadd(c, sum, f64_of(c, cg_get(c, c->f32, sums, l.i)));
    V root = cg_call_intrinsic(c, "llvm.sqrt", &c->f64, 1, &sum, 1);
    cg_store(c, f32_of(c, root), out);
  }
}

// With one process, every chunk up to the bound has a sum; it is 0 if the run leaves the chunk empty.
static Part part_of_operand(Cg *c, Val v, uint32_t k) {
  Val range = is_exchanged(c->f, v) ? ir_arg(c->f, v, k + 1) : (Val){0};
  Part p = part_of(c, ir_ins(c->f, ir_arg(c->f, v, k))->shape, range, CHUNK);
  if (ir_none(range)) p.units = cg_i64(c, n_chunks(c->f, ir_arg(c->f, v, k)));
  return p;
}

bool cg_emit_global_norm(Cg *c) {
  Val v = {c->k->first};
  int64_t total = total_chunks(c->f, v), at = 0;
  uint32_t step = is_exchanged(c->f, v) ? 2 : 1, n_args = ir_ins(c->f, v)->n_args;
  V lo, hi, base = cg_i64(c, 0), all = base;
  for (uint32_t k = 0; k < n_args; k += step)
    if (n_chunks(c->f, ir_arg(c->f, v, k))) all = cg_add(c, all, part_of_operand(c, v, k).units);
  cg_share(c, all, 1, &lo, &hi);
  for (uint32_t k = 0; k < n_args; k += step) {
    Val x = ir_arg(c->f, v, k);
    int64_t n = n_chunks(c->f, x);
    if (n && !cg_stored(c, x)) return rt_text_add(c->why, "operand %%%u of a norm is not stored", x.i), false;
    if (!n) continue;
    Part p = part_of_operand(c, v, k);
    norm_operand(c, x, &p, at, base, lo, hi);
    base = cg_add(c, base, p.units), at += n;
  }
  cg_wait_for_team(c);
  combine(c, v, cg_ptr(c, v), total);
  return true;
}
