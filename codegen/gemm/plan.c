// Matrix products: what is known before any code is emitted (gemm.h).
#include "codegen/gemm/gemm.h"
#include "codegen/memory/optimizer.h"
#include "codegen/reduce/column_sum.h"

#include <stdlib.h>
#include <string.h>

enum {
  SMALL_FMAS = 32 * 1024,  // below, one worker does it all: a barrier would cost more than it wins
  UNITS_WANTED = 24,       // so that shares are even
  PRIVATE_UNITS = 16,      // likewise where each further MC block packs B again
  FEW_UNITS = 8,           // and for few rows
  FEW_ROWS = 256,
  MC_BYTES = 512 * 1024,        // rows of A that stay in L2
  STRIP_ROWS = 128,             // of sums that wait in L1 for the epilogue
  PRIVATE_ROWS = 1024,          // for which a worker packs a panel of B once
  GEMV_ELEMENTS = 2 << 20,      // of B that are read as one stream for one row,
  GEMV_LONG_K = 2048,           // or with rows as long as this
  GEMV_MOST_K = 8192,           // x waits on the stack
  SUM_ROWS = 512,               // likewise where their sums wait on the stack for all KC blocks
  ACC_ELEMENTS = 32 * 1024,     // sums of an MC block that wait on the stack while panels of all columns pass by
  DOT_ROWS = 11,                // up to here nothing is packed
  DOT_BYTES = 24 * 1024,        // a tile's rows of A in a KC block
  KC = 1024,                    // of B's packed blocks: a panel's part stays in L2, the rows of A pass by it
  A_KC = 256,                   // of A's packed blocks
  AT_B_KC = 256,                // of a product of transposed operands: what all its tiles read stays near
  LONG_K = 4096,                // from here on k is cut even where nothing is packed in blocks:
  LONG_KC = 2048,               // a panel's part stays in L2
  K_SLICE = 4096,               // least k of a slice: 4 us and more, where a barrier takes less than one;
  K_SLICE_STEP = 64,            // a multiple of all vectors
  MOST_K_SLICES = 32,           // so that scratch is small, of
  SPLIT_K_UNITS = 8,            // products that have fewer macro tiles than this
  SPLIT_K_ELEMENTS = 16384,     // and at most so many elements
  A_BLOCK_TILES = 4,            // tiles of a transposed A packed at once
  CHAINS = 8,                   // accumulators that hide the latency of additions,
  CHAINED_K = 64,               // which they are worth from here on
  UPDATE_ELEMENTS = 32 * 1024,  // likewise, of rows whose update follows: parameter and state come into L2 meanwhile
  WIDE = 128,                   // columns from which on B's rows are too far apart to be read in place
  BLAS_FMAS = 64 * 64 * 64,     // below, no library call is worth it
  PACKED_ROWS = 4,              // with fewer, a weight is read once in any case
  PACKED_MOST_ROWS = 256,       // with more, packing it in every run costs next to nothing
  PACKED_ELEMENTS = 1024,       // with fewer too
  LLC_ELEMENTS = 4 << 20,       // of B: more than a worker's share of the last-level cache
  BAD_STRIDE = 512,             // A's row stride in elements, from which on multiples are padded
  PAD_PANELS = 12,              // with fewer the copy costs more than it wins: each worker reads what another wrote
  FUSED_ELEMENTS = 32 * 1024,   // of A, which every worker makes on its stack,
  FUSED_ROWS = 64,              // or at least so many rows of it at a time,
  FUSED_PANELS = 2,             // which pass by so many panels
  FUSED_WORK = 64 * 1024,       // and operations for them, 2 us at most, where a barrier takes one
  STRIDE_PAD = GEMM_STRIDE_PAD
};

static int64_t bound_of(const Fn *f, const DimList *l) {
  int64_t n = 1;
  for (uint32_t i = 0; i < l->n; i++) n *= ir_dim_bound(f->prog, l->dim[i]);
  return n;
}

static bool is_gemv_const(const Fn *f, const DimList *m) {
  for (uint32_t i = 0; i < m->n; i++)
    if (!ir_dim_is_one(f->prog, m->dim[i])) return false;
  return true;
}

static void read_linear(const Fn *f, Val v, GemmPlan *p) {
  Shape x = ir_ins(f, p->a)->shape, w = ir_ins(f, p->b)->shape;
  uint32_t r = ir_rank(f->prog, x);
  p->tb = true;
  for (uint32_t i = 0; i + 1 < r; i++) p->m.dim[p->m.n++] = ir_dim_at(f->prog, x, i);
  p->k = ir_dim_at(f->prog, x, r - 1);
  p->n = ir_dim_at(f->prog, w, 0);
  p->bias = ir_operand(f, v, ARG_bias);
}

// Batch axis i of the result in an operand of `rank` axes; none where the operand has no such axis or has it of size 1.
static Dim batch_axis(const Fn *f, Shape s, uint32_t n_batch, uint32_t i) {
  uint32_t r = ir_rank(f->prog, s), own = r - 2;
  if (i + own < n_batch) return (Dim){0};
  Dim d = ir_dim_at(f->prog, s, i + own - n_batch);
  return ir_dim_is_one(f->prog, d) ? (Dim){0} : d;
}

static void read_matmul(const Fn *f, Val v, GemmPlan *p) {
  Shape a = ir_ins(f, p->a)->shape, b = ir_ins(f, p->b)->shape, out = ir_ins(f, v)->shape;
  uint32_t r = ir_rank(f->prog, out), ra = ir_rank(f->prog, a);
  p->ta = ir_attr(f, v, KEY_ta) != NULL;
  p->tb = ir_attr(f, v, KEY_tb) != NULL;
  p->k = ir_dim_at(f->prog, a, p->ta ? ra - 2 : ra - 1);
  p->n = ir_dim_at(f->prog, out, r - 1);
  p->batch.n = r - 2;
  for (uint32_t i = 0; i < r - 2; i++) {
    p->batch.dim[i] = ir_dim_at(f->prog, out, i);
    p->a_batch[i] = batch_axis(f, a, r - 2, i);
    p->b_batch[i] = batch_axis(f, b, r - 2, i);
    p->b_has_batch |= p->b_batch[i].i != 0;
  }
  if (!p->b_has_batch && !p->ta && ra == r) {  // one matrix for all of the batch: its axes are rows
    p->m = p->batch;
    p->batch.n = 0;
  }
  p->m.dim[p->m.n++] = ir_dim_at(f->prog, out, r - 2);
}

static int64_t kc_of(int64_t k, int64_t most, int64_t vl) {
  int64_t n = cg_ceil_div(k, most);
  return n <= 1 ? cg_round_up(cg_larger(k, 1), vl) : cg_round_up(cg_ceil_div(k, n), vl);
}

// B is packed where it is stored [N, K], and where its rows are far apart and it is read often.
static void choose_pack_b(GemmPlan *p, int64_t tiles) {
  bool exceeds_llc = tiles >= 2 && p->k_max >= 16 && p->n_max > WIDE;
  if (p->pack_b == B_WEIGHT || p->skinny || (!p->tb && !exceeds_llc)) return;
  bool once = p->batch.n == 0 || p->b_has_batch;  // no other macro tile wants the same panel
  p->pack_b = !p->ta && once ? B_PRIVATE : B_SHARED;
}

// A worker takes all rows of an MC block past a panel before it goes on to the next one.
static bool by_panels(const GemmPlan *p) { return p->pack_b == B_PRIVATE || p->pack_b == B_WEIGHT; }

// Most of k that a macro tile sums.
static int64_t summed(const GemmPlan *p) { return p->k_slice ? p->k_slice : p->k_max; }

static void choose_packing(const Fn *f, GemmPlan *p, const Target *t) {
  int64_t panels = cg_ceil_div(p->n_max, p->width), tiles = cg_ceil_div(p->m_max, p->mr), vl = t->vl;
  int64_t k = summed(p);
  if (!p->at_b) choose_pack_b(p, tiles);
  p->a_tile = cg_round_up(p->mr, vl);
  bool bad_stride = ir_dim_is_const(f->prog, p->k) && p->k_max >= BAD_STRIDE && p->k_max % BAD_STRIDE == 0;
  if (p->at_b) {
    p->kc = kc_of(k, AT_B_KC, vl);
    return;
  }
  if (p->ta && panels >= 2 && !p->small) p->pack_a = A_BLOCKS;
  else if (p->fused_operand == FUSED_A) p->pack_a = A_FUSED;
  else if (!p->ta && bad_stride && panels >= PAD_PANELS && tiles >= 2 && !p->batch.n && !p->small && !p->skinny)
    p->pack_a = A_PADDED;
  p->kc = cg_larger(1, k);
  if (p->skinny) p->kc = kc_of(k, DOT_BYTES / 4 / (int64_t)p->mr, vl);
  else if (p->pack_a == A_BLOCKS) p->kc = kc_of(k, A_KC, vl);
  else if (by_panels(p)) p->kc = kc_of(k, KC, vl);
  else if (k > LONG_K) p->kc = kc_of(k, LONG_KC, vl);
  p->epilogue_from_memory = p->fused && (p->by == GEMM_BLAS || (p->k_slice && !p->skinny));
}

int64_t cg_gemm_split_k(int64_t units, int64_t m, int64_t n, int64_t k) {
  if (units >= SPLIT_K_UNITS || m * n > SPLIT_K_ELEMENTS || k <= 2 * K_SLICE) return 0;
  return cg_round_up(cg_larger(K_SLICE, cg_ceil_div(k, MOST_K_SLICES)), K_SLICE_STEP);
}

static int64_t rows_for_tiles(const GemmPlan *p, int64_t units, int64_t panels) {
  return cg_ceil_div(p->m_max, cg_ceil_div(units, panels));
}

static int64_t a_block_tiles(const GemmPlan *p) {
  if (!p->updates) return A_BLOCK_TILES;
  return cg_larger(1, cg_smaller(A_BLOCK_TILES, UPDATE_ELEMENTS / (p->n_max * (int64_t)p->mr)));
}

static void choose_mc(GemmPlan *p) {
  int64_t panels = cg_larger(1, cg_ceil_div(p->n_max, p->width) * p->batch_max);
  int64_t rows = MC_BYTES / 4 / cg_larger(1, summed(p)), even;
  bool waits = p->fused && p->kc < p->k_max;
  if (by_panels(p)) {
    rows = waits ? SUM_ROWS : PRIVATE_ROWS;
    even =
        cg_larger(rows_for_tiles(p, PRIVATE_UNITS, panels), cg_smaller(FEW_ROWS, rows_for_tiles(p, FEW_UNITS, panels)));
  } else {
    rows = p->fused ? cg_smaller(rows, STRIP_ROWS) : rows;
    even = rows_for_tiles(p, UNITS_WANTED, panels);
  }
  if (p->pack_a == A_BLOCKS) rows = a_block_tiles(p) * (int64_t)p->mr;
  p->mc = cg_larger(p->mr, cg_round_up(cg_smaller(rows, even), p->mr));
  p->strip_rows = waits ? p->mc : cg_smaller(p->mc, cg_round_up(STRIP_ROWS, p->mr));
  p->acc_columns = 0;
  if ((!waits && !p->updates) || p->epilogue_from_memory || p->skinny || p->at_b || by_panels(p)) return;
  p->acc_columns =
      cg_larger(1, cg_smaller(ACC_ELEMENTS / p->mc, cg_round_up(p->n_max, p->width)) / p->width) * p->width;
}

// Few panels: who has an MC block needs its rows alone, but for the first and the last one of its share. MC blocks are as high
// as their rows fit on the stack.
static void choose_fused(GemmPlan *p) {
  p->a_per_mc_block = false;
  int64_t rows = FUSED_ELEMENTS / (p->k_max + STRIDE_PAD) / (int64_t)p->mr * (int64_t)p->mr;
  bool has_mc_blocks = p->pack_a == A_FUSED && p->by == GEMM_OWN && !p->private_a && !p->skinny && !p->k_slice;
  if (!has_mc_blocks || p->n_max > FUSED_PANELS * p->width || rows < FUSED_ROWS) return;
  p->a_per_mc_block = true;
  p->mc = cg_smaller(p->mc, rows), p->strip_rows = cg_smaller(p->strip_rows, p->mc);
}

// Few accumulators would wait for one another. A weight that is packed has more rows: its sums are those of others.
static uint32_t chains_of(const GemmPlan *p) {
  uint32_t n = 1;
  if (p->m_max >= PACKED_ROWS || p->k_max < CHAINED_K) return 1;
  while (2 * n * p->mr * p->nv <= CHAINS) n *= 2;
  return n;
}

// Slices of k bring macro tiles enough: then MC blocks are cut by what a slice reads.
static void choose_split_k(const Fn *f, GemmPlan *p, const Target *t) {
  int64_t panel = p->at_b ? (int64_t)t->gemm_nv * t->vl : p->width, across = p->at_b ? p->m_max : p->n_max;
  int64_t units = cg_ceil_div(across, panel) * (p->at_b || p->skinny ? 1 : cg_ceil_div(p->m_max, p->mc));
  if (p->by == GEMM_OWN && !p->small && !p->batch.n) p->k_slice = cg_gemm_split_k(units, p->m_max, p->n_max, p->k_max);
  if (!p->k_slice) return;
  choose_packing(f, p, t);
  choose_mc(p);
}

// Few rows leave registers for wider panels.
static uint32_t panel_vectors(const GemmPlan *p, const Target *t) {
  int64_t most = t->gemm_nv;
  if (!p->ta && !p->tb) most = cg_larger(most, cg_smaller(8, t->gemm_mr * t->gemm_nv / cg_larger(1, p->m_max)));
  return (uint32_t)cg_larger(1, cg_smaller(most, cg_ceil_div(p->n_max, t->vl)));
}

// One layout of a weight for products of any number of rows.
static uint32_t weight_vectors(const GemmPlan *p, const Target *t) {
  return (uint32_t)cg_smaller(t->gemm_nv, cg_ceil_div(p->n_max, t->vl));
}

// The operand that the instructions before the product make.
static FusedOperand fused_operand_of(const Fn *f, Val v) {
  uint32_t first = f->kernels[f->kernel_of[v.i]].first;
  if (first == v.i) return FUSED_NONE;
  return ir_arg(f, v, 0).i >= first ? FUSED_A : FUSED_B;
}

// A is made so soon that a worker makes all of it for itself.
static bool has_private_a(const Fn *f, Val v, const GemmPlan *p) {
  int64_t n = p->m_max * p->k_max;
  return p->fused_operand == FUSED_A && p->by == GEMM_OWN && n <= FUSED_ELEMENTS &&
         n * cg_prologue_cost(f, v) <= FUSED_WORK;
}

// Instructions of its kernel that follow the product.
static uint32_t behind(const Kernel *k, Val v) { return k->first + k->n - 1 - v.i; }

// Where the product is stored as it is: in its own buffer, or as the output that is all that follows it.
static Val stored_as(const Fn *f, Val v) {
  const Kernel *k = &f->kernels[f->kernel_of[v.i]];
  Val next = {v.i + 1};
  bool handed_on =
      behind(k, v) == 1 && !f->buf_of[v.i] && ir_ins(f, next)->op == OP_output && ir_arg(f, next, 0).i == v.i;
  return handed_on ? next : v;
}

static bool is_gemv(const Fn *f, const GemmPlan *p) {
  bool faster = p->k_max >= GEMV_LONG_K || p->n_max * p->k_max <= GEMV_ELEMENTS;
  return p->skinny && p->by == GEMM_OWN && !p->small && !p->batch.n && !p->b_exceeds_llc && faster &&
         p->k_max <= GEMV_MOST_K && is_gemv_const(f, &p->m);
}

GemmPlan cg_gemm_plan(const Fn *f, Val v, const Target *t) {
  GemmPlan p = {.a = ir_arg(f, v, 0), .b = ir_arg(f, v, 1), .out = stored_as(f, v)};
  if (ir_ins(f, v)->op == OP_linear) read_linear(f, v, &p);
  else read_matmul(f, v, &p);
  if (ir_dim_is_one(f->prog, p.k)) p.ta = p.tb = false;  // a column is stored as a row is
  p.fused = p.out.i == v.i && behind(&f->kernels[f->kernel_of[v.i]], v) > 0;
  p.updates = p.fused && !ir_none(cg_gemm_update(f, v));
  p.stores_product = f->buf_of[p.out.i] != 0;
  p.m_max = bound_of(f, &p.m), p.n_max = ir_dim_bound(f->prog, p.n), p.k_max = ir_dim_bound(f->prog, p.k);
  p.batch_max = bound_of(f, &p.batch);
  p.by = cg_gemm_choose(p.m_max, p.n_max, p.k_max, t);
  p.fused_operand = fused_operand_of(f, v);
  bool packs = f->prog->packs_weights && p.by == GEMM_OWN && !p.ta && !p.batch.n && !p.b_has_batch &&
               cg_gemm_packs(p.m_max, p.n_max, p.k_max, p.tb, t) && cg_constant_weight(f, p.b, &p.weight);
  if (packs) p.pack_b = B_WEIGHT;
  bool many = p.batch.n && p.fused_operand;  // made operands are single matrices
  p.skinny = !packs && p.tb && !p.ta && !many && p.m_max <= DOT_ROWS && p.k_max >= t->vl;
  p.nv = p.skinny ? 1 : packs ? weight_vectors(&p, t) : panel_vectors(&p, t);
  p.mr = cg_tile_height(p.m_max, p.skinny ? cg_skinny_rows(t) : t->gemm_mr);
  p.width = (int64_t)p.nv * t->vl;
  p.small = (double)p.m_max * (double)p.n_max * (double)p.k_max * (double)p.batch_max <= SMALL_FMAS;
  p.private_a = has_private_a(f, v, &p);
  p.small = p.small && (p.fused_operand != FUSED_A || p.private_a);
  p.gemv_const = p.skinny && p.small && !p.batch.n && ir_dim_is_const(f->prog, p.n) && ir_dim_is_const(f->prog, p.k) &&
                 is_gemv_const(f, &p.m);
  p.b_exceeds_llc = p.n_max * p.k_max > LLC_ELEMENTS;
  p.at_b = cg_gemm_is_at_b(f, &p, t);
  choose_packing(f, &p, t);
  choose_mc(&p);
  choose_split_k(f, &p, t);
  choose_fused(&p);
  p.gemv = is_gemv(f, &p);
  p.chains = chains_of(&p);
  return p;
}

// ---- scratch
int64_t cg_gemm_packed_b(const GemmPlan *p, const Target *t) {
  if (p->fused_operand == FUSED_B && (p->by == GEMM_BLAS || p->pack_b == B_IN_PLACE))
    return cg_round_up(p->k_max * p->n_max, TN_ALIGN / 4);
  if (p->by == GEMM_BLAS || p->pack_b != B_SHARED) return 0;
  int64_t one = cg_ceil_div(p->n_max, p->width) * cg_round_up(p->k_max, t->vl) * p->width;
  return cg_round_up(one * (p->b_has_batch ? p->batch_max : 1), TN_ALIGN / 4);
}

int64_t cg_gemm_packed_a(const GemmPlan *p) {
  if (p->fused_operand == FUSED_A && (p->private_a || p->a_per_mc_block || p->gemv)) return 0;
  bool there = p->fused_operand == FUSED_A || (p->by == GEMM_OWN && p->pack_a == A_PADDED);
  return there ? cg_round_up(p->m_max * (p->k_max + STRIDE_PAD), TN_ALIGN / 4) : 0;
}

int64_t cg_gemm_sums(const GemmPlan *p) {
  int64_t one = p->batch_max * p->m_max * p->n_max;
  if (p->k_slice) return cg_ceil_div(p->k_max, p->k_slice) * one;
  return p->epilogue_from_memory && !p->stores_product ? one : 0;
}

// ---- weights packed once per change
bool cg_gemm_packs(int64_t m, int64_t n, int64_t k, bool tb, const Target *t) {
  if (m < PACKED_ROWS || m > PACKED_MOST_ROWS || k < t->vl) return false;
  return (tb || m > t->gemm_mr) && n * k >= PACKED_ELEMENTS && m * n * k > SMALL_FMAS;
}

// ---- own code or the library
GemmBy cg_gemm_choose(int64_t m, int64_t n, int64_t k, const Target *t) {
  const char *by = getenv("TN_GEMM");
  if (by && !strcmp(by, "own")) return GEMM_OWN;
  if (by && !strcmp(by, "blas")) return GEMM_BLAS;
  bool tuned = strcmp(t->name, "generic") != 0;
  return tuned || (double)m * (double)n * (double)k < BLAS_FMAS ? GEMM_OWN : GEMM_BLAS;
}

// ---- parameters that a product reads in panels
bool cg_writes_param(const Fn *f, uint32_t param) {
  for (uint32_t i = 1; i < f->n_ins; i++) {
    const Ins *ins = &f->ins[i];
    if (!(ir_ops[ins->op].flags & WRITES)) continue;
    for (uint32_t k = 0; k < ir_ops[ins->op].n_res && k < ins->n_args; k++) {
      Val root = ir_storage_root(f, ir_arg(f, (Val){i}, k));
      if (ir_ins(f, root)->op == OP_param && ir_attr_int(f, root, KEY_param, -1) == (int64_t)param) return true;
    }
  }
  return false;
}

bool cg_constant_weight(const Fn *f, Val b, uint32_t *param) {
  Val base = ir_view_base(f, b);
  if (ir_ins(f, base)->op != OP_param || !ir_shape_is_const(f->prog, ir_ins(f, b)->shape)) return false;
  *param = (uint32_t)ir_attr_int(f, base, KEY_param, 0);
  return !cg_writes_param(f, *param);
}

WeightPack cg_weight_of(const GemmPlan *p, const Target *t) {
  int64_t rows = cg_ceil_div(p->n_max, p->width) * cg_round_up(p->k_max, t->vl);
  return (WeightPack){.param = p->weight,
                      .transposed = p->tb,
                      .n = p->n_max,
                      .k = p->k_max,
                      .width = p->width,
                      .bytes = cg_round_up(rows * p->width * 4, TN_ALIGN)};
}
