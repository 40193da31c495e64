#include "codegen/x86_features.h"

#include <string.h>

enum { XMM_YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };
enum { BASIC = 1, EXTENDED = 7, AMD = 0x80000001 };  // leaves

// clang-format off
static const CgX86Feature features[] = {
    {"cx16", BASIC, CPUID_ECX, 13, 0},         {"sahf", AMD, CPUID_ECX, 0, 0},            {"popcnt", BASIC, CPUID_ECX, 23, 0},
    {"sse3", BASIC, CPUID_ECX, 0, 0},          {"ssse3", BASIC, CPUID_ECX, 9, 0},         {"sse4.1", BASIC, CPUID_ECX, 19, 0},
    {"sse4.2", BASIC, CPUID_ECX, 20, 0},       {"avx", BASIC, CPUID_ECX, 28, XMM_YMM},    {"avx2", EXTENDED, CPUID_EBX, 5, XMM_YMM},
    {"bmi", EXTENDED, CPUID_EBX, 3, 0},       {"bmi2", EXTENDED, CPUID_EBX, 8, 0},      {"f16c", BASIC, CPUID_ECX, 29, XMM_YMM},
    {"fma", BASIC, CPUID_ECX, 12, XMM_YMM},    {"lzcnt", AMD, CPUID_ECX, 5, 0},           {"movbe", BASIC, CPUID_ECX, 22, 0},
    {"xsave", BASIC, CPUID_ECX, 27, 0},        {"avx512f", EXTENDED, CPUID_EBX, 16, ZMM}, {"avx512bw", EXTENDED, CPUID_EBX, 30, ZMM},
    {"avx512cd", EXTENDED, CPUID_EBX, 28, ZMM}, {"avx512dq", EXTENDED, CPUID_EBX, 17, ZMM}, {"avx512vl", EXTENDED, CPUID_EBX, 31, ZMM},
    {"amx-bf16", EXTENDED, CPUID_EDX, 22, TILES}, {"amx-tile", EXTENDED, CPUID_EDX, 24, TILES},
};
// clang-format on

const CgX86Feature *cg_x86_feature(const char *name, size_t n) {
  for (size_t k = 0; k < sizeof features / sizeof *features; k++)
    if (strlen(features[k].name) == n && !memcmp(features[k].name, name, n)) return &features[k];
  return NULL;
}

static void add_wanted(TnBundleCpu *w, const CgX86Feature *f) {
  uint32_t bit = UINT32_C(1) << f->bit;
  if (f->leaf == BASIC) w->leaf1_ecx |= bit;
  else if (f->leaf == EXTENDED && f->reg == CPUID_EBX) w->leaf7_ebx |= bit;
  else if (f->leaf == AMD) w->ext1_ecx |= bit;
  // of what cpuid has in edx, the state in xcr0 tells enough
  w->xcr0 |= f->xcr0;
}

void cg_target_cpu(const Target *t, TnBundleCpu *out) {
  *out = (TnBundleCpu){0};
  if (!t->triple || strncmp(t->triple, "x86_64", 6)) return;
  for (const char *s = t->features; *s;) {
    size_t n = strcspn(s, ",");
    const CgX86Feature *f = cg_x86_feature(s + 1, n - 1);
    if (f) add_wanted(out, f);
    s += s[n] ? n + 1 : n;
  }
}
