#include "runtime/data/npy.h"

#include <inttypes.h>
#include <string.h>

enum { PREFIX = 12, MOST_HEADER = 1 << 16 };

typedef struct {
  const char *at, *end;
  const RtSource *s;
  char *error;
  size_t error_size;
} Reader;

static bool expected(const Reader *r, const char *what) {
  int n = r->end - r->at < 20 ? (int)(r->end - r->at) : 20;
  return rt_fail(r->error, r->error_size, "%s: the header of the array: expected %s at '%.*s'", r->s->name, what, n,
                 r->at);
}

static void skip_space(Reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')) r->at++;
}

static bool take(Reader *r, char c) {
  skip_space(r);
  if (r->at == r->end || *r->at != c) return false;
  r->at++;
  return true;
}

static bool need(Reader *r, char c) {
  char what[] = {'\'', c, '\'', 0};
  return take(r, c) || expected(r, what);
}

// 'text' or "text" without escapes, at most 31 bytes.
static bool take_string(Reader *r, char out[32]) {
  skip_space(r);
  char quote = r->at < r->end ? *r->at : 0;
  if (quote != '\'' && quote != '"') return expected(r, "a text in quotes");
  const char *start = ++r->at;
  while (r->at < r->end && *r->at != quote) r->at++;
  size_t n = (size_t)(r->at - start);
  if (r->at == r->end || n > 31 || memchr(start, '\\', n) || memchr(start, 0, n))
    return expected(r, "a text in quotes");
  memcpy(out, start, n);
  out[n] = 0;
  r->at++;
  return true;
}

static bool take_size(Reader *r, int64_t *out) {
  skip_space(r);
  const char *start = r->at;
  *out = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *r->at - '0', out))
      return expected(r, "a size below 2^63");
  if (r->at < r->end && *r->at == 'L') r->at++;  // Python 2
  return r->at > start || expected(r, "a size");
}

static bool take_bool(Reader *r, bool *out) {
  skip_space(r);
  size_t left = (size_t)(r->end - r->at);
  *out = left >= 4 && !memcmp(r->at, "True", 4);
  if (!*out && !(left >= 5 && !memcmp(r->at, "False", 5))) return expected(r, "True or False");
  r->at += *out ? 4 : 5;
  return true;
}

static bool take_shape(Reader *r, RtNpy *out) {
  if (!need(r, '(')) return false;
  for (out->rank = 0; !take(r, ')'); out->rank++) {
    if (out->rank == RT_MAX_RANK)
      return rt_fail(r->error, r->error_size, "%s: the array has more than %d axes", r->s->name, RT_MAX_RANK);
    if (!take_size(r, &out->dims[out->rank])) return false;
    if (!take(r, ',') && !(r->at < r->end && *r->at == ')')) return expected(r, "',' or ')'");
  }
  return true;
}

// "<f4", "|b1", ..
static bool take_descr(Reader *r, RtNumber *out) {
  char text[32];
  skip_space(r);
  if (r->at < r->end && *r->at == '[') return rt_fail(r->error, r->error_size, "%s: records are not read", r->s->name);
  if (!take_string(r, text)) return false;
  char order = text[0], kind = order ? text[1] : 0, width = kind ? text[2] : 0;
  bool fits = width && !text[3] && strchr("<>|=", order) != NULL;
  if (kind == 'f') fits &= width == '2' || width == '4' || width == '8';
  else if (kind == 'i' || kind == 'u') fits &= width == '1' || width == '2' || width == '4' || width == '8';
  else if (kind == 'V') fits &= width == '2';  // as JAX writes bfloat16, which NumPy does not have
  else fits &= kind == 'b' && width == '1';
  if (fits) {
    *out = (RtNumber){kind == 'V' ? 'h' : kind, (uint8_t)(width - '0'), order == '>'};
    return true;
  }
  return rt_fail(r->error, r->error_size,
                 "%s: numbers of type '%s' are not read, only f2 f4 f8, i1 to i8, u1 to u8, b1, V2", r->s->name, text);
}

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4 };
static bool take_entry(Reader *r, RtNpy *out, uint32_t *seen) {
  char key[32];
  if (!take_string(r, key) || !need(r, ':')) return false;
  uint32_t bit = !strcmp(key, "descr")           ? HAS_DESCR
                 : !strcmp(key, "fortran_order") ? HAS_ORDER
                 : !strcmp(key, "shape")         ? HAS_SHAPE
                                                 : 0;
  if (!bit || (*seen & bit)) return expected(r, "descr, fortran_order and shape, once each");
  *seen |= bit;
  if (bit == HAS_DESCR) return take_descr(r, &out->number);
  return bit == HAS_ORDER ? take_bool(r, &out->fortran) : take_shape(r, out);
}

static bool take_header(Reader *r, RtNpy *out) {
  uint32_t seen = 0;
  if (!need(r, '{')) return false;
  while (!take(r, '}')) {
    if (!take_entry(r, out, &seen)) return false;
    if (!take(r, ',') && !(r->at < r->end && *r->at == '}')) return expected(r, "',' or '}'");
  }
  skip_space(r);
  if (seen != 7) return expected(r, "descr, fortran_order and shape");
  return r->at == r->end || expected(r, "nothing more");
}

static bool check_data(const RtSource *s, RtNpy *out, char *error, size_t error_size) {
  int64_t n = 1, bytes;
  bool is_empty = false, overflow = false;
  for (uint32_t d = 0; d < out->rank; d++) is_empty |= out->dims[d] == 0;
  for (uint32_t d = 0; d < out->rank && !is_empty; d++) overflow |= __builtin_mul_overflow(n, out->dims[d], &n);
  if (is_empty) n = 0;
  if (overflow || __builtin_mul_overflow(n, (int64_t)out->number.bytes, &bytes) ||
      (uint64_t)bytes > s->size - out->data_at)
    return rt_fail(error, error_size, "%s: the array's shape needs more bytes than the %" PRIu64 " that are there",
                   s->name, s->size - out->data_at);
  out->n_elements = (uint64_t)n;
  return true;
}

bool rt_npy_parse(const RtSource *s, RtNpy *out, char *error, size_t error_size) {
  unsigned char p[PREFIX] = {0};
  *out = (RtNpy){.rank = 0};
  if (s->size < 10 || !rt_source_read(s, 0, p, s->size < PREFIX ? (size_t)s->size : PREFIX, error, error_size) ||
      memcmp(p, "\x93NUMPY", 6))
    return rt_fail(error, error_size, "%s: not a NumPy array", s->name);
  if (p[6] < 1 || p[6] > 3)
    return rt_fail(error, error_size, "%s: version %d of the format is not known", s->name, p[6]);
  uint64_t start = p[6] == 1 ? 10 : 12, n = p[8] | (uint64_t)p[9] << 8;
  if (p[6] > 1) n |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
  if (n > MOST_HEADER || start + n > s->size)
    return rt_fail(error, error_size, "%s: a header of %" PRIu64 " bytes does not fit", s->name, n);
  char *text = rt_malloc((size_t)n);
  if (!text) return rt_fail(error, error_size, "out of memory");
  Reader r = {text, text + n, s, error, error_size};
  bool ok = rt_source_read(s, start, text, (size_t)n, error, error_size) && take_header(&r, out);
  out->data_at = start + n;
  rt_free(text);
  return ok && check_data(s, out, error, error_size);
}
