// Scans: a recurrence whose step the user writes as ordinary calls. Marks in the IR say where the body begins and ends
// and what goes in and out; pass outline_scans makes a function of it. What the body makes belongs to a scope of the scan, so
// that a use after its end is found as any other use after a scope.
#include "frontend/graph/scan.h"
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scope.h"
#include "frontend/tenure/rnn.h"
#include "ir/fn.h"
#include "ir/scan.h"
#include "ir/storage.h"

struct tn_scan {
  tn_function *f;
  tn_scan *outer;  // around it; NULL: none
  tn_scope *scope;
  const char *name;
  Loc begin, end;
  uint32_t first;  // value of the body
  int64_t number;
  bool poisoned, ended;
  tn_packed over;  // packed; data.fn NULL: dense
  Dim live, rows, batch, steps;
  int axis;
  struct {
    tn_tensor carry, initial, last;  // last: an empty handle until it is asked for or the scan ends
    Loc made, next;                  // next 0: none so far
  } *carries;
  uint32_t n_carries, cap_carries, n_outputs;
};

static bool is_packed(const tn_scan *s) { return s->over.data.fn != NULL; }

static bool scan_open(const tn_scan *s, tn_site at) {
  if (!s || s->poisoned || !fe_fn_open(s->f, at)) return false;
  if (s == s->f->scan) return true;
  if (!s->ended) {
    fe_error(s->f->p, E_STATE, at, "scan '%s' is not the innermost: scan '%s' is open", s->name, s->f->scan->name);
    fe_note(s->f->p, s->f->scan->begin, "it began here");
    return false;
  }
  fe_error(s->f->p, E_STATE, at, "scan '%s' was ended: nothing can be added to it", s->name);
  fe_note(s->f->p, s->end, "it was ended here");
  return false;
}

// True when the values live and are the scan's function's.
static bool join(const tn_scan *s, const tn_tensor *a, uint32_t n, tn_site at) {
  tn_function *f;
  if (!scan_open(s, at) || !fe_all_named(s->f, a, n, at) || !fe_join(a, n, &f, at)) return false;
  if (f == s->f) return true;
  fe_error(s->f->p, E_FOREIGN, at, "a value of function '%s' is given to scan '%s' of function '%s'", f->name, s->name,
           s->f->name);
  if (f->p == s->f->p) fe_note_value(a[0], "the value");
  fe_note(s->f->p, s->begin, "the scan began here");
  return false;
}

bool fe_outside_scan(tn_function *f, const char *what, const char *hint, tn_site at) {
  const tn_scan *s = f->scan;
  if (!s) return true;
  fe_error(f->p, E_STATE, at, "%s stands inside scan '%s'", what, s->name);
  fe_note(f->p, s->begin, "the scan began here");
  fe_hint(f->p, "%s", hint);
  return false;
}

// ---- what stands in a body
// The open scan of that number; NULL: none
static const tn_scan *open_scan(const tn_function *f, int64_t number) {
  const tn_scan *s = f->scan;
  while (s && s->number != number) s = s->outer;
  return s;
}

static const tn_scan *scan_of_mark(const tn_function *f, Val v) {
  return open_scan(f, ir_attr_int(f->ir, v, KEY_scan, -1));
}

// The innermost scan in whose steps v changes; NULL: none. Of values that do not change from step to step, the body is given
// what they were before: they are outside. What a scan hands out belongs to the scan around it.
static const tn_scan *changes_in(const tn_function *f, Val v) {
  const Ins *ins = ir_ins(f->ir, v);
  if (ins->op == OP_scan_output || ins->op == OP_scan_final) return scan_of_mark(f, v)->outer;
  if (ins->op == OP_scan_input || ins->op == OP_scan_carry || ir_attr(f->ir, v, KEY_id)) return f->scan;
  for (const tn_scan *s = f->scan; s; s = s->outer)
    for (uint32_t k = 0; k < ins->n_args; k++)
      if (f->body_of[ir_arg(f->ir, v, k).i] == s->number + 1) return s;
  return NULL;
}

static void follow_body(tn_function *f) {
  while (f->n_body_of < f->ir->n_ins) {
    Val v = {f->n_body_of};
    const tn_scan *s = f->scan ? changes_in(f, v) : NULL;
    *RT_PUSH(f->p->mem, f->body_of, f->n_body_of, f->cap_body_of) = s ? (uint32_t)s->number + 1 : 0;
  }
}

static bool refuse_pair(tn_function *f, uint16_t id, const char *text, Loc there, const char *note, tn_site at) {
  fe_error(f->p, id, at, "%s", text);
  fe_note(f->p, there, "%s", note);
  return false;
}

static bool may_read(tn_function *f, Op op, tn_tensor t, tn_site at) {
  const Ins *made = fe_ins(t);
  bool in_body = f->body_of[t.v] != 0, is_result = made->op == OP_scan_output || made->op == OP_scan_final;
  const tn_scan *body = in_body ? open_scan(f, f->body_of[t.v] - 1) : NULL;
  if (in_body && !body)
    return refuse_pair(f, E_USE_AFTER_SCOPE, "a value of a scan's body is used outside of it", made->loc,
                       "it was made here; tn_scan_output and tn_scan_final take values out", at);
  if (!f->scan) return true;
  if (is_result && scan_of_mark(f, fe_val(t)))
    return refuse_pair(f, E_STATE, "an output of a scan is used inside of it", made->loc,
                       "it is whole when the scan has ended", at);
  if (body == f->scan && (op == OP_scan_input || op == OP_scan_carry))
    return refuse_pair(f, E_ARGUMENT, "what a scan takes in is a value of its own body", made->loc, "it was made here",
                       at);
  return true;
}

static const tn_scan *packed_around(const tn_function *f) {
  const tn_scan *s = f->scan;
  while (s && !is_packed(s)) s = s->outer;
  return s;
}

// A layout of sequences is known before the scan begins; where a step has rows of its own it reads none.
static bool may_use_layout(tn_function *f, Op op, const tn_tensor *a, uint32_t n, tn_site at) {
  bool in_body = false, makes = ir_ops[op].cls == CLASS_LAYOUT, reads = false;
  for (uint32_t k = 0; k < n; k++) in_body |= f->body_of[a[k].v] != 0, reads |= fe_ins(a[k])->dtype == DT_LAYOUT;
  const tn_scan *s = makes ? f->scan : reads ? packed_around(f) : NULL;
  return !s || !in_body || refuse_pair(f, E_STATE, ir_layout_in_scan, s->begin, "the scan began here", at);
}

// A later step would see what an earlier one wrote.
static const Ins *find_write(const tn_function *f, Val root) {
  for (uint32_t i = f->scan->first; i < f->ir->n_ins; i++)
    if (f->ir->ins[i].op == OP_write && ir_written_storage(f->ir, ir_arg(f->ir, (Val){i}, 0)).i == root.i)
      return &f->ir->ins[i];
  return NULL;
}

// What an open scan takes in, step by step.
static const Ins *find_taken(const tn_function *f, Val root) {
  const tn_scan *outermost = f->scan;
  while (outermost->outer) outermost = outermost->outer;
  for (Val v = {outermost->first}; v.i < f->ir->n_ins; v.i++)
    if (ir_ins(f->ir, v)->op == OP_scan_input && scan_of_mark(f, v) &&
        ir_written_storage(f->ir, ir_arg(f->ir, v, 0)).i == root.i)
      return ir_ins(f->ir, v);
  return NULL;
}

static bool refuse_taken(tn_function *f, Loc taken, tn_site at) {
  fe_error(f->p, E_WRITE_LEAF, at, "what a scan takes in is written inside of it");
  fe_note(f->p, taken, "the scan takes it in here");
  fe_hint(f->p, "tn_clone(..) of it is the scan's own");
  return false;
}

bool fe_scan_allows(tn_function *f, Op op, const tn_tensor *a, uint32_t n, tn_site at) {
  follow_body(f);
  for (uint32_t k = 0; k < n; k++)
    if (!may_read(f, op, a[k], at)) return false;
  if (!may_use_layout(f, op, a, n, at)) return false;
  const Ins *write = NULL;
  if (op == OP_scan_input || op == OP_scan_carry) write = find_write(f, ir_written_storage(f->ir, fe_val(a[0])));
  return !write || refuse_taken(f, fe_loc(f->p, at),
                                (tn_site){ir_loc_file(f->p->ir, write->loc), (int)ir_loc_line(f->p->ir, write->loc)});
}

bool fe_scan_may_write(tn_tensor t, Val root, tn_site at) {
  tn_function *f = t.fn;
  const Ins *to = &f->ir->ins[root.i], *taken = find_taken(f, root);
  bool is_weight = to->op == OP_param && f->p->ir->params[ir_attr_int(f->ir, root, KEY_param, 0)].trainable;
  if (taken) return refuse_taken(f, taken->loc, at);
  if (root.i >= f->scan->first && to->op != OP_param) return true;
  if (is_weight) {
    fe_error(f->p, E_WRITE_LEAF, at, "trainable parameter '%s' is written inside a scan",
             ir_text(f->p->ir, f->p->ir->params[ir_attr_int(f->ir, root, KEY_param, 0)].path));
    fe_note(f->p, f->scan->begin, "the scan began here");
    fe_hint(f->p, "tn_scan_carry takes what changes from step to step; write the parameter when the scan has ended");
  } else if (to->dtype != DT_F32) {
    fe_error(f->p, E_WRITE_LEAF, at,
             "whole numbers from outside are written inside a scan, which carries f32 from step to step");
    fe_note(f->p, f->scan->begin, "the scan began here");
    fe_hint(f->p, "tn_scan_output gives what each step makes; write it when the scan has ended");
  }
  return !is_weight && to->dtype == DT_F32;
}

// Marks of the scan carry its number.
static Attr number_of(const tn_scan *s) { return ir_a_int(KEY_scan, s->number); }

static void mark(tn_scan *s, Op op, const Val *v, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  Val made = {s->f->ir->n_ins};
  ir_emit(s->f->ir, op, v, n, attrs, n_attrs, fe_loc(s->f->p, at));
  ir_rows_pass_mark(&s->f->rows, s->f->ir, made);
}

// ---- begin and end
static bool open_packed(tn_scan *s, tn_site at) {
  tn_function *g;
  Prog *ir = s->f->p->ir;
  if (!fe_join_packed(&s->over, 1, &g, at)) return false;
  if (g != s->f) {
    fe_error(s->f->p, E_FOREIGN, at, "the sequences belong to function '%s', the scan to '%s'", g->name, s->f->name);
    if (g->p == s->f->p) fe_note_value(s->over.data, "their data");
    return false;
  }
  Shape layout = fe_shape_of(s->over.layout);
  s->batch = ir_dim_at(ir, layout, 0);
  s->rows = ir_dim_at(ir, layout, 2);
  const char *name = "live";
  for (uint32_t k = 2; ir_dim_find(ir, name).i; k++) name = rt_printf(s->f->p->mem, "live_%u", k);
  s->live = ir_dim_sym(ir, name, ir_dim_bound(ir, s->batch));
  *RT_PUSH(s->f->p->mem, s->f->p->rows, s->f->p->n_rows, s->f->p->cap_rows) = s->live;
  return true;
}

static bool may_begin(tn_scan *s, const tn_scan_options *o) {
  tn_program *p = s->f->p;
  if (!fe_fn_open(s->f, o->at) || !fe_name(p, "a scan", s->name, false, o->at)) return false;
  uint32_t depth = 0;
  for (const tn_scan *outer = s->f->scan; outer; outer = outer->outer) depth++;
  const tn_scan *around = depth == MAX_SCAN_DEPTH ? s->f->scan : o->over.data.fn ? packed_around(s->f) : NULL;
  if (around) {
    fe_error(p, E_STATE, o->at, "%s", depth == MAX_SCAN_DEPTH ? "scans nest above 8 deep" : ir_layout_in_scan);
    fe_note(p, around->begin, "the scan began here");
    return false;
  }
  if (!o->over.data.fn && !o->steps.d) {
    fe_error(p, E_ARGUMENT, o->at, "a scan goes over packed sequences or a number of steps, and none is given");
    return false;
  }
  return true;
}

tn_scan *tn_scan_begin(tn_function *f, tn_scan_options o) {
  if (!f) return NULL;
  FE_GUARD(f->p, NULL);
  tn_scan *s = rt_alloc(f->p->mem, sizeof *s);
  *s = (tn_scan){.f = f, .name = o.name ? rt_strdup(f->p->mem, o.name) : "scan", .poisoned = true};
  if (!may_begin(s, &o)) return s;
  s->over = o.over;
  s->axis = o.axis;
  if (is_packed(s) ? !open_packed(s, o.at) : !fe_dim(f->p, o.steps, &s->steps, o.at)) return s;
  s->poisoned = false;
  s->begin = fe_loc(f->p, o.at);
  s->number = f->n_scans++;
  Attr a[4] = {number_of(s), is_packed(s) ? ir_a_dim(KEY_live, s->live) : ir_a_dim(KEY_time, s->steps),
               ir_a_str(KEY_name, ir_str(f->p->ir, s->name)), ir_a_int(KEY_reverse, 1)};
  Val layout = fe_val(s->over.layout);
  mark(s, OP_scan_begin, &layout, is_packed(s), a, o.reverse ? 4 : 3, o.at);
  follow_body(f);
  s->first = f->ir->n_ins;
  s->outer = f->scan;
  s->scope = tn_scope_begin(f, s->name, o.at);
  s->scope->is_scan = true;
  f->scan = s;
  return s;
}

static tn_tensor given_outside(const tn_scan *s, tn_tensor t, tn_site at) {
  const tn_scope *around = s->scope->parent;
  if (fe_ok(t)) fe_mark_owner(t, around ? around->index : 0, at);
  return t;
}

// Made while the first value lives, which may be the body's own.
static tn_tensor last_of(tn_scan *s, uint32_t k, tn_site at) {
  Attr a[2] = {number_of(s), ir_a_int(KEY_index, k)};
  if (!s->carries[k].last.v)
    s->carries[k].last = given_outside(s, fe_emit(OP_scan_final, &s->carries[k].initial, 1, a, 2, at), at);
  return s->carries[k].last;
}

// A write in place to what is outside comes out of the scan, too.
static bool writes(const tn_scan *s) {
  const Fn *ir = s->f->ir;
  for (uint32_t i = s->first; i < ir->n_ins; i++)
    if (ir->ins[i].op == OP_write) return true;
  return false;
}

static void check_carries(const tn_scan *s, tn_site at) {
  tn_program *p = s->f->p;
  for (uint32_t k = 0; k < s->n_carries; k++) {
    if (s->carries[k].next.i) continue;
    fe_error(p, E_ARGUMENT, at, "scan '%s' ends, but a carry has no next value", s->name);
    fe_note(p, s->carries[k].made, "the carry was made here");
    fe_hint(p, "tn_scan_next(scan, carry, value) says what it is in the next step");
  }
  if (s->n_carries + s->n_outputs || writes(s)) return;
  fe_error(p, E_ARGUMENT, at, "scan '%s' has neither a carry nor an output", s->name);
  fe_note(p, s->begin, "it began here");
}

void tn_scan_end(tn_scan *s, tn_site at) {
  if (!s || s->poisoned) return;
  FE_GUARD(s->f->p, );
  if (!scan_open(s, at)) return;
  check_carries(s, at);
  for (uint32_t k = 0; k < s->n_carries; k++) last_of(s, k, at);
  Attr a = number_of(s);
  mark(s, OP_scan_end, NULL, 0, &a, 1, at);
  follow_body(s->f);
  s->ended = true;
  s->end = fe_loc(s->f->p, at);
  s->f->scan = s->outer;
  tn_scope_end(s->scope, at);
}

void fe_scan_ends(tn_function *f, tn_site at) {
  if (!f->scan) return;
  fe_error(f->p, E_STATE, at, "function '%s' ends while scan '%s' is open", f->name, f->scan->name);
  fe_note(f->p, f->scan->begin, "it began here");
  fe_hint(f->p, "tn_scan_end closes it");
  for (tn_scan *s = f->scan; s; s = s->outer) {
    s->ended = true;
    if (f->scope == s->scope) f->scope = s->scope->parent;  // reported once
  }
  f->scan = NULL;
}

// Steps of a scan draw from streams of their own, numbered from the first on (pass outline_scans): each operation takes as
// many.
static int64_t bound_of_steps(const tn_scan *s) {
  const Prog *ir = s->f->p->ir;
  int64_t n = ir_dim_bound(ir, is_packed(s) ? ir_dim_at(ir, fe_shape_of(s->over.layout), 1) : s->steps);
  return n ? n : 1;
}

uint32_t fe_stream(tn_function *f, tn_site at) {
  int64_t n = 1;
  for (const tn_scan *s = f->scan; s; s = s->outer)
    if (__builtin_mul_overflow(n, bound_of_steps(s), &n)) n = INT64_MAX;
  uint32_t first = n < UINT32_MAX ? ir_new_streams(f->p->ir, (uint32_t)n) : 0;
  if (first) return first;
  fe_error(f->p, E_ARGUMENT, at, "%lld more random streams are wanted than there are", (long long)n);
  fe_hint(f->p, "a random operation in a scan takes a stream for each step");
  return 1;
}

// ---- in
// The value that holds the steps along its first axis.
static tn_tensor steps_first(tn_scan *s, tn_tensor x, tn_site at) {
  uint32_t axis, n = fe_rank(x);
  if (!fe_axis(x, s->axis, &axis, at)) return fe_poison(s->f);
  if (axis == 0) return x;
  int64_t perm[MAX_RANK] = {axis};
  for (uint32_t k = 1; k < n; k++) perm[k] = k <= axis ? k - 1 : k;
  Attr a = ir_a_list(KEY_perm, ir_shape_ints(s->f->p->ir, perm, n));
  return fe_emit(OP_permute, &x, 1, &a, 1, at);
}

static const char *text_of(tn_program *p, Dim d) {
  RtText text = {.mem = p->mem};
  ir_dim_text(p->ir, d, &text);
  return text.text;
}

// Of xs, whose steps are the first axis of x
static bool check_steps(const tn_scan *s, tn_tensor xs, tn_tensor x, tn_site at) {
  tn_program *p = s->f->p;
  Dim want = is_packed(s) ? s->rows : s->steps, have = fe_axis_dim(x, 0);
  if (have.i == want.i) return true;
  fe_error(p, E_SHAPE, at,
           is_packed(s) ? "this value has %s rows, the layout that scan '%s' goes over has %s"
                        : "this value has %s steps, scan '%s' has %s",
           text_of(p, have), s->name, text_of(p, want));
  fe_note_value(xs, "the value");
  fe_note(p, s->begin, "the scan began here");
  return false;
}

tn_tensor tn_scan_input(tn_scan *s, tn_tensor xs, tn_site at) {
  if (!join(s, &xs, 1, at)) return fe_poison(s ? s->f : NULL);
  tn_function *f = s->f;
  FE_GUARD(f->p, fe_poison(f));
  if (fe_ins(xs)->dtype == DT_LAYOUT || fe_rank(xs) == 0) {
    fe_error(f->p, E_SHAPE, at, "an input of a scan has an axis of steps");
    fe_note_value(xs, "the value");
    return fe_poison(f);
  }
  tn_tensor x = is_packed(s) ? xs : steps_first(s, xs, at);
  if (!fe_ok(x) || !check_steps(s, xs, x, at)) return fe_poison(f);
  if (is_packed(s) && !fe_same_rows("scan_input", s->over.data, x, at)) return fe_poison(f);
  Attr a[2] = {number_of(s), ir_a_dim(KEY_live, s->live)};
  return fe_made(fe_emit(OP_scan_input, &x, 1, a, is_packed(s) ? 2 : 1, at), at);
}

static bool has_layout(const tn_scan *s, tn_packed x) {
  const Fn *ir = s->f->ir;
  const Attr *a = ir_attr(ir, fe_val(s->over.layout), KEY_lengths), *b = ir_attr(ir, fe_val(x.layout), KEY_lengths);
  return s->over.layout.v == x.layout.v || (a && b && a->u.list.i == b->u.list.i);
}

tn_tensor tn_scan_input_packed(tn_scan *s, tn_packed xs, tn_site at) {
  if (!join(s, (const tn_tensor[]){xs.data, xs.layout}, 2, at)) return fe_poison(s ? s->f : NULL);
  tn_function *f = s->f;
  FE_GUARD(f->p, fe_poison(f));
  if (is_packed(s) && has_layout(s, xs)) return tn_scan_input(s, xs.data, at);
  fe_error(f->p, E_REGISTERED_SHAPE, at, "these packed sequences have another layout than scan '%s' goes over",
           s->name);
  fe_note(f->p, fe_ins(xs.layout)->loc, "the sequences were packed here");
  fe_note(f->p, s->begin, "the scan began here");
  fe_hint(f->p, "tn_packed_with_data gives other data the layout of the scan");
  return fe_poison(f);
}

tn_tensor tn_scan_carry(tn_scan *s, tn_tensor h0, tn_site at) {
  if (!join(s, &h0, 1, at)) return fe_poison(s ? s->f : NULL);
  tn_function *f = s->f;
  FE_GUARD(f->p, fe_poison(f));
  bool row = is_packed(s) && fe_ins(h0)->dtype == DT_F32 && fe_rank(h0) && fe_axis_dim(h0, 0).i == s->batch.i;
  Attr a[3] = {number_of(s), ir_a_int(KEY_index, s->n_carries), ir_a_dim(KEY_live, s->live)};
  tn_tensor h = fe_made(fe_emit(OP_scan_carry, &h0, 1, a, row ? 3 : 2, at), at);
  if (!fe_ok(h)) return h;
  *RT_PUSH(f->p->mem, s->carries, s->n_carries, s->cap_carries) =
      (typeof(*s->carries)){h, h0, {0}, fe_loc(f->p, at), {0}};
  return h;
}

static int64_t carry_of(const tn_scan *s, tn_tensor h, tn_site at) {
  for (uint32_t k = 0; k < s->n_carries; k++)
    if (s->carries[k].carry.v == h.v) return k;
  fe_error(s->f->p, E_ARGUMENT, at, "this value is no carry of scan '%s'", s->name);
  fe_note(s->f->p, s->begin, "the scan began here");
  return -1;
}

// ---- out
static bool check_next(const tn_scan *s, int64_t k, tn_tensor v, tn_site at) {
  Prog *ir = s->f->p->ir;
  const Ins *carry = fe_ins(s->carries[k].carry), *next = fe_ins(v);
  if (s->carries[k].next.i) {
    fe_error(s->f->p, E_ARGUMENT, at, "a carry gets a second next value");
    fe_note(s->f->p, s->carries[k].next, "it got the first here");
    return false;
  }
  if (carry->dtype == next->dtype && carry->shape.i == next->shape.i) return true;
  RtText text = {.mem = s->f->p->mem};
  rt_text_add(&text, "the next value of a carry has shape ");
  ir_shape_text(ir, next->shape, &text);
  rt_text_add(&text, ", the carry ");
  ir_shape_text(ir, carry->shape, &text);
  fe_error(s->f->p, E_SHAPE, at, "%s", text.text);
  fe_note(s->f->p, s->carries[k].made, "the carry was made here");
  fe_note_value(v, "the next value");
  return false;
}

void tn_scan_next(tn_scan *s, tn_tensor h, tn_tensor next, tn_site at) {
  if (!scan_open(s, at)) return;
  FE_GUARD(s->f->p, );
  int64_t k = fe_ok(h) ? carry_of(s, h, at) : -1;
  if (k < 0) return;
  bool good = join(s, &next, 1, at) && check_next(s, k, next, at) && fe_scan_allows(s->f, OP_scan_next, &next, 1, at);
  if (!s->carries[k].next.i) s->carries[k].next = fe_loc(s->f->p, at);
  if (!good) return;
  Attr a[2] = {number_of(s), ir_a_int(KEY_index, k)};
  Val v = fe_val(next);
  mark(s, OP_scan_next, &v, 1, a, 2, at);
}

// Counts t, which is given to the scope around the scan.
static tn_tensor made_outside(tn_scan *s, tn_tensor t, tn_site at) {
  tn_scope *now = s->f->scope;
  s->f->scope = s->scope->parent;
  t = fe_made(t, at);
  s->f->scope = now;
  return t;
}

tn_tensor tn_scan_output(tn_scan *s, tn_tensor y, tn_site at) {
  if (!join(s, &y, 1, at)) return fe_poison(s ? s->f : NULL);
  tn_function *f = s->f;
  FE_GUARD(f->p, fe_poison(f));
  Attr a[3] = {number_of(s), is_packed(s) ? ir_a_dim(KEY_rows, s->rows) : ir_a_dim(KEY_time, s->steps),
               ir_a_dim(KEY_live, s->live)};
  tn_tensor ys = fe_emit(OP_scan_output, &y, 1, a, is_packed(s) ? 3 : 2, at);
  ys = made_outside(s, given_outside(s, ys, at), at);
  s->n_outputs += fe_ok(ys);
  return ys;
}

tn_tensor tn_scan_final(tn_scan *s, tn_tensor h, tn_site at) {
  if (!s || s->poisoned || !fe_fn_open(s->f, at)) return fe_poison(s ? s->f : NULL);
  FE_GUARD(s->f->p, fe_poison(s->f));
  const tn_scope *around = s->scope->parent;
  int64_t k = fe_ok(h) ? carry_of(s, h, at) : -1;
  if (k < 0) return fe_poison(s->f);
  if (!around || !around->closed) return made_outside(s, last_of(s, (uint32_t)k, at), at);
  fe_error(s->f->p, E_USE_AFTER_SCOPE, at, "a result of scan '%s' is asked for after scope '%s' around it closed",
           s->name, around->name);
  fe_note(s->f->p, around->close, "it was closed here");
  return fe_poison(s->f);
}
