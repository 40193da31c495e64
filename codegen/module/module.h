// What module.c, kernel_key.c and entry.c share: the kernels of all functions in order, which of them are equal, and where
// the team waits.
#ifndef TN_CODEGEN_MODULE_MODULE_H
#define TN_CODEGEN_MODULE_MODULE_H

#include "codegen/cg.h"

// One kernel at its place in one function: what it is called with.
typedef struct {
  const Fn *f;
  const Kernel *k;
  KernelArg *kernel_args;  // in order of first occurrence, like the rest
  uint32_t n_kernel_args, cap_kernel_args;
  Dim *dims;  // named dims whose run-time value it takes
  uint32_t n_dims, cap_dims;
  Val *ids;
  uint32_t n_ids, cap_ids;
  const char *key;  // canonical text: equal keys, equal code
  size_t key_len;
  uint64_t hash;
  uint32_t code;         // which distinct kernel
  uint32_t weight;       // 1 + the row of Prog.packed_weights that it reads; 0: none
  bool barrier;          // the team waits before it
  bool checks_status;    // before it: has an earlier kernel found an index out of range?
  struct EntryFn *body;  // of a scan: the kernels of one step; else NULL
} KernelCall;

typedef struct EntryFn {
  const Fn *f;
  const char *symbol;
  KernelCall *calls;
  uint32_t n_calls;
  bool single_threaded;  // worker 0 alone runs it, without barriers
} EntryFn;

typedef struct {
  Prog *p;
  const Target *t;
  RtArena *mem;
  const char *symbol;  // prefix of every symbol: the program's name
  EntryFn *entries;
  uint32_t n_entries;
  const KernelCall **codes;  // distinct kernels: the call that stands for all equal ones
  uint32_t n_codes, cap_codes;
  bool profile;  // the entries time their kernels: profile.c
  bool trace;    // and keep each call's times: trace.c
  RtText *why;
} ModulePlan;

// kernel_key.c
bool cg_describe(ModulePlan *plan, KernelCall *call);  // ports, dims, ids, key; false: why
bool cg_has_code(const Fn *f, const Kernel *k);

uint32_t cg_number_dim(ModulePlan *plan, KernelCall *c, Dim d);  // among the dims that the kernel takes

// scan.c
void cg_scan_text(ModulePlan *plan, KernelCall *c, RtText *out);  // what the loop calls, for the key
bool cg_emit_scan(Cg *c, const ModulePlan *plan, const KernelCall *call);

// entry.c
void cg_place_barriers(ModulePlan *plan, EntryFn *e);
void cg_entry_text(const ModulePlan *plan, const EntryFn *e, RtText *out);  // canonical
LLVMTypeRef cg_kernel_type(Cg *c, const KernelCall *call);
const char *cg_kernel_symbol(const ModulePlan *plan, uint32_t code);
void cg_emit_entry(Cg *c, const ModulePlan *plan, const EntryFn *e);

// packed_weights.c
uint32_t cg_weight_number(const KernelCall *c, const Target *t);  // for KernelCall.weight
void cg_emit_packed_weights(Cg *c, const ModulePlan *plan);

// profile.c: TN_PROFILE
bool cg_profile_wanted(void);
LLVMValueRef cg_profile_now(Cg *c);
void cg_profile_add(Cg *c, const ModulePlan *plan, const EntryFn *e, uint32_t call, LLVMValueRef before,
                    LLVMValueRef start);
void cg_profile_emit(Cg *c, const ModulePlan *plan);
void cg_profile_print(CgJit *j);

// trace.c: TN_TRACE
bool cg_trace_wanted(void);
void cg_trace_add(Cg *c, uint32_t row, LLVMValueRef worker, LLVMValueRef before, LLVMValueRef start, LLVMValueRef end);
void cg_trace_write(CgJit *j, const char *text, double cycles_per_us);  // text: "function\tkernel\n" by row

// object_cache.c: the cache never fails; an unusable file or directory is a miss
bool cg_cache_read(const char *dir, const RtText *key, CgObject *out);
void cg_cache_write(const char *dir, const RtText *key, const CgObject *o);

// jit.c: several object files in one CgObject
bool cg_object_join(const CgObject *part, uint32_t n, CgObject *out);  // copies; false: out of memory
// A view of file k; false: there is none, or o is malformed
bool cg_object_part(const CgObject *o, uint32_t k, CgObject *out);
void cg_init_llvm(void);

#endif
