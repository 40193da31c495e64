// Strategy gemv: a row with a matrix that is stored [N, K]; up to four rows where that comes from memory. B is read as one
// stream, from end to end, or as several, each a part of the worker's rows.
//
//   sums of lanes of row j of B with each row of A, several side by side;  vl rows of B;  their lanes added at once into
//   vl results of each row
//
// Some hardware prefetchers follow one stream better than the several that neighbouring rows are; from memory it reaches
// what reading alone does, on targets with `stream_ahead` with prefetches (docs/experiments/063). Others read streams that
// are far apart faster than one: targets with `memory_streams` (docs/experiments/109). A is copied to the stack
// first: half of all loads are of it, and those that cross a cache line count twice.
#include "codegen/gemm/gemm.h"
#include "codegen/span.h"
#include "codegen/tuning.h"

#include <string.h>

enum { TUNED_GEMV(TUNE) };
enum { MAX_LANES = 64, MAX_STREAMS = 4, MAX_SUMS = MAX_STREAMS * MOST_ROWS * N_ACC };

bool cg_gemm_gemv_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool in_llc = p->k_max >= LONG_K || p->n_max * p->k_max <= ir_f32_in(t->facts.llc_bytes / 2);
  bool one_stream = p->b_streams ? p->m_max <= MOST_ROWS && p->m_max * p->k_max <= MOST_A
                                 : in_llc && p->k_max <= MOST_K && cg_gemm_is_one_row(f, p);
  return one_stream && p->m_max > 0 && !p->single_threaded && !p->batch.n && cg_gemm_is_skinny(p, t);
}

void cg_gemm_gemv_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  cg_gemm_plan_dot(p, t);
  if (p->prologue) p->prologue = PROLOGUE_A_ON_LOAD;
}

// Streams that B is read as: a plan's, so that they do not depend on the number of workers. Units of work beyond the last one
// of a stream are read once more, for nothing.
static uint32_t streams_of(const GemmPlan *p, const Target *t) {
  uint32_t n = t->memory_streams, fit = t->dot_accumulators / (uint32_t)p->m_max;
  if (n < 2 || p->units < STREAM_UNITS * (int64_t)n) return 1;
  return fit < 2 ? 1 : n < fit ? n : fit;
}

// Elements between rows of A on the stack.
static int64_t a_stride(const Gemm *g) { return cg_round_up(g->p->k_max, g->c->t->vl); }

void cg_gemm_gemv_stack(Gemm *g) {
  Cg *c = g->c;
  int64_t vl = c->t->vl, rows = g->p->m_max;
  g->strip = cg_gemm_on_stack(c, rows * g->p->width);
  g->a_block = cg_gemm_on_stack(c, rows * a_stride(g));
  g->b_block = cg_gemm_on_stack(c, streams_of(g->p, c->t) * rows * vl * vl);
}

static void copy_row(Gemm *g, V row, V to) {
  Cg *c = g->c;
  if (g->prologue) cg_prologue_enter(g->prologue, row);
  V from = g->prologue ? NULL : cg_row(c, g->a, row, g->k);
  for (Span s = cg_span_masked(c, cg_i64(c, 0), g->k); cg_next_vector(&s);) {
    V x = g->prologue ? cg_prologue_vector(g->prologue, s.i, s.mask) : cg_get_masked(c, c->vf, from, s.i, s.mask);
    cg_put(c, x, to, s.i);
  }
}

// Rows beyond the actual number read whatever the stack holds: their sums are not stored.
static void copy_rows(Gemm *g) {
  Cg *c = g->c;
  V stride = cg_i64(c, a_stride(g));
  for (Loop l = cg_count(c, g->m); cg_next(&l);) copy_row(g, l.i, cg_row(c, g->a_block, l.i, stride));
}

// At the load of line `at` of B: prefetches a later line.
static void prefetch_ahead(Gemm *g, V at) {
  Cg *c = g->c;
  bool in_llc = !g->p->b_streams && g->p->n_max * g->p->k_max > ir_f32_in(c->t->facts.l2_bytes);
  int64_t stream = ir_f32_in(c->t->stream_ahead);
  if (in_llc) cg_prefetch_l1(c, cg_at(c, c->f32, at, cg_i64(c, LLC_AHEAD)));
  if (g->p->b_streams && stream) cg_prefetch_l2(c, cg_at(c, c->f32, at, cg_i64(c, stream)));
}

// ---- rows of B, one of each stream
typedef struct {
  uint32_t streams, rows, wide;  // of B; of A; vectors a turn
  V b[MAX_STREAMS];
  V acc[MAX_SUMS];  // [stream][row][wide]
} Lines;

static uint32_t sum_at(const Lines *s, uint32_t stream, uint32_t m) { return (stream * s->rows + m) * s->wide; }
static uint32_t n_sums(const Lines *s) { return sum_at(s, s->streams, 0); }

static void clear(Gemm *g, Lines *s) {
  for (uint32_t i = 0; i < n_sums(s); i++) s->acc[i] = cg_zeros(g->c);
}

// Adds the products of elements [from, to) of A's rows and of B's, `wide` vectors a turn.
static void add_part(Gemm *g, V from, V to, uint32_t wide, V mask, Lines *s) {
  Cg *c = g->c;
  int64_t vl = c->t->vl;
  for (Loop l = cg_carry(c, from, to, cg_i64(c, wide * vl), s->acc, n_sums(s)); cg_next(&l);) {
    for (uint32_t i = 0; i < wide; i++) {
      V k = cg_add(c, l.i, cg_i64(c, (int64_t)i * vl));
      for (uint32_t t = 0; t < s->streams; t++) {
        V at = cg_at(c, c->f32, s->b[t], k);
        if (wide > 1) prefetch_ahead(g, at);
        V y = cg_load_masked(c, c->vf, at, mask);
        for (uint32_t m = 0; m < s->rows; m++) {
          V *acc = &s->acc[sum_at(s, t, m) + i];
          V x = cg_get(c, c->vf, g->a_block, cg_add(c, cg_i64(c, m * a_stride(g)), k));
          *acc = cg_fma(c, x, y, *acc);
        }
      }
    }
  }
}

// A power of two.
static uint32_t vectors_of_turn(const Gemm *g) {
  uint32_t n = N_ACC, sums = streams_of(g->p, g->c->t) * (uint32_t)g->p->m_max;
  while (n > 1 && n * sums > g->c->t->dot_accumulators) n /= 2;
  return n;
}

// Elements [0, to): several streams have fewer accumulators each, so their sums are made of partial ones.
static void add_turns(Gemm *g, V to, Lines *s) {
  Cg *c = g->c;
  int64_t part = c->t->partial_sum * s->wide * c->t->vl;
  if (s->streams == 1 || g->p->k_max <= part) {
    add_part(g, cg_i64(c, 0), to, s->wide, NULL, s);
    return;
  }
  V total[MAX_SUMS];
  for (uint32_t i = 0; i < n_sums(s); i++) total[i] = s->acc[i];
  for (Loop l = cg_carry(c, cg_i64(c, 0), to, cg_i64(c, part), total, n_sums(s)); cg_next(&l);) {
    clear(g, s);
    add_part(g, l.i, cg_min(c, to, cg_add(c, l.i, cg_i64(c, part))), s->wide, NULL, s);
    for (uint32_t i = 0; i < n_sums(s); i++) total[i] = cg_fadd(c, total[i], s->acc[i]);
  }
  for (uint32_t i = 0; i < n_sums(s); i++) s->acc[i] = total[i];
}

// Sums of lanes of all rows of A with those of B, in the first accumulator of each.
static void add_lines(Gemm *g, Lines *s) {
  Cg *c = g->c;
  V vl = cg_vl(c), turn = cg_i64(c, (int64_t)s->wide * c->t->vl);
  V rest = cg_rem(c, g->k, vl), whole = cg_sub(c, g->k, rest);
  V turns = cg_multiple(c, g->k, turn);
  clear(g, s);
  add_turns(g, turns, s);
  add_part(g, turns, whole, 1, NULL, s);
  add_part(g, whole, g->k, 1, cg_mask(c, rest), s);  // once or not at all
  for (uint32_t n = s->wide; n > 1; n /= 2)
    for (uint32_t at = 0; at < n_sums(s); at += s->wide)
      for (uint32_t i = at; i < at + n / 2; i++) s->acc[i] = cg_fadd(c, s->acc[i], s->acc[i + n / 2]);
}

// ---- units: vl columns of the result
// Place of the lane sums of row m of A with a row of a stream's unit of B.
static V waiting(Gemm *g, uint32_t stream, uint32_t m, V row) {
  Cg *c = g->c;
  int64_t at = (stream * g->p->m_max + m) * c->t->vl;
  return cg_at(c, c->vf, g->b_block, cg_add(c, cg_i64(c, at), row));
}

static void store_unit(Gemm *g, uint32_t stream, V n0) {
  Cg *c = g->c;
  uint32_t vl = c->t->vl;
  V sums[MAX_LANES];
  for (uint32_t m = 0; m < g->p->m_max; m++) {
    for (uint32_t i = 0; i < vl; i++) sums[i] = cg_load(c, c->vf, waiting(g, stream, m, cg_i64(c, i)));
    cg_put(c, cg_dot_sums(c, sums, vl), g->strip, cg_i64(c, m * g->p->width));
  }
  cg_gemm_store_rows(g, n0, cg_min(c, cg_i64(c, vl), cg_sub(c, g->n, n0)));
}

// Columns [n0, n0 + vl) of each stream. Rows of B that do not exist are the last one once more.
static void add_units(Gemm *g, const V *n0) {
  Cg *c = g->c;
  Lines s = {.streams = streams_of(g->p, c->t), .rows = (uint32_t)g->p->m_max, .wide = vectors_of_turn(g)};
  V vl = cg_vl(c), last = cg_sub(c, g->n, cg_i64(c, 1));
  for (Loop l = cg_count(c, s.streams > 1 ? vl : cg_min(c, vl, cg_sub(c, g->n, n0[0]))); cg_next(&l);) {
    for (uint32_t t = 0; t < s.streams; t++) {
      V row = cg_add(c, n0[t], l.i);
      s.b[t] = cg_row(c, g->b, s.streams > 1 ? cg_min(c, row, last) : row, g->k);
    }
    add_lines(g, &s);
    for (uint32_t t = 0; t < s.streams; t++)
      for (uint32_t m = 0; m < s.rows; m++) cg_store(c, s.acc[sum_at(&s, t, m)], waiting(g, t, m, l.i));
  }
}

// The units of this worker, cut into as many parts as there are streams.
static void emit_units(Gemm *g) {
  Cg *c = g->c;
  uint32_t streams = streams_of(g->p, c->t);
  V lo, hi, n0[MAX_STREAMS], width = cg_i64(c, g->p->width);
  cg_share(c, g->panels, 1, &lo, &hi);
  V part = streams > 1 ? cg_ceil_div_value(c, cg_sub(c, hi, lo), streams) : cg_sub(c, hi, lo);
  for (Loop l = cg_each(c, lo, cg_add(c, lo, part)); cg_next(&l);) {
    V unit[MAX_STREAMS];
    for (uint32_t t = 0; t < streams; t++) {
      unit[t] = cg_add(c, l.i, cg_mul(c, part, cg_i64(c, t)));
      n0[t] = cg_mul(c, unit[t], width);
    }
    add_units(g, n0);
    for (uint32_t t = 0; t < streams; t++)
      for (If exists = cg_when(c, t ? cg_lt(c, unit[t], hi) : NULL); cg_then(&exists);) store_unit(g, t, n0[t]);
  }
}

void cg_gemm_gemv_emit(Gemm *g) {
  Cg *c = g->c;
  for (uint32_t t = 0; t < streams_of(g->p, c->t); t++)
    for (uint32_t m = 0; m < g->p->m_max; m++)
      for (uint32_t i = 0; i < c->t->vl; i++) cg_store(c, cg_zeros(c), waiting(g, t, m, cg_i64(c, i)));
  copy_rows(g);
  emit_units(g);
}
