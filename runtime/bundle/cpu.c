// Which target of a bundle this CPU runs: of those whose features it has, the first. x86 is asked by cpuid. Of AArch64 and RISC-V
// Linux says what there is: in the auxiliary vector, and RISC-V in a call of its own. Where a program cannot ask, a target wants
// nothing (codegen/cpu_features.c), and the compiler has refused what it could not ask for.
#include "runtime/bundle/bundle.h"

#if defined(__x86_64__) || defined(__i386__)
typedef struct {
  uint32_t a, b, c, d;
} Cpuid;

static Cpuid cpuid(uint32_t leaf, uint32_t subleaf) {
  Cpuid r;
  __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "0"(leaf), "2"(subleaf));
  return r;
}

// XCR0 says which registers the system saves; readable only when it set OSXSAVE.
static uint64_t saved_state(uint32_t leaf1_ecx) {
  uint32_t lo, hi;
  if (!(leaf1_ecx >> 27 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

static void ask_cpu(TnBundleCpu *has) {
  has->word[TN_LEAF1_ECX] = cpuid(1, 0).c;
  has->state = saved_state(has->word[TN_LEAF1_ECX]);
  if (cpuid(0x80000000, 0).a >= 0x80000001) has->word[TN_EXT1_ECX] = cpuid(0x80000001, 0).c;
  if (cpuid(0, 0).a < 7) return;
  Cpuid seven = cpuid(7, 0);
  has->word[TN_LEAF7_EBX] = seven.b, has->word[TN_LEAF7_ECX] = seven.c, has->word[TN_LEAF7_EDX] = seven.d;
  if (seven.a < 1) return;
  seven = cpuid(7, 1);
  has->word[TN_LEAF7_1_EAX] = seven.a, has->word[TN_LEAF7_1_EDX] = seven.d;
}
#elif defined(__linux__) && (defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64))
// The same numbers of calls on both.
enum { OPENAT = 56, CLOSE = 57, READ = 63, HWPROBE = 258 };

static int64_t system_call(int64_t number, int64_t a, int64_t b, int64_t c, int64_t d) {
#ifdef __aarch64__
  register int64_t n __asm__("x8") = number, r0 __asm__("x0") = a, r1 __asm__("x1") = b, r2 __asm__("x2") = c,
                     r3 __asm__("x3") = d, r4 __asm__("x4") = 0;
  __asm__ volatile("svc 0" : "+r"(r0) : "r"(n), "r"(r1), "r"(r2), "r"(r3), "r"(r4) : "memory");
#else
  register int64_t n __asm__("a7") = number, r0 __asm__("a0") = a, r1 __asm__("a1") = b, r2 __asm__("a2") = c,
                     r3 __asm__("a3") = d, r4 __asm__("a4") = 0;
  __asm__ volatile("ecall" : "+r"(r0) : "r"(n), "r"(r1), "r"(r2), "r"(r3), "r"(r4) : "memory");
#endif
  return r0;
}

static void put_words(TnBundleCpu *has, TnCpuWord low, uint64_t bits) {
  has->word[low] = (uint32_t)bits;
  if (low) has->word[low + 1] = (uint32_t)(bits >> 32);
}

static void read_auxv(TnBundleCpu *has) {
  enum { AT_FDCWD = -100, HWCAP = 16, HWCAP2 = 26 };
  static const char path[] = "/proc/self/auxv";
  uint64_t pair[2];
  int64_t file = system_call(OPENAT, AT_FDCWD, (int64_t)(uintptr_t)path, 0, 0);
  if (file < 0) return;
  while (system_call(READ, file, (int64_t)(uintptr_t)pair, sizeof pair, 0) == sizeof pair && pair[0]) {
    if (pair[0] == HWCAP) put_words(has, TN_HWCAP, pair[1]);
    if (pair[0] == HWCAP2) put_words(has, TN_HWCAP2, pair[1]);
  }
  system_call(CLOSE, file, 0, 0, 0);
}

static void ask_cpu(TnBundleCpu *has) {
  read_auxv(has);
#ifdef __riscv
  struct {
    int64_t key;
    uint64_t value;
  } pair = {.key = 4};  // extensions beside the base
  if (system_call(HWPROBE, (int64_t)(uintptr_t)&pair, 1, 0, 0) == 0 && pair.key == 4)
    put_words(has, TN_HWPROBE, pair.value);
  if (has->word[TN_HWCAP] >> ('v' - 'a') & 1)
    __asm__ volatile(".option push\n.option arch, +v\ncsrr %0, vlenb\n.option pop" : "=r"(has->state));
#endif
}
#else
static void ask_cpu(TnBundleCpu *has) { has->state = 0; }
#endif

static bool has_all(const TnBundleCpu *has, const TnBundleCpu *wanted) {
  for (uint32_t w = 0; w < TN_CPU_WORDS; w++)
    if ((has->word[w] & wanted->word[w]) != wanted->word[w]) return false;
#ifdef __riscv
  return has->state >= wanted->state;
#else
  return (has->state & wanted->state) == wanted->state;
#endif
}

static bool wants_nothing(const TnBundleCpu *wanted) {
  uint64_t any = wanted->state;
  for (uint32_t w = 0; w < TN_CPU_WORDS; w++) any |= wanted->word[w];
  return !any;
}

int tn_bundle_cpu(const TnBundle *b) {
  TnBundleCpu has = {0};
  if (wants_nothing(&b->cpus[b->about->n_targets - 1]) && b->about->n_targets == 1) return 0;
  ask_cpu(&has);
  for (uint32_t k = 0; k < b->about->n_targets; k++)
    if (has_all(&has, &b->cpus[k])) return (int)k;
  return -1;
}
