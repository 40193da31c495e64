// Scopes. The newest open scope owns what is made; marks in the IR record openings, closings and moves. Mistakes are
// reported here, where the user made them; the pass `check_scopes` judges programs that come as text by the same rules.
#include "frontend/graph/scope.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/param.h"
#include "frontend/tenure/packed.h"
#include "ir/build.h"
#include "ir/fn.h"

static uint32_t newest(const tn_function *f) { return f->scope ? f->scope->index : 0; }

// Opens and closes of marks go through here: what the IR makes next belongs to the newest open scope.
static void mark_scope(tn_function *f, Op op, const tn_scope *s, Loc loc) {
  const Attr attrs[] = {ir_a_int(KEY_scope, s->index), ir_a_str(KEY_name, ir_str(f->p->ir, s->name))};
  ir_emit(f->ir, op, NULL, 0, attrs, op == OP_scope_begin ? 2 : 1, loc);
  f->ir->cur_scope = newest(f);
}

// scope 0: the function's own; NO_SCOPE: none at all
static void mark(tn_function *f, Val v, Op op, uint32_t scope, Loc at) {
  Attr index = ir_a_int(KEY_scope, scope == NO_SCOPE ? -1 : (int64_t)scope);
  ir_emit(f->ir, op, &v, 1, &index, 1, at);
}

void fe_mark_owner(tn_tensor t, uint32_t scope, tn_site at) {
  mark(t.fn, fe_val(t), OP_move, scope, fe_loc(t.fn->p, at));
}

// Only for values that are made inside and that no scope of the user shall end.
tn_tensor fe_keep(tn_tensor t, tn_site at) {
  if (fe_ok(t) && t.fn->scope) mark(t.fn, fe_val(t), OP_move, 0, fe_loc(t.fn->p, at));
  return t;
}

// ---- opening and closing
static tn_scope *open_scope(tn_function *f, const char *name, tn_site at) {
  tn_scope *s = rt_alloc(f->p->mem, sizeof *s);
  s->fn = f;
  s->poisoned = !fe_fn_open(f, at) || !fe_name(f->p, "a scope", name, false, at);
  if (s->poisoned) return s;
  s->name = rt_strdup(f->p->mem, name);
  s->open = fe_loc(f->p, at);
  s->parent = f->scope;
  s->index = ir_scope_open(f->ir, newest(f), name, s->open);
  while (f->n_scopes <= s->index) *RT_PUSH(f->p->mem, f->scopes, f->n_scopes, f->cap_scopes) = NULL;
  f->scopes[s->index] = f->scope = s;
  mark_scope(f, OP_scope_begin, s, s->open);
  return s;
}

tn_scope *tn_scope_begin(tn_function *f, const char *name, tn_site at) {
  if (!f) return NULL;
  FE_GUARD(f->p, NULL);
  return open_scope(f, name, at);
}

static void report_out_of_order(tn_scope *s, tn_site at) {
  tn_scope *inner = s->fn->scope;
  fe_error(s->fn->p, E_SCOPE_CLOSED, at, "scope '%s' is closed while scope '%s' inside it is open", s->name,
           inner->name);
  fe_note(s->fn->p, inner->open, "scope '%s' was opened here", inner->name);
  fe_hint(s->fn->p, "close '%s' first", inner->name);
}

static void end_owned(tn_scope *s) {
  tn_function *f = s->fn;
  for (uint32_t k = s->first; k; k = f->entities[k].next) {
    fe_end(f, k, FE_CLOSED, s->close);
    f->entities[k].reported |= s->was_forced;
  }
}

// Closes a scope and, after a report, those left open inside it: the rest of the building then makes sense.
static void close_through(tn_scope *s, tn_site at) {
  tn_function *f = s->fn;
  for (bool done = false; !done;) {
    tn_scope *top = f->scope;
    done = top == s;
    top->closed = true;
    top->was_forced = !done;
    top->close = fe_loc(f->p, at);
    end_owned(top);
    f->scope = top->parent;
    mark_scope(f, OP_scope_end, top, top->close);
  }
}

void tn_scope_end(tn_scope *s, tn_site at) {
  if (!s || s->poisoned) return;
  FE_GUARD(s->fn->p, );
  if (!fe_fn_open(s->fn, at)) return;
  if (s->was_forced) {
    s->was_forced = false;
    return;
  }
  if (s->closed) {
    fe_error(s->fn->p, E_SCOPE_CLOSED, at, "scope '%s' is closed twice", s->name);
    fe_note(s->fn->p, s->close, "it was closed here first");
    fe_hint(s->fn->p, "one of the two is enough");
    return;
  }
  if (s->fn->scope != s) report_out_of_order(s, at);
  close_through(s, at);
}

void fe_scopes_end(tn_function *f, const char *what, tn_site at) {
  for (tn_scope *s = f->scope; s; s = s->parent) {
    fe_error(f->p, E_SCOPE_CLOSED, at, "%s ends while scope '%s' is open", what, s->name);
    fe_note(f->p, s->open, "scope '%s' was opened here", s->name);
    fe_hint(f->p, "tn_scope_end closes it");
  }
}

// ---- operations on one entity, named by a tensor: its own, or the data of a packed sequence
// False: the operation has nothing to do, or was reported. Leaves are the caller's and the modules'.
bool fe_open_entity(tn_tensor t, bool packed, const char *verb, tn_site at) {
  tn_function *f;
  if (!fe_join_any(&t, 1, &f, at)) return false;
  const FeLogicalValue *e = fe_known(f, fe_val(t));
  if (e && !fe_alive(t, at)) return false;
  if (packed || !e || !e->n_members) return true;
  fe_error(f->p, E_USE_AFTER_ADOPT, at, "%s is a member of a packed sequence: it is not %s alone", fe_label(f, e),
           verb);
  fe_note(f->p, e->made, "the packed sequence was made here");
  fe_hint(f->p, "tn_packed_move_to_outer and the like work on the whole");
  return false;
}

static uint32_t owner_of(tn_tensor t) { return fe_entity(t)->owner; }
static uint32_t index_of(tn_tensor t) { return fe_entity_index(t.fn, fe_entity(t)); }
static bool is_callers(tn_tensor t) { return fe_ins(t)->op == OP_input || fe_ins(t)->op == OP_param; }

static void check_module_scope(tn_tensor t, uint32_t scope, Loc at) {
  const FeLogicalValue *e = fe_entity(t);
  const tn_scope *s = t.fn->scopes[scope];
  if (!e->is_param || !e->param || !e->param->path) return;
  fe_error_at(t.fn->p, E_PARAM_IN_SCOPE, at, "parameter '%s' is given to scope '%s', which ends before its module",
              e->param->path, s->name);
  fe_note(t.fn->p, s->open, "scope '%s' was opened here", s->name);
  fe_note(t.fn->p, e->param->loc, "'%s' was registered here", e->param->path);
  fe_hint(t.fn->p, "a module owns its parameters: tn_module_dispose or tn_parameter_adopt ends them");
}

// Attaches what no scope owns; a move changes owners and counts nothing.
static void give_to(tn_tensor t, uint32_t scope, bool is_attach, Loc at) {
  tn_function *f = t.fn;
  if (is_callers(t)) return;
  check_module_scope(t, scope, at);
  bool attach = is_attach || owner_of(t) == NO_SCOPE;
  mark(f, fe_val(t), attach ? OP_attach : OP_move, scope, at);
  if (attach) fe_attached(f, index_of(t), scope);
  else fe_link(f, index_of(t), scope);
}

static void let_go(tn_tensor t, bool left, Loc at) {
  if (owner_of(t) == NO_SCOPE) return;
  mark(t.fn, fe_val(t), OP_move, left ? 0 : NO_SCOPE, at);
  fe_detached(t.fn, index_of(t), left, at);
}

tn_tensor fe_detach(tn_tensor t, tn_site at) {
  if (fe_ok(t)) let_go(t, false, fe_loc(t.fn->p, at));
  return t;
}

static void note_same(tn_tensor t, tn_site at) {
  tn_function *f = t.fn;
  const FeLogicalValue *e = fe_entity(t);
  Loc loc = fe_loc(f->p, at);
  const char *text =
      rt_printf(f->p->mem, "%s is owned by scope '%s' already", fe_label(f, e), f->scopes[e->owner]->name);
  rt_diag(&f->p->ir->diags, RT_NOTE, E_MOVE_SAME, ir_loc_file(f->p->ir, loc), ir_loc_line(f->p->ir, loc), "%s", text);
  fe_note_made(f, e);
  fe_hint(f->p, "the move does nothing: leave it out");
}

static bool move_to_outer(tn_tensor t, bool packed, tn_site at) {
  if (!t.fn) return false;
  FE_GUARD(t.fn->p, false);
  if (!fe_open_entity(t, packed, "moved", at)) return false;
  uint32_t owner = owner_of(t);
  if (owner == NO_SCOPE) return true;
  const tn_scope *parent = t.fn->scopes[owner]->parent;
  if (parent) give_to(t, parent->index, false, fe_loc(t.fn->p, at));
  else let_go(t, true, fe_loc(t.fn->p, at));
  return true;
}

static bool check_target(tn_tensor t, const tn_scope *s, tn_site at) {
  tn_program *p = t.fn->p;
  if (s && s->poisoned) return false;
  if (!s) fe_error(p, E_ARGUMENT, at, "a value is moved to no scope");
  else if (s->fn != t.fn) fe_error(p, E_FOREIGN, at, "a value is moved to scope '%s' of another function", s->name);
  else if (!s->closed) return true;
  else {
    fe_error(p, E_MOVE_TO_CLOSED, at, "a value is moved to scope '%s', which is closed", s->name);
    fe_note(p, s->close, "scope '%s' was closed here", s->name);
    fe_hint(p, "move it while the scope is open");
  }
  return false;
}

static bool move_to(tn_tensor t, const tn_scope *s, bool packed, tn_site at) {
  if (!t.fn) return false;
  FE_GUARD(t.fn->p, false);
  if (!fe_open_entity(t, packed, "moved", at) || !check_target(t, s, at)) return false;
  if (owner_of(t) == s->index) note_same(t, at);
  else give_to(t, s->index, false, fe_loc(t.fn->p, at));
  return true;
}

// Moving to what no scope owns detaches.
static bool move_to_scope_of(tn_tensor t, tn_tensor other, bool packed, tn_site at) {
  tn_function *f;
  if (!fe_join_any((const tn_tensor[]){t, other}, 2, &f, at)) return false;
  FE_GUARD(f->p, false);
  if (!fe_open_entity(t, packed, "moved", at) || !fe_alive(other, at)) return false;
  uint32_t scope = owner_of(other);
  if (scope != NO_SCOPE) return move_to(t, f->scopes[scope], packed, at);
  let_go(t, false, fe_loc(f->p, at));
  return true;
}

static bool detach(tn_tensor t, bool packed, tn_site at) {
  if (!t.fn) return false;
  FE_GUARD(t.fn->p, false);
  if (!fe_open_entity(t, packed, "detached", at)) return false;
  let_go(t, false, fe_loc(t.fn->p, at));
  return true;
}

static void report_disposed(tn_function *f, FeLogicalValue *e, tn_site at) {
  // what a parameter took over is an empty handle: nothing to dispose
  if (e->reported || e->state == FE_ADOPTED) return;
  e->reported = true;
  bool closed = e->state == FE_CLOSED;
  fe_error(f->p, E_USE_AFTER_DISPOSE, at, closed ? "%s is disposed after its scope closed" : "%s is disposed twice",
           fe_label(f, e));
  fe_note_made(f, e);
  fe_note(f->p, e->ended, closed ? "its scope closed here" : "it was disposed here first");
  fe_hint(f->p, "one of the two is enough");
}

static void dispose(tn_tensor t, bool packed, tn_site at) {
  tn_function *f;
  if (!fe_join_any(&t, 1, &f, at)) return;
  FE_GUARD(f->p, );
  FeLogicalValue *e = fe_entity(t);
  if (e->state != FE_ALIVE) {
    report_disposed(f, e, at);
    return;
  }
  if (!fe_open_entity(t, packed, "disposed", at)) return;
  Val v = fe_val(t);
  ir_emit(f->ir, OP_dispose, &v, 1, NULL, 0, fe_loc(f->p, at));
  if (e->is_param && e->param) e->param->disposed = true;
  fe_end(f, index_of(t), FE_DISPOSED, fe_loc(f->p, at));
}

// ---- through a scope
static bool open_scope_of(const tn_scope *s, const char *verb, tn_site at) {
  if (!s || s->poisoned || !fe_fn_open(s->fn, at)) return false;
  if (!s->closed) return true;
  fe_error(s->fn->p, E_SCOPE_CLOSED, at, "scope '%s' is %s after it closed", s->name, verb);
  fe_note(s->fn->p, s->close, "it was closed here");
  fe_hint(s->fn->p, "a scope is used between tn_scope_begin and tn_scope_end");
  return false;
}

static bool check_owner(const tn_scope *s, tn_tensor t, tn_site at) {
  tn_function *f = t.fn;
  const FeLogicalValue *e = fe_entity(t);
  if (s->fn == f && e->owner == s->index) return true;
  if (e->owner == NO_SCOPE)
    fe_error(f->p, E_NOT_OWNER, at, "scope '%s' does not own %s: no scope does", s->name, fe_label(f, e));
  else
    fe_error(f->p, E_NOT_OWNER, at, "scope '%s' does not own %s: scope '%s' does", s->name, fe_label(f, e),
             f->scopes[e->owner]->name);
  fe_note_made(f, e);
  fe_hint(f->p, "the calls that name no scope find the owner themselves");
  return false;
}

// A scope that is NULL: its tn_scope_begin failed and was reported, or there never was one.
static bool refuse_no_scope(tn_tensor t, tn_site at) {
  if (!t.fn) return false;
  FE_GUARD(t.fn->p, false);
  if (!tn_n_errors(t.fn->p)) fe_error(t.fn->p, E_ARGUMENT, at, "the scope is NULL: tn_scope_begin gives one");
  return false;
}

static bool attach(tn_scope *s, tn_tensor t, bool packed, tn_site at) {
  if (!s) return refuse_no_scope(t, at);
  FE_GUARD(s->fn->p, false);
  if (!open_scope_of(s, "given a value", at) || !fe_all_named(s->fn, &t, 1, at)) return false;
  if (!fe_open_entity(t, packed, "attached", at)) return false;
  if (!check_target(t, s, at)) return false;
  if (owner_of(t) != s->index) give_to(t, s->index, true, fe_loc(t.fn->p, at));
  return true;
}

static bool leave(tn_scope *s, tn_tensor t, bool packed, bool outwards, tn_site at) {
  if (!s) return refuse_no_scope(t, at);
  FE_GUARD(s->fn->p, false);
  if (!open_scope_of(s, "asked to give a value away", at) || !fe_all_named(s->fn, &t, 1, at)) return false;
  if (!fe_open_entity(t, packed, outwards ? "moved" : "detached", at) || !check_owner(s, t, at)) return false;
  return outwards ? move_to_outer(t, packed, at) : detach(t, packed, at);
}

static void report_foreign(tn_scope *s, tn_tensor t, tn_site at) {
  const FeLogicalValue *e = fe_entity(t);
  fe_error(s->fn->p, E_KEEP_FOREIGN, at, "%s is kept, but scope '%s' does not own it", fe_label(t.fn, e), s->name);
  fe_note_made(t.fn, e);
  fe_hint(s->fn->p, "leave it out of the list: the scope does not dispose what it does not own");
}

// A living value of the scope's function? false: reported
static bool may_keep(const tn_scope *s, tn_tensor t, tn_site at) {
  tn_function *f;
  if (!fe_all_named(s->fn, &t, 1, at) || !fe_join(&t, 1, &f, at)) return false;
  if (f == s->fn) return true;
  fe_error(s->fn->p, E_FOREIGN, at, "scope '%s' of function '%s' keeps a value of function '%s'", s->name, s->fn->name,
           f->name);
  return false;
}

static void stamp_kept(tn_scope *s, const tn_tensor *keep, uint32_t n, tn_site at) {
  tn_function *f = s->fn;
  f->n_stamps++;
  for (uint32_t k = 0; k < n; k++) {
    if (!may_keep(s, keep[k], at)) continue;
    FeLogicalValue *e = fe_entity(keep[k]);
    if (owner_of(keep[k]) != s->index && e->stamp != f->n_stamps) report_foreign(s, keep[k], at);
    e->stamp = f->n_stamps;  // named twice, reported once
  }
}

void tn_scope_dispose_but(tn_scope *s, const tn_tensor *keep, uint32_t n, tn_site at) {
  if (!s || (n && !keep)) return;
  FE_GUARD(s->fn->p, );
  if (!open_scope_of(s, "emptied", at)) return;
  stamp_kept(s, keep, n, at);
  tn_function *f = s->fn;
  for (uint32_t k = s->first, next; k; k = next) {
    next = f->entities[k].next;
    if (f->entities[k].stamp == f->n_stamps) continue;
    Val v = f->entities[k].v;
    ir_emit(f->ir, OP_dispose, &v, 1, NULL, 0, fe_loc(f->p, at));
    fe_end(f, k, FE_DISPOSED, fe_loc(f->p, at));
  }
}

void tn_scope_dispose_all(tn_scope *s, tn_site at) { tn_scope_dispose_but(s, NULL, 0, at); }

uint32_t tn_scope_count(const tn_scope *s, tn_site at) {
  if (!s || s->poisoned) return 0;
  FE_GUARD(s->fn->p, 0);
  if (s->closed && !s->fn->p->sealed) open_scope_of(s, "asked for its values", at);
  return s->closed ? 0 : s->n_owned;
}

// ---- one expression
void tn_scoped_begin(tn_function *f, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  tn_scope *s = open_scope(f, "scoped", at);
  s->is_expression = true;
}

tn_tensor tn_scoped_end(tn_function *f, tn_tensor t, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  tn_scope *s = f->scope;
  while (s && !s->is_expression) s = s->parent;
  if (!s) {
    fe_error(f->p, E_SCOPE_CLOSED, at, "tn_scoped_end without a tn_scoped_begin before it");
    return fe_poison(f);
  }
  const FeLogicalValue *e = fe_ok(t) ? fe_known(f, fe_val(t)) : NULL;
  bool is_mine = e && e->owner == s->index && e->state == FE_ALIVE;
  if (is_mine) move_to_outer(t, e->n_members, at);
  tn_scope_end(s, at);
  return t;
}

// ---- the public calls: tensors, and packed sequences as one
static tn_tensor or_poison(bool good, tn_tensor t) { return good ? t : fe_poison(t.fn); }
static tn_packed or_poisoned(bool good, tn_packed s) {
  return good ? s : (tn_packed){fe_poison(s.data.fn), fe_poison(s.data.fn)};
}

tn_tensor tn_move_to_outer(tn_tensor t, tn_site at) { return or_poison(move_to_outer(t, false, at), t); }
tn_tensor tn_move_to(tn_tensor t, tn_scope *s, tn_site at) { return or_poison(move_to(t, s, false, at), t); }
tn_tensor tn_move_to_scope_of(tn_tensor t, tn_tensor other, tn_site at) {
  return or_poison(move_to_scope_of(t, other, false, at), t);
}
tn_tensor tn_detach_from_scope(tn_tensor t, tn_site at) { return or_poison(detach(t, false, at), t); }
void tn_dispose(tn_tensor t, tn_site at) { dispose(t, false, at); }
tn_tensor tn_scope_attach(tn_scope *s, tn_tensor t, tn_site at) { return or_poison(attach(s, t, false, at), t); }
tn_tensor tn_scope_detach(tn_scope *s, tn_tensor t, tn_site at) { return or_poison(leave(s, t, false, false, at), t); }
tn_tensor tn_scope_move_to_outer(tn_scope *s, tn_tensor t, tn_site at) {
  return or_poison(leave(s, t, false, true, at), t);
}

tn_packed tn_scoped_end_packed(tn_function *f, tn_packed s, tn_site at) {
  return or_poisoned(fe_ok(tn_scoped_end(f, s.data, at)), s);
}
tn_packed tn_packed_move_to_outer(tn_packed s, tn_site at) { return or_poisoned(move_to_outer(s.data, true, at), s); }
tn_packed tn_packed_move_to(tn_packed s, tn_scope *to, tn_site at) {
  return or_poisoned(move_to(s.data, to, true, at), s);
}
tn_packed tn_packed_move_to_scope_of(tn_packed s, tn_tensor other, tn_site at) {
  return or_poisoned(move_to_scope_of(s.data, other, true, at), s);
}
tn_packed tn_packed_detach_from_scope(tn_packed s, tn_site at) { return or_poisoned(detach(s.data, true, at), s); }
void tn_packed_dispose(tn_packed s, tn_site at) { dispose(s.data, true, at); }
tn_packed tn_scope_attach_packed(tn_scope *to, tn_packed s, tn_site at) {
  return or_poisoned(attach(to, s.data, true, at), s);
}
tn_packed tn_scope_detach_packed(tn_scope *from, tn_packed s, tn_site at) {
  return or_poisoned(leave(from, s.data, true, false, at), s);
}
