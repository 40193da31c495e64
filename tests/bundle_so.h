// A program's model beside the shared object of its bundle, on one state each.
#ifndef TN_TESTS_BUNDLE_SO_H
#define TN_TESTS_BUNDLE_SO_H

#include "frontend/graph/program.h"
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "runtime/bundle/about.h"
#include "runtime/exec/instance.h"
#include "tests/check.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  tn_model *model;
  const TnBundleAbout *about;  // NULL: there is none, and the reason was printed
  unsigned char *state, *arena;
  void *library;
  char folder[32];
} BundleSo;

static inline void *bundle_so_block(size_t n) {
  void *p = aligned_alloc(TN_ALIGN, (n / TN_ALIGN + 1) * TN_ALIGN);
  if (!p) abort();
  return p;
}

// Both start from `seed`.
static inline BundleSo bundle_so_open(tn_program *(*make)(void), uint64_t seed) {
  BundleSo b = {.folder = "/tmp/tenure-bundle-XXXXXX"};
  char path[64];
  if (!mkdtemp(b.folder)) abort();
  setenv("TN_GEMM", "own", 1);  // as in a bundle
  snprintf(path, sizeof path, "%s/o", b.folder);
  tn_program *p = make(), *q = make();
  CHECK(tn_bundle(q, path, .emit = "so", .seed = seed) == TN_OK);
  b.model = tn_compile(p, .n_workers = 1, .seed = seed, .no_packed_weights = true, .cache_dir = "");
  b.library = dlopen(rt_printf(p->mem, "%s.so", path), RTLD_NOW | RTLD_LOCAL);
  b.about = b.library && b.model ? dlsym(b.library, "o_about") : NULL;
  if (!CHECK(b.about != NULL)) tn_report(q, stdout);
  tn_program_free(p), tn_program_free(q);
  if (!b.about) return b;
  b.state = bundle_so_block(b.about->state_bytes), b.arena = bundle_so_block(b.about->arena_bytes);
  CHECK(b.about->init(b.state, b.arena, b.about->arena_bytes, seed) == 0);
  return b;
}

static inline void bundle_so_close(BundleSo *b) {
  static const char *const ending[] = {".so", ".o", ".h", ".json", ".plan", "_selftest.c", ".safetensors"};
  char path[64];
  for (size_t k = 0; k < sizeof ending / sizeof *ending; k++) {
    snprintf(path, sizeof path, "%s/o%s", b->folder, ending[k]);
    unlink(path);
  }
  rmdir(b->folder);
  tn_model_free(b->model);
  if (b->library) dlclose(b->library);
  free(b->state), free(b->arena);
}

static inline int bundle_so_call(const BundleSo *b, uint32_t function, const void *in, const void *out) {
  return b->about->functions[function].call(b->state, b->arena, b->about->arena_bytes, in, out);
}

static inline bool bundle_so_same_state(const BundleSo *b) {
  const RtPlan *plan = rt_instance_plan(b->model->inst);
  bool same = CHECK(plan->n_params == b->about->n_tensors);
  for (uint32_t k = 0; k < plan->n_params && same; k++) {
    const TnBundleTensor *t = &b->about->tensors[k];
    same = !strcmp(t->path, plan->params[k].path) &&
           !memcmp(rt_instance_block(b->model->inst) + plan->params[k].offset, b->state + t->offset, t->bytes);
    if (!same) printf("%s differs\n", t->path);
  }
  return same;
}
#endif
