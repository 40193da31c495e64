// Targets by name and by words: what a row is, what words change, what LLVM says to them, and refusals.
#include "codegen/cpu_features.h"
#include "codegen/kernels.h"
#include "codegen/module/compile.h"
#include "ir/passes/passes.h"
#include "ir/passes/plan.h"
#include "ir/text/text.h"
#include "tests/check.h"

#include <elf.h>
#include <string.h>

// ---- rows
static void test_names(void) {
  static const char *const names[][2] = {{"x86-64-v4-amx", "amx"}, {"x86-64-v4", "avx512"},
                                         {"x86-64-v3", "avx2"},    {"aarch64", "neon"},
                                         {"riscv64", "rv64gcv"},   {"thumbv8.1m", "cortex-m55"}};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    CHECK(cg_target_find(names[k][0]) && cg_target_find(names[k][0]) == cg_target_find(names[k][1]));
  CHECK(cg_target_find("x86-64-v2") && cg_target_find("generic") && !cg_target_find("x86-64-v9"));
  CHECK(cg_target_find("thumbv8.1m")->pointer_bits == 32 && cg_target_find("riscv64")->pointer_bits == 64);
}

static void test_list(RtArena *mem) {
  RtText text = {.mem = mem};
  cg_targets_text(&text);
  CHECK_HAS(text.text, "aarch64     neon        4 lanes, 64-bit pointers");
  CHECK_HAS(text.text, "thumbv8.1m  cortex-m55  4 lanes, 32-bit pointers\n");
#if defined(__x86_64__)
  CHECK_HAS(text.text, "x86-64-v2   generic     4 lanes, 64-bit pointers, runs here");
#endif
}

// ---- words
static Target made(RtArena *mem, const char *text) {
  RtText why = {.mem = mem};
  Target t = {0};
  if (!CHECK(cg_target_named(&t, mem, text, &why))) printf("  %s: %s\n", text, why.text ? why.text : "");
  return t;
}

static void test_words(RtArena *mem) {
  Target t = made(mem, "neon");
  CHECK(!strcmp(t.name, "aarch64") && t.without_blas && t.has_image);
  t = made(mem, "aarch64,cpu=cortex-a76,features=+dotprod,+rcpc,lanes=8,stack=4096");
  CHECK(!strcmp(t.cpu, "cortex-a76") && !strcmp(t.features, "+neon,+dotprod,+rcpc"));
  CHECK(t.vl == 8 && t.stack_bytes == 4096 && t.has_fma && !t.has_image && t.pointer_bits == 64);
  t = made(mem, "triple=x86_64-pc-windows-msvc,cpu=znver4");
  CHECK(t.pointer_bits == 64 && !strcmp(t.cpu, "znver4") && strstr(t.features, "+sse4.2"));
  t = made(mem, "triple=i686-linux-gnu,cpu=pentium4");
  CHECK(t.pointer_bits == 32 && !t.has_fma && !t.has_rounding && !t.fixed_place);
  t = made(mem, "i386-linux-gnu");  // as i686, and its x87 is not used
  CHECK(!strcmp(t.triple, "i686-unknown-linux-gnu") && !strcmp(t.features, "+sse2"));
  t = made(mem, "arm64-linux-gnu,cpu=cortex-a76");
  CHECK(!strcmp(t.triple, "aarch64-unknown-linux-gnu") && !strcmp(t.features, "+neon"));
  t = made(mem, "native");
  CHECK(t.name && cg_target_find(t.name) && t.without_blas && !t.has_amx);
  t = made(mem, "loongarch64-linux-gnu");
  CHECK(t.pointer_bits == 64 && t.has_fma);
  t = made(mem, "triple=powerpc64le-linux-gnu,cpu=pwr9");
  CHECK(t.pointer_bits == 64 && t.has_fma && t.has_rounding);
  t = made(mem, "triple=thumbv7em-none-eabihf,cpu=cortex-m7");
  CHECK(t.pointer_bits == 32 && t.has_fma && t.fixed_place && t.stack_bytes <= 8 << 10);
  CHECK(!strcmp(t.triple, "thumbv7em-unknown-none-eabihf"));
  t = made(mem, "triple=wasm32-unknown-unknown,features=+simd128");
  CHECK(t.pointer_bits == 32 && t.has_rounding);
}

// ---- features: each of LLVM's is asked for by NAME_cpu, needs no question, or is refused
// Refused where a target says them: no CPU has them, or not beside what all have
static bool is_refused_word(const char *name) {
  static const char *const words[] = {"e",
                                      "32bit",
                                      "zcf",
                                      "zce",
                                      "zcmp",
                                      "zcmt",
                                      "zfinx",
                                      "zdinx",
                                      "zhinx",
                                      "zhinxmin",
                                      "xwchc",
                                      "all",
                                      "sse-unaligned-mem",
                                      "soft-float",
                                      "16bit-mode",
                                      "32bit-mode"};
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (!strcmp(words[k], name)) return true;
  return !strncmp(name, "experimental-", 13);
}

static void test_feature_table(const char *arch, const char *triple) {
  char line[512], name[128];
  bool is_listed = false;
  uint32_t n = 0;
  snprintf(line, sizeof line, "llvm-mc-%s -triple=%s -mattr=help </dev/null 2>&1", TN_LLVM_MAJOR, arch);
  FILE *in = popen(line, "r");
  while (in && fgets(line, sizeof line, in)) {
    is_listed |= strstr(line, "Available features") != NULL;
    if (!is_listed || sscanf(line, "  %127s -", name) != 1 || line[0] != ' ') continue;
    bool is_known = cg_knows_feature(triple, name, strlen(name));
    if (!CHECK(is_known != is_refused_word(name))) printf("  %s: %s is no row and not harmless\n", triple, name);
    n++;
  }
  if (in) pclose(in);
  if (!n) printf("skipped, no llvm-mc-%s: its features of %s\n", TN_LLVM_MAJOR, arch);
  else CHECK(n > 100);
}

static void test_features(RtArena *mem) {
  test_feature_table("x86_64", "x86_64-unknown-linux-gnu");
  test_feature_table("aarch64", "aarch64-unknown-linux-gnu");
  test_feature_table("riscv64", "riscv64-unknown-linux-gnu");
  CHECK(!cg_knows_feature("x86_64-unknown-linux-gnu", "avx2048", 7));
  CHECK(cg_knows_feature("thumbv7em-unknown-none-eabihf", "anything", 8));  // linked for its CPU
  Target t;
  static const char *const apx[] = {"egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu"};
  for (size_t k = 0; k < sizeof apx / sizeof *apx; k++) {
    TnBundleCpu cpu;
    t = made(mem, rt_printf(mem, "x86-64-v2,features=+%s", apx[k]));
    cg_target_cpu(&t, &cpu);
    CHECK(cpu.word[TN_LEAF7_1_EDX] >> 21 & 1 && cpu.state >> 19 & 1);
  }
  made(mem, "riscv64,features=+zba,cpu=sifive-s76");  // its own instructions are none that LLVM uses
  made(mem, "riscv64,cpu=veyron-v1,features=-xventanacondops");
  made(mem, "riscv64,features=-v,+zicond");
  t = made(mem, "riscv64,features=-v,cpu=sifive-x280");  // without the parts of its vectors, too
  CHECK(!strstr(t.cpu_features, "+zv") && !strstr(t.cpu_features, "+v") && strstr(t.cpu_features, "+zba"));
}

// ---- refusals
static void refuses(RtArena *mem, const char *text, const char *expected) {
  RtText why = {.mem = mem};
  Target t;
  CHECK(!cg_target_named(&t, mem, text, &why));
  CHECK_HAS(why.text ? why.text : "", expected);
}

static void test_refused_features(RtArena *mem) {
  static const char *const vendor[] = {"xventanacondops", "xtheadba",     "xtheadmempair",
                                       "xcvalu",          "xsfvqmaccdod", "zve32f"};
  for (size_t k = 0; k < sizeof vendor / sizeof *vendor; k++)
    refuses(mem, rt_printf(mem, "riscv64,features=-v,+%s", vendor[k]),
            rt_printf(mem, "a program could not ask whether its CPU has '%s'", vendor[k]));
  refuses(mem, "riscv64,cpu=veyron-v1",
          "has 'xventanacondops': a CPU without it, as of riscv64, or features=-xventanacondops");
  refuses(mem, "aarch64,features=+fp8", "whether its CPU has 'fp8'");
  refuses(mem, "riscv64-unknown-freebsd,features=-v,+zba", "whether its CPU has 'zba'");  // nobody tells there
  refuses(mem, "x86-64-v2,features=+sse-unaligned-mem", "whether its CPU has 'sse-unaligned-mem'");
}

static void test_refusals(RtArena *mem) {
  refuses(mem, "amx", "target 'x86-64-v4-amx' is for programs that run in the process that compiles them");
  refuses(mem, "x86-64-v9", "there is no target 'x86-64-v9': x86-64-v4-amx (amx), x86-64-v4 (avx512), ");
  refuses(mem, "aarch46", "; did you mean 'aarch64'?");
  refuses(mem, "aarch64,cpus=generic",
          "a target has no 'cpus': triple, cpu, features, abi, lanes, stack; did you mean 'cpu'?");
  refuses(mem, "cpu=cortex-m4", "a target is a row, or has a triple=");
  refuses(mem, "aarch64,lanes=6", "lanes=6: 4, 8 or 16");
  refuses(mem, "aarch64,stack=much", "stack=much is no number above 0");
  refuses(mem, "aarch64,cpu=cortex-z9",
          "target aarch64,cpu=cortex-z9: cpu=cortex-z9: LLVM knows no such CPU of aarch64");
  refuses(mem, "aarch64,features=+warp", "features=+warp: LLVM knows no such feature of aarch64");
  refuses(mem, "aarch64,features=+dotprod,-warp", "features=-warp: LLVM knows no such feature of aarch64");
  refuses(mem, "x86-64-v3,cpu=nonsense", "cpu=nonsense: LLVM knows no such CPU of x86_64");
  refuses(mem, "thumbv7em-none-eabi,cpu=nonsense", "cpu=nonsense: LLVM knows no such CPU of thumbv7em");
  refuses(mem, "x86_64-linux-gnu,cpu=pentium3", "target x86_64-linux-gnu,cpu=pentium3: LLVM: 64-bit code requested");
  refuses(mem, "x86_64-unknown-none-elf,features=-sse2", "features=-sse2: code for x86_64 cannot do without it");
  refuses(mem, "x86-64-v3,features=+fma,-sse", "features=-sse: code for x86_64 cannot do without it");
  refuses(mem, "i386-linux-gnu,features=-sse2", "features=-sse2: code for i686 cannot do without it");
  refuses(mem, "triple=quantum-none-elf", "quantum");
  refuses(mem, "quantum-none-elf", "there is no target 'quantum-none-elf': x86-64-v4-amx (amx), x86-64-v4 (avx512), ");
  refuses(mem, "triple=thumbv6m-none-eabi,cpu=cortex-m0", "it has no instructions for floating point");
  refuses(mem, "triple=powerpc64-linux-gnu,cpu=pwr9", "its memory is big-endian");
}

// ---- objects
static CgObject object_for(RtArena *mem, const Target *t) {
  static const char text[] = "program @p\nfunc @f(%x: f32[7,9], %w: f32[9,5]) {\n%y = matmul %x, %w\n%z = softmax %y\n"
                             "output %z {name=\"z\", index=0}\n}\n";
  RtDiags diags = {.mem = mem};
  RtText why = {.mem = mem};
  CgObject o = {0};
  Prog *p = ir_parse(mem, text, strlen(text), "objects.tir", &diags);
  if (!CHECK(p)) return o;
  cg_plan_for(p, t);
  bool good = ir_run_passes(p->fns[0], NULL, NULL, NULL) && ir_plan_program_memory(p) &&
              cg_compile_object(p, t, NULL, &o, NULL, &why);
  if (!CHECK(good)) printf("  %s: %s\n", t->name, why.text ? why.text : "");
  return o;
}

static void test_objects(RtArena *mem) {
  static const struct {
    const char *text;
    int class, machine;
  } objects[] = {{"x86-64-v2", ELFCLASS64, EM_X86_64},
                 {"aarch64", ELFCLASS64, EM_AARCH64},
                 {"riscv64", ELFCLASS64, EM_RISCV},
                 {"riscv64,features=+zvl256b,lanes=8", ELFCLASS64, EM_RISCV},
                 {"thumbv8.1m", ELFCLASS32, EM_ARM},
                 {"triple=thumbv7em-none-eabihf,cpu=cortex-m7", ELFCLASS32, EM_ARM},
                 {"triple=i686-linux-gnu,cpu=pentium4", ELFCLASS32, EM_386}};
  for (size_t k = 0; k < sizeof objects / sizeof *objects; k++) {
    Target t = made(mem, objects[k].text);
    CgObject o = object_for(mem, &t);
    const Elf64_Ehdr *head = o.bytes;  // machine and class lie at the same place in both
    CHECK(o.size > sizeof *head && !memcmp(head->e_ident, ELFMAG, SELFMAG));
    CHECK(head->e_ident[EI_CLASS] == objects[k].class && head->e_machine == objects[k].machine &&
          head->e_type == ET_REL);
    rt_free(o.bytes);
  }
}

int main(void) {
  RtArena *mem = rt_arena_new();
  test_names();
  test_list(mem);
  test_words(mem);
  test_features(mem);
  test_refusals(mem);
  test_refused_features(mem);
  test_objects(mem);
  rt_arena_free(mem);
  return check_report();
}
