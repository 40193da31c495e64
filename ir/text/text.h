// The text form: printing, parsing, and values as messages name them.
#ifndef TN_IR_TEXT_TEXT_H
#define TN_IR_TEXT_TEXT_H

#include "ir/ir.h"

// PRINT_BY_NUMBER: bytes of tables stay in the program, and the text has their numbers. For ir_parse_of and
// ir_text_of only
enum { PRINT_LOCS = 1, PRINT_FACTS = 2, PRINT_BY_NUMBER = 4 };
void ir_print_ins(const Fn *f, Val v, RtText *out, uint32_t flags);  // one line
void ir_print(const Prog *p, RtText *out, uint32_t flags);
void ir_print_fn(const Fn *f, RtText *out, uint32_t flags);
void ir_print_type(const Fn *f, Val v, RtText *out);
void ir_type_text(const Prog *p, uint8_t dtype, Shape s, RtText *out);  // "f32[4,3]"
void ir_print_name(const Fn *f, Val v, RtText *out);                    // %x or %12

// ---- parse.c
// NULL: see diags; caret lines in the text
Prog *ir_parse(RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags);
// The same for a text printed by number: table bytes are those of `of`, which outlives the result
Prog *ir_parse_of(const Prog *of, RtArena *mem, const char *text, size_t n, const char *file, RtDiags *diags);
// Such a text with bytes in place of their numbers, or with hashes of them, which tell programs apart
void ir_text_of(const Prog *of, const char *text, bool by_hash, RtText *out);

// ---- value_text.c: a value as messages name it
const char *ir_value_text(const Fn *f, Val v);   // "%12 (add)"; of a program built by calls "tn_add (m.c:12)"
const char *ir_call_text(const Fn *f, Val v);    // "tn_call of module 'fc'"; of text, too
const char *ir_result_text(const Fn *f, Val v);  // "%12"; "the result of tn_add": where its place is told, too

#endif
