// Shape rules of attention (see attention.h), and what the others read from such an instruction.
#include "ir/attention.h"
#include "ir/shape/infer.h"

#include <math.h>

enum { MOST_SIZE = 8192 };  // size of a head: blocks of 32 keys and values lie on the stack

static Shape shape_at(const Fn *f, Val v, uint32_t k) { return ir_ins(f, ir_arg(f, v, k))->shape; }
static Dim dim_at(const Fn *f, Val v, uint32_t k, uint32_t axis) { return ir_dim_at(f->prog, shape_at(f, v, k), axis); }
static int64_t size_at(const Fn *f, Val v, uint32_t k, uint32_t axis) {
  return ir_dim_bound(f->prog, dim_at(f, v, k, axis));
}

// q, k and v: the first operands.
static uint32_t n_tensors(const Fn *f, Val v) { return 1u + ir_has_operand(f, v, ARG_k) + ir_has_operand(f, v, ARG_v); }

// Parts of a packed operand [B,T,n,H,D] stand side by side in a row.
static AttnPlace packed(const Attention *a, uint32_t operand, int64_t heads, int64_t part, int64_t n) {
  int64_t width = heads * a->size;
  return (AttnPlace){operand, heads, part * width, a->size, n * width};
}

static void read_bias(const Fn *f, Val v, Attention *a) {
  a->bias = ir_operand(f, v, ARG_attn_bias);
  if (ir_none(a->bias)) return;
  for (uint32_t axis = 0; axis < 4; axis++) {
    Dim d = ir_dim_at(f->prog, ir_ins(f, a->bias)->shape, axis);
    a->bias_has[axis] = !ir_dim_is_const(f->prog, d) || ir_dim_bound(f->prog, d) != 1;
  }
}

static void read_layouts(const Fn *f, Val v, Attention *a) {
  a->layout = ir_operand(f, v, ARG_layout), a->kv_layout = ir_operand(f, v, ARG_kv_layout);
  if (ir_none(a->kv_layout)) a->kv_layout = a->layout;
}

void ir_attention(const Fn *f, Val v, Attention *a) {
  *a = (Attention){.n_in = n_tensors(f, v)};
  a->causal = ir_attr(f, v, KEY_causal), a->lengths = ir_operand(f, v, ARG_lengths);
  read_layouts(f, v, a);
  a->inside = a->n_in < 3 || ir_attention_is_packed(a) || ir_attr(f, v, KEY_heads_inside);
  uint32_t rank = ir_rank(f->prog, shape_at(f, v, 0)), last = a->n_in - 1;
  a->heads = size_at(f, v, 0, a->inside ? rank - 2 : 1), a->size = size_at(f, v, 0, rank - 1);
  uint32_t kv_rank = ir_rank(f->prog, shape_at(f, v, last));
  int64_t kv_heads = size_at(f, v, last, a->inside ? kv_rank - 2 : 1);
  a->group = kv_heads ? a->heads / kv_heads : 1;
  if (ir_attention_is_packed(a)) {
    Shape of_q = ir_ins(f, a->layout)->shape, of_k = ir_ins(f, a->kv_layout)->shape;
    a->batch = ir_dim_at(f->prog, of_q, 0), a->tq = ir_dim_at(f->prog, of_q, 1), a->tk = ir_dim_at(f->prog, of_k, 1);
  } else {
    a->batch = dim_at(f, v, 0, 0);
    a->tq = dim_at(f, v, 0, a->inside ? 1 : 2), a->tk = dim_at(f, v, last, a->inside ? 1 : 2);
  }
  a->scale = ir_attr_num(f, v, KEY_scale, a->size ? 1 / sqrt((double)a->size) : 1);
  a->p = ir_attr_num(f, v, KEY_p, 0);
  a->offset_value = ir_operand(f, v, ARG_offset), a->offset = ir_attr_int(f, v, KEY_offset, 0);
  a->window = ir_attr_int(f, v, KEY_window, 0);
  read_bias(f, v, a);
  a->out = a->inside ? packed(a, 0, a->heads, 0, 1) : (AttnPlace){0, a->heads, 0, 0, a->size};
  for (uint32_t r = 0; r < N_ATTN_ROLES; r++) {
    int64_t n = r == ATTN_Q ? a->heads : kv_heads;
    if (a->n_in == 1) a->place[r] = packed(a, 0, n, r, 3);
    else if (a->n_in == 2) a->place[r] = r == ATTN_Q ? a->out : packed(a, 1, n, r - 1, 2);
    else a->place[r] = a->inside ? packed(a, r, n, 0, 1) : (AttnPlace){r, n, 0, 0, a->size};
  }
}

// ---- the rule
static uint16_t fault(const Infer *r, uint16_t id, const char *text) {
  rt_text_add(r->why, "%s", text);
  bool first = true;
  for (uint32_t k = 0; k < ir_ins(r->f, r->v)->n_args; k++) {
    if (ir_none(ir_arg(r->f, r->v, k))) continue;
    rt_text_add(r->why, first ? "; operands are %s" : ", %s",
                ir_dtype_name[ir_ins(r->f, ir_arg(r->f, r->v, k))->dtype]);
    first = false;
    ir_shape_text(r->f->prog, shape_at(r->f, r->v, k), r->why);
  }
  return id;
}

static bool is_const(const Infer *r, uint32_t k, uint32_t axis) {
  return ir_dim_is_const(r->f->prog, dim_at(r->f, r->v, k, axis));
}
static bool is_size(const Infer *r, uint32_t k, uint32_t axis, int64_t n) {
  return is_const(r, k, axis) && size_at(r->f, r->v, k, axis) == n;
}
static bool same_dim(const Infer *r, uint32_t k, uint32_t axis, uint32_t k0, uint32_t axis0) {
  return dim_at(r->f, r->v, k, axis).i == dim_at(r->f, r->v, k0, axis0).i;
}

// Operands by how many there are, dense and of packed rows.
static const char *const forms[2][3] = {
    {"qkv is [B,T,3,H,D]", "q is [B,T,H,D] and kv is [B,T,2,H,D]", "q, k and v have rank 4"},
    {"qkv of packed rows is [rows,3,H,D]", "packed q is [rows,H,D] and kv is [rows,2,H,D]",
     "q, k and v of packed rows have rank 3"}};

static bool is_packed(const Infer *r) { return ir_has_operand(r->f, r->v, ARG_layout); }
static bool is_inside(const Infer *r, uint32_t n) {
  return n < 3 || is_packed(r) || ir_attr(r->f, r->v, KEY_heads_inside);
}

static uint16_t check_operands(const Infer *r, uint32_t n) {
  uint32_t dense = is_packed(r) ? 0 : 1;  // one axis more: batch and time
  for (uint32_t k = 0; k < n; k++) {
    uint32_t rank = (n == 3 || (n == 2 && k == 0) ? 3 : 4) + dense;
    if (ir_rank(r->f->prog, shape_at(r->f, r->v, k)) != rank) return fault(r, E_SHAPE, forms[is_packed(r)][n - 1]);
  }
  if (n < 3 && !is_size(r, n - 1, 1 + dense, n == 1 ? 3 : 2))
    return fault(r, E_SHAPE, "the packed axis has another size");
  return 0;
}

// The heads of the queries are a multiple of those of operand k.
static bool divides_heads(const Infer *r, uint32_t k, uint32_t axis, int64_t heads) {
  int64_t n = size_at(r->f, r->v, k, axis);
  return is_const(r, k, axis) && (n == heads || (n > 0 && heads % n == 0));
}

static uint32_t rank_at(const Infer *r, uint32_t k) { return ir_rank(r->f->prog, shape_at(r->f, r->v, k)); }
static uint32_t heads_axis(const Infer *r, uint32_t k, uint32_t n) { return is_inside(r, n) ? rank_at(r, k) - 2 : 1; }

// Rows of q are those of the layout, rows of keys and values those of theirs, of one batch.
static uint16_t check_rows(const Infer *r, uint32_t n) {
  Val layout = ir_operand(r->f, r->v, ARG_layout), of_keys = ir_operand(r->f, r->v, ARG_kv_layout);
  if (ir_none(of_keys)) of_keys = layout;
  Shape q = ir_ins(r->f, layout)->shape, k = ir_ins(r->f, of_keys)->shape;
  if (n == 1 && of_keys.i != layout.i) return fault(r, E_SHAPE, "qkv has the rows of one layout");
  if (ir_dim_at(r->p, q, 0).i != ir_dim_at(r->p, k, 0).i)
    return fault(r, E_SHAPE, "the layouts have different batches");
  for (uint32_t j = 0; j < n; j++)
    if (dim_at(r->f, r->v, j, 0).i != ir_dim_at(r->p, j ? k : q, 2).i)
      return fault(r, E_SHAPE, "rows differ from the layout's");
  return 0;
}

static uint16_t check_sizes(const Infer *r, uint32_t n) {
  uint32_t heads = heads_axis(r, 0, n), last = rank_at(r, 0) - 1, time = is_inside(r, n) ? 1 : 2;
  if (!is_const(r, 0, heads) || !is_const(r, 0, last))
    return fault(r, E_SHAPE, "the number of heads and their size must be constants");
  if (size_at(r->f, r->v, 0, last) > MOST_SIZE) return fault(r, E_SHAPE, "a head has at most 8192 elements");
  for (uint32_t k = 1; k < n; k++) {
    if ((!is_packed(r) && !same_dim(r, k, 0, 0, 0)) || !same_dim(r, k, rank_at(r, k) - 1, 0, last))
      return fault(r, E_SHAPE, "batch and head size must agree");
    if (!divides_heads(r, k, heads_axis(r, k, n), size_at(r->f, r->v, 0, heads)))
      return fault(r, E_SHAPE, "the heads of q must be a multiple of those of k and v");
  }
  if (n == 3 && !same_dim(r, 1, heads_axis(r, 1, n), 2, heads_axis(r, 2, n)))
    return fault(r, E_SHAPE, "k and v have another number of heads");
  if (is_packed(r)) return check_rows(r, n);
  return n < 3 || same_dim(r, 1, time, 2, time) ? 0 : fault(r, E_SHAPE, "k and v have another number of steps");
}

static uint16_t check_bias(const Infer *r, const Attention *a) {
  uint32_t k = ir_operand_at(r->f, r->v, ARG_attn_bias);
  if (k == UINT32_MAX) {
    if (ir_ins(r->f, r->v)->op != OP_sdpa_bias_grad) return 0;
    return fault(r, E_SHAPE, "there is no bias to have a gradient");
  }
  const Dim full[4] = {a->batch, ir_dim(r->p, a->heads), a->tq, a->tk};
  bool fits = true;
  for (uint32_t axis = 0; fits && axis < 4; axis++)
    fits = is_size(r, k, axis, 1) || dim_at(r->f, r->v, k, axis).i == full[axis].i;
  return fits ? 0 : fault(r, E_SHAPE, "the bias is [B,H,Tq,Tk], any of which may be 1");
}

static uint16_t check_options(const Infer *r, const Attention *a) {
  const int64_t most = INT64_C(1) << 30;
  uint32_t lengths = ir_operand_at(r->f, r->v, ARG_lengths), offset = ir_operand_at(r->f, r->v, ARG_offset);
  if (lengths != UINT32_MAX && is_packed(r))
    return fault(r, E_ARGUMENT, "packed rows have lengths: those of their layout");
  if (lengths != UINT32_MAX && (rank_at(r, lengths) != 1 || !same_dim(r, lengths, 0, 0, 0)))
    return fault(r, E_SHAPE, "lengths are [B]");
  bool has_offset = offset != UINT32_MAX, is_const_offset = ir_attr(r->f, r->v, KEY_offset);
  bool is_by_sequence = has_offset && rank_at(r, offset) == 1 && dim_at(r->f, r->v, offset, 0).i == a->batch.i;
  if (has_offset && rank_at(r, offset) && !is_by_sequence) return fault(r, E_SHAPE, "the offset is a scalar, or [B]");
  if (has_offset && is_const_offset) return fault(r, E_ARGUMENT, "{offset} stands beside an operand offset");
  if ((has_offset || is_const_offset) && !ir_attention_is_local(a))
    return fault(r, E_ARGUMENT, "an offset is of {causal} or {window}, of which it has none");
  if (a->offset < -most || a->offset > most) return fault(r, E_ARGUMENT, "{offset} must lie in [-2^30, 2^30]");
  if (ir_attr(r->f, r->v, KEY_window) && (a->window < 1 || a->window > most))
    return fault(r, E_ARGUMENT, "{window} must lie in [1, 2^30]");
  return a->p >= 0 && a->p < 1 ? 0 : fault(r, E_ARGUMENT, "{p} must lie in [0, 1)");
}

static Shape out_shape(const Infer *r, const Attention *a) {
  Prog *p = r->p;
  Dim h = ir_dim(p, a->heads), d = ir_dim(p, a->size);
  if (is_packed(r)) return ir_shape(p, (Dim[]){dim_at(r->f, r->v, 0, 0), h, d}, 3);
  return a->inside ? ir_shape(p, (Dim[]){a->batch, a->tq, h, d}, 4) : ir_shape(p, (Dim[]){a->batch, h, a->tq, d}, 4);
}

uint16_t ir_rule_sdpa(const Infer *r) {
  Fn *f = r->f;
  Prog *p = r->p;
  Val v = r->v;
  uint32_t n = n_tensors(f, v);
  uint16_t id = check_operands(r, n);
  if (!id) id = check_sizes(r, n);
  if (id) return id;
  Attention a;
  uint32_t bias = ir_operand_at(f, v, ARG_attn_bias);
  if (bias != UINT32_MAX && ir_rank(p, shape_at(f, v, bias)) != 4)
    return fault(r, E_SHAPE, "the bias is [B,H,Tq,Tk], any of which may be 1");
  ir_attention(f, v, &a);
  id = check_bias(r, &a);
  if (!id) id = check_options(r, &a);
  if (id) return id;
  Shape out = out_shape(r, &a), lse = ir_shape(p, (Dim[]){a.batch, ir_dim(p, a.heads), a.tq}, 3);
  if (is_packed(r)) lse = ir_shape(p, (Dim[]){ir_dim(p, a.heads), dim_at(f, v, 0, 0)}, 2);
  if (ir_ins(f, v)->op == OP_sdpa) {
    set(r, 0, DT_F32, out);
    set(r, 1, DT_F32, lse);
    return 0;
  }
  if (shape_named(r, ARG_out).i != out.i || shape_named(r, ARG_lse).i != lse.i || shape_named(r, ARG_g).i != out.i)
    return fault(r, E_SHAPE, "the result, its row sums or its gradient have another shape");
  if (ir_ins(f, v)->op == OP_sdpa_bias_grad) {
    set(r, 0, DT_F32, shape_at(f, v, bias));
    return 0;
  }
  for (uint32_t k = 0; k < 3; k++) set(r, k, DT_F32, k < n ? shape_at(f, v, k) : ir_shape_ints(p, (int64_t[]){0}, 1));
  return 0;
}
