// What compilers call by these names without being asked to: an object that links no C library brings its own. In bundles
// only, where they are local.
#ifdef TN_BUNDLE_SUPPORT
#include <stddef.h>

void *memset(void *to, int byte, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);

void *memset(void *to, int byte, size_t n) {
  unsigned char *at = to;
  while (n--) *at++ = (unsigned char)byte;
  return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  unsigned char *at = to;
  const unsigned char *s = from;
  while (n--) *at++ = *s++;
  return to;
}

void *memmove(void *to, const void *from, size_t n) {
  unsigned char *at = to;
  const unsigned char *s = from;
  if (at > s)
    while (n--) at[n] = s[n];
  else
    for (size_t k = 0; k < n; k++) at[k] = s[k];
  return to;
}
#endif
