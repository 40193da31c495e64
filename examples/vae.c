// A variational autoencoder of handwritten digits, 8 x 8 pixels: an encoder that gives a mean and a variance, a sample of
// them, a decoder; images that it makes up. Told is the bound of the held-out images, beside what pixels that know nothing
// of each other would cost.
// ctest: --epochs 40
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, SIDE = 8, PIXELS = SIDE * SIDE, LATENT = 8, WIDE = 128, MADE = 8, HELD_OUT = 5 };

// in -> WIDE -> WIDE -> out
static tn_module *make_mlp(tn_module *net, const char *name, int64_t in, int64_t out) {
  tn_module *m = tn_sequential(net, name);
  tn_linear(m, "0", in, WIDE), tn_activation(m, "1", "silu");
  tn_linear(m, "2", WIDE, WIDE), tn_activation(m, "3", "silu");
  tn_linear(m, "4", WIDE, out);
  return m;
}

// Nats of an image: what the decoder makes of a sample, and how far the sample's distribution is from the normal one.
static void build_bound(tn_program *p, const char *name, bool is_training) {
  tn_function *f = tn_function_begin(p, name);
  tn_module *net = tn_root(p);
  tn_dim B = tn_dim_bounded(p, "batch", BATCH);
  tn_tensor x = tn_mul_scalar(tn_input(f, "pixels", TN_F32, TN_SHAPE(B, PIXELS)), 1.0 / 16);
  tn_tensor code = tn_call(tn_child(net, "encoder"), x);
  tn_tensor mean = tn_slice(code, 1, 0, LATENT), log_var = tn_slice(code, 1, LATENT, LATENT);
  tn_tensor z = tn_add(mean, tn_mul(tn_randn(f, TN_SHAPE(B, LATENT)), tn_exp(tn_mul_scalar(log_var, 0.5))));
  tn_tensor drawn = tn_bce_with_logits(tn_call(tn_child(net, "decoder"), z), x, .reduction = TN_REDUCE_SUM);
  tn_tensor apart = tn_sub(tn_add(tn_square(mean), tn_exp(log_var)), tn_add_scalar(log_var, 1));
  tn_tensor sum = tn_add(drawn, tn_mul_scalar(tn_sum(apart), 0.5));
  tn_output(f, "nats", sum);
  if (is_training) {
    tn_backward(tn_mul_scalar(sum, 1.0 / BATCH));
    tn_adam(f, net, .lr = 2e-3);
  }
  tn_function_end(f);
}

static tn_program *build(void) {
  tn_program *p = tn_program_create("vae");
  make_mlp(tn_root(p), "encoder", PIXELS, 2 * LATENT);
  tn_module *decoder = make_mlp(tn_root(p), "decoder", LATENT, PIXELS);
  build_bound(p, "train_step", true), build_bound(p, "evaluate", false);
  tn_function *f = tn_function_begin(p, "make_up");
  tn_output(f, "images", tn_sigmoid(tn_call(decoder, tn_randn(f, TN_SHAPE(MADE, LATENT)))));
  tn_function_end(f);
  return p;
}

// Pixels of the images that are held out, each HELD_OUT-th, or of all others
static tn_dataset *open_part(tn_dataset *digits, bool is_training, char *error, size_t size) {
  size_t chosen[4096], n = 0;
  for (size_t k = 0; k < tn_dataset_count(digits) && n < 4096; k++)
    if ((k % HELD_OUT != 0) == is_training) chosen[n++] = k;
  return tn_dataset_subset(digits, chosen, n, error, size);
}

// One pass over the data: nats of an image, or -1
static double pass(tn_model *m, tn_loader *l, const char *function) {
  double sum = 0, count = 0;
  float nats = 0;
  tn_status s;
  for (tn_batch b; !(s = tn_loader_next(l, &b)) && b.number; sum += (double)nats, count += (double)tn_batch_size(b))
    if (tn_run_batch(m, function, b, TN_OUT(tn_f32_scalar(&nats))))
      return fprintf(stderr, "vae: %s\n", tn_error_text(m)), -1;
  if (s) fprintf(stderr, "vae: %s\n", tn_loader_error(l));
  return s ? -1 : sum / count;
}

// Nats of a held-out image where each pixel has its mean of the others, whatever the rest of the image: the loss of a
// decoder that sees nothing.
static bool independent_pixels(tn_loader *train, tn_loader *test, double *nats) {
  double ink[PIXELS] = {0}, n = 0, n_test = 0;
  tn_batch b;
  while (!tn_loader_next(train, &b) && b.number) {
    const float *pixels = tn_batch_array(b, "pixels").data;
    for (size_t k = 0; k < tn_batch_size(b) * PIXELS; k++) ink[k % PIXELS] += (double)pixels[k] / 16, n += 1.0 / PIXELS;
  }
  *nats = 0;
  while (!tn_loader_next(test, &b) && b.number) {
    const float *pixels = tn_batch_array(b, "pixels").data;
    for (size_t k = 0; k < tn_batch_size(b) * PIXELS; k++) {
      double x = (double)pixels[k] / 16, p = (ink[k % PIXELS] + 0.01) / (n + 0.02);
      *nats -= x * log(p) + (1 - x) * log(1 - p), n_test += 1.0 / PIXELS;
    }
  }
  *nats /= n_test;
  return n > 0 && n_test > 0;
}

static bool show(tn_model *m) {
  float x[MADE * PIXELS];
  if (tn_run(m, "make_up", TN_NO_IN, TN_OUT(tn_f32(x, MADE, PIXELS)))) return false;
  for (int row = 0; row < SIDE; row++, putchar('\n'))
    for (int k = 0; k < MADE; k++, putchar(' '))
      for (int col = 0; col < SIDE; col++) putchar(" .:-=+*#%@"[(int)(x[k * PIXELS + row * SIDE + col] * 9.99f)]);
  return true;
}

static tn_loader *new_loader(tn_dataset *d, bool is_training, char *error, size_t size) {
  tn_loader_options how = {
      .batch_size = BATCH, .workers = 1, .sampler = {.kind = is_training ? TN_SHUFFLED : TN_SEQUENTIAL}};
  return d ? tn_loader_new(d, &how, error, size) : NULL;
}

int main(int argc, char **argv) {
  char error[512] = "";
  long epochs = 100;
  const Argument list[] = {{"--epochs", "N", "passes over the data", .whole = &epochs, .least = 1, .most = 1e9}};
  read_arguments(argc, argv, "makes up handwritten digits", list, 1);
  static char number[PIXELS][4];
  const char *columns[PIXELS];
  for (int k = 0; k < PIXELS; k++) snprintf(number[k], sizeof number[k], "%d", k), columns[k] = number[k];
  const tn_csv_field pixels = {.name = "pixels", .columns = columns, .n_columns = PIXELS};
  const tn_csv_options o = {.no_header = true, .fields = &pixels, .n_fields = 1};
  tn_dataset *digits = tn_dataset_csv("data/digits/digits.csv", &o, error, sizeof error), *part[2] = {0};
  tn_loader *l[2] = {0};
  for (int k = 0; digits && k < 2; k++) part[k] = open_part(digits, !k, error, sizeof error);
  for (int k = 0; k < 2; k++) l[k] = new_loader(part[k], !k, error, sizeof error);
  if (!l[0] || !l[1]) return fprintf(stderr, "vae: %s\n", error), 1;
  double alone, nats = 0;
  tn_program *p = build();
  tn_model *m = tn_compile(p, .seed = 1);
  bool good = m && independent_pixels(l[0], l[1], &alone);
  for (long k = 1; good && k <= epochs; k++) {
    double train = pass(m, l[0], "train_step");
    if (train < 0 || (k % 20 && k != epochs)) continue;
    if ((nats = pass(m, l[1], "evaluate")) < 0) break;
    printf("epoch %ld: %.2f nats an image, held out %.2f\n", k, train, nats);
  }
  good = good && show(m);
  if (good) printf("vae: %.2f nats for a held-out image; pixels one by one take %.2f\n", nats, alone);
  good = good && nats > 0 && nats < alone - 2;
  for (int k = 0; k < 2; k++) tn_loader_free(l[k]), tn_dataset_free(part[k]);
  tn_model_free(m), tn_program_free(p), tn_dataset_free(digits);
  return !good;
}
