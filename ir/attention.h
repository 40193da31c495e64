// What pass, interpreter and code generator read from an `sdpa`, `sdpa_grad` or `sdpa_bias_grad` instruction.
//
//   sdpa %q, %k, %v            q [B,H,Tq,D], k and v [B,G,Tk,D]; {heads_inside}: [B,T,H,D]
//   sdpa %q, %kv               q [B,Tq,H,D], kv [B,Tk,2,G,D] as operand k
//   sdpa %qkv                  [B,T,3,H,D] as operand q, as one projection computes it
//   sdpa %qkv, lengths=%n      i64 [B]: keys from a sequence's length on are masked
//   sdpa .., attn_bias=%b      f32, added to the scores: [B,H,Tq,Tk], any of them 1
//   sdpa .., layout=%L         packed rows: q [rows,H,D], kv [rows,2,G,D], ..: each sequence sees its own keys
//   sdpa .., kv_layout=%M      keys and values are rows of another layout of the same batch
//   sdpa .., offset=%o         i64 [], or [B] of each sequence: query i stands at key i + offset; {offset=4} where it is constant,
//                              else 0
//
// H is a multiple of G: head h reads keys and values of head h / (H / G). {causal}: a query sees the keys up to where it
// stands; {window=w}: only the last w of those, without {causal} those less than w away from it on either side.
//
// Nothing of size Tq x Tk is ever made: forward stores ln sum e^score of each row, [B,H,Tq] or [H,rows], and backward recomputes
// the scores.
#ifndef TN_IR_ATTENTION_H
#define TN_IR_ATTENTION_H

#include "ir/ir.h"

// The parts of a head, and where each is among the operands.
typedef enum { ATTN_Q, ATTN_K, ATTN_V, N_ATTN_ROLES } AttnRole;

// Element (b, h, t, d) of a role lies at offset + b * batch + h * head + t * row + d, in elements. Strides
// are dims: time and the batch's stride may be known at run time only.
typedef struct {
  uint32_t operand;      // which tensor operand holds it
  int64_t heads;         // that it holds
  int64_t offset, head;  // head: 0 if each head is a contiguous [T,D] block: its stride is T * row
  int64_t row;
} AttnPlace;

typedef struct {
  uint32_t n_in;  // tensor operands: 1, 2 or 3
  bool causal, inside;
  Val lengths;            // none: all keys count
  Val layout, kv_layout;  // of packed rows of queries, of keys; none: dense
  Val bias;
  bool bias_has[4];        // axes over which the bias is not broadcast: batch, heads, queries, keys
  Val offset_value;        // none: the constant
  int64_t offset, window;  // window: 0: none
  double scale, p;
  Dim batch, tq, tk;
  int64_t heads, group, size;          // group: heads that share keys and values
  AttnPlace place[N_ATTN_ROLES], out;  // out: of the result, of its gradient too
} Attention;

static inline bool ir_attention_is_packed(const Attention *a) { return a->layout.i; }

// Does what a query sees depend on its position?
static inline bool ir_attention_is_local(const Attention *a) { return a->causal || a->window; }

// Reads the instruction at v, whose operands fit (ir_infer has run).
void ir_attention(const Fn *f, Val v, Attention *a);

#endif
