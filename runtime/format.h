// Numbers as text and back, the same in every locale of the program: files, cache keys, dumps and messages have a
// point where the locale's printf would write a comma, and readers take no comma for one.
//
//   setlocale(LC_ALL, "de_DE");  printf("%g", .5);  -> 0,5        rt_format(s, n, "%g", .5);  -> 0.5
//
// Everything that formats or reads a floating-point number goes through here (tests/test_number_text.sh, tests/test_locale.c): rt_printf,
// rt_text_add, rt_fail and rt_diag do.
#ifndef TN_RUNTIME_FORMAT_H
#define TN_RUNTIME_FORMAT_H

#include "runtime/base.h"

// snprintf, vsnprintf and fprintf in the C locale; errno stays as they leave it
RT_API int rt_format(char *to, size_t size, const char *fmt, ...) RT_PRINTF(3, 4);
RT_API int rt_vformat(char *to, size_t size, const char *fmt, va_list args);
RT_API int rt_fformat(FILE *out, const char *fmt, ...) RT_PRINTF(2, 3);

// The n characters at s, all of them, as a decimal number: [+-] digits [. digits] [e [+-] digits] with a digit before
// or behind the point; no space, no hexadecimal digits, no "inf" or "nan". Rounded to nearest even; what is too large
// is infinite. False: no such number, or one of more than RT_LONGEST_NUMBER characters.
enum { RT_LONGEST_NUMBER = 200 };
bool rt_read_f32(const char *s, size_t n, float *out);
RT_API bool rt_read_f64(const char *s, size_t n, double *out);
// [+-] digits; false: no such number, or one outside i64
bool rt_read_i64(const char *s, size_t n, int64_t *out);

// "1.5 MiB", in up to RT_BYTES_SIZE characters of `to`; gives `to`
enum { RT_BYTES_SIZE = 24 };
RT_API const char *rt_bytes_text(char to[RT_BYTES_SIZE], int64_t bytes);

static inline bool rt_is_digit(char c) { return c >= '0' && c <= '9'; }
// Of ASCII
static inline bool rt_is_alnum(char c) { return rt_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

#endif
