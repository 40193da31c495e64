// The text of a program's report, for tests that look at it, and the places that it names.
#ifndef TN_TESTS_REPORT_H
#define TN_TESTS_REPORT_H

#include "frontend/tenure.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// What tn_report prints; valid until the next call.
static inline const char *report_of(const tn_program *of) {
  static char *text;
  static size_t size;
  free(text);
  FILE *out = open_memstream(&text, &size);
  tn_report(of, out);
  fclose(out);
  return text;
}

// Line `line` of a user's file, for calls in parentheses: (tn_add)(x, y, at(7)); messages name user.c:7
static inline tn_site at(int line) { return (tn_site){"user.c", line}; }

// Values of a program built by calls are named by these: no "%12" or "%h" stands in the text, which is how .tir names them.
static inline bool names_no_number(const char *text) {
  for (const char *s = text; (s = strchr(s, '%')); s++)
    if (isalnum((unsigned char)s[1]) || s[1] == '_') return false;
  return true;
}

#endif
