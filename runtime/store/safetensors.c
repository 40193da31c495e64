// Reading safetensors: a JSON reader for exactly the shape that the header has, then the checks on offsets.
#include "runtime/store/safetensors.h"
#include "runtime/exec/numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROW(n, b) #n,
const char *const rt_st_dtype_name[RT_N_ST_DTYPES] = {RT_ST_DTYPES(ROW) RT_ST_UNREAD_DTYPES(ROW)};
#undef ROW
#define ROW(n, b) b,
const uint8_t rt_st_dtype_bytes[RT_N_ST_DTYPES] = {RT_ST_DTYPES(ROW)};
#undef ROW
#define BYTES(n, b) 8 * b,
#define BITS(n, b) b,
static const uint8_t bits_of[RT_N_ST_DTYPES] = {RT_ST_DTYPES(BYTES) RT_ST_UNREAD_DTYPES(BITS)};
#undef BITS
#undef BYTES

RtStDType rt_st_dtype_of(uint32_t t) {
#define ROW(id, name, bytes, file, ...) [id] = RT_ST_##file,
  static const uint8_t of[RT_N_DTYPES] = {RT_DTYPES(ROW)};
#undef ROW
  return (RtStDType)of[t < RT_N_DTYPES ? t : RT_NO_DTYPE];
}

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 };

typedef struct {
  RtArena *mem;
  const unsigned char *text;  // the header
  size_t n, at;
  RtText scratch;  // the string that was read last
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

static bool is_space(unsigned char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void skip_space(Reader *r) {
  while (r->at < r->n && is_space(r->text[r->at])) r->at++;
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

static bool is_plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

// To r->scratch, where the next one overwrites it.
static bool take_string(Reader *r, const char *what) {
  if (!need(r, '"', what)) return false;
  r->scratch.len = 0;
  for (size_t start = r->at;; start = r->at) {
    while (r->at < r->n && is_plain(r->text[r->at])) r->at++;
    rt_text_put(&r->scratch, (const char *)r->text + start, r->at - start);
    if (r->at >= r->n) return expected(r, "'\"' at the end of a string");
    unsigned char c = r->text[r->at];
    size_t n = rt_utf8_length(r->text + r->at, r->n - r->at);
    if (c < 0x20) return expected(r, "no control character in a string");
    if (n == 0) return expected(r, "UTF-8");
    r->at += n;
    if (c == '"') return true;
    if (c != '\\') rt_text_put(&r->scratch, (const char *)r->text + r->at - n, n);
    else if (!take_escape(r, &r->scratch)) return false;
  }
}

static const char *keep_string(const Reader *r) { return rt_strndup(r->mem, r->scratch.text, r->scratch.len); }

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
  if (!take_string(r, "a dtype in quotes")) return false;
  const char *name = r->scratch.text;
  for (uint8_t d = 0; d < RT_N_ST_DTYPES; d++)
    if (!strcmp(name, rt_st_dtype_name[d])) {
      *out = d;
      return true;
    }
  return rt_fail(
      r->error, r->error_size,
      "byte %zu: dtype \"%.20s\" is none of F64 F32 F16 BF16 I64 I32 I16 I8 U64 U32 U16 U8 BOOL, nor F8_.., F6_.., F4 "
      "or C64, which are passed over",
      start + LENGTH_BYTES, name);
}

// One `"key": value` of a tensor's object; *seen collects HAS_*.
static bool take_field(Reader *r, RtStTensor *t, int64_t offsets[2], uint32_t *seen) {
  skip_space(r);
  size_t start = r->at;
  if (!take_string(r, "a field name in quotes") || !need(r, ':', "':'")) return false;
  const char *key = r->scratch.text;
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
  int64_t bits = bits_of[t->dtype];
  if (overflow || __builtin_mul_overflow(count, bits, &size))
    return rt_fail(r->error, r->error_size, "byte %zu: tensor \"%.80s\" has a shape of more than 2^63 bytes",
                   start + LENGTH_BYTES, t->name);
  if (size % 8)
    return rt_fail(r->error, r->error_size,
                   "byte %zu: tensor \"%.80s\" of dtype %s has %" PRId64 " bits, no whole bytes", start + LENGTH_BYTES,
                   t->name, rt_st_dtype_name[t->dtype], size);
  size /= 8;
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
    if (!take_string(r, "a metadata key in quotes") || !need(r, ':', "':'")) return false;
    const char *key = keep_string(r);
    if (!take_string(r, "a metadata value in quotes")) return false;
    rt_st_add_meta(r->mem, out, key, keep_string(r));
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
      if (!take_string(r, "a tensor name in quotes") || !need(r, ':', "':'")) return false;
      const char *name = keep_string(r);
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

// Most writers list tensors in the order of their data.
static void sort_by_place(RtSt *st) {
  for (uint32_t i = 1; i < st->n_tensors; i++)
    if (by_place(&st->tensors[i - 1], &st->tensors[i]) > 0) {
      qsort(st->tensors, st->n_tensors, sizeof *st->tensors, by_place);
      return;
    }
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
  const char *twice = rt_st_index(r->mem, st);
  return !twice ||
         rt_fail(r->error, r->error_size, "byte %d: tensor \"%.80s\" stands in the header twice", LENGTH_BYTES, twice);
}

// What a file is whose first bytes make no length.
static const char *other_file(const unsigned char *b, size_t n) {
  static const struct {
    uint8_t n;
    const char *bytes, *what;
  } files[] = {
      {4, "PK\3\4",
       "a zip archive, as torch.save writes them (.pt, .pth): safetensors.torch.save_file writes what is read here"},
      {2, "\x80\2",
       "a pickle, as torch.save wrote them (.pt, .pth): safetensors.torch.save_file writes what is read here"},
      {6, "\x93NUMPY", "a NumPy array (.npy)"},
      {4, "\x89HDF", "an HDF5 file (.h5)"},
      {4, "GGUF", "a GGUF file"}};
  for (size_t k = 0; k < sizeof files / sizeof *files; k++)
    if (n >= files[k].n && !memcmp(b, files[k].bytes, files[k].n)) return files[k].what;
  for (size_t k = 0; k < n && k < LENGTH_BYTES; k++)
    if (!(b[k] >= 0x20 && b[k] < 0x7f) && !is_space(b[k])) return NULL;
  return n >= LENGTH_BYTES ? "text, as CSV and JSON are" : NULL;
}

bool rt_st_parse_header(RtArena *mem, const void *bytes, size_t n, uint64_t n_file, RtSt *out, char *error,
                        size_t error_size) {
  *out = (RtSt){0};
  const unsigned char *b = bytes;
  const char *other = n_file ? other_file(b, n) : NULL;
  if (n < LENGTH_BYTES && other) return rt_fail(error, error_size, "byte 0: this is no safetensors file but %s", other);
  if (n < LENGTH_BYTES)
    return rt_fail(error, error_size, "byte %zu: the file ends inside the 8 bytes of the header's length", n);
  uint64_t length = 0;
  for (int i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)b[i] << (8 * i);
  bool is_too_long = length > MAX_HEADER || length > n - LENGTH_BYTES;
  if (is_too_long && other) return rt_fail(error, error_size, "byte 0: this is no safetensors file but %s", other);
  if (is_too_long)
    return rt_fail(error, error_size, "byte 0: a header of %" PRIu64 " bytes does not fit: %s", length,
                   length > MAX_HEADER ? "the limit is 100000000" : "the file is shorter");
  Reader r = {.mem = mem,
              .text = b + LENGTH_BYTES,
              .n = (size_t)length,
              .scratch = {.mem = mem},
              .error = error,
              .error_size = error_size};
  uint64_t n_data = n_file - LENGTH_BYTES - length;
  if (!take_header(&r, out, n_data)) return false;
  sort_by_place(out);
  return check_cover(&r, out, n_data) && index_names(&r, out);
}

bool rt_st_parse(RtArena *mem, const void *bytes, size_t n, RtSt *out, char *error, size_t error_size) {
  if (!rt_st_parse_header(mem, bytes, n, n, out, error, error_size)) return false;
  for (uint32_t i = 0; i < out->n_tensors; i++)
    out->tensors[i].data = (const unsigned char *)bytes + out->tensors[i].offset;
  return true;
}

bool rt_st_read_header(RtArena *mem, const RtSource *s, RtSt *out, char *error, size_t error_size) {
  unsigned char length[LENGTH_BYTES] = {0};
  char why[400];
  uint64_t n_header = 0;
  if (s->size >= LENGTH_BYTES && !rt_source_read(s, 0, length, LENGTH_BYTES, error, error_size)) return false;
  for (int k = 0; k < LENGTH_BYTES; k++) n_header |= (uint64_t)length[k] << 8 * k;
  uint64_t room = s->size < LENGTH_BYTES ? 0 : s->size - LENGTH_BYTES, n = n_header < room ? n_header : room;
  if (n > MAX_HEADER) n = 0;  // refused by its length
  size_t have = s->size < LENGTH_BYTES ? (size_t)s->size : (size_t)n + LENGTH_BYTES;
  unsigned char *header = rt_alloc(mem, have + 1);
  if (!rt_source_read(s, 0, header, have, error, error_size)) return false;
  return rt_st_parse_header(mem, header, have, s->size, out, why, sizeof why) ||
         rt_fail(error, error_size, "%s: %s", s->name, why);
}

// ---- finding
const char *rt_st_index(RtArena *mem, RtSt *st) {
  st->names = (RtNames){.mem = mem};
  rt_names_reserve(&st->names, st->n_tensors);
  for (uint32_t k = 0; k < st->n_tensors; k++) {
    const char *name = st->tensors[k].name;
    if (rt_names_add(&st->names, name, strlen(name)) != k) return name;
  }
  return NULL;
}

void rt_st_add_meta(RtArena *mem, RtSt *st, const char *key, const char *value) {
  st->keys.mem = mem;
  if (rt_names_add(&st->keys, key, strlen(key)) == st->n_meta)
    *RT_PUSH(mem, st->meta, st->n_meta, st->cap_meta) = (RtStMeta){key, value};
}

const RtStTensor *rt_st_find(const RtSt *st, const char *name) {
  uint32_t k = rt_names_find(&st->names, name, strlen(name));
  return k == RT_NO_NAME ? NULL : &st->tensors[k];
}

const char *rt_st_meta(const RtSt *st, const char *key) {
  uint32_t k = rt_names_find(&st->keys, key, strlen(key));
  return k == RT_NO_NAME ? NULL : st->meta[k].value;
}

// ---- values

static float load_f32(const unsigned char *p, RtStDType dtype) {
  uint16_t h;
  float f;
  double d;
  switch (dtype) {
  case RT_ST_F64: memcpy(&d, p, 8); return (float)d;
  case RT_ST_F16: memcpy(&h, p, 2); return rt_f32_of_f16(h);
  case RT_ST_BF16: memcpy(&h, p, 2); return rt_f32_of_bf16(h);
  default: memcpy(&f, p, 4); return f;
  }
}

void rt_st_read_f32(const RtStTensor *t, float *out) {
  size_t width = rt_st_dtype_bytes[t->dtype];
  for (uint64_t i = 0; i < t->n_elements; i++) out[i] = load_f32(t->data + i * width, t->dtype);
}

void rt_st_read(const RtStTensor *t, RtDType as, void *out) {
  size_t width = rt_st_dtype_bytes[t->dtype];
  uint8_t *bools = out;
  if (t->dtype == rt_st_dtype_of(as)) {
    if (t->size) memcpy(out, t->data, t->size);
    for (uint64_t k = 0; as == RT_BOOL && k < t->n_elements; k++) bools[k] = bools[k] != 0;
    return;
  }
  for (uint64_t k = 0; k < t->n_elements; k++) rt_put_float(load_f32(t->data + k * width, t->dtype), as, out, k);
}
