// Pass recompute: where a function needs more of the arena than the program allows, and where checkpoints ask for it, kernels run
// again right before what reads their results, so that these need not live in between. Which ones, the room schedule decides; the
// plan of buffers and offsets that follows is the judge.
//
//   %h = matmul %x, %w    kernel 0          %h = matmul %x, %w    kernel 0
//   %y = gelu %h          kernel 1    ->    %y = gelu %h          kernel 1
//   ..                                      ..
//   %d = mul %g, %h       kernel 40         %h = matmul %x, %w    kernel 40, again
//                                           %d = mul %g, %h       kernel 41
//
// Results keep their bits: a kernel that runs again is the same code, or the part of it that follows what is still there.
#include "ir/schedule/recompute.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/passes/cost.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/passes/planning/checkpoint.h"
#include "ir/passes/planning/problem.h"
#include "ir/remarks.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include "runtime/format.h"
#include <string.h>

typedef struct {
  const Fn *f;  // with kernels and buffers
  RtArena *mem;
  PlanProblem plan;
  const Val *makers;   // by size: the layout that sets it
  SchedLists writers;  // by buffer: kernels that write it behind its maker
  Val *value;          // by buffer of the problem
  bool *is_needed;     // by value, of the kernel that is looked at
  MakeAgain *make;     // by buffer of the problem
  uint32_t *until;
  bool *has_effect;  // by kernel
  uint32_t *n_made;  // by kernel: its buffers of the problem
  uint32_t *source, n_sources, cap_sources;
} Again;

static OpClass class_at(const Fn *f, uint32_t i) { return ir_ops[f->ins[i].op].cls; }

static bool is_member(const Kernel *k, uint32_t i) { return i >= k->first && i < k->first + k->n; }

// ---- the part of a kernel that makes a value
// Its ancestors in the kernel; of a part those behind other buffers of the kernel. Operands come before what reads them: one walk
// finds them all.
static void mark_ancestors(const Again *a, const Kernel *k, Val v, uint32_t make) {
  const Fn *f = a->f;
  uint32_t last = ir_head(f, v).i;
  a->is_needed[last] = true;
  for (uint32_t i = last + 1; i-- > k->first;)
    for (uint32_t n = 0; a->is_needed[i] && n < f->ins[i].n_args; n++) {
      Val arg = ir_arg(f, (Val){i}, n);
      if (is_member(k, arg.i) && (make == MAKE_KERNEL || !f->buf_of[arg.i])) a->is_needed[ir_head(f, arg).i] = true;
    }
}

static void mark_all(const Again *a, const Kernel *k) {
  for (uint32_t i = k->first; i < k->first + k->n; i++) a->is_needed[i] = a->f->ins[i].op != OP_result;
}

static void clear_needed(const Again *a, const Kernel *k) { memset(a->is_needed + k->first, 0, k->n); }

static bool is_pointwise(const Again *a, const Kernel *k) {
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (a->is_needed[i] && class_at(a->f, i) != CLASS_POINTWISE) return false;
  return true;
}

// The class of the kernel that is_needed makes. It holds the anchor, is pointwise, or is whole.
static OpClass close_needed(const Again *a, const Kernel *k) {
  if (is_pointwise(a, k)) return CLASS_POINTWISE;
  if (k->cls != CLASS_POINTWISE && k->cls != CLASS_ROW && !a->is_needed[ir_anchor(a->f, k).i]) mark_all(a, k);
  return (OpClass)k->cls;
}

static bool may_repeat(const Again *a, uint32_t i) {
  const Fn *f = a->f;
  uint32_t flags = ir_ops[f->ins[i].op].flags;
  for (uint32_t slot = 0; a->makers && slot < f->prog->n_syms; slot++)
    if (a->makers[slot].i == i) return false;
  return (flags & PURE) && !(flags & (EFFECT | WRITES)) && class_at(f, i) != CLASS_SCAN && !ir_may_fault(f, (Val){i});
}

static bool may_run_again(const Again *a, const Kernel *k) {
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (a->is_needed[i] && !may_repeat(a, i)) return false;
  return ir_none(k->wanted);
}

// It cannot run again, or makes what is no buffer of the problem.
static bool has_effect(const Again *a, const Kernel *k) {
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (a->f->buf_of[i] && !a->plan.index[a->f->buf_of[i]]) return true;
  return !may_run_again(a, k);
}

static uint32_t next_write(const Again *a, uint32_t buf, uint32_t kernel) {
  for (uint32_t i = a->writers.first[buf]; i < a->writers.first[buf + 1]; i++)
    if (a->writers.list[i] > kernel) return a->writers.list[i];
  return UINT32_MAX - 1;
}

static bool is_source(const Again *a, uint32_t first, uint32_t b) {
  for (uint32_t i = first; i < a->n_sources; i++)
    if (a->source[i] == b) return true;
  return false;
}

// What a kernel of is_needed reads, and its time. It must run before what it reads is overwritten.
static MakeAgain read_needed(Again *a, uint32_t kernel, uint32_t *until) {
  enum { CALL_NS = 2000 };
  const double MOST_NS = 1e15;
  const Fn *f = a->f;
  const Kernel *k = &f->kernels[kernel];
  MakeAgain m = {.first = a->n_sources};
  double ns = CALL_NS;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (!a->is_needed[i]) continue;
    ns += ir_instruction_ns(f, (Val){i});
    for (uint32_t n = 0; n < f->ins[i].n_args; n++) {
      Val base = ir_view_base(f, ir_arg(f, (Val){i}, n));
      uint32_t buf = f->buf_of[base.i], b = a->plan.index[buf];
      if (!buf || (is_member(k, base.i) && a->is_needed[ir_head(f, base).i])) continue;
      if (next_write(a, buf, kernel) + 1 < *until) *until = next_write(a, buf, kernel) + 1;
      if (b && !is_source(a, m.first, b - 1)) *RT_PUSH(a->mem, a->source, a->n_sources, a->cap_sources) = b - 1;
    }
  }
  m.n = a->n_sources - m.first, m.ns = (int64_t)(ns < MOST_NS ? ns : MOST_NS);
  return m;
}

// Pointwise, and behind other buffers of the kernel.
static bool is_part(const Again *a, const Kernel *k) {
  const Fn *f = a->f;
  bool is_behind = false;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    for (uint32_t n = 0; a->is_needed[i] && n < f->ins[i].n_args; n++) {
      Val arg = ir_arg(f, (Val){i}, n);
      is_behind |= is_member(k, arg.i) && !a->is_needed[ir_head(f, arg).i];
    }
  return is_behind && is_pointwise(a, k);
}

static void find_makes(Again *a, uint32_t buf) {
  const Fn *f = a->f;
  uint32_t b = a->plan.index[buf] - 1, kernel = (uint32_t)f->bufs[buf].first;
  const Kernel *k = &f->kernels[kernel];
  MakeAgain *of = a->make + b * N_MAKES;
  a->value[b] = f->bufs[buf].head, a->until[b] = UINT32_MAX;
  of[MAKE_KERNEL].ns = of[MAKE_PART].ns = -1;
  if (a->writers.first[buf] < a->writers.first[buf + 1] || !is_member(k, a->value[b].i)) return;
  mark_ancestors(a, k, a->value[b], MAKE_KERNEL), (void)close_needed(a, k);
  if (may_run_again(a, k)) of[MAKE_KERNEL] = read_needed(a, kernel, &a->until[b]);
  clear_needed(a, k);
  mark_ancestors(a, k, a->value[b], MAKE_PART);
  if (is_part(a, k) && may_run_again(a, k)) of[MAKE_PART] = read_needed(a, kernel, &a->until[b]);
  clear_needed(a, k);
}

static SchedLists find_writers(const Fn *f, RtArena *mem) {
  SchedPair *pairs = rt_alloc(mem, (f->n_ins + 1) * sizeof *pairs);
  uint32_t n = 0;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->kernel_of[i] != UINT32_MAX && f->buf_of[i] && (ir_ops[f->ins[ir_head(f, (Val){i}).i].op].flags & WRITES))
      pairs[n++] = (SchedPair){f->buf_of[i], f->kernel_of[i]};
  return ir_schedule_lists(pairs, n, f->n_bufs, mem);
}

static RecomputeProblem find_problem(Again *a, const Fn *f) {
  RtArena *mem = f->prog->mem;
  *a = (Again){.f = f, .mem = mem, .plan = ir_plan_problem(f, mem), .makers = ir_rows_makers(f)};
  uint32_t n = a->plan.p.n_buffers, n_kernels = f->n_kernels;
  a->writers = find_writers(f, mem);
  a->value = rt_alloc(mem, (n + 1) * sizeof *a->value), a->until = rt_alloc(mem, (n + 1) * sizeof *a->until);
  a->is_needed = rt_alloc(mem, f->n_ins), a->make = rt_alloc(mem, (n + 1) * N_MAKES * sizeof *a->make);
  for (uint32_t buf = 1; buf < f->n_bufs; buf++)
    if (a->plan.index[buf]) find_makes(a, buf);
  a->has_effect = rt_alloc(mem, n_kernels + 1), a->n_made = rt_alloc(mem, (n_kernels + 1) * sizeof *a->n_made);
  for (uint32_t b = 0; b < n; b++) a->n_made[a->plan.p.maker[b]]++;
  int64_t *ns = rt_alloc(mem, (n_kernels + 1) * sizeof *ns);
  for (uint32_t k = 0; k < n_kernels; k++) {
    mark_all(a, &f->kernels[k]);
    a->has_effect[k] = has_effect(a, &f->kernels[k]);
    ns[k] = read_needed(a, k, &(uint32_t){0}).ns;
    clear_needed(a, &f->kernels[k]);
  }
  Splits asked = ir_checkpoint_splits(f, &a->plan, a->value, mem);
  return (RecomputeProblem){a->plan.p, a->make,       a->source,  a->until, a->plan.constant,
                            ns,        a->has_effect, asked.list, asked.n,  0};
}

// ---- the function with kernels that run again
typedef struct {
  const Again *a;
  const Recompute *r;
  Rewrite e;
  Val *seen;        // by view: what its operand was where it was copied
  Val *before;      // by value of the kernel at hand: what it was
  bool *is_made;    // by buffer of the problem, of the step at hand
  Kernel *kernels;  // new ones
  Val *views;       // of refresh: last first
  uint32_t n_views, cap_views;
  uint32_t n_kernels, at;
} Emit;

// A view follows the newest value that it is of; so do the views that it is made of, which come first.
static void refresh(Emit *o, Val v) {
  o->n_views = 0;
  for (; ir_ops[ir_rewrite_old(&o->e, v)->op].cls == CLASS_VIEW; v = ir_rewrite_old_arg(&o->e, v, 0))
    *RT_PUSH(o->a->mem, o->views, o->n_views, o->cap_views) = v;
  while (o->n_views > 0) {
    Val view = o->views[--o->n_views], of = ir_rewrite_old_arg(&o->e, view, 0);
    if (!ir_none(o->e.map[view.i]) && o->seen[view.i].i == o->e.map[of.i].i) continue;
    o->seen[view.i] = o->e.map[of.i];
    ir_rewrite_copy(&o->e, view);
  }
}

static OpClass mark_step(const Emit *o, const RecomputeStep *s, const Kernel *k) {
  const Again *a = o->a;
  if (!s->again && (a->has_effect[s->kernel] || s->n_made == a->n_made[s->kernel])) {
    mark_all(a, k);
    return (OpClass)k->cls;
  }
  for (uint32_t m = 0; m < s->n_made; m++) mark_ancestors(a, k, a->value[o->r->made[s->first_made + m]], s->make);
  return s->make == MAKE_PART ? CLASS_POINTWISE : close_needed(a, k);
}

// What it makes again replaces what later kernels would read; its other values are its own.
static void keep_made(Emit *o, const RecomputeStep *s, const Kernel *k) {
  const Again *a = o->a;
  for (uint32_t m = 0; m < s->n_made; m++) o->is_made[o->r->made[s->first_made + m]] = true;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    uint32_t b = a->plan.index[a->f->buf_of[i]];
    if (!b || !o->is_made[b - 1]) o->e.map[i] = o->before[i];
  }
  for (uint32_t m = 0; m < s->n_made; m++) o->is_made[o->r->made[s->first_made + m]] = false;
}

static void emit_step(Emit *o, const RecomputeStep *s) {
  const Again *a = o->a;
  Kernel k = a->f->kernels[s->kernel];
  uint32_t first = 0;
  OpClass cls = mark_step(o, s, &k);
  memcpy(o->before + k.first, o->e.map + k.first, k.n * sizeof *o->before);
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    for (uint32_t n = 0; a->is_needed[i] && n < o->e.old[i].n_args; n++)
      refresh(o, ir_rewrite_old_arg(&o->e, (Val){i}, n));
  first = o->e.f->n_ins;
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (a->is_needed[i]) ir_rewrite_copy(&o->e, (Val){i});
  clear_needed(a, &k);
  o->kernels[o->n_kernels++] = (Kernel){.first = first,
                                        .n = o->e.f->n_ins - first,
                                        .cls = (uint8_t)cls,
                                        .wanted = o->e.map[k.wanted.i],
                                        .again = s->again};
  if (s->again) keep_made(o, s, &k);
}

// The steps up to kernel k.
static void emit_until(Emit *o, uint32_t k) {
  uint32_t end = o->at;
  while (end < o->r->n && (o->r->steps[end].again || o->r->steps[end].kernel < k)) end++;
  if (end == o->r->n || o->r->steps[end].kernel != k) return;  // it does not run
  for (; o->at <= end; o->at++) emit_step(o, &o->r->steps[o->at]);
}

static bool is_there(const Emit *o, uint32_t i) {
  for (uint32_t k = 0; k < o->e.old[i].n_args; k++)
    if (ir_none(ir_rewrite_arg(&o->e, (Val){i}, k))) return false;
  return true;
}

// In a list of their own: another plan may begin with those that there were.
static void move_remarks(Fn *f, const Val *map) {
  const Remark *old = f->remarks;
  uint32_t n = f->n_remarks;
  f->remarks = NULL, f->n_remarks = f->cap_remarks = 0;
  for (uint32_t k = 0; k < n; k++) {
    Remark r = old[k];
    r.v = map[r.v.i], r.with = map[r.with.i];
    if (!ir_none(r.v) && !ir_none(r.with)) *RT_PUSH(f->prog->mem, f->remarks, f->n_remarks, f->cap_remarks) = r;
  }
}

static void emit(Fn *f, const Again *a, const Recompute *r) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins;
  const uint32_t *kernel_of = f->kernel_of;
  Emit o = {.a = a, .r = r, .seen = rt_alloc(mem, n * sizeof *o.seen), .before = rt_alloc(mem, n * sizeof *o.before)};
  o.is_made = rt_alloc(mem, a->plan.p.n_buffers + 1), o.kernels = rt_alloc(mem, (r->n + 1) * sizeof *o.kernels);
  ir_rewrite_begin(&o.e, f);
  for (uint32_t i = 1; i < n; i++) {
    if (kernel_of[i] != UINT32_MAX) {
      if (a->f->kernels[kernel_of[i]].first == i) emit_until(&o, kernel_of[i]);
    } else if (o.e.old[i].op != OP_result && ir_none(o.e.map[i]) && is_there(&o, i)) {
      if (ir_ops[o.e.old[i].op].cls == CLASS_VIEW) refresh(&o, (Val){i});
      else ir_rewrite_copy(&o.e, (Val){i});
    }
  }
  ir_rewrite_end(&o.e);
  move_remarks(f, o.e.map);
  f->kernels = o.kernels, f->n_kernels = o.n_kernels;
  f->kernel_of = rt_alloc(mem, f->n_ins * sizeof *f->kernel_of);
  memset(f->kernel_of, 0xff, f->n_ins * sizeof *f->kernel_of);
  for (uint32_t k = 0; k < f->n_kernels; k++)
    for (uint32_t i = o.kernels[k].first; i < o.kernels[k].first + o.kernels[k].n; i++) f->kernel_of[i] = k;
}

// ---- the limit
// The remarks of passes that run again are not kept.
static bool plan(Fn *f) {
  uint32_t n_remarks = f->n_remarks;
  bool good = ir_pass_assign_buffers(f) && ir_pass_plan_memory(f);
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
// lowest peak that this gives is found by halving; a peak that is hardly lower is not worth it.
static bool lower_cheaply(Fn *f) {
  enum { HALVINGS = 6, TIME_PART = 100, LEAST_PART = 32, PAGES_OF_STEP = 4 };
  int64_t peak = f->stats.peak_bytes, whole = 0, spent = 0;
  Fn was = *f;
  Again a;
  RecomputeProblem q = find_problem(&a, &was);
  Recompute best = {0};
  int64_t low = bytes_of_largest(&a, &(uint32_t){0}) - a.plan.always, high = peak - a.plan.always;
  for (uint32_t k = 0; k < was.n_kernels; k++) whole += q.ns[k];
  q.most_ns = whole / TIME_PART;
  for (uint32_t k = 0; k < HALVINGS && low < high; k++) {
    int64_t target = low + (high - low) / 2;
    Recompute r = ir_recompute(&q, target, &spent, f->prog->mem);
    if (r.is_met && r.ns <= q.most_ns) best = r, high = target;
    else low = target;
  }
  if (!best.is_met) return true;
  emit(f, &a, &best);
  if (!plan(f)) return false;
  int64_t gain = peak - f->stats.peak_bytes;
  if (gain <= peak / LEAST_PART || gain < f->prog->target.step_bytes / PAGES_OF_STEP) *f = was;
  return true;
}

// ---- plans for a limit
typedef struct {
  Fn *f, was;
  Again a;
  RecomputeProblem q;
  Recompute r;                   // the last that was tried
  int64_t limit, spent, lowest;  // lowest: of all plans; INT64_MAX: none was made
} Attempts;

// Plans what the search finds for so many bytes, or the fewest that it has seen. False: it cannot be planned.
static bool attempt(Attempts *t, int64_t target) {
  t->r = ir_recompute(&t->q, target - t->a.plan.always, &t->spent, t->a.mem);
  *t->f = t->was;
  if (t->r.peak == INT64_MAX) return true;
  emit(t->f, &t->a, &t->r);
  if (!plan(t->f)) return false;
  if (t->f->stats.peak_bytes < t->lowest) t->lowest = t->f->stats.peak_bytes;
  return true;
}

static bool is_within(const Attempts *t) { return t->lowest <= t->limit; }

// Bytes by plan may be more than by count: then the next target is lower.
static bool search_limit(Attempts *t) {
  enum { MOST_PLANS = 8, PARTS = 256 };
  int64_t target = t->limit;
  for (uint32_t k = 0; k < MOST_PLANS; k++) {
    if (!attempt(t, target)) return false;
    if (is_within(t) || !t->r.is_met) return true;
    int64_t over = t->f->stats.peak_bytes - t->limit;
    target -= over > t->limit / PARTS ? over : t->limit / PARTS;
  }
  return true;
}

// A search for far less than is possible goes astray: the least is found by halving.
static bool search_least(Attempts *t) {
  enum { HALVINGS = 5 };
  int64_t low = bytes_of_largest(&t->a, &(uint32_t){0}), high = t->lowest;
  for (uint32_t k = 0; k < HALVINGS && low < high && !is_within(t) && t->r.peak < INT64_MAX; k++) {
    int64_t target = low + (high - low) / 2;
    if (!attempt(t, target)) return false;
    if (t->r.is_met) high = target;
    else low = target;
  }
  return true;
}

bool ir_pass_recompute(Fn *f) {
  enum { LEAST_PART = 64 };
  const int64_t NO_LIMIT = INT64_MAX / 2;
  const Prog *p = f->prog;
  if ((!p->arena_limit && !p->n_checkpoints && !p->recomputes) || !f->n_kernels) return true;
  if (!plan(f)) return false;
  if (!p->arena_limit && !p->n_checkpoints) return lower_cheaply(f);
  Attempts t = {.f = f, .was = *f, .limit = p->arena_limit ? p->arena_limit : NO_LIMIT, .lowest = INT64_MAX};
  int64_t peak = f->stats.peak_bytes;
  if (peak <= t.limit && !p->n_checkpoints) return true;
  t.q = find_problem(&t.a, &t.was);
  if (peak <= t.limit && !t.q.n_asked) return true;
  if (p->recomputes && (!search_limit(&t) || !search_least(&t))) return false;
  if (!p->recomputes && t.q.n_asked && !attempt(&t, NO_LIMIT)) return false;
  if (is_within(&t)) {
    ir_checkpoints_done(&t.was, t.a.value, &t.r, f->stats.peak_bytes < peak - peak / LEAST_PART);
    return true;
  }
  *f = t.was;
  if (peak <= t.limit) return true;  // checkpoints alone would go beyond it
  int64_t least = t.lowest < peak ? t.lowest : peak;
  return report(f, &t.a, p->recomputes || t.lowest > peak ? peak : t.lowest, least);
}
