// Depthwise convolutions: as many groups as channels, one in and one out of each. Vectors lie along channels, so that all
// groups are as one whose channels do not mix.
#ifndef TN_CODEGEN_GEMM_DEPTHWISE_H
#define TN_CODEGEN_GEMM_DEPTHWISE_H

#include "codegen/gemm/conv_bands.h"

enum { DEPTHWISE_COLUMNS = 4 };  // at least so many of a unit; fewer make room for more channels

static inline bool cg_is_depthwise(const Conv *c) { return c->groups > 1 && c->c == c->groups && c->o == c->groups; }
// Its shape with all channels in one group.
static inline void cg_depthwise_shape(const Fn *f, Val v, ConvShape *s) {
  cg_conv_shape(f, v, s);
  s->src_channels = s->dst_channels = s->c.groups, s->c.groups = 1;
  s->rows = ir_conv_taps(&s->c) * s->src_channels;
}

// ---- depthwise_weight_grad.c: the gradient of its weight, v; x and g: what it is made of
bool cg_depthwise_weight_fits(const Fn *f, Val v);  // it is one, of not too many taps
int64_t cg_depthwise_weight_scratch_bytes(const Fn *f, Val v, const Target *t);
void cg_depthwise_weight_emit(Cg *c, LLVMValueRef x, LLVMValueRef g);  // of the kernel's first instruction

#endif
