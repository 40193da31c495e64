// Stores of parameters outside the program: partial loading, narrower files, several instances in one file, copies
// from one instance to another.
#include "runtime/store/checkpoint.h"
#include "frontend/fe.h"

static tn_status refuse(const tn_model *m, const char *what) {
  rt_fail(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, "%s", what);
  return TN_ERR_ARGUMENT;
}

const char *tn_warning_text(const tn_model *m) { return m ? rt_instance_warning(m->inst) : ""; }

tn_status tn_save_as(tn_model *m, const char *path, const tn_save_options *o) {
  static const RtStDType dtypes[] = {RT_ST_F32, RT_ST_F64, RT_ST_F16, RT_ST_BF16};
  const tn_save_options defaults = {0};
  if (!m) return TN_ERR_ARGUMENT;
  if (!o) o = &defaults;
  if (!path || (unsigned)o->dtype > TN_FILE_BF16)
    return refuse(m, path ? "tn_save_as: the dtype is unknown" : "tn_save_as: no path is given");
  RtSaveOptions s = {.with_state = o->with_state, .pattern = o->pattern ? o->pattern : "", .dtype = dtypes[o->dtype]};
  return (tn_status)rt_store_save(&(RtPart){m->inst, NULL}, 1, path, &s);
}

// ---- partial loading: the lists live in the model until its next load
static RtArena *fresh_lists(tn_model *m) {
  rt_arena_free(m->lists);
  return m->lists = rt_arena_new();
}

tn_status tn_load_partial(tn_model *m, const char *path, bool with_state, tn_load_report *report) {
  if (!m) return TN_ERR_ARGUMENT;
  if (report) *report = (tn_load_report){0};
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
static tn_status with_parts(const tn_part *parts, size_t n, const char *path, bool with_state, bool loads) {
  enum { MAX_PARTS = 64 };
  RtPart list[MAX_PARTS];
  if (!parts || !n || !parts[0].model) return TN_ERR_ARGUMENT;
  if (!path) return refuse(parts[0].model, "a merged store has no path");
  if (n > MAX_PARTS) return refuse(parts[0].model, "a merged store has at most 64 parts");
  for (size_t k = 0; k < n; k++) {
    if (!parts[k].model) return refuse(parts[0].model, "a part of a merged store has no model");
    for (size_t i = 0; loads && i < k; i++)
      if (parts[i].model == parts[k].model) return refuse(parts[0].model, "two parts of a merged store are one model");
    list[k] = (RtPart){parts[k].model->inst, parts[k].prefix};
  }
  RtStatus s = loads ? rt_store_load(list, n, path, &(RtLoadOptions){.with_state = with_state})
                     : rt_store_save(list, n, path, &(RtSaveOptions){.with_state = with_state});
  return (tn_status)s;
}

tn_status tn_save_merged(const tn_part *parts, size_t n, const char *path, bool with_state) {
  return with_parts(parts, n, path, with_state, false);
}

tn_status tn_load_merged(const tn_part *parts, size_t n, const char *path, bool with_state) {
  return with_parts(parts, n, path, with_state, true);
}

tn_status tn_copy_params(tn_model *to, const tn_model *from, bool with_state) {
  if (!to) return TN_ERR_ARGUMENT;
  if (!from) return refuse(to, "tn_copy_params: no source is given");
  return (tn_status)rt_instance_copy(to->inst, from->inst, with_state);
}
