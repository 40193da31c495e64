// What code for 32-bit Arm calls by these names (the run-time ABI of Arm's EABI): blocks of memory, and quotients where a CPU
// does not divide. In bundles only, where they are local; memory.c has what all machines call, wide.c integers of 64 bits.
#if defined(TN_BUNDLE_SUPPORT) && defined(__arm__)
#include <stddef.h>
#include <stdint.h>

void *memset(void *to, int byte, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);

#define COPY(name, call)                           \
  void name(void *to, const void *from, size_t n); \
  void name(void *to, const void *from, size_t n) { call(to, from, n); }
COPY(__aeabi_memcpy, memcpy)
COPY(__aeabi_memcpy4, memcpy)
COPY(__aeabi_memcpy8, memcpy)
COPY(__aeabi_memmove, memmove)
COPY(__aeabi_memmove4, memmove)
COPY(__aeabi_memmove8, memmove)

#define FILL(name, ...)                         \
  void name(void *to, size_t n, ##__VA_ARGS__); \
  void name(void *to, size_t n, ##__VA_ARGS__)
FILL(__aeabi_memclr) { memset(to, 0, n); }
FILL(__aeabi_memclr4) { memset(to, 0, n); }
FILL(__aeabi_memclr8) { memset(to, 0, n); }
FILL(__aeabi_memset, int byte) { memset(to, byte, n); }
FILL(__aeabi_memset4, int byte) { memset(to, byte, n); }
FILL(__aeabi_memset8, int byte) { memset(to, byte, n); }

#ifndef __ARM_FEATURE_IDIV
// The remainder in r1: the upper half of what a function returns
uint32_t __aeabi_uidiv(uint32_t n, uint32_t d);
int32_t __aeabi_idiv(int32_t n, int32_t d);
uint64_t __aeabi_uidivmod(uint32_t n, uint32_t d);
uint64_t __aeabi_idivmod(int32_t n, int32_t d);

uint64_t __aeabi_uidivmod(uint32_t n, uint32_t d) {
  uint32_t q = 0, r = 0;
  for (int k = 0; k < 32; k++, n <<= 1) {
    uint32_t carry = r >> 31;
    r = r << 1 | n >> 31;
    q <<= 1;
    if (carry || r >= d) r -= d, q |= 1;
  }
  return (uint64_t)r << 32 | q;
}

uint64_t __aeabi_idivmod(int32_t n, int32_t d) {
  uint32_t a = n < 0 ? 0 - (uint32_t)n : (uint32_t)n, b = d < 0 ? 0 - (uint32_t)d : (uint32_t)d;
  uint64_t both = __aeabi_uidivmod(a, b);
  uint32_t q = (uint32_t)both, r = (uint32_t)(both >> 32);
  return (uint64_t)(n < 0 ? 0 - r : r) << 32 | ((n < 0) != (d < 0) ? 0 - q : q);
}

uint32_t __aeabi_uidiv(uint32_t n, uint32_t d) { return (uint32_t)__aeabi_uidivmod(n, d); }
int32_t __aeabi_idiv(int32_t n, int32_t d) { return (int32_t)(uint32_t)__aeabi_idivmod(n, d); }
#endif
#endif
