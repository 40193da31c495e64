// Strategy at_b: C = A^T B of two operands that are stored by rows of k, where B is narrow: weight gradients of layers
// with few inputs. C^T = B^T A is computed instead, and transposed when it is stored.
//
//                     panel of A's columns (nv vectors)
//                    +----+----+----+
//   columns of B     |    |    |    |     A tile's rows are neighbours in memory, as a packed A would have
//   (rows of tiles)  |    |    |    |     them, and its columns are read where they lie: nothing is packed. Of
//                    +----+----+----+     A, the large operand, every worker reads its own columns alone.
//
// Sums of a panel wait on the stack, KC block by KC block, and are transposed into C by squares of vl x vl.
#include "codegen/gemm/gemm.h"

enum { MOST_COLUMNS = 128, KC = 256 };  // of B; of a panel of A, so that what all its tiles read stays in L1 (054)

static int64_t panel_width(const Target *t) { return (int64_t)t->gemm_nv * t->vl; }

bool cg_gemm_at_b_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  bool plain = p->ta && !p->tb && !p->single_threaded && !p->batch.n;
  bool constant = p->m.n == 1 && ir_dim_is_const(f->prog, p->m.dim[0]) && ir_dim_is_const(f->prog, p->n);
  return plain && constant && p->n_max <= MOST_COLUMNS && p->n_max < p->m_max && p->m_max >= 2 * (int64_t)t->vl;
}

void cg_gemm_at_b_plan(const Fn *f, GemmPlan *p, const Target *t) {
  (void)f;
  p->width = panel_width(t);
  p->kc = cg_gemm_even_kc(p->k_slice ? p->k_slice : p->k_max, KC, t->vl);
  p->units = cg_ceil_div(p->m_max, p->width);
}

void cg_gemm_at_b_stack(Gemm *g) {
  Cg *c = g->c;
  int64_t vl = c->t->vl, n = g->p->n_max * panel_width(c->t);
  g->strip = cg_gemm_on_stack(c, n);
  g->b_block = cg_gemm_on_stack(c, vl * vl);
  if (g->p->epilogue) g->a_block = cg_gemm_on_stack(c, n);
}

typedef struct {
  Gemm *g;
  LLVMValueRef sums, square;  // [N][width], [vl][vl]
  LLVMValueRef out, out_row;  // of the slice, from this row on
  LLVMValueRef k_begin, k_end;
  int64_t m, n, width;
  bool blocks;  // k is cut: every tile adds to the sums
} AtB;

// c += a . b of the columns from m0 on, `nv` vectors of them; the last one is masked where A ends inside it.
static void tiles(AtB *u, LLVMValueRef m0, uint32_t nv, bool ends, LLVMValueRef k0, LLVMValueRef n_k) {
  Cg *c = u->g->c;
  int64_t vl = c->t->vl;
  TileSpec spec = {.mr = cg_tile_height(u->n, c->t->gemm_mr),
                   .nv = nv,
                   .a_row = 1,
                   .a_k = TILE_DYN,
                   .b_k = TILE_DYN,
                   .b_vec = vl,
                   .c_row = u->width,
                   .c_vec = vl,
                   .more = u->blocks,
                   .mask_from = ends && u->m % vl ? nv - 1 : nv,
                   .mask_step = vl,
                   .mask_b = true};
  LLVMValueRef left = cg_sub(c, cg_i64(c, u->m), m0);
  TileArgs args = {.a = cg_at(c, c->f32, u->g->b, cg_mul(c, k0, cg_i64(c, u->n))),
                   .b = cg_at(c, c->f32, u->g->a, cg_add(c, cg_mul(c, k0, cg_i64(c, u->m)), m0)),
                   .c = u->sums,
                   .k = n_k,
                   .n = left,
                   .a_k = cg_i64(c, u->n),
                   .b_k = cg_i64(c, u->m)};
  TileRows rows = {.rows = cg_i64(c, u->n), .left = u->n % spec.mr, .a_block = cg_i64(c, spec.mr)};
  cg_tile_rows(c, &spec, &args, &rows);
}

static void clear(AtB *u) {
  Cg *c = u->g->c;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, u->n * u->width), cg_i64(c, c->t->vl), NULL, 0);
  cg_store(c, cg_splat(c, cg_f32(c, 0)), cg_at(c, c->f32, u->sums, l.i));
  cg_loop_end(c, &l, NULL);
}

// ---- C from the sums
// The square of C at row m, column n.
static void store_square(AtB *u, LLVMValueRef m, LLVMValueRef from, LLVMValueRef n) {
  Cg *c = u->g->c;
  int64_t vl = c->t->vl;
  LLVMValueRef width = cg_i64(c, u->width), rows = cg_sub(c, cg_i64(c, u->m), m), some = cg_i64(c, vl);
  LLVMValueRef columns = cg_sub(c, cg_i64(c, u->n), n), row_of = cg_i64(c, u->n);
  LLVMValueRef to = cg_at(c, c->f32, u->out, cg_add(c, cg_mul(c, cg_sub(c, m, u->out_row), row_of), n));
  LLVMValueRef src = cg_at(c, c->f32, from, cg_mul(c, n, width));
  if (u->m % vl == 0 && u->n % vl == 0) {
    cg_transpose_block(c, src, width, some, some, to, row_of);
    return;
  }
  cg_transpose_block(c, src, width, columns, rows, u->square, some);
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_min(c, rows, some), cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = cg_load(c, c->vf, cg_at(c, c->f32, u->square, cg_mul(c, l.i, some)));
  cg_store_masked(c, row, cg_at(c, c->f32, to, cg_mul(c, l.i, row_of)), cg_mask(c, columns));
  cg_loop_end(c, &l, NULL);
}

// An epilogue gets the rows from the stack.
static void store(AtB *u, LLVMValueRef m0, uint32_t nv) {
  Cg *c = u->g->c;
  int64_t vl = c->t->vl;
  if (u->g->epilogue) u->out = u->g->a_block, u->out_row = m0;
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), cg_i64(c, u->n), cg_i64(c, vl), NULL, 0);
  for (uint32_t j = 0; j < nv; j++) {
    LLVMValueRef lane = cg_i64(c, j * vl);
    store_square(u, cg_add(c, m0, lane), cg_at(c, c->f32, u->sums, lane), l.i);
  }
  cg_loop_end(c, &l, NULL);
  if (!u->g->epilogue) return;
  LLVMValueRef n = cg_i64(c, u->n), rows = cg_min(c, cg_i64(c, nv * vl), cg_sub(c, cg_i64(c, u->m), m0));
  cg_gemm_epilogue(u->g, m0, rows, cg_i64(c, 0), n, u->out, n);
}

// ---- panels
static void panel(AtB *u, LLVMValueRef m0, uint32_t nv, bool ends) {
  Gemm *g = u->g;
  Cg *c = g->c;
  if (!u->blocks) {
    tiles(u, m0, nv, ends, u->k_begin, g->k);
    store(u, m0, nv);
    return;
  }
  clear(u);
  Loop l;
  cg_loop_begin(c, &l, u->k_begin, u->k_end, cg_i64(c, g->p->kc), NULL, 0);
  tiles(u, m0, nv, ends, l.i, cg_min(c, cg_i64(c, g->p->kc), cg_sub(c, u->k_end, l.i)));
  cg_loop_end(c, &l, NULL);
  store(u, m0, nv);
}

// Panel number `nth`: a whole one, or the last one with fewer columns.
static void each_panel(AtB *u, LLVMValueRef nth, int64_t whole) {
  Cg *c = u->g->c;
  int64_t left = u->m % u->width;
  LLVMValueRef m0 = cg_mul(c, nth, cg_i64(c, u->width));
  uint32_t nv = (uint32_t)cg_ceil_div(left, c->t->vl);
  if (!whole || !left) {
    panel(u, m0, left ? nv : c->t->gemm_nv, left != 0);
    return;
  }
  If last;
  cg_if(c, &last, LLVMBuildICmp(c->b, LLVMIntEQ, nth, cg_i64(c, whole), ""));
  panel(u, m0, nv, true);
  cg_else(c, &last);
  panel(u, m0, c->t->gemm_nv, false);
  cg_endif(c, &last);
}

void cg_gemm_at_b_emit(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  AtB u = {.g = g, .m = p->m_max, .n = p->n_max, .width = p->width};
  u.blocks = p->kc < p->k_max;
  u.sums = g->strip, u.square = g->b_block;
  // Units are panels, slice of k by slice of k.
  int64_t whole = u.m / u.width, panels = cg_ceil_div(u.m, u.width);
  LLVMValueRef lo, hi, count = cg_i64(c, panels);
  cg_share(c, g->slices ? cg_mul(c, g->slices, count) : count, 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef slice = g->slices ? cg_div(c, l.i, count) : cg_i64(c, 0);
  LLVMValueRef nth = g->slices ? cg_gemm_rem(c, l.i, count) : l.i;
  cg_gemm_k_range(g, slice, &u.k_begin, &u.k_end);
  u.out = cg_at(c, c->f32, g->sums, cg_mul(c, slice, cg_i64(c, u.m * u.n))), u.out_row = cg_i64(c, 0);
  each_panel(&u, nth, whole);
  cg_loop_end(c, &l, NULL);
}
