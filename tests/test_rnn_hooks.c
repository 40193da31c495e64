// Hooks of recurrent modules: what they see, what they may replace, what is refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>

enum { B = 2, T = 3, IN = 4, H = 5 };

// Notes the order of calls and scales what it is there for.
typedef struct {
  char seen[64];
  bool packed;
} Log;

static tn_rnn_input double_input(tn_module *m, tn_rnn_input in, void *ctx) {
  (void)m;
  Log *log = ctx;
  strcat(log->seen, "i");
  log->packed = in.seq.data.v != 0;
  tn_tensor *x = log->packed ? &in.seq.data : &in.dense;
  *x = tn_add(*x, *x);
  return in;
}

static tn_rnn_output negate_states(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx) {
  (void)m, (void)in;
  strcat(((Log *)ctx)->seen, "o");
  out.hidden = tn_neg(out.hidden);
  return out;
}

static tn_rnn_output look(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx) {
  (void)m, (void)in;
  strcat(((Log *)ctx)->seen, out.cell.v ? "c" : "-");
  return out;
}

// With hooks: -h and y of 2 x; the gradient knows. Without, the program is the one that never had them.
static void replacing(bool packed) {
  const int64_t lengths[B] = {2, T};
  static float x[B * T * IN], twice[B * T * IN], y[2][B * T * H], last[2][B * H], dx[2][B * T * IN];
  for (int k = 0; k < B * T * IN; k++) x[k] = (float)(k * 7 % 11) / 8 - 0.5f, twice[k] = 2 * x[k];
  Log log = {0};
  tn_program *p = tn_program_create("hooks");
  tn_module *rnn = tn_gru(tn_root(p), "rnn", IN, H, .n_layers = 2, .batch_first = true);
  tn_hook *hook[3] = {0};
  for (int k = 0; k < 2; k++) {
    tn_function *f = tn_function_begin(p, k ? "plain" : "hooked");
    if (!k) {
      hook[0] = tn_rnn_hook_post(rnn, negate_states, &log);
      hook[1] = tn_rnn_hook_post(rnn, look, &log);
      hook[2] = tn_rnn_hook_pre(rnn, double_input, &log);
    }
    for (int j = 0; j < 3 && k; j++) tn_hook_remove(hook[j]);
    tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, IN));
    tn_rnn_output r = packed ? tn_rnn_call(rnn, tn_pack_constant(in, lengths, B)) : tn_rnn_call_dense(rnn, in);
    tn_output(f, "y", packed ? tn_pad_packed(r.out, 0, true) : r.dense);
    tn_output(f, "last", tn_last_hidden(r));
    tn_output(f, "dx", tn_grad(tn_sum(tn_square(r.hidden)), in));
    tn_function_end(f);
  }
  CHECK(strcmp(log.seen, "io-") == 0 && log.packed == packed);
  tn_model *m = model_of(p);
  for (int k = 0; k < 2; k++)
    CHECK(tn_run(m, k ? "plain" : "hooked", TN_IN(tn_f32(k ? twice : x, B, T, IN)),
                 TN_OUT(tn_f32(y[k], B, T, H), tn_f32(last[k], B, H), tn_f32(dx[k], B, T, IN))) == TN_OK);
  for (int k = 0; k < B * T * H; k++) CHECK(y[0][k] == y[1][k]);
  for (int k = 0; k < B * H; k++) CHECK(last[0][k] == -last[1][k] && last[0][k] != 0);
  for (int k = 0; k < B * T * IN; k++) CHECK(fabsf(dx[0][k] - 2 * dx[1][k]) <= 1e-6f * (1 + fabsf(dx[0][k])));
  CHECK(dx[0][0] != 0);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- hooks on gradients
typedef struct {
  char seen[64];
  uint32_t n_out, n_in;
  bool has_h0, has_cell;
} Backward;

static tn_values double_outputs(tn_module *m, tn_values grad_out, void *ctx) {
  (void)m;
  Backward *b = ctx;
  strcat(b->seen, "p");
  b->n_out = grad_out.n;
  tn_tensor *cell = tn_value_named(&grad_out, "cell");
  b->has_cell = cell && cell->fn;
  CHECK(tn_value_named(&grad_out, "output")->fn && tn_value_named(&grad_out, "hidden")->fn);
  for (uint32_t k = 0; k < grad_out.n; k++)
    if (grad_out.v[k].fn) grad_out.v[k] = tn_mul_scalar(grad_out.v[k], 2);
  return grad_out;
}

static tn_values quarter_input(tn_module *m, tn_values grad_in, tn_values grad_out, void *ctx) {
  (void)m;
  Backward *b = ctx;
  strcat(b->seen, "b");
  b->n_in = grad_in.n;
  CHECK(grad_out.n == b->n_out && grad_out.v[0].fn);
  b->has_h0 = tn_value_named(&grad_in, "h0")->fn;
  tn_tensor *x = tn_value_named(&grad_in, "input");
  *x = tn_mul_scalar(*x, 0.25);
  return grad_in;
}

typedef enum { LSTM, GRU, RNN } Cell;

// All that a caller may take of a call, with a gradient of each: by x, h0 where it is given, and a weight of each layer.
static void add_backward(tn_program *p, const char *name, tn_module *rnn, Cell cell, bool packed, bool given) {
  const int64_t lengths[B] = {2, T};
  tn_function *f = tn_function_begin(p, name);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, IN)), h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(4, B, H));
  // What requires no gradient has none to watch
  tn_module *before = tn_module_at_path(tn_root(p), "before"), *state = tn_module_at_path(tn_root(p), "state");
  tn_tensor in = tn_call(before, x), h = given ? tn_call(state, h0) : TN_NONE;
  tn_tensor c = given && cell == LSTM ? tn_mul_scalar(h, 2) : TN_NONE;
  tn_rnn_output r = packed ? tn_rnn_call(rnn, tn_pack_constant(in, lengths, B), .h0 = h, .c0 = c)
                           : tn_rnn_call_dense(rnn, in, .h0 = h, .c0 = c);
  tn_tensor loss = tn_sum(tn_square(packed ? r.out.data : r.dense));
  loss = tn_add(loss, tn_sum(tn_exp(r.hidden)));
  loss = tn_add(loss, tn_sum(tn_sin(tn_last_hidden(r))));
  if (cell == LSTM) loss = tn_add(loss, tn_sum(tn_cos(r.cell)));
  tn_output(f, "dx", tn_grad(loss, x));
  if (given) tn_output(f, "dh0", tn_grad(loss, h0));
  tn_output(f, "dw0", tn_grad(loss, tn_param_value(f, rnn, "weight_ih_l0")));
  tn_output(f, "dw1", tn_grad(loss, tn_param_value(f, rnn, "weight_hh_l1_reverse")));
  tn_function_end(f);
}

static void check_scaled(const float *hooked, const float *plain, int n, float by) {
  float most = 0;
  for (int k = 0; k < n; k++) {
    most = fmaxf(most, fabsf(plain[k]));
    CHECK(fabsf(hooked[k] - by * plain[k]) <= 1e-5f * (1 + fabsf(by * plain[k])));
  }
  CHECK(most > 1e-3f);
}

// Two layers, two directions: gradients of what comes out are doubled, that of the input is halved of that again.
static void backward(Cell cell, bool packed, bool given) {
  enum { ROWS = 4 * H, N_X = B * T * IN, N_H = 4 * B * H };
  static float x[N_X], h0[N_H], dx[2][N_X], dh[2][N_H], dw0[2][ROWS * IN], dw1[2][ROWS * H];
  for (int k = 0; k < N_X; k++) x[k] = (float)(k * 7 % 11) / 8 - 0.5f;
  for (int k = 0; k < N_H; k++) h0[k] = (float)(k * 5 % 13) / 16 - 0.4f;
  Backward seen = {.n_out = 0};
  tn_program *p = tn_program_create("backward");
  tn_rnn_options o = {.n_layers = 2, .bidirectional = true, .batch_first = true};
  tn_module *rnn = cell == LSTM  ? (tn_lstm)(tn_root(p), "rnn", IN, H, o)
                   : cell == GRU ? (tn_gru)(tn_root(p), "rnn", IN, H, o)
                                 : (tn_rnn)(tn_root(p), "rnn", IN, H, false, o);
  tn_linear(tn_root(p), "before", IN, IN);
  tn_linear(tn_root(p), "state", H, H);
  tn_hook *pre = tn_hook_backward_pre(rnn, double_outputs, &seen), *post = tn_hook_backward(rnn, quarter_input, &seen);
  add_backward(p, "hooked", rnn, cell, packed, given);
  tn_hook_remove(pre);
  tn_hook_remove(post);
  add_backward(p, "plain", rnn, cell, packed, given);
  // each tn_grad is a backward; the hook of the inputs lies behind the weights
  CHECK_HAS(seen.seen, "pbp");
  CHECK(seen.n_out == (cell == LSTM ? 3 : 2) && seen.n_in == seen.n_out);
  CHECK(seen.has_h0 == given && seen.has_cell == (cell == LSTM));
  tn_model *m = model_of(p);
  int64_t rows = (int64_t)H * (cell == LSTM ? 4 : cell == GRU ? 3 : 1);
  for (int k = 0; m && k < 2; k++) {
    const tn_array in[] = {tn_f32(x, B, T, IN), tn_f32(h0, 4, B, H)};
    const tn_array d[] = {tn_f32(dx[k], B, T, IN), tn_f32(dh[k], 4, B, H), tn_f32(dw0[k], rows, IN),
                          tn_f32(dw1[k], rows, H)};
    const tn_array without[] = {d[0], d[2], d[3]};
    CHECK(tn_run(m, k ? "plain" : "hooked", in, 2, given ? d : without, given ? 4 : 3) == TN_OK);
  }
  check_scaled(dx[0], dx[1], N_X, 0.5f);
  if (given) check_scaled(dh[0], dh[1], N_H, 2);
  check_scaled(dw0[0], dw0[1], (int)rows * IN, 2);
  check_scaled(dw1[0], dw1[1], (int)rows * H, 2);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- what is refused
static tn_rnn_output wrong_shape(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  out.hidden = (tn_sum)(out.hidden, at(50));
  return out;
}

static tn_rnn_output no_hidden(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx) {
  (void)m, (void)in, (void)ctx;
  out.hidden = TN_NONE;
  return out;
}

static tn_rnn_input other_layout(tn_module *m, tn_rnn_input in, void *ctx) {
  (void)m;
  in.seq = *(tn_packed *)ctx;
  return in;
}

static tn_rnn_input again(tn_module *m, tn_rnn_input in, void *ctx) {
  (void)ctx;
  (tn_rnn_call)(m, in.seq, (tn_rnn_call_options){.at = at(51)});
  return in;
}

static tn_tensor plain_hook(tn_module *m, tn_tensor in, void *ctx) {
  (void)m, (void)ctx;
  return in;
}

static void refusals(void) {
  const int64_t lengths[B] = {2, T}, others[B] = {T, 2};
  tn_program *p = tn_program_create("refused");
  tn_module *rnn = (tn_lstm)(tn_root(p), "rnn", IN, H, (tn_rnn_options){.at = at(1)}),
            *fc = (tn_linear)(tn_root(p), "fc", 2, 2, (tn_linear_options){.at = at(2)});
  tn_module *cell = (tn_gru_cell)(tn_root(p), "cell", 2, 2, (tn_rnn_cell_options){.at = at(3)});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, IN));
  tn_packed s = tn_pack_constant(x, lengths, B), other = tn_pack_constant(x, others, B);
  CHECK(!(tn_hook_pre)(rnn, plain_hook, NULL, (tn_hook_options){.at = at(4)}));
  CHECK(!(tn_rnn_hook_pre)(fc, again, NULL, (tn_hook_options){.at = at(5)}));
  CHECK(!(tn_rnn_hook_pre)(cell, again, NULL, (tn_hook_options){.at = at(6)}));
  CHECK(!(tn_rnn_hook_pre)(rnn, NULL, NULL, (tn_hook_options){.at = at(7)}));
  tn_hook *h = (tn_rnn_hook_post)(rnn, wrong_shape, NULL, (tn_hook_options){.at = at(8)});
  CHECK((tn_rnn_call)(rnn, s, (tn_rnn_call_options){.at = at(9)}).hidden.v == 0);
  tn_hook_remove(h);
  h = (tn_rnn_hook_post)(rnn, no_hidden, NULL, (tn_hook_options){.at = at(10)});
  (tn_rnn_call)(rnn, s, (tn_rnn_call_options){.at = at(11)});
  tn_hook_remove(h);
  h = (tn_rnn_hook_pre)(rnn, other_layout, &other, (tn_hook_options){.at = at(12)});
  (tn_rnn_call)(rnn, s, (tn_rnn_call_options){.at = at(13)});
  tn_hook_remove(h);
  h = (tn_rnn_hook_pre)(rnn, again, NULL, (tn_hook_options){.at = at(14)});
  (tn_rnn_call)(rnn, s, (tn_rnn_call_options){.at = at(15)});
  tn_hook_remove(h);
  const char *want =
      "user.c:4: error[E003]: module 'rnn' runs no such hooks: it works on sequences and states\n"
      "user.c:1: note: it was made here\n"
      "hint: tn_rnn_hook_pre and tn_rnn_hook_post watch recurrent modules, tn_hook_backward their gradients\n"
      "user.c:5: error[E003]: module 'fc' runs no hooks of recurrent modules\n"
      "user.c:2: note: it was made here\n"
      "hint: tn_hook_pre and tn_hook_post watch other modules\n"
      "user.c:6: error[E003]: module 'cell' runs no hooks: it makes single steps\n"
      "user.c:3: note: it was made here\n"
      "hint: use what goes into tn_rnn_step and comes out of it\n"
      "user.c:7: error[E003]: a hook of module 'rnn' is no function\n"
      "user.c:9: error[E118]: a hook of module 'rnn' replaces its output, f32[1,2,5], by a value of f32[]\n"
      "user.c:8: note: the hook was registered here\n"
      "user.c:50: note: the replacement was made here\n"
      "hint: a hook keeps shape and dtype: change them before the call, or after it\n"
      "user.c:11: error[E118]: a hook of module 'rnn' adds or takes away a value\n"
      "user.c:10: note: the hook was registered here\n"
      "hint: a hook returns what it was given, or that with values replaced\n"
      "user.c:13: error[E118]: a hook of module 'rnn' changes the layout of a packed sequence\n"
      "user.c:12: note: the hook was registered here\n"
      "hint: a hook returns what it was given, or that with values replaced\n"
      "user.c:51: error[E009]: module 'rnn' is called by a hook of its own\n"
      "user.c:14: note: the hook was registered here\n";
  const char *report = report_of(p);
  if (!CHECK(strcmp(report, want) == 0)) printf("%s", report);
  tn_program_free(p);
}

// W119 names the call that would have run it.
static void unused(void) {
  tn_program *p = tn_program_create("unused");
  tn_module *rnn = (tn_rnn)(tn_root(p), "rnn", IN, H, false, (tn_rnn_options){.at = at(1)});
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(T, B, IN));
  tn_rnn_output r = (tn_rnn_call_dense)(rnn, x, (tn_rnn_call_options){.at = at(2)});
  (tn_rnn_hook_pre)(rnn, double_input, NULL, (tn_hook_options){.at = at(3)});
  tn_output(f, "y", r.dense);
  tn_function_end(f);
  tn_model *m = model_of(p);
  const char *want =
      "user.c:3: warning[W119]: a hook of module 'rnn' never fires: the module was called only before it "
      "was registered\n"
      "user.c:2: note: it was called here\n"
      "hint: tn_rnn_call runs hooks, those that are registered before it; tn_hook_remove takes one away\n";
  const char *report = report_of(p);
  if (!CHECK(strcmp(report, want) == 0)) printf("%s", report);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  replacing(true);
  replacing(false);
  for (Cell cell = LSTM; cell <= RNN; cell++)
    for (int k = 0; k < 4; k++) backward(cell, k & 1, k & 2);
  refusals();
  unused();
  return check_report();
}
