// Transforms of rows, as many side by side as a vector has lanes: lane l of every vector is of row l, so that stages
// of any radix are plain arithmetic, and the bits of a row do not depend on its neighbours.
//
//   rows [lanes, n]  transpose  points [m]  stages, in place  bins of points  pairs  bins  transpose  [lanes, 2 bins]
//
// n even: real points are m = n / 2 complex ones, x_2j + i x_(2j+1); their bins k and m - k make those of the row.
// n odd: m = n, imaginary parts 0. A stage of radix r makes r blocks of len / r points of a block of `len`: point
// p + k len / r is bin k of the points p + j len / r, turned by e^(-2 pi i p k / len). Each of these blocks goes through
// all later stages before the next one does, in L1. At the end bins are in the order of reversed digits (`place`).
// Back: the same steps transposed and in reverse order, real and imaginary parts exchanged in place of conjugates.
#include "codegen/fourier/fourier.h"

#include "codegen/emitters.h"
#include "codegen/lanes.h"

#include <math.h>

enum {
  MOST_STAGES = 16,
  MOST_FACTOR = 10,  // of a radix that is no prime
  BINS = 64          // that are made at a time
};

typedef struct {
  Cg *c;
  bool is_back, is_weighted, is_paired;  // is_paired: n is even
  int64_t n, m, bins;
  uint32_t n_stages, radix[MOST_STAGES];
  V points, pairs[2];  // vectors: both parts of each point; of BINS bins at the front, and of those at the end
  V runs, room;        // of rows: parts of BINS bins; points of a long radix, or NULL
  V x, y, row, live;   // rows; the first of those at hand, and how many there are
  V place;             // of each bin of m, i32: where the stages leave it
  V side, outer;       // {bins_first}: rows that lie behind each bin, whose matrix is at hand; else NULL
} Fourier;

// ---- tables of the module
static V table_of(Cg *c, V *element, int64_t n, LLVMTypeRef t) {
  V made = LLVMAddGlobal(c->mod, LLVMArrayType2(t, (uint64_t)n), "fourier");
  LLVMSetInitializer(made, LLVMConstArray2(t, element, (uint64_t)n));
  LLVMSetGlobalConstant(made, true);
  LLVMSetLinkage(made, LLVMPrivateLinkage);
  LLVMSetAlignment(made, TN_ALIGN);
  return made;
}

static double angle_of(int64_t j, int64_t n) { return 2 * 3.14159265358979323846 * (double)(j % n) / (double)n; }

static V *new_elements(Cg *c, int64_t n) { return rt_alloc(c->mem, (size_t)n * sizeof(V)); }

static V get_number(Cg *c, V table, V at) { return cg_splat(c, cg_get(c, c->f32, table, at)); }

// ---- points
static V at_point(const Fourier *t, V i, uint32_t part) {
  Cg *c = t->c;
  return cg_at(c, c->f32, t->points, cg_mul(c, cg_add(c, cg_add(c, i, i), cg_i64(c, part)), cg_vl(c)));
}

// Back, parts are exchanged.
static CgComplex get_point(const Fourier *t, V i) {
  Cg *c = t->c;
  return (CgComplex){cg_load(c, c->vf, at_point(t, i, t->is_back)), cg_load(c, c->vf, at_point(t, i, !t->is_back))};
}

static void put_point(const Fourier *t, V i, CgComplex z) {
  cg_store(t->c, z.re, at_point(t, i, t->is_back)), cg_store(t->c, z.im, at_point(t, i, !t->is_back));
}

// ---- stages
// e^(-2 pi i p k / len), k < r, of p from `first` to `end`
static V turns_of(const Fourier *t, int64_t first, int64_t end, uint32_t r, int64_t len) {
  Cg *c = t->c;
  int64_t n = 2 * r * (end - first);
  V *element = new_elements(c, n);
  for (int64_t i = 0; i < n; i += 2) {
    double angle = angle_of((first + i / 2 / r) * (i / 2 % r), len);
    element[i] = cg_f32(c, cos(angle)), element[i + 1] = cg_f32(c, -sin(angle));
  }
  return table_of(c, element, n, c->f32);
}

// turns NULL: none
static CgComplex turned(const Fourier *t, CgComplex z, V turns, V at) {
  Cg *c = t->c;
  if (!turns) return z;
  V i = cg_add(c, at, at);
  return cg_turn(c, z, get_number(c, turns, i), get_number(c, turns, cg_add(c, i, cg_i64(c, 1))));
}

// `first`: of r points that lie `apart`; at: of their turns
static void short_radix(const Fourier *t, uint32_t r, V first, int64_t apart, V turns, V at) {
  Cg *c = t->c;
  CgComplex z[MOST_CODELET];
  for (uint32_t k = 0; k < r; k++) {
    z[k] = get_point(t, cg_add(c, first, cg_i64(c, k * apart)));
    if (t->is_back && k) z[k] = turned(t, z[k], turns, cg_add(c, at, cg_i64(c, k)));
  }
  cg_dft(c, r, z);
  for (uint32_t k = 0; k < r; k++) {
    if (!t->is_back && k) z[k] = turned(t, z[k], turns, cg_add(c, at, cg_i64(c, k)));
    put_point(t, cg_add(c, first, cg_i64(c, k * apart)), z[k]);
  }
}

typedef struct {
  uint32_t r;
  int64_t apart;
  V first, turns, at, waves;  // waves: e^(-2 pi i j / r)
} Long;

// Bin k of a prime number of points, terms [from, to) of its sum. *index: k from modulo r
static CgComplex terms(const Fourier *t, const Long *l, V k, V from, V to, V *index) {
  Cg *c = t->c;
  V carry[] = {cg_zeros(c), cg_zeros(c), *index}, r = cg_i64(c, l->r);
  for (Loop j = cg_carry(c, from, to, cg_i64(c, 1), carry, 3); cg_next(&j);) {
    CgComplex z = get_point(t, cg_add(c, l->first, cg_mul(c, j.i, cg_i64(c, l->apart))));
    if (t->is_back) z = turned(t, z, l->turns, cg_add(c, l->at, j.i));
    z = turned(t, z, l->waves, carry[2]);
    V next = cg_add(c, carry[2], k);
    carry[0] = cg_fadd(c, carry[0], z.re), carry[1] = cg_fadd(c, carry[1], z.im);
    carry[2] = cg_select(c, cg_ge(c, next, r), cg_sub(c, next, r), next);
  }
  *index = carry[2];
  return (CgComplex){carry[0], carry[1]};
}

// A prime too large for registers: the sums as they stand, in private memory. Sums of few terms each keep errors small.
static void long_radix(const Fourier *t, uint32_t r, V first, int64_t apart, V turns, V at) {
  enum { TERMS = 32 };
  Cg *c = t->c;
  Long l = {r, apart, first, turns, at, turns_of(t, 1, 2, r, r)};
  Fourier room = *t;
  room.points = t->room;
  V zero = cg_i64(c, 0), n = cg_i64(c, r), step = cg_i64(c, TERMS);
  for (Loop k = cg_count(c, n); cg_next(&k);) {
    V carry[] = {cg_zeros(c), cg_zeros(c), zero};
    for (Loop j = cg_carry(c, zero, n, step, carry, 3); cg_next(&j);) {
      CgComplex z = terms(t, &l, k.i, j.i, cg_min(c, n, cg_add(c, j.i, step)), &carry[2]);
      carry[0] = cg_fadd(c, carry[0], z.re), carry[1] = cg_fadd(c, carry[1], z.im);
    }
    CgComplex z = {carry[0], carry[1]};
    put_point(&room, k.i, t->is_back ? z : turned(t, z, turns, cg_add(c, at, k.i)));
  }
  for (Loop k = cg_count(c, n); cg_next(&k);)
    put_point(t, cg_add(c, first, cg_mul(c, k.i, cg_i64(c, apart))), get_point(&room, k.i));
}

static void one_stage(const Fourier *t, uint32_t stage, V first, int64_t len) {
  Cg *c = t->c;
  uint32_t r = t->radix[stage];
  V turns = len > r ? turns_of(t, 0, len / r, r, len) : NULL;
  for (Loop p = cg_count(c, cg_i64(c, len / r)); cg_next(&p);)
    (r > MOST_CODELET ? long_radix : short_radix)(t, r, cg_add(c, first, p.i), len / r, turns,
                                                  cg_mul(c, p.i, cg_i64(c, r)));
}

// All stages from `stage` on, of the block of `len` points that begins at `first`
static void stages(const Fourier *t, uint32_t stage, V first, int64_t len) {
  Cg *c = t->c;
  if (stage == t->n_stages) return;
  uint32_t r = t->radix[stage];
  if (!t->is_back) one_stage(t, stage, first, len);
  if (stage + 1 < t->n_stages)
    for (Loop k = cg_count(c, cg_i64(c, r)); cg_next(&k);)
      stages(t, stage + 1, cg_add(c, first, cg_mul(c, k.i, cg_i64(c, len / r))), len / r);
  if (t->is_back) one_stage(t, stage, first, len);
}

static int64_t place_of(const Fourier *t, int64_t bin) {
  int64_t place = 0, len = t->m;
  bin %= t->m;
  for (uint32_t k = 0; k < t->n_stages; k++) len /= t->radix[k], place += bin % t->radix[k] * len, bin /= t->radix[k];
  return place;
}

static V places_of(const Fourier *t) {
  Cg *c = t->c;
  V *element = new_elements(c, t->m + 1);
  for (int64_t k = 0; k <= t->m; k++) element[k] = cg_i32(c, (int32_t)place_of(t, k));
  return table_of(c, element, t->m + 1, c->i32);
}

static V place(const Fourier *t, V bin) {
  Cg *c = t->c;
  return cg_zext(c, cg_get(c, c->i32, t->place, bin), c->i64);
}

// Short radices: several points of each stay in registers, and more stages cost little. Else a prime.
static void choose_radices(Fourier *t) {
  for (int64_t left = t->m, r; left > 1; left /= r) {
    for (r = MOST_FACTOR; r > 1 && left % r; r--) {}
    for (r = r > 1 ? r : MOST_FACTOR + 1; left % r; r++) {}
    t->radix[t->n_stages++] = (uint32_t)r;
  }
}

// ---- bins: of pairs, those at the front and those at the end, `w` of each, in rows of `pairs`
static V at_pair(const Fourier *t, uint32_t side, V i, uint32_t part) {
  Cg *c = t->c;
  return cg_at(c, c->f32, t->pairs[side], cg_mul(c, cg_add(c, cg_add(c, i, i), cg_i64(c, part)), cg_vl(c)));
}

static double weight_of(const Fourier *t, int64_t bin) {
  if (!t->is_weighted) return 1;
  return (bin == 0 || 2 * bin == t->n ? 1 : 2) / (double)t->n;
}

// Half of e^(-2 pi i k / n) and half of 1, times the weight. Bin 0 of the way back is its own pair, and counts twice.
static V turns_of_bins(const Fourier *t) {
  Cg *c = t->c;
  int64_t n = t->is_paired ? t->m / 2 + 1 : t->bins;
  V *element = new_elements(c, 3 * n);
  for (int64_t k = 0; k < n; k++) {
    double half = weight_of(t, k) * (!t->is_paired || (t->is_back && k == 0) ? 1 : 0.5);
    element[3 * k] = cg_f32(c, half), element[3 * k + 1] = cg_f32(c, half * cos(angle_of(k, t->n)));
    element[3 * k + 2] = cg_f32(c, -half * sin(angle_of(k, t->n)));
  }
  return table_of(c, element, 3 * n, c->f32);
}

typedef struct {
  V i, last;       // rows of `pairs`: of bin k, and of bin m - k
  V point, other;  // where they are
  V half, re, im;
} Pair;

static void split_pair(const Fourier *t, const Pair *p) {
  Cg *c = t->c;
  CgComplex a = get_point(t, p->point);
  if (!t->is_paired) {
    cg_store(c, cg_fmul(c, a.re, p->half), at_pair(t, 0, p->i, 0));
    cg_store(c, cg_fmul(c, a.im, p->half), at_pair(t, 0, p->i, 1));
    return;
  }
  CgComplex b = get_point(t, p->other), even = {cg_fadd(c, a.re, b.re), cg_fsub(c, a.im, b.im)};
  CgComplex odd = cg_turn(c, (CgComplex){cg_fadd(c, a.im, b.im), cg_fsub(c, b.re, a.re)}, p->re, p->im);
  cg_store(c, cg_fma(c, even.re, p->half, odd.re), at_pair(t, 0, p->i, 0));
  cg_store(c, cg_fma(c, even.im, p->half, odd.im), at_pair(t, 0, p->i, 1));
  cg_store(c, cg_fma(c, even.re, p->half, cg_fneg(c, odd.re)), at_pair(t, 1, p->last, 0));
  cg_store(c, cg_fma(c, even.im, cg_fneg(c, p->half), odd.im), at_pair(t, 1, p->last, 1));
}

static CgComplex get_pair(const Fourier *t, uint32_t side, V i) {
  Cg *c = t->c;
  return (CgComplex){cg_load(c, c->vf, at_pair(t, side, i, 0)), cg_load(c, c->vf, at_pair(t, side, i, 1))};
}

static void put_parts(const Fourier *t, V i, V re, V im) {
  cg_store(t->c, re, at_point(t, i, 0)), cg_store(t->c, im, at_point(t, i, 1));
}

static void join_pair(const Fourier *t, const Pair *p) {
  Cg *c = t->c;
  CgComplex a = get_pair(t, 0, p->i);
  if (!t->is_paired) {
    put_parts(t, p->point, cg_fmul(c, a.re, p->half), cg_fmul(c, a.im, p->half));
    return;
  }
  CgComplex b = get_pair(t, 1, p->last);
  V even_re = cg_fmul(c, p->half, cg_fadd(c, a.re, b.re)), even_im = cg_fmul(c, p->half, cg_fsub(c, a.im, b.im));
  CgComplex odd = cg_turn(c, (CgComplex){cg_fsub(c, a.re, b.re), cg_fadd(c, a.im, b.im)}, p->re, cg_fneg(c, p->im));
  put_parts(t, p->point, cg_fsub(c, even_re, odd.im), cg_fadd(c, even_im, odd.re));
  put_parts(t, p->other, cg_fadd(c, even_re, odd.im), cg_fsub(c, odd.re, even_im));
}

// Bins [first, first + w), or those that mirror them: from rows in memory to `pairs`
static void read_bins(const Fourier *t, uint32_t side, V at, V ld, int64_t w) {
  Cg *c = t->c;
  V width = cg_i64(c, 2 * w), vl = cg_vl(c);
  for (Loop l = cg_count_by(c, width, vl); cg_next(&l);)
    cg_transpose_block(c, cg_at(c, c->f32, at, l.i), ld, t->live, cg_min(c, vl, cg_sub(c, width, l.i)),
                       cg_row(c, t->pairs[side], l.i, vl), vl);
}

// .. and back. Where rows lie a multiple of 4 KiB apart, a vector of each in turn is slow, since all of them share a set
// of L1: whole runs of a row are written (docs/experiments/121-fourier-transforms-of-rows.md).
static void write_bins(const Fourier *t, uint32_t side, V at, V ld, int64_t w) {
  Cg *c = t->c;
  V width = cg_i64(c, 2 * w), vl = cg_vl(c), run = cg_i64(c, 2 * BINS);
  for (Loop l = cg_count_by(c, width, vl); cg_next(&l);)
    cg_transpose_block(c, cg_row(c, t->pairs[side], l.i, vl), vl, vl, vl, cg_at(c, c->f32, t->runs, l.i), run);
  for (Loop l = cg_count(c, t->live); cg_next(&l);)
    cg_copy_run(c, DT_F32, cg_row(c, at, l.i, ld), cg_row(c, t->runs, l.i, run), width);
}

// {bins_first}: the lanes of a bin lie behind each other, real parts and imaginary parts by turns.
static void move_lanes(const Fourier *t, uint32_t side, V bin, int64_t w) {
  Cg *c = t->c;
  V n = cg_add(c, t->live, t->live), zero = cg_i64(c, 0), vl = cg_vl(c);
  V row = cg_sub(c, t->row, cg_mul(c, t->outer, t->side)), rest = cg_max(c, zero, cg_sub(c, n, vl));
  for (Loop l = cg_count(c, cg_i64(c, w)); cg_next(&l);) {
    V all = cg_index(c, t->outer, cg_i64(c, t->bins), cg_add(c, bin, l.i)), at = cg_index(c, all, t->side, row);
    V pair = cg_at(c, c->f32, t->is_back ? t->x : t->y, cg_add(c, at, at));
    if (!t->is_back) {
      CgComplex z = get_pair(t, side, l.i);
      cg_store_wide(c, cg_vectors_by_turns(c, (V[]){z.re, z.im}, 2), 2, pair, zero, zero, n);
      continue;
    }
    V half[] = {cg_get_masked(c, c->vf, pair, zero, cg_mask(c, n)),
                cg_get_masked(c, c->vf, pair, vl, cg_mask(c, rest))};
    V wide = cg_join_vectors(c, half, 2);
    cg_store(c, cg_every_lane(c, wide, 0, 2), at_pair(t, side, l.i, 0));
    cg_store(c, cg_every_lane(c, wide, 1, 2), at_pair(t, side, l.i, 1));
  }
}

static void move_bins(const Fourier *t, V first, int64_t w) {
  Cg *c = t->c;
  V ld = cg_i64(c, 2 * t->bins);
  for (uint32_t side = 0; side < (t->is_paired ? 2u : 1u); side++) {
    V bin = side ? cg_sub(c, cg_i64(c, t->m - w + 1), first) : first;
    if (t->side) {
      move_lanes(t, side, bin, w);
      continue;
    }
    V at = cg_cell(c, t->is_back ? t->x : t->y, t->row, ld, cg_add(c, bin, bin));
    (t->is_back ? read_bins : write_bins)(t, side, at, ld, w);
  }
}

// Bins 0 and n / 2 have no imaginary part, of points that are not finite either; where one is given it does not count.
static void clear_ends(const Fourier *t, V first, int64_t w) {
  Cg *c = t->c;
  for (If ends = cg_when(c, cg_eq(c, first, cg_i64(c, 0))); cg_then(&ends);) {
    cg_store(c, cg_zeros(c), at_pair(t, 0, cg_i64(c, 0), 1));
    if (t->is_paired) cg_store(c, cg_zeros(c), at_pair(t, 1, cg_i64(c, w - 1), 1));
  }
}

static void block_of_bins(const Fourier *t, V turns, V first, int64_t w) {
  Cg *c = t->c;
  if (t->is_back) move_bins(t, first, w);
  if (t->is_back) clear_ends(t, first, w);
  for (Loop l = cg_count(c, cg_i64(c, w)); cg_next(&l);) {
    V k = cg_add(c, first, l.i), at = cg_mul(c, k, cg_i64(c, 3));
    Pair p = {.i = l.i, .last = cg_sub(c, cg_i64(c, w - 1), l.i), .point = place(t, k)};
    p.half = get_number(c, turns, at);
    if (t->is_paired) {
      p.other = place(t, cg_sub(c, cg_i64(c, t->m), k));
      p.re = get_number(c, turns, cg_add(c, at, cg_i64(c, 1))),
      p.im = get_number(c, turns, cg_add(c, at, cg_i64(c, 2)));
    }
    (t->is_back ? join_pair : split_pair)(t, &p);
  }
  if (t->is_back) return;
  clear_ends(t, first, w);
  move_bins(t, first, w);
}

static void all_bins(const Fourier *t, V turns) {
  Cg *c = t->c;
  int64_t n = t->is_paired ? t->m / 2 + 1 : t->bins, w = BINS, rest = n % w;
  for (Loop l = cg_count_by(c, cg_i64(c, n - rest), cg_i64(c, w)); cg_next(&l);) block_of_bins(t, turns, l.i, w);
  if (rest) block_of_bins(t, turns, cg_i64(c, n - rest), rest);
  if (!t->is_back || t->is_paired) return;
  for (Loop l = cg_each(c, cg_i64(c, n), cg_i64(c, t->m)); cg_next(&l);)
    put_parts(t, place(t, l.i), cg_zeros(c), cg_zeros(c));
}

// ---- points of rows
static V apart(const Fourier *t) { return cg_i64(t->c, (int64_t)t->c->t->vl * (t->is_paired ? 1 : 2)); }

static void load_points(const Fourier *t) {
  Cg *c = t->c;
  V n = cg_i64(c, t->n);
  for (Loop l = cg_count_by(c, n, cg_vl(c)); cg_next(&l);)
    cg_transpose_block(c, cg_cell(c, t->x, t->row, n, l.i), n, t->live, cg_min(c, cg_vl(c), cg_sub(c, n, l.i)),
                       cg_row(c, t->points, l.i, apart(t)), apart(t));
  if (!t->is_paired)
    for (Loop l = cg_count(c, n); cg_next(&l);) cg_store(c, cg_zeros(c), at_point(t, l.i, 1));
}

static void store_points(const Fourier *t) {
  Cg *c = t->c;
  V n = cg_i64(c, t->n);
  cg_store_transposed(c, t->points, apart(t), n, t->live, cg_row(c, t->y, t->row, n), n);
}

static Fourier open_fourier(Cg *c, Val v) {
  const Fn *f = c->f;
  Fourier t = {.c = c, .is_back = ir_ins(f, v)->op == OP_rfft_grad, .is_weighted = ir_attr(f, v, KEY_weighted) != NULL};
  Shape rows = ir_ins(f, t.is_back ? v : ir_arg(f, v, 0))->shape;
  t.n = cg_axis_bound(f->prog, rows, ir_rank(f->prog, rows) - 1, ir_rank(f->prog, rows));
  t.is_paired = t.n % 2 == 0, t.m = t.is_paired ? t.n / 2 : t.n, t.bins = t.n / 2 + 1;
  choose_radices(&t);
  t.x = cg_ptr(c, ir_arg(f, v, 0)), t.y = cg_ptr(c, v);
  uint32_t largest = 0, vl = c->t->vl;
  for (uint32_t k = 0; k < t.n_stages; k++)
    if (t.radix[k] > largest) largest = t.radix[k];
  t.points = cg_worker_block(c, (t.is_paired ? 1 : 2) * cg_round_up(t.n, vl) * vl);
  if (largest > MOST_CODELET) t.room = cg_worker_block(c, (int64_t)2 * largest * vl);
  for (uint32_t k = 0; k < 2; k++) t.pairs[k] = cg_worker_block(c, 2 * BINS * vl);
  t.runs = cg_worker_block(c, 2 * BINS * vl);
  t.place = places_of(&t);
  return t;
}

static void transform(Fourier *t, V turns, V row, V end) {
  Cg *c = t->c;
  t->row = row, t->live = cg_min(c, cg_vl(c), cg_sub(c, end, row));
  if (t->is_back) all_bins(t, turns);
  else load_points(t);
  stages(t, 0, cg_i64(c, 0), t->m);
  if (t->is_back) store_points(t);
  else all_bins(t, turns);
}

bool cg_emit_fourier(Cg *c) {
  Val v = {c->k->first};
  Fourier t = open_fourier(c, v);
  Shape s = ir_ins(c->f, t.is_back ? v : ir_arg(c->f, v, 0))->shape;
  uint32_t rank = ir_rank(c->f->prog, s);
  V lo, hi, turns = turns_of_bins(&t), vl = cg_vl(c);
  if (!ir_attr(c->f, v, KEY_bins_first)) {
    cg_share(c, cg_axis_product(c, s, 0, rank - 1), c->t->vl, &lo, &hi);
    for (Loop l = cg_each_by(c, lo, hi, vl); cg_next(&l);) transform(&t, turns, l.i, hi);
    return true;
  }
  t.side = cg_axis_product(c, s, rank - 2, rank - 1);
  V per_matrix = cg_ceil_div_value(c, t.side, c->t->vl);
  for (Loop l = cg_each_shared(c, cg_mul(c, per_matrix, cg_axis_product(c, s, 0, rank - 2)), 1); cg_next(&l);) {
    t.outer = cg_div(c, l.i, per_matrix);
    V first = cg_mul(c, t.outer, t.side), in_matrix = cg_sub(c, l.i, cg_mul(c, t.outer, per_matrix));
    transform(&t, turns, cg_index(c, in_matrix, vl, first), cg_add(c, first, t.side));
  }
  return true;
}
