// Scans through the public calls: against the recurrent layers, against each other, against plain arithmetic.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"

#include <math.h>
#include <stdlib.h>

enum { B = 5, T = 6, IN = 3, H = 4, ROWS = B * T };
static const int64_t unsorted[B] = {2, 6, 1, 6, 4};

static float noise(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / 8388608.0f - 1;
}

static void fill(float *v, size_t n, unsigned seed) {
  for (size_t k = 0; k < n; k++) v[k] = noise(&seed);
}

static bool ran(tn_model *m, const char *f, const tn_array *in, size_t n_in, const tn_array *out, size_t n_out) {
  bool ok = tn_run(m, f, in, n_in, out, n_out) == TN_OK;
  if (!CHECK(ok)) printf("  %s\n", tn_error_text(m));
  return ok;
}

// ---- the layers tn_rnn and tn_lstm, written as scans over packed sequences
static tn_tensor use(tn_function *f, tn_module *m, const char *name) { return tn_param_value(f, m, name); }

static tn_tensor gate(tn_tensor g, int k) { return tn_slice(g, 1, k * H, H); }

static tn_tensor own_rnn(tn_function *f, tn_module *m, tn_packed seq, tn_tensor h0, bool reverse, tn_tensor *last) {
  tn_scan *s = tn_scan_begin(f, .over = seq, .reverse = reverse);
  tn_tensor x = tn_scan_input_packed(s, seq), h = tn_scan_carry(s, h0);
  const char *const names[2][4] = {
      {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"},
      {"weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"}};
  const char *const *n = names[reverse];
  tn_tensor next = tn_add(tn_add(tn_matmul(x, tn_transpose(use(f, m, n[0]), 0, 1)), use(f, m, n[2])),
                          tn_add(tn_matmul(h, tn_transpose(use(f, m, n[1]), 0, 1)), use(f, m, n[3])));
  next = tn_tanh(next);
  tn_scan_next(s, h, next);
  tn_tensor ys = tn_scan_output(s, next);
  tn_scan_end(s);
  *last = tn_scan_final(s, h);
  return ys;
}

static tn_tensor own_lstm(tn_function *f, tn_module *m, tn_packed seq, tn_tensor h0, tn_tensor c0, tn_tensor *last,
                          tn_tensor *last_c) {
  tn_tensor w = use(f, m, "weight_ih_l0"), u = use(f, m, "weight_hh_l0");
  tn_scan *s = tn_scan_begin(f, .over = seq);
  tn_tensor x = tn_scan_input(s, seq.data), h = tn_scan_carry(s, h0), c = tn_scan_carry(s, c0);
  tn_tensor g = tn_add(tn_add(tn_matmul(x, tn_transpose(w, 0, 1)), use(f, m, "bias_ih_l0")),
                       tn_add(tn_matmul(h, tn_transpose(u, 0, 1)), use(f, m, "bias_hh_l0")));
  tn_tensor nc = tn_add(tn_mul(tn_sigmoid(gate(g, 1)), c), tn_mul(tn_sigmoid(gate(g, 0)), tn_tanh(gate(g, 2))));
  tn_tensor nh = tn_mul(tn_sigmoid(gate(g, 3)), tn_tanh(nc));
  tn_scan_next(s, h, nh);
  tn_scan_next(s, c, nc);
  tn_tensor ys = tn_scan_output(s, nh);
  tn_scan_end(s);
  *last = tn_scan_final(s, h);
  *last_c = tn_scan_final(s, c);
  return ys;
}

typedef struct {
  float ys[ROWS * 2 * H], last[2 * B * H], last_c[B * H], gx[B * T * IN], gh[2 * B * H];
  float gw[8][4 * H * H];
} Results;

static const char *const param_names[8] = {"weight_ih_l0",       "weight_hh_l0",         "bias_ih_l0",
                                           "bias_hh_l0",         "weight_ih_l0_reverse", "weight_hh_l0_reverse",
                                           "bias_ih_l0_reverse", "bias_hh_l0_reverse"};

// loss: all outputs and last states, each with a weight of its own
static tn_tensor loss_of(tn_tensor ys, tn_tensor last) {
  return tn_add(tn_mean(tn_square(ys)), tn_mul(tn_mean(tn_sin(last)), tn_mean(tn_exp(ys))));
}

typedef enum { RNN, BI, LSTM } Kind;

static void build_layer(tn_program *p, Kind kind, bool own, bool constant, bool sorted) {
  tn_dim b = constant ? tn_dim_const(B) : tn_dim_bounded(p, own ? "batch2" : "batch", B);
  tn_dim t = constant ? tn_dim_const(T) : tn_dim_bounded(p, own ? "time2" : "time", T);
  tn_module *m = tn_child(tn_root(p), "rnn");
  tn_function *f = tn_function_begin(p, own ? "own" : "layer");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(b, t, IN));
  tn_tensor len = tn_input(f, "len", TN_I64, TN_SHAPE(b));
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(kind == BI ? 2 : 1, b, H));
  tn_pack_options o = {.enforce_sorted = sorted};
  tn_packed seq = constant ? (tn_pack_constant)(x, unsorted, B, o) : (tn_pack_padded)(x, len, o);
  tn_tensor ys, last, last_c = {0};
  if (!own) {
    tn_rnn_output r = tn_rnn_call(m, seq, .h0 = h0, .c0 = kind == LSTM ? h0 : TN_NONE);
    ys = r.out.data, last = r.hidden, last_c = r.cell;
  } else if (kind == LSTM) {
    tn_tensor h = tn_reshape(h0, TN_SHAPE(b, H));
    ys = own_lstm(f, m, seq, h, h, &last, &last_c);
    last_c = tn_reshape(last_c, TN_SHAPE(1, b, H));
    last = tn_reshape(last, TN_SHAPE(1, b, H));
  } else {
    tn_tensor part[2], end[2];
    for (int k = 0; k < (kind == BI ? 2 : 1); k++) {
      tn_tensor h = tn_reshape(tn_slice(h0, 0, k, 1), TN_SHAPE(b, H));
      part[k] = own_rnn(f, m, seq, h, k == 1, &end[k]);
      end[k] = tn_reshape(end[k], TN_SHAPE(1, b, H));
    }
    ys = kind == BI ? tn_concat(1, TN_TENSORS(part[0], part[1])) : part[0];
    last = kind == BI ? tn_concat(0, TN_TENSORS(end[0], end[1])) : end[0];
  }
  tn_tensor loss = loss_of(ys, last);
  if (kind == LSTM) loss = tn_add(loss, tn_mean(tn_square(last_c)));
  tn_tensor gx = tn_grad(loss, x), gh = tn_grad(loss, h0);
  tn_backward(loss);
  tn_output(f, "ys", ys);
  tn_output(f, "last", last);
  tn_output(f, "gx", gx);
  tn_output(f, "gh", gh);
  for (int k = 0; k < (kind == BI ? 8 : 4); k++) {
    char name[8] = "g0";
    name[1] = (char)('0' + k);
    tn_output(f, name, tn_param_grad(f, m, param_names[k]));
  }
  if (kind == LSTM) tn_output(f, "last_c", last_c);
  tn_function_end(f);
}

static void run_layer(tn_model *m, Kind kind, const char *f, const int64_t *len, bool constant, Results *r) {
  float x[B * T * IN], h0[2 * B * H];
  int64_t rows = constant ? 0 : ROWS, n = kind == LSTM ? 4 * H : H, d = kind == BI ? 2 : 1;
  for (int k = 0; k < B && constant; k++) rows += len[k];
  fill(x, B * T * IN, 1);
  fill(h0, 2 * B * H, 2);
  memset(r, 0, sizeof *r);
  tn_array out[16] = {tn_f32(r->ys, rows, d * H), tn_f32(r->last, d, B, H), tn_f32(r->gx, B, T, IN),
                      tn_f32(r->gh, d, B, H)};
  size_t n_out = 4;
  for (int k = 0; k < (kind == BI ? 8 : 4); k++)
    out[n_out++] = k % 4 == 0 ? tn_f32(r->gw[k], n, IN) : k % 4 == 1 ? tn_f32(r->gw[k], n, H) : tn_f32(r->gw[k], n);
  if (kind == LSTM) out[n_out++] = tn_f32(r->last_c, 1, B, H);
  ran(m, f, TN_IN(tn_f32(x, B, T, IN), tn_i64(len, B), tn_f32(h0, d, B, H)), out, n_out);
}

static void check_layer(Kind kind, bool constant, bool sorted) {
  static Results layer, own, first;
  int64_t sorted_len[B] = {6, 6, 4, 2, 1};
  for (unsigned workers = 1; workers <= 3; workers++) {
    tn_program *p = tn_program_create("layers");
    tn_rnn_options o = {.bidirectional = kind == BI};
    if (kind == LSTM) (tn_lstm)(tn_root(p), "rnn", IN, H, o);
    else (tn_rnn)(tn_root(p), "rnn", IN, H, false, o);
    build_layer(p, kind, false, constant, sorted);
    build_layer(p, kind, true, constant, sorted);
    tn_model *m = model_of(p, .seed = 5, .n_workers = workers);
    if (m) {
      const int64_t *len = sorted ? sorted_len : unsorted;
      run_layer(m, kind, "layer", len, constant, &layer);
      run_layer(m, kind, "own", len, constant, &own);
      CHECK(all_near("own.ys", own.ys, layer.ys, sizeof own.ys / 4, 2e-5));
      CHECK(all_near("own.last", own.last, layer.last, sizeof own.last / 4, 2e-5));
      CHECK(all_near("own.last_c", own.last_c, layer.last_c, sizeof own.last_c / 4, 2e-5));
      CHECK(all_near("own.gx", own.gx, layer.gx, sizeof own.gx / 4, 2e-5));
      CHECK(all_near("own.gh", own.gh, layer.gh, sizeof own.gh / 4, 2e-5));
      CHECK(all_near("own.gw[0]", own.gw[0], layer.gw[0], sizeof own.gw / 4, 2e-5));
      if (workers == 1) first = own;
      CHECK(memcmp(&first, &own, sizeof own) == 0);
    }
    tn_model_free(m);
    tn_program_free(p);
  }
}

int main(void) {
  check_layer(RNN, false, false);
  check_layer(RNN, true, false);
  check_layer(RNN, false, true);
  check_layer(BI, false, false);
  check_layer(LSTM, false, false);
  return check_report();
}
