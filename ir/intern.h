// Strings, sizes, shapes and places in the source, interned: equal things have equal indices.
#ifndef TN_IR_INTERN_H
#define TN_IR_INTERN_H

#include "ir/ir.h"

Prog *ir_prog_new(RtArena *mem, const char *name);
Str ir_str(Prog *p, const char *s);
Str ir_strn(Prog *p, const char *s, size_t n);
// The same without a copy: n bytes of any value (n < 2^32) and a terminating 0, which outlive p.
Str ir_str_borrowed(Prog *p, const char *s, size_t n);
const char *ir_text(const Prog *p, Str s);
size_t ir_text_size(const Prog *p, Str s);
uint64_t ir_text_hash(const Prog *p, Str s);
uint32_t ir_text_count(const Prog *p);         // Str{0} to Str{count - 1} exist
uint32_t ir_new_streams(Prog *p, uint32_t n);  // the first of n unused random streams; 0: fewer than n are left
Loc ir_loc(Prog *p, const char *file, uint32_t line);
Loc ir_loc_in(Prog *p, const char *file, uint32_t line, const char *module);  // module NULL or "": in none
// The same, of a public call; NULL: unknown
Loc ir_loc_of_call(Prog *p, const char *file, uint32_t line, const char *module, const char *call);
// The same, in a call of a module that is computed again for the backward: a row of Prog.checkpoints, from 1; 0: in none
Loc ir_loc_within(Prog *p, Loc l, uint32_t checkpoint);
uint32_t ir_loc_checkpoint(const Prog *p, Loc l);
const char *ir_loc_file(const Prog *p, Loc l);  // NULL: unknown
uint32_t ir_loc_line(const Prog *p, Loc l);
const char *ir_loc_module(const Prog *p, Loc l);      // "": in none
const char *ir_loc_call(const Prog *p, Loc l);        // "tn_relu"; "": unknown
void ir_loc_text(const Prog *p, Loc l, RtText *out);  // "gpt2.c:34 in h.3.attn"; nothing where it is unknown
Dim ir_dim(Prog *p, int64_t value);
// A new slot; the same name again with the same bound: the same dim; else none
Dim ir_dim_sym(Prog *p, const char *name, int64_t bound);
Dim ir_dim_find(const Prog *p, const char *name);
// The same size under a smaller bound of a plan, "time.16": same slot and code, less memory. d is a named
// dim.
Dim ir_dim_within(Prog *p, Dim base, int64_t fit);
Dim ir_dim_mul(Prog *p, Dim a, Dim b);
Dim ir_dim_add(Prog *p, Dim a, Dim b);
Dim ir_dim_sub(Prog *p, Dim a, Dim b);
Dim ir_dim_div(Prog *p, Dim a, Dim b);       // rounded down, toward minus infinity; by a constant 0: none
Dim ir_dim_ceil_div(Prog *p, Dim a, Dim b);  // rounded up; b is positive
Dim ir_dim_max(Prog *p, Dim a, Dim b);       // a or b if the bounds of their parts say which is larger
Dim ir_dim_min(Prog *p, Dim a, Dim b);
Dim ir_dim_exact_div(Prog *p, Dim a, Dim b);  // where b is a factor of a; else none
void ir_dim_computed_at(Prog *p, Dim d, Loc loc);
static inline bool ir_dim_has_parts(const DimInfo *d) { return d->kind >= DIM_MUL; }
const DimInfo *ir_dim_info(const Prog *p, Dim d);
bool ir_dim_is_const(const Prog *p, Dim d);
bool ir_dim_is_one(const Prog *p, Dim d);  // the constant 1
bool ir_dim_exists(const Prog *p, Dim d);
int64_t ir_dim_bound(const Prog *p, Dim d);  // largest value, at least 0; the value of a constant
int64_t ir_dim_most(const Prog *p, Dim d);   // the same as ir_dim_bound, but below 0 where the dim always is
// smallest value that bounds of its parts allow: below 0 of some differences
int64_t ir_dim_least(const Prog *p, Dim d);
int64_t ir_dim_eval(const Prog *p, Dim d, const int64_t *slots);
Shape ir_shape(Prog *p, const Dim *dims, uint32_t n);
Shape ir_shape_ints(Prog *p, const int64_t *v, uint32_t n);
uint32_t ir_rank(const Prog *p, Shape s);
const Dim *ir_dims(const Prog *p, Shape s);  // valid until the next shape is interned
Dim ir_dim_at(const Prog *p, Shape s, uint32_t axis);
int64_t ir_list_at(const Prog *p, Shape s, uint32_t k);  // constant element
bool ir_shape_is_const(const Prog *p, Shape s);
int64_t ir_shape_bound(const Prog *p, Shape s);  // largest number of elements
int64_t ir_shape_eval(const Prog *p, Shape s, const int64_t *slots);
Dim ir_shape_numel(Prog *p, Shape s);
// Largest value in this plan: memory is sized by it; code is chosen by the bound
int64_t ir_dim_fit(const Prog *p, Dim d);
// Bytes by the largest value in this plan. Layouts: TN_LAYOUT_WORDS by bounds, since code finds the tables by
// them
int64_t ir_type_bytes(const Prog *p, DType t, Shape s);
int64_t ir_type_bound(const Prog *p, DType t, Shape s);  // by the full bounds
// The largest size of each axis: "32 x 1024", with the names of dims "batch <= 32 x 1024"
void ir_shape_bounds_text(const Prog *p, Shape s, RtText *out);
void ir_shape_text(const Prog *p, Shape s, RtText *out);  // [batch,12]
void ir_dim_text(const Prog *p, Dim d, RtText *out);

#endif
