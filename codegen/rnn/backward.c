// The recurrence backward: backpropagation through time.
//
//   pack own columns of w_hh; dh, dc [sorted position, unit] from the gradients of the final states
//   for each step, from the last one computed to the first:
//     gate gradients of own units: d_xg (and gru's d_hg) rows;  dc
//     barrier
//     dh[own units] = dgates . w_hh (+ dh z for gru)     (recurrent_gemm.c); dgates: the rows of d_xg, or gru's d_hg
//   d_h0, d_c0 in user order from dh, dc
//
// With a projected h a step begins with the gradient of the projection, dh + g_out, a barrier, and the gradient of its
// operand: full = (dh + g_out) . w_hr.
//
// If dgates is not a stored result, it is scratch, double-buffered by step: a worker may write the next step's rows while
// another still reads this step's.
#include "codegen/rnn/rnn.h"

typedef struct {
  RnnCode *s;
  V weight, packed;
  V g_out, g_hn, g_cn;  // NULL: zero
  V hprev, cells, gates;
  V d_xg, d_hg, d_h0, d_c0;  // NULL: not stored
  V dh, dc, dgates;
  RnnProjection proj;  // fields NULL: h is not projected
  V d_hr;              // gradient of the projected state by rows; NULL: not stored
} Backward;

static V gradient(RnnCode *s, ArgName name) {
  double zero;
  Val v = ir_operand(s->c->f, s->r->head, name);
  return ir_is_const(s->c->f, v, &zero) ? NULL : cg_ptr(s->c, v);
}

static Backward open_backward(RnnCode *s) {
  Backward w = {.s = s};
  Cg *c = s->c;
  Val head = s->r->head;
  RnnScratch part = cg_rnn_scratch(s->r, c->t);
  bool lstm = s->r->cell == CELL_LSTM, gru = s->r->cell == CELL_GRU;
  w.g_out = gradient(s, ARG_g_out), w.g_hn = gradient(s, ARG_g_hn);
  if (lstm) w.g_cn = gradient(s, ARG_g_cn), w.cells = cg_ptr(c, ir_operand(c->f, head, ARG_cells));
  if (gru) w.hprev = cg_ptr(c, ir_operand(c->f, head, ARG_hprev));
  w.weight = cg_ptr(c, s->r->weight), w.gates = cg_ptr(c, ir_operand(c->f, head, ARG_gates));
  w.d_xg = cg_rnn_stored(s, 0), w.d_h0 = cg_rnn_stored(s, 2);
  if (gru) w.d_hg = cg_rnn_stored(s, 1);
  if (lstm) w.d_c0 = cg_rnn_stored(s, 3), w.dc = cg_rnn_part(s, part.dc);
  w.packed = cg_rnn_part(s, part.weight);
  w.dh = cg_rnn_part(s, part.dh);
  w.dgates = s->r->dgates_stored ? (gru ? w.d_hg : w.d_xg) : cg_rnn_part(s, part.dgates);
  if (!ir_none(s->r->proj)) w.proj = cg_rnn_projection_open(s), w.d_hr = cg_rnn_stored(s, 1);
  return w;
}

static int64_t gate_width(const Rnn *r) { return r->n_gates * r->hidden; }

static V block_weights(Backward *w, V block) {
  Cg *c = w->s->c;
  return cg_row(c, w->packed, block, cg_i64(c, gate_width(w->s->r) * c->t->vl));
}

// Packs [block][gate, unit][vl] from w_hh [gate, unit, k]: own columns.
static void pack_weights(Backward *w) {
  Cg *c = w->s->c;
  const Rnn *r = w->s->r;
  for (Loop block = cg_each(c, w->s->state_lo, w->s->state_hi); cg_next(&block);) {
    V unit = cg_mul(c, block.i, cg_vl(c)), to = block_weights(w, block.i);
    V mask = cg_rnn_state_mask(w->s, cg_sub(c, cg_i64(c, r->state), unit));
    for (Loop k = cg_count(c, cg_i64(c, gate_width(r))); cg_next(&k);) {
      V from = cg_at(c, c->f32, cg_rnn_row(w->s, w->weight, k.i, r->state), unit);
      cg_store(c, cg_rnn_load(w->s, from, mask), cg_rnn_row(w->s, to, k.i, c->t->vl));
    }
  }
}

// Own units of every sequence: to[sorted position] = from[user] or back.
static void by_position(Backward *w, V to, V from, bool to_user, bool of_state) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  int64_t h = of_state ? s->r->state : s->r->hidden;
  for (Loop l = cg_each(c, s->row_lo, s->row_hi); cg_next(&l);) {
    V user = cg_rnn_sorted(s, l.i);
    V source = from ? cg_rnn_row(s, from, to_user ? l.i : user, h) : NULL;
    cg_rnn_copy(s, cg_rnn_row(s, to, to_user ? user : l.i, h), source, of_state);
  }
}

// ---- gate math of one row and block
typedef struct {
  Backward *w;
  V position, row, slot;  // index in the step, in the packed sequence, in dgates
  V unit, mask;
} Cellwise;

// 1 - a a
static V slope_tanh(Cg *c, V a) { return cg_fsub(c, cg_splat(c, cg_f32(c, 1)), cg_fmul(c, a, a)); }
// a (1 - a)
static V slope_sigmoid(Cg *c, V a) { return cg_fmul(c, a, cg_fsub(c, cg_splat(c, cg_f32(c, 1)), a)); }

static V place(Cellwise *e, V base, V row, int64_t width, int64_t gate) {
  Cg *c = e->w->s->c;
  V column = cg_add(c, e->unit, cg_i64(c, gate * e->w->s->r->hidden));
  return cg_at(c, c->f32, cg_rnn_row(e->w->s, base, row, width), column);
}
static V state(Cellwise *e, V base, V row) {
  return cg_rnn_load(e->w->s, place(e, base, row, e->w->s->r->hidden, 0), e->mask);
}
static V gate(Cellwise *e, uint32_t k) {
  const Rnn *r = e->w->s->r;
  return cg_rnn_load(e->w->s, place(e, e->w->gates, e->row, r->n_saved * r->hidden, k), e->mask);
}
// c of the previous step, or tanh of c of this step.
static V cell(Cellwise *e, int64_t which) {
  Backward *w = e->w;
  return cg_rnn_load(w->s, place(e, w->cells, e->row, 2 * w->s->r->hidden, which), e->mask);
}
static void keep_state(Cellwise *e, V v, V base) {
  cg_rnn_store(e->w->s, v, place(e, base, e->position, e->w->s->r->hidden, 0), e->mask);
}
// Gradient of gate k before its activation: through the input (dx) and through the state (dh).
static void give(Cellwise *e, uint32_t k, V dx, V dh) {
  Backward *w = e->w;
  const Rnn *r = w->s->r;
  int64_t width = gate_width(r);
  if (w->d_xg) cg_rnn_store(w->s, dx, place(e, w->d_xg, e->row, width, k), e->mask);
  if (w->d_hg) cg_rnn_store(w->s, dh, place(e, w->d_hg, e->row, width, k), e->mask);
  if (!r->dgates_stored) cg_rnn_store(w->s, dh, place(e, w->dgates, e->slot, cg_rnn_gate_stride(r), k), e->mask);
}

static void lstm_cell(Cellwise *e, V dh) {
  Backward *w = e->w;
  Cg *c = w->s->c;
  V i = gate(e, 0), f = gate(e, 1), g = gate(e, 2), o = gate(e, 3), old = cell(e, 0), th = cell(e, 1);
  V dc = cg_fma(c, cg_fmul(c, dh, o), slope_tanh(c, th), state(e, w->dc, e->position));
  V d[4] = {cg_fmul(c, cg_fmul(c, dc, g), slope_sigmoid(c, i)), cg_fmul(c, cg_fmul(c, dc, old), slope_sigmoid(c, f)),
            cg_fmul(c, cg_fmul(c, dc, i), slope_tanh(c, g)), cg_fmul(c, cg_fmul(c, dh, th), slope_sigmoid(c, o))};
  for (uint32_t k = 0; k < 4; k++) give(e, k, d[k], d[k]);
  keep_state(e, cg_fmul(c, dc, f), w->dc);
}

static void gru_cell(Cellwise *e, V dh) {
  Backward *w = e->w;
  Cg *c = w->s->c;
  V r = gate(e, 0), z = gate(e, 1), n = gate(e, 2), q = gate(e, 3), old = state(e, w->hprev, e->row);
  V keep = cg_fsub(c, cg_splat(c, cg_f32(c, 1)), z), dn = cg_fmul(c, cg_fmul(c, dh, keep), slope_tanh(c, n));
  V dz = cg_fmul(c, cg_fmul(c, dh, cg_fsub(c, old, n)), slope_sigmoid(c, z));
  V dr = cg_fmul(c, cg_fmul(c, dn, q), slope_sigmoid(c, r));
  give(e, 0, dr, dr);
  give(e, 1, dz, dz);
  give(e, 2, dn, cg_fmul(c, dn, r));
  keep_state(e, cg_fmul(c, dh, z), w->dh);
}

static void plain_cell(Cellwise *e, V dh) {
  Cg *c = e->w->s->c;
  V h = gate(e, 0), d, zero = cg_zeros(c);
  if (e->w->s->r->cell == CELL_TANH) d = cg_fmul(c, dh, slope_tanh(c, h));
  else d = cg_select(c, cg_fcmp(c, LLVMRealOLE, h, zero), zero, dh);  // NaN has a gradient
  give(e, 0, d, d);
}

static void cell_math(Cellwise *e) {
  Backward *w = e->w;
  V dh = state(e, w->proj.full ? w->proj.full : w->dh, e->position);
  if (w->g_out && !w->proj.full) dh = cg_fadd(w->s->c, dh, state(e, w->g_out, e->row));
  switch (w->s->r->cell) {
  case CELL_LSTM: lstm_cell(e, dh); break;
  case CELL_GRU: gru_cell(e, dh); break;
  default: plain_cell(e, dh); break;
  }
}

static void gate_math(Backward *w, V first, V n_rows, V slot0) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  for (Loop row = cg_each(c, s->row_lo, cg_add(c, s->row_lo, n_rows)); cg_next(&row);) {
    Cellwise e = {.w = w, .position = row.i, .row = cg_add(c, first, row.i), .slot = cg_add(c, slot0, row.i)};
    for (Loop block = cg_each(c, s->block_lo, s->block_hi); cg_next(&block);) {
      e.unit = cg_mul(c, block.i, cg_vl(c));
      e.mask = cg_rnn_mask(s, cg_sub(c, cg_i64(c, s->r->hidden), e.unit));
      cell_math(&e);
    }
  }
}

// ---- projected state
// Own columns of dh + g_out, the gradient of the step's h; after a barrier the gradient of the projection's operand.
static void before_projection(Backward *w, V first, V n_rows) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  int64_t h = s->r->state;
  for (Loop row = cg_each(c, s->row_lo, cg_add(c, s->row_lo, n_rows)); cg_next(&row);) {
    V at = cg_add(c, first, row.i);
    for (Loop block = cg_each(c, s->state_lo, s->state_hi); cg_next(&block);) {
      V unit = cg_mul(c, block.i, cg_vl(c));
      V mask = cg_rnn_state_mask(s, cg_sub(c, cg_i64(c, h), unit));
      V own = cg_at(c, c->f32, cg_rnn_row(s, w->dh, row.i, h), unit), d = cg_rnn_load(s, own, mask);
      if (w->g_out) {
        V g = cg_rnn_load(s, cg_at(c, c->f32, cg_rnn_row(s, w->g_out, at, h), unit), mask);
        d = cg_fadd(c, d, g);
        cg_rnn_store(s, d, own, mask);
      }
      if (w->d_hr) cg_rnn_store(s, d, cg_at(c, c->f32, cg_rnn_row(s, w->d_hr, at, h), unit), mask);
    }
  }
  cg_team_barrier(c, s->barrier_id, c->n_workers);
  RnnProduct p = {.a = cg_rnn_row(s, w->dh, s->row_lo, h),
                  .b = w->proj.packed,
                  .c = cg_rnn_row(s, w->proj.full, s->row_lo, s->r->hidden),
                  .rows = n_rows,
                  .a_row = h,
                  .k = h,
                  .width = s->r->hidden,
                  .block_lo = s->block_lo,
                  .block_hi = s->block_hi};
  cg_rnn_product(s, &p);
}

// ---- dh of the previous step
static void products(Backward *w, V n_rows, V slot0) {
  RnnCode *s = w->s;
  int64_t stride = cg_rnn_gate_stride(s->r);
  RnnProduct p = {.a = cg_rnn_row(s, w->dgates, cg_add(s->c, slot0, s->row_lo), stride),
                  .b = w->packed,
                  .c = cg_rnn_row(s, w->dh, s->row_lo, s->r->state),
                  .rows = n_rows,
                  .a_row = stride,
                  .k = gate_width(s->r),
                  .width = s->r->state,
                  .block_lo = s->state_lo,
                  .block_hi = s->state_hi,
                  .add = s->r->cell == CELL_GRU};  // dh z was stored by the gate math
  cg_rnn_product(s, &p);
}

// Rows of step t with a previous step; dh of the other rows is the gradient of the initial state.
static V earlier_rows(RnnCode *s, V t) {
  Cg *c = s->c;
  if (s->r->reverse) return cg_rnn_batch_size(s, cg_add(c, t, cg_i64(c, 1)));
  V first = cg_eq(c, t, cg_i64(c, 0));
  return cg_select(c, first, cg_i64(c, 0), cg_rnn_batch_size(s, t));
}

void cg_rnn_backward(RnnCode *s) {
  Cg *c = s->c;
  Backward w = open_backward(s);
  V one = cg_i64(c, 1);
  pack_weights(&w);
  by_position(&w, w.dh, w.g_hn, false, true);
  if (w.dc) by_position(&w, w.dc, w.g_cn, false, false);
  cg_rnn_own_rows(s);
  for (Loop l = cg_count(c, s->steps); cg_next(&l);) {
    V t = s->r->reverse ? l.i : cg_sub(c, cg_sub(c, s->steps, one), l.i);
    V n_rows = cg_rnn_own(s, cg_rnn_batch_size(s, t));
    V slot0 = cg_mul(c, cg_and(c, l.i, one), cg_i64(c, s->r->batch_max));
    if (s->r->dgates_stored) slot0 = cg_rnn_offset(s, t);
    V wanted = w.d_h0 ? n_rows : cg_rnn_own(s, earlier_rows(s, t));
    if (w.proj.full) before_projection(&w, cg_rnn_offset(s, t), n_rows);
    gate_math(&w, cg_rnn_offset(s, t), n_rows, slot0);
    cg_team_barrier(c, s->barrier_id, c->n_workers);
    products(&w, wanted, slot0);
  }
  if (w.d_h0) by_position(&w, w.d_h0, w.dh, true, true);
  if (w.d_c0) by_position(&w, w.d_c0, w.dc, true, false);
}
