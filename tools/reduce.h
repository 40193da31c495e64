// The search behind tenure reduce: the smallest text that still holds.
#ifndef TN_TOOLS_REDUCE_H
#define TN_TOOLS_REDUCE_H

#include "runtime/base.h"

typedef struct {
  RtArena *mem;
  const char *text;                                      // in: of a program that holds; out: a smaller one that does
  bool (*holds)(const char *text, size_t n, void *ctx);  // of programs that parse and verify
  void *ctx;
  uint32_t n_tries, most_tries;
} Reduce;
void reduce_text(Reduce *r);

#endif
