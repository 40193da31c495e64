// What this machine can run, and the row that its programs are compiled for.
//
// A host is recognised by features alone, each one checked twice: the CPU has it (cpuid) and the system saves its
// registers (xgetbv). CPU names lie in virtual machines.
#include "codegen/cpu_features.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <pthread.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

#if defined(__x86_64__)
// What cpuid and xgetbv say, asked once: in a virtual machine each question is a call of its host, and there are hundreds.
static uint32_t cpu_word[TN_CPU_WORDS];
static uint64_t saved_state;  // XCR0: the registers that the system saves; readable only when it set OSXSAVE

static void ask_cpu(void) {
  static const struct {
    uint32_t leaf, subleaf, reg;
  } word[TN_CPU_WORDS] = {{1, 0, 2}, {7, 0, 1}, {7, 0, 2}, {7, 0, 3}, {7, 1, 0}, {7, 1, 3}, {0x80000001, 0, 2}};
  uint32_t r[4], lo, hi;
  for (uint32_t k = 0; k < TN_CPU_WORDS; k++)
    if (__get_cpuid_count(word[k].leaf, word[k].subleaf, &r[0], &r[1], &r[2], &r[3])) cpu_word[k] = r[word[k].reg];
  if (!__get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) || !(r[2] >> 27 & 1)) return;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  saved_state = (uint64_t)hi << 32 | lo;
}

static bool has_feature(const CgCpuFeature *f) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, ask_cpu);
  return (cpu_word[f->word] >> f->bit & 1) && (saved_state & f->state) == f->state;
}

// Linux saves the registers of AMX for a process that asks; children inherit it.
static bool may_use_tiles(void) {
#if defined(__linux__)
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
#else
  return false;
#endif
}

static bool has_all(const char *list, char lack[TARGET_LACK]) {
  for (const char *s = list; *s;) {
    size_t n = strcspn(s, ",");
    const CgCpuFeature *f = cg_x86_feature(s + 1, n - 1);
    if (!f || !has_feature(f)) return snprintf(lack, TARGET_LACK, "%.*s", (int)(n - 1), s + 1), false;
    s += s[n] ? n + 1 : n;
  }
  return true;
}
#define FAMILY "x86_64"
#else
static bool has_all(const char *list, char lack[TARGET_LACK]) { return (void)list, (void)lack, true; }
static bool may_use_tiles(void) { return false; }
#if defined(__aarch64__)
#define FAMILY "aarch64"
#else
#define FAMILY "none"
#endif
#endif

static const char *family_name(const char *triple) {
  static const char *const families[][2] = {{"x86_64", "an x86-64 CPU"},
                                            {"aarch64", "an AArch64 CPU"},
                                            {"riscv64", "a RISC-V CPU of 64 bits"},
                                            {"thumb", "an Arm Cortex-M CPU"}};
  for (size_t k = 0; k < sizeof families / sizeof *families; k++)
    if (!strncmp(triple, families[k][0], strlen(families[k][0]))) return families[k][1];
  return "another CPU family";
}

bool cg_target_runs_here(const Target *t, char lack[TARGET_LACK]) {
  if (!t->triple) return true;
  snprintf(lack, TARGET_LACK, "%s", family_name(t->triple));
  if (strncmp(t->triple, FAMILY, strlen(FAMILY)) || !has_all(t->features, lack)) return false;
  if (!t->has_amx || may_use_tiles()) return true;
  return snprintf(lack, TARGET_LACK, "the registers of AMX, which the system refuses"), false;
}

static bool pick_best(Target *t, RtText *why) {
  char lack[TARGET_LACK] = "";
  uint32_t n;
  const Target *row = cg_targets(&n);
  for (uint32_t k = 0; k < n; k++)
    if (row[k].has_image && cg_target_runs_here(&row[k], lack)) return *t = row[k], true;
  rt_text_add(why, "this CPU cannot run any target: it lacks %s", lack);
  return false;
}

bool cg_target_pick(Target *t, const char *name, RtText *why) {
  char lack[TARGET_LACK];
  if (!name || !*name) return pick_best(t, why);
  const Target *row = cg_target_find(name);
  if (!row) return cg_target_unknown(name, why), false;
  if (!cg_target_runs_here(row, lack))
    return rt_text_add(why, "target '%s' needs %s, which this machine lacks", name, lack), false;
  if (!row->has_image) return rt_text_add(why, "target '%s' is for programs compiled ahead of time", name), false;
  *t = *row;
  return true;
}

bool cg_target_host(Target *t, RtText *why) { return cg_target_pick(t, getenv("TN_TARGET"), why); }

Convolution cg_convolution(bool exact) {
  const char *by = getenv("TN_CONV");
  if (exact || (by && !strcmp(by, "exact"))) return CONVOLUTION_EXACT;
  return by && !strcmp(by, "winograd") ? CONVOLUTION_WINOGRAD : CONVOLUTION_BY_COST;
}
