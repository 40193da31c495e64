// Feeding. Loaders, batches and their lifetimes.
#include "tests/scenario.h"

static char why[512];
static float values[64][16];

// n items of one field "index" [] i64, the item's own number.
static bool get_number(void *ctx, size_t k, tn_item *to) {
  (void)ctx;
  *(int64_t *)to->data[0] = (int64_t)k;
  return true;
}
static const tn_dataset_type numbers_type = {.get = get_number};
static const tn_field number_field = {.name = "index", .dtype = TN_I64};

static tn_dataset *numbers(size_t n) {
  return tn_dataset_new(&numbers_type, NULL, &number_field, 1, n, why, sizeof why);
}

static size_t count_of(size_t n, size_t batch_size, bool drop_last) {
  tn_dataset *d = numbers(n);
  tn_loader *l =
      tn_loader_new(d, &(tn_loader_options){.batch_size = batch_size, .drop_last = drop_last}, why, sizeof why);
  size_t count = tn_loader_count(l), seen = 0;
  for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number;) seen++;
  CHECK(seen == count);
  tn_loader_free(l);
  tn_dataset_free(d);
  return count;
}

SCENARIO(E01) {
  CHECK(count_of(10, 3, false) == 4);
  CHECK(count_of(10, 3, true) == 3);
  CHECK(count_of(10, 2, true) == 5);
}

SCENARIO(E02) {
  tn_dataset *d = numbers(10);
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 4, .workers = 2}, why, sizeof why);
  tn_batch b;
  for (int64_t k = 0; k < 3; k++) {
    CHECK(tn_loader_next(l, &b) == TN_OK && b.number);
    tn_array a = tn_batch_array(b, "index");
    CHECK(a.dtype == TN_I64 && a.rank == 1 && a.dims[0] == (k < 2 ? 4 : 2));
    for (int64_t i = 0; i < a.dims[0]; i++) CHECK(((int64_t *)a.data)[i] == 4 * k + i);
  }
  CHECK(tn_loader_next(l, &b) == TN_OK && !b.number);
  tn_loader_free(l);
  tn_dataset_free(d);
}

SCENARIO(E04) {
  tn_dataset *d = numbers(50);
  tn_loader_options o = {.batch_size = 7, .workers = 1, .seed = 1, .sampler = {.kind = TN_SHUFFLED}};
  tn_loader *l1 = tn_loader_new(d, &o, why, sizeof why), *l2;
  o.workers = 2;
  l2 = tn_loader_new(d, &o, why, sizeof why);
  bool moved = false;
  for (tn_batch a, b; tn_loader_next(l1, &a) == TN_OK && tn_loader_next(l2, &b) == TN_OK && a.number && b.number;) {
    tn_array x = tn_batch_array(a, "index"), y = tn_batch_array(b, "index");
    CHECK(x.dims[0] == y.dims[0] && !memcmp(x.data, y.data, (size_t)x.dims[0] * 8));
    for (int64_t i = 1; i < x.dims[0]; i++) moved |= ((int64_t *)x.data)[i] < ((int64_t *)x.data)[i - 1];
  }
  CHECK(moved);
  tn_loader_free(l1);
  tn_loader_free(l2);
  tn_dataset_free(d);
}

// Views of the source where rows stand in order; copies, with the same content, where they do not.
SCENARIO(E05) {
  static float x[6][12], y[6][16];
  for (int k = 0; k < 6 * 12; k++) (&x[0][0])[k] = (float)k;
  for (int k = 0; k < 6 * 16; k++) (&y[0][0])[k] = (float)-k;
  tn_array arrays[] = {tn_f32(x, 6, 12), tn_f32(y, 6, 16)};
  tn_dataset *d = tn_dataset_arrays(arrays, 2, NULL, why, sizeof why);
  for (int shuffled = 0; shuffled < 2; shuffled++) {
    tn_loader_options o = {.batch_size = 2, .sampler = {.kind = shuffled ? TN_SHUFFLED : TN_SEQUENTIAL}};
    tn_loader *l = tn_loader_new(d, &o, why, sizeof why);
    size_t n, k = 0;
    for (tn_batch b; tn_loader_next(l, &b) == TN_OK && b.number; k++) {
      const tn_array *a = tn_batch_arrays(b, &n);
      const size_t *index = tn_batch_index(b);
      CHECK(n == 2 && a[0].dims[0] == 2 && a[0].dims[1] == 12 && a[1].dims[1] == 16);
      for (size_t i = 0; i < 2; i++) {
        CHECK(shuffled || index[i] == 2 * k + i);
        CHECK(!memcmp((float *)a[0].data + 12 * i, x[index[i]], sizeof x[0]));
        CHECK(!memcmp((float *)a[1].data + 16 * i, y[index[i]], sizeof y[0]));
      }
      bool guarded_arena = getenv("TN_CHECK") != NULL;
      CHECK(shuffled || guarded_arena || (a[0].data == x[2 * k] && a[1].data == y[2 * k]));
    }
    CHECK(k == 3);
    tn_loader_free(l);
  }
  tn_dataset_free(d);
}

static tn_model *sum_model(tn_program **p) {
  *p = tn_program_create("sum");
  tn_function *f = tn_function_begin(*p, "sum");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(*p, "batch", 8), 16));
  tn_output(f, "y", tn_sum(x));
  tn_function_end(f);
  return tn_compile(*p);
}

SCENARIO(E06) {
  tn_program *p;
  tn_model *m = sum_model(&p);
  for (int k = 0; k < 64 * 16; k++) (&values[0][0])[k] = 1;
  tn_dataset *d = tn_dataset_arrays((tn_array[]){tn_f32(values, 64, 16)}, 1, NULL, why, sizeof why);
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 8}, why, sizeof why);
  tn_batch first, second, kept;
  size_t n;
  float y = 0;
  CHECK(tn_loader_next(l, &first) == TN_OK && tn_batch_is_live(first));
  CHECK(tn_run_batch(m, "sum", first, TN_OUT(tn_f32_scalar(&y))) == TN_OK && y == 128);
  kept = tn_batch_retain(first);
  CHECK(tn_loader_next(l, &second) == TN_OK && tn_batch_is_live(second) && !tn_batch_is_live(first));
  CHECK(!tn_batch_arrays(first, &n) && n == 0 && tn_batch_size(first) == 0 && !tn_batch_index(first));
  CHECK(tn_run_batch(m, "sum", first, TN_OUT(tn_f32_scalar(&y))) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "E101");
  tn_loader_free(l);
  tn_dataset_free(d);
  CHECK(!tn_batch_is_live(second));  // with its loader
  y = 0;
  CHECK(tn_run_batch(m, "sum", kept, TN_OUT(tn_f32_scalar(&y))) == TN_OK && y == 128);
  CHECK(tn_batch_index(kept)[7] == 7 && tn_batch_array(kept, "0").data != values);
  tn_batch_release(kept);
  tn_batch_release(kept);
  CHECK(!tn_batch_is_live(kept) && !tn_batch_retain(kept).number);
  tn_model_free(m);
  tn_program_free(p);
}

// An item is memory of the loader that the data set fills: what it filled before is not there to be read.
SCENARIO(E07) {
  tn_dataset *d = numbers(2);
  tn_loader *l = tn_loader_new(d, NULL, why, sizeof why);
  tn_batch a, b;
  CHECK(tn_loader_next(l, &a) == TN_OK && tn_loader_next(l, &b) == TN_OK);
  CHECK(!tn_batch_array(a, "index").data && *(int64_t *)tn_batch_array(b, "index").data == 1);
  tn_loader_free(l);
  tn_dataset_free(d);
}

SCENARIO(E09) {
  CHECK(count_of(0, 2, false) == 0);
  CHECK(count_of(0, 1, false) == 0);
  CHECK(count_of(0, 2, true) == 0);
}

SCENARIO(E12) {
  tn_array arrays[] = {tn_f32(values, 4, 16), tn_f32(values, 5, 16)};
  CHECK(!tn_dataset_arrays(arrays, 2, (const char *const[]){"x", "y"}, why, sizeof why));
  CHECK_HAS(why, "E111: array 'y' has 5 rows and the first array has 4");
}
