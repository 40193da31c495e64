// Gradient norm and optimizers, as PyTorch's torch.optim states them. The interpreter's loop stores what these return
// into the parameters that the operands are versions of.
#include "ir/interp/interp.h"

#include <math.h>

bool eval_global_norm(Run *r, Val v) {
  double sum = 0;
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_args; k++) {
    Tensor a = run_arg(r, v, k);
    for (int64_t i = 0; i < a.n; i++) sum += a.v[i] * a.v[i];
  }
  run_result(r, v, 0).v[0] = sqrt(sum);
  return true;
}

static double number(const Run *r, Val v, ArgName name) { return run_operand(r, v, name).v[0]; }
static double option(const Run *r, Val v, Key k, double absent) { return ir_attr_num(r->f, v, k, absent); }

// The gradient g of an update, times the factor that it may have.
static Tensor scaled(Run *r, Val v, Tensor g) {
  if (!ir_has_operand(r->f, v, ARG_grad_scale)) return g;
  Tensor out = {rt_alloc(r->env->mem, (size_t)g.n * sizeof(double)), g.n};
  for (int64_t i = 0; i < g.n; i++) out.v[i] = g.v[i] * number(r, v, ARG_grad_scale);
  return out;
}

// As PyTorch a decay of 0 adds nothing, not even 0 times infinity.
static double with_decay(double g, double param, double decay) { return decay != 0 ? g + decay * param : g; }

static bool adamw(Run *r, Val v, Tensor g) {
  Tensor p = run_arg(r, v, 0), m = run_arg(r, v, 1), s = run_arg(r, v, 2);
  Tensor new_p = run_result(r, v, 0), new_m = run_result(r, v, 1), new_s = run_result(r, v, 2);
  double step = number(r, v, ARG_step), lr = number(r, v, ARG_lr), decay = number(r, v, ARG_weight_decay);
  double b1 = option(r, v, KEY_beta1, 0.9), b2 = option(r, v, KEY_beta2, 0.999), eps = option(r, v, KEY_eps, 1e-8);
  bool decoupled = ir_attr(r->f, v, KEY_decoupled);
  double scale1 = 1 - pow(b1, step), scale2 = sqrt(1 - pow(b2, step));
  for (int64_t i = 0; i < p.n; i++) {
    double x = decoupled ? p.v[i] * (1 - lr * decay) : p.v[i];
    double d = decoupled ? g.v[i] : with_decay(g.v[i], p.v[i], decay);
    new_m.v[i] = b1 * m.v[i] + (1 - b1) * d;
    new_s.v[i] = b2 * s.v[i] + (1 - b2) * d * d;
    new_p.v[i] = x - lr / scale1 * new_m.v[i] / (sqrt(new_s.v[i]) / scale2 + eps);
  }
  return true;
}

bool eval_adamw(Run *r, Val v) { return adamw(r, v, scaled(r, v, run_operand(r, v, ARG_grad))); }

bool eval_adamw_sparse(Run *r, Val v) {
  Tensor table = run_arg(r, v, 0), index = run_operand(r, v, ARG_index), rows = run_operand(r, v, ARG_g);
  Sizes size = run_arg_sizes(r, v, 0);
  int64_t width = size.dim[1];
  Tensor g = {rt_alloc(r->env->mem, (size_t)table.n * sizeof(double)), table.n};
  for (int64_t i = 0; i < index.n; i++) {
    double row = index.v[i];
    if (row < 0 || row >= (double)size.dim[0])
      return run_fail(r, v, "index %lld at element %lld is not in [0, %lld)", (long long)row, (long long)i,
                      (long long)size.dim[0]);
    for (int64_t k = 0; k < width; k++) g.v[(int64_t)row * width + k] += rows.v[i * width + k];
  }
  return adamw(r, v, scaled(r, v, g));
}

bool eval_sgd(Run *r, Val v) {
  Tensor p = run_arg(r, v, 0), g = scaled(r, v, run_operand(r, v, ARG_grad)), new_p = run_result(r, v, 0);
  double lr = number(r, v, ARG_lr), decay = number(r, v, ARG_weight_decay);
  for (int64_t i = 0; i < p.n; i++) new_p.v[i] = p.v[i] - lr * with_decay(g.v[i], p.v[i], decay);
  return true;
}

bool eval_sgd_momentum(Run *r, Val v) {
  Tensor p = run_arg(r, v, 0), m = run_arg(r, v, 1), g = scaled(r, v, run_operand(r, v, ARG_grad));
  Tensor new_p = run_result(r, v, 0), new_m = run_result(r, v, 1);
  double step = number(r, v, ARG_step), lr = number(r, v, ARG_lr);
  double decay = number(r, v, ARG_weight_decay), momentum = number(r, v, ARG_momentum);
  double part = step == 1 ? 1 : 1 - option(r, v, KEY_dampening, 0);
  bool nesterov = ir_attr(r->f, v, KEY_nesterov);
  for (int64_t i = 0; i < p.n; i++) {
    double d = with_decay(g.v[i], p.v[i], decay);
    new_m.v[i] = momentum * m.v[i] + part * d;
    new_p.v[i] = p.v[i] - lr * (nesterov ? d + momentum * new_m.v[i] : new_m.v[i]);
  }
  return true;
}
