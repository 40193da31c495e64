#include "runtime/data/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, BLOCK = 1024, MOST_SYMBOLS = 0x110000 };

// ---- symbols of bytes

// The first symbol of n bytes and its length; 0: no UTF-8, or cut off.
static size_t decode(const unsigned char *at, size_t n, bool utf8, uint32_t *symbol) {
  static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  size_t len = utf8 ? rt_utf8_length(at, n) : n > 0;
  if (len == 0) return 0;
  *symbol = utf8 ? at[0] & mask[len] : at[0];
  for (size_t k = 1; k < len; k++) *symbol = *symbol << 6 | (at[k] & 0x3f);
  return len;
}

static size_t encode(uint32_t c, bool utf8, char out[4]) {
  size_t n = !utf8 || c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char head[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t k = n; k > 1; k--, c >>= 6) out[k - 1] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(head[n] | c);
  return n;
}

// Calls `see` for each symbol of the source, read chunk by chunk.
typedef bool (*See)(void *ctx, uint32_t symbol, uint64_t at);
static bool scan_chunks(const RtSource *s, bool utf8, unsigned char *chunk, See see, void *ctx, char *error,
                        size_t error_size) {
  for (uint64_t at = 0; at < s->size;) {
    size_t n = s->size - at < CHUNK ? (size_t)(s->size - at) : CHUNK, used = 0;
    if (!rt_source_read(s, at, chunk, n, error, error_size)) return false;
    if (utf8 && at == 0 && n >= 3 && !memcmp(chunk, "\xef\xbb\xbf", 3)) used = 3;  // a byte order mark is no symbol
    for (uint32_t symbol; used < n;) {
      size_t len = decode(chunk + used, n - used, utf8, &symbol);
      if (len == 0) break;
      if (!see(ctx, symbol, at + used)) return rt_fail(error, error_size, "out of memory");
      used += len;
    }
    bool is_cut = used < n && n - used < 4 && at + n < s->size;  // the rest of a symbol may stand in the next chunk
    if (used < n && !(is_cut && used))
      return rt_fail(error, error_size, "%s: byte %" PRIu64 ": not UTF-8", s->name, at + used);
    at += used;
  }
  return true;
}

static bool scan(const RtSource *s, bool utf8, See see, void *ctx, char *error, size_t error_size) {
  unsigned char *chunk = rt_malloc(CHUNK);
  if (!chunk) return rt_fail(error, error_size, "out of memory");
  bool ok = scan_chunks(s, utf8, chunk, see, ctx, error, error_size);
  rt_free(chunk);
  return ok;
}

// ---- vocabularies
static int by_value(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

RtVocabulary *rt_vocabulary_new(const uint32_t *symbols, size_t n, bool utf8, char *error, size_t error_size) {
  RtVocabulary *v = n <= MOST_SYMBOLS ? rt_malloc(sizeof *v + (n + 1) * sizeof *symbols) : NULL;
  bool ok = v || rt_fail(error, error_size, n > MOST_SYMBOLS ? "too many symbols" : "out of memory");
  if (ok) *v = (RtVocabulary){.utf8 = utf8, .n = n};
  if (ok && n) memcpy(v->symbol, symbols, n * sizeof *symbols), qsort(v->symbol, n, sizeof *symbols, by_value);
  for (size_t k = 0; ok && k < n; k++) {
    uint32_t c = v->symbol[k];
    if (c >= (utf8 ? MOST_SYMBOLS : 256) || (utf8 && c >= 0xd800 && c < 0xe000))
      ok = rt_fail(error, error_size, "symbol %" PRIu32 " is no %s", c, utf8 ? "code point" : "byte");
    else if (k && c == v->symbol[k - 1])
      ok = rt_fail(error, error_size, "symbol %" PRIu32 " stands in the vocabulary twice", c);
  }
  if (ok) return v;
  rt_free(v);
  return NULL;
}

static bool mark(void *ctx, uint32_t symbol, uint64_t at) {
  uint8_t *seen = ctx;
  (void)at;
  seen[symbol / 8] |= (uint8_t)(1u << symbol % 8);
  return true;
}

// The symbols of a set of bits; NULL: only their number.
static size_t list_seen(const uint8_t *seen, size_t n_bytes, uint32_t *out) {
  size_t n = 0;
  for (size_t k = 0; k < n_bytes; k++)
    for (uint32_t bit = 0; seen[k] >> bit; bit++) {
      if (!(seen[k] >> bit & 1)) continue;
      if (out) out[n] = (uint32_t)k * 8 + bit;
      n++;
    }
  return n;
}

RtVocabulary *rt_vocabulary_of(const RtSource *s, bool utf8, char *error, size_t error_size) {
  size_t n_bytes = (utf8 ? MOST_SYMBOLS : 256) / 8, n;
  uint8_t *seen = rt_malloc(n_bytes);
  uint32_t *list = NULL;
  RtVocabulary *v = NULL;
  if (!seen) rt_fail(error, error_size, "out of memory");
  else if (memset(seen, 0, n_bytes), scan(s, utf8, mark, seen, error, error_size)) {
    n = list_seen(seen, n_bytes, NULL);
    list = rt_malloc(n * sizeof *list);
    if (!list) rt_fail(error, error_size, "out of memory");
    else list_seen(seen, n_bytes, list), v = rt_vocabulary_new(list, n, utf8, error, error_size);
  }
  rt_free(seen);
  rt_free(list);
  return v;
}

int64_t rt_vocabulary_id(const RtVocabulary *v, uint32_t symbol) {
  size_t lo = 0, hi = v->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (v->symbol[mid] == symbol) return (int64_t)mid;
    if (v->symbol[mid] < symbol) lo = mid + 1;
    else hi = mid;
  }
  return -1;
}

size_t rt_vocabulary_bytes(const RtVocabulary *v, int64_t id, char out[4]) {
  return id >= 0 && (size_t)id < v->n ? encode(v->symbol[id], v->utf8, out) : 0;
}

size_t rt_vocabulary_encode(const RtVocabulary *v, const char *text, size_t n, int64_t *ids, size_t max, char *error,
                            size_t error_size) {
  size_t count = 0;
  for (size_t at = 0, len; at < n; at += len, count++) {
    uint32_t symbol = 0;
    len = decode((const unsigned char *)text + at, n - at, v->utf8, &symbol);
    int64_t id = len ? rt_vocabulary_id(v, symbol) : -1;
    if (!len) rt_fail(error, error_size, "byte %zu: not UTF-8", at);
    else if (id < 0) rt_fail(error, error_size, "byte %zu: symbol %" PRIu32 " is not in the vocabulary", at, symbol);
    if (id < 0) return SIZE_MAX;
    if (count < max) ids[count] = id;
  }
  return count;
}

// ---- windows
typedef struct {
  RtSource source;
  RtVocabulary *v;
  int64_t window, stride;
  uint64_t n;       // symbols
  uint64_t *block;  // UTF-8: where symbol k * BLOCK begins
  size_t n_blocks, cap_blocks;
} Text;

static bool count_symbol(void *ctx, uint32_t symbol, uint64_t at) {
  Text *t = ctx;
  (void)symbol;
  if (t->n++ % BLOCK) return true;
  if (t->n_blocks == t->cap_blocks) {
    size_t cap = t->cap_blocks ? 2 * t->cap_blocks : 64;
    uint64_t *grown = rt_realloc(t->block, cap * sizeof *grown);
    if (!grown) return false;
    t->block = grown, t->cap_blocks = cap;
  }
  t->block[t->n_blocks++] = at;
  return true;
}

// Symbols first .. first + n of the bytes at `at` go to ids.
static bool take_symbols(const Text *t, const unsigned char *bytes, size_t size, uint64_t at, uint64_t skip, size_t n,
                         int64_t *ids, RtItem *to) {
  for (size_t used = 0, len; n; used += len) {
    uint32_t symbol = 0;
    len = decode(bytes + used, size - used, t->v->utf8, &symbol);
    if (len == 0)
      return rt_fail(to->error, to->error_size, "%s: byte %" PRIu64 ": not UTF-8", t->source.name, at + used);
    if (skip) {
      skip--;
      continue;
    }
    *ids = rt_vocabulary_id(t->v, symbol);
    if (*ids++ < 0)
      return rt_fail(to->error, to->error_size, "%s: byte %" PRIu64 ": symbol %" PRIu32 " is not in the vocabulary",
                     t->source.name, at + used, symbol);
    n--;
  }
  return true;
}

static bool get_window(void *ctx, size_t k, RtItem *to) {
  const Text *t = ctx;
  uint64_t first = (uint64_t)t->stride * k, at = t->v->utf8 ? t->block[first / BLOCK] : first;
  uint64_t skip = t->v->utf8 ? first % BLOCK : 0;
  size_t n = (size_t)t->window + 1, size = t->v->utf8 ? ((size_t)skip + n) * 4 : n;
  if (size > t->source.size - at) size = (size_t)(t->source.size - at);
  unsigned char *bytes = rt_malloc(size + n * sizeof(int64_t) + 8);
  if (!bytes) return rt_fail(to->error, to->error_size, "out of memory");
  int64_t *ids = (int64_t *)(void *)(bytes + (size + 7) / 8 * 8);
  bool ok = rt_source_read(&t->source, at, bytes, size, to->error, to->error_size) &&
            take_symbols(t, bytes, size, at, skip, n, ids, to);
  if (ok) memcpy(to->data[0], ids, (n - 1) * sizeof *ids), memcpy(to->data[1], ids + 1, (n - 1) * sizeof *ids);
  rt_free(bytes);
  return ok;
}

static void free_text(void *ctx) {
  Text *t = ctx;
  rt_source_close(&t->source);
  rt_free(t->v);
  rt_free(t->block);
  rt_free(t);
}

static const RtDatasetOps text_ops = {.get = get_window, .free = free_text};

static bool prepare(Text *t, const RtVocabulary *v, char *error, size_t error_size) {
  t->v = rt_malloc(sizeof *v + v->n * sizeof *v->symbol);
  if (!t->v) return rt_fail(error, error_size, "out of memory");
  memcpy(t->v, v, sizeof *v + v->n * sizeof *v->symbol);
  if (v->utf8) return scan(&t->source, true, count_symbol, t, error, error_size);
  t->n = t->source.size;
  return true;
}

RtDataset *rt_dataset_text(RtSource *s, const RtVocabulary *v, int64_t window, int64_t stride, char *error,
                           size_t error_size) {
  if (window < 1 || stride < 1 || window > INT32_MAX || stride > INT32_MAX) {
    rt_fail(error, error_size, "window %" PRId64 " and stride %" PRId64 " must be positive", window, stride);
    return NULL;
  }
  Text *t = rt_malloc(sizeof *t);
  if (!t) rt_fail(error, error_size, "out of memory");
  if (!t) return NULL;
  *t = (Text){.source = *s, .window = window, .stride = stride};
  RtField fields[2] = {{.name = "x", .dtype = RT_I64, .rank = 1, .dims = {window}},
                       {.name = "y", .dtype = RT_I64, .rank = 1, .dims = {window}}};
  RtDataset *d = NULL;
  if (prepare(t, v, error, error_size)) {
    uint64_t room = t->n > (uint64_t)window ? t->n - (uint64_t)window - 1 : 0;
    size_t count = t->n > (uint64_t)window ? (size_t)(room / (uint64_t)stride + 1) : 0;
    d = rt_dataset_new(&text_ops, t, fields, 2, count, error, error_size);
  }
  if (!d) {
    t->source = (RtSource){.fd = -1};  // stays the caller's
    free_text(t);
  }
  return d;
}
