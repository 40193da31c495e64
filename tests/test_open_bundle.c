// Models opened from a bundle do what compiled ones do, with the same bits: training, evaluation by smaller plans, loaders,
// rates, files, instances. And what is refused. One bundle is written by hand over the plan of a compiled model, the other is a
// shared library that tn_bundle made.
#include "frontend/compile/compile.h"
#include "frontend/tenure.h"
#include "runtime/bundle/about.h"
#include "tests/check.h"
#include "tests/models.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

enum { BATCH = 8, IN = 6, OUT = 3 };
static int this_cpu(void) { return 1; }
static int no_cpu(void) { return -1; }

static tn_program *build(void) {
  tn_program *p = tn_program_create("net");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_module *net = tn_root(p), *hidden = tn_linear(net, "hidden", IN, 16), *head = tn_linear(net, "head", 16, OUT);
  tn_group(net, 7, "**/bias", .no_weight_decay = true);
  tn_function *step = tn_function_begin(p, "step");
  tn_tensor x = tn_input(step, "x", TN_F32, TN_SHAPE(B, IN)), y = tn_input(step, "label", TN_I64, TN_SHAPE(B));
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_dropout(tn_relu(tn_call(hidden, x)), 0.1)), y);
  tn_backward(loss);
  tn_adamw(step, net, .lr = 1e-2);
  tn_output(step, "loss", loss);
  tn_function_end(step);
  tn_function *f = tn_function_begin(p, "predict");
  tn_output(f, "y", tn_call(head, tn_relu(tn_call(hidden, tn_input(f, "x", TN_F32, TN_SHAPE(B, IN))))));
  tn_function_end(f);
  return p;
}

// Without what no bundle has, so that all bits are the same.
static tn_model *compile(tn_program *p) {
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  setenv("TN_GEMM", "own", 1);
  tn_model *m = tn_compile(p, .n_workers = 2, .seed = 5, .no_packed_weights = true, .buckets = TN_BUCKET_LIST({B, 2}));
  if (!CHECK(m)) tn_report(p, stdout), exit(1);
  return m;
}

// What an emitter would write for two targets, of which this CPU runs the second.
typedef struct {
  TnBundleAbout about;
  const RtPlan *plans[2];
} Bundle;
static const char *const targets[] = {"avx512", "avx2"};
static void describe(Bundle *b, const tn_model *of) {
  b->plans[0] = NULL, b->plans[1] = of->code->plan;
  b->about = (TnBundleAbout){.version = TN_BUNDLE_VERSION,
                             .abi = TN_BUNDLE_ABI,
                             .name = "net",
                             .n_targets = 2,
                             .targets = targets,
                             .cpu = this_cpu,
                             .plans = b->plans};
}

static tn_model *open(const Bundle *b) {
  char why[256] = "";
  tn_model *m = tn_model_open_bundle(&b->about, &(tn_open_options){.n_workers = 2, .seed = 5}, why, sizeof why);
  if (!CHECK(m)) puts(why), exit(1);
  return m;
}

static void fill(float *x, int64_t *y, int round) {
  for (int k = 0; k < BATCH * IN; k++) x[k] = (float)((k * 7 + round * 5) % 11) / 5 - 1;
  for (int k = 0; k < BATCH; k++) y[k] = (k + round) % OUT;
}

static float step(tn_model *m, int round) {
  float x[BATCH * IN], loss = -1;
  int64_t y[BATCH];
  fill(x, y, round);
  tn_status s = tn_run(m, "step", TN_IN(tn_f32(x, BATCH, IN), tn_i64(y, BATCH)), TN_OUT(tn_f32_scalar(&loss)));
  if (!CHECK(!s)) puts(tn_error_text(m));
  return loss;
}

static bool same_params(tn_model *a, tn_model *b) {
  bool same = tn_param_count(a) == tn_param_count(b) && tn_param_count(a) > 4;
  for (uint32_t k = 0; same && k < tn_param_count(a); k++) {
    const RtParam *p = &a->code->plan->params[k];
    same = !strcmp(tn_param_path(a, k), tn_param_path(b, k)) &&
           !memcmp(tn_param_at(a, k).data, tn_param_at(b, k).data, (size_t)p->bytes);
    tn_param_end_write(a, k), tn_param_end_write(b, k);
  }
  return same;
}

static void test_training(tn_model *m, tn_model *b) {
  CHECK(same_params(m, b));
  for (int k = 0; k < 20; k++) CHECK(step(m, k) == step(b, k));
  CHECK(!tn_set_lr_all(m, 0.5) && !tn_set_lr_all(b, 0.5) && !tn_set_weight_decay(b, 0, 0) &&
        !tn_set_weight_decay(m, 0, 0));
  CHECK(step(m, 1) == step(b, 1) && same_params(m, b));
  CHECK(tn_set_lr(b, 3, 1) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(b), "no optimizer has a group 3 with a lr: groups with one are ");
  CHECK(tn_set_momentum_all(b, 1) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(b), "no optimizer of this program has a momentum");
}

static void test_plans(tn_model *m, tn_model *b) {
  tn_plan of_m, of_b;
  tn_variant list[3];
  float x[2 * IN] = {1, 2}, ym[2 * OUT], yb[2 * OUT];
  CHECK(!tn_run(m, "predict", TN_IN(tn_f32(x, 2, IN)), TN_OUT(tn_f32(ym, 2, OUT))));
  CHECK(!tn_run(b, "predict", TN_IN(tn_f32(x, 2, IN)), TN_OUT(tn_f32(yb, 2, OUT))) && !memcmp(ym, yb, sizeof ym));
  CHECK(!tn_plan_of(m, "step", &of_m) && !tn_plan_of(b, "step", &of_b));
  CHECK(of_m.peak_bytes == of_b.peak_bytes && of_m.param_bytes == of_b.param_bytes && of_m.n_kernels &&
        !of_b.n_kernels);
  CHECK(tn_plan_variants(b, "predict", list, 3) == 2 && !strcmp(list[0].bounds, "batch <= 2") && list[0].n_runs == 1);
  CHECK(list[0].plan.peak_bytes <= list[1].plan.peak_bytes && !list[1].bounds[0]);
  CHECK(tn_plan_copies(b, "step", NULL, 0) == 0 && tn_plan_bytes_written(b, "step", NULL) == -1);
  CHECK(tn_compile_info_of(b).n_variants == 2 && tn_compile_info_of(b).n_kernels == 0 && tn_n_workers(b) == 2);
  CHECK(tn_plan_of(b, "stepp", &of_b) == TN_ERR_ARGUMENT && tn_run(b, "stepp", TN_NO_IN, TN_NO_OUT) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(b), "did you mean 'step'?");
}

static void test_loader(tn_model *b) {
  float x[4 * BATCH * IN], loss;
  int64_t y[4 * BATCH];
  char why[256];
  for (int k = 0; k < 4; k++) fill(x + k * BATCH * IN, y + k * BATCH, k);
  tn_array arrays[] = {tn_f32(x, 4 * BATCH, IN), tn_i64(y, 4 * BATCH)};
  tn_dataset *d = tn_dataset_arrays(arrays, 2, (const char *[]){"x", "label"}, why, sizeof why);
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = BATCH, .workers = 1}, why, sizeof why);
  int n = 0;
  for (tn_batch t; l && !tn_loader_next(l, &t) && t.number; n++)
    CHECK(!tn_run_batch(b, "step", t, TN_OUT(tn_f32_scalar(&loss))));
  CHECK(n == 4);
  tn_loader_free(l), tn_dataset_free(d);
}

// A file of the one is a file of the other, state and random stream included.
static void test_files(tn_model *m, tn_model *b) {
  char path[] = "open_bundle_XXXXXX";
  int64_t number = 0;
  tn_extra extra = {"number", &number, sizeof number};
  close(mkstemp(path));
  step(b, 3);
  CHECK(!tn_save_with(b, path, true, &(tn_extra){"number", &(int64_t){42}, 8}, 1));
  CHECK(!tn_load_with(m, path, true, &extra, 1) && number == 42 && same_params(m, b) && step(m, 4) == step(b, 4));
  CHECK(!tn_save(m, path, true) && !tn_load(b, path, true) && step(m, 5) == step(b, 5));
  tn_model *other = tn_instance(b, 9);
  CHECK(other && !same_params(other, b) && !tn_copy_params(other, m, true) && step(other, 6) == step(m, 6));
  tn_model_free(other);
  unlink(path);
}

static void check_refused(const TnBundleAbout *a, const char *part) {
  char why[256] = "";
  CHECK(!tn_model_open_bundle(a, NULL, why, sizeof why));
  CHECK_HAS(why, part);
  CHECK(!tn_model_open_bundle(a, NULL, NULL, 0));
}

static void test_refusals(const Bundle *b) {
  TnBundleAbout a = b->about;
  check_refused(NULL, "no bundle is given");
  a.version = 99;
  check_refused(&a, "the bundle has version 99, and this library opens version 1");
  char other[96];
  a = b->about, a.abi = TN_BUNDLE_ABI + 1;
  snprintf(other, sizeof other, "the code of bundle 'net' wants runtime %d, and this library is runtime %d", a.abi,
           TN_BUNDLE_ABI);
  check_refused(&a, other);
  a = b->about, a.cpu = no_cpu;
  check_refused(&a, "bundle 'net' has no code for this CPU: it was made for avx512, avx2");
  a = b->about, a.n_targets = 1;
  check_refused(&a, "has no code for this CPU");
}

// Every allocation fails once: no model and a sentence, or a model.
static void test_no_memory(const Bundle *b) {
  bool opened = false;
  for (uint64_t n = 1; n < 100 && !opened; n++) {
    char why[256] = "";
    rt_malloc_fail_at(n);
    tn_model *m = tn_model_open_bundle(&b->about, &(tn_open_options){.n_workers = 1}, why, sizeof why);
    rt_malloc_fail_at(0);
    opened = m;
    if (!m) CHECK_HAS(why, "there is no memory or thread for an instance of bundle 'net'");
    tn_model_free(m);
  }
  CHECK(opened);
}

static const char *in_folder(const char *folder, const char *name) {
  static char path[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

// The program as it was built, or as it is read from its text.
static tn_program *build_or_read(bool from_text) {
  tn_program *p = build();
  if (!from_text) return p;
  CHECK(fe_seal(p, TN_SITE));
  tn_program *q = tn_program_parse(p->built, strlen(p->built), "net.tir");
  return tn_program_free(p), q;
}

static void *emit(const char *folder, bool from_text) {
  tn_program *p = build_or_read(from_text);
  tn_bundle_options o = {.emit = "so", .seed = 5};
  tn_bucket small = {.bound = 2};
  if (!from_text) small.dim = tn_dim_bounded(p, "batch", BATCH), o.buckets = &small, o.n_buckets = 1;
  if (!CHECK(!(tn_bundle)(p, in_folder(folder, "net"), o))) tn_report(p, stdout);
  tn_program_free(p);
  void *library = dlopen(in_folder(folder, "net.so"), RTLD_NOW);
  if (!CHECK(library)) puts(dlerror());
  return library;
}

static void test_emitted(bool from_text) {
  static const char *const files[] = {"net.so",         "net.o",    "net.h",   "net.safetensors",
                                      "net_selftest.c", "net.json", "net.plan"};
  char folder[] = "open_bundle_XXXXXX", why[256] = "";
  void *library = CHECK(mkdtemp(folder)) ? emit(folder, from_text) : NULL;
  tn_program *p = build();
  tn_model *m = compile(p);
  tn_model *b = library ? tn_model_open_bundle(dlsym(library, "net_about"),
                                               &(tn_open_options){.n_workers = 2, .seed = 5}, why, sizeof why)
                        : NULL;
  if (!CHECK(b)) puts(why);
  if (b) test_training(m, b);
  if (b && !from_text) test_plans(m, b);
  if (b) test_loader(b), test_files(m, b);
  tn_model_free(b), tn_model_free(m), tn_program_free(p);
  if (library) dlclose(library);
  for (size_t k = 0; k < sizeof files / sizeof *files; k++) CHECK(!unlink(in_folder(folder, files[k])));
  CHECK(!rmdir(folder));
}

// A model compiled from the text has the rates that the program has which wrote it, and no others.
static void test_rates_of_text(void) {
  tn_program *p = build_or_read(true);
  tn_model *m = model_of(p, .n_workers = 1);
  if (!m) return;
  CHECK(!tn_set_lr(m, 0, 0.5) && !tn_set_lr(m, 7, 0.25) && !tn_set_weight_decay(m, 0, 0));
  float lr = 0;
  CHECK(!tn_get(m, "optimizer.lr.7", &lr, 1) && lr == 0.25f);
  CHECK(tn_set_lr(m, 1, 1) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "no optimizer has a group 1 with a lr: groups with one are 0, 7");
  tn_model_free(m), tn_program_free(p);
}

int main(void) {
  unsetenv("TN_CHECK");  // bundles have no guarded arena
  Bundle bundle;
  tn_program *p = build();
  tn_model *m = compile(p);
  describe(&bundle, m);
  tn_model *b = open(&bundle);
  test_training(m, b);
  test_plans(m, b);
  test_loader(b);
  test_files(m, b);
  test_refusals(&bundle);
  test_no_memory(&bundle);
  test_emitted(false);
  test_emitted(true);
  test_rates_of_text();
  tn_model_free(b);
  tn_model_free(m);
  tn_program_free(p);
  return check_report();
}
