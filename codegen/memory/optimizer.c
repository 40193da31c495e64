// Optimizer updates and the global gradient norm.
//
// Formulas and their order are PyTorch's (single-tensor, not capturable): scalars in doubles, tensors in floats. All
// updates of a kernel share one helper function per rule and set of attributes, called once for each tensor: a step
// over a hundred tensors is a hundred calls, not a hundred loops. Elements are independent, so how they are split is
// free.
#include "codegen/memory/optimizer.h"

#include <string.h>

enum { SMALL = 4096, GRAIN = 16 };  // a kernel with fewer elements is one worker's; others are cut in units of GRAIN

// ---- scalars
static LLVMValueRef scalar_arg(Cg *c, Val v) {
  double k;
  if (ir_is_const(c->f, v, &k)) return cg_f32(c, k);
  return cg_load(c, c->f32, cg_ptr(c, v));
}
static LLVMValueRef f64_of(Cg *c, LLVMValueRef v) { return LLVMBuildFPExt(c->b, v, c->f64, ""); }
static LLVMValueRef k64(Cg *c, double v) { return LLVMConstReal(c->f64, v); }
static LLVMValueRef f32_of(Cg *c, LLVMValueRef v) { return LLVMBuildFPTrunc(c->b, v, c->f32, ""); }

// double power(double base, i64 n): base^n for a whole number n in [0, 2^24], by squaring.
static void make_power(Cg *c, LLVMValueRef fn, void *ctx) {
  (void)ctx;
  LLVMValueRef init[] = {k64(c, 1), LLVMGetParam(fn, 0), LLVMGetParam(fn, 1)};
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, 25), cg_i64(c, 1), init, 3);
  LLVMValueRef odd = LLVMBuildTrunc(c->b, l.carry[2], c->i1, "");
  LLVMValueRef more = LLVMBuildFMul(c->b, l.carry[0], l.carry[1], "");
  LLVMValueRef next[] = {LLVMBuildSelect(c->b, odd, more, l.carry[0], ""), NULL, NULL};
  next[1] = LLVMBuildFMul(c->b, l.carry[1], l.carry[1], "");
  next[2] = LLVMBuildLShr(c->b, l.carry[2], cg_i64(c, 1), "");
  cg_loop_end(c, &l, next);
  LLVMBuildRet(c->b, l.out[0]);
}

static LLVMValueRef power(Cg *c, double base, LLVMValueRef n) {
  LLVMTypeRef type = LLVMFunctionType(c->f64, (LLVMTypeRef[]){c->f64, c->i64}, 2, false);
  LLVMValueRef fn = cg_helper(c, "power", type, make_power, NULL);
  return LLVMBuildCall2(c->b, type, fn, (LLVMValueRef[]){k64(c, base), n}, 2, "");
}

// ---- what the helpers see
// Tensors of each rule, in operand order; the last one is the gradient. Then the scalars that an update is called with.
static uint32_t n_tensors(Op op) { return op == OP_adamw ? 4 : op == OP_sgd_momentum ? 3 : 2; }
static uint32_t n_scalars(const UpdateRule *r) {
  return (r->op == OP_adamw ? 3 : r->op == OP_sgd_momentum ? 4 : 2) + r->scales_gradient;
}

static UpdateRule rule_of(Cg *c, Val v) {
  double decay;
  bool is_const = ir_is_const(c->f, ir_operand(c->f, v, ARG_weight_decay), &decay);
  Op op = (Op)ir_ins(c->f, v)->op;
  return (UpdateRule){.op = op == OP_adamw_sparse ? OP_adamw : op,
                      .beta1 = ir_attr_num(c->f, v, KEY_beta1, 0.9),
                      .beta2 = ir_attr_num(c->f, v, KEY_beta2, 0.999),
                      .eps = ir_attr_num(c->f, v, KEY_eps, 1e-8),
                      .dampening = ir_attr_num(c->f, v, KEY_dampening, 0),
                      .decays = !is_const || decay != 0,
                      .decoupled = ir_attr(c->f, v, KEY_decoupled) != NULL,
                      .nesterov = ir_attr(c->f, v, KEY_nesterov) != NULL,
                      .scales_gradient = ir_has_operand(c->f, v, ARG_grad_scale)};
}

static LLVMValueRef splat(Cg *c, double v) { return cg_splat(c, cg_f32(c, v)); }
static LLVMValueRef mul(Cg *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFMul(c->b, a, b, ""); }
static LLVMValueRef sub(Cg *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFSub(c->b, a, b, ""); }
static LLVMValueRef add(Cg *c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildFAdd(c->b, a, b, ""); }

// torch.lerp: the form that is exact at the nearer end.
static LLVMValueRef lerp(Cg *c, LLVMValueRef from, LLVMValueRef to, double weight) {
  LLVMValueRef d = sub(c, to, from);
  if (weight < 0.5) return cg_fma(c, splat(c, weight), d, from);
  return cg_fma(c, splat(c, -(1 - weight)), d, to);
}

// As PyTorch a decay of 0 adds nothing: 0 times a parameter that is infinite would be NaN.
static LLVMValueRef with_decay(Cg *c, const UpdateRule *r, LLVMValueRef g, LLVMValueRef param, LLVMValueRef decay) {
  if (!r->decays) return g;
  LLVMValueRef some = LLVMBuildFCmp(c->b, LLVMRealUNE, decay, splat(c, 0), "");
  return LLVMBuildSelect(c->b, some, cg_fma(c, decay, param, g), g, "");
}

// x: param, exp_avg, exp_avg_sq, grad; s: decay, or 1 - lr decay when decoupled; -lr / (1 - beta1^step);
// 1 / sqrt(1 - beta2^step).
static void adamw(Cg *c, const UpdateRule *r, LLVMValueRef *x, LLVMValueRef *s) {
  LLVMValueRef g = r->decoupled ? x[3] : with_decay(c, r, x[3], x[0], s[0]);
  if (r->decays && r->decoupled) x[0] = mul(c, x[0], s[0]);
  x[1] = lerp(c, x[1], g, 1 - r->beta1);
  LLVMValueRef kept = mul(c, x[2], splat(c, r->beta2)), scaled = mul(c, g, splat(c, 1 - r->beta2));
  x[2] = cg_fma(c, scaled, g, kept);
  LLVMValueRef root = cg_call_intrinsic(c, "llvm.sqrt", &c->vf, 1, &x[2], 1);
  LLVMValueRef denom = cg_fma(c, root, s[2], splat(c, r->eps));
  x[0] = add(c, x[0], LLVMBuildFDiv(c->b, mul(c, s[1], x[1]), denom, ""));
}

// x: param, (momentum buffer,) grad; s: -lr, decay, (momentum, the part of the gradient that the buffer takes).
static void sgd(Cg *c, const UpdateRule *r, LLVMValueRef *x, LLVMValueRef *s) {
  LLVMValueRef g = with_decay(c, r, x[n_tensors(r->op) - 1], x[0], s[1]);
  if (r->op == OP_sgd_momentum) {
    x[1] = cg_fma(c, s[3], g, mul(c, x[1], s[2]));
    g = r->nesterov ? cg_fma(c, s[2], x[1], g) : x[1];
  }
  x[0] = cg_fma(c, s[0], g, x[0]);
}

static void update(Cg *c, const UpdateRule *r, LLVMValueRef *x, LLVMValueRef *s) {
  uint32_t gradient = n_tensors(r->op) - 1;
  if (r->scales_gradient) x[gradient] = mul(c, x[gradient], s[n_scalars(r) - 1]);
  if (r->op == OP_adamw) adamw(c, r, x, s);
  else sgd(c, r, x, s);
}

static bool is_zero(const UpdateRule *r, uint32_t k) { return r->zero_gradient && k + 1 == n_tensors(r->op); }

// void update(ptr x0.., f32 s0.., i64 lo, i64 hi): elements [lo, hi) of every tensor.
static void make_update(Cg *c, LLVMValueRef fn, void *ctx) {
  const UpdateRule *r = ctx;
  uint32_t n = n_tensors(r->op), n_s = n_scalars(r);
  LLVMValueRef s[MAX_SCALARS], x[MAX_TENSORS], at[MAX_TENSORS];
  for (uint32_t k = 0; k < n_s; k++) s[k] = cg_splat(c, LLVMGetParam(fn, n + k));
  LLVMValueRef lo = LLVMGetParam(fn, n + n_s), hi = LLVMGetParam(fn, n + n_s + 1), vl = cg_i64(c, c->t->vl);
  LLVMValueRef whole = cg_mul(c, cg_div(c, cg_sub(c, hi, lo), vl), vl), last = cg_add(c, lo, whole);
  Loop l;
  cg_loop_begin(c, &l, lo, last, vl, NULL, 0);
  for (uint32_t k = 0; k < n; k++) at[k] = cg_at(c, c->f32, LLVMGetParam(fn, k), l.i);
  for (uint32_t k = 0; k < n; k++) x[k] = is_zero(r, k) ? splat(c, 0) : cg_load(c, c->vf, at[k]);
  update(c, r, x, s);
  for (uint32_t k = 0; k + 1 < n; k++) cg_store(c, x[k], at[k]);
  cg_loop_end(c, &l, NULL);
  LLVMValueRef mask = cg_mask(c, cg_sub(c, hi, last));
  for (uint32_t k = 0; k < n; k++) at[k] = cg_at(c, c->f32, LLVMGetParam(fn, k), last);
  for (uint32_t k = 0; k < n; k++) x[k] = is_zero(r, k) ? splat(c, 0) : cg_load_masked(c, c->vf, at[k], mask);
  update(c, r, x, s);
  for (uint32_t k = 0; k + 1 < n; k++) cg_store_masked(c, x[k], at[k], mask);
  LLVMBuildRetVoid(c->b);
}

// ---- calls
static LLVMValueRef value_of(Cg *c, const UpdateScalars *m, ArgName name) {
  return scalar_arg(c, ir_operand(c->f, m->v, name));
}

static void adamw_scalars(Cg *c, UpdateScalars *m) {
  const UpdateRule *r = &m->rule;
  LLVMValueRef lr = f64_of(c, value_of(c, m, ARG_lr)), decay = value_of(c, m, ARG_weight_decay), one = k64(c, 1);
  LLVMValueRef step = LLVMBuildFPToSI(c->b, value_of(c, m, ARG_step), c->i64, "step");
  m->s[0] = r->decoupled ? f32_of(c, sub(c, one, mul(c, lr, f64_of(c, decay)))) : decay;
  LLVMValueRef correct1 = sub(c, one, power(c, r->beta1, step));
  LLVMValueRef size = LLVMBuildFDiv(c->b, lr, correct1, "");
  m->s[1] = f32_of(c, LLVMBuildFNeg(c->b, size, ""));
  LLVMValueRef correct2 = sub(c, one, power(c, r->beta2, step));
  LLVMValueRef root = cg_call_intrinsic(c, "llvm.sqrt", &c->f64, 1, &correct2, 1);
  m->s[2] = f32_of(c, LLVMBuildFDiv(c->b, one, root, ""));
}

// PyTorch's first step starts the buffer with the whole gradient.
static LLVMValueRef undamped_part(Cg *c, const UpdateScalars *m) {
  if (m->rule.dampening == 0) return cg_f32(c, 1);
  LLVMValueRef first = LLVMBuildFCmp(c->b, LLVMRealOEQ, value_of(c, m, ARG_step), cg_f32(c, 1), "");
  return LLVMBuildSelect(c->b, first, cg_f32(c, 1), cg_f32(c, 1 - m->rule.dampening), "");
}

static void sgd_scalars(Cg *c, UpdateScalars *m) {
  m->s[0] = LLVMBuildFNeg(c->b, value_of(c, m, ARG_lr), "");
  m->s[1] = value_of(c, m, ARG_weight_decay);
  if (m->rule.op != OP_sgd_momentum) return;
  m->s[2] = value_of(c, m, ARG_momentum);
  m->s[3] = undamped_part(c, m);
}

static bool same_number(double a, double b) { return !memcmp(&a, &b, sizeof a); }

static bool same_rule(const UpdateRule *a, const UpdateRule *b) {
  return a->op == b->op && same_number(a->beta1, b->beta1) && same_number(a->beta2, b->beta2) &&
         same_number(a->eps, b->eps) && same_number(a->dampening, b->dampening) && a->decays == b->decays &&
         a->decoupled == b->decoupled && a->nesterov == b->nesterov && a->scales_gradient == b->scales_gradient;
}

static bool same_scalars(const Fn *f, Val a, Val b) {
  static const ArgName scalars[] = {ARG_step, ARG_lr, ARG_weight_decay, ARG_momentum, ARG_grad_scale};
  for (uint32_t k = 0; k < sizeof scalars / sizeof *scalars; k++)
    if (ir_operand(f, a, scalars[k]).i != ir_operand(f, b, scalars[k]).i) return false;
  return true;
}

// Scalars of the update at v, computed once for a run of updates that share them.
void cg_update_scalars(Cg *c, UpdateScalars *m, Val v) {
  UpdateScalars next = {.rule = rule_of(c, v), .v = v};
  if (same_rule(&m->rule, &next.rule) && same_scalars(c->f, m->v, v)) return;
  *m = next;
  if (m->rule.op == OP_adamw) adamw_scalars(c, m);
  else sgd_scalars(c, m);
  if (m->rule.scales_gradient) m->s[n_scalars(&m->rule) - 1] = value_of(c, m, ARG_grad_scale);
}

// A helper is found again by its name, which states the rule.
static const char *rule_name(Cg *c, const UpdateRule *r) {
  return rt_printf(c->mem, "%s.%a.%a.%a.%a.%d%d%d%d%d", ir_ops[r->op].name, r->beta1, r->beta2, r->eps, r->dampening,
                   r->decays, r->decoupled, r->nesterov, r->scales_gradient, r->zero_gradient);
}

void cg_update_call(Cg *c, UpdateScalars *m, LLVMValueRef *x, LLVMValueRef lo, LLVMValueRef hi) {
  uint32_t n = n_tensors(m->rule.op), n_s = n_scalars(&m->rule), k = 0;
  LLVMTypeRef type[MAX_TENSORS + MAX_SCALARS + 2];
  LLVMValueRef arg[MAX_TENSORS + MAX_SCALARS + 2];
  for (; k < n; k++) type[k] = c->ptr, arg[k] = x[k];
  for (; k < n + n_s; k++) type[k] = c->f32, arg[k] = m->s[k - n];
  type[k] = type[k + 1] = c->i64, arg[k] = lo, arg[k + 1] = hi;
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), type, k + 2, false);
  LLVMValueRef fn = cg_helper(c, rule_name(c, &m->rule), t, make_update, &m->rule);
  LLVMBuildCall2(c->b, t, fn, arg, k + 2, "");
}

static void call_update(Cg *c, UpdateScalars *m, Val v, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef x[MAX_TENSORS];
  for (uint32_t k = 0; k < n_tensors(m->rule.op); k++) x[k] = cg_ptr(c, ir_arg(c->f, v, k));
  cg_update_call(c, m, x, lo, hi);
}

static bool gradient_is_stored(Cg *c, Val v) {
  Val g = ir_arg(c->f, v, n_tensors((Op)ir_ins(c->f, v)->op) - 1);
  if (cg_stored(c, g)) return true;
  rt_text_add(c->why, "the gradient %%%u of an update is not stored", g.i);
  return false;
}

static int64_t units_of(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  if (ir_ops[ins->op].cls != CLASS_OPTIMIZER || ins->op == OP_adamw_sparse) return 0;
  return (ir_shape_bound(f->prog, ins->shape) + GRAIN - 1) / GRAIN;
}

// The units of all tensors of the kernel count through; [lo, hi) of them are this worker's.
static void share_units(Cg *c, LLVMValueRef *lo, LLVMValueRef *hi) {
  int64_t total = 0;
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) total += units_of(c->f, (Val){i});
  cg_share(c, cg_i64(c, total), total * GRAIN < SMALL ? total + 1 : 1, lo, hi);
}

// The part of the tensor, whose units begin at `base`, that lies in [lo, hi).
static void update_part(Cg *c, UpdateScalars *m, Val v, int64_t base, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef n = cg_numel(c, ir_ins(c->f, v)->shape), grain = cg_i64(c, GRAIN);
  LLVMValueRef from = cg_max(c, cg_sub(c, lo, cg_i64(c, base)), cg_i64(c, 0)), to = cg_sub(c, hi, cg_i64(c, base));
  from = cg_mul(c, from, grain), to = cg_min(c, cg_mul(c, to, grain), n);
  If any;
  cg_if(c, &any, LLVMBuildICmp(c->b, LLVMIntSLT, from, to, ""));
  call_update(c, m, v, from, to);
  cg_endif(c, &any);
}

bool cg_emit_optimizer(Cg *c) {
  UpdateScalars m = {0};
  LLVMValueRef lo, hi;
  int64_t base = 0;
  share_units(c, &lo, &hi);
  for (uint32_t i = c->k->first; i < c->k->first + c->k->n; i++) {
    Val v = {i};
    const Ins *ins = ir_ins(c->f, v);
    if (ir_ops[ins->op].cls != CLASS_OPTIMIZER) continue;
    int64_t bound = ir_shape_bound(c->f->prog, ins->shape);
    if (bound == 0) continue;
    if (ins->op == OP_adamw_sparse) {
      cg_emit_sparse_update(c, &m, v);
      continue;
    }
    if (!gradient_is_stored(c, v)) return false;
    cg_update_scalars(c, &m, v);
    update_part(c, &m, v, base, lo, hi);
    base += units_of(c->f, v);
  }
  return true;
}

// ---- global norm: sums of squares of fixed chunks, then one worker adds them up in order
enum { CHUNK = 4096, N_SUMS = 4 };

static int64_t n_chunks(const Fn *f, Val operand) {
  return (ir_shape_bound(f->prog, ir_ins(f, operand)->shape) + CHUNK - 1) / CHUNK;
}

static int64_t total_chunks(const Fn *f, Val v) {
  int64_t n = 0;
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) n += n_chunks(f, ir_arg(f, v, k));
  return n;
}

int64_t cg_global_norm_scratch_bytes(const Fn *f, Val v, const Target *t) {
  (void)t;
  return total_chunks(f, v) * (int64_t)sizeof(float);
}

// The sum of squares of x[lo, hi): N_SUMS independent vectors, added as a tree.
static LLVMValueRef sum_squares(Cg *c, LLVMValueRef x, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMValueRef sum[N_SUMS], vl = cg_i64(c, c->t->vl), block = cg_i64(c, (int64_t)N_SUMS * c->t->vl);
  for (uint32_t k = 0; k < N_SUMS; k++) sum[k] = LLVMConstNull(c->vf);
  LLVMValueRef n = cg_sub(c, hi, lo), whole = cg_add(c, lo, cg_mul(c, cg_div(c, n, block), block));
  Loop l, rest;
  cg_loop_begin(c, &l, lo, whole, block, sum, N_SUMS);
  for (uint32_t k = 0; k < N_SUMS; k++) {
    LLVMValueRef at = cg_add(c, l.i, cg_i64(c, (int64_t)k * c->t->vl)), v = cg_load(c, c->vf, cg_at(c, c->f32, x, at));
    sum[k] = cg_fma(c, v, v, l.carry[k]);
  }
  cg_loop_end(c, &l, sum);
  cg_loop_begin(c, &rest, whole, hi, vl, l.out, 1);
  LLVMValueRef mask = cg_mask(c, cg_sub(c, hi, rest.i)),
               v = cg_load_masked(c, c->vf, cg_at(c, c->f32, x, rest.i), mask);
  LLVMValueRef more = cg_fma(c, v, v, rest.carry[0]);
  cg_loop_end(c, &rest, &more);
  LLVMValueRef a = add(c, rest.out[0], l.out[1]), b = add(c, l.out[2], l.out[3]);
  return cg_reduce_add(c, add(c, a, b));
}

// void norm_chunks(ptr x, i64 n, ptr sums, i64 lo, i64 hi): chunks [lo, hi) of the n elements at x.
static void make_norm_chunks(Cg *c, LLVMValueRef fn, void *ctx) {
  (void)ctx;
  LLVMValueRef x = LLVMGetParam(fn, 0), n = LLVMGetParam(fn, 1), size = cg_i64(c, CHUNK);
  Loop l;
  cg_loop_begin(c, &l, LLVMGetParam(fn, 3), LLVMGetParam(fn, 4), cg_i64(c, 1), NULL, 0);
  LLVMValueRef lo = cg_min(c, cg_mul(c, l.i, size), n), hi = cg_min(c, cg_add(c, lo, size), n);
  LLVMValueRef sum = sum_squares(c, x, lo, hi);
  cg_store(c, sum, cg_at(c, c->f32, LLVMGetParam(fn, 2), l.i));
  cg_loop_end(c, &l, NULL);
  LLVMBuildRetVoid(c->b);
}

// Chunks of all operands count through; [lo, hi) of them are this worker's.
static void norm_operand(Cg *c, Val x, int64_t first, LLVMValueRef lo, LLVMValueRef hi) {
  LLVMTypeRef type[] = {c->ptr, c->i64, c->ptr, c->i64, c->i64};
  LLVMTypeRef t = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), type, 5, false);
  LLVMValueRef fn = cg_helper(c, "norm_chunks", t, make_norm_chunks, NULL);
  LLVMValueRef base = cg_i64(c, first), n = cg_i64(c, n_chunks(c->f, x));
  LLVMValueRef from = cg_max(c, cg_sub(c, lo, base), cg_i64(c, 0));
  LLVMValueRef to = cg_min(c, cg_sub(c, hi, base), n), numel = cg_numel(c, ir_ins(c->f, x)->shape);
  LLVMValueRef sums = cg_at(c, c->f32, c->scratch, base);
  LLVMBuildCall2(c->b, t, fn, (LLVMValueRef[]){cg_ptr(c, x), numel, sums, from, to}, 5, "");
}

static void combine(Cg *c, LLVMValueRef out, int64_t total) {
  LLVMValueRef zero = k64(c, 0),
               sums = total ? c->scratch : out;  // without a chunk there is no scratch, and the loop never runs
  If first;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, c->worker, cg_i64(c, 0), ""));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, total), cg_i64(c, 1), &zero, 1);
  LLVMValueRef sum = cg_load(c, c->f32, cg_at(c, c->f32, sums, l.i));
  sum = add(c, l.carry[0], f64_of(c, sum));
  cg_loop_end(c, &l, &sum);
  LLVMValueRef root = cg_call_intrinsic(c, "llvm.sqrt", &c->f64, 1, &l.out[0], 1);
  cg_store(c, f32_of(c, root), out);
  cg_endif(c, &first);
}

bool cg_emit_global_norm(Cg *c) {
  Val v = {c->k->first};
  int64_t total = total_chunks(c->f, v), at = 0;
  LLVMValueRef lo, hi;
  cg_share(c, cg_i64(c, total), 1, &lo, &hi);
  for (uint32_t k = 0; k < ir_ins(c->f, v)->n_args; k++) {
    Val x = ir_arg(c->f, v, k);
    int64_t n = n_chunks(c->f, x);
    if (n && !cg_stored(c, x)) return rt_text_add(c->why, "operand %%%u of a norm is not stored", x.i), false;
    if (n) norm_operand(c, x, at, lo, hi);
    at += n;
  }
  If several;  // a lone worker has nobody to wait for
  cg_if(c, &several, LLVMBuildICmp(c->b, LLVMIntSGT, c->n_workers, cg_i64(c, 1), ""));
  cg_barrier(c, cg_i32(c, 0), LLVMBuildTrunc(c->b, c->n_workers, c->i32, ""));
  cg_endif(c, &several);
  combine(c, cg_ptr(c, v), total);
  return true;
}
