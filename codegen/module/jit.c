// The object of a program (several object files in one block of bytes), and loading it into this process.
//
//   "TNOBJ" 0 0 0 | u64 count | u64 size of each file | files, each starting on a multiple of 16
#include "codegen/module/module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>

// ---- several files in one
static const char magic[8] = "TNOBJ";
enum { PLACE = 16, MAX_FILES = 1024 };

static size_t round_up(size_t n) { return (n + PLACE - 1) / PLACE * PLACE; }
static size_t header_size(uint64_t n) { return round_up(sizeof magic + sizeof(uint64_t) * (1 + n)); }

bool cg_object_join(const CgObject *part, uint32_t n, CgObject *out) {
  size_t size = header_size(n), at = size;
  for (uint32_t k = 0; k < n; k++) size += round_up(part[k].size);
  unsigned char *bytes = rt_malloc(size);
  if (!bytes) return false;
  memset(bytes, 0, size);
  memcpy(bytes, magic, sizeof magic);
  uint64_t word = n;
  memcpy(bytes + sizeof magic, &word, sizeof word);
  for (uint32_t k = 0; k < n; k++) {
    word = part[k].size;
    memcpy(bytes + sizeof magic + sizeof word * (1 + k), &word, sizeof word);
    memcpy(bytes + at, part[k].bytes, part[k].size);
    at += round_up(part[k].size);
  }
  *out = (CgObject){bytes, size};
  return true;
}

bool cg_object_part(const CgObject *o, uint32_t k, CgObject *out) {
  unsigned char *bytes = o->bytes;
  uint64_t n, size = 0;
  if (o->size < header_size(0) || memcmp(bytes, magic, sizeof magic)) return false;
  memcpy(&n, bytes + sizeof magic, sizeof n);
  if (n > MAX_FILES || k >= n || o->size < header_size(n)) return false;
  size_t at = header_size(n);
  for (uint32_t i = 0; i <= k; i++) {
    memcpy(&size, bytes + sizeof magic + sizeof n * (1 + i), sizeof size);
    if (size > o->size || round_up(size) > o->size - at) return false;
    if (i < k) at += round_up(size);
  }
  *out = (CgObject){bytes + at, size};
  return true;
}

// ---- LLVM initialisation, once per process
static void init_targets(void) {
  LLVMInitializeAllTargetInfos();
  LLVMInitializeAllTargets();
  LLVMInitializeAllTargetMCs();
  LLVMInitializeAllAsmPrinters();
}

void cg_init_llvm(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, init_targets);
}

// ---- loading
struct CgJit {
  LLVMOrcLLJITRef jit;
  char error[512];  // last report of the session
};

static bool failed(LLVMErrorRef e, RtText *why) {
  if (!e) return false;
  char *text = LLVMGetErrorMessage(e);
  rt_text_add(why, "LLVM: %s", text);
  LLVMDisposeErrorMessage(text);
  return true;
}

// Replaces LLVM's own reporter, which prints to stderr.
static void on_session_error(void *ctx, LLVMErrorRef e) {
  CgJit *j = ctx;
  char *text = LLVMGetErrorMessage(e);
  snprintf(j->error, sizeof j->error, "%s", text);
  LLVMDisposeErrorMessage(text);
}

// A builder for the baseline CPU: the JIT only loads objects, so it need not detect the host's features, where LLVM may
// print warnings to stderr.
static LLVMOrcLLJITBuilderRef plain_builder(RtText *why) {
  char *triple = LLVMGetDefaultTargetTriple(), *error = NULL;
  LLVMTargetRef target;
  LLVMOrcLLJITBuilderRef b = NULL;
  if (LLVMGetTargetFromTriple(triple, &target, &error)) {
    rt_text_add(why, "LLVM: %s", error);
    LLVMDisposeMessage(error);
  } else {
    LLVMTargetMachineRef tm = LLVMCreateTargetMachine(target, triple, "generic", "", LLVMCodeGenLevelNone, LLVMRelocPIC,
                                                      LLVMCodeModelDefault);
    b = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(tm));
  }
  LLVMDisposeMessage(triple);
  return b;
}

static bool add_file(CgJit *j, const CgObject *file, RtText *why) {
  LLVMMemoryBufferRef copy = LLVMCreateMemoryBufferWithMemoryRangeCopy(file->bytes, file->size, "tenure");
  return !failed(LLVMOrcLLJITAddObjectFile(j->jit, LLVMOrcLLJITGetMainJITDylib(j->jit), copy), why);
}

CgJit *cg_jit_load(const CgObject *o, RtText *why) {
  CgObject file;
  if (!cg_object_part(o, 0, &file)) return rt_text_add(why, "this is no object of a program"), NULL;
  cg_init_llvm();
  CgJit *j = rt_malloc(sizeof *j);
  if (!j) return rt_text_add(why, "out of memory"), NULL;
  *j = (CgJit){0};
  LLVMOrcLLJITBuilderRef builder = plain_builder(why);
  if (!builder || failed(LLVMOrcCreateLLJIT(&j->jit, builder), why)) return rt_free(j), NULL;
  LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(j->jit), on_session_error, j);
  for (uint32_t k = 0; cg_object_part(o, k, &file); k++)
    if (!add_file(j, &file, why)) return cg_jit_free(j), NULL;
  return j;
}

// Linking is done at the first look: what code calls and is nowhere is found then, and said by the session.
void *cg_jit_find(CgJit *j, const char *symbol, RtText *why) {
  LLVMOrcExecutorAddress at = 0;
  LLVMErrorRef e = LLVMOrcLLJITLookup(j->jit, &at, symbol);
  if (!e) return (void *)(uintptr_t)at;
  char *text = LLVMGetErrorMessage(e);
  if (why) rt_text_add(why, "%s cannot be linked: %s", symbol, j->error[0] ? j->error : text);
  LLVMDisposeErrorMessage(text);
  return NULL;
}

void cg_jit_free(CgJit *j) {
  if (!j) return;
  if (j->jit) cg_profile_print(j);
  LLVMErrorRef e = LLVMOrcDisposeLLJIT(j->jit);
  if (e) LLVMConsumeError(e);
  rt_free(j);
}
