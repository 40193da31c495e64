// Convolutions along packed sequences, beside tests/op_cases/conv_packed.def: modules, layouts that are shared or new,
// constant lengths and those of a run, sequences that are too short, the same bits for any number of workers.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/report.h"

#include <stdlib.h>

enum { BATCH = 6, TIME = 11, IN = 5, OUT = 19 };
static const int64_t lengths[BATCH] = {4, 11, 3, 7, 11, 5};

static tn_packed sequences(tn_program *p, tn_function *f, bool fixed) {
  tn_dim B = fixed ? tn_dim_const(BATCH) : tn_dim_bounded(p, "batch", BATCH);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, TIME, IN));
  if (fixed) return tn_pack_constant(x, lengths, BATCH);
  return tn_pack_padded(x, tn_input(f, "lengths", TN_I64, TN_SHAPE(B)));
}

// Two branches of one geometry meet, behind layers in a row that change channels and lengths.
static void add_step(tn_program *p, const char *name, bool fixed) {
  tn_module *root = tn_root(p);
  tn_function *f = tn_function_begin(p, name);
  tn_packed s = tn_packed_call(tn_child(root, "rows"), sequences(p, f, fixed));
  tn_packed a = tn_packed_call(tn_child(root, "a"), s), b = tn_packed_call(tn_child(root, "b"), s);
  tn_tensor y = tn_pad_packed(tn_packed_zip("add", a, b), 0, true);
  tn_tensor loss = tn_mean(tn_square(y));
  tn_output(f, "sums", tn_packed_sum(a));
  tn_backward(loss);
  tn_sgd(f, root, .lr = 0.1);
  tn_output(f, "loss", loss);
  tn_function_end(f);
}

static tn_program *program(void) {
  tn_program *p = tn_program_create("packed_conv");
  tn_module *root = tn_root(p), *rows = tn_sequential(root, "rows");
  tn_conv1d_module(rows, "0", IN, OUT, 3, .same = true);
  tn_activation(rows, "1", "tanh");
  tn_conv1d_module(rows, "2", OUT, OUT, 2);
  tn_conv1d_module(root, "a", OUT, OUT, 3, .stride = 2, .padding = 1);
  tn_conv1d_module(root, "b", OUT, OUT, 1, .stride = 2);
  add_step(p, "run", false), add_step(p, "fixed", true);
  return p;
}

typedef struct {
  float loss[3], sums[BATCH * OUT];
} Result;

static Result train(uint32_t workers, const char *function) {
  Result r;
  float x[BATCH * TIME * IN];
  for (int k = 0; k < BATCH * TIME * IN; k++) x[k] = (float)(k * 37 % 101) / 50 - 1;
  tn_program *p = program();
  tn_model *m = tn_compile(p, .n_workers = workers, .seed = 2);
  if (!CHECK(m != NULL)) printf("%s\n", report_of(p)), exit(1);
  for (int k = 0; k < 3; k++) {
    tn_array in[] = {tn_f32(x, BATCH, TIME, IN), tn_i64((int64_t *)(uintptr_t)lengths, BATCH)};
    tn_array out[] = {tn_f32(r.sums, BATCH, OUT), tn_f32_scalar(&r.loss[k])};
    CHECK(tn_run(m, function, in, function[0] == 'f' ? 1 : 2, out, 2) == TN_OK);
  }
  tn_model_free(m), tn_program_free(p);
  return r;
}

static void check_bits(void) {
  Result one = train(1, "run"), three = train(3, "run"), fixed = train(1, "fixed");
  CHECK(!memcmp(&one, &three, sizeof one));
  CHECK(!memcmp(&one, &fixed, sizeof one));
  CHECK(one.loss[2] < one.loss[0]);
}

// ---- refused
static void check_short(void) {
  float x[BATCH * TIME * IN] = {0}, loss = 0, sums[BATCH * OUT];
  int64_t len[BATCH] = {4, 11, 3, 1, 11, 5};
  tn_program *p = program();
  tn_model *m = tn_compile(p, .n_workers = 1);
  const tn_array in[] = {tn_f32(x, BATCH, TIME, IN), tn_i64(len, BATCH)};
  const tn_array out[] = {tn_f32(sums, BATCH, OUT), tn_f32_scalar(&loss)};
  CHECK(tn_run(m, "run", in, 2, out, 2) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "run: input 'lengths': with windows that need 2 steps, length 1 at [3] is not in 2..11");
  tn_model_free(m), tn_program_free(p);
}

typedef enum { CONSTANT, ALL, CHANNELS, RANKS, OPTIONS, REFLECT } Mistake;
static void check_mistake(Mistake k, const char *sentence) {
  tn_program *p = tn_program_create("mistake");
  tn_function *f = tn_function_begin(p, "f");
  tn_packed s = sequences(p, f, k == CONSTANT);
  int64_t taps = k == CONSTANT ? 4 : k == ALL ? 12 : 3;
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(OUT, k == CHANNELS ? IN + 1 : IN, taps));
  tn_module *m = tn_conv1d_module(tn_root(p), "c", IN, OUT, 3, .padding = 1, .padding_mode = TN_PAD_REFLECT);
  tn_packed y = k == REFLECT   ? tn_packed_call(m, s)
                : k == RANKS   ? tn_packed_conv1d(s, tn_reshape(w, TN_SHAPE(OUT, 3 * IN)), TN_NONE)
                : k == OPTIONS ? tn_packed_conv1d(s, w, TN_NONE, .stride = -1)
                               : tn_packed_conv1d(s, w, TN_NONE);
  tn_output(f, "y", tn_pad_packed(y, 0, true));
  CHECK_HAS(report_of(p), sentence);
  tn_program_free(p);
}

int main(void) {
  check_bits();
  check_short();
  check_mistake(CONSTANT, "a window needs 4 steps of a sequence, and there is one with 3");
  check_mistake(ALL, "a window needs 12 steps of a sequence, and the longest may have 11");
  check_mistake(CHANNELS, "a convolution along packed sequences takes rows f32 [rows,C], a weight [O,C/groups,kernel]");
  check_mistake(RANKS, "in 1 groups");
  check_mistake(OPTIONS, "the stride must be in [1, 1048576], not -1");
  check_mistake(REFLECT, "module 'c' pads with more than zeros, which packed sequences do not have");
  return check_report();
}
