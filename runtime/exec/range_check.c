// Without a branch for each number, and with 64-bit differences only, of which every CPU has vectors (comparisons of
// 64 bits came later): x is outside lo..last if x - lo or (last - lo) - (x - lo) is negative, as signed numbers; x is
// not `other` if x ^ other or its negative is negative. So sign bits are collected, and looked at once.
#include "runtime/exec/range_check.h"

typedef uint64_t Lanes __attribute__((vector_size(32), aligned(8), may_alias));
enum { N_LANES = sizeof(Lanes) / sizeof(uint64_t) };

typedef struct {
  uint64_t lo, width, other;
} Bounds;

#define OUTSIDE(x, b) (((x) - (b).lo) | ((b).width - ((x) - (b).lo)))
#define NOT_OTHER(x, b) (((x) ^ (b).other) | (0 - ((x) ^ (b).other)))
#define BAD(x, b, has_other) ((has_other) ? OUTSIDE(x, b) & NOT_OTHER(x, b) : OUTSIDE(x, b))

static inline __attribute__((always_inline)) bool any_bad(const int64_t *v, int64_t n, Bounds b, bool has_other) {
  Lanes even = {0}, odd = {0};
  uint64_t all = 0;
  int64_t i = 0;
  for (; i + 2 * N_LANES <= n; i += 2 * N_LANES) {
    Lanes x = *(const Lanes *)(v + i), y = *(const Lanes *)(v + i + N_LANES);
    even |= BAD(x, b, has_other), odd |= BAD(y, b, has_other);
  }
  for (; i < n; i++) all |= BAD((uint64_t)v[i], b, has_other);
  for (int k = 0; k < N_LANES; k++) all |= even[k] | odd[k];
  return all >> 63;
}

static inline __attribute__((always_inline)) bool search(const int64_t *v, int64_t n, Bounds b, bool has_other) {
  return has_other ? any_bad(v, n, b, true) : any_bad(v, n, b, false);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static bool search_avx2(const int64_t *v, int64_t n, Bounds b, bool has_other) {
  return search(v, n, b, has_other);
}

static bool search_here(const int64_t *v, int64_t n, Bounds b, bool has_other) {
  return __builtin_cpu_supports("avx2") ? search_avx2(v, n, b, has_other) : search(v, n, b, has_other);
}
#else
static bool search_here(const int64_t *v, int64_t n, Bounds b, bool has_other) { return search(v, n, b, has_other); }
#endif

bool rt_are_in_range(const int64_t *v, int64_t n, const RtRange *r) {
  Bounds b = {(uint64_t)r->lo, (uint64_t)r->last - (uint64_t)r->lo, (uint64_t)r->other};
  bool is_empty = r->last < r->lo || b.width >> 63;  // no range of an array's sizes has 2^63 numbers
  return n == 0 || (!is_empty && !search_here(v, n, b, r->has_other));
}
