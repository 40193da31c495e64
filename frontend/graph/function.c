// Functions of a program, their inputs and outputs, and how every operation is appended to them.
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/graph/report.h"
#include "frontend/graph/scan.h"
#include "frontend/graph/scope.h"
#include "frontend/tenure/module.h"
#include "ir/fn.h"
#include <string.h>

// The function that a mistake at tn_function_begin leaves behind: whatever is built on it is poisoned, without a second
// report.
static tn_function *poisoned_function(tn_program *p) {
  tn_function *f = rt_alloc(p->mem, sizeof *f);
  f->p = p;
  return f;
}

static bool check_function_name(tn_program *p, const char *name, tn_site at) {
  if (!fe_name(p, "a function", name, false, at)) return false;
  if (!strcmp(name, "init")) {
    fe_error(p, E_ARGUMENT, at, "'init' is the name of the function that initialises parameters");
    return false;
  }
  const tn_function *g = p->first;
  while (g && strcmp(g->name, name)) g = g->next;
  return fe_unique(p, g ? &(FeName){g->name, g->loc} : NULL, "function", name, at);
}

tn_function *tn_function_begin(tn_program *p, const char *name, tn_site at) {
  if (!p) return NULL;
  FE_GUARD(p, NULL);
  if (!fe_open(p, at) || !check_function_name(p, name, at)) return poisoned_function(p);
  tn_function *f = rt_alloc(p->mem, sizeof *f);
  f->p = p;
  f->name = rt_strdup(p->mem, name);
  f->loc = fe_loc(p, at);
  f->ir = ir_fn_new(p->ir, name, f->loc);
  f->rows.mem = p->mem;
  if (p->last) p->last->next = f;
  else p->first = f;
  p->last = f;
  return f;
}

// ---- inputs and outputs
static const FeName *find_name(const FeNames *l, const char *name) {
  uint32_t k = rt_names_find(&l->index, name, strlen(name));
  return k == RT_NO_NAME ? NULL : &l->list[k];
}

static FeName *add_name(tn_function *f, FeNames *l, const char *name, tn_site at) {
  uint32_t n = l->index.n;
  FeName *added = RT_PUSH(f->p->mem, l->list, n, l->cap);
  *added = (FeName){rt_strdup(f->p->mem, name), fe_loc(f->p, at)};
  l->index.mem = f->p->mem;
  rt_names_add(&l->index, added->name, strlen(name));
  return added;
}

// The function that makes initial values has no caller.
static bool is_init(tn_function *f, const char *what, tn_site at) {
  if (f != f->p->init_fn) return false;
  fe_error(f->p, E_ARGUMENT, at, "the function that makes initial values is not %s", what);
  return true;
}

// A region without gradients that is open where f ends
static void no_grad_ends(tn_function *f, tn_site at) {
  if (!f->n_no_grad) return;
  fe_error(f->p, E_STATE, at, "function '%s' ends inside a no-grad region", f->name);
  fe_note(f->p, f->no_grad[f->n_no_grad - 1], "it was begun here");
}

void tn_function_end(tn_function *f, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (!fe_fn_open(f, at) || is_init(f, "ended: tn_compile does it", at)) return;
  f->ended = true;
  f->end = f->ir->scopes[0].close = fe_loc(f->p, at);
  fe_scan_ends(f, at);
  fe_scopes_end(f, rt_printf(f->p->mem, "function '%s'", f->name), at);
  fe_never_disposed(f);
  no_grad_ends(f, at);
}

bool fe_fn_open(tn_function *f, tn_site at) {
  if (!f || !f->ir || !fe_open(f->p, at)) return false;
  if (!f->ended) return true;
  if (!f->reported_ended) {
    fe_error(f->p, E_STATE, at, "function '%s' was ended: nothing can be added to it", f->name);
    fe_note(f->p, f->end, "it was ended here");
  }
  f->reported_ended = true;
  return false;
}

bool fe_eval(tn_function *f, tn_site at) {
  f->late_eval = (Loc){0};
  f->asked_eval = fe_loc(f->p, at);
  return f->eval;
}

void tn_eval(tn_function *f, bool eval, tn_site at) {
  if (!f) return;
  FE_GUARD(f->p, );
  if (eval && !f->eval && f->asked_eval.i) f->late_eval = fe_loc(f->p, at);
  if (!eval) f->late_eval = (Loc){0};
  if (eval != f->eval) f->eval = eval;
}

bool fe_is_found_in_run(const tn_program *p, Dim d) {
  const DimInfo *info = ir_dim_info(p->ir, d);
  if (ir_dim_has_parts(info)) return fe_is_found_in_run(p, info->a) || fe_is_found_in_run(p, info->b);
  for (uint32_t k = 0; k < p->n_rows; k++)
    if (p->rows[k].i == d.i) return true;
  return false;
}

// The caller cannot know the rows of a layout before the run, and a wrong number of them would be read out of bounds.
static bool check_input_dims(tn_function *f, const char *name, Shape s, tn_site at) {
  for (uint32_t k = 0; k < ir_rank(f->p->ir, s); k++) {
    if (!fe_is_found_in_run(f->p, ir_dim_at(f->p->ir, s, k))) continue;
    fe_error(f->p, E_ARGUMENT, at, "axis %u of input '%s' is the rows of a packed layout: a run finds that size itself",
             k, name);
    return false;
  }
  return true;
}

tn_tensor tn_input(tn_function *f, const char *name, tn_dtype t, tn_shape s, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  Shape shape;
  if (!fe_fn_open(f, at) || is_init(f, "given inputs", at)) return fe_poison(f);
  if (!fe_name(f->p, "an input", name, false, at)) return fe_poison(f);
  if (!fe_unique(f->p, find_name(&f->inputs, name), "input", name, at) || !fe_shape(f->p, s, &shape, at))
    return fe_poison(f);
  if (!check_input_dims(f, name, shape, at)) return fe_poison(f);
  if (!fe_dtype(t)) {
    fe_error(f->p, E_DTYPE, at, "input '%s' has no known dtype", name);
    return fe_poison(f);
  }
  Loc loc = add_name(f, &f->inputs, name, at)->loc;
  return (tn_tensor){f, ir_input(f->ir, name, fe_dtype(t), shape, loc).i};
}

void tn_output(tn_function *f, const char *name, tn_tensor t, tn_site at) {
  tn_function *g = f;
  if (!f) return;
  FE_GUARD(f->p, );
  if (!fe_fn_open(f, at) || is_init(f, "asked for outputs", at)) return;
  if (!fe_outside_scan(f, "tn_output", "tn_scan_output hands out a value of each step", at)) return;
  if (!fe_all_named(f, &t, 1, at) || !fe_join(&t, 1, &g, at)) return;
  if (g != f) {
    fe_error(f->p, E_FOREIGN, at, "output '%s' of function '%s' is a value of function '%s'", name ? name : "", f->name,
             g->name);
    if (g->p == f->p) fe_note_value(t, "the value");
    fe_hint(f->p, "a value belongs to the function that it was built in: build it in '%s' too", f->name);
    return;
  }
  if (!fe_name(f->p, "an output", name, false, at)) return;
  if (!fe_unique(f->p, find_name(&f->outputs, name), "output", name, at)) return;
  if (fe_ins(t)->dtype == DT_LAYOUT) {
    fe_error(f->p, E_DTYPE, at, "output '%s' is a packed layout, which has no meaning outside", name);
    fe_note_value(t, "the value");
    return;
  }
  Attr attrs[] = {ir_a_str(KEY_name, ir_str(f->p->ir, name)), ir_a_int(KEY_index, f->outputs.index.n)};
  add_name(f, &f->outputs, name, at);
  fe_emit(OP_output, &t, 1, attrs, 2, at);
  fe_mark_output(t);
}

// ---- appending
static void report_empty(tn_function *f, uint32_t k, tn_site at) {
  fe_error(f->p, E_ARGUMENT, at, "operand %u is an empty handle: no call made it", k + 1);
  fe_hint(f->p, "pass what a call returned");
}

// Marks, writes and outputs are instructions that no handle names.
static bool is_value(const tn_function *f, tn_tensor t) {
  if (t.fn != f || !fe_ok(t)) return false;
  Op op = fe_ins(t)->op;
  return (ir_ops[op].n_res || op == OP_result) && op != OP_output;
}

// Where a value's function was ended, the newest one that is open is meant; NULL: none is
static tn_function *meant_for(const tn_function *f) {
  tn_function *last = NULL;
  if (!f->ended || f->p->sealed || f->p->is_text) return NULL;
  for (tn_function *g = f->p->first; g; g = g->next)
    if (!g->ended && g->ir) last = g;
  return last;
}

bool fe_join_any_for(const char *call, const tn_tensor *a, uint32_t n, tn_function **f, tn_site at) {
  *f = NULL;
  for (uint32_t k = 0; k < n && !*f; k++) *f = a[k].fn;
  if (!*f) return false;
  for (uint32_t k = 0; k < n; k++)
    if (a[k].fn && !a[k].v) return false;
  tn_function *meant = meant_for(*f);
  if (meant) {
    fe_report_ended(meant, (tn_tensor){*f, a[0].fn == *f ? a[0].v : 0}, call, at);
    *f = meant;
    return false;
  }
  if (!fe_fn_open(*f, at)) return false;
  tn_tensor mine = a[0];
  for (uint32_t k = 0; k < n; k++) {
    if (a[k].fn == *f) mine = a[k];
    if (is_value(*f, a[k])) continue;
    if (a[k].fn && a[k].fn != *f) fe_report_foreign(*f, mine, a[k], call, at);
    else report_empty(*f, k, at);
    return false;
  }
  return true;
}

bool fe_all_named(tn_function *f, const tn_tensor *a, uint32_t n, tn_site at) {
  uint32_t k = 0;
  while (k < n && a[k].fn) k++;
  if (k == n) return true;
  report_empty(f, k, at);
  return false;
}

bool fe_join_for(const char *call, const tn_tensor *a, uint32_t n, tn_function **f, tn_site at) {
  if (!fe_join_any_for(call, a, n, f, at)) return false;
  bool good = true;
  for (uint32_t k = 0; k < n; k++) good &= fe_alive(a[k], at);
  return good;
}

// Operands without the optional ones of the row that are empty handles; none to leave out: a itself.
static const tn_tensor *given_of(Op op, const tn_tensor *a, uint32_t *n, tn_tensor given[MAX_OPERANDS]) {
  const OpInfo *row = &ir_ops[op];
  uint32_t n_given = 0;
  if (*n > row->n_operands || *n > MAX_OPERANDS) return a;
  for (uint32_t k = 0; k < *n; k++)
    if (a[k].fn || !(row->operands[k].flags & OPTIONAL)) given[n_given++] = a[k];
  *n = n_given;
  return given;
}

// Whole numbers of fewer bits where a row takes i64 alone: labels and indices of i32 and u8.
static const tn_tensor *as_indices(Op op, const tn_tensor *a, uint32_t n, tn_tensor wide[MAX_OPERANDS], tn_site at) {
  const OpInfo *row = &ir_ops[op];
  bool is_other = false;
  if (row->is_pointwise || n > row->n_operands || n > MAX_OPERANDS) return a;
  for (uint32_t k = 0; k < n; k++) {
    bool is_small = a[k].fn && (row->operands[k].flags & NUMBER) == I64 && (I32 | U8) >> fe_ins(a[k])->dtype & 1;
    wide[k] = is_small ? fe_cast(a[k], DT_I64, at) : a[k];
    is_other |= is_small;
  }
  return is_other ? wide : a;
}

// Inside a region without gradients
static bool is_untracked(const tn_function *f, Op op) {
  OpClass c = (OpClass)ir_ops[op].cls;
  return f->n_no_grad && c != CLASS_LEAF && c != CLASS_MARK && op != OP_output;
}

tn_tensor fe_emit(Op op, const tn_tensor *a, uint32_t n, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  tn_function *f;
  tn_tensor some[MAX_OPERANDS], wide[MAX_OPERANDS];
  uint32_t n_given = n;
  const tn_tensor *given = given_of(op, a, &n_given, some);
  EmitFault fault;
  if (!fe_join_for(ir_ops[op].name, given, n_given, &f, at)) return fe_poison(f);
  FE_GUARD(f->p, fe_poison(f));
  a = as_indices(op, a, n, wide, at);
  given = given_of(op, a, &n_given, some);
  Val few[16], *args = n <= 16 ? few : rt_alloc(f->p->mem, n * sizeof *args);
  for (uint32_t k = 0; k < n; k++) args[k] = a[k].fn ? fe_val(a[k]) : (Val){0};
  RowsCall rows = {f->ir, &f->rows, op, args, n, n_attrs, attrs};
  RowsEffect effect = {0};
  if (f->rows.n && !fe_rows_meet(&effect, f, &rows, at)) return fe_poison(f);
  if (f->n_scans && !fe_scan_allows(f, op, given, n_given, at)) return fe_poison(f);
  Attr own[16];
  if (is_untracked(f, op)) {
    for (uint32_t k = 0; k < n_attrs; k++) own[k] = attrs[k];
    own[n_attrs++] = ir_a_int(KEY_no_grad, 1);
    attrs = own;
  }
  tn_tensor y = {f, ir_try_emit(f->ir, op, args, n, attrs, n_attrs, fe_loc(f->p, at), &fault).i};
  if (fault.id) fe_report_fault(op, given, n_given, &fault, at);
  bool follows = !y.v || fe_rows_follow(&effect, f, &rows, fe_val(y), at);
  return follows ? y : fe_poison(f);
}

tn_tensor fe_emit_in(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, tn_site at) {
  Val y = ir_emit(f->ir, op, NULL, 0, attrs, n_attrs, fe_loc(f->p, at));
  ir_rows_follow(&(RowsEffect){0}, &(RowsCall){f->ir, &f->rows, op, NULL, 0, n_attrs, attrs}, y);
  return (tn_tensor){f, y.i};
}

tn_tensor fe_emit1(Op op, tn_tensor a, tn_site at) { return fe_emit(op, &a, 1, NULL, 0, at); }

tn_tensor fe_emit2(Op op, tn_tensor a, tn_tensor b, tn_site at) {
  return fe_emit(op, (const tn_tensor[]){a, b}, 2, NULL, 0, at);
}

tn_tensor fe_leaf(tn_function *f, Op op, const Attr *attrs, uint32_t n_attrs, Shape s, tn_site at) {
  return (tn_tensor){f, ir_emit_typed(f->ir, op, NULL, 0, attrs, n_attrs, DT_F32, s, fe_loc(f->p, at)).i};
}

tn_tensor fe_const(tn_function *f, double v, tn_site at) {
  return (tn_tensor){f, ir_const(f->ir, v, fe_loc(f->p, at)).i};
}

tn_tensor fe_size(tn_function *f, Dim d, tn_site at) {
  if (ir_dim_is_const(f->p->ir, d)) return fe_const(f, (double)ir_dim_info(f->p->ir, d)->value, at);
  return fe_leaf(f, OP_dim_size, (const Attr[]){ir_a_dim(KEY_dim, d)}, 1, (Shape){0}, at);
}

tn_tensor tn_scalar(tn_function *f, double v, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  return fe_fn_open(f, at) ? fe_made(fe_const(f, v, at), at) : fe_poison(f);
}

tn_tensor tn_dim_number(tn_function *f, tn_dim d, tn_site at) {
  if (!f) return fe_poison(NULL);
  FE_GUARD(f->p, fe_poison(f));
  Shape s;
  if (!fe_fn_open(f, at) || !fe_shape(f->p, TN_SHAPE(d), &s, at)) return fe_poison(f);
  return fe_made(fe_cast(fe_size(f, ir_dim_at(f->p->ir, s, 0), at), DT_I64, at), at);
}

// Handles do not outlive the building: passes renumber values.
uint32_t tn_rank(tn_tensor t) { return fe_ok(t) && !t.fn->p->sealed ? fe_rank(t) : 0; }

tn_dim tn_dim_of(tn_tensor t, int axis) {
  int rank = (int)tn_rank(t);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return (tn_dim){0};
  return fe_dim_handle(t.fn->p, fe_axis_dim(t, (uint32_t)axis));
}

tn_dtype tn_dtype_of(tn_tensor t) { return fe_ok(t) && !t.fn->p->sealed ? (tn_dtype)fe_ins(t)->dtype : 0; }

FeUse *fe_use_of(tn_function *f, uint32_t index) {
  while (f->n_uses <= index) RT_PUSH(f->p->mem, f->uses, f->n_uses, f->cap_uses);
  return &f->uses[index];
}
