// The reference interpreter: the oracle that compiled code is compared with.
//
// Instructions run in order. Every value is an array of doubles: f32 is not rounded, i64 is exact up to 2^53, a packed
// layout holds its words (runtime/abi.h). Written to be read, not to be fast.
//
// With env.single f32 is rounded: pointwise ops then give the bits of compiled code wherever these are rounded once
// (ir_is_rounded_once), so that what a pass makes of a program can be held against the program itself.
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

// ---- leaves
static bool bind(Run *r, Val v, const Tensor *src, const char *what, int64_t index) {
  Tensor t = run_result(r, v, 0);
  if (src->n != t.n)
    return run_fail(r, v, "%s %lld has %lld elements, its shape takes %lld", what, (long long)index, (long long)src->n,
                    (long long)t.n);
  if (t.n) memcpy(t.v, src->v, (size_t)t.n * sizeof(double));
  return true;
}

static bool run_input(Run *r, Val v) {
  int64_t k = ir_attr_int(r->f, v, KEY_index, 0);
  return bind(r, v, &r->env->in[k], "input", k);
}

static bool run_param(Run *r, Val v) {
  int64_t k = ir_attr_int(r->f, v, KEY_param, 0);
  return bind(r, v, &r->env->params[k], "parameter", k);
}

static bool run_const(Run *r, Val v) {
  run_result(r, v, 0).v[0] = ir_attr_num(r->f, v, KEY_value, 0);
  return true;
}

static bool run_dim_size(Run *r, Val v) {
  const Attr *dim = ir_attr(r->f, v, KEY_dim);
  if (!dim) return run_fail(r, v, "no {dim}");
  run_result(r, v, 0).v[0] = (double)ir_dim_eval(r->f->prog, dim->u.dim, r->env->slots);
  return true;
}

static bool run_output(Run *r, Val v) {
  Tensor src = run_arg(r, v, 0);
  Tensor *out = &r->env->out[ir_attr_int(r->f, v, KEY_index, 0)];
  *out = (Tensor){rt_alloc(r->env->mem, (size_t)src.n * sizeof(double)), src.n};
  if (src.n) memcpy(out->v, src.v, (size_t)src.n * sizeof(double));
  return true;
}

static bool run_nothing(Run *r, Val v) {
  (void)r, (void)v;
  return true;
}

static bool run_grad_of(Run *r, Val v) { return run_fail(r, v, "pass grad has not run"); }
static bool run_write(Run *r, Val v) { return run_fail(r, v, "pass functionalize has not run"); }

static bool run_loop_mark(Run *r, Val v) { return run_fail(r, v, "pass outline_scans has not run"); }

// Pointwise ops run as run_pointwise.
RunOp *const ir_run_of[N_OPS] = {
    [OP_input] = run_input,
    [OP_param] = run_param,
    [OP_const] = run_const,
    [OP_dim_size] = run_dim_size,
    [OP_result] = run_nothing,
    [OP_scope_begin] = run_nothing,
    [OP_scope_end] = run_nothing,
    [OP_move] = run_nothing,
    [OP_attach] = run_nothing,
    [OP_dispose] = run_nothing,
    [OP_output] = run_output,
    [OP_grad_of] = run_grad_of,
    [OP_write] = run_write,
    [OP_overwritten] = run_grad_of,
    [OP_clone] = run_stop_grad,
    [OP_cast] = run_cast,
    [OP_stop_grad] = run_stop_grad,
    [OP_assign] = run_assign,
    [OP_reshape] = run_reshape,
    [OP_expand] = run_expand,
    [OP_permute] = run_permute,
    [OP_slice] = run_slice,
    [OP_pad_axis] = run_pad_axis,
    [OP_concat] = run_concat,
    [OP_slice_assign] = run_slice_assign,
    [OP_index_assign] = run_index_assign,
    [OP_sum] = run_sum,
    [OP_amax] = run_amax,
    [OP_argmax] = run_argmax,
    [OP_softmax] = run_softmax,
    [OP_softmax_grad] = run_softmax_grad,
    [OP_log_softmax] = run_log_softmax,
    [OP_log_softmax_grad] = run_log_softmax_grad,
    [OP_cross_entropy_rows] = run_cross_entropy_rows,
    [OP_cross_entropy_rows_grad] = run_cross_entropy_rows_grad,
    [OP_layer_norm] = run_layer_norm,
    [OP_layer_norm_grad] = run_layer_norm_grad,
    [OP_rms_norm] = run_rms_norm,
    [OP_rms_norm_grad] = run_rms_norm_grad,
    [OP_matmul] = run_matmul,
    [OP_linear] = run_linear,
    [OP_embedding] = run_embedding,
    [OP_embedding_grad] = run_embedding_grad,
    [OP_packed_layout] = run_packed_layout,
    [OP_dense_layout] = run_dense_layout,
    [OP_pack_padded] = run_pack_padded,
    [OP_unpack_padded] = run_unpack_padded,
    [OP_seq_part] = run_seq_part,
    [OP_seq_sum] = run_seq_sum,
    [OP_seq_max] = run_seq_best,
    [OP_seq_min] = run_seq_best,
    [OP_seq_select] = run_seq_select,
    [OP_seq_broadcast] = run_seq_broadcast,
    [OP_seq_scatter] = run_seq_scatter,
    [OP_seq_softmax] = run_seq_softmax,
    [OP_seq_softmax_grad] = run_seq_softmax_grad,
    [OP_seq_reverse] = run_seq_reverse,
    [OP_seq_from_list] = run_seq_list,
    [OP_seq_to_list] = run_seq_list,
    [OP_rnn_seq] = run_rnn_seq,
    [OP_rnn_seq_grad] = run_rnn_seq_grad,
    [OP_scan_begin] = run_loop_mark,
    [OP_scan_input] = run_loop_mark,
    [OP_scan_carry] = run_loop_mark,
    [OP_scan_next] = run_loop_mark,
    [OP_scan_output] = run_loop_mark,
    [OP_scan_final] = run_loop_mark,
    [OP_scan_end] = run_loop_mark,
    [OP_scan] = run_scan,
    [OP_sdpa] = run_sdpa,
    [OP_sdpa_grad] = run_sdpa_grad,
    [OP_global_norm] = run_global_norm,
    [OP_adamw] = run_adamw,
    [OP_adamw_sparse] = run_adamw_sparse,
    [OP_sgd] = run_sgd,
    [OP_sgd_momentum] = run_sgd_momentum,
};

// ---- writes reach the parameter that they are a version of
// The parameter whose content v is, through views and earlier writes; -1: none. A partial write without {into_param}
// goes to a copy of the parameter.
static int64_t param_under(const Fn *f, Val v) {
  for (;;) {
    Val head = ir_head(f, v);
    const Ins *in = ir_ins(f, head);
    if (in->op == OP_param) return ir_attr_int(f, head, KEY_param, -1);
    const OpInfo *op = &ir_ops[in->op];
    if (!(op->flags & WRITES) && op->cls != CLASS_VIEW) return -1;
    if (op->cls == CLASS_SLICE_UPDATE && !ir_attr(f, head, KEY_into_param)) return -1;
    v = ir_arg(f, head, v.i - head.i);
  }
}

static void store_writes(Run *r, Val v) {
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_res; k++) {
    int64_t param = param_under(r->f, ir_result(v, k));
    Tensor t = r->val[v.i + k];
    if (param >= 0 && t.n) memcpy(r->env->params[param].v, t.v, (size_t)t.n * sizeof(double));
  }
}

// ---- error bars
static double largest(Tensor t) {
  double most = 0;
  for (int64_t i = 0; i < t.n; i++)
    if (isfinite(t.v[i]) && fabs(t.v[i]) > most) most = fabs(t.v[i]);
  return most;
}

static double size_of_terms(const Run *r, Val v) {
  double most = 0;
  const Ins *in = ir_ins(r->f, v);
  if (ir_ops[in->op].cls == CLASS_GEMM) {
    Sizes a = run_arg_sizes(r, v, 0), b = run_arg_sizes(r, v, 1);
    int64_t terms = a.dim[a.rank - 1] > b.dim[b.rank - 1] ? a.dim[a.rank - 1] : b.dim[b.rank - 1];
    most = largest(run_arg(r, v, 0)) * largest(run_arg(r, v, 1)) * (1 + (double)terms / 8);
  }
  for (uint32_t k = 0; k < in->n_args; k++) {
    DType t = (DType)ir_ins(r->f, ir_arg(r->f, v, k))->dtype;
    if (t == DT_F32) most = fmax(most, largest(run_arg(r, v, k)));
  }
  return most;
}

static void disturb(Run *r, Val v) {
  const Ins *in = ir_ins(r->f, v);
  bool sums = in->op == OP_seq_sum || in->op == OP_seq_softmax || in->op == OP_seq_softmax_grad;
  bool exact = in->op == OP_amax || in->op == OP_argmax || (ir_ops[in->op].cls == CLASS_SEQ && !sums);
  exact |= !ir_class_has(in->op, ROUNDS);
  double scale = exact ? 0 : size_of_terms(r, v);
  for (uint32_t k = 0; k < in->n_res && !exact; k++) {
    Tensor t = r->val[v.i + k];
    for (int64_t i = 0; i < t.n; i++) t.v[i] = run_rounded(r, t.v[i], fabs(t.v[i]) + scale);
  }
}

static void round_results(Run *r, Val v) {
  for (uint32_t k = 0; k < ir_ins(r->f, v)->n_res; k++) {
    Tensor t = r->val[v.i + k];
    if (ir_ins(r->f, ir_result(v, k))->dtype != DT_F32) continue;
    for (int64_t i = 0; i < t.n; i++) t.v[i] = run_single(r, t.v[i]);
  }
}

static bool run_one(Run *r, Val v) {
  const OpInfo *op = &ir_ops[ir_ins(r->f, v)->op];
  RunOp *run = op->is_pointwise ? run_pointwise : ir_run_of[ir_ins(r->f, v)->op];
  if (!run) return run_fail(r, v, "the interpreter does not know this operation");
  if (!run(r, v)) return false;
  if (r->env->single) round_results(r, v);
  if (r->env->noise > 0) disturb(r, v);
  if (op->flags & WRITES) store_writes(r, v);
  return true;
}

bool ir_interpret(const Fn *f, InterpEnv *env, RtText *why) {
  Run r = {f, env, rt_alloc(env->mem, f->n_ins * sizeof(Tensor)), why};
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (!run_one(&r, (Val){i})) return false;
  return true;
}
