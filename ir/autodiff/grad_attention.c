// Gradient rule of attention: sdpa_grad, which makes no scores of size Tq x Tk. It has no rule of its own, so that where
// gradients are taken of these gradients the backward is products and a softmax, which have; so it is where the sums of the rows have a
// gradient. Packed rows are padded for it: the same mask of dropout, and of the bias the same elements.
//
//   s  = scale q k^T + bias, -1e30 where a query does not see a key
//   p  = softmax s                   dv = p^T g          dp = g v^T
//   ds = softmax_grad p, dp + p dlse     dq = scale ds k     dk = scale ds^T q
#include "ir/attention.h"
#include "ir/autodiff/grad.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/ops.h"

enum { N_ROLES = N_ATTN_ROLES };
static const double UNSEEN = -1e30;  // a row of these has equal weights, which are multiplied by 0

typedef struct {
  Grad *g;
  Attention a;
  Val v;              // the sdpa
  Val part[N_ROLES];  // [B,H,T,D]; those of keys and values are the same for the heads of a group
  Val sees;           // 1 where the weight may be above 0, [B,H,Tq,Tk] or what is broadcast to it; none: everywhere
} Dense;

static Shape shape4(Grad *g, Dim a, Dim b, Dim c, Dim d) { return ir_shape(g->p, (Dim[]){a, b, c, d}, 4); }
static Dim size(Grad *g, int64_t n) { return ir_dim(g->p, n); }

// ---- operands by heads, and back
static Val swap_time_and_heads(Grad *g, Val x) {
  const int64_t perm[] = {0, 2, 1, 3};
  return with_attr(g, OP_permute, x, ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, 4)));
}

static Dim steps_of(const Attention *a, AttnRole role) { return role == ATTN_Q ? a->tq : a->tk; }
static Val layout_of(const Attention *a, AttnRole role) { return role == ATTN_Q ? a->layout : a->kv_layout; }
static int64_t heads_of(const Attention *a, AttnRole role) { return role == ATTN_Q ? a->heads : a->heads / a->group; }

// Which part of its operand it is; -1: all of it
static int64_t part_of(const Attention *a, AttnRole role) {
  return a->n_in == 1 ? (int64_t)role : a->n_in == 2 && role != ATTN_Q ? (int64_t)role - 1 : -1;
}

// [rows, ..] as [B, T, ..], and back
static Val padded(const Dense *s, Val x, AttnRole role) {
  return ir_attention_is_packed(&s->a) ? op2(s->g, OP_unpack_padded, x, layout_of(&s->a, role)) : x;
}
static Val packed(const Dense *s, Val x, AttnRole role) {
  return ir_attention_is_packed(&s->a) ? op2(s->g, OP_pack_padded, x, layout_of(&s->a, role)) : x;
}

static Val by_heads(const Dense *s, AttnRole role) {
  Grad *g = s->g;
  const Attention *a = &s->a;
  Val x = padded(s, arg(g, s->v, a->place[role].operand), role);
  int64_t part = part_of(a, role), heads = heads_of(a, role);
  Dim d = size(g, a->size), t = steps_of(a, role);
  if (part >= 0) {
    x = ir_grad_part(g, x, 2, size(g, part), size(g, 1));
    x = reshape(g, x, shape4(g, a->batch, t, size(g, heads), d));
  }
  if (a->inside) x = swap_time_and_heads(g, x);
  if (heads == a->heads) return x;
  Dim of[] = {a->batch, size(g, heads), size(g, 1), t, d}, all[] = {a->batch, of[1], size(g, a->group), t, d};
  x = expand(g, reshape(g, x, ir_shape(g->p, of, 5)), ir_shape(g->p, all, 5));
  return reshape(g, x, shape4(g, a->batch, size(g, a->heads), t, d));
}

// As the operand has it, with an axis of parts where it has several.
static Val as_operand(const Dense *s, AttnRole role, Val d) {
  Grad *g = s->g;
  const Attention *a = &s->a;
  int64_t heads = heads_of(a, role);
  Dim n = size(g, a->size), t = steps_of(a, role);
  if (heads != a->heads) {
    Dim all[] = {a->batch, size(g, heads), size(g, a->group), t, n};
    d = ir_grad_sum_axes(g, reshape(g, d, ir_shape(g->p, all, 5)), (int64_t[]){2}, 1);
    d = reshape(g, d, shape4(g, a->batch, size(g, heads), t, n));
  }
  if (a->inside) d = swap_time_and_heads(g, d);
  Dim parts[] = {a->batch, t, size(g, 1), size(g, heads), n};
  return part_of(a, role) < 0 ? d : reshape(g, d, ir_shape(g->p, parts, 5));
}

static void give_operands(const Dense *s, const Val d[N_ROLES]) {
  for (uint32_t k = 0; k < s->a.n_in; k++) {
    Val x = arg(s->g, s->v, k), part[N_ROLES];
    uint32_t n = 0;
    for (uint32_t role = 0; role < N_ROLES && s->g->dep[x.i]; role++)
      if (s->a.place[role].operand == k) part[n++] = as_operand(s, (AttnRole)role, d[role]);
    Attr axis = ir_a_int(KEY_axis, 2);
    if (!n) continue;
    Val all = n == 1 ? part[0] : ir_emit(s->g->f, OP_concat, part, n, &axis, 1, s->g->loc);
    ir_grad_give(s->g, x, packed(s, all, k ? ATTN_K : ATTN_Q));
  }
}

// ---- what a query sees
// 0, 1, 2, .. along an axis of four
static Val positions(Grad *g, Dim n, uint32_t axis) {
  Dim one = size(g, 1), d[] = {one, one, one, one};
  d[axis] = n;
  Val first = number(g, 1);
  return op2(g, OP_sub, ir_grad_count(g, ir_shape(g->p, d, 4), axis), first);
}

// A number for all sequences or one for each, beside scores
static Val by_sequence(const Dense *s, Val x) {
  Grad *g = s->g;
  Dim one = size(g, 1);
  Attr f32 = ir_a_int(KEY_dtype, DT_F32);
  x = ir_emit(g->f, OP_cast, &x, 1, &f32, 1, g->loc);
  return ir_rank(g->p, shape_of(g, x)) ? reshape(g, x, shape4(g, s->a.batch, one, one, one)) : x;
}

static void also(Dense *s, Val condition) {
  s->sees = ir_none(s->sees) ? condition : op2(s->g, OP_mul, s->sees, condition);
}

static void find_seen(Dense *s) {
  Grad *g = s->g;
  const Attention *a = &s->a;
  Val lengths = a->lengths;
  if (ir_attention_is_packed(a))
    lengths = with_attr(g, OP_seq_part, a->kv_layout, ir_a_str(KEY_part, ir_str(g->p, "lengths")));
  if (!ir_attention_is_local(a) && ir_none(lengths)) return;
  Val key = positions(g, a->tk, 3), at = positions(g, a->tq, 2), window = number(g, (double)a->window);
  if (!ir_none(a->offset_value)) at = op2(g, OP_add, at, by_sequence(s, a->offset_value));
  else if (a->offset) at = op2(g, OP_add, at, number(g, (double)a->offset));
  if (a->causal) also(s, op2(g, OP_le, key, at));
  if (a->window) also(s, op2(g, OP_gt, key, op2(g, OP_sub, at, window)));
  if (a->window && !a->causal) also(s, op2(g, OP_lt, key, op2(g, OP_add, at, window)));
  if (!ir_none(lengths)) also(s, op2(g, OP_lt, key, by_sequence(s, lengths)));
}

// ---- the backward
static Val scores(Dense *s) {
  Grad *g = s->g;
  Val scale = number(g, s->a.scale), unseen = number(g, UNSEEN);
  Val x = mul(g, ir_grad_matmul(g, s->part[ATTN_Q], s->part[ATTN_K], false, true), scale);
  if (!ir_none(s->a.bias)) x = op2(g, OP_max, op2(g, OP_add, x, s->a.bias), unseen);
  if (!ir_none(s->sees)) x = ir_op3(g->f, OP_select, s->sees, x, unseen, g->loc);
  if (!ir_none(s->a.bias)) s->sees = op2(g, OP_gt, x, unseen);
  return x;
}

static Val drop(const Dense *s, Val x) {
  Attr attr[] = {ir_a_num(KEY_p, s->a.p), ir_a_int(KEY_id, ir_attr_int(s->g->f, s->v, KEY_id, 0))};
  return s->a.p > 0 ? ir_emit(s->g->f, OP_dropout, &x, 1, attr, 2, s->g->loc) : x;
}

static Val where_seen(const Dense *s, Val x) { return ir_none(s->sees) ? x : mul(s->g, x, s->sees); }

// The gradient of the sums of the rows, [B,H,Tq,1]
static Val of_sums(const Dense *s) {
  Grad *g = s->g;
  const Attention *a = &s->a;
  const int64_t perm[] = {1, 0}, back[] = {0, 2, 1};
  Val d = g->adj[s->v.i + 1];
  if (ir_attention_is_packed(a)) {
    d = with_attr(g, OP_permute, d, ir_a_list(KEY_perm, ir_shape_ints(g->p, perm, 2)));
    d = with_attr(g, OP_permute, padded(s, d, ATTN_Q), ir_a_list(KEY_perm, ir_shape_ints(g->p, back, 3)));
  }
  return reshape(g, d, shape4(g, a->batch, size(g, a->heads), a->tq, size(g, 1)));
}

static void dense(Grad *g, Val v, Val adj) {
  Dense s = {.g = g, .v = v};
  ir_attention(g->f, v, &s.a);
  for (uint32_t role = 0; role < N_ROLES; role++) s.part[role] = by_heads(&s, (AttnRole)role);
  find_seen(&s);
  if (ir_none(adj)) adj = expand(g, number(g, 0), shape_of(g, v));
  Val scale = number(g, s.a.scale), out = padded(&s, adj, ATTN_Q);
  if (s.a.inside) out = swap_time_and_heads(g, out);
  Val weights = ir_op1(g->f, OP_softmax, scores(&s), g->loc), dropped = drop(&s, where_seen(&s, weights));
  Val of_weights = where_seen(&s, drop(&s, ir_grad_matmul(g, out, s.part[ATTN_V], false, true)));
  Val d = op2(g, OP_softmax_grad, weights, of_weights);
  if (!ir_none(g->adj[v.i + 1])) d = op2(g, OP_add, d, mul(g, where_seen(&s, weights), of_sums(&s)));
  Val by_scale = mul(g, d, scale);
  Val parts[] = {ir_grad_matmul(g, by_scale, s.part[ATTN_K], false, false),
                 ir_grad_matmul(g, by_scale, s.part[ATTN_Q], true, false),
                 ir_grad_matmul(g, dropped, out, true, false)};
  give_operands(&s, parts);
  if (!ir_none(s.a.bias)) ir_grad_give(g, s.a.bias, d);
}

// The gradient ops take the same operands and attributes; both results and the incoming gradient stand before the layouts.
void ir_grad_rule_sdpa(Grad *g, Val v, Val adj) {
  static const ArgName operands[] = {ARG_q, ARG_k, ARG_v, ARG_lengths, ARG_attn_bias, ARG_offset};
  enum { N_TENSORS = 3, N_OPERANDS = sizeof operands / sizeof *operands, N = N_OPERANDS + 5 };
  Val in[N] = {[N_OPERANDS] = v, ir_result(v, 1), adj}, bias = ir_operand(g->f, v, ARG_attn_bias);
  const Ins ins = *ir_ins(g->f, v);
  const Attr *attr = g->f->attrs + ins.attrs;
  bool wants_tensors = false;
  if (g->is_nested || !ir_none(g->adj[v.i + 1])) {
    dense(g, v, adj);
    return;
  }
  for (uint32_t k = 0; k < N_OPERANDS; k++) in[k] = ir_operand(g->f, v, operands[k]);
  in[N - 2] = ir_operand(g->f, v, ARG_layout), in[N - 1] = ir_operand(g->f, v, ARG_kv_layout);
  for (uint32_t k = 0; k < N_TENSORS; k++) wants_tensors |= g->dep[in[k].i];
  if (wants_tensors) {
    Val d = ir_emit(g->f, OP_sdpa_grad, in, N, attr, ins.n_attrs, g->loc);
    for (uint32_t k = 0; k < N_TENSORS; k++)
      if (g->dep[in[k].i]) ir_grad_give(g, in[k], ir_result(d, k));
  }
  if (!ir_none(bias) && g->dep[bias.i])
    ir_grad_give(g, bias, ir_emit(g->f, OP_sdpa_bias_grad, in, N, attr, ins.n_attrs, g->loc));
}
