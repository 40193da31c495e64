// Layout and numbers of packed sequences.
#include "tests/models.h"
#include "tests/scenario.h"

#include <string.h>

// total_length of -1, 0 and one below the longest: refused; the longest and more: padded further, gradients included.
SCENARIO(D13) {
  const int64_t lengths[2] = {3, 1};
  tn_program *p = tn_program_create("d13");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(2, 3), at(9));
  tn_packed s = (tn_pack_constant)(x, lengths, 2, (tn_pack_options){.at = at(10)});
  const int64_t bad[3] = {-1, 0, 2};
  for (int k = 0; k < 3; k++) (tn_pad_packed_to)(s, 0, true, bad[k], at(11 + k));
  tn_function_end(f);
#define REFUSED(line, n)                                                   \
  "user.c:" #line ": error[E117]: tn_pad_packed_to: a total length of " #n \
  " is below the longest sequence, which may have 3 "                      \
  "steps\n"                                                                \
  "user.c:10: note: x is f32[4], made here\n"                              \
  "user.c:10: note: layout is layout[2,3,4], made here\n"                  \
  "user.c:10: note: the sequences were packed here\n"                      \
  "hint: tn_pad_packed pads to the bound of the time axis\n"
  CHECK_REPORT(p, REFUSED(11, -1) REFUSED(12, 0) REFUSED(13, 2));
  tn_program_free(p);

  p = tn_program_create("d13");
  f = tn_function_begin(p, "run");
  x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3));
  s = tn_pack_constant(x, lengths, 2);
  tn_tensor just = tn_pad_packed_to(s, 7, true, 3), longer = tn_pad_packed_to(s, 7, true, 5);
  tn_output(f, "just", just);
  tn_output(f, "longer", longer);
  tn_output(f, "grad", tn_grad(tn_sum(tn_square(longer)), x));
  tn_function_end(f);
  tn_model *m = model_of(p);
  const float xs[6] = {1, 2, 3, 4, 5, 6};
  const float want_just[6] = {1, 2, 3, 4, 7, 7}, want_longer[10] = {1, 2, 3, 7, 7, 4, 7, 7, 7, 7};
  const float want_grad[6] = {2, 4, 6, 8, 0, 0};
  float a[6] = {0}, b[10] = {0}, g[6] = {0};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(xs, 2, 3)), TN_OUT(tn_f32(a, 2, 3), tn_f32(b, 2, 5), tn_f32(g, 2, 3))) == TN_OK);
  CHECK(memcmp(a, want_just, sizeof a) == 0);
  CHECK(memcmp(b, want_longer, sizeof b) == 0);
  CHECK(memcmp(g, want_grad, sizeof g) == 0);
  tn_model_free(m);
  tn_program_free(p);
}

// Three sequences of 5 steps through RNN(10 -> 20, 2 layers): packed and dense agree.
SCENARIO(D17) {
  enum { B = 3, T = 5, IN = 10, H = 20 };
  tn_program *p = tn_program_create("d17");
  tn_rnn_options o = {.n_layers = 2, .batch_first = true};
  tn_module *rnn = (tn_rnn)(tn_root(p), "rnn", IN, H, false, o);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, IN));
  tn_rnn_output packed = tn_rnn_call(rnn, tn_pack_constant(x, ((const int64_t[]){T, T, T}), B));
  tn_rnn_output dense = tn_rnn_call_dense(rnn, x);
  tn_output(f, "y_packed", tn_pad_packed(packed.out, 0, true));
  tn_output(f, "h_packed", packed.hidden);
  tn_output(f, "y_dense", dense.dense);
  tn_output(f, "h_dense", dense.hidden);
  tn_function_end(f);
  tn_model *m = model_of(p);
  float xs[B * T * IN], y[2][B * T * H] = {{0}}, h[2][2 * B * H] = {{0}};
  for (int k = 0; k < B * T * IN; k++) xs[k] = (float)(k * 37 % 101) / 50 - 1;
  CHECK(tn_run(m, "run", TN_IN(tn_f32(xs, B, T, IN)),
               TN_OUT(tn_f32(y[0], B, T, H), tn_f32(h[0], 2, B, H), tn_f32(y[1], B, T, H), tn_f32(h[1], 2, B, H))) ==
        TN_OK);
  CHECK(y[0][0] != 0 && memcmp(y[0], y[1], sizeof y[0]) == 0);
  CHECK(h[0][0] != 0 && memcmp(h[0], h[1], sizeof h[0]) == 0);
  tn_model_free(m);
  tn_program_free(p);
}
