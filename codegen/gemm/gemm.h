// Matrix products: C[b][m][n] = sum over k of A[b][m][k] B[b][k][n] (+ bias[n]), and what is done to them element by
// element before they are stored. docs/gemm.md describes the whole; the terms are those of BLIS.
//
// Room product plans a product and emits its kernel; this one has strategies for matrices, one file each, room conv those
// for convolutions:
//
//   blas.c  gemv_registers.c  gemv.c  skinny.c  at_b.c  axpy.c  amx.c (with amx_block.c, parts.c)  tiled.c (with macrokernel.c)
//   blocks.c         what strategies, packing and prefetch compute with
//   microkernel.c    MR x NR tiles                    split_k.c    slices of a long k, summed by the team
//   pack.c           packed and padded operands       epilogue.c   what follows a product in its kernel
//   moments.c        mean and variance by channel of what is stored
//   prefetch.c       what tiles prefetch              module/packed_weights.c   weights packed once per change
#ifndef TN_CODEGEN_GEMM_GEMM_H
#define TN_CODEGEN_GEMM_GEMM_H

#include "codegen/gemm/microkernel.h"
#include "codegen/memory/optimizer.h"
#include "codegen/pointwise/prologue_epilogue.h"
#include "codegen/reduce/moments.h"

enum { GEMM_STRIDE_PAD = 16 };  // elements between padded rows of A

typedef struct {
  Dim dim[MAX_RANK];
  uint32_t n;
} DimList;

typedef enum {
  A_IN_PLACE,
  A_PACKED,               // an MC x KC block by the worker that uses it, on its stack: [micropanel][kc][a_tile]
  A_SHARED,               // all of it by the team, into scratch: [micropanel][k][a_tile]
  A_PADDED_PER_MC_BLOCK,  // an MC block by the worker that uses it, on its stack, as rows that are no power of two apart
} PackA;
typedef enum {
  B_IN_PLACE,
  B_SHARED,   // all of it by the team, into scratch: [panel][k][NR]
  B_PRIVATE,  // a KC x NC block, or KC x NR, by the worker that uses it, on its stack: [panel][kc][NR]
  B_PREPACKED,
  B_BY_STRATEGY,  // by the team into scratch, as the strategy wants it: b_elements
} PackB;
// Operands as three bf16 parts of each f32 (parts.c), besides the form that pack_a and pack_b say: flags.
typedef enum {
  PARTS_NONE,
  PARTS_PRIVATE = 1,   // an MC x KC block of A, and a KC x NC block of B, by the worker that uses them;
  PARTS_A_SHARED = 2,  // all of A,
  PARTS_B_SHARED = 4   // all of B by the team into scratch instead
} Parts;
// The operand that the instructions before the product compute in its kernel, and who does.
typedef enum {
  PROLOGUE_NONE,
  PROLOGUE_A_SHARED,        // the team, into scratch; a barrier
  PROLOGUE_A_PRIVATE,       // every worker all of it, on its stack
  PROLOGUE_A_PER_MC_BLOCK,  // every worker the rows of its MC blocks, on its stack
  PROLOGUE_A_ON_LOAD,       // every worker while it loads its only row
  PROLOGUE_A_BY_STRIP,      // every worker while it copies a part of an image
  PROLOGUE_B,               // the packing, or the team into scratch; a barrier
} GemmPrologue;
typedef enum {
  EPILOGUE_NONE,
  EPILOGUE_FROM_STACK,   // on sums that are in L1
  EPILOGUE_FROM_MEMORY,  // on whole rows of stored sums
} GemmEpilogue;

typedef struct GemmStrategy GemmStrategy;
typedef struct {
  Val product;
  bool is_conv;  // a is no matrix: codegen/conv/conv.c
  Val a, b, bias, out;
  bool ta, tb;  // stored [K, M]; stored [N, K]
  DimList m;    // product of these
  Dim n, k;
  DimList batch;                             // of the result
  Dim a_batch[MAX_RANK], b_batch[MAX_RANK];  // aligned with batch; 0: none
  bool b_has_batch;
  bool b_streams;                          // B comes from memory in every run: cg_gemm_b_streams
  int64_t m_max, n_max, k_max, batch_max;  // bounds
  // ---- modifiers
  GemmPrologue prologue;
  GemmEpilogue epilogue;
  Val update;            // the epilogue's update of a parameter, which takes rows of NC columns; none
  bool stores_product;   // the product itself is stored
  bool single_threaded;  // worker 0 alone
  int64_t k_slice;       // k is cut into slices of so many; 0: it is not
  uint32_t weight;       // B_PREPACKED: the parameter;
  WeightPack pack;       // and, of convolutions, the copy
  // ---- by the strategy
  const GemmStrategy *strategy;
  PackA pack_a;
  PackB pack_b;
  uint32_t parts;           // Parts
  uint32_t mr, nv, chains;  // microkernel: rows, vectors, accumulator chains
  int64_t width;            // NR
  int64_t mc, kc;           // kc at least k_max: k is not cut into KC blocks
  bool k_outermost;         // all panels of a range take a KC block before the next one: rows of A stay in L2 that long
  int64_t strip_rows;       // rows of sums on the stack that the epilogue takes at once; cg_gemm_by_micropanels: mr
  // NC: columns of an MC block with accumulators on the stack while KC blocks pass by; cg_gemm_has_micropanels: of B's block,
  // which stays in L2 while micropanels of A pass by; of strategy amx likewise. 0: none
  int64_t nc;
  int64_t a_tile;        // A_PACKED, A_SHARED: elements of one k
  int64_t b_elements;    // of scratch that the strategy lays out: B where it is B_BY_STRATEGY, and what else it shares
  int64_t units;         // pieces of work for the team, with all of k
  int64_t moment_slots;  // that the strategy sums moments of the product in; 0: it does not
} GemmPlan;

// ---- values of a kernel (kernel.c)
typedef struct {
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
  V a_row, a_k;                // strides of A as it is stored
  // on the worker's stack, or beside it (cg_worker_block)
  V strip;             // sums: rows of NR of one macro tile, or of NC of a micropanel or an MC block
  V a_block, b_block;  // packed blocks
  V a_parts, b_parts;  // those that are shared, or B's of an NC block
  V a_amax, b_amax;    // on the stack: the largest magnitudes in each panel of a_block and b_parts
  V ahead;             // likewise: the list of what is packed ahead; NULL: nothing is
  V buffer;            // likewise: the number of the buffer at hand, of two in b_parts
  V zeros;             // likewise: a row of zeros
  V wide_a, wide_b;    // i1: has A's MC block, or B's NC block, a number that does not go through parts?
} Gemm;

// ---- strategies: functions of the rows of strategies.def
typedef enum {
  SPLIT_K = 1,
  SINGLE_THREADED = 2,
  PREPACKED = 4,
  PRIVATE_A = 8,
  TIGHT_A = 16,
  SUMS_IN_MEMORY = 32
} GemmModifiers;
struct GemmStrategy {
  const char *name, *doc;
  uint32_t modifiers;
  bool (*fits)(const Fn *f, const GemmPlan *p, const Target *t);  // operands, sizes and modifiers are known
  void (*plan)(const Fn *f, GemmPlan *p, const Target *t);        // the rest of p, by bounds and constants alone
  void (*stack)(Gemm *g);                                         // private memory, in the entry block
  void (*emit)(Gemm *g);                                          // packed operands are ready
};
#define STRATEGY(name, modifiers, doc)                                         \
  bool cg_gemm_##name##_fits(const Fn *f, const GemmPlan *p, const Target *t); \
  void cg_gemm_##name##_plan(const Fn *f, GemmPlan *p, const Target *t);       \
  void cg_gemm_##name##_stack(Gemm *g);                                        \
  void cg_gemm_##name##_emit(Gemm *g);
#include "codegen/product/strategies.def"
#undef STRATEGY

// ---- what a plan means
static inline bool cg_gemm_fuses_a(const GemmPlan *p) {
  return p->prologue && p->prologue != PROLOGUE_B && p->prologue != PROLOGUE_A_BY_STRIP;
}
// Tiles of a micropanel of A pass NC columns of B before the next one's.
static inline bool cg_gemm_has_micropanels(const GemmPlan *p) {
  return p->pack_a == A_PACKED || (p->pack_b == B_PRIVATE && p->nc && !p->parts);
}
// The epilogue takes the sums of one micropanel after the other, which are complete.
static inline bool cg_gemm_by_micropanels(const GemmPlan *p) { return cg_gemm_has_micropanels(p) && p->kc >= p->k_max; }
// A as [micropanel][k][a_tile]
static inline bool cg_gemm_packs_a(const GemmPlan *p) { return p->pack_a == A_PACKED || p->pack_a == A_SHARED; }

// ---- blas.c
typedef enum { GEMM_OWN, GEMM_BLAS } GemmBy;
GemmBy cg_gemm_choose(int64_t m, int64_t n, int64_t k, const Target *t);  // TN_GEMM=own|blas|auto overrides

// ---- blocks.c
// Batch axes of a, b and their product; of operands those that they have, others are 0. Whether b has any
bool cg_read_batch(const Fn *f, const Shape s[3], DimList *batch, Dim *of_a, Dim *of_b);
// A parameter that f does not write, behind the value b; false: it is none.
bool cg_constant_weight(const Fn *f, Val b, uint32_t *param);
bool cg_gemm_is_one_row(const Fn *f, const GemmPlan *p);         // constantly
bool cg_gemm_b_exceeds_llc(const GemmPlan *p, const Target *t);  // B is larger than a worker's share of the LLC
// Or it is a parameter, and those that the function reads are, together.
bool cg_gemm_b_streams(const Fn *f, Val product, const Target *t);
// Equal KC blocks of at most `most` terms, multiples of unit
int64_t cg_gemm_even_kc(int64_t k, int64_t most, int64_t unit);
int64_t cg_gemm_kc(int64_t k, int64_t most, const Target *t);  // each a number of whole partial sums
V cg_gemm_on_stack(Cg *c, int64_t elements);
int64_t cg_dims_bound(const Prog *p, const DimList *l);
V cg_dims_product(Cg *c, const DimList *l);
// First element of an operand's matrix for batch number `index`: axes that the operand lacks do not count.
V cg_batch_offset(Cg *c, const DimList *batch, const Dim *own, V index, V matrix);
V cg_gemm_batch(Gemm *g, const Dim *own, V index, V matrix);

// ---- split_k.c
// Length of the slices of k that the product is cut into, which has been planned with all of k; 0: it is not cut. By bounds and
// constants alone: the same sums for any number of workers.
int64_t cg_gemm_split_k(const GemmPlan *whole);
// The part of k that is summed: [lo, hi) of slice number `k_slice`, or all of it.
void cg_gemm_k_range(Gemm *g, V slice, V *lo, V *hi);
// The product by what `units` emits: it makes slices of k, numbered as matrices of a batch are, and the team adds them.
void cg_gemm_emit_split_k(Gemm *g, void (*units)(Gemm *g));

// ---- a macro tile: what its microkernels see (macrokernel.c)
typedef struct {
  V batch, mc, panel;
  V m0, n0, row;     // row: of the result, batches included
  V rows, columns;   // columns: up to the end of the result; may be more than a panel
  V k0, n_k;         // the KC block
  V k_begin, k_end;  // of all of them
  V first, end;      // panels of the worker's range of the MC block
  V nc0;             // the first column of NC
  V micropanel;      // cg_gemm_has_micropanels: number of the tile of rows in the MC block
} GemmMacroTile;

// ---- macrokernel.c
V cg_gemm_tile_a(Gemm *g, const GemmMacroTile *u);  // f32 elements of A: address and strides
V cg_gemm_tile_a_row(const Gemm *g);
V cg_gemm_tile_a_k(const Gemm *g);
V cg_gemm_b_matrix(Gemm *g, V batch);
V cg_gemm_tile_c(Gemm *g, const GemmMacroTile *u);  // where sums are
V cg_gemm_tile_c_row(const Gemm *g);
void cg_gemm_tile(Gemm *g, const GemmMacroTile *u);  // by microkernels; B is where the plan says
Loop cg_gemm_each_block(Gemm *g, GemmMacroTile *u);  // KC blocks; one where k is 0, so that sums begin

// ---- amx.c: the panels [p0, p1) of u's MC block
void cg_amx_range(Gemm *g, GemmMacroTile *u, V p0, V p1);

// ---- prefetch.c
void cg_gemm_set_prefetch(const Gemm *g, TileSpec *s);
// What the macro tile's microkernels prefetch; args has its operands.
void cg_gemm_prefetch(Gemm *g, const GemmMacroTile *u, TileArgs *args);

// ---- epilogue.c
Val cg_gemm_update(const Fn *f, Val product);  // in the product's kernel; none
bool cg_gemm_begin_epilogue(Gemm *g);          // once in the kernel; false: c->why
// Rows [row, row + rows) of the result, columns [n0, n0 + n): the epilogue over sums that lie `stride` apart at `from`.
void cg_gemm_epilogue(Gemm *g, V row, V rows, V n0, V n, V from, V stride);

// ---- moments.c
int64_t cg_gemm_moment_slots(const Fn *f, const GemmPlan *p,
                             int64_t slots);               // of a strategy that has so many; 0: not worth it
void cg_gemm_open_moments(Gemm *g, int64_t at);            // at: bytes of scratch before the slots
void cg_gemm_add_moments(Gemm *g, const MomentPixels *p);  // stored pixels of the product, where its strategy sums them
void cg_gemm_finish_moments(Gemm *g);                      // after the strategy's code

// ---- pack.c
bool cg_gemm_pack_shared(Gemm *g);    // false: nothing to wait for
V cg_gemm_row_stride(const Gemm *g);  // elements between rows of A that are padded or that a prologue stores
bool cg_gemm_has_own_mc_block(const GemmPlan *p);  // rows of A that its worker computes or copies for each MC block
void cg_gemm_fill_mc_block(Gemm *g, V m0, V rows);
// Rows k0 .. k0 + rows - 1 of B's panel at column n0 to dst as [k][NR];
void cg_gemm_pack_b(Gemm *g, V src, V k0, V rows, V n0, V dst);
// of the panels [p0, p1) as [panel][kc][NR].
void cg_gemm_pack_nc(Gemm *g, V src, V k0, V rows, V p0, V p1, V dst);
// An MC block of A, stored [K, M], from row m0 on and k0 .. k0 + n_k - 1, to dst as [micropanel][kc][a_tile].
void cg_gemm_pack_a(Gemm *g, V src, V m0, V k0, V n_k, V dst);

// ---- dot products (dot.c)
enum { CG_GEMM_LANE_TERMS = 512 };  // that a lane of a dot product sums before its sum is added to others
bool cg_gemm_is_skinny(const GemmPlan *p, const Target *t);  // few rows, B stored [N, K]
void cg_gemm_plan_dot(GemmPlan *p, const Target *t);
V cg_dot_sums(Cg *c, V *v, uint32_t n);  // lane i: the sum of v[i]. n <= vl; v is overwritten
// `n` <= vl sums of a single row go to columns n0 ..; mask NULL: vl of them.
void cg_gemm_store_row(Gemm *g, V n0, V n, V mask, V sums);
void cg_gemm_store_rows(Gemm *g, V n0, V n);  // likewise of all rows, which wait in `strip`

#endif
