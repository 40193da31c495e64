// Reading safetensors: a JSON reader for exactly the shape that the header has, then the checks on offsets.
#include "runtime/store/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROW(n, b) #n,
const char *const rt_st_dtype_name[RT_N_ST_DTYPES] = {RT_ST_DTYPES(ROW)};
#undef ROW
#define ROW(n, b) b,
const uint8_t rt_st_dtype_bytes[RT_N_ST_DTYPES] = {RT_ST_DTYPES(ROW)};
#undef ROW

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 };

typedef struct {
  RtArena *mem;
  const unsigned char *text;  // the header
  size_t n, at;
  char *error;
  size_t error_size;
} Reader;

// What stands at the reader's place, for a sentence: a printable character, a byte or the end.
static const char *found(const Reader *r, char buffer[24]) {
  if (r->at >= r->n) return "the end of the header";
  unsigned char c = r->text[r->at];
  snprintf(buffer, 24, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
  return buffer;
}

static bool expected(const Reader *r, const char *what) {
  char buffer[24];
  return rt_fail(r->error, r->error_size, "byte %zu: expected %s, found %s", r->at + LENGTH_BYTES, what,
                 found(r, buffer));
}

static void skip_space(Reader *r) {
  while (r->at < r->n && strchr(" \t\r\n", r->text[r->at]) && r->text[r->at]) r->at++;
}

// Skips space, then takes `c` when it is next.
static bool take(Reader *r, char c) {
  skip_space(r);
  if (r->at >= r->n || r->text[r->at] != (unsigned char)c) return false;
  r->at++;
  return true;
}

static bool need(Reader *r, char c, const char *what) { return take(r, c) || expected(r, what); }

// ---- strings

static bool take_hex4(Reader *r, uint32_t *out) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) {
    int c = r->at < r->n ? r->text[r->at] : 0;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return expected(r, "four hexadecimal digits");
    v = v << 4 | (uint32_t)digit;
    r->at++;
  }
  *out = v;
  return true;
}

static void put_utf8(RtText *t, uint32_t c) {
  char b[4];
  size_t n = 0;
  if (c < 0x80) b[n++] = (char)c;
  else if (c < 0x800) b[n++] = (char)(0xc0 | c >> 6);
  else if (c < 0x10000) b[n++] = (char)(0xe0 | c >> 12), b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
  else
    b[n++] = (char)(0xf0 | c >> 18), b[n++] = (char)(0x80 | (c >> 12 & 0x3f)), b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
  if (c >= 0x80) b[n++] = (char)(0x80 | (c & 0x3f));
  rt_text_put(t, b, n);
}

// After \u: one code point, which may take a second \u half.
static bool take_unicode(Reader *r, RtText *t) {
  uint32_t c = 0, low = 0;
  if (!take_hex4(r, &c)) return false;
  if (c == 0) return expected(r, "a name without the character U+0000");
  if (c >= 0xdc00 && c <= 0xdfff) return expected(r, "a high surrogate before the low one");
  if (c >= 0xd800 && c <= 0xdbff) {
    if (r->n - r->at < 2 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u') return expected(r, "a low surrogate");
    r->at += 2;
    if (!take_hex4(r, &low)) return false;
    if (low < 0xdc00 || low > 0xdfff) return expected(r, "a low surrogate");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  }
  put_utf8(t, c);
  return true;
}

static bool take_escape(Reader *r, RtText *t) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (r->at >= r->n || !r->text[r->at]) return expected(r, "an escape letter");
  const char *letter = strchr(from, r->text[r->at]);
  if (!letter && r->text[r->at] != 'u') return expected(r, "an escape letter");
  r->at++;
  if (!letter) return take_unicode(r, t);
  rt_text_put(t, &to[letter - from], 1);
  return true;
}

static bool take_string(Reader *r, const char *what, const char **out) {
  if (!need(r, '"', what)) return false;
  RtText t = {.mem = r->mem};
  rt_text_put(&t, "", 0);
  for (;;) {
    if (r->at >= r->n) return expected(r, "'\"' at the end of a string");
    unsigned char c = r->text[r->at];
    size_t n = rt_utf8_length(r->text + r->at, r->n - r->at);
    if (c < 0x20) return expected(r, "no control character in a string");
    if (n == 0) return expected(r, "UTF-8");
    r->at += n;
    if (c == '"') break;
    if (c != '\\') rt_text_put(&t, (const char *)r->text + r->at - n, n);
    else if (!take_escape(r, &t)) return false;
  }
  *out = t.text;
  return true;
}

// ---- numbers: sizes and offsets only

static bool take_size(Reader *r, int64_t *out) {
  skip_space(r);
  size_t start = r->at;
  int64_t v = 0;
  while (r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, r->text[r->at] - '0', &v)) {
      r->at = start;
      return expected(r, "an integer below 2^63");
    }
    r->at++;
  }
  bool is_plain = r->at > start && !(r->text[start] == '0' && r->at - start > 1);
  bool goes_on = r->at < r->n && r->text[r->at] && strchr(".eE+-", r->text[r->at]);
  if (is_plain && !goes_on) {
    *out = v;
    return true;
  }
  if (!goes_on) r->at = start;
  return expected(r, "a non-negative integer");
}

// [1,2,3]: at most `max` of them.
static bool take_sizes(Reader *r, int64_t *out, uint32_t max, uint32_t *n) {
  *n = 0;
  if (!need(r, '[', "'['")) return false;
  if (take(r, ']')) return true;
  do {
    if (*n == max)
      return rt_fail(r->error, r->error_size, "byte %zu: more than %u numbers in a list", r->at + LENGTH_BYTES, max);
    if (!take_size(r, &out[(*n)++])) return false;
  } while (take(r, ','));
  return need(r, ']', "',' or ']'");
}

// ---- entries

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4 };

static bool take_dtype(Reader *r, uint8_t *out) {
  skip_space(r);
  size_t start = r->at;
  const char *name;
  if (!take_string(r, "a dtype in quotes", &name)) return false;
  for (uint8_t d = 0; d < RT_N_ST_DTYPES; d++)
    if (!strcmp(name, rt_st_dtype_name[d])) {
      *out = d;
      return true;
    }
  return rt_fail(r->error, r->error_size,
                 "byte %zu: dtype \"%.20s\" is none of F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL",
                 start + LENGTH_BYTES, name);
}

// One `"key": value` of a tensor's object; *seen collects HAS_*.
static bool take_field(Reader *r, RtStTensor *t, int64_t offsets[2], uint32_t *seen) {
  skip_space(r);
  size_t start = r->at;
  const char *key;
  if (!take_string(r, "a field name in quotes", &key) || !need(r, ':', "':'")) return false;
  uint32_t field = !strcmp(key, "dtype")          ? HAS_DTYPE
                   : !strcmp(key, "shape")        ? HAS_SHAPE
                   : !strcmp(key, "data_offsets") ? HAS_OFFSETS
                                                  : 0;
  if (!field || (*seen & field))
    return rt_fail(r->error, r->error_size, "byte %zu: %s field \"%.40s\" in tensor \"%.80s\"", start + LENGTH_BYTES,
                   field ? "second" : "unknown", key, t->name);
  *seen |= field;
  if (field == HAS_DTYPE) return take_dtype(r, &t->dtype);
  if (field == HAS_SHAPE) return take_sizes(r, t->dims, RT_ST_MAX_RANK, &t->rank);
  uint32_t n;
  if (!take_sizes(r, offsets, 2, &n)) return false;
  return n == 2 || expected(r, "two numbers in data_offsets");
}

// dtype, shape and offsets of one tensor must agree; n_data bytes stand behind the header.
static bool finish_tensor(Reader *r, RtStTensor *t, const int64_t offsets[2], uint64_t n_data, size_t start) {
  int64_t count = 1, size;
  bool is_empty = false, overflow = false;
  for (uint32_t i = 0; i < t->rank; i++) is_empty |= t->dims[i] == 0;
  for (uint32_t i = 0; i < t->rank && !is_empty; i++) overflow |= __builtin_mul_overflow(count, t->dims[i], &count);
  if (is_empty) count = 0;
  if (overflow || __builtin_mul_overflow(count, rt_st_dtype_bytes[t->dtype], &size))
    return rt_fail(r->error, r->error_size, "byte %zu: tensor \"%.80s\" has a shape of more than 2^63 bytes",
                   start + LENGTH_BYTES, t->name);
  if (offsets[0] > offsets[1] || (uint64_t)offsets[1] > n_data)
    return rt_fail(r->error, r->error_size,
                   "byte %zu: tensor \"%.80s\" has data_offsets [%" PRId64 ",%" PRId64 "], the file holds %" PRIu64
                   " bytes of data",
                   start + LENGTH_BYTES, t->name, offsets[0], offsets[1], n_data);
  if (offsets[1] - offsets[0] != size)
    return rt_fail(r->error, r->error_size,
                   "byte %zu: tensor \"%.80s\" has %" PRId64 " bytes by its offsets and %" PRId64 " by its shape",
                   start + LENGTH_BYTES, t->name, offsets[1] - offsets[0], size);
  t->n_elements = (uint64_t)count;
  t->size = (uint64_t)size;
  t->offset = LENGTH_BYTES + r->n + (uint64_t)offsets[0];
  return true;
}

static bool take_tensor(Reader *r, RtSt *out, const char *name, size_t start, uint64_t n_data) {
  RtStTensor t = {.name = name};
  int64_t offsets[2] = {0, 0};
  uint32_t seen = 0;
  if (!need(r, '{', "'{'")) return false;
  if (!take(r, '}')) {
    do {
      if (!take_field(r, &t, offsets, &seen)) return false;
    } while (take(r, ','));
    if (!need(r, '}', "',' or '}'")) return false;
  }
  if (seen != (HAS_DTYPE | HAS_SHAPE | HAS_OFFSETS))
    return rt_fail(r->error, r->error_size, "byte %zu: tensor \"%.80s\" has no %s", start + LENGTH_BYTES, name,
                   !(seen & HAS_DTYPE)   ? "dtype"
                   : !(seen & HAS_SHAPE) ? "shape"
                                         : "data_offsets");
  if (!finish_tensor(r, &t, offsets, n_data, start)) return false;
  *RT_PUSH(r->mem, out->tensors, out->n_tensors, out->cap_tensors) = t;
  return true;
}

static bool take_metadata(Reader *r, RtSt *out) {
  if (!need(r, '{', "'{'")) return false;
  if (take(r, '}')) return true;
  do {
    RtStMeta m;
    if (!take_string(r, "a metadata key in quotes", &m.key) || !need(r, ':', "':'")) return false;
    if (!take_string(r, "a metadata value in quotes", &m.value)) return false;
    *RT_PUSH(r->mem, out->meta, out->n_meta, out->cap_meta) = m;
  } while (take(r, ','));
  return need(r, '}', "',' or '}'");
}

static bool take_header(Reader *r, RtSt *out, uint64_t n_data) {
  bool has_metadata = false;
  if (!need(r, '{', "'{'")) return false;
  if (!take(r, '}')) {
    do {
      skip_space(r);
      size_t start = r->at;
      const char *name;
      if (!take_string(r, "a tensor name in quotes", &name) || !need(r, ':', "':'")) return false;
      bool is_metadata = !strcmp(name, "__metadata__");
      if (is_metadata && has_metadata)
        return rt_fail(r->error, r->error_size, "byte %zu: a second __metadata__", start + LENGTH_BYTES);
      has_metadata |= is_metadata;
      if (is_metadata ? !take_metadata(r, out) : !take_tensor(r, out, name, start, n_data)) return false;
    } while (take(r, ','));
    if (!need(r, '}', "',' or '}'")) return false;
  }
  skip_space(r);
  return r->at == r->n || expected(r, "nothing after the header's object");
}

// ---- the whole

static int by_place(const void *a, const void *b) {
  const RtStTensor *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if (x->size != y->size) return x->size < y->size ? -1 : 1;  // empty tensors first
  return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(RtStTensor *const *)a)->name, (*(RtStTensor *const *)b)->name);
}

// The data must be covered once, from its first byte to its last.
static bool check_cover(const Reader *r, const RtSt *st, uint64_t n_data) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < st->n_tensors; i++) {
    const RtStTensor *t = &st->tensors[i];
    uint64_t start = t->offset - LENGTH_BYTES - r->n;
    if (start != end)
      return rt_fail(r->error, r->error_size, "byte %" PRIu64 ": the data of tensor \"%.80s\" %s",
                     LENGTH_BYTES + r->n + start, t->name,
                     start < end ? "overlaps the one before" : "comes after a hole");
    end = start + t->size;
  }
  return end == n_data || rt_fail(r->error, r->error_size, "byte %" PRIu64 ": %" PRIu64 " bytes belong to no tensor",
                                  LENGTH_BYTES + r->n + end, n_data - end);
}

static bool index_names(Reader *r, RtSt *st) {
  st->by_name = rt_alloc(r->mem, sizeof *st->by_name * (st->n_tensors + 1));
  for (uint32_t i = 0; i < st->n_tensors; i++) st->by_name[i] = &st->tensors[i];
  if (st->n_tensors) qsort(st->by_name, st->n_tensors, sizeof *st->by_name, by_name);
  for (uint32_t i = 1; i < st->n_tensors; i++)
    if (!strcmp(st->by_name[i - 1]->name, st->by_name[i]->name))
      return rt_fail(r->error, r->error_size, "byte %d: tensor \"%.80s\" stands in the header twice", LENGTH_BYTES,
                     st->by_name[i]->name);
  return true;
}

bool rt_st_parse_header(RtArena *mem, const void *bytes, size_t n, uint64_t n_file, RtSt *out, char *error,
                        size_t error_size) {
  *out = (RtSt){0};
  const unsigned char *b = bytes;
  if (n < LENGTH_BYTES)
    return rt_fail(error, error_size, "byte %zu: the file ends inside the 8 bytes of the header's length", n);
  uint64_t length = 0;
  for (int i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)b[i] << (8 * i);
  if (length > MAX_HEADER || length > n - LENGTH_BYTES)
    return rt_fail(error, error_size, "byte 0: a header of %" PRIu64 " bytes does not fit: %s", length,
                   length > MAX_HEADER ? "the limit is 100000000" : "the file is shorter");
  Reader r = {.mem = mem, .text = b + LENGTH_BYTES, .n = (size_t)length, .error = error, .error_size = error_size};
  uint64_t n_data = n_file - LENGTH_BYTES - length;
  if (!take_header(&r, out, n_data)) return false;
  if (out->n_tensors) qsort(out->tensors, out->n_tensors, sizeof *out->tensors, by_place);
  return check_cover(&r, out, n_data) && index_names(&r, out);
}

bool rt_st_parse(RtArena *mem, const void *bytes, size_t n, RtSt *out, char *error, size_t error_size) {
  if (!rt_st_parse_header(mem, bytes, n, n, out, error, error_size)) return false;
  for (uint32_t i = 0; i < out->n_tensors; i++)
    out->tensors[i].data = (const unsigned char *)bytes + out->tensors[i].offset;
  return true;
}

const RtStTensor *rt_st_find(const RtSt *st, const char *name) {
  uint32_t lo = 0, hi = st->n_tensors;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int order = strcmp(name, st->by_name[mid]->name);
    if (order == 0) return st->by_name[mid];
    if (order < 0) hi = mid;
    else lo = mid + 1;
  }
  return NULL;
}

const char *rt_st_meta(const RtSt *st, const char *key) {
  for (uint32_t i = 0; i < st->n_meta; i++)
    if (!strcmp(st->meta[i].key, key)) return st->meta[i].value;
  return NULL;
}

// ---- values

static float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff, bits;
  if (exponent == 31) bits = sign | 0x7f800000 | fraction << 13;
  else if (exponent) bits = sign | (exponent + 112) << 23 | fraction << 13;
  else {
    float small = (float)fraction * 0x1p-24f;  // zero and subnormal halves are exact in f32
    memcpy(&bits, &small, 4);
    bits |= sign;
  }
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static float load_f32(const unsigned char *p, RtStDType dtype) {
  uint16_t h;
  uint32_t w;
  float f;
  double d;
  switch (dtype) {
  case RT_ST_F64: memcpy(&d, p, 8); return (float)d;
  case RT_ST_F16: memcpy(&h, p, 2); return half_to_float(h);
  case RT_ST_BF16:
    memcpy(&h, p, 2);
    w = (uint32_t)h << 16;
    memcpy(&f, &w, 4);
    return f;
  default: memcpy(&f, p, 4); return f;
  }
}

void rt_st_read_f32(const RtStTensor *t, float *out) {
  size_t width = rt_st_dtype_bytes[t->dtype];
  for (uint64_t i = 0; i < t->n_elements; i++) out[i] = load_f32(t->data + i * width, t->dtype);
}
