// Scopes. The newest open scope owns what is made; marks in the IR record openings, closings and moves, and the pass
// `scopes` judges lifetimes by them. What a mark cannot say (a scope of another function, a closing out of order) is
// reported here.
#include "frontend/fe.h"

static uint32_t newest(const tn_function *f) { return f->scope ? f->scope->index : 0; }

// Opens and closes of marks go through here: what the IR makes next belongs to the newest open scope.
static void mark_scope(tn_function *f, Op op, const tn_scope *s, Loc loc) {
  const Attr attrs[] = {ir_a_int(KEY_scope, s->index), ir_a_str(KEY_name, ir_str(f->p->ir, s->name))};
  ir_emit(f->ir, op, NULL, 0, attrs, op == OP_scope_begin ? 2 : 1, loc);
  f->ir->cur_scope = newest(f);
}

uint32_t fe_owner(const tn_function *f, Val v) {
  for (uint32_t k = f->n_moves; k-- > 0;)
    if (f->moves[k].v.i == v.i) return f->moves[k].scope;
  return f->ir->ins[v.i].scope;
}

static void mark(tn_tensor t, Op op, uint32_t scope, tn_site at) {
  int64_t index = scope == NO_SCOPE ? -1 : (int64_t)scope;
  fe_emit(op, &t, 1, (const Attr[]){ir_a_int(KEY_scope, index)}, 1, at);
  *RT_PUSH(t.fn->p->mem, t.fn->moves, t.fn->n_moves, t.fn->cap_moves) = (FeMove){fe_val(t), scope};
}

tn_tensor fe_keep(tn_tensor t, tn_site at) {
  if (fe_ok(t) && t.fn->scope) mark(t, OP_move, 0, at);
  return t;
}

tn_scope *tn_scope_begin_at(tn_function *f, const char *name, tn_site at) {
  if (!f) return NULL;
  FE_GUARD(f->p, NULL);
  tn_scope *s = rt_alloc(f->p->mem, sizeof *s);
  s->fn = f;
  s->poisoned = !fe_fn_open(f, at) || !fe_name(f->p, "a scope", name, false, at);
  if (s->poisoned) return s;
  s->name = rt_strdup(f->p->mem, name);
  s->open = fe_loc(f->p, at);
  s->parent = f->scope;
  s->index = ir_scope_open(f->ir, newest(f), name, s->open);
  f->scope = s;
  mark_scope(f, OP_scope_begin, s, s->open);
  return s;
}

static void report_out_of_order(tn_scope *s, tn_site at) {
  tn_scope *inner = s->fn->scope;
  fe_error(s->fn->p, E_SCOPE_CLOSED, at, "scope '%s' is closed while scope '%s' inside it is open", s->name,
           inner->name);
  fe_note(s->fn->p, inner->open, "scope '%s' was opened here", inner->name);
}

// Closes a scope and, after a report, those left open inside it: the rest of the building then makes sense.
static void close_through(tn_scope *s, tn_site at) {
  tn_function *f = s->fn;
  for (bool done = false; !done;) {
    tn_scope *top = f->scope;
    done = top == s;
    top->closed = true;
    top->close = fe_loc(f->p, at);
    f->scope = top->parent;
    mark_scope(f, OP_scope_end, top, top->close);
  }
}

void tn_scope_end_at(tn_scope *s, tn_site at) {
  if (!s || s->poisoned) return;
  FE_GUARD(s->fn->p, );
  if (!fe_fn_open(s->fn, at)) return;
  if (s->closed) {
    fe_error(s->fn->p, E_SCOPE_CLOSED, at, "scope '%s' is closed twice", s->name);
    fe_note(s->fn->p, s->close, "it was closed here first");
    return;
  }
  if (s->fn->scope != s) report_out_of_order(s, at);
  close_through(s, at);
}

tn_tensor tn_move_to_outer_at(tn_tensor t, tn_site at) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  uint32_t owner = fe_owner(f, fe_val(t));
  if (owner == NO_SCOPE) return t;
  mark(t, OP_move, f->ir->scopes[owner].parent, at);
  return t;
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
  }
  return false;
}

tn_tensor tn_move_to_at(tn_tensor t, tn_scope *s, tn_site at) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (!check_target(t, s, at)) return fe_poison(f);
  mark(t, fe_owner(f, fe_val(t)) == NO_SCOPE ? OP_attach : OP_move, s->index, at);
  return t;
}

tn_tensor tn_detach_from_scope_at(tn_tensor t, tn_site at) {
  tn_function *f;
  if (!fe_join(&t, 1, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  if (fe_owner(f, fe_val(t)) != NO_SCOPE) mark(t, OP_move, NO_SCOPE, at);
  return t;
}

void tn_dispose_at(tn_tensor t, tn_site at) { fe_emit1(OP_dispose, t, at); }
