// Blocks of transformers as models written for PyTorch have them: rows of bench/sweep.def. bench/peers/torch_heads.py has the same,
// under the same names.
#ifndef TN_BENCH_HEADS_H
#define TN_BENCH_HEADS_H

#include "frontend/tenure.h"

typedef struct {
  int64_t wide, heads, kv_heads, inner;  // inner: between the layers of the feed-forward part
} HeadSizes;
#define SIZES(...) ((HeadSizes){__VA_ARGS__})

tn_module *heads_make_gpt(tn_module *net, HeadSizes s);
tn_tensor heads_gpt(tn_module *m, tn_tensor x, HeadSizes s);
tn_module *heads_make_llama(tn_module *net, HeadSizes s);
tn_tensor heads_llama(tn_module *m, tn_tensor x, HeadSizes s);
tn_module *heads_make_vit(tn_module *net, HeadSizes s);
tn_tensor heads_vit(tn_module *m, tn_tensor x, HeadSizes s);
tn_module *heads_make_swin(tn_module *net, HeadSizes s, int64_t side);
tn_tensor heads_swin(tn_module *m, tn_tensor x, HeadSizes s, int64_t side);
tn_module *heads_make_cross(tn_module *net, HeadSizes s);
tn_tensor heads_cross(tn_module *m, tn_tensor x, tn_tensor memory, HeadSizes s);
tn_tensor heads_decode(tn_module *m, tn_tensor x, tn_tensor k, tn_tensor v, HeadSizes s);
#endif
