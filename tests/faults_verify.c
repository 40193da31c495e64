// Faults of the passes that rewrite instructions: ill-formed IR, as a pass with a mistake would leave it.
#include "ir/intern.h"
#include "ir/ops.h"
#include "ir/storage.h"
#include "tests/faults.h"

static bool is_computed(const Fn *f, uint32_t i) { return op_at(f, i) != OP_result && class_at(f, i) != CLASS_LEAF; }
static Shape shape_at(const Fn *f, uint32_t i) { return f->ins[i].shape; }

static bool set_arg(Fn *f, uint32_t i, uint32_t k, uint32_t to) {
  f->args[f->ins[i].args + k] = (Val){to};
  return true;
}

// ---- operands
bool fault_operand_later(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i + 1 < f->n_ins; i++)
    if (is_computed(f, i) && f->ins[i].n_args && at(&site)) return set_arg(f, i, 0, f->n_ins - 1);
  return false;
}

bool fault_operand_none(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (is_computed(f, i) && f->ins[i].n_args && at(&site)) return set_arg(f, i, f->ins[i].n_args - 1u, 0);
  return false;
}

bool fault_operand_missing(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!is_computed(f, i) || !f->ins[i].n_args || f->ins[i].n_args != ir_ops[op_at(f, i)].n_min || !at(&site))
      continue;
    f->ins[i].n_args--;
    return true;
  }
  return false;
}

bool fault_operand_outside(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!is_computed(f, i) || !f->ins[i].n_args || !at(&site)) continue;
    f->ins[i].args = f->n_args;
    return true;
  }
  return false;
}

// ---- results and records
bool fault_result_lost(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i + 1 < f->n_ins; i++) {
    if (f->ins[i].n_res < 2 || !at(&site)) continue;
    f->ins[i].n_res--;
    return true;
  }
  return false;
}

bool fault_result_of_other(Fn *f, uint32_t site) {
  for (uint32_t i = 2; i < f->n_ins; i++)
    if (op_at(f, i) == OP_result && arg(f, i, 0) > 1 && at(&site)) return set_arg(f, i, 0, arg(f, i, 0) - 1);
  return false;
}

bool fault_op_none(Fn *f, uint32_t site) {
  if (site + 1 >= f->n_ins) return false;
  f->ins[site + 1].op = OP_none;
  return true;
}

bool fault_op_unknown(Fn *f, uint32_t site) {
  if (site + 1 >= f->n_ins) return false;
  f->ins[site + 1].op = N_OPS + 7;
  return true;
}

bool fault_dtype_unknown(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) == OP_result || !at(&site)) continue;
    f->ins[i].dtype = N_DTYPES;
    return true;
  }
  return false;
}

// ---- types
bool fault_type_shape(Fn *f, uint32_t site) {
  Dim odd = ir_dim(f->prog, 977);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!is_computed(f, i) || f->ins[i].n_res == 0 || !at(&site)) continue;
    f->ins[i].shape = ir_shape(f->prog, &odd, 1);
    return true;
  }
  return false;
}

bool fault_type_dtype(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (!is_computed(f, i) || f->ins[i].n_res == 0 || f->ins[i].dtype == DT_LAYOUT || !at(&site)) continue;
    f->ins[i].dtype = f->ins[i].dtype == DT_F32 ? DT_I64 : DT_F32;
    return true;
  }
  return false;
}

bool fault_input_negative(Fn *f, uint32_t site) {
  Dim below = ir_dim(f->prog, -1);
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) != OP_input || f->ins[i].dtype == DT_LAYOUT || !at(&site)) continue;
    f->ins[i].shape = ir_shape(f->prog, &below, 1);
    return true;
  }
  return false;
}

// A value before i of another type than its operand k has.
static uint32_t other_type(const Fn *f, uint32_t i, uint32_t k, DType wanted) {
  for (uint32_t v = 1; v < i; v++)
    if ((op_at(f, v) == OP_result || ir_ops[op_at(f, v)].n_res) && f->ins[v].dtype == wanted &&
        shape_at(f, v).i != shape_at(f, arg(f, i, k)).i)
      return v;
  return 0;
}

static bool misfit(Fn *f, uint32_t site, OpClass cls, Op op, uint32_t k, DType wanted) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) == OP_result || (op ? op_at(f, i) != op : class_at(f, i) != cls) || k >= f->ins[i].n_args) continue;
    uint32_t v = other_type(f, i, k, wanted);
    if (v && at(&site)) return set_arg(f, i, k, v);
  }
  return false;
}

bool fault_simplify_index(Fn *f, uint32_t site) { return misfit(f, site, CLASS_GATHER, OP_none, 1, DT_F32); }
bool fault_simplify_merged_output(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) != OP_output) continue;
    uint32_t v = other_type(f, i, 0, DT_F32);
    if (v && at(&site)) return set_arg(f, i, 0, v);
  }
  return false;
}

bool fault_layout_computed(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (class_at(f, i) != CLASS_POINTWISE || op_at(f, i) == OP_output || !f->ins[i].n_args) continue;
    uint32_t v = other_type(f, i, 0, DT_LAYOUT);
    if (v && at(&site)) return set_arg(f, i, 0, v);
  }
  return false;
}

// ---- updates: grad, touched, scaled
static uint32_t update_at(const Fn *f, uint32_t *site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (op_at(f, i) != OP_result && class_at(f, i) == CLASS_OPTIMIZER && !ir_updates_rows(f, (Val){i}) && at(site))
      return i;
  return 0;
}

bool fault_grad_unsummed(Fn *f, uint32_t site) {
  uint32_t u = update_at(f, &site), k = u ? ir_ops[op_at(f, u)].n_res : 0, v = u ? other_type(f, u, k, DT_F32) : 0;
  return v && set_arg(f, u, k, v);
}

bool fault_grad_scale_vector(Fn *f, uint32_t site) {
  uint32_t u = update_at(f, &site);
  bool is_last = u && ir_has_operand(f, (Val){u}, ARG_grad_scale) && !ir_has_operand(f, (Val){u}, ARG_when);
  return is_last && ir_rank(f->prog, shape_at(f, arg(f, u, 0))) && set_arg(f, u, f->ins[u].n_args - 1u, arg(f, u, 0));
}

bool fault_sparse_update_swapped(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) != OP_adamw_sparse || !at(&site)) continue;
    uint32_t index = arg(f, i, 3), g = arg(f, i, 4);
    return set_arg(f, i, 3, g) && set_arg(f, i, 4, index);
  }
  return false;
}

// An update of what another one has updated takes what that one took.
bool fault_functionalize_param_old(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) == OP_result || class_at(f, i) != CLASS_OPTIMIZER) continue;
    uint32_t newest = arg(f, i, 0);
    if (op_at(f, newest) != OP_result && class_at(f, newest) == CLASS_OPTIMIZER && at(&site))
      return set_arg(f, i, 0, arg(f, newest, 0));
  }
  return false;
}

// ---- attributes
static uint32_t with_attrs(const Fn *f, uint32_t least, uint32_t *site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->ins[i].n_attrs >= least && at(site)) return i;
  return 0;
}

bool fault_attr_twice(Fn *f, uint32_t site) {
  uint32_t i = with_attrs(f, 2, &site);
  if (i) f->attrs[f->ins[i].attrs] = f->attrs[f->ins[i].attrs + 1];
  return i;
}

bool fault_attr_unknown(Fn *f, uint32_t site) {
  uint32_t i = with_attrs(f, 1, &site);
  if (i) f->attrs[f->ins[i].attrs].key = N_KEYS;
  return i;
}

bool fault_attr_outside(Fn *f, uint32_t site) {
  uint32_t i = with_attrs(f, 1, &site);
  if (i) f->ins[i].attrs = f->n_attrs;
  return i;
}

static Attr *attr_of_kind(Fn *f, AttrKind kind, uint32_t *site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t k = 0; k < f->ins[i].n_attrs; k++) {
      Attr *a = &f->attrs[f->ins[i].attrs + k];
      if (ir_key_kind[a->key] == kind && at(site)) return a;
    }
  return NULL;
}

bool fault_attr_flag(Fn *f, uint32_t site) {
  Attr *a = attr_of_kind(f, KIND_FLAG, &site);
  if (a) a->u.i = 2;
  return a;
}

bool fault_attr_param(Fn *f, uint32_t site) {
  Attr *a = attr_of_kind(f, KIND_PARAM, &site);
  if (a) a->u.i = f->prog->n_params;
  return a;
}

bool fault_attr_dim(Fn *f, uint32_t site) {
  Attr *a = attr_of_kind(f, KIND_DIM, &site);
  if (a) a->u.dim = (Dim){0};
  return a;
}

// ---- scopes and signature
bool fault_scopes_owner(Fn *f, uint32_t site) {
  if (site + 1 >= f->n_ins) return false;
  f->ins[site + 1].scope = f->n_scopes + 3;
  return true;
}

bool fault_scopes_parent(Fn *f, uint32_t site) {
  if (site) return false;
  f->scopes[0].parent = 0;
  return true;
}

static bool same_position(Fn *f, Op op, uint32_t site) {
  uint32_t first = 0;
  for (uint32_t i = 1; i < f->n_ins; i++) {
    if (op_at(f, i) != op) continue;
    if (first && at(&site)) {
      f->ins[i].attrs = f->ins[first].attrs, f->ins[i].n_attrs = f->ins[first].n_attrs;
      return true;
    }
    first = i;
  }
  return false;
}

bool fault_input_twice(Fn *f, uint32_t site) { return same_position(f, OP_input, site); }
bool fault_output_twice(Fn *f, uint32_t site) { return same_position(f, OP_output, site); }

bool fault_plan_scans_output_count(Fn *f, uint32_t site) {
  f->n_outputs++;
  return site == 0;
}

// ---- scans
static uint32_t scan_at(const Fn *f, uint32_t *site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (op_at(f, i) == OP_scan && at(site)) return i;
  return 0;
}

static Attr *scan_attr(Fn *f, Key key, uint32_t site) {
  uint32_t i = scan_at(f, &site);
  for (uint32_t k = 0; i && k < f->ins[i].n_attrs; k++)
    if (f->attrs[f->ins[i].attrs + k].key == key) return &f->attrs[f->ins[i].attrs + k];
  return NULL;
}

bool fault_outline_scans_body_lost(Fn *f, uint32_t site) {
  Attr *a = scan_attr(f, KEY_body, site);
  if (a) a->u.s = ir_str(f->prog, "nobody");
  return a;
}

bool fault_outline_scans_capture_lost(Fn *f, uint32_t site) {
  uint32_t i = scan_at(f, &site);
  if (!i || f->ins[i].n_args < 2) return false;  // a layout alone is no capture
  f->ins[i].n_args--;
  return true;
}

bool fault_plan_scans_slice_count(Fn *f, uint32_t site) {
  Attr *a = scan_attr(f, KEY_slices, site);
  if (a) a->u.i = f->n_ins;
  return a;
}

// ---- recurrences
// The optional operand is taken for an absent one before it.
static bool slip_operand(Fn *f, Op op, ArgName name, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    Ins *ins = &f->ins[i];
    if (op_at(f, i) != op || !ins->absent || !ir_has_operand(f, (Val){i}, name) || !at(&site)) continue;
    uint32_t slot = ir_op_operand(op, name);
    while (slot && !(ins->absent >> (slot - 1) & 1)) slot--;
    if (!slot) return false;
    ins->absent &= (uint16_t)~(1u << (slot - 1));
    return true;
  }
  return false;
}

bool fault_rnn_input_operand(Fn *f, uint32_t site) { return slip_operand(f, OP_rnn_seq, ARG_w_ih, site); }
bool fault_rnn_state_operand(Fn *f, uint32_t site) { return slip_operand(f, OP_rnn_seq, ARG_h0, site); }
bool fault_grad_rnn_weight(Fn *f, uint32_t site) { return misfit(f, site, CLASS_RNN, OP_rnn_seq_grad, 4, DT_F32); }
bool fault_grad_softmax(Fn *f, uint32_t site) { return misfit(f, site, CLASS_ROW, OP_softmax_grad, 1, DT_F32); }
bool fault_grad_layer_norm(Fn *f, uint32_t site) { return misfit(f, site, CLASS_ROW, OP_layer_norm_grad, 3, DT_F32); }
bool fault_grad_rnn_gates(Fn *f, uint32_t site) { return misfit(f, site, CLASS_RNN, OP_rnn_seq_grad, 8, DT_F32); }
bool fault_grad_nll(Fn *f, uint32_t site) { return misfit(f, site, CLASS_ROW, OP_cross_entropy_rows_grad, 2, DT_F32); }
bool fault_grad_embedding(Fn *f, uint32_t site) { return misfit(f, site, CLASS_SCATTER, OP_embedding_grad, 2, DT_F32); }
bool fault_grad_attention(Fn *f, uint32_t site) { return misfit(f, site, CLASS_ATTENTION, OP_sdpa_grad, 0, DT_I64); }
