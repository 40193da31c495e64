#include "codegen/cpu_features.h"

#include <string.h>

enum { XMM_YMM = 0x6, ZMM = 0xe6, TILES = 0x60000, EGPRS = 0x80000 };

// Every feature of LLVM is a row here, or it is `harmless`. A row says how a program asks for the feature, or that it cannot.
// tests/test_targets.c holds both against the list that LLVM's tools print.
#define NO(name) {name, CG_CANNOT_ASK, 0, 0}
// clang-format off
static const CgCpuFeature x86[] = {
    {"sse3", TN_LEAF1_ECX, 0, 0}, {"ssse3", TN_LEAF1_ECX, 9, 0},
    {"fma", TN_LEAF1_ECX, 12, XMM_YMM}, {"cx16", TN_LEAF1_ECX, 13, 0}, {"sse4.1", TN_LEAF1_ECX, 19, 0}, {"sahf", TN_EXT1_ECX, 0, 0},
    {"sse4.2", TN_LEAF1_ECX, 20, 0}, {"movbe", TN_LEAF1_ECX, 22, 0}, {"popcnt", TN_LEAF1_ECX, 23, 0},
    {"xsave", TN_LEAF1_ECX, 27, 0}, {"avx", TN_LEAF1_ECX, 28, XMM_YMM},
    {"f16c", TN_LEAF1_ECX, 29, XMM_YMM},
    {"bmi", TN_LEAF7_EBX, 3, 0}, {"avx2", TN_LEAF7_EBX, 5, XMM_YMM}, {"bmi2", TN_LEAF7_EBX, 8, 0},
    {"avx512f", TN_LEAF7_EBX, 16, ZMM}, {"avx512dq", TN_LEAF7_EBX, 17, ZMM},
    {"avx512ifma", TN_LEAF7_EBX, 21, ZMM},
    {"avx512cd", TN_LEAF7_EBX, 28, ZMM}, {"prfchw", TN_EXT1_ECX, 8, 0},
    {"egpr", TN_LEAF7_1_EDX, 21, EGPRS}, {"push2pop2", TN_LEAF7_1_EDX, 21, EGPRS}, {"ppx", TN_LEAF7_1_EDX, 21, EGPRS},
    {"ndd", TN_LEAF7_1_EDX, 21, EGPRS}, {"ccmp", TN_LEAF7_1_EDX, 21, EGPRS}, {"nf", TN_LEAF7_1_EDX, 21, EGPRS},
    {"cf", TN_LEAF7_1_EDX, 21, EGPRS}, {"zu", TN_LEAF7_1_EDX, 21, EGPRS}, {"avxneconvert", TN_LEAF7_1_EDX, 5, XMM_YMM},
    {"avx512bw", TN_LEAF7_EBX, 30, ZMM}, {"avx512vl", TN_LEAF7_EBX, 31, ZMM},
    {"avx512vbmi", TN_LEAF7_ECX, 1, ZMM}, {"avx512vbmi2", TN_LEAF7_ECX, 6, ZMM}, {"gfni", TN_LEAF7_ECX, 8, 0},
    {"avx512vnni", TN_LEAF7_ECX, 11, ZMM},
    {"avx512bitalg", TN_LEAF7_ECX, 12, ZMM}, {"avx512vpopcntdq", TN_LEAF7_ECX, 14, ZMM},
    {"amx-bf16", TN_LEAF7_EDX, 22, TILES}, {"avx512fp16", TN_LEAF7_EDX, 23, ZMM},
    {"amx-tile", TN_LEAF7_EDX, 24, TILES},
    {"avxvnni", TN_LEAF7_1_EAX, 4, XMM_YMM}, {"avx512bf16", TN_LEAF7_1_EAX, 5, ZMM}, {"avxifma", TN_LEAF7_1_EAX, 23, XMM_YMM},
    {"avxvnniint8", TN_LEAF7_1_EDX, 4, XMM_YMM},
    {"avxvnniint16", TN_LEAF7_1_EDX, 10, XMM_YMM},
    {"lzcnt", TN_EXT1_ECX, 5, 0}, {"sse4a", TN_EXT1_ECX, 6, 0},
    {"xop", TN_EXT1_ECX, 11, XMM_YMM}, {"fma4", TN_EXT1_ECX, 16, XMM_YMM}, {"tbm", TN_EXT1_ECX, 21, 0},
    {"avx10.1-256", TN_LEAF7_1_EDX, 19, ZMM}, {"avx10.1-512", TN_LEAF7_1_EDX, 19, ZMM},
};

// Bits of Linux's AT_HWCAP and AT_HWCAP2
static const CgCpuFeature aarch64[] = {
    {"aes", TN_HWCAP, 3, 0}, {"sha2", TN_HWCAP, 6, 0}, {"crc", TN_HWCAP, 7, 0}, {"lse", TN_HWCAP, 8, 0},
    {"fullfp16", TN_HWCAP, 10, 0}, {"rdm", TN_HWCAP, 12, 0}, {"jsconv", TN_HWCAP, 13, 0}, {"complxnum", TN_HWCAP, 14, 0},
    {"rcpc", TN_HWCAP, 15, 0}, {"sha3", TN_HWCAP, 17, 0}, {"sm4", TN_HWCAP, 19, 0}, {"dotprod", TN_HWCAP, 20, 0},
    {"sve", TN_HWCAP, 22, 0}, {"fp16fml", TN_HWCAP, 23, 0}, {"lse2", TN_HWCAP, 25, 0}, {"rcpc-immo", TN_HWCAP, 26, 0},
    {"flagm", TN_HWCAP, 27, 0}, {"sb", TN_HWCAP, 29, 0},
    {"sve2", TN_HWCAP2, 1, 0}, {"sve2-aes", TN_HWCAP2, 3, 0}, {"sve2-bitperm", TN_HWCAP2, 4, 0}, {"sve2-sha3", TN_HWCAP2, 5, 0},
    {"sve2-sm4", TN_HWCAP2, 6, 0}, {"altnzcv", TN_HWCAP2, 7, 0}, {"fptoint", TN_HWCAP2, 8, 0}, {"f32mm", TN_HWCAP2, 10, 0},
    {"f64mm", TN_HWCAP2, 11, 0}, {"i8mm", TN_HWCAP2, 13, 0}, {"bf16", TN_HWCAP2, 14, 0}, {"sme", TN_HWCAP2, 23, 0},
    {"sme-i16i64", TN_HWCAP2, 24, 0}, {"sme-f64f64", TN_HWCAP2, 25, 0}, {"sme-fa64", TN_HWCAP2, 30, 0},
    {"cssc", TN_HWCAP2_HIGH, 2, 0}, {"sve2p1", TN_HWCAP2_HIGH, 4, 0}, {"sme2", TN_HWCAP2_HIGH, 5, 0}, {"mops", TN_HWCAP2_HIGH, 11, 0},
    {"sme2p1", TN_HWCAP2_HIGH, 6, 0}, {"sme-b16b16", TN_HWCAP2_HIGH, 9, 0}, {"sme-f16f16", TN_HWCAP2_HIGH, 10, 0},
    {"hbc", TN_HWCAP2_HIGH, 12, 0}, {"sve-b16b16", TN_HWCAP2_HIGH, 13, 0}, {"b16b16", TN_HWCAP2_HIGH, 13, 0},
    {"rcpc3", TN_HWCAP2_HIGH, 14, 0}, {"lse128", TN_HWCAP2_HIGH, 15, 0},
    NO("cpa"), NO("faminmax"), NO("fp8"), NO("fp8dot2"), NO("fp8dot4"), NO("fp8fma"), NO("lut"), NO("sme-f8f16"),
    NO("sme-f8f32"), NO("sme-lutv2"), NO("ssve-fp8dot2"), NO("ssve-fp8dot4"), NO("ssve-fp8fma"), NO("tme"), NO("pauth-lr"),
    NO("tpidr-el1"), NO("tpidr-el2"), NO("tpidr-el3"), NO("tpidrro-el0"),
    NO("call-saved-x8"), NO("call-saved-x9"), NO("call-saved-x10"), NO("call-saved-x11"), NO("call-saved-x12"),
    NO("call-saved-x13"), NO("call-saved-x14"), NO("call-saved-x15"), NO("call-saved-x18"),
};

// Letters in AT_HWCAP; bits of RISCV_HWPROBE_KEY_IMA_EXT_0; state: bytes of a vector register
static const CgCpuFeature riscv64[] = {
    {"v", TN_HWCAP, 21, 16},
    {"zvl256b", TN_HWCAP, 21, 32}, {"zvl512b", TN_HWCAP, 21, 64}, {"zvl1024b", TN_HWCAP, 21, 128}, {"zvl2048b", TN_HWCAP, 21, 256},
    {"zba", TN_HWPROBE, 3, 0}, {"zbb", TN_HWPROBE, 4, 0}, {"zbs", TN_HWPROBE, 5, 0}, {"zicboz", TN_HWPROBE, 6, 0},
    {"zbc", TN_HWPROBE, 7, 0}, {"zbkb", TN_HWPROBE, 8, 0}, {"zbkc", TN_HWPROBE, 9, 0}, {"zbkx", TN_HWPROBE, 10, 0},
    {"zvbb", TN_HWPROBE, 17, 0}, {"zvbc", TN_HWPROBE, 18, 0}, {"zvkb", TN_HWPROBE, 19, 0}, {"zfh", TN_HWPROBE, 27, 0},
    {"zfhmin", TN_HWPROBE, 28, 0}, {"zvfh", TN_HWPROBE, 30, 0},
    {"zvl4096b", TN_HWCAP, 21, 512}, {"zvl8192b", TN_HWCAP, 21, 1024}, {"zvl16384b", TN_HWCAP, 21, 2048},
    {"zvl32768b", TN_HWCAP, 21, 4096}, {"zvl65536b", TN_HWCAP, 21, 8192}, {"zvfhmin", TN_HWPROBE, 31, 0}, {"zfa", TN_HWPROBE_HIGH, 0, 0},
    {"ztso", TN_HWPROBE_HIGH, 1, 0}, {"zicond", TN_HWPROBE_HIGH, 3, 0}, {"zcb", TN_HWPROBE_HIGH, 12, 0},
    {"zawrs", TN_HWPROBE_HIGH, 16, 0}, {"zfbfmin", TN_HWPROBE_HIGH, 20, 0}, {"zvfbfmin", TN_HWPROBE_HIGH, 21, 0},
    {"zvfbfwma", TN_HWPROBE_HIGH, 22, 0}, {"zabha", TN_HWPROBE_HIGH, 26, 0},
    // what "v" and "c" take along is no question where these are asked for
    NO("zve32x"), NO("zve32f"), NO("zve64x"), NO("zve64f"), NO("zve64d"), NO("zvl32b"), NO("zvl64b"), NO("zvl128b"),
    NO("zca"), NO("zcd"),
    NO("zama16b"), NO("unaligned-vector-mem"),
    NO("xcvalu"), NO("xcvbi"), NO("xcvbitmanip"), NO("xcvelw"), NO("xcvmac"), NO("xcvmem"), NO("xcvsimd"), NO("xsfvcp"),
    NO("xsfvfnrclipxfqf"), NO("xsfvfwmaccqqq"), NO("xsfvqmaccdod"), NO("xsfvqmaccqoq"), NO("xtheadba"), NO("xtheadbb"),
    NO("xtheadbs"), NO("xtheadcmo"), NO("xtheadcondmov"), NO("xtheadfmemidx"), NO("xtheadmac"), NO("xtheadmemidx"),
    NO("xtheadmempair"), NO("xtheadsync"), NO("xtheadvdot"), NO("xventanacondops"),
};

// What needs no question: names of CPUs and other words that choose among instructions which are there anyway; what all
// machines of the architecture have; instructions that a program has to name, and ours names none; registers of the system;
// levels and groups, whose members have rows. A * is for any letters.
static const char harmless_x86[] =
    "64bit 64bit-mode adx aes allow-light-256-bit amx-complex amx-fp16 amx-int8 avx512vp2intersect branch-hint branchfusion "
    "cldemote clflushopt clwb clzero cmov cmpccxadd crc32 cx8 enqcmd ermsb evex512 false-deps-* fast-* faster-* fsgsbase fsrm "
    "fxsr harden-* hreset idiv* inline-asm-use-gpr32 invpcid kl lea-* lvi-* lwp macrofusion mmx movdir64b movdiri mwaitx "
    "no-bypass-* nopl pad-short-functions pclmul pconfig pku prefer-* prefetchi ptwrite raoint rdpid rdpru rdrnd rdseed "
    "retpoline* rtm sbb-dep-breaking serialize seses sgx sha sha512 shstk slow-* sm3 sm4 sse sse2 tagged-globals tsxldtrk "
    "tuning-* uintr use-* usermsr vaes vpclmulqdq vzeroupper waitpkg wbnoinvd widekl x87 xsavec xsaveopt xsaves";
static const char harmless_aarch64[] =
    "CONTEXTIDREL2 a3* a5* a6* a7* addr-lsl-* aggressive-fma alternate-* alu-lsl-fast am ampere1* amvs apple-* arith-* "
    "ascend-store-address balance-fp-ops brbe bti carmel ccdp ccidx ccpp chk clrbhb cmp-bcc-fusion cortex-* crypto d128 "
    "disable-* dit ecv el2vmsa el3 enable-select-opt ete exynos* falkor fgt fix-* fmv force-32bit-jump-tables fp-armv8 fpac "
    "fuse-* gcs harden-* hcx ite kryo ldp-aligned-only lor ls64 mec mpam mte neon neoverse* nmi no-* nv oryon-1 outline-atomics "
    "pan pan-rwv pauth perfmon predictable-select-expensive predres prfm-slc-target rand ras rasv2 reserve-* rme saphira sel2 "
    "slow-* spe spe-eef specres2 specrestrict ssbs store-pair-suppress stp-aligned-only strict-align tagged-globals the "
    "thunderx* tlb-rmi tlbiw tracev8.4 trbe tsv110 uaops use-* v8* v9* vh wfxt xs zcm zcz*";
static const char harmless_riscv64[] =
    "64bit a b c d *-fusion dlen-factor-2 experimental f forced-* h i m no-* optimized-* predictable-select-expensive "
    "prefer-w-inst relax reserve-* rva* rvi* save-restore seq-cst-trailing-fence sh* sifive7 sm* ss* sv* tagged-globals "
    "unaligned-scalar-mem use-postra-scheduler ventana-veyron xsfcease xsifivec* za64rs za128rs zaamo zalrsc zcmop zic64b "
    "zicbom zicbop ziccamoa ziccif zicclsm ziccrse zicntr zicsr zifencei zihintntl zihintpause zihpm zimop zk* zmmul zvk*";
// clang-format on

static bool is_arch(const char *triple, const char *arch) {
  size_t n = strlen(arch);
  return !strncmp(triple, arch, n) && triple[n] == '-';
}

static bool is_x86(const char *triple) { return is_arch(triple, "x86_64") || is_arch(triple, "i686"); }

// Where the table is of another architecture, or the program is linked for its CPU: NULL.
#define LIST(list) (*n = sizeof(list) / sizeof *(list), list)
const CgCpuFeature *cg_cpu_features(const char *triple, uint32_t *n) {
  *n = 0;
  if (is_x86(triple)) return LIST(x86);
  if (strstr(triple, "-none")) return NULL;
  if (is_arch(triple, "aarch64")) return LIST(aarch64);
  return is_arch(triple, "riscv64") ? LIST(riscv64) : NULL;
}

bool cg_can_ask(const char *triple, const CgCpuFeature *f) {
  return f->word != CG_CANNOT_ASK && (is_x86(triple) || strstr(triple, "-linux"));
}

static const CgCpuFeature *find(const CgCpuFeature *list, uint32_t n_list, const char *name, size_t n) {
  for (uint32_t k = 0; k < n_list; k++)
    if (strlen(list[k].name) == n && !memcmp(list[k].name, name, n)) return &list[k];
  return NULL;
}

// One * at the beginning or at the end
static bool fits(const char *pattern, size_t n_pattern, const char *name, size_t n) {
  size_t fixed = n_pattern - 1;
  if (*pattern == '*') return n >= fixed && !memcmp(pattern + 1, name + n - fixed, fixed);
  if (pattern[fixed] == '*') return n >= fixed && !memcmp(pattern, name, fixed);
  return n == n_pattern && !memcmp(pattern, name, n);
}

static bool is_harmless(const char *triple, const char *name, size_t n) {
  const char *at = is_x86(triple) ? harmless_x86 : is_arch(triple, "aarch64") ? harmless_aarch64 : harmless_riscv64;
  for (size_t length; *at; at += length + (at[length] == ' ')) {
    length = strcspn(at, " ");
    if (fits(at, length, name, n)) return true;
  }
  return false;
}

bool cg_knows_feature(const char *triple, const char *name, size_t n) {
  uint32_t n_list;
  const CgCpuFeature *list = cg_cpu_features(triple, &n_list);
  return !list || find(list, n_list, name, n) || is_harmless(triple, name, n);
}

const CgCpuFeature *cg_x86_feature(const char *name, size_t n) {
  const CgCpuFeature *f = find(x86, sizeof x86 / sizeof *x86, name, n);
  return f && f->word != CG_CANNOT_ASK ? f : NULL;
}

void cg_target_cpu(const Target *t, TnBundleCpu *out) {
  *out = (TnBundleCpu){0};
  uint32_t n_list;
  const CgCpuFeature *list = t->triple ? cg_cpu_features(t->triple, &n_list) : NULL;
  const char *s = t->cpu_features ? t->cpu_features : t->features;
  for (size_t n; list && *s; s += s[n] ? n + 1 : n) {
    n = strcspn(s, ",");
    const CgCpuFeature *f = *s == '+' ? find(list, n_list, s + 1, n - 1) : NULL;
    if (!f || !cg_can_ask(t->triple, f)) continue;  // else every CPU has it that has the others
    out->word[f->word] |= UINT32_C(1) << f->bit;
    out->state = is_x86(t->triple) ? out->state | f->state : out->state > f->state ? out->state : f->state;
  }
}

// ---- what all CPUs have
const CgPlainCpu *cg_plain_cpu(const char *triple) {
  static const CgPlainCpu x86_64 = {"x86-64", ""}, i686 = {"pentium4", "+sse2"}, arm = {"generic", "+neon"},
                          mac = {"apple-m1", "+neon"}, rv64 = {"generic-rv64", "+m,+a,+f,+d,+c"};
  if (is_arch(triple, "x86_64")) return &x86_64;
  if (is_arch(triple, "i686")) return &i686;
  if (strstr(triple, "-none")) return NULL;
  if (is_arch(triple, "aarch64")) return strstr(triple, "-macos") || strstr(triple, "-darwin") ? &mac : &arm;
  return is_arch(triple, "riscv64") ? &rv64 : NULL;
}

const char *cg_plain_features(RtArena *mem, const CgPlainCpu *plain, const char *features) {
  RtText t = {.mem = mem};
  rt_text_add(&t, "%s", plain->features);
  for (const char *s = features; *s; s += strcspn(s, ","), s += *s == ',')
    if (*s == '-') rt_text_add(&t, "%s%.*s", t.len ? "," : "", (int)strcspn(s, ","), s);
  return t.text ? t.text : "";
}
