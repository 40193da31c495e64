// What the parts of the matrix product emitter share (gemm.c draws how the work is cut).
//
//   gemm_plan.c   what is known before any code is emitted: sizes, tiles, who packs what; scratch; own code or library
//   gemm_pack.c   operands that are stored the wrong way
//   gemm_line.c   one row with a matrix that is stored [N, K], read as one stream
//   gemm_weight.c weights that are packed once per change, not once per run
//   gemm_dot.c    products of few rows with a matrix that is stored [N, K]: dot products, nothing is packed
//   gemm_turned.c products of two operands stored by rows of k, one of them narrow
//   gemm_slice.c  few units with a long k, which is cut into slices for the team
//   gemm_blas.c   the library
//   gemm_ask.c    what tiles ask for while they compute, so that it is near when it is wanted
//   gemm_finish.c what follows a product in its kernel
//   gemm.c        units of work, tiles
#ifndef TN_CODEGEN_GEMM_H
#define TN_CODEGEN_GEMM_H

#include "codegen/optim.h"
#include "codegen/rows.h"
#include "codegen/tile.h"

enum { GEMM_STRIDE_PAD = 16 };  // elements between rows of A_PADDED

typedef struct {
  Dim dim[MAX_RANK];
  uint32_t n;
} DimList;

typedef enum { A_IN_PLACE, A_BLOCKS, A_PADDED, A_MADE } PackA;
typedef enum { B_IN_PLACE, B_SHARED, B_PRIVATE, B_WEIGHT } PackB;
typedef enum { MAKES_NONE, MAKES_A, MAKES_B } Makes;
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
  int64_t width, chunk;  // columns of a panel, rows of a chunk
  int64_t piece_rows;    // rows of sums that wait on the stack for the epilogue
  int64_t wait_columns;  // columns of a chunk whose sums wait there for all blocks of k; 0: none do
  int64_t k_block;       // k is cut into blocks of so many; k_max: it is not
  int64_t slice;         // and before that into slices of so many, work for several workers; 0: it is not
  int64_t a_tile;        // A_BLOCKS: elements of one k
  bool small, dot;
  bool turned;       // the transpose of the product is made, and turned when it is stored
  bool one_row;      // of A, and a small dot product of constant sizes
  bool far_b;        // B is too large to be in the last-level cache
  bool fused;        // there is an epilogue
  bool updates;      // with the update of a parameter, which takes whole rows
  Makes makes;       // the operand that a prologue makes
  bool alone;        // A_MADE: every worker makes it for itself, on its stack,
  bool by_chunks;    // or the rows of a chunk, since it has the chunk for itself
  bool lines;        // one row of A, and B is read as one stream
  bool keeps;        // the product itself is stored
  bool through_sum;  // the epilogue reads whole rows of sums in memory: k is cut for the team, or the library sums
  GemmBy by;
  PackA pack_a;
  PackB pack_b;
  uint32_t weight;  // B_WEIGHT: the parameter
} GemmPlan;

// ---- gemm_plan.c
GemmPlan cg_gemm_plan(const Fn *f, Val v, const Target *t);
// Scratch, in elements: shared packed B, or B as it is made; shared packed A, or A as it is made; sums.
int64_t cg_gemm_packed_b(const GemmPlan *p, const Target *t);
int64_t cg_gemm_packed_a(const GemmPlan *p);
int64_t cg_gemm_sums(const GemmPlan *p);

// ---- values of a kernel (gemm.c)
typedef struct {
  Cg *c;
  const GemmPlan *p;
  Rows *prologue;  // NULL: none
  Rows *epilogue;  // NULL: none
  Val update;      // of the parameter whose gradient the kernel makes; none
  UpdateScalars *steer;
  LLVMValueRef m, n, k, batch;
  LLVMValueRef panels, k_pad;  // k_pad: rows of a packed panel
  LLVMValueRef a, b, out, bias;
  LLVMValueRef made_from;                 // by_chunks: the first row of the chunk whose rows are made
  LLVMValueRef packed_a, packed_b, sums;  // sums: where products are stored, by rows of n
  LLVMValueRef partial;                   // [slice][m][n] in scratch, where k is cut into slices
  LLVMValueRef slices;                    // how many; NULL: k is not cut, or is too short after all
  LLVMValueRef a_row, a_k;                // strides of A as it is stored
  // private, on the worker's stack
  LLVMValueRef piece;  // rows of sums of one unit, `width` apart, or of a stretch, `wait_columns`: for the epilogue
  LLVMValueRef a_block, b_block;  // packed blocks
} Gemm;
// ---- a unit: what its tiles see
typedef struct {
  LLVMValueRef batch, chunk, panel;
  LLVMValueRef m0, n0, row;    // row: of the result, batches included
  LLVMValueRef rows, columns;  // columns: up to the end of the result; may be more than a panel
  LLVMValueRef k0, n_k;        // the block of k
  LLVMValueRef k_begin;        // the first one's
  LLVMValueRef wait0;          // the first column whose sums wait
} GemmUnit;
LLVMValueRef cg_gemm_rem(Cg *c, LLVMValueRef n, LLVMValueRef d);
// First element of an operand's matrix for batch number `index`: axes that the operand lacks do not count.
LLVMValueRef cg_gemm_batch(Gemm *g, const Dim *own, LLVMValueRef index, LLVMValueRef matrix);
// The part of k that is summed: [lo, hi) of slice number `slice`, or all of it.
void cg_gemm_k_range(Gemm *g, LLVMValueRef slice, LLVMValueRef *lo, LLVMValueRef *hi);
// The product by what `units` emits: it makes slices of k, numbered as matrices of a batch are, and the team adds them.
void cg_gemm_emit_slices(Gemm *g, void (*units)(Gemm *g));  // gemm_slice.c

// ---- gemm_ask.c
void cg_gemm_set_asks(const Gemm *g, TileSpec *s);
void cg_gemm_ask(Gemm *g, const GemmUnit *u, TileArgs *args);  // what the unit's tiles ask for; args has its operands

// ---- gemm_finish.c
Val cg_gemm_update(const Fn *f, Val product);  // in the product's kernel; none
bool cg_gemm_begin_finish(Gemm *g);            // once in the kernel; false: c->why
// Rows [row, row + rows) of the result, columns [n0, n0 + n): the epilogue over sums that lie `stride` apart at `from`.
void cg_gemm_finish(Gemm *g, LLVMValueRef row, LLVMValueRef rows, LLVMValueRef n0, LLVMValueRef n, LLVMValueRef from,
                    LLVMValueRef stride);

// ---- gemm_pack.c
bool cg_gemm_pack_shared(Gemm *g);               // false: nothing to wait for
LLVMValueRef cg_gemm_row_stride(const Gemm *g);  // elements between rows of A_PADDED and A_MADE
void cg_gemm_make_chunk(Gemm *g, LLVMValueRef m0, LLVMValueRef rows);
// Rows k0 .. k0 + rows - 1 of B's panel at column n0 to dst as [k][width].
void cg_gemm_pack_b(Gemm *g, LLVMValueRef src, LLVMValueRef k0, LLVMValueRef rows, LLVMValueRef n0, LLVMValueRef dst);
// A chunk of A, stored [K, M], from row m0 on and k0 .. k0 + n_k - 1, to dst as [tile][k_block][a_tile].
void cg_gemm_pack_a(Gemm *g, LLVMValueRef src, LLVMValueRef m0, LLVMValueRef k0, LLVMValueRef n_k, LLVMValueRef dst);

// ---- gemm_dot.c, gemm_line.c
LLVMValueRef cg_dot_sums(Cg *c, LLVMValueRef *v, uint32_t n);  // lane i: the sum of v[i]. n <= vl; v is overwritten
// `n` <= vl sums of a single row go to columns n0 ..; mask NULL: vl of them.
void cg_gemm_put_row(Gemm *g, LLVMValueRef n0, LLVMValueRef n, LLVMValueRef mask, LLVMValueRef sums);
void cg_gemm_emit_lines(Gemm *g);

// ---- gemm_weight.c
// A parameter that f does not write, behind the value b; false: it is none.
bool cg_constant_weight(const Fn *f, Val b, uint32_t *param);
WeightPack cg_weight_of(const GemmPlan *p, const Target *t);  // of a plan with B_WEIGHT; not placed

void cg_gemm_emit_dot(Gemm *g);         // gemm_dot.c
uint32_t cg_dot_rows(const Target *t);  // most rows of a tile of dot products
// Two operands by rows of k, the second one narrow; no epilogue: codegen/gemm_turned.c.
bool cg_gemm_turns(const Fn *f, const GemmPlan *p, const Target *t);
void cg_gemm_emit_turned(Gemm *g);
void cg_gemm_emit_blas(Gemm *g);  // gemm_blas.c

#endif
