// Bags of rows of a table, and their gradients.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/interp/interp.h"

typedef struct {
  Tensor table, index, offsets, factor, g;
  int64_t rows, width, n_bags, length;
  const Attr *padding;
} Bags;

static Bags bags_of(Run *r, Val v) {
  Bags b = {
      .table = run_operand(r, v, ARG_weight), .index = run_operand(r, v, ARG_index), .g = run_operand(r, v, ARG_g)};
  Sizes table = run_sizes(r, ir_operand(r->f, v, ARG_weight)), own = run_sizes(r, ir_operand(r->f, v, ARG_index));
  b.offsets = run_operand(r, v, ARG_offsets), b.factor = run_operand(r, v, ARG_factor);
  b.rows = table.dim[0], b.width = table.dim[1];
  b.n_bags = b.offsets.v ? b.offsets.n : own.dim[0], b.length = b.offsets.v ? 0 : own.dim[1];
  b.padding = ir_attr(r->f, v, KEY_padding);
  return b;
}

static bool range_of(Run *r, Val v, const Bags *b, int64_t k, int64_t *start, int64_t *end) {
  *start = b->offsets.v ? (int64_t)b->offsets.v[k] : k * b->length;
  *end = !b->offsets.v ? *start + b->length : k + 1 < b->n_bags ? (int64_t)b->offsets.v[k + 1] : b->index.n;
  if (*start >= 0 && *start <= *end && *end <= b->index.n) return true;
  return run_fail(r, v, "bag %lld is [%lld, %lld) of %lld", (long long)k, (long long)*start, (long long)*end,
                  (long long)b->index.n);
}

// Applies index j of bag k.
typedef void EachIndex(const Bags *b, int64_t k, int64_t j, int64_t row, void *ctx);

static bool each_index(Run *r, Val v, const Bags *b, EachIndex *fn, void *ctx) {
  int64_t start, end;
  for (int64_t k = 0; k < b->n_bags; k++) {
    if (!range_of(r, v, b, k, &start, &end)) return false;
    for (int64_t j = start; j < end; j++) {
      int64_t row = (int64_t)b->index.v[j];
      if (row < 0 || row >= b->rows)
        return run_fail(r, v, "index %lld at element %lld is not in [0, %lld)", (long long)row, (long long)j,
                        (long long)b->rows);
      if (!b->padding || row != b->padding->u.i) fn(b, k, j, row, ctx);
    }
  }
  return true;
}

typedef struct {
  Tensor y, count, rows;  // rows: of the largest; v NULL for sums
} BagResults;

static void add_index(const Bags *b, int64_t k, int64_t j, int64_t row, void *ctx) {
  BagResults *to = ctx;
  for (int64_t i = 0; i < b->width; i++) {
    double x = b->table.v[row * b->width + i], *y = &to->y.v[k * b->width + i];
    if (!to->rows.n) *y += x * (b->factor.v ? b->factor.v[j] : 1);
    else if (to->count.v[k] == 0 || x > *y) *y = x, to->rows.v[k * b->width + i] = (double)row;
  }
  to->count.v[k]++;
}

bool eval_embedding_bag(Run *r, Val v) {
  BagResults to = {run_result(r, v, 0), run_result(r, v, 1), run_result(r, v, 2)};
  Bags b = bags_of(r, v);
  return each_index(r, v, &b, add_index, &to);
}

static void add_gradient(const Bags *b, int64_t k, int64_t j, int64_t row, void *ctx) {
  double *to = ctx;
  for (int64_t i = 0; i < b->width; i++)
    to[row * b->width + i] += b->g.v[k * b->width + i] * (b->factor.v ? b->factor.v[j] : 1);
}

bool eval_embedding_bag_grad(Run *r, Val v) {
  Bags b = bags_of(r, v);
  return each_index(r, v, &b, add_gradient, run_result(r, v, 0).v);
}

static void add_product(const Bags *b, int64_t k, int64_t j, int64_t row, void *ctx) {
  double *to = ctx;
  for (int64_t i = 0; i < b->width; i++) to[j] += b->table.v[row * b->width + i] * b->g.v[k * b->width + i];
}

bool eval_embedding_bag_factor(Run *r, Val v) {
  Bags b = bags_of(r, v);
  return each_index(r, v, &b, add_product, run_result(r, v, 0).v);
}

// ---- the gradient of an update by rows
typedef struct {
  Tensor to, best;
  bool *named;
  int64_t *bag;  // by row: the last one that added to it, and 1
} TableGradient;

static void add_to_table(const Bags *b, int64_t k, int64_t j, int64_t row, void *ctx) {
  TableGradient *t = ctx;
  bool again = t->best.v && t->bag[row] == k + 1;  // the row that has the largest element counts once for a bag
  t->named[row] = true, t->bag[row] = k + 1;
  for (int64_t i = 0; i < b->width && !again; i++) {
    bool has_it = !t->best.v || (int64_t)t->best.v[k * b->width + i] == row;
    if (has_it) t->to.v[row * b->width + i] += b->g.v[k * b->width + i] * (b->factor.v ? b->factor.v[j] : 1);
  }
}

bool run_rows_of_update(Run *r, Val v, Tensor *gradient, bool **named) {
  Tensor table = run_arg(r, v, 0);
  Sizes size = run_arg_sizes(r, v, 0), own = run_sizes(r, ir_operand(r->f, v, ARG_index));
  Val grad = ir_operand(r->f, v, ARG_grad);
  Bags b = {.index = run_operand(r, v, ARG_index), .g = run_operand(r, v, ARG_grad), .length = 1};
  b.offsets = run_operand(r, v, ARG_offsets), b.factor = run_operand(r, v, ARG_factor);
  b.rows = size.dim[0], b.width = size.dim[1], b.n_bags = b.index.n;
  if (own.rank == 2 && ir_rank(r->f->prog, ir_ins(r->f, grad)->shape) == 2)
    b.n_bags = own.dim[0], b.length = own.dim[1];
  if (b.offsets.v) b.n_bags = b.offsets.n, b.length = 0;
  b.padding = ir_attr(r->f, v, KEY_padding);
  TableGradient t = {.to = {.v = rt_alloc(r->env->mem, (size_t)table.n * sizeof(double)), .n = table.n},
                     .best = run_operand(r, v, ARG_best),
                     .named = rt_alloc(r->env->mem, (size_t)b.rows),
                     .bag = rt_alloc(r->env->mem, (size_t)b.rows * sizeof(int64_t))};
  *gradient = t.to, *named = t.named;
  return each_index(r, v, &b, add_to_table, &t);
}
