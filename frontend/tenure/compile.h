// Tenure, compiling: from a program to a model; what was decided, as text.
#ifndef TN_COMPILE_H
#define TN_COMPILE_H

#include "core.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- compiling. Zeros are defaults.
//
// Machine code is made in a child process, a fork of this one: when memory runs out there, LLVM crashes or a limit is
// reached, tn_compile returns NULL, the program says why (E006, E010, E012) and this process goes on. What the object cache
// holds needs no child. The child ends with the thread that compiles; it runs no handlers of the program, keeps none of
// its files open and leaves Ctrl-C to it. A program that waits for children of its own sees one more end.
//
// Buckets: every function is planned for smaller bounds of named dims too, and a run takes the smallest plan that its
// sizes fit. Results have the same bits; a short batch works in less memory.
//
//   tn_compile(p, .buckets = TN_BUCKET_LIST({T, 16}, {T, 64}));    // T is bounded by 256
typedef struct {
  tn_dim dim;  // named, and an axis of an input
  int64_t bound;
} tn_bucket;
#define TN_BUCKET_LIST(...) \
  (const tn_bucket[]){__VA_ARGS__}, sizeof((const tn_bucket[]){__VA_ARGS__}) / sizeof(tn_bucket)
//
// Memory: what a function computes lives in an arena, whose size tn_plan.peak_bytes is known before anything runs. With a limit,
// orders of kernels are searched for that need less, and with TN_RECOMPUTE_AUTO kernels run again right before what reads their
// results, so that these need not live in between; those are chosen that take the least time (docs/memory.md). Results have the
// same bits. Where the limit cannot be met, tn_compile fails (E137), with the least that was found. Without a limit AUTO runs
// kernels again where that takes about 1 % of the time at most and lowers the peak by 3 % at least.
//
//   tn_compile(p, .arena_limit = 512 << 20, .recompute = TN_RECOMPUTE_AUTO);
typedef enum { TN_RECOMPUTE_OFF, TN_RECOMPUTE_AUTO } tn_recompute;
typedef struct {
  uint32_t n_workers;  // 0: one per available CPU, at most 64
  // NULL: $TN_CACHE, else $XDG_CACHE_HOME/tenure, else $HOME/.cache/tenure; "": no cache. Code is taken from there: a
  // folder or file that others could have written is not used (W011, once in a process; docs/security.md).
  const char *cache_dir;
  uint64_t seed;   // of the random stream
  bool fast_math;  // exp, log, tanh .. to 16 ulp instead of 2 where that is faster (docs/vector-math.md)
  // Convolutions as sums of products in every case. Otherwise those of 3 x 3 taps and stride 1, and both of their
  // gradients, are computed by Winograd's algorithm F(4x4, 3x3) where that is estimated to be faster (docs/gemm.md): as
  // many bits on any number of workers, but with larger errors of rounding, and what is infinite or NaN spreads to sums
  // nearby that it is no part of.
  bool exact_convolution;
  bool copy_saved;           // keep what a write in place would take from a backward, with a warning, instead of E112
  const tn_bucket *buckets;  // in any order; bounds of several dims are combined, at most 64 plans for a function
  size_t n_buckets;
  // Products with 4 to 256 rows, by the bound, and convolutions read a weight fastest from a packed copy of it, which
  // takes as much memory again as the weight, by Winograd's algorithm four times as much (tn_plan.packed_bytes). It is
  // made before the first run that reads it and before the first one after each change. Functions that update the weight
  // themselves read no copy.
  bool no_packed_weights;
  // Nothing is drawn: parameters that begin with random numbers are 0 until tn_load, tn_set or tn_initialize gives them
  // values. Constants, optimizer state and what tn_init_function computes are as ever. Later instances draw.
  bool no_init;
  size_t arena_limit;      // bytes, for each function; 0: any
  tn_recompute recompute;  // to meet it; without a limit where that takes next to no time
  double time_limit;       // seconds that making machine code may take; 0: any
  size_t memory_limit;     // bytes that it may take beyond what this process has; 0: any
  bool quiet;              // print nothing: tn_report has it
  tn_site at;
} tn_compile_options;
// NULL on error. Errors and warnings of the program, those of the calls that built it too, are printed on stderr, unless
// .quiet or where tn_report printed them there before.
TN_API tn_model *tn_compile(tn_program *p, tn_compile_options o);

// ---- seeing
typedef enum { TN_DUMP_IR, TN_DUMP_LIFETIMES, TN_DUMP_SUMMARY, TN_DUMP_CERTIFICATE } tn_dump_kind;
// IR: the program as built, as .tir text. LIFETIMES: after placement, with source lines (compile first). SUMMARY:
// arena, peak, bound, and the rows of packed sequences against those of padded ones, of every plan. A plan for smaller
// bounds is the function "step.time16". CERTIFICATE: kernels, buffers with sizes and offsets in bytes, bounds and a digest, for
// `tenure verify-plan` and other checkers (docs/certificate.md); of the whole program, tn_dump alone.
// TN_ERR_ARGUMENT: no such function, or, but for IR, p is not compiled; TN_ERR_FILE: out takes no more; TN_ERR_MEMORY.
//
//   tn_dump(p, stdout, TN_DUMP_CERTIFICATE);    // behind tn_compile; then: tenure verify-plan FILE
TN_API tn_status tn_dump(const tn_program *p, FILE *out, tn_dump_kind kind);
TN_API tn_status tn_dump_function(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind);

#ifdef __cplusplus
}
#endif

#endif
