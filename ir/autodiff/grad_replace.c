// Gradients that are replaced on the way, as hooks do: `grad_replace %l, %x, %r` is %l, and gradients of it are those of %l
// with %r in place of the gradient of %x.
//
//   %g = grad_of %l, %x                  the walk back from %l goes as far as %x
//   %r = mul %g, %two                    what the hook built
//   %m = grad_replace %l, %x, %r
//   %d = grad_of %m, %w                  it goes on from there, with %r
//
// One walk serves a chain of replacements from the loss to its last one: it goes as far as the next gradient that is
// asked for, and waits. What will be replaced is passed over until it is, which is right where nothing that was walked
// through reads what it hands on; a gradient for which it is not gets a walk of its own.
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include <string.h>

struct GradWalk {
  Grad g;
  Val base;        // the old loss
  uint32_t *step;  // the old replacements, in order
  uint32_t n_steps, n_applied;
  bool *is_pending;    // by value: it will be replaced
  uint32_t at, below;  // reached values from `at` on, all behind `below`, are walked through, pending ones apart
  bool failed;
};

static uint32_t parent_of(const Gradients *s, uint32_t replacement) {
  return ir_rewrite_old_arg(&s->e, (Val){replacement}, 0).i;
}

static bool is_replacement(const Gradients *s, uint32_t i) { return s->e.old[i].op == OP_grad_replace; }

static uint32_t depth_of(const Gradients *s, uint32_t node) {
  uint32_t n = 0;
  for (; is_replacement(s, node); node = parent_of(s, node)) n++;
  return n;
}

static void want(const Gradients *s, GradWalk *w, uint32_t i, uint32_t *least) {
  Val x = ir_grad_target(s, i, w->g.loss);
  if (ir_none(x)) return;
  w->g.dep[x.i] = true;
  if (is_replacement(s, i)) w->is_pending[x.i] = true;
  if (x.i < *least) *least = x.i;
}

static void want_all(const Gradients *s, GradWalk *w, uint32_t node, uint32_t *least) {
  for (uint32_t i = s->first_of[node]; i; i = s->others[i]) want(s, w, i, least);
}

// Each stretch of a walk is one row: instructions built by hooks lie between them.
static void stretch_begins(const Gradients *s, GradWalk *w) {
  w->g.first = s->f->n_ins;
  w->g.of = NULL, w->g.n_of = w->g.cap_of = 0;
}

static void stretch_ends(Gradients *s, GradWalk *w) {
  if (w->g.first == s->f->n_ins) return;
  *RT_PUSH(s->f->prog->mem, s->done, s->n_done, s->cap_done) =
      (GradDone){w->g.first, s->f->n_ins, w->g.of, w->g.loss, w->failed};
}

static void begin(Gradients *s, GradWalk *w, uint32_t tip) {
  RtArena *mem = s->f->prog->mem;
  uint32_t n = s->f->n_ins, at = tip, least;
  w->n_steps = depth_of(s, tip);
  w->step = rt_alloc(mem, (w->n_steps + 1) * sizeof *w->step);
  for (uint32_t k = w->n_steps; k-- > 0; at = parent_of(s, at)) w->step[k] = at;
  w->base = (Val){at};
  w->g = (Grad){.f = s->f, .p = s->f->prog, .loss = s->e.map[at], .is_nested = s->nested[at]};
  w->g.adj = rt_alloc(mem, n * sizeof *w->g.adj), w->is_pending = rt_alloc(mem, n);
  w->g.dep = rt_alloc(mem, n), w->g.is_reached = rt_alloc(mem, n);
  least = w->g.loss.i;
  want_all(s, w, at, &least);
  for (uint32_t k = 0; k < w->n_steps; k++) want(s, w, w->step[k], &least), want_all(s, w, w->step[k], &least);
  ir_grad_find(&w->g, &w->g.loss, 1, least);
  w->at = w->g.n_reached, w->below = n;
  if (!w->g.dep[w->g.loss.i]) return;
  stretch_begins(s, w);
  w->g.loc = ir_ins(s->f, w->g.loss)->loc;
  w->g.adj[w->g.loss.i] = ir_grad_seed(s->f, w->g.loc);
  *RT_PUSH(mem, w->g.of, w->g.n_of, w->g.cap_of) = w->g.loss;
  stretch_ends(s, w);
}

static GradWalk *walk_to(Gradients *s, uint32_t tip) {
  if (s->walk_of[tip]) return s->walk_of[tip];
  s->walk_of[tip] = rt_alloc(s->f->prog->mem, sizeof(GradWalk));
  begin(s, s->walk_of[tip], tip);
  return s->walk_of[tip];
}

static bool is_waiting(const GradWalk *w, Val v) {
  uint32_t n = ir_ins(w->g.f, v)->n_res;
  for (uint32_t k = 0; k < (n ? n : 1); k++)
    if (w->is_pending[v.i + k]) return true;
  return false;
}

// Walks through all values behind x.
static void go_back(Gradients *s, GradWalk *w, Val x) {
  uint32_t errors = s->f->prog->diags.n_errors;
  stretch_begins(s, w);
  for (; w->at > 0 && w->g.reached[w->at - 1].i > x.i; w->at--) {
    Val v = w->g.reached[w->at - 1];
    if (!is_waiting(w, v)) ir_grad_step(&w->g, v);
  }
  if (x.i < w->below) w->below = x.i;
  w->failed |= s->f->prog->diags.n_errors != errors;
  stretch_ends(s, w);
}

// May the walk reach x before steps `from` and later are made? Only if none of them adds to the gradient of x
// or of a value behind it.
static bool may_wait(const Gradients *s, const GradWalk *w, uint32_t from, Val x) {
  for (uint32_t k = from; k < w->n_steps; k++) {
    Val later = ir_grad_target(s, w->step[k], w->g.loss), head = ir_head(s->f, later);
    if (ir_none(later) || head.i <= x.i) continue;
    for (uint32_t a = 0; a < s->f->ins[head.i].n_args; a++)
      if (ir_arg(s->f, head, a).i >= x.i) return false;
  }
  return true;
}

static void report_order(Gradients *s, GradWalk *w, uint32_t step, const char *why) {
  Prog *p = s->f->prog;
  Loc at = s->e.old[step].loc;
  rt_diag(&p->diags, RT_ERROR, E_STATE, ir_loc_file(p, at), ir_loc_line(p, at), "a gradient is replaced %s", why);
  rt_diag(&p->diags, RT_HINT, 0, NULL, 0, "each value's once, and values before what they were made of");
  w->failed = true;
}

static void replace_next(Gradients *s, GradWalk *w) {
  uint32_t step = w->step[w->n_applied++];
  Val x = ir_grad_target(s, step, w->g.loss), head;
  if (ir_none(x) || w->failed) return;
  if (!w->is_pending[x.i]) {
    report_order(s, w, step, "twice");
    return;
  }
  if (!may_wait(s, w, w->n_applied, x)) {
    report_order(s, w, step, "before one that it is made of");
    return;
  }
  go_back(s, w, x);
  w->is_pending[x.i] = false;
  if (ir_none(w->g.adj[x.i]) && !ir_grad_is_reached(&w->g, x)) return;  // no path leads there
  w->g.adj[x.i] = ir_rewrite_arg(&s->e, (Val){step}, 2);
  head = ir_head(s->f, x);
  if (head.i <= w->below || is_waiting(w, head)) return;
  stretch_begins(s, w);
  ir_grad_step(&w->g, head);
  stretch_ends(s, w);
}

Val ir_grad_hooked(Gradients *s, uint32_t i, Val *loss, bool *failed, bool *reached) {
  uint32_t node = ir_rewrite_old_arg(&s->e, (Val){i}, 0).i, tip = node, depth = depth_of(s, node);
  while (s->replaced_by[tip]) tip = s->replaced_by[tip];
  GradWalk *w = walk_to(s, tip);
  Val x = ir_grad_target(s, i, w->g.loss);
  if (w->n_applied > depth || (!ir_none(x) && !may_wait(s, w, depth, x))) w = walk_to(s, node);
  while (w->n_applied < depth) replace_next(s, w);
  if (!ir_none(x)) go_back(s, w, x);
  *loss = w->g.loss, *failed = w->failed, *reached = ir_grad_is_reached(&w->g, x);
  return w->g.adj[x.i];
}
