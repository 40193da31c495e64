// GPT-2 of any size, with the names and shapes of the usual state_dict, all below `transformer`: wte.weight, wpe.weight, of layer 0 among others
// h.0.ln_1.weight and h.0.attn.c_attn.weight [width, 3 width] (stored as Conv1D has it, inputs first), ln_f.weight; lm_head.weight is wte.weight.
#ifndef GPT2_MODEL_H
#define GPT2_MODEL_H

#include "frontend/tenure.h"

typedef struct {
  int64_t words, places, width, layers, heads;
  double dropout;
  bool no_prefix;  // names without "transformer."
} Gpt2;

// The size of the model in a safetensors file; heads are those of a config.json beside it,
// else 64 wide. false: `why`
bool gpt2_size_of(const char *path, Gpt2 *g, char *why, size_t why_size);
void gpt2_make(tn_program *p, const Gpt2 *g);
// ids i64 [B,T] -> logits f32 [B,T,words]
tn_tensor gpt2_logits(tn_program *p, tn_function *f, const Gpt2 *g, tn_tensor ids);
// Adds "prefill" (ids [1,n], n <= places), "decode" (ids [1,1]), which go on behind the tokens that the cache holds and
// put out the logits of the last one, [words]; and "reset", which empties the cache.
void gpt2_add_generation(tn_program *p, const Gpt2 *g);
#endif
