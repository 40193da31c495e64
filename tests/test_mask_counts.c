// Masks are counted as they are computed: integer reductions of what is pointwise have it as their prologue, so that no
// mask is stored. Values beside loops, for run-time sizes from 0 on, with operands of the same shape and broadcast ones.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 300, INNER = 3, N_OUT = 14 };

typedef struct {
  const float *x, *y, *column, *row, *thirds;  // [n, inner, width], [n, 1, 1], [width], [n, inner, 1]
  const int64_t *i;
  int64_t n, inner, width;
} Data;
// Does the mask of output k hold at place (a, b, c)?
static bool holds(const Data *d, uint32_t k, int64_t a, int64_t b, int64_t c) {
  int64_t e = (a * d->inner + b) * d->width + c;
  float x = d->x[e], y = d->y[e];
  switch (k) {
  case 0: return x > y;
  case 1: return x > y + 0.25f;
  case 2: return x > 0.5f;
  case 3: return x >= y;
  case 4: return x > d->row[c];
  case 5: return x < d->row[c];
  case 6: return x < d->column[a];
  case 7: return x <= d->column[a];
  case 8: return d->i[e] == 3;
  case 9: return x < d->thirds[a * d->inner + b];
  case 10: return x <= y;
  case 11: return fabsf(x) > 1;
  case 12: return x > d->thirds[a * d->inner + b];
  default: return d->i[e] > 2;
  }
}

// What output k reduces: from, to of the axes; how.
typedef enum { COUNT, ANY, ALL, FIRST, WEIGHTS } How;
static const struct {
  uint32_t from, to;
  How how;
} outputs[N_OUT] = {{0, 3, COUNT}, {0, 3, ANY},   {0, 3, ALL},     {0, 1, COUNT},   {1, 2, COUNT},
                    {0, 2, ANY},   {2, 3, COUNT}, {1, 3, ALL},     {1, 2, WEIGHTS}, {2, 3, FIRST},
                    {1, 2, FIRST}, {0, 1, COUNT}, {0, 3, WEIGHTS}, {0, 3, COUNT}};

static void declare(tn_function *f, tn_tensor x, tn_tensor y, tn_tensor i, tn_tensor column, tn_tensor row,
                    tn_tensor thirds) {
  tn_tensor half = tn_scalar(f, 0.5);
  const tn_tensor mask[N_OUT] = {tn_gt(x, y),
                                 tn_gt(x, tn_add(y, tn_scalar(f, 0.25))),
                                 tn_gt(x, half),
                                 tn_ge(x, y),
                                 tn_gt(x, row),
                                 tn_lt(x, row),
                                 tn_lt(x, column),
                                 tn_le(x, column),
                                 tn_eq(i, tn_scalar(f, 3)),
                                 tn_lt(x, thirds),
                                 tn_le(x, y),
                                 tn_gt(tn_abs(x), tn_scalar(f, 1)),
                                 tn_gt(x, thirds),
                                 tn_gt(i, tn_scalar(f, 2))};
  for (uint32_t k = 0; k < N_OUT; k++) {
    int axes[3];
    uint32_t n = 0;
    for (uint32_t a = outputs[k].from; a < outputs[k].to; a++) axes[n++] = (int)a;
    char name[16];
    snprintf(name, sizeof name, "y%u", k);
    tn_tensor m = mask[k];
    if (outputs[k].how == COUNT) m = k % 2 ? tn_count_nonzero_axes(m, false, axes, n) : tn_sum_axes(m, false, axes, n);
    if (outputs[k].how == ANY) m = tn_any_axes(m, false, axes, n);
    if (outputs[k].how == ALL) m = tn_all_axes(m, false, axes, n);
    if (outputs[k].how == FIRST) m = tn_argmax_axis(tn_cast(m, TN_I32), axes[0], false);
    if (outputs[k].how == WEIGHTS)
      m = tn_sum_axes(tn_add(tn_mul(tn_cast(m, TN_I64), tn_scalar(f, 7)), tn_scalar(f, 1)), false, axes, n);
    tn_output(f, name, m);
  }
}

// ---- what is right
static int64_t result(const Data *d, uint32_t k, const int64_t *kept) {
  const int64_t size[3] = {d->n, d->inner, d->width};
  int64_t lo[3], hi[3], n = 0, seen = 0, first = -1, place = 0;
  for (uint32_t a = 0; a < 3; a++) {
    bool reduced = a >= outputs[k].from && a < outputs[k].to;
    lo[a] = reduced ? 0 : kept[a], hi[a] = reduced ? size[a] : kept[a] + 1;
  }
  for (int64_t a = lo[0]; a < hi[0]; a++)
    for (int64_t b = lo[1]; b < hi[1]; b++)
      for (int64_t c = lo[2]; c < hi[2]; c++, place++) {
        bool is_set = holds(d, k, a, b, c);
        n++, seen += is_set;
        if (is_set && first < 0) first = place;
      }
  switch (outputs[k].how) {
  case COUNT: return seen;
  case ANY: return seen > 0;
  case ALL: return seen == n;
  case FIRST: return first < 0 ? 0 : first;
  default: return 7 * seen + n;
  }
}

// Returns the elements of output k, and its type in *t.
static int64_t elements_of(const Data *d, uint32_t k, tn_dtype *t) {
  const int64_t size[3] = {d->n, d->inner, d->width};
  int64_t n = 1;
  for (uint32_t a = 0; a < 3; a++)
    if (a < outputs[k].from || a >= outputs[k].to) n *= size[a];
  *t = outputs[k].how == ANY || outputs[k].how == ALL ? TN_BOOL : TN_I64;
  return n;
}

static void check_output(const Data *d, uint32_t k, const void *y, uint32_t workers) {
  const int64_t size[3] = {d->n, d->inner, d->width};
  tn_dtype t;
  int64_t n = elements_of(d, k, &t);
  for (int64_t e = 0; e < n; e++) {
    int64_t kept[3] = {0}, rest = e;
    for (uint32_t a = 3; a-- > 0;)
      if (a < outputs[k].from || a >= outputs[k].to) kept[a] = rest % size[a], rest /= size[a];
    int64_t got = t == TN_BOOL ? ((const unsigned char *)y)[e] : ((const int64_t *)y)[e], want = result(d, k, kept);
    if (CHECK(got == want)) continue;
    printf("  output %u of [%lld, %lld, %lld], %u workers, element %lld: %lld, not %lld\n", k, (long long)d->n,
           (long long)d->inner, (long long)d->width, workers, (long long)e, (long long)got, (long long)want);
    return;
  }
}

// ---- runs
static float next(void) {
  static uint32_t state = 12345;
  state = state * 1664525 + 1013904223;
  return (float)((int)(state >> 24) - 128) / 64;
}

static float *numbers(int64_t n) {
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  for (int64_t k = 0; k < n; k++) x[k] = next();
  return x;
}

static void run(tn_model *m, int64_t n, int64_t width, uint32_t workers) {
  int64_t all = n * INNER * width;
  float *x = numbers(all), *y = numbers(all), *column = numbers(n), *row = numbers(width), *thirds = numbers(n * INNER);
  int64_t *i = malloc((size_t)(all + 1) * sizeof *i);
  for (int64_t k = 0; k < all; k++) i[k] = k * k % 5;
  Data d = {x, y, column, row, thirds, i, n, INNER, width};
  const tn_array in[] = {
      {.data = x, .dtype = TN_F32, .rank = 3, .dims = {n, INNER, width}},
      {.data = y, .dtype = TN_F32, .rank = 3, .dims = {n, INNER, width}},
      {.data = i, .dtype = TN_I64, .rank = 3, .dims = {n, INNER, width}},
      {.data = column, .dtype = TN_F32, .rank = 3, .dims = {n, 1, 1}},
      {.data = row, .dtype = TN_F32, .rank = 1, .dims = {width}},
      {.data = thirds, .dtype = TN_F32, .rank = 3, .dims = {n, INNER, 1}},
  };
  tn_array out[N_OUT];
  for (uint32_t k = 0; k < N_OUT; k++) {
    tn_dtype t;
    int64_t size[3] = {n, INNER, width}, elements = elements_of(&d, k, &t);
    out[k] = (tn_array){.data = calloc((size_t)elements + 1, 8), .dtype = t};
    for (uint32_t a = 0; a < 3; a++)
      if (a < outputs[k].from || a >= outputs[k].to) out[k].dims[out[k].rank++] = size[a];
  }
  if (CHECK(tn_run(m, "run", in, 6, out, N_OUT) == TN_OK))
    for (uint32_t k = 0; k < N_OUT; k++) check_output(&d, k, out[k].data, workers);
  else printf("  %s\n", tn_error_text(m));
  for (uint32_t k = 0; k < N_OUT; k++) free(out[k].data);
  free(x), free(y), free(column), free(row), free(thirds), free(i);
}

// width 0: of the run, up to MOST
static void masks_take_no_memory(int64_t width, uint32_t workers) {
  tn_program *p = tn_program_create("masks");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim n = tn_dim_bounded(p, "n", MOST), w = width ? tn_dim_const(width) : tn_dim_bounded(p, "width", MOST);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, INNER, w)), y = tn_input(f, "y", TN_F32, TN_SHAPE(n, INNER, w)),
            i = tn_input(f, "i", TN_I64, TN_SHAPE(n, INNER, w)),
            column = tn_input(f, "column", TN_F32, TN_SHAPE(n, 1, 1)), row = tn_input(f, "row", TN_F32, TN_SHAPE(w)),
            thirds = tn_input(f, "thirds", TN_F32, TN_SHAPE(n, INNER, 1));
  declare(f, x, y, i, column, row, thirds);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .n_workers = workers);
  tn_plan plan;
  if (!CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK)) {
    tn_report(p, stdout);
    return;
  }
  if (!CHECK(plan.n_kernels == N_OUT)) printf("  %u kernels\n", plan.n_kernels);
  if (!CHECK(plan.peak_bytes < MOST * INNER * (width ? width : MOST) / 2 + (1 << 14)))
    printf("  width %lld: a peak of %lld bytes\n", (long long)width, (long long)plan.peak_bytes);
  static const int64_t sizes[] = {0, 1, 7, 64, MOST}, widths[] = {0, 1, 16, 61, MOST};
  for (uint32_t a = 0; a < 5; a++)
    for (uint32_t b = 0; b < (width ? 1 : 5); b++) run(m, sizes[a], width ? width : widths[b], workers);
  tn_model_free(m), tn_program_free(p);
}

int main(void) {
  masks_take_no_memory(1, 2);
  masks_take_no_memory(5, 3);
  masks_take_no_memory(64, 1);
  masks_take_no_memory(259, 3);
  masks_take_no_memory(0, 2);
  return check_report();
}
