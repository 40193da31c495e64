// CPUs as rows of one table: docs/targets.md says what a row means and how to add one.
//
// The baseline name of a row is LLVM's name for a feature level; the features are listed beside it all the same, so that
// a row says everything that its code may use.
#include "codegen/target.h"
#include "runtime/near.h"

#include <string.h>

#define X86_V2 "+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2"
#define X86_V3 X86_V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
#define X86_V4 X86_V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
#define X86_LINUX "x86_64-unknown-linux-gnu"

// The microkernel fills the register file: mr x nv accumulators, nv vectors of B and one broadcast of A.
//
// The rounding errors of a sum of equal terms grow with their number: those of n terms in partial sums of p are as of p + n / p.
enum { PARTIAL_SUM = 128 };

// Cache and block sizes were found on the AVX-512 machine (codegen/target.h names the experiments) and are every row's
// until somebody measures on another one.
#define MEASURED_ON_AVX512 MEASURED_SIZES, .facts = IR_TARGET_FACTS
#define MEASURED_SIZES                                                                                       \
  .partial_sum = PARTIAL_SUM, .stack_bytes = 256 << 10, .gemm_mc_bytes = 512 << 10, .gemm_kc = 1024,         \
  .gemm_kc_packed_a = 256, .gemm_b_bytes = 192 << 10, .gemm_kc_in_place = 2048, .gemm_acc_bytes = 128 << 10, \
  .rnn_kc_bytes = 32 << 10

// Products on AMX outrun the memory that an update in their epilogue waits for: it reads the gradient from cache right
// behind them instead.
#define NO_UPDATE_IN_EPILOGUE INT64_MAX

// Of a microcontroller: blocks by the stack, which is most of what its memory has room for; fusion as everywhere, so that
// kernels are the same.
#define SMALL_MEMORY                                                                                                   \
  .partial_sum = PARTIAL_SUM, .stack_bytes = 8 << 10, .bounded_stack = true, .gemm_mc_bytes = 4 << 10, .gemm_kc = 256, \
  .gemm_kc_packed_a = 128, .gemm_kc_in_place = 256, .gemm_acc_bytes = 4 << 10, .rnn_kc_bytes = 4 << 10,                \
  .facts = IR_TARGET_FACTS

#define AVX512_ROW                                                                                                \
  .pointer_bits = 64, .has_image = true, .vl = 16, .vector_register = "v", .has_fma = true, .has_rounding = true, \
  .has_avx512 = true, .cheap_shuffle = true, .gemm_mr = 14, .gemm_nv = 2, .dot_accumulators = 16, .rnn_mr = 6,    \
  MEASURED_SIZES

// clang-format off
static const Target targets[] = {
    {"x86-64-v4-amx", "amx", X86_LINUX, "x86-64-v4", X86_V4 ",+amx-tile,+amx-bf16", .ahead = "x86-64-v4",
     .has_amx = true, .worker_bytes = 2 << 20, .stream_ahead = 4096, .follows_streams = true, AVX512_ROW,
     .facts = IR_TARGET_FACTS_WITH(NO_UPDATE_IN_EPILOGUE)},
    {"x86-64-v4", "avx512", X86_LINUX, "x86-64-v4", X86_V4, AVX512_ROW, .stores_past_caches = true,
     .halves_vectors = true, .facts = IR_TARGET_FACTS},
    {"x86-64-v3", "avx2", X86_LINUX, "x86-64-v3", X86_V3, .pointer_bits = 64, .has_image = true,
     .vl = 8, .vectors_at_once = 4, .vector_register = "v", .has_fma = true, .has_rounding = true,
     .slow_masks = true, .memory_streams = 4, .stores_past_caches = true,
     .gemm_mr = 6, .gemm_nv = 2, .dot_accumulators = 8, .rnn_mr = 2, MEASURED_ON_AVX512},
#if defined(__x86_64__)
    {"x86-64-v2", "generic", X86_LINUX, "x86-64-v2", X86_V2, .pointer_bits = 64, .has_image = true,
#else
    {"x86-64-v2", NULL, X86_LINUX, "x86-64-v2", X86_V2, .pointer_bits = 64, .has_image = true,
#endif
     .vl = 4, .vector_register = "v",
     .gemm_mr = 4, .gemm_nv = 2, .dot_accumulators = 8, .prefers_blas = true, .rnn_mr = 2, MEASURED_ON_AVX512},
    {"aarch64", "neon", "aarch64-unknown-linux-gnu", "generic", "+neon", .pointer_bits = 64, .has_image = true,
     .vl = 4, .vector_register = "w", .has_fma = true, .has_rounding = true,
     .gemm_mr = 8, .gemm_nv = 3, .dot_accumulators = 8, .rnn_mr = 6, MEASURED_ON_AVX512},
    {"riscv64", "rv64gcv", "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b", .pointer_bits = 64,
     .vl = 4, .has_fma = true, .has_rounding = true,
     .gemm_mr = 8, .gemm_nv = 2, .dot_accumulators = 8, .rnn_mr = 6, MEASURED_ON_AVX512},
    {"thumbv8.1m", "cortex-m55", "thumbv8.1m.main-unknown-none-eabihf", "cortex-m55", "+mve.fp,+fp64", .pointer_bits = 32,
     .fixed_place = true, .loses_nan = true,
     .vl = 4, .has_fma = true, .has_rounding = true,
     .gemm_mr = 4, .gemm_nv = 1, .dot_accumulators = 4, .rnn_mr = 2, SMALL_MEMORY},
#if !defined(__x86_64__)
    {"generic", NULL, NULL, "generic", "", .pointer_bits = 8 * sizeof(void *), .has_image = true,
     .vl = 4,
     .gemm_mr = 4, .gemm_nv = 2, .dot_accumulators = 8, .prefers_blas = true, .rnn_mr = 2, MEASURED_ON_AVX512},
#endif
};
// clang-format on
// clang-format off
static const Target plain[] = {
    {"plain", NULL, NULL, "", "", .vl = 4, .gemm_mr = 4, .gemm_nv = 2, .dot_accumulators = 4, .rnn_mr = 2, MEASURED_ON_AVX512},
    {"plain", NULL, NULL, "", "", .vl = 4, .gemm_mr = 4, .gemm_nv = 1, .dot_accumulators = 4, .rnn_mr = 2, SMALL_MEMORY},
};
// Of C text: vectors of four lanes, and no instruction that not all machines have. The triple says how structs lie.
static const Target c99[] = {
    {"c64", NULL, "loongarch64-unknown-linux-gnu", "", "+f,+d", .pointer_bits = 64, .vl = 4, .gemm_mr = 4, .gemm_nv = 2,
     .dot_accumulators = 4, .rnn_mr = 2, MEASURED_ON_AVX512},
    {"c32", NULL, "riscv32-unknown-elf", "", "+m,+f,+d", .pointer_bits = 32, .vl = 4, .gemm_mr = 4, .gemm_nv = 1,
     .dot_accumulators = 4, .rnn_mr = 2, SMALL_MEMORY},
};
// clang-format on

enum { N_TARGETS = sizeof targets / sizeof *targets };

const Target *cg_targets(uint32_t *n) {
  *n = N_TARGETS;
  return targets;
}

const Target *cg_target_find(const char *name) {
  for (size_t k = 0; k < N_TARGETS; k++)
    if (!strcmp(targets[k].name, name) || (targets[k].alias && !strcmp(targets[k].alias, name))) return &targets[k];
  return NULL;
}

const Target *cg_target_ahead(const Target *t) { return t->ahead ? cg_target_find(t->ahead) : t; }

const Target *cg_target_plain(bool small) { return &plain[small]; }

const Target *cg_target_c99(const char *name) {
  for (size_t k = 0; k < sizeof c99 / sizeof *c99; k++)
    if (!strcmp(c99[k].name, name)) return &c99[k];
  return NULL;
}

void cg_target_unknown(const char *name, RtText *why) {
  RtNear near = {.wanted = name};
  rt_text_add(why, "there is no target '%s': ", name);
  for (size_t k = 0; k < N_TARGETS; k++) {
    const char *alias = targets[k].alias;
    rt_text_add(why, alias ? "%s%s (%s)" : "%s%s", k ? ", " : "", targets[k].name, alias);
    rt_near_offer(&near, targets[k].name);
    if (alias) rt_near_offer(&near, alias);
  }
  rt_text_add(why, "%s", rt_near_text(&near));
}

void cg_target_key(const Target *t, RtText *out) {
  rt_text_add(out,
              "%s %s %s %s %s\npointer %u%s%s%s vl %u at once %u fma %d rounding %d avx512 %d amx %d masks %d shuffle "
              "%d past %d halves %d\n",
              t->name, t->triple ? t->triple : "host", t->cpu, t->features, t->abi ? t->abi : "", t->pointer_bits,
              t->fixed_place ? " fixed" : "", t->bounded_stack ? " bounded" : "", t->without_blas ? " no blas" : "",
              t->vl, t->vectors_at_once, t->has_fma, t->has_rounding, t->has_avx512, t->has_amx, !t->slow_masks,
              t->cheap_shuffle, t->stores_past_caches, t->halves_vectors);
  const TargetFacts *f = &t->facts;
  const int64_t size[] = {
      t->gemm_mr,        t->gemm_nv,        t->dot_accumulators, t->stream_ahead, t->follows_streams,
      t->gemm_mc_bytes,  t->gemm_kc,        t->gemm_kc_packed_a, t->gemm_b_bytes, t->gemm_kc_in_place,
      t->gemm_acc_bytes, t->prefers_blas,   t->rnn_mr,           t->rnn_kc_bytes, t->stack_bytes,
      t->partial_sum,    t->memory_streams, t->worker_bytes,     f->lanes,        f->l1_bytes,
      f->l2_bytes,       f->llc_bytes,      f->page_bytes,       f->update_bytes, f->step_bytes};
  for (size_t k = 0; k < sizeof size / sizeof *size; k++) rt_text_add(out, "%s%lld", k ? " " : "", (long long)size[k]);
  rt_text_add(out, "%s convolution %d\n", t->fast_math ? " fast" : "", t->convolution);
}
