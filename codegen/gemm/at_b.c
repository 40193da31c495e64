// Strategy at_b: C = A^T B of two operands that are stored by rows of k, of which one is narrow: weight gradients of layers
// with few inputs or outputs.
//
//                          panel of the wide operand (nv vectors)
//                         +----+----+----+
//   columns of the narrow |    |    |    |     A tile's rows are neighbours in memory, as a packed A would have
//   one (rows of tiles)   |    |    |    |     them, and its columns are read where they lie: nothing is packed. Of
//                         +----+----+----+     the wide operand every worker reads its own columns alone.
//
// Where B is narrow these are the sums of C^T, which are transposed into C by squares of vl x vl. The sums of a group of
// panels wait on the stack while the group goes through k, KC block by KC block, so that each row is read from end to end
// and the narrow operand once; tiles prefetch what the next panel reads.
#include "codegen/gemm/gemm.h"
#include "codegen/tuning.h"

enum { TUNED_AT_B(TUNE) };

static int64_t panel_width(const Target *t) { return (int64_t)t->gemm_nv * t->vl; }

static bool is_narrow_b(const GemmPlan *p) { return p->n_max <= MOST_COLUMNS && p->n_max < p->m_max; }
static bool is_narrow_a(const GemmPlan *p) {
  return p->m_max <= MOST_COLUMNS && p->m_max <= p->n_max && p->k_max >= LONG_K && ir_none(p->update);
}
static int64_t narrow_of(const GemmPlan *p) { return is_narrow_b(p) ? p->n_max : p->m_max; }
static int64_t wide_of(const GemmPlan *p) { return is_narrow_b(p) ? p->m_max : p->n_max; }

bool cg_gemm_at_b_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool plain = p->ta && !p->tb && !p->single_threaded && !p->batch.n;
  bool constant = p->m.n == 1 && ir_dim_is_const(f->prog, p->m.dim[0]) && ir_dim_is_const(f->prog, p->n);
  return plain && constant && (is_narrow_a(p) || is_narrow_b(p)) && wide_of(p) >= 2 * (int64_t)t->vl;
}

void cg_gemm_at_b_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->width = panel_width(t);
  p->kc = cg_gemm_kc(p->k_slice ? p->k_slice : p->k_max, KC, t);
  p->units = cg_ceil_div(wide_of(p), p->width);
}

// Panels whose sums wait on the stack.
static int64_t group_of(const GemmPlan *p, const Target *t) {
  int64_t fit = ir_f32_in(t->gemm_acc_bytes) / (narrow_of(p) * p->width);
  return cg_larger(1, cg_smaller(fit, cg_ceil_div(wide_of(p), p->width)));
}

void cg_gemm_at_b_stack(Gemm *g) {
  Cg *c = g->c;
  int64_t vl = c->t->vl, n = narrow_of(g->p) * g->p->width;
  g->strip = cg_gemm_on_stack(c, group_of(g->p, c->t) * n);
  g->b_block = cg_gemm_on_stack(c, vl * vl);
  if (g->p->epilogue && is_narrow_b(g->p)) g->a_block = cg_gemm_on_stack(c, n);
}

typedef struct {
  Gemm *g;
  V narrow, wide;             // operands
  V group, square;            // sums of a group [panel][n][width]; [vl][vl]
  V group_begin, group_end;   // panels
  V out, out_row;             // of the slice, from this row on
  V k_begin, k_end, k0, n_k;  // of the slice; the KC block
  int64_t m, n, width;        // columns of the wide operand, and of the narrow one
  bool transposes;            // into C
  bool blocks;                // k is cut: every tile adds to the sums
} AtB;

typedef struct {
  V nth, m0, sums;  // its number, its first column
  uint32_t nv;      // vectors; the last one is masked if the wide operand ends inside it
  bool ends;
} Panel;

static bool prefetches(const AtB *u) {
  const Cg *c = u->g->c;
  return u->blocks && u->g->p->k_max * u->m > ir_f32_in(c->t->facts.l2_bytes / L2_PART);
}

// Prefetches its share of lines of rows of k: those of the next panel of the group, or of the first one in
// the next KC block.
static void prefetch_next(AtB *u, const Panel *of, TileSpec *spec, TileArgs *args) {
  Cg *c = u->g->c;
  if (!prefetches(u)) return;
  int64_t tiles = cg_ceil_div(u->n, spec->mr), lines = cg_ceil_div(u->width, TILE_LINE);
  spec->prefetch_lines = (uint32_t)cg_ceil_div(lines, tiles);
  spec->prefetch_tiles = (uint32_t)lines / spec->prefetch_lines;
  V next = cg_add(c, of->nth, cg_i64(c, 1)), m = cg_i64(c, u->m);
  V more = cg_lt(c, next, u->group_end);
  V panel = cg_select(c, more, next, u->group_begin);
  V k = cg_select(c, more, u->k0, cg_add(c, u->k0, u->n_k));
  V at = cg_index(c, k, m, cg_mul(c, panel, cg_i64(c, u->width)));
  args->prefetch = cg_at(c, c->f32, u->wide, at), args->prefetch_row = m;
  args->prefetch_tile = cg_i64(c, (int64_t)spec->prefetch_lines * TILE_LINE);
}

// The panel's sums += narrow^T wide, of the KC block.
static void tiles(AtB *u, const Panel *of) {
  Cg *c = u->g->c;
  int64_t vl = c->t->vl;
  TileSpec spec = {.mr = cg_tile_height(u->n, c->t->gemm_mr),
                   .nv = of->nv,
                   .a_row = 1,
                   .a_k = TILE_DYN,
                   .b_k = TILE_DYN,
                   .b_vec = vl,
                   .c_row = u->width,
                   .c_vec = vl,
                   .accumulate = u->blocks,
                   .mask_from = of->ends && u->m % vl ? of->nv - 1 : of->nv,
                   .mask_step = vl,
                   .mask_b = true};
  V left = cg_sub(c, cg_i64(c, u->m), of->m0);
  TileArgs args = {.a = cg_row(c, u->narrow, u->k0, cg_i64(c, u->n)),
                   .b = cg_cell(c, u->wide, u->k0, cg_i64(c, u->m), of->m0),
                   .c = of->sums,
                   .k = u->n_k,
                   .n = left,
                   .a_k = cg_i64(c, u->n),
                   .b_k = cg_i64(c, u->m)};
  TileRows rows = {.rows = cg_i64(c, u->n), .left = u->n % spec.mr, .a_block = cg_i64(c, spec.mr)};
  cg_tile_sum_in_parts(&spec, c->t, u->g->p->k_max, u->g->p->kc, 1);
  prefetch_next(u, of, &spec, &args);
  cg_tile_rows(c, &spec, &args, &rows);
}

static void clear(AtB *u, const Panel *of) {
  Cg *c = u->g->c;
  for (Loop l = cg_count_by(c, cg_i64(c, u->n * u->width), cg_vl(c)); cg_next(&l);)
    cg_put(c, cg_zeros(c), of->sums, l.i);
}

// ---- C from the sums
typedef struct {
  uint32_t nv;    // vectors of a row of sums
  bool is_whole;  // C has whole squares alone
} Squares;
enum { OF_SUMS, OF_WIDTH, OF_C, OF_ROW, OF_COLUMNS, OF_ROWS, OF_SQUARE, N_OF_SQUARES };

// A square of C, at most, of so many columns and rows that are left.
static void store_square(Cg *c, const V *arg, V from, V to, V columns, V rows, bool is_whole) {
  V some = cg_vl(c), row = arg[OF_ROW], square = arg[OF_SQUARE];
  if (is_whole) {
    cg_transpose_block(c, from, arg[OF_WIDTH], some, some, to, row);
    return;
  }
  cg_transpose_block(c, from, arg[OF_WIDTH], columns, rows, square, some);
  for (Loop l = cg_count(c, cg_min(c, rows, some)); cg_next(&l);) {
    V x = cg_get(c, c->vf, square, cg_mul(c, l.i, some));
    cg_put_masked(c, x, to, cg_mul(c, l.i, row), cg_mask(c, columns));
  }
}

// void squares(sums, width, C, from one of its rows to the next, columns, rows, room for a square)
static void make_squares(Cg *c, V fn, void *ctx) {
  const Squares *s = ctx;
  int64_t vl = c->t->vl;
  V arg[N_OF_SQUARES];
  for (uint32_t k = 0; k < N_OF_SQUARES; k++) arg[k] = LLVMGetParam(fn, k);
  for (Loop l = cg_count_by(c, arg[OF_COLUMNS], cg_i64(c, vl)); cg_next(&l);)
    for (uint32_t j = 0; j < s->nv; j++) {
      V lane = cg_i64(c, j * vl), from = cg_cell(c, arg[OF_SUMS], l.i, arg[OF_WIDTH], lane);
      V to = cg_cell(c, arg[OF_C], lane, arg[OF_ROW], l.i), columns = cg_sub(c, arg[OF_COLUMNS], l.i);
      store_square(c, arg, from, to, columns, cg_sub(c, arg[OF_ROWS], lane), s->is_whole);
    }
  LLVMBuildRetVoid(c->b);
}

// An epilogue gets the rows from the stack.
static void store_transposed(AtB *u, const Panel *of) {
  Cg *c = u->g->c;
  int64_t vl = c->t->vl;
  Squares some = {of->nv, u->m % vl == 0 && u->n % vl == 0};
  V columns = cg_i64(c, u->n), arg[N_OF_SQUARES] = {of->sums, cg_i64(c, u->width), NULL, columns, columns};
  if (u->g->epilogue) u->out = u->g->a_block, u->out_row = of->m0;
  arg[OF_C] = cg_row(c, u->out, cg_sub(c, of->m0, u->out_row), columns);
  arg[OF_ROWS] = cg_sub(c, cg_i64(c, u->m), of->m0), arg[OF_SQUARE] = u->square;
  const char *name = rt_printf(c->mem, "squares.%u%s", some.nv, some.is_whole ? ".whole" : "");
  cg_call_helper(c, name, arg, N_OF_SQUARES, make_squares, &some);
  if (!u->g->epilogue) return;
  V n = cg_i64(c, u->n), rows = cg_min(c, cg_i64(c, of->nv * vl), cg_sub(c, cg_i64(c, u->m), of->m0));
  cg_gemm_epilogue(u->g, of->m0, rows, cg_i64(c, 0), n, u->out, n);
}

static void store_rows(AtB *u, const Panel *of) {
  Cg *c = u->g->c;
  int64_t vl = c->t->vl;
  V columns = cg_sub(c, cg_i64(c, u->m), of->m0);
  for (Loop l = cg_count(c, cg_i64(c, u->n)); cg_next(&l);) {
    V from = cg_row(c, of->sums, l.i, cg_i64(c, u->width));
    V to = cg_cell(c, u->out, l.i, cg_i64(c, u->m), of->m0);
    for (uint32_t j = 0; j < of->nv; j++) {
      V lane = cg_i64(c, j * vl), mask = cg_mask(c, cg_sub(c, columns, lane));
      cg_put_masked(c, cg_get(c, c->vf, from, lane), to, lane, mask);
    }
  }
}

static void store(AtB *u, const Panel *of) {
  Cg *c = u->g->c;
  if (u->transposes) {
    store_transposed(u, of);
  } else if (u->g->epilogue) {
    V columns = cg_min(c, cg_i64(c, u->width), cg_sub(c, cg_i64(c, u->m), of->m0));
    cg_gemm_epilogue(u->g, cg_i64(c, 0), cg_i64(c, u->n), of->m0, columns, of->sums, cg_i64(c, u->width));
  } else {
    store_rows(u, of);
  }
}

// ---- panels
// Visits each panel of the group: a whole one, or the last one with fewer columns.
static void each_panel(AtB *u, void (*body)(AtB *u, const Panel *of)) {
  Cg *c = u->g->c;
  int64_t left = u->m % u->width, whole = u->m / u->width;
  uint32_t last_nv = (uint32_t)cg_ceil_div(left, c->t->vl), nv = c->t->gemm_nv;
  for (Loop l = cg_each(c, u->group_begin, u->group_end); cg_next(&l);) {
    V in_group = cg_sub(c, l.i, u->group_begin);
    Panel of = {.nth = l.i,
                .m0 = cg_mul(c, l.i, cg_i64(c, u->width)),
                .sums = cg_row(c, u->group, in_group, cg_i64(c, u->n * u->width)),
                .nv = left && !whole ? last_nv : nv,
                .ends = left && !whole};
    if (left && whole) {
      Panel last = of;
      last.nv = last_nv, last.ends = true;
      for (If is_last = cg_either(c, cg_eq(c, l.i, cg_i64(c, whole))); cg_then(&is_last);)
        if (is_last.is_true) body(u, &last);
        else body(u, &of);
    } else {
      body(u, &of);
    }
  }
}

static void group(AtB *u) {
  Cg *c = u->g->c;
  u->k0 = u->k_begin, u->n_k = u->g->k;
  if (u->blocks) {
    each_panel(u, clear);
    for (Loop l = cg_each_by(c, u->k_begin, u->k_end, cg_i64(c, u->g->p->kc)); cg_next(&l);) {
      u->k0 = l.i, u->n_k = cg_min(c, cg_i64(c, u->g->p->kc), cg_sub(c, u->k_end, l.i));
      each_panel(u, tiles);
    }
  } else {
    each_panel(u, tiles);
  }
  each_panel(u, store);
}

// Units are panels, slice of k by slice of k; groups of the panels of a slice.
void cg_gemm_at_b_emit(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  bool narrow_b = is_narrow_b(p);
  AtB u = {.g = g, .transposes = narrow_b, .m = wide_of(p), .n = narrow_of(p), .width = p->width};
  u.narrow = narrow_b ? g->b : g->a, u.wide = narrow_b ? g->a : g->b;
  u.blocks = p->kc < p->k_max;
  u.group = g->strip, u.square = g->b_block;
  V lo, hi, p0, p1, panels = cg_i64(c, cg_ceil_div(u.m, u.width)), step = cg_i64(c, group_of(p, c->t));
  cg_share(c, g->slices ? cg_mul(c, g->slices, panels) : panels, 1, &lo, &hi);
  for (Loop slice = cg_each_row(c, lo, hi, panels, &p0, &p1); cg_next(&slice);) {
    for (Loop l = cg_each_by(c, p0, p1, step); cg_next(&l);) {
      u.group_begin = l.i, u.group_end = cg_min(c, p1, cg_add(c, l.i, step));
      cg_gemm_k_range(g, slice.i, &u.k_begin, &u.k_end);
      u.out = cg_row(c, g->sums, slice.i, cg_i64(c, u.m * u.n)), u.out_row = cg_i64(c, 0);
      group(&u);
    }
  }
}
