// First along rows, then along columns: each output is a sum of its inputs by weights that are the same for all rows, or all
// columns.
#include "runtime/data/image_codec.h"

// Outputs of one axis: output k is the sum of inputs first[k] .. first[k] + most - 1, weights beyond the image are 0.
typedef struct {
  int64_t n, most, *first;
  float *weight;  // [n, most]
} Taps;

static double triangle(double x) { return x < -1 || x > 1 ? 0 : x < 0 ? 1 + x : 1 - x; }

// Output k of the axis, from `at` on, where `from` inputs are resized to `to`.
static void fill_taps(Taps *t, int64_t k, int64_t at, int64_t from, int64_t to) {
  double scale = (double)from / (double)to, wide = scale > 1 ? scale : 1, sum = 0;
  double center = ((double)(at + k) + 0.5) * scale;
  int64_t first = (int64_t)(center - wide + 0.5);
  if (center - wide + 0.5 < 0) first = 0;
  if (first > from - t->most) first = from - t->most;
  t->first[k] = first;
  for (int64_t j = 0; j < t->most; j++) sum += triangle(((double)(first + j) - center + 0.5) / wide);
  for (int64_t j = 0; j < t->most; j++)
    t->weight[k * t->most + j] = (float)(triangle(((double)(first + j) - center + 0.5) / wide) / sum);
}

static bool make_taps(Taps *t, int64_t n, int64_t at, int64_t from, int64_t to) {
  double scale = (double)from / (double)to, wide = scale > 1 ? scale : 1;
  *t = (Taps){.n = n, .most = (int64_t)(2 * wide) + 3};
  if (t->most > from) t->most = from;
  t->first = rt_malloc((size_t)n * sizeof *t->first);
  t->weight = rt_malloc((size_t)(n * t->most) * sizeof *t->weight);
  for (int64_t k = 0; t->first && t->weight && k < n; k++) fill_taps(t, k, at, from, to);
  return t->first && t->weight;
}

static void free_taps(Taps *t) {
  rt_free(t->first);
  rt_free(t->weight);
}

// Row y of the image along x -> [width, channels]
static void resample_row(const RtImage *in, uint32_t channels, int64_t y, const Taps *x, float *out) {
  const unsigned char *row = in->pixels + y * in->width * channels;
  for (int64_t k = 0; k < x->n; k++)
    for (uint32_t c = 0; c < channels; c++) {
      const unsigned char *p = row + x->first[k] * channels + c;
      float sum = 0;
      for (int64_t j = 0; j < x->most; j++) sum += x->weight[k * x->most + j] * (float)p[j * channels];
      out[k * channels + c] = sum;
    }
}

// rows: the image's rows from `from` on, resampled along x. -> row i of each channel of out
static void sum_rows(const float *rows, int64_t from, const Taps *y, int64_t i, int64_t width, uint32_t channels,
                     float *out) {
  for (uint32_t c = 0; c < channels; c++)
    for (int64_t k = 0; k < width; k++) {
      float sum = 0;
      for (int64_t j = 0; j < y->most; j++)
        sum += y->weight[i * y->most + j] * rows[((y->first[i] + j - from) * width + k) * channels + c];
      out[(c * y->n + i) * width + k] = sum;
    }
}

bool rt_image_resample(const RtImage *in, uint32_t channels, const RtImageFrame *f, float *out) {
  Taps y = {0}, x = {0};
  bool ok = make_taps(&y, f->size[0], f->at[0], in->height, f->scaled[0]) &&
            make_taps(&x, f->size[1], f->at[1], in->width, f->scaled[1]);
  int64_t from = ok ? y.first[0] : 0, end = ok ? y.first[y.n - 1] + y.most : 0;
  float *rows = ok ? rt_malloc((size_t)((end - from) * x.n * channels) * sizeof *rows) : NULL;
  for (int64_t k = from; rows && k < end; k++) resample_row(in, channels, k, &x, rows + (k - from) * x.n * channels);
  for (int64_t i = 0; rows && i < y.n; i++) sum_rows(rows, from, &y, i, x.n, channels, out);
  free_taps(&y), free_taps(&x);
  rt_free(rows);
  return rows != NULL;
}
