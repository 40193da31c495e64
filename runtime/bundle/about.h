// What NAME_about of a bundle holds: the facts of its header as data, for dlopen, bindings and tn_model_open_bundle.
// NAME.h declares the same structs under the bundle's own name (frontend/bundle/header.c); version counts changes.
#ifndef TN_RUNTIME_BUNDLE_ABOUT_H
#define TN_RUNTIME_BUNDLE_ABOUT_H

#include "runtime/exec/plan_types.h"

enum { TN_BUNDLE_VERSION = 1 };  // of these structs
enum { TN_BUNDLE_ABI = 5 };      // of the entries behind RtPlan, TnFrame included

typedef struct {
  const char *name;
  int64_t max;
} TnBundleDim;
typedef struct {
  const char *name;
  const char *shape;     // "[batch, 12]"
  uint32_t dtype, rank;  // RtDType
} TnBundleArray;
typedef struct {
  const char *name;
  size_t arena_bytes;
  const TnBundleArray *inputs, *outputs;
  const char *const *dims;  // the fields of its in struct, in order; pointers to the inputs follow
  uint32_t n_inputs, n_outputs, n_dims;
  int (*call)(void *state, void *arena, size_t arena_bytes, const void *in, const void *out);
} TnBundleFunction;
typedef struct {
  const char *path, *field;
  uint32_t kind, dtype, rank;  // RtParamKind, RtDType
  int64_t sizes[RT_MAX_RANK];
  size_t offset, bytes;  // in NAME_state
} TnBundleTensor;
typedef struct {
  uint32_t version, abi;
  uint64_t plan;  // NAME_PLAN
  const char *name, *compiler;
  size_t state_bytes, arena_bytes;  // arena: the largest
  uint32_t align, n_dims, n_functions, n_tensors, n_targets;
  const TnBundleDim *dims;
  const TnBundleFunction *functions;
  const TnBundleTensor *tensors;
  const char *const *targets;
  int (*cpu)(void);  // index of the target that this CPU runs; -1: none
  int (*init)(void *state, void *arena, size_t arena_bytes, uint64_t seed);
  int (*load)(void *state, const void *bytes, size_t n);
  int (*save)(const void *state, void *bytes, size_t n, size_t *needed);
  const char *(*error)(int status);
  const RtPlan *const *plans;  // by target; for libtenure_runtime of the same abi
} TnBundleAbout;

#endif
