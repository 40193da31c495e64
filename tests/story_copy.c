// The story of copy_. In tch-rs and PyTorch copy_ overwrites a tensor in place, and autograd finds out at run time, by
// version counters, whether somebody needed the old content. Here a write makes a new version before gradients are
// derived: they are right by construction, and what cannot be right is an error with both places.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include <stdlib.h>

#define D(n) tn_dim_const(n)
static const tn_init zeros = {TN_INIT_ZEROS, 0, 0}, twos = {TN_INIT_CONSTANT, 2, 0};

static bool has_report(const tn_program *p, const char *part) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  tn_report(p, out);
  fclose(out);
  bool found = CHECK_HAS(text, part);
  free(text);
  return found;
}

// 1. The destination takes the values, broadcast and cast; the gradient goes to the source, none to what was there.
static void gradients(void) {
  tn_program *p = tn_program_create("gradients");
  tn_parameter(tn_root(p), "w", TN_SHAPE(3), twos);
  tn_parameter(tn_root(p), "v", TN_SHAPE(2, 3), twos);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), t = tn_square(tn_param_value(f, tn_root(p), "v"));
  tn_copy_(t, tn_mul(w, tn_scalar(f, 5)));          // both rows are 5 w
  tn_copy_(tn_slice(t, 1, 0, 1), tn_scalar(f, 7));  // the first column is 7
  CHECK(tn_requires_grad(t));
  tn_backward(tn_sum(t));
  tn_output(f, "t", t);
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float v[6], g[3];
  CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(v, 2, 3), tn_f32(g, 3))) == TN_OK);
  CHECK(v[0] == 7 && v[1] == 10 && v[2] == 10 && v[3] == 7 && v[4] == 10 && v[5] == 10);
  CHECK(g[0] == 0 && g[1] == 10 && g[2] == 10);  // twice 5, but not where 7 stands
  tn_model_free(m);
  tn_program_free(p);
}

// 2. A trainable leaf is written under no_grad, as weights are loaded; anywhere else it would tear the graph.
static void leaves(void) {
  tn_program *p = tn_program_create("leaves");
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), twos);
  tn_function *f = tn_function_begin(p, "load");
  tn_tensor w = tn_param_value(f, tn_root(p), "w"), s = tn_input(f, "s", TN_F32, TN_SHAPE(2));
  tn_no_grad_begin(f);
  tn_copy_(w, s);
  tn_no_grad_end(f);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float source[] = {4, 5}, now[2];
  CHECK(tn_run(m, "load", TN_IN(tn_f32(source, 2)), TN_NO_OUT) == TN_OK);
  CHECK(tn_get(m, "w", now, 2) == TN_OK && now[0] == 4 && now[1] == 5);
  tn_model_free(m);
  tn_program_free(p);

  p = tn_program_create("leaves");
  tn_parameter(tn_root(p), "w", TN_SHAPE(2), twos);
  f = tn_function_begin(p, "load");
  tn_copy_(tn_param_value(f, tn_root(p), "w"), tn_input(f, "s", TN_F32, TN_SHAPE(2)));
  has_report(p, "error[E113]: parameter 'w' is written in place by tn_copy_ outside a no-grad region");
  tn_program_free(p);
}

// 3. Handles are shallow: relu_ through a reshape changes the original. The caller's array stays, and a warning says
// so.
static void shallow(void) {
  tn_program *p = tn_program_create("shallow");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(3)), ys = tn_relu_(tn_reshape(xs, TN_SHAPE(3, 1)));
  tn_output(f, "xs", xs);
  tn_output(f, "ys", ys);
  tn_function_end(f);
  tn_model *m = model_of(p);
  has_report(p, "warning[W124]: input 'xs' is modified by tn_relu_");
  float in[] = {1, -1, 2}, x[3], y[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(in, 3)), TN_OUT(tn_f32(x, 3), tn_f32(y, 3, 1))) == TN_OK);
  CHECK(x[0] == 1 && x[1] == 0 && x[2] == 2 && y[0] == 1 && y[1] == 0 && y[2] == 2 && in[1] == -1);
  tn_model_free(m);
  tn_program_free(p);
}

// 4. A write to one path of a shared parameter is a write to the other, now and in the next run.
static void shared(void) {
  tn_program *p = tn_program_create("shared");
  tn_module *a = tn_module_new(tn_root(p), "a"), *b = tn_module_new(tn_root(p), "b");
  tn_buffer(a, "state", TN_SHAPE(2), zeros);
  tn_share(b, "state", a, "state");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor one = tn_param_value(f, a, "state"), other = tn_param_value(f, b, "state");
  tn_add_(one, tn_scalar(f, 1));
  tn_add_(tn_slice(other, 0, 1, 1), tn_scalar(f, 1));
  tn_output(f, "one", one);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float v[2];
  for (int run = 1; run <= 3; run++) {
    CHECK(tn_run(m, "run", TN_NO_IN, TN_OUT(tn_f32(v, 2))) == TN_OK && v[0] == (float)run && v[1] == (float)(2 * run));
    CHECK(tn_get(m, "b.state", v, 2) == TN_OK && v[0] == (float)run && v[1] == (float)(2 * run));
  }
  tn_model_free(m);
  tn_program_free(p);
}

// 5. A ring buffer of rows, as a replay memory has it: each step writes its rows and nothing else.
static void replay(void) {
  tn_program *p = tn_program_create("replay");
  tn_buffer(tn_root(p), "memory", TN_SHAPE(50000, 4), zeros);
  tn_function *f = tn_function_begin(p, "push");
  tn_tensor rows = tn_input(f, "rows", TN_F32, TN_SHAPE(2, 4)), at = tn_input(f, "at", TN_I64, TN_SHAPE(2));
  tn_index_put_(tn_param_value(f, tn_root(p), "memory"), at, rows);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float row[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *all = malloc(200000 * sizeof *all);
  int64_t where[] = {49999, 17}, outside[] = {3, 50000};
  CHECK(tn_run(m, "push", TN_IN(tn_f32(row, 2, 4), tn_i64(where, 2)), TN_NO_OUT) == TN_OK);
  CHECK(tn_get(m, "memory", all, 200000) == TN_OK);
  CHECK(all[199996] == 1 && all[199999] == 4 && all[68] == 5 && all[71] == 8 && all[72] == 0);
  CHECK(tn_plan_bytes_written(m, "push", NULL) == 32);
  CHECK(tn_run(m, "push", TN_IN(tn_f32(row, 2, 4), tn_i64(outside, 2)), TN_NO_OUT) == TN_ERR_VALUE);
  CHECK(tn_get(m, "memory", all, 200000) == TN_OK && all[12] == 0);  // refused before anything was written
  free(all);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  gradients();
  leaves();
  shallow();
  shared();
  replay();
  return check_report();
}
