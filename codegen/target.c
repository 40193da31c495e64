// CPUs as rows of one table, and the host's row.
//
// A host is recognised by features alone, each one checked twice: the CPU has it (cpuid) and the system saves its
// registers (xgetbv). CPU names lie in virtual machines. The baseline name of a row is LLVM's name for a feature level;
// the features are listed beside it all the same, so that a row says everything that its code may use.
#include "codegen/cg.h"
#include "runtime/bundle/bundle.h"
#include "runtime/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define X86_V2 "+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2"
#define X86_V3 X86_V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
#define X86_V4 X86_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
#define X86_LINUX "x86_64-unknown-linux-gnu"

// The microkernel fills the register file: mr x nv accumulators, nv vectors of B and one broadcast of A.
//
// Cache and block sizes were found on the AVX-512 machine (codegen/target.h names the experiments) and are every row's
// until somebody measures on another one.
#define MEASURED_ON_AVX512                                                                        \
  .gemm_mc_bytes = 512 << 10, .gemm_kc = 1024, .gemm_kc_packed_a = 256, .gemm_kc_in_place = 2048, \
  .gemm_acc_bytes = 128 << 10, .rnn_kc_bytes = 32 << 10, .facts = IR_TARGET_FACTS

// clang-format off
static const Target targets[] = {
    {"avx512", X86_LINUX, "x86-64-v4", X86_V4,
     .vl = 16, .has_fma = true, .has_rounding = true, .has_avx512 = true, .cheap_shuffle = true,
     .gemm_mr = 14, .gemm_nv = 2, .dot_accumulators = 16, .rnn_mr = 6, MEASURED_ON_AVX512},
    {"avx2", X86_LINUX, "x86-64-v3", X86_V3,
     .vl = 8, .has_fma = true, .has_rounding = true,
     .gemm_mr = 6, .gemm_nv = 2, .dot_accumulators = 8, .rnn_mr = 2, MEASURED_ON_AVX512},
    {"neon", "aarch64-unknown-linux-gnu", "generic", "+neon",
     .vl = 4, .has_fma = true, .has_rounding = true,
     .gemm_mr = 8, .gemm_nv = 3, .dot_accumulators = 8, .rnn_mr = 6, MEASURED_ON_AVX512},
#if defined(__x86_64__)
    {"generic", X86_LINUX, "x86-64-v2", X86_V2,
#else
    {"generic", NULL, "generic", "",
#endif
     .vl = 4,
     .gemm_mr = 4, .gemm_nv = 2, .dot_accumulators = 8, .prefers_blas = true, .rnn_mr = 2, MEASURED_ON_AVX512},
};
// clang-format on
enum { N_TARGETS = sizeof targets / sizeof *targets };

const Target *cg_target_find(const char *name) {
  for (size_t k = 0; k < N_TARGETS; k++)
    if (!strcmp(targets[k].name, name)) return &targets[k];
  return NULL;
}

// ---- features of x86 CPUs
typedef struct {
  const char *name;  // LLVM's
  uint32_t leaf, reg, bit;
  uint64_t xcr0;  // register state that the system must save
} Feature;
enum { EBX = 1, ECX = 2, XMM_YMM = 0x6, ZMM = 0xe6 };

static const Feature features[] = {
    {"cx16", 1, ECX, 13, 0},       {"sahf", 0x80000001, ECX, 0, 0},  {"popcnt", 1, ECX, 23, 0},
    {"sse3", 1, ECX, 0, 0},        {"ssse3", 1, ECX, 9, 0},          {"sse4.1", 1, ECX, 19, 0},
    {"sse4.2", 1, ECX, 20, 0},     {"avx", 1, ECX, 28, XMM_YMM},     {"avx2", 7, EBX, 5, XMM_YMM},
    {"bmi", 7, EBX, 3, 0},         {"bmi2", 7, EBX, 8, 0},           {"f16c", 1, ECX, 29, XMM_YMM},
    {"fma", 1, ECX, 12, XMM_YMM},  {"lzcnt", 0x80000001, ECX, 5, 0}, {"movbe", 1, ECX, 22, 0},
    {"xsave", 1, ECX, 27, 0},      {"avx512f", 7, EBX, 16, ZMM},     {"avx512bw", 7, EBX, 30, ZMM},
    {"avx512cd", 7, EBX, 28, ZMM}, {"avx512dq", 7, EBX, 17, ZMM},    {"avx512vl", 7, EBX, 31, ZMM},
};
enum { N_FEATURES = sizeof features / sizeof *features };

static const Feature *find_feature(const char *name, size_t n) {
  for (size_t k = 0; k < N_FEATURES; k++)
    if (strlen(features[k].name) == n && !memcmp(features[k].name, name, n)) return &features[k];
  return NULL;
}

static void add_wanted(TnBundleCpu *w, const Feature *f) {
  uint32_t bit = UINT32_C(1) << f->bit;
  if (f->leaf == 1) w->leaf1_ecx |= bit;
  else if (f->leaf == 7) w->leaf7_ebx |= bit;
  else w->ext1_ecx |= bit;
  w->xcr0 |= f->xcr0;
}

void cg_target_cpu(const Target *t, TnBundleCpu *out) {
  *out = (TnBundleCpu){0};
  if (!t->triple || strncmp(t->triple, "x86_64", 6)) return;
  for (const char *s = t->features; *s;) {
    size_t n = strcspn(s, ",");
    const Feature *f = find_feature(s + 1, n - 1);
    if (f) add_wanted(out, f);
    s += s[n] ? n + 1 : n;
  }
}

#if defined(__x86_64__)
// XCR0 says which registers the system saves; readable only when it set OSXSAVE.
static uint64_t saved_state(void) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

static bool has_feature(const Feature *f) {
  uint32_t r[4];
  if (!__get_cpuid_count(f->leaf, 0, &r[0], &r[1], &r[2], &r[3])) return false;
  return (r[f->reg] >> f->bit & 1) && (saved_state() & f->xcr0) == f->xcr0;
}

// Does this machine have every feature of the row? The first one that it lacks goes to `lack`.
static bool runs_here(const Target *t, char lack[32]) {
  snprintf(lack, 32, "an AArch64 CPU");
  if (!t->triple || strncmp(t->triple, "x86_64", 6)) return false;
  for (const char *s = t->features; *s;) {
    size_t n = strcspn(s, ",");
    const Feature *f = find_feature(s + 1, n - 1);
    if (!f || !has_feature(f)) return snprintf(lack, 32, "%.*s", (int)(n - 1), s + 1), false;
    s += s[n] ? n + 1 : n;
  }
  return true;
}
#else
static bool runs_here(const Target *t, char lack[32]) {
#if defined(__aarch64__)
  const char *here = "aarch64";
#else
  const char *here = "none";
#endif
  snprintf(lack, 32, "another CPU family");
  return !t->triple || !strncmp(t->triple, here, strlen(here));
}
#endif

bool cg_target_pick(Target *t, const char *name, RtText *why) {
  char lack[32];
  if (!name || !*name) {
    for (size_t k = 0; k < N_TARGETS; k++)
      if (runs_here(&targets[k], lack)) return *t = targets[k], true;
    rt_text_add(why, "this CPU cannot run any target: it lacks %s", lack);
    return false;
  }
  const Target *row = cg_target_find(name);
  if (!row) {
    RtNear near = {.wanted = name};
    for (size_t k = 0; k < N_TARGETS; k++) rt_near_offer(&near, targets[k].name);
    rt_text_add(why, "there is no target '%s': avx512, avx2, neon, generic%s", name, rt_near_text(&near));
    return false;
  }
  if (!runs_here(row, lack))
    return rt_text_add(why, "target '%s' needs %s, which this machine lacks", name, lack), false;
  *t = *row;
  return true;
}

bool cg_target_host(Target *t, RtArena *mem) {
  RtText why = {mem, NULL, 0, 0};
  return cg_target_pick(t, getenv("TN_TARGET"), &why);
}

void cg_target_key(const Target *t, RtText *out) {
  rt_text_add(out, "%s %s %s %s\nvl %u fma %d rounding %d avx512 %d shuffle %d\n", t->name,
              t->triple ? t->triple : "host", t->cpu, t->features, t->vl, t->has_fma, t->has_rounding, t->has_avx512,
              t->cheap_shuffle);
  const TargetFacts *f = &t->facts;
  const int64_t size[] = {t->gemm_mr,      t->gemm_nv,          t->dot_accumulators, t->gemm_mc_bytes,
                          t->gemm_kc,      t->gemm_kc_packed_a, t->gemm_kc_in_place, t->gemm_acc_bytes,
                          t->prefers_blas, t->rnn_mr,           t->rnn_kc_bytes,     f->lanes,
                          f->l1_bytes,     f->l2_bytes,         f->llc_bytes,        f->page_bytes,
                          f->dtlb_entries};
  for (size_t k = 0; k < sizeof size / sizeof *size; k++) rt_text_add(out, "%s%lld", k ? " " : "", (long long)size[k]);
  rt_text_add(out, "%s\n", t->fast_math ? " fast" : "");
}
