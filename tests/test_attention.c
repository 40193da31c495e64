// Attention through the public API: against the same thing composed of products and softmax for many shapes, with one
// to three workers; the module against PyTorch; memory; tied embeddings; what is refused.
#include "codegen/target.h"
#include "frontend/tenure.h"
#include "tests/case_numbers.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"
#include "tests/near.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>

static float noise(uint32_t k) {  // in [-1, 1)
  uint32_t h = k * 2654435761u + 12345u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (float)(h >> 8) * 0x1p-23f - 1;
}

static float *noises(size_t n, uint32_t seed) {
  float *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; v && i < n; i++) v[i] = noise((uint32_t)i + seed * 1000003u);
  return v;
}

// ---- against products and softmax
typedef struct {
  int64_t b, h, tq, tk, d;
  bool causal, inside, has_len;
  const char *note;
  int64_t shared;    // heads that share keys and values; 0: 1
  const char *bias;  // axes that it has of "bhqk"; NULL: no bias
  int64_t offset, window;
  bool is_run_time, is_by_sequence;  // the offset, that of sequence b: 7 b less
} Case;

static const Case cases[] = {
    {1, 1, 1, 1, 1, false, false, false, .note = "one"},
    {2, 3, 1, 333, 64, false, false, true, .note = "decoding"},
    {2, 4, 1, 200, 40, true, true, false, .note = "decoding, shared keys, an offset", .shared = 4, .offset = 155,
     .is_run_time = true},
    {2, 4, 1, 1099, 48, false, false, true, .note = "decoding, shared keys, several blocks", .shared = 4},
    {1, 2, 4, 703, 77, true, false, true, .note = "four queries, several blocks", .bias = "bk", .offset = 641},
    {2, 12, 1, 333, 64, false, true, true, .note = "decoding, heads side by side"},
    {1, 34, 2, 150, 21, true, true, false, .note = "decoding, several vectors of heads, two queries", .offset = 141},
    {1, 32, 1, 201, 130, true, true, false, .note = "decoding, several vectors of wide heads, a bias", .bias = "hk",
     .offset = 199, .window = 77},
    {3, 24, 1, 140, 48, true, true, true, .note = "decoding, heads side by side, some share keys", .shared = 3,
     .offset = 120, .window = 99, .is_run_time = true, .is_by_sequence = true},
    {1, 16, 1, 70, 300, false, true, false, .note = "decoding, few heads, wider than a block", .shared = 4},
    {2, 17, 1, 150, 40, false, true, true, .note = "decoding, vectors of 9 and 8 heads"},
    {1, 37, 1, 99, 130, true, true, false, .note = "decoding, a prime number of wide heads, a bias", .bias = "hk",
     .offset = 90},
    {3, 3, 2, 77, 24, true, true, true, .note = "decoding, three heads, two queries", .offset = 70},
    {2, 14, 1, 203, 48, false, true, true, .note = "decoding, two heads that 7 queries share", .shared = 7},
    {1, 25, 1, 131, 33, true, true, false, .note = "decoding, 5 heads that 5 queries share", .shared = 5,
     .offset = 100},
    {1, 16, 1, 300, 64, false, false, true, .note = "decoding, 8 queries share keys", .shared = 8},
    {2, 3, 7, 230, 72, true, false, false, .note = "seven queries, several blocks", .bias = "hk", .offset = 200},
    {1, 6, 3, 90, 20, false, false, true, .note = "three queries of two heads", .shared = 2},
    {1, 2, 300, 300, 16, true, false, false, .note = "several chunks, few heads"},
    {2, 4, 65, 129, 80, false, true, false, .note = "tails of queries, keys and size"},
    {2, 4, 128, 128, 64, true, true, false, .note = "whole tiles"},
    {1, 9, 63, 63, 33, true, true, true, .note = "causal and lengths"},
    {1, 3, 40, 257, 130, true, false, false, .note = "causal across, wide heads"},
    {3, 2, 100, 31, 5, true, true, true, .note = "more queries than keys"},
    {2, 1, 33, 70, 300, false, false, false, .note = "head wider than a block"},
    {1, 2, 300, 300, 16, true, false, false, .note = "bias, several chunks", .bias = "hqk"},
    {2, 5, 65, 129, 20, false, false, true, .note = "bias of all axes", .bias = "bhqk"},
    {2, 5, 290, 33, 8, false, true, false, .note = "bias over batch and heads", .bias = "qk"},
    {3, 2, 70, 150, 8, true, false, false, .note = "bias of keys", .bias = "bk"},
    {1, 8, 60, 260, 24, true, false, false, .note = "shared keys, few heads", .shared = 4},
    {4, 6, 33, 140, 24, true, true, true, .note = "shared keys, many heads", .shared = 3},
    {2, 4, 40, 200, 16, true, false, false, .note = "multi-query, a bias, an offset", .shared = 4, .bias = "hk",
     .offset = 155},
    {2, 5, 70, 300, 16, true, false, true, .note = "offset", .offset = 217, .is_run_time = true},
    {1, 2, 270, 300, 16, true, false, false, .note = "offset, few heads", .offset = 21, .is_run_time = true},
    {1, 2, 100, 300, 16, true, false, false, .note = "negative offset", .offset = -37, .is_run_time = true},
    {3, 4, 1, 90, 16, true, false, true, .note = "one query, an offset of each sequence", .shared = 2, .offset = 60,
     .window = 21, .is_run_time = true, .is_by_sequence = true},
    {4, 2, 33, 90, 16, true, false, false, .note = "an offset of each sequence", .bias = "hk", .offset = 12,
     .is_run_time = true, .is_by_sequence = true},
    {3, 2, 150, 90, 16, false, false, false, .note = "window, an offset of each sequence", .offset = 1, .window = 30,
     .is_run_time = true, .is_by_sequence = true},
    {1, 1, 600, 600, 16, true, false, false, .note = "window, few heads", .window = 130},
    {2, 8, 270, 270, 8, true, true, true, .note = "window, many heads", .window = 33},
    {2, 4, 270, 150, 8, false, false, false, .note = "window to both sides", .window = 40},
    {2, 4, 40, 300, 8, true, false, false, .note = "all of them", .shared = 2, .bias = "qk", .offset = 201,
     .window = 101, .is_run_time = true},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_IN = 4, N_OUT = 2 * (N_IN + 1) };

static int64_t shared_by(const Case *c) { return c->shared ? c->shared : 1; }

// [B,G,T,D] -> [B,H,T,D]
static tn_tensor repeated(const Case *c, tn_tensor x) {
  tn_dim B = tn_dim_const(c->b), G = tn_dim_const(c->h / shared_by(c)), N = tn_dim_const(shared_by(c)),
         K = tn_dim_const(c->tk), D = tn_dim_const(c->d);
  x = tn_expand(tn_reshape(x, TN_SHAPE(B, G, 1, K, D)), TN_SHAPE(B, G, N, K, D));
  return tn_reshape(x, TN_SHAPE(B, tn_dim_const(c->h), K, D));
}

// scores [B,H,Tq,Tk] + mask + bias, softmax, times v; everything with heads outside.
static tn_tensor composed(const Case *c, const tn_tensor x[N_IN], tn_tensor mask) {
  tn_tensor k = repeated(c, x[1]), v = repeated(c, x[2]);
  tn_tensor s = tn_mul(tn_matmul(x[0], tn_transpose(k, 2, 3)), tn_scalar(x[0].fn, 1 / sqrt((double)c->d)));
  if (c->bias) s = tn_add(s, x[3]);
  // a row that sees nothing is zeros
  tn_tensor sees = tn_gt(mask, tn_scalar(mask.fn, -1));
  return tn_matmul(tn_mul(tn_softmax(tn_add(s, mask), -1), sees), v);
}

static int64_t bias_axis(const Case *c, int axis) {
  const int64_t full[4] = {c->b, c->h, c->tq, c->tk};
  return c->bias && strchr(c->bias, "bhqk"[axis]) ? full[axis] : 1;
}

// Elements of q, k, v, bias.
static size_t count_of(const Case *c, int k) {
  int64_t bias = bias_axis(c, 0) * bias_axis(c, 1) * bias_axis(c, 2) * bias_axis(c, 3);
  int64_t heads = k ? c->h / shared_by(c) : c->h;
  return (size_t)(k == 3 ? bias : c->b * heads * (k ? c->tk : c->tq) * c->d);
}

static tn_array array_of(const Case *c, int k, float *v) {
  int64_t heads = k ? c->h / shared_by(c) : c->h, steps = k ? c->tk : c->tq;
  if (k == 3) return tn_f32(v, bias_axis(c, 0), bias_axis(c, 1), bias_axis(c, 2), bias_axis(c, 3));
  return c->inside ? tn_f32(v, c->b, steps, heads, c->d) : tn_f32(v, c->b, heads, steps, c->d);
}

static tn_tensor input_of(const Case *c, tn_function *f, int k) {
  static const char *const names[N_IN] = {"q", "k", "v", "bias"};
  tn_array like = array_of(c, k, NULL);
  tn_dim d[4];
  for (int axis = 0; axis < 4; axis++) d[axis] = tn_dim_const(like.dims[axis]);
  return tn_input(f, names[k], TN_F32, TN_SHAPE(d[0], d[1], d[2], d[3]));
}

static void add_outputs(tn_function *f, const char *name, tn_tensor y, tn_tensor weight, const tn_tensor in[N_IN],
                        bool has_bias) {
  char text[32];
  tn_tensor loss = tn_sum(tn_mul(y, weight));
  snprintf(text, sizeof text, "%s", name);
  tn_output(f, text, y);
  for (int k = 0; k < N_IN; k++) {
    snprintf(text, sizeof text, "%s_d%d", name, k);
    tn_output(f, text, k < 3 || has_bias ? tn_grad(loss, in[k]) : tn_mul_scalar(in[k], 0));
  }
}

static tn_program *both_ways(const Case *c) {
  tn_program *p = tn_program_create("attention");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor in[N_IN], out[N_IN];
  for (int k = 0; k < N_IN; k++) {
    in[k] = input_of(c, f, k);
    out[k] = c->inside && k < 3 ? tn_transpose(in[k], 1, 2) : in[k];
  }
  tn_tensor mask =
      tn_input(f, "mask", TN_F32, TN_SHAPE(tn_dim_const(c->b), 1, tn_dim_const(c->tq), tn_dim_const(c->tk)));
  tn_tensor weight = tn_mul_scalar(tn_sin(tn_mul_scalar(in[0], 5)), 0.7);
  tn_tensor length = tn_input(f, "n", TN_I64, TN_SHAPE(tn_dim_const(c->b))),
            offset = tn_input(f, "o", TN_I64, c->is_by_sequence ? TN_SHAPE(tn_dim_const(c->b)) : TN_SCALAR);
  tn_attention_options o = {.causal = c->causal, .heads_inside = c->inside, .window = c->window};
  if (c->has_len) o.lengths = length;
  if (c->bias) o.bias = in[3];
  if (c->is_run_time) o.offset = offset;
  else o.const_offset = c->offset;
  weight = tn_detach(weight);
  add_outputs(f, "y", (tn_scaled_dot_product_attention)(in[0], in[1], in[2], o), weight, in, c->bias);
  tn_tensor z = composed(c, out, mask);
  add_outputs(f, "z", c->inside ? tn_transpose(z, 1, 2) : z, weight, in, c->bias);
  tn_function_end(f);
  return p;
}

static int64_t length_of(const Case *c, int64_t b) { return c->has_len ? 1 + (b + 1) * (c->tk - 1) / c->b : c->tk; }

static bool is_seen(const Case *c, int64_t b, int64_t t, int64_t k) {
  int64_t at = t + c->offset - (c->is_by_sequence ? 7 * b : 0);
  if (k >= length_of(c, b) || (c->causal && k > at)) return false;
  return !c->window || (k > at - c->window && k < at + c->window);
}

static void run_case(const Case *c, uint32_t n_workers, float *result[N_OUT]) {
  tn_program *p = both_ways(c);
  tn_model *m = model_of(p, .n_workers = n_workers);
  int64_t pairs = c->b * c->tq * c->tk, n[4], offset[4] = {c->offset};
  float *in[N_IN], *mask = noises((size_t)pairs, 4);
  for (int k = 0; k < N_IN; k++) in[k] = noises(count_of(c, k), (uint32_t)k + 1);
  for (int64_t b = 0; b < c->b; b++) n[b] = length_of(c, b), offset[b] = c->offset - 7 * b;
  for (int64_t i = 0; i < pairs; i++)
    mask[i] = is_seen(c, i / c->tk / c->tq, i / c->tk % c->tq, i % c->tk) ? 0 : -1e30f;
  tn_array out[N_OUT], args[7];
  for (int k = 0; k < N_OUT; k++) out[k] = array_of(c, k % 5 ? k % 5 - 1 : 0, result[k]);
  for (int k = 0; k < N_IN; k++) args[k] = array_of(c, k, in[k]);
  args[4] = tn_f32(mask, c->b, 1, c->tq, c->tk), args[5] = tn_i64(n, c->b),
  args[6] = (tn_array){.data = offset, .dtype = TN_I64, .rank = c->is_by_sequence, .dims = {c->b}};
  if (m && !CHECK(tn_run(m, "f", args, 7, out, N_OUT) == TN_OK)) printf("%s\n", tn_error_text(m));
  for (int k = 0; k < N_IN; k++) free(in[k]);
  free(mask);
  tn_model_free(m);
  tn_program_free(p);
}

static void check_case(const Case *c) {
  float *result[3][N_OUT];
  for (uint32_t w = 0; w < 3; w++) {
    for (int k = 0; k < N_OUT; k++) result[w][k] = calloc(count_of(c, k % 5 ? k % 5 - 1 : 0), sizeof(float));
    run_case(c, w + 1, result[w]);
  }
  for (int k = 0; k < N_OUT / 2; k++) {
    size_t n = count_of(c, k ? k - 1 : 0);
    if (!CHECK(all_near_largest(c->note, result[0][k], result[0][N_OUT / 2 + k], n, 2e-5, 1e-2)))
      printf("%s: output %d\n", c->note, k);
    CHECK(!memcmp(result[0][k], result[1][k], n * sizeof(float)));
    CHECK(!memcmp(result[0][k], result[2][k], n * sizeof(float)));
  }
  for (int w = 0; w < 3; w++)
    for (int k = 0; k < N_OUT; k++) free(result[w][k]);
}

static void test_shapes(void) {
  for (int i = 0; i < N_CASES; i++)
    if (is_sampled((uint64_t)i, 2)) check_case(&cases[i]);
}

// Few queries read keys and values as several streams of memory on the row avx2 alone.
static void test_streams(void) {
  char lack[TARGET_LACK];
  const Target *t = cg_target_find("avx2");
  if (!CHECK(t != NULL) || !cg_target_runs_here(t, lack)) return;
  setenv("TN_TARGET", "avx2", 1);
  for (int i = 0; i < N_CASES; i++)
    if (cases[i].tq <= 4 && cases[i].tk > 1) check_case(&cases[i]);
  unsetenv("TN_TARGET");
}

// ---- memory: 4096 steps, whose scores would take 64 MB a head
static void test_memory(void) {
  enum { T = 4096, D = 8, H = 2 };
  tn_program *p = tn_program_create("long");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, T, 3, H, D));
  tn_tensor y = tn_attention_packed(x, .causal = true);
  tn_output(f, "loss", tn_sum(y));
  tn_output(f, "d_x", tn_grad(tn_sum(y), x));
  tn_function_end(f);
  tn_model *m = model_of(p);
  float *in = noises(T * 3 * H * D, 9), *d = malloc(T * 3 * H * D * sizeof *d), loss = 0;
  for (int64_t i = 0; i < T * H * D; i++)
    in[i / (H * D) * 3 * H * D + 2 * H * D + i % (H * D)] = 1;  // all values are 1
  tn_plan plan;
  CHECK(m && tn_plan_of(m, "f", &plan) == TN_OK && plan.peak_bytes < 4 * T * H * (6 * D + 8));
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(in, 1, T, 3, H, D)), TN_OUT(tn_f32_scalar(&loss), tn_f32(d, 1, T, 3, H, D))) ==
                 TN_OK);
  CHECK(fabs(loss / (T * H * D) - 1) < 1e-5);  // rows of probabilities sum to 1
  double most = 0, sum_v = 0;                  // so that q and k get no gradient, and v one for each query
  for (int64_t i = 0; i < T * 3 * H * D; i++) {
    if (i / (H * D) % 3 == 2) sum_v += d[i];
    else most = fmax(most, fabs(d[i]));
  }
  CHECK(most < 1e-4 && fabs(sum_v / (T * H * D) - 1) < 1e-5);
  free(in), free(d);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- the module
enum { B = 2, T = 3, S = 4, E = 6, H = 2, WEIGHTS = 4 };
static const char *const paths[WEIGHTS] = {"a.in_proj_weight", "a.in_proj_bias", "a.out_proj.weight",
                                           "a.out_proj.bias"};
static const size_t sizes[WEIGHTS] = {3 * E * E, 3 * E, E *E, E};
static GoldenArrays goldens;

// In [-1, 1): make_mha_goldens.py draws the weights by seeds 1 to 4, x, memory, other and weight by 5 to 8, the words by 9.
static void draw(float *to, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) to[i] = (float)(case_unit((uint32_t)i, seed) * 2 - 1);
}

static const char *const gradients[WEIGHTS] = {"in_w", "in_b", "out_w", "out_b"};

static bool near_golden(const char *call, const char *what, const float *found, size_t n) {
  char name[32];
  float want[3 * E * E];
  snprintf(name, sizeof name, "%s_%s", call, what);
  const double *golden = golden_array(&goldens, name, n);
  for (size_t i = 0; i < n; i++) want[i] = (float)golden[i];
  return all_near_largest(name, found, want, n, 1e-5, 1e-2);
}

static void check_module(const char *call) {
  tn_program *p = tn_program_create("mha");
  tn_module *a = tn_multi_head_attention(tn_root(p), "a", E, H, .causal = !strcmp(call, "causal"));
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(B, T, E));
  tn_tensor memory = tn_input(f, "memory", TN_F32, TN_SHAPE(B, S, E));
  tn_tensor other = tn_input(f, "other", TN_F32, TN_SHAPE(B, S, E));
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(B));
  tn_tensor w = tn_input(f, "w", TN_F32, TN_SHAPE(B, T, E)), y;
  if (!strcmp(call, "cross")) y = tn_attention_call(a, x, memory, TN_NONE, .lengths = n);
  else if (!strcmp(call, "three")) y = tn_attention_call(a, x, memory, other);
  else y = tn_call(a, x);
  tn_output(f, "y", y);
  tn_backward(tn_sum(tn_mul(y, w)));
  tn_module *out_proj = tn_child(a, "out_proj");
  tn_output(f, "d0", tn_param_grad(f, a, "in_proj_weight"));
  tn_output(f, "d1", tn_param_grad(f, a, "in_proj_bias"));
  tn_output(f, "d2", tn_param_grad(f, out_proj, "weight"));
  tn_output(f, "d3", tn_param_grad(f, out_proj, "bias"));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  float in[4][B * S * E], found[5][3 * E * E], weight[3 * E * E];
  draw(in[0], B * T * E, 5), draw(in[1], B * S * E, 6), draw(in[2], B * S * E, 7), draw(in[3], B * T * E, 8);
  const int64_t lengths[B] = {4, 2};
  for (int k = 0; m && k < WEIGHTS; k++) {
    draw(weight, sizes[k], 1 + (uint32_t)k);
    CHECK(tn_set(m, paths[k], weight, sizes[k]) == TN_OK);
  }
  CHECK(m && tn_run(m, "f",
                    TN_IN(tn_f32(in[0], B, T, E), tn_f32(in[1], B, S, E), tn_f32(in[2], B, S, E), tn_i64(lengths, B),
                          tn_f32(in[3], B, T, E)),
                    TN_OUT(tn_f32(found[4], B, T, E), tn_f32(found[0], 3 * E, E), tn_f32(found[1], 3 * E),
                           tn_f32(found[2], E, E), tn_f32(found[3], E))) == TN_OK);
  CHECK(near_golden(call, "y", found[4], B * T * E));
  for (int k = 0; k < WEIGHTS; k++) {
    char name[16];
    snprintf(name, sizeof name, "d_%s", gradients[k]);
    CHECK(near_golden(call, name, found[k], sizes[k]));
  }
  tn_model_free(m);
  tn_program_free(p);
}

static void test_module(void) {
  check_module("self"), check_module("causal"), check_module("cross"), check_module("three");
}

// ---- weights as a result change nothing; with dropout they are those that the values were summed by
static void test_weights(void) {
  enum {
    QUERIES = 9,
    KEYS = 70,
    SIZE = 5,
    HEADS = 4,
    GROUPS = 2,
    N_Y = 2 * HEADS * QUERIES * SIZE,
    N_W = 2 * HEADS * QUERIES * KEYS,
    PLAIN = 0,
    WEIGHED,
    DROPPED
  };
  static const char *const names[] = {"plain", "weighed", "dropped"};
  tn_program *p = tn_program_create("weights");
  for (int k = 0; k < 3; k++) {
    tn_function *f = tn_function_begin(p, names[k]);
    tn_tensor q = tn_input(f, "q", TN_F32, TN_SHAPE(2, HEADS, QUERIES, SIZE)), w = TN_NONE;
    tn_tensor kv = tn_input(f, "kv", TN_F32, TN_SHAPE(2, GROUPS, KEYS, SIZE));
    tn_tensor y = tn_scaled_dot_product_attention(q, kv, kv, .dropout = k == DROPPED ? 0.25 : 0,
                                                  .weights = k == PLAIN ? NULL : &w);
    tn_output(f, "y", y);
    if (k != PLAIN) tn_output(f, "w", w);
    if (k != PLAIN) tn_output(f, "sum", tn_matmul(w, tn_repeat_interleave(kv, HEADS / GROUPS, 1)));
    tn_function_end(f);
  }
  tn_model *m = model_of(p, .n_workers = 2);
  float *q = noises(N_Y, 3), *kv = noises(2 * GROUPS * KEYS * SIZE, 4), *y[3], *sum = malloc(N_Y * sizeof *sum),
        *w = malloc(N_W * sizeof *w);
  for (int k = 0; k < 3; k++) {
    y[k] = malloc(N_Y * sizeof *y[k]);
    const tn_array in[] = {tn_f32(q, 2, HEADS, QUERIES, SIZE), tn_f32(kv, 2, GROUPS, KEYS, SIZE)};
    const tn_array out[] = {tn_f32(y[k], 2, HEADS, QUERIES, SIZE), tn_f32(w, 2, HEADS, QUERIES, KEYS),
                            tn_f32(sum, 2, HEADS, QUERIES, SIZE)};
    CHECK(m && tn_run(m, names[k], in, 2, out, k == PLAIN ? 1 : 3) == TN_OK);
    if (k != PLAIN) CHECK(all_near_largest(names[k], sum, y[k], N_Y, 1e-5, 1e-2));
  }
  CHECK(!memcmp(y[PLAIN], y[WEIGHED], N_Y * sizeof **y));
  int dropped = 0;
  for (int k = 0; k < N_W; k++) dropped += w[k] == 0;
  CHECK(fabs((double)dropped / N_W - 0.25) < 0.03);
  tn_model_free(m);
  tn_program_free(p);
  free(q), free(kv), free(sum), free(w);
  for (int k = 0; k < 3; k++) free(y[k]);
}

// Weights of no heads are empty; without elements of a head all scores are 0.
static void test_empty_weights(void) {
  tn_program *p = tn_program_create("empty");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor none = tn_input(f, "none", TN_F32, TN_SHAPE(2, 0, 3, 4)), w[2] = {TN_NONE, TN_NONE};
  tn_tensor flat = tn_input(f, "flat", TN_F32, TN_SHAPE(1, 1, 3, 0));
  tn_output(f, "y", tn_scaled_dot_product_attention(none, none, none, .weights = &w[0]));
  tn_output(f, "z", tn_scaled_dot_product_attention(flat, flat, flat, .weights = &w[1]));
  for (int k = 0; k < 2; k++) tn_output(f, k ? "v" : "w", w[k]);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float empty[1] = {0}, v[9];
  const tn_array in[] = {tn_f32(empty, 2, 0, 3, 4), tn_f32(empty, 1, 1, 3, 0)};
  const tn_array out[] = {in[0], in[1], tn_f32(empty, 2, 0, 3, 3), tn_f32(v, 1, 1, 3, 3)};
  CHECK(m && tn_run(m, "f", in, 2, out, 4) == TN_OK);
  for (int k = 0; k < 9; k++) CHECK(fabsf(v[k] - 1 / 3.0f) < 1e-7f);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- one table in two places: one gradient, one state of the optimizer
static void test_tied(void) {
  tn_program *p = tn_program_create("tied");
  tn_module *net = tn_root(p), *words = tn_embedding(net, "words", 5, 3);
  tn_module *head = tn_linear(net, "head", 3, 5, .no_bias = true);
  tn_share(head, "weight", words, "weight");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(4)), y = tn_input(f, "y", TN_I64, TN_SHAPE(4));
  tn_tensor loss = tn_cross_entropy(tn_call(head, tn_tanh(tn_call(words, x))), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_output(f, "grad", tn_param_grad(f, words, "weight"));
  tn_adamw(f, net);
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 2);
  const int64_t xs[4] = {1, 4, 1, 0}, ys[4] = {2, 2, 0, 4};
  float table[15], grad[15], want[15], found = 0;
  draw(table, 15, 9);
  CHECK(m && tn_set(m, "words.weight", table, 15) == TN_OK);
  CHECK(m && tn_run(m, "f", TN_IN(tn_i64(xs, 4), tn_i64(ys, 4)), TN_OUT(tn_f32_scalar(&found), tn_f32(grad, 5, 3))) ==
                 TN_OK);
  CHECK(fabs(found - *golden_array(&goldens, "tied_loss", 1)) < 1e-5 && near_golden("tied", "grad", grad, 15));
  uint32_t n_tables = 0;
  for (uint32_t k = 0; m && k < tn_param_count(m); k++) n_tables += tn_param_at(m, k).rank == 2;
  CHECK(n_tables == 3);  // the table and both moments
  CHECK(m && tn_get(m, "head.weight", want, 15) == TN_OK && tn_get(m, "words.weight", table, 15) == TN_OK);
  CHECK(!memcmp(want, table, sizeof table));
  tn_model_free(m);
  tn_program_free(p);
}

// ---- what is refused
typedef tn_tensor Build(tn_function *f, tn_tensor q, tn_tensor k);
static tn_tensor other_heads(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f;
  return tn_scaled_dot_product_attention(q, k, k);
}
static tn_tensor all_dropped(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_scaled_dot_product_attention(q, q, q, .dropout = 1);
}
static tn_tensor other_ranks(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f;
  return tn_scaled_dot_product_attention(q, tn_reshape(k, TN_SHAPE(6, 5, 4)), k);
}
static tn_tensor no_packing(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_attention_packed(q);
}
static tn_tensor float_lengths(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)k;
  tn_tensor n = tn_full(f, 1, TN_SHAPE(2));
  return tn_scaled_dot_product_attention(q, q, q, .lengths = n);
}
static tn_tensor huge_heads(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)q, (void)k;
  q = tn_input(f, "huge", TN_F32, TN_SHAPE(1, 1, 2, 8193));
  return tn_scaled_dot_product_attention(q, q, q);
}
static tn_tensor odd_bias(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)k;
  return tn_scaled_dot_product_attention(q, q, q, .bias = tn_full(f, 1, TN_SHAPE(5, 4)));
}
static tn_tensor no_order(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_scaled_dot_product_attention(q, q, q, .const_offset = 2);
}
static tn_tensor two_offsets(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)k;
  tn_tensor o = tn_input(f, "o", TN_I64, TN_SCALAR);
  return tn_scaled_dot_product_attention(q, q, q, .causal = true, .offset = o, .const_offset = 2);
}
static tn_tensor offset_of_three(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)k;
  tn_tensor o = tn_input(f, "o", TN_I64, TN_SHAPE(3));
  return tn_scaled_dot_product_attention(q, q, q, .causal = true, .offset = o);
}
static tn_tensor negative_window(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_scaled_dot_product_attention(q, q, q, .window = -1);
}
static tn_module *odd;
static tn_tensor odd_heads(tn_function *f, tn_tensor q, tn_tensor k) {
  (void)f, (void)k;
  return tn_call(odd, q);
}

static void check_refused(Build *build, const char *expected) {
  tn_program *p = tn_program_create("refused");
  odd = build == odd_heads ? tn_multi_head_attention(tn_root(p), "odd", 10, 4) : NULL;
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor q = tn_input(f, "q", TN_F32, TN_SHAPE(2, 2, 5, 4));
  tn_tensor k = tn_input(f, "k", TN_F32, TN_SHAPE(2, 3, 5, 4));
  tn_output(f, "y", build(f, q, k));
  tn_function_end(f);
  CHECK(!tn_compile(p));
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  tn_report(p, out);
  fclose(out);
  CHECK_HAS(text, expected);
  free(text);
  tn_program_free(p);
}

static void test_refusals(void) {
  check_refused(other_heads, "the heads of q must be a multiple of those of k and v");
  check_refused(odd_bias, "the bias is [B,H,Tq,Tk], any of which may be 1");
  check_refused(no_order, "an offset is of causal order or of a window");
  check_refused(two_offsets, "one offset, a constant or a value");
  check_refused(offset_of_three, "the offset is a scalar, or [B]");
  check_refused(negative_window, "the window of attention is -1");
  check_refused(all_dropped, "dropout in [0, 1), not 1");
  check_refused(other_ranks, "these have 4, 3 and 4");
  check_refused(huge_heads, "a head has at most 8192 elements");
  check_refused(no_packing, "qkv is [B,T,3,H,D]");
  check_refused(float_lengths, "lengths must be i64");
  check_refused(odd_heads, "size 10 and 4 heads");
}

// A length beyond the keys is refused before anything runs.
static void test_lengths(void) {
  tn_program *p = tn_program_create("lengths");
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(2, 3, 4));
  tn_tensor n = tn_input(f, "n", TN_I64, TN_SHAPE(2));
  tn_output(f, "y", tn_scaled_dot_product_attention(x, x, x, .lengths = n));
  tn_function_end(f);
  tn_model *m = model_of(p, .n_workers = 1);
  float xs[24] = {1}, y[24];
  for (int k = 0; k < 24; k++) y[k] = 7;
  const int64_t good[] = {3, 0}, bad[] = {4, 1};
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(xs, 2, 3, 4), tn_i64(bad, 2)), TN_OUT(tn_f32(y, 2, 3, 4))) != TN_OK);
  if (m) CHECK_HAS(tn_error_text(m), "length");
  CHECK(y[0] == 7);
  CHECK(m && tn_run(m, "f", TN_IN(tn_f32(xs, 2, 3, 4), tn_i64(good, 2)), TN_OUT(tn_f32(y, 2, 3, 4))) == TN_OK);
  CHECK(y[0] != 7 && y[12] == 0 && y[23] == 0);  // the second sequence sees no key
  tn_model_free(m);
  tn_program_free(p);
}

int main(void) {
  RtArena *mem = rt_arena_new();
  goldens = golden_arrays(mem, "tests/mha_goldens");
  test_shapes();
  test_streams();
  test_memory();
  test_module();
  test_weights();
  test_empty_weights();
  test_tied();
  test_refusals();
  test_lengths();
  rt_arena_free(mem);
  return check_report();
}
