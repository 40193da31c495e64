// Strategy axpy: few rows with a matrix that is stored [K, N] and comes from memory. Rows of B, scaled, are added to the
// sums: B is read once, in the order in which it lies.
//
//   sums[m][n .. n + vl)  +=  A[m][k] B[k][n ..)  +  A[m][k + 1] B[k + 1][n ..)  +  ..   `mr` rows of B at once
//
// A worker has a range of columns, in blocks whose sums stay in L1 from the first k to the last. Several rows of B at
// once spare loads and stores of sums. They are several streams, of which most hardware prefetchers make little; so the
// next rows are prefetched into L2, line after line in the order of addresses, but for targets with `follows_streams`
// (docs/experiments/063). Targets with `memory_streams` read as many parts of B at once, a row of each, without
// prefetches (docs/experiments/109).
#include "codegen/gemm/gemm.h"
#include "codegen/span.h"
#include "codegen/tuning.h"

enum { TUNED_AXPY(TUNE) };
enum {
  LINE = 16  // elements
};

bool cg_gemm_axpy_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f, (void)t;
  bool in_place = p->pack_b == B_IN_PLACE && p->prologue != PROLOGUE_B && !p->batch.n && ir_none(p->update);
  bool few_rows = !p->ta && !p->tb && p->m_max <= MOST_ROWS && p->n_max > FEW_COLUMNS;
  return p->b_streams && in_place && few_rows && !p->single_threaded;
}

// With few streams, as more rows of A leave registers for, neighbours with prefetches are faster.
static bool is_in_parts(const GemmPlan *p, const Target *t) {
  return t->memory_streams > 1 && t->memory_streams * p->m_max <= (int64_t)t->dot_accumulators;
}

// A power of two: the largest for which the elements of A stay in registers.
static uint32_t rows_at_once(const GemmPlan *p, const Target *t) {
  int64_t n = is_in_parts(p, t) ? t->memory_streams : MOST_AT_ONCE;
  while (n > 1 && n * p->m_max > (t->has_avx512 ? 2 : 1) * (int64_t)t->dot_accumulators) n /= 2;
  return (uint32_t)n;
}

void cg_gemm_axpy_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->nv = 1, p->width = t->vl;
  p->mr = rows_at_once(p, t);
  p->kc = cg_larger(1, p->k_max);
  p->nc = cg_larger(1, t->stack_bytes / STACK_PART / 4 / cg_larger(1, p->m_max) / p->width) * p->width;
  p->units = cg_ceil_div(p->n_max, GRAIN * p->width);
}

// Rows of B in one partial sum: it starts from 0 and is added to the total at its end. If B has no more rows
// than that, there is only the total.
static int64_t rows_of_partial(const Gemm *g) { return cg_round_up(g->c->t->partial_sum, g->p->mr); }
static bool has_partials(const Gemm *g) { return g->p->k_max > rows_of_partial(g); }

void cg_gemm_axpy_stack(Gemm *g) {
  g->strip = cg_gemm_on_stack(g->c, (has_partials(g) ? 2 : 1) * g->p->m_max * g->p->nc);
}

// ---- a block of columns
typedef struct {
  V n0, n;  // columns
  V tail;   // mask of the last ones, which are less than a vector
} Block;

static V sums_at(Gemm *g, int64_t m, V n) {
  Cg *c = g->c;
  return cg_at(c, c->f32, g->strip, cg_add(c, cg_i64(c, m * g->p->nc), n));
}

static V total_at(Gemm *g, int64_t m, V n) { return sums_at(g, has_partials(g) ? g->p->m_max + m : m, n); }

static void begin_sums(Gemm *g, const Block *u) {
  Cg *c = g->c;
  for (Span s = cg_span_masked(c, cg_i64(c, 0), u->n); cg_next_vector(&s);) {
    V start = g->bias ? cg_get_masked(c, c->vf, g->bias, cg_add(c, u->n0, s.i), s.mask) : cg_zeros(c);
    for (int64_t m = 0; m < g->p->m_max; m++) {
      cg_store(c, start, total_at(g, m, s.i));
      if (has_partials(g)) cg_store(c, cg_zeros(c), sums_at(g, m, s.i));
    }
  }
}

static void add_partials(Gemm *g, const Block *u) {
  Cg *c = g->c;
  for (Loop l = cg_count_by(c, u->n, cg_vl(c)); cg_next(&l);) {
    for (int64_t m = 0; m < g->p->m_max; m++) {
      V partial = sums_at(g, m, l.i), total = total_at(g, m, l.i);
      cg_store(c, cg_fadd(c, cg_load(c, c->vf, total), cg_load(c, c->vf, partial)), total);
      cg_store(c, cg_zeros(c), partial);
    }
  }
}

static void end_sums(Gemm *g, const Block *u) {
  Cg *c = g->c;
  V stride = cg_i64(c, g->p->nc);
  if (g->epilogue) {
    cg_gemm_epilogue(g, cg_i64(c, 0), g->m, u->n0, u->n, total_at(g, 0, cg_i64(c, 0)), stride);
    return;
  }
  for (Loop row = cg_count(c, g->m); cg_next(&row);)
    for (Span s = cg_span_masked(c, cg_i64(c, 0), u->n); cg_next_vector(&s);) {
      V sums = cg_get(c, c->vf, total_at(g, 0, s.i), cg_mul(c, row.i, stride));
      cg_store_masked(c, sums, cg_cell(c, g->out, row.i, g->n, cg_add(c, u->n0, s.i)), s.mask);
    }
}

// ---- rows of B
typedef struct {
  uint32_t n;
  V b[MOST_AT_ONCE];             // in the block's first column
  V a[MOST_ROWS][MOST_AT_ONCE];  // A's elements, in all lanes
} Rows;

// Rows k, k + apart, .. of B. If A has fewer rows than its bound, the last one is repeated: the extra sums are not stored.
static Rows rows_from(Gemm *g, const Block *u, V k, V apart, uint32_t n) {
  Cg *c = g->c;
  Rows r = {.n = n};
  V last = cg_sub(c, g->m, cg_i64(c, 1));
  for (uint32_t j = 0; j < n; j++) {
    V row = cg_add(c, k, cg_mul(c, apart, cg_i64(c, j)));
    r.b[j] = cg_cell(c, g->b, row, g->n, u->n0);
    for (int64_t m = 0; m < g->p->m_max; m++) {
      V at = cg_index(c, cg_min(c, cg_i64(c, m), last), g->k, row);
      r.a[m][j] = cg_splat(c, cg_get(c, c->f32, g->a, at));
    }
  }
  return r;
}

static void add_vector(Gemm *g, const Rows *r, V n, V mask) {
  Cg *c = g->c;
  V sum[MOST_ROWS];
  for (int64_t m = 0; m < g->p->m_max; m++) sum[m] = cg_load(c, c->vf, sums_at(g, m, n));
  for (uint32_t j = 0; j < r->n; j++) {
    V at = cg_at(c, c->f32, r->b[j], n);
    V b = cg_load_masked(c, c->vf, at, mask);
    for (int64_t m = 0; m < g->p->m_max; m++) sum[m] = cg_fma(c, r->a[m][j], b, sum[m]);
  }
  for (int64_t m = 0; m < g->p->m_max; m++) cg_store(c, sum[m], sums_at(g, m, n));
}

// ---- prefetch: `next` and `row_end` are elements of B. It goes on in the next row where the block's columns end
typedef struct {
  V next, row_end;
} Ahead;

static uint32_t lines_of_step(const Gemm *g, uint32_t n_rows) {
  return (uint32_t)cg_larger(1, (int64_t)n_rows * g->c->t->vl / LINE);
}

static Ahead ahead_of(Gemm *g, const Block *u, V k) {
  Cg *c = g->c;
  V next = cg_index(c, k, g->n, u->n0);
  return (Ahead){next, cg_add(c, next, u->n)};
}

static Ahead prefetch(Gemm *g, const Block *u, Ahead at, uint32_t lines) {
  Cg *c = g->c;
  for (uint32_t i = 0; i < lines; i++)
    cg_prefetch_l2(c, cg_at(c, c->f32, g->b, cg_add(c, at.next, cg_i64(c, i * LINE))));
  V next = cg_add(c, at.next, cg_i64(c, lines * LINE));
  V past = cg_ge(c, next, at.row_end);
  V gap = cg_select(c, past, cg_sub(c, g->n, u->n), cg_i64(c, 0));
  V row = cg_select(c, past, g->n, cg_i64(c, 0));
  return (Ahead){cg_add(c, next, gap), cg_add(c, at.row_end, row)};
}

// Adds rows k, k + apart, .. of B, n_rows of them.
static void add_rows(Gemm *g, const Block *u, V k, V apart, uint32_t n_rows) {
  Cg *c = g->c;
  bool ahead = n_rows > 1 && !c->t->follows_streams && !is_in_parts(g->p, c->t);
  V vl = cg_vl(c), rest = cg_rem(c, u->n, vl), whole = cg_sub(c, u->n, rest);
  Rows r = rows_from(g, u, k, apart, n_rows);
  Ahead at = ahead_of(g, u, cg_add(c, k, cg_i64(c, n_rows)));
  V carried[] = {at.next, at.row_end};
  for (Loop l = cg_carry(c, cg_i64(c, 0), whole, vl, carried, ahead ? 2 : 0); cg_next(&l);) {
    if (ahead) at = prefetch(g, u, (Ahead){carried[0], carried[1]}, lines_of_step(g, n_rows));
    add_vector(g, &r, l.i, NULL);
    carried[0] = at.next, carried[1] = at.row_end;
  }
  for (Loop l = cg_each_by(c, whole, u->n, vl); cg_next(&l);) add_vector(g, &r, whole, u->tail);  // once or not at all
}

// Adds end - begin rows of B: those from `begin` on, or as many of each part in turn. What a whole number of turns leaves
// comes last.
static void add_all(Gemm *g, const Block *u, V begin, V end) {
  Cg *c = g->c;
  bool parts = is_in_parts(g->p, c->t);
  V at_once = cg_i64(c, g->p->mr), one = cg_i64(c, 1), apart = parts ? cg_div(c, g->k, at_once) : one;
  V whole = cg_sub(c, end, cg_rem(c, cg_sub(c, end, begin), at_once));
  for (Loop l = cg_each_by(c, begin, whole, at_once); cg_next(&l);)
    add_rows(g, u, parts ? cg_div(c, l.i, at_once) : l.i, apart, g->p->mr);
  for (Loop l = cg_each(c, whole, end); cg_next(&l);) add_rows(g, u, l.i, one, 1);
}

static void add_by_partials(Gemm *g, const Block *u) {
  Cg *c = g->c;
  V step = cg_i64(c, rows_of_partial(g));
  for (Loop l = cg_count_by(c, g->k, step); cg_next(&l);) {
    add_all(g, u, l.i, cg_min(c, g->k, cg_add(c, l.i, step)));
    add_partials(g, u);
  }
}

void cg_gemm_axpy_emit(Gemm *g) {
  Cg *c = g->c;
  V lo, hi, step = cg_i64(c, g->p->nc);
  cg_share(c, g->panels, GRAIN, &lo, &hi);
  V end = cg_min(c, cg_mul(c, hi, cg_i64(c, g->p->width)), g->n);
  end = cg_select(c, cg_gt(c, g->m, cg_i64(c, 0)), end, cg_i64(c, 0));
  for (Loop block = cg_each_by(c, cg_mul(c, lo, cg_i64(c, g->p->width)), end, step); cg_next(&block);) {
    Block u = {.n0 = block.i, .n = cg_min(c, step, cg_sub(c, end, block.i))};
    u.tail = cg_mask(c, cg_rem(c, u.n, cg_vl(c)));
    begin_sums(g, &u);
    if (has_partials(g)) add_by_partials(g, &u);
    else add_all(g, &u, cg_i64(c, 0), g->k);
    end_sums(g, &u);
  }
}
