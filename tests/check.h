// The smallest test harness: CHECK counts and goes on, check_report ends main.
//
//   int main(void) {
//     CHECK(1 + 1 == 2);
//     CHECK_HAS(error, "line 3");   // the text contains it; prints the text when not
//     return check_report();        // 0 when all held
//   }
#ifndef TN_TESTS_CHECK_H
#define TN_TESTS_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

static atomic_uint check_n, check_n_failed;  // tests have threads

static inline bool check_that(bool holds, const char *file, int line, const char *what) {
  check_n++;
  if (holds) return true;
  check_n_failed++;
  printf("%s:%d: failed: %s\n", file, line, what);
  return false;
}

static inline bool check_has(const char *text, const char *part, const char *file, int line) {
  if (check_that(text && strstr(text, part), file, line, part)) return true;
  printf("  in: %s\n", text ? text : "(null)");
  return false;
}

#define CHECK(cond) check_that((cond), __FILE__, __LINE__, #cond)
#define CHECK_HAS(text, part) check_has((text), (part), __FILE__, __LINE__)

static inline int check_report(void) {
  printf("%u checks, %u failed\n", atomic_load(&check_n), atomic_load(&check_n_failed));
  return check_n_failed != 0;
}

#endif
