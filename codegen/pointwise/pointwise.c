// Pointwise groups: one loop nest over one iteration space; intermediate values stay in registers.
//
//   %h = mul %x, %w        for each row, for each vector of vl elements:
//   %y = tanh %h              y = tanh(x * w)          (%h has no buffer: it is not stored)
//   %p = permute %q           p = q loaded with permuted strides
#include "codegen/pointwise/pointwise.h"
#include "codegen/emitters.h"
#include "codegen/math/primitives.h"
#include "codegen/span.h"
#include "ir/storage.h"

enum { SMALL = 4096, GRAIN = 2048 };
enum { RANDOM_WORK = 8 };  // cost of an element with a random number, in elements without
// Operations of a vector (cg_primitive_cost) from which on, and up to which, several are computed at once.
enum { LONG_CHAIN = 15, TOO_LONG = 100 };
enum { CACHES = 2, AT_ONCE = 4 };  // a result of so many LLCs is stored past them, so many vectors at once

// ---- loops
int64_t cg_pointwise_axis_bound(const Pointwise *p, uint32_t g) {
  int64_t n = 1;
  uint32_t end = g + 1 < p->n_loop ? p->last_of[g] + 1 : p->rank;
  for (uint32_t j = g ? p->last_of[g - 1] + 1 : 0; j < end; j++) n *= ir_dim_bound(p->c->f->prog, p->dim[j]);
  return n;
}

static int64_t row_bound(const Pointwise *p) { return cg_pointwise_axis_bound(p, p->n_loop - 1); }

static bool is_contiguous(const Pointwise *p, const Access *a) {
  V stride = a->stride[p->n_loop - 1];
  return a->empty || (!a->partial && !a->index.i && (cg_is_int(stride, 0) || cg_is_int(stride, 1)));
}

static bool are_contiguous(const Pointwise *p) {
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (!is_contiguous(p, &p->acc[k])) return false;
  return true;
}

// Of a vector, in instructions; random numbers, which fill the registers as they are, cost too much.
static uint32_t cost_of(const Pointwise *p) {
  uint32_t cost = 0;
  for (uint32_t k = p->from; k < p->to; k++) {
    Op op = (Op)p->c->f->ins[p->c->k->first + k].op;
    if (ir_ops[op].flags & RANDOM) return UINT32_MAX;
    cost += cg_primitive_cost(op);
  }
  return cost;
}

// Where a vector is a long chain of instructions and the CPU looks ahead by few vectors, several are computed at once: as
// one of more lanes, whose instructions LLVM splits one by one, so that chains interleave and constants are loaded once for all
// of them.
static uint32_t vectors_at_once(const Pointwise *p) {
  const Cg *c = p->c;
  uint32_t n = c->t->vectors_at_once, cost = cost_of(p);
  if (n < 2 || p->lanes != c->t->vl || row_bound(p) < (int64_t)n * p->lanes || !are_contiguous(p)) return 1;
  return cost >= LONG_CHAIN && cost <= TOO_LONG ? n : 1;
}

// As many of the elements [lo, hi) of one row as fill such turns; the first one that is left.
static V emit_at_once(Pointwise *p, V row, V lo, V hi, uint32_t n) {
  Cg *c = p->c;
  uint32_t lanes = p->lanes;
  V turn = cg_i64(c, (int64_t)n * lanes), end = cg_add(c, lo, cg_multiple(c, cg_sub(c, hi, lo), turn));
  p->lanes = n * lanes;
  for (Loop l = cg_each_by(c, lo, end, turn); cg_next(&l);) cg_pointwise_vector(p, row, l.i, NULL);
  p->lanes = lanes;
  return end;
}

// ---- results that no cache holds
// The only value that the kernel stores, in a buffer that it does not read; none.
static Val stored_alone(const Pointwise *p) {
  Cg *c = p->c;
  const Fn *f = c->f;
  Val v = {0};
  for (uint32_t k = p->from; k < p->to; k++) {
    Val own = {c->k->first + k};
    if (!cg_stored(c, own)) continue;
    if (!ir_none(v) || (ir_ops[f->ins[own.i].op].flags & WRITES) || f->ins[own.i].dtype != DT_F32) return (Val){0};
    v = own;
  }
  for (uint32_t k = 0; k < p->n_acc; k++)
    if (!ir_none(v) && f->buf_of[v.i] && f->buf_of[ir_view_base(f, p->acc[k].v).i] == f->buf_of[v.i]) return (Val){0};
  return v;
}

static bool exceeds_caches(const Pointwise *p) {
  const Cg *c = p->c;
  int64_t bytes = ir_shape_bound(c->f->prog, p->shape) * 4;
  if (!c->t->stores_past_caches || bytes < CACHES * c->t->facts.llc_bytes || p->n_loop > 1 || p->seg.n) return false;
  return are_contiguous(p) && p->lanes == c->t->vl;
}

// A load of 512 bits waits for an earlier store at the same place of another page, as where the result begins a line or two behind an
// operand; two of 256 bits do not, and are never slower where the loop waits for memory.
static void halve_vectors(const Pointwise *p) {
  Cg *c = p->c;
  if (!c->t->halves_vectors || p->lanes != c->t->vl || p->seg.n || !are_contiguous(p) || exceeds_caches(p)) return;
  if (cost_of(p) < LONG_CHAIN) cg_halve_vectors(c);
}

// Elements from `lo` on, those before the first multiple of a vector's size as others; the first one that is left.
static V emit_past_caches(Pointwise *p, Val v, V row, V lo, V hi) {
  Cg *c = p->c;
  V at = LLVMBuildPtrToInt(c->b, cg_at(c, c->f32, cg_ptr(c, v), cg_add(c, row, lo)), c->i64, "");
  V before = cg_and(c, cg_sub(c, cg_i64(c, 0), LLVMBuildLShr(c->b, at, cg_i64(c, 2), "")), cg_i64(c, p->lanes - 1));
  V begin = cg_min(c, hi, cg_add(c, lo, before));
  for (If some = cg_when(c, cg_gt(c, before, cg_i64(c, 0))); cg_then(&some);)
    cg_pointwise_vector(p, row, lo, cg_mask(c, cg_sub(c, begin, lo)));
  p->stores_past_caches = true;
  V end = emit_at_once(p, row, begin, hi, AT_ONCE);
  p->stores_past_caches = false;
  cg_wait_for_stores(c);
  return end;
}

// Elements [lo, hi) of one row.
static void emit_span(Pointwise *p, V row, V lo, V hi) {
  uint32_t n = vectors_at_once(p);
  Val v = exceeds_caches(p) ? stored_alone(p) : (Val){0};
  if (!ir_none(v)) lo = emit_past_caches(p, v, row, lo, hi);
  if (n > 1) lo = emit_at_once(p, row, lo, hi, n);
  for (Span s = cg_span_guarded(p->c, lo, hi, p->lanes); cg_next_vector(&s);) cg_pointwise_vector(p, row, s.i, s.mask);
}

// The range of emit_rows: rows [lo, hi), elements [from, to) of each.
typedef struct {
  V lo, hi, from, to;
  V *index, row;  // current row: indices of its loop axes, its first element
} Share;

static bool is_whole_row(const Pointwise *p, const Share *s) {
  return cg_is_int(s->from, 0) && s->to == p->size[p->n_loop - 1];
}

// Segments along the vector axis: the part of a row in the current segment.
static void emit_segment_span(Pointwise *p, void *ctx) {
  Cg *c = p->c;
  Share *s = ctx;
  V lo = s->from, hi = s->to;
  cg_pointwise_enter_segment(p, s->index);
  if (p->seg.n && is_whole_row(p, s)) {
    lo = p->seg.begin, hi = p->seg.stop;
  } else if (p->seg.n) {
    lo = cg_max(c, lo, p->seg.begin);
    hi = cg_max(c, lo, cg_min(c, hi, p->seg.stop));
  }
  emit_span(p, s->row, lo, hi);
}

static void emit_row(Pointwise *p, Share *s, V number) {
  s->row = p->n_loop == 1 ? cg_i64(p->c, 0) : cg_mul(p->c, number, p->size[p->n_loop - 1]);
  cg_pointwise_enter(p, s->index);
  cg_pointwise_each_segment(p, emit_segment_span, s);
}

// Segments along an outer axis: the rows of the current segment. Work is split over the rows of all segments in order:
//
//   rows of segment 0 | rows of segment 1 | ..        lo and hi index this sequence
static void emit_segment_rows(Pointwise *p, void *ctx) {
  Cg *c = p->c;
  Share *s = ctx;
  uint32_t g = p->seg.loop;
  V others = cg_i64(c, 1), whole = p->size[g], size = cg_sub(c, p->seg.stop, p->seg.begin), zero = cg_i64(c, 0);
  for (uint32_t k = 0; k + 1 < p->n_loop; k++)
    if (k != g) others = cg_mul(c, others, p->size[k]);
  V before = cg_mul(c, others, p->seg.begin), n = cg_mul(c, others, size);
  for (Loop l = cg_each(c, cg_max(c, cg_sub(c, s->lo, before), zero), cg_min(c, cg_sub(c, s->hi, before), n));
       cg_next(&l);) {
    p->size[g] = size;
    cg_pointwise_split(p, l.i, s->index);
    p->size[g] = whole;
    s->index[g] = cg_add(c, s->index[g], p->seg.begin);
    V number = s->index[0];
    for (uint32_t k = 1; k + 1 < p->n_loop; k++) number = cg_index(c, number, p->size[k], s->index[k]);
    s->row = cg_mul(c, number, p->size[p->n_loop - 1]);
    cg_pointwise_enter(p, s->index);
    cg_pointwise_enter_segment(p, s->index);
    emit_span(p, s->row, s->from, s->to);
  }
}

static void emit_checked(Pointwise *p, V lo, V hi, V from, V to) {
  Cg *c = p->c;
  V index[MAX_RANK] = {NULL};
  Share s = {.lo = lo, .hi = hi, .from = from, .to = to, .index = index};
  if (p->n_loop == 1) {
    emit_row(p, &s, NULL);
    return;
  }
  if (p->seg.n && p->seg.loop + 1 < p->n_loop) {
    cg_pointwise_each_segment(p, emit_segment_rows, &s);
    return;
  }
  if (p->n_loop == 2) {
    for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
      index[0] = l.i;
      emit_row(p, &s, l.i);
    }
    return;
  }
  // Rows of one outer index follow each other without divisions.
  V last_axis = cg_max(c, p->size[p->n_loop - 2], cg_i64(c, 1)), first, last;
  for (Loop l = cg_each_row(c, lo, hi, last_axis, &first, &last); cg_next(&l);) {
    cg_pointwise_split_axes(p, l.i, p->n_loop - 2, index);
    for (Loop r = cg_each(c, first, last); cg_next(&r);) {
      index[p->n_loop - 2] = r.i;
      emit_row(p, &s, cg_index(c, l.i, last_axis, r.i));
    }
  }
}

static void emit_rows(Pointwise *p, V lo, V hi, V from, V to) {
  V fine = cg_pointwise_check_rows(p, lo, hi, from, to);
  for (If good = cg_when(p->c, fine); cg_then(&good);) emit_checked(p, lo, hi, from, to);
}

// ---- transposed accesses
// An access with stride one or minus one along the last axis but one, and more along the vector axis, would need gathers:
//
//   %p = permute %q {perm=[1,0]}       q is loaded in tiles of vl x vl and transposed in registers; its rows stay
//                                      there, or are stored to a buffer and loaded one by one
enum { MAX_TILES = 4, TILES_AHEAD = 4, UNROLLED = 3 };  // UNROLLED: instructions of a kernel

static bool is_backward(const Pointwise *p, const Access *a) { return cg_is_int(a->stride[p->n_loop - 2], -1); }

static bool is_transposed(const Pointwise *p, const Access *a) {
  if (a->empty || a->partial || ir_ins(p->c->f, a->v)->dtype != DT_F32) return false;
  V last = a->stride[p->n_loop - 1];
  if (cg_is_int(last, 1) || cg_is_int(last, 0)) return false;
  return cg_is_int(a->stride[p->n_loop - 2], 1) || is_backward(p, a);
}

// Allocates the buffer of each transposed access.
static bool plan_tiles(Pointwise *p) {
  Cg *c = p->c;
  uint32_t n = 0, vl = c->t->vl;
  if (p->n_loop < 2 || p->seg.n || vl < 8 || p->lanes != vl || ir_shape_bound(c->f->prog, p->shape) < SMALL)
    return false;
  if (row_bound(p) < vl / 2 || cg_pointwise_axis_bound(p, p->n_loop - 2) < vl / 2) return false;
  for (uint32_t k = 0; k < p->n_acc && n < MAX_TILES; k++) {
    if (!is_transposed(p, &p->acc[k])) continue;
    p->acc[k].tile = cg_block(c, c->f32, vl * vl);
    p->acc[k].square = rt_alloc(c->mem, vl * sizeof(V));
    n++;
  }
  return n > 0;
}

static int64_t tiles_along(const Pointwise *p) { return cg_ceil_div(row_bound(p), p->c->t->vl); }

// Are the rows of a whole tile unrolled, so that they stay in registers? They are where little is computed of them.
static bool unrolls(const Pointwise *p) { return p->c->k->n <= UNROLLED; }

// The distance to what is prefetched, in elements: some tiles further along the rows, or, where these are short,
// the same columns of a later band. It goes to L2: columns with a stride of a power of two share few sets of L1.
static V ahead_of(const Pointwise *p, const Access *a) {
  Cg *c = p->c;
  int64_t tiles = tiles_along(p), vl = c->t->vl;
  if (tiles >= 2 * TILES_AHEAD) return cg_mul(c, a->stride[p->n_loop - 1], cg_i64(c, TILES_AHEAD * vl));
  return cg_i64(c, cg_ceil_div(TILES_AHEAD, tiles) * vl);
}

// n_rows x n columns of the tile whose first element is `at`; each of its columns is contiguous in memory, and ends there if
// it is backward: the rows are then made in the opposite order.
static void load_square(Pointwise *p, const Access *a, V at, V n_rows, V n, bool whole) {
  Cg *c = p->c;
  uint32_t vl = c->t->vl;
  V ahead = ahead_of(p, a), skipped = NULL;
  if (is_backward(p, a)) {
    at = cg_sub(c, at, cg_i64(c, vl - 1));
    skipped = cg_mask(c, cg_sub(c, cg_vl(c), n_rows));
  }
  for (uint32_t q = 0; q < vl; q++) {
    V from = cg_add(c, at, cg_mul(c, cg_i64(c, q), a->stride[p->n_loop - 1]));
    V ptr = cg_at_any(c, c->f32, cg_ptr(c, a->v), from);
    V some = cg_lt(c, cg_i64(c, q), n);
    V lanes = whole ? NULL : cg_mask(c, cg_select(c, some, skipped ? cg_vl(c) : n_rows, cg_i64(c, 0)));
    if (lanes && skipped) lanes = cg_and(c, lanes, cg_not(c, skipped));
    if (whole) cg_prefetch_l2(c, cg_at_any(c, c->f32, cg_ptr(c, a->v), cg_add(c, from, ahead)));
    a->square[q] = whole ? cg_load(c, c->vf, ptr) : cg_load_masked(c, c->vf, ptr, lanes);
  }
  cg_transpose(c, a->square);
  for (uint32_t q = 0; skipped && q < vl / 2; q++) {
    V row = a->square[q];
    a->square[q] = a->square[vl - 1 - q], a->square[vl - 1 - q] = row;
  }
}

// A tile of a band, at `column` of its rows.
typedef struct {
  V row, first, *index;  // the band's first row: its number, and on its axis; indices of its loop axes
  V column, n_rows, n;
} Tile;

static void load_squares(Pointwise *p, const Tile *t, bool whole) {
  Cg *c = p->c;
  for (uint32_t k = 0; k < p->n_acc; k++) {
    Access *a = &p->acc[k];
    if (!a->tile) continue;
    V at = cg_add(c, a->base, cg_mul(c, t->column, a->stride[p->n_loop - 1]));
    for (uint32_t g = 0; g + 1 < p->n_loop; g++) at = cg_add(c, at, cg_mul(c, t->index[g], a->stride[g]));
    load_square(p, a, at, t->n_rows, t->n, whole);
  }
}

static void emit_tile_row(Pointwise *p, const Tile *t, V r, V mask) {
  Cg *c = p->c;
  t->index[p->n_loop - 2] = cg_add(c, t->first, r);
  cg_pointwise_enter(p, t->index);
  cg_pointwise_vector(p, cg_mul(c, cg_add(c, t->row, r), p->size[p->n_loop - 1]), t->column, mask);
  t->index[p->n_loop - 2] = t->first;
}

static void emit_unrolled(Pointwise *p, const Tile *t) {
  p->is_unrolled = true;
  for (p->square_row = 0; p->square_row < p->c->t->vl; p->square_row++)
    emit_tile_row(p, t, cg_i64(p->c, p->square_row), NULL);
  p->is_unrolled = false;
}

static void store_squares(Pointwise *p) {
  Cg *c = p->c;
  for (uint32_t k = 0; k < p->n_acc; k++)
    for (uint32_t q = 0; p->acc[k].tile && q < c->t->vl; q++)
      cg_put(c, p->acc[k].square[q], p->acc[k].tile, cg_i64(c, (int64_t)q * c->t->vl));
}

static void emit_stored(Pointwise *p, const Tile *t) {
  Cg *c = p->c;
  V mask = cg_mask(c, t->n);
  for (Loop r = cg_count(c, t->n_rows); cg_next(&r);) {
    p->tile_row = r.i;
    emit_tile_row(p, t, r.i, mask);
  }
}

// vl rows from `row` on, all with the same outer indices.
static void emit_band(Pointwise *p, V row, V *index, V n_rows) {
  Cg *c = p->c;
  V vl = cg_vl(c), width = p->size[p->n_loop - 1];
  for (Loop l = cg_count_by(c, width, vl); cg_next(&l);) {
    Tile t = {row, index[p->n_loop - 2], index, l.i, n_rows, cg_min(c, vl, cg_sub(c, width, l.i))};
    V all = cg_and(c, cg_eq(c, t.n, vl), cg_eq(c, n_rows, vl));
    for (If s = cg_either(c, all); cg_then(&s);) {
      load_squares(p, &t, s.is_true);
      if (s.is_true && unrolls(p)) {
        emit_unrolled(p, &t);
        continue;
      }
      store_squares(p);
      if (unrolls(p)) emit_stored(p, &t);
    }
    if (!unrolls(p)) emit_stored(p, &t);
  }
}

static void emit_tiles(Pointwise *p) {
  Cg *c = p->c;
  V index[MAX_RANK] = {NULL}, vl = cg_vl(c), height = p->size[p->n_loop - 2], outer = cg_i64(c, 1);
  for (uint32_t g = 0; g + 2 < p->n_loop; g++) outer = cg_mul(c, outer, p->size[g]);
  V bands = cg_div(c, cg_add(c, height, cg_i64(c, c->t->vl - 1)), vl), zero = cg_i64(c, 0);
  V fine = cg_pointwise_check_rows(p, zero, cg_mul(c, outer, height), zero, p->size[p->n_loop - 1]);
  V n = fine ? cg_select(c, fine, cg_mul(c, outer, bands), zero) : cg_mul(c, outer, bands);
  for (Loop l = cg_each_shared(c, n, 1); cg_next(&l);) {
    V which = LLVMBuildUDiv(c->b, l.i, bands, ""), band = cg_rem(c, l.i, bands);
    V first = cg_mul(c, band, vl), row = cg_index(c, which, height, first);
    cg_pointwise_split(p, row, index);
    emit_band(p, row, index, cg_min(c, vl, cg_sub(c, height, first)));
  }
}

static int64_t work_of(const Pointwise *p) {
  int64_t each = 1;
  for (uint32_t k = 0; k < p->c->k->n; k++)
    if (ir_ops[p->c->f->ins[p->c->k->first + k].op].flags & RANDOM) each += RANDOM_WORK;
  return each * ir_shape_bound(p->c->f->prog, p->shape);
}

static void emit_shares(Pointwise *p) {
  Cg *c = p->c;
  int64_t all = ir_shape_bound(c->f->prog, p->shape), row = row_bound(p);
  V rows = cg_i64(c, 1), zero = cg_i64(c, 0), inner = p->size[p->n_loop - 1], lo, hi;
  for (uint32_t g = 0; g + 1 < p->n_loop; g++) rows = cg_mul(c, rows, p->size[g]);
  if (work_of(p) < SMALL) {
    for (If s = cg_when(c, cg_first_worker(c)); cg_then(&s);) emit_rows(p, zero, rows, zero, inner);
  } else if (p->n_loop == 1 || all / row < 16) {  // long rows: each is split among the workers
    cg_share(c, inner, GRAIN, &lo, &hi);
    emit_rows(p, zero, rows, lo, hi);
  } else {
    cg_share(c, rows, row < GRAIN ? GRAIN / (row ? row : 1) : 1, &lo, &hi);
    emit_rows(p, lo, hi, zero, inner);
  }
}

// A range that the run gives: processes compute parts.
static bool emit_wanted(Pointwise *p) {
  Cg *c = p->c;
  V lo, hi, from, to;
  if (p->n_loop != 1 || p->seg.n)
    return rt_text_add(c->why, "elements of a range do not lie one behind the other in all operands"), false;
  cg_range(c, c->k->wanted, &lo, &hi);
  cg_share(c, cg_sub(c, hi, lo), GRAIN, &from, &to);
  emit_rows(p, NULL, NULL, cg_add(c, lo, from), cg_add(c, lo, to));
  return true;
}

bool cg_emit_pointwise(Cg *c) {
  if (cg_is_run_copy(c)) return cg_emit_concat(c);
  Pointwise p = {.c = c, .to = c->k->n};
  if (!cg_pointwise_collect(&p)) return false;
  if (ir_shape_bound(c->f->prog, p.shape) == 0) {
    cg_pointwise_check_empty(&p);
    return true;
  }
  cg_pointwise_merge(&p);
  bool partial = p.seg.n > 0;
  for (uint32_t k = 0; k < p.n_acc; k++) partial |= p.acc[k].partial;
  p.lanes = cg_is_int(cg_numel(c, p.shape), 1) && !partial ? 1 : c->t->vl;
  halve_vectors(&p);
  if (!ir_none(c->k->wanted)) return emit_wanted(&p);
  for (If good = cg_when(c, p.in_range); cg_then(&good);)
    if (plan_tiles(&p)) emit_tiles(&p);
    else if (cg_pointwise_plan_short_rows(&p)) cg_pointwise_emit_short_rows(&p);
    else emit_shares(&p);
  return true;
}
