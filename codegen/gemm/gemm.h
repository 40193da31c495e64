// What the parts of the matrix product emitter share (macrokernel.c draws how the work is cut).
//
//   plan.c   what is known before any code is emitted: sizes, tiles, who packs what; scratch; own code or library
//   pack.c   operands that are stored the wrong way
//   gemv.c   one row with a matrix that is stored [N, K], read as one stream
//   module/packed_weights.c weights that are packed once per change, not once per run
//   skinny.c    products of few rows with a matrix that is stored [N, K]: dot products, nothing is packed
//   at_b.c products of two operands stored by rows of k, one of them narrow
//   split_k.c  few macro tiles with a long k, which is cut into slices for the team
//   blas.c   the library
//   prefetch.c    what tiles prefetch while they compute, so that it is near when it is wanted
//   epilogue.c what follows a product in its kernel
//   macrokernel.c        macro tiles, tiles
#ifndef TN_CODEGEN_GEMM_GEMM_H
#define TN_CODEGEN_GEMM_GEMM_H

#include "codegen/gemm/microkernel.h"
#include "codegen/memory/optimizer.h"
#include "codegen/pointwise/prologue_epilogue.h"

enum { GEMM_STRIDE_PAD = 16 };  // elements between rows of A_PADDED

typedef struct {
  Dim dim[MAX_RANK];
  uint32_t n;
} DimList;

typedef enum { A_IN_PLACE, A_BLOCKS, A_PADDED, A_FUSED } PackA;
typedef enum { B_IN_PLACE, B_SHARED, B_PRIVATE, B_WEIGHT } PackB;
typedef enum { FUSED_NONE, FUSED_A, FUSED_B } FusedOperand;
typedef struct {
  Val a, b, bias, out;
  bool ta, tb;
  DimList m;  // product of these
  Dim n, k;
  DimList batch;                             // of the result
  Dim a_batch[MAX_RANK], b_batch[MAX_RANK];  // aligned with batch; 0: none
  bool b_has_batch;
  int64_t m_max, n_max, k_max, batch_max;
  uint32_t mr, nv, chains;
  int64_t width, mc;    // columns of a panel, rows of an MC block
  int64_t strip_rows;   // rows of sums that wait on the stack for the epilogue
  int64_t acc_columns;  // columns of an MC block whose sums wait there for all KC blocks; 0: none do
  int64_t kc;           // k is cut into blocks of so many; k_max: it is not
  int64_t k_slice;      // and before that into slices of so many, work for several workers; 0: it is not
  int64_t a_tile;       // A_BLOCKS: elements of one k
  bool small, skinny;
  bool at_b;                   // the transpose of the product is made, and transposed when it is stored
  bool gemv_const;             // of A, and a small dot product of constant sizes
  bool b_exceeds_llc;          // B is too large to be in the last-level cache
  bool fused;                  // there is an epilogue
  bool updates;                // with the update of a parameter, which takes whole rows
  FusedOperand fused_operand;  // the operand that a prologue makes
  bool private_a;              // A_FUSED: every worker makes it for itself, on its stack,
  bool a_per_mc_block;         // or the rows of an MC block, since it has the MC block for itself
  bool gemv;                   // one row of A, and B is read as one stream
  bool stores_product;         // the product itself is stored
  bool
      epilogue_from_memory;  // the epilogue reads whole rows of sums in memory: k is cut for the team, or the library sums
  GemmBy by;
  PackA pack_a;
  PackB pack_b;
  uint32_t weight;  // B_WEIGHT: the parameter
} GemmPlan;

// ---- plan.c
GemmPlan cg_gemm_plan(const Fn *f, Val v, const Target *t);
// Scratch, in elements: shared packed B, or B as it is made; shared packed A, or A as it is made; sums.
int64_t cg_gemm_packed_b(const GemmPlan *p, const Target *t);
int64_t cg_gemm_packed_a(const GemmPlan *p);
int64_t cg_gemm_sums(const GemmPlan *p);
int64_t cg_gemm_scratch_bytes(const Fn *f, Val v, const Target *t);  // all of them

// ---- values of a kernel (macrokernel.c)
typedef struct {
  Cg *c;
  const GemmPlan *p;
  Rows *prologue;  // NULL: none
  Rows *epilogue;  // NULL: none
  Val update;      // of the parameter whose gradient the kernel makes; none
  UpdateScalars *update_scalars;
  LLVMValueRef m, n, k, batch;
  LLVMValueRef panels, k_pad;  // k_pad: rows of a packed panel
  LLVMValueRef a, b, out, bias;
  LLVMValueRef fused_from;                // a_per_mc_block: the first row of the MC block whose rows are made
  LLVMValueRef packed_a, packed_b, sums;  // sums: where products are stored, by rows of n
  LLVMValueRef partial;                   // [slice][m][n] in scratch, where k is cut into slices
  LLVMValueRef slices;                    // how many; NULL: k is not cut, or is too short after all
  LLVMValueRef a_row, a_k;                // strides of A as it is stored
  // private, on the worker's stack
  LLVMValueRef
      strip;  // rows of sums of one macro tile, `width` apart, or of a panel range, `acc_columns`: for the epilogue
  LLVMValueRef a_block, b_block;  // packed blocks
} Gemm;
// ---- a macro tile: what its tiles see
typedef struct {
  LLVMValueRef batch, mc, panel;
  LLVMValueRef m0, n0, row;    // row: of the result, batches included
  LLVMValueRef rows, columns;  // columns: up to the end of the result; may be more than a panel
  LLVMValueRef k0, n_k;        // the KC block
  LLVMValueRef k_begin;        // the first one's
  LLVMValueRef wait0;          // the first column whose sums wait
} GemmMacroTile;
LLVMValueRef cg_gemm_rem(Cg *c, LLVMValueRef n, LLVMValueRef d);
// First element of an operand's matrix for batch number `index`: axes that the operand lacks do not count.
LLVMValueRef cg_gemm_batch(Gemm *g, const Dim *own, LLVMValueRef index, LLVMValueRef matrix);
// The part of k that is summed: [lo, hi) of slice number `k_slice`, or all of it.
void cg_gemm_k_range(Gemm *g, LLVMValueRef slice, LLVMValueRef *lo, LLVMValueRef *hi);
// The product by what `units` emits: it makes slices of k, numbered as matrices of a batch are, and the team adds them.
void cg_gemm_emit_split_k(Gemm *g, void (*units)(Gemm *g));  // split_k.c

// ---- prefetch.c
void cg_gemm_set_prefetch(const Gemm *g, TileSpec *s);
void cg_gemm_prefetch(Gemm *g, const GemmMacroTile *u,
                      TileArgs *args);  // what the macro tile's tiles prefetch; args has its operands

// ---- epilogue.c
Val cg_gemm_update(const Fn *f, Val product);  // in the product's kernel; none
bool cg_gemm_begin_epilogue(Gemm *g);          // once in the kernel; false: c->why
// Rows [row, row + rows) of the result, columns [n0, n0 + n): the epilogue over sums that lie `stride` apart at `from`.
void cg_gemm_epilogue(Gemm *g, LLVMValueRef row, LLVMValueRef rows, LLVMValueRef n0, LLVMValueRef n, LLVMValueRef from,
                      LLVMValueRef stride);

// ---- pack.c
bool cg_gemm_pack_shared(Gemm *g);               // false: nothing to wait for
LLVMValueRef cg_gemm_row_stride(const Gemm *g);  // elements between rows of A_PADDED and A_FUSED
void cg_gemm_make_mc_block(Gemm *g, LLVMValueRef m0, LLVMValueRef rows);
// Rows k0 .. k0 + rows - 1 of B's panel at column n0 to dst as [k][width].
void cg_gemm_pack_b(Gemm *g, LLVMValueRef src, LLVMValueRef k0, LLVMValueRef rows, LLVMValueRef n0, LLVMValueRef dst);
// An MC block of A, stored [K, M], from row m0 on and k0 .. k0 + n_k - 1, to dst as [tile][kc][a_tile].
void cg_gemm_pack_a(Gemm *g, LLVMValueRef src, LLVMValueRef m0, LLVMValueRef k0, LLVMValueRef n_k, LLVMValueRef dst);

// ---- skinny.c, gemv.c
LLVMValueRef cg_dot_sums(Cg *c, LLVMValueRef *v, uint32_t n);  // lane i: the sum of v[i]. n <= vl; v is overwritten
// `n` <= vl sums of a single row go to columns n0 ..; mask NULL: vl of them.
void cg_gemm_store_row(Gemm *g, LLVMValueRef n0, LLVMValueRef n, LLVMValueRef mask, LLVMValueRef sums);
void cg_gemm_emit_gemv(Gemm *g);

// ---- module/packed_weights.c
// A parameter that f does not write, behind the value b; false: it is none.
bool cg_constant_weight(const Fn *f, Val b, uint32_t *param);
WeightPack cg_weight_of(const GemmPlan *p, const Target *t);  // of a plan with B_WEIGHT; not placed

void cg_gemm_emit_skinny(Gemm *g);         // skinny.c
uint32_t cg_skinny_rows(const Target *t);  // most rows of a tile of dot products
// Two operands by rows of k, the second one narrow; no epilogue: codegen/gemm/at_b.c.
bool cg_gemm_is_at_b(const Fn *f, const GemmPlan *p, const Target *t);
void cg_gemm_emit_at_b(Gemm *g);
void cg_gemm_emit_blas(Gemm *g);  // blas.c

#endif
