// Strategy axpy: few rows with a matrix that is stored [K, N] and comes from memory. Rows of B, scaled, are added to the
// sums: B is read once, in the order in which it lies.
//
//   sums[m][n .. n + vl)  +=  A[m][k] B[k][n ..)  +  A[m][k + 1] B[k + 1][n ..)  +  ..   `mr` rows of B at once
//
// A worker has a range of columns, in blocks whose sums stay in L1 from the first k to the last. Several rows of B at
// once spare loads and stores of sums. They are several streams, of which most hardware prefetchers make little; so the
// next rows are prefetched into L2, line after line in the order of addresses, but for targets with `follows_streams`
// (docs/experiments/063).
#include "codegen/gemm/gemm.h"

enum {
  MOST_ROWS = 4,      // of A
  MOST_AT_ONCE = 8,   // rows of B
  FEW_COLUMNS = 128,  // up to so many, a panel of strategy tiled has whole rows of B
  STACK_PART = 16,    // of the stack: sums
  LINE = 16,          // elements
  GRAIN = 4           // vectors of columns: shares of workers are multiples
};

bool cg_gemm_axpy_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)f, (void)t;
  bool in_place = p->pack_b == B_IN_PLACE && p->prologue != PROLOGUE_B && !p->batch.n && ir_none(p->update);
  bool few_rows = !p->ta && !p->tb && p->m_max <= MOST_ROWS && p->n_max > FEW_COLUMNS;
  return p->b_streams && in_place && few_rows && !p->single_threaded;
}

// A power of two: so many that A's elements of them stay in registers.
static uint32_t rows_at_once(const GemmPlan *p, const Target *t) {
  int64_t n = MOST_AT_ONCE;
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

// Rows of B in one partial sum, which starts from 0 and is added to the total at its end. If B has no more rows, the total alone
// is kept.
static int64_t rows_of_partial(const Gemm *g) { return cg_round_up(g->c->t->partial_sum, g->p->mr); }
static bool has_partials(const Gemm *g) { return g->p->k_max > rows_of_partial(g); }

void cg_gemm_axpy_stack(Gemm *g) {
  g->strip = cg_gemm_on_stack(g->c, (has_partials(g) ? 2 : 1) * g->p->m_max * g->p->nc);
}

// ---- a block of columns
typedef struct {
  LLVMValueRef n0, n;  // columns
  LLVMValueRef tail;   // mask of the last ones, which are less than a vector
} Block;

static LLVMValueRef sums_at(Gemm *g, int64_t m, LLVMValueRef n) {
  Cg *c = g->c;
  return cg_at(c, c->f32, g->strip, cg_add(c, cg_i64(c, m * g->p->nc), n));
}

static LLVMValueRef total_at(Gemm *g, int64_t m, LLVMValueRef n) {
  return sums_at(g, has_partials(g) ? g->p->m_max + m : m, n);
}

static void begin_sums(Gemm *g, const Block *u) {
  Cg *c = g->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, cg_i64(c, c->t->vl), NULL, 0);
  LLVMValueRef start = LLVMConstNull(c->vf);
  if (g->bias) {
    LLVMValueRef at = cg_at(c, c->f32, g->bias, cg_add(c, u->n0, l.i));
    start = cg_load_masked(c, c->vf, at, cg_mask(c, cg_sub(c, u->n, l.i)));
  }
  for (int64_t m = 0; m < g->p->m_max; m++) {
    cg_store(c, start, total_at(g, m, l.i));
    if (has_partials(g)) cg_store(c, LLVMConstNull(c->vf), sums_at(g, m, l.i));
  }
  cg_loop_end(c, &l, NULL);
}

static void add_partials(Gemm *g, const Block *u) {
  Cg *c = g->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, cg_i64(c, c->t->vl), NULL, 0);
  for (int64_t m = 0; m < g->p->m_max; m++) {
    LLVMValueRef partial = sums_at(g, m, l.i), total = total_at(g, m, l.i);
    cg_store(c, LLVMBuildFAdd(c->b, cg_load(c, c->vf, total), cg_load(c, c->vf, partial), ""), total);
    cg_store(c, LLVMConstNull(c->vf), partial);
  }
  cg_loop_end(c, &l, NULL);
}

static void end_sums(Gemm *g, const Block *u) {
  Cg *c = g->c;
  LLVMValueRef stride = cg_i64(c, g->p->nc), vl = cg_i64(c, c->t->vl);
  if (g->epilogue) {
    cg_gemm_epilogue(g, cg_i64(c, 0), g->m, u->n0, u->n, total_at(g, 0, cg_i64(c, 0)), stride);
    return;
  }
  Loop row, l;
  cg_loop_begin(c, &row, cg_i64(c, 0), g->m, cg_i64(c, 1), NULL, 0);
  cg_loop_begin(c, &l, cg_i64(c, 0), u->n, vl, NULL, 0);
  LLVMValueRef sums = cg_load(c, c->vf, cg_at(c, c->f32, total_at(g, 0, l.i), cg_mul(c, row.i, stride)));
  LLVMValueRef to = cg_at(c, c->f32, g->out, cg_add(c, cg_mul(c, row.i, g->n), cg_add(c, u->n0, l.i)));
  cg_store_masked(c, sums, to, cg_mask(c, cg_sub(c, u->n, l.i)));
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &row, NULL);
}

// ---- rows of B
typedef struct {
  uint32_t n;
  LLVMValueRef b[MOST_AT_ONCE];             // in the block's first column
  LLVMValueRef a[MOST_ROWS][MOST_AT_ONCE];  // A's elements, in all lanes
} Rows;

// Where there are fewer rows of A than their bound, the last one stands in: its sums are not stored.
static Rows rows_from(Gemm *g, const Block *u, LLVMValueRef k, uint32_t n) {
  Cg *c = g->c;
  Rows r = {.n = n};
  LLVMValueRef last = cg_sub(c, g->m, cg_i64(c, 1));
  for (uint32_t j = 0; j < n; j++) {
    LLVMValueRef row = cg_add(c, k, cg_i64(c, j));
    r.b[j] = cg_at(c, c->f32, g->b, cg_add(c, cg_mul(c, row, g->n), u->n0));
    for (int64_t m = 0; m < g->p->m_max; m++) {
      LLVMValueRef at = cg_add(c, cg_mul(c, cg_min(c, cg_i64(c, m), last), g->k), row);
      r.a[m][j] = cg_splat(c, cg_load(c, c->f32, cg_at(c, c->f32, g->a, at)));
    }
  }
  return r;
}

static void add_vector(Gemm *g, const Rows *r, LLVMValueRef n, LLVMValueRef mask) {
  Cg *c = g->c;
  LLVMValueRef sum[MOST_ROWS];
  for (int64_t m = 0; m < g->p->m_max; m++) sum[m] = cg_load(c, c->vf, sums_at(g, m, n));
  for (uint32_t j = 0; j < r->n; j++) {
    LLVMValueRef at = cg_at(c, c->f32, r->b[j], n);
    LLVMValueRef b = mask ? cg_load_masked(c, c->vf, at, mask) : cg_load(c, c->vf, at);
    for (int64_t m = 0; m < g->p->m_max; m++) sum[m] = cg_fma(c, r->a[m][j], b, sum[m]);
  }
  for (int64_t m = 0; m < g->p->m_max; m++) cg_store(c, sum[m], sums_at(g, m, n));
}

// ---- prefetch: `next` and `row_end` are elements of B. It goes on in the next row where the block's columns end
typedef struct {
  LLVMValueRef next, row_end;
} Ahead;

static uint32_t lines_of_step(const Gemm *g, uint32_t n_rows) {
  return (uint32_t)cg_larger(1, (int64_t)n_rows * g->c->t->vl / LINE);
}

static Ahead ahead_of(Gemm *g, const Block *u, LLVMValueRef k) {
  Cg *c = g->c;
  LLVMValueRef next = cg_add(c, cg_mul(c, k, g->n), u->n0);
  return (Ahead){next, cg_add(c, next, u->n)};
}

static Ahead prefetch(Gemm *g, const Block *u, Ahead at, uint32_t lines) {
  Cg *c = g->c;
  for (uint32_t i = 0; i < lines; i++)
    cg_prefetch_l2(c, cg_at(c, c->f32, g->b, cg_add(c, at.next, cg_i64(c, i * LINE))));
  LLVMValueRef next = cg_add(c, at.next, cg_i64(c, lines * LINE));
  LLVMValueRef past = LLVMBuildICmp(c->b, LLVMIntSGE, next, at.row_end, "");
  LLVMValueRef gap = LLVMBuildSelect(c->b, past, cg_sub(c, g->n, u->n), cg_i64(c, 0), "");
  LLVMValueRef row = LLVMBuildSelect(c->b, past, g->n, cg_i64(c, 0), "");
  return (Ahead){cg_add(c, next, gap), cg_add(c, at.row_end, row)};
}

// Adds rows [k, k + n_rows) of B.
static void add_rows(Gemm *g, const Block *u, LLVMValueRef k, uint32_t n_rows) {
  Cg *c = g->c;
  bool ahead = n_rows > 1 && !c->t->follows_streams;
  LLVMValueRef vl = cg_i64(c, c->t->vl), rest = cg_rem(c, u->n, vl), whole = cg_sub(c, u->n, rest);
  Rows r = rows_from(g, u, k, n_rows);
  Ahead at = ahead_of(g, u, cg_add(c, k, cg_i64(c, n_rows)));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, (LLVMValueRef[]){at.next, at.row_end}, ahead ? 2 : 0);
  if (ahead) at = prefetch(g, u, (Ahead){l.carry[0], l.carry[1]}, lines_of_step(g, n_rows));
  add_vector(g, &r, l.i, NULL);
  cg_loop_end(c, &l, (LLVMValueRef[]){at.next, at.row_end});
  cg_loop_begin(c, &l, whole, u->n, vl, NULL, 0);  // once or not at all
  add_vector(g, &r, whole, u->tail);
  cg_loop_end(c, &l, NULL);
}

// Adds rows [begin, end) of B.
static void add_all(Gemm *g, const Block *u, LLVMValueRef begin, LLVMValueRef end) {
  Cg *c = g->c;
  LLVMValueRef at_once = cg_i64(c, g->p->mr), whole = cg_sub(c, end, cg_rem(c, cg_sub(c, end, begin), at_once));
  Loop l;
  cg_loop_begin(c, &l, begin, whole, at_once, NULL, 0);
  add_rows(g, u, l.i, g->p->mr);
  cg_loop_end(c, &l, NULL);
  cg_loop_begin(c, &l, whole, end, cg_i64(c, 1), NULL, 0);
  add_rows(g, u, l.i, 1);
  cg_loop_end(c, &l, NULL);
}

static void add_by_partials(Gemm *g, const Block *u) {
  Cg *c = g->c;
  LLVMValueRef step = cg_i64(c, rows_of_partial(g));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), g->k, step, NULL, 0);
  add_all(g, u, l.i, cg_min(c, g->k, cg_add(c, l.i, step)));
  add_partials(g, u);
  cg_loop_end(c, &l, NULL);
}

void cg_gemm_axpy_emit(Gemm *g) {
  Cg *c = g->c;
  LLVMValueRef lo, hi, step = cg_i64(c, g->p->nc);
  cg_share(c, g->panels, GRAIN, &lo, &hi);
  LLVMValueRef end = cg_min(c, cg_mul(c, hi, cg_i64(c, g->p->width)), g->n);
  end = LLVMBuildSelect(c->b, LLVMBuildICmp(c->b, LLVMIntSGT, g->m, cg_i64(c, 0), ""), end, cg_i64(c, 0), "");
  Loop block;
  cg_loop_begin(c, &block, cg_mul(c, lo, cg_i64(c, g->p->width)), end, step, NULL, 0);
  Block u = {.n0 = block.i, .n = cg_min(c, step, cg_sub(c, end, block.i))};
  u.tail = cg_mask(c, cg_rem(c, u.n, cg_i64(c, c->t->vl)));
  begin_sums(g, &u);
  if (has_partials(g)) add_by_partials(g, &u);
  else add_all(g, &u, cg_i64(c, 0), g->k);
  end_sums(g, &u);
  cg_loop_end(c, &block, NULL);
}
