// Functions, parameters, scopes; instructions as they are read.
#ifndef TN_IR_FN_H
#define TN_IR_FN_H

#include "ir/ir.h"

Fn *ir_fn_new(Prog *p, const char *name, Loc loc);
Fn *ir_fn_find(const Prog *p, const char *name);
uint32_t ir_param_add(Prog *p, const char *path, ParamKind kind, DType t, Shape s, bool trainable, Loc loc);
void ir_set_hyper(Prog *p, uint32_t param, uint8_t kind, uint32_t group);  // RtHyperKind: it may be set between runs
uint32_t ir_param_find(const Prog *p, const char *path);                   // by path or alias; UINT32_MAX: none
uint32_t ir_checkpoint_add(Prog *p, const char *module, uint32_t around, Loc loc);  // its number, from 1
uint32_t ir_scope_open(Fn *f, uint32_t parent, const char *name, Loc loc);
void ir_copy_lists(Fn *to, const Fn *from);           // instructions, operands, attributes, scopes
Fn *ir_body_copy(Prog *p, const Fn *of);              // with copies of the bodies that it runs
Fn *ir_body_new(Prog *p, const char *name, Loc loc);  // body of a scan, with a unique name: name, name_2, ..
Fn *ir_body_find(const Prog *p, Str name);            // NULL: none
Val ir_result(Val head, uint32_t k);                  // result k
Val ir_head(const Fn *f, Val v);                 // the instruction that makes v: v itself, or the head of a `result`
bool ir_is_read(const Fn *f, Val result);        // by an instruction other than `result`
const Attr *ir_attr(const Fn *f, Val v, Key k);  // NULL: absent
Str ir_output_name(const Fn *f, Val v);          // of an output; one without {name} is out0, out1, .. by its {index}
int64_t ir_attr_int(const Fn *f, Val v, Key k, int64_t absent);
int64_t ir_attr_size(const Fn *f, Val v, Key k, int64_t absent);  // of a DIM; -1: no constant
double ir_attr_num(const Fn *f, Val v, Key k, double absent);
bool ir_is_const(const Fn *f, Val v, double *value);  // a `const`
bool ir_is_immediate(const Fn *f, Val v);             // a `const` or a size: an immediate of the code, not in memory
// Says which sizes make a value large: "f32[batch,1024] of linear (batch <= 32 x 1024)"
const char *ir_size_text(const Fn *f, Val v);
// A reduction that rounds nothing: of integers, of truth values, or to the index of an element.
bool ir_reduces_exactly(const Fn *f, Val v);
// A sum, product or maximum of f32 to a single number. Not a mean, which looks at some elements twice.
bool ir_reduces_to_number(const Fn *f, Val v);
// The axes of operand 0 that a reduction reduces, as bits: {axes}, {axis}, or the last.
uint32_t ir_reduced_axes(const Fn *f, Val v);

#endif
