// Bundles for inference from trained files: averages that a function reads come from the file, entries that no function of the
// bundle has are passed over, and what is missing is said, by tn_bundle and by NAME_load.
#include "frontend/tenure.h"
#include "runtime/base.h"
#include "runtime/bundle/about.h"
#include "tests/check.h"
#include "tests/report.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 3, N_STEPS = 20 };
typedef enum { EMA, SWA, BATCH_NORM, N_KINDS } Kind;

static char folder[] = "/tmp/tenure-trained-XXXXXX";
static RtArena *mem;
static const char *path_of(const char *file) { return rt_printf(mem, "%s/%s", folder, file); }

// ---- a step, and a function that predicts with what it has averaged
static tn_tensor net(tn_module *root, tn_tensor x) {
  return tn_call(tn_child(root, "norm"), tn_call(tn_child(root, "layer"), x));
}

static void add_step(tn_program *p, Kind kind) {
  tn_module *root = tn_root(p);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor y = tn_call(tn_child(root, "head"), net(root, tn_input(f, "x", TN_F32, TN_SHAPE(4, WIDTH))));
  tn_tensor loss = tn_mean(tn_square(y));
  tn_backward(loss);
  tn_sgd(f, root, .lr = 0.1);
  if (kind == EMA) tn_ema(f, root, .decay = 0.9);
  if (kind == SWA) tn_swa(f, root);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static void add_predict(tn_program *p, Kind kind) {
  tn_module *root = tn_root(p);
  tn_function *f = tn_function_begin(p, "predict");
  tn_eval(f, true);
  if (kind == EMA) tn_use_ema(f, root);
  if (kind == SWA) tn_use_swa(f, root);
  tn_output(f, "y", net(root, tn_input(f, "x", TN_F32, TN_SHAPE(2, WIDTH))));
  tn_function_end(f);
}

static tn_program *make(Kind kind) {
  tn_program *p = tn_program_create("trained");
  tn_linear(tn_root(p), "layer", WIDTH, WIDTH);
  if (kind == BATCH_NORM) tn_batch_norm(tn_root(p), "norm", WIDTH);
  else tn_linear(tn_root(p), "norm", WIDTH, WIDTH);
  tn_linear(tn_root(p), "head", WIDTH, 1);  // predict has no use for it
  add_step(p, kind);
  add_predict(p, kind);
  return p;
}

// What predict gives once it is trained; the two files are of it.
static void train(Kind kind, const char *with_state, const char *without, float *y) {
  tn_program *p = make(kind);
  tn_model *m = tn_compile(p, .n_workers = 1, .no_packed_weights = true);
  float x[4 * WIDTH], loss;
  for (int k = 0; k < 4 * WIDTH; k++) x[k] = (float)(k % 5) - 1.5f;
  for (int k = 0; k < N_STEPS; k++) CHECK(!tn_run(m, "step", TN_IN(tn_f32(x, 4, WIDTH)), TN_OUT(tn_f32_scalar(&loss))));
  CHECK(!tn_run(m, "predict", TN_IN(tn_f32(x, 2, WIDTH)), TN_OUT(tn_f32(y, 2, WIDTH))));
  CHECK(!tn_save(m, with_state, true) && !tn_save(m, without, false));
  tn_model_free(m), tn_program_free(p);
}

// ---- its bundle
typedef struct {
  void *library, *state, *arena;
  const TnBundleAbout *about;
} Open;

static Open open_bundle(const char *path, const char *name) {
  Open o = {.library = dlopen(rt_printf(mem, "%s.so", path), RTLD_NOW | RTLD_LOCAL)};
  o.about = o.library ? dlsym(o.library, rt_printf(mem, "%s_about", name)) : NULL;
  if (!CHECK(o.about != NULL)) exit(check_report());
  size_t n = o.about->arena_bytes + TN_ALIGN;
  o.state = aligned_alloc(TN_ALIGN, o.about->state_bytes), o.arena = aligned_alloc(TN_ALIGN, n / TN_ALIGN * TN_ALIGN);
  CHECK(o.about->init(o.state, o.arena, o.about->arena_bytes, 1) == 0);
  return o;
}

static void close_bundle(Open *o) {
  free(o->state), free(o->arena);
  dlclose(o->library);
}

static bool predicts(const Open *o, const float *wanted) {
  float x[2 * WIDTH], y[2 * WIDTH] = {0};
  for (int k = 0; k < 2 * WIDTH; k++) x[k] = (float)(k % 5) - 1.5f;
  const TnBundleFunction *f = &o->about->functions[0];
  CHECK(f->call(o->state, o->arena, o->about->arena_bytes, (const void *[]){x}, (void *[]){y}) == 0);
  bool same = true;
  for (int k = 0; k < 2 * WIDTH; k++) same &= y[k] - wanted[k] < 1e-5f && wanted[k] - y[k] < 1e-5f;
  return same;
}

static int load(const Open *o, const char *path) {
  unsigned char bytes[4096];
  FILE *in = fopen(path, "rb");
  size_t n = in ? fread(bytes, 1, sizeof bytes, in) : 0;
  if (in) fclose(in);
  CHECK(n && n < sizeof bytes);
  return o->about->load(o->state, bytes, n);
}

static bool bundled(Kind kind, const char *name, const char *functions, const char *weights, const char **why) {
  tn_program *p = make(kind);
  bool good = !tn_bundle(p, path_of(name), .functions = functions, .weights = weights, .emit = "so", .quiet = true,
                         .embed_weights = *name == 'e');
  *why = report_of(p);
  if (!good) *why = rt_strdup(mem, *why);
  tn_program_free(p);
  return good;
}

static void test_kind(Kind kind) {
  const char *with_state = path_of("state.safetensors"), *without = path_of("weights.safetensors"), *why;
  bool needs_state = kind != BATCH_NORM;
  float y[2 * WIDTH];
  train(kind, with_state, without, y);
  const char *name = rt_printf(mem, "embedded%d", kind);
  if (CHECK(bundled(kind, name, "predict", with_state, &why))) {
    Open o = open_bundle(path_of(name), name);
    CHECK(predicts(&o, y));
    close_bundle(&o);
  } else printf("%s\n", why);
  name = rt_printf(mem, "loaded%d", kind);
  if (CHECK(bundled(kind, name, "predict", with_state, &why))) {
    Open o = open_bundle(path_of(name), name);
    CHECK(!predicts(&o, y));  // what is drawn
    for (uint32_t k = 0; k < o.about->n_tensors; k++)
      CHECK(!strstr(o.about->tensors[k].path, "head"));  // neither the weight nor its average
    if (needs_state) CHECK_HAS(o.about->error(load(&o, without)), "the file has no tensor 'optimizer.");
    else CHECK(load(&o, without) == 0);
    CHECK(load(&o, with_state) == 0 && predicts(&o, y));
    CHECK(o.about->init(o.state, o.arena, o.about->arena_bytes, 2) == 0);
    CHECK(load(&o, rt_printf(mem, "%s.safetensors", path_of(name))) == 0 &&
          predicts(&o, y));  // the one beside the object
    close_bundle(&o);
  } else printf("%s\n", why);
  if (kind == EMA) {
    CHECK(!bundled(kind, "refused", "predict", without, &why));
    CHECK_HAS(why, "'optimizer.");
    CHECK_HAS(why, "is missing");
    CHECK(!bundled(kind, "refused", NULL, without, &why) && bundled(kind, "refused", NULL, with_state, &why));
  }
  if (kind == SWA) CHECK(bundled(kind, "step", "step", without, &why));  // an optimizer begins anew
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  mem = rt_arena_new();
  for (Kind kind = EMA; kind < N_KINDS; kind++) test_kind(kind);
  CHECK(!system(rt_printf(mem, "rm -r %s", folder)));
  rt_arena_free(mem);
  return check_report();
}
