// The plan of a module: the kernel calls of all functions in order, the distinct kernels among them, and the barriers.
#ifndef TN_CODEGEN_MODULE_MODULE_H
#define TN_CODEGEN_MODULE_MODULE_H

#include "codegen/cg.h"
#include "codegen/module/compile.h"
#include "runtime/names.h"
#include <llvm-c/TargetMachine.h>

// What LLVM does with a module.
typedef struct CgPipeline {
  const char *passes;  // in the words of `opt -passes`
  LLVMCodeGenOptLevel level;
} CgPipeline;
extern const CgPipeline cg_quick_pipeline;
// Of programs that run in the process that compiles them: the quick one, at the level that $TN_LLVM says (O0, O2).
const CgPipeline *cg_process_pipeline(void);

// A call of a kernel in a function, with its arguments.
typedef struct KernelCall {
  const Fn *f;
  const Kernel *k;
  KernelArg *kernel_args;  // in order of first occurrence, like the rest
  uint32_t n_kernel_args, cap_kernel_args;
  Dim *dims;  // named dims whose run-time value it takes
  uint32_t n_dims, cap_dims;
  KernelId *ids;
  uint32_t n_ids, cap_ids;
  const char *key;  // canonical text: equal keys, equal code
  size_t key_len;
  uint32_t code;                      // index of its distinct kernel: ModulePlan.codes
  uint32_t weight;                    // 1 + the row of Prog.packed_weights that it reads; 0: none
  bool barrier;                       // preceded by a barrier
  bool checks_status;                 // preceded by a test whether an earlier kernel reported an index out of range
  struct KernelCall *whole;           // of a part of a row kernel: the whole one, which nobody calls; else NULL
  struct EntryFn *body;               // of a scan: the kernels of one step; else NULL
  uint32_t first_initial, n_initial;  // rows of ModulePlan.initial_values, where it only fills memory: fill.c
} KernelCall;

typedef struct FillRow FillRow;
typedef struct EntryFn {
  const Fn *f;
  const char *symbol;
  KernelCall *calls;
  uint32_t n_calls;
  bool single_threaded;  // run by worker 0, without barriers
} EntryFn;

typedef struct {
  Prog *p;
  const Target *t;
  bool one_worker;        // entries run on one thread
  const CgPipeline *how;  // of an object that is the whole program's
  RtArena *mem;
  const char *symbol;  // prefix of every symbol: the program's name
  EntryFn *entries;
  uint32_t n_entries;
  const KernelCall **codes;  // distinct kernels: the first call of each
  uint32_t n_codes, cap_codes;
  int64_t *block_bytes;     // by code, once it is emitted: what it takes from TnFrame.blocks
  RtNames keys;             // of the codes
  FillRow *initial_values;  // initial values, in the order of the calls
  uint32_t n_initial_values, cap_initial_values;
  bool profile;  // entries time their kernels: profile.c
  bool trace;    // and record each call: trace.c
  RtText *why;
} ModulePlan;

// module.c: the calls of all functions of p and what they share. Packed weights have their places.
bool cg_make_plan(ModulePlan *plan);
int64_t cg_block_bytes(const ModulePlan *plan, const EntryFn *e);  // of its kernels, once they are emitted

// kernel_key.c
bool cg_describe(ModulePlan *plan, KernelCall *call);  // arguments, dims, ids, key; false: why
bool cg_has_code(const Fn *f, const Kernel *k);

uint32_t cg_number_dim(ModulePlan *plan, KernelCall *c, Dim d);  // among the dims that the kernel takes

// fill.c
bool cg_only_fills(const Fn *f, const Kernel *k);  // memory with constants and random numbers
void cg_describe_fill(ModulePlan *plan, KernelCall *call);
void cg_fill_text(const ModulePlan *plan, const KernelCall *c, RtText *out);  // the rows of a call
LLVMTypeRef cg_fill_type(Cg *c);
V cg_fill_rows(Cg *c, const ModulePlan *plan, uint32_t first);
void cg_emit_fill(Cg *c, const ModulePlan *plan);

// scan.c
void cg_scan_text(ModulePlan *plan, KernelCall *c, RtText *out);  // the kernels of the body, for the key
bool cg_emit_scan(Cg *c, const ModulePlan *plan, const KernelCall *call);

// entry.c
void cg_place_barriers(ModulePlan *plan, EntryFn *e);
void cg_entry_text(const ModulePlan *plan, const EntryFn *e, RtText *out);  // canonical
LLVMTypeRef cg_kernel_type(Cg *c, const KernelCall *call);
const char *cg_kernel_symbol(const ModulePlan *plan, uint32_t code);
void cg_call_code(Cg *c, const ModulePlan *plan, const KernelCall *call, V *arg, uint32_t n);
void cg_emit_entry(Cg *c, const ModulePlan *plan, const EntryFn *e);

// packed_weights.c
uint32_t cg_weight_number(const KernelCall *c, const Target *t);  // for KernelCall.weight
void cg_emit_packed_weights(Cg *c, const ModulePlan *plan);

// profile.c: TN_PROFILE
bool cg_profile_wanted(void);
V cg_profile_cells(Cg *c, const char *name, uint64_t n);  // the image's n zeroed words of this name
V cg_profile_now(Cg *c);
V cg_profile_atomic(Cg *c, LLVMAtomicRMWBinOp op, V at, V amount);
void cg_profile_add(Cg *c, const ModulePlan *plan, const EntryFn *e, uint32_t call, V before, V start);
void cg_profile_emit(Cg *c, const ModulePlan *plan);
void cg_profile_text(const ModulePlan *plan, RtText *out);  // "function\tkernel\twhere it comes from\n" by call
void cg_profile_print(CgJit *j);
const char *cg_kernel_name(const ModulePlan *plan, const KernelCall *call);  // "linear,relu f32[8,64]"

// trace.c: TN_TRACE
bool cg_trace_wanted(void);
void cg_trace_add(Cg *c, uint32_t row, V worker, V before, V start, V end);
void cg_trace_write(CgJit *j, const char *text, double cycles_per_us);  // text: of cg_profile_text

// object_cache.c: the cache never fails; an unusable file or directory is a miss, and `why` says what is wrong with it
bool cg_cache_read(const char *dir, const RtText *key, CgObject *out, char *why, size_t why_size);
void cg_cache_write(const char *dir, const RtText *key, const CgObject *o);

#endif
