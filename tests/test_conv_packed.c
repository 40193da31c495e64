// Convolutions whose weight is a parameter read a packed copy of it, made once per change: the bits of the same convolution of
// a weight that is an input, for windows of one element with a stride, groups, one to three spatial axes, odd channels.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <stdlib.h>

typedef struct {
  uint32_t rank;
  int64_t x[5], w[5], y[5];  // channels of x and y last, as .tir has them; x[0] and y[0]: the bound of n
  const char *attrs;
} Case;

static const Case cases[] = {
    {4, {4, 14, 14, 40}, {50, 40, 1, 1}, {4, 7, 7, 50}, "stride=[2,2]"},
    {4, {4, 9, 7, 530}, {33, 530, 1, 1}, {4, 5, 3, 33}, "stride=[2,3]"},
    {4, {3, 6, 5, 17}, {35, 17, 1, 1}, {3, 4, 3, 35}, "stride=[2,2], pad=[1,0,1,1]"},
    {4, {3, 13, 9, 8}, {20, 8, 1, 3}, {3, 5, 9, 20}, "stride=[3,1], pad=[0,1,0,1]"},
    {4, {3, 9, 8, 12}, {30, 6, 3, 3}, {3, 5, 8, 30}, "stride=[2,1], pad=[1,1,1,1], groups=2"},
    {4, {4, 11, 11, 6}, {40, 6, 5, 5}, {4, 11, 11, 40}, "pad=[2,2,2,2]"},
    {3, {3, 31, 5}, {7, 5, 3}, {3, 14, 7}, "stride=[2], dilation=[2]"},
    {5, {3, 3, 4, 5, 18}, {8, 18, 2, 1, 2}, {3, 2, 2, 4, 8}, "stride=[1,2,1]"},
};

static void put_dims(char *out, size_t size, const char *first, const int64_t *d, uint32_t n) {
  size_t at = (size_t)snprintf(out, size, "f32[%s", first);
  for (uint32_t k = 0; k < n && at < size; k++)
    at += (size_t)snprintf(out + at, size - at, at > 4 ? ",%lld" : "%lld", (long long)d[k]);
  snprintf(out + at, size - at, "]");
}

static tn_model *compiled(const Case *c, bool kept, uint32_t workers) {
  char text[1024], x[96], w[96], param[160] = "", in[128] = "";
  put_dims(x, sizeof x, "n", c->x + 1, c->rank - 1), put_dims(w, sizeof w, "", c->w, c->rank);
  if (kept) snprintf(param, sizeof param, "param @w : %s trainable\n", w);
  else snprintf(in, sizeof in, ", %%w: %s", w);
  snprintf(text, sizeof text,
           "program @p\ndim n <= %lld\n%sfunc @f(%%x: %s%s) {\n%s%%h = conv %%x, %%w {%s}\n%%y = relu %%h\n"
           "output %%y {name=\"y\", index=0}\n}\n",
           (long long)c->x[0], param, x, in, kept ? "%w = param @w\n" : "", c->attrs);
  return model_of_text(text, workers);
}

static size_t size_of(const int64_t *d, uint32_t n) {
  size_t size = 1;
  for (uint32_t k = 0; k < n; k++) size *= (size_t)d[k];
  return size;
}

static float *numbers(size_t n, uint32_t stream) {
  float *v = malloc((n + 1) * sizeof *v);
  for (size_t k = 0; k < n; k++) {
    stream = stream * 1664525u + 1013904223u;
    v[k] = (float)(stream >> 8) * 0x1p-23f - 1;
  }
  return v;
}

static float *run(tn_model *m, const Case *c, int64_t n, tn_array *in, size_t n_in) {
  int64_t x[5], y[5];
  memcpy(x, c->x, sizeof x), memcpy(y, c->y, sizeof y);
  x[0] = y[0] = n;
  in[0] = tn_array_of(in[0].data, TN_F32, x, c->rank);
  tn_array out = tn_array_of(calloc(size_of(c->y, c->rank), sizeof(float)), TN_F32, y, c->rank);
  CHECK(tn_run(m, "f", in, n_in, &out, 1) == TN_OK);
  return out.data;
}

static void check_same(tn_model *kept, tn_model *other, const Case *c, const float *w, int64_t n) {
  float *x = numbers(size_of(c->x, c->rank), 1);
  tn_array in[2] = {tn_array_of(x, TN_F32, c->x, c->rank), tn_array_of((void *)(uintptr_t)w, TN_F32, c->w, c->rank)};
  float *got = run(kept, c, n, in, 1), *want = run(other, c, n, in, 2);
  CHECK(!memcmp(got, want, size_of(c->y, c->rank) * sizeof *got));
  free(x), free(got), free(want);
}

static void check_case(const Case *c) {
  size_t size = size_of(c->w, c->rank);
  for (uint32_t workers = 1; workers <= 2; workers++) {
    tn_model *kept = compiled(c, true, workers), *other = compiled(c, false, 1);
    for (uint32_t change = 1; kept && other && change <= 2; change++) {
      float *w = numbers(size, change);
      CHECK(tn_set(kept, "w", w, size) == TN_OK);
      for (int64_t n = 0; n <= c->x[0]; n++) check_same(kept, other, c, w, n);
      CHECK(tn_n_weight_packs(kept) == change);
      free(w);
    }
    tn_model_free(kept), tn_model_free(other);
  }
}

int main(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_case(&cases[k]);
  return check_report();
}
