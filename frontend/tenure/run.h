// Tenure, running a model: arrays of the caller, in and out.
#ifndef TN_RUN_H
#define TN_RUN_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

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
// Names are needed where tn_input calls are arguments of one call: in which order they run is not defined by C. A list is named as a
// whole or not at all; a name that is unknown, given twice or missing is TN_ERR_ARGUMENT; so is a wrong number of arrays, which is
// refused before any is read. All are checked before anything is written: dtype, rank, sizes against bounds and each other, lengths, labels and indices against
// their ranges. What the run computes of them, an index made by tn_argmax for one, is checked in it: after TN_ERR_VALUE outputs may hold
// anything, while parameters, optimizer state and the random stream are as before, except for a change on which that very index depended. With
// TN_CHECK=nan in the environment of tn_compile a run with a NaN is TN_ERR_VALUE, too, and all of them are as before.
// The calling thread is worker 0 and wants up to 512 KiB of stack; with attention of heads above 1024 elements, 512
// bytes for each element of a head.
TN_API tn_status tn_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out,
                        size_t n_out);
// Why the calling thread's last call on m that gives a tn_status failed; "" when it succeeded. For a thread that made no
// call on m: the last one of any thread. Valid until the next call of this thread on a model.
TN_API const char *tn_error_text(const tn_model *m);
TN_API tn_status tn_initialize(tn_model *m, uint64_t seed);  // parameters and state anew
TN_API uint32_t tn_n_workers(const tn_model *m);

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
#define tn_i32(ptr, ...) TN_ARRAY(ptr, TN_I32, __VA_ARGS__)
#define tn_u8(ptr, ...) TN_ARRAY(ptr, TN_U8, __VA_ARGS__)
#define tn_bool(ptr, ...) TN_ARRAY(ptr, TN_BOOL, __VA_ARGS__)
#define tn_f16(ptr, ...) TN_ARRAY(ptr, TN_F16, __VA_ARGS__)
#define tn_bf16(ptr, ...) TN_ARRAY(ptr, TN_BF16, __VA_ARGS__)
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
