// A CPU is one row: what its vectors can do, its caches, and how products are blocked for them (codegen/target.c).
// Nothing else in the code generator or the IR says a CPU's name or a cache's size.
#ifndef TN_CODEGEN_TARGET_H
#define TN_CODEGEN_TARGET_H

#include "ir/plan.h"

// Convolutions that Winograd's algorithm can do (conv/winograd.h): what is estimated to be faster; never by it; all by it.
typedef enum { CONVOLUTION_BY_COST, CONVOLUTION_EXACT, CONVOLUTION_WINOGRAD } Convolution;

typedef struct {
  const char *name, *alias;  // "x86-64-v3", "avx2"
  const char *triple;        // NULL: the host's
  const char *cpu;           // LLVM's name of a baseline CPU, e.g. "x86-64-v4"
  const char *features;      // the explicit list
  const char *cpu_features;  // those that LLVM says the CPU has beyond its triple's plainest; NULL: `features` has them
  const char *abi;           // LLVM's name of a calling convention; NULL: the triple's
  uint32_t pointer_bits;
  // the row of objects for such CPUs, since its own code needs what a process asks the system for; NULL:
  // itself
  const char *ahead;
  bool has_image;  // programs run in the process that compiles them: link.c knows its relocations
  // code is linked where it runs, as on machines without an operating system: not position-independent
  bool fixed_place;
  bool without_blas;  // nobody gives code a matrix product (TnServices.sgemm): of objects, in no row
  // ---- the stack of a run (codegen/blocks.c)
  int64_t stack_bytes;   // bound of entry and kernel together; where blocks cannot be static, wide rows may exceed it
  bool bounded_stack;    // kernels take what does not fit from TnFrame.blocks, and one worker runs them
  int64_t worker_bytes;  // that each worker has in TnFrame.blocks, beside the stack; 0: none
  // ---- vectors
  uint32_t vl;                  // f32 lanes
  const char *vector_register;  // LLVM's letter for one in inline assembly; NULL: it has none, or none was tried
  bool has_fma;                 // a b + d in one instruction, rounded once
  bool has_rounding;            // floor in one instruction
  bool loses_nan;  // LLVM's comparisons of vectors take NaN for a number: max, argmax and the like may lose it
  uint32_t vectors_at_once;  // of a pointwise loop of long chains (pointwise/pointwise.c); 0: one
  bool halves_vectors;       // of pointwise loops that wait for memory (161)
  bool has_avx512;           // what AVX-512 has and LLVM has no operation for (math/avx512.c)
  bool has_amx;              // tiles of bf16 products (gemm/amx.c); the system is asked for their registers (host.c)
  bool slow_masks;           // masked loads and stores take six times as long as whole ones (masked.c)
  bool stores_past_caches;   // which spares loads of what no cache holds (137)
  bool cheap_shuffle;        // picks from two vectors by index in one instruction: tables of 32 (math/erf_table.c)
  // ---- products (docs/gemm.md), in the terms of BLIS: MR x NR microkernel, MC x KC blocks of A, KC x NR panels of B.
  // Numbers: pages of docs/experiments that found the value
  uint32_t gemm_mr, gemm_nv;  // microkernel: MR rows x vectors of accumulators; NR is gemm_nv vl columns
  uint32_t dot_accumulators;  // of a tile of dot products
  int64_t gemm_mc_bytes;      // of an MC block: its rows of A stay in L2 (054)
  int64_t gemm_kc;  // KC where workers pack B, or it is prepacked: a panel's block stays in L2, rows of A pass by (023)
  int64_t gemm_b_bytes;      // of a KC x NC block of B that a worker packs, on its stack; 0: KC x NR, A as it is (091)
  int64_t gemm_kc_packed_a;  // KC where A is packed: the MC block stays in L2 (025, 046)
  int64_t gemm_kc_in_place;  // KC where nothing is packed and k is long: a panel's block stays in L2 (023)
  int64_t gemm_acc_bytes;    // accumulators on the stack, MC x NC while KC blocks pass by, or MR x NC (046, 090)
  int64_t stream_ahead;      // bytes of one stream from memory prefetched into L2; 0: none, hardware does as well (063)
  bool follows_streams;      // its hardware prefetcher keeps up with eight streams as with one (063)
  uint32_t memory_streams;   // far apart, that memory and LLC are read faster by than by one; 0: no more than one (109)
  bool prefers_blas;         // a tuned library is faster than code for this row
  int64_t partial_sum;       // terms of a partial sum: longer sums are added up from such, so that errors stay small
  // ---- recurrences
  uint32_t rnn_mr;       // rows of the recurrent tile (gates x vectors wide)
  int64_t rnn_kc_bytes;  // of w_hh in a KC block; the rest of L1 is for rows and sums (012)
  // ---- caches, for the passes too
  TargetFacts facts;
  Convolution convolution;  // an option, in no row
  bool fast_math;  // primitives of at most 16 ulp where there are shorter ones (math/fast_math.c); an option, in no row
} Target;

// ---- codegen/target.c: the table
const Target *cg_targets(uint32_t *n);           // in order of preference
const Target *cg_target_find(const char *name);  // by name or alias; NULL: none
const Target *cg_target_ahead(const Target *t);  // the row that objects for t's CPUs are compiled for
// What words without a row begin with: no vectors are known to be there. small: of a machine without an operating system.
const Target *cg_target_plain(bool small);
const Target *cg_target_c99(const char *name);  // "c64", "c32": of C text, by the size of pointers; NULL: neither
void cg_target_unknown(const char *name, RtText *why);  // "there is no target 'x': ..; did you mean 'y'?"
void cg_target_key(const Target *t, RtText *out);       // all of the row, as text: part of an object's key

// ---- codegen/host.c: what this machine can run, by cpuid and xgetbv, never by CPU name
enum { TARGET_LACK = 64 };
bool cg_target_runs_here(const Target *t, char lack[TARGET_LACK]);  // lack: the first feature that it lacks
bool cg_target_host(Target *t, RtText *why);                        // $TN_TARGET or the best row
// The named row if this machine can run it; NULL or "": the best one that it can. false: `why` says what it lacks.
bool cg_target_pick(Target *t, const char *name, RtText *why);
Convolution cg_convolution(bool exact);  // what $TN_CONV says (exact, winograd, auto), unless exact ones are asked for

#endif
