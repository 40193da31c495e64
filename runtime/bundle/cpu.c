// Which target of a bundle this CPU runs: of those whose features it has, the first. Off x86 there is no instruction
// that asks without the system's help, and a bundle has one target.
#include "runtime/bundle/bundle.h"

#if defined(__x86_64__)
typedef struct {
  uint32_t a, b, c, d;
} Cpuid;

static Cpuid cpuid(uint32_t leaf) {
  Cpuid r;
  __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "0"(leaf), "2"(0));
  return r;
}

// XCR0 says which registers the system saves; readable only when it set OSXSAVE.
static uint64_t saved_state(uint32_t leaf1_ecx) {
  uint32_t lo, hi;
  if (!(leaf1_ecx >> 27 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

static TnBundleCpu this_cpu(void) {
  TnBundleCpu has = {.leaf1_ecx = cpuid(1).c};
  if (cpuid(0).a >= 7) has.leaf7_ebx = cpuid(7).b;
  if (cpuid(0x80000000).a >= 0x80000001) has.ext1_ecx = cpuid(0x80000001).c;
  has.xcr0 = saved_state(has.leaf1_ecx);
  return has;
}
#else
static TnBundleCpu this_cpu(void) { return (TnBundleCpu){UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT64_MAX}; }
#endif

int tn_bundle_cpu(const TnBundle *b) {
  TnBundleCpu has = this_cpu();
  for (uint32_t k = 0; k < b->about->n_targets; k++) {
    const TnBundleCpu *w = &b->cpus[k];
    if ((has.leaf1_ecx & w->leaf1_ecx) == w->leaf1_ecx && (has.leaf7_ebx & w->leaf7_ebx) == w->leaf7_ebx &&
        (has.ext1_ecx & w->ext1_ecx) == w->ext1_ecx && (has.xcr0 & w->xcr0) == w->xcr0)
      return (int)k;
  }
  return -1;
}
