// Residual networks of any usual depth: initialises, or loads a state_dict with torchvision's names; trains with SGD and
// a cosine schedule, and names the classes of images that it has not seen. Images are CIFAR-10's binary files where they
// are given, else the handwritten digits of this repository, drawn larger; every fifth is kept for testing. Photos, PNG or
// JPEG files of any size, it names at last: --depth 50 --classes 1000 --side 224 --epochs 0 --weights FILE PHOTO
// Ctrl-C ends the training: what it has learned is tested and saved (--out).
// ctest: --side 16 --epochs 3 --expect 0.9
#include "examples/resnet/data.h"
#include "examples/resnet/model.h"
#include "examples/resnet/options.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, SHOWN = 5 };
static Options o = {.depth = 20, .epochs = 10, .side = 32, .classes = 10, .lr = 0.1};

static tn_loader *train;
static void interrupt(int signal_number) { (void)signal_number, tn_loader_stop(train); }
static void fail(const char *what, const char *why) { fprintf(stderr, "resnet: %s: %s\n", what, why), exit(1); }

// ---- the data
// Numbers around 0, by the means of CIFAR's images or of ImageNet's; for training moved about, and flipped where they are photographs
static tn_loader *new_loader(tn_dataset *d, bool is_training) {
  static const float mean[2][3] = {{0.485f, 0.456f, 0.406f}, {0.4914f, 0.4822f, 0.4465f}},
                     std[2][3] = {{0.229f, 0.224f, 0.225f}, {0.2470f, 0.2435f, 0.2616f}};
  bool is_small = resnet_of_depth(o.depth)->is_small;
  char why[512] = "";
  const tn_image_options as = {.resize = {o.side, o.side},
                               .padding = is_training ? o.side / 8 : 0,
                               .crop = {o.side, o.side},
                               .random_crop = is_training,
                               .random_flip = is_training && o.n_files,
                               .scale = 1 / 255.0,
                               .mean = mean[is_small],
                               .std = std[is_small],
                               .n_channels = 3};
  const tn_loader_options how = {
      .batch_size = BATCH, .workers = 1, .prefetch = 2, .sampler = {.kind = is_training ? TN_SHUFFLED : TN_SEQUENTIAL}};
  tn_dataset *images = tn_dataset_images(d, &as, why, sizeof why);
  tn_loader *l = images ? tn_loader_new(images, &how, why, sizeof why) : NULL;
  if (!l) fail("the images", why);
  return tn_dataset_free(images), l;
}

// Every fifth image, or all others
static tn_loader *new_part(tn_dataset *d, bool is_training) {
  char why[512];
  size_t n = 0, *chosen = malloc((tn_dataset_count(d) + 1) * sizeof *chosen);
  for (size_t k = 0; k < tn_dataset_count(d); k++)
    if ((k % 5 > 0) == is_training) chosen[n++] = k;
  tn_dataset *part = tn_dataset_subset(d, chosen, n, why, sizeof why);
  if (!part) fail("the images", why);
  tn_loader *l = new_loader(part, is_training);
  return tn_dataset_free(part), free(chosen), l;
}

// ---- the model
static void add_function(tn_program *p, const Resnet *r, const char *name, size_t steps) {
  tn_function *f = tn_function_begin(p, name);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_tensor x = tn_input(f, "image", TN_F32, TN_SHAPE(B, 3, o.side, o.side)),
            label = tn_input(f, "label", TN_I64, TN_SHAPE(B));
  tn_eval(f, !steps);
  tn_tensor y = resnet_logits(p, r, x), loss = tn_cross_entropy(y, label), best = tn_argmax_axis(y, -1, false);
  tn_output(f, "right", tn_sum(tn_cast(tn_eq(best, label), TN_F32)));
  tn_output(f, steps ? "loss" : "best", steps ? loss : best);
  if (steps) {
    tn_schedule *s = tn_cosine_annealing_lr(p, "lr", .t_max = (double)steps);
    tn_backward(loss);
    tn_sgd(f, tn_root(p), .lr = o.lr, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true, .schedule = s);
    tn_schedule_step(f, s);
  }
  tn_function_end(f);
}

static tn_model *build(size_t steps) {
  tn_program *p = tn_program_create("resnet");
  resnet_make(p, resnet_of_depth(o.depth), o.classes);
  add_function(p, resnet_of_depth(o.depth), "train", steps), add_function(p, resnet_of_depth(o.depth), "predict", 0);
  tn_model *m = tn_compile(p);
  if (!m) exit(1);
  tn_load_report r;
  if (o.weights && tn_load_partial(m, o.weights, false, &r)) fail("the weights", tn_error_text(m));
  if (o.weights) printf("%s: %u entries loaded\n", o.weights, r.n_loaded);
  for (uint32_t k = 0; o.weights && k < r.n_missing; k++) printf("%s: missing\n", r.missing[k]);
  for (uint32_t k = 0; o.weights && k < r.n_mismatched; k++) printf("%s: of another shape\n", r.mismatched[k]);
  return tn_program_free(p), m;
}

// One epoch, or what there is of it before a Ctrl-C; the share of images that it names right
static double pass(tn_model *m, tn_loader *l, bool is_training, bool is_last) {
  double right = 0, count = 0;
  for (tn_batch b; !tn_loader_is_stopped(l);) {
    float n = 0, loss;
    int64_t best[BATCH];
    if (tn_loader_next(l, &b)) fail("reading", tn_loader_error(l));
    if (!b.number) break;
    const tn_array out[] = {tn_f32_scalar(&n),
                            is_training ? tn_f32_scalar(&loss) : tn_i64(best, (int64_t)tn_batch_size(b))};
    if (tn_run_batch(m, is_training ? "train" : "predict", b, out, 2)) fail("running", tn_error_text(m));
    const int64_t *label = tn_batch_array(b, "label").data;
    for (int k = 0; is_last && !count && k < SHOWN && k < (int)tn_batch_size(b); k++)
      printf("image %zu: class %lld, it is %lld\n", tn_batch_index(b)[k], (long long)best[k], (long long)label[k]);
    right += (double)n, count += (double)tn_batch_size(b);
  }
  return count ? right / count : 0;
}

// PNG and JPEG files: the class of each
static void name_photos(tn_model *m) {
  char why[512];
  const tn_image_file_options size = {.height = o.side, .width = o.side};
  tn_dataset *d = tn_dataset_image_files(o.photos, o.n_photos, &size, why, sizeof why);
  if (!d) fail("the photos", why);
  tn_loader *l = new_loader(d, false);
  for (tn_batch b;;) {
    float n;
    int64_t best[BATCH];
    if (tn_loader_next(l, &b)) fail("reading", tn_loader_error(l));
    if (!b.number) break;
    if (tn_run_batch(m, "predict", b, TN_OUT(tn_f32_scalar(&n), tn_i64(best, (int64_t)tn_batch_size(b)))))
      fail("running", tn_error_text(m));
    for (size_t k = 0; k < tn_batch_size(b); k++)
      printf("%s: class %lld\n", o.photos[tn_batch_index(b)[k]].path, (long long)best[k]);
  }
  tn_loader_free(l), tn_dataset_free(d);
}

int main(int argc, char **argv) {
  read_options(argc, argv, &o);
  char why[512];
  tn_dataset *d = o.n_files ? open_cifar(o.files, o.n_files, why, sizeof why) : open_digits(why, sizeof why);
  if (!d) fail("the data", why);
  tn_loader *test = new_part(d, false);
  train = new_part(d, true), signal(SIGINT, interrupt);
  tn_model *m = build(tn_loader_count(train) * (size_t)(o.epochs ? o.epochs : 1));
  for (long k = 0; k < o.epochs && !tn_loader_is_stopped(train); k++) {
    double right = pass(m, train, true, false);
    if (tn_loader_is_stopped(train)) printf("stopped after %ld of %ld epochs\n", k, o.epochs);
    else printf("epoch %ld: %.4f of the training set right\n", k + 1, right), fflush(stdout);
  }
  signal(SIGINT, SIG_DFL);
  double right = pass(m, test, false, true);
  printf("resnet: %.4f of the test set right\n", right);
  if (o.n_photos) name_photos(m);
  if (o.out && tn_save(m, o.out, false)) fail(o.out, tn_error_text(m));
  tn_loader_free(train), tn_loader_free(test), tn_dataset_free(d), tn_model_free(m);
  return right < o.expect;
}
