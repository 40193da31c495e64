// The op table, expanded from ops.def, and the names of keys, dtypes and classes.
#include "ir/ir.h"

#include <string.h>

// What a row in primitives cannot say for itself. A row is random when a random primitive stands in it (tests/test_ops.c derives
// this from the rows and compares).
#define IS_COMM(op) \
  ((op) == OP_add || (op) == OP_mul || (op) == OP_max || (op) == OP_min || (op) == OP_eq || (op) == OP_ne)
#define IS_RANDOM(op) \
  ((op) == OP_rand || (op) == OP_randn || (op) == OP_dropout || (op) == OP_uniform || (op) == OP_normal)
#define POINTWISE_OP(n, n_args, doc)                                                  \
  [OP_##n] = {#n,                                                                     \
              doc,                                                                    \
              n_args,                                                                 \
              n_args,                                                                 \
              1,                                                                      \
              CLASS_POINT,                                                            \
              PURE | (IS_COMM(OP_##n) ? COMM : 0) | (IS_RANDOM(OP_##n) ? RANDOM : 0), \
              true},
#define NULLARY(n, fwd, doc) POINTWISE_OP(n, 0, doc)
#define UNARY(n, fwd, ga, doc) POINTWISE_OP(n, 1, doc)
#define BINARY(n, fwd, ga, gb, doc) POINTWISE_OP(n, 2, doc)
#define TERNARY(n, fwd, ga, gb, gc, doc) POINTWISE_OP(n, 3, doc)
#define OP(n, lo, hi, n_results, shape_rule, grad_rule, class, op_flags, doc) \
  [OP_##n] = {#n, doc, lo, hi, n_results, CLASS_##class, op_flags, false},
const OpInfo ir_ops[N_OPS] = {
    [OP_none] = {"none", "no operation", 0, 0, 0, CLASS_LEAF, 0, false},
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

#define ROW(e, t, b) [e] = t,
const char *const ir_dtype_name[N_DTYPES] = {IR_DTYPES(ROW)};
#undef ROW
#define ROW(e, t, b) [e] = b,
const uint8_t ir_dtype_bytes[N_DTYPES] = {IR_DTYPES(ROW)};
#undef ROW

Op ir_op_find(const char *name) {
  for (uint32_t op = OP_none + 1; op < N_OPS; op++)
    if (!strcmp(ir_ops[op].name, name)) return (Op)op;
  return OP_none;
}

#define CLASS(id, name, kernel, rows, flags, emit, scratch, elements, work, rate, base, per, doc) \
  [CLASS_##id] = {name, doc, CLASS_##kernel, ROWS_##rows, flags},
const ClassInfo ir_classes[N_CLASSES] = {
#include "ir/kernels.def"
};

const char *ir_class_name(OpClass c) { return (uint32_t)c < N_CLASSES ? ir_classes[c].name : "?"; }
