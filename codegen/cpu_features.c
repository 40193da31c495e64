#include "codegen/cpu_features.h"

#include <string.h>

enum { XMM_YMM = 0x6, ZMM = 0xe6, TILES = 0x60000 };

// Those that LLVM uses by itself: none of instructions that a program must name
// clang-format off
static const CgCpuFeature x86[] = {
    {"sse3", TN_LEAF1_ECX, 0, 0},         {"ssse3", TN_LEAF1_ECX, 9, 0},
    {"fma", TN_LEAF1_ECX, 12, XMM_YMM},     {"cx16", TN_LEAF1_ECX, 13, 0},          {"sse4.1", TN_LEAF1_ECX, 19, 0},
    {"sse4.2", TN_LEAF1_ECX, 20, 0},        {"movbe", TN_LEAF1_ECX, 22, 0},         {"popcnt", TN_LEAF1_ECX, 23, 0},
           {"xsave", TN_LEAF1_ECX, 27, 0},         {"avx", TN_LEAF1_ECX, 28, XMM_YMM},
    {"f16c", TN_LEAF1_ECX, 29, XMM_YMM},
    {"bmi", TN_LEAF7_EBX, 3, 0},            {"avx2", TN_LEAF7_EBX, 5, XMM_YMM},     {"bmi2", TN_LEAF7_EBX, 8, 0},
    {"avx512f", TN_LEAF7_EBX, 16, ZMM},     {"avx512dq", TN_LEAF7_EBX, 17, ZMM},
           {"avx512ifma", TN_LEAF7_EBX, 21, ZMM},
          {"avx512cd", TN_LEAF7_EBX, 28, ZMM},
    {"avx512bw", TN_LEAF7_EBX, 30, ZMM},    {"avx512vl", TN_LEAF7_EBX, 31, ZMM},
    {"avx512vbmi", TN_LEAF7_ECX, 1, ZMM},   {"avx512vbmi2", TN_LEAF7_ECX, 6, ZMM},  {"gfni", TN_LEAF7_ECX, 8, 0},
 {"avx512vnni", TN_LEAF7_ECX, 11, ZMM},
    {"avx512bitalg", TN_LEAF7_ECX, 12, ZMM}, {"avx512vpopcntdq", TN_LEAF7_ECX, 14, ZMM},
 {"amx-bf16", TN_LEAF7_EDX, 22, TILES}, {"avx512fp16", TN_LEAF7_EDX, 23, ZMM},
    {"amx-tile", TN_LEAF7_EDX, 24, TILES},
    {"avxvnni", TN_LEAF7_1_EAX, 4, XMM_YMM}, {"avx512bf16", TN_LEAF7_1_EAX, 5, ZMM}, {"avxifma", TN_LEAF7_1_EAX, 23, XMM_YMM},
    {"avxvnniint8", TN_LEAF7_1_EDX, 4, XMM_YMM},
    {"avxvnniint16", TN_LEAF7_1_EDX, 10, XMM_YMM},
    {"sahf", TN_EXT1_ECX, 0, 0},            {"lzcnt", TN_EXT1_ECX, 5, 0},           {"sse4a", TN_EXT1_ECX, 6, 0},
    {"xop", TN_EXT1_ECX, 11, XMM_YMM},      {"fma4", TN_EXT1_ECX, 16, XMM_YMM},     {"tbm", TN_EXT1_ECX, 21, 0},
};

// Bits of Linux's AT_HWCAP and AT_HWCAP2
static const CgCpuFeature aarch64[] = {
    {"aes", TN_HWCAP, 3, 0},        {"sha2", TN_HWCAP, 6, 0},       {"crc", TN_HWCAP, 7, 0},        {"lse", TN_HWCAP, 8, 0},
    {"fullfp16", TN_HWCAP, 10, 0},  {"rdm", TN_HWCAP, 12, 0},       {"jsconv", TN_HWCAP, 13, 0},    {"complxnum", TN_HWCAP, 14, 0},
    {"rcpc", TN_HWCAP, 15, 0},      {"sha3", TN_HWCAP, 17, 0},      {"sm4", TN_HWCAP, 19, 0},       {"dotprod", TN_HWCAP, 20, 0},
    {"sve", TN_HWCAP, 22, 0},       {"fp16fml", TN_HWCAP, 23, 0},   {"lse2", TN_HWCAP, 25, 0},      {"rcpc-immo", TN_HWCAP, 26, 0},
    {"flagm", TN_HWCAP, 27, 0},     {"sb", TN_HWCAP, 29, 0},
    {"sve2", TN_HWCAP2, 1, 0},      {"sve2-aes", TN_HWCAP2, 3, 0},  {"sve2-bitperm", TN_HWCAP2, 4, 0}, {"sve2-sha3", TN_HWCAP2, 5, 0},
    {"sve2-sm4", TN_HWCAP2, 6, 0},  {"altnzcv", TN_HWCAP2, 7, 0},   {"fptoint", TN_HWCAP2, 8, 0},   {"f32mm", TN_HWCAP2, 10, 0},
    {"f64mm", TN_HWCAP2, 11, 0},    {"i8mm", TN_HWCAP2, 13, 0},     {"bf16", TN_HWCAP2, 14, 0},     {"sme", TN_HWCAP2, 23, 0},
    {"cssc", TN_HWCAP2_HIGH, 2, 0}, {"sve2p1", TN_HWCAP2_HIGH, 4, 0}, {"sme2", TN_HWCAP2_HIGH, 5, 0}, {"mops", TN_HWCAP2_HIGH, 11, 0},
};

// Letters in AT_HWCAP; bits of RISCV_HWPROBE_KEY_IMA_EXT_0; state: bytes of a vector register
static const CgCpuFeature riscv64[] = {
    {"v", TN_HWCAP, 21, 16},
    {"zvl256b", TN_HWCAP, 21, 32},  {"zvl512b", TN_HWCAP, 21, 64},  {"zvl1024b", TN_HWCAP, 21, 128}, {"zvl2048b", TN_HWCAP, 21, 256},
    {"zba", TN_HWPROBE, 3, 0},      {"zbb", TN_HWPROBE, 4, 0},      {"zbs", TN_HWPROBE, 5, 0},      {"zicboz", TN_HWPROBE, 6, 0},
    {"zbc", TN_HWPROBE, 7, 0},      {"zbkb", TN_HWPROBE, 8, 0},     {"zbkc", TN_HWPROBE, 9, 0},     {"zbkx", TN_HWPROBE, 10, 0},
    {"zvbb", TN_HWPROBE, 17, 0},    {"zvbc", TN_HWPROBE, 18, 0},    {"zvkb", TN_HWPROBE, 19, 0},    {"zfh", TN_HWPROBE, 27, 0},
    {"zfhmin", TN_HWPROBE, 28, 0},  {"zvfh", TN_HWPROBE, 30, 0},    {"zvfhmin", TN_HWPROBE, 31, 0}, {"zfa", TN_HWPROBE_HIGH, 0, 0},
    {"zicond", TN_HWPROBE_HIGH, 3, 0},
};
// clang-format on

static bool is_arch(const char *triple, const char *arch) {
  size_t n = strlen(arch);
  return !strncmp(triple, arch, n) && triple[n] == '-';
}

static bool is_x86(const char *triple) { return is_arch(triple, "x86_64") || is_arch(triple, "i686"); }

#define LIST(list) (*n = sizeof(list) / sizeof *(list), list)
const CgCpuFeature *cg_cpu_features(const char *triple, uint32_t *n) {
  *n = 0;
  if (is_x86(triple)) return LIST(x86);
  if (!strstr(triple, "-linux")) return NULL;
  if (is_arch(triple, "aarch64")) return LIST(aarch64);
  return is_arch(triple, "riscv64") ? LIST(riscv64) : NULL;
}

static const CgCpuFeature *find(const CgCpuFeature *list, uint32_t n_list, const char *name, size_t n) {
  for (uint32_t k = 0; k < n_list; k++)
    if (strlen(list[k].name) == n && !memcmp(list[k].name, name, n)) return &list[k];
  return NULL;
}

const CgCpuFeature *cg_x86_feature(const char *name, size_t n) { return find(x86, sizeof x86 / sizeof *x86, name, n); }

void cg_target_cpu(const Target *t, TnBundleCpu *out) {
  *out = (TnBundleCpu){0};
  uint32_t n_list;
  const CgCpuFeature *list = t->triple ? cg_cpu_features(t->triple, &n_list) : NULL;
  const char *s = t->cpu_features ? t->cpu_features : t->features;
  for (size_t n; list && *s; s += s[n] ? n + 1 : n) {
    n = strcspn(s, ",");
    const CgCpuFeature *f = *s == '+' ? find(list, n_list, s + 1, n - 1) : NULL;
    if (!f) continue;
    out->word[f->word] |= UINT32_C(1) << f->bit;
    out->state = is_x86(t->triple) ? out->state | f->state : out->state > f->state ? out->state : f->state;
  }
}

// ---- what all CPUs have
const CgPlainCpu *cg_plain_cpu(const char *triple) {
  static const CgPlainCpu x86_64 = {"x86-64", ""}, i686 = {"pentium4", "+sse2"}, arm = {"generic", "+neon"},
                          rv64 = {"generic-rv64", "+m,+a,+f,+d,+c"};
  if (strstr(triple, "-none")) return NULL;
  if (is_arch(triple, "x86_64")) return &x86_64;
  if (is_arch(triple, "i686")) return &i686;
  if (is_arch(triple, "aarch64") && strstr(triple, "-linux")) return &arm;
  return is_arch(triple, "riscv64") && strstr(triple, "-linux") ? &rv64 : NULL;
}

const char *cg_plain_features(RtArena *mem, const CgPlainCpu *plain, const char *features) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s", plain->features);
  for (const char *s = features; *s; s += strcspn(s, ","), s += *s == ',')
    if (*s == '-') rt_text_add(&t, "%s%.*s", t.len ? "," : "", (int)strcspn(s, ","), s);
  return t.text ? t.text : "";
}
