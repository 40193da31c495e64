// Tenure, the parameters and state of a model: looked at, set, saved and loaded.
#ifndef TN_PARAMS_H
#define TN_PARAMS_H

#include "run.h"

#ifdef __cplusplus
extern "C" {
#endif

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
// All n numbers of a float entry, f16 and bf16 ones converted: exactly when they are read, rounded to nearest even when they
// are set.
TN_API tn_status tn_get(const tn_model *m, const char *path, float *out, size_t n);
TN_API tn_status tn_set(tn_model *m, const char *path, const float *v, size_t n);
// The same for every dtype: the array has the entry's shape and its dtype, or both are floats (TN_ERR_ARGUMENT).
//
//   tn_get_array(m, "seen", tn_i64(&seen));     tn_set_array(m, "table", tn_u8(bytes, 256))
TN_API tn_status tn_get_array(const tn_model *m, const char *path, tn_array out);
TN_API tn_status tn_set_array(tn_model *m, const char *path, tn_array v);
// safetensors with PyTorch's names; all or nothing. with_state: optimizer state and the random stream too. A file that
// is replaced keeps its mode. Loading takes memory for what it reads, for as long as it runs, and
// refuses a file that is written meanwhile. Floats of the file become the entry's float dtype, by way of f32 and rounded
// to nearest even, as in PyTorch's load_state_dict; whole numbers and bools are of the entry's dtype or refused.
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

#endif
