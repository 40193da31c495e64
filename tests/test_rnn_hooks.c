// Hooks of recurrent modules: what they see, what they may replace, what is refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <math.h>

static tn_site at(int line) { return (tn_site){"user.c", line}; }

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
  tn_model *m = tn_compile(p);
  if (!CHECK(m != NULL)) tn_report(p, stdout);
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
      "hint: tn_rnn_hook_pre and tn_rnn_hook_post watch recurrent modules\n"
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
  tn_model *m = tn_compile(p);
  CHECK(m != NULL);
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
  refusals();
  unused();
  return check_report();
}
