// The op table, expanded from ops.def, and the names of keys, dtypes and classes.
#include "ir/ops.h"
#include "ir/ir.h"

#include <string.h>

#define OPERAND(n) [ARG_##n] = #n,
const char *const ir_arg_name[N_ARG_NAMES] = {
#include "ir/operands.def"
};

// Operands of each row. One more entry, so that the array of an op without operands is not empty.
#define ARG(n, flags) {ARG_##n, flags},
#define OPT(n, flags) {ARG_##n, (flags) | OPTIONAL},
#define LIST(n, least, most, flags) {ARG_##n, (flags) | REPEATED},
#define OP(n, operands, ...) static const OperandInfo operands_##n[] = {operands{0, 0}};
// As optimizers.def has it for OP, whose operands would fall apart here at the commas of ARG
#define UPDATE(n, states, numbers, either, ...)                                                                 \
  static const OperandInfo operands_##n[] = {ARG(param, F32) states ARG(grad, F32) numbers OPT(grad_scale, F32) \
                                                 OPT(when, F32) OPT(owned, I64) either ROWS_BY_INDEX{0, 0}};
#include "ir/ops.def"
// Of pointwise rows, by what they take
#define OPERANDS_OF(dtypes)                             \
  {                                                     \
    {ARG_a, dtypes}, {ARG_b, dtypes}, { ARG_c, dtypes } \
  }
static const OperandInfo pointwise_operands[][3] = {OPERANDS_OF(REAL), OPERANDS_OF(REAL | WHOLE),
                                                    OPERANDS_OF(REAL | COUNTABLE), OPERANDS_OF(NUMBER)};
#define DTYPES_OF(flags) ((flags) & NUMBERS ? 3 : (flags) & BOOLS ? 2 : (flags) & INTS ? 1 : 0)

#define ARG(n, flags) +1
#define OPT(n, flags)
#define LIST(n, least, most, flags) +least
#define OP(n, operands, ...) n_min_##n = 0 operands,
enum {
#include "ir/ops.def"
};

#define ARG(n, flags) +1
#define OPT(n, flags) +1
#define LIST(n, least, most, flags) +most
#define OP(n, operands, ...) n_max_##n = 0 operands,
enum {
#include "ir/ops.def"
};

// .name, .doc, .operands, .n_operands, .n_min, .n_max, .n_res, .cls, .rows, .flags, .is_pointwise
#define POINTWISE_OP(n, n_args, flags, doc)                                                                            \
  [OP_##n] = {#n,    doc, pointwise_operands[DTYPES_OF(flags)], n_args, n_args, n_args, 1, CLASS_POINTWISE, ROWS_EACH, \
              flags, true},
#define NULLARY(n, fwd, flags, doc) POINTWISE_OP(n, 0, flags, doc)
#define UNARY(n, fwd, ga, flags, doc) POINTWISE_OP(n, 1, flags, doc)
#define BINARY(n, fwd, ga, gb, flags, doc) POINTWISE_OP(n, 2, flags, doc)
#define TERNARY(n, fwd, ga, gb, gc, flags, doc) POINTWISE_OP(n, 3, flags, doc)
#define N_ROWS(n) (sizeof operands_##n / sizeof *operands_##n - 1)
#define OP(n, operands, n_results, shape_rule, grad_rule, class, rows, flags, doc)     \
  [OP_##n] = {#n,        doc,           operands_##n, N_ROWS(n), n_min_##n, n_max_##n, \
              n_results, CLASS_##class, ROWS_##rows,  flags,     false},
const OpInfo ir_ops[N_OPS] = {
    [OP_none] = {"none", "no operation", NULL, 0, 0, 0, 0, CLASS_LEAF, ROWS_EACH, 0, false},
#include "ir/ops.def"
};

#define ATTR(k, kind) [KEY_##k] = #k,
const char *const ir_key_name[N_KEYS] = {
#include "ir/attrs.def"
};

#define ATTR(k, kind) [KEY_##k] = KIND_##kind,
const uint8_t ir_key_kind[N_KEYS] = {
#include "ir/attrs.def"
};

#define DTYPE(id, name, ...) [DT_##id] = name,
const char *const ir_dtype_name[N_DTYPES] = {
    [DT_NONE] = "none",
#include "ir/dtypes.def"
};

#define DTYPE(id, name, bytes, ...) [DT_##id] = bytes,
const uint8_t ir_dtype_bytes[N_DTYPES] = {
#include "ir/dtypes.def"
};

#define DTYPE(id, name, bytes, kind, doc) [DT_##id] = DTYPE_##kind,
const uint8_t ir_dtype_kind[N_DTYPES] = {
#include "ir/dtypes.def"
};

Op ir_op_find(const char *name) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    if (!strcmp(ir_ops[op].name, name)) return (Op)op;
  return OP_none;
}

uint32_t ir_op_operand(Op op, ArgName name) {
  for (uint32_t k = 0; k < ir_ops[op].n_operands; k++)
    if (ir_ops[op].operands[k].name == name) return k;
  return UINT32_MAX;
}

// ---- operands of an instruction
// Absent operands are left out, so that every entry of the array is a value.
uint32_t ir_operand_slot(const Fn *f, Val v, uint32_t k) {
  uint32_t slot = 0, absent = ir_ins(f, v)->absent;
  if (!absent) return k;
  for (;; slot++)
    if (!(absent >> slot & 1) && k-- == 0) return slot;
}

uint32_t ir_operand_flags(const Fn *f, Val v, uint32_t k) {
  const OpInfo *row = &ir_ops[ir_ins(f, v)->op];
  uint32_t slot = ir_operand_slot(f, v, k);
  if (row->n_operands == 0) return 0;
  return row->operands[slot < row->n_operands ? slot : row->n_operands - 1u].flags;
}

uint32_t ir_operand_at(const Fn *f, Val v, ArgName name) {
  const Ins *ins = ir_ins(f, v);
  const OpInfo *row = &ir_ops[ins->op];
  for (uint32_t slot = 0, k = 0; slot < row->n_operands && k < ins->n_args; slot++) {
    if (ins->absent >> slot & 1) continue;
    if (row->operands[slot].name == name) return k;
    k++;
  }
  return UINT32_MAX;
}

bool ir_takes(const Ins *ins, ArgName name) {
  uint32_t slot = ir_op_operand((Op)ins->op, name);
  uint32_t n = ins->n_args + (uint32_t)__builtin_popcount(ins->absent);  // behind the last present one no bit is set
  return slot < n && !(ins->absent >> slot & 1);
}

Val ir_operand(const Fn *f, Val v, ArgName name) {
  uint32_t k = ir_operand_at(f, v, name);
  return k == UINT32_MAX ? (Val){0} : ir_arg(f, v, k);
}

#define CLASS(id, name, kernel, flags, emit, scratch, elements, work, rate, base, per, doc) \
  [CLASS_##id] = {name, doc, CLASS_##kernel, flags},
const ClassInfo ir_classes[N_CLASSES] = {
#include "ir/kernels.def"
};

const char *ir_class_name(OpClass c) { return (uint32_t)c < N_CLASSES ? ir_classes[c].name : "?"; }
