// Tokens of the IR's text form. A lexer reads bytes of any kind and never fails: what it can't name is one TOK_BAD.
//
//   %h, %3 = rnn_seq %x {cell="lstm", reverse} : f32[rows,64]   ; k3 arena+0   // vowels.c:20
//
// Line ends are tokens. What follows `;` up to `//` or the line's end is ignored; a `// path:digits` comment is kept
// with its line (Lexer.note), any other comment is ignored.
#ifndef TN_IR_TEXT_LEX_H
#define TN_IR_TEXT_LEX_H

#include "runtime/base.h"

typedef enum {
  TOK_END,     // of the text
  TOK_LINE,    // end of a line
  TOK_WORD,    // [A-Za-z_][A-Za-z0-9_.]*
  TOK_VALUE,   // %name or %12; the text excludes the sign
  TOK_PATH,    // @name; the text excludes the sign
  TOK_QPATH,   // @"name"; the text is what stands between the quotes
  TOK_STRING,  // "text"; likewise
  TOK_INT,     // -?[0-9]+
  TOK_NUM,     // any other number, inf and nan with a sign included
  TOK_PUNCT,   // one of ( ) { } [ ] : , = * + / or <=, and - right behind a word, a whole number or a )
  TOK_BAD      // anything else: `why` says what
} TokKind;

typedef struct {
  TokKind kind;
  char punct;        // of TOK_PUNCT; '<' for <=
  const char *text;  // inside the source, not 0-terminated
  uint32_t n;
  const char *at;  // where the token begins, signs and quotes included
  uint32_t n_at;   // bytes from `at` to its end
  uint32_t line;
  const char *why;  // of TOK_BAD
} Token;

// Text of a comment, quotes excluded.
typedef struct {
  const char *text;
  uint32_t n;
  bool quoted;
} NoteText;

// The locations in the comment of one source line: the first, and the second where the form is `// a:1 .. b:2`.
typedef struct {
  NoteText file[2], module[2];  // module: of `// a:1 in h.3`; n == 0: none
  uint32_t line_no[2];
  uint32_t n;
} LocNote;

typedef struct {
  const char *at, *end;
  uint32_t line;
  const char *operand_end;  // of the last word, whole number or ): a - that stands there takes away
  LocNote note;             // of the line whose TOK_LINE or TOK_END came last
  LocNote pending;          // of the line being read
} Lexer;

void ir_lex_open(Lexer *lx, const char *text, size_t n);
Token ir_lex_next(Lexer *lx);
bool ir_lex_is_word(const char *s, size_t n);               // prints as %name
bool ir_lex_is_path(const char *s, size_t n);               // prints as @path without quotes
bool ir_lex_is_file(const char *s, size_t n);               // prints as // file:line without quotes
bool ir_lex_unquote(const char *s, size_t n, RtText *out);  // escapes resolved; false: a bad escape or a \x00

#endif
