// Strategy planes of products (gemm.h): convolutions and transposed ones with channels first (planes.h).
//
// A unit is a band of rows of one plane. Some rows and a vector of steps are summed in registers: a vector of the source is
// loaded once for all rows that read it. Taps that lie outside are left out by masks, which code for the interior does not
// have. Sums take taps in the order of the source, whatever is summed with them. Before an epilogue the rows wait on the stack.
#include "codegen/conv/planes.h"
#include "codegen/lanes.h"
#include "codegen/tuning.h"

enum { TUNED_PLANES(TUNE) };
enum {
  IN_REGISTERS = 25,  // weights that leave room for the sums of FEW_ROWS rows alone
  FEW_ROWS = 4,
  HELD = 64  // most weights that a unit loads once
};

// ---- columns
bool cg_is_channels_first(const Fn *f, Val v) { return ir_attr(f, v, KEY_first) != NULL; }

static void add_tap(PlaneColumns *p, ColumnTap t) {
  uint32_t k = p->n++;
  for (; k && p->tap[k - 1].at > t.at; k--) p->tap[k] = p->tap[k - 1];
  p->tap[k] = t;
}

static int64_t rows_of(const ConvShape *s) {
  int64_t phases = s->transposed ? s->c.stride[1] : 1, most = ir_conv_taps(&s->c) > IN_REGISTERS ? MOST_ROWS : FEW_ROWS;
  return cg_larger(1, cg_smaller(most, s->dst[1] / phases));
}

// The phases of columns, which come last, are made together.
static void shape_of(const Fn *f, Val v, ConvShape *s) {
  cg_conv_shape(f, v, s);
  s->shares[2] = false;
}

PlaneColumns cg_plane_columns(Cg *c, Val v) {
  PlaneColumns p = {.c = c, .stride = 1, .n_phases = 1};
  shape_of(c->f, v, &p.s);
  if (p.s.transposed) p.n_phases = (uint32_t)p.s.c.stride[2];
  else p.stride = (uint32_t)p.s.c.stride[2];
  Windows w = {0};
  for (uint32_t r = 0; r < p.n_phases && cg_conv_next(&p.s, &w); r++) {
    const Phase *of = &w.axis[2];
    for (int64_t i = 0; i < of->n_taps; i++)
      add_tap(&p, (ColumnTap){of->offset + i * of->gap, r, (uint32_t)(of->tap + i * of->tap_step)});
  }
  p.rows = rows_of(&p.s);
  p.from = cg_dim(c, p.s.src_dim[2]), p.to = cg_dim(c, p.s.dst_dim[2]);
  return p;
}

int64_t cg_plane_steps(const PlaneColumns *p) { return cg_ceil_div(p->s.dst[2], p->n_phases); }

static V column(const PlaneBlock *b, int64_t at) {
  Cg *c = b->of->c;
  return cg_add(c, cg_times(c, b->first, b->of->stride), cg_i64(c, at));
}

PlaneBlock cg_plane_block(const PlaneColumns *p, V first, bool is_masked) {
  PlaneBlock b = {.of = p, .first = first, .is_masked = is_masked};
  for (uint32_t k = 0; is_masked && k < p->n; k++)
    b.inside[k] = cg_numbers_below(p->c, cg_numbers_from(p->c, column(&b, p->tap[k].at), p->stride), p->from);
  return b;
}

V cg_plane_lanes(const PlaneBlock *b, uint32_t k, V exists) {
  Cg *c = b->of->c;
  return cg_both(c, b->is_masked ? b->inside[k] : NULL, exists ? cg_splat_n(c, exists, c->t->vl) : NULL);
}

V cg_plane_load(const PlaneBlock *b, V line, uint32_t k, V mask) {
  const PlaneColumns *p = b->of;
  Cg *c = p->c;
  V piece[CONV_PLANES_STRIDE];
  for (uint32_t m = 0; m < p->stride; m++) {
    V at = column(b, p->tap[k].at + (int64_t)m * c->t->vl), own = mask;
    if (b->is_masked && p->stride > 1) own = cg_numbers_below(c, cg_numbers_from(c, at, 1), p->from);
    piece[m] = cg_load_masked(c, c->vf, cg_at_any(c, c->f32, line, at), own);
  }
  return p->stride == 1 ? piece[0] : cg_every_lane(c, cg_join_vectors(c, piece, p->stride), 0, p->stride);
}

V cg_plane_fma(Cg *c, V x, V y, V sum, V mask) {
  V more = cg_fma(c, x, y, sum);
  return mask ? cg_select(c, mask, more, sum) : more;
}

void cg_plane_whole_blocks(const PlaneColumns *p, V *lo, V *hi, V *n) {
  Cg *c = p->c;
  int64_t vl = c->t->vl, least = 0, most = 0;
  for (uint32_t k = 0; k < p->n; k++) least = cg_smaller(least, p->tap[k].at), most = cg_larger(most, p->tap[k].at);
  V zero = cg_i64(c, 0), steps = cg_ceil_div_value(c, p->to, p->n_phases);
  *n = cg_ceil_div_value(c, steps, vl);
  *lo = cg_min(c, *n, cg_i64(c, cg_ceil_div(-least, vl * p->stride)));
  // a block reads columns up to `most` + vl stride - 1 from its first one on
  V of_source = cg_div(c, cg_max(c, zero, cg_sub(c, p->from, cg_i64(c, most))), cg_i64(c, vl * p->stride));
  V of_result = cg_div(c, p->to, cg_i64(c, vl * p->n_phases));
  *hi = cg_max(c, *lo, cg_min(c, of_source, of_result));
}

// ---- the plan
bool cg_gemm_planes_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)t;
  Conv c;
  if (!p->is_conv || !cg_is_channels_first(f, p->product)) return false;
  ir_conv(f, p->product, &c);
  return c.groups == c.c && c.groups == c.o;
}

// Rows of a band.
static int64_t band_of(const ConvShape *s, const Phase *p) {
  int64_t most = cg_larger(1, BAND_ELEMENTS / cg_larger(1, s->dst[2]));
  return cg_round_up(cg_smaller(most, cg_larger(1, p->count)), rows_of(s));
}

void cg_gemm_planes_plan(const Fn *f, GemmPlan *p, const Target *t) {
  ConvShape s;
  shape_of(f, p->product, &s);
  int64_t phases = s.transposed ? s.c.stride[2] : 1;
  p->mr = 1, p->nv = 1, p->strip_rows = rows_of(&s);
  p->width = cg_round_up(cg_larger(1, cg_ceil_div(s.dst[2], phases)), t->vl) * phases;
  for (Windows w = {0}; cg_conv_next(&s, &w); w.nth += (uint32_t)phases - 1)
    p->units += s.c.c * w.phases * w.axis[0].count * cg_ceil_div(w.axis[1].count, band_of(&s, &w.axis[1]));
}

void cg_gemm_planes_stack(Gemm *g) {
  if (g->p->epilogue) g->strip = cg_gemm_on_stack(g->c, g->p->strip_rows * g->p->width);
}

// ---- a unit
typedef struct {
  Gemm *g;
  const PlaneColumns *columns;
  const Phase *axis;  // of planes and rows
  PhaseAt at;
  V image;            // of the source, its first element
  V weights;          // of the channel
  V held[HELD];       // splats; NULL: loaded where they are used
  V plane, row, end;  // of the phase: the current plane, the unit's rows
  V first_row;        // of the result's plane, by rows of all
  Inside planes;      // taps of that axis that lie inside
} Unit;

static Cg *cg_of(const Unit *u) { return u->g->c; }

// Row number `row` of the phase, among all rows of the result.
static V result_row(const Unit *u, V row) {
  Cg *c = cg_of(u);
  const Phase *p = &u->axis[1];
  return cg_add(c, u->first_row, cg_add(c, cg_times(c, row, p->step), u->at.first[1]));
}

// Plane tap z, row tap y, of ConvShape's phase.
static V weight(const Unit *u, V z, V y, uint32_t tap) {
  Cg *c = cg_of(u);
  const Phase *p = u->axis;
  const Conv *v = &u->columns->s.c;
  int64_t nth;
  V at_z = cg_add(c, cg_times(c, z, p[0].tap_step), u->at.tap[0]);
  V at_y = cg_add(c, cg_times(c, y, p[1].tap_step), u->at.tap[1]);
  V at = cg_add(c, cg_times(c, cg_add(c, cg_times(c, at_z, v->kernel[1]), at_y), v->kernel[2]), cg_i64(c, tap));
  if (u->held[0] && cg_const_value(at, &nth)) return u->held[nth];
  return cg_splat(c, cg_get(c, c->f32, u->weights, at));
}

// Some rows of results from `row` on, one vector of steps of each.
typedef struct {
  const Unit *u;
  PlaneBlock b;
  V row;
  V rows;  // how many exist; NULL: all of them, and all lines that they read
} Sums;

// Line `line` of plane z of the source.
static V line_at(const Unit *u, V z, V line) {
  Cg *c = cg_of(u);
  const ConvShape *s = &u->columns->s;
  const Phase *p = u->axis;
  V plane = cg_add(c, cg_add(c, cg_times(c, u->plane, p[0].src_step), u->at.offset[0]), cg_times(c, z, p[0].gap));
  V at = cg_add(c, cg_mul(c, plane, cg_dim(c, s->src_dim[1])), line);
  return cg_at_any(c, c->f32, u->image, cg_mul(c, at, u->columns->from));
}

static V source_row(const Unit *u, V row) {
  Cg *c = cg_of(u);
  return cg_add(c, cg_times(c, row, u->axis[1].src_step), u->at.offset[1]);
}

// Adds a line to the sums of all rows that read it.
static void add_line(const Sums *s, V z, int64_t q, V line, V exists, V *sum) {
  const Unit *u = s->u;
  const PlaneColumns *k = u->columns;
  const Phase *p = &u->axis[1];
  Cg *c = cg_of(u);
  V from = line_at(u, z, line);
  for (uint32_t t = 0; t < k->n; t++) {
    V x = NULL, mask = cg_plane_lanes(&s->b, t, exists);
    for (int64_t r = 0; r < k->rows; r++) {
      int64_t y = cg_plane_row_of_taps(p, p->n_taps, q, r);
      if (y < 0) continue;
      if (!x) x = cg_plane_load(&s->b, from, t, mask);
      V *to = &sum[r * k->n_phases + k->tap[t].phase];
      *to = cg_plane_fma(c, x, weight(u, z, cg_i64(c, y), k->tap[t].tap), *to, mask);
    }
  }
}

// Line by line of the source. One that does not exist is read as the first one, by no lane, or, if masks are slow, skipped.
static void add_lines(const Sums *s, V z, V *sum) {
  const Unit *u = s->u;
  const PlaneColumns *k = u->columns;
  const Phase *p = &u->axis[1];
  Cg *c = cg_of(u);
  V first = source_row(u, s->row), size = cg_dim(c, k->s.src_dim[1]);
  int64_t last = (k->rows - 1) * p->src_step + (p->n_taps - 1) * p->gap;
  for (int64_t q = 0; q <= last; q++) {
    V line = cg_add(c, first, cg_i64(c, q)), exists = s->rows ? cg_below(c, line, size) : NULL;
    bool is_skipped = exists && c->t->slow_masks;
    if (exists && !is_skipped) line = cg_select(c, exists, line, cg_i64(c, 0));
    for (If there = cg_when_carry(c, is_skipped ? exists : NULL, sum, (uint32_t)k->rows * k->n_phases);
         cg_then(&there);)
      add_line(s, z, q, line, is_skipped ? NULL : exists, sum);
  }
}

static void store_row(const Sums *s, int64_t r, V all) {
  const Unit *u = s->u;
  const PlaneColumns *k = u->columns;
  Gemm *g = u->g;
  Cg *c = g->c;
  V column = cg_times(c, s->b.first, k->n_phases);
  if (g->epilogue) {
    cg_store(c, all, cg_cell(c, g->strip, cg_i64(c, r), cg_i64(c, g->p->width), column));
    return;
  }
  V to = cg_row(c, g->out, result_row(u, cg_add(c, s->row, cg_i64(c, r))), k->to);
  cg_store_wide(c, all, k->n_phases, to, column, column, s->b.is_masked ? k->to : NULL);
}

static void one_block(const Sums *s) {
  const Unit *u = s->u;
  Cg *c = cg_of(u);
  uint32_t n_phases = u->columns->n_phases, n = (uint32_t)u->columns->rows * n_phases;
  int64_t lo, hi;
  V sum[MOST_ROWS * CONV_PLANES_STRIDE];
  for (uint32_t k = 0; k < n; k++) sum[k] = cg_zeros(c);
  bool is_one = cg_const_value(u->planes.lo, &lo) && cg_const_value(u->planes.hi, &hi) && lo == 0 && hi == 1;
  Loop l = is_one ? cg_once(c) : cg_carry(c, u->planes.lo, u->planes.hi, cg_i64(c, 1), sum, n);
  while (cg_next(&l)) add_lines(s, is_one ? cg_i64(c, 0) : l.i, sum);
  for (int64_t r = 0; r < u->columns->rows; r++) {
    V all = cg_vectors_by_turns(c, sum + r * n_phases, n_phases);
    bool is_sure = !s->rows || u->g->epilogue;  // the strip has all of them
    for (If there = cg_when(c, is_sure ? NULL : cg_gt(c, s->rows, cg_i64(c, r))); cg_then(&there);)
      store_row(s, r, all);
  }
}

static void some_rows(const Unit *u, V row, V rows) {
  Gemm *g = u->g;
  Cg *c = g->c;
  const PlaneColumns *k = u->columns;
  V vl = cg_vl(c), lo, hi, n;
  bool all_masked = rows && !c->t->slow_masks;
  cg_plane_whole_blocks(k, &lo, &hi, &n);
  for (Loop l = cg_count(c, n); cg_next(&l);)
    for (If s = cg_either(c, all_masked ? NULL : cg_between(c, l.i, lo, hi)); cg_then(&s);)
      one_block(&(Sums){u, cg_plane_block(k, cg_mul(c, l.i, vl), all_masked || !s.is_true), row, rows});
  if (!g->epilogue) return;
  V width = cg_i64(c, g->p->width);
  for (Loop l = cg_count(c, rows ? rows : cg_i64(c, k->rows)); cg_next(&l);)
    cg_gemm_epilogue(g, result_row(u, cg_add(c, row, l.i)), cg_i64(c, 1), cg_i64(c, 0), k->to,
                     cg_row(c, g->strip, l.i, width), width);
}

static void each_row(const Unit *u) {
  Cg *c = cg_of(u);
  const Phase *p = &u->axis[1];
  int64_t n = u->columns->rows, reach = (n - 1) * p->src_step + cg_conv_reach(p);
  V size = cg_dim(c, u->columns->s.src_dim[1]), by = cg_i64(c, n);
  for (Loop l = cg_each_by(c, u->row, u->end, by); cg_next(&l);) {
    V first = source_row(u, l.i), last = cg_add(c, first, cg_i64(c, reach)), end = cg_add(c, l.i, by);
    V inside = cg_and(c, cg_ge(c, first, cg_i64(c, 0)), cg_le(c, last, size));
    for (If s = cg_either(c, cg_and(c, inside, cg_le(c, end, u->end))); cg_then(&s);)
      some_rows(u, l.i, s.is_true ? NULL : cg_sub(c, cg_min(c, end, u->end), l.i));
  }
}

static void hold_weights(Unit *u) {
  Cg *c = cg_of(u);
  int64_t taps = ir_conv_taps(&u->columns->s.c);
  for (int64_t k = 0; k < taps && taps <= HELD; k++)
    u->held[k] = cg_splat(c, cg_get(c, c->f32, u->weights, cg_i64(c, k)));
}

// image: of a channel.
static void one_unit(Unit *u, V image) {
  Cg *c = cg_of(u);
  const ConvShape *s = &u->columns->s;
  const Phase *p = u->axis;
  V size[CONV_AXES];
  for (uint32_t a = 0; a < CONV_AXES; a++) size[a] = cg_dim(c, s->src_dim[a]);
  u->image = cg_at(c, c->f32, u->g->a, cg_mul(c, image, cg_mul(c, cg_mul(c, size[0], size[1]), size[2])));
  u->weights = cg_row(c, u->g->b, cg_rem(c, image, cg_i64(c, s->c.c)), cg_i64(c, ir_conv_taps(&s->c)));
  V at = cg_add(c, cg_times(c, u->plane, p[0].step), u->at.first[0]);
  u->first_row = cg_mul(c, cg_index(c, image, cg_dim(c, s->dst_dim[0]), at), cg_dim(c, s->dst_dim[1]));
  V begin = cg_add(c, cg_times(c, u->plane, p[0].src_step), u->at.offset[0]);
  u->planes = (Inside){cg_i64(c, 0), cg_i64(c, p[0].n_taps)};
  if (cg_conv_reaches_out(c->f, s, &p[0], 0)) u->planes = cg_inside(c, begin, p[0].gap, 1, size[0], u->planes.hi);
  hold_weights(u);
  each_row(u);
}

// Phases that share code have as many units as the one that has most.
static void each_unit(Gemm *g, const PlaneColumns *k, const Windows *w) {
  Cg *c = g->c;
  const ConvShape *s = &k->s;
  const Phase *p = w->axis;
  int64_t band = band_of(s, &p[1]);
  V planes = cg_conv_count(c, s, 0, cg_i64(c, p[0].first)), rows = cg_conv_count(c, s, 1, cg_i64(c, p[1].first));
  V bands = cg_ceil_div_value(c, rows, band), of_image = cg_mul(c, planes, bands);
  V images = cg_times(c, cg_dim(c, s->c.n), s->c.c), n = cg_mul(c, images, of_image);
  for (Loop l = cg_each_shared(c, cg_times(c, n, w->phases), 1); cg_next(&l);) {
    V image = cg_div(c, l.i, of_image), nth = cg_rem(c, l.i, of_image), phase = cg_i64(c, 0), there = NULL;
    if (w->phases > 1) phase = cg_div(c, image, images), image = cg_rem(c, image, images);
    Unit u = {.g = g, .columns = k, .axis = p, .at = cg_conv_phase(c, s, w, phase), .plane = cg_div(c, nth, bands)};
    u.row = cg_times(c, cg_rem(c, nth, bands), band);
    u.end = cg_min(c, cg_conv_count(c, s, 1, u.at.first[1]), cg_add(c, u.row, cg_i64(c, band)));
    if (p[0].n > 1) there = cg_lt(c, u.plane, cg_conv_count(c, s, 0, u.at.first[0]));
    for (If is = cg_when(c, there); cg_then(&is);) one_unit(&u, image);
  }
}

void cg_gemm_planes_emit(Gemm *g) {
  PlaneColumns k = cg_plane_columns(g->c, g->p->product);
  if (g->p->units == 0 || cg_plane_steps(&k) == 0) return;
  for (Windows w = {0}; cg_conv_next(&k.s, &w); w.nth += k.n_phases - 1) each_unit(g, &k, &w);
}
