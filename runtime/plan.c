#include "runtime/plan.h"

#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

uint32_t rt_plan_function(const RtPlan *p, const char *name) {
  for (uint32_t i = 0; i < p->n_functions; i++)
    if (!strcmp(p->functions[i].name, name)) return i;
  return RT_NO_FUNCTION;
}

static bool has_alias(const RtParam *p, const char *path) {
  for (uint32_t i = 0; i < p->n_aliases; i++)
    if (!strcmp(p->aliases[i], path)) return true;
  return false;
}

uint32_t rt_plan_param(const RtPlan *p, const char *path) {
  for (uint32_t i = 0; i < p->n_params; i++)
    if (!strcmp(p->params[i].path, path)) return i;
  for (uint32_t i = 0; i < p->n_params; i++)
    if (has_alias(&p->params[i], path)) return i;
  return UINT32_MAX;
}

bool rt_plan_dims(const RtPlan *p, const int64_t *slots, int64_t *out) {
  for (uint32_t i = 0; i < p->n_dims; i++) {
    const RtDim *d = &p->dims[i];
    bool overflow = false;
    switch ((RtDimKind)d->kind) {
    case RT_DIM_CONST: out[i] = d->value; break;
    case RT_DIM_SLOT: out[i] = slots[d->value]; break;
    case RT_DIM_MUL: overflow = __builtin_mul_overflow(out[d->a], out[d->b], &out[i]); break;
    case RT_DIM_ADD: overflow = __builtin_add_overflow(out[d->a], out[d->b], &out[i]); break;
    }
    if (overflow || out[i] >> 62) return false;
  }
  return true;
}

void *rt_block_fresh(int64_t bytes) {
  if (bytes < 0) return NULL;
  bool is_large = bytes >= HUGE_PAGE;
  void *p = rt_malloc_aligned(is_large ? HUGE_PAGE : TN_ALIGN, (size_t)bytes);
  if (!p) return NULL;
  if (is_large) madvise(p, (size_t)bytes & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
  return p;
}

void *rt_block_new(int64_t bytes) {
  void *p = rt_block_fresh(bytes);
  return p ? memset(p, 0, (size_t)bytes) : NULL;
}
