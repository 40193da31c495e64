// Cost model: a rough run time of kernels, enough to decide how many workers are worth waking.
#include "codegen/module/module.h"
#include "ir/attention.h"

enum {
  FMAS_PER_NS = 20,       // per worker, vectors and tails mixed
  WORDS_PER_NS = 4,       // elements of pointwise and row kernels
  GEMM_FMAS_PER_NS = 40,  // products: compute, and loads of operands
  READS_PER_NS = 25,
  KERNEL_NS = 10,    // call overhead
  WORKER_NS = 2000,  // work per worker, at least: below, wake-up and barrier cost more than they gain
  MAX_WORKERS = 64,
  MOST_NS = WORKER_NS * MAX_WORKERS
};

static double bound_of(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  double n = 1;
  for (uint32_t k = 0; k < ir_rank(f->prog, ins->shape); k++)
    n *= (double)ir_dim_fit(f->prog, ir_dim_at(f->prog, ins->shape, k));
  return n;
}

static double last_bound(const Fn *f, Val v, uint32_t from_end) {
  Shape s = ir_ins(f, v)->shape;
  uint32_t rank = ir_rank(f->prog, s);
  return rank < from_end ? 1 : (double)ir_dim_fit(f->prog, ir_dim_at(f->prog, s, rank - from_end));
}

static double ns_of_all(const Fn *f);

static double ns_of(const Fn *f, Val v) {
  const Ins *ins = ir_ins(f, v);
  double most = bound_of(f, v), rows, weights;
  Val w_ih;
  for (uint32_t k = 0; k < ins->n_args; k++) {
    double n = bound_of(f, ir_arg(f, v, k));
    if (n > most) most = n;
  }
  switch (ir_ops[ins->op].cls) {
  case CLASS_MARK:
  case CLASS_LEAF:
  case CLASS_VIEW: return 0;
  case CLASS_GEMM: {
    bool ta = ins->op == OP_matmul && ir_attr(f, v, KEY_ta);
    return most / READS_PER_NS + bound_of(f, v) * last_bound(f, ir_arg(f, v, 0), ta ? 2 : 1) / GEMM_FMAS_PER_NS;
  }
  case CLASS_RNN:
    rows = last_bound(f, ir_arg(f, v, ins->op == OP_rnn_seq ? 0 : 5), 2);
    weights = bound_of(f, ir_arg(f, v, ins->op == OP_rnn_seq ? 2 : 4));
    if (!ir_none(w_ih = ir_rnn_input_weight(f, v))) weights += bound_of(f, w_ih);
    return most / WORDS_PER_NS + rows * weights / FMAS_PER_NS;
  case CLASS_SCAN: {
    Scan s = ir_scan_at(f, v);
    Dim steps = s.live.i ? ir_dim_at(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape, 1) : s.steps;
    return most / WORDS_PER_NS + (double)ir_dim_fit(f->prog, steps) * ns_of_all(s.body);
  }
  case CLASS_ATTN: {
    Attention a;
    ir_attention(f, v, &a);
    double pairs = (double)ir_dim_bound(f->prog, a.batch) * (double)a.heads * (double)ir_dim_bound(f->prog, a.tq) *
                   (double)ir_dim_bound(f->prog, a.tk);
    return most / WORDS_PER_NS + pairs * (double)a.size * (ins->op == OP_sdpa ? 2 : 5) / FMAS_PER_NS;
  }
  default: return most / WORDS_PER_NS;
  }
}

static double ns_of_all(const Fn *f) {
  double ns = 0;
  for (uint32_t k = 0; k < f->n_kernels && ns < MOST_NS; k++) {
    const Kernel *kernel = &f->kernels[k];
    ns += KERNEL_NS;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++)
      if (f->ins[i].op != OP_result) ns += ns_of(f, (Val){i});
  }
  return ns;
}

// From bounds of dims only: the same on every machine. A guarded arena always uses the team.
uint32_t cg_max_workers(const Fn *f) {
  double n = ns_of_all(f) / WORKER_NS;
  return f->prog->guarded_arena || n >= MAX_WORKERS ? MAX_WORKERS : n < 2 ? 1 : (uint32_t)n;
}
