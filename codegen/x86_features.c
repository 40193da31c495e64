#include "codegen/x86_features.h"

#include <string.h>

enum { XMM_YMM = 0x6, ZMM = 0xe6 };
enum { BASIC = 1, EXTENDED = 7, AMD = 0x80000001 };  // leaves

// clang-format off
static const CgX86Feature features[] = {
    {"cx16", BASIC, true, 13, 0},         {"sahf", AMD, true, 0, 0},            {"popcnt", BASIC, true, 23, 0},
    {"sse3", BASIC, true, 0, 0},          {"ssse3", BASIC, true, 9, 0},         {"sse4.1", BASIC, true, 19, 0},
    {"sse4.2", BASIC, true, 20, 0},       {"avx", BASIC, true, 28, XMM_YMM},    {"avx2", EXTENDED, false, 5, XMM_YMM},
    {"bmi", EXTENDED, false, 3, 0},       {"bmi2", EXTENDED, false, 8, 0},      {"f16c", BASIC, true, 29, XMM_YMM},
    {"fma", BASIC, true, 12, XMM_YMM},    {"lzcnt", AMD, true, 5, 0},           {"movbe", BASIC, true, 22, 0},
    {"xsave", BASIC, true, 27, 0},        {"avx512f", EXTENDED, false, 16, ZMM}, {"avx512bw", EXTENDED, false, 30, ZMM},
    {"avx512cd", EXTENDED, false, 28, ZMM}, {"avx512dq", EXTENDED, false, 17, ZMM}, {"avx512vl", EXTENDED, false, 31, ZMM},
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
  else if (f->leaf == EXTENDED) w->leaf7_ebx |= bit;
  else w->ext1_ecx |= bit;
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
