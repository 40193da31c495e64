// What strategies, packing and prefetch compute with: sizes that a plan compares, equal KC blocks, where the matrix of a
// batch begins, private blocks on the stack.
#include "codegen/gemm/gemm.h"
#include "ir/storage.h"

// ---- before any code
// Batch axis i of the result in an operand of `rank` axes; none: the operand lacks the axis, or its size is
// 1.
static Dim batch_axis(const Fn *f, const Laid *l, uint32_t n_batch, uint32_t i) {
  uint32_t own = l->rank - 2;
  if (i + own < n_batch) return (Dim){0};
  Dim d = ir_laid_dim(f->prog, l, i + own - n_batch);
  return ir_dim_is_one(f->prog, d) ? (Dim){0} : d;
}

bool cg_read_batch(const Fn *f, const Laid s[3], DimList *batch, Dim *of_a, Dim *of_b) {
  bool b_has_batch = false;
  batch->n = s[LAID_RESULT].rank - 2;
  for (uint32_t i = 0; i < batch->n; i++) {
    batch->dim[i] = ir_laid_dim(f->prog, &s[LAID_RESULT], i);
    of_a[i] = batch_axis(f, &s[LAID_A], batch->n, i);
    of_b[i] = batch_axis(f, &s[LAID_B], batch->n, i);
    b_has_batch |= of_b[i].i != 0;
  }
  return b_has_batch;
}

bool cg_constant_weight(const Fn *f, Val b, uint32_t *param) {
  Val base = ir_view_base(f, b);
  if (ir_ins(f, base)->op != OP_param || !ir_shape_is_const(f->prog, ir_ins(f, b)->shape)) return false;
  *param = (uint32_t)ir_attr_int(f, base, KEY_param, 0);
  return !f->writes_param[*param];
}

bool cg_gemm_is_one_row(const Fn *f, const GemmPlan *p) {
  for (uint32_t i = 0; i < p->m.n; i++)
    if (!ir_dim_is_one(f->prog, p->m.dim[i])) return false;
  return true;
}

bool cg_gemm_b_exceeds_llc(const GemmPlan *p, const Target *t) {
  return p->n_max * p->k_max > ir_f32_in(t->facts.llc_bytes);
}

bool cg_gemm_b_streams(const Fn *f, Val product, const Target *t) {
  Val b = ir_arg(f, product, 1), base = ir_view_base(f, b);
  int64_t bytes = ir_ins(f, base)->op == OP_param ? f->param_bytes : 0;
  int64_t n = ir_shape_bound(f->prog, ir_ins(f, b)->shape);
  return bytes > t->facts.llc_bytes || n > t->facts.llc_bytes / ir_dtype_bytes[ir_ins(f, b)->dtype];
}

int64_t cg_gemm_window_elements(const GemmPlan *p) {
  return cg_ceil_div(p->window_rows, p->mr) * p->a_tile * p->window_k;
}

int64_t cg_gemm_even_kc(int64_t k, int64_t most, int64_t unit) {
  int64_t n = cg_ceil_div(k, most);
  return n <= 1 ? cg_round_up(cg_larger(k, 1), unit) : cg_round_up(cg_ceil_div(k, n), unit);
}

int64_t cg_gemm_kc(int64_t k, int64_t most, const Target *t) {
  bool parts = k > most && most % t->partial_sum == 0;
  return cg_gemm_even_kc(k, most, parts ? t->partial_sum : t->vl);
}

// ---- in code
int64_t cg_dims_bound(const Prog *p, const DimList *l) {
  int64_t n = 1;
  for (uint32_t i = 0; i < l->n; i++) n *= ir_dim_bound(p, l->dim[i]);
  return n;
}

V cg_dims_product(Cg *c, const DimList *l) {
  V n = cg_i64(c, 1);
  for (uint32_t i = 0; i < l->n; i++) n = cg_mul(c, n, cg_dim(c, l->dim[i]));
  return n;
}

V cg_laid_stride(Cg *c, const Laid *l, uint32_t axis, uint32_t but) {
  V n = cg_i64(c, 1);
  for (uint32_t k = l->axis[axis] + 1u; k + but < l->rank; k++)
    n = cg_mul(c, n, cg_dim(c, ir_dim_at(c->f->prog, l->shape, k)));
  return n;
}

// Of axes that lie in another order than the batch has: each coordinate of `index` has a stride of its own.
static V laid_offset(Cg *c, const DimList *batch, const Dim *own, const Laid *l, V index, uint32_t but) {
  V off = cg_i64(c, 0);
  for (uint32_t i = batch->n; i-- > 0;) {
    V size = cg_dim(c, batch->dim[i]);
    V stride = own[i].i ? cg_laid_stride(c, l, i + l->rank - 2 - batch->n, but) : NULL;
    if (stride) off = cg_add(c, off, cg_mul(c, i ? cg_rem(c, index, size) : index, stride));
    index = cg_div(c, index, size);
  }
  return off;
}

static V dense_offset(Cg *c, const DimList *batch, const Dim *own, V index, V matrix) {
  V off = cg_i64(c, 0), stride = matrix;
  bool has_all = true;
  for (uint32_t i = 0; i < batch->n; i++) has_all &= own[i].i != 0;
  if (has_all) return cg_mul(c, index, matrix);
  for (uint32_t i = batch->n; i-- > 0;) {
    V size = cg_dim(c, batch->dim[i]);
    if (own[i].i) {
      off = cg_add(c, off, cg_mul(c, i ? cg_rem(c, index, size) : index, stride));
      stride = cg_mul(c, stride, size);
    }
    index = cg_div(c, index, size);
  }
  return off;
}

V cg_gemm_batch(Gemm *g, uint32_t which, V index) {
  const GemmPlan *p = g->p;
  const Dim *own = which == LAID_A ? p->a_batch : p->b_batch;
  if (p->laid[which].moves) return laid_offset(g->c, &p->batch, own, &p->laid[which], index, 0);
  return dense_offset(g->c, &p->batch, own, index,
                      which == LAID_A ? cg_mul(g->c, g->m, g->k) : cg_mul(g->c, g->k, g->n));
}

V cg_gemm_first_row(Gemm *g, V index) {
  const GemmPlan *p = g->p;
  if (!p->laid[LAID_RESULT].moves) return cg_mul(g->c, index, g->m);
  return laid_offset(g->c, &p->batch, p->batch.dim, &p->laid[LAID_RESULT], index, 1);
}

V cg_gemm_rows(const Gemm *g, V n) { return cg_mul(g->c, n, g->row_step); }

V cg_gemm_on_stack(Cg *c, int64_t elements) { return cg_block(c, c->f32, elements); }
