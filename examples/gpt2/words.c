// The words of a text, by GPT-2's pattern, with Unicode's letters (L), numbers (N) and white space (\s):
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// A byte that is no UTF-8 stands for itself, as a sign that is neither of them.
#include "examples/gpt2/bpe.h"
#include <stdbool.h>
#include <string.h>

typedef struct {
  uint32_t first, last;
} Range;
#include "examples/gpt2/unicode.h"

typedef enum { OTHER, LETTER, NUMBER, SPACE } Kind;

static bool is_in(const Range *r, size_t n, uint32_t code) {
  size_t lo = 0, hi = n;
  while (lo < hi) {
    size_t k = (lo + hi) / 2;
    if (code > r[k].last) lo = k + 1;
    else hi = k;
  }
  return lo < n && code >= r[lo].first;
}
#define IS_IN(table, code) is_in(table, sizeof table / sizeof *table, code)

static Kind kind_of(uint32_t code) {
  if (IS_IN(spaces, code)) return SPACE;
  return IS_IN(letters, code) ? LETTER : IS_IN(numbers, code) ? NUMBER : OTHER;
}

// Bytes of the first sign of a text that is not empty.
static size_t sign(const unsigned char *t, size_t n, Kind *kind) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t size = t[0] < 0x80 ? 1 : t[0] >> 5 == 6 ? 2 : t[0] >> 4 == 14 ? 3 : t[0] >> 3 == 30 ? 4 : 0;
  uint32_t code = size == 1 ? t[0] : t[0] & (0x7Fu >> size);
  bool is_good = size && size <= n;
  for (size_t k = 1; is_good && k < size; k++) is_good = t[k] >> 6 == 2, code = code << 6 | (t[k] & 63);
  is_good = is_good && code >= least[size] && code < 0x110000 && code >> 11 != 27;  // 27: surrogates
  *kind = is_good ? kind_of(code) : OTHER;
  return is_good ? size : 1;
}

static size_t contraction(const char *t, size_t n) {
  static const char *const list[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (size_t k = 0; k < sizeof list / sizeof *list; k++)
    if (n >= strlen(list[k]) && !memcmp(t, list[k], strlen(list[k]))) return strlen(list[k]);
  return 0;
}

// Bytes of the signs of one kind with which a text begins; *last: where the last of them begins.
static size_t run(const unsigned char *t, size_t n, Kind kind, size_t *last) {
  size_t at = 0, size;
  Kind k;
  for (; at < n; at += size) {
    size = sign(t + at, n - at, &k);
    if (k != kind) break;
    *last = at;
  }
  return at;
}

size_t bpe_word(const char *text, size_t n) {
  const unsigned char *t = (const unsigned char *)text;
  size_t size = contraction(text, n), last = 0, first = n && t[0] == ' ';
  Kind kind;
  if (size || !n) return size;
  if (n > first) {  // one blank goes with what follows it
    sign(t + first, n - first, &kind);
    if (kind != SPACE) return first + run(t + first, n - first, kind, &last);
  }
  size = run(t, n, SPACE, &last);
  return size < n && last ? last : size;  // the last one of several goes with what follows
}
