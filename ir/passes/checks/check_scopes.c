// Pass check_scopes: replays scope marks in order, reports uses of values that are gone, fixes each value's owner, drops the
// marks.
//
//   scope forward {                    %h = relu %x : f32[4]      @1
//     %h = relu %x            ->
//     move %h to the outer scope
//   }
//
// Parameters, inputs and constants are owned by module, caller and constant pool: scopes never end them.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/text/text.h"

typedef enum { ALIVE, DISPOSED, CLOSED } Life;
typedef struct {
  Fn *f;
  Prog *p;
  uint8_t *life;    // by value
  uint32_t *owner;  // by value: scope
  Loc *ended;       // by value: where it was disposed
  uint32_t *next;   // by value: next in its owner's list
  uint32_t *prev;
  uint32_t *first;   // by scope: newest value it owns
  uint32_t open;     // innermost open scope
  uint32_t n_begun;  // the k-th scope_begin opens scope k
} State;

static void report(State *s, RtSeverity sev, uint16_t id, Loc at, const char *fmt, Val v, const char *extra) {
  RtText name = {.mem = s->p->mem};
  if (!ir_none(v)) ir_print_name(s->f, v, &name);
  rt_diag(&s->p->diags, sev, id, ir_loc_file(s->p, at), ir_loc_line(s->p, at), fmt, name.text ? name.text : "", extra);
}

static const char *scope_name(const State *s, uint32_t scope) { return ir_text(s->p, s->f->scopes[scope].name); }

static void note_made(State *s, Val v) {
  Loc at = ir_ins(s->f, v)->loc;
  uint32_t scope = s->owner[v.i];
  if (scope == NO_SCOPE || scope == 0) report(s, RT_NOTE, 0, at, "%s was made here%s", v, "");
  else report(s, RT_NOTE, 0, at, "%s was made here, in scope '%s'", v, scope_name(s, scope));
}

static void report_use(State *s, Val user, Val v) {
  Ins *u = ir_ins(s->f, user);
  if (s->life[v.i] == CLOSED) {
    report(s, RT_ERROR, E_USE_AFTER_SCOPE, u->loc, "%s is used by tn_%s after its scope closed", v, ir_ops[u->op].name);
    note_made(s, v);
    report(s, RT_NOTE, 0, s->f->scopes[s->owner[v.i]].close, "%sscope '%s' closed here", (Val){0},
           scope_name(s, s->owner[v.i]));
    report(s, RT_HINT, 0, (Loc){0}, "%stn_move_to_outer before tn_scope_end keeps it%s", (Val){0}, "");
  } else {
    report(s, RT_ERROR, E_USE_AFTER_DISPOSE, u->loc,
           u->op == OP_dispose ? "%s is disposed twice%s" : "%s is used by tn_%s after it was disposed", v,
           u->op == OP_dispose ? "" : ir_ops[u->op].name);
    note_made(s, v);
    report(s, RT_NOTE, 0, s->ended[v.i], "%s was disposed here%s", v, "");
  }
  s->life[v.i] = ALIVE;  // report each mistake once
}

static void unlink_value(State *s, Val v) {
  uint32_t scope = s->owner[v.i], n = s->next[v.i], p = s->prev[v.i];
  if (n) s->prev[n] = p;
  if (p) s->next[p] = n;
  else if (scope != NO_SCOPE && s->first[scope] == v.i) s->first[scope] = n;
  s->next[v.i] = s->prev[v.i] = 0;
}

static void link_value(State *s, Val v, uint32_t scope) {
  s->owner[v.i] = scope;
  if (scope == NO_SCOPE) return;
  uint32_t head = s->first[scope];
  s->next[v.i] = head;
  if (head) s->prev[head] = v.i;
  s->first[scope] = v.i;
}

static bool is_leaf(const State *s, Val v) { return ir_ops[ir_ins(s->f, ir_head(s->f, v))->op].cls == CLASS_LEAF; }

static void close_scope(State *s, Val mark, uint32_t scope) {
  Scope *sc = &s->f->scopes[scope];
  Loc at = ir_ins(s->f, mark)->loc;
  if (scope != s->open) {
    report(s, RT_ERROR, E_SCOPE_CLOSED, at,
           sc->closed ? "%sscope '%s' is closed twice" : "%sscope '%s' is closed while a scope inside it is open",
           (Val){0}, scope_name(s, scope));
    report(s, RT_NOTE, 0, sc->closed ? sc->close : s->f->scopes[s->open].open,
           sc->closed ? "%sit was closed here%s" : "%sscope '%s' was opened here", (Val){0},
           sc->closed ? "" : scope_name(s, s->open));
    if (sc->closed) return;
  }
  sc->close = at;
  sc->closed = true;
  for (uint32_t v = s->first[scope]; v; v = s->next[v]) s->life[v] = CLOSED;
  while (s->open != 0 && s->f->scopes[s->open].closed) s->open = s->f->scopes[s->open].parent;
}

static void move_value(State *s, Val mark, bool attach) {
  Val v = ir_arg(s->f, mark, 0);
  Loc at = ir_ins(s->f, mark)->loc;
  int64_t to = ir_attr_int(s->f, mark, KEY_scope, -1);
  uint32_t scope = to < 0 ? NO_SCOPE : (uint32_t)to;
  if (is_leaf(s, v)) return;
  if (scope != NO_SCOPE && s->f->scopes[scope].closed) {
    report(s, RT_ERROR, E_MOVE_TO_CLOSED, at, "%s is moved into scope '%s', which is closed", v, scope_name(s, scope));
    report(s, RT_NOTE, 0, s->f->scopes[scope].close, "%sscope '%s' closed here", (Val){0}, scope_name(s, scope));
    return;
  }
  if (scope == s->owner[v.i]) {
    if (!attach && scope != NO_SCOPE)
      report(s, RT_NOTE, E_MOVE_SAME, at, "%s is already owned by scope '%s'", v, scope_name(s, scope));
    return;
  }
  unlink_value(s, v);
  link_value(s, v, scope);
}

static void check_uses(State *s, Val v) {
  Ins *ins = ir_ins(s->f, v);
  if (ins->op == OP_result) return;
  for (uint32_t k = 0; k < ins->n_args; k++) {
    Val a = ir_arg(s->f, v, k);
    if (s->life[a.i] != ALIVE) report_use(s, v, a);
  }
}

static void step(State *s, Val v) {
  Ins *ins = ir_ins(s->f, v);
  check_uses(s, v);
  switch (ins->op) {
  case OP_scope_begin: s->open = ++s->n_begun; break;
  case OP_scope_end: close_scope(s, v, (uint32_t)ir_attr_int(s->f, v, KEY_scope, 0)); break;
  case OP_move: move_value(s, v, false); break;
  case OP_attach: move_value(s, v, true); break;
  case OP_dispose:
    if (is_leaf(s, ir_arg(s->f, v, 0))) break;
    unlink_value(s, ir_arg(s->f, v, 0));
    s->life[ir_arg(s->f, v, 0).i] = DISPOSED;
    s->ended[ir_arg(s->f, v, 0).i] = ins->loc;
    break;
  case OP_write: break;
  default:
    if (is_leaf(s, v)) s->owner[v.i] = 0;
    else link_value(s, v, s->open);
  }
}

// The marks that this pass is about; pass functionalize takes those of writes.
static bool is_mark(const Ins *ins) {
  return ir_ops[ins->op].cls == CLASS_MARK && ins->op != OP_grad_of && ins->op != OP_write && ins->op != OP_overwritten;
}

static bool valid_marks(Fn *f) {
  uint32_t n_begun = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Val v = {i};
    n_begun += f->ins[i].op == OP_scope_begin;
    if (!is_mark(&f->ins[i]) || f->ins[i].op == OP_dispose || f->ins[i].op == OP_scope_begin) continue;
    int64_t scope = ir_attr_int(f, v, KEY_scope, -1);
    bool detach = f->ins[i].op == OP_move && scope == -1;
    if (!detach && (scope < 0 || scope >= f->n_scopes)) {
      rt_diag(&f->prog->diags, RT_ERROR, E_VERIFY, NULL, 0, "@%s: a mark names no scope of the function",
              ir_text(f->prog, f->name));
      return false;
    }
  }
  if (n_begun + 1 <= f->n_scopes) return true;
  rt_diag(&f->prog->diags, RT_ERROR, E_VERIFY, NULL, 0, "@%s opens more scopes than it has", ir_text(f->prog, f->name));
  return false;
}

bool ir_pass_check_scopes(Fn *f) {
  RtArena *mem = f->prog->mem;
  uint32_t n = f->n_ins, errors = f->prog->diags.n_errors;
  bool any = false;
  if (!ir_find_size_checks(f)) return false;
  for (uint32_t i = 1; i < n; i++) any |= is_mark(&f->ins[i]);
  if (!any) return true;  // owners are given already
  if (!valid_marks(f)) return false;
  State s = {.f = f,
             .p = f->prog,
             .life = rt_alloc(mem, n),
             .owner = rt_alloc(mem, n * sizeof(uint32_t)),
             .ended = rt_alloc(mem, n * sizeof(Loc)),
             .next = rt_alloc(mem, n * sizeof(uint32_t)),
             .prev = rt_alloc(mem, n * sizeof(uint32_t)),
             .first = rt_alloc(mem, f->n_scopes * sizeof(uint32_t))};
  for (uint32_t i = 1; i < n; i++) step(&s, (Val){i});
  if (s.open != 0) {
    report(&s, RT_ERROR, E_SCOPE_CLOSED, f->scopes[s.open].open, "%sscope '%s' is never closed", (Val){0},
           scope_name(&s, s.open));
  }
  if (f->prog->diags.n_errors != errors) return false;
  for (uint32_t i = 1; i < n; i++) f->ins[i].scope = s.owner[i];
  Rewrite e;
  ir_rewrite_begin(&e, f);
  for (uint32_t i = 1; i < e.n_old; i++)
    if (e.old[i].op != OP_result && !is_mark(&e.old[i])) ir_rewrite_copy(&e, (Val){i});
  ir_rewrite_end(&e);
  return true;
}
