// Scans in scans: over layers, over hours within days. Each program states the same computation twice, with scans and with
// its outer scan written out step by step; values and gradients of both orders agree. What is wrong names both lines.
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>

enum { B = 4, T = 6, W = 8, L = 3, HOURS = 5 };
#define D(n) tn_dim_const(n)

static void fill(float *v, int n, unsigned seed) {
  for (int k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = (float)((double)(seed >> 8) / 8388608.0 - 1);
  }
}

static bool near(const float *a, const float *b, int n) {
  double most = 1;
  for (int k = 0; k < n; k++) most = fmax(most, fabs((double)b[k]));
  for (int k = 0; k < n; k++)
    if (!(fabs((double)a[k] - (double)b[k]) < 1e-6 * most)) {
      printf("  element %d: %g, written out %g; the largest has %g\n", k, (double)a[k], (double)b[k], most);
      return CHECK(false);
    }
  return true;
}

static tn_tensor at_step(tn_tensor xs, int k) { return tn_squeeze(tn_slice(xs, 0, k, 1), 0); }

// ---- a scan over layers: each attends within sequences of packed rows, and then scans over their steps
static tn_tensor recur(tn_function *f, tn_packed s, tn_tensor w, tn_tensor h0) {
  tn_scan *time = tn_scan_begin(f, .over = s, .name = "time");
  tn_tensor x = tn_scan_input(time, s.data), h = tn_scan_carry(time, h0);
  tn_scan_next(time, h, tn_tanh(tn_add(tn_matmul(h, w), x)));
  tn_tensor ys = tn_scan_output(time, h);
  tn_scan_end(time);
  return tn_add(ys, s.data);
}

static tn_tensor layer(tn_function *f, tn_packed s, tn_tensor w, tn_tensor rows, tn_tensor h0) {
  tn_dim n = tn_dim_of(rows, 0);
  tn_packed heads = tn_packed_with_data(s, tn_reshape(rows, TN_SHAPE(n, 2, W / 2)));
  tn_packed seen = tn_packed_attention(heads, heads, heads, .causal = true);
  tn_tensor mixed = tn_add(tn_matmul(tn_reshape(seen.data, TN_SHAPE(n, W)), w), rows);
  return recur(f, tn_packed_with_data(s, mixed), w, h0);
}

static void add_layers(tn_program *p, const char *name, bool is_scan) {
  tn_dim b = tn_dim_bounded(p, "batch", B), t = tn_dim_bounded(p, "time", T);
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, W)), ws = tn_input(f, "ws", TN_F32, TN_SHAPE(L, W, W));
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(b, W)), len = tn_input(f, "len", TN_I64, TN_SHAPE(b));
  tn_packed s = tn_pack_padded(x, len, .allow_empty = true);
  tn_tensor rows = s.data;
  if (is_scan) {
    tn_scan *layers = tn_scan_begin(f, .steps = D(L), .name = "layers");
    tn_tensor w = tn_scan_input(layers, ws), a = tn_scan_carry(layers, rows);
    tn_scan_next(layers, a, layer(f, s, w, a, h0));
    tn_scan_end(layers);
    rows = tn_scan_final(layers, a);
  } else {
    for (int k = 0; k < L; k++) rows = layer(f, s, at_step(ws, k), rows, h0);
  }
  tn_tensor loss = tn_sum(tn_square(rows));
  tn_output(f, "loss", loss);
  tn_output(f, "d_x", tn_grad(loss, x));
  tn_output(f, "d_ws", tn_grad(loss, ws));
  tn_output(f, "d_h0", tn_grad(loss, h0));
  tn_function_end(f);
}

static void check_layers(unsigned workers) {
  tn_program *p = tn_program_create("layers");
  add_layers(p, "scan", true);
  add_layers(p, "flat", false);
  tn_model *m = model_of(p, .n_workers = workers);
  float x[B * T * W], ws[L * W * W], h0[B * W], r[2][1 + B * T * W + L * W * W + B * W];
  fill(x, B * T * W, 1), fill(ws, L * W * W, 2), fill(h0, B * W, 3);
  static const int64_t lengths[][B] = {{T, 1, 3, 4}, {0, 2, T, 0}, {T, T, T, T}};
  for (size_t k = 0; m && k < sizeof lengths / sizeof *lengths; k++) {
    for (int way = 0; way < 2; way++) {
      float *at = r[way];
      tn_status status = tn_run(m, way ? "flat" : "scan",
                                TN_IN(tn_f32(x, B, T, W), tn_f32(ws, L, W, W), tn_f32(h0, B, W), tn_i64(lengths[k], B)),
                                TN_OUT(tn_f32_scalar(at), tn_f32(at + 1, B, T, W), tn_f32(at + 1 + B * T * W, L, W, W),
                                       tn_f32(at + 1 + B * T * W + L * W * W, B, W)));
      if (!CHECK(status == TN_OK)) printf("  %s\n", tn_error_text(m));
    }
    near(r[0], r[1], sizeof *r / sizeof **r);
  }
  tn_model_free(m);
  tn_program_free(p);
}

// ---- hours within days, gradients of both orders, and a total that both scans write in place
typedef struct {
  tn_function *f;
  tn_tensor w, u, total;
} Days;

static tn_tensor day(Days *d, tn_tensor hours, tn_tensor h0) {
  tn_scan *s = tn_scan_begin(d->f, .steps = D(HOURS), .name = "hours");
  tn_tensor x = tn_scan_input(s, hours), h = tn_scan_carry(s, h0);
  tn_tensor next = tn_tanh(tn_add(tn_matmul(h, d->w), tn_mul(x, tn_add(d->u, d->total))));
  tn_copy_(d->total, tn_sin(tn_add(d->total, tn_mean_axis(next, 0, false))));
  tn_scan_next(s, h, next);
  tn_tensor ys = tn_scan_output(s, tn_mul(next, d->total));
  tn_scan_end(s);
  tn_mul_(d->total, tn_scalar(d->f, 0.5));
  return tn_add(tn_scan_final(s, h), tn_mul(tn_mean_axis(ys, 0, false), d->total));
}

static void add_days(tn_program *p, const char *name, bool is_scan, bool reverse) {
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(L, HOURS, 2, W)), h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(2, W));
  Days d = {.f = f, .w = tn_input(f, "w", TN_F32, TN_SHAPE(W, W)), .u = tn_input(f, "u", TN_F32, TN_SHAPE(W))};
  d.total = tn_mul(d.u, tn_scalar(f, 0.25));
  tn_tensor h = h0;
  if (is_scan) {
    tn_scan *days = tn_scan_begin(f, .steps = D(L), .name = "days", .reverse = reverse);
    tn_tensor hours = tn_scan_input(days, x), a = tn_scan_carry(days, h0);
    tn_scan_next(days, a, day(&d, hours, a));
    tn_scan_end(days);
    h = tn_scan_final(days, a);
  } else {
    for (int k = 0; k < L; k++) h = day(&d, at_step(x, reverse ? L - 1 - k : k), h);
  }
  tn_tensor loss = tn_add(tn_sum(tn_square(h)), tn_sum(d.total)), d_x = tn_grad(loss, x);
  tn_tensor second = tn_add(loss, tn_sum(tn_square(d_x)));
  tn_output(f, "loss", second);
  tn_output(f, "total", d.total);
  tn_output(f, "d_x", tn_grad(second, x));
  tn_output(f, "d_w", tn_grad(second, d.w));
  tn_output(f, "d_u", tn_grad(second, d.u));
  tn_output(f, "d_h0", tn_grad(second, h0));
  tn_function_end(f);
}

static void check_days(unsigned workers, bool reverse) {
  tn_program *p = tn_program_create("days");
  add_days(p, "scan", true, reverse);
  add_days(p, "flat", false, reverse);
  tn_model *m = model_of(p, .n_workers = workers, .copy_saved = true);
  enum { X = L * HOURS * 2 * W };
  float x[X], h0[2 * W], w[W * W], u[W], r[2][1 + W + X + W * W + W + 2 * W];
  fill(x, X, 4), fill(h0, 2 * W, 5), fill(w, W * W, 6), fill(u, W, 7);
  for (int way = 0; m && way < 2; way++) {
    float *at = r[way];
    tn_status status = tn_run(
        m, way ? "flat" : "scan", TN_IN(tn_f32(x, L, HOURS, 2, W), tn_f32(h0, 2, W), tn_f32(w, W, W), tn_f32(u, W)),
        TN_OUT(tn_f32_scalar(at), tn_f32(at + 1, W), tn_f32(at + 1 + W, L, HOURS, 2, W), tn_f32(at + 1 + W + X, W, W),
               tn_f32(at + 1 + W + X + W * W, W), tn_f32(at + 1 + W + X + W * W + W, 2, W)));
    if (!CHECK(status == TN_OK)) printf("  %s\n", tn_error_text(m));
  }
  if (m) near(r[0], r[1], sizeof *r / sizeof **r);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- mistakes
typedef struct {
  tn_program *p;
  tn_function *f;
  tn_scan *outer, *inner;
  tn_tensor xs, x, h, g;
} Wrong;

static Wrong begin_wrong(void) {
  Wrong w = {.p = tn_program_create("wrong")};
  w.f = tn_function_begin(w.p, "f");
  w.xs = tn_input(w.f, "xs", TN_F32, TN_SHAPE(L, HOURS, W));
  w.outer = tn_scan_begin(w.f, .steps = D(L), .name = "outer");
  w.x = tn_scan_input(w.outer, w.xs);
  w.h = tn_scan_carry(w.outer, tn_zeros(w.f, TN_SHAPE(W)));
  w.inner = tn_scan_begin(w.f, .steps = D(HOURS), .name = "inner");
  w.g = tn_scan_carry(w.inner, w.h);
  return w;
}

static void end_wrong(Wrong *w, const char *first, const char *second) {
  tn_function_end(w->f);
  CHECK(tn_compile(w->p) == NULL);
  CHECK_HAS(report_of(w->p), first);
  CHECK_HAS(report_of(w->p), second);
  if (!CHECK(tn_n_errors(w->p) == 1)) printf("%s", report_of(w->p));
  tn_program_free(w->p);
}

static void end_both(Wrong *w) {
  tn_scan_end(w->inner);
  tn_scan_next(w->outer, w->h, tn_scan_final(w->inner, w->g));
  tn_scan_end(w->outer);
}

static void check_mistakes(void) {
  Wrong w = begin_wrong();
  tn_scan_next(w.inner, w.g, tn_sin(w.g));
  tn_scan_output(w.outer, w.h);
  end_both(&w);
  end_wrong(&w, "error[E009]: scan 'outer' is not the innermost: scan 'inner' is open", "it began here");

  w = begin_wrong();
  tn_tensor made = tn_sin(w.g);
  tn_scan_next(w.inner, w.g, made);
  made = tn_move_to_outer(made);
  tn_scan_end(w.inner);
  tn_scan_next(w.outer, w.h, made);
  tn_scan_end(w.outer);
  end_wrong(&w, "error[E103]: a value of a scan's body is used outside of it", "it was made here");

  w = begin_wrong();
  tn_scan_next(w.inner, w.g, w.g);
  tn_scan_end(w.outer);
  end_both(&w);
  end_wrong(&w, "error[E009]: scan 'outer' is not the innermost", "it began here");

  w = begin_wrong();
  tn_tensor inside = tn_scan_input(w.inner, w.x);
  tn_mul_(w.x, tn_scalar(w.f, 2));
  tn_scan_next(w.inner, w.g, inside);
  end_both(&w);
  end_wrong(&w, "error[E113]: what a scan takes in is written inside of it", "the scan takes it in here");

  w = begin_wrong();
  tn_scan *deep[8];
  for (int k = 0; k < 7; k++) deep[k] = tn_scan_begin(w.f, .steps = D(2), .name = "deep");
  for (int k = 6; k-- > 0;) tn_scan_output(deep[k], tn_sin(w.g)), tn_scan_end(deep[k]);
  tn_scan_next(w.inner, w.g, w.g);
  end_both(&w);
  end_wrong(&w, "error[E009]: scans nest above 8 deep", "the scan began here");
}

int main(void) {
  for (unsigned workers = 1; workers <= 2; workers++) {
    check_layers(workers);
    check_days(workers, false);
    check_days(workers, true);
  }
  check_mistakes();
  return check_report();
}
