// Partial writes: slice_assign and index_assign. The result lies in operand 0's buffer, so that only the part is
// written; nothing else of the buffer is read or touched.
//
// Elements go to distinct places (slices), or each place has one worker (index_assign): the result does not
// depend on the number of workers.
#include "codegen/cg.h"
#include "codegen/emitters.h"
#include "codegen/pointwise/pointwise.h"
#include "ir/slice.h"

enum {
  SMALL = 4096,       // parts with fewer elements are written by worker 0
  CHUNK = 2048,       // elements that a worker copies at a time
  COLUMN_GRAIN = 16,  // rows narrower than WIDE would share cache lines among workers
  WIDE = 64
};

typedef struct {
  DType type;
  LLVMTypeRef elem;
} Kind;

static Kind kind_of(Cg *c, Val v) {
  DType t = (DType)ir_ins(c->f, v)->dtype;
  return (Kind){t, cg_elem_type(c, t)};
}

static int64_t bound_of(Cg *c, Val v) { return ir_shape_bound(c->f->prog, ir_ins(c->f, v)->shape); }

// This worker's share of n items; all of them are worker 0's where the part is small.
static void share_part(Cg *c, Val part, V n, int64_t grain, V *lo, V *hi) {
  if (bound_of(c, part) >= SMALL) {
    cg_share(c, n, grain, lo, hi);
    return;
  }
  *lo = cg_i64(c, 0);
  *hi = cg_select(c, cg_first_worker(c), n, cg_i64(c, 0));
}

// Product of the axes [from, to) of v.
static V product(Cg *c, Val v, uint32_t from, uint32_t to) {
  return cg_axis_product(c, ir_ins(c->f, v)->shape, from, to);
}

// The part is [outer][run] without gaps; its runs lie `stride` elements apart in the buffer, from first * inner on.
static void put_block(Cg *c, Val v, uint32_t axis, V first) {
  Val part = ir_operand(c->f, v, ARG_source);
  uint32_t rank = ir_rank(c->f->prog, ir_ins(c->f, v)->shape);
  Kind k = kind_of(c, v);
  V outer = product(c, v, 0, axis), inner = product(c, v, axis + 1, rank), run = product(c, part, axis, rank);
  V stride = product(c, v, axis, rank), skip = cg_mul(c, first, inner);
  V to = cg_ptr(c, v), from = cg_ptr(c, part), chunk = cg_i64(c, CHUNK), lo, hi;
  V n_chunks = cg_div(c, cg_add(c, run, cg_i64(c, CHUNK - 1)), chunk);
  share_part(c, part, cg_mul(c, outer, n_chunks), 1, &lo, &hi);
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V row = cg_div(c, l.i, n_chunks), at = cg_mul(c, cg_sub(c, l.i, cg_mul(c, row, n_chunks)), chunk);
    V out = cg_add(c, cg_index(c, row, stride, skip), at), in = cg_index(c, row, run, at);
    cg_copy_run(c, k.type, cg_at(c, k.elem, to, out), cg_at(c, k.elem, from, in), cg_min(c, cg_sub(c, run, at), chunk));
  }
}

// Element k of the part along the axis lies at first + k step of the buffer. A run of elements behind the axis is copied
// at once; with none behind it elements are copied one by one.
typedef struct {
  // Elements behind the axis; along it: of the buffer, of the part, where it begins, from one to the next
  V inner, size, count, first, step;
} Places;

static Places places_of(Cg *c, Val v, V first) {
  Slice s;
  ir_slice(c->f, v, &s);
  uint32_t rank = ir_rank(c->f->prog, ir_ins(c->f, v)->shape);
  V size = cg_dim(c, s.size), last = cg_sub(c, size, cg_i64(c, 1)), step = cg_dim(c, s.step);
  return (Places){.inner = product(c, v, s.axis + 1, rank),
                  .size = size,
                  .count = cg_dim(c, s.count),
                  .first = s.reverse ? cg_sub(c, last, first) : first,
                  .step = s.reverse ? cg_sub(c, cg_i64(c, 0), step) : step};
}

// Rows [lo, hi) of the part, `inner` elements each.
static void put_rows(Cg *c, Val v, const Places *at, V lo, V hi) {
  Kind k = kind_of(c, v);
  V to = cg_ptr(c, v), from = cg_ptr(c, ir_operand(c->f, v, ARG_source));
  int64_t width;
  for (Loop l = cg_each(c, lo, hi); cg_next(&l);) {
    V outer = cg_div(c, l.i, at->count), k_th = cg_sub(c, l.i, cg_mul(c, outer, at->count));
    V row = cg_add(c, at->first, cg_mul(c, k_th, at->step));
    row = cg_index(c, outer, at->size, row);
    V out = cg_at(c, k.elem, to, cg_mul(c, row, at->inner)), in = cg_at(c, k.elem, from, cg_mul(c, l.i, at->inner));
    if (cg_const_value(at->inner, &width) && width == 1) cg_store(c, cg_load(c, k.elem, in), out);
    else cg_copy_run(c, k.type, out, in, at->inner);
  }
}

static bool slice_assign(Cg *c, Val v) {
  Slice s;
  ir_slice(c->f, v, &s);
  Val part = ir_operand(c->f, v, ARG_source);
  if (bound_of(c, part) == 0) return true;
  V in_range, first = cg_slice_start(c, v, &in_range), lo, hi;
  for (If good = cg_when(c, in_range); cg_then(&good);)
    if (ir_dim_is_one(c->f->prog, s.step) && !s.reverse) {
      put_block(c, v, s.axis, first);
    } else {
      Places at = places_of(c, v, first);
      share_part(c, part, product(c, part, 0, s.axis + 1), 1, &lo, &hi);
      put_rows(c, v, &at, lo, hi);
    }
  return true;
}

// How many of the n rows are put: all, or none when an index is out of range, which worker 0 reports.
static V rows_to_put(Cg *c, V idx, V n, V rows) {
  for (Loop l = cg_carry(c, cg_i64(c, 0), n, cg_i64(c, 1), &n, 1); cg_next(&l);) {
    V i = cg_get(c, c->i64, idx, l.i), bad = cg_icmp(c, LLVMIntUGE, i, rows);  // covers negative indices too
    for (If out = cg_when(c, bad); cg_then(&out);)
      for (If mine = cg_when(c, cg_first_worker(c)); cg_then(&mine);) cg_report(c, TN_KERR_INDEX_RANGE, l.i, i);
    n = cg_select(c, bad, cg_i64(c, 0), n);
  }
  return n;
}

// Every worker walks all indices in order and owns a range of columns (wide rows) or of the buffer's rows (narrow
// ones), so that the last of equal indices stays.
static bool index_assign(Cg *c, Val v) {
  Val index = ir_arg(c->f, v, 1), part = ir_arg(c->f, v, 2);
  if (bound_of(c, index) == 0) return true;
  bool writes = bound_of(c, v) > 0 && bound_of(c, part) > 0;
  Kind k = kind_of(c, v);
  uint32_t rank = ir_rank(c->f->prog, ir_ins(c->f, v)->shape);
  int64_t wide = 1;
  for (uint32_t a = 1; a < rank; a++)
    wide *= ir_dim_bound(c->f->prog, ir_dim_at(c->f->prog, ir_ins(c->f, v)->shape, a));
  V rows = product(c, v, 0, 1), width = product(c, v, 1, rank), zero = cg_i64(c, 0);
  V idx = cg_ptr(c, index), row_lo = zero, row_hi = rows, lo = zero, hi = width;
  if (wide >= WIDE) share_part(c, part, width, COLUMN_GRAIN, &lo, &hi);
  else share_part(c, part, rows, 1, &row_lo, &row_hi);
  V n_columns = cg_sub(c, hi, lo);
  V n = rows_to_put(c, idx, product(c, index, 0, 1), rows);
  if (!writes) return true;
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V i = cg_get(c, c->i64, idx, l.i);
    for (If in = cg_when(c, cg_between(c, i, row_lo, row_hi)); cg_then(&in);) {
      V to = cg_at(c, k.elem, cg_ptr(c, v), cg_index(c, i, width, lo));
      V from = cg_at(c, k.elem, cg_ptr(c, part), cg_index(c, l.i, width, lo));
      cg_copy_run(c, k.type, to, from, n_columns);
    }
  }
  return true;
}

bool cg_emit_slice_update(Cg *c) {
  Val v = {c->k->first};
  return ir_ins(c->f, v)->op == OP_slice_assign ? slice_assign(c, v) : index_assign(c, v);
}
