// What the emitters of optimizer updates share: a rule with its numbers, and the call of its loop.
#ifndef TN_CODEGEN_MEMORY_OPTIMIZER_H
#define TN_CODEGEN_MEMORY_OPTIMIZER_H

#include "codegen/cg.h"
#include "ir/optimizers.h"

enum { MAX_TENSORS = 5, MAX_SCALARS = IR_UPDATE_INPUTS + 1 };

typedef struct {
  const IrUpdate *row;
  Op op;
  double key[IR_UPDATE_KEYS];  // numbers of the attributes that the row reads; of flags 0 or 1
  bool has_key[IR_UPDATE_KEYS];
  bool scales_gradient;  // the gradient is multiplied by the last scalar
  bool zero_gradient;    // none is read: it is zero
} UpdateRule;

typedef struct {
  UpdateRule rule;
  Val v;  // the update that they are of
  V s[MAX_SCALARS];
  V when;  // i1: there is something to do; NULL: always
  V room;  // on the stack, where they are computed
} UpdateScalars;

void cg_update_scalars(Cg *c, UpdateScalars *m, Val v);
// Elements [lo, hi) of the tensors x, the last of which is the gradient.
void cg_update_call(Cg *c, UpdateScalars *m, V *x, V lo, V hi);
void cg_emit_sparse_update(Cg *c, UpdateScalars *m, Val v);            // optimizer_sparse.c: adamw_sparse
int64_t cg_update_scratch_bytes(const Fn *f, Val v, const Target *t);  // of a sparse update; 0 for others
int64_t cg_global_norm_scratch_bytes(const Fn *f, Val v, const Target *t);

#endif
