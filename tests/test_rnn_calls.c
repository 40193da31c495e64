// Calls of recurrent modules other than a packed sequence: dense batches, cells, single steps; what they refuse.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>
#include <stdlib.h>

static void fill(float *v, size_t n, uint32_t seed) {
  for (size_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = (float)(seed >> 8) / (float)(1 << 23) - 1;
  }
}

static double apart(const float *a, const float *b, size_t n) {
  double most = 0;
  for (size_t k = 0; k < n; k++) {
    double d = fabs((double)a[k] - (double)b[k]);
    most = d > most || isnan(d) ? d : most;
  }
  return most;
}

static bool any(const float *v, size_t n) {
  while (n && v[n - 1] == 0) n--;
  return n;
}

// ---- dense: sizes come at run time; zero and one are sizes like others
static void dense_at_run_time(void) {
  enum { B = 4, T = 6, IN = 3, H = 5 };
  tn_program *p = tn_program_create("dense");
  tn_dim batch = tn_dim_bounded(p, "batch", B), time = tn_dim_bounded(p, "time", T);
  tn_module *rnn = tn_gru(tn_root(p), "rnn", IN, H, .bidirectional = true);
  tn_function *f = tn_function_begin(p, "dense");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(time, batch, IN));
  tn_rnn_output r = tn_rnn_call_dense(rnn, x);
  CHECK(r.out.data.v == 0 && r.cell.v == 0);
  CHECK(tn_rank(r.dense) == 3 && tn_dim_of(r.dense, 0).d == time.d && tn_dim_of(r.dense, 1).d == batch.d);
  tn_output(f, "y", r.dense);
  tn_output(f, "h", r.hidden);
  tn_output(f, "last", tn_last_hidden(r));
  tn_function_end(f);
  tn_function *g = tn_function_begin(p, "packed");
  x = tn_input(g, "x", TN_F32, TN_SHAPE(time, batch, IN));
  tn_tensor len = tn_input(g, "lengths", TN_I64, TN_SHAPE(batch));
  r = tn_rnn_call(rnn, tn_pack_padded(x, len, .time_major = true));
  tn_output(g, "y", tn_pad_packed(r.out, 0, false));
  tn_output(g, "h", r.hidden);
  tn_function_end(g);
  tn_model *m = model_of(p, .n_workers = 2);
  float xs[T * B * IN], y[2][T * B * 2 * H], h[2][2 * B * H], last[B * 2 * H];
  fill(xs, T * B * IN, 1);
  for (int64_t b = 0; b <= B; b++)
    for (int64_t t = 0; t <= T; t++) {
      const int64_t lengths[B] = {t, t, t, t};
      memset(h, 1, sizeof h);
      bool ok = tn_run(m, "dense", TN_IN(tn_f32(xs, t, b, IN)),
                       TN_OUT(tn_f32(y[0], t, b, 2 * H), tn_f32(h[0], 2, b, H), tn_f32(last, b, 2 * H))) == TN_OK;
      if (!CHECK(ok)) printf("  %lld x %lld: %s\n", (long long)b, (long long)t, tn_error_text(m));
      for (int64_t k = 0; k < 2 * b * H && t == 0; k++) CHECK(h[0][k] == 0);
      if (!t || !b) continue;
      CHECK(tn_run(m, "packed", TN_IN(tn_f32(xs, t, b, IN), tn_i64(lengths, b)),
                   TN_OUT(tn_f32(y[1], t, b, 2 * H), tn_f32(h[1], 2, b, H))) == TN_OK);
      CHECK(memcmp(y[0], y[1], (size_t)(t * b * 2 * H) * sizeof(float)) == 0);
      CHECK(memcmp(h[0], h[1], (size_t)(2 * b * H) * sizeof(float)) == 0);
    }
  tn_model_free(m);
  tn_program_free(p);
}

// Time-major data are worked on where they lie; the layout of constant sizes is part of the program.
static void dense_costs_nothing(void) {
  tn_program *p = tn_program_create("counts");
  tn_module *rnn = tn_lstm(tn_root(p), "rnn", 3, 5);
  tn_function *f[2];
  for (int k = 0; k < 2; k++) {
    tn_dim batch = k ? tn_dim_bounded(p, "batch", 8) : tn_dim_const(8);
    f[k] = tn_function_begin(p, k ? "bounded" : "constant");
    tn_tensor x = tn_input(f[k], "x", TN_F32, TN_SHAPE(4, batch, 3));
    tn_output(f[k], "y", tn_rnn_call_dense(rnn, x).dense);
    tn_function_end(f[k]);
  }
  tn_model *m = model_of(p, .n_workers = 2);
  tn_plan constant, bounded;
  CHECK(tn_plan_of(m, "constant", &constant) == TN_OK && tn_plan_of(m, "bounded", &bounded) == TN_OK);
  CHECK(constant.n_kernels == 3);  // the sum of both biases, the product with x, the recurrence
  CHECK(bounded.n_kernels == 4);   // and the layout
  CHECK(constant.n_copies == 0 && bounded.n_copies == 0);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- steps: as many of them as a sequence has, with the layers' own weights, give what the sequence gives
enum { STEPS = 4, IN_SIZE = 6, LAYERS = 2, KINDS = 5, MOST_N = 53, MOST_HID = 150 };
typedef struct {
  int64_t n, hidden, proj;
} Size;
// One tile of a vector or two; then several sweeps of rows, parts of the weight, and groups of columns of every width.
static const Size sizes[] = {{3, 20, 17}, {MOST_N, MOST_HID, 70}};
static Size size;
static int64_t state_size(int kind) { return kind == 4 ? size.proj : size.hidden; }
static int64_t gates(int kind) { return kind == 3 ? 3 : kind >= 2 ? 4 : 1; }

static tn_module *layered(tn_program *p, int kind, const char *name) {
  tn_rnn_options o = {.n_layers = LAYERS, .proj_size = kind == 4 ? size.proj : 0};
  if (kind == 3) return (tn_gru)(tn_root(p), name, IN_SIZE, size.hidden, o);
  return kind >= 2 ? (tn_lstm)(tn_root(p), name, IN_SIZE, size.hidden, o)
                   : (tn_rnn)(tn_root(p), name, IN_SIZE, size.hidden, kind == 1, o);
}

static void sum_up(tn_function *f, tn_module *rnn, tn_tensor x, tn_tensor y, tn_tensor hidden) {
  tn_tensor loss = tn_add(tn_sum(tn_square(y)), tn_sum(hidden));
  tn_backward(loss);
  tn_output(f, "y", y);
  tn_output(f, "hidden", hidden);
  tn_output(f, "dx", tn_grad(loss, x));
  tn_output(f, "dw", tn_param_grad(f, rnn, "weight_hh_l0"));
  tn_output(f, "db", tn_param_grad(f, rnn, "bias_hh_l1"));
  tn_function_end(f);
}

static void build_steps(tn_program *p, int kind) {
  tn_module *rnn = layered(p, kind, "rnn");
  const tn_dim t = tn_dim_const(STEPS), n = tn_dim_const(size.n), in = tn_dim_const(IN_SIZE),
               h = tn_dim_const(state_size(kind));
  tn_function *f = tn_function_begin(p, "sequence");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(t, n, in));
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(LAYERS, n, h));
  tn_rnn_output r = tn_rnn_call_dense(rnn, x, .h0 = h0);
  sum_up(f, rnn, x, r.dense, r.hidden);
  f = tn_function_begin(p, "steps");
  x = tn_input(f, "x", TN_F32, TN_SHAPE(t, n, in));
  tn_rnn_state state = {.h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(LAYERS, n, h))};
  tn_tensor out[STEPS];
  for (int k = 0; k < STEPS; k++) {
    tn_tensor row = tn_reshape(tn_slice(x, 0, k, 1), TN_SHAPE(n, in));
    tn_rnn_step_output s = tn_rnn_step(rnn, row, .h0 = state.h0, .c0 = state.c0);
    state = (tn_rnn_state){s.hidden, s.cell};
    out[k] = tn_reshape(s.out, TN_SHAPE(1, n, h));
  }
  sum_up(f, rnn, x, tn_concat(0, out, STEPS), state.h0);
}

static void steps_are_a_sequence(int kind, Size of) {
  size = of;
  enum { Y = STEPS * MOST_N * MOST_HID, S = LAYERS * MOST_N * MOST_HID, X = STEPS * MOST_N * IN_SIZE };
  enum { W = 4 * MOST_HID * MOST_HID, MAX_WORKERS = 3 };
  static float xs[X], hs[S], y[2][Y], h[2][S], dx[2][X], dw[2][W], db[2][4 * MOST_HID], first[2][W];
  const int64_t state = state_size(kind), wide = gates(kind) * size.hidden, n = size.n;
  const double scale = n > 3 ? 10 : 1;  // sums over more rows
  fill(xs, X, 7);
  fill(hs, S, 8);
  for (uint32_t workers = 1; workers <= MAX_WORKERS; workers += n > 3 ? 2 : 1) {
    tn_program *p = tn_program_create("steps");
    build_steps(p, kind);
    tn_model *m = model_of(p, .n_workers = workers);
    for (int k = 0; k < 2; k++) {
      CHECK(tn_run(m, k ? "steps" : "sequence", TN_IN(tn_f32(xs, STEPS, n, IN_SIZE), tn_f32(hs, LAYERS, n, state)),
                   TN_OUT(tn_f32(y[k], STEPS, n, state), tn_f32(h[k], LAYERS, n, state),
                          tn_f32(dx[k], STEPS, n, IN_SIZE), tn_f32(dw[k], wide, state), tn_f32(db[k], wide))) == TN_OK);
      if (workers == 1) memcpy(first[k], dw[k], sizeof dw[k]);
      CHECK(memcmp(first[k], dw[k], sizeof dw[k]) == 0);  // the same bits, however many work on it
    }
    CHECK(any(y[0], Y) && apart(y[0], y[1], Y) < 1e-6);
    CHECK(apart(h[0], h[1], S) < 1e-6);
    CHECK(any(dx[0], X) && apart(dx[0], dx[1], X) < 2e-6 * scale);
    CHECK(any(dw[0], (size_t)(wide * state)) && apart(dw[0], dw[1], (size_t)(wide * state)) < 2e-5 * scale);
    CHECK(any(db[0], (size_t)wide) && apart(db[0], db[1], (size_t)wide) < 2e-5 * scale);
    tn_model_free(m);
    tn_program_free(p);
  }
}

// A cell with a layer's weights makes the layer's step; without a state it starts from zeros.
static void cell_is_a_layer(int kind) {
  static const char *const part[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  tn_program *p = tn_program_create("cell");
  tn_module *root = tn_root(p), *cell, *layer;
  switch (kind) {
  case 3: cell = tn_gru_cell(root, "cell", 4, 6), layer = tn_gru(root, "layer", 4, 6); break;
  case 2: cell = tn_lstm_cell(root, "cell", 4, 6), layer = tn_lstm(root, "layer", 4, 6); break;
  default: cell = tn_rnn_cell(root, "cell", 4, 6, kind == 1), layer = tn_rnn(root, "layer", 4, 6, kind == 1);
  }
  const char *names[8];
  CHECK(tn_named_parameters(cell, TN_NAMES_UNIQUE, names, 8) == 4);
  for (int k = 0; k < 4; k++) CHECK(strcmp(names[k], part[k]) == 0);
  for (int k = 0; k < 2; k++) {
    tn_function *f = tn_function_begin(p, k ? "layer" : "cell");
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 4));
    tn_rnn_step_output s = tn_rnn_step(k ? layer : cell, x);
    CHECK(tn_rank(s.hidden) == (k ? 3u : 2u) && (k || s.out.v == s.hidden.v) && (s.cell.v != 0) == (kind == 2));
    tn_output(f, "y", s.out);
    tn_output(f, "s", kind == 2 ? s.cell : s.hidden);
    tn_function_end(f);
  }
  tn_model *m = model_of(p, .n_workers = 2);
  float v[4 * 6 * 6], x[8], y[2][12], s[2][12];
  char from[32], to[32];
  for (int k = 0; k < 4; k++) {
    size_t n = (size_t)(kind == 2 ? 24 : kind == 3 ? 18 : 6) * (k == 0 ? 4 : k == 1 ? 6 : 1);
    snprintf(from, sizeof from, "layer.%s_l0", part[k]);
    snprintf(to, sizeof to, "cell.%s", part[k]);
    CHECK(tn_get(m, from, v, n) == TN_OK && tn_set(m, to, v, n) == TN_OK);
    double bound = 1 / sqrt(6.0), most = apart(v, (float[4 * 6 * 6]){0}, n);
    CHECK(most <= bound && most > 0.5 * bound);  // U(-1/sqrt hidden, 1/sqrt hidden)
  }
  fill(x, 8, 3);
  for (int k = 0; k < 2; k++) {
    const int64_t one[] = {1, 2, 6};
    CHECK(tn_run(m, k ? "layer" : "cell", TN_IN(tn_f32(x, 2, 4)),
                 TN_OUT(tn_f32(y[k], 2, 6), tn_array_of(s[k], TN_F32, one + !k, k ? 3 : 2))) == TN_OK);
  }
  CHECK(memcmp(y[0], y[1], sizeof y[0]) == 0 && memcmp(s[0], s[1], sizeof s[0]) == 0 && any(y[0], 12));
  tn_model_free(m);
  tn_program_free(p);
}

// ---- what is refused
#define CHECK_SAYS(p, text)                                      \
  do {                                                           \
    const char *report = report_of(p);                           \
    if (!CHECK(strcmp(report, text) == 0)) printf("%s", report); \
  } while (0)

static void refusals(void) {
  tn_program *p = tn_program_create("refusals");
  tn_module *root = tn_root(p), *lstm = tn_lstm(root, "lstm", 3, 4), *gru = tn_gru(root, "gru", 3, 4);
  tn_module *both = (tn_lstm)(root, "both", 3, 4, (tn_rnn_options){.bidirectional = true, .at = at(1)});
  tn_module *cell = tn_lstm_cell(root, "cell", 3, 4);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(5, 2, 3), at(20));
  tn_tensor row = (tn_input)(f, "row", TN_F32, TN_SHAPE(2, 3), at(21));
  tn_tensor h = (tn_input)(f, "h", TN_F32, TN_SHAPE(1, 2, 4), at(22));
  (tn_rnn_call_dense)(lstm, (tn_reshape)(row, TN_SHAPE(6), at(23)), (tn_rnn_call_options){.at = at(2)});
  (tn_rnn_call_dense)(lstm, x, (tn_rnn_call_options){.h0 = row, .at = at(3)});
  (tn_rnn_call_dense)(gru, x, (tn_rnn_call_options){.c0 = h, .at = at(4)});
  (tn_rnn_call_dense)(cell, x, (tn_rnn_call_options){.at = at(5)});
  (tn_rnn_step)(both, row, (tn_rnn_call_options){.at = at(6)});
  (tn_rnn_step)(lstm, x, (tn_rnn_call_options){.at = at(7)});
  (tn_rnn_step)(cell, row, (tn_rnn_call_options){.h0 = h, .at = at(8)});
  (tn_rnn_step)(NULL, row, (tn_rnn_call_options){.at = at(9)});
  (tn_call)(cell, row, at(10));
  (tn_gru)(root, "p", 3, 4, (tn_rnn_options){.proj_size = 2, .at = at(11)});
  (tn_lstm)(root, "q", 3, 4, (tn_rnn_options){.proj_size = 4, .at = at(12)});
  CHECK_SAYS(p, "user.c:2: error[E004]: module 'lstm' takes dense data f32 [time, batch, feature] or [time, feature]\n"
                "user.c:23: note: the data is f32[6], made here\n"
                "user.c:3: error[E004]: h0 of module 'lstm' must be f32 [1, batch, 4]\n"
                "user.c:21: note: h0 is input 'row', f32[2,3], made here\n"
                "user.c:4: error[E003]: module 'gru' has no cell state: only an LSTM has one\n"
                "user.c:5: error[E003]: module 'cell' makes one step, not a sequence\n"
                "hint: tn_rnn_step runs a cell\n"
                "user.c:6: error[E003]: module 'both' reads both directions: it has no single step\n"
                "user.c:1: note: it was made here\n"
                "user.c:7: error[E004]: a step of module 'lstm' takes f32 [batch, 3] or [3]\n"
                "user.c:20: note: the value is input 'x', f32[5,2,3], made here\n"
                "user.c:8: error[E004]: h0 of module 'cell' must be f32 [batch, 4]\n"
                "user.c:22: note: h0 is input 'h', f32[1,2,4], made here\n"
                "user.c:9: error[E003]: no module is called\n"
                "user.c:10: error[E003]: module 'cell' works on one step and its states\n"
                "hint: tn_rnn_step(m, x, .h0 = h)\n"
                "user.c:11: error[E003]: module 'p' has a projection: only an LSTM has one\n"
                "user.c:12: error[E003]: module 'q' projects to 4: it must lie in [1, 3]\n");
  tn_program_free(p);
}

// ---- one sequence without a batch: what a batch of one gives, and PyTorch's shapes
enum { LONG = 5, IN = 3, H = 4, P = 2, D = 4 };  // D: layers * directions

static void outputs(tn_function *f, tn_rnn_output r, tn_tensor x) {
  tn_tensor last = tn_last_hidden(r), loss = tn_add(tn_sum(tn_square(r.dense)), tn_sum(tn_mul(last, last)));
  loss = tn_add(loss, tn_add(tn_sum(r.hidden), tn_sum(tn_exp(r.cell))));
  tn_output(f, "y", r.dense);
  tn_output(f, "h", r.hidden);
  tn_output(f, "c", r.cell);
  tn_output(f, "last", last);
  tn_output(f, "dx", tn_grad(loss, x));
}

static void one_sequence(bool batch_first, bool with_state) {
  tn_dim T = tn_dim_const(LONG), one = tn_dim_const(1), n = tn_dim_const(D), in = tn_dim_const(IN);
  tn_program *p = tn_program_create("one");
  tn_rnn_options o = {.n_layers = 2, .bidirectional = true, .proj_size = P, .batch_first = batch_first};
  tn_module *rnn = (tn_lstm)(tn_root(p), "rnn", IN, H, o);
  for (int batched = 0; batched < 2; batched++) {
    tn_function *f = tn_function_begin(p, batched ? "batched" : "one");
    tn_shape wide = batch_first ? TN_SHAPE(one, T, in) : TN_SHAPE(T, one, in);
    tn_tensor x = tn_input(f, "x", TN_F32, batched ? wide : TN_SHAPE(T, in));
    tn_tensor h = tn_input(f, "h0", TN_F32, batched ? TN_SHAPE(n, one, P) : TN_SHAPE(n, P));
    tn_tensor c = tn_input(f, "c0", TN_F32, batched ? TN_SHAPE(n, one, H) : TN_SHAPE(n, H));
    tn_rnn_state state = with_state ? (tn_rnn_state){.h0 = h, .c0 = c} : (tn_rnn_state){TN_NONE, TN_NONE};
    tn_set_requires_grad(x, true);
    tn_rnn_output r = tn_rnn_call_dense(rnn, x, .h0 = state.h0, .c0 = state.c0);
    uint32_t less = !batched;
    CHECK(tn_rank(r.dense) == 3 - less && tn_rank(r.hidden) == 3 - less && tn_rank(r.cell) == 3 - less);
    CHECK(tn_rank(tn_last_hidden(r)) == 2 - less);
    outputs(f, r, x);
    tn_function_end(f);
  }
  tn_model *m = model_of(p, .n_workers = 2);
  tn_program_free(p);
  if (!m) return;
  float x[LONG * IN], h[D * P], c[D * H], y[2][LONG * 2 * P], hn[2][D * P], cn[2][D * H], last[2][2 * P],
      dx[2][LONG * IN];
  fill(x, LONG * IN, 1), fill(h, D * P, 2), fill(c, D * H, 3);
  tn_array wide = batch_first ? tn_f32(x, 1, LONG, IN) : tn_f32(x, LONG, 1, IN);
  tn_array wide_y = batch_first ? tn_f32(y[1], 1, LONG, 2 * P) : tn_f32(y[1], LONG, 1, 2 * P);
  tn_array wide_dx = batch_first ? tn_f32(dx[1], 1, LONG, IN) : tn_f32(dx[1], LONG, 1, IN);
  tn_status s = tn_run(m, "one", TN_IN(tn_f32(x, LONG, IN), tn_f32(h, D, P), tn_f32(c, D, H)),
                       TN_OUT(tn_f32(y[0], LONG, 2 * P), tn_f32(hn[0], D, P), tn_f32(cn[0], D, H),
                              tn_f32(last[0], 2 * P), tn_f32(dx[0], LONG, IN)));
  if (!CHECK(s == TN_OK)) printf("%s\n", tn_error_text(m));
  s = tn_run(m, "batched", TN_IN(wide, tn_f32(h, D, 1, P), tn_f32(c, D, 1, H)),
             TN_OUT(wide_y, tn_f32(hn[1], D, 1, P), tn_f32(cn[1], D, 1, H), tn_f32(last[1], 1, 2 * P), wide_dx));
  if (!CHECK(s == TN_OK)) printf("%s\n", tn_error_text(m));
  CHECK(!memcmp(y[0], y[1], sizeof *y) && !memcmp(hn[0], hn[1], sizeof *hn) && !memcmp(cn[0], cn[1], sizeof *cn));
  CHECK(!memcmp(last[0], last[1], sizeof *last) && !memcmp(dx[0], dx[1], sizeof *dx) && any(dx[0], LONG * IN));
  tn_model_free(m);
}

// Steps of a module and of a cell, [in] -> [H]; and states that have a batch where the input has none
static void one_step(void) {
  tn_program *p = tn_program_create("one");
  tn_module *rnn = tn_gru(tn_root(p), "rnn", IN, H, .n_layers = 2);
  tn_module *cell = tn_lstm_cell(tn_root(p), "cell", IN, H);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(IN)), row = tn_reshape(x, TN_SHAPE(1, IN));
  tn_tensor h = tn_full(f, 0.5, TN_SHAPE(2, H)), one = tn_slice(h, 0, 0, 1);
  tn_tensor flat = tn_reshape(one, TN_SHAPE(H));
  tn_rnn_step_output a = tn_rnn_step(rnn, x, .h0 = h);
  tn_rnn_step_output b = tn_rnn_step(rnn, row, .h0 = tn_reshape(h, TN_SHAPE(2, 1, H)));
  tn_rnn_step_output c = tn_rnn_step(cell, x, .h0 = flat, .c0 = flat);
  tn_rnn_step_output d = tn_rnn_step(cell, row, .h0 = one, .c0 = one);
  CHECK(tn_rank(a.out) == 1 && tn_rank(a.hidden) == 2 && tn_rank(c.out) == 1 && tn_rank(c.hidden) == 1 &&
        tn_rank(c.cell) == 1);
  const tn_tensor all[] = {a.out, a.hidden, c.hidden, c.cell, b.out, b.hidden, d.hidden, d.cell};
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
  for (int k = 0; k < 8; k++) tn_output(f, names[k], all[k]);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  float v[IN], y[8][2 * H] = {{0}};
  fill(v, IN, 9);
  CHECK(!tn_run(m, "f", TN_IN(tn_f32(v, IN)),
                TN_OUT(tn_f32(y[0], H), tn_f32(y[1], 2, H), tn_f32(y[2], H), tn_f32(y[3], H), tn_f32(y[4], 1, H),
                       tn_f32(y[5], 2, 1, H), tn_f32(y[6], 1, H), tn_f32(y[7], 1, H))));
  CHECK(!memcmp(y[0], y[4], 4 * sizeof y[0]) && any(y[0], H) && any(y[3], H));
  tn_model_free(m);
  tn_program_free(p);

  p = tn_program_create("one");
  rnn = tn_gru(tn_root(p), "rnn", IN, H, .n_layers = 2);
  cell = tn_lstm_cell(tn_root(p), "cell", IN, H);
  f = tn_function_begin(p, "f");
  x = tn_input(f, "x", TN_F32, TN_SHAPE(7, IN));
  tn_tensor vector = tn_input(f, "v", TN_F32, TN_SHAPE(IN));
  h = (tn_full)(f, 0.5, TN_SHAPE(2, 1, H), at(2));
  (tn_rnn_call_dense)(rnn, x, (tn_rnn_call_options){.h0 = h, .at = at(3)});
  (tn_rnn_step)(rnn, vector, (tn_rnn_call_options){.h0 = h, .at = at(4)});
  (tn_rnn_step)(cell, vector, (tn_rnn_call_options){.c0 = h, .at = at(5)});
  (tn_rnn_call_dense)(rnn, x, (tn_rnn_call_options){.c0 = h, .at = at(6)});
  CHECK_SAYS(p, "user.c:3: error[E004]: h0 of module 'rnn' must be f32 [2, 4], as its input has no batch\n"
                "user.c:2: note: h0 is f32[2,1,4], made here\n"
                "user.c:4: error[E004]: h0 of module 'rnn' must be f32 [2, 4], as its input has no batch\n"
                "user.c:2: note: h0 is f32[2,1,4], made here\n"
                "user.c:5: error[E004]: c0 of module 'cell' must be f32 [4], as its input has no batch\n"
                "user.c:2: note: c0 is f32[2,1,4], made here\n"
                "user.c:6: error[E003]: module 'rnn' has no cell state: only an LSTM has one\n");
  tn_program_free(p);
}

int main(void) {
  for (int form = 0; form < 4; form++) one_sequence(form & 1, form & 2);
  one_step();

  dense_at_run_time();
  dense_costs_nothing();
  for (int kind = 0; kind < KINDS; kind++) steps_are_a_sequence(kind, sizes[0]);
  for (int kind = 2; kind < KINDS; kind++) steps_are_a_sequence(kind, sizes[1]);
  for (int kind = 0; kind < 4; kind++) cell_is_a_layer(kind);
  refusals();
  return check_report();
}
