// Op moments: its sums, its kernel where no product makes x (moments.h).
#include "codegen/reduce/moments.h"
#include "codegen/emitters.h"
#include "codegen/reduce/cascade.h"
#include "codegen/reduce/column_sum.h"

#include <math.h>
#include <stdio.h>

typedef LLVMValueRef V;

enum { CHAINS = 4 };
enum { PIVOT, SUM, SQUARES, COUNT, N_SUMS };  // of a slot: its pivot; of x less that; of the squares of that; rows

// ---- the plan: by bounds alone
static Shape shape_of_x(const Fn *f, Val v) { return ir_ins(f, ir_arg(f, v, 0))->shape; }

int64_t cg_moments_chunks(const Fn *f, Val v) { return cg_column_chunks(f->prog, shape_of_x(f, v)); }

int64_t cg_moments_slot_bytes(const Fn *f, Val v, int64_t n) {
  return 4 * N_SUMS * cg_column_width(f->prog, shape_of_x(f, v)) * cg_larger(1, n);
}

void cg_moments_open(Moments *m, Cg *c, Val v, V scratch) {
  Shape s = shape_of_x(c->f, v);
  uint32_t rank = ir_rank(c->f->prog, s);
  *m = (Moments){.c = c, .v = v, .slots = scratch, .width = cg_column_width(c->f->prog, s), .rows = cg_i64(c, 1)};
  m->channels = cg_dim(c, ir_dim_at(c->f->prog, s, rank - 1));
  for (uint32_t k = 0; k + 1 < rank; k++) m->rows = cg_mul(c, m->rows, cg_dim(c, ir_dim_at(c->f->prog, s, k)));
}

// ---- one vector of channels: the sums over pixels
static V zero(Cg *c) { return LLVMConstNull(c->vf); }
static V sub(Cg *c, V a, V b) { return LLVMBuildFSub(c->b, a, b, ""); }
static V add(Cg *c, V a, V b) { return LLVMBuildFAdd(c->b, a, b, ""); }

typedef struct {
  int64_t width;
  bool ragged;  // channels may be no whole number of vectors
} Spec;

enum { P_FROM, P_ROWS, P_ROW, P_COLUMNS, P_COLUMN, P_CHANNELS, P_SLOT, P_FIRST, N_PARAMS };

typedef struct {
  V from, mask, pivot;
} Lanes;

static V load(Cg *c, const Lanes *l, V offset) {
  V at = cg_at(c, c->f32, l->from, offset);
  return l->mask ? cg_load_masked(c, c->vf, at, l->mask) : cg_load(c, c->vf, at);
}

// Adds the pixel at `offset` to chain k.
static void take(Cg *c, const Lanes *l, V offset, V *chain, uint32_t k) {
  V x = sub(c, load(c, l, offset), l->pivot);
  chain[k] = add(c, chain[k], x);
  chain[CHAINS + k] = cg_fma(c, x, x, chain[CHAINS + k]);
}

// `sums`: chains of sums, then of squares. Pixels of a row by turns, so that no addition waits for the one before.
static void add_row(Cg *c, const Lanes *l, V row, V columns, V column, V *sums) {
  V whole = LLVMBuildAnd(c->b, columns, cg_i64(c, -CHAINS), ""), next[2 * CHAINS];
  Loop a;
  cg_loop_begin(c, &a, cg_i64(c, 0), whole, cg_i64(c, CHAINS), sums, 2 * CHAINS);
  for (uint32_t k = 0; k < 2 * CHAINS; k++) next[k] = a.carry[k];
  for (uint32_t k = 0; k < CHAINS; k++)
    take(c, l, cg_add(c, row, cg_mul(c, cg_add(c, a.i, cg_i64(c, k)), column)), next, k);
  cg_loop_end(c, &a, next);
  for (uint32_t k = 0; k < 2 * CHAINS; k++) sums[k] = a.out[k];
  Loop b;
  V left[] = {sums[0], sums[CHAINS]};
  cg_loop_begin(c, &b, whole, columns, cg_i64(c, 1), left, 2);
  for (uint32_t k = 0; k < 2 * CHAINS; k++) next[k] = zero(c);
  next[0] = b.carry[0], next[CHAINS] = b.carry[1];
  take(c, l, cg_add(c, row, cg_mul(c, b.i, column)), next, 0);
  cg_loop_end(c, &b, (V[]){next[0], next[CHAINS]});
  sums[0] = b.out[0], sums[CHAINS] = b.out[1];
}

static V joined(Cg *c, V *chain) { return add(c, add(c, chain[0], chain[1]), add(c, chain[2], chain[3])); }

static V part_of(Cg *c, V slot, int64_t width, uint32_t what, V channel) {
  return cg_at(c, c->f32, slot, cg_add(c, cg_i64(c, what * width), channel));
}

// Lanes behind the mask are other channels' own, which another worker may have: of a convolution's next group.
static V load_part(Cg *c, V at, V mask) { return mask ? cg_load_masked(c, c->vf, at, mask) : cg_load(c, c->vf, at); }

static void store_part(Cg *c, V value, V at, V mask) {
  if (mask) cg_store_masked(c, value, at, mask);
  else cg_store(c, value, at);
}

// By the pixels that are added first.
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
  V is_first = LLVMBuildICmp(c->b, LLVMIntNE, p[P_FIRST], cg_i32(c, 0), "");
  Lanes l = {.from = cg_at(c, c->f32, p[P_FROM], channel), .mask = mask};
  for (uint32_t k = 0; k < N_SUMS; k++) {
    at[k] = part_of(c, p[P_SLOT], s->width, k, channel);
    V first = k == PIVOT ? pivot_of(c, &l, p) : zero(c);
    old[k] = LLVMBuildSelect(c->b, is_first, first, load_part(c, at[k], mask), "");
  }
  l.pivot = old[PIVOT];
  for (uint32_t k = 0; k < 2 * CHAINS; k++) sums[k] = zero(c);
  Loop rows;
  V next[2 * CHAINS];
  cg_loop_begin(c, &rows, cg_i64(c, 0), p[P_ROWS], cg_i64(c, 1), sums, 2 * CHAINS);
  for (uint32_t k = 0; k < 2 * CHAINS; k++) next[k] = rows.carry[k];
  add_row(c, &l, cg_mul(c, rows.i, p[P_ROW]), p[P_COLUMNS], p[P_COLUMN], next);
  cg_loop_end(c, &rows, next);
  V n = LLVMBuildSIToFP(c->b, cg_mul(c, p[P_ROWS], p[P_COLUMNS]), c->f32, "");
  store_part(c, old[PIVOT], at[PIVOT], mask);
  store_part(c, add(c, old[SUM], joined(c, rows.out)), at[SUM], mask);
  store_part(c, add(c, old[SQUARES], joined(c, rows.out + CHAINS)), at[SQUARES], mask);
  store_part(c, add(c, old[COUNT], cg_splat(c, n)), at[COUNT], mask);
}

static void make_add(Cg *c, V fn, void *ctx) {
  const Spec *s = ctx;
  V p[N_PARAMS], vl = cg_i64(c, c->t->vl);
  for (uint32_t k = 0; k < N_PARAMS; k++) p[k] = LLVMGetParam(fn, k);
  V whole = LLVMBuildAnd(c->b, p[P_CHANNELS], cg_i64(c, -(int64_t)c->t->vl), "");
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), whole, vl, NULL, 0);
  add_vector(c, s, p, l.i, NULL);
  cg_loop_end(c, &l, NULL);
  if (s->ragged) {
    V left = cg_sub(c, p[P_CHANNELS], whole);
    If some;
    cg_if(c, &some, LLVMBuildICmp(c->b, LLVMIntNE, left, cg_i64(c, 0), ""));
    add_vector(c, s, p, whole, cg_mask(c, left));
    cg_endif(c, &some);
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
                     LLVMBuildZExt(c->b, p->is_first, c->i32, "")};
  LLVMTypeRef params[N_PARAMS];
  for (uint32_t k = 0; k < N_PARAMS; k++) params[k] = LLVMTypeOf(arg[k]);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), params, N_PARAMS, false);
  LLVMBuildCall2(c->b, type, cg_helper(c, name, type, make_add, &s), arg, N_PARAMS, "");
}

// ---- all rows, by chunks
V cg_moments_chunks_there(Moments *m) {
  return cg_ceil_div_value(m->c, m->rows, cg_column_chunk(m->c->f->prog, shape_of_x(m->c->f, m->v)));
}

void cg_moments_add_chunks(Moments *m, V x) {
  Cg *c = m->c;
  V lo, hi, chunk = cg_i64(c, cg_column_chunk(c->f->prog, shape_of_x(c->f, m->v)));
  cg_share(c, cg_moments_chunks_there(m), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
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
  cg_loop_end(c, &l, NULL);
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
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n_slots, cg_i64(c, 1), &sum, 1);
  Slot s = load_slot(m, l.i, channel);
  V next = add(c, l.carry[0], cg_fma(c, s.part[COUNT], sub(c, s.part[PIVOT], start), s.part[SUM]));
  cg_loop_end(c, &l, &next);
  V rows = cg_splat(c, LLVMBuildSIToFP(c->b, m->rows, c->f32, ""));
  V mean = add(c, start, LLVMBuildFDiv(c->b, l.out[0], rows, ""));
  V is_some = LLVMBuildICmp(c->b, LLVMIntSGT, m->rows, cg_i64(c, 0), "");
  return LLVMBuildSelect(c->b, is_some, mean, zero(c), "");
}

// Sums about the mean: with e = pivot - mean, x - mean is (x - pivot) + e. Squares that are infinite about the pivot stay so
// about the mean, where what e takes from them may be -infinity, too; NaN where an x is infinite, and so the sum of x.
static void sums_about(const Moments *m, V n_slots, V channel, V mean, V *out) {
  Cg *c = m->c;
  V init[] = {zero(c), zero(c)};
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), n_slots, cg_i64(c, 1), init, 2);
  Slot s = load_slot(m, l.i, channel);
  V e = sub(c, s.part[PIVOT], mean), rest = cg_fma(c, s.part[COUNT], e, s.part[SUM]);
  V overflows = LLVMBuildFCmp(c->b, LLVMRealOEQ, s.part[SQUARES], cg_splat(c, cg_f32(c, INFINITY)), "");
  V infinite = add(c, s.part[SQUARES], sub(c, s.part[SUM], s.part[SUM]));
  V squares = cg_fma(c, e, add(c, s.part[SUM], rest), s.part[SQUARES]);
  squares = LLVMBuildSelect(c->b, overflows, infinite, squares, "");
  cg_loop_end(c, &l, (V[]){add(c, l.carry[0], rest), add(c, l.carry[1], squares)});
  out[0] = l.out[0], out[1] = l.out[1];
}

static void finish_vector(const Moments *m, V n_slots, V channel) {
  Cg *c = m->c;
  V result[3] = {mean_of(m, n_slots, channel)};
  sums_about(m, n_slots, channel, result[0], result + 1);
  V mask = cg_mask(c, cg_sub(c, m->channels, channel));
  for (uint32_t k = 0; k < 3; k++)
    if (cg_stored(c, ir_result(m->v, k)))
      cg_store_masked(c, result[k], cg_at(c, c->f32, cg_ptr(c, ir_result(m->v, k)), channel), mask);
}

void cg_moments_finish(Moments *m, V n_slots) {
  Cg *c = m->c;
  V lo, hi;
  cg_wait_for_team(c);
  cg_share(c, cg_ceil_div_value(c, m->channels, c->t->vl), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  finish_vector(m, n_slots, cg_mul(c, l.i, cg_i64(c, c->t->vl)));
  cg_loop_end(c, &l, NULL);
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
