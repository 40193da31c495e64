// Bags of rows of a table, and their gradients.
#include "ir/fn.h"
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
