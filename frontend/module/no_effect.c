// What was said and has no effect, found when all functions are built: warnings, with the lines.
//
//   train.c:40: warning[W132]: tn_freeze of module 'enc' comes too late: function 'step' trains 'enc.weight'
//   train.c:31: note: the function took it as trainable here
#include "frontend/module/optimizer.h"
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "ir/storage.h"

// ---- tn_freeze
static bool is_trained_in(const tn_function *f, const FeParam *q) {
  return q->index < f->n_uses && f->uses[q->index].updated.i;
}

// The first function whose optimizer updates q; NULL: none
static const tn_function *trained_in(const tn_program *p, const FeParam *q) {
  for (const tn_function *f = p->first; f; f = f->next)
    if (is_trained_in(f, q)) return f;
  return NULL;
}

static void check_freeze(tn_program *p, uint32_t number) {
  const FeFreeze *z = &p->freezes[number - 1];
  const tn_function *f = NULL;
  const FeParam *found = NULL;
  Loc used = {0};
  for (uint32_t k = 0; k < p->n_params; k++) {
    const FeParam *q = p->params[k];
    if (q->kind != PARAM_WEIGHT || q->frozen_by != number) continue;
    bool inside = z->open && is_trained_in(z->open, q);
    if (q->last_first_use > z->n_first_uses && !inside) return;  // a function that was built afterwards
    if (found || !(f = trained_in(p, q))) continue;
    found = q;
    used = f->ir->ins[f->uses[q->index].first.i].loc;
  }
  if (!found) return;
  fe_diag(p, RT_WARNING, E_LATE_SWITCH, z->at, "tn_freeze of %s comes too late: function '%s' trains '%s'",
          fe_module_text(z->m), f->name, found->path);
  fe_note(p, used, "the function took it as trainable here");
  fe_hint(p, "tn_freeze stands before the first use of the parameters in the function");
}

// ---- tn_eval
static void check_eval(tn_function *f) {
  if (!f->late_eval.i) return;
  fe_diag(f->p, RT_WARNING, E_LATE_SWITCH, f->late_eval,
          "tn_eval of function '%s' comes too late: what it acts on was built", f->name);
  fe_note(f->p, f->asked_eval, "this was built for training");
  fe_hint(f->p, "tn_eval stands before what it acts on: dropout, and norms with running statistics");
}

// ---- functions
static bool changes_state(const tn_function *f) {
  const Fn *ir = f->ir;
  for (uint32_t i = 1; i < ir->n_ins; i++)
    if (ir->ins[i].op == OP_write && ir->ins[ir_written_storage(ir, ir_arg(ir, (Val){i}, 0)).i].op == OP_param)
      return true;
  return false;
}

static void check_result(tn_function *f) {
  if (f->outputs.index.n || f->n_probes || f == f->p->init_fn || changes_state(f)) return;
  fe_diag(f->p, RT_WARNING, E_NO_RESULT, f->loc,
          "function '%s' has no outputs and changes no state: a run of it does nothing", f->name);
  fe_hint(f->p, "tn_output hands a value to the caller; an optimizer or a write changes parameters");
}

// ---- all
void fe_warn_no_effect(tn_program *p) {
  for (uint32_t k = 0; k < p->n_freezes; k++) check_freeze(p, k + 1);
  for (tn_function *f = p->first; f; f = f->next) {
    check_eval(f);
    check_result(f);
  }
  for (uint32_t k = 0; k < p->n_schedules; k++) fe_check_schedule(p->schedules[k]);
  fe_check_untrained(p);
  fe_check_checkpoints(p->root);
}
