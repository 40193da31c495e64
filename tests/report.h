// The text of a program's report, for tests that look at it.
#ifndef TN_TESTS_REPORT_H
#define TN_TESTS_REPORT_H

#include "frontend/tenure.h"
#include <stdlib.h>

// What tn_report prints; valid until the next call.
static inline const char *report_of(const tn_program *p) {
  static char *text;
  static size_t size;
  free(text);
  FILE *out = open_memstream(&text, &size);
  tn_report(p, out);
  fclose(out);
  return text;
}

#endif
