// Data that peers can make too, and what all workloads share.
#include "bench/bench.h"
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LARGE = HUGE_PAGE, LINE = 64 };  // the tuned PyTorch asks for large pages from there, too

// Large blocks are mapped anew and unmapped: what glibc would give again has small pages already, and takes up to 1.7 times as
// long to read.
void *bench_block(size_t n) {
  mallopt(M_MMAP_THRESHOLD, LARGE);
  size_t unit = n >= LARGE ? HUGE_PAGE : LINE, all = (n / unit + 2) * unit;
  void *p = aligned_alloc(unit, all);
  if (p && unit == HUGE_PAGE) madvise(p, all, MADV_HUGEPAGE);
  return p ? memset(p, 0, n) : (abort(), p);
}

double bench_number(uint64_t k, uint32_t seed) {
  uint32_t h = (uint32_t)k * 2654435761u + seed * 40503u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  return (h >> 8) * 0x1p-24;
}

void bench_floats(float *out, size_t n, double lo, double hi, uint32_t seed) {
  for (size_t k = 0; k < n; k++) out[k] = (float)(lo + (hi - lo) * bench_number(k, seed));
}

void bench_integers(int64_t *out, size_t n, int64_t bound, uint32_t seed) {
  for (size_t k = 0; k < n; k++) out[k] = (int64_t)((double)bound * bench_number(k, seed));
}

// e^(3.4 + 0.7 z), at most 200; z is the sum of 12 numbers less 6, which every language adds alike.
static int64_t lognormal(uint64_t k) {
  double z = -6;
  for (uint64_t j = 0; j < 12; j++) z += bench_number(12 * k + j, 7);
  double n = exp(3.4 + 0.7 * z);
  return n > 200 ? 200 : n < 1 ? 1 : (int64_t)n;
}

bool bench_lengths_of(const char *kind, int64_t n[BENCH_SEQUENCES]) {
  for (uint64_t k = 0; k < BENCH_SEQUENCES; k++) {
    if (!strcmp(kind, "lognormal")) n[k] = k == 20 ? 200 : lognormal(k);
    else if (!strcmp(kind, "uniform")) n[k] = 16 + (int64_t)(497 * bench_number(k, 8));
    else if (!strcmp(kind, "long")) n[k] = k == 20 ? 2048 : 10 + (int64_t)(31 * bench_number(k, 9));
    else if (!strcmp(kind, "equal")) n[k] = 128;
    else if (!strcmp(kind, "short")) n[k] = 1 + (int64_t)(4 * bench_number(k, 10));
    else return false;
  }
  return true;
}

double bench_checksum(const float *v, size_t n) {
  double sum = 0;
  for (size_t k = 0; k < n; k++) sum += fabs((double)v[k]) * bench_number(k, 99);
  return sum;
}

tn_module *bench_gpt_block(tn_module *net, const char *name, int64_t wide) {
  tn_module *b = tn_module_new(net, name);
  tn_layer_norm(b, "l1", TN_SHAPE(wide));
  tn_linear(b, "qkv", wide, 3 * wide);
  tn_linear(b, "p", wide, wide);
  tn_layer_norm(b, "l2", TN_SHAPE(wide));
  tn_linear(b, "f", wide, 4 * wide);
  tn_linear(b, "g", 4 * wide, wide);
  return b;
}

tn_module *bench_gpt_words(tn_program *p, const char *name, int64_t n, int64_t wide) {
  tn_module *m = tn_embedding(tn_root(p), name, n, wide);
  tn_function *init = tn_init_function(p);
  tn_tensor w = tn_randn(init, TN_SHAPE(n, wide));
  tn_parameter_adopt(m, "weight", tn_mul(w, tn_scalar(init, 0.02)));
  return m;
}

static bool save_text(const tn_program *p, const char *path) {
  FILE *out = fopen(path, "w");
  if (!out) return false;
  bool good = tn_dump(p, out, TN_DUMP_IR) == TN_OK;
  return fclose(out) == 0 && good;
}

// With a limit, which a caller may try, nothing is printed.
static void say_diagnostics(const tn_program *p, Opening *o) {
  snprintf(o->why, o->why_size, "the program does not compile (its diagnostics stand above)");
  FILE *out = o->arena_limit ? fmemopen(o->why, o->why_size, "w") : NULL;
  if (!out) return;
  tn_report(p, out);
  fclose(out);
}

tn_model *bench_compile(tn_program *p, Opening *o) {
  bool recompute = o->recompute || o->arena_limit;
  tn_model *m = tn_compile(p, .n_workers = o->n_workers, .cache_dir = o->cache_dir, .arena_limit = o->arena_limit,
                           .recompute = recompute ? TN_RECOMPUTE_AUTO : TN_RECOMPUTE_OFF, .quiet = o->arena_limit > 0);
  if (!m) say_diagnostics(p, o);
  bool is_saved = !m || !o->tir || save_text(p, o->tir);
  tn_program_free(p);
  if (!is_saved) return snprintf(o->why, o->why_size, "%s cannot be written", o->tir), tn_model_free(m), NULL;
  if (!m || !o->weights || tn_save(m, o->weights, false) == TN_OK) return m;
  snprintf(o->why, o->why_size, "%s", tn_error_text(m));
  tn_model_free(m);
  return NULL;
}
