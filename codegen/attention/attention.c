// Scaled dot product attention by blocks: see ir/attention.h for the operands.
//
//            keys k0 .. k0 + keys             Scores of a block of queries and a block of keys live on the stack. Keys
//           +--------+--------+--------+      and values of a block are packed there too, once for a chunk of queries:
//   block   | S = Q K^T, P    |        |      K transposed, so that S is made by the tiles of gemm/microkernel.h, V as it is.
//   of 32   +--------+--------+--------+
//   queries | ..     | ..     |        |      Causal blocks above the diagonal are not visited.
//           +--------+--------+--------+
//
// Work is partitioned into units: one worker writes the results of a unit, and its sums run in the order of
// keys or of queries. Bits depend neither on the team nor on the partition.
#include "codegen/attention/attention.h"
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/span.h"

#include <math.h>

enum {
  STACK_LEFT = 1 << 10,  // elements of the stack that calls take
  FEW_ROWS = 16          // of a chunk, at least
};

// ---- geometry
static uint32_t power_below(int64_t n) {
  uint32_t p = 1;
  while (2 * (int64_t)p <= n) p *= 2;
  return p;
}

static bool has_offsets(const AttnCode *s) {
  return !ir_none(s->a.offset_value) && ir_rank(s->c->f->prog, ir_ins(s->c->f, s->a.offset_value)->shape) == 1;
}

// Clamps the causal offset where all or no keys are visible, so that sums with it do not overflow. at: element of the operand
static V offset_of(AttnCode *s, V at) {
  Cg *c = s->c;
  if (ir_none(s->a.offset_value)) return cg_i64(c, s->a.offset);
  V far = cg_i64(c, s->a.window);
  at = cg_load(c, c->i64, at ? cg_at(c, c->i64, cg_ptr(c, s->a.offset_value), at) : cg_ptr(c, s->a.offset_value));
  return cg_max(c, cg_sub(c, cg_i64(c, 0), cg_add(c, s->tq, far)), cg_min(c, at, cg_add(c, s->tk, far)));
}

static int64_t mr_of(uint32_t mr, int64_t rows) { return power_below(cg_larger(1, cg_smaller(mr, rows))); }

// Elements of the stack for chunks of n rows.
static int64_t stack_for(const AttnCode *s, const AttnStack *x, int64_t n) {
  int64_t of_key = x->of_key * s->size_pad + x->scores * ATTN_MOST_ROWS, of_row = x->of_row * s->size_pad + 2;
  return STACK_LEFT + s->keys * of_key + n * of_row;
}

// Blocks of keys of tiles of nv vectors: the larger a head, the fewer.
static void choose_tiles(AttnCode *s, const AttnStack *x, uint32_t nv) {
  int64_t vl = s->c->t->vl, tk = ir_dim_bound(s->c->f->prog, s->a.tk);
  s->nv = nv, s->width = nv * vl;
  s->size_up = cg_round_up(s->a.size, vl), s->size_pad = cg_round_up(s->a.size, s->width);
  int64_t fit = x->block / s->size_up / s->width * s->width;
  s->keys = cg_larger(s->width, cg_smaller(fit, cg_smaller(4 * s->width, cg_round_up(tk, s->width))));
}

bool cg_attention_open(Cg *c, const AttnStack *x, AttnCode *s) {
  const Prog *p = c->f->prog;
  *s = (AttnCode){.c = c, .v = {c->k->first}};
  ir_attention(c->f, s->v, &s->a);
  const Target *t = c->t;
  int64_t tq = ir_dim_bound(p, s->a.tq), tk = ir_dim_bound(p, s->a.tk);
  if (s->a.size == 0 || s->a.heads == 0 || ir_dim_bound(p, s->a.batch) == 0) return false;
  uint32_t mr = power_below(cg_smaller(t->gemm_mr, 8));
  s->row_heads = ir_ins(c->f, s->v)->op == OP_sdpa_bias_grad ? 1 : s->a.group;
  s->step_rows = cg_i64(c, s->row_heads);
  s->mr_q = mr_of(mr, tq * s->row_heads), s->mr_k = mr_of(mr, tk);
  uint32_t nv = t->gemm_nv;
  choose_tiles(s, x, nv);
  while (nv > 1 && !t->bounded_stack && stack_for(s, x, FEW_ROWS) > ir_f32_in(t->stack_bytes))
    choose_tiles(s, x, nv /= 2);
  s->tq = cg_dim(c, s->a.tq), s->tk = cg_dim(c, s->a.tk), s->batch = cg_dim(c, s->a.batch);
  s->heads = cg_i64(c, s->a.heads);
  if (ir_attention_is_packed(&s->a)) s->of_q = cg_layout_of(c, s->a.layout), s->of_k = cg_layout_of(c, s->a.kv_layout);
  s->offset = has_offsets(s) ? NULL : offset_of(s, NULL);
  s->id = s->a.p > 0 ? cg_id(c, s->v) : NULL;
  return true;
}

void cg_attention_open_sequence(AttnCode *s, V b) {
  if (has_offsets(s)) s->offset = offset_of(s, b);
}

int64_t cg_attention_chunk(AttnCode *s, const AttnStack *x) {
  int64_t rows = cg_round_up(ir_dim_bound(s->c->f->prog, s->a.tq) * s->row_heads, FEW_ROWS), few = stack_for(s, x, 0);
  int64_t fit = (ir_f32_in(s->c->t->stack_bytes) - few) / (stack_for(s, x, 1) - few) / FEW_ROWS * FEW_ROWS;
  return cg_larger(FEW_ROWS, cg_smaller(cg_smaller(rows, ATTN_CHUNK), fit));
}

bool cg_attention_whole(AttnCode *s, bool is_query, uint32_t mr) {
  const Prog *p = s->c->f->prog;
  Dim steps = is_query ? s->a.tq : s->a.tk;
  if (mr == 1 || ir_attention_is_packed(&s->a) || (is_query && s->row_heads > 1)) return mr == 1;
  return ir_dim_is_const(p, steps) && ir_dim_bound(p, steps) % mr == 0;
}

// ---- rows
// Where the rows of sequence b begin in the steps of a layout.
static V position_of(AttnCode *s, const CgLayout *l, V b) {
  return cg_layout_get(s->c, cg_layout_unsorted(s->c, l), b);
}

AttnRows cg_attention_rows(AttnCode *s, V base, const AttnPlace *p, bool is_query, V b, V h) {
  Cg *c = s->c;
  bool is_several = is_query && s->row_heads > 1;
  V in_row = cg_add(c, cg_mul(c, h, cg_i64(c, p->head)), cg_i64(c, p->offset)), inside = cg_i64(c, p->head);
  V next = s->ahead && p->head ? cg_mul(c, is_query ? cg_mul(c, s->ahead, s->step_rows) : s->ahead, inside) : NULL;
  if (ir_attention_is_packed(&s->a)) {
    const CgLayout *l = is_query ? &s->of_q : &s->of_k;
    V at = cg_at(c, c->f32, base, in_row);
    return (AttnRows){at, p->row, is_several ? inside : NULL, cg_layout_offsets(c, l), position_of(s, l, b), next};
  }
  V block = cg_mul(c, is_query ? s->tq : s->tk, cg_i64(c, p->row));  // [T, ..] of one sequence, or of one head
  V off = cg_index(c, b, block, cg_mul(c, h, inside));
  if (!p->head) off = cg_mul(c, cg_index(c, b, cg_i64(c, p->heads), h), block), inside = block;
  V at = cg_at(c, c->f32, base, cg_add(c, off, cg_i64(c, p->offset)));
  return (AttnRows){.at = at, .row = p->row, .head = is_several ? inside : NULL, .next = next};
}

static V packed_row(AttnCode *s, V offsets, V position, V t) {
  return cg_add(s->c, cg_layout_get(s->c, offsets, t), position);
}

V cg_attention_row(AttnCode *s, AttnRows x, V t) {
  if (x.offsets) t = packed_row(s, x.offsets, x.position, t);
  return cg_row(s->c, x.at, t, cg_i64(s->c, x.row));
}

V cg_attention_step(AttnCode *s, V lo, V i) { return cg_add(s->c, lo, cg_div(s->c, i, s->step_rows)); }

static V head_in_row(AttnCode *s, V i) { return cg_rem(s->c, i, s->step_rows); }

V cg_attention_head(AttnCode *s, V first, V i) {
  return s->row_heads == 1 ? first : cg_add(s->c, first, head_in_row(s, i));
}

V cg_attention_row_of(AttnCode *s, AttnRows x, V lo, V i) {
  if (!x.head) return cg_attention_row(s, x, cg_add(s->c, lo, i));
  V at = cg_attention_row(s, x, cg_attention_step(s, lo, i));
  return cg_row(s->c, at, head_in_row(s, i), x.head);
}

AttnNumbers cg_attention_numbers(AttnCode *s, V base, V b, V h) {
  Cg *c = s->c;
  if (!ir_attention_is_packed(&s->a))
    return (AttnNumbers){.at = cg_row(c, base, cg_index(c, b, s->heads, h), s->tq), .head = s->tq};
  V rows = cg_layout_get(c, s->of_q.base, cg_i64(c, TN_LAYOUT_ROWS));
  return (AttnNumbers){cg_row(c, base, h, rows), rows, cg_layout_offsets(c, &s->of_q), position_of(s, &s->of_q, b)};
}

V cg_attention_number(AttnCode *s, AttnNumbers x, V lo, V i) {
  Cg *c = s->c;
  V t = cg_attention_step(s, lo, i), at = x.at;
  if (s->row_heads > 1) at = cg_row(c, at, head_in_row(s, i), x.head);
  return cg_at(c, c->f32, at, x.offsets ? packed_row(s, x.offsets, x.position, t) : t);
}

V cg_attention_queries(AttnCode *s, V b) {
  if (!ir_attention_is_packed(&s->a)) return s->tq;
  return cg_layout_get(s->c, cg_layout_lengths(s->c, &s->of_q), b);
}

V cg_attention_key_steps(AttnCode *s, V b) {
  if (!ir_attention_is_packed(&s->a)) return s->tk;
  return cg_layout_get(s->c, cg_layout_lengths(s->c, &s->of_k), b);
}

V cg_attention_length(AttnCode *s, V b) {
  Cg *c = s->c;
  if (ir_none(s->a.lengths)) return cg_attention_key_steps(s, b);
  V n = cg_get(c, c->i64, cg_ptr(c, s->a.lengths), b);
  V negative = cg_lt(c, n, cg_i64(c, 0));
  return cg_select(c, negative, cg_i64(c, 0), cg_min(c, n, s->tk));
}

V cg_attention_longest(AttnCode *s, bool of_queries) {
  Cg *c = s->c;
  if (!ir_attention_is_packed(&s->a)) return of_queries ? s->tq : s->tk;
  return cg_layout_get(c, of_queries ? s->of_q.base : s->of_k.base, cg_i64(c, TN_LAYOUT_STEPS));
}

// ---- tiles
static Span of_head(AttnCode *s) { return cg_span_masked(s->c, cg_i64(s->c, 0), cg_i64(s->c, s->a.size)); }

static bool lies_as_tile(AttnCode *s, int64_t row, bool is_several) {
  return !ir_attention_is_packed(&s->a) && !is_several && row == s->size_pad && s->a.size == s->size_pad;
}

V cg_attention_tile_memory(AttnCode *s, const AttnPlace *p, bool is_query, int64_t rows) {
  bool is_several = is_query && s->row_heads > 1;
  return lies_as_tile(s, p->row, is_several) ? NULL : cg_attention_stack(s, rows * s->size_pad);
}

AttnTile cg_attention_tile(AttnCode *s, AttnRows x, V lo, V memory) {
  if (lies_as_tile(s, x.row, x.head != NULL)) return (AttnTile){cg_attention_row(s, x, lo), x.row, false};
  return (AttnTile){memory, s->size_pad, true};
}

V cg_attention_tile_row(AttnCode *s, AttnTile tile, V i) { return cg_row(s->c, tile.at, i, cg_i64(s->c, tile.row)); }

static void fetch(AttnCode *s, V row) {
  enum { LINE = 16, MOST = 128 };  // elements
  for (int64_t d = 0; d < cg_smaller(s->a.size, MOST); d += LINE)
    cg_prefetch_l2(s->c, cg_at(s->c, s->c->f32, row, cg_i64(s->c, d)));
}

// A head has a few cache lines in each row of the operand, too few for the hardware prefetcher to find the next head's.
void cg_attention_fetch_next(AttnCode *s, AttnRows x, V row) {
  if (x.next) fetch(s, cg_at(s->c, s->c->f32, row, x.next));
}

static void clear_from(AttnCode *s, V row, int64_t from) {
  for (int64_t d = from; d < s->size_pad; d += s->c->t->vl) cg_put(s->c, cg_zeros(s->c), row, cg_i64(s->c, d));
}

void cg_attention_read(AttnCode *s, AttnRows x, V lo, V n, AttnTile tile) {
  Cg *c = s->c;
  if (!tile.is_copy) return;
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V src = cg_attention_row_of(s, x, lo, l.i), dst = cg_attention_tile_row(s, tile, l.i);
    cg_attention_fetch_next(s, x, src);
    for (Span e = of_head(s); cg_next_vector(&e);) cg_put(c, cg_get_masked(c, c->vf, src, e.i, e.mask), dst, e.i);
    clear_from(s, dst, s->size_up);
  }
}

void cg_attention_write(AttnCode *s, AttnRows x, V lo, V n, AttnTile tile) {
  Cg *c = s->c;
  if (!tile.is_copy) return;
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V src = cg_attention_tile_row(s, tile, l.i), dst = cg_attention_row_of(s, x, lo, l.i);
    cg_attention_fetch_next(s, x, dst);
    for (Span e = of_head(s); cg_next_vector(&e);) cg_put_masked(c, cg_get(c, c->vf, src, e.i), dst, e.i, e.mask);
  }
}

void cg_attention_clear(AttnCode *s, V n, AttnTile tile) {
  for (Loop l = cg_count(s->c, n); cg_next(&l);) clear_from(s, cg_attention_tile_row(s, tile, l.i), 0);
}

void cg_attention_scale_row(AttnCode *s, V x, V scale) {
  View row = cg_view(x, DT_F32);
  V by = cg_splat(s->c, scale);
  for (Span e = of_head(s); cg_next_vector(&e);) cg_span_put(&e, row, cg_fmul(s->c, cg_span_get(&e, row), by));
}

void cg_attention_copy_panels(AttnCode *s, AttnRows x, V t, V n, V to) {
  Cg *c = s->c;
  for (Loop key = cg_count(c, n); cg_next(&key);) {
    V src = cg_attention_row(s, x, cg_add(c, t, key.i)), dst = cg_row(c, to, key.i, cg_i64(c, s->width));
    cg_attention_fetch_next(s, x, src);
    for (int64_t d = 0; d < s->size_pad; d += c->t->vl) {
      V at = cg_i64(c, d / s->width * s->width * s->keys + d % s->width), left = cg_i64(c, s->a.size - d);
      V mask = d + c->t->vl <= s->a.size ? NULL : cg_mask(c, cg_max(c, left, cg_i64(c, 0)));
      cg_put(c, d < s->a.size ? cg_get_masked(c, c->vf, src, cg_i64(c, d), mask) : cg_zeros(c), dst, at);
    }
  }
}

void cg_attention_transpose(AttnCode *s, AttnTile tile, V n, V to) {
  Cg *c = s->c;
  V row = cg_i64(c, tile.row), width = cg_i64(c, s->width), vl = cg_vl(c);
  for (Loop key = cg_count_by(c, n, vl); cg_next(&key);) {
    V in_panel = cg_rem(c, key.i, width), panel = cg_mul(c, cg_sub(c, key.i, in_panel), cg_i64(c, s->size_up));
    for (Loop d = cg_count_by(c, cg_i64(c, s->a.size), vl); cg_next(&d);) {
      V src = cg_cell(c, tile.at, key.i, row, d.i), dst = cg_at(c, c->f32, to, cg_add(c, panel, in_panel));
      cg_transpose_block(c, src, row, cg_sub(c, n, key.i), cg_sub(c, cg_i64(c, s->a.size), d.i),
                         cg_row(c, dst, d.i, width), width);
    }
  }
}

// ---- units
// Unit u of the list belongs to worker 0, 1, .., n - 1, n - 1, .., 1, 0, 0, 1, ..; *ahead: units to the worker's next one
static V is_own(Cg *c, V u, V *ahead) {
  V twice = cg_add(c, c->n_workers, c->n_workers), at = cg_rem(c, u, twice), one = cg_i64(c, 1);
  V back = cg_sub(c, cg_sub(c, twice, one), at), there = cg_add(c, cg_add(c, c->worker, c->worker), one);
  *ahead = cg_select(c, cg_lt(c, at, c->n_workers), cg_sub(c, twice, there), there);
  return cg_eq(c, cg_min(c, at, back), c->worker);
}

void cg_attention_deal(AttnDeal *d, AttnCode *s) {
  Cg *c = s->c;
  *d = (AttnDeal){.s = s, .dealt = cg_i64(c, 0)};
  d->sequences = cg_carry(c, cg_i64(c, 0), s->batch, cg_i64(c, 1), &d->dealt, 1);
}

bool cg_attention_next_sequence(AttnDeal *d) {
  Cg *c = d->s->c;
  if (d->sequences.turn) d->dealt = cg_add(c, d->dealt, d->n_units);
  if (!cg_next(&d->sequences)) return false;
  d->b = d->sequences.i;
  if (ir_attention_is_packed(&d->s->a)) d->b = cg_layout_get(c, cg_layout_sorted(c, &d->s->of_q), d->b);
  return true;
}

void cg_attention_deal_units(AttnDeal *d, V parts, V n_heads) {
  Cg *c = d->s->c;
  d->n_units = cg_mul(c, parts, n_heads);
  d->units = cg_count(c, d->n_units);
  d->n_heads = n_heads;
}

bool cg_attention_next_unit(AttnDeal *d) {
  Cg *c = d->s->c;
  if (d->units.turn) {
    cg_then(&d->is_own);
    return cg_next(&d->units);
  }
  V heads = d->n_heads, ahead;
  cg_next(&d->units);
  d->is_own = cg_when(c, is_own(c, cg_add(c, d->dealt, d->units.i), &ahead));
  cg_then(&d->is_own);
  d->part = cg_div(c, d->units.i, heads);
  d->head = cg_sub(c, d->units.i, cg_mul(c, d->part, heads));
  d->s->ahead = cg_select(c, cg_lt(c, cg_add(c, d->head, ahead), heads), ahead, cg_i64(c, 0));
  return true;
}

V cg_attention_parts(AttnCode *s, V n, int64_t most) { return cg_ceil_div_value(s->c, n, most); }

// Parts are multiples of GRAIN, so that most tiles are whole.
void cg_attention_part(AttnCode *s, V n, V parts, int64_t most, V part, V *lo, V *hi) {
  enum { GRAIN = 16 };
  Cg *c = s->c;
  V some = cg_max(c, parts, cg_i64(c, 1)), even = cg_div(c, cg_sub(c, cg_add(c, n, some), cg_i64(c, 1)), some);
  int64_t grain = most % GRAIN == 0 ? GRAIN : 1;
  V size = cg_mul(c, cg_ceil_div_value(c, even, grain), cg_i64(c, grain));
  *lo = cg_min(c, n, cg_mul(c, part, size)), *hi = cg_min(c, n, cg_add(c, *lo, size));
}

int64_t cg_attention_block_rows(const AttnCode *s) { return s->a.causal ? ATTN_ROWS / 2 : ATTN_ROWS; }
int64_t cg_attention_more_rows(const AttnCode *s) { return s->a.causal ? 4 : ATTN_MOST_ROWS - ATTN_ROWS; }

V cg_attention_first_row(AttnCode *s, V lo, V t) {
  Cg *c = s->c;
  V row = cg_mul(c, cg_sub(c, t, lo), s->step_rows);
  return cg_multiple(c, row, cg_i64(c, s->mr_q));
}

V cg_attention_end_row(AttnCode *s, V lo, V t, V n) {
  Cg *c = s->c;
  V row = cg_mul(c, cg_max(c, cg_i64(c, 0), cg_sub(c, t, lo)), s->step_rows);
  return cg_min(c, n, cg_mul(c, cg_ceil_div_value(c, row, s->mr_q), cg_i64(c, s->mr_q)));
}

V cg_attention_stack(AttnCode *s, int64_t elements) { return cg_block(s->c, s->c->f32, elements); }

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

static void scores_at(AttnCode *s, const AttnProduct *p, const TileSpec *spec, V key) {
  Cg *c = s->c;
  V panel = cg_row(c, p->b, key, cg_i64(c, s->size_up));
  TileArgs args = {.a = p->a, .b = panel, .c = cg_at(c, c->f32, p->c, key), .k = p->k};
  rows_of_tiles(s, spec, &args, p);
}

void cg_attention_scores(AttnCode *s, AttnTile rows, V i, V m, V transposed, V n, V to) {
  Cg *c = s->c;
  AttnProduct p = {.a = cg_attention_tile_row(s, rows, i), .b = transposed, .c = to, .a_row = rows.row, .a_k = 1};
  p.b_k = s->width, p.c_row = s->keys, p.m = m, p.k = cg_i64(c, s->a.size), p.mr = s->mr_q;
  p.exact = cg_attention_whole(s, true, s->mr_q);
  TileSpec spec = spec_of(s, &p);
  cg_tile_sum_in_parts(&spec, c->t, s->a.size, s->a.size, 1);
  V end = cg_multiple(c, n, cg_i64(c, s->width)), left = cg_sub(c, n, end);
  for (Loop l = cg_count_by(c, end, cg_i64(c, s->width)); cg_next(&l);) scores_at(s, &p, &spec, l.i);
  if (cg_is_int(left, 0)) return;
  V vectors = cg_ceil_div_value(c, left, c->t->vl);
  for (spec.nv = 1; spec.nv <= s->nv; spec.nv++) {  // as many vectors as are left
    spec.mask_from = spec.nv;
    for (If some = cg_when(c, cg_eq(c, vectors, cg_i64(c, spec.nv))); cg_then(&some);) scores_at(s, &p, &spec, end);
  }
}

static void accumulate_at(AttnCode *s, const AttnProduct *p, TileSpec spec, V column) {
  Cg *c = s->c;
  V panel = cg_mul(c, cg_div(c, column, cg_i64(c, s->width)), cg_i64(c, p->b_panel));
  TileArgs args = {.a = p->a, .b = cg_at(c, c->f32, p->b, panel), .c = cg_at(c, c->f32, p->c, column), .k = p->k};
  spec.accumulate = true;
  cg_tile_sum_in_parts(&spec, c->t, p->terms, cg_larger(s->keys, ATTN_MOST_ROWS), 1);
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
  V at = cg_iadd(c, cg_splat(c, cg_add(c, row_element, j)), cg_lane_numbers(c));
  V count = cg_lshr(c, cg_rand_bits(c, at, s->id, 0), cg_splat(c, cg_i32(c, 8)));
  V least = cg_splat(c, cg_i32(c, (int32_t)ceil(s->a.p * 0x1p24)));
  V keep = cg_icmp(c, LLVMIntUGE, count, least);
  return cg_select(c, keep, cg_splat(c, cg_f32(c, 1 / (1 - s->a.p))), cg_zeros(c));
}

bool cg_emit_attention(Cg *c) {
  AttnCode s;
  Op op = (Op)ir_ins(c->f, (Val){c->k->first})->op;
  bool backward = op != OP_sdpa;
  const AttnStack *stack = backward ? &cg_attention_backward_stack : &cg_attention_forward_stack;
  if (!cg_attention_open(c, stack, &s)) {  // no elements
    if (op == OP_sdpa_bias_grad) cg_attention_no_bias_grad(c, (Val){c->k->first});
    return true;
  }
  if (backward) cg_attention_backward(&s);
  else cg_attention_forward(&s);
  return true;
}
