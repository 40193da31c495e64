// Planned programs to machine code: compiling, objects, loading, and what a run of them costs.
#ifndef TN_CODEGEN_MODULE_COMPILE_H
#define TN_CODEGEN_MODULE_COMPILE_H

#include "codegen/target.h"
#include "ir/ir.h"

struct CgPipeline;  // module.h

typedef struct CgObject {  // the code of one program: an image (module/link.h)
  void *bytes;             // from rt_malloc
  size_t size;
} CgObject;
typedef enum {
  CG_NO_FAILURE,
  CG_NO_CODE,     // the program has something that cannot be compiled or loaded
  CG_NO_MEMORY,   // memory ran out: here, in the compiler process, or above its limit
  CG_NO_PROCESS,  // the system starts none for the compiler
  CG_CRASHED,     // the compiler process
  CG_TOO_LONG     // it was ended at its limit of time
} CgFailure;
typedef struct {
  double seconds;  // that the compiler process may take; 0: any
  size_t bytes;    // of address space that it may add to what this process has; 0: any
} CgLimits;
typedef struct {
  double codegen_ms;
  uint32_t n_kernels, n_distinct;
  bool from_cache;
  CgFailure failure;
  char no_cache[512];  // why the cache, or the file in it, was not believed or not usable; "": nothing to say
} CgInfo;
typedef struct {
  const char *cache_dir;  // NULL, "": no cache
  CgLimits limits;
} CgOptions;
// Emits all functions of a planned program, in a process of its own. Symbols: "<program>_<function>" as TnEntry.
// o NULL: no cache, no limits.
bool cg_compile(Prog *p, const Target *t, const CgOptions *o, CgObject *out, CgInfo *info, RtText *why);
// The same functions as one relocatable object (ELF, or what the triple's system has). Symbols: those of cg_compile.
// how NULL: that of programs that run in the process that compiles them. out: from rt_malloc.
bool cg_compile_object(Prog *p, const Target *t, const struct CgPipeline *how, CgObject *out, CgInfo *info,
                       RtText *why);
char *cg_symbol(RtArena *mem, const Prog *p, const Fn *f);
char *cg_program_symbol(RtArena *mem, const Prog *p);  // with which every symbol begins
// ---- codegen/module/jit.c
typedef struct CgJit CgJit;
// takes a copy of the bytes; failure may be NULL
CgJit *cg_jit_load(const CgObject *o, CgFailure *failure, RtText *why);
void *cg_jit_find(CgJit *j, const char *symbol);
void cg_jit_free(CgJit *j);
// ---- codegen/module/custom_target.c
// The target of an object: a row's name, or words such as "triple=thumbv7em-none-eabihf,cpu=cortex-m7,stack=4096", after
// the name of a row or none. Asks LLVM in a process. false: why.
bool cg_target_named(Target *t, RtArena *mem, const char *text, RtText *why);
void cg_targets_text(RtText *out);  // all rows, and which this machine can run
// ---- codegen/module/packed_weights.c
// Finds the packed copies of weights that products of all functions read: p->packs, p->packed_bytes. After placement.
void cg_place_packed_weights(Prog *p, const Target *t);
void cg_find_read_weights(const Fn *f, const Target *t, bool *reads);  // reads[k]: of row k of p->packed_weights
// The symbol of the entry that makes the packed copies; none where there are none
char *cg_packed_weights_symbol(RtArena *mem, const Prog *p);
// ---- codegen/module/workers.c
// Number of workers worth waking for a run. 1: worker 0 works alone, the code has no barriers, and others
// return at once.
uint32_t cg_max_workers(const Fn *f);

#endif
