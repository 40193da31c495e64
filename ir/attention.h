// What pass, interpreter and code generator read from an `sdpa` or `sdpa_grad` instruction.
//
//   sdpa %q, %k, %v            q [B,H,Tq,D], k and v [B,H,Tk,D]; {heads_inside}: [B,T,H,D]
//   sdpa %q, %kv               q [B,Tq,H,D], kv [B,Tk,2,H,D] as operand k
//   sdpa %qkv                  [B,T,3,H,D] as operand q, as one projection computes it
//   sdpa %qkv, lengths=%n      i64 [B]: keys from a sequence's length on are masked
//
// Nothing of size Tq x Tk is ever a value: forward stores ln sum e^score of each row, [B,H,Tq], and backward recomputes
// the scores.
#ifndef TN_IR_ATTENTION_H
#define TN_IR_ATTENTION_H

#include "ir/ir.h"

// The parts of a head, and where each is among the operands.
typedef enum { ATTN_Q, ATTN_K, ATTN_V, N_ATTN_ROLES } AttnRole;

// Element (b, h, t, d) of a role lies at offset + b * batch + h * head + t * row + d; all in elements. The strides are
// of constants and dims: time and the batch's stride may be known at run time only.
typedef struct {
  uint32_t operand;      // which tensor operand holds it
  int64_t offset, head;  // head: 0 where a head is a whole [T,D] block, whose stride is T * row
  int64_t row;
} AttnPlace;

typedef struct {
  uint32_t n_in;  // tensor operands: 1, 2 or 3
  bool causal, inside;
  Val lengths;  // none: all keys count
  double scale, p;
  Dim batch, tq, tk;
  int64_t heads, size;
  AttnPlace place[N_ATTN_ROLES], out;  // out: of the result, of its gradient too
} Attention;

// Reads the instruction at v, whose operands fit (ir_infer has run).
void ir_attention(const Fn *f, Val v, Attention *a);

#endif
