// Strips of a matrix to panels and back.
//
//   as it lies:  row r of the panel is a row of the matrix, read by whole vectors; lanes that the matrix has not are 0
//   turned:      row r is a column, `lane` apart: squares of vl x vl are transposed
#include "codegen/linalg/linalg.h"

V cg_panel_square(Cg *c) { return cg_block(c, c->f32, (int64_t)c->t->vl * c->t->vl); }

static V vector_at(Cg *c, const CgPanel *p, V row, V j) {
  V lane = cg_mul(c, j, cg_vl(c));
  return cg_cell(c, p->at, row, cg_i64(c, cg_panel_width(c, p->nv)), lane);
}

// Lanes of vector j that the strip has: may be more than vl, or less than 0
static V lanes_from(Cg *c, const CgStrip *s, V j) { return cg_sub(c, s->n_lanes, cg_mul(c, j, cg_vl(c))); }

static V mask_of(Cg *c, V n) { return cg_mask(c, cg_max(c, n, cg_i64(c, 0))); }

// ---- as it lies
static V strip_row(Cg *c, const CgStrip *s, V r, uint32_t j) {
  if (s->order) r = cg_get(c, c->i64, s->order, s->is_reversed ? cg_sub(c, cg_i64(c, 0), r) : r);
  V at = cg_index(c, r, s->row, cg_i64(c, (int64_t)j * c->t->vl));
  return cg_at(c, c->f32, s->at, at);
}

static void fill_rows(Cg *c, const CgPanel *p, const CgStrip *s, V n) {
  V mask[8];
  for (uint32_t j = 0; j < p->nv; j++) mask[j] = mask_of(c, lanes_from(c, s, cg_i64(c, j)));
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    for (uint32_t j = 0; j < p->nv; j++) {
      V x = cg_load_masked(c, c->vf, strip_row(c, s, l.i, j), mask[j]);
      cg_store(c, cg_fneg(c, x), vector_at(c, p, l.i, cg_i64(c, j)));
    }
  }
}

// Rows [from, to) of the strip: of the panel, or zeros
static void store_rows(Cg *c, const CgPanel *p, uint32_t nv, const CgStrip *s, V from, V to) {
  V mask[8], zero = cg_zeros(c);
  for (uint32_t j = 0; j < nv; j++) mask[j] = mask_of(c, lanes_from(c, s, cg_i64(c, j)));
  for (Loop l = cg_each(c, from, to); cg_next(&l);) {
    for (uint32_t j = 0; j < nv; j++) {
      V x = p ? cg_load(c, c->vf, vector_at(c, p, l.i, cg_i64(c, j))) : zero;
      cg_store_masked(c, x, strip_row(c, s, l.i, j), mask[j]);
    }
  }
}

// ---- turned
// vl rows of the panel from r on, or as many as there are: where they begin in memory, and which row is the first there
typedef struct {
  V r, rows, at;
} Square;

static Square square_at(Cg *c, const CgStrip *s, V r, V n) {
  V rows = cg_min(c, cg_sub(c, n, r), cg_vl(c));
  V last = cg_add(c, r, cg_sub(c, rows, cg_i64(c, 1)));
  return (Square){r, rows, cg_mul(c, s->is_reversed ? last : r, s->row)};
}

// Row of the panel that has place i in memory
static V row_of(Cg *c, const CgStrip *s, const Square *q, V i) {
  V last = cg_add(c, q->r, cg_sub(c, q->rows, cg_i64(c, 1)));
  return s->is_reversed ? cg_sub(c, last, i) : cg_add(c, q->r, i);
}

static void fill_square(Cg *c, const CgPanel *p, const CgStrip *s, const Square *q, V j) {
  V vl = cg_vl(c), lanes = lanes_from(c, s, j), zero = cg_i64(c, 0);
  for (If some = cg_when(c, cg_gt(c, lanes, zero)); cg_then(&some);) {
    V from = cg_add(c, q->at, cg_mul(c, cg_mul(c, j, vl), s->lane));
    cg_transpose_block(c, cg_at(c, c->f32, s->at, from), s->lane, lanes, q->rows, p->square, vl);
  }
  V mask = mask_of(c, lanes);
  for (Loop l = cg_count(c, q->rows); cg_next(&l);) {
    V x = cg_get_masked(c, c->vf, p->square, cg_mul(c, l.i, vl), mask);
    cg_store(c, cg_fneg(c, x), vector_at(c, p, row_of(c, s, q, l.i), j));
  }
}

static void drain_square(Cg *c, const CgPanel *p, const CgStrip *s, const Square *q, V j) {
  V vl = cg_vl(c), zero = cg_i64(c, 0), width = cg_i64(c, cg_panel_width(c, p->nv));
  V ld = s->is_reversed ? cg_sub(c, zero, width) : width, mask = mask_of(c, q->rows);
  cg_transpose_block(c, vector_at(c, p, row_of(c, s, q, zero), j), ld, q->rows, vl, p->square, vl);
  for (Loop l = cg_count(c, cg_min(c, lanes_from(c, s, j), vl)); cg_next(&l);) {
    V lane = cg_index(c, j, vl, l.i), to = cg_add(c, q->at, cg_mul(c, lane, s->lane));
    V x = cg_get(c, c->vf, p->square, cg_mul(c, l.i, vl));
    cg_put_masked(c, x, s->at, to, mask);
  }
}

typedef void SquareFn(Cg *c, const CgPanel *p, const CgStrip *s, const Square *q, V j);

static void each_square(Cg *c, const CgPanel *p, const CgStrip *s, V n, SquareFn *fn) {
  for (Loop r = cg_count_by(c, n, cg_vl(c)); cg_next(&r);) {
    Square q = square_at(c, s, r.i, n);
    for (Loop j = cg_count(c, cg_i64(c, p->nv)); cg_next(&j);) fn(c, p, s, &q, j.i);
  }
}

// Rows [from, to), which do not run in reverse, of each lane
static void clear_turned(Cg *c, const CgStrip *s, uint32_t nv, V from, V to) {
  V zero = cg_zeros(c), width = cg_i64(c, cg_panel_width(c, nv));
  for (Loop lane = cg_count(c, cg_min(c, s->n_lanes, width)); cg_next(&lane);) {
    for (Loop r = cg_each_by(c, from, to, cg_vl(c)); cg_next(&r);) {
      V at = cg_cell(c, s->at, lane.i, s->lane, r.i);
      cg_store_masked(c, zero, at, mask_of(c, cg_sub(c, to, r.i)));
    }
  }
}

// ---- both
void cg_panel_fill(Cg *c, const CgPanel *p, const CgStrip *from, V n) {
  if (from->is_turned) each_square(c, p, from, n, fill_square);
  else fill_rows(c, p, from, n);
}

void cg_panel_drain(Cg *c, const CgPanel *p, const CgStrip *to, V n) {
  if (to->is_turned) each_square(c, p, to, n, drain_square);
  else store_rows(c, p, p->nv, to, cg_i64(c, 0), n);
}

void cg_strip_clear(Cg *c, const CgStrip *s, uint32_t nv, V from, V to) {
  if (s->is_turned) clear_turned(c, s, nv, from, to);
  else store_rows(c, NULL, nv, s, from, to);
}
