// Faults, tokens and the parts of a line: see ir/text/read.h. The form of a report:
//
//   m.tir:3:14: error[E001]: expected an operation, found 'rleu'
//     %y = rleu %x : f32[4]
//          ^
#include "ir/text/read.h"
#include "ir/intern.h"
#include "runtime/format.h"

#include <math.h>
#include <string.h>

enum {
  MAX_DIM_NESTING = 32,
  MAX_LIST = 1 << 20,
  MAX_ARGS = 4096,
  EXCERPT = 100  // bytes of a source line that a report shows
};
static const int64_t MAX_SIZE = INT64_C(1) << 56;  // where ir_dim_mul saturates

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
bool ir_rd_fault_at(Parser *ps, uint16_t id, const char *at, uint32_t line, const char *what) {
  if (at == ps->last_fault) return false;  // report each mistake once
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

bool ir_rd_fault(Parser *ps, const Token *t, const char *what) {
  return ir_rd_fault_at(ps, E_SYNTAX, t->at, t->line, what);
}

// 'text' of a token as it stands in the source, cut and made printable.
const char *ir_rd_shown(const Parser *ps, const Token *t) {
  if (t->kind == TOK_END) return "the end of the text";
  if (t->kind == TOK_LINE) return "the end of the line";
  char text[48];
  uint32_t n = t->n_at < 40 ? t->n_at : 40;
  for (uint32_t k = 0; k < n; k++) text[k] = t->at[k] >= 0x20 && t->at[k] < 0x7f ? t->at[k] : '?';
  return rt_printf(ps->diags->mem, "'%.*s%s'", (int)n, text, n < t->n_at ? ".." : "");
}

bool ir_rd_expected(Parser *ps, const char *what) { return ir_rd_expected_near(ps, what, &(RtNear){0}); }

bool ir_rd_expected_near(Parser *ps, const char *what, RtNear *near) {
  const Token *t = &ps->tok;
  if (ps->n_faults >= MAX_ERRORS) return false;
  const char *why = t->kind == TOK_BAD ? rt_printf(ps->diags->mem, " (%s)", t->why) : "";
  return ir_rd_fault(
      ps, t, rt_printf(ps->diags->mem, "expected %s, found %s%s%s", what, ir_rd_shown(ps, t), why, rt_near_text(near)));
}

RtNear ir_rd_near(const Parser *ps, const Token *t) {
  bool fits = t->n < 64 && ps->n_faults < MAX_ERRORS;  // no suggestions beyond this many faults
  return (RtNear){.wanted = fits ? rt_strndup(ps->diags->mem, t->text, t->n) : NULL};
}

// Names that a report may suggest
static const char *near_dim(const Parser *ps, const Token *t, RtNear *near) {
  *near = ir_rd_near(ps, t);
  for (uint32_t k = 0; near->wanted && k < ps->p->n_syms; k++)
    rt_near_offer(near, ir_text(ps->p, ir_dim_info(ps->p, ps->p->syms[k])->name));
  return rt_near_text(near);
}

static const char *near_param(const Parser *ps, const Token *t, RtNear *near) {
  *near = ir_rd_near(ps, t);
  for (uint32_t k = 0; near->wanted && k < ps->p->n_params; k++)
    rt_near_offer(near, ir_text(ps->p, ps->p->params[k].path));
  return rt_near_text(near);
}

static const char *near_value(const Parser *ps, const Token *t, RtNear *near) {
  *near = ir_rd_near(ps, t);
  for (uint32_t k = 0; near->wanted && k < ps->cap_labels; k++)
    if (ps->labels[k].text && ps->labels[k].n < 64)
      rt_near_offer(near, rt_strndup(ps->diags->mem, ps->labels[k].text, ps->labels[k].n));
  return rt_near_text(near);
}

// ---- tokens

void ir_rd_next(Parser *ps) { ps->tok = ir_lex_next(&ps->lx); }
bool ir_rd_at_punct(const Parser *ps, char c) { return ps->tok.kind == TOK_PUNCT && ps->tok.punct == c; }
static bool at_line_end(const Parser *ps) { return ps->tok.kind == TOK_LINE || ps->tok.kind == TOK_END; }

static bool token_is(const Token *t, const char *word) {
  return t->kind == TOK_WORD && t->n == strlen(word) && !memcmp(t->text, word, t->n);
}
bool ir_rd_at_word(const Parser *ps, const char *word) { return token_is(&ps->tok, word); }

bool ir_rd_accept(Parser *ps, char c) {
  if (!ir_rd_at_punct(ps, c)) return false;
  ir_rd_next(ps);
  return true;
}

bool ir_rd_accept_word(Parser *ps, const char *word) {
  if (!ir_rd_at_word(ps, word)) return false;
  ir_rd_next(ps);
  return true;
}

bool ir_rd_want(Parser *ps, char c) {
  if (ir_rd_accept(ps, c)) return true;
  char text[] = {'\'', c, c == '<' ? '=' : '\'', c == '<' ? '\'' : 0, 0};
  return ir_rd_expected(ps, text);
}

// True when the line ends with `{`.
bool ir_rd_skip_line(Parser *ps) {
  bool brace = false;
  while (!at_line_end(ps)) {
    brace = ir_rd_at_punct(ps, '{');
    ir_rd_next(ps);
  }
  return brace;
}

static bool note_text(const NoteText *t, RtText *out) {
  if (t->quoted) return ir_lex_unquote(t->text, t->n, out);
  if (t->n) rt_text_put(out, t->text, t->n);
  return true;
}

// The location of a line that ends here: its comment's k-th, else its place in this text. The current token ends the
// line.
Loc ir_rd_line_loc(Parser *ps, uint32_t k) {
  const LocNote *note = &ps->lx.note;
  if (k >= note->n) return note->n ? (Loc){0} : ir_loc(ps->p, ps->file, ps->tok.line);
  if (note->line_no[k] == 0 && note->file[k].n == 1 && note->file[k].text[0] == '?') return (Loc){0};  // ?:0
  RtText file = {.mem = ps->p->mem}, module = {.mem = ps->p->mem};
  bool whole = note_text(&note->file[k], &file) && note_text(&note->module[k], &module);
  return whole ? ir_loc_in(ps->p, file.text, note->line_no[k], module.text) : (Loc){0};
}

// Every statement ends its line; true when it does.
bool ir_rd_want_line_end(Parser *ps) { return at_line_end(ps) || ir_rd_expected(ps, "the end of the line"); }

bool ir_read_int(Parser *ps, const char *what, int64_t least, int64_t most, int64_t *out) {
  Token t = ps->tok;
  if (t.kind != TOK_INT) return ir_rd_expected(ps, what);
  bool minus = t.text[0] == '-', fits = true;
  int64_t v = 0;
  for (uint32_t k = minus; k < t.n; k++) {
    int digit = t.text[k] - '0';
    // there is one more negative number
    fits = fits && !__builtin_mul_overflow(v, 10, &v) && !__builtin_sub_overflow(v, digit, &v);
  }
  fits = fits && (minus || v != INT64_MIN);
  if (fits && !minus) v = -v;
  if (!fits || v < least || v > most)
    return FAULT(ps, &t, "%s must lie in [%lld, %lld]", what, (long long)least, (long long)most);
  ir_rd_next(ps);
  *out = v;
  return true;
}

// inf, nan: words, or numbers behind a minus
static bool take_non_finite(const Token *t, double *out) {
  bool minus = t->kind == TOK_NUM && t->text[0] == '-';
  Token word = {.kind = minus ? TOK_WORD : t->kind, .text = t->text + minus, .n = t->n - minus};
  if (token_is(&word, "inf")) *out = minus ? -HUGE_VAL : HUGE_VAL;
  else if (token_is(&word, "nan")) *out = minus ? -(double)NAN : (double)NAN;
  else return false;
  return true;
}

static bool read_num(Parser *ps, double *out) {
  Token t = ps->tok;
  if (take_non_finite(&t, out)) return ir_rd_next(ps), true;
  if (t.kind != TOK_INT && t.kind != TOK_NUM) return ir_rd_expected(ps, "a number");
  if (!rt_read_f64(t.text, t.n, out)) return FAULT(ps, &t, "a number of more than %d digits", RT_LONGEST_NUMBER);
  ir_rd_next(ps);
  return true;
}

// "text", @path or @"path" with escapes resolved.
bool ir_read_text(Parser *ps, TokKind plain, TokKind quoted, const char *what, Str *out) {
  Token t = ps->tok;
  if (t.kind != plain && t.kind != quoted) return ir_rd_expected(ps, what);
  if (t.kind == plain && plain != quoted) {
    *out = ir_strn(ps->p, t.text, t.n);
  } else {
    RtText text = {.mem = ps->p->mem};
    if (!ir_lex_unquote(t.text, t.n, &text))
      return ir_rd_fault(ps, &t, "expected a text with escapes of \\n \\t \\\" \\\\ \\x01 only");
    *out = ir_strn(ps->p, text.text, text.len);
  }
  ir_rd_next(ps);
  return true;
}
bool ir_read_path(Parser *ps, Str *out) { return ir_read_text(ps, TOK_PATH, TOK_QPATH, "a @name", out); }
bool ir_read_string(Parser *ps, Str *out) { return ir_read_text(ps, TOK_STRING, TOK_STRING, "a text in quotes", out); }

Known *ir_rd_known(Parser *ps, Str name) {
  if (name.i >= ps->n_known) {
    uint32_t n = 2 * name.i + 64;
    ps->known = rt_grow(ps->p->mem, ps->known, ps->n_known * sizeof *ps->known, n * sizeof *ps->known);
    ps->n_known = n;
  }
  return &ps->known[name.i];
}

// ---- dims and types

typedef struct {
  uint32_t terms, nesting;
} DimCount;

static bool read_sum(Parser *ps, DimCount *n, Dim *out);

// `(a,b)` behind max or min
static bool read_extreme(Parser *ps, DimCount *n, bool is_max, Dim *out) {
  Token t = ps->tok;
  Dim a, b;
  if (!ir_rd_want(ps, '(')) return false;
  if (++n->nesting > MAX_DIM_NESTING) return ir_rd_fault(ps, &t, "expected a dim with fewer parentheses");
  if (!read_sum(ps, n, &a) || !ir_rd_want(ps, ',') || !read_sum(ps, n, &b) || !ir_rd_want(ps, ')')) return false;
  n->nesting--;
  *out = is_max ? ir_dim_max(ps->p, a, b) : ir_dim_min(ps->p, a, b);
  return true;
}

static bool read_factor(Parser *ps, DimCount *n, Dim *out) {
  Token t = ps->tok;
  if (++n->terms > MAX_DIM_TERMS) return FAULT(ps, &t, "expected a dim of at most %d terms", MAX_DIM_TERMS);
  if (t.kind == TOK_INT) {
    int64_t v;
    if (!ir_read_int(ps, "a size", 0, MAX_SIZE, &v)) return false;
    *out = ir_dim(ps->p, v);
    return true;
  }
  if (ir_rd_accept(ps, '(')) {
    if (++n->nesting > MAX_DIM_NESTING) return ir_rd_fault(ps, &t, "expected a dim with fewer parentheses");
    bool ok = read_sum(ps, n, out) && ir_rd_want(ps, ')');
    n->nesting--;
    return ok;
  }
  if (t.kind != TOK_WORD) return ir_rd_expected(ps, "a size or a dim");
  bool is_max = ir_rd_at_word(ps, "max"), is_min = ir_rd_at_word(ps, "min");
  *out = ir_rd_known(ps, ir_strn(ps->p, t.text, t.n))->dim;
  RtNear near;
  if (is_max || is_min || out->i) ir_rd_next(ps);
  if ((is_max || is_min) && ir_rd_at_punct(ps, '(')) return read_extreme(ps, n, is_max, out);
  if (!out->i)
    return FAULT(ps, &t, "expected a size or a dim, found %s, which no dim line names%s", ir_rd_shown(ps, &t),
                 near_dim(ps, &t, &near));
  return true;
}

static bool read_product(Parser *ps, DimCount *n, Dim *out) {
  if (!read_factor(ps, n, out)) return false;
  for (;;) {
    bool divides = ir_rd_accept(ps, '/');
    if (!divides && !ir_rd_accept(ps, '*')) return true;
    Token t = ps->tok;
    Dim b;
    if (!read_factor(ps, n, &b)) return false;
    *out = divides ? ir_dim_div(ps->p, *out, b) : ir_dim_mul(ps->p, *out, b);
    if (!out->i) return ir_rd_fault(ps, &t, "expected a divisor above 0");
  }
}

static bool read_sum(Parser *ps, DimCount *n, Dim *out) {
  if (!read_product(ps, n, out)) return false;
  for (;;) {
    bool takes_away = ir_rd_accept(ps, '-');
    if (!takes_away && !ir_rd_accept(ps, '+')) return true;
    Dim b;
    if (!read_product(ps, n, &b)) return false;
    *out = takes_away ? ir_dim_sub(ps->p, *out, b) : ir_dim_add(ps->p, *out, b);
  }
}

static bool read_dim(Parser *ps, Dim *out) { return read_sum(ps, &(DimCount){0}, out); }

// A size of a shape. If some sizes of the run make it negative, that is refused there.
static bool read_size(Parser *ps, Dim *out) {
  Token t = ps->tok;
  if (!read_dim(ps, out)) return false;
  int64_t size = ir_dim_is_const(ps->p, *out) ? ir_dim_info(ps->p, *out)->value : 0;
  return size >= 0 || FAULT(ps, &t, "expected a size of 0 or more, found %lld", (long long)size);
}

// Elements of an attribute list other than a shape: axes, orders, lengths.
static bool read_element(Parser *ps, Dim *out) {
  int64_t v;
  if (!ir_read_int(ps, "a whole number", INT32_MIN, INT32_MAX, &v)) return false;
  *out = ir_dim(ps->p, v);
  return true;
}

// `[a,b,..]`
static bool read_list(Parser *ps, uint32_t most, bool (*read)(Parser *ps, Dim *out), Shape *out) {
  Dim *dims = NULL;
  uint32_t n = 0, cap = 0;
  if (!ir_rd_want(ps, '[')) return false;
  while (!ir_rd_at_punct(ps, ']')) {
    Dim d;
    if (n == most) return FAULT(ps, &ps->tok, "expected at most %u entries", most);
    if (n && !ir_rd_want(ps, ',')) return false;
    if (!read(ps, &d)) return false;
    *RT_PUSH(ps->p->mem, dims, n, cap) = d;
  }
  ir_rd_next(ps);
  *out = ir_shape(ps->p, dims, n);
  return true;
}

// "a type: f32, i64 or layout", with all that there are
static const char *dtypes_text(const Parser *ps) {
  RtText t = {.mem = ps->p->mem};
  for (uint32_t k = DT_NONE + 1; k < N_DTYPES; k++)
    rt_text_add(&t, "%s%s", k == DT_NONE + 1 ? "a type: " : k + 1 == N_DTYPES ? " or " : ", ", ir_dtype_name[k]);
  return t.text;
}

static bool read_dtype(Parser *ps, DType *out) {
  for (uint32_t t = DT_NONE + 1; t < N_DTYPES; t++) {
    if (!ir_rd_accept_word(ps, ir_dtype_name[t])) continue;
    *out = (DType)t;
    return true;
  }
  return ir_rd_expected(ps, dtypes_text(ps));
}

bool ir_read_type(Parser *ps, DType *t, Shape *s) {
  Token first = ps->tok;
  if (!read_dtype(ps, t) || !read_list(ps, MAX_RANK, read_size, s)) return false;
  if (*t == DT_LAYOUT && ir_rank(ps->p, *s) != 3) return ir_rd_fault(ps, &first, "expected layout[batch,time,rows]");
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
bool ir_rd_define(Parser *ps, const Token *t, Val v) {
  if (2 * (ps->n_labels + 1) > ps->cap_labels) grow_labels(ps);
  Label *l = label_slot(ps->labels, ps->cap_labels, t->text, t->n);
  if (l->text) return false;
  *l = (Label){t->text, t->n, v};
  ps->n_labels++;
  return true;
}

bool ir_read_operand(Parser *ps) {
  Token t = ps->tok;
  if (t.kind != TOK_VALUE) return ir_rd_expected(ps, "a %value");
  const Label *l = ps->cap_labels ? label_slot(ps->labels, ps->cap_labels, t.text, t.n) : NULL;
  bool known = l && l->text;
  RtNear near;
  if (!known && !ps->lost_inputs)
    return FAULT(ps, &t, "%s is not defined%s", ir_rd_shown(ps, &t), near_value(ps, &t, &near));
  if (ps->n_args == MAX_ARGS) return FAULT(ps, &t, "expected at most %d operands", MAX_ARGS);
  Val v = known ? l->value : (Val){0};
  ps->poisoned = ps->poisoned || ir_none(v);
  *RT_PUSH(ps->p->mem, ps->args, ps->n_args, ps->cap_args) = v;
  ir_rd_next(ps);
  return true;
}

bool ir_rd_is_number(const Token *t) { return t->text[0] >= '0' && t->text[0] <= '9'; }

void ir_rd_set_name(Parser *ps, const Token *t, Val v) {
  if (!ir_rd_is_number(t)) ps->f->ins[v.i].name = ir_strn(ps->p, t->text, t->n);
}

// ---- attributes

bool ir_read_param_index(Parser *ps, int64_t *out) {
  Token t = ps->tok;
  Str path;
  if (!ir_read_path(ps, &path)) return false;
  uint32_t k = ir_rd_known(ps, path)->param;
  RtNear near;
  if (k == 0)
    return FAULT(ps, &t, "%s names no param, buffer or state%s", ir_rd_shown(ps, &t), near_param(ps, &t, &near));
  *out = k - 1;
  return true;
}

static bool read_flag(Parser *ps, int64_t *out) {
  *out = 1;
  return !ir_rd_accept(ps, '=') || ir_read_int(ps, "a flag", 1, 1, out);
}

// "3f80", or the number of a string of ps->of, which stays there.
static bool read_bytes(Parser *ps, Str *out) {
  const Token t = ps->tok;
  int64_t number;
  if (ps->of && t.kind == TOK_INT) {
    if (!ir_read_int(ps, "a string's number", 0, (int64_t)ir_text_count(ps->of) - 1, &number)) return false;
    const Str s = {(uint32_t)number};
    *out = ir_str_borrowed(ps->p, ir_text(ps->of, s), ir_text_size(ps->of, s));
    return true;
  }
  if (t.kind != TOK_STRING) return ir_rd_expected(ps, "hexadecimal digits in quotes");
  char *bytes = rt_alloc(ps->p->mem, t.n / 2 + 1);
  for (uint32_t k = 0; k < t.n; k++) {
    const char c = t.text[k];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0 || t.n % 2) return ir_rd_fault(ps, &t, "expected pairs of digits from 0 to 9 and from a to f");
    bytes[k / 2] = (char)(k % 2 ? (unsigned char)bytes[k / 2] | digit : digit << 4);
  }
  *out = ir_str_borrowed(ps->p, bytes, t.n / 2);
  ir_rd_next(ps);
  return true;
}

static bool read_attr_value(Parser *ps, Attr *a) {
  AttrKind kind = (AttrKind)ir_key_kind[a->key];
  if (kind == KIND_FLAG) return read_flag(ps, &a->u.i);
  if (!ir_rd_want(ps, '=')) return false;
  switch (kind) {
  case KIND_NUM: return read_num(ps, &a->u.f);
  case KIND_STR: return ir_read_string(ps, &a->u.s);
  case KIND_BYTES: return read_bytes(ps, &a->u.s);
  case KIND_LIST:
    if (a->key == KEY_shape) return read_list(ps, MAX_RANK, read_size, &a->u.list);
    return read_list(ps, MAX_LIST, read_element, &a->u.list);
  case KIND_DIM: return read_dim(ps, &a->u.dim);
  case KIND_PARAM: return ir_read_param_index(ps, &a->u.i);
  default: break;
  }
  if (a->key == KEY_dtype) {
    DType t = DT_NONE;
    if (!read_dtype(ps, &t)) return false;
    a->u.i = t;
    return true;
  }
  return ir_read_int(ps, "a whole number", INT64_MIN, INT64_MAX, &a->u.i);
}

static bool refuse_attr(Parser *ps, const Token *t) {
  RtNear near = ir_rd_near(ps, t);
  for (uint32_t k = 0; t->kind == TOK_WORD && k < N_KEYS; k++) rt_near_offer(&near, ir_key_name[k]);
  return ir_rd_expected_near(ps, "the name of an attribute", &near);
}

static bool read_attr(Parser *ps) {
  Token t = ps->tok;
  Attr a = {.key = N_KEYS};
  for (uint32_t k = 0; k < N_KEYS; k++)
    if (token_is(&t, ir_key_name[k])) a.key = (uint8_t)k;
  if (a.key == N_KEYS) return refuse_attr(ps, &t);
  for (uint32_t k = 0; k < ps->n_attrs; k++)
    if (ps->attrs[k].key == a.key) return FAULT(ps, &t, "attribute %s stands twice", ir_rd_shown(ps, &t));
  ir_rd_next(ps);
  if (!read_attr_value(ps, &a)) return false;
  *RT_PUSH(ps->p->mem, ps->attrs, ps->n_attrs, ps->cap_attrs) = a;
  return true;
}

bool ir_read_attrs(Parser *ps) {
  if (!ir_rd_accept(ps, '{')) return true;
  do {
    if (!read_attr(ps)) return false;
  } while (ir_rd_accept(ps, ','));
  return ir_rd_want(ps, '}');
}
