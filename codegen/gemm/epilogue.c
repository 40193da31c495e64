// The epilogue on strips of sums (gemm.h): pointwise instructions, and the update of a parameter whose
// gradient is the sums, or a result of these instructions.
#include "codegen/gemm/gemm.h"
#include "ir/storage.h"

static Val gradient(const Gemm *g) { return ir_gradient_of(g->c->f, g->p->update); }

// What is left in the strips for the end of the kernel; none: the product.
static Val left_in_strips(const Gemm *g) {
  if (!ir_none(g->p->first)) return ir_arg(g->c->f, g->p->first, 0);
  if (ir_none(g->p->update)) return (Val){0};
  return cg_stored(g->c, gradient(g)) ? (Val){0} : gradient(g);
}

Val cg_gemm_update(const Fn *f, Val product) {
  const Kernel *k = &f->kernels[f->kernel_of[product.i]];
  Val last = ir_head(f, (Val){k->first + k->n - 1});
  return ir_ops[ir_ins(f, last)->op].cls == CLASS_OPTIMIZER ? last : (Val){0};
}

bool cg_gemm_begin_epilogue(Gemm *g) {
  Cg *c = g->c;
  if (!g->p->epilogue) return true;
  g->epilogue = cg_epilogue_new(c, left_in_strips(g));
  if (!g->epilogue) return false;
  g->update_scalars = rt_alloc(c->mem, sizeof *g->update_scalars);
  if (!ir_none(g->p->update)) cg_update_scalars(c, g->update_scalars, g->p->update);
  return true;
}

// `n` elements from number `at` on; their gradients lie at `from`, or where they are stored.
static void update(Gemm *g, V at, V n, V from) {
  Cg *c = g->c;
  V x[MAX_TENSORS];
  uint32_t n_res = ir_ops[ir_ins(c->f, g->p->update)->op].n_res;
  for (uint32_t k = 0; k < n_res; k++) x[k] = cg_at(c, c->f32, cg_ptr(c, ir_arg(c->f, g->p->update, k)), at);
  x[n_res] = cg_stored(c, gradient(g)) ? cg_at(c, c->f32, cg_ptr(c, gradient(g)), at) : from;
  cg_update_call(c, g->update_scalars, x, cg_i64(c, 0), n);
}

// Pixels [row, row + rows) of one image, channels [n0, n0 + n), to where the permute and its outputs are stored.
static void store_first(Gemm *g, V row, V rows, V n0, V n, V from, V stride) {
  Cg *c = g->c;
  DimList pixels = g->p->m;
  pixels.n--;
  for (uint32_t k = 0; k < pixels.n; k++) pixels.dim[k] = pixels.dim[k + 1];
  V plane = cg_dims_product(c, &pixels), image = cg_div(c, row, plane), pixel = cg_rem(c, row, plane);
  V channel = cg_add(c, cg_mul(c, image, g->n), n0), at = cg_add(c, cg_mul(c, channel, plane), pixel);
  for (uint32_t i = g->p->first.i; i < c->k->first + c->k->n; i++)
    if (cg_stored(c, (Val){i}))
      cg_store_transposed(c, from, stride, rows, n, cg_at(c, c->f32, cg_ptr(c, (Val){i}), at), plane);
}

void cg_gemm_epilogue(Gemm *g, V row, V rows, V n0, V n, V from, V stride) {
  Cg *c = g->c;
  bool works = cg_epilogue_works(g->epilogue), updates = !ir_none(g->p->update);
  int64_t whole;
  if (updates && !works && cg_is_int(n0, 0) && cg_const_value(g->n, &whole) && cg_is_int(n, whole) &&
      cg_is_int(stride, whole)) {
    update(g, cg_mul(c, row, n), cg_mul(c, rows, n), from);
    return;
  }
  for (Loop l = cg_count(c, rows); cg_next(&l);) {
    V at = cg_add(c, row, cg_gemm_rows(g, l.i)), sums = cg_row(c, from, l.i, stride);
    if (works) cg_epilogue_row(g->epilogue, at, sums, n0, cg_add(c, n0, n));
    if (updates) update(g, cg_index(c, at, g->n, n0), n, sums);
  }
  if (!ir_none(g->p->first)) store_first(g, row, rows, n0, n, from, stride);
}
