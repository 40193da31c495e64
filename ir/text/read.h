// The reading half of the parser: faults with their caret, tokens, numbers, dims, types, value names, attributes.
// ir/text/parse.c puts them together to scopes, instructions and functions. Functions that return bool have reported a fault
// when it is false.
#ifndef TN_IR_TEXT_READ_H
#define TN_IR_TEXT_READ_H

#include "ir/ir.h"
#include "ir/text/lex.h"
#include "runtime/near.h"

enum {
  MAX_ERRORS = 20,
  MAX_DIM_TERMS = 256,  // names and constants of one dim
};

// Value of a %name; 0: poisoned by a fault of its line.
typedef struct {
  const char *text;  // NULL: free
  uint32_t n;
  Val value;
} Label;

// Parameter and dim of a name, by index of its string.
typedef struct {
  uint32_t param;  // index + 1; 0: none
  Dim dim;         // 0: none
  bool is_fn;
} Known;

typedef struct {
  Lexer lx;
  Token tok;
  const char *begin, *end, *file;
  Prog *p;
  RtDiags *diags;
  const Prog *of;  // program that owns bytes which the text gives by number; NULL: the text has them
  uint32_t n_faults;
  const char *last_fault;
  Known *known;
  uint32_t n_known;
  // the function being read
  Fn *f;
  Label *labels;
  uint32_t n_labels, cap_labels;
  uint32_t *open;  // stack of open scopes
  uint32_t n_open, cap_open;
  uint32_t *braces;  // stack of the scopes opened by `scope x {`
  uint32_t n_braces, cap_braces;
  bool has_table;  // `scope 1 x in 0` lines came first: marks make no scopes
  bool has_marks;
  bool lost_inputs;  // the signature has a fault: unknown values are not reported
  // one instruction, reused
  Val *args;  // by position in the row; none: absent, or poisoned
  uint32_t n_args, cap_args, n_absent;
  Attr *attrs;
  uint32_t n_attrs, cap_attrs;
  bool poisoned;  // an operand is
} Parser;

// ---- faults: one mistake, one report; all return false, for the caller to leave the line
bool ir_rd_fault_at(Parser *ps, uint16_t id, const char *at, uint32_t line, const char *what);
bool ir_rd_fault(Parser *ps, const Token *t, const char *what);  // E1 at a token
#define FAULT(ps, t, ...) ir_rd_fault((ps), (t), rt_printf((ps)->diags->mem, __VA_ARGS__))
bool ir_rd_expected(Parser *ps, const char *what);                     // E1 at the current token: expected .., found ..
bool ir_rd_expected_near(Parser *ps, const char *what, RtNear *near);  // the same; ..; did you mean ..?
RtNear ir_rd_near(const Parser *ps, const Token *t);                   // to be offered names
const char *ir_rd_shown(const Parser *ps, const Token *t);             // 'text' of a token, cut and made printable

// ---- tokens
void ir_rd_next(Parser *ps);
bool ir_rd_at_punct(const Parser *ps, char c);
bool ir_rd_at_word(const Parser *ps, const char *word);
bool ir_rd_accept(Parser *ps, char c);  // takes the token when it is c
bool ir_rd_accept_word(Parser *ps, const char *word);
bool ir_rd_want(Parser *ps, char c);   // takes it or faults
bool ir_rd_skip_line(Parser *ps);      // to the end of the line; true when its last token is `{`
bool ir_rd_want_line_end(Parser *ps);  // every statement ends its line
// The location of a line that ends at the current token: its comment's k-th, else its place in this text.
Loc ir_rd_line_loc(Parser *ps, uint32_t k);

// ---- parts
Known *ir_rd_known(Parser *ps, Str name);  // valid until the next call
bool ir_read_int(Parser *ps, const char *what, int64_t least, int64_t most, int64_t *out);
bool ir_read_text(Parser *ps, TokKind plain, TokKind quoted, const char *what, Str *out);  // escapes resolved
bool ir_read_path(Parser *ps, Str *out);
bool ir_read_string(Parser *ps, Str *out);
bool ir_read_type(Parser *ps, DType *t, Shape *s);
bool ir_rd_define(Parser *ps, const Token *t, Val v);    // binds a %name; false when it is bound already
bool ir_read_operand(Parser *ps);                        // a %value, appended to ps->args
bool ir_rd_is_number(const Token *t);                    // %12
void ir_rd_set_name(Parser *ps, const Token *t, Val v);  // unless it is a number
bool ir_read_param_index(Parser *ps, int64_t *out);      // @path of a param
bool ir_read_attrs(Parser *ps);                          // {..} if there, appended to ps->attrs

#endif
