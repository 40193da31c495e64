// Tenure, models: opened from bundles, copied, asked for their plans. tn_compile (compile.h) makes them from programs.
#ifndef TN_MODEL_H
#define TN_MODEL_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- models
// A model that runs the code of a bundle, as one that was compiled here: all calls of runtime.h take
// it. Nothing is compiled and no file is read: `about` is the address of the bundle's NAME_about, which stays loaded as
// long as the model lives. It wants memory and workers of its own, and no arena or state of the bundle's callers. NULL:
// one sentence in `error`; the bundle is of another version, has no code for this CPU, or there is no memory.
//
//   #include "net.h"                                        // the bundle's own header
//   tn_model *m = tn_model_open_bundle(&net_about, NULL, why, sizeof why);
typedef struct {
  uint32_t n_workers;  // 0: one per available CPU, at most 64
  uint64_t seed;       // of initial values and of the random stream
  bool no_init;        // as tn_compile_options
} tn_open_options;     // NULL: zeros
TN_API tn_model *tn_model_open_bundle(const void *about, const tn_open_options *o, char *error, size_t error_size);
TN_API void tn_model_free(tn_model *m);
// A second set of parameters and state over the same code. Freed in any order.
TN_API tn_model *tn_instance(const tn_model *m, uint64_t seed);  // initialised; NULL when out of memory
typedef struct {                                                 // of a bundle: n_variants alone
  double build_ms, passes_ms, codegen_ms, load_ms;
  double init_ms;  // initial values of the first instance
  bool from_cache;
  uint32_t n_kernels, n_distinct_kernels;
  uint32_t n_variants;  // plans for smaller bounds, of all functions
} tn_compile_info;
TN_API tn_compile_info tn_compile_info_of(const tn_model *m);
// Of a bundle only peak_bytes, param_bytes and packed_bytes are known: the others are 0, and so are its copies and bytes moved.
typedef struct {
  uint32_t n_kernels, n_inplace, n_copies;
  int64_t copy_bytes, peak_bytes;
  int64_t lower_bound;  // bytes that live at once: the most of any kernel, in the order of kernels that was chosen
  int64_t order_bound;  // no order of these kernels has less: where it is lower_bound, the order is the best
  int64_t param_bytes, const_bytes, packed_bytes;  // of the program: all functions share them
  // What no run of full bounds can do without: flops, two for each multiply-add of products, recurrences and attention
  // and one for each element that another operation computes; bytes of inputs, outputs, parameters and state, each read
  // or written once
  double flops;
  int64_t least_bytes;
  // Kernels that run again so that the arena keeps its limit (tn_compile_options.arena_limit), and their flops; n_kernels counts them,
  // `flops` does not, nor what a first run leaves to them alone
  uint32_t n_again;
  double again_flops;
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

#ifdef __cplusplus
}
#endif

#endif
