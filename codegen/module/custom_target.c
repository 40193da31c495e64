// Targets for objects: a row of the table, or one made from a row by words.
//
//   aarch64                                          the row
//   aarch64,cpu=cortex-a76,features=+dotprod,+rcpc   the row, for another CPU
//   triple=riscv64-unknown-linux-gnu,cpu=sifive-x280,lanes=8
//   thumbv7em-none-eabihf,cpu=cortex-m7,stack=4096   the same without triple=
//   native                                           the row that this machine takes
//
// What LLVM knows is asked of LLVM: whether there is such a CPU, how large pointers are, whether a b + d and floor are
// instructions or calls of a library that code cannot have.
#include "codegen/cpu_features.h"
#include "codegen/module/child.h"
#include "codegen/module/llvm_module.h"
#include "codegen/module/undefined.h"
#include "runtime/near.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <llvm-c/TargetMachine.h>

// ---- LLVM's answers, in the compiler's process
enum { FEATURES = 2048 };  // bytes of a text of features
typedef struct {
  uint32_t pointer_bits;
  bool has_fma, has_rounding;
  char features[FEATURES];  // features of the CPU, of those that a program can ask for
} Answer;

// void NAME(ptr): *p = op(*p, ..) of a scalar and of a vector. Without an intrinsic: a + a.
static void add_probe(const CgModule *m, const Target *t, const char *intrinsic, uint32_t n_args) {
  LLVMTypeRef f32 = LLVMFloatTypeInContext(m->ctx), type[] = {f32, LLVMVectorType(f32, t->vl)};
  LLVMTypeRef ptr = LLVMPointerTypeInContext(m->ctx, 0);
  LLVMTypeRef fn_type = LLVMFunctionType(LLVMVoidTypeInContext(m->ctx), &ptr, 1, false);
  V fn = LLVMAddFunction(m->mod, "probe", fn_type), at = LLVMGetParam(fn, 0);
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", strlen("nounwind"));  // else Arm names a personality
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(m->ctx, nounwind, 0));
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->ctx);
  LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(m->ctx, fn, "entry"));
  unsigned id = intrinsic ? LLVMLookupIntrinsicID(intrinsic, strlen(intrinsic)) : 0;
  for (uint32_t k = 0; k < 2; k++) {
    V x = LLVMBuildLoad2(b, type[k], at, ""), arg[] = {x, x, x}, y;
    if (intrinsic) {
      V op = LLVMGetIntrinsicDeclaration(m->mod, id, &type[k], 1);
      y = LLVMBuildCall2(b, LLVMIntrinsicGetType(m->ctx, id, &type[k], 1), op, arg, n_args, "");
    } else {
      y = LLVMBuildFAdd(b, x, x, "");
    }
    LLVMBuildStore(b, y, at);
  }
  LLVMBuildRetVoid(b);
}

static void open_module(CgModule *m, const Target *t) {
  char error[CG_ERROR_SIZE];
  LLVMTargetMachineRef machine = cg_make_machine(t, &cg_quick_pipeline, error);
  if (!machine) cg_child_fail(CG_NO_CODE, error);
  cg_open_module(m, NULL, machine, &cg_quick_pipeline);
}

// Is the intrinsic, or a + a, an instruction, and no function of a library?
static bool is_instruction(const Target *t, const char *intrinsic, uint32_t n_args) {
  CgModule m;
  open_module(&m, t);
  add_probe(&m, t, intrinsic, n_args);
  if (!cg_finish_module(&m)) cg_child_fail(CG_NO_CODE, m.error);
  return !cg_first_undefined(m.ctx, m.object);
}

static bool is_arch(const char *arch, const char *triple) {
  size_t length = strcspn(triple, "-");
  return strlen(arch) == length && !strncmp(arch, triple, length);
}

// Is item one of list, which has commas between?
static bool is_item(const char *list, const char *item, size_t length) {
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strcspn(at, ",") == length && !strncmp(at, item, length)) return true;
  return false;
}

// ---- features of a CPU. LLVM's C interface has no list; but code that needs a feature is inlined into code that has it alone.
static V add_function(const CgModule *m, const char *name, const char *cpu, const char *features) {
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(m->ctx), NULL, 0, false);
  V fn = LLVMAddFunction(m->mod, name, type);
  const char *const key[] = {"target-cpu", "target-features"}, *const value[] = {cpu, features};
  for (size_t k = 0; k < 2; k++) {
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(m->ctx, key[k], (unsigned)strlen(key[k]), value[k], (unsigned)strlen(value[k]));
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
  }
  LLVMAppendBasicBlockInContext(m->ctx, fn, "entry");
  return fn;
}

// Does "+avx,+fma" have the name?
static bool is_wanted(const char *features, const char *name) {
  for (const char *f = features; *f; f += strcspn(f, ","), f += *f == ',')
    if (*f == '+' && strcspn(f, ",") == strlen(name) + 1 && !memcmp(f + 1, name, strlen(name))) return true;
  return false;
}

static void add_question(const CgModule *m, const char *cpu, const char *features, const char *feature) {
  char more[2 * FEATURES];
  bool is_vector = !strncmp(feature, "zv", 2) && strncmp(feature, "zve", 3);
  const char *with = is_vector ? "+v," : "";  // parts of vectors that are not there are a fatal error of LLVM
  snprintf(more, sizeof more, "%s%s%s+%s", features, *features ? "," : "", with, feature);
  V wants = add_function(m, "wants", cpu, more), has = add_function(m, feature, cpu, features);
  LLVMSetLinkage(wants, LLVMInternalLinkage);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->ctx);
  LLVMPositionBuilderAtEnd(b, LLVMGetEntryBasicBlock(wants));
  LLVMBuildRetVoid(b);
  LLVMPositionBuilderAtEnd(b, LLVMGetEntryBasicBlock(has));
  LLVMBuildCall2(b, LLVMGlobalGetValueType(wants), wants, NULL, 0, "");
  LLVMBuildRetVoid(b);
  LLVMDisposeBuilder(b);
}

// LLVM inlines code that needs these two features into any code. It uses neither by itself: they count only
// where they are named.
static bool is_not_compared(const char *feature) { return !strcmp(feature, "cx16") || !strcmp(feature, "sahf"); }

static bool was_inlined(const CgModule *m, const char *feature) {
  V fn = LLVMGetNamedFunction(m->mod, feature);
  return !LLVMIsACallInst(LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(fn)));
}

// "+avx,+fma": the features of the list that the CPU has, given these.
static void find_features(const Target *t, const char *cpu, const char *features, const CgCpuFeature *list, uint32_t n,
                          char *out, size_t size) {
  static const CgPipeline inlining = {"cgscc(inline)", LLVMCodeGenLevelNone};
  CgModule m;
  size_t length = 0;
  char error[CG_ERROR_SIZE];
  LLVMTargetMachineRef machine = cg_make_machine(t, &inlining, error);
  if (!machine) cg_child_fail(CG_NO_CODE, error);
  cg_open_module(&m, NULL, machine, &inlining);
  for (uint32_t k = 0; k < n; k++) add_question(&m, cpu, features, list[k].name);
  if (!cg_optimise_module(&m)) cg_child_fail(CG_NO_CODE, m.error);
  for (uint32_t k = 0; k < n; k++) {
    bool is_there = is_not_compared(list[k].name) ? is_wanted(features, list[k].name) : was_inlined(&m, list[k].name);
    if (!is_there) continue;
    length += (size_t)snprintf(out + length, size - length, "%s+%s", length ? "," : "", list[k].name);
    if (length >= size) cg_child_fail(CG_NO_CODE, "the CPU has too many features");
  }
}

_Noreturn static void refuse_feature(const Target *t, const char *name, size_t n) {
  char why[512];
  snprintf(why, sizeof why,
           "a program could not ask whether its CPU has '%.*s': a CPU without it, as of %.*s, or features=-%.*s",
           (int)n, name, (int)strcspn(t->triple, "-"), t->triple, (int)n, name);
  cg_child_fail(CG_NO_CODE, why);
}

// What a program cannot ask for it may have alone where every machine has it, or every one that has what it asks for. own: what
// the target has of the list.
static void refuse_unknown(const Target *t, const CgCpuFeature *list, uint32_t n, const char *own) {
  char asked[2 * FEATURES], all[FEATURES] = "";
  const CgPlainCpu *plain = cg_plain_cpu(t->triple);
  size_t length = (size_t)snprintf(asked, sizeof asked, "%s", plain->features);
  for (uint32_t k = 0; k < n; k++)
    if (cg_can_ask(t->triple, &list[k]) && is_wanted(own, list[k].name))
      length += (size_t)snprintf(asked + length, sizeof asked - length, "%s+%s", length ? "," : "", list[k].name);
  find_features(t, plain->cpu, asked, list, n, all, sizeof all);
  for (int named = 1; named >= 0; named--)  // a word of the target's first
    for (uint32_t k = 0; k < n; k++)
      if (is_wanted(own, list[k].name) && !is_wanted(all, list[k].name) &&
          is_wanted(t->features, list[k].name) == named)
        refuse_feature(t, list[k].name, strlen(list[k].name));
  for (const char *f = t->features; *f; f += strcspn(f, ","), f += *f == ',')
    if (*f == '+' && !cg_knows_feature(t->triple, f + 1, strcspn(f, ",") - 1))
      refuse_feature(t, f + 1, strcspn(f, ",") - 1);
}

// LLVM adds what a triple of Arm means to whatever CPU is named: code would have instructions that the CPU lacks, or be marked as
// of another architecture. Both are asked apart, the CPU under a triple that means nothing.
static void refuse_other_architecture(const Target *t) {
  static const CgCpuFeature levels[] = {
      {"v8.1m.main", 0, 0, 0}, {"v8m.main", 0, 0, 0}, {"v8m", 0, 0, 0}, {"v7", 0, 0, 0}, {"mclass", 0, 0, 0}};
  enum { N = sizeof levels / sizeof *levels };
  char of_cpu[256] = "", of_triple[256] = "", why[512];
  if (strncmp(t->triple, "thumb", 5) || !*t->cpu || !strcmp(t->cpu, "generic")) return;
  Target neutral = *t;
  neutral.triple = "thumb-unknown-none-eabi";
  find_features(&neutral, t->cpu, "", levels, N, of_cpu, sizeof of_cpu);
  find_features(t, "generic", "", levels, N, of_triple, sizeof of_triple);
  if (!strcmp(of_cpu, of_triple)) return;
  const char *arch = strstr(of_cpu, "v8.1m.main") ? "thumbv8.1m.main"
                     : strstr(of_cpu, "v8m.main") ? "thumbv8m.main"
                     : strstr(of_cpu, "v7")       ? "thumbv7em or thumbv7m"
                     : strstr(of_cpu, "v8m")      ? "thumbv8m.base"
                                                  : "another architecture";
  snprintf(why, sizeof why, "cpu=%s is no CPU of %.*s: its triple begins with %s", t->cpu, (int)strcspn(t->triple, "-"),
           t->triple, arch);
  cg_child_fail(CG_NO_CODE, why);
}

// LLVM says on stderr that it does not know a CPU or a feature, whose name stands between the first quotes, and goes on without.
static void fail_of_words(const Target *t, int said) {
  char text[512] = "", name[512] = "", why[1024];
  if (said < 0 || pread(said, text, sizeof text - 1, 0) <= 0) return;
  text[strcspn(text, "\n")] = 0;
  bool is_quoted = text[0] == '\'' && strchr(text + 1, '\'');
  if (is_quoted) memcpy(name, text + 1, strcspn(text + 1, "'"));
  int arch = (int)strcspn(t->triple, "-");
  if (is_quoted && !strcmp(name, t->cpu))
    snprintf(why, sizeof why, "cpu=%s: LLVM knows no such CPU of %.*s", name, arch, t->triple);
  else if (is_quoted && (*name == '+' || *name == '-'))
    snprintf(why, sizeof why, "features=%s: LLVM knows no such feature of %.*s", name, arch, t->triple);
  else snprintf(why, sizeof why, "LLVM: %s", text);
  cg_child_fail(CG_NO_CODE, why);
}

static void ask(void *ctx) {
  const Target *t = ctx;
  int said = memfd_create("tenure", MFD_CLOEXEC);
  if (said >= 0) dup2(said, STDERR_FILENO);
  CgModule m;
  cg_init_llvm();
  open_module(&m, t);
  fail_of_words(t, said);  // what else is wrong may come of it
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m.tm);
  if (LLVMByteOrder(layout) != LLVMLittleEndian) cg_child_fail(CG_NO_CODE, "its memory is big-endian");
  if (!is_instruction(t, NULL, 0))
    cg_child_fail(CG_NO_CODE, "it has no instructions for floating point: cpu= or features= of one that has");
  Answer a = {.pointer_bits = 8 * LLVMPointerSize(layout),
              .has_fma = is_instruction(t, "llvm.fma", 3),
              .has_rounding = is_instruction(t, "llvm.floor", 1)};
  fail_of_words(t, said);
  uint32_t n_features;
  const CgCpuFeature *list = cg_cpu_features(t->triple, &n_features);
  if (list) find_features(t, t->cpu, t->features, list, n_features, a.features, sizeof a.features);
  if (list) refuse_unknown(t, list, n_features, a.features);
  refuse_other_architecture(t);
  cg_child_answer(&(CgObject){&a, sizeof a});
}

static bool ask_llvm(Target *t, bool is_new, RtText *why) {
  RtText said = {.mem = why->mem};
  ChildAnswer answer = cg_run_child(&(CgLimits){.seconds = 60}, ask, t, &said);
  Answer a;
  bool good = answer.failure == CG_NO_FAILURE && answer.size == sizeof a;
  if (good) {
    memcpy(&a, answer.data, sizeof a);
    t->pointer_bits = a.pointer_bits;
    t->cpu_features = rt_strdup(why->mem, a.features);
    t->has_fma = a.has_fma && (t->has_fma || is_new);
    t->has_rounding = a.has_rounding && (t->has_rounding || is_new);
  } else rt_text_add(why, "target %s: %s", t->name, said.text ? said.text : "");
  rt_free(answer.data);
  return good;
}

// ---- triples
// Second names of architectures that have a row or support code of bundles
static const char *const arch_names[][2] = {{"amd64", "x86_64"}, {"arm64", "aarch64"}, {"i386", "i686"},
                                            {"i486", "i686"},    {"i586", "i686"},     {"ppc64le", "powerpc64le"}};

// What our arithmetic needs of an architecture, whatever CPU is named: numbers of i386's x87 are longer than f32, and x86_64's
// calls have them in registers of SSE. `off`: the words that switch it off, or what it takes along.
typedef struct {
  const char *arch, *needs, *off;
} Needs;
static const Needs arch_needs[] = {
    {"i686", "+sse2", "-sse,-sse2"}, {"x86_64", "+sse2", "-sse,-sse2"}, {"loongarch64", "+f,+d", "-f,-d"}};

static const Needs *needs_of(const char *triple) {
  for (size_t k = 0; k < sizeof arch_needs / sizeof *arch_needs; k++)
    if (is_arch(arch_needs[k].arch, triple)) return &arch_needs[k];
  return NULL;
}

static const char *first_name(const char *triple) {
  for (size_t k = 0; k < sizeof arch_names / sizeof *arch_names; k++)
    if (is_arch(arch_names[k][0], triple)) return arch_names[k][1];
  return NULL;
}

static bool switches_off(const char *triple, const char *features, RtText *why) {
  const Needs *needs = needs_of(triple);
  for (const char *at = features; needs && *at; at += strcspn(at, ","), at += *at == ',') {
    size_t length = strcspn(at, ",");
    if (!is_item(needs->off, at, length)) continue;
    rt_text_add(why, "features=%.*s: code for %.*s cannot do without it", (int)length, at, (int)strcspn(triple, "-"),
                triple);
    return true;
  }
  return false;
}

// In LLVM's four words: arm-none-eabi has no vendor, and would not be an EABI's.
static const char *full_triple(RtArena *mem, const char *triple) {
  size_t length = strcspn(triple, "-");
  const char *arch = first_name(triple);
  char *text = LLVMNormalizeTargetTriple(arch ? rt_printf(mem, "%s%s", arch, triple + length) : triple);
  const char *copy = rt_strdup(mem, text);
  LLVMDisposeMessage(text);
  return copy;
}

// ---- the words
typedef struct {
  const Target *row;  // named at the beginning; NULL: none
  const char *triple, *cpu, *features, *abi;
  int64_t lanes, stack;  // 0: not said
} Spec;

typedef enum { WORD_TRIPLE, WORD_CPU, WORD_FEATURES, WORD_ABI, WORD_LANES, WORD_STACK, N_WORDS } Word;
static const char *const words[N_WORDS] = {"triple", "cpu", "features", "abi", "lanes", "stack"};

static bool unknown_word(const char *word, RtText *why) {
  RtNear near = {.wanted = word};
  for (uint32_t k = 0; k < N_WORDS; k++) rt_near_offer(&near, words[k]);
  rt_text_add(why, "a target has no '%s': triple, cpu, features, abi, lanes, stack%s", word, rt_near_text(&near));
  return false;
}

static bool read_number(const char *word, const char *text, int64_t *n, RtText *why) {
  char *end;
  *n = strtoll(text, &end, 10);
  return (*text && !*end && *n > 0) || (rt_text_add(why, "%s=%s is no number above 0", word, text), false);
}

static bool read_word(Spec *s, const char *word, const char *value, RtText *why) {
  uint32_t k = 0;
  while (k < N_WORDS && strcmp(words[k], word)) k++;
  switch ((Word)k) {
  case WORD_TRIPLE: s->triple = value; return true;
  case WORD_CPU: s->cpu = value; return true;
  case WORD_FEATURES: s->features = value; return true;
  case WORD_ABI: s->abi = value; return true;
  case WORD_LANES: return read_number(word, value, &s->lanes, why);
  case WORD_STACK: return read_number(word, value, &s->stack, why);
  case N_WORDS: break;
  }
  return unknown_word(word, why);
}

// The end of an item: features have commas of their own, before + and -.
static char *item_end(char *at) {
  at += strcspn(at, ",");
  while (*at && (at[1] == '+' || at[1] == '-')) at += 1 + strcspn(at + 1, ",");
  return at;
}

// A row, this machine's, or a triple.
static bool read_name(Spec *s, RtArena *mem, const char *name) {
  Target host;
  LLVMTargetRef known = NULL;
  char *error = NULL;
  bool native = !strcmp(name, "native") && cg_target_host(&host, &(RtText){.mem = mem});
  s->row = native ? cg_target_ahead(cg_target_find(host.name)) : cg_target_find(name);
  if (s->row || !strchr(name, '-')) return s->row;
  cg_init_llvm();
  s->triple = name;
  bool is_triple = !LLVMGetTargetFromTriple(full_triple(mem, name), &known, &error);
  if (!is_triple) LLVMDisposeMessage(error);
  return is_triple;
}

static bool read_spec(Spec *s, RtArena *mem, const char *text, RtText *why) {
  char *at = rt_strdup(mem, text);
  for (bool is_first = true; *at; is_first = false) {
    char *end = item_end(at), *equals = strchr(at, '=');
    bool is_last = !*end;
    *end = 0;
    if (equals && equals < end) {
      *equals = 0;
      if (!read_word(s, at, equals + 1, why)) return false;
    } else if (!is_first || !read_name(s, mem, at)) return cg_target_unknown(at, why), false;
    at = is_last ? end : end + 1;
  }
  return true;
}

// ---- the row
// The plainest row of the triple's architecture: the last one, since rows stand by preference.
static const Target *row_like(const char *triple) {
  uint32_t n;
  const Target *rows = cg_targets(&n), *like = NULL;
  size_t length = strcspn(triple, "-");
  for (uint32_t k = 0; k < n; k++)
    if (rows[k].triple && !strncmp(rows[k].triple, triple, length) && rows[k].triple[length] == '-') like = &rows[k];
  return like;
}

static const char *both(RtArena *mem, const char *a, const char *b) {
  return *a && *b ? rt_printf(mem, "%s,%s", a, b) : *a ? a : b;
}

// Does `off`, "-v", take the row's `on`, "+zvl128b", along? LLVM leaves on what a feature implied, and the row's vectors of RISC-V
// are the extension with all that it implies.
static bool takes_along(const char *off, size_t n_off, const char *on, size_t n_on) {
  if (n_off == n_on && !memcmp(off + 1, on + 1, n_on - 1)) return true;
  bool is_vector = n_off == 2 && off[1] == 'v';
  return is_vector && n_on > 2 && on[1] == 'z' && on[2] == 'v';
}

// The row's features but for those that `own` switches off.
static const char *without(RtArena *mem, const char *row, const char *own) {
  RtText left = {.mem = mem};
  for (const char *at = row; *at; at += strcspn(at, ","), at += *at == ',') {
    bool is_off = false;
    size_t n = strcspn(at, ",");
    for (const char *o = own; *o; o += strcspn(o, ","), o += *o == ',')
      is_off |= *o == '-' && takes_along(o, strcspn(o, ","), at, n);
    if (!is_off) rt_text_add(&left, "%s%.*s", left.len ? "," : "", (int)n, at);
  }
  return left.text ? left.text : "";
}

// Without vectors a CPU has none of their parts: LLVM leaves those on that the CPU's "v" stands for.
static const char *with_parts(RtArena *mem, const Target *t, const char *own) {
  bool is_off = is_item(own, "-v", 2) && !strncmp(t->triple, "riscv", 5);
  return is_off ? both(mem, "-zve32x,-zvl32b", own) : own;
}

static bool set_lanes(Target *t, int64_t lanes, RtText *why) {
  if (lanes != 4 && lanes != 8 && lanes != 16)
    return rt_text_add(why, "lanes=%lld: 4, 8 or 16", (long long)lanes), false;
  if ((uint32_t)lanes != t->vl) t->has_avx512 = t->cheap_shuffle = false;  // instructions of 16 lanes
  t->vl = (uint32_t)lanes;
  return true;
}

static bool apply(Target *t, const Spec *s, RtArena *mem, RtText *why) {
  if (s->triple) t->triple = full_triple(mem, s->triple);
  if (!t->triple) return rt_text_add(why, "row '%s' is this machine's: triple= is missing", t->name), false;
  if (s->triple) t->fixed_place = strstr(t->triple, "-none-") || !strncmp(t->triple, "wasm", 4);
  if (s->cpu) t->cpu = s->cpu;
  if (s->features && switches_off(t->triple, s->features, why)) return false;
  if (s->features) t->features = both(mem, without(mem, t->features, s->features), with_parts(mem, t, s->features));
  const Needs *needs = needs_of(t->triple);
  if (needs) t->features = both(mem, t->features, needs->needs);
  if (s->abi) t->abi = s->abi;
  if (s->stack) t->stack_bytes = s->stack, t->bounded_stack = true;
  return !s->lanes || set_lanes(t, s->lanes, why);
}

bool cg_target_named(Target *t, RtArena *mem, const char *text, RtText *why) {
  Spec s = {0};
  if (!read_spec(&s, mem, text, why)) return false;
  if (!s.row && !s.triple) return rt_text_add(why, "a target is a row, or has a triple="), false;
  const Target *like = s.row ? s.row : row_like(full_triple(mem, s.triple));
  if (like && like->ahead)
    return rt_text_add(why, "target '%s' is for programs that run in the process that compiles them", like->name),
           false;
  bool is_new = !like, is_row = s.row && !strchr(text, ',');
  *t = like ? *like : *cg_target_plain(strstr(full_triple(mem, s.triple), "-none-") != NULL);
  t->without_blas = true;
  if (is_row) return true;
  t->name = rt_strdup(mem, text), t->alias = NULL, t->has_image = false;
  return apply(t, &s, mem, why) && ask_llvm(t, is_new, why);
}

// ---- the list
void cg_targets_text(RtText *out) {
  uint32_t n;
  const Target *t = cg_targets(&n);
  char lack[TARGET_LACK];
  for (const Target *end = t + n; t < end; t++) {
    bool here = t->has_image && cg_target_runs_here(t, lack);
    rt_text_add(out, "%-11s %-10s %2u lanes, %u-bit pointers%s\n", t->name, t->alias ? t->alias : "", t->vl,
                t->pointer_bits, here ? ", runs here" : "");
    rt_text_add(out, "    triple %s, cpu %s%s%s\n", t->triple ? t->triple : "of this machine", t->cpu,
                *t->features ? ", features " : "", t->features);
  }
}
