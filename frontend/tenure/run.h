// Tenure, models: running, the parameters of an instance and their files, plans. A model is made by tn_compile (compile.h),
// or from the bundle of a program that was compiled before.
#ifndef TN_RUN_H
#define TN_RUN_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- models
// A model that runs the code of a bundle, as one that was compiled here: every call of this header and of loader.h takes
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

// ---- running. Any thread may run a model, one at a time (see "Threads" in tenure.h), and so may a forked child, whose
// first run starts workers of its own.
typedef struct {
  void *data;
  tn_dtype dtype;
  uint32_t rank;
  int64_t dims[8];
  const char *name;  // of the input or output that it is for; NULL: by its place in the list
} tn_array;          // row-major, contiguous, the caller's memory
TN_API tn_array tn_array_of(const void *data, tn_dtype t, const int64_t *dims, uint32_t rank);
// Inputs and outputs by position, in the order of the calls of tn_input and tn_output, or by name:
//
//   tn_run(m, "step", TN_IN(TN_NAMED("label", tn_i64(labels, 4)), TN_NAMED("x", tn_f32(xs, 4, 8))), TN_OUT(..))
//
// Names are needed where tn_input calls are arguments of one call: in which order they run is not defined by C. A list
// is named as a whole or not at all; a name that is unknown, given twice or missing is TN_ERR_ARGUMENT. All are checked before anything is written: dtype, rank, sizes against bounds and
// each other, lengths, labels and indices against their ranges. What the run computes of them, an index made by
// tn_argmax for one, is checked in it: after TN_ERR_VALUE outputs may hold anything, while parameters, optimizer state
// and the random stream are as before, except for a change on which that very index depended.
// The calling thread is worker 0 and wants up to 512 KiB of stack; with attention of heads above 1024 elements, 512
// bytes for each element of a head.
TN_API tn_status tn_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out,
                        size_t n_out);
// Why the calling thread's last call on m that gives a tn_status failed; "" when it succeeded. For a thread that made no
// call on m: the last one of any thread. Valid until the next call of this thread on a model.
TN_API const char *tn_error_text(const tn_model *m);
TN_API tn_status tn_initialize(tn_model *m, uint64_t seed);  // parameters and state anew
TN_API uint32_t tn_n_workers(const tn_model *m);

// ---- parameters of an instance: by path ("rnn.weight_ih_l0"); state too ("optimizer.exp_avg.rnn.weight_ih_l0",
// "optimizer.lr"; an optimizer of another module than the root has "optimizer.lr.PATH"). Adam counts its steps by
// parameter, "optimizer.step.rnn.weight_ih_l0", as does SGD with dampening, "optimizer.momentum_step...": those that
// always step together have one entry, found under the path of each.
TN_API uint32_t tn_param_count(const tn_model *m);
TN_API const char *tn_param_path(const tn_model *m, uint32_t k);
// A view to read and write between runs; data NULL: no such parameter. A run that updates the parameter does not take
// it as an input, none that uses the parameter as an output. From here until tn_param_end_write, runs take the parameter as
// changed each time: packed copies of it are made again before every run that reads one.
TN_API tn_array tn_param_at(tn_model *m, uint32_t k);
TN_API void tn_param_end_write(tn_model *m, uint32_t k);  // views of it are written no more
TN_API uint64_t tn_n_weight_packs(const tn_model *m);     // packed copies of weights that runs made since m was
TN_API tn_status tn_get(const tn_model *m, const char *path, float *out, size_t n);
TN_API tn_status tn_set(tn_model *m, const char *path, const float *v, size_t n);
// safetensors with PyTorch's names; all or nothing. with_state: optimizer state and the random stream too. A file that
// is replaced keeps its mode. Loading takes memory for what it reads, for as long as it runs, and
// refuses a file that is written meanwhile.
TN_API tn_status tn_save(tn_model *m, const char *path, bool with_state);
TN_API tn_status tn_load(tn_model *m, const char *path, bool with_state);

// Hyper-parameters of one group, or of all, in all optimizers, from the next run on. TN_ERR_ARGUMENT: no such group.
TN_API tn_status tn_set_lr(tn_model *m, uint32_t group, double v);
TN_API tn_status tn_set_lr_all(tn_model *m, double v);
TN_API tn_status tn_set_weight_decay(tn_model *m, uint32_t group, double v);
TN_API tn_status tn_set_weight_decay_all(tn_model *m, double v);
TN_API tn_status tn_set_momentum(tn_model *m, uint32_t group, double v);  // of SGD built with momentum
TN_API tn_status tn_set_momentum_all(tn_model *m, double v);

// All or nothing, one sentence lists everything that does not fit: every parameter of `to` takes the value that `from`,
// of the same or another program, has under that path. with_state: optimizer state and the random stream too, copied.
TN_API tn_status tn_copy_params(tn_model *to, const tn_model *from, bool with_state);
// What the last load that succeeded has to say all the same: nothing was loaded, for one. "" mostly.
TN_API const char *tn_warning_text(const tn_model *m);
typedef struct {
  const char *const *missing, *const *extra;  // paths in the order of the table and the file; until the next load
  const char *const *mismatched;              // another shape or dtype in the file
  uint32_t n_loaded, n_missing, n_extra, n_mismatched;
} tn_load_report;
// Loads what fits. What the file lacks, or has with another shape or dtype, keeps its value and is listed.
TN_API tn_status tn_load_partial(tn_model *m, const char *path, bool with_state, tn_load_report *report);
typedef enum { TN_FILE_F32, TN_FILE_F64, TN_FILE_F16, TN_FILE_BF16 } tn_file_dtype;
typedef struct {
  bool with_state;
  tn_file_dtype dtype;  // in the file, rounded to nearest even; loading converts back
  const char *pattern;  // of the f32 entries that it is for; NULL: all
  // Every path of a shared parameter is an entry with the same bytes, as PyTorch's strict loading of a state_dict wants
  // it; else the bytes are there once and further paths in the metadata, as PyTorch's safetensors has them.
  bool aliases_as_data;
} tn_save_options;
TN_API tn_status tn_save_as(tn_model *m, const char *path, const tn_save_options *o);
// Several models as one store: every path stands behind its part's prefix ("enc."). A name that two parts give is an
// error. At most 64 parts; the sentence about a mistake is in the first part's model.
typedef struct {
  tn_model *model;
  const char *prefix;  // NULL: none
} tn_part;
TN_API tn_status tn_save_merged(const tn_part *parts, size_t n, const char *path, bool with_state);
TN_API tn_status tn_load_merged(const tn_part *parts, size_t n, const char *path, bool with_state);

#ifdef __cplusplus
}
#endif

// ---- literals
//
//   TN_IN(tn_f32(xs, 5, 8), tn_i64(labels, 5))      two arguments: a list of arrays and its length
#ifndef __cplusplus
#define TN_ARRAY(ptr, type, ...)                                                \
  ((tn_array){.data = (void *)(uintptr_t)(const void *)(ptr),                   \
              .dtype = (type),                                                  \
              .rank = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
              .dims = {__VA_ARGS__}})
#else
#define TN_ARRAY(ptr, type, ...) tn_array_literal(ptr, type, __VA_ARGS__)
template <class... T> tn_array tn_array_literal(const void *data, tn_dtype type, T... dims) {
  return tn_array{
      const_cast<void *>(data), type, static_cast<uint32_t>(sizeof...(T)), {static_cast<int64_t>(dims)...}, nullptr};
}
#endif
#define tn_f32(ptr, ...) TN_ARRAY(ptr, TN_F32, __VA_ARGS__)
#define tn_i64(ptr, ...) TN_ARRAY(ptr, TN_I64, __VA_ARGS__)
static inline tn_array tn_named(const char *name, tn_array a) {
  a.name = name;
  return a;
}
#define TN_NAMED(name, array) tn_named(name, array)
#define tn_f32_scalar(ptr) tn_array_of(ptr, TN_F32, NULL, 0)
#define TN_IN(...) TN_LIST_OF(tn_array, __VA_ARGS__)
#define TN_OUT(...) TN_LIST_OF(tn_array, __VA_ARGS__)
#define TN_NO_IN NULL, 0
#define TN_NO_OUT NULL, 0

#endif
