#include "runtime/exec/plan.h"

#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 64 << 10 };  // 64 KiB: a multiple of every system's small page

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

static const int64_t LIMIT = INT64_C(1) << 62;

bool rt_plan_dims(const RtPlan *p, const int64_t *slots, int64_t *out) {
  for (uint32_t i = 0; i < p->n_dims; i++) {
    const RtDim *d = &p->dims[i];
    bool overflow = false;
    switch ((RtDimKind)d->kind) {
    case RT_DIM_CONST: out[i] = d->value; break;
    case RT_DIM_SLOT: out[i] = slots[d->value]; break;
    case RT_DIM_MUL: overflow = __builtin_mul_overflow(out[d->a], out[d->b], &out[i]); break;
    case RT_DIM_ADD: overflow = __builtin_add_overflow(out[d->a], out[d->b], &out[i]); break;
    case RT_DIM_DIV: out[i] = rt_floor_div(out[d->a], out[d->b]); break;
    case RT_DIM_MAX: out[i] = rt_larger(out[d->a], out[d->b]); break;
    case RT_DIM_MIN: out[i] = rt_smaller(out[d->a], out[d->b]); break;
    }
    if (overflow || out[i] >= LIMIT || out[i] <= -LIMIT) return false;
  }
  return true;
}

// ---- blocks
// Mapped size of a large block: rounded up to a huge page, unless most of the last one would be unused.
static size_t mapped_size(int64_t bytes) {
  size_t rest = (size_t)bytes % HUGE_PAGE, page = rest >= HUGE_PAGE / 2 ? HUGE_PAGE : SMALL_PAGE;
  return ((size_t)bytes + page - 1) / page * page;
}

// Over-maps by a huge page, and unmaps what is outside of the aligned range.
static void *map_aligned(size_t size) {
  unsigned char *all = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return NULL;
  size_t before = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(all, before);
  munmap(all + before + size, HUGE_PAGE - before);
  madvise(all + before, size, MADV_HUGEPAGE);
  return all + before;
}

void *rt_block_new(int64_t bytes) {
  if (bytes < 0 || bytes > PTRDIFF_MAX - 2 * HUGE_PAGE) return NULL;
  if (bytes >= HUGE_PAGE / 2) return rt_malloc_refused() ? NULL : map_aligned(mapped_size(bytes));
  void *p = rt_malloc_aligned(TN_ALIGN, (size_t)bytes);
  return p ? memset(p, 0, (size_t)bytes) : NULL;
}

void rt_block_drop(void *part, int64_t bytes) {
  uintptr_t lo = ((uintptr_t)part + SMALL_PAGE - 1) / SMALL_PAGE * SMALL_PAGE;
  uintptr_t hi = ((uintptr_t)part + (uintptr_t)bytes) / SMALL_PAGE * SMALL_PAGE;
  if (lo < hi) madvise((void *)lo, hi - lo, MADV_DONTNEED);
}

void rt_block_free(void *block, int64_t bytes) {
  if (bytes < HUGE_PAGE / 2) rt_free(block);
  else if (block) munmap(block, mapped_size(bytes));
}
