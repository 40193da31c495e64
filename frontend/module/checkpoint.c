// Checkpoints: what a call of a module computes is computed again for the backward, instead of being kept. Each call is one of its
// own, so that the inputs of each are kept.
#include "frontend/graph/module.h"
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include <string.h>

// A forward that runs a part of the same call is no call within it.
static bool is_open(const tn_module *m) {
  const Prog *ir = m->p->ir;
  if (!m->p->checkpoint || m->p->inside != m) return false;
  const Checkpoint *c = &ir->checkpoints[m->p->checkpoint - 1];
  return c->loc.i == m->checkpoint.i && !strcmp(ir_text(ir, c->module), m->path);
}

FeInside fe_enter_checkpoint(tn_module *m) {
  tn_program *p = m->p;
  FeInside i = {p, p->inside, p->checkpoint};
  if (!m->checkpoint.i || is_open(m)) return i;
  p->checkpoint = ir_checkpoint_add(p->ir, m->path, p->checkpoint, m->checkpoint);
  m->is_checkpoint_used = true;
  return i;
}

FeInside fe_enter(tn_module *m) {
  FeInside i = fe_enter_checkpoint(m);
  m->p->inside = m;
  return i;
}

void tn_checkpoint(tn_module *m, tn_site at) {
  if (!m || m->poisoned) return;
  FE_GUARD(m->p, );
  if (!fe_open(m->p, at)) return;
  m->checkpoint = fe_loc(m->p, at), m->is_checkpoint_used = false;
}

void fe_check_checkpoints(tn_module *m) {
  for (tn_module *c = m->first; c; c = c->next) fe_check_checkpoints(c);
  if (!m->checkpoint.i || m->is_checkpoint_used) return;
  fe_diag(m->p, RT_WARNING, E_NO_CHECKPOINT, m->checkpoint,
          "the checkpoint of %s has no effect: nothing calls it behind this line", fe_module_text(m));
  fe_hint(
      m->p,
      "tn_checkpoint stands before the calls of the module in the function; modules above it have calls of their own");
}
