// Constant lengths: the layout is a table in the constant pool and no kernel makes it. The same bits as lengths that
// come at run time. Lengths that are all 0 leave states as they were, and weights without a gradient.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <stdlib.h>

enum { BATCH = 3, TIME = 5, FEATURES = 4, HIDDEN = 8 };
static const int64_t lengths[BATCH] = {3, 5, 4};

static tn_model *build(tn_program *p, bool constant) {
  tn_function *f = tn_function_begin(p, "step");
  tn_dim B = tn_dim_const(BATCH), T = tn_dim_const(TIME);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, FEATURES));
  tn_packed s =
      constant ? tn_pack_constant(x, lengths, BATCH) : tn_pack_padded(x, tn_input(f, "lengths", TN_I64, TN_SHAPE(B)));
  tn_rnn_output r = tn_rnn_call(tn_lstm(tn_root(p), "rnn", FEATURES, HIDDEN), s);
  tn_tensor loss = tn_mean(tn_square(r.out.data));
  tn_output(f, "loss", loss);
  tn_output(f, "last", tn_last_hidden(r));
  tn_backward(loss);
  tn_sgd(f, tn_root(p));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  if (!CHECK(m)) tn_report(p, stdout), exit(1);
  return m;
}

typedef struct {
  float loss[3], last[3][BATCH * HIDDEN];
} Results;

static void run(tn_model *m, bool constant, Results *out) {
  float x[BATCH * TIME * FEATURES];
  for (int k = 0; k < BATCH * TIME * FEATURES; k++) x[k] = (float)(k % 17) / 8 - 1;
  tn_array in[] = {tn_f32(x, BATCH, TIME, FEATURES), tn_i64(lengths, BATCH)};
  for (int k = 0; k < 3; k++)
    CHECK(!tn_run(m, "step", in, constant ? 1 : 2,
                  TN_OUT(tn_f32_scalar(&out->loss[k]), tn_f32(out->last[k], BATCH, HIDDEN))));
}

static char *lifetimes(const tn_program *p) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  CHECK(!tn_dump(p, out, TN_DUMP_LIFETIMES));
  fclose(out);
  return text;
}

typedef enum { LSTM, GRU, PLAIN, N_KINDS } Kind;

static void test_no_steps(Kind kind) {
  static const int64_t none[BATCH];
  tn_program *p = tn_program_create("none");
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(BATCH, TIME, FEATURES));
  tn_tensor h0 = tn_input(f, "h0", TN_F32, TN_SHAPE(1, BATCH, HIDDEN));
  tn_module *m = kind == LSTM  ? tn_lstm(tn_root(p), "rnn", FEATURES, HIDDEN)
                 : kind == GRU ? tn_gru(tn_root(p), "rnn", FEATURES, HIDDEN)
                               : tn_rnn(tn_root(p), "rnn", FEATURES, HIDDEN, false);
  tn_packed s = tn_pack_constant(x, none, BATCH, .allow_empty = true);
  tn_tensor last = tn_rnn_call(m, s, .h0 = h0, .c0 = kind == LSTM ? h0 : TN_NONE).hidden;
  tn_output(f, "last", last);
  tn_output(f, "d", tn_grad(tn_sum(tn_square(last)), h0));
  tn_backward(tn_sum(tn_square(last)));
  tn_sgd(f, tn_root(p), .lr = 0.1);
  tn_function_end(f);
  tn_model *model = tn_compile(p);
  if (!CHECK(model)) tn_report(p, stdout), exit(1);
  float xs[BATCH * TIME * FEATURES] = {0}, h[BATCH * HIDDEN], y[BATCH * HIDDEN], d[BATCH * HIDDEN], w[2];
  for (int k = 0; k < BATCH * HIDDEN; k++) h[k] = (float)(k % 7) / 4 - 1;
  w[0] = ((const float *)tn_param_at(model, 1).data)[3];
  CHECK(!tn_run(model, "step", TN_IN(tn_f32(xs, BATCH, TIME, FEATURES), tn_f32(h, 1, BATCH, HIDDEN)),
                TN_OUT(tn_f32(y, 1, BATCH, HIDDEN), tn_f32(d, 1, BATCH, HIDDEN))));
  w[1] = ((const float *)tn_param_at(model, 1).data)[3];
  CHECK(w[0] == w[1] && w[0] != 0);
  for (int k = 0; k < BATCH * HIDDEN; k++) CHECK(y[k] == h[k] && d[k] == 2 * h[k]);
  tn_model_free(model);
  tn_program_free(p);
}

int main(void) {
  for (Kind kind = 0; kind < N_KINDS; kind++) test_no_steps(kind);
  static Results at_run, folded;
  tn_program *p = tn_program_create("run_time"), *q = tn_program_create("constant");
  tn_model *m = build(p, false), *n = build(q, true);
  run(m, false, &at_run), run(n, true, &folded);
  CHECK(!memcmp(&at_run, &folded, sizeof folded) && folded.loss[2] > 0 && folded.loss[2] != folded.loss[0]);
  tn_plan a, b;
  CHECK(!tn_plan_of(m, "step", &a) && !tn_plan_of(n, "step", &b));
  CHECK(b.n_kernels < a.n_kernels);  // none computes the layout, or the number of rows
  CHECK(a.const_bytes == 0 && b.const_bytes > 0 && b.const_bytes < 256);
  char *text = lifetimes(p);
  CHECK_HAS(text, "packed_layout %lengths");
  CHECK_HAS(text, "layout[3,5,rows]  ; k0 arena+");
  free(text);
  text = lifetimes(q);
  CHECK_HAS(text, "packed_layout {time=5, rows=12, lengths=[3,5,4], checked} : layout[3,5,12]  ; const+0");
  CHECK_HAS(text, "f32[12,8]");  // rows are a constant of the code
  free(text);
  tn_model_free(m), tn_model_free(n);
  tn_program_free(p), tn_program_free(q);
  return check_report();
}
