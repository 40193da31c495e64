// The ledger: who owns which logical value, and how many were made, ended, attached and detached.
//
//   tn_scope *s = tn_scope_begin(f, "s");     tensors: live co do ci di at de
//   tn_tensor t = tn_mean(tn_exp(x));                   2    0  0  2  0  0  0
//   tn_dispose(t);                                      1    0  0  2  1  0  0
//   tn_scope_end(s);                                    0    0  0  2  2  0  0
//
// It follows the calls of the user as they come, and counts what the user sees: tn_mean is one value, though it lowers
// to three instructions. The rules are TorchSharp's. A value counts where it is: an end counts as `in` when a scope
// owns the value at that time, wherever it was made. A packed sequence is one entity; its members count as tensors that
// lose their scope at once, and end with it.
#include "frontend/graph/ledger.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/param.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "ir/fn.h"
#include "ir/text/text.h"
#include <string.h>

static FeCounts *scope_counts(const tn_function *f, uint32_t scope) {
  return scope == NO_SCOPE ? NULL : &f->scopes[scope]->counts;
}

// The newest open scope of the user; the function's own counts as none.
static uint32_t newest(const tn_function *f) { return f->scope ? f->scope->index : NO_SCOPE; }

// ---- counting: `n` tensors or packed sequences
typedef enum { MADE, ENDED, ATTACHED, DETACHED } Event;

static void add(tn_stats *s, Event what, bool in_scope, int64_t n) {
  switch (what) {
  case MADE: *(in_scope ? &s->created_in : &s->created_outside) += n; break;
  case ENDED: *(in_scope ? &s->disposed_in : &s->disposed_outside) += n; break;
  case ATTACHED: s->attached += n; break;
  case DETACHED: s->detached += n; break;
  }
}

static void count(tn_function *f, uint32_t scope, Event what, bool packed, int64_t n) {
  FeCounts *of_scope = scope_counts(f, scope);
  add(packed ? &f->counts.packed : &f->counts.tensors, what, of_scope, n);
  if (of_scope) add(packed ? &of_scope->packed : &of_scope->tensors, what, true, n);
}

static void count_entity(tn_function *f, const FeLogicalValue *e, uint32_t scope, Event what) {
  if (!e->is_counted) return;
  count(f, scope, what, e->n_members, 1);
  if (what == ENDED && e->n_members) count(f, scope, ENDED, false, e->n_members);
}

// ---- owners: each scope lists its entities in order of arrival
static void unlink_entity(tn_function *f, uint32_t k) {
  FeLogicalValue *e = &f->entities[k];
  if (e->owner == NO_SCOPE) return;
  tn_scope *s = f->scopes[e->owner];
  if (e->prev) f->entities[e->prev].next = e->next;
  else s->first = e->next;
  if (e->next) f->entities[e->next].prev = e->prev;
  else s->last = e->prev;
  s->n_owned--;
  e->prev = e->next = 0;
  e->owner = NO_SCOPE;
}

void fe_link(tn_function *f, uint32_t k, uint32_t scope) {
  unlink_entity(f, k);
  FeLogicalValue *e = &f->entities[k];
  e->owner = scope;
  if (scope == NO_SCOPE) return;
  tn_scope *s = f->scopes[scope];
  e->prev = s->last;
  if (s->last) f->entities[s->last].next = k;
  else s->first = k;
  s->last = k;
  s->n_owned++;
}

// ---- entities
static uint32_t *slot_of(tn_function *f, Val v) {
  while (f->n_entity_of <= v.i) *RT_PUSH(f->p->mem, f->entity_of, f->n_entity_of, f->cap_entity_of) = 0;
  return &f->entity_of[v.i];
}

FeLogicalValue *fe_known(const tn_function *f, Val v) {
  uint32_t k = v.i < f->n_entity_of ? f->entity_of[v.i] : 0;
  return k ? &f->entities[k] : NULL;
}

void fe_name_entity(tn_function *f, uint32_t k, Val v) {
  FeLogicalValue *e = &f->entities[k];
  const Ins *ins = &f->ir->ins[v.i];
  e->v = v;
  e->op = f->ir->ins[ir_head(f->ir, v).i].op;
  e->dtype = ins->dtype;
  e->shape = ins->shape;
  if (v.i) *slot_of(f, v) = k;
}

static uint32_t new_entity(tn_function *f, Val v, bool is_counted, uint32_t owner, Loc made) {
  if (!f->n_entities) *RT_PUSH(f->p->mem, f->entities, f->n_entities, f->cap_entities) = (FeLogicalValue){0};
  FeLogicalValue e = {.owner = NO_SCOPE, .created_in = owner, .is_counted = is_counted, .made = made};
  *RT_PUSH(f->p->mem, f->entities, f->n_entities, f->cap_entities) = e;
  uint32_t k = f->n_entities - 1;
  fe_name_entity(f, k, v);
  fe_link(f, k, owner);
  return k;
}

void fe_rename_entity(tn_function *f, uint32_t k, Val v, Loc at) {
  uint32_t old = new_entity(f, f->entities[k].v, false, NO_SCOPE, f->entities[k].made);
  FeLogicalValue *e = &f->entities[k];
  f->entities[old].created_in = e->created_in;
  f->entities[old].call = e->call;
  f->entities[old].state = FE_ADOPTED;
  f->entities[old].ended = at;
  f->entities[old].was = e->was;
  e->is_param = true;
  e->was = old;
  fe_name_entity(f, k, v);
}

static bool is_leaf(const tn_function *f, Val v) {
  Op op = f->ir->ins[v.i].op;
  return op == OP_input || op == OP_param;
}

// Gradients, inputs and parameters have no entity until something is done to them. The function's own scope is none.
FeLogicalValue *fe_entity(tn_tensor t) {
  FeLogicalValue *e = fe_known(t.fn, fe_val(t));
  if (e) return e;
  const Ins *ins = fe_ins(t);
  bool unowned = is_leaf(t.fn, fe_val(t)) || !ins->scope || ins->scope == NO_SCOPE || t.fn->scopes[ins->scope]->closed;
  uint32_t k = new_entity(t.fn, fe_val(t), false, unowned ? NO_SCOPE : ins->scope, ins->loc);
  return &t.fn->entities[k];
}

tn_tensor fe_made_by(const char *call, tn_tensor t, tn_site at) {
  if (!fe_ok(t)) return t;
  FE_GUARD(t.fn->p, fe_poison(t.fn));
  if (fe_known(t.fn, fe_val(t))) return t;
  uint32_t k = new_entity(t.fn, fe_val(t), true, newest(t.fn), fe_loc(t.fn->p, at));
  t.fn->entities[k].call = fe_public_call(t.fn->p, call);
  count_entity(t.fn, &t.fn->entities[k], t.fn->entities[k].owner, MADE);
  return t;
}

tn_packed fe_made_packed_by(const char *call, tn_packed s, bool sorted, tn_site at) {
  tn_function *f = s.data.fn;
  if (!fe_ok(s.data) || fe_known(f, fe_val(s.data))) return s;
  FE_GUARD(f->p, s);
  uint32_t k = new_entity(f, fe_val(s.data), true, newest(f), fe_loc(f->p, at)), owner = f->entities[k].owner;
  f->entities[k].call = fe_public_call(f->p, call);
  f->entities[k].n_members = sorted ? 2 : 4;
  f->entities[k].layout = s.layout.v;
  count(f, owner, MADE, false, f->entities[k].n_members);
  if (owner != NO_SCOPE) count(f, owner, DETACHED, false, f->entities[k].n_members);
  count(f, owner, MADE, true, 1);
  return s;
}

uint32_t fe_param_entity(tn_function *init, FeParam *q, Loc at) {
  uint32_t k = new_entity(init, (Val){0}, true, newest(init), at);
  init->entities[k].is_param = true;
  init->entities[k].param = q;
  count_entity(init, &init->entities[k], init->entities[k].owner, MADE);
  fe_detached(init, k, false, at);
  return k;
}

void fe_state_made(tn_function *f) {
  uint32_t owner = newest(f);
  count(f, owner, MADE, false, 1);
  if (owner != NO_SCOPE) count(f, owner, DETACHED, false, 1);
}

// ---- events
void fe_end(tn_function *f, uint32_t k, FeValueState fate, Loc at) {
  FeLogicalValue *e = &f->entities[k];
  uint32_t owner = e->owner;
  count_entity(f, e, owner, ENDED);
  if (fate != FE_CLOSED) unlink_entity(f, k);  // what a closed scope owned stays in its list
  f->entities[k].state = (uint8_t)fate;
  f->entities[k].ended = at;
}

void fe_detached(tn_function *f, uint32_t k, bool left, Loc at) {
  FeLogicalValue *e = &f->entities[k];
  if (e->owner == NO_SCOPE) return;
  count_entity(f, e, e->owner, DETACHED);
  unlink_entity(f, k);
  e->lost = at;
  e->left = left;
  e->used = false;
}

void fe_attached(tn_function *f, uint32_t k, uint32_t scope) {
  count_entity(f, &f->entities[k], scope, ATTACHED);
  f->entities[k].lost = (Loc){0};
  fe_link(f, k, scope);
}

void fe_mark_output(tn_tensor t) {
  FeLogicalValue *e = fe_known(t.fn, fe_val(t));
  if (e) e->is_output = true;
}

// ---- reports
static const char *param_path(const tn_function *f, const FeLogicalValue *e) {
  if (e->is_param && e->param) return e->param->path;
  if (e->op != OP_param) return NULL;
  const Prog *p = f->p->ir;
  return ir_text(p, p->params[ir_attr_int(f->ir, e->v, KEY_param, 0)].path);
}

const char *fe_label(tn_function *f, const FeLogicalValue *e) {
  RtText t = {.mem = f->p->mem};
  const char *path = param_path(f, e);
  if (path) return rt_printf(t.mem, "parameter '%s'", path);
  if (e->op == OP_input) rt_text_add(&t, "input '%s' (", ir_text(f->p->ir, f->ir->ins[e->v.i].name));
  else if (e->op == OP_grad_of) rt_text_add(&t, "the gradient (");
  else if (e->call) rt_text_add(&t, "the result of %s (", e->call);
  else rt_text_add(&t, "the result of tn_%s (", ir_ops[e->op].name);
  ir_type_text(f->p->ir, e->dtype, e->shape, &t);
  rt_text_add(&t, ")");
  return t.text;
}

void fe_note_made(tn_function *f, const FeLogicalValue *e) {
  if (e->created_in == NO_SCOPE) fe_note(f->p, e->made, "it was made here");
  else fe_note(f->p, e->made, "it was made here, in scope '%s'", f->scopes[e->created_in]->name);
}

static void report_taken(tn_function *f, const FeLogicalValue *e, tn_site at) {
  const char *name = e->param ? rt_printf(f->p->mem, "parameter '%s'", e->param->path) : "a parameter";
  fe_error(f->p, E_USE_AFTER_ADOPT, at, "%s is used after a parameter took it over", fe_label(f, e));
  fe_note_made(f, e);
  fe_note(f->p, e->ended, "%s took it over here", name);
  fe_hint(f->p, "tn_as_parameter gives the handle to go on with");
}

static void report_closed(tn_function *f, const FeLogicalValue *e, tn_site at) {
  const tn_scope *s = f->scopes[e->owner];
  bool escaped = e->owner == e->created_in;
  if (escaped) fe_error(f->p, E_USE_AFTER_SCOPE, at, "%s is used after its scope closed", fe_label(f, e));
  else
    fe_error(f->p, E_USE_AFTER_DISPOSE, at, "%s is used after scope '%s', which it was given to, disposed it",
             fe_label(f, e), s->name);
  fe_note_made(f, e);
  fe_note(f->p, e->ended, "scope '%s' closed here", s->name);
  fe_hint(f->p, s->is_scan
                    ? "tn_scan_output takes the value of each step out of a scan, tn_scan_final the last of a carry"
                    : "tn_move_to_outer before tn_scope_end keeps it");
}

static void report_disposed(tn_function *f, const FeLogicalValue *e, tn_site at) {
  fe_error(f->p, E_USE_AFTER_DISPOSE, at, "%s is used after it was disposed", fe_label(f, e));
  fe_note_made(f, e);
  fe_note(f->p, e->ended, "it was disposed here");
  fe_hint(f->p, "dispose it after its last use: doing so earlier saves no memory");
}

static bool check_alive(tn_function *f, FeLogicalValue *e, tn_site at) {
  e->used = true;
  if (e->state == FE_ALIVE || e->reported) return e->state == FE_ALIVE;
  e->reported = true;
  switch ((FeValueState)e->state) {
  case FE_ADOPTED: report_taken(f, e, at); break;
  case FE_CLOSED: report_closed(f, e, at); break;
  default: report_disposed(f, e, at);
  }
  return false;
}

bool fe_alive(tn_tensor t, tn_site at) {
  FeLogicalValue *e = fe_known(t.fn, fe_val(t));
  return !e || check_alive(t.fn, e, at);
}

// The parameters of a module end together, and one report is enough for them.
bool fe_param_alive(tn_program *p, const FeParam *q, tn_site at) {
  tn_function *f = p->init_fn;
  if (!q->entity || check_alive(f, &f->entities[q->entity], at)) return true;
  Loc ended = f->entities[q->entity].ended;
  for (uint32_t k = 1; k < f->n_entities; k++)
    if (f->entities[k].state == FE_DISPOSED && f->entities[k].ended.i == ended.i) f->entities[k].reported = true;
  return false;
}

static void warn_never_disposed(tn_function *f, const FeLogicalValue *e) {
  long long bytes = ir_type_bytes(f->p->ir, e->dtype, e->shape);
  rt_diag(&f->p->ir->diags, RT_WARNING, E_NEVER_DISPOSED, ir_loc_file(f->p->ir, e->lost),
          ir_loc_line(f->p->ir, e->lost), "%s is %s and never disposed: it holds %lld bytes in each run of '%s'",
          fe_label(f, e), e->left ? "moved out of all scopes, never used" : "detached from its scope", bytes, f->name);
  fe_note_made(f, e);
  fe_hint(f->p, "tn_dispose after its last use, or leave it to its scope");
}

// A value that left the outermost scope and is used there does what moving out is for. One that was detached is the
// user's to dispose, unless the caller has it.
void fe_never_disposed(tn_function *f) {
  for (uint32_t k = 1; k < f->n_entities; k++) {
    const FeLogicalValue *e = &f->entities[k];
    bool lost = e->lost.i && e->state == FE_ALIVE && e->owner == NO_SCOPE && e->is_counted;
    if (lost && !e->is_param && !e->is_output && (!e->left || !e->used)) warn_never_disposed(f, e);
  }
}

// ---- queries
static tn_stats with_live(tn_stats s) {
  s.live = (s.created_in - s.disposed_in) + (s.created_outside - s.disposed_outside);
  return s;
}

static tn_stats sum(tn_stats a, tn_stats b) {
  return with_live((tn_stats){.created_outside = a.created_outside + b.created_outside,
                              .disposed_outside = a.disposed_outside + b.disposed_outside,
                              .created_in = a.created_in + b.created_in,
                              .disposed_in = a.disposed_in + b.disposed_in,
                              .attached = a.attached + b.attached,
                              .detached = a.detached + b.detached});
}

tn_stats tn_stats_tensors(const tn_function *f) { return f ? with_live(f->counts.tensors) : (tn_stats){0}; }
tn_stats tn_stats_packed(const tn_function *f) { return f ? with_live(f->counts.packed) : (tn_stats){0}; }
tn_stats tn_stats_total(const tn_function *f) { return f ? sum(f->counts.tensors, f->counts.packed) : (tn_stats){0}; }

tn_stats tn_stats_program(const tn_program *p) {
  tn_stats all = {0};
  if (!p) return all;
  for (const tn_function *f = p->first; f; f = f->next) all = sum(all, tn_stats_total(f));
  return sum(all, tn_stats_total(p->init_fn));
}

tn_stats tn_scope_stats(const tn_scope *s) {
  if (!s || s->poisoned) return (tn_stats){0};
  tn_stats all = sum(s->counts.tensors, s->counts.packed);
  all.live = 0;
  for (uint32_t k = s->closed ? 0 : s->first; k; k = s->fn->entities[k].next)
    all.live += s->fn->entities[k].is_counted ? 1 + s->fn->entities[k].n_members : 0;
  return all;
}

void tn_stats_reset(tn_function *f) {
  if (f) f->counts = (FeCounts){{0}, {0}};
}

bool tn_stats_print(tn_stats s, FILE *out) {
  return out &&
         fprintf(out,
                 "ThreadTotalLiveCount: %lld; CreatedOutsideScopeCount: %lld; DisposedOutsideScopeCount: %lld; "
                 "CreatedInScopeCount: %lld; DisposedInScopeCount: %lld; AttachedToScopeCount: %lld; "
                 "DetachedFromScopeCount: %lld",
                 (long long)s.live, (long long)s.created_outside, (long long)s.disposed_outside,
                 (long long)s.created_in, (long long)s.disposed_in, (long long)s.attached, (long long)s.detached) > 0;
}

bool tn_is_alive(tn_tensor t) {
  if (!fe_ok(t)) return false;
  const FeLogicalValue *e = fe_known(t.fn, fe_val(t));
  return !e || e->state == FE_ALIVE;
}

// ---- what a scope owns, and where it lies
// Passes renumber values; `origin` says which one an instruction was when it was built. By built value: one that has
// memory now, 0: none.
static uint32_t *stored_now(const tn_function *f) {
  const Fn *ir = f->ir;
  uint32_t *now = f->p->compiled ? rt_malloc((f->n_entity_of + 1) * sizeof *now) : NULL;
  if (!now) return NULL;
  memset(now, 0, (f->n_entity_of + 1) * sizeof *now);
  for (uint32_t v = ir->n_ins; v-- > 1;)
    if (ir->ins[v].origin < f->n_entity_of && ir->buf_of && ir->buf_of[v]) now[ir->ins[v].origin] = v;
  return now;
}

static tn_scope_value describe(const tn_function *f, const FeLogicalValue *e, const uint32_t *now) {
  const Prog *p = f->p->ir;
  uint32_t v = now ? now[e->v.i] : 0;
  const Buf *b = v ? &f->ir->bufs[f->ir->buf_of[v]] : NULL;
  return (tn_scope_value){.value = {(tn_function *)(uintptr_t)f, e->v.i},
                          .what = ir_ops[e->op].name,
                          .file = ir_loc_file(p, e->made),
                          .line = (int)ir_loc_line(p, e->made),
                          .is_packed = e->n_members,
                          .bytes = ir_type_bytes(p, e->dtype, e->shape),
                          .first = b ? b->first : -1,
                          .last = b ? b->last : -1,
                          .offset = b && b->seg == SEG_ARENA ? b->offset : -1};
}

uint32_t tn_scope_values(const tn_scope *s, tn_scope_value *out, uint32_t max) {
  if (!s || s->poisoned) return 0;
  uint32_t n = 0, *now = out && max ? stored_now(s->fn) : NULL;
  for (uint32_t k = s->first; k; k = s->fn->entities[k].next, n++)
    if (n < max && out) out[n] = describe(s->fn, &s->fn->entities[k], now);
  rt_free(now);
  return n;
}
