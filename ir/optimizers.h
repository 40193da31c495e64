// The rows of ir/optimizers.def as programs: statements over registers.
#ifndef TN_IR_OPTIMIZERS_H
#define TN_IR_OPTIMIZERS_H

#include "ir/expr.h"
#include "ir/ir.h"

// Registers are the operands of an update by their names, and these.
#define IR_UPDATE_TEMPS(X) \
  X(decay)                 \
  X(size)                  \
  X(scale)                 \
  X(part)                  \
  X(mu)                    \
  X(next_mu)               \
  X(ahead)                 \
  X(left)                  \
  X(rho)                   \
  X(adapts)                \
  X(denom)                 \
  X(change)
#define IR_REGISTER(n) IR_REG_##n,
enum {
#define OPERAND(n) IR_REG_##n = ARG_##n,
#include "ir/operands.def"
  IR_UPDATE_TEMPS(IR_REGISTER) IR_N_REGISTERS
};
#undef IR_REGISTER

// A statement: the register takes the value of a postfix expression. Beside EX_NUM and EX_OP its nodes are these.
enum {
  UP_REGISTER = EX_SAME + 1,  // arg
  UP_OPTION,                  // the attribute `arg`, or num
  UP_FLAG,                    // 1 where the attribute `arg` is present, else 0
  UP_FMA,                     // of 3
  UP_LERP,                    // of 3, the last a number
  UP_POWER                    // of 2
};
typedef struct {
  uint32_t reg;
  Expr value;
} IrLet;

enum { IR_UPDATE_INPUTS = 8, IR_UPDATE_KEYS = 8 };
typedef struct {
  const IrLet *scalars, *elements;
  uint32_t n_scalars, n_elements;
  uint32_t n_tensors;                // param, states, grad: the registers of the op's first operands
  uint8_t inputs[IR_UPDATE_INPUTS];  // registers, numbers or scalars, that the elements read
  uint32_t n_inputs;
  uint8_t keys[IR_UPDATE_KEYS];  // attributes that any statement reads
  uint32_t n_keys;
} IrUpdate;

// NULL: op is no row. beta1: as an operand, of rows that take it so. adamw_sparse has the row of adamw.
const IrUpdate *ir_update_of(Op op, bool beta1);
const IrUpdate *ir_update_at(const Fn *f, Val v);
uint32_t ir_operands_taken(uint32_t kind, uint16_t op);  // by a node of that kind

#endif
