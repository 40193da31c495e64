#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/format.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// ---- the C locale: made once, never freed
static locale_t c_locale;
static pthread_once_t c_locale_is_made = PTHREAD_ONCE_INIT;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

static locale_t the_c_locale(void) {
  pthread_once(&c_locale_is_made, make_c_locale);
  return c_locale;
}

// ---- writing
int rt_vformat(char *to, size_t size, const char *fmt, va_list args) {
  locale_t before = uselocale(the_c_locale());
  int n = vsnprintf(to, size, fmt, args);
  uselocale(before);
  return n;
}

int rt_format(char *to, size_t size, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = rt_vformat(to, size, fmt, args);
  va_end(args);
  return n;
}

int rt_fformat(FILE *out, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  locale_t before = uselocale(the_c_locale());
  int n = vfprintf(out, fmt, args);
  uselocale(before);
  va_end(args);
  return n;
}

// ---- reading
static size_t count_digits(const char *s, const char *end) {
  const char *p = s;
  while (p < end && rt_is_digit(*p)) p++;
  return (size_t)(p - s);
}

static const char *skip_sign(const char *s, const char *end) { return s < end && (*s == '+' || *s == '-') ? s + 1 : s; }

static bool is_decimal(const char *s, size_t n) {
  const char *end = s + n, *p = skip_sign(s, end);
  size_t whole = count_digits(p, end), fraction = 0;
  p += whole;
  if (p < end && *p == '.') fraction = count_digits(p + 1, end), p += fraction + 1;
  if (p < end && (*p == 'e' || *p == 'E')) {
    p = skip_sign(p + 1, end);
    size_t exponent = count_digits(p, end);
    if (!exponent) return false;
    p += exponent;
  }
  return whole + fraction && p == end;
}

// strtod wants a 0 behind the number.
static bool copy_decimal(const char *s, size_t n, char text[RT_LONGEST_NUMBER + 1]) {
  if (n > RT_LONGEST_NUMBER || !is_decimal(s, n)) return false;
  memcpy(text, s, n);
  text[n] = 0;
  return true;
}

bool rt_read_f32(const char *s, size_t n, float *out) {
  char text[RT_LONGEST_NUMBER + 1];
  if (!copy_decimal(s, n, text)) return false;
  *out = strtof_l(text, NULL, the_c_locale());
  return true;
}

bool rt_read_f64(const char *s, size_t n, double *out) {
  char text[RT_LONGEST_NUMBER + 1];
  if (!copy_decimal(s, n, text)) return false;
  *out = strtod_l(text, NULL, the_c_locale());
  return true;
}

bool rt_read_i64(const char *s, size_t n, int64_t *out) {
  const char *end = s + n, *p = skip_sign(s, end);
  bool minus = p > s && *s == '-';
  int64_t v = 0;
  if (p == end || p + count_digits(p, end) != end) return false;
  for (; p < end; p++)  // as a negative number, since there is one more of these
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v)) return false;
  return minus ? (*out = v, true) : !__builtin_sub_overflow(0, v, out);
}

const char *rt_bytes_text(char to[RT_BYTES_SIZE], int64_t bytes) {
  static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double n = (double)bytes / 1024;
  size_t u = 0;
  if (bytes < 1024) return rt_format(to, RT_BYTES_SIZE, "%d B", (int)bytes), to;
  for (; n >= 1024 && u + 1 < sizeof unit / sizeof *unit; u++) n /= 1024;
  rt_format(to, RT_BYTES_SIZE, n == (double)(int)n ? "%.0f %s" : "%.1f %s", n, unit[u]);
  return to;
}
