// Attention, its masks and weights, and caches of keys and values.
#ifndef TN_FRONTEND_MODULE_ATTENTION_H
#define TN_FRONTEND_MODULE_ATTENTION_H

#include "frontend/graph/function.h"
#include "frontend/graph/module.h"

// Where a function writes a cache of keys and values of so many steps.
typedef struct FeCacheWrite {
  const tn_function *function;
  Loc loc;
  int64_t steps;
} FeCacheWrite;

// ---- attention.c
// if they are asked for: poison until they are made
void fe_poison_weights(const tn_attention_options *o, tn_function *f);
// fe_join of the operands and what the options name; poisons the weights
bool fe_join_attention(const char *call, const tn_tensor *x, uint32_t n, const tn_attention_options *o,
                       tn_function **f);
bool fe_check_attention(tn_function *f, const tn_attention_options *o);  // false: reported
// sdpa of n tensor operands, as the op takes them; rank: the rank of the caller's values. Weights that are
// asked for: [B,H,Tq,Tk]
tn_tensor fe_attention(tn_tensor *a, uint32_t n, uint32_t rank, const tn_attention_options *o, tn_site at);
// The same weights as the options ask for, without axes that the caller's values do not have, as a result of
// `call`
void fe_give_weights(const char *call, const tn_attention_options *o, bool has_batch, bool has_heads, tn_site at);
tn_tensor fe_attend(tn_module *m, tn_tensor x, tn_site at);  // self-attention, as tn_call runs it
tn_tensor fe_attention_of(tn_module *m, tn_tensor q, tn_tensor k, tn_tensor v, tn_attention_options o);

// ---- attention_weights.c
// What an sdpa reads: n tensor operands, its bias, the layouts of packed rows; each may be empty.
typedef struct {
  const tn_tensor *in;
  uint32_t n;
  tn_tensor bias, layout, kv_layout;
} FeAttended;
// [B,H,Tq,Tk] of the sdpa y; stream: of its dropout, 0: none
tn_tensor fe_attention_weights(const FeAttended *a, tn_tensor y, uint32_t stream, const tn_attention_options *o,
                               tn_site at);

// ---- slots.c: what tn_slot_attend does, whose operands are living values of one function. Of the options scale and window
tn_tensor fe_slot_attend(tn_module *cache, const struct tn_slot_run *run, tn_tensor q, tn_tensor k, tn_tensor v,
                         tn_attention_options o);

// ---- attention_mask.c: bool, as broadcasts to [B,H,Tq,Tk]; empty: every query sees every key
tn_tensor fe_visible_keys(tn_function *f, Dim n_queries, Dim n_keys, const tn_attention_options *o, tn_site at);

#endif
