// Cost model: a rough run time of kernels, enough to decide how many workers are worth waking.
#include "codegen/module/kernel_text.h"
#include "codegen/module/module.h"
#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/passes/plan.h"
#include "ir/scan.h"

// ns of a kernel = KERNEL_NS + by instruction: elements of its largest operand or result / row.elements + work / row.rate,
// with the row of its class in ir/kernels.def.
enum {
  KERNEL_NS = 10,    // call overhead
  WORKER_NS = 2000,  // least work per worker: below it, wake-up and barrier cost more than they gain
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

// ---- work: FMAs
static double work_none(const Fn *f, Val v) {
  (void)f, (void)v;
  return 0;
}

static double work_conv(const Fn *f, Val v) {
  Conv c;
  ir_conv(f, v, &c);
  double pixels = bound_of(f, c.y) / (double)cg_larger(1, c.o);
  return pixels * (double)ir_conv_taps(&c) * (double)(c.c * c.o / c.groups);
}

static double work_gemm(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_conv || ir_ins(f, v)->op == OP_conv_transpose) return work_conv(f, v);
  bool ta = ir_ins(f, v)->op == OP_matmul && ir_attr(f, v, KEY_ta);
  return bound_of(f, v) * last_bound(f, ir_arg(f, v, 0), ta ? 2 : 1);
}

static double work_linalg(const Fn *f, Val v) {
  double products = bound_of(f, v) * last_bound(f, ir_arg(f, v, 0), 1);
  switch (ir_ins(f, v)->op) {
  case OP_solve_triangular: return products / 2;
  case OP_lu_solve: return products;
  case OP_lu: return products / 3;
  case OP_qr: return products * 2;
  case OP_eigh:  // about six cycles of pairs of rows
  case OP_svd: return 18 * bound_of(f, ir_arg(f, v, 0)) * last_bound(f, ir_arg(f, v, 0), 2);
  default: return products / 6;
  }
}

static double work_rnn(const Fn *f, Val v) {
  bool forward = ir_ins(f, v)->op == OP_rnn_seq;
  double rows = last_bound(f, ir_arg(f, v, forward ? 0 : 5), 2), weights = bound_of(f, ir_operand(f, v, ARG_w_hh));
  Val w_ih = ir_operand(f, v, ARG_w_ih);
  return rows * (ir_none(w_ih) ? weights : weights + bound_of(f, w_ih));
}

static double work_attention(const Fn *f, Val v) {
  Attention a;
  ir_attention(f, v, &a);
  double keys = (double)ir_dim_bound(f->prog, a.tk), seen = (double)a.window * (a.causal ? 1 : 2);
  double pairs = (double)ir_dim_bound(f->prog, a.batch) * (double)a.heads * (double)ir_dim_bound(f->prog, a.tq) *
                 (a.window && seen < keys ? seen : keys);
  Op op = ir_ins(f, v)->op;
  return pairs * (double)a.size * (op == OP_sdpa_grad ? 5 : 2);
}

static Dim steps_of(const Fn *f, Val v) {
  Scan s = ir_scan_at(f, v);
  return s.live.i ? ir_dim_at(f->prog, ir_ins(f, ir_arg(f, v, 0))->shape, 1) : s.steps;
}

static double work_scan(const Fn *f, Val v) {  // ns
  return (double)ir_dim_fit(f->prog, steps_of(f, v)) * ns_of_all(ir_scan_at(f, v).body);
}

// ---- time
typedef struct {
  double (*work)(const Fn *f, Val v);
  double elements, rate;  // per ns of one worker, vectors and tails mixed
} CostRow;
#define CLASS(id, name, kernel, flags, emit, scratch, elements, work, rate, base, per, doc) \
  [CLASS_##id] = {work_##work, elements, rate},
static const CostRow costs[N_CLASSES] = {
#include "ir/kernels.def"
};

// Elements of the largest operand or result.
static double most_elements(const Fn *f, Val v) {
  double most = bound_of(f, v);
  for (uint32_t k = 0; k < ir_ins(f, v)->n_args; k++) {
    double n = bound_of(f, ir_arg(f, v, k));
    if (n > most) most = n;
  }
  return most;
}

static double ns_of(const Fn *f, Val v) {
  const CostRow *row = &costs[ir_ops[ir_ins(f, v)->op].cls];
  return row->elements == 0 ? 0 : most_elements(f, v) / row->elements + row->work(f, v) / row->rate;
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

// ---- arithmetic that a run must do
static double flops_of(const Fn *f, Val v) {
  OpClass cls = (OpClass)ir_ops[ir_ins(f, v)->op].cls;
  if (cls == CLASS_SCAN) {
    Scan s = ir_scan_at(f, v);
    return (double)ir_dim_fit(f->prog, steps_of(f, v)) * cg_flops(s.body);
  }
  if (costs[cls].work != work_none) return 2 * costs[cls].work(f, v);
  bool computes = cls != CLASS_INDEX && (ir_classes[cls].flags & (BY_ELEMENT | ROUNDS)),
       copies = ir_ins(f, v)->op == OP_output || ir_ins(f, v)->op == OP_copy;
  return computes && !copies && ir_ins(f, v)->dtype == DT_F32 ? most_elements(f, v) : 0;
}

double cg_multiply_adds(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_result) return 0;
  OpClass cls = (OpClass)ir_ops[ir_ins(f, v)->op].cls;
  if (cls == CLASS_SCAN) return f->ins[v.i].op == OP_scan ? flops_of(f, v) / 2 : 0;
  return costs[cls].work == work_none ? 0 : costs[cls].work(f, v);
}

double cg_kernel_flops(const Fn *f, const Kernel *k) {
  double sum = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (f->ins[i].op != OP_result && !ir_is_output_alias(f, (Val){i})) sum += flops_of(f, (Val){i});
  return sum;
}

double cg_flops(const Fn *f) {
  double sum = 0;
  for (uint32_t k = 0; k < f->n_kernels; k++) sum += cg_kernel_flops(f, &f->kernels[k]);
  return sum;
}

// ---- workers
// From bounds of dims only: the same on every machine. A guarded arena always uses the team.
uint32_t cg_max_workers(const Fn *f) {
  double n = ns_of_all(f) / WORKER_NS;
  return f->prog->guarded_arena || n >= MAX_WORKERS ? MAX_WORKERS : n < 2 ? 1 : (uint32_t)n;
}
