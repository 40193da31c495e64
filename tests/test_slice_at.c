// Slices and partial writes whose start the run knows: a cache that lasts over runs, starts out of range, sizes that the
// run knows, views of views.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <string.h>

// cache[:, pos : pos + n] = x, of n rows; gives the first 3 from pos on, and the sum.
static tn_model *make_cache(uint32_t n_workers) {
  tn_program *p = tn_program_create("cache");
  tn_dim n = tn_dim_bounded(p, "n", 4);
  tn_tensor at, x, c;
  tn_buffer(tn_root(p), "cache", TN_SHAPE(2, 10, 3), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "step");
  at = tn_input(f, "pos", TN_I64, TN_SCALAR), x = tn_input(f, "x", TN_F32, TN_SHAPE(2, n, 3));
  c = tn_param_value(f, tn_root(p), "cache");
  tn_slice_assign_at_(c, 1, at, x);
  tn_output(f, "three", tn_slice_at(c, 1, at, 3));
  tn_output(f, "sum", tn_sum(c));
  tn_function_end(f);
  return model_alone(p, .n_workers = n_workers);
}

static void check_cache(uint32_t n_workers) {
  tn_model *m = make_cache(n_workers);
  if (!m) return;
  float x[2 * 4 * 3], three[18], sum = 0, want = 0;
  for (int k = 0; k < 24; k++) x[k] = (float)k + 1;
  for (int64_t pos = 0, n = 4; pos + n <= 10; pos += n, n = n > 1 ? n - 1 : 1) {
    CHECK(tn_run(m, "step", TN_IN(((tn_array){.data = &pos, .dtype = TN_I64}), tn_f32(x, 2, n, 3)),
                 TN_OUT(tn_f32(three, 2, 3, 3), tn_f32_scalar(&sum))) == (pos <= 7 ? TN_OK : TN_ERR_VALUE));
    for (int k = 0; k < 2 * n * 3 && pos <= 7; k++) want += x[k];
    CHECK(sum == want);
    if (pos <= 7) CHECK(three[0] == x[0] && three[9] == x[n * 3]);
  }
  for (int64_t pos = -1; pos <= 9; pos += 10) {
    CHECK(tn_run(m, "step", TN_IN(((tn_array){.data = &pos, .dtype = TN_I64}), tn_f32(x, 2, 2, 3)),
                 TN_OUT(tn_f32(three, 2, 3, 3), tn_f32_scalar(&sum))) == TN_ERR_VALUE);
    CHECK(strstr(tn_error_text(m), "test_slice_at.c:") != NULL);
    CHECK(strstr(tn_error_text(m), pos < 0 ? "-1 at [0] is not in 0.." : "9 at [0] is not in 0..") != NULL);
  }
  tn_model_free(m);
}

// A start that the run computes is checked there, before a parameter changes.
static void check_computed(uint32_t n_workers) {
  tn_program *p = tn_program_create("computed");
  tn_buffer(tn_root(p), "kept", TN_SHAPE(3), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(7, 5)),
            which = tn_argmax(tn_reshape(tn_slice(x, 1, 0, 1), TN_SHAPE(7)));
  int line = __LINE__ + 1;
  tn_tensor part = tn_slice_at(x, 0, which, 3);
  tn_copy_(tn_param_value(f, tn_root(p), "kept"), tn_sum_axis(part, 1, false));
  tn_output(f, "y", tn_relu(part));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = n_workers);
  if (!m) return;
  float values[35], y[15];
  char text[64];
  snprintf(text, sizeof text, "the slice of line %d starts at 5", line);
  for (int at = 0; at < 7; at++) {
    for (int k = 0; k < 35; k++) values[k] = k == at * 5 ? 100 : (float)k;
    tn_status status = tn_run(m, "step", TN_IN(tn_f32(values, 7, 5)), TN_OUT(tn_f32(y, 3, 5)));
    CHECK(status == (at <= 4 ? TN_OK : TN_ERR_VALUE));
    if (at <= 4) CHECK(!memcmp(y, values + 5 * at, sizeof y));
    if (at == 5) CHECK(strstr(tn_error_text(m), text) != NULL);
  }
  tn_model_free(m);
}

// A start plus an element at that place is no start that was checked, unless the element is 0.
static void check_added(void) {
  tn_program *p = tn_program_create("added");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_clone(tn_input(f, "x", TN_F32, TN_SHAPE(6))), at = tn_input(f, "at", TN_I64, TN_SCALAR);
  tn_tensor list = tn_full_like(tn_input(f, "list", TN_I64, TN_SHAPE(5)), 5);
  tn_tensor start = tn_add(at, tn_reshape(tn_slice_at(list, 0, at, 1), TN_SCALAR));
  tn_slice_assign_at_(x, 0, start, tn_full(f, 9, TN_SHAPE(2)));
  tn_output(f, "x", x);
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  float in[6] = {0}, out[6];
  int64_t numbers[5] = {0}, first = 2;
  CHECK(tn_run(m, "step", TN_IN(tn_f32(in, 6), ((tn_array){.data = &first, .dtype = TN_I64}), tn_i64(numbers, 5)),
               TN_OUT(tn_f32(out, 6))) == TN_ERR_VALUE);
  CHECK(strstr(tn_error_text(m), "starts at 7") != NULL);
  tn_model_free(m);
}

// The start of a view stays what it was when the view was made.
static void check_start_stays(void) {
  tn_program *p = tn_program_create("stays");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_clone(tn_input(f, "x", TN_F32, TN_SHAPE(6))), at = tn_clone(tn_input(f, "at", TN_I64, TN_SCALAR));
  tn_tensor view = tn_slice_at(x, 0, at, 2);
  tn_copy_(at, tn_constant_i64(f, (int64_t[]){0}, TN_SCALAR));
  tn_fill_(view, 9);
  tn_output(f, "x", x);
  tn_output(f, "again", tn_slice_at(x, 0, at, 1));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  float in[6] = {1, 2, 3, 4, 5, 6}, out[6], again;
  int64_t start = 3;
  CHECK(tn_run(m, "step", TN_IN(tn_f32(in, 6), ((tn_array){.data = &start, .dtype = TN_I64})),
               TN_OUT(tn_f32(out, 6), tn_f32(&again, 1))) == TN_OK);
  CHECK(out[2] == 3 && out[3] == 9 && out[4] == 9 && out[5] == 6 && again == 1);
  tn_model_free(m);
}

// Parts, grids, and sizes that the run knows.
static void check_parts(void) {
  tn_program *p = tn_program_create("parts");
  tn_function *f = tn_function_begin(p, "step");
  tn_dim n = tn_dim_bounded(p, "n", 6);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, 7)), out[8], grid[2];
  CHECK(tn_split(x, 3, 1, out, 8) == 3);
  tn_output(f, "split", tn_add(tn_sum_axis(out[0], 1, false), tn_sum_axis(out[2], 1, false)));
  CHECK(tn_chunk(x, 2, 1, out, 8) == 2);
  tn_output(f, "chunk", tn_sum_axis(out[1], 1, false));
  CHECK(tn_unbind(x, 1, out, 8) == 7);
  tn_output(f, "unbind", out[6]);
  CHECK(tn_split_sizes(x, (int64_t[]){2, 0, 5}, 3, 1, out) == 3);
  tn_output(f, "sizes", tn_sum_axis(out[2], 1, false));
  tn_output(f, "flip", tn_flip(x, TN_INTS(0, 1)));
  tn_output(f, "even", tn_slice_step(tn_slice_step(x, 0, TN_END, TN_END, -2), 1, 0, 1, 1));
  tn_output(f, "wide", tn_reshape(tn_pad(x, (int64_t[]){0, 0, 1, 1}, 4, TN_PAD_CONSTANT, 9), TN_SHAPE(-1, 7)));
  tn_meshgrid(TN_TENSORS(tn_arange(f, 0, 1, 2, TN_F32), tn_arange(f, 0, 1, 3, TN_F32)), true, grid);
  tn_output(f, "grid", tn_add(tn_mul_scalar(grid[0], 10), grid[1]));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 2);
  if (!m) return;
  for (int64_t rows = 0; rows <= 5; rows++) {
    float in[35], split[5], chunk[5], unbind[5], sizes[5], flip[35], even[3], wide[49], g[6];
    for (int k = 0; k < 35; k++) in[k] = (float)k;
    CHECK(tn_run(m, "step", TN_IN(tn_f32(in, rows, 7)),
                 TN_OUT(tn_f32(split, rows), tn_f32(chunk, rows), tn_f32(unbind, rows), tn_f32(sizes, rows),
                        tn_f32(flip, rows, 7), tn_f32(even, (rows + 1) / 2, 1), tn_f32(wide, rows + 2, 7),
                        tn_f32(g, 3, 2))) == TN_OK);
    for (int64_t r = 0; r < rows; r++) {
      const float *row = in + 7 * r;
      CHECK(split[r] == row[0] + row[1] + row[2] + row[6] && chunk[r] == row[4] + row[5] + row[6] &&
            unbind[r] == row[6]);
      CHECK(sizes[r] == row[2] + row[3] + row[4] + row[5] + row[6] && wide[7 * r + 8] == row[1]);
      for (int k = 0; k < 7; k++) CHECK(flip[7 * r + k] == in[7 * (rows - r) - 1 - k]);
    }
    for (int64_t k = 0; k < (rows + 1) / 2; k++) CHECK(even[k] == in[7 * (rows - 1 - 2 * k)]);
    for (int k = 0; k < 6; k++) CHECK(g[k] == (float)(k % 2 * 10 + k / 2));
    CHECK(wide[0] == 9 && wide[7 * rows + 13] == 9);
  }
  tn_model_free(m);
}

static void check_dims(void) {
  tn_program *p = tn_program_create("dims");
  tn_function *f = tn_function_begin(p, "step");
  tn_dim n = tn_dim_bounded(p, "n", 6), half = tn_dim_ceil_div(p, n, 2), more = tn_dim_add(p, tn_dim_mul(p, n, 2), 1);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, 3));
  tn_output(f, "half", tn_add(tn_zeros(f, TN_SHAPE(half, 3)), tn_slice_step(x, 0, TN_END, TN_END, 2)));
  tn_output(f, "ones", tn_sum(tn_ones(f, TN_SHAPE(more, tn_dim_sub(p, more, tn_dim_mul(p, n, 2))))));
  tn_output(f, "down", tn_sum(tn_ones(f, TN_SHAPE(tn_dim_div(p, n, 4)))));
  tn_dim few = tn_dim_min(p, tn_dim_mul(p, n, 2), 5), rest = tn_dim_max(p, tn_dim_sub(p, n, 3), 0);
  tn_output(f, "few", tn_add(tn_scalar(f, 1), tn_zeros(f, TN_SHAPE(few))));
  tn_output(f, "rest", tn_sum(tn_ones(f, TN_SHAPE(rest, tn_dim_sub(p, n, tn_dim_min(p, n, 2))))));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 1);
  if (!m) return;
  for (int64_t rows = 0; rows <= 6; rows++) {
    float in[18], half_of[9], few_of[5], ones = 0, down = 0, rest_of = 0;
    int64_t n_few = 2 * rows < 5 ? 2 * rows : 5, n_rest = rows > 3 ? rows - 3 : 0, n_left = rows > 2 ? rows - 2 : 0;
    for (int k = 0; k < 18; k++) in[k] = (float)k;
    CHECK(tn_run(m, "step", TN_IN(tn_f32(in, rows, 3)),
                 TN_OUT(tn_f32(half_of, (rows + 1) / 2, 3), tn_f32_scalar(&ones), tn_f32_scalar(&down),
                        tn_f32(few_of, n_few), tn_f32_scalar(&rest_of))) == TN_OK);
    for (int64_t k = 0; k < n_few; k++) CHECK(few_of[k] == 1);
    CHECK(rest_of == (float)(n_rest * n_left));
    for (int64_t k = 0; k < (rows + 1) / 2 * 3; k++) CHECK(half_of[k] == in[k / 3 * 6 + k % 3]);
    CHECK(ones == (float)(2 * rows + 1) && down == (float)(rows / 4));
  }
  tn_model_free(m);
}

int main(void) {
  check_dims();
  check_parts();
  for (uint32_t w = 1; w <= 3; w += 2) check_cache(w), check_computed(w);
  check_start_stays();
  check_added();
  return check_report();
}
