// Shape rules of attention (see attention.h), and what the others read from such an instruction.
#include "ir/attention.h"
#include "ir/shape/infer.h"

#include <math.h>

enum { MOST_SIZE = 8192 };  // of a head: blocks of 32 keys and values lie on the stack

static Shape shape_at(const Fn *f, Val v, uint32_t k) { return ir_ins(f, ir_arg(f, v, k))->shape; }
static Dim dim_at(const Fn *f, Val v, uint32_t k, uint32_t axis) { return ir_dim_at(f->prog, shape_at(f, v, k), axis); }
static int64_t size_at(const Fn *f, Val v, uint32_t k, uint32_t axis) {
  return ir_dim_bound(f->prog, dim_at(f, v, k, axis));
}

// q, k and v: the first operands.
static uint32_t n_tensors(const Fn *f, Val v) { return 1u + ir_has_operand(f, v, ARG_k) + ir_has_operand(f, v, ARG_v); }

// Parts of a packed operand [B,T,n,H,D] stand side by side in a row.
static AttnPlace packed(const Attention *a, uint32_t operand, int64_t part, int64_t n) {
  int64_t width = a->heads * a->size;
  return (AttnPlace){operand, part * width, a->size, n * width};
}

void ir_attention(const Fn *f, Val v, Attention *a) {
  *a = (Attention){.n_in = n_tensors(f, v)};
  a->causal = ir_attr(f, v, KEY_causal), a->lengths = ir_operand(f, v, ARG_lengths);
  a->inside = a->n_in < 3 || ir_attr(f, v, KEY_heads_inside);
  uint32_t rank = ir_rank(f->prog, shape_at(f, v, 0)), time = a->inside ? 1 : 2, last = a->n_in - 1;
  a->batch = dim_at(f, v, 0, 0);
  a->heads = size_at(f, v, 0, a->inside ? rank - 2 : 1), a->size = size_at(f, v, 0, rank - 1);
  a->tq = dim_at(f, v, 0, time), a->tk = dim_at(f, v, last, time);
  a->scale = ir_attr_num(f, v, KEY_scale, a->size ? 1 / sqrt((double)a->size) : 1);
  a->p = ir_attr_num(f, v, KEY_p, 0);
  a->out = a->inside ? packed(a, 0, 0, 1) : (AttnPlace){0, 0, 0, a->size};
  for (uint32_t r = 0; r < N_ATTN_ROLES; r++) {
    if (a->n_in == 1) a->place[r] = packed(a, 0, r, 3);
    else if (a->n_in == 2) a->place[r] = r == ATTN_Q ? packed(a, 0, 0, 1) : packed(a, 1, r - 1, 2);
    else a->place[r] = a->out, a->place[r].operand = r;
  }
}

// ---- the rule
static uint16_t fault(const Infer *r, uint16_t id, const char *text) {
  rt_text_add(r->why, "%s", text);
  for (uint32_t k = 0; k < ir_ins(r->f, r->v)->n_args && k < 7; k++) {
    rt_text_add(r->why, k ? ", %s" : "; operands are %s", ir_dtype_name[ir_ins(r->f, ir_arg(r->f, r->v, k))->dtype]);
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

static uint16_t check_operands(const Infer *r, uint32_t n) {
  const Fn *f = r->f;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t rank = n == 3 || (n == 2 && k == 0) ? 4 : 5;
    if (ir_rank(f->prog, shape_at(f, r->v, k)) == rank) continue;
    return fault(r, E_SHAPE,
                 n == 3   ? "q, k and v have rank 4"
                 : n == 2 ? "q is [B,T,H,D] and kv is [B,T,2,H,D]"
                          : "qkv is [B,T,3,H,D]");
  }
  if (n < 3 && !is_size(r, n - 1, 2, n == 1 ? 3 : 2)) return fault(r, E_SHAPE, "the packed axis has another size");
  return 0;
}

static uint16_t check_sizes(const Infer *r, uint32_t n) {
  bool inside = n < 3 || ir_attr(r->f, r->v, KEY_heads_inside);
  uint32_t rank = n == 1 ? 5 : 4, heads = inside ? rank - 2 : 1, last = rank - 1;
  if (!is_const(r, 0, heads) || !is_const(r, 0, last))
    return fault(r, E_SHAPE, "the number of heads and their size must be constants");
  if (size_at(r->f, r->v, 0, last) > MOST_SIZE) return fault(r, E_SHAPE, "a head has at most 8192 elements");
  for (uint32_t k = 1; k < n; k++) {
    uint32_t end = n == 2 ? 4 : 3;
    if (!same_dim(r, k, 0, 0, 0) || !same_dim(r, k, inside ? end - 1 : 1, 0, heads) || !same_dim(r, k, end, 0, last))
      return fault(r, E_SHAPE, "batch, heads and head size must agree");
  }
  uint32_t time = inside ? 1 : 2;
  if (n == 3 && !same_dim(r, 1, time, 2, time)) return fault(r, E_SHAPE, "k and v have another number of steps");
  uint32_t lengths = ir_operand_at(r->f, r->v, ARG_lengths);
  bool has_lengths = lengths != UINT32_MAX;
  if (has_lengths && (ir_rank(r->f->prog, shape_at(r->f, r->v, lengths)) != 1 || !same_dim(r, lengths, 0, 0, 0)))
    return fault(r, E_SHAPE, "lengths are [B]");
  double p = ir_attr_num(r->f, r->v, KEY_p, 0);
  if (!(p >= 0 && p < 1)) return fault(r, E_ARGUMENT, "{p} must lie in [0, 1)");
  return 0;
}

static Shape out_shape(Prog *p, const Attention *a) {
  Dim h = ir_dim(p, a->heads), d = ir_dim(p, a->size);
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
  ir_attention(f, v, &a);
  Shape out = out_shape(p, &a), lse = ir_shape(p, (Dim[]){a.batch, ir_dim(p, a.heads), a.tq}, 3);
  if (ir_ins(f, v)->op == OP_sdpa) {
    set(r, 0, DT_F32, out);
    set(r, 1, DT_F32, lse);
    return 0;
  }
  if (shape_named(r, ARG_out).i != out.i || shape_named(r, ARG_lse).i != lse.i || shape_named(r, ARG_g).i != out.i)
    return fault(r, E_SHAPE, "the result, its row sums or its gradient have another shape");
  for (uint32_t k = 0; k < 3; k++) set(r, k, DT_F32, k < n ? shape_at(f, v, k) : ir_shape_ints(p, (int64_t[]){0}, 1));
  return 0;
}
