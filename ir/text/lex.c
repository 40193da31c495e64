// The lexer of the IR's text form: see ir/text/lex.h for the tokens.
#include "ir/text/lex.h"

#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
static bool is_path_char(char c) { return is_word_char(c) || c == '-' || c == '/'; }
static bool is_file_char(char c) {
  return is_path_char(c) || c == '+' || c == '?' || c == '<' || c == '>' || (c & 0x80);
}
static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static bool all(const char *s, size_t n, bool (*is)(char)) {
  for (size_t k = 0; k < n; k++)
    if (!is(s[k])) return false;
  return n > 0;
}
bool ir_lex_is_word(const char *s, size_t n) { return all(s, n, is_word_char) && is_letter(s[0]); }
bool ir_lex_is_path(const char *s, size_t n) { return all(s, n, is_path_char); }
bool ir_lex_is_file(const char *s, size_t n) { return all(s, n, is_file_char); }

static int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ir_lex_unquote(const char *s, size_t n, RtText *out) {
  rt_text_put(out, "", 0);
  for (size_t k = 0; k < n; k++) {
    char c = s[k];
    if (c == '\\') {
      if (++k == n) return false;
      c = s[k] == 'n' ? '\n' : s[k] == 't' ? '\t' : s[k];
      if (s[k] == 'x') {
        int hi = k + 2 < n ? hex_digit(s[k + 1]) : -1, lo = k + 2 < n ? hex_digit(s[k + 2]) : -1;
        if (hi < 0 || lo < 0 || hi + lo == 0) return false;
        c = (char)(hi * 16 + lo);
        k += 2;
      } else if (!strchr("nt\"\\", s[k]) || !s[k]) {
        return false;
      }
    }
    rt_text_put(out, &c, 1);
  }
  return true;
}

void ir_lex_open(Lexer *lx, const char *text, size_t n) { *lx = (Lexer){.at = text, .end = text + n, .line = 1}; }

// The end of a quoted text that begins at s (on its first quote): the closing quote; NULL when the line ends before it.
static const char *closing_quote(const char *s, const char *end) {
  for (s++; s < end && *s != '\n' && *s; s++) {
    if (*s == '"') return s;
    if (*s == '\\' && s + 1 < end && s[1] != '\n') s++;
  }
  return NULL;
}

// ---- comments

static const char *skip_blank(const char *s, const char *end) {
  while (s < end && is_blank(*s)) s++;
  return s;
}

// Reads digits at s into *n; NULL when there are none, or too many for a line number.
static const char *read_line_no(const char *s, const char *end, uint32_t *n) {
  uint64_t v = 0;
  const char *first = s;
  for (; s < end && is_digit(*s); s++) {
    v = v * 10 + (uint64_t)(*s - '0');
    if (v > UINT32_MAX) return NULL;
  }
  *n = (uint32_t)v;
  return s == first ? NULL : s;
}

// Reads a file name or a module path, which stands in quotes where it must; NULL when there is none.
static const char *read_note_text(NoteText *t, const char *s, const char *end) {
  const char *first = s, *last;
  t->quoted = s < end && *s == '"';
  if (t->quoted) {
    first++;
    last = closing_quote(s, end);
    if (!last) return NULL;
    s = last + 1;
  } else {
    while (s < end && is_file_char(*s)) s++;
    last = s;
  }
  t->text = first;
  t->n = (uint32_t)(last - first);
  return t->n ? s : NULL;
}

static bool at_in(const char *s, const char *end) {
  return end - s > 2 && s[0] == 'i' && s[1] == 'n' && is_blank(s[2]);
}

// Reads `file:digits` or `file:digits in module` at s as location k of the note; NULL when it has another form.
static const char *read_loc(LocNote *note, uint32_t k, const char *s, const char *end) {
  s = read_note_text(&note->file[k], s, end);
  if (!s || s == end || *s != ':') return NULL;
  s = read_line_no(s + 1, end, &note->line_no[k]);
  const char *in = s ? skip_blank(s, end) : NULL;
  if (!s || in == s || !at_in(in, end)) return s;
  return read_note_text(&note->module[k], skip_blank(in + 2, end), end);
}

static LocNote read_note(const char *s, const char *end) {
  LocNote note = {0};
  s = read_loc(&note, 0, skip_blank(s, end), end);
  if (!s) return (LocNote){0};
  s = skip_blank(s, end);
  if (s == end) {
    note.n = 1;
    return note;
  }
  if (end - s < 2 || s[0] != '.' || s[1] != '.') return (LocNote){0};
  s = read_loc(&note, 1, skip_blank(s + 2, end), end);
  if (!s || skip_blank(s, end) != end) return (LocNote){0};
  note.n = 2;
  return note;
}

static const char *line_end(const char *s, const char *end) {
  const char *nl = memchr(s, '\n', (size_t)(end - s));
  return nl ? nl : end;
}

// Skips blanks, facts (`; ..`) and comments; afterwards lx->at is at a token, a line end or the end.
static void skip_to_token(Lexer *lx) {
  lx->at = skip_blank(lx->at, lx->end);
  if (lx->at < lx->end && *lx->at == ';') {
    const char *stop = line_end(lx->at, lx->end);
    while (lx->at < stop && !(lx->at[0] == '/' && stop - lx->at > 1 && lx->at[1] == '/')) lx->at++;
  }
  if (lx->end - lx->at > 1 && lx->at[0] == '/' && lx->at[1] == '/') {
    const char *stop = line_end(lx->at, lx->end);
    lx->pending = read_note(lx->at + 2, stop);
    lx->at = stop;
  }
}

// ---- tokens

static Token finish(Lexer *lx, Token t, const char *stop) {
  t.n_at = (uint32_t)(stop - t.at);
  lx->at = stop;
  return t;
}

static Token bad(Lexer *lx, Token t, const char *stop, const char *why) {
  t.kind = TOK_BAD;
  t.why = why;
  return finish(lx, t, stop);
}

static const char *run_of(const char *s, const char *end, bool (*is)(char)) {
  while (s < end && is(*s)) s++;
  return s;
}

static Token lex_text(Lexer *lx, Token t, TokKind kind, const char *s, const char *stop) {
  t.kind = kind;
  t.text = s;
  t.n = (uint32_t)(stop - s);
  return finish(lx, t, stop);
}

static Token lex_quoted(Lexer *lx, Token t, TokKind kind, const char *quote) {
  const char *close = closing_quote(quote, lx->end);
  if (!close) return bad(lx, t, line_end(quote, lx->end), "a text without its closing quote");
  t.kind = kind;
  t.text = quote + 1;
  t.n = (uint32_t)(close - quote - 1);
  return finish(lx, t, close + 1);
}

static Token lex_value(Lexer *lx, Token t) {
  const char *s = lx->at + 1;
  bool number = s < lx->end && is_digit(*s);
  const char *stop = run_of(s, lx->end, number ? is_digit : is_word_char);
  if (stop == s) return bad(lx, t, s, "'%' without a name");
  return lex_text(lx, t, TOK_VALUE, s, stop);
}

static Token lex_path(Lexer *lx, Token t) {
  const char *s = lx->at + 1;
  if (s < lx->end && *s == '"') return lex_quoted(lx, t, TOK_QPATH, s);
  const char *stop = run_of(s, lx->end, is_path_char);
  if (stop == s) return bad(lx, t, s, "'@' without a name");
  return lex_text(lx, t, TOK_PATH, s, stop);
}

static bool starts(const char *s, const char *end, const char *word) {
  size_t n = strlen(word);
  return (size_t)(end - s) >= n && !memcmp(s, word, n);
}

static Token lex_number(Lexer *lx, Token t) {
  const char *s = lx->at, *end = lx->end;
  if (*s == '-') s++;
  if (starts(s, end, "inf") || starts(s, end, "nan")) return lex_text(lx, t, TOK_NUM, lx->at, s + 3);
  const char *stop = run_of(s, end, is_digit);
  if (stop == s) return bad(lx, t, s, "'-' without a number");
  TokKind kind = TOK_INT;
  if (stop < end && *stop == '.') {
    stop = run_of(stop + 1, end, is_digit);
    kind = TOK_NUM;
  }
  if (stop < end && (*stop == 'e' || *stop == 'E')) {
    const char *e = stop + 1;
    if (e < end && (*e == '-' || *e == '+')) e++;
    stop = run_of(e, end, is_digit);
    if (stop == e) return bad(lx, t, stop, "an exponent without digits");
    kind = TOK_NUM;
  }
  return lex_text(lx, t, kind, lx->at, stop);
}

static Token lex_punct(Lexer *lx, Token t) {
  const char *s = lx->at;
  t.kind = TOK_PUNCT;
  t.punct = *s;
  if (starts(s, lx->end, "<=")) return finish(lx, t, s + 2);
  if (*s && strchr("(){}[]:,=*+-/", *s)) return finish(lx, t, s + 1);
  return bad(lx, t, s + 1, "a character that has no meaning here");
}

static Token next_token(Lexer *lx) {
  skip_to_token(lx);
  Token t = {.at = lx->at, .text = lx->at, .line = lx->line};
  if (lx->at == lx->end || *lx->at == '\n') {
    lx->note = lx->pending;
    lx->pending = (LocNote){0};
  }
  if (lx->at == lx->end) return t;
  char c = *lx->at;
  if (c == '\n') {
    t.kind = TOK_LINE;
    lx->line++;
    return finish(lx, t, lx->at + 1);
  }
  if (is_letter(c)) return lex_text(lx, t, TOK_WORD, lx->at, run_of(lx->at, lx->end, is_word_char));
  if (is_digit(c) || (c == '-' && lx->operand_end != lx->at)) return lex_number(lx, t);
  if (c == '%') return lex_value(lx, t);
  if (c == '@') return lex_path(lx, t);
  if (c == '"') return lex_quoted(lx, t, TOK_STRING, lx->at);
  return lex_punct(lx, t);
}

Token ir_lex_next(Lexer *lx) {
  Token t = next_token(lx);
  if (t.kind == TOK_WORD || t.kind == TOK_INT || (t.kind == TOK_PUNCT && t.punct == ')')) lx->operand_end = lx->at;
  return t;
}
