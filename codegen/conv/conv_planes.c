// Strategy conv_planes of products (gemm.h): convolutions that sum over channels, with channels first before and behind them.
//
//   y[O][pixels] = sum of w[O][C taps] x[C][pixels]   of each tap, shifted
//
// A unit of work is some rows of a plane of the result, or a part of a long row. What their windows read is copied to the stack
// channel by channel, with zeros of the padding, and in phases: rows and columns of the source that are as far apart as windows
// lie side by side there. Pixels of the result then read neighbours, whatever the tap:
//
//   stride 2, columns of the source 0 1 2 3 4 5 6 7     phase 0: 0 2 4 6     phase 1: 1 3 5 7
//   of windows at -1, taps 0 and 2 read                 phase 1 from -1, and from 1 on; tap 1 reads phase 0
//
// Rows of the strip are longer than those of the result by what the taps of a phase reach further, and pixels are summed across
// them, those between two rows for nothing: vectors are whole. Where windows share no rows, the rows of all images are one sequence,
// and vectors go across images, too. Microkernels read the weight in place, and the taps where a table
// says. A strip that is too large for L2 is copied some channels at a time, so many that what a panel of pixels reads of them stays in
// L1 while all rows of the weight pass by; all channels of the result wait on the stack then. Zeros beside a weight that is infinite or
// NaN make NaN of a sum: those are recomputed from the taps inside.
#include "codegen/conv/planes.h"
#include "codegen/lanes.h"
#include "codegen/tuning.h"

enum { MOST_JOINED = 4, MAX_LANES = 64, TUNED_CONV_PLANES(TUNE) };

// ---- phases of the source along an axis: rows, or columns
typedef struct {
  int64_t n, *phase;     // those that taps read, of the stride's
  int64_t first, reach;  // the first element of a phase that the first window reads; how many more the taps read
} Phases;

// Which element of its phase tap t of the first window reads
static int64_t element_of(const Phase *p, int64_t t, int64_t *phase) {
  int64_t at = p->offset + t * p->gap, nth = at >= 0 ? at / p->src_step : -((-at + p->src_step - 1) / p->src_step);
  *phase = at - nth * p->src_step;
  return nth;
}

static int64_t number_of(const Phases *a, int64_t phase) {
  for (int64_t k = 0; k < a->n; k++)
    if (a->phase[k] == phase) return k;
  return a->n;
}

static Phases phases_of(const Phase *p, RtArena *mem) {
  int64_t phase, last = INT64_MIN;
  Phases a = {.phase = rt_alloc(mem, (size_t)p->n_taps * sizeof *a.phase), .first = INT64_MAX};
  for (int64_t t = 0; t < p->n_taps; t++) {
    int64_t nth = element_of(p, t, &phase);
    a.first = cg_smaller(a.first, nth), last = cg_larger(last, nth);
    if (number_of(&a, phase) == a.n) a.phase[a.n++] = phase;
  }
  a.reach = last - a.first;
  return a;
}

// ---- the plan
typedef struct {
  ConvShape s;
  Windows w;
  Phases rows, columns;
  bool crosses;            // the rows of all images are one sequence, of which units take some
  int64_t all_rows;        // of these, a bound; else rows of a plane
  int64_t width, parts;    // pixels of a row in a unit; how many units have parts of one row
  int64_t lines;           // rows in a unit; 1 if it has a part of a row
  int64_t pitch;           // of the strip, from one row to the next
  int64_t block, channel;  // elements of one phase of rows and columns; of all planes and phases
  int64_t channels;        // of the source that are copied at a time
  int64_t sums;            // elements from one channel's sums to the next
  bool waits;              // sums of all channels wait on the stack
} Strips;

static void set_lines(Strips *p, int64_t lines, int64_t vl) {
  p->lines = lines;
  p->block = cg_round_up((lines + p->rows.reach) * p->pitch + vl, vl);  // copies of rows end with a whole vector
  p->channel = p->block * p->rows.n * p->columns.n * p->s.c.kernel[0];
  p->sums = cg_round_up(lines * p->pitch, vl);
}

// Vectors of all rows, `lines` at a time
static int64_t vectors_of(const Strips *p, int64_t lines, int64_t vl) {
  int64_t rows = p->all_rows, rest = rows % lines, some = cg_ceil_div((lines - 1) * p->pitch + p->width, vl);
  return rows / lines * some + (rest ? cg_ceil_div((rest - 1) * p->pitch + p->width, vl) : 0);
}

// Rows that leave the fewest lanes without a pixel, whose sums fit.
static int64_t choose_lines(Strips *p, int64_t most, int64_t room, int64_t vl) {
  int64_t best = 1;
  for (int64_t n = 2; n <= cg_smaller(most, p->all_rows); n++) {
    set_lines(p, n, vl);
    if (p->sums * p->s.dst_channels > room) break;
    if (vectors_of(p, n, vl) <= vectors_of(p, best, vl)) best = n;
  }
  return best;
}

// So that all images together have units enough for even shares.
static int64_t most_lines(const Prog *prog, const Strips *p) {
  const ConvShape *s = &p->s;
  int64_t planes = p->crosses ? 1 : cg_larger(1, ir_dim_bound(prog, s->c.n) * s->c.groups * s->dst[0]);
  int64_t shared = p->all_rows / cg_ceil_div(p->crosses ? UNITS_WANTED / 2 : UNITS_WANTED, planes),
          least = LEAST_PIXELS / p->width;
  return cg_larger(1, cg_smaller(PIXELS / p->width, cg_larger(shared, least)));
}

static bool reaches_out(const Fn *f, const Strips *p) {
  bool any = false;
  for (uint32_t k = 0; k < CONV_AXES; k++) any |= cg_conv_reaches_out(f, &p->s, &p->w.axis[k], k);
  return any;
}

// Windows that share no rows, and none of the padding: where a row ends the next image may begin.
static bool crosses_images(const Fn *f, const Strips *p) {
  return p->parts == 1 && p->rows.reach == 0 && p->s.c.groups == 1 && p->s.dst[0] == 1 && !reaches_out(f, p);
}

static Strips strips_of(const Fn *f, Val v, const Target *t) {
  Strips p = {.parts = 1};
  int64_t vl = t->vl, room = ir_f32_in(t->facts.l2_bytes / L2_PART);
  cg_conv_shape(f, v, &p.s);
  cg_conv_next(&p.s, &p.w);
  p.rows = phases_of(&p.w.axis[1], f->prog->mem), p.columns = phases_of(&p.w.axis[2], f->prog->mem);
  p.width = cg_larger(1, p.s.dst[2]);
  if (p.width > PIXELS) p.width = cg_round_up(cg_ceil_div(p.width, cg_ceil_div(p.width, PIXELS)), vl);
  p.parts = cg_ceil_div(cg_larger(1, p.s.dst[2]), p.width), p.pitch = p.width + p.columns.reach;
  p.crosses = crosses_images(f, &p);
  p.all_rows = p.s.dst[1] * (p.crosses ? cg_larger(1, ir_dim_bound(f->prog, p.s.c.n)) : 1);
  set_lines(&p, p.parts > 1 ? 1 : choose_lines(&p, most_lines(f->prog, &p), room, vl), vl);
  int64_t all = cg_larger(1, p.s.src_channels), most = KC / ir_conv_taps(&p.s.c);
  p.waits = all * p.channel > room;
  most = cg_larger(1, cg_smaller(most, room / p.channel));
  p.channels = p.waits ? cg_ceil_div(all, cg_ceil_div(all, most)) : all;
  return p;
}

static int64_t bands_of(const Strips *p) { return cg_ceil_div(p->all_rows, p->lines); }

bool cg_gemm_conv_planes_fits(const Fn *f, const GemmPlan *p, const Target *t) {
  (void)t;
  return p->is_conv && cg_is_channels_first(f, p->product);
}

void cg_gemm_conv_planes_plan(const Fn *f, GemmPlan *p, const Target *t) {
  Strips s = strips_of(f, p->product, t);
  p->mr = cg_tile_height(s.s.dst_channels, t->gemm_mr), p->nv = t->gemm_nv;
  p->width = s.sums;
  p->kc = s.channels * ir_conv_taps(&s.s.c);
  p->strip_rows = s.waits ? s.s.dst_channels : p->mr;
  p->mc = s.channels * s.channel;
  p->units = s.s.c.groups * s.s.dst[0] * bands_of(&s) * s.parts;
}

void cg_gemm_conv_planes_stack(Gemm *g) {
  const GemmPlan *p = g->p;
  g->b_block = cg_gemm_on_stack(g->c, p->mc);
  g->strip = cg_gemm_on_stack(g->c, p->strip_rows * p->width);
}

// ---- a unit
typedef struct {
  Gemm *g;
  const Strips *p;
  V table;    // where taps lie in a channel of the strip
  V phases;   // of rows
  V image;    // of the source, its group's first element; of the first one, where rows cross images
  V weights;  // of the group
  V channel;  // of the result, the group's first one among those of all images
  V plane, row,
      column;        // of the result, the unit's first ones; the row among those of all images, where rows cross them
  V lines, columns;  // how many
  Inside planes;     // taps of windows that lie in planes of the source: others are neither copied nor summed
} Unit;

// The plane of the source that the first tap reads
static V first_plane(const Unit *u) {
  Cg *c = u->g->c;
  const Phase *z = &u->p->w.axis[0];
  return cg_add(c, cg_times(c, u->plane, z->src_step), cg_i64(c, z->offset));
}

static Inside planes_inside(const Unit *u) {
  Cg *c = u->g->c;
  const Phase *z = &u->p->w.axis[0];
  V n = cg_i64(c, z->n_taps);
  if (!cg_conv_reaches_out(c->f, &u->p->s, z, 0)) return (Inside){cg_i64(c, 0), n};
  return cg_inside(c, first_plane(u), z->gap, 1, cg_i64(c, u->p->s.src[0]), n);
}

static V size_of(Cg *c, const int64_t *size) { return cg_i64(c, size[0] * size[1] * size[2]); }

// The row of a plane that line `line` of the unit is, and the number of its image from the unit's first on
static V row_of(const Unit *u, V line, V *image) {
  Cg *c = u->g->c;
  V row = cg_add(c, u->row, line), rows = cg_i64(c, u->p->s.dst[1]);
  *image = u->p->crosses ? cg_div(c, row, rows) : cg_i64(c, 0);
  return u->p->crosses ? cg_rem(c, row, rows) : row;
}

// ---- the strip
// One vector of each phase of columns, from number `first` of a phase on, in the rows at `to`.
static void copy_vectors(const Unit *u, V from, V to, V nth, bool is_masked) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  uint32_t stride = (uint32_t)p->w.axis[2].src_step, vl = c->t->vl;
  V piece[CONV_FIRST_STRIDE], end = cg_i64(c, p->s.src[2]), first = cg_times(c, nth, vl);
  V at = cg_times(c, cg_add(c, cg_add(c, u->column, first), cg_i64(c, p->columns.first)), stride);
  for (uint32_t m = 0; m < stride; m++) {
    V own = cg_add(c, at, cg_i64(c, (int64_t)m * vl));
    V mask = is_masked ? cg_numbers_below(c, cg_numbers_from(c, own, 1), end) : NULL;
    piece[m] = cg_load_masked(c, c->vf, cg_at_any(c, c->f32, from, own), mask);
  }
  V all = cg_join_vectors(c, piece, stride);
  for (int64_t k = 0; k < p->columns.n; k++) {
    V x = stride == 1 ? all : cg_every_lane(c, all, (uint32_t)p->columns.phase[k], stride);
    cg_store(c, x, cg_at(c, c->f32, to, cg_add(c, first, cg_i64(c, k * p->block))));
  }
}

// Likewise where windows are further apart: what vl windows read of vl phases is transposed.
static void copy_squares(const Unit *u, V from, V to, V nth, bool is_masked) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  int64_t stride = p->w.axis[2].src_step, vl = c->t->vl;
  V piece[MAX_LANES], end = cg_i64(c, p->s.src[2]), first = cg_times(c, nth, vl);
  V at = cg_times(c, cg_add(c, cg_add(c, u->column, first), cg_i64(c, p->columns.first)), stride);
  for (int64_t begin = 0; begin < stride; begin += vl) {
    for (int64_t m = 0; m < vl; m++) {
      V own = cg_add(c, at, cg_i64(c, m * stride + begin));
      V mask = is_masked ? cg_numbers_below(c, cg_numbers_from(c, own, 1), end) : NULL;
      piece[m] = cg_load_masked(c, c->vf, cg_at_any(c, c->f32, from, own), mask);
    }
    cg_transpose(c, piece);
    for (int64_t k = 0; k < p->columns.n; k++) {
      int64_t lane = p->columns.phase[k] - begin;
      if (lane < 0 || lane >= vl) continue;
      cg_store(c, piece[lane], cg_at(c, c->f32, to, cg_add(c, first, cg_i64(c, k * p->block))));
    }
  }
}

// A row of all phases of columns. Vectors [lo, hi) lie inside.
static void copy_row(const Unit *u, V from, V to) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  int64_t step = p->w.axis[2].src_step, vl = c->t->vl;
  V first = cg_times(c, cg_add(c, u->column, cg_i64(c, p->columns.first)), step);
  V n = cg_i64(c, cg_ceil_div(p->pitch, vl));
  bool is_far = step > MOST_JOINED;
  int64_t reads = is_far ? (vl - 1) * step + cg_round_up(step, vl) : vl * step;
  void (*copy)(const Unit *u, V from, V to, V nth, bool is_masked) = is_far ? copy_squares : copy_vectors;
  Inside in = cg_inside(c, first, vl * step, reads, cg_i64(c, p->s.src[2]), n);
  V hi = cg_max(c, in.lo, in.hi);
  for (Loop l = cg_count(c, in.lo); cg_next(&l);) copy(u, from, to, l.i, true);
  for (Loop l = cg_each(c, in.lo, hi); cg_next(&l);) copy(u, from, to, l.i, false);
  for (Loop l = cg_each(c, hi, n); cg_next(&l);) copy(u, from, to, l.i, true);
}

static void clear_row(const Unit *u, V to) {
  Cg *c = u->g->c;
  for (int64_t k = 0; k < u->p->columns.n; k++)
    cg_conv_clear(c, cg_at(c, c->f32, to, cg_i64(c, k * u->p->block)), cg_i64(c, u->p->pitch));
}

// The same row of the channel that is copied next but some: while tiles sum, memory has little to do.
static void prefetch_row(const Unit *u, V row) {
  Cg *c = u->g->c;
  const int64_t *size = u->p->s.src;
  int64_t some = u->p->channels, ahead = some < u->p->s.src_channels ? some : cg_smaller(2, some);
  V from = cg_at_any(c, c->f32, row, cg_i64(c, ahead * size[0] * size[1] * size[2]));
  for (int64_t at = 0; at < u->p->pitch * u->p->w.axis[2].src_step; at += TILE_LINE)
    cg_prefetch_l2(c, cg_at_any(c, c->f32, from, cg_i64(c, at)));
}

// Rows of one phase of rows, of a plane of the source at `from`
static void copy_rows(const Unit *u, V from, V phase, V to) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  int64_t step = p->w.axis[1].src_step;
  V n = cg_add(c, u->lines, cg_i64(c, p->rows.reach)), image;
  // lanes behind the last pixel: what lies on the stack may be denormal, which makes products slow
  for (int64_t k = 0; k < p->columns.n; k++)
    cg_store(c, cg_zeros(c), cg_at(c, c->f32, to, cg_add(c, cg_times(c, n, p->pitch), cg_i64(c, k * p->block))));
  for (Loop l = cg_count(c, n); cg_next(&l);) {
    V y = cg_add(c, row_of(u, l.i, &image), cg_i64(c, p->rows.first));
    y = cg_add(c, cg_times(c, y, step), phase);
    V plane = cg_row(c, from, cg_times(c, image, p->s.src_channels), size_of(c, p->s.src));
    V row = cg_at(c, c->f32, plane, cg_times(c, y, p->s.src[2]));
    prefetch_row(u, row);
    V own = cg_at(c, c->f32, to, cg_times(c, l.i, p->pitch));
    for (If there = cg_either(c, cg_below(c, y, cg_i64(c, p->s.src[1]))); cg_then(&there);)
      if (there.is_true) copy_row(u, row, own);
      else clear_row(u, own);
  }
}

// Channels [first, first + n) of the source
static void copy_channels(const Unit *u, V first, V n) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  const Phase *z = &p->w.axis[0];
  V begin = first_plane(u), planes = cg_i64(c, p->s.src[0]);
  for (Loop l = cg_count(c, n); cg_next(&l);)
    for (Loop tap = cg_each(c, u->planes.lo, u->planes.hi); cg_next(&tap);) {
      V plane = cg_add(c, begin, cg_times(c, tap.i, z->gap)), at = cg_index(c, cg_add(c, first, l.i), planes, plane);
      V from = cg_at_any(c, c->f32, u->image, cg_times(c, at, p->s.src[1] * p->s.src[2]));
      V of_plane = cg_index(c, l.i, cg_i64(c, z->n_taps), tap.i);
      for (Loop k = cg_count(c, cg_i64(c, p->rows.n)); cg_next(&k);) {
        V nth = cg_add(c, cg_times(c, of_plane, p->rows.n), k.i);
        V to = cg_at(c, c->f32, u->g->b_block, cg_times(c, nth, p->columns.n * p->block));
        copy_rows(u, from, cg_get(c, c->i64, u->phases, k.i), to);
      }
    }
}

// Elements of a channel of the strip before those that a tap reads
static int64_t place_of(const Strips *p, int64_t tap) {
  const int64_t *kernel = p->s.c.kernel;
  int64_t row, column, y = element_of(&p->w.axis[1], tap / kernel[2] % kernel[1], &row) - p->rows.first;
  int64_t x = element_of(&p->w.axis[2], tap % kernel[2], &column) - p->columns.first, z = tap / kernel[2] / kernel[1];
  int64_t block = (z * p->rows.n + number_of(&p->rows, row)) * p->columns.n + number_of(&p->columns, column);
  return block * p->block + y * p->pitch + x;
}

static int64_t row_phase(const Strips *p, int64_t k) { return p->rows.phase[k]; }

static V make_table(Cg *c, const Strips *p, int64_t (*of)(const Strips *p, int64_t k), int64_t n, const char *name) {
  V *at = rt_alloc(c->mem, (size_t)n * sizeof *at);
  for (int64_t k = 0; k < n; k++) at[k] = cg_i64(c, of(p, k));
  V made = LLVMAddGlobal(c->mod, LLVMArrayType2(c->i64, (uint64_t)n), name);
  LLVMSetInitializer(made, LLVMConstArray2(c->i64, at, (uint64_t)n));
  LLVMSetGlobalConstant(made, true);
  LLVMSetLinkage(made, LLVMPrivateLinkage);
  return made;
}

// ---- sums of `n` channels of the result, from `channel` of the group on
typedef struct {
  V channel, sums;
  int64_t n;
} Rows;

// Pixels from the first one of the unit to the last
static V n_vectors(const Unit *u) {
  Cg *c = u->g->c;
  V before = cg_times(c, cg_sub(c, u->lines, cg_i64(c, 1)), u->p->pitch);
  return cg_ceil_div_value(c, cg_add(c, before, u->columns), c->t->vl);
}

// Channels of the source; whether there are sums of others already, and whether these are the last
typedef struct {
  V first, n;
  bool adds, ends;
} Terms;

// Which row of the result, of all planes, line `line` of a channel is.
static V row_of_result(const Unit *u, V channel, V line) {
  Cg *c = u->g->c;
  const ConvShape *s = &u->p->s;
  V image, row = row_of(u, line, &image), first = cg_index(c, image, cg_i64(c, s->dst_channels), u->channel);
  V plane = cg_index(c, cg_add(c, first, channel), cg_i64(c, s->dst[0]), u->plane);
  return cg_index(c, plane, cg_i64(c, s->dst[1]), row);
}

static V place_in_result(const Unit *u, V channel, V vector) {
  Cg *c = u->g->c;
  V at = cg_times(c, vector, c->t->vl), pitch = cg_i64(c, u->p->pitch), line = cg_div(c, at, pitch);
  V column = cg_add(c, u->column, cg_rem(c, at, pitch)), to = cg_ptr(c, cg_gemm_result(u->g));
  return cg_cell(c, to, row_of_result(u, channel, line), cg_i64(c, u->p->s.dst[2]), column);
}

static void sum_vectors(const Unit *u, const Rows *r, const Terms *t, V vector, uint32_t nv) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  int64_t taps = ir_conv_taps(&p->s.c), vl = c->t->vl;
  bool by_channels = taps == 1;
  TileSpec spec = {.mr = (uint32_t)r->n,
                   .nv = nv,
                   .a_row = p->s.rows,
                   .a_k = 1,
                   .b_k = by_channels ? p->channel : 0,
                   .has_table = !by_channels,
                   .b_vec = vl,
                   .c_row = p->sums,
                   .c_vec = vl,
                   .accumulate = t->adds,
                   .segmented = !by_channels,
                   .prefetch_result = t->ends && !ir_none(cg_gemm_result(u->g)),
                   .mask_from = nv,
                   .mask_step = vl,
                   .long_k = by_channels && cg_tile_is_long(p->channels)};
  cg_tile_sum_in_parts(&spec, c->t, p->s.rows, by_channels ? p->channels : taps, by_channels ? 1 : p->channels);
  int64_t of_plane = taps / p->s.c.kernel[0];
  V at = cg_times(c, vector, vl), before = cg_times(c, u->planes.lo, of_plane);
  V k0 = cg_add(c, cg_times(c, t->first, taps), before);
  V inside = cg_times(c, cg_sub(c, u->planes.hi, u->planes.lo), of_plane);
  TileArgs args = {.a = cg_cell(c, u->weights, r->channel, cg_i64(c, p->s.rows), k0),
                   .b = cg_at(c, c->f32, u->g->b_block, at),
                   .c = cg_at(c, c->f32, r->sums, at),
                   .k = by_channels ? cg_mul(c, t->n, inside) : inside,
                   .segments = {t->n},
                   .a_segment = {cg_i64(c, taps)},
                   .b_segment = {cg_i64(c, p->channel)},
                   .b_table = cg_at(c, c->i64, u->table, before)};
  if (spec.prefetch_result)
    args.result = place_in_result(u, r->channel, vector), args.result_row = size_of(c, p->s.dst);
  cg_tile_call(c, &spec, &args);
}

// emit: the sums of nv vectors from number `vector` on
static void each_panel(const Unit *u, void (*emit)(const Unit *u, V vector, uint32_t nv, void *ctx), void *ctx) {
  Cg *c = u->g->c;
  uint32_t nv = u->g->p->nv;
  V n = n_vectors(u), whole = cg_multiple(c, n, cg_i64(c, nv));
  for (Loop l = cg_count_by(c, whole, cg_i64(c, nv)); cg_next(&l);) emit(u, l.i, nv, ctx);
  for (Loop l = cg_each(c, whole, n); cg_next(&l);) emit(u, l.i, 1, ctx);
}

// ---- sums that zeros of the padding made NaN
// One pixel's taps inside
static V sum_pixel(const Unit *u, V weights, V row, V column) {
  Cg *c = u->g->c;
  const ConvShape *s = &u->p->s;
  V sum = cg_f32(c, 0), one = cg_i64(c, 1), at[CONV_AXES], place[] = {u->plane, row, column};
  Inside in[CONV_AXES];
  for (uint32_t k = 0; k < CONV_AXES; k++) {
    const Phase *p = &u->p->w.axis[k];
    at[k] = cg_add(c, cg_times(c, place[k], p->src_step), cg_i64(c, p->offset));
    in[k] = cg_inside(c, at[k], p->gap, 1, cg_i64(c, s->src[k]), cg_i64(c, p->n_taps));
  }
  for (Loop l = cg_carry(c, cg_i64(c, 0), cg_i64(c, s->src_channels), one, &sum, 1); cg_next(&l);)
    for (Loop z = cg_carry(c, in[0].lo, in[0].hi, one, &sum, 1); cg_next(&z);)
      for (Loop y = cg_carry(c, in[1].lo, in[1].hi, one, &sum, 1); cg_next(&y);)
        for (Loop x = cg_carry(c, in[2].lo, in[2].hi, one, &sum, 1); cg_next(&x);) {
          V tap = l.i, from = l.i, nth[] = {z.i, y.i, x.i};
          for (uint32_t k = 0; k < CONV_AXES; k++) {
            tap = cg_index(c, tap, cg_i64(c, s->c.kernel[k]), nth[k]);
            V own = cg_add(c, at[k], cg_times(c, nth[k], u->p->w.axis[k].gap));
            from = cg_index(c, from, cg_i64(c, s->src[k]), own);
          }
          sum = cg_fma(c, cg_get(c, c->f32, weights, tap), cg_get(c, c->f32, u->image, from), sum);
        }
  return sum;
}

// A sum without zeros of the padding is NaN for other reasons, and is so again.
static void mend_channel(const Unit *u, V weights, V sums) {
  Cg *c = u->g->c;
  for (Loop l = cg_count(c, u->lines); cg_next(&l);)
    for (Loop x = cg_count(c, u->columns); cg_next(&x);) {
      V to = cg_at(c, c->f32, sums, cg_index(c, l.i, cg_i64(c, u->p->pitch), x.i)), own = cg_load(c, c->f32, to);
      for (If spoilt = cg_when(c, cg_fcmp(c, LLVMRealUNO, own, own)); cg_then(&spoilt);)
        cg_store(c, sum_pixel(u, weights, cg_add(c, u->row, l.i), cg_add(c, u->column, x.i)), to);
    }
}

static void mend_border(const Unit *u, V channel, V sums) {
  Cg *c = u->g->c;
  V all = cg_zeros(c);
  if (!reaches_out(c->f, u->p)) return;
  for (Loop k = cg_carry(c, cg_i64(c, 0), n_vectors(u), cg_i64(c, 1), &all, 1); cg_next(&k);)
    all = cg_fadd(c, all, cg_load(c, c->vf, cg_row(c, sums, k.i, cg_vl(c))));
  for (If spoilt = cg_when(c, cg_any_lane(c, cg_nan_lanes(c, all))); cg_then(&spoilt);)
    mend_channel(u, cg_row(c, u->weights, channel, cg_i64(c, u->p->s.rows)), sums);
}

// ---- results
static void store_channel(const Unit *u, V channel, V sums) {
  Gemm *g = u->g;
  Cg *c = g->c;
  V pitch = cg_i64(c, u->p->pitch), width = cg_i64(c, u->p->s.dst[2]);
  for (Loop l = cg_count(c, u->lines); cg_next(&l);) {
    V row = row_of_result(u, channel, l.i), from = cg_row(c, sums, l.i, pitch);
    if (g->epilogue) cg_gemm_epilogue(g, row, cg_i64(c, 1), u->column, u->columns, from, pitch);
    else cg_copy_run(c, DT_F32, cg_cell(c, g->out, row, width, u->column), from, u->columns);
  }
}

static void finish(const Unit *u, const Rows *r) {
  Cg *c = u->g->c;
  for (Loop l = cg_count(c, cg_i64(c, r->n)); cg_next(&l);) {
    V sums = cg_row(c, r->sums, l.i, cg_i64(c, u->p->sums)), channel = cg_add(c, r->channel, l.i);
    mend_border(u, channel, sums);
    store_channel(u, channel, sums);
  }
}

// ---- units
static Rows rows_of(const Unit *u, const Pieces *p) {
  Cg *c = u->g->c;
  V sums = u->p->waits ? cg_row(c, u->g->strip, p->i, cg_i64(c, u->p->sums)) : u->g->strip;
  return (Rows){p->i, sums, p->n};
}

static Pieces tiles_of(const Unit *u, Inside some) {
  return cg_some_pieces(u->g->c, some, u->p->s.dst_channels, u->g->p->mr);
}

static void panel_of_rows(const Unit *u, V vector, uint32_t nv, void *ctx) {
  Cg *c = u->g->c;
  Terms all = {.first = cg_i64(c, 0), .n = cg_i64(c, u->p->s.src_channels), .ends = true};
  sum_vectors(u, ctx, &all, vector, nv);
}

// Row by row of tiles: a strip stays in L1.
static void one_block(const Unit *u, Inside some) {
  Cg *c = u->g->c;
  copy_channels(u, cg_i64(c, 0), cg_i64(c, u->p->s.src_channels));
  for (Pieces p = tiles_of(u, some); cg_next_piece(&p);) {
    Rows r = rows_of(u, &p);
    each_panel(u, panel_of_rows, &r);
    finish(u, &r);
  }
}

typedef struct {
  Inside some;
  Terms terms;
} Block;

static void panel_of_block(const Unit *u, V vector, uint32_t nv, void *ctx) {
  const Block *b = ctx;
  for (Pieces p = tiles_of(u, b->some); cg_next_piece(&p);) {
    Rows r = rows_of(u, &p);
    sum_vectors(u, &r, &b->terms, vector, nv);
  }
}

static void add_block(const Unit *u, Inside some, Terms t) {
  copy_channels(u, t.first, t.n);
  each_panel(u, panel_of_block, &(Block){some, t});
}

static void several_blocks(const Unit *u, Inside some) {
  Cg *c = u->g->c;
  int64_t size = u->p->channels, all = u->p->s.src_channels, last = (all - 1) / size * size;
  V n = cg_i64(c, size);
  if (last) add_block(u, some, (Terms){cg_i64(c, 0), n, false, false});
  for (Loop l = cg_each_by(c, n, cg_i64(c, last), n); cg_next(&l);) add_block(u, some, (Terms){l.i, n, true, false});
  add_block(u, some, (Terms){cg_i64(c, last), cg_i64(c, all - last), last > 0, true});
  for (Pieces p = tiles_of(u, some); cg_next_piece(&p);) {
    Rows r = rows_of(u, &p);
    finish(u, &r);
  }
}

// Parts of a unit, each with channels of its own: several if all images together have few units.
static int64_t parts_of(Gemm *g, const Strips *p) {
  int64_t tiles = cg_ceil_div(p->s.dst_channels, g->p->mr), images = ir_dim_bound(g->c->f->prog, p->s.c.n);
  int64_t units = cg_larger(1, g->p->units * (p->crosses ? 1 : images));
  return cg_larger(1, cg_smaller(tiles, UNITS_WANTED / units));
}

// What part number `nth` of `all`, `size` at a time, has.
static V part_of(Cg *c, int64_t all, int64_t size, V nth, V *first) {
  *first = cg_times(c, nth, size);
  return all % size ? cg_min(c, cg_i64(c, size), cg_sub(c, cg_i64(c, all), *first)) : cg_i64(c, size);
}

// Of all rows of all images
static void set_rows(Unit *u, V number, V all) {
  Cg *c = u->g->c;
  V zero = cg_i64(c, 0), lines = cg_i64(c, u->p->lines);
  u->column = u->plane = u->channel = zero, u->columns = cg_i64(c, u->p->s.dst[2]);
  u->row = cg_mul(c, number, lines), u->lines = cg_min(c, lines, cg_sub(c, all, u->row));
  u->image = u->g->a, u->weights = u->g->b;
  u->planes = planes_inside(u);
}

// Number `number` of all images, groups, planes, bands and parts of rows
static void set_unit(Unit *u, V number) {
  Cg *c = u->g->c;
  const Strips *p = u->p;
  const ConvShape *s = &p->s;
  int64_t size[] = {p->parts, bands_of(p), s->dst[0]};
  V nth[3];
  for (uint32_t k = 0; k < 3; k++) {
    V n = cg_i64(c, size[k]);
    nth[k] = cg_rem(c, number, n), number = cg_div(c, number, n);
  }
  u->columns = part_of(c, s->dst[2], p->width, nth[0], &u->column);
  u->lines = part_of(c, s->dst[1], p->lines, nth[1], &u->row);
  u->plane = nth[2];
  u->image = cg_row(c, u->g->a, cg_times(c, number, s->src_channels), size_of(c, s->src));
  u->channel = cg_times(c, number, s->dst_channels);
  V group = cg_rem(c, number, cg_i64(c, s->c.groups));
  u->weights = cg_row(c, u->g->b, cg_times(c, group, s->dst_channels), cg_i64(c, s->rows));
  u->planes = planes_inside(u);
}

void cg_gemm_conv_planes_emit(Gemm *g) {
  Cg *c = g->c;
  Strips p = strips_of(c->f, g->p->product, c->t);
  if (g->p->units == 0 || p.s.dst_channels == 0) return;
  int64_t parts = parts_of(g, &p), tiles = cg_ceil_div(p.s.dst_channels, g->p->mr);
  V images = cg_dim(c, p.s.c.n), rows = cg_times(c, images, p.s.dst[1]);
  V count = p.crosses ? cg_ceil_div_value(c, rows, p.lines) : cg_times(c, images, g->p->units);
  Unit u = {.g = g, .p = &p};
  u.table = make_table(c, &p, place_of, ir_conv_taps(&p.s.c), "taps");
  u.phases = make_table(c, &p, row_phase, p.rows.n, "phases");
  for (Loop l = cg_each_shared(c, cg_times(c, count, parts), 1); cg_next(&l);) {
    Inside some = {NULL, NULL};
    if (parts > 1) some = cg_part(c, cg_i64(c, tiles), cg_div(c, l.i, count), parts);
    V number = parts > 1 ? cg_rem(c, l.i, count) : l.i;
    if (p.crosses) set_rows(&u, number, rows);
    else set_unit(&u, number);
    if (p.waits) several_blocks(&u, some);
    else one_block(&u, some);
  }
}
