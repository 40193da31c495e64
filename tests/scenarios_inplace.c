// Clones, detaching, writes in place. Each case asserts values and what the plan says about copies, results in
// place and bytes: values alone never notice an optimisation that died.
#include "tests/scenario.h"
#include <math.h>
#include <stdarg.h>

// ---- small helpers
static tn_model *compile(tn_program *p, bool copy_saved) {
  tn_compile_options o = {.n_workers = 2, .copy_saved = copy_saved};
  tn_model *m = (tn_compile)(p, o);
  if (!CHECK(m != NULL)) printf("%s", report_of(p));
  return m;
}

static void finish(tn_program *p, tn_model *m) {
  tn_model_free(m);
  tn_program_free(p);
}

static bool are(const float *v, const float *want, size_t n, float tolerance) {
  for (size_t k = 0; k < n; k++)
    if (!(fabsf(v[k] - want[k]) <= tolerance))
      return printf("  [%zu]: found %.9g, expected %.9g\n", k, v[k], want[k]), false;
  return true;
}
#define ARE(v, ...) are(v, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float), 0)
#define NEAR(v, ...) are(v, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float), 1e-6f)

static tn_plan plan_of(const tn_model *m) {
  tn_plan plan = {0};
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK);
  return plan;
}

static bool runs(tn_model *m, const tn_array *in, size_t n_in, const tn_array *out, size_t n_out) {
  if (m && tn_run(m, "run", in, n_in, out, n_out) == TN_OK) return true;
  printf("  %s\n", m ? tn_error_text(m) : "no model");
  return false;
}

static const char *text_of(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static const char *text_of(const char *fmt, ...) {
  static char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return text;
}

static int count(const char *text, const char *part) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, part)); at++) n++;
  return n;
}

static char *dump_of(const tn_program *p) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  tn_dump_function(p, "run", out, TN_DUMP_LIFETIMES);
  fclose(out);
  return text;
}

#define D(n) tn_dim_const(n)
static const tn_init zeros = {TN_INIT_ZEROS, 0, 0};

static void scalar(tn_program *p, const char *name, double value) {
  tn_parameter(tn_root(p), name, TN_SCALAR, ((tn_init){TN_INIT_CONSTANT, value, 0}));
}

// ---- clones
SCENARIO(F01) {
  tn_program *p = tn_program_create("f01");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor t = tn_mul(tn_input(f, "x", TN_F32, TN_SHAPE(4)), tn_scalar(f, 2)), c = tn_clone(t);
  int line = __LINE__ - 1;
  tn_output(f, "sum", tn_add(tn_sum(t), tn_sum(c)));
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float x[] = {0.5f, 1, 1.5f, 2}, sum = 0;
  CHECK(runs(m, TN_IN(tn_f32(x, 4)), TN_OUT(tn_f32_scalar(&sum))) && sum == 20);
  tn_plan plan = plan_of(m);
  CHECK(plan.n_copies == 0 && plan.copy_bytes == 0);
  CHECK(tn_plan_bytes_written(m, "run", text_of("scenarios_inplace.c:%d", line)) == 0);  // summed where it is made
  finish(p, m);
}

static tn_program *clone_and_write(bool read_later, int *line, int *reader) {
  tn_program *p = tn_program_create("f02");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor t = tn_mul(tn_input(f, "x", TN_F32, TN_SHAPE(4)), tn_scalar(f, 2)), c = tn_clone(t);
  tn_tensor sum = tn_sum(t);
  tn_fill_(tn_slice(c, 0, 0, 1), 99), *line = __LINE__;
  tn_output(f, "c", c);
  tn_output(f, "t", read_later ? t : sum), *reader = __LINE__;
  tn_function_end(f);
  return p;
}

SCENARIO(F02) {
  int line, reader;
  float x[] = {0.5f, 1, 1.5f, 2}, t[4], c[4];
  tn_program *p = clone_and_write(true, &line, &reader);
  tn_model *m = compile(p, false);
  CHECK(runs(m, TN_IN(tn_f32(x, 4)), TN_OUT(tn_f32(c, 4), tn_f32(t, 4))));
  CHECK(ARE(t, 1, 2, 3, 4) && ARE(c, 99, 2, 3, 4));
  CHECK(plan_of(m).n_copies == 1 && plan_of(m).copy_bytes == 16);
  tn_plan_copy copy = {0};
  CHECK(tn_plan_copies(m, "run", &copy, 1) == 1 && copy.line == line && copy.bytes == 16);
  CHECK(!strcmp(copy.reader, "output") && copy.reader_line == reader &&
        strstr(copy.reader_file, "scenarios_inplace.c"));
  finish(p, m);
  p = clone_and_write(false, &line, &reader);
  m = compile(p, false);
  CHECK(runs(m, TN_IN(tn_f32(x, 4)), TN_OUT(tn_f32(c, 4), tn_f32_scalar(t))));
  CHECK(t[0] == 10 && ARE(c, 99, 2, 3, 4));
  CHECK(plan_of(m).n_copies == 0 && tn_plan_copies(m, "run", &copy, 1) == 0);
  CHECK(tn_plan_bytes_written(m, "run", text_of("scenarios_inplace.c:%d", line)) == 8);  // the number, and its place
  finish(p, m);
}

// ---- results in place
SCENARIO(F03) {
  tn_program *p = tn_program_create("f03");
  tn_buffer(tn_root(p), "x", TN_SHAPE(2, 2), zeros);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_param_value(f, tn_root(p), "x");
  tn_mul_(tn_add_(x, tn_scalar(f, 1)), tn_scalar(f, 2));
  tn_output(f, "x", x);
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float start[] = {1, 2, 3, 4}, y[4];
  CHECK(tn_set(m, "x", start, 4) == TN_OK);
  static const float want[4][4] = {{4, 6, 8, 10}, {10, 14, 18, 22}, {22, 30, 38, 46}, {46, 62, 78, 94}};
  for (int k = 0; k < 4; k++) CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32(y, 2, 2))) && are(y, want[k], 4, 0));
  tn_plan plan = plan_of(m);
  CHECK(plan.n_inplace >= 1 && plan.n_copies == 0 && plan.peak_bytes == 0);  // a run uses no memory beside x
  finish(p, m);
}

SCENARIO(F04) {
  tn_program *p = tn_program_create("f04");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(2, 4)), one = tn_input(f, "one", TN_F32, TN_SHAPE(4, 4));
  tn_tensor row = tn_input(f, "row", TN_F32, TN_SHAPE(4));
  tn_tensor y = tn_mul(tn_add(tn_matmul(a, one), row), tn_scalar(f, 2));
  tn_output(f, "y", tn_matmul(y, one));
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, eye[16] = {[0] = 1, [5] = 1, [10] = 1, [15] = 1}, r[] = {10, 20, 30, 40}, v[8];
  CHECK(runs(m, TN_IN(tn_f32(x, 2, 4), tn_f32(eye, 4, 4), tn_f32(r, 4)), TN_OUT(tn_f32(v, 2, 4))));
  CHECK(ARE(v, 22, 44, 66, 88, 30, 52, 74, 96));
  tn_plan plan = plan_of(m);  // sum and product with 2 are the epilogue of the first product: one buffer for all three
  CHECK(plan.n_kernels == 2 && plan.n_copies == 0 && plan.lower_bound == 64);
  CHECK(plan.peak_bytes == 64 || getenv("TN_CHECK"));  // guards stand around it in a guarded arena
  finish(p, m);
}

SCENARIO(F05) {
  tn_program *p = tn_program_create("f05");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(2, 2)), one = tn_input(f, "one", TN_F32, TN_SHAPE(2, 2));
  tn_tensor x = tn_matmul(a, one), y = tn_mul(tn_add(x, tn_scalar(f, 1)), tn_scalar(f, 2));
  tn_output(f, "z", tn_matmul(y, one));
  tn_output(f, "w", tn_matmul(x, one));  // x is kept
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float v[] = {1, 2, 3, 4}, eye[] = {1, 0, 0, 1}, z[4], w[4];
  CHECK(runs(m, TN_IN(tn_f32(v, 2, 2), tn_f32(eye, 2, 2)), TN_OUT(tn_f32(z, 2, 2), tn_f32(w, 2, 2))));
  CHECK(ARE(z, 4, 6, 8, 10) && ARE(w, 1, 2, 3, 4) && plan_of(m).n_inplace == 0);
  finish(p, m);
}

SCENARIO(F08) {
  tn_program *p = tn_program_create("f08");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = tn_input(f, "a", TN_F32, TN_SHAPE(2, 4, 1)), b = tn_input(f, "b", TN_F32, TN_SHAPE(1, 4, 1));
  tn_output(f, "y", tn_mul(tn_add(a, b), tn_scalar(f, 2)));
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, r[] = {10, 20, 30, 40}, v[8];
  CHECK(runs(m, TN_IN(tn_f32(x, 2, 4, 1), tn_f32(r, 1, 4, 1)), TN_OUT(tn_f32(v, 2, 4, 1))));
  CHECK(ARE(v, 22, 44, 66, 88, 30, 52, 74, 96));
  finish(p, m);
}

// ---- a row of a large store
static void assign_row(int64_t capacity) {
  tn_program *p = tn_program_create("f10");
  tn_buffer(tn_root(p), "store", TN_SHAPE(capacity, 4), zeros);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor row = tn_input(f, "row", TN_F32, TN_SHAPE(1, 4)), store = tn_param_value(f, tn_root(p), "store");
  tn_slice_assign_(store, 0, capacity - 3, row);
  tn_function_end(f);
  f = tn_function_begin(p, "put");
  row = tn_input(f, "row", TN_F32, TN_SHAPE(1, 4));
  tn_tensor at = tn_input(f, "at", TN_I64, TN_SHAPE(1));
  tn_index_put_(tn_param_value(f, tn_root(p), "store"), at, row);
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float v[] = {1, 2, 3, 4}, w[] = {5, 6, 7, 8}, *all = calloc((size_t)capacity * 4, sizeof *all);
  int64_t last = capacity - 1;
  CHECK(runs(m, TN_IN(tn_f32(v, 1, 4)), TN_NO_OUT));
  CHECK(tn_run(m, "put", TN_IN(tn_f32(w, 1, 4), tn_i64(&last, 1)), TN_NO_OUT) == TN_OK);
  CHECK(tn_get(m, "store", all, (size_t)capacity * 4) == TN_OK);
  CHECK(are(all + 4 * (capacity - 3), v, 4, 0) && are(all + 4 * last, w, 4, 0) && all[4 * capacity - 5] == 0);
  CHECK(tn_plan_bytes_written(m, "run", NULL) == 16 && tn_plan_bytes_written(m, "put", NULL) == 16);
  CHECK(plan_of(m).n_copies == 0 && plan_of(m).peak_bytes == 0);
  free(all);
  finish(p, m);
}

SCENARIO(F10) {
  assign_row(1000);
  assign_row(1000000);
}

// ---- several backward passes
static tn_tensor product(tn_tensor a, tn_tensor b, tn_tensor c, tn_tensor d) {
  return tn_mul(tn_mul(a, b), tn_mul(c, d));
}

static void scalars(tn_program *p, tn_function **f, tn_tensor *t, int n) {
  static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"};
  for (int k = 0; k < n; k++) scalar(p, names[k], 2 + k);  // t0 = 2, t1 = 3, ..
  *f = tn_function_begin(p, "run");
  for (int k = 0; k < n; k++) t[k] = tn_param_value(*f, tn_root(p), names[k]);
}

static void grad_out(tn_function *f, tn_program *p, const char *name) {
  tn_output(f, name, tn_param_grad(f, tn_root(p), name));
}

SCENARIO(F11) {
  tn_program *p = tn_program_create("f11");
  tn_function *f;
  tn_tensor t[8];
  scalars(p, &f, t, 8);
  tn_backward(product(t[0], t[1], t[2], t[3]));
  tn_backward(product(t[4], t[5], t[6], t[7]));
  grad_out(f, p, "t4"), grad_out(f, p, "t5"), grad_out(f, p, "t6"), grad_out(f, p, "t7"), grad_out(f, p, "t0");
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float g[5];
  CHECK(runs(m, TN_NO_IN,
             TN_OUT(tn_f32_scalar(g), tn_f32_scalar(g + 1), tn_f32_scalar(g + 2), tn_f32_scalar(g + 3),
                    tn_f32_scalar(g + 4))));
  CHECK(ARE(g, 7 * 8 * 9, 6 * 8 * 9, 6 * 7 * 9, 6 * 7 * 8, 3 * 4 * 5));
  finish(p, m);
}

SCENARIO(F12) {
  tn_program *p = tn_program_create("f12");
  tn_function *f;
  tn_tensor t[9];
  scalars(p, &f, t, 9);
  tn_tensor shared = tn_mul(t[0], t[1]);
  tn_backward(tn_mul(shared, tn_mul(t[2], t[3])));
  tn_backward(tn_mul(shared, tn_mul(t[7], t[8])));  // what the product saved lives until here
  grad_out(f, p, "t0"), grad_out(f, p, "t2"), grad_out(f, p, "t7");
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float g[3];
  CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32_scalar(g), tn_f32_scalar(g + 1), tn_f32_scalar(g + 2))));
  CHECK(ARE(g, 3 * (4 * 5 + 9 * 10), 2 * 3 * 5, 2 * 3 * 10));
  CHECK(plan_of(m).n_copies == 0);
  finish(p, m);
}

SCENARIO(F13) {
  tn_program *p = tn_program_create("f13");
  tn_function *f;
  tn_tensor t[9];
  scalars(p, &f, t, 9);
  tn_tensor shared = tn_mul(t[0], t[1]), loss = tn_mul(shared, tn_mul(t[2], t[3])), k = tn_mul(t[7], t[8]);
  tn_tensor unused = tn_mul(shared, k);
  (void)unused;
  tn_backward(loss);
  tn_backward(k);
  grad_out(f, p, "t0"), grad_out(f, p, "t7");
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float g[2];
  CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32_scalar(g), tn_f32_scalar(g + 1))) && ARE(g, 3 * 4 * 5, 10));
  finish(p, m);
}

// ---- what is tracked
SCENARIO(F15) {
  tn_program *p = tn_program_create("f15");
  tn_function *f;
  tn_tensor t[4];
  scalars(p, &f, t, 4);
  tn_tensor cut = tn_mul(t[1], t[2]), y = tn_mul(tn_detach(cut), t[3]);
  CHECK(tn_requires_grad(cut) && !tn_requires_grad(tn_detach(cut)) && tn_requires_grad(y));
  tn_backward(y);
  grad_out(f, p, "t3");
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float g = 0;
  CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32_scalar(&g))) && g == 3 * 4);
  char *dump = dump_of(p);
  CHECK(count(dump, "= mul ") == 1);  // t1 t2 alone: it is the gradient, y and other gradients are gone
  free(dump);
  finish(p, m);

  p = tn_program_create("f15");
  scalars(p, &f, t, 4);
  y = tn_mul(tn_detach(tn_mul(t[1], t[2])), t[3]);
  tn_grad(y, t[1]);
  int line = __LINE__ - 1;
  CHECK_HAS(report_of(p),
            text_of("scenarios_inplace.c:%d: error[E120]: no gradient flows from the loss to this value", line));
  CHECK(tn_n_errors(p) == 1);
  tn_program_free(p);
}

SCENARIO(F17) {
  tn_program *p = tn_program_create("f17");
  scalar(p, "t1", 2);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor t1 = tn_param_value(f, tn_root(p), "t1"), t2 = tn_input(f, "t2", TN_F32, TN_SCALAR),
            t3 = tn_input(f, "t3", TN_F32, TN_SCALAR);
  tn_tensor y = tn_mul(tn_mul(t1, t2), t3);
  CHECK(tn_requires_grad(t1) && !tn_requires_grad(t2) && !tn_requires_grad(t3) && tn_requires_grad(y));
  tn_set_requires_grad(t2, true);
  CHECK(tn_requires_grad(t2) && !tn_requires_grad(t3));
  tn_set_requires_grad(t2, false);
  tn_backward(y);
  grad_out(f, p, "t1");
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float a = 3, b = 5, g = 0;
  CHECK(runs(m, TN_IN(tn_f32_scalar(&a), tn_f32_scalar(&b)), TN_OUT(tn_f32_scalar(&g))) && g == 15);
  finish(p, m);
}

SCENARIO(F19) {
  tn_program *p = tn_program_create("f19");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4));
  tn_tensor min = tn_neg(tn_amax(tn_neg(tn_clone(x)))), max = tn_amax(tn_clone(x));
  tn_output(f, "y", tn_div(tn_sub(tn_clone(x), min), tn_sub(max, min)));
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float v[] = {1, 2, 3, 4}, y[4];
  CHECK(runs(m, TN_IN(tn_f32(v, 4)), TN_OUT(tn_f32(y, 4))) && NEAR(y, 0, 1 / 3.0f, 2 / 3.0f, 1));
  CHECK(plan_of(m).n_copies == 0);
  finish(p, m);
}

// ---- writes and what a backward needs
static tn_program *write_after(bool product_of_both, int *saved, int *written) {
  tn_program *p = tn_program_create("f20");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), ((tn_init){TN_INIT_CONSTANT, 3, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), a = tn_mul(w, tn_scalar(f, 2));
  tn_tensor b = product_of_both ? tn_mul(a, a) : tn_add(a, a);
  *saved = __LINE__ - 1;
  tn_add_(a, tn_scalar(f, 1));
  *written = __LINE__ - 1;
  tn_backward(tn_sum(b));
  tn_output(f, "a", a);
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  return p;
}

SCENARIO(F20) {
  int saved, written;
  tn_program *p = write_after(true, &saved, &written);
  CHECK(tn_compile(p) == NULL);
  CHECK_REPORT(
      p,
      text_of(
          "@:%d: error[E112]: the result of tn_mul is overwritten in place here, but a backward needs its old value\n"
          "@:%d: note: it was made here\n"
          "@:%d: note: the gradient of tn_mul reads it\n"
          "hint: write to tn_clone(..) instead, or compile with copy_saved\n",
          written, saved - 1, saved));
  tn_program_free(p);

  p = write_after(true, &saved, &written);
  tn_model *m = compile(p, true);
  CHECK_REPORT(p, text_of("@:%d: warning[W112]: the result of tn_mul is overwritten in place here, but a backward "
                          "needs its old value; it is kept\n"
                          "@:%d: note: it was made here\n"
                          "@:%d: note: the gradient of tn_mul reads it\n",
                          written, saved - 1, saved));
  float a[3], g[3];
  CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32(a, 3), tn_f32(g, 3))));
  CHECK(ARE(a, 7, 7, 7) && ARE(g, 24, 24, 24));  // b = (2 w)^2 of the unmodified a: 8 w
  finish(p, m);
}

SCENARIO(F21) {
  int saved, written;
  tn_program *p = write_after(false, &saved, &written);
  tn_model *m = compile(p, false);
  CHECK_REPORT(p, "");
  float a[3], g[3];
  CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32(a, 3), tn_f32(g, 3))) && ARE(a, 7, 7, 7) && ARE(g, 4, 4, 4));
  CHECK(plan_of(m).n_copies == 0);
  finish(p, m);
}

// A quotient is not what its own gradient reads, as in PyTorch: writing over it is fine, and costs no copy.
SCENARIO(F_quotient) {
  tn_program *p = tn_program_create("quotient");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), ((tn_init){TN_INIT_CONSTANT, 2, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3));
  tn_tensor y = tn_mul_(tn_div(x, tn_param_value(f, tn_root(p), "w")), tn_scalar(f, 3));
  tn_backward(tn_sum(y));
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float v[] = {1, 2, 4}, g[3];
  CHECK(runs(m, TN_IN(tn_f32(v, 3)), TN_OUT(tn_f32(g, 3))) && ARE(g, -0.75f, -1.5f, -3));  // -3 x / w^2
  CHECK(plan_of(m).n_copies == 0);
  finish(p, m);
}

SCENARIO(F23) {
  tn_program *p = tn_program_create("f23");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), ((tn_init){TN_INIT_CONSTANT, 3, 0}));
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_mul(tn_param_value(f, tn_root(p), "w"), tn_scalar(f, 2)), d = tn_detach(x);
  tn_fill_(tn_slice(d, 0, 0, 1), 9);
  CHECK(tn_requires_grad(x) && !tn_requires_grad(d));
  tn_backward(tn_sum(x));
  tn_output(f, "x", x);
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = compile(p, false);
  float v[3], g[3];
  CHECK(runs(m, TN_NO_IN, TN_OUT(tn_f32(v, 3), tn_f32(g, 3))));
  CHECK(ARE(v, 9, 6, 6) && ARE(g, 0, 2, 2));  // what was overwritten gets no gradient
  CHECK(plan_of(m).n_copies == 0);
  finish(p, m);

  p = tn_program_create("f23");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), ((tn_init){TN_INIT_CONSTANT, 3, 0}));
  f = tn_function_begin(p, "run");
  x = tn_mul(tn_param_value(f, tn_root(p), "w"), tn_scalar(f, 2));
  tn_tensor y = tn_square(x);
  int saved = __LINE__ - 1;
  tn_fill_(tn_slice(tn_detach(x), 0, 0, 1), 9);
  int written = __LINE__ - 1;
  tn_backward(tn_sum(y));
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  CHECK(tn_compile(p) == NULL);
  CHECK_REPORT(
      p,
      text_of(
          "@:%d: error[E112]: the result of tn_mul is overwritten in place here, but a backward needs its old value\n"
          "@:%d: note: it was made here\n"
          "@:%d: note: the gradient of tn_square reads it\n"
          "hint: write to tn_clone(..) instead, or compile with copy_saved\n",
          written, saved - 1, saved));
  tn_program_free(p);
}
