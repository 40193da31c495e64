// Distance of names: restricted edits (a letter more, less, other, or two swapped), row by row.
//
//           s t e p p
//         0 1 2 3 4 5
//       s 1 0 1 2 3 4
//       t 2 1 0 1 2 3
//       .. the last entry of the last row is the distance
#include "runtime/near.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 63, MOST_EDITS = 3 };

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

static uint32_t distance(const char *a, size_t n_a, const char *b, size_t n_b) {
  uint32_t rows[3][LONGEST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t k = 0; k <= n_b; k++) above[k] = (uint32_t)k;
  for (size_t i = 1; i <= n_a; i++) {
    row[0] = (uint32_t)i;
    for (size_t k = 1; k <= n_b; k++) {
      row[k] = least(above[k - 1] + (a[i - 1] != b[k - 1]), least(above[k], row[k - 1]) + 1);
      bool is_swap = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (is_swap) row[k] = least(row[k], before[k - 2] + 1);
    }
    uint32_t *free_row = before;
    before = above, above = row, row = free_row;
  }
  return above[n_b];
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool is_same_but_case(const char *a, const char *b) {
  while (*a && lower(*a) == lower(*b)) a++, b++;
  return !*a && !*b;
}

// "weight" is the end of "fc.weight"
static bool is_end_of_path(const char *end, size_t n, const char *path, size_t n_path) {
  return n && n_path > n + 1 && path[n_path - n - 1] == '.' && !memcmp(path + n_path - n, end, n);
}

void rt_near_offer(RtNear *n, const char *name) {
  size_t n_wanted = n->wanted ? strlen(n->wanted) : 0, n_name = name ? strlen(name) : 0;
  uint32_t most = least((uint32_t)(n_wanted + 1) / 3, MOST_EDITS), d = UINT32_MAX;
  if (n_name && n->n_offered++ < RT_NEAR_LISTED) n->offered[n->n_offered - 1] = name;
  if (!n_wanted || !n_name || !strcmp(n->wanted, name)) return;
  size_t gap = n_wanted < n_name ? n_name - n_wanted : n_wanted - n_name;
  if (is_same_but_case(n->wanted, name)) d = 0;
  else if (gap <= most && n_wanted <= LONGEST && n_name <= LONGEST) d = distance(n->wanted, n_wanted, name, n_name);
  if (d > most) d = is_end_of_path(n->wanted, n_wanted, name, n_name) ? MOST_EDITS + 1 : UINT32_MAX;
  if (d == UINT32_MAX || (n->name && n->distance <= d)) return;
  n->name = name, n->distance = d;
}

const char *rt_near_text(RtNear *n) {
  n->text[0] = 0;
  if (n->name) snprintf(n->text, sizeof n->text, "; did you mean '%.120s'?", n->name);
  return n->text;
}

const char *rt_near_or_all(RtNear *n) {
  if (n->name || !n->n_offered) return rt_near_text(n);
  int at = snprintf(n->text, sizeof n->text, "; there %s", n->n_offered == 1 ? "is" : "are");
  for (uint32_t k = 0; k < n->n_offered && k < RT_NEAR_LISTED; k++)
    at += snprintf(n->text + at, sizeof n->text - (size_t)at, "%s '%.60s'", k ? "," : "", n->offered[k]);
  if (n->n_offered > RT_NEAR_LISTED)
    snprintf(n->text + at, sizeof n->text - (size_t)at, " and %u more", (unsigned)(n->n_offered - RT_NEAR_LISTED));
  return n->text;
}
