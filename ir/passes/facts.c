// Facts about functions: one check per row of facts.def. They say what a pass may rely on, not that it did its work
// well: whole plans are checked by verify_plan, instructions by ir_verify.
#include "ir/fn.h"
#include "ir/ir.h"
#include "ir/ops.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/rows/rows.h"
#include "ir/storage.h"

// ---- what the instructions are
static bool has_op(const Fn *f, Op op) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].op == op) return true;
  return false;
}

static bool is_scope_mark(Op op) {
  return ir_ops[op].cls == CLASS_MARK && op != OP_write && op != OP_overwritten && op != OP_grad_of;
}

static bool holds_SCOPES(const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (is_scope_mark((Op)f->ins[i].op)) return false;
  return true;
}

static bool holds_APART(const Fn *f) {
  for (Val v = {1}; v.i < f->n_ins; v.i++)
    if (ir_has_typed_rows(f, v) || f->ins[v.i].op == OP_rows) return false;
  return true;
}

static bool holds_VERSIONS(const Fn *f) { return !has_op(f, OP_write); }

static bool holds_BODIES(const Fn *f) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (ir_ops[f->ins[i].op].cls == CLASS_SCAN && f->ins[i].op != OP_scan) return false;
  return true;
}

static bool holds_GRADS(const Fn *f) { return !has_op(f, OP_grad_of) && !has_op(f, OP_overwritten); }

static bool holds_SHARDS(const Fn *f) { return !has_op(f, OP_shard_mean); }

static bool holds_LEAVES(const Fn *f) {
  bool *seen = rt_alloc(f->prog->mem, f->prog->n_params + 1);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (f->ins[i].op != OP_param) continue;
    int64_t param = ir_attr_int(f, (Val){i}, KEY_param, 0);
    if (seen[param]) return false;
    seen[param] = true;
  }
  return true;
}

static bool reads_content(const Fn *f, Val v, uint32_t k) {
  if (ir_ops[ir_ins(f, v)->op].cls == CLASS_VIEW) return false;
  return !(ir_operand_flags(f, v, k) & (SHAPE_ONLY | REPLACED));
}

static bool holds_COPIES(const Fn *f) {
  bool *overwritten = rt_alloc(f->prog->mem, f->n_ins);  // by value that is no view
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    if (ins->op == OP_result) continue;
    for (uint32_t k = 0; k < ins->n_args; k++)
      if (overwritten[ir_view_base(f, ir_arg(f, (Val){i}, k)).i] && reads_content(f, (Val){i}, k)) return false;
    for (uint32_t k = 0; (ir_ops[ins->op].flags & WRITES) && k < ins->n_res; k++)
      overwritten[ir_view_base(f, ir_arg(f, (Val){i}, k)).i] = true;
  }
  return true;
}

static bool holds_ORDER(const Fn *f) {
  bool *depends = rt_alloc(f->prog->mem, f->n_ins), any = false;  // by value: depends on a change of a parameter
  for (uint32_t i = 1; i < f->n_ins; i++) {
    for (uint32_t k = 0; k < f->ins[i].n_args; k++) depends[i] |= depends[ir_arg(f, (Val){i}, k).i];
    if (f->ins[i].op == OP_result) continue;
    if (any && !depends[i] && ir_may_fault(f, (Val){i})) return false;
    if (ir_writes_param(f, (Val){i})) depends[i] = any = true;
  }
  return true;
}

// ---- the tables of a plan
static bool holds_KERNELS(const Fn *f) {
  uint32_t end = 1;
  for (uint32_t k = 0; f->kernel_of && k < f->n_kernels; k++) {
    const Kernel *kernel = &f->kernels[k];
    if (kernel->first < end || kernel->n == 0 || kernel->first + kernel->n > f->n_ins) return false;
    for (uint32_t i = end; i < kernel->first; i++)
      if (f->kernel_of[i] != UINT32_MAX) return false;
    end = kernel->first + kernel->n;
    for (uint32_t i = kernel->first; i < end; i++)
      if (f->kernel_of[i] != k) return false;
  }
  return f->kernel_of != NULL;
}

static bool holds_LIVENESS(const Fn *f) {
  for (uint32_t i = 1; f->buf_of && i < f->n_ins; i++) {
    uint32_t b = f->buf_of[i];
    bool is_made = f->kernel_of[i] != UINT32_MAX;  // a leaf that nobody reads has no range
    if (b >= f->n_bufs || (b && is_made && f->bufs[b].first > f->bufs[b].last)) return false;
  }
  return f->buf_of != NULL;
}

static bool holds_OFFSETS(const Fn *f) {
  for (uint32_t i = 1; f->buf_of && i < f->n_ins; i++) {
    const Buf *b = &f->bufs[f->buf_of[i]];
    if (f->buf_of[i] && (b->seg >= N_SEGMENTS || b->offset < 0)) return false;
  }
  return f->buf_of != NULL;
}

// ---- the table
typedef enum { FORM, PLAN } FactKind;
#define FACT(n, kind, doc) {doc, holds_##n, kind},
static const struct {
  const char *doc;
  bool (*holds)(const Fn *f);
  FactKind kind;
} facts[N_FACTS] = {
#include "ir/passes/facts.def"
};

const char *ir_fact_doc(Fact fact) { return facts[fact].doc; }

uint32_t ir_find_facts(Fn *f, uint32_t wanted) {
  for (uint32_t k = 0; k < N_FACTS; k++) {
    uint32_t bit = 1u << k;
    if ((wanted & bit & ~f->facts) && facts[k].kind == FORM && facts[k].holds(f)) f->facts |= bit;
  }
  return f->facts & wanted;
}

// Known facts hold: the pass has changed no instruction since.
uint32_t ir_check_facts(Fn *f, uint32_t given) {
  for (uint32_t k = 0; k < N_FACTS; k++)
    if ((given & ~f->facts) >> k & 1 && facts[k].holds(f)) f->facts |= 1u << k;
  return f->facts & given;
}
