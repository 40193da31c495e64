// Matrix products, gather and scatter.
#include "ir/fn.h"
#include "ir/interp/interp.h"
#include "ir/product.h"

#include <string.h>

// C[m,n] = A B, where A(i,k) lies at a[i * ai + k * ak], B(k,j) at b[k * bk + j * bj] and C(i,j) at c[i * ci + j].
typedef struct {
  int64_t m, n, k, ai, ak, bk, bj, ci;
} Product;

static void multiply_whole(Run *r, DType t, const Product *p, const Tensor *a, const Tensor *b, Tensor *y,
                           int64_t at[3]) {
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      uint64_t sum = 0;
      for (int64_t k = 0; k < p->k; k++) {
        int64_t x = run_whole(a, at[0] + i * p->ai + k * p->ak), w = run_whole(b, at[1] + k * p->bk + j * p->bj);
        sum += (uint64_t)x * (uint64_t)w;
      }
      run_set_whole(r, y, at[2] + i * p->ci + j, ir_modulo(t, (int64_t)sum));
    }
}

static void multiply(const Product *p, const double *a, const double *b, double *c) {
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < p->k; k++) sum += a[i * p->ai + k * p->ak] * b[k * p->bk + j * p->bj];
      c[i * p->ci + j] = sum;
    }
}

static void sum_squares_apart(const Product *p, const double *a, const double *b, double *c) {
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < p->k; k++) {
        double apart = a[i * p->ai + k * p->ak] - b[k * p->bk + j * p->bj];
        sum += apart * apart;
      }
      c[i * p->ci + j] = sum;
    }
}

// An operand or the result with the axes of the product: its sizes, and strides as it lies
typedef struct {
  Sizes size;
  int64_t stride[MAX_RANK];
} Axes;

static Axes axes_of(Run *r, Val v, uint32_t which) {
  Laid l = ir_laid(r->f, v, which);
  Axes to;
  to.size = which == LAID_RESULT ? run_sizes(r, v) : run_arg_sizes(r, v, which);
  const Sizes stored = to.size;
  int64_t own[MAX_RANK];
  run_strides(&stored, own);
  for (uint32_t k = 0; k < l.rank; k++) to.size.dim[k] = stored.dim[l.axis[k]], to.stride[k] = own[l.axis[k]];
  return to;
}

// Strides of its batch axes when read with the result's batch sizes
static void batch_strides(const Axes *from, const Sizes *batch, int64_t *stride) {
  uint32_t own = from->size.rank - 2;
  for (uint32_t k = 0; k < batch->rank; k++) {
    uint32_t at = k + own - batch->rank;
    bool has = k + own >= batch->rank && from->size.dim[at] != 1;
    stride[k] = has ? from->stride[at] : 0;
  }
}

bool eval_matmul(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0), b = run_arg(r, v, 1);
  Axes of_a = axes_of(r, v, LAID_A), of_b = axes_of(r, v, LAID_B), of_out = axes_of(r, v, LAID_RESULT);
  uint32_t i_a = of_a.size.rank - 2, i_b = of_b.size.rank - 2;
  Sizes batch = of_out.size;
  bool apart = ir_ins(r->f, v)->op == OP_square_distances;
  bool ta = ir_attr(r->f, v, KEY_ta), tb = ir_attr(r->f, v, KEY_tb) || apart;
  Product p = {.m = of_a.size.dim[i_a + ta],
               .k = of_a.size.dim[i_a + !ta],
               .n = of_b.size.dim[i_b + !tb],
               .ai = of_a.stride[i_a + ta],
               .ak = of_a.stride[i_a + !ta],
               .bk = of_b.stride[i_b + tb],
               .bj = of_b.stride[i_b + !tb],
               .ci = of_out.stride[batch.rank - 2]};
  batch.rank -= 2;
  int64_t stride_a[MAX_RANK], stride_b[MAX_RANK], each = p.m * p.n;
  batch_strides(&of_a, &batch, stride_a);
  batch_strides(&of_b, &batch, stride_b);
  DType t = (DType)ir_ins(r->f, v)->dtype;
  for (int64_t i = 0; each && i < out.n / each; i++) {
    int64_t at[] = {run_offset(&batch, stride_a, i), run_offset(&batch, stride_b, i),
                    run_offset(&batch, of_out.stride, i)};
    if (apart) sum_squares_apart(&p, a.v + at[0], b.v + at[1], out.v + at[2]);
    else if (t == DT_F32) multiply(&p, a.v + at[0], b.v + at[1], out.v + at[2]);
    else multiply_whole(r, t, &p, &a, &b, &out, at);
  }
  r->val[v.i] = out;
  return true;
}

bool eval_square_distances(Run *r, Val v) { return eval_matmul(r, v); }

bool eval_linear(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), x = run_arg(r, v, 0), w = run_arg(r, v, 1);
  Sizes sw = run_arg_sizes(r, v, 1);
  int64_t n = sw.dim[0], k = sw.dim[1];
  if (out.n == 0) return true;
  multiply(&(Product){.m = out.n / n, .n = n, .k = k, .ai = k, .ak = 1, .bk = 1, .bj = k, .ci = n}, x.v, w.v, out.v);
  Tensor bias = run_operand(r, v, ARG_bias);
  for (int64_t i = 0; bias.v && i < out.n; i++) out.v[i] += bias.v[i % n];
  return true;
}

static bool index_at(Run *r, Val v, int64_t i, int64_t *row) {
  Sizes weight = run_arg_sizes(r, v, 0);
  *row = (int64_t)run_arg(r, v, 1).v[i];
  bool is_none = *row == -1 && ir_attr(r->f, v, KEY_padded);
  if ((*row >= 0 && *row < weight.dim[0]) || is_none) return true;
  return run_fail(r, v, "index %lld at element %lld is not in [0, %lld)", (long long)*row, (long long)i,
                  (long long)weight.dim[0]);
}

bool eval_embedding(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), w = run_arg(r, v, 0), index = run_arg(r, v, 1);
  Sizes to = run_sizes(r, v);
  int64_t n = run_cols(&to), row;
  for (int64_t i = 0; i < index.n; i++) {
    if (!index_at(r, v, i, &row)) return false;
    for (int64_t j = 0; j < n && row >= 0; j++) out.v[i * n + j] = w.v[row * n + j];
  }
  return true;
}

bool eval_embedding_grad(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), index = run_arg(r, v, 1), g = run_arg(r, v, 2);
  Tensor addend = run_operand(r, v, ARG_addend);
  Sizes to = run_sizes(r, v);
  int64_t n = run_cols(&to), row;
  if (addend.v && out.n) memcpy(out.v, addend.v, (size_t)out.n * sizeof *out.v);
  for (int64_t i = 0; i < index.n; i++) {
    if (!index_at(r, v, i, &row)) return false;
    for (int64_t j = 0; j < n && row >= 0; j++) out.v[row * n + j] += g.v[i * n + j];
  }
  return true;
}
