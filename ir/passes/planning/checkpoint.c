// Checkpoints: a call of a module whose forward values are not kept for the backward, but computed again when the backward of the
// call begins. Its inputs are kept.
//
//   %h = matmul %x, %w checkpoint=1    kernel 0       %h = matmul %x, %w    kernel 0
//   %y = gelu %h       checkpoint=1    kernel 1       %y = gelu %h          kernel 1
//   ..                                           ->   ..
//   %d = mul %g, %h                    kernel 40      %h = matmul %x, %w    kernel 40, again
//                                                     %d = mul %g, %h       kernel 41
//
// What reads a buffer of the call in that kernel or behind it reads it as it was made again: a split before the first kernel of the
// backward. Of calls within calls that are computed again, one before each of these kernels: what the outer one makes again for
// others need not live until the backward of the inner one.
#include "ir/passes/planning/checkpoint.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/plan.h"

// By value: computed from the gradient of what follows. Marks of pass grad are lost where a rule rewrites an instruction, so that
// what reads such a value is one too.
static bool *find_adjoints(const Fn *f, RtArena *mem) {
  bool *is_adjoint = rt_alloc(mem, f->n_ins);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    is_adjoint[i] = ins->is_adjoint && ir_ops[ins->op].cls != CLASS_LEAF;
    for (uint32_t k = 0; k < ins->n_args; k++) is_adjoint[i] |= is_adjoint[ir_arg(f, (Val){i}, k).i];
  }
  return is_adjoint;
}

static uint32_t around(const Fn *f, uint32_t c) { return f->prog->checkpoints[c - 1].around; }

// A call is numbered behind the one that it is part of.
static uint32_t common(const Fn *f, uint32_t a, uint32_t b) {
  while (a != b) *(a > b ? &a : &b) = around(f, a > b ? a : b);
  return a;
}

// By adjoint: the innermost call that it, and all adjoints that it is computed from, are part of; 0: none; FREE: it is made of
// leaves and numbers alone.
enum { FREE = UINT32_MAX };

static uint32_t *find_calls(const Fn *f, const bool *is_adjoint, RtArena *mem) {
  uint32_t *call = rt_alloc(mem, f->n_ins * sizeof *call);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    bool is_free = is_adjoint[i];
    call[i] = ir_loc_checkpoint(f->prog, f->ins[i].loc);
    for (uint32_t k = 0; k < f->ins[i].n_args && is_adjoint[i]; k++) {
      uint32_t a = ir_arg(f, (Val){i}, k).i;
      is_free &= is_adjoint[a] ? call[a] == FREE : ir_ops[f->ins[a].op].cls == CLASS_LEAF;
      if (is_adjoint[a] && call[a] != FREE) call[i] = common(f, call[i], call[a]);
    }
    if (is_free) call[i] = FREE;
  }
  return call;
}

// By checkpoint, from 1: the first kernel of its backward, + 1; 0: it has none in this function. Where a loss reads a value within
// the call, its gradient there is made during the forward: the backward begins where the gradient of what follows the call arrives.
static uint32_t *find_backwards(const Fn *f, RtArena *mem) {
  const bool *is_adjoint = find_adjoints(f, mem);
  const uint32_t *call = find_calls(f, is_adjoint, mem);
  uint32_t n = f->prog->n_checkpoints, *first = rt_alloc(mem, (n + 1) * sizeof *first);
  uint32_t *arrival = rt_alloc(mem, (n + 1) * sizeof *arrival);
  for (uint32_t k = 0; k < f->n_kernels; k++)
    for (uint32_t i = f->kernels[k].first; i < f->kernels[k].first + f->kernels[k].n; i++) {
      bool arrives = call[i] != FREE;
      for (uint32_t c = is_adjoint[i] ? ir_loc_checkpoint(f->prog, f->ins[i].loc) : 0; c; c = around(f, c)) {
        arrives &= c != call[i];
        if (!first[c]) first[c] = k + 1;
        if (arrives && !arrival[c]) arrival[c] = k + 1;
      }
    }
  for (uint32_t c = 1; c <= n; c++)
    if (arrival[c]) first[c] = arrival[c];
  return first;
}

static uint32_t last_user(const SchedProblem *p, uint32_t b) {
  return p->first_user[b] < p->first_user[b + 1] ? p->user[p->first_user[b + 1] - 1] : p->maker[b];
}

Splits ir_checkpoint_splits(const Fn *f, const PlanProblem *q, const Val *value, RtArena *mem) {
  Splits s = {0};
  const uint32_t *first = find_backwards(f, mem);
  for (uint32_t c = 1; c <= f->prog->n_checkpoints; c++)
    if (first[c]) f->prog->checkpoints[c - 1].has_backward = true;
  for (uint32_t b = 0; b < q->p.n_buffers; b++)
    for (uint32_t c = ir_loc_checkpoint(f->prog, f->ins[value[b].i].loc); c; c = around(f, c)) {
      uint32_t backward = first[c] - 1;
      if (!first[c] || q->p.maker[b] >= backward) continue;
      *RT_PUSH(mem, s.list, s.n, s.cap) = (Split){b, backward - 1};  // what is made again reads more than the backward
      f->prog->checkpoints[c - 1].n_read += last_user(&q->p, b) >= backward;
    }
  return s;
}

void ir_checkpoints_done(const Fn *f, const Val *value, const Recompute *r, bool is_lower) {
  for (uint32_t k = 0; k < r->n; k++)
    for (uint32_t m = r->steps[k].first_made; r->steps[k].again && m < r->steps[k].first_made + r->steps[k].n_made; m++)
      for (uint32_t c = ir_loc_checkpoint(f->prog, f->ins[value[r->made[m]].i].loc); c; c = around(f, c))
        f->prog->checkpoints[c - 1].n_again++, f->prog->checkpoints[c - 1].is_lower |= is_lower;
}

// ---- what has no effect
// All calls of a module of one tn_checkpoint.
static Checkpoint sum_of(const Prog *p, const Checkpoint *of, bool *is_first) {
  Checkpoint sum = *of;
  *is_first = true;
  for (uint32_t k = 0; k < p->n_checkpoints; k++) {
    const Checkpoint *c = &p->checkpoints[k];
    if (c == of || c->module.i != of->module.i || c->loc.i != of->loc.i) continue;
    *is_first &= c > of;
    sum.has_backward |= c->has_backward, sum.has_second |= c->has_second, sum.is_lower |= c->is_lower;
    sum.n_read += c->n_read, sum.n_again += c->n_again;
  }
  return sum;
}

// A step of a scan computes a gradient of what calls of the module compute.
static bool is_in_scan(const Prog *p, const Checkpoint *of) {
  for (uint32_t b = 0; b < p->n_bodies; b++)
    for (uint32_t i = 1; i < p->bodies[b]->n_ins; i++) {
      const Ins *ins = &p->bodies[b]->ins[i];
      for (uint32_t c = ins->backward_of ? ir_loc_checkpoint(p, ins->loc) : 0; c; c = p->checkpoints[c - 1].around)
        if (p->checkpoints[c - 1].module.i == of->module.i && p->checkpoints[c - 1].loc.i == of->loc.i) return true;
    }
  return false;
}

// NULL: there is nothing to say.
static const char *why_no_effect(const Prog *p, const Checkpoint *c) {
  if (c->n_again && c->is_lower) return NULL;
  if (c->n_again)
    return c->has_second ? "gradients are taken of its gradients, and what its first backward computes is kept for that"
                         : "all that it computes again lives at once when its backward begins";
  if (is_in_scan(p, c)) return "it is called in a scan, whose steps are kept";
  if (!c->has_backward) return "no function takes a gradient through it";
  return c->n_read ? "nothing that its backward reads can be computed again"
                   : "its backward reads nothing that it computes";
}

void ir_warn_checkpoints(Prog *p) {
  for (uint32_t k = 0; k < p->n_checkpoints; k++) {
    bool is_first;
    Checkpoint c = sum_of(p, &p->checkpoints[k], &is_first);
    const char *why = is_first ? why_no_effect(p, &c) : NULL;
    if (!why) continue;
    rt_diag(&p->diags, RT_WARNING, E_NO_CHECKPOINT, ir_loc_file(p, c.loc), ir_loc_line(p, c.loc),
            "the checkpoint of module '%s' %s: %s", ir_text(p, c.module),
            c.n_again ? "takes time and lowers no memory" : "has no effect", why);
  }
}
