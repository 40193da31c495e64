// Sizes of the run that make another size negative: refused with the line that computed it, before anything is written, by
// tn_run and by a bundle's function; and what is left when it is not.
#include "frontend/tenure.h"
#include "tests/bundle_case.h"
#include "tests/check.h"
#include "tests/models.h"

#include <string.h>

static const char *text;  // of the last refusal
static char wanted[160];

static tn_program *begin(tn_function **f, tn_dim *n) {
  tn_program *p = tn_program_create("sizes");
  *n = tn_dim_bounded(p, "n", 8);
  *f = tn_function_begin(p, "step");
  return p;
}

static tn_model *compile(tn_program *p, tn_function *f) {
  tn_function_end(f);
  return model_alone(p);
}

// One f32 [n] in, one f32 [m] out. What is refused leaves the output as it was.
static tn_status run(tn_model *m, int64_t n, int64_t n_out) {
  float x[16], y[16];
  for (int k = 0; k < 16; k++) x[k] = (float)k, y[k] = -7;
  tn_status status = tn_run(m, "step", TN_IN(tn_f32(x, n)), TN_OUT(tn_f32(y, n_out)));
  text = status ? tn_error_text(m) : "";
  CHECK(!status || y[0] == -7);
  return status;
}

// Diagonals beside the main one have no elements in small squares, as views, too: of offset `above`, and `below` below.
static void check_diagonals_beside(int above, int below) {
  enum { MOST = 5 };
  tn_program *p = tn_program_create("diagonals");
  tn_dim n = tn_dim_bounded(p, "n", MOST);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n, n)), y = tn_add_scalar(x, 1);
  tn_output(f, "above", tn_clone(tn_diagonal(y, above, 0, 1)));
  tn_output(f, "below", tn_clone(tn_diagonal(y, -below, 0, 1)));
  tn_neg_(tn_diagonal(y, above, 0, 1));
  tn_neg_(tn_diagonal(y, -below, 0, 1));
  tn_output(f, "y", y);
  tn_model *m = compile(p, f);
  for (int64_t size = 0; m && size <= MOST; size++) {
    float in[MOST * MOST], out[MOST * MOST], upper[MOST], lower[MOST];
    int64_t n_above = size > above ? size - above : 0, n_below = size > below ? size - below : 0;
    for (int k = 0; k < MOST * MOST; k++) in[k] = (float)k;
    CHECK(!tn_run(m, "step", TN_IN(tn_f32(in, size, size)),
                  TN_OUT(tn_f32(upper, n_above), tn_f32(lower, n_below), tn_f32(out, size, size))));
    for (int64_t k = 0; k < n_above; k++) CHECK(upper[k] == (float)(k * size + k + above + 1));
    for (int64_t k = 0; k < n_below; k++) CHECK(lower[k] == (float)((k + below) * size + k + 1));
    for (int64_t i = 0; i < size; i++)
      for (int64_t j = 0; j < size; j++) {
        float was = (float)(i * size + j + 1);
        CHECK(out[i * size + j] == (j - i == above || i - j == below ? -was : was));
      }
  }
  tn_model_free(m);
}

static const char *at_line(const char *what, int line, const char *rest) {
  snprintf(wanted, sizeof wanted, "step: %s (%s:%d)%s", what, __FILE__, line, rest);
  return wanted;
}

static void check_difference(void) {
  tn_function *f;
  tn_dim n;
  tn_program *p = begin(&f, &n);
  int line = __LINE__ + 1;
  tn_dim less = tn_dim_sub(p, n, 3);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n));
  tn_output(f, "y", tn_add(tn_zeros(f, TN_SHAPE(less)), tn_sum(x)));
  tn_model *m = compile(p, f);
  if (!m) return;
  for (int64_t k = 3; k <= 8; k++) CHECK(run(m, k, k - 3) == TN_OK);
  for (int64_t k = 0; k < 3; k++) {
    char rest[64];
    snprintf(rest, sizeof rest, " is %d in this run, where n is %d", (int)k - 3, (int)k);
    CHECK(run(m, k, 1) == TN_ERR_ARGUMENT);
    CHECK_HAS(text, at_line("the size n-3", line, rest));
  }
  CHECK(run(m, 5, 2) == TN_OK);  // a refused call leaves nothing behind
  tn_model_free(m);
}

// Two dims, a product of differences, a size that only a reshape has.
static void check_product(void) {
  tn_function *f;
  tn_dim n;
  tn_program *p = begin(&f, &n);
  tn_dim m = tn_dim_bounded(p, "m", 8);
  int line = __LINE__ + 1;
  tn_dim a = tn_dim_sub(p, n, m), b = tn_dim_sub(p, m, 2);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n)), y = tn_input(f, "y", TN_F32, TN_SHAPE(m));
  tn_output(f, "z", tn_add(tn_zeros(f, TN_SHAPE(tn_dim_mul(p, a, b))), tn_add(tn_sum(x), tn_sum(y))));
  tn_model *model = compile(p, f);
  if (!model) return;
  float v[64] = {0}, z[64];
  static const int64_t sizes[][3] = {{8, 2, 0}, {8, 4, 8}, {4, 4, 0}, {3, 2, 0}};
  for (int k = 0; k < 4; k++)
    CHECK(
        !tn_run(model, "step", TN_IN(tn_f32(v, sizes[k][0]), tn_f32(v, sizes[k][1])), TN_OUT(tn_f32(z, sizes[k][2]))));
  CHECK(tn_run(model, "step", TN_IN(tn_f32(v, 0), tn_f32(v, 1)), TN_OUT(tn_f32(z, 1))));  // (0 - 1) (1 - 2) is 1
  CHECK_HAS(tn_error_text(model), at_line("the size n-m", line, " is -1 in this run, where n is 0 and m is 1"));
  CHECK(tn_run(model, "step", TN_IN(tn_f32(v, 5), tn_f32(v, 1)), TN_OUT(tn_f32(z, 1))));
  CHECK_HAS(tn_error_text(model), at_line("the size m-2", line, " is -1 in this run, where m is 1"));
  tn_model_free(model);
}

// x[2:6], x[1:], x[:-2], and the same backward, of every length.
static void check_slices(void) {
  tn_function *f;
  tn_dim n;
  tn_program *p = begin(&f, &n);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n));
  int line = __LINE__ + 1;
  tn_output(f, "y", tn_slice_step(x, 0, 2, 6, 1));
  tn_model *m = compile(p, f);
  for (int64_t k = 0; m && k <= 8; k++) {
    CHECK(run(m, k, 4) == (k < 6 ? TN_ERR_ARGUMENT : TN_OK));
    if (k == 5)
      CHECK_HAS(text, at_line("what a slice leaves of its axis, n-6", line, " is -1 in this run, where n is 5"));
  }
  if (m) tn_model_free(m);
  p = begin(&f, &n);
  x = tn_input(f, "x", TN_F32, TN_SHAPE(n));
  line = __LINE__ + 1;
  tn_output(f, "y", tn_slice_step(x, 0, TN_END, -2, 1));
  m = compile(p, f);
  for (int64_t k = 0; m && k <= 8; k++) CHECK(run(m, k, k < 2 ? 1 : k - 2) == (k < 2 ? TN_ERR_ARGUMENT : TN_OK));
  if (m) tn_model_free(m);
}

// A parameter that the run would write stays as it was; so it does in a bundle.
static void check_bundle(void) {
  unsetenv("TN_CHECK");  // bundles have no guarded arena
  tn_function *f;
  tn_dim n;
  tn_program *p = begin(&f, &n);
  tn_buffer(tn_root(p), "kept", TN_SCALAR, (tn_init){.kind = TN_INIT_ZEROS});
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(n)), kept = tn_param_value(f, tn_root(p), "kept");
  int line = __LINE__ + 1;
  tn_dim less = tn_dim_sub(p, n, 2);
  tn_copy_(kept, tn_add(kept, tn_sum(tn_mul(tn_slice_step(x, 0, 1, -1, 1), tn_ones(f, TN_SHAPE(less))))));
  tn_output(f, "y", kept);
  tn_function_end(f);
  tn_model *m = case_compile(p);
  RtArena *mem = rt_arena_new();
  TnBundle bundle = case_bundle(mem, m, "sizes");
  const TnBundleFunction *step = &bundle.about->functions[0];
  unsigned char *state = case_state(&bundle, 3), *arena = case_block(step->arena_bytes);
  float v[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y = -7, mine = -7;
  static const int64_t sizes[] = {5, 1, 8, 0, 2};
  for (int k = 0; k < 5; k++) {
    struct {
      int64_t n;
      const float *x;
    } in = {sizes[k], v};
    float *out = &y;
    int status = tn_bundle_call(&bundle, cg_bundle_function(bundle.about->plans[0], 0), 0, state, arena,
                                step->arena_bytes, &in, &out);
    CHECK((status != 0) == (sizes[k] < 2) &&
          (status != 0) == (tn_run(m, "step", TN_IN(tn_f32(v, sizes[k])), TN_OUT(tn_f32_scalar(&mine))) != TN_OK));
    CHECK(y == mine && case_same(&bundle, state, m));
    if (status) CHECK_HAS(tn_bundle_error(&bundle, status), at_line("the size n-2", line, " is below 0"));
  }
  CHECK(y == 2 + 3 + 4 + 2 + 3 + 4 + 5 + 6 + 7);
  free(state), free(arena);
  rt_arena_free(mem);
  tn_model_free(m);
  tn_program_free(p);
}

// What is below 0 whatever the run brings, and sizes that only the run finds.
static void check_refused(void) {
  tn_function *f;
  tn_dim n;
  tn_program *p = begin(&f, &n);
  tn_dim_sub(p, n, 9);
  CHECK_HAS(report_of(p), "the size n-9 is always below 0");
  tn_program_free(p);
  p = begin(&f, &n);
  tn_slice(tn_input(f, "x", TN_F32, TN_SHAPE(n)), 0, 3, 6);
  CHECK_HAS(report_of(p), "6 elements from index 3 on do not lie in axis 0");
  tn_program_free(p);
  p = begin(&f, &n);
  tn_tensor out[4];
  tn_split(tn_input(f, "x", TN_F32, TN_SHAPE(n)), 2, 0, out, 4);
  CHECK_HAS(report_of(p), "an axis whose size the run knows has no fixed number of parts");
  CHECK_HAS(report_of(p), "tn_chunk makes a given number of parts");
  tn_program_free(p);
}

int main(void) {
  check_diagonals_beside(1, 1);
  check_diagonals_beside(2, 3);
  check_diagonals_beside(3, 1);
  check_difference();
  check_product();
  check_slices();
  check_bundle();
  check_refused();
  return check_report();
}
