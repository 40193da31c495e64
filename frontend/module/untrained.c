// Parameters that an optimizer covers and no gradient reaches: they stay as they are, which is seldom meant.
//
//   train.c:40: warning[W126]: 2 of 6 parameters below the root module are not trained here: 'enc.weight' (cut off from the loss),
//     'aux.bias' (not used in 'step')
//   train.c:31: note: no gradient flows through this tn_stop_grad to 'enc.weight'
#include "frontend/module/training.h"
#include "frontend/module/tree.h"
#include "ir/fn.h"
#include "ir/storage.h"
#include "ir/text/text.h"

enum { MOST_NAMED = 8 };

typedef struct {
  tn_function *f;
  uint32_t stamp, n_covered, n_untrained;
  const FeParam *untrained[MOST_NAMED];
  bool *enters;  // by value: the loss is computed of it, whether a gradient comes back or not
} Search;

static bool has_gradient(const tn_function *f, const FeParam *q) {
  return q->index < f->n_uses && fe_ok(f->uses[q->index].grad);
}

static bool is_left_out(const tn_function *f, const FeParam *q) {
  return q->kind != PARAM_WEIGHT || q->disposed || q->frozen || (q->index < f->n_uses && f->uses[q->index].frozen);
}

static void visit(Search *s, const tn_module *m) {
  for (uint32_t k = 0; k < m->n_entries; k++) {
    FeParam *q = m->entries[k].param;
    if (q->stamp == s->stamp || is_left_out(s->f, q)) continue;
    q->stamp = s->stamp;
    s->n_covered++;
    if (has_gradient(s->f, q)) continue;
    if (s->n_untrained < MOST_NAMED) s->untrained[s->n_untrained] = q;
    s->n_untrained++;
  }
  for (const tn_module *c = m->first; c; c = c->next) visit(s, c);
}

// ---- why
static void find_what_enters(Search *s) {
  const Fn *ir = s->f->ir;
  s->enters = rt_alloc(s->f->p->mem, ir->n_ins);
  for (uint32_t k = 0; k < s->f->n_losses; k++) s->enters[s->f->losses[k].i] = true;
  for (uint32_t i = ir->n_ins; i-- > 1;) {
    bool is_write = ir->ins[i].op == OP_write;
    if (is_write) s->enters[i] = s->enters[ir_written_storage(ir, ir_arg(ir, (Val){i}, 0)).i];
    for (uint32_t k = 0; s->enters[i] && k < ir->ins[i].n_args; k++) s->enters[ir_arg(ir, (Val){i}, k).i] = true;
  }
}

static Val value_of(const Search *s, const FeParam *q) {
  return q->index < s->f->n_uses ? s->f->uses[q->index].first : (Val){0};
}

// The first operation between the parameter and the loss that lets no gradient back; 0: none is found
static uint32_t find_cut(const Search *s, Val from) {
  const Fn *ir = s->f->ir;
  bool *depends = rt_alloc(s->f->p->mem, ir->n_ins);
  depends[from.i] = true;
  for (uint32_t i = from.i + 1; i < ir->n_ins; i++)
    for (uint32_t k = 0; k < ir->ins[i].n_args; k++) {
      if (!depends[ir_arg(ir, (Val){i}, k).i]) continue;
      depends[i] = true;
      bool makes_value = ir_ops[ir->ins[i].op].n_res || ir->ins[i].op == OP_result;
      if (makes_value && s->enters[i] && !ir_grad_reaches(ir, (Val){i}, k)) return i;
    }
  return 0;
}

static const char *why(const Search *s, const FeParam *q) {
  Val v = value_of(s, q);
  if (ir_none(v)) return rt_printf(s->f->p->mem, "not used in '%s'", s->f->name);
  return s->enters[v.i] ? "cut off from the loss" : "no part of the loss";
}

// One note for each place that cuts, with those that it cuts off
static void note_cuts(const Search *s, const FeParam *const *q, uint32_t n) {
  uint32_t cut[MOST_NAMED];
  if (n > MOST_NAMED) n = MOST_NAMED;
  for (uint32_t k = 0; k < n; k++) {
    Val v = value_of(s, q[k]);
    cut[k] = !ir_none(v) && s->enters[v.i] ? find_cut(s, v) : 0;
  }
  for (uint32_t k = 0; k < n; k++) {
    if (!cut[k]) continue;
    RtText names = {.mem = s->f->p->mem};
    const uint32_t at = cut[k];
    for (uint32_t j = k; j < n; j++) {
      if (cut[j] != at) continue;
      rt_text_add(&names, "%s'%s'", names.len ? ", " : "", q[j]->path);
      cut[j] = 0;
    }
    const Ins *ins = &s->f->ir->ins[at];
    bool no_grad = ir_attr(s->f->ir, (Val){at}, KEY_no_grad) != NULL;
    if (no_grad) fe_note(s->f->p, ins->loc, "no gradient flows out of this no-grad region to %s", names.text);
    else
      fe_note(s->f->p, ins->loc, "no gradient flows through this %s to %s", ir_call_text(s->f->ir, (Val){at}),
              names.text);
  }
}

static const char *list_text(const Search *s) {
  RtText t = {.mem = s->f->p->mem};
  uint32_t n = s->n_untrained < MOST_NAMED ? s->n_untrained : MOST_NAMED;
  for (uint32_t k = 0; k < n; k++)
    rt_text_add(&t, "%s'%s' (%s)", k ? ", " : "", s->untrained[k]->path, why(s, s->untrained[k]));
  if (n < s->n_untrained) rt_text_add(&t, " and %u more", s->n_untrained - n);
  return t.text;
}

bool fe_all_trained(tn_function *f, const tn_module *m, bool required, tn_site at) {
  Search s = {.f = f, .stamp = ++f->p->stamp};
  visit(&s, m);
  if (!s.n_untrained) return true;
  find_what_enters(&s);
  if (!required)
    *RT_PUSH(f->p->mem, f->p->untrained, f->p->n_untrained, f->p->cap_untrained) =
        (FeUntrained){f, m, f->p->ir->diags.n};
  fe_diag(f->p, required ? RT_ERROR : RT_WARNING, required ? E_NO_GRAD_PATH : E_NOT_TRAINED, fe_loc(f->p, at),
          "%u of %u parameters below %s are not trained here: %s", s.n_untrained, s.n_covered, fe_module_text(m),
          list_text(&s));
  note_cuts(&s, s.untrained, s.n_untrained);
  fe_hint(f->p, "tn_freeze says that a parameter shall stay as it is; require_gradients makes this an error");
  return !required;
}

// ---- of a loss that reaches no parameter at all
void fe_note_cuts(tn_function *f) {
  Search s = {.f = f};
  find_what_enters(&s);
  const FeParam *frozen = NULL;
  for (uint32_t k = 0; k < f->p->n_params && s.n_untrained < MOST_NAMED; k++) {
    const FeParam *q = f->p->params[k];
    Val v = value_of(&s, q);
    if (q->frozen_by && !ir_none(v) && s.enters[v.i] && f->uses[q->index].frozen && !frozen) frozen = q;
    if (!is_left_out(f, q)) s.untrained[s.n_untrained++] = q;
  }
  note_cuts(&s, s.untrained, s.n_untrained);
  if (frozen) fe_note(f->p, f->p->freezes[frozen->frozen_by - 1].at, "'%s' was frozen here", frozen->path);
}

// ---- when all functions are built
static bool is_trained_nowhere(const tn_function *f, const tn_module *m) {
  uint32_t stamp = fe_see_below(m);
  for (uint32_t k = 0; k < f->p->n_params; k++) {
    const FeParam *q = f->p->params[k];
    if (!is_left_out(f, q) && !q->updated.i && q->stamp == stamp) return true;
  }
  return false;
}

void fe_check_untrained(tn_program *p) {
  for (uint32_t k = 0; k < p->n_untrained; k++) {
    const FeUntrained *u = &p->untrained[k];
    RtDiag *d = &p->ir->diags.list[u->diag];
    if (is_trained_nowhere(u->f, u->m) || d->severity != RT_WARNING) continue;
    d->severity = RT_NOTE;
    p->ir->diags.n_warnings--;
  }
}
