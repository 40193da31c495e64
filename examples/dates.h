// Dates as people write them, for examples that learn to write them as machines do: "may 3, 1998", "3 may 1998", "03.05.1998".
#ifndef EXAMPLES_DATES_H
#define EXAMPLES_DATES_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LETTERS = 20 };  // of a date that people write
static const char letters[] = " ,./-0123456789abcdefghijklmnopqrstuvwxyz";
enum { N_LETTERS = sizeof letters - 1 };

static int64_t letter_code(char c) { return strchr(letters, c) - letters; }
static uint32_t draw(uint64_t *s, uint32_t below) {
  return *s = *s * 6364136223846793005u + 1442695040888963407u, (uint32_t)((*s >> 33) % below);
}

// A date as text, and as `form` has its year, month and day
static void write_date(uint64_t *s, char text[32], char wanted[32], const char *form) {
  static const char *const forms[] = {"%s %u, %u", "%2$u %1$s %3$u", "%2$u %1$.3s %3$u", "%2$u.%4$02u.%3$u"};
  static const char *const months[] = {"january", "february", "march",     "april",   "may",      "june",
                                       "july",    "august",   "september", "october", "november", "december"};
  unsigned day = 1 + draw(s, 28), month = draw(s, 12), year = 1900 + draw(s, 150);
  snprintf(wanted, 32, form, year, month + 1, day);
  snprintf(text, 32, forms[draw(s, 4)], months[month], day, year, month + 1);
}

#endif
