// Matrix products: C[b][m][n] = sum over k of A[b][m][k] B[b][k][n] (+ bias[n]), and what is done to them element by
// element before they are stored. docs/gemm.md describes the whole; the terms are those of BLIS.
//
// Room product plans a product and emits its kernel; this one has strategies for matrices, one file each, room conv those
// for convolutions:
//
//   lanes.c  blas.c  gemv_registers.c  gemv.c  skinny.c  at_b.c  axpy.c  amx.c (with amx_block.c, parts.c)  tiled.c (with macrokernel.c)
//   blocks.c         what strategies, packing and prefetch compute with
//   microkernel.c    MR x NR tiles                    split_k.c    slices of a long k, summed by the team
//   pack.c           packed and padded operands       epilogue.c   what follows a product in its kernel
//   moments.c        mean and variance by channel of what is stored
//   prefetch.c       what tiles prefetch              module/packed_weights.c   weights packed once per change
//
// plan.h says what a plan is, macro_tile.h what strategies tiled and amx are made of; here is what a kernel is emitted with.
#ifndef TN_CODEGEN_GEMM_GEMM_H
#define TN_CODEGEN_GEMM_GEMM_H

#include "codegen/gemm/microkernel.h"
#include "codegen/gemm/plan.h"
#include "codegen/memory/optimizer.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/reduce/moments.h"

// ---- values of a kernel (kernel.c)
struct Gemm {
  Cg *c;
  const GemmPlan *p;
  RowStrip *prologue;  // NULL: none
  RowStrip *epilogue;  // NULL: none
  UpdateScalars *update_scalars;
  Moments *moments;  // of what the kernel stores; NULL: none are wanted
  V moment_slots;    // that the strategy has used so far; NULL: it sums none
  V m, n, k, batch;
  V panels, k_pad;  // k_pad: rows of a packed panel
  V a, b, out, bias;
  V fused_from;                // cg_gemm_has_own_mc_block: the first row of the MC block at hand
  V packed_a, packed_b, sums;  // sums: where products are stored, by rows of n
  V own;                       // b_elements in scratch
  V partial;                   // [slice][m][n] in scratch, where k is cut into slices
  V slices;                    // how many; NULL: k is not cut, or is too short after all
  V a_ld, b_ld;                // elements between rows of A and of B as they are stored
  V a_row, a_k;                // strides of A as it is stored
  V row_step;                  // rows of what is stored between two of the product
  V a_pad;                     // A_SHARED: k of a packed micropanel
  V window_m0, window_k0;      // the window at hand, where A is packed by windows
  // on the worker's stack, or beside it (cg_worker_block)
  V strip;                             // sums: rows of NR of one macro tile, or of NC of a micropanel or an MC block
  V a_block, b_block;                  // packed blocks
  V a_parts, b_parts;                  // split-bf16 parts: shared ones, or those of an NC block of B
  V a_amax, b_amax;                    // on the stack: the largest magnitudes in each panel of a_block and b_parts
  V ahead;                             // likewise: the list of blocks to pack ahead; NULL: none
  V buffer;                            // likewise: the number of the buffer at hand, of two in b_parts
  V zeros;                             // likewise: a row of zeros
  V a_exceeds_range, b_exceeds_range;  // i1: A's MC block, or B's NC block, has a number out of the range of split bf16
};

// ---- blocks.c
V cg_gemm_on_stack(Cg *c, int64_t elements);
V cg_dims_product(Cg *c, const DimList *l);
// First element of A's or B's matrix (LAID_A, LAID_B) for batch number `index`: axes that the operand lacks do not count.
V cg_gemm_batch(Gemm *g, uint32_t which, V index);
V cg_gemm_first_row(Gemm *g, V index);  // likewise the number of the result's row, as it is stored
V cg_gemm_rows(const Gemm *g, V n);     // rows of what is stored from one row of the product to the n-th behind it
V cg_laid_stride(Cg *c, const Laid *l, uint32_t axis, uint32_t but);  // of an axis; without the last `but` axes

// ---- prefetch.c
// The value that the kernel stores for the product's rows: the product, or the last value of its epilogue; none.
Val cg_gemm_result(const Gemm *g);

// ---- split_k.c
// The part of k that is summed: [lo, hi) of slice number `k_slice`, or all of it.
void cg_gemm_k_range(Gemm *g, V slice, V *lo, V *hi);
// Emits the product by slices of k: `units` sees them as matrices of a batch; the team adds them.
void cg_gemm_emit_split_k(Gemm *g, void (*units)(Gemm *g));

// ---- epilogue.c
bool cg_gemm_begin_epilogue(Gemm *g);  // call once in the kernel; false: c->why
// `rows` rows of the product, the first one row number `row` of the result as it is stored, columns [n0, n0 + n): the epilogue over
// sums that lie `stride` apart at `from`.
void cg_gemm_epilogue(Gemm *g, V row, V rows, V n0, V n, V from, V stride);

// ---- moments.c
void cg_gemm_open_moments(Gemm *g, int64_t at);            // at: bytes of scratch before the slots
void cg_gemm_add_moments(Gemm *g, const MomentPixels *p);  // stored pixels of the product, where its strategy sums them
void cg_gemm_finish_moments(Gemm *g);                      // after the strategy's code

// ---- pack.c
bool cg_gemm_pack_shared(Gemm *g);    // but what is packed by windows; false: nothing to wait for
void cg_gemm_pack_window(Gemm *g);    // of A, by the team
V cg_gemm_row_stride(const Gemm *g);  // elements between rows of A that are padded or that a prologue stores
bool cg_gemm_has_own_mc_block(const GemmPlan *p);  // rows of A that its worker computes or copies for each MC block
void cg_gemm_fill_mc_block(Gemm *g, V batch, V m0, V rows);
// Rows k0 .. k0 + rows - 1 of B's panel at column n0 to dst as [k][NR];
void cg_gemm_pack_b(Gemm *g, V src, V k0, V rows, V n0, V dst);
// of the panels [p0, p1) as [panel][kc][NR].
void cg_gemm_pack_nc(Gemm *g, V src, V k0, V rows, V p0, V p1, V dst);
// An MC block of A, stored [K, M], from row m0 on and k0 .. k0 + n_k - 1, to dst as [micropanel][kc][a_tile].
void cg_gemm_pack_a(Gemm *g, V src, V m0, V k0, V n_k, V dst);

// ---- dot products (dot.c)
V cg_dot_sums(Cg *c, V *v, uint32_t n);  // lane i: the sum of v[i]. n <= vl; v is overwritten
// `n` <= vl sums of a single row go to columns n0 ..; mask NULL: vl of them.
void cg_gemm_store_row(Gemm *g, V n0, V n, V mask, V sums);
void cg_gemm_store_rows(Gemm *g, V n0, V n);  // likewise of all rows, which wait in `strip`

#endif
