// A step of the random generator: a public call of tests/random_calls.def, as a program of a user has it. The function of the
// generator is shown to the frontend as one that is built; every call sees it anew, so that values have no history there.
#include "tests/random_calls.h"
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/storage.h"

static const tn_site here = {"random.c", 1};

// ---- what rows of the table call
// x with another axis before its own
static tn_shape outer_shape(tn_tensor x, int64_t n) {
  tn_shape s = {.rank = tn_rank(x) + 1, .dims = {tn_dim_const(n)}};
  for (uint32_t k = 1; k < s.rank; k++) s.dims[k] = tn_dim_of(x, (int)k - 1);
  return s;
}

static tn_tensor permuted(tn_tensor x, int turn) {
  int perm[MAX_RANK], rank = (int)tn_rank(x);
  for (int k = 0; k < rank; k++) perm[k] = turn % 2 ? (k + 1 + turn) % rank : rank - 1 - k;
  return (tn_permute)(x, perm, (uint32_t)rank, here);
}

static tn_tensor meshed(Draw *d) {
  tn_tensor grid[2];
  (tn_meshgrid)((tn_tensor[]){d->x, (tn_sin)(d->x, here)}, 2, d->p, grid, here);
  return (tn_mul)(grid[0], grid[1], here);
}

static tn_tensor crossed(Draw *d) {
  tn_tensor a = draw_leaf(d, (int64_t[]){1 + d->i, 3}, 2), b = draw_leaf(d, (int64_t[]){1 + d->i, 3}, 2);
  return fe_ok(a) && fe_ok(b) ? (tn_cross)(a, b, -1, here) : TN_NONE;
}

static tn_tensor windowed(Draw *d) {
  int64_t n = 2 + gen_below(d->g, 16);
  tn_tensor x = draw_leaf(d, (int64_t[]){1 + d->i % 3, n + 4 * d->j}, 2), window = d->p ? draw_leaf(d, &n, 1) : TN_NONE;
  if (!fe_ok(x)) return TN_NONE;
  return (tn_stft)(x, n, (tn_stft_options){.hop = 1 + d->i, .window = window, .not_centered = d->q, .at = here});
}

// Extremes of an empty sequence are infinite.
static tn_tensor cut(tn_tensor x, double most) { return fe_ok(x) ? (tn_clamp)(x, -most, most, here) : x; }

static tn_tensor split_rows(Draw *d) {
  tn_packed part[2];
  (tn_packed_split)(d->s, (tn_packed_argmax)((tn_packed_with_data)(d->s, d->x, here), here), part, here);
  return part[d->p].data;
}

static tn_tensor labelled_rows(Draw *d) {
  int64_t classes = call_constant(d->x, -1);
  if (tn_rank(d->x) != 2 || !classes) return TN_NONE;
  tn_tensor most = (tn_constant_i64)(d->f, &(int64_t){classes - 1}, TN_SCALAR, here);
  tn_packed labels = (tn_packed_steps)(d->s, here);
  labels = (tn_packed_with_data)(labels, (tn_min)(labels.data, most, here), here);
  return (tn_packed_cross_entropy)(d->s, labels, (tn_loss_options){.reduction = (tn_reduction)(d->i % 3), .at = here});
}

// ---- the table
#define HOW ((tn_reduction)(i % 3))
typedef tn_tensor Expression(Draw *d, double *mag);
#define AT_LINE_(line) call_at_##line
#define AT_LINE(line) AT_LINE_(line)
#define CALL(name, source, bound, ...)                                                       \
  static tn_tensor AT_LINE(__LINE__)(Draw * d, double *mag) {                                \
    const tn_tensor x = d->x;                                                                \
    const tn_packed s = d->s;                                                                \
    const double m = d->m, number = d->number;                                               \
    const int i = d->i, j = d->j, axis = d->axis;                                            \
    const bool p = d->p, q = d->q;                                                           \
    (void)x, (void)s, (void)m, (void)number, (void)i, (void)j, (void)axis, (void)p, (void)q; \
    *mag = bound;                                                                            \
    return __VA_ARGS__;                                                                      \
  }
#include "tests/random_calls.def"

typedef struct {
  Source *source;
  Expression *call;
} Row;
#define CALL(name, source, bound, ...) {draw_##source, AT_LINE(__LINE__)},
static const Row rows[] = {
#include "tests/random_calls.def"
};
#define CALL(name, source, bound, ...) {#name, 0, 0},
static CallCount counts[] = {
#include "tests/random_calls.def"
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const CallCount *gen_calls(uint32_t *n) {
  *n = N_ROWS;
  return counts;
}

// The function as the frontend has one that is built
static void show(Gen *g, tn_program *p, tn_function *f) {
  *p = (tn_program){.mem = g->p->mem, .ir = g->p, .serial = 1};
  *f = (tn_function){.p = p, .ir = g->f, .name = ir_text(g->p, g->f->name), .rows = g->own_rows};
  f->n_scans = g->n_scans;
  g->rows = &f->rows;
  p->first = p->last = f;
}

// What a refused call leaves behind has no meaning.
typedef struct {
  uint32_t n_ins, n_args, n_attrs, n_inputs, n_params;
  Gen g;
} Before;

static Before before(const Gen *g) {
  const Fn *f = g->f;
  return (Before){f->n_ins, f->n_args, f->n_attrs, f->n_inputs, g->p->n_params, *g};
}

static void go_back(Gen *g, const Before *b) {
  Rng r = g->r;
  uint32_t serial = g->serial;
  for (uint32_t k = b->n_params; k < g->p->n_params; k++) g->param_used[k] = false;
  *g = b->g, g->r = r, g->serial = serial;
  g->f->n_ins = b->n_ins, g->f->n_args = b->n_args, g->f->n_attrs = b->n_attrs;
  g->f->n_inputs = b->n_inputs, g->p->n_params = b->n_params;
  ir_changed(g->f, (Val){b->n_ins});
}

static int some_axis(Draw *d, tn_tensor x) {
  int rank = (int)tn_rank(x), axis = rank ? (int)gen_below(d->g, (uint32_t)rank) : 0;
  return d->q ? axis - rank : axis;
}

static bool draw_numbers(Draw *d, const Row *row) {
  Gen *g = d->g;
  d->i = (int)gen_below(g, 8), d->j = (int)gen_below(g, 8);
  d->p = gen_chance(g, 50), d->q = gen_chance(g, 50);
  d->number = (double)gen_below(g, 17) / 4 - 2;
  d->x = row->source(d);
  if (fe_ok(d->x)) d->axis = some_axis(d, d->x);
  return fe_ok(d->x);
}

void add_call(Gen *g) {
  tn_program p;
  tn_function f;
  uint32_t k = gen_below(g, N_ROWS);
  double mag = 0;
  Draw d = {.g = g, .f = &f, .m = 2};
  Before b = before(g);
  show(g, &p, &f);
  tn_tensor y = draw_numbers(&d, &rows[k]) ? rows[k].call(&d, &mag) : TN_NONE;
  bool fits = fe_ok(y) && gen_is_small(g, gen_shape_at(g, fe_val(y)));
  counts[k].n += fits, counts[k].refused += !fits;
  g->own_rows = f.rows, g->rows = &g->own_rows, g->n_scans = f.n_scans;
  rt_diags_clear(&g->p->diags);
  if (!fits) go_back(g, &b);
  else if (gen_is_f32(g, fe_val(y))) gen_keep_tame(g, fe_val(y), mag);
  else gen_keep(g, fe_val(y), mag);
}
