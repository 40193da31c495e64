// Stores: the parameters of one or several instances under prefixes, saved, loaded and copied as one. Everything is
// checked before anything is written; one sentence lists every entry that does not fit.
//
//   RtPart parts[] = {{encoder, "enc."}, {decoder, "dec."}};
//   if (rt_store_save(parts, 2, "both.safetensors", &(RtSaveOptions){0})) puts(rt_instance_error(encoder));
//
// A call's sentence stands in the first part's instance.
#ifndef TN_RUNTIME_STORE_CHECKPOINT_H
#define TN_RUNTIME_STORE_CHECKPOINT_H

#include "runtime/api.h"
#include "runtime/exec/instance.h"
#include "runtime/store/safetensors.h"

typedef struct {
  RtInstance *inst;
  const char *prefix;  // put before every path as it stands; NULL: nothing
} RtPart;

// Bytes kept beside the parameters as u8 tensors "tenure.extra.NAME".
typedef struct {
  const char *name;
  void *bytes;  // saving only reads them
  size_t size;
} RtExtra;

typedef struct {
  bool with_state;       // optimizer state, seed and run counter too
  bool aliases_as_data;  // every path of a weight or buffer is an entry with the same bytes; else aliases are metadata
  const RtExtra *extra;
  size_t n_extra;
  const char *pattern;  // f32 entries whose path matches are written as `dtype`, see rt_path_matches; NULL: none
  RtStDType dtype;      // F64, F32, F16 or BF16
} RtSaveOptions;
// A name that two parts give is an error that tells both.
RtStatus rt_store_save(const RtPart *parts, size_t n, const char *path, const RtSaveOptions *o);

typedef struct {
  RtArena *mem;  // the caller's, for the lists
  const char **missing, **extra, **mismatched;
  uint32_t n_loaded, n_missing, n_extra, n_mismatched, cap_missing, cap_extra, cap_mismatched;
} RtLoadReport;
typedef struct {
  bool with_state;
  bool partial;      // entries that are missing, extra or of another shape or dtype are passed over and listed
  bool passes_over;  // what the file has beyond the parameters is no fault
  const bool
      *state;  // by parameter of the only part: optimizer's entries that are loaded without the others; NULL: none
  RtLoadReport *report;  // NULL: not wanted
  const RtExtra *extra;  // each must be there in its size; copied out when all fits
  size_t n_extra;
} RtLoadOptions;
// No part has a parameter and the file has entries: nothing is loaded, and rt_instance_warning says so.
RtStatus rt_store_load(const RtPart *parts, size_t n, const char *path, const RtLoadOptions *o);

// ---- runtime/store/checkpoint_use.c: a trained file for a program that uses it
// What `function` (RT_NO_FUNCTION: any but @init) needs of a file: weights, buffers, and what it reads of the optimizer's
// entries unless it trains, as the averages that tn_use_ema reads; a function that trains begins with entries of its own. Where
// one of these functions reads what another one trains, all of the optimizer's entries are needed. Others are passed over.
RT_API RtStatus rt_instance_load_to_use(RtInstance *i, const char *path, uint32_t function);
// By parameter: does a function that does not train read this entry of the optimizer's? true: another function trains one.
RT_API bool rt_state_read(const RtPlan *p, uint32_t function, bool *out);

RtStatus rt_extra_size(RtInstance *i, const char *path, const char *name, size_t *size);

// All parameters of `to` take the values that `from` has under the same paths; `from` may have more.
RtStatus rt_instance_copy(RtInstance *to, const RtInstance *from, bool with_state);

// ---- runtime/store/checkpoint_ranks.c: called by all ranks with the same tensors, of which each has its part; one file
RtStatus rt_store_write_by_ranks(RtInstance *i, RtArena *mem, const char *path, RtSt *st);

// ---- runtime/store/glob.c: paths are names joined by '.'; patterns may write '/' instead
// `*` stands for any characters of one name, `**` for any number of names. A pattern also matches all below what it
// names: "enc" matches "enc.w" and "enc.sub.w", never "enc2.w". NULL and "" match everything.
RT_API bool rt_path_matches(const char *pattern, const char *path);

#endif
