// Support code of bundles: what every function of a compiled object does before and after its kernels. Freestanding C:
// built as LLVM bitcode for each architecture, and linked into every object (codegen/bundle); built natively for tests.
//
// Nothing is allocated and nothing static is written: memory is the caller's, by lifetime.
//
//   state   TnBundleState, then the parameter block at TN_ALIGN: lives on, is saved
//   arena   the plan's arena, then a TnBundleCall: of one call, may be lost between calls
#ifndef TN_RUNTIME_BUNDLE_BUNDLE_H
#define TN_RUNTIME_BUNDLE_BUNDLE_H

#include "runtime/bundle/about.h"

typedef struct {
  uint64_t plan;  // of the bundle that initialised it; 0: nobody did
  uint64_t seed, counter;
  uint32_t target;
  uint32_t reserved[9];
} TnBundleState;  // 64 bytes

// Features that a target wants of a CPU: on x86 as cpuid reports them, elsewhere as Linux does.
typedef enum {
  TN_LEAF1_ECX,
  TN_LEAF7_EBX,
  TN_LEAF7_ECX,
  TN_LEAF7_EDX,
  TN_LEAF7_1_EAX,
  TN_LEAF7_1_EDX,
  TN_EXT1_ECX,
  TN_CPU_WORDS,
  TN_HWCAP = 0,
  TN_HWCAP2,
  TN_HWCAP2_HIGH,
  TN_HWPROBE,
  TN_HWPROBE_HIGH
} TnCpuWord;
typedef struct TnBundleCpu {
  uint32_t word[TN_CPU_WORDS];
  uint64_t state;  // x86: registers that the system saves (XCR0); RISC-V: bytes of a vector register, at least
} TnBundleCpu;

// Bytes of the parameter block, of which the rest is 0
typedef struct {
  size_t offset, bytes;
} TnBundlePiece;

// Everything of one bundle: constants of the object.
typedef struct {
  const TnBundleAbout *about;
  const TnBundleCpu *cpus;  // by target
  const char *sentences;    // of statuses: one after the other, each ended by 0
  const uint32_t *sentence_at;
  uint32_t n_sentences;
  const uint32_t *function_status;  // by function of the plan: its first status; UINT32_MAX: not callable (init)
  uint32_t tensor_status;           // the first of tensors, TN_BUNDLE_PER_TENSOR each
  const char *const *aliases;       // of tensors; pairs with alias_of
  const uint32_t *alias_of;
  uint32_t n_aliases;
  const unsigned char *file_header;  // of a saved file: length and JSON; digits of seed and run counter are put in
  size_t file_header_bytes, file_bytes, seed_at, runs_at;
  const uint32_t *file_order;  // all tensors, as they stand in a saved file; it lacks those that are RT_TRANSIENT
  uint32_t needs_state;        // a function reads entries of the optimizer's, and no function makes them
  const unsigned char
      *weights;  // bytes of the initial parameter block that are not 0, one piece after the other; NULL: drawn by @init
  const TnBundlePiece *pieces;
  uint32_t n_pieces;
} TnBundle;

// ---- statuses: indices of sentences. Fixed ones, then those of functions, then those of tensors.
typedef enum {
  TN_BUNDLE_OK,
  TN_BUNDLE_BAD_STATE,      // NULL or not aligned
  TN_BUNDLE_NO_STATE,       // not initialised, or by another bundle
  TN_BUNDLE_BAD_ARENA,      // NULL or not aligned
  TN_BUNDLE_SMALL_ARENA,    // fewer bytes than the function wants
  TN_BUNDLE_ARENA_OVERLAP,  // with the state
  TN_BUNDLE_NO_CPU,
  TN_BUNDLE_NO_ARGUMENTS,  // in or out is NULL
  TN_BUNDLE_BAD_WORKER,
  TN_BUNDLE_NO_FILE,     // not a safetensors file
  TN_BUNDLE_SHORT_FILE,  // ends before what its header names
  TN_BUNDLE_BAD_RANDOM,  // the metadata's seed or run counter is no number
  TN_BUNDLE_SMALL_BUFFER,
  TN_BUNDLE_PART_STATE,    // some optimizer entries but not all
  TN_BUNDLE_FILE_OVERLAP,  // with the state
  TN_BUNDLE_NAME_TWICE,    // in the file's header
  TN_BUNDLE_MANY_NAMES,    // in the file's header, more than tn_bundle_most_names
  TN_BUNDLE_N_FIXED
} TnBundleStatus;

// Of a function, behind its first status
enum { TN_BUNDLE_IN_NULL, TN_BUNDLE_IN_ALIGN, TN_BUNDLE_IN_PARAM, TN_BUNDLE_IN_ARENA, TN_BUNDLE_PER_INPUT };
enum { TN_BUNDLE_OUT_NULL, TN_BUNDLE_OUT_ALIGN, TN_BUNDLE_OUT_OVERLAP, TN_BUNDLE_PER_OUTPUT };
enum { TN_BUNDLE_CHECK_RANGE, TN_BUNDLE_CHECK_ORDER, TN_BUNDLE_CHECK_SUM, TN_BUNDLE_PER_CHECK };
enum { TN_BUNDLE_TENSOR_MISSING, TN_BUNDLE_TENSOR_DIFFERS, TN_BUNDLE_PER_TENSOR };
static inline uint32_t tn_status_of_size(uint32_t n_dims, uint32_t k) { return n_dims + k; }
static inline uint32_t tn_status_of_input(const RtFunction *f, uint32_t n_dims, uint32_t k) {
  return tn_status_of_size(n_dims, f->n_size_checks) + k * TN_BUNDLE_PER_INPUT;
}
static inline uint32_t tn_status_of_output(const RtFunction *f, uint32_t n_dims, uint32_t k) {
  return tn_status_of_input(f, n_dims, f->n_inputs) + k * TN_BUNDLE_PER_OUTPUT;
}
static inline uint32_t tn_status_of_check(const RtFunction *f, uint32_t n_dims, uint32_t k) {
  return tn_status_of_output(f, n_dims, f->n_outputs) + k * TN_BUNDLE_PER_CHECK;
}
static inline uint32_t tn_status_of_kernel(const RtFunction *f, uint32_t n_dims) {  // an index computed in the run
  return tn_status_of_check(f, n_dims, f->n_checks);
}
static inline uint32_t tn_n_statuses(const RtFunction *f, uint32_t n_dims) {
  return tn_status_of_kernel(f, n_dims) + 1;
}

// Names of a file are compared without memory for them, in time that grows with their square: so many and no more.
static inline uint32_t tn_bundle_most_names(const TnBundleAbout *a) {
  return a->n_tensors < 1024 ? 4096 : 4 * a->n_tensors;
}

// ---- one call, in memory behind the plan's arena
typedef void TnBundleBarrier(void *ctx, int32_t which, int32_t count);
typedef struct {
  TnFrame frame;
  TnKernelStatus status;
  TnBundleBarrier *barrier;  // NULL: one worker
  void *ctx;
  TnEntry entry;
  int32_t verdict;
} TnBundleCall;
enum { TN_BUNDLE_CALL_BYTES = 320 };
_Static_assert(sizeof(TnBundleCall) <= TN_BUNDLE_CALL_BYTES, "room for a call");
// What a call of f takes behind the plan's arena: the call, slots, dims, pointers of inputs and outputs.
static inline size_t tn_bundle_call_bytes(const RtPlan *p, const RtFunction *f) {
  size_t n = TN_BUNDLE_CALL_BYTES + 8 * ((size_t)p->n_slots + p->n_dims + f->n_inputs + f->n_outputs);
  return (n + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
}
// What NAME_init takes: the function's arena, its blocks behind it.
static inline size_t tn_bundle_blocks_at(const RtFunction *f) {
  return ((size_t)f->arena_bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
}
static inline size_t tn_bundle_init_bytes(const RtPlan *p) {
  if (p->init == RT_NO_FUNCTION) return 0;
  const RtFunction *f = &p->functions[p->init];
  return f->block_bytes ? tn_bundle_blocks_at(f) + (size_t)f->block_bytes : (size_t)f->arena_bytes;
}

typedef struct {
  uint32_t function;  // of the plan
  TnBundleState *state;
  void *arena;
  size_t arena_bytes;
  const void *in, *out;
} TnBundleArgs;

// ---- runtime/bundle/call.c. Statuses.
void tn_bundle_wait(TnFrame *f, int32_t which,
                    int32_t count);  // TnServices.barrier: what code generation looks for by name
int tn_bundle_call(const TnBundle *b, uint32_t function, uint32_t listed, void *state, void *arena, size_t arena_bytes,
                   const void *in, const void *out);
int tn_bundle_call_worker(const TnBundle *b, uint32_t function, uint32_t listed, void *state, void *arena,
                          size_t arena_bytes, const void *in, const void *out, int32_t worker, int32_t n_workers,
                          TnBundleBarrier *barrier, void *ctx);
int tn_bundle_init(const TnBundle *b, void *state, void *arena, size_t arena_bytes, uint64_t seed);
const char *tn_bundle_error(const TnBundle *b, int status);

// ---- runtime/bundle/cpu.c
int tn_bundle_cpu(const TnBundle *b);

// ---- runtime/bundle/load.c, save.c: safetensors in memory
// Any bytes are safe; a file that does not fit changes nothing. Every weight and buffer must be there under its path or
// an alias; the optimizer's entries all, and then seed and run counter are taken too, or none (needs_state: all); others are
// passed over.
int tn_bundle_load(const TnBundle *b, void *state, const void *bytes, size_t n);
// bytes NULL and n 0: only *needed is wanted, which may be NULL otherwise.
int tn_bundle_save(const TnBundle *b, const void *state, void *bytes, size_t n, size_t *needed);

// ---- for those files: the state of this bundle, or the status that says why it is not
int tn_bundle_check_state(const TnBundle *b, const void *state);
bool tn_bundle_overlaps_state(const TnBundle *b, const void *state, const void *bytes, size_t n);

#endif
