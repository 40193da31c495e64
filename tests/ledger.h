// Comparing the ledger with a table's tuple: TENSORS(f, 0, 0, 1, 1, 0, 0, 0) is T(co, do, ci, di, at, de | live).
#ifndef TN_TESTS_LEDGER_H
#define TN_TESTS_LEDGER_H

#include "tests/scenario.h"

static inline bool check_stats(tn_stats s, const int64_t want[7], const char *what, const char *file, int line) {
  const int64_t have[7] = {s.created_outside, s.disposed_outside, s.created_in, s.disposed_in,
                           s.attached,        s.detached,         s.live};
  if (check_that(!memcmp(have, want, sizeof have), file, line, what)) return true;
  printf("  want:");
  for (int k = 0; k < 7; k++) printf(" %lld", (long long)want[k]);
  printf("\n  have:");
  for (int k = 0; k < 7; k++) printf(" %lld", (long long)have[k]);
  printf("\n");
  return false;
}

#define STATS(stats, what, ...) check_stats(stats, (const int64_t[7]){__VA_ARGS__}, what, __FILE__, __LINE__)
#define TENSORS(f, ...) STATS(tn_stats_tensors(f), "tensors", __VA_ARGS__)
#define PACKED(f, ...) STATS(tn_stats_packed(f), "packed sequences", __VA_ARGS__)
#define TOTAL(f, ...) STATS(tn_stats_total(f), "all values", __VA_ARGS__)

// Is t among the values that s owns?
static inline bool owns(const tn_scope *s, tn_tensor t) {
  tn_scope_value v[64];
  uint32_t n = tn_scope_values(s, v, 64);
  for (uint32_t k = 0; k < n && k < 64; k++)
    if (v[k].value.v == t.v && v[k].value.fn == t.fn) return true;
  return false;
}

static inline const char *stats_text(tn_stats s) {
  static char text[512];
  FILE *out = fmemopen(text, sizeof text, "w");
  tn_stats_print(s, out);
  fclose(out);
  return text;
}

#endif
