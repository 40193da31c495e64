// Op moments: its sums, its kernel where no product makes x (moments.h).
#include "codegen/reduce/moments.h"
#include "codegen/emitters.h"
#include "codegen/reduce/cascade.h"
#include "codegen/reduce/column_sum.h"

#include <math.h>
#include <stdio.h>

enum { CHAINS = 4 };
enum { PIVOT, SUM, SQUARES, COUNT, N_SUMS };  // of a slot: its pivot; sums of x - pivot; sums of their squares; rows

// ---- the plan: by bounds alone
static RowSpace rows_of_x(const Fn *f, Val v) {
  Shape s = ir_ins(f, ir_arg(f, v, 0))->shape;
  return (RowSpace){s, ir_rank(f->prog, s) - 1};
}

int64_t cg_moments_chunks(const Fn *f, Val v) { return cg_column_chunks(f->prog, rows_of_x(f, v)); }

int64_t cg_moments_slot_bytes(const Fn *f, Val v, int64_t n) {
  return 4 * N_SUMS * cg_column_width(f->prog, rows_of_x(f, v)) * cg_larger(1, n);
}

void cg_moments_open(Moments *m, Cg *c, Val v, V scratch) {
  RowSpace x = rows_of_x(c->f, v);
  Shape s = x.shape;
  uint32_t rank = x.axis + 1;
  *m = (Moments){.c = c, .v = v, .slots = scratch, .width = cg_column_width(c->f->prog, x), .rows = cg_i64(c, 1)};
  m->channels = cg_dim(c, ir_dim_at(c->f->prog, s, rank - 1));
  for (uint32_t k = 0; k + 1 < rank; k++) m->rows = cg_mul(c, m->rows, cg_dim(c, ir_dim_at(c->f->prog, s, k)));
}

// ---- one vector of channels: the sums over pixels
static V zero(Cg *c) { return LLVMConstNull(c->vf); }

typedef struct {
  int64_t width;
  bool ragged;  // channels may be no whole number of vectors
} Spec;

enum { P_FROM, P_ROWS, P_ROW, P_COLUMNS, P_COLUMN, P_CHANNELS, P_SLOT, P_FIRST, N_PARAMS };

typedef struct {
  V from, mask, pivot;
} Lanes;

static V load(Cg *c, const Lanes *l, V offset) { return cg_get_masked(c, c->vf, l->from, offset, l->mask); }

// Adds the pixel at `offset` to chain k.
static void take(Cg *c, const Lanes *l, V offset, V *chain, uint32_t k) {
  V x = cg_fsub(c, load(c, l, offset), l->pivot);
  chain[k] = cg_fadd(c, chain[k], x);
  chain[CHAINS + k] = cg_fma(c, x, x, chain[CHAINS + k]);
}

// `sums`: chains of sums, then of squares. Pixels of a row by turns, so that no addition waits for the one before.
static void add_row(Cg *c, const Lanes *l, V row, V columns, V column, V *sums) {
  V whole = cg_and(c, columns, cg_i64(c, -CHAINS)), left[2 * CHAINS];
  for (Loop a = cg_carry(c, cg_i64(c, 0), whole, cg_i64(c, CHAINS), sums, 2 * CHAINS); cg_next(&a);)
    for (uint32_t k = 0; k < CHAINS; k++)
      take(c, l, cg_add(c, row, cg_mul(c, cg_add(c, a.i, cg_i64(c, k)), column)), sums, k);
  V first[] = {sums[0], sums[CHAINS]};
  for (Loop b = cg_carry(c, whole, columns, cg_i64(c, 1), first, 2); cg_next(&b);) {
    left[0] = first[0], left[CHAINS] = first[1];
    take(c, l, cg_add(c, row, cg_mul(c, b.i, column)), left, 0);
    first[0] = left[0], first[1] = left[CHAINS];
  }
  sums[0] = first[0], sums[CHAINS] = first[1];
}

static V joined(Cg *c, V *chain) { return cg_fadd(c, cg_fadd(c, chain[0], chain[1]), cg_fadd(c, chain[2], chain[3])); }

static V part_of(Cg *c, V slot, int64_t width, uint32_t what, V channel) {
  return cg_at(c, c->f32, slot, cg_add(c, cg_i64(c, what * width), channel));
}

// Lanes beyond the mask belong to the next group of a convolution, perhaps to another worker.
static V load_part(Cg *c, V at, V mask) { return cg_load_masked(c, c->vf, at, mask); }

static void store_part(Cg *c, V value, V at, V mask) { cg_store_masked(c, value, at, mask); }

// Pivots from the pixels that are added first.
static V pivot_of(Cg *c, const Lanes *l, const V *p) {
  V x[N_PIVOTS];
  for (uint32_t k = 0; k < N_PIVOTS; k++) {
    V row = cg_mul(c, cg_pivot_place(c, k, p[P_ROWS]), p[P_ROW]);
    x[k] = load(c, l, cg_add(c, row, cg_mul(c, cg_pivot_place(c, k, p[P_COLUMNS]), p[P_COLUMN])));
  }
  return cg_pivots(c, x);
}

static void add_vector(Cg *c, const Spec *s, const V *p, V channel, V mask) {
  V at[N_SUMS], old[N_SUMS], sums[2 * CHAINS];
  V is_first = cg_ne(c, p[P_FIRST], cg_i32(c, 0));
  Lanes l = {.from = cg_at(c, c->f32, p[P_FROM], channel), .mask = mask};
  for (uint32_t k = 0; k < N_SUMS; k++) {
    at[k] = part_of(c, p[P_SLOT], s->width, k, channel);
    V first = k == PIVOT ? pivot_of(c, &l, p) : zero(c);
    old[k] = cg_select(c, is_first, first, load_part(c, at[k], mask));
  }
  l.pivot = old[PIVOT];
  for (uint32_t k = 0; k < 2 * CHAINS; k++) sums[k] = zero(c);
  for (Loop rows = cg_carry(c, cg_i64(c, 0), p[P_ROWS], cg_i64(c, 1), sums, 2 * CHAINS); cg_next(&rows);)
    add_row(c, &l, cg_mul(c, rows.i, p[P_ROW]), p[P_COLUMNS], p[P_COLUMN], sums);
  V n = cg_sitofp(c, cg_mul(c, p[P_ROWS], p[P_COLUMNS]), c->f32);
  store_part(c, old[PIVOT], at[PIVOT], mask);
  store_part(c, cg_fadd(c, old[SUM], joined(c, sums)), at[SUM], mask);
  store_part(c, cg_fadd(c, old[SQUARES], joined(c, sums + CHAINS)), at[SQUARES], mask);
  store_part(c, cg_fadd(c, old[COUNT], cg_splat(c, n)), at[COUNT], mask);
}

static void make_add(Cg *c, V fn, void *ctx) {
  const Spec *s = ctx;
  V p[N_PARAMS], vl = cg_i64(c, c->t->vl);
  for (uint32_t k = 0; k < N_PARAMS; k++) p[k] = LLVMGetParam(fn, k);
  V whole = cg_and(c, p[P_CHANNELS], cg_i64(c, -(int64_t)c->t->vl));
  for (Loop l = cg_each_by(c, cg_i64(c, 0), whole, vl); cg_next(&l);) add_vector(c, s, p, l.i, NULL);
  if (s->ragged) {
    V left = cg_sub(c, p[P_CHANNELS], whole);
    for (If some = cg_when(c, cg_ne(c, left, cg_i64(c, 0))); cg_then(&some);)
      add_vector(c, s, p, whole, cg_mask(c, left));
  }
  LLVMBuildRetVoid(c->b);
}

static V slot_at(const Moments *m, V slot) {
  return cg_at(m->c, m->c->f32, m->slots, cg_mul(m->c, slot, cg_i64(m->c, N_SUMS * m->width)));
}

void cg_moments_add(Moments *m, const MomentPixels *p) {
  Cg *c = m->c;
  int64_t known;
  Spec s = {.width = m->width, .ragged = !cg_const_value(p->channels, &known) || known % c->t->vl};
  char name[64];
  snprintf(name, sizeof name, "moments.%lld%s", (long long)s.width, s.ragged ? ".m" : "");
  V arg[N_PARAMS] = {p->from,
                     p->rows,
                     p->row,
                     p->columns,
                     p->column,
                     p->channels,
                     cg_at(c, c->f32, slot_at(m, p->slot), p->n0),
                     cg_zext(c, p->is_first, c->i32)};
  LLVMTypeRef params[N_PARAMS];
  for (uint32_t k = 0; k < N_PARAMS; k++) params[k] = LLVMTypeOf(arg[k]);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, N_PARAMS, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_add, &s), arg, N_PARAMS, "");
}

// ---- all rows, by chunks
V cg_moments_chunks_there(Moments *m) {
  return cg_ceil_div_value(m->c, m->rows, cg_column_chunk(m->c->f->prog, rows_of_x(m->c->f, m->v)));
}

void cg_moments_add_chunks(Moments *m, V x) {
  Cg *c = m->c;
  V chunk = cg_i64(c, cg_column_chunk(c->f->prog, rows_of_x(m->c->f, m->v)));
  for (Loop l = cg_each_shared(c, cg_moments_chunks_there(m), 1); cg_next(&l);) {
    V row = cg_mul(c, l.i, chunk);
    cg_moments_add(m, &(MomentPixels){.slot = l.i,
                                      .is_first = LLVMConstInt(c->i1, 1, false),
                                      .n0 = cg_i64(c, 0),
                                      .channels = m->channels,
                                      .from = cg_at(c, c->f32, x, cg_mul(c, row, m->channels)),
                                      .rows = cg_i64(c, 1),
                                      .columns = cg_min(c, chunk, cg_sub(c, m->rows, row)),
                                      .row = cg_i64(c, 0),
                                      .column = m->channels});
  }
}

// ---- joining
typedef struct {
  V part[N_SUMS];
} Slot;

static Slot load_slot(const Moments *m, V slot, V channel) {
  Slot s;
  for (uint32_t k = 0; k < N_SUMS; k++)
    s.part[k] = cg_load(m->c, m->c->vf, part_of(m->c, slot_at(m, slot), m->width, k, channel));
  return s;
}

// The mean of all, from the first slot's pivot on; 0 where there is no row, and no slot.
static V mean_of(const Moments *m, V n_slots, V channel) {
  Cg *c = m->c;
  V start = load_slot(m, cg_i64(c, 0), channel).part[PIVOT], sum = zero(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), n_slots, cg_i64(c, 1), &sum, 1); cg_next(&l);) {
    Slot s = load_slot(m, l.i, channel);
    sum = cg_fadd(c, sum, cg_fma(c, s.part[COUNT], cg_fsub(c, s.part[PIVOT], start), s.part[SUM]));
  }
  V rows = cg_splat(c, cg_sitofp(c, m->rows, c->f32));
  V mean = cg_fadd(c, start, cg_fdiv(c, sum, rows));
  V is_some = cg_gt(c, m->rows, cg_i64(c, 0));
  return cg_select(c, is_some, mean, zero(c));
}

// Sums about the mean: with e = pivot - mean, x - mean is (x - pivot) + e. Squares that are infinite about the pivot stay so
// about the mean, where what e takes from them may be -infinity, too; NaN where an x is infinite, and so the sum of x.
static void sums_about(const Moments *m, V n_slots, V channel, V mean, V *out) {
  Cg *c = m->c;
  out[0] = out[1] = zero(c);
  for (Loop l = cg_carry(c, cg_i64(c, 0), n_slots, cg_i64(c, 1), out, 2); cg_next(&l);) {
    Slot s = load_slot(m, l.i, channel);
    V e = cg_fsub(c, s.part[PIVOT], mean), rest = cg_fma(c, s.part[COUNT], e, s.part[SUM]);
    V overflows = cg_fcmp(c, LLVMRealOEQ, s.part[SQUARES], cg_splat(c, cg_f32(c, INFINITY)));
    V infinite = cg_fadd(c, s.part[SQUARES], cg_fsub(c, s.part[SUM], s.part[SUM]));
    V squares = cg_fma(c, e, cg_fadd(c, s.part[SUM], rest), s.part[SQUARES]);
    out[0] = cg_fadd(c, out[0], rest), out[1] = cg_fadd(c, out[1], cg_select(c, overflows, infinite, squares));
  }
}

static void finish_vector(const Moments *m, V n_slots, V channel) {
  Cg *c = m->c;
  V result[3] = {mean_of(m, n_slots, channel)};
  sums_about(m, n_slots, channel, result[0], result + 1);
  V mask = cg_mask(c, cg_sub(c, m->channels, channel));
  for (uint32_t k = 0; k < 3; k++)
    if (cg_stored(c, ir_result(m->v, k))) cg_put_masked(c, result[k], cg_ptr(c, ir_result(m->v, k)), channel, mask);
}

void cg_moments_finish(Moments *m, V n_slots) {
  Cg *c = m->c;
  cg_wait_for_team(c);
  for (Loop l = cg_each_shared(c, cg_ceil_div_value(c, m->channels, c->t->vl), 1); cg_next(&l);)
    finish_vector(m, n_slots, cg_mul(c, l.i, cg_i64(c, c->t->vl)));
}

// ---- a kernel of its own
bool cg_emit_moments(Cg *c) {
  Moments m;
  Val v = {c->k->first}, x = ir_arg(c->f, v, 0);
  cg_moments_open(&m, c, v, c->scratch);
  if (cg_stored(c, x)) cg_moments_add_chunks(&m, cg_ptr(c, x));  // else it has no elements
  cg_moments_finish(&m, cg_moments_chunks_there(&m));
  return true;
}
