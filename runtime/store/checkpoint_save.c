// Saving stores. A file is safetensors under the parameters' paths.
#include "runtime/store/checkpoint_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void convert(const RtJob *j, RtStTensor *t) {
  if (!j->save.pattern || t->dtype != RT_ST_F32 || !rt_path_matches(j->save.pattern, t->name)) return;
  uint64_t size = t->n_elements * rt_st_dtype_bytes[j->save.dtype];
  unsigned char *bytes = rt_alloc(j->mem, size + 1);
  rt_st_put_f32(j->save.dtype, (const float *)(const void *)t->data, t->n_elements, bytes);
  t->dtype = (uint8_t)j->save.dtype, t->data = bytes, t->size = size;
}

static void add_meta(const RtJob *j, RtSt *st, const char *key, const char *value) {
  *RT_PUSH(j->mem, st->meta, st->n_meta, st->cap_meta) = (RtStMeta){key, value};
}

static void add_alias(const RtJob *j, RtSt *st, const RtParam *p, RtStTensor t, const char *alias) {
  if (!j->save.aliases_as_data || p->kind == RT_STATE) {
    add_meta(j, st, alias, t.name);
    return;
  }
  t.name = alias;
  *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
}

static void add_part(const RtJob *j, const RtJobPart *part, RtSt *st) {
  for (uint32_t k = 0; k < part->plan->n_params; k++) {
    const RtParam *p = &part->plan->params[k];
    if (!rt_job_wants(j, p)) continue;
    RtStTensor t = rt_job_tensor(j, part, p);
    convert(j, &t);
    *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
    for (uint32_t a = 0; a < p->n_aliases; a++) add_alias(j, st, p, t, rt_job_name(j, part, p->aliases[a]));
  }
  if (!j->with_state) return;
  add_meta(j, st, rt_job_name(j, part, rt_key_runs), rt_printf(j->mem, "%" PRIu64, rt_instance_counter(part->inst)));
  add_meta(j, st, rt_job_name(j, part, rt_key_seed), rt_printf(j->mem, "%" PRIu64, rt_instance_seed(part->inst)));
}

typedef struct {
  const char *name, *path;
  const RtJobPart *part;
  const RtParam *param;
} Name;

static const char *places_text(const RtJob *j, const RtParam *a, const RtParam *b) {
  if (!a->file || !b->file) return "";
  return rt_printf(j->mem, "; they were made at %.300s:%" PRIu32 " and %.300s:%" PRIu32, a->file, a->line, b->file,
                   b->line);
}

static int by_name(const void *a, const void *b) {
  const Name *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->part > y->part) - (x->part < y->part);
}

static bool check_names(RtJob *j) {
  Name *names = NULL;
  uint32_t n = 0, cap = 0;
  for (RtJobPart *part = j->parts; part < j->parts + j->n_parts; part++)
    for (uint32_t k = 0; k < part->plan->n_params; k++) {
      const RtParam *p = &part->plan->params[k];
      if (!rt_job_wants(j, p)) continue;
      *RT_PUSH(j->mem, names, n, cap) = (Name){rt_job_name(j, part, p->path), p->path, part, p};
      for (uint32_t a = 0; a < p->n_aliases; a++)
        *RT_PUSH(j->mem, names, n, cap) = (Name){rt_job_name(j, part, p->aliases[a]), p->aliases[a], part, p};
    }
  if (n) qsort(names, n, sizeof *names, by_name);
  for (uint32_t k = 1; k < n; k++) {
    const Name *x = &names[k - 1], *y = &names[k];
    if (!strcmp(x->name, y->name))
      return rt_fail(rt_job_error(j), RT_ERROR_SIZE,
                     "%.500s: the name '%.200s' is given twice: by '%.200s' of store %td with prefix '%.100s' and by "
                     "'%.200s' of store %td with prefix '%.100s'%s",
                     j->path, x->name, x->path, x->part - j->parts + 1, x->part->prefix, y->path,
                     y->part - j->parts + 1, y->part->prefix, places_text(j, x->param, y->param));
  }
  return true;
}

static void add_extra(const RtJob *j, const RtExtra *e, RtSt *st) {
  RtStTensor t = {.name = rt_job_extra_name(j, e->name), .dtype = RT_ST_U8, .rank = 1, .n_elements = e->size};
  t.dims[0] = (int64_t)e->size;
  t.data = e->bytes, t.size = e->size;
  *RT_PUSH(j->mem, st->tensors, st->n_tensors, st->cap_tensors) = t;
}

// State that each rank has a part of is saved by one store alone.
static bool check_parts(const RtJob *j) {
  for (size_t k = 0; k < j->n_parts && j->n_parts > 1 && j->with_state; k++)
    if (rt_instance_has_parts(j->parts[k].inst))
      return rt_fail(rt_job_error(j), RT_ERROR_SIZE,
                     "%.500s: the state of store %zu is kept in parts by several ranks: it is saved by itself", j->path,
                     k + 1);
  return true;
}

static RtStatus save(RtJob *j) {
  RtSt st = {0};
  RtInstance *i = j->given[0].inst;
  if (!check_parts(j)) return RT_ERR_ARGUMENT;
  if (j->n_parts > 1 && !check_names(j)) return RT_ERR_ARGUMENT;
  if (!rt_job_check_extras(j, j->save.extra, j->save.n_extra)) return RT_ERR_ARGUMENT;
  for (size_t k = 0; k < j->n_parts; k++) add_part(j, &j->parts[k], &st);
  for (size_t k = 0; k < j->save.n_extra; k++) add_extra(j, &j->save.extra[k], &st);
  char why[600];
  if (!rt_st_check_names(j->mem, st.tensors, st.n_tensors, st.meta, st.n_meta, why, sizeof why)) {
    rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: %s", j->path, why);
    return RT_ERR_ARGUMENT;
  }
  if (j->with_state && rt_instance_has_parts(i)) return rt_store_write_by_ranks(i, j->mem, j->path, &st);
  bool ok =
      rt_st_write(j->mem, j->path, st.tensors, st.n_tensors, st.meta, st.n_meta, NULL, rt_job_error(j), RT_ERROR_SIZE);
  return ok ? RT_OK : RT_ERR_FILE;
}

RtStatus rt_store_save(const RtPart *parts, size_t n, const char *path, const RtSaveOptions *o) {
  RtJob j = {.given = parts, .n_parts = n, .path = path, .save = *o, .with_state = o->with_state};
  return rt_job_run(&j, save);
}

RtStatus rt_instance_save(RtInstance *i, const char *path, bool with_state) {
  return rt_store_save(&(RtPart){i, NULL}, 1, path, &(RtSaveOptions){.with_state = with_state});
}
