// Strategy gemv: a row with a matrix that is stored [N, K]; up to four rows where that comes from memory. B is read as one
// stream, from end to end.
//
//   sums of lanes of row j of B with each row of A, several side by side;  vl rows of B;  their lanes added at once into
//   vl results of each row
//
// The hardware prefetcher follows one stream better than the several that neighbouring rows are; from memory it reaches
// what reading alone does, on targets with `stream_ahead` with prefetches (docs/experiments/063). A is copied to the stack
// first: half of all loads are of it, and those that cross a cache line count twice.
#include "codegen/gemm/gemm.h"
#include "codegen/span.h"
#include "codegen/tuning.h"

#include <string.h>

enum { TUNED_GEMV(TUNE) };
enum { MAX_LANES = 64 };

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

// Elements between rows of A on the stack.
static int64_t a_stride(const Gemm *g) { return cg_round_up(g->p->k_max, g->c->t->vl); }

void cg_gemm_gemv_stack(Gemm *g) {
  Cg *c = g->c;
  int64_t vl = c->t->vl, rows = g->p->m_max;
  g->strip = cg_gemm_on_stack(c, rows * g->p->width);
  g->a_block = cg_gemm_on_stack(c, rows * a_stride(g));
  g->b_block = cg_gemm_on_stack(c, rows * vl * vl);
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

typedef struct {
  uint32_t rows, wide;       // of A; vectors a turn
  V acc[MOST_ROWS * N_ACC];  // [row][wide]
} Sums;

// Adds the products of elements [from, to) of A's rows and a row of B, `wide` vectors a turn.
static void add_part(Gemm *g, V b, V from, V to, uint32_t wide, V mask, Sums *s) {
  Cg *c = g->c;
  int64_t vl = c->t->vl;
  for (Loop l = cg_carry(c, from, to, cg_i64(c, wide * vl), s->acc, s->rows * s->wide); cg_next(&l);) {
    for (uint32_t i = 0; i < wide; i++) {
      V k = cg_add(c, l.i, cg_i64(c, (int64_t)i * vl)), at = cg_at(c, c->f32, b, k);
      if (wide > 1) prefetch_ahead(g, at);
      V y = cg_load_masked(c, c->vf, at, mask);
      for (uint32_t m = 0; m < s->rows; m++) {
        V *acc = &s->acc[m * s->wide + i];
        V x = cg_get(c, c->vf, g->a_block, cg_add(c, cg_i64(c, m * a_stride(g)), k));
        *acc = cg_fma(c, x, y, *acc);
      }
    }
  }
}

// A power of two.
static uint32_t vectors_of_turn(const Gemm *g) {
  uint32_t n = N_ACC;
  while (n > 1 && n * g->p->m_max > g->c->t->dot_accumulators) n /= 2;
  return n;
}

// Sums of lanes of all rows of A with the row of B at b.
static Sums line(Gemm *g, V b) {
  Cg *c = g->c;
  Sums s = {.rows = (uint32_t)g->p->m_max, .wide = vectors_of_turn(g)};
  V vl = cg_vl(c), turn = cg_i64(c, (int64_t)s.wide * c->t->vl);
  V rest = cg_rem(c, g->k, vl), whole = cg_sub(c, g->k, rest);
  V turns = cg_multiple(c, g->k, turn);
  for (uint32_t i = 0; i < s.rows * s.wide; i++) s.acc[i] = cg_zeros(c);
  add_part(g, b, cg_i64(c, 0), turns, s.wide, NULL, &s);
  add_part(g, b, turns, whole, 1, NULL, &s);
  add_part(g, b, whole, g->k, 1, cg_mask(c, rest), &s);  // once or not at all
  for (uint32_t m = 0; m < s.rows; m++)
    for (uint32_t n = s.wide; n > 1; n /= 2)
      for (uint32_t i = 0; i < n / 2; i++) {
        V *acc = &s.acc[m * s.wide + i];
        *acc = cg_fadd(c, acc[0], acc[n / 2]);
      }
  return s;
}

// Place of the lane sums of row m of A with the unit's rows of B.
static V waiting(Gemm *g, uint32_t m, V row) {
  Cg *c = g->c;
  return cg_at(c, c->vf, g->b_block, cg_add(c, cg_i64(c, (int64_t)m * c->t->vl), row));
}

// Columns [n0, n0 + vl) of the result.
static void unit(Gemm *g, V n0) {
  Cg *c = g->c;
  uint32_t vl = c->t->vl;
  V n = cg_min(c, cg_i64(c, vl), cg_sub(c, g->n, n0)), sums[MAX_LANES];
  Sums s = {0};
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    s = line(g, cg_row(c, g->b, cg_add(c, n0, l.i), g->k));
    for (uint32_t m = 0; m < s.rows; m++) cg_store(c, s.acc[m * s.wide], waiting(g, m, l.i));
  }
  for (uint32_t m = 0; m < s.rows; m++) {
    for (uint32_t i = 0; i < vl; i++) sums[i] = cg_load(c, c->vf, waiting(g, m, cg_i64(c, i)));
    cg_put(c, cg_dot_sums(c, sums, vl), g->strip, cg_i64(c, m * g->p->width));
  }
  cg_gemm_store_rows(g, n0, n);
}

void cg_gemm_gemv_emit(Gemm *g) {
  Cg *c = g->c;
  for (uint32_t m = 0; m < g->p->m_max; m++)
    for (uint32_t i = 0; i < c->t->vl; i++) cg_store(c, cg_zeros(c), waiting(g, m, cg_i64(c, i)));
  copy_rows(g);
  for (Loop l = cg_each_shared(c, g->panels, 1); cg_next(&l);) unit(g, cg_mul(c, l.i, cg_i64(c, g->p->width)));
}
