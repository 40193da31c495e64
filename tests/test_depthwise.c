// Weight gradients of convolutions of groups of few channels against sums in f64: windows read in place and from strips,
// rows and columns outside, taps in several parts, channels that fill no vector, empty and short batches; the same bits for
// any number of workers. Of groups of one channel with channels first, too.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_WORKERS = 3 };
static const double BOUND = 3e-6;  // relative to the largest element of the result

typedef struct {
  int64_t bound, h, w, c, group, kernel[2], stride, pad, dilation;
  bool first;  // channels
} Layer;

static int64_t out_of(const Layer *l, uint32_t axis) {
  return ((axis ? l->w : l->h) + 2 * l->pad - l->dilation * (l->kernel[axis] - 1) - 1) / l->stride + 1;
}

// "f32[n,9,7,5]", "f32[n,5,9,7]"
static const char *type_of(const Layer *l, int64_t rows, int64_t columns, char *text, size_t size) {
  int64_t c = l->c, d[] = {l->first ? c : rows, l->first ? rows : columns, l->first ? columns : c};
  snprintf(text, size, "f32[n,%lld,%lld,%lld]", (long long)d[0], (long long)d[1], (long long)d[2]);
  return text;
}

static char *text_of(const Layer *l) {
  static char text[1024];
  char x[64], g[64];
  snprintf(text, sizeof text,
           "program @p\ndim n <= %lld\nfunc @f(%%x: %s, %%g: %s) {\n"
           "%%y = conv_weight_grad %%x, %%g {stride=[%lld,%lld], pad=[%lld,%lld,%lld,%lld], dilation=[%lld,%lld], "
           "groups=%lld, %sshape=[%lld,%lld]}\noutput %%y {name=\"y\", index=0}\n}\n",
           (long long)l->bound, type_of(l, l->h, l->w, x, sizeof x),
           type_of(l, out_of(l, 0), out_of(l, 1), g, sizeof g), (long long)l->stride, (long long)l->stride,
           (long long)l->pad, (long long)l->pad, (long long)l->pad, (long long)l->pad, (long long)l->dilation,
           (long long)l->dilation, (long long)(l->c / l->group), l->first ? "first, " : "", (long long)l->kernel[0],
           (long long)l->kernel[1]);
  return text;
}

static float *numbers(int64_t n, uint32_t seed) {
  float *v = calloc((size_t)n + 1, sizeof *v);
  for (int64_t k = 0; v && k < n; k++) seed = seed * 1664525 + 1013904223, v[k] = (float)(seed >> 8) / (1 << 23) - 1;
  return v;
}

// Where pixel `pixel` of image `image`, of size pixels, has channel c.
static int64_t place(const Layer *l, int64_t image, int64_t size, int64_t pixel, int64_t c) {
  return l->first ? (image * l->c + c) * size + pixel : (image * size + pixel) * l->c + c;
}

// One element of the result: channel o, channel i of its group, one tap.
static double sum_of(const Layer *l, int64_t n, const float *x, const float *g, int64_t o, int64_t i, int64_t tap) {
  int64_t down = tap / l->kernel[1] * l->dilation - l->pad, right = tap % l->kernel[1] * l->dilation - l->pad;
  int64_t rows = out_of(l, 0), columns = out_of(l, 1), channel = o / l->group * l->group + i;
  double sum = 0;
  for (int64_t pixel = 0; pixel < n * rows * columns; pixel++) {
    int64_t image = pixel / columns / rows, y = pixel / columns % rows * l->stride + down;
    int64_t z = pixel % columns * l->stride + right;
    if (y < 0 || y >= l->h || z < 0 || z >= l->w) continue;
    int64_t at = place(l, image, rows * columns, pixel % (rows * columns), o);
    sum += (double)x[place(l, image, l->h * l->w, y * l->w + z, channel)] * (double)g[at];
  }
  return sum;
}

static void check_sums(const Layer *l, int64_t n, const float *x, const float *g, const float *y) {
  int64_t taps = l->kernel[0] * l->kernel[1], size = l->c * l->group * taps;
  double error = 0, largest = 0;
  for (int64_t k = 0; k < size; k++) {
    double want = sum_of(l, n, x, g, k / taps / l->group, k / taps % l->group, k % taps);
    error = fmax(error, fabs((double)y[k] - want)), largest = fmax(largest, fabs(want));
  }
  if (!CHECK(error <= BOUND * largest))
    printf("batch %lld: error %g of %g\n%s", (long long)n, error, largest, text_of(l));
}

static void check_batch(tn_model **model, const Layer *l, int64_t n) {
  int64_t rows = out_of(l, 0), columns = out_of(l, 1), size = l->c * l->group * l->kernel[0] * l->kernel[1];
  float *x = numbers(n * l->h * l->w * l->c, 1), *g = numbers(n * rows * columns * l->c, 2);
  float *one = numbers(size, 3), *more = numbers(size, 4);
  tn_array in[] = {tn_f32(x, n, l->h, l->w, l->c), tn_f32(g, n, rows, columns, l->c)};
  if (l->first) in[0] = tn_f32(x, n, l->c, l->h, l->w), in[1] = tn_f32(g, n, l->c, rows, columns);
  for (uint32_t k = 0; k < MOST_WORKERS; k++) {
    tn_array out = tn_f32(k ? more : one, l->c, l->group, l->kernel[0], l->kernel[1]);
    if (!CHECK(tn_run(model[k], "f", in, 2, &out, 1) == TN_OK)) printf("%s\n", tn_error_text(model[k]));
    if (k && !CHECK(!memcmp(one, more, (size_t)size * sizeof *one))) printf("%u workers\n%s", k + 1, text_of(l));
  }
  check_sums(l, n, x, g, one);
  free(x), free(g), free(one), free(more);
}

static void check_layer(const Layer *l) {
  tn_model *model[MOST_WORKERS];
  const int64_t batches[] = {0, 1, l->bound};
  bool ok = true;
  const char *text = text_of(l);
  for (uint32_t k = 0; k < MOST_WORKERS; k++) ok &= (model[k] = model_of_text(text, k + 1)) != NULL;
  for (uint32_t k = 0; ok && k < 3; k++) check_batch(model, l, batches[k]);
  for (uint32_t k = 0; k < MOST_WORKERS; k++) tn_model_free(model[k]);
}

static const Layer layers[] = {
    // in place: a row in one part and in several, taps in several parts, all rows at the edge, steps and gaps
    {5, 9, 9, 19, 1, {3, 3}, 1, 1, 1, false},
    {3, 20, 41, 33, 1, {3, 3}, 1, 1, 1, false},
    {2, 7, 30, 16, 1, {5, 5}, 1, 2, 1, false},
    {2, 2, 19, 9, 1, {7, 7}, 1, 3, 1, false},
    {3, 11, 40, 24, 1, {3, 3}, 2, 1, 1, false},
    {2, 12, 37, 5, 1, {3, 2}, 3, 2, 2, false},
    {2, 1, 50, 17, 1, {1, 13}, 1, 6, 1, false},
    {2, 40, 3, 17, 1, {13, 1}, 1, 6, 1, false},
    {4, 6, 6, 40, 1, {1, 1}, 1, 0, 1, false},
    // several bands of rows
    {2, 65, 61, 80, 1, {3, 3}, 1, 1, 1, false},
    // groups of several channels
    {2, 9, 21, 8, 2, {3, 3}, 1, 1, 1, false},
    {2, 5, 17, 48, 4, {3, 5}, 2, 2, 1, false},
    // strips: neighbours that meet in the same sets, columns in several parts, columns far outside
    {3, 6, 10, 512, 1, {3, 3}, 1, 1, 1, false},
    {1, 3, 131, 512, 1, {1, 3}, 1, 1, 1, false},
    {2, 3, 60, 7, 1, {1, 5}, 1, 40, 20, false},
};

int main(void) {
  for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
    Layer l = layers[k];
    check_layer(&l);
    l.first = l.group == 1;
    if (l.first) check_layer(&l);
  }
  return check_report();
}
