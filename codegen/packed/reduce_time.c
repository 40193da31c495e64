// Ops along time over packed rows and their layout: sums, extremes, softmax, and values of a whole sequence
// broadcast over its rows. Nothing is padded.
//
// The rows of one step stand together, longest sequence first, and no row of a later step belongs to a sequence that an
// earlier step lacks. Lane j of step t is therefore element offsets[t] * width + j of the data; it belongs to feature
// j % width of the sequence at position j / width, and it runs for that sequence's length:
//
//   lengths 3 2 1, width 2     step 0: a a b b c c    step 1: a a b b    step 2: a a
//                              lane    0 1 2 3 4 5            0 1 2 3            0 1
//
// A block of lanes is walked through time in registers, whatever the width; steps in which all of its lanes run need no
// mask. Blocks go to the workers in turn. A lane is summed in chunks of steps, in an order that nothing else decides.
#include "codegen/emitters.h"
#include "codegen/lanes.h"
#include "codegen/math/primitives.h"
#include "codegen/packed/layout.h"

#include <math.h>

enum { UNROLL = 4, CHUNK = 64 };

typedef struct {
  Cg *c;
  Val v;
  V sizes, offsets, sorted, lengths;  // of the layout
  V width;                            // elements of a row
  V lanes;                            // of all sequences
  // the block at hand
  V j;              // its first lane
  V t_full, t_end;  // steps in which all of its lanes run, and any of them
  V mask[UNROLL];   // lanes that exist
  V user[UNROLL];   // where they stand in a value [B, width]: <vl x i64>, or of the first one when they stand together
  bool together;
  V a, b, to;                  // data that a body reads and writes
  V x[UNROLL], scale[UNROLL];  // what a body reads
} Seq;

// One step of a block: element of the first lane, and masks; NULL: all lanes.
typedef struct {
  V t, at;
  V mask[UNROLL];
} Step;
typedef void Body(Seq *s, const Step *p, V *carry);

static V splat(Seq *s, double x) { return cg_splat(s->c, cg_f32(s->c, x)); }

// ---- the data of a step
static V place(Seq *s, const Step *p, uint32_t k) {
  return cg_add(s->c, p->at, cg_i64(s->c, (int64_t)k * s->c->t->vl));
}
static V load(Seq *s, V base, const Step *p, uint32_t k) {
  return cg_get_masked(s->c, s->c->vf, base, place(s, p, k), p->mask[k]);
}
static void store(Seq *s, V x, const Step *p, uint32_t k) { cg_put_masked(s->c, x, s->to, place(s, p, k), p->mask[k]); }
static V lanes_or_zero(Seq *s, const Step *p, uint32_t k, V x) {
  return p->mask[k] ? cg_select(s->c, p->mask[k], x, splat(s, 0)) : x;
}

// ---- values of whole sequences, [B, width]
static V load_user(Seq *s, LLVMTypeRef elem, V base, uint32_t k) {
  Cg *c = s->c;
  if (!s->together) return cg_gather(c, elem, base, s->user[k], s->mask[k]);
  return cg_get_masked(c, LLVMVectorType(elem, c->t->vl), base, s->user[k], s->mask[k]);
}

static void store_user(Seq *s, V base, uint32_t k, V x) {
  if (s->together) cg_put_masked(s->c, x, base, s->user[k], s->mask[k]);
  else cg_scatter(s->c, x, base, s->user[k], s->mask[k]);
}

// ---- blocks
static V position_of(Seq *s, V lane) { return cg_div(s->c, lane, s->width); }
static V length_at(Seq *s, V position) {
  return cg_layout_get(s->c, s->lengths, cg_layout_get(s->c, s->sorted, position));
}

// The lanes from `first` on: user index times width plus feature.
static V find_users(Seq *s, V first, V mask) {
  Cg *c = s->c;
  V position = position_of(s, cg_min(c, first, cg_sub(c, s->lanes, cg_i64(c, 1))));
  V feature = cg_sub(c, first, cg_mul(c, position, s->width));
  if (s->together) return cg_index(c, cg_layout_get(c, s->sorted, position), s->width, feature);
  V wide = cg_splat(c, cg_trunc(c, s->width, c->i32)), from = cg_numbers_from(c, feature, 1);
  V more = LLVMBuildUDiv(c->b, from, wide, ""), rest = cg_isub(c, from, cg_imul(c, more, wide));
  V users = cg_gather(c, c->i32, cg_at(c, c->i32, s->sorted, position), more, mask);
  V row = cg_imul(c, cg_sext(c, users, c->vi64), cg_splat(c, s->width));
  return cg_iadd(c, row, cg_sext(c, rest, c->vi64));
}

static void enter_block(Seq *s, V j) {
  Cg *c = s->c;
  int64_t vl = c->t->vl;
  V last = cg_add(c, j, cg_i64(c, UNROLL * vl - 1)), end = cg_sub(c, s->lanes, cg_i64(c, 1));
  V whole = cg_le(c, last, end);
  s->j = j;
  s->t_end = length_at(s, position_of(s, j));
  s->t_full = cg_select(c, whole, length_at(s, position_of(s, cg_min(c, last, end))), cg_i64(c, 0));
  for (uint32_t k = 0; k < UNROLL; k++) {
    V first = cg_add(c, j, cg_i64(c, k * vl));
    s->mask[k] = cg_mask(c, cg_sub(c, s->lanes, first));
    s->user[k] = find_users(s, first, s->mask[k]);
  }
}

static void walk(Seq *s, V lo, V hi, bool masked, Body *body, V *carry, uint32_t n) {
  Cg *c = s->c;
  for (Loop l = cg_carry(c, lo, hi, cg_i64(c, 1), carry, n); cg_next(&l);) {
    Step p = {.t = l.i, .at = cg_index(c, cg_layout_get(c, s->offsets, l.i), s->width, s->j)};
    if (masked) {
      V left = cg_sub(c, cg_mul(c, cg_layout_get(c, s->sizes, l.i), s->width), s->j);
      for (uint32_t k = 0; k < UNROLL; k++) p.mask[k] = cg_mask(c, cg_sub(c, left, cg_i64(c, (int64_t)k * c->t->vl)));
    }
    body(s, &p, carry);
  }
}

// The steps [lo, hi) of the block.
static void steps(Seq *s, V lo, V hi, Body *body, V *carry, uint32_t n) {
  walk(s, lo, cg_min(s->c, hi, s->t_full), false, body, carry, n);
  walk(s, cg_max(s->c, lo, s->t_full), hi, true, body, carry, n);
}
static void all_steps(Seq *s, Body *body, V *carry, uint32_t n) { steps(s, cg_i64(s->c, 0), s->t_end, body, carry, n); }

// The same for a body that adds to UNROLL sums: chunks first, then their sums.
static void sum_steps(Seq *s, Body *body, V *sum) {
  Cg *c = s->c;
  V chunk = cg_i64(c, CHUNK), part[UNROLL];
  for (uint32_t k = 0; k < UNROLL; k++) sum[k] = splat(s, 0);
  for (Loop l = cg_carry(c, cg_i64(c, 0), s->t_end, chunk, sum, UNROLL); cg_next(&l);) {
    for (uint32_t k = 0; k < UNROLL; k++) part[k] = splat(s, 0);
    steps(s, l.i, cg_min(c, cg_add(c, l.i, chunk), s->t_end), body, part, UNROLL);
    for (uint32_t k = 0; k < UNROLL; k++) sum[k] = cg_fadd(c, sum[k], part[k]);
  }
}

// ---- what happens in a step
static void body_sum(Seq *s, const Step *p, V *sum) {
  for (uint32_t k = 0; k < UNROLL; k++) sum[k] = cg_fadd(s->c, sum[k], load(s, s->a, p, k));
}

// carry: the best so far and its step; -1: none yet. The first of equals stays, and a NaN whatever follows.
static void better(Seq *s, const Step *p, V *carry, LLVMRealPredicate beats) {
  Cg *c = s->c;
  V t = cg_splat(c, cg_trunc(c, p->t, c->i32));
  for (uint32_t k = 0; k < UNROLL; k++) {
    V x = load(s, s->a, p, k), *best = &carry[k], *step = &carry[UNROLL + k];
    V take = cg_and(c, cg_fcmp(c, beats, x, *best), cg_fcmp(c, LLVMRealORD, *best, *best));
    take = cg_or(c, take, cg_lt(c, *step, LLVMConstNull(c->vi32)));
    if (p->mask[k]) take = cg_and(c, take, p->mask[k]);
    *best = cg_select(c, take, x, *best);
    *step = cg_select(c, take, t, *step);
  }
}
static void body_max(Seq *s, const Step *p, V *carry) { better(s, p, carry, LLVMRealUGT); }
static void body_min(Seq *s, const Step *p, V *carry) { better(s, p, carry, LLVMRealULT); }

static void body_store_x(Seq *s, const Step *p, V *carry) {
  (void)carry;
  for (uint32_t k = 0; k < UNROLL; k++) store(s, s->x[k], p, k);
}

// scale: the step that x goes to
static void body_scatter(Seq *s, const Step *p, V *carry) {
  Cg *c = s->c;
  (void)carry;
  V t = cg_splat(c, cg_trunc(c, p->t, c->i32));
  for (uint32_t k = 0; k < UNROLL; k++) {
    V here = cg_eq(c, t, s->scale[k]);
    store(s, cg_select(c, here, s->x[k], splat(s, 0)), p, k);
  }
}

// x: the maximum; the exponentials go to the result
static void body_exp(Seq *s, const Step *p, V *sum) {
  for (uint32_t k = 0; k < UNROLL; k++) {
    V d = cg_fsub(s->c, load(s, s->a, p, k), s->x[k]), e = cg_primitive(s->c, OP_exp, &d);
    store(s, e, p, k);
    sum[k] = cg_fadd(s->c, sum[k], lanes_or_zero(s, p, k, e));
  }
}
static void body_scale(Seq *s, const Step *p, V *carry) {
  (void)carry;
  for (uint32_t k = 0; k < UNROLL; k++) store(s, cg_fmul(s->c, load(s, s->to, p, k), s->scale[k]), p, k);
}

static void body_dot(Seq *s, const Step *p, V *sum) {
  for (uint32_t k = 0; k < UNROLL; k++)
    sum[k] = cg_fadd(s->c, sum[k], cg_fmul(s->c, load(s, s->a, p, k), load(s, s->b, p, k)));
}
// x: the sum over steps of y g
static void body_softmax_grad(Seq *s, const Step *p, V *carry) {
  (void)carry;
  for (uint32_t k = 0; k < UNROLL; k++)
    store(s, cg_fmul(s->c, load(s, s->a, p, k), cg_fsub(s->c, load(s, s->b, p, k), s->x[k])), p, k);
}

// ---- blocks of the ops
static void block_sum(Seq *s) {
  V sum[UNROLL];
  sum_steps(s, body_sum, sum);
  for (uint32_t k = 0; k < UNROLL; k++) store_user(s, s->to, k, sum[k]);
}

// Stores the extremes in `best`; `step` NULL: nobody reads the steps.
static void find_best(Seq *s, bool least, V *best, V *step) {
  Cg *c = s->c;
  V carry[2 * UNROLL];
  for (uint32_t k = 0; k < UNROLL; k++) {
    carry[k] = splat(s, least ? INFINITY : -INFINITY);
    carry[UNROLL + k] = cg_splat(c, cg_i32(c, -1));
  }
  all_steps(s, least ? body_min : body_max, carry, 2 * UNROLL);
  for (uint32_t k = 0; k < UNROLL; k++) {
    best[k] = carry[k];
    if (step) step[k] = carry[UNROLL + k];
  }
}

static void block_best(Seq *s) {
  Cg *c = s->c;
  V best[UNROLL], step[UNROLL];
  Val index = ir_result(s->v, 1);
  find_best(s, ir_ins(c->f, s->v)->op == OP_seq_min, best, step);
  for (uint32_t k = 0; k < UNROLL; k++) {
    if (cg_stored(c, s->v)) store_user(s, s->to, k, best[k]);
    if (cg_stored(c, index)) store_user(s, cg_ptr(c, index), k, cg_sext(c, step[k], c->vi64));
  }
}

static void block_broadcast(Seq *s) {
  for (uint32_t k = 0; k < UNROLL; k++) s->x[k] = load_user(s, s->c->f32, s->a, k);
  all_steps(s, body_store_x, NULL, 0);
}

// The length of every lane's sequence.
static V lengths_of(Seq *s, uint32_t k) {
  Cg *c = s->c;
  V wide = cg_splat(c, s->width);
  if (s->together) return cg_splat(c, cg_get(c, c->i32, s->lengths, cg_div(c, s->user[k], s->width)));
  return cg_gather(c, c->i32, s->lengths, LLVMBuildUDiv(c->b, s->user[k], wide, ""), s->mask[k]);
}

static void block_scatter(Seq *s) {
  Cg *c = s->c;
  bool given = ir_has_operand(c->f, s->v, ARG_step), first = ir_attr(c->f, s->v, KEY_first) != NULL;
  for (uint32_t k = 0; k < UNROLL; k++) {
    s->x[k] = load_user(s, c->f32, s->a, k);
    if (given) s->scale[k] = cg_trunc(c, load_user(s, c->i64, s->b, k), c->vi32);
    else if (first) s->scale[k] = LLVMConstNull(c->vi32);
    else s->scale[k] = cg_isub(c, lengths_of(s, k), cg_splat(c, cg_i32(c, 1)));
  }
  all_steps(s, body_scatter, NULL, 0);
}

static void block_softmax(Seq *s) {
  V sum[UNROLL];
  find_best(s, false, s->x, NULL);
  sum_steps(s, body_exp, sum);
  for (uint32_t k = 0; k < UNROLL; k++) s->scale[k] = cg_fdiv(s->c, splat(s, 1), sum[k]);
  all_steps(s, body_scale, NULL, 0);
}

static void block_softmax_grad(Seq *s) {
  sum_steps(s, body_dot, s->x);
  all_steps(s, body_softmax_grad, NULL, 0);
}

typedef void Block(Seq *s);
static Block *block_of(Op op) {
  switch (op) {
  case OP_seq_sum: return block_sum;
  case OP_seq_max:
  case OP_seq_min: return block_best;
  case OP_seq_broadcast: return block_broadcast;
  case OP_seq_scatter: return block_scatter;
  case OP_seq_softmax: return block_softmax;
  case OP_seq_softmax_grad: return block_softmax_grad;
  default: return NULL;
  }
}

static Seq open_seq(Cg *c, Val v) {
  Val layout = ir_arg(c->f, v, 1), data = ir_arg(c->f, v, 0);
  CgLayout l = cg_layout_of(c, layout);
  Seq s = {.c = c, .v = v};
  s.sizes = cg_layout_sizes(c, &l), s.offsets = cg_layout_offsets(c, &l);
  s.sorted = cg_layout_sorted(c, &l), s.lengths = cg_layout_lengths(c, &l);
  s.width = cg_row_words(c, data, 1);  // i64 values are only moved: as pairs of words
  s.lanes = cg_mul(c, cg_layout_get(c, l.base, cg_i64(c, TN_LAYOUT_SEQS)), s.width);
  s.together = LLVMIsAConstantInt(s.width) && LLVMConstIntGetZExtValue(s.width) % c->t->vl == 0;
  s.a = cg_ptr(c, data), s.to = cg_ptr_or_null(c, v);
  Val b = ir_operand(c->f, v, ir_ins(c->f, v)->op == OP_seq_scatter ? ARG_step : ARG_g);
  if (!ir_none(b)) s.b = cg_ptr(c, b);
  return s;
}

bool cg_emit_sequence(Cg *c) {
  Val v = {c->k->first};
  Block *block = block_of((Op)ir_ins(c->f, v)->op);
  if (!block) return cg_emit_sequence_rows(c);
  Seq s = open_seq(c, v);
  V size = cg_i64(c, (int64_t)UNROLL * c->t->vl);
  for (Loop l = cg_each_by(c, cg_mul(c, c->worker, size), s.lanes, cg_mul(c, c->n_workers, size)); cg_next(&l);) {
    enter_block(&s, l.i);
    block(&s);
  }
  return true;
}
