// Images read at places that the program computes. Each place is read as rows of channels, a row for each corner of the square, or
// cube, of elements around it:
//
//   tn_grid_sample(x: f32[N,C,H,W], grid: f32[N,h,w,2])
//     %r = x as rows [N H W, C]      %t = coordinates less their floors [N h w, 1]
//     four corners:  %k = ((n H + row) W + column), outside -1     embedding %r, %k {padded}     times the products of t or
//     1 - t     summed
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/promote.h"
#include "frontend/graph/report.h"
#include "frontend/graph/shape.h"
#include "frontend/graph/spatial.h"

typedef struct {
  tn_function *f;
  uint32_t n;  // spatial axes
  Dim sizes[SPATIAL_AXES];
  tn_tensor size[SPATIAL_AXES];   // f32
  tn_tensor place[SPATIAL_AXES];  // in elements along each axis, [places, 1]
  Dim batch, each, places;        // images; places of one, of all
  tn_grid_sample_options o;
} Grid;

static tn_tensor op2(const Grid *g, Op op, tn_tensor a, tn_tensor b) { return fe_binary(op, a, b, g->o.at); }
static tn_tensor by(const Grid *g, Op op, tn_tensor a, double b) { return fe_with_number(op, a, b, g->o.at); }
static tn_tensor op1(const Grid *g, Op op, tn_tensor a) { return fe_emit1(op, a, g->o.at); }
static tn_tensor pick(const Grid *g, tn_tensor is, tn_tensor a, tn_tensor b) {
  return fe_emit(OP_select, (const tn_tensor[]){is, a, b}, 3, NULL, 0, g->o.at);
}
static tn_tensor number(const Grid *g, double x) { return fe_const(g->f, x, g->o.at); }

// ---- where: -1 and 1 are the outermost elements' middles with align_corners, else their edges
static tn_tensor in_elements(const Grid *g, tn_tensor c, tn_tensor size) {
  tn_tensor from_0 = by(g, OP_add, c, 1);
  if (g->o.align_corners) return op2(g, OP_mul, by(g, OP_mul, from_0, 0.5), by(g, OP_sub, size, 1));
  return by(g, OP_mul, by(g, OP_sub, op2(g, OP_mul, from_0, size), 1), 0.5);
}

// The nearest element's place; no gradient flows where it is not the place itself, or at an outermost element. NaN is 0.
static tn_tensor clipped(const Grid *g, tn_tensor x, tn_tensor size) {
  tn_tensor last = by(g, OP_sub, size, 1), zero = number(g, 0);
  return pick(g, op2(g, OP_gt, x, zero), pick(g, op2(g, OP_lt, x, last), x, last), zero);
}

// To and fro between the middles, or the edges, of the outermost elements.
static tn_tensor reflected(const Grid *g, tn_tensor x, tn_tensor size) {
  double low = g->o.align_corners ? 0 : -0.5;
  tn_tensor span = g->o.align_corners ? by(g, OP_sub, size, 1) : size, zero = number(g, 0);
  tn_tensor from = by(g, OP_sub, x, low), is_below = op2(g, OP_lt, from, zero);
  tn_tensor away = pick(g, is_below, op1(g, OP_neg, from), from), rest = op2(g, OP_fmod, away, span);
  tn_tensor turns = op1(g, OP_floor, op2(g, OP_div, away, span));
  tn_tensor is_odd = by(g, OP_fmod, turns, 2),
            back = by(g, OP_add, pick(g, is_odd, op2(g, OP_sub, span, rest), rest), low);
  return g->o.align_corners ? pick(g, op2(g, OP_gt, span, zero), back, zero) : back;
}

// A place without an element beside it, NaN and infinities too, is -2: all of its corners are outside, and nothing flows to it.
static tn_tensor or_outside(const Grid *g, tn_tensor x, tn_tensor size) {
  tn_tensor is_near = op2(g, OP_mul, op2(g, OP_ge, x, number(g, -1)), op2(g, OP_lt, x, size));
  return pick(g, is_near, x, number(g, -2));
}

static tn_tensor place_along(const Grid *g, tn_tensor c, tn_tensor size) {
  tn_tensor x = in_elements(g, c, size);
  if (g->o.padding == TN_GRID_REFLECTION) x = reflected(g, x, size);
  return g->o.padding == TN_GRID_ZEROS ? or_outside(g, x, size) : clipped(g, x, size);
}

// false: reported. The first number of a place is along the last axis.
static bool find_places(Grid *g, tn_tensor grid) {
  Prog *p = g->f->p->ir;
  Dim d[] = {g->places, ir_dim(p, g->n)};
  tn_tensor all = fe_reshape(grid, d, 2, g->o.at);
  for (uint32_t k = 0; k < g->n; k++) {
    g->size[k] = fe_size(g->f, g->sizes[k], g->o.at);
    g->place[k] = place_along(g, fe_slice(all, 1, g->n - 1 - k, 1, g->o.at), g->size[k]);
    if (g->o.nearest) g->place[k] = op1(g, OP_round, g->place[k]);
    if (!fe_ok(g->place[k])) return false;
  }
  return true;
}

// ---- what is there
// i64 [places, 1]: which image
static tn_tensor image_numbers(const Grid *g) {
  Prog *p = g->f->p->ir;
  Dim column[] = {g->batch, ir_dim(p, 1)}, all[] = {g->batch, g->each}, rows[] = {g->places, ir_dim(p, 1)};
  tn_tensor n = fe_cast(fe_positions(g->f, g->batch, g->o.at), DT_I64, g->o.at),
            wide = fe_reshape(n, column, 2, g->o.at);
  if (!fe_ok(wide)) return wide;
  wide = fe_emit(OP_expand, &wide, 1, (const Attr[]){ir_a_list(KEY_shape, ir_shape(p, all, 2))}, 1, g->o.at);
  return fe_reshape(wide, rows, 2, g->o.at);
}

// The elements of one corner, times its weight: bit k of `corner` says whether it is the one behind the place along axis k. One
// that does not exist has row -1, of zeros.
static tn_tensor corner_of(const Grid *g, tn_tensor rows, tn_tensor index, uint32_t corner) {
  tn_tensor weight = number(g, 1), exists = number(g, 1), zero = number(g, 0);
  const Attr padded = ir_a_int(KEY_padded, 1);
  for (uint32_t k = 0; k < g->n; k++) {
    tn_tensor first = op1(g, OP_floor, g->place[k]), part = op2(g, OP_sub, g->place[k], first);
    bool is_behind = corner >> k & 1;
    tn_tensor at = is_behind ? by(g, OP_add, first, 1) : first;
    tn_tensor is_in = op2(g, OP_mul, op2(g, OP_ge, at, zero), op2(g, OP_lt, at, g->size[k]));
    tn_tensor whole = fe_cast(pick(g, is_in, at, zero), DT_I64, g->o.at);
    index = op2(g, OP_add, op2(g, OP_mul, index, fe_whole_size(g->f, g->sizes[k], g->o.at)), whole);
    weight = op2(g, OP_mul, weight, is_behind ? part : op2(g, OP_sub, number(g, 1), part));
    exists = op2(g, OP_mul, exists, is_in);
  }
  index = pick(g, fe_cast(exists, DT_I64, g->o.at), index, fe_number(g->f, -1, DT_I64, g->o.at));
  tn_tensor in[] = {rows, fe_reshape(index, &g->places, 1, g->o.at)};
  tn_tensor row = fe_emit(OP_embedding, in, 2, &padded, 1, g->o.at);
  return g->o.nearest ? row : op2(g, OP_mul, row, weight);
}

static tn_tensor sampled(const Grid *g, tn_tensor x) {
  Prog *p = g->f->p->ir;
  Dim d[] = {g->batch, fe_axis_dim(x, 1)};
  for (uint32_t k = 0; k < g->n; k++) d[0] = ir_dim_mul(p, d[0], g->sizes[k]);
  tn_tensor rows = fe_reshape(fe_channels_last(x, g->o.at), d, 2, g->o.at), index = image_numbers(g);
  tn_tensor sum = corner_of(g, rows, index, 0);
  for (uint32_t k = 1; k < (g->o.nearest ? 1u : 1u << g->n); k++)
    sum = op2(g, OP_add, sum, corner_of(g, rows, index, k));
  return sum;
}

static tn_tensor refuse(const Grid *g, tn_tensor x, tn_tensor grid, int id, const char *text) {
  fe_error(g->f->p, id, g->o.at, "%s", text);
  fe_note_value(x, "the image");
  fe_note_value(grid, "the grid");
  return fe_poison(g->f);
}

static bool is_grid_of(tn_tensor x, tn_tensor grid) {
  uint32_t r = fe_rank(x);
  Prog *p = x.fn->p->ir;
  if ((r != 4 && r != 5) || fe_rank(grid) != r) return false;
  return fe_axis_dim(grid, 0).i == fe_axis_dim(x, 0).i && fe_axis_dim(grid, r - 1).i == ir_dim(p, r - 2).i;
}

tn_tensor tn_grid_sample(tn_tensor x, tn_tensor grid, tn_grid_sample_options o) {
  Grid g = {.o = o};
  if (!fe_join((const tn_tensor[]){x, grid}, 2, &g.f, o.at)) return fe_poison(g.f);
  FE_GUARD(g.f->p, fe_poison(g.f));
  Prog *p = g.f->p->ir;
  if (fe_ins(x)->dtype != DT_F32 || fe_ins(grid)->dtype != DT_F32)
    return refuse(&g, x, grid, E_DTYPE, "images and grids are f32");
  if (!is_grid_of(x, grid))
    return refuse(&g, x, grid, E_SHAPE,
                  "a grid is [N, h, w, 2] for images [N, C, H, W], or [N, d, h, w, 3] for [N, C, D, H, W]");
  if ((unsigned)o.padding > TN_GRID_REFLECTION)
    return refuse(&g, x, grid, E_ARGUMENT, "padding is TN_GRID_ZEROS, _BORDER or _REFLECTION");
  Dim d[MAX_RANK], one = ir_dim(p, 1);
  g.n = fe_rank(x) - 2, g.batch = d[0] = fe_axis_dim(x, 0), g.each = one;
  for (uint32_t k = 0; k < g.n; k++) {
    g.sizes[k] = fe_axis_dim(x, 2 + k), d[1 + k] = fe_axis_dim(grid, 1 + k), g.each = ir_dim_mul(p, g.each, d[1 + k]);
    if (ir_dim_is_const(p, g.sizes[k]) && ir_dim_bound(p, g.sizes[k]) == 0)
      return refuse(&g, x, grid, E_SHAPE, "an image without elements has nothing to read");
  }
  g.places = ir_dim_mul(p, g.batch, g.each), d[1 + g.n] = fe_axis_dim(x, 1);
  if (!find_places(&g, grid)) return fe_poison(g.f);
  tn_tensor y = fe_reshape(sampled(&g, x), d, g.n + 2, o.at);
  return fe_made(fe_channels_first(y, o.at), o.at);
}
