// A recurrence without an initial state is one that starts from zeros, to the bit: its first step, which has no
// product, shows what 0 times a weight would be. As PyTorch, where 0 NaN and 0 inf are NaN.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"

#include <math.h>
#include <string.h>

enum { IN = 3, T = 4, B = 5, MAX_H = 70, ROWS = T * B };
enum { LSTM, GRU, TANH, RELU, N_CELLS };
static const int n_gates[N_CELLS] = {4, 3, 1, 1};

typedef struct {
  int cell, h, proj;
  bool bidirectional, bias;
} Layer;

typedef struct {
  float y[ROWS * 2 * MAX_H], hidden[2 * B * MAX_H], gx[ROWS * IN], gw[4 * MAX_H * MAX_H];
} Results;

static tn_module *layer(tn_program *p, const Layer *l) {
  tn_rnn_options o = {.bidirectional = l->bidirectional, .no_bias = !l->bias, .proj_size = l->proj};
  if (l->cell == LSTM) return (tn_lstm)(tn_root(p), "rnn", IN, l->h, o);
  if (l->cell == GRU) return (tn_gru)(tn_root(p), "rnn", IN, l->h, o);
  return (tn_rnn)(tn_root(p), "rnn", IN, l->h, l->cell == RELU, o);
}

static void add_function(tn_program *p, tn_module *rnn, const Layer *l, const char *name, bool given) {
  tn_function *f = tn_function_begin(p, name);
  const tn_dim b = tn_dim_const(B), d = tn_dim_const(l->bidirectional ? 2 : 1),
               state = tn_dim_const(l->proj ? l->proj : l->h);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(T, b, IN)), n = tn_input(f, "n", TN_I64, TN_SHAPE(b));
  tn_rnn_state zeros = {.h0 = tn_zeros(f, TN_SHAPE(d, b, state))};
  if (l->cell == LSTM) zeros.c0 = tn_zeros(f, TN_SHAPE(d, b, l->h));
  tn_rnn_output r = tn_rnn_call(rnn, tn_pack_padded(x, n, .time_major = true), .h0 = given ? zeros.h0 : TN_NONE,
                                .c0 = given ? zeros.c0 : TN_NONE);
  tn_tensor y = tn_pad_packed(r.out, 0, false), loss = tn_sum(tn_square(y));
  tn_output(f, "y", y);
  tn_output(f, "hidden", r.hidden);
  tn_output(f, "gx", tn_grad(loss, x));
  tn_output(f, "gw", tn_grad(loss, tn_param_value(f, rnn, "weight_hh_l0")));
  tn_function_end(f);
}

static tn_model *build(const Layer *l) {
  tn_program *p = tn_program_create("zero_state");
  tn_module *rnn = layer(p, l);
  add_function(p, rnn, l, "absent", false);
  add_function(p, rnn, l, "given", true);
  return model_alone(p, .n_workers = 2);
}

static int state_size(const Layer *l) { return l->proj ? l->proj : l->h; }

static void run(tn_model *m, const Layer *l, const char *name, Results *r) {
  static float x[ROWS * IN];
  static const int64_t n[B] = {4, 1, 3, 2, 4};
  int64_t d = l->bidirectional ? 2 : 1, state = state_size(l), gates = n_gates[l->cell] * l->h;
  for (int k = 0; k < ROWS * IN; k++) x[k] = k % 5 ? sinf((float)k) : -0.0f;
  CHECK(tn_run(m, name, TN_IN(tn_f32(x, T, B, IN), tn_i64(n, B)),
               TN_OUT(tn_f32(r->y, T, B, d * state), tn_f32(r->hidden, d, B, state), tn_f32(r->gx, T, B, IN),
                      tn_f32(r->gw, gates, state))) == TN_OK);
}

static bool same(const char *what, const float *a, const float *b, int n) {
  for (int k = 0; k < n; k++)
    if (!CHECK(!memcmp(&a[k], &b[k], sizeof *a) || (isnan(a[k]) && isnan(b[k]))))
      return printf("  %s %d: without a state %g, with zeros %g\n", what, k, (double)a[k], (double)b[k]), false;
  return true;
}

// Of the first step: those units are NaN whose row of the weight, of some gate, has the number at `at`.
static void check_first_step(const Layer *l, const Results *r, int at) {
  int state = state_size(l), unit = at / state % l->h;
  for (int k = 0; k < state && !l->proj && !l->bidirectional; k++) CHECK(isnan(r->y[k]) == (k == unit));
}

static void check_weight(tn_model *m, const Layer *l, float odd, float sign) {
  static float w[4 * MAX_H * MAX_H];
  static Results absent, given;
  int n = n_gates[l->cell] * l->h * state_size(l), at = n * 2 / 3, d = l->bidirectional ? 2 : 1;
  for (int k = 0; k < n; k++) w[k] = sign ? sign * (0.1f + fabsf(sinf((float)k))) / 8 : sinf((float)k) / 8;
  if (odd != 0) w[at] = odd;
  CHECK(tn_set(m, "rnn.weight_hh_l0", w, (size_t)n) == TN_OK);
  run(m, l, "absent", &absent);
  run(m, l, "given", &given);
  bool ok = same("y", absent.y, given.y, ROWS * d * state_size(l));
  ok &= same("hidden", absent.hidden, given.hidden, d * B * state_size(l));
  ok &= same("gx", absent.gx, given.gx, ROWS * IN);
  ok &= same("gw", absent.gw, given.gw, n);
  if (odd != 0) check_first_step(l, &absent, at);
  if (!ok) printf("  cell %d of %d, projected to %d, with %g\n", l->cell, l->h, l->proj, (double)odd);
}

static void check_layer(Layer l) {
  tn_model *m = build(&l);
  if (!m) return;
  tn_initialize(m, 1);
  check_weight(m, &l, 0, 0);
  check_weight(m, &l, 0, 1);  // 0 w is 0, or -0, for all w
  check_weight(m, &l, 0, -1);
  check_weight(m, &l, NAN, 0);
  check_weight(m, &l, INFINITY, 0);
  check_weight(m, &l, -INFINITY, 0);
  tn_model_free(m);
}

int main(void) {
  static const int sizes[] = {1, 5, 16, MAX_H};
  for (int cell = 0; cell < N_CELLS; cell++)
    for (int k = 0; k < 4; k++)
      check_layer((Layer){.cell = cell, .h = sizes[k], .bidirectional = k % 2, .bias = k != 2});
  check_layer((Layer){.cell = LSTM, .h = 21, .proj = 4, .bias = true});
  check_layer((Layer){.cell = LSTM, .h = 40, .proj = 17, .bidirectional = true});
  return check_report();
}
