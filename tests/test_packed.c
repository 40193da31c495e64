// Packed values through the public API: totals and attention over time against the same on padded values, modules and
// losses on the rows, one layout for the same lengths, what is written, and what is refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/report.h"

#include <math.h>
#include <stdlib.h>

#define D(n) tn_dim_const(n)
static float noise(uint32_t *seed) { return (float)(int32_t)(*seed = *seed * 1664525u + 1013904223u) / 1073741824.0f; }

static void fill(float *v, int n, uint32_t seed) {
  for (int k = 0; k < n; k++) v[k] = noise(&seed);
}

static tn_model *compile(tn_program *p, tn_function *f, uint32_t n_workers) {
  tn_function_end(f);
  return model_of(p, .n_workers = n_workers);
}

// ---- against padded values. Lengths come at run time; HEADS heads of SIZE features.
enum { B = 5, T = 7, HEADS = 3, SIZE = 6, F = HEADS * SIZE };
static const int64_t some_lengths[B] = {3, 7, 1, 7, 2};

typedef struct {
  tn_program *p;
  tn_function *f;
  tn_tensor x, score, len;
  tn_packed s, scores;
} Pair;

static Pair pair(bool empty) {
  Pair c = {.p = tn_program_create("pair")};
  tn_dim batch = tn_dim_bounded(c.p, "batch", B + 2), time = tn_dim_bounded(c.p, "time", T + 1);
  c.f = tn_function_begin(c.p, "run");
  c.x = tn_input(c.f, "x", TN_F32, TN_SHAPE(batch, time, HEADS, SIZE));
  c.score = tn_input(c.f, "score", TN_F32, TN_SHAPE(batch, time, HEADS));
  c.len = tn_input(c.f, "len", TN_I64, TN_SHAPE(batch));
  tn_pack_options o = {.allow_empty = empty};
  c.s = (tn_pack_padded)(c.x, c.len, o);
  c.scores = (tn_pack_padded)(c.score, c.len, o);
  CHECK(c.s.layout.v == c.scores.layout.v);  // the same lengths, the same layout
  return c;
}

// Both ways, and the gradients of a sum of squares of each.
static void compare(const char *what, Pair c, tn_tensor packed, tn_tensor padded) {
  tn_output(c.f, "packed", packed);
  tn_output(c.f, "padded", padded);
  tn_tensor loss[2] = {tn_sum(tn_square(packed)), tn_sum(tn_square(padded))};
  for (int k = 0; k < 2; k++) tn_output(c.f, k ? "dx2" : "dx1", tn_grad(loss[k], c.x));
  tn_model *m = compile(c.p, c.f, 2);
  static float x[B * T * F], score[B * T * HEADS], y[2][B * F], dx[2][B * T * F];
  fill(x, B * T * F, 3), fill(score, B * T * HEADS, 4);
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, B, T, HEADS, SIZE), tn_f32(score, B, T, HEADS), tn_i64(some_lengths, B)),
                    TN_OUT(tn_f32(y[0], B, HEADS, SIZE), tn_f32(y[1], B, HEADS, SIZE), tn_f32(dx[0], B, T, HEADS, SIZE),
                           tn_f32(dx[1], B, T, HEADS, SIZE))) == TN_OK);
  CHECK(all_near(what, y[0], y[1], B * F, 2e-6) && all_near(what, dx[0], dx[1], B * T * F, 2e-6));
  tn_model_free(m);
  tn_program_free(c.p);
}

static tn_tensor padded_by(const Pair *c, double value) { return tn_pad_packed(c->s, value, true); }

static void against_padding(void) {
  Pair c = pair(false);
  compare("sum", c, tn_packed_sum(c.s), tn_sum_axis(padded_by(&c, 0), 1, false));
  c = pair(false);
  tn_tensor n = tn_reshape(tn_cast(tn_packed_lengths(c.s), TN_F32), TN_SHAPE(tn_dim_of(c.x, 0), 1, 1));
  compare("mean", c, tn_packed_mean(c.s), tn_div(tn_sum_axis(padded_by(&c, 0), 1, false), n));
  c = pair(false);
  compare("max", c, tn_packed_max(c.s), tn_amax_axis(padded_by(&c, -100), 1, false));
  c = pair(false);
  compare("min", c, tn_packed_min(c.s), tn_neg(tn_amax_axis(tn_neg(padded_by(&c, 100)), 1, false)));
  c = pair(false);
  compare("first", c, tn_packed_first(c.s), tn_packed_last(tn_packed_reverse(c.s)));
  c = pair(false);
  compare("last", c, tn_packed_last(c.s), tn_packed_first(tn_packed_reverse(c.s)));
}

static void attention(void) {
  Pair c = pair(false);
  tn_tensor weight = tn_softmax(tn_pad_packed(c.scores, -100, true), 1);
  weight = tn_reshape(weight, TN_SHAPE(tn_dim_of(c.x, 0), tn_dim_of(c.x, 1), HEADS, 1));
  compare("attention", c, tn_packed_attend(c.scores, c.s), tn_sum_axis(tn_mul(weight, padded_by(&c, 0)), 1, false));
  c = pair(false);  // scores made of the values themselves: gradients by both paths
  tn_packed own = tn_packed_with_data(c.s, tn_sum_axis(c.s.data, 2, false));
  weight = tn_softmax(tn_pad_packed(own, -100, true), 1);
  weight = tn_reshape(weight, TN_SHAPE(tn_dim_of(c.x, 0), tn_dim_of(c.x, 1), HEADS, 1));
  compare("self attention", c, tn_packed_attend(own, c.s), tn_sum_axis(tn_mul(weight, padded_by(&c, 0)), 1, false));
}

// Every token with its sentence's largest features beside it.
static void sentence_beside_token(void) {
  Pair c = pair(false);
  tn_tensor top = tn_packed_max(c.s);
  tn_packed both = tn_packed_concat(c.s, tn_packed_broadcast(c.s, top));
  tn_dim batch = tn_dim_of(c.x, 0), time = tn_dim_of(c.x, 1);
  tn_tensor wide = tn_expand(tn_reshape(top, TN_SHAPE(batch, 1, HEADS, SIZE)), TN_SHAPE(batch, time, HEADS, SIZE));
  tn_tensor padded = tn_concat(3, TN_TENSORS(c.x, wide)), mask = tn_gt(padded_by(&c, -100), tn_scalar(c.f, -50));
  tn_tensor twice = tn_concat(3, TN_TENSORS(mask, mask));
  compare("sentence", c, tn_slice(tn_packed_sum(tn_packed_zip("mul", both, both)), 2, SIZE, SIZE),
          tn_slice(tn_sum_axis(tn_mul(twice, tn_square(padded)), 1, false), 2, SIZE, SIZE));
}

// ---- modules and losses on the rows: labels packed by the same lengths
static void tagger(void) {
  enum { CLASSES = 4, WORDS = 9 };
  tn_program *p = tn_program_create("tagger");
  tn_dim batch = tn_dim_bounded(p, "batch", 6), time = tn_dim_bounded(p, "time", 8);
  tn_module *emb = tn_embedding(tn_root(p), "emb", WORDS, 5), *head = tn_linear(tn_root(p), "head", 5, CLASSES);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor words = tn_input(f, "words", TN_I64, TN_SHAPE(batch, time));
  tn_tensor tags = tn_input(f, "tags", TN_I64, TN_SHAPE(batch, time));
  tn_tensor len = tn_input(f, "len", TN_I64, TN_SHAPE(batch));
  tn_packed s = tn_pack_padded(words, len), t = tn_pack_like(tags, s, true);
  tn_packed logits = tn_packed_call(head, tn_packed_map("tanh", tn_packed_dropout(tn_packed_call(emb, s), 0)));
  tn_tensor loss = tn_packed_cross_entropy(logits, t), dense = tn_cross_entropy(logits.data, t.data);
  tn_tensor error = tn_packed_mse(logits, tn_packed_map("square", logits));
  tn_backward(loss);
  tn_output(f, "loss", loss);
  tn_output(f, "dense", dense);
  tn_output(f, "error", error);
  tn_output(f, "d", tn_param_grad(f, head, "bias"));
  tn_model *m = compile(p, f, 1);
  const int64_t w[6] = {1, 2, 3, 4, 8, 8}, y[6] = {0, 1, 3, 2, 77, 77},
                lengths[2] = {3, 1};  // labels of padding are never looked at
  float out[3], d[CLASSES], one = 0;
  tn_status status =
      tn_run(m, "run", TN_IN(tn_i64(w, 2, 3), tn_i64(y, 2, 3), tn_i64(lengths, 2)),
             TN_OUT(tn_f32_scalar(&out[0]), tn_f32_scalar(&out[1]), tn_f32_scalar(&out[2]), tn_f32(d, CLASSES)));
  if (!CHECK(status == TN_OK)) printf("%s\n", tn_error_text(m));
  CHECK(out[0] == out[1] && out[0] > 0.2f && out[2] > 0);
  for (int k = 0; k < CLASSES; k++) one += d[k];
  CHECK(fabsf(one) < 1e-6f);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- empty sequences: as documented
static void totals_of_nothing(void) {
  for (int constant = 0; constant < 2; constant++) {
    const int64_t lengths[3] = {0, 2, 0};
    tn_program *p = tn_program_create("nothing");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 2));
    tn_pack_options o = {.allow_empty = true};
    tn_packed s = constant ? (tn_pack_constant)(x, lengths, 3, o)
                           : (tn_pack_padded)(x, tn_input(f, "len", TN_I64, TN_SHAPE(3)), o);
    tn_tensor y[] = {tn_packed_sum(s), tn_packed_mean(s),  tn_packed_max(s),
                     tn_packed_min(s), tn_packed_first(s), tn_packed_last(s)};
    static const char *const name[] = {"sum", "mean", "max", "min", "first", "last"};
    tn_tensor loss = tn_sum(tn_add(y[0], tn_add(y[4], y[5])));
    for (int k = 0; k < 6; k++) tn_output(f, name[k], y[k]);
    tn_output(f, "argmax", tn_packed_argmax(s));
    tn_output(f, "softmax", tn_pad_packed(tn_packed_softmax(s), 0, true));
    tn_output(f, "dx", tn_grad(loss, x));
    tn_model *m = compile(p, f, 1);
    const float in[6] = {9, 9, 3, 3, 9, 9},
                want[6][3] = {{0, 6, 0}, {NAN, 3, NAN}, {-INFINITY, 3, -INFINITY}, {INFINITY, 3, INFINITY},
                              {0, 3, 0}, {0, 3, 0}};
    const float want_soft[6] = {0, 0, 0.5f, 0.5f, 0, 0}, want_dx[6] = {0, 0, 2, 2, 0, 0};
    float out[6][3], soft[6], dx[6];
    int64_t step[3];
    CHECK(m &&
          tn_run(m, "run", TN_IN(tn_f32(in, 3, 2), tn_i64(lengths, 3)) - constant,
                 TN_OUT(tn_f32(out[0], 3), tn_f32(out[1], 3), tn_f32(out[2], 3), tn_f32(out[3], 3), tn_f32(out[4], 3),
                        tn_f32(out[5], 3), tn_i64(step, 3), tn_f32(soft, 3, 2), tn_f32(dx, 3, 2))) == TN_OK);
    for (int k = 0; k < 6; k++) CHECK(all_near(name[k], out[k], want[k], 3, 2e-6));
    CHECK(step[0] == -1 && step[1] == 0 && step[2] == -1);
    CHECK(all_near("softmax", soft, want_soft, 6, 2e-6) && all_near("dx", dx, want_dx, 6, 2e-6));
    tn_model_free(m);
    tn_program_free(p);
  }
}

// ---- many steps: sums stay exact to single precision
static void long_sequences(void) {
  enum { STEPS = 40000 };
  tn_program *p = tn_program_create("long");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, STEPS));
  const int64_t lengths[1] = {STEPS};
  tn_packed s = tn_pack_constant(x, lengths, 1);
  tn_output(f, "sum", tn_packed_sum(s));
  tn_output(f, "one", tn_packed_sum(tn_packed_softmax(s)));
  tn_model *m = compile(p, f, 2);
  float *v = malloc(STEPS * sizeof *v), sum = 0, one = 0;
  double exact = 0;
  fill(v, STEPS, 11);
  for (int k = 0; k < STEPS; k++) exact += v[k] = fabsf(v[k]);
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(v, 1, STEPS)), TN_OUT(tn_f32(&sum, 1), tn_f32(&one, 1))) == TN_OK);
  CHECK(fabs(sum - exact) < 2e-6 * exact && fabsf(one - 1) < 2e-6f);
  free(v);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- what is written: rows, never padding. Lengths 1 .. 100, 16 features.
static void no_padding(void) {
  enum { N = 100, WIDE = 16, ROWS = N * (N + 1) / 2 };
  int64_t lengths[N];
  for (int k = 0; k < N; k++) lengths[k] = k + 1;
  tn_program *p = tn_program_create("rows");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(N, N, WIDE), at(1));
  tn_tensor w = (tn_input)(f, "w", TN_F32, TN_SHAPE(WIDE), at(2));
  tn_packed s = (tn_pack_constant)(x, lengths, N, (tn_pack_options){.at = at(3)});
  tn_packed h = tn_packed_with_data(s, (tn_mul)(s.data, w, at(4)));
  tn_tensor top = (tn_packed_max)(h, at(5)), sum = (tn_packed_sum)(h, at(6));
  tn_packed soft = (tn_packed_softmax)(h, at(7));
  tn_packed wide = (tn_packed_broadcast)(h, (tn_add)(top, sum, at(8)), at(9));
  tn_tensor loss = (tn_sum)((tn_square)((tn_packed_zip)("add", soft, wide, at(10)).data, at(10)), at(11));
  (tn_output)(f, "dw", (tn_grad)(loss, w, at(12)), at(13));
  tn_model *m = compile(p, f, 2);
  const int64_t rows = ROWS * WIDE * 4, totals = N * WIDE * 4;
  CHECK(tn_plan_bytes_written(m, "run", "user.c:3") == rows);
  CHECK(tn_plan_bytes_written(m, "run", "user.c:5") == totals + 2 * totals + rows);  // maximum, its steps; gradient
  CHECK(tn_plan_bytes_written(m, "run", "user.c:6") <= totals + rows);
  CHECK(tn_plan_bytes_written(m, "run", "user.c:7") <= 2 * rows);
  CHECK(tn_plan_bytes_written(m, "run", "user.c:9") <= rows + totals);
  tn_plan plan;
  CHECK(m && tn_plan_of(m, "run", &plan) == TN_OK && plan.n_copies == 0);
  CHECK(plan.peak_bytes < 7 * rows);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- lists
static void lists(void) {
  tn_program *p = tn_program_create("lists");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor list[20], back[20];
  int64_t lengths[20], rows = 0;
  float values[20][4];
  for (int k = 0; k < 20; k++) {  // more than one concat takes, some of them empty
    lengths[k] = (k * 7) % 4;
    for (int t = 0; t < 4; t++) values[k][t] = (float)(10 * k + t);
    list[k] = tn_constant(f, values[k], TN_SHAPE(lengths[k]));
    rows += lengths[k];
  }
  tn_packed s = tn_pack_sequence(list, 20, .allow_empty = true);
  CHECK(tn_unpack_sequence(s, back, 20) == 20);
  tn_output(f, "padded", tn_pad_sequence(list, 20, -1, true));
  tn_output(f, "again", tn_pad_packed(s, -1, true));
  tn_output(f, "back", tn_concat(0, back, 20));
  tn_tensor ints_of[] = {tn_constant_i64(f, ((int64_t[]){5, 6}), TN_SHAPE(2)),
                         tn_constant_i64(f, ((int64_t[]){7}), TN_SHAPE(1))};
  tn_output(f, "ints", tn_pad_sequence(ints_of, 2, -3, false));
  tn_model *m = compile(p, f, 1);
  float padded[60], again[60], flat[40];
  int64_t ints[4];
  CHECK(m &&
        tn_run(m, "run", TN_NO_IN,
               TN_OUT(tn_f32(padded, 20, 3), tn_f32(again, 20, 3), tn_f32(flat, rows), tn_i64(ints, 2, 2))) == TN_OK);
  for (int k = 0, row = 0; k < 20; k++)
    for (int t = 0; t < 3; t++) {
      CHECK(padded[3 * k + t] == (t < lengths[k] ? values[k][t] : -1) && padded[3 * k + t] == again[3 * k + t]);
      if (t < lengths[k]) CHECK(flat[row++] == values[k][t]);
    }
  CHECK(ints[0] == 5 && ints[1] == 7 && ints[2] == 6 && ints[3] == -3);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- layouts: the same lengths have one, until they are written
static void layouts(void) {
  tn_program *p = tn_program_create("layouts");
  tn_dim batch = tn_dim_bounded(p, "batch", 4), time = tn_dim_bounded(p, "time", 5),
         other = tn_dim_bounded(p, "other", 5);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(batch, time), at(1));
  tn_tensor z = (tn_input)(f, "z", TN_F32, TN_SHAPE(batch, other), at(2));
  tn_tensor len = (tn_input)(f, "len", TN_I64, TN_SHAPE(batch), at(3));
  tn_tensor more = (tn_input)(f, "more", TN_I64, TN_SHAPE(batch), at(4));
  tn_packed a = (tn_pack_padded)(x, len, (tn_pack_options){.at = at(10)}),
            b = (tn_pack_padded)(x, len, (tn_pack_options){.at = at(11)});
  tn_packed c = (tn_pack_padded)(x, more, (tn_pack_options){.at = at(12)}),
            d = (tn_pack_padded)(z, len, (tn_pack_options){.at = at(13)});
  tn_packed e = (tn_pack_padded)(x, len, (tn_pack_options){.allow_empty = true, .at = at(14)});
  CHECK(a.layout.v == b.layout.v && a.layout.v != c.layout.v && a.layout.v != d.layout.v && a.layout.v != e.layout.v);
  CHECK(tn_packed_zip("add", a, b).data.v);
  (tn_packed_zip)("add", a, c, at(15));
  (tn_packed_attend)(a, c, at(16));
  (tn_packed_concat)(c, a, at(17));
  (tn_packed_cross_entropy)(c, a, (tn_loss_options){.at = at(18)});
  tn_tensor out[2];
  CHECK((tn_unpack_sequence)(a, out, 2, at(19)) == 0 && !out[0].v && !out[1].v);
  (tn_packed_broadcast)(a, a.data, at(20));
  CHECK(!(tn_unpad)(x, (int64_t[]){1, 2}, 2, true, out, at(21)));
  (tn_packed_concat)(a, b, at(22));
  tn_function_end(f);
  char want[4096] = "";
  static const char *const names[] = {"add", "packed_attend", "packed_concat", "packed_cross_entropy"};
  for (int k = 0; k < 4; k++)
    sprintf(want + strlen(want),
            "user.c:%d: error[E111]: packed sequences of different lengths are joined by tn_%s: those of input '%s' "
            "and those of "
            "input '%s'\nuser.c:%d: note: the first was packed here\nuser.c:%d: note: the second was packed here\n"
            "hint: tn_pack_like packs one by the layout of the other, and the same lengths give the same layout\n",
            15 + k, names[k], k < 2 ? "len" : "more", k < 2 ? "more" : "len", k < 2 ? 10 : 12, k < 2 ? 12 : 10);
  strcat(want, "user.c:19: error[E003]: a list has a constant number of sequences, the batch up to 4\n"
               "user.c:10: note: the sequences were packed here\n"
               "hint: tn_pad_packed gives them in one padded value, tn_packed_lengths their lengths\n"
               "user.c:20: error[E004]: tn_packed_broadcast: ");
  const char *have = report_of(p);
  CHECK_HAS(have, want);
  CHECK_HAS(have, "user.c:21: error[E116]: 2 sequences are taken from a value whose batch is not that constant\n"
                  "user.c:1: note: the padded value is input 'x', f32[batch,time], made here\n");
  CHECK_HAS(have, "user.c:22: error[E004]: features are joined along the last axis, and these rows have none\n");
  CHECK(tn_n_errors(p) == 8);
  tn_program_free(p);
}

// ---- fewer rows than batch times time: .max_rows. Each run's bits are those of a model without it; memory is that of the rows.
enum { LIMIT = 20 };
typedef struct {
  tn_program *p;
  tn_model *m;
  tn_plan plan;
} Limited;

// lengths come as they are, or are computed in the run
static Limited limited(int64_t max_rows, bool computed) {
  Limited r = {.p = tn_program_create("limited")};
  tn_dim batch = tn_dim_bounded(r.p, "batch", 2 * B), time = tn_dim_bounded(r.p, "time", 4 * T);
  tn_function *f = tn_function_begin(r.p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(batch, time, F)), len = tn_input(f, "len", TN_I64, TN_SHAPE(batch));
  if (computed) len = tn_add_scalar(len, 1);
  tn_packed s = tn_pack_padded(x, len, .allow_empty = true, .max_rows = max_rows);
  CHECK(tn_pack_padded(x, len, .allow_empty = true).layout.v ==
        s.layout.v);  // who asks for no bound takes the one there is
  tn_packed h =
      tn_packed_map("tanh", tn_packed_concat_time(tn_packed_map("square", s), tn_packed_slice(s, 1, TN_TO_END)));
  h = tn_packed_conv1d(h, tn_full(f, 0.1, TN_SHAPE(4, F, 3)), TN_NONE, .padding = 2);
  tn_tensor y = tn_packed_sum(h);
  tn_output(f, "y", y);
  tn_output(f, "dx", tn_grad(tn_sum(tn_square(y)), x));
  r.m = compile(r.p, f, 2);
  CHECK(r.m && tn_plan_of(r.m, "run", &r.plan) == TN_OK);
  return r;
}

static tn_status run_limited(const Limited *r, const int64_t *lengths, float *y, float *dx) {
  static float x[B * T * F];
  fill(x, B * T * F, 5);
  return tn_run(r->m, "run", TN_IN(tn_f32(x, B, T, F), tn_i64(lengths, B)),
                TN_OUT(tn_f32(y, B, 4), tn_f32(dx, B, T, F)));
}

static void free_limited(Limited *r) {
  tn_model_free(r->m);
  tn_program_free(r->p);
}

static void fewer_rows(void) {
  static const int64_t fits[B] = {3, 7, 1, 7, 2}, less[B] = {0, 7, 0, 6, 0}, more[B] = {4, 7, 1, 7, 2};
  static float y[2][B * 4], dx[2][B * T * F];
  Limited all = limited(0, false), few = limited(LIMIT, false);
  CHECK(10 * few.plan.peak_bytes < 3 * all.plan.peak_bytes);  // 20 of 280 rows; dx has the bounds of x
  for (int k = 0; k < 2; k++) {
    CHECK(run_limited(&all, k ? less : fits, y[0], dx[0]) == TN_OK);
    CHECK(run_limited(&few, k ? less : fits, y[1], dx[1]) == TN_OK);
    CHECK(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(dx[0], dx[1], sizeof dx[0]));
  }
  y[1][0] = 7;
  CHECK(run_limited(&few, more, y[1], dx[1]) == TN_ERR_VALUE && y[1][0] == 7);  // before anything is written
  CHECK_HAS(tn_error_text(few.m),
            "input 'len': the lengths sum to 21, above 20, the bound of the rows that they pack (.max_rows)");
  CHECK(run_limited(&all, fits, y[0], dx[0]) == TN_OK && run_limited(&few, fits, y[1], dx[1]) == TN_OK);
  CHECK(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(dx[0], dx[1], sizeof dx[0]));
  free_limited(&all), free_limited(&few);
}

// The run finds them out: one more each makes 20 of 15, and 21 of 16.
static void fewer_rows_computed(void) {
  static const int64_t fits[B] = {2, 6, 0, 6, 1}, more[B] = {2, 6, 0, 6, 2}, long_before[B] = {6, 6, 6, 6, 6};
  static float y[2][B * 4], dx[2][B * T * F];
  Limited all = limited(0, true), few = limited(LIMIT, true);
  CHECK(run_limited(&all, fits, y[0], dx[0]) == TN_OK && run_limited(&few, fits, y[1], dx[1]) == TN_OK);
  CHECK(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(dx[0], dx[1], sizeof dx[0]));
  CHECK(run_limited(&few, more, y[1], dx[1]) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(few.m),
            "run: lengths computed in the run sum to 21 rows, above 20, the bound of their layout");
  CHECK(run_limited(&few, long_before, y[1], dx[1]) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(few.m), "sum to 35 rows, above 20");
  CHECK(run_limited(&few, fits, y[1], dx[1]) == TN_OK && !memcmp(y[0], y[1], sizeof y[0]));
  free_limited(&all), free_limited(&few);
}

// Programs that differ in this alone share no kernel: models of this test have one cache of objects.
static void two_limits(void) {
  static const int64_t lengths[B] = {3, 3, 3, 2, 2};
  static float x[B * T], y[B];
  for (int k = 0; k < 3; k++) {
    tn_program *p = tn_program_create("two");
    tn_function *f = tn_function_begin(p, "run");
    tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(B, T)), len = tn_input(f, "len", TN_I64, TN_SHAPE(B));
    tn_output(f, "y", tn_packed_sum(tn_pack_padded(in, tn_add_scalar(len, 1), .max_rows = k == 1 ? 17 : 18)));
    tn_model *m = compile(p, f, 1);
    CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, B, T), tn_i64(lengths, B)), TN_OUT(tn_f32(y, B))) ==
                   (k == 1 ? TN_ERR_VALUE : TN_OK));
    tn_model_free(m);
    tn_program_free(p);
  }
}

// ---- rows of one sequence behind those of the other, as a loader gives them: the bits of what is packed from padded values
enum { MOST_ROWS = 24, N_ROWS = 20 };
static void fill_padded(float *padded, const float *rows, const int64_t *lengths) {
  memset(padded, 0, B * T * F * sizeof *padded);
  for (int b = 0; b < B; b++)
    for (int t = 0; t < lengths[b]; t++, rows += F) memcpy(padded + (b * T + t) * F, rows, F * sizeof *rows);
}

static bool same_rows(const float *padded, const float *rows, const int64_t *lengths) {
  bool same = true;
  for (int b = 0; b < B; b++)
    for (int t = 0; t < lengths[b]; t++, rows += F) same &= !memcmp(padded + (b * T + t) * F, rows, F * sizeof *rows);
  return same;
}

static tn_tensor sum_of_rows(tn_packed s, tn_packed label) {
  tn_packed h = tn_packed_map("tanh", tn_packed_zip("mul", s, label));
  h = tn_packed_concat(tn_packed_cumsum(h), tn_packed_sort(h, false).values);
  return tn_packed_sum(h);
}

static void rows_as_they_come(uint32_t n_workers) {
  static const int64_t lengths[2][B] = {{3, 7, 0, 7, 3}, {1, 1, 0, 6, 1}};
  static float x[N_ROWS * F], padded[B * T * F], y[2][B * 2 * F], dx[B * T * F], dx_rows[N_ROWS * F], again[B * T * F];
  tn_program *p = tn_program_create("rows");
  tn_dim batch = tn_dim_bounded(p, "batch", B + 2), letters = tn_dim_bounded(p, "letters", MOST_ROWS);
  tn_function *f = tn_function_begin(p, "padded");
  tn_tensor in = tn_input(f, "x", TN_F32, TN_SHAPE(batch, T, F)), len = tn_input(f, "len", TN_I64, TN_SHAPE(batch));
  tn_packed s = tn_pack_padded(in, len, .allow_empty = true);
  tn_tensor sum = sum_of_rows(s, tn_pack_like(in, s, true));
  tn_output(f, "y", sum), tn_output(f, "dx", tn_grad(tn_sum(tn_square(sum)), in));
  tn_function_end(f);
  f = tn_function_begin(p, "rows");
  in = tn_input(f, "x", TN_F32, TN_SHAPE(letters, F)), len = tn_input(f, "len", TN_I64, TN_SHAPE(batch));
  s = tn_pack_rows(in, len, .max_length = T, .allow_empty = true);
  tn_packed label = tn_pack_rows(in, len, .max_length = T, .allow_empty = true);
  CHECK(s.layout.v == label.layout.v);
  CHECK(tn_pack_rows(in, len, .max_length = T - 1, .allow_empty = true).layout.v != s.layout.v);
  sum = sum_of_rows(s, label);
  tn_output(f, "y", sum), tn_output(f, "dx", tn_grad(tn_sum(tn_square(sum)), in));
  tn_output(f, "again", tn_pad_packed(s, 0, true));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = n_workers, .buckets = TN_BUCKET_LIST({letters, 16}));
  for (int k = 0; k < 2; k++) {  // 20 rows, and 9, which a smaller plan holds
    int64_t rows = k ? 9 : 20;
    fill(x, N_ROWS * F, 8), fill_padded(padded, x, lengths[k]);
    CHECK(m && tn_run(m, "padded", TN_IN(tn_f32(padded, B, T, F), tn_i64(lengths[k], B)),
                      TN_OUT(tn_f32(y[0], B, 2 * F), tn_f32(dx, B, T, F))) == TN_OK);
    CHECK(m && tn_run(m, "rows", TN_IN(tn_f32(x, rows, F), tn_i64(lengths[k], B)),
                      TN_OUT(tn_f32(y[1], B, 2 * F), tn_f32(dx_rows, rows, F), tn_f32(again, B, T, F))) == TN_OK);
    CHECK(!memcmp(y[0], y[1], sizeof y[0]) && same_rows(dx, dx_rows, lengths[k]) &&
          !memcmp(again, padded, sizeof again));
  }
  y[1][0] = 7;
  CHECK(tn_run(m, "rows", TN_IN(tn_f32(x, 19, F), tn_i64(lengths[0], B)),
               TN_OUT(tn_f32(y[1], B, 2 * F), tn_f32(dx_rows, 19, F), tn_f32(again, B, T, F))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "input 'len': the lengths sum to 20, and there are 19 rows");
  CHECK(y[1][0] == 7);
  tn_model_free(m);
  tn_program_free(p);
}

// Lengths that are computed: the run compares them with the rows that there are, and reads no others.
static void rows_of_computed_lengths(void) {
  tn_program *p = tn_program_create("computed");
  tn_dim letters = tn_dim_bounded(p, "letters", MOST_ROWS);
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(letters)), len = tn_input(f, "len", TN_I64, TN_SHAPE(B));
  tn_packed s = tn_pack_rows(x, tn_add_scalar(len, 1));
  tn_output(f, "y", tn_packed_sum(s));
  tn_output(f, "dx", tn_grad(tn_sum(tn_packed_cumsum(s).data), x));
  tn_model *m = compile(p, f, 1);
  static const int64_t lengths[B] = {1, 2, 0, 2, 4};
  static const float want[] = {2, 1, 3, 2, 1, 1, 3, 2, 1, 5, 4, 3, 2, 1};
  float v[MOST_ROWS], y[B], dx[MOST_ROWS];
  for (int k = 0; k < MOST_ROWS; k++) v[k] = 1;
  const tn_array n = tn_i64(lengths, B);
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(v, 14), n), TN_OUT(tn_f32(y, B), tn_f32(dx, 14))) == TN_OK);
  CHECK(y[0] == 2 && y[1] == 3 && y[2] == 1 && y[4] == 5 && !memcmp(dx, want, sizeof want));
  CHECK(tn_run(m, "run", TN_IN(tn_f32(v, 13), n), TN_OUT(tn_f32(y, B), tn_f32(dx, 13))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "lengths computed in the run sum to 14 rows, above 13");
  CHECK(tn_run(m, "run", TN_IN(tn_f32(v, 15), n), TN_OUT(tn_f32(y, B), tn_f32(dx, 15))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "lengths computed in the run sum to 14 rows, and there are 15");
  tn_model_free(m);
  tn_program_free(p);
}

// Sequences of a list have bounds of their own: 4 + 1 + 4 rows, not 3 times 4.
static void rows_of_a_list(void) {
  tn_program *p = tn_program_create("list");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor list[3];
  static const char *const names[] = {"a", "b", "c"};
  for (int k = 0; k < 3; k++)
    list[k] = tn_input(f, names[k], TN_F32, TN_SHAPE(tn_dim_bounded(p, names[k], k ? 3 * (k - 1) + 1 : 4)));
  tn_packed s = tn_pack_sequence(list, 3, .allow_empty = true);
  tn_output(f, "y", tn_packed_sum(s));
  tn_output(f, "rows", s.data);
  tn_model *m = compile(p, f, 1);
  float a[4] = {1, 2, 3, 4}, b[1] = {5}, c[4] = {6, 7, 8, 9}, y[3], rows[9];
  const tn_array in[] = {tn_f32(a, 4), tn_f32(b, 1), tn_f32(c, 4)};
  CHECK(m && tn_run(m, "run", in, 3, TN_OUT(tn_f32(y, 3), tn_f32(rows, 9))) == TN_OK);
  CHECK(y[0] == 10 && y[1] == 5 && y[2] == 30 && rows[0] == 1 && rows[8] == 9);
  CHECK(tn_run(m, "run", in, 3, TN_OUT(tn_f32(y, 3), tn_f32(rows, 8))) == TN_ERR_ARGUMENT);
  CHECK_HAS(tn_error_text(m), "expected at least 9");
  tn_model_free(m);
  tn_program_free(p);
}

// Equal numbers of rows are no equal layouts.
static void rows_of_another_layout(void) {
  tn_program *p = tn_program_create("rows");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = (tn_input)(f, "x", TN_F32, TN_SHAPE(2, 3), at(1));
  tn_packed a = (tn_pack_constant)(x, (int64_t[]){3, 1}, 2, (tn_pack_options){.at = at(10)});
  tn_packed b = (tn_pack_constant)(x, (int64_t[]){2, 2}, 2, (tn_pack_options){.at = at(11)});
  tn_packed c = (tn_pack_constant)(x, (int64_t[]){3, 1}, 2, (tn_pack_options){.at = at(12)});
  CHECK((tn_add)(a.data, c.data, at(13)).v && !(tn_mul)(a.data, b.data, at(14)).v);
  tn_function_end(f);
  CHECK_HAS(report_of(p),
            "user.c:14: error[E111]: packed sequences of different lengths are joined by tn_mul: [3,1] and [2,2]\n"
            "user.c:10: note: the first was packed here\nuser.c:11: note: the second was packed here\n");
  CHECK(tn_n_errors(p) == 1);
  tn_program_free(p);
}

// An empty list has no function to report to; what is given out of it has.
static void empty_lists(void) {
  tn_program *p = tn_program_create("empty");
  tn_function *f = tn_function_begin(p, "run");
  (tn_output)(f, "y", tn_pad_sequence(NULL, 0, 0, true), at(10));
  (tn_output)(f, "z", tn_pack_sequence(NULL, 0).data, at(11));
  tn_function_end(f);
  CHECK_HAS(report_of(p), "user.c:10: error[E003]: operand 1 is an empty handle: no call made it\n");
  CHECK_HAS(report_of(p), "user.c:11: error[E003]: operand 1 is an empty handle: no call made it\n");
  tn_program_free(p);
}

static void lists_refused(void) {
  tn_program *p = tn_program_create("refused");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor a = (tn_input)(f, "a", TN_F32, TN_SHAPE(3, 2), at(1)),
            b = (tn_input)(f, "b", TN_F32, TN_SHAPE(2, 4), at(2));
  tn_tensor out[3];
  CHECK(!(tn_pack_sequence)((tn_tensor[]){a, b}, 2, (tn_pack_options){.at = at(10)}).data.v);
  CHECK(!(tn_pad_sequence)((tn_tensor[]){a, b}, 2, 0, true, at(11)).v);
  CHECK(!(tn_unpad)(a, (int64_t[]){2, 3, 1}, 3, true, out, at(12)));
  CHECK(!(tn_pad_sequence)(NULL, 0, 0, true, at(13)).v &&
        !(tn_pack_sequence)(&a, 0, (tn_pack_options){.at = at(14)}).data.v);
  tn_function_end(f);
#define OTHER(line)                                                                                            \
  "user.c:" #line ": error[E111]: sequence 1 has another dtype, or other sizes behind time, than sequence 0\n" \
  "user.c:1: note: sequence 0 is input 'a', f32[3,2], made here\n"                                             \
  "user.c:2: note: sequence 1 is input 'b', f32[2,4], made here\n"
  CHECK_HAS(report_of(p), OTHER(10) OTHER(11) "user.c:12: error[E115]: length 3 at index 1 is not in [0, 2]\n"
                                              "user.c:1: note: the padded value is input 'a', f32[3,2], made here\n");
  CHECK(tn_n_errors(p) == 3);
  tn_program_free(p);
}

// Packed data put on a layout stays the storage that it is, as in PyTorch: writes to either are seen in both.
static void with_data_shares(void) {
  tn_program *p = tn_program_create("with_data");
  tn_function *f = tn_function_begin(p, "run");
  tn_packed s = tn_pack_constant(tn_input(f, "x", TN_F32, TN_SHAPE(2, 2)), ((int64_t[]){2, 1}), 2);
  tn_tensor t = tn_mul_scalar(s.data, 1);
  tn_packed q = tn_packed_with_data(s, t);
  tn_mul_(q.data, tn_scalar(f, 0.5));
  tn_add_(t, tn_scalar(f, 1));
  tn_packed_dispose(q);
  CHECK(tn_is_alive(t));
  tn_tensor plain = tn_rows(s);
  tn_add_(plain, tn_scalar(f, 10));
  tn_output(f, "t", t);
  tn_output(f, "s", s.data);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  float x[] = {1, 3, 2, 99}, shared[3], rows[3];
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, 2, 2)), TN_OUT(tn_f32(shared, 3), tn_f32(rows, 3))) == TN_OK);
  CHECK(shared[0] == 1.5f && shared[1] == 2 && shared[2] == 2.5f);
  CHECK(rows[0] == 11 && rows[1] == 12 && rows[2] == 13);
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  against_padding();
  attention();
  sentence_beside_token();
  tagger();
  totals_of_nothing();
  long_sequences();
  no_padding();
  lists();
  layouts();
  rows_of_another_layout();
  fewer_rows();
  fewer_rows_computed();
  two_limits();
  rows_of_a_list();
  rows_as_they_come(1), rows_as_they_come(2);
  rows_of_computed_lengths();
  lists_refused();
  empty_lists();
  with_data_shares();
  return check_report();
}
