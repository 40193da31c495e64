// Tenure, ahead of time: a program as an object and a header, which need neither this library nor another one.
#ifndef TN_BUNDLE_H
#define TN_BUNDLE_H

#include "compile.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes, for path "out/vowels":
//
//   out/vowels.o            the code: position-independent, without undefined symbols and without static variables
//   out/vowels.h            its functions, with structs of their inputs and outputs, and the struct of the state (C99, C++17)
//   out/vowels.safetensors  parameters, buffers and state at the start
//   out/vowels_selftest.c   a program that shows that the object computes the numbers of this machine
//   out/vowels.json         the facts of the header, for bindings
//   out/vowels.plan         where every buffer lies, for each target, for tenure verify-plan out/vowels.plan --bundle=out/vowels.h
//
// docs/aot.md tells how to use them. The program is sealed: tn_compile may follow, building may not.
typedef struct {
  const char *name;  // with which every symbol begins: an identifier of C; NULL: the last part of the path
  // Comma-separated. x86-64-v3,x86-64-v4: code for both, the best that the CPU has is taken by NAME_init. NULL: this machine's
  const char *targets;
  const char *functions;  // comma-separated; parameters that only others use are left out; NULL: all
  // Comma-separated: o, a (static library), so (shared library), s (assembly), ll, bc (LLVM's); NULL: o. c: NAME.c, C99 for any
  // compiler, in place of objects; its targets are c64 (the default) and c32, by the size of pointers
  const char *emit;
  const char *section;  // of the object, for constants and embedded weights; NULL: .rodata
  // A safetensors file with the parameters' first values, trained or not; NULL: initial values by `seed`. Every weight and buffer
  // must be in it, and so must entries of the optimizer's that a function reads which does not train, as the averages of
  // tn_use_ema: all of the optimizer's where another function trains them. Others are passed over
  const char *weights;
  uint64_t seed;       // of those initial values
  bool embed_weights;  // they are constants of the object, and NAME_init copies them
  bool has_workers;    // one more entry per function, for threads of the caller
  bool small;          // code for size rather than speed
  bool fast_math;      // as in tn_compile_options, like the next two
  bool exact_convolution;
  const tn_bucket *buckets;
  size_t n_buckets;
  size_t arena_limit;  // as in tn_compile_options, like the next one
  tn_recompute recompute;
  bool quiet;  // shows nothing on stderr; errors and warnings are in tn_report either way
  tn_site at;
} tn_bundle_options;
TN_API tn_status tn_bundle(tn_program *p, const char *path, tn_bundle_options o);  // errors: tn_report

#ifdef __cplusplus
}
#endif

#endif
