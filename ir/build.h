// Appending instructions.
#ifndef TN_IR_BUILD_H
#define TN_IR_BUILD_H

#include "ir/ir.h"

// Appends an instruction whose type is inferred by its row's shape rule; a fault is one diagnostic at `loc` and gives
// Val 0.
// args: by position in the row, none where an optional one is absent. They and attrs may lie in the lists of f.
Val ir_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc);
// The op of `like` with other operands and its attributes, of which one is replaced by, or added as, `change`; NULL: none
Val ir_emit_like(Fn *f, const Ins *like, const Val *args, const Attr *change);
// The same for callers that report a fault in their own words: nothing is reported; fault->id is 0 if there
// is none.
typedef struct {
  uint16_t id;
  const char *why, *fits;   // fits: a shape that would fit; NULL: the rule cannot say
  const char *operands[8];  // what the first operands are called
} EmitFault;
Val ir_try_emit(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, Loc loc,
                EmitFault *fault);
Val ir_emit_typed(Fn *f, Op op, const Val *args, uint32_t n_args, const Attr *attrs, uint32_t n_attrs, DType t, Shape s,
                  Loc loc);  // leaves
// Operands by position in the row, none where absent: those of v, and new ones for it. Rows without a LIST.
enum { MAX_OPERANDS = 16 };
uint32_t ir_operands(const Fn *f, Val v, Val out[MAX_OPERANDS]);
void ir_set_operands(Fn *f, Val v, const Val *operands, uint32_t n);
Val ir_input(Fn *f, const char *name, DType t, Shape s, Loc loc);
Val ir_const(Fn *f, double v, Loc loc);  // f32 scalar
Val ir_param(Fn *f, uint32_t param, Loc loc);
Val ir_op1(Fn *f, Op op, Val a, Loc loc);
Val ir_op2(Fn *f, Op op, Val a, Val b, Loc loc);
Val ir_op3(Fn *f, Op op, Val a, Val b, Val c, Loc loc);
Val ir_reshaped(Fn *f, Val v, Shape to, Loc loc);  // v itself where that is its shape
Val ir_permuted(Fn *f, Val v, Shape perm, Loc loc);
// What a crop reads and puts along each axis of its operand (ir/slice.h)
typedef struct {
  int64_t start[MAX_RANK], step[MAX_RANK], before[MAX_RANK], behind[MAX_RANK];
  Dim size[MAX_RANK];
} Crop;
Val ir_emit_crop(Fn *f, Val v, const Crop *c, Loc loc);
// {reader="READER FILE:LINE"} with the place of `of`: no rule drops it
Val ir_emit_copy(Fn *f, Val x, const char *reader, Loc of, Loc loc);
static inline Attr ir_a_int(Key k, int64_t v) { return (Attr){(uint8_t)k, {.i = v}}; }
static inline Attr ir_a_num(Key k, double v) { return (Attr){(uint8_t)k, {.f = v}}; }
static inline Attr ir_a_str(Key k, Str v) { return (Attr){(uint8_t)k, {.s = v}}; }
static inline Attr ir_a_list(Key k, Shape v) { return (Attr){(uint8_t)k, {.list = v}}; }
static inline Attr ir_a_dim(Key k, Dim v) { return (Attr){(uint8_t)k, {.dim = v}}; }

// ---- table.c
// Numbers of the program, as many as the constant shape s has, of f32 or i64 (ir/table.c).
Val ir_table(Fn *f, DType t, Shape s, const void *elements, Loc loc);
void ir_fill_table(const Fn *f, Val v, void *elements);  // the numbers of an OP_table

#endif
