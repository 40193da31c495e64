// Models: instances over shared code, run and read through the runtime.
#include "frontend/run/run.h"
#include "runtime/format.h"
#include "runtime/near.h"
#include <stdarg.h>
#include <string.h>

void fe_code_release(FeCode *c) {
  if (c && atomic_fetch_sub(&c->n_refs, 1) == 1) c->free(c);
}

tn_model *fe_model_new(FeCode *c, uint64_t seed, bool draws) {
  tn_model *m = rt_malloc(sizeof *m);
  if (!m) return NULL;
  *m = (tn_model){.code = c};
  atomic_fetch_add(&c->n_refs, 1);
  m->inst = rt_instance_new(c->plan, c->n_workers, c->worker_bytes, seed);
  if (m->inst) rt_instance_set_cache_writes(m->inst, c->cache_writes, c->n_cache_writes);
  RtStatus (*initialize)(RtInstance *, uint64_t) = draws ? rt_instance_initialize : rt_instance_initialize_undrawn;
  if (m->inst) fe_lock_init(&m->lock, c->plan, rt_instance_error_buffer(m->inst), rt_instance_warning(m->inst));
  if (m->inst && initialize(m->inst, seed) == RT_OK) return m;
  tn_model_free(m);
  return NULL;
}

void tn_model_free(tn_model *m) {
  if (!m) return;
  fe_lock_wait(&m->lock, CALL_tn_model_free);
  rt_instance_free(m->inst);
  rt_arena_free(m->lists);
  fe_probing_free(m->probing);
  fe_code_release(m->code);
  rt_free(m);
}

tn_model *tn_instance(const tn_model *m, uint64_t seed) { return m ? fe_model_new(m->code, seed, true) : NULL; }

// ---- errors
static tn_status refuse(const tn_model *m, const char *fmt, ...) RT_PRINTF(2, 3);
static tn_status refuse(const tn_model *m, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  rt_vformat(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, fmt, args);
  va_end(args);
  return TN_ERR_ARGUMENT;
}

const char *tn_error_text(const tn_model *m) {
  if (!m) return "there is no model: the call that should have made it gave NULL";
  return fe_error_text(&((tn_model *)m)->lock, CALL_tn_error_text);
}

const char *tn_warning_text(const tn_model *m) {
  return m ? fe_warning_text(&((tn_model *)m)->lock, CALL_tn_warning_text) : "";
}

const char *tn_status_text(tn_status s) {
  switch (s) {
  case TN_OK: return "no error";
  case TN_ERR_BUILD: return "the program has errors";
  case TN_ERR_ARGUMENT: return "an argument of the call is wrong";
  case TN_ERR_VALUE: return "a value in an input is out of range";
  case TN_ERR_FILE: return "a file cannot be read or written, or does not hold what it should";
  case TN_ERR_MEMORY: return "out of memory";
  case TN_ERR_CODEGEN: return "code could not be generated or loaded";
  case TN_ERR_RANKS: return "other processes cannot be reached, or do something else";
  }
  return "no status";
}

static tn_status status_of(RtStatus s) { return (tn_status)s; }
_Static_assert((int)RT_ERR_RANKS == (int)TN_ERR_RANKS && (int)RT_ERR_VALUE == (int)TN_ERR_VALUE,
               "one list of statuses");

// ---- runs
uint32_t fe_find_function(const tn_model *m, const char *name) {
  const RtPlan *plan = m->code->plan;
  uint32_t k = name ? rt_plan_function(plan, name) : RT_NO_FUNCTION;
  return k == plan->init ? RT_NO_FUNCTION : k;
}

void fe_say_no_function(char *error, size_t error_size, const tn_model *m, const char *name) {
  const RtPlan *plan = m->code->plan;
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < plan->n_functions; k++)
    if (k != plan->init) rt_near_offer(&near, plan->functions[k].name);
  rt_fail(error, error_size, "there is no function '%.200s'%s", name ? name : "", rt_near_or_all(&near));
}

// Without dims, each is -1, which no input accepts; of a rank above 8 none is read.
tn_array tn_array_of(const void *data, tn_dtype t, const int64_t *dims, uint32_t rank) {
  tn_array a = {.data = (void *)(uintptr_t)data, .dtype = t, .rank = rank};
  for (uint32_t k = 0; k < rank && rank <= 8; k++) a.dims[k] = dims ? dims[k] : -1;
  return a;
}

static const RtArray *arrays_of(const tn_array *a) { return (const RtArray *)(const void *)a; }

tn_status fe_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out,
                 size_t n_out) {
  // Most programs run one function over and over.
  bool same = function && m->last_name && !strcmp(function, m->last_name);
  uint32_t k = same ? m->last : fe_find_function(m, function);
  if (k == RT_NO_FUNCTION || m->code->plan->functions[k].is_internal) {
    fe_say_no_function(rt_instance_error_buffer(m->inst), RT_ERROR_SIZE, m, function);
    return TN_ERR_ARGUMENT;
  }
  if ((n_in && !in) || (n_out && !out)) return refuse(m, "%s: a list of arrays is missing", function);
  m->last = k, m->last_name = m->code->plan->functions[k].name;
  fe_lock_names(&m->lock, k);
  RtStatus status;
  if (m->probing && fe_run_probed(m, k, arrays_of(in), n_in, arrays_of(out), n_out, &status)) return status_of(status);
  return status_of(rt_instance_run(m->inst, k, arrays_of(in), n_in, arrays_of(out), n_out));
}

tn_status tn_run(tn_model *m, const char *function, const tn_array *in, size_t n_in, const tn_array *out,
                 size_t n_out) {
  FE_MODEL_CALL(m, tn_run, TN_ERR_ARGUMENT);
  return fe_run(m, function, in, n_in, out, n_out);
}

tn_status tn_initialize(tn_model *m, uint64_t seed) {
  FE_MODEL_CALL(m, tn_initialize, TN_ERR_ARGUMENT);
  return status_of(rt_instance_initialize(m->inst, seed));
}

uint32_t tn_n_workers(const tn_model *m) { return m ? rt_instance_workers(m->inst) : 0; }

// ---- parameters
uint32_t tn_param_count(const tn_model *m) { return m ? m->code->plan->n_params : 0; }

const char *tn_param_path(const tn_model *m, uint32_t k) {
  return k < tn_param_count(m) ? m->code->plan->params[k].path : NULL;
}

tn_array tn_param_at(tn_model *m, uint32_t k) {
  if (k >= tn_param_count(m) || !fe_lock(&m->lock, CALL_tn_param_at, &m->lock)) return (tn_array){0};
  RtArray a = rt_instance_param(m->inst, k);
  fe_unlock(&m->lock);
  return tn_array_of(a.data, (tn_dtype)a.dtype, a.dims, a.rank);
}

void tn_param_end_write(tn_model *m, uint32_t k) {
  if (k >= tn_param_count(m)) return;
  FE_WAIT(&m->lock, CALL_tn_param_end_write);
  rt_instance_end_write(m->inst, k);
}

uint64_t tn_n_weight_packs(const tn_model *m) { return m ? rt_instance_n_weight_packs(m->inst) : 0; }

tn_status tn_get(const tn_model *m, const char *path, float *out, size_t n) {
  FE_MODEL_CALL(m, tn_get, TN_ERR_ARGUMENT);
  if (!path || (!out && n)) return refuse(m, "tn_get: %s is missing", path ? "the array" : "the path");
  return status_of(rt_instance_get(m->inst, path, out, n));
}

tn_status tn_set(tn_model *m, const char *path, const float *v, size_t n) {
  FE_MODEL_CALL(m, tn_set, TN_ERR_ARGUMENT);
  if (!path || (!v && n)) return refuse(m, "tn_set: %s is missing", path ? "the array" : "the path");
  return status_of(rt_instance_set(m->inst, path, v, n));
}

tn_status tn_get_array(const tn_model *m, const char *path, tn_array out) {
  FE_MODEL_CALL(m, tn_get_array, TN_ERR_ARGUMENT);
  if (!path) return refuse(m, "%s: the path is missing", "tn_get_array");
  return status_of(rt_instance_get_array(m->inst, path, arrays_of(&out)));
}

tn_status tn_set_array(tn_model *m, const char *path, tn_array v) {
  FE_MODEL_CALL(m, tn_set_array, TN_ERR_ARGUMENT);
  if (!path) return refuse(m, "%s: the path is missing", "tn_set_array");
  return status_of(rt_instance_set_array(m->inst, path, arrays_of(&v)));
}

tn_status tn_save(tn_model *m, const char *path, bool with_state) {
  FE_MODEL_CALL(m, tn_save, TN_ERR_ARGUMENT);
  return path ? status_of(rt_instance_save(m->inst, path, with_state)) : refuse(m, "%s: no path is given", "tn_save");
}

tn_status tn_load(tn_model *m, const char *path, bool with_state) {
  FE_MODEL_CALL(m, tn_load, TN_ERR_ARGUMENT);
  return path ? status_of(rt_instance_load(m->inst, path, with_state)) : refuse(m, "%s: no path is given", "tn_load");
}
