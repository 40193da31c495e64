// Patterns of parameter paths; see checkpoint.h.
#include "runtime/store/checkpoint.h"

#include <string.h>

static bool is_separator(char c) { return c == '.' || c == '/'; }

static size_t name_length(const char *s) {
  size_t n = 0;
  while (s[n] && !is_separator(s[n])) n++;
  return n;
}

// One name against one name's pattern. On a mismatch the last '*' takes one character more.
static bool name_matches(const char *pattern, size_t n_pattern, const char *name, size_t n_name) {
  size_t p = 0, s = 0, star = SIZE_MAX, star_s = 0;
  while (s < n_name) {
    if (p < n_pattern && pattern[p] == '*') star = p++, star_s = s;
    else if (p < n_pattern && pattern[p] == name[s]) p++, s++;
    else if (star == SIZE_MAX) return false;
    else p = star + 1, s = ++star_s;
  }
  while (p < n_pattern && pattern[p] == '*') p++;
  return p == n_pattern;
}

static const char *after(const char *s, size_t n) { return s[n] ? s + n + 1 : s + n; }

bool rt_path_matches(const char *pattern, const char *path) {
  if (!pattern || !*pattern) return true;
  if (!*path) return false;
  size_t n = name_length(pattern), n_name = name_length(path);
  const char *rest = after(pattern, n), *below = after(path, n_name);
  if (n == 2 && !memcmp(pattern, "**", 2)) return rt_path_matches(rest, path) || rt_path_matches(pattern, below);
  return name_matches(pattern, n, path, n_name) && rt_path_matches(rest, below);
}
