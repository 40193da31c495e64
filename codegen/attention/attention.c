// Scaled dot product attention by blocks: see ir/attention.h for the operands.
//
//            keys k0 .. k0 + keys             Scores of a block of queries and a block of keys live on the stack. Keys
//           +--------+--------+--------+      and values of a block are packed there too, once for a chunk of queries:
//   block   | S = Q K^T, P    |        |      K transposed, so that S is made by the tiles of gemm/microkernel.h, V as it is.
//   of 32   +--------+--------+--------+
//   queries | ..     | ..     |        |      Causal blocks above the diagonal are not visited.
//           +--------+--------+--------+
//
// Work is partitioned into units: nobody else writes the results of a unit, and its sums run in the order of
// keys or of queries. Bits depend neither on the team nor on the partition.
#include "codegen/attention/attention.h"
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/span.h"

#include <math.h>

// ---- geometry
static uint32_t power_below(int64_t n) {
  uint32_t p = 1;
  while (2 * (int64_t)p <= n) p *= 2;
  return p;
}

// Clamps the causal offset where all or no keys are visible, so that sums with it do not overflow.
static V offset_of(AttnCode *s) {
  Cg *c = s->c;
  if (ir_none(s->a.offset_value)) return cg_i64(c, s->a.offset);
  V far = cg_i64(c, s->a.window), at = cg_load(c, c->i64, cg_ptr(c, s->a.offset_value));
  return cg_max(c, cg_sub(c, cg_i64(c, 0), cg_add(c, s->tq, far)), cg_min(c, at, cg_add(c, s->tk, far)));
}

bool cg_attention_open(Cg *c, int64_t block_elements, AttnCode *s) {
  const Prog *p = c->f->prog;
  *s = (AttnCode){.c = c, .v = {c->k->first}};
  ir_attention(c->f, s->v, &s->a);
  const Target *t = c->t;
  int64_t vl = t->vl, tq = ir_dim_bound(p, s->a.tq), tk = ir_dim_bound(p, s->a.tk);
  if (s->a.size == 0 || s->a.heads == 0 || ir_dim_bound(p, s->a.batch) == 0) return false;
  uint32_t mr = power_below(cg_smaller(t->gemm_mr, 8));
  s->nv = t->gemm_nv;
  s->width = s->nv * vl;
  s->mr_q = power_below(cg_larger(1, cg_smaller(mr, tq))), s->mr_k = power_below(cg_larger(1, cg_smaller(mr, tk)));
  s->size_up = cg_round_up(s->a.size, vl), s->size_pad = cg_round_up(s->a.size, s->width);
  int64_t fit = block_elements / s->size_up / s->width * s->width;
  s->keys = cg_larger(s->width, cg_smaller(fit, cg_smaller(4 * s->width, cg_round_up(tk, s->width))));
  s->tq = cg_dim(c, s->a.tq), s->tk = cg_dim(c, s->a.tk), s->batch = cg_dim(c, s->a.batch);
  s->heads = cg_i64(c, s->a.heads);
  s->offset = offset_of(s);
  s->id = s->a.p > 0 ? cg_id(c, s->v) : NULL;
  return true;
}

bool cg_attention_whole(AttnCode *s, Dim steps, uint32_t mr) {
  const Prog *p = s->c->f->prog;
  return mr == 1 || (ir_dim_is_const(p, steps) && ir_dim_bound(p, steps) % mr == 0 && s->keys % mr == 0);
}

AttnRows cg_attention_rows(AttnCode *s, V base, const AttnPlace *p, V steps, V b, V h) {
  Cg *c = s->c;
  V block = cg_mul(c, steps, cg_i64(c, p->row));  // [T, ..] of one sequence, or of one head
  V off = cg_index(c, b, block, cg_mul(c, h, cg_i64(c, p->head)));
  if (!p->head) off = cg_mul(c, cg_index(c, b, cg_i64(c, p->heads), h), block);
  return (AttnRows){cg_at(c, c->f32, base, cg_add(c, off, cg_i64(c, p->offset))), p->row};
}

V cg_attention_row(AttnCode *s, AttnRows x, V t) { return cg_row(s->c, x.at, t, cg_i64(s->c, x.row)); }

V cg_attention_kv_head(AttnCode *s, V h) { return cg_div(s->c, h, cg_i64(s->c, s->a.group)); }

V cg_attention_length(AttnCode *s, V b) {
  Cg *c = s->c;
  if (ir_none(s->a.lengths)) return s->tk;
  V n = cg_get(c, c->i64, cg_ptr(c, s->a.lengths), b);
  V negative = cg_lt(c, n, cg_i64(c, 0));
  return cg_select(c, negative, cg_i64(c, 0), cg_min(c, n, s->tk));
}

V cg_attention_stack(AttnCode *s, int64_t elements) { return cg_block(s->c, s->c->f32, elements); }

// ---- packing
void cg_attention_transpose(AttnCode *s, V from, int64_t row, V n, V to) {
  Cg *c = s->c;
  V vl = cg_vl(c), end = cg_mul(c, cg_ceil_div_value(c, n, s->width), cg_i64(c, s->width));
  for (Loop key = cg_count_by(c, end, vl); cg_next(&key);) {
    for (Loop d = cg_count_by(c, cg_i64(c, s->a.size), vl); cg_next(&d);) {
      V src = cg_cell(c, from, key.i, cg_i64(c, row), d.i);
      V dst = cg_cell(c, to, d.i, cg_i64(c, s->keys), key.i);
      cg_transpose_block(c, src, cg_i64(c, row), cg_sub(c, n, key.i), cg_sub(c, cg_i64(c, s->a.size), d.i), dst,
                         cg_i64(c, s->keys));
    }
  }
}

static Span of_head(AttnCode *s) { return cg_span_masked(s->c, cg_i64(s->c, 0), cg_i64(s->c, s->a.size)); }

void cg_attention_copy(AttnCode *s, V from, int64_t row, V n, V to) {
  Cg *c = s->c;
  for (Loop key = cg_count(c, n); cg_next(&key);) {
    V src = cg_row(c, from, key.i, cg_i64(c, row));
    V dst = cg_row(c, to, key.i, cg_i64(c, s->size_pad));
    for (Span e = of_head(s); cg_next_vector(&e);) cg_put(c, cg_get_masked(c, c->vf, src, e.i, e.mask), dst, e.i);
    for (int64_t d = s->size_up; d < s->size_pad; d += c->t->vl) cg_put(c, cg_zeros(c), dst, cg_i64(c, d));
  }
}

void cg_attention_scale_row(AttnCode *s, V x, V scale) {
  Cg *c = s->c;
  View row = cg_view(x, DT_F32);
  V by = cg_splat(c, scale ? scale : cg_f32(c, 0));
  for (Span e = of_head(s); cg_next_vector(&e);)
    cg_span_put(&e, row, scale ? cg_fmul(c, cg_span_get(&e, row), by) : by);
}

// ---- products
static TileSpec spec_of(AttnCode *s, const AttnProduct *p) {
  int64_t vl = s->c->t->vl;
  return (TileSpec){.mr = p->mr,
                    .nv = s->nv,
                    .a_row = p->a_row,
                    .a_k = p->a_k,
                    .b_k = p->b_k,
                    .b_vec = vl,
                    .c_row = p->c_row,
                    .c_vec = vl,
                    .mask_from = s->nv,
                    .mask_step = vl};
}

static void rows_of_tiles(AttnCode *s, const TileSpec *spec, const TileArgs *args, const AttnProduct *p) {
  TileRows rows = {.rows = p->m, .left = p->exact || p->mr == 1 ? 0 : TILE_DYN};
  rows.a_block = cg_i64(s->c, p->mr * p->a_row);
  cg_tile_rows(s->c, spec, args, &rows);
}

void cg_attention_scores(AttnCode *s, const AttnProduct *p, V n) {
  Cg *c = s->c;
  TileSpec spec = spec_of(s, p);
  cg_tile_sum_in_parts(&spec, c->t, s->a.size, s->a.size, 1);
  for (Loop l = cg_count_by(c, n, cg_i64(c, s->width)); cg_next(&l);) {
    TileArgs args = {.a = p->a, .b = cg_at(c, c->f32, p->b, l.i), .c = cg_at(c, c->f32, p->c, l.i), .k = p->k};
    rows_of_tiles(s, &spec, &args, p);
  }
}

static void accumulate_at(AttnCode *s, const AttnProduct *p, TileSpec spec, V column) {
  Cg *c = s->c;
  TileArgs args = {.a = p->a, .b = cg_at(c, c->f32, p->b, column), .c = cg_at(c, c->f32, p->c, column), .k = p->k};
  spec.more = true;
  cg_tile_sum_in_parts(&spec, c->t, p->terms, cg_larger(s->keys, ATTN_BLOCK), 1);
  args.n = cg_sub(c, cg_i64(c, s->a.size), column);
  rows_of_tiles(s, &spec, &args, p);
}

void cg_attention_accumulate(AttnCode *s, const AttnProduct *p, bool b_is_padded) {
  Cg *c = s->c;
  TileSpec whole = spec_of(s, p), part = whole;
  int64_t vl = c->t->vl, left = s->a.size % s->width, full = s->a.size - left;
  if (full) {
    for (Loop l = cg_count_by(c, cg_i64(c, full), cg_i64(c, s->width)); cg_next(&l);) accumulate_at(s, p, whole, l.i);
  }
  if (!left) return;
  part.nv = (uint32_t)cg_ceil_div(left, vl);
  part.mask_from = left % vl ? part.nv - 1 : part.nv;
  part.mask_c = true, part.mask_b = !b_is_padded;
  accumulate_at(s, p, part, cg_i64(c, full));
}

// ---- dropout
V cg_attention_element(AttnCode *s, V b, V h, V t) {
  Cg *c = s->c;
  V row = cg_index(c, cg_index(c, b, s->heads, h), s->tq, t);
  return cg_mul(c, row, s->tk);
}

V cg_attention_dropout_scale(AttnCode *s, V row_element, V j) {
  Cg *c = s->c;
  V lane[64];
  for (uint32_t k = 0; k < c->t->vl; k++) lane[k] = cg_i64(c, k);
  V at = cg_iadd(c, cg_splat(c, cg_add(c, row_element, j)), LLVMConstVector(lane, c->t->vl));
  V count = cg_lshr(c, cg_rand_bits(c, at, s->id, 0), cg_splat(c, cg_i32(c, 8)));
  V least = cg_splat(c, cg_i32(c, (int32_t)ceil(s->a.p * 0x1p24)));
  V keep = cg_icmp(c, LLVMIntUGE, count, least);
  return cg_select(c, keep, cg_splat(c, cg_f32(c, 1 / (1 - s->a.p))), cg_zeros(c));
}

bool cg_emit_attention(Cg *c) {
  AttnCode s;
  Op op = (Op)ir_ins(c->f, (Val){c->k->first})->op;
  bool backward = op != OP_sdpa;
  if (!cg_attention_open(c, backward ? 4096 : 8192, &s)) {  // no elements
    if (op == OP_sdpa_bias_grad) cg_attention_no_bias_grad(c, (Val){c->k->first});
    return true;
  }
  if (backward) cg_attention_backward(&s);
  else cg_attention_forward(&s);
  return true;
}
