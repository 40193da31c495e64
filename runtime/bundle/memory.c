// What compilers call by these names without being asked to: an object that links no C library brings its own. In bundles
// only, where they are local.
#ifdef TN_BUNDLE_SUPPORT
#include <stddef.h>

void *memset(void *to, int byte, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);

// Large ones are most of the time of what fills gradients: the string instructions of x86, words elsewhere.
#if defined(__x86_64__) || defined(__i386__)
static void fill(unsigned char *at, unsigned char byte, size_t n) {
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(byte) : "memory");
}

static void copy_up(unsigned char *at, const unsigned char *from, size_t n) {
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n)::"memory");
}
#else
#include <stdint.h>
typedef uint64_t __attribute__((may_alias)) Word;
static int are_aligned(const void *a, const void *b) { return ((uintptr_t)a | (uintptr_t)b) % sizeof(Word) == 0; }

static void fill(unsigned char *at, unsigned char byte, size_t n) {
  Word word = byte * (uint64_t)0x0101010101010101;
  while (n && !are_aligned(at, at)) *at++ = byte, n--;
  for (; n >= 4 * sizeof word; at += 4 * sizeof word, n -= 4 * sizeof word) {
    Word *to = (Word *)(void *)at;
    to[0] = word, to[1] = word, to[2] = word, to[3] = word;
  }
  while (n--) *at++ = byte;
}

static void copy_up(unsigned char *at, const unsigned char *from, size_t n) {
  for (; are_aligned(at, from) && n >= 2 * sizeof(Word); n -= 2 * sizeof(Word)) {
    Word a = ((const Word *)(const void *)from)[0], b = ((const Word *)(const void *)from)[1];
    ((Word *)(void *)at)[0] = a, ((Word *)(void *)at)[1] = b;
    at += 2 * sizeof(Word), from += 2 * sizeof(Word);
  }
  while (n--) *at++ = *from++;
}
#endif

void *memset(void *to, int byte, size_t n) { return fill(to, (unsigned char)byte, n), to; }

void *memcpy(void *restrict to, const void *restrict from, size_t n) { return copy_up(to, from, n), to; }

void *memmove(void *to, const void *from, size_t n) {
  unsigned char *at = to;
  const unsigned char *s = from;
  if (at <= s || at >= s + n) return copy_up(at, s, n), to;
  while (n--) at[n] = s[n];
  return to;
}
#endif
