// Sums have an order of their own, whatever a vector holds: rows and columns of every width have the same bits on all
// targets of this machine that round a b + d once.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, WIDTH = 200, N_OUT = 13 };

static const char text[] =
    "program @p\n%s"
    "func @f(%%x: f32[%s,%s], %%g: f32[%s,%s], %%l: i64[%s], %%w: f32[%s]) {\n"
    "%%a = sum %%x {axes=[1]}\n%%b = sum %%x {axes=[0]}\n%%c = sum %%x {axes=[0,1]}\n%%d = prod %%x {axes=[1]}\n"
    "%%e = amax %%x {axes=[1]}\n%%f = softmax %%x\n%%h = log_softmax %%x\n%%i, %%j = cross_entropy_rows %%x, %%l\n"
    "%%k, %%m, %%r = layer_norm %%x, %%w, %%w {eps=1e-05}\n%%n, %%o = rms_norm %%x, %%w {eps=1e-05}\n"
    "%%q = mul %%x, %%g\n%%s = sum %%q {axes=[1]}\n%%t = tanh %%x\n%%u = sum %%t {axes=[1]}\n%%v = softmax_grad %%f, "
    "%%g\n"
    "output %%a {name=\"a\", index=0}\noutput %%b {name=\"b\", index=1}\noutput %%c {name=\"c\", index=2}\n"
    "output %%d {name=\"d\", index=3}\noutput %%e {name=\"e\", index=4}\noutput %%f {name=\"f\", index=5}\n"
    "output %%h {name=\"h\", index=6}\noutput %%i {name=\"i\", index=7}\noutput %%k {name=\"k\", index=8}\n"
    "output %%n {name=\"n\", index=9}\noutput %%s {name=\"s\", index=10}\noutput %%u {name=\"u\", index=11}\n"
    "output %%v {name=\"v\", index=12}\n}\n";

// Width in elements; 0: the run knows it, up to WIDTH. Rows likewise.
typedef struct {
  int rows, width;
} Form;

static tn_model *compile(const char *target, Form f) {
  char rows[16] = "rows", width[16] = "width", dims[64] = "", program[sizeof text + 128];
  if (f.rows) snprintf(rows, sizeof rows, "%d", f.rows);
  else snprintf(dims, sizeof dims, "dim rows <= %d\n", ROWS);
  if (f.width) snprintf(width, sizeof width, "%d", f.width);
  else snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "dim width <= %d\n", WIDTH);
  int n = snprintf(program, sizeof program, text, dims, rows, width, rows, width, rows, width);
  tn_program *p = tn_program_parse(program, (size_t)n, "sums.tir");
  setenv("TN_TARGET", target, 1);
  tn_model *m = model_alone(p, .n_workers = 1);
  unsetenv("TN_TARGET");
  return m;
}

static float x[ROWS * WIDTH], g[ROWS * WIDTH], w[WIDTH];
static int64_t label[ROWS];

static void draw(void) {
  uint32_t state = 1;
  for (int i = 0; i < ROWS * WIDTH; i++) {
    state = state * 1664525 + 1013904223;
    x[i] = (float)(int32_t)state * 0x1p-30f;
    g[i] = x[i] * x[i] - 1;
  }
  for (int i = 0; i < WIDTH; i++) w[i] = x[i * 3] + 1;
  x[17] = -0.0f, x[18] = 0;
}

static bool run(tn_model *m, int64_t rows, int64_t width, float out[N_OUT][ROWS * WIDTH]) {
  for (int64_t k = 0; k < rows; k++) label[k] = k % width;
  tn_array in[] = {tn_f32(x, rows, width), tn_f32(g, rows, width), tn_i64(label, rows), tn_f32(w, width)};
  tn_array to[] = {tn_f32(out[0], rows),        tn_f32(out[1], width), tn_f32_scalar(out[2]),
                   tn_f32(out[3], rows),        tn_f32(out[4], rows),  tn_f32(out[5], rows, width),
                   tn_f32(out[6], rows, width), tn_f32(out[7], rows),  tn_f32(out[8], rows, width),
                   tn_f32(out[9], rows, width), tn_f32(out[10], rows), tn_f32(out[11], rows),
                   tn_f32(out[12], rows, width)};
  memset(out, 0, sizeof(float[N_OUT][ROWS * WIDTH]));
  bool good = CHECK(tn_run(m, "f", in, 4, to, N_OUT) == TN_OK);
  if (!good) printf("%s\n", tn_error_text(m));
  return good;
}

static void compare(tn_model *a, tn_model *b, int64_t rows, int64_t width) {
  static float out[2][N_OUT][ROWS * WIDTH];
  if (!run(a, rows, width, out[0]) || !run(b, rows, width, out[1])) return;
  for (int k = 0; k < N_OUT; k++)
    if (!CHECK(!memcmp(out[0][k], out[1][k], sizeof out[0][k])))
      printf("  output %d of %lld rows of %lld\n", k, (long long)rows, (long long)width);
}

static void check_form(const char *first, const char *second, Form f) {
  static const int rows[] = {1, 3, 15, 16, 17, ROWS}, width[] = {1, 7, 16, 33, 64, 150, WIDTH};
  tn_model *a = compile(first, f), *b = compile(second, f);
  for (size_t r = 0; a && b && r < sizeof rows / sizeof *rows; r++) {
    if (f.rows && r) break;
    int64_t n = f.rows ? f.rows : rows[r];
    for (size_t k = 0; k < (f.width ? 1 : sizeof width / sizeof *width); k++)
      compare(a, b, n, f.width ? f.width : width[k]);
  }
  tn_model_free(a);
  tn_model_free(b);
}

static const char *next_target(uint32_t *k) {
  uint32_t n;
  char lack[TARGET_LACK];
  for (const Target *t = cg_targets(&n); *k < n;) {
    const Target *row = &t[(*k)++];
    if (row->has_fma && row->has_image && cg_target_runs_here(row, lack)) return row->name;
  }
  return NULL;
}

int main(void) {
  static const int width[] = {1,  2,  3,  8,  15, 16, 17,  24,  31,  32,  33,
                              47, 48, 63, 64, 65, 72, 100, 127, 128, 130, WIDTH};
  uint32_t k = 0;
  const char *first = next_target(&k);
  draw();
  for (const char *second; first && (second = next_target(&k));) {
    for (size_t i = 0; i < sizeof width / sizeof *width; i++) {
      check_form(first, second, (Form){.width = width[i]});
      check_form(first, second, (Form){.rows = 3, .width = width[i]});
    }
    check_form(first, second, (Form){0});
    printf("%s and %s\n", first, second);
  }
  return check_report();
}
