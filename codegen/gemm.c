// Matrix products: C[b][m][n] = sum over k of A[b][m][k] B[b][k][n] (+ bias[n]), by the tiles of tile.h.
//
//            panel p (nv vectors)
//           +----+----+----+         A unit is one panel x one chunk of rows; units are numbered chunk by chunk, so
//           that a
//   chunk 0 | 0  | 1  | 2  |         worker walks over panels while its rows of A stay in L2. Every worker has a
//   contiguous
//           +----+----+----+         share of the units. In a unit, tiles of mr rows run down the rows.
//   chunk 1 | 3  | 4  | 5  |
//           +----+----+----+
//
// First phase, shared by the whole team and ended by a barrier: operands that are stored the wrong way are packed into
// the kernel's scratch: B as [panel][k][panel's width], zero beyond N; a transposed A as [tile][k][mr]; an A whose rows
// are a large power of two apart, which would fall into few cache sets, as rows with a padded stride. Small products
// are worker 0's alone: a barrier would cost more than it wins.
#include "codegen/tile.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
  SMALL_FMAS = 32 * 1024,    // below, one worker does it all
  UNITS_WANTED = 24,         // so that shares are even
  CHUNK_BYTES = 512 * 1024,  // rows of A that stay in L2
  BLAS_FMAS = 64 * 64 * 64,  // below, no library call is worth it
  BLAS_ROWS = 64,            // rows of a task; fixed, so that bits do not depend on the team
  BAD_STRIDE = 512,          // A's row stride in elements, from which on multiples are padded
  STRIDE_PAD = 16
};

// ---- what is known before any code is emitted
typedef struct {
  Dim dim[MAX_RANK];
  uint32_t n;
} DimList;

typedef enum { A_IN_PLACE, A_BLOCKS, A_PADDED } PackA;
typedef struct {
  Val a, b, bias, out;
  bool ta, tb;
  DimList m;  // product of these
  Dim n, k;
  DimList batch;                             // of the result
  Dim a_batch[MAX_RANK], b_batch[MAX_RANK];  // aligned with batch; 0: none
  bool b_has_batch;
  int64_t m_max, n_max, k_max, batch_max;
  uint32_t mr, nv;
  int64_t width, chunk;  // columns of a panel, rows of a chunk
  int64_t a_tile;        // A_BLOCKS: elements of one k
  bool pack_b, small;
  PackA pack_a;
} GemmPlan;

static int64_t bound_of(const Fn *f, const DimList *l) {
  int64_t n = 1;
  for (uint32_t i = 0; i < l->n; i++) n *= ir_dim_bound(f->prog, l->dim[i]);
  return n;
}

static bool is_one(const Fn *f, Dim d) { return ir_dim_is_const(f->prog, d) && ir_dim_bound(f->prog, d) == 1; }

static void read_linear(const Fn *f, Val v, GemmPlan *p) {
  Shape x = ir_ins(f, p->a)->shape, w = ir_ins(f, p->b)->shape;
  uint32_t r = ir_rank(f->prog, x);
  p->tb = true;
  for (uint32_t i = 0; i + 1 < r; i++) p->m.dim[p->m.n++] = ir_dim_at(f->prog, x, i);
  p->k = ir_dim_at(f->prog, x, r - 1);
  p->n = ir_dim_at(f->prog, w, 0);
  if (ir_ins(f, v)->n_args == 3) p->bias = ir_arg(f, v, 2);
}

// Batch axis i of the result in an operand of `rank` axes; none where the operand has no such axis or has it of size 1.
static Dim batch_axis(const Fn *f, Shape s, uint32_t n_batch, uint32_t i) {
  uint32_t r = ir_rank(f->prog, s), own = r - 2;
  if (i + own < n_batch) return (Dim){0};
  Dim d = ir_dim_at(f->prog, s, i + own - n_batch);
  return is_one(f, d) ? (Dim){0} : d;
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

static void choose_packing(const Fn *f, GemmPlan *p, const Target *t) {
  int64_t panels = cg_ceil_div(p->n_max, p->width), tiles = cg_ceil_div(p->m_max, p->mr);
  int64_t lanes = t->vl;
  p->pack_b = p->tb || (tiles >= 4 && p->k_max >= 16 && p->n_max > p->width);
  p->pack_a = A_IN_PLACE;
  p->a_tile = cg_round_up(p->mr, lanes);
  if (p->batch.n || panels < 4 || p->small) return;
  if (p->ta) p->pack_a = A_BLOCKS;
  else if (ir_dim_is_const(f->prog, p->k) && p->k_max >= BAD_STRIDE && p->k_max % BAD_STRIDE == 0 && tiles >= 2)
    p->pack_a = A_PADDED;
}

static void choose_chunk(GemmPlan *p) {
  int64_t panels = cg_larger(1, cg_ceil_div(p->n_max, p->width) * p->batch_max);
  int64_t rows = CHUNK_BYTES / 4 / cg_larger(1, p->k_max);
  rows = cg_smaller(rows, cg_ceil_div(p->m_max, cg_ceil_div(UNITS_WANTED, panels)));
  p->chunk = cg_larger(p->mr, cg_round_up(rows, p->mr));
}

static GemmPlan make_plan(const Fn *f, Val v, const Target *t) {
  GemmPlan p = {.a = ir_arg(f, v, 0), .b = ir_arg(f, v, 1), .out = v};
  if (ir_ins(f, v)->op == OP_linear) read_linear(f, v, &p);
  else read_matmul(f, v, &p);
  p.m_max = bound_of(f, &p.m), p.n_max = ir_dim_bound(f->prog, p.n), p.k_max = ir_dim_bound(f->prog, p.k);
  p.batch_max = bound_of(f, &p.batch);
  p.nv = (uint32_t)cg_larger(1, cg_smaller(t->gemm_nv, cg_ceil_div(p.n_max, t->vl)));
  p.mr = cg_tile_height(p.m_max, t->gemm_mr);
  p.width = (int64_t)p.nv * t->vl;
  p.small = (double)p.m_max * (double)p.n_max * (double)p.k_max * (double)p.batch_max <= SMALL_FMAS;
  choose_packing(f, &p, t);
  choose_chunk(&p);
  return p;
}

// ---- scratch: packed B, then packed A
static int64_t packed_b_elements(const GemmPlan *p, const Target *t) {
  if (!p->pack_b) return 0;
  int64_t one = cg_ceil_div(p->n_max, p->width) * cg_round_up(p->k_max, t->vl) * p->width;
  return cg_round_up(one * (p->b_has_batch ? p->batch_max : 1), TN_ALIGN / 4);
}

static int64_t packed_a_elements(const GemmPlan *p, const Target *t) {
  if (p->pack_a == A_PADDED) return p->m_max * (p->k_max + STRIDE_PAD);
  if (p->pack_a == A_BLOCKS) return cg_ceil_div(p->m_max, p->mr) * cg_round_up(p->k_max, t->vl) * p->a_tile;
  return 0;
}

// A matrix without elements has no storage, and nothing of it is read.
static LLVMValueRef storage(Cg *c, Val v) { return cg_stored(c, v) ? cg_ptr(c, v) : LLVMConstNull(c->ptr); }

static GemmBy chosen(const GemmPlan *p, const Target *t) { return cg_gemm_choose(p->m_max, p->n_max, p->k_max, t); }

int64_t cg_scratch_bytes(const Fn *f, Val v, const Target *t) {
  switch (ir_ins(f, v)->op) {
  case OP_rnn_seq:
  case OP_rnn_seq_grad: return cg_rnn_scratch_bytes(f, v, t);
  case OP_global_norm: return cg_norm_scratch(f, v);
  case OP_sum:
  case OP_amax: return cg_reduce_scratch(f, v);
  case OP_matmul:
  case OP_linear: break;
  default: return 0;
  }
  GemmPlan p = make_plan(f, v, t);
  if (chosen(&p, t) == GEMM_BLAS) return 0;
  return cg_round_up(4 * (packed_b_elements(&p, t) + packed_a_elements(&p, t)), TN_ALIGN);
}

GemmBy cg_gemm_choose(int64_t m, int64_t n, int64_t k, const Target *t) {
  const char *by = getenv("TN_GEMM");
  if (by && !strcmp(by, "own")) return GEMM_OWN;
  if (by && !strcmp(by, "blas")) return GEMM_BLAS;
  bool tuned = strcmp(t->name, "generic") != 0;
  return tuned || (double)m * (double)n * (double)k < BLAS_FMAS ? GEMM_OWN : GEMM_BLAS;
}

// ---- values of a kernel
typedef struct {
  Cg *c;
  const GemmPlan *p;
  LLVMValueRef m, n, k, batch;
  LLVMValueRef panels, k_pad;  // k_pad: rows of a packed panel
  LLVMValueRef a, b, out, bias;
  LLVMValueRef packed_a, packed_b;
  LLVMValueRef a_row, a_k;  // strides of A as it is stored
} Gemm;

static LLVMValueRef product(Cg *c, const DimList *l) {
  LLVMValueRef n = cg_i64(c, 1);
  for (uint32_t i = 0; i < l->n; i++) n = cg_mul(c, n, cg_dim(c, l->dim[i]));
  return n;
}

static LLVMValueRef remainder_of(Cg *c, LLVMValueRef n, LLVMValueRef d) {
  int64_t one;
  if (cg_const_value(d, &one) && one == 1) return cg_i64(c, 0);
  return LLVMBuildURem(c->b, n, d, "");
}

static Gemm make_values(Cg *c, const GemmPlan *p) {
  Gemm g = {.c = c, .p = p};
  g.m = product(c, &p->m), g.n = cg_dim(c, p->n), g.k = cg_dim(c, p->k), g.batch = product(c, &p->batch);
  g.panels = cg_ceil_div_value(c, g.n, p->width);
  g.k_pad = cg_mul(c, cg_ceil_div_value(c, g.k, c->t->vl), cg_i64(c, c->t->vl));
  g.a = storage(c, p->a), g.b = storage(c, p->b), g.out = storage(c, p->out);
  g.bias = ir_none(p->bias) ? NULL : storage(c, p->bias);
  g.packed_b = c->scratch ? c->scratch : LLVMConstNull(c->ptr);  // there is none where nothing is to be packed
  if (p->pack_a != A_IN_PLACE) g.packed_a = cg_at(c, c->f32, g.packed_b, cg_i64(c, packed_b_elements(p, c->t)));
  g.a_row = p->ta ? cg_i64(c, 1) : g.k;
  g.a_k = p->ta ? g.m : cg_i64(c, 1);
  return g;
}

// First element of an operand's matrix for batch number `index`: axes that the operand lacks do not count.
static LLVMValueRef batch_offset(Gemm *g, const Dim *own, LLVMValueRef index, LLVMValueRef matrix) {
  Cg *c = g->c;
  LLVMValueRef off = cg_i64(c, 0), stride = matrix;
  for (uint32_t i = g->p->batch.n; i-- > 0;) {
    LLVMValueRef size = cg_dim(c, g->p->batch.dim[i]);
    if (own[i].i) {
      off = cg_add(c, off, cg_mul(c, i ? remainder_of(c, index, size) : index, stride));
      stride = cg_mul(c, stride, size);
    }
    index = cg_div(c, index, size);
  }
  return off;
}

// ---- packing
static void pack_b_rows(Gemm *g, LLVMValueRef src, LLVMValueRef k0, LLVMValueRef n0, LLVMValueRef dst) {
  Cg *c = g->c;
  uint32_t vl = c->t->vl;
  LLVMValueRef rows = cg_min(c, cg_i64(c, vl), cg_sub(c, g->k, k0)), mask[8];
  for (uint32_t j = 0; j < g->p->nv; j++)
    mask[j] = cg_mask(c, cg_sub(c, g->n, cg_add(c, n0, cg_i64(c, (int64_t)j * vl))));
  Loop l;
  cg_loop_begin(c, &l, cg_i64(c, 0), rows, cg_i64(c, 1), NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, src, cg_add(c, cg_mul(c, cg_add(c, k0, l.i), g->n), n0));
  LLVMValueRef to = cg_at(c, c->f32, dst, cg_mul(c, l.i, cg_i64(c, g->p->width)));
  for (uint32_t j = 0; j < g->p->nv; j++) {
    LLVMValueRef at = cg_i64(c, (int64_t)j * vl);
    cg_store(c, cg_load_masked(c, c->vf, cg_at(c, c->f32, from, at), mask[j]), cg_at(c, c->f32, to, at));
  }
  cg_loop_end(c, &l, NULL);
}

// B is stored [N, K].
static void pack_b_columns(Gemm *g, LLVMValueRef src, LLVMValueRef k0, LLVMValueRef n0, LLVMValueRef dst) {
  Cg *c = g->c;
  LLVMValueRef cols = cg_sub(c, g->k, k0), width = cg_i64(c, g->p->width);
  for (uint32_t j = 0; j < g->p->nv; j++) {
    LLVMValueRef lane = cg_i64(c, (int64_t)j * c->t->vl), first = cg_add(c, n0, lane);
    LLVMValueRef from = cg_at(c, c->f32, src, cg_add(c, cg_mul(c, first, g->k), k0));
    cg_transpose_block(c, from, g->k, cg_sub(c, g->n, first), cols, cg_at(c, c->f32, dst, lane), width);
  }
}

// Units of packing: vl values of k of one panel.
static void pack_b(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  LLVMValueRef vl = cg_i64(c, c->t->vl), blocks = cg_ceil_div_value(c, g->k, c->t->vl), lo, hi;
  LLVMValueRef panels = p->b_has_batch ? cg_mul(c, g->batch, g->panels) : g->panels;
  cg_share(c, cg_mul(c, panels, blocks), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef panel = cg_div(c, l.i, blocks), k0 = cg_mul(c, remainder_of(c, l.i, blocks), vl), src = g->b;
  LLVMValueRef row = cg_add(c, cg_mul(c, panel, g->k_pad), k0);
  LLVMValueRef dst = cg_at(c, c->f32, g->packed_b, cg_mul(c, row, cg_i64(c, p->width)));
  if (p->b_has_batch) {
    LLVMValueRef off = batch_offset(g, p->b_batch, cg_div(c, panel, g->panels), cg_mul(c, g->k, g->n));
    src = cg_at(c, c->f32, src, off);
    panel = remainder_of(c, panel, g->panels);
  }
  LLVMValueRef n0 = cg_mul(c, panel, cg_i64(c, p->width));
  if (p->tb) pack_b_columns(g, src, k0, n0, dst);
  else pack_b_rows(g, src, k0, n0, dst);
  cg_loop_end(c, &l, NULL);
}

// A is stored [K, M]: for each tile and k, its mr elements side by side.
static void pack_a_blocks(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  int64_t vl = c->t->vl;
  LLVMValueRef lo, hi;
  cg_share(c, g->k, 16, &lo, &hi);
  Loop tile, l;
  cg_loop_begin(c, &tile, cg_i64(c, 0), cg_ceil_div_value(c, g->m, p->mr), cg_i64(c, 1), NULL, 0);
  LLVMValueRef m0 = cg_mul(c, tile.i, cg_i64(c, p->mr));
  LLVMValueRef rows = cg_min(c, cg_i64(c, p->mr), cg_sub(c, g->m, m0)), base = cg_mul(c, tile.i, g->k_pad);
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, g->a, cg_add(c, cg_mul(c, l.i, g->m), m0));
  LLVMValueRef to = cg_at(c, c->f32, g->packed_a, cg_mul(c, cg_add(c, base, l.i), cg_i64(c, p->a_tile)));
  for (int64_t at = 0; at < p->a_tile; at += vl) {
    LLVMValueRef mask = cg_mask(c, cg_sub(c, rows, cg_i64(c, at))), lane = cg_i64(c, at);
    cg_store(c, cg_load_masked(c, c->vf, cg_at(c, c->f32, from, lane), mask), cg_at(c, c->f32, to, lane));
  }
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &tile, NULL);
}

static void pack_a_rows(Gemm *g) {
  Cg *c = g->c;
  LLVMValueRef lo, hi, vl = cg_i64(c, c->t->vl);
  cg_share(c, g->m, 1, &lo, &hi);
  Loop row, l;
  cg_loop_begin(c, &row, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef from = cg_at(c, c->f32, g->a, cg_mul(c, row.i, g->k));
  LLVMValueRef to = cg_at(c, c->f32, g->packed_a, cg_mul(c, row.i, cg_i64(c, g->p->k_max + STRIDE_PAD)));
  cg_loop_begin(c, &l, cg_i64(c, 0), g->k, vl, NULL, 0);  // k is a multiple of BAD_STRIDE, so of vl
  cg_store(c, cg_load(c, c->vf, cg_at(c, c->f32, from, l.i)), cg_at(c, c->f32, to, l.i));
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &row, NULL);
}

static bool pack(Gemm *g) {
  if (g->p->pack_b) pack_b(g);
  if (g->p->pack_a == A_BLOCKS) pack_a_blocks(g);
  if (g->p->pack_a == A_PADDED) pack_a_rows(g);
  return g->p->pack_b || g->p->pack_a != A_IN_PLACE;
}

// ---- computing
static int64_t stride_or_dyn(LLVMValueRef v) {
  int64_t k;
  return cg_const_value(v, &k) ? k : TILE_DYN;
}

// A's strides as tiles see them.
static LLVMValueRef tile_a_row(const Gemm *g) {
  if (g->p->pack_a == A_BLOCKS) return cg_i64(g->c, 1);
  return g->p->pack_a == A_PADDED ? cg_i64(g->c, g->p->k_max + STRIDE_PAD) : g->a_row;
}
static LLVMValueRef tile_a_k(const Gemm *g) {
  if (g->p->pack_a == A_BLOCKS) return cg_i64(g->c, g->p->a_tile);
  return g->p->pack_a == A_PADDED ? cg_i64(g->c, 1) : g->a_k;
}
static LLVMValueRef tile_b_k(const Gemm *g) { return g->p->pack_b ? cg_i64(g->c, g->p->width) : g->n; }
// From one full tile of rows to the next.
static LLVMValueRef tile_a_block(const Gemm *g) {
  Cg *c = g->c;
  if (g->p->pack_a == A_BLOCKS) return cg_mul(c, g->k_pad, cg_i64(c, g->p->a_tile));
  return cg_mul(c, cg_i64(c, g->p->mr), tile_a_row(g));
}

static TileSpec make_spec(const Gemm *g) {
  const GemmPlan *p = g->p;
  int64_t vl = g->c->t->vl;
  return (TileSpec){.mr = p->mr,
                    .nv = p->nv,
                    .a_row = stride_or_dyn(tile_a_row(g)),
                    .a_k = stride_or_dyn(tile_a_k(g)),
                    .b_k = stride_or_dyn(tile_b_k(g)),
                    .b_vec = vl,
                    .c_row = stride_or_dyn(g->n),
                    .c_vec = vl,
                    .has_bias = g->bias != NULL,
                    .bias_vec = vl,
                    .mask_from = p->nv,
                    .mask_step = vl,
                    .mask_b = !p->pack_b,
                    .mask_c = true};
}

// The unit's panel is whole, or the last one with fewer columns: then vectors that have no column are left out and the
// last one is masked (where N is not constant, all vectors are there and masked).
static void unit_columns(Gemm *g, const TileArgs *args, const TileRows *rows) {
  Cg *c = g->c;
  TileSpec whole = make_spec(g), part = whole;
  int64_t n, vl = c->t->vl;
  if (!cg_const_value(g->n, &n)) {
    part.mask_from = 0;
  } else {
    int64_t left = n % g->p->width;
    if (left == 0) {
      cg_tile_rows(c, &whole, args, rows);
      return;
    }
    part.nv = (uint32_t)cg_ceil_div(left, vl);
    part.mask_from = left % vl ? part.nv - 1 : part.nv;
    if (n < g->p->width) {
      cg_tile_rows(c, &part, args, rows);
      return;
    }
  }
  If full;
  cg_if(c, &full, LLVMBuildICmp(c->b, LLVMIntSGE, args->n, cg_i64(c, g->p->width), ""));
  cg_tile_rows(c, &whole, args, rows);
  cg_else(c, &full);
  cg_tile_rows(c, &part, args, rows);
  cg_endif(c, &full);
}

static LLVMValueRef unit_a(Gemm *g, LLVMValueRef batch, LLVMValueRef m0) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  if (p->pack_a == A_BLOCKS)
    return cg_at(c, c->f32, g->packed_a, cg_mul(c, cg_div(c, m0, cg_i64(c, p->mr)), tile_a_block(g)));
  LLVMValueRef off = cg_mul(c, m0, tile_a_row(g));
  if (p->pack_a == A_PADDED) return cg_at(c, c->f32, g->packed_a, off);
  if (p->batch.n) off = cg_add(c, off, batch_offset(g, p->a_batch, batch, cg_mul(c, g->m, g->k)));
  return cg_at(c, c->f32, g->a, off);
}

static LLVMValueRef unit_b(Gemm *g, LLVMValueRef batch, LLVMValueRef panel) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  LLVMValueRef width = cg_i64(c, p->width);
  if (p->pack_b) {
    if (p->b_has_batch) panel = cg_add(c, cg_mul(c, batch, g->panels), panel);
    return cg_at(c, c->f32, g->packed_b, cg_mul(c, cg_mul(c, panel, g->k_pad), width));
  }
  LLVMValueRef off = cg_mul(c, panel, width);
  if (p->b_has_batch) off = cg_add(c, off, batch_offset(g, p->b_batch, batch, cg_mul(c, g->k, g->n)));
  return cg_at(c, c->f32, g->b, off);
}

static void unit(Gemm *g, LLVMValueRef batch, LLVMValueRef chunk, LLVMValueRef panel) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  LLVMValueRef m0 = cg_mul(c, chunk, cg_i64(c, p->chunk)), n0 = cg_mul(c, panel, cg_i64(c, p->width));
  LLVMValueRef row = cg_add(c, p->batch.n ? cg_mul(c, batch, g->m) : cg_i64(c, 0), m0);
  TileArgs args = {.a = unit_a(g, batch, m0), .b = unit_b(g, batch, panel), .k = g->k, .n = cg_sub(c, g->n, n0)};
  args.c = cg_at(c, c->f32, g->out, cg_add(c, cg_mul(c, row, g->n), n0));
  if (g->bias) args.bias = cg_at(c, c->f32, g->bias, n0);
  args.a_row = tile_a_row(g), args.a_k = tile_a_k(g), args.b_k = tile_b_k(g), args.c_row = g->n;
  int64_t m;
  TileRows rows = {.rows = cg_min(c, cg_i64(c, p->chunk), cg_sub(c, g->m, m0)), .a_block = tile_a_block(g)};
  rows.left = cg_const_value(g->m, &m) ? m % p->mr : p->mr == 1 ? 0 : TILE_DYN;
  unit_columns(g, &args, &rows);
}

static void compute(Gemm *g) {
  Cg *c = g->c;
  LLVMValueRef chunks = cg_ceil_div_value(c, g->m, g->p->chunk), lo, hi;
  cg_share(c, cg_mul(c, cg_mul(c, g->batch, chunks), g->panels), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef panel = remainder_of(c, l.i, g->panels), rest = cg_div(c, l.i, g->panels);
  LLVMValueRef chunk = g->p->batch.n ? remainder_of(c, rest, chunks) : rest;
  unit(g, g->p->batch.n ? cg_div(c, rest, chunks) : cg_i64(c, 0), chunk, panel);
  cg_loop_end(c, &l, NULL);
}

static void emit_small(Gemm *g) {
  Cg *c = g->c;
  If first;
  LLVMValueRef worker = c->worker, n_workers = c->n_workers;
  cg_if(c, &first, LLVMBuildICmp(c->b, LLVMIntEQ, worker, cg_i64(c, 0), ""));
  c->worker = cg_i64(c, 0), c->n_workers = cg_i64(c, 1);
  pack(g);
  compute(g);
  c->worker = worker, c->n_workers = n_workers;
  cg_endif(c, &first);
}

void cg_team_barrier(Cg *c, LLVMValueRef which, LLVMValueRef count) {
  If several;
  cg_if(c, &several, LLVMBuildICmp(c->b, LLVMIntSGT, count, cg_i64(c, 1), ""));
  cg_barrier(c, which, LLVMBuildTrunc(c->b, count, c->i32, ""));
  cg_endif(c, &several);
}

static void emit_shared(Gemm *g) {
  if (pack(g)) cg_team_barrier(g->c, cg_i32(g->c, 0), g->c->n_workers);
  compute(g);
}

// ---- the library
static LLVMValueRef load_ptr(Cg *c, LLVMValueRef base, size_t off) {
  return LLVMBuildLoad2(c->b, c->ptr, cg_at(c, c->i8, base, cg_i64(c, (int64_t)off)), "");
}

// C starts as the bias or as zeros.
static void prefill(Gemm *g, LLVMValueRef first, LLVMValueRef rows) {
  Cg *c = g->c;
  Loop row, l;
  cg_loop_begin(c, &row, first, cg_add(c, first, rows), cg_i64(c, 1), NULL, 0);
  cg_loop_begin(c, &l, cg_i64(c, 0), g->n, cg_i64(c, c->t->vl), NULL, 0);
  LLVMValueRef mask = cg_mask(c, cg_sub(c, g->n, l.i)), value = cg_splat(c, cg_f32(c, 0));
  if (g->bias) value = cg_load_masked(c, c->vf, cg_at(c, c->f32, g->bias, l.i), mask);
  cg_store_masked(c, value, cg_at(c, c->f32, g->out, cg_add(c, cg_mul(c, row.i, g->n), l.i)), mask);
  cg_loop_end(c, &l, NULL);
  cg_loop_end(c, &row, NULL);
}

static void call_sgemm(Gemm *g, LLVMValueRef rows, LLVMValueRef a, LLVMValueRef b, LLVMValueRef out) {
  Cg *c = g->c;
  LLVMTypeRef i = c->i32, w = c->i64, p = c->ptr;
  LLVMTypeRef types[] = {i, i, w, w, w, p, w, p, w, c->f32, p, w};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->ctx), types, 12, false);
  LLVMValueRef fn = load_ptr(c, load_ptr(c, c->frame, offsetof(TnFrame, svc)), offsetof(TnServices, sgemm));
  LLVMValueRef lda = g->p->ta ? g->m : g->k, ldb = g->p->tb ? g->k : g->n;
  LLVMValueRef arg[] = {
      cg_i32(c, g->p->ta), cg_i32(c, g->p->tb), rows, g->n, g->k, a, lda, b, ldb, cg_f32(c, 1), out, g->n};
  LLVMBuildCall2(c->b, type, fn, arg, 12, "");
}

// Tasks: blocks of BLAS_ROWS rows of every matrix of the batch.
static void emit_blas(Gemm *g) {
  Cg *c = g->c;
  const GemmPlan *p = g->p;
  LLVMValueRef blocks = cg_ceil_div_value(c, g->m, BLAS_ROWS), lo, hi;
  cg_share(c, cg_mul(c, g->batch, blocks), 1, &lo, &hi);
  Loop l;
  cg_loop_begin(c, &l, lo, hi, cg_i64(c, 1), NULL, 0);
  LLVMValueRef batch = cg_div(c, l.i, blocks), m0 = cg_mul(c, remainder_of(c, l.i, blocks), cg_i64(c, BLAS_ROWS));
  LLVMValueRef rows = cg_min(c, cg_i64(c, BLAS_ROWS), cg_sub(c, g->m, m0)), row = cg_add(c, cg_mul(c, batch, g->m), m0);
  prefill(g, row, rows);
  LLVMValueRef a_off = batch_offset(g, p->a_batch, batch, cg_mul(c, g->m, g->k));
  LLVMValueRef b_off = batch_offset(g, p->b_batch, batch, cg_mul(c, g->k, g->n));
  LLVMValueRef a = cg_at(c, c->f32, g->a, cg_add(c, a_off, cg_mul(c, m0, g->a_row)));
  LLVMValueRef work = cg_mul(c, g->n, g->k);
  If some;
  cg_if(c, &some, LLVMBuildICmp(c->b, LLVMIntSGT, work, cg_i64(c, 0), ""));
  call_sgemm(g, rows, a, cg_at(c, c->f32, g->b, b_off), cg_at(c, c->f32, g->out, cg_mul(c, row, g->n)));
  cg_endif(c, &some);
  cg_loop_end(c, &l, NULL);
}

bool cg_emit_gemm(Cg *c) {
  Val v = {c->k->first};
  GemmPlan p = make_plan(c->f, v, c->t);
  Gemm g = make_values(c, &p);
  if (chosen(&p, c->t) == GEMM_BLAS) emit_blas(&g);
  else if (p.small) emit_small(&g);
  else emit_shared(&g);
  return true;
}
