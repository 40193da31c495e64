// Rotary positions with a cache of keys and values: step by step as all at once; masks and positions that are refused.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/models.h"
#include "tests/report.h"

#include <math.h>
#include <string.h>

enum { STEPS = 9, HEADS = 2, SIZE = 8, ALL = STEPS * HEADS * SIZE };

static tn_model *decoder(bool interleaved) {
  tn_program *p = tn_program_create("rope");
  tn_dim n = tn_dim_bounded(p, "n", STEPS);
  tn_module *cache = tn_kv_cache(tn_root(p), "cache", 1, HEADS, STEPS, SIZE);
  tn_tensor x[3];
  tn_function *f = tn_function_begin(p, "all");
  for (int k = 0; k < 3; k++)
    x[k] = tn_input(f, (const char *[]){"q", "k", "v"}[k], TN_F32, TN_SHAPE(1, STEPS, HEADS, SIZE));
  tn_tensor q = tn_rope(x[0], .heads_inside = true, .interleaved = interleaved),
            k = tn_rope(x[1], .heads_inside = true, .interleaved = interleaved);
  tn_output(f, "y", tn_scaled_dot_product_attention(q, k, x[2], .causal = true, .heads_inside = true));
  tn_function_end(f);
  f = tn_function_begin(p, "some");
  for (int j = 0; j < 3; j++)
    x[j] = tn_input(f, (const char *[]){"q", "k", "v"}[j], TN_F32, TN_SHAPE(1, n, HEADS, SIZE));
  tn_tensor pos = tn_kv_cache_position(f, cache);
  q = tn_rope(x[0], .heads_inside = true, .interleaved = interleaved, .offset = pos, .most = STEPS);
  k = tn_rope(x[1], .heads_inside = true, .interleaved = interleaved, .offset = pos, .most = STEPS);
  tn_output(f, "y", tn_kv_cache_attend(cache, q, k, x[2]));
  tn_function_end(f);
  return model_alone(p);
}

static void check_decoding(bool interleaved) {
  tn_model *m = decoder(interleaved);
  float in[3][ALL], whole[ALL], part[ALL];
  if (!m) return;
  for (int k = 0; k < 3 * ALL; k++) in[k / ALL][k % ALL] = sinf((float)(k * k % 101));
  CHECK(!tn_run(m, "all",
                TN_IN(tn_f32(in[0], 1, STEPS, HEADS, SIZE), tn_f32(in[1], 1, STEPS, HEADS, SIZE),
                      tn_f32(in[2], 1, STEPS, HEADS, SIZE)),
                TN_OUT(tn_f32(whole, 1, STEPS, HEADS, SIZE))));
  for (int64_t done = 0, n = 4; done < STEPS; done += n, n = 1) {  // a prompt, then a step at a time
    int64_t from = done * HEADS * SIZE;
    CHECK(!tn_run(m, "some",
                  TN_IN(tn_f32(in[0] + from, 1, n, HEADS, SIZE), tn_f32(in[1] + from, 1, n, HEADS, SIZE),
                        tn_f32(in[2] + from, 1, n, HEADS, SIZE)),
                  TN_OUT(tn_f32(part + from, 1, n, HEADS, SIZE))));
  }
  for (int k = 0; k < ALL; k++) CHECK(fabsf(whole[k] - part[k]) < 1e-5f);
  CHECK(tn_run(
            m, "some",
            TN_IN(tn_f32(in[0], 1, 1, HEADS, SIZE), tn_f32(in[1], 1, 1, HEADS, SIZE), tn_f32(in[2], 1, 1, HEADS, SIZE)),
            TN_OUT(tn_f32(part, 1, 1, HEADS, SIZE))) == TN_ERR_VALUE);
  CHECK_HAS(tn_error_text(m), "takes at most 9 steps, and where it is full tn_kv_cache_reset empties it");
  tn_model_free(m);
}

// What does not fit is said of the cache, and changes nothing: a run of fewer steps goes on.
static void check_full(void) {
  tn_program *p = tn_program_create("full");
  tn_dim n = tn_dim_bounded(p, "n", 4);
  tn_module *cache = tn_kv_cache(tn_root(p), "cache", 1, 1, 4, 2);
  tn_function *f = tn_function_begin(p, "some");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, n, 1, 2));
  tn_output(f, "y", (tn_kv_cache_attend)(cache, x, x, x, (tn_attention_options){.at = at(34)}));
  tn_function_end(f);
  tn_model *m = model_of(p);
  const float in[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const tn_status status[] = {TN_OK, TN_ERR_VALUE, TN_OK, TN_ERR_VALUE};
  for (int k = 0; CHECK(m) && k < 4; k++) {
    float y[8];
    int64_t steps = k == 2 ? 1 : 3;
    CHECK(tn_run(m, "some", TN_IN(tn_f32(in, 1, steps, 1, 2)), TN_OUT(tn_f32(y, 1, steps, 1, 2))) == status[k]);
    if (k == 1)
      CHECK_HAS(tn_error_text(m), "some: the cache of tn_kv_cache_attend at user.c:34 is full: it holds 3 of at most 4 "
                                  "steps, and those of this run do not fit; tn_kv_cache_reset empties it");
    if (k == 3) CHECK_HAS(tn_error_text(m), "holds 4 of at most 4 steps");
  }
  if (m) tn_model_free(m);
  tn_program_free(p);
}

// An offset that an input brings is looked at before anything is written.
static void check_position(void) {
  tn_program *p = tn_program_create("position");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 4)), pos = tn_input(f, "pos", TN_I64, TN_SCALAR);
  tn_output(f, "y", (tn_rope)(x, (tn_rope_options){.offset = pos, .most = 10, .at = at(7)}));
  tn_function_end(f);
  tn_model *m = model_of(p);
  for (int64_t k = -1; CHECK(m) && k <= 9; k++) {
    float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {-7};
    tn_status status =
        tn_run(m, "run", TN_IN(tn_f32(in, 2, 4), ((tn_array){.data = &k, .dtype = TN_I64})), TN_OUT(tn_f32(y, 2, 4)));
    CHECK(status == (k < 0 || k > 8 ? TN_ERR_VALUE : TN_OK) && (!status || y[0] == -7));
    if (k == 9) CHECK_HAS(tn_error_text(m), "input 'pos': start of a slice (user.c:7) 9 at [0] is not in 0..8");
  }
  if (m) tn_model_free(m);
  tn_program_free(p);
}

// Steps and classes of the run out of their range.
static void check_lengths_and_classes(void) {
  tn_program *p = tn_program_create("last");
  tn_function *f = tn_function_begin(p, "run");
  tn_dim T = tn_dim_bounded(p, "time", 4);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, T, 1)), n = tn_input(f, "n", TN_I64, TN_SHAPE(2)),
            c = tn_input(f, "c", TN_I64, TN_SHAPE(2));
  tn_output(f, "last", tn_take_last(x, n));
  tn_output(f, "hot", tn_one_hot(c, 3));
  tn_function_end(f);
  tn_model *m = model_of(p);
  static const struct {
    int64_t n[2], c[2];
    const char *text;
  } runs[] = {{{3, 1}, {0, 2}, NULL},
              {{0, 1}, {0, 2}, "input 'n': length 0 at [0] is not in 1..3"},
              {{1, 4}, {0, 2}, "input 'n': length 4 at [1] is not in 1..3"},
              {{1, 1}, {0, 3}, "input 'c': index 3 at [1] is not in 0..2"},
              {{1, 1}, {-1, 0}, "input 'c': index -1 at [0] is not in 0..2"}};
  for (size_t k = 0; m && k < sizeof runs / sizeof *runs; k++) {
    float in[6] = {1, 2, 3, 4, 5, 6}, last[2] = {-7, -7};
    int64_t hot[6] = {-7};
    tn_status status = tn_run(m, "run", TN_IN(tn_f32(in, 2, 3, 1), tn_i64(runs[k].n, 2), tn_i64(runs[k].c, 2)),
                              TN_OUT(tn_f32(last, 2, 1), tn_i64(hot, 2, 3)));
    CHECK(status == (runs[k].text ? TN_ERR_VALUE : TN_OK));
    if (runs[k].text) CHECK_HAS(tn_error_text(m), runs[k].text);
    CHECK(runs[k].text ? last[0] == -7 && hot[0] == -7 : last[0] == 3 && last[1] == 4 && hot[0] == 1 && hot[5] == 1);
  }
  if (m) tn_model_free(m);
  tn_program_free(p);
}

static void check_refused(void) {
  tn_program *p = tn_program_create("refused");
  tn_function *f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 6)), i = tn_input(f, "i", TN_I64, TN_SHAPE(3, 6)),
            pos = tn_input(f, "pos", TN_I64, TN_SCALAR);
  (tn_rope)(i, (tn_rope_options){.at = at(1)});
  (tn_rope)(pos, (tn_rope_options){.at = at(2)});
  (tn_rope)(x, (tn_rope_options){.heads_inside = true, .at = at(3)});
  (tn_rope)(x, (tn_rope_options){.size = 5, .at = at(4)});
  (tn_rope)(x, (tn_rope_options){.size = 8, .at = at(5)});
  (tn_rope)(x, (tn_rope_options){.base = -1, .at = at(6)});
  (tn_rope)(x, (tn_rope_options){.offset = pos, .at = at(7)});
  (tn_rope)(x, (tn_rope_options){.const_offset = -1, .at = at(8)});
  (tn_rope)(x, (tn_rope_options){.most = 2, .at = at(9)});
  (tn_scaled_dot_product_attention)(x, x, x, (tn_attention_options){.mask = i, .at = at(10)});
  (tn_scaled_dot_product_attention)(x, x, x, (tn_attention_options){.mask = x, .at = at(11)});
  (tn_take_last)(x, pos, at(12));
  (tn_take_last)(pos, pos, at(13));
  (tn_one_hot)(x, 3, at(14));
  tn_module *m = (tn_transformer)(tn_root(p), "m", 4, 2, 1, 1, (tn_transformer_options){.at = at(15)}),
            *l = tn_linear(tn_root(p), "l", 4, 4);
  tn_tensor y = tn_input(f, "y", TN_F32, TN_SHAPE(2, 3, 4));
  (tn_call)(m, y, at(16));
  (tn_transformer_call)(l, y, y, (tn_transformer_call_options){.at = at(17)});
  tn_packed s = tn_pack_padded(y, tn_input(f, "n", TN_I64, TN_SHAPE(2)));
  (tn_rope)(s.data, (tn_rope_options){.offset = tn_input(f, "several", TN_I64, TN_SHAPE(1)), .most = 8, .at = at(18)});
  const char *text = report_of(p);
  CHECK_HAS(text, "user.c:1: error[E005]: tn_rope takes f32");
  CHECK_HAS(text, "user.c:2: error[E005]: tn_rope takes f32");
  CHECK_HAS(text, "user.c:3: error[E004]: tn_rope takes [..,T,H,D]");
  CHECK_HAS(text, "user.c:4: error[E003]: tn_rope turns an even number of elements, 2 to all of a head");
  CHECK_HAS(text, "user.c:5: error[E003]: tn_rope turns an even number");
  CHECK_HAS(text, "user.c:6: error[E003]: tn_rope takes a base above 0");
  CHECK_HAS(text, "user.c:7: error[E003]: tn_rope with an offset of the run takes .most");
  CHECK_HAS(text, "user.c:8: error[E003]: positions of tn_rope are 0 or more");
  CHECK_HAS(text, "user.c:9: error[E004]");
  CHECK_HAS(text, "user.c:10: error[E005]: the mask of attention is bool or f32, not i64[3,6]");
  CHECK_HAS(text, "user.c:11: error[E004]");
  CHECK_HAS(text, "user.c:12: error[E0");
  CHECK_HAS(text, "user.c:13: error[E004]: tn_take_last takes padded sequences [B,T,..], not i64[]");
  CHECK_HAS(text, "user.c:14: error[E005]: tn_one_hot takes whole numbers");
  CHECK_HAS(text, "user.c:16: error[E003]: module 'm' works on a source and a target");
  CHECK_HAS(text, "hint: tn_transformer_call(m, source, target)");
  CHECK_HAS(text, "user.c:18: error[E004]: the offset of tn_rope is a scalar");
  CHECK_HAS(text, "user.c:17: error[E003]: module 'l' is no transformer of an encoder and a decoder");
  tn_program_free(p);
}

// Matrices of a transformer begin with Xavier's values, biases of attention as zeros.
static void check_transformer_init(void) {
  tn_program *p = tn_program_create("init");
  tn_transformer(tn_root(p), "m", 16, 2, 1, 1, .feedforward = 24);
  tn_function *f = tn_function_begin(p, "run");
  tn_output(f, "one", tn_scalar(f, 1));
  tn_function_end(f);
  tn_model *m = model_of(p);
  if (!m) return;
  static const struct {
    const char *path;
    int rows, columns;
  } of[] = {{"m.encoder.layers.0.self_attn.in_proj_weight", 48, 16},
            {"m.decoder.layers.0.multihead_attn.out_proj.weight", 16, 16},
            {"m.decoder.layers.0.linear1.weight", 24, 16}};
  for (int k = 0; k < 3; k++) {
    float w[48 * 16], most = 0, bound = sqrtf(6.0f / (float)(of[k].rows + of[k].columns));
    int n = of[k].rows * of[k].columns;
    CHECK(tn_get(m, of[k].path, w, (size_t)n) == TN_OK);
    for (int j = 0; j < n; j++) most = fmaxf(most, fabsf(w[j]));
    CHECK(most <= bound && most > 0.9f * bound);
  }
  float norm[16], bias[48];
  CHECK(tn_get(m, "m.decoder.norm.weight", norm, 16) == TN_OK && norm[3] == 1);
  CHECK(tn_get(m, "m.encoder.layers.0.self_attn.in_proj_bias", bias, 48) == TN_OK && bias[7] == 0);
  tn_model_free(m);
  tn_program_free(p);
}

// Two caches of one function, of different room, beside each other or one behind the other: a run in which the second has none
// left changes neither, and both go on as one cache of a function of its own does.
static void check_two(bool chained) {
  enum { ROOM = 6 };
  tn_program *p = tn_program_create("two");
  tn_dim n = tn_dim_bounded(p, "n", STEPS);
  tn_module *cache[] = {tn_kv_cache(tn_root(p), "a", 1, HEADS, STEPS, SIZE),
                        tn_kv_cache(tn_root(p), "b", 1, HEADS, ROOM, SIZE)},
            *alone = tn_kv_cache(tn_root(p), "alone", 1, HEADS, ROOM, SIZE);
  tn_function *f = tn_function_begin(p, "both");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, n, HEADS, SIZE)), y = tn_kv_cache_attend(cache[0], x, x, x);
  tn_output(f, "y", tn_kv_cache_attend(cache[1], chained ? y : x, chained ? y : x, x));
  tn_output(f, "a", tn_kv_cache_position(f, cache[0])), tn_output(f, "b", tn_kv_cache_position(f, cache[1]));
  tn_function_end(f);
  f = tn_function_begin(p, "alone");
  x = tn_input(f, "x", TN_F32, TN_SHAPE(1, n, HEADS, SIZE));
  tn_output(f, "y", tn_kv_cache_attend(alone, x, x, x));
  tn_function_end(f);
  f = tn_function_begin(p, "held");
  for (int k = 0; k < 2; k++) tn_output(f, (const char *[]){"a", "b"}[k], tn_kv_cache_position(f, cache[k]));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  static float in[ALL], out[ALL], want[ALL];
  for (int k = 0; k < ALL; k++) in[k] = sinf((float)k);
  int64_t held[2] = {0};
  const int64_t room[] = {2, 3, 2, 1};  // the third run has no room in b
  for (int64_t k = 0, at = 0; m && k < 4; k++) {
    tn_array part = tn_f32(in + at * HEADS * SIZE, 1, room[k], HEADS, SIZE), to = part, other = part;
    to.data = out, other.data = want;
    tn_status status = tn_run(m, "both", TN_IN(part), TN_OUT(to, tn_i64(&held[0]), tn_i64(&held[1])));
    CHECK(status == (k == 2 ? TN_ERR_VALUE : TN_OK));
    if (k == 2) CHECK_HAS(tn_error_text(m), "is full: it holds 5 of at most 6 steps");
    else at += room[k];
    CHECK(tn_run(m, "held", NULL, 0, TN_OUT(tn_i64(&held[0]), tn_i64(&held[1]))) == TN_OK && held[0] == at &&
          held[1] == at);
    if (k == 2 || chained) continue;
    CHECK(tn_run(m, "alone", TN_IN(part), TN_OUT(other)) == TN_OK);
    for (int j = 0; j < room[k] * HEADS * SIZE; j++) CHECK(fabsf(out[j] - want[j]) < 1e-6f);
  }
  tn_model_free(m), tn_program_free(p);
}

int main(void) {
  check_two(false), check_two(true);
  for (int k = 0; k < 2; k++) check_decoding(k);
  check_full();
  check_position();
  check_lengths_and_classes();
  check_refused();
  check_transformer_init();
  return check_report();
}
