// A program outside of the tree that trains and runs a model of a bundle with libtenure_runtime alone: its headers declare
// all that it uses. ctest: argument 1 is a file that it may write.
#include <math.h>
#include <stdio.h>
#include <tenure/runtime.h>

extern const struct net_about_t net_about;  // of net.o

static int fail(const char *what, const char *why) { return fprintf(stderr, "%s: %s\n", what, why), 1; }

static tn_status train(tn_model *m, tn_loader *l) {
  tn_status s = TN_OK;
  for (int epoch = 0; epoch < 50 && !s; epoch++)
    for (tn_batch b; !s && !(s = tn_loader_next(l, &b)) && b.number;) s = tn_run_batch(m, "step", b, TN_NO_OUT);
  return s;
}

int main(int argc, char **argv) {
  char why[256] = "";
  const char *file = argc > 1 ? argv[1] : "runtime.safetensors";
  tn_model *m = tn_model_open_bundle(&net_about, &(tn_open_options){.n_workers = 2, .seed = 42}, why, sizeof why);
  if (!m) return fail("opening", why);
  float x[8] = {1, 2, -1, 0.5f, 1, -2, 1.5f, 1}, target[8], y[2], w = 0;
  for (int k = 0; k < 8; k++) target[k] = 3 * x[k];
  tn_array arrays[] = {tn_f32(x, 8), tn_f32(target, 8)};
  tn_dataset *d = tn_dataset_arrays(arrays, 2, (const char *[]){"x", "target"}, why, sizeof why);
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 4, .workers = 1}, why, sizeof why);
  if (!l) return fail("loading", why);
  if (tn_get(m, "w", &w, 1) || w != 42) return fail("initial value", tn_error_text(m));
  if (train(m, l)) return fail("training", tn_error_text(m));
  if (tn_set_lr_all(m, 0) || train(m, l)) return fail("setting the rate", tn_error_text(m));
  if (tn_save(m, file, true)) return fail("saving", tn_error_text(m));
  tn_model *other = tn_instance(m, 7);
  if (!other || tn_load(other, file, true)) return fail("reading", tn_error_text(other));
  if (tn_run(other, "predict", TN_IN(tn_f32(x, 2)), TN_OUT(tn_f32(y, 2)))) return fail("running", tn_error_text(other));
  printf("%s: %g %g\n", tn_status_text(TN_OK), (double)y[0], (double)y[1]);
  tn_model_free(other), tn_model_free(m);
  tn_loader_free(l), tn_dataset_free(d);
  return fabsf(y[0] - 3) > 1e-3f || fabsf(y[1] - 6) > 1e-3f;
}
