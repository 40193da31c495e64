// Writes in place: what is refused and in which words, regions without gradients, parameters and buffers over runs, and
// plans in which a write comes too early.
#include "frontend/module/tree.h"
#include "frontend/tenure.h"
#include "ir/passes/passes.h"
#include "tests/check.h"
#include "tests/models.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define D(n) tn_dim_const(n)
static const tn_init zeros = {TN_INIT_ZEROS, 0, 0}, threes = {TN_INIT_CONSTANT, 3, 0};

static bool reports(const tn_program *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool reports(const tn_program *p, const char *fmt, ...) {
  char want[1024], *have = NULL;
  size_t size = 0;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(want, sizeof want, fmt, ap);
  va_end(ap);
  FILE *out = open_memstream(&have, &size);
  tn_report(p, out);
  fclose(out);
  bool same = !strcmp(want, have);
  if (!same) printf("  want: %s\n  have: %s\n", want, have);
  free(have);
  return same;
}

typedef struct {
  tn_program *p;
  tn_function *f;
  tn_tensor w, b, x;  // parameter [3], buffer [2, 3], input [3]
} Case;

static int w_made, x_made;  // lines

static Case begin(void) {
  Case c = {.p = tn_program_create("in_place")};
  tn_parameter(tn_root(c.p), "w", TN_SHAPE(3), threes), w_made = __LINE__;
  tn_buffer(tn_root(c.p), "b", TN_SHAPE(2, 3), zeros);
  c.f = tn_function_begin(c.p, "run");
  c.w = tn_param_value(c.f, tn_root(c.p), "w");
  c.b = tn_param_value(c.f, tn_root(c.p), "b");
  c.x = tn_input(c.f, "x", TN_F32, TN_SHAPE(3)), x_made = __LINE__;
  return c;
}

static tn_model *compile(Case c) {
  tn_function_end(c.f);
  return model_of(c.p);
}

static void finish(Case c, tn_model *m) {
  tn_model_free(m);
  tn_program_free(c.p);
}

static bool are(const float *v, float a, float b, float c) {
  bool same = v[0] == a && v[1] == b && v[2] == c;
  if (!same) printf("  found %g %g %g\n", v[0], v[1], v[2]);
  return same;
}

#define HERE __FILE__ ":%d: "

// ---- refusals
static void leaf(void) {
  Case c = begin();
  tn_tensor view = tn_slice(c.w, 0, 1, 2);
  int line = __LINE__ + 1;
  CHECK(tn_relu_(view).v == 0);
  CHECK(reports(c.p,
                HERE "error[E113]: parameter 'w' is written in place by tn_relu_ outside a no-grad region\n" HERE
                     "note: 'w' was made here\nhint: write it between tn_no_grad_begin and tn_no_grad_end\n",
                line, w_made));
  finish(c, NULL);
  c = begin();
  tn_freeze(tn_root(c.p), true);
  c.f = tn_function_begin(c.p, "frozen");
  tn_tensor w = tn_param_value(c.f, tn_root(c.p), "w");
  CHECK(!tn_requires_grad(w) && tn_fill_(w, 2).v);
  tn_set_requires_grad(w, true);
  CHECK(tn_requires_grad(w) && !tn_fill_(w, 2).v && tn_n_errors(c.p) == 1);
  finish(c, NULL);
}

static void frozen(void) {
  Case c = begin();
  tn_parameter(tn_root(c.p), "u", TN_SHAPE(3), zeros);
  tn_tensor u = tn_param_value(c.f, tn_root(c.p), "u");
  tn_set_requires_grad(u, false);
  int line = __LINE__ + 1;
  tn_copy_(u, tn_mul(c.w, c.w));
  CHECK(reports(c.p,
                HERE "error[E113]: tn_copy_ would make a frozen parameter depend on trainable ones\n" HERE
                     "note: the parameter is used here\nhint: tn_detach(..) the new content, or write it between "
                     "tn_no_grad_begin and tn_no_grad_end\n",
                line, line - 3));
  CHECK(tn_copy_(u, tn_detach(tn_mul(c.w, c.w))).v);
  finish(c, NULL);
}

static void input(void) {
  Case c = begin();
  int line = __LINE__ + 1;
  tn_relu_(tn_reshape(c.x, TN_SHAPE(3, 1)));
  tn_neg_(c.x);  // told once
  CHECK(reports(c.p,
                HERE
                "warning[W124]: input 'x' is modified by tn_relu_: handles of it show the new content, the caller's "
                "memory keeps the old\n" HERE "note: input 'x' was made here\nhint: tn_clone(x) leaves it as it is\n",
                line, x_made));
  tn_output(c.f, "y", c.x);
  tn_model *m = compile(c);
  float x[] = {1, -1, 2}, y[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(y, 3))) == TN_OK && are(y, -1, 0, -2) && are(x, 1, -1, 2));
  finish(c, m);
}

static void misfits(void) {
  Case c = begin();
  tn_tensor wide = tn_expand(c.x, TN_SHAPE(2, 3));
  int made = __LINE__ - 1, line = __LINE__ + 1;
  tn_neg_(wide);
  CHECK(reports(c.p,
                HERE "error[E004]: tn_neg_ writes to a broadcast view: one element would take several values\n" HERE
                     "note: it was broadcast here\n",
                line, made));
  finish(c, NULL);
  c = begin();
  tn_tensor y = tn_exp(c.x);
  line = __LINE__ + 1;
  tn_add_(y, c.b);
  CHECK(reports(c.p,
                HERE "error[E004]: tn_add_ makes f32[2,3], which does not fit into f32[3]\n" HERE
                     "note: what it writes to was made here\n"
                     "hint: without _ at its end the call gives a value of its own, of that shape\n",
                line, line - 2));
  finish(c, NULL);
  c = begin();
  tn_copy_(tn_exp(c.x), c.b);
  CHECK(tn_n_errors(c.p) == 1);  // not broadcast downwards
  tn_slice_assign_(c.b, 0, 2, tn_slice(c.b, 0, 0, 1));
  CHECK(tn_n_errors(c.p) == 2);  // past the end
  tn_slice_assign_(c.b, 0, 0, c.x);
  CHECK(tn_n_errors(c.p) == 3);  // another rank
  finish(c, NULL);
}

// ---- regions
static void regions(void) {
  Case c = begin();
  int line = __LINE__ + 1;
  tn_no_grad_end(c.f);
  CHECK(reports(c.p, HERE "error[E009]: tn_no_grad_end without a tn_no_grad_begin before it\n", line));
  finish(c, NULL);
  c = begin();
  tn_no_grad_begin(c.f);
  int begun = __LINE__ - 1;
  tn_output(c.f, "y", c.x);
  line = __LINE__ + 1;
  tn_function_end(c.f);
  CHECK(reports(c.p, HERE "error[E009]: function 'run' ends inside a no-grad region\n" HERE "note: it was begun here\n",
                line, begun));
  finish(c, NULL);
  c = begin();
  tn_no_grad_begin(c.f);
  tn_tensor inside = tn_mul(c.w, c.w);
  tn_no_grad_begin(c.f);
  tn_no_grad_end(c.f);
  tn_tensor both = tn_mul(c.w, c.w);
  tn_no_grad_end(c.f);
  CHECK(!tn_requires_grad(inside) && !tn_requires_grad(both) && tn_requires_grad(tn_mul(inside, c.w)));
  CHECK(!tn_requires_grad(tn_cast(c.w, TN_I64)) && !tn_requires_grad(c.b) && !tn_requires_grad(c.x));
  tn_backward(tn_sum(tn_mul(inside, c.w)));
  tn_output(c.f, "g", tn_param_grad(c.f, tn_root(c.p), "w"));
  tn_model *m = compile(c);
  float x[3] = {0}, g[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(g, 3))) == TN_OK && are(g, 9, 9, 9));
  finish(c, m);
}

static void flags(void) {
  Case c = begin();
  tn_tensor y = tn_mul(c.w, c.x);
  int line = __LINE__ + 1;
  tn_set_requires_grad(y, false);
  CHECK(reports(c.p,
                HERE "error[E120]: requires_grad belongs to inputs and parameters: this value is computed\n" HERE
                     "note: it was made here by tn_mul\nhint: tn_detach(t) is the value without its gradient\n",
                line, line - 2));
  finish(c, NULL);
}

// ---- parameters
static void by_hand(void) {
  Case c = begin();
  tn_tensor loss = tn_sum(tn_mul(c.w, c.x));
  tn_backward(loss);
  tn_no_grad_begin(c.f);
  tn_sub_(c.w, tn_mul(tn_param_grad(c.f, tn_root(c.p), "w"), tn_scalar(c.f, 0.5)));
  tn_no_grad_end(c.f);
  tn_output(c.f, "w", c.w);
  tn_model *m = compile(c);
  float x[] = {1, 2, 4}, w[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(w, 3))) == TN_OK && are(w, 2.5f, 2, 1));
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(w, 3))) == TN_OK && are(w, 2, 1, -1));
  CHECK(tn_get(m, "w", w, 3) == TN_OK && are(w, 2, 1, -1));
  tn_plan plan;
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK && plan.n_copies == 0);
  finish(c, m);
}

// A gradient is a value like any other: written in place, the optimizer reads what was written.
static void scaled_gradient(void) {
  Case c = begin();
  tn_backward(tn_sum(tn_mul(c.w, c.x)));
  tn_mul_(tn_param_grad(c.f, tn_root(c.p), "w"), tn_scalar(c.f, 0.5));
  tn_fill_(tn_transpose(tn_slice(tn_param_grad(c.f, tn_root(c.p), "w"), 0, 2, 1), 0, 0), 1);
  tn_sgd(c.f, tn_root(c.p), .lr = 1);
  tn_output(c.f, "w", c.w);
  tn_model *m = compile(c);
  float x[] = {1, 2, 4}, w[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(w, 3))) == TN_OK && are(w, 2.5f, 2, 2));
  finish(c, m);
}

// A handle made before the optimizer names the parameter, not its old content; clones keep that.
static void after_update(void) {
  Case c = begin();
  tn_tensor old = tn_clone(c.w);
  tn_backward(tn_sum(tn_mul(c.w, c.x)));
  tn_sgd(c.f, tn_root(c.p), .lr = 1);
  tn_output(c.f, "w", c.w);
  tn_output(c.f, "again", tn_param_value(c.f, tn_root(c.p), "w"));
  tn_output(c.f, "old", old);
  tn_model *m = compile(c);
  float x[] = {1, 2, 4}, w[3], again[3], was[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(w, 3), tn_f32(again, 3), tn_f32(was, 3))) == TN_OK);
  CHECK(are(w, 2, 1, -1) && are(again, 2, 1, -1) && are(was, 3, 3, 3));
  tn_plan plan;
  CHECK(tn_plan_of(m, "run", &plan) == TN_OK && plan.n_copies == 1);
  finish(c, m);

  c = begin();
  tn_tensor loss = tn_sum(tn_square(c.w));
  int saved = __LINE__ - 1;
  tn_backward(tn_sum(tn_mul(c.w, c.x)));
  tn_sgd(c.f, tn_root(c.p));
  int written = __LINE__ - 1;
  tn_backward(loss);  // too late: the square needs the old weight
  tn_output(c.f, "g", tn_param_grad(c.f, tn_root(c.p), "w"));
  tn_function_end(c.f);
  CHECK(!tn_compile(c.p));
  CHECK(reports(
      c.p,
      HERE
      "error[E112]: parameter 'w' is overwritten in place here, but a backward needs its old value\n" HERE
      "note: it was made here\n" HERE
      "note: the gradient of tn_square reads it\nhint: write to tn_clone(..) instead, or compile with copy_saved\n",
      written, w_made, saved));
  finish(c, NULL);
}

// Zeros where no path leads, where they are asked for: of a value that is cut off, and of one that the loss does not read
static void zeros_for_none(void) {
  Case c = begin();
  tn_tensor loss = tn_sum(tn_mul(tn_detach(tn_square(c.w)), c.x)), zero = tn_grad_or_zeros(loss, c.w);
  tn_output(c.f, "x", tn_grad_or_zeros(loss, c.x));
  tn_output(c.f, "w", zero);
  tn_output(c.f, "b", tn_grad_or_zeros(loss, c.b));
  CHECK(tn_n_errors(c.p) == 0);
  tn_model *m = compile(c);
  float x[] = {1, 2, 4}, g[3], w[3], b[6] = {1, 1, 1, 1, 1, 1};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(g, 3), tn_f32(w, 3), tn_f32(b, 2, 3))) == TN_OK);
  CHECK(are(g, 9, 9, 9) && are(w, 0, 0, 0) && are(b, 0, 0, 0) && are(b + 3, 0, 0, 0));
  finish(c, m);
}

// ---- behind the optimizer: the write makes the next version of the parameter
static tn_tensor value(Case c, const char *name) { return tn_param_value(c.f, tn_root(c.p), name); }

// Kept between -2 and 2, as the weights of a WGAN's critic are; then their average
static void clipped(void) {
  Case c = begin();
  tn_backward(tn_sum(tn_mul(c.w, tn_mul_scalar(c.x, 30))));
  tn_adamw(c.f, tn_root(c.p), .lr = 2);  // to about 1, 1, 5
  tn_no_grad_begin(c.f);
  tn_clamp_(c.w, -2, 2);
  tn_mul_(tn_slice(c.w, 0, 0, 1), tn_scalar(c.f, 4));
  tn_no_grad_end(c.f);
  tn_ema(c.f, tn_root(c.p), .decay = 0.5);
  tn_tensor after = tn_clone(c.w), loss = tn_sum(tn_square(value(c, "w")));
  tn_output(c.f, "w", after);
  tn_output(c.f, "g", tn_grad(loss, c.w));  // of a loss behind all that
  tn_no_grad_begin(c.f);
  tn_fill_(c.w, 7);
  tn_no_grad_end(c.f);
  tn_model *m = compile(c);
  float x[] = {1, 1, -1}, w[3], g[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_OUT(tn_f32(w, 3), tn_f32(g, 3))) == TN_OK);
  CHECK(fabsf(w[0] - 4) < 1e-5f && fabsf(w[1] - 1) < 1e-5f && w[2] == 2);
  CHECK(g[0] == 2 * w[0] && g[1] == 2 * w[1] && g[2] == 4);
  float average[3];
  CHECK(tn_get(m, "optimizer.ema.w", average, 3) == TN_OK && are(average, w[0], w[1], w[2]));
  CHECK(tn_get(m, "w", w, 3) == TN_OK && are(w, 7, 7, 7));
  finish(c, m);
}

// In each run, also in those that only accumulate
static void clipped_while_accumulating(void) {
  Case c = begin();
  tn_backward(tn_sum(tn_mul(c.w, c.x)));
  tn_accumulate(c.f, tn_root(c.p), 2);
  tn_sgd(c.f, tn_root(c.p), .lr = 1);
  tn_no_grad_begin(c.f);
  tn_clamp_(c.w, -2, 2);
  tn_no_grad_end(c.f);
  tn_model *m = compile(c);
  float x[] = {1, 2, 3}, w[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_NO_OUT) == TN_OK && tn_get(m, "w", w, 3) == TN_OK && are(w, 2, 2, 2));
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_NO_OUT) == TN_OK && tn_get(m, "w", w, 3) == TN_OK && are(w, 1, 0, -1));
  finish(c, m);
}

// Two optimizers, one parameter copied into the other between them; 16 bits
static void between_optimizers(void) {
  Case c = {.p = tn_program_create("in_place")};
  tn_module *a = tn_module_new(tn_root(c.p), "a"), *b = tn_module_new(tn_root(c.p), "b");
  tn_parameter(a, "w", TN_SHAPE(3), threes), tn_parameter(b, "w", TN_SHAPE(3), threes);
  tn_store_as(b, "w", TN_BF16);
  c.f = tn_function_begin(c.p, "both");
  tn_tensor x = tn_input(c.f, "x", TN_F32, TN_SHAPE(3));
  tn_tensor aw = tn_param_value(c.f, a, "w"), bw = tn_param_value(c.f, b, "w");
  tn_backward(tn_sum(tn_mul(tn_add(aw, tn_cast(bw, TN_F32)), x)));
  tn_sgd(c.f, a, .lr = 1);
  tn_no_grad_begin(c.f);
  tn_copy_(bw, aw);
  tn_no_grad_end(c.f);
  tn_sgd(c.f, b, .lr = 1);
  tn_no_grad_begin(c.f);
  tn_add_(aw, tn_cast(bw, TN_F32));
  tn_copy_(bw, tn_mul_scalar(tn_cast(bw, TN_F32), 2));
  tn_no_grad_end(c.f);
  tn_output(c.f, "b", tn_cast(bw, TN_F32));
  tn_function_end(c.f);
  tn_model *m = tn_compile(c.p);
  float v[] = {1, 2, 4}, w[3], out[3];
  if (CHECK(m != NULL)) CHECK(tn_run(m, "both", TN_IN(tn_f32(v, 3)), TN_OUT(tn_f32(out, 3))) == TN_OK);
  CHECK(m && tn_get(m, "a.w", w, 3) == TN_OK && are(w, 3, 0, -6) && are(out, 2, -2, -10));
  finish(c, m);
}

// Rows are shortened to norm 1 as they are looked up, by the call behind the step once more
static void max_norm(void) {
  tn_program *p = tn_program_create("max_norm");
  tn_module *table = tn_embedding(tn_root(p), "e", 4, 2, .max_norm = 1);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor i = tn_input(f, "i", TN_I64, TN_SHAPE(2));
  tn_backward(tn_sum(tn_call(table, i)));
  tn_sgd(f, tn_root(p), .lr = 1, .maximize = true);
  tn_output(f, "y", tn_call(table, i));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  int64_t rows[] = {0, 3};
  float w[8] = {3, 4, 3, 4, 3, 4, 5, 12}, y[4];
  CHECK(m && tn_set(m, "e.weight", w, 8) == TN_OK);
  CHECK(m && tn_run(m, "run", TN_IN(tn_i64(rows, 2)), TN_OUT(tn_f32(y, 2, 2))) == TN_OK);
  CHECK(m && tn_get(m, "e.weight", w, 8) == TN_OK);
  double a = 1 + 3 / 5.0, b = 1 + 4 / 5.0, c = 1 + 5 / 13.0, d = 1 + 12 / 13.0;
  CHECK(fabs(w[0] - a / hypot(a, b)) < 1e-5 && fabs(w[7] - d / hypot(c, d)) < 1e-5 && w[2] == 3 && w[5] == 4);
  CHECK(!memcmp(y, w, 8) && !memcmp(y + 2, w + 6, 8));
  tn_model_free(m);
  tn_program_free(p);
}

static void sharded(void) {
  Case c = {.p = tn_program_create("in_place")};
  tn_parameter(tn_root(c.p), "w", TN_SHAPE(3), threes);
  c.f = tn_function_begin(c.p, "shards");
  tn_dim n = tn_dim_bounded(c.p, "n", 4);
  tn_distributed(c.f, .n = 2, .batch = n);
  tn_tensor x = tn_input(c.f, "x", TN_F32, TN_SHAPE(n, 3));
  tn_backward(tn_mean(tn_sum_axis(tn_mul(x, value(c, "w")), 1, false)));
  tn_sgd(c.f, tn_root(c.p), .lr = 1);
  tn_no_grad_begin(c.f);
  tn_clamp_(value(c, "w"), -1, 1);
  tn_no_grad_end(c.f);
  tn_function_end(c.f);
  tn_model *m = tn_compile(c.p);
  float v[12] = {1, 2, 5, 2, 2, 6, 3, 2, 7, 4, 2, 4}, w[3];
  if (CHECK(m != NULL)) CHECK(tn_run(m, "shards", TN_IN(tn_f32(v, 4, 3)), TN_NO_OUT) == TN_OK);
  CHECK(m && tn_get(m, "w", w, 3) == TN_OK && are(w, 0.5f, 1, -1));
  finish(c, m);
}

// A scan behind the step reads the new content; what it leaves in a buffer goes to the parameter.
static void scanned(void) {
  Case c = begin();
  tn_backward(tn_sum(tn_mul(c.w, c.x)));
  tn_sgd(c.f, tn_root(c.p), .lr = 1);
  tn_tensor row = tn_slice(c.b, 0, 1, 1);
  tn_scan *s = tn_scan_begin(c.f, .steps = D(3));
  tn_add_(row, tn_detach(tn_reshape(c.w, TN_SHAPE(1, 3))));
  tn_scan_end(s);
  tn_no_grad_begin(c.f);
  tn_copy_(c.w, tn_reshape(row, TN_SHAPE(3)));
  tn_no_grad_end(c.f);
  tn_model *m = compile(c);
  float x[] = {1, 2, 4}, w[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3)), TN_NO_OUT) == TN_OK && tn_get(m, "w", w, 3) == TN_OK && are(w, 6, 3, -3));
  finish(c, m);
}

static void casts(void) {
  Case c = begin();
  tn_tensor i = tn_input(c.f, "i", TN_I64, TN_SHAPE(3)), k = tn_clone(i);
  tn_copy_(tn_slice(k, 0, 1, 2), tn_slice(c.x, 0, 0, 2));
  tn_output(c.f, "k", k);
  tn_copy_(tn_slice(c.b, 0, 1, 1), i);
  tn_model *m = compile(c);
  float x[] = {2.75f, -3.5f, 0}, b[6];
  int64_t v[] = {7, 8, 9}, out[3];
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, 3), tn_i64(v, 3)), TN_OUT(tn_i64(out, 3))) == TN_OK);
  CHECK(out[0] == 7 && out[1] == 2 && out[2] == -3);
  CHECK(tn_get(m, "b", b, 6) == TN_OK && are(b, 0, 0, 0) && are(b + 3, 7, 8, 9));
  finish(c, m);
}

// ---- a plan in which a write comes before a read of what it overwrites
static bool finds_swap(Fn *f, Op reader, Op writer) {
  uint32_t r = UINT32_MAX, w = UINT32_MAX;
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (f->ins[f->kernels[k].first].op == reader && r == UINT32_MAX) r = k;
    if (f->ins[f->kernels[k].first].op == writer) w = k;
  }
  if (r == UINT32_MAX || w == UINT32_MAX || r > w) return false;
  Kernel keep = f->kernels[r];
  f->kernels[r] = f->kernels[w];
  f->kernels[w] = keep;
  bool sound = ir_pass_verify_plan(f);
  f->kernels[w] = f->kernels[r];
  f->kernels[r] = keep;
  return !sound;
}

static void order(bool in_param) {
  Case c = begin();
  tn_tensor t = in_param ? c.b : tn_matmul(tn_reshape(c.x, TN_SHAPE(3, 1)), tn_reshape(c.x, TN_SHAPE(1, 3)));
  tn_tensor sum = tn_sum_axis(t, 0, false);  // before the write, as built
  tn_slice_assign_(t, 0, 1, tn_reshape(c.x, TN_SHAPE(1, 3)));
  tn_output(c.f, "sum", tn_amax(sum));
  tn_output(c.f, "t", tn_sum_axis(t, 1, false));
  tn_function_end(c.f);
  fe_params_flush(c.p);
  Fn *f = c.f->ir;
  CHECK(ir_run_passes(f, NULL, NULL, NULL) && f->stats.n_copies == 0);
  CHECK(finds_swap(f, OP_sum, OP_slice_assign));
  CHECK(ir_pass_verify_plan(f));
  finish(c, NULL);
}

int main(void) {
  leaf();
  frozen();
  input();
  misfits();
  regions();
  flags();
  by_hand();
  scaled_gradient();
  after_update();
  zeros_for_none();
  clipped();
  clipped_while_accumulating();
  between_optimizers();
  max_norm();
  sharded();
  scanned();
  casts();
  order(false);
  order(true);
  return check_report();
}
