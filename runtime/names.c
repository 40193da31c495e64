// Linear probing at a load of at most one half.
#include "runtime/names.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

static atomic_uint_fast64_t n_probes;

uint64_t rt_names_probes(void) { return atomic_load_explicit(&n_probes, memory_order_relaxed); }

static uint64_t seed_of_process(void) {
  const void *random = (const void *)(uintptr_t)getauxval(AT_RANDOM);  // 16 bytes, from the kernel
  uint64_t seed = 0;
  if (random) memcpy(&seed, random, sizeof seed);
  return seed;
}

// The slot of the name, or the free one where it would stand.
static uint32_t slot_of(const RtNames *t, const char *text, size_t size) {
  uint32_t mask = t->n_slots - 1, at = (uint32_t)rt_hash(text, size, t->seed) & mask, probes = 1;
  for (; t->slots[at]; at = (at + 1) & mask, probes++) {
    const RtName *other = &t->list[t->slots[at] - 1];
    if (other->size == size && !memcmp(other->text, text, size)) break;
  }
  atomic_fetch_add_explicit(&n_probes, probes, memory_order_relaxed);
  return at;
}

uint32_t rt_names_find(const RtNames *t, const char *text, size_t size) {
  if (!t->n) return RT_NO_NAME;
  return t->slots[slot_of(t, text, size)] - 1;  // a free slot is RT_NO_NAME
}

static void resize(RtNames *t, uint32_t n_slots) {
  t->n_slots = n_slots;
  t->slots = rt_alloc(t->mem, n_slots * sizeof *t->slots);
  t->seed = seed_of_process();
  for (uint32_t k = 0; k < t->n; k++) t->slots[slot_of(t, t->list[k].text, t->list[k].size)] = k + 1;
}

void rt_names_reserve(RtNames *t, uint32_t n) {
  uint32_t n_slots = t->n_slots ? t->n_slots : 64;
  while (n_slots / 2 < n && n_slots < UINT32_C(1) << 31) n_slots *= 2;
  if (n_slots > t->n_slots) resize(t, n_slots);
}

uint32_t rt_names_add(RtNames *t, const char *text, size_t size) {
  rt_names_reserve(t, t->n + 1);
  uint32_t *slot = &t->slots[slot_of(t, text, size)];
  if (*slot) return *slot - 1;
  *RT_PUSH(t->mem, t->list, t->n, t->cap) = (RtName){text, size};
  *slot = t->n;
  return t->n - 1;
}
