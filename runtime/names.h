// Names by number, found by hash: a file with a million names takes a million steps, not a million times a million.
//
//   RtNames t = {.mem = mem};
//   rt_names_add(&t, "left", 4), rt_names_add(&t, "right", 5);
//   rt_names_find(&t, "right", 5);   // 1
#ifndef TN_RUNTIME_NAMES_H
#define TN_RUNTIME_NAMES_H

#include "runtime/base.h"

typedef struct {
  const char *text;
  size_t size;
} RtName;
typedef struct {
  RtArena *mem;
  RtName *list;  // by number
  uint32_t n, cap;
  uint32_t *slots, n_slots;  // 1 + a number, 0: free; a power of two, at least twice n
  uint64_t seed;             // of this process, so that nobody can write names that all fall on one slot
} RtNames;
#define RT_NO_NAME UINT32_MAX

RT_API uint32_t rt_names_find(const RtNames *t, const char *text, size_t size);  // RT_NO_NAME: none
// A new number, t->n before; or the one that the name has already. The text is not copied.
RT_API uint32_t rt_names_add(RtNames *t, const char *text, size_t size);
void rt_names_reserve(RtNames *t, uint32_t n);  // room for n in all; adding makes room too
uint64_t rt_names_probes(void);                 // slots looked at since the start, in all tables: the work done

#endif
