// Cost model: enough to decide how many workers are worth waking, and what is worth computing again.
#include "ir/passes/cost.h"
#include "ir/attention.h"
#include "ir/conv.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/passes/plan.h"
#include "ir/product.h"
#include "ir/scan.h"

// ns of a kernel = KERNEL_NS + by instruction: elements of its largest operand or result / row.elements + work / row.rate,
// with the row of its class in ir/kernels.def.
enum { KERNEL_NS = 10 };  // call overhead

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

// ---- work: FMAs
static double work_none(const Fn *f, Val v) {
  (void)f, (void)v;
  return 0;
}

static double work_conv(const Fn *f, Val v) {
  Conv c;
  ir_conv(f, v, &c);
  double pixels = bound_of(f, c.y) / (double)(c.o > 1 ? c.o : 1);
  return pixels * (double)ir_conv_taps(&c) * (double)(c.c * c.o / c.groups);
}

static double work_gemm(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_conv || ir_ins(f, v)->op == OP_conv_transpose) return work_conv(f, v);
  return bound_of(f, v) * (double)ir_dim_fit(f->prog, ir_product_terms(f, v));
}

// Values alone: reflections, then each value by 32 passes over the diagonal. With vectors: about six cycles of pairs of rows.
static double work_values(const Fn *f, Val v, Val first_vectors, Val vectors) {
  double rows = last_bound(f, ir_arg(f, v, 0), 2), work = bound_of(f, ir_arg(f, v, 0)) * rows;
  if (ir_is_read(f, first_vectors) || ir_is_read(f, vectors)) return 18 * work;
  return work * (ir_ins(f, v)->op == OP_eigh ? 1 : 1.5) +
         100 * rows * bound_of(f, ir_result(v, ir_ins(f, v)->op == OP_svd));
}

static double work_linalg(const Fn *f, Val v) {
  double products = bound_of(f, v) * last_bound(f, ir_arg(f, v, 0), 1);
  switch (ir_ins(f, v)->op) {
  case OP_solve_triangular: return products / 2;
  case OP_lu_solve: return products;
  case OP_lu: return products / 3;
  case OP_qr: return products * 2;
  case OP_eigh: return work_values(f, v, ir_result(v, 1), ir_result(v, 1));
  case OP_svd: return work_values(f, v, v, ir_result(v, 2));
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

static double work_scan(const Fn *f, Val v) {  // ns
  const double MOST_OF_STEP = 1e9;
  return (double)ir_dim_fit(f->prog, ir_scan_steps(f, v)) * ir_fn_ns(ir_scan_at(f, v).body, MOST_OF_STEP);
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

double ir_instruction_ns(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_result) return 0;
  const CostRow *row = &costs[ir_ops[ir_ins(f, v)->op].cls];
  return row->elements == 0 ? 0 : most_elements(f, v) / row->elements + row->work(f, v) / row->rate;
}

double ir_fn_ns(const Fn *f, double most) {
  double ns = 0;
  for (uint32_t k = 0; k < f->n_kernels && ns < most; k++) {
    const Kernel *kernel = &f->kernels[k];
    if (kernel->again) continue;
    ns += KERNEL_NS;
    for (uint32_t i = kernel->first; i < kernel->first + kernel->n; i++) ns += ir_instruction_ns(f, (Val){i});
  }
  return ns;
}

// ---- arithmetic that a run must do
static double flops_of(const Fn *f, Val v) {
  OpClass cls = (OpClass)ir_ops[ir_ins(f, v)->op].cls;
  if (cls == CLASS_SCAN) {
    Scan s = ir_scan_at(f, v);
    return (double)ir_dim_fit(f->prog, ir_scan_steps(f, v)) * ir_fn_flops(s.body);
  }
  if (costs[cls].work != work_none) return 2 * costs[cls].work(f, v);
  bool computes = cls != CLASS_INDEX && (ir_classes[cls].flags & (BY_ELEMENT | ROUNDS)),
       copies = ir_ins(f, v)->op == OP_output || ir_ins(f, v)->op == OP_copy;
  return computes && !copies && ir_ins(f, v)->dtype == DT_F32 ? most_elements(f, v) : 0;
}

double ir_multiply_adds(const Fn *f, Val v) {
  if (ir_ins(f, v)->op == OP_result) return 0;
  OpClass cls = (OpClass)ir_ops[ir_ins(f, v)->op].cls;
  if (cls == CLASS_SCAN) return f->ins[v.i].op == OP_scan ? flops_of(f, v) / 2 : 0;
  return costs[cls].work == work_none ? 0 : costs[cls].work(f, v);
}

double ir_kernel_flops(const Fn *f, const Kernel *k) {
  double sum = 0;
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (f->ins[i].op != OP_result && !ir_is_output_alias(f, (Val){i})) sum += flops_of(f, (Val){i});
  return sum;
}

double ir_fn_flops(const Fn *f) {
  double sum = 0;
  for (uint32_t k = 0; k < f->n_kernels; k++) sum += ir_kernel_flops(f, &f->kernels[k]);
  return sum;
}
