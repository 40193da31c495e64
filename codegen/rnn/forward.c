// The recurrence forward in time.
//
//   pack own columns of w_hh; states of sequences that start: hprev rows from h0, cells from c0
//   for each step:                                         (preceded by a barrier: hprev of the step is complete)
//     for each own block of units, for tiles of rows:
//       acc[row][gate] = xg + b_hh + hprev[row] . w_hh     (recurrent_gemm.c)
//       gates, cell, h of the row; h is stored to `out`, and to hprev of the sequence's next row, or to hn at its end
//
// Rows with an initial state of zeros skip the product and add 0 . w_hh instead, which is NaN where w_hh is not finite.
// With few inputs xg = x[row] . w_ih is computed by the same tiles. A projected h: the cell's output goes to `full`, and
// after one more barrier h = full . w_hr is computed and stored (projection.c).
#include "codegen/math/primitives.h"
#include "codegen/rnn/rnn.h"

#include <stdio.h>

enum { MOST_ROWS = 48 };

// Pointers to a block of units, at the first row of a step. Absent: NULL.
enum {
  R_HPREV,  // all columns
  R_OLD,
  R_WEIGHT,
  R_ZEROS,  // 0 . w_hh [gate][vl]; absent with an h0
  R_XG,     // with an `input`: x, all columns
  R_BIAS,
  R_OUT,
  R_GATES,
  R_CELLS,
  R_NEXT,
  R_HN,
  R_FULL,    // by row of the step
  R_CELL,    // by user index
  R_SORTED,  // from the first row
  R_ROWS,    // counts: rows of the step,
  R_LIVE,    // rows that have a previous state,
  R_GOING,   // rows that continue,
  R_LANES,   // units from the block on
  N_R
};
typedef struct {
  RnnCode *s;
  V arg[N_R];
  bool has[N_R];
} StepRows;

// ---- gate math on the accumulators of one row
typedef struct {
  StepRows *p;
  V acc;   // [G][vl]
  V row;   // in the step
  V user;  // user index of the sequence
  V mask;
} StepRow;

static V pre(StepRow *w, uint32_t gate) {
  Cg *c = w->p->s->c;
  return cg_get(c, c->vf, w->acc, cg_i64(c, (int64_t)gate * c->t->vl));
}

static V field(StepRow *w, int what, V row, int64_t width) { return cg_rnn_row(w->p->s, w->p->arg[what], row, width); }

static void save_gates(StepRow *w, V *gate) {
  if (!w->p->has[R_GATES]) return;
  RnnCode *s = w->p->s;
  V to = field(w, R_GATES, w->row, s->r->n_saved * s->r->hidden);
  for (uint32_t k = 0; k < s->r->n_saved; k++)
    cg_rnn_store(s, gate[k], cg_at(s->c, s->c->f32, to, cg_i64(s->c, k * s->r->hidden)), w->mask);
}

static V lstm_row(StepRow *w) {
  RnnCode *s = w->p->s;
  Cg *c = s->c;
  V g[4] = {cg_gate_sigmoid(c, pre(w, 0)), cg_gate_sigmoid(c, pre(w, 1)), cg_gate_tanh(c, pre(w, 2)),
            cg_gate_sigmoid(c, pre(w, 3))};
  V cell = field(w, R_CELL, w->user, s->r->hidden), old = cg_rnn_load(s, cell, w->mask);
  V now = cg_fma(c, g[1], old, cg_fmul(c, g[0], g[2])), th = cg_gate_tanh(c, now);
  cg_rnn_store(s, now, cell, w->mask);
  save_gates(w, g);
  if (w->p->has[R_CELLS]) {
    V to = field(w, R_CELLS, w->row, 2 * s->r->hidden);
    cg_rnn_store(s, old, to, w->mask);
    cg_rnn_store(s, th, cg_at(c, c->f32, to, cg_i64(c, s->r->hidden)), w->mask);
  }
  return cg_fmul(c, g[3], th);
}

static V gru_row(StepRow *w) {
  RnnCode *s = w->p->s;
  Cg *c = s->c;
  V r = cg_gate_sigmoid(c, pre(w, 0)), z = cg_gate_sigmoid(c, pre(w, 1)), q = pre(w, 2);
  V xg = field(w, R_XG, w->row, 3 * s->r->hidden);
  V xn = cg_rnn_load(s, cg_at(c, c->f32, xg, cg_i64(c, 2 * s->r->hidden)), w->mask);
  V n = cg_gate_tanh(c, cg_fma(c, r, q, xn));
  V old = cg_rnn_load(s, field(w, R_OLD, w->row, s->r->hidden), w->mask);
  save_gates(w, (V[]){r, z, n, q});
  return cg_fma(c, z, cg_fsub(c, old, n), n);
}

static V plain_row(StepRow *w) {
  RnnCode *s = w->p->s;
  Cg *c = s->c;
  V zero = cg_zeros(c);
  V h = s->r->cell == CELL_TANH ? cg_gate_tanh(c, pre(w, 0)) : cg_primitive(c, OP_max, (V[]){pre(w, 0), zero});
  save_gates(w, &h);
  return h;
}

static void store_h(StepRow *w, V h) {
  RnnCode *s = w->p->s;
  Cg *c = s->c;
  if (w->p->has[R_FULL]) {
    cg_rnn_store(s, h, field(w, R_FULL, w->row, s->r->hidden), w->mask);
    return;
  }
  if (w->p->has[R_OUT]) cg_rnn_store(s, h, field(w, R_OUT, w->row, s->r->hidden), w->mask);
  for (If going = cg_branch(c, cg_lt(c, w->row, w->p->arg[R_GOING]), w->p->has[R_HN]); cg_then(&going);)
    if (going.is_true) cg_rnn_store(s, h, field(w, R_NEXT, w->row, s->r->hidden), w->mask);
    else cg_rnn_store(s, h, field(w, R_HN, w->user, s->r->hidden), w->mask);
}

static void gate_math(StepRows *p, V acc, V first, V n_rows) {
  RnnCode *s = p->s;
  Cg *c = s->c;
  V mask = cg_rnn_mask(s, p->arg[R_LANES]);
  for (Loop l = cg_count(c, n_rows); cg_next(&l);) {
    StepRow w = {.p = p, .mask = mask, .row = cg_add(c, first, l.i)};
    w.acc = cg_rnn_row(s, acc, l.i, (int64_t)s->r->n_gates * c->t->vl);
    w.user = cg_sext(c, cg_get(c, c->i32, p->arg[R_SORTED], w.row), c->i64);
    V h = s->r->cell == CELL_LSTM ? lstm_row(&w) : s->r->cell == CELL_GRU ? gru_row(&w) : plain_row(&w);
    store_h(&w, h);
  }
}

// ---- one step for one block of units: a function of the module, shared by equal layers and directions
// The target row's MR is for a tile four gates wide.
static uint32_t tile_height(RnnCode *s) { return cg_tile_height(s->r->batch_max, s->c->t->rnn_mr * 4 / s->r->n_gates); }

// Rows of a sweep: accumulators of that many rows are on the stack.
static uint32_t sweep_rows(RnnCode *s) {
  uint32_t mr = tile_height(s);
  return (uint32_t)cg_smaller(cg_round_up(s->r->batch_max, mr), cg_round_up(MOST_ROWS, mr));
}

// Gates whose accumulators start from xg; gru's q is separate.
static uint32_t n_from_x(const Rnn *r) { return r->input ? 0 : r->cell == CELL_GRU ? 2 : r->n_gates; }

static TileSpec tile_spec(StepRows *p) {
  const Rnn *r = p->s->r;
  int64_t vl = p->s->c->t->vl;
  return (TileSpec){.mr = tile_height(p->s),
                    .nv = r->n_gates,
                    .a_row = r->state,
                    .a_k = 1,
                    .b_k = r->n_gates * vl,
                    .b_vec = vl,
                    .c_row = r->n_gates * vl,
                    .c_vec = vl,
                    .x_n = n_from_x(r),
                    .x_row = r->n_gates * r->hidden,
                    .pre_k = r->input,
                    .pre_row = r->input,
                    .x_vec = r->hidden,
                    .has_bias = p->has[R_BIAS],
                    .bias_vec = r->hidden,
                    .mask_from = r->hidden % vl ? 0 : r->n_gates,
                    .mask_step = 0};
}

// Initial accumulators of rows lo .. hi - 1 of the sweep: xg + bias. If x is not projected yet, tiles without a state
// compute it.
static void start_sums(StepRows *p, const TileSpec *spec, const TileArgs *a, V lo, V hi) {
  RnnCode *s = p->s;
  Cg *c = s->c;
  if (spec->pre_k) {
    TileArgs some = *a;
    some.c = cg_rnn_row(s, a->c, lo, spec->c_row), some.pre = cg_rnn_row(s, a->pre, lo, spec->pre_row);
    some.k = cg_i64(c, 0);
    cg_rnn_tiles(c, spec, &some, cg_sub(c, hi, lo));
    return;
  }
  V acc = a->c, x = a->x;
  int64_t vl = c->t->vl, h = s->r->hidden;
  V mask = cg_rnn_mask(s, p->arg[R_LANES]);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    for (uint32_t g = 0; g < s->r->n_gates; g++) {
      V at = cg_i64(c, g * h), v = cg_zeros(c);
      if (g < n_from_x(s->r)) v = cg_rnn_load(s, cg_at(c, c->f32, cg_rnn_row(s, x, l.i, s->r->n_gates * h), at), mask);
      if (p->has[R_BIAS]) {
        V bias = cg_rnn_load(s, cg_at(c, c->f32, p->arg[R_BIAS], at), mask);
        v = g < n_from_x(s->r) ? cg_fadd(c, v, bias) : bias;
      }
      cg_put(c, v, cg_rnn_row(s, acc, l.i, s->r->n_gates * vl), cg_i64(c, g * vl));
    }
  }
}

// Rows lo .. hi - 1 of the sweep, whose previous state is zero.
static void add_zeros(StepRows *p, V acc, V lo, V hi) {
  RnnCode *s = p->s;
  Cg *c = s->c;
  int64_t width = (int64_t)s->r->n_gates * c->t->vl;
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    for (uint32_t g = 0; g < s->r->n_gates; g++) {
      V at = cg_i64(c, (int64_t)g * c->t->vl), to = cg_at(c, c->f32, cg_rnn_row(s, acc, l.i, width), at);
      V zeros = cg_get(c, c->vf, p->arg[R_ZEROS], at), sum = cg_load(c, c->vf, to);
      cg_store(c, cg_fadd(c, sum, zeros), to);
    }
  }
}

// Accumulators of n rows from `first` on, `live` of them with the recurrent product. A weight of a single KC block is
// read by tiles that start from x themselves.
static void sums(StepRows *p, V acc, V first, V n, V live) {
  RnnCode *s = p->s;
  Cg *c = s->c;
  TileSpec spec = tile_spec(p);
  int64_t k = s->r->state, part = cg_rnn_kc(c->t, s->r->n_gates, k);
  TileArgs args = {.a = cg_rnn_row(s, p->arg[R_HPREV], first, k),
                   .b = p->arg[R_WEIGHT],
                   .c = acc,
                   .x = s->r->input ? NULL : cg_rnn_row(s, p->arg[R_XG], first, spec.x_row),
                   .pre = s->r->input ? cg_rnn_row(s, p->arg[R_XG], first, spec.pre_row) : NULL,
                   .bias = p->arg[R_BIAS],
                   .k = cg_i64(c, k),
                   .n = p->arg[R_LANES]};
  int64_t terms = s->r->input + k;
  cg_tile_sum_in_parts(&spec, c->t, terms, cg_larger(s->r->input, k), 1);
  start_sums(p, &spec, &args, part < k ? cg_i64(c, 0) : live, n);
  if (p->has[R_ZEROS]) add_zeros(p, acc, live, n);
  if (part >= k) {
    cg_rnn_tiles(c, &spec, &args, live);
    return;
  }
  args.b = cg_rnn_row(s, args.b, cg_i64(c, spec.pre_k), spec.b_k);
  spec.accumulate = true, spec.x_n = 0, spec.pre_k = 0, spec.has_bias = false, spec.mask_from = spec.nv;
  cg_tile_sum_in_parts(&spec, c->t, terms, part, 1);
  args.x = args.pre = args.bias = NULL;
  for (Loop l = cg_count_by(c, cg_i64(c, k), cg_i64(c, part)); cg_next(&l);) {
    TileArgs some = args;
    some.a = cg_at(c, c->f32, args.a, l.i);
    some.b = cg_rnn_row(s, args.b, l.i, spec.b_k);
    some.k = cg_min(c, cg_i64(c, part), cg_sub(c, args.k, l.i));
    cg_rnn_tiles(c, &spec, &some, live);
  }
}

static void make_rows(Cg *c, V fn, void *ctx) {
  StepRows *p = ctx, in = *p;
  for (uint32_t k = 0; k < N_R; k++) in.arg[k] = LLVMGetParam(fn, k);
  V zero = cg_i64(c, 0), sweep = cg_i64(c, sweep_rows(p->s));
  V acc = cg_stack_block(c, c->f32, (int64_t)sweep_rows(p->s) * p->s->r->n_gates * c->t->vl);
  for (Loop l = cg_each_by(c, zero, in.arg[R_ROWS], sweep); cg_next(&l);) {
    V n = cg_min(c, sweep, cg_sub(c, in.arg[R_ROWS], l.i));
    V live = cg_min(c, n, cg_sub(c, in.arg[R_LIVE], l.i));
    V none = cg_lt(c, live, zero);
    sums(&in, acc, l.i, n, cg_select(c, none, zero, live));
    gate_math(&in, acc, l.i, n);
  }
  LLVMBuildRetVoid(c->b);
}

static void call_rows(StepRows *p) {
  Cg *c = p->s->c;
  LLVMTypeRef types[N_R];
  char name[128], flags[N_R + 1] = {0};
  for (uint32_t k = 0; k < N_R; k++) {
    types[k] = k < R_ROWS ? c->ptr : c->i64;
    p->has[k] = p->arg[k] != NULL;
    if (!p->has[k]) p->arg[k] = LLVMConstNull(types[k]);
    flags[k] = p->has[k] ? 'y' : 'n';
  }
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, N_R, false);
  snprintf(name, sizeof name, "rnn_rows.%d.%lld.%lld.%lld.%u.%s", p->s->r->cell, (long long)p->s->r->hidden,
           (long long)p->s->r->state, (long long)p->s->r->input, tile_height(p->s), flags);
  V fn = cg_helper(c, name, type, make_rows, p);
  LLVMBuildCall2(c->b, type, fn, p->arg, N_R, "");
}

// ---- the sequence
typedef struct {
  RnnCode *s;
  V weight, w_ih, packed, xg, bias, h0, c0;  // NULL: absent; with w_ih, xg is x
  V out, hn, hprev, cells, gates, cell;
  RnnProjection proj;  // fields NULL: h is not projected
} Forward;

// NULL: absent
static V operand(RnnCode *s, ArgName name) {
  Val v = ir_operand(s->c->f, s->r->head, name);
  return ir_none(v) ? NULL : cg_ptr(s->c, v);
}

static Forward open_forward(RnnCode *s) {
  Forward w = {.s = s};
  RnnScratch part = cg_rnn_scratch(s->r, s->c->t);
  w.xg = operand(s, ARG_xg);
  w.weight = cg_ptr(s->c, s->r->weight);
  if (s->r->input) w.w_ih = operand(s, ARG_w_ih);
  w.bias = operand(s, ARG_b_hh);
  w.h0 = operand(s, ARG_h0);
  w.c0 = operand(s, ARG_c0);
  w.out = cg_rnn_stored(s, 0), w.hn = cg_rnn_stored(s, 1), w.hprev = cg_rnn_stored(s, 3);
  w.gates = cg_rnn_stored(s, 5);
  w.packed = cg_rnn_part(s, part.weight);
  if (!w.hprev) w.hprev = cg_rnn_part(s, part.hprev);
  if (s->r->cell == CELL_LSTM) {
    w.cell = cg_rnn_stored(s, 2), w.cells = cg_rnn_stored(s, 4);
    if (!w.cell) w.cell = cg_rnn_part(s, part.cell);
  }
  if (!ir_none(s->r->proj)) w.proj = cg_rnn_projection_open(s);
  return w;
}

static V block_weights(Forward *w, V block) {
  Cg *c = w->s->c;
  int64_t size = cg_rnn_weight_rows(w->s->r, c->t) * w->s->r->n_gates * c->t->vl;
  return cg_row(c, w->packed, block, cg_i64(c, size));
}

// The last row of a packed block.
static V block_zeros(Forward *w, V block) {
  const Rnn *r = w->s->r;
  V last = cg_i64(w->s->c, cg_rnn_weight_rows(r, w->s->c->t) - 1);
  return cg_rnn_row(w->s, block_weights(w, block), last, (int64_t)r->n_gates * w->s->c->t->vl);
}

// 0 . w_hh from the packed w_hh of a block: signed zeros or NaN. Added instead of a product with a zero state, it gives
// the same bits.
static void sum_zeros(Forward *w, V weight, V to) {
  Cg *c = w->s->c;
  const Rnn *r = w->s->r;
  uint32_t n = r->n_gates, vl = c->t->vl;
  V sum[MAX_CARRY], zero = cg_zeros(c);
  for (uint32_t g = 0; g < n; g++) sum[g] = cg_splat(c, cg_f32(c, -0.0));
  for (Loop k = cg_carry(c, cg_i64(c, 0), cg_i64(c, r->state), cg_i64(c, 1), sum, n); cg_next(&k);) {
    V row = cg_rnn_row(w->s, weight, k.i, (int64_t)n * vl);
    for (uint32_t g = 0; g < n; g++)
      sum[g] = cg_fma(c, zero, cg_get(c, c->vf, row, cg_i64(c, (int64_t)g * vl)), sum[g]);
  }
  for (uint32_t g = 0; g < n; g++) cg_put(c, sum[g], to, cg_i64(c, (int64_t)g * vl));
}

// Packs [k][gate][vl] of a block of units from weight [gate, unit, k]. Writes k rounded up to whole vl x vl tiles.
static void pack_weight(Forward *w, V block, V weight, int64_t n_k, V to) {
  Cg *c = w->s->c;
  const Rnn *r = w->s->r;
  V vl = cg_vl(c), h = cg_i64(c, n_k), width = cg_i64(c, (int64_t)r->n_gates * c->t->vl);
  V units = cg_i64(c, r->hidden), unit = cg_mul(c, block, vl);
  for (Loop k = cg_count_by(c, h, vl); cg_next(&k);) {
    for (Loop gate = cg_count(c, cg_i64(c, r->n_gates)); cg_next(&gate);) {
      V row = cg_add(c, unit, cg_mul(c, gate.i, units));
      V from = cg_cell(c, weight, row, h, k.i);
      V dst = cg_cell(c, to, k.i, width, cg_mul(c, gate.i, vl));
      cg_transpose_block(c, from, h, cg_sub(c, units, unit), cg_sub(c, h, k.i), dst, width);
    }
  }
}

// Own blocks: w_ih, if any, then w_hh, which overwrites the padding of the last tile of w_ih.
static void pack_weights(Forward *w) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  int64_t input = s->r->input;
  for (Loop block = cg_each(c, s->block_lo, s->block_hi); cg_next(&block);) {
    V to = block_weights(w, block.i);
    if (input) pack_weight(w, block.i, w->w_ih, input, to);
    to = cg_at(c, c->f32, to, cg_i64(c, input * s->r->n_gates * c->t->vl));
    pack_weight(w, block.i, w->weight, s->r->state, to);
    if (!s->r->has_h0) sum_zeros(w, to, block_zeros(w, block.i));
  }
}

// Initialises hn and cells, in user order: an empty sequence keeps its initial state.
static void init_states(Forward *w) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  if (!w->hn && !w->cell) return;
  int64_t h = s->r->state, units = s->r->hidden;
  for (Loop l = cg_count(c, s->batch); cg_next(&l);) {
    if (w->hn) cg_rnn_copy(s, cg_rnn_row(s, w->hn, l.i, h), w->h0 ? cg_rnn_row(s, w->h0, l.i, h) : NULL, true);
    if (w->cell)
      cg_rnn_copy(s, cg_rnn_row(s, w->cell, l.i, units), w->c0 ? cg_rnn_row(s, w->c0, l.i, units) : NULL, false);
  }
}

// hprev rows lo .. hi - 1 of step t from h0.
static void start_rows(Forward *w, V t, V lo, V hi) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  int64_t h = s->r->state;
  V first = cg_rnn_offset(s, t);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V from = w->h0 ? cg_rnn_row(s, w->h0, cg_rnn_sorted(s, l.i), h) : NULL;
    cg_rnn_copy(s, cg_rnn_row(s, w->hprev, cg_add(c, first, l.i), h), from, true);
  }
}

// Forward, all sequences start at step 0; in reverse, each starts at its own last step.
static void start_sequences(Forward *w) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  if (!s->r->reverse) {
    start_rows(w, zero, zero, cg_rnn_batch_size(s, zero));
    return;
  }
  for (Loop l = cg_count(c, s->steps); cg_next(&l);)
    start_rows(w, l.i, cg_rnn_batch_size(s, cg_add(c, l.i, one)), cg_rnn_batch_size(s, l.i));
}

static V columns(RnnCode *s, V base, V row, int64_t width, V unit) {
  return base ? cg_at(s->c, s->c->f32, cg_rnn_row(s, base, row, width), unit) : NULL;
}

// Projects `full` to h for the rows of a step, and stores it.
static void project(Forward *w, V t, V going, V next) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  int64_t h = s->r->state;
  V row = cg_rnn_offset(s, t), lo = s->row_lo, n_rows = cg_rnn_own(s, cg_rnn_batch_size(s, t));
  cg_team_barrier(c, s->barrier_id, c->n_workers);
  RnnProduct p = {.a = cg_rnn_row(s, w->proj.full, lo, s->r->hidden),
                  .b = w->proj.packed,
                  .c = cg_rnn_row(s, w->proj.h, lo, h),
                  .rows = n_rows,
                  .a_row = s->r->hidden,
                  .k = s->r->hidden,
                  .b_rows = s->r->blocks * c->t->vl,
                  .width = h,
                  .block_lo = s->state_lo,
                  .block_hi = s->state_hi};
  cg_rnn_product(s, &p);
  for (Loop l = cg_each(c, lo, cg_add(c, lo, n_rows)); cg_next(&l);) {
    V from = cg_rnn_row(s, w->proj.h, l.i, h);
    if (w->out) cg_rnn_copy(s, cg_rnn_row(s, w->out, cg_add(c, row, l.i), h), from, true);
    for (If more = cg_branch(c, cg_lt(c, l.i, going), w->hn != NULL); cg_then(&more);)
      if (more.is_true) cg_rnn_copy(s, cg_rnn_row(s, w->hprev, cg_add(c, next, l.i), h), from, true);
      else cg_rnn_copy(s, cg_rnn_row(s, w->hn, cg_rnn_sorted(s, l.i), h), from, true);
  }
}

// Own rows of step t; `going` of them continue at row `next`, `live` of them have a previous step.
static void step(Forward *w, V t, V live, V going, V next) {
  RnnCode *s = w->s;
  Cg *c = s->c;
  int64_t h = s->r->hidden;
  bool projects = w->proj.full != NULL;
  V zero = cg_i64(c, 0), lo = s->row_lo, row = cg_add(c, cg_rnn_offset(s, t), lo);
  V n_rows = cg_rnn_own(s, cg_rnn_batch_size(s, t)), after = cg_add(c, next, lo);
  for (Loop block = cg_each(c, s->block_lo, s->block_hi); cg_next(&block);) {
    V unit = cg_mul(c, block.i, cg_vl(c));
    StepRows p = {.s = s};
    p.arg[R_HPREV] = cg_rnn_row(s, w->hprev, row, s->r->state);
    p.arg[R_OLD] = s->r->cell == CELL_GRU ? columns(s, w->hprev, row, h, unit) : NULL;
    p.arg[R_WEIGHT] = block_weights(w, block.i);
    p.arg[R_ZEROS] = s->r->has_h0 ? NULL : block_zeros(w, block.i);
    p.arg[R_XG] =
        s->r->input ? cg_rnn_row(s, w->xg, row, s->r->input) : columns(s, w->xg, row, s->r->n_gates * h, unit);
    p.arg[R_BIAS] = columns(s, w->bias, zero, h, unit);
    p.arg[R_OUT] = projects ? NULL : columns(s, w->out, row, h, unit);
    p.arg[R_GATES] = columns(s, w->gates, row, s->r->n_saved * h, unit);
    p.arg[R_CELLS] = columns(s, w->cells, row, 2 * h, unit);
    p.arg[R_NEXT] = projects ? NULL : columns(s, w->hprev, after, h, unit);
    p.arg[R_HN] = projects ? NULL : columns(s, w->hn, zero, h, unit);
    p.arg[R_FULL] = columns(s, w->proj.full, lo, h, unit);
    p.arg[R_CELL] = columns(s, w->cell, zero, h, unit);
    p.arg[R_SORTED] = cg_at(c, c->i32, cg_rnn_sorted_table(s), lo);
    p.arg[R_ROWS] = n_rows, p.arg[R_LIVE] = w->h0 ? n_rows : cg_sub(c, live, lo), p.arg[R_GOING] = cg_sub(c, going, lo);
    p.arg[R_LANES] = cg_sub(c, cg_i64(c, h), unit);
    call_rows(&p);
  }
  if (projects) project(w, t, going, next);
}

void cg_rnn_forward(RnnCode *s) {
  Cg *c = s->c;
  Forward w = open_forward(s);
  V zero = cg_i64(c, 0), one = cg_i64(c, 1);
  pack_weights(&w);
  init_states(&w);
  start_sequences(&w);
  cg_rnn_own_rows(s);
  for (Loop l = cg_count(c, s->steps); cg_next(&l);) {
    cg_team_barrier(c, s->barrier_id, c->n_workers);
    if (!s->r->reverse) {
      V after = cg_add(c, l.i, one), starts = cg_eq(c, l.i, zero);
      V live = cg_select(c, starts, zero, cg_rnn_batch_size(s, l.i));
      step(&w, l.i, live, cg_rnn_batch_size(s, after), cg_rnn_offset(s, after));
    } else {
      V t = cg_sub(c, cg_sub(c, s->steps, one), l.i);
      V more = cg_gt(c, t, zero);
      V before = cg_select(c, more, cg_sub(c, t, one), zero);
      V going = cg_select(c, more, cg_rnn_batch_size(s, t), zero);
      step(&w, t, cg_rnn_batch_size(s, cg_add(c, t, one)), going, cg_rnn_offset(s, before));
    }
  }
}
