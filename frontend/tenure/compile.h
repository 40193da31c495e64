// Tenure, compiling: from a program to models, and what was planned for them.
#ifndef TN_COMPILE_H
#define TN_COMPILE_H

#include "core.h"

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
typedef struct {
  uint32_t n_workers;  // 0: one per available CPU, at most 64
  // NULL: $TN_CACHE, else $XDG_CACHE_HOME/tenure, else $HOME/.cache/tenure; "": no cache. Code is taken from there: a
  // folder or file that others could have written is not used (W011, once in a process; docs/security.md).
  const char *cache_dir;
  uint64_t seed;             // of the random stream
  bool fast_math;            // exp, log, tanh .. to 16 ulp instead of 2 where that is faster (docs/vector-math.md)
  bool copy_saved;           // keep what a write in place would take from a backward, with a warning, instead of E112
  const tn_bucket *buckets;  // in any order; bounds of several dims are combined, at most 64 plans for a function
  size_t n_buckets;
  // Products with 4 to 256 rows, by the bound, read a weight fastest from a packed copy of it, which takes as much
  // memory again as the weight (tn_plan.packed_bytes). It is made before the first run that reads it and before the
  // first one after each change. Functions that update the weight themselves read no copy.
  bool no_packed_weights;
  // Nothing is drawn: parameters that begin with random numbers are 0 until tn_load, tn_set or tn_initialize gives them
  // values. Constants, optimizer state and what tn_init_function computes are as ever. Later instances draw.
  bool no_init;
  double time_limit;    // seconds that making machine code may take; 0: any
  size_t memory_limit;  // bytes that it may take beyond what this process has; 0: any
  bool quiet;           // print nothing: tn_report has it
  tn_site at;
} tn_compile_options;
// NULL on error. Errors and warnings of the program, those of the calls that built it too, are printed on stderr, unless
// .quiet or where tn_report printed them there before.
TN_API tn_model *tn_compile(tn_program *p, tn_compile_options o);
TN_API void tn_model_free(tn_model *m);
// A second set of parameters and state over the same code. Freed in any order.
TN_API tn_model *tn_instance(const tn_model *m, uint64_t seed);  // initialised; NULL when out of memory
typedef struct {
  double build_ms, passes_ms, codegen_ms, load_ms;
  double init_ms;  // initial values of the first instance
  bool from_cache;
  uint32_t n_kernels, n_distinct_kernels;
  uint32_t n_variants;  // plans for smaller bounds, of all functions
} tn_compile_info;
TN_API tn_compile_info tn_compile_info_of(const tn_model *m);

// ---- plans
typedef struct {
  uint32_t n_kernels, n_inplace, n_copies;
  int64_t copy_bytes, peak_bytes, lower_bound;
  int64_t param_bytes, const_bytes, packed_bytes;  // of the program: all functions share them
  // What no run of full bounds can do without: flops, two for each multiply-add of products, recurrences and attention
  // and one for each element that another operation computes; bytes of inputs, outputs, parameters and state, each read
  // or written once
  double flops;
  int64_t least_bytes;
} tn_plan;
TN_API tn_status tn_plan_of(const tn_model *m, const char *function, tn_plan *out);
// The plans of a function, smallest first; the last is the one by full bounds, which tn_plan_of gives.
typedef struct {
  const char *bounds;  // "batch <= 8, time <= 16"; "" for full bounds
  tn_plan plan;
  uint64_t n_runs;  // that took it, of this model or instance
} tn_variant;
// Writes up to `max`; gives their number, 0 for no such function.
TN_API uint32_t tn_plan_variants(const tn_model *m, const char *function, tn_variant *out, uint32_t max);
// One copy that writes in place made necessary
typedef struct {
  const char *file;  // of the write; NULL: unknown
  int line;
  const char *reader;       // the operation that still wants the old content, "the caller's input" or "the parameter"
  const char *reader_file;  // where it stands; NULL: unknown
  int reader_line;
  int64_t bytes;  // by the bounds of dims
} tn_plan_copy;
// Writes up to `max`; gives their number, 0 for no such function.
TN_API uint32_t tn_plan_copies(const tn_model *m, const char *function, tn_plan_copy *out, uint32_t max);
// Bytes that one run stores, by the bounds of dims: in all (`what` NULL), by the operations of a source line
// ("train.c:12", matched from the end of the path), or by those that make the value of a name ("loss"). A partial write
// counts the part. -1: no such function.
TN_API int64_t tn_plan_bytes_written(const tn_model *m, const char *function, const char *what);
// Bytes that the kernels of one run read, by the bounds of dims: every value that a kernel reads from memory counts
// once for that kernel, as a whole. `what` names values by who made them, as above; NULL: all. -1: no such function.
TN_API int64_t tn_plan_bytes_read(const tn_model *m, const char *function, const char *what);

// ---- seeing
typedef enum { TN_DUMP_IR, TN_DUMP_LIFETIMES, TN_DUMP_SUMMARY } tn_dump_kind;
// IR: the program as built, as .tir text. LIFETIMES: after placement, with source lines (compile first). SUMMARY:
// arena, peak, bound, and the rows of packed sequences against those of padded ones, of every plan. A plan for smaller
// bounds is the function "step.time16".
TN_API tn_status tn_dump(const tn_program *p, FILE *out, tn_dump_kind kind);
TN_API tn_status tn_dump_function(const tn_program *p, const char *function, FILE *out, tn_dump_kind kind);

#ifdef __cplusplus
}
#endif

#endif
