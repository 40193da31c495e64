// Pointwise readers of rows that are packed run in the kernel that packs them: no packed row is stored for them, no kernel is
// added, and values are those of C for any number of workers. Rows of all widths, dtypes and ranks; lengths of the run and
// constant.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <stdlib.h>

enum { B = 37, T = 13, ROWS = B * T, MOST_OF_ROW = 630 };

// What is read of the packed rows: few cheap operations, several, and an operand that each row reads
typedef enum { NONE, SQUARE, CUBE, SCALED } Reader;

typedef struct {
  tn_dtype dtype;
  int inner[2];  // sizes behind time; 0: no such axis
  Reader reader;
  bool time_major, is_constant;
} Case;

static const Case cases[] = {
    {TN_F32, {83}, SQUARE, false, false},  {TN_F32, {83}, SCALED, false, true},
    {TN_F32, {12}, SQUARE, false, true},   {TN_F32, {12}, CUBE, false, true},
    {TN_F32, {12}, CUBE, true, false},     {TN_F32, {12}, SCALED, false, true},
    {TN_F32, {1}, CUBE, false, false},     {TN_F32, {0}, CUBE, false, true},
    {TN_F32, {0}, SCALED, true, true},     {TN_F32, {3, 7}, CUBE, false, true},
    {TN_F32, {3, 7}, SCALED, true, false}, {TN_F32, {30, 21}, SQUARE, false, true},
    {TN_I32, {5}, CUBE, false, true},      {TN_I32, {64}, SCALED, false, true},
    {TN_I64, {3}, CUBE, true, true},       {TN_I64, {6, 2}, SCALED, false, false},
};

static int elements_of(const Case *k) { return (k->inner[0] ? k->inner[0] : 1) * (k->inner[1] ? k->inner[1] : 1); }

static int last_of(const Case *k) { return k->inner[1] ? k->inner[1] : k->inner[0] ? k->inner[0] : 1; }

static int rank_of(const Case *k) { return 2 + (k->inner[0] != 0) + (k->inner[1] != 0); }

static void shape_of(const Case *k, int64_t *dims) {
  dims[k->time_major] = B, dims[!k->time_major] = T, dims[2] = k->inner[0], dims[3] = k->inner[1];
}

static void lengths_of(int64_t *n) {
  for (int k = 0; k < B; k++) n[k] = 1 + k * 5 % T;
}

static int number(int k) { return (int)((int64_t)k * 7919 % 101) * 2 - 101; }  // odd: no sum of it is -0
static int scale(int k) { return k * 31 % 11 - 5; }

static tn_tensor read_by(Reader r, tn_tensor x, tn_tensor by) {
  if (r == NONE) return x;
  if (r == SCALED) return tn_sub(tn_mul(x, by), x);
  tn_tensor square = tn_add(tn_mul(x, x), x);
  return r == SQUARE ? square : tn_sub(tn_mul(square, x), x);
}

static int value_of(Reader r, int x, int by) {
  return r == SCALED ? x * by - x : r == SQUARE ? x * x + x : (x * x + x) * x - x;
}

static tn_shape sizes(const int64_t *d, int rank) {
  tn_shape s = {.rank = (uint32_t)rank};
  for (int k = 0; k < rank; k++) s.dims[k] = tn_dim_const(d[k]);
  return s;
}

static tn_program *build(const Case *k) {
  int64_t dims[4], lengths[B];
  shape_of(k, dims), lengths_of(lengths);
  tn_program *p = tn_program_create("readers");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", k->dtype, sizes(dims, rank_of(k))), n = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_tensor by = tn_input(f, "by", k->dtype, TN_SHAPE(last_of(k)));
  tn_packed s = k->is_constant ? tn_pack_constant(x, lengths, B, .time_major = k->time_major)
                               : tn_pack_padded(x, n, .time_major = k->time_major);
  s = tn_packed_with_data(s, read_by(k->reader, s.data, by));
  tn_output(f, "y", tn_pad_packed(s, 0, true));
  tn_function_end(f);
  return p;
}

static void put(tn_dtype t, void *to, int at, int v) {
  if (t == TN_F32) ((float *)to)[at] = (float)v;
  else if (t == TN_I32) ((int32_t *)to)[at] = v;
  else ((int64_t *)to)[at] = v;
}

static int64_t bytes_of(tn_dtype t) { return t == TN_I64 ? 8 : 4; }

static uint32_t kernels_without_readers(const Case *k) {
  Case none = *k;
  none.reader = NONE;
  tn_program *p = build(&none);
  tn_model *m = model_of(p);
  tn_plan plan = {0};
  CHECK(m && tn_plan_of(m, "f", &plan) == TN_OK);
  tn_model_free(m);
  tn_program_free(p);
  return plan.n_kernels;
}

static void check_case(const Case *k, uint32_t n_workers) {
  static int64_t x[ROWS * MOST_OF_ROW], y[ROWS * MOST_OF_ROW], want[ROWS * MOST_OF_ROW], by[MOST_OF_ROW];
  int64_t dims[4], lengths[B], out[4];
  shape_of(k, dims), lengths_of(lengths);
  memcpy(out, dims, sizeof out), out[0] = B, out[1] = T;
  memset(want, 0, sizeof want);
  int width = elements_of(k), last = last_of(k);
  for (int j = 0; j < last; j++) put(k->dtype, by, j, scale(j));
  for (int b = 0; b < B; b++)
    for (int t = 0; t < T; t++)
      for (int j = 0; j < width; j++) {
        int from = ((k->time_major ? t * B + b : b * T + t)) * width + j, to = (b * T + t) * width + j;
        put(k->dtype, x, from, number(from));
        if (t < lengths[b]) put(k->dtype, want, to, value_of(k->reader, number(from), scale(j % last)));
      }
  tn_program *p = build(k);
  tn_model *m = model_of(p, .n_workers = n_workers);
  if (!m) exit(1);
  tn_array in[] = {tn_array_of(x, k->dtype, dims, (uint32_t)rank_of(k)), tn_i64(lengths, B),
                   tn_array_of(by, k->dtype, (int64_t[]){last}, 1)};
  CHECK(tn_run(m, "f", in, 3, TN_OUT(tn_array_of(y, k->dtype, out, (uint32_t)rank_of(k)))) == TN_OK);
  CHECK(!memcmp(y, want, (size_t)(ROWS * width * bytes_of(k->dtype))));
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "f", &plan) == TN_OK);
  CHECK(plan.n_kernels == kernels_without_readers(k));
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    unsigned before = check_n_failed;
    check_case(&cases[k], 1 + k % 3);
    if (check_n_failed > before) printf("case %zu\n", k);
  }
  return check_report();
}
