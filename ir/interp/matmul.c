// Matrix products, gather and scatter.
#include "ir/fn.h"
#include "ir/interp/interp.h"

#include <string.h>

// C[m,n] = A B, where A(i,k) lies at a[i * ai + k * ak] and B(k,j) at b[k * bk + j * bj].
typedef struct {
  int64_t m, n, k, ai, ak, bk, bj;
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
      run_set_whole(r, y, at[2] + i * p->n + j, ir_modulo(t, (int64_t)sum));
    }
}

static void multiply(const Product *p, const double *a, const double *b, double *c) {
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      double sum = 0;
      for (int64_t k = 0; k < p->k; k++) sum += a[i * p->ai + k * p->ak] * b[k * p->bk + j * p->bj];
      c[i * p->n + j] = sum;
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
      c[i * p->n + j] = sum;
    }
}

// Strides of an operand's batch axes when read with the result's batch sizes; its matrices are `matrix` elements each.
static void batch_strides(Sizes s, const Sizes *batch, int64_t matrix, int64_t *stride) {
  s.rank -= 2;
  run_broadcast(&s, batch, stride);
  for (uint32_t k = 0; k < batch->rank; k++) stride[k] *= matrix;
}

bool eval_matmul(Run *r, Val v) {
  Tensor out = run_result(r, v, 0), a = run_arg(r, v, 0), b = run_arg(r, v, 1);
  Sizes sa = run_arg_sizes(r, v, 0), sb = run_arg_sizes(r, v, 1), batch = run_sizes(r, v);
  bool apart = ir_ins(r->f, v)->op == OP_square_distances;
  bool ta = ir_attr(r->f, v, KEY_ta), tb = ir_attr(r->f, v, KEY_tb) || apart;
  int64_t a0 = sa.dim[sa.rank - 2], a1 = sa.dim[sa.rank - 1], b0 = sb.dim[sb.rank - 2], b1 = sb.dim[sb.rank - 1];
  Product p = {.m = ta ? a1 : a0,
               .k = ta ? a0 : a1,
               .n = tb ? b0 : b1,
               .ai = ta ? 1 : a1,
               .ak = ta ? a1 : 1,
               .bk = tb ? 1 : b1,
               .bj = tb ? b1 : 1};
  batch.rank -= 2;
  int64_t stride_a[MAX_RANK], stride_b[MAX_RANK], each = p.m * p.n;
  batch_strides(sa, &batch, a0 * a1, stride_a);
  batch_strides(sb, &batch, b0 * b1, stride_b);
  DType t = (DType)ir_ins(r->f, v)->dtype;
  for (int64_t i = 0; each && i < out.n / each; i++) {
    int64_t at[] = {run_offset(&batch, stride_a, i), run_offset(&batch, stride_b, i), i * each};
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
  multiply(&(Product){.m = out.n / n, .n = n, .k = k, .ai = k, .ak = 1, .bk = 1, .bj = k}, x.v, w.v, out.v);
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
