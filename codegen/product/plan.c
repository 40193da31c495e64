// What is known of a product before any code is emitted (product.h): operands and sizes, modifiers, and the first
// strategy of strategies.def that fits. By bounds and constants alone, so that sums do not depend on the team.
#include "ir/passes/plan.h"
#include "codegen/product/product.h"
#include "codegen/tuning.h"
#include "ir/conv.h"

enum { TUNED_PRODUCT(TUNE) };

// ---- operands and sizes
static void read_linear(const Fn *f, Val v, GemmPlan *p) {
  Shape x = ir_ins(f, p->a)->shape, w = ir_ins(f, p->b)->shape;
  uint32_t r = ir_rank(f->prog, x);
  p->tb = true;
  for (uint32_t i = 0; i + 1 < r; i++) p->m.dim[p->m.n++] = ir_dim_at(f->prog, x, i);
  p->k = ir_dim_at(f->prog, x, r - 1);
  p->n = ir_dim_at(f->prog, w, 0);
  p->bias = ir_operand(f, v, ARG_bias);
}

static void read_matmul(const Fn *f, Val v, GemmPlan *p) {
  for (uint32_t k = 0; k < 3; k++) p->laid[k] = ir_laid(f, v, k);
  const Laid *a = &p->laid[LAID_A], *out = &p->laid[LAID_RESULT];
  uint32_t r = out->rank, ra = a->rank;
  p->ta = ir_attr(f, v, KEY_ta) != NULL;
  p->apart = ir_ins(f, v)->op == OP_square_distances;
  p->tb = p->apart || ir_attr(f, v, KEY_tb) != NULL;
  p->k = ir_laid_dim(f->prog, a, p->ta ? ra - 2 : ra - 1);
  p->n = ir_laid_dim(f->prog, out, r - 1);
  p->b_has_batch = cg_read_batch(f, p->laid, &p->batch, p->a_batch, p->b_batch);
  if (!p->b_has_batch && !p->ta && ra == r &&
      cg_gemm_is_dense(p)) {  // one matrix for all of the batch: its axes are rows
    p->m = p->batch;
    p->batch.n = 0;
  }
  p->m.dim[p->m.n++] = ir_laid_dim(f->prog, out, r - 2);
}

// Rows are the pixels of all images.
static void read_conv(const Fn *f, Val v, GemmPlan *p) {
  Conv c;
  ir_conv(f, v, &c);
  Shape out = ir_ins(f, v)->shape;
  uint32_t r = ir_rank(f->prog, out);
  for (uint32_t i = 0; i + 1 < r; i++) p->m.dim[p->m.n++] = ir_dim_at(f->prog, out, i);
  p->is_conv = true;
  p->n = ir_dim_at(f->prog, out, r - 1);
  p->k = ir_dim(f->prog, ir_conv_taps(&c) * (ir_ins(f, v)->op == OP_conv ? c.c : c.o) / c.groups);
}

static int64_t ld_bound(const Fn *f, const Laid *l, int64_t dense) {
  int64_t n = 1;
  for (uint32_t k = l->moves ? l->axis[l->rank - 2] + 1u : l->rank; k < l->rank; k++)
    n *= ir_dim_bound(f->prog, ir_dim_at(f->prog, l->shape, k));
  return l->moves ? n : dense;
}

static GemmPlan read_product(const Fn *f, Val v) {
  GemmPlan p = {.product = v, .a = ir_arg(f, v, 0), .b = ir_arg(f, v, 1)};
  if (ir_ins(f, v)->op == OP_linear) read_linear(f, v, &p);
  else if (ir_ins(f, v)->op == OP_matmul || ir_ins(f, v)->op == OP_square_distances) read_matmul(f, v, &p);
  else read_conv(f, v, &p);
  if (ir_dim_is_one(f->prog, p.k)) {  // a column is stored as a row is
    p.ta &= p.laid[LAID_A].moves;
    p.tb &= p.laid[LAID_B].moves;
  }
  p.m_max = cg_dims_bound(f->prog, &p.m), p.n_max = ir_dim_bound(f->prog, p.n), p.k_max = ir_dim_bound(f->prog, p.k);
  p.batch_max = cg_dims_bound(f->prog, &p.batch);
  p.a_ld_max = ld_bound(f, &p.laid[LAID_A], p.ta ? p.m_max : p.k_max);
  p.b_ld_max = ld_bound(f, &p.laid[LAID_B], p.tb ? p.k_max : p.n_max);
  return p;
}

// ---- modifiers
// A is cheap to recompute: every worker runs all of its prologue.
static bool has_private_a(const Fn *f, Val v, const GemmPlan *p, const Target *t) {
  int64_t n = p->m_max * p->k_max;
  return n <= ir_f32_in(t->facts.l2_bytes / L2_PART) && n * cg_prologue_cost(f, v) <= PRIVATE_WORK;
}

static GemmPrologue prologue_of(const Fn *f, Val v, const GemmPlan *p, const Target *t) {
  uint32_t first = f->kernels[f->kernel_of[v.i]].first;
  if (first == v.i) return PROLOGUE_NONE;
  if (p->is_conv) return PROLOGUE_A_BY_STRIP;
  if (ir_arg(f, v, 0).i < first) return PROLOGUE_B;
  return has_private_a(f, v, p, t) ? PROLOGUE_A_PRIVATE : PROLOGUE_A_SHARED;
}

// Instructions behind the product in its kernel, except moments of their results.
static uint32_t n_after(const Fn *f, Val v) { return ir_end_of_elements(f, &f->kernels[f->kernel_of[v.i]]) - 1 - v.i; }

// Storage of the unmodified product: its own buffer, or the output that alone follows it.
static Val stored_as(const Fn *f, Val v) {
  Val next = {v.i + 1};
  bool is_output = n_after(f, v) == 1 && !(f->buf_of && f->buf_of[v.i]) && ir_ins(f, next)->op == OP_output &&
                   ir_arg(f, next, 0).i == v.i;
  return is_output ? next : v;
}

static void find_epilogue(const Fn *f, Val v, GemmPlan *p) {
  p->out = stored_as(f, v);
  p->first = ir_first_of(f, &f->kernels[f->kernel_of[v.i]]);
  if (!ir_none(p->first)) p->out = v;
  p->stores_product = !f->buf_of || f->buf_of[p->out.i] != 0;
  if (ir_none(p->first) && (p->out.i != v.i || n_after(f, v) == 0)) return;
  p->epilogue = EPILOGUE_FROM_STACK;
  p->update = cg_gemm_update(f, v);
}

// For convolutions the strategy decides whether a copy is worth it.
static bool is_prepacked(const Fn *f, GemmPlan *p, const Target *t) {
  bool pays = p->is_conv || cg_gemm_packs(p->m_max, p->n_max, p->k_max, p->tb, t);
  return f->prog->packs_weights && !p->ta && !p->batch.n && !p->b_has_batch && pays &&
         cg_constant_weight(f, p->b, &p->weight);
}

// As if the strategy supported all of them.
static void find_modifiers(const Fn *f, Val v, GemmPlan *p, const Target *t) {
  find_epilogue(f, v, p);
  p->prologue = prologue_of(f, v, p, t);
  p->pack_b = is_prepacked(f, p, t) ? B_PREPACKED : B_IN_PLACE;
  double fmas = (double)p->m_max * (double)p->n_max * (double)p->k_max * (double)p->batch_max;
  p->single_threaded = fmas <= SMALL_FMAS && p->prologue != PROLOGUE_A_SHARED;
}

static void drop_modifiers(GemmPlan *p) {
  uint32_t has = p->strategy->modifiers;
  if (!(has & SINGLE_THREADED)) p->single_threaded = false;
  if (!(has & PREPACKED)) p->pack_b = B_IN_PLACE;
  if (!(has & PRIVATE_A) && p->prologue == PROLOGUE_A_PRIVATE) p->prologue = PROLOGUE_A_SHARED;
}

// ---- the strategy
#define STRATEGY(name, modifiers, doc) \
  {#name, doc, modifiers, cg_gemm_##name##_fits, cg_gemm_##name##_plan, cg_gemm_##name##_stack, cg_gemm_##name##_emit},
static const GemmStrategy strategies[] = {
#include "codegen/product/strategies.def"
};
#undef STRATEGY

static const GemmStrategy *first_fit(const Fn *f, const GemmPlan *p, const Target *t) {
  const GemmStrategy *s = strategies;
  while (!s->fits(f, p, t) || (p->apart && !(s->modifiers & DISTANCES))) s++;  // the last one fits all
  return s;
}

static GemmPlan planned(const Fn *f, GemmPlan p, const Target *t) {
  bool in_memory = p.k_slice || (p.strategy->modifiers & SUMS_IN_MEMORY);
  if (p.epilogue && in_memory) p.epilogue = EPILOGUE_FROM_MEMORY;
  p.strategy->plan(f, &p, t);
  return p;
}

GemmPlan cg_gemm_plan(const Fn *f, Val v, const Target *t) {
  GemmPlan p = read_product(f, v);
  p.b_streams = cg_gemm_b_streams(f, v, t);
  find_modifiers(f, v, &p, t);
  p.strategy = first_fit(f, &p, t);
  drop_modifiers(&p);
  GemmPlan whole = planned(f, p, t);
  if (!(p.strategy->modifiers & SPLIT_K) || p.single_threaded || p.batch.n) return whole;
  p.k_slice = cg_gemm_split_k(&whole);
  return p.k_slice ? planned(f, p, t) : whole;  // by what a slice reads
}

// ---- scratch: it belongs to what is packed, stored or summed, whatever the strategy
int64_t cg_gemm_packed_b(const GemmPlan *p, const Target *t) {
  if (p->b_elements) return cg_round_up(p->b_elements, TN_ALIGN / 4);
  if (p->prologue == PROLOGUE_B && p->pack_b != B_SHARED) return cg_round_up(p->k_max * p->n_max, TN_ALIGN / 4);
  if (p->pack_b != B_SHARED) return 0;
  int64_t one = cg_ceil_div(p->n_max, p->width) * cg_round_up(p->k_max, t->vl) * p->width;
  return cg_round_up(one * (p->b_has_batch ? p->batch_max : 1), TN_ALIGN / 4);
}

int64_t cg_gemm_packed_a(const GemmPlan *p, const Target *t) {
  if (p->window_rows) return 2 * cg_gemm_window_elements(p);
  if (p->pack_a == A_SHARED) return cg_ceil_div(p->m_max, p->mr) * p->a_tile * cg_round_up(p->k_max, t->vl);
  if (p->prologue != PROLOGUE_A_SHARED) return 0;
  return cg_round_up(p->m_max * (p->k_max + GEMM_STRIDE_PAD), TN_ALIGN / 4);
}

int64_t cg_gemm_sums(const GemmPlan *p) {
  int64_t one = p->batch_max * p->m_max * p->n_max;
  if (p->k_slice) return cg_ceil_div(p->k_max, p->k_slice) * one;
  return p->epilogue == EPILOGUE_FROM_MEMORY && !p->stores_product ? one : 0;
}

int64_t cg_gemm_plan_bytes(const GemmPlan *p, const Target *t) {
  return cg_round_up(4 * (cg_gemm_packed_b(p, t) + cg_gemm_packed_a(p, t) + cg_gemm_sums(p)), TN_ALIGN);
}

int64_t cg_gemm_scratch_bytes(const Fn *f, Val v, const Target *t) {
  GemmPlan p = cg_gemm_plan(f, v, t);
  return cg_gemm_plan_bytes(&p, t);
}

int64_t cg_moments_scratch_bytes(const Fn *f, Val v, const Target *t) {
  int64_t slots = cg_moments_chunks(f, v);
  const Kernel *k = &f->kernels[f->kernel_of[v.i]];
  if (k->cls == CLASS_GEMM) slots = cg_larger(slots, cg_gemm_plan(f, ir_anchor(f, k), t).moment_slots);
  return cg_moments_slot_bytes(f, v, slots);
}

// ---- weights packed once per change
bool cg_gemm_packs(int64_t m, int64_t n, int64_t k, bool tb, const Target *t) {
  if (m < PREPACKED_ROWS || m > PREPACKED_MOST_ROWS || k < t->vl) return false;
  return (tb || m > t->gemm_mr) && n * k >= PREPACKED_ELEMENTS && m * n * k > SMALL_FMAS;
}

WeightPack cg_weight_of(const GemmPlan *p, const Target *t) {
  if (p->is_conv) return p->pack;
  int64_t rows = cg_ceil_div(p->n_max, p->width) * cg_round_up(p->k_max, t->vl);
  return (WeightPack){.kind = PACK_PANELS,
                      .param = p->weight,
                      .transposed = p->tb,
                      .n = p->n_max,
                      .k = p->k_max,
                      .width = p->width,
                      .bytes = cg_round_up(rows * p->width * 4, TN_ALIGN)};
}
