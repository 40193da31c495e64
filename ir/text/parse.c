// Text -> program, by recursive descent, one token ahead, in linear time. The language is in docs/ir.md.
//
// After a fault the parser goes on with the next line; a value whose line is wrong is known but poisoned, so that its
// uses add no further report. Any bytes are safe to read.
#include "ir/build.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/shape/shape.h"
#include "ir/text/read.h"
#include "ir/text/text.h"
#include "runtime/exec/plan_types.h"

#include <string.h>

enum { MAX_SCOPES = 1 << 20 };

// ---- scopes

static uint32_t innermost(const Parser *ps) { return ps->n_open ? ps->open[ps->n_open - 1] : 0; }

static bool read_scope_ref(Parser *ps, uint32_t *out) {
  int64_t k;
  *out = NO_SCOPE;
  if (ir_rd_accept_word(ps, "none")) return true;
  if (!ir_read_int(ps, "the number of a scope", 0, ps->f->n_scopes - 1, &k)) return false;
  *out = (uint32_t)k;
  return true;
}

// ` in 2`; without it the innermost open scope.
static bool read_parent(Parser *ps, uint32_t *out) {
  *out = innermost(ps);
  return !ir_rd_accept_word(ps, "in") || read_scope_ref(ps, out);
}

static bool read_scope_name(Parser *ps, Str *out) {
  return ir_read_text(ps, TOK_WORD, TOK_STRING, "the name of a scope", out);
}

static uint32_t open_scope(Parser *ps, Str name, uint32_t parent, Loc loc) {
  uint32_t k = ir_scope_open(ps->f, parent, ir_text(ps->p, name), loc);
  *RT_PUSH(ps->p->mem, ps->open, ps->n_open, ps->cap_open) = k;
  ps->f->cur_scope = k;
  return k;
}

// Applies a scope_end {scope=k} to the scopes. Pass `check_scopes` judges whether and where a scope closed.
static void close_scope(Parser *ps, int64_t k) {
  if (ps->has_table) return;
  for (uint32_t j = ps->n_open; j-- > 0;) {
    if (ps->open[j] != k) continue;
    memmove(ps->open + j, ps->open + j + 1, (ps->n_open - j - 1) * sizeof *ps->open);
    ps->n_open--;
    break;
  }
  ps->f->cur_scope = innermost(ps);
}

// `scope 1 forward in 0 open`, with the word `scope` read.
static bool parse_scope_entry(Parser *ps) {
  Token first = ps->tok;
  int64_t k;
  Str name;
  uint32_t parent;
  if (ps->f->n_ins > ps->f->n_inputs + 1 || (ps->f->n_scopes > 1 && !ps->has_table))
    return ir_rd_fault(ps, &first, "expected the table of scopes before the first instruction");
  if (!ir_read_int(ps, "the scope's number, counted from 1,", ps->f->n_scopes, ps->f->n_scopes, &k)) return false;
  if (!read_scope_name(ps, &name)) return false;
  if (!ir_rd_accept_word(ps, "in")) return ir_rd_expected(ps, "'in' and the number of the scope around it");
  if (!read_scope_ref(ps, &parent)) return false;
  bool open = ir_rd_accept_word(ps, "open");
  if (!ir_rd_want_line_end(ps)) return false;
  ps->has_table = true;
  ir_scope_open(ps->f, parent, ir_text(ps->p, name), ir_rd_line_loc(ps, 0));
  ps->f->scopes[k].closed = !open;
  ps->f->scopes[k].close = ir_rd_line_loc(ps, 1);
  return true;
}

static void emit_mark(Parser *ps, Op op, const Attr *attrs, uint32_t n, Loc loc) {
  ir_emit_typed(ps->f, op, NULL, 0, attrs, n, DT_NONE, (Shape){0}, loc);
  ps->has_marks = true;
}

static void push_brace(Parser *ps, uint32_t scope) {
  *RT_PUSH(ps->p->mem, ps->braces, ps->n_braces, ps->cap_braces) = scope;
}

static bool parse_scope_open(Parser *ps, const Token *first, bool *brace) {
  Str name;
  uint32_t parent;
  if (!read_scope_name(ps, &name) || !read_parent(ps, &parent) || !ir_rd_want(ps, '{')) return false;
  *brace = true;
  if (!ir_rd_want_line_end(ps)) return false;
  if (ps->has_table) return ir_rd_fault(ps, first, "scopes do not open where a table of scopes is given");
  if (ps->f->n_scopes >= MAX_SCOPES) return ir_rd_fault(ps, first, "expected fewer scopes");
  Loc loc = ir_rd_line_loc(ps, 0);
  emit_mark(ps, OP_scope_begin, (Attr[]){ir_a_int(KEY_scope, ps->f->n_scopes), ir_a_str(KEY_name, name)}, 2, loc);
  push_brace(ps, open_scope(ps, name, parent, loc));
  return true;
}

// `scope forward {`, or with its parent where that isn't the innermost open scope: `scope forward in 0 {`
static bool parse_scope(Parser *ps) {
  Token first = ps->tok;
  ir_rd_next(ps);
  if (ps->tok.kind == TOK_INT) return parse_scope_entry(ps);
  bool brace = false;
  if (parse_scope_open(ps, &first, &brace)) return true;
  if (ir_rd_skip_line(ps) || brace) push_brace(ps, 0);  // its `}` shall not close the function
  return false;
}

// A `}` that closes a scope.
static bool parse_scope_close(Parser *ps) {
  ir_rd_next(ps);
  uint32_t k = ps->braces[--ps->n_braces];
  if (!ir_rd_want_line_end(ps)) return false;
  emit_mark(ps, OP_scope_end, (Attr[]){ir_a_int(KEY_scope, k)}, 1, ir_rd_line_loc(ps, 0));
  close_scope(ps, k);
  return true;
}

// ---- instructions

// One line of a function's body, as read.
typedef struct {
  Token *names;  // left of `=`
  uint32_t n_names, cap_names;
  Token op_tok;
  Op op;
  struct Typed {
    Token tok;
    DType dtype;
    Shape shape;
  } *types;  // right of `:`
  uint32_t n_types, cap_types;
  uint32_t *owners;
  uint32_t n_owners, cap_owners;
  uint32_t parent;  // of a scope_begin
  uint32_t checkpoint;
} Line;

static bool read_names(Parser *ps, Line *l) {
  if (ps->tok.kind != TOK_VALUE) return true;
  do {
    if (ps->tok.kind != TOK_VALUE) return ir_rd_expected(ps, "a %value");
    if (l->n_names == MAX_RESULTS) return ir_rd_fault(ps, &ps->tok, "expected fewer results");
    *RT_PUSH(ps->p->mem, l->names, l->n_names, l->cap_names) = ps->tok;
    ir_rd_next(ps);
  } while (ir_rd_accept(ps, ','));
  return ir_rd_want(ps, '=');
}

static bool read_op(Parser *ps, Line *l) {
  l->op_tok = ps->tok;
  if (ps->tok.kind == TOK_WORD && ps->tok.n < 64) l->op = ir_op_find(rt_strndup(ps->p->mem, ps->tok.text, ps->tok.n));
  if (l->op != OP_none && l->op != OP_result) return ir_rd_next(ps), true;
  RtNear near = ir_rd_near(ps, &ps->tok);
  for (uint32_t k = OP_none + 1; ps->tok.kind == TOK_WORD && k < N_OPS; k++)
    if (k != OP_result) rt_near_offer(&near, ir_ops[k].name);
  return ir_rd_expected_near(ps, "an operation", &near);
}

static uint32_t find_operand(const Parser *ps, Op op) {
  for (uint32_t k = 0; k < ir_ops[op].n_operands; k++)
    if (ir_rd_at_word(ps, ir_arg_name[ir_ops[op].operands[k].name])) return k;
  return UINT32_MAX;
}

static bool refuse_operand(Parser *ps, Op op, const Token *t) {
  RtNear near = ir_rd_near(ps, t);
  for (uint32_t k = 0; k < ir_ops[op].n_operands; k++) rt_near_offer(&near, ir_arg_name[ir_ops[op].operands[k].name]);
  return FAULT(ps, t, "%s has no operand %s%s", ir_ops[op].name, ir_rd_shown(ps, t), rt_near_text(&near));
}

// `%x`, or `h0=%x` where optional operands before it are absent: in the order of the row, from the first gap on all.
static bool read_operand(Parser *ps, const Line *l) {
  Token t = ps->tok;
  if (t.kind == TOK_VALUE && ps->n_absent) return ir_rd_expected(ps, "the name of an operand, as in h0=%h,");
  if (t.kind != TOK_WORD) return ir_read_operand(ps);
  uint32_t k = find_operand(ps, l->op);
  if (k == UINT32_MAX) return refuse_operand(ps, l->op, &t);
  if (k < ps->n_args) return FAULT(ps, &t, "operand %s stands there already, or behind its place", ir_rd_shown(ps, &t));
  while (ps->n_args < k) {
    const OperandInfo *skipped = &ir_ops[l->op].operands[ps->n_args];
    if (!(skipped->flags & OPTIONAL)) return FAULT(ps, &t, "operand %s is missing", ir_arg_name[skipped->name]);
    *RT_PUSH(ps->p->mem, ps->args, ps->n_args, ps->cap_args) = (Val){0};
    ps->n_absent++;
  }
  ir_rd_next(ps);
  return ir_rd_want(ps, '=') && ir_read_operand(ps);
}

static bool read_operands(Parser *ps, const Line *l) {
  ps->n_args = ps->n_absent = ps->n_attrs = 0;
  ps->poisoned = false;
  if (l->op == OP_param && (ps->tok.kind == TOK_PATH || ps->tok.kind == TOK_QPATH)) {
    int64_t k;
    if (!ir_read_param_index(ps, &k)) return false;
    *RT_PUSH(ps->p->mem, ps->attrs, ps->n_attrs, ps->cap_attrs) = ir_a_int(KEY_param, k);
  } else if (ps->tok.kind == TOK_VALUE) {
    do {
      if (!read_operand(ps, l)) return false;
    } while (ir_rd_accept(ps, ','));
  }
  return true;
}

static bool read_types(Parser *ps, Line *l) {
  if (!ir_rd_accept(ps, ':')) return true;
  do {
    if (l->n_types == MAX_RESULTS) return ir_rd_fault(ps, &ps->tok, "expected fewer types");
    struct Typed t = {.tok = ps->tok};
    if (!ir_read_type(ps, &t.dtype, &t.shape)) return false;
    *RT_PUSH(ps->p->mem, l->types, l->n_types, l->cap_types) = t;
  } while (ir_rd_accept(ps, ','));
  return true;
}

static bool read_owners(Parser *ps, Line *l) {
  if (!ir_rd_accept_word(ps, "owner")) return true;
  if (!ir_rd_want(ps, '=')) return false;
  do {
    if (l->n_owners == MAX_RESULTS) return ir_rd_fault(ps, &ps->tok, "expected fewer owners");
    uint32_t owner;
    if (!read_scope_ref(ps, &owner)) return false;
    *RT_PUSH(ps->p->mem, l->owners, l->n_owners, l->cap_owners) = owner;
  } while (ir_rd_accept(ps, ','));
  return true;
}

static bool read_checkpoint_number(Parser *ps, uint32_t *out) {
  int64_t k;
  if (!ps->p->n_checkpoints) return ir_rd_fault(ps, &ps->tok, "the program has no checkpoint");
  if (!ir_read_int(ps, "the number of a checkpoint", 1, ps->p->n_checkpoints, &k)) return false;
  *out = (uint32_t)k;
  return true;
}

static bool read_checkpoint(Parser *ps, Line *l) {
  if (!ir_rd_accept_word(ps, "checkpoint")) return true;
  return ir_rd_want(ps, '=') && read_checkpoint_number(ps, &l->checkpoint);
}

static const Attr *find_attr(const Parser *ps, Key k) {
  for (uint32_t j = 0; j < ps->n_attrs; j++)
    if (ps->attrs[j].key == k) return &ps->attrs[j];
  return NULL;
}

// A scan has as many results as its body has outputs.
static uint32_t n_results(const Parser *ps, Op op) {
  const Attr *name = op == OP_scan ? find_attr(ps, KEY_body) : NULL;
  const Fn *body = name ? ir_body_find(ps->p, name->u.s) : NULL;
  return body && body->n_outputs && body->n_outputs <= MAX_RESULTS ? body->n_outputs : ir_ops[op].n_res;
}

static bool check_counts(Parser *ps, const Line *l) {
  const OpInfo *row = &ir_ops[l->op];
  uint32_t n_res = n_results(ps, l->op), n_args = ps->n_args - ps->n_absent;
  const Token *t = &l->op_tok;
  if (n_args < row->n_min || n_args > row->n_max) {
    const char *few = row->n_min == 1 ? "" : "s";
    if (row->n_min == row->n_max)
      return FAULT(ps, t, "%s takes %u operand%s, found %u", row->name, row->n_min, few, n_args);
    return FAULT(ps, t, "%s takes %u to %u operands, found %u", row->name, row->n_min, row->n_max, n_args);
  }
  const char *s = n_res == 1 ? "" : "s";
  if (l->n_names && l->n_names != n_res)
    return FAULT(ps, t, "%s has %u result%s, found %u left of '='", row->name, n_res, s, l->n_names);
  if (l->n_types && l->n_types != n_res)
    return FAULT(ps, t, "%s has %u result%s, types found: %u", row->name, n_res, s, l->n_types);
  if (l->n_owners > 1 && l->n_owners != n_res)
    return FAULT(ps, t, "%s has %u result%s, owners found: %u", row->name, n_res, s, l->n_owners);
  return true;
}

// Counts names and constants in a dim, up to a little more than the limit.
static uint32_t count_terms(const Prog *p, Dim d) {
  const DimInfo *i = ir_dim_info(p, d);
  if (i->kind == DIM_CONST || i->kind == DIM_SYM) return 1;
  uint32_t n = count_terms(p, i->a);
  return n > MAX_DIM_TERMS ? n : n + count_terms(p, i->b);
}

static bool is_small(const Prog *p, Shape s) {
  if (ir_rank(p, s) > MAX_RANK) return false;
  for (uint32_t k = 0; k < ir_rank(p, s); k++)
    if (count_terms(p, ir_dim_at(p, s, k)) > MAX_DIM_TERMS) return false;
  return true;
}

// Compares the types that the text states with those that the shape rule found.
static bool check_types(Parser *ps, const Line *l, Val v) {
  for (uint32_t k = 0; k < n_results(ps, l->op); k++) {
    const Ins *ins = ir_ins(ps->f, ir_result(v, k));
    if (!is_small(ps->p, ins->shape)) return FAULT(ps, &l->op_tok, "expected dims of at most %d terms", MAX_DIM_TERMS);
    if (k >= l->n_types || (ins->dtype == l->types[k].dtype && ins->shape.i == l->types[k].shape.i)) continue;
    RtText type = {.mem = ps->diags->mem};
    ir_print_type(ps->f, ir_result(v, k), &type);
    const Token *t = &l->types[k].tok;
    return FAULT(ps, t, "expected %s, the type that %s gives, found another", type.text, ir_ops[l->op].name);
  }
  return true;
}

// Appends the instruction and finds its type by its row's rule; a fault leaves the function as it was.
static Val emit(Parser *ps, const Line *l) {
  Fn *f = ps->f;
  uint32_t n_ins = f->n_ins, n_args = f->n_args, n_attrs = f->n_attrs;
  bool given = ir_ops[l->op].cls == CLASS_LEAF && l->n_types;
  Val v = ir_emit_typed(f, l->op, ps->args, ps->n_args, ps->attrs, ps->n_attrs, given ? l->types[0].dtype : DT_NONE,
                        given ? l->types[0].shape : (Shape){0}, (Loc){0});
  RtText why = {.mem = ps->diags->mem};
  uint16_t id = ir_infer_id(f, v, &why);
  if (id)
    ir_rd_fault_at(ps, id, l->op_tok.at, l->op_tok.line, rt_printf(why.mem, "%s: %s", ir_ops[l->op].name, why.text));
  if (!id && check_types(ps, l, v)) return v;
  f->n_ins = n_ins, f->n_args = n_args, f->n_attrs = n_attrs;
  f->n_inputs -= l->op == OP_input;
  f->n_outputs -= l->op == OP_output;
  return (Val){0};
}

// Scope marks written as plain instructions act on the scopes as braces do.
static bool apply_mark(Parser *ps, const Line *l, Loc loc) {
  if (ir_ops[l->op].cls != CLASS_MARK || l->op == OP_grad_of) return true;
  ps->has_marks = true;
  if (l->op == OP_scope_end && find_attr(ps, KEY_scope)) close_scope(ps, find_attr(ps, KEY_scope)->u.i);
  if (l->op != OP_scope_begin || ps->has_table) return true;
  const Attr *name = find_attr(ps, KEY_name), *k = find_attr(ps, KEY_scope);
  if (ps->f->n_scopes >= MAX_SCOPES) return ir_rd_fault(ps, &l->op_tok, "expected fewer scopes");
  if (!name || !k || k->u.i != ps->f->n_scopes)
    return FAULT(ps, &l->op_tok, "expected scope_begin {scope=%u, name=\"..\"}", ps->f->n_scopes);
  open_scope(ps, name->u.s, l->parent, loc);
  return true;
}

static void note_random_id(Parser *ps) {
  const Attr *id = find_attr(ps, KEY_id);
  if (id && id->u.i >= ps->p->next_id && id->u.i < UINT32_MAX) ps->p->next_id = (uint32_t)id->u.i + 1;
}

static bool read_line(Parser *ps, Line *l) {
  if (!read_names(ps, l) || !read_op(ps, l) || !read_operands(ps, l) || !ir_read_attrs(ps)) return false;
  l->parent = innermost(ps);
  if (l->op == OP_scope_begin && !read_parent(ps, &l->parent)) return false;
  return read_types(ps, l) && read_owners(ps, l) && read_checkpoint(ps, l) && ir_rd_want_line_end(ps) &&
         check_counts(ps, l);
}

static void set_results(Parser *ps, const Line *l, Val v, Loc loc) {
  uint32_t n = n_results(ps, l->op);
  for (uint32_t k = 0; k < (n ? n : 1); k++) {
    Ins *ins = ir_ins(ps->f, ir_result(v, k));
    ins->loc = loc;
    if (k < n && l->n_owners) ins->scope = l->owners[l->n_owners == 1 ? 0 : k];
    if (k < l->n_names) ir_rd_set_name(ps, &l->names[k], ir_result(v, k));
  }
}

static bool parse_instruction(Parser *ps) {
  Line l = {0};
  bool ok = read_line(ps, &l);
  Val v = {0};
  if (ok && !ps->poisoned) v = emit(ps, &l);
  if (!ir_none(v)) {
    Loc loc = ir_loc_within(ps->p, ir_rd_line_loc(ps, 0), l.checkpoint);
    set_results(ps, &l, v, loc);
    ok = apply_mark(ps, &l, loc);
    note_random_id(ps);
  }
  for (uint32_t k = 0; k < l.n_names; k++)
    if (!ir_rd_define(ps, &l.names[k], ir_none(v) ? v : ir_result(v, k)) && ok)
      ok = FAULT(ps, &l.names[k], "%s is defined twice", ir_rd_shown(ps, &l.names[k]));
  return ok;
}

// ---- functions

// `%x: f32[4]`, or `%1 "a name": f32[4] owner=none`
static bool parse_input(Parser *ps) {
  Token t = ps->tok;
  Str name = {0};
  Line l = {0};
  if (t.kind != TOK_VALUE) return ir_rd_expected(ps, "an input, %name: type,");
  ir_rd_next(ps);
  if (ps->tok.kind == TOK_STRING && !ir_read_string(ps, &name)) return false;
  if (!ir_rd_want(ps, ':')) return false;
  DType dtype;
  Shape shape;
  if (!ir_read_type(ps, &dtype, &shape) || !read_owners(ps, &l)) return false;
  if (!name.i && !ir_rd_is_number(&t)) name = ir_strn(ps->p, t.text, t.n);
  Val v = ir_input(ps->f, ir_text(ps->p, name), dtype, shape, (Loc){0});
  if (l.n_owners) ps->f->ins[v.i].scope = l.owners[0];
  return ir_rd_define(ps, &t, v) || FAULT(ps, &t, "%s is defined twice", ir_rd_shown(ps, &t));
}

// Ends of lines inside the signature give the inputs before them their location.
static void pass_line_ends(Parser *ps, uint32_t *located) {
  while (ps->tok.kind == TOK_LINE) {
    for (; *located < ps->f->n_ins; ++*located) ps->f->ins[*located].loc = ir_rd_line_loc(ps, 0);
    ir_rd_next(ps);
  }
}

static bool parse_signature(Parser *ps) {
  uint32_t located = 1;
  if (!ir_rd_want(ps, '(')) return false;
  pass_line_ends(ps, &located);
  while (!ir_rd_at_punct(ps, ')')) {
    if (!parse_input(ps)) return false;
    if (!ir_rd_at_punct(ps, ',') && !ir_rd_at_punct(ps, ')') && ps->tok.kind != TOK_LINE)
      return ir_rd_expected(ps, "',' or ')'");
    bool more = ir_rd_accept(ps, ',');
    pass_line_ends(ps, &located);
    if (!more && !ir_rd_at_punct(ps, ')')) return ir_rd_expected(ps, "')'");
  }
  ir_rd_next(ps);
  if (!ir_rd_want(ps, '{') || !ir_rd_want_line_end(ps)) return false;
  ps->f->loc = ps->f->scopes[0].open = ir_rd_line_loc(ps, 0);
  for (; located < ps->f->n_ins; located++) ps->f->ins[located].loc = ir_rd_line_loc(ps, 0);
  return true;
}

static bool parse_statement(Parser *ps) {
  if (ir_rd_at_word(ps, "scope")) return parse_scope(ps);
  if (ir_rd_at_punct(ps, '}')) return parse_scope_close(ps);
  return parse_instruction(ps);
}

static void begin_function(Parser *ps, Str name, bool is_body) {
  const char *text = ir_text(ps->p, name);
  ps->f = is_body ? ir_body_new(ps->p, text, (Loc){0}) : ir_fn_new(ps->p, text, (Loc){0});
  ir_rd_known(ps, name)->is_fn = true;
  ps->labels = NULL;
  ps->n_labels = ps->cap_labels = ps->n_open = ps->n_braces = 0;
  ps->lost_inputs = false;
  ps->has_table = ps->has_marks = false;
}

// The `}` that closes a function.
static bool end_function(Parser *ps) {
  ir_rd_next(ps);
  if (!ir_rd_want_line_end(ps)) return false;
  ps->f->scopes[0].close = ir_rd_line_loc(ps, 0);
  ps->f->cur_scope = 0;
  return true;
}

// If the `}` of a body is missing, the next function begins a line with its own keyword.
static bool at_next_function(const Parser *ps) { return ir_rd_at_word(ps, "func") || ir_rd_at_word(ps, "body"); }

static bool read_function_name(Parser *ps, Str *name) {
  Token t = ps->tok;
  *name = (Str){0};
  if (!ir_read_path(ps, name)) return false;
  return !ir_rd_known(ps, *name)->is_fn || FAULT(ps, &t, "a function %s is already there", ir_rd_shown(ps, &t));
}

// Goes on after a faulty signature: behind its `{`, or before a line that begins with `}`, `func` or `body`.
static void skip_signature(Parser *ps) {
  ps->lost_inputs = true;
  while (!ir_rd_skip_line(ps) && ps->tok.kind == TOK_LINE) {
    ir_rd_next(ps);
    if (ir_rd_at_punct(ps, '}') || at_next_function(ps)) return;
  }
}

static bool parse_function(Parser *ps, bool is_body) {
  Str name;
  bool ok = read_function_name(ps, &name);
  begin_function(ps, name, is_body);
  if (!ok || !parse_signature(ps)) skip_signature(ps);
  ok = true;
  while (ps->n_faults < MAX_ERRORS) {
    if (!ok) ir_rd_skip_line(ps);
    if (ps->tok.kind == TOK_LINE) ir_rd_next(ps);
    if (ps->tok.kind == TOK_LINE) continue;
    if (ps->tok.kind == TOK_END || at_next_function(ps)) {
      ir_rd_expected(ps, "'}' at the end of the function");
      return true;  // the line belongs to another function
    }
    if (ir_rd_at_punct(ps, '}') && ps->n_braces == 0) return end_function(ps);
    ok = parse_statement(ps);
  }
  return false;
}

// ---- the program

static bool parse_dims(Parser *ps) {
  do {
    Token t = ps->tok;
    int64_t bound;
    if (t.kind != TOK_WORD) return ir_rd_expected(ps, "the name of a dim");
    ir_rd_next(ps);
    if (!ir_rd_want(ps, '<') || !ir_read_int(ps, "the bound of a dim", 0, INT64_C(1) << 30, &bound)) return false;
    Str name = ir_strn(ps->p, t.text, t.n);
    Dim *dim = &ir_rd_known(ps, name)->dim;
    if (dim->i) return FAULT(ps, &t, "dim %s is defined twice", ir_rd_shown(ps, &t));
    *dim = ir_dim_sym(ps->p, ir_text(ps->p, name), bound);
  } while (ir_rd_accept(ps, ','));
  return ir_rd_want_line_end(ps);
}

static bool want_free_path(Parser *ps, const Token *t, Str path) {
  if (ir_rd_known(ps, path)->param == 0) return true;
  return FAULT(ps, t, "%s is already there", ir_rd_shown(ps, t));
}

// ` lr of group 7`, for state of one number
static bool read_hyper(Parser *ps, Param *out) {
  int64_t group;
  for (uint32_t k = 0; k < RT_N_HYPERS && !out->is_hyper; k++)
    if (ir_rd_accept_word(ps, rt_hyper_name(k))) out->is_hyper = true, out->hyper = (uint8_t)k;
  if (!out->is_hyper) return true;
  if (!ir_rd_accept_word(ps, "of") || !ir_rd_accept_word(ps, "group"))
    return ir_rd_expected(ps, "'of group' and its number");
  if (!ir_read_int(ps, "the number of a group", 0, UINT32_MAX, &group)) return false;
  out->group = (uint32_t)group;
  return true;
}

static bool parse_param(Parser *ps, ParamKind kind) {
  Token t = ps->tok;
  Str path;
  DType dtype;
  Shape shape;
  Param hyper = {0};
  if (!ir_read_path(ps, &path) || !ir_rd_want(ps, ':')) return false;
  Token type = ps->tok;
  if (!ir_read_type(ps, &dtype, &shape)) return false;
  bool trainable = ir_rd_accept_word(ps, "trainable");
  if (!trainable && kind == PARAM_STATE && !read_hyper(ps, &hyper)) return false;
  if (!ir_rd_want_line_end(ps)) return false;
  if (hyper.is_hyper && (dtype != DT_F32 || ir_rank(ps->p, shape))) return ir_rd_fault(ps, &type, "expected f32[]");
  uint32_t takes = trainable ? FLOATS : NUMBER;
  if (!(takes >> dtype & 1) || !ir_shape_is_const(ps->p, shape))
    return ir_rd_fault(ps, &type,
                       trainable ? "expected a float of constant sizes" : "expected numbers of constant sizes");
  if (!want_free_path(ps, &t, path)) return false;
  ir_rd_known(ps, path)->param = ps->p->n_params + 1;
  uint32_t k = ir_param_add(ps->p, ir_text(ps->p, path), kind, dtype, shape, trainable, ir_rd_line_loc(ps, 0));
  if (hyper.is_hyper) ir_set_hyper(ps->p, k, hyper.hyper, hyper.group);
  return true;
}

static bool parse_alias(Parser *ps) {
  Token t = ps->tok;
  Str path;
  int64_t k;
  if (!ir_read_path(ps, &path) || !ir_rd_want(ps, '=') || !ir_read_param_index(ps, &k) || !ir_rd_want_line_end(ps))
    return false;
  if (!want_free_path(ps, &t, path)) return false;
  ir_rd_known(ps, path)->param = (uint32_t)k + 1;
  Param *q = &ps->p->params[k];
  *RT_PUSH(ps->p->mem, q->aliases, q->n_aliases, q->cap_aliases) = path;
  return true;
}

// `checkpoint 2 @h.0.attn in 1`, with the word `checkpoint` read.
static bool parse_checkpoint(Parser *ps) {
  int64_t next = (int64_t)ps->p->n_checkpoints + 1, k;
  uint32_t around = 0;
  Str module;
  if (!ir_read_int(ps, "the number of the next checkpoint", next, next, &k) || !ir_read_path(ps, &module)) return false;
  if (ir_rd_accept_word(ps, "in") && !read_checkpoint_number(ps, &around)) return false;
  if (!ir_rd_want_line_end(ps)) return false;
  ir_checkpoint_add(ps->p, ir_text(ps->p, module), around, ir_rd_line_loc(ps, 0));
  return true;
}

static bool parse_directive(Parser *ps) {
  if (ir_rd_accept_word(ps, "dim")) return parse_dims(ps);
  if (ir_rd_accept_word(ps, "param")) return parse_param(ps, PARAM_WEIGHT);
  if (ir_rd_accept_word(ps, "buffer")) return parse_param(ps, PARAM_BUFFER);
  if (ir_rd_accept_word(ps, "state")) return parse_param(ps, PARAM_STATE);
  if (ir_rd_accept_word(ps, "transient")) return parse_param(ps, PARAM_TRANSIENT);
  if (ir_rd_accept_word(ps, "alias")) return parse_alias(ps);
  if (ir_rd_accept_word(ps, "checkpoint")) return parse_checkpoint(ps);
  if (ir_rd_accept_word(ps, "func")) return parse_function(ps, false);
  if (ir_rd_accept_word(ps, "body")) return parse_function(ps, true);
  return ir_rd_expected(ps, "dim, param, buffer, state, alias, checkpoint, func or body");
}

static void skip_empty_lines(Parser *ps) {
  while (ps->tok.kind == TOK_LINE) ir_rd_next(ps);
}

static bool parse_header(Parser *ps) {
  skip_empty_lines(ps);
  if (!ir_rd_accept_word(ps, "program")) {
    ir_rd_expected(ps, "'program @name' first");
    return true;  // the line may be sound otherwise
  }
  return ir_read_path(ps, &ps->p->name) && ir_rd_want_line_end(ps);
}

static void parse_program(Parser *ps) {
  ir_rd_next(ps);
  bool ok = parse_header(ps);
  while (ps->n_faults < MAX_ERRORS) {
    if (!ok) ir_rd_skip_line(ps);
    skip_empty_lines(ps);
    if (ps->tok.kind == TOK_END) return;
    ok = parse_directive(ps);
  }
}

Prog *ir_parse(RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags) {
  return ir_parse_of(NULL, mem, text, n, file, diags);
}

Prog *ir_parse_of(const Prog *of, RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags) {
  Parser *ps = rt_alloc(mem, sizeof *ps);
  *ps = (Parser){.begin = text,
                 .end = text + n,
                 .file = file ? file : "<text>",
                 .diags = diags,
                 .of = of,
                 .p = ir_prog_new(mem, "")};
  if (n >= UINT32_MAX) {
    rt_diag(diags, RT_ERROR, E_SYNTAX, ps->file, 0, "the text is longer than 4 GiB");
    return NULL;
  }
  ir_lex_open(&ps->lx, text, n);
  parse_program(ps);
  return ps->n_faults ? NULL : ps->p;
}
