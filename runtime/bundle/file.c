#include "runtime/bundle/file.h"

// ---- text
TnText tn_text_of(const char *s) {
  const unsigned char *at = (const unsigned char *)s, *end = at;
  while (*end) end++;
  return (TnText){at, end, true};
}

typedef struct {
  TnText left;
  uint32_t bytes, n;  // of a character that is not given out whole: the next byte lowest
} Decoder;

static uint32_t hex4(const unsigned char *s) {
  uint32_t v = 0;
  for (int k = 0; k < 4; k++) v = v << 4 | (uint32_t)(s[k] <= '9' ? s[k] - '0' : (s[k] | 0x20) - 'a' + 10);
  return v;
}

// Behind \u. A half that stands alone is kept as what it is: no name of a bundle equals it.
static uint32_t take_unicode(TnText *t) {
  if (t->end - t->at < 4) return t->at = t->end, 0;
  uint32_t c = hex4(t->at);
  t->at += 4;
  if (c >> 10 != 0xd800 >> 10 || t->end - t->at < 6 || t->at[0] != '\\' || t->at[1] != 'u') return c;
  uint32_t low = hex4(t->at + 2);
  if (low >> 10 != 0xdc00 >> 10) return c;
  t->at += 6;
  return 0x10000 + ((c & 0x3ff) << 10 | (low & 0x3ff));
}

static void keep_utf8(Decoder *d, uint32_t c) {
  if (c < 0x80) d->bytes = c, d->n = 1;
  else if (c < 0x800) d->bytes = (0xc0 | c >> 6) | (0x80 | (c & 0x3f)) << 8, d->n = 2;
  else if (c < 0x10000)
    d->bytes = (0xe0 | c >> 12) | (0x80 | (c >> 6 & 0x3f)) << 8 | (0x80 | (c & 0x3f)) << 16, d->n = 3;
  else
    d->bytes =
        (0xf0 | c >> 18) | (0x80 | (c >> 12 & 0x3f)) << 8 | (0x80 | (c >> 6 & 0x3f)) << 16 | (0x80 | (c & 0x3f)) << 24,
    d->n = 4;
}

static uint32_t escaped(unsigned char letter) {
  switch (letter) {
  case 'b': return '\b';
  case 'f': return '\f';
  case 'n': return '\n';
  case 'r': return '\r';
  case 't': return '\t';
  default: return letter;  // " \ /
  }
}

// The next byte of the text as UTF-8; -1: its end
static int next_byte(Decoder *d) {
  TnText *t = &d->left;
  if (!d->n && t->at < t->end) {
    unsigned char c = *t->at++;
    bool is_escape = c == '\\' && !t->is_plain && t->at < t->end;
    unsigned char letter = is_escape ? *t->at++ : 0;
    if (letter == 'u') keep_utf8(d, take_unicode(t));
    else d->bytes = is_escape ? escaped(letter) : c, d->n = 1;
  }
  if (!d->n) return -1;
  int byte = (int)(d->bytes & 0xff);
  d->bytes >>= 8;
  d->n--;
  return byte;
}

bool tn_text_same(TnText a, TnText b) {
  Decoder x = {a, 0, 0}, y = {b, 0, 0};
  int c;
  do {
    c = next_byte(&x);
    if (c != next_byte(&y)) return false;
  } while (c >= 0);
  return true;
}

// ---- the header's grammar. Every reader stops at the end of the header, whatever stands there.
typedef struct {
  const unsigned char *at, *end;
} Reader;

static void skip_space(Reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || *r->at == '\n')) r->at++;
}

static bool take(Reader *r, char c) {
  skip_space(r);
  if (r->at >= r->end || *r->at != (unsigned char)c) return false;
  r->at++;
  return true;
}

static bool is_hex(unsigned char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

static bool take_escape(Reader *r) {
  unsigned char c = r->at < r->end ? *r->at++ : 0;
  for (int k = 0; c == 'u' && k < 4; k++)
    if (r->at >= r->end || !is_hex(*r->at++)) return false;
  return c == 'u' || c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't';
}

static bool take_string(Reader *r, TnText *out) {
  if (!take(r, '"')) return false;
  *out = (TnText){.at = r->at};
  while (r->at < r->end) {
    unsigned char c = *r->at++;
    if (c == '"') return out->end = r->at - 1, true;
    if (c < 0x20 || (c == '\\' && !take_escape(r))) return false;
  }
  return false;
}

static bool take_number(Reader *r, uint64_t *out) {
  const uint64_t tenth = UINT64_MAX / 10;
  skip_space(r);
  const unsigned char *start = r->at;
  uint64_t v = 0;
  for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
    uint32_t digit = (uint32_t)(*r->at - '0');
    if (v > tenth || (v == tenth && digit > 5)) return false;
    v = v * 10 + digit;
  }
  *out = v;
  return r->at > start && (*start != '0' || r->at - start == 1);
}

// [1,2,3]; those beyond `max` are counted
static bool take_sizes(Reader *r, int64_t *out, uint32_t max, uint32_t *n) {
  *n = 0;
  if (!take(r, '[')) return false;
  if (take(r, ']')) return true;
  do {
    uint64_t v;
    if (!take_number(r, &v) || v > INT64_MAX) return false;
    if (*n < max) out[*n] = (int64_t)v;
    ++*n;
  } while (take(r, ','));
  return take(r, ']');
}

// ---- entries
static TnFileDType dtype_of(TnText name) {
#define ROW(id, name, bytes, file, ...) [id] = #file,
  static const char names[][5] = {RT_DTYPES(ROW)[TN_ENTRY_F64] = "F64"};
#undef ROW
  for (int k = TN_ENTRY_F32; k <= TN_ENTRY_F64; k++)
    if (tn_text_same(name, tn_text_of(names[k]))) return (TnFileDType)k;
  return TN_ENTRY_NO_DTYPE;
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

static bool take_field(Reader *r, TnFileEntry *e, int64_t offsets[2], uint32_t *seen) {
  TnText key, dtype;
  uint32_t n;
  if (!take_string(r, &key) || !take(r, ':')) return false;
  uint32_t field = tn_text_same(key, tn_text_of("dtype"))          ? HAS_DTYPE
                   : tn_text_same(key, tn_text_of("shape"))        ? HAS_SHAPE
                   : tn_text_same(key, tn_text_of("data_offsets")) ? HAS_OFFSETS
                                                                   : 0;
  if (!field || *seen & field) return false;
  *seen |= field;
  if (field == HAS_SHAPE) return take_sizes(r, e->sizes, RT_MAX_RANK, &e->rank);
  if (field == HAS_OFFSETS) return take_sizes(r, offsets, 2, &n) && n == 2;
  if (!take_string(r, &dtype)) return false;
  e->dtype = dtype_of(dtype);
  return true;
}

// { .. } of a tensor. false: not valid; is_short: its data would end behind the file's
static bool take_tensor(Reader *r, const TnFile *f, TnFileEntry *e, bool *is_short) {
  int64_t offsets[2] = {0, 0};
  uint32_t seen = 0;
  if (!take(r, '{')) return false;
  do {
    if (!take_field(r, e, offsets, &seen)) return false;
  } while (take(r, ','));
  if (!take(r, '}') || seen != HAS_ALL || offsets[0] > offsets[1]) return false;
  *is_short = (uint64_t)offsets[1] > f->n_data;
  if (*is_short) return false;
  e->data = f->data + (size_t)offsets[0];
  e->bytes = (size_t)(offsets[1] - offsets[0]);
  return true;
}

static bool take_pair(Reader *r, TnText *key, TnText *value) {
  return take_string(r, key) && take(r, ':') && take_string(r, value);
}

static bool take_metadata(Reader *r) {
  TnText key, value;
  if (!take(r, '{')) return false;
  if (take(r, '}')) return true;
  do {
    if (!take_pair(r, &key, &value)) return false;
  } while (take(r, ','));
  return take(r, '}');
}

static bool take_entry(Reader *r, const TnFile *f, TnFileEntry *e, bool *is_short) {
  *e = (TnFileEntry){.dtype = TN_ENTRY_NO_DTYPE};
  if (!take_string(r, &e->name) || !take(r, ':')) return false;
  e->is_metadata = tn_text_same(e->name, tn_text_of("__metadata__"));
  return e->is_metadata ? take_metadata(r) : take_tensor(r, f, e, is_short);
}

// ---- the whole
static int status_of(bool is_short) { return is_short ? TN_BUNDLE_SHORT_FILE : TN_BUNDLE_NO_FILE; }

// splitmix64's finalizer
static uint64_t mixed(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

// Every byte of data belongs to one tensor. Ranges without holes and overlaps are a chain: each begins where another ends,
// but for the first, at 0, and the last, at n. Then sums over beginnings and over ends differ by those two; the numbers
// are mixed so that sums are equal for one reason alone. Nothing is sorted, for which memory would be needed.
static bool is_covered(const TnFile *f, uint64_t begins, uint64_t ends) {
  return begins + mixed(f->n_data) == ends + mixed(0);
}

static uint64_t hash_of(TnText name) {
  Decoder d = {name, 0, 0};
  uint64_t hash = 0;
  for (int c; (c = next_byte(&d)) >= 0;) hash = mixed(hash + (uint64_t)c + 1);
  return hash;
}

// There is no memory for all names: of N_KEPT, from number `from` on, hashes are kept, and those behind compared with them.
enum { N_KEPT = 64 };

static int check_entries(TnFile *f, Reader *r, uint32_t from, uint32_t *n) {
  uint64_t begins = 0, ends = 0, kept[N_KEPT];
  f->metadata = NULL;
  *n = 0;
  do {
    TnFileEntry e;
    bool is_short = false;
    if (!take_entry(r, f, &e, &is_short)) return status_of(is_short);
    uint64_t hash = hash_of(e.name);
    for (uint32_t k = from; k < *n && k < from + N_KEPT; k++)
      if (kept[k - from] == hash) return TN_BUNDLE_NAME_TWICE;
    if (*n >= from && *n < from + N_KEPT) kept[*n - from] = hash;
    if (++*n > f->most_names) return TN_BUNDLE_MANY_NAMES;
    if (e.is_metadata) {
      Reader inside = {e.name.end + 1, r->end};
      take(&inside, ':'), take(&inside, '{');
      f->metadata = inside.at;
    }
    if (!e.bytes) continue;
    begins += mixed((uint64_t)(e.data - f->data));
    ends += mixed((uint64_t)(e.data - f->data) + e.bytes);
  } while (take(r, ','));
  return is_covered(f, begins, ends) ? TN_BUNDLE_OK : TN_BUNDLE_NO_FILE;
}

static int check_all_entries(TnFile *f, Reader *r) {
  const unsigned char *first = r->at;
  uint32_t n = 0, from = 0;
  int status;
  do {
    r->at = first;
    status = check_entries(f, r, from, &n);
    from += N_KEPT;
  } while (!status && from < n);
  return status;
}

static int check_header(TnFile *f) {
  Reader r = {f->first, f->end};
  if (!take(&r, '{')) return TN_BUNDLE_NO_FILE;
  skip_space(&r);
  f->first = f->cursor = NULL;
  if (!take(&r, '}')) {
    f->first = f->cursor = r.at;
    int status = check_all_entries(f, &r);
    if (status) return status;
    if (!take(&r, '}')) return TN_BUNDLE_NO_FILE;
  } else if (f->n_data) {
    return TN_BUNDLE_NO_FILE;
  }
  skip_space(&r);
  return r.at == r.end ? TN_BUNDLE_OK : TN_BUNDLE_NO_FILE;
}

int tn_file_open(TnFile *f, const void *bytes, size_t n, uint32_t most_names) {
  enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 };
  *f = (TnFile){.most_names = most_names};
  const unsigned char *b = bytes;
  if (!b || n < LENGTH_BYTES) return TN_BUNDLE_NO_FILE;
  uint64_t length = 0;
  for (int k = 0; k < LENGTH_BYTES; k++) length |= (uint64_t)b[k] << (8 * k);
  if (length > MAX_HEADER) return TN_BUNDLE_NO_FILE;
  if (length > n - LENGTH_BYTES) return TN_BUNDLE_SHORT_FILE;
  f->first = b + LENGTH_BYTES;
  f->data = f->end = f->first + (size_t)length;
  f->n_data = n - LENGTH_BYTES - (size_t)length;
  return check_header(f);
}

// ---- finding
bool tn_file_find(TnFile *f, TnText name, TnFileEntry *out) {
  const unsigned char *start = f->cursor;
  bool has_wrapped = false;
  for (Reader r = {start, f->end}; r.at && !(has_wrapped && r.at >= start);) {
    bool is_short;
    if (!take_entry(&r, f, out, &is_short)) return false;  // open has read it: never
    if (!take(&r, ',')) has_wrapped = true, r.at = f->first;
    if (!out->is_metadata && tn_text_same(out->name, name)) {
      f->cursor = r.at;
      return true;
    }
  }
  return false;
}

bool tn_file_find_metadata(const TnFile *f, TnText key, TnText *value) {
  TnText name;
  Reader r = {f->metadata, f->end};
  if (!f->metadata) return false;
  do {
    if (!take_pair(&r, &name, value)) return false;  // {}
    if (tn_text_same(name, key)) return true;
  } while (take(&r, ','));
  return false;
}

// ---- values, in integers: the same on every machine
static uint32_t read16(const unsigned char *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t read32(const unsigned char *p) { return read16(p) | read16(p + 2) << 16; }

static uint32_t from_half(uint32_t h) {
  uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
  if (exponent == 31) return sign | 0x7f800000 | fraction << 13;
  if (exponent) return sign | (exponent + 112) << 23 | fraction << 13;
  if (!fraction) return sign;
  for (exponent = 113; !(fraction & 0x400); exponent--) fraction <<= 1;
  return sign | exponent << 23 | (fraction & 0x3ff) << 13;
}

// hi: sign, 11 bits of exponent, 20 of fraction; lo: 32 more
static uint32_t from_double(uint32_t lo, uint32_t hi) {
  uint32_t sign = hi & 0x80000000, top = (hi & 0xfffff) << 3 | lo >> 29, rest = lo << 3;  // 23 bits; what they leave
  int32_t exponent = (int32_t)(hi >> 20 & 0x7ff) - 1023 + 127;
  if (exponent == 0x7ff - 1023 + 127) return sign | 0x7f800000 | (top | rest ? 0x400000 | top : 0);  // a quiet NaN
  if (exponent >= 255) return sign | 0x7f800000;
  if (exponent < -23) return sign;
  if (exponent > 0) {
    top |= (uint32_t)exponent << 23;
  } else {  // subnormal: 1 - exponent bits more are left
    uint32_t shift = (uint32_t)(1 - exponent);
    top |= 0x800000;
    rest = top << (32 - shift) | (rest != 0);
    top >>= shift;
  }
  return sign | (top + (rest > 0x80000000 || (rest == 0x80000000 && (top & 1))));
}

uint32_t tn_file_f32_bits(const TnFileEntry *e, size_t k) {
  switch (e->dtype) {
  case TN_ENTRY_F64: return from_double(read32(e->data + 8 * k), read32(e->data + 8 * k + 4));
  case TN_ENTRY_F16: return from_half(read16(e->data + 2 * k));
  case TN_ENTRY_BF16: return read16(e->data + 2 * k) << 16;
  default: return read32(e->data + 4 * k);
  }
}
