// A layer-normalised LSTM as a scan: against PyTorch's results, the interpreter, differences, and the same recurrence
// written out step by step.
#include "tests/golden_file.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/scan_oracle.h"

#include <math.h>

enum { B = 5, T = 6, IN = 3, H = 4, ROWS = 19, N_LEAVES = 11 };
static const int64_t lengths[B] = {2, 6, 1, 6, 4};
typedef enum { X, H0, C0, W_IH, W_HH, G_IH, B_IH, G_HH, B_HH, G_C, B_C } Leaf;
static const char *const names[N_LEAVES] = {"x",    "h0",   "c0",   "w_ih", "w_hh", "g_ih",
                                            "b_ih", "g_hh", "b_hh", "g_c",  "b_c"};
static const int64_t sizes[N_LEAVES] = {B * T * IN, B *H, B *H, 4 * H *IN, 4 * H *H, 4 * H, 4 * H, 4 * H, 4 * H, H, H};

static void fill(float *v, int64_t n, unsigned seed, double scale) {
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 1664525u + 1013904223u;
    v[k] = (float)(((double)(seed >> 8) / 8388608.0 - 1) * scale);
  }
}

static float given[N_LEAVES][B * T * IN];
static void fill_all(void) {
  for (unsigned k = 0; k < N_LEAVES; k++) fill(given[k], sizes[k], k < 3 ? k + 1 : k + 7, k < 3 ? 1 : 0.5);
}

static tn_tensor layer_norm(tn_tensor x, tn_tensor gain, tn_tensor bias) {
  tn_tensor d = tn_sub(x, tn_mean_axis(x, -1, true));
  tn_tensor var = tn_mean_axis(tn_square(d), -1, true);
  tn_tensor scale = tn_rsqrt(tn_add(var, tn_scalar(x.fn, 1e-5)));
  return tn_add(tn_mul(tn_mul(d, scale), gain), bias);
}

typedef struct {
  tn_tensor h, c;
} State;

static State cell(const tn_tensor *w, tn_tensor x, State s) {
  tn_tensor a = layer_norm(tn_matmul(x, tn_transpose(w[W_IH], 0, 1)), w[G_IH], w[B_IH]);
  tn_tensor b = layer_norm(tn_matmul(s.h, tn_transpose(w[W_HH], 0, 1)), w[G_HH], w[B_HH]);
  tn_tensor g = tn_add(a, b), gate[4];
  for (int k = 0; k < 4; k++) gate[k] = tn_slice(g, 1, k * H, H);
  tn_tensor fresh = tn_mul(tn_sigmoid(gate[0]), tn_tanh(gate[2]));
  State n;
  n.c = layer_norm(tn_add(tn_mul(tn_sigmoid(gate[1]), s.c), fresh), w[G_C], w[B_C]);
  n.h = tn_mul(tn_sigmoid(gate[3]), tn_tanh(n.c));
  return n;
}

static void give_gradients(tn_function *f, tn_tensor loss, const tn_tensor *leaf) {
  tn_output(f, "loss", loss);
  for (int k = 0; k < N_LEAVES; k++) {
    char name[16];
    snprintf(name, sizeof name, "d_%s", names[k]);
    tn_output(f, name, tn_grad(loss, leaf[k]));
  }
}

static void take_leaves(tn_function *f, tn_dim b, tn_dim t, bool time_major, tn_tensor *leaf) {
  tn_dim in = tn_dim_const(IN), h = tn_dim_const(H), g = tn_dim_const(4 * H);
  leaf[X] = tn_input(f, "x", TN_F32, time_major ? TN_SHAPE(t, b, in) : TN_SHAPE(b, t, in));
  leaf[H0] = tn_input(f, "h0", TN_F32, TN_SHAPE(b, h));
  leaf[C0] = tn_input(f, "c0", TN_F32, TN_SHAPE(b, h));
  leaf[W_IH] = tn_input(f, "w_ih", TN_F32, TN_SHAPE(g, in));
  leaf[W_HH] = tn_input(f, "w_hh", TN_F32, TN_SHAPE(g, h));
  for (int k = G_IH; k < N_LEAVES; k++) leaf[k] = tn_input(f, names[k], TN_F32, TN_SHAPE(k < G_C ? g : h));
}

static tn_tensor reduce(tn_tensor ys, State last) {
  return tn_add(tn_add(tn_mean(tn_square(ys)), tn_mean(tn_sin(last.h))), tn_mean(tn_exp(last.c)));
}

// ---- packed, against PyTorch
static tn_program *packed_program(bool constant, bool reverse) {
  tn_program *p = tn_program_create("cell");
  tn_dim b = constant ? tn_dim_const(B) : tn_dim_bounded(p, "batch", B),
         t = constant ? tn_dim_const(T) : tn_dim_bounded(p, "time", T);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor leaf[N_LEAVES];
  take_leaves(f, b, t, false, leaf);
  tn_pack_options o = {0};
  tn_packed seq = constant ? (tn_pack_constant)(leaf[X], lengths, B, o)
                           : (tn_pack_padded)(leaf[X], tn_input(f, "lengths", TN_I64, TN_SHAPE(b)), o);
  tn_scan *s = tn_scan_begin(f, .over = seq, .reverse = reverse, .name = "ln_lstm");
  tn_tensor x = tn_scan_input(s, seq.data);
  State now = {tn_scan_carry(s, leaf[H0]), tn_scan_carry(s, leaf[C0])}, next = cell(leaf, x, now);
  tn_scan_next(s, now.h, next.h);
  tn_scan_next(s, now.c, next.c);
  tn_tensor ys = tn_scan_output(s, next.h);
  tn_scan_end(s);
  State last = {tn_scan_final(s, now.h), tn_scan_final(s, now.c)};
  give_gradients(f, reduce(ys, last), leaf);
  tn_output(f, "ys", ys);
  tn_output(f, "h", last.h);
  tn_output(f, "c", last.c);
  tn_function_end(f);
  return p;
}

typedef struct {
  float loss[1], d[N_LEAVES][B * T * IN], ys[B * T * H], h[B * H], c[B * H];
} Found;

static tn_array array_of(Leaf k, float *v, int64_t b, int64_t t) {
  if (k == X) return tn_f32(v, b, t, IN);
  if (k == H0 || k == C0) return tn_f32(v, b, H);
  if (k == W_IH) return tn_f32(v, 4 * H, IN);
  return k == W_HH ? tn_f32(v, 4 * H, H) : k < G_C ? tn_f32(v, 4 * H) : tn_f32(v, H);
}

static size_t all_inputs(tn_array *in, int64_t b, int64_t t) {
  for (int k = 0; k < N_LEAVES; k++) in[k] = array_of(k, given[k], b, t);
  in[N_LEAVES] = tn_i64(lengths, B);
  return N_LEAVES;
}

static size_t all_outputs(Found *r, tn_array *out, int64_t b, int64_t t) {
  out[0] = tn_f32_scalar(r->loss);
  for (int k = 0; k < N_LEAVES; k++) out[1 + k] = array_of(k, r->d[k], b, t);
  return N_LEAVES + 1;
}

static bool run(tn_program *p, tn_model *m, const tn_array *in, size_t n_in, const tn_array *out, size_t n_out) {
  if (!CHECK(m != NULL)) return tn_report(p, stdout), false;
  bool ok = tn_run(m, "f", in, n_in, out, n_out) == TN_OK;
  if (!CHECK(ok)) printf("  %s\n", tn_error_text(m));
  return ok;
}

static GoldenArrays goldens;

static bool near_golden(bool reverse, const char *what, const float *a, size_t n) {
  char name[16];
  float want[B * T * IN];
  snprintf(name, sizeof name, "%s_%s", reverse ? "back" : "fwd", what);
  const double *golden = golden_array(&goldens, name, n);
  for (size_t k = 0; k < n; k++) want[k] = (float)golden[k];
  return all_near(name, a, want, n, 1e-5);
}

static void check_packed(bool constant, bool reverse) {
  static Found r, first;
  for (unsigned workers = 1; workers <= 3; workers++) {
    tn_program *p = packed_program(constant, reverse);
    tn_model *m = model_of(p, .n_workers = workers);
    tn_array in[ORACLE_MAX], out[ORACLE_MAX];
    size_t n_in = all_inputs(in, B, T) + !constant, n_out = all_outputs(&r, out, B, T);
    memset(&r, 0, sizeof r);
    out[n_out++] = tn_f32(r.ys, constant ? ROWS : B * T, H);
    out[n_out++] = tn_f32(r.h, B, H);
    out[n_out++] = tn_f32(r.c, B, H);
    if (run(p, m, in, n_in, out, n_out)) {
      CHECK(near_golden(reverse, "ys", r.ys, ROWS * H) && near_golden(reverse, "loss", r.loss, 1));
      CHECK(near_golden(reverse, "h", r.h, B * H) && near_golden(reverse, "c", r.c, B * H));
      for (int k = 0; k < N_LEAVES; k++) {
        char name[8];
        snprintf(name, sizeof name, "d_%s", names[k]);
        CHECK(near_golden(reverse, name, r.d[k], (size_t)sizes[k]));
      }
      if (workers == 1) first = r;
      CHECK(!memcmp(&first, &r, sizeof r));
    }
    Oracle o;
    if (workers == 1 && oracle_open(&o, p, "f")) {
      oracle_take(&o, NULL, in, n_in);
      if (oracle_run(&o))
        for (int k = 0; k < N_LEAVES; k++) CHECK(oracle_agrees(&o, 1 + (uint32_t)k, r.d[k], 1e-5));
      for (uint32_t k = 0; k < N_LEAVES; k++)
        for (int64_t e = 0; e < sizes[k]; e += 1 + sizes[k] / 3) CHECK(oracle_slope(&o, k, e, 0, 1 + k, 1e-6));
      oracle_close(&o);
    }
    tn_model_free(m);
    tn_program_free(p);
  }
}

// ---- dense: rolled against written out
static tn_program *dense_program(int64_t steps, bool rolled, bool bounded, bool time_major, bool reverse) {
  tn_program *p = tn_program_create("cell");
  tn_dim b = tn_dim_const(B), t = bounded ? tn_dim_bounded(p, "time", T) : tn_dim_const(steps);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor leaf[N_LEAVES], ys;
  take_leaves(f, b, t, time_major, leaf);
  State s = {leaf[H0], leaf[C0]};
  if (rolled) {
    tn_scan *scan = tn_scan_begin(f, .steps = t, .axis = !time_major, .reverse = reverse);
    tn_tensor x = tn_scan_input(scan, leaf[X]);
    State now = {tn_scan_carry(scan, s.h), tn_scan_carry(scan, s.c)}, next = cell(leaf, x, now);
    tn_scan_next(scan, now.h, next.h);
    tn_scan_next(scan, now.c, next.c);
    ys = tn_scan_output(scan, next.h);
    tn_scan_end(scan);
    s = (State){tn_scan_final(scan, now.h), tn_scan_final(scan, now.c)};
  } else {
    tn_tensor part[T];
    for (int64_t k = 0; k < steps; k++) {
      int64_t at = reverse ? steps - 1 - k : k;
      tn_tensor x = tn_reshape(tn_slice(leaf[X], !time_major, at, 1), TN_SHAPE(b, IN));
      s = cell(leaf, x, s);
      part[at] = tn_reshape(s.h, TN_SHAPE(1, b, H));
    }
    ys = tn_concat(0, part, (uint32_t)steps);
  }
  tn_tensor loss = tn_add(tn_add(tn_sum(tn_square(ys)), tn_sum(tn_sin(s.h))), tn_sum(tn_exp(s.c)));
  give_gradients(f, loss, leaf);
  tn_function_end(f);
  return p;
}

static void run_dense(int64_t steps, bool rolled, bool bounded, bool time_major, bool reverse, unsigned workers,
                      Found *r) {
  tn_program *p = dense_program(steps, rolled, bounded, time_major, reverse);
  tn_model *m = model_of(p, .n_workers = workers);
  tn_array in[ORACLE_MAX], out[ORACLE_MAX];
  int64_t b = time_major ? steps : B, t = time_major ? B : steps;
  memset(r, 0, sizeof *r);
  size_t n_in = all_inputs(in, b, t), n_out = all_outputs(r, out, b, t);
  for (int k = H0; k <= C0; k++) in[k] = tn_f32(given[k], B, H), out[1 + k] = tn_f32(r->d[k], B, H);
  run(p, m, in, n_in, out, n_out);
  tn_model_free(m);
  tn_program_free(p);
}

static void check_dense(int64_t steps, bool bounded, bool time_major, bool reverse) {
  static Found written, rolled, again;
  run_dense(steps, false, false, time_major, reverse, 1, &written);
  run_dense(steps, true, bounded, time_major, reverse, 1, &rolled);
  run_dense(steps, true, bounded, time_major, reverse, 2, &again);
  CHECK(all_near("loss", rolled.loss, written.loss, 1, 1e-5));
  for (int k = 0; k < N_LEAVES; k++) CHECK(all_near(names[k], rolled.d[k], written.d[k], (size_t)sizes[k], 1e-5));
  CHECK(!memcmp(&rolled, &again, sizeof again));
}

// Without a step, what goes in comes out, and so do gradients.
static void check_no_step(bool bounded) {
  static Found r;
  run_dense(0, true, bounded, true, false, 2, &r);
  double loss = 0;
  for (int k = 0; k < B * H; k++) {
    loss += sin((double)given[H0][k]) + exp((double)given[C0][k]);
    CHECK(fabs((double)r.d[H0][k] - cos((double)given[H0][k])) < 1e-5);
    CHECK(fabs((double)r.d[C0][k] - exp((double)given[C0][k])) < 1e-5);
  }
  CHECK(fabs((double)r.loss[0] - loss) < 1e-4);
  for (int k = W_IH; k < N_LEAVES; k++)
    for (int64_t e = 0; e < sizes[k]; e++) CHECK(r.d[k][e] == 0);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  goldens = golden_arrays(mem, "tests/scan_goldens");
  fill_all();
  check_packed(false, false);
  check_packed(false, true);
  check_packed(true, false);
  check_packed(true, true);
  check_dense(T, false, true, false);
  check_dense(T, true, false, true);
  check_dense(3, true, true, false);
  check_dense(1, true, true, true);
  check_dense(1, false, false, false);
  check_no_step(true);
  check_no_step(false);
  rt_arena_free(mem);
  return check_report();
}
