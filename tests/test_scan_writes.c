// Writes in place in the body of a scan: done in each step, as the calls say. What was made outside changes from step
// to step and shows the last content afterwards; what the body makes is new in each step.
//
// Every case is computed once more by a plain loop here, by the interpreter in doubles, and where there is a gradient,
// by finite differences.
#include "tests/models.h"
#include "tests/report.h"
#include "tests/scan_oracle.h"

#include <math.h>

enum { T = 5, N = 3 };
#define D(n) tn_dim_const(n)

static void fill(float *v, int n, unsigned seed) {
  for (int k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = (float)((double)(seed >> 8) / 8388608.0 - 1);
  }
}

static bool run(tn_model *m, const tn_array *in, size_t n_in, const tn_array *out, size_t n_out) {
  bool ok = m && tn_run(m, "f", in, n_in, out, n_out) == TN_OK;
  if (!CHECK(ok)) printf("  %s\n", m ? tn_error_text(m) : "no model");
  return ok;
}

static void end(tn_program *p, tn_model *m) {
  tn_model_free(m);
  tn_program_free(p);
}

static bool near(const float *a, const double *b, int n) {
  bool good = true;
  for (int k = 0; k < n; k++) good &= fabs((double)a[k] - b[k]) < 1e-5 * (1 + fabs(b[k]));
  return CHECK(good);
}

// ---- content that depends on nothing in the body, and content that does; the gradients of both
static void check_each_step(bool reverse, int64_t steps) {
  tn_program *p = tn_program_create("each");
  tn_dim t = tn_dim_bounded(p, "time", T);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(t, N)), w = tn_input(f, "w", TN_F32, TN_SHAPE(N));
  tn_tensor u = tn_input(f, "u", TN_F32, TN_SHAPE(N));
  tn_tensor acc = tn_mul(w, tn_scalar(f, 2)), prod = tn_add(w, tn_scalar(f, 1));
  tn_scan *s = tn_scan_begin(f, .steps = t, .reverse = reverse);
  tn_tensor x = tn_scan_input(s, xs), h = tn_scan_carry(s, tn_zeros(f, TN_SHAPE(N)));
  tn_tensor seen = tn_add(h, tn_mul(x, acc));  // before this step's write
  tn_add_(acc, u);
  tn_copy_(prod, tn_sin(tn_add(tn_mul(prod, x), acc)));
  tn_scan_next(s, h, tn_add(seen, prod));
  tn_tensor accs = tn_scan_output(s, acc);
  tn_scan_end(s);
  tn_tensor loss = tn_add(tn_sum(tn_square(tn_scan_final(s, h))), tn_sum(tn_mul(acc, prod)));
  tn_output(f, "loss", loss);
  tn_output(f, "acc", acc);
  tn_output(f, "prod", prod);
  tn_output(f, "accs", accs);
  tn_output(f, "d_xs", tn_grad(loss, xs));
  tn_output(f, "d_w", tn_grad(loss, w));
  tn_output(f, "d_u", tn_grad(loss, u));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  float v[T * N], wv[N], uv[N], l, a[N], b[N], as[T * N] = {0}, dx[T * N] = {0}, dw[N], du[N];
  fill(v, T * N, 1), fill(wv, N, 2), fill(uv, N, 3);
  tn_array in[] = {tn_f32(v, steps, N), tn_f32(wv, N), tn_f32(uv, N)};
  double want = 0, acc_v[N], prod_v[N];
  bool good = run(m, in, 3,
                  TN_OUT(tn_f32_scalar(&l), tn_f32(a, N), tn_f32(b, N), tn_f32(as, steps, N), tn_f32(dx, steps, N),
                         tn_f32(dw, N), tn_f32(du, N)));
  for (int j = 0; j < N; j++) {
    double h_v = 0;
    acc_v[j] = 2 * (double)wv[j], prod_v[j] = (double)wv[j] + 1;
    for (int64_t i = 0; i < steps; i++) {
      int64_t at = (reverse ? steps - 1 - i : i) * N + j;
      h_v += (double)v[at] * acc_v[j];
      acc_v[j] += (double)uv[j];
      prod_v[j] = sin(prod_v[j] * (double)v[at] + acc_v[j]);
      h_v += prod_v[j];
      CHECK(fabs((double)as[at] - acc_v[j]) < 1e-5);
    }
    want += h_v * h_v + acc_v[j] * prod_v[j];
  }
  CHECK(good && near(a, acc_v, N) && near(b, prod_v, N) && near(&l, &want, 1));
  Oracle o;
  if (!oracle_open(&o, p, "f")) return;
  oracle_size(&o, "time", steps);
  oracle_take(&o, m, in, 3);
  CHECK(oracle_run(&o) && oracle_agrees(&o, 0, &l, 1e-5) && oracle_agrees(&o, 1, a, 1e-5) &&
        oracle_agrees(&o, 2, b, 1e-5) && oracle_agrees(&o, 4, dx, 1e-5) && oracle_agrees(&o, 5, dw, 1e-5) &&
        oracle_agrees(&o, 6, du, 1e-5));
  for (int64_t e = 0; e < N; e++) CHECK(oracle_slope(&o, 1, e, 0, 5, 1e-6) && oracle_slope(&o, 2, e, 0, 6, 1e-6));
  for (int64_t e = 0; e < steps * N; e++) CHECK(oracle_slope(&o, 0, e, 0, 4, 1e-6));
  oracle_close(&o);
  end(p, m);
}

// ---- a gradient that goes round: what a step writes, the next one reads, and nothing else leads to `w`
static void check_round(void) {
  tn_program *p = tn_program_create("round");
  tn_parameter(tn_root(p), "w", TN_SHAPE(N), (tn_init){TN_INIT_CONSTANT, 0.5, 0});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor first = tn_zeros(f, TN_SHAPE(N)), second = tn_zeros(f, TN_SHAPE(N));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_tensor h = tn_scan_carry(s, tn_zeros(f, TN_SHAPE(N)));
  tn_scan_next(s, h, tn_add(h, second));
  tn_copy_(second, first);
  tn_copy_(first, tn_square(tn_param_value(f, tn_root(p), "w")));
  tn_scan_end(s);
  tn_backward(tn_sum(tn_scan_final(s, h)));
  tn_output(f, "g", tn_param_grad(f, tn_root(p), "w"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  float g[N];
  const double want[N] = {T - 2, T - 2, T - 2};  // (T - 2) w^2
  CHECK(run(m, NULL, 0, TN_OUT(tn_f32(g, N))) && near(g, want, N));
  end(p, m);
}

// ---- views: made outside and inside, written and read; a parameter's buffer, used first in the body
static void check_views(void) {
  tn_program *p = tn_program_create("views");
  tn_buffer(tn_root(p), "count", TN_SCALAR, (tn_init){.kind = TN_INIT_ZEROS});
  tn_buffer(tn_root(p), "rows", TN_SHAPE(2, N), (tn_init){.kind = TN_INIT_ZEROS});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(T, N)), w = tn_input(f, "w", TN_F32, TN_SHAPE(2, N));
  tn_tensor grid = tn_add(w, tn_scalar(f, 0)), top = tn_slice(grid, 0, 0, 1), flat = tn_reshape(grid, TN_SHAPE(2 * N));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_tensor x = tn_scan_input(s, xs), h = tn_scan_carry(s, tn_zeros(f, TN_SHAPE(2 * N)));
  tn_add_(top, x);
  tn_mul_(tn_slice(grid, 1, 1, 1), tn_scalar(f, -0.5));
  tn_no_grad_begin(f);
  tn_add_(tn_param_value(f, tn_root(p), "count"), tn_scalar(f, 1));
  tn_slice_assign_(tn_param_value(f, tn_root(p), "rows"), 0, 1, tn_reshape(x, TN_SHAPE(1, N)));
  tn_no_grad_end(f);
  tn_scan_next(s, h, tn_add(h, tn_mul(flat, tn_param_value(f, tn_root(p), "count"))));
  tn_scan_end(s);
  tn_output(f, "h", tn_scan_final(s, h));
  tn_output(f, "grid", grid);
  tn_output(f, "top", top);
  tn_output(f, "count", tn_clone(tn_param_value(f, tn_root(p), "count")));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  float v[T * N], wv[2 * N], hv[2 * N], gv[2 * N], tv[N], c, rows[2 * N];
  double grid_v[2 * N], h_v[2 * N];
  fill(v, T * N, 4), fill(wv, 2 * N, 5);
  for (int again = 0; again < 2; again++) {
    for (int k = 0; k < 2 * N; k++) grid_v[k] = (double)wv[k], h_v[k] = 0;
    for (int i = 0; i < T; i++) {
      for (int j = 0; j < N; j++) grid_v[j] += (double)v[i * N + j];
      grid_v[1] *= -0.5, grid_v[N + 1] *= -0.5;
      for (int k = 0; k < 2 * N; k++) h_v[k] += grid_v[k] * (again * T + i + 1);
    }
    CHECK(run(m, TN_IN(tn_f32(v, T, N), tn_f32(wv, 2, N)),
              TN_OUT(tn_f32(hv, 2 * N), tn_f32(gv, 2, N), tn_f32(tv, 1, N), tn_f32_scalar(&c))) &&
          near(hv, h_v, 2 * N) && near(gv, grid_v, 2 * N) && near(tv, grid_v, N) && c == (float)((again + 1) * T));
    CHECK(tn_get(m, "count", &c, 1) == TN_OK && c == (float)((again + 1) * T));
    CHECK(tn_get(m, "rows", rows, 2 * N) == TN_OK && rows[0] == 0 && !memcmp(rows + N, v + (T - 1) * N, N * sizeof *v));
  }
  end(p, m);
}

// ---- packed: steps take as many rows as run; what is written is one value for all. Two scans, the second goes on from
// the first
static void check_packed(void) {
  enum { B = 3 };
  tn_program *p = tn_program_create("packed");
  tn_dim b = tn_dim_bounded(p, "batch", B), t = tn_dim_bounded(p, "time", T);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, N)), len = tn_input(f, "len", TN_I64, TN_SHAPE(b));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(N)), sum = tn_mul(w, w);
  tn_packed seq = tn_pack_padded(x, len);
  for (int k = 0; k < 2; k++) {
    tn_scan *s = tn_scan_begin(f, .over = seq, .reverse = k == 1);
    tn_tensor now = tn_scan_input_packed(s, seq), h = tn_scan_carry(s, tn_zeros(f, TN_SHAPE(b, N)));
    tn_copy_(sum, tn_tanh(tn_add(sum, tn_sum_axis(tn_mul(now, sum), 0, false))));
    tn_scan_next(s, h, tn_add(h, tn_mul(now, sum)));
    tn_scan_end(s);
    if (k) tn_copy_(sum, tn_add(sum, tn_sum_axis(tn_scan_final(s, h), 0, false)));
  }
  tn_tensor loss = tn_sum(tn_square(sum));
  tn_output(f, "loss", loss);
  tn_output(f, "sum", sum);
  tn_output(f, "d_x", tn_grad(loss, x));
  tn_output(f, "d_w", tn_grad(loss, w));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  static const int64_t lengths[B] = {2, T, 3};
  float v[B * T * N], wv[N], l, sv[N], dx[B * T * N] = {0}, dw[N];
  fill(v, B * T * N, 6), fill(wv, N, 7);
  tn_array in[] = {tn_f32(v, B, T, N), tn_i64(lengths, B), tn_f32(wv, N)};
  double sum_v[N], h_v[N];
  for (int j = 0; j < N; j++) sum_v[j] = (double)wv[j] * (double)wv[j];
  for (int k = 0; k < 2; k++)
    for (int j = 0; j < N; j++) {
      h_v[j] = 0;
      for (int i = 0; i < T; i++) {
        double total = 0;
        int64_t step = k ? T - 1 - i : i;  // reverse: each sequence from its own last step, in the order of the layout
        for (int q = 0; q < B; q++)
          if (step < lengths[q]) total += (double)v[(q * T + step) * N + j];
        sum_v[j] = tanh(sum_v[j] + total * sum_v[j]);
        h_v[j] += total * sum_v[j];
      }
    }
  for (int j = 0; j < N; j++) sum_v[j] += h_v[j];
  Oracle o;
  if (run(m, in, 3, TN_OUT(tn_f32_scalar(&l), tn_f32(sv, N), tn_f32(dx, B, T, N), tn_f32(dw, N))) &&
      near(sv, sum_v, N) && oracle_open(&o, p, "f")) {
    oracle_take(&o, m, in, 3);
    CHECK(oracle_run(&o) && oracle_agrees(&o, 1, sv, 1e-5) && oracle_agrees(&o, 2, dx, 1e-5) &&
          oracle_agrees(&o, 3, dw, 1e-5));
    for (int64_t e = 0; e < N; e++) CHECK(oracle_slope(&o, 2, e, 0, 3, 1e-6));
    for (int64_t e = 0; e < B * T * N; e += 7) CHECK(oracle_slope(&o, 0, e, 0, 2, 1e-6));
    oracle_close(&o);
  }
  end(p, m);
}

// ---- what the body makes is new in each step, whether or not it depends on the step
static void check_own(void) {
  tn_program *p = tn_program_create("own");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(T, N)), w = tn_input(f, "w", TN_F32, TN_SHAPE(2 * N));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_tensor x = tn_scan_input(s, xs), h = tn_scan_carry(s, tn_zeros(f, TN_SHAPE(2 * N)));
  tn_tensor z = tn_zeros(f, TN_SHAPE(2 * N)), e = tn_mul(w, tn_scalar(f, 2)), c = tn_clone(w);
  tn_slice_assign_(z, 0, 2, x);
  tn_add_(z, tn_scalar(f, 1));
  tn_add_(e, tn_scalar(f, 1));  // the same in each step, twice as much in none
  tn_slice_assign_(e, 0, 0, x);
  tn_add_(c, h);
  tn_scan_next(s, h, tn_add(tn_mul(tn_add(h, z), tn_scalar(f, 0.5)), tn_mul(e, c)));
  tn_scan_end(s);
  tn_tensor loss = tn_sum(tn_scan_final(s, h));
  tn_output(f, "h", tn_scan_final(s, h));
  tn_output(f, "w", tn_mul(w, tn_scalar(f, 1)));
  tn_output(f, "d_w", tn_grad(loss, w));
  tn_output(f, "loss", loss);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  float v[T * N], wv[2 * N], hv[2 * N], same[2 * N], dw[2 * N], l;
  fill(v, T * N, 8), fill(wv, 2 * N, 9);
  tn_array in[] = {tn_f32(v, T, N), tn_f32(wv, 2 * N)};
  double h_v[2 * N] = {0};
  for (int i = 0; i < T; i++)
    for (int k = 0; k < 2 * N; k++) {
      double z_v = (k >= 2 && k < 2 + N ? (double)v[i * N + k - 2] : 0) + 1;
      double e_v = k < N ? (double)v[i * N + k] : 2 * (double)wv[k] + 1;
      h_v[k] = (h_v[k] + z_v) / 2 + e_v * ((double)wv[k] + h_v[k]);
    }
  Oracle o;
  if (run(m, in, 2, TN_OUT(tn_f32(hv, 2 * N), tn_f32(same, 2 * N), tn_f32(dw, 2 * N), tn_f32_scalar(&l))) &&
      near(hv, h_v, 2 * N) && CHECK(!memcmp(same, wv, sizeof wv)) && oracle_open(&o, p, "f")) {
    oracle_take(&o, m, in, 2);
    CHECK(oracle_run(&o) && oracle_agrees(&o, 0, hv, 1e-5) && oracle_agrees(&o, 2, dw, 1e-4));
    for (int64_t k = 0; k < 2 * N; k++) CHECK(oracle_slope(&o, 1, k, 3, 2, 1e-6));
    oracle_close(&o);
  }
  end(p, m);
}

// ---- a scan whose writes are all that it does
static void check_alone(void) {
  tn_program *p = tn_program_create("alone");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor xs = tn_input(f, "xs", TN_F32, TN_SHAPE(T, N)), most = tn_full(f, -9, TN_SHAPE(N));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_max_(most, tn_scan_input(s, xs));
  tn_scan_end(s);
  tn_output(f, "most", most);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  float v[T * N], found[N];
  fill(v, T * N, 10);
  CHECK(run(m, TN_IN(tn_f32(v, T, N)), TN_OUT(tn_f32(found, N))));
  for (int j = 0; j < N; j++) {
    float most_v = v[j];
    for (int i = 1; i < T; i++) most_v = fmaxf(most_v, v[i * N + j]);
    CHECK(found[j] == most_v);
  }
  end(p, m);
}

// ---- a carry begins with what its first value was when it was made; the first value goes its own way
static void check_first_value(void) {
  tn_program *p = tn_program_create("first");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor h0 = tn_square(tn_input(f, "h0", TN_F32, TN_SHAPE(N)));
  tn_scan *s = tn_scan_begin(f, .steps = D(T));
  tn_tensor h = tn_scan_carry(s, h0), g = tn_scan_carry(s, h0);
  tn_add_(h0, tn_scalar(f, 1));
  tn_scan_next(s, h, tn_add(h, h0));
  tn_scan_next(s, g, tn_add(g, h));
  tn_scan_end(s);
  tn_output(f, "h", tn_scan_final(s, h));
  tn_output(f, "g", tn_scan_final(s, g));
  tn_output(f, "h0", h0);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2, .seed = 5);
  float v[N] = {1, 2, 3}, hv[N], gv[N], h0v[N];
  bool good = run(m, TN_IN(tn_f32(v, N)), TN_OUT(tn_f32(hv, N), tn_f32(gv, N), tn_f32(h0v, N)));
  for (int j = 0; j < N; j++) {
    float first = v[j] * v[j], a = first, b = first, c = first;
    for (int i = 0; i < T; i++) c += 1, b += a, a += c;
    good = good && hv[j] == a && gv[j] == b && h0v[j] == c;
  }
  CHECK(good);
  end(p, m);
}

// ---- what cannot be: said with both lines and the way out
typedef struct {
  tn_program *p;
  tn_function *f;
  tn_scan *s;
  tn_tensor xs, x, h, n;
} Wrong;

static Wrong begin_wrong(void) {
  Wrong w = {.p = tn_program_create("wrong")};
  tn_parameter(tn_root(w.p), "w", TN_SHAPE(N), (tn_init){.kind = TN_INIT_ZEROS});
  w.f = tn_function_begin(w.p, "f");
  w.xs = tn_input(w.f, "xs", TN_F32, TN_SHAPE(T, N));
  w.n = tn_input(w.f, "n", TN_I64, TN_SHAPE(N));
  w.s = tn_scan_begin(w.f, .steps = D(T), .name = "wrong");
  w.x = tn_scan_input(w.s, w.xs);
  w.h = tn_scan_carry(w.s, tn_zeros(w.f, TN_SHAPE(N)));
  tn_scan_next(w.s, w.h, tn_add(w.h, w.x));
  return w;
}

static void end_wrong(Wrong *w, const char *error, const char *note, const char *hint) {
  tn_scan_end(w->s);
  tn_output(w->f, "y", tn_scan_final(w->s, w->h));
  tn_function_end(w->f);
  CHECK(tn_compile(w->p) == NULL);
  CHECK_HAS(report_of(w->p), error);
  CHECK_HAS(report_of(w->p), note);
  CHECK_HAS(report_of(w->p), hint);
  tn_program_free(w->p);
}

static void check_wrong(void) {
  static const char *const param = "error[E113]: trainable parameter 'w' is written inside a scan";
  static const char *const began = "note: the scan began here", *const later =
                                                                    "write the parameter when the scan has ended";
  Wrong w = begin_wrong();
  tn_no_grad_begin(w.f);
  tn_add_(tn_param_value(w.f, tn_root(w.p), "w"), w.x);
  tn_no_grad_end(w.f);
  end_wrong(&w, param, began, later);
  w = begin_wrong();
  tn_no_grad_begin(w.f);
  tn_fill_(tn_slice(tn_param_value(w.f, tn_root(w.p), "w"), 0, 0, 1), 2);  // depends on nothing in the body
  tn_no_grad_end(w.f);
  end_wrong(&w, param, began, later);
  w = begin_wrong();
  tn_mul_(tn_detach(tn_param_value(w.f, tn_root(w.p), "w")), w.x);
  end_wrong(&w, param, began, later);
  w = begin_wrong();
  tn_fill_(w.n, 7);
  end_wrong(&w, "error[E113]: whole numbers from outside are written inside a scan", began,
            "hint: tn_scan_output gives");
  w = begin_wrong();
  tn_mul_(w.xs, tn_scalar(w.f, 2));  // later steps of the input
  end_wrong(&w, "error[E113]: what a scan takes in is written inside of it", "note: the scan takes it in here",
            "hint: tn_clone(..) of it is the scan's own");
}

int main(void) {
  static const int64_t steps[] = {T, 1, 3, 0};
  for (int k = 0; k < 8; k++) check_each_step(k >= 4, steps[k % 4]);
  check_round();
  check_views();
  check_packed();
  check_own();
  check_alone();
  check_first_value();
  check_wrong();
  return check_report();
}
