// Strategy integers: products modulo 2^bits of their dtype. Nothing is rounded: terms are summed in any order, and results
// are those of any team.
//
//   tile      mr rows x nv vectors of the result in registers, k innermost: an element of A, broadcast, times a row of B
//   unit      mc rows x PANELS panels of one matrix of the batch, the work of one worker. k passes by in blocks of kc: that
//             much of B is packed, [panel][kc][width], and of the rows of a tile, [rows][strip], both in private memory
//   few rows  B is read where it lies, FEW_K rows of it at a time from one end of the unit to the other
//   a column  B has one: a unit's rows are dot products with it
//
// Bytes are worked on in lanes of 16 bits that hold two neighbours each, as they lie: a * lane has the product of the lower
// one in its low byte, a * (lane >> 8) that of the upper one. What stands above a low byte is cut off when it is stored.
#include "codegen/gemm/gemm.h"

enum {
  PANELS = 4,        // of a unit
  FEW_K = 8,         // rows of B that are read at a time where they are not packed
  MOST_VECTORS = 8,  // of accumulators in a row of a tile
  UNITS = 64,        // that are wanted before rows of a unit grow
  UNIT_TILES = 4,    // that a unit has above each other, at least
  DOT_ROWS = 16,     // of a unit of dot products
  DOT_TILE = 4,      // rows at a time,
  DOT_VECTORS = 2,   // by vectors of accumulators
  CACHE_LINE = 64,   // by which rows of a strip are apart, beside their length: they meet in no set of the cache
  N_SIZES = 3
};

typedef struct {
  Cg *c;
  Gemm *g;
  const GemmPlan *p;
  DType t;
  uint32_t parts;               // accumulators of a vector: 2 of bytes
  uint32_t lanes;               // elements of a vector
  uint32_t size[N_SIZES];       // rows of tiles, those of most first
  int64_t strip;                // elements from row to row of a strip
  LLVMTypeRef elem, word;       // word: what a strip has for an element of A
  LLVMTypeRef stored, lanes_t;  // a vector in memory and in a register
} Integers;

// Rows [m0, m1) and columns [n0, n1) of one matrix, whose operands begin at a and b, and its result at y.
typedef struct {
  V a, b, y, m0, m1, n0, n1, k0, n_k;
} Unit;

// ---- the plan: by bounds alone
static uint32_t parts_of(DType t) { return ir_dtype_bytes[t] == 1 ? 2 : 1; }
static int64_t strip_of(const GemmPlan *p, DType t, int64_t vl) {
  int64_t word = parts_of(t) == 2 ? 4 : ir_dtype_bytes[t];
  return cg_round_up(p->kc, vl) + CACHE_LINE / word;
}

bool cg_gemm_integers_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)t;
  return ir_dtype_kind[ir_ins(f, p->product)->dtype] != DTYPE_FLOAT;
}

void cg_gemm_integers_plan(const Fn *f, GemmPlan *p, const Target *t) {
  DType dtype = (DType)ir_ins(f, p->product)->dtype;
  int64_t bytes = ir_dtype_bytes[dtype], vl = t->vl, lanes = 4 * vl / bytes, parts = parts_of(dtype);
  int64_t m = cg_larger(p->m_max, 1);
  p->mr = (uint32_t)cg_ceil_div(m, cg_ceil_div(m, t->gemm_mr));  // as even as those of a constant number can be
  p->nv = (uint32_t)cg_smaller((int64_t)t->gemm_mr * t->gemm_nv / (p->mr * parts), MOST_VECTORS / parts);
  p->nv = (uint32_t)cg_larger(1, cg_smaller(p->nv, cg_ceil_div(p->n_max, lanes)));
  p->width = p->nv * lanes;
  p->nc = PANELS * p->width, p->mc = DOT_ROWS, p->kc = FEW_K;
  if (ir_dim_is_one(f->prog, p->n)) {
    p->nc = 1;
    return;
  }
  if (m > t->gemm_mr) p->pack_b = B_PRIVATE;
  if (p->pack_b == B_PRIVATE) p->kc = cg_larger(vl, t->stack_bytes / 4 / (p->nc * bytes) / vl * vl);
  p->kc = cg_smaller(p->kc, cg_round_up(cg_larger(p->k_max, 1), vl));
  int64_t units = p->batch_max * cg_ceil_div(p->n_max, p->nc);
  int64_t most = t->gemm_mc_bytes / (p->kc * bytes), wanted = m / cg_ceil_div(UNITS, cg_larger(units, 1));
  p->mc = cg_round_up(cg_larger(cg_smaller(most, wanted), (int64_t)UNIT_TILES * p->mr), p->mr);
}

// Private memory of rows of A, and of a block of B.
void cg_gemm_integers_stack(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  DType t = (DType)ir_ins(c->f, p->product)->dtype;
  if (p->nc == 1) return;
  g->a_block = cg_block(c, parts_of(t) == 2 ? c->i32 : cg_elem_type(c, t), p->mr * strip_of(p, t, c->t->vl));
  if (p->pack_b == B_PRIVATE) g->b_block = cg_block(c, c->i32, p->nc * p->kc * ir_dtype_bytes[t] / 4);
}

// ---- vectors
static V vector_of(const Integers *w, V word) {
  Cg *c = w->c;
  if (w->parts == 1) return cg_splat_n(c, word, w->lanes);
  return cg_bitcast(c, cg_splat_n(c, word, w->lanes / 4), w->lanes_t);
}

static V byte_above(const Integers *w, V x) {
  LLVMTypeRef lane = LLVMGetElementType(w->lanes_t);
  return cg_lshr(w->c, x, cg_splat_n(w->c, LLVMConstInt(lane, 8, false), w->lanes / 2));
}

// Of the elements at p: w->parts operands of products.
static void load(const Integers *w, V p, V mask, V *x) {
  Cg *c = w->c;
  V stored = cg_load_masked(c, w->stored, p, mask);
  x[0] = stored;
  if (w->parts == 1) return;
  x[0] = cg_bitcast(c, stored, w->lanes_t);
  x[1] = byte_above(w, x[0]);
}

static void store(const Integers *w, V p, V mask, const V *x) {
  Cg *c = w->c;
  V stored = x[0];
  if (w->parts == 2) {
    LLVMTypeRef lane = LLVMGetElementType(w->lanes_t);
    V low = cg_splat_n(c, LLVMConstInt(lane, 0xff, false), w->lanes / 2);
    V eight = cg_splat_n(c, LLVMConstInt(lane, 8, false), w->lanes / 2);
    V both = cg_or(c, cg_and(c, x[0], low), cg_shl(c, x[1], eight));
    stored = cg_bitcast(c, both, w->stored);
  }
  if (mask) cg_store_masked(c, stored, p, mask);
  else cg_store(c, stored, p);
}

// Lanes 0 .. n-1 of a vector from element `first` on.
static V mask_of(const Integers *w, V n, int64_t first) {
  Cg *c = w->c;
  V left = cg_sub(c, n, cg_i64(c, first));
  left = cg_max(c, cg_i64(c, 0), cg_min(c, left, cg_i64(c, w->lanes)));
  V few = cg_splat_n(c, cg_trunc(c, left, c->i8), w->lanes);
  return cg_below(c, cg_lane_numbers_of(c->i8, w->lanes), few);
}

static V add_product(const Integers *w, V sum, V a, V b) { return cg_iadd(w->c, sum, cg_imul(w->c, a, b)); }

// ---- a tile
typedef struct {
  uint32_t rows, nv;
  V b, b_row;  // first element of B, and elements from row to row
  V y;         // first element of the result
  V left;      // columns, where that may be fewer than the tile's; else NULL
  bool masks_b;
} Tile;

static V result_at(const Integers *w, const Tile *t, uint32_t row, uint32_t vector) {
  Cg *c = w->c;
  V at = cg_add(c, cg_mul(c, cg_i64(c, row), w->g->n), cg_i64(c, (int64_t)vector * w->lanes));
  return cg_at(c, w->elem, t->y, at);
}

// Zeros where the first block of k begins, else what the blocks before have summed.
static void begin_sums(const Integers *w, const Unit *u, const Tile *t, V *mask, V *sum) {
  Cg *c = w->c;
  uint32_t n = t->rows * t->nv * w->parts;
  V none[MAX_CARRY], before[MAX_CARRY];
  LLVMBasicBlockRef from[2];
  for (If first = cg_either(c, cg_eq(c, u->k0, cg_i64(c, 0))); cg_then(&first);)
    if (first.is_true) {
      for (uint32_t i = 0; i < n; i++) none[i] = LLVMConstNull(w->lanes_t);
      from[0] = LLVMGetInsertBlock(c->b);
    } else {
      for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t v = 0; v < t->nv; v++)
          load(w, result_at(w, t, r, v), mask[v], &before[(r * t->nv + v) * w->parts]);
      from[1] = LLVMGetInsertBlock(c->b);
    }
  for (uint32_t i = 0; i < n; i++) sum[i] = cg_phi(c, none[i], before[i], from);
}

static void add_rank_one(const Integers *w, const Tile *t, V k, V *mask, const V *sum, V *next) {
  Cg *c = w->c;
  V b[MOST_VECTORS * 2], row = cg_mul(c, k, t->b_row);
  for (uint32_t v = 0; v < t->nv; v++) {
    V p = cg_at(c, w->elem, t->b, cg_add(c, row, cg_i64(c, (int64_t)v * w->lanes)));
    load(w, p, t->masks_b ? mask[v] : NULL, &b[v * w->parts]);
  }
  uint32_t per_row = t->nv * w->parts;
  for (uint32_t r = 0; r < t->rows; r++) {
    V p = cg_at(c, w->word, w->g->a_block, cg_add(c, k, cg_i64(c, r * w->strip)));
    V a = vector_of(w, cg_load(c, w->word, p));
    for (uint32_t i = 0; i < per_row; i++) next[r * per_row + i] = add_product(w, sum[r * per_row + i], a, b[i]);
  }
}

static void emit_tile(const Integers *w, const Unit *u, const Tile *t) {
  Cg *c = w->c;
  V sum[MAX_CARRY], next[MAX_CARRY], mask[MOST_VECTORS] = {NULL};
  uint32_t n = t->rows * t->nv * w->parts;
  for (uint32_t v = 0; v < t->nv && t->left; v++) mask[v] = mask_of(w, t->left, (int64_t)v * w->lanes);
  begin_sums(w, u, t, mask, sum);
  for (Loop l = cg_carry(c, cg_i64(c, 0), u->n_k, cg_i64(c, 1), sum, n); cg_next(&l);) {
    add_rank_one(w, t, l.i, mask, sum, next);
    for (uint32_t k = 0; k < n; k++) sum[k] = next[k];
  }
  for (uint32_t r = 0; r < t->rows; r++)
    for (uint32_t v = 0; v < t->nv; v++) store(w, result_at(w, t, r, v), mask[v], &sum[(r * t->nv + v) * w->parts]);
}

// ---- private copies
// A word of A is the element, of bytes twice: in both halves of 32 bits.
static V words_of(const Integers *w, V x) {
  Cg *c = w->c;
  if (w->parts == 1) return x;
  V wide = cg_zext(c, x, c->vi32);
  return cg_imul(c, wide, cg_splat(c, cg_i32(c, 0x10001)));
}

static void fill_strip(const Integers *w, const Unit *u, V row, uint32_t rows) {
  Cg *c = w->c;
  LLVMTypeRef vec = cg_vector_type(c, w->t, c->t->vl);
  V vl = cg_i64(c, c->t->vl), whole = cg_multiple(c, u->n_k, vl);
  for (Loop r = cg_count(c, cg_i64(c, rows)); cg_next(&r);) {
    V from = cg_at(c, w->elem, u->a, cg_add(c, cg_mul(c, cg_add(c, row, r.i), w->g->k), u->k0));
    V to = cg_at(c, w->word, w->g->a_block, cg_mul(c, r.i, cg_i64(c, w->strip)));
    for (Loop l = cg_each_by(c, cg_i64(c, 0), whole, vl); cg_next(&l);)
      cg_put(c, words_of(w, cg_load(c, vec, cg_at(c, w->elem, from, l.i))), to, l.i);
    for (If rest = cg_when(c, cg_lt(c, whole, u->n_k)); cg_then(&rest);) {
      V x = cg_load_masked(c, vec, cg_at(c, w->elem, from, whole), cg_mask(c, cg_sub(c, u->n_k, whole)));
      cg_put(c, words_of(w, x), to, whole);
    }
  }
}

// The panel of B that begins at `column`, of which `left` are there; left NULL: all.
static void pack_panel(const Integers *w, const Unit *u, V column, V left) {
  Cg *c = w->c;
  V mask[MOST_VECTORS] = {NULL};
  V to = cg_at(c, w->elem, w->g->b_block, cg_mul(c, cg_sub(c, column, u->n0), cg_i64(c, w->p->kc)));
  for (uint32_t v = 0; v < w->p->nv && left; v++) mask[v] = mask_of(w, left, (int64_t)v * w->lanes);
  for (Loop l = cg_count(c, u->n_k); cg_next(&l);) {
    V row = cg_add(c, cg_mul(c, cg_add(c, u->k0, l.i), w->g->n), column);
    for (uint32_t v = 0; v < w->p->nv; v++) {
      V first = cg_i64(c, (int64_t)v * w->lanes), p = cg_at(c, w->elem, u->b, cg_add(c, row, first));
      V x = cg_load_masked(c, w->stored, p, mask[v]);
      cg_put(c, x, to, cg_add(c, cg_mul(c, l.i, cg_i64(c, w->p->width)), first));
    }
  }
}

// ---- a unit
typedef void PerPanel(const Integers *w, const Unit *u, V column, V left, void *ctx);

// All panels of the unit: whole ones, and what is left of columns.
static void each_panel(const Integers *w, const Unit *u, PerPanel *emit, void *ctx) {
  Cg *c = w->c;
  V width = cg_i64(c, w->p->width), n = cg_sub(c, u->n1, u->n0);
  V whole = cg_add(c, u->n0, cg_multiple(c, n, width));
  int64_t known;
  bool is_known = cg_const_value(w->g->n, &known);
  if (!is_known || known >= w->p->width) {
    for (Loop l = cg_each_by(c, u->n0, whole, width); cg_next(&l);) emit(w, u, l.i, NULL, ctx);
  }
  if (is_known && known % w->p->width == 0) return;
  for (If rest = cg_when(c, cg_lt(c, whole, u->n1)); cg_then(&rest);) emit(w, u, whole, cg_sub(c, u->n1, whole), ctx);
}

static void pack_at(const Integers *w, const Unit *u, V column, V left, void *ctx) {
  (void)ctx;
  pack_panel(w, u, column, left);
}

typedef struct {
  V row;
  uint32_t rows;
} Rows;

static uint32_t vectors_left(const Integers *w, V left) {
  int64_t n;
  return left && cg_const_value(w->g->n, &n) ? (uint32_t)cg_ceil_div(n % w->p->width, w->lanes) : w->p->nv;
}

static void tile_at(const Integers *w, const Unit *u, V column, V left, void *ctx) {
  Cg *c = w->c;
  const Rows *r = ctx;
  Tile t = {.rows = r->rows, .nv = vectors_left(w, left), .left = left, .masks_b = left && w->p->pack_b == B_IN_PLACE};
  if (w->p->pack_b == B_PRIVATE) {
    t.b = cg_at(c, w->elem, w->g->b_block, cg_mul(c, cg_sub(c, column, u->n0), cg_i64(c, w->p->kc)));
    t.b_row = cg_i64(c, w->p->width);
  } else {
    t.b = cg_at(c, w->elem, u->b, cg_add(c, cg_mul(c, u->k0, w->g->n), column));
    t.b_row = w->g->n;
  }
  t.y = cg_at(c, w->elem, u->y, cg_add(c, cg_mul(c, r->row, w->g->n), column));
  emit_tile(w, u, &t);
}

// As many tiles of so many rows as there are from `row` on: the first row behind them.
static V emit_rows(const Integers *w, const Unit *u, V row, uint32_t rows) {
  Cg *c = w->c;
  V step = cg_i64(c, rows), end = cg_add(c, row, cg_multiple(c, cg_sub(c, u->m1, row), step));
  for (Loop l = cg_each_by(c, row, end, step); cg_next(&l);) {
    fill_strip(w, u, l.i, rows);
    each_panel(w, u, tile_at, &(Rows){l.i, rows});
  }
  return end;
}

static void emit_unit(const Integers *w, Unit *u) {
  Cg *c = w->c;
  V kc = cg_i64(c, w->p->kc), row = u->m0;
  for (Loop l = cg_each_by(c, cg_i64(c, 0), cg_max(c, w->g->k, cg_i64(c, 1)), kc); cg_next(&l);) {  // once where k is 0
    u->k0 = l.i, u->n_k = cg_min(c, kc, cg_sub(c, w->g->k, l.i));
    if (w->p->pack_b == B_PRIVATE) each_panel(w, u, pack_at, NULL);
    for (uint32_t i = 0; i < N_SIZES && w->size[i]; i++) row = emit_rows(w, u, row, w->size[i]);
  }
}

// ---- a column
static void add_dots(const Integers *w, const Unit *u, V row, uint32_t rows, uint32_t nv, V k, V mask, const V *sum,
                     V *next) {
  Cg *c = w->c;
  for (uint32_t v = 0; v < nv; v++) {
    V b[2], a[2], at = cg_add(c, k, cg_i64(c, (int64_t)v * w->lanes));
    load(w, cg_at(c, w->elem, u->b, at), mask, b);
    for (uint32_t r = 0; r < rows; r++) {
      V first = cg_mul(c, cg_add(c, row, cg_i64(c, r)), w->g->k);
      load(w, cg_at(c, w->elem, u->a, cg_add(c, first, at)), mask, a);
      for (uint32_t i = 0; i < w->parts; i++) {
        uint32_t at_sum = (r * DOT_VECTORS + v) * w->parts + i;
        next[at_sum] = add_product(w, sum[at_sum], a[i], b[i]);
      }
    }
  }
}

static void dots_over(const Integers *w, const Unit *u, V row, uint32_t rows, uint32_t nv, V lo, V hi, V *sum) {
  Cg *c = w->c;
  uint32_t n = rows * DOT_VECTORS * w->parts;
  V next[MAX_CARRY];
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, (int64_t)nv * w->lanes), sum, n); cg_next(&l);) {
    for (uint32_t i = 0; i < n; i++) next[i] = sum[i];
    bool may_end = nv == 1;
    add_dots(w, u, row, rows, nv, l.i, may_end ? mask_of(w, cg_sub(c, hi, l.i), 0) : NULL, sum, next);
    for (uint32_t k = 0; k < n; k++) sum[k] = next[k];
  }
}

static void store_dot(const Integers *w, const V *sum, V p) {
  Cg *c = w->c;
  V total = NULL;
  for (uint32_t i = 0; i < w->parts; i++) {
    V lanes = sum[i];
    for (uint32_t v = 1; v < DOT_VECTORS; v++) lanes = cg_iadd(c, lanes, sum[v * w->parts + i]);
    V one = cg_call_intrinsic(c, "llvm.vector.reduce.add", (LLVMTypeRef[]){w->lanes_t}, 1, &lanes, 1);
    total = total ? cg_iadd(c, total, one) : one;
  }
  cg_store(c, LLVMBuildTruncOrBitCast(c->b, total, w->elem, ""), p);
}

static V emit_dots(const Integers *w, const Unit *u, V row, uint32_t rows) {
  Cg *c = w->c;
  V step = cg_i64(c, rows), end = cg_add(c, row, cg_multiple(c, cg_sub(c, u->m1, row), step));
  V wide = cg_i64(c, DOT_VECTORS * (int64_t)w->lanes), whole = cg_multiple(c, w->g->k, wide);
  V sum[MAX_CARRY];
  for (Loop l = cg_each_by(c, row, end, step); cg_next(&l);) {
    for (uint32_t i = 0; i < rows * DOT_VECTORS * w->parts; i++) sum[i] = LLVMConstNull(w->lanes_t);
    dots_over(w, u, l.i, rows, DOT_VECTORS, cg_i64(c, 0), whole, sum);
    dots_over(w, u, l.i, rows, 1, whole, w->g->k, sum);
    for (uint32_t r = 0; r < rows; r++)
      store_dot(w, &sum[r * DOT_VECTORS * w->parts], cg_at(c, w->elem, u->y, cg_add(c, l.i, cg_i64(c, r))));
  }
  return end;
}

// ---- all units
static void share_units(const Integers *w) {
  Cg *c = w->c;
  int64_t cols = w->p->nc;
  V row_blocks = cg_ceil_div_value(c, w->g->m, w->p->mc), col_blocks = cg_ceil_div_value(c, w->g->n, cols);
  V per_matrix = cg_mul(c, row_blocks, col_blocks);
  for (Loop l = cg_each_shared(c, cg_mul(c, w->g->batch, per_matrix), 1); cg_next(&l);) {
    V batch = cg_div(c, l.i, per_matrix), of_matrix = cg_rem(c, l.i, per_matrix);
    Unit u = {.m0 = cg_mul(c, cg_rem(c, of_matrix, row_blocks), cg_i64(c, w->p->mc)),
              .n0 = cg_mul(c, cg_div(c, of_matrix, row_blocks), cg_i64(c, cols))};
    u.m1 = cg_min(c, w->g->m, cg_add(c, u.m0, cg_i64(c, w->p->mc)));
    u.n1 = cg_min(c, w->g->n, cg_add(c, u.n0, cg_i64(c, cols)));
    u.a = cg_at(c, w->elem, w->g->a, cg_gemm_batch(w->g, LAID_A, batch));
    u.b = cg_at(c, w->elem, w->g->b, cg_gemm_batch(w->g, LAID_B, batch));
    u.y = cg_at(c, w->elem, w->g->out, cg_mul(c, batch, cg_mul(c, w->g->m, w->g->n)));
    if (w->p->nc == 1) emit_dots(w, &u, emit_dots(w, &u, u.m0, DOT_TILE), 1);
    else emit_unit(w, &u);
  }
}

// Any number of rows is made up of tiles of three sizes, a constant one of two.
static void choose_sizes(Integers *w) {
  uint32_t rows = w->p->mr;
  int64_t m;
  w->size[0] = rows;
  if (cg_const_value(w->g->m, &m)) w->size[1] = (uint32_t)(m % rows);
  else if (rows > 4) w->size[1] = 4, w->size[2] = 1;
  else if (rows > 1) w->size[1] = 1;
}

void cg_gemm_integers_emit(Gemm *g) {
  Cg *c = g->c;
  DType t = (DType)ir_ins(c->f, g->p->product)->dtype;
  Integers w = {.c = c, .g = g, .p = g->p, .t = t, .parts = parts_of(t), .elem = cg_elem_type(c, t)};
  w.lanes = 4 * c->t->vl / (uint32_t)ir_dtype_bytes[t];
  w.strip = strip_of(g->p, t, c->t->vl);
  w.stored = LLVMVectorType(w.elem, w.lanes);
  w.lanes_t = w.parts == 2 ? LLVMVectorType(LLVMInt16TypeInContext(c->ctx), w.lanes / 2) : w.stored;
  w.word = w.parts == 2 ? c->i32 : w.elem;
  choose_sizes(&w);
  share_units(&w);
}
