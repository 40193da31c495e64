// Stores of parameters outside the program: partial loading, narrower files, several instances in one file, copies
// from one instance to another.
#include "runtime/store/checkpoint.h"
#include "frontend/run/run.h"

static tn_status refuse(const tn_model *m, const char *what) {
  rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "%s", what);
  return TN_ERR_ARGUMENT;
}

tn_status tn_save_as(tn_model *m, const char *path, const tn_save_options *o) {
  static const RtStDType dtypes[] = {RT_ST_F32, RT_ST_F64, RT_ST_F16, RT_ST_BF16};
  const tn_save_options defaults = {0};
  FE_MODEL_CALL(m, tn_save_as, TN_ERR_ARGUMENT);
  if (!o) o = &defaults;
  if (!path || (unsigned)o->dtype > TN_FILE_BF16)
    return refuse(m, path ? "tn_save_as: the dtype is unknown" : "tn_save_as: no path is given");
  RtSaveOptions s = {.with_state = o->with_state,
                     .aliases_as_data = o->aliases_as_data,
                     .pattern = o->pattern ? o->pattern : "",
                     .dtype = dtypes[o->dtype]};
  return (tn_status)rt_store_save(&(RtPart){m->inst, NULL}, 1, path, &s);
}

// ---- partial loading: the lists live in the model until its next load
static RtArena *fresh_lists(tn_model *m) {
  rt_arena_free(m->lists);
  return m->lists = rt_arena_new();
}

tn_status tn_load_partial(tn_model *m, const char *path, bool with_state, tn_load_report *report) {
  if (report) *report = (tn_load_report){0};
  FE_MODEL_CALL(m, tn_load_partial, TN_ERR_ARGUMENT);
  if (!path) return refuse(m, "tn_load_partial: no path is given");
  RtLoadReport r = {.mem = fresh_lists(m)};
  if (!r.mem) return refuse(m, "tn_load_partial: out of memory"), TN_ERR_MEMORY;
  RtLoadOptions o = {.with_state = with_state, .partial = true, .report = &r};
  tn_status status = (tn_status)rt_store_load(&(RtPart){m->inst, NULL}, 1, path, &o);
  if (report)
    *report = (tn_load_report){r.missing, r.extra, r.mismatched, r.n_loaded, r.n_missing, r.n_extra, r.n_mismatched};
  return status;
}

// ---- several instances as one store
enum { MAX_PARTS = 64 };

// A store may be saved under two prefixes: it is locked once.
static bool is_first(const tn_part *parts, size_t k) {
  for (size_t i = 0; i < k; i++)
    if (parts[i].model == parts[k].model) return false;
  return true;
}

static void unlock_parts(const tn_part *parts, size_t n) {
  for (size_t k = n; k-- > 0;)
    if (is_first(parts, k)) fe_end_call(&parts[k].model->lock);
}

static bool lock_parts(const tn_part *parts, size_t n, FeCall call) {
  for (size_t k = 0; k < n; k++) {
    if (!is_first(parts, k) || fe_begin_call(&parts[k].model->lock, call, &parts[0].model->lock)) continue;
    unlock_parts(parts, k);
    return false;
  }
  return true;
}

static const char *mistake_in(const tn_part *parts, size_t n, const char *path, bool loads) {
  if (!path) return "a merged store has no path";
  if (n > MAX_PARTS) return "a merged store has at most 64 parts";
  for (size_t k = 0; k < n; k++) {
    if (!parts[k].model) return "a part of a merged store has no model";
    if (loads && !is_first(parts, k)) return "two parts of a merged store are one model";
  }
  return NULL;
}

static tn_status with_parts(const tn_part *parts, size_t n, const char *path, bool with_state, FeCall call) {
  RtPart list[MAX_PARTS];
  bool loads = call == CALL_tn_load_merged;
  if (!parts || !n || !parts[0].model) return TN_ERR_ARGUMENT;
  const char *mistake = mistake_in(parts, n, path, loads);
  if (mistake) fe_say(&parts[0].model->lock, "%s", mistake);
  if (mistake || !lock_parts(parts, n, call)) return TN_ERR_ARGUMENT;
  for (size_t k = 0; k < n; k++) list[k] = (RtPart){parts[k].model->inst, parts[k].prefix};
  RtStatus s = loads ? rt_store_load(list, n, path, &(RtLoadOptions){.with_state = with_state})
                     : rt_store_save(list, n, path, &(RtSaveOptions){.with_state = with_state});
  unlock_parts(parts, n);
  return (tn_status)s;
}

tn_status tn_save_merged(const tn_part *parts, size_t n, const char *path, bool with_state) {
  return with_parts(parts, n, path, with_state, CALL_tn_save_merged);
}

tn_status tn_load_merged(const tn_part *parts, size_t n, const char *path, bool with_state) {
  return with_parts(parts, n, path, with_state, CALL_tn_load_merged);
}

tn_status tn_copy_params(tn_model *to, const tn_model *from, bool with_state) {
  FE_MODEL_CALL(to, tn_copy_params, TN_ERR_ARGUMENT);
  if (!from) return refuse(to, "tn_copy_params: no source is given");
  if (to == from) return TN_OK;
  FeCallLock *source = &((tn_model *)from)->lock;
  if (!fe_begin_call(source, CALL_tn_copy_params, &to->lock)) return TN_ERR_ARGUMENT;
  tn_status s = (tn_status)rt_instance_copy(to->inst, from->inst, with_state);
  fe_end_call(source);
  return s;
}
