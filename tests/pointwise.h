// What tests need in order to walk all pointwise rows of ir/ops.def: attributes that a row requires, a line of text, and the
// value of a row at a point, from its expression.
#ifndef TN_TESTS_POINTWISE_H
#define TN_TESTS_POINTWISE_H

#include "ir/build.h"
#include "ir/expr.h"
#include "ir/interp/interpret.h"

#include <math.h>
#include <string.h>

enum { MAX_POINTWISE_ATTRS = 4 };

// What a number is given for. tests/make_literals.py has the same.
static inline double pointwise_number(Key key) { return key == KEY_lo ? -0.5 : key == KEY_hi ? 0.75 : 0.125; }
#define POINTWISE_ATTR(key) pointwise_number(KEY_##key)

static inline bool pointwise_requires(Op op, Key key) {
#define TAKES(o, k, presence, range) \
  if (op == OP_##o && key == KEY_##k) return #presence[0] == 'R';
#include "ir/op_attrs.def"
  return false;
}

// What op requires; `stream`: its random stream.
static inline uint32_t pointwise_attrs(Op op, int64_t stream, Attr out[MAX_POINTWISE_ATTRS]) {
  uint32_t n = 0;
  for (uint32_t key = 0; key < N_KEYS && n < MAX_POINTWISE_ATTRS; key++) {
    if (!pointwise_requires(op, (Key)key)) continue;
    out[n++] =
        ir_key_kind[key] == KIND_NUM ? ir_a_num((Key)key, pointwise_number((Key)key)) : ir_a_int((Key)key, stream);
  }
  return n;
}

// "%p_relu = relu %a": operands are the words of `operands`; generators of values have shape [2].
static inline void pointwise_line(Op op, const char *const operands[3], int64_t stream, RtText *out) {
  Attr attr[MAX_POINTWISE_ATTRS];
  uint32_t n = pointwise_attrs(op, stream, attr), n_args = ir_ops[op].n_min;
  rt_text_add(out, "%%p_%s = %s", ir_ops[op].name, ir_ops[op].name);
  for (uint32_t k = 0; k < n_args; k++) rt_text_add(out, "%s %s", k ? "," : "", operands[k]);
  if (n || !n_args) rt_text_add(out, " {");
  for (uint32_t k = 0; k < n; k++) {
    bool is_number = ir_key_kind[attr[k].key] == KIND_NUM;
    rt_text_add(out, "%s%s=%.17g", k ? ", " : "", ir_key_name[attr[k].key],
                is_number ? pointwise_number((Key)attr[k].key) : (double)stream);
  }
  if (!n_args) rt_text_add(out, "%sshape=[2]", n ? ", " : "");
  rt_text_add(out, n || !n_args ? "}\n" : "\n");
}

// An expression of op's row at operands x, where y is the result and the gradient of the result is 1; attributes as above.
// Of a row that is not random.
static inline double pointwise_expr(Expr e, const double x[3], double y) {
  double stack[64];
  uint32_t top = 0;
  for (uint32_t i = 0; i < e.n; i++) {
    const ExNode *node = &e.nodes[i];
    double arg[3] = {0};
    uint32_t n = node->kind == EX_OP ? ir_ops[node->op].n_min : 0;
    memcpy(arg, &stack[top -= n], n * sizeof *arg);
    switch ((ExKind)node->kind) {
    case EX_ARG: stack[top++] = x[node->arg]; break;
    case EX_Y: stack[top++] = y; break;
    case EX_NUM: stack[top++] = node->num; break;
    case EX_ATTR: stack[top++] = pointwise_number((Key)node->arg); break;
    case EX_G: stack[top++] = 1; break;
    case EX_SAME: return NAN;  // random rows only
    case EX_OP: {
      Expr inner = ir_forward((Op)node->op);
      stack[top++] = inner.n ? pointwise_expr(inner, arg, 0) : ir_primitive((Op)node->op, arg[0], arg[1], arg[2]);
    }
    }
  }
  return top ? stack[0] : 0;
}

static inline double pointwise_value(Op op, const double x[3]) {
  Expr e = ir_forward(op);
  return e.n ? pointwise_expr(e, x, 0) : ir_primitive(op, x[0], x[1], x[2]);
}

static inline double pointwise_gradient(Op op, uint32_t k, const double x[3]) {  // of operand k; 0: none flows
  return pointwise_expr(ir_gradient(op, k), x, pointwise_value(op, x));
}

#endif
