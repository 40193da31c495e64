// Tables of byte pair encoding, read from the files that come with a model.
#include "examples/gpt2/bpe.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *bytes;  // NULL: no token has this number
  size_t n;
} Token;

typedef struct {
  int64_t left, right;  // left < 0: free
  int64_t rank, merged;
} Merge;

struct Bpe {
  Token *tokens;
  size_t n_tokens;
  int64_t *by_bytes;  // open addressing; -1: free
  size_t n_by_bytes;  // a power of two
  Merge *merges;
  size_t n_merges;  // slots, a power of two
  int64_t byte[256];
};

static void *grown(void *p, size_t n, size_t size) {
  void *q = realloc(p, n ? n * size : 1);
  if (!q) fputs("no memory\n", stderr), exit(1);
  return q;
}

static uint64_t hash(const char *bytes, size_t n) {  // FNV-1a
  uint64_t h = 14695981039346656037u;
  for (size_t k = 0; k < n; k++) h = (h ^ (unsigned char)bytes[k]) * 1099511628211u;
  return h ^ h >> 29;
}

static size_t power_above(size_t n) {
  size_t p = 16;
  while (p < 2 * n) p *= 2;
  return p;
}

// ---- bytes as signs: GPT-2 writes each byte as a sign that can be seen, those that cannot as 256, 257, ..
static int byte_of_sign(uint32_t code) {
  if ((code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255)) return (int)code;
  if (code < 256 || code > 323) return -1;
  uint32_t k = code - 256;
  return (int)(k < 33 ? k : k < 67 ? k - 33 + 127 : 173);
}

// UTF-8 of signs to the bytes that they stand for, in place; what stands for none stays.
static size_t to_bytes(char *s, size_t n) {
  size_t to = 0;
  for (size_t k = 0; k < n;) {
    unsigned char c = (unsigned char)s[k];
    bool two = c >> 5 == 6 && k + 1 < n;
    int byte = byte_of_sign(two ? (uint32_t)(c & 31) << 6 | ((unsigned char)s[k + 1] & 63u) : c < 128 ? c : 0u);
    if (byte < 0) s[to++] = s[k++];
    else s[to++] = (char)byte, k += two ? 2 : 1;
  }
  return to;
}

// ---- files
static char *read_file(const char *path, size_t *n, char *why, size_t why_size) {
  FILE *in = fopen(path, "rb");
  char *text = NULL;
  size_t size = 0, got = 1;
  for (*n = 0; in && got; *n += got) {
    if (*n + 1 >= size) text = grown(text, size = 2 * size + 65536, 1);
    got = fread(text + *n, 1, size - *n - 1, in);
  }
  bool failed = !in || ferror(in);
  if (failed) snprintf(why, why_size, "%s: %s", path, strerror(errno));
  if (in) fclose(in);
  if (!failed) return text[*n] = 0, text;
  free(text);
  return NULL;
}

static void add_token(Bpe *b, int64_t id, const char *bytes, size_t n) {
  if ((size_t)id >= b->n_tokens) {
    b->tokens = grown(b->tokens, (size_t)id + 1, sizeof *b->tokens);
    memset(b->tokens + b->n_tokens, 0, ((size_t)id + 1 - b->n_tokens) * sizeof *b->tokens);
    b->n_tokens = (size_t)id + 1;
  }
  free(b->tokens[id].bytes);
  b->tokens[id].bytes = memcpy(grown(NULL, n, 1), bytes, n), b->tokens[id].n = n;
}

static const char *skip(const char *s) { return s + strspn(s, " \t\r\n"); }

static size_t put_utf8(char *to, uint32_t code) {
  if (code < 0x80) return to[0] = (char)code, 1;
  if (code < 0x800) return to[0] = (char)(0xC0 | code >> 6), to[1] = (char)(0x80 | (code & 63)), 2;
  to[0] = (char)(0xE0 | code >> 12), to[1] = (char)(0x80 | (code >> 6 & 63)), to[2] = (char)(0x80 | (code & 63));
  return 3;
}

// A string of JSON from its quote on, in UTF-8 to `to`, which is no shorter; where it ends, NULL: nowhere.
static const char *read_string(const char *s, char *to, size_t *n) {
  static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  if (*s++ != '"') return NULL;
  for (*n = 0; *s != '"'; s++) {
    if (!*s) return NULL;
    if (*s != '\\') {
      to[(*n)++] = *s;
      continue;
    }
    const char *at = *++s ? strchr(names, *s) : NULL;
    char hex[5] = {0}, *end;
    if (*s == 'u') {
      memcpy(hex, s + 1, strnlen(s + 1, 4));
      *n += put_utf8(to + *n, (uint32_t)strtoul(hex, &end, 16));
      if (end != hex + 4) return NULL;
      s += 4;
    } else if (at) to[(*n)++] = values[at - names];
    else return NULL;
  }
  return s + 1;
}

// {"token": number, ..}
static bool read_vocab(Bpe *b, const char *s, size_t size) {
  char *token = grown(NULL, size + 1, 1), *end;
  bool ok = *(s = skip(s)) == '{';
  for (s = skip(s + ok); ok && *s != '}'; s = skip(s)) {
    size_t n = 0;
    s = read_string(s, token, &n);
    if (!s || *(s = skip(s)) != ':') ok = false;
    if (!ok) break;
    long long id = strtoll(s + 1, &end, 10);
    ok = end != s + 1 && id >= 0 && id < 1 << 24;
    if (ok) add_token(b, id, token, to_bytes(token, n));
    s = skip(end);
    if (*s == ',') s++;
    else ok = ok && *s == '}';
  }
  free(token);
  return ok;
}

static void index_tokens(Bpe *b) {
  b->n_by_bytes = power_above(b->n_tokens);
  b->by_bytes = grown(NULL, b->n_by_bytes, sizeof *b->by_bytes);
  memset(b->by_bytes, -1, b->n_by_bytes * sizeof *b->by_bytes);
  for (size_t id = 0; id < b->n_tokens; id++) {
    const Token *t = &b->tokens[id];
    if (!t->bytes) continue;
    size_t k = hash(t->bytes, t->n) & (b->n_by_bytes - 1);
    while (b->by_bytes[k] >= 0) k = (k + 1) & (b->n_by_bytes - 1);
    b->by_bytes[k] = (int64_t)id;
  }
}

int64_t bpe_find(const Bpe *b, const char *bytes, size_t n) {
  for (size_t k = hash(bytes, n);; k++) {
    int64_t id = b->by_bytes[k & (b->n_by_bytes - 1)];
    if (id < 0 || (b->tokens[id].n == n && !memcmp(b->tokens[id].bytes, bytes, n))) return id;
  }
}

static Merge *slot(const Bpe *b, int64_t left, int64_t right) {
  uint64_t h = ((uint64_t)left * 0x9E3779B97F4A7C15u + (uint64_t)right) * 0xC2B2AE3D27D4EB4Fu;
  for (size_t k = h >> 32;; k++) {
    Merge *m = &b->merges[k & (b->n_merges - 1)];
    if (m->left < 0 || (m->left == left && m->right == right)) return m;
  }
}

static int64_t find_signs(const Bpe *b, char *signs, size_t n) { return bpe_find(b, signs, to_bytes(signs, n)); }

// "left right" of a line; false: it has no such form, or no such tokens.
static bool read_merge(Bpe *b, char *line, size_t n, int64_t rank) {
  char *blank = memchr(line, ' ', n), *both = grown(NULL, n + 1, 1);
  bool ok = blank != NULL;
  if (ok) {
    size_t left = (size_t)(blank - line), right = n - left - 1;
    memcpy(both, line, left), memcpy(both + left, blank + 1, right);
    int64_t merged = find_signs(b, both, n - 1), l = find_signs(b, line, left), r = find_signs(b, blank + 1, right);
    ok = merged >= 0 && l >= 0 && r >= 0;
    if (ok && slot(b, l, r)->left < 0) *slot(b, l, r) = (Merge){l, r, rank, merged};
  }
  free(both);
  return ok;
}

static bool read_merges(Bpe *b, char *text, size_t *line_number) {
  size_t n_lines = 1, n;
  for (const char *s = text; *s; s++) n_lines += *s == '\n';
  b->n_merges = power_above(n_lines);
  b->merges = grown(b->merges, b->n_merges, sizeof *b->merges);
  for (size_t k = 0; k < b->n_merges; k++) b->merges[k].left = -1;
  *line_number = 0;
  for (char *s = text; *s; s += n + (s[n] == '\n')) {
    n = strcspn(s, "\n");
    size_t used = n && s[n - 1] == '\r' ? n - 1 : n;
    if (++*line_number == 1 && !strncmp(s, "#version", 8)) continue;
    if (used && !read_merge(b, s, used, (int64_t)*line_number)) return false;
  }
  return true;
}

// ---- open
static bool find_bytes(Bpe *b) {
  for (int k = 0; k < 256; k++) {
    char c = (char)k;
    b->byte[k] = bpe_find(b, &c, 1);
    if (b->byte[k] < 0) return false;
  }
  return true;
}

static bool read_both(Bpe *b, const char *vocab, const char *merges, char *why, size_t why_size) {
  size_t n, line = 0;
  char *text = read_file(vocab, &n, why, why_size);
  if (!text) return false;
  bool ok = read_vocab(b, text, n);
  free(text);
  if (!ok) return snprintf(why, why_size, "%s: not an object of tokens and numbers", vocab), false;
  index_tokens(b);
  if (!find_bytes(b)) return snprintf(why, why_size, "%s: a byte is no token", vocab), false;
  text = read_file(merges, &n, why, why_size);
  if (!text) return false;
  ok = read_merges(b, text, &line);
  free(text);
  if (!ok) snprintf(why, why_size, "%s:%zu: not two tokens that make a third", merges, line);
  return ok;
}

Bpe *bpe_open(const char *vocab, const char *merges, char *why, size_t why_size) {
  Bpe *b = grown(NULL, 1, sizeof *b);
  *b = (Bpe){.n_merges = 1, .merges = grown(NULL, 1, sizeof *b->merges)};
  b->merges[0].left = -1;
  if (vocab) {
    if (read_both(b, vocab, merges, why, why_size)) return b;
    bpe_free(b);
    return NULL;
  }
  for (int k = 0; k < 256; k++) add_token(b, k, &(char){(char)k}, 1);
  index_tokens(b), find_bytes(b);
  return b;
}

void bpe_free(Bpe *b) {
  if (!b) return;
  for (size_t k = 0; k < b->n_tokens; k++) free(b->tokens[k].bytes);
  free(b->tokens), free(b->by_bytes), free(b->merges), free(b);
}

size_t bpe_count(const Bpe *b) { return b->n_tokens; }

const char *bpe_bytes(const Bpe *b, int64_t id, size_t *n) {
  bool is_there = id >= 0 && (size_t)id < b->n_tokens && b->tokens[id].bytes;
  *n = is_there ? b->tokens[id].n : 0;
  return is_there ? b->tokens[id].bytes : "";
}

// ---- encoding
// All neighbours that are the pair become its merged token, from left to right; gives how many tokens are left.
static size_t merge_all(int64_t *ids, size_t n, const Merge *m) {
  size_t to = 0;
  for (size_t k = 0; k < n; to++) {
    bool is_pair = k + 1 < n && ids[k] == m->left && ids[k + 1] == m->right;
    ids[to] = is_pair ? m->merged : ids[k];
    k += is_pair ? 2 : 1;
  }
  return to;
}

static size_t encode_word(const Bpe *b, const char *word, size_t n, int64_t *ids) {
  for (size_t k = 0; k < n; k++) ids[k] = b->byte[(unsigned char)word[k]];
  for (;;) {
    const Merge *best = NULL;
    for (size_t k = 0; k + 1 < n; k++) {
      const Merge *m = slot(b, ids[k], ids[k + 1]);
      if (m->left >= 0 && (!best || m->rank < best->rank)) best = m;
    }
    if (!best) return n;
    n = merge_all(ids, n, best);
  }
}

size_t bpe_encode(const Bpe *b, const char *text, size_t n, int64_t *ids) {
  size_t count = 0;
  for (size_t at = 0, size; at < n; at += size) {
    size = bpe_word(text + at, n - at);
    count += encode_word(b, text + at, size, ids + count);
  }
  return count;
}
