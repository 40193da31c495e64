// Hooks that write down that they ran, and in which order.
#ifndef TN_TESTS_HOOK_LOG_H
#define TN_TESTS_HOOK_LOG_H

#include "frontend/tenure.h"
#include "tests/check.h"

typedef struct {
  int n, list[32];
} Log;
typedef struct {
  Log *log;
  int id;
} Entry;

static inline void note(void *ctx) {
  const Entry *e = ctx;
  e->log->list[e->log->n++ % 32] = e->id;
}

static inline tn_tensor note_pre(tn_module *m, tn_tensor in, void *ctx) {
  (void)m, (void)in;
  note(ctx);
  return TN_NONE;
}

static inline tn_tensor note_post(tn_module *m, tn_tensor in, tn_tensor out, void *ctx) {
  (void)m, (void)in, (void)out;
  note(ctx);
  return TN_NONE;
}

static inline bool logged(const Log *log, int n, const int *want) {
  bool good = log->n == n && !memcmp(log->list, want, (size_t)n * sizeof *want);
  for (int k = 0; k < log->n && k < 32 && !good; k++) printf("%s%d", k ? " " : "  have: ", log->list[k]);
  if (!good) printf("\n");
  return good;
}
#define LOGGED(log, ...) \
  CHECK(logged(log, sizeof((const int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__}))

#endif
