// Models from bundles: the plan of the target that this CPU runs best, as the bundle's object holds it.
#include "frontend/run/run.h"
#include "runtime/bundle/about.h"

enum { MOST_WORKERS = 64 };

// Objects that were emitted before have these layouts.
#define LAYOUT(type, bytes)                                      \
  _Static_assert(sizeof(void *) != 8 || sizeof(type) == (bytes), \
                 "bundles in the world have another layout: count up TN_BUNDLE_ABI, then write the new size here")
LAYOUT(TnBundleAbout, 152);
LAYOUT(RtPlan, 128);
LAYOUT(RtFunction, 160);
LAYOUT(RtVariant, 48);
LAYOUT(RtParam, 128);
LAYOUT(RtPort, 48);
LAYOUT(RtCheck, 120);
LAYOUT(RtSizeCheck, 16);
LAYOUT(RtDim, 24);
LAYOUT(RtSlot, 16);
LAYOUT(RtFit, 16);
LAYOUT(RtHyper, 12);
LAYOUT(TnFrame, 144);
LAYOUT(TnServices, 48);
LAYOUT(TnKernelStatus, 24);

typedef struct {
  FeCode code;  // first
  RtArena *mem;
} BundleCode;

// "avx512, avx2"
static void list_targets(const TnBundleAbout *a, char *out, size_t size) {
  size_t used = 0;
  out[0] = 0;
  for (uint32_t k = 0; k < a->n_targets && used < size; k++)
    used += (size_t)snprintf(out + used, size - used, "%s%.40s", k ? ", " : "", a->targets[k]);
}

// Nothing behind `version` and `abi` is read before they are known to be this library's.
static bool check_version(const TnBundleAbout *a, char *error, size_t size) {
  if (a->version != TN_BUNDLE_VERSION)
    return rt_fail(error, size, "the bundle has version %u, and this library opens version %d: emit it again",
                   a->version, TN_BUNDLE_VERSION);
  if (a->abi != TN_BUNDLE_ABI)
    return rt_fail(error, size,
                   "the code of bundle '%.100s' wants runtime %u, and this library is runtime %d: emit it again",
                   a->name, a->abi, TN_BUNDLE_ABI);
  return true;
}

static const RtPlan *plan_of(const TnBundleAbout *a, char *error, size_t size) {
  char targets[256];
  if (!a) return rt_fail(error, size, "no bundle is given"), NULL;
  if (!check_version(a, error, size)) return NULL;
  int k = a->cpu();
  if (k >= 0 && (uint32_t)k < a->n_targets && a->plans[k]) return a->plans[k];
  list_targets(a, targets, sizeof targets);
  rt_fail(error, size, "bundle '%.100s' has no code for this CPU: it was made for %s", a->name, targets);
  return NULL;
}

static void free_code(FeCode *code) {
  BundleCode *c = (BundleCode *)code;
  rt_arena_free(c->mem);
  rt_free(c);
}

static bool fill_bounds(BundleCode *c) {
  jmp_buf oom;
  c->mem = rt_arena_new();
  if (!c->mem || setjmp(oom)) return false;
  rt_arena_on_oom(c->mem, &oom);
  c->code.bounds = fe_bounds(c->code.plan, c->mem);
  rt_arena_on_oom(c->mem, NULL);
  return true;
}

static FeCode *code_of(const RtPlan *plan, uint32_t n_workers) {
  BundleCode *c = rt_malloc(sizeof *c);
  if (!c) return NULL;
  *c = (BundleCode){.code = {.free = free_code, .plan = plan, .n_workers = n_workers}};
  for (uint32_t f = 0; f < plan->n_functions; f++) c->code.info.n_variants += plan->functions[f].n_variants;
  atomic_init(&c->code.n_refs, 1);
  if (fill_bounds(c)) return &c->code;
  free_code(&c->code);
  return NULL;
}

tn_model *tn_model_open_bundle(const void *about, const tn_open_options *given, char *error, size_t error_size) {
  const tn_open_options o = given ? *given : (tn_open_options){0};
  const RtPlan *plan = plan_of(about, error, error_size);
  if (!plan) return NULL;
  FeCode *c = code_of(plan, o.n_workers < MOST_WORKERS ? o.n_workers : MOST_WORKERS);
  tn_model *m = c ? fe_model_new(c, o.seed, !o.no_init) : NULL;
  fe_code_release(c);
  if (!m)
    rt_fail(error, error_size, "there is no memory or thread for an instance of bundle '%.100s'",
            ((const TnBundleAbout *)about)->name);
  return m;
}
