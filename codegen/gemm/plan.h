// The plan of a matrix product: its operands and sizes, how it is packed and blocked, and which strategy computes it. By bounds and
// constants alone, before any code.
#ifndef TN_CODEGEN_GEMM_PLAN_H
#define TN_CODEGEN_GEMM_PLAN_H

#include "codegen/target.h"
#include "ir/fn.h"
#include "ir/ops.h"
#include "ir/product.h"

enum { GEMM_STRIDE_PAD = 16 };  // elements between padded rows of A

typedef struct {
  Dim dim[MAX_RANK];
  uint32_t n;
} DimList;

typedef enum {
  A_IN_PLACE,
  A_PACKED,               // an MC x KC block by the worker that uses it, on its stack: [micropanel][kc][a_tile]
  A_SHARED,               // all of it, or window by window, by the team into scratch: [micropanel][k][a_tile]
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

typedef struct Gemm Gemm;
typedef struct GemmStrategy GemmStrategy;
typedef struct {
  Val product;
  bool is_conv;  // a is an image: codegen/conv/conv.c
  Val a, b, bias, out;
  bool ta, tb;  // stored [K, M]; stored [N, K]
  bool apart;   // sums squares of differences in place of products: strategy tiled
  DimList m;    // product of these
  Dim n, k;
  DimList batch;                             // of the product
  Dim a_batch[MAX_RANK], b_batch[MAX_RANK];  // aligned with batch; 0: none
  bool b_has_batch;
  Laid laid[3];                            // LAID_A, LAID_B, LAID_RESULT of a matmul, whose axes may lie permuted
  int64_t a_ld_max, b_ld_max;              // elements between rows of a and b as they lie, bounds
  bool b_streams;                          // B comes from memory in every run: cg_gemm_b_streams
  int64_t m_max, n_max, k_max, batch_max;  // bounds
  // ---- modifiers
  GemmPrologue prologue;
  GemmEpilogue epilogue;
  Val first;             // the permute that stores the result of the epilogue with channels first; none
  Val update;            // the epilogue's update of a parameter, which takes rows of NC columns; none
  bool stores_product;   // the product itself is stored
  bool single_threaded;  // worker 0 only
  int64_t k_slice;       // length of the slices into which k is cut; 0: it is not cut
  uint32_t weight;       // B_PREPACKED: the parameter;
  WeightPack pack;       // and, of convolutions, the copy
  // ---- by the strategy
  const GemmStrategy *strategy;
  PackA pack_a;
  PackB pack_b;
  uint32_t parts;           // Parts
  uint32_t mr, nv, chains;  // microkernel: rows, vectors, accumulator chains
  int64_t width;            // NR
  int64_t mc, kc;           // kc >= k_max: k is not cut into KC blocks
  bool k_outermost;         // all panels of a range take a KC block before the next one: rows of A stay in L2 that long
  int64_t strip_rows;       // rows of sums on the stack that the epilogue takes at once; cg_gemm_by_micropanels: mr
  // NC: columns of an MC block with accumulators on the stack while KC blocks pass by; cg_gemm_has_micropanels: of B's block,
  // which stays in L2 while micropanels of A pass by; of strategy amx likewise. 0: none
  int64_t nc;
  int64_t a_tile;  // A_PACKED, A_SHARED: elements of one k
  // A_SHARED that is large: rows and k that are packed at once, into one of two buffers by turns. 0: all of A
  int64_t window_rows, window_k;
  int64_t
      b_elements;  // elements of scratch that the strategy lays out: B if it is B_BY_STRATEGY, and other shared data
  int64_t units;   // pieces of work for the team, with all of k
  int64_t moment_slots;  // slots for moments that the strategy sums; 0: it does not
} GemmPlan;

// ---- strategies: functions of the rows of strategies.def
typedef enum {
  SPLIT_K = 1,
  SINGLE_THREADED = 2,
  PREPACKED = 4,
  PRIVATE_A = 8,
  TIGHT_A = 16,
  SUMS_IN_MEMORY = 32,
  DISTANCES = 64
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
// Operands and the result are matrices one behind the other.
static inline bool cg_gemm_is_dense(const GemmPlan *p) {
  return !p->laid[LAID_A].moves && !p->laid[LAID_B].moves && !p->laid[LAID_RESULT].moves;
}
// A as [micropanel][k][a_tile]
static inline bool cg_gemm_packs_a(const GemmPlan *p) { return p->pack_a == A_PACKED || p->pack_a == A_SHARED; }

// ---- sizes that strategies compare (blocks.c)
// Batch axes of a, b and their product; of operands those that they have, others are 0. Whether b has any
bool cg_read_batch(const Fn *f, const Laid laid[3], DimList *batch, Dim *of_a, Dim *of_b);
// The parameter behind value b, if f does not write it; false: none.
bool cg_constant_weight(const Fn *f, Val b, uint32_t *param);
bool cg_gemm_is_one_row(const Fn *f, const GemmPlan *p);         // constantly
bool cg_gemm_b_exceeds_llc(const GemmPlan *p, const Target *t);  // B is larger than a worker's share of the LLC
// The same, or b is a parameter and all parameters that the function reads exceed it together.
bool cg_gemm_b_streams(const Fn *f, Val product, const Target *t);
// Equal KC blocks of at most `most` terms, multiples of unit
int64_t cg_gemm_even_kc(int64_t k, int64_t most, int64_t unit);
int64_t cg_gemm_kc(int64_t k, int64_t most, const Target *t);  // each a number of whole partial sums
int64_t cg_gemm_window_elements(const GemmPlan *p);            // of one of the two buffers
int64_t cg_dims_bound(const Prog *p, const DimList *l);

// ---- blas.c
typedef enum { GEMM_OWN, GEMM_BLAS } GemmBy;
GemmBy cg_gemm_choose(int64_t m, int64_t n, int64_t k, const Target *t);  // TN_GEMM=own|blas|auto overrides

// ---- what is known before any code: split_k.c, epilogue.c, moments.c, dot.c
// Length of the slices of k that the product is cut into, which has been planned with all of k; 0: it is not cut. By bounds and
// constants alone: the same sums for any number of workers.
int64_t cg_gemm_split_k(const GemmPlan *whole);
Val cg_gemm_update(const Fn *f, Val product);  // in the product's kernel; none
// Slots of moments, for a strategy with so many slots; 0: not worth it.
int64_t cg_gemm_moment_slots(const Fn *f, const GemmPlan *p, int64_t slots);
bool cg_gemm_is_skinny(const GemmPlan *p, const Target *t);  // few rows, B stored [N, K]
void cg_gemm_plan_dot(GemmPlan *p, const Target *t);
enum { CG_GEMM_LANE_TERMS = 512 };  // terms that a lane of a dot product sums before its sum is added to others

#endif
