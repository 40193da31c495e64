// Schedules of learning rates: a count of steps, which is state, and the rate as scalar instructions of it, in every step.
//
//   %t = param @optimizer.schedule.warm.last_epoch : f32[]
//   %rate = ..                                     of %t and of the group's rate, @optimizer.lr
//   %now = assign @optimizer.last_lr, %rate        what updates read
//
// All is f32. Counts are whole numbers below 2^24, so that sums, differences and multiples of them are exact; what follows is
// chosen so that nothing cancels: a cosine's (1 + cos x) / 2 is a squared sine of the way that is left, powers of a
// constant are exponentials of its logarithm, which is rounded once, and periods are subtracted, not divided out.
#include "frontend/graph/inplace.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/module/optimizer.h"
#include "frontend/module/tree.h"
#include "frontend/run/finite.h"

#include <math.h>
#include <string.h>

typedef struct {
  tn_function *f;
  tn_site at;
} Place;
typedef tn_tensor Rate(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base);

typedef union {
  tn_step_lr_options step;
  tn_multi_step_lr_options multi_step;
  tn_exponential_lr_options exponential;
  tn_polynomial_lr_options polynomial;
  tn_linear_lr_options linear;
  tn_constant_lr_options constant;
  tn_cosine_annealing_lr_options cosine;
  tn_cosine_annealing_warm_restarts_options restarts;
  tn_one_cycle_lr_options one_cycle;
  tn_cyclic_lr_options cyclic;
  tn_reduce_lr_on_plateau_options plateau;
  struct {
    tn_schedule *first, *then;
    double milestone;
  } pair;
  struct {
    tn_lr_factor factor;
    void *ctx;
  } lambda;
} ScheduleOptions;

struct tn_schedule {
  tn_program *p;
  const char *name;
  Loc loc;
  Rate *rate;
  ScheduleOptions o;
  bool is_part;  // of a sequence, which is what optimizers have
  bool is_used;  // by an optimizer
  bool is_stepped;
};

// ---- expressions
static tn_tensor num(const Place *e, double x) { return fe_const(e->f, x, e->at); }
static tn_tensor two(const Place *e, Op op, tn_tensor a, tn_tensor b) { return fe_emit2(op, a, b, e->at); }
static tn_tensor add(const Place *e, tn_tensor a, tn_tensor b) { return two(e, OP_add, a, b); }
static tn_tensor sub(const Place *e, tn_tensor a, tn_tensor b) { return two(e, OP_sub, a, b); }
static tn_tensor mul(const Place *e, tn_tensor a, tn_tensor b) { return two(e, OP_mul, a, b); }
static tn_tensor divide(const Place *e, tn_tensor a, tn_tensor b) { return two(e, OP_div, a, b); }
static tn_tensor times(const Place *e, tn_tensor a, double x) { return mul(e, a, num(e, x)); }
static tn_tensor one(const Place *e, Op op, tn_tensor a) { return fe_emit1(op, a, e->at); }
static tn_tensor at_least(const Place *e, tn_tensor a, double x) { return two(e, OP_ge, a, num(e, x)); }
static tn_tensor either(const Place *e, tn_tensor is, tn_tensor a, tn_tensor b) {
  const tn_tensor in[] = {is, a, b};
  return fe_emit(OP_select, in, 3, NULL, 0, e->at);
}
// base^n
static tn_tensor power(const Place *e, double base, tn_tensor n) { return one(e, OP_exp, times(e, n, log(base))); }
// How many whole periods lie before t, and t in its own.
static tn_tensor periods(const Place *e, tn_tensor t, double period) {
  return one(e, OP_floor, divide(e, t, num(e, period)));
}
static tn_tensor in_period(const Place *e, tn_tensor t, double period) {
  return sub(e, t, times(e, periods(e, t, period), period));
}
// From `from` to `to`, as the cosine goes: `left` falls from 1 to 0.
static tn_tensor along_cosine(const Place *e, tn_tensor from, tn_tensor to, tn_tensor left) {
  tn_tensor s = one(e, OP_sin, times(e, left, 1.5707963267948966));
  return add(e, to, mul(e, sub(e, from, to), mul(e, s, s)));
}

// ---- rates
static tn_tensor rate_step(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  return mul(e, base, power(e, s->o.step.gamma, periods(e, t, s->o.step.step_size)));
}

static tn_tensor rate_multi_step(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  tn_tensor n = num(e, 0);
  for (uint32_t k = 0; k < s->o.multi_step.n_milestones; k++)
    n = add(e, n, at_least(e, t, s->o.multi_step.milestones[k]));
  return mul(e, base, power(e, s->o.multi_step.gamma, n));
}

static tn_tensor rate_exponential(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  return mul(e, base, power(e, s->o.exponential.gamma, t));
}

static tn_tensor rate_polynomial(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  tn_tensor total = num(e, s->o.polynomial.total_iters);
  tn_tensor left = divide(e, sub(e, total, two(e, OP_min, t, total)), total);
  return mul(e, base, s->o.polynomial.power == 1 ? left : two(e, OP_pow, left, num(e, s->o.polynomial.power)));
}

static tn_tensor rate_linear(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  tn_tensor total = num(e, s->o.linear.total_iters), done = divide(e, two(e, OP_min, t, total), total);
  tn_tensor rise = times(e, done, s->o.linear.end_factor - s->o.linear.start_factor);
  return mul(e, base, add(e, rise, num(e, s->o.linear.start_factor)));
}

static tn_tensor rate_constant(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  return either(e, at_least(e, t, s->o.constant.total_iters), base, times(e, base, s->o.constant.factor));
}

// Down for t_max steps and up again, for ever.
static tn_tensor rate_cosine(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  double n = s->o.cosine.t_max;
  tn_tensor left = one(e, OP_abs, sub(e, in_period(e, t, 2 * n), num(e, n)));
  return along_cosine(e, base, num(e, s->o.cosine.eta_min), divide(e, left, num(e, n)));
}

// Periods t_0, t_0 t_mult, ..: all that begin below 2^24 are listed.
static tn_tensor rate_restarts(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  double length = s->o.restarts.t_0, start = 0;
  tn_tensor period = num(e, length), since = t;
  if (s->o.restarts.t_mult == 1) since = in_period(e, t, length);
  for (; s->o.restarts.t_mult > 1 && start + length < 0x1p24; length *= s->o.restarts.t_mult) {
    tn_tensor over = at_least(e, t, start += length);
    since = either(e, over, sub(e, t, num(e, start)), since);
    period = either(e, over, num(e, length * s->o.restarts.t_mult), period);
  }
  tn_tensor left = divide(e, sub(e, period, since), period);
  return along_cosine(e, base, num(e, s->o.restarts.eta_min), left);
}

static tn_tensor anneal(const tn_schedule *s, const Place *e, tn_tensor from, tn_tensor to, tn_tensor left) {
  if (!s->o.one_cycle.linear) return along_cosine(e, from, to, left);
  return add(e, to, mul(e, sub(e, from, to), left));
}

// From value[0] to value[1], value[2] and, with three phases, value[3]
static tn_tensor one_cycle(const tn_schedule *s, const Place *e, tn_tensor t, const tn_tensor value[4]) {
  const tn_one_cycle_lr_options *o = &s->o.one_cycle;
  double end[] = {o->pct_start * o->total_steps - 1, 2 * o->pct_start * o->total_steps - 2, o->total_steps - 1};
  uint32_t n = o->three_phase ? 3 : 2;
  if (!o->three_phase) end[1] = end[2];
  tn_tensor rate = value[3];
  t = two(e, OP_min, t, num(e, o->total_steps - 1));
  for (uint32_t k = n; k-- > 0;) {
    double from = k ? end[k - 1] : 0;
    tn_tensor left = divide(e, sub(e, num(e, end[k]), t), num(e, end[k] - from));
    rate = either(e, two(e, OP_le, t, num(e, end[k])), anneal(s, e, value[k], value[k + 1], left), rate);
  }
  return rate;
}

// Up to max_lr, down, and on to the least; with three phases down to where it began in between.
static tn_tensor rate_one_cycle(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  const tn_one_cycle_lr_options *o = &s->o.one_cycle;
  tn_tensor max = o->max_lr > 0 ? num(e, o->max_lr) : base, initial = divide(e, max, num(e, o->div_factor));
  tn_tensor least = divide(e, initial, num(e, o->final_div_factor));
  return one_cycle(s, e, t, (const tn_tensor[]){initial, max, o->three_phase ? initial : least, least});
}

static tn_tensor momentum_one_cycle(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  (void)base;
  tn_tensor max = num(e, s->o.one_cycle.max_momentum), least = num(e, s->o.one_cycle.base_momentum);
  return one_cycle(s, e, t, (const tn_tensor[]){max, least, max, max});
}

// Between 0 and 1
static tn_tensor cycle_height(const tn_schedule *s, const Place *e, tn_tensor t) {
  const tn_cyclic_lr_options *o = &s->o.cyclic;
  double up = o->step_size_up, down = o->step_size_down;
  tn_tensor u = in_period(e, t, up + down);
  tn_tensor rising = divide(e, u, num(e, up)), falling = divide(e, sub(e, num(e, up + down), u), num(e, down));
  tn_tensor height = either(e, two(e, OP_le, u, num(e, up)), rising, falling);
  if (o->triangular2) height = mul(e, height, power(e, 0.5, periods(e, t, up + down)));
  if (o->exp_range) height = mul(e, height, power(e, o->gamma, t));
  return height;
}

static tn_tensor rate_cyclic(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  const tn_cyclic_lr_options *o = &s->o.cyclic;
  tn_tensor least = o->base_lr > 0 ? num(e, o->base_lr) : base;
  return add(e, least, mul(e, sub(e, num(e, o->max_lr), least), cycle_height(s, e, t)));
}

static tn_tensor momentum_cyclic(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  (void)base;
  const tn_cyclic_lr_options *o = &s->o.cyclic;
  return sub(e, num(e, o->max_momentum), times(e, cycle_height(s, e, t), o->max_momentum - o->base_momentum));
}

static tn_tensor rate_pair(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  const tn_schedule *first = s->o.pair.first, *then = s->o.pair.then;
  tn_tensor after = two(e, OP_max, sub(e, t, num(e, s->o.pair.milestone)), num(e, 0));
  return either(e, at_least(e, t, s->o.pair.milestone), then->rate(then, e, after, base),
                first->rate(first, e, t, base));
}

// What s makes of momentum; NULL: nothing.
static Rate *momentum_of(const tn_schedule *s);

// The optimizer's own where the part that holds makes nothing of it.
static tn_tensor momentum_pair(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  const tn_schedule *part[] = {s->o.pair.first, s->o.pair.then};
  tn_tensor after = two(e, OP_max, sub(e, t, num(e, s->o.pair.milestone)), num(e, 0)), now[2];
  for (uint32_t k = 0; k < 2; k++) {
    Rate *momentum = momentum_of(part[k]);
    now[k] = momentum ? momentum(part[k], e, k ? after : t, base) : base;
  }
  return either(e, at_least(e, t, s->o.pair.milestone), now[1], now[0]);
}

static Rate *momentum_of(const tn_schedule *s) {
  if (s->rate == rate_one_cycle) return s->o.one_cycle.no_cycle_momentum ? NULL : momentum_one_cycle;
  if (s->rate == rate_cyclic) return s->o.cyclic.no_cycle_momentum ? NULL : momentum_cyclic;
  if (s->rate != rate_pair) return NULL;
  return momentum_of(s->o.pair.first) || momentum_of(s->o.pair.then) ? momentum_pair : NULL;
}

static tn_tensor rate_lambda(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  tn_tensor factor = s->o.lambda.factor(t, s->o.lambda.ctx);
  if (fe_ok(factor) && factor.fn == e->f && fe_rank(factor) == 0 && fe_ins(factor)->dtype == DT_F32)
    return mul(e, base, factor);
  if (fe_ok(factor) && factor.fn == e->f)
    fe_error(s->p, E_SHAPE, e->at, "the factor of schedule '%s' is %s, expected a scalar f32", s->name,
             fe_type_text(factor));
  return fe_poison(e->f);
}

static FeParam *entry(const tn_schedule *s, const char *what, double init, tn_site at) {
  const char *path = rt_printf(s->p->mem, "optimizer.schedule.%s.%s", s->name, what);
  return fe_state(s->p, path, (Shape){0}, init, at);
}

static tn_tensor rate_plateau(const tn_schedule *s, Place *e, tn_tensor t, tn_tensor base) {
  (void)t;
  tn_tensor least = two(e, OP_min, base, num(e, s->o.plateau.min_lr));
  return two(e, OP_max, mul(e, base, fe_use(e->f, entry(s, "factor", 1, e->at), e->at)), least);
}

// ---- use
static bool own(const tn_function *f, const tn_schedule *s, tn_site at) {
  if (s->p == f->p) return true;
  fe_error(f->p, E_FOREIGN, at, "schedule '%s' is of another program", s->name);
  return false;
}

static void set(const Place *e, FeParam *q, tn_tensor now) {
  tn_tensor old = fe_use(e->f, q, e->at);
  now = fe_keep(two(e, OP_assign, old, now), e->at);
  if (fe_ok(now)) fe_write(old, now, true, e->at);
}

// What `rate` makes of a group's own number, left in optimizer.WHAT (.MODULE.GROUP).
static tn_tensor scheduled(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, Rate *rate,
                           const char *what, tn_tensor base, tn_site at) {
  if (!rate || !fe_ok(base) || !own(f, s, at)) return base;
  s->is_used = true;
  Place e = {f, at};
  tn_tensor now = rate(s, &e, fe_use(f, entry(s, "last_epoch", 0, at), at), base);
  const char *dot = *m->path ? "." : "", *number = group ? rt_printf(f->p->mem, ".%u", group) : "";
  const char *path = rt_printf(f->p->mem, "optimizer.%s%s%s%s", what, dot, m->path, number);
  FeParam *last = fe_state(f->p, path, (Shape){0}, 0, at);
  if (fe_ok(now)) set(&e, last, now);
  return fe_use(f, last, at);
}

tn_tensor fe_scheduled(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, tn_tensor lr, tn_site at) {
  return scheduled(f, m, group, s, s ? s->rate : NULL, "last_lr", lr, at);
}

bool fe_cycles_momentum(const tn_schedule *s) { return s && momentum_of(s); }

tn_tensor fe_scheduled_momentum(tn_function *f, const tn_module *m, uint32_t group, tn_schedule *s, const char *what,
                                tn_tensor base, tn_site at) {
  return scheduled(f, m, group, s, momentum_of(s), what, base, at);
}

// In a function that accumulates it is the updates that are counted.
static void advance(const Place *e, tn_schedule *s) {
  s->is_stepped = true;
  FeParam *count = entry(s, "last_epoch", 0, e->at);
  set(e, count, add(e, fe_use(e->f, count, e->at), e->f->when.fn ? e->f->when : num(e, 1)));
}

// A schedule that is NULL: the call that makes it failed and was reported, or there was none.
static bool is_given(tn_program *p, const tn_schedule *s, tn_site at) {
  if (!s && !tn_n_errors(p)) fe_error(p, E_ARGUMENT, at, "the schedule is NULL: tn_step_lr and its kin give one");
  return s;
}

static bool open_step(tn_function *f, const tn_schedule *s, bool is_plateau, tn_site at) {
  if (!fe_fn_open(f, at) || !is_given(f->p, s, at) || !own(f, s, at)) return false;
  if (!fe_outside_scan(f, "a schedule", "it is advanced when the scan has ended", at)) return false;
  if ((s->rate == rate_plateau) == is_plateau) return true;
  fe_error(f->p, E_ARGUMENT, at, "schedule '%s' is advanced by tn_%s_step", s->name,
           is_plateau ? "schedule" : "plateau");
  fe_note(f->p, s->loc, "it was made here");
  return false;
}

void tn_schedule_step(tn_function *f, tn_schedule *s, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  Place e = {f, at};
  if (open_step(f, s, false, at)) advance(&e, s);
}

static tn_tensor is_better(const Place *e, const tn_reduce_lr_on_plateau_options *o, tn_tensor metric, tn_tensor best) {
  double sign = o->maximize ? 1 : -1;
  tn_tensor bar = o->absolute ? add(e, best, num(e, sign * o->threshold)) : times(e, best, 1 + sign * o->threshold);
  return two(e, o->maximize ? OP_gt : OP_lt, metric, bar);
}

void tn_plateau_step(tn_function *f, tn_schedule *s, tn_tensor metric, tn_site at) {
  tn_function *of;
  if (!f) return;
  FE_GUARD(f->p, );
  if (!open_step(f, s, true, at) || !fe_join(&metric, 1, &of, at)) return;
  if (of != f || fe_rank(metric) || fe_ins(metric)->dtype != DT_F32) {
    fe_error(f->p, E_SHAPE, at, "a metric is one f32 number of the function, found %s", fe_type_text(metric));
    return;
  }
  const tn_reduce_lr_on_plateau_options *o = &s->o.plateau;
  Place e = {f, at};
  FeParam *best = entry(s, "best", o->maximize ? -INFINITY : INFINITY, at), *bad = entry(s, "num_bad_epochs", 0, at);
  FeParam *cooldown = entry(s, "cooldown_counter", 0, at), *factor = entry(s, "factor", 1, at);
  tn_tensor was = fe_use(f, best, at), wait = fe_use(f, cooldown, at), zero = num(&e, 0);
  tn_tensor better = is_better(&e, o, metric, was), cools = two(&e, OP_gt, wait, zero);
  tn_tensor n = either(&e, better, zero, add(&e, fe_use(f, bad, at), num(&e, 1)));
  n = either(&e, cools, zero, n);
  tn_tensor reduce = two(&e, OP_gt, n, num(&e, o->patience));
  tn_tensor scale = fe_use(f, factor, at), left = sub(&e, wait, cools);
  scale = either(&e, reduce, times(&e, scale, o->factor), scale);
  left = either(&e, reduce, num(&e, o->cooldown), left);
  n = either(&e, reduce, zero, n);
  set(&e, best, either(&e, better, metric, was));
  set(&e, bad, n);
  set(&e, cooldown, left);
  set(&e, factor, scale);
  advance(&e, s);
}

// ---- what has no effect
void fe_check_schedule(const tn_schedule *s) {
  if (s->is_part || (s->is_used && s->is_stepped)) return;
  fe_diag(s->p, RT_WARNING, E_SCHEDULE_UNUSED, s->loc, "schedule '%s' has no effect: %s", s->name,
          s->is_used ? "no function advances it, and the rate stays that of the first step" : "no optimizer has it");
  if (s->is_used) fe_hint(s->p, "tn_%s_step advances it", s->rate == rate_plateau ? "plateau" : "schedule");
  else fe_hint(s->p, ".schedule of an optimizer takes it");
}

// ---- making
static bool check(tn_program *p, const char *what, const char *name, double x, bool good, const char *expected,
                  tn_site at) {
  if (!good)
    fe_error(p, E_ARGUMENT, at, "%s of schedule '%.80s' is %g, expected a number %s", what, name ? name : "", x,
             expected);
  return good;
}
#define ABOVE_0(x) check(p, #x, name, o.x, o.x > 0 && fe_is_finite(o.x), "above 0 that f32 holds", o.at)
#define NOT_BELOW_0(x) check(p, #x, name, o.x, o.x >= 0 && fe_is_finite(o.x), "of 0 or more that f32 holds", o.at)
#define WHOLE(x) \
  check(p, #x, name, o.x, o.x >= 1 && o.x <= 0x1p23 && o.x == floor(o.x), "that is whole, from 1 to 2^23", o.at)

static tn_schedule *make(tn_program *p, const char *name, Rate *rate, ScheduleOptions o, tn_site at) {
  if (!fe_open(p, at) || !fe_name(p, "a schedule", name, false, at)) return NULL;
  for (uint32_t k = 0; k < p->n_schedules; k++) {
    if (strcmp(p->schedules[k]->name, name)) continue;
    fe_error(p, E_DUPLICATE_PATH, at, "there is a schedule '%s' already", name);
    fe_note(p, p->schedules[k]->loc, "it was made here");
    return NULL;
  }
  tn_schedule *s = rt_alloc(p->mem, sizeof *s);
  *s = (tn_schedule){.p = p, .name = rt_strdup(p->mem, name), .loc = fe_loc(p, at), .rate = rate, .o = o};
  return *RT_PUSH(p->mem, p->schedules, p->n_schedules, p->cap_schedules) = s;
}
#define MOMENTUM(x) check(p, #x, name, o.x, o.x >= 0 && (float)o.x < 1, "from 0 to below 1", o.at)
#define DEFAULT(x, absent) \
  if (o.x == 0) o.x = absent
#define MADE(which) make(p, name, rate_##which, (ScheduleOptions){.which = o}, o.at)
#define OPEN           \
  if (!p) return NULL; \
  FE_GUARD(p, NULL)

tn_schedule *tn_step_lr(tn_program *p, const char *name, tn_step_lr_options o) {
  OPEN;
  DEFAULT(gamma, 0.1);
  return WHOLE(step_size) && ABOVE_0(gamma) ? MADE(step) : NULL;
}

tn_schedule *tn_multi_step_lr(tn_program *p, const char *name, tn_multi_step_lr_options o) {
  OPEN;
  DEFAULT(gamma, 0.1);
  if (!ABOVE_0(gamma)) return NULL;
  double *own = rt_alloc(p->mem, (o.n_milestones + 1) * sizeof *own);
  for (uint32_t k = 0; k < o.n_milestones; k++) {
    own[k] = o.milestones[k];
    if (!check(p, "a milestone", name, own[k], own[k] >= (k ? own[k - 1] : 0), "not below 0 or the one before", o.at))
      return NULL;
  }
  o.milestones = own;
  return MADE(multi_step);
}

tn_schedule *tn_exponential_lr(tn_program *p, const char *name, tn_exponential_lr_options o) {
  OPEN;
  return ABOVE_0(gamma) ? MADE(exponential) : NULL;
}

tn_schedule *tn_polynomial_lr(tn_program *p, const char *name, tn_polynomial_lr_options o) {
  OPEN;
  DEFAULT(total_iters, 5);
  DEFAULT(power, 1);
  return WHOLE(total_iters) && ABOVE_0(power) ? MADE(polynomial) : NULL;
}

tn_schedule *tn_linear_lr(tn_program *p, const char *name, tn_linear_lr_options o) {
  OPEN;
  DEFAULT(start_factor, 1.0 / 3);
  DEFAULT(end_factor, 1);
  DEFAULT(total_iters, 5);
  return WHOLE(total_iters) && ABOVE_0(start_factor) && NOT_BELOW_0(end_factor) ? MADE(linear) : NULL;
}

tn_schedule *tn_constant_lr(tn_program *p, const char *name, tn_constant_lr_options o) {
  OPEN;
  DEFAULT(factor, 1.0 / 3);
  DEFAULT(total_iters, 5);
  return WHOLE(total_iters) && ABOVE_0(factor) ? MADE(constant) : NULL;
}

tn_schedule *tn_cosine_annealing_lr(tn_program *p, const char *name, tn_cosine_annealing_lr_options o) {
  OPEN;
  return WHOLE(t_max) && NOT_BELOW_0(eta_min) ? MADE(cosine) : NULL;
}

tn_schedule *tn_cosine_annealing_warm_restarts(tn_program *p, const char *name,
                                               tn_cosine_annealing_warm_restarts_options o) {
  OPEN;
  DEFAULT(t_mult, 1);
  return WHOLE(t_0) && WHOLE(t_mult) && NOT_BELOW_0(eta_min) ? MADE(restarts) : NULL;
}

tn_schedule *tn_one_cycle_lr(tn_program *p, const char *name, tn_one_cycle_lr_options o) {
  OPEN;
  DEFAULT(pct_start, 0.3);
  DEFAULT(div_factor, 25);
  DEFAULT(final_div_factor, 1e4);
  DEFAULT(base_momentum, 0.85);
  DEFAULT(max_momentum, 0.95);
  if (!MOMENTUM(base_momentum) || !MOMENTUM(max_momentum)) return NULL;
  if (!WHOLE(total_steps) || !ABOVE_0(div_factor) || !ABOVE_0(final_div_factor) || !NOT_BELOW_0(max_lr)) return NULL;
  double up = o.pct_start * o.total_steps - 1, most = o.three_phase ? 0.5 : 1;
  bool fits = up > 0 && o.pct_start < most && (o.three_phase ? 2 * up : up) < o.total_steps - 1;
  return check(p, "pct_start", name, o.pct_start, fits, "that leaves more than a step to every phase", o.at)
             ? MADE(one_cycle)
             : NULL;
}

tn_schedule *tn_cyclic_lr(tn_program *p, const char *name, tn_cyclic_lr_options o) {
  OPEN;
  DEFAULT(step_size_up, 2000);
  DEFAULT(step_size_down, o.step_size_up);
  DEFAULT(gamma, 1);
  DEFAULT(base_momentum, 0.8);
  DEFAULT(max_momentum, 0.9);
  if (!MOMENTUM(base_momentum) || !MOMENTUM(max_momentum)) return NULL;
  bool good = WHOLE(step_size_up) && WHOLE(step_size_down) && ABOVE_0(max_lr) && NOT_BELOW_0(base_lr) && ABOVE_0(gamma);
  return good ? MADE(cyclic) : NULL;
}

tn_schedule *tn_reduce_lr_on_plateau(tn_program *p, const char *name, tn_reduce_lr_on_plateau_options o) {
  OPEN;
  DEFAULT(factor, 0.1);
  DEFAULT(threshold, 1e-4);
  DEFAULT(patience, o.no_patience ? 0 : 10);
  bool good = ABOVE_0(factor) && NOT_BELOW_0(threshold) && NOT_BELOW_0(patience) && NOT_BELOW_0(cooldown) &&
              NOT_BELOW_0(min_lr) && check(p, "factor", name, o.factor, o.factor < 1, "below 1", o.at);
  return good ? MADE(plateau) : NULL;
}

// A plateau counts metrics: it has no count to be set against a milestone.
static bool is_part(tn_program *p, const char *name, const tn_schedule *s, tn_site at) {
  if (!is_given(p, s, at)) return false;
  if (s->p == p && s->rate != rate_plateau) return true;
  fe_error(p, E_ARGUMENT, at, "schedule '%s' cannot be a part of '%.80s'", s->name, name ? name : "");
  return false;
}

tn_schedule *tn_sequential_lr(tn_program *p, const char *name, tn_schedule *first, tn_schedule *then, double milestone,
                              tn_site at) {
  OPEN;
  if (!is_part(p, name, first, at) || !is_part(p, name, then, at)) return NULL;
  if (!check(p, "milestone", name, milestone, milestone >= 0 && milestone < 0x1p24, "from 0 to 2^24", at)) return NULL;
  first->is_part = then->is_part = true;
  return make(p, name, rate_pair, (ScheduleOptions){.pair = {first, then, milestone}}, at);
}

tn_schedule *tn_lambda_lr(tn_program *p, const char *name, tn_lr_factor factor, void *ctx, tn_site at) {
  OPEN;
  if (factor) return make(p, name, rate_lambda, (ScheduleOptions){.lambda = {factor, ctx}}, at);
  fe_error(p, E_ARGUMENT, at, "schedule '%.80s' has no function", name ? name : "");
  return NULL;
}
