// Text -> program, by recursive descent, one token ahead, in linear time. The language is in docs/ir.md.
//
// A fault is one E1 (or the diagnostic of the shape rule that it breaks) with line, column, the source line and a caret:
//
//   m.tir:3:14: error[E001]: expected an operation, found 'rleu'
//     %y = rleu %x : f32[4]
//          ^
//
// After a fault the parser goes on with the next line; a value whose line is wrong is known but poisoned, so that its uses
// add no further report. Any bytes are safe to read.
#include "ir/lex.h"
#include "ir/ir.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_ERRORS = 20,
  MAX_DIM_TERMS = 256,  // names, constants and operators' operands of one dim
  MAX_DIM_NESTING = 32,
  MAX_LIST = 1 << 20,
  MAX_SCOPES = 1 << 20,
  MAX_ARGS = 4096,
  EXCERPT = 100  // bytes of a source line that a report shows
};
static const int64_t MAX_SIZE = INT64_C(1) << 56;  // where ir_dim_mul saturates

// What a %name stands for; value 0: poisoned by a fault of its line.
typedef struct {
  const char *text;  // NULL: free
  uint32_t n;
  Val value;
} Label;

typedef struct {
  Lexer lx;
  Token tok;
  const char *begin, *end, *file;
  Prog *p;
  RtDiags *diags;
  uint32_t n_faults;
  const char *last_fault;
  // the function being read
  Fn *f;
  Label *labels;
  uint32_t n_labels, cap_labels;
  uint32_t *open;  // stack of open scopes
  uint32_t n_open, cap_open;
  uint32_t *braces;  // stack of the scopes opened by `scope x {`
  uint32_t n_braces, cap_braces;
  bool has_table;    // `scope 1 x in 0` lines came first: marks make no scopes
  bool has_marks;
  bool lost_inputs;  // the signature has a fault: unknown values are not reported
  // one instruction, reused
  Val *args;
  uint32_t n_args, cap_args;
  Attr *attrs;
  uint32_t n_attrs, cap_attrs;
  bool poisoned;  // an operand is
} Parser;

// ---- faults

// The source line of `at` and a caret under it; long lines are cut to a window around the fault.
static void put_excerpt(const Parser *ps, RtText *out, const char *at, uint32_t *column) {
  const char *first = at, *last = at;
  while (first > ps->begin && first[-1] != '\n') first--;
  while (last < ps->end && *last != '\n' && last - at < EXCERPT) last++;
  *column = (uint32_t)(at - first) + 1;
  if (at - first > EXCERPT) first = at - EXCERPT / 2;
  rt_text_put(out, "\n  ", 3);
  for (const char *s = first; s < last; s++) {
    char c = *s == '\t' ? ' ' : *s >= 0x20 && *s < 0x7f ? *s : '?';
    if (s + 1 == last && *s == '\r') break;
    rt_text_put(out, &c, 1);
  }
  rt_text_add(out, "\n  %*s^", (int)(at - first), "");
}

// Reports at a place of the text; always false, for the caller to leave the line.
static bool fault_at(Parser *ps, uint16_t id, const char *at, uint32_t line, const char *what) {
  if (at == ps->last_fault) return false;  // one mistake, one report
  ps->last_fault = at;
  if (ps->n_faults++ >= MAX_ERRORS) return false;
  RtText text = {.mem = ps->diags->mem};
  uint32_t column;
  rt_text_add(&text, "%s", what);
  put_excerpt(ps, &text, at, &column);
  rt_diag(ps->diags, RT_ERROR, id, ps->file, line, "%s", text.text);
  ps->diags->list[ps->diags->n - 1].column = column;
  return false;
}

static bool fault(Parser *ps, const Token *t, const char *what) { return fault_at(ps, E_SYNTAX, t->at, t->line, what); }

// 'text' of a token as it stands in the source, cut and made printable.
static const char *shown(const Parser *ps, const Token *t) {
  if (t->kind == TOK_END) return "the end of the text";
  if (t->kind == TOK_LINE) return "the end of the line";
  char text[48];
  uint32_t n = t->n_at < 40 ? t->n_at : 40;
  for (uint32_t k = 0; k < n; k++) text[k] = t->at[k] >= 0x20 && t->at[k] < 0x7f ? t->at[k] : '?';
  return rt_printf(ps->diags->mem, "'%.*s%s'", (int)n, text, n < t->n_at ? ".." : "");
}

static bool expected(Parser *ps, const char *what) {
  const Token *t = &ps->tok;
  if (ps->n_faults >= MAX_ERRORS) return false;
  const char *why = t->kind == TOK_BAD ? rt_printf(ps->diags->mem, " (%s)", t->why) : "";
  return fault(ps, t, rt_printf(ps->diags->mem, "expected %s, found %s%s", what, shown(ps, t), why));
}

// A fault about one token: `format` has one %s for it.
#define FAULT(ps, t, ...) fault((ps), (t), rt_printf((ps)->diags->mem, __VA_ARGS__))

// ---- tokens

static void next(Parser *ps) { ps->tok = ir_lex_next(&ps->lx); }
static bool at_punct(const Parser *ps, char c) { return ps->tok.kind == TOK_PUNCT && ps->tok.punct == c; }
static bool at_line_end(const Parser *ps) { return ps->tok.kind == TOK_LINE || ps->tok.kind == TOK_END; }

static bool token_is(const Token *t, const char *word) {
  return t->kind == TOK_WORD && t->n == strlen(word) && !memcmp(t->text, word, t->n);
}
static bool at_word(const Parser *ps, const char *word) { return token_is(&ps->tok, word); }

static bool accept(Parser *ps, char c) {
  if (!at_punct(ps, c)) return false;
  next(ps);
  return true;
}

static bool accept_word(Parser *ps, const char *word) {
  if (!at_word(ps, word)) return false;
  next(ps);
  return true;
}

static bool want(Parser *ps, char c) {
  if (accept(ps, c)) return true;
  char text[] = {'\'', c, c == '<' ? '=' : '\'', c == '<' ? '\'' : 0, 0};
  return expected(ps, text);
}

// True when the line ends with `{`.
static bool skip_line(Parser *ps) {
  bool brace = false;
  while (!at_line_end(ps)) {
    brace = at_punct(ps, '{');
    next(ps);
  }
  return brace;
}

// The location of a line that ends here: its comment's k-th, else its place in this text. The current token ends the line.
static Loc line_loc(Parser *ps, uint32_t k) {
  const LocNote *note = &ps->lx.note;
  if (k >= note->n) return note->n ? (Loc){0} : ir_loc(ps->p, ps->file, ps->tok.line);
  if (note->line_no[k] == 0) return (Loc){0};
  RtText name = {.mem = ps->p->mem};
  bool whole = !note->quoted[k] || ir_lex_unquote(note->file[k], note->n_file[k], &name);
  if (!note->quoted[k]) rt_text_put(&name, note->file[k], note->n_file[k]);
  return whole ? ir_loc(ps->p, name.text, note->line_no[k]) : (Loc){0};
}

// Every statement ends its line; true when it does.
static bool want_line_end(Parser *ps) { return at_line_end(ps) || expected(ps, "the end of the line"); }

static bool read_int(Parser *ps, const char *what, int64_t least, int64_t most, int64_t *out) {
  Token t = ps->tok;
  if (t.kind != TOK_INT) return expected(ps, what);
  bool minus = t.text[0] == '-', fits = true;
  int64_t v = 0;
  for (uint32_t k = minus; k < t.n; k++) {
    int digit = t.text[k] - '0';
    fits = fits && !__builtin_mul_overflow(v, 10, &v) && !__builtin_sub_overflow(v, digit, &v);  // negative: has one more
  }
  fits = fits && (minus || v != INT64_MIN);
  if (fits && !minus) v = -v;
  if (!fits || v < least || v > most)
    return FAULT(ps, &t, "%s must lie in [%lld, %lld]", what, (long long)least, (long long)most);
  next(ps);
  *out = v;
  return true;
}

// A number in the C locale, whatever the program's locale is.
static bool read_num(Parser *ps, double *out) {
  Token t = ps->tok;
  bool word = token_is(&t, "inf") || token_is(&t, "nan");
  if (t.kind != TOK_INT && t.kind != TOK_NUM && !word) return expected(ps, "a number");
  const char *point = localeconv()->decimal_point;
  RtText text = {.mem = ps->p->mem};
  for (uint32_t k = 0; k < t.n; k++) rt_text_put(&text, t.text[k] == '.' ? point : t.text + k, t.text[k] == '.' ? strlen(point) : 1);
  *out = strtod(text.text, NULL);
  next(ps);
  return true;
}

// "text", @path or @"path" with escapes resolved.
static bool read_text(Parser *ps, TokKind plain, TokKind quoted, const char *what, Str *out) {
  Token t = ps->tok;
  if (t.kind != plain && t.kind != quoted) return expected(ps, what);
  if (t.kind == plain && plain != quoted) {
    *out = ir_strn(ps->p, t.text, t.n);
  } else {
    RtText text = {.mem = ps->p->mem};
    if (!ir_lex_unquote(t.text, t.n, &text)) return fault(ps, &t, "expected a text with escapes of \\n \\t \\\" \\\\ \\x01 only");
    *out = ir_strn(ps->p, text.text, text.len);
  }
  next(ps);
  return true;
}
static bool read_path(Parser *ps, Str *out) { return read_text(ps, TOK_PATH, TOK_QPATH, "a @name", out); }
static bool read_string(Parser *ps, Str *out) { return read_text(ps, TOK_STRING, TOK_STRING, "a text in quotes", out); }

// ---- dims and types

typedef struct {
  uint32_t terms, nesting;
} DimCount;

static bool read_sum(Parser *ps, DimCount *n, Dim *out);

static bool read_factor(Parser *ps, DimCount *n, Dim *out) {
  Token t = ps->tok;
  if (++n->terms > MAX_DIM_TERMS) return FAULT(ps, &t, "expected a dim of at most %d terms", MAX_DIM_TERMS);
  if (t.kind == TOK_INT) {
    int64_t v;
    if (!read_int(ps, "a size", 0, MAX_SIZE, &v)) return false;
    *out = ir_dim(ps->p, v);
    return true;
  }
  if (accept(ps, '(')) {
    if (++n->nesting > MAX_DIM_NESTING) return fault(ps, &t, "expected a dim with fewer parentheses");
    bool ok = read_sum(ps, n, out) && want(ps, ')');
    n->nesting--;
    return ok;
  }
  if (t.kind != TOK_WORD) return expected(ps, "a size or a dim");
  *out = ir_dim_find(ps->p, rt_strndup(ps->p->mem, t.text, t.n));
  if (!out->i) return FAULT(ps, &t, "expected a size or a dim, found %s, which no dim line names", shown(ps, &t));
  next(ps);
  return true;
}

static bool read_product(Parser *ps, DimCount *n, Dim *out) {
  if (!read_factor(ps, n, out)) return false;
  while (accept(ps, '*')) {
    Dim b;
    if (!read_factor(ps, n, &b)) return false;
    *out = ir_dim_mul(ps->p, *out, b);
  }
  return true;
}

static bool read_sum(Parser *ps, DimCount *n, Dim *out) {
  if (!read_product(ps, n, out)) return false;
  while (accept(ps, '+')) {
    Dim b;
    if (!read_product(ps, n, &b)) return false;
    *out = ir_dim_add(ps->p, *out, b);
  }
  return true;
}

static bool read_dim(Parser *ps, Dim *out) { return read_sum(ps, &(DimCount){0}, out); }

// Elements of an attribute list other than a shape: axes, orders, lengths.
static bool read_element(Parser *ps, Dim *out) {
  int64_t v;
  if (!read_int(ps, "a whole number", INT32_MIN, INT32_MAX, &v)) return false;
  *out = ir_dim(ps->p, v);
  return true;
}

// `[a,b,..]`
static bool read_list(Parser *ps, uint32_t most, bool (*read)(Parser *ps, Dim *out), Shape *out) {
  Dim *dims = NULL;
  uint32_t n = 0, cap = 0;
  if (!want(ps, '[')) return false;
  while (!at_punct(ps, ']')) {
    Dim d;
    if (n == most) return FAULT(ps, &ps->tok, "expected at most %u entries", most);
    if (n && !want(ps, ',')) return false;
    if (!read(ps, &d)) return false;
    *RT_PUSH(ps->p->mem, dims, n, cap) = d;
  }
  next(ps);
  *out = ir_shape(ps->p, dims, n);
  return true;
}

static bool read_dtype(Parser *ps, DType *out) {
  for (uint32_t t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!accept_word(ps, ir_dtype_name[t])) continue;
    *out = (DType)t;
    return true;
  }
  return expected(ps, "a type: f32, i64 or layout");
}

static bool read_type(Parser *ps, DType *t, Shape *s) {
  Token first = ps->tok;
  if (!read_dtype(ps, t) || !read_list(ps, MAX_RANK, read_dim, s)) return false;
  if (*t == DT_LAYOUT && ir_rank(ps->p, *s) != 3) return fault(ps, &first, "expected layout[batch,time,rows]");
  return true;
}

// ---- value names

static uint64_t hash_label(const char *s, uint32_t n) { return rt_hash(s, n, 7); }

static Label *label_slot(Label *labels, uint32_t cap, const char *s, uint32_t n) {
  uint32_t at = (uint32_t)hash_label(s, n) & (cap - 1);
  while (labels[at].text && (labels[at].n != n || memcmp(labels[at].text, s, n))) at = (at + 1) & (cap - 1);
  return &labels[at];
}

static void grow_labels(Parser *ps) {
  uint32_t cap = ps->cap_labels ? ps->cap_labels * 2 : 64;
  Label *labels = rt_alloc(ps->p->mem, cap * sizeof *labels);
  for (uint32_t k = 0; k < ps->cap_labels; k++)
    if (ps->labels[k].text) *label_slot(labels, cap, ps->labels[k].text, ps->labels[k].n) = ps->labels[k];
  ps->labels = labels;
  ps->cap_labels = cap;
}

// Binds a %name; false when it is bound already.
static bool define(Parser *ps, const Token *t, Val v) {
  if (2 * (ps->n_labels + 1) > ps->cap_labels) grow_labels(ps);
  Label *l = label_slot(ps->labels, ps->cap_labels, t->text, t->n);
  if (l->text) return false;
  *l = (Label){t->text, t->n, v};
  ps->n_labels++;
  return true;
}

static bool read_operand(Parser *ps) {
  Token t = ps->tok;
  if (t.kind != TOK_VALUE) return expected(ps, "a %value");
  const Label *l = ps->cap_labels ? label_slot(ps->labels, ps->cap_labels, t.text, t.n) : NULL;
  bool known = l && l->text;
  if (!known && !ps->lost_inputs) return FAULT(ps, &t, "%s is not defined", shown(ps, &t));
  if (ps->n_args == MAX_ARGS) return FAULT(ps, &t, "expected at most %d operands", MAX_ARGS);
  Val v = known ? l->value : (Val){0};
  ps->poisoned = ps->poisoned || ir_none(v);
  *RT_PUSH(ps->p->mem, ps->args, ps->n_args, ps->cap_args) = v;
  next(ps);
  return true;
}

static bool is_number(const Token *t) { return t->text[0] >= '0' && t->text[0] <= '9'; }

static void set_name(Parser *ps, const Token *t, Val v) {
  if (!is_number(t)) ps->f->ins[v.i].name = ir_strn(ps->p, t->text, t->n);
}

// ---- attributes

static bool read_param_index(Parser *ps, int64_t *out) {
  Token t = ps->tok;
  Str path;
  if (!read_path(ps, &path)) return false;
  uint32_t k = ir_param_find(ps->p, ir_text(ps->p, path));
  if (k == UINT32_MAX) return FAULT(ps, &t, "%s names no param, buffer or state", shown(ps, &t));
  *out = k;
  return true;
}

static bool read_flag(Parser *ps, int64_t *out) {
  *out = 1;
  return !accept(ps, '=') || read_int(ps, "a flag", 1, 1, out);
}

static bool read_attr_value(Parser *ps, Attr *a) {
  AttrKind kind = (AttrKind)ir_key_kind[a->key];
  if (kind == KIND_FLAG) return read_flag(ps, &a->u.i);
  if (!want(ps, '=')) return false;
  switch (kind) {
  case KIND_NUM: return read_num(ps, &a->u.f);
  case KIND_STR: return read_string(ps, &a->u.s);
  case KIND_LIST:
    if (a->key == KEY_shape) return read_list(ps, MAX_RANK, read_dim, &a->u.list);
    return read_list(ps, MAX_LIST, read_element, &a->u.list);
  case KIND_DIM: return read_dim(ps, &a->u.dim);
  case KIND_PARAM: return read_param_index(ps, &a->u.i);
  default: break;
  }
  if (a->key == KEY_dtype) {
    DType t = DT_NONE;
    if (!read_dtype(ps, &t)) return false;
    a->u.i = t;
    return true;
  }
  return read_int(ps, "a whole number", INT64_MIN, INT64_MAX, &a->u.i);
}

static bool read_attr(Parser *ps) {
  Token t = ps->tok;
  Attr a = {.key = N_KEYS};
  for (uint32_t k = 0; k < N_KEYS; k++)
    if (token_is(&t, ir_key_name[k])) a.key = (uint8_t)k;
  if (a.key == N_KEYS) return expected(ps, "the name of an attribute");
  for (uint32_t k = 0; k < ps->n_attrs; k++)
    if (ps->attrs[k].key == a.key) return FAULT(ps, &t, "attribute %s stands twice", shown(ps, &t));
  next(ps);
  if (!read_attr_value(ps, &a)) return false;
  *RT_PUSH(ps->p->mem, ps->attrs, ps->n_attrs, ps->cap_attrs) = a;
  return true;
}

static bool read_attrs(Parser *ps) {
  if (!accept(ps, '{')) return true;
  do {
    if (!read_attr(ps)) return false;
  } while (accept(ps, ','));
  return want(ps, '}');
}

// ---- scopes

static uint32_t innermost(const Parser *ps) { return ps->n_open ? ps->open[ps->n_open - 1] : 0; }

static bool read_scope_ref(Parser *ps, uint32_t *out) {
  int64_t k;
  *out = NO_SCOPE;
  if (accept_word(ps, "none")) return true;
  if (!read_int(ps, "the number of a scope", 0, ps->f->n_scopes - 1, &k)) return false;
  *out = (uint32_t)k;
  return true;
}

// ` in 2`; without it the innermost open scope.
static bool read_parent(Parser *ps, uint32_t *out) {
  *out = innermost(ps);
  return !accept_word(ps, "in") || read_scope_ref(ps, out);
}

static bool read_scope_name(Parser *ps, Str *out) {
  return read_text(ps, TOK_WORD, TOK_STRING, "the name of a scope", out);
}

static uint32_t open_scope(Parser *ps, Str name, uint32_t parent, Loc loc) {
  uint32_t k = ir_scope_open(ps->f, parent, ir_text(ps->p, name), loc);
  *RT_PUSH(ps->p->mem, ps->open, ps->n_open, ps->cap_open) = k;
  ps->f->cur_scope = k;
  return k;
}

// What a scope_end {scope=k} does to the scopes. Whether and where a scope closed is for pass `scopes` to say.
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
    return fault(ps, &first, "expected the table of scopes before the first instruction");
  if (!read_int(ps, "the scope's number, counted from 1,", ps->f->n_scopes, ps->f->n_scopes, &k)) return false;
  if (!read_scope_name(ps, &name)) return false;
  if (!accept_word(ps, "in")) return expected(ps, "'in' and the number of the scope around it");
  if (!read_scope_ref(ps, &parent)) return false;
  bool open = accept_word(ps, "open");
  if (!want_line_end(ps)) return false;
  ps->has_table = true;
  ir_scope_open(ps->f, parent, ir_text(ps->p, name), line_loc(ps, 0));
  ps->f->scopes[k].closed = !open;
  ps->f->scopes[k].close = line_loc(ps, 1);
  return true;
}

static void emit_mark(Parser *ps, Op op, const Attr *attrs, uint32_t n, Loc loc) {
  ir_emit_typed(ps->f, op, NULL, 0, attrs, n, DT_NONE, (Shape){0}, loc);
  ps->has_marks = true;
}

static void push_brace(Parser *ps, uint32_t scope) {
  *RT_PUSH(ps->p->mem, ps->braces, ps->n_braces, ps->cap_braces) = scope;
}

static bool parse_scope_open(Parser *ps, const Token *first) {
  Str name;
  uint32_t parent;
  if (!read_scope_name(ps, &name) || !read_parent(ps, &parent) || !want(ps, '{') || !want_line_end(ps)) return false;
  if (ps->has_table) return fault(ps, first, "scopes do not open where a table of scopes is given");
  if (ps->f->n_scopes >= MAX_SCOPES) return fault(ps, first, "expected fewer scopes");
  Loc loc = line_loc(ps, 0);
  emit_mark(ps, OP_scope_begin, (Attr[]){ir_a_int(KEY_scope, ps->f->n_scopes), ir_a_str(KEY_name, name)}, 2, loc);
  push_brace(ps, open_scope(ps, name, parent, loc));
  return true;
}

// `scope forward {`, or with its parent where that isn't the innermost open scope: `scope forward in 0 {`
static bool parse_scope(Parser *ps) {
  Token first = ps->tok;
  next(ps);
  if (ps->tok.kind == TOK_INT) return parse_scope_entry(ps);
  if (parse_scope_open(ps, &first)) return true;
  if (skip_line(ps)) push_brace(ps, 0);  // its `}` shall not close the function
  return false;
}

// A `}` that closes a scope.
static bool parse_scope_close(Parser *ps) {
  next(ps);
  uint32_t k = ps->braces[--ps->n_braces];
  if (!want_line_end(ps)) return false;
  emit_mark(ps, OP_scope_end, (Attr[]){ir_a_int(KEY_scope, k)}, 1, line_loc(ps, 0));
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
  Token type_tok[16];
  DType dtype[16];
  Shape shape[16];
  uint32_t n_types;
  uint32_t owner[16];
  uint32_t n_owners;
  uint32_t parent;  // of a scope_begin
} Line;
enum { MAX_RESULTS = 16 };

static bool read_names(Parser *ps, Line *l) {
  if (ps->tok.kind != TOK_VALUE) return true;
  do {
    if (ps->tok.kind != TOK_VALUE) return expected(ps, "a %value");
    if (l->n_names == MAX_RESULTS) return fault(ps, &ps->tok, "expected fewer results");
    *RT_PUSH(ps->p->mem, l->names, l->n_names, l->cap_names) = ps->tok;
    next(ps);
  } while (accept(ps, ','));
  return want(ps, '=');
}

static bool read_op(Parser *ps, Line *l) {
  l->op_tok = ps->tok;
  if (ps->tok.kind == TOK_WORD && ps->tok.n < 64) l->op = ir_op_find(rt_strndup(ps->p->mem, ps->tok.text, ps->tok.n));
  if (l->op == OP_none || l->op == OP_result) return expected(ps, "an operation");
  next(ps);
  return true;
}

static bool read_operands(Parser *ps, const Line *l) {
  ps->n_args = ps->n_attrs = 0;
  ps->poisoned = false;
  if (l->op == OP_param && (ps->tok.kind == TOK_PATH || ps->tok.kind == TOK_QPATH)) {
    int64_t k;
    if (!read_param_index(ps, &k)) return false;
    *RT_PUSH(ps->p->mem, ps->attrs, ps->n_attrs, ps->cap_attrs) = ir_a_int(KEY_param, k);
  } else if (ps->tok.kind == TOK_VALUE) {
    do {
      if (!read_operand(ps)) return false;
    } while (accept(ps, ','));
  }
  return true;
}

static bool read_types(Parser *ps, Line *l) {
  if (!accept(ps, ':')) return true;
  do {
    if (l->n_types == MAX_RESULTS) return fault(ps, &ps->tok, "expected fewer types");
    l->type_tok[l->n_types] = ps->tok;
    if (!read_type(ps, &l->dtype[l->n_types], &l->shape[l->n_types])) return false;
    l->n_types++;
  } while (accept(ps, ','));
  return true;
}

static bool read_owners(Parser *ps, Line *l) {
  if (!accept_word(ps, "owner")) return true;
  if (!want(ps, '=')) return false;
  do {
    if (l->n_owners == MAX_RESULTS) return fault(ps, &ps->tok, "expected fewer owners");
    if (!read_scope_ref(ps, &l->owner[l->n_owners])) return false;
    l->n_owners++;
  } while (accept(ps, ','));
  return true;
}

static bool check_counts(Parser *ps, const Line *l) {
  const OpInfo *row = &ir_ops[l->op];
  const Token *t = &l->op_tok;
  if (ps->n_args < row->n_min || ps->n_args > row->n_max) {
    const char *few = row->n_min == 1 ? "" : "s";
    if (row->n_min == row->n_max) return FAULT(ps, t, "%s takes %u operand%s, found %u", row->name, row->n_min, few, ps->n_args);
    return FAULT(ps, t, "%s takes %u to %u operands, found %u", row->name, row->n_min, row->n_max, ps->n_args);
  }
  const char *s = row->n_res == 1 ? "" : "s";
  if (l->n_names && l->n_names != row->n_res)
    return FAULT(ps, t, "%s has %u result%s, found %u left of '='", row->name, row->n_res, s, l->n_names);
  if (l->n_types && l->n_types != row->n_res)
    return FAULT(ps, t, "%s has %u result%s, types found: %u", row->name, row->n_res, s, l->n_types);
  if (l->n_owners > 1 && l->n_owners != row->n_res)
    return FAULT(ps, t, "%s has %u result%s, owners found: %u", row->name, row->n_res, s, l->n_owners);
  return true;
}

// Names and constants in a dim, counted up to a bit more than the limit.
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
  for (uint32_t k = 0; k < ir_ops[l->op].n_res; k++) {
    const Ins *ins = ir_ins(ps->f, ir_result(v, k));
    if (!is_small(ps->p, ins->shape)) return FAULT(ps, &l->op_tok, "expected dims of at most %d terms", MAX_DIM_TERMS);
    if (k >= l->n_types || (ins->dtype == l->dtype[k] && ins->shape.i == l->shape[k].i)) continue;
    RtText type = {.mem = ps->diags->mem};
    ir_print_type(ps->f, ir_result(v, k), &type);
    const Token *t = &l->type_tok[k];
    return FAULT(ps, t, "expected %s, the type that %s gives, found another", type.text, ir_ops[l->op].name);
  }
  return true;
}

// Appends the instruction and finds its type by its row's rule; a fault leaves the function as it was.
static Val emit(Parser *ps, const Line *l) {
  Fn *f = ps->f;
  uint32_t n_ins = f->n_ins, n_args = f->n_args, n_attrs = f->n_attrs;
  bool given = ir_ops[l->op].cls == CLASS_LEAF && l->n_types;
  Val v = ir_emit_typed(f, l->op, ps->args, ps->n_args, ps->attrs, ps->n_attrs, given ? l->dtype[0] : DT_NONE,
                        given ? l->shape[0] : (Shape){0}, (Loc){0});
  RtText why = {.mem = ps->diags->mem};
  uint16_t id = ir_infer_id(f, v, &why);
  if (id) fault_at(ps, id, l->op_tok.at, l->op_tok.line, rt_printf(why.mem, "%s: %s", ir_ops[l->op].name, why.text));
  if (!id && check_types(ps, l, v)) return v;
  f->n_ins = n_ins, f->n_args = n_args, f->n_attrs = n_attrs;
  f->n_inputs -= l->op == OP_input;
  f->n_outputs -= l->op == OP_output;
  return (Val){0};
}

static const Attr *find_attr(const Parser *ps, Key k) {
  for (uint32_t j = 0; j < ps->n_attrs; j++)
    if (ps->attrs[j].key == k) return &ps->attrs[j];
  return NULL;
}

// Scope marks written as plain instructions act on the scopes as braces do.
static bool apply_mark(Parser *ps, const Line *l, Loc loc) {
  if (ir_ops[l->op].cls != CLASS_MARK || l->op == OP_grad_of) return true;
  ps->has_marks = true;
  if (l->op == OP_scope_end && find_attr(ps, KEY_scope)) close_scope(ps, find_attr(ps, KEY_scope)->u.i);
  if (l->op != OP_scope_begin || ps->has_table) return true;
  const Attr *name = find_attr(ps, KEY_name), *k = find_attr(ps, KEY_scope);
  if (ps->f->n_scopes >= MAX_SCOPES) return fault(ps, &l->op_tok, "expected fewer scopes");
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
  if (!read_names(ps, l) || !read_op(ps, l) || !read_operands(ps, l) || !read_attrs(ps)) return false;
  l->parent = innermost(ps);
  if (l->op == OP_scope_begin && !read_parent(ps, &l->parent)) return false;
  return read_types(ps, l) && read_owners(ps, l) && want_line_end(ps) && check_counts(ps, l);
}

static void set_results(Parser *ps, const Line *l, Val v, Loc loc) {
  uint32_t n = ir_ops[l->op].n_res;
  for (uint32_t k = 0; k < (n ? n : 1); k++) {
    Ins *ins = ir_ins(ps->f, ir_result(v, k));
    ins->loc = loc;
    if (k < n && l->n_owners) ins->scope = l->owner[l->n_owners == 1 ? 0 : k];
    if (k < l->n_names) set_name(ps, &l->names[k], ir_result(v, k));
  }
}

static bool parse_instruction(Parser *ps) {
  Line l = {0};
  bool ok = read_line(ps, &l);
  Val v = {0};
  if (ok && !ps->poisoned) v = emit(ps, &l);
  if (!ir_none(v)) {
    Loc loc = line_loc(ps, 0);
    set_results(ps, &l, v, loc);
    ok = apply_mark(ps, &l, loc);
    note_random_id(ps);
  }
  for (uint32_t k = 0; k < l.n_names; k++)
    if (!define(ps, &l.names[k], ir_none(v) ? v : ir_result(v, k)) && ok)
      ok = FAULT(ps, &l.names[k], "%s is defined twice", shown(ps, &l.names[k]));
  return ok;
}

// ---- functions

// `%x: f32[4]`, or `%1 "a name": f32[4] owner=none`
static bool parse_input(Parser *ps) {
  Token t = ps->tok;
  Str name = {0};
  Line l = {0};
  if (t.kind != TOK_VALUE) return expected(ps, "an input, %name: type,");
  next(ps);
  if (ps->tok.kind == TOK_STRING && !read_string(ps, &name)) return false;
  if (!want(ps, ':')) return false;
  DType dtype;
  Shape shape;
  if (!read_type(ps, &dtype, &shape) || !read_owners(ps, &l)) return false;
  if (!name.i && !is_number(&t)) name = ir_strn(ps->p, t.text, t.n);
  Val v = ir_input(ps->f, ir_text(ps->p, name), dtype, shape, (Loc){0});
  if (l.n_owners) ps->f->ins[v.i].scope = l.owner[0];
  return define(ps, &t, v) || FAULT(ps, &t, "%s is defined twice", shown(ps, &t));
}

// Ends of lines inside the signature give the inputs before them their location.
static void pass_line_ends(Parser *ps, uint32_t *located) {
  while (ps->tok.kind == TOK_LINE) {
    for (; *located < ps->f->n_ins; ++*located) ps->f->ins[*located].loc = line_loc(ps, 0);
    next(ps);
  }
}

static bool parse_signature(Parser *ps) {
  uint32_t located = 1;
  if (!want(ps, '(')) return false;
  pass_line_ends(ps, &located);
  while (!at_punct(ps, ')')) {
    if (!parse_input(ps)) return false;
    if (!at_punct(ps, ',') && !at_punct(ps, ')') && ps->tok.kind != TOK_LINE) return expected(ps, "',' or ')'");
    bool more = accept(ps, ',');
    pass_line_ends(ps, &located);
    if (!more && !at_punct(ps, ')')) return expected(ps, "')'");
  }
  next(ps);
  if (!want(ps, '{') || !want_line_end(ps)) return false;
  ps->f->loc = ps->f->scopes[0].open = line_loc(ps, 0);
  for (; located < ps->f->n_ins; located++) ps->f->ins[located].loc = line_loc(ps, 0);
  return true;
}

static bool parse_statement(Parser *ps) {
  if (at_word(ps, "scope")) return parse_scope(ps);
  if (at_punct(ps, '}')) return parse_scope_close(ps);
  return parse_instruction(ps);
}

static void begin_function(Parser *ps, Str name) {
  ps->f = ir_fn_new(ps->p, ir_text(ps->p, name), (Loc){0});
  ps->labels = NULL;
  ps->n_labels = ps->cap_labels = ps->n_open = ps->n_braces = 0;
  ps->lost_inputs = false;
  ps->has_table = ps->has_marks = false;
}

// The `}` that closes a function.
static bool end_function(Parser *ps) {
  next(ps);
  if (!want_line_end(ps)) return false;
  ps->f->scopes[0].close = line_loc(ps, 0);
  ps->f->cur_scope = 0;
  if (!ps->has_marks) ps->f->facts = HAS_SCOPES;  // what pass `scopes` leaves: owners fixed, no marks
  return true;
}

// A function that follows where a body's `}` is missing begins a line with its own word.
static bool at_next_function(const Parser *ps) { return at_word(ps, "func"); }

static bool read_function_name(Parser *ps, Str *name) {
  Token t = ps->tok;
  *name = (Str){0};
  if (!read_path(ps, name)) return false;
  return !ir_fn_find(ps->p, ir_text(ps->p, *name)) || FAULT(ps, &t, "a function %s is already there", shown(ps, &t));
}

// Goes on after a faulty signature: behind its `{`, or before a line that begins with `}` or `func`.
static void skip_signature(Parser *ps) {
  ps->lost_inputs = true;
  while (!skip_line(ps) && ps->tok.kind == TOK_LINE) {
    next(ps);
    if (at_punct(ps, '}') || at_next_function(ps)) return;
  }
}

static bool parse_function(Parser *ps) {
  Str name;
  bool ok = read_function_name(ps, &name);
  begin_function(ps, name);
  if (!ok || !parse_signature(ps)) skip_signature(ps);
  ok = true;
  while (ps->n_faults < MAX_ERRORS) {
    if (!ok) skip_line(ps);
    if (ps->tok.kind == TOK_LINE) next(ps);
    if (ps->tok.kind == TOK_LINE) continue;
    if (ps->tok.kind == TOK_END || at_next_function(ps)) return expected(ps, "'}' at the end of the function");
    if (at_punct(ps, '}') && ps->n_braces == 0) return end_function(ps);
    ok = parse_statement(ps);
  }
  return false;
}

// ---- the program

static bool parse_dims(Parser *ps) {
  do {
    Token t = ps->tok;
    int64_t bound;
    if (t.kind != TOK_WORD) return expected(ps, "the name of a dim");
    next(ps);
    if (!want(ps, '<') || !read_int(ps, "the bound of a dim", 0, INT64_C(1) << 30, &bound)) return false;
    const char *name = rt_strndup(ps->p->mem, t.text, t.n);
    if (ir_dim_find(ps->p, name).i) return FAULT(ps, &t, "dim %s is defined twice", shown(ps, &t));
    ir_dim_sym(ps->p, name, bound);
  } while (accept(ps, ','));
  return want_line_end(ps);
}

static bool want_free_path(Parser *ps, const Token *t, Str path) {
  if (ir_param_find(ps->p, ir_text(ps->p, path)) == UINT32_MAX) return true;
  return FAULT(ps, t, "%s is already there", shown(ps, t));
}

static bool parse_param(Parser *ps, ParamKind kind) {
  Token t = ps->tok;
  Str path;
  DType dtype;
  Shape shape;
  if (!read_path(ps, &path) || !want(ps, ':')) return false;
  Token type = ps->tok;
  if (!read_type(ps, &dtype, &shape)) return false;
  bool trainable = accept_word(ps, "trainable");
  if (!want_line_end(ps)) return false;
  if (dtype == DT_LAYOUT || !ir_shape_is_const(ps->p, shape)) return fault(ps, &type, "expected f32 or i64 of constant sizes");
  if (!want_free_path(ps, &t, path)) return false;
  ir_param_add(ps->p, ir_text(ps->p, path), kind, dtype, shape, trainable, line_loc(ps, 0));
  return true;
}

static bool parse_alias(Parser *ps) {
  Token t = ps->tok;
  Str path;
  int64_t k;
  if (!read_path(ps, &path) || !want(ps, '=') || !read_param_index(ps, &k) || !want_line_end(ps)) return false;
  if (!want_free_path(ps, &t, path)) return false;
  Param *q = &ps->p->params[k];
  *RT_PUSH(ps->p->mem, q->aliases, q->n_aliases, q->cap_aliases) = path;
  return true;
}

static bool parse_directive(Parser *ps) {
  if (accept_word(ps, "dim")) return parse_dims(ps);
  if (accept_word(ps, "param")) return parse_param(ps, PARAM_WEIGHT);
  if (accept_word(ps, "buffer")) return parse_param(ps, PARAM_BUFFER);
  if (accept_word(ps, "state")) return parse_param(ps, PARAM_STATE);
  if (accept_word(ps, "alias")) return parse_alias(ps);
  if (accept_word(ps, "func")) return parse_function(ps);
  return expected(ps, "dim, param, buffer, state, alias or func");
}

static void skip_empty_lines(Parser *ps) {
  while (ps->tok.kind == TOK_LINE) next(ps);
}

static bool parse_header(Parser *ps) {
  skip_empty_lines(ps);
  if (!accept_word(ps, "program")) {
    expected(ps, "'program @name' first");
    return true;  // the line may be sound otherwise
  }
  return read_path(ps, &ps->p->name) && want_line_end(ps);
}

static void parse_program(Parser *ps) {
  next(ps);
  bool ok = parse_header(ps);
  while (ps->n_faults < MAX_ERRORS) {
    if (!ok) skip_line(ps);
    skip_empty_lines(ps);
    if (ps->tok.kind == TOK_END) return;
    ok = parse_directive(ps);
  }
}

Prog *ir_parse(RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags) {
  Parser *ps = rt_alloc(mem, sizeof *ps);
  *ps = (Parser){.begin = text, .end = text + n, .file = file ? file : "<text>", .diags = diags, .p = ir_prog_new(mem, "")};
  if (n >= UINT32_MAX) {
    rt_diag(diags, RT_ERROR, E_SYNTAX, ps->file, 0, "the text is longer than 4 GiB");
    return NULL;
  }
  ir_lex_open(&ps->lx, text, n);
  parse_program(ps);
  return ps->n_faults ? NULL : ps->p;
}
