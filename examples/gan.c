// A small GAN: a generator learns to put points on a circle by fooling a discriminator. Two optimizers, each over its own
// part of the tree; the points that are shown come from averaged weights of the generator, which follow it slowly.
// ctest: --steps 2000
#include "examples/arguments.h"
#include "frontend/tenure.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISE = 4, WIDE = 32, BATCH = 64, SHOWN = 256 };

// in -> WIDE -> WIDE -> out
static tn_module *make_mlp(tn_module *net, const char *name, int64_t in, int64_t out) {
  tn_module *m = tn_sequential(net, name);
  tn_linear(m, "0", in, WIDE);
  tn_activation(m, "1", "silu");
  tn_linear(m, "2", WIDE, WIDE);
  tn_activation(m, "3", "silu");
  tn_linear(m, "4", WIDE, out);
  return m;
}

static tn_tensor generated(tn_function *f, tn_module *g, int64_t n) {
  return tn_call(g, tn_randn(f, TN_SHAPE(n, NOISE)));
}

// What the discriminator says of x is taken for real (or for fake): softplus is its cross entropy.
static tn_tensor loss_as(tn_module *d, tn_tensor x, bool real) {
  tn_tensor said = tn_call(d, x);
  return tn_mean(tn_softplus(real ? tn_neg(said) : said));
}

static tn_program *build(void) {
  tn_program *p = tn_program_create("gan");
  tn_module *net = tn_root(p), *g = make_mlp(net, "generator", NOISE, 2), *d = make_mlp(net, "discriminator", 2, 1);

  tn_function *f = tn_function_begin(p, "discriminate");
  tn_tensor x = tn_input(f, "points", TN_F32, TN_SHAPE(BATCH, 2));
  tn_tensor loss = tn_add(loss_as(d, x, true), loss_as(d, tn_stop_grad(generated(f, g, BATCH)), false));
  tn_backward(loss);
  tn_adam(f, d, .lr = 2e-3, .beta1 = 0.5);
  tn_output(f, "loss", loss);
  tn_function_end(f);

  f = tn_function_begin(p, "generate");
  loss = loss_as(d, generated(f, g, BATCH), true);
  tn_backward(loss);
  tn_adam(f, g, .lr = 1e-3, .beta1 = 0.5);
  tn_ema(f, g, .decay = 0.99);
  tn_output(f, "loss", loss);
  tn_function_end(f);

  f = tn_function_begin(p, "show");
  tn_use_ema(f, g);
  tn_output(f, "points", generated(f, g, SHOWN));
  tn_function_end(f);
  return p;
}

static void draw_circle(float *x) {
  for (int k = 0; k < BATCH; k++) {
    double a = 6.283185307179586 * rand() / RAND_MAX;
    x[2 * k] = (float)cos(a), x[2 * k + 1] = (float)sin(a);
  }
}

// How far from the circle the points of the averaged generator lie, on the mean.
static bool measure(tn_model *m, double *distance) {
  float x[SHOWN * 2];
  if (tn_run(m, "show", TN_NO_IN, TN_OUT(tn_f32(x, SHOWN, 2)))) return false;
  *distance = 0;
  for (int k = 0; k < SHOWN; k++) *distance += fabs(hypot(x[2 * k], x[2 * k + 1]) - 1) / SHOWN;
  return true;
}

static bool train(tn_model *m, int steps) {
  float x[BATCH * 2], loss_d = 0, loss_g = 0;
  double distance = 1;
  for (int k = 1; k <= steps; k++) {
    draw_circle(x);
    if (tn_run(m, "discriminate", TN_IN(tn_f32(x, BATCH, 2)), TN_OUT(tn_f32_scalar(&loss_d)))) return false;
    if (tn_run(m, "generate", TN_NO_IN, TN_OUT(tn_f32_scalar(&loss_g)))) return false;
    if (k % 500 && k != steps) continue;
    if (!measure(m, &distance)) return false;
    printf("step %d: discriminator %.3f, generator %.3f, off the circle by %.3f\n", k, loss_d, loss_g, distance);
  }
  return steps < 2000 || distance < 0.2;
}

int main(int argc, char **argv) {
  long steps = 3000;
  const Argument list[] = {{"--steps", "N", "of training", .whole = &steps, .least = 1, .most = 1e9}};
  read_arguments(argc, argv, "learns to put points on a circle", list, 1);
  tn_program *p = build();
  tn_model *m = tn_compile(p, .seed = 1);
  bool good = m && train(m, (int)steps);
  if (m && !good) fprintf(stderr, "gan: %s\n", *tn_error_text(m) ? tn_error_text(m) : "it learned too little");
  tn_model_free(m);
  tn_program_free(p);
  return !good;
}
