// The codegen columns of ir/kernels.def: who emits a kernel, what scratch it needs, what compiling it costs.
#include "codegen/kernels.h"

#include "codegen/attention/attention.h"
#include "codegen/conv/windows.h"
#include "codegen/emitters.h"
#include "codegen/linalg/linalg.h"
#include "codegen/memory/optimizer.h"
#include "codegen/order/order.h"
#include "codegen/product/product.h"
#include "codegen/reduce/reduce.h"
#include "codegen/rnn/rnn.h"

#include <stddef.h>

typedef int64_t ScratchFn(const Fn *f, Val v, const Target *t);
typedef struct {
  EmitFn *emit;
  ScratchFn *scratch;
  uint32_t base, per;  // cost of compiling n instructions: base + n / per
} KernelInfo;

// What a row without emitter or scratch names.
#define cg_emit_none NULL
#define cg_none_scratch_bytes NULL
#define CLASS(id, name, kernel, flags, emit, scratch, elements, work, rate, base, per, doc) \
  [CLASS_##id] = {cg_emit_##emit, cg_##scratch##_scratch_bytes, base, per},
static const KernelInfo kernels[N_CLASSES] = {
#include "ir/kernels.def"
};

EmitFn *cg_kernel_emitter(OpClass cls) { return kernels[cls].emit; }

int64_t cg_scratch_bytes(const Fn *f, Val v, const Target *t) {
  ScratchFn *scratch = kernels[ir_ops[ir_ins(f, v)->op].cls].scratch;
  return scratch ? scratch(f, v, t) : 0;
}

static int64_t scratch_of(const Fn *f, Val v, const void *target) { return cg_scratch_bytes(f, v, target); }

void cg_plan_for(Prog *p, const Target *t) {
  p->target = t->facts;
  p->scratch = scratch_of, p->scratch_ctx = t;
}

uint32_t cg_kernel_compile_cost(const Kernel *k) {
  const KernelInfo *row = &kernels[k->cls];
  return row->base + (row->per ? k->n / row->per : 0);
}
