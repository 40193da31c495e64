// What the emitters of optimizer updates share: a rule with its numbers, and the call of its loop.
#ifndef TN_CODEGEN_MEMORY_OPTIMIZER_H
#define TN_CODEGEN_MEMORY_OPTIMIZER_H

#include "codegen/cg.h"

enum { MAX_TENSORS = 4, MAX_SCALARS = 5 };

typedef struct {
  Op op;
  double beta1, beta2, eps, dampening;
  bool decays, decoupled, nesterov;  // decays: the weight decay is not a constant 0
  bool scales_gradient;              // the gradient is multiplied by the last scalar
  bool zero_gradient;                // none is read: it is zero
} UpdateRule;

typedef struct {
  UpdateRule rule;
  Val v;  // the update that they are of
  LLVMValueRef s[MAX_SCALARS];
} UpdateScalars;

void cg_update_scalars(Cg *c, UpdateScalars *m, Val v);
// Elements [lo, hi) of the tensors x, the last of which is the gradient.
void cg_update_call(Cg *c, UpdateScalars *m, LLVMValueRef *x, LLVMValueRef lo, LLVMValueRef hi);
void cg_emit_sparse_update(Cg *c, UpdateScalars *m, Val v);            // optimizer_sparse.c: adamw_sparse
int64_t cg_update_scratch_bytes(const Fn *f, Val v, const Target *t);  // of a sparse update; 0 for others
int64_t cg_global_norm_scratch_bytes(const Fn *f, Val v, const Target *t);

#endif
