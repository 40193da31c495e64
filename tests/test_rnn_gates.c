// Sigmoid and tanh inside recurrences against libm. An LSTM whose forget gate is x itself, from cells of 1 and with
// candidates of 0, has the sigmoid as its cell; a tanh layer that reads x as it is has tanh as its output.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { H = 20, B = 2000, N = H * B };

static tn_model *build(void) {
  tn_program *p = tn_program_create("gates");
  tn_module *lstm = tn_lstm(tn_root(p), "lstm", H, H), *rnn = tn_rnn(tn_root(p), "rnn", H, H, false);
  tn_function *f = tn_function_begin(p, "gates");
  const tn_dim one = tn_dim_const(1), b = tn_dim_const(B), h = tn_dim_const(H);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(one, b, h));
  tn_rnn_state state = {.h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(one, b, h)),
                        .c0 = tn_input(f, "c0", TN_F32, TN_SHAPE(one, b, h))};
  tn_output(f, "sigmoid", tn_rnn_call_dense(lstm, x, .h0 = state.h0, .c0 = state.c0).cell);
  tn_output(f, "tanh", tn_rnn_call_dense(rnn, x).dense);
  tn_function_end(f);
  return model_alone(p, .n_workers = 1);
}

// Zeros, and the identity in the rows of one gate.
static void set(tn_model *m, const char *name, int gates, int gate, bool identity) {
  static float w[4 * H * H];
  memset(w, 0, sizeof w);
  for (int k = 0; k < H && identity; k++) w[(gate * H + k) * H + k] = 1;
  CHECK(tn_set(m, name, w, (size_t)(gates * H * (strstr(name, "bias") ? 1 : H))) == TN_OK);
}

static double units(float got, double want) {
  int e;
  frexp(want, &e);
  return fabs(got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static float x[N], zeros[N], ones[N], sigmoid[N], tanhs[N];

static void run(tn_model *m) {
  CHECK(tn_run(m, "gates", TN_IN(tn_f32(x, 1, B, H), tn_f32(zeros, 1, B, H), tn_f32(ones, 1, B, H)),
               TN_OUT(tn_f32(sigmoid, 1, B, H), tn_f32(tanhs, 1, B, H))) == TN_OK);
}

static void errors(tn_model *m, uint32_t seed) {
  for (size_t k = 0; k < N; k++) {
    seed = seed * 1664525u + 1013904223u;
    double u = (double)(seed >> 8) / (1 << 24) * 2 - 1;
    x[k] = (float)(k % 3 == 0 ? 90 * u : k % 3 == 1 ? 4 * u : copysign(exp2(-40 * fabs(u)), u));
  }
  run(m);
  double worst[2] = {0};
  for (size_t k = 0; k < N; k++) {
    double s = 1 / (1 + exp(-(double)x[k])), a = x[k] > -87 ? units(sigmoid[k], s) : fabs(sigmoid[k] - s) / 1e-37;
    double b = units(tanhs[k], tanh(x[k]));
    worst[0] = a > worst[0] || isnan(a) ? a : worst[0], worst[1] = b > worst[1] || isnan(b) ? b : worst[1];
    CHECK(fabsf(tanhs[k]) <= 1 && sigmoid[k] <= 1 && sigmoid[k] > 0);
  }
  // 2.5 and 3.0 with fused multiply-adds, 2.6 and 4.1 without
  if (!CHECK(worst[0] <= 2.7 && worst[1] <= 4.3)) printf("  sigmoid %.2f, tanh %.2f ulp\n", worst[0], worst[1]);
}

static void special(tn_model *m) {
  memset(x, 0, sizeof x);
  x[0] = -0.f, x[1] = 1e-40f, x[2] = 3e38f, x[3] = -3e38f;
  x[H] = NAN;
  run(m);
  CHECK(sigmoid[0] == 0.5f && tanhs[0] == 0 && tanhs[4] == 0 && fabsf(tanhs[1] - 1e-40f) < 1e-44f);
  CHECK(sigmoid[2] == 1 && tanhs[2] == 1 && sigmoid[3] < 2e-38f && tanhs[3] == -1);
  CHECK(isnan(sigmoid[H]) && isnan(tanhs[H]) && !isnan(sigmoid[2 * H]));
}

int main(void) {
  tn_model *m = build();
  if (!m) return check_report();
  set(m, "lstm.weight_ih_l0", 4, 1, true), set(m, "lstm.weight_hh_l0", 4, 0, false);
  set(m, "lstm.bias_ih_l0", 4, 0, false), set(m, "lstm.bias_hh_l0", 4, 0, false);
  set(m, "rnn.weight_ih_l0", 1, 0, true), set(m, "rnn.weight_hh_l0", 1, 0, false);
  set(m, "rnn.bias_ih_l0", 1, 0, false), set(m, "rnn.bias_hh_l0", 1, 0, false);
  for (size_t k = 0; k < N; k++) ones[k] = 1;
  for (uint32_t seed = 1; seed <= 20; seed++) errors(m, seed);
  special(m);
  tn_model_free(m);
  return check_report();
}
