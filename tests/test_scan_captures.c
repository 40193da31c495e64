// Scans of many values: captured weights of which each has a gradient, carries and outputs, in numbers far above what
// one small array holds. Against the same steps written one after the other.
#include "frontend/tenure.h"
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 3, ROWS = 2, COLS = 3, MANY = 100 };

// ---- weights
typedef struct {
  tn_function *f;
  tn_tensor w[MANY];
  bool is_matmul;
} Weights;

static tn_tensor all_weights(Weights *w, tn_function *f) {
  tn_dim n = tn_dim_const(MANY), cols = tn_dim_const(COLS);
  tn_tensor all = tn_input(f, "w", TN_F32, w->is_matmul ? TN_SHAPE(n, cols, cols) : TN_SHAPE(n, cols));
  w->f = f;
  for (int64_t k = 0; k < MANY; k++)
    w->w[k] = tn_reshape(tn_slice(all, 0, k, 1), w->is_matmul ? TN_SHAPE(cols, cols) : TN_SHAPE(cols));
  return all;
}

static tn_tensor step(const Weights *w, tn_tensor x, tn_tensor h) {
  tn_tensor v = tn_add(x, h), quarter = tn_scalar(w->f, 0.25);
  for (uint32_t k = 0; k < MANY; k++) {
    tn_tensor part = w->is_matmul ? tn_tanh(tn_matmul(v, w->w[k])) : tn_mul(tn_tanh(v), w->w[k]);
    v = tn_add(v, tn_mul(quarter, part));
  }
  return tn_tanh(v);
}

static tn_tensor run_scan(const Weights *w, tn_tensor xs, tn_tensor h0) {
  tn_scan *s = tn_scan_begin(w->f, .steps = tn_dim_const(STEPS));
  tn_tensor x = tn_scan_input(s, xs), h = tn_scan_carry(s, h0);
  tn_scan_next(s, h, step(w, x, h));
  tn_scan_end(s);
  return tn_scan_final(s, h);
}

static tn_tensor run_unrolled(const Weights *w, tn_tensor xs, tn_tensor h) {
  for (int64_t t = 0; t < STEPS; t++) h = step(w, tn_reshape(tn_slice(xs, 0, t, 1), TN_SHAPE(ROWS, COLS)), h);
  return h;
}

static void add_function(tn_program *p, const char *name, bool is_matmul, bool is_scan) {
  Weights w = {.is_matmul = is_matmul};
  tn_function *f = tn_function_begin(p, name);
  tn_tensor all = all_weights(&w, f);
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(STEPS, ROWS, COLS));
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(ROWS, COLS));
  tn_tensor loss = tn_sum(tn_square(is_scan ? run_scan(&w, xs, h0) : run_unrolled(&w, xs, h0)));
  tn_output(f, "loss", loss), tn_output(f, "dw", tn_grad(loss, all)), tn_output(f, "dx", tn_grad(loss, xs));
  tn_function_end(f);
}

static void fill(float *to, uint32_t n, float by) {
  for (uint32_t k = 0; k < n; k++) to[k] = by * ((float)((k * 7 + 3) % 11) - 5.25f);
}

static void test_captures(bool is_matmul) {
  static float w[MANY * COLS * COLS], dw[2][MANY * COLS * COLS];
  float xs[STEPS * ROWS * COLS], h0[ROWS * COLS], dx[2][STEPS * ROWS * COLS], loss[2];
  uint32_t n = is_matmul ? MANY * COLS * COLS : MANY * COLS;
  tn_program *p = tn_program_create("captures");
  add_function(p, "scan", is_matmul, true), add_function(p, "unrolled", is_matmul, false);
  tn_model *m = model_of(p, .n_workers = 2);
  fill(w, n, 0.0625f), fill(xs, STEPS * ROWS * COLS, 0.125f), fill(h0, ROWS * COLS, 0.125f);
  tn_array weights = is_matmul ? tn_f32(w, MANY, COLS, COLS) : tn_f32(w, MANY, COLS);
  for (int k = 0; m && k < 2; k++)
    CHECK(
        !tn_run(m, k ? "unrolled" : "scan", TN_IN(weights, tn_f32(xs, STEPS, ROWS, COLS), tn_f32(h0, ROWS, COLS)),
                TN_OUT(tn_f32_scalar(&loss[k]), is_matmul ? tn_f32(dw[k], MANY, COLS, COLS) : tn_f32(dw[k], MANY, COLS),
                       tn_f32(dx[k], STEPS, ROWS, COLS))));
  double most = 0;
  for (uint32_t k = 0; k < n; k++) most = fmax(most, fabsf(dw[1][k]));
  CHECK(most > 1e-3 && fabsf(loss[0] - loss[1]) <= 1e-5f * loss[1]);
  for (uint32_t k = 0; k < n; k++) CHECK(fabs(dw[0][k] - dw[1][k]) <= 2e-5 * most);
  for (uint32_t k = 0; k < STEPS * ROWS * COLS; k++) CHECK(fabsf(dx[0][k] - dx[1][k]) < 1e-4f);
  tn_model_free(m), tn_program_free(p);
}

// ---- a table that each step looks up twice, with ids that come in and ids that it finds, and multiplies by
static void add_lookups(tn_program *p, tn_module *net, const char *name, bool is_scan) {
  tn_module *table = tn_module_at_path(net, "e");
  tn_function *f = tn_function_begin(p, name);
  tn_tensor ids = tn_input(f, "ids", TN_I64, TN_SHAPE(STEPS, ROWS));
  tn_tensor h = tn_input(f, "h0", TN_F32, TN_SHAPE(ROWS, COLS)), w = tn_param_value(f, net, "e.weight");
  tn_scan *s = is_scan ? tn_scan_begin(f, .steps = tn_dim_const(STEPS)) : NULL;
  tn_tensor carry = is_scan ? tn_scan_carry(s, h) : h, each = is_scan ? tn_scan_input(s, ids) : ids;
  for (int t = 0; t < (is_scan ? 1 : STEPS); t++) {
    tn_tensor now = is_scan ? each : tn_reshape(tn_slice(ids, 0, t, 1), TN_SHAPE(ROWS));
    tn_tensor a = tn_mul(tn_call(table, now), tn_sin(carry));
    tn_tensor scores = tn_matmul(a, tn_transpose(w, 0, 1));
    tn_tensor next =
        tn_tanh(tn_add(tn_add(a, tn_call(table, tn_argmax_axis(scores, -1, false))), tn_matmul(scores, w)));
    if (is_scan) tn_scan_next(s, carry, next);
    else carry = next;
  }
  if (is_scan) tn_scan_end(s);
  tn_tensor loss = tn_sum(tn_square(is_scan ? tn_scan_final(s, carry) : carry));
  tn_output(f, "loss", loss), tn_output(f, "dw", tn_grad(loss, w));
  tn_function_end(f);
}

static void test_lookups(void) {
  enum { ENTRIES = 9 };
  static const int64_t ids[STEPS * ROWS] = {1, 1, 8, 3, 1, 0};
  float w[ENTRIES * COLS], h0[ROWS * COLS], dw[2][ENTRIES * COLS], loss[2];
  tn_program *p = tn_program_create("lookups");
  tn_module *net = tn_root(p);
  tn_embedding(net, "e", ENTRIES, COLS);
  add_lookups(p, net, "scan", true), add_lookups(p, net, "unrolled", false);
  tn_model *m = model_of(p, .n_workers = 2);
  fill(w, ENTRIES * COLS, 0.0625f), fill(h0, ROWS * COLS, 0.125f);
  CHECK(m && tn_set(m, "e.weight", w, ENTRIES * COLS) == TN_OK);
  for (int k = 0; m && k < 2; k++)
    CHECK(!tn_run(m, k ? "unrolled" : "scan", TN_IN(tn_i64(ids, STEPS, ROWS), tn_f32(h0, ROWS, COLS)),
                  TN_OUT(tn_f32_scalar(&loss[k]), tn_f32(dw[k], ENTRIES, COLS))));
  CHECK(m && fabsf(loss[0] - loss[1]) <= 1e-5f * loss[1]);
  for (uint32_t k = 0; m && k < ENTRIES * COLS; k++) CHECK(fabsf(dw[0][k] - dw[1][k]) <= 1e-4f * (1 + fabsf(dw[1][k])));
  tn_model_free(m), tn_program_free(p);
}

// ---- carry k at step t is (k + 1) 2^t, its output the same before the step; the gradient of all of it
static void test_carries(void) {
  tn_tensor h[MANY], y[MANY], total = {0};
  tn_program *p = tn_program_create("carries");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(MANY));
  tn_scan *s = tn_scan_begin(f, .steps = tn_dim_const(STEPS));
  for (int64_t k = 0; k < MANY; k++) h[k] = tn_scan_carry(s, tn_slice(h0, 0, k, 1));
  for (int64_t k = 0; k < MANY; k++) {
    tn_scan_next(s, h[k], tn_add(h[k], h[k]));
    y[k] = tn_scan_output(s, h[k]);
  }
  tn_scan_end(s);
  for (int64_t k = 0; k < MANY; k++) {
    tn_tensor one = tn_add(tn_sum(y[k]), tn_sum(tn_scan_final(s, h[k])));
    total = k ? tn_add(total, one) : one;
  }
  tn_output(f, "total", total), tn_output(f, "d", tn_grad(total, h0));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float from[MANY], found = 0, d[MANY];
  for (int k = 0; k < MANY; k++) from[k] = (float)(k + 1);
  if (m) CHECK(!tn_run(m, "f", TN_IN(tn_f32(from, MANY)), TN_OUT(tn_f32_scalar(&found), tn_f32(d, MANY))));
  CHECK(found == MANY * (MANY + 1) / 2 * 15);  // 1 + 2 + 4, and 8 at last
  for (int k = 0; m && k < MANY; k++) CHECK(d[k] == 15);
  tn_model_free(m), tn_program_free(p);
}

// ---- as text
static void test_text(void) {
  enum { N = 300 };  // above what a byte counts
  RtArena *mem = rt_arena_new();
  RtText text = {.mem = mem}, again = {.mem = mem};
  rt_text_add(&text, "program @p\n\nbody @b(%%x: f32[2], %%h: f32[2]) {\n  output %%h {index=0} : f32[2]\n");
  for (int k = 1; k < N; k++) rt_text_add(&text, "  output %%x {index=%d} : f32[2]\n", k);
  rt_text_add(&text, "}\n\nfunc @f(%%xs: f32[4,2], %%h0: f32[2]) {\n  ");
  for (int k = 0; k < N; k++) rt_text_add(&text, "%s%%r%d", k ? ", " : "", k);
  rt_text_add(&text, " = scan %%xs, %%h0 {body=\"b\", slices=1, carries=1, time=4} : ");
  for (int k = 0; k < N; k++) rt_text_add(&text, "%s", k + 1 < N ? "f32[4,2], " : "f32[2]\n}\n");
  RtDiags diags = {.mem = mem};
  Prog *p = ir_parse(mem, text.text, strlen(text.text), "many.tir", &diags);
  if (CHECK(p != NULL)) {
    CHECK(p->fns[0]->ins[3].n_res == N && ir_verify(p->fns[0], &diags));
    ir_print(p, &again, 0);
    CHECK(!strcmp(text.text, again.text));
  }
  rt_diags_print(&diags, stdout);
  rt_arena_free(mem);
}

int main(void) {
  test_captures(false), test_captures(true);
  test_lookups();
  test_carries();
  test_text();
  return check_report();
}
