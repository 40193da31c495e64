// Winograd's convolution against sums of products in f64: forward with and without prologue and epilogue, both gradients, the
// weight's with and without prologue, over odd sizes, cut tiles, paddings, dilations, channels that fill no vector, empty and short batches, targets; the same bits for any number
// of workers. Errors are relative to the largest element of the result.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_WORKERS = 2, N_RANDOM = 4 };
static const double BOUND = 5e-6;

typedef enum { FORWARD, PROLOGUE, EPILOGUE, DATA, WEIGHT, WEIGHT_MADE, N_KINDS } Kind;
static const char *const kind_name[N_KINDS] = {"forward", "prologue", "epilogue", "data", "weight", "weight, prologue"};

typedef struct {
  int64_t bound, h, w, c, o, pad[4], dilation[2];  // pad: above, left, below, right
} Layer;

static int64_t out_of(const Layer *l, uint32_t axis) {
  return (axis ? l->w : l->h) + l->pad[axis] + l->pad[axis + 2] - 2 * l->dilation[axis];
}

static bool is_of_weight(Kind kind) { return kind == WEIGHT || kind == WEIGHT_MADE; }

// kept: the weight is a parameter, of which there is a transformed copy.
static char *text_of(const Layer *l, Kind kind, bool kept) {
  static char text[2048];
  char x[64], y[64], w[64], in[80] = "", attr[128];
  snprintf(x, sizeof x, "f32[n,%lld,%lld,%lld]", (long long)l->h, (long long)l->w, (long long)l->c);
  snprintf(y, sizeof y, "f32[n,%lld,%lld,%lld]", (long long)out_of(l, 0), (long long)out_of(l, 1), (long long)l->o);
  snprintf(w, sizeof w, "f32[%lld,%lld,3,3]", (long long)l->o, (long long)l->c);
  snprintf(attr, sizeof attr, "stride=[1,1], pad=[%lld,%lld,%lld,%lld], dilation=[%lld,%lld], groups=1",
           (long long)l->pad[0], (long long)l->pad[1], (long long)l->pad[2], (long long)l->pad[3],
           (long long)l->dilation[0], (long long)l->dilation[1]);
  int at = snprintf(text, sizeof text, "program @p\ndim n <= %lld\n", (long long)l->bound);
  if (kept) at += snprintf(text + at, sizeof text - (size_t)at, "param @w : %s trainable\n", w);
  else snprintf(in, sizeof in, ", %%w: %s", w);
  const char *use = kept ? "%w = param @w\n" : "";
  char *to = text + at;
  size_t room = sizeof text - (size_t)at;
  if (kind == FORWARD) snprintf(to, room, "func @f(%%x: %s%s) {\n%s%%y = conv %%x, %%w {%s}\n", x, in, use, attr);
  if (kind == PROLOGUE)  // of zeros it makes something else
    snprintf(to, room,
             "func @f(%%x: %s%s) {\n%s%%k = const {value=0.25}\n%%s = add %%x, %%k\n%%p = relu %%s\n"
             "%%y = conv %%p, %%w {%s}\n",
             x, in, use, attr);
  if (kind == EPILOGUE)
    snprintf(to, room,
             "func @f(%%x: %s%s, %%b: f32[%lld], %%r: %s) {\n%s%%h = conv %%x, %%w {%s}\n%%s = add %%h, %%b\n"
             "%%t = add %%s, %%r\n%%y = relu %%t\n",
             x, in, (long long)l->o, y, use, attr);
  if (kind == DATA)
    snprintf(to, room, "func @f(%%g: %s%s) {\n%s%%y = conv_transpose %%g, %%w {%s, shape=[%lld,%lld]}\n", y, in, use,
             attr, (long long)l->h, (long long)l->w);
  if (kind == WEIGHT)
    snprintf(to, room, "func @f(%%x: %s, %%g: %s) {\n%%y = conv_weight_grad %%x, %%g {%s, shape=[3,3]}\n", x, y, attr);
  if (kind == WEIGHT_MADE)
    snprintf(to, room,
             "func @f(%%x: %s, %%g: %s) {\n%%k = const {value=0.25}\n%%s = add %%x, %%k\n%%p = relu %%s\n"
             "%%y = conv_weight_grad %%p, %%g {%s, shape=[3,3]}\n",
             x, y, attr);
  strcat(text, "output %y {name=\"y\", index=0}\n}\n");
  return text;
}

// ---- in f64
typedef struct {
  const Layer *l;
  int64_t n;
  tn_array x, w, g, bias, residual;
} Data;

static float *floats(tn_array a) { return a.data; }
static int64_t size_of(tn_array a) {
  int64_t n = 1;
  for (uint32_t k = 0; k < a.rank; k++) n *= a.dims[k];
  return n;
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static tn_array filled(const int64_t *dims, uint32_t rank, uint32_t stream) {
  tn_array a = tn_array_of(NULL, TN_F32, dims, rank);
  int64_t n = size_of(a);
  float *v = a.data = malloc((size_t)(n + 1) * sizeof *v);
  for (int64_t k = 0; k < n; k++) v[k] = (float)(next(&stream) >> 8) * 0x1p-23f - 1;
  return a;
}

static tn_array image(const Layer *l, int64_t n, bool out, uint32_t stream) {
  int64_t dims[] = {n, out ? out_of(l, 0) : l->h, out ? out_of(l, 1) : l->w, out ? l->o : l->c};
  return filled(dims, 4, stream);
}

static Data data_of(const Layer *l, int64_t n) {
  Data d = {.l = l, .n = n, .x = image(l, n, false, 1), .g = image(l, n, true, 3), .residual = image(l, n, true, 5)};
  d.w = filled((int64_t[]){l->o, l->c, 3, 3}, 4, 2), d.bias = filled(&l->o, 1, 4);
  return d;
}

static void free_data(Data *d) {
  free(d->x.data), free(d->w.data), free(d->g.data), free(d->bias.data), free(d->residual.data);
}

// Adds the products of one pixel of x and one of g, at tap `tap`, to what is wanted.
static void add_products(const Data *d, Kind kind, int64_t x, int64_t g, int64_t tap, double *want) {
  const Layer *l = d->l;
  const float *xs = floats(d->x) + x * l->c, *gs = floats(d->g) + g * l->o, *w = floats(d->w) + tap;
  for (int64_t o = 0; o < l->o; o++) {
    for (int64_t c = 0; c < l->c; c++) {
      int64_t at = (o * l->c + c) * 9;
      if (kind == DATA) want[x * l->c + c] += (double)gs[o] * (double)w[at];
      else if (kind == WEIGHT) want[at + tap] += (double)xs[c] * (double)gs[o];
      else if (kind == WEIGHT_MADE) want[at + tap] += fmax((double)xs[c] + 0.25, 0) * (double)gs[o];
      else if (kind == PROLOGUE) want[g * l->o + o] += fmax((double)xs[c] + 0.25, 0) * (double)w[at];
      else want[g * l->o + o] += (double)xs[c] * (double)w[at];
    }
  }
}

static void sum_up(const Data *d, Kind kind, double *want) {
  const Layer *l = d->l;
  int64_t oh = out_of(l, 0), ow = out_of(l, 1);
  for (int64_t at = 0; at < d->n * oh * ow; at++) {
    int64_t n = at / (oh * ow), i = at / ow % oh, j = at % ow;
    for (int64_t tap = 0; tap < 9; tap++) {
      int64_t y = i + tap / 3 * l->dilation[0] - l->pad[0], x = j + tap % 3 * l->dilation[1] - l->pad[1];
      if (y >= 0 && y < l->h && x >= 0 && x < l->w) add_products(d, kind, (n * l->h + y) * l->w + x, at, tap, want);
    }
  }
}

static void finish(const Data *d, Kind kind, double *want, int64_t n) {
  for (int64_t k = 0; kind == EPILOGUE && k < n; k++) {
    double t = want[k] + (double)floats(d->bias)[k % d->l->o] + (double)floats(d->residual)[k];
    want[k] = t > 0 ? t : 0;
  }
}

static double error_of(const float *got, const double *want, int64_t n) {
  double most = 0, worst = 0;
  for (int64_t k = 0; k < n; k++) {
    double off = fabs((double)got[k] - want[k]);
    if (!(off <= worst)) worst = off;  // NaN too
    most = fmax(most, fabs(want[k]));
  }
  return most > 0 ? worst / most : worst;
}

// ---- a case
static double worst[2][N_KINDS];  // [is it Winograd's]

static tn_array result_of(const Data *d, Kind kind) {
  if (is_of_weight(kind)) return filled((int64_t[]){d->l->o, d->l->c, 3, 3}, 4, 9);
  return image(d->l, d->n, kind != DATA, 9);
}

static bool run(tn_model *m, const Data *d, Kind kind, tn_array out) {
  tn_array in[4] = {kind == DATA ? d->g : d->x, is_of_weight(kind) ? d->g : d->w, d->bias, d->residual};
  return CHECK(tn_run(m, "f", in, kind == EPILOGUE ? 4 : 2, &out, 1) == TN_OK);
}

// Models by number of workers: the same bits, near the sums.
static void check_batch(tn_model **model, const Layer *l, Kind kind, int64_t n, bool winograd) {
  Data d = data_of(l, n);
  tn_array one = result_of(&d, kind), more = result_of(&d, kind);
  int64_t size = size_of(one);
  double *want = calloc((size_t)size + 1, sizeof *want);
  sum_up(&d, kind, want), finish(&d, kind, want, size);
  run(model[0], &d, kind, one);
  for (uint32_t k = 1; k < MOST_WORKERS; k++)
    if (run(model[k], &d, kind, more)) CHECK(!memcmp(one.data, more.data, (size_t)size * sizeof(float)));
  double error = error_of(one.data, want, size);
  worst[winograd][kind] = fmax(worst[winograd][kind], error);
  if (!CHECK(error <= BOUND))
    printf("%s of %lldx%lld, %lld to %lld channels, batch %lld: error %g\n", kind_name[kind], (long long)l->h,
           (long long)l->w, (long long)l->c, (long long)l->o, (long long)n, error);
  free(want), free(one.data), free(more.data);
  free_data(&d);
}

static tn_model *compiled(const Layer *l, Kind kind, bool kept, uint32_t workers) {
  return model_of_text(text_of(l, kind, kept), workers);
}

static void check_layer(const Layer *l, bool winograd) {
  for (Kind kind = 0; kind < N_KINDS; kind++) {
    tn_model *model[MOST_WORKERS];
    bool ok = true;
    for (uint32_t k = 0; k < MOST_WORKERS; k++) ok &= (model[k] = compiled(l, kind, false, k + 1)) != NULL;
    const int64_t batches[] = {0, 1, 3, l->bound};
    for (uint32_t k = 0; ok && k < 4; k++)
      if (batches[k] <= l->bound) check_batch(model, l, kind, batches[k], winograd);
    for (uint32_t k = 0; k < MOST_WORKERS; k++) tn_model_free(model[k]);
  }
}

// ---- weights that are kept
static bool set_weight(tn_model *m, const Data *d, float by) {
  int64_t n = size_of(d->w);
  float *v = malloc((size_t)(n + 1) * sizeof *v);
  for (int64_t k = 0; k < n; k++) v[k] = by * floats(d->w)[k];
  bool ok = CHECK(tn_set(m, "w", v, (size_t)n) == TN_OK);
  free(v);
  return ok;
}

static bool run_kept(tn_model *m, const Data *d, Kind kind, tn_array out) {
  tn_array in[3] = {kind == DATA ? d->g : d->x, d->bias, d->residual};
  return CHECK(tn_run(m, "f", in, kind == EPILOGUE ? 3 : 1, &out, 1) == TN_OK);
}

// The bits of a weight that is an input; transformed once per change.
static void check_kept(const Layer *l, Kind kind) {
  tn_model *m = compiled(l, kind, true, 2), *other = compiled(l, kind, false, 1);
  Data d = data_of(l, l->bound);
  tn_array kept = result_of(&d, kind), want = result_of(&d, kind);
  size_t bytes = (size_t)size_of(want) * sizeof(float);
  bool ok = m && other && set_weight(m, &d, 1) && run_kept(m, &d, kind, kept) && run(other, &d, kind, want);
  if (ok) CHECK(!memcmp(kept.data, want.data, bytes) && tn_n_weight_packs(m) == 1);
  ok = ok && run_kept(m, &d, kind, kept) && CHECK(tn_n_weight_packs(m) == 1);
  ok = ok && set_weight(m, &d, 2) && run_kept(m, &d, kind, kept);
  if (ok) CHECK(memcmp(kept.data, want.data, bytes) != 0 && tn_n_weight_packs(m) == 2);
  ok = ok && set_weight(m, &d, 1) && run_kept(m, &d, kind, kept);
  if (ok) CHECK(!memcmp(kept.data, want.data, bytes) && tn_n_weight_packs(m) == 3);
  tn_model_free(m), tn_model_free(other);
  free(kept.data), free(want.data), free_data(&d);
}

// ---- layers
static const Layer layers[] = {
    {4, 4, 4, 16, 16, {1, 1, 1, 1}, {1, 1}},    {5, 5, 7, 17, 32, {0, 0, 0, 0}, {1, 1}},
    {7, 7, 5, 32, 17, {2, 2, 2, 2}, {1, 1}},    {9, 8, 8, 64, 64, {1, 1, 1, 1}, {1, 1}},
    {2, 13, 9, 40, 3, {1, 0, 2, 1}, {1, 1}},    {3, 6, 21, 3, 50, {0, 2, 1, 0}, {1, 1}},
    {1, 1, 1, 5, 6, {1, 1, 1, 1}, {1, 1}},      {2, 3, 30, 1, 1, {1, 1, 1, 1}, {1, 1}},
    {6, 12, 12, 16, 70, {1, 1, 1, 1}, {1, 1}},  {2, 14, 14, 130, 20, {1, 1, 1, 1}, {1, 1}},
    {5, 14, 14, 230, 70, {1, 1, 1, 1}, {1, 1}}, {4, 7, 7, 512, 40, {1, 1, 1, 1}, {1, 1}},
    {9, 13, 18, 290, 9, {1, 1, 0, 1}, {1, 1}},  {3, 11, 14, 18, 20, {2, 3, 2, 3}, {2, 3}},
    {2, 3, 5, 8, 9, {4, 4, 5, 4}, {4, 4}},      {3, 9, 8, 40, 33, {1, 0, 2, 2}, {1, 2}},
};

enum { N_LAYERS = sizeof layers / sizeof *layers, SOME_LAYERS = 3 };

static void check_target(const char *name) {
  char lack[TARGET_LACK];
  const Target *t = cg_target_find(name);
  if (!CHECK(t != NULL) || !cg_target_runs_here(t, lack)) return;
  setenv("TN_TARGET", name, 1);
  for (uint32_t k = 0; k < SOME_LAYERS; k++) check_layer(&layers[k], true);
  unsetenv("TN_TARGET");
}

static Layer random_layer(uint32_t seed) {
  int64_t v[9];
  for (uint32_t k = 0; k < 9; k++) v[k] = next(&seed) >> 16;
  Layer l = {1 + v[0] % 5, 3 + v[1] % 20, 3 + v[2] % 20, 1 + v[3] % 50, 1 + v[4] % 50, {0}, {0}};
  for (uint32_t k = 0; k < 4; k++) l.pad[k] = v[5 + k] % 3;
  for (uint32_t k = 0; k < 2; k++) {
    l.dilation[k] = 1 + v[k] % 4;
    l.pad[k] += l.dilation[k] - 1, l.pad[k + 2] += l.dilation[k] - 1;
  }
  return l;
}

// ---- the choice
static bool differs(const Layer *l, Kind kind, bool exact) {
  const char *text = text_of(l, kind, false);
  tn_array out[2];
  Data d = data_of(l, l->bound);
  for (uint32_t k = 0; k < 2; k++) {
    tn_program *p = tn_program_parse(text, strlen(text), NULL);
    tn_model *m = tn_compile(p, .n_workers = 1, .cache_dir = "", .exact_convolution = k ? exact : true);
    out[k] = result_of(&d, kind);
    if (CHECK(m != NULL)) run(m, &d, kind, out[k]);
    tn_model_free(m), tn_program_free(p);
  }
  bool differ = memcmp(out[0].data, out[1].data, (size_t)size_of(out[0]) * sizeof(float)) != 0;
  free(out[0].data), free(out[1].data), free_data(&d);
  return differ;
}

// By the cost model: large layers, unless they are to be exact.
static void check_choice(void) {
  static const Layer large = {8, 16, 16, 32, 32, {1, 1, 1, 1}, {1, 1}}, small = {1, 4, 4, 3, 4, {1, 1, 1, 1}, {1, 1}};
  static const Layer dilated = {8, 16, 16, 32, 32, {2, 2, 2, 2}, {2, 2}};
  for (Kind kind = 0; kind < N_KINDS; kind++) {
    CHECK(differs(&dilated, kind, false));
    CHECK(differs(&large, kind, false) && !differs(&large, kind, true));
    CHECK(!differs(&small, kind, false));
    setenv("TN_CONV", "winograd", 1);
    CHECK(differs(&small, kind, false) && !differs(&small, kind, true));
    setenv("TN_CONV", "exact", 1);
    CHECK(!differs(&large, kind, false));
    unsetenv("TN_CONV");
  }
}

int main(void) {
  check_choice();
  setenv("TN_CONV", "exact", 1);
  for (uint32_t k = 0; k < SOME_LAYERS; k++) check_layer(&layers[k], false);
  setenv("TN_CONV", "winograd", 1);
  for (uint32_t k = 0; k < N_LAYERS; k++)
    if (is_sampled(k, 2)) check_layer(&layers[k], true);
  for (uint32_t k = 1; k < N_LAYERS; k += 5)
    for (Kind kind = 0; kind < WEIGHT; kind++) check_kept(&layers[k], kind);
  check_target("generic"), check_target("avx2");
  for (uint32_t k = 0; k < N_RANDOM; k++)
    if (is_sampled(k, 3)) check_layer(&(Layer[]){random_layer(k)}[0], true);
  for (Kind kind = 0; kind < N_KINDS; kind++)
    printf("%-8s largest error: %.2g, exact %.2g\n", kind_name[kind], worst[1][kind], worst[0][kind]);
  return check_report();
}
