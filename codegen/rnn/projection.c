// The projection of h: packing its weight.
//
//   forward    packed[block of h][unit][vl]  from w_hr [P, H], transposed      h = full . w_hr^T
//   backward   packed[block of units][p][vl] from w_hr [P, H]                  full = d_h . w_hr
#include "codegen/rnn/rnn.h"

// ---- packing w_hr
static void pack_transposed(RnnCode *s, V weight, V packed) {
  Cg *c = s->c;
  V vl = cg_vl(c), width = cg_i64(c, s->r->hidden), state = cg_i64(c, s->r->state);
  for (Loop block = cg_each(c, s->state_lo, s->state_hi); cg_next(&block);) {
    V row = cg_mul(c, block.i, vl), lanes = cg_i64(c, s->r->blocks * c->t->vl);
    V to = cg_row(c, packed, row, lanes);
    for (Loop k = cg_count_by(c, width, vl); cg_next(&k);) {
      V from = cg_cell(c, weight, row, width, k.i);
      V dst = cg_row(c, to, k.i, vl);
      cg_transpose_block(c, from, width, cg_sub(c, state, row), cg_sub(c, width, k.i), dst, vl);
    }
  }
}

static void pack_columns(RnnCode *s, V weight, V packed) {
  Cg *c = s->c;
  int64_t vl = c->t->vl, width = s->r->hidden;
  for (Loop block = cg_each(c, s->block_lo, s->block_hi); cg_next(&block);) {
    V unit = cg_mul(c, block.i, cg_i64(c, vl));
    V to = cg_row(c, packed, unit, cg_i64(c, s->r->state));
    V mask = cg_rnn_mask(s, cg_sub(c, cg_i64(c, width), unit));
    for (Loop k = cg_count(c, cg_i64(c, s->r->state)); cg_next(&k);) {
      V from = cg_at(c, c->f32, cg_rnn_row(s, weight, k.i, width), unit);
      cg_store(c, cg_rnn_load(s, from, mask), cg_rnn_row(s, to, k.i, vl));
    }
  }
}

RnnProjection cg_rnn_projection_open(RnnCode *s) {
  RnnScratch part = cg_rnn_scratch(s->r, s->c->t);
  RnnProjection p = {.packed = cg_rnn_part(s, part.proj), .full = cg_rnn_part(s, part.full)};
  V weight = cg_ptr(s->c, s->r->proj);
  if (s->r->backward) pack_columns(s, weight, p.packed);
  else {
    p.h = cg_rnn_part(s, part.h);
    pack_transposed(s, weight, p.packed);
  }
  return p;
}
