// The products of a recurrence beside its gates: gradients through w_hh, and the projection of h.
//
//   forward    packed[block of h][unit][vl]  from w_hr [P, H], transposed      h = full . w_hr^T
//   backward   packed[block of units][p][vl] from w_hr [P, H]                  full = d_h . w_hr
#include "codegen/rnn.h"

// ---- a product with own columns, in groups as wide as a tile, then one by one
static void product(RnnCode *s, const RnnProduct *p, LLVMValueRef block, uint32_t nv) {
  Cg *c = s->c;
  int64_t vl = c->t->vl, b_block = (p->b_rows ? p->b_rows : p->k) * vl;
  TileSpec spec = {.mr = cg_tile_height(s->r->batch_max, c->t->gemm_mr),
                   .nv = nv,
                   .a_row = p->a_row,
                   .a_k = 1,
                   .b_k = vl,
                   .b_vec = b_block,
                   .c_row = p->width,
                   .c_vec = vl,
                   .x_n = p->x ? nv : 0,
                   .x_row = p->width,
                   .x_vec = vl,
                   .mask_from = p->width % vl ? 0 : nv,
                   .mask_step = vl,
                   .mask_c = true};
  LLVMValueRef unit = cg_mul(c, block, cg_i64(c, vl));
  TileArgs args = {.a = p->a,
                   .b = cg_at(c, c->f32, p->b, cg_mul(c, block, cg_i64(c, b_block))),
                   .c = cg_at(c, c->f32, p->c, unit),
                   .x = p->x ? cg_at(c, c->f32, p->x, unit) : NULL,
                   .k = cg_i64(c, p->k),
                   .n = cg_sub(c, cg_i64(c, p->width), unit)};
  TileRows rows = {.rows = p->rows, .left = spec.mr == 1 ? 0 : TILE_DYN, .a_block = cg_i64(c, spec.mr * p->a_row)};
  cg_tile_rows(c, &spec, &args, &rows);
}

void cg_rnn_product(RnnCode *s, const RnnProduct *p) {
  Cg *c = s->c;
  uint32_t nv = (uint32_t)cg_smaller(c->t->gemm_nv, cg_ceil_div(p->width, c->t->vl));
  LLVMValueRef groups = cg_div(c, cg_sub(c, p->block_hi, p->block_lo), cg_i64(c, nv));
  LLVMValueRef rest = cg_add(c, p->block_lo, cg_mul(c, groups, cg_i64(c, nv)));
  Loop l;
  cg_loop_begin(c, &l, p->block_lo, rest, cg_i64(c, nv), NULL, 0);
  product(s, p, l.i, nv);
  cg_loop_end(c, &l, NULL);
  if (nv == 1) return;
  cg_loop_begin(c, &l, rest, p->block_hi, cg_i64(c, 1), NULL, 0);
  product(s, p, l.i, 1);
  cg_loop_end(c, &l, NULL);
}

// ---- packing w_hr
static void pack_transposed(RnnCode *s, LLVMValueRef weight, LLVMValueRef packed) {
  Cg *c = s->c;
  LLVMValueRef vl = cg_i64(c, c->t->vl), width = cg_i64(c, s->r->hidden), state = cg_i64(c, s->r->state);
  Loop block, k;
  cg_loop_begin(c, &block, s->state_lo, s->state_hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef row = cg_mul(c, block.i, vl), lanes = cg_i64(c, s->r->blocks * c->t->vl);
  LLVMValueRef to = cg_at(c, c->f32, packed, cg_mul(c, row, lanes));
  cg_loop_begin(c, &k, cg_i64(c, 0), width, vl, NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, weight, cg_add(c, cg_mul(c, row, width), k.i));
  LLVMValueRef dst = cg_at(c, c->f32, to, cg_mul(c, k.i, vl));
  cg_transpose_block(c, from, width, cg_sub(c, state, row), cg_sub(c, width, k.i), dst, vl);
  cg_loop_end(c, &k, NULL);
  cg_loop_end(c, &block, NULL);
}

static void pack_columns(RnnCode *s, LLVMValueRef weight, LLVMValueRef packed) {
  Cg *c = s->c;
  int64_t vl = c->t->vl, width = s->r->hidden;
  Loop block, k;
  cg_loop_begin(c, &block, s->block_lo, s->block_hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef unit = cg_mul(c, block.i, cg_i64(c, vl));
  LLVMValueRef to = cg_at(c, c->f32, packed, cg_mul(c, unit, cg_i64(c, s->r->state)));
  LLVMValueRef mask = cg_rnn_mask(s, cg_sub(c, cg_i64(c, width), unit));
  cg_loop_begin(c, &k, cg_i64(c, 0), cg_i64(c, s->r->state), cg_i64(c, 1), NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, cg_rnn_row(s, weight, k.i, width), unit);
  cg_store(c, cg_rnn_load(s, from, mask), cg_rnn_row(s, to, k.i, vl));
  cg_loop_end(c, &k, NULL);
  cg_loop_end(c, &block, NULL);
}

RnnProj cg_rnn_proj_open(RnnCode *s) {
  RnnScratch part = cg_rnn_scratch(s->r, s->c->t);
  RnnProj p = {.packed = cg_rnn_part(s, part.proj), .full = cg_rnn_part(s, part.full)};
  LLVMValueRef weight = cg_ptr(s->c, s->r->proj);
  if (s->r->backward) pack_columns(s, weight, p.packed);
  else {
    p.h = cg_rnn_part(s, part.h);
    pack_transposed(s, weight, p.packed);
  }
  return p;
}
