// Products of the rows of a step with a packed weight: a GEMM of small M, blocked for L1.
//
// The weight comes from L2 or beyond. The loop over KC blocks is outermost, so that the block of the weight is loaded
// once per step and stays in L1 for all rows. Accumulators go through memory between blocks, in the order of k.
//
//   for each KC block:  for each group of columns:  for tiles of rows:  c += a . b
//
// A tile with fewer than eight accumulators is bound by the latency of the FMA. So groups are four vectors wide where
// possible, and two rows of them keep the FMA units busy: a remainder below a whole tile is split into at most two tiles
// of half its height. Each height is a function to compile.
#include "codegen/rnn/rnn.h"

#include <stdio.h>

enum { WIDE = 4 };  // vectors of a group of columns
enum { MAX_HEIGHT = MAX_CARRY };

int64_t cg_rnn_kc(const Target *t, uint32_t nv, int64_t k) {
  int64_t most = t->rnn_kc_bytes / (4 * nv * t->vl), parts = cg_larger(cg_ceil_div(k, most), 1);
  return cg_larger(cg_ceil_div(k, parts), 1);
}

// ---- rows in tiles
static V at_row(Cg *c, V base, V row, int64_t width) { return base ? cg_row(c, base, row, cg_i64(c, width)) : NULL; }

static TileArgs below(Cg *c, const TileSpec *s, const TileArgs *a, V row) {
  TileArgs out = *a;
  out.a = at_row(c, a->a, row, s->a_row);
  out.c = at_row(c, a->c, row, s->c_row);
  out.x = at_row(c, a->x, row, s->x_row);
  out.pre = at_row(c, a->pre, row, s->pre_row);
  return out;
}

// Remainder below a whole tile: one or two tiles of about equal height, at most `most`, each height called from one place.
//
//   while (left) switch (left) { case 5: case 3: tile3, left -= 3; case 4: case 2: tile2, left -= 2; case 1: .. }
static void left_rows(Cg *c, const TileSpec *s, const TileArgs *a, V left, uint32_t most) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->b), test = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "left"),
                    next = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "next"),
                    end = LLVMAppendBasicBlockInContext(c->ctx, c->fn, "tiles"), tile[MAX_HEIGHT] = {0};
  LLVMBuildBr(c->b, test);
  LLVMPositionBuilderAtEnd(c->b, next);
  V taken = LLVMBuildPhi(c->b, c->i64, "");
  LLVMPositionBuilderAtEnd(c->b, test);
  V rows = LLVMBuildPhi(c->b, c->i64, ""), done = cg_sub(c, left, rows);
  V pick = LLVMBuildSwitch(c->b, rows, end, s->mr - 1);
  TileArgs args = {0};
  for (uint32_t n = 1; n < s->mr; n++) {
    TileSpec part = *s;
    part.mr = cg_tile_height(n, most);
    if (!tile[part.mr]) {
      tile[part.mr] = LLVMInsertBasicBlockInContext(c->ctx, next, "tile");
      LLVMPositionBuilderAtEnd(c->b, tile[part.mr]);
      args = below(c, s, a, done);
      cg_tile_call(c, &part, &args);
      LLVMAddIncoming(taken, (V[]){cg_i64(c, part.mr)}, &tile[part.mr], 1);
      LLVMBuildBr(c->b, next);
    }
    LLVMAddCase(pick, cg_i64(c, n), tile[part.mr]);
  }
  LLVMPositionBuilderAtEnd(c->b, next);
  LLVMAddIncoming(rows, (V[]){left, cg_sub(c, rows, taken)}, (LLVMBasicBlockRef[]){before, next}, 2);
  LLVMBuildBr(c->b, test);
  LLVMPositionBuilderAtEnd(c->b, end);
}

void cg_rnn_tiles(Cg *c, const TileSpec *s, const TileArgs *a, V rows) {
  V mr = cg_i64(c, s->mr), whole = cg_multiple(c, rows, mr), left = cg_sub(c, rows, whole);
  for (Loop l = cg_count_by(c, whole, mr); cg_next(&l);) {
    TileArgs args = below(c, s, a, l.i);
    cg_tile_call(c, s, &args);
  }
  TileArgs args = below(c, s, a, whole);
  if (s->nv == 1) cg_tile_left(c, s, &args, left);
  else left_rows(c, s, &args, left, s->nv == 2 ? s->mr : (s->mr + 1) / 2);
}

// ---- product over own columns: a function of the module, shared by equal layers and directions
enum { P_A, P_B, P_C, P_ROWS, P_LO, P_HI, N_P };
typedef struct {
  RnnCode *s;
  const RnnProduct *p;
  V arg[N_P];
} Product;

// Columns block .. block + nv of k_lo .. k_lo + k_n.
static void columns(Product *m, V block, uint32_t nv, V k_lo, V k_n) {
  Cg *c = m->s->c;
  const RnnProduct *p = m->p;
  int64_t vl = c->t->vl, b_block = (p->b_rows ? p->b_rows : p->k) * vl;
  TileSpec spec = {.mr = cg_tile_height(m->s->r->batch_max, c->t->rnn_mr),
                   .nv = nv,
                   .a_row = p->a_row,
                   .a_k = 1,
                   .b_k = vl,
                   .b_vec = b_block,
                   .c_row = p->width,
                   .c_vec = vl,
                   .accumulate = true,
                   .mask_from = p->width % vl ? 0 : nv,
                   .mask_step = vl,
                   .mask_c = true};
  cg_tile_sum_in_parts(&spec, c->t, p->k, cg_rnn_kc(c->t, WIDE, p->k), 1);
  V unit = cg_mul(c, block, cg_i64(c, vl));
  V b_at = cg_index(c, block, cg_i64(c, b_block), cg_mul(c, k_lo, cg_i64(c, vl)));
  TileArgs args = {.a = cg_at(c, c->f32, m->arg[P_A], k_lo),
                   .b = cg_at(c, c->f32, m->arg[P_B], b_at),
                   .c = cg_at(c, c->f32, m->arg[P_C], unit),
                   .k = k_n,
                   .n = cg_sub(c, cg_i64(c, p->width), unit)};
  cg_rnn_tiles(c, &spec, &args, m->arg[P_ROWS]);
}

static void clear(Product *m) {
  Cg *c = m->s->c;
  int64_t width = m->p->width;
  for (Loop row = cg_count(c, m->arg[P_ROWS]); cg_next(&row);) {
    for (Loop block = cg_each(c, m->arg[P_LO], m->arg[P_HI]); cg_next(&block);) {
      V unit = cg_mul(c, block.i, cg_vl(c));
      V mask = width % c->t->vl ? cg_mask(c, cg_sub(c, cg_i64(c, width), unit)) : NULL;
      V to = cg_at(c, c->f32, at_row(c, m->arg[P_C], row.i, width), unit);
      cg_rnn_store(m->s, cg_zeros(c), to, mask);
    }
  }
}

static void make_product(Cg *c, V fn, void *ctx) {
  Product *m = ctx;
  for (uint32_t k = 0; k < N_P; k++) m->arg[k] = LLVMGetParam(fn, k);
  if (!m->p->add) clear(m);
  int64_t blocks = cg_ceil_div(m->p->width, c->t->vl), part = cg_rnn_kc(c->t, WIDE, m->p->k);
  V k = cg_i64(c, m->p->k);
  for (Loop l = cg_count_by(c, k, cg_i64(c, part)); cg_next(&l);) {
    V k_n = cg_min(c, cg_i64(c, part), cg_sub(c, k, l.i)), lo = m->arg[P_LO], hi = m->arg[P_HI];
    for (uint32_t nv = WIDE; nv; nv /= 2) {
      if (nv > blocks) continue;
      V groups = cg_div(c, cg_sub(c, hi, lo), cg_i64(c, nv));
      V end = cg_add(c, lo, cg_mul(c, groups, cg_i64(c, nv)));
      for (Loop group = cg_each_by(c, lo, end, cg_i64(c, nv)); cg_next(&group);) columns(m, group.i, nv, l.i, k_n);
      lo = end;
    }
  }
  LLVMBuildRetVoid(c->b);
}

void cg_rnn_product(RnnCode *s, const RnnProduct *p) {
  Cg *c = s->c;
  char name[128];
  snprintf(name, sizeof name, "rnn_product%s.%lld.%lld,%lld.%lld.%u", p->add ? "+" : "", (long long)p->a_row,
           (long long)p->k, (long long)p->b_rows, (long long)p->width, cg_tile_height(s->r->batch_max, c->t->rnn_mr));
  LLVMTypeRef types[N_P] = {c->ptr, c->ptr, c->ptr, c->i64, c->i64, c->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, N_P, false);
  Product m = {.s = s, .p = p};
  V fn = cg_helper(c, name, type, make_product, &m);
  LLVMBuildCall2(c->b, type, fn, (V[]){p->a, p->b, p->c, p->rows, p->block_lo, p->block_hi}, N_P, "");
}
