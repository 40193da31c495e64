// Scenarios: one case per row of a table of behaviours, each a ctest case of its own name (cmake/scenarios.cmake).
//
//   SCENARIO(A01) {
//     tn_program *p = tn_program_create("a01");
//     ..
//     CHECK_HAS(report_of(p), "E101");
//     tn_program_free(p);
//   }
//
// This header defines main: it runs the cases named as arguments, or all of them.
#ifndef TN_TESTS_SCENARIO_H
#define TN_TESTS_SCENARIO_H

#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"
#include <stdlib.h>

// A place in the user's program, for texts that name it: (tn_dispose)(t, at(102))
// The report is exactly this text, with '@' for this file's name: "@:12: error[E101]: ..\n"
static inline bool check_text(const char *text, const char *want, const char *path, const char *file, int line) {
  const char *at = text;
  for (const char *w = want; *w; w++) {
    size_t n = *w == '@' ? strlen(path) : 1;
    if (strncmp(at, *w == '@' ? path : w, n)) break;
    at += n;
    if (!w[1] && !*at) return check_that(true, file, line, want);
  }
  if (!*want && !*text) return check_that(true, file, line, want);
  check_that(false, file, line, "the text is as expected");
  printf("  want: %s\n  have: %s\n", want, text);
  return false;
}
#define CHECK_REPORT(p, want) check_text(report_of(p), want, __FILE__, __FILE__, __LINE__)

#ifndef TN_STORY  // a story file has a main of its own
typedef struct Scenario {
  const char *id;
  void (*run)(void);
  struct Scenario *next;
} Scenario;
static Scenario *first_scenario, **next_scenario = &first_scenario;

#define SCENARIO(name)                                             \
  static void scenario_##name(void);                               \
  __attribute__((constructor)) static void register_##name(void) { \
    static Scenario entry = {.id = #name, .run = scenario_##name}; \
    *next_scenario = &entry;                                       \
    next_scenario = &entry.next;                                   \
  }                                                                \
  static void scenario_##name(void)

static inline bool is_wanted(const char *id, int n, char **list) {
  for (int k = 1; k < n; k++)
    if (!strcmp(list[k], id)) return true;
  return n < 2;
}

int main(int argc, char **argv) {
  int n = 0;
  for (const Scenario *s = first_scenario; s; s = s->next)
    if (is_wanted(s->id, argc, argv)) s->run(), n++;
  CHECK(n >= argc - 1);
  return check_report();
}
#endif

#endif
