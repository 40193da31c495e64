// What is said of a kernel by its class: who emits it, what scratch it takes, about how long it takes to compile.
#include "codegen/gemm/gemm.h"
#include "codegen/memory/optimizer.h"
#include "codegen/reduce/column_sum.h"
#include "codegen/rnn/rnn.h"

EmitFn *cg_kernel_emitter(OpClass cls) {
  switch (cls) {
  case CLASS_POINT:
  case CLASS_INDEX: return cg_emit_pointwise;
  case CLASS_REDUCE: return cg_emit_reduce;
  case CLASS_ROW: return cg_emit_row;
  case CLASS_GEMM: return cg_emit_gemm;
  case CLASS_LAYOUT: return cg_emit_layout;
  case CLASS_PACK: return cg_emit_pack;
  case CLASS_SEQ: return cg_emit_seq;
  case CLASS_RNN: return cg_emit_rnn;
  case CLASS_ATTN: return cg_emit_attention;
  case CLASS_GATHER: return cg_emit_gather;
  case CLASS_SCATTER: return cg_emit_scatter;
  case CLASS_SLICE_UPDATE: return cg_emit_slice_update;
  case CLASS_NORM: return cg_emit_norm;
  case CLASS_OPTIM: return cg_emit_optim;
  default: return NULL;
  }
}

// ---- scratch
// A sum that a row kernel takes while it makes the elements.
static bool is_summed_by_rows(const Fn *f, Val v) {
  Shape rows;
  return f->kernels[f->kernel_of[v.i]].cls == CLASS_ROW && ir_column_sum(f, v, &rows);
}

int64_t cg_scratch_bytes(const Fn *f, Val v, const Target *t) {
  switch (ir_ins(f, v)->op) {
  case OP_rnn_seq:
  case OP_rnn_seq_grad: return cg_rnn_scratch_bytes(f, v, t);
  case OP_sdpa_grad: return cg_attention_scratch(f, v);
  case OP_adamw_sparse: return cg_sparse_update_scratch(f, v);
  case OP_global_norm: return cg_norm_scratch(f, v);
  case OP_sum:
  case OP_amax: return is_summed_by_rows(f, v) ? cg_column_sum_scratch(f, v) : cg_reduce_scratch(f, v);
  case OP_matmul:
  case OP_linear: return cg_gemm_scratch(f, v, t);
  default: return 0;
  }
}

static int64_t scratch_of(const Fn *f, Val v, const void *target) { return cg_scratch_bytes(f, v, target); }

void cg_plan_for(Prog *p, const Target *t) {
  p->target = t->facts;
  p->scratch = scratch_of, p->scratch_ctx = t;
}

// ---- the cost of compiling it, to spread kernels over modules (LPT)
uint32_t cg_kernel_compile_cost(const Kernel *k) {
  switch (k->cls) {
  case CLASS_RNN: return 40;
  case CLASS_ATTN: return 30;
  case CLASS_GEMM: return 25;
  case CLASS_ROW:
  case CLASS_REDUCE: return 8;
  case CLASS_OPTIM: return 6;
  default: return 2 + k->n / 4;
  }
}
