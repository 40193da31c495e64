// Partition of a recurrence among workers: by hidden units or by sequences.
//
// A kernel holds one or more independent recurrences (the directions of a layer). With at least as many workers,
// recurrence d is run by the team of workers d, d + D, d + 2 D, ..; with fewer, each worker runs whole recurrences.
//
// Inside a team the work of a step is partitioned in one of two ways, chosen at run time:
//
//   by units       each worker owns a contiguous range of blocks of vl hidden units, for all gates: gate math is local,
//                  each worker reads its part of w_hh, and a step costs a barrier. Workers beyond the number of blocks
//                  are idle.
//   by sequences   each worker owns a contiguous range of sorted batch positions, balanced by their rows, for all units.
//                  It reads all of w_hh in each step, but nothing of the others: no barriers after the common set-up.
//
// By sequences, if each worker has enough of them to hide the loads of w_hh behind its arithmetic. No sum is ever split,
// so bits depend neither on the team nor on the partition.
#include "codegen/rnn/rnn.h"

// Minimum sequences per worker, for a packed w_hh of up to `bytes`. A worker loads 128 bytes of it per cycle, divided by
// its sequences. A w_hh well below L2 is hidden from two rows on, which keep the FMA units busy; one that fills L2 comes
// from the LLC.
static const struct {
  int64_t bytes, rows;
} min_rows[] = {{256 << 10, 2}, {1 << 20, 16}};

static int64_t min_rows_of(const Rnn *r, const Target *t) {
  int64_t bytes = 4 * r->blocks * t->vl * r->state_blocks * t->vl * r->n_gates;
  for (uint32_t k = 0; k < sizeof min_rows / sizeof *min_rows; k++)
    if (bytes <= min_rows[k].bytes) return 2 * min_rows[k].rows <= r->batch_max ? min_rows[k].rows : 0;
  return 0;
}

static V choose(Cg *c, V cond, V a, V b) { return cg_select(c, cond, a, b); }

// For a team of `all` workers.
static void choose_partition(RnnCode *s, RnnPartition *t, V all) {
  Cg *c = s->c;
  t->size = cg_min(c, all, cg_i64(c, s->r->blocks));
  int64_t rows = min_rows_of(s->r, c->t);
  if (!rows) return;
  V several = cg_gt(c, all, cg_i64(c, 1));
  V enough = cg_ge(c, s->batch, cg_mul(c, all, cg_i64(c, rows)));
  t->by_rows = cg_and(c, several, enough);
  t->size = choose(c, t->by_rows, all, t->size);
}

static uint32_t weight_of(const Fn *f, uint32_t i) { return ir_operand(f, (Val){i}, ARG_w_hh).i; }

// Recurrences are numbered by their weights: forward and backward of one layer share a weight, and so run on the same
// workers, whose caches hold its rows.
uint32_t cg_rnn_number(const Fn *f, Val head) {
  const Kernel *k = &f->kernels[f->kernel_of[head.i]];
  uint32_t number = 0, own = weight_of(f, head.i);
  for (uint32_t i = k->first; i < k->first + k->n; i++) {
    if (ir_ops[f->ins[i].op].cls != CLASS_RNN || i == head.i) continue;
    uint32_t other = weight_of(f, i);
    number += other < own || (other == own && i < head.i);
  }
  return number;
}

RnnPartition cg_rnn_partition(RnnCode *s, uint32_t d, uint32_t n_seqs) {
  Cg *c = s->c;
  RnnPartition t = {0};
  if (n_seqs == 1) {
    t.member = c->worker;
    choose_partition(s, &t, c->n_workers);
    t.takes_part = cg_lt(c, t.member, t.size);
    return t;
  }
  V n = cg_i64(c, n_seqs), me = cg_i64(c, d), zero = cg_i64(c, 0), one = cg_i64(c, 1);
  V enough = cg_ge(c, c->n_workers, n);
  V mine = choose(c, enough, cg_rem(c, c->worker, n), cg_rem(c, me, c->n_workers));
  V key = choose(c, enough, me, c->worker);
  t.member = choose(c, enough, cg_div(c, c->worker, n), zero);
  V all = cg_div(c, cg_add(c, cg_sub(c, c->n_workers, me), cg_i64(c, n_seqs - 1)), n);
  choose_partition(s, &t, choose(c, enough, all, one));
  V works = cg_lt(c, t.member, t.size);
  t.takes_part = cg_and(c, cg_eq(c, mine, key), works);
  return t;
}

// ---- own sequences
// Is x / of < member / size?
static V below_share(Cg *c, V x, V of, V member) { return cg_lt(c, cg_mul(c, x, c->n_workers), cg_mul(c, of, member)); }

// Walks over the sorted positions, and over the steps to find the length of each. A position belongs to the worker whose
// share of all rows contains the first of its rows. Added to these are the steps that the first worker runs alone: a step
// costs each worker as much as two more rows, half of which is charged to either side of a boundary. `most`: iterations;
// 0 where the result is not needed.
static void cut_rows(RnnCode *s, V most, V *lo, V *hi) {
  enum { POSITION, LENGTH, BEFORE, LO, HI, N };
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), rows = cg_rnn_offset(s, s->steps);
  V init[N] = {zero, s->steps, zero, zero, zero};
  for (Loop l = cg_carry(c, zero, most, one, init, N); cg_next(&l);) {
    V length = init[LENGTH], before = init[BEFORE];
    V some = cg_gt(c, length, zero);
    V last = choose(c, some, cg_sub(c, length, one), zero);
    V ended = cg_le(c, cg_rnn_batch_size(s, last), init[POSITION]);
    V shorter = cg_and(c, some, ended);
    V cost = cg_add(c, before, cg_sub(c, s->steps, length));
    V is_lower = below_share(c, cost, rows, c->worker);
    V is_own = below_share(c, cost, rows, cg_add(c, c->worker, one));
    V next[N] = {choose(c, shorter, init[POSITION], cg_add(c, init[POSITION], one)), choose(c, shorter, last, length),
                 choose(c, shorter, before, cg_add(c, before, length)),
                 cg_add(c, init[LO], choose(c, shorter, zero, cg_zext(c, is_lower, c->i64))),
                 cg_add(c, init[HI], choose(c, shorter, zero, cg_zext(c, is_own, c->i64)))};
    for (uint32_t k = 0; k < N; k++) init[k] = next[k];
  }
  V is_last = cg_eq(c, cg_add(c, c->worker, one), c->n_workers);
  *lo = cg_min(c, init[LO], s->batch);
  *hi = choose(c, is_last, s->batch, cg_min(c, init[HI], s->batch));  // the last worker owns the empty sequences
}

void cg_rnn_own_rows(RnnCode *s) {
  V by_rows = s->team.by_rows;
  if (!by_rows) return;
  Cg *c = s->c;
  V zero = cg_i64(c, 0), one = cg_i64(c, 1), lo, hi;
  cg_team_barrier(c, s->barrier_id, choose(c, by_rows, c->n_workers, one));
  cut_rows(s, choose(c, by_rows, cg_add(c, s->batch, s->steps), zero), &lo, &hi);
  s->row_lo = choose(c, by_rows, lo, s->row_lo), s->row_hi = choose(c, by_rows, hi, s->row_hi);
  s->block_lo = choose(c, by_rows, zero, s->block_lo), s->state_lo = choose(c, by_rows, zero, s->state_lo);
  s->block_hi = choose(c, by_rows, cg_i64(c, s->r->blocks), s->block_hi);
  s->state_hi = choose(c, by_rows, cg_i64(c, s->r->state_blocks), s->state_hi);
  c->n_workers = choose(c, by_rows, one, c->n_workers);
}

V cg_rnn_own(RnnCode *s, V n) {
  Cg *c = s->c;
  V own = cg_sub(c, cg_min(c, n, s->row_hi), s->row_lo), zero = cg_i64(c, 0);
  return cg_max(c, own, zero);
}
