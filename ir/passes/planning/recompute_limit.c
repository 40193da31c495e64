// Pass recompute: where a function needs more of the arena than the program allows, and where checkpoints ask for it, kernels run
// again (recompute.c). The plan of buffers and offsets that follows is the judge.
//
// A function has one least, whatever the limit: the sequences on the way down (ir/schedule/recompute.h) are those of one order of
// its kernels, and the limit decides where the way ends.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/passes/planning/checkpoint.h"
#include "ir/passes/planning/recompute.h"
#include "runtime/format.h"
#include <string.h>

// Offsets are sought where at most `most` bytes live. The remarks of passes that run again are not kept.
static bool plan(Fn *f, int64_t most) {
  uint32_t n_remarks = f->n_remarks;
  bool good = ir_pass_assign_buffers(f) && ir_place_function(f, most);
  f->n_remarks = n_remarks;
  return good;
}

// Bytes that live while a kernel runs, whatever else is made again, and the kernel for which most do.
static int64_t bytes_of_largest(const Again *a, uint32_t *kernel) {
  const SchedProblem *p = &a->plan.p;
  int64_t *bytes = rt_alloc(a->mem, (p->n + 1) * sizeof *bytes), most = 0;
  for (uint32_t k = 0; k < p->n; k++) bytes[k] = p->scratch[k] + a->plan.constant[k] + a->plan.always - p->in_place[k];
  for (uint32_t b = 0; b < p->n_buffers; b++) {
    bytes[p->maker[b]] += p->size[b];
    for (uint32_t i = p->first_user[b]; i < p->first_user[b + 1]; i++) bytes[p->user[i]] += p->size[b];
  }
  for (uint32_t k = 0; k < p->n; k++)
    if (bytes[k] > most) most = bytes[k], *kernel = k;
  return most;
}

// In bytes where another amount would look the same: they differ by less than a tenth of their unit.
static const char *bytes_text(char to[RT_BYTES_SIZE], int64_t bytes, int64_t other) {
  int64_t unit = 1024, over = bytes > other ? bytes - other : other - bytes;
  while (bytes / 1024 >= unit) unit *= 1024;
  if (bytes < 1024 || over == 0 || over >= unit / 10) return rt_bytes_text(to, bytes);
  rt_format(to, RT_BYTES_SIZE, "%lld B", (long long)bytes);
  return to;
}

static bool report(Fn *f, const Again *a, int64_t peak, int64_t lowest) {
  Prog *p = f->prog;
  char needs[RT_BYTES_SIZE], limit[RT_BYTES_SIZE], least[RT_BYTES_SIZE], over[RT_BYTES_SIZE];
  uint32_t kernel = 0;
  int64_t largest = bytes_of_largest(a, &kernel);
  Val at = ir_anchor(a->f, &a->f->kernels[kernel]);
  Loc loc = a->f->ins[at.i].loc;
  rt_diag(&p->diags, RT_ERROR, E_ARENA_LIMIT, ir_loc_file(p, f->loc), ir_loc_line(p, f->loc),
          "@%s needs %s in the arena; the program allows %s", ir_text(p, f->name),
          bytes_text(needs, peak, p->arena_limit), bytes_text(limit, p->arena_limit, peak));
  if (p->recomputes)
    rt_diag(&p->diags, RT_NOTE, 0, NULL, 0, "with kernels that run again %s is the least that was found, %s too much",
            bytes_text(least, lowest, p->arena_limit), rt_bytes_text(over, lowest - p->arena_limit));
  rt_diag(&p->diags, RT_NOTE, 0, ir_loc_file(p, loc), ir_loc_line(p, loc),
          "the kernel of this line, %s, takes %s whatever else runs again", ir_ops[a->f->ins[at.i].op].name,
          rt_bytes_text(least, largest < lowest ? largest : lowest));
  rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "%s",
          p->recomputes ? "a higher .arena_limit, shards (tn_distributed with one process) or smaller bounds of dims; "
                          "tenure fit --recompute --shards finds them"
                        : "compile with .recompute = TN_RECOMPUTE_AUTO");
  return false;
}

// Without a limit kernels run again only where that takes next to no time: norms and activations of what is kept anyway. The
// lowest peak that this gives lies between two sequences on the way down; a peak that is hardly lower is not worth it.
static Recompute find_cheap(const RecomputeProblem *q, RtArena *mem) {
  enum { HALVINGS = 5 };
  RecomputeDescent *d = ir_recompute_descent(q, mem);
  Recompute best = {0}, r;
  int64_t low = 0, high = 0;
  while (!low && ir_recompute_descend(d, &r)) {
    if (r.ns <= q->most_ns) best = r, high = r.peak;
    else low = r.peak;
  }
  for (uint32_t k = 0; k < HALVINGS && low; k++) {
    int64_t target = low + (high - low) / 2;
    r = ir_recompute_between(d, target);
    if (r.is_met && r.ns <= q->most_ns) best = r, high = target;
    else low = target;
  }
  return best;
}

static bool lower_cheaply(Fn *f) {
  enum { TIME_PART = 100, LEAST_PART = 32, PAGES_OF_STEP = 4 };
  int64_t peak = f->stats.peak_bytes, whole = 0;
  Fn was = *f;
  Again a;
  RecomputeProblem q = ir_recompute_problem(&a, &was);
  for (uint32_t k = 0; k < was.n_kernels; k++) whole += q.ns[k];
  q.most_ns = whole / TIME_PART;
  Recompute best = find_cheap(&q, f->prog->mem);
  if (!best.ns) return true;
  ir_recompute_emit(f, &a, &best);
  if (!plan(f, INT64_MAX)) return false;
  int64_t gain = peak - f->stats.peak_bytes;
  if (gain <= peak / LEAST_PART || gain < f->prog->target.step_bytes / PAGES_OF_STEP) *f = was;
  return true;
}

// ---- plans for a limit
typedef struct {
  int64_t counted;
  Recompute r;
  bool is_planned;
} Rung;

typedef struct {
  Fn *f, was;
  Again a;
  RecomputeProblem q;
  Recompute r;            // of the plan that f has
  int64_t limit, lowest;  // lowest: of all plans; INT64_MAX: none was made
  Rung *rungs;
  uint32_t n_rungs, cap_rungs;
} Attempts;

static bool is_placed(const Fn *f, int64_t most) { return f->stats.lower_bound <= most; }

// A plan of more than `most` bytes is not wanted. False: it cannot be planned.
static bool attempt(Attempts *t, const Recompute *r, int64_t most) {
  *t->f = t->was;
  t->r = *r;
  ir_recompute_emit(t->f, &t->a, &t->r);
  if (!plan(t->f, most)) return false;
  if (is_placed(t->f, most) && t->f->stats.peak_bytes < t->lowest) t->lowest = t->f->stats.peak_bytes;
  return true;
}

static bool is_within(const Attempts *t) { return t->lowest <= t->limit; }

// The plan of f keeps the limit: another one that uses more of it may take less time. Bytes by plan may be more than by count: then
// the next budget is lower. Not below that of f, which may be the least that E137 names.
static bool use_limit(Attempts *t, RecomputeDescent *d) {
  enum { MOST_PLANS = 4, PARTS = 256 };
  Recompute kept = t->r;
  int64_t budget = t->limit - t->a.plan.always, least = t->f->stats.peak_bytes;
  for (uint32_t k = 0; k < MOST_PLANS; k++) {
    Recompute r = ir_recompute_between(d, budget);
    if (!r.is_met || r.ns >= kept.ns) break;
    if (!attempt(t, &r, t->limit)) return false;
    int64_t peak = t->f->stats.peak_bytes;
    if (peak >= least && peak <= t->limit) return true;
    if (peak < least) break;
    budget -= peak - t->limit > t->limit / PARTS ? peak - t->limit : t->limit / PARTS;
  }
  return t->r.ns == kept.ns || attempt(t, &kept, INT64_MAX);
}

// The lowest first. By plan they need hardly less than by count: those that are too high are not looked at.
static bool plan_rungs(Attempts *t) {
  enum { PARTS = 16 };
  for (uint32_t k = t->n_rungs; k-- > 0 && !is_within(t);) {
    const Rung *rung = &t->rungs[k];
    if (rung->counted - rung->counted / PARTS >= t->lowest) break;
    if (!rung->is_planned && !attempt(t, &rung->r, t->lowest - 1)) return false;
  }
  return true;
}

// Down to the first sequence whose plan keeps the limit.
static bool go_down(Attempts *t) {
  RecomputeDescent *d = ir_recompute_descent(&t->q, t->a.mem);
  for (Recompute r; ir_recompute_descend(d, &r);) {
    int64_t counted = r.peak + t->a.plan.always;
    Rung *rung = RT_PUSH(t->a.mem, t->rungs, t->n_rungs, t->cap_rungs);
    *rung = (Rung){counted, r, false};
    if (counted > t->limit) continue;
    if (!attempt(t, &r, t->limit)) return false;
    rung->is_planned = is_placed(t->f, t->limit);
    if (is_within(t)) return use_limit(t, d);
  }
  return plan_rungs(t);
}

static Attempts begin(Fn *f) {
  const int64_t NO_LIMIT = INT64_MAX / 2;
  int64_t limit = f->prog->arena_limit;
  return (Attempts){.f = f, .was = *f, .limit = limit ? limit : NO_LIMIT, .lowest = INT64_MAX};
}

static bool plan_asked(Attempts *t) {
  Recompute r;
  return ir_recompute_descend(ir_recompute_descent(&t->q, t->a.mem), &r) && attempt(t, &r, INT64_MAX);
}

static void note_checkpoints(const Attempts *t, int64_t peak) {
  enum { LEAST_PART = 64 };
  bool is_lower = t->f->stats.peak_bytes < peak - peak / LEAST_PART;
  ir_checkpoints_done(&t->was, t->a.value, &t->r, is_lower);
}

// What checkpoints ask for, and no more, in the plain order.
static bool run_asked(Fn *f, bool *is_kept) {
  Attempts t = begin(f);
  int64_t peak = f->stats.peak_bytes;
  t.q = ir_recompute_problem(&t.a, &t.was);
  *is_kept = !t.q.n_asked && peak <= t.limit;
  if (!t.q.n_asked) return true;
  if (!plan_asked(&t)) return false;
  *is_kept = is_within(&t);
  if (*is_kept) note_checkpoints(&t, peak);
  else *f = t.was;
  return true;
}

// f as it was before pass fuse, in an order for limits
static bool order_for_limit(Fn *f, uint8_t part) {
  if (!f->unordered) return true;
  *f = *f->unordered, f->limit_part = part;
  return ir_pass_fuse(f);
}

static bool plan_ordered(Attempts *t) {
  if (!plan(t->f, INT64_MAX)) return false;
  t->lowest = t->f->stats.peak_bytes;
  return true;
}

// Both come from one function.
static bool is_same_order(const Fn *a, const Fn *b) {
  if (a->n_ins != b->n_ins || a->n_args != b->n_args || a->n_kernels != b->n_kernels) return false;
  for (uint32_t i = 1; i < a->n_ins; i++)
    if (a->ins[i].op != b->ins[i].op || a->kernel_of[i] != b->kernel_of[i]) return false;
  return !memcmp(a->args, b->args, a->n_args * sizeof *a->args);
}

// f: in an order for limits. False: it cannot be planned.
static bool attempt_order(Fn *f, Attempts *t) {
  if (!ir_pass_assign_buffers(f)) return false;
  *t = begin(f);
  t->q = ir_recompute_problem(&t->a, &t->was);
  return f->prog->recomputes ? go_down(t) : t->q.n_asked ? plan_asked(t) : plan_ordered(t);
}

// f: in the plain order. least: of plans in other orders.
static bool refuse(Fn *f, const Attempts *t, int64_t least) {
  if (f->stats.peak_bytes < least && !plan(f, INT64_MAX)) return false;
  int64_t peak = f->stats.peak_bytes;
  if (peak < least) least = peak;
  return report(f, &t->a, f->prog->recomputes ? peak : least, least);
}

// f: in the plain order, with a plan where that is within the limit, or else with the bytes that live. The orders are the same for
// every limit; the first that keeps it is taken.
static bool keep_limit(Fn *f) {
  static const uint8_t parts[] = {2, 4};
  Fn plain = *f;
  int64_t peak = plain.stats.peak_bytes, least = INT64_MAX;
  Attempts t = {0};
  for (uint32_t k = 0; k < (plain.unordered ? sizeof parts : 1); k++) {
    *f = plain;
    if (!order_for_limit(f, parts[k])) return false;
    if (k && is_same_order(f, &t.was)) break;
    if (!attempt_order(f, &t)) return false;
    if (is_within(&t)) {
      note_checkpoints(&t, peak);
      return true;
    }
    if (t.lowest < least) least = t.lowest;
  }
  *f = plain;  // whole: checkpoints alone would go beyond the limit, or it is for those who go on
  return peak <= t.limit || refuse(f, &t, least);
}

bool ir_pass_recompute(Fn *f) {
  const Prog *p = f->prog;
  bool is_kept = false;
  if ((!p->arena_limit && !p->n_checkpoints && !p->recomputes) || !f->n_kernels) return true;
  if (!plan(f, p->arena_limit ? p->arena_limit : INT64_MAX)) return false;
  if (!p->arena_limit && !p->n_checkpoints) return lower_cheaply(f);
  if (!p->n_checkpoints) return f->stats.peak_bytes <= p->arena_limit || keep_limit(f);
  return run_asked(f, &is_kept) && (is_kept || keep_limit(f));
}
