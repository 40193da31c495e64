// Recurrent layers over packed sequences: the kernel, and what forward and backward share. The partition among workers
// is in partition.c.
#include "codegen/rnn/rnn.h"
#include "codegen/emitters.h"

#include <string.h>

// ---- geometry
static bool read_cell(const Fn *f, Val head, Rnn *r) {
  static const struct {
    const char *name;
    uint32_t gates, saved;
  } cells[] = {[CELL_LSTM] = {"lstm", 4, 4},
               [CELL_GRU] = {"gru", 3, 4},
               [CELL_TANH] = {"tanh", 1, 1},
               [CELL_RELU] = {"relu", 1, 1}};
  const Attr *a = ir_attr(f, head, KEY_cell);
  const char *name = a ? ir_text(f->prog, a->u.s) : "";
  for (uint32_t k = 0; k < sizeof cells / sizeof *cells; k++) {
    if (strcmp(name, cells[k].name)) continue;
    r->cell = (Cell)k, r->n_gates = cells[k].gates, r->n_saved = cells[k].saved;
    return true;
  }
  return false;
}

// At least one element: empty buffers have no address in a kernel.
static bool has_buffer(const Fn *f, Val v) { return f->buf_of && f->buf_of[v.i] && !cg_is_empty(f, v); }

bool cg_rnn_read(const Fn *f, Val head, const Target *t, Rnn *r) {
  Prog *p = f->prog;
  *r = (Rnn){.head = head, .backward = ir_ins(f, head)->op == OP_rnn_seq_grad};
  r->layout = ir_operand(f, head, ARG_layout), r->weight = ir_operand(f, head, ARG_w_hh);
  r->w_ih = ir_operand(f, head, ARG_w_ih), r->proj = ir_operand(f, head, ARG_w_hr);
  r->reverse = ir_attr(f, head, KEY_reverse) != NULL;
  Dim state = ir_dim_at(p, ir_ins(f, r->weight)->shape, 1);
  Dim hidden = !ir_none(r->proj) ? ir_dim_at(p, ir_ins(f, r->proj)->shape, 1) : state;
  if (!read_cell(f, head, r) || !ir_dim_is_const(p, hidden) || !ir_dim_is_const(p, state)) return false;
  Shape lay = ir_ins(f, r->layout)->shape;
  r->has_h0 = ir_has_operand(f, head, ARG_h0);
  r->hprev_stored = !r->backward && has_buffer(f, ir_result(head, 3));
  r->cell_stored = !r->backward && has_buffer(f, ir_result(head, 2));
  if (r->backward) r->dgates_stored = has_buffer(f, ir_result(head, r->cell == CELL_GRU ? 1 : 0));
  r->hidden = ir_dim_bound(p, hidden);
  r->state = ir_dim_bound(p, state);
  if (!ir_none(r->w_ih)) {
    Dim input = ir_dim_at(p, ir_ins(f, r->w_ih)->shape, 1);
    if (!ir_dim_is_const(p, input)) return false;
    r->input = ir_dim_bound(p, input);
  }
  r->blocks = cg_ceil_div(r->hidden, t->vl);
  r->state_blocks = cg_ceil_div(r->state, t->vl);
  r->batch_max = ir_dim_bound(p, ir_dim_at(p, lay, 0));
  r->time_max = ir_dim_bound(p, ir_dim_at(p, lay, 1));
  r->rows_max = ir_dim_bound(p, ir_dim_at(p, lay, 2));
  return true;
}

// ---- scratch
static int64_t take(int64_t *total, int64_t elements) {
  int64_t at = *total;
  *total += cg_round_up(elements, TN_ALIGN / 4);
  return at;
}

// Row stride of scratch: not a large power of two, so that the rows of a tile map to different cache sets.
int64_t cg_rnn_gate_stride(const Rnn *r) {
  return r->dgates_stored ? r->n_gates * r->hidden : cg_round_up(r->n_gates * r->hidden, 16) + 16;
}

int64_t cg_rnn_weight_rows(const Rnn *r, const Target *t) { return r->input + r->state_blocks * t->vl + !r->has_h0; }

RnnScratch cg_rnn_scratch(const Rnn *r, const Target *t) {
  RnnScratch s = {0};
  int64_t lanes = r->blocks * t->vl, state_lanes = r->state_blocks * t->vl, cells = r->batch_max * r->hidden;
  bool projects = !ir_none(r->proj);
  if (r->backward) {
    s.weight = take(&s.total, state_lanes * r->n_gates * r->hidden);
    s.proj = take(&s.total, projects ? lanes * r->state : 0);
    s.dh = take(&s.total, r->batch_max * r->state);
    s.dc = take(&s.total, r->cell == CELL_LSTM ? cells : 0);
    s.dgates = take(&s.total, r->dgates_stored ? 0 : 2 * r->batch_max * cg_rnn_gate_stride(r));
  } else {
    s.weight = take(&s.total, lanes * cg_rnn_weight_rows(r, t) * r->n_gates);
    s.proj = take(&s.total, projects ? state_lanes * lanes : 0);
    s.h = take(&s.total, projects ? r->batch_max * r->state : 0);
    s.hprev = take(&s.total, r->hprev_stored ? 0 : r->rows_max * r->state);
    s.cell = take(&s.total, r->cell == CELL_LSTM && !r->cell_stored ? cells : 0);
  }
  s.full = take(&s.total, projects ? cells : 0);
  return s;
}

int64_t cg_rnn_scratch_bytes(const Fn *f, Val v, const Target *t) {
  Rnn r;
  return cg_rnn_read(f, v, t, &r) ? 4 * cg_rnn_scratch(&r, t).total : 0;
}

// ---- layout tables
static V layout_word(RnnCode *s, V index) {
  Cg *c = s->c;
  return cg_sext(c, cg_get(c, c->i32, s->lay, index), c->i64);
}

V cg_rnn_batch_size(RnnCode *s, V t) {
  Cg *c = s->c;
  int64_t last = cg_larger(s->r->time_max, 1) - 1;
  V at = cg_add(c, cg_min(c, t, cg_i64(c, last)), cg_i64(c, TN_LAYOUT_BATCH_SIZES(s->r->time_max, 0)));
  V inside = cg_lt(c, t, s->steps);
  return cg_select(c, inside, layout_word(s, at), cg_i64(c, 0));
}

V cg_rnn_offset(RnnCode *s, V t) {
  return layout_word(s, cg_add(s->c, t, cg_i64(s->c, TN_LAYOUT_OFFSETS(s->r->time_max, 0))));
}

V cg_rnn_sorted_table(RnnCode *s) {
  return cg_at(s->c, s->c->i32, s->lay, cg_i64(s->c, TN_LAYOUT_SORTED(s->r->time_max, s->r->batch_max)));
}

V cg_rnn_sorted(RnnCode *s, V row) {
  return layout_word(s, cg_add(s->c, row, cg_i64(s->c, TN_LAYOUT_SORTED(s->r->time_max, s->r->batch_max))));
}

// ---- memory
V cg_rnn_row(RnnCode *s, V base, V row, int64_t width) { return cg_row(s->c, base, row, cg_i64(s->c, width)); }

V cg_rnn_mask(RnnCode *s, V lanes) { return s->r->hidden % s->c->t->vl ? cg_mask(s->c, lanes) : NULL; }

V cg_rnn_state_mask(RnnCode *s, V lanes) { return s->r->state % s->c->t->vl ? cg_mask(s->c, lanes) : NULL; }

V cg_rnn_load(RnnCode *s, V p, V mask) { return cg_load_masked(s->c, s->c->vf, p, mask); }

void cg_rnn_store(RnnCode *s, V v, V p, V mask) {
  if (mask) cg_store_masked(s->c, v, p, mask);
  else cg_store(s->c, v, p);
}

void cg_rnn_copy(RnnCode *s, V to, V from, bool of_state) {
  Cg *c = s->c;
  for (Loop l = cg_each(c, of_state ? s->state_lo : s->block_lo, of_state ? s->state_hi : s->block_hi); cg_next(&l);) {
    V at = cg_mul(c, l.i, cg_vl(c)), v = cg_zeros(c);
    V left = cg_sub(c, cg_i64(c, of_state ? s->r->state : s->r->hidden), at);
    V mask = of_state ? cg_rnn_state_mask(s, left) : cg_rnn_mask(s, left);
    if (from) v = cg_rnn_load(s, cg_at(c, c->f32, from, at), mask);
    cg_rnn_store(s, v, cg_at(c, c->f32, to, at), mask);
  }
}

V cg_rnn_stored(RnnCode *s, uint32_t result) {
  Val v = ir_result(s->r->head, result);
  return cg_stored(s->c, v) ? cg_ptr(s->c, v) : NULL;
}

V cg_rnn_part(RnnCode *s, int64_t offset) { return cg_at(s->c, s->c->f32, s->scratch, cg_i64(s->c, offset)); }

// ---- the kernel
static void emit_sequence(Cg *c, const Rnn *r, uint32_t d, uint32_t n_seqs, V scratch) {
  V worker = c->worker, n_workers = c->n_workers;
  RnnCode s = {.c = c, .r = r, .barrier_id = cg_i32(c, 1 + (int32_t)d), .scratch = scratch};
  s.batch = cg_dim(c, ir_dim_at(c->f->prog, ir_ins(c->f, r->layout)->shape, 0));
  s.row_lo = cg_i64(c, 0), s.row_hi = s.batch;
  s.team = cg_rnn_partition(&s, d, n_seqs);
  for (If some = cg_when(c, s.team.takes_part); cg_then(&some);) {
    c->worker = s.team.member, c->n_workers = s.team.size;
    s.lay = cg_ptr(c, r->layout);
    s.steps = layout_word(&s, cg_i64(c, TN_LAYOUT_STEPS));
    cg_share(c, cg_i64(c, r->blocks), 1, &s.block_lo, &s.block_hi);
    s.state_lo = s.block_lo, s.state_hi = s.block_hi;
    if (!ir_none(r->proj)) cg_share(c, cg_i64(c, r->state_blocks), 1, &s.state_lo, &s.state_hi);
    if (r->backward) cg_rnn_backward(&s);
    else cg_rnn_forward(&s);
    c->worker = worker, c->n_workers = n_workers;
  }
}

bool cg_emit_rnn(Cg *c) {
  Rnn seq[TN_N_BARRIERS];
  uint32_t n = 0, end = c->k->first + c->k->n;
  for (uint32_t i = c->k->first; i < end; i++) {
    if (ir_ops[c->f->ins[i].op].cls != CLASS_RNN) continue;
    if (n + 1 == TN_N_BARRIERS)
      return rt_text_add(c->why, "more recurrent sequences in one kernel than barriers"), false;
    if (!cg_rnn_read(c->f, (Val){i}, c->t, &seq[n]))
      return rt_text_add(c->why, "the sizes of a recurrent layer must be constant"), false;
    n++;
  }
  int64_t at = 0;
  for (uint32_t d = 0; d < n; d++) {
    emit_sequence(c, &seq[d], cg_rnn_number(c->f, seq[d].head), n, cg_at(c, c->f32, c->scratch, cg_i64(c, at)));
    at += cg_rnn_scratch(&seq[d], c->t).total;
  }
  return true;
}
