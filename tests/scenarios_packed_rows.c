// Layout and numbers of packed sequences, by constant and by run-time lengths. Compiled code is compared with
// PyTorch's numbers and with the interpreter.
#include "tests/models.h"
#include "tests/scenario.h"

#include <math.h>

enum { MOST = 80 };

// ---- a list of sequences, packed in one of three ways
typedef enum { BY_LIST, BY_CONSTANTS, BY_INPUT, N_WAYS } Way;
typedef struct {
  int64_t lengths[8];
  uint32_t n;
  int64_t time;   // of the padded value
  float x[MOST];  // padded [n, time], 99 behind each end
  bool sorted, empty;
} Batch;

static Batch batch_of(uint32_t n, const int64_t *lengths, const float *values, bool sorted) {
  Batch b = {.n = n, .sorted = sorted};
  for (uint32_t k = 0; k < n; k++) b.time = lengths[k] > b.time ? lengths[k] : b.time;
  for (uint32_t k = 0, at = 0; k < n; k++) {
    b.lengths[k] = lengths[k];
    for (int64_t t = 0; t < b.time; t++) b.x[k * b.time + t] = t < lengths[k] ? values[at++] : 99;
  }
  return b;
}
#define BATCH(sorted, lengths, ...) \
  batch_of(sizeof((int64_t[])lengths) / sizeof(int64_t), (int64_t[])lengths, (float[])__VA_ARGS__, sorted)
#define L(...) {__VA_ARGS__}

typedef struct {
  tn_program *p;
  tn_function *f;
  tn_dim batch, time;
  tn_tensor x;
} Build;

static Build begin(const Batch *b, Way way) {
  Build c = {.p = tn_program_create("d"), .batch = tn_dim_const(b->n), .time = tn_dim_const(b->time)};
  if (way == BY_INPUT) {
    c.batch = tn_dim_bounded(c.p, "batch", b->n + 3);
    c.time = tn_dim_bounded(c.p, "time", b->time + 2);
  }
  c.f = tn_function_begin(c.p, "run");
  c.x = tn_input(c.f, "x", TN_F32, TN_SHAPE(c.batch, c.time));
  return c;
}

static tn_packed packed(Build *c, const Batch *b, Way way) {
  tn_pack_options o = {.enforce_sorted = b->sorted, .allow_empty = b->empty};
  if (way == BY_INPUT) return (tn_pack_padded)(c->x, tn_input(c->f, "len", TN_I64, TN_SHAPE(c->batch)), o);
  if (way == BY_CONSTANTS) return (tn_pack_constant)(c->x, b->lengths, b->n, o);
  tn_tensor list[8];
  CHECK(tn_unpad(c->x, b->lengths, b->n, true, list));
  return (tn_pack_sequence)(list, b->n, o);
}

static bool run(tn_model *m, const Batch *b, Way way, const tn_array *out, size_t n) {
  tn_status s =
      tn_run(m, "run", TN_IN(tn_f32(b->x, b->n, b->time), tn_i64(b->lengths, b->n)) - (way != BY_INPUT), out, n);
  if (s != TN_OK) printf("%s\n", tn_error_text(m));
  return CHECK(s == TN_OK);
}

static tn_model *finish(Build *c) {
  tn_function_end(c->f);
  return model_of(c->p);
}

static void drop(Build *c, tn_model *m) {
  tn_model_free(m);
  tn_program_free(c->p);
}

static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

// ---- what a layout must be
typedef struct {
  const float *data;
  const int64_t *sizes, *sorted, *unsorted;
  uint32_t members;
} Want;

static void check_layout_by(const Batch *b, Way way, const Want *w) {
  Build c = begin(b, way);
  tn_packed s = packed(&c, b, way);
  CHECK(tn_packed_n_members(s) == w->members);
  tn_output(c.f, "data", s.data);
  tn_output(c.f, "sizes", tn_packed_batch_sizes(s));
  tn_output(c.f, "sorted", tn_packed_sorted_indices(s));
  tn_output(c.f, "unsorted", tn_packed_unsorted_indices(s));
  tn_output(c.f, "lengths", tn_packed_lengths(s));
  tn_output(c.f, "back", tn_pad_packed(s, 99, true));
  tn_model *m = finish(&c);
  float data[MOST] = {0}, back[MOST] = {0};
  int64_t sizes[16] = {0}, sorted[8], unsorted[8], lengths[8], rows = 0,
          most = way == BY_INPUT ? (b->n + 3) * (b->time + 2) : 0, steps = way == BY_INPUT ? b->time : 0;
  for (uint32_t k = 0; k < b->n; k++) rows += b->lengths[k], steps = b->lengths[k] > steps ? b->lengths[k] : steps;
  if (m && run(m, b, way,
               TN_OUT(tn_f32(data, most ? most : rows), tn_i64(sizes, steps), tn_i64(sorted, b->n),
                      tn_i64(unsorted, b->n), tn_i64(lengths, b->n), tn_f32(back, b->n, steps)))) {
    CHECK(!memcmp(data, w->data, (size_t)rows * sizeof *data));
    CHECK(!memcmp(sizes, w->sizes, (size_t)steps * sizeof *sizes));
    CHECK(!memcmp(sorted, w->sorted, b->n * sizeof *sorted));
    CHECK(!memcmp(unsorted, w->unsorted, b->n * sizeof *unsorted));
    CHECK(!memcmp(lengths, b->lengths, b->n * sizeof *lengths));
    for (uint32_t k = 0; k < b->n; k++)
      CHECK(!memcmp(back + k * steps, b->x + k * b->time, (size_t)steps * sizeof *back));
  }
  drop(&c, m);
}

static void check_layout(Batch b, Want w) {
  for (Way way = 0; way < N_WAYS; way++) check_layout_by(&b, way, &w);
}
#define F(...) ((const float[]){__VA_ARGS__})
#define I(...) ((const int64_t[]){__VA_ARGS__})

SCENARIO(D01) {
  check_layout(BATCH(false, L(3, 2, 1), {1, 2, 3, 4, 5, 6}),
               (Want){F(1, 4, 6, 2, 5, 3), I(3, 2, 1), I(0, 1, 2), I(0, 1, 2), 4});
}

SCENARIO(D02) {
  check_layout(BATCH(false, L(2, 1, 3), {4, 5, 6, 1, 2, 3}),
               (Want){F(1, 4, 6, 2, 5, 3), I(3, 2, 1), I(2, 0, 1), I(1, 2, 0), 4});
}

SCENARIO(D03) {
  check_layout(BATCH(true, L(3, 2, 1), {1, 2, 3, 4, 5, 6}),
               (Want){F(1, 4, 6, 2, 5, 3), I(3, 2, 1), I(0, 1, 2), I(0, 1, 2), 2});
  Batch b = BATCH(true, L(2, 1, 3), {4, 5, 6, 1, 2, 3});
  for (Way way = 0; way < BY_INPUT; way++) {
    Build c = begin(&b, way);
    CHECK(!packed(&c, &b, way).data.v);
    tn_function_end(c.f);
    CHECK(tn_n_errors(c.p) == 1);
    CHECK_HAS(report_of(c.p),
              "error[E114]: length 3 at index 2 is longer than the one before it, and sorting is enforced");
    CHECK_HAS(report_of(c.p), "enforce_sorted = false sorts while packing");
    tn_program_free(c.p);
  }
  Build c = begin(&b, BY_INPUT);
  tn_output(c.f, "y", tn_pad_packed(packed(&c, &b, BY_INPUT), 0, true));
  tn_model *m = finish(&c);
  float y[9] = {7, 7, 7, 7, 7, 7, 7, 7, 7};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(b.x, 3, 3), tn_i64(b.lengths, 3)), TN_OUT(tn_f32(y, 3, 3))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "input 'len': length 3 at [2] is above 1 before it, and sorting is enforced");
  CHECK(y[0] == 7);  // refused before anything is written
  drop(&c, m);
}

SCENARIO(D05) {
  check_layout(BATCH(false, L(4, 2), {1, 2, 3, 4, 5, 6}),
               (Want){F(1, 5, 2, 6, 3, 4), I(2, 2, 1, 1), I(0, 1), I(0, 1), 4});
}

SCENARIO(D06) {
  Batch b = BATCH(true, L(4, 2, 2), {1, 2, 3, 4, 5, 6, 7, 8});
  check_layout(b, (Want){F(1, 5, 7, 2, 6, 8, 3, 4), I(3, 3, 1, 1), I(0, 1, 2), I(0, 1, 2), 2});
  // time-major: pad the list, pack it, unpack it
  Build c = begin(&b, BY_LIST);
  tn_tensor list[3], back[3];
  CHECK(tn_unpad(c.x, b.lengths, 3, true, list));
  tn_tensor padded = tn_pad_sequence(list, 3, 0, false);
  tn_packed s = tn_pack_constant(padded, b.lengths, 3, .time_major = true, .enforce_sorted = true);
  tn_output(c.f, "padded", padded);
  tn_output(c.f, "data", s.data);
  tn_output(c.f, "again", tn_pad_packed(s, 0, false));
  CHECK(tn_unpack_sequence(s, back, 3) == 3);
  for (int k = 0; k < 3; k++) tn_output(c.f, names[k], back[k]);
  tn_model *m = finish(&c);
  float y[12], data[8], again[12], one[4], two[2], three[2], sum = 0;
  if (m && run(m, &b, BY_LIST,
               TN_OUT(tn_f32(y, 4, 3), tn_f32(data, 8), tn_f32(again, 4, 3), tn_f32(one, 4), tn_f32(two, 2),
                      tn_f32(three, 2)))) {
    for (int k = 0; k < 12; k++) sum += y[k];
    CHECK(sum == 36);
    CHECK(!memcmp(y, F(1, 5, 7, 2, 6, 8, 3, 0, 0, 4, 0, 0), sizeof y) && !memcmp(y, again, sizeof y));
    CHECK(!memcmp(data, F(1, 5, 7, 2, 6, 8, 3, 4), sizeof data));
    CHECK(!memcmp(one, F(1, 2, 3, 4), sizeof one) && !memcmp(two, F(5, 6), sizeof two) &&
          !memcmp(three, F(7, 8), sizeof three));
  }
  drop(&c, m);
}

// ---- seven sequences of five features
enum { D7_B = 7, D7_T = 10, D7_F = 5, D7_ROWS = 29 };
static const int64_t d7_lengths[D7_B] = {10, 8, 4, 2, 2, 2, 1}, d7_sizes[D7_T] = {7, 6, 3, 3, 2, 2, 2, 2, 1, 1};

typedef struct {
  Build c;
  tn_packed s;
} Seven;

static Seven seven(bool constant) {
  Seven d = {.c = {.p = tn_program_create("d07")}};
  tn_dim batch = constant ? tn_dim_const(D7_B) : tn_dim_bounded(d.c.p, "batch", D7_B);
  tn_dim time = constant ? tn_dim_const(D7_T) : tn_dim_bounded(d.c.p, "time", D7_T);
  d.c.f = tn_function_begin(d.c.p, "run");
  d.c.x = tn_input(d.c.f, "x", TN_F32, TN_SHAPE(batch, time, D7_F));
  if (constant) d.s = tn_pack_constant(d.c.x, d7_lengths, D7_B);
  else d.s = tn_pack_padded(d.c.x, tn_input(d.c.f, "len", TN_I64, TN_SHAPE(batch)));
  return d;
}

static void check_seven(bool constant) {
  Seven d = seven(constant);
  tn_output(d.c.f, "data", d.s.data);
  tn_output(d.c.f, "sizes", tn_packed_batch_sizes(d.s));
  tn_output(d.c.f, "lengths", tn_packed_lengths(d.s));
  tn_output(d.c.f, "back", tn_pad_packed(d.s, 0, true));
  tn_model *m = finish(&d.c);
  float x[D7_B][D7_T][D7_F] = {{{0}}}, back[D7_B][D7_T][D7_F], data[D7_B * D7_T][D7_F];
  int64_t sizes[D7_T], lengths[D7_B];
  for (int i = 0; i < D7_B; i++)
    for (int n = 0; n < d7_lengths[i]; n++)
      for (int k = 0; k < D7_F; k++) x[i][n][k] = (float)(100 * (i + 1) + 5 * n + k + 1);
  CHECK(tn_run(m, "run", TN_IN(tn_f32(x, D7_B, D7_T, D7_F), tn_i64(d7_lengths, D7_B)) - constant,
               TN_OUT(tn_f32(data, constant ? D7_ROWS : D7_B * D7_T, D7_F), tn_i64(sizes, D7_T), tn_i64(lengths, D7_B),
                      tn_f32(back, D7_B, D7_T, D7_F))) == TN_OK);
  CHECK(!memcmp(sizes, d7_sizes, sizeof sizes) && !memcmp(lengths, d7_lengths, sizeof lengths) &&
        !memcmp(back, x, sizeof x));
  int row = 0;
  for (int n = 0; n < D7_T; n++)  // step-major, sequence-minor
    for (int i = 0; i < sizes[n]; i++, row++) CHECK(!memcmp(data[row], x[i][n], sizeof data[row]));
  CHECK(row == D7_ROWS);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  CHECK(tn_dump(d.c.p, out, TN_DUMP_SUMMARY) == TN_OK);
  fclose(out);
  CHECK_HAS(text, constant ? ": 29 rows of 70 padded  //" : ": up to 70 rows of 70 padded  //");
  free(text);
  drop(&d.c, m);
}

SCENARIO(D07) {
  check_seven(true);
  check_seven(false);
}

static void check_gradient(bool constant) {
  Seven d = seven(constant);
  tn_dim dims[] = {tn_dim_of(d.c.x, 0), tn_dim_of(d.c.x, 1), tn_dim_const(D7_F)};
  tn_tensor y = tn_pad_packed(d.s, 0, true), g = tn_input(d.c.f, "g", TN_F32, tn_shape_of(dims, 3));
  tn_output(d.c.f, "dx", tn_grad(tn_sum(tn_mul(y, g)), d.c.x));
  tn_model *m = finish(&d.c);
  float x[D7_B][D7_T][D7_F], gs[D7_B][D7_T][D7_F], dx[D7_B][D7_T][D7_F];
  uint32_t seed = 1;
  for (int k = 0; k < D7_B * D7_T * D7_F; k++) {
    (&x[0][0][0])[k] = NAN;  // padding is never read, and no value is needed
    (&gs[0][0][0])[k] = (float)(int32_t)(seed = seed * 1664525u + 1013904223u) / 2147483648.0f;
  }
  tn_array in[] = {tn_f32(x, D7_B, D7_T, D7_F), tn_i64(d7_lengths, D7_B), tn_f32(gs, D7_B, D7_T, D7_F)};
  if (constant) in[1] = in[2];
  CHECK(tn_run(m, "run", in, constant ? 2 : 3, TN_OUT(tn_f32(dx, D7_B, D7_T, D7_F))) == TN_OK);
  for (int i = 0; i < D7_B; i++)
    for (int n = 0; n < D7_T; n++)
      for (int k = 0; k < D7_F; k++) CHECK(dx[i][n][k] == (n < d7_lengths[i] ? gs[i][n][k] : 0));
  drop(&d.c, m);
}

SCENARIO(D09) {
  check_gradient(true);
  check_gradient(false);
}

SCENARIO(D10) {
  Batch b = BATCH(false, L(2, 3, 1), {4, 5, 1, 2, 3, 6});
  Build c = begin(&b, BY_LIST);
  tn_tensor list[3];
  CHECK(tn_unpad(c.x, b.lengths, 3, true, list));
  tn_output(c.f, "zeros", tn_pad_sequence(list, 3, 0, true));
  tn_output(c.f, "ones", tn_pad_sequence(list, 3, 1, true));
  tn_tensor time_major = tn_pad_sequence(list, 3, 0, false);
  tn_output(c.f, "time_major", time_major);
  tn_output(c.f, "dx", tn_grad(tn_sum(tn_square(time_major)), c.x));
  tn_model *m = finish(&c);
  float zeros[9], ones[9], turned[9], dx[9];
  if (m &&
      run(m, &b, BY_LIST, TN_OUT(tn_f32(zeros, 3, 3), tn_f32(ones, 3, 3), tn_f32(turned, 3, 3), tn_f32(dx, 3, 3)))) {
    CHECK(!memcmp(zeros, F(4, 5, 0, 1, 2, 3, 6, 0, 0), sizeof zeros));
    CHECK(!memcmp(ones, F(4, 5, 1, 1, 2, 3, 6, 1, 1), sizeof ones));
    CHECK(!memcmp(turned, F(4, 1, 6, 5, 2, 0, 0, 3, 0), sizeof turned));
    CHECK(!memcmp(dx, F(8, 10, 0, 2, 4, 6, 12, 0, 0), sizeof dx));
  }
  drop(&c, m);
}

// The list comes back in its own order, from a padded value and from a packed one.
SCENARIO(D12) {
  Batch b = BATCH(false, L(2, 3, 1), {4, 5, 1, 2, 3, 6});
  for (int time_first = 0; time_first < 2; time_first++) {
    Build c = begin(&b, BY_LIST);
    tn_tensor list[3], unpadded[3], unpacked[3];
    CHECK(tn_unpad(c.x, b.lengths, 3, true, list));
    CHECK(tn_unpad(tn_pad_sequence(list, 3, -1, !time_first), b.lengths, 3, !time_first, unpadded));
    CHECK(tn_unpack_sequence(tn_pack_sequence(list, 3), unpacked, 3) == 3);
    for (int k = 0; k < 3; k++) tn_output(c.f, names[k], unpadded[k]);
    for (int k = 0; k < 3; k++) tn_output(c.f, names[3 + k], unpacked[k]);
    tn_output(c.f, "dx", tn_grad(tn_sum(tn_mul(unpacked[1], tn_square(unpacked[1]))), c.x));
    tn_model *m = finish(&c);
    float y[6][3], dx[9];
    if (m && run(m, &b, BY_LIST,
                 TN_OUT(tn_f32(y[0], 2), tn_f32(y[1], 3), tn_f32(y[2], 1), tn_f32(y[3], 2), tn_f32(y[4], 3),
                        tn_f32(y[5], 1), tn_f32(dx, 3, 3))))
      for (int k = 0; k < 6; k++)
        CHECK(!memcmp(y[k], (const float[3][3]){{4, 5}, {1, 2, 3}, {6}}[k % 3],
                      (size_t)b.lengths[k % 3] * sizeof(float)));
    CHECK(!memcmp(dx, F(0, 0, 0, 3, 12, 27, 0, 0, 0), sizeof dx));
    drop(&c, m);
  }
}

SCENARIO(D15) {
  tn_program *p = tn_program_create("d15");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(3, 3), at(1));
  tn_tensor none = (tn_input)(f, "none", TN_F32, TN_SHAPE(0, 0), at(2));
  tn_tensor pair = (tn_input)(f, "pair", TN_F32, TN_SHAPE(2, 25), at(3));
  tn_tensor flat = (tn_input)(f, "flat", TN_F32, TN_SHAPE(3), at(4));
  CHECK(!(tn_pack_constant)(x, I(1, 3, 2), 3, (tn_pack_options){.enforce_sorted = true, .at = at(10)}).data.v);
  CHECK(!(tn_pack_constant)(none, I(1), 1, (tn_pack_options){.enforce_sorted = true, .at = at(11)}).data.v);
  CHECK(!(tn_pack_constant)(pair, I(22, 25), 2, (tn_pack_options){.enforce_sorted = true, .at = at(12)}).data.v);
  CHECK(!(tn_pack_constant)(flat, I(1, 1, 1), 3, (tn_pack_options){.enforce_sorted = true, .at = at(13)}).data.v);
  tn_function_end(f);
#define WAY_OUT "hint: enforce_sorted = false sorts while packing, and gives results in the order of the input\n"
  CHECK_REPORT(
      p, "user.c:10: error[E114]: length 3 at index 1 is longer than the one before it, and sorting is enforced\n"
         "user.c:1: note: the value to pack is input 'x', f32[3,3], made here\n" WAY_OUT
         "user.c:11: error[E116]: 1 constant lengths are given for a batch of 0\n"
         "user.c:2: note: the value to pack is input 'none', f32[0,0], made here\n"
         "hint: one length for each sequence\n"
         "user.c:12: error[E114]: length 25 at index 1 is longer than the one before it, and sorting is enforced\n"
         "user.c:3: note: the value to pack is input 'pair', f32[2,25], made here\n" WAY_OUT
         "user.c:13: error[E004]: packing takes a value with batch and time axes, found 1 axes\n"
         "user.c:4: note: the value is input 'flat', f32[3], made here\n");
  tn_program_free(p);
}

// ---- h' = tanh(0.5 x - 0.25 h + 0.1)
static const float d18_out[6] = {0.537050f, 0.970452f, 0.995949f, 0.746825f, 0.982235f, 0.888192f};
static const float d18_hn[3] = {0.982235f, 0.995949f, 0.888192f};

static bool near(const float *a, const float *b, int n, float most) {
  for (int k = 0; k < n; k++)
    if (!(fabsf(a[k] - b[k]) <= most)) return printf("  [%d]: %.7f, expected %.7f\n", k, a[k], b[k]), false;
  return true;
}

static tn_module *elman(Build *c) {
  tn_module *rnn = tn_rnn(tn_root(c->p), "rnn", 1, 1, false);
  return rnn;
}

static void set_elman(tn_model *m) {
  CHECK(tn_set(m, "rnn.weight_ih_l0", F(0.5f), 1) == TN_OK && tn_set(m, "rnn.weight_hh_l0", F(-0.25f), 1) == TN_OK);
  CHECK(tn_set(m, "rnn.bias_ih_l0", F(0.1f), 1) == TN_OK && tn_set(m, "rnn.bias_hh_l0", F(0), 1) == TN_OK);
}

static tn_packed as_features(tn_packed s) {  // [rows, 1]
  return tn_packed_with_data(s, tn_reshape(s.data, TN_SHAPE(tn_dim_of(s.data, 0), 1)));
}

SCENARIO(D18) {
  Batch b = BATCH(false, L(2, 1, 3), {4, 5, 6, 1, 2, 3});
  for (Way way = 0; way < N_WAYS; way++) {
    Build c = begin(&b, way);
    tn_module *rnn = elman(&c);
    tn_rnn_output r = tn_rnn_call(rnn, as_features(packed(&c, &b, way)));
    tn_output(c.f, "out", r.out.data);
    tn_output(c.f, "hn", r.hidden);
    tn_model *m = finish(&c);
    set_elman(m);
    float out[30], hn[3];
    if (run(m, &b, way, TN_OUT(tn_f32(out, way == BY_INPUT ? 30 : 6, 1), tn_f32(hn, 1, 3, 1))))
      CHECK(near(out, d18_out, 6, 1e-6f) && near(hn, d18_hn, 3, 1e-6f));
    drop(&c, m);
  }
}

// The last state of a padded run would come from padding.
SCENARIO(D19) {
  const float through_padding[3] = {-0.144539f, 0.136123f, 0.888192f};
  Batch b = BATCH(false, L(2, 1, 3), {4, 5, 6, 1, 2, 3});
  for (int k = 0; k < 9; k++)
    if (b.x[k] == 99) b.x[k] = 0;
  Build c = begin(&b, BY_CONSTANTS);
  tn_module *rnn = elman(&c);
  tn_packed zeros = tn_pack_constant(c.x, I(3, 3, 3), 3), exact = tn_pack_constant(c.x, b.lengths, 3);
  tn_output(c.f, "padded", tn_rnn_call(rnn, as_features(zeros)).hidden);
  tn_output(c.f, "packed", tn_rnn_call(rnn, as_features(exact)).hidden);
  tn_model *m = finish(&c);
  set_elman(m);
  float padded[3], hn[3];
  if (run(m, &b, BY_CONSTANTS, TN_OUT(tn_f32(padded, 1, 3, 1), tn_f32(hn, 1, 3, 1)))) {
    CHECK(near(padded, through_padding, 3, 1e-6f) && near(hn, d18_hn, 3, 1e-6f));
    for (int k = 0; k < 2; k++) CHECK(fabsf(hn[k] - through_padding[k]) > 0.5f);
  }
  drop(&c, m);
}

SCENARIO(D22) {
  Batch b = BATCH(false, L(2, 1, 3), {4, 5, 6, 1, 2, 3});
  for (Way way = 0; way < N_WAYS; way++) {
    Build c = begin(&b, way);
    tn_module *rnn = elman(&c);
    tn_tensor loss = tn_sum(tn_rnn_call(rnn, as_features(packed(&c, &b, way))).out.data);
    tn_backward(loss);
    tn_output(c.f, "loss", loss);
    tn_output(c.f, "w_in", tn_param_grad(c.f, rnn, "weight_ih_l0"));
    tn_output(c.f, "w_rec", tn_param_grad(c.f, rnn, "weight_hh_l0"));
    tn_output(c.f, "b", tn_param_grad(c.f, rnn, "bias_ih_l0"));
    tn_model *m = finish(&c);
    set_elman(m);
    float y[4];
    if (run(m, &b, way, TN_OUT(tn_f32_scalar(&y[0]), tn_f32(&y[1], 1, 1), tn_f32(&y[2], 1, 1), tn_f32(&y[3], 1))))
      CHECK(near(y, F(5.120703f, 2.563643f, 0.416815f, 1.368091f), 4, 1e-5f));
    drop(&c, m);
  }
}

SCENARIO(D23) {
  check_layout(BATCH(false, L(5), {1, 2, 3, 4, 5}), (Want){F(1, 2, 3, 4, 5), I(1, 1, 1, 1, 1), I(0), I(0), 4});
  check_layout(BATCH(true, L(1, 1, 1), {1, 2, 3}), (Want){F(1, 2, 3), I(3), I(0, 1, 2), I(0, 1, 2), 2});
}

// ---- empty sequences
static void refuse_empty(const Batch *b) {
  for (Way way = 0; way < BY_INPUT; way++) {
    Build c = begin(b, way);
    CHECK(!packed(&c, b, way).data.v);
    tn_function_end(c.f);
    CHECK(tn_n_errors(c.p) == 1);
    CHECK_HAS(report_of(c.p), "error[E115]: length 0 at index 0 is not in [1, 3]");
    CHECK_HAS(report_of(c.p), "hint: leave empty sequences out of the batch, or set allow_empty\n");
    tn_program_free(c.p);
  }
  Build c = begin(b, BY_INPUT);
  tn_output(c.f, "y", tn_pad_packed(packed(&c, b, BY_INPUT), 0, true));
  tn_model *m = finish(&c);
  float y[9] = {7};
  CHECK(tn_run(m, "run", TN_IN(tn_f32(b->x, 3, 3), tn_i64(b->lengths, 3)), TN_OUT(tn_f32(y, 3, 3))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "run: input 'len': length 0 at [0] is not in 1..3");
  CHECK(y[0] == 7);
  drop(&c, m);
}

// Final states, and gradients of initial states, of an LSTM or GRU in both directions: an empty sequence passes them
// on.
static void check_states(const Batch *b, Way way, bool lstm) {
  enum { H = 5 };
  Build c = begin(b, way);
  tn_rnn_options o = {.bidirectional = true};
  tn_module *rnn = lstm ? (tn_lstm)(tn_root(c.p), "rnn", 1, H, o) : (tn_gru)(tn_root(c.p), "rnn", 1, H, o);
  tn_packed s = as_features(packed(&c, b, way));
  tn_tensor h0 = tn_input(c.f, "h0", TN_F32, TN_SHAPE(2, c.batch, H));
  tn_rnn_output r = tn_rnn_call(rnn, s, .h0 = h0);
  tn_tensor g = tn_input(c.f, "g", TN_F32, TN_SHAPE(2, c.batch, H));
  tn_tensor loss = tn_add(tn_sum(tn_mul(r.hidden, g)), tn_sum(tn_square(r.out.data)));
  tn_output(c.f, "hn", r.hidden);
  tn_output(c.f, "dh0", tn_grad(loss, h0));
  tn_model *m = finish(&c);
  float hs[30], gs[30], hn[30], dh[30];
  for (int k = 0; k < 30; k++) hs[k] = (float)(k % 7) / 8 - 0.3f, gs[k] = (float)(k % 11) / 4 - 1;
  tn_array in[] = {tn_f32(b->x, 3, 3), tn_i64(b->lengths, 3), tn_f32(hs, 2, 3, H), tn_f32(gs, 2, 3, H)};
  if (way != BY_INPUT) in[1] = in[2], in[2] = in[3];
  CHECK(tn_run(m, "run", in, way == BY_INPUT ? 4 : 3, TN_OUT(tn_f32(hn, 2, 3, H), tn_f32(dh, 2, 3, H))) == TN_OK);
  for (int d = 0; d < 2; d++)
    for (int user = 0; user < 3; user++) {
      size_t row = (size_t)(d * 3 + user) * H;
      bool kept = !memcmp(hn + row, hs + row, H * sizeof *hn) && !memcmp(dh + row, gs + row, H * sizeof *dh);
      CHECK(kept == (b->lengths[user] == 0));
    }
  drop(&c, m);
}

SCENARIO(D24) {
  Batch b = BATCH(false, L(0, 3, 2), {1, 2, 3, 4, 5});
  refuse_empty(&b);
  b.empty = true;
  check_layout(b, (Want){F(1, 4, 2, 5, 3), I(2, 2, 1), I(1, 2, 0), I(2, 0, 1), 4});
  for (Way way = 0; way < N_WAYS; way++)
    for (int lstm = 0; lstm < 2; lstm++) check_states(&b, way, lstm);
  // no step at all
  Batch none = {.n = 3, .time = 3, .empty = true};
  for (int k = 0; k < 9; k++) none.x[k] = 99;
  for (Way way = BY_CONSTANTS; way < N_WAYS; way++) {
    check_layout_by(&none, way, &(Want){F(0), I(0, 0, 0), I(0, 1, 2), I(0, 1, 2), 4});
    for (int lstm = 0; lstm < 2; lstm++) check_states(&none, way, lstm);
  }
}

// Constant lengths below the padded size: the time axis ends with the longest sequence, as PyTorch's does.
SCENARIO(D_longest) {
  Batch b = {.n = 2, .time = 4, .x = {1, 2, 99, 99, 3, 99, 99, 99}};
  b.lengths[0] = 2, b.lengths[1] = 1;
  check_layout(b, (Want){F(1, 3, 2), I(2, 1, 0, 0), I(0, 1), I(0, 1), 4});
}

SCENARIO(D25) {
  check_layout(BATCH(false, L(2, 4, 2, 4), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
               (Want){F(3, 9, 1, 7, 4, 10, 2, 8, 5, 11, 6, 12), I(4, 4, 2, 2), I(1, 3, 0, 2), I(2, 0, 3, 1), 4});
}
