// The instances of a job under their prefixes: names, tensors, errors; and a scratch arena around the work.
#include "runtime/store/checkpoint_job.h"

#include <string.h>

char *rt_job_error(const RtJob *j) { return rt_instance_error_buffer(j->given[0].inst); }

static void open_parts(RtJob *j) {
  j->parts = rt_alloc(j->mem, sizeof *j->parts * j->n_parts);
  for (size_t k = 0; k < j->n_parts; k++) {
    const RtPart *g = &j->given[k];
    j->parts[k] = (RtJobPart){.inst = g->inst, .plan = rt_instance_plan(g->inst), .prefix = g->prefix ? g->prefix : ""};
  }
}

RtStatus rt_job_run(RtJob *j, RtStatus (*work)(RtJob *j)) {
  jmp_buf oom;
  RtStatus status = RT_ERR_MEMORY;
  RtArena *lists = j->load.report ? j->load.report->mem : NULL;
  j->mem = rt_arena_new();
  if (j->mem && !setjmp(oom)) {
    rt_arena_on_oom(j->mem, &oom);
    if (lists) rt_arena_on_oom(lists, &oom);
    open_parts(j);
    status = work(j);
  } else {
    rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: out of memory", j->path);
    status = RT_ERR_MEMORY;
  }
  if (lists) rt_arena_on_oom(lists, NULL);
  rt_source_close(&j->file);
  rt_free(j->staged);
  rt_arena_free(j->mem);
  return status;
}

bool rt_job_wants(const RtJob *j, const RtParam *p) {
  if (p->kind != RT_STATE) return p->kind != RT_TRANSIENT;
  return j->with_state || (j->load.state && j->load.state[p - j->parts->plan->params]);
}

const char *rt_job_name(const RtJob *j, const RtJobPart *part, const char *name) {
  return *part->prefix ? rt_printf(j->mem, "%s%s", part->prefix, name) : name;
}

static uint64_t count_of(const RtParam *p) {
  uint64_t n = 1;
  for (uint32_t d = 0; d < p->rank; d++) n *= (uint64_t)p->dims[d];
  return n;
}

RtStTensor rt_job_tensor(const RtJob *j, const RtJobPart *part, const RtParam *p) {
  uint8_t dtype = (uint8_t)rt_st_dtype_of(p->dtype);
  const unsigned char *data = rt_instance_block(part->inst) + p->offset;
  RtStTensor t = {
      .name = rt_job_name(j, part, p->path), .dtype = dtype, .rank = p->rank, .n_elements = count_of(p), .data = data};
  t.size = t.n_elements * rt_st_dtype_bytes[dtype];
  memcpy(t.dims, p->dims, sizeof p->dims);
  int64_t lo, hi;
  if (rt_instance_owned(part->inst, (uint32_t)(p - part->plan->params), &lo, &hi)) {
    RtStPart *own = rt_alloc(j->mem, sizeof *own);
    *own = (RtStPart){(uint64_t)lo, (uint64_t)hi};
    t.part = own;
  }
  return t;
}

const char *rt_job_extra_name(const RtJob *j, const char *name) {
  return rt_printf(j->mem, "%s%s", rt_extra_prefix, name);
}

bool rt_job_check_extras(const RtJob *j, const RtExtra *extra, size_t n) {
  for (size_t k = 0; k < n; k++) {
    if (!extra[k].name || !*extra[k].name || (extra[k].size && !extra[k].bytes))
      return rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: extra %zu has no %s", j->path, k,
                     extra[k].name && *extra[k].name ? "bytes" : "name");
    for (size_t i = 0; i < k; i++)
      if (!strcmp(extra[i].name, extra[k].name))
        return rt_fail(rt_job_error(j), RT_ERROR_SIZE, "%.500s: two extras are named '%.200s'", j->path, extra[k].name);
  }
  return true;
}
