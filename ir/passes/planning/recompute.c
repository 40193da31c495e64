// What pass recompute does to a function: kernels run again right before what reads their results, so that these need not live in
// between. Which ones, the room schedule decides (recompute_limit.c asks it).
//
//   %h = matmul %x, %w    kernel 0          %h = matmul %x, %w    kernel 0
//   %y = gelu %h          kernel 1    ->    %y = gelu %h          kernel 1
//   ..                                      ..
//   %d = mul %g, %h       kernel 40         %h = matmul %x, %w    kernel 40, again
//                                           %d = mul %g, %h       kernel 41
//
// Results keep their bits: a kernel that runs again is the same code, or the part of it that follows what is still there.
#include "ir/passes/planning/recompute.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/packed_dims.h"
#include "ir/passes/cost.h"
#include "ir/passes/plan.h"
#include "ir/passes/planning/checkpoint.h"
#include "ir/remarks.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include <string.h>

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

// The rows of a kernel of rows: an operation on them says what they are.
static bool find_rows(const Again *a, const Kernel *k, bool needed, RowSpace *rows) {
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if ((!needed || a->is_needed[i]) && ir_row_space(a->f, (Val){i}, rows)) return true;
  return false;
}

// All under one shape: a kernel of rows has numbers of each row, too. There it is that of the rows, so that two such parts are one.
static bool is_pointwise(const Again *a, const Kernel *k) {
  RowSpace rows;
  Shape shape = {0};
  bool has_shape = k->cls == CLASS_ROW && find_rows(a, k, false, &rows);
  if (has_shape) shape = rows.shape;
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (!a->is_needed[i]) continue;
    if (!has_shape) shape = a->f->ins[i].shape, has_shape = true;
    if (class_at(a->f, i) != CLASS_POINTWISE || a->f->ins[i].shape.i != shape.i) return false;
  }
  return true;
}

// The class of the kernel that is_needed makes. It holds the anchor or a row operation, is pointwise, or is whole.
static OpClass close_needed(const Again *a, const Kernel *k) {
  RowSpace rows;
  if (is_pointwise(a, k)) return CLASS_POINTWISE;
  bool is_cut = k->cls == CLASS_ROW ? !find_rows(a, k, true, &rows) : !a->is_needed[ir_anchor(a->f, k).i];
  if (k->cls != CLASS_POINTWISE && is_cut) mark_all(a, k);
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

// The first kernel from `from` on that overwrites the buffer
static uint32_t next_write(const Again *a, uint32_t buf, uint32_t from) {
  for (uint32_t i = a->writers.first[buf]; i < a->writers.first[buf + 1]; i++)
    if (a->writers.list[i] >= from) return a->writers.list[i];
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
      uint32_t write =
          next_write(a, buf, is_member(k, base.i) ? kernel + 1 : kernel);  // the kernel itself may write it
      if (write + 1 < *until) *until = write + 1;
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

RecomputeProblem ir_recompute_problem(Again *a, const Fn *f) {
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
  return (RecomputeProblem){.p = a->plan.p,
                            .make = a->make,
                            .source = a->source,
                            .until = a->until,
                            .constant = a->plan.constant,
                            .ns = ns,
                            .has_effect = a->has_effect,
                            .asked = asked.list,
                            .n_asked = asked.n};
}

// ---- the function with kernels that run again
typedef struct {
  const Again *a;
  const Recompute *r;
  const Fn *old;  // the function as it was
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

static OpClass mark_step(const Again *a, const Recompute *r, const RecomputeStep *s) {
  const Kernel *k = &a->f->kernels[s->kernel];
  if (!s->again && (a->has_effect[s->kernel] || s->n_made == a->n_made[s->kernel])) {
    mark_all(a, k);
    return (OpClass)k->cls;
  }
  for (uint32_t m = 0; m < s->n_made; m++) mark_ancestors(a, k, a->value[r->made[s->first_made + m]], s->make);
  return s->make == MAKE_PART ? CLASS_POINTWISE : close_needed(a, k);
}

// ---- what nobody reads
// A buffer that only its own kernel reads.
static bool is_own(const Again *a, uint32_t b) {
  const SchedProblem *p = &a->plan.p;
  return p->first_user[b] == p->first_user[b + 1] || p->user[p->first_user[b + 1] - 1] == p->maker[b];
}

// Of a step. False: it makes nothing that a later step reads.
static bool keep_read(const Again *a, const Recompute *r, RecomputeStep *s, bool *is_read) {
  bool any = !s->again && a->has_effect[s->kernel];
  uint32_t n = 0, *made = r->made + s->first_made;
  for (uint32_t m = 0; m < s->n_made; m++) {
    uint32_t b = made[m];
    any |= is_read[b];
    if (is_read[b] || is_own(a, b)) made[n++] = b;
    is_read[b] = false;
  }
  s->n_made = n;
  return any;
}

static void note_reads(const Again *a, const Recompute *r, const RecomputeStep *s, bool *is_read) {
  const Kernel *k = &a->f->kernels[s->kernel];
  (void)mark_step(a, r, s);
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    for (uint32_t n = 0; a->is_needed[i] && n < a->f->ins[i].n_args; n++) {
      Val base = ir_view_base(a->f, ir_arg(a->f, (Val){i}, n));
      uint32_t b = a->plan.index[a->f->buf_of[base.i]];
      if (b && !(is_member(k, base.i) && a->is_needed[ir_head(a->f, base).i])) is_read[b - 1] = true;
    }
  clear_needed(a, k);
}

// Steps were chosen for all that their kernels read; of some only a part is needed, which reads less.
static Recompute without_unread(const Again *a, const Recompute *of) {
  Recompute r = *of;
  bool *is_read = rt_alloc(a->mem, a->plan.p.n_buffers + 1), *stays = rt_alloc(a->mem, r.n + 1);
  uint32_t n_made = 0;
  for (uint32_t k = 0; k < r.n; k++) n_made += of->steps[k].n_made;
  r.steps = rt_alloc(a->mem, (r.n + 1) * sizeof *r.steps), r.made = rt_alloc(a->mem, (n_made + 1) * sizeof *r.made);
  if (r.n) memcpy(r.steps, of->steps, r.n * sizeof *r.steps);
  if (n_made) memcpy(r.made, of->made, n_made * sizeof *r.made);
  for (uint32_t k = r.n; k-- > 0;) {
    stays[k] = keep_read(a, &r, &r.steps[k], is_read);
    if (stays[k]) note_reads(a, &r, &r.steps[k], is_read);
  }
  r.n = 0;
  for (uint32_t k = 0; k < of->n; k++)
    if (stays[k]) r.steps[r.n++] = r.steps[k];
  return r;
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
  uint32_t first = 0, n_needed = 0, n_all = 0;
  OpClass cls = mark_step(a, o->r, s);
  memcpy(o->before + k.first, o->e.map + k.first, k.n * sizeof *o->before);
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    for (uint32_t n = 0; a->is_needed[i] && n < o->e.old[i].n_args; n++) {
      Val arg = ir_rewrite_old_arg(&o->e, (Val){i}, n);
      if (!is_member(&k, arg.i)) refresh(o, arg);
    }
  first = o->e.f->n_ins;
  for (uint32_t i = k.first; i < k.first + k.n; i++)
    if (a->is_needed[i]) ir_rewrite_copy(&o->e, (Val){i});
  for (uint32_t i = k.first; i < k.first + k.n; i++) n_needed += a->is_needed[i], n_all += o->e.old[i].op != OP_result;
  clear_needed(a, &k);
  o->kernels[o->n_kernels++] = (Kernel){.first = first,
                                        .n = o->e.f->n_ins - first,
                                        .cls = (uint8_t)cls,
                                        .wanted = o->e.map[k.wanted.i],
                                        .again = s->again,
                                        .before = k.before || n_needed == n_all ? k.before : o->old,
                                        .whole = k.before ? k.whole : s->kernel};
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

void ir_recompute_emit(Fn *f, const Again *a, const Recompute *of) {
  RtArena *mem = f->prog->mem;
  const Recompute r = without_unread(a, of);
  uint32_t n = f->n_ins;
  const uint32_t *kernel_of = f->kernel_of;
  Emit o = {.a = a, .r = &r, .seen = rt_alloc(mem, n * sizeof *o.seen), .before = rt_alloc(mem, n * sizeof *o.before)};
  Fn *old = rt_alloc(mem, sizeof *old);
  *old = *f, o.old = old;
  o.is_made = rt_alloc(mem, a->plan.p.n_buffers + 1), o.kernels = rt_alloc(mem, (r.n + 1) * sizeof *o.kernels);
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
