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
  if (ir_attention_is_packed(&s->a)) s->of_q = cg_layout_of(c, s->a.layout), s->of_k = cg_layout_of(c, s->a.kv_layout);
  s->offset = offset_of(s);
  s->id = s->a.p > 0 ? cg_id(c, s->v) : NULL;
  return true;
}

bool cg_attention_whole(AttnCode *s, Dim steps, uint32_t mr) {
  const Prog *p = s->c->f->prog;
  if (mr == 1 || ir_attention_is_packed(&s->a)) return mr == 1;
  return ir_dim_is_const(p, steps) && ir_dim_bound(p, steps) % mr == 0 && s->keys % mr == 0;
}

// ---- rows
// Where the rows of sequence b begin in the steps of a layout.
static V position_of(AttnCode *s, const CgLayout *l, V b) {
  return cg_layout_get(s->c, cg_layout_unsorted(s->c, l), b);
}

AttnRows cg_attention_rows(AttnCode *s, V base, const AttnPlace *p, bool is_query, V b, V h) {
  Cg *c = s->c;
  V in_row = cg_add(c, cg_mul(c, h, cg_i64(c, p->head)), cg_i64(c, p->offset));
  if (ir_attention_is_packed(&s->a)) {
    const CgLayout *l = is_query ? &s->of_q : &s->of_k;
    return (AttnRows){cg_at(c, c->f32, base, in_row), p->row, NULL, cg_layout_offsets(c, l), position_of(s, l, b)};
  }
  V block = cg_mul(c, is_query ? s->tq : s->tk, cg_i64(c, p->row));  // [T, ..] of one sequence, or of one head
  V off = cg_index(c, b, block, cg_mul(c, h, cg_i64(c, p->head)));
  if (!p->head) off = cg_mul(c, cg_index(c, b, cg_i64(c, p->heads), h), block);
  return (AttnRows){.at = cg_at(c, c->f32, base, cg_add(c, off, cg_i64(c, p->offset))), .row = p->row};
}

static V packed_row(AttnCode *s, V offsets, V position, V t) {
  return cg_add(s->c, cg_layout_get(s->c, offsets, t), position);
}

V cg_attention_row(AttnCode *s, AttnRows x, V t) {
  Cg *c = s->c;
  if (x.offsets) t = packed_row(s, x.offsets, x.position, t);
  if (x.first) t = cg_sub(c, t, x.first);
  return cg_row(c, x.at, t, cg_i64(c, x.row));
}

AttnNumbers cg_attention_numbers(AttnCode *s, V base, V b, V h) {
  Cg *c = s->c;
  if (!ir_attention_is_packed(&s->a)) {
    return (AttnNumbers){.at = cg_row(c, base, cg_index(c, b, s->heads, h), s->tq)};
  }
  V rows = cg_layout_get(c, s->of_q.base, cg_i64(c, TN_LAYOUT_ROWS));
  return (AttnNumbers){cg_row(c, base, h, rows), cg_layout_offsets(c, &s->of_q), position_of(s, &s->of_q, b)};
}

V cg_attention_number(AttnCode *s, AttnNumbers x, V t) {
  return cg_at(s->c, s->c->f32, x.at, x.offsets ? packed_row(s, x.offsets, x.position, t) : t);
}

V cg_attention_kv_head(AttnCode *s, V h) { return cg_div(s->c, h, cg_i64(s->c, s->a.group)); }

V cg_attention_queries(AttnCode *s, V b) {
  if (!ir_attention_is_packed(&s->a)) return s->tq;
  return cg_layout_get(s->c, cg_layout_lengths(s->c, &s->of_q), b);
}

V cg_attention_length(AttnCode *s, V b) {
  Cg *c = s->c;
  if (ir_attention_is_packed(&s->a)) return cg_layout_get(c, cg_layout_lengths(c, &s->of_k), b);
  if (ir_none(s->a.lengths)) return s->tk;
  V n = cg_get(c, c->i64, cg_ptr(c, s->a.lengths), b);
  V negative = cg_lt(c, n, cg_i64(c, 0));
  return cg_select(c, negative, cg_i64(c, 0), cg_min(c, n, s->tk));
}

// ---- units
static void steps_of_part(AttnCode *s, AttnUnits *u, V part, V steps, int64_t size) {
  Cg *c = s->c;
  u->lo = cg_mul(c, part, cg_i64(c, size));
  u->hi = size ? cg_min(c, steps, cg_add(c, u->lo, cg_i64(c, size))) : steps;
}

// Unit u of the list belongs to worker 0, 1, .., n - 1, n - 1, .., 1, 0, 0, 1, ..
static V is_own(Cg *c, V u) {
  V twice = cg_add(c, c->n_workers, c->n_workers), at = cg_rem(c, u, twice);
  V back = cg_sub(c, cg_sub(c, twice, cg_i64(c, 1)), at);
  return cg_eq(c, cg_min(c, at, back), c->worker);
}

static AttnUnits packed_units(AttnCode *s, AttnRole of, int64_t n_heads, int64_t size) {
  Cg *c = s->c;
  V heads = cg_i64(c, n_heads), one = cg_i64(c, 1);
  AttnUnits u = {.is_packed = true, .l = cg_count(c, s->batch)};
  u.b = cg_layout_get(c, cg_layout_sorted(c, &s->of_q), u.l.i);
  V steps = of == ATTN_Q ? cg_attention_queries(s, u.b) : cg_attention_length(s, u.b);
  V parts = size ? cg_ceil_div_value(c, steps, size) : one;
  u.of_sequence = cg_count(c, cg_mul(c, parts, heads));
  u.is_own = cg_when(c, is_own(c, cg_add(c, cg_mul(c, u.l.i, heads), u.of_sequence.i)));
  V part = cg_div(c, u.of_sequence.i, heads);
  u.head = cg_sub(c, u.of_sequence.i, cg_mul(c, part, heads));
  if (s->a.causal && of == ATTN_Q) part = cg_sub(c, cg_sub(c, parts, one), part);  // those that see most first
  steps_of_part(s, &u, part, steps, size);
  return u;
}

AttnUnits cg_attention_units(AttnCode *s, AttnRole of, int64_t n_heads, int64_t size) {
  Cg *c = s->c;
  if (ir_attention_is_packed(&s->a)) return packed_units(s, of, n_heads, size);
  V steps = of == ATTN_Q ? s->tq : s->tk;
  V heads = cg_i64(c, n_heads), parts = size ? cg_ceil_div_value(c, steps, size) : cg_i64(c, 1);
  AttnUnits u = {.l = cg_each_by(c, c->worker, cg_mul(c, cg_mul(c, s->batch, heads), parts), c->n_workers)};
  V flat = cg_div(c, u.l.i, parts);
  u.b = cg_div(c, flat, heads), u.head = cg_sub(c, flat, cg_mul(c, u.b, heads));
  steps_of_part(s, &u, cg_sub(c, u.l.i, cg_mul(c, flat, parts)), steps, size);
  return u;
}

bool cg_next_unit(AttnUnits *u) {
  if (!u->is_packed) return cg_next(&u->l);
  if (u->l.turn == 0) {
    u->l.turn = u->of_sequence.turn = u->is_own.turn = 1;
    return true;
  }
  cg_then(&u->is_own), cg_next(&u->of_sequence), cg_next(&u->l);
  return false;
}

V cg_attention_stack(AttnCode *s, int64_t elements) { return cg_block(s->c, s->c->f32, elements); }

// ---- packing
void cg_attention_transpose(AttnCode *s, AttnRows x, V t, V n, V to) {
  Cg *c = s->c;
  V from = cg_attention_row(s, x, t);
  int64_t row = x.row;
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

void cg_attention_copy(AttnCode *s, AttnRows x, V t, V n, V to) {
  Cg *c = s->c;
  for (Loop key = cg_count(c, n); cg_next(&key);) {
    V src = cg_attention_row(s, x, cg_add(c, t, key.i));
    V dst = cg_row(c, to, key.i, cg_i64(c, s->size_pad));
    for (Span e = of_head(s); cg_next_vector(&e);) cg_put(c, cg_get_masked(c, c->vf, src, e.i, e.mask), dst, e.i);
    for (int64_t d = s->size_up; d < s->size_pad; d += c->t->vl) cg_put(c, cg_zeros(c), dst, cg_i64(c, d));
  }
}

V cg_attention_tile(AttnCode *s, int64_t rows) {
  return ir_attention_is_packed(&s->a) ? cg_attention_stack(s, rows * s->size_pad) : NULL;
}

AttnRows cg_attention_window(AttnCode *s, AttnRows x, V t, V n, V tile, bool reads) {
  if (!x.offsets) return x;
  if (reads) cg_attention_copy(s, x, t, n, tile);
  return (AttnRows){.at = tile, .row = s->size_pad, .first = t};
}

void cg_attention_window_end(AttnCode *s, AttnRows x, AttnRows window, V t, V n) {
  Cg *c = s->c;
  if (!x.offsets) return;
  for (Loop l = cg_each(c, t, cg_add(c, t, n)); cg_next(&l);) {
    V from = cg_attention_row(s, window, l.i), to = cg_attention_row(s, x, l.i);
    for (Span e = of_head(s); cg_next_vector(&e);) cg_put_masked(c, cg_get(c, c->vf, from, e.i), to, e.i, e.mask);
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
  spec.accumulate = true;
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
